//! Bayesian logistic regression: yₙ ~ Bernoulli(sigmoid(θᵀxₙ)), an MLP without hidden layer whose bias is the last
//! coefficient (Yu et al. 2024, section 5.3).

use std::sync::Arc;

use ndarray::{Array2, Axis};

use crate::data::Dataset;
use crate::error::Result;
use crate::likelihood::Bernoulli;
use crate::network::{Activation, Architecture, NetworkMap};
use crate::prior::{Prior, PriorPrecision};
use crate::target::Target;

/// The posterior of the coefficients, intercept last, under independent N(0, `prior_variance`) (the paper's is 100).
pub fn logistic_regression(data: &Dataset, prior_variance: f64) -> Result<Target> {
    let architecture = Architecture::new(&[data.inputs().ncols(), 1], Activation::Identity)?;
    let prior = PriorPrecision::scalar(1.0 / prior_variance, &architecture.layer_params())?;
    let map = Arc::new(NetworkMap::new(architecture, data.inputs().view())?);
    Target::new(map, Arc::new(Bernoulli), data.targets().view(), Prior::gaussian(prior))
}

/// The inputs with every column centred and scaled to unit variance (over all rows, ddof 0). Constant columns are
/// only centred.
pub fn standardized(inputs: &Array2<f64>) -> Array2<f64> {
    let mut scaled = inputs.clone();
    for mut column in scaled.axis_iter_mut(Axis(1)) {
        let mean = column.sum() / column.len() as f64;
        column -= mean;
        let deviation = (column.iter().map(|value| value * value).sum::<f64>() / column.len() as f64).sqrt();
        if deviation > 0.0 {
            column /= deviation;
        }
    }
    scaled
}

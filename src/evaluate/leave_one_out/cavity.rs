//! Leave-one-out of the trained model and of the linearised posterior in closed form, from one pass over the data.
//!
//! The posterior N(θ̂, G⁻¹) is a product of the prior and one Gaussian factor per data point, with precision JᵀHJ/T and
//! score s = ∂log p/∂f at θ̂. Without the factor of point n, its outputs have (C = JG⁻¹Jᵀ, H = RRᵀ, W = RᵀCR/T)
//!
//! C₋ₙ = C + CR(I − W)⁻¹RᵀC/T,   m₋ₙ = f(θ̂) − C₋ₙ s/T:
//!
//! the *cavity*, which predicts yₙ as any other linearised prediction does, and whose mean is the trained model's own
//! output after a Newton step without the point. With Gaussian noise this is exact leave-one-out of the linearised model:
//! with one output, residual e and leverage h = C/σ², yₙ − m₋ₙ = e/(1 − h) and C₋ₙ + σ² = σ²/(1 − h).
//!
//! The largest eigenvalue of W is the point's leverage. With Gaussian noise it is also the exact tail index of the
//! importance ratios 1/p(yₙ | θ), which k̂ estimates from samples.

use faer::Mat;
use ndarray::{Array1, Array2, ArrayView2, Axis};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::laplace::{CurvatureKind, Laplace};
use crate::likelihood::RowLikelihood;
use crate::linalg::{symmetric_eigen, threads_are_free};
use crate::predict::{LatentGaussian, Link, Prediction, Predictive, linearized};

use super::{Estimator, LeaveOneOut};

/// Leave-one-out of the trained model alone and of the linearised posterior.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::prelude::*;
/// use riemannian_laplace::internals::evaluate::ClosedForms;
///
/// let network = Network::random(Architecture::new(&[1, 3, 1], Activation::Tanh)?, 1);
/// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [0.9], [0.4]])?;
/// let laplace = Laplace::fit(network, data, Family::gaussian(0.5)?, &FitOptions::default())?;
/// let both = ClosedForms::of(&laplace, Link::default())?;
/// assert_eq!(both.linearized.pointwise.len(), 3);
/// println!("{} better than the network alone", both.linearized.minus(&both.map)?);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ClosedForms {
    /// The trained model alone.
    pub map: LeaveOneOut,
    /// The linearised posterior, with the link that was asked for.
    pub linearized: LeaveOneOut,
    /// The predictions behind the first, at each data point without that point.
    pub map_prediction: Prediction,
    /// The predictions behind the second.
    pub linearized_prediction: Prediction,
}

impl ClosedForms {
    /// Both, at the training data of a posterior.
    pub fn of(laplace: &Laplace, link: Link) -> Result<Self> {
        let at_features = laplace.at_features();
        let laplace = at_features.as_ref().unwrap_or(laplace);
        let data = laplace.data().ok_or(Error::NoTrainingData { what: "leave-one-out" })?;
        let (schema, family) = (laplace.schema(), laplace.family());
        let with_all = linearized(laplace, data.inputs())?;
        let Cavities { latent, leverages } = Cavities::of(laplace, &with_all, data.targets().view())?;
        let predict = |predictive| Prediction::new(family.clone(), predictive, None, schema);
        let targets = schema.restore_targets(data.targets().view())?;
        let weights = Array1::from(family.weights(data.targets().view(), laplace.model().n_outputs()));
        let assemble = |method: &str, left_out: &Prediction, with_all: &Prediction| -> Result<LeaveOneOut> {
            Ok(LeaveOneOut {
                method: method.to_string(),
                estimator: Estimator::ClosedForm,
                pointwise: (left_out.log_densities(&targets)? * &weights).to_vec(),
                with_all_data: (with_all.log_densities(&targets)? * &weights).to_vec(),
                k: leverages.clone(),
                ranks: left_out.ranks(&targets)?,
            })
        };
        let network = |outputs: &Array2<f64>| predict(Predictive::Network { outputs: outputs.clone() });
        let map_prediction = network(&latent.mean)?;
        let map = assemble("map", &map_prediction, &network(&with_all.mean)?)?;
        let linearized_prediction = predict(Predictive::Linearized { latent, link })?;
        let with_all = predict(Predictive::Linearized { latent: with_all, link })?;
        let linearized = assemble("glm", &linearized_prediction, &with_all)?;
        Ok(Self { map, linearized, map_prediction, linearized_prediction })
    }

    /// Whether the linearised prediction is expected to be worse than that of the trained model alone.
    pub fn linearized_is_worse_than_map(&self) -> bool {
        self.linearized.elpd() < self.map.elpd()
    }
}

/// The Gaussian over the outputs at every data point without that point, and the points' leverages.
struct Cavities {
    latent: LatentGaussian,
    leverages: Vec<f64>,
}

/// The same for one point.
struct Cavity {
    mean: Vec<f64>,
    covariance: Array2<f64>,
    leverage: f64,
}

impl Cavities {
    fn of(laplace: &Laplace, with_all: &LatentGaussian, targets: ArrayView2<'_, f64>) -> Result<Self> {
        let p = with_all.mean.ncols();
        let temperature = laplace.temperature();
        let empirical = laplace.curvature_kind() == CurvatureKind::EmpiricalFisher;
        let of_point = |n: usize| -> Result<Cavity> {
            let row = targets.row(n).to_vec();
            let RowLikelihood { likelihood, target, weight, .. } = laplace.family().of_row(&row, p);
            let (mut score, mut whitening) = (vec![0.0; p], vec![0.0; p * p]);
            let outputs = with_all.mean.row(n).to_vec();
            likelihood.gradient(target, &outputs, &mut score);
            if empirical {
                // H = ssᵀ: one column is enough.
                (0..p).for_each(|i| whitening[i * p] = score[i] / weight.sqrt().max(f64::MIN_POSITIVE));
            } else {
                likelihood.whitening(&outputs, &mut whitening);
            }
            let covariance = with_all.covariance.index_axis(Axis(0), n);
            let mut without = covariance.to_owned();
            let covariance = Mat::from_fn(p, p, |i, j| covariance[(i, j)]);
            let root = Mat::from_fn(p, p, |i, j| whitening[i * p + j] / temperature.sqrt());
            let spread = &covariance * &root;
            let eigen = symmetric_eigen((root.transpose() * &spread).as_ref(), "the leverage of a data point")?;
            let leverage = eigen.values.iter().copied().fold(0.0, f64::max);
            if leverage.is_nan() || leverage >= 1.0 {
                return Err(Error::Leverage { row: n, leverage });
            }
            let turned = &spread * &eigen.vectors;
            for i in 0..p {
                for j in 0..p {
                    let terms = (0..p).map(|k| turned[(i, k)] * turned[(j, k)] / (1.0 - eigen.values[k].max(0.0)));
                    without[(i, j)] += terms.sum::<f64>();
                }
            }
            let shift = |i: usize| (0..p).map(|j| without[(i, j)] * score[j]).sum::<f64>();
            let mean = outputs.iter().enumerate().map(|(i, output)| output - shift(i) / temperature).collect();
            Ok(Cavity { mean, covariance: without, leverage })
        };
        let points = 0..targets.nrows();
        let cavities: Vec<Result<Cavity>> = match threads_are_free() {
            true => points.into_par_iter().map(of_point).collect(),
            false => points.map(of_point).collect(),
        };
        let mut latent = with_all.clone();
        let mut leverages = Vec::with_capacity(targets.nrows());
        for (n, cavity) in cavities.into_iter().enumerate() {
            let cavity = cavity?;
            leverages.push(cavity.leverage);
            latent.covariance.index_axis_mut(Axis(0), n).assign(&cavity.covariance);
            latent.mean.row_mut(n).iter_mut().zip(cavity.mean).for_each(|(entry, value)| *entry = value);
        }
        Ok(Self { latent, leverages })
    }
}

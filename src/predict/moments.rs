//! A predictive distribution by its moments: mean, the parts of the variance and, for classes, entropies.

use ndarray::{Array1, Array2};

use crate::likelihood::{Family, likelihood_of};

/// A predictive distribution, summarised: one row per test point, one column per target (or class).
///
/// The variances are of the observation y (for classes: of each class's indicator): what more data would reduce
/// (epistemic), what they would not (aleatoric), and their sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// E(y): the mean, or the class probabilities.
    pub mean: Array2<f64>,
    /// Var E(y | θ).
    pub epistemic_variance: Array2<f64>,
    /// E Var(y | θ).
    pub aleatoric_variance: Array2<f64>,
    /// Var y.
    pub total_variance: Array2<f64>,
    /// The entropy of the class probabilities, where samples were drawn.
    pub entropy: Option<Array1<f64>>,
    /// The mutual information between class and weights, where samples were drawn.
    pub mutual_information: Option<Array1<f64>>,
}

impl Moments {
    /// Adds the two parts of the variance.
    pub(crate) fn from_parts(mean: Array2<f64>, epistemic: Array2<f64>, aleatoric: Array2<f64>) -> Self {
        Self {
            total_variance: &epistemic + &aleatoric,
            mean,
            epistemic_variance: epistemic,
            aleatoric_variance: aleatoric,
            entropy: None,
            mutual_information: None,
        }
    }
}

/// E(y | f) and Var(y | f), row by row.
pub(crate) fn moments(family: &Family, outputs: &Array2<f64>) -> (Array2<f64>, Array2<f64>) {
    let likelihood = family.likelihood();
    let width = likelihood.n_means(outputs.ncols());
    let mut mean = Array2::zeros((outputs.nrows(), width));
    let (mut variance, mut buffer) = (mean.clone(), vec![0.0; width]);
    for (row, output) in outputs.rows().into_iter().enumerate() {
        let output = output.to_vec();
        likelihood_of(likelihood, row).mean(&output, &mut buffer);
        mean.row_mut(row).iter_mut().zip(&buffer).for_each(|(slot, value)| *slot = *value);
        likelihood_of(likelihood, row).variance(&output, &mut buffer);
        variance.row_mut(row).iter_mut().zip(&buffer).for_each(|(slot, value)| *slot = *value);
    }
    (mean, variance)
}

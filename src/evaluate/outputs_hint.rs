//! Whether a network's outputs look like something else than what the likelihood takes them for: probabilities in place of log
//! odds, means in place of their logarithms. The network was then trained with another loss, or its file ends a step later.

use ndarray::Array2;

use super::Deviances;
use crate::error::Result;
use crate::laplace::Laplace;
use crate::likelihood::TargetKind;

/// At most this many rows are looked at.
const MOST_ROWS: usize = 2000;
/// How far sums of probabilities may be from 1.
const ROUNDING: f64 = 1e-4;
/// How much more of the deviance the other reading must explain.
const CLEAR_GAIN: f64 = 0.1;

/// What the outputs look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputsLook {
    /// Probabilities, where the likelihood takes log odds or scores.
    LikeProbabilities,
    /// Means, where it takes their logarithms.
    LikeMeans,
    /// Logarithms of the targets, where it takes means.
    LikeLogarithms,
}

impl OutputsLook {
    /// Of a posterior at some of its training rows; `None` where they look right, or where it holds no data.
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::internals::evaluate::OutputsLook;
    /// use riemannian_laplace::prelude::*;
    ///
    /// // A network that gives rates, not their logarithms.
    /// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![4.0, 1.0])?;
    /// let data = Dataset::new(array![[0.0], [1.0], [2.0], [3.0]], array![[1.0], [5.0], [9.0], [13.0]])?;
    /// let laplace = Laplace::fit(network, data, "poisson".parse::<Family>()?, &FitOptions::default())?;
    /// assert_eq!(OutputsLook::of(&laplace)?, Some(OutputsLook::LikeMeans));
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn of(laplace: &Laplace) -> Result<Option<Self>> {
        let Some(data) = laplace.data() else { return Ok(None) };
        let rows: Vec<usize> = (0..data.len()).step_by(data.len().div_ceil(MOST_ROWS)).collect();
        let some = data.select(&rows)?;
        let outputs = laplace.outputs(some.inputs())?;
        let (family, schema) = (laplace.family(), laplace.schema());
        let likelihood = family.likelihood();
        let is_scaled = schema.scaling().is_some_and(|scaling| scaling.targets.is_some());
        let explained =
            |outputs: &Array2<f64>| Deviances::of(family, outputs, some.targets(), some.targets()).explained();
        let better = |other: Array2<f64>| explained(&other) > explained(&outputs).max(0.0) + CLEAR_GAIN;
        let are_shares = outputs.iter().all(|f| (0.0..=1.0).contains(f));
        Ok(match (likelihood.kind(), likelihood.mean_function()) {
            (TargetKind::Label, "softmax") => {
                let sums = outputs.rows().into_iter().all(|row| (row.sum() - 1.0).abs() < ROUNDING);
                (are_shares && sums).then_some(Self::LikeProbabilities)
            }
            (TargetKind::Answers | TargetKind::Count, "sigmoid") => {
                let odds = |p: &f64| (p.max(1e-9) / (1.0 - p).max(1e-9)).ln();
                (are_shares && better(outputs.map(odds))).then_some(Self::LikeProbabilities)
            }
            (TargetKind::Count | TargetKind::Positive, "exp") => {
                let means = outputs.iter().all(|f| *f > 0.0);
                (means && better(outputs.mapv(f64::ln))).then_some(Self::LikeMeans)
            }
            (TargetKind::Real, "identity")
                if !is_scaled && outputs.ncols() == family.observed(some.targets().view(), outputs.ncols()).ncols() =>
            {
                let targets = family.observed(some.targets().view(), outputs.ncols());
                let are_positive = targets.iter().all(|y| *y > 0.0) && outputs.iter().all(|f| *f < 100.0);
                (are_positive && better(outputs.mapv(f64::exp))).then_some(Self::LikeLogarithms)
            }
            _ => None,
        })
    }

    /// What to do about it, in words.
    pub fn advice(self) -> &'static str {
        match self {
            Self::LikeProbabilities => {
                "the outputs look like probabilities; this likelihood takes log odds (logits): export the network without its last \
                 sigmoid or softmax"
            }
            Self::LikeMeans => {
                "the outputs look like means; this likelihood takes their logarithms: export the network before its last \
                 exponential or softplus, or train it with the log link"
            }
            Self::LikeLogarithms => {
                "the outputs look like logarithms of the targets: fit the logarithm of the target, or choose a likelihood with a log \
                 link (poisson, negative-binomial, gamma)"
            }
        }
    }
}

//! Telling inputs that are unlike the data from those that are like them, by what a prediction says of its uncertainty.
//!
//! Three scores of a point, and for each the probability that an outside point has more of it than an inside one
//! ([`auroc`]):
//!
//! - all uncertainty ([`Prediction::uncertainty`]): for classes H(E p), the entropy of the mean probabilities. It is the
//!   score that papers usually give. An inside point between two classes has much of it as well.
//! - what more data would remove ([`Prediction::epistemic_uncertainty`]): for classes H(E p) − E H(p), the mutual information
//!   between class and weights.
//! - the spread of the logits ([`Prediction::logit_variance`]): what a saturated softmax hides from both.
//!
//! The latter two hardly depend on how far the probabilities are widened, so that a posterior which leaves the network's
//! probabilities as they are can still tell far inputs from near ones.

use serde::Serialize;

use super::ranking::auroc;
use crate::error::{Result, TeamError};
use crate::predict::Prediction;

/// What a way to predict says of its uncertainty at each of several points.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Uncertainties {
    /// [`Prediction::uncertainty`].
    pub total: Vec<f64>,
    /// [`Prediction::epistemic_uncertainty`]; none of the trained model alone.
    pub epistemic: Option<Vec<f64>>,
    /// [`Prediction::logit_variance`]; none of the trained model alone, and none where there are no classes.
    pub logits: Option<Vec<f64>>,
}

impl Uncertainties {
    /// Of a prediction.
    pub fn of(prediction: &Prediction) -> Result<Self> {
        Ok(Self {
            total: prediction.uncertainty().to_vec(),
            epistemic: prediction.epistemic_uncertainty()?.map(|values| values.to_vec()),
            logits: prediction.logit_variance().map(|values| values.to_vec()),
        })
    }

    /// One list after the other, as many as there are.
    pub(super) fn numbers(self) -> Vec<f64> {
        [Some(self.total), self.epistemic, self.logits].into_iter().flatten().flatten().collect()
    }

    /// Adds those of the next points, which [`numbers`](Self::numbers) has made.
    pub(super) fn extend(&mut self, numbers: &[f64], points: usize) -> Result<()> {
        let mut lists = numbers.chunks_exact(points.max(1));
        let (total, epistemic, logits) = (lists.next(), lists.next(), lists.next());
        if lists.next().is_some() || !lists.remainder().is_empty() {
            return Err(TeamError::Message.into());
        }
        self.total.extend(total.ok_or(TeamError::Message)?);
        for (all, part) in [(&mut self.epistemic, epistemic), (&mut self.logits, logits)] {
            if let Some(part) = part {
                all.get_or_insert_default().extend(part);
            }
        }
        Ok(())
    }

    /// How well each of them tells the points outside the data from these.
    pub fn tell_from(&self, outside: &Self) -> Result<OodScores> {
        let both = |inside: &Option<Vec<f64>>, outside: &Option<Vec<f64>>| {
            inside.as_ref().zip(outside.as_ref()).map(|(inside, outside)| auroc(inside, outside)).transpose()
        };
        Ok(OodScores {
            ood_auroc: auroc(&self.total, &outside.total)?,
            ood_auroc_epistemic: both(&self.epistemic, &outside.epistemic)?,
            ood_auroc_logits: both(&self.logits, &outside.logits)?,
        })
    }
}

/// How well points outside the data are told from those inside: 1 is always, ½ is chance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OodScores {
    /// By all uncertainty: the entropy of the mean probabilities, or the variance of y.
    pub ood_auroc: f64,
    /// By the epistemic uncertainty: the mutual information between class and weights, or the variance of E(y | θ). The
    /// trained model alone has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ood_auroc_epistemic: Option<f64>,
    /// By the variance of the logits, where there are classes; the trained model alone has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ood_auroc_logits: Option<f64>,
}

/// How well a prediction's uncertainty tells points outside the data (`outside`) from those inside.
pub fn ood_scores(inside: &Prediction, outside: &Prediction) -> Result<OodScores> {
    Uncertainties::of(inside)?.tell_from(&Uncertainties::of(outside)?)
}

//! What a leave-one-out score says, in words.

use super::{Estimator, K_LIMIT, LeaveOneOut};

/// Fewer samples than this make k̂ itself uncertain.
const FEW_SAMPLES: usize = 100;
/// p_loo/n from which on a network has adapted to single points (see docs/first-hour.md).
const ADAPTED: f64 = 0.2;
/// Standard errors of a share beyond which it is worth a word.
const CLEAR: f64 = 3.0;

impl LeaveOneOut {
    /// What is worth knowing before the numbers are used: one sentence each, none where all is well.
    ///
    /// Coverage is compared with what independent points would give by chance, three standard errors of a share.
    pub fn advice(&self) -> Vec<String> {
        let mut advice = Vec::new();
        let (count, unreliable) = (self.pointwise.len(), self.unreliable());
        match self.estimator {
            Estimator::Psis { samples } if samples < FEW_SAMPLES => {
                advice.push(format!("{samples} samples are too few to judge the weights; draw at least {FEW_SAMPLES}"))
            }
            Estimator::Psis { .. } | Estimator::ClosedForm => {}
        }
        if unreliable > 0 {
            let what = match self.estimator {
                Estimator::Psis { .. } => "k̂ exceeds",
                Estimator::ClosedForm => "the leverage exceeds",
            };
            advice.push(format!(
                "{what} {K_LIMIT} at {unreliable} of {count} points: the score of these is unreliable, and the posterior \
                 depends on them; look at them, or fit without them and compare"
            ));
        }
        if !self.is_comparable() {
            advice.push(format!(
                "with so many such points elpd_loo is too good, and is not compared with others: the samples are too few for \
                 about {:.0} effective parameters",
                self.p_loo()
            ));
        }
        if let Some(coverage) = self.coverage(0.9) {
            let ranks = self.ranks.as_ref().map_or(1, |ranks| ranks.len().max(1)) as f64;
            let chance = CLEAR * (0.9 * 0.1 / ranks).sqrt();
            let share = 100.0 * coverage;
            if coverage < 0.9 - chance {
                advice
                    .push(format!("90 % intervals contain {share:.0} % of the left-out targets: they are too narrow"));
            } else if coverage > 0.9 + chance {
                advice.push(format!("90 % intervals contain {share:.0} % of the left-out targets: they are too wide"));
            }
        }
        if let Some(share) = self.adapted_share() {
            advice.push(format!(
                "p_loo = {:.0} is {:.0} % of the {count} points: the weights have adapted to single points, and leave-one-out at \
                 these weights, which keeps what they learnt from the point, is too good; train again \
                 without parts of the data (K-fold refits), or score held-out rows",
                self.p_loo(),
                100.0 * share
            ));
        }
        advice
    }

    /// p_loo/n, where it is so large that the weights have adapted to single points.
    pub fn adapted_share(&self) -> Option<f64> {
        let share = self.p_loo() / self.pointwise.len().max(1) as f64;
        (share > ADAPTED).then_some(share)
    }
}

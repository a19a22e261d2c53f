//! The verdict on overfitting, and on what leave-one-out promised beside what held-out rows show.

use super::Report;
use super::contents::{Beside, Origin};
use super::verdict::{Finding, Mood};
use super::words::{percent, plus_minus};

/// The share of a constant's deviance by which held-out rows may be explained worse than training rows.
const GAP: f64 = 0.2;
/// The share of the training deviance that was explained and is gone on held-out rows, beyond which a network is overfitted.
const LOST: f64 = 0.3;
/// The share by which a linear model must explain held-out rows better.
const LINEAR_BETTER: f64 = 0.05;
/// p_loo/n from which on a network without held-out rows is taken to be overfitted.
pub(super) const ADAPTED: f64 = 0.2;

/// The share of training deviance from which on classes are explained all but perfectly, and what is far from a linear model.
const SATURATED: f64 = 0.9;
const FAR_FROM_LINEAR: f64 = 0.4;

/// Whether a network is overfitted, and what says so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Overfitting {
    /// Rows that it has not seen say no: held-out ones, or those left out of trainings by the same recipe.
    No,
    /// Rows that it has not seen say yes.
    Yes,
    /// No rows were held out; leave-one-out finds that the weights have adapted to single points.
    Likely {
        /// p_loo/n.
        adapted: f64,
    },
    /// No rows were held out, and nothing speaks for it.
    Unlikely,
}

impl Overfitting {
    /// Whether it is said to be overfitted.
    pub fn is_found(self) -> bool {
        matches!(self, Overfitting::Yes | Overfitting::Likely { .. })
    }
}

impl Report {
    /// Whether the network is overfitted, where the training data are known.
    pub fn overfitting(&self) -> Option<Overfitting> {
        let beside = self.beside.as_ref()?;
        match beside.network.of_new() {
            Some(of_new) => Some(judged(beside, of_new)),
            // A training that held rows out has judged by them.
            None if self.fitted.held_rows_out => Some(Overfitting::Unlikely),
            None => {
                let adapted = self.adapted_share()?;
                let likely = adapted > ADAPTED || self.is_saturated(beside);
                Some(if likely { Overfitting::Likely { adapted } } else { Overfitting::Unlikely })
            }
        }
    }

    /// Whether classes are explained all but perfectly where a linear model explains far less: probabilities of 0 and 1 leave
    /// nothing for leave-one-out to see.
    fn is_saturated(&self, beside: &Beside) -> bool {
        let (own, linear) = (beside.network.training, beside.linear.map(|linear| linear.training));
        !self.fitted.classes.is_empty()
            && own > SATURATED
            && linear.is_some_and(|linear| own - linear > FAR_FROM_LINEAR)
    }

    /// p_loo/n of the linearised posterior, or of the network alone.
    fn adapted_share(&self) -> Option<f64> {
        let place = |name: &str| self.methods.iter().position(|method| method.name == name);
        let loo = place("glm").or_else(|| place("map")).and_then(|method| self.left_out.of(method))?;
        Some(loo.p_loo() / loo.pointwise.len().max(1) as f64)
    }

    /// Training, held-out, constant and linear in one row.
    fn explained_in_words(&self, beside: &Beside) -> String {
        let pair = |explained: &super::contents::Explained| {
            let training = percent(explained.training);
            match (explained.held_out, explained.refits) {
                (Some(held_out), _) => format!("{training} of training and {} of held-out deviance", percent(held_out)),
                (None, Some(refits)) => format!(
                    "{training} of training deviance and, trained again without parts of the rows, {} of theirs",
                    percent(refits)
                ),
                (None, None) => format!("{training} of training deviance"),
            }
        };
        let linear =
            beside.linear.as_ref().map_or(String::new(), |linear| format!(", a linear model {}", pair(linear)));
        format!("The network explains {}{linear}, a constant 0 %.", pair(&beside.network))
    }

    /// The verdict on overfitting.
    pub(super) fn on_overfitting(&self) -> Option<Finding> {
        let (beside, verdict) = (self.beside.as_ref()?, self.overfitting()?);
        let row = self.explained_in_words(beside);
        let better_linear = match (beside.linear.and_then(|linear| linear.of_new()), beside.network.of_new()) {
            (Some(linear), Some(network)) => linear > network,
            _ => false,
        };
        let instead = match better_linear {
            true => {
                " The linear model is better (no hidden layers); a network is best trained by the default, which holds rows out."
            }
            false => {
                " Train it by the default, which holds rows out, without a given number of epochs; or with fewer hidden units or more data."
            }
        };
        let (mood, words) = match verdict {
            Overfitting::Yes => {
                (Mood::Bad, format!("Overfitted: what it learnt does not hold on new rows. {row}{instead}"))
            }
            Overfitting::Likely { adapted } => (
                Mood::Bad,
                format!(
                    "Probably overfitted: the weights have adapted to single points (p_loo is {} of their number). \
                     {row}{instead} Held-out rows would tell for certain.",
                    percent(adapted)
                ),
            ),
            Overfitting::No if better_linear => {
                (Mood::Note, format!("Not overfitted, and no better than a linear model. {row}"))
            }
            Overfitting::No => (Mood::Good, format!("Not overfitted. {row}")),
            Overfitting::Unlikely => {
                (Mood::Good, format!("Nothing speaks for overfitting, as far as training rows can tell. {row}"))
            }
        };
        Some(Finding { mood, about: "overfitting", words })
    }

    /// The promise of leave-one-out beside held-out rows; they have the last word.
    pub(super) fn on_promise(&self) -> Option<Finding> {
        let promise = self.promise.as_ref()?;
        let coverage = match (promise.promised_coverage, promise.coverage) {
            (Some(promised), Some(share)) => {
                format!(", and 90 % intervals that hold {} where {} was promised", percent(share), percent(promised))
            }
            _ => String::new(),
        };
        let both = format!(
            "leave-one-out at these weights promised {} nats a row, and held-out rows have {}{coverage}",
            super::number(promise.promised),
            plus_minus(promise.outcome, promise.error)
        );
        let (mood, words) = match promise.agrees() {
            true => (Mood::Good, format!("Promise and outcome agree: {both}.")),
            false => (
                Mood::Bad,
                format!(
                    "Promise and outcome disagree: {both}. Believe the held-out rows: the weights have adapted to the training \
                     points, or the data differ."
                ),
            ),
        };
        Some(Finding { mood, about: "promise", words })
    }

    /// Whether leave-one-out is all there is to judge by.
    pub(super) fn judges_by_left_out(&self) -> bool {
        self.scored.origin == Origin::Training
    }
}

/// By rows that were not trained on: much of what was explained is lost, or a linear model that learnt less of the training rows does better.
fn judged(beside: &Beside, of_new: f64) -> Overfitting {
    let training = beside.network.training;
    let lost = training - of_new;
    let much = lost > GAP && lost > LOST * training;
    let worse_than_linear = beside.linear.is_some_and(|linear| {
        let theirs = linear.of_new().unwrap_or(f64::NEG_INFINITY);
        theirs - of_new > LINEAR_BETTER && training > linear.training + LINEAR_BETTER
    });
    if training > 0.0 && (much || worse_than_linear) { Overfitting::Yes } else { Overfitting::No }
}

//! Judgements in words: each says what was looked at, what was found and what to do.

use super::contents::Origin;
use super::trust::Overfitting;
use super::words::{counted, gain_over, percent, plus_minus, thousands};
use super::{Report, number};
use crate::evaluate::Estimator;
use crate::geodesic::RESIDUAL_LIMIT;
use crate::predict::ALLOWED_SHARE;

/// What a finding means for trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mood {
    /// As it should be.
    Good,
    /// Worth knowing, and no reason for doubt.
    Note,
    /// Worth knowing before use.
    Care,
    /// A reason not to use it as it is.
    Bad,
}

impl Mood {
    /// The mood in a word, for those who see no colours.
    pub fn word(self) -> &'static str {
        match self {
            Mood::Good => "good",
            Mood::Note => "note",
            Mood::Care => "take care",
            Mood::Bad => "problem",
        }
    }
}

/// One judgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it means.
    pub mood: Mood,
    /// What was looked at, in a few words.
    pub about: &'static str,
    /// What was found, and what to do.
    pub words: String,
}

/// Rows can be equal by chance where columns have few values.
const FEW_REPEATED: f64 = 0.1;
/// More equal rows than this are the same data.
const MANY_REPEATED: f64 = 0.5;
/// A network that explains this much was read as it was trained.
const NEARLY_ALL: f64 = 0.95;
/// More effective parameters than this share of the data leave little to judge the noise by.
const MANY_PARAMETERS: f64 = 0.5;

impl Report {
    /// The judgements, in the order of their sections.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = vec![self.on_data()];
        found.extend(self.on_repeated());
        found.extend(self.on_fit());
        found.extend(self.on_overfitting());
        found.extend(self.on_calibration());
        found.extend(self.on_hold());
        found.extend(self.on_promise());
        found.extend(self.on_methods());
        found.extend(self.on_left_out());
        found.extend(self.on_range());
        found.extend(self.on_certificates());
        found.extend(self.on_residuals());
        found.extend(self.on_parameters());
        found
    }

    /// The answer to "can I trust this?", by the worst finding.
    pub fn headline(&self) -> (Mood, &'static str) {
        let worst = self.findings().iter().map(|finding| finding.mood).max().unwrap_or(Mood::Good);
        if self.overfitting().is_some_and(Overfitting::is_found) {
            return (worst, "No: the network is overfitted. Train it again before anything else here is used.");
        }
        if self.promise.as_ref().is_some_and(|promise| !promise.agrees()) {
            return (worst, "No: held-out rows do not keep what the training rows promised.");
        }
        let words = match worst {
            Mood::Good | Mood::Note => "Yes, for inputs like those it was trained on.",
            Mood::Care => "Mostly: read the points marked “take care” first.",
            Mood::Bad => "Not as it is: see what is marked as a problem.",
        };
        (worst, words)
    }

    fn on_data(&self) -> Finding {
        let rows = if self.scored.used < self.scored.rows {
            format!("{} of {}, evenly spaced", counted(self.scored.used, "row"), counted(self.scored.rows, "row"))
        } else {
            counted(self.scored.rows, "row")
        };
        match self.scored.origin {
            Origin::HeldOut if self.scored.used >= 30 => Finding {
                mood: Mood::Good,
                about: "data",
                words: format!(
                    "Scored on {rows} that were given as held out. That none of them was trained on is yours to know."
                ),
            },
            Origin::HeldOut => Finding {
                mood: Mood::Care,
                about: "data",
                words: format!("Scored on {rows} only: every score below has a wide margin of error."),
            },
            Origin::Training => Finding {
                mood: Mood::Care,
                about: "data",
                words: format!(
                    "Scored on the training data ({rows}), because no other data were given. Such scores are too good, the \
                     network’s own most of all; give held-out data to judge by."
                ),
            },
        }
    }

    /// Rows that were trained on are not held out.
    fn on_repeated(&self) -> Option<Finding> {
        let repeated = self.scored.repeated?;
        let share = repeated as f64 / self.scored.used.max(1) as f64;
        let mood = if share > MANY_REPEATED { Mood::Bad } else { Mood::Care };
        (share > FEW_REPEATED).then(|| Finding {
            mood,
            about: "data",
            words: format!(
                "{} of {} are also among the training data, so they were not held out: scores on them are too good.",
                thousands(repeated),
                counted(self.scored.used, "scored row")
            ),
        })
    }

    fn on_fit(&self) -> Option<Finding> {
        let fit = self.fitted.fit.as_ref()?;
        let explained = percent(fit.explained);
        let (mood, words) = if !fit.beats_constant() {
            let words = "The network explains less of its training data than a constant would. ";
            (Mood::Bad, format!("{words}{}", self.why_not_at_mode()))
        } else if !fit.is_at_mode() && fit.explained > NEARLY_ALL {
            let words = format!(
                "The network explains {explained} of its training data’s deviance but is not quite at a mode of it: its errors \
                 are biased, or a small change of its weights would remove much of what is left. Train it longer, or with a \
                 smaller learning rate at the end."
            );
            (Mood::Care, words)
        } else if !fit.is_at_mode() {
            let words = format!(
                "The network explains {explained} of its training data’s deviance but is not at a mode of it, which a \
                 Laplace approximation assumes. {}",
                self.why_not_at_mode()
            );
            (if self.fitted.stopped_early { Mood::Note } else { Mood::Bad }, words)
        } else {
            let words = format!(
                "The network explains {explained} of its training data’s deviance and sits at a mode of it, as a Laplace \
                 approximation assumes."
            );
            (Mood::Good, words)
        };
        Some(Finding { mood, about: "fit", words })
    }

    /// The likely causes, in their order.
    fn why_not_at_mode(&self) -> &'static str {
        match (self.fitted.trained_here, self.fitted.stopped_early) {
            (true, true) => "It was stopped early so that it does not overfit; held-out rows judge it.",
            (true, false) => {
                "Train it for more epochs or with a smaller learning rate at the end, or by the default, which goes to a mode. Or the posterior was fitted to other rows than the network."
            }
            (false, _) => {
                "It was probably not read as it was trained: check activations, layers, scaling and the order of columns. Or it \
                 was not trained to the end."
            }
        }
    }

    /// The shown method against the network alone, and every method that loses to it: on held-out data, or by
    /// leave-one-out.
    fn on_methods(&self) -> Vec<Finding> {
        let Some(map) = self.methods.iter().position(|method| method.name == "map") else { return Vec::new() };
        let logs = |index: usize| -> Option<&[f64]> {
            match self.scored.origin {
                Origin::HeldOut => Some(&self.methods[index].log_densities),
                Origin::Training => {
                    let comparable = self.left_out.of(index).filter(|scores| scores.is_comparable());
                    comparable.map(|scores| scores.pointwise.as_slice())
                }
            }
        };
        let by = match self.scored.origin {
            Origin::HeldOut => "on these data",
            Origin::Training => "by leave-one-out",
        };
        let mut found = Vec::new();
        for (index, method) in self.methods.iter().enumerate().filter(|(index, _)| *index != map) {
            let (Some(own), Some(alone)) = (logs(index), logs(map)) else { continue };
            let (gain, error) = gain_over(own, alone);
            let (words, difference) = (method.words, format!("{} nats per row", plus_minus(gain.abs(), error)));
            let (mood, sentence) = if gain > 2.0 * error {
                (
                    Mood::Good,
                    format!("The prediction “{words}” is better than the network alone {by}: by {difference}."),
                )
            } else if gain >= -2.0 * error {
                let side = if gain > 0.0 { "better" } else { "worse" };
                let sentence = format!(
                    "The prediction “{words}” cannot be told from the network alone {by}: it is {side} by {difference}."
                );
                (Mood::Good, sentence)
            } else {
                // The default is expected to do no harm; the others are there for comparison.
                let mood = if method.name == "glm" { Mood::Care } else { Mood::Note };
                (mood, format!("The prediction “{words}” is worse than the network alone {by}: by {difference}."))
            };
            if index == self.shown || mood != Mood::Good {
                found.push(Finding { mood, about: "method", words: sentence });
            }
        }
        found
    }

    /// What leave-one-out says about the method that is shown.
    fn on_left_out(&self) -> Vec<Finding> {
        let Some(scores) = self.left_out.of(self.shown) else { return Vec::new() };
        let finding = |mood, words| Finding { mood, about: "leave-one-out", words };
        // Where rows were held out, they judge coverage and overfitting; elsewhere overfitting has a verdict of its own.
        let mut advice: Vec<String> = scores.advice();
        let judged = self.judges_by_left_out();
        advice.retain(|words| !words.starts_with("p_loo") && (judged || !words.starts_with("90 %")));
        // Too few samples for any k̂: what follows from k̂ is not worth saying.
        if scores.k.iter().all(|k| !k.is_finite()) {
            advice.truncate(1);
        }
        if advice.is_empty() {
            let words = format!(
                "No training point carries the posterior alone: {} is at most {}.",
                match scores.estimator {
                    Estimator::ClosedForm => "leverage",
                    Estimator::Psis { .. } => "k̂",
                },
                number(scores.k_max())
            );
            return vec![finding(Mood::Good, words)];
        }
        // One point in a hundred is worth a look, and no reason for doubt.
        let few = advice.len() == 1 && (1..=scores.k.len() / 100).contains(&scores.unreliable());
        let mood = if few { Mood::Note } else { Mood::Care };
        advice.iter().map(|words| finding(mood, sentence(words))).collect()
    }

    fn on_range(&self) -> Option<Finding> {
        let outside = self.scored.outside?;
        let share = outside as f64 / self.scored.used.max(1) as f64;
        let (mood, words) = if outside == 0 {
            (Mood::Good, "Every scored row lies within the range of the training inputs, column by column.".to_string())
        } else {
            let mood = if share > 0.05 { Mood::Care } else { Mood::Good };
            let words = format!(
                "{} ({}) leave{} the range of the training inputs in some column: there the network extrapolates, and its \
                 intervals rest on the prior.",
                counted(outside, "scored row"),
                percent(share),
                if outside == 1 { "s" } else { "" }
            );
            (mood, words)
        };
        Some(Finding { mood, about: "range", words })
    }

    fn on_certificates(&self) -> Option<Finding> {
        let certificates = self.certificates.as_ref()?;
        let count = certificates.count;
        let bad = count.failed + count.uncertified;
        let (mood, words) = if bad == 0 {
            (
                Mood::Good,
                format!(
                    "All {} are certified, {} of them as paths: ends that are those of their velocities.",
                    counted(count.requested, "geodesic"),
                    certificates.paths
                ),
            )
        } else {
            let mood = if count.failed_share() > ALLOWED_SHARE { Mood::Bad } else { Mood::Care };
            let words = format!(
                "Of {}, {} did not reach its end and {} reached it uncertified. Failed ones enter no prediction, uncertified \
                 ones do.",
                counted(count.requested, "geodesic"),
                count.failed,
                count.uncertified
            );
            (mood, words)
        };
        Some(Finding { mood, about: "certificates", words })
    }

    fn on_residuals(&self) -> Option<Finding> {
        let ratio = self.certificates.as_ref()?.residual_ratio?;
        let good = ratio <= RESIDUAL_LIMIT;
        let words = format!(
            "The network has kinks, which the metric rounds. The samples fit the training data {ratio:.2} times as far off as \
             the linearised network does{}",
            if good { ", within what is usual." } else { ": smooth less, at the cost of more evaluations." }
        );
        Some(Finding { mood: if good { Mood::Good } else { Mood::Care }, about: "smoothing", words })
    }

    fn on_parameters(&self) -> Option<Finding> {
        let (effective, n_data) = (self.fitted.effective_parameters, self.fitted.n_data);
        let share = effective / n_data.max(1) as f64;
        (share > MANY_PARAMETERS).then(|| Finding {
            mood: Mood::Care,
            about: "parameters",
            words: format!(
                "The data determine about {} directions in weight space with {}: there is little left to judge noise and \
                 curvature by.",
                number(effective.round()),
                counted(n_data, "training point")
            ),
        })
    }
}

/// The words with a capital at the beginning and a full stop at the end.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    match (letters.next(), letters.clone().next()) {
        // Symbols such as k̂ and p_loo stay small.
        (Some(first), Some('a'..='z' | ' ')) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        _ => format!("{words}."),
    }
}

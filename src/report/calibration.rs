//! The verdict on intervals and probabilities: all levels, and by fifths of the prediction and of the inputs that matter.

use super::Report;
use super::contents::{Calibration, Fifths, Origin};
use super::number;
use super::trust::Overfitting;
use super::verdict::{Finding, Mood};
use super::words::{mean_and_error, percent};
use crate::likelihood::Misfit;

/// The levels that are judged.
const LEVELS: [f64; 4] = [0.5, 0.8, 0.9, 0.95];
/// Differences below this are not worth words, whatever the number of points.
const SMALL: f64 = 0.02;
/// A coverage this far below its level makes intervals misleading.
const LARGE: f64 = 0.07;
/// The same for one fifth of the rows, in the middle of which chance is greater.
const SMALL_FIFTH: f64 = 0.05;
const LARGE_FIFTH: f64 = 0.12;
/// Standard errors that chance is allowed: of one share, and of the worst of many.
const ONE: f64 = 2.0;
const MANY: f64 = 3.0;
/// A share of negative lower ends that is worth words.
const NEGATIVE_ENDS: f64 = 0.05;

/// What is wrong with the intervals.
struct Flaw {
    mood: Mood,
    shape: Misfit,
    words: String,
}

impl Report {
    /// The verdict on calibration.
    pub(super) fn on_calibration(&self) -> Vec<Finding> {
        let method = &self.methods[self.shown];
        let finding = |mood, words| Finding { mood, about: "calibration", words };
        if let Calibration::Confidence(pairs) = &method.calibration {
            let (mood, words) = confidence(pairs, method.words);
            return vec![finding(mood, words)];
        }
        let held = self.in_words();
        let (by_level, by_fifth) = (self.on_levels(), self.on_fifths());
        if by_level.is_none() && by_fifth.is_none() {
            return vec![finding(Mood::Good, format!("{held}{}", self.even_in_words()))];
        }
        let shape = match (&by_level, &by_fifth) {
            (Some(level), _) if level.shape == Misfit::Narrow && level.mood == Mood::Bad => Misfit::Narrow,
            (_, Some(fifth)) => fifth.shape,
            (Some(level), None) => level.shape,
            (None, None) => Misfit::Narrow,
        };
        let cure = self.cure(shape);
        let worst = [&by_level, &by_fifth].into_iter().flatten().map(|flaw| flaw.mood).max().unwrap_or(Mood::Care);
        let parts: Vec<&str> = [&by_level, &by_fifth].into_iter().flatten().map(|flaw| flaw.words.as_str()).collect();
        vec![finding(worst, format!("{held} {} {cure}", parts.join(" ")))]
    }

    /// The share inside the intervals of a level: of left-out values where there are no others.
    fn share_inside(&self, level: f64) -> (f64, &'static str) {
        // The training data judge fairly only where each is left out of its own prediction.
        let left_out = self.left_out.of(self.shown).filter(|_| self.scored.origin == Origin::Training);
        match left_out.and_then(|scores| scores.coverage(level)) {
            Some(share) => (share, "left-out values"),
            None => {
                let share = self.methods[self.shown].calibration.coverage(level);
                (share.unwrap_or(f64::NAN), "observed values")
            }
        }
    }

    fn chance(&self, level: f64) -> f64 {
        (level * (1.0 - level) / self.scored.used.max(1) as f64).sqrt()
    }

    fn in_words(&self) -> String {
        let (share, values) = self.share_inside(0.9);
        let others: Vec<String> = LEVELS
            .iter()
            .filter(|level| **level != 0.9)
            .map(|level| format!("{} in {}", percent(self.share_inside(*level).0), percent(*level)))
            .collect();
        format!(
            "The 90 % intervals ({}) hold {} of the {values}; chance allows 90 ± {:.1} %. Other levels: {}.",
            self.methods[self.shown].words,
            percent(share),
            100.0 * ONE * self.chance(0.9),
            others.join(", ")
        )
    }

    /// The levels together: which hold too few, which too many.
    fn on_levels(&self) -> Option<Flaw> {
        let gaps = LEVELS.map(|level| (level, self.share_inside(level).0 - level, ONE * self.chance(level)));
        if gaps.iter().any(|(_, gap, _)| gap.is_nan()) {
            let words = "They cannot be judged: a rank is not a number.".to_string();
            return Some(Flaw { mood: Mood::Bad, shape: Misfit::Narrow, words });
        }
        let below = |margin: f64| gaps.iter().any(|(_, gap, chance)| *gap < -chance - margin);
        let above = |margin: f64| gaps.iter().find(|(_, gap, chance)| *gap > chance + margin);
        let narrow_tails = gaps.iter().any(|(level, gap, chance)| *level >= 0.9 && *gap < -chance - SMALL);
        let wide_middle = gaps.iter().any(|(level, gap, chance)| *level < 0.9 && *gap > chance + LARGE);
        let at = |level: f64| percent(self.share_inside(level).0);
        if wide_middle {
            let words = format!(
                "Levels disagree: 50 % intervals hold {}, 95 % intervals {}, so one width of the noise does not fit all rows.",
                at(0.5),
                at(0.95)
            );
            return Some(Flaw { mood: Mood::Care, shape: Misfit::HeavyTails, words });
        }
        if below(LARGE) {
            let words = "They are too narrow to rely on.".to_string();
            return Some(Flaw { mood: Mood::Bad, shape: Misfit::Narrow, words });
        }
        if below(SMALL) || narrow_tails {
            let words = "They are somewhat too narrow.".to_string();
            return Some(Flaw { mood: Mood::Care, shape: Misfit::Narrow, words });
        }
        above(SMALL).map(|_| Flaw {
            mood: Mood::Care,
            shape: Misfit::Wide,
            words: "They are wider than they need be: less useful than they could be.".to_string(),
        })
    }

    /// The worst fifth of the prediction, or of an input.
    fn on_fifths(&self) -> Option<Flaw> {
        // Training rows are inside their own intervals.
        if self.scored.origin == Origin::Training {
            return None;
        }
        let excess =
            |fifth: &super::contents::Fifth| 0.9 - fifth.share() - MANY * (0.09 / fifth.rows.max(1) as f64).sqrt();
        let (by, place, fifth) = self
            .conditional
            .iter()
            .flat_map(|by| by.fifths.iter().enumerate().map(move |(place, fifth)| (by, place, fifth)))
            .max_by(|a, b| excess(a.2).total_cmp(&excess(b.2)))?;
        if excess(fifth) <= SMALL_FIFTH {
            return None;
        }
        let mood = if excess(fifth) > LARGE_FIFTH { Mood::Bad } else { Mood::Care };
        let words = format!(
            "But where {} is between {} and {} (the {} fifth) they hold {} only.",
            by.by,
            number(fifth.low),
            number(fifth.high),
            place_in_words(by, place),
            percent(fifth.share())
        );
        Some(Flaw { mood, shape: Misfit::Uneven, words })
    }

    fn even_in_words(&self) -> String {
        let shares = self.conditional.iter().flat_map(|by| &by.fifths).map(|fifth| fifth.share());
        let (low, high) = shares.fold((1.0f64, 0.0f64), |(low, high), share| (low.min(share), high.max(share)));
        match self.conditional.is_empty() || self.scored.origin == Origin::Training {
            true => String::new(),
            false => format!(
                " By fifths of the prediction and of the inputs that matter most, they hold {} to {}.",
                percent(low),
                percent(high)
            ),
        }
    }

    /// What would help, by the likelihood and the shape of the flaw.
    fn cure(&self, shape: Misfit) -> String {
        if self.overfitting().is_some_and(Overfitting::is_found) {
            return "The network is overfitted: train it again first.".to_string();
        }
        let negative = self.negative_ends.filter(|share| *share > NEGATIVE_ENDS);
        let log = match (negative, self.negative_ends) {
            (Some(share), _) => format!(
                "; {} of the lower ends are negative although no target is, so the logarithm of the target may do better still",
                percent(share)
            ),
            (None, Some(_)) => " (or the logarithm of the target, which is never negative)".to_string(),
            (None, None) => String::new(),
        };
        match (self.fitted.family.likelihood().cure(shape), shape) {
            (Some(advice), Misfit::Uneven | Misfit::HeavyTails) if !advice.ends_with('.') => format!("{advice}{log}."),
            (Some(advice), _) => advice.to_string(),
            (None, Misfit::Wide) => "A fit that is tuned on held-out rows narrows them.".to_string(),
            (None, _) => {
                "These data may differ from those of training; a fit can be tuned on held-out rows.".to_string()
            }
        }
    }
}

fn place_in_words(by: &Fifths, place: usize) -> &'static str {
    match place {
        0 => "lowest",
        place if place + 1 == by.fifths.len() => "highest",
        1 => "second",
        2 => "third",
        _ => "fourth",
    }
}

fn confidence(pairs: &[(f64, bool)], method: &str) -> (Mood, String) {
    let confidences: Vec<f64> = pairs.iter().map(|(confidence, _)| *confidence).collect();
    let gaps: Vec<f64> = pairs.iter().map(|(confidence, right)| confidence - f64::from(u8::from(*right))).collect();
    let (gap, error) = mean_and_error(&gaps);
    let mean = mean_and_error(&confidences).0;
    let words = format!(
        "The most probable class ({method}) is right in {} of the cases and given {} on average.",
        percent(mean - gap),
        percent(mean)
    );
    let (mood, advice) = if gap > ONE * error + LARGE {
        (Mood::Bad, " The probabilities are far too confident to rely on.")
    } else if gap > ONE * error + SMALL {
        (Mood::Care, " The probabilities are somewhat too confident.")
    } else if gap < -ONE * error - SMALL {
        (Mood::Care, " The probabilities are more cautious than they need be.")
    } else {
        (Mood::Good, "")
    };
    (mood, words + advice)
}

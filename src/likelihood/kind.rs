//! What an observation is: from it follow the checks of labels, the scaling of units, the score table, the columns of
//! predictions and the pictures of the report.

use serde::{Deserialize, Serialize};

/// The kind of values that a target takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// Real numbers, in units that may be shifted and scaled.
    Real,
    /// Positive real numbers.
    Positive,
    /// Whole numbers from 0.
    Count,
    /// One class for each point, as a label from 0.
    Label,
    /// Yes or no in each target, as 1 or 0.
    Answers,
}

impl TargetKind {
    /// Whether predictions are probabilities of classes.
    pub fn has_classes(self) -> bool {
        matches!(self, TargetKind::Label | TargetKind::Answers)
    }

    /// Whether targets may be standardised: shifted and scaled.
    pub fn has_units(self) -> bool {
        self == TargetKind::Real
    }

    /// Whether only whole numbers occur, so that a single value has a probability of its own.
    pub fn is_whole(self) -> bool {
        !matches!(self, TargetKind::Real | TargetKind::Positive)
    }

    /// Whether no target is below zero.
    pub fn is_bounded_below(self) -> bool {
        self != TargetKind::Real
    }
}

/// How predictions are written as a graph of operators, for a runtime that knows nothing of likelihoods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphForm {
    /// Means of normal targets, with the noise levels of the likelihood.
    Normal,
    /// Means of normal targets, then their log variances.
    NormalWithLogVariance,
    /// Log rates of Poisson counts.
    LogRate,
    /// Logits of classes, or of answers.
    Logits,
}

/// A way in which intervals are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// Intervals are too narrow at one end of the prediction or an input and too wide elsewhere.
    Uneven,
    /// The middle is too wide where the tails are too narrow or right: heavy tails.
    HeavyTails,
    /// All levels hold too few.
    Narrow,
    /// All levels hold too many.
    Wide,
}

/// Sums over targets from which the best constant outputs follow.
#[derive(Debug, Clone, Copy)]
pub struct TargetSummary<'a> {
    /// The number of rows.
    pub n: f64,
    /// The mean of each target.
    pub means: &'a [f64],
    /// The rows of each class, where targets are labels.
    pub counts: &'a [f64],
}

impl TargetSummary<'_> {
    /// The mean of the target that an output belongs to.
    pub fn mean(&self, output: usize) -> f64 {
        self.means.get(output % self.means.len().max(1)).copied().unwrap_or(0.0)
    }

    /// Half a row: added to a count, it keeps the logarithm of what never occurs finite.
    pub fn half(&self) -> f64 {
        0.5 / self.n
    }
}

/// A parameter of a likelihood that is not an output of the network: a scale, a shape, a threshold. Tuning moves it.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispersion {
    /// The name in messages and files.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The least and greatest value.
    pub bounds: (f64, f64),
    /// Whether its logarithm is what moves freely; otherwise the value itself does.
    pub is_positive: bool,
    /// Whether it is a length in the units of the targets.
    pub has_units: bool,
}

impl Dispersion {
    /// A positive parameter.
    pub fn positive(name: &str, value: f64, bounds: (f64, f64)) -> Self {
        Self { name: name.to_string(), value, bounds, is_positive: true, has_units: false }
    }

    /// The same as a length in the units of the targets.
    pub fn in_units_of_targets(self) -> Self {
        Self { has_units: true, ..self }
    }

    /// The coordinate in which it moves freely: log value, or the value.
    pub fn free(&self) -> f64 {
        if self.is_positive { self.value.ln() } else { self.value }
    }

    /// The bounds of that coordinate.
    pub fn free_bounds(&self) -> (f64, f64) {
        if self.is_positive { (self.bounds.0.ln(), self.bounds.1.ln()) } else { self.bounds }
    }

    /// Coordinates where a first search looks: as far as `reach` from here, or everywhere for a parameter that is off, at its
    /// lower bound; evenly spaced, the ends among them.
    pub(crate) fn grid(&self, reach: f64, count: usize) -> Vec<f64> {
        let (low, high) = self.free_bounds();
        let (from, to) = match self.free() <= low {
            true => (low, high),
            false => (self.free() - reach, self.free() + reach),
        };
        let step = (to - from) / (count.max(2) - 1) as f64;
        (0..count).map(|index| (from + step * index as f64).clamp(low, high)).collect()
    }

    /// The value at a coordinate, within the bounds.
    pub fn at(&self, free: f64) -> f64 {
        let value = if self.is_positive { free.exp() } else { free };
        value.clamp(self.bounds.0, self.bounds.1)
    }
}

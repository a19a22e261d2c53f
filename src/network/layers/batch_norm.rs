//! Batch normalisation in its inference form: x̂ = (h − μ)/√(s² + ε) with the running mean and variance of each channel,
//! then γ x̂ + β.
//!
//! Scales and shifts are parameters; the running statistics are constants of the architecture. Nothing is folded into
//! a neighbouring layer, so that θ is the network's own.

use serde::{Deserialize, Serialize};

use super::image::Image;
use super::normalization::{Normalization, Statistics, epsilon_problem};
use super::scale_shift::ScaleShift;

/// Batch normalisation with running statistics; the formulas are in the module's documentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchNorm {
    /// The shape of the inputs; vectors are images of one pixel.
    pub input: Image,
    /// μ, one value per channel.
    pub mean: Vec<f64>,
    /// s², one value per channel.
    pub variance: Vec<f64>,
    /// ε.
    pub eps: f64,
    /// Whether there are scales γ.
    pub weight: bool,
    /// Whether there are shifts β.
    pub bias: bool,
}

impl BatchNorm {
    /// With these running statistics, scales, shifts and PyTorch's ε of 1e-5.
    pub fn new(input: Image, mean: Vec<f64>, variance: Vec<f64>) -> Self {
        Self { input, mean, variance, eps: 1e-5, weight: true, bias: true }
    }
}

impl Normalization for BatchNorm {
    fn description(&self) -> String {
        match self.input.pixels() {
            1 => format!("batch norm {}", self.input.channels),
            _ => format!("batch norm {}", self.input),
        }
    }

    fn problem(&self) -> Option<String> {
        let channels = self.input.channels;
        if self.mean.len() != channels || self.variance.len() != channels {
            let (means, variances) = (self.mean.len(), self.variance.len());
            return Some(format!("has {means} means and {variances} variances for {channels} channels"));
        }
        let usable = |variance: &f64| *variance >= 0.0 && 1.0 / (variance + self.eps).sqrt() < f64::INFINITY;
        if !self.mean.iter().all(|mean| mean.is_finite()) || !self.variance.iter().all(usable) {
            return Some("has running statistics that are not finite, or a variance that is not positive".to_string());
        }
        epsilon_problem(self.eps)
    }

    fn width(&self) -> usize {
        self.input.size()
    }

    fn epsilon(&self) -> f64 {
        self.eps
    }

    fn statistics(&self) -> Statistics<'_> {
        Statistics::Running { mean: &self.mean, variance: &self.variance }
    }

    fn scale_shift(&self) -> ScaleShift {
        ScaleShift { count: self.input.channels, run: self.input.pixels(), scale: self.weight, shift: self.bias }
    }
}

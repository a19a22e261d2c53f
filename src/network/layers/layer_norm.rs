//! Layer normalisation: x̂ = (h − ⟨h⟩)/√(Var h + ε) over the last axes of every point, then γ x̂ + β with one scale and
//! shift for each entry of these axes.
//!
//! An input of width L·size holds L vectors of this size, one after the other, each normalised by itself: L is 1 for
//! a vector, and for an image normalised over its last axis channels × height. The variance is the mean square, without
//! Bessel's correction, as in PyTorch.

use serde::{Deserialize, Serialize};

use super::normalization::{Normalization, Statistics, epsilon_problem};
use super::scale_shift::ScaleShift;

/// Layer normalisation; the formulas are in the module's documentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerNorm {
    /// The width of the inputs: a multiple of the size of the shape.
    pub inputs: usize,
    /// The last axes, over which is normalised: PyTorch's `normalized_shape`.
    pub shape: Vec<usize>,
    /// ε.
    pub eps: f64,
    /// Whether there are scales γ.
    pub weight: bool,
    /// Whether there are shifts β.
    pub bias: bool,
}

impl LayerNorm {
    /// Over the whole of vectors of this size, with scales, shifts and PyTorch's ε of 1e-5.
    pub fn new(size: usize) -> Self {
        Self { inputs: size, shape: vec![size], eps: 1e-5, weight: true, bias: true }
    }

    /// The number of values that are normalised together.
    pub fn size(&self) -> usize {
        self.shape.iter().fold(1, |size: usize, length| size.saturating_mul(*length))
    }
}

impl Normalization for LayerNorm {
    fn description(&self) -> String {
        let axes: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        format!("layer norm {} of {}", axes.join("×"), self.inputs)
    }

    fn problem(&self) -> Option<String> {
        let size = self.size();
        if size == 0 || !self.inputs.is_multiple_of(size) {
            return Some(format!("normalises {size} values at a time, but has {} inputs", self.inputs));
        }
        epsilon_problem(self.eps)
    }

    fn width(&self) -> usize {
        self.inputs
    }

    fn epsilon(&self) -> f64 {
        self.eps
    }

    fn statistics(&self) -> Statistics<'_> {
        Statistics::OfPoint { groups: self.inputs / self.size().max(1) }
    }

    fn scale_shift(&self) -> ScaleShift {
        ScaleShift { count: self.size(), run: 1, scale: self.weight, shift: self.bias }
    }

    fn parameter_shape(&self) -> Vec<usize> {
        self.shape.clone()
    }
}

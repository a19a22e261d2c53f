//! Group normalisation: x̂ = (h − ⟨h⟩)/√(Var h + ε) over the pixels of each group of channels of a point, then γ x̂ + β
//! with one scale and shift for each channel. With as many groups as channels it is instance normalisation.

use serde::{Deserialize, Serialize};

use super::image::Image;
use super::normalization::{Normalization, Statistics, epsilon_problem};
use super::scale_shift::ScaleShift;

/// Group normalisation; the formulas are in the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupNorm {
    /// The shape of the inputs.
    pub input: Image,
    /// The number of groups that the channels are split into.
    pub groups: usize,
    /// ε.
    pub eps: f64,
    /// Whether there are scales γ.
    pub weight: bool,
    /// Whether there are shifts β.
    pub bias: bool,
}

impl GroupNorm {
    /// With scales, shifts and PyTorch's ε of 1e-5.
    pub fn new(input: Image, groups: usize) -> Self {
        Self { input, groups, eps: 1e-5, weight: true, bias: true }
    }
}

impl Normalization for GroupNorm {
    fn description(&self) -> String {
        format!("group norm {} in {} groups", self.input, self.groups)
    }

    fn problem(&self) -> Option<String> {
        let (channels, groups) = (self.input.channels, self.groups);
        if groups == 0 || !channels.is_multiple_of(groups) {
            return Some(format!("cannot split {channels} channels into {groups} groups"));
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
        Statistics::OfPoint { groups: self.groups }
    }

    fn scale_shift(&self) -> ScaleShift {
        ScaleShift { count: self.input.channels, run: self.input.pixels(), scale: self.weight, shift: self.bias }
    }
}

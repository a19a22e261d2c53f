//! Weight matrices at taps: z_t = W h_t + b for every tap t, with parameters θ or constants for W.
//!
//! Along θ + tv, with W + tV and b + t v_b, inputs h₀ + h₁t + h₂t² give the sums
//!
//! z₀ = W h₀ + b, z₁ = W h₁ + V h₀ + v_b, z₂ = W h₂ + V h₁.
//!
//! Sensitivities δ of z pull back to Wᵀδ, along v to Wᵀδ̇ + Vᵀδ; the gradients with respect to W and b are Σ_t δ_t h_tᵀ and Σ_t δ_t.

use std::ops::Range;

use faer::MatRef;
use serde::{Deserialize, Serialize};

use super::indices::Indices;
use super::tape::Kept;
use super::taps::Taps;
use super::taylor::Parameters;
use crate::map::resize;
use crate::network::Linear;

pub(super) mod verbs;

/// Matrices of weights at taps; the formulas are at the top of its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Affine {
    /// The length of h_t; zero where there is a bias alone.
    pub inputs: usize,
    /// The length of z_t, over all groups.
    pub outputs: usize,
    /// W, `[outputs, inputs]` row by row, the groups one after the other.
    pub weight: Option<Weight>,
    /// The places of b in θ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<Indices>,
    /// Where h_t and z_t are.
    pub taps: Taps,
}

/// The numbers of a weight matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Parameters, by their places in θ.
    Parameters(Indices),
    /// Constants.
    Constants(Vec<f64>),
}

/// The matrices and biases of all groups: of θ, of a velocity, or of a direction.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'a> {
    /// W row by row; empty where there is none, or it does not move.
    weights: &'a [f64],
    /// b; empty where there is none.
    biases: &'a [f64],
}

/// The numbers at these places: a part of θ, or gathered into the room.
fn gathered<'a>(places: &Indices, of: &'a [f64], room: &'a mut Vec<f64>) -> &'a [f64] {
    match places {
        Indices::Range(range) => &of[range.clone()],
        Indices::List(list) => {
            room.clear();
            room.extend(list.iter().map(|place| of[*place]));
            room
        }
    }
}

impl Affine {
    /// What a linear layer of a network is called.
    pub fn description(&self) -> String {
        let bias = if self.bias.is_some() { "" } else { " without bias" };
        match self.taps {
            _ if self.weight.is_none() => format!("{} parameters", self.outputs),
            Taps::Blocks(1) => format!("linear {} → {}{bias}", self.inputs, self.outputs),
            Taps::Blocks(count) => format!("linear {} → {}{bias} at {count} places", self.inputs, self.outputs),
            Taps::Windows { window, channels, .. } => {
                let [rows, columns] = window.kernel;
                let name = if window.transposed { "transposed convolution" } else { "convolution" };
                format!("{name} {rows}×{columns}, {channels} → {}{bias}", self.outputs)
            }
        }
    }

    /// The linear layer that this is, if its parameters are those of θ from `offset` on, which is moved past them.
    pub(in super::super) fn as_linear(&self, offset: &mut usize) -> Option<Linear> {
        let (start, middle) = (*offset, *offset + self.inputs.checked_mul(self.outputs)?);
        let weight = Weight::Parameters(Indices::Range(start..middle));
        let bias = Indices::Range(middle..middle + self.outputs);
        let own = self.weight.as_ref() == Some(&weight) && self.bias.as_ref().is_none_or(|own| *own == bias);
        *offset = middle + self.bias.as_ref().map_or(0, Indices::len);
        let Self { inputs, outputs, .. } = *self;
        (own && self.is_single()).then(|| Linear { inputs, outputs, bias: self.bias.is_some() })
    }

    pub(super) fn width(&self, input: usize, n_params: usize) -> Result<usize, String> {
        if let Taps::Windows { window, .. } = &self.taps
            && let Some(problem) = window.problem()
        {
            return Err(problem);
        }
        let groups = self.taps.groups();
        if groups == 0 || !self.outputs.is_multiple_of(groups) {
            return Err(format!("cannot split {} outputs into {groups} groups", self.outputs));
        }
        let entries = self.outputs.checked_mul(self.inputs);
        let found = match &self.weight {
            Some(Weight::Parameters(places)) if places.end() > n_params => {
                return Err("has weights beyond θ".to_string());
            }
            Some(Weight::Parameters(places)) => places.len(),
            Some(Weight::Constants(constants)) => constants.len(),
            None => 0,
        };
        if entries != Some(found) {
            return Err(format!("has {found} weights for {} outputs and {} inputs", self.outputs, self.inputs));
        }
        if self.bias.as_ref().is_some_and(|bias| bias.len() != self.outputs || bias.end() > n_params) {
            return Err(format!("has a bias that does not fit {} outputs", self.outputs));
        }
        match self.taps.input_width(self.inputs) {
            Some(width) if width == input => Ok(self.outputs.saturating_mul(self.taps.count())),
            Some(width) => Err(format!("takes {width} inputs, but the layer before it has {input} outputs")),
            None => Err("has windows that do not fit its inputs".to_string()),
        }
    }

    /// The outputs of a group.
    pub(super) fn group_outputs(&self) -> usize {
        self.outputs / self.taps.groups()
    }

    /// The numbers of θ; those of the weights are gathered where θ has them in another order.
    fn numbers<'a>(&'a self, of: &'a [f64], rooms: [&'a mut Vec<f64>; 2]) -> Numbers<'a> {
        let [room, other] = rooms;
        let weights = match &self.weight {
            Some(Weight::Parameters(places)) => gathered(places, of, room),
            Some(Weight::Constants(constants)) => constants,
            None => &[],
        };
        Numbers { weights, biases: self.bias.as_ref().map_or(&[], |places| gathered(places, of, other)) }
    }

    /// The same of a velocity, where constants do not move.
    fn changes<'a>(&'a self, of: &'a [f64], rooms: [&'a mut Vec<f64>; 2]) -> Numbers<'a> {
        let numbers = self.numbers(of, rooms);
        match self.weight {
            Some(Weight::Constants(_)) => Numbers { weights: &[], ..numbers },
            _ => numbers,
        }
    }

    /// Wᵀ of a group, inputs × outputs.
    fn group<'a>(&self, numbers: Numbers<'a>, group: usize) -> Parameters<'a> {
        let (inputs, outputs) = (self.inputs, self.group_outputs());
        let entries = inputs * outputs;
        let weights = match numbers.weights.is_empty() {
            true => MatRef::from_column_major_slice(&[], 0, outputs),
            false => MatRef::from_column_major_slice(&numbers.weights[group * entries..][..entries], inputs, outputs),
        };
        let biases = numbers.biases.get(group * outputs..(group + 1) * outputs).unwrap_or(&[]);
        Parameters { weights, biases }
    }

    /// The numbers per point that its verbs take for vectors and outputs at a window.
    pub(super) fn room(&self) -> usize {
        if self.taps.are_blocks() { 0 } else { self.inputs + self.group_outputs() }
    }

    fn reserve_room(&self, rows: usize, kept: &mut Kept) {
        if !self.taps.are_blocks() && kept.vectors.nrows() < rows {
            resize(&mut kept.vectors, rows, self.inputs);
            resize(&mut kept.outputs, rows, self.group_outputs());
        }
    }

    /// Whether, with K rows at each point to be pulled back afterwards, it is cheaper for a jet to leave out W h₂, and to weigh
    /// h₂ with the sensitivities of the inputs instead: that saves N·inputs·outputs multiply-adds for N·K·inputs that no cache
    /// sees twice.
    pub(super) fn leaves_seconds(&self, columns: usize) -> bool {
        self.taps.are_blocks() && self.outputs >= 8 * columns
    }

    /// Whether the rows of its parameters are outer products at a single tap.
    pub(super) fn is_single(&self) -> bool {
        self.taps == Taps::Blocks(1)
    }

    /// The outputs of a group whose weights may be in a range of θ.
    fn outputs_within(&self, places: &Indices, range: &Range<usize>, group: usize) -> Range<usize> {
        let outputs = self.group_outputs();
        let Indices::Range(own) = places else { return 0..outputs };
        let start = own.start + group * outputs * self.inputs;
        let output = |place: usize| (place.saturating_sub(start) / self.inputs.max(1)).min(outputs);
        let end = range.end.saturating_sub(start).div_ceil(self.inputs.max(1)).min(outputs);
        output(range.start)..end
    }
}

//! The kinds of nodes, and what each says about its shape.
//!
//! | kind | Taylor coefficients along a velocity | pull-back of δ |
//! |---|---|---|
//! | [`Affine`] | Wh₀ + b, Wh₁ + Vh₀ + v_b, Wh₂ + Vh₁ | Wᵀδ |
//! | [`ScaleShift`] | the same with diagonal W | γδ |
//! | [`Function`] | φ, φ′h₁, φ′h₂ + ½φ″h₁² | φ′δ |
//! | [`Bilinear`] | a₀b₀, a₁b₀ + a₀b₁, a₂b₀ + a₁b₁ + a₀b₂ | δb₀ and δa₀ |
//! | [`FixedLinear`] | itself on every coefficient | its transpose |
//! | [`Softmax`] | see its file | p∘(δ − p·δ) |
//!
//! Only the first two have parameters. A kind without them has no verbs for them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::affine::Affine;
use super::bilinear::Bilinear;
use super::elementwise::Function;
use super::fixed::FixedLinear;
use super::indices::Indices;
use super::operator::Operator;
use super::parametric::Parametric;
use super::scale_shift::ScaleShift;
use super::softmax::Softmax;

/// What a node computes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// Columns of the data, from the first on that no input before it has taken.
    Input(usize),
    /// For every column, a whole number c in 0..size, the columns [c = 0], …, [c = size − 1].
    OneHot(usize),
    /// Weight matrices and biases at taps.
    Affine(Affine),
    /// A factor and a summand of every column.
    ScaleShift(ScaleShift),
    /// φ of every entry.
    Elementwise(Function),
    /// Sums of products of two values.
    Bilinear(Bilinear),
    /// Constant linear combinations of columns, plus constants.
    FixedLinear(FixedLinear),
    /// eᶻ/Σeᶻ over an axis.
    Softmax(Softmax),
    /// A user's own operator, which cannot be saved.
    #[serde(skip)]
    Custom(Custom),
}

/// An operator from outside of this crate.
#[derive(Debug, Clone)]
pub struct Custom(pub Arc<dyn Operator>);

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// One node: what it computes, from which nodes before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// What it computes.
    pub kind: Kind,
    /// The nodes whose values it takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<usize>,
}

/// A tensor of parameters; their values in θ have the last axis fastest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tensor {
    /// Its name, such as `2.weight`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// What it belongs to: neighbours with one owner share a prior precision.
    pub owner: usize,
    /// How initial values are drawn.
    #[serde(skip)]
    pub start: Start,
}

/// Initial values of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Start {
    /// All the same.
    #[default]
    Zero,
    /// All one.
    One,
    /// Uniform on ± this number.
    Uniform(f64),
}

impl Tensor {
    /// The number of values; `None` if it overflows.
    pub fn checked_size(&self) -> Option<usize> {
        self.shape.iter().try_fold(1_usize, |size, length| size.checked_mul(*length))
    }

    /// The number of values.
    pub fn size(&self) -> usize {
        self.checked_size().unwrap_or(usize::MAX)
    }
}

impl Kind {
    /// The width of the value, or what is wrong, as the rest of a sentence that starts with the node.
    pub(super) fn width(&self, inputs: &[usize], n_params: usize) -> Result<usize, String> {
        let takes = match self {
            Self::Input(_) => 0,
            Self::Affine(affine) if affine.inputs == 0 => 0,
            Self::OneHot(_) | Self::Affine(_) | Self::ScaleShift(_) | Self::Elementwise(_) | Self::Softmax(_) => 1,
            Self::Bilinear(_) => 2,
            Self::FixedLinear(_) | Self::Custom(_) => inputs.len(),
        };
        if inputs.len() != takes {
            return Err(format!("has {} inputs, not {takes}", inputs.len()));
        }
        let first = inputs.first().copied().unwrap_or(0);
        let width = match self {
            Self::Input(width) => *width,
            Self::OneHot(size) => first.saturating_mul(*size),
            Self::Affine(affine) => affine.width(first, n_params)?,
            Self::ScaleShift(scale) => scale.width(first, n_params)?,
            Self::Elementwise(function) => function.width(first)?,
            Self::Bilinear(bilinear) => bilinear.width(inputs)?,
            Self::FixedLinear(fixed) => fixed.width(inputs)?,
            Self::Softmax(softmax) => softmax.width(first)?,
            Self::Custom(custom) => custom.0.width(inputs)?,
        };
        match width {
            0 => Err("needs at least one input and one output".to_string()),
            // Beyond any memory, and far from where products of sizes could overflow.
            width if width > 1 << 40 => Err(format!("has {width} values for every point, which is too many")),
            width => Ok(width),
        }
    }

    /// The node as an operator on its inputs, if it is one without parameters that has a value of its own.
    pub(super) fn operator(&self) -> Option<&dyn Operator> {
        match self {
            Self::Bilinear(bilinear) => Some(bilinear),
            Self::FixedLinear(fixed) => Some(fixed),
            Self::Softmax(softmax) => Some(softmax),
            Self::Custom(custom) => Some(&*custom.0),
            Self::Input(_) | Self::OneHot(_) | Self::Affine(_) | Self::ScaleShift(_) | Self::Elementwise(_) => None,
        }
    }

    /// Whether it has parameters.
    pub(super) fn is_parametric(&self) -> bool {
        self.places().next().is_some()
    }

    /// Where its parameters are in θ.
    pub(super) fn places(&self) -> impl Iterator<Item = &Indices> {
        self.parametric().into_iter().flat_map(Parametric::places).flatten()
    }

    /// The node as one that may have parameters: its weights may be constants.
    pub(super) fn parametric(&self) -> Option<&dyn Parametric> {
        match self {
            Self::Affine(affine) => Some(affine),
            Self::ScaleShift(scale) => Some(scale),
            _ => None,
        }
    }
}

impl Kind {
    /// The name, for people.
    pub fn description(&self) -> String {
        match self {
            Self::Input(width) => format!("{width} inputs"),
            Self::OneHot(size) => format!("one of {size} categories"),
            Self::Affine(affine) => affine.description(),
            Self::ScaleShift(_) => "scale and shift".to_string(),
            Self::Elementwise(function) => function.description(),
            kind => kind.operator().map_or_else(String::new, Operator::description),
        }
    }

    /// Whether a derivative has jumps.
    pub(super) fn has_kink(&self) -> bool {
        matches!(self, Self::Elementwise(function) if function.has_kink())
    }
}

//! The trait for what the user provides: trained parameters θ̂ and a function of them.

use std::sync::Arc;

use ndarray::ArrayView2;

use super::{BlockShape, Cut, Features, Map, SubsetPlace};
use crate::error::Result;

/// Consecutive parameters that belong together, such as those of a layer: they may have a prior precision of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What the parameters are called.
    pub name: String,
    /// The number of parameters.
    pub size: usize,
}

/// How a model's kinks are rounded, and what the width of each is measured from.
#[derive(Debug, Clone, Copy)]
pub struct Rounding<'a> {
    /// c, the width as a share of each unit's own scale; positive.
    pub width: f64,
    /// The inputs of the data, one row per point.
    pub inputs: ArrayView2<'a, f64>,
    /// Draws of θ − θ̂ from the posterior, one per row.
    pub offsets: ArrayView2<'a, f64>,
}

/// A trained model: θ̂, names for its parts, and the outputs as a differentiable function of θ at given inputs.
///
/// A trained network is one; [`FunctionModel`](super::FunctionModel) makes one from a formula.
pub trait Model: Send + Sync + std::fmt::Debug {
    /// θ̂, flat.
    fn parameters(&self) -> &[f64];
    /// The groups of consecutive parameters, in order; their sizes add up to D.
    fn groups(&self) -> Vec<Group>;
    /// The tensors of parameters by name, in order; their sizes add up to D. By default the groups.
    fn tensors(&self) -> Vec<Group> {
        self.groups()
    }
    /// The number of inputs per point.
    fn n_inputs(&self) -> usize;
    /// P, the number of outputs per point.
    fn n_outputs(&self) -> usize;
    /// The model as a function of θ at the rows of `inputs`.
    fn bind(&self, inputs: ArrayView2<'_, f64>) -> Result<Arc<dyn Map>>;
    /// The number of f64 values that an evaluator with K columns holds per point, for choosing the size of batches.
    fn numbers_per_point(&self, columns: usize) -> f64;
    /// The blocks into which the parameters fall for structures that ignore the curvature between them, in the order of
    /// θ, as [`Rows::kronecker`](super::Rows::kronecker) has them: by default, one dense block per group.
    fn blocks(&self) -> Vec<BlockShape> {
        self.group_sizes().into_iter().map(|size| BlockShape::Dense { size }).collect()
    }
    /// Whether the outputs have kinks as functions of θ (relu), so that no metric made of their derivatives is smooth.
    fn has_kinks(&self) -> bool {
        false
    }
    /// The same parameters in a model whose kinks are rounded, for a smooth metric; `None` where there are no kinks, or
    /// one that cannot be rounded.
    fn smoothed(&self, _rounding: &Rounding<'_>) -> Result<Option<Arc<dyn Model>>> {
        Ok(None)
    }
    /// The model cut in two in front of the part that this parameter belongs to, so that what lies before it can be
    /// computed once where it is frozen; `None` where nothing lies before it, or the model cannot be cut.
    fn cut(&self, _parameter: usize) -> Option<Cut> {
        None
    }
    /// What is computed once in front of the parameters, and the rest as a model whose inputs are the features, where this
    /// is a part of a model that was [cut](Self::cut).
    fn behind_front(&self) -> Option<(Arc<dyn Features>, Arc<dyn Model>)> {
        None
    }
    /// Where the parameters stand in a larger model, if this is a part of one.
    fn subset(&self) -> Option<SubsetPlace<'_>> {
        None
    }
    /// What a file must hold besides θ̂ to rebuild the model; `None` when it cannot be saved.
    fn record(&self) -> Option<String> {
        None
    }
    /// A few words for reports, such as `1-10-1 tanh`.
    fn description(&self) -> String;

    /// D, the number of parameters.
    fn n_params(&self) -> usize {
        self.parameters().len()
    }
    /// The sizes of the groups.
    fn group_sizes(&self) -> Vec<usize> {
        self.groups().into_iter().map(|group| group.size).collect()
    }
}

//! What a layer is: the verbs that make up every sweep through a network.
//!
//! A layer takes N points at once. Arrays over points are matrices with one column per unit; Taylor coefficients h₀,
//! h₁, h₂ along a velocity are three blocks of N rows, one below the other, and the K blocks of M = N·K sensitivities
//! likewise. A layer sees its own part of θ, of velocities and of products, and nothing of its neighbours.
//!
//! There are two kinds. An [`Elementwise`] layer has no parameters and works in place, on the memory of the layer
//! before it. Every other layer has the verbs of [`LayerVerbs`] and its own [`Tape`](super::Tape) for its outputs. A
//! new layer is a file with one of the two traits, a variant of [`Layer`] and a line in [`Layer::verbs`].

use std::ops::Range;

use faer::{ColRef, Mat, MatMut, MatRef};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::Activation;
use super::curvature::OuterProducts;
use super::layers::{
    AvgPool2d, BatchNorm, Conv2d, GlobalAvgPool, GroupNorm, Identity, LayerNorm, Linear, MaxPool2d, Residual, Smoothed,
    SmoothedMaxPool2d,
};
use super::tape::Kept;
use crate::linalg::column_slice;
use crate::map::{
    BlockCovariance, BlockShape, BlockSums, Scratch, add_dense_point_covariances, add_dense_squares, add_dense_sums,
};

/// One layer of a network.
///
/// ```
/// use riemannian_laplace::{Activation, Layer, Linear};
///
/// let layers = [Layer::from(Linear::new(2, 3)), Layer::from(Activation::Tanh)];
/// let text = serde_json::to_string(&layers)?;
/// assert_eq!(text, r#"[{"linear":{"inputs":2,"outputs":3,"bias":true}},{"activation":"tanh"}]"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Layer {
    /// z = W h + b.
    Linear(Linear),
    /// h = φ(z).
    Activation(Activation),
    /// Patches of images times weights.
    Conv2d(Conv2d),
    /// Means over windows of images.
    AvgPool2d(AvgPool2d),
    /// The largest values in windows of images.
    MaxPool2d(MaxPool2d),
    /// The mean of each channel of an image.
    GlobalAvgPool(GlobalAvgPool),
    /// An image becomes a vector: nothing changes, since the columns are in that order already.
    Flatten,
    /// Normalised over the last axes of a point.
    LayerNorm(LayerNorm),
    /// Normalised over groups of channels of a point.
    GroupNorm(GroupNorm),
    /// Normalised with running statistics.
    BatchNorm(BatchNorm),
    /// Nothing, in a trained network.
    Dropout,
    /// The sum of two sequences of layers.
    Residual(Residual),
    /// h = φ_ε(z), for the metric of a network with kinks; never saved.
    #[serde(skip)]
    Smoothed(Smoothed),
    /// The rounded maximum in windows of images, for the metric of a network with max pooling; never saved.
    #[serde(skip)]
    SmoothedMaxPool2d(SmoothedMaxPool2d),
}

/// The verbs of a layer of either kind.
#[derive(Clone, Copy)]
pub enum Verbs<'a> {
    /// In place and without parameters.
    Elementwise(&'a dyn Elementwise),
    /// Everything else.
    General(&'a dyn LayerVerbs),
}

/// A tensor of a layer's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterGroup {
    /// Its name within the layer, such as `weight`; within a network, `2.weight`.
    pub name: String,
    /// Its shape; its values in θ have the last axis fastest.
    pub shape: Vec<usize>,
}

impl ParameterGroup {
    /// The number of values; `None` if it overflows.
    pub fn checked_size(&self) -> Option<usize> {
        self.shape.iter().try_fold(1_usize, |size, length| size.checked_mul(*length))
    }

    /// The number of values.
    pub fn size(&self) -> usize {
        self.checked_size().unwrap_or(usize::MAX)
    }
}

/// What a layer's pulled-back rows are computed from.
#[derive(Debug, Clone, Copy)]
pub struct LayerRows<'a> {
    /// The Taylor coefficients of the inputs, one below the other: N rows where they do not move.
    pub coefficients: MatRef<'a, f64>,
    /// N × inputs: h₀.
    pub inputs: MatRef<'a, f64>,
    /// N × inputs: h₁, after a sweep along a velocity; none where the inputs do not move.
    pub inputs_along: Option<MatRef<'a, f64>>,
    /// Of how many points, and from which on, the sensitivities hold these N: all from the first, unless this is a
    /// [`part`](Self::part).
    pub window: (usize, usize),
    /// M × outputs: δ.
    pub sensitivities: MatRef<'a, f64>,
    /// M × outputs: δ̇; empty unless they were pulled back along a velocity.
    pub sensitivities_along: MatRef<'a, f64>,
    /// What the layer kept.
    pub kept: &'a Kept,
}

impl<'a> LayerRows<'a> {
    /// N, the number of points.
    pub fn n_points(&self) -> usize {
        self.inputs.nrows()
    }

    /// K, the number of rows at each point.
    pub fn columns(&self) -> usize {
        self.sensitivities.nrows() / self.window.0.max(1)
    }

    /// The same at some of the points. Only layers that say [`takes_parts`](LayerVerbs::takes_parts) know what to do with
    /// it, in `times` and `transpose_times`.
    pub fn part(self, points: Range<usize>) -> Self {
        Self {
            inputs: self.inputs.get(points.clone(), ..),
            window: (self.window.0, self.window.1 + points.start),
            ..self
        }
    }

    /// A column of the sensitivities, cut into those of the rows with number k at each point.
    pub fn by_rows(&self, column: ColRef<'a, f64>) -> impl Iterator<Item = &'a [f64]> + use<'a> {
        let (n, (all, first)) = (self.n_points(), self.window);
        (0..self.columns()).map(move |k| column_slice(column.subrows(k * all + first, n)))
    }

    /// The sensitivities of the rows with number k at each point: N × outputs.
    pub fn block(&self, k: usize) -> MatRef<'a, f64> {
        let (n, (all, first)) = (self.n_points(), self.window);
        self.sensitivities.get(k * all + first..k * all + first + n, ..)
    }
}

/// A layer that replaces every entry by a function of it, in place, without parameters.
pub trait Elementwise {
    /// Its name, for people.
    fn description(&self) -> String;
    /// Whether its first or its second derivative has jumps.
    fn has_kink(&self) -> bool;
    /// Room for what it keeps at N points of this many units.
    fn kept(&self, width: usize, points: usize) -> Kept;
    /// The number of f64 values in that room.
    fn kept_size(&self, width: usize, points: usize) -> f64;

    /// Replaces the values (N rows).
    fn forward(&self, values: MatMut<'_, f64>, kept: &mut Kept);
    /// Replaces the three Taylor coefficients of the values (3N rows).
    fn jet(&self, values: MatMut<'_, f64>, kept: &mut Kept);
    /// Replaces sensitivities of its outputs by those of its inputs (M rows).
    fn pull_back(&self, sensitivities: MatMut<'_, f64>, kept: &Kept);

    /// Replaces the first two Taylor coefficients (2N rows), and keeps what [`pull_back_along`](Self::pull_back_along)
    /// needs.
    fn forward_along(&self, values: MatMut<'_, f64>, kept: &mut Kept);
    /// Replaces sensitivities δ and their derivatives δ̇ along the velocity (M rows each).
    fn pull_back_along(&self, sensitivities: MatMut<'_, f64>, along: MatMut<'_, f64>, kept: &Kept);
}

/// A layer with its own outputs. The verbs for parameters do nothing unless the layer has some.
///
/// `inputs` of a forward sweep have as many rows as `outputs`, or N where they do not move. Rows are those of J̃ = RᵀJ:
/// row m is Σₚ R(p, m) ∂fₚ, restricted to the layer's parameters. "Along v" means the derivative at t = 0 with θ + tv
/// in place of θ and with the seeds R held constant.
pub trait LayerVerbs {
    /// Its name and size, for people.
    fn description(&self) -> String;
    /// What is wrong with its settings, if anything is, as the rest of a sentence that starts with the layer. No other
    /// verb is called on such a layer, apart from its name and its widths.
    fn problem(&self) -> Option<String> {
        None
    }
    /// The width of its inputs, if it is bound to one.
    fn n_inputs(&self) -> Option<usize>;
    /// The width of its outputs for inputs of this width.
    fn n_outputs(&self, inputs: usize) -> usize;
    /// Its parameters, in the order of θ.
    fn parameter_groups(&self) -> Vec<ParameterGroup> {
        Vec::new()
    }
    /// The number of its parameters.
    fn n_params(&self) -> usize {
        self.parameter_groups().iter().fold(0, |sum: usize, group| sum.saturating_add(group.size()))
    }
    /// The number of parameters in each group that may have its own prior precision.
    fn prior_groups(&self) -> Vec<usize> {
        Some(self.n_params()).filter(|count| *count > 0).into_iter().collect()
    }
    /// Whether a derivative of its outputs has jumps.
    fn has_kink(&self) -> bool {
        false
    }
    /// Draws initial parameters, as PyTorch does by default.
    fn initialize(&self, _generator: &mut ChaCha8Rng, _parameters: &mut [f64]) {}
    /// Room for what it keeps at N points with K rows each.
    fn kept(&self, _inputs: usize, _points: usize, _columns: usize) -> Kept {
        Kept::nothing()
    }
    /// The number of f64 values in that room.
    fn kept_size(&self, _inputs: usize, _points: usize, _columns: usize) -> f64 {
        0.0
    }
    /// The number of f64 values per point that its verbs take from a [`Scratch`].
    fn scratch_width(&self) -> usize {
        0
    }
    /// Multiply-adds of [`gram`](Self::gram) at N points with K rows each.
    fn gram_work(&self, _points: usize, _columns: usize) -> f64 {
        0.0
    }

    /// Multiply-adds of [`times`](Self::times), or of [`transpose_times`](Self::transpose_times), at N points with K rows
    /// each.
    fn product_work(&self, points: usize, columns: usize) -> f64 {
        (points * columns) as f64 * self.n_params() as f64
    }

    /// Writes the outputs (N rows).
    fn forward(&self, theta: &[f64], inputs: MatRef<'_, f64>, outputs: MatMut<'_, f64>, kept: &mut Kept);
    /// Writes the three Taylor coefficients of the outputs along a velocity (3N rows).
    fn jet(&self, theta: &[f64], velocity: &[f64], inputs: MatRef<'_, f64>, outputs: MatMut<'_, f64>, kept: &mut Kept);
    /// Computes, from sensitivities of the outputs (M rows), those of the inputs if they are wanted (M rows).
    fn pull_back(
        &self,
        theta: &[f64],
        sensitivities: MatRef<'_, f64>,
        inputs: Option<MatMut<'_, f64>>,
        kept: &mut Kept,
    );
    /// Whether, with K rows at each point to be pulled back afterwards, it is cheaper for a jet to leave out what the second
    /// coefficients of the inputs add to those of the outputs ([`jet_of_slopes`](Self::jet_of_slopes)), and to weigh them
    /// with the sensitivities of the inputs instead: their sum over the inputs is what they add to a row's output.
    fn leaves_seconds(&self, _columns: usize) -> bool {
        false
    }
    /// [`jet`](Self::jet) without what the second coefficients of the inputs add, for layers that leave them.
    fn jet_of_slopes(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        self.jet(theta, velocity, inputs, outputs, kept);
    }

    /// Writes the rows: M × parameters.
    fn rows(&self, _rows: LayerRows<'_>, _target: MatMut<'_, f64>) {}
    /// Writes the columns of the rows with these indices, in ascending order: M × their number.
    fn columns(&self, rows: LayerRows<'_>, indices: &[usize], target: MatMut<'_, f64>) {
        let dense = self.dense_rows(rows);
        for (mut column, index) in target.col_iter_mut().zip(indices) {
            column.copy_from(dense.col(*index));
        }
    }
    /// Whether `times` and `transpose_times` take the rows at some of the points, see [`LayerRows::part`].
    fn takes_parts(&self) -> bool {
        false
    }
    /// Adds the product of the rows with a direction: M numbers.
    fn times(&self, _direction: &[f64], _rows: LayerRows<'_>, _scratch: &mut Scratch, _product: &mut [f64]) {}
    /// Writes Σₘ wₘ rowₘ.
    fn transpose_times(&self, _weights: &[f64], _rows: LayerRows<'_>, _scratch: &mut Scratch, _product: &mut [f64]) {}
    /// Adds Σ v rowₘ·rowₘ′ to the lower triangle of an M × M matrix; one variance v per prior group.
    fn gram(&self, _variances: &[f64], _rows: LayerRows<'_>, _scratch: &mut Scratch, _gram: MatMut<'_, f64>) {}
    /// Adds Σ v rowₘ·row′ₘ′ to an M × M′ matrix, with the rows of the same layer at other points.
    fn cross_gram(
        &self,
        _variances: &[f64],
        _rows: LayerRows<'_>,
        _others: LayerRows<'_>,
        _scratch: &mut Scratch,
        _gram: MatMut<'_, f64>,
    ) {
    }
    /// The shape of its weight matrix, if its rows are outer products of sensitivities and inputs: blocks of the
    /// curvature then need no rows.
    fn outer_products(&self) -> Option<OuterProducts> {
        None
    }
    /// The blocks into which its parameters fall for structures that ignore the curvature between them, in the order of
    /// θ. By default every tensor is a dense block, whose curvature is exact: right for scales and shifts, too large for
    /// weight matrices, for which a layer says [`BlockShape::Matrix`] and has its own [`kronecker`](Self::kronecker). A
    /// layer that contains others lists theirs.
    fn blocks(&self) -> Vec<BlockShape> {
        self.parameter_groups().iter().map(|group| BlockShape::Dense { size: group.size() }).collect()
    }
    /// Adds the curvature of its blocks, in the order of [`blocks`](Self::blocks): the exact block Σₘ rowₘᵀrowₘ of a dense
    /// one; Σ hhᵀ, their number and Σ δδᵀ of a matrix, all over points and, where it is used at several positions of a
    /// point, over these.
    fn kronecker(&self, rows: LayerRows<'_>, sums: &mut [BlockSums]) {
        add_dense_sums(self.dense_rows(rows).as_ref(), &self.blocks(), sums);
    }
    /// Adds Σₘ rowₘ∘rowₘ.
    fn add_squares(&self, rows: LayerRows<'_>, sums: &mut [f64]) {
        add_dense_squares(self.dense_rows(rows).as_ref(), sums);
    }
    /// Adds the covariances of the rows at each point, a K × K block per point, for a covariance in blocks as those of
    /// [`blocks`](Self::blocks). Goes through dense rows unless the layer has a better way.
    fn add_point_covariances(&self, rows: LayerRows<'_>, blocks: &[BlockCovariance], covariances: &mut [f64]) {
        if blocks.iter().any(|block| !matches!(block, BlockCovariance::Fixed(_))) {
            add_dense_point_covariances(self.dense_rows(rows).as_ref(), rows.n_points(), blocks, covariances);
        }
    }
    /// The rows as a matrix of their own.
    fn dense_rows(&self, rows: LayerRows<'_>) -> Mat<f64> {
        let mut dense = Mat::zeros(rows.sensitivities.nrows(), self.n_params());
        self.rows(rows, dense.as_mut());
        dense
    }

    /// Writes the first two Taylor coefficients of the outputs along a velocity (2N rows), and keeps what
    /// [`pull_back_along`](Self::pull_back_along) needs.
    fn forward_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
        kept: &mut Kept,
    );
    /// The same, showing the arguments z₀ and z₁ (2N rows) of every kink inside the layer on the way: those of layers
    /// that are made of layers, and of max pooling.
    fn forward_along_kinks(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
        kept: &mut Kept,
        _show: &mut dyn FnMut(MatRef<'_, f64>),
    ) {
        self.forward_along(theta, velocity, inputs, outputs, kept);
    }
    /// Computes, from sensitivities δ of the outputs and their derivatives δ̇ along the velocity, those of the inputs:
    /// pairs of M rows each.
    fn pull_back_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        sensitivities: (MatRef<'_, f64>, MatRef<'_, f64>),
        inputs: Option<(MatMut<'_, f64>, MatMut<'_, f64>)>,
        kept: &mut Kept,
    );
    /// Writes the derivatives of the rows along the velocity: M × parameters.
    fn rows_along(&self, _rows: LayerRows<'_>, _target: MatMut<'_, f64>) {}
    /// Writes Σₘ wₘ d(rowₘ)/dt.
    fn transpose_times_along(
        &self,
        _weights: &[f64],
        _rows: LayerRows<'_>,
        _scratch: &mut Scratch,
        _product: &mut [f64],
    ) {
    }
}

impl Layer {
    /// What the layer can do.
    pub fn verbs(&self) -> Verbs<'_> {
        match self {
            Layer::Linear(linear) => Verbs::General(linear),
            Layer::Activation(activation) => Verbs::Elementwise(activation),
            Layer::Conv2d(conv) => Verbs::General(conv),
            Layer::AvgPool2d(pool) => Verbs::General(pool),
            Layer::MaxPool2d(pool) => Verbs::General(pool),
            Layer::GlobalAvgPool(pool) => Verbs::General(pool),
            Layer::Flatten => Verbs::Elementwise(&Identity::Flatten),
            Layer::LayerNorm(norm) => Verbs::General(norm),
            Layer::GroupNorm(norm) => Verbs::General(norm),
            Layer::BatchNorm(norm) => Verbs::General(norm),
            Layer::Dropout => Verbs::Elementwise(&Identity::Dropout),
            Layer::Residual(block) => Verbs::General(block),
            Layer::Smoothed(smoothed) => Verbs::Elementwise(smoothed),
            Layer::SmoothedMaxPool2d(pool) => Verbs::General(pool),
        }
    }

    /// The layer with its kinks rounded, each over the next of the widths (one for each column shown) in the order of
    /// [`forward_along_kinks`](LayerVerbs::forward_along_kinks); `None` where it has a kink that cannot be rounded.
    pub(super) fn smoothed(&self, inputs_move: bool, widths: &mut dyn Iterator<Item = Vec<f64>>) -> Option<Layer> {
        match self {
            layer if !layer.verbs().has_kink() => Some(layer.clone()),
            Layer::Activation(activation) => Smoothed::new(*activation, widths.next()?).map(Layer::Smoothed),
            Layer::MaxPool2d(pool) => SmoothedMaxPool2d::new(*pool, widths.next()?).map(Layer::SmoothedMaxPool2d),
            Layer::Residual(block) => block.smoothed(inputs_move, widths).map(Layer::Residual),
            _ => None,
        }
    }
}

/// A layer from its struct, under the variant of the same name.
macro_rules! from_struct {
    ($($name:ident),*) => {$(
        impl From<$name> for Layer {
            fn from(layer: $name) -> Self {
                Layer::$name(layer)
            }
        }
    )*};
}

from_struct!(
    Linear,
    Activation,
    Conv2d,
    AvgPool2d,
    MaxPool2d,
    GlobalAvgPool,
    LayerNorm,
    GroupNorm,
    BatchNorm,
    Residual
);

impl Verbs<'_> {
    /// What is wrong with the layer, if anything is.
    pub fn problem(self) -> Option<String> {
        match self {
            Verbs::Elementwise(_) => None,
            Verbs::General(layer) => layer.problem(),
        }
    }

    /// The width of the inputs, if the layer is bound to one.
    pub fn n_inputs(self) -> Option<usize> {
        match self {
            Verbs::Elementwise(_) => None,
            Verbs::General(layer) => layer.n_inputs(),
        }
    }

    /// The width of the outputs for inputs of this width.
    pub fn n_outputs(self, inputs: usize) -> usize {
        match self {
            Verbs::Elementwise(_) => inputs,
            Verbs::General(layer) => layer.n_outputs(inputs),
        }
    }

    /// The layer's parameters.
    pub fn parameter_groups(self) -> Vec<ParameterGroup> {
        match self {
            Verbs::Elementwise(_) => Vec::new(),
            Verbs::General(layer) => layer.parameter_groups(),
        }
    }

    /// The number of parameters in each group that may have its own prior precision.
    pub fn prior_groups(self) -> Vec<usize> {
        match self {
            Verbs::Elementwise(_) => Vec::new(),
            Verbs::General(layer) => layer.prior_groups(),
        }
    }

    /// Whether a derivative of the outputs has jumps.
    pub fn has_kink(self) -> bool {
        match self {
            Verbs::Elementwise(layer) => layer.has_kink(),
            Verbs::General(layer) => layer.has_kink(),
        }
    }
}

impl std::fmt::Display for Layer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.verbs() {
            Verbs::Elementwise(layer) => formatter.pad(&layer.description()),
            Verbs::General(layer) => formatter.pad(&layer.description()),
        }
    }
}

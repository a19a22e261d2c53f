//! A residual block: z = body(h) + shortcut(h), the sum of two sequences of layers. An empty shortcut is the identity.
//!
//! The parameters are those of the body and then those of the shortcut, named `body.0.weight` and `shortcut.0.weight`
//! within the block. Every verb is that of the two sequences: Taylor coefficients and pulled-back sensitivities add
//! up, rows stand side by side, Gram matrices add up.

use faer::prelude::ReborrowMut;
use faer::{MatMut, MatRef};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::linalg::{add_scaled, column_slice, column_slice_mut};
use crate::map::{BlockCovariance, BlockShape, BlockSums, Scratch, resize};
use crate::network::layer::{Layer, LayerRows, LayerVerbs, ParameterGroup, Verbs};
use crate::network::sequence::Sequence;
use crate::network::tape::{Kept, Tape};

/// A residual block; the formulas are in the module's documentation.
///
/// ```
/// use riemannian_laplace::{Activation, Architecture, Linear, Residual};
///
/// // h + W₂ tanh(W₁h + b₁) + b₂
/// let body = vec![Linear::new(4, 4).into(), Activation::Tanh.into(), Linear::new(4, 4).into()];
/// let block = Residual::new(body, Vec::new())?;
/// let layers = vec![Linear::new(2, 4).into(), block.into(), Linear::new(4, 1).into()];
/// let architecture = Architecture::of_layers(layers)?;
/// assert_eq!(architecture.parameter_groups()[2].name, "1.body.0.weight");
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Branches", into = "Branches")]
pub struct Residual {
    body: Sequence,
    shortcut: Option<Sequence>,
}

/// The block as it is written in files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Branches {
    body: Vec<Layer>,
    shortcut: Vec<Layer>,
}

impl TryFrom<Branches> for Residual {
    type Error = Error;

    fn try_from(branches: Branches) -> Result<Self> {
        Self::new(branches.body, branches.shortcut)
    }
}

impl From<Residual> for Branches {
    fn from(residual: Residual) -> Self {
        Self { body: residual.body().to_vec(), shortcut: residual.shortcut().to_vec() }
    }
}

impl Residual {
    /// The sum of two sequences of layers with the same inputs and equally many outputs. An empty shortcut is the
    /// identity.
    pub fn new(body: Vec<Layer>, shortcut: Vec<Layer>) -> Result<Self> {
        let refuse = |problem: String| Error::Architecture { what: "a residual block".to_string(), problem };
        if body.is_empty() {
            return Err(refuse("needs layers in its body".to_string()));
        }
        let known = Sequence::known_inputs(&body).or_else(|| Sequence::known_inputs(&shortcut));
        let inputs = known.ok_or_else(|| refuse("needs a known number of inputs".to_string()))?;
        let within = |branch: &str, layers: Vec<Layer>| {
            Sequence::with_inputs(layers, inputs).map_err(|error| match error {
                Error::Architecture { what, problem } => refuse(format!("has a {branch} whose {what} {problem}")),
                other => other,
            })
        };
        let body = within("body", body)?;
        let shortcut = if shortcut.is_empty() { None } else { Some(within("shortcut", shortcut)?) };
        let (outputs, others) = (body.n_outputs(), shortcut.as_ref().map_or(inputs, Sequence::n_outputs));
        if outputs != others {
            return Err(refuse(format!("has {outputs} outputs in its body, but {others} in its shortcut")));
        }
        Ok(Self { body, shortcut })
    }

    /// The layers of the body.
    pub fn body(&self) -> &[Layer] {
        self.body.layers()
    }

    /// The layers of the shortcut; empty for the identity.
    pub fn shortcut(&self) -> &[Layer] {
        self.shortcut.as_ref().map_or(&[], Sequence::layers)
    }

    /// The body and, unless it is the identity, the shortcut.
    pub(crate) fn branches(&self) -> impl Iterator<Item = (&'static str, &Sequence)> {
        std::iter::once(("body", &self.body)).chain(self.shortcut.iter().map(|shortcut| ("shortcut", shortcut)))
    }

    /// The block with the kinks of its branches rounded; `None` where one cannot be.
    pub(in super::super) fn smoothed(
        &self,
        inputs_move: bool,
        widths: &mut dyn Iterator<Item = Vec<f64>>,
    ) -> Option<Self> {
        let body = self.body.smoothed(inputs_move, widths)?;
        let shortcut = match &self.shortcut {
            Some(shortcut) => shortcut.smoothed(inputs_move, widths)?,
            None => Vec::new(),
        };
        Self::new(body, shortcut).ok()
    }

    /// Parameters of the body, and of the shortcut.
    fn split<'a, T>(&self, parameters: &'a [T]) -> (&'a [T], &'a [T]) {
        parameters.split_at(self.body.n_params())
    }

    /// Variances of the body, and of the shortcut.
    fn split_variances<'a>(&self, variances: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        variances.split_at(self.body.prior_groups().len())
    }

    fn split_tapes<'a>(&self, tapes: &'a [Tape]) -> (&'a [Tape], &'a [Tape]) {
        tapes.split_at(self.body.layers().len())
    }

    fn split_tapes_mut<'a>(&self, tapes: &'a mut [Tape]) -> (&'a mut [Tape], &'a mut [Tape]) {
        tapes.split_at_mut(self.body.layers().len())
    }

    /// Writes the sum of the branches' outputs, after a forward sweep through both.
    fn add_up(&self, inputs: MatRef<'_, f64>, mut outputs: MatMut<'_, f64>, kept: &Kept) {
        let rows = outputs.nrows();
        let (body, shortcut) = self.split_tapes(&kept.inner);
        outputs.copy_from(self.body.outputs(body).get(..rows, ..));
        match &self.shortcut {
            Some(sequence) => add(sequence.outputs(shortcut).get(..rows, ..), outputs),
            None => add(inputs, outputs),
        }
    }
}

/// Adds one matrix to another; rows that it lacks are zero.
fn add(source: MatRef<'_, f64>, target: MatMut<'_, f64>) {
    for (source, target) in source.col_iter().zip(target.col_iter_mut()) {
        add_scaled(1.0, column_slice(source), column_slice_mut(target));
    }
}

impl LayerVerbs for Residual {
    fn description(&self) -> String {
        let list = |layers: &[Layer]| layers.iter().map(Layer::to_string).collect::<Vec<String>>().join(", ");
        match &self.shortcut {
            Some(shortcut) => format!("residual ({}; shortcut: {})", list(self.body()), list(shortcut.layers())),
            None => format!("residual ({})", list(self.body())),
        }
    }

    fn n_inputs(&self) -> Option<usize> {
        Some(self.body.n_inputs())
    }

    fn n_outputs(&self, _inputs: usize) -> usize {
        self.body.n_outputs()
    }

    fn parameter_groups(&self) -> Vec<ParameterGroup> {
        let named = |(branch, sequence): (&str, &Sequence)| {
            let name = |group: ParameterGroup| ParameterGroup { name: format!("{branch}.{}", group.name), ..group };
            sequence.parameter_groups().into_iter().map(name).collect::<Vec<ParameterGroup>>()
        };
        self.branches().flat_map(named).collect()
    }

    fn prior_groups(&self) -> Vec<usize> {
        self.branches().flat_map(|(_, sequence)| sequence.prior_groups()).collect()
    }

    fn has_kink(&self) -> bool {
        self.branches().any(|(_, sequence)| sequence.layers().iter().any(|layer| layer.verbs().has_kink()))
    }

    fn initialize(&self, generator: &mut ChaCha8Rng, parameters: &mut [f64]) {
        let (body, shortcut) = parameters.split_at_mut(self.body.n_params());
        for ((_, sequence), parameters) in self.branches().zip([body, shortcut]) {
            for (layer, range) in sequence.layers().iter().zip(sequence.param_ranges()) {
                if let Verbs::General(layer) = layer.verbs() {
                    layer.initialize(generator, &mut parameters[range]);
                }
            }
        }
    }

    /// The tapes of both branches, and room for sensitivities of the inputs of a shortcut that has layers.
    fn kept(&self, inputs: usize, points: usize, columns: usize) -> Kept {
        let inner = self.branches().flat_map(|(_, sequence)| sequence.tapes(points, columns)).collect();
        let rows = if self.shortcut.is_some() { points * columns } else { 0 };
        Kept { inner, ..Kept::nothing().with_room(rows, if rows > 0 { inputs } else { 0 }) }
    }

    fn kept_size(&self, inputs: usize, points: usize, columns: usize) -> f64 {
        let tapes: f64 = self.branches().map(|(_, sequence)| sequence.tape_size(points, columns)).sum();
        let room = if self.shortcut.is_some() { points as f64 * columns as f64 * inputs as f64 } else { 0.0 };
        tapes + room
    }

    fn scratch_width(&self) -> usize {
        self.branches().map(|(_, sequence)| sequence.scratch_width()).max().unwrap_or(0)
    }

    fn gram_work(&self, points: usize, columns: usize) -> f64 {
        self.branches().map(|(_, sequence)| sequence.gram_work(points, columns)).sum()
    }

    fn product_work(&self, points: usize, columns: usize) -> f64 {
        self.branches().map(|(_, sequence)| sequence.product_work(points, columns)).sum()
    }

    fn forward(&self, theta: &[f64], inputs: MatRef<'_, f64>, outputs: MatMut<'_, f64>, kept: &mut Kept) {
        let (theta, own) = self.split(theta);
        let (body, shortcut) = self.split_tapes_mut(&mut kept.inner);
        self.body.forward(theta, inputs, body);
        if let Some(sequence) = &self.shortcut {
            sequence.forward(own, inputs, shortcut);
        }
        self.add_up(inputs, outputs, kept);
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], inputs: MatRef<'_, f64>, outputs: MatMut<'_, f64>, kept: &mut Kept) {
        let (theta, velocity) = (self.split(theta), self.split(velocity));
        let (body, shortcut) = self.split_tapes_mut(&mut kept.inner);
        self.body.jet(theta.0, velocity.0, inputs, body);
        if let Some(sequence) = &self.shortcut {
            sequence.jet(theta.1, velocity.1, inputs, shortcut);
        }
        self.add_up(inputs, outputs, kept);
    }

    fn pull_back(
        &self,
        theta: &[f64],
        sensitivities: MatRef<'_, f64>,
        mut inputs: Option<MatMut<'_, f64>>,
        kept: &mut Kept,
    ) {
        let theta = self.split(theta);
        let (body, shortcut) = self.split_tapes_mut(&mut kept.inner);
        self.body.seeds_mut(body).copy_from(sensitivities);
        self.body.pull_back(theta.0, body, inputs.as_mut().map(ReborrowMut::rb_mut));
        match (&self.shortcut, inputs) {
            (Some(sequence), Some(inputs)) => {
                sequence.seeds_mut(shortcut).copy_from(sensitivities);
                sequence.pull_back(theta.1, shortcut, Some(kept.room.as_mut()));
                add(kept.room.as_ref(), inputs);
            }
            (Some(sequence), None) => {
                sequence.seeds_mut(shortcut).copy_from(sensitivities);
                sequence.pull_back(theta.1, shortcut, None);
            }
            (None, Some(inputs)) => add(sensitivities, inputs),
            (None, None) => {}
        }
    }

    fn rows(&self, rows: LayerRows<'_>, target: MatMut<'_, f64>) {
        let (body, shortcut) = self.split_tapes(&rows.kept.inner);
        let (left, right) = target.split_at_col_mut(self.body.n_params());
        self.body.rows(rows.coefficients, body, left);
        if let Some(sequence) = &self.shortcut {
            sequence.rows(rows.coefficients, shortcut, right);
        }
    }

    fn times(&self, direction: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let (body, shortcut) = self.split_tapes(&rows.kept.inner);
        let direction = self.split(direction);
        self.body.times(direction.0, rows.coefficients, body, scratch, product);
        if let Some(sequence) = &self.shortcut {
            sequence.times(direction.1, rows.coefficients, shortcut, scratch, product);
        }
    }

    fn transpose_times(&self, weights: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let (body, shortcut) = self.split_tapes(&rows.kept.inner);
        let product = product.split_at_mut(self.body.n_params());
        self.body.transpose_times(weights, rows.coefficients, body, scratch, product.0);
        if let Some(sequence) = &self.shortcut {
            sequence.transpose_times(weights, rows.coefficients, shortcut, scratch, product.1);
        }
    }

    fn gram(&self, variances: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, mut gram: MatMut<'_, f64>) {
        let (body, shortcut) = self.split_tapes(&rows.kept.inner);
        let variances = self.split_variances(variances);
        self.body.gram(variances.0, rows.coefficients, body, scratch, gram.rb_mut());
        if let Some(sequence) = &self.shortcut {
            sequence.gram(variances.1, rows.coefficients, shortcut, scratch, gram);
        }
    }

    fn cross_gram(
        &self,
        variances: &[f64],
        rows: LayerRows<'_>,
        others: LayerRows<'_>,
        scratch: &mut Scratch,
        mut gram: MatMut<'_, f64>,
    ) {
        let (own, other) = (self.split_tapes(&rows.kept.inner), self.split_tapes(&others.kept.inner));
        let variances = self.split_variances(variances);
        let (inputs, other_inputs) = (rows.coefficients, others.coefficients);
        self.body.cross_gram(variances.0, (inputs, own.0), (other_inputs, other.0), scratch, gram.rb_mut());
        if let Some(sequence) = &self.shortcut {
            sequence.cross_gram(variances.1, (inputs, own.1), (other_inputs, other.1), scratch, gram);
        }
    }

    fn blocks(&self) -> Vec<BlockShape> {
        self.branches().flat_map(|(_, sequence)| sequence.blocks()).collect()
    }

    fn kronecker(&self, rows: LayerRows<'_>, sums: &mut [BlockSums]) {
        let (body, shortcut) = self.split_tapes(&rows.kept.inner);
        let sums = sums.split_at_mut(self.body.blocks().len());
        self.body.kronecker(rows.coefficients, body, sums.0);
        if let Some(sequence) = &self.shortcut {
            sequence.kronecker(rows.coefficients, shortcut, sums.1);
        }
    }

    fn add_squares(&self, rows: LayerRows<'_>, sums: &mut [f64]) {
        let (body, shortcut) = self.split_tapes(&rows.kept.inner);
        let sums = sums.split_at_mut(self.body.n_params());
        self.body.add_squares(rows.coefficients, body, sums.0);
        if let Some(sequence) = &self.shortcut {
            sequence.add_squares(rows.coefficients, shortcut, sums.1);
        }
    }

    fn add_point_covariances(&self, rows: LayerRows<'_>, blocks: &[BlockCovariance], covariances: &mut [f64]) {
        let (body, shortcut) = self.split_tapes(&rows.kept.inner);
        let blocks = blocks.split_at(self.body.blocks().len());
        self.body.add_point_covariances(rows.coefficients, body, blocks.0, covariances);
        if let Some(sequence) = &self.shortcut {
            sequence.add_point_covariances(rows.coefficients, shortcut, blocks.1, covariances);
        }
    }

    fn forward_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        self.forward_along_kinks(theta, velocity, inputs, outputs, kept, &mut |_| {});
    }

    fn forward_along_kinks(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
        kept: &mut Kept,
        show: &mut dyn FnMut(MatRef<'_, f64>),
    ) {
        let (theta, velocity) = (self.split(theta), self.split(velocity));
        let (body, shortcut) = self.split_tapes_mut(&mut kept.inner);
        self.body.forward_along_kinks(theta.0, velocity.0, inputs, body, show);
        if let Some(sequence) = &self.shortcut {
            sequence.forward_along_kinks(theta.1, velocity.1, inputs, shortcut, show);
        }
        self.add_up(inputs, outputs, kept);
    }

    fn pull_back_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        sensitivities: (MatRef<'_, f64>, MatRef<'_, f64>),
        mut inputs: Option<(MatMut<'_, f64>, MatMut<'_, f64>)>,
        kept: &mut Kept,
    ) {
        let (theta, velocity) = (self.split(theta), self.split(velocity));
        let (body, shortcut) = self.split_tapes_mut(&mut kept.inner);
        let pair = inputs.as_mut().map(|(inputs, along)| (inputs.rb_mut(), along.rb_mut()));
        self.body.pull_back_moving(theta.0, velocity.0, sensitivities, body, pair);
        match (&self.shortcut, inputs) {
            (Some(sequence), Some((inputs, along))) => {
                resize(&mut kept.along, kept.room.nrows(), kept.room.ncols());
                let pair = (kept.room.as_mut(), kept.along.as_mut());
                sequence.pull_back_moving(theta.1, velocity.1, sensitivities, shortcut, Some(pair));
                add(kept.room.as_ref(), inputs);
                add(kept.along.as_ref(), along);
            }
            (Some(sequence), None) => {
                sequence.pull_back_moving(theta.1, velocity.1, sensitivities, shortcut, None);
            }
            (None, Some((inputs, along))) => {
                add(sensitivities.0, inputs);
                add(sensitivities.1, along);
            }
            (None, None) => {}
        }
    }

    fn rows_along(&self, rows: LayerRows<'_>, target: MatMut<'_, f64>) {
        let (body, shortcut) = self.split_tapes(&rows.kept.inner);
        let (left, right) = target.split_at_col_mut(self.body.n_params());
        self.body.rows_along(rows.coefficients, body, left);
        if let Some(sequence) = &self.shortcut {
            sequence.rows_along(rows.coefficients, shortcut, right);
        }
    }

    fn transpose_times_along(&self, weights: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let (body, shortcut) = self.split_tapes(&rows.kept.inner);
        let product = product.split_at_mut(self.body.n_params());
        self.body.transpose_times_along(weights, rows.coefficients, body, scratch, product.0);
        if let Some(sequence) = &self.shortcut {
            sequence.transpose_times_along(weights, rows.coefficients, shortcut, scratch, product.1);
        }
    }
}

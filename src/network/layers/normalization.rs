//! What the normalisations share: z = γ x̂ + β with x̂ = r (h − μ), r = 1/√(s² + ε).
//!
//! With statistics of the point itself ([`LayerNorm`](super::LayerNorm), [`GroupNorm`](super::GroupNorm)), μ and s² are
//! the mean and variance of a group of columns at that point. With h = h₀ + h₁t + h₂t² and its centred coefficients c₀,
//! c₁, c₂, the variance has the coefficients q₀ = ⟨c₀²⟩, q₁ = 2⟨c₀c₁⟩, q₂ = ⟨c₁² + 2c₀c₂⟩ (⟨·⟩ the mean over a group), so
//!
//! r₀ = (q₀ + ε)^−½, r₁ = −½ q₁ r₀³, r₂ = −½ q₂ r₀³ + ⅜ q₁² r₀⁵, x̂₀ = c₀r₀, x̂₁ = c₁r₀ + c₀r₁, x̂₂ = c₂r₀ + c₁r₁ + c₀r₂.
//!
//! Sensitivities η of x̂ pull back to r₀(η − ⟨η⟩ − x̂₀⟨ηx̂₀⟩), and along a velocity to its derivative, with r₁, x̂₁ and η̇.
//! With running statistics ([`BatchNorm`](super::BatchNorm)), μ and r are constants of a channel, and all is linear.

use faer::prelude::{Reborrow, ReborrowMut};
use faer::{ColMut, ColRef, MatMut, MatRef};
use rand_chacha::ChaCha8Rng;

use super::scale_shift::{Pair, ScaleShift};
use crate::linalg::{add_products, add_scaled, column_slice, column_slice_mut, scale_by};
use crate::map::{Scratch, resize};
use crate::network::layer::{LayerRows, LayerVerbs, ParameterGroup};
use crate::network::tape::Kept;

/// Where the mean and the variance come from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Statistics<'a> {
    /// This many groups of consecutive columns, each with its own mean and variance at every point.
    OfPoint {
        /// The number of groups.
        groups: usize,
    },
    /// Constants of each channel.
    Running {
        /// μ.
        mean: &'a [f64],
        /// s².
        variance: &'a [f64],
    },
}

/// A normalisation; every one of them is a layer.
pub(super) trait Normalization {
    fn description(&self) -> String;
    fn problem(&self) -> Option<String>;
    /// The number of columns.
    fn width(&self) -> usize;
    /// ε.
    fn epsilon(&self) -> f64;
    fn statistics(&self) -> Statistics<'_>;
    fn scale_shift(&self) -> ScaleShift;
    /// The shape of the scales, and of the shifts.
    fn parameter_shape(&self) -> Vec<usize> {
        vec![self.scale_shift().count]
    }
}

/// What is wrong with an ε, if anything is.
pub(super) fn epsilon_problem(epsilon: f64) -> Option<String> {
    (!(epsilon >= 0.0 && epsilon.is_finite())).then(|| format!("needs an epsilon of zero or more, not {epsilon}"))
}

/// The matrices kept, `matrix` and `along`, have the columns of x̂ and then r of every group; `along` their derivatives.
/// Groups are runs of this many columns.
fn group_size(layer: &(impl Normalization + ?Sized), groups: usize) -> usize {
    layer.width() / groups
}

/// The number of r that are kept.
fn n_roots(layer: &(impl Normalization + ?Sized)) -> usize {
    match layer.statistics() {
        Statistics::OfPoint { groups } => groups,
        Statistics::Running { .. } => 0,
    }
}

/// The entries of a column in block k of N rows.
fn block_of(column: ColRef<'_, f64>, k: usize, n: usize) -> &[f64] {
    &column_slice(column)[k * n..(k + 1) * n]
}

fn block_of_mut(column: ColMut<'_, f64>, k: usize, n: usize) -> &mut [f64] {
    &mut column_slice_mut(column)[k * n..(k + 1) * n]
}

/// Writes the Taylor coefficients of x̂, and keeps x̂₀ and r₀, and x̂₁ and r₁ if there are two coefficients.
fn normalize(
    layer: &(impl Normalization + ?Sized),
    inputs: MatRef<'_, f64>,
    mut outputs: MatMut<'_, f64>,
    kept: &mut Kept,
) {
    let n = kept.matrix.nrows();
    for (input, output) in inputs.col_iter().zip(outputs.rb_mut().col_iter_mut()) {
        let (head, rest) = column_slice_mut(output).split_at_mut(inputs.nrows());
        head.copy_from_slice(column_slice(input));
        rest.fill(0.0);
    }
    let along = outputs.nrows() == 2 * n;
    if along {
        resize(&mut kept.along, n, layer.width() + n_roots(layer));
    }
    match layer.statistics() {
        Statistics::Running { mean, variance } => {
            for (j, column) in outputs.rb_mut().col_iter_mut().enumerate() {
                let channel = layer.scale_shift().parameter_of(j);
                column_slice_mut(column)[..n].iter_mut().for_each(|value| *value -= mean[channel]);
            }
            scale_by_channel(layer, variance, outputs.rb_mut());
        }
        Statistics::OfPoint { groups } => {
            let size = group_size(layer, groups);
            for group in 0..groups {
                let mut values = outputs.rb_mut().get_mut(.., group * size..(group + 1) * size);
                let root = column_slice_mut(kept.matrix.col_mut(layer.width() + group));
                let room = column_slice_mut(kept.room.col_mut(0));
                let change = normalize_group(layer.epsilon(), values.rb_mut(), root, room);
                if along {
                    column_slice_mut(kept.along.col_mut(layer.width() + group)).copy_from_slice(change);
                }
            }
        }
    }
    for (column, target) in outputs.rb().col_iter().zip(kept.matrix.col_iter_mut()) {
        column_slice_mut(target).copy_from_slice(block_of(column, 0, n));
    }
    if along {
        for (column, target) in outputs.rb().col_iter().zip(kept.along.col_iter_mut()) {
            column_slice_mut(target).copy_from_slice(block_of(column, 1, n));
        }
    }
}

/// Replaces the Taylor coefficients of h by those of x̂ in the columns of one group; writes r₀ and returns r₁.
fn normalize_group<'a>(
    epsilon: f64,
    mut values: MatMut<'_, f64>,
    r0: &mut [f64],
    room: &'a mut [f64],
) -> &'a mut [f64] {
    let n = r0.len();
    let (coefficients, inverse) = (values.nrows() / n.max(1), 1.0 / values.ncols() as f64);
    let (r1, rest) = room.split_at_mut(n);
    let (r2, rest) = rest.split_at_mut(n);
    let mean = &mut rest[..n];
    for coefficient in 0..coefficients {
        mean.fill(0.0);
        for column in values.rb().col_iter() {
            add_scaled(inverse, block_of(column, coefficient, n), mean);
        }
        for column in values.rb_mut().col_iter_mut() {
            add_scaled(-1.0, mean, block_of_mut(column, coefficient, n));
        }
    }
    // First the sums of which q₀, q₁, q₂ are made.
    r0.fill(0.0);
    r1.fill(0.0);
    r2.fill(0.0);
    for column in values.rb().col_iter() {
        let c0 = block_of(column, 0, n);
        add_products(c0, c0, r0);
        if coefficients > 1 {
            add_products(c0, block_of(column, 1, n), r1);
        }
        if coefficients > 2 {
            let (c1, c2) = (block_of(column, 1, n), block_of(column, 2, n));
            for (((sum, c0), c1), c2) in r2.iter_mut().zip(c0).zip(c1).zip(c2) {
                *sum += c1 * c1 + 2.0 * c0 * c2;
            }
        }
    }
    for ((r0, r1), r2) in r0.iter_mut().zip(r1.iter_mut()).zip(r2.iter_mut()) {
        let (q1, q2) = (2.0 * inverse * *r1, inverse * *r2);
        *r0 = 1.0 / (inverse * *r0 + epsilon).sqrt();
        let cube = *r0 * *r0 * *r0;
        *r1 = -0.5 * q1 * cube;
        *r2 = -0.5 * q2 * cube + 0.375 * q1 * q1 * cube * *r0 * *r0;
    }
    for column in values.rb_mut().col_iter_mut() {
        let (c0, rest) = column_slice_mut(column).split_at_mut(n);
        if coefficients > 1 {
            let (c1, c2) = rest.split_at_mut(n);
            if coefficients > 2 {
                scale_by(r0, c2);
                add_products(r1, c1, c2);
                add_products(r2, c0, c2);
            }
            scale_by(r0, c1);
            add_products(r1, c0, c1);
        }
        scale_by(r0, c0);
    }
    r1
}

/// Multiplies every column by the r of its channel.
fn scale_by_channel(layer: &(impl Normalization + ?Sized), variance: &[f64], values: MatMut<'_, f64>) {
    for (j, column) in values.col_iter_mut().enumerate() {
        let factor = 1.0 / (variance[layer.scale_shift().parameter_of(j)] + layer.epsilon()).sqrt();
        column_slice_mut(column).iter_mut().for_each(|value| *value *= factor);
    }
}

/// Replaces sensitivities η of x̂ by those of h.
fn pull_back(layer: &(impl Normalization + ?Sized), mut values: MatMut<'_, f64>, kept: &mut Kept) {
    let groups = match layer.statistics() {
        Statistics::Running { variance, .. } => return scale_by_channel(layer, variance, values),
        Statistics::OfPoint { groups } => groups,
    };
    let (n, size) = (kept.matrix.nrows(), group_size(layer, groups));
    let inverse = 1.0 / size as f64;
    let (mean, projection) = column_slice_mut(kept.room.col_mut(0)).split_at_mut(n);
    for (k, group) in (0..values.nrows() / n.max(1)).flat_map(|k| (0..groups).map(move |group| (k, group))) {
        let columns = group * size..(group + 1) * size;
        let root = column_slice(kept.matrix.col(layer.width() + group));
        mean.fill(0.0);
        projection.fill(0.0);
        for j in columns.clone() {
            let eta = block_of(values.rb().col(j), k, n);
            add_scaled(inverse, eta, mean);
            add_products(eta, column_slice(kept.matrix.col(j)), projection);
        }
        for j in columns {
            let (eta, x) = (block_of_mut(values.rb_mut().col_mut(j), k, n), column_slice(kept.matrix.col(j)));
            for ((((eta, mean), projection), x), root) in eta.iter_mut().zip(&*mean).zip(&*projection).zip(x).zip(root)
            {
                *eta = root * (*eta - mean - inverse * x * projection);
            }
        }
    }
}

/// Replaces sensitivities η of x̂ and their derivatives η̇ by those of h: with g = η − ⟨η⟩ − x̂₀⟨ηx̂₀⟩, η becomes r₀g, and η̇
/// becomes r₁g + r₀(η̇ − ⟨η̇⟩ − x̂₀⟨η̇x̂₀ + ηx̂₁⟩ − x̂₁⟨ηx̂₀⟩).
fn pull_back_along(
    layer: &(impl Normalization + ?Sized),
    mut values: MatMut<'_, f64>,
    mut along: MatMut<'_, f64>,
    kept: &mut Kept,
) {
    let groups = match layer.statistics() {
        Statistics::Running { variance, .. } => {
            scale_by_channel(layer, variance, values);
            return scale_by_channel(layer, variance, along);
        }
        Statistics::OfPoint { groups } => groups,
    };
    let (n, size) = (kept.matrix.nrows(), group_size(layer, groups));
    let inverse = 1.0 / size as f64;
    for (k, group) in (0..values.nrows() / n.max(1)).flat_map(|k| (0..groups).map(move |group| (k, group))) {
        let columns = group * size..(group + 1) * size;
        let (mean, rest) = column_slice_mut(kept.room.col_mut(0)).split_at_mut(n);
        let (projection, rest) = rest.split_at_mut(n);
        let (mean_change, projection_change) = rest.split_at_mut(n);
        for sum in [&mut *mean, &mut *projection, &mut *mean_change, &mut *projection_change] {
            sum.fill(0.0);
        }
        for j in columns.clone() {
            let (eta, change) = (block_of(values.rb().col(j), k, n), block_of(along.rb().col(j), k, n));
            let (x, x_change) = (column_slice(kept.matrix.col(j)), column_slice(kept.along.col(j)));
            add_scaled(inverse, eta, mean);
            add_scaled(inverse, change, mean_change);
            add_products(eta, x, projection);
            add_products(change, x, projection_change);
            add_products(eta, x_change, projection_change);
        }
        let (root, root_change) = (kept.matrix.col(layer.width() + group), kept.along.col(layer.width() + group));
        let (root, root_change) = (column_slice(root), column_slice(root_change));
        for j in columns {
            let eta = block_of_mut(values.rb_mut().col_mut(j), k, n);
            let change = block_of_mut(along.rb_mut().col_mut(j), k, n);
            let (x, x_change) = (column_slice(kept.matrix.col(j)), column_slice(kept.along.col(j)));
            for i in 0..n {
                let g = eta[i] - mean[i] - inverse * x[i] * projection[i];
                let moved =
                    change[i] - mean_change[i] - inverse * (x[i] * projection_change[i] + x_change[i] * projection[i]);
                eta[i] = root[i] * g;
                change[i] = root_change[i] * g + root[i] * moved;
            }
        }
    }
}

impl<T: Normalization> LayerVerbs for T {
    fn description(&self) -> String {
        Normalization::description(self)
    }

    fn problem(&self) -> Option<String> {
        Normalization::problem(self)
    }

    fn n_inputs(&self) -> Option<usize> {
        Some(self.width())
    }

    fn n_outputs(&self, _inputs: usize) -> usize {
        self.width()
    }

    fn parameter_groups(&self) -> Vec<ParameterGroup> {
        let ScaleShift { scale, shift, .. } = self.scale_shift();
        let group = |name: &str| ParameterGroup { name: name.to_string(), shape: self.parameter_shape() };
        scale.then(|| group("weight")).into_iter().chain(shift.then(|| group("bias"))).collect()
    }

    /// Scales of one and shifts of zero.
    fn initialize(&self, _generator: &mut ChaCha8Rng, parameters: &mut [f64]) {
        let ScaleShift { count, scale, .. } = self.scale_shift();
        parameters.fill(0.0);
        if scale {
            parameters[..count].fill(1.0);
        }
    }

    fn kept(&self, _inputs: usize, points: usize, _columns: usize) -> Kept {
        Kept::matrix(points, self.width() + n_roots(self)).with_room(4 * points, 1)
    }

    fn kept_size(&self, _inputs: usize, points: usize, _columns: usize) -> f64 {
        points as f64 * (self.width() + n_roots(self) + 4) as f64
    }

    fn scratch_width(&self) -> usize {
        1
    }

    /// Through the rows.
    fn gram_work(&self, points: usize, columns: usize) -> f64 {
        let rows = points as f64 * columns as f64;
        rows * (0.5 * rows * self.scale_shift().n_params() as f64 + 2.0 * self.width() as f64)
    }

    fn product_work(&self, points: usize, columns: usize) -> f64 {
        points as f64 * self.width() as f64 * (columns + 1) as f64
    }

    fn forward(&self, theta: &[f64], inputs: MatRef<'_, f64>, mut outputs: MatMut<'_, f64>, kept: &mut Kept) {
        normalize(self, inputs, outputs.rb_mut(), kept);
        self.scale_shift().forward(theta, None, kept.matrix.nrows(), outputs);
    }

    fn jet(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        mut outputs: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        normalize(self, inputs, outputs.rb_mut(), kept);
        self.scale_shift().forward(theta, Some(velocity), kept.matrix.nrows(), outputs);
    }

    fn pull_back(
        &self,
        theta: &[f64],
        sensitivities: MatRef<'_, f64>,
        inputs: Option<MatMut<'_, f64>>,
        kept: &mut Kept,
    ) {
        if let Some(mut inputs) = inputs {
            self.scale_shift().pull_back(theta, sensitivities, inputs.rb_mut());
            pull_back(self, inputs, kept);
        }
    }

    fn rows(&self, rows: LayerRows<'_>, target: MatMut<'_, f64>) {
        self.scale_shift().rows(pair(self, rows), target);
    }

    fn times(&self, direction: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        self.scale_shift().times(direction, pair(self, rows), scratch, product);
    }

    fn transpose_times(&self, weights: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        product.fill(0.0);
        self.scale_shift().add_transpose_times(weights, pair(self, rows), scratch, product);
    }

    fn gram(&self, variances: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, gram: MatMut<'_, f64>) {
        self.scale_shift().gram(variances[0], pair(self, rows), scratch, gram);
    }

    fn cross_gram(
        &self,
        variances: &[f64],
        rows: LayerRows<'_>,
        others: LayerRows<'_>,
        scratch: &mut Scratch,
        gram: MatMut<'_, f64>,
    ) {
        self.scale_shift().cross_gram(variances[0], pair(self, rows), pair(self, others), scratch, gram);
    }

    fn forward_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        inputs: MatRef<'_, f64>,
        outputs: MatMut<'_, f64>,
        kept: &mut Kept,
    ) {
        self.jet(theta, velocity, inputs, outputs, kept);
    }

    fn pull_back_along(
        &self,
        theta: &[f64],
        velocity: &[f64],
        sensitivities: (MatRef<'_, f64>, MatRef<'_, f64>),
        inputs: Option<(MatMut<'_, f64>, MatMut<'_, f64>)>,
        kept: &mut Kept,
    ) {
        let Some((mut inputs, mut along)) = inputs else { return };
        let parameters = self.scale_shift();
        parameters.pull_back(theta, sensitivities.0, inputs.rb_mut());
        parameters.pull_back(theta, sensitivities.1, along.rb_mut());
        parameters.add_change(velocity, sensitivities.0, along.rb_mut());
        pull_back_along(self, inputs, along, kept);
    }

    fn rows_along(&self, rows: LayerRows<'_>, mut target: MatMut<'_, f64>) {
        let along = LayerRows { sensitivities: rows.sensitivities_along, ..rows };
        self.scale_shift().rows(pair(self, along), target.rb_mut());
        self.scale_shift().add_scale_rows(moved_pair(self, rows), target);
    }

    fn transpose_times_along(&self, weights: &[f64], rows: LayerRows<'_>, scratch: &mut Scratch, product: &mut [f64]) {
        let along = LayerRows { sensitivities: rows.sensitivities_along, ..rows };
        self.transpose_times(weights, along, scratch, product);
        self.scale_shift().add_scale_transpose_times(weights, moved_pair(self, rows), scratch, product);
    }
}

/// x̂₀ and the sensitivities.
fn pair<'a>(layer: &(impl Normalization + ?Sized), rows: LayerRows<'a>) -> Pair<'a> {
    Pair { normalized: rows.kept.matrix.get(.., ..layer.width()), sensitivities: rows.sensitivities }
}

/// x̂₁ and the sensitivities.
fn moved_pair<'a>(layer: &(impl Normalization + ?Sized), rows: LayerRows<'a>) -> Pair<'a> {
    Pair { normalized: rows.kept.along.get(.., ..layer.width()), sensitivities: rows.sensitivities }
}

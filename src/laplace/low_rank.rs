//! Low rank: G = A + FFᵀ/σ², where FFᵀ has the K largest eigenvalues of the curvature C = Σₙ JₙᵀHₙJₙ and their
//! eigenvectors. What the data say in other directions is ignored; with K = D, or K at least the rank of C, it is exact.
//!
//! C is never formed. Each pass over the data gives Y = CQ, a sum over the data, for D × (K + 10) orthonormal columns Q,
//! which start from fixed random ones; the next Q is an orthonormal basis of Y. After each pass the Nyström approximation
//! Y(QᵀY)⁻¹Yᵀ has the largest eigenpairs; it never exceeds C, whatever Q, so that what the iteration has not found counts
//! as not known. The pass is the last when the K largest eigenvalues have settled. With one σ per output, each output has
//! its own eigenpairs.

use std::any::Any;
use std::sync::Arc;

use faer::{Accum, Mat, MatRef};
use rayon::prelude::*;

use super::low_rank_precision::LowRank;
use super::problem::{BatchRows, Problem};
use super::structure::{
    Curvature, LogDet, LogDetForm, LogDetRatio, Precision, SavedTensor, SavedTensors, Spectrum, same_kind,
};
use crate::error::{Error, PosteriorError, Result, Unsupported};
use crate::linalg::{
    Cholesky, add_scaled, column_slice, column_slice_mut, dot, eigenvalues, inverse_lower, multiply,
    multiply_by_own_transpose, norm, symmetric_eigen,
};
use crate::map::{Rows, Scratch};
use crate::prior::PriorPrecision;
use crate::random::{Purpose, fill_standard_normal, stream};

/// Columns beyond K, which make the iteration converge.
const EXTRA: usize = 10;
/// The most passes over the data.
const MOST_PASSES: usize = 8;
/// The relative change of every eigenvalue from one pass to the next at which they have settled.
const SETTLED: f64 = 1e-3;
/// The seed of the first columns: the same for every fit.
const SEED: u64 = 0x10f4;
/// A column with less than this share left after projection lies in the span of the others.
const IN_SPAN: f64 = 1e-13;
/// Eigenvalues of QᵀCQ below this times ε times its size times the largest are rounding: C has no more directions.
const ROUNDING: f64 = 8.0;

/// The number of columns of Q.
pub(super) fn columns(rank: usize, n_params: usize) -> usize {
    rank.saturating_add(EXTRA).min(n_params)
}

/// The number of f64 values held at the peak: for each level Q and Y of a block of rows and of all rows; or Q, Y, and
/// what the Nyström approximation is computed from.
pub(super) fn numbers(problem: &Problem, rank: usize) -> f64 {
    let d = problem.model.n_params();
    4.0 * problem.sigmas().len() as f64 * d as f64 * columns(rank, d) as f64
}

/// F, and the rows of a block of test points with their solutions.
pub(super) fn loaded_numbers(problem: &Problem, rank: usize) -> f64 {
    let (d, p) = (problem.model.n_params(), problem.model.n_outputs());
    d as f64 * (rank.min(d) * problem.sigmas().len() + 3 * p) as f64
}

pub(super) fn begin(problem: &Problem, rank: usize) -> Result<Box<dyn Curvature>> {
    if rank == 0 {
        return Err(Error::Unsupported(Unsupported::NoRank));
    }
    let d = problem.model.n_params();
    let width = columns(rank, d);
    let level = |level: usize| {
        let mut basis = Mat::identity(d, width);
        if width < d {
            for (index, column) in basis.col_iter_mut().enumerate() {
                let mut generator = stream(SEED, Purpose::Range, (level * width + index) as u64);
                fill_standard_normal(&mut generator, column_slice_mut(column));
            }
            basis = orthonormal(basis);
        }
        Level::Iterating { basis: Arc::new(basis), product: Mat::new(), before: Vec::new() }
    };
    let levels = (0..problem.sigmas().len()).map(level).collect();
    Ok(Box::new(LowRankSums { rank, levels, groups: problem.model.group_sizes(), passes: 0 }))
}

pub(super) fn load_sums(problem: &Problem, rank: usize, file: &mut dyn SavedTensors) -> Result<Box<dyn Curvature>> {
    let count = if file.has("1.factor") { problem.model.n_outputs() } else { 1 };
    let mut levels = Vec::with_capacity(count);
    for level in 0..count {
        levels.push(Level::Found(Arc::new(take_factor(problem, &format!("{level}."), file)?)));
    }
    Ok(Box::new(LowRankSums { rank, levels, groups: problem.model.group_sizes(), passes: 0 }))
}

pub(super) fn load(
    problem: &Problem,
    rank: usize,
    prior: &PriorPrecision,
    file: &mut dyn SavedTensors,
) -> Result<Arc<dyn Precision>> {
    Ok(Arc::new(LowRank::new(take_factor(problem, "", file)?, prior, rank)?))
}

/// A D × R matrix as tensors.
pub(super) fn saved_factor(prefix: &str, factor: &Mat<f64>) -> [SavedTensor; 2] {
    let (d, count) = (factor.nrows(), factor.ncols());
    let values = factor.col_iter().flat_map(column_slice).copied().collect();
    [
        SavedTensor { name: format!("{prefix}columns"), shape: vec![1], values: vec![count as f64] },
        SavedTensor { name: format!("{prefix}factor"), shape: vec![count, d], values },
    ]
}

fn take_factor(problem: &Problem, prefix: &str, file: &mut dyn SavedTensors) -> Result<Mat<f64>> {
    let count = file.take(&format!("{prefix}columns"), &[1])?.first().map_or(0, |count| *count as usize);
    let d = problem.model.n_params();
    let values = file.take(&format!("{prefix}factor"), &[count, d])?;
    if let Some(entry) = values.iter().position(|value| !value.is_finite()) {
        return Err(Error::Posterior(PosteriorError::StoredFactor { entry }));
    }
    Ok(MatRef::from_column_major_slice(&values, d, count).to_owned())
}

/// The iteration of one noise level.
#[derive(Debug, Clone)]
enum Level {
    /// A pass over the data.
    Iterating {
        /// Q, D × columns.
        basis: Arc<Mat<f64>>,
        /// Y = CQ of the data so far; without columns before the first.
        product: Mat<f64>,
        /// The eigenvalues that the pass before found, largest first.
        before: Vec<f64>,
    },
    /// F, D × at most K, where no further pass is needed.
    Found(Arc<Mat<f64>>),
}

impl Level {
    /// F; an error while the iteration has not ended.
    fn found(&self) -> Result<&Mat<f64>> {
        match self {
            Level::Found(factor) => Ok(factor),
            Level::Iterating { .. } => Err(Error::Unsupported(Unsupported::UnfinishedPasses)),
        }
    }
}

/// What a pass found.
struct Found {
    /// F: columns √λ u, largest first.
    factor: Mat<f64>,
    /// λ, largest first.
    values: Vec<f64>,
    /// Whether these are all that C has.
    all: bool,
}

/// The K largest eigenpairs of EEᵀ as one factor.
fn largest(factor: &Mat<f64>, rank: usize) -> Result<(Mat<f64>, Vec<f64>)> {
    let width = factor.ncols();
    let mut gram = Mat::zeros(width, width);
    multiply_by_own_transpose(gram.as_mut(), Accum::Replace, factor.transpose());
    let eigen = symmetric_eigen(gram.as_ref(), "the curvature in a subspace")?;
    let count = rank.min(width);
    let mut top = Mat::zeros(factor.nrows(), count);
    multiply(top.as_mut(), Accum::Replace, factor.as_ref(), eigen.vectors.get(.., width - count..).reverse_cols());
    Ok((top, eigen.values[width - count..].iter().rev().map(|value| value.max(0.0)).collect()))
}

/// The K largest eigenpairs of the Nyström approximation Y(QᵀY)⁻¹Yᵀ = EEᵀ, with QᵀY = VΘVᵀ and E = YVΘ^(−½).
fn nystrom(basis: &Mat<f64>, product: &Mat<f64>, rank: usize) -> Result<Found> {
    let (d, width) = (basis.nrows(), basis.ncols());
    let mut small = Mat::zeros(width, width);
    multiply(small.as_mut(), Accum::Replace, basis.transpose(), product.as_ref());
    let eigen = symmetric_eigen(small.as_ref(), "the curvature in a subspace")?;
    let bound = ROUNDING * f64::EPSILON * width as f64 * eigen.values.last().copied().unwrap_or(0.0);
    // Ascending: those above the bound are the last ones.
    let first = eigen.values.iter().position(|value| *value > bound.max(0.0)).unwrap_or(width);
    if first == width {
        return Ok(Found { factor: Mat::zeros(d, 1), values: vec![0.0], all: true });
    }
    let mut root = Mat::zeros(d, width - first);
    multiply(root.as_mut(), Accum::Replace, product.as_ref(), eigen.vectors.get(.., first..));
    for (column, value) in root.col_iter_mut().zip(&eigen.values[first..]) {
        let scale = value.sqrt().recip();
        column_slice_mut(column).iter_mut().for_each(|entry| *entry *= scale);
    }
    let (factor, values) = largest(&root, rank)?;
    Ok(Found { factor, values, all: first > 0 || width == d })
}

/// An orthonormal basis of the columns, by Gram–Schmidt twice; columns in the span of those before them are left out.
fn orthonormal(mut matrix: Mat<f64>) -> Mat<f64> {
    let mut kept = 0;
    for j in 0..matrix.ncols() {
        let mut column = column_slice(matrix.col(j)).to_vec();
        let before = norm(&column);
        for _ in 0..2 {
            for i in 0..kept {
                let other = column_slice(matrix.col(i));
                let product = dot(other, &column);
                add_scaled(-product, other, &mut column);
            }
        }
        let length = norm(&column);
        if length > IN_SPAN * before && length > 0.0 {
            column.iter_mut().for_each(|value| *value /= length);
            column_slice_mut(matrix.col_mut(kept)).copy_from_slice(&column);
            kept += 1;
        }
    }
    matrix.truncate(matrix.nrows(), kept);
    matrix
}

/// Whether every eigenvalue changed by no more than a share of it.
fn settled(values: &[f64], before: &[f64]) -> bool {
    let close = |(new, old): (&f64, &f64)| (new - old).abs() <= SETTLED * new;
    values.len() == before.len() && values.iter().zip(before).all(close)
}

/// product += J̃ᵀJ̃Q, a column at a time, shared among threads.
fn add_products(rows: &dyn Rows, basis: &Mat<f64>, product: &mut Mat<f64>) {
    let columns: Vec<(&[f64], &mut [f64])> =
        basis.col_iter().map(column_slice).zip(product.col_iter_mut().map(column_slice_mut)).collect();
    let buffers = || (vec![0.0; rows.n_rows()], vec![0.0; rows.n_params()], Scratch::default());
    columns.into_par_iter().for_each_init(buffers, |(outputs, column, scratch), (direction, target)| {
        rows.times(direction, outputs, scratch);
        rows.transpose_times(outputs, column, scratch);
        add_scaled(1.0, column, target);
    });
}

/// The subspace iteration of every noise level, or its result.
#[derive(Debug, Clone)]
struct LowRankSums {
    rank: usize,
    levels: Vec<Level>,
    groups: Vec<usize>,
    passes: usize,
}

impl LowRankSums {
    /// F of every level; an error while the iteration has not ended.
    fn factors(&self) -> Result<Vec<&Mat<f64>>> {
        self.levels.iter().map(Level::found).collect()
    }

    /// [Fₚ/sₚ] over the levels.
    fn factor_matrix(&self, scales: &[f64]) -> Result<Mat<f64>> {
        let factors = self.factors()?;
        let mut columns = Vec::new();
        for (factor, scale) in factors.iter().zip(scales.iter().cycle()) {
            columns.extend(factor.col_iter().map(|column| (1.0 / scale, column)));
        }
        Ok(Mat::from_fn(self.groups.iter().sum(), columns.len(), |i, j| columns[j].0 * columns[j].1[i]))
    }
}

impl Curvature for LowRankSums {
    fn accumulate(&mut self, batch: &BatchRows<'_>) -> Result<()> {
        let levels = self.levels.len();
        for (level, rows) in self.levels.iter_mut().zip(batch.rows_of_levels(levels)) {
            match level {
                Level::Iterating { basis, product, .. } => {
                    if product.ncols() == 0 {
                        *product = Mat::zeros(basis.nrows(), basis.ncols());
                    }
                    add_products(&*rows?, basis, product);
                }
                Level::Found(_) => return Err(Error::Unsupported(Unsupported::UnfinishedPasses)),
            }
        }
        Ok(())
    }

    /// Products with the same Q add up. Of two results, the K largest eigenpairs of the sum are kept.
    fn merge(&mut self, later: Box<dyn Curvature>) -> Result<()> {
        let later = same_kind::<Self>(later)?;
        for (level, other) in self.levels.iter_mut().zip(later.levels) {
            match (&mut *level, other) {
                (Level::Iterating { product, .. }, Level::Iterating { product: more, .. }) => *product += &more,
                (Level::Found(factor), Level::Found(more)) => {
                    let (d, count) = (factor.nrows(), factor.ncols());
                    let entry = |i, j| if j < count { factor[(i, j)] } else { more[(i, j - count)] };
                    let both = Mat::from_fn(d, count + more.ncols(), entry);
                    *level = Level::Found(Arc::new(largest(&both, self.rank.min(d))?.0));
                }
                (Level::Iterating { .. }, Level::Found(_)) | (Level::Found(_), Level::Iterating { .. }) => {
                    return Err(Error::Unsupported(Unsupported::UnfinishedPasses));
                }
            }
        }
        Ok(())
    }

    fn end_pass(&mut self) -> Result<Option<Box<dyn Curvature>>> {
        self.passes += 1;
        let mut done = true;
        let mut found = Vec::with_capacity(self.levels.len());
        for level in &self.levels {
            let Level::Iterating { basis, product, before } = level else { return Ok(None) };
            let now = nystrom(basis, product, self.rank)?;
            done &= now.all || settled(&now.values, before);
            found.push(now);
        }
        if done || self.passes >= MOST_PASSES {
            self.levels = found.into_iter().map(|found| Level::Found(Arc::new(found.factor))).collect();
            return Ok(None);
        }
        let mut levels = Vec::with_capacity(found.len());
        for (level, found) in self.levels.drain(..).zip(found) {
            let Level::Iterating { product, .. } = level else { return Ok(None) };
            drop(found.factor);
            let basis = Arc::new(orthonormal(product));
            levels.push(Level::Iterating { basis, product: Mat::new(), before: found.values });
        }
        let groups = std::mem::take(&mut self.groups);
        Ok(Some(Box::new(Self { rank: self.rank, levels, groups, passes: self.passes })))
    }

    fn n_levels(&self) -> usize {
        self.levels.len()
    }

    fn numbers_per_point(&self) -> f64 {
        0.0
    }

    fn factor(&self, prior: &PriorPrecision, scales: &[f64]) -> Result<Arc<dyn Precision>> {
        Ok(Arc::new(LowRank::new(self.factor_matrix(scales)?, prior, self.rank)?))
    }

    fn log_det(&self, form: LogDetForm) -> Result<Box<dyn LogDet>> {
        let factor = self.factor_matrix(&[1.0])?;
        let shares = match form {
            LogDetForm::Shared => {
                let mut gram = Mat::zeros(factor.ncols(), factor.ncols());
                multiply_by_own_transpose(gram.as_mut(), Accum::Replace, factor.transpose());
                return Ok(Box::new(Spectrum::new(eigenvalues(gram.as_ref(), "the curvature in a subspace")?)));
            }
            LogDetForm::General { prior } => prior.shares(&self.groups),
        };
        let counts = self.factors()?.into_iter().map(Mat::ncols);
        let levels = counts.enumerate().flat_map(|(level, count)| std::iter::repeat_n(level, count)).collect();
        Ok(Box::new(LowRankLogDet { factor, levels, shares }))
    }

    fn duplicate(&self) -> Box<dyn Curvature> {
        Box::new(self.clone())
    }

    fn save(&self) -> Option<Vec<SavedTensor>> {
        let factors = self.factors().ok()?;
        let saved = |(level, factor)| saved_factor(&format!("{level}."), factor);
        Some(factors.into_iter().enumerate().flat_map(saved).collect())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// F at unit scale, the level of each column, and the numbers of parameters that share each α.
struct LowRankLogDet {
    factor: Mat<f64>,
    levels: Vec<usize>,
    shares: Vec<usize>,
}

impl LogDet for LowRankLogDet {
    /// log det S with S = I + FᵀA⁻¹F = LLᵀ. By log α: −Σ_d ‖L⁻¹F_dᵀ‖²/α over the parameters d that share it; by log sₚ:
    /// −2 Σ_r (1 − S⁻¹_rr) over the columns of the level.
    fn evaluate(&self, log_alpha: &[f64], log_sigma: &[f64]) -> Option<LogDetRatio> {
        let level_of = |column: usize| if log_sigma.len() > 1 { self.levels[column] } else { 0 };
        let scale = |column: usize| (-log_sigma.get(level_of(column)).copied().unwrap_or(0.0)).exp();
        let shares = self.shares.iter().zip(log_alpha);
        let roots: Vec<f64> = shares.flat_map(|(count, log)| std::iter::repeat_n((-0.5 * log).exp(), *count)).collect();
        let (d, rank) = (self.factor.nrows(), self.factor.ncols());
        // Fᵀ with its columns scaled by α^(−½).
        let mut scaled = Mat::from_fn(rank, d, |r, i| self.factor[(i, r)] * roots[i] * scale(r));
        let mut cholesky = Cholesky::new(rank);
        multiply_by_own_transpose(cholesky.matrix_mut(), Accum::Replace, scaled.as_ref());
        let mut system = cholesky.matrix_mut();
        (0..rank).for_each(|r| system[(r, r)] += 1.0);
        cholesky.factor().ok()?;
        let inverse = inverse_lower(&cholesky);
        cholesky.solve_lower_many(scaled.as_mut());
        let mut explained = scaled.col_iter().map(|column| dot(column_slice(column), column_slice(column)));
        let by_log_alpha = self.shares.iter().map(|count| -explained.by_ref().take(*count).sum::<f64>()).collect();
        let mut by_log_sigma = vec![0.0; log_sigma.len()];
        for r in (0..rank).filter(|_| !log_sigma.is_empty()) {
            by_log_sigma[level_of(r)] -= 2.0 * (1.0 - inverse[(r, r)]);
        }
        let value = cholesky.log_det();
        value.is_finite().then_some(LogDetRatio { value, by_log_alpha, by_log_sigma })
    }
}

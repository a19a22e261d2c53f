//! Function space: the same posterior through the M × M matrix S = I + J̃A⁻¹J̃ᵀ. Exact, and linear in D.
//!
//! - log det G − log det A = log det S
//! - G⁻¹b = A⁻¹(b − J̃ᵀS⁻¹J̃A⁻¹b), refined once, because the difference cancels where the data outweigh the prior
//! - v = A^(−½)ε₁ + A⁻¹J̃ᵀS⁻¹(ε₂ − J̃A^(−½)ε₁) is a draw from N(0, G⁻¹)
//! - C G⁻¹Cᵀ = r A⁻¹rᵀ + ssᵀ with sᵀ = S⁻¹J̃A⁻¹Cᵀ, r = C − sJ̃: a sum of squares, where the difference
//!   CA⁻¹Cᵀ − (CA⁻¹J̃ᵀ)S⁻¹(J̃A⁻¹Cᵀ) would cancel.

mod log_det;

use std::any::Any;
use std::sync::{Arc, OnceLock};

use faer::{Accum, Mat, MatMut, MatRef};
use ndarray::{Array2, ArrayView2, Axis};
use rand_chacha::ChaCha8Rng;

use self::log_det::{DenseRows, Grams};
use super::form::{self, CovarianceForm};
use super::problem::{BatchRows, Problem};
use super::structure::{
    Curvature, LogDet, LogDetForm, Precision, SavedTensor, SavedTensors, Spectrum, Structure, damaged, same_kind,
    write_block,
};
use crate::data::Dataset;
use crate::error::{Error, Result, Unsupported};
use crate::linalg::{
    Cholesky, FailedPivot, PackedFactor, dot, eigenvalues, mirror_lower, pack_lower, packed_diagonal, packed_length,
    parallelism,
};
use crate::map::{Map, Rows, Scratch, weighted_cross_gram, weighted_gram};
use crate::memory;
use crate::prior::{PriorPrecision, PriorStructure};
use crate::random::fill_standard_normal;

/// Numbers in the evaluator of one block of test points.
const BLOCK_NUMBERS: f64 = (1u64 << 21) as f64;
/// Outputs in one block of test points; covariances are computed between all of them.
const BLOCK_OUTPUTS: usize = 256;
/// Where the posterior variance is smaller than this share of the prior's, it is computed without cancellation.
const CANCELLATION: f64 = 1e-5;
/// What to do when the general form of the evidence does not fit in memory.
const TUNING_ADVICE: &str = "tune one prior precision and one sigma, which needs a single matrix";

/// Adds the identity to the Gram matrix in the lower triangle and factors it: the one place where S = LLᵀ is factored.
fn factor_with_identity(cholesky: &mut Cholesky) -> std::result::Result<(), FailedPivot> {
    let mut system = cholesky.matrix_mut();
    for m in 0..system.nrows() {
        system[(m, m)] += 1.0;
    }
    cholesky.factor()
}

/// Factors I + J̃A⁻¹J̃ᵀ for the given rows, with the prior variances of the groups or weights. False where it is not positive
/// definite.
pub(crate) fn factor_rows(rows: &dyn Rows, scratch: &mut Scratch, variances: &[f64], cholesky: &mut Cholesky) -> bool {
    weighted_gram(rows, variances, cholesky.matrix_mut(), scratch);
    factor_with_identity(cholesky).is_ok()
}

/// Multiply-adds of the Gram matrix and its Cholesky factor.
pub(crate) fn work(map: &dyn Map, prior: &PriorPrecision) -> f64 {
    let rows = (map.n_points() * map.n_outputs()) as f64;
    let gram = match prior.structure() {
        PriorStructure::Scalar | PriorStructure::PerLayer => map.gram_work(map.n_outputs()),
        PriorStructure::PerWeight => 0.5 * rows * rows * map.n_params() as f64,
    };
    gram + rows * rows * rows / 6.0
}

/// The number of f64 values held at the peak.
pub(super) fn numbers(problem: &Problem) -> f64 {
    let (m, d) = (problem.n_rows() as f64, problem.model.n_params() as f64);
    let evaluator = problem.n_data as f64 * problem.model.numbers_per_point(problem.model.n_outputs());
    4.0 * m * m + 2.0 * evaluator + 8.0 * d
}

/// The factor, the rows, and the covariances of a block of test points with one another and with the training points.
pub(super) fn loaded_numbers(problem: &Problem) -> f64 {
    let (m, block) = (problem.n_rows() as f64, BLOCK_OUTPUTS as f64);
    let evaluator = problem.n_data as f64 * problem.model.numbers_per_point(problem.model.n_outputs());
    m * m + evaluator + m * block + 2.0 * block * block + problem.model.n_params() as f64
}

pub(super) fn begin(problem: &Problem) -> Result<Box<dyn Curvature>> {
    let inputs = Array2::zeros((0, problem.model.n_inputs()));
    let targets = Array2::zeros((0, problem.family.row_width(problem.model.n_outputs())));
    Ok(Box::new(TrainingRows { problem: problem.clone(), inputs, targets }))
}

pub(super) fn load_sums(problem: &Problem, _: &mut dyn SavedTensors) -> Result<Box<dyn Curvature>> {
    let data = training_data(problem)?;
    let (inputs, targets) = (data.inputs().clone(), data.targets().clone());
    Ok(Box::new(TrainingRows { problem: problem.clone(), inputs, targets }))
}

pub(super) fn load(
    problem: &Problem,
    prior: &PriorPrecision,
    file: &mut dyn SavedTensors,
) -> Result<Arc<dyn Precision>> {
    let (size, data) = (problem.n_rows(), training_data(problem)?);
    let packed = file.take("cholesky", &[packed_length(size)])?;
    damaged(packed_diagonal(&packed, size))?;
    let map = problem.model.bind(data.inputs().view())?;
    let factor = PackedFactor::packed(packed, size);
    let targets = data.targets().clone();
    let source = Source { problem: problem.clone(), map, targets, scales: problem.scales() };
    Ok(Arc::new(FunctionSpace { rows: OnceLock::new(), source, factor, prior: prior.clone() }))
}

fn training_data(problem: &Problem) -> Result<&Arc<Dataset>> {
    problem.data.as_ref().ok_or(Error::NoTrainingData { what: "the function-space solver" })
}

fn not_definite(size: usize, FailedPivot(pivot): FailedPivot) -> Error {
    Error::NotPositiveDefinite {
        matrix: "the function-space system I + J̃A⁻¹J̃ᵀ",
        size,
        pivot,
        advice: "check the data and the network's outputs for extreme values, or raise the prior precision",
    }
}

/// Adds rows below those of a matrix.
fn append(matrix: &mut Array2<f64>, rows: ArrayView2<'_, f64>, what: &str) -> Result<()> {
    let (expected, found) = (matrix.ncols(), rows.ncols());
    matrix.append(Axis(0), rows).map_err(|_| Error::Size { what: what.to_string(), expected, found })
}

/// The training data, from which rows and Gram matrices are computed when needed.
#[derive(Debug, Clone)]
struct TrainingRows {
    problem: Problem,
    inputs: Array2<f64>,
    targets: Array2<f64>,
}

impl TrainingRows {
    /// The rows at unit scale.
    fn unit_rows(&self) -> Result<Box<dyn Rows>> {
        let map = self.problem.model.bind(self.inputs.view())?;
        self.problem.rows(&map, self.targets.view(), &[1.0])
    }

    /// The Gram matrix J̃VJ̃ᵀ of the rows at unit scale, lower triangle, with one variance per group.
    fn unit_gram(&self, variances: &[f64]) -> Result<Mat<f64>> {
        let rows = self.unit_rows()?;
        let mut gram = Mat::zeros(rows.n_rows(), rows.n_rows());
        rows.gram(variances, gram.as_mut(), &mut Scratch::default());
        Ok(gram)
    }

    fn size(&self) -> usize {
        Problem { n_data: self.inputs.nrows(), ..self.problem.clone() }.n_rows()
    }
}

impl Curvature for TrainingRows {
    fn accumulate(&mut self, batch: &BatchRows<'_>) -> Result<()> {
        append(&mut self.inputs, batch.inputs(), "number of input columns")?;
        append(&mut self.targets, batch.targets(), "number of target columns")
    }

    fn merge(&mut self, later: Box<dyn Curvature>) -> Result<()> {
        let later = same_kind::<Self>(later)?;
        append(&mut self.inputs, later.inputs.view(), "number of input columns")?;
        append(&mut self.targets, later.targets.view(), "number of target columns")
    }

    /// Rows are whitened again for each σ.
    fn n_levels(&self) -> usize {
        self.problem.model.n_outputs()
    }

    fn numbers_per_point(&self) -> f64 {
        0.0
    }

    fn factor(&self, prior: &PriorPrecision, scales: &[f64]) -> Result<Arc<dyn Precision>> {
        let map = self.problem.model.bind(self.inputs.view())?;
        let (problem, targets) = (self.problem.clone(), self.targets.clone());
        let source = Source { problem, map, targets, scales: scales.to_vec() };
        Ok(Arc::new(FunctionSpace::new(source, prior)?))
    }

    fn log_det(&self, form: LogDetForm) -> Result<Box<dyn LogDet>> {
        let (groups, size) = (self.problem.model.group_sizes().len(), self.size() as f64);
        let whole = || self.unit_gram(&vec![1.0; groups]);
        let (grams, n_points) = match form {
            LogDetForm::Shared => {
                return Ok(Box::new(Spectrum::new(eigenvalues(whole()?.as_ref(), "the Gram matrix")?)));
            }
            LogDetForm::General { prior: PriorStructure::Scalar } => {
                // The Gram matrix, the factor, its inverse, and the inverse of the matrix, unscaled and scaled.
                memory::check("tuning in function space", 5.0 * size * size, TUNING_ADVICE)?;
                (vec![whole()?], self.inputs.nrows())
            }
            LogDetForm::General { prior: PriorStructure::PerLayer } => {
                // One Gram matrix per α, and the others.
                memory::check("tuning in function space", (groups + 4) as f64 * size * size, TUNING_ADVICE)?;
                let one_hot = |group| (0..groups).map(|g| if g == group { 1.0 } else { 0.0 }).collect::<Vec<_>>();
                ((0..groups).map(|group| self.unit_gram(&one_hot(group))).collect::<Result<_>>()?, self.inputs.nrows())
            }
            LogDetForm::General { prior: PriorStructure::PerWeight } => {
                // The rows, their scaled copy, the factor, and the inverse of the matrix twice.
                let d = self.problem.model.n_params();
                memory::check("tuning in function space", size * (2.0 * d as f64 + 3.0 * size), TUNING_ADVICE)?;
                let mut rows = Mat::zeros(self.size(), d);
                self.unit_rows()?.dense(rows.as_mut());
                return Ok(Box::new(DenseRows { rows, n_points: self.inputs.nrows() }));
            }
        };
        Ok(Box::new(Grams { grams, n_points }))
    }

    fn duplicate(&self) -> Box<dyn Curvature> {
        Box::new(self.clone())
    }

    fn save(&self) -> Option<Vec<SavedTensor>> {
        None
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// What the rows J̃ are computed from.
#[derive(Debug, Clone)]
struct Source {
    problem: Problem,
    map: Arc<dyn Map>,
    targets: Array2<f64>,
    /// The scale of all rows, or one per output.
    scales: Vec<f64>,
}

/// A posterior represented by the rows J̃ of the training data and the factor of S.
pub struct FunctionSpace {
    /// J̃; computed when first needed, where only the factor was read.
    rows: OnceLock<Box<dyn Rows>>,
    source: Source,
    factor: PackedFactor,
    prior: PriorPrecision,
}

impl std::fmt::Debug for FunctionSpace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { source, factor, prior, .. } = self;
        let mut fields = formatter.debug_struct("FunctionSpace");
        fields.field("source", source).field("factor", factor).field("prior", prior).finish_non_exhaustive()
    }
}

impl FunctionSpace {
    /// Builds and factors S.
    fn new(source: Source, prior: &PriorPrecision) -> Result<Self> {
        if !prior.is_proper() {
            return Err(Error::Unsupported(Unsupported::ImproperPrior));
        }
        let rows = source.problem.rows(&source.map, source.targets.view(), &source.scales)?;
        let mut cholesky = Cholesky::new(rows.n_rows());
        weighted_gram(&*rows, &prior.variances(), cholesky.matrix_mut(), &mut Scratch::default());
        factor_with_identity(&mut cholesky).map_err(|pivot| not_definite(rows.n_rows(), pivot))?;
        Ok(Self { rows: OnceLock::from(rows), source, factor: cholesky.into(), prior: prior.clone() })
    }

    /// J̃. Computing the rows succeeded when the posterior was fitted, so it succeeds again.
    fn rows(&self) -> &dyn Rows {
        let Source { problem, map, targets, scales } = &self.source;
        &**self.rows.get_or_init(|| problem.rows_again(map, targets.view(), scales))
    }

    /// A⁻¹(b − J̃ᵀS⁻¹J̃A⁻¹b).
    fn solve_once(&self, rhs: &[f64], solution: &mut [f64], scratch: &mut Scratch) {
        let mut scaled = rhs.to_vec();
        self.prior.divide(&mut scaled);
        let mut outputs = vec![0.0; self.factor.size()];
        self.rows().times(&scaled, &mut outputs, scratch);
        self.correct(&mut outputs, solution, scratch);
        for (value, scaled) in solution.iter_mut().zip(&scaled) {
            *value = scaled - *value;
        }
    }

    /// outputs ← S⁻¹ outputs, solution ← A⁻¹J̃ᵀ outputs.
    fn correct(&self, outputs: &mut [f64], solution: &mut [f64], scratch: &mut Scratch) {
        self.factor.get().solve(outputs);
        self.rows().transpose_times(outputs, solution, scratch);
        self.prior.divide(solution);
    }

    fn times_with(&self, direction: &[f64], product: &mut [f64], scratch: &mut Scratch) {
        let mut outputs = vec![0.0; self.factor.size()];
        self.rows().times(direction, &mut outputs, scratch);
        self.rows().transpose_times(&outputs, product, scratch);
        self.prior.for_each_group(|range, alpha| {
            for d in range {
                product[d] += alpha * direction[d];
            }
        });
    }

    /// Prior and posterior covariance between all rows of C, from layer products alone: k − cᵀS⁻¹c with k = CA⁻¹Cᵀ and
    /// c = J̃A⁻¹Cᵀ. Cheap, and exact up to rounding relative to k.
    fn joint_covariance(&self, rows: &dyn Rows, scratch: &mut Scratch) -> (Mat<f64>, Mat<f64>) {
        let size = rows.n_rows();
        let variances = self.prior.variances();
        let mut prior_covariance = Mat::zeros(size, size);
        weighted_gram(rows, &variances, prior_covariance.as_mut(), scratch);
        let mut cross = Mat::zeros(self.factor.size(), size);
        weighted_cross_gram(self.rows(), rows, &variances, cross.as_mut(), scratch);
        self.factor.get().solve_lower_many(cross.as_mut());
        let mut covariance = prior_covariance.clone();
        mirror_lower(&mut covariance);
        let work = (size * size) as f64 * cross.nrows() as f64;
        faer::linalg::matmul::matmul(
            covariance.as_mut(),
            Accum::Add,
            cross.transpose(),
            cross.as_ref(),
            -1.0,
            parallelism(work),
        );
        (prior_covariance, covariance)
    }
}

impl Precision for FunctionSpace {
    fn n_params(&self) -> usize {
        self.source.map.n_params()
    }

    fn log_det_ratio(&self) -> f64 {
        self.factor.get().log_det()
    }

    /// M − tr S⁻¹.
    fn effective_parameters(&self) -> f64 {
        let size = self.factor.size();
        let mut inverse_root: Mat<f64> = Mat::identity(size, size);
        self.factor.get().solve_lower_many(inverse_root.as_mut());
        let trace: f64 = inverse_root.col_iter().map(|column| column.squared_norm_l2()).sum();
        size as f64 - trace
    }

    fn structure(&self) -> Structure {
        Structure::FunctionSpace
    }

    fn times(&self, direction: &[f64], product: &mut [f64]) {
        self.times_with(direction, product, &mut Scratch::default());
    }

    /// One step of iterative refinement squares the relative error of the plain formula.
    fn solve(&self, rhs: &[f64], solution: &mut [f64]) {
        let mut scratch = Scratch::default();
        self.solve_once(rhs, solution, &mut scratch);
        let mut residual = vec![0.0; rhs.len()];
        self.times_with(solution, &mut residual, &mut scratch);
        for (value, rhs) in residual.iter_mut().zip(rhs) {
            *value = rhs - *value;
        }
        let mut correction = vec![0.0; rhs.len()];
        self.solve_once(&residual, &mut correction, &mut scratch);
        for (value, change) in solution.iter_mut().zip(&correction) {
            *value += change;
        }
    }

    fn sample(&self, generator: &mut ChaCha8Rng, draw: &mut [f64]) {
        let size = self.factor.size();
        let (mut prior_draw, mut noise, mut outputs) = (vec![0.0; draw.len()], vec![0.0; size], vec![0.0; size]);
        fill_standard_normal(generator, &mut prior_draw);
        fill_standard_normal(generator, &mut noise);
        self.prior.divide_by_root(&mut prior_draw);
        let mut scratch = Scratch::default();
        self.rows().times(&prior_draw, &mut outputs, &mut scratch);
        for (value, noise) in outputs.iter_mut().zip(&noise) {
            *value = noise - *value;
        }
        self.correct(&mut outputs, draw, &mut scratch);
        for (value, prior_value) in draw.iter_mut().zip(&prior_draw) {
            *value += prior_value;
        }
    }

    fn covariance(&self, rows: MatRef<'_, f64>, mut covariance: MatMut<'_, f64>) {
        let (count, size, d) = (rows.nrows(), self.factor.size(), self.n_params());
        let mut scratch = Scratch::default();
        let mut responses = vec![vec![0.0; size]; count];
        let mut remainders = vec![vec![0.0; d]; count];
        let (mut scaled, mut explained) = (vec![0.0; d], vec![0.0; d]);
        for (i, (response, remainder)) in responses.iter_mut().zip(&mut remainders).enumerate() {
            for (value, entry) in remainder.iter_mut().zip(rows.row(i).iter()) {
                *value = *entry;
            }
            scaled.copy_from_slice(remainder);
            self.prior.divide(&mut scaled);
            self.rows().times(&scaled, response, &mut scratch);
            self.factor.get().solve(response);
            self.rows().transpose_times(response, &mut explained, &mut scratch);
            for (value, share) in remainder.iter_mut().zip(&explained) {
                *value -= share;
            }
            self.prior.divide_by_root(remainder);
        }
        for i in 0..count {
            for j in 0..=i {
                let value = dot(&responses[i], &responses[j]) + dot(&remainders[i], &remainders[j]);
                covariance[(i, j)] = value;
                covariance[(j, i)] = value;
            }
        }
    }

    /// From layer products, then again without cancellation where those lose digits.
    fn point_covariances(&self, rows: &dyn Rows, points: usize, covariances: &mut [f64]) {
        let p = rows.n_rows() / points.max(1);
        let mut scratch = Scratch::default();
        let (prior, joint) = self.joint_covariance(rows, &mut scratch);
        for (n, target) in covariances.chunks_exact_mut((p * p).max(1)).enumerate() {
            let at = |output: usize| output * points + n;
            let exact = (0..p).all(|o| joint[(at(o), at(o))] >= CANCELLATION * prior[(at(o), at(o))]);
            let mut block = Mat::from_fn(p, p, |i, j| joint[(at(i), at(j))]);
            if !exact {
                let mut dense = Mat::zeros(p, rows.n_params());
                let (mut unit, mut row) = (vec![0.0; rows.n_rows()], vec![0.0; rows.n_params()]);
                for output in 0..p {
                    unit[at(output)] = 1.0;
                    rows.transpose_times(&unit, &mut row, &mut scratch);
                    unit[at(output)] = 0.0;
                    row.iter().enumerate().for_each(|(d, value)| dense[(output, d)] = *value);
                }
                self.covariance(dense.as_ref(), block.as_mut());
            }
            write_block(&block, target);
        }
    }

    fn points_at_once(&self, n_outputs: usize, numbers_per_point: f64) -> usize {
        ((BLOCK_NUMBERS / numbers_per_point.max(1.0)) as usize).min(BLOCK_OUTPUTS / n_outputs.max(1))
    }

    /// G = A + J̃ᵀJ̃ is of low rank where D > M. The directions are mixed over all points, so that no row of the data is among
    /// them.
    fn form(&self) -> Result<CovarianceForm> {
        let (m, d) = (self.factor.size(), self.n_params());
        if self.prior.is_earlier_posterior() || d <= m {
            return form::of_matrix(self);
        }
        memory::check("the posterior covariance", 4.0 * (m * d) as f64, "use the kron structure, or fewer weights")?;
        let mut rows = Mat::zeros(m, d);
        self.rows().dense(rows.as_mut());
        form::of_low_rank(&self.prior, rows.transpose().to_owned())
    }

    fn size_in_words(&self) -> String {
        let size = self.factor.size();
        format!("a {size} × {size} matrix")
    }

    fn save(&self) -> Vec<SavedTensor> {
        let values = pack_lower(self.factor.get().lower());
        vec![SavedTensor { name: "cholesky".to_string(), shape: vec![values.len()], values }]
    }
}

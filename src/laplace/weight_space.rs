//! Weight space: the D × D precision G = A + J̃ᵀJ̃ and its Cholesky factor. Suitable when D is not large.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use faer::{Accum, Mat, MatMut, MatRef};
use rand_chacha::ChaCha8Rng;

use super::CurvatureKind;
use super::problem::{BatchRows, Problem};
use super::structure::{
    Curvature, LogDet, LogDetForm, LogDetRatio, Precision, SavedTensor, SavedTensors, Spectrum, Structure, damaged,
    same_kind,
};
use crate::error::{Error, Result};
use crate::linalg::{
    Cholesky, FailedPivot, PackedFactor, column_slice, dot, eigenvalues, inverse_lower, mirror_lower, multiply,
    multiply_by_own_transpose, pack_lower, packed_diagonal, packed_length, trace_of_product, unpack_lower,
};
use crate::map::{Map, Rows, Scratch};
use crate::memory;
use crate::prior::{PriorPrecision, PriorStructure};
use crate::random::fill_standard_normal;

/// Numbers in the Jacobian rows of one block of test points.
const BLOCK_NUMBERS: f64 = (1u64 << 21) as f64;
/// What to do when the general form of the evidence does not fit in memory.
const TUNING_ADVICE: &str = "tune one prior precision and one sigma, which needs a single matrix";

/// Adds A to the matrix in the lower triangle and factors it: the one place where G = LLᵀ is factored.
pub(crate) fn factor_with_prior(
    cholesky: &mut Cholesky,
    prior: &PriorPrecision,
) -> std::result::Result<(), FailedPivot> {
    prior.add_to(cholesky.matrix_mut());
    cholesky.factor()
}

/// Multiply-adds of J̃ᵀJ̃ and its Cholesky factor. Measured times follow this count to within a factor of
/// two from D = 31 to 1,000, while the two solvers differ by far more except in a narrow range of sizes. In all pairs
/// that the benchmark `scalability` measures, from D = 46 to 2,701 and N = 100 to 1,000, the solver with the smaller
/// count is the faster.
pub(crate) fn work(map: &dyn Map) -> f64 {
    map.curvature_work(map.n_outputs()) + (map.n_params() as f64).powi(3) / 6.0
}

/// The number of f64 values held at the peak: the sums, G, its factor, and one more of each in tuning.
pub(super) fn numbers(problem: &Problem) -> f64 {
    let d = problem.model.n_params() as f64;
    d * d * (problem.sigmas().len() as f64 + 4.0)
}

/// The factor, and the rows of a block of test points with their solutions.
pub(super) fn loaded_numbers(problem: &Problem) -> f64 {
    let d = problem.model.n_params() as f64;
    d * d + 2.0 * d * problem.model.n_outputs() as f64
}

pub(super) fn begin(problem: &Problem) -> Result<Box<dyn Curvature>> {
    let (d, levels) = (problem.model.n_params(), problem.sigmas().len());
    let (sums, groups) = (vec![Mat::zeros(d, d); levels], problem.model.group_sizes());
    Ok(Box::new(WeightSums::new(sums, groups, problem.kind)))
}

pub(super) fn load_sums(problem: &Problem, file: &mut dyn SavedTensors) -> Result<Box<dyn Curvature>> {
    let d = problem.model.n_params();
    // One matrix for all outputs; or one per output, which also works for a common σ.
    let levels = if file.has("1") { problem.model.n_outputs() } else { 1 };
    let mut take = |level: usize| Ok(unpack_lower(&file.take(&level.to_string(), &[packed_length(d)])?, d));
    let sums = (0..levels).map(&mut take).collect::<Result<_>>()?;
    Ok(Box::new(WeightSums::new(sums, problem.model.group_sizes(), problem.kind)))
}

pub(super) fn load(
    problem: &Problem,
    prior: &PriorPrecision,
    file: &mut dyn SavedTensors,
) -> Result<Arc<dyn Precision>> {
    let d = problem.model.n_params();
    let packed = file.take("cholesky", &[packed_length(d)])?;
    damaged(packed_diagonal(&packed, d))?;
    let factor = PackedFactor::packed(packed, d);
    Ok(Arc::new(WeightSpace { matrix: OnceLock::new(), factor, prior: prior.clone() }))
}

fn not_definite(size: usize, FailedPivot(pivot): FailedPivot) -> Error {
    let advice = "raise the prior precision, or check the data and the network's outputs for extreme values";
    Error::NotPositiveDefinite { matrix: "the posterior precision", size, pivot, advice }
}

/// The negative Hessian with prior is indefinite: how far, and what to do.
fn indefinite(curvature: &Mat<f64>, prior: &PriorPrecision) -> Error {
    let mut matrix = curvature.clone();
    prior.add_to(matrix.as_mut());
    let least = match eigenvalues(matrix.as_ref(), "the negative Hessian") {
        Ok(eigenvalues) => eigenvalues.into_iter().fold(f64::INFINITY, f64::min),
        Err(error) => return error,
    };
    let shared = match prior.structure() {
        PriorStructure::Scalar => prior.values().first().copied(),
        PriorStructure::PerLayer | PriorStructure::PerWeight => None,
    };
    Error::IndefiniteHessian { least, shared }
}

/// The curvature at unit scale, lower triangles: one matrix for all outputs, or one per output (which may share one σ).
#[derive(Debug, Clone)]
struct WeightSums {
    sums: Vec<Mat<f64>>,
    /// The sizes of the groups of parameters.
    groups: Vec<usize>,
    kind: CurvatureKind,
    /// The constant prior of a log determinant, where it is an earlier posterior.
    earlier: Option<PriorPrecision>,
    scratch: Scratch,
}

impl WeightSums {
    fn new(sums: Vec<Mat<f64>>, groups: Vec<usize>, kind: CurvatureKind) -> Self {
        Self { sums, groups, kind, earlier: None, scratch: Scratch::default() }
    }
}

impl Curvature for WeightSums {
    fn accumulate(&mut self, batch: &BatchRows<'_>) -> Result<()> {
        if self.kind == CurvatureKind::Hessian {
            return batch.add_negative_hessians(&mut self.sums);
        }
        let levels = self.sums.len();
        for (sum, rows) in self.sums.iter_mut().zip(batch.rows_of_levels(levels)) {
            rows?.curvature(Accum::Add, sum.as_mut(), &mut self.scratch);
        }
        Ok(())
    }

    fn merge(&mut self, later: Box<dyn Curvature>) -> Result<()> {
        let later = same_kind::<Self>(later)?;
        for (sum, other) in self.sums.iter_mut().zip(&later.sums) {
            *sum += other;
        }
        Ok(())
    }

    fn n_levels(&self) -> usize {
        self.sums.len()
    }

    fn numbers_per_point(&self) -> f64 {
        self.sums.first().map_or(0.0, |sum| sum.nrows() as f64)
    }

    fn factor(&self, prior: &PriorPrecision, sigma: &[f64]) -> Result<Arc<dyn Precision>> {
        let mut total: Mat<f64> = Mat::zeros(prior.n_params(), prior.n_params());
        for (sum, sigma) in self.sums.iter().zip(sigma.iter().cycle()) {
            total += faer::Scale(1.0 / (sigma * sigma)) * sum;
        }
        match (WeightSpace::new(total.as_ref(), prior), self.kind) {
            (Err(Error::NotPositiveDefinite { .. }), CurvatureKind::Hessian) => Err(indefinite(&total, prior)),
            (precision, _) => Ok(Arc::new(precision?)),
        }
    }

    fn log_det(&self, form: LogDetForm) -> Result<Box<dyn LogDet>> {
        match form {
            LogDetForm::Shared => {
                let mut total = Mat::zeros(self.sums[0].nrows(), self.sums[0].nrows());
                self.sums.iter().for_each(|sum| total += sum);
                let eigenvalues = eigenvalues(total.as_ref(), "the curvature")?;
                Ok(Box::new(match self.kind {
                    CurvatureKind::Ggn | CurvatureKind::EmpiricalFisher => Spectrum::new(eigenvalues),
                    CurvatureKind::Hessian => Spectrum::signed(eigenvalues),
                }))
            }
            LogDetForm::General { prior } => {
                // The sums, the factor, its inverse and the inverse of the matrix.
                let numbers = (self.sums.len() + 3) as f64 * (self.sums[0].nrows() as f64).powi(2);
                memory::check("tuning in weight space", numbers, TUNING_ADVICE)?;
                Ok(Box::new(Self { groups: prior.shares(&self.groups), ..self.clone() }))
            }
        }
    }

    fn log_det_beside(&self, prior: &PriorPrecision) -> Result<Box<dyn LogDet>> {
        let numbers = (self.sums.len() + 3) as f64 * (self.sums[0].nrows() as f64).powi(2);
        memory::check("tuning in weight space", numbers, "hold sigma")?;
        Ok(Box::new(Self { earlier: Some(prior.clone()), ..self.clone() }))
    }

    fn duplicate(&self) -> Box<dyn Curvature> {
        Box::new(self.clone())
    }

    fn save(&self) -> Option<Vec<SavedTensor>> {
        let saved = |(level, sum): (usize, &Mat<f64>)| packed(&level.to_string(), sum.as_ref());
        Some(self.sums.iter().enumerate().map(saved).collect())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl LogDet for WeightSums {
    /// With G = A + Σ_p C_p/σ_p²: ∂/∂log α_l = tr(G⁻¹A_l) − D_l and ∂/∂log σ_p = −2 tr(G⁻¹C_p)/σ_p².
    fn evaluate(&self, log_alpha: &[f64], log_sigma: &[f64]) -> Option<LogDetRatio> {
        let prior = match &self.earlier {
            Some(prior) => prior.clone(),
            None => {
                PriorPrecision::per_group(log_alpha.iter().map(|value| value.exp()).collect(), &self.groups).ok()?
            }
        };
        let sigma_of = |level: usize| if log_sigma.len() > 1 { level } else { 0 };
        let weight = |level: usize| (-2.0 * log_sigma.get(sigma_of(level)).copied().unwrap_or(0.0)).exp();
        let weights: Vec<f64> = (0..self.sums.len()).map(weight).collect();
        let mut cholesky = Cholesky::new(prior.n_params());
        let mut matrix = cholesky.matrix_mut();
        for (sum, weight) in self.sums.iter().zip(&weights) {
            matrix += faer::Scale(*weight) * sum;
        }
        factor_with_prior(&mut cholesky, &prior).ok()?;
        let inverse = inverse_lower(&cholesky);
        let mut by_log_alpha = Vec::new();
        if self.earlier.is_none() {
            prior.for_each_group(|range, alpha| {
                let size = range.len() as f64;
                by_log_alpha.push(alpha * range.map(|d| inverse[(d, d)]).sum::<f64>() - size);
            });
        }
        let mut by_log_sigma = vec![0.0; log_sigma.len()];
        for (level, (sum, weight)) in self.sums.iter().zip(&weights).enumerate().filter(|_| !log_sigma.is_empty()) {
            by_log_sigma[sigma_of(level)] -= 2.0 * weight * trace_of_product(&inverse, sum);
        }
        Some(LogDetRatio { value: cholesky.log_det() - prior.log_det(), by_log_alpha, by_log_sigma })
    }
}

fn packed(name: &str, lower: MatRef<'_, f64>) -> SavedTensor {
    let values = pack_lower(lower);
    SavedTensor { name: name.to_string(), shape: vec![values.len()], values }
}

/// A dense precision matrix, factored.
///
/// ```
/// use faer::mat;
/// use riemannian_laplace::internals::laplace::{Precision, WeightSpace};
/// use riemannian_laplace::internals::prior::PriorPrecision;
///
/// let prior = PriorPrecision::scalar(1.0, &[2])?;
/// let posterior = WeightSpace::new(mat![[3.0, 0.0], [0.0, 0.0]].as_ref(), &prior)?; // G = diag(4, 1)
/// assert!((posterior.log_det_ratio() - 4f64.ln()).abs() < 1e-15);
/// assert!((posterior.effective_parameters() - 0.75).abs() < 1e-15);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct WeightSpace {
    /// G; computed from the factor when first needed, where only the factor was read.
    matrix: OnceLock<Mat<f64>>,
    factor: PackedFactor,
    prior: PriorPrecision,
}

impl WeightSpace {
    /// G = curvature + A, with the curvature's lower triangle read.
    pub fn new(curvature: MatRef<'_, f64>, prior: &PriorPrecision) -> Result<Self> {
        let size = curvature.nrows();
        let mut cholesky = Cholesky::new(size);
        cholesky.matrix_mut().copy_from(curvature);
        prior.add_to(cholesky.matrix_mut());
        Self::factored(cholesky, prior.clone(), |pivot| not_definite(size, pivot))
    }

    /// G = −∇²ℓ(θ̂), the choice of the classical Laplace approximation, with A the prior's share of it.
    pub fn from_negative_hessian(hessian: MatRef<'_, f64>, prior: &PriorPrecision) -> Result<Self> {
        let size = hessian.nrows();
        let mut cholesky = Cholesky::new(size);
        let mut matrix = cholesky.matrix_mut();
        for j in 0..size {
            for i in j..size {
                matrix[(i, j)] = -hessian[(i, j)];
            }
        }
        Self::factored(cholesky, prior.clone(), |FailedPivot(pivot)| Error::NotPositiveDefinite {
            matrix: "the negative Hessian",
            size,
            pivot,
            advice: "the point is not a strict maximum of the log posterior: optimise further, or use the Fisher precision",
        })
    }

    /// Factors the matrix whose lower triangle has been filled in.
    fn factored(mut cholesky: Cholesky, prior: PriorPrecision, error: impl Fn(FailedPivot) -> Error) -> Result<Self> {
        let mut matrix = cholesky.lower().to_owned();
        mirror_lower(&mut matrix);
        cholesky.factor().map_err(error)?;
        Ok(Self { matrix: OnceLock::from(matrix), factor: cholesky.into(), prior })
    }

    /// G.
    pub fn matrix(&self) -> MatRef<'_, f64> {
        let matrix = self.matrix.get_or_init(|| {
            let (size, factor) = (self.factor.size(), self.cholesky());
            let lower = Mat::from_fn(size, size, |i, j| if i >= j { factor.lower()[(i, j)] } else { 0.0 });
            let mut matrix = Mat::zeros(size, size);
            multiply_by_own_transpose(matrix.as_mut(), Accum::Replace, lower.as_ref());
            mirror_lower(&mut matrix);
            matrix
        });
        matrix.as_ref()
    }

    /// The factor of G.
    pub fn cholesky(&self) -> &Cholesky {
        self.factor.get()
    }

    /// G⁻¹.
    pub fn covariance_matrix(&self) -> Mat<f64> {
        let mut covariance = inverse_lower(self.cholesky());
        mirror_lower(&mut covariance);
        covariance
    }
}

impl Precision for WeightSpace {
    fn n_params(&self) -> usize {
        self.factor.size()
    }

    fn log_det_ratio(&self) -> f64 {
        self.cholesky().log_det() - self.prior.log_det()
    }

    fn effective_parameters(&self) -> f64 {
        self.n_params() as f64 - self.prior.trace_with(&inverse_lower(self.cholesky()))
    }

    fn structure(&self) -> Structure {
        Structure::WeightSpace
    }

    fn to_matrix(&self) -> Mat<f64> {
        self.matrix().to_owned()
    }

    fn factor(&self) -> Option<&Cholesky> {
        Some(self.cholesky())
    }

    fn times(&self, direction: &[f64], product: &mut [f64]) {
        let size = direction.len();
        let direction = MatRef::from_column_major_slice(direction, size, 1);
        let product = MatMut::from_column_major_slice_mut(product, size, 1);
        multiply(product, Accum::Replace, self.matrix(), direction);
    }

    fn solve(&self, rhs: &[f64], solution: &mut [f64]) {
        solution.copy_from_slice(rhs);
        self.cholesky().solve(solution);
    }

    /// v = L⁻ᵀε.
    fn sample(&self, generator: &mut ChaCha8Rng, draw: &mut [f64]) {
        fill_standard_normal(generator, draw);
        self.cholesky().solve_upper(draw);
    }

    /// (L⁻¹Cᵀ)ᵀ(L⁻¹Cᵀ).
    fn covariance(&self, rows: MatRef<'_, f64>, covariance: MatMut<'_, f64>) {
        let mut solved = rows.transpose().to_owned();
        self.cholesky().solve_lower_many(solved.as_mut());
        multiply(covariance, Accum::Replace, solved.transpose(), solved.as_ref());
    }

    /// The same with the rows of all points as the columns of one triangular system, which takes a fraction of the time of
    /// one system per point: the factor is read once.
    fn point_covariances(&self, rows: &dyn Rows, points: usize, covariances: &mut [f64]) {
        let p = rows.n_rows() / points.max(1);
        let mut dense = Mat::zeros(rows.n_rows(), rows.n_params());
        rows.dense(dense.as_mut());
        let mut solved = dense.transpose().to_owned();
        drop(dense);
        self.cholesky().solve_lower_many(solved.as_mut());
        for (n, target) in covariances.chunks_exact_mut((p * p).max(1)).enumerate() {
            let column = |output: usize| column_slice(solved.col(output * points + n));
            for i in 0..p {
                for j in 0..=i {
                    let value = dot(column(i), column(j));
                    (target[i * p + j], target[j * p + i]) = (value, value);
                }
            }
        }
    }

    fn points_at_once(&self, n_outputs: usize, _: f64) -> usize {
        (BLOCK_NUMBERS / (2 * self.n_params() * n_outputs).max(1) as f64) as usize
    }

    fn size_in_words(&self) -> String {
        let size = self.n_params();
        format!("a {size} × {size} matrix")
    }

    fn save(&self) -> Vec<SavedTensor> {
        vec![packed("cholesky", self.cholesky().lower())]
    }
}

//! The pullback metric and its geodesic acceleration a = −(A + J̃ᵀJ̃)⁻¹J̃ᵀz, without Christoffel symbols.
//!
//! J̃ = RᵀJ is the whitened Jacobian (H = RRᵀ) and z the whitened force, Rz = Hf̈ + C(ḟ, ḟ), both from the likelihood.
//! The acceleration is the ridge regression of −z on J̃, solved in weight space (D × D) or in function space
//! (a = −A⁻¹J̃ᵀ(I + J̃A⁻¹J̃ᵀ)⁻¹z, M × M), whichever takes fewer multiply-adds; or, when asked for, without a matrix.

use std::sync::Arc;

use faer::{Accum, Mat};

use super::matrix_free::{MatrixFree, MatrixFreeOptions, MatrixFreeWorker, SolverReport, kernel_times};
use super::{Evaluator, Metric};
use crate::error::{Error, Result, Unsupported, check_size};
use crate::laplace::WeightSpace;
use crate::likelihood::{Likelihood, PointBuffers};
use crate::linalg::{Cholesky, LowRankInverse, multiply_by_own_transpose};
use crate::map::{DifferentiableMap, Jet};
use crate::prior::PriorPrecision;

/// Where the ridge regression is solved exactly. The answer is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// A D × D system.
    Weight,
    /// An M × M system; needs a proper prior.
    Function,
}

/// How the ridge regression is solved.
#[derive(Debug, Clone)]
enum Solver {
    Exact(Space),
    MatrixFree(Arc<MatrixFree>),
}

/// The seed of the random test vectors behind a preconditioner: the same for every metric.
const PRECONDITIONER_SEED: u64 = 0x5eed;

/// G(θ) = A + Σₙ JₙᵀH(fₙ)Jₙ for a map, a likelihood's Fisher information and a prior precision.
#[derive(Debug, Clone)]
pub struct Pullback<M> {
    map: M,
    likelihood: Arc<dyn Likelihood>,
    prior: PriorPrecision,
    solver: Solver,
}

/// Multiply-adds of J̃ᵀJ̃ (half of it) and its Cholesky factor. Measured times follow this count to within a factor of
/// two from D = 31 to 1,000, where the two solvers differ by far more but for a narrow range of sizes. In all pairs that
/// `cargo bench --bench scalability` measures, from D = 46 to 2,701 and N = 100 to 1,000, the smaller count is the faster.
fn weight_work<M: DifferentiableMap>(map: &M) -> f64 {
    let (rows, d) = ((map.n_points() * map.n_outputs()) as f64, map.n_params() as f64);
    0.5 * rows * d * d + d * d * d / 6.0
}

/// Multiply-adds of the Gram matrix and its Cholesky factor.
fn function_work<M: DifferentiableMap>(map: &M) -> f64 {
    let rows = (map.n_points() * map.n_outputs()) as f64;
    map.gram_work(map.n_outputs()) + rows * rows * rows / 6.0
}

impl<M: DifferentiableMap> Pullback<M> {
    /// The metric with the cheaper of the two exact solvers.
    pub fn new(map: M, likelihood: Arc<dyn Likelihood>, prior: PriorPrecision) -> Self {
        let function = prior.is_proper() && function_work(&map) < weight_work(&map);
        let space = if function { Space::Function } else { Space::Weight };
        Self { map, likelihood, prior, solver: Solver::Exact(space) }
    }

    /// The same metric with the solver of choice (the function-space one needs a proper prior, and is not taken
    /// without).
    #[must_use]
    pub fn with_space(mut self, space: Space) -> Self {
        self.solver = Solver::Exact(if self.prior.is_proper() { space } else { Space::Weight });
        self
    }

    /// The same metric, its accelerations by conjugate gradients: O(N·D) a product for a network, and no array larger
    /// than the preconditioner's N·P × rank. The preconditioner is made at `base`, where the geodesics start.
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::likelihood::Gaussian;
    /// use riemannian_laplace::metric::{Evaluator, MatrixFreeOptions, Pullback};
    /// use riemannian_laplace::network::{Activation, Architecture, Network, NetworkMap};
    /// use riemannian_laplace::prior::PriorPrecision;
    ///
    /// let network = Network::random(Architecture::new(&[1, 3, 1], Activation::Tanh)?, 1);
    /// let map = NetworkMap::new(network.architecture().clone(), array![[-1.0], [0.5], [2.0]].view())?;
    /// let prior = PriorPrecision::scalar(1.0, &network.architecture().layer_params())?;
    /// let exact = Pullback::new(map, std::sync::Arc::new(Gaussian::unit()), prior);
    /// let base = network.parameters();
    /// let options = MatrixFreeOptions { tolerance: 1e-12, ..Default::default() };
    /// let matrix_free = exact.clone().with_matrix_free(base, options)?;
    /// let (velocity, mut a, mut b) = ([0.1; 10], [0.0; 10], [0.0; 10]);
    /// exact.pullback_evaluator().acceleration(base, &velocity, &mut a);
    /// matrix_free.pullback_evaluator().acceleration(base, &velocity, &mut b);
    /// assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-12));
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn with_matrix_free(mut self, base: &[f64], options: MatrixFreeOptions) -> Result<Self> {
        options.validate()?;
        check_size("length of the base point", self.map.n_params(), base.len())?;
        if !self.prior.is_proper() {
            return Err(Error::Unsupported(Unsupported::ImproperMatrixFree));
        }
        let (n, p, d) = (self.map.n_points(), self.map.n_outputs(), self.map.n_params());
        // Test vectors, their images, and the eigenvectors made of them.
        let room = (crate::memory::limit() as f64 / 8.0 / (4 * n * p).max(1) as f64) as usize;
        let rank = options.max_rank.min(d).min(room);
        let (mut workspace, mut outputs) = (self.map.workspace(p), vec![0.0; n * p]);
        self.map.outputs(base, &mut outputs, &mut workspace);
        let mut seeds = vec![0.0; n * p * p];
        PointBuffers::new(n, p).whitening(&*self.likelihood, &outputs, &mut seeds);
        self.map.pull_back(base, &seeds, &mut workspace);
        let (map, prior, mut scaled) = (&self.map, &self.prior, vec![0.0; d]);
        let preconditioner = LowRankInverse::of_kernel(n * p, rank, PRECONDITIONER_SEED, |u, product| {
            kernel_times(map, &mut workspace, prior, &mut scaled, u, product);
        })?;
        let options = MatrixFreeOptions { max_rank: rank, ..options };
        self.solver = Solver::MatrixFree(Arc::new(MatrixFree::new(options, preconditioner)));
        Ok(self)
    }

    /// The exact solver in use; none when the metric is matrix-free.
    pub fn space(&self) -> Option<Space> {
        match self.solver {
            Solver::Exact(space) => Some(space),
            Solver::MatrixFree(_) => None,
        }
    }

    /// f64 numbers that one evaluator holds.
    pub fn evaluator_size(&self) -> f64 {
        let (n, p, d) = (self.map.n_points() as f64, self.map.n_outputs() as f64, self.map.n_params() as f64);
        let (m, workspace) = (n * p, self.map.workspace_size(self.map.n_outputs()));
        workspace
            + m * (p + 4.0)
            + match &self.solver {
                Solver::Exact(Space::Weight) => m * d + d * d,
                Solver::Exact(Space::Function) => m * m + 2.0 * n * n,
                Solver::MatrixFree(shared) => shared.worker_size(m, d),
            }
    }

    /// Evaluations with buffers of their own.
    pub fn pullback_evaluator(&self) -> PullbackEvaluator<'_, M> {
        let (n, p, d) = (self.map.n_points(), self.map.n_outputs(), self.map.n_params());
        let (size, matrix_free) = match &self.solver {
            Solver::Exact(Space::Weight) => (d, None),
            Solver::Exact(Space::Function) => (n * p, None),
            Solver::MatrixFree(shared) => (0, Some(MatrixFreeWorker::new(shared.clone(), n * p, d))),
        };
        PullbackEvaluator {
            metric: self,
            workspace: self.map.workspace(p),
            jet: Jet::new(n, p),
            seeds: vec![0.0; n * p * p],
            force: vec![0.0; n * p],
            points: PointBuffers::new(n, p),
            rows: if self.space() == Some(Space::Weight) { Mat::zeros(n * p, d) } else { Mat::new() },
            cholesky: Cholesky::new(size),
            matrix_free,
            variances: self.prior.variances(),
        }
    }

    /// G(θ), factored, as a precision matrix.
    pub fn at(&self, theta: &[f64]) -> Result<WeightSpace> {
        let mut evaluator = self.pullback_evaluator();
        self.map.outputs(theta, &mut evaluator.jet.outputs, &mut evaluator.workspace);
        evaluator.pull_back(theta);
        let mut rows = Mat::zeros(self.map.n_points() * self.map.n_outputs(), self.map.n_params());
        self.map.rows(&mut evaluator.workspace, rows.as_mut());
        let mut curvature = Mat::zeros(self.map.n_params(), self.map.n_params());
        multiply_by_own_transpose(curvature.as_mut(), Accum::Replace, rows.transpose());
        WeightSpace::new(curvature.as_ref(), &self.prior)
    }
}

impl<M: DifferentiableMap> Metric for Pullback<M> {
    fn n_params(&self) -> usize {
        self.map.n_params()
    }

    fn evaluator(&self) -> Box<dyn Evaluator + Send + '_> {
        Box::new(self.pullback_evaluator())
    }

    fn evaluator_size(&self) -> f64 {
        Pullback::evaluator_size(self)
    }

    fn solver_report(&self) -> Option<SolverReport> {
        match &self.solver {
            Solver::Exact(_) => None,
            Solver::MatrixFree(shared) => Some(shared.report()),
        }
    }
}

/// One thread's buffers for a [`Pullback`] metric.
pub struct PullbackEvaluator<'a, M: DifferentiableMap> {
    metric: &'a Pullback<M>,
    workspace: M::Workspace,
    jet: Jet,
    seeds: Vec<f64>,
    force: Vec<f64>,
    points: PointBuffers,
    rows: Mat<f64>,
    cholesky: Cholesky,
    matrix_free: Option<MatrixFreeWorker>,
    variances: Vec<f64>,
}

impl<M: DifferentiableMap> PullbackEvaluator<'_, M> {
    /// What this evaluator's matrix-free solves have cost and how exact they were; none for an exact solver.
    pub fn solver_report(&self) -> Option<SolverReport> {
        self.matrix_free.as_ref().map(MatrixFreeWorker::report)
    }

    /// The seeds R at the outputs of the last evaluation, and the rows J̃ = RᵀJ.
    fn pull_back(&mut self, theta: &[f64]) {
        self.points.whitening(&*self.metric.likelihood, &self.jet.outputs, &mut self.seeds);
        self.metric.map.pull_back(theta, &self.seeds, &mut self.workspace);
    }

    /// The lower triangle of A + J̃ᵀJ̃ or of I + J̃A⁻¹J̃ᵀ, factored; false when it is not positive definite.
    fn factor(&mut self, space: Space) -> bool {
        let Pullback { map, prior, .. } = self.metric;
        match space {
            Space::Weight => {
                map.rows(&mut self.workspace, self.rows.as_mut());
                multiply_by_own_transpose(self.cholesky.matrix_mut(), Accum::Replace, self.rows.transpose());
                prior.add_to_diagonal(self.cholesky.matrix_mut());
            }
            Space::Function => {
                map.gram(&self.variances, &mut self.workspace, self.cholesky.matrix_mut());
                let mut system = self.cholesky.matrix_mut();
                for m in 0..system.nrows() {
                    system[(m, m)] += 1.0;
                }
            }
        }
        self.cholesky.factor().is_ok()
    }

    /// ½∇ log det G(θ), with G = LLᵀ and c_j the columns of L⁻ᵀ:
    ///
    /// ½ ∂_k log det G = Σ_j ∂_k(½c_jᵀGc_j) = Σ_j Σₙ [(∂_kḟₙ)ᵀHₙḟₙ + (JₙᵀCₙ(ḟₙ, ḟₙ))_k], ḟ = Jc_j,
    ///
    /// where ∂_kḟ = e_kᵀ∇²f c_j comes from jets by polarisation. Costs D² jets; for small D. Returns ½ log det G, or
    /// NaN (also in the gradient) where G is not positive definite.
    pub fn half_log_det(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let (map, likelihood) = (&self.metric.map, &*self.metric.likelihood);
        let (size, n_points, p) = (map.n_params(), map.n_points(), map.n_outputs());
        gradient.fill(f64::NAN);
        let Ok(metric) = self.metric.at(theta) else { return f64::NAN };
        let root = metric.cholesky();
        gradient.fill(0.0);
        let (mut term, mut direction) = (vec![0.0; size], vec![0.0; size]);
        let mut momenta = vec![0.0; n_points * p];
        for j in 0..size {
            let mut column = vec![0.0; size];
            column[j] = 1.0;
            root.solve_upper(&mut column);
            map.jet(theta, &column, &mut self.jet, &mut self.workspace);
            self.pull_back(theta);
            self.points.momenta(likelihood, &self.jet, &mut momenta);
            self.jet.curvatures.fill(0.0);
            self.points.whitened_force(likelihood, &self.jet, &mut self.force);
            map.transpose_times(&self.force, &mut self.workspace, &mut term);
            for k in 0..size {
                let mut bend = 0.0;
                for sign in [1.0, -1.0] {
                    direction.copy_from_slice(&column);
                    direction[k] += sign;
                    map.jet(theta, &direction, &mut self.jet, &mut self.workspace);
                    bend += sign * crate::linalg::dot(&momenta, &self.jet.curvatures);
                }
                gradient[k] += term[k] + 0.25 * bend;
            }
        }
        0.5 * root.log_det()
    }
}

impl<M: DifferentiableMap> Evaluator for PullbackEvaluator<'_, M> {
    fn acceleration(&mut self, theta: &[f64], velocity: &[f64], acceleration: &mut [f64]) {
        let Pullback { map, prior, .. } = self.metric;
        if map.n_points() == 0 {
            acceleration.fill(0.0);
            return;
        }
        map.jet(theta, velocity, &mut self.jet, &mut self.workspace);
        self.points.whitened_force(&*self.metric.likelihood, &self.jet, &mut self.force);
        self.pull_back(theta);
        match (self.metric.space(), &mut self.matrix_free) {
            (Some(space), _) => {
                if !self.factor(space) {
                    acceleration.fill(f64::NAN);
                    return;
                }
                if space == Space::Weight {
                    self.force.iter_mut().for_each(|value| *value = -*value);
                    map.transpose_times(&self.force, &mut self.workspace, acceleration);
                    self.cholesky.solve(acceleration);
                } else {
                    self.cholesky.solve(&mut self.force);
                    self.force.iter_mut().for_each(|value| *value = -*value);
                    map.transpose_times(&self.force, &mut self.workspace, acceleration);
                    prior.divide(acceleration);
                }
            }
            (None, Some(worker)) => {
                let solution = worker.solve(map, &mut self.workspace, prior, &self.force);
                map.transpose_times(solution, &mut self.workspace, acceleration);
                prior.divide(acceleration);
                acceleration.iter_mut().for_each(|value| *value = -*value);
            }
            (None, None) => acceleration.fill(f64::NAN),
        }
    }

    fn squared_speed_of_last(&mut self, velocity: &[f64]) -> f64 {
        let data = self.points.fisher_quadratic(&*self.metric.likelihood, &self.jet);
        data + self.metric.prior.quadratic(velocity)
    }

    fn begin_path(&mut self, rtol: f64) {
        if let Some(worker) = &mut self.matrix_free {
            worker.begin(rtol);
        }
    }

    fn squared_speed(&mut self, theta: &[f64], velocity: &[f64]) -> f64 {
        if let Some(worker) = &mut self.matrix_free {
            worker.forget();
        }
        let Pullback { map, likelihood, prior, .. } = self.metric;
        let prior_share = prior.quadratic(velocity);
        if map.n_points() == 0 {
            return prior_share;
        }
        map.jet(theta, velocity, &mut self.jet, &mut self.workspace);
        prior_share + self.points.fisher_quadratic(&**likelihood, &self.jet)
    }
}

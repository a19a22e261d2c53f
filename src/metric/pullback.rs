//! The pullback metric and its geodesic acceleration a = −(A + J̃ᵀJ̃)⁻¹J̃ᵀz, without Christoffel symbols.
//!
//! J̃ = RᵀJ is the whitened Jacobian (H = RRᵀ) and z the whitened force, Rz = Hf̈ + C(ḟ, ḟ), both from the likelihood.
//! The acceleration is the ridge regression of −z on J̃, solved in weight space (D × D) or in function space (a =
//! −A⁻¹J̃ᵀ(I + J̃A⁻¹J̃ᵀ)⁻¹z, M × M), whichever takes fewer multiply-adds; or by conjugate gradients.

use std::sync::Arc;

use faer::{Accum, Mat};

use super::solvers::{
    Iterative, IterativeOptions, MatrixFree, MatrixFreeOptions, Ridge, RidgeSolver, SolverName, SolverReport,
};
use super::{Beside, Metric, MetricEvaluator, Pull};
use crate::error::Result;
use crate::laplace::{Precision, Structure, WeightSpace};
use crate::likelihood::{Likelihood, PointEvaluator};
use crate::linalg::{Cholesky, add_scaled};
use crate::map::{Evaluator, Jet, Map, identity_seeds};
use crate::prior::{PriorPrecision, PriorStructure};
use crate::target::Target;

/// Steps of Newton's method to the graph.
const TO_THE_GRAPH: usize = 2;

/// G(θ) = A + Σₙ JₙᵀH(fₙ)Jₙ for a map, a likelihood's Fisher information and a prior precision.
#[derive(Debug, Clone)]
pub struct Pullback {
    map: Arc<dyn Map>,
    likelihood: Arc<dyn Likelihood>,
    prior: PriorPrecision,
    ridge: Ridge,
    /// A precision near G(θ) where geodesics start.
    near: Option<Arc<dyn Precision>>,
    /// The outputs at the data that ends are compared by, where they are not those of the map.
    data: Option<(Arc<dyn Map>, Arc<dyn Likelihood>)>,
}

impl Pullback {
    /// The metric with the cheaper of the two exact solvers. The prior must have as many parameters as the map and, if
    /// it has several values, the same groups.
    pub fn new(map: Arc<dyn Map>, likelihood: Arc<dyn Likelihood>, prior: PriorPrecision) -> Result<Self> {
        let prior = prior.for_groups(&map.groups())?;
        Ok(Self::fitting(map, likelihood, prior))
    }

    /// The same for a prior that is known to have the map's groups.
    pub(super) fn fitting(map: Arc<dyn Map>, likelihood: Arc<dyn Likelihood>, prior: PriorPrecision) -> Self {
        let ridge = Ridge::cheaper(&*map, &prior);
        Self { map, likelihood, prior, ridge, near: None, data: None }
    }

    /// The same metric, whose ends are compared by the outputs of a target rather than by those of its own map.
    #[must_use]
    pub fn judged_at(self, target: &Target) -> Self {
        Self { data: Some((target.map().clone(), target.likelihood().clone())), ..self }
    }

    /// The same metric with a chosen solver (the function-space solver needs a proper prior, and is not used without
    /// one).
    #[must_use]
    pub fn with_structure(mut self, structure: Structure) -> Self {
        self.ridge = match structure {
            Structure::WeightSpace => Ridge::WeightSpace,
            Structure::FunctionSpace if self.prior.is_proper() => Ridge::FunctionSpace,
            Structure::FunctionSpace => Ridge::WeightSpace,
            _ => Ridge::cheaper(&*self.map, &self.prior),
        };
        self
    }

    /// The same metric with accelerations by conjugate gradients: O(N·D) per product of a network, and no array larger
    /// than the preconditioner's N·P × rank. The preconditioner is built at `base`, where the geodesics start.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use ndarray::array;
    /// use riemannian_laplace::internals::metric::MatrixFreeOptions;
    /// use riemannian_laplace::internals::likelihood::Gaussian;
    /// use riemannian_laplace::Model;
    /// use riemannian_laplace::internals::metric::{Metric, Pullback};
    /// use riemannian_laplace::{Activation, Architecture, Network};
    /// use riemannian_laplace::internals::prior::PriorPrecision;
    ///
    /// let network = Network::random(Architecture::new(&[1, 3, 1], Activation::Tanh)?, 1);
    /// let map = network.bind(array![[-1.0], [0.5], [2.0]].view())?;
    /// let exact = Pullback::new(map, Arc::new(Gaussian::unit()), PriorPrecision::scalar(1.0, &[10])?)?;
    /// let base = network.parameters();
    /// let options = MatrixFreeOptions { tolerance: 1e-12, ..Default::default() };
    /// let matrix_free = exact.clone().with_matrix_free(base, options)?;
    /// let (velocity, mut a, mut b) = ([0.1; 10], [0.0; 10], [0.0; 10]);
    /// exact.evaluator().acceleration(base, &velocity, &mut a);
    /// matrix_free.evaluator().acceleration(base, &velocity, &mut b);
    /// assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-12));
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn with_matrix_free(mut self, base: &[f64], options: MatrixFreeOptions) -> Result<Self> {
        let shared = MatrixFree::new(&self.map, &*self.likelihood, &self.prior, base, options)?;
        self.ridge = Ridge::MatrixFree(Arc::new(shared));
        Ok(self)
    }

    /// The same metric, for geodesics that start where it is near this precision: as those from θ̂ do, near the posterior's.
    /// An iterative solver that is chosen after this takes the precision's factor, if it has one, for its first
    /// preconditioner, where that is worth its price: one that is near costs less than one that is made.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use ndarray::array;
    /// use riemannian_laplace::internals::metric::IterativeOptions;
    /// use riemannian_laplace::internals::likelihood::Gaussian;
    /// use riemannian_laplace::Model;
    /// use riemannian_laplace::internals::metric::{Metric, Pullback};
    /// use riemannian_laplace::{Activation, Architecture, Network};
    /// use riemannian_laplace::internals::prior::PriorPrecision;
    ///
    /// let network = Network::random(Architecture::new(&[1, 3, 1], Activation::Tanh)?, 1);
    /// let map = network.bind(array![[-1.0], [0.5], [2.0]].view())?;
    /// let exact = Pullback::new(map, Arc::new(Gaussian::unit()), PriorPrecision::scalar(1.0, &[10])?)?;
    /// let base = network.parameters();
    /// let there = Arc::new(exact.at(base)?);
    /// let options = IterativeOptions { tolerance: 1e-12, ..Default::default() };
    /// let iterative = exact.clone().starting_near(there).with_iteration(base, options)?;
    /// let (velocity, mut a, mut b) = ([0.1; 10], [0.0; 10], [0.0; 10]);
    /// exact.evaluator().acceleration(base, &velocity, &mut a);
    /// iterative.evaluator().acceleration(base, &velocity, &mut b);
    /// assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-10));
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    #[must_use]
    pub fn starting_near(self, precision: Arc<dyn Precision>) -> Self {
        Self { near: Some(precision), ..self }
    }

    /// The factor of the precision that G is near to where geodesics start.
    fn factor_near(&self) -> Option<&Cholesky> {
        self.near.as_ref().and_then(|precision| precision.factor())
    }

    /// The same metric with accelerations by conjugate gradients that remember their path, in weight or function space.
    /// Whether a factor is worth its price is found out at `base`, where the geodesics start.
    pub fn with_iteration(mut self, base: &[f64], options: IterativeOptions) -> Result<Self> {
        let (map, likelihood) = (&self.map, &*self.likelihood);
        let shared = Iterative::new(map, likelihood, &self.prior, base, self.factor_near(), options)?;
        self.ridge = Ridge::Iterative(Arc::new(shared));
        Ok(self)
    }

    /// The same metric with the solver that takes the least work for geodesics from `base` at this relative tolerance,
    /// by a count of multiply-adds.
    pub fn with_cheapest_solver(mut self, base: &[f64], rtol: f64) -> Result<Self> {
        let (map, likelihood) = (&self.map, &*self.likelihood);
        self.ridge = Ridge::cheapest(map, likelihood, &self.prior, base, self.factor_near(), rtol)?;
        Ok(self)
    }

    /// The map, the likelihood and the prior precision that the metric is made of.
    pub(crate) fn parts(&self) -> (&Arc<dyn Map>, &Arc<dyn Likelihood>, &PriorPrecision) {
        (&self.map, &self.likelihood, &self.prior)
    }

    /// The name of the solver in use.
    pub fn solver_name(&self) -> SolverName {
        self.ridge.name()
    }

    /// The exact solver in use; none for conjugate gradients.
    pub fn structure(&self) -> Option<Structure> {
        match self.ridge {
            Ridge::WeightSpace => Some(Structure::WeightSpace),
            Ridge::FunctionSpace => Some(Structure::FunctionSpace),
            Ridge::Iterative(_) | Ridge::MatrixFree(_) => None,
        }
    }

    /// One thread's evaluator.
    pub fn pullback_evaluator(&self) -> PullbackEvaluator {
        let (n, p) = (self.map.n_points(), self.map.n_outputs());
        let jet = if self.likelihood.has_constant_fisher() { Jet::derivatives(n, p) } else { Jet::new(n, p) };
        PullbackEvaluator {
            map: Evaluator::new(&self.map, p),
            solver: self.ridge.solver(&*self.map),
            metric: self.clone(),
            jet,
            seeds: vec![0.0; n * p * p],
            force: vec![0.0; n * p],
            points: PointEvaluator::new(n, p),
            output_acceleration: Vec::new(),
            product: Vec::new(),
            isometric: Vec::new(),
        }
    }

    /// G(θ), factored, as a precision matrix.
    pub fn at(&self, theta: &[f64]) -> Result<WeightSpace> {
        let (n, p, d) = (self.map.n_points(), self.map.n_outputs(), self.map.n_params());
        let (mut outputs, mut seeds) = (vec![0.0; n * p], vec![0.0; n * p * p]);
        let mut evaluator = Evaluator::new(&self.map, p);
        let evaluated = evaluator.outputs(theta, &mut outputs);
        PointEvaluator::new(n, p).whitening(&*self.likelihood, &outputs, &mut seeds);
        let mut curvature = Mat::zeros(d, d);
        evaluated.pull_back(&seeds).curvature(Accum::Replace, curvature.as_mut());
        WeightSpace::new(curvature.as_ref(), &self.prior)
    }
}

impl Metric for Pullback {
    fn n_params(&self) -> usize {
        self.map.n_params()
    }

    fn evaluator(&self) -> Box<dyn MetricEvaluator> {
        Box::new(self.pullback_evaluator())
    }

    fn evaluator_size(&self) -> f64 {
        let (n, p) = (self.map.n_points() as f64, self.map.n_outputs() as f64);
        // With one variance per weight the function-space solver writes the rows out.
        let dense = match (&self.ridge, self.prior.structure()) {
            (Ridge::FunctionSpace, PriorStructure::PerWeight) => n * p * self.map.n_params() as f64,
            _ => 0.0,
        };
        self.map.evaluator_size(self.map.n_outputs()) + n * p * (p + 4.0) + self.ridge.solver_size(&*self.map) + dense
    }

    fn solver_report(&self) -> Option<SolverReport> {
        self.ridge.report()
    }
}

/// One thread's buffers for a [`Pullback`] metric, and the operations that need them.
pub struct PullbackEvaluator {
    metric: Pullback,
    map: Evaluator,
    solver: Box<dyn RidgeSolver>,
    jet: Jet,
    seeds: Vec<f64>,
    force: Vec<f64>,
    points: PointEvaluator,
    /// ÿ at the last acceleration, and room for J̃a; empty unless the outputs are followed.
    output_acceleration: Vec<f64>,
    product: Vec<f64>,
    /// y(θ), while a path is pulled to the graph.
    isometric: Vec<f64>,
}

impl PullbackEvaluator {
    /// What this evaluator's iterative solves have cost and how accurate they were; none for an exact solver.
    pub fn solver_report(&self) -> Option<SolverReport> {
        self.solver.report()
    }

    /// The acceleration. With a pull, its force stays in `product`.
    fn accelerate(&mut self, theta: &[f64], velocity: &[f64], pull: Option<Pull<'_>>, acceleration: &mut [f64]) {
        let Self { metric: Pullback { map: shared, likelihood, prior, .. }, map, .. } = self;
        if shared.n_points() == 0 {
            acceleration.fill(0.0);
            return;
        }
        let evaluated = map.partial_jet(theta, velocity, &mut self.jet);
        self.points.whitened_force(&**likelihood, &self.jet, &mut self.force);
        self.points.whitening(&**likelihood, &self.jet.outputs, &mut self.seeds);
        // z is linear in f̈, with Rᵀ before it.
        let mut rows = evaluated.pull_back(&self.seeds, &mut self.force);
        let (is_followed, remainder) = (!self.output_acceleration.is_empty(), self.solver.leaves_remainder());
        if is_followed {
            // ÿ = z + J̃a, and what is normal to J̃. The solver below is given −z.
            match remainder {
                true => self.output_acceleration.fill(0.0),
                false => self.output_acceleration.copy_from_slice(&self.force),
            }
            self.points.add_normal_force(&**likelihood, &self.jet, &mut self.output_acceleration);
        }
        if let Some(Pull { outputs, velocities, rate }) = pull {
            self.points.isometric(&**likelihood, &self.jet.outputs, &mut self.isometric);
            self.points.isometric_velocity(&**likelihood, &self.jet, &mut self.product);
            let carried = outputs.iter().zip(velocities);
            for ((force, here), (y, u)) in self.product.iter_mut().zip(&self.isometric).zip(carried) {
                *force = rate * (2.0 * (*force - u) + rate * (here - y));
            }
            add_scaled(1.0, &self.product, &mut self.force);
        }
        self.force.iter_mut().for_each(|value| *value = -*value);
        if let Some(speed) = self.solver.speed_mut() {
            *speed = self.points.fisher_quadratic(&**likelihood, &self.jet).sqrt();
        }
        if !self.solver.solve(&mut rows, prior, &mut self.force, acceleration) {
            acceleration.fill(f64::NAN);
        }
        if is_followed {
            let (sign, share) = match remainder {
                true => (-1.0, &self.force),
                false => {
                    self.solver.image(&mut rows, acceleration, &mut self.product);
                    (1.0, &self.product)
                }
            };
            add_scaled(sign, share, &mut self.output_acceleration);
        }
    }

    /// ½∇ log det G(θ), with G = LLᵀ and c_j the columns of L⁻ᵀ:
    ///
    /// ½ ∂_k log det G = Σ_j ∂_k(½c_jᵀGc_j) = Σ_j Σₙ [(∂_kḟₙ)ᵀHₙḟₙ + (Jₙᵀ ∂(½ḟₙᵀHₙḟₙ)/∂fₙ)_k], ḟ = Jc_j,
    ///
    /// where ∂_kḟ = e_kᵀ∇²f c_j comes from jets by polarisation. Costs D² jets; for small D. Returns ½ log det G, or
    /// NaN (also in the gradient) where G is not positive definite.
    pub fn half_log_det(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let Pullback { map, likelihood, .. } = &self.metric;
        let (size, n_points, p) = (map.n_params(), map.n_points(), map.n_outputs());
        gradient.fill(f64::NAN);
        let Ok(metric) = self.metric.at(theta) else { return f64::NAN };
        let root = metric.cholesky();
        gradient.fill(0.0);
        let (mut term, mut direction) = (vec![0.0; size], vec![0.0; size]);
        let mut momenta = vec![0.0; n_points * p];
        let (mut jet, identity) = (Jet::new(n_points, p), identity_seeds(n_points, p));
        for j in 0..size {
            let mut column = vec![0.0; size];
            column[j] = 1.0;
            root.solve_upper(&mut column);
            let evaluated = self.map.jet(theta, &column, &mut jet);
            self.points.momenta(&**likelihood, &jet, &mut momenta);
            self.points.energy_gradient(&**likelihood, &jet, &mut self.force);
            evaluated.pull_back(&identity).transpose_times(&self.force, &mut term);
            for k in 0..size {
                let mut bend = 0.0;
                for sign in [1.0, -1.0] {
                    direction.copy_from_slice(&column);
                    direction[k] += sign;
                    self.map.jet(theta, &direction, &mut jet);
                    bend += sign * crate::linalg::dot(&momenta, &jet.second);
                }
                gradient[k] += term[k] + 0.25 * bend;
            }
        }
        0.5 * root.log_det()
    }
}

impl MetricEvaluator for PullbackEvaluator {
    fn acceleration(&mut self, theta: &[f64], velocity: &[f64], acceleration: &mut [f64]) {
        self.accelerate(theta, velocity, None, acceleration);
    }

    fn pulled_outputs(&mut self) -> Option<usize> {
        let (n, p) = (self.metric.map.n_points(), self.metric.map.n_outputs());
        let (outputs, mut isometric) = (vec![0.0; n * p], vec![0.0; n * p]);
        let exist = n > 0 && self.points.isometric(&*self.metric.likelihood, &outputs, &mut isometric);
        if !(exist && self.solver.leaves_remainder()) {
            return None;
        }
        (self.jet, self.isometric) = (Jet::new(n, p), isometric);
        Some(n * p)
    }

    fn acceleration_with_pull(
        &mut self,
        theta: &[f64],
        velocity: &[f64],
        pull: Pull<'_>,
        acceleration: &mut [f64],
        carried: &mut [f64],
    ) {
        let pull = (self.isometric.len() == carried.len()).then_some(pull);
        self.accelerate(theta, velocity, pull, acceleration);
        carried.copy_from_slice(&self.output_acceleration);
        if pull.is_some() {
            // ÿ along the path is z + J̃a: what is carried, without the pull.
            add_scaled(-1.0, &self.product, &mut self.output_acceleration);
        }
    }

    fn follow_outputs(&mut self, theta: &[f64], velocity: &[f64]) -> Option<[Vec<f64>; 2]> {
        let outputs = self.isometric_outputs(theta)?;
        self.map.jet(theta, velocity, &mut self.jet);
        let mut velocities = vec![0.0; outputs.len()];
        self.points.isometric_velocity(&*self.metric.likelihood, &self.jet, &mut velocities);
        (self.output_acceleration, self.product) = (vec![0.0; outputs.len()], vec![0.0; outputs.len()]);
        Some([outputs, velocities])
    }

    fn output_acceleration(&self) -> &[f64] {
        &self.output_acceleration
    }

    /// With m = (I + J̃A⁻¹J̃ᵀ)⁻¹(y(θ) − y), the nearest point of the graph's tangent is at θ − A⁻¹J̃ᵀm and y + m.
    fn project(&mut self, state: Beside<'_>) -> bool {
        let Beside { theta, velocity, outputs, output_velocities } = state;
        let mut change = vec![0.0; theta.len()];
        for round in 0..=TO_THE_GRAPH {
            let Self { metric: Pullback { likelihood, prior, .. }, map, .. } = self;
            let evaluated = map.jet(theta, velocity, &mut self.jet);
            self.points.whitening(&**likelihood, &self.jet.outputs, &mut self.seeds);
            let mut rows = evaluated.pull_back(&self.seeds);
            let carried = if round < TO_THE_GRAPH {
                self.points.isometric(&**likelihood, &self.jet.outputs, &mut self.force);
                &mut *outputs
            } else {
                self.points.isometric_velocity(&**likelihood, &self.jet, &mut self.force);
                &mut *output_velocities
            };
            add_scaled(-1.0, carried, &mut self.force);
            if !(self.solver.leaves_remainder() && self.solver.solve(&mut rows, prior, &mut self.force, &mut change)) {
                return false;
            }
            add_scaled(1.0, &self.force, carried);
            add_scaled(-1.0, &change, if round < TO_THE_GRAPH { &mut *theta } else { &mut *velocity });
        }
        true
    }

    fn end_distance(&mut self, end: &[f64], other: &[f64]) -> Option<f64> {
        self.solver.forget();
        let Pullback { map, likelihood, prior, data, .. } = &self.metric;
        let (map, likelihood) = data.as_ref().map_or((map, likelihood), |(map, likelihood)| (map, likelihood));
        if map.n_points() == 0 {
            let difference: Vec<f64> = end.iter().zip(other).map(|(end, other)| end - other).collect();
            return Some(prior.quadratic(&difference).sqrt());
        }
        Some(distance_at_data(map, &**likelihood, [end, other]))
    }

    fn isometric_outputs(&mut self, theta: &[f64]) -> Option<Vec<f64>> {
        let size = self.force.len();
        let (mut outputs, mut isometric) = (vec![0.0; size], vec![0.0; size]);
        self.map.outputs(theta, &mut outputs);
        let exist = size > 0 && self.points.isometric(&*self.metric.likelihood, &outputs, &mut isometric);
        exist.then_some(isometric)
    }

    fn squared_speed_of_last(&mut self, velocity: &[f64]) -> f64 {
        let data = self.points.fisher_quadratic(&*self.metric.likelihood, &self.jet);
        data + self.metric.prior.quadratic(velocity)
    }

    fn begin_path(&mut self, rtol: f64) {
        (self.output_acceleration, self.product) = (Vec::new(), Vec::new());
        self.solver.begin_path(rtol);
    }

    fn at_time(&mut self, time: f64) {
        self.solver.at_time(time);
    }

    fn path_residual(&self) -> f64 {
        self.solver.path_residual()
    }

    fn squared_speed(&mut self, theta: &[f64], velocity: &[f64]) -> f64 {
        self.solver.forget();
        self.squared_speed_on_path(theta, velocity)
    }

    fn squared_speed_on_path(&mut self, theta: &[f64], velocity: &[f64]) -> f64 {
        let Pullback { map, likelihood, prior, .. } = &self.metric;
        let prior_share = prior.quadratic(velocity);
        if map.n_points() == 0 {
            return prior_share;
        }
        self.map.jet(theta, velocity, &mut self.jet);
        prior_share + self.points.fisher_quadratic(&**likelihood, &self.jet)
    }
}

/// The largest distance between the outputs of two ends at a data point: in isometric outputs where there are any, else
/// whitened at either end, whichever is larger.
fn distance_at_data(map: &Arc<dyn Map>, likelihood: &dyn Likelihood, ends: [&[f64]; 2]) -> f64 {
    let (n, p) = (map.n_points(), map.n_outputs());
    let (mut evaluator, mut points) = (Evaluator::new(map, 1), PointEvaluator::new(n, p));
    let outputs = ends.map(|theta| {
        let mut outputs = vec![0.0; n * p];
        evaluator.outputs(theta, &mut outputs);
        outputs
    });
    // Entry (n, k) at k·N + n; a point's largest is found by its squares. What is not a number stays.
    let largest = |differences: &[f64]| {
        let square = |point: usize| (0..p).map(|k| differences[k * n + point].powi(2)).sum::<f64>();
        (0..n).map(square).fold(0.0, |most, one| if one <= most { most } else { one }).sqrt()
    };
    let minus = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<f64>>();
    let mut isometric = [vec![0.0; n * p], vec![0.0; n * p]];
    let [left, right] = &mut isometric;
    if points.isometric(likelihood, &outputs[0], left) && points.isometric(likelihood, &outputs[1], right) {
        return largest(&minus(left, right));
    }
    let difference = minus(&outputs[0], &outputs[1]);
    let whitened = |at: &[f64]| {
        let mut jet = Jet::new(n, p);
        jet.outputs.copy_from_slice(at);
        jet.first.copy_from_slice(&difference);
        let mut whitened = vec![0.0; n * p];
        points.isometric_velocity(likelihood, &jet, &mut whitened);
        largest(&whitened)
    };
    let [at_end, at_other] = [&outputs[0], &outputs[1]].map(|at| at.as_slice()).map(whitened);
    if at_end <= at_other { at_other } else { at_end }
}

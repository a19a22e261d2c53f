//! Riemannian metrics as output maps: G(θ) = A + Σₙ JₙᵀHₙJₙ, and the one geodesic acceleration of this crate.
//!
//! | metric | output map | H | A |
//! |---|---|---|---|
//! | [`fisher`] | θ → all fₙ(θ) | the likelihood's Fisher | prior precision |
//! | [`empirical_fisher`] | θ → the N values log p(yₙ \| fₙ(θ)) | identity | prior precision |
//! | [`monge`] | θ → the single value ℓ(θ) | 1 | identity |
//! | [`gaussian_monge`] | θ → −½(θ − θ̂)ᵀP(θ − θ̂) | 1 | identity |
//! | [`euclidean`] | none | – | identity |
//!
//! Accelerations are exact by default. [`Pullback::with_cheapest_solver`] takes conjugate gradients where they are cheaper
//! by far. Where neither a D × D nor an N·P × N·P matrix fits, [`Pullback::with_matrix_free`] needs neither, and [`Subsampled`] makes the metric from a part of the data.
//!
//! (Yu et al. 2024, sections 2.2, 4.1 and 4.3, and the supplement's "Empirical Fisher".)

mod log_likelihoods;
mod log_posterior;
mod pullback;
mod quadratic;
mod solvers;
mod subsampled;

pub use log_likelihoods::LogLikelihoods;
pub use log_posterior::LogPosterior;
pub use pullback::{Pullback, PullbackEvaluator};
pub use quadratic::Quadratic;
pub use solvers::{
    Iterative, IterativeOptions, MatrixFree, MatrixFreeOptions, Ridge, RidgeSolver, SolverName, SolverReport, Space,
};
pub use subsampled::{Batch, Subsampled};

use std::sync::Arc;

use crate::laplace::Precision;
use crate::likelihood::{Likelihood, Scaled, to_powers, unit_noise};
use crate::map::{Evaluate, Jet, Map, Rows, Scratch};
use crate::prior::PriorPrecision;
use crate::target::Target;

/// A Riemannian metric on the parameters, as far as its geodesics are concerned.
pub trait Metric: Send + Sync {
    /// D, the number of parameters.
    fn n_params(&self) -> usize;
    /// One thread's buffers, and the operations that need them.
    fn evaluator(&self) -> Box<dyn MetricEvaluator>;
    /// The number of f64 values that one evaluator holds, for estimates before allocation.
    fn evaluator_size(&self) -> f64 {
        0.0
    }
    /// What the iterative solves of all evaluators have cost and how accurate they were; none for an exact solver.
    fn solver_report(&self) -> Option<SolverReport> {
        None
    }
}

/// Isometric outputs y and their velocities u, carried beside a path, and the rate γ at which the path is pulled to them.
#[derive(Debug, Clone, Copy)]
pub struct Pull<'a> {
    /// y.
    pub outputs: &'a [f64],
    /// u.
    pub velocities: &'a [f64],
    /// γ, one over a time.
    pub rate: f64,
}

/// A state θ, v of a path with the outputs y and their velocities u that are carried beside it.
#[derive(Debug)]
pub struct Beside<'a> {
    /// θ.
    pub theta: &'a mut [f64],
    /// v.
    pub velocity: &'a mut [f64],
    /// y.
    pub outputs: &'a mut [f64],
    /// u.
    pub output_velocities: &'a mut [f64],
}

/// One thread's evaluations of a [`Metric`]: nothing is allocated after the first (but see
/// [`MatrixFreeOptions::refresh`](MatrixFreeOptions::refresh)).
pub trait MetricEvaluator: Send {
    /// a = −Γ(v, v), the acceleration of the geodesic through θ with velocity v. Where it cannot be computed (an
    /// overflow, a metric that is not positive definite) it is NaN.
    fn acceleration(&mut self, theta: &[f64], velocity: &[f64], acceleration: &mut [f64]);
    /// vᵀG(θ)v at the arguments of the last acceleration, from what it computed; the velocity is passed again.
    fn squared_speed_of_last(&mut self, velocity: &[f64]) -> f64;
    /// Starts a new path, integrated at this relative tolerance. An iterative solver drops what it remembers of the
    /// previous path and takes its own tolerance from this one; exact solvers do nothing.
    fn begin_path(&mut self, _rtol: f64) {}
    /// The time on the path of the next acceleration, from which an iterative solver extrapolates; exact solvers do
    /// nothing with it.
    fn at_time(&mut self, _time: f64) {}
    /// The largest relative residual of the accelerations since the path began; zero for exact solvers.
    fn path_residual(&self) -> f64 {
        0.0
    }
    /// Starts to follow the isometric outputs y: returns y(θ) and ẏ along v, and from the next acceleration to the next
    /// path [`output_acceleration`](Self::output_acceleration) is known. `None` where the metric has no such outputs.
    fn follow_outputs(&mut self, _theta: &[f64], _velocity: &[f64]) -> Option<[Vec<f64>; 2]> {
        None
    }
    /// ÿ along the geodesic at the arguments of the last acceleration.
    fn output_acceleration(&self) -> &[f64] {
        &[]
    }
    /// The number of isometric outputs, where [`acceleration_with_pull`](Self::acceleration_with_pull) costs no more than
    /// an acceleration without; none elsewhere.
    fn pulled_outputs(&mut self) -> Option<usize> {
        None
    }
    /// The acceleration while the outputs are followed, with a force that pulls the path back to the graph: in z, to ÿ are
    /// added 2γ(ẏ(θ) − u) + γ²(y(θ) − y). Along the path the distance y(θ) − y then decays as that of a critically damped
    /// spring, and where it is zero nothing changes. `carried` takes the acceleration of y. Without
    /// [`pulled_outputs`](Self::pulled_outputs) there is no pull.
    fn acceleration_with_pull(
        &mut self,
        theta: &[f64],
        velocity: &[f64],
        _pull: Pull<'_>,
        acceleration: &mut [f64],
        carried: &mut [f64],
    ) {
        self.acceleration(theta, velocity, acceleration);
        carried.copy_from_slice(self.output_acceleration());
    }
    /// Moves a state with the outputs and velocities carried beside it to the graph, by the shortest way in the flat space
    /// around it: to y = y(θ) in two steps of Newton's method, and to u = J̃v. False, and nothing is of use, where that cannot
    /// be computed; only for a metric with [`pulled_outputs`](Self::pulled_outputs).
    fn project(&mut self, _state: Beside<'_>) -> bool {
        false
    }
    /// y(θ), where the metric has isometric outputs.
    fn isometric_outputs(&mut self, _theta: &[f64]) -> Option<Vec<f64>> {
        None
    }
    /// How far two ends are from each other for whoever predicts with them: the largest difference of the outputs at a data
    /// point, in the units of the whitened outputs (σ, for a Gaussian); none where the metric knows of no data. Ends a path.
    fn end_distance(&mut self, _end: &[f64], _other: &[f64]) -> Option<f64> {
        None
    }
    /// vᵀG(θ)v at a state of the path, which goes on from there as if it had not been computed.
    fn squared_speed_on_path(&mut self, theta: &[f64], velocity: &[f64]) -> f64 {
        self.squared_speed(theta, velocity)
    }
    /// vᵀG(θ)v, which a geodesic keeps constant. Also ends a path: the next acceleration depends on its arguments
    /// alone.
    fn squared_speed(&mut self, theta: &[f64], velocity: &[f64]) -> f64;
}

/// The Fisher metric of a target, RLA-F: G = Σₙ JₙᵀH(fₙ)Jₙ + A.
pub fn fisher(target: &Target) -> Pullback {
    Pullback::fitting(target.map().clone(), target.likelihood().clone(), target.prior().precision().clone())
}

/// The Monge metric of a target, RLA-B: G = I + ∇ℓ ∇ℓᵀ.
pub fn monge(target: &Target) -> Pullback {
    let identity = PriorPrecision::identity(&target.map().groups());
    Pullback::fitting(Arc::new(LogPosterior::new(target)), unit_noise(), identity).judged_at(target)
}

/// The empirical Fisher metric of a target: G = T⁻¹ Σₙ sₙsₙᵀ + A with sₙ = ∇ log p(yₙ | fₙ(θ)).
pub fn empirical_fisher(target: &Target) -> Pullback {
    scores_of(target, 1.0)
}

/// A + (scale/T) Σₙ sₙsₙᵀ: the map's outputs are T⁻¹ log p, so that their squares count T times.
fn scores_of(target: &Target, scale: f64) -> Pullback {
    let (prior, scale) = (target.prior().precision().clone(), scale * target.temperature());
    let unit: Arc<dyn Likelihood> = unit_noise();
    // The score of a point of weight w is w times that of each of its w copies, whose squares are to be summed.
    let weights = target.weights().iter().map(|weight| if *weight > 0.0 { scale / weight } else { 0.0 });
    let likelihood: Arc<dyn Likelihood> = match (target.weights(), scale) {
        ([], 1.0) => unit,
        ([], _) => Arc::new(Scaled::new(unit, scale)),
        _ => to_powers(&unit, weights),
    };
    Pullback::fitting(Arc::new(LogLikelihoods::new(target)), likelihood, prior).judged_at(target)
}

/// The Monge metric of the Gaussian N(centre, P⁻¹), from which RLA-BLog takes its logarithms.
pub fn gaussian_monge(precision: Arc<dyn Precision>, centre: &[f64]) -> Pullback {
    let identity = PriorPrecision::identity(&[centre.len()]);
    Pullback::fitting(Arc::new(Quadratic::new(precision, centre)), unit_noise(), identity)
}

/// The Euclidean metric, ELA: geodesics are straight lines.
pub fn euclidean(n_params: usize) -> Pullback {
    let identity = PriorPrecision::identity(&[n_params]);
    Pullback::fitting(Arc::new(NoOutputs { n_params }), unit_noise(), identity)
}

/// The map without outputs, whose pullback metric is A alone.
#[derive(Debug, Clone, Copy)]
pub struct NoOutputs {
    n_params: usize,
}

impl Map for NoOutputs {
    fn n_params(&self) -> usize {
        self.n_params
    }
    fn n_points(&self) -> usize {
        0
    }
    fn n_outputs(&self) -> usize {
        1
    }
    fn evaluate(self: Arc<Self>, _: usize) -> Box<dyn Evaluate> {
        Box::new(*self)
    }
    fn evaluator_size(&self, _: usize) -> f64 {
        0.0
    }
}

impl Evaluate for NoOutputs {
    fn outputs(&mut self, _: &[f64], _: &mut [f64]) {}
    fn jet(&mut self, _: &[f64], _: &[f64], _: &mut Jet) {}
    fn pull_back(&mut self, _: &[f64], _: &[f64]) {}
}

impl Rows for NoOutputs {
    fn n_rows(&self) -> usize {
        0
    }
    fn n_params(&self) -> usize {
        self.n_params
    }
    fn times(&self, _: &[f64], _: &mut [f64], _: &mut Scratch) {}
    fn transpose_times(&self, _: &[f64], product: &mut [f64], _: &mut Scratch) {
        product.fill(0.0);
    }
    fn dense(&self, _: faer::MatMut<'_, f64>) {}
    fn gram(&self, _: &[f64], _: faer::MatMut<'_, f64>, _: &mut Scratch) {}
    fn cross_gram(&self, _: &dyn Rows, _: &[f64], _: faer::MatMut<'_, f64>, _: &mut Scratch) {}
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

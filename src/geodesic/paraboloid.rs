//! The logarithmic map at the top of a Gaussian's Monge manifold, for RLA-BLog (Yu et al. 2024, algorithm 2).
//!
//! The Monge manifold of N(θ̂, P⁻¹) is the paraboloid of heights h = ½xᵀPx over x = θ − θ̂, and velocities start at its
//! vertex. When P is badly conditioned a point has many logarithms: geodesics that swing across the steep directions on
//! their way, up to thousands of times. The shortest is returned.
//!
//! **The shortest geodesic is a concave problem.** A polygon inscribed in the paraboloid, with x₀ = 0, x_M = x̄ at
//! times 0 = t₀ < … < t_M = 1, has the energy Σₖ (|Δxₖ|² + Δhₖ²)/Δtₖ, and obeys hₖ = ½xₖᵀPxₖ at its inner nodes. With
//! multipliers pₖ the minimum over x and h is linear algebra, in P's eigenbasis with tridiagonal matrices only:
//!
//! (K − λᵢ diag p) xᵢ = x̄ᵢ e, K h = h̄ e − p, K = tridiag of 1/Δt, e = the last node's coupling,
//!
//! and the dual function of p is concave where K − λ_max diag p is positive definite. There is no duality gap: a
//! geodesic that crosses x_max = 0 on its way is not the shortest (reflect its first part: same length, but with a
//! corner), so along the shortest one x_max, a solution of the linear equation above, has no zero, which by Sturm's
//! theorem makes the matrix positive definite. Newton's method on p therefore finds the shortest polygon from any
//! start.
//!
//! **The polygon then corrects the geodesic.** On the paraboloid (1 + |Px|²)·ẋᵀPẋ has a constant value C along a
//! geodesic (Joachimsthal's integral), so geodesics obey ẍ = −C Px/(1 + |Px|²)² and are cheap to integrate to any
//! accuracy. The initial velocity of the polygon is close to the one wanted, and its derivative ∂v/∂x̄ close enough to
//! the true one for the steps v ← v + ∂v/∂x̄·(x̄ − x(1; v)) to converge quickly.

use std::sync::Arc;

use faer::{Accum, Mat, MatRef};

use super::logarithm::Logarithm;
use crate::error::{Error, Result, check_size};
use crate::laplace::Precision;
use crate::linalg::{Cholesky, SymmetricEigen, dot, multiply, norm, symmetric_eigen};
use crate::memory::{self, Reservation};
use crate::ode::{self, Integrator, IvpOptions, Status};

/// The logarithm at the centre of a Gaussian on its Monge manifold.
///
/// ```
/// use faer::mat;
/// use riemannian_laplace::internals::geodesic::GaussianLogarithm;
/// use riemannian_laplace::internals::laplace::WeightSpace;
/// use riemannian_laplace::internals::prior::PriorPrecision;
///
/// let prior = PriorPrecision::scalar(1.0, &[2])?;
/// let precision = WeightSpace::new(mat![[99.0, 0.0], [0.0, 0.0]].as_ref(), &prior)?; // P = diag(100, 1)
/// let logarithm = GaussianLogarithm::new(&precision)?;
/// let solution = logarithm.evaluator().map(&[0.1, -1.0])?;
/// assert!(solution.converged);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GaussianLogarithm {
    /// P = UΛUᵀ, λ ascending.
    eigen: Arc<SymmetricEigen>,
    /// The memory for the decomposition.
    _reservation: Arc<Reservation>,
}

/// Corrections go on until |√Λ(x(1) − x̄)| ≤ this · |√Λx̄|, …
const AIM: f64 = 1e-8;
/// … and a geodesic that ends within this is accepted: rounding may not allow more when P is very badly conditioned.
const ACCEPTED: f64 = 1e-3;
/// Tolerance of the geodesic.
const PATH_TOLERANCE: f64 = 1e-13;
/// How far polygons stay from the cut locus, as a share of |√Λx̄|.
const CLEARANCE: f64 = 0.05;
/// Newton steps on the multipliers.
const MOST_NEWTON: usize = 60;
/// Corrections of the velocity.
const MOST_CORRECTIONS: usize = 20;
/// Nodes of the polygon per factor e of time, tried one after another.
const DENSITIES: [f64; 3] = [3.0, 6.0, 12.0];
/// The largest ratio of P's eigenvalues. Far below it the least ones are lost in rounding unless P is diagonal; beyond it
/// polygons would need so many nodes that no path is found in any reasonable time.
const MOST_CONDITION: f64 = 1e40;

/// The matrix, for messages.
const PRECISION: &str = "the precision of the Gaussian";

impl GaussianLogarithm {
    /// Decomposes P, a D × D matrix.
    pub fn new(precision: &dyn Precision) -> Result<Self> {
        let size = precision.n_params();
        let square = (size as f64).powi(2);
        let advice = "use the Fisher metric, which needs no logarithmic map";
        let mut reservation = memory::reserve("the logarithmic map", 3.0 * square, advice)?;
        let (mut unit, mut column) = (vec![0.0; size], vec![0.0; size]);
        let mut matrix = Mat::zeros(size, size);
        for d in 0..size {
            unit[d] = 1.0;
            precision.times(&unit, &mut column);
            unit[d] = 0.0;
            matrix.col_mut(d).iter_mut().zip(&column).for_each(|(entry, value)| *entry = *value);
        }
        let eigen = symmetric_eigen(matrix.as_ref(), PRECISION)?;
        if let (Some(&least), Some(&greatest)) = (eigen.values.first(), eigen.values.last())
            && !(least > 0.0 && greatest.max(1.0) / least.min(1.0) <= MOST_CONDITION)
        {
            let advice = "bring the prior precisions closer together, or use the Fisher metric";
            return Err(Error::Conditioning { matrix: PRECISION, least, greatest, advice });
        }
        reservation.shrink(square + size as f64);
        Ok(Self { eigen: Arc::new(eigen), _reservation: Arc::new(reservation) })
    }

    /// One thread's evaluator.
    pub fn evaluator(&self) -> GaussianLogarithmEvaluator<'_> {
        let path = ode::Workspace::new(Integrator::Dop853, 2 * self.eigen.values.len());
        GaussianLogarithmEvaluator { map: self, path, iterations: 0, integrations: 0 }
    }
}

/// One thread's buffers for a [`GaussianLogarithm`], and the operations that need them.
pub struct GaussianLogarithmEvaluator<'a> {
    map: &'a GaussianLogarithm,
    path: ode::Workspace,
    iterations: usize,
    integrations: usize,
}

impl GaussianLogarithmEvaluator<'_> {
    /// The velocity at the centre θ̂ of the shortest geodesic that reaches θ̂ + `offset` at unit time.
    pub fn map(&mut self, offset: &[f64]) -> Result<Logarithm> {
        let SymmetricEigen { values, vectors } = &*self.map.eigen;
        check_size("length of the offset", values.len(), offset.len())?;
        (self.iterations, self.integrations) = (0, 0);
        let size = offset.len();
        let goal = vectors.transpose() * MatRef::from_column_major_slice(offset, size, 1);
        let goal: Vec<f64> = goal.col(0).iter().copied().collect();
        let (velocity, residual) = self.shortest(&goal)?;
        let velocity = vectors * MatRef::from_column_major_slice(&velocity, size, 1);
        Ok(Logarithm {
            velocity: velocity.col(0).iter().copied().collect(),
            residual,
            converged: residual <= ACCEPTED,
            iterations: self.iterations,
            integrations: self.integrations,
        })
    }

    /// The velocity in the eigenbasis, and the distance from the end of the geodesic to its goal.
    fn shortest(&mut self, goal: &[f64]) -> Result<(Vec<f64>, f64)> {
        let mut best = (goal.to_vec(), if norm(goal) == 0.0 { 0.0 } else { f64::INFINITY });
        let clear = self.clear_of_the_cut(goal);
        for density in DENSITIES {
            if best.1 <= ACCEPTED {
                break;
            }
            let polygon = Polygon::shortest(&self.map.eigen.values, &clear, density);
            self.iterations += polygon.iterations;
            let (velocity, residual) = self.correct(&polygon, goal)?;
            if residual < best.1 {
                best = (velocity, residual);
            }
        }
        Ok(best)
    }

    /// The goal, moved away from x_max = 0 if it is close to it. There, two geodesics are shortest, the dual function
    /// has its maximum on the edge of its domain, and Newton's method would be slow; but on either side the velocity
    /// depends smoothly on the goal, and the corrections lead back to it.
    fn clear_of_the_cut(&self, goal: &[f64]) -> Vec<f64> {
        let lambda = &self.map.eigen.values;
        let steepest = goal.len() - 1;
        let length = goal.iter().zip(lambda).map(|(x, l)| l * x * x).sum::<f64>().sqrt();
        let least = CLEARANCE * length / lambda[steepest].sqrt();
        let mut clear = goal.to_vec();
        clear[steepest] = clear[steepest].abs().max(least).copysign(goal[steepest]);
        clear
    }

    /// Corrects the polygon's velocity until its geodesic meets the goal, or the corrections cease to help.
    ///
    /// The polygon's derivative S = ∂v/∂x̄ learns from every geodesic tried (Broyden): after a step s that moved the end
    /// by y, S ← S + (s − Sy)yᵀP/(yᵀPy), which makes Sy = s and changes nothing across y.
    fn correct(&mut self, polygon: &Polygon, goal: &[f64]) -> Result<(Vec<f64>, f64)> {
        let lambda = &self.map.eigen.values;
        let inner = |x: &[f64], y: &[f64]| x.iter().zip(y).zip(lambda).map(|((x, y), l)| l * x * y).sum::<f64>();
        let length = inner(goal, goal).sqrt();
        let column = |values: &[f64]| Mat::from_fn(values.len(), 1, |i, _| values[i]);
        let mut derivative = polygon.derivative();
        let mut velocity = polygon.velocity();
        let Some(end) = self.end(&velocity)? else { return Ok((velocity, f64::INFINITY)) };
        let difference = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x - y).collect::<Vec<f64>>();
        let mut defect = difference(goal, &end);
        let mut residual = inner(&defect, &defect).sqrt() / length;
        let mut part = 1.0;
        for _ in 0..MOST_CORRECTIONS {
            if residual <= AIM || part < 1e-3 {
                break;
            }
            let step = &derivative * column(&defect);
            let step: Vec<f64> = step.col(0).iter().map(|step| part * step).collect();
            let trial: Vec<f64> = velocity.iter().zip(&step).map(|(v, step)| v + step).collect();
            let Some(end) = self.end(&trial)? else {
                part *= 0.3;
                continue;
            };
            let trial_defect = difference(goal, &end);
            let moved = difference(&defect, &trial_defect);
            let expected = &derivative * column(&moved);
            let weight = inner(&moved, &moved);
            if weight > 0.0 {
                for (j, (moved, l)) in moved.iter().zip(lambda).enumerate() {
                    for (i, step) in step.iter().enumerate() {
                        derivative[(i, j)] += (step - expected[(i, 0)]) * l * moved / weight;
                    }
                }
            }
            let trial_residual = inner(&trial_defect, &trial_defect).sqrt() / length;
            if trial_residual < residual {
                (velocity, defect, residual) = (trial, trial_defect, trial_residual);
                part = f64::min(2.0 * part, 1.0);
            } else {
                part *= 0.5;
            }
        }
        Ok((velocity, residual))
    }

    /// Where the geodesic with this velocity is at unit time.
    fn end(&mut self, velocity: &[f64]) -> Result<Option<Vec<f64>>> {
        let size = velocity.len();
        let lambda = &self.map.eigen.values;
        let constant: f64 = velocity.iter().zip(lambda).map(|(v, l)| l * v * v).sum();
        let mut state = [vec![0.0; size], velocity.to_vec()].concat();
        let mut derivative = |_: f64, state: &[f64], out: &mut [f64]| {
            let (x, velocity) = state.split_at(size);
            let (x_out, velocity_out) = out.split_at_mut(size);
            x_out.copy_from_slice(velocity);
            velocity_out.iter_mut().zip(x).zip(lambda).for_each(|((out, x), l)| *out = l * x);
            let steepness = 1.0 + dot(velocity_out, velocity_out);
            let pull = -constant / (steepness * steepness);
            velocity_out.iter_mut().for_each(|value| *value *= pull);
        };
        let options =
            IvpOptions { integrator: Integrator::Dop853, rtol: PATH_TOLERANCE, atol: 1e-15, ..IvpOptions::default() };
        let info = ode::solve(&mut derivative, 0.0, 1.0, &mut state, &options, &mut self.path)?;
        self.integrations += 1;
        state.truncate(size);
        Ok((info.status == Status::Reached && state.iter().all(|value| value.is_finite())).then_some(state))
    }
}

/// The shortest inscribed polygon from the vertex to a point, in P's eigenbasis. Arrays over directions and inner nodes
/// are matrices with one column per direction.
struct Polygon<'a> {
    lambda: &'a [f64],
    goal: &'a [f64],
    /// Times of the inner nodes.
    times: Vec<f64>,
    /// 1/Δt of each side.
    stiffness: Vec<f64>,
    /// pₖ.
    multipliers: Vec<f64>,
    /// The derivative of the inner nodes of each xᵢ with respect to its end.
    responses: Mat<f64>,
    /// Green's functions of each xᵢ in separated form, G_jk = aⱼbₖ for j ≤ k.
    before: Mat<f64>,
    after: Mat<f64>,
    /// hₖ − ½xₖᵀPxₖ.
    defects: Vec<f64>,
    /// Minus the second derivative of the dual function, factored.
    curvature: Cholesky,
    iterations: usize,
}

impl<'a> Polygon<'a> {
    fn shortest(lambda: &'a [f64], goal: &'a [f64], density: f64) -> Self {
        let height = 0.5 * goal.iter().zip(lambda).map(|(x, l)| l * x * x).sum::<f64>();
        // Up to about this time the path is straight: the slope in the steepest direction is less than 1.
        let scale = 1.0 / (1.0 + lambda[lambda.len() - 1] * height.hypot(norm(goal)));
        let spread = (1.0 / scale).ln_1p();
        let sides = (density * spread).ceil().max(8.0) as usize + 2;
        let time = |k: usize| scale * (spread * k as f64 / sides as f64).exp_m1();
        let (inner, size) = (sides - 1, lambda.len());
        let zeros = Mat::zeros(inner, size);
        let mut polygon = Self {
            lambda,
            goal,
            times: (1..sides).map(time).collect(),
            stiffness: (0..sides).map(|k| 1.0 / (time(k + 1) - time(k))).collect(),
            multipliers: vec![0.0; inner],
            responses: zeros.clone(),
            before: zeros.clone(),
            after: zeros,
            defects: vec![0.0; inner],
            curvature: Cholesky::new(inner),
            iterations: 0,
        };
        polygon.newton(height);
        polygon
    }

    /// Maximises the dual function. Each step is cut until the matrices stay positive definite and the slope along it
    /// has not turned by more than a half.
    fn newton(&mut self, height: f64) {
        self.evaluate(height);
        for _ in 0..MOST_NEWTON {
            self.iterations += 1;
            if !self.factor_curvature() || self.defects.iter().all(|defect| defect.abs() <= 1e-8 * height) {
                return;
            }
            let mut step = self.defects.clone();
            self.curvature.solve(&mut step);
            let slope = dot(&self.defects, &step);
            let origin = self.multipliers.clone();
            let mut part = 1.0;
            loop {
                for ((multiplier, origin), step) in self.multipliers.iter_mut().zip(&origin).zip(&step) {
                    *multiplier = origin + part * step;
                }
                if self.evaluate(height) && dot(&self.defects, &step) >= -0.5 * slope {
                    break;
                }
                part *= 0.5;
                if part < 1e-9 {
                    return;
                }
            }
        }
    }

    /// The polygon of the current multipliers; false if they make the steepest direction indefinite.
    fn evaluate(&mut self, height: f64) -> bool {
        let inner = self.times.len();
        let last = self.lambda.len() - 1;
        // From the steepest direction down, which is the first to fail.
        for i in (0..=last).rev() {
            if !self.solve_direction(i) {
                return false;
            }
        }
        // K h = h̄e − p with K⁻¹ = t_j(1 − t_k): one pass from either side.
        let (mut weight, mut moment) = (0.0, 0.0);
        for k in 0..inner {
            moment += self.times[k] * self.multipliers[k];
            self.defects[k] = self.times[k] * height - (1.0 - self.times[k]) * moment;
        }
        for k in (0..inner).rev() {
            self.defects[k] -= self.times[k] * weight;
            weight += (1.0 - self.times[k]) * self.multipliers[k];
        }
        for i in 0..=last {
            let scale = 0.5 * self.lambda[i] * self.goal[i] * self.goal[i];
            for (defect, response) in self.defects.iter_mut().zip(self.responses.col(i).iter()) {
                *defect -= scale * response * response;
            }
        }
        true
    }

    /// Response and Green's function of one direction, by the recurrence of K − λ diag p from either end.
    fn solve_direction(&mut self, i: usize) -> bool {
        let (s, p, lambda) = (&self.stiffness, &self.multipliers, self.lambda[i]);
        let inner = p.len();
        let diagonal = |k: usize| s[k] + s[k + 1] - lambda * p[k];
        let mut before = self.before.col_mut(i);
        let (mut previous, mut current) = (0.0, 1.0);
        for k in 0..inner {
            before[k] = current;
            let next = (diagonal(k) * current - s[k] * previous) / s[k + 1];
            (previous, current) = (current, next);
            if current.is_nan() || current <= 0.0 {
                return false;
            }
        }
        let end = current;
        let mut after = self.after.col_mut(i);
        let (mut previous, mut current) = (0.0, 1.0);
        for k in (0..inner).rev() {
            after[k] = current;
            let next = (diagonal(k) * current - s[k + 1] * previous) / s[k];
            (previous, current) = (current, next);
        }
        // s·(aₖ₊₁bₖ − aₖbₖ₊₁) is the same at every side; at the first a = (0, 1).
        let wronskian = s[0] * current;
        for k in 0..inner {
            after[k] /= wronskian;
        }
        let mut responses = self.responses.col_mut(i);
        for k in 0..inner {
            responses[k] = self.before[(k, i)] / end;
        }
        true
    }

    /// K⁻¹ + Σᵢ λᵢ² diag(xᵢ) Gᵢ diag(xᵢ).
    fn factor_curvature(&mut self) -> bool {
        let (inner, size) = (self.times.len(), self.lambda.len());
        let node = |k: usize, i: usize| self.lambda[i] * self.goal[i] * self.responses[(k, i)];
        let early =
            Mat::from_fn(
                inner,
                size + 1,
                |k, i| {
                    if i == size { self.times[k] } else { node(k, i) * self.before[(k, i)] }
                },
            );
        let late = Mat::from_fn(inner, size + 1, |k, i| {
            if i == size { 1.0 - self.times[k] } else { node(k, i) * self.after[(k, i)] }
        });
        // The lower triangle, j ≤ k in the row: late of the row times early of the column.
        multiply(self.curvature.matrix_mut(), Accum::Replace, late.as_ref(), early.transpose());
        self.curvature.factor().is_ok()
    }

    /// ẋ(0): the first side, since ẍ(0) = 0.
    fn velocity(&self) -> Vec<f64> {
        (0..self.goal.len()).map(|i| self.stiffness[0] * self.responses[(0, i)] * self.goal[i]).collect()
    }

    /// ∂ẋ(0)/∂x̄: directly, and through the multipliers.
    fn derivative(&self) -> Mat<f64> {
        let (inner, size) = (self.times.len(), self.lambda.len());
        let mut effect = Mat::from_fn(inner, size, |k, i| {
            self.lambda[i] * self.goal[i] * (self.times[k] - self.responses[(k, i)] * self.responses[(k, i)])
        });
        self.curvature.solve_lower_many(effect.as_mut());
        self.curvature.solve_upper_many(effect.as_mut());
        let first = self.stiffness[0];
        let through = Mat::from_fn(size, inner, |i, k| {
            let node = self.lambda[i] * self.goal[i] * self.responses[(k, i)];
            first * self.before[(0, i)] * self.after[(k, i)] * node
        });
        let mut derivative = through * effect;
        for i in 0..size {
            derivative[(i, i)] += first * self.responses[(0, i)];
        }
        derivative
    }
}

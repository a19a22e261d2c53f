//! All Jacobi fields beside a geodesic: the derivative of the exponential map, X(1) = ∂Exp(v)/∂v.
//!
//! In coordinates u(f) in which the output metric is Euclidean ([`Likelihood::isometry`]) the metric is that of the graph
//! {(θ, u(θ))}, G = A + JᵀJ with J the Jacobian of u. With B = dJ\[v\], z = Bv and r = z + Ja (a the acceleration), the
//! connection along the path is Γ = G⁻¹JᵀB, the Gauss equation gives the curvature R = G⁻¹(Σ rₙ∇²uₙ − BᵀB + BᵀJΓ), and
//!
//! Ẋ = Y − ΓX, Ẏ = −RX − ΓY, X(0) = 0, Y(0) = I:
//!
//! no third derivatives, whatever the model. Fields start from L⁻ᵀ with G(θ̂) = LLᵀ instead of I, so that all columns are
//! of the size of a posterior draw; the determinant is corrected for it.

use std::ops::ControlFlow;
use std::sync::Arc;

use faer::{Accum, Mat, MatMut, MatRef};

use crate::error::{Error, Result, Unsupported, check_size};
use crate::laplace::second_derivatives;
use crate::likelihood::{Likelihood, likelihood_of};
use crate::linalg::{Cholesky, mirror_lower, multiply, multiply_by_own_transpose};
use crate::map::{Evaluator, Jet, Map, identity_seeds};
use crate::memory::{self, Reservation};
use crate::metric::Pullback;
use crate::ode::{self, Integrator, IvpOptions, Present, Status, Trial};
use crate::prior::PriorPrecision;
use crate::progress::Progress;

/// Settings of [`JacobiFields`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JacobiOptions {
    /// The relative tolerance of path and fields (default 1e-6: log determinants agree with finite differences to 1e-5).
    pub rtol: f64,
    /// The absolute tolerance (default 1e-9).
    pub atol: f64,
    /// The most steps (default 24,576).
    pub max_steps: usize,
}

impl Default for JacobiOptions {
    fn default() -> Self {
        Self { rtol: 1e-6, atol: 1e-9, max_steps: 24_576 }
    }
}

/// A geodesic with its Jacobi fields at the end.
#[derive(Debug, Clone)]
pub struct JacobiField {
    /// Exp(v).
    pub theta: Vec<f64>,
    /// log |det ∂Exp(v)/∂v|.
    pub log_det: f64,
    /// How often the determinant changed its sign on the way: conjugate points, beyond which Exp is not injective.
    pub conjugate: usize,
    /// How the integration ended.
    pub status: Status,
    /// Evaluations of path and fields together.
    pub evaluations: usize,
}

/// Geodesics of a metric with their Jacobi fields, for one thread.
pub struct JacobiFields<'a> {
    map: Arc<dyn Map>,
    likelihood: Arc<dyn Likelihood>,
    prior: PriorPrecision,
    options: JacobiOptions,
    progress: &'a dyn Progress,
    evaluator: Evaluator,
    workspace: ode::Workspace,
    _reservation: Reservation,
}

impl<'a> JacobiFields<'a> {
    /// The fields of a metric whose likelihood has isometric coordinates.
    pub fn new(metric: &Pullback, options: JacobiOptions, progress: &'a dyn Progress) -> Result<Self> {
        let (map, likelihood, prior) = metric.parts();
        let (rows, d) = (map.n_points() * map.n_outputs(), map.n_params());
        let p = map.n_outputs();
        if !likelihood.isometry(&vec![0.0; p], &mut vec![0.0; p * p], &mut vec![0.0; p * p * p]) {
            return Err(Error::Unsupported(Unsupported::Isometry { likelihood: likelihood.name() }));
        }
        let state = 2 * d * (d + 1);
        // Adams keeps 26 numbers per entry of the state.
        let numbers = 4.0 * rows as f64 * d as f64 + 8.0 * (d * d) as f64 + 28.0 * state as f64;
        let _reservation =
            memory::reserve("the Jacobi fields of one thread", numbers, "use fewer threads, or no weights of samples")?;
        Ok(Self {
            evaluator: Evaluator::new(map, p),
            workspace: ode::Workspace::new(Integrator::Adams, state),
            map: map.clone(),
            likelihood: likelihood.clone(),
            prior: prior.clone(),
            options,
            progress,
            _reservation,
        })
    }

    /// Follows a geodesic and its fields for unit time.
    pub fn follow(&mut self, theta: &[f64], velocity: &[f64]) -> Result<JacobiField> {
        let d = self.map.n_params();
        check_size("length of the starting point", d, theta.len())?;
        check_size("length of the velocity", d, velocity.len())?;
        let mut state = vec![0.0; 2 * d * (d + 1)];
        state[..d].copy_from_slice(theta);
        state[d..2 * d].copy_from_slice(velocity);
        let start = self.metric_at(theta)?;
        {
            let fields = &mut state[2 * d + d * d..];
            for j in 0..d {
                let column = &mut fields[j * d..(j + 1) * d];
                column[j] = 1.0;
                start.solve_upper(column);
            }
        }
        let options = IvpOptions {
            integrator: Integrator::Adams,
            rtol: self.options.rtol,
            atol: self.options.atol,
            max_steps: self.options.max_steps,
            first_step: None,
        };
        let mut evaluation = Evaluation::new(&*self.map);
        let (map, likelihood, prior) = (&self.map, &*self.likelihood, &self.prior);
        let (evaluator, progress) = (&mut self.evaluator, self.progress);
        let mut derivative = |_: f64, state: &[f64], derivative: &mut [f64]| {
            if progress.is_cancelled() || !evaluation.at(map, likelihood, prior, evaluator, state, derivative) {
                derivative.fill(f64::NAN);
            }
        };
        let (mut sign, mut conjugate) = (1.0, 0);
        let mut watch = |trial: Trial, t: f64, present: &mut dyn Present| {
            if progress.is_cancelled() {
                return ControlFlow::Break(());
            }
            if trial == Trial::Accepted && t > 0.0 {
                let (_, now) = log_abs_det(&present.state()[2 * d..2 * d + d * d], d);
                if now * sign < 0.0 {
                    conjugate += 1;
                    sign = now;
                }
            }
            ControlFlow::Continue(())
        };
        let info =
            ode::solve_watched(&mut derivative, 0.0, 1.0, &mut state, &options, &mut self.workspace, &mut watch)?;
        let ControlFlow::Continue(status) = info.status else { return Err(Error::Cancelled) };
        let (log_det, end) = log_abs_det(&state[2 * d..2 * d + d * d], d);
        // Adams shows accepted states before the last one is reached exactly.
        let conjugate = conjugate + usize::from(end * sign < 0.0);
        Ok(JacobiField {
            theta: state[..d].to_vec(),
            log_det: log_det + 0.5 * start.log_det(),
            conjugate,
            status,
            evaluations: info.evaluations,
        })
    }

    /// G(θ), factored.
    fn metric_at(&mut self, theta: &[f64]) -> Result<Cholesky> {
        let d = self.map.n_params();
        let mut evaluation = Evaluation::new(&*self.map);
        evaluation.rows(&self.map, &*self.likelihood, &mut self.evaluator, theta, &vec![0.0; d]);
        evaluation.factor(&self.prior).ok_or(Error::NotPositiveDefinite {
            matrix: "the metric at the start of a geodesic",
            size: d,
            pivot: 0,
            advice: "raise the prior precision",
        })?;
        Ok(evaluation.metric)
    }
}

/// The matrices of one evaluation.
struct Evaluation {
    jet: Jet,
    identity: Vec<f64>,
    /// ∂f/∂θ and its derivative along v.
    outputs_jacobian: Mat<f64>,
    outputs_bend: Mat<f64>,
    /// J and B.
    jacobian: Mat<f64>,
    bend: Mat<f64>,
    metric: Cholesky,
}

impl Evaluation {
    fn new(map: &dyn Map) -> Self {
        let (n, p, d) = (map.n_points(), map.n_outputs(), map.n_params());
        let matrix = || Mat::zeros(n * p, d);
        Self {
            jet: Jet::new(n, p),
            identity: identity_seeds(n, p),
            outputs_jacobian: matrix(),
            outputs_bend: matrix(),
            jacobian: matrix(),
            bend: matrix(),
            metric: Cholesky::new(d),
        }
    }

    /// J and B at θ along v; returns the slopes and bends of u(f) at every point.
    fn rows(
        &mut self,
        map: &Arc<dyn Map>,
        likelihood: &dyn Likelihood,
        evaluator: &mut Evaluator,
        theta: &[f64],
        velocity: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        let (n, p, d) = (map.n_points(), map.n_outputs(), map.n_params());
        evaluator.jet(theta, velocity, &mut self.jet).pull_back(&self.identity).dense(self.outputs_jacobian.as_mut());
        match map.clone().rows_along(theta, velocity, &self.identity, p) {
            Some(rows) => rows.dense(self.outputs_bend.as_mut()),
            None => bend_by_jets(evaluator, theta, velocity, self.outputs_bend.as_mut()),
        }
        let (mut slopes, mut bends) = (vec![0.0; n * p * p], vec![0.0; n * p * p * p]);
        let mut outputs = vec![0.0; p];
        self.jacobian.fill(0.0);
        self.bend.fill(0.0);
        for point in 0..n {
            (0..p).for_each(|j| outputs[j] = self.jet.outputs[j * n + point]);
            let slope = &mut slopes[point * p * p..][..p * p];
            let bend = &mut bends[point * p * p * p..][..p * p * p];
            likelihood_of(likelihood, point).isometry(&outputs, slope, bend);
            for k in 0..p {
                for j in 0..p {
                    let along: f64 = (0..p).map(|i| bend[(k * p + i) * p + j] * self.jet.first[i * n + point]).sum();
                    let slope = slope[k * p + j];
                    if slope == 0.0 && along == 0.0 {
                        continue;
                    }
                    for c in 0..d {
                        let row = self.outputs_jacobian[(j * n + point, c)];
                        self.jacobian[(k * n + point, c)] += slope * row;
                        self.bend[(k * n + point, c)] += slope * self.outputs_bend[(j * n + point, c)] + along * row;
                    }
                }
            }
        }
        (slopes, bends)
    }

    /// Factors G = A + JᵀJ.
    fn factor(&mut self, prior: &PriorPrecision) -> Option<()> {
        let mut matrix = self.metric.matrix_mut();
        multiply_by_own_transpose(matrix.as_mut(), Accum::Replace, self.jacobian.transpose());
        prior.add_to(matrix);
        self.metric.factor().ok()
    }

    /// The derivative of (θ, v, X, Y); false where the metric is not positive definite.
    fn at(
        &mut self,
        map: &Arc<dyn Map>,
        likelihood: &dyn Likelihood,
        prior: &PriorPrecision,
        evaluator: &mut Evaluator,
        state: &[f64],
        derivative: &mut [f64],
    ) -> bool {
        let d = map.n_params();
        let (theta, velocity) = (&state[..d], &state[d..2 * d]);
        let (slopes, bends) = self.rows(map, likelihood, evaluator, theta, velocity);
        if self.factor(prior).is_none() {
            return false;
        }
        // z, a and r.
        let force: Vec<f64> = product(self.bend.as_ref(), velocity);
        let mut acceleration = transpose_product(self.jacobian.as_ref(), &force);
        self.metric.solve(&mut acceleration);
        acceleration.iter_mut().for_each(|value| *value = -*value);
        let mut normal = product(self.jacobian.as_ref(), &acceleration);
        normal.iter_mut().zip(&force).for_each(|(value, force)| *value += force);
        // Γ.
        let mut connection = Mat::zeros(d, d);
        multiply(connection.as_mut(), Accum::Replace, self.jacobian.transpose(), self.bend.as_ref());
        let crossed = connection.clone();
        self.solve_many(connection.as_mut());
        // Σ rₙ∇²uₙ − BᵀB + BᵀJΓ.
        let mut curvature = self.contracted(map, theta, &normal, &slopes, &bends);
        let mut squares = Mat::zeros(d, d);
        multiply_by_own_transpose(squares.as_mut(), Accum::Replace, self.bend.transpose());
        mirror_lower(&mut squares);
        curvature -= &squares;
        multiply(curvature.as_mut(), Accum::Add, crossed.transpose(), connection.as_ref());
        self.solve_many(curvature.as_mut());
        // The fields.
        let (positions, covariant) = state[2 * d..].split_at(d * d);
        let positions = MatRef::from_column_major_slice(positions, d, d);
        let covariant = MatRef::from_column_major_slice(covariant, d, d);
        derivative[..d].copy_from_slice(velocity);
        derivative[d..2 * d].copy_from_slice(&acceleration);
        let (first, second) = derivative[2 * d..].split_at_mut(d * d);
        let mut first = MatMut::from_column_major_slice_mut(first, d, d);
        let mut second = MatMut::from_column_major_slice_mut(second, d, d);
        multiply(first.as_mut(), Accum::Replace, connection.as_ref(), positions);
        multiply(second.as_mut(), Accum::Replace, curvature.as_ref(), positions);
        multiply(second.as_mut(), Accum::Add, connection.as_ref(), covariant);
        for j in 0..d {
            for i in 0..d {
                first[(i, j)] = covariant[(i, j)] - first[(i, j)];
                second[(i, j)] = -second[(i, j)];
            }
        }
        true
    }

    /// Σ rₙ∇²uₙ = Σ_p sₚ∇²fₚ + JᵀSJ with s = U′ᵀr and S = Σ_k r_k U″_k, over all points.
    fn contracted(&self, map: &Arc<dyn Map>, theta: &[f64], normal: &[f64], slopes: &[f64], bends: &[f64]) -> Mat<f64> {
        let (n, p, d) = (map.n_points(), map.n_outputs(), map.n_params());
        let mut seeds = vec![0.0; n * p];
        let mut weighted = Mat::zeros(n * p, d);
        for point in 0..n {
            for k in 0..p {
                let r = normal[k * n + point];
                for j in 0..p {
                    seeds[j * n + point] += r * slopes[point * p * p + k * p + j];
                    for i in 0..p {
                        let bend = r * bends[point * p * p * p + (k * p + i) * p + j];
                        if bend != 0.0 {
                            for c in 0..d {
                                weighted[(i * n + point, c)] += bend * self.outputs_jacobian[(j * n + point, c)];
                            }
                        }
                    }
                }
            }
        }
        let mut sum = Mat::zeros(d, d);
        multiply(sum.as_mut(), Accum::Replace, self.outputs_jacobian.transpose(), weighted.as_ref());
        for column in 0..d {
            let values = second_derivatives(map, theta, &seeds, column);
            for row in column..d {
                sum[(row, column)] += values[row];
                if row > column {
                    sum[(column, row)] += values[row];
                }
            }
        }
        sum
    }

    fn solve_many(&self, mut rhs: MatMut<'_, f64>) {
        self.metric.solve_lower_many(rhs.as_mut());
        self.metric.solve_upper_many(rhs);
    }
}

/// ∂²f(v, ·) of a map that offers no second derivatives but its jets, by polarisation.
fn bend_by_jets(evaluator: &mut Evaluator, theta: &[f64], velocity: &[f64], mut bend: MatMut<'_, f64>) {
    let rows = bend.nrows();
    let (mut jet, mut direction) = (Jet::derivatives(rows, 1), velocity.to_vec());
    for column in 0..theta.len() {
        for (shift, sign) in [(1.0, 1.0), (-1.0, -1.0)] {
            direction[column] = velocity[column] + shift;
            evaluator.jet(theta, &direction, &mut jet);
            for row in 0..rows {
                let value = 0.25 * sign * jet.second[row];
                bend[(row, column)] = if sign > 0.0 { value } else { bend[(row, column)] + value };
            }
        }
        direction[column] = velocity[column];
    }
}

/// M x.
fn product(matrix: MatRef<'_, f64>, vector: &[f64]) -> Vec<f64> {
    let mut result = vec![0.0; matrix.nrows()];
    for (j, x) in vector.iter().enumerate() {
        result.iter_mut().enumerate().for_each(|(i, value)| *value += matrix[(i, j)] * x);
    }
    result
}

/// Mᵀ x.
fn transpose_product(matrix: MatRef<'_, f64>, vector: &[f64]) -> Vec<f64> {
    (0..matrix.ncols()).map(|j| vector.iter().enumerate().map(|(i, x)| matrix[(i, j)] * x).sum()).collect()
}

/// log |det M| and the sign of det M (0 where it vanishes), by elimination with partial pivoting.
fn log_abs_det(columns: &[f64], size: usize) -> (f64, f64) {
    let mut matrix = columns.to_vec();
    let (mut log, mut sign) = (0.0, 1.0);
    for step in 0..size {
        let pivot = (step..size).fold(step, |best, row| {
            if matrix[step * size + row].abs() > matrix[step * size + best].abs() { row } else { best }
        });
        if pivot != step {
            sign = -sign;
            (step..size).for_each(|column| matrix.swap(column * size + step, column * size + pivot));
        }
        let value = matrix[step * size + step];
        if value == 0.0 || value.is_nan() {
            return (f64::NEG_INFINITY, 0.0);
        }
        log += value.abs().ln();
        sign *= value.signum();
        for column in step + 1..size {
            let factor = matrix[column * size + step] / value;
            if factor != 0.0 {
                for row in step + 1..size {
                    matrix[column * size + row] -= factor * matrix[step * size + row];
                }
            }
        }
    }
    (log, sign)
}

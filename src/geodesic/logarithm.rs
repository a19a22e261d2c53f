//! The logarithmic map: the initial velocity v with Exp_θ̂(v) = x, by Newton's method on multiple shooting.
//!
//! The unit interval is cut into m segments. The unknowns are the states (θᵢ, vᵢ) at the start of each (θ₀ = θ̂ is
//! given); the equations say that each segment ends where the next one starts, and the last one at x. One Newton step
//! linearises every segment's flow and eliminates the inner states, which leaves a D × D system for the change of v₀.
//! The linearised flow is the solution of the variational equation δθ̈ = ∂a(δθ, δθ̇), integrated along with the
//! geodesic for all directions at once, with ∂a by central differences: a few digits of it suffice. Steps are damped
//! until the defect falls. When the straight start fails, x is approached by continuation: the problem is solved for
//! points on the segment from θ̂ to x, each started from the previous solution. (Yu et al. 2024, supplement "Geodesic
//! ODE", state the boundary value problem.)

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use faer::linalg::solvers::Solve;
use faer::{Mat, MatRef};

use super::exponential::{ExponentialMap, GeodesicLimits, GeodesicOptions};
use crate::error::{Error, Result, check_size};
use crate::linalg::norm;
use crate::metric::{Metric, MetricEvaluator};
use crate::ode::{self, Integrator, IvpOptions, Status};
use crate::progress::Progress;

/// Settings of a [`LogarithmicMap`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogarithmOptions {
    /// The relative tolerance of the integrator (default 1e-9).
    pub rtol: f64,
    /// The absolute tolerance of the integrator (default 1e-11).
    pub atol: f64,
    /// Solved when the defect, relative to |x − θ̂|, is at most this (default 1e-8).
    pub tolerance: f64,
    /// Segments of multiple shooting (default 4).
    pub segments: usize,
    /// The most Newton steps for one point of the continuation (default 20).
    pub max_iterations: usize,
    /// The most points of the continuation (default 40).
    pub max_continuation: usize,
    /// The most steps of one integration (default 4096).
    pub max_steps: usize,
    /// Limits of each point; beyond, it is not solved (default none).
    pub limits: GeodesicLimits,
    /// When points that are not solved yet are given up (default never).
    pub deadline: Option<Instant>,
}

impl Default for LogarithmOptions {
    fn default() -> Self {
        Self {
            rtol: 1e-9,
            atol: 1e-11,
            tolerance: 1e-8,
            segments: 4,
            max_iterations: 20,
            max_continuation: 40,
            max_steps: 4096,
            limits: GeodesicLimits::default(),
            deadline: None,
        }
    }
}

/// The solution of a boundary value problem, or the best approximation found.
#[derive(Debug, Clone, PartialEq)]
pub struct Logarithm {
    /// The initial velocity v.
    pub velocity: Vec<f64>,
    /// |Exp(v) − x| / |x − θ̂|, from one integration over the whole interval.
    pub residual: f64,
    /// Whether Newton's method converged for x itself.
    pub converged: bool,
    /// Newton steps.
    pub iterations: usize,
    /// Integrations of a segment.
    pub integrations: usize,
}

impl Logarithm {
    /// That of a point which was given up.
    pub(super) fn unsolved(n_params: usize) -> Self {
        let velocity = vec![f64::NAN; n_params];
        Self { velocity, residual: f64::NAN, converged: false, iterations: 0, integrations: 0 }
    }
}

/// Progress within the limits of one point.
pub(super) struct Limited<'a> {
    progress: &'a dyn Progress,
    most: Option<usize>,
    until: Option<Instant>,
    evaluations: AtomicUsize,
}

impl<'a> Limited<'a> {
    pub(super) fn begin(progress: &'a dyn Progress, options: &LogarithmOptions) -> Self {
        let own = options.limits.time.and_then(|time| Instant::now().checked_add(time));
        let until = own.into_iter().chain(options.deadline).min();
        Self { progress, most: options.limits.evaluations, until, evaluations: AtomicUsize::new(0) }
    }
}

impl Progress for Limited<'_> {
    fn evaluated(&self) {
        self.progress.evaluated();
    }

    /// Asked before every evaluation.
    fn is_cancelled(&self) -> bool {
        let evaluations = self.evaluations.fetch_add(1, Ordering::Relaxed);
        self.most.is_some_and(|most| evaluations >= most)
            || self.until.is_some_and(|until| Instant::now() >= until)
            || self.progress.is_cancelled()
    }
}

/// The logarithmic map of a metric for one thread, with reused buffers.
///
/// ```
/// use riemannian_laplace::internals::geodesic::{LogarithmOptions, LogarithmicMap};
/// use riemannian_laplace::internals::metric;
///
/// let metric = metric::euclidean(2);
/// let mut logarithm = LogarithmicMap::new(&metric, LogarithmOptions::default())?;
/// let solution = logarithm.map(&[1.0, 1.0], &[1.5, 0.5])?;
/// assert!(solution.converged);
/// assert!((solution.velocity[0] - 0.5).abs() < 1e-9 && (solution.velocity[1] + 0.5).abs() < 1e-9);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub struct LogarithmicMap<'a> {
    exponential: ExponentialMap<'a>,
    evaluator: Box<dyn MetricEvaluator>,
    options: LogarithmOptions,
    n_params: usize,
    iterations: usize,
    integrations: usize,
}

/// States at the start of each segment: θ₀, v₀, θ₁, v₁, …
type Nodes = Vec<Vec<f64>>;

impl<'a> LogarithmicMap<'a> {
    /// The logarithmic map of this metric.
    pub fn new(metric: &'a dyn Metric, options: LogarithmOptions) -> Result<Self> {
        let settings = GeodesicOptions {
            integrator: Integrator::Dop853,
            max_steps: options.max_steps,
            ..GeodesicOptions::with_tolerances(options.rtol, options.atol)
        };
        let exponential = ExponentialMap::new(metric, settings)?;
        let (evaluator, n_params) = (metric.evaluator(), metric.n_params());
        Ok(Self { exponential, evaluator, options, n_params, iterations: 0, integrations: 0 })
    }

    /// Asks before every evaluation of the acceleration whether to continue; if not, the error is [`Error::Cancelled`].
    pub fn watched_by(self, progress: &'a dyn Progress) -> Self {
        Self { exponential: self.exponential.watched_by(progress), ..self }
    }

    /// The velocity with which the geodesic from `base` reaches `point` at unit time.
    pub fn map(&mut self, base: &[f64], point: &[f64]) -> Result<Logarithm> {
        check_size("length of the base point", self.n_params, base.len())?;
        check_size("length of the point", self.n_params, point.len())?;
        (self.iterations, self.integrations) = (0, 0);
        let chord: Vec<f64> = point.iter().zip(base).map(|(x, b)| x - b).collect();
        let distance = norm(&chord);
        if distance == 0.0 {
            let velocity = vec![0.0; self.n_params];
            return Ok(Logarithm { velocity, residual: 0.0, converged: true, iterations: 0, integrations: 0 });
        }
        let mut nodes = self.straight(base, &chord);
        let mut converged = self.newton(&mut nodes, point, distance)?;
        if !converged {
            converged = self.continuation(base, &chord, &mut nodes)?;
        }
        let velocity = nodes[0][self.n_params..].to_vec();
        let end = self.flow(base, &velocity, 1.0)?;
        let residual = end.map_or(f64::NAN, |end| {
            let defect: Vec<f64> = end[..self.n_params].iter().zip(point).map(|(a, b)| a - b).collect();
            norm(&defect) / distance
        });
        Ok(Logarithm { velocity, residual, converged, iterations: self.iterations, integrations: self.integrations })
    }

    /// Nodes on the straight line from the base, traversed at constant speed in the metric: at time i/m the arc length
    /// of the lifted line is i/m of the whole. Along an axis of symmetry this is the geodesic itself.
    fn straight(&mut self, base: &[f64], chord: &[f64]) -> Nodes {
        const PIECES: usize = 32;
        let segments = self.options.segments.max(1);
        let mut point = vec![0.0; base.len()];
        let mut speed = |part: f64| {
            point.iter_mut().zip(base).zip(chord).for_each(|((x, b), c)| *x = b + part * c);
            self.evaluator.squared_speed(&point, chord).sqrt()
        };
        // Arc length up to the ends of the pieces, by the trapezoidal rule.
        let speeds: Vec<f64> = (0..=PIECES).map(|i| speed(i as f64 / PIECES as f64)).collect();
        let mut lengths = vec![0.0];
        for pair in speeds.windows(2) {
            lengths.push(lengths[lengths.len() - 1] + 0.5 * (pair[0] + pair[1]) / PIECES as f64);
        }
        let whole = lengths[PIECES];
        let usable = whole > 0.0 && whole.is_finite() && speeds.iter().all(|speed| *speed > 0.0);
        (0..segments)
            .map(|i| {
                let time = i as f64 / segments as f64;
                let (mut part, mut rate) = (time, 1.0);
                if usable {
                    let piece = lengths.partition_point(|length| *length <= time * whole).clamp(1, PIECES) - 1;
                    let within = (time * whole - lengths[piece]) / (lengths[piece + 1] - lengths[piece]);
                    part = (piece as f64 + within) / PIECES as f64;
                    rate = whole / (speeds[piece] + within * (speeds[piece + 1] - speeds[piece]));
                }
                let position = base.iter().zip(chord).map(|(b, c)| b + part * c);
                position.chain(chord.iter().map(|c| rate * c)).collect()
            })
            .collect()
    }

    /// Approaches the point along the segment from the base, halving the step where Newton's method fails.
    fn continuation(&mut self, base: &[f64], chord: &[f64], nodes: &mut Nodes) -> Result<bool> {
        let distance = norm(chord);
        let (mut reached, mut step) = (0.0_f64, 0.25_f64);
        let mut solved = self.straight(base, &vec![0.0; chord.len()]);
        for _ in 0..self.options.max_continuation {
            let next = (reached + step).min(1.0);
            let goal: Vec<f64> = base.iter().zip(chord).map(|(b, c)| b + next * c).collect();
            let mut trial = if reached > 0.0 {
                stretch(&solved, base, next / reached)
            } else {
                let short: Vec<f64> = chord.iter().map(|c| next * c).collect();
                self.straight(base, &short)
            };
            if self.newton(&mut trial, &goal, next * distance)? {
                (solved, reached) = (trial, next);
                nodes.clone_from(&solved);
                if reached >= 1.0 {
                    return Ok(true);
                }
                step *= 1.5;
            } else {
                step *= 0.5;
                if step < 1e-4 {
                    break;
                }
            }
        }
        // The best known start for x itself.
        if reached > 0.0 {
            *nodes = stretch(&solved, base, 1.0 / reached);
        }
        Ok(false)
    }

    /// The state after following the flow for a time; `None` when the integration fails.
    fn flow(&mut self, theta: &[f64], velocity: &[f64], time: f64) -> Result<Option<Vec<f64>>> {
        self.integrations += 1;
        let status = self.exponential.integrate(theta, velocity, time, (self.options.rtol, self.options.atol))?;
        let finite = self.exponential.state().iter().all(|value| value.is_finite());
        Ok((status == Status::Reached && finite).then(|| self.exponential.state().to_vec()))
    }

    fn flow_from(&mut self, state: &[f64], time: f64) -> Result<Option<Vec<f64>>> {
        let (theta, velocity) = state.split_at(self.n_params);
        self.flow(theta, velocity, time)
    }

    /// The defects of all segments (the last one only in position), and their size.
    fn defects(&mut self, nodes: &Nodes, point: &[f64]) -> Result<Option<(Nodes, f64)>> {
        let (segments, d) = (nodes.len(), self.n_params);
        let time = 1.0 / segments as f64;
        let mut defects = Vec::with_capacity(segments);
        for i in 0..segments {
            let Some(end) = self.flow_from(&nodes[i], time)? else { return Ok(None) };
            let defect: Vec<f64> = match nodes.get(i + 1) {
                Some(next) => end.iter().zip(next).map(|(a, b)| a - b).collect(),
                None => end[..d].iter().zip(point).map(|(a, b)| a - b).collect(),
            };
            defects.push(defect);
        }
        let size = defects.iter().map(|defect| norm(defect).powi(2)).sum::<f64>().sqrt();
        Ok(Some((defects, size)))
    }

    /// Damped Newton steps; true when the defect is within the tolerance.
    fn newton(&mut self, nodes: &mut Nodes, point: &[f64], distance: f64) -> Result<bool> {
        let Some((mut defects, mut size)) = self.defects(nodes, point)? else { return Ok(false) };
        let mut flows: Option<Vec<Mat<f64>>> = None;
        let (mut stale, mut fresh_at) = (false, 0);
        for iteration in 0..self.options.max_iterations {
            if size <= self.options.tolerance * distance {
                return Ok(true);
            }
            self.iterations += 1;
            if flows.is_none() || stale {
                flows = self.linearise(nodes)?;
                (stale, fresh_at) = (false, iteration);
            }
            let Some(jacobians) = &flows else { return Ok(false) };
            let Some(steps) = newton_step(jacobians, &defects, self.n_params) else { return Ok(false) };
            let mut damping = 1.0;
            let accepted = loop {
                let trial: Nodes = nodes.iter().zip(&steps).map(|(node, step)| shifted(node, step, damping)).collect();
                if let Some((trial_defects, trial_size)) = self.defects(&trial, point)?
                    && trial_size < (1.0 - 0.25 * damping) * size
                {
                    break Some((trial, trial_defects, trial_size));
                }
                damping *= 0.5;
                if damping < 1.0 / 64.0 {
                    break None;
                }
            };
            match accepted {
                Some((trial, trial_defects, trial_size)) => {
                    // A chord step (the old linearisation) is kept as long as it gains a digit.
                    stale = trial_size > 0.1 * size;
                    (*nodes, defects, size) = (trial, trial_defects, trial_size);
                }
                // The linearisation may be old: renew it once before giving up.
                None if !stale && iteration > 0 && fresh_at != iteration => stale = true,
                None => return Ok(size <= 10.0 * self.options.tolerance * distance),
            }
        }
        Ok(size <= self.options.tolerance * distance)
    }

    /// The derivative of each segment's flow with respect to its start, as 2D × 2D matrices.
    fn linearise(&mut self, nodes: &Nodes) -> Result<Option<Vec<Mat<f64>>>> {
        let time = 1.0 / nodes.len() as f64;
        // The first node's position is given: only its velocity varies.
        let first = |index: usize| if index == 0 { self.n_params } else { 0 };
        let starts: Vec<usize> = (0..nodes.len()).map(first).collect();
        nodes.iter().zip(starts).map(|(node, start)| self.variational_flow(node, start, time)).collect()
    }

    /// Integrates the variational equation for the unit directions from `first` on.
    fn variational_flow(&mut self, node: &[f64], first: usize, time: f64) -> Result<Option<Mat<f64>>> {
        let size = 2 * self.n_params;
        let columns = size - first;
        let mut state = vec![0.0; size * (1 + columns)];
        state[..size].copy_from_slice(node);
        for (column, k) in (first..size).enumerate() {
            state[size * (1 + column) + k] = 1.0;
        }
        let options = IvpOptions { rtol: VARIATIONAL_TOLERANCE, atol: VARIATIONAL_TOLERANCE, ..self.ivp_options() };
        let mut buffers = [vec![0.0; size], vec![0.0; size / 2], vec![0.0; size / 2]];
        let exponential = &mut self.exponential;
        let cancelled = Cell::new(false);
        let mut derivative = |_: f64, state: &[f64], derivative: &mut [f64]| {
            if variational_derivative(exponential, &mut buffers, state, derivative).is_break() {
                cancelled.set(true);
            }
        };
        let mut go_on = |_| if cancelled.get() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let mut workspace = ode::Workspace::new(options.integrator, state.len());
        let info = ode::solve_while(&mut derivative, 0.0, time, &mut state, &options, &mut workspace, &mut go_on)?;
        if cancelled.get() {
            return Err(Error::Cancelled);
        }
        self.integrations += 1;
        let finite = state.iter().all(|value| value.is_finite());
        let reached = info.status == ControlFlow::Continue(Status::Reached);
        Ok((reached && finite).then(|| {
            Mat::from_fn(size, size, |row, k| if k < first { 0.0 } else { state[size * (1 + k - first) + row] })
        }))
    }

    fn ivp_options(&self) -> IvpOptions {
        IvpOptions { integrator: Integrator::Dopri5, max_steps: self.options.max_steps, ..IvpOptions::default() }
    }
}

/// The tolerance of the variational equation: Newton's method needs no more.
const VARIATIONAL_TOLERANCE: f64 = 1e-5;

/// The geodesic's derivative, and for each direction (δθ, δθ̇) the derivative (δθ̇, ∂a(δθ, δθ̇)); NaN, and a break,
/// when the work is cancelled.
fn variational_derivative(
    exponential: &mut ExponentialMap<'_>,
    buffers: &mut [Vec<f64>; 3],
    state: &[f64],
    derivative: &mut [f64],
) -> ControlFlow<()> {
    let [moved, plus, minus] = buffers;
    let size = moved.len();
    let d = size / 2;
    let (base, directions) = state.split_at(size);
    let (base_part, direction_parts) = derivative.split_at_mut(size);
    base_part[..d].copy_from_slice(&base[d..]);
    exponential.acceleration(&base[..d], &base[d..], &mut base_part[d..]);
    let scale = 1e-5 * (1e-3 + norm(base));
    for (direction, part) in directions.chunks_exact(size).zip(direction_parts.chunks_exact_mut(size)) {
        if exponential.is_cancelled() {
            derivative.fill(f64::NAN);
            return ControlFlow::Break(());
        }
        let step = scale / norm(direction).max(f64::MIN_POSITIVE);
        let (velocity_part, acceleration_part) = part.split_at_mut(d);
        velocity_part.copy_from_slice(&direction[d..]);
        for (signed, out) in [(step, &mut *plus), (-step, &mut *minus)] {
            for ((value, base), change) in moved.iter_mut().zip(base).zip(direction) {
                *value = base + signed * change;
            }
            exponential.acceleration(&moved[..d], &moved[d..], out);
        }
        for ((value, plus), minus) in acceleration_part.iter_mut().zip(&*plus).zip(&*minus) {
            *value = (plus - minus) / (2.0 * step);
        }
    }
    ControlFlow::Continue(())
}

/// Solves the linearised matching conditions Φᵢδᵢ − δᵢ₊₁ = −cᵢ, δ₀ = (0, δv₀), Φ_m δ_m = −c_m in position.
///
/// Forward substitution writes every δᵢ = Eᵢδv₀ + eᵢ; the last condition determines δv₀.
fn newton_step(flows: &[Mat<f64>], defects: &Nodes, d: usize) -> Option<Nodes> {
    let mut effect: Mat<f64> = Mat::from_fn(2 * d, d, |row, column| f64::from(u8::from(row == column + d)));
    let mut offset: Mat<f64> = Mat::zeros(2 * d, 1);
    let (mut effects, mut offsets) = (Vec::new(), Vec::new());
    for (flow, defect) in flows.iter().zip(defects) {
        let (next_effect, mut next_offset) = (flow * &effect, flow * &offset);
        for (row, value) in defect.iter().enumerate() {
            next_offset[(row, 0)] += value;
        }
        effects.push(std::mem::replace(&mut effect, next_effect));
        offsets.push(std::mem::replace(&mut offset, next_offset));
    }
    let system: MatRef<'_, f64> = effect.get(..d, ..);
    let rhs = Mat::from_fn(d, 1, |row, _| -offset[(row, 0)]);
    let change = system.full_piv_lu().solve(&rhs);
    let finite = change.col(0).iter().all(|value: &f64| value.is_finite());
    finite.then(|| {
        let step = |(effect, offset): (&Mat<f64>, &Mat<f64>)| {
            let step = effect * &change + offset;
            step.col(0).iter().copied().collect()
        };
        effects.iter().zip(&offsets).map(step).collect()
    })
}

fn shifted(node: &[f64], step: &[f64], damping: f64) -> Vec<f64> {
    node.iter().zip(step).map(|(value, step)| value + damping * step).collect()
}

/// Nodes of a longer geodesic in the same direction, to first order.
fn stretch(nodes: &Nodes, base: &[f64], factor: f64) -> Nodes {
    let d = base.len();
    nodes
        .iter()
        .map(|node| {
            let theta = node[..d].iter().zip(base).map(|(value, b)| b + factor * (value - b));
            theta.chain(node[d..].iter().map(|value| factor * value)).collect()
        })
        .collect()
}

//! Error norm, first step and step-size factor.
//!
//! With the scale sⱼ = atol + max(|yⱼ|, |y′ⱼ|) rtol a trial step has the error norm e = √(meanⱼ (errⱼ / sⱼ)²) (or the
//! combined norm of DOP853). It is accepted if e < 1, and the step is then multiplied by min(10, 0.9 e^(−1/(q+1))),
//! or by at most 1 right after a rejection; otherwise it is multiplied by max(0.2, 0.9 e^(−1/(q+1))) and tried again.
//! `q` is the order of the error estimate. These are the rules, constants and orders of operations of SciPy's
//! `solve_ivp` (release 1.17), so that counts of evaluations agree with it.
//!
//! Sources: Hairer, Nørsett & Wanner 1993, section II.4 (norm, first step) and II.10 (combined norm).

use super::stepper::{Block, LANES, Row, Stepper, evaluate, weighted};
use super::tableau::ErrorRule;

/// Safety factor on the asymptotically best step.
const SAFETY: f64 = 0.9;
/// Least factor from one trial to the next.
const MIN_FACTOR: f64 = 0.2;
/// Largest factor from one step to the next.
const MAX_FACTOR: f64 = 10.0;
/// A step is at least this many times the spacing of numbers at `t`.
const MIN_SPACINGS: f64 = 10.0;
/// The least relative tolerance that is used.
const RTOL_FLOOR: f64 = 100.0 * f64::EPSILON;

/// The tolerances in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    rtol: f64,
    atol: f64,
}

impl Tolerance {
    /// Valid tolerances, the relative one raised to `100 eps`.
    pub(crate) fn new(rtol: f64, atol: f64) -> Self {
        Tolerance { rtol: rtol.max(RTOL_FLOOR), atol }
    }

    /// `atol + size rtol`; kept off zero, so that `0 / 0` cannot arise where a number stays zero and `atol` is zero.
    #[inline(always)]
    fn scale(self, size: f64) -> f64 {
        larger(self.atol + size * self.rtol, f64::MIN_POSITIVE)
    }

    /// The scale of a number that goes from `old` to `new` in a step.
    #[inline(always)]
    pub(crate) fn between(self, old: f64, new: f64) -> f64 {
        self.scale(larger(old.abs(), new.abs()))
    }
}

/// The larger of two numbers, `b` if one is `NaN`: a single machine instruction, which `f64::max` is not.
#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// Least step at `t` in the given direction.
pub(crate) fn min_step(t: f64, direction: f64) -> f64 {
    let next = if direction > 0.0 { t.next_up() } else { t.next_down() };
    MIN_SPACINGS * (next - t).abs()
}

/// Factor from a trial step with error norm `error` to the next one; `rejected` says that the trial before it was
/// rejected. An error norm that is not finite gives the least factor.
pub(crate) fn factor(error: f64, error_order: usize, rejected: bool) -> f64 {
    let best = || SAFETY * error.powf(-1.0 / (error_order as f64 + 1.0));
    if error < 1.0 {
        let factor = if error == 0.0 { MAX_FACTOR } else { best().min(MAX_FACTOR) };
        if rejected { factor.min(1.0) } else { factor }
    } else {
        best().max(MIN_FACTOR)
    }
}

/// Error norm of the last trial step, of size `h`; not finite if any stage or the trial state is not.
pub(crate) fn error_norm(stepper: &Stepper, h: f64, tolerance: Tolerance) -> f64 {
    let dim = stepper.dim() as f64;
    match stepper.tableau().error {
        ErrorRule::Single(row) => scaled_squares(stepper, row, h, tolerance).sqrt() / dim.sqrt(),
        ErrorRule::Combined { fifth, third } => {
            // Squares of norms rather than the sums of squares themselves: the rounding is then that of SciPy.
            let [fifth, third] = [fifth, third].map(|row| scaled_squares(stepper, row, 1.0, tolerance).sqrt().powi(2));
            if fifth == 0.0 && third == 0.0 {
                return 0.0;
            }
            h.abs() * fifth / ((fifth + 0.01 * third) * dim).sqrt()
        }
    }
}

/// Σⱼ (factor Σᵢ wᵢ kᵢⱼ / sⱼ)².
fn scaled_squares(stepper: &Stepper, weights: &[(usize, f64)], factor: f64, tolerance: Tolerance) -> f64 {
    let mut squares = [0.0; LANES];
    let ends = stepper.state().iter().zip(stepper.trial());
    for (index, (old, new)) in ends.enumerate() {
        let error = weighted(weights, stepper.stages(), index);
        for (((square, error), old), new) in squares.iter_mut().zip(error).zip(old).zip(new) {
            let scale = tolerance.between(*old, *new);
            // The last term is zero unless the trial state is not finite.
            let scaled = error * factor / scale + 0.0 * new;
            *square += scaled * scaled;
        }
    }
    squares.iter().sum()
}

/// The state at the start of a solve, and room for an Euler step from it.
pub(crate) struct Probe<'a> {
    pub(crate) dim: usize,
    pub(crate) state: &'a [Block],
    pub(crate) derivative: &'a [Block],
    /// The end of the Euler step.
    pub(crate) point: &'a mut Row,
    /// The derivative there.
    pub(crate) after: &'a mut Row,
}

impl Probe<'_> {
    /// Evaluates the derivative at the end of an Euler step of size `h`.
    fn euler<R>(&mut self, rhs: &mut R, t: f64, h: f64)
    where
        R: FnMut(f64, &[f64], &mut [f64]),
    {
        for ((point, state), slope) in self.point.iter_mut().zip(self.state).zip(self.derivative) {
            for ((point, state), slope) in point.iter_mut().zip(state).zip(slope) {
                *point = state + h * slope;
            }
        }
        evaluate(rhs, t + h, self.point, self.after, self.dim);
    }

    /// Root mean square of (rowⱼ − minusⱼ) / sⱼ with the scale of the state.
    fn norm(&self, row: &[Block], minus: Option<&[Block]>, tolerance: Tolerance) -> f64 {
        const ZERO: Block = [0.0; LANES];
        let mut squares = ZERO;
        for (index, (row, state)) in row.iter().zip(self.state).enumerate() {
            let minus = minus.map_or(&ZERO, |minus| &minus[index]);
            for (((square, row), minus), state) in squares.iter_mut().zip(row).zip(minus).zip(state) {
                let scaled = (row - minus) / tolerance.scale(state.abs());
                *square += scaled * scaled;
            }
        }
        squares.iter().sum::<f64>().sqrt() / (self.dim as f64).sqrt()
    }
}

/// First step by the rule of Hairer, Nørsett & Wanner: an Euler step about a hundredth of the time scale |y| / |f|
/// gives a second derivative, and from it the step whose error, with an estimate of order `error_order`, is about the
/// tolerance. Costs one evaluation. `span` is the length of the interval, which the step does not exceed.
pub(crate) fn first_step<R>(
    mut probe: Probe<'_>,
    rhs: &mut R,
    t: f64,
    direction: f64,
    span: f64,
    error_order: usize,
    tolerance: Tolerance,
) -> f64
where
    R: FnMut(f64, &[f64], &mut [f64]),
{
    let size = probe.norm(probe.state, None, tolerance);
    let slope = probe.norm(probe.derivative, None, tolerance);
    let mut small = if size < 1e-5 || slope < 1e-5 { 1e-6 } else { 0.01 * size / slope };
    if small.is_nan() {
        small = 1e-6;
    }
    small = small.min(span);
    probe.euler(rhs, t, small * direction);
    let bend = probe.norm(probe.after, Some(probe.derivative), tolerance) / small;
    let best = if slope <= 1e-15 && bend <= 1e-15 {
        (small * 1e-3).max(1e-6)
    } else {
        let exponent = 1.0 / (error_order as f64 + 1.0);
        (0.01 / slope.max(bend)).powf(exponent)
    };
    (100.0 * small).min(best).min(span)
}

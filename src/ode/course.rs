//! What the two Adams methods share: coefficients that follow from the times, error estimates, and how order and step
//! are chosen.
//!
//! The order falls if the errors at the two orders below are no larger, and rises, at most once in as many steps of
//! equal size as it has, if the error above is smaller. The step doubles or grows by a fifth if the error allows for
//! more than that, so that it mostly stays the same (in `second_order` it follows the error, a tenth at a time). The first steps have order 1, 2, … and each is longer than the one
//! before. These rules were chosen by the number of evaluations that certified geodesics take; orders above 6 change
//! nothing, and neither does integrating positions twice instead of as a part of the state, which is cheaper where they
//! are many (`second_order`).
//!
//! Sources: L. F. Shampine and M. K. Gordon, *Computer Solution of Ordinary Differential Equations*, Freeman 1975;
//! Hairer, Nørsett & Wanner 1993, sections III.5 (coefficients) and III.7 (order and step).

/// The highest order of the predictor.
pub(crate) const MAX_ORDER: usize = 8;
/// Differences in store: one beyond those that an error at the order above needs.
pub(crate) const STORED: usize = MAX_ORDER + 2;

/// Safety factor on the asymptotically best step.
const SAFETY: f64 = 0.8;
/// Growth of the step when the error allows for that much and not for doubling.
pub(crate) const GROWTH: (f64, f64) = (1.2, 1.2);
/// The same where an evaluation takes far longer than the passes over the history that a change of the step costs: from the
/// first of these on, up to the second. As orders rise only where steps stay the same, they stay at three or four.
pub(crate) const SMALL_GROWTH: (f64, f64) = (1.02, 1.1);
/// Growth of the step while the order is built up.
const FIRST_GROWTH: f64 = 2.5;
/// A step may be doubled, or halved after it was accepted.
const DOUBLE: f64 = 2.0;
/// Least and largest factor after a rejection.
const SHRINK: (f64, f64) = (0.2, 0.9);
/// Rejections of one step after which the order starts again from 1.
const RESTART: usize = 3;

/// What follows from the times alone about a trial step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coefficients {
    /// bⱼ: old differences to those with which the new step predicts.
    pub(crate) rescale: [f64; STORED],
    /// gⱼ: the weights of the differences in the predictor and the corrector.
    pub(crate) weights: [f64; STORED],
    /// The same for positions, which are integrals of integrals.
    pub(crate) position_weights: [f64; STORED],
}

impl Coefficients {
    /// For a step to `end` from `times[0]`, with the points before it in `times[1..]` and `count` differences in hand.
    pub(crate) fn new(times: &[f64; STORED], end: f64, count: usize) -> Self {
        let mut coefficients = Coefficients::default();
        let Coefficients { rescale, weights, position_weights } = &mut coefficients;
        let h = end - times[0];
        rescale[0] = 1.0;
        for j in 1..count {
            rescale[j] = rescale[j - 1] * (end - times[j - 1]) / (times[0] - times[j]);
        }
        // integrals[q] is the (q + 1)-fold integral of basis function j, times q! / h^(q + 1).
        let mut integrals = [0.0; STORED + 1];
        for (q, integral) in (1..).zip(&mut integrals) {
            *integral = 1.0 / f64::from(q);
        }
        (weights[0], position_weights[0]) = (1.0, 0.5);
        for j in 1..=count.min(STORED - 1) {
            let ratio = h / (end - times[j - 1]);
            for q in 0..STORED + 1 - j {
                integrals[q] -= ratio * integrals[q + 1];
            }
            (weights[j], position_weights[j]) = (integrals[0], integrals[1]);
        }
        coefficients
    }

    /// What the norm of e_q is multiplied by to estimate the error at order `q`, for a step of size 1.
    pub(crate) fn error(&self, order: usize) -> f64 {
        (self.weights[order] - self.weights[order - 1]).abs()
    }

    /// The same for positions.
    pub(crate) fn position_error(&self, order: usize) -> f64 {
        (self.position_weights[order] - self.position_weights[order - 1]).abs()
    }
}

/// The error estimates of a trial step: at the order in use, one and two below and one above; infinite or zero where
/// there is none, so that such an order is never chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Errors {
    pub(crate) here: f64,
    below: f64,
    far_below: f64,
    above: f64,
}

impl Errors {
    /// At this order, where differences up to `last` are known, from the estimate at each order.
    pub(crate) fn new(order: usize, last: usize, error: impl Fn(usize) -> f64) -> Self {
        Self {
            here: error(order),
            below: if order > 1 { error(order - 1) } else { f64::INFINITY },
            far_below: if order > 2 { error(order - 2) } else { 0.0 },
            above: if last > order && order < MAX_ORDER { error(order + 1) } else { f64::INFINITY },
        }
    }

    /// Whether lower orders are no worse.
    fn favour_lower(&self) -> bool {
        self.below.max(self.far_below) <= self.here
    }
}

/// How the order and the step are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// From which factor on a step grows, and by how much at most.
    growth: (f64, f64),
    /// Whether the order is still being built up.
    starting: bool,
    /// Steps since the size or the order last changed.
    steady: usize,
    /// Rejections since the last accepted step.
    rejections: usize,
}

/// The best step at an order, as a multiple of the current one.
fn best(error: f64, order: usize) -> f64 {
    SAFETY * error.max(1e-10).powf(-1.0 / (order as f64 + 1.0))
}

impl Course {
    /// Before the first step, with steps that grow from this factor on and by that one at most.
    pub(crate) fn new(growth: (f64, f64)) -> Self {
        Self { growth, starting: true, steady: 0, rejections: 0 }
    }

    /// Sets the order after a rejection and returns the factor on the step.
    pub(crate) fn rejected(&mut self, errors: Errors, order: &mut usize) -> f64 {
        self.starting = false;
        self.steady = 0;
        self.rejections += 1;
        let mut factor = if errors.here.is_finite() { best(errors.here, *order) } else { 0.0 };
        factor = factor.clamp(SHRINK.0, SHRINK.1);
        if *order > 1 && errors.favour_lower() {
            *order -= 1;
        }
        if self.rejections >= RESTART {
            *order = 1;
            factor /= DOUBLE;
        }
        factor
    }

    /// Sets the order after an accepted step and returns the factor on the step.
    pub(crate) fn accepted(&mut self, errors: Errors, order: &mut usize) -> f64 {
        self.steady += 1;
        let repeated = std::mem::take(&mut self.rejections) > 0;
        let falls = *order > 1 && errors.favour_lower();
        if self.starting && *order < MAX_ORDER && errors.here < 0.5 && !(*order > 2 && falls) {
            *order += 1;
            self.steady = 0;
            return FIRST_GROWTH;
        }
        self.starting = false;
        let mut error = errors.here;
        if falls {
            *order -= 1;
            error = errors.below;
        } else if self.steady > *order && errors.above < if *order == 1 { 0.5 * error } else { error } {
            *order += 1;
            error = errors.above;
        }
        let factor = match best(error, *order) {
            factor if factor < 1.0 => factor.max(1.0 / DOUBLE),
            _ if repeated => 1.0,
            factor if factor >= DOUBLE => DOUBLE,
            factor if factor > self.growth.0 => factor.min(self.growth.1),
            _ => 1.0,
        };
        if factor != 1.0 {
            self.steady = 0;
        }
        factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With equal steps the weights are those of Adams and Bashforth, and the factors of the error those of Adams and
    /// Moulton (Hairer, Nørsett & Wanner 1993, tables III.1.1 and III.1.2).
    #[test]
    fn coefficients_of_equal_steps_are_the_classical_ones() {
        let times: [f64; STORED] = std::array::from_fn(|index| 1.0 - 0.125 * index as f64);
        let coefficients = Coefficients::new(&times, 1.125, STORED);
        let weights = [1.0, 1.0 / 2.0, 5.0 / 12.0, 3.0 / 8.0, 251.0 / 720.0, 95.0 / 288.0, 19087.0 / 60480.0];
        let errors = [1.0 / 2.0, 1.0 / 12.0, 1.0 / 24.0, 19.0 / 720.0, 3.0 / 160.0, 863.0 / 60480.0];
        for (found, expected) in coefficients.weights.iter().zip(weights) {
            assert!((found - expected).abs() < 1e-14, "{found} {expected}");
        }
        for (order, expected) in (1..).zip(errors) {
            assert!((coefficients.error(order) - expected).abs() < 1e-14, "{order}");
        }
        // The integrals of (1 − s) s(s + 1)…(s + j − 1)/j! from 0 to 1.
        let positions = [1.0 / 2.0, 1.0 / 6.0, 1.0 / 8.0, 19.0 / 180.0, 3.0 / 32.0];
        for (found, expected) in coefficients.position_weights.iter().zip(positions) {
            assert!((found - expected).abs() < 1e-14, "{found} {expected}");
        }
        assert!(coefficients.rescale.iter().all(|factor| (factor - 1.0).abs() < 1e-14));
    }
}

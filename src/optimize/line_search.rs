//! The strong-Wolfe line search: a step α with φ(α) ≤ φ(0) + c₁αφ′(0) and |φ′(α)| ≤ c₂|φ′(0)|, for φ(α) = f(x + αd).
//!
//! Steps grow until they bracket such an α, then cubic interpolation narrows the bracket. A trial without a finite
//! value counts as +∞. Values that differ by less than their rounding count as equal, and the slopes decide: this is
//! what lets the gradient go on falling once f itself no longer can.

/// Values this close, relative to φ(0), count as equal: a few hundred rounding errors, as sums over data have.
const VALUE_NOISE: f64 = 1e3 * f64::EPSILON;
/// Where the next trial lies between a finite point and one that is not.
const RETREAT: f64 = 0.2;
/// An interpolated trial stays this far from the ends of its bracket, relative to its length.
const MARGIN: f64 = 0.1;
/// How many times longer than the last the next trial may be while there is no bracket.
const GROWTH: (f64, f64) = (2.0, 10.0);

/// φ at one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    /// α.
    pub(super) step: f64,
    /// φ(α).
    pub(super) value: f64,
    /// φ′(α).
    pub(super) slope: f64,
}

/// What a search needs besides φ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    /// φ at 0, with negative slope.
    pub(super) origin: Trial,
    /// The first trial.
    pub(super) first: f64,
    /// The longest step allowed; a step of that length need not satisfy the slope condition (the second one).
    pub(super) longest: f64,
    /// c₁.
    pub(super) sufficient_decrease: f64,
    /// c₂.
    pub(super) curvature: f64,
    /// The most evaluations.
    pub(super) max_evaluations: usize,
}

impl Search {
    /// Finds a step, or none if no trial lowers the value; the last evaluation of φ is at the step found. Values that
    /// are not finite must be passed as +∞.
    pub(super) fn run(&self, phi: &mut impl FnMut(f64) -> Trial) -> Option<Trial> {
        let (mut last, mut step) = (self.origin, self.first.min(self.longest));
        for evaluation in 1..=self.max_evaluations {
            let trial = phi(step);
            if self.is_too_high(&trial, &last) {
                return self.narrow(last, trial, self.max_evaluations - evaluation, phi);
            }
            if self.is_flat(&trial) || trial.step >= self.longest {
                return Some(trial);
            }
            if trial.slope >= 0.0 {
                return self.narrow(trial, last, self.max_evaluations - evaluation, phi);
            }
            let guess = cubic_minimum(&last, &trial).unwrap_or(f64::INFINITY);
            step = guess.clamp(GROWTH.0 * trial.step, GROWTH.1 * trial.step).min(self.longest);
            last = trial;
        }
        self.accept_lower(last, phi)
    }

    /// Narrows a bracket: `low` satisfies the decrease condition with the lowest value so far, and its slope points to
    /// `high`.
    fn narrow(
        &self,
        mut low: Trial,
        mut high: Trial,
        evaluations: usize,
        phi: &mut impl FnMut(f64) -> Trial,
    ) -> Option<Trial> {
        let mut width = f64::INFINITY;
        for _ in 0..evaluations {
            let length = high.step - low.step;
            let step = if !high.value.is_finite() {
                low.step + RETREAT * length
            } else if length.abs() > 0.66 * width {
                low.step + 0.5 * length // interpolation does not narrow it: halve
            } else {
                let (a, b) = (low.step + MARGIN * length, high.step - MARGIN * length);
                cubic_minimum(&low, &high).unwrap_or(low.step + 0.5 * length).clamp(a.min(b), a.max(b))
            };
            if step == low.step || step == high.step {
                break; // no number is left between them
            }
            width = length.abs();
            let trial = phi(step);
            if self.is_too_high(&trial, &low) {
                high = trial;
                continue;
            }
            if self.is_flat(&trial) {
                return Some(trial);
            }
            if trial.slope * (high.step - low.step) >= 0.0 {
                high = low;
            }
            low = trial;
        }
        self.accept_lower(low, phi)
    }

    /// φ(α) violates the decrease condition or is above the best so far, by more than rounding.
    fn is_too_high(&self, trial: &Trial, best: &Trial) -> bool {
        let line = self.origin.value + self.sufficient_decrease * trial.step * self.origin.slope;
        trial.value > line.min(best.value) + VALUE_NOISE * self.origin.value.abs()
    }

    /// The second (slope) condition.
    fn is_flat(&self, trial: &Trial) -> bool {
        trial.slope.abs() <= self.curvature * self.origin.slope.abs()
    }

    /// A step that does not satisfy the slope condition is still used if its value is lower than at the origin.
    fn accept_lower(&self, trial: Trial, phi: &mut impl FnMut(f64) -> Trial) -> Option<Trial> {
        (trial.step > 0.0 && trial.value < self.origin.value).then(|| phi(trial.step))
    }
}

/// The minimiser of the cubic through two values and slopes, if it has one.
fn cubic_minimum(a: &Trial, b: &Trial) -> Option<f64> {
    let length = b.step - a.step;
    let mean = a.slope + b.slope - 3.0 * (b.value - a.value) / length;
    let root = (mean * mean - a.slope * b.slope).sqrt().copysign(length);
    let minimum = b.step - length * (b.slope + root - mean) / (b.slope - a.slope + 2.0 * root);
    minimum.is_finite().then_some(minimum)
}

//! Minimisation of smooth functions of a few hundred variables: quasi-Newton steps x ← x − α H⁻¹∇f, in a box if
//! required.
//!
//! [`minimize`] is BFGS with a dense inverse Hessian and a strong-Wolfe line search (Nocedal and Wright, *Numerical
//! Optimization*, sections 3.5 and 6.1). [`minimize_multistart`] repeats it from several starts and keeps the best. A
//! search that stalls is a result with a [`Status`]; an error is a problem that has no answer, such as bounds without a
//! point between them.

mod bfgs;
mod bounds;
mod golden;
mod inverse_hessian;
mod line_search;

pub use crate::error::OptimizeError;
pub use bfgs::minimize;
pub use golden::golden_section;

/// Settings of [`minimize`].
///
/// ```
/// use riemannian_laplace::internals::optimize::BfgsOptions;
///
/// let options = BfgsOptions { bounds: Some(&[(0.0, f64::INFINITY)]), ..BfgsOptions::default() };
/// assert_eq!(options.gradient_tolerance, 1e-8);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BfgsOptions<'a> {
    /// Converged once no entry of the gradient is larger (entries that push against a bound do not count). Default
    /// 1e-8.
    pub gradient_tolerance: f64,
    /// The most steps. Default 1,000.
    pub max_iterations: usize,
    /// The most evaluations of the objective within one line search. Default 60.
    pub max_search_evaluations: usize,
    /// The length of the very first trial step, unless the gradient is shorter still. Default 1.
    pub first_step: f64,
    /// c₁ of the Wolfe conditions: f(x + αd) ≤ f(x) + c₁ α ∇f·d. Default 1e-4.
    pub sufficient_decrease: f64,
    /// c₂ of the Wolfe conditions: |∇f(x + αd)·d| ≤ c₂ |∇f(x)·d|. Default 0.5: with the usual 0.9 the inverse Hessian
    /// grows too slowly along flat directions (nine test problems took 1.4 times as many evaluations).
    pub curvature: f64,
    /// The lower and upper bounds of every coordinate, infinite where there is none, and equal to hold it fixed.
    /// Default: no bounds. A start outside is moved to the nearest point inside.
    pub bounds: Option<&'a [(f64, f64)]>,
}

impl Default for BfgsOptions<'_> {
    fn default() -> Self {
        Self {
            gradient_tolerance: 1e-8,
            max_iterations: 1000,
            max_search_evaluations: 60,
            first_step: 1.0,
            sufficient_decrease: 1e-4,
            curvature: 0.5,
            bounds: None,
        }
    }
}

/// Why a minimisation stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The gradient is within the tolerance.
    Converged,
    /// [`BfgsOptions::max_iterations`] steps were taken.
    IterationLimit,
    /// No step, not even one along the gradient, lowers the value any more in floating-point arithmetic.
    LineSearchFailed {
        /// Whether the gradient, relative to point and value, max |∂f/∂x_i| max(|x_i|, 1)/max(|f|, 1), is at most
        /// √ε = 1.5e-8: then the value is minimal as far as f64 can tell, and only the tolerance was too ambitious.
        /// Otherwise the gradient does not fit the objective, or the objective is not smooth there, or unbounded.
        gradient_is_small: bool,
    },
    /// The objective or its gradient is not finite at the start.
    NotFinite,
}

impl Status {
    /// Whether the point is a minimum as far as the arithmetic can tell.
    pub fn is_minimum(self) -> bool {
        matches!(self, Self::Converged | Self::LineSearchFailed { gradient_is_small: true })
    }
}

/// Where a minimisation ended, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Minimum {
    /// The last point.
    pub point: Vec<f64>,
    /// The objective there.
    pub value: f64,
    /// The largest entry of the gradient there, leaving out those that push against a bound.
    pub gradient_norm: f64,
    /// Steps taken.
    pub iterations: usize,
    /// Evaluations of the objective.
    pub evaluations: usize,
    /// Why it stopped.
    pub status: Status,
    /// The coordinates that are at one of their bounds, in increasing order.
    pub at_bound: Vec<usize>,
}

/// The best of several minimisations.
#[derive(Debug, Clone, PartialEq)]
pub struct MultistartMinimum {
    /// The minimum with the lowest value.
    pub best: Minimum,
    /// The index of the start that led to it.
    pub best_start: usize,
    /// Every run that ended at a finite value: the index of its start, and its end.
    pub minima: Vec<(usize, Minimum)>,
}

/// Minima whose values differ by less, relative to 1 + |value|, count as equal.
const SAME_VALUE: f64 = 1e-10;

/// [`minimize`] from every start in turn, keeping the end with the lowest value (the first of equals).
///
/// ```
/// use riemannian_laplace::internals::optimize::{BfgsOptions, minimize_multistart};
///
/// // (x² − 1)² + x/5 has a minimum near each of ±1; the left one is lower.
/// let mut objective = |x: &[f64], gradient: &mut [f64]| {
///     let well = x[0] * x[0] - 1.0;
///     gradient[0] = 4.0 * x[0] * well + 0.2;
///     well * well + 0.2 * x[0]
/// };
/// let found = minimize_multistart(&mut objective, &[vec![2.0], vec![-2.0]], &BfgsOptions::default())?;
/// assert_eq!((found.best_start, found.minima.len()), (1, 2));
/// assert!(found.best.point[0] < -1.0);
/// # Ok::<(), riemannian_laplace::internals::optimize::OptimizeError>(())
/// ```
pub fn minimize_multistart<F>(
    objective: &mut F,
    starts: &[Vec<f64>],
    options: &BfgsOptions<'_>,
) -> Result<MultistartMinimum, OptimizeError>
where
    F: FnMut(&[f64], &mut [f64]) -> f64,
{
    let mut minima = Vec::with_capacity(starts.len());
    for (index, start) in starts.iter().enumerate() {
        let minimum = minimize(objective, start, options)?;
        if minimum.status != Status::NotFinite {
            minima.push((index, minimum));
        }
    }
    // Of minima that differ only by rounding (mirror images, say) take the first: the last bits must not decide.
    let lowest = minima.iter().map(|(_, minimum)| minimum.value).fold(f64::INFINITY, f64::min);
    let as_low = |value: f64| value <= lowest + SAME_VALUE * (1.0 + lowest.abs());
    match minima.iter().find(|(_, minimum)| as_low(minimum.value)).cloned() {
        Some((best_start, best)) => Ok(MultistartMinimum { best, best_start, minima }),
        None => Err(OptimizeError::NoFiniteStart { starts: starts.len() }),
    }
}

//! A box l ≤ x ≤ u: projection onto it, the gradient seen from inside it, and how far a ray stays in it.

use super::OptimizeError;

/// Bounds of every coordinate, infinite where there is none.
#[derive(Debug)]
pub(super) struct Bounds {
    intervals: Vec<(f64, f64)>,
}

impl Bounds {
    /// Checks that there is one interval per coordinate, and that each contains a number.
    pub(super) fn new(given: Option<&[(f64, f64)]>, n: usize) -> Result<Self, OptimizeError> {
        let Some(intervals) = given else {
            return Ok(Self { intervals: vec![(f64::NEG_INFINITY, f64::INFINITY); n] });
        };
        if intervals.len() != n {
            return Err(OptimizeError::BoundsLength { bounds: intervals.len(), coordinates: n });
        }
        let is_empty =
            |&(lower, upper): &(f64, f64)| !(lower <= upper && lower < f64::INFINITY && upper > f64::NEG_INFINITY);
        match intervals.iter().position(is_empty) {
            Some(coordinate) => {
                let (lower, upper) = intervals[coordinate];
                Err(OptimizeError::EmptyBounds { coordinate, lower, upper })
            }
            None => Ok(Self { intervals: intervals.to_vec() }),
        }
    }

    /// Moves every coordinate to the nearest number within its bounds.
    pub(super) fn project(&self, point: &mut [f64]) {
        for (x, &(lower, upper)) in point.iter_mut().zip(&self.intervals) {
            *x = if *x < lower {
                lower
            } else if *x > upper {
                upper
            } else {
                *x
            };
        }
    }

    /// Whether a move of coordinate i from x in the direction of `sign` leaves the box at once.
    pub(super) fn blocks(&self, i: usize, x: f64, sign: f64) -> bool {
        let (lower, upper) = self.intervals[i];
        (x <= lower && sign < 0.0) || (x >= upper && sign > 0.0)
    }

    /// Whether descent cannot move coordinate i: it is fixed, or the negative gradient points out of the box.
    pub(super) fn holds(&self, i: usize, x: f64, gradient: f64) -> bool {
        let (lower, upper) = self.intervals[i];
        lower == upper || self.blocks(i, x, -gradient)
    }

    /// The largest entry of the gradient among the coordinates that descent can move.
    pub(super) fn gradient_norm(&self, point: &[f64], gradient: &[f64]) -> f64 {
        self.free(point, gradient).fold(0.0, |norm, (_, g)| g.abs().max(norm))
    }

    /// The same, relative to the point and the value: max |∂f/∂x_i| max(|x_i|, 1)/max(|f|, 1).
    pub(super) fn relative_gradient(&self, point: &[f64], gradient: &[f64], value: f64) -> f64 {
        let largest = self.free(point, gradient).fold(0.0, |norm, (x, g)| (g * x.abs().max(1.0)).abs().max(norm));
        largest / value.abs().max(1.0)
    }

    /// The coordinates that descent can move, and the gradient's entries.
    fn free(&self, point: &[f64], gradient: &[f64]) -> impl Iterator<Item = (f64, f64)> {
        let entries = point.iter().copied().zip(gradient.iter().copied()).enumerate();
        entries.filter(|&(i, (x, g))| !self.holds(i, x, g)).map(|(_, entry)| entry)
    }

    /// The step along a ray at which coordinate i meets its bound.
    fn reach(&self, i: usize, x: f64, direction: f64) -> f64 {
        let (lower, upper) = self.intervals[i];
        if direction < 0.0 {
            (lower - x) / direction
        } else if direction > 0.0 {
            (upper - x) / direction
        } else {
            f64::INFINITY
        }
    }

    /// The longest step along a ray that stays in the box.
    pub(super) fn longest_step(&self, point: &[f64], direction: &[f64]) -> f64 {
        let ray = point.iter().zip(direction).enumerate();
        ray.map(|(i, (&x, &d))| self.reach(i, x, d)).fold(f64::INFINITY, f64::min)
    }

    /// Writes point + step·direction; a coordinate that meets its bound there is set to it exactly.
    pub(super) fn advance(&self, point: &[f64], direction: &[f64], step: f64, into: &mut [f64]) {
        for (i, ((&x, &d), target)) in point.iter().zip(direction).zip(into.iter_mut()).enumerate() {
            let (lower, upper) = self.intervals[i];
            *target = match step < self.reach(i, x, d) {
                true => x + step * d,
                false if d < 0.0 => lower,
                false => upper,
            };
        }
        self.project(into);
    }

    /// The coordinates at one of their bounds.
    pub(super) fn met_by(&self, point: &[f64]) -> Vec<usize> {
        let at_bound = |i: &usize| self.blocks(*i, point[*i], -1.0) || self.blocks(*i, point[*i], 1.0);
        (0..point.len()).filter(at_bound).collect()
    }
}

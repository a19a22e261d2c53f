//! The passes over the history: predicting, and judging a trial.

use std::ops::Range;

use super::{Combination, Move, Pair};
use crate::elementary::vectorized;
use crate::ode::control::Tolerance;
use crate::ode::stepper::{Block, LANES, either_way, middle};

/// Writes the prediction that a move leads to, for the blocks from `first` on.
pub(super) fn shift(
    first: usize,
    step: &Move,
    rows: &[&[Block]],
    from: &Pair,
    (theta, velocity): (&mut [Block], &mut [Block]),
    shared: bool,
) {
    if let Some(middle) = middle(theta.len()) {
        let (theta_left, theta_right) = theta.split_at_mut(middle);
        let (velocity_left, velocity_right) = velocity.split_at_mut(middle);
        either_way(
            shared,
            || shift(first, step, rows, from, (theta_left, velocity_left), shared),
            || shift(first + middle, step, rows, from, (theta_right, velocity_right), shared),
        );
        return;
    }
    vectorized(
        #[inline(always)]
        || {
            for (index, (theta, velocity)) in (first..).zip(theta.iter_mut().zip(velocity)) {
                let (mut positions, mut velocities) = ([0.0; LANES], [0.0; LANES]);
                for (i, row) in rows.iter().enumerate() {
                    add(step.theta[i], &row[index], &mut positions);
                    add(step.velocity[i], &row[index], &mut velocities);
                }
                arrive(
                    step.step,
                    (&from.theta[index], &from.velocity[index]),
                    (&positions, &velocities),
                    theta,
                    velocity,
                );
            }
        },
    );
}

/// sum += factor · row.
#[inline(always)]
fn add(factor: f64, row: &Block, sum: &mut Block) {
    for (sum, a) in sum.iter_mut().zip(row) {
        *sum += factor * a;
    }
}

/// θ + h v + the share of positions, and v + that of velocities.
#[inline(always)]
fn arrive(h: f64, from: (&Block, &Block), shares: (&Block, &Block), theta: &mut Block, velocity: &mut Block) {
    for l in 0..LANES {
        theta[l] = from.0[l] + h * from.1[l] + shares.0[l];
        velocity[l] = from.1[l] + shares.1[l];
    }
}

/// Judges a trial.
pub(super) struct Judge<'a> {
    /// The accelerations, that of the trial first.
    pub(super) rows: Vec<&'a [Block]>,
    /// e_q for q = order − 2 … order + 1; zero where there is none.
    pub(super) differences: [Combination; 4],
    pub(super) here: &'a Pair,
    pub(super) trial: &'a Pair,
    /// The scales of errors; none for those of velocities alone, as they are.
    pub(super) tolerance: Option<Tolerance>,
}

impl Judge<'_> {
    /// The squares of the differences, relative to the scales of positions and of velocities, summed over a range of
    /// blocks: lane by lane, and part by part, so that the order does not depend on threads.
    pub(super) fn squares(&self, range: Range<usize>, shared: bool) -> [[Block; 4]; 2] {
        if let Some(middle) = middle(range.len()) {
            let (left, right) = (range.start..range.start + middle, range.start + middle..range.end);
            let (mut left, right) = either_way(shared, || self.squares(left, shared), || self.squares(right, shared));
            let lanes = left.as_flattened_mut().as_flattened_mut();
            lanes.iter_mut().zip(right.as_flattened().as_flattened()).for_each(|(left, right)| *left += right);
            return left;
        }
        vectorized(
            #[inline(always)]
            || {
                let mut squares = [[[0.0; LANES]; 4]; 2];
                for index in range {
                    let mut differences = [[0.0; LANES]; 4];
                    for (i, row) in self.rows.iter().enumerate() {
                        for (difference, combination) in differences.iter_mut().zip(&self.differences) {
                            add(combination[i], &row[index], difference);
                        }
                    }
                    let Some(tolerance) = self.tolerance else {
                        for (square, difference) in squares[1].iter_mut().zip(&differences) {
                            for l in 0..LANES {
                                square[l] += difference[l] * difference[l];
                            }
                        }
                        continue;
                    };
                    let (here, trial) = (self.here, self.trial);
                    let ends =
                        [(&here.theta[index], &trial.theta[index]), (&here.velocity[index], &trial.velocity[index])];
                    for (squares, (old, new)) in squares.iter_mut().zip(ends) {
                        let mut scale = [0.0; LANES];
                        for ((scale, old), new) in scale.iter_mut().zip(old).zip(new) {
                            *scale = 1.0 / tolerance.between(*old, *new);
                        }
                        for (square, difference) in squares.iter_mut().zip(&differences) {
                            for l in 0..LANES {
                                // The last term is zero unless the prediction is not finite.
                                let scaled = difference[l] * scale[l] + 0.0 * new[l];
                                square[l] += scaled * scaled;
                            }
                        }
                    }
                }
                squares
            },
        )
    }
}

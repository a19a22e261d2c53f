//! The system of one evaluation, in weight space or in function space.

use std::cell::RefCell;

use super::Space;
use super::memory::Memory;
use crate::linalg::{ConjugateGradients, Convergence, Iterate, RoundedFactor, StoppingRule, dot, norm};
use crate::map::{Rows, Scratch};
use crate::prior::PriorPrecision;

/// Where the outputs hardly move, errors below this share of the acceleration are accepted too.
const SHARE_OF_ACCELERATION: f64 = 1e-3;
/// Steps over which the error is summed up where there is no factor.
const DELAY: usize = 4;

/// The system of one evaluation: its right-hand side, its solution, and room for products with it.
#[derive(Debug)]
pub(super) struct System {
    space: Space,
    iteration: ConjugateGradients,
    rhs: Vec<f64>,
    /// ‖J̃v‖, which errors are relative to.
    speed: f64,
    /// y or x.
    pub(super) solution: Vec<f64>,
    /// D numbers: A^(−½)u.
    scaled: Vec<f64>,
    /// M numbers: J̃A^(−½)u, in weight space.
    image: Vec<f64>,
}

impl System {
    pub(super) fn new(space: Space, rows: &dyn Rows) -> Self {
        let (d, m) = (rows.n_params(), rows.n_rows());
        let size = if space == Space::Weights { d } else { m };
        Self {
            space,
            iteration: ConjugateGradients::new(size),
            rhs: vec![0.0; size],
            speed: 0.0,
            solution: vec![0.0; size],
            scaled: vec![0.0; d],
            image: if space == Space::Weights { vec![0.0; m] } else { Vec::new() },
        }
    }

    /// The right-hand side Kᵀz, or z; the solution starts from zero.
    pub(super) fn set_force(
        &mut self,
        rows: &dyn Rows,
        scratch: &mut Scratch,
        prior: &PriorPrecision,
        force: &[f64],
        speed: f64,
    ) {
        self.speed = speed;
        match self.space {
            Space::Weights => {
                rows.transpose_times(force, &mut self.rhs, scratch);
                prior.divide_by_root(&mut self.rhs);
            }
            Space::Functions => self.rhs.copy_from_slice(force),
        }
        self.solution.fill(0.0);
    }

    /// Conjugate gradients from the present solution, preconditioned by a factor if there is one.
    pub(super) fn solve(
        &mut self,
        rows: &dyn Rows,
        scratch: &mut Scratch,
        prior: &PriorPrecision,
        factor: Option<(&RoundedFactor, &mut Memory)>,
        rule: StoppingRule,
    ) -> Convergence {
        let Self { space, iteration, rhs, speed, solution, scaled, image } = self;
        let (factor, memory) = factor.unzip();
        let corrected = memory.as_ref().is_some_and(|memory| !memory.is_empty());
        let memory = RefCell::new(memory);
        let times = |u: &[f64], product: &mut [f64]| {
            match space {
                Space::Weights => {
                    scaled.copy_from_slice(u);
                    prior.divide_by_root(scaled);
                    rows.normal_times(scaled, image, product, scratch);
                    prior.divide_by_root(product);
                }
                Space::Functions => {
                    rows.transpose_times(u, scaled, scratch);
                    prior.divide(scaled);
                    rows.times(scaled, product, scratch);
                }
            }
            product.iter_mut().zip(u).for_each(|(value, u)| *value += u);
            if let Some(memory) = &mut *memory.borrow_mut() {
                memory.remember(u, product);
            }
        };
        // A^½(A + J̃ᵀJ̃)⁻¹A^½ u, where A^½ = A·A^(−½).
        let mut room = Vec::new();
        let precondition = |u: &[f64], solved: &mut [f64]| {
            solved.copy_from_slice(u);
            let Some(factor) = factor else { return };
            let root = |vector: &mut [f64]| {
                if *space == Space::Weights {
                    prior.multiply(vector);
                    prior.divide_by_root(vector);
                }
            };
            let mut solve = |solved: &mut [f64]| {
                root(solved);
                factor.solve(solved, &mut room);
                root(solved);
            };
            match &mut *memory.borrow_mut() {
                Some(memory) => memory.correct(solved, solve),
                None => solve(solved),
            }
        };
        let (mut last, mut steps) = ([0.0; DELAY], 0);
        let scale = |iterate: Iterate<'_>| {
            // ‖a‖_G² = aᵀJ̃ᵀz is yᵀKᵀz, and at most xᵀz.
            *speed + SHARE_OF_ACCELERATION * dot(iterate.solution, rhs).max(0.0).sqrt()
        };
        let error = |iterate: Iterate<'_>| {
            let error = match space {
                Space::Functions => norm(iterate.residual),
                Space::Weights if factor.is_some() && !corrected => iterate.corrected.max(iterate.descent).sqrt(),
                Space::Weights => {
                    last[steps % DELAY] = iterate.descent;
                    steps += 1;
                    if corrected {
                        return iterate.corrected.max(last.iter().sum()).sqrt() / scale(iterate);
                    }
                    // I + KᵀK ≥ I: the residual itself is a bound, though rarely a good one.
                    let summed = if steps > DELAY { last.iter().sum() } else { f64::INFINITY };
                    iterate.corrected.min(summed).sqrt()
                }
            };
            error / scale(iterate)
        };
        let end = iteration.solve_by(rhs, solution, rule, times, precondition, error);
        if let Some(memory) = &mut *memory.borrow_mut() {
            memory.end_solve();
        }
        end
    }

    /// a = A^(−½)y, or A⁻¹J̃ᵀx.
    pub(super) fn write_acceleration(
        &self,
        rows: &dyn Rows,
        scratch: &mut Scratch,
        prior: &PriorPrecision,
        acceleration: &mut [f64],
    ) {
        match self.space {
            Space::Weights => {
                acceleration.copy_from_slice(&self.solution);
                prior.divide_by_root(acceleration);
            }
            Space::Functions => {
                rows.transpose_times(&self.solution, acceleration, scratch);
                prior.divide(acceleration);
            }
        }
    }
}

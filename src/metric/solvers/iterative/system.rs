//! The system of one evaluation, in weight space or in function space.

use std::cell::RefCell;

use super::Space;
use super::memory::Memory;
use crate::linalg::{ConjugateGradients, Convergence, Iterate, RoundedFactor, StoppingRule, dot};
use crate::map::{Rows, Scratch};
use crate::prior::PriorPrecision;

/// Where the outputs hardly move, errors below this share of the acceleration are accepted too.
const SHARE_OF_ACCELERATION: f64 = 1e-3;
/// Steps over which the error is summed up where there is no factor.
const DELAY: usize = 4;
/// With a factor the error is the largest estimate at the last two iterates, and at one more for every sixteen steps: the
/// slower a solve, the longer one estimate may stay below the others. In 138 solves on three paths of 8-50-50-1 networks,
/// all continued to a three-hundredth of the tolerance to know their true errors, it took 2,695 products where the true
/// errors would have ended them after 2,517; two ended above the tolerance, by 4 and 28 %. (The sum of the last four steps
/// of each, which came before, took 2,970; four ended above it, by up to 200 %.)
const ESTIMATES: (usize, usize) = (2, 16);

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
        let (mut descents, mut estimates) = ([0.0; DELAY], Vec::new());
        let error = |iterate: Iterate<'_>| {
            let steps = estimates.len();
            descents[steps % DELAY] = iterate.descent;
            estimates.push(iterate.corrected);
            let squared = match space {
                Space::Functions => dot(iterate.residual, iterate.residual),
                Space::Weights if factor.is_some() => {
                    let several = ESTIMATES.0 + steps / ESTIMATES.1;
                    // The newest is the last, so that one that is no number stays.
                    let latest = &estimates[estimates.len().saturating_sub(several)..];
                    latest.iter().fold(0.0, |most, one| if *one <= most { most } else { *one })
                }
                // I + KᵀK ≥ I: the residual itself is a bound, though rarely a good one.
                Space::Weights if steps < DELAY => iterate.corrected,
                Space::Weights => iterate.corrected.min(descents.iter().sum()),
            };
            // ‖a‖_G² = aᵀJ̃ᵀz is yᵀKᵀz, and at most xᵀz.
            squared.sqrt() / (*speed + SHARE_OF_ACCELERATION * dot(iterate.solution, rhs).max(0.0).sqrt())
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ndarray::Array2;

    use super::super::Factor;
    use super::*;
    use crate::error::Result;
    use crate::likelihood::Gaussian;
    use crate::linalg::Cholesky;
    use crate::map::{Map, Model};
    use crate::metric::solvers::rows_at_base;
    use crate::metric::solvers::weight_ridge::factor_rows;
    use crate::network::{Activation, Architecture, Network};

    /// A network of 200 weights and two outputs at 1,000 points, with noise of this size and a prior precision of one.
    struct Setting {
        map: Arc<dyn Map>,
        prior: PriorPrecision,
        likelihood: Gaussian,
        theta: Vec<f64>,
    }

    impl Setting {
        fn new(sigma: f64) -> Result<Self> {
            let network = Network::random(Architecture::new(&[3, 12, 10, 2], Activation::Tanh)?, 5);
            let inputs = Array2::from_shape_fn((1000, 3), |(n, i)| ((n * (3 * i + 7)) % 101) as f64 / 50.0 - 1.0);
            let map: Arc<dyn Map> = network.bind(inputs.view())?;
            assert!(map.rounds_curvature(2));
            let (prior, likelihood) = (PriorPrecision::scalar(1.0, &map.groups())?, Gaussian::new(sigma)?);
            Ok(Self { map, prior, likelihood, theta: network.parameters().to_vec() })
        }

        fn rows(&self, theta: &[f64]) -> Result<Box<dyn Rows>> {
            rows_at_base(&self.map, &self.likelihood, theta)
        }
    }

    /// ‖u‖_G of a vector, where A = I.
    fn length(rows: &dyn Rows, scratch: &mut Scratch, u: &[f64]) -> f64 {
        let mut image = vec![0.0; rows.n_rows()];
        rows.times(u, &mut image, scratch);
        (dot(&image, &image) + dot(u, u)).sqrt()
    }

    fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
        a.iter().zip(b).map(|(a, b)| a - b).collect()
    }

    #[test]
    fn where_f32_has_too_few_digits_the_factor_is_made_in_f64() -> Result<()> {
        // The noise, and whether the matrix is positive definite in f32.
        for (sigma, rounds) in [(0.3, true), (1e-3, false)] {
            let setting = Setting::new(sigma)?;
            let (rows, mut scratch) = (setting.rows(&setting.theta)?, Scratch::default());
            let mut factor = Factor::new(setting.theta.len(), true);
            for _ in 0..2 {
                assert!(factor.make(Space::Weights, &*rows, &mut scratch, &setting.prior));
                assert_eq!((factor.single.is_some(), factor.exact.is_some()), (rounds, !rounds), "{sigma}");
            }
            let (mut system, force) = (System::new(Space::Weights, &*rows), vec![1.0; 2000]);
            system.set_force(&*rows, &mut scratch, &setting.prior, &force, 1.0);
            let mut solution = system.rhs.clone();
            let mut exact = Cholesky::new(setting.theta.len());
            assert!(factor_rows(&*rows, &mut scratch, &setting.prior, &mut exact));
            exact.solve(&mut solution);
            let (rule, mut memory) = (StoppingRule { tolerance: 1e-3, max_products: 100 }, Memory::default());
            let known = Some((&factor.rounded, &mut memory));
            let end = system.solve(&*rows, &mut scratch, &setting.prior, known, rule);
            let error = length(&*rows, &mut scratch, &difference(&solution, &system.solution));
            let scale = 1.0 + SHARE_OF_ACCELERATION * length(&*rows, &mut scratch, &solution);
            assert!(end.converged && error <= 2e-3 * scale, "{sigma}: {error:e} of {scale:e}, {end:?}");
        }
        Ok(())
    }

    #[test]
    fn a_solve_ends_with_a_true_error_within_the_tolerance() -> Result<()> {
        let setting = Setting::new(0.3)?;
        let Setting { prior, theta, .. } = &setting;
        let rows = setting.rows(theta)?;
        let (mut exact, mut scratch) = (Cholesky::new(theta.len()), Scratch::default());
        assert!(factor_rows(&*rows, &mut scratch, prior, &mut exact));
        for (distance, tolerance) in [(0.0, 1e-3), (0.003, 1e-3), (0.01, 1e-3), (0.03, 1e-3), (0.01, 1e-5)] {
            let moved: Vec<f64> = (0..).zip(theta).map(|(k, value)| value + distance * f64::from(k % 5 - 2)).collect();
            let (mut cholesky, mut factor) = (Cholesky::new(theta.len()), RoundedFactor::new());
            let there = setting.rows(&moved)?;
            assert!(factor_rows(&*there, &mut scratch, prior, &mut cholesky) && factor.round(&cholesky));
            let (mut system, mut memory) = (System::new(Space::Weights, &*rows), Memory::default());
            for turn in 1..6 {
                let force: Vec<f64> = (0..2000).map(|n| f64::from((turn * n) % 17 - 8)).collect();
                let speed = 30.0;
                system.set_force(&*rows, &mut scratch, prior, &force, speed);
                let (mut solution, rhs) = (system.rhs.clone(), system.rhs.clone());
                exact.solve(&mut solution);
                let rule = StoppingRule { tolerance, max_products: 500 };
                let end = system.solve(&*rows, &mut scratch, prior, Some((&factor, &mut memory)), rule);
                // With A = I the unknowns are the accelerations, and S is G.
                let error = length(&*rows, &mut scratch, &difference(&solution, &system.solution));
                let error = error / (speed + SHARE_OF_ACCELERATION * dot(&system.solution, &rhs).sqrt());
                let case = format!("{distance} {tolerance} {turn}: {error:e} {end:?}");
                assert!(end.converged && end.residual <= tolerance && end.products < 400, "{case}");
                assert!(error <= 1.5 * end.residual, "{case}");
            }
        }
        Ok(())
    }
}

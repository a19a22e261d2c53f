//! G as an operator: solves and draws by conjugate gradients, and what is estimated from random vectors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use faer::{MatMut, MatRef};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::block::solve_as_block;
use super::quadrature::{self, Shared, Whitened};
use super::solves::solve_together;
use super::{is_one_scale, training_parts};
use crate::error::{Error, PosteriorError, Result};
use crate::laplace::form::{self, CovarianceForm};
use crate::laplace::problem::Problem;
use crate::laplace::structure::{Precision, SavedTensor, SavedTensors, Structure};
use crate::linalg::{StoppingRule, dot};
use crate::map::{Rows, Scratch};
use crate::prior::PriorPrecision;
use crate::random::{Purpose, fill_standard_normal, stream};

/// Solves that go in step, and whose products share the rows of a batch.
const TOGETHER: usize = 8;
/// Draws whose solves share one space; at most a quarter of the parameters.
pub(super) const BLOCK: usize = 32;
/// Numbers in the evaluator of one block of test points.
const BLOCK_NUMBERS: f64 = (1u64 << 21) as f64;
/// The relative error of the draws from which variances are estimated, in the norm of G: what it lacks of ‖v‖² ≈ D is at
/// most this, and a hundredth of the share that the data determine, where the scatter of variances is 18 %.
const VARIANCE_TOLERANCE: f64 = 5e-3;
const MISSING_SHARE: f64 = 0.01;
/// The relative residual of other draws, and of a solve.
const DRAW_TOLERANCE: f64 = 1e-5;
const SOLVE_TOLERANCE: f64 = 1e-10;
/// The most products of one solve.
const MOST_PRODUCTS: usize = 2000;

/// What a posterior estimates by chance, and how well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimates {
    /// The standard error of log det G − log det A.
    pub log_det_ratio_error: f64,
    /// The standard error of a predicted variance, relative to it.
    pub variance_error: f64,
    /// Draws that variances are estimated from.
    pub draws: usize,
    /// Products with the curvature so far, those of the fit in a file included.
    pub products: f64,
    /// The largest relative residual that conjugate gradients ended with.
    pub worst_residual: f64,
}

/// A posterior precision that is known through its products.
#[derive(Debug)]
pub(super) struct WithoutMatrix {
    shared: Arc<Shared>,
    /// K, with G = A^½(I + K)A^½.
    operator: Whitened,
    prior: PriorPrecision,
    /// αs², where there is one of each.
    scale: Option<f64>,
    spectrum: OnceLock<Spectrum>,
    /// S, and the draws themselves.
    n_draws: usize,
    draws: OnceLock<Vec<Vec<f64>>>,
    /// The bits of the largest residual, which order as the numbers do.
    worst_residual: AtomicU64,
    /// Products before a file was written.
    earlier_products: f64,
}

/// log det G − log det A, its standard error, and D − tr(AG⁻¹).
#[derive(Debug, Clone, Copy)]
struct Spectrum {
    log_det: f64,
    error: f64,
    effective: f64,
}

/// The relative residual of a solve's end.
fn rule(tolerance: f64) -> StoppingRule {
    StoppingRule { tolerance, max_products: MOST_PRODUCTS }
}

impl WithoutMatrix {
    pub(super) fn new(shared: Arc<Shared>, n_draws: usize, prior: &PriorPrecision, scales: &[f64]) -> Self {
        let weights = scales.iter().map(|scale| 1.0 / (scale * scale)).collect();
        let operator = Whitened { products: shared.operator.products.clone(), prior: Some(prior.clone()), weights };
        Self {
            shared,
            operator,
            prior: prior.clone(),
            scale: is_one_scale(prior, scales),
            spectrum: OnceLock::new(),
            n_draws,
            draws: OnceLock::new(),
            worst_residual: AtomicU64::new(0),
            earlier_products: 0.0,
        }
    }

    /// Solves (I + K)y = b.
    fn solve_whitened(&self, forces: Vec<Vec<f64>>, tolerance: f64) -> Vec<Vec<f64>> {
        let (solutions, worst) = solve_together(forces, rule(tolerance), |directions| self.operator.times(directions));
        self.worst_residual.fetch_max(worst.to_bits(), Ordering::Relaxed);
        solutions
    }

    /// Solves (I + K)y = b in one space for all b.
    fn solve_block(&self, forces: &[Vec<f64>], tolerance: f64) -> Vec<Vec<f64>> {
        let (solutions, worst) = solve_as_block(forces, rule(tolerance), |directions| self.operator.times(directions));
        self.worst_residual.fetch_max(worst.to_bits(), Ordering::Relaxed);
        solutions
    }

    /// The right-hand side of a draw for each generator: ε₁ + A^(−½)J̃ᵀε₂.
    fn forces(&self, generators: &mut [ChaCha8Rng]) -> Vec<Vec<f64>> {
        let size = self.n_params();
        let mut forces: Vec<Vec<f64>> = vec![vec![0.0; size]; generators.len()];
        for (force, generator) in forces.iter_mut().zip(generators.iter_mut()) {
            fill_standard_normal(generator, force);
        }
        let noises = self.operator.products.noise(&self.operator.weights, generators);
        for (force, mut noise) in forces.iter_mut().zip(noises) {
            self.operator.unwhiten(&mut noise);
            force.iter_mut().zip(&noise).for_each(|(value, noise)| *value += noise);
        }
        forces
    }

    /// Draws v = A^(−½)y with (I + K)y = b.
    fn unwhitened(&self, mut draws: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        draws.iter_mut().for_each(|draw| self.operator.unwhiten(draw));
        draws
    }

    /// The draws that variances are estimated from.
    fn draws(&self) -> &[Vec<f64>] {
        self.draws.get_or_init(|| {
            let mut generators: Vec<ChaCha8Rng> =
                (0..self.n_draws).map(|index| stream(0, Purpose::VarianceDraw, index as u64)).collect();
            let size = self.n_params() as f64;
            let determined = (self.spectrum().effective / size).clamp(0.0, 1.0);
            let tolerance = VARIANCE_TOLERANCE.min((MISSING_SHARE * determined).sqrt()).max(DRAW_TOLERANCE);
            let block = BLOCK.min(self.n_params() / 4).max(1);
            let solve = |part: &mut [ChaCha8Rng]| self.unwhitened(self.solve_block(&self.forces(part), tolerance));
            generators.chunks_mut(block).flat_map(solve).collect()
        })
    }

    fn spectrum(&self) -> Spectrum {
        *self.spectrum.get_or_init(|| {
            let estimate = match self.scale {
                Some(scale) => self.shared.estimate(scale),
                None => quadrature::estimate(&self.operator, self.shared.plan()),
            };
            Spectrum { log_det: estimate.log_det, error: estimate.log_det_error, effective: estimate.effective }
        })
    }
}

impl Precision for WithoutMatrix {
    fn n_params(&self) -> usize {
        self.operator.size()
    }

    fn log_det_ratio(&self) -> f64 {
        self.spectrum().log_det
    }

    fn effective_parameters(&self) -> f64 {
        self.spectrum().effective
    }

    fn estimates(&self) -> Option<Estimates> {
        let error = self.spectrum().error;
        Some(Estimates {
            log_det_ratio_error: error,
            variance_error: (2.0 / self.n_draws as f64).sqrt(),
            draws: self.n_draws,
            products: self.earlier_products + self.operator.products.count(),
            worst_residual: f64::from_bits(self.worst_residual.load(Ordering::Relaxed)),
        })
    }

    fn structure(&self) -> Structure {
        Structure::MatrixFree(self.n_draws)
    }

    fn times(&self, direction: &[f64], product: &mut [f64]) {
        product.copy_from_slice(direction);
        self.prior.multiply(product);
        for image in self.operator.products.times(&self.operator.weights, &[direction]) {
            product.iter_mut().zip(&image).for_each(|(value, image)| *value += image);
        }
    }

    fn solve(&self, rhs: &[f64], solution: &mut [f64]) {
        let mut force = rhs.to_vec();
        self.operator.unwhiten(&mut force);
        for solved in self.solve_whitened(vec![force], SOLVE_TOLERANCE) {
            solution.copy_from_slice(&solved);
        }
        self.operator.unwhiten(solution);
    }

    fn solve_within(&self, tolerance: f64, rhs: &[f64], solution: &mut [f64]) {
        let mut force = rhs.to_vec();
        self.operator.unwhiten(&mut force);
        for solved in self.solve_block(&[force], tolerance.max(DRAW_TOLERANCE)) {
            solution.copy_from_slice(&solved);
        }
        self.operator.unwhiten(solution);
    }

    fn sample(&self, generator: &mut ChaCha8Rng, draw: &mut [f64]) {
        let forces = self.forces(std::slice::from_mut(generator));
        for drawn in self.unwhitened(self.solve_whitened(forces, DRAW_TOLERANCE)) {
            draw.copy_from_slice(&drawn);
        }
    }

    /// CG⁻¹Cᵀ = BᵀY with B = A^(−½)Cᵀ and (I + K)Y = B: a solve for every row.
    fn covariance(&self, rows: MatRef<'_, f64>, mut covariance: MatMut<'_, f64>) {
        let force = |i: usize| {
            let mut force: Vec<f64> = rows.row(i).iter().copied().collect();
            self.operator.unwhiten(&mut force);
            force
        };
        let forces: Vec<Vec<f64>> = (0..rows.nrows()).map(force).collect();
        let solved: Vec<Vec<f64>> =
            forces.chunks(TOGETHER).flat_map(|part| self.solve_whitened(part.to_vec(), SOLVE_TOLERANCE)).collect();
        for i in 0..forces.len() {
            for j in 0..=i {
                let value = 0.5 * (dot(&forces[i], &solved[j]) + dot(&forces[j], &solved[i]));
                (covariance[(i, j)], covariance[(j, i)]) = (value, value);
            }
        }
    }

    /// From the draws: S⁻¹ Σ_s (Jv_s)(Jv_s)ᵀ at each point.
    fn point_covariances(&self, rows: &dyn Rows, points: usize, covariances: &mut [f64]) {
        let p = rows.n_rows() / points.max(1);
        let image = |draw: &Vec<f64>| {
            let mut image = vec![0.0; rows.n_rows()];
            rows.times(draw, &mut image, &mut Scratch::default());
            image
        };
        let images: Vec<Vec<f64>> = self.draws().par_iter().map(image).collect();
        covariances.fill(0.0);
        for (n, block) in covariances.chunks_exact_mut((p * p).max(1)).enumerate() {
            for image in &images {
                for (index, entry) in block.iter_mut().enumerate() {
                    *entry += image[(index / p) * points + n] * image[(index % p) * points + n] / self.n_draws as f64;
                }
            }
        }
    }

    fn points_at_once(&self, n_outputs: usize, numbers_per_point: f64) -> usize {
        (BLOCK_NUMBERS / (numbers_per_point + (self.n_draws * n_outputs) as f64).max(1.0)) as usize
    }

    fn form(&self) -> Result<CovarianceForm> {
        Ok(form::of_draws(self.draws()))
    }

    fn size_in_words(&self) -> String {
        let products = self.earlier_products + self.operator.products.count();
        format!("no matrix; {products:.0} products with the curvature, variances from {} draws", self.n_draws)
    }

    fn settle(&self) -> Result<()> {
        self.draws();
        self.operator.products.check_team()
    }

    fn on_own_data(&self, problem: &Problem) -> Result<Option<Arc<dyn Precision>>> {
        if !self.operator.products.is_shared() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self {
            earlier_products: self.earlier_products + self.operator.products.count(),
            worst_residual: AtomicU64::new(self.worst_residual.load(Ordering::Relaxed)),
            spectrum: self.spectrum.clone(),
            draws: self.draws.clone(),
            ..Self::new(
                training_parts(problem, self.n_draws)?.shared().clone(),
                self.n_draws,
                &self.prior,
                &problem.scales(),
            )
        })))
    }

    fn save(&self) -> Vec<SavedTensor> {
        let draws = self.draws().concat();
        let Spectrum { log_det, error, effective } = self.spectrum();
        let estimates = self.estimates().map_or([0.0; 2], |known| [known.products, known.worst_residual]);
        let numbers = vec![log_det, error, effective, estimates[0], estimates[1]];
        vec![
            SavedTensor { name: "draws".to_string(), shape: vec![self.n_draws, self.n_params()], values: draws },
            SavedTensor { name: "estimates".to_string(), shape: vec![numbers.len()], values: numbers },
        ]
    }
}

/// The precision of a file: its draws and its estimates, and the data for further products.
pub(super) fn load(
    problem: &Problem,
    n_draws: usize,
    prior: &PriorPrecision,
    file: &mut dyn SavedTensors,
) -> Result<Arc<dyn Precision>> {
    let size = problem.model.n_params();
    let draws = file.take("draws", &[n_draws, size])?;
    let numbers = file.take("estimates", &[5])?;
    if let Some(entry) = draws.iter().chain(&numbers).position(|value| !value.is_finite()) {
        return Err(Error::Posterior(PosteriorError::StoredFactor { entry }));
    }
    let parts = training_parts(problem, n_draws)?;
    let loaded = WithoutMatrix {
        earlier_products: numbers[3],
        worst_residual: AtomicU64::new(numbers[4].to_bits()),
        spectrum: OnceLock::from(Spectrum { log_det: numbers[0], error: numbers[1], effective: numbers[2] }),
        draws: OnceLock::from(draws.chunks_exact(size.max(1)).map(<[f64]>::to_vec).collect::<Vec<_>>()),
        ..WithoutMatrix::new(parts.shared().clone(), n_draws, prior, &problem.scales())
    };
    Ok(Arc::new(loaded))
}

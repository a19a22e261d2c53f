//! Function space: the same posterior through the M × M matrix S = I + J̃A⁻¹J̃ᵀ. Exact, and linear in D.
//!
//! - log det G − log det A = log det S
//! - G⁻¹b = A⁻¹(b − J̃ᵀS⁻¹J̃A⁻¹b), refined once: the difference cancels where the data outweigh the prior
//! - v = A^(−½)ε₁ + A⁻¹J̃ᵀS⁻¹(ε₂ − J̃A^(−½)ε₁) is a draw from N(0, G⁻¹)
//! - C G⁻¹Cᵀ = r A⁻¹rᵀ + ssᵀ with sᵀ = S⁻¹J̃A⁻¹Cᵀ, r = C − sJ̃: a sum of squares, where the difference
//!   CA⁻¹Cᵀ − (CA⁻¹J̃ᵀ)S⁻¹(J̃A⁻¹Cᵀ) would cancel.

use faer::{Mat, MatMut, MatRef};
use rand_chacha::ChaCha8Rng;

use super::precision::{Precision, PrecisionWorker};
use crate::error::{Error, Result, Unsupported};
use crate::linalg::{Cholesky, FailedPivot, dot};
use crate::map::DifferentiableMap;
use crate::network::{NetworkMap, NetworkWorkspace};
use crate::prior::PriorPrecision;
use crate::random::fill_standard_normal;

/// A network's posterior held by its layer inputs, its sensitivities and the factor of S.
#[derive(Debug, Clone)]
pub struct FunctionSpace {
    map: NetworkMap,
    workspace: NetworkWorkspace,
    cholesky: Cholesky,
    prior: PriorPrecision,
}

impl FunctionSpace {
    /// Builds and factors S from a workspace in which the whitened rows J̃ have been pulled back.
    pub fn new(map: NetworkMap, mut workspace: NetworkWorkspace, prior: &PriorPrecision) -> Result<Self> {
        if !prior.is_proper() {
            return Err(Error::Unsupported(Unsupported::ImproperPrior));
        }
        let size = map.n_points() * workspace.columns();
        let mut cholesky = Cholesky::new(size);
        map.gram(&prior.variances(), &mut workspace, cholesky.matrix_mut());
        let mut system = cholesky.matrix_mut();
        for m in 0..size {
            system[(m, m)] += 1.0;
        }
        cholesky.factor().map_err(|FailedPivot(pivot)| Error::NotPositiveDefinite {
            matrix: "the function-space system I + J̃A⁻¹J̃ᵀ",
            size,
            pivot,
            advice: "check the data and the network's outputs for extreme values, or raise the prior precision",
        })?;
        Ok(Self { map, workspace, cholesky, prior: prior.clone() })
    }

    /// Prior and posterior (co)variance between the rows of another set of inputs, from layer products alone:
    /// k − cᵀS⁻¹c with k = CA⁻¹Cᵀ and c = J̃A⁻¹Cᵀ. Cheap, and exact up to rounding relative to k.
    pub(crate) fn predictive_covariance(
        &self,
        rows: &NetworkMap,
        rows_workspace: &mut NetworkWorkspace,
        prior_covariance: &mut Mat<f64>,
        covariance: &mut Mat<f64>,
    ) {
        let size = rows.n_points() * rows_workspace.columns();
        let variances = self.prior.variances();
        rows.gram(&variances, rows_workspace, prior_covariance.as_mut());
        let mut cross = Mat::zeros(self.cholesky.size(), size);
        self.map.cross_gram(&self.workspace, rows, rows_workspace, &variances, cross.as_mut());
        self.cholesky.solve_lower_many(cross.as_mut());
        covariance.copy_from(&*prior_covariance);
        crate::linalg::mirror_lower(covariance);
        let minus = -1.0;
        faer::linalg::matmul::matmul(
            covariance.as_mut(),
            faer::Accum::Add,
            cross.transpose(),
            cross.as_ref(),
            minus,
            crate::linalg::parallelism((size * size) as f64 * cross.nrows() as f64),
        );
    }
}

impl Precision for FunctionSpace {
    fn n_params(&self) -> usize {
        self.map.n_params()
    }

    fn log_det_ratio(&self) -> f64 {
        self.cholesky.log_det()
    }

    /// M − tr S⁻¹.
    fn effective_parameters(&self) -> f64 {
        let size = self.cholesky.size();
        let mut inverse_root: Mat<f64> = Mat::identity(size, size);
        self.cholesky.solve_lower_many(inverse_root.as_mut());
        let trace: f64 = inverse_root.col_iter().map(|column| column.squared_norm_l2()).sum();
        size as f64 - trace
    }

    fn solver(&self) -> &'static str {
        "function-space"
    }

    fn worker(&self) -> Box<dyn PrecisionWorker + Send + '_> {
        Box::new(FunctionSpaceWorker {
            posterior: self,
            workspace: self.workspace.clone(),
            outputs: vec![0.0; self.cholesky.size()],
            noise: vec![0.0; self.cholesky.size()],
        })
    }
}

struct FunctionSpaceWorker<'a> {
    posterior: &'a FunctionSpace,
    workspace: NetworkWorkspace,
    outputs: Vec<f64>,
    noise: Vec<f64>,
}

impl FunctionSpaceWorker<'_> {
    /// A⁻¹(b − J̃ᵀS⁻¹J̃A⁻¹b).
    fn solve_once(&mut self, rhs: &[f64], solution: &mut [f64]) {
        let FunctionSpace { map, prior, .. } = self.posterior;
        let mut scaled = rhs.to_vec();
        prior.divide(&mut scaled);
        map.times(&scaled, &mut self.workspace, &mut self.outputs);
        self.correct(solution);
        for (value, scaled) in solution.iter_mut().zip(&scaled) {
            *value = scaled - *value;
        }
    }

    /// outputs ← S⁻¹ outputs, solution ← A⁻¹J̃ᵀ outputs.
    fn correct(&mut self, solution: &mut [f64]) {
        self.posterior.cholesky.solve(&mut self.outputs);
        self.posterior.map.transpose_times(&self.outputs, &mut self.workspace, solution);
        self.posterior.prior.divide(solution);
    }
}

impl PrecisionWorker for FunctionSpaceWorker<'_> {
    fn times(&mut self, direction: &[f64], product: &mut [f64]) {
        let FunctionSpace { map, prior, .. } = self.posterior;
        map.times(direction, &mut self.workspace, &mut self.outputs);
        map.transpose_times(&self.outputs, &mut self.workspace, product);
        prior.for_each_group(|range, alpha| {
            for d in range {
                product[d] += alpha * direction[d];
            }
        });
    }

    /// One step of iterative refinement squares the relative error of the plain formula.
    fn solve(&mut self, rhs: &[f64], solution: &mut [f64]) {
        self.solve_once(rhs, solution);
        let mut residual = vec![0.0; rhs.len()];
        self.times(solution, &mut residual);
        for (value, rhs) in residual.iter_mut().zip(rhs) {
            *value = rhs - *value;
        }
        let mut correction = vec![0.0; rhs.len()];
        self.solve_once(&residual, &mut correction);
        for (value, change) in solution.iter_mut().zip(&correction) {
            *value += change;
        }
    }

    fn sample(&mut self, generator: &mut ChaCha8Rng, draw: &mut [f64]) {
        let FunctionSpace { map, prior, .. } = self.posterior;
        let mut prior_draw = vec![0.0; draw.len()];
        fill_standard_normal(generator, &mut prior_draw);
        fill_standard_normal(generator, &mut self.noise);
        prior.divide_by_root(&mut prior_draw);
        map.times(&prior_draw, &mut self.workspace, &mut self.outputs);
        for (value, noise) in self.outputs.iter_mut().zip(&self.noise) {
            *value = noise - *value;
        }
        self.correct(draw);
        for (value, prior_value) in draw.iter_mut().zip(&prior_draw) {
            *value += prior_value;
        }
    }

    fn covariance(&mut self, rows: MatRef<'_, f64>, mut covariance: MatMut<'_, f64>) {
        let FunctionSpace { map, prior, cholesky, .. } = self.posterior;
        let (count, size) = (rows.nrows(), cholesky.size());
        let mut responses = vec![vec![0.0; size]; count];
        let mut remainders = vec![vec![0.0; map.n_params()]; count];
        let mut scaled = vec![0.0; map.n_params()];
        let mut explained = vec![0.0; map.n_params()];
        for (i, (response, remainder)) in responses.iter_mut().zip(&mut remainders).enumerate() {
            for (value, entry) in remainder.iter_mut().zip(rows.row(i).iter()) {
                *value = *entry;
            }
            scaled.copy_from_slice(remainder);
            prior.divide(&mut scaled);
            map.times(&scaled, &mut self.workspace, response);
            cholesky.solve(response);
            map.transpose_times(response, &mut self.workspace, &mut explained);
            for (value, share) in remainder.iter_mut().zip(&explained) {
                *value -= share;
            }
            prior.divide_by_root(remainder);
        }
        for i in 0..count {
            for j in 0..=i {
                let value = dot(&responses[i], &responses[j]) + dot(&remainders[i], &remainders[j]);
                covariance[(i, j)] = value;
                covariance[(j, i)] = value;
            }
        }
    }
}

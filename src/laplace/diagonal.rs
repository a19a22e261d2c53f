//! The diagonal of the curvature: G = A + diag(Σₙ JₙᵀHₙJₙ). It has D numbers, whatever the network; correlations
//! between weights are ignored, so variances are rough. Suitable for a first look, or where nothing else fits.

use std::any::Any;
use std::sync::Arc;

use faer::{MatMut, MatRef};
use rand_chacha::ChaCha8Rng;

use super::form::CovarianceForm;
use super::problem::{BatchRows, Problem};
use super::structure::{
    Curvature, LogDet, LogDetForm, LogDetRatio, Precision, SavedTensor, SavedTensors, Spectrum, Structure, damaged,
    same_kind,
};
use crate::error::{Error, Result};
use crate::map::{BlockCovariance, BlockShape, MatrixCovariance, Rows};
use crate::prior::PriorPrecision;
use crate::random::fill_standard_normal;

/// Numbers in the evaluator and in dense rows of one block of test points.
const BLOCK_NUMBERS: f64 = (1u64 << 21) as f64;

/// The number of f64 values held at the peak: the sums of a block of rows and of all rows, G, and its inverse.
pub(super) fn numbers(problem: &Problem) -> f64 {
    problem.model.n_params() as f64 * (2 * problem.sigmas().len() + 2) as f64
}

/// The precisions and their inverses.
pub(super) fn loaded_numbers(problem: &Problem) -> f64 {
    2.0 * problem.model.n_params() as f64
}

pub(super) fn begin(problem: &Problem) -> Result<Box<dyn Curvature>> {
    let sums = vec![vec![0.0; problem.model.n_params()]; problem.sigmas().len()];
    Ok(Box::new(DiagonalSums { sums, groups: problem.model.group_sizes(), shapes: problem.model.blocks().into() }))
}

pub(super) fn load_sums(problem: &Problem, file: &mut dyn SavedTensors) -> Result<Box<dyn Curvature>> {
    let levels = if file.has("1") { problem.model.n_outputs() } else { 1 };
    let mut sums = Vec::with_capacity(levels);
    for level in 0..levels {
        sums.push(file.take(&level.to_string(), &[problem.model.n_params()])?);
    }
    Ok(Box::new(DiagonalSums { sums, groups: problem.model.group_sizes(), shapes: problem.model.blocks().into() }))
}

pub(super) fn load(
    problem: &Problem,
    prior: &PriorPrecision,
    file: &mut dyn SavedTensors,
) -> Result<Arc<dyn Precision>> {
    let precisions = file.take("precision", &[problem.model.n_params()])?;
    damaged(precisions.iter().copied())?;
    Ok(Arc::new(Diagonal { precisions, prior: prior.clone(), shapes: problem.model.blocks().into() }))
}

/// The diagonals of Σₙ JₙᵀHₙJₙ at σ = 1: one for all outputs, or one per output.
#[derive(Debug, Clone)]
struct DiagonalSums {
    sums: Vec<Vec<f64>>,
    /// The sizes of the groups of parameters.
    groups: Vec<usize>,
    shapes: Arc<[BlockShape]>,
}

impl DiagonalSums {
    /// Σ_p C_p/σ_p², with one σ or one per output.
    fn total(&self, sigma: &[f64]) -> Vec<f64> {
        let mut total = vec![0.0; self.groups.iter().sum()];
        for (sum, sigma) in self.sums.iter().zip(sigma.iter().cycle()) {
            total.iter_mut().zip(sum).for_each(|(entry, value)| *entry += value / (sigma * sigma));
        }
        total
    }
}

impl Curvature for DiagonalSums {
    /// Adds the squares of the rows' entries.
    fn accumulate(&mut self, batch: &BatchRows<'_>) -> Result<()> {
        let levels = self.sums.len();
        for (sum, rows) in self.sums.iter_mut().zip(batch.rows_of_levels(levels)) {
            rows?.add_squares(sum);
        }
        Ok(())
    }

    fn merge(&mut self, later: Box<dyn Curvature>) -> Result<()> {
        let later = same_kind::<Self>(later)?;
        for (sum, other) in self.sums.iter_mut().zip(&later.sums) {
            sum.iter_mut().zip(other).for_each(|(entry, value)| *entry += value);
        }
        Ok(())
    }

    fn n_levels(&self) -> usize {
        self.sums.len()
    }

    fn numbers_per_point(&self) -> f64 {
        largest_dense(&self.shapes) as f64
    }

    fn factor(&self, prior: &PriorPrecision, sigma: &[f64]) -> Result<Arc<dyn Precision>> {
        let mut precisions = self.total(sigma);
        prior.for_each_group(|range, alpha| precisions[range].iter_mut().for_each(|entry| *entry += alpha));
        Ok(Arc::new(Diagonal::of_precisions(precisions, prior, self.shapes.clone())?))
    }

    fn log_det(&self, form: LogDetForm) -> Result<Box<dyn LogDet>> {
        match form {
            LogDetForm::Shared => Ok(Box::new(Spectrum::new(self.total(&[1.0])))),
            LogDetForm::General { prior } => Ok(Box::new(Self { groups: prior.shares(&self.groups), ..self.clone() })),
        }
    }

    fn duplicate(&self) -> Box<dyn Curvature> {
        Box::new(self.clone())
    }

    fn save(&self) -> Option<Vec<SavedTensor>> {
        let saved = |(level, sum): (usize, &Vec<f64>)| SavedTensor {
            name: level.to_string(),
            shape: vec![sum.len()],
            values: sum.clone(),
        };
        Some(self.sums.iter().enumerate().map(saved).collect())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl LogDet for DiagonalSums {
    /// With c_d = Σ_p C_pd/σ_p²: Σ log(1 + c_d/α), ∂/∂log α_l = −Σ_{d∈l} c_d/(c_d + α_l) and ∂/∂log σ_p = −2 Σ_d
    /// (C_pd/σ_p²)/(c_d + α).
    fn evaluate(&self, log_alpha: &[f64], log_sigma: &[f64]) -> Option<LogDetRatio> {
        let alpha = log_alpha.iter().map(|value| value.exp()).collect();
        let prior = PriorPrecision::per_group(alpha, &self.groups).ok()?;
        let sigma: Vec<f64> = match log_sigma {
            [] => vec![1.0],
            _ => log_sigma.iter().map(|value| value.exp()).collect(),
        };
        let total = self.total(&sigma);
        let (mut value, mut by_log_alpha) = (0.0, Vec::new());
        let mut variances = vec![0.0; total.len()];
        prior.for_each_group(|range, alpha| {
            let mut effective = 0.0;
            for d in range {
                value += (total[d] / alpha).ln_1p();
                variances[d] = 1.0 / (total[d] + alpha);
                effective += total[d] * variances[d];
            }
            by_log_alpha.push(-effective);
        });
        let mut by_log_sigma = vec![0.0; log_sigma.len()];
        for (level, sum) in self.sums.iter().enumerate().filter(|_| !log_sigma.is_empty()) {
            let place = if log_sigma.len() > 1 { level } else { 0 };
            let explained: f64 = sum.iter().zip(&variances).map(|(entry, variance)| entry * variance).sum();
            by_log_sigma[place] -= 2.0 * explained / (sigma[place] * sigma[place]);
        }
        value.is_finite().then_some(LogDetRatio { value, by_log_alpha, by_log_sigma })
    }
}

/// A diagonal precision matrix.
#[derive(Debug, Clone)]
pub struct Diagonal {
    precisions: Vec<f64>,
    prior: PriorPrecision,
    shapes: Arc<[BlockShape]>,
}

/// The parameters of the largest block that is not a matrix, whose rows are dense.
fn largest_dense(shapes: &[BlockShape]) -> usize {
    let size = |shape: &BlockShape| match shape {
        BlockShape::Matrix { .. } => 0,
        BlockShape::Dense { size } => *size,
    };
    shapes.iter().map(size).max().unwrap_or(0)
}

impl Diagonal {
    /// G = diag(precisions), with A the prior's share of it.
    fn of_precisions(precisions: Vec<f64>, prior: &PriorPrecision, shapes: Arc<[BlockShape]>) -> Result<Self> {
        match precisions.iter().position(|value| !(*value > 0.0 && value.is_finite())) {
            None => Ok(Self { precisions, prior: prior.clone(), shapes }),
            Some(pivot) => Err(Error::NotPositiveDefinite {
                matrix: "the diagonal posterior precision",
                size: precisions.len(),
                pivot,
                advice: "raise the prior precision, or check the data and the network's outputs for extreme values",
            }),
        }
    }
}

impl Diagonal {
    /// The variances of each block.
    fn blocks(&self) -> Vec<BlockCovariance> {
        let mut rest = self.precisions.as_slice();
        self.shapes
            .iter()
            .map(|shape| {
                let (own, others) = rest.split_at(shape.size());
                rest = others;
                let variances: Vec<f64> = own.iter().map(|precision| 1.0 / precision).collect();
                match *shape {
                    BlockShape::Dense { .. } => BlockCovariance::Diagonal(variances),
                    BlockShape::Matrix { outputs, inputs, bias } => {
                        let (weights, biases) = variances.split_at(outputs * inputs);
                        let variances = MatRef::from_column_major_slice(weights, inputs, outputs).to_owned();
                        let bias = bias.then(|| biases.to_vec());
                        BlockCovariance::Matrix(MatrixCovariance { bases: None, variances, bias })
                    }
                }
            })
            .collect()
    }
}

impl Precision for Diagonal {
    fn n_params(&self) -> usize {
        self.precisions.len()
    }

    fn log_det_ratio(&self) -> f64 {
        let mut sum = 0.0;
        self.prior.for_each_group(|range, alpha| {
            sum += self.precisions[range].iter().map(|value| (value / alpha).ln()).sum::<f64>();
        });
        sum
    }

    fn effective_parameters(&self) -> f64 {
        let mut prior_share = 0.0;
        self.prior.for_each_group(|range, alpha| {
            prior_share += self.precisions[range].iter().map(|value| alpha / value).sum::<f64>();
        });
        self.n_params() as f64 - prior_share
    }

    fn structure(&self) -> Structure {
        Structure::Diagonal
    }

    fn times(&self, direction: &[f64], product: &mut [f64]) {
        let pairs = direction.iter().zip(&self.precisions);
        product.iter_mut().zip(pairs).for_each(|(out, (value, precision))| *out = value * precision);
    }

    fn solve(&self, rhs: &[f64], solution: &mut [f64]) {
        let pairs = rhs.iter().zip(&self.precisions);
        solution.iter_mut().zip(pairs).for_each(|(out, (value, precision))| *out = value / precision);
    }

    fn sample(&self, generator: &mut ChaCha8Rng, draw: &mut [f64]) {
        fill_standard_normal(generator, draw);
        draw.iter_mut().zip(&self.precisions).for_each(|(value, precision)| *value /= precision.sqrt());
    }

    fn covariance(&self, rows: MatRef<'_, f64>, mut covariance: MatMut<'_, f64>) {
        for i in 0..rows.nrows() {
            for j in 0..=i {
                let products = rows.row(i).iter().zip(rows.row(j).iter()).zip(&self.precisions);
                let value = products.map(|((a, b), precision)| a * b / precision).sum();
                covariance[(i, j)] = value;
                covariance[(j, i)] = value;
            }
        }
    }

    fn point_covariances(&self, rows: &dyn Rows, points: usize, covariances: &mut [f64]) {
        covariances.fill(0.0);
        rows.add_point_covariances(points, &self.blocks(), covariances);
    }

    fn points_at_once(&self, n_outputs: usize, numbers_per_point: f64) -> usize {
        let dense = (largest_dense(&self.shapes) * n_outputs) as f64;
        (BLOCK_NUMBERS / (2.0 * numbers_per_point + dense).max(1.0)) as usize
    }

    fn form(&self) -> Result<CovarianceForm> {
        Ok(CovarianceForm::Blocks(self.blocks()))
    }

    fn size_in_words(&self) -> String {
        format!("{} variances", self.n_params())
    }

    fn save(&self) -> Vec<SavedTensor> {
        let (shape, values) = (vec![self.n_params()], self.precisions.clone());
        vec![SavedTensor { name: "precision".to_string(), shape, values }]
    }
}

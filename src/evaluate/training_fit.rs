//! How a model fits the data of its own posterior: what betrays a network that was not read as it was trained.
//!
//! A trained network is near a mode of its data. With g = ∇ Σₙ log p(yₙ | fₙ) at θ̂ and the posterior precision G, a
//! Newton step θ̂ + G⁻¹g would lower the deviance Δ = 2 Σₙ [max log p(yₙ | ·) − log p(yₙ | fₙ)] by about gᵀG⁻¹g. The
//! *gradient norm* here is √(gᵀG⁻¹g/Δ), which has no unit: for a Gaussian it is the share of the residuals' norm that a
//! linear change of the weights would remove, whatever σ and the scale of the targets. Where G is an approximation, it is the
//! decrease along the same step s = G⁻¹g that counts, (gᵀs)²/(sᵀG̃s) with the exact G̃: a precision that is too small in
//! some direction would promise too much there.
//!
//! Two things are said of a network that is not at a mode. The step would remove more than half of Δ, and more than a
//! tenth of the deviance of a constant (a network that explains 99.9 % of its data need not be at the very mode). Or,
//! where the outputs have biases, the scores sₙ = ∂ log p/∂fₙ of an output do not add up to zero, as they do as soon as
//! its bias is trained: |Σ sₙ|/√(Σ sₙ²) is above 2.5, where it would be about 1 by chance.
//!
//! The bounds were chosen on networks that were read rightly and wrongly (`tests/fixtures/misread`). Over eight data
//! sets, with weight decays up to 1e-2 and as few as 60 epochs in mini-batches, the right ones reached a share of the
//! constant's deviance of 0.116 (there with a third of their own, below the other bound; 0.075 otherwise) and, on the five
//! sets where it was recorded, a score of 1.6.

use faer::Mat;

use super::deviance::TargetSums;
use crate::data::{Batch, Batches, sum_over_blocks, sum_over_blocks_at_once};
use crate::error::{Error, Result};
use crate::laplace::{Laplace, Structure};
use crate::likelihood::{RowLikelihood, TargetKind, likelihood_of};
use crate::map::{Evaluator, Jet, frozen_rows, identity_seeds};
use crate::prior::{Prior, PriorPrecision};
use crate::target::Target;
use crate::team::Sums;

/// The least share of the deviance that a Newton step removes away from a mode.
const LEAST_SHARE: f64 = 0.5;
/// The same, of the deviance of a constant.
const LEAST_GAIN: f64 = 0.1;
/// The least |Σ sₙ|/√(Σ sₙ²) away from a mode.
const LEAST_SCORE: f64 = 2.5;

/// The relative error of a Newton step where it is an iteration: that of the deviance it removes is its square.
const STEP_TOLERANCE: f64 = 3e-3;

/// The numbers that an evaluator holds at a time.
const BATCH_NUMBERS: f64 = (1_u64 << 22) as f64;
/// The rows that are read at a time where only the targets count.
const BATCH_ROWS: usize = 4096;

/// How a model fits the data of its posterior.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingFit {
    /// √(gᵀG⁻¹g/Δ): 0 at a mode.
    pub gradient_norm: f64,
    /// The largest |Σ sₙ|/√(Σ sₙ²) among the outputs: 0 at a mode; `None` where the outputs have no biases.
    pub output_score: Option<f64>,
    /// 1 − Δ/Δ₀, with Δ₀ the deviance of the best constant outputs: for a Gaussian R², 0 for a constant and 1 for a
    /// perfect fit.
    pub explained: f64,
    /// The error in terms of the targets.
    pub error: TrainingError,
}

/// The error in terms of the targets.
#[derive(Debug, Clone, PartialEq)]
pub enum TrainingError {
    /// Of real targets: root mean squared errors, and the targets' standard deviations, in the units of the data.
    Deviations {
        /// One root mean squared error per target.
        rmse: Vec<f64>,
        /// One standard deviation per target.
        spread: Vec<f64>,
    },
    /// Of classes: shares of the data points.
    Accuracy {
        /// Those whose class is the most probable one.
        accuracy: f64,
        /// Those of the most frequent class.
        most_frequent: f64,
    },
    /// Of counts.
    Counts,
}

impl TrainingFit {
    /// Computes it from a posterior with its training data.
    pub fn of(laplace: &Laplace) -> Result<Self> {
        let at_features = laplace.at_features();
        let laplace = at_features.as_ref().unwrap_or(laplace);
        let data = laplace.data().ok_or(Error::NoTrainingData { what: "the fit to the training data" })?;
        Self::over(laplace, data)
    }

    /// Computes it from a posterior and the data that it was fitted to, in two passes over them.
    pub fn over(laplace: &Laplace, data: &dyn Batches) -> Result<Self> {
        let targets = target_sums(laplace, data)?;
        let sums = FitSums::over(laplace, data, &targets)?;
        let (deviance, of_constant) = match sums.unbounded == 0.0 {
            // Where a density has no greatest value, as with outputs that are variances, the means are judged, in units of the
            // targets' variances.
            false => {
                let unit = |spread: &f64| (spread / targets.n).max(f64::MIN_POSITIVE);
                let total = |errors: &[f64]| errors.iter().zip(&sums.spread).map(|(e, s)| e / unit(s)).sum::<f64>();
                (total(&sums.errors), total(&sums.spread))
            }
            true => (sums.deviance, sums.of_constant),
        };
        let mut step = vec![0.0; sums.gradient.len()];
        laplace.precision().solve_within(STEP_TOLERANCE, &sums.gradient, &mut step);
        let along: f64 = sums.gradient.iter().zip(&step).map(|(g, s)| g * s).sum();
        // Along the step of an approximate precision, the best point of the exact quadratic is elsewhere.
        let decrement = match laplace.structure() {
            Structure::WeightSpace | Structure::FunctionSpace | Structure::MatrixFree(_) => along,
            _ => along * along / curvature_along(laplace, data, &step)?.max(f64::MIN_POSITIVE),
        };
        let ratio = |(sum, square): (&f64, &f64)| sum.abs() / square.sqrt().max(f64::MIN_POSITIVE);
        let output_score = || sums.scores.iter().zip(&sums.squared_scores).map(ratio).fold(0.0, f64::max);
        Ok(Self {
            output_score: has_output_biases(laplace, data)?.then(output_score),
            gradient_norm: (decrement.max(0.0) / deviance.max(f64::MIN_POSITIVE)).sqrt(),
            explained: 1.0 - deviance / of_constant.max(f64::MIN_POSITIVE),
            error: error(laplace, &targets, &sums),
        })
    }

    /// The share of a constant's deviance that a Newton step would remove.
    pub fn gain(&self) -> f64 {
        self.gradient_norm.powi(2) * (1.0 - self.explained)
    }

    /// Whether the weights are near a mode of the data.
    pub fn is_at_mode(&self) -> bool {
        let steep = self.gradient_norm.powi(2) > LEAST_SHARE && self.gain() > LEAST_GAIN;
        !steep && self.biased_outputs().is_none()
    }

    /// |Σ sₙ|/√(Σ sₙ²), where it is too large for an output whose bias is trained.
    pub fn biased_outputs(&self) -> Option<f64> {
        self.output_score.filter(|score| *score > LEAST_SCORE)
    }

    /// Whether the network explains more than constant outputs would.
    pub fn beats_constant(&self) -> bool {
        self.explained > 0.0
    }
}

/// Whether the last parameters are biases of the outputs: ∂f/∂b = I.
fn has_output_biases(laplace: &Laplace, data: &dyn Batches) -> Result<bool> {
    let model = laplace.model();
    let Some(first) = data.batches(0..1, 1)?.next() else { return Ok(false) };
    let map = model.bind(first?.inputs.view())?;
    let (p, d) = (map.n_outputs(), map.n_params());
    if d < p {
        return Ok(false);
    }
    let rows = frozen_rows(&map, model.parameters(), p, |_| Ok(identity_seeds(1, p)))?;
    let mut last = Mat::zeros(p, p);
    rows.columns(&(d - p..d).collect::<Vec<_>>(), last.as_mut());
    Ok(last == Mat::<f64>::identity(p, p))
}

/// sᵀGs with the exact G = A + Σₙ JₙᵀHₙJₙ/T at θ̂.
fn curvature_along(laplace: &Laplace, data: &dyn Batches, step: &[f64]) -> Result<f64> {
    let model = laplace.model();
    let (theta, p) = (model.parameters(), model.n_outputs());
    let rows = ((BATCH_NUMBERS / model.numbers_per_point(1).max(1.0)) as usize).max(1);
    let team = data.team().cloned().unwrap_or_default();
    let numbers = 2.0 * BATCH_NUMBERS;
    let sums = sum_over_blocks_at_once(&team, data, &Sums, numbers, |block| {
        let (mut sum, mut whitening) = (0.0, vec![0.0; p * p]);
        for batch in data.batches(block, rows)? {
            let batch = batch?;
            let (likelihood, _) = laplace.family().of_rows(batch.targets.view(), p);
            let map = model.bind(batch.inputs.view())?;
            let n = map.n_points();
            let mut jet = Jet::new(n, p);
            Evaluator::new(&map, 1).jet(theta, step, &mut jet);
            for point in 0..n {
                let of_point = |values: &[f64]| (0..p).map(|output| values[output * n + point]).collect::<Vec<f64>>();
                likelihood_of(&*likelihood, point).whitening(&of_point(&jet.outputs), &mut whitening);
                let first = of_point(&jet.first);
                let whitened = |k: usize| (0..p).map(|i| whitening[i * p + k] * first[i]).sum::<f64>();
                sum += (0..p).map(|k| whitened(k).powi(2)).sum::<f64>();
            }
        }
        Ok(vec![sum])
    })?;
    Ok(laplace.prior().quadratic(step) + sums.iter().sum::<f64>() / laplace.temperature())
}

/// Sums over the targets alone.
fn target_sums(laplace: &Laplace, data: &dyn Batches) -> Result<TargetSums> {
    let (family, p) = (laplace.family(), laplace.model().n_outputs());
    let sums = sum_over_blocks(data, &Sums, |block| {
        let mut sums = TargetSums::none(family, p);
        for batch in data.batches(block, BATCH_ROWS)? {
            batch?.targets.rows().into_iter().for_each(|row| TargetSums::add(&mut sums, family, &row.to_vec(), p));
        }
        Ok(sums)
    })?;
    Ok(TargetSums::from_numbers(family, &sums, p))
}

/// Sums over outputs and targets.
struct FitSums {
    /// ∇ Σₙ log p(yₙ | fₙ) at θ̂.
    gradient: Vec<f64>,
    /// Σ sₙ and Σ sₙ² of each output.
    scores: Vec<f64>,
    squared_scores: Vec<f64>,
    /// Σ (y − f)² and Σ (y − ȳ)² of each target.
    errors: Vec<f64>,
    spread: Vec<f64>,
    /// Δ of the outputs and of the best constant.
    deviance: f64,
    of_constant: f64,
    /// Targets that are the most probable class, or on the right side.
    right: f64,
    /// Rows whose density has no greatest value.
    unbounded: f64,
}

impl FitSums {
    fn over(laplace: &Laplace, data: &dyn Batches, targets: &TargetSums) -> Result<Self> {
        let model = laplace.model();
        let (d, p, k) = (model.n_params(), model.n_outputs(), targets.means.len());
        let rows = ((BATCH_NUMBERS / model.numbers_per_point(1).max(1.0)) as usize).max(1);
        let constant = targets.constant(laplace.family(), p);
        let team = data.team().cloned().unwrap_or_default();
        let numbers = 2.0 * BATCH_NUMBERS + 3.0 * d as f64;
        let sums = sum_over_blocks_at_once(&team, data, &Sums, numbers, |block| {
            let mut sums = Self {
                gradient: vec![0.0; d],
                scores: vec![0.0; p],
                squared_scores: vec![0.0; p],
                errors: vec![0.0; k],
                spread: vec![0.0; k],
                deviance: 0.0,
                of_constant: 0.0,
                right: 0.0,
                unbounded: 0.0,
            };
            for batch in data.batches(block, rows)? {
                sums.add(laplace, &batch?, &targets.means, &constant)?;
            }
            Ok(sums.into_numbers())
        })?;
        Ok(Self::from_numbers(&sums, d, p, k))
    }

    /// Adds a batch.
    fn add(&mut self, laplace: &Laplace, batch: &Batch<'_>, means: &[f64], constant: &[f64]) -> Result<()> {
        let (model, family) = (laplace.model(), laplace.family());
        let theta = model.parameters();
        let flat = Prior::gaussian(PriorPrecision::improper(theta.len()));
        let map = model.bind(batch.inputs.view())?;
        let (points, p) = (map.n_points(), map.n_outputs());
        let target = Target::of_rows(map, family, batch.targets.view(), flat)?;
        let mut evaluator = target.evaluator();
        let mut gradient = vec![0.0; theta.len()];
        evaluator.move_to(theta);
        evaluator.pull_back_gradient(theta, &mut gradient);
        add(&mut self.gradient, &gradient);
        let (mut output, mut score, mut mean) = (vec![0.0; p], vec![0.0; p], vec![0.0; family.likelihood().n_means(p)]);
        for (point, row) in batch.targets.rows().into_iter().enumerate() {
            for (column, value) in output.iter_mut().enumerate() {
                *value = evaluator.outputs()[column * points + point];
                if !value.is_finite() {
                    let row = batch.first_row + point;
                    return Err(Error::NotFinite { what: "the network's output", row, column });
                }
            }
            let row = row.to_vec();
            let RowLikelihood { likelihood, unweighted, target, weight } = family.of_row(&row, p);
            likelihood.gradient(target, &output, &mut score);
            add(&mut self.scores, &score);
            // Of w copies of the row.
            let squared = |score: &f64| if weight > 0.0 { score * score / weight } else { 0.0 };
            add(&mut self.squared_scores, &score.iter().map(squared).collect::<Vec<_>>());
            let squares =
                |centre: &[f64]| target.iter().zip(centre).map(|(y, c)| weight * (y - c).powi(2)).collect::<Vec<_>>();
            unweighted.mean(&output, &mut mean);
            add(&mut self.errors, &squares(&mean));
            add(&mut self.spread, &squares(means));
            let largest = likelihood.largest_log_density(target);
            self.unbounded += f64::from(u8::from(largest.is_none()));
            let best = largest.unwrap_or(0.0);
            self.deviance += 2.0 * (best - likelihood.log_density(target, &output));
            self.of_constant += 2.0 * (best - likelihood.log_density(target, constant));
            self.right += right(likelihood.kind(), &mean, target);
        }
        Ok(())
    }

    fn into_numbers(self) -> Vec<f64> {
        let last = vec![self.deviance, self.of_constant, self.right, self.unbounded];
        [self.gradient, self.scores, self.squared_scores, self.errors, self.spread, last].concat()
    }

    fn from_numbers(numbers: &[f64], d: usize, p: usize, k: usize) -> Self {
        let mut rest = numbers.iter().copied();
        let mut take = |count: usize| rest.by_ref().take(count).collect::<Vec<f64>>();
        let (gradient, scores, squared_scores, errors, spread) = (take(d), take(p), take(p), take(k), take(k));
        let mut one = || take(1).first().copied().unwrap_or(0.0);
        let (deviance, of_constant, right, unbounded) = (one(), one(), one(), one());
        Self { gradient, scores, squared_scores, errors, spread, deviance, of_constant, right, unbounded }
    }
}

fn add(sums: &mut [f64], more: &[f64]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// How many targets of a point are the most probable class, or on the right side.
fn right(kind: TargetKind, mean: &[f64], target: &[f64]) -> f64 {
    match kind {
        TargetKind::Label => {
            let better = |best: usize, class: usize| if mean[class] > mean[best] { class } else { best };
            f64::from(u8::from(target.first() == Some(&((1..mean.len()).fold(0, better) as f64))))
        }
        TargetKind::Answers => mean.iter().zip(target).filter(|(p, y)| (**p > 0.5) == (**y > 0.5)).count() as f64,
        TargetKind::Real | TargetKind::Positive | TargetKind::Count => 0.0,
    }
}

fn error(laplace: &Laplace, targets: &TargetSums, sums: &FitSums) -> TrainingError {
    let n = targets.n;
    match laplace.family().likelihood().kind() {
        TargetKind::Real | TargetKind::Positive => {
            let root = |squares: &[f64]| squares.iter().map(|sum| (sum / n).sqrt()).collect::<Vec<f64>>();
            let restore = |squares: &[f64]| laplace.schema().restore_deviations(&root(squares));
            TrainingError::Deviations { rmse: restore(&sums.errors), spread: restore(&sums.spread) }
        }
        TargetKind::Label => {
            let most = targets.counts.iter().copied().fold(0.0, f64::max);
            TrainingError::Accuracy { accuracy: sums.right / n, most_frequent: most / n }
        }
        TargetKind::Answers => {
            let (columns, ones) = (targets.means.len() as f64, targets.means.iter().sum::<f64>());
            let most_frequent = ones.max(columns - ones) / columns;
            TrainingError::Accuracy { accuracy: sums.right / (n * columns), most_frequent }
        }
        TargetKind::Count => TrainingError::Counts,
    }
}

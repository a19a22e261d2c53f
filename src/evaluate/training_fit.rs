//! How a model fits the data of its own posterior: what betrays a network that was not read as it was trained.
//!
//! A trained network is near a mode of its data. With g = ∇ Σₙ log p(yₙ | fₙ) at θ̂ and the posterior precision G, a
//! Newton step θ̂ + G⁻¹g would lower the deviance Δ = 2 Σₙ [max log p(yₙ | ·) − log p(yₙ | fₙ)] by about gᵀG⁻¹g. The
//! *gradient norm* here is √(gᵀG⁻¹g/Δ), which has no unit: for a Gaussian it is the share of the residuals' norm that a
//! linear change of the weights would remove, whatever σ and the scale of the targets.
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

use ndarray::{Array2, Axis};

use crate::data::{Batches, Dataset, row_blocks};
use crate::error::{Error, Result};
use crate::laplace::Laplace;
use crate::likelihood::Family;
use crate::map::jacobian;
use crate::prior::{Prior, PriorPrecision};
use crate::target::Target;

/// The least share of the deviance that a Newton step removes away from a mode.
const LEAST_SHARE: f64 = 0.5;
/// The same, of the deviance of a constant.
const LEAST_GAIN: f64 = 0.1;
/// The least |Σ sₙ|/√(Σ sₙ²) away from a mode.
const LEAST_SCORE: f64 = 2.5;

/// The numbers that an evaluator holds at a time.
const BATCH_NUMBERS: f64 = (1_u64 << 22) as f64;

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
        let data = laplace.data().ok_or(Error::NoTrainingData { what: "the fit to the training data" })?;
        let outputs = laplace.outputs(data.inputs())?;
        let constant = constant(laplace.family(), data.targets(), outputs.ncols());
        let deviance = deviance(laplace.family(), data.targets(), |row| outputs.row(row).to_vec());
        let of_constant = self::deviance(laplace.family(), data.targets(), |_| constant.clone());
        let gradient = gradient(laplace, data)?;
        let mut step = vec![0.0; gradient.len()];
        laplace.precision().solve(&gradient, &mut step);
        let decrement: f64 = gradient.iter().zip(&step).map(|(g, s)| g * s).sum();
        Ok(Self {
            output_score: if has_output_biases(laplace, data)? {
                Some(output_score(laplace, data, &outputs))
            } else {
                None
            },
            gradient_norm: (decrement.max(0.0) / deviance.max(f64::MIN_POSITIVE)).sqrt(),
            explained: 1.0 - deviance / of_constant.max(f64::MIN_POSITIVE),
            error: error(laplace, data, &outputs),
        })
    }

    /// The share of a constant's deviance that a Newton step would remove.
    pub fn gain(&self) -> f64 {
        self.gradient_norm.powi(2) * (1.0 - self.explained)
    }

    /// Whether the weights are near a mode of the data.
    pub fn is_at_mode(&self) -> bool {
        let steep = self.gradient_norm.powi(2) > LEAST_SHARE && self.gain() > LEAST_GAIN;
        !steep && self.output_score.is_none_or(|score| score <= LEAST_SCORE)
    }

    /// Whether the network explains more than constant outputs would.
    pub fn beats_constant(&self) -> bool {
        self.explained > 0.0
    }
}

/// Whether the last parameters are biases of the outputs: ∂f/∂b = I.
fn has_output_biases(laplace: &Laplace, data: &Dataset) -> Result<bool> {
    let model = laplace.model();
    let map = model.bind(data.inputs().select(Axis(0), &[0]).view())?;
    let jacobian = jacobian(&map, model.parameters());
    let (rows, first) = (jacobian.nrows(), jacobian.ncols().saturating_sub(jacobian.nrows()));
    let entry =
        |i: usize, j: usize| jacobian.ncols() >= rows && jacobian[(i, first + j)] == f64::from(u8::from(i == j));
    Ok((0..rows).all(|i| (0..rows).all(|j| entry(i, j))))
}

/// The largest |Σ sₙ|/√(Σ sₙ²) among the outputs.
fn output_score(laplace: &Laplace, data: &Dataset, outputs: &Array2<f64>) -> f64 {
    let likelihood = laplace.family().likelihood();
    let width = outputs.ncols();
    let (mut sums, mut squares, mut score) = (vec![0.0; width], vec![0.0; width], vec![0.0; width]);
    for (output, target) in outputs.rows().into_iter().zip(data.targets().rows()) {
        likelihood.gradient(&target.to_vec(), &output.to_vec(), &mut score);
        for (score, (sum, square)) in score.iter().zip(sums.iter_mut().zip(&mut squares)) {
            *sum += score;
            *square += score * score;
        }
    }
    let ratio = |(sum, square): (&f64, &f64)| sum.abs() / square.sqrt().max(f64::MIN_POSITIVE);
    sums.iter().zip(&squares).map(ratio).fold(0.0, f64::max)
}

/// ∇ Σₙ log p(yₙ | fₙ) at θ̂, in the order of the row blocks.
fn gradient(laplace: &Laplace, data: &Dataset) -> Result<Vec<f64>> {
    let model = laplace.model();
    let theta = model.parameters();
    let rows = ((BATCH_NUMBERS / model.numbers_per_point(1).max(1.0)) as usize).max(1);
    let mut total = vec![0.0; theta.len()];
    for block in row_blocks(data.n_rows()) {
        let (mut sum, mut part) = (vec![0.0; theta.len()], vec![0.0; theta.len()]);
        for batch in data.batches(block, rows)? {
            let batch = batch?;
            let flat = Prior::gaussian(PriorPrecision::improper(theta.len()));
            let map = model.bind(batch.inputs.view())?;
            let target = Target::new(map, laplace.family().shared(), batch.targets.view(), flat)?;
            target.evaluator().gradient(theta, &mut part);
            sum.iter_mut().zip(&part).for_each(|(sum, part)| *sum += part);
        }
        total.iter_mut().zip(&sum).for_each(|(total, sum)| *total += sum);
    }
    Ok(total)
}

/// Δ of these outputs.
fn deviance(family: &Family, targets: &Array2<f64>, outputs: impl Fn(usize) -> Vec<f64>) -> f64 {
    let likelihood = family.likelihood();
    // Outputs that are variances have no best value: the means are judged, in units of the targets' variances.
    let variances = targets.var_axis(Axis(0), 0.0);
    let of_row = |(row, target): (usize, ndarray::ArrayView1<'_, f64>)| {
        let (target, outputs) = (target.to_vec(), outputs(row));
        if matches!(family, Family::Heteroscedastic(_)) {
            let term =
                |((y, mean), variance): ((&f64, &f64), &f64)| (y - mean).powi(2) / variance.max(f64::MIN_POSITIVE);
            return target.iter().zip(&outputs).zip(&variances).map(term).sum();
        }
        let best = match family {
            Family::Gaussian(_) => likelihood.log_density(&target, &target),
            // A count of 0 has probability 1 in the limit of no rate.
            Family::Poisson(_) => {
                let rates: Vec<f64> = target.iter().map(|count| count.max(1e-300).ln()).collect();
                likelihood.log_density(&target, &rates)
            }
            Family::Bernoulli(_) | Family::Categorical(_) | Family::Heteroscedastic(_) => 0.0,
        };
        2.0 * (best - likelihood.log_density(&target, &outputs))
    };
    targets.rows().into_iter().enumerate().map(of_row).sum()
}

/// The outputs with the greatest likelihood among those that are the same at all points.
fn constant(family: &Family, targets: &Array2<f64>, n_outputs: usize) -> Vec<f64> {
    let mean = |column: usize| targets.column(column).mean().unwrap_or(0.0);
    // Half a count more keeps the logarithms of what never occurs finite.
    let n = targets.nrows() as f64;
    match family {
        Family::Gaussian(_) => (0..n_outputs).map(mean).collect(),
        Family::Heteroscedastic(_) => (0..n_outputs).map(|output| mean(output % targets.ncols())).collect(),
        Family::Poisson(_) => (0..n_outputs).map(|column| (mean(column) + 0.5 / n).ln()).collect(),
        Family::Bernoulli(_) => {
            (0..n_outputs).map(|column| ((mean(column) + 0.5 / n) / (1.0 - mean(column) + 0.5 / n)).ln()).collect()
        }
        Family::Categorical(_) => {
            let share = |class: usize| targets.iter().filter(|&&label| label == class as f64).count() as f64;
            (0..n_outputs).map(|class| (share(class) + 0.5).ln()).collect()
        }
    }
}

fn error(laplace: &Laplace, data: &Dataset, outputs: &Array2<f64>) -> TrainingError {
    let (targets, n) = (data.targets(), data.targets().nrows() as f64);
    let share = |count: usize| count as f64 / n;
    match laplace.family() {
        Family::Gaussian(_) | Family::Heteroscedastic(_) => {
            let outputs = &outputs.select(Axis(1), &(0..targets.ncols()).collect::<Vec<usize>>());
            let root =
                |squares: Array2<f64>| squares.mapv(|r| r * r).sum_axis(Axis(0)).mapv(|sum| (sum / n).sqrt()).to_vec();
            let means = targets.mean_axis(Axis(0)).unwrap_or_else(|| ndarray::Array1::zeros(targets.ncols()));
            let restore = |deviations: Vec<f64>| laplace.schema().restore_deviations(&deviations);
            TrainingError::Deviations {
                rmse: restore(root(targets - outputs)),
                spread: restore(root(targets - &means)),
            }
        }
        Family::Categorical(_) => {
            let most_probable = |row: ndarray::ArrayView1<'_, f64>| {
                let better = |best: usize, class: usize| if row[class] > row[best] { class } else { best };
                (1..row.len()).fold(0, better)
            };
            let right = outputs
                .rows()
                .into_iter()
                .zip(targets.iter())
                .filter(|(row, label)| most_probable(*row) as f64 == **label);
            let count = |class: usize| targets.iter().filter(|&&label| label == class as f64).count();
            let most = (0..outputs.ncols()).map(count).max().unwrap_or(0);
            TrainingError::Accuracy { accuracy: share(right.count()), most_frequent: share(most) }
        }
        Family::Bernoulli(_) => {
            let right =
                outputs.iter().zip(targets).filter(|(logit, target)| (**logit > 0.0) == (**target > 0.5)).count();
            let ones = targets.iter().filter(|target| **target > 0.5).count();
            let entries = targets.len();
            let share = |count: usize| count as f64 / entries as f64;
            TrainingError::Accuracy { accuracy: share(right), most_frequent: share(ones.max(entries - ones)) }
        }
        Family::Poisson(_) => TrainingError::Counts,
    }
}

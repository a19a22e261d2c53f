//! From a Gaussian over raw outputs to a prediction of y: closed forms where there are, else one of three links.
//!
//! - probit: p = softmax(f/√(1 + π/8·var)), variances entrywise (sigmoid for Bernoulli)
//! - Monte Carlo: the mean of softmax over draws of f
//! - Laplace bridge: the Dirichlet with α_k = (1 − 2/K + e^{f_k}/K² Σ_l e^{−f_l})/var_k, on outputs centred to sum zero

use faer::Mat;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2};

use super::{LatentGaussian, Prediction, moments};
use crate::error::{Error, Result};
use crate::likelihood::Family;
use crate::linalg::symmetric_eigen;
use crate::random::{fill_standard_normal, stream};

/// How class probabilities follow from a Gaussian over the logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Link {
    /// The probit approximation (the default).
    #[default]
    Probit,
    /// Monte Carlo over the logits.
    MonteCarlo(MonteCarlo),
    /// The Laplace bridge.
    Bridge,
}

/// How many draws, and from which seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonteCarlo {
    /// Draws at each test point.
    pub samples: usize,
    /// The seed; draw s at point t is the same on any number of threads.
    pub seed: u64,
}

impl LatentGaussian {
    /// The prediction of y. A Gaussian or Poisson family has a closed form and needs no link.
    pub fn predict(&self, family: &Family, link: Link) -> Result<Prediction> {
        match family {
            Family::Gaussian(_) => {
                let (_, noise) = moments(family, &self.mean);
                Ok(Prediction::from_parts(self.mean.clone(), self.variance(), noise))
            }
            Family::Poisson(_) => Ok(self.log_normal()),
            Family::Bernoulli(_) | Family::Categorical(_) => match link {
                Link::Probit => Ok(self.probit(family)),
                Link::Bridge => Ok(self.bridge(family)),
                Link::MonteCarlo(settings) => self.monte_carlo(family, settings),
            },
        }
    }

    /// The rate e^f is log-normal: E = e^{m + v/2}, Var = (e^v − 1) e^{2m + v}.
    fn log_normal(&self) -> Prediction {
        let variance = self.variance();
        let mean = Array2::from_shape_fn(self.mean.dim(), |at| (self.mean[at] + 0.5 * variance[at]).exp());
        let epistemic = Array2::from_shape_fn(self.mean.dim(), |at| variance[at].exp_m1() * mean[at] * mean[at]);
        Prediction::from_parts(mean.clone(), epistemic, mean)
    }

    /// Probabilities at the shrunken logits; the epistemic part of the variance to first order in the covariance.
    fn probit(&self, family: &Family) -> Prediction {
        let variance = self.variance();
        let shrink = |at: (usize, usize)| 1.0 / (1.0 + std::f64::consts::FRAC_PI_8 * variance[at]).sqrt();
        let logits = Array2::from_shape_fn(self.mean.dim(), |at| self.mean[at] * shrink(at));
        let (mean, total) = moments(family, &logits);
        let p = logits.ncols();
        let mut fisher = vec![0.0; p * p];
        let mut epistemic = Array2::zeros(mean.dim());
        for (t, row) in logits.rows().into_iter().enumerate() {
            // For both families the Jacobian of the mean is the output Fisher.
            family.likelihood().fisher(&row.to_vec(), &mut fisher);
            for (k, slopes) in fisher.chunks_exact(p).enumerate() {
                let quadratic: f64 = (0..p)
                    .flat_map(|i| (0..p).map(move |j| (i, j)))
                    .map(|(i, j)| slopes[i] * self.covariance[(t, i, j)] * shrink((t, i)) * shrink((t, j)) * slopes[j])
                    .sum();
                epistemic[(t, k)] = quadratic.clamp(0.0, total[(t, k)]);
            }
        }
        let aleatoric = &total - &epistemic;
        Prediction::from_parts(mean, epistemic, aleatoric)
    }

    fn bridge(&self, family: &Family) -> Prediction {
        let (points, p) = self.mean.dim();
        let binary = matches!(family, Family::Bernoulli(_));
        let (mut mean, mut epistemic) = (Array2::zeros((points, p)), Array2::zeros((points, p)));
        for t in 0..points {
            let covariance = self.covariance.index_axis(ndarray::Axis(0), t);
            if binary {
                for k in 0..p {
                    // Two classes with logits (0, f), centred: (−f/2, f/2).
                    let (half, quarter) = (0.5 * self.mean[(t, k)], 0.25 * covariance[(k, k)]);
                    let (probabilities, variances) = dirichlet(&[-half, half], &[quarter, quarter]);
                    (mean[(t, k)], epistemic[(t, k)]) = (probabilities[1], variances[1]);
                }
            } else {
                let (logits, variances) = centred(self.mean.row(t), covariance);
                let (probabilities, variances) = dirichlet(&logits, &variances);
                mean.row_mut(t).assign(&Array1::from(probabilities));
                epistemic.row_mut(t).assign(&Array1::from(variances));
            }
        }
        let aleatoric = Array2::from_shape_fn(mean.dim(), |at| (mean[at] * (1.0 - mean[at]) - epistemic[at]).max(0.0));
        Prediction::from_parts(mean, epistemic, aleatoric)
    }

    fn monte_carlo(&self, family: &Family, settings: MonteCarlo) -> Result<Prediction> {
        if settings.samples == 0 {
            let value = "0".to_string();
            return Err(Error::Setting { name: "the number of samples", value, requirement: "at least 1" });
        }
        let (points, p) = self.mean.dim();
        let mut summary = Summary::new(family, points, p);
        for t in 0..points {
            let covariance = self.covariance.index_axis(ndarray::Axis(0), t);
            let matrix = Mat::from_fn(p, p, |i, j| covariance[(i, j)]);
            let eigen = symmetric_eigen(matrix.as_ref(), "the predictive covariance")?;
            let mut generator = stream(settings.seed, t as u64);
            let (mut noise, mut output) = (vec![0.0; p], vec![0.0; p]);
            for _ in 0..settings.samples {
                fill_standard_normal(&mut generator, &mut noise);
                for (value, lambda) in noise.iter_mut().zip(&eigen.values) {
                    *value *= lambda.max(0.0).sqrt();
                }
                for (k, value) in output.iter_mut().enumerate() {
                    let step: f64 = noise.iter().enumerate().map(|(j, e)| eigen.vectors[(k, j)] * e).sum();
                    *value = self.mean[(t, k)] + step;
                }
                summary.add(t, &output);
            }
        }
        Ok(summary.finish())
    }
}

/// Logits and variances after conditioning on their sum being zero.
fn centred(mean: ArrayView1<'_, f64>, covariance: ArrayView2<'_, f64>) -> (Vec<f64>, Vec<f64>) {
    let row_sums: Vec<f64> = covariance.rows().into_iter().map(|row| row.sum()).collect();
    let (total, sum): (f64, f64) = (row_sums.iter().sum(), mean.sum());
    let share = |k: usize| if total > 0.0 { row_sums[k] / total } else { 1.0 / row_sums.len() as f64 };
    let logits = mean.iter().enumerate().map(|(k, m)| m - share(k) * sum).collect();
    let variances = (0..row_sums.len()).map(|k| (covariance[(k, k)] - share(k) * row_sums[k]).max(0.0)).collect();
    (logits, variances)
}

/// Mean and variance of the Laplace bridge's Dirichlet. Where a variance vanishes the distribution is a point.
fn dirichlet(logits: &[f64], variances: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let count = logits.len() as f64;
    let log_sum = |values: &mut dyn Iterator<Item = f64>| {
        let values: Vec<f64> = values.collect();
        let top = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        top + values.iter().map(|value| (value - top).exp()).sum::<f64>().ln()
    };
    if variances.iter().any(|variance| *variance <= 0.0) {
        let normaliser = log_sum(&mut logits.iter().copied());
        return (logits.iter().map(|f| (f - normaliser).exp()).collect(), vec![0.0; logits.len()]);
    }
    let log_inverse_sum = log_sum(&mut logits.iter().map(|f| -f));
    let log_concentrations: Vec<f64> = logits
        .iter()
        .zip(variances)
        .map(|(f, variance)| {
            let log_weight = f + log_inverse_sum - 2.0 * count.ln();
            // log(1 − 2/K + e^w), without overflow.
            let log_term = log_weight + ((1.0 - 2.0 / count) * (-log_weight).exp()).ln_1p();
            let log_term = if log_term.is_finite() { log_term } else { (1.0 - 2.0 / count + log_weight.exp()).ln() };
            log_term - variance.ln()
        })
        .collect();
    let log_total = log_sum(&mut log_concentrations.iter().copied());
    let probabilities: Vec<f64> = log_concentrations.iter().map(|value| (value - log_total).exp()).collect();
    let spread = 1.0 / (1.0 + log_total.exp());
    let variances = probabilities.iter().map(|p| p * (1.0 - p) * spread).collect();
    (probabilities, variances)
}

/// Running moments of E[y | f] (Welford's recurrences), Var[y | f] and the entropy over draws of f.
pub(super) struct Summary<'a> {
    family: &'a Family,
    counts: Vec<usize>,
    mean: Array2<f64>,
    /// Σ (E[y | f] − mean)².
    scatter: Array2<f64>,
    variance: Array2<f64>,
    entropy: Array1<f64>,
    buffer: Vec<f64>,
}

impl<'a> Summary<'a> {
    pub fn new(family: &'a Family, points: usize, outputs: usize) -> Self {
        let zeros = Array2::zeros((points, outputs));
        Self {
            family,
            counts: vec![0; points],
            mean: zeros.clone(),
            scatter: zeros.clone(),
            variance: zeros,
            entropy: Array1::zeros(points),
            buffer: vec![0.0; outputs],
        }
    }

    /// Adds one draw of the outputs at a point.
    pub fn add(&mut self, point: usize, outputs: &[f64]) {
        self.counts[point] += 1;
        let share = 1.0 / self.counts[point] as f64;
        let likelihood = self.family.likelihood();
        likelihood.variance(outputs, &mut self.buffer);
        for (k, value) in self.buffer.iter().enumerate() {
            self.variance[(point, k)] += share * (value - self.variance[(point, k)]);
        }
        likelihood.mean(outputs, &mut self.buffer);
        for (k, value) in self.buffer.iter().enumerate() {
            let shift = value - self.mean[(point, k)];
            self.mean[(point, k)] += share * shift;
            self.scatter[(point, k)] += shift * (value - self.mean[(point, k)]);
        }
        self.entropy[point] += share * (class_entropy(self.family, &self.buffer) - self.entropy[point]);
    }

    /// The summary of all draws.
    pub fn finish(mut self) -> Prediction {
        for (mut row, count) in self.scatter.rows_mut().into_iter().zip(&self.counts) {
            row.iter_mut().for_each(|value| *value /= (*count).max(1) as f64);
        }
        let mut prediction = Prediction::from_parts(self.mean, self.scatter, self.variance);
        if matches!(self.family, Family::Categorical(_) | Family::Bernoulli(_)) {
            let rows = prediction.mean.rows();
            let of_mean: Array1<f64> = rows.into_iter().map(|row| class_entropy(self.family, &row.to_vec())).collect();
            prediction.mutual_information = Some((&of_mean - &self.entropy).mapv(|value| value.max(0.0)));
            prediction.entropy = Some(of_mean);
        }
        prediction
    }
}

/// −Σ p log p.
fn entropy(probabilities: &[f64]) -> f64 {
    probabilities.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum()
}

/// The entropy of a row of class probabilities (for Bernoulli outputs: of each, summed).
fn class_entropy(family: &Family, row: &[f64]) -> f64 {
    match family {
        Family::Bernoulli(_) => row.iter().map(|p| entropy(&[*p, 1.0 - p])).sum(),
        _ => entropy(row),
    }
}

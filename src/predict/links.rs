//! From a Gaussian over raw outputs to a prediction of y: closed forms where there are any, otherwise one of three
//! links.
//!
//! - probit: p = softmax(f/√(1 + π/8·var)), variances entrywise (sigmoid for Bernoulli)
//! - Monte Carlo: the mean of softmax over draws of f
//! - Laplace bridge: the Dirichlet with α_k = (1 − 2/K + e^{f_k}/K² Σ_l e^{−f_l})/var_k, on outputs centred to sum zero

use faer::Mat;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2};

use super::{LatentGaussian, Moments, log_sum_exp, moments};
use crate::error::{Error, Result};
use crate::likelihood::Family;
use crate::linalg::symmetric_eigen;
use crate::random::{Purpose, fill_standard_normal, stream};

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

/// The number of draws, and their seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonteCarlo {
    /// Draws at each test point.
    pub samples: usize,
    /// The seed; draw s at point t is the same on any number of threads.
    pub seed: u64,
}

impl LatentGaussian {
    /// The prediction of y. A Gaussian or Poisson family has a closed form and needs no link.
    pub fn moments(&self, family: &Family, link: Link) -> Result<Moments> {
        self.check_shape()?;
        family.likelihood().check_outputs(self.mean.ncols()).map_err(Error::Outputs)?;
        match family {
            Family::Gaussian(_) => {
                let (_, noise) = moments(family, &self.mean);
                Ok(Moments::from_parts(self.mean.clone(), self.variance(), noise))
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
    fn log_normal(&self) -> Moments {
        let variance = self.variance();
        let mean = Array2::from_shape_fn(self.mean.dim(), |at| (self.mean[at] + 0.5 * variance[at]).exp());
        let epistemic = Array2::from_shape_fn(self.mean.dim(), |at| variance[at].exp_m1() * mean[at] * mean[at]);
        Moments::from_parts(mean.clone(), epistemic, mean)
    }

    /// Probabilities at the shrunken logits; the epistemic part of the variance to first order in the covariance.
    fn probit(&self, family: &Family) -> Moments {
        let (variance, logits) = (self.variance(), self.probit_logits());
        let shrink = |at: (usize, usize)| probit_factor(variance[at]);
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
        Moments::from_parts(mean, epistemic, aleatoric)
    }

    /// f/√(1 + π/8·var), entrywise.
    pub(super) fn probit_logits(&self) -> Array2<f64> {
        Array2::from_shape_fn(self.mean.dim(), |(t, k)| self.mean[(t, k)] * probit_factor(self.covariance[(t, k, k)]))
    }

    fn bridge(&self, family: &Family) -> Moments {
        let (points, p) = self.mean.dim();
        let (mut mean, mut epistemic) = (Array2::zeros((points, p)), Array2::zeros((points, p)));
        for t in 0..points {
            for k in 0..p {
                let (dirichlet, class) = match family {
                    Family::Bernoulli(_) => (self.binary_bridge(t, k), 1),
                    _ => (self.class_bridge(t), k),
                };
                mean[(t, k)] = dirichlet.log_probabilities[class].exp();
                epistemic[(t, k)] = mean[(t, k)] * (1.0 - mean[(t, k)]) * dirichlet.spread;
            }
        }
        let aleatoric = Array2::from_shape_fn(mean.dim(), |at| (mean[at] * (1.0 - mean[at]) - epistemic[at]).max(0.0));
        Moments::from_parts(mean, epistemic, aleatoric)
    }

    /// The bridge of one Bernoulli output: two classes with logits (0, f), centred: (−f/2, f/2).
    pub(super) fn binary_bridge(&self, t: usize, k: usize) -> Dirichlet {
        let (half, quarter) = (0.5 * self.mean[(t, k)], 0.25 * self.covariance[(t, k, k)]);
        Dirichlet::bridge(&[-half, half], &[quarter, quarter])
    }

    /// The bridge of the classes at a point.
    pub(super) fn class_bridge(&self, t: usize) -> Dirichlet {
        let (logits, variances) = centred(self.mean.row(t), self.covariance.index_axis(ndarray::Axis(0), t));
        Dirichlet::bridge(&logits, &variances)
    }

    fn monte_carlo(&self, family: &Family, settings: MonteCarlo) -> Result<Moments> {
        let (points, p) = self.mean.dim();
        let mut summary = Summary::new(family, points, p);
        self.for_each_draw(settings, |t, output| summary.add(t, output))?;
        Ok(summary.finish())
    }

    /// Calls `visit` with each draw of the outputs at each point.
    pub(super) fn for_each_draw(&self, settings: MonteCarlo, mut visit: impl FnMut(usize, &[f64])) -> Result<()> {
        if settings.samples == 0 {
            return Err(Error::NoDraws);
        }
        let (points, p) = self.mean.dim();
        for t in 0..points {
            let covariance = self.covariance.index_axis(ndarray::Axis(0), t);
            let matrix = Mat::from_fn(p, p, |i, j| covariance[(i, j)]);
            let eigen = symmetric_eigen(matrix.as_ref(), "the predictive covariance")?;
            let mut generator = stream(settings.seed, Purpose::MonteCarloLink, t as u64);
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
                visit(t, &output);
            }
        }
        Ok(())
    }
}

/// 1/√(1 + π/8·var).
fn probit_factor(variance: f64) -> f64 {
    1.0 / (1.0 + std::f64::consts::FRAC_PI_8 * variance).sqrt()
}

/// Logits and variances after conditioning on their sum being zero.
fn centred(mean: ArrayView1<'_, f64>, covariance: ArrayView2<'_, f64>) -> (Vec<f64>, Vec<f64>) {
    let row_sums: Vec<f64> = covariance.rows().into_iter().map(|row| row.sum()).collect();
    let (total, sum): (f64, f64) = (row_sums.iter().sum(), mean.sum());
    // When the sum is certain (up to rounding), it carries no information about the logits: the same amount is
    // subtracted from each.
    let count = row_sums.len() as f64;
    let rounding = 4.0 * count * f64::EPSILON * covariance.iter().map(|value| value.abs()).sum::<f64>();
    let share = |k: usize| if total > rounding { row_sums[k] / total } else { 1.0 / count };
    let logits = mean.iter().enumerate().map(|(k, m)| m - share(k) * sum).collect();
    let variances = (0..row_sums.len()).map(|k| (covariance[(k, k)] - share(k) * row_sums[k]).max(0.0)).collect();
    (logits, variances)
}

/// A Dirichlet distribution over class probabilities, given by its means p and the factor that multiplies p(1 − p) in
/// their variances.
pub(super) struct Dirichlet {
    pub log_probabilities: Vec<f64>,
    /// 1/(1 + Σα).
    spread: f64,
}

impl Dirichlet {
    /// The Laplace bridge from centred logits. Where a variance vanishes, the distribution is a point mass.
    fn bridge(logits: &[f64], variances: &[f64]) -> Self {
        let count = logits.len() as f64;
        if variances.iter().any(|variance| *variance <= 0.0) {
            let normaliser = log_sum_exp(logits.iter().copied());
            return Self { log_probabilities: logits.iter().map(|f| f - normaliser).collect(), spread: 0.0 };
        }
        let log_inverse_sum = log_sum_exp(logits.iter().map(|f| -f));
        let log_concentration = |(f, variance): (&f64, &f64)| {
            // log(1 − 2/K + eʷ) with w ≥ −2 log K, without overflow.
            let log_weight = f + log_inverse_sum - 2.0 * count.ln();
            log_weight + ((1.0 - 2.0 / count) * (-log_weight).exp()).ln_1p() - variance.ln()
        };
        let log_concentrations: Vec<f64> = logits.iter().zip(variances).map(log_concentration).collect();
        let log_total = log_sum_exp(log_concentrations.iter().copied());
        let log_probabilities = log_concentrations.iter().map(|value| value - log_total).collect();
        Self { log_probabilities, spread: 1.0 / (1.0 + log_total.exp()) }
    }
}

/// Running moments of E(y | f) (Welford's recurrences), Var(y | f) and the entropy over draws of f.
pub(super) struct Summary<'a> {
    family: &'a Family,
    counts: Vec<usize>,
    mean: Array2<f64>,
    /// Σ (E(y | f) − mean)².
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
    pub fn finish(mut self) -> Moments {
        for (mut row, count) in self.scatter.rows_mut().into_iter().zip(&self.counts) {
            row.iter_mut().for_each(|value| *value /= (*count).max(1) as f64);
        }
        let mut prediction = Moments::from_parts(self.mean, self.scatter, self.variance);
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

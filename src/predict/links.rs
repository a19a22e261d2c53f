//! From a Gaussian over raw outputs to a prediction of y: closed forms where there are any, otherwise one of three
//! links.
//!
//! - probit: p = softmax(f/√(1 + π/8·var)), variances entrywise (sigmoid for Bernoulli)
//! - Monte Carlo: the mean of softmax over draws of f
//! - Laplace bridge: the Dirichlet with α_k = (1 − 2/K + e^{f_k}/K² Σ_l e^{−f_l})/var_k, on outputs centred to sum zero

use faer::Mat;
use ndarray::Array2;

use super::summary::Summary;
use super::{LatentGaussian, Moments, moments};
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
    /// The prediction of y. A Gaussian, heteroscedastic or Poisson family has a closed form and needs no link.
    pub fn moments(&self, family: &Family, link: Link) -> Result<Moments> {
        self.check_shape()?;
        family.likelihood().check_outputs(self.mean.ncols()).map_err(Error::Outputs)?;
        match family {
            Family::Gaussian(_) => {
                let (_, noise) = moments(family, &self.mean);
                Ok(Moments::from_parts(self.mean.clone(), self.variance(), noise))
            }
            Family::Heteroscedastic(_) => Ok(self.noise_moments()),
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

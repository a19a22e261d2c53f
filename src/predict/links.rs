//! From a Gaussian over raw outputs to a prediction of y: closed forms where there are any, otherwise one of five
//! links.
//!
//! - centred: on logits whose mean has been subtracted, with their full covariance PCP, P = I − 11ᵀ/K: for two classes
//!   p = softmax(f/√(1 + π/8·var)), for more the Laplace bridge
//! - centred probit: the same for two classes, and p = softmax(f/√(1 + π/8·var)) on the centred logits for more
//! - probit: p = softmax(f/√(1 + π/8·var)), variances entrywise (sigmoid for Bernoulli)
//! - Monte Carlo: the mean of softmax over draws of f
//! - Laplace bridge: the Dirichlet with α_k = (1 − 2/K + e^{f_k}/K² Σ_l e^{−f_l})/var_k, on logits conditioned on their
//!   sum being zero

use std::borrow::Cow;

use faer::Mat;
use ndarray::{Array1, Array2};

use super::summary::Summary;
use super::{LatentGaussian, Moments, moments};
use crate::error::{Error, Result};
use crate::likelihood::{Family, TargetKind, likelihood_of};
use crate::linalg::symmetric_eigen;
use crate::random::{Purpose, fill_standard_normal, stream};

/// How class probabilities follow from a Gaussian over the logits.
///
/// The default was chosen by measurement: test NLL less that of the trained network alone, mean ± standard error over
/// ten splits, tanh networks, prior precision tuned by evidence. `docs/links.md` has the whole table.
///
/// | data (classes; hidden units) | MAP | centred | probit | Monte Carlo | bridge |
/// |---|---|---|---|---|---|
/// | two moons (2; 16, 16) | 0.139 | **−0.024 ± 0.011** | +0.014 ± 0.013 | +0.004 ± 0.013 | 0 |
/// | breast cancer (2; 16) | 0.109 | **−0.011 ± 0.008** | +0.036 ± 0.013 | +0.027 ± 0.013 | 0 |
/// | wine (3; 16) | 0.073 | **−0.003 ± 0.004** | +0.095 ± 0.013 | +0.177 ± 0.017 | −0.003 ± 0.004 |
/// | digits (10; 32) | 0.095 | **−0.001 ± 0.001** | +0.163 ± 0.004 | +0.304 ± 0.005 | −0.001 ± 0.001 |
///
/// Monte Carlo is what the linearised posterior itself says: with many weights, its logits are far too uncertain. The
/// centred link takes over less of that uncertainty. What it gives up: with three or more classes its probabilities
/// depend on the ratios of the variances, not on their common size (a prediction's `epistemic_variance` does depend on
/// it); ask for Monte Carlo, or for samples, where probabilities are to fade far from the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Link {
    /// Logits centred to mean zero, with their full covariance: probit for two classes, Laplace bridge for more (the
    /// default). Adding the same number to all logits, certain or not, changes nothing, as in the softmax itself.
    #[default]
    Centred,
    /// The probit approximation on logits centred to mean zero, for any number of classes: its probabilities fade as the
    /// variance of the logits grows, and what all logits share counts for nothing. With many weights the logits are far too
    /// uncertain for it, unless the posterior is made colder (`Laplace::temper_on`).
    CentredProbit,
    /// The probit approximation with the variance of each logit by itself.
    Probit,
    /// Monte Carlo over the logits.
    MonteCarlo(MonteCarlo),
    /// The Laplace bridge from logits conditioned on their sum being zero. For two classes of equal variance its
    /// probabilities are those of the trained network alone.
    Bridge,
}

impl Link {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Link::Centred => "centred",
            Link::CentredProbit => "centred-probit",
            Link::Probit => "probit",
            Link::MonteCarlo(_) => "mc",
            Link::Bridge => "bridge",
        }
    }
}

/// What the centred link comes to.
pub(super) enum Centred<'a> {
    /// Two classes: the probit of logits that see a share of their variances.
    Probit { logits: Cow<'a, LatentGaussian>, share: f64 },
    /// More classes: the bridge.
    Bridge { logits: LatentGaussian },
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
    /// The prediction of y. Only logits of classes need a link.
    pub fn moments(&self, family: &Family, link: Link) -> Result<Moments> {
        self.check_shape()?;
        family.likelihood().check_outputs(self.mean.ncols()).map_err(Error::Outputs)?;
        if !family.likelihood().has_logits() {
            return Ok(self.moments_without_link(family));
        }
        Ok(match link {
            Link::Centred => match self.centred(family) {
                Centred::Probit { logits, share } => logits.probit(family, share),
                Centred::Bridge { logits } => logits.bridge_moments(|t, _| (logits.plain_bridge(t), None)),
            },
            Link::CentredProbit => {
                let (logits, share) = self.centred_probit(family);
                logits.probit(family, share)
            }
            Link::Probit => self.probit(family, 1.0),
            Link::Bridge => self.bridge(family),
            Link::MonteCarlo(settings) => self.monte_carlo(family, settings)?,
        })
    }

    /// The likelihood's own closed form, or quadrature.
    fn moments_without_link(&self, family: &Family) -> Moments {
        let (points, p) = self.mean.dim();
        let likelihood = family.likelihood();
        let mut parts = [(); 3].map(|()| Array2::zeros((points, likelihood.n_means(p))));
        for t in 0..points {
            let moments = likelihood_of(likelihood, t).moments_under(&self.at(t));
            for (into, values) in parts.iter_mut().zip([moments.mean, moments.epistemic, moments.aleatoric]) {
                into.row_mut(t).assign(&Array1::from(values));
            }
        }
        let [mean, epistemic, aleatoric] = parts;
        Moments::from_parts(mean, epistemic, aleatoric)
    }

    /// The centred link of these classes. The logits of a 0/1 output are (−f/2, f/2), each with a quarter of f's variance.
    pub(super) fn centred(&self, family: &Family) -> Centred<'_> {
        if is_binary(family) || self.mean.ncols() == 2 {
            let (logits, share) = self.centred_probit(family);
            return Centred::Probit { logits, share };
        }
        Centred::Bridge { logits: self.projected() }
    }

    /// The centred logits, and the share of their variances that the probit sees.
    pub(super) fn centred_probit(&self, family: &Family) -> (Cow<'_, LatentGaussian>, f64) {
        match is_binary(family) {
            true => (Cow::Borrowed(self), 0.25),
            false => (Cow::Owned(self.projected()), 1.0),
        }
    }

    /// The logits less their mean, whose covariance is PCP with P = I − 11ᵀ/K.
    fn projected(&self) -> Self {
        let count = self.mean.ncols() as f64;
        let mean = Array2::from_shape_fn(self.mean.dim(), |(t, k)| self.mean[(t, k)] - self.mean.row(t).sum() / count);
        let mut covariance = self.covariance.clone();
        for mut matrix in covariance.outer_iter_mut() {
            let rows: Vec<f64> = matrix.rows().into_iter().map(|row| row.sum() / count).collect();
            let total = rows.iter().sum::<f64>() / count;
            matrix.indexed_iter_mut().for_each(|((i, j), value)| *value += total - rows[i] - rows[j]);
        }
        Self { mean, covariance }
    }

    /// Probabilities at the shrunken logits; the epistemic part of the variance to first order in the covariance.
    fn probit(&self, family: &Family, share: f64) -> Moments {
        let (variance, logits) = (self.variance(), self.probit_logits(share));
        let shrink = |at: (usize, usize)| probit_factor(share * variance[at]);
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
                epistemic[(t, k)] = quadratic.max(0.0).min(total[(t, k)]);
            }
        }
        let aleatoric = &total - &epistemic;
        Moments::from_parts(mean, epistemic, aleatoric)
    }

    /// f/√(1 + π/8·share·var), entrywise.
    pub(super) fn probit_logits(&self, share: f64) -> Array2<f64> {
        let factor = |(t, k): (usize, usize)| probit_factor(share * self.covariance[(t, k, k)]);
        Array2::from_shape_fn(self.mean.dim(), |at| self.mean[at] * factor(at))
    }

    pub(super) fn monte_carlo(&self, family: &Family, settings: MonteCarlo) -> Result<Moments> {
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

/// Whether each output is the logit of a yes/no answer, not of one class among several.
pub(super) fn is_binary(family: &Family) -> bool {
    family.likelihood().kind() == TargetKind::Answers
}

/// 1/√(1 + π/8·var).
fn probit_factor(variance: f64) -> f64 {
    1.0 / (1.0 + std::f64::consts::FRAC_PI_8 * variance).sqrt()
}

//! The predictive density of an observation under the linearised predictive: log p(y) = log ∫ p(y | f) N(f | m, C) df.
//!
//! Exact for Gaussian noise and (by quadrature, target by target) for counts and for noise levels that are outputs
//! themselves; by the link for classes. Everything stays
//! in the log domain: a confident mistake costs its logit, not infinity.

use ndarray::{Array1, Array2, Axis};

use super::links::Centred;
use super::{LatentGaussian, Link, log_sum_exp};
use crate::data::check_targets;
use crate::error::{Error, Result};
use crate::likelihood::{Family, Gaussian, Likelihood, Poisson};
use crate::linalg::Cholesky;

impl LatentGaussian {
    /// log p(yₜ) at each test point. A Gaussian, heteroscedastic or Poisson family needs no link.
    ///
    /// ```
    /// use ndarray::{array, Array3};
    /// use riemannian_laplace::Family;
    /// use riemannian_laplace::internals::predict::LatentGaussian;
    /// use riemannian_laplace::Link;
    ///
    /// // f ~ N(0, 3) and unit noise: y ~ N(0, 4).
    /// let latent = LatentGaussian { mean: array![[0.0]], covariance: Array3::from_elem((1, 1, 1), 3.0) };
    /// let log_density = latent.log_densities(&Family::gaussian(1.0)?, Link::Probit, &array![[2.0]])?[0];
    /// assert!((log_density + 0.5 + 0.5 * (8.0 * std::f64::consts::PI).ln()).abs() < 1e-14);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn log_densities(&self, family: &Family, link: Link, targets: &Array2<f64>) -> Result<Array1<f64>> {
        self.check_shape()?;
        let (points, p) = self.mean.dim();
        check_targets(targets, family.likelihood(), points, p)?;
        match (family, link) {
            (Family::Gaussian(gaussian), _) => self.gaussian_log_densities(gaussian, targets),
            (Family::Heteroscedastic(_), _) => Ok(self.noise_log_densities(targets)),
            (Family::Poisson(_), _) => {
                let at = |(t, k)| log_poisson_mixture(targets[(t, k)], self.mean[(t, k)], self.covariance[(t, k, k)]);
                Ok((0..points).map(|t| (0..p).map(|k| at((t, k))).sum()).collect())
            }
            (_, Link::Centred) => Ok(match self.centred(family) {
                Centred::Probit { logits, share } => log_densities_at(&logits.probit_logits(share), family, targets),
                Centred::Bridge { logits } => {
                    let at = |t: usize| logits.plain_bridge(t).log_probabilities[targets[(t, 0)] as usize];
                    (0..points).map(at).collect()
                }
            }),
            (_, Link::CentredProbit) => {
                let (logits, share) = self.centred_probit(family);
                Ok(log_densities_at(&logits.probit_logits(share), family, targets))
            }
            (_, Link::Probit) => Ok(log_densities_at(&self.probit_logits(1.0), family, targets)),
            (Family::Bernoulli(_), Link::Bridge) => {
                let at = |t, k| self.binary_bridge(t, k).log_probabilities[usize::from(targets[(t, k)] > 0.5)];
                Ok((0..points).map(|t| (0..p).map(|k| at(t, k)).sum()).collect())
            }
            (Family::Categorical(_), Link::Bridge) => {
                Ok((0..points).map(|t| self.class_bridge(t).log_probabilities[targets[(t, 0)] as usize]).collect())
            }
            (_, Link::MonteCarlo(settings)) => {
                let observed: Vec<Vec<f64>> = targets.rows().into_iter().map(|row| row.to_vec()).collect();
                let mut logs = vec![Vec::with_capacity(settings.samples); points];
                self.for_each_draw(settings, |t, f| logs[t].push(family.likelihood().log_density(&observed[t], f)))?;
                Ok(logs.into_iter().map(|logs| log_sum_exp(logs) - (settings.samples as f64).ln()).collect())
            }
        }
    }

    /// log N(y | m, C + diag σ²), over all outputs of a point together.
    fn gaussian_log_densities(&self, gaussian: &Gaussian, targets: &Array2<f64>) -> Result<Array1<f64>> {
        let (points, p) = self.mean.dim();
        let mut log_densities = Array1::zeros(points);
        let mut cholesky = Cholesky::new(p);
        let mut noise = vec![0.0; p];
        gaussian.variance(&vec![0.0; p], &mut noise);
        for t in 0..points {
            let covariance = self.covariance.index_axis(Axis(0), t);
            let mut matrix = cholesky.matrix_mut();
            for i in 0..p {
                for j in 0..=i {
                    matrix[(i, j)] = covariance[(i, j)];
                }
                matrix[(i, i)] += noise[i];
            }
            cholesky.factor().map_err(|pivot| Error::NotPositiveDefinite {
                matrix: "the predictive covariance",
                size: p,
                pivot: pivot.0,
                advice: "raise sigma or the prior precision",
            })?;
            let mut error: Vec<f64> = (0..p).map(|k| targets[(t, k)] - self.mean[(t, k)]).collect();
            cholesky.solve_lower(&mut error);
            let distance: f64 = error.iter().map(|value| value * value).sum();
            log_densities[t] = -0.5 * (distance + cholesky.log_det() + p as f64 * (2.0 * std::f64::consts::PI).ln());
        }
        Ok(log_densities)
    }
}

/// log p(y | f) of each row.
fn log_densities_at(outputs: &Array2<f64>, family: &Family, targets: &Array2<f64>) -> Array1<f64> {
    let pairs = outputs.rows().into_iter().zip(targets.rows());
    pairs.map(|(f, y)| family.likelihood().log_density(&y.to_vec(), &f.to_vec())).collect()
}

/// log ∫ Poisson(y | e^f) N(f | m, v) df, by the trapezoidal rule in x = (f − m)/√v.
///
/// The integrand is log-concave, with its maximum where √v(y − e^f) = x, and there it has the width w = 1/√(1 + v e^f).
/// The rule runs as far as the integrand exceeds e⁻⁴⁰ of its maximum. Its error falls like exp(−2πd/h) with the width d
/// of the strip in which the integrand is tame: w for its Gaussian part and π/2 in f for exp(−e^f), hence the step.
fn log_poisson_mixture(y: f64, mean: f64, variance: f64) -> f64 {
    const NEGLIGIBLE: f64 = 40.0;
    const MOST_NODES: f64 = 20_000.0;
    let deviation = variance.max(0.0).sqrt();
    let log_integrand = |x: f64| Poisson.log_density(&[y], &[mean + deviation * x]) - 0.5 * x * x;
    if deviation == 0.0 {
        return log_integrand(0.0);
    }
    // The maximum lies between x = 0 and the point where e^f = y (with f = −750 in place of log 0), and closer to 0
    // than √v
    // |y − e^m|.
    let slope = |x: f64| deviation * (y - (mean + deviation * x).exp()) - x;
    let balance = if y > 0.0 { y.ln() } else { mean.min(-750.0) };
    let reach = ((balance - mean).abs() / deviation).min(deviation * (y - mean.exp()).abs());
    let (mut low, mut high) = if balance >= mean { (0.0, reach) } else { (-reach, 0.0) };
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if slope(middle) > 0.0 { low = middle } else { high = middle }
    }
    let (place, top) = (high, log_integrand(high));
    let width = 1.0 / (1.0 + variance * (mean + deviation * place).exp()).sqrt();
    let extent = |direction: f64| {
        let mut distance = width;
        while log_integrand(place + direction * distance) > top - NEGLIGIBLE {
            distance *= 1.5;
        }
        distance
    };
    let (left, right) = (extent(-1.0), extent(1.0));
    let step = (width / 3.0).min(0.2 / deviation).max((left + right) / MOST_NODES);
    let nodes = ((left + right) / step).ceil() as usize;
    let terms = (0..=nodes).map(|i| log_integrand(place - left + i as f64 * step));
    log_sum_exp(terms) + step.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln()
}

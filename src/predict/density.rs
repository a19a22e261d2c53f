//! The predictive density of an observation under the linearised predictive: log p(y) = log ∫ p(y | f) N(f | m, C) df.
//!
//! By the likelihood's own closed form or quadrature; by the link for logits of classes. Everything stays in the log
//! domain: a confident mistake costs its logit, not infinity.

use ndarray::{Array1, Array2, ArrayView2};

use super::links::{Centred, is_binary};
use super::{LatentGaussian, Link, log_sum_exp};
use crate::data::check_targets;
use crate::error::Result;
use crate::likelihood::{Family, likelihood_of};

impl LatentGaussian {
    /// log p(yₜ) at each test point. Only logits of classes need a link.
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
        check_targets(targets, family, points, p)?;
        let (rows, targets) = (family.at_rows(targets.view(), p), family.observed(targets.view(), p));
        let likelihood = rows.likelihood();
        if !likelihood.has_logits() {
            let at = |t: usize| likelihood_of(likelihood, t).log_density_under(&self.at(t), &targets.row(t).to_vec());
            return (0..points).map(at).collect();
        }
        Ok(match link {
            Link::Centred => match self.centred(family) {
                Centred::Probit { logits, share } => log_densities_at(&logits.probit_logits(share), family, targets),
                Centred::Bridge { logits } => {
                    let at = |t: usize| logits.plain_bridge(t).log_probabilities[targets[(t, 0)] as usize];
                    (0..points).map(at).collect()
                }
            },
            Link::CentredProbit => {
                let (logits, share) = self.centred_probit(family);
                log_densities_at(&logits.probit_logits(share), family, targets)
            }
            Link::Probit => log_densities_at(&self.probit_logits(1.0), family, targets),
            Link::Bridge if is_binary(family) => {
                let at = |t, k| self.binary_bridge(t, k).log_probabilities[usize::from(targets[(t, k)] > 0.5)];
                (0..points).map(|t| (0..p).map(|k| at(t, k)).sum()).collect()
            }
            Link::Bridge => {
                (0..points).map(|t| self.class_bridge(t).log_probabilities[targets[(t, 0)] as usize]).collect()
            }
            Link::MonteCarlo(settings) => {
                let observed: Vec<Vec<f64>> = targets.rows().into_iter().map(|row| row.to_vec()).collect();
                let mut logs = vec![Vec::with_capacity(settings.samples); points];
                self.for_each_draw(settings, |t, f| {
                    logs[t].push(likelihood_of(likelihood, t).log_density(&observed[t], f))
                })?;
                logs.into_iter().map(|logs| log_sum_exp(logs) - (settings.samples as f64).ln()).collect()
            }
        })
    }
}

/// log p(y | f) of each row.
fn log_densities_at(outputs: &Array2<f64>, family: &Family, targets: ArrayView2<'_, f64>) -> Array1<f64> {
    let pairs = outputs.rows().into_iter().zip(targets.rows());
    pairs.map(|(f, y)| family.likelihood().log_density(&y.to_vec(), &f.to_vec())).collect()
}

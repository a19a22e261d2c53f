//! The log marginal likelihood as a function of prior precision and noise, with its derivatives: what a caller's own
//! optimiser needs.

use super::tuning::{EvidenceOptions, Problem};
use crate::error::{Error, Result, Unsupported, check_size};
use crate::laplace::{Laplace, LogDet, LogDetForm};
use crate::prior::PriorStructure;

/// log p(D | A, σ) of a fitted posterior at any A = diag(α) and σ, whose curvature is decomposed once.
///
/// ```
/// # use ndarray::array;
/// # use riemannian_laplace::{Activation, Architecture, Dataset, Family, FitOptions, Laplace, Network};
/// use riemannian_laplace::internals::evidence::Evidence;
///
/// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 1.0])?;
/// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [2.9], [5.0]])?;
/// let laplace = Laplace::fit(network, data, Family::gaussian(0.5)?, &FitOptions::default())?;
/// let evidence = Evidence::of(&laplace, 1)?;
/// let (here, there) = (evidence.evaluate(&[1.0], &[0.5])?, evidence.evaluate(&[1.0 + 1e-6], &[0.5])?);
/// assert!((here.log_marginal_likelihood - laplace.log_marginal_likelihood()).abs() < 1e-12);
/// let slope = (there.log_marginal_likelihood - here.log_marginal_likelihood) / 1e-6;
/// assert!((slope - here.by_prior_precision[0]).abs() < 1e-5);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub struct Evidence {
    laplace: Laplace,
    log_det: Box<dyn LogDet>,
    structure: PriorStructure,
    n_precisions: usize,
}

/// The log marginal likelihood at some hyperparameters, and its derivatives there.
#[derive(Debug, Clone, PartialEq)]
pub struct EvidenceAt {
    /// log p(D | A, σ); −∞ where the precision is not positive definite.
    pub log_marginal_likelihood: f64,
    /// Its derivative by each α.
    pub by_prior_precision: Vec<f64>,
    /// Its derivative by each σ.
    pub by_sigma: Vec<f64>,
}

impl Evidence {
    /// The evidence of a posterior as a function of so many prior precisions: 1, one per group of parameters, or one per
    /// parameter; and of as many σ as the posterior has.
    pub fn of(laplace: &Laplace, n_precisions: usize) -> Result<Self> {
        if !laplace.prior().is_proper() {
            return Err(Error::Unsupported(Unsupported::ImproperEvidence));
        }
        if laplace.prior().is_earlier_posterior() {
            return Err(Error::Unsupported(Unsupported::ConstantPrior));
        }
        let groups = laplace.model().group_sizes();
        let structure = match n_precisions {
            1 => PriorStructure::Scalar,
            count if count == groups.len() => PriorStructure::PerLayer,
            _ => PriorStructure::PerWeight,
        };
        check_size("number of prior precisions", structure.shares(&groups).len(), n_precisions)?;
        let simple = structure == PriorStructure::Scalar && laplace.family().sigma().is_none_or(|s| s.len() == 1);
        let form = if simple { LogDetForm::Shared } else { LogDetForm::General { prior: structure } };
        let log_det = laplace.curvature()?.log_det(form)?;
        Ok(Self { laplace: laplace.clone(), log_det, structure, n_precisions })
    }

    /// The log marginal likelihood and its derivatives at these prior precisions and σ (in the units of the data).
    pub fn evaluate(&self, prior_precision: &[f64], sigma: &[f64]) -> Result<EvidenceAt> {
        let laplace = &self.laplace;
        check_size("number of prior precisions", self.n_precisions, prior_precision.len())?;
        check_size("number of sigma", laplace.sigma().map_or(0, |sigma| sigma.len()), sigma.len())?;
        for value in prior_precision.iter().chain(sigma) {
            if !(*value > 0.0 && value.is_finite()) {
                return Err(Error::Bounds { low: *value, high: f64::MAX });
            }
        }
        let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
        let (alpha, noise) = (logs(prior_precision), logs(&laplace.schema().scale_deviations(sigma)));
        let options = EvidenceOptions::default();
        let problem = Problem::new(laplace, &*self.log_det, (self.structure, alpha.clone()), noise.clone(), &options);
        let point = problem.pack(&alpha, &noise);
        let mut gradient = vec![0.0; point.len()];
        let value = problem.evaluate(&point, &mut gradient);
        // By a logarithm, the derivative is the same in all units.
        let (by_alpha, by_sigma) = gradient.split_at(alpha.len());
        let by = |slopes: &[f64], values: &[f64]| slopes.iter().zip(values).map(|(slope, x)| -slope / x).collect();
        Ok(EvidenceAt {
            log_marginal_likelihood: -value + laplace.log_density_shift() / laplace.temperature(),
            by_prior_precision: by(by_alpha, prior_precision),
            by_sigma: by(by_sigma, sigma),
        })
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::data::Dataset;
    use crate::laplace::{FitOptions, Structure};
    use crate::likelihood::Family;
    use crate::network::{Activation, Architecture, Network};

    fn posterior(structure: Structure) -> Result<Laplace> {
        let network = Network::random(Architecture::new(&[2, 4, 2], Activation::Tanh)?, 3);
        let inputs = Array2::from_shape_fn((30, 2), |(n, k)| ((n * (k + 2)) as f64).sin());
        let targets =
            Array2::from_shape_fn((30, 2), |(n, k)| inputs[(n, 0)] * (k as f64 + 0.5) + 0.1 * (n as f64).cos());
        let options = FitOptions { structure, ..Default::default() };
        Laplace::fit(network, Dataset::new(inputs, targets)?, Family::gaussian(0.7)?, &options)
    }

    /// Against a new fit with the same hyperparameters, and against differences of such fits.
    #[test]
    fn value_and_derivatives_are_those_of_new_fits() -> Result<()> {
        for structure in [Structure::WeightSpace, Structure::FunctionSpace, Structure::Kronecker, Structure::Diagonal] {
            let mut laplace = posterior(structure)?;
            for precisions in [vec![0.8], vec![0.8, 2.5]] {
                let evidence = Evidence::of(&laplace, precisions.len())?;
                let mut fitted = |alpha: &[f64], sigma: f64| -> Result<f64> {
                    laplace.set_hyperparameters(&alpha.to_vec().into(), &[sigma])?;
                    Ok(laplace.log_marginal_likelihood())
                };
                let at = evidence.evaluate(&precisions, &[0.4])?;
                assert!((at.log_marginal_likelihood - fitted(&precisions, 0.4)?).abs() < 1e-9);
                let h = 1e-5;
                for (k, slope) in at.by_prior_precision.iter().enumerate() {
                    let moved = |step: f64| {
                        let mut alpha = precisions.clone();
                        alpha[k] += step;
                        alpha
                    };
                    let difference = (fitted(&moved(h), 0.4)? - fitted(&moved(-h), 0.4)?) / (2.0 * h);
                    assert!(
                        (difference - slope).abs() < 1e-5 * (1.0 + slope.abs()),
                        "{structure}: {difference} {slope}"
                    );
                }
                let difference = (fitted(&precisions, 0.4 + h)? - fitted(&precisions, 0.4 - h)?) / (2.0 * h);
                let slope = at.by_sigma[0];
                assert!((difference - slope).abs() < 1e-5 * (1.0 + slope.abs()), "{structure}: {difference} {slope}");
            }
        }
        Ok(())
    }

    #[test]
    fn what_is_no_hyperparameter_is_refused() -> Result<()> {
        let evidence = Evidence::of(&posterior(Structure::Diagonal)?, 1)?;
        assert!(evidence.evaluate(&[-1.0], &[1.0]).is_err());
        assert!(evidence.evaluate(&[1.0], &[]).is_err());
        assert!(Evidence::of(&posterior(Structure::Diagonal)?, 5).is_err());
        Ok(())
    }
}

//! The sampled predictive: a mixture over weights θ_s, p(y | x) = 1/S Σ_s p(y | f(x, θ_s)).

use ndarray::{Array1, Array2, Array3, ArrayView2, Axis};
use rayon::prelude::*;

use super::summary::Summary;
use super::{Moments, log_sum_exp};
use crate::data::check_targets;
use crate::error::{Error, Result, check_size};
use crate::likelihood::{Family, likelihood_of};
use crate::map::Model;
use crate::memory;

/// The raw outputs of S sampled networks at T test points.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::Family;
/// use riemannian_laplace::{Activation, Architecture, Network};
/// use riemannian_laplace::internals::predict::SampledPredictive;
///
/// // Two networks f(x) = wx + b, at x = 1.
/// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 0.0])?;
/// let weights = array![[1.0, 0.0], [3.0, 0.0]];
/// let sampled = SampledPredictive::new(&network, &Family::gaussian(0.5)?, weights.view(), &array![[1.0]])?;
/// let moments = sampled.moments();
/// assert_eq!(moments.mean[(0, 0)], 2.0);
/// assert_eq!(moments.epistemic_variance[(0, 0)], 1.0);
/// assert_eq!(moments.total_variance[(0, 0)], 1.25);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SampledPredictive {
    family: Family,
    /// S × T × P.
    outputs: Array3<f64>,
}

impl SampledPredictive {
    /// Evaluates a model with each row of `weights` as its parameters.
    pub fn new(model: &dyn Model, family: &Family, weights: ArrayView2<'_, f64>, inputs: &Array2<f64>) -> Result<Self> {
        check_size("number of parameters", model.n_params(), weights.ncols())?;
        if weights.nrows() == 0 {
            return Err(Error::NoRows { what: "the samples".to_string() });
        }
        let (samples, points, p) = (weights.nrows(), inputs.nrows(), model.n_outputs());
        let map = model.bind(inputs.view())?;
        // The outputs as they arrive and once put together, and a copy of the weights.
        let (outputs, copies) = (2.0 * samples as f64 * (points * p) as f64, samples as f64 * model.n_params() as f64);
        let numbers = outputs + copies + map.evaluator_size(1) * rayon::current_num_threads() as f64;
        memory::check("the sampled predictions", numbers, "predict fewer points at a time, or with fewer samples")?;
        let rows: Vec<Vec<f64>> = weights.rows().into_iter().map(|row| row.to_vec()).collect();
        let outputs: Vec<Vec<f64>> = rows
            .par_iter()
            .map_init(
                || map.clone().evaluate(1),
                |evaluator, theta| {
                    let mut unit_major = vec![0.0; points * p];
                    evaluator.outputs(theta, &mut unit_major);
                    unit_major
                },
            )
            .collect();
        let outputs = Array3::from_shape_fn((samples, points, p), |(s, t, k)| outputs[s][k * points + t]);
        Ok(Self { family: family.clone(), outputs })
    }

    /// The predictive of outputs that are known already: samples × points × outputs.
    pub(super) fn of_outputs(family: &Family, outputs: Array3<f64>) -> Self {
        Self { family: family.clone(), outputs }
    }

    /// The likelihood.
    pub fn family(&self) -> &Family {
        &self.family
    }

    /// The same with another likelihood.
    pub(super) fn with_family(&self, family: &Family) -> Self {
        Self { family: family.clone(), outputs: self.outputs.clone() }
    }

    /// The raw outputs: samples × points × outputs.
    pub fn outputs(&self) -> &Array3<f64> {
        &self.outputs
    }

    /// Mean, variances and, for classes, entropies of the mixture.
    pub fn moments(&self) -> Moments {
        let (_, points, p) = self.outputs.dim();
        let mut summary = Summary::new(&self.family, points, p);
        for sample in self.outputs.outer_iter() {
            for (t, output) in sample.rows().into_iter().enumerate() {
                summary.add(t, &output.to_vec());
            }
        }
        summary.finish()
    }

    /// Quantiles over the samples of E(y | θ_s): one matrix (points × targets) per level, by linear interpolation.
    pub fn quantiles(&self, levels: &[f64]) -> Result<Vec<Array2<f64>>> {
        if let Some(level) = levels.iter().find(|level| !(0.0..=1.0).contains(*level)) {
            return Err(Error::QuantileLevel(*level));
        }
        let (samples, points, p) = self.outputs.dim();
        let likelihood = self.family.likelihood();
        let width = likelihood.n_means(p);
        let mut quantiles = vec![Array2::zeros((points, width)); levels.len()];
        let mut mean = vec![0.0; width];
        for t in 0..points {
            let mut columns = vec![Vec::with_capacity(samples); width];
            for output in self.outputs.index_axis(Axis(1), t).rows() {
                likelihood_of(likelihood, t).mean(&output.to_vec(), &mut mean);
                columns.iter_mut().zip(&mean).for_each(|(column, value)| column.push(*value));
            }
            for (k, column) in columns.iter_mut().enumerate() {
                column.sort_by(f64::total_cmp);
                for (level, quantile) in levels.iter().zip(&mut quantiles) {
                    let place = level * (samples - 1) as f64;
                    let (below, above) = (column[place.floor() as usize], column[place.ceil() as usize]);
                    quantile[(t, k)] = below + (place - place.floor()) * (above - below);
                }
            }
        }
        Ok(quantiles)
    }

    /// log p(yₜ) = log 1/S Σ_s p(yₜ | f(xₜ, θ_s)) at each test point, summed in the log domain.
    pub fn log_densities(&self, targets: &Array2<f64>) -> Result<Array1<f64>> {
        let (samples, points, p) = self.outputs.dim();
        check_targets(targets, &self.family, points, p)?;
        let family = self.family.at_rows(targets.view(), p);
        let targets = self.family.observed(targets.view(), p);
        let at = |t: usize| {
            let (target, likelihood) = (targets.row(t).to_vec(), likelihood_of(family.likelihood(), t));
            let outputs = self.outputs.index_axis(Axis(1), t);
            let logs = outputs.rows().into_iter().map(|output| likelihood.log_density(&target, &output.to_vec()));
            log_sum_exp(logs) - (samples as f64).ln()
        };
        Ok((0..points).map(at).collect())
    }
}

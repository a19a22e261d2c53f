//! Fitting: choose a solver by size, check the memory it needs, build the curvature and factor the posterior.

use std::sync::Arc;

use ndarray::Array2;
use rayon::prelude::*;

use super::curvature::{self, Curvature, Posterior};
use super::precision::Precision;
use crate::data::Dataset;
use crate::error::{Error, Result, check_size};
use crate::evidence::{self, EvidenceOptimum, EvidenceOptions, Hyperparameters};
use crate::likelihood::Family;
use crate::memory;
use crate::network::{Network, NetworkMap};
use crate::prior::{Prior, PriorPrecision};
use crate::random::stream;
use crate::target::Target;

/// Which of the two exact solvers to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SolverChoice {
    /// The one with the smaller matrix: weight space when D ≤ N·P.
    #[default]
    Auto,
    /// A D × D matrix.
    WeightSpace,
    /// An N·P × N·P matrix.
    FunctionSpace,
}

/// Settings of [`Laplace::fit`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FitOptions {
    /// The prior precision: empty for 1, one value for all parameters, or one for each layer.
    pub prior_precision: Vec<f64>,
    /// Which solver to use.
    pub solver: SolverChoice,
}

/// What the log likelihood at θ̂ depends on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fit {
    /// Σₙ (y − f)² for each output: the log likelihood follows for any σ.
    SquaredErrors(Vec<f64>),
    /// The log likelihood itself, for families without hyperparameters.
    LogLikelihood(f64),
}

/// A trained network with its Laplace posterior.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::data::Dataset;
/// use riemannian_laplace::laplace::{FitOptions, Laplace};
/// use riemannian_laplace::likelihood::Family;
/// use riemannian_laplace::network::{Activation, Architecture, Network};
///
/// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 1.0])?;
/// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [2.9], [5.0]])?;
/// let laplace = Laplace::fit(network, data, Family::gaussian(0.1)?, &FitOptions::default())?;
/// assert!(laplace.log_marginal_likelihood() < laplace.log_likelihood());
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Laplace {
    pub(crate) network: Network,
    pub(crate) data: Option<Dataset>,
    pub(crate) n_data: usize,
    pub(crate) family: Family,
    pub(crate) prior: PriorPrecision,
    pub(crate) fit: Fit,
    pub(crate) curvature: Curvature,
    pub(crate) posterior: Posterior,
}

impl Laplace {
    /// Fits the posterior around the network's parameters.
    pub fn fit(network: Network, data: Dataset, family: Family, options: &FitOptions) -> Result<Self> {
        let architecture = network.architecture();
        check_size("number of input columns", architecture.n_inputs(), data.inputs().ncols())?;
        data.check_targets(family.likelihood(), architecture.n_outputs())?;
        let groups = architecture.layer_params();
        let prior = match options.prior_precision.as_slice() {
            [] => PriorPrecision::scalar(1.0, &groups)?,
            [value] => PriorPrecision::scalar(*value, &groups)?,
            values => PriorPrecision::per_group(values.to_vec(), &groups)?,
        };
        let weight_space = choose(&network, &data, &family, options.solver)?;
        let fit = Fit::measure(&network, &data, &family)?;
        let curvature = if weight_space {
            Curvature::weight_space(&network, &data, &family)?
        } else {
            Curvature::function_space(&network, &data)?
        };
        let posterior = curvature.posterior(&network, &family, &prior)?;
        let n_data = data.len();
        Ok(Self { network, data: Some(data), n_data, family, prior, fit, curvature, posterior })
    }

    /// Maximises the log marginal likelihood over prior precision and σ, and refits with the optimum.
    pub fn optimize(&mut self, options: &EvidenceOptions) -> Result<EvidenceOptimum> {
        let optimum = evidence::optimize(self, options)?;
        match (self.set_hyperparameters(&optimum.hyperparameters), optimum.at_bound.first()) {
            (Err(error), Some(bound)) => Err(Error::TunedToBound { bound: bound.clone(), source: Box::new(error) }),
            (outcome, _) => outcome.map(|()| optimum),
        }
    }

    /// Replaces prior precision and σ, keeping the curvature (which is computed again only when one σ becomes several).
    pub fn set_hyperparameters(&mut self, hyperparameters: &Hyperparameters) -> Result<()> {
        let groups = self.network.architecture().layer_params();
        let prior = match hyperparameters.prior_precision.as_slice() {
            [value] => PriorPrecision::scalar(*value, &groups)?,
            values => PriorPrecision::per_group(values.to_vec(), &groups)?,
        };
        let family = match &self.family {
            Family::Gaussian(_) => Family::gaussian_per_output(&hyperparameters.sigma)?,
            other => other.clone(),
        };
        family.likelihood().check_outputs(self.network.architecture().n_outputs()).map_err(Error::Outputs)?;
        let (levels, parts) = (hyperparameters.sigma.len(), self.curvature.n_parts());
        if family.sigma().is_some() && parts.is_some_and(|parts| parts < levels) {
            let data = self.data.as_ref().ok_or_else(|| Error::Setting {
                name: "sigma",
                value: format!("{:?}", hyperparameters.sigma),
                requirement: "a single value for a posterior that was saved without its training data",
            })?;
            self.curvature = Curvature::weight_space(&self.network, data, &family)?;
        }
        self.posterior = self.curvature.posterior(&self.network, &family, &prior)?;
        (self.prior, self.family) = (prior, family);
        Ok(())
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The training data, when the posterior holds them.
    pub fn data(&self) -> Option<&Dataset> {
        self.data.as_ref()
    }

    /// N, the number of training points.
    pub fn n_data(&self) -> usize {
        self.n_data
    }

    /// The likelihood, with its σ.
    pub fn family(&self) -> &Family {
        &self.family
    }

    /// The prior precision A.
    pub fn prior(&self) -> &PriorPrecision {
        &self.prior
    }

    /// The factored precision G.
    pub fn precision(&self) -> &dyn Precision {
        self.posterior.as_precision()
    }

    /// Σₙ log p(yₙ | f(xₙ, θ̂)), with every constant.
    pub fn log_likelihood(&self) -> f64 {
        self.fit.log_likelihood(self.n_data, &curvature::sigmas(&self.family))
    }

    /// log det G − log det A.
    pub fn log_det_ratio(&self) -> f64 {
        self.precision().log_det_ratio()
    }

    /// The Laplace estimate of the log evidence, as laplace-torch defines it:
    /// log p(D | θ̂) − ½(log det G − log det A + θ̂ᵀAθ̂).
    pub fn log_marginal_likelihood(&self) -> f64 {
        let scatter = self.prior.quadratic(self.network.parameters());
        self.log_likelihood() - 0.5 * (self.log_det_ratio() + scatter)
    }

    /// The number of directions in weight space that the data determine: D − tr(AG⁻¹).
    pub fn effective_parameters(&self) -> f64 {
        self.precision().effective_parameters()
    }

    /// Draws θ ~ N(θ̂, G⁻¹), one a row. Draw i of a seed is the same on any number of threads.
    pub fn sample(&self, samples: usize, seed: u64) -> Result<Array2<f64>> {
        let size = self.network.parameters().len();
        memory::check("the samples", (samples * size) as f64, "ask for fewer samples")?;
        let mut draws = Array2::zeros((samples, size));
        draws.as_slice_mut().unwrap_or_default().par_chunks_mut(size).enumerate().for_each_init(
            || self.precision().worker(),
            |worker, (index, draw)| {
                worker.sample(&mut stream(seed, index as u64), draw);
                for (value, centre) in draw.iter_mut().zip(self.network.parameters()) {
                    *value += centre;
                }
            },
        );
        Ok(draws)
    }

    /// The posterior density that the approximation is of, as a target for metrics, samplers and optimisers.
    pub fn target(&self, metric: &'static str) -> Result<Target<NetworkMap>> {
        let data = self.data.as_ref().ok_or(Error::NoTrainingData { metric })?;
        let map = NetworkMap::new(self.network.architecture().clone(), data.inputs().view())?;
        let likelihood: Arc<_> = self.family.shared();
        Target::new(map, likelihood, data.targets().view(), Prior::gaussian(self.prior.clone()))
    }
}

impl Fit {
    fn measure(network: &Network, data: &Dataset, family: &Family) -> Result<Self> {
        let outputs = curvature::outputs(network, data.inputs())?;
        if family.sigma().is_some() {
            let squared = (&outputs - data.targets()).mapv(|error| error * error);
            if let Some(((row, column), _)) = squared.indexed_iter().find(|(_, value)| !value.is_finite()) {
                return Err(Error::NotFinite { what: "the squared error of the network's output", row, column });
            }
            return Ok(Fit::SquaredErrors(squared.sum_axis(ndarray::Axis(0)).to_vec()));
        }
        let mut sum = 0.0;
        for (row, (output, target)) in outputs.rows().into_iter().zip(data.targets().rows()).enumerate() {
            let log_density = family.likelihood().log_density(&target.to_vec(), &output.to_vec());
            if !log_density.is_finite() {
                return Err(Error::NotFinite { what: "the log likelihood at the network's output", row, column: 0 });
            }
            sum += log_density;
        }
        Ok(Fit::LogLikelihood(sum))
    }

    /// The squared errors of each output; empty for families without σ.
    pub(crate) fn squared_errors(&self) -> &[f64] {
        match self {
            Fit::SquaredErrors(errors) => errors,
            Fit::LogLikelihood(_) => &[],
        }
    }

    /// The log likelihood under the given σ (one, or one for each output).
    pub(crate) fn log_likelihood(&self, n_data: usize, sigma: &[f64]) -> f64 {
        match self {
            Fit::LogLikelihood(value) => *value,
            Fit::SquaredErrors(errors) => {
                let term = |(output, error): (usize, &f64)| {
                    let variance = sigma[if sigma.len() == 1 { 0 } else { output }].powi(2);
                    -0.5 * (n_data as f64 * (2.0 * std::f64::consts::PI * variance).ln() + error / variance)
                };
                errors.iter().enumerate().map(term).sum()
            }
        }
    }
}

/// f64 numbers the weight-space solver holds at its peak: the curvature parts, G, its factor, and one of each in tuning.
fn weight_space_numbers(d: f64, parts: f64) -> f64 {
    d * d * (parts + 4.0)
}

/// f64 numbers the function-space solver holds at its peak.
fn function_space_numbers(d: f64, m: f64, workspace: f64) -> f64 {
    4.0 * m * m + 2.0 * workspace + 8.0 * d
}

/// Whether to work in weight space, after checking that the choice fits in memory.
fn choose(network: &Network, data: &Dataset, family: &Family, choice: SolverChoice) -> Result<bool> {
    let architecture = network.architecture();
    let d = architecture.n_params() as f64;
    let m = (data.len() * architecture.n_outputs()) as f64;
    let widths: f64 = architecture.linear_layers().iter().map(|layer| layer.outputs as f64).sum();
    let workspace = data.len() as f64 * widths * (5 + architecture.n_outputs()) as f64;
    let weight = weight_space_numbers(d, curvature::sigmas(family).len() as f64);
    let function = function_space_numbers(d, m, workspace);
    let weight_space = match choice {
        SolverChoice::Auto => d <= m,
        SolverChoice::WeightSpace => true,
        SolverChoice::FunctionSpace => false,
    };
    let limit = memory::limit() as f64 / 8.0;
    let (what, needed, other, other_needed) = if weight_space {
        (format!("the weight-space solver (D = {d})"), weight, "function", function)
    } else {
        (format!("the function-space solver (N·P = {m})"), function, "weight", weight)
    };
    let advice = if other_needed <= limit {
        format!("the {other}-space solver would fit: it needs {}", memory::gigabytes(other_needed * 8e-9))
    } else {
        let points = ((limit / 4.0).sqrt() / architecture.n_outputs() as f64) as usize;
        let params = (limit / 5.0).sqrt() as usize;
        format!(
            "about {points} data points (function space) or a network of about {params} parameters (weight space) would fit; \
             or raise the limit with `--max-memory`"
        )
    };
    memory::check(&what, needed, advice)?;
    Ok(weight_space)
}

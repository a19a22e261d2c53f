//! Fitting: choose a structure, check the memory it needs, accumulate the curvature over the data and factor it.

use std::sync::{Arc, OnceLock};

use ndarray::{Array2, Axis};

use super::CurvatureKind;
use super::accumulate::{Fit, accumulate, rows_at_once};
use super::advice::choose;
use super::features::AtFeatures;
use super::options::{FitOptions, PriorValues};
use super::problem::{Problem, sigmas};
use super::structure::{Curvature, Precision, Structure};
use crate::conformal::Calibration;
use crate::data::{Batches, Dataset, Schema};
use crate::error::{Error, PosteriorError, Result, Unsupported, check_size};
use crate::likelihood::{Dispersion, Family};
use crate::linalg::first_not_finite;
use crate::map::{Map, Model};
use crate::network::Recipe;
use crate::prior::{Prior, PriorMean, PriorPrecision};
use crate::target::Target;

/// A trained model with its Laplace posterior. Shared among threads (`Send + Sync`), and cheap to clone.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::Dataset;
/// use riemannian_laplace::{FitOptions, Laplace};
/// use riemannian_laplace::Family;
/// use riemannian_laplace::{Activation, Architecture, Network};
///
/// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 1.0])?;
/// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [2.9], [5.0]])?;
/// let laplace = Laplace::fit(network, data, Family::gaussian(0.1)?, &FitOptions::default())?;
/// assert!(laplace.log_marginal_likelihood() < laplace.log_likelihood());
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Laplace {
    pub(super) problem: Problem,
    pub(super) schema: Schema,
    pub(super) prior: Prior,
    pub(super) fit: Fit,
    pub(super) structure: Structure,
    /// The sums over the data: from the fit or the file, or recomputed from the data when first needed.
    pub(super) curvature: OnceLock<Arc<dyn Curvature>>,
    pub(super) precision: Arc<dyn Precision>,
    /// The training data behind a frozen front, where they were computed for the fit.
    pub(super) features: Option<Arc<AtFeatures>>,
    /// How the network was trained, where that is known.
    pub(super) recipe: Option<Recipe>,
    /// The scores of calibration rows; gone when the posterior changes.
    pub(super) calibration: Option<Arc<Calibration>>,
    /// The fingerprint of the file that it was read from.
    pub(super) stored: Option<String>,
}

impl Laplace {
    /// Fits the posterior around the model's parameters. The data are kept: the Riemannian metrics need them.
    pub fn fit(model: impl Model + 'static, data: Dataset, family: Family, options: &FitOptions) -> Result<Self> {
        Self::fit_shared(Arc::new(model), data, family, options)
    }

    /// The same for a model that is shared, such as the part of one that [`Weights`](super::Weights) select.
    pub fn fit_shared(model: Arc<dyn Model>, data: Dataset, family: Family, options: &FitOptions) -> Result<Self> {
        Self::fit_watched(model, data, family, options, &())
    }

    /// Fits the posterior to data that are read in batches and not kept.
    pub fn fit_batches(
        model: Arc<dyn Model>,
        data: &dyn Batches,
        family: Family,
        options: &FitOptions,
    ) -> Result<Self> {
        let (problem, prior, structure) = prepare(model, data, family, options)?;
        let sums = accumulate(&problem, structure, data)?;
        Self::factored(problem, data.schema(), prior, structure, sums)
    }

    /// The posterior from its sums over the data.
    pub(super) fn factored(
        problem: Problem,
        schema: &Schema,
        prior: Prior,
        structure: Structure,
        (curvature, fit): (Box<dyn Curvature>, Fit),
    ) -> Result<Self> {
        check_names(&problem, schema)?;
        let precision = curvature.factor(prior.precision(), &problem.scales())?;
        let curvature = OnceLock::from(Arc::from(curvature));
        Ok(Self {
            problem,
            schema: schema.clone(),
            prior,
            fit,
            structure,
            curvature,
            precision,
            features: None,
            recipe: None,
            calibration: None,
            stored: None,
        })
    }

    /// The posterior of another model with the same parameters, with this posterior's data, hyperparameters and
    /// structure.
    pub(crate) fn with_model(&self, model: Arc<dyn Model>, what: &'static str) -> Result<Self> {
        let data = self.problem.data.as_deref().ok_or(Error::NoTrainingData { what })?;
        let problem = Problem { model, ..self.problem.clone() };
        let structure = choose(&problem, self.structure, self.prior())?;
        let (curvature, fit) = accumulate(&problem, structure, data)?;
        let precision = curvature.factor(self.prior.precision(), &problem.scales())?;
        let (schema, prior) = (self.schema.clone(), self.prior.clone());
        let curvature = OnceLock::from(Arc::from(curvature));
        let recipe = self.recipe.clone();
        let (features, stored, calibration) = (None, None, None);
        Ok(Self { problem, schema, prior, fit, structure, curvature, precision, features, recipe, stored, calibration })
    }

    /// Assembles the contents of a file.
    pub(super) fn from_parts(
        problem: Problem,
        schema: Schema,
        prior: Prior,
        fit: Fit,
        curvature: Option<Box<dyn Curvature>>,
        precision: Arc<dyn Precision>,
    ) -> Self {
        let structure = precision.structure();
        let curvature = curvature.map_or_else(OnceLock::new, |curvature| OnceLock::from(Arc::from(curvature)));
        let (features, recipe, stored, calibration) = (None, None, None, None);
        Self { problem, schema, prior, fit, structure, curvature, precision, features, recipe, stored, calibration }
    }

    /// How the network was trained, where that is known.
    pub fn recipe(&self) -> Option<&Recipe> {
        self.recipe.as_ref()
    }

    /// The fingerprint of the file that this posterior was read from: what samples of it carry.
    pub fn stored_fingerprint(&self) -> Option<&str> {
        self.stored.as_deref()
    }

    /// Keeps how the network was trained, so that it can be trained again without some of the data.
    pub fn set_recipe(&mut self, recipe: Option<Recipe>) {
        self.recipe = recipe;
    }

    /// The sums over the data.
    pub(crate) fn curvature(&self) -> Result<Arc<dyn Curvature>> {
        if let Some(curvature) = self.curvature.get() {
            return Ok(curvature.clone());
        }
        let data = self.data().ok_or(Error::NoTrainingData { what: "other hyperparameters" })?;
        let (curvature, _) = accumulate(&self.problem, self.structure, data)?;
        Ok(self.curvature.get_or_init(|| Arc::from(curvature)).clone())
    }

    /// Replaces prior precision and σ, keeping the curvature (which is computed again only when one σ becomes several).
    pub fn set_hyperparameters(&mut self, prior_precision: &PriorValues, sigma: &[f64]) -> Result<()> {
        let prior = prior_precision.over(&self.problem.model.group_sizes())?;
        if self.prior().is_earlier_posterior() && prior != *self.prior() {
            return Err(Error::Unsupported(Unsupported::ConstantPrior));
        }
        let model = &self.problem.model;
        let family = self.problem.family.with_sigma(sigma)?;
        family.likelihood().check_outputs(model.n_outputs()).map_err(Error::Outputs)?;
        let problem = Problem { family, ..self.problem.clone() };
        problem.check_noise()?;
        let mut curvature = self.curvature()?;
        if curvature.n_levels() < problem.sigmas().len() {
            let data = self.data().ok_or(Error::NoTrainingData { what: "one sigma per output" })?;
            curvature = Arc::from(accumulate(&problem, self.structure, data)?.0);
        }
        self.precision = curvature.factor(&prior, &problem.scales())?;
        self.calibration = None;
        self.prior = self.prior.with_precision(prior);
        (self.problem, self.curvature) = (problem, OnceLock::from(curvature));
        Ok(())
    }

    /// The same posterior under other [dispersion parameters](crate::internals::likelihood::Likelihood::dispersions) of its
    /// likelihood: the curvature and the log likelihood are summed over the training data again.
    pub fn with_dispersions(&self, values: &[f64]) -> Result<Self> {
        let data = self.problem.data.clone().ok_or(Error::NoTrainingData { what: "other dispersion parameters" })?;
        let problem = Problem { family: self.family().with_dispersions(values)?, ..self.problem.clone() };
        let features = if self.structure.is_sum() { AtFeatures::of(&problem, &data)? } else { None };
        let sums = match &features {
            Some(features) => accumulate(&features.problem(&problem), self.structure, &**features.data())?,
            None => accumulate(&problem, self.structure, &*data)?,
        };
        let laplace = Self::factored(problem, &self.schema, self.prior.clone(), self.structure, sums)?;
        Ok(Self { features: features.map(Arc::new), recipe: self.recipe.clone(), ..laplace })
    }

    /// The dispersion parameters of the likelihood by name, in the units of the data.
    pub fn dispersions(&self) -> Vec<(String, f64)> {
        let in_units = |parameter: Dispersion| {
            let restored = self.schema.restore_deviations(&[parameter.value]);
            let value = if parameter.has_units { restored.first().copied() } else { None };
            (parameter.name, value.unwrap_or(parameter.value))
        };
        self.family().likelihood().dispersions().into_iter().map(in_units).collect()
    }

    /// The model, with its trained parameters θ̂.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.problem.model
    }

    /// θ̂.
    pub fn parameters(&self) -> &[f64] {
        self.problem.model.parameters()
    }

    /// The training data, when the posterior holds them.
    pub fn data(&self) -> Option<&Dataset> {
        self.problem.data.as_deref()
    }

    /// What is fitted.
    pub(crate) fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The names, classes and scaling of the data's columns.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// N, the number of training points.
    pub fn n_data(&self) -> usize {
        self.problem.n_data
    }

    /// The likelihood, with its σ in the units of the model.
    pub fn family(&self) -> &Family {
        &self.problem.family
    }

    /// The prior precision A.
    pub fn prior(&self) -> &PriorPrecision {
        self.prior.precision()
    }

    /// The prior mean μ.
    pub fn prior_mean(&self) -> &PriorMean {
        self.prior.mean()
    }

    /// What the data's share of the precision is made of.
    pub fn curvature_kind(&self) -> CurvatureKind {
        self.problem.kind
    }

    /// T: the posterior is proportional to prior · likelihood^(1/T).
    pub fn temperature(&self) -> f64 {
        self.problem.temperature
    }

    /// The factored precision G.
    pub fn precision(&self) -> &Arc<dyn Precision> {
        &self.precision
    }

    /// The structure of the precision.
    pub fn structure(&self) -> Structure {
        self.structure
    }

    /// What the log likelihood depends on.
    pub(crate) fn goodness(&self) -> &Fit {
        &self.fit
    }

    /// Σₙ log p(yₙ | f(xₙ, θ̂)), with every constant, of the targets in the units of the data.
    pub fn log_likelihood(&self) -> f64 {
        self.fit.log_likelihood(&sigmas(self.family())) + self.log_density_shift()
    }

    /// What the scaling of the targets adds to the log likelihood.
    pub(crate) fn log_density_shift(&self) -> f64 {
        self.fit.weight() * self.schema.log_density_shift()
    }

    /// The noise σ in the units of the data: one value, or one per output; `None` for families without noise.
    pub fn sigma(&self) -> Option<Vec<f64>> {
        self.family().sigma().map(|sigma| self.schema.restore_deviations(sigma))
    }

    /// log det G − log det A.
    pub fn log_det_ratio(&self) -> f64 {
        self.precision.log_det_ratio()
    }

    /// The Laplace estimate of the log evidence: T⁻¹ log p(D | θ̂) − ½(log det G − log det A + (θ̂−μ)ᵀA(θ̂−μ)). At T = 1
    /// and μ = 0 it is the one of laplace-torch; for other T it estimates log ∫ p(D | θ)^(1/T) π(θ) dθ, the normaliser of
    /// the tempered posterior.
    pub fn log_marginal_likelihood(&self) -> f64 {
        let scatter = self.prior.scatter(self.parameters());
        self.log_likelihood() / self.temperature() - 0.5 * (self.log_det_ratio() + scatter)
    }

    /// The standard error of the log marginal likelihood, where the log determinant is an estimate; none where it is exact.
    pub fn log_marginal_likelihood_error(&self) -> Option<f64> {
        self.precision.estimates().map(|estimates| 0.5 * estimates.log_det_ratio_error)
    }

    /// The number of directions in weight space that the data determine: D − tr(AG⁻¹).
    pub fn effective_parameters(&self) -> f64 {
        self.precision.effective_parameters()
    }

    /// The posterior density that is being approximated, as a target for metrics, samplers and optimisers; `what` names
    /// the use, for the error where there are no training data.
    pub fn target(&self, what: &'static str) -> Result<Target> {
        self.target_of(&*self.problem.model, what)
    }

    /// The same with another model of the same parameters in place of this posterior's.
    pub(crate) fn target_of(&self, model: &dyn Model, what: &'static str) -> Result<Target> {
        if self.prior().is_earlier_posterior() {
            return Err(Error::Posterior(PosteriorError::EarlierDataGone { what }));
        }
        let data = self.data().ok_or(Error::NoTrainingData { what })?;
        let map = model.bind(data.inputs().view())?;
        let target = Target::of_rows(map, self.family(), data.targets().view(), self.prior.clone())?;
        Ok(target.tempered(self.temperature()))
    }

    /// The model's raw outputs at θ̂, one row per input (both in the units of the model).
    pub fn outputs(&self, inputs: &Array2<f64>) -> Result<Array2<f64>> {
        check_size("number of input columns", self.problem.model.n_inputs(), inputs.ncols())?;
        let mut all = Array2::zeros((inputs.nrows(), self.problem.model.n_outputs()));
        let rows = rows_at_once(&*self.problem.model, 0.0).min(inputs.nrows().max(1));
        let parts = all.axis_chunks_iter_mut(Axis(0), rows).zip(inputs.axis_chunks_iter(Axis(0), rows));
        for (index, (mut part, chunk)) in parts.enumerate() {
            let map = self.problem.model.bind(chunk).map_err(|error| error.in_part_from(index * rows))?;
            part.assign(&outputs(&map, self.parameters()));
        }
        match first_not_finite(all.view()) {
            Some((row, column)) => Err(Error::NotFinite { what: "the network's output", row, column }),
            None => Ok(all),
        }
    }
}

/// What is fitted, under which prior and in which structure; checked before the data are read.
pub(super) fn prepare(
    model: Arc<dyn Model>,
    data: &dyn Batches,
    family: Family,
    options: &FitOptions,
) -> Result<(Problem, Prior, Structure)> {
    let family = family.with_known(&data.schema().known_kinds())?;
    family.likelihood().check_outputs(model.n_outputs()).map_err(Error::Outputs)?;
    let prior = Prior::gaussian(options.prior_precision.over(&model.group_sizes())?);
    let prior = prior.around(options.prior_mean.clone())?;
    let temperature = checked_temperature(options.temperature)?;
    let (kind, n_data) = (options.curvature, data.n_rows());
    let problem = Problem { model, family, kind, temperature, n_data, data: None };
    problem.check_noise()?;
    let structure = choose(&problem, options.structure, prior.precision())?;
    Ok((problem, prior, structure))
}

/// Checks that every column has a name: of data that were read, whose columns are right.
pub(super) fn check_names(problem: &Problem, schema: &Schema) -> Result<()> {
    let n_targets = problem.family.likelihood().n_targets(problem.model.n_outputs());
    check_size("number of input names", problem.model.n_inputs(), schema.inputs().len())?;
    check_size("number of target names", n_targets, schema.targets().len())
}

/// T, where it is one.
pub(super) fn checked_temperature(temperature: f64) -> Result<f64> {
    if temperature > 0.0 && temperature.is_finite() { Ok(temperature) } else { Err(Error::Temperature(temperature)) }
}

/// A map's outputs at θ, one row per point.
fn outputs(map: &Arc<dyn Map>, theta: &[f64]) -> Array2<f64> {
    let (points, p) = (map.n_points(), map.n_outputs());
    let mut unit_major = vec![0.0; points * p];
    map.clone().evaluate(1).outputs(theta, &mut unit_major);
    Array2::from_shape_fn((points, p), |(n, output)| unit_major[output * points + n])
}

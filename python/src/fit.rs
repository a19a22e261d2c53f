//! What Python says about a fit, as the engine's options.

use std::sync::Arc;

use ndarray::Array2;
use pyo3::prelude::*;
use riemannian_laplace::internals::data::{KnownColumn, Standardization, for_classes_of};
use riemannian_laplace::internals::likelihood::Known;
use riemannian_laplace::{
    CurvatureKind, Dataset, Family, FitOptions, Laplace, Model, PriorMean, PriorValues, Progress, Result, Scaling,
    Schema, Structure, Weights,
};

use crate::derivatives::{DerivedModel, Shared};
use crate::errors::{OrRaise, raise};
use crate::network::Network;

/// The names of the columns; none where they have no names.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Columns {
    inputs: Option<Vec<String>>,
    targets: Option<Vec<String>>,
    classes: Option<Vec<String>>,
    scaling: Option<ScaledColumns>,
    /// What is known of each row: the columns behind the targets, each `noise`, `trials` or `weight`.
    known: Vec<String>,
}

/// How the data were scaled before the network saw them.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct ScaledColumns {
    inputs: (Vec<f64>, Vec<f64>),
    targets: Option<(Vec<f64>, Vec<f64>)>,
}

impl Columns {
    /// The data with these names.
    pub fn dataset(self, inputs: Array2<f64>, targets: Array2<f64>) -> Result<Dataset> {
        let known = self.known.iter().map(|kind| known_column(kind)).collect::<Result<Vec<_>>>()?;
        let unnamed = Schema::unnamed(inputs.ncols(), targets.ncols() - known.len().min(targets.ncols()));
        let names = |given: Option<Vec<String>>, usual: &[String]| given.unwrap_or_else(|| usual.to_vec());
        let schema = Schema::new(names(self.inputs, unnamed.inputs()), names(self.targets, unnamed.targets()))?;
        let schema = match self.classes {
            Some(classes) => schema.with_classes(classes)?,
            None => schema,
        };
        let data = Dataset::new(inputs, targets)?.with_schema(schema.with_known(known)?)?;
        match self.scaling {
            Some(scaling) => data.scaled_by(scaling.parse()?),
            None => Ok(data),
        }
    }
}

/// A column by what it holds, under a name that no other column is likely to have.
fn known_column(kind: &str) -> Result<KnownColumn> {
    let kind = [Known::Noise, Known::Trials, Known::Weight].into_iter().find(|known| known.name() == kind);
    let kind = kind.unwrap_or(Known::Weight);
    Ok(KnownColumn { name: format!("({})", kind.name()), kind })
}

impl ScaledColumns {
    fn parse(self) -> Result<Scaling> {
        let standardization = |(mean, scale)| Standardization::new(mean, scale);
        Ok(Scaling { inputs: standardization(self.inputs)?, targets: self.targets.map(standardization).transpose()? })
    }
}

/// What is fitted: a network of the engine, or a model whose derivatives Python computes.
#[derive(FromPyObject)]
pub enum Fitted<'py> {
    /// A network.
    Network(PyRef<'py, Network>),
    /// Any other model.
    Derived(PyRef<'py, DerivedModel>),
}

impl Fitted<'_> {
    /// As the engine sees it.
    pub fn model(&self) -> Arc<dyn Model> {
        match self {
            Self::Network(network) => Arc::new(network.network.clone()),
            Self::Derived(derived) => Arc::new(Shared(Arc::clone(&derived.model))),
        }
    }
}

/// The settings of a fit.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    likelihood: String,
    sigma: Option<Vec<f64>>,
    weights: String,
    indices: Option<Vec<usize>>,
    structure: String,
    prior_precision: Vec<f64>,
    prior_mean: Vec<f64>,
    temperature: f64,
    curvature: String,
}

/// The same, in the engine's types.
#[derive(Debug)]
pub struct Fit {
    family: Family,
    /// Whether its noise was given, in the units of the data.
    sigma_given: bool,
    weights: Weights,
    structure: Structure,
    prior_precision: Vec<f64>,
    prior_mean: Vec<f64>,
    temperature: f64,
    curvature: CurvatureKind,
}

impl Settings {
    /// Parses the names.
    pub fn parse(self, py: Python<'_>) -> PyResult<Fit> {
        let family = match self.likelihood.as_str() {
            "gaussian" => Family::gaussian_per_output(self.sigma.as_deref().unwrap_or(&[1.0])),
            name => name.parse(),
        };
        let weights = match self.indices {
            Some(indices) => Weights::Indices(indices),
            None => self.weights.parse().or_raise(py)?,
        };
        let curvature = CurvatureKind::of_name(&self.curvature).ok_or_else(|| {
            let known = CurvatureKind::ALL.map(CurvatureKind::name).join(", ");
            raise(py, "InputError", format!("there is no curvature `{}`; use one of {known}", self.curvature))
        })?;
        Ok(Fit {
            family: family.or_raise(py)?,
            sigma_given: self.sigma.is_some(),
            weights,
            structure: self.structure.parse().or_raise(py)?,
            prior_precision: self.prior_precision,
            prior_mean: self.prior_mean,
            temperature: self.temperature,
            curvature,
        })
    }
}

impl Fit {
    /// The posterior of a model's weights.
    pub fn run(self, whole: Arc<dyn Model>, data: Dataset, progress: &dyn Progress) -> Result<Laplace> {
        let family = match self.family.sigma() {
            Some(sigma) if self.sigma_given => Family::gaussian_per_output(&data.schema().scale_deviations(sigma))?,
            _ => self.family,
        };
        let known = family.with_known(&data.schema().known_kinds())?;
        let family = match known.known().contains(&Known::Noise) && !self.sigma_given {
            // Nothing is added to noise that is known, unless it is asked for.
            true => known.with_dispersions(&[0.0])?,
            false => for_classes_of(&known, &data, 0)?,
        };
        let first = self.prior_precision.first().copied().unwrap_or(1.0);
        let rule = FitOptions { prior_precision: first.into(), structure: self.structure, ..Default::default() };
        let part = self.weights.restrict_with(&whole, &data, &family, &rule)?;
        let options = FitOptions {
            prior_precision: prior_values(self.prior_precision, &*part),
            prior_mean: match self.prior_mean[..] {
                [mean] => PriorMean::Shared(mean),
                _ => PriorMean::from(self.prior_mean),
            },
            temperature: self.temperature,
            curvature: self.curvature,
            structure: self.structure,
        };
        Laplace::fit_watched(part, data, family, &options, progress)
    }
}

/// One prior precision, one per layer, or one per weight, by their number.
pub fn prior_values(values: Vec<f64>, model: &dyn Model) -> PriorValues {
    if values.len() > 1 && values.len() != model.groups().len() && values.len() == model.n_params() {
        return PriorValues::PerWeight(values);
    }
    values.into()
}

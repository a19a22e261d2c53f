//! The posterior: fitting, tuning, predicting, sampling, files. It never changes: what tunes or adds data gives another
//! one, so that an interrupted call leaves the old one as it was.

use std::path::PathBuf;

use ndarray::Array3;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray3, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riemannian_laplace::internals::evaluate::{TrainingFit, leave_one_out};
use riemannian_laplace::internals::evidence::{self, AtBound, Free, PriorStructure};
use riemannian_laplace::internals::geodesic::MetricOptions;
use riemannian_laplace::internals::predict::{CalibrationOptions, Predictive, draw_weights, predict};
use riemannian_laplace::internals::tensors::TensorFile;
use riemannian_laplace::{
    Contents, Dataset, Draws, EvidenceOptions, Laplace, MetricName, SamplerOptions, Smoothing, ValidationOptions,
};

use crate::errors::{OrRaise, raise};
use crate::evidence::Evidence;
use crate::fit::{Columns, Fitted, Settings, prior_values};
use crate::leave_one_out::LeaveOneOut;
use crate::method::{LinkSettings, MethodSettings};
use crate::prediction::Prediction;
use crate::samples::Samples;
use crate::work::run;

type Array<'py> = PyReadonlyArray2<'py, f64>;
type Vector<'py> = Bound<'py, PyArray1<f64>>;
type Matrix<'py> = Bound<'py, PyArray2<f64>>;
type Watch<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// A trained network with its Laplace posterior.
#[pyclass(frozen, module = "riemannian_laplace._core")]
#[derive(Debug, Clone)]
pub struct Posterior {
    laplace: Laplace,
    /// That of the file it was read from, which samples of it carry.
    fingerprint: Option<String>,
}

#[pymethods]
impl Posterior {
    /// Fits the posterior of a network.
    #[staticmethod]
    #[pyo3(signature = (network, inputs, targets, *, columns, settings, watch=None))]
    fn fit(
        py: Python<'_>,
        network: Fitted<'_>,
        inputs: Array<'_>,
        targets: Array<'_>,
        columns: Columns,
        settings: Settings,
        watch: Watch<'_, '_>,
    ) -> PyResult<Self> {
        let fit = settings.parse(py)?;
        let data = columns.dataset(inputs.as_array().to_owned(), targets.as_array().to_owned()).or_raise(py)?;
        let model = network.model();
        let laplace = run(py, watch, |progress| fit.run(model, data, progress))?;
        Ok(Self { laplace, fingerprint: None })
    }

    /// The posterior with further data.
    #[pyo3(signature = (inputs, targets, *, watch=None))]
    fn updated(&self, py: Python<'_>, inputs: Array<'_>, targets: Array<'_>, watch: Watch<'_, '_>) -> PyResult<Self> {
        let schema = self.laplace.schema();
        let data = match schema.scaling() {
            Some(scaling) => self.columns_of(inputs, targets).and_then(|data| data.scaled_by(scaling.clone())),
            None => self.columns_of(inputs, targets),
        };
        let data = data.or_raise(py)?;
        let mut laplace = self.laplace.clone();
        let laplace = run(py, watch, move |_| laplace.update(data).map(|()| laplace))?;
        Ok(Self { laplace, fingerprint: None })
    }

    /// The posterior with another prior precision and noise (in the units of the data).
    fn with_hyperparameters(&self, py: Python<'_>, prior_precision: Vec<f64>, sigma: Vec<f64>) -> PyResult<Self> {
        let mut laplace = self.laplace.clone();
        let prior = prior_values(prior_precision, &**laplace.model());
        let sigma = laplace.schema().scale_deviations(&sigma);
        let laplace = run(py, None, move |_| laplace.set_hyperparameters(&prior, &sigma).map(|()| laplace))?;
        Ok(Self { laplace, fingerprint: None })
    }

    /// The posterior at another temperature.
    fn tempered(&self, py: Python<'_>, temperature: f64) -> PyResult<Self> {
        let mut laplace = self.laplace.clone();
        let laplace = run(py, None, move |_| laplace.set_temperature(temperature).map(|()| laplace))?;
        Ok(Self { laplace, fingerprint: None })
    }

    /// The posterior whose prior precision, and noise unless it is held, maximise the log marginal likelihood.
    #[pyo3(signature = (*, prior_structure, tuned, watch=None))]
    fn optimized<'py>(
        &self,
        py: Python<'py>,
        prior_structure: &str,
        tuned: Tuned,
        watch: Watch<'_, 'py>,
    ) -> PyResult<(Self, Bound<'py, PyDict>)> {
        let prior_structure = match prior_structure {
            "scalar" => PriorStructure::Scalar,
            "layerwise" => PriorStructure::PerLayer,
            "diag" => PriorStructure::PerWeight,
            other => {
                let message = format!("there is no prior structure `{other}`; use one of scalar, layerwise, diag");
                return Err(raise(py, "InputError", message));
            }
        };
        let options = EvidenceOptions {
            prior: free(tuned.prior),
            prior_structure,
            sigma: free(tuned.sigma),
            ..Default::default()
        };
        let mut laplace = self.laplace.clone();
        let (laplace, optimum) = run(py, watch, move |progress| {
            laplace.optimize_watched(&options, progress).map(|optimum| (laplace, optimum))
        })?;
        let report = PyDict::new(py);
        report.set_item("log_marginal_likelihood", optimum.log_marginal_likelihood)?;
        report.set_item("converged", optimum.converged)?;
        report.set_item("iterations", optimum.iterations)?;
        report.set_item("gradient_norm", optimum.gradient_norm)?;
        report.set_item("at_bound", in_words(&optimum.at_bound))?;
        Ok((Self { laplace, fingerprint: None }, report))
    }

    /// The posterior whose prior precision, and noise unless it is held, minimise the negative log likelihood of held-out
    /// data.
    #[pyo3(signature = (inputs, targets, *, tuned, link, grid, watch=None))]
    #[expect(clippy::too_many_arguments, reason = "settings by name")]
    fn optimized_on<'py>(
        &self,
        py: Python<'py>,
        inputs: Array<'_>,
        targets: Array<'_>,
        tuned: Tuned,
        link: LinkSettings,
        grid: (f64, f64, usize),
        watch: Watch<'_, 'py>,
    ) -> PyResult<(Self, Bound<'py, PyDict>)> {
        let data = self.columns_of(inputs, targets).or_raise(py)?;
        let options = ValidationOptions {
            prior: free(tuned.prior),
            sigma: free(tuned.sigma),
            link: link.parse(py)?,
            grid: (grid.0, grid.1),
            grid_points: grid.2,
            ..Default::default()
        };
        let mut laplace = self.laplace.clone();
        let (laplace, optimum) = run(py, watch, move |progress| {
            laplace.optimize_on(&data, &options, progress).map(|optimum| (laplace, optimum))
        })?;
        let report = PyDict::new(py);
        report.set_item("nll", optimum.nll)?;
        report.set_item("map_nll", optimum.map_nll)?;
        report.set_item("evaluations", optimum.evaluations)?;
        report.set_item("at_bound", in_words(optimum.at_edge.as_slice()))?;
        Ok((Self { laplace, fingerprint: None }, report))
    }

    /// The log marginal likelihood as a function of the hyperparameters.
    fn evidence(&self, py: Python<'_>, n_precisions: usize) -> PyResult<Evidence> {
        let laplace = &self.laplace;
        let evidence = run(py, None, move |_| evidence::Evidence::of(laplace, n_precisions))?;
        Ok(Evidence { evidence })
    }

    /// How the network fits its data: explained share, gradient norm, whether it beats a constant and is at a mode.
    fn training_fit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fit = run(py, None, |_| TrainingFit::of(&self.laplace))?;
        let report = PyDict::new(py);
        report.set_item("explained", fit.explained)?;
        report.set_item("gradient_norm", fit.gradient_norm)?;
        report.set_item("output_score", fit.output_score)?;
        report.set_item("beats_constant", fit.beats_constant())?;
        report.set_item("is_at_mode", fit.is_at_mode())?;
        Ok(report)
    }

    /// The posterior calibrated on rows that it has not seen, and how many of these are training rows all the same.
    #[pyo3(signature = (inputs, targets, *, methods, level, watch=None))]
    fn calibrated(
        &self,
        py: Python<'_>,
        inputs: Array<'_>,
        targets: Array<'_>,
        methods: Vec<MethodSettings>,
        level: f64,
        watch: Watch<'_, '_>,
    ) -> PyResult<(Self, usize)> {
        let data = self.columns_of(inputs, targets).or_raise(py)?;
        let methods = methods.iter().map(|method| method.parse(py)).collect::<PyResult<Vec<_>>>()?;
        let options = CalibrationOptions { level, ..Default::default() };
        let mut laplace = self.laplace.clone();
        let (laplace, overlap) = run(py, watch, move |progress| {
            laplace.calibrate(&data, &methods, options, progress).map(|overlap| (laplace, overlap))
        })?;
        Ok((Self { laplace, fingerprint: None }, overlap))
    }

    /// A prediction.
    #[pyo3(signature = (inputs, method))]
    fn predict(&self, py: Python<'_>, inputs: Array<'_>, method: MethodSettings) -> PyResult<Prediction> {
        let (inputs, method) = (inputs.as_array().to_owned(), method.parse(py)?);
        let prediction = run(py, None, |progress| predict(&self.laplace, &inputs, &method, progress))?;
        Ok(Prediction { prediction })
    }

    /// Leave-one-out cross-validation on the training data, without refitting.
    #[pyo3(signature = (method, watch=None))]
    fn leave_one_out(&self, py: Python<'_>, method: MethodSettings, watch: Watch<'_, '_>) -> PyResult<LeaveOneOut> {
        let method = method.parse(py)?;
        let loo = run(py, watch, |progress| leave_one_out(&self.laplace, &method, progress))?;
        Ok(LeaveOneOut { loo })
    }

    /// The linearised prediction of the raw outputs at all inputs jointly: mean and covariance.
    fn predict_joint<'py>(&self, py: Python<'py>, inputs: Array<'py>) -> PyResult<(Vector<'py>, Matrix<'py>)> {
        let inputs = inputs.as_array().to_owned();
        let joint = run(py, None, |_| self.laplace.predict_joint(&inputs))?;
        Ok((joint.mean.into_pyarray(py), joint.covariance.into_pyarray(py)))
    }

    /// Draws of the weights from the Gaussian, one per row.
    fn draw<'py>(&self, py: Python<'py>, first: usize, count: usize, seed: u64) -> PyResult<Matrix<'py>> {
        let draws = Draws { range: first..first.saturating_add(count), seed };
        let weights = run(py, None, |_| draw_weights(&self.laplace, &draws))?;
        Ok(weights.into_pyarray(py))
    }

    /// The raw outputs of networks with weights drawn from the Gaussian, in the units of the data: draws × points × outputs.
    fn sampled_outputs<'py>(
        &self,
        py: Python<'py>,
        inputs: Array<'py>,
        count: usize,
        seed: u64,
    ) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let inputs = inputs.as_array().to_owned();
        let outputs = run(py, None, |_| {
            let weights = draw_weights(&self.laplace, &Draws::first(count, seed))?;
            let prediction = riemannian_laplace::Prediction::of_weights(&self.laplace, weights.view(), &inputs)?;
            let mut outputs = match prediction.predictive() {
                Predictive::Sampled(sampled) => sampled.outputs().clone(),
                _ => Array3::zeros((0, inputs.nrows(), 0)),
            };
            for mut draw in outputs.outer_iter_mut() {
                let restored = self.laplace.schema().restore_mean(draw.view())?;
                draw.assign(&restored);
            }
            Ok(outputs)
        })?;
        Ok(outputs.into_pyarray(py))
    }

    /// Samples along geodesics of a metric.
    #[pyo3(signature = (*, metric, first, count, seed, smoothing=None, watch=None))]
    #[expect(clippy::too_many_arguments, reason = "settings by name")]
    fn sample(
        &self,
        py: Python<'_>,
        metric: &str,
        first: usize,
        count: usize,
        seed: u64,
        smoothing: Option<f64>,
        watch: Watch<'_, '_>,
    ) -> PyResult<Samples> {
        let metric: MetricName = metric.parse().map_err(riemannian_laplace::Error::from).or_raise(py)?;
        let smoothing = match smoothing {
            None => Smoothing::Default,
            Some(0.0) => Smoothing::None,
            Some(width) => Smoothing::Width(width),
        };
        let how = MetricOptions { smoothing, ..Default::default() };
        let options = SamplerOptions { range: first..first.saturating_add(count), seed, ..Default::default() };
        let samples = run(py, watch, |progress| self.laplace.sample_riemannian_with(metric, &how, &options, progress))?;
        Ok(riemannian_laplace::Samples { posterior: self.fingerprint.clone(), ..samples }.into())
    }

    /// Writes the posterior, with its training data or with the sums over them.
    fn save(&self, py: Python<'_>, path: PathBuf, with_data: bool) -> PyResult<()> {
        let contents = if with_data { Contents::TrainingData } else { Contents::Curvature };
        run(py, None, |_| self.laplace.save(&path, contents))
    }

    /// Reads a posterior.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let (laplace, fingerprint) =
            run(py, None, |_| Ok((Laplace::load(&path)?, TensorFile::stored_fingerprint(&path)?)))?;
        Ok(Self { laplace, fingerprint })
    }

    /// θ̂ of the uncertain weights.
    #[getter]
    fn mean<'py>(&self, py: Python<'py>) -> Vector<'py> {
        PyArray1::from_slice(py, self.laplace.parameters())
    }

    /// The posterior precision as a matrix.
    fn precision<'py>(&self, py: Python<'py>) -> PyResult<Matrix<'py>> {
        let precision = self.laplace.precision();
        let size = precision.n_params();
        let matrix = run(py, None, |_| {
            let advice = "draw samples, or predict, instead of asking for the matrix";
            riemannian_laplace::internals::memory::check("the precision", 2.0 * (size as f64).powi(2), advice)?;
            Ok(precision.to_matrix())
        })?;
        Ok(ndarray::Array2::from_shape_fn((size, size), |(i, j)| matrix[(i, j)]).into_pyarray(py))
    }

    /// The number of weights.
    #[getter]
    fn n_params(&self) -> usize {
        self.laplace.model().n_params()
    }

    /// The number of training points.
    #[getter]
    fn n_data(&self) -> usize {
        self.laplace.n_data()
    }

    /// The number of inputs per point.
    #[getter]
    fn n_inputs(&self) -> usize {
        self.laplace.model().n_inputs()
    }

    /// The number of outputs per point.
    #[getter]
    fn n_outputs(&self) -> usize {
        self.laplace.model().n_outputs()
    }

    /// The numbers of weights that share a prior precision where there is one per layer.
    #[getter]
    fn groups(&self) -> Vec<usize> {
        self.laplace.model().groups().into_iter().map(|group| group.size).collect()
    }

    /// Whether the training data are held.
    #[getter]
    fn has_data(&self) -> bool {
        self.laplace.data().is_some()
    }

    /// The likelihood by name.
    #[getter]
    fn likelihood(&self) -> &'static str {
        self.laplace.family().likelihood().name()
    }

    /// The structure in a word: full, kron, diag…
    #[getter]
    fn structure(&self) -> &'static str {
        self.laplace.structure().word()
    }

    /// What of the network is uncertain, in words.
    #[getter]
    fn weights(&self) -> String {
        self.laplace.model().subset().map_or_else(|| "all weights".to_string(), |place| place.name.to_string())
    }

    /// What the data's share of the precision is made of.
    #[getter]
    fn curvature(&self) -> &'static str {
        self.laplace.curvature_kind().name()
    }

    /// The network in words.
    #[getter]
    fn description(&self) -> String {
        self.laplace.model().description()
    }

    /// Whether the network has kinks.
    #[getter]
    fn has_kinks(&self) -> bool {
        self.laplace.model().has_kinks()
    }

    /// One value, one per layer, or one per weight.
    #[getter]
    fn prior_precision<'py>(&self, py: Python<'py>) -> Vector<'py> {
        PyArray1::from_slice(py, self.laplace.prior().values())
    }

    /// One value, or one per weight.
    #[getter]
    fn prior_mean<'py>(&self, py: Python<'py>) -> Vector<'py> {
        PyArray1::from_slice(py, self.laplace.prior_mean().values())
    }

    /// T: the posterior is prior · likelihood^(1/T).
    #[getter]
    fn temperature(&self) -> f64 {
        self.laplace.temperature()
    }

    /// The noise in the units of the data; none for likelihoods without noise.
    #[getter]
    fn sigma<'py>(&self, py: Python<'py>) -> Option<Vector<'py>> {
        self.laplace.sigma().map(|sigma| sigma.into_pyarray(py))
    }

    /// log p(D | θ̂), with every constant.
    #[getter]
    fn log_likelihood(&self) -> f64 {
        self.laplace.log_likelihood()
    }

    /// The Laplace estimate of the log evidence.
    #[getter]
    fn log_marginal_likelihood(&self) -> f64 {
        self.laplace.log_marginal_likelihood()
    }

    /// log det G − log det A.
    #[getter]
    fn log_det_ratio(&self) -> f64 {
        self.laplace.log_det_ratio()
    }

    /// The number of directions that the data determine.
    #[getter]
    fn effective_parameters(&self) -> f64 {
        self.laplace.effective_parameters()
    }

    /// The names of the input columns.
    #[getter]
    fn input_names(&self) -> Vec<String> {
        self.laplace.schema().inputs().to_vec()
    }

    /// The names of the target columns.
    #[getter]
    fn target_names(&self) -> Vec<String> {
        self.laplace.schema().targets().to_vec()
    }

    /// The names of the classes, where labels were words.
    #[getter]
    fn classes(&self) -> Option<Vec<String>> {
        self.laplace.schema().classes().map(<[String]>::to_vec)
    }

    fn __repr__(&self) -> String {
        let laplace = &self.laplace;
        format!(
            "Posterior({}, {}, {}, N = {})",
            laplace.model().description(),
            laplace.family().likelihood().name(),
            laplace.structure().word(),
            laplace.n_data()
        )
    }
}

impl Posterior {
    /// The engine's posterior.
    pub(crate) fn laplace(&self) -> &Laplace {
        &self.laplace
    }

    /// Data with the posterior's columns, in their own units.
    pub(crate) fn columns_of(&self, inputs: Array<'_>, targets: Array<'_>) -> riemannian_laplace::Result<Dataset> {
        let data = Dataset::new(inputs.as_array().to_owned(), targets.as_array().to_owned())?;
        let schema = self.laplace.schema().without_scaling();
        // Rows to predict or to score have targets alone, or what is known of them as well.
        let columns = data.targets().ncols();
        let schema = match columns {
            _ if columns == schema.target_columns().len() => schema,
            _ if columns == schema.targets().len() => schema.with_known(Vec::new())?,
            _ => schema.without_weights(),
        };
        data.with_schema(schema)
    }
}

/// Which hyperparameters are tuned.
#[derive(Debug, Clone, Copy, FromPyObject)]
#[pyo3(from_item_all)]
struct Tuned {
    prior: bool,
    sigma: bool,
}

fn free(tuned: bool) -> Free {
    if tuned { Free::Tuned } else { Free::Held }
}

/// Hyperparameters that ran to a bound, as sentences.
fn in_words(bounds: &[AtBound]) -> Vec<String> {
    bounds.iter().map(ToString::to_string).collect()
}

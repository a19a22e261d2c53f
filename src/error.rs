//! The one error type: every variant carries the names and numbers a person needs to act.

use std::path::PathBuf;

use crate::evidence::AtBound;
use crate::geodesic::{JoinError, MetricName, UnknownMetric};
use crate::likelihood::TargetError;
use crate::memory::gigabytes;
use crate::network::UnknownActivation;
use crate::ode::InvalidOptions;
use crate::optimize::OptimizeError;

/// What went wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A safetensors file whose header is truncated, absurd or inconsistent with its length.
    #[error("{path}: not a valid safetensors file: {reason}", path = .path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor that must be there is not.
    #[error("{path}: tensor `{tensor}` is missing; the file holds {found}", path = .path.display())]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor that was looked for.
        tensor: String,
        /// What the file holds instead.
        found: String,
    },
    /// A tensor of a type that is not read.
    #[error("{path}: tensor `{tensor}` has dtype {dtype}; use F32 or F64", path = .path.display())]
    TensorDtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its type.
        dtype: String,
    },
    /// A tensor of the wrong shape.
    #[error("{path}: tensor `{tensor}` has shape {found:?}; {expected}", path = .path.display())]
    TensorShape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shape it has.
        found: Vec<usize>,
        /// The shape it needs, in words.
        expected: String,
    },
    /// A tensor that holds a NaN or an infinity.
    #[error("{path}: tensor `{tensor}` holds {value} at flat index {index}; all values must be finite", path = .path.display())]
    TensorNotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Where, counting in row-major order.
        index: usize,
        /// The value there.
        value: f64,
    },
    /// A tensor that holds a number without a meaning.
    #[error("{path}: tensor `{tensor}` holds {value} at flat index {index}; it must be {requirement}", path = .path.display())]
    TensorValue {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Where, counting in row-major order.
        index: usize,
        /// The value there.
        value: f64,
        /// What it must be.
        requirement: &'static str,
    },
    /// Tensor names that are not those of a sequence of linear layers.
    #[error("{path}: tensor `{tensor}` is not named like a layer; expected `<number>.weight` or `<number>.bias`, with an optional common prefix", path = .path.display())]
    TensorName {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// The activation is neither in the file nor given.
    #[error("{path}: the file does not name its activation; give it (for example `--activation tanh`)", path = .path.display())]
    MissingActivation {
        /// The file.
        path: PathBuf,
    },
    /// An activation that does not exist.
    #[error(transparent)]
    UnknownActivation(#[from] UnknownActivation),
    /// A metadata entry that is missing or cannot be read.
    #[error("{path}: metadata `{key}` {problem}", path = .path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The metadata key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A posterior that was fitted to another network.
    #[error(
        "the posterior belongs to another network: its fingerprint is {expected}, that of the given model is {found}; fit again, or load the model it was fitted to"
    )]
    Fingerprint {
        /// The fingerprint stored in the posterior.
        expected: String,
        /// The fingerprint of the model at hand.
        found: String,
    },
    /// A CSV file that does not parse.
    #[error("{path}: line {line}: {problem}", path = .path.display())]
    Csv {
        /// The file.
        path: PathBuf,
        /// The line, counting from 1.
        line: u64,
        /// What is wrong there.
        problem: String,
    },
    /// A CSV file without a column that was asked for.
    #[error("{path}: no column `{column}`; the columns are {available}", path = .path.display())]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// The column that was asked for.
        column: String,
        /// The columns there are.
        available: String,
    },
    /// A CSV cell that is not a finite number.
    #[error("{path}: line {line}, column `{column}`: `{text}` is not a finite number", path = .path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// The line, counting from 1.
        line: u64,
        /// The column's name.
        column: String,
        /// What stands there.
        text: String,
    },
    /// A target in a CSV file that the likelihood cannot have produced.
    #[error("{path}: line {line}: {source}", path = .path.display())]
    TargetAt {
        /// The file.
        path: PathBuf,
        /// The line, counting from 1.
        line: u64,
        /// What is wrong with the target.
        source: TargetError,
    },
    /// No data at all.
    #[error("{what}: there are no rows of data")]
    NoRows {
        /// Which data.
        what: String,
    },
    /// A target that the likelihood cannot have produced, or outputs it cannot take.
    #[error("data point {row}: {source}")]
    Target {
        /// The data point, counting from 0.
        row: usize,
        /// What is wrong with it.
        source: TargetError,
    },
    /// A likelihood that does not fit the network's outputs.
    #[error(transparent)]
    Outputs(TargetError),
    /// A number of inputs, targets, parameters… that does not fit.
    #[error("{what}: expected {expected}, found {found}")]
    Size {
        /// What is being counted.
        what: String,
        /// What it should be.
        expected: usize,
        /// What it is.
        found: usize,
    },
    /// A value that must be finite and is not.
    #[error("{what} is not finite (row {row}, column {column})")]
    NotFinite {
        /// Which array.
        what: &'static str,
        /// Its row, counting from 0.
        row: usize,
        /// Its column, counting from 0.
        column: usize,
    },
    /// A setting outside its range.
    #[error("{name} is {value}; it must be {requirement}")]
    Setting {
        /// The setting's name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        requirement: &'static str,
    },
    /// Settings that no integrator can work with.
    #[error(transparent)]
    Integration(#[from] InvalidOptions),
    /// A drift that no geodesic can be refined to.
    #[error(
        "the drift target is {target} in {attempts} attempts; it must be positive and finite, with at least one attempt"
    )]
    DriftTarget {
        /// The largest drift accepted.
        target: f64,
        /// The most integrations for one geodesic.
        attempts: usize,
    },
    /// A range of samples that ends before it starts.
    #[error("the range of samples {start}..{end} ends before it starts")]
    BackwardRange {
        /// Its first sample.
        start: usize,
        /// The sample after its last.
        end: usize,
    },
    /// Parts of samples that do not fit together.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A metric that does not exist.
    #[error(transparent)]
    UnknownMetric(#[from] UnknownMetric),
    /// A matrix that should be positive definite and is not.
    #[error("{matrix} ({size} × {size}) is not positive definite: pivot {pivot} fails; {advice}")]
    NotPositiveDefinite {
        /// Which matrix.
        matrix: &'static str,
        /// Its size.
        size: usize,
        /// The first pivot that is not positive.
        pivot: usize,
        /// What to try.
        advice: &'static str,
    },
    /// Tuning ended at a bound of a hyperparameter, where the posterior is beyond the arithmetic.
    #[error(
        "{bound}, and there the posterior cannot be computed ({source}); hold that hyperparameter, or give narrower bounds"
    )]
    TunedToBound {
        /// The hyperparameter and its bound.
        bound: AtBound,
        /// Why the posterior cannot be computed.
        source: Box<Error>,
    },
    /// An eigendecomposition that did not converge.
    #[error(
        "the eigendecomposition of {matrix} ({size} × {size}) did not converge; check the data for extreme values, or rescale the inputs"
    )]
    Eigen {
        /// Which matrix.
        matrix: &'static str,
        /// Its size.
        size: usize,
    },
    /// More memory than allowed.
    #[error("{what} needs {}, the limit is {}; {advice}", gigabytes(*.needed), gigabytes(*.limit))]
    Memory {
        /// What needs the memory.
        what: String,
        /// How much, in GB (10⁹ bytes).
        needed: f64,
        /// The limit, in GB.
        limit: f64,
        /// What would fit instead.
        advice: String,
    },
    /// Training that diverged.
    #[error(
        "training diverged at epoch {epoch}: the loss is {loss}; lower the learning rate, or standardise inputs and targets"
    )]
    TrainingDiverged {
        /// The epoch.
        epoch: usize,
        /// The loss there.
        loss: f64,
    },
    /// A Riemannian metric was asked of a posterior that holds no training data.
    #[error(
        "this posterior was saved without its training data, which the {metric} metric needs; fit again and save them with it"
    )]
    NoTrainingData {
        /// The metric.
        metric: &'static str,
    },
    /// Not one of the geodesics asked for could be finished.
    #[error(
        "none of the {requested} samples reached its end; raise the step limit, loosen the tolerances, or check the prior precision and sigma"
    )]
    NoSamples {
        /// How many were asked for.
        requested: usize,
    },
    /// No point was found from which a chain can start.
    #[error(
        "chain {chain}: the log posterior or its gradient is not finite, or a derivative is zero, at all of {tried} starting points; start around a point of high density, with a smaller deviation"
    )]
    NoStart {
        /// The chain, counting from 0.
        chain: usize,
        /// How many points were tried.
        tried: usize,
    },
    /// A chain that could not go on.
    #[error("chain {chain} failed at iteration {iteration}: {reason}; check the prior precision, or start elsewhere")]
    ChainFailed {
        /// The chain, counting from 0.
        chain: usize,
        /// The iteration, counting from 0, warm-up included.
        iteration: usize,
        /// What the sampler said.
        reason: String,
    },
    /// Draws that are not good enough to compare with.
    #[cfg(feature = "reference")]
    #[error(transparent)]
    NotReference(#[from] crate::reference::Refusal),
    /// A combination of options that has no meaning.
    #[error("{0}")]
    Unsupported(Unsupported),
    /// Whoever waited for the work cancelled it.
    #[error("the work was cancelled")]
    Cancelled,
    /// A minimisation that cannot be carried out as asked.
    #[error(transparent)]
    Optimize(#[from] OptimizeError),
    /// Something candle reported.
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
}

/// A request that is well-formed but has no meaning, or is not offered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// A link for a likelihood that has none such.
    #[error("the {link} link does not apply to a {likelihood} likelihood; use {instead}")]
    Link {
        /// The link.
        link: &'static str,
        /// The likelihood.
        likelihood: &'static str,
        /// What to use.
        instead: &'static str,
    },
    /// The function-space solver needs a proper prior.
    #[error(
        "the function-space solver needs a positive prior precision on every parameter; use the weight-space solver"
    )]
    ImproperPrior,
    /// The matrix-free solver needs a proper prior.
    #[error(
        "the matrix-free metric solver needs a positive prior precision on every parameter; give one, or use the exact solver, which works in weight space without a prior"
    )]
    ImproperMatrixFree,
    /// A metric that is not made of data points one by one.
    #[error(
        "{what} applies to these metrics: {metrics}; leave it out with the {metric} metric, which is cheap without"
    )]
    MetricOption {
        /// What was asked for.
        what: &'static str,
        /// The metrics to which it applies.
        metrics: String,
        /// The metric.
        metric: MetricName,
    },
    /// A way to sample that is not a metric with an exponential and a logarithmic map.
    #[error("the {metric} metric is for sampling only; the exponential and the logarithmic map take {metrics}")]
    NoMaps {
        /// The metric.
        metric: MetricName,
        /// The metrics that have these maps.
        metrics: String,
    },
    /// The evidence needs a proper prior.
    #[error("the log marginal likelihood is defined for a positive prior precision only")]
    ImproperEvidence,
}

impl Error {
    /// Whether the caller's input (a file, a value, a combination of options) is at fault, as opposed to the work
    /// having failed. The program `rla` exits with status 2 for the former and 1 for the latter.
    pub fn is_input(&self) -> bool {
        #[cfg(feature = "reference")]
        if matches!(self, Error::NotReference(_)) {
            return false;
        }
        !matches!(
            self,
            Error::Cancelled
                | Error::NotPositiveDefinite { .. }
                | Error::TunedToBound { .. }
                | Error::Eigen { .. }
                | Error::Memory { .. }
                | Error::TrainingDiverged { .. }
                | Error::NoSamples { .. }
                | Error::NoStart { .. }
                | Error::ChainFailed { .. }
                | Error::Optimize(_)
                | Error::Candle(_)
        )
    }

    /// An input or output error with the file it concerns.
    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        move |source| Error::Io { path: path.to_path_buf(), source }
    }
}

/// Shorthand for a result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Checks that a count is what it should be.
pub(crate) fn check_size(what: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Size { what: what.to_string(), expected, found })
}

//! The one error type: every variant carries the names and numbers needed to act on it.
//!
//! Error types of other folders are defined here too, by topic, and re-exported there: this folder imports no other.

mod backbone;
mod calibration;
mod dataset;
mod files;
mod integration;
mod memory;
mod methods;
mod names;
mod onnx;
mod optimization;
mod posterior;
mod problems;
mod reference;
mod samples;
mod selection;
mod state_dict;
mod table;
mod target;
mod team;
mod tensors;
#[cfg(test)]
mod tests;
mod text;
mod training;
mod unsupported;

use std::path::PathBuf;

pub use backbone::BackboneError;
pub use calibration::CalibrationError;
pub use dataset::DataError;
pub use files::FileError;
pub use integration::InvalidOptions;
pub(crate) use memory::gigabytes;
pub use names::{UnknownActivation, UnknownLikelihood, UnknownMetric, UnknownStructure};
pub use onnx::OnnxError;
pub use optimization::{AtBound, OptimizeError};
pub use posterior::PosteriorError;
pub use problems::InvalidProblem;
#[cfg(any(feature = "paper", test))]
pub use reference::ReferenceLimits;
pub use reference::{InvalidChains, Refusal};
pub use samples::{JoinError, SamplingCount};
pub use selection::SelectionError;
pub use state_dict::StateDictProblem;
pub use table::{ColumnProblem, ColumnProblemKind, Remedy, TableError};
pub use target::{NoiseError, TargetError};
pub use team::TeamError;
pub use tensors::TensorError;
pub use text::printable;
pub(crate) use text::shown;
pub use training::InvalidTraining;
pub use unsupported::Unsupported;

/// What went wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A result could not be written: the disk is full, the folder is gone…
    #[error("{path} could not be written: {source}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file that changed while it was read, or a name that leads elsewhere.
    #[error(transparent)]
    File(#[from] FileError),
    /// A category that the network does not know.
    #[error(
        "row {}, input column {}: {value} is not one of the categories 0 to {} that the network has a row of weights for",
        .row + 1, .column + 1, .size.saturating_sub(1)
    )]
    Category {
        /// The row, from zero.
        row: usize,
        /// The column among the inputs, from zero.
        column: usize,
        /// What it holds.
        value: f64,
        /// The number of categories.
        size: usize,
    },
    /// Communication between ranks failed.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// A path that is not a regular file.
    #[error("{path} is {kind}; a regular file is needed", path = .path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
        /// What it is: a directory, a device…
        kind: &'static str,
    },
    /// A safetensors file whose header is truncated, absurd or inconsistent with its length.
    #[error("{path}: not a valid safetensors file: {reason}", path = .path.display(), reason = printable(.reason))]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor of a file that is missing, or not as it must be.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A state dict that cannot be read as a chain of layers.
    #[error("{path}: tensor `{tensor}` {problem}", path = .path.display(), tensor = shown(.tensor))]
    StateDict {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What is wrong with it.
        problem: Box<StateDictProblem>,
    },
    /// The activation is neither in the file nor given.
    #[error("{path}: the file does not name its activation; say which it is", path = .path.display())]
    MissingActivation {
        /// The file.
        path: PathBuf,
    },
    /// An activation that does not exist.
    #[error(transparent)]
    UnknownActivation(#[from] UnknownActivation),
    /// A metadata entry that is missing or cannot be read.
    #[error("{path}: metadata `{key}` {problem}", path = .path.display(), problem = printable(.problem))]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The metadata key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// An ONNX file that is not read as a network.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// A network that does not compute what the framework it comes from did.
    #[error(
        "data point {row}, output {column} (counting from 0): the network gives {found} and the framework {expected}, a \
         difference of {difference:.1e} of the largest output, where {allowed:.0e} is allowed; the network was not read \
         as it was trained, or the data are not as it takes them (scaling, order of columns)"
    )]
    OutputsDiffer {
        /// The data point.
        row: usize,
        /// The output.
        column: usize,
        /// What the network gives.
        found: f64,
        /// What the framework gave.
        expected: f64,
        /// The difference, relative to the largest output.
        difference: f64,
        /// The largest difference allowed.
        allowed: f64,
    },
    /// A network that ends in the link of another likelihood.
    #[error("the network ends in {link}, which belongs to a {belongs} likelihood; the likelihood is {likelihood}")]
    Link {
        /// What the network ends in.
        link: String,
        /// The likelihood that it belongs to.
        belongs: &'static str,
        /// The given likelihood.
        likelihood: &'static str,
    },
    /// A posterior that does not go with what it is used with.
    #[error(transparent)]
    Posterior(#[from] PosteriorError),
    /// Intervals or sets that cannot be promised.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    /// A CSV file, by line and column.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Names, scaling and rows of a data set.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A structure that does not exist.
    #[error(transparent)]
    UnknownStructure(UnknownStructure),
    /// An exact posterior that would take very long.
    #[error("{what} would take about {time}; {advice}")]
    TooLong {
        /// What would take so long.
        what: String,
        /// The time, in words.
        time: String,
        /// What would be faster.
        advice: String,
    },
    /// Parameters that cannot be selected.
    #[error(transparent)]
    Selection(SelectionError),
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
    /// A value that must be finite but is not.
    #[error("{what} is not finite (row {row}, column {column})")]
    NotFinite {
        /// Which array.
        what: &'static str,
        /// Its row, counting from 0.
        row: usize,
        /// Its column, counting from 0.
        column: usize,
    },
    /// A prior precision that is not a positive finite number.
    #[error("the prior precision is {value} (position {position}); it must be positive and finite")]
    PriorPrecision {
        /// Which of several, counting from 0.
        position: usize,
        /// Its value.
        value: f64,
    },
    /// A temperature that tempers nothing.
    #[error("the temperature is {0}; it must be positive and finite (1 leaves the likelihood as it is)")]
    Temperature(f64),
    /// A noise level that is not a standard deviation.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// A likelihood that does not exist.
    #[error(transparent)]
    UnknownLikelihood(#[from] UnknownLikelihood),
    /// Bounds between which no hyperparameter can be tuned.
    #[error("the bounds of the hyperparameters are {low} and {high}; they must be positive, finite and in order")]
    Bounds {
        /// The least value allowed.
        low: f64,
        /// The greatest value allowed.
        high: f64,
    },
    /// A part of the data from which no metric can be made.
    #[error(
        "the metric's batch is {size} of {total} data points; take at least one data point and at most all of them"
    )]
    BatchSize {
        /// The data points requested.
        size: usize,
        /// The data points in the data set.
        total: usize,
    },
    /// A tolerance with which the matrix-free solver would never finish, or finish before it starts.
    #[error("the tolerance of the matrix-free solver is {0}; it must be between 0 and 1")]
    SolverTolerance(f64),
    /// A matrix-free solver that may make no products.
    #[error("the matrix-free solver may make no products; allow at least 1")]
    NoProducts,
    /// A Monte Carlo estimate without draws.
    #[error("the number of samples is 0; it must be at least 1")]
    NoDraws,
    /// Settings with which no network can be trained.
    #[error(transparent)]
    Training(#[from] InvalidTraining),
    /// Chains that cannot be run as asked.
    #[error(transparent)]
    Chains(#[from] InvalidChains),
    /// Numbers that describe no density.
    #[error(transparent)]
    Problem(#[from] InvalidProblem),
    /// Layers that make no network.
    #[error("{what}: {problem}")]
    Architecture {
        /// Which layers.
        what: String,
        /// What is wrong with them.
        problem: String,
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
    /// A width over which nothing can be rounded.
    #[error("the smoothing width is {0}; it must be positive and finite")]
    SmoothingWidth(f64),
    /// A range of samples that ends before it starts.
    #[error("the range of samples {start}..{end} ends before it starts")]
    BackwardRange {
        /// Its first sample.
        start: usize,
        /// The sample after its last.
        end: usize,
    },
    /// Samples that were saved by another run.
    #[error("{path} belongs to another run: {what} was {found}, and is {expected} now; remove the file, or repeat that run's options", path = .path.display(), what = shown(.what), found = shown(.found), expected = shown(.expected))]
    OtherRun {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: Box<str>,
        /// Its value there.
        found: Box<str>,
        /// Its value now.
        expected: Box<str>,
    },
    /// Parts of samples that do not fit together.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A metric that does not exist.
    #[error(transparent)]
    UnknownMetric(#[from] UnknownMetric),
    /// A matrix that should be positive definite but is not.
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
    /// A Hessian that is not positive definite with its prior: θ̂ is no minimum of the loss.
    #[error(
        "the Hessian of the negative log posterior is indefinite, with least eigenvalue {least:.4e}: the weights are not at a minimum of the loss; {}, train further, or use the ggn curvature, which is never negative",
        raised_prior(*.least, *.shared)
    )]
    IndefiniteHessian {
        /// Its least eigenvalue.
        least: f64,
        /// The prior precision, where all parameters share one.
        shared: Option<f64>,
    },
    /// The evidence of a Hessian with negative eigenvalues has no maximum.
    #[error(
        "tuning with the hessian curvature did not converge: the data's Hessian has negative eigenvalues, since the weights are not at a minimum of the loss, and the evidence grows without bound where the posterior precision becomes singular; train further, hold prior precision and sigma, or use the ggn curvature"
    )]
    UnboundedEvidence,
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
    /// Numbers beyond f64 in what was to be reported.
    #[error("{what} is {value}, beyond what f64 can hold; {advice}")]
    Overflow {
        /// What.
        what: &'static str,
        /// Its value: NaN or an infinity.
        value: f64,
        /// What to try.
        advice: &'static str,
    },
    /// A matrix whose eigenvalues span more than the arithmetic.
    #[error(
        "the eigenvalues of {matrix} span too much for f64: as computed, they reach from {least:.1e} to {greatest:.1e}; {advice}"
    )]
    Conditioning {
        /// Which matrix.
        matrix: &'static str,
        /// Its least eigenvalue, as computed.
        least: f64,
        /// Its greatest.
        greatest: f64,
        /// What to try.
        advice: &'static str,
    },
    /// More memory than allowed.
    #[error(
        "{what} needs {}, the limit is {}{}; {advice}",
        gigabytes(*.needed),
        gigabytes(*.limit),
        memory::in_use(*.reserved)
    )]
    Memory {
        /// What needs the memory.
        what: String,
        /// How much, in GB (10⁹ bytes).
        needed: f64,
        /// The limit, in GB.
        limit: f64,
        /// How much of the limit is reserved by other work, in GB.
        reserved: f64,
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
    /// A request that a posterior cannot meet without its training data.
    #[error(
        "this posterior was saved without its training data, which are needed for {what}; fit again and keep the data"
    )]
    NoTrainingData {
        /// What needs the data.
        what: &'static str,
    },
    /// A data point that cannot be left out of a linearised posterior: it alone determines some direction.
    #[error(
        "data point {row} has a leverage of {leverage}, where less than 1 is possible: the posterior without it does not exist in this structure; use an exact structure, or samples"
    )]
    Leverage {
        /// The point, counted from 0.
        row: usize,
        /// Its leverage.
        leverage: f64,
    },
    /// A prior with one precision per group, for a model with other groups.
    #[error(
        "the prior has precisions for groups of {prior:?} parameters, but the model's groups have {model:?}; give one precision, or one per group of the model"
    )]
    PriorGroups {
        /// The sizes of the prior's groups.
        prior: Vec<usize>,
        /// The sizes of the model's groups.
        model: Vec<usize>,
    },
    /// Too many samples of a prediction failed or are uncertified.
    #[error(
        "{report}, more than the share of {allowed} that is allowed; draw them with more steps, or allow a greater share"
    )]
    Uncertified {
        /// How the samples ended.
        report: SamplingCount,
        /// The share allowed.
        allowed: f64,
    },
    /// A posterior or a way to predict that a graph cannot hold.
    #[error("cannot export {0}")]
    Export(String),
    /// A quantile or an interval outside (0, 1).
    #[error("a level of {0} is not between 0 and 1")]
    QuantileLevel(f64),
    /// None of the requested geodesics could be finished.
    #[error(
        "none of the {requested} samples reached its end; raise the step limit, loosen the tolerances, or check the prior precision and sigma"
    )]
    NoSamples {
        /// The number requested.
        requested: usize,
    },
    /// No point was found from which a chain can start.
    #[error(
        "chain {chain}: the log posterior or its gradient is not finite, or a derivative is zero, at all of {tried} starting points; start around a point of high density, with a smaller deviation"
    )]
    NoStart {
        /// The chain, counting from 0.
        chain: usize,
        /// The number of points that were tried.
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
    #[error(transparent)]
    NotReference(#[from] Refusal),
    /// A combination of options that has no meaning.
    #[error("{0}")]
    Unsupported(Unsupported),
    /// The caller cancelled the work.
    #[error("the work was cancelled")]
    Cancelled,
    /// A minimisation that cannot be carried out as asked.
    #[error(transparent)]
    Optimize(#[from] OptimizeError),
    /// A backbone whose features cannot carry a posterior.
    #[error(transparent)]
    Backbone(#[from] BackboneError),
    /// Something candle reported.
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
}

/// The prior precision with which a Hessian becomes positive definite, in words, rounded up.
fn raised_prior(least: f64, shared: Option<f64>) -> String {
    match shared {
        Some(value) => format!("raise the prior precision to at least {:.3e}", 1.001 * (value - least)),
        None => format!("raise every prior precision by at least {:.3e}", -1.001 * least),
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

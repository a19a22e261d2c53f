//! What a report says, as plain data: gathered once, then judged, drawn and written.

use crate::evaluate::{Coverage, LeaveOneOut, Scores, TrainingFit};
use crate::likelihood::Family;
use crate::predict::SamplingReport;

/// What was fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The network in a few words.
    pub network: String,
    /// Which of its weights are uncertain, where not all are.
    pub part: Option<String>,
    /// D, the number of uncertain weights.
    pub n_params: usize,
    /// The likelihood.
    pub family: Family,
    /// N, the number of training points.
    pub n_data: usize,
    /// The rows that intervals were calibrated on, where they were.
    pub n_calibration: Option<usize>,
    /// The input columns.
    pub inputs: Vec<String>,
    /// The target columns.
    pub targets: Vec<String>,
    /// The names of the classes of each target; none for numbers.
    pub classes: Vec<Vec<String>>,
    /// Whether inputs or targets are standardised inside.
    pub scaled: bool,
    /// The prior precision in words.
    pub prior: String,
    /// σ in the units of the targets: one, or one per output.
    pub sigma: Option<Vec<f64>>,
    /// T, where it is not 1.
    pub temperature: Option<f64>,
    /// The structure of the precision.
    pub structure: &'static str,
    /// What the curvature is made of.
    pub curvature: &'static str,
    /// Σ log p(y | θ̂).
    pub log_likelihood: f64,
    /// The Laplace estimate of the log evidence.
    pub log_marginal_likelihood: f64,
    /// Its standard error, where it is an estimate from products alone.
    pub log_marginal_likelihood_error: Option<f64>,
    /// The condition of the posterior precision, and the digits that it leaves of the log evidence.
    pub condition: Option<(f64, f64)>,
    /// The directions that the data determine.
    pub effective_parameters: f64,
    /// The eigenvalues of the data's curvature relative to the prior.
    pub spectrum: Spectrum,
    /// How the network fits its training data, where they are known.
    pub fit: Option<TrainingFit>,
    /// Whether this program trained it, as its file says.
    pub trained_here: bool,
    /// Whether training ended before a mode, so as not to overfit.
    pub stopped_early: bool,
    /// Whether training judged by rows that it had held out.
    pub held_rows_out: bool,
}

/// The eigenvalues λ of A^{−½}(G − A)A^{−½}, from the largest.
#[derive(Debug, Clone, PartialEq)]
pub enum Spectrum {
    /// All of them.
    All(Vec<f64>),
    /// Not computed, and why.
    Omitted(String),
}

/// Where the scored data come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Data that the network was not trained on.
    HeldOut,
    /// The training data inside the posterior.
    Training,
}

/// The data that the predictions are compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// Where they come from.
    pub origin: Origin,
    /// What they are called, such as a file's name.
    pub name: String,
    /// All rows there are.
    pub rows: usize,
    /// Those that are used, evenly spaced.
    pub used: usize,
    /// Those of them outside the range of the training inputs in at least one column, where that is known.
    pub outside: Option<usize>,
    /// Those of them that are also among the training data, inputs and targets alike, where that is known.
    pub repeated: Option<usize>,
}

/// One way to predict, and how good it is.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodReport {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in words.
    pub words: &'static str,
    /// Its scores.
    pub scores: Scores,
    /// log p(yₙ) at each row.
    pub log_densities: Vec<f64>,
    /// The mean width of the central intervals; none for classes.
    pub mean_width: Option<f64>,
    /// What calibration is judged by.
    pub calibration: Calibration,
}

/// Predicted beside observed, in the form that suits the targets.
#[derive(Debug, Clone, PartialEq)]
pub enum Calibration {
    /// For numbers: P(y ≤ observed), uniform where the prediction is right.
    Ranks(Vec<f64>),
    /// For classes: the confidence in the most probable class, and whether it was right.
    Confidence(Vec<(f64, bool)>),
}

impl Calibration {
    /// The share of targets inside the central interval of a level; none for classes.
    pub fn coverage(&self, level: f64) -> Option<f64> {
        match self {
            Calibration::Ranks(ranks) => {
                let tail = 0.5 * (1.0 - level);
                let inside = ranks.iter().filter(|rank| (tail..=1.0 - tail).contains(*rank)).count();
                Some(inside as f64 / ranks.len().max(1) as f64)
            }
            Calibration::Confidence(_) => None,
        }
    }
}

/// Leave-one-out of the training data.
#[derive(Debug, Clone, PartialEq)]
pub enum LeftOut {
    /// Of each method, in their order; none for draws of the weights, most of which fit no point.
    Scores(Vec<Option<LeaveOneOut>>),
    /// Not computed, and why.
    Omitted(String),
}

impl LeftOut {
    /// Of one of the methods.
    pub fn of(&self, method: usize) -> Option<&LeaveOneOut> {
        match self {
            LeftOut::Scores(scores) => scores.get(method)?.as_ref(),
            LeftOut::Omitted(_) => None,
        }
    }
}

/// An observed target beside its prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The predictive mean.
    pub mean: f64,
    /// The ends of the central interval.
    pub interval: (f64, f64),
    /// What was observed.
    pub observed: f64,
}

/// The comparison of predicted and observed by the method that is shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// For each target, some of the rows, evenly spaced.
    Numbers(Vec<Vec<Pair>>),
    /// For each target, the counts of true classes (rows) that were predicted as each class (columns).
    Confusion(Vec<Vec<Vec<usize>>>),
}

/// Predictions along one input, the others held.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// The input.
    pub input: String,
    /// Which of the methods predicts.
    pub method: usize,
    /// The target, for numbers.
    pub target: String,
    /// Its range in the training data, where known.
    pub range: Option<(f64, f64)>,
    /// What is predicted.
    pub curves: Curves,
    /// The observations to draw beside it: only where there is one input.
    pub observed: Vec<(f64, f64)>,
}

/// What is predicted along an input.
#[derive(Debug, Clone, PartialEq)]
pub enum Curves {
    /// A number.
    Band(Vec<BandPoint>),
    /// Probabilities of classes: the name of each, and its curve.
    Probabilities(Vec<(String, Vec<(f64, f64)>)>),
}

/// A point of a band.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BandPoint {
    /// The input.
    pub x: f64,
    /// The predictive mean.
    pub mean: f64,
    /// The central interval of y.
    pub interval: (f64, f64),
    /// The interval of the same level for the mean alone: what the weights leave open.
    pub of_mean: (f64, f64),
}

/// The pictures of the predictions.
#[derive(Debug, Clone, PartialEq)]
pub struct Pictures {
    /// The slices, the most influential input first.
    pub slices: Vec<Slice>,
    /// All inputs: where there are more than are shown, the others are held.
    pub n_inputs: usize,
    /// The share of the prediction's variation of each shown input.
    pub influences: Vec<(String, f64)>,
}

/// The certificates of the geodesics.
#[derive(Debug, Clone, PartialEq)]
pub struct Certificates {
    /// How they ended.
    pub count: SamplingReport,
    /// The metric.
    pub metric: String,
    /// The relative change of vᵀGv of each that reached its end.
    pub drift: Vec<f64>,
    /// Its largest on the way.
    pub path_drift: Vec<f64>,
    /// The distance of each end from the graph of the outputs, where the metric has one.
    pub off_graph: Vec<f64>,
    /// How many paths are certified, and the largest error of their ends in σ at the data.
    pub paths: usize,
    /// That error; none where no path is certified.
    pub end_error: Option<f64>,
    /// The mean number of evaluations.
    pub mean_evaluations: f64,
    /// The misfit of the samples relative to that of the linearised network, for networks with kinks.
    pub residual_ratio: Option<f64>,
    /// The width over which kinks are rounded.
    pub smoothing: Option<f64>,
}

/// 1 − Δ/Δ₀: the share of a constant's deviance that a model explains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Explained {
    /// Of the training rows.
    pub training: f64,
    /// Of the held-out rows, where there are some.
    pub held_out: Option<f64>,
    /// Without held-out rows: of training rows by models that were trained again without them, fold by fold, where that is quick.
    pub refits: Option<f64>,
}

impl Explained {
    /// Of rows that the model has not seen.
    pub fn of_new(&self) -> Option<f64> {
        self.held_out.or(self.refits)
    }
}

/// The network beside a linear model; a constant explains 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// The trained network alone.
    pub network: Explained,
    /// Ridge, logistic or Poisson regression of the same training rows, where it is quick.
    pub linear: Option<Explained>,
}

/// Coverage of the 90 % intervals by fifths of a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Fifths {
    /// Of what: the prediction, or an input.
    pub by: String,
    /// From the lowest values to the highest.
    pub fifths: Vec<Fifth>,
}

/// One fifth of the rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fifth {
    /// The least value.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// The rows.
    pub rows: usize,
    /// Those inside their intervals.
    pub inside: usize,
}

impl Fifth {
    /// The share inside.
    pub fn share(&self) -> f64 {
        self.inside as f64 / self.rows.max(1) as f64
    }
}

/// Whether intervals or sets hold.
#[derive(Debug, Clone, PartialEq)]
pub enum Hold {
    /// As fitted, and by each kind of calibration that the posterior has.
    Shares(Vec<Coverage>),
    /// Not computed, and why.
    Omitted(String),
}

/// Where a pool of rows that could be measured is least known. Spreads are standard deviations of the outputs by the weights alone,
/// relative to that of the median training row.
#[derive(Debug, Clone, PartialEq)]
pub struct Unknown {
    /// The rows of the pool.
    pub rows: usize,
    /// Whether spreads are relative to the training rows; else to the median row of the pool.
    pub beside_training: bool,
    /// The spread of the median row.
    pub median: f64,
    /// The largest.
    pub largest: f64,
    /// The inputs along which it differs most.
    pub inputs: Vec<PoolInput>,
    /// The rows to measure first.
    pub first: Vec<PoolRow>,
}

/// The spread by fifths of an input.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolInput {
    /// The input.
    pub name: String,
    /// From the lowest values to the highest.
    pub fifths: Vec<PoolFifth>,
}

/// One fifth of a pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolFifth {
    /// The least value.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// The mean spread.
    pub relative: f64,
}

/// A row of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolRow {
    /// Its number, from 1.
    pub row: usize,
    /// Its spread.
    pub relative: f64,
    /// Its inputs by name, in the units of the data.
    pub inputs: Vec<(String, f64)>,
}

/// A training row that looks wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspicious {
    /// Its number, from 1.
    pub row: usize,
    /// How much worse it would be predicted without itself, in nats.
    pub self_influence: f64,
    /// Its target or class.
    pub given: String,
    /// What the others predict.
    pub expected: String,
}

/// A row by its number, from 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NotableRow {
    /// Its number.
    pub row: usize,
    /// |y − mean| in standard deviations; of classes 1 − p(class).
    pub residual: f64,
    /// Its leverage, of training rows.
    pub leverage: Option<f64>,
    /// What its log density gains by the row itself, in nats.
    pub influence: Option<f64>,
}

/// Training rows worth a look, each predicted by the others.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Notable {
    /// Those that look wrong, the most suspicious first.
    pub suspicious: Vec<Suspicious>,
    /// Those of the largest residuals.
    pub residuals: Vec<NotableRow>,
    /// Those of the largest leverages.
    pub leverages: Vec<NotableRow>,
    /// Those of the largest influence on themselves.
    pub influences: Vec<NotableRow>,
}

/// The scored rows in the words of the field.
#[derive(Debug, Clone, PartialEq)]
pub struct Quality {
    /// R² of each target; none for classes.
    pub r_squared: Vec<f64>,
    /// The mean area under the ROC curve, each class against the rest.
    pub auroc: Option<f64>,
    /// The share of each class that is recognised.
    pub recall: Vec<Option<f64>>,
    /// The NLL of what knows the training targets and no inputs.
    pub constant_nll: Option<f64>,
}

/// Who made a report, when and how: shown where it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Made {
    /// The title; the posterior's name without one.
    pub title: Option<String>,
    /// The day, such as 2026-01-31.
    pub date: Option<String>,
    /// The command.
    pub command: Option<String>,
    /// The seed of the draws.
    pub seed: Option<u64>,
}

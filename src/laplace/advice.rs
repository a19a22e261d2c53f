//! What fits: where a structure does not, every other structure and part of the model that does, with its memory and an
//! estimate of its time.

use std::sync::Arc;

use ndarray::Array2;

use super::fit::prepare;
use super::options::FitOptions;
use super::problem::Problem;
use super::structure::Structure;
use super::weights::{Choice, Weights};
use super::{CurvatureKind, low_rank};
use crate::data::Batches;
use crate::error::{Error, Result, Unsupported, gigabytes};
use crate::likelihood::Family;
use crate::map::{BlockShape, Map, Model};
use crate::memory;
use crate::prior::{PriorPrecision, PriorStructure};

/// Seconds of one core per counted multiply-add, in f64. Measured on one machine, without reading the data: fits of a
/// 784-256-10 network with 8,000 rows (Kronecker 1.1 s, diagonal 0.5 s, low-rank:5 14 s and low-rank:20 50 s, last layer
/// 3.1 s), and of networks of 1,591 and 4,981 parameters with 300 to 4,000 rows in weight space (0.3 to 9.8 s) and in
/// function space (0.15 to 2.2 s) took 0.6 to 1.4 times the estimate.
const SECONDS_PER_MULTIPLY_ADD: f64 = 1e-10;
/// What takes longer is not begun unless it was asked for by name.
const MOST_SECONDS: f64 = 4.0 * 3600.0;
/// The largest sub-network that is advised.
const MOST_OF_SUBNETWORK: usize = 2000;
/// Passes over the data that a low-rank fit usually takes.
const USUAL_PASSES: f64 = 5.0;

/// How long a fit will take on one core, from counted work, and what would be faster.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedFit {
    /// Seconds, with the factorisation; none where it depends on iterations.
    pub seconds: Option<f64>,
    /// Structures and parts that take less, with their seconds.
    pub faster: Vec<(String, f64)>,
}

/// Whether hyperparameters will be tuned, which takes the eigenvalues of an exact posterior.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WillTune {
    /// They will.
    Yes,
    /// They stay.
    No,
}

/// Multiply-adds of an eigendecomposition, in cubes of its size.
const EIGEN: f64 = 10.0;

impl ExpectedFit {
    /// Of a model and data, before any of the work is done.
    pub fn of(
        model: Arc<dyn Model>,
        data: &dyn Batches,
        family: &Family,
        options: &FitOptions,
        tuning: WillTune,
    ) -> Result<Self> {
        let (problem, prior, structure) = prepare(model, data, family.clone(), options)?;
        let of = |problem: &Problem, structure: Structure| {
            let size = match structure {
                Structure::WeightSpace => problem.model.n_params(),
                Structure::FunctionSpace => problem.n_rows(),
                _ => 0,
            };
            let eigen = if tuning == WillTune::Yes { EIGEN * (size as f64).powi(3) } else { 0.0 };
            work(problem, structure).map(|work| (work + eigen) * SECONDS_PER_MULTIPLY_ADD)
        };
        let seconds = of(&problem, structure);
        let mut faster = Vec::new();
        let mut add = |name: &str, problem: &Problem, other: Structure| {
            if let (Some(own), Some(theirs)) = (seconds, of(problem, other))
                && theirs < 0.5 * own
            {
                faster.push((name.to_string(), theirs));
            }
        };
        if prior.precision().matrix().is_none() && problem.kind != CurvatureKind::Hessian {
            if prior.precision().structure() != PriorStructure::PerWeight {
                add("the Kronecker structure", &problem, Structure::Kronecker);
            }
            if problem.model.subset().is_none() && problem.model.groups().len() > 1 {
                let last = Weights::LastLayer.restrict(&problem.model)?;
                let last = Problem { model: last, ..problem.clone() };
                add("the last layer alone", &last, last.exact());
            }
            add("the diagonal structure", &problem, Structure::Diagonal);
        }
        Ok(Self { seconds, faster })
    }
}

/// The structure to use, after checking that it fits; where it does not, the error lists those that do.
pub(super) fn choose(problem: &Problem, choice: Structure, prior: &PriorPrecision) -> Result<Structure> {
    let structure = match (choice, prior.matrix()) {
        (Structure::Auto | Structure::WeightSpace, Some(_)) => Structure::WeightSpace,
        (_, Some(_)) => return Err(Error::Unsupported(Unsupported::EarlierPosterior)),
        (Structure::Auto, None) => problem.exact(),
        (other, None) => other,
    };
    if problem.kind == CurvatureKind::Hessian && structure != Structure::WeightSpace {
        return Err(Error::Unsupported(Unsupported::HessianStructure(structure.solver())));
    }
    let (d, m) = (problem.model.n_params(), problem.n_rows());
    let what = match structure {
        Structure::FunctionSpace => format!("the function-space solver (N·P = {m})"),
        other => format!("the {other} solver (D = {d})"),
    };
    let (numbers, seconds) = (structure.numbers(problem), seconds(problem, structure));
    let limit = memory::limit() as f64 / 8.0;
    let too_long = seconds.filter(|seconds| choice == Structure::Auto && *seconds > MOST_SECONDS);
    if numbers <= limit && too_long.is_none() {
        memory::check(&what, numbers, "wait until other work has given memory back, or allow more")?;
        return Ok(structure);
    }
    let others = would_fit(problem, structure, prior, limit);
    let advice = if others.is_empty() {
        let points = ((limit / 4.0).sqrt() / problem.model.n_outputs() as f64) as usize;
        let params = (limit / 5.0).sqrt() as usize;
        format!(
            "about {points} data points (function space) or a network of about {params} parameters (weight space) would \
             fit; or allow more memory"
        )
    } else {
        others.join("; ")
    };
    memory::check(&what, numbers, advice.as_str())?;
    Err(Error::TooLong { what, time: time(too_long.unwrap_or(f64::INFINITY)), advice })
}

/// Every structure and part that fits and that this prior and this curvature allow, in words.
fn would_fit(problem: &Problem, structure: Structure, prior: &PriorPrecision, limit: f64) -> Vec<String> {
    let mut fitting = Vec::new();
    let mut add = |name: String, problem: &Problem, structure: Structure| {
        let (numbers, seconds) = (structure.numbers(problem), seconds(problem, structure));
        if numbers <= limit && seconds.is_none_or(|seconds| seconds <= MOST_SECONDS) {
            let memory = gigabytes(numbers * 8e-9);
            let time =
                seconds.map_or("a time that depends on its iterations".to_string(), |s| format!("about {}", time(s)));
            fitting.push(format!("{name} would fit: it needs {memory} and {time}"));
        }
    };
    // An earlier posterior is a prior over all its weights, in the full structure.
    if prior.matrix().is_some() {
        return fitting;
    }
    let allowed = |other: &Structure| match (problem.kind, prior.structure(), other) {
        (CurvatureKind::Hessian, _, other) => *other == Structure::WeightSpace,
        (_, PriorStructure::PerWeight, Structure::Kronecker) => false,
        _ => true,
    };
    for other in Structure::ALL.iter().filter(|other| **other != structure && allowed(other)) {
        add(other.to_string(), problem, *other);
    }
    if problem.model.subset().is_none() {
        let part =
            |weights: Weights| Some(Problem { model: weights.restrict(&problem.model).ok()?, ..problem.clone() });
        if problem.model.groups().len() > 1
            && let Some(last) = part(Weights::LastLayer)
        {
            add("the last layer".to_string(), &last, last.exact());
        }
        // A round number of weights whose D × D matrices fit comfortably.
        let most = ((limit / 12.0).sqrt() as usize).min(problem.model.n_params() / 2).min(MOST_OF_SUBNETWORK);
        let count = if most > 100 { most / 100 * 100 } else { most };
        if let Some(some) = part(Weights::Subnetwork { count, choice: Choice::Magnitude }) {
            add(format!("a sub-network of {count} weights"), &some, Structure::WeightSpace);
        }
    }
    fitting
}

/// The estimated time of a fit with its factorisation, from counted multiply-adds.
fn seconds(problem: &Problem, structure: Structure) -> Option<f64> {
    Some(work(problem, structure)? * SECONDS_PER_MULTIPLY_ADD)
}

/// Multiply-adds of a fit, where they can be counted beforehand.
fn work(problem: &Problem, structure: Structure) -> Option<f64> {
    let model = &problem.model;
    let (n, d) = (problem.n_data as f64, model.n_params() as f64);
    let (rows, columns) = (problem.n_rows() as f64, problem.n_rows() / problem.n_data.max(1));
    let cube = |size: f64| size.powi(3);
    // A map at one point counts what products with its rows take.
    let point = model.bind(Array2::zeros((1, model.n_inputs())).view());
    let at_point = |work: fn(&dyn Map, usize) -> f64, dense: f64| {
        n * point.as_ref().map_or(dense, |map| work(&**map, columns)).max(1.0)
    };
    let own = match structure {
        Structure::Auto => return work(problem, problem.exact()),
        Structure::WeightSpace => at_point(|map, k| map.curvature_work(k), 0.5 * d * d) + 0.5 * cube(d),
        Structure::FunctionSpace => n * at_point(|map, k| map.gram_work(k), d) + cube(rows) / 3.0,
        Structure::Kronecker => model.blocks().into_iter().map(|shape| block_work(shape, n, rows)).sum(),
        Structure::Diagonal => n * d,
        // As many products as its iterations take, which depends on the eigenvalues.
        Structure::MatrixFree(_) => return None,
        Structure::LowRank(rank) => {
            let products = USUAL_PASSES * low_rank::columns(rank, model.n_params()) as f64;
            2.0 * products * at_point(|map, k| map.product_work(k), d)
        }
    };
    // The outputs twice, and the rows pulled back through every layer but the first.
    let all = model.subset().map_or(d, |place| place.all.len() as f64);
    let first = model.group_sizes().first().copied().unwrap_or(0) as f64;
    Some(own + 2.0 * n * all + rows * (d - first))
}

/// Multiply-adds of the sums and the eigendecompositions of one block of a Kronecker structure.
fn block_work(shape: BlockShape, points: f64, rows: f64) -> f64 {
    let eigen = |size: usize| 10.0 * (size as f64).powi(3);
    let square = |size: usize| 0.5 * (size as f64).powi(2);
    match shape {
        BlockShape::Matrix { outputs, inputs, .. } => {
            points * square(inputs) + rows * square(outputs) + eigen(inputs) + eigen(outputs)
        }
        BlockShape::Dense { size } => rows * square(size) + eigen(size),
    }
}

/// A time for a message.
fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1.0 => "a second".to_string(),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} minutes", seconds / 60.0),
        seconds => format!("{:.0} hours", seconds / 3600.0),
    }
}

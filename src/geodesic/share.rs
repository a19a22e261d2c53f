//! Samples drawn by several processes: each draws its part of the range, and the parts are joined.
//!
//! A part goes as a message: the length of its description, the description as JSON, and its numbers as tensors.

use std::ops::Range;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::density::SampleDensities;
use super::residuals::Residuals;
use super::samples::{Outcome, Samples};
use super::subsampled::{BatchReport, MetricBatch};
use crate::error::{Error, Result, TeamError};
use crate::laplace::{SolverName, SolverReport};
use crate::team::{Team, pack_tensors, unpack_tensors};

impl Samples {
    /// The parts of all ranks, joined, at the first; the others get `None`. A rank without a part gives `None`.
    pub fn gather(team: &Team, mine: Option<&Samples>) -> Result<Option<Samples>> {
        let message = mine.map_or_else(|| Ok(Vec::new()), encode)?;
        team.gather(message)?.map(|parts| join(&parts)).transpose()
    }

    /// The parts of all ranks, joined; every rank gets them.
    ///
    /// ```
    /// use riemannian_laplace::internals::geodesic::sample;
    /// use riemannian_laplace::internals::metric;
    /// use riemannian_laplace::internals::team::Team;
    /// use riemannian_laplace::{SamplerOptions, Samples};
    /// # use riemannian_laplace::internals::paper::problems::Squiggle;
    /// # let target = Squiggle::MAIN.target()?;
    /// # let base = [0.0, 0.0];
    /// let (team, fisher) = (Team::alone(), metric::fisher(&target));
    /// let options = SamplerOptions { range: team.share_of(0..8), ..Default::default() };
    /// let mine = sample(&fisher, &base, &fisher.at(&base)?, &options, &())?;
    /// assert_eq!(Samples::share(&team, Some(&mine))?, mine);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn share(team: &Team, mine: Option<&Samples>) -> Result<Samples> {
        let message = mine.map_or_else(|| Ok(Vec::new()), encode)?;
        join(&team.share_all(message)?)
    }
}

fn join(messages: &[Vec<u8>]) -> Result<Samples> {
    let parts = messages.iter().filter(|message| !message.is_empty());
    Samples::join(parts.map(|message| decode(message)).collect::<Result<Vec<_>>>()?)
}

/// What a part is, without its numbers. Real numbers are here as their bits.
#[derive(Serialize, Deserialize)]
struct Description {
    metric: Option<String>,
    posterior: Option<String>,
    seed: Option<u64>,
    range: Range<usize>,
    smoothing: Option<u64>,
    indices: Option<Vec<usize>>,
    solver_name: Option<String>,
    /// Solves, products, residual, unconverged, rank, factors.
    solver: Option<[u64; 6]>,
    /// Sampled, linearised, samples.
    residuals: Option<[u64; 3]>,
    /// Its size and whether it is drawn anew.
    batch: Option<(usize, bool)>,
    conjugate: Option<Vec<usize>>,
    evaluations: Vec<usize>,
    outcome: Vec<i64>,
    certified: Vec<bool>,
}

fn encode(part: &Samples) -> Result<Vec<u8>> {
    let description = Description {
        metric: part.metric.map(|metric| metric.to_string()),
        posterior: part.posterior.clone(),
        seed: part.seed,
        range: part.range.clone(),
        smoothing: part.smoothing.map(f64::to_bits),
        indices: part.indices.clone(),
        solver_name: part.solver_name.map(|name| name.to_string()),
        solver: part.solver.map(|report| {
            let SolverReport { solves, products, worst_residual, unconverged, rank, factors } = report;
            [solves, products, worst_residual.to_bits(), unconverged, rank as u64, factors]
        }),
        residuals: part.residuals.map(|found| {
            let Residuals { sampled, linearized, samples } = found;
            [sampled.to_bits(), linearized.to_bits(), samples as u64]
        }),
        batch: part.batch.as_ref().map(|report| (report.batch.size, report.batch.redraw)),
        conjugate: part.density.as_ref().map(|density| density.conjugate.clone()),
        evaluations: part.evaluations.clone(),
        outcome: part.outcome.iter().map(|outcome| outcome.code()).collect(),
        certified: part.certified.clone(),
    };
    let text = serde_json::to_vec(&description).map_err(|_| TeamError::Message)?;
    let (count, size) = part.theta.dim();
    let flat = |matrix: &Array2<f64>| matrix.iter().copied().collect::<Vec<f64>>();
    let mut tensors = vec![
        ("theta", vec![count, size], flat(&part.theta)),
        ("velocity", vec![count, size], flat(&part.velocity)),
        ("drift", vec![count], part.drift.clone()),
        ("path_drift", vec![count], part.path_drift.clone()),
    ];
    let further = [
        ("off_graph", part.off_graph.clone()),
        ("log_weight", part.density.as_ref().map(|density| density.log_weight.clone())),
        ("residuals", part.batch.as_ref().map(|report| report.residuals.clone())),
    ];
    tensors.extend(further.into_iter().filter_map(|(name, values)| values.map(|v| (name, vec![v.len()], v))));
    let mut message = (text.len() as u64).to_le_bytes().to_vec();
    message.extend(text);
    message.extend(pack_tensors(tensors.iter().map(|(name, shape, values)| (*name, &shape[..], &values[..]))));
    Ok(message)
}

fn decode(message: &[u8]) -> Result<Samples> {
    let wrong = || Error::from(TeamError::Message);
    let (length, rest) = message.split_first_chunk::<8>().ok_or_else(wrong)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| wrong())?;
    let (text, numbers) = rest.split_at_checked(length).ok_or_else(wrong)?;
    let about: Description = serde_json::from_slice(text).map_err(|_| wrong())?;
    let mut tensors = unpack_tensors(numbers)?;
    let count = about.outcome.len();
    let mut matrix = |name: &str| -> Result<Array2<f64>> {
        let tensor = tensors.remove(name).ok_or_else(wrong)?;
        let &[rows, columns] = tensor.shape.as_slice() else { return Err(wrong()) };
        Array2::from_shape_vec((rows, columns), tensor.values).map_err(|_| wrong())
    };
    let (theta, velocity) = (matrix("theta")?, matrix("velocity")?);
    let mut row = |name: &str| tensors.remove(name).map(|tensor| tensor.values).filter(|row| row.len() == count);
    let (drift, path_drift) = (row("drift").ok_or_else(wrong)?, row("path_drift").ok_or_else(wrong)?);
    let (off_graph, log_weight, residuals) = (row("off_graph"), row("log_weight"), row("residuals"));
    let outcome = |code: &i64| Outcome::ALL.into_iter().find(|outcome| outcome.code() == *code).ok_or_else(wrong);
    let solver_name = |name: String| SolverName::ALL.into_iter().find(|known| known.name() == name).ok_or_else(wrong);
    let fits = theta.dim() == velocity.dim() && theta.nrows() == count;
    if !fits || about.evaluations.len() != count || about.certified.len() != count || about.range.len() != count {
        return Err(wrong());
    }
    Ok(Samples {
        metric: about.metric.map(|name| name.parse().map_err(|_| wrong())).transpose()?,
        posterior: about.posterior,
        seed: about.seed,
        range: about.range,
        theta,
        velocity,
        evaluations: about.evaluations,
        drift,
        path_drift,
        off_graph,
        outcome: about.outcome.iter().map(outcome).collect::<Result<_>>()?,
        certified: about.certified,
        smoothing: about.smoothing.map(f64::from_bits),
        residuals: about.residuals.map(|[sampled, linearized, samples]| Residuals {
            sampled: f64::from_bits(sampled),
            linearized: f64::from_bits(linearized),
            samples: samples as usize,
        }),
        indices: about.indices,
        solver_name: about.solver_name.map(solver_name).transpose()?,
        solver: about.solver.map(|[solves, products, residual, unconverged, rank, factors]| SolverReport {
            solves,
            products,
            worst_residual: f64::from_bits(residual),
            unconverged,
            rank: rank as usize,
            factors,
        }),
        batch: about
            .batch
            .zip(residuals)
            .map(|((size, redraw), residuals)| BatchReport { batch: MetricBatch { size, redraw }, residuals }),
        density: about
            .conjugate
            .zip(log_weight)
            .map(|(conjugate, log_weight)| SampleDensities { log_weight, conjugate }),
    })
}

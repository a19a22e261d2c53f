//! Samples drawn by several processes: each draws its part of the range, and the parts are joined.
//!
//! A part goes as a message: the length of its description, the description as JSON, and its numbers as tensors.

use std::collections::BTreeMap;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::residuals::Residuals;
use super::samples::Samples;
use super::subsampled::{BatchReport, MetricBatch};
use crate::error::{Error, Result, TeamError};
use crate::metric::SolverReport;
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
    metadata: BTreeMap<String, String>,
    indices: Option<Vec<usize>>,
    /// Solves, products, residual, unconverged, rank, factors.
    solver: Option<[u64; 6]>,
    /// Sampled, linearised, samples.
    residuals: Option<[u64; 3]>,
    /// Its size, whether it is drawn anew, and the residuals.
    batch: Option<(usize, bool, Vec<u64>)>,
}

fn encode(part: &Samples) -> Result<Vec<u8>> {
    let description = Description {
        metadata: part.metadata(),
        indices: part.indices.clone(),
        solver: part.solver.map(|report| {
            let SolverReport { solves, products, worst_residual, unconverged, rank, factors } = report;
            [solves, products, worst_residual.to_bits(), unconverged, rank as u64, factors]
        }),
        residuals: part.residuals.map(|found| {
            let Residuals { sampled, linearized, samples } = found;
            [sampled.to_bits(), linearized.to_bits(), samples as u64]
        }),
        batch: part.batch.as_ref().map(|report| {
            let residuals = report.residuals.iter().map(|residual| residual.to_bits()).collect();
            (report.batch.size, report.batch.redraw, residuals)
        }),
    };
    let text = serde_json::to_vec(&description).map_err(|_| TeamError::Message)?;
    let (count, size) = part.theta.dim();
    let flat = |matrix: &Array2<f64>| matrix.iter().copied().collect::<Vec<f64>>();
    let (theta, velocity, columns) = (flat(&part.theta), flat(&part.velocity), part.stored_columns());
    let (matrix, column) = ([count, size], [count]);
    let mut tensors = vec![("theta", &matrix[..], &theta[..]), ("velocity", &matrix[..], &velocity[..])];
    tensors.extend(columns.iter().map(|stored| {
        let (name, numbers) = stored.numbers();
        (name, &column[..], numbers)
    }));
    let mut message = (text.len() as u64).to_le_bytes().to_vec();
    message.extend(text);
    message.extend(pack_tensors(tensors));
    Ok(message)
}

fn decode(message: &[u8]) -> Result<Samples> {
    let wrong = || Error::from(TeamError::Message);
    let (length, rest) = message.split_first_chunk::<8>().ok_or_else(wrong)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| wrong())?;
    let (text, numbers) = rest.split_at_checked(length).ok_or_else(wrong)?;
    let about: Description = serde_json::from_slice(text).map_err(|_| wrong())?;
    let mut tensors = unpack_tensors(numbers)?;
    let mut matrix = |name: &str| -> Result<Array2<f64>> {
        let tensor = tensors.remove(name).ok_or_else(wrong)?;
        let &[rows, columns] = tensor.shape.as_slice() else { return Err(wrong()) };
        Array2::from_shape_vec((rows, columns), tensor.values).map_err(|_| wrong())
    };
    let (theta, velocity) = (matrix("theta")?, matrix("velocity")?);
    let count = theta.nrows();
    let mut samples = Samples { theta, velocity, ..Samples::collect_columns(&[]) };
    let take = |name: &'static str, required: bool| {
        let row = tensors.remove(name).map(|tensor| tensor.values).filter(|row| row.len() == count);
        if required && row.is_none() { Err(wrong()) } else { Ok(row) }
    };
    samples.read_columns(take, count, |_, _, _, _| wrong())?;
    samples.take_metadata(&about.metadata).map_err(|_| wrong())?;
    if samples.theta.dim() != samples.velocity.dim() {
        return Err(wrong());
    }
    samples.indices = about.indices;
    samples.residuals = about.residuals.map(|[sampled, linearized, samples]| Residuals {
        sampled: f64::from_bits(sampled),
        linearized: f64::from_bits(linearized),
        samples: samples as usize,
    });
    samples.solver = about.solver.map(|[solves, products, residual, unconverged, rank, factors]| SolverReport {
        solves,
        products,
        worst_residual: f64::from_bits(residual),
        unconverged,
        rank: rank as usize,
        factors,
    });
    samples.batch = about.batch.map(|(size, redraw, residuals)| BatchReport {
        batch: MetricBatch { size, redraw },
        residuals: residuals.into_iter().map(f64::from_bits).collect(),
    });
    Ok(samples)
}

//! Draws of the no-U-turn sampler, saved on disk with the cells of a full run, and the verdict on them printed.

use std::collections::BTreeMap;
use std::path::Path;

use ndarray::Array2;
use riemannian_laplace::internals::paper::reference::{
    ChainReport, Diagnostics, NutsOptions, ReferenceSample, Start, nuts,
};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::internals::tensors::{self, TensorFile, Values};

use super::cells::Cells;
use super::comparison::progress;
use super::figure::Outcome;

/// The draws of a run: read if it was finished before, otherwise made and saved.
pub fn draws(name: &str, target: &Target, options: &NutsOptions, cells: &Cells) -> Outcome<ReferenceSample> {
    let NutsOptions { chains, warmup, draws, thinning, seed, .. } = options;
    let key = format!("nuts {name} {chains}x{warmup}+{draws}by{thinning} {seed}");
    let (kept, file) = (cells.readable(&key, "safetensors"), cells.writable(&key, "safetensors"));
    if let Some(sample) = kept.and_then(|path| read(&path, target.map().n_params()).ok()) {
        return Ok(sample);
    }
    let bar = progress(&format!("NUTS, {name}"), options.iterations());
    let sample = nuts(target, Start::StandardNormal, options, &|done| bar.inc(done as u64))?;
    bar.finish_and_clear();
    if let Some(path) = file {
        write(&path, &sample)?;
    }
    Ok(sample)
}

/// Prints how a run went and whether it may be called a reference, and returns the latter.
pub fn describe(what: &str, sample: &ReferenceSample) -> bool {
    let r_hat = sample.diagnostics.worst_r_hat().map_or(f64::NAN, |(_, value)| value);
    let bulk_ess = sample.diagnostics.least_bulk_ess().map_or(f64::NAN, |(_, value)| value);
    println!(
        "{what}: {} draws of {} chains, worst R-hat {r_hat:.4}, least bulk ESS {bulk_ess:.0}, {} divergences.",
        sample.draws.nrows(),
        sample.chains(),
        sample.divergences()
    );
    match sample.verdict() {
        Ok(_) => true,
        Err(refusal) => {
            println!("*** NOT A REFERENCE, its distances prove nothing: {refusal} ***");
            false
        }
    }
}

/// The numbers of a chain's report.
const REPORT: usize = 5;

fn write(path: &Path, sample: &ReferenceSample) -> Outcome {
    let draws: Vec<f64> = sample.draws.iter().copied().collect();
    let report = |report: &ChainReport| {
        let ChainReport { step_size, transitions, divergences, depth_limited, gradients } = *report;
        [step_size, transitions as f64, divergences as f64, depth_limited as f64, gradients as f64]
    };
    let reports: Vec<f64> = sample.reports.iter().flat_map(report).collect();
    let (rows, columns) = sample.draws.dim();
    let tensors = [
        ("draws", vec![rows, columns], Values::Real(&draws)),
        ("reports", vec![sample.chains(), REPORT], Values::Real(&reports)),
    ];
    Ok(tensors::write(path, &tensors, BTreeMap::new())?)
}

fn read(path: &Path, n_params: usize) -> Outcome<ReferenceSample> {
    let mut file = TensorFile::read(path)?;
    let draws = file.take_rows(path, "draws", n_params, "one draw per row")?;
    let reports = file.take_rows(path, "reports", REPORT, "one chain per row")?;
    let report = |row: &[f64]| ChainReport {
        step_size: row[0],
        transitions: row[1] as usize,
        divergences: row[2] as usize,
        depth_limited: row[3] as usize,
        gradients: row[4] as usize,
    };
    let reports: Vec<ChainReport> = reports.values.chunks_exact(REPORT).map(report).collect();
    let draws = Array2::from_shape_vec((draws.shape[0], n_params), draws.values)?;
    let diagnostics = Diagnostics::of(draws.view(), reports.len())?;
    Ok(ReferenceSample { draws, reports, diagnostics })
}

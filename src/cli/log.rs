//! `rla log`: the logarithmic map for given points.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use riemannian_laplace::MetricName;
use riemannian_laplace::internals::geodesic::{LogarithmOptions, logarithmic_map};
use riemannian_laplace::internals::tensors::{self, Values};

use super::arguments;
use super::console::Console;
use super::failure::Failure;
use super::geodesic;
use super::output::{OutputFile, counted};
use super::posterior::PosteriorArgs;
use super::smoothing::MapSmoothingArgs;

/// Find the velocities whose geodesics lead to given weights
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct LogArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    /// The points: safetensors with a tensor theta of shape S × D
    #[arg(long, value_name = "FILE")]
    points: PathBuf,
    /// The Riemannian metric
    #[arg(long, value_name = "METRIC", default_value_t = MetricName::Fisher, value_parser = geodesic::metric_with_maps())]
    metric: MetricName,
    #[command(flatten)]
    smoothing: MapSmoothingArgs,
    /// Accept a velocity when its end point misses by at most this share of the distance
    #[arg(long, value_name = "T", default_value = "1e-8", value_parser = arguments::positive)]
    tolerance: f64,
    /// Where to write the velocities (safetensors)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

const EXAMPLE: &str = "\
Tensors written: v [S,D], residual [S] (how far the geodesic misses its point, relative to the distance from the trained \
weights), converged [S].

Example:
  rla log --posterior posterior.safetensors --points t.safetensors --metric fisher --out log.safetensors";

/// Runs the command.
pub fn run(args: &LogArgs, console: &Console) -> Result<(), Failure> {
    let out = OutputFile::at(&args.out, &[&args.posterior.posterior, &args.points])?;
    let laplace = args.posterior.load(console)?;
    let points = geodesic::read_vectors(&args.points, "theta", &laplace)?;
    args.smoothing.announce(&laplace, args.metric, console);
    let options = LogarithmOptions { tolerance: args.tolerance, ..Default::default() };
    let progress = console.bar("solving boundary value problems", points.nrows());
    let found = logarithmic_map(&laplace, args.metric, args.smoothing.smoothing(), points.view(), options, &progress)
        .map_err(Failure::about(&args.posterior.posterior))?;
    drop(progress);
    let velocities: Vec<f64> = found.iter().flat_map(|solution| solution.velocity.iter().copied()).collect();
    let residuals: Vec<f64> = found.iter().map(|solution| solution.residual).collect();
    let converged: Vec<i64> = found.iter().map(|solution| i64::from(solution.converged)).collect();
    let entries = [
        ("v", vec![points.nrows(), points.ncols()], Values::Real(&velocities)),
        ("residual", vec![found.len()], Values::Real(&residuals)),
        ("converged", vec![found.len()], Values::Integer(&converged)),
    ];
    tensors::write(out.path(), &entries, BTreeMap::from([("metric".to_string(), args.metric.to_string())]))?;
    let failed = found.iter().filter(|solution| !solution.converged).count();
    if failed > 0 {
        console.warn(format!(
            "{failed} of {} not solved: the residual tells how far the geodesic misses",
            counted(found.len(), "point")
        ));
    }
    console.note(format!("{} written to {}", counted(found.len(), "velocity vector"), args.out.display()));
    Ok(())
}

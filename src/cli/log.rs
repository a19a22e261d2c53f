//! `rla log`: the logarithmic map for given points.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use riemannian_laplace::MetricName;
use riemannian_laplace::internals::geodesic::{GeodesicLimits, LogarithmOptions, logarithmic_map};
use riemannian_laplace::internals::tensors::{self, Values};

use super::arguments;
use super::console::Console;
use super::failure::Failure;
use super::geodesic;
use super::output::{OutputFile, counted};
use super::posterior::PosteriorArgs;
use super::sampling::{LimitArgs, Sampling};
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
    /// The most evaluations of the acceleration for one point; beyond, it is not solved [default: none]
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    max_evaluations: Option<usize>,
    /// The longest that one point may take, e.g. 90s or 5m; beyond, it is not solved [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = arguments::duration)]
    max_time_per_point: Option<Duration>,
    /// Stop after this long, e.g. 90s, 10m or 2h; the points that are solved are written [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = arguments::duration)]
    max_time: Option<Duration>,
    /// Where to write the velocities (safetensors)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

const EXAMPLE: &str = "\
Tensors written: v [S,D], residual [S] (how far the geodesic misses its point, relative to the distance from the trained \
weights), converged [S]. A point that is not solved within its limits has no numbers (NaN), and converged is 0.

Example:
  rla log --posterior posterior.safetensors --points t.safetensors --metric fisher --out log.safetensors";

/// Runs the command.
pub fn run(args: &LogArgs, console: &Console) -> Result<(), Failure> {
    let out = OutputFile::at(&args.out, &[&args.posterior.posterior, &args.points])?;
    let laplace = args.posterior.load(console)?;
    let points = geodesic::read_vectors(&args.points, "theta", &laplace)?;
    args.smoothing.announce(&laplace, args.metric, console);
    let limits = GeodesicLimits { evaluations: args.max_evaluations, time: args.max_time_per_point };
    let deadline = args.max_time.and_then(|time| Instant::now().checked_add(time));
    let options = LogarithmOptions { tolerance: args.tolerance, limits, deadline, ..Default::default() };
    let none = LimitArgs::default();
    let progress = Sampling::of(console, points.nrows(), &none, ("solving boundary value problems", "point"));
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
    if failed > 0 && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        let (solved, path) = (found.len() - failed, args.out.display());
        let points = counted(found.len(), "point");
        return Err(Failure::Stopped(format!("stopped by --max-time: {solved} of {points} are solved, in {path}")));
    }
    console.note(format!("{} written to {}", counted(found.len(), "velocity vector"), args.out.display()));
    Ok(())
}

//! `rla exp`: the exponential map for given velocities.

use std::path::PathBuf;

use clap::Args;
use riemannian_laplace::MetricName;
use riemannian_laplace::internals::geodesic::{exponential_map, write_samples};

use super::console::Console;
use super::failure::Failure;
use super::geodesic::{self, IntegratorArgs};
use super::output::{OutputFile, counted};
use super::posterior::PosteriorArgs;
use super::smoothing::MapSmoothingArgs;

/// Follow geodesics from the trained weights with given velocities
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct ExpArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    /// The velocities: safetensors with a tensor v of shape S × D
    #[arg(long, value_name = "FILE")]
    velocities: PathBuf,
    /// The Riemannian metric
    #[arg(long, value_name = "METRIC", default_value_t = MetricName::Fisher, value_parser = geodesic::metric_with_maps())]
    metric: MetricName,
    #[command(flatten)]
    smoothing: MapSmoothingArgs,
    #[command(flatten)]
    integrator: IntegratorArgs,
    /// Where to write the end points (safetensors)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

const EXAMPLE: &str = "\
Tensors written: theta [S,D], velocity [S,D] (at the end), nfev [S] (evaluations), drift [S] (relative change of vᵀGv), \
path_drift [S] (its largest on the way), off_graph [S] (distance from the graph of the whitened outputs, for all \
likelihoods but heteroscedastic), end_error [S] (difference from the end at a tenth of the tolerance: the largest at a data \
point, in noise levels), status [S] (0 reached, 1 step limit, 2 not finite), certificate [S] (2 path, 1 law, 0 neither), \
certified [S] (1: path or law). A path is certified with a drift of at most 1e-3 (or --drift-target), on the way of at most \
five times that, off_graph and end_error of at most 0.1.

The metric of a relu or leaky_relu network jumps at its kinks, where vᵀGv changes; --smoothing 0.05 follows the smooth \
metric that `rla sample` uses.

Example:
  rla exp --posterior posterior.safetensors --velocities v.safetensors --metric fisher \\
      --rtol 1e-8 --atol 1e-10 --integrator dop853 --out exp.safetensors";

/// Runs the command.
pub fn run(args: &ExpArgs, console: &Console) -> Result<(), Failure> {
    let out = OutputFile::at(&args.out, &[&args.posterior.posterior, &args.velocities])?;
    let options = args.integrator.fixed_by_default()?;
    let laplace = args.posterior.load(console)?;
    let velocities = geodesic::read_vectors(&args.velocities, "v", &laplace)?;
    args.smoothing.announce(&laplace, args.metric, console);
    let progress = console.bar("following geodesics", velocities.nrows());
    let ends =
        exponential_map(&laplace, args.metric, args.smoothing.smoothing(), velocities.view(), options, &progress)
            .map_err(Failure::about(&args.posterior.posterior))?;
    drop(progress);
    write_samples(out.path(), &ends)?;
    geodesic::report_failures(&ends, console);
    console.note(format!("{} written to {}", counted(ends.len(), "end point"), args.out.display()));
    Ok(())
}

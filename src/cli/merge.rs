//! `rla merge`: one file from the parts of one run.

use std::path::{Path, PathBuf};

use clap::Args;
use riemannian_laplace::Samples;
use riemannian_laplace::internals::geodesic::{read_samples, write_samples};
use riemannian_laplace::internals::laplace::FitPart;
use riemannian_laplace::internals::tensors::TensorFile;

use super::console::Console;
use super::failure::Failure;
use super::output::{OutputFile, counted, short};
use super::shard;

/// Join the parts of one run: samples of `sample --range` or `sample --shard`, or parts of a fit of `fit --shard`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct MergeArgs {
    /// The parts, in any order
    #[arg(value_name = "PART", required = true)]
    parts: Vec<PathBuf>,
    /// Where to write the whole
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

const EXAMPLE: &str = "\
The whole is the same file, to the byte, as that of one run. Parts of different posteriors, seeds or metrics are refused, \
and so are parts between which samples are missing, or that have samples in common.

Example:
  rla sample --posterior posterior.safetensors --samples 100 --shard 1/2 --out one.safetensors
  rla sample --posterior posterior.safetensors --samples 100 --shard 2/2 --out two.safetensors
  rla merge one.safetensors two.safetensors --out samples.safetensors

Example, a fit in two jobs:
  rla fit --model model.safetensors --data train.csv --target y --likelihood gaussian \\
      --optimize --shard 1/2 --out fit1.safetensors
  rla fit --model model.safetensors --data train.csv --target y --likelihood gaussian \\
      --optimize --shard 2/2 --out fit2.safetensors
  rla merge fit1.safetensors fit2.safetensors --out posterior.safetensors";

/// What a part holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Samples,
    Fit,
}

/// Runs the command.
pub fn run(args: &MergeArgs, console: &Console) -> Result<(), Failure> {
    let inputs: Vec<&Path> = args.parts.iter().map(PathBuf::as_path).collect();
    let out = OutputFile::at(&args.out, &inputs)?;
    let mut kinds =
        args.parts.iter().map(|part| Ok((part, kind(part)?))).collect::<Result<Vec<_>, Failure>>()?.into_iter();
    let Some((first, expected)) = kinds.next() else { return Err(Failure::Usage("there are no parts".to_string())) };
    if let Some((other, _)) = kinds.find(|(_, kind)| *kind != expected) {
        return Err(Failure::Usage(format!(
            "{} and {} hold different things; parts of one run are needed",
            first.display(),
            other.display()
        )));
    }
    match expected {
        Kind::Samples => samples(args, &out, console),
        Kind::Fit => fit(args, &out, console),
    }
}

fn samples(args: &MergeArgs, out: &OutputFile, console: &Console) -> Result<(), Failure> {
    let parts = args.parts.iter().map(|part| read_samples(part)).collect::<Result<Vec<Samples>, _>>()?;
    let whole = Samples::join(parts)?;
    write_samples(out.path(), &whole)?;
    console.note(format!(
        "{} of {} written to {}",
        counted(whole.len(), "sample"),
        counted(args.parts.len(), "part"),
        out.path().display()
    ));
    Ok(())
}

fn fit(args: &MergeArgs, out: &OutputFile, console: &Console) -> Result<(), Failure> {
    let laplace = shard::join(&args.parts, out.path(), console)?;
    console.note(format!(
        "posterior of {} from {}, log marginal likelihood {}, written to {}",
        counted(laplace.n_data(), "data point"),
        counted(args.parts.len(), "part"),
        short(laplace.log_marginal_likelihood()),
        out.path().display()
    ));
    Ok(())
}

/// What a file holds, from the names of its tensors.
fn kind(part: &Path) -> Result<Kind, Failure> {
    if FitPart::is_in(part)? {
        return Ok(Kind::Fit);
    }
    let file = TensorFile::read_where(part, |_| false)?;
    let holds = |name: &str| file.names().iter().any(|found| found == name);
    if holds("theta") && holds("velocity") && holds("status") && !holds("sample") {
        return Ok(Kind::Samples);
    }
    let what = match file.metadata.get("format") {
        Some(format) => format!("a {format}"),
        None => "no samples".to_string(),
    };
    Err(Failure::Usage(format!(
        "{}: it holds {what}; parts that `rla sample` or `rla fit --shard` wrote can be joined",
        part.display()
    )))
}

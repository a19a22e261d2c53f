//! `rla export`: a posterior as one ONNX graph, for any runtime.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use riemannian_laplace::ExportOptions;
use riemannian_laplace::internals::export::{Plan, Precision, SMALLER};
use riemannian_laplace::internals::tensors::TensorFile;
use serde::Serialize;

use super::arguments;
use super::certificate::CertificateArgs;
use super::console::Console;
use super::failure::Failure;
use super::method::{MethodArgs, name_of, sampling_report};
use super::output::{OutputFile, print_json};
use super::posterior::PosteriorArgs;

/// Write a posterior as an ONNX graph, whose outputs have error bars in any runtime
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct ExportArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    /// The format of the file
    #[arg(long, value_enum, default_value_t = Format::Onnx)]
    format: Format,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// The probability that an observation lies between `lower` and `upper`
    #[arg(long, value_name = "SHARE", default_value = "0.9", value_parser = arguments::share, allow_negative_numbers = true)]
    interval: f64,
    /// The numbers of the graph, of its inputs and of its outputs
    #[arg(long, value_enum, default_value_t = PrecisionName::F32)]
    precision: PrecisionName,
    /// The version of the operators, from 17 (onnxruntime 1.15 and later load it) to 22
    #[arg(long, value_name = "VERSION", default_value_t = 17, value_parser = clap::value_parser!(i64).range(17..=22))]
    opset: i64,
    /// Where to write the graph
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print the size, the outputs and the number of operators as one JSON object
    #[arg(long)]
    json: bool,
}

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// ONNX, for ONNX Runtime, browsers, C++ and mobile services
    Onnx,
}

/// The numbers of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PrecisionName {
    /// Four bytes
    F32,
    /// Eight bytes
    F64,
}

const EXAMPLE: &str = "\
The graph takes one input, `inputs` (rows by columns, in the order and the units of the training data after words have become \
one-hot columns; the file's metadata has their names), and gives

  gaussian, heteroscedastic, poisson   mean, epistemic_variance, aleatoric_variance, lower, upper (rows by targets)
  categorical, bernoulli               probabilities (rows by classes or outputs) and entropy; logit_variance with --method
                                       glm, mutual_information with nn and riemannian

The training data are never inside, nor rows of their Jacobian: what is inside are the network, the scaling, and the posterior \
covariance or the sampled networks. The size is told before the file is written. --method nn and riemannian hold a network per \
sample, and cost as many evaluations.

Example, in the posterior's own numbers:
  rla export --posterior posterior.safetensors --precision f64 --out bars.onnx

Example, with geodesics that were drawn before:
  rla export --posterior posterior.safetensors --method riemannian \\
      --samples-file samples.safetensors --out bars.onnx";

/// What --json prints.
#[derive(Serialize)]
struct Json {
    bytes: usize,
    operators: usize,
    outputs: Vec<&'static str>,
}

/// Runs the command.
pub fn run(args: &ExportArgs, console: &Console) -> Result<(), Failure> {
    let Format::Onnx = args.format;
    args.method.check_single()?;
    if args.method.wants_latent() {
        return Err(Failure::Usage("--link none belongs to `rla predict`; export with another link".to_string()));
    }
    let mut inputs: Vec<&Path> = vec![&args.posterior.posterior];
    inputs.extend(args.method.samples_file());
    let out = OutputFile::at(&args.out, &inputs)?;
    let laplace = args.posterior.load(console)?;
    let method = args.method.library_method(args.method.single(), &laplace, console)?;
    let precision = match args.precision {
        PrecisionName::F32 => Precision::F32,
        PrecisionName::F64 => Precision::F64,
    };
    let about = Failure::about(&args.posterior.posterior);
    let options = ExportOptions::default().with_precision(precision).with_opset(args.opset).with_level(args.interval);
    let plan = Plan::new(&laplace, &method, options).map_err(&about)?;
    let expected = plan.bytes();
    let kind = name_of(args.method.single());
    console.note(format!("about {} for --method {kind}, {}", size(expected), laplace.structure()));
    if expected > LARGE {
        console.note(SMALLER.to_string());
    }
    let exported = {
        let _progress = console.spinner("writing the graph");
        let fingerprint = TensorFile::stored_fingerprint(&args.posterior.posterior)?;
        let exported = plan.write().map_err(&about)?;
        exported.with_metadata("posterior", &fingerprint.unwrap_or_default())
    };
    let bytes = exported.to_bytes();
    out.write(|file| file.write_all(&bytes).map_err(|source| broken(&args.out, source)))?;
    if args.json {
        let outputs = exported.outputs().to_vec();
        print_json(&Json { bytes: bytes.len(), operators: exported.n_operators(), outputs })?;
    }
    let outputs = exported.outputs().join(", ");
    console.note(format!("{outputs} written to {}, {}", args.out.display(), size(bytes.len() as f64)));
    sampling_report(&method).map_or(Ok(()), |report| args.certificate.check(report))
}

fn broken(path: &Path, source: std::io::Error) -> Failure {
    Failure::from(riemannian_laplace::Error::Write { path: path.to_path_buf(), source })
}

/// From this many bytes on it is said what would be smaller.
const LARGE: f64 = 2e7;

/// A number of bytes in words.
fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1e6 => format!("{:.0} kB", (bytes / 1e3).max(1.0)),
        bytes => format!("{:.1} MB", bytes / 1e6),
    }
}

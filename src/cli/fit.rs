//! `rla fit`: the Laplace posterior of a trained network.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use riemannian_laplace::Error;
use riemannian_laplace::Family;
use riemannian_laplace::internals::evaluate::TrainingFit;
use riemannian_laplace::internals::evidence::{AtBound, Free, PriorStructure};
use riemannian_laplace::{Contents, FitOptions, Laplace, Model, PriorValues};
use riemannian_laplace::{EvidenceOptimum, EvidenceOptions};
use serde::Serialize;

use super::arguments::{self, LikelihoodName};
use super::console::Console;
use super::data::DataArgs;
use super::failure::Failure;
use super::model::ModelArgs;
use super::output::{OneOrMany, OutputFile, Summary, counted, print, print_json, short, short_list};
use super::posterior_form::FormArgs;
use super::scaling::ScalingArgs;
use super::training_fit::{self, TrainingFitReport};

/// Fit the Laplace posterior of a trained network over all its weights, or some of them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct FitArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    scaling: ScalingArgs,
    /// The distribution of the targets
    #[arg(long, value_enum)]
    likelihood: LikelihoodName,
    /// The prior precision: one value, or one per layer, separated by commas [default: 1]
    #[arg(long, value_name = "A", value_delimiter = ',', value_parser = arguments::positive, allow_negative_numbers = true)]
    prior_precision: Vec<f64>,
    /// The noise of a gaussian likelihood, a standard deviation: one value, or one per output [default: 1]
    #[arg(long, value_name = "S", value_delimiter = ',', value_parser = arguments::positive, allow_negative_numbers = true)]
    sigma: Vec<f64>,
    /// Tune prior precision and sigma by the marginal likelihood; a value given above is held fixed
    #[arg(long)]
    optimize: bool,
    /// What --optimize tunes: one prior precision, or one per layer [default: scalar]
    #[arg(long, value_enum, requires = "optimize", conflicts_with = "prior_precision")]
    prior: Option<PriorName>,
    #[command(flatten)]
    form: FormArgs,
    /// Keep the training data out of the file (which then holds a D × D matrix instead)
    #[arg(long)]
    without_data: bool,
    /// Where to write the posterior (one self-contained safetensors file)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print the outcome as one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLE: &str = "\
Example, with prior precision and noise tuned to the data:
  rla fit --model model.safetensors --data train.csv --target y \\
      --likelihood gaussian --optimize --out posterior.safetensors

Example, a network exported by PyTorch, compared with the outputs that PyTorch gave:
  rla fit --model net.onnx --check outputs.csv --data train.csv --target y \\
      --likelihood gaussian --optimize --out posterior.safetensors

Example, a PyTorch state dict with a known prior precision, and the outcome as JSON:
  rla fit --model mlp.safetensors --layers fc1:tanh,fc2:relu,out --data train.csv \\
      --target label --likelihood categorical --prior-precision 0.5 \\
      --out posterior.safetensors --json

Example, a network too large for the exact posterior: only its last layer is
uncertain, or all of it with a Kronecker-factored precision:
  rla fit --model mnist.safetensors --data digits.csv --target label \
      --likelihood categorical --weights last-layer --optimize --out last.safetensors
  rla fit --model mnist.safetensors --data digits.csv --target label \
      --likelihood categorical --structure kron --optimize --out kron.safetensors";

/// The prior precisions that are tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PriorName {
    /// One for all weights
    Scalar,
    /// One per layer
    Layer,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    n_params: usize,
    n_data: usize,
    n_outputs: usize,
    log_likelihood: f64,
    log_marginal_likelihood: f64,
    prior_precision: OneOrMany,
    sigma: Option<OneOrMany>,
    log_det_ratio: f64,
    effective_parameters: f64,
    solver: &'static str,
    structure: &'static str,
    seconds: f64,
    #[serde(flatten)]
    fit: TrainingFitReport,
    #[serde(flatten)]
    tuning: Option<TuningReport>,
}

#[derive(Debug, Serialize)]
struct TuningReport {
    converged: bool,
    at_bound: Vec<BoundReport>,
}

#[derive(Debug, Serialize)]
struct BoundReport {
    parameter: &'static str,
    index: usize,
    value: f64,
}

/// Runs the command.
pub fn run(args: &FitArgs, console: &Console) -> Result<(), Failure> {
    let structure = args.form.structure(args.without_data)?;
    let family = family(args)?;
    let mut inputs = vec![args.model.path.as_path(), args.data.data.as_path()];
    inputs.extend(args.scaling.scaling.as_deref().into_iter().chain(args.model.check.as_deref()));
    inputs.extend(args.form.file());
    let out = OutputFile::at(&args.out, &inputs)?;
    let weights = args.form.weights()?;
    let model = args.model.read(&family, console)?;
    let architecture = model.network.architecture();
    family
        .likelihood()
        .check_outputs(architecture.n_outputs())
        .map_err(Error::Outputs)
        .map_err(Failure::about(&args.model.path))?;
    let data = args.scaling.read(&args.data, &args.model.path, args.likelihood, console)?;
    data.check_against(&model.network, family.likelihood())?;
    args.model.check(&model, &data.dataset, console)?;
    let schema = data.dataset.schema();
    let family = match family.sigma() {
        Some(sigma) if !args.sigma.is_empty() => Family::gaussian_per_output(&schema.scale_deviations(sigma))?,
        _ => family,
    };
    if family.sigma().is_some() && args.sigma.is_empty() && !args.optimize {
        let units = if schema.scaling().is_some_and(|scaling| scaling.targets.is_some()) {
            " in units of the standardised target"
        } else {
            ""
        };
        console.note(format!("sigma is 1{units}: neither --sigma nor --optimize was given"));
    }

    let began = Instant::now();
    let progress = console.spinner("fitting the posterior");
    let prior_precision = match args.prior_precision.as_slice() {
        [] => PriorValues::default(),
        values => values.to_vec().into(),
    };
    let options = FitOptions { prior_precision, structure, ..Default::default() };
    let whole: Arc<dyn Model> = Arc::new(model.network);
    let rule =
        FitOptions { prior_precision: PriorValues::Shared(first_prior(&args.prior_precision)), ..options.clone() };
    let model =
        weights.restrict_with(&whole, &data.dataset, &family, &rule).map_err(Failure::about(&args.model.path))?;
    check_prior(args, &*model)?;
    let mut laplace = Laplace::fit_shared(model, data.dataset, family, &options)?;
    drop(progress);
    let tuning = if args.optimize { tune(args, &mut laplace, console)? } else { Tuning::Off };
    let fit = TrainingFit::of(&laplace)?;
    let seconds = began.elapsed().as_secs_f64();
    training_fit::warn(&fit, console);

    let contents = if args.without_data { Contents::Curvature } else { Contents::TrainingData };
    laplace.save(out.path(), contents)?;
    if args.json {
        return print_json(&report(&laplace, &fit, &tuning, seconds));
    }
    if console.is_quiet() {
        return Ok(());
    }
    print(&summary(args, &laplace, &fit, &tuning, seconds).to_text())
}

/// The prior precision by which a sub-network is chosen.
fn first_prior(values: &[f64]) -> f64 {
    values.first().copied().unwrap_or(1.0)
}

/// Checks that there is one prior precision, or one for each layer that has uncertain weights.
fn check_prior(args: &FitArgs, model: &dyn Model) -> Result<(), Failure> {
    let (values, layers) = (args.prior_precision.len(), model.groups().len());
    if values <= 1 || values == layers {
        return Ok(());
    }
    let uncertain = if model.subset().is_some() { "uncertain " } else { "" };
    Err(Failure::Usage(format!(
        "--prior-precision has {values} values; give one, or one for each of the {layers} {uncertain}layers of {}",
        args.model.path.display(),
    )))
}

fn family(args: &FitArgs) -> Result<Family, Failure> {
    if args.likelihood != LikelihoodName::Gaussian && !args.sigma.is_empty() {
        let name = args.likelihood.family(&[])?.likelihood().name();
        return Err(Failure::Usage(format!(
            "--sigma belongs to --likelihood gaussian; a {name} likelihood has no sigma"
        )));
    }
    args.likelihood.family(if args.sigma.is_empty() { &[1.0] } else { &args.sigma })
}

/// The outcome of --optimize.
enum Tuning {
    /// It was not requested.
    Off,
    /// There was nothing to tune: every value was given.
    NothingFree,
    /// The optimum.
    Done(EvidenceOptimum),
}

fn tune(args: &FitArgs, laplace: &mut Laplace, console: &Console) -> Result<Tuning, Failure> {
    let held = |given: bool| if given { Free::Held } else { Free::Tuned };
    let options = EvidenceOptions {
        prior: held(!args.prior_precision.is_empty()),
        prior_structure: match args.prior {
            Some(PriorName::Layer) => PriorStructure::PerLayer,
            _ => PriorStructure::Scalar,
        },
        sigma: held(!args.sigma.is_empty()),
        ..Default::default()
    };
    let sigma_is_free = options.sigma == Free::Tuned && laplace.family().sigma().is_some();
    if options.prior == Free::Held && !sigma_is_free {
        console.note("--optimize has nothing to tune: every value was given");
        return Ok(Tuning::NothingFree);
    }
    let progress = console.spinner("tuning prior precision and sigma");
    let optimum = laplace.optimize(&options)?;
    drop(progress);
    if !optimum.converged {
        console.warn(format!(
            "tuning did not converge in {} iterations: the derivative of the log marginal likelihood is still {:.1e}",
            optimum.iterations, optimum.gradient_norm
        ));
    }
    for bound in &optimum.at_bound {
        console.warn(bound);
    }
    Ok(Tuning::Done(optimum))
}

fn report(laplace: &Laplace, fit: &TrainingFit, tuning: &Tuning, seconds: f64) -> Report {
    let bound = |bound: &AtBound| BoundReport { parameter: bound.parameter, index: bound.index, value: bound.value };
    Report {
        n_params: laplace.model().n_params(),
        n_data: laplace.n_data(),
        n_outputs: laplace.model().n_outputs(),
        log_likelihood: laplace.log_likelihood(),
        log_marginal_likelihood: laplace.log_marginal_likelihood(),
        prior_precision: laplace.prior().values().into(),
        sigma: laplace.sigma().map(|sigma| OneOrMany::from(sigma.as_slice())),
        log_det_ratio: laplace.log_det_ratio(),
        effective_parameters: laplace.effective_parameters(),
        solver: laplace.structure().solver(),
        structure: laplace.structure().word(),
        seconds,
        fit: TrainingFitReport::from(fit),
        tuning: match tuning {
            Tuning::Off => None,
            Tuning::NothingFree => Some(TuningReport { converged: true, at_bound: Vec::new() }),
            Tuning::Done(optimum) => Some(TuningReport {
                converged: optimum.converged,
                at_bound: optimum.at_bound.iter().map(bound).collect(),
            }),
        },
    }
}

fn summary(args: &FitArgs, laplace: &Laplace, fit: &TrainingFit, tuning: &Tuning, seconds: f64) -> Summary {
    let model = laplace.model();
    let likelihood = laplace.family().likelihood().name();
    let origin = |given: bool| match (given, args.optimize) {
        (true, _) => "given",
        (false, true) => "tuned",
        (false, false) => "default",
    };
    let title =
        format!("posterior of {}, {likelihood} likelihood, written to {}", model.description(), args.out.display());
    let mut summary = Summary::new(title);
    let meaning = match model.subset() {
        None => "weights and biases, all uncertain".to_string(),
        Some(place) => format!("uncertain, of {}: {}", place.all.len(), place.name),
    };
    summary.row("parameters", model.n_params(), meaning);
    summary.row("data points", laplace.n_data(), format!("with {} each", counted(model.n_outputs(), "network output")));
    summary.row(
        "log likelihood",
        short(laplace.log_likelihood()),
        "nats, summed over the data, at the trained weights",
    );
    summary.row(
        "log marginal likelihood",
        short(laplace.log_marginal_likelihood()),
        "nats, the log evidence; greater is better",
    );
    summary.row("prior precision", short_list(laplace.prior().values()), origin(!args.prior_precision.is_empty()));
    if let Some(sigma) = laplace.sigma() {
        let meaning = format!("{}; noise, in units of the target", origin(!args.sigma.is_empty()));
        summary.row("sigma", short_list(&sigma), meaning);
    }
    let meaning = format!("of {}: directions that the data determine", model.n_params());
    summary.row("effective parameters", short(laplace.effective_parameters()), meaning);
    training_fit::add_rows(fit, &mut summary);
    summary.row("structure", laplace.structure().word(), "of the posterior precision");
    summary.row("solver", laplace.structure().solver(), laplace.precision().size_in_words());
    summary.row("time", format!("{seconds:.2} s"), "");
    match tuning {
        Tuning::Off => {}
        Tuning::NothingFree => summary.row("tuning", "none", "every value was given"),
        Tuning::Done(optimum) => {
            let outcome = match (optimum.converged, optimum.at_bound.is_empty()) {
                (false, _) => "not converged",
                (true, false) => "ran to a bound",
                (true, true) => "converged",
            };
            summary.row("tuning", outcome, counted(optimum.iterations, "iteration"));
        }
    }
    summary
}

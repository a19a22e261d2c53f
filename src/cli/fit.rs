//! `rla fit`: the Laplace posterior of a trained network.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use riemannian_laplace::Error;
use riemannian_laplace::EvidenceOptions;
use riemannian_laplace::Family;
use riemannian_laplace::internals::data::{CsvStream, for_classes_of};
use riemannian_laplace::internals::evaluate::TrainingFit;
use riemannian_laplace::internals::evidence::{Free, PriorStructure};
use riemannian_laplace::internals::files::Input;
use riemannian_laplace::internals::laplace::{ExpectedFit, FitPart, WillTune};
use riemannian_laplace::internals::likelihood::Known;
use riemannian_laplace::internals::network::Recipe;
use riemannian_laplace::internals::team::Shard;
use riemannian_laplace::{Contents, CurvatureKind, FitOptions, Laplace, Model, PriorValues, Schema, Structure};

use super::announce::announce_fit;
use super::arguments::{self, LikelihoodName};
use super::calibrate::CalibrateOnArgs;
use super::classes;
use super::columns::{EncodeArgs, KnownArgs};
use super::console::Console;
use super::data::{DataArgs, NewColumns};
use super::failure::Failure;
use super::fit_report::{Checks, Tuning, report, warn_of_condition};
use super::fit_score;
use super::follow::{Earlier, FromArgs, Origin};
use super::input_order;
use super::model::{ModelArgs, is_onnx};
use super::output::{OutputFile, Summary, counted, print, print_json, short, short_list};
use super::posterior;
use super::posterior_form::FormArgs;
use super::prior::{self, PriorArgs};
use super::scaling::{self, ScalingArgs};
use super::shard;
use super::source::{Reading, Source};
use super::stoppable::NothingKept;
use super::tempering::{self, TemperingArgs};
use super::training_fit;
use super::validation::{self, ValidationArgs};

/// Fit the Laplace posterior of a trained network over all its weights, or some of them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct FitArgs {
    #[command(flatten)]
    model: Option<ModelArgs>,
    #[command(flatten)]
    from: FromArgs,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    encode: EncodeArgs,
    #[command(flatten)]
    known: KnownArgs,
    /// The input columns in the order of the network's inputs, separated by commas, where the model file does not name
    /// them [default: the order of the file]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "from")]
    input_order: Vec<String>,
    #[command(flatten)]
    scaling: ScalingArgs,
    /// The distribution of the targets [default: the one the model file names]
    #[arg(long, value_enum)]
    likelihood: Option<LikelihoodName>,
    #[command(flatten)]
    prior: PriorArgs,
    /// The noise of a gaussian likelihood, a standard deviation: one value, or one per output [default: 1]
    #[arg(long, value_name = "S", value_delimiter = ',', value_parser = arguments::positive, allow_negative_numbers = true)]
    sigma: Vec<f64>,
    /// Tune prior precision and sigma by the marginal likelihood; a value given above is held fixed
    #[arg(long)]
    optimize: bool,
    #[command(flatten)]
    validation: ValidationArgs,
    #[command(flatten)]
    tempering: TemperingArgs,
    #[command(flatten)]
    calibration: CalibrateOnArgs,
    /// What the data's share of the posterior precision is made of: the generalised Gauss-Newton matrix, the squared
    /// scores of the targets, or the exact Hessian
    #[arg(long, value_name = "KIND", default_value = "ggn", value_parser = curvature())]
    curvature: CurvatureKind,
    #[command(flatten)]
    form: FormArgs,
    /// Keep the training data out of the file (which then holds a D × D matrix instead)
    #[arg(long)]
    without_data: bool,
    /// Sum over part I of N of the data alone, to be joined with the others by `rla merge`; every part is given the same
    /// options and all of the data
    #[arg(long, value_name = "I/N", conflicts_with_all = ["from", "optimize_on", "check"])]
    shard: Option<Shard>,
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

Example, a network of `rla train`, whose file says the target, the likelihood and how the table is read:
  rla fit --model model.safetensors --data train.csv --optimize --out posterior.safetensors

Example, a network from elsewhere, with the order of its inputs and of its classes:
  rla fit --model net.onnx --data train.csv --target kind --likelihood categorical \\
      --input-order width,length --class-names setosa,virginica,versicolor --out posterior.safetensors

Example, tuned on held-out data instead:
  rla fit --model model.safetensors --data train.csv --target y \\
      --likelihood gaussian --optimize-on validation.csv --out posterior.safetensors

Example, with intervals that hold what they promise, from rows that were kept apart:
  rla fit --model model.safetensors --data train.csv --optimize --calibrate-on held_out.csv --out posterior.safetensors

Example, classes: the prior tuned by evidence, then the temperature on held-out data \
(predict and evaluate with --link centred-probit):
  rla fit --model model.safetensors --data train.csv --target label --structure kron \\
      --likelihood categorical --optimize --temperature-on validation.csv --out posterior.safetensors

Example, more data for a posterior, and a second task whose prior it is:
  rla fit --from posterior.safetensors --data more.csv --target y --out more.safetensors
  rla fit --from posterior.safetensors --model second.safetensors --data second.csv \\
      --target y --out second_posterior.safetensors

Example, a network exported by PyTorch, compared with the outputs that PyTorch gave:
  rla fit --model net.onnx --check outputs.csv --data train.csv --target y \\
      --likelihood gaussian --optimize --out posterior.safetensors

Example, a PyTorch state dict with a known prior precision, and the outcome as JSON:
  rla fit --model mlp.safetensors --layers fc1:tanh,fc2:relu,out --data train.csv \\
      --target label --likelihood categorical --prior-precision 0.5 \\
      --out posterior.safetensors --json

Example, a network too large for the exact posterior: only its last layer is \
uncertain, or all of it with a Kronecker-factored precision:
  rla fit --model mnist.safetensors --data digits.csv --target label \\
      --likelihood categorical --weights last-layer --optimize --out last.safetensors
  rla fit --model mnist.safetensors --data digits.csv --target label \\
      --likelihood categorical --structure kron --optimize --out kron.safetensors

Example, the same network with the exact posterior of all weights, without a matrix:
slower, and evidence and variances have a stated standard error:
  rla fit --model mnist.safetensors --data digits.csv --target label \\
      --likelihood categorical --structure matrix-free --optimize --out free.safetensors";

/// Runs the command.
pub fn run(args: &FitArgs, console: &Console) -> Result<(), Failure> {
    let began = Instant::now();
    let watch = NothingKept::watch(console, "interrupted: nothing is kept; no posterior was written");
    if let Some(shard) = args.shard {
        return fit_shard(args, shard, console);
    }
    let Fitted { mut laplace, origin, out, streamed } = match &args.from.from {
        Some(path) => go_on(args, path, console)?,
        None => fit(args, console)?,
    };
    let free = [args.prior.tuned().0, if args.sigma.is_empty() { Free::Tuned } else { Free::Held }];
    let tuning = match args.validation.tune(&args.data, free, &mut laplace, console)? {
        Some(optimum) => Tuning::OnHeldOut(optimum),
        None if args.optimize => tune(args, &mut laplace, console)?,
        None => Tuning::Off,
    };
    let tempering = args.tempering.temper(&args.data, &mut laplace, console)?;
    // Without the data, or with a prior whose data are gone, there is nothing to look at.
    let fit = match origin {
        Origin::New => Some(match &streamed {
            Some(rows) => TrainingFit::over(&laplace, rows)?,
            None => TrainingFit::of(&laplace)?,
        }),
        Origin::MoreData { .. } | Origin::NextTask { .. } => TrainingFit::of(&laplace).ok(),
    };
    if let Some(fit) = &fit {
        training_fit::warn(fit, &laplace, console);
    }
    if let (Origin::New, Some(model)) = (origin, &args.model) {
        classes::hint_at_order(&laplace, console)?;
        if args.input_order.is_empty() && scaling::recorded(&model.path)?.0.is_none() {
            input_order::hint(&laplace, args.scaling.goes(), console)?;
        }
    }

    check_finite(&laplace)?;
    laplace.settle()?;
    if !console.team().is_first() {
        return Ok(());
    }
    let contents = if args.without_data { Contents::Curvature } else { Contents::TrainingData };
    if let (Contents::TrainingData, Some(rows)) = (contents, &streamed) {
        laplace.keep_data(rows.read_all()?)?;
    }
    args.calibration.calibrate(&args.data, &mut laplace, console)?;
    // A file that is being written is left to be whole or not at all, as ever.
    drop(watch);
    laplace.save(out.path(), contents)?;
    posterior::warn_of_residual(&laplace, console);
    let scores = fit_score::closed_forms(&laplace, console);
    if let Some(scores) = &scores {
        fit_score::warn(scores, console);
    }
    let condition = laplace.condition();
    warn_of_condition(&laplace, condition, console);
    let checks = Checks { fit, scores, tempering, condition };
    let seconds = began.elapsed().as_secs_f64();
    if args.json {
        return print_json(&report(&laplace, origin, &checks, &tuning, seconds));
    }
    if console.is_quiet() {
        return Ok(());
    }
    print(&summary(args, (&laplace, origin), &checks, &tuning, seconds).to_text())
}

/// Refuses a posterior whose figures left the range of f64: nothing that follows from it would mean anything.
fn check_finite(laplace: &Laplace) -> Result<(), Error> {
    let advice = "check sigma, the prior precision, and the scale of weights, inputs and targets";
    let figures = [
        ("the log likelihood", laplace.log_likelihood()),
        ("the log determinant of the posterior", laplace.log_det_ratio()),
        ("the number of effective parameters", laplace.effective_parameters()),
        ("the log marginal likelihood", laplace.log_marginal_likelihood()),
    ];
    match figures.into_iter().find(|(_, value)| !value.is_finite()) {
        Some((what, value)) => Err(Error::Overflow { what, value, advice }),
        None => Ok(()),
    }
}

/// A posterior, where it comes from and where it goes.
struct Fitted {
    laplace: Laplace,
    origin: Origin,
    out: OutputFile,
    /// The data, where they were read in batches.
    streamed: Option<CsvStream>,
}

/// A network, its data and what is to be fitted.
struct Prepared {
    /// The model, with the weights that are uncertain.
    part: Arc<dyn Model>,
    data: Source,
    family: Family,
    options: FitOptions,
    /// How the network was trained, where its file says so.
    recipe: Option<Recipe>,
    out: OutputFile,
}

/// Reads a network and its data.
fn prepare(args: &FitArgs, console: &Console) -> Result<Prepared, Failure> {
    let Some(model) = &args.model else {
        return Err(Failure::Usage("--model is needed without --from".to_string()));
    };
    let likelihood = likelihood(args, &model.path)?;
    let structure = args.form.structure(args.without_data)?;
    let family = family(args, likelihood)?;
    let mut inputs = vec![model.path.as_path(), args.data.data.as_path()];
    inputs.extend(args.scaling.scaling.as_deref().into_iter().chain(model.check.as_deref()));
    inputs.extend(args.form.file());
    inputs.extend(args.validation.path().into_iter().chain(args.tempering.path()));
    inputs.extend(args.prior.files().chain(args.calibration.path()));
    let out = OutputFile::at(&args.out, &inputs)?;
    let weights = args.form.weights()?;
    let file = model.read(&family, console)?;
    let network = &file.network;
    let architecture = network.architecture();
    family
        .likelihood()
        .check_outputs(architecture.n_outputs())
        .map_err(Error::Outputs)
        .map_err(Failure::about(&model.path))?;
    let n_classes =
        Some(family.likelihood().n_classes(architecture.n_outputs())).filter(|_| outputs_are_classes(&family));
    let new =
        NewColumns { encode: &args.encode, known: &args.known, input_order: &args.input_order, likelihood, n_classes };
    let data = args.scaling.read(&args.data, &model.path, new, reading(args, console), console)?;
    let family = with_known(args, family, data.schema())?;
    let family = for_classes_of(&family, data.batches(), 0).map_err(|error| data.locate(error))?;
    data.check_against(network, &family)?;
    if let Some(dataset) = data.dataset() {
        model.check(&file, dataset, console)?;
    }
    let schema = data.schema();
    let recipe = if is_onnx(&model.path) { None } else { Recipe::read(&model.path)? };
    // What training found is the default, unless it is to be found anew.
    let trained = recipe.as_ref().filter(|_| !is_tuned(args));
    let family = match (family.sigma(), trained.and_then(|recipe| recipe.sigma.as_ref())) {
        (Some(sigma), _) if !args.sigma.is_empty() => family.with_sigma(&schema.scale_deviations(sigma))?,
        (Some(_), Some(sigma)) => family.with_sigma(sigma)?,
        _ => family,
    };
    let found = trained.and_then(|recipe| recipe.dispersions.as_ref()).filter(|_| args.sigma.is_empty());
    let family = match found {
        Some(values) => family.with_dispersions(values)?,
        None => family,
    };
    let sigma_is_known = trained.is_some_and(|recipe| recipe.sigma.is_some());
    if family.sigma().is_some() && args.sigma.is_empty() && !is_tuned(args) && !sigma_is_known {
        let units = if schema.scaling().is_some_and(|scaling| scaling.targets.is_some()) {
            " in units of the standardised target"
        } else {
            ""
        };
        console.note(format!("sigma is 1{units}: none of --sigma, --optimize and --optimize-on was given"));
    }

    let defaults = family.likelihood().dispersions();
    if !defaults.is_empty() && !is_tuned(args) && found.is_none() && args.sigma.is_empty() {
        let values: Vec<String> = defaults.iter().map(|p| format!("{} {}", p.name, short(p.value))).collect();
        console.note(format!("{}: defaults, since neither --optimize nor --optimize-on was given", values.join(", ")));
    }

    let _progress = console.spinner("choosing the weights");
    let rule = FitOptions { prior_precision: PriorValues::Shared(args.prior.first()), structure, ..Default::default() };
    let whole: Arc<dyn Model> = Arc::new(network.clone());
    let part = weights.restrict_with(&whole, data.batches(), &family, &rule).map_err(Failure::about(&model.path))?;
    let prior = trained.and_then(|recipe| recipe.prior_precision.as_deref());
    let options = FitOptions {
        prior_precision: args.prior.precision(network, &*part, (&model.path, prior))?,
        prior_mean: args.prior.mean(network, &*part)?,
        temperature: args.prior.temperature,
        curvature: args.curvature,
        structure,
    };
    Ok(Prepared { part, data, family, options, recipe, out })
}

/// Fits a network to its data.
fn fit(args: &FitArgs, console: &Console) -> Result<Fitted, Failure> {
    let Prepared { part, data, family, options, recipe, out } = prepare(args, console)?;
    let tuning = if is_tuned(args) { WillTune::Yes } else { WillTune::No };
    announce_fit(console, &ExpectedFit::of(part.clone(), data.batches(), &family, &options, tuning)?);
    let progress = console.bar("fitting the posterior, rows", data.batches().n_rows());
    let start = |options: &FitOptions| data.fit(part.clone(), family.clone(), options, &progress);
    let mut laplace = match start(&options) {
        // Tuning needs a place to start from, and finds its own way from there.
        Err(Error::IndefiniteHessian { least, shared: Some(prior) })
            if args.optimize && !args.prior.precision_is_given() =>
        {
            start(&FitOptions { prior_precision: (2.0 * (prior - least)).into(), ..options })?
        }
        laplace => laplace?,
    };
    laplace.set_recipe(recipe);
    Ok(Fitted { laplace, origin: Origin::New, out, streamed: data.streamed() })
}

/// Sums over a part of the data.
fn fit_shard(args: &FitArgs, shard: Shard, console: &Console) -> Result<(), Failure> {
    let Prepared { part, data, family, options, out, .. } = prepare(args, console)?;
    let progress = console.spinner("summing over a part of the data");
    let mut sums = FitPart::fit(part, data.batches(), family, &options, shard)?;
    if !args.without_data {
        sums.keep_data(data.batches())?;
    }
    drop(progress);
    if args.optimize {
        shard::note_tuning(&mut sums, tuned(args))?;
    }
    shard::note_data(&mut sums, &args.data.data)?;
    sums.save(out.path())?;
    let (rows, path) = (sums.rows(), out.path().display());
    console.note(format!(
        "part {shard}, rows {} to {}, written to {path}; join all with `rla merge`",
        rows.start + 1,
        rows.end
    ));
    Ok(())
}

/// How the data are read: in batches where the posterior does not keep them, or where several processes share them. To
/// compare outputs, all of them are needed; and a pipe can be read only once.
fn reading(args: &FitArgs, console: &Console) -> Reading {
    let compared = args.model.as_ref().is_some_and(|model| model.check.is_some());
    let batches = args.without_data || args.shard.is_some() || console.team().size() > 1;
    if batches && !compared && args.data.data.is_file() { Reading::Streamed } else { Reading::Whole }
}

/// Goes on from a posterior.
fn go_on(args: &FitArgs, from: &Path, console: &Console) -> Result<Fitted, Failure> {
    let structure = Some(args.form.structure(false)?).filter(|structure| *structure != Structure::Auto);
    let mut inputs = vec![from, args.data.data.as_path()];
    inputs.extend(args.model.iter().map(|model| model.path.as_path()));
    let out = OutputFile::at(&args.out, &inputs)?;
    let earlier = Earlier::read(from, args.likelihood)?;
    if earlier.laplace().calibration().is_some() && args.calibration.path().is_none() {
        console.note(format!(
            "the calibration of {} is of the posterior as it was, and is dropped: calibrate again, or name rows with --calibrate-on",
            from.display()
        ));
    }
    let family = earlier.laplace().family().clone();
    let network = args.model.as_ref().map(|model| model.read(&family, console)).transpose()?.map(|file| file.network);
    let data = args.data.read_for(earlier.laplace().schema(), console)?;
    data.check_against(&**earlier.laplace().model(), &family)?;
    let (laplace, origin) = earlier.go_on(network, data, &args.sigma, structure, console)?;
    Ok(Fitted { laplace, origin, out, streamed: None })
}

/// The kinds of curvature by name.
fn curvature() -> impl TypedValueParser<Value = CurvatureKind> {
    PossibleValuesParser::new(CurvatureKind::ALL.map(CurvatureKind::name))
        .map(|name| CurvatureKind::of_name(&name).unwrap_or_default())
}

/// The likelihood that was named, or that the model file was trained with.
fn likelihood(args: &FitArgs, model: &Path) -> Result<LikelihoodName, Failure> {
    if let Some(likelihood) = args.likelihood {
        return Ok(likelihood);
    }
    // A file that is not there says nothing either.
    drop(Input::open(model)?);
    let (schema, _) = scaling::recorded(model)?;
    let name = schema.as_ref().and_then(Schema::likelihood);
    name.and_then(|name| LikelihoodName::from_str(name, false).ok()).ok_or_else(|| {
        Failure::Usage(format!("--likelihood is needed: {} does not say what it was trained with", model.display()))
    })
}

fn family(args: &FitArgs, likelihood: LikelihoodName) -> Result<Family, Failure> {
    let family = likelihood.family();
    if family.sigma().is_none() && !args.sigma.is_empty() {
        let name = likelihood.name();
        return Err(Failure::Usage(format!(
            "--sigma belongs to --likelihood gaussian; a {name} likelihood has no sigma"
        )));
    }
    Ok(family.with_sigma(if args.sigma.is_empty() { &[1.0] } else { &args.sigma })?)
}

/// Whether a network has an output for each class.
fn outputs_are_classes(family: &Family) -> bool {
    family.has_classes() && family.likelihood().for_classes(&[1.0, 1.0]).is_none()
}

/// The same for rows of which more is known. To noise that is known nothing is added unless it is asked for.
fn with_known(args: &FitArgs, family: Family, schema: &Schema) -> Result<Family, Failure> {
    let known = family.with_known(&schema.known_kinds())?;
    match args.sigma[..] {
        _ if !known.known().contains(&Known::Noise) => Ok(known),
        [] => Ok(known.with_dispersions(&[0.0])?),
        [sigma] => Ok(known.with_dispersions(&schema.scale_deviations(&[sigma]))?),
        _ => Err(Failure::Usage("with --noise-column there is one --sigma, which is added to all".to_string())),
    }
}

/// Whether what was not given is tuned.
fn is_tuned(args: &FitArgs) -> bool {
    args.optimize || args.validation.path().is_some()
}

/// What --optimize tunes: the prior precision, in which structure, and sigma.
fn tuned(args: &FitArgs) -> (Free, PriorStructure, Free) {
    let (prior, prior_structure) = args.prior.tuned();
    (prior, prior_structure, if args.sigma.is_empty() { Free::Tuned } else { Free::Held })
}

fn tune(args: &FitArgs, laplace: &mut Laplace, console: &Console) -> Result<Tuning, Failure> {
    let (prior, prior_structure, sigma) = tuned(args);
    let options = EvidenceOptions { prior, prior_structure, sigma, ..EvidenceOptions::for_posterior(laplace) };
    let has_noise = laplace.family().sigma().is_some() || !laplace.dispersions().is_empty();
    let sigma_is_free = options.sigma == Free::Tuned && has_noise;
    if (options.prior == Free::Held || laplace.prior().is_earlier_posterior()) && !sigma_is_free {
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
    prior::warn_of_bounds(&optimum.at_bound, laplace, console);
    Ok(Tuning::Done(optimum))
}

fn summary(
    args: &FitArgs,
    (laplace, origin): (&Laplace, Origin),
    checks: &Checks,
    tuning: &Tuning,
    seconds: f64,
) -> Summary {
    let model = laplace.model();
    let likelihood = laplace.family().likelihood().name();
    let source = |given: bool| match (given, is_tuned(args), origin) {
        (true, ..) => "given",
        (false, true, _) => "tuned",
        (false, false, Origin::New) if laplace.recipe().is_some_and(|recipe| recipe.prior_precision.is_some()) => {
            "of the training"
        }
        (false, false, Origin::New) => "default",
        (false, false, Origin::MoreData { .. } | Origin::NextTask { .. }) => "as before",
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
    classes::add_row(laplace.schema(), laplace.family(), model.n_outputs(), &mut summary);
    summary.row(
        "log likelihood",
        short(laplace.log_likelihood()),
        "nats, summed over the data, at the trained weights",
    );
    let error = laplace.log_marginal_likelihood_error();
    summary.row(
        "log marginal likelihood",
        short(laplace.log_marginal_likelihood()),
        match error {
            None => "nats, the log evidence; greater is better".to_string(),
            Some(error) => format!("± {} nats, the log evidence; greater is better", short(error)),
        },
    );
    if let Some(condition) = checks.condition {
        let digits = format!(
            "of the posterior precision; {:.0} digits of the evidence hold",
            laplace.evidence_digits(condition)
        );
        summary.row("condition", format!("{condition:.1e}"), digits);
    }
    origin.summarize(args.from.from.as_deref(), &mut summary);
    if !laplace.prior().is_earlier_posterior() {
        let precision = prior::precision_in_words(laplace.prior());
        summary.row("prior precision", precision, source(args.prior.precision_is_given()));
    }
    args.prior.summarize(laplace, &mut summary);
    if let Some(sigma) = laplace.sigma() {
        let meaning = format!("{}; noise, in units of the target", source(!args.sigma.is_empty()));
        summary.row("sigma", short_list(&sigma), meaning);
    }
    for (name, value) in laplace.dispersions() {
        summary.row("dispersion", format!("{name} {}", short(value)), format!("of the likelihood, {}", source(false)));
    }
    let meaning = format!("of {}: directions that the data determine", model.n_params());
    summary.row("effective parameters", short(laplace.effective_parameters()), meaning);
    if let Some(fit) = &checks.fit {
        training_fit::add_rows(fit, &mut summary);
    }
    if let Some(scores) = &checks.scores {
        fit_score::add_rows(scores, &mut summary);
    }
    if laplace.curvature_kind() != CurvatureKind::default() {
        summary.row("curvature", laplace.curvature_kind(), "what the posterior precision is made of besides the prior");
    }
    summary.row("structure", laplace.structure().in_words(), "of the posterior precision");
    summary.row("solver", laplace.structure().solver(), laplace.precision().size_in_words());
    summary.row("time", format!("{seconds:.2} s"), "");
    if let Some(optimum) = &checks.tempering {
        tempering::summarize(optimum, &mut summary);
    }
    match tuning {
        Tuning::Off => {}
        Tuning::NothingFree => summary.row("tuning", "none", "every value was given"),
        Tuning::OnHeldOut(optimum) => validation::summarize(optimum, &mut summary),
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

//! `rla train`: a small network from a CSV file.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use riemannian_laplace::internals::data::Standardization;
use riemannian_laplace::internals::evaluate::Committee;
use riemannian_laplace::internals::memory;
use riemannian_laplace::internals::network::{Decay, NUMBERS_PER_WEIGHT};
use riemannian_laplace::{Activation, Architecture, Network, TrainingOptions, train};
use serde::Serialize;

use super::arguments::{self, LikelihoodName};
use super::classes::{self, ClassNames};
use super::columns::EncodeArgs;
use super::committee::{self, CommitteeFolder};
use super::console::Console;
use super::data::{DataArgs, DataFile, NewColumns};
use super::failure::Failure;
use super::online::{self, EvidenceArgs, EvidenceReport};
use super::output::{OutputFile, Summary, print, print_json, short};
use super::prior_path::{self, CrossValidateArgs, CrossValidateReport};
use super::scaling::StandardizeArgs;

/// Train a network: Adam on the mean squared error or the mean negative log likelihood
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
#[command(mut_arg("target", |arg| arg.required(true).help("The target columns, separated by commas; every other column is an input")))]
#[command(mut_arg("strict", |arg| arg.hide(true)))]
pub struct TrainArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    encode: EncodeArgs,
    /// The distribution of the targets
    #[arg(long, value_enum)]
    likelihood: LikelihoodName,
    #[command(flatten)]
    standardize: StandardizeArgs,
    /// Widths of the hidden layers, e.g. 10 or 10,10; without this option there are none (linear or logistic
    /// regression)
    #[arg(long, value_name = "WIDTHS", value_delimiter = ',', value_parser = arguments::count)]
    hidden: Vec<usize>,
    /// The activation after every hidden layer [default: tanh]
    #[arg(long, value_name = "NAME", value_parser = arguments::activation())]
    activation: Option<Activation>,
    /// Classes of a categorical likelihood, where labels are 0, 1, …, C−1 and not all occur [default: as many as there are
    /// different labels]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(2..))]
    classes: Option<u32>,
    /// Passes over the data
    #[arg(long, value_name = "N", default_value = "20000", value_parser = arguments::count)]
    epochs: usize,
    /// The learning rate of Adam
    #[arg(long, value_name = "RATE", default_value = "1e-2", value_parser = arguments::positive, allow_negative_numbers = true)]
    lr: f64,
    /// The weight decay λ
    #[arg(long, value_name = "λ", default_value = "1e-5", value_parser = arguments::non_negative, allow_negative_numbers = true)]
    weight_decay: f64,
    /// How the weight decay acts
    #[arg(long, value_enum, default_value_t = DecayName::L2)]
    decay: DecayName,
    /// Data points per step [default: all]
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    batch_size: Option<usize>,
    #[command(flatten)]
    evidence: EvidenceArgs,
    #[command(flatten)]
    cross_validate: CrossValidateArgs,
    /// The seed of the initial weights and of the order of the batches
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to write the network (safetensors, f64, named as a PyTorch nn.Sequential); with --committee a folder
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print the outcome as one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLE: &str = "\
Example, a regression with one hidden layer of 10 units:
  rla train --data train.csv --target y --likelihood gaussian \\
      --hidden 10 --activation tanh --out model.safetensors

Example, columns in their own units, an identifier among them, and rows with gaps:
  rla train --data train.csv --target price --likelihood gaussian --standardize \\
      --ignore id --drop-missing --hidden 10 --out model.safetensors

Example, gaps filled in, and a column of codes as categories (columns of words need not be named):
  rla train --data train.csv.gz --target price --likelihood gaussian --standardize \\
      --impute indicator --categorical zone --hidden 10 --out model.safetensors

Example, classes, two hidden layers, mini-batches of 32:
  rla train --data train.csv --target label --likelihood categorical \\
      --hidden 16,16 --batch-size 32 --epochs 2000 --out model.safetensors

Example, prior precision and noise tuned by the marginal likelihood while the network learns:
  rla train --data train.csv --target y --likelihood gaussian --hidden 20 \\
      --epochs 3000 --evidence --out model.safetensors

Example, a small network at a mode of its posterior, under the prior that predicts held-out rows best:
  rla train --data train.csv --target y --likelihood gaussian --standardize --hidden 50 \\
      --cross-validate --out model.safetensors

Example, all networks of the cross-validation as a committee, which predicts better than any of them:
  rla train --data train.csv --target y --likelihood gaussian --standardize --hidden 50 \\
      --cross-validate --folds 5 --committee --out committee
  rla predict --posterior committee --inputs new.csv --out predictions.csv";

/// How the weights are kept small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DecayName {
    /// ½λ‖θ‖² in the loss: PyTorch's Adam
    L2,
    /// θ ← (1 − lr·λ)θ in addition to the step: AdamW
    Decoupled,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    n_params: usize,
    n_data: usize,
    n_inputs: usize,
    n_outputs: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<ClassNames>,
    activation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    epochs: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    seconds: f64,
    #[serde(flatten)]
    evidence: Option<EvidenceReport>,
    #[serde(flatten)]
    cross_validated: Option<CrossValidateReport>,
}

/// Runs the command.
pub fn run(args: &TrainArgs, console: &Console) -> Result<(), Failure> {
    let out = match args.cross_validate.wants_committee() {
        true => Destination::Committee(CommitteeFolder::at(&args.out)?),
        false => Destination::Network(OutputFile::at(&args.out, &[&args.data.data])?),
    };
    let family = args.likelihood.family(&[1.0])?;
    let new = NewColumns {
        encode: &args.encode,
        input_order: &[],
        likelihood: args.likelihood,
        n_classes: args.classes.map(|classes| classes as usize),
    };
    let mut data = args.data.read(new, console)?;
    let n_outputs = count_outputs(args, &data)?;
    data.check_targets(family.likelihood(), n_outputs)?;
    if let Some(which) = args.standardize.which(args.likelihood) {
        data.dataset = data.dataset.standardized(which).map_err(Failure::about(&args.data.data))?;
    }
    let architecture = architecture(args, data.dataset.inputs().ncols(), n_outputs)?;
    let start = Network::random(architecture, args.seed);
    let options = TrainingOptions {
        epochs: args.epochs,
        learning_rate: args.lr,
        weight_decay: args.weight_decay,
        decay: match args.decay {
            DecayName::L2 => Decay::L2,
            DecayName::Decoupled => Decay::Decoupled,
        },
        batch_size: args.batch_size,
        seed: args.seed,
    };
    let began = Instant::now();
    let progress = console.bar("training", args.cross_validate.most_priors().unwrap_or(args.epochs));
    let out = match out {
        Destination::Network(file) => file,
        Destination::Committee(folder) => {
            let committee =
                args.cross_validate.train_committee(&start, &data.dataset, &family, args.seed, &progress)?;
            drop(progress);
            folder.write(&committee)?;
            return tell_committee(
                args,
                console,
                &folder,
                &committee,
                (start.architecture(), began.elapsed().as_secs_f64()),
            );
        }
    };
    let path = args.cross_validate.train(&start, &data.dataset, &family, args.seed, &progress)?;
    let evidence = args.evidence.train(&start, &data.dataset, &family, &options, &progress)?;
    let (network, mean_loss) = match (&path, &evidence) {
        (Some(path), _) => (path.mode.network.clone(), None),
        (None, Some(online)) => (online.network.clone(), Some(online.loss)),
        (None, None) => {
            let trained = train(&start, &data.dataset, &family, &options, &progress)?;
            (trained.network, Some(trained.loss))
        }
    };
    drop(progress);
    let seconds = began.elapsed().as_secs_f64();
    let schema = data.dataset.schema().clone().with_likelihood(Some(family.likelihood().name()));
    network.save_with_schema(out.path(), &schema)?;
    let architecture = network.architecture();
    let loss = mean_loss.map(|value| loss(args, &data, value));
    if args.json {
        return print_json(&Report {
            n_params: architecture.n_params(),
            n_data: data.dataset.len(),
            n_inputs: architecture.n_inputs(),
            n_outputs,
            classes: classes::of(data.dataset.schema(), &family, n_outputs),
            activation: architecture.activation().unwrap_or(Activation::Identity).to_string(),
            epochs: path.is_none().then_some(args.epochs),
            loss: loss.map(|(value, _)| value),
            seconds,
            evidence: evidence.as_ref().map(online::report),
            cross_validated: path.as_ref().map(prior_path::report),
        });
    }
    if console.is_quiet() {
        return Ok(());
    }
    let mut summary = Summary::new(format!("network {architecture} written to {}", out.path().display()));
    summary.row("parameters", architecture.n_params(), "");
    summary.row("data points", data.dataset.len(), "");
    classes::add_row(data.dataset.schema(), &family, n_outputs, &mut summary);
    if path.is_none() {
        summary.row("epochs", args.epochs, "");
    }
    if let Some((value, meaning)) = loss {
        summary.row("loss", short(value), meaning);
    }
    if let Some(evidence) = &evidence {
        online::summarize(evidence, &mut summary);
    }
    if let Some(path) = &path {
        prior_path::summarize(path, &mut summary);
    }
    summary.row("time", format!("{seconds:.2} s"), "");
    print(&summary.to_text())
}

/// Where the result goes.
enum Destination {
    Network(OutputFile),
    Committee(CommitteeFolder),
}

fn tell_committee(
    args: &TrainArgs,
    console: &Console,
    folder: &CommitteeFolder,
    trained: &Committee,
    (architecture, seconds): (&Architecture, f64),
) -> Result<(), Failure> {
    if args.json {
        return print_json(&committee::report(trained));
    }
    if console.is_quiet() {
        return Ok(());
    }
    let mut summary =
        Summary::new(format!("committee of networks {architecture} written to {}", folder.path().display()));
    committee::summarize(trained, &mut summary);
    summary.row("time", format!("{seconds:.2} s"), "");
    print(&summary.to_text())
}

/// The loss in the units of the targets, and what it is. Several standardised targets have no common unit.
fn loss(args: &TrainArgs, data: &DataFile, loss: f64) -> (f64, &'static str) {
    let scaling = data.dataset.schema().scaling().and_then(|scaling| scaling.targets.as_ref());
    match (args.likelihood, scaling.map(Standardization::scale)) {
        (LikelihoodName::Gaussian, None) => (loss, "mean squared error of the last epoch"),
        (LikelihoodName::Gaussian, Some([scale])) => (loss * scale * scale, "mean squared error of the last epoch"),
        (LikelihoodName::Gaussian, Some(_)) => (loss, "mean squared error of the last epoch, targets standardised"),
        (LikelihoodName::Heteroscedastic, _) => {
            // The loss leaves out ½ log 2π of each target, and is that of the standardised ones.
            let constants = 0.5 * (2.0 * std::f64::consts::PI).ln() * data.dataset.targets().ncols() as f64;
            (
                loss + constants - data.dataset.schema().log_density_shift(),
                "mean negative log likelihood of the last epoch",
            )
        }
        (LikelihoodName::Poisson, _) => (loss, "mean negative log likelihood of the last epoch, without log y!"),
        _ => (loss, "mean negative log likelihood of the last epoch"),
    }
}

/// One output per target, two where its log variance is an output as well, or one per class.
fn count_outputs(args: &TrainArgs, data: &DataFile) -> Result<usize, Failure> {
    let targets = data.dataset.targets();
    match (args.likelihood, args.classes) {
        (LikelihoodName::Categorical, _) => {}
        (_, Some(_)) => return Err(Failure::Usage("--classes belongs to --likelihood categorical".to_string())),
        (LikelihoodName::Heteroscedastic, None) => return Ok(2 * targets.ncols()),
        (_, None) => return Ok(targets.ncols()),
    }
    if let Some(classes) = args.classes {
        return Ok(classes as usize);
    }
    data.check_target_columns(args.likelihood.family(&[])?.likelihood(), 2)?;
    let path = args.data.data.display();
    match data.dataset.schema().classes() {
        Some([class]) => {
            return Err(Failure::Usage(format!("{path}: every label is `{class}`; there must be at least 2 classes")));
        }
        Some(classes) => return Ok(classes.len()),
        None => {}
    }
    let greatest = targets.iter().copied().fold(0.0, f64::max);
    if targets.iter().all(|label| *label == 0.0) {
        return Err(Failure::Usage(format!(
            "{path}: every label is 0, so there is only one class; if there are more, give --classes"
        )));
    }
    if greatest >= data.dataset.len() as f64 {
        return Err(Failure::Usage(format!(
            "{path}: the greatest label is {greatest}, which makes more classes than there are rows; labels run from 0 to C−1 \
             (give --classes C if this is meant)"
        )));
    }
    Ok((greatest as usize + 1).max(2))
}

/// The shape of the network, after checking that training it fits into memory.
fn architecture(args: &TrainArgs, n_inputs: usize, n_outputs: usize) -> Result<Architecture, Failure> {
    let sizes: Vec<usize> =
        std::iter::once(n_inputs).chain(args.hidden.iter().copied()).chain(std::iter::once(n_outputs)).collect();
    let activation =
        if args.hidden.is_empty() { Activation::Identity } else { args.activation.unwrap_or(Activation::Tanh) };
    let architecture = Architecture::new(&sizes, activation)?;
    let numbers = NUMBERS_PER_WEIGHT * architecture.n_params() as f64;
    memory::check(&format!("training a {architecture} network"), numbers, "choose narrower hidden layers")?;
    Ok(architecture)
}

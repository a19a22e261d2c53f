//! `rla train`: a small network from a CSV file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use riemannian_laplace::internals::data::{Standardization, for_classes_of};
use riemannian_laplace::internals::evaluate::{
    Committee, Outcome, Trained, default_procedure, expected_seconds, follow,
};
use riemannian_laplace::internals::likelihood::TargetKind;
use riemannian_laplace::internals::memory;
use riemannian_laplace::internals::network::{Decay, NUMBERS_PER_WEIGHT, Procedure, Recipe};
use riemannian_laplace::{Activation, Architecture, Error, Family, Network, Standardize, TrainingOptions};

use super::announce::announce;
use super::arguments::{self, LikelihoodName};
use super::columns::{EncodeArgs, KnownArgs};
use super::committee::{self, CommitteeFolder};
use super::console::Console;
use super::data::{DataArgs, DataFile, NewColumns};
use super::failure::Failure;
use super::online::EvidenceArgs;
use super::output::{OutputFile, Summary, print, print_json, short};
use super::prior_path::{self, CrossValidateArgs};
use super::scaling::TrainScalingArgs;
use super::stoppable::Stoppable;
use super::train_report;

/// Train a small network that does not overfit: to a mode under a cross-validated prior, or stopped early
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
#[command(mut_arg("target", |arg| arg.required(true).help("The target columns, separated by commas; every other column is an input")))]
#[command(mut_arg("strict", |arg| arg.hide(true)))]
pub struct TrainArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    encode: EncodeArgs,
    #[command(flatten)]
    known: KnownArgs,
    /// The distribution of the targets
    #[arg(long, value_enum)]
    likelihood: LikelihoodName,
    #[command(flatten)]
    standardize: TrainScalingArgs,
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
    /// Passes over the data by plain Adam, without anything held out [20000 with one of the five options below]
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    epochs: Option<usize>,
    /// The learning rate of plain Adam [default: 1e-2]
    #[arg(long, value_name = "RATE", value_parser = arguments::positive, allow_negative_numbers = true)]
    lr: Option<f64>,
    /// The weight decay λ of plain Adam [default: 1e-5]
    #[arg(long, value_name = "λ", value_parser = arguments::non_negative, allow_negative_numbers = true)]
    weight_decay: Option<f64>,
    /// How the weight decay of plain Adam acts [default: l2]
    #[arg(long, value_enum)]
    decay: Option<DecayName>,
    /// Data points per step of plain Adam [default: all]
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
By default inputs (and real targets) are standardised, and nothing need be chosen: a network of up to some thousand weights \
goes to a mode of its posterior under the prior that predicts held-out folds best; a larger one is trained by Adam on five sixths \
of the rows, its learning rate falls and training ends as the others gain nothing more. How much is explained of training and \
held-out rows is printed beside a linear model. Any of --epochs, --lr, --weight-decay, --decay, --batch-size asks for plain Adam \
with exactly these settings, on all rows, which may overfit. Ctrl-C keeps the network of Adam as it is then; a path along \
priors keeps nothing.

Example, a regression with one hidden layer of 10 units:
  rla train --data train.csv --target y --likelihood gaussian \\
      --hidden 10 --activation tanh --out model.safetensors

Example, columns in their own units, an identifier among them, and rows with gaps:
  rla train --data train.csv --target price --likelihood gaussian \\
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
  rla train --data train.csv --target y --likelihood gaussian --hidden 50 \\
      --cross-validate --out model.safetensors

Example, all networks of the cross-validation as a committee, which predicts better than any of them:
  rla train --data train.csv --target y --likelihood gaussian --hidden 50 \\
      --cross-validate --folds 5 --committee --out committee
  rla predict --posterior committee --inputs new.csv --out predictions.csv";

/// How the weights are kept small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DecayName {
    /// ½λ‖θ‖² in the loss: PyTorch's Adam
    L2,
    /// θ ← (1 − lr·λ)θ in addition to the step: AdamW
    Decoupled,
}

/// Runs the command.
pub fn run(args: &TrainArgs, console: &Console) -> Result<(), Failure> {
    let out = match args.cross_validate.wants_committee() {
        true => Destination::Committee(CommitteeFolder::at(&args.out)?),
        false => Destination::Network(OutputFile::at(&args.out, &[&args.data.data])?),
    };
    let family = args.known.check(&args.data.target, &args.likelihood.family())?;
    let new = NewColumns {
        encode: &args.encode,
        known: &args.known,
        input_order: &[],
        likelihood: args.likelihood,
        n_classes: args.classes.map(|classes| classes as usize),
    };
    let mut data = args.data.read(new, console)?;
    let n_outputs = family.likelihood().outputs_for(count_outputs(args, &data)?);
    let least = args.classes.map_or(0, |classes| classes as usize);
    let family = for_classes_of(&family, &data.dataset, least).map_err(|error| data.locate(error))?;
    data.check_targets(&family, n_outputs)?;
    check_spread(&data, args.likelihood.kind(), &args.data.data)?;
    if let Some(which) = args.standardize.which(args.likelihood) {
        data.dataset = data.dataset.standardized(which).map_err(Failure::about(&args.data.data))?;
        let what = if which == Standardize::Inputs { "the inputs are" } else { "inputs and targets are" };
        console.note(format!("{what} standardised, which the file keeps; --no-standardize trains on them as they are"));
    }
    let architecture = architecture(args, data.dataset.inputs().ncols(), n_outputs)?;
    let start = Network::random(architecture, args.seed);
    let began = Instant::now();
    let out = match out {
        Destination::Network(file) => file,
        Destination::Committee(folder) => {
            let progress = console.bar("training", prior_path::most_priors(1));
            let committee =
                args.cross_validate.train_committee(&start, &data.dataset, &family, args.seed, &progress)?;
            drop(progress);
            folder.write(&committee)?;
            let about = (start.architecture(), began.elapsed().as_secs_f64());
            return tell_committee(args, console, &folder, &committee, about);
        }
    };
    let trained = args.train(&start, &data, &family, console)?;
    let schema = data.dataset.schema().clone().with_likelihood(Some(family.likelihood().name()));
    trained.network.save_with_schema(out.path(), &schema)?;
    trained.recipe.attach(out.path())?;
    if trained.interrupted {
        let path = out.path().display();
        return Err(Failure::Stopped(format!("interrupted: the network as it was then is in {path}")));
    }
    let linear = train_report::linear_beside(&trained, &data.dataset, &family, console)?;
    let told = train_report::Told {
        trained: &trained,
        linear: linear.as_ref(),
        family: &family,
        loss: mean_loss(&trained).map(|value| loss(args, &data, value)),
        data: &data.dataset,
        path: out.path(),
        seconds: began.elapsed().as_secs_f64(),
    };
    told.warn(console);
    if args.json {
        return print_json(&told.report());
    }
    if console.is_quiet() {
        return Ok(());
    }
    print(&told.summary().to_text())
}

/// The loss that plain training ended with.
fn mean_loss(trained: &Trained) -> Option<f64> {
    match &trained.outcome {
        Outcome::Adam(training) => Some(training.loss),
        Outcome::Evidence(online) => Some(online.loss),
        Outcome::Path(_) | Outcome::Stopped(_) => None,
    }
}

impl TrainArgs {
    /// Trains by the procedure that was asked for, or by the default one.
    fn train(&self, start: &Network, data: &DataFile, family: &Family, console: &Console) -> Result<Trained, Failure> {
        let (architecture, rows) = (start.architecture(), data.dataset.len());
        let procedure = self.procedure(architecture, rows);
        let faster = match procedure {
            Procedure::CrossValidated { .. } => {
                "narrower --hidden layers are faster, and so is plain Adam with --epochs"
            }
            _ => "fewer --epochs are faster, and Ctrl-C keeps what there is",
        };
        announce(console, expected_seconds(&procedure, architecture, rows), "training", faster);
        let length = match &procedure {
            Procedure::CrossValidated { ratios, .. } => prior_path::most_priors(ratios.len()),
            Procedure::EarlyStopping { epochs, .. }
            | Procedure::Adam { epochs, .. }
            | Procedure::Evidence { epochs, .. } => *epochs,
        };
        let recipe =
            Recipe { seed: self.seed, procedure, prior_precision: None, sigma: None, dispersions: None, folded: None };
        let progress = Stoppable::bar(console, "training", length);
        follow(&recipe, start, &data.dataset, family, &progress).map_err(|error| match error {
            Error::Cancelled => Failure::Stopped("interrupted: nothing is kept".to_string()),
            error => error.into(),
        })
    }

    /// The settings of plain Adam, where one of them was given.
    fn adam(&self) -> Option<TrainingOptions> {
        let given = self.epochs.is_some() || self.lr.is_some() || self.weight_decay.is_some();
        let given = given || self.decay.is_some() || self.batch_size.is_some() || self.evidence.is_asked_for();
        let plain = TrainingOptions::default();
        given.then(|| TrainingOptions {
            epochs: self.epochs.unwrap_or(plain.epochs),
            learning_rate: self.lr.unwrap_or(plain.learning_rate),
            weight_decay: self.weight_decay.unwrap_or(plain.weight_decay),
            decay: match self.decay {
                Some(DecayName::Decoupled) => Decay::Decoupled,
                Some(DecayName::L2) | None => Decay::L2,
            },
            batch_size: self.batch_size,
            seed: self.seed,
        })
    }

    fn procedure(&self, architecture: &Architecture, rows: usize) -> Procedure {
        if let Some(procedure) = self.cross_validate.procedure() {
            return procedure;
        }
        match self.adam() {
            Some(options) => self.evidence.procedure(&options).unwrap_or_else(|| Procedure::adam(&options)),
            None => default_procedure(architecture, rows),
        }
    }
}

/// A number that is the same in every row is nothing to learn, and has no noise.
fn check_spread(data: &DataFile, kind: TargetKind, path: &Path) -> Result<(), Failure> {
    let targets = data.dataset.targets();
    let names = data.dataset.schema().targets();
    for (name, column) in names.iter().zip(targets.columns()) {
        let Some(first) = column.first().filter(|first| column.iter().all(|value| value == *first)) else { continue };
        if matches!(kind, TargetKind::Real | TargetKind::Positive) {
            let (path, first) = (path.display(), short(*first));
            let words = format!("{path}: every value of the target `{name}` is {first}: there is nothing to learn");
            return Err(Failure::Usage(words));
        }
    }
    Ok(())
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
    let family = args.likelihood.family();
    family.likelihood().loss_in_units(loss, data.dataset.targets().ncols(), scaling.map(Standardization::scale))
}

/// One output per target, two where its log variance is an output as well, or one per class.
fn count_outputs(args: &TrainArgs, data: &DataFile) -> Result<usize, Failure> {
    let targets = data.dataset.targets().column(0);
    match (args.likelihood.kind(), args.classes) {
        (TargetKind::Label, _) => {}
        (_, Some(_)) => return Err(Failure::Usage("--classes belongs to --likelihood categorical".to_string())),
        (_, None) => return Ok(data.dataset.schema().targets().len()),
    }
    if let Some(classes) = args.classes {
        return Ok(classes as usize);
    }
    data.check_target_columns(args.likelihood.family().likelihood(), 2)?;
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

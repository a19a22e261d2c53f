//! `rla loo`: leave-one-out cross-validation of a posterior on its training data, without refitting.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ndarray::Axis;
use riemannian_laplace::internals::evaluate::{ClosedForms, LeaveOneOut};
use riemannian_laplace::internals::predict::{MonteCarlo, SamplingReport};
use riemannian_laplace::{Laplace, Link};

use super::announce::announce_leave_one_out;
use super::arguments;
use super::certificate::CertificateArgs;
use super::console::Console;
use super::data::OptionalDataArgs;
use super::draws::DrawArgs;
use super::failure::Failure;
use super::loo_report::{HeldOut, Refits, Told};
use super::output::{Columns, OutputFile, print, print_json, short};
use super::posterior::PosteriorArgs;

/// Score a posterior on its own training data, each point predicted by the others: leave-one-out at these weights
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct LooArgs {
    #[command(flatten)]
    posterior: PosteriorArgs,
    /// Another posterior of the same data and the same network to compare with, by the same method; with --refit any posterior
    /// of the same data
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Train again without each of K parts of the data, by the recipe that the file keeps (or from its weights), and predict
    /// the part: what networks with different weights can be compared by
    #[arg(long, value_name = "K", value_parser = arguments::count)]
    refit: Option<usize>,
    #[command(flatten)]
    held_out: OptionalDataArgs,
    /// Whose predictions are scored
    #[arg(long, value_enum, default_value_t = LooMethod::Glm)]
    method: LooMethod,
    #[command(flatten)]
    draws: DrawArgs,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// Where to write the scores of the single points (CSV)
    #[arg(long, value_name = "CSV")]
    out: Option<PathBuf>,
    /// Print the outcome as one JSON object
    #[arg(long)]
    json: bool,
}

/// What leave-one-out is computed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LooMethod {
    /// The trained network alone, in closed form
    Map,
    /// The linearised posterior: in closed form, or from draws of the linearised outputs with --samples
    Glm,
    /// Riemannian samples, by Pareto smoothed importance sampling
    Riemannian,
}

impl LooMethod {
    fn name(self) -> &'static str {
        match self {
            LooMethod::Map => "map",
            LooMethod::Glm => "glm",
            LooMethod::Riemannian => "riemannian",
        }
    }
}

const EXAMPLE: &str = "\
What is estimated: the log likelihood of as many new data points (elpd_loo, in nats; greater is better) as the posterior *at these \
weights* predicts them. The weights were trained with the left-out point, and hidden units that it has shaped stay: for an \
overfitted network the score is too good, and p_loo/n above 0.2 warns of it. So networks with different weights are not compared by \
it (status 2): compare their evidence (`rla fit` prints the log marginal likelihood), or give --refit K, which trains again without \
each of K parts. With --data the promise stands beside the outcome on held-out rows. It cannot see extrapolation: a point that is \
left out lies among the others.

Keys of --json: elpd_loo, se (its standard error), p_loo (effective parameters; these three are null where k̂ > 0.7 at over a tenth \
of the points), k_max and n_k_above_0_7 (the Pareto k̂ of \
the points' weights, null below 21 samples; above 0.7 a point's score is unreliable; in closed form the leverage, which is the k̂ of infinitely \
many draws under Gaussian noise), pit_coverage_90 (share of left-out targets inside their 90 % intervals; null for classes), \
method, and estimator, n, samples, best, advice; with --compare also comparison, with --refit also refit, with --data also held_out. \
Columns of --out: log_density (without the point), log_density_with_all_data, k, and pit where there is one.

Example:
  rla loo --posterior posterior.safetensors

Example, two networks of the same data, each trained again without a fifth of them:
  rla loo --posterior one.safetensors --compare other.safetensors --refit 5

Example, the promise of leave-one-out beside held-out rows:
  rla loo --posterior posterior.safetensors --data test.csv --target y

Example, two priors of the same weights by their Riemannian samples:
  rla loo --posterior one.safetensors --compare other.safetensors --method riemannian --samples 200 --out pointwise.csv";

/// Runs the command.
pub fn run(args: &LooArgs, console: &Console) -> Result<(), Failure> {
    args.draws.check(args.method == LooMethod::Riemannian, args.method.name())?;
    if args.compare.is_some() && args.draws.file().is_some() {
        let message = "--samples-file belongs to one posterior; leave out --compare, or let the samples be drawn";
        return Err(Failure::Usage(message.to_string()));
    }
    if args.method == LooMethod::Map && args.draws.count_is_given() {
        return Err(Failure::Usage("--method map needs no samples; leave out --samples".to_string()));
    }
    let out = match &args.out {
        Some(path) => {
            let mut inputs: Vec<&Path> = vec![&args.posterior.posterior];
            inputs.extend(args.compare.as_deref().into_iter().chain(args.draws.file()));
            Some(OutputFile::at(path, &inputs)?)
        }
        None => None,
    };
    let laplace = args.posterior.load(console)?;
    let other = match &args.compare {
        Some(path) => {
            let other = Laplace::load(path).map_err(Failure::about(path))?;
            check_same_data(&laplace, &other, path)?;
            if args.refit.is_none() {
                check_same_weights((&laplace, &args.posterior.posterior), (&other, path))?;
            }
            Some((path, other))
        }
        None => None,
    };
    let held_out = args.held_out.read_for_posterior(&laplace, console)?;
    if let Some(data) = &held_out {
        data.check_against(&**laplace.model(), laplace.family())?;
    }
    let scored = score(args, &laplace, &args.posterior.posterior, console)?;
    if let Some(file) = &out {
        file.write(|out| pointwise(&scored.loo).write_csv(out))?;
    }
    let refits =
        args.refit.map(|folds| Refits::of(&laplace, other.as_ref(), folds, args.draws.seed(), console)).transpose()?;
    let comparison = match &other {
        Some((path, other)) if args.refit.is_none() => {
            let theirs = score(args, other, path, console)?.loo;
            let comparison = scored.loo.minus(&theirs)?;
            Some((path.display().to_string(), theirs, comparison))
        }
        Some(_) | None => None,
    };
    let outcome = match &held_out {
        Some(data) => Some(HeldOut::of(&laplace, &scored.loo, &data.dataset)?),
        None => None,
    };
    let told = Told { path: &args.posterior.posterior, scored: &scored, comparison, refits, outcome };
    let report = told.report();
    if args.json {
        print_json(&report)?;
    } else {
        print(&told.to_text(&report))?;
        report.advice.iter().for_each(|advice| console.warn(advice));
    }
    scored.sampling.map_or(Ok(()), |sampling| args.certificate.check(sampling))
}

/// Leave-one-out at fixed weights says nothing about which weights are better.
fn check_same_weights((one, path): (&Laplace, &Path), (other, their_path): (&Laplace, &Path)) -> Result<(), Failure> {
    let all = |laplace: &Laplace| match laplace.model().subset() {
        Some(place) => place.all.to_vec(),
        None => laplace.parameters().to_vec(),
    };
    if all(one) == all(other) {
        return Ok(());
    }
    let evidence = |laplace: &Laplace| short(laplace.log_marginal_likelihood());
    let (path, their_path) = (path.display(), their_path.display());
    Err(Failure::Usage(format!(
        "{their_path}: its network has other weights than that of {path}, and leave-one-out at fixed weights cannot compare \
         these: it prefers the one that has adapted more to single points. By the evidence (log marginal likelihood, greater is \
         better) they have {} ({path}) and {} ({their_path}), which counts as far as both were fitted with --optimize; or train both \
         again without each of K parts: rla loo --posterior {path} --compare {their_path} --refit 5",
        evidence(one),
        evidence(other)
    )))
}

/// The score that was asked for, and those that come with it.
pub struct Scored {
    pub loo: LeaveOneOut,
    /// The network alone and the linearised posterior, where they have closed forms.
    pub closed: Option<ClosedForms>,
    pub sampling: Option<SamplingReport>,
}

impl Scored {
    /// The methods that were scored, in the order of their cost.
    pub fn methods(&self) -> Vec<&LeaveOneOut> {
        let mut methods: Vec<&LeaveOneOut> = Vec::new();
        if let Some(closed) = &self.closed {
            methods.extend([&closed.map, &closed.linearized]);
        }
        match methods.iter_mut().find(|loo| loo.method == self.loo.method) {
            Some(same) => *same = &self.loo,
            None => methods.push(&self.loo),
        }
        methods
    }

    /// The best of those that may be compared; where none may, the one that was asked for.
    pub fn best(&self) -> &LeaveOneOut {
        LeaveOneOut::best(self.methods()).unwrap_or(&self.loo)
    }
}

fn score(args: &LooArgs, laplace: &Laplace, path: &Path, console: &Console) -> Result<Scored, Failure> {
    let about = Failure::about(path);
    announce_leave_one_out(console, laplace);
    let progress = console.spinner("computing leave-one-out");
    // An approximate structure may have none; samples do without.
    let closed = ClosedForms::of(laplace, Link::default());
    drop(progress);
    let by_samples = args.method == LooMethod::Riemannian || args.draws.count_is_given();
    let (closed, why) = match closed {
        Ok(closed) => (Some(closed), None),
        Err(error) if by_samples && laplace.data().is_some() => {
            console.note(format!("no closed form to compare with: {error}"));
            (None, None)
        }
        Err(error) => (None, Some(error)),
    };
    if let Some(error) = why {
        return Err(about(error));
    }
    let mut sampling = None;
    let loo = match (args.method, &closed) {
        (LooMethod::Map, Some(closed)) => closed.map.clone(),
        (LooMethod::Glm, Some(closed)) if !by_samples => closed.linearized.clone(),
        (LooMethod::Map | LooMethod::Glm, _) => {
            let draws = MonteCarlo { samples: args.draws.output_count(), seed: args.draws.seed() };
            LeaveOneOut::of_linearized_draws(laplace, draws).map_err(&about)?
        }
        (LooMethod::Riemannian, _) => {
            let samples = args.draws.draw_or_read(laplace, console)?;
            sampling = Some(SamplingReport::of(&samples));
            LeaveOneOut::of_samples(laplace, &samples).map_err(&about)?
        }
    };
    Ok(Scored { loo, closed, sampling })
}

/// Differences point by point need the same points.
fn check_same_data(one: &Laplace, other: &Laplace, path: &Path) -> Result<(), Failure> {
    let targets = |laplace: &Laplace| {
        laplace.data().map(|data| laplace.schema().restore_targets(data.targets().view())).transpose()
    };
    if let (Some(ours), Some(theirs)) = (targets(one)?, targets(other)?) {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * (1.0 + a.abs());
        if ours.dim() != theirs.dim() || !ours.iter().zip(&theirs).all(near) {
            let message = format!("{}: its training targets are not those of --posterior, row by row", path.display());
            return Err(Failure::Usage(message));
        }
    }
    Ok(())
}

/// The columns of `--out`; with several targets one `pit` each.
fn pointwise(loo: &LeaveOneOut) -> Columns<'_> {
    let mut columns = Columns::default();
    columns.add("log_density".to_string(), (&loo.pointwise[..]).into());
    columns.add("log_density_with_all_data".to_string(), (&loo.with_all_data[..]).into());
    columns.add("k".to_string(), (&loo.k[..]).into());
    if let Some(ranks) = &loo.ranks {
        let several = ranks.ncols() > 1;
        for (target, column) in ranks.axis_iter(Axis(1)).enumerate() {
            columns.add(if several { format!("pit_{}", target + 1) } else { "pit".to_string() }, column);
        }
    }
    columns
}

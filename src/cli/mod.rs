//! The command line: one file per command, and shared pieces in one place each. No mathematics here.

mod announce;
mod arguments;
mod calibrate;
mod certificate;
mod classes;
mod columns;
mod committee;
mod conditions;
mod console;
mod coverage_text;
mod data;
mod draws;
mod evaluate;
mod exp;
mod export;
mod failure;
mod fit;
mod fit_report;
mod fit_score;
mod follow;
mod geodesic;
mod influence;
mod input_order;
mod log;
mod loo;
mod loo_report;
mod merge;
mod method;
mod model;
mod online;
mod output;
mod partial;
mod posterior;
mod posterior_form;
mod predict;
mod predict_columns;
mod prior;
mod prior_path;
mod promise;
mod report;
mod report_json;
mod sample;
mod sampling;
mod scaling;
mod score_text;
mod shard;
mod shell;
mod signals;
mod smoothing;
mod source;
mod stoppable;
mod suggest;
mod team;
mod tempering;
mod threads;
mod train;
mod train_report;
mod training_fit;
#[cfg(any(test, fuzzing))]
mod untrusted;
mod validation;
mod weights;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use riemannian_laplace::internals::memory;
use riemannian_laplace::internals::team::Team;

use console::{Console, say};
use failure::Failure;
use signals::Signals;
use team::Crew;
#[cfg(any(test, fuzzing))]
pub use untrusted::read_committee;

/// Uncertainty for trained neural networks: Laplace and Riemannian Laplace approximations of an MLP.
///
/// Train a small network (or bring one from PyTorch or candle), fit a posterior over its weights, predict with error
/// bars, and score the predictions.
#[derive(Debug, Parser)]
#[command(name = "rla", version, after_help = EXAMPLE, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    global: GlobalArgs,
}

const EXAMPLE: &str = "\
Example, from data to predictions with uncertainty:
  rla train --data train.csv --target y --likelihood gaussian --hidden 10 \\
      --out model.safetensors
  rla fit --model model.safetensors --data train.csv --target y \\
      --likelihood gaussian --optimize --out posterior.safetensors
  rla predict --posterior posterior.safetensors --inputs new.csv --out predictions.csv
  rla evaluate --posterior posterior.safetensors --data test.csv --target y
  rla report --posterior posterior.safetensors --data test.csv --target y --out report.html

Exit status: 0 done, 1 the work failed, 2 the command line or an input file is wrong, 3 done, but more than 5 % of the \
samples failed or are not certified (--allow-uncertified), 130 interrupted: what can be saved is saved.";

#[derive(Debug, Subcommand)]
enum Command {
    Train(train::TrainArgs),
    Fit(Box<fit::FitArgs>),
    Predict(predict::PredictArgs),
    Evaluate(evaluate::EvaluateArgs),
    Calibrate(calibrate::CalibrateArgs),
    Loo(loo::LooArgs),
    Report(report::ReportArgs),
    Suggest(suggest::SuggestArgs),
    Influence(influence::InfluenceArgs),
    Sample(sample::SampleArgs),
    Export(export::ExportArgs),
    Merge(merge::MergeArgs),
    Exp(exp::ExpArgs),
    Log(log::LogArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
    Doctor(shell::DoctorArgs),
}

impl Command {
    /// Whether several processes can share the work.
    fn is_shared(&self) -> bool {
        matches!(self, Command::Fit(_) | Command::Sample(_) | Command::Predict(_) | Command::Evaluate(_))
    }
}

/// Options that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct GlobalArgs {
    /// Threads to use [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = arguments::count)]
    threads: Option<usize>,
    /// Print results, warnings and errors only: no progress, notes or summaries
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Refuse work that needs more memory, e.g. 2GB, 500MB or a number of bytes [default: 80 % of what is free]
    #[arg(long, global = true, value_name = "SIZE", value_parser = arguments::bytes)]
    max_memory: Option<u64>,
}

/// Parses the command line, runs the command and reports its failure, if any, on stderr.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match Crew::assemble() {
        Ok(crew) => crew.finish(run(&cli, crew.team())),
        Err(failure) => {
            say(format_args!("error: {failure}"));
            ExitCode::from(failure.exit_status())
        }
    }
}

/// Parses the words of a command line, separated by line breaks, and does nothing with them. Whatever they are, this
/// returns: a test and the fuzz target of the command line call it.
#[cfg(any(test, fuzzing))]
pub fn parse_words(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = Cli::try_parse_from(["rla"].into_iter().chain(text.split('\n'))) {
        let _ = error.render();
    }
}

fn run(cli: &Cli, team: &Team) -> Result<(), Failure> {
    memory::set_limit(cli.global.max_memory);
    let signals = Signals::install()?;
    threads::start(cli.global.threads)?;
    if team.size() > 1 && !cli.command.is_shared() {
        let problem = "only `fit`, `sample`, `predict` and `evaluate` run on several processes; start this command without mpirun";
        return Err(Failure::Usage(problem.to_string()));
    }
    let console = Console::new(cli.global.quiet, team.clone(), signals);
    match &cli.command {
        Command::Train(args) => train::run(args, &console),
        Command::Fit(args) => fit::run(args, &console),
        Command::Predict(args) => predict::run(args, &console),
        Command::Evaluate(args) => evaluate::run(args, &console),
        Command::Calibrate(args) => calibrate::run(args, &console),
        Command::Loo(args) => loo::run(args, &console),
        Command::Report(args) => report::run(args, &console),
        Command::Suggest(args) => suggest::run(args, &console),
        Command::Influence(args) => influence::run(args, &console),
        Command::Sample(args) => sample::run(args, &console),
        Command::Export(args) => export::run(args, &console),
        Command::Merge(args) => merge::run(args, &console),
        Command::Exp(args) => exp::run(args, &console),
        Command::Log(args) => log::run(args, &console),
        Command::Completions(args) => shell::completions(args),
        Command::Man(args) => shell::man(args, &console),
        Command::Doctor(args) => shell::doctor(args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_parser_is_consistent() {
        super::Cli::command().debug_assert();
    }

    #[test]
    fn no_words_make_the_parser_panic() {
        use rand::Rng;
        use riemannian_laplace::internals::random::{Purpose, stream};
        let corpus = |name: &str| -> Vec<Vec<u8>> {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
            let entries = std::fs::read_dir(folder).expect("the corpus");
            entries.map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a file")).collect()
        };
        corpus("found/command_line").iter().for_each(|line| super::parse_words(line));
        let mut lines = corpus("command_line");
        lines.sort();
        let words: Vec<Vec<u8>> =
            lines.iter().flat_map(|line| line.split(|byte| *byte == b'\n')).map(<[u8]>::to_vec).collect();
        let odd: [&[u8]; 8] =
            [b"", b"-", b"--", b"\xff", b"18446744073709551616", b"-1e400", b"../..", "\u{202e}\u{1b}".as_bytes()];
        for line in &lines {
            super::parse_words(line);
            for index in 0..200 {
                let mut random = stream(1, Purpose::Data, index);
                let mut changed: Vec<&[u8]> = line.split(|byte| *byte == b'\n').collect();
                for _ in 0..random.random_range(1..4) {
                    let at = random.random_range(0..changed.len());
                    match random.random_range(0..4) {
                        0 => changed[at] = odd[random.random_range(0..odd.len())],
                        1 => changed[at] = &words[random.random_range(0..words.len())],
                        2 => changed.insert(at, &words[random.random_range(0..words.len())]),
                        _ => changed.truncate(at.max(1)),
                    }
                }
                super::parse_words(&changed.join(&b'\n'));
            }
        }
    }

    #[test]
    fn no_list_of_a_committee_leads_out_of_its_folder() {
        use rand::Rng;
        use riemannian_laplace::internals::random::{Purpose, stream};
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/committee");
        for entry in std::fs::read_dir(folder).expect("the corpus") {
            super::read_committee(&std::fs::read(entry.expect("an entry").path()).expect("a file"));
        }
        for index in 0..300 {
            let mut random = stream(2, Purpose::Data, index);
            let bytes: Vec<u8> = (0..random.random_range(0..60)).map(|_| random.random()).collect();
            super::read_committee(&bytes);
        }
    }

    #[test]
    fn every_command_shows_an_example() {
        for command in super::Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("rla {}", command.get_name())), "{}", command.get_name());
        }
    }
}

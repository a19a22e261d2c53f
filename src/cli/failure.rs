//! What ends the program early, and the exit status that says why.

use std::error::Error as _;
use std::fmt;
use std::path::{Path, PathBuf};

use riemannian_laplace::Error;
use riemannian_laplace::internals::data::{ColumnProblem, Remedy, TableError};
use riemannian_laplace::internals::laplace::PosteriorError;

use super::signals::INTERRUPTED;

/// Why a command could not be carried out.
#[derive(Debug)]
pub enum Failure {
    /// Options that contradict each other or the files.
    Usage(String),
    /// Work that was stopped on request; what is finished is saved.
    Stopped(String),
    /// What could not be done, though the command line and the files are fine.
    Work(String),
    /// What the library reported.
    Library(Error),
    /// What the library reported while working on a file.
    About { path: PathBuf, error: Error },
}

impl Failure {
    /// 2 when the command line or an input file is wrong, 1 when the work failed, 3 when too many samples failed or are
    /// uncertified, 130 when it was interrupted.
    pub fn exit_status(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Work(_) => 1,
            Failure::Stopped(_) => INTERRUPTED,
            Failure::Library(Error::Uncertified { .. }) => 3,
            Failure::Library(Error::Cancelled) | Failure::About { error: Error::Cancelled, .. } => INTERRUPTED,
            Failure::Library(error) | Failure::About { error, .. } => {
                if error.is_input() {
                    2
                } else {
                    1
                }
            }
        }
    }

    /// The chain of causes, without those that the message already includes.
    pub fn further_causes(&self) -> Vec<String> {
        let (Failure::Library(error) | Failure::About { error, .. }) = self else { return Vec::new() };
        let message = error.to_string();
        let (mut causes, mut next) = (Vec::new(), error.source());
        while let Some(cause) = next {
            let text = cause.to_string();
            if !message.contains(&text) {
                causes.push(text);
            }
            next = cause.source();
        }
        causes
    }

    /// Adds the file to an error that does not name it.
    pub fn about(path: &Path) -> impl Fn(Error) -> Failure + '_ {
        |error| Failure::About { path: path.to_path_buf(), error }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) | Failure::Work(message) | Failure::Stopped(message) => {
                formatter.write_str(message)
            }
            Failure::Library(error) => formatter.write_str(&with_flags(error)),
            Failure::About { path, error } => {
                let (path, message) = (path.display().to_string(), with_flags(error));
                if message.contains(&path) {
                    formatter.write_str(&message)
                } else {
                    write!(formatter, "{path}: {message}")
                }
            }
        }
    }
}

/// What the advice of the library is called on the command line.
const FLAGS: [(&str, &str); 10] = [
    ("kronecker would fit", "--structure kron"),
    ("diagonal would fit", "--structure diag"),
    ("low-rank:20 would fit", "--structure low-rank:20"),
    ("matrix-free would fit", "--structure matrix-free"),
    ("the last layer would fit", "--weights last-layer"),
    ("a sub-network of", "--weights subnetwork:K"),
    ("the matrix-free solver", "--metric-solver matrix-free"),
    ("a part of the data", "--metric-batch"),
    ("fewer threads", "--threads"),
    ("in ranges", "--range"),
];

/// The flags that do what is advised, and another one.
fn flags_of(advice: &str, other: Option<&'static str>) -> Vec<String> {
    let advised = FLAGS.iter().filter(|(words, _)| advice.contains(words)).map(|(_, flag)| *flag);
    advised.chain(other).map(|flag| format!("`{flag}`")).collect()
}

/// The flags that make all columns usable, ready to be added to the command; and the other choice.
fn remedies(problems: &[ColumnProblem]) -> Vec<String> {
    let of = |remedy: Remedy| problems.iter().filter(move |problem| problem.remedy == remedy);
    let named = |flag: &str, remedy: Remedy| {
        let names: Vec<String> = of(remedy).map(|problem| quoted(&problem.column)).collect();
        if names.is_empty() { None } else { Some(format!("{flag} {}", names.join(","))) }
    };
    let fillable = of(Remedy::DropOrImpute).next().is_some();
    let drops = fillable || of(Remedy::Drop).next().is_some();
    let flags = [
        drops.then(|| "--drop-missing".to_string()),
        named("--categorical", Remedy::Categorical),
        named("--ignore", Remedy::Ignore),
        of(Remedy::UnknownIsOther).next().map(|_| "--unknown other".to_string()),
    ];
    let flags: Vec<String> = flags.into_iter().flatten().collect();
    let mut advice = Vec::new();
    if !flags.is_empty() {
        advice.push(format!("add `{}`", flags.join(" ")));
    }
    if fillable {
        advice.push("`--impute mean` fills in missing inputs".to_string());
    }
    if of(Remedy::Classes).next().is_some() {
        advice.push("words are classes: `--likelihood categorical`, or `bernoulli` where there are two".to_string());
    }
    advice
}

/// A name as a shell takes it.
fn quoted(name: &str) -> String {
    let plain = |character: char| character.is_alphanumeric() || "_-.:/".contains(character);
    if name.chars().all(plain) { name.to_string() } else { format!("'{}'", name.replace('\'', "'\\''")) }
}

/// The library's message, which does not mention flags, followed by the flags that do what it advises.
fn with_flags(error: &Error) -> String {
    let message = error.to_string();
    let flags: Vec<String> = match error {
        // Where the operating system is the limit, the message has the command that raises it.
        Error::Memory { advice, .. } => flags_of(advice, Some("--max-memory").filter(|_| !advice.contains("ulimit"))),
        Error::TooLong { advice, .. } => flags_of(advice, Some("--solver")),
        Error::MissingActivation { .. } => vec!["`--activation`, for example `--activation tanh`".to_string()],
        Error::StateDict { problem, .. } if problem.takes_layers() => {
            vec!["`--layers`, for example `--layers fc1:tanh,fc2:relu,out`".to_string()]
        }
        Error::NoTrainingData { .. } => vec!["`--without-data` left them out".to_string()],
        Error::OtherRun { .. } => vec!["`--resume`".to_string()],
        Error::Uncertified { .. } => vec!["`--max-steps`, `--allow-uncertified`".to_string()],
        Error::NoSamples { .. } => vec!["`--max-steps`, `--rtol`, `--atol`".to_string()],
        Error::BatchSize { .. } => vec!["`--metric-batch`".to_string()],
        Error::Table(TableError::UnknownColumn { .. }) => vec!["`--ignore`".to_string()],
        Error::Table(TableError::Columns { problems, .. }) => remedies(problems),
        Error::TunedToBound { bound, .. } => vec![format!("`--{}`", bound.parameter.replace(' ', "-"))],
        Error::IndefiniteHessian { .. } | Error::UnboundedEvidence => {
            vec!["`--prior-precision`, `--curvature ggn`".to_string()]
        }
        Error::Posterior(PosteriorError::EarlierDataGone { .. }) => vec!["`--metric euclidean`".to_string()],
        Error::Metadata { key: "format", .. } => vec!["`rla fit` writes posteriors".to_string()],
        _ => Vec::new(),
    };
    match (flags.is_empty(), message.contains('\n')) {
        (true, _) => message,
        (false, true) => format!("{message}\n{}", flags.join("; ")),
        (false, false) => format!("{message} ({})", flags.join(", ")),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Library(error)
    }
}

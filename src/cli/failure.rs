//! What ends the program early, and the exit status that says whose fault it is.

use std::error::Error as _;
use std::fmt;
use std::path::{Path, PathBuf};

use riemannian_laplace::Error;

/// Why a command could not be carried out.
#[derive(Debug)]
pub enum Failure {
    /// Options that contradict each other or the files.
    Usage(String),
    /// What the library reported.
    Library(Error),
    /// What the library reported while it worked on a file.
    About { path: PathBuf, error: Error },
}

impl Failure {
    /// 2 when the command line or an input file is wrong, 1 when the work failed.
    pub fn exit_status(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Library(error) | Failure::About { error, .. } => {
                if error.is_input() {
                    2
                } else {
                    1
                }
            }
        }
    }

    /// The chain of causes, without those that the message repeats already.
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

    /// Adds the file to a complaint that does not name it.
    pub fn about(path: &Path) -> impl Fn(Error) -> Failure + '_ {
        |error| Failure::About { path: path.to_path_buf(), error }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) => formatter.write_str(message),
            Failure::Library(error) => error.fmt(formatter),
            Failure::About { path, error } => {
                let (path, message) = (path.display().to_string(), error.to_string());
                if message.contains(&path) {
                    formatter.write_str(&message)
                } else {
                    write!(formatter, "{path}: {message}")
                }
            }
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Library(error)
    }
}

//! What stops the reading of a node: a reason to refuse it, or an error of another kind, such as too little memory.

use crate::error::Error;

/// Why a node is not read.
#[derive(Debug)]
pub enum Trouble {
    /// What is wrong with it, as a sentence about the node.
    Refused(String),
    /// Anything else.
    Other(Error),
}

/// A result of a step that may have to refuse a node.
pub type Step<T> = Result<T, Trouble>;

/// A refusal for this reason.
pub fn refuse<T>(problem: impl Into<String>) -> Step<T> {
    Err(Trouble::Refused(problem.into()))
}

impl From<String> for Trouble {
    fn from(problem: String) -> Self {
        Self::Refused(problem)
    }
}

impl From<&str> for Trouble {
    fn from(problem: &str) -> Self {
        Self::Refused(problem.to_string())
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::Architecture { what, problem } => Self::Refused(format!("{what} {problem}")),
            other => Self::Other(other),
        }
    }
}

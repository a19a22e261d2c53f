//! The engine's errors as Python exceptions: the classes are those of `riemannian_laplace.errors`, the messages the
//! engine's.

use std::error::Error as _;

use pyo3::prelude::*;
use riemannian_laplace::Error;
use riemannian_laplace::internals::network::OnnxError;

/// The class for an error.
fn class(error: &Error) -> &'static str {
    match error {
        Error::Io { .. } | Error::Write { .. } | Error::NotAFile { .. } => "FileError",
        Error::Memory { .. } => "MemoryLimitError",
        Error::Unsupported(_) | Error::Onnx(OnnxError::Node { .. }) => "UnsupportedError",
        error if error.is_input() => "InputError",
        _ => "NumericalError",
    }
}

/// The message, with the causes that it does not include already.
fn message(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let further = next.to_string();
        if !text.contains(&further) {
            text.push_str(": ");
            text.push_str(&further);
        }
        cause = next.source();
    }
    text
}

/// The exception for an error.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    raise(py, class(error), message(error))
}

/// An exception of one of our classes.
pub fn raise(py: Python<'_>, class: &str, message: String) -> PyErr {
    let make = || py.import("riemannian_laplace.errors")?.getattr(class)?.call1((message,));
    match make() {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    }
}

/// Results of the engine as results for Python.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for riemannian_laplace::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}

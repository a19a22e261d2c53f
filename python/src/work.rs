//! Long work: on a thread of its own, without the GIL, while the calling thread looks for signals and tells how far it
//! is.
//!
//! Python's signal handlers run on its main thread alone, so a worker could not see Ctrl-C. The calling thread sleeps
//! meanwhile, wakes a few times a second, and cancels the work when a handler raises.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use riemannian_laplace::{Progress, Result};

use crate::derivatives::take_failure;
use crate::errors::{OrRaise, raise};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(50);
/// The stack of the thread that works: that of a main thread.
const STACK: usize = 8 << 20;

/// What the worker and the caller share.
#[derive(Debug, Default)]
struct Shared {
    done: AtomicUsize,
    cancelled: AtomicBool,
    finished: AtomicBool,
}

impl Progress for Shared {
    fn advance(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn step(&self, done: usize, _value: f64) {
        self.done.store(done, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Does the work; `watch`, where there is one, is called now and then with the number of finished pieces.
pub fn run<T: Send>(
    py: Python<'_>,
    watch: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&dyn Progress) -> Result<T> + Send,
) -> PyResult<T> {
    take_failure();
    let shared = Shared::default();
    let caller = thread::current();
    let (outcome, interruption) = thread::scope(|scope| {
        let worker = || {
            // Woken on the way out, also by a panic.
            let _wake = Wake { caller: &caller, finished: &shared.finished };
            work(&shared)
        };
        let handle = match thread::Builder::new().stack_size(STACK).spawn_scoped(scope, worker) {
            Ok(handle) => handle,
            Err(error) => return (Err(raise(py, "NumericalError", format!("no thread to work on: {error}"))), None),
        };
        let mut interruption = None;
        while !shared.finished.load(Ordering::Acquire) {
            py.detach(|| thread::park_timeout(INTERVAL));
            let looked = py.check_signals().and_then(|()| match watch {
                Some(watch) => watch.call1((shared.done.load(Ordering::Relaxed),)).map(drop),
                None => Ok(()),
            });
            if let Err(error) = looked {
                shared.cancelled.store(true, Ordering::Relaxed);
                interruption.get_or_insert(error);
            }
        }
        let outcome = match py.detach(|| handle.join()) {
            Ok(outcome) => outcome.or_raise(py),
            Err(_) => {
                Err(raise(py, "NumericalError", "the engine failed unexpectedly; please report this".to_string()))
            }
        };
        (outcome, interruption)
    });
    match interruption {
        Some(error) => Err(error),
        None => outcome.inspect_err(|error| {
            if let Some(cause) = take_failure() {
                error.set_cause(py, Some(cause));
            }
        }),
    }
}

/// Wakes the caller when it is dropped.
struct Wake<'a> {
    caller: &'a thread::Thread,
    finished: &'a AtomicBool,
}

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        self.finished.store(true, Ordering::Release);
        self.caller.unpark();
    }
}

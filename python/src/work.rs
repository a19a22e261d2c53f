//! Long work: on a thread of its own, without the GIL, while the calling thread looks for signals and tells how far it
//! is.
//!
//! Python's signal handlers run on its main thread alone, so a worker could not see Ctrl-C. The calling thread sleeps
//! meanwhile, wakes a few times a second, and cancels the work when a handler raises.
//!
//! A forked child has none of the worker threads of its parent, and would wait for them for ever. It starts a pool of its
//! own.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use riemannian_laplace::{Progress, Result};

use crate::derivatives::take_failure;
use crate::errors::{OrRaise, raise};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(50);
/// The stack of the thread that works: that of a main thread.
const STACK: usize = 8 << 20;

/// The process that imported this package, whose threads are those of rayon's global pool.
static HOME: OnceLock<u32> = OnceLock::new();
/// The pool of a forked child, by its process.
static CHILD: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Remembers the process that imports the package.
pub fn begin() {
    HOME.get_or_init(process::id);
}

/// Uses this many threads from now on; an error where they have started already.
pub fn set_num_threads(py: Python<'_>, threads: usize) -> PyResult<()> {
    let refuse = |problem: String| Err(raise(py, "InputError", problem));
    if threads == 0 {
        return refuse("the number of threads must be at least 1".to_string());
    }
    let builder = ThreadPoolBuilder::new().num_threads(threads);
    if HOME.get() == Some(&process::id()) {
        return builder.build_global().or_else(|_| {
            refuse("the threads have started already; call set_num_threads before any other work".to_string())
        });
    }
    match builder.build() {
        Ok(pool) => {
            *CHILD.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((process::id(), Arc::new(pool)));
            Ok(())
        }
        Err(error) => refuse(format!("the threads could not be started: {error}")),
    }
}

/// The pool of this process where it is a forked child; none in the process that imported the package.
fn child_pool(py: Python<'_>) -> PyResult<Option<Arc<ThreadPool>>> {
    let process = process::id();
    if HOME.get() == Some(&process) {
        return Ok(None);
    }
    let mut known = match CHILD.try_lock() {
        Ok(known) => Some(known),
        Err(TryLockError::Poisoned(known)) => Some(known.into_inner()),
        // Another thread held it when the process was forked, or holds it now.
        Err(TryLockError::WouldBlock) => None,
    };
    if let Some((owner, pool)) = known.as_deref().and_then(Option::as_ref)
        && *owner == process
    {
        return Ok(Some(Arc::clone(pool)));
    }
    let pool = ThreadPoolBuilder::new().stack_size(STACK).build().map_err(|error| {
        raise(py, "NumericalError", format!("the threads of a forked process could not be started: {error}"))
    })?;
    let pool = Arc::new(pool);
    if let Some(known) = known.as_deref_mut() {
        // A parent's pool is not dropped: its threads are not here to be joined.
        std::mem::forget(known.replace((process, Arc::clone(&pool))));
    }
    Ok(Some(pool))
}

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
    let pool = child_pool(py)?;
    let caller = thread::current();
    let (outcome, interruption) = thread::scope(|scope| {
        let worker = || {
            // Woken on the way out, also by a panic.
            let _wake = Wake { caller: &caller, finished: &shared.finished };
            match &pool {
                Some(pool) => pool.install(|| work(&shared)),
                None => work(&shared),
            }
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

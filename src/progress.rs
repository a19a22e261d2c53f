//! Progress of long work: the caller is told of every finished piece, and may cancel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// What long work reports to, and asks whether to continue. All methods may be called from any thread.
///
/// `()` is silent and never cancels.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use riemannian_laplace::Progress;
///
/// #[derive(Default)]
/// struct Counter(AtomicUsize);
/// impl Progress for Counter {
///     fn advance(&self) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
/// let counter = Counter::default();
/// counter.advance();
/// assert_eq!(counter.0.into_inner(), 1);
/// ```
pub trait Progress: Sync {
    /// One more piece is done.
    fn advance(&self) {}

    /// Iterative work has done so many of its steps, and this is what it minimises; called from time to time.
    fn step(&self, _done: usize, _value: f64) {}

    /// One more evaluation of a geodesic's acceleration is done.
    fn evaluated(&self) {}

    /// Whether the work should end as soon as it can.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// [`Error::Cancelled`] once the work is cancelled, for use with `?` between pieces.
    fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

impl Progress for () {}

impl<P: Progress + ?Sized> Progress for &P {
    fn advance(&self) {
        (**self).advance();
    }

    fn step(&self, done: usize, value: f64) {
        (**self).step(done, value);
    }

    fn evaluated(&self) {
        (**self).evaluated();
    }

    fn is_cancelled(&self) -> bool {
        (**self).is_cancelled()
    }
}

/// A flag that cancels work: its copies share it, so that one may be kept while another is handed to the work.
///
/// ```
/// use riemannian_laplace::internals::progress::Cancel;
/// use riemannian_laplace::Progress;
/// let cancel = Cancel::new();
/// let handed_over = cancel.clone();
/// assert!(handed_over.check().is_ok());
/// cancel.cancel();
/// assert!(handed_over.check().is_err());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the flag permanently.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Progress for Cancel {
    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

//! Signals: what ends the program, at once or after saving.
//!
//! SIGINT, SIGTERM and SIGHUP end the program with status 130, but for those that are ignored when it starts (`nohup`): they stay
//! ignored. While work runs that can be saved, the first of them only
//! asks it to stop, and the second ends the program. A file that exceeds its limit (SIGXFSZ) is an error of writing like
//! any other.

#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(unix)]
use riemannian_laplace::internals::memory;

use super::failure::Failure;

/// The status of an interrupted program.
pub const INTERRUPTED: u8 = 130;

/// Handlers of signals, installed once at the start.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    /// Whether one has come.
    come: Arc<AtomicBool>,
    /// Whether the next one ends the program.
    ends: Arc<AtomicBool>,
}

impl Signals {
    /// Installs the handlers.
    pub fn install() -> Result<Self, Failure> {
        let signals = Self::default();
        signals.ends.store(true, Ordering::SeqCst);
        #[cfg(unix)]
        signals.register().map_err(|error| Failure::Work(format!("signals cannot be handled: {error}")))?;
        Ok(signals)
    }

    #[cfg(unix)]
    fn register(&self) -> std::io::Result<()> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
        use signal_hook::flag;
        let ignored = ignored(&memory::told_by_kernel(Path::new("/proc/self/status")));
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0) {
            // Handlers run in this order: the first signal sets what makes the second one end the program.
            flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), self.ends.clone())?;
            flag::register(signal, self.ends.clone())?;
            flag::register(signal, self.come.clone())?;
        }
        // With a handler that does nothing of note, the write that is too long returns an error.
        flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(())
    }

    /// From now until the guard is dropped, a signal asks the work to stop instead of ending the program.
    pub fn ask_first(&self) -> AskFirst<'_> {
        self.ends.store(false, Ordering::SeqCst);
        AskFirst { signals: self }
    }

    /// Whether the work was asked to stop.
    pub fn have_come(&self) -> bool {
        self.come.load(Ordering::SeqCst)
    }
}

/// The signals that are ignored, a bit each, by the text of `/proc/self/status`; none where there is no such text.
#[cfg(unix)]
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// While it lives, the first signal does not end the program.
#[derive(Debug)]
pub struct AskFirst<'a> {
    signals: &'a Signals,
}

impl Drop for AskFirst<'_> {
    fn drop(&mut self) {
        self.signals.ends.store(true, Ordering::SeqCst);
    }
}

//! Work that a signal stops: what is asked to end and keeps what there is, and what can only say that nothing is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use riemannian_laplace::internals::progress;

use super::console::{Console, Progress, say};
use super::signals::{AskFirst, INTERRUPTED};

/// How often a watch looks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Progress of work that ends early when a signal comes.
pub struct Stoppable<'a> {
    bar: Progress,
    console: &'a Console,
    _asked: AskFirst<'a>,
}

impl<'a> Stoppable<'a> {
    /// A bar for work of known length, which the first signal asks to stop.
    pub fn bar(console: &'a Console, what: &'static str, length: usize) -> Self {
        Self { bar: console.bar(what, length), console, _asked: console.signals().ask_first() }
    }
}

impl progress::Progress for Stoppable<'_> {
    fn advance(&self) {
        progress::Progress::advance(&self.bar);
    }

    fn step(&self, done: usize, value: f64) {
        progress::Progress::step(&self.bar, done, value);
    }

    fn is_cancelled(&self) -> bool {
        self.console.signals().have_come()
    }
}

/// While it lives, a signal ends the program with a word on what is lost.
#[derive(Debug)]
pub struct NothingKept<'a> {
    done: Arc<AtomicBool>,
    _asked: AskFirst<'a>,
}

impl<'a> NothingKept<'a> {
    /// Watches for a signal from another thread.
    pub fn watch(console: &'a Console, words: &'static str) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let (finished, signals) = (done.clone(), console.signals().clone());
        std::thread::spawn(move || {
            while !finished.load(Ordering::SeqCst) {
                if signals.have_come() {
                    say(words);
                    std::process::exit(i32::from(INTERRUPTED));
                }
                std::thread::sleep(LOOK_EVERY);
            }
        });
        Self { done, _asked: console.signals().ask_first() }
    }
}

impl Drop for NothingKept<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::SeqCst);
    }
}

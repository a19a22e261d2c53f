//! What the program prints besides its results: notes, warnings and progress, on stderr.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use riemannian_laplace::internals::team::Team;
use riemannian_laplace::internals::{printable, progress};

use super::output::short;
use super::signals::Signals;

/// Writes to stderr, with whatever a terminal would obey escaped and long lines cut. If writing fails, nobody is
/// listening, and the work goes on.
pub fn say(message: impl Display) {
    let message = message.to_string();
    let lines: Vec<String> = message.lines().map(printable).collect();
    let _ = writeln!(std::io::stderr(), "{}", lines.join("\n"));
}

/// Where messages go, and which of them are wanted.
#[derive(Debug)]
pub struct Console {
    quiet: bool,
    team: Team,
    signals: Signals,
}

impl Console {
    /// A console that omits notes, progress and summaries when `quiet`. Of a team, only the first speaks.
    pub fn new(quiet: bool, team: Team, signals: Signals) -> Self {
        Self { quiet: quiet || !team.is_first(), team, signals }
    }

    /// Those who share the work.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// The signals that the program was sent.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Whether only results, warnings and errors are wanted.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Something a user may want to know.
    pub fn note(&self, message: impl Display) {
        if !self.quiet {
            say(format_args!("note: {message}"));
        }
    }

    /// Something a user should not miss.
    pub fn warn(&self, message: impl Display) {
        if self.team.is_first() {
            say(format_args!("warning: {message}"));
        }
    }

    /// A bar for work of known length. It draws nothing unless stderr is a terminal, and vanishes when dropped.
    pub fn bar(&self, what: &'static str, length: usize) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(length as u64), self.target());
        let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg} (left: {eta})");
        Progress::start(bar, style, what)
    }

    /// A spinner for work of unknown length.
    pub fn spinner(&self, what: &'static str) -> Progress {
        let bar = ProgressBar::with_draw_target(None, self.target());
        let progress = Progress::start(bar, ProgressStyle::with_template("{spinner} {prefix} ({elapsed})"), what);
        // A tick is a thread, which nobody needs where nothing is drawn.
        if !progress.bar.is_hidden() {
            progress.bar.enable_steady_tick(Duration::from_millis(100));
        }
        progress
    }

    fn target(&self) -> ProgressDrawTarget {
        if self.quiet || !std::io::stderr().is_terminal() {
            return ProgressDrawTarget::hidden();
        }
        ProgressDrawTarget::stderr()
    }
}

/// Progress on the screen, for as long as this value lives.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn start(
        bar: ProgressBar,
        style: Result<ProgressStyle, indicatif::style::TemplateError>,
        what: &'static str,
    ) -> Self {
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        Self { bar }
    }
}

impl Progress {
    /// So many more are done.
    pub fn advance_by(&self, count: usize) {
        self.bar.inc(count as u64);
    }
}

impl progress::Progress for Progress {
    fn advance(&self) {
        self.bar.inc(1);
    }

    fn step(&self, done: usize, value: f64) {
        self.bar.set_position(done as u64);
        self.bar.set_message(format!("loss {}", short(value)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

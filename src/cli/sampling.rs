//! A run of geodesics: what it tells people about its cost, and what may stop it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use riemannian_laplace::internals::geodesic::GeodesicLimits;
use riemannian_laplace::internals::progress;

use super::arguments;
use super::console::{Console, Progress};
use super::output::{counted, in_words};

/// A run that is expected to take longer says so.
const LONG: Duration = Duration::from_secs(15);
/// Before its first sample is finished, a run says after this long what an evaluation takes.
const UNKNOWN: Duration = Duration::from_secs(5);

/// Limits of each geodesic, and of all of them.
#[derive(Debug, Default, Args)]
pub struct LimitArgs {
    /// The most evaluations of one sample's acceleration, over all its attempts; beyond, its status is 1 [default: none]
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    max_evaluations: Option<usize>,
    /// The longest that one sample may take, e.g. 90s or 5m; beyond, its status is 1. Which samples that concerns depends
    /// on the machine [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = arguments::duration)]
    max_time_per_sample: Option<Duration>,
    /// Stop after this long, e.g. 90s, 10m or 2h; what is finished is saved, and --resume goes on [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = arguments::duration)]
    max_time: Option<Duration>,
    /// Stop after this many evaluations of all samples together; what is finished is saved, and --resume goes on
    /// [default: none]
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    max_total_evaluations: Option<usize>,
}

impl LimitArgs {
    /// Those of each geodesic.
    pub fn of_geodesic(&self) -> GeodesicLimits {
        GeodesicLimits { evaluations: self.max_evaluations, time: self.max_time_per_sample }
    }
}

/// The progress of a run: a bar, the expected time, and what may stop it.
#[derive(Debug)]
pub struct Sampling<'a> {
    console: &'a Console,
    bar: Progress,
    /// What one piece of the work is called.
    one: &'static str,
    began: Instant,
    length: usize,
    threads: usize,
    limits: &'a LimitArgs,
    evaluations: AtomicU64,
    done: AtomicU64,
    /// Whether the cost of an evaluation, and of a sample, have been looked at.
    told: [AtomicBool; 2],
    stopped: Mutex<Option<&'static str>>,
}

impl<'a> Sampling<'a> {
    /// A run of as many samples as `length`.
    pub fn begin(console: &'a Console, length: usize, limits: &'a LimitArgs) -> Self {
        Self::of(console, length, limits, ("following geodesics", "sample"))
    }

    /// The same of something else: what is done, and what one of it is called.
    pub fn of(console: &'a Console, length: usize, limits: &'a LimitArgs, words: (&'static str, &'static str)) -> Self {
        Self {
            console,
            bar: console.bar(words.0, length),
            one: words.1,
            began: Instant::now(),
            length,
            threads: rayon::current_num_threads().min(length).max(1),
            limits,
            evaluations: AtomicU64::new(0),
            done: AtomicU64::new(0),
            told: [AtomicBool::new(false), AtomicBool::new(false)],
            stopped: Mutex::new(None),
        }
    }

    /// What stopped the run, in words.
    pub fn stopped_by(&self) -> &'static str {
        self.stopped.lock().ok().and_then(|stopped| *stopped).unwrap_or("interrupted")
    }

    /// Why the run has to stop, if it has to.
    fn stop(&self) -> Option<&'static str> {
        if self.console.signals().have_come() {
            return Some("interrupted");
        }
        if self.limits.max_time.is_some_and(|most| self.began.elapsed() >= most) {
            return Some("stopped by --max-time");
        }
        let evaluations = self.evaluations.load(Ordering::Relaxed);
        match self.limits.max_total_evaluations {
            Some(most) if evaluations >= most as u64 => Some("stopped by --max-total-evaluations"),
            _ => None,
        }
    }

    /// Does something the first time only.
    fn once(flag: &AtomicBool, act: impl FnOnce()) {
        if !flag.swap(true, Ordering::Relaxed) {
            act();
        }
    }
}

impl progress::Progress for Sampling<'_> {
    fn advance(&self) {
        self.bar.advance();
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let [_, of_sample] = &self.told;
        // Samples of an earlier run take no evaluations, and no time.
        if self.evaluations.load(Ordering::Relaxed) == 0 {
            return;
        }
        Self::once(of_sample, || {
            let taken = self.began.elapsed();
            let left = self.length.saturating_sub(done as usize);
            let expected = taken.mul_f64(left as f64 / self.threads as f64);
            if expected > LONG {
                self.console.note(format!(
                    "the first {} took {}: {} more on {} take about {}",
                    self.one,
                    in_words(taken),
                    left,
                    counted(self.threads, "thread"),
                    in_words(expected),
                ));
            }
        });
    }

    fn evaluated(&self) {
        let evaluations = self.evaluations.fetch_add(1, Ordering::Relaxed) + 1;
        let [of_evaluation, of_sample] = &self.told;
        if of_evaluation.load(Ordering::Relaxed) || of_sample.load(Ordering::Relaxed) {
            return;
        }
        let taken = self.began.elapsed();
        if taken > UNKNOWN {
            Self::once(of_evaluation, || {
                let each = taken.mul_f64(self.threads as f64 / evaluations as f64);
                self.console.note(format!(
                    "an evaluation takes {} on each thread, and a {} a hundred evaluations or several hundred: {} may \
                     take {} or longer (--max-evaluations and --max-time set limits)",
                    in_words(each),
                    self.one,
                    counted(self.length, self.one),
                    in_words(each.mul_f64(100.0 * self.length as f64 / self.threads as f64)),
                ));
            });
        }
    }

    fn step(&self, done: usize, value: f64) {
        self.bar.step(done, value);
    }

    fn is_cancelled(&self) -> bool {
        let Some(reason) = self.stop() else { return false };
        if let Ok(mut stopped) = self.stopped.lock() {
            stopped.get_or_insert(reason);
        }
        true
    }
}

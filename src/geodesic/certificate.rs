//! What is certified of a geodesic: its *path*, or only its *law*.
//!
//! | certificate | what it says |
//! |---|---|
//! | path | the end is that of this velocity's geodesic, to [`Geodesic::end_error`](super::Geodesic::end_error) σ at the data |
//! | law | speed and graph are kept: the distribution is right, a single end is not reproducible |
//!
//! Both need all of [`Kept`]. A path also needs an estimate of the error of the *end*: the geodesic is integrated at two
//! tolerances a factor of about ten apart, and the outputs at the data are compared: five times the largest difference is
//! the error that is stated. The drift cannot take the place of
//! that: it sees errors along the velocity only. Where ends differ by more than [`END_BOUND`], the tolerance is tightened;
//! where that does not bring them closer, neighbouring geodesics part faster than any tolerance can follow, and the law is
//! what remains.

use crate::ode::Status;

/// The largest error of a certified path's end: the largest difference of the outputs at a data point, in σ.
pub const END_BOUND: f64 = 0.1;
/// The largest distance from the graph of anything certified, in σ.
pub const OFF_GRAPH_BOUND: f64 = 0.1;
/// On the way the drift may be this many times the target: it rises and falls there, while the end is what is used.
pub(super) const ON_THE_WAY: f64 = 5.0;
/// What an end is said to be wrong by, relative to its difference from an end at another tolerance: the two may err alike.
/// (Of 1,000 ends, 22 were further from the truth than from the other end, by a factor of 3.6 at most.)
const SAFETY: f64 = 5.0;
/// The least error that is stated: below, differences say little.
const LEAST: f64 = 1e-3;
/// A tolerance tightened tenfold must bring the ends closer by this factor, at least once in two attempts.
const CLOSER: f64 = 0.5;

/// What is certified of a geodesic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Certificate {
    /// The speed and the graph are kept.
    Law,
    /// The end is that of this velocity's geodesic.
    Path,
}

impl Certificate {
    /// The word for it, in reports and files.
    ///
    /// ```
    /// use riemannian_laplace::internals::geodesic::Certificate;
    /// assert_eq!(Certificate::Path.name(), "path");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Certificate::Law => "law",
            Certificate::Path => "path",
        }
    }
}

/// Whether ends are compared at two tolerances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndCheck {
    /// With fewer than 50,000 parameters. Beyond, single ends are rarely reproducible, and the law is certified.
    #[default]
    Auto,
    /// Always. Paths are then not pulled to the graph.
    Always,
    /// Never: only the law is certified, for about two thirds of the evaluations.
    Never,
}

impl EndCheck {
    /// All of them.
    pub const ALL: [EndCheck; 3] = [EndCheck::Auto, EndCheck::Always, EndCheck::Never];

    /// The name, as the program has it.
    pub const fn name(self) -> &'static str {
        match self {
            EndCheck::Auto => "auto",
            EndCheck::Always => "always",
            EndCheck::Never => "never",
        }
    }
}

/// What a geodesic keeps, as far as it was computed. What is NaN is within no bound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub drift: f64,
    pub path_drift: f64,
    pub residual: f64,
    pub off_graph: Option<f64>,
}

impl Kept {
    /// Whether the speed is kept.
    pub(super) fn straight(&self, target: f64) -> bool {
        self.drift <= target && self.path_drift <= ON_THE_WAY * target
    }

    /// Whether the solver met its tolerance.
    pub(super) fn solved(&self, target: f64) -> bool {
        self.residual <= target
    }

    /// Whether the path stayed on the graph of its outputs, where there is one.
    pub(super) fn on_graph(&self) -> bool {
        self.off_graph.is_none_or(|off| off <= OFF_GRAPH_BOUND)
    }

    /// Whether everything is within its bounds.
    pub(super) fn all(&self, status: Status, target: f64) -> bool {
        status == Status::Reached && self.straight(target) && self.solved(target) && self.on_graph()
    }
}

/// The error stated of an end that differs by this much from one at another tolerance; infinite where that is not known.
pub(super) fn stated_error(difference: Option<f64>) -> f64 {
    difference
        .filter(|difference| !difference.is_nan())
        .map_or(f64::INFINITY, |difference| LEAST.max(SAFETY * difference))
}

/// The errors of the end at the tolerances tried so far.
#[derive(Debug, Default)]
pub(super) struct EndErrors {
    last: Option<f64>,
    stuck: usize,
}

impl EndErrors {
    /// Takes the estimate at the next tighter tolerance; true where tightening has twice not brought ends closer.
    pub(super) fn diverge(&mut self, error: f64) -> bool {
        if error.is_finite() {
            let closer = self.last.is_none_or(|last| error <= CLOSER * last);
            self.stuck = if closer { 0 } else { self.stuck + 1 };
            self.last = Some(error);
        }
        self.stuck >= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_diverge_once_two_tighter_tolerances_have_not_brought_them_closer() {
        let mut errors = EndErrors::default();
        assert!(![0.9, 0.8, f64::INFINITY, 0.2, 0.3].into_iter().any(|error| errors.diverge(error)));
        assert!(errors.diverge(0.25));
    }

    #[test]
    fn what_is_not_a_number_is_kept_by_nothing() {
        let kept = Kept { drift: 0.0, path_drift: 0.0, residual: 0.0, off_graph: Some(0.0) };
        assert!(kept.all(Status::Reached, 1e-3) && !kept.all(Status::StepLimit, 1e-3));
        for broken in [
            Kept { drift: f64::NAN, ..kept },
            Kept { path_drift: f64::NAN, ..kept },
            Kept { residual: f64::NAN, ..kept },
            Kept { off_graph: Some(f64::NAN), ..kept },
            Kept { off_graph: Some(0.97), ..kept },
        ] {
            assert!(!broken.all(Status::Reached, 1e-3), "{broken:?}");
        }
    }
}

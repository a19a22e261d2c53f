//! When a geodesic is integrated again, and at which tolerance: the one policy for all integrators.

use super::attempt::Budget;
use super::certificate::{Certificate, END_BOUND, EndCheck, EndErrors, Kept, ON_THE_WAY};
use super::exponential::{Accuracy, Geodesic, GeodesicOptions};
use crate::ode::Status;

/// An attempt whose drift exceeds this many times the target on the way is abandoned: where a path leaves its geodesic,
/// steps become short, and no path returns.
const HOPELESS: f64 = 20.0;
/// The same for a path that is pulled to the graph: there the drift is quadratic in the error, errors decay, and steps
/// become shorter long before.
const HOPELESS_WITH_PULL: f64 = 200.0;
/// From this many parameters on, ends are compared at two tolerances only on request.
const ENDS_OF_FEWER: usize = 50_000;
/// The tolerance of the integration that an end is compared with, relative to that of the path. Of a path that is refined
/// to a target it is looser, and the difference is mostly its own error: an estimate on the safe side.
const LOOSER: f64 = 10.0;
/// The same where tolerances are fixed, and may be so loose that a tenth changes the steps little: the two ends would err alike.
const TIGHTER: f64 = 0.01;
/// By how much a tolerance is tightened where nothing says by how much it should be.
const TIGHTEN: f64 = 0.1;

/// The attempts at one geodesic.
pub(super) struct Refinement {
    pub tolerances: (f64, f64),
    /// Integrations begun, and how many there may be.
    pub attempt: usize,
    attempts: usize,
    target: f64,
    /// The drift at which an attempt is abandoned.
    pub hopeless: f64,
    pub budget: Budget,
    pub evaluations: usize,
    pub check_evaluations: usize,
    /// Evaluations of the last attempt.
    last_evaluations: usize,
    is_pulled: bool,
    is_fixed: bool,
    /// Whether ends are compared at two tolerances.
    pub checks_end: bool,
    /// The end of an earlier attempt.
    pub looser: Option<Vec<f64>>,
    errors: EndErrors,
    /// The last attempt that kept everything but its end.
    kept: Option<Geodesic>,
}

impl Refinement {
    pub(super) fn new(options: &GeodesicOptions, n_params: usize, is_pulled: bool) -> Self {
        let (target, attempts) = options.certificate();
        let hopeless = if is_pulled { HOPELESS_WITH_PULL } else { HOPELESS };
        let checks_end = match options.end_check {
            EndCheck::Auto => n_params < ENDS_OF_FEWER,
            EndCheck::Always => true,
            EndCheck::Never => false,
        };
        Self {
            tolerances: options.first_tolerances(n_params),
            attempt: 0,
            attempts,
            target,
            hopeless: hopeless * target,
            budget: Budget::of(options.limits),
            evaluations: 0,
            check_evaluations: 0,
            last_evaluations: 0,
            is_pulled,
            is_fixed: matches!(options.accuracy, Accuracy::Tolerances { .. }),
            checks_end: checks_end && !is_pulled,
            looser: None,
            errors: EndErrors::default(),
            kept: None,
        }
    }

    /// Whether no attempt follows this one.
    pub(super) fn is_last(&self) -> bool {
        self.attempt >= self.attempts
    }

    /// Counts the evaluations of an attempt.
    pub(super) fn spend(&mut self, evaluations: usize) {
        self.evaluations += evaluations;
        self.last_evaluations = evaluations;
        self.budget.spend(evaluations);
    }

    /// The tolerances of the integration that an end is compared with.
    pub(super) fn tolerances_of_check(&self) -> (f64, f64) {
        let factor = if self.is_fixed { TIGHTER } else { LOOSER };
        (factor * self.tolerances.0, factor * self.tolerances.1)
    }

    /// The budget of that integration: a looser one that takes longer than the path has left its geodesic.
    pub(super) fn budget_of_check(&self) -> Budget {
        self.budget.at_most(4 * self.last_evaluations + 100)
    }

    /// Whether everything but the end is within its bounds.
    pub(super) fn keeps(&self, geodesic: &Geodesic) -> bool {
        kept(geodesic).all(geodesic.status, self.target)
    }

    /// The geodesic with its certificate, if this attempt was the last; otherwise sets the tolerance of the next.
    pub(super) fn judge(&mut self, found: Option<Geodesic>) -> Option<Geodesic> {
        let Some(geodesic) = found else {
            self.tighten(TIGHTEN);
            return None;
        };
        if self.keeps(&geodesic) {
            return self.judge_end(geodesic);
        }
        let (what, stopped) = (kept(&geodesic), geodesic.status == Status::StepLimit);
        // A tighter tolerance does not help a solver that could not meet its own.
        let unsolved = what.straight(self.target) && !what.solved(self.target);
        if stopped || unsolved || self.is_last() {
            // An end that was reached is worth more than none.
            let kept = self.kept.take().filter(|_| geodesic.status != Status::Reached);
            return Some(kept.map_or(geodesic, |kept| self.counted(kept)));
        }
        let tighten = self.missing(&what);
        if geodesic.status == Status::Reached {
            self.looser = Some(geodesic.theta);
        }
        self.tighten(tighten);
        None
    }

    /// The same for an attempt that kept everything but perhaps its end.
    fn judge_end(&mut self, geodesic: Geodesic) -> Option<Geodesic> {
        let certified = |certificate| Geodesic { certificate: Some(certificate), certified: true, ..geodesic.clone() };
        if !self.checks_end {
            return Some(certified(Certificate::Law));
        }
        if geodesic.end_error <= END_BOUND {
            return Some(certified(Certificate::Path));
        }
        if self.errors.diverge(geodesic.end_error) {
            return Some(certified(Certificate::Law));
        }
        if self.is_last() {
            return Some(geodesic);
        }
        self.looser = Some(geodesic.theta.clone());
        self.kept = Some(geodesic);
        self.tighten(TIGHTEN);
        None
    }

    /// An earlier attempt, with the evaluations of all.
    fn counted(&self, geodesic: Geodesic) -> Geodesic {
        let (evaluations, check_evaluations) = (self.evaluations, self.check_evaluations);
        Geodesic { evaluations, check_evaluations, attempts: self.attempt, ..geodesic }
    }

    fn tighten(&mut self, factor: f64) {
        self.tolerances = (factor * self.tolerances.0, factor * self.tolerances.1);
    }

    /// By how much the tolerance must be tightened. The drift is about proportional to it; half of the target leaves room for
    /// "about". For a path that is pulled to the graph it is proportional to the square.
    fn missing(&self, what: &Kept) -> f64 {
        if what.straight(self.target) {
            return TIGHTEN;
        }
        let mut missing = 0.5 * self.target / what.drift.max(what.path_drift / ON_THE_WAY);
        if self.is_pulled {
            missing = missing.sqrt();
        }
        if missing.is_finite() { missing.clamp(1e-3, 0.2) } else { TIGHTEN }
    }
}

fn kept(geodesic: &Geodesic) -> Kept {
    let Geodesic { drift, path_drift, residual, off_graph, .. } = *geodesic;
    Kept { drift, path_drift, residual, off_graph }
}

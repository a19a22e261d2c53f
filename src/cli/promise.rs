//! Which intervals and sets are written: those of the predictive distribution, or calibrated ones with their guarantee.

use clap::{Args, ValueEnum};
use riemannian_laplace::internals::conformal::{CalibrationError, Score};
use riemannian_laplace::internals::evaluate::{FoldPosteriors, fold_scores};
use riemannian_laplace::{Error, Laplace, Method};

use super::console::Console;
use super::failure::Failure;
use super::output::{counted, short};

/// Where an interval comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IntervalMethod {
    /// The predictive distribution itself; no guarantee
    AsFitted,
    /// The scores of the rows that `rla calibrate` was given; guaranteed
    Split,
    /// The scores of the rows that each fold of `rla train --cross-validate` left out scale the spread; calibrated in
    /// measurement, without a guarantee
    Folds,
    /// Those scores around the predictions of the folds' own networks; guaranteed 1 − 2α, and usually wide
    #[value(name = "cv+")]
    CvPlus,
}

/// The sets of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sets {
    /// The smallest sets on average
    Lac,
    /// Sets that grow where the network is unsure
    Aps,
}

impl Sets {
    /// The library's name.
    pub fn score(self) -> Score {
        match self {
            Sets::Lac => Score::Lac,
            Sets::Aps => Score::Aps,
        }
    }
}

/// The options.
#[derive(Debug, Args)]
pub struct PromiseArgs {
    /// Where intervals and sets come from [default: split, where the posterior is calibrated for the method; folds, where the
    /// network was trained with --cross-validate and keeps its prior and noise; else as-fitted]
    #[arg(long, value_enum, value_name = "WHAT")]
    interval_method: Option<IntervalMethod>,
    /// The sets of classes of a calibrated posterior [default: lac]
    #[arg(long, value_enum, value_name = "WHAT")]
    sets: Option<Sets>,
}

/// What is written.
#[derive(Debug, Clone)]
pub enum Promise {
    /// The predictive distribution's own.
    AsFitted { level: f64 },
    /// Calibrated.
    Split { level: f64, score: Option<Score> },
    /// Scaled by the scores of the folds.
    Folds { level: f64, score: Option<Score> },
    /// From the networks of the folds.
    CvPlus { level: f64, folds: Box<FoldPosteriors> },
}

impl PromiseArgs {
    /// Chooses, and names the guarantee.
    pub fn settle(
        &self,
        level: Option<f64>,
        laplace: &Laplace,
        method: &Method,
        is_latent: bool,
        console: &Console,
    ) -> Result<Promise, Failure> {
        let known = laplace.calibration();
        let level = level.or(known.map(|known| known.level)).unwrap_or(0.9);
        let score = self.sets.map(Sets::score);
        if self.sets.is_some() && !laplace.family().has_classes() {
            let name = laplace.family().likelihood().name();
            return Err(Failure::Usage(format!("--sets belongs to classes; a {name} likelihood has intervals")));
        }
        if is_latent || self.interval_method == Some(IntervalMethod::AsFitted) {
            return Ok(Promise::AsFitted { level });
        }
        if self.interval_method == Some(IntervalMethod::CvPlus) {
            let folds =
                Box::new(FoldPosteriors::of(laplace, score).map_err(|error| no_folds("cv+", laplace, method, error))?);
            console.note(format!(
                "CV+: a new observation is inside with probability at least {}, whatever the model; usually above {}",
                short(1.0 - 2.0 * (1.0 - level)),
                short(level)
            ));
            return Ok(Promise::CvPlus { level, folds });
        }
        let signature = method.signature(laplace.family());
        let kinds = Score::of_family(laplace.family());
        let wanted = score.as_ref().map_or(kinds, std::slice::from_ref);
        let may_fold = known.is_none() && matches!(self.interval_method, None | Some(IntervalMethod::Folds));
        if may_fold && fold_scores(laplace, method).is_some() {
            console.note(
                "the spread is scaled by the scores of the rows that each fold left out: calibrated in measurement, without a \
                 guarantee (`rla calibrate` gives one; --interval-method as-fitted leaves the spread as it is)",
            );
            return Ok(Promise::Folds { level, score });
        }
        if self.interval_method == Some(IntervalMethod::Folds) {
            let error = Error::Calibration(CalibrationError::OtherMethod { method: signature, calibrated: None });
            return Err(no_folds("folds", laplace, method, error));
        }
        let found = known.filter(|known| known.of(&signature, wanted).is_some());
        let Some(calibration) = found else {
            let calibrated = known.map(|known| known.methods_in_words());
            if self.interval_method.is_some() || self.sets.is_some() {
                return Err(Error::Calibration(CalibrationError::OtherMethod { method: signature, calibrated }).into());
            }
            if let Some(calibrated) = calibrated {
                console.warn(format!(
                    "the posterior is calibrated for {calibrated}, and not for {signature}: without a guarantee"
                ));
            }
            return Ok(Promise::AsFitted { level });
        };
        calibration.check_level(level)?;
        let what = if laplace.family().has_classes() { "the sets" } else { "lower and upper" };
        let rows = counted(calibration.n_rows(), "calibration row");
        let group =
            calibration.groups.as_ref().map_or(String::new(), |groups| format!(", in each group of {}", groups.column));
        let shift = calibration.weights.as_ref().map_or("", |_| " weighted");
        console.note(format!(
            "{what} contain a new observation with probability at least {}, whatever the model (split conformal, {rows}){group}, \
             for rows like the{shift} calibration rows",
            short(level)
        ));
        Ok(Promise::Split { level, score })
    }
}

/// Why there are no scores of folds.
fn no_folds(option: &str, laplace: &Laplace, method: &Method, error: Error) -> Failure {
    if fold_scores(laplace, method).is_some() {
        return error.into();
    }
    Failure::Usage(format!(
        "--interval-method {option} needs the left-out rows of `rla train --cross-validate` (without --committee), a posterior of \
         all weights under the prior and the noise of that training, and --method glm with its default link"
    ))
}

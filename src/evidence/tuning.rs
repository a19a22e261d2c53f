//! Post-hoc tuning: BFGS on the log evidence in (log α, log σ), started from the best point of a coarse grid.

use crate::error::{AtBound, Error, Result, Unsupported};
use crate::laplace::{CurvatureKind, Laplace, LogDet, LogDetForm, PriorValues};
use crate::likelihood::Dispersion;
use crate::linalg::dot;
use crate::memory;
use crate::optimize::{BfgsOptions, Minimum, golden_section, minimize};
use crate::prior::PriorStructure;
use crate::progress::Progress;

/// Whether a hyperparameter is tuned or keeps its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Free {
    /// Maximise over it.
    Tuned,
    /// Keep its current value.
    Held,
}

/// Settings of [`optimize`].
#[derive(Debug, Clone, PartialEq)]
pub struct EvidenceOptions {
    /// Whether the prior precision is tuned (default: yes).
    pub prior: Free,
    /// One prior precision, one per layer, or one per weight (default: one).
    pub prior_structure: PriorStructure,
    /// Whether σ is tuned, where there is one (default: yes). In a posterior with one σ per output, each is tuned.
    pub sigma: Free,
    /// The least and greatest values that a hyperparameter may take (default: 1e-10 and 1e10).
    pub bounds: (f64, f64),
    /// The most BFGS iterations (default: 200).
    pub max_iterations: usize,
}

impl Default for EvidenceOptions {
    fn default() -> Self {
        Self {
            prior: Free::Tuned,
            prior_structure: PriorStructure::Scalar,
            sigma: Free::Tuned,
            bounds: (1e-10, 1e10),
            max_iterations: 200,
        }
    }
}

impl EvidenceOptions {
    /// The default settings, with bounds that are as far from the size of a posterior's residuals as they usually are from
    /// 1: targets in very large or very small units are tuned as any others.
    pub fn for_posterior(laplace: &Laplace) -> Self {
        let usual = Self::default();
        let size = residual_size(laplace).unwrap_or(1.0);
        let (low, high) = usual.bounds;
        Self { bounds: (low * size.min(1.0), high * size.max(1.0)), ..usual }
    }
}

/// The root mean square of the residuals of a posterior with noise, in the units of the model; none where it is zero.
fn residual_size(laplace: &Laplace) -> Option<f64> {
    let errors = laplace.goodness().squared_errors();
    let count = laplace.goodness().weight() * errors.len() as f64;
    let size = errors.iter().map(|error| error / count).sum::<f64>().sqrt();
    size.is_normal().then_some(size)
}

/// Prior precision and noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Hyperparameters {
    /// One α, one per layer, or one per weight.
    pub prior_precision: Vec<f64>,
    /// One σ, one per output, or none.
    pub sigma: Vec<f64>,
}

/// The outcome of tuning.
#[derive(Debug, Clone, PartialEq)]
pub struct EvidenceOptimum {
    /// The best hyperparameters.
    pub hyperparameters: Hyperparameters,
    /// The log marginal likelihood there.
    pub log_marginal_likelihood: f64,
    /// Whether the gradient vanished (up to rounding) in every direction that is not at a bound.
    pub converged: bool,
    /// The hyperparameters that ran to a bound.
    pub at_bound: Vec<AtBound>,
    /// BFGS iterations.
    pub iterations: usize,
    /// Evaluations of the evidence.
    pub evaluations: usize,
    /// The largest derivative of the evidence with respect to a log hyperparameter at the optimum.
    pub gradient_norm: f64,
}

/// Grid points along each free hyperparameter when looking for a start.
const GRID: usize = 25;
/// The grid's range of log values.
const GRID_RANGE: (f64, f64) = (-14.0, 14.0);
/// Times that a log determinant which is an estimate is refined around the optimum so far.
const MOST_REFINEMENTS: usize = 4;

/// Residuals whose logarithm is beyond this are not of about the size 1.
const FAR: f64 = 10.0;

/// Maximises the log marginal likelihood over prior precision and σ, and refits with the optimum.
///
/// `progress` advances by one with every evaluation of the evidence, and may cancel between two of them and between the
/// decompositions of the curvature; the posterior is then as it was.
pub fn optimize(laplace: &mut Laplace, options: &EvidenceOptions, progress: &dyn Progress) -> Result<EvidenceOptimum> {
    let (mut tuned, evaluations) = tune_dispersions(laplace, options, progress)?;
    let mut optimum = maximize(&tuned, options, progress)?;
    optimum.evaluations += evaluations;
    progress.check()?;
    if !optimum.converged && laplace.curvature_kind() == CurvatureKind::Hessian {
        return Err(Error::UnboundedEvidence);
    }
    let Hyperparameters { prior_precision, sigma } = &optimum.hyperparameters;
    let prior = match laplace.prior().is_earlier_posterior() {
        true => PriorValues::of(laplace.prior()),
        false => PriorValues::with_structure(prior_structure(laplace, options), prior_precision.clone()),
    };
    match (tuned.set_hyperparameters(&prior, sigma), optimum.at_bound.first()) {
        (Err(error), Some(bound)) => Err(Error::TunedToBound { bound: bound.clone(), source: Box::new(error) }),
        (Err(error), None) => Err(error),
        (Ok(()), _) => {
            *laplace = tuned;
            Ok(optimum)
        }
    }
}

/// How far around its start the logarithm of a dispersion parameter is searched, at first.
const DISPERSION_REACH: f64 = 4.0;
/// The points of the coarse search.
const DISPERSION_GRID: usize = 9;
/// Rounds over all dispersion parameters at most, and the accuracy of a coordinate at which a search ends.
const DISPERSION_ROUNDS: usize = 8;
const DISPERSION_TOLERANCE: f64 = 1e-3;

/// The posterior at the dispersion parameters with the greatest evidence, each point with the best prior there, and the
/// evaluations: one parameter after another, on a coarse grid at first and by golden sections around the best point then,
/// until a round gains nothing. (The likelihood is not conjugate in them: every point sums over the data again.)
fn tune_dispersions(laplace: &Laplace, options: &EvidenceOptions, progress: &dyn Progress) -> Result<(Laplace, usize)> {
    let mut parameters = laplace.family().likelihood().dispersions();
    if options.sigma == Free::Held || parameters.is_empty() {
        return Ok((laplace.clone(), 0));
    }
    let mut evaluations = 0;
    let mut evidence_at = |parameters: &[Dispersion]| -> Result<f64> {
        progress.check()?;
        let values: Vec<f64> = parameters.iter().map(|parameter| parameter.value).collect();
        let optimum = match laplace.with_dispersions(&values) {
            Err(Error::NotFinite { .. } | Error::NotPositiveDefinite { .. }) => return Ok(f64::NEG_INFINITY),
            moved => maximize(&moved?, options, progress)?,
        };
        evaluations += optimum.evaluations;
        Ok(optimum.log_marginal_likelihood)
    };
    let mut best = evidence_at(&parameters)?;
    for round in 0..DISPERSION_ROUNDS {
        let before = best;
        for k in 0..parameters.len() {
            let mut reach = DISPERSION_REACH / 4f64.powi(round as i32);
            let (low, high) = parameters[k].free_bounds();

            let mut at = |free: f64, parameters: &mut Vec<Dispersion>| -> Result<f64> {
                let mut moved = parameters.clone();
                moved[k].value = moved[k].at(free);
                let value = evidence_at(&moved)?;
                if value > best {
                    (best, *parameters) = (value, moved);
                }
                Ok(value)
            };
            if round == 0 {
                let grid = parameters[k].grid(reach, DISPERSION_GRID);
                reach = (grid[1] - grid[0]).max(2.0 * reach / (DISPERSION_GRID - 1) as f64);
                for free in grid {
                    at(free, &mut parameters)?;
                }
            }
            let centre = parameters[k].free();
            let ends = ((centre - reach).max(low), (centre + reach).min(high));
            golden_section(ends, DISPERSION_TOLERANCE, |free| at(free, &mut parameters).map(|value| -value))?;
        }
        if best - before < 1e-7 * (1.0 + best.abs()) {
            break;
        }
    }
    let values: Vec<f64> = parameters.iter().map(|parameter| parameter.value).collect();
    Ok((laplace.with_dispersions(&values)?, evaluations))
}

/// The structure of the prior at the optimum: the one to tune, or the one that is held.
fn prior_structure(laplace: &Laplace, options: &EvidenceOptions) -> PriorStructure {
    match options.prior {
        Free::Tuned if !laplace.prior().is_earlier_posterior() => options.prior_structure,
        Free::Tuned | Free::Held => laplace.prior().structure(),
    }
}

/// The optimum over σ alone, beside a prior that is an earlier posterior with correlations: its share is constant.
fn maximize_noise(laplace: &Laplace, options: &EvidenceOptions, progress: &dyn Progress) -> Result<EvidenceOptimum> {
    let log_det = laplace.curvature()?.log_det_beside(laplace.prior())?;
    let sigma: Vec<f64> = laplace.family().sigma().unwrap_or_default().iter().map(|value| value.ln()).collect();
    let options = EvidenceOptions { prior: Free::Held, ..options.clone() };
    let mut problem =
        Problem::new(laplace, &*log_det, (PriorStructure::PerWeight, Vec::new()), sigma.clone(), &options);
    problem.constant = laplace.prior().quadratic(&laplace.prior_mean().deviations(laplace.parameters()));
    let start = if sigma.len() == 1 { None } else { Some(problem.pack(&[], &sigma)) };
    let (minimum, evaluations) = problem.solve(start, &options, progress)?;
    Ok(problem.report(minimum, evaluations))
}

/// The maximum of the evidence of a fitted posterior.
fn maximize(laplace: &Laplace, options: &EvidenceOptions, progress: &dyn Progress) -> Result<EvidenceOptimum> {
    if !laplace.prior().is_proper() {
        return Err(Error::Unsupported(Unsupported::ImproperEvidence));
    }
    let (low, high) = options.bounds;
    if !(low > 0.0 && low < high && high.is_finite()) {
        return Err(Error::Bounds { low, high });
    }
    if laplace.prior().matrix().is_some() {
        return maximize_noise(laplace, options, progress);
    }
    let held;
    let options = match laplace.prior().is_earlier_posterior() {
        true => {
            held = EvidenceOptions { prior: Free::Held, ..options.clone() };
            &held
        }
        false => options,
    };
    let held_alpha: Vec<f64> = laplace.prior().values().iter().map(|value| value.ln()).collect();
    let held_sigma: Vec<f64> = laplace.family().sigma().unwrap_or_default().iter().map(|value| value.ln()).collect();
    let structure = prior_structure(laplace, options);
    let n_alpha = structure.shares(laplace.prior().groups()).len();
    if structure == PriorStructure::PerWeight {
        let advice = "tune one prior precision per layer, which needs far less";
        memory::check("tuning one prior precision per weight", 2.0 * (n_alpha as f64).powi(2), advice)?;
    }
    let simple = structure == PriorStructure::Scalar && held_sigma.len() <= 1;
    let curvature = laplace.curvature()?;
    // One α and one σ: everything from the spectrum. The search with more hyperparameters starts from this optimum.
    let mut start = (held_alpha.clone(), held_sigma.clone());
    let mut evaluations = 0;
    let can_start = simple
        || (options.prior == Free::Tuned && held_sigma.len() <= 1)
        || (options.prior == Free::Tuned && options.sigma == Free::Tuned);
    if can_start {
        let log_det = curvature.log_det(LogDetForm::Shared)?;
        let one_sigma: Vec<f64> = held_sigma.first().copied().into_iter().collect();
        let alpha = vec![held_alpha[0]];
        let problem = Problem::new(laplace, &*log_det, (PriorStructure::Scalar, alpha), one_sigma, options);
        let (minimum, count) = problem.solve(None, options, progress)?;
        evaluations += count;
        let (alpha, sigma) = problem.unpack(&minimum.point);
        if simple {
            return Ok(problem.report(minimum, evaluations));
        }
        start = (alpha, sigma);
    }
    // The values in the number to be tuned: unchanged, or all replaced by their (geometric) mean.
    let spread = |values: &[f64], count: usize| match values.len() {
        found if found == count => values.to_vec(),
        found => vec![values.iter().sum::<f64>() / found as f64; count],
    };
    let alpha = if options.prior == Free::Tuned { spread(&start.0, n_alpha) } else { held_alpha };
    let sigma = if options.sigma == Free::Tuned { spread(&start.1, held_sigma.len()) } else { held_sigma };
    progress.check()?;
    let log_det = curvature.log_det(LogDetForm::General { prior: structure })?;
    let problem = Problem::new(laplace, &*log_det, (structure, alpha.clone()), sigma.clone(), options);
    let (minimum, count) = problem.solve(Some(problem.pack(&alpha, &sigma)), options, progress)?;
    Ok(problem.report(minimum, evaluations + count))
}

/// The evidence as a function of the free log hyperparameters.
pub(super) struct Problem<'a> {
    laplace: &'a Laplace,
    log_det: &'a dyn LogDet,
    /// log α: the values that are held, or the start of the search.
    alpha: Vec<f64>,
    sigma: Vec<f64>,
    tune_alpha: bool,
    tune_sigma: bool,
    /// ‖θ̂ − μ‖² of the parameters under each α.
    scatter: Vec<f64>,
    /// (θ̂ − μ)ᵀA(θ̂ − μ) of a prior without any α.
    constant: f64,
    /// The bounds of the hyperparameters, and their logarithms.
    limits: (f64, f64),
    bounds: (f64, f64),
}

impl<'a> Problem<'a> {
    pub(super) fn new(
        laplace: &'a Laplace,
        log_det: &'a dyn LogDet,
        (structure, alpha): (PriorStructure, Vec<f64>),
        sigma: Vec<f64>,
        options: &EvidenceOptions,
    ) -> Self {
        let deviations = laplace.prior_mean().deviations(laplace.parameters());
        let mut rest = &deviations[..];
        let shares = structure.shares(laplace.prior().groups()).into_iter();
        let squares = shares.map(|size| {
            let (part, after) = rest.split_at(size);
            rest = after;
            dot(part, part)
        });
        let scatter = squares.take(alpha.len()).collect();
        let tune_sigma = options.sigma == Free::Tuned && !sigma.is_empty();
        let tune_alpha = options.prior == Free::Tuned;
        let (limits, bounds) = (options.bounds, (options.bounds.0.ln(), options.bounds.1.ln()));
        Self { laplace, log_det, alpha, sigma, tune_alpha, tune_sigma, scatter, constant: 0.0, limits, bounds }
    }

    pub(super) fn pack(&self, alpha: &[f64], sigma: &[f64]) -> Vec<f64> {
        let mut point = Vec::new();
        if self.tune_alpha {
            point.extend(alpha);
        }
        if self.tune_sigma {
            point.extend(sigma);
        }
        point
    }

    fn unpack(&self, point: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let split = if self.tune_alpha { self.alpha.len() } else { 0 };
        let alpha = if self.tune_alpha { point[..split].to_vec() } else { self.alpha.clone() };
        let sigma = if self.tune_sigma { point[split..].to_vec() } else { self.sigma.clone() };
        (alpha, sigma)
    }

    /// The negative log evidence and its gradient.
    pub(super) fn evaluate(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let (alpha, sigma) = self.unpack(point);
        let Some(ratio) = self.log_det.evaluate(&alpha, &self.laplace.problem().log_scales(&sigma)) else {
            gradient.fill(0.0);
            return f64::INFINITY;
        };
        let precision: Vec<f64> = alpha.iter().map(|value| value.exp()).collect();
        let noise: Vec<f64> =
            if sigma.is_empty() { vec![1.0] } else { sigma.iter().map(|value| value.exp()).collect() };
        let (weight, temperature) = (self.laplace.goodness().weight(), self.laplace.temperature());
        let value = 0.5 * (ratio.value + dot(&precision, &self.scatter) + self.constant)
            - self.laplace.goodness().log_likelihood(&noise) / temperature;
        let mut free = gradient.iter_mut();
        if self.tune_alpha {
            for (l, slot) in free.by_ref().take(alpha.len()).enumerate() {
                *slot = 0.5 * (ratio.by_log_alpha[l] + precision[l] * self.scatter[l]);
            }
        }
        if self.tune_sigma {
            let errors = self.laplace.goodness().squared_errors();
            let power = f64::from(self.laplace.problem().sigma_power());
            for (p, slot) in free.enumerate() {
                let (count, error) = if sigma.len() == 1 {
                    (weight * errors.len() as f64, errors.iter().sum::<f64>())
                } else {
                    (weight, errors[p])
                };
                *slot = (count - error / noise[p].powi(2)) / temperature + 0.5 * power * ratio.by_log_sigma[p];
            }
        }
        value
    }

    /// The best point of a coarse grid over one or two free hyperparameters.
    fn grid_start(&self, progress: &dyn Progress) -> Result<(Vec<f64>, usize)> {
        let centre = self.pack(&self.alpha, &self.sigma);
        let dimensions = centre.len().min(2);
        let mut gradient = vec![0.0; centre.len()];
        let mut best = (f64::INFINITY, centre.clone());
        // The grid of σ is around 1, unless the residuals are far from there.
        let far = residual_size(self.laplace).map(f64::ln).filter(|size| size.abs() > FAR).unwrap_or(0.0);
        let centres = self.pack(&vec![0.0; self.alpha.len()], &vec![far; self.sigma.len()]);
        let total = GRID.pow(dimensions as u32);
        for index in 0..total {
            let mut point = centre.clone();
            for (axis, value) in point.iter_mut().take(dimensions).enumerate() {
                let step = index / GRID.pow(axis as u32) % GRID;
                let fraction = step as f64 / (GRID - 1) as f64;
                let log = centres[axis] + GRID_RANGE.0 + fraction * (GRID_RANGE.1 - GRID_RANGE.0);
                *value = log.clamp(self.bounds.0, self.bounds.1);
            }
            progress.check()?;
            let value = self.evaluate(&point, &mut gradient);
            progress.advance();
            if value < best.0 {
                best = (value, point);
            }
        }
        Ok((best.1, total))
    }

    fn solve(
        &self,
        start: Option<Vec<f64>>,
        options: &EvidenceOptions,
        progress: &dyn Progress,
    ) -> Result<(Minimum, usize)> {
        let (start, tried) = match start {
            Some(start) => (start, 0),
            None => self.grid_start(progress)?,
        };
        let bounds = vec![self.bounds; start.len()];
        let settings = BfgsOptions {
            max_iterations: options.max_iterations,
            gradient_tolerance: 1e-10 * (1.0 + self.laplace.n_data() as f64),
            bounds: Some(&bounds),
            ..Default::default()
        };
        // Once cancelled no point is any good, which ends the search at once.
        let mut objective = |point: &[f64], gradient: &mut [f64]| {
            if progress.is_cancelled() {
                gradient.fill(0.0);
                return f64::INFINITY;
            }
            progress.advance();
            self.evaluate(point, gradient)
        };
        let mut search = |from: &[f64]| {
            let outcome = minimize(&mut objective, from, &settings);
            progress.check().and(outcome.map_err(Error::from))
        };
        let mut minimum = search(&start)?;
        let mut evaluations = tried + minimum.evaluations;
        for _ in 0..MOST_REFINEMENTS {
            let (alpha, sigma) = self.unpack(&minimum.point);
            if !self.log_det.refine(&alpha, &self.laplace.problem().log_scales(&sigma)) {
                break;
            }
            minimum = search(&minimum.point)?;
            evaluations += minimum.evaluations;
        }
        Ok((minimum, evaluations))
    }

    fn report(&self, minimum: Minimum, evaluations: usize) -> EvidenceOptimum {
        // The values themselves: held ones as given, and bounds without the rounding of exp ∘ log.
        let value = |log: &f64| match *log {
            log if log <= self.bounds.0 => self.limits.0,
            log if log >= self.bounds.1 => self.limits.1,
            log => log.exp(),
        };
        let point: Vec<f64> = minimum.point.iter().map(value).collect();
        let (tuned_alpha, tuned_sigma) = point.split_at(if self.tune_alpha { self.alpha.len() } else { 0 });
        let (prior, family) = (self.laplace.prior(), self.laplace.family());
        let prior_precision = if self.tune_alpha { tuned_alpha } else { prior.values() }.to_vec();
        let sigma = if self.tune_sigma { tuned_sigma } else { family.sigma().unwrap_or_default() }.to_vec();
        let at_bound = minimum.at_bound.iter().map(|&index| {
            let (parameter, place) = match index.checked_sub(tuned_alpha.len()) {
                None => ("prior precision", index),
                Some(place) => ("sigma", place),
            };
            AtBound { parameter, index: place, value: point[index] }
        });
        EvidenceOptimum {
            hyperparameters: Hyperparameters { prior_precision, sigma },
            log_marginal_likelihood: -minimum.value + self.laplace.log_density_shift() / self.laplace.temperature(),
            converged: minimum.status.is_minimum(),
            at_bound: at_bound.collect(),
            iterations: minimum.iterations,
            evaluations,
            gradient_norm: minimum.gradient_norm,
        }
    }
}

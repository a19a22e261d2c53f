//! Tuning on held-out data: prior precision and noise that minimise the negative log likelihood of the linearised
//! prediction there, −mean log p(y | x).
//!
//! A grid over log α finds the region, golden sections refine it. Every structure of the posterior takes part: an
//! evaluation factors its curvature again and predicts at the held-out points.

use ndarray::{Array1, ArrayView1};

use super::scores::mean_nll;

use crate::data::{Dataset, check_targets};
use crate::error::{AtBound, Error, Result};
use crate::evidence::{Free, Hyperparameters};
use crate::laplace::{Laplace, PriorValues};
use crate::likelihood::Dispersion;
use crate::optimize::golden_section;
use crate::predict::{Link, Method, linearized, predict};
use crate::progress::Progress;

/// Settings of [`optimize_on`].
#[derive(Debug, Clone, PartialEq)]
pub struct ValidationOptions {
    /// Whether the prior precision is tuned (default: yes). It is one number for all parameters.
    pub prior: Free,
    /// Whether σ is tuned, where there is one (default: yes). In a posterior with one σ per output, each is tuned.
    pub sigma: Free,
    /// How probabilities follow from logits (default: the default link).
    pub link: Link,
    /// The ends of the grid of prior precisions (default: 1e-4 and 1e4).
    pub grid: (f64, f64),
    /// The number of its points, evenly spaced in the logarithm (default: 17, two per decade).
    pub grid_points: usize,
    /// Refinement ends when a hyperparameter is known to this relative accuracy (default: 0.02).
    pub tolerance: f64,
}

impl Default for ValidationOptions {
    fn default() -> Self {
        Self {
            prior: Free::Tuned,
            sigma: Free::Tuned,
            link: Link::default(),
            grid: (1e-4, 1e4),
            grid_points: 17,
            tolerance: 0.02,
        }
    }
}

/// The outcome of tuning on held-out data.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidationOptimum {
    /// The best hyperparameters.
    pub hyperparameters: Hyperparameters,
    /// The held-out negative log likelihood per data point of the tuned posterior, in the units of the data.
    pub nll: f64,
    /// That of the trained model alone, with the σ that suits it best where σ is tuned.
    pub map_nll: f64,
    /// The prior precision, if the best one lies at an end of the grid: the true optimum may be beyond.
    pub at_edge: Option<AtBound>,
    /// Evaluations of the held-out likelihood.
    pub evaluations: usize,
}

impl ValidationOptimum {
    /// Whether the tuned posterior predicts the held-out data worse than the trained model alone.
    pub fn is_worse_than_map(&self) -> bool {
        self.nll > self.map_nll
    }
}

/// How far around its start σ is searched, as a factor either way.
const SIGMA_REACH: f64 = 20.0;
/// The places where a parameter is looked for that is off.
const OFF_GRID: usize = 12;
/// Rounds over all hyperparameters at most.
const MOST_ROUNDS: usize = 6;

/// Tunes a posterior on held-out data (in the units of its data), and refits it with the optimum.
///
/// Where σ is tuned with the prior, the search runs over α at the model's own noise s on the held-out data, and a common
/// factor c of all noise levels follows in closed form: with (α/c², cs) for (α, s) the predictive covariance is c² times
/// what it was, so that c² is the mean squared whitened error. Several noise levels are then refined one by one.
///
/// ```
/// use ndarray::Array2;
/// use riemannian_laplace::{
///     Activation, Architecture, Dataset, Family, FitOptions, Laplace, Network, ValidationOptions,
/// };
///
/// let data = |count: usize| {
///     let inputs = Array2::from_shape_fn((count, 1), |(n, _)| n as f64 / count as f64);
///     let targets = inputs.mapv(|x| 2.0 * x + 0.3 * (50.0 * x).sin());
///     Dataset::new(inputs, targets)
/// };
/// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 0.1])?;
/// let mut laplace = Laplace::fit(network, data(10)?, Family::gaussian(1.0)?, &FitOptions::default())?;
/// let optimum = laplace.optimize_on(&data(23)?, &ValidationOptions::default(), &())?;
/// assert!(optimum.nll <= optimum.map_nll && optimum.hyperparameters.sigma[0] < 0.4);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn optimize_on(
    laplace: &mut Laplace,
    held_out: &Dataset,
    options: &ValidationOptions,
    progress: &dyn Progress,
) -> Result<ValidationOptimum> {
    let (low, high) = options.grid;
    if !(low > 0.0 && low < high && high.is_finite() && options.grid_points >= 2) {
        return Err(Error::Bounds { low, high });
    }
    let held_sigma = laplace.family().sigma().map(<[f64]>::to_vec).unwrap_or_default();
    let tune_sigma = options.sigma == Free::Tuned && !held_sigma.is_empty();
    let held = PriorValues::with_structure(laplace.prior().structure(), laplace.prior().values().to_vec());
    let mut search = Search { laplace: laplace.clone(), held, held_out, link: options.link, progress, evaluations: 0 };
    let (map_nll, map_sigma) = search.map(tune_sigma)?;
    let start = if tune_sigma { map_sigma } else { held_sigma };
    let mut best = Point { alpha: None, sigma: start.clone(), nll: f64::INFINITY };
    let mut at_edge = None;
    let step = (high / low).ln() / (options.grid_points - 1) as f64;
    match options.prior {
        Free::Tuned => {
            let at = |search: &mut Search<'_>, _: &Point, log: f64| match tune_sigma {
                true => search.with_best_factor(log.exp(), &start),
                false => search.evaluate(Some(log.exp()), start.clone()),
            };
            let mut place = low.ln();
            for index in 0..options.grid_points {
                let log = low.ln() + step * index as f64;
                let point = at(&mut search, &best, log)?;
                if point.nll < best.nll {
                    (best, place) = (point, log);
                }
            }
            let ends = ((place - step).max(low.ln()), (place + step).min(high.ln()));
            place = search.golden(&mut best, options.tolerance, ends, at)?.unwrap_or(place);
            // Within the accuracy of the refinement of an end.
            if place < low.ln() + 2.0 * options.tolerance || place > high.ln() - 2.0 * options.tolerance {
                let value = best.alpha.unwrap_or(place.exp());
                at_edge = Some(AtBound { parameter: "prior precision", index: 0, value });
            }
        }
        Free::Held => best = search.evaluate(None, best.sigma)?,
    }
    if tune_sigma && (start.len() > 1 || options.prior == Free::Held) {
        search.refine(&mut best, options, step)?;
    }
    if options.sigma == Free::Tuned && !laplace.dispersions().is_empty() {
        *laplace = search.tune_dispersions(&mut best, options, step)?;
    }
    laplace.set_hyperparameters(&search.prior(best.alpha), &best.sigma)?;
    let prior_precision = laplace.prior().values().to_vec();
    Ok(ValidationOptimum {
        hyperparameters: Hyperparameters { prior_precision, sigma: best.sigma },
        nll: best.nll,
        map_nll,
        at_edge,
        evaluations: search.evaluations,
    })
}

/// Hyperparameters, and the held-out negative log likelihood there.
#[derive(Debug, Clone)]
struct Point {
    /// The prior precision; the one that is held where there is none.
    alpha: Option<f64>,
    sigma: Vec<f64>,
    nll: f64,
}

/// The held-out likelihood as a function of the hyperparameters.
struct Search<'a> {
    laplace: Laplace,
    /// The prior precisions before tuning.
    held: PriorValues,
    held_out: &'a Dataset,
    link: Link,
    progress: &'a dyn Progress,
    evaluations: usize,
}

impl Search<'_> {
    fn prior(&self, alpha: Option<f64>) -> PriorValues {
        alpha.map_or_else(|| self.held.clone(), PriorValues::Shared)
    }

    /// Factors the precision; false where that fails.
    fn move_to(&mut self, alpha: Option<f64>, sigma: &[f64]) -> Result<bool> {
        self.progress.check()?;
        self.evaluations += 1;
        match self.laplace.set_hyperparameters(&self.prior(alpha), sigma) {
            Err(Error::NotPositiveDefinite { .. }) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// The negative log likelihood per data point; infinite where the precision cannot be factored.
    fn evaluate(&mut self, alpha: Option<f64>, sigma: Vec<f64>) -> Result<Point> {
        if !self.move_to(alpha, &sigma)? {
            return Ok(Point { alpha, sigma, nll: f64::INFINITY });
        }
        let prediction = predict(&self.laplace, self.held_out.inputs(), &Method::Glm(self.link), &())?;
        let nll = mean_nll(&prediction, self.held_out.targets())?;
        self.progress.step(self.evaluations, nll);
        Ok(Point { alpha, sigma, nll: if nll.is_nan() { f64::INFINITY } else { nll } })
    }

    /// The point (α/c², cσ) with the best factor c, for Gaussian noise.
    fn with_best_factor(&mut self, alpha: f64, sigma: &[f64]) -> Result<Point> {
        if !self.move_to(Some(alpha), sigma)? {
            return Ok(Point { alpha: Some(alpha), sigma: sigma.to_vec(), nll: f64::INFINITY });
        }
        let (schema, family) = (self.laplace.schema(), self.laplace.family());
        let latent = linearized(&self.laplace, &schema.scale_inputs(self.held_out.inputs().view())?)?;
        let targets = schema.scale_targets(self.held_out.targets().view())?;
        // The log density at the mean is that of the determinant alone; the difference is half the squared error.
        let at_mean = latent.log_densities(family, self.link, &latent.mean)?;
        let observed = latent.log_densities(family, self.link, &targets)?;
        let weights = Array1::from(family.weights(targets.view(), latent.mean.ncols()));
        let (count, width) = (weights.sum(), latent.mean.ncols() as f64);
        let square = (2.0 * ((&at_mean - &observed) * &weights).sum() / (count * width)).max(f64::MIN_POSITIVE);
        let nll = -(&at_mean * &weights).sum() / count + 0.5 * width * (square.ln() + 1.0) - schema.log_density_shift();
        self.progress.step(self.evaluations, nll);
        let factor = square.sqrt();
        let sigma = sigma.iter().map(|level| factor * level).collect();
        Ok(Point { alpha: Some(alpha / square), sigma, nll: if nll.is_nan() { f64::INFINITY } else { nll } })
    }

    /// The negative log likelihood of the model alone, and its σ: with `tuned`, each is the root mean squared error of
    /// its outputs, which is best for it.
    fn map(&self, tuned: bool) -> Result<(f64, Vec<f64>)> {
        let (laplace, schema) = (&self.laplace, self.laplace.schema());
        let outputs = laplace.outputs(&schema.scale_inputs(self.held_out.inputs().view())?)?;
        let targets = schema.scale_targets(self.held_out.targets().view())?;
        check_targets(&targets, laplace.family(), outputs.nrows(), outputs.ncols())?;
        let (mut family, mut sigma) = (laplace.family().clone(), Vec::new());
        if tuned {
            let errors = &outputs - &family.observed(targets.view(), outputs.ncols());
            let weights = Array1::from(family.weights(targets.view(), outputs.ncols()));
            let mean_square = |output: usize| (errors.column(output).mapv(|e| e * e) * &weights).sum() / weights.sum();
            let squares: Vec<f64> = (0..errors.ncols()).map(mean_square).collect();
            let levels = match laplace.family().sigma() {
                Some([_]) => vec![squares.iter().sum::<f64>() / squares.len() as f64],
                _ => squares,
            };
            // Targets that are met exactly would have no noise at all.
            sigma = levels.into_iter().map(|square| square.sqrt().max(1e-10)).collect();
            family = family.with_sigma(&sigma)?;
        }
        let pairs = outputs.rows().into_iter().zip(targets.rows());
        let log_density = |(f, y): (ArrayView1<'_, f64>, ArrayView1<'_, f64>)| {
            let y = y.to_vec();
            let row = family.of_row(&y, f.len());
            row.likelihood.log_density(row.target, &f.to_vec())
        };
        let count: f64 = family.weights(targets.view(), outputs.ncols()).iter().sum();
        let mean = pairs.map(log_density).sum::<f64>() / count;
        Ok((-mean - schema.log_density_shift(), sigma))
    }

    /// Golden sections over each noise level, and over α where it is tuned, in turn, until a round gains nothing more.
    fn refine(&mut self, best: &mut Point, options: &ValidationOptions, step: f64) -> Result<()> {
        for round in 0..MOST_ROUNDS {
            let before = best.nll;
            for level in 0..best.sigma.len() {
                // The whole reach at first, less and less around the last value then.
                let (centre, reach) = (best.sigma[level].ln(), SIGMA_REACH.ln() / 4f64.powi(round as i32));
                self.golden(best, options.tolerance, (centre - reach, centre + reach), |search, best, log| {
                    let mut sigma = best.sigma.clone();
                    sigma[level] = log.exp();
                    search.evaluate(best.alpha, sigma)
                })?;
            }
            if let Some(alpha) = best.alpha {
                let ends = (alpha.ln() - step, alpha.ln() + step);
                self.golden(best, options.tolerance, ends, |search, best, log| {
                    search.evaluate(Some(log.exp()), best.sigma.clone())
                })?;
            }
            if before - best.nll < 1e-6 * (1.0 + best.nll.abs()) {
                break;
            }
        }
        Ok(())
    }

    /// The posterior at the dispersion parameters that suit the held-out data best: golden sections over each, and over α
    /// where it is tuned, in turn, until a round gains nothing more.
    fn tune_dispersions(&mut self, best: &mut Point, options: &ValidationOptions, step: f64) -> Result<Laplace> {
        let mut parameters = self.laplace.family().likelihood().dispersions();
        let mut kept = self.laplace.clone();
        for round in 0..MOST_ROUNDS {
            let before = best.nll;
            for k in 0..parameters.len() {
                let mut reach = SIGMA_REACH.ln() / 4f64.powi(round as i32);
                let (low, high) = parameters[k].free_bounds();
                let mut at = |free: f64, parameters: &mut Vec<Dispersion>| {
                    let mut moved = parameters.clone();
                    moved[k].value = moved[k].at(free);
                    let values: Vec<f64> = moved.iter().map(|parameter| parameter.value).collect();
                    self.laplace = self.laplace.with_dispersions(&values)?;
                    let point = self.evaluate(best.alpha, best.sigma.clone())?;
                    let nll = point.nll;
                    if nll < best.nll {
                        (*best, *parameters, kept) = (point, moved, self.laplace.clone());
                    }
                    Ok::<f64, Error>(nll)
                };
                if round == 0 && parameters[k].free() <= low {
                    let grid = parameters[k].grid(reach, OFF_GRID);
                    reach = grid[1] - grid[0];
                    for free in grid {
                        at(free, &mut parameters)?;
                    }
                }
                let centre = parameters[k].free();
                let ends = ((centre - reach).max(low), (centre + reach).min(high));
                golden_section(ends, options.tolerance, |free| at(free, &mut parameters))?;
                self.laplace = kept.clone();
            }
            if let Some(alpha) = best.alpha {
                let ends = (alpha.ln() - step, alpha.ln() + step);
                self.golden(best, options.tolerance, ends, |search, best, log| {
                    search.evaluate(Some(log.exp()), best.sigma.clone())
                })?;
            }
            if before - best.nll < 1e-6 * (1.0 + best.nll.abs()) {
                break;
            }
        }
        Ok(kept)
    }

    /// A golden section over one log hyperparameter. `best` becomes the best point seen; where it is a new one, its place
    /// is returned.
    fn golden(
        &mut self,
        best: &mut Point,
        tolerance: f64,
        ends: (f64, f64),
        point_at: impl Fn(&mut Self, &Point, f64) -> Result<Point>,
    ) -> Result<Option<f64>> {
        let mut place = None;
        golden_section(ends, tolerance, |log| {
            let point = point_at(self, best, log)?;
            let nll = point.nll;
            if nll < best.nll {
                (*best, place) = (point, Some(log));
            }
            Ok::<f64, Error>(nll)
        })?;
        Ok(place)
    }
}

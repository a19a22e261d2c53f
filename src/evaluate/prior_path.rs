//! Choosing the prior by cross-validation, with the network trained to its mode under each: from strong priors to weak ones.
//!
//! For each prior precision α₁ > α₂ > …, networks are trained on all folds but one ([`train_to_mode`], each from the mode
//! under the prior before it), and the linearised posterior there predicts the fold that was left out. The path ends
//! where weaker priors predict worse: beyond doubt once, or twice in a row. The network on all data then follows the same
//! path to the best α; another starts from that of the folds which fits all data best there, and of the two the one with the
//! greater evidence is kept. (Either may end in a poor mode: the first where it never leaves what strong priors allow, the
//! second where it keeps what it learnt from too few data.)
//!
//! With several *ratios* the path is walked once for each: hidden layers then have precision α√r and the last α/√r. The larger
//! r, the smaller the weights inside and the nearer the network is to a linear model; r = 1 is one precision for all.
//!
//! A *cautious* path ([`PriorPathChoice::Simplest`]) differs in two ways. Among priors whose held-out densities are within one
//! paired standard error of the best, it takes the one of fewest effective parameters: on small sets the best is one by chance.
//! (Nothing counts as simpler than a linear model: among those with no more effective parameters than a linear model has in
//! all, it takes the one that predicts best.) And
//! as the noise of a fit is that of points which shaped the network, too small for new ones, it takes σ from held-out rows:
//! σ² = mean over folds of s²σ², s² = mean rₙ²/(vₙ + σ²) (residual rₙ, epistemic variance vₙ). The precisions are divided by the
//! same factor as σ² is multiplied by, which keeps the mode and scales all variances of a prediction alike.
//!
//! And if the mode on all data has far more effective parameters than those of the folds, another kind of solution was found than the
//! one that held-out rows have judged: the other candidate is taken, or the next stronger prior.
//!
//! Why not the evidence, nor leave-one-out in closed form? Both take the hidden units as given at θ̂, where they were
//! shaped by the very points to be predicted. On small sets the first prefers too few effective parameters and the second too
//! many; folds that were never seen do neither.

use rand::seq::SliceRandom;

use super::deviance::Deviances;
use super::folded::scores_of_folds;
use crate::conformal::Folded;
use crate::data::Dataset;
use crate::error::{Error, InvalidTraining, Result};
use crate::evidence::{Mode, ModeOptions, train_to_mode};
use crate::laplace::{Laplace, PriorValues};
use crate::likelihood::Family;
use crate::map::Model;
use crate::network::Network;
use crate::predict::{LatentGaussian, Link, linearized};
use crate::prior::{Prior, PriorPrecision};
use crate::progress::Progress;
use crate::random::{Purpose, stream};
use crate::target::Target;

/// Weaker priors that may predict worse in a row before the path ends.
const PATIENCE: usize = 2;
/// Standard errors of the difference up to which a simpler prior is as good.
const ONE_ERROR: f64 = 1.0;
/// Standard errors of the difference at which a prior is worse beyond doubt.
const BEYOND_DOUBT: f64 = 3.0;
/// The bounds of the factor by which held-out rows scale a prediction's variance.
const LEAST_FACTOR: f64 = 0.25;
const MOST_FACTOR: f64 = 1e4;
/// The factor by which a mode on all data may have more effective parameters than those of the folds, whose rows are fewer.
const SAME_KIND: f64 = 1.5;
/// Effective parameters below which a strong prior has left nothing of a network but its mean.
const COLLAPSED: f64 = 1.5;

/// Settings of [`train_along_priors`].
#[derive(Debug, Clone, PartialEq)]
pub struct PriorPathOptions {
    /// The prior precisions, from strong to weak, each one number for all parameters (default: 10^1.5, 10, …, 0.01).
    pub precisions: Vec<f64>,
    /// The ratios r of the hidden layers' precision to the last one's that are tried (default: 1 alone).
    pub ratios: Vec<f64>,
    /// Which prior is taken, and with which noise (default: the best, with that of the fit).
    pub choice: PriorPathChoice,
    /// The parts that the data are cut into, each of which is predicted by the others (default 3).
    pub folds: usize,
    /// How many of the parts are predicted (default: all of them). Where rows are many, one is enough to choose by.
    pub folds_used: Option<usize>,
    /// The seed of the rows' order before they are cut (default 0).
    pub seed: u64,
    /// How the networks on the way are trained (default: 30 steps, to 0.1 nats); its prior precision is not used.
    pub on_the_way: ModeOptions,
    /// How the last one is trained (default: 200 steps, to 0.01 nats); its prior precision is not used.
    pub at_the_end: ModeOptions,
}

impl Default for PriorPathOptions {
    fn default() -> Self {
        let precisions = (-4..=3).rev().map(|power| 10f64.powf(0.5 * f64::from(power))).collect();
        let on_the_way = ModeOptions { steps: 30, tolerance: 0.1, ..Default::default() };
        let at_the_end = ModeOptions { steps: 200, ..Default::default() };
        let (ratios, choice) = (vec![1.0], PriorPathChoice::Best);
        Self { precisions, ratios, choice, folds: 3, folds_used: None, seed: 0, on_the_way, at_the_end }
    }
}

/// Which prior of a path is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PriorPathChoice {
    /// The one that predicts held-out data best, with the σ of the fit.
    #[default]
    Best,
    /// The simplest that is not clearly worse, with the σ of held-out rows.
    Simplest,
}

/// One prior on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct PriorPathStep {
    /// α.
    pub prior_precision: f64,
    /// r.
    pub ratio: f64,
    /// The mean log density of the data, each predicted without its fold, in the units of the data.
    pub held_out: f64,
}

/// What the path found.
#[derive(Debug, Clone)]
pub struct PriorPath {
    /// The network on all data at its mode under the best prior.
    pub mode: Mode,
    /// Every prior that was tried, in order.
    pub steps: Vec<PriorPathStep>,
    /// The best among them.
    pub best: PriorPathStep,
    /// The deviances of rows that were held out, under the best.
    pub held_out: Deviances,
    /// The scores of left-out rows under the best, where each row was left out once and the best prior was taken.
    pub folded: Option<Folded>,
}

/// Trains a network under the prior that cross-validation prefers.
///
/// `progress` is told the networks trained and the mean log density of held-out data so far, and may cancel.
///
/// ```
/// use ndarray::Array2;
/// use riemannian_laplace::internals::evaluate::{PriorPathOptions, train_along_priors};
/// use riemannian_laplace::{Activation, Architecture, Dataset, Family, Network};
///
/// let inputs = Array2::from_shape_fn((40, 1), |(n, _)| n as f64 / 10.0 - 2.0);
/// let targets = inputs.mapv(|x| (2.0 * x).sin() + 0.1 * (37.0 * x).cos());
/// let data = Dataset::new(inputs, targets)?;
/// let start = Network::random(Architecture::new(&[1, 8, 1], Activation::Tanh)?, 0);
/// let path = train_along_priors(&start, &data, &Family::gaussian(1.0)?, &PriorPathOptions::default(), &())?;
/// assert!(path.steps.iter().all(|step| step.held_out <= path.best.held_out));
/// assert_eq!(path.mode.laplace.prior().values(), [path.best.prior_precision]);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn train_along_priors(
    start: &Network,
    data: &Dataset,
    family: &Family,
    options: &PriorPathOptions,
    progress: &dyn Progress,
) -> Result<PriorPath> {
    check(data, options)?;
    let (mut steps, mut paths) = (Vec::new(), Vec::new());
    for ratio in &options.ratios {
        let path = Path { start, options, progress, ratio: *ratio, done: steps.len() };
        let walk = path.walk(data, family)?;
        steps.extend(walk.steps());
        paths.push((path, walk));
    }
    let (path, walk, place) = choose(&paths, options.choice).ok_or(InvalidTraining::Precisions)?;
    let (mode, place) = path.finish(&walk.stops, place, data, family)?;
    let stop = &walk.stops[place];
    let keeps = options.choice == PriorPathChoice::Best && options.folds_used.is_none_or(|used| used == options.folds);
    let folded = match keeps {
        true => Some(path.folded(stop, data, family)?),
        false => None,
    };
    Ok(PriorPath { mode, steps, best: stop.step.clone(), held_out: stop.deviances, folded })
}

/// The stop whose prior is taken: the best, or the simplest within one standard error of it.
fn choose<'a, 'p>(paths: &'a [(Path<'p>, Walk)], choice: PriorPathChoice) -> Option<(&'a Path<'p>, &'a Walk, usize)> {
    let all = || paths.iter().flat_map(|(path, walk)| (0..walk.stops.len()).map(move |place| (path, walk, place)));
    let stop = |(_, walk, place): &(&'a Path<'p>, &'a Walk, usize)| -> &'a Stop { &walk.stops[*place] };
    let best =
        all().reduce(|best, next| if stop(&next).step.held_out > stop(&best).step.held_out { next } else { best })?;
    if choice == PriorPathChoice::Best {
        return Some(best);
    }
    let linear = best.0.linear_parameters();
    let near = all().filter(|other| !is_worse(&stop(other).densities, &stop(&best).densities, ONE_ERROR));
    near.reduce(|one, next| if stop(&next).is_simpler(stop(&one), linear) { next } else { one })
}

/// The priors that were tried.
pub(super) struct Walk {
    pub stops: Vec<Stop>,
}

impl Walk {
    /// Every prior and its score.
    pub fn steps(&self) -> Vec<PriorPathStep> {
        self.stops.iter().map(|stop| stop.step.clone()).collect()
    }
}

/// A prior, the log densities of all data under it, fold by fold, and the folds' networks.
pub(super) struct Stop {
    pub step: PriorPathStep,
    pub densities: Vec<f64>,
    pub networks: Vec<NearMode>,
    /// The mean over folds of s²σ² with s² = mean rₙ²/(vₙ + σ²), for one Gaussian noise.
    noise: Option<f64>,
    /// The mean of the effective parameters over the folds.
    effective: f64,
    /// Of all held-out rows.
    deviances: Deviances,
}

/// A network that was trained without its fold, near a mode of its posterior.
pub(super) struct NearMode {
    pub network: Network,
    pub family: Family,
    pub prior: PriorPrecision,
}

impl Stop {
    /// Whether it has fewer effective parameters than another; where neither has more than a linear model, whether it predicts
    /// better.
    fn is_simpler(&self, other: &Stop, linear: f64) -> bool {
        let [own, theirs] = [self, other].map(|stop| stop.effective.max(linear));
        own < theirs || own == theirs && self.step.held_out > other.step.held_out
    }

    /// Whether a mode on all data is of the kind that held-out rows have judged: not of far more effective parameters.
    fn is_like(&self, mode: &Mode) -> bool {
        mode.laplace.effective_parameters() <= SAME_KIND * self.effective.max(COLLAPSED)
    }

    /// The network and noise of the greatest log posterior with all data.
    fn walker(&self, data: &Dataset) -> Result<Walker> {
        let mut best: Option<(f64, &NearMode)> = None;
        for near in &self.networks {
            let value = near.target(data)?.evaluator().log_posterior(near.network.parameters());
            if best.is_none_or(|(greatest, _)| value > greatest) {
                best = Some((value, near));
            }
        }
        let (_, near) = best.ok_or(InvalidTraining::Precisions)?;
        Ok(Walker::new(data, &near.network, &near.family))
    }
}

impl NearMode {
    /// The log posterior with all data, under the fold's prior and noise.
    fn target(&self, data: &Dataset) -> Result<Target> {
        let map = self.network.bind(data.inputs().view())?;
        Target::new(map, self.family.shared(), data.targets().view(), Prior::gaussian(self.prior.clone()))
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Whether the mean of the differences is negative by more than so many of its standard errors.
fn is_worse(densities: &[f64], best: &[f64], errors: f64) -> bool {
    let differences: Vec<f64> = densities.iter().zip(best).map(|(here, there)| here - there).collect();
    let centre = mean(&differences);
    let variance = differences.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / differences.len() as f64;
    centre < -errors * (variance / differences.len() as f64).sqrt()
}

pub(super) fn check(data: &Dataset, options: &PriorPathOptions) -> Result<()> {
    let falling = options.precisions.windows(2).all(|pair| pair[0] > pair[1]);
    let positive = options.precisions.iter().all(|alpha| *alpha > 0.0 && alpha.is_finite());
    let ratios = !options.ratios.is_empty() && options.ratios.iter().all(|ratio| *ratio > 0.0 && ratio.is_finite());
    if options.precisions.is_empty() || !falling || !positive || !ratios {
        return Err(InvalidTraining::Precisions.into());
    }
    if options.folds < 2 || options.folds > data.len() {
        return Err(InvalidTraining::Folds { folds: options.folds, rows: data.len() }.into());
    }
    Ok(())
}

/// A network on its way to weaker priors, its data, and the noise that it has found.
struct Walker {
    data: Dataset,
    network: Network,
    family: Family,
}

impl Walker {
    fn new(data: &Dataset, network: &Network, family: &Family) -> Self {
        Self { data: data.clone(), network: network.clone(), family: family.clone() }
    }
}

/// A part of the data, the others, and a network that is trained on these.
pub(super) struct Fold {
    left_out: Vec<usize>,
    held_out: Dataset,
    walker: Walker,
}

impl Fold {
    /// The data without the part.
    pub fn training(&self) -> &Dataset {
        &self.walker.data
    }

    /// The part.
    pub fn held_out(&self) -> &Dataset {
        &self.held_out
    }

    /// Its rows among all data.
    pub fn left_out(&self) -> &[usize] {
        &self.left_out
    }
}

pub(super) struct Path<'a> {
    pub start: &'a Network,
    pub options: &'a PriorPathOptions,
    pub progress: &'a dyn Progress,
    pub ratio: f64,
    /// Priors that other paths have tried.
    pub done: usize,
}

impl Path<'_> {
    /// The parameters of a linear model in place of the network.
    fn linear_parameters(&self) -> f64 {
        let architecture = self.start.architecture();
        ((architecture.n_inputs() + 1) * architecture.n_outputs()) as f64
    }

    /// The mode on all data under the best prior, and the place of that prior.
    ///
    /// A cautious path goes back to stronger priors until the mode is like those of the folds: held-out rows have judged these, and
    /// no others.
    fn finish(&self, stops: &[Stop], mut place: usize, data: &Dataset, family: &Family) -> Result<(Mode, usize)> {
        loop {
            let mode = self.mode_under(stops, place, data, family)?;
            if place == 0 || self.options.choice == PriorPathChoice::Best || stops[place].is_like(&mode) {
                return Ok((mode, place));
            }
            place -= 1;
        }
    }

    /// The mode on all data under one of the priors: along the same path, or from the fold that fits best.
    fn mode_under(&self, stops: &[Stop], place: usize, data: &Dataset, family: &Family) -> Result<Mode> {
        let best = &stops[place];
        let alpha = best.step.prior_precision;
        let (mut own, mut from_fold) = (Walker::new(data, self.start, family), best.walker(data)?);
        for alpha in &self.options.precisions[..place] {
            self.advance(&mut own, *alpha)?;
        }
        let [first, second] = [self.advance(&mut own, alpha)?, self.advance(&mut from_fold, alpha)?];
        let greater = second.laplace.log_marginal_likelihood() > first.laplace.log_marginal_likelihood();
        let near = match (self.options.choice, best.is_like(&first), best.is_like(&second)) {
            (PriorPathChoice::Simplest, true, false) => first,
            (PriorPathChoice::Simplest, false, true) => second,
            _ => {
                if greater {
                    second
                } else {
                    first
                }
            }
        };
        let options = self.under(alpha, &self.options.at_the_end);
        let mut mode = train_to_mode(&near.network, data, near.laplace.family(), &options, &())?;
        if let (PriorPathChoice::Simplest, Some(noise)) = (self.options.choice, best.noise) {
            widen(&mut mode.laplace, noise)?;
        }
        Ok(mode)
    }

    /// The options with another prior.
    fn under(&self, alpha: f64, options: &ModeOptions) -> ModeOptions {
        let layers = self.start.groups().len();
        let prior_precision = match self.ratio == 1.0 || layers < 2 {
            true => PriorValues::Shared(alpha),
            false => {
                let root = self.ratio.sqrt();
                let of_layer = |layer: usize| if layer + 1 < layers { alpha * root } else { alpha / root };
                PriorValues::PerGroup((0..layers).map(of_layer).collect())
            }
        };
        ModeOptions { prior_precision, ..options.clone() }
    }

    /// Goes from strong priors to weak ones until these predict worse.
    pub fn walk(&self, data: &Dataset, family: &Family) -> Result<Walk> {
        let mut folds = self.folds(data, family)?;
        let (mut stops, mut best): (Vec<Stop>, usize) = (Vec::new(), 0);
        for (index, alpha) in self.options.precisions.iter().enumerate() {
            let (mut densities, mut networks) = (Vec::with_capacity(data.len()), Vec::with_capacity(folds.len()));
            let (mut noises, mut effective, mut deviances) = (Vec::new(), 0.0, Deviances::default());
            let n_folds = folds.len() as f64;
            for fold in &mut folds {
                let Mode { network, laplace, .. } = self.advance(&mut fold.walker, *alpha)?;
                let latent = linearized(&laplace, fold.held_out.inputs())?;
                densities.extend(log_densities(&laplace, &latent, &fold.held_out)?);
                let (held_out, training) = (fold.held_out.targets(), fold.walker.data.targets());
                deviances += Deviances::of(laplace.family(), &latent.mean, held_out, training);
                noises.extend(held_out_noise(&laplace, &latent, &fold.held_out));
                effective += laplace.effective_parameters() / n_folds;
                networks.push(NearMode { network, family: laplace.family().clone(), prior: laplace.prior().clone() });
            }
            let held_out = mean(&densities);
            self.progress.step(self.done + index + 1, held_out);
            let step = PriorPathStep { prior_precision: *alpha, ratio: self.ratio, held_out };
            let noise = (!noises.is_empty()).then(|| mean(&noises));
            stops.push(Stop { step, densities, networks, noise, effective, deviances });
            let (here, there) = (&stops[index], &stops[best]);
            if index == 0 || here.step.held_out > there.step.held_out {
                best = index;
            } else if index >= best + PATIENCE || is_worse(&here.densities, &there.densities, BEYOND_DOUBT) {
                break;
            }
        }
        Ok(Walk { stops })
    }

    /// The scores of left-out rows, by networks that are trained to the end as that of all rows is: its last steps lower the
    /// noise, and scores of networks that had not taken them would promise too narrow intervals.
    fn folded(&self, stop: &Stop, data: &Dataset, family: &Family) -> Result<Folded> {
        let folds = self.folds(data, family)?;
        let options = self.under(stop.step.prior_precision, &self.options.at_the_end);
        let finished = |(near, fold): (&NearMode, &Fold)| -> Result<NearMode> {
            self.progress.check()?;
            let Mode { network, laplace, .. } =
                train_to_mode(&near.network, fold.training(), &near.family, &options, &())?;
            Ok(NearMode { network, family: laplace.family().clone(), prior: laplace.prior().clone() })
        };
        let networks = stop.networks.iter().zip(&folds).map(finished).collect::<Result<Vec<_>>>()?;
        scores_of_folds(&networks, &folds)
    }

    pub fn folds(&self, data: &Dataset, family: &Family) -> Result<Vec<Fold>> {
        let mut rows: Vec<usize> = (0..data.len()).collect();
        rows.shuffle(&mut stream(self.options.seed, Purpose::Shuffle, 0));
        let part = |keep: &dyn Fn(usize) -> bool| -> Vec<usize> {
            let places = (0..rows.len()).filter(|place| keep(place % self.options.folds));
            places.map(|place| rows[place]).collect()
        };
        let fold = |index: usize| -> Result<Fold> {
            let (left_out, kept) = (part(&|fold| fold == index), part(&|fold| fold != index));
            let (held_out, data) = (data.select(&left_out)?, data.select(&kept)?);
            Ok(Fold { left_out, held_out, walker: Walker::new(&data, self.start, family) })
        };
        (0..self.options.folds_used.unwrap_or(self.options.folds).clamp(1, self.options.folds)).map(fold).collect()
    }

    /// Trains under the next prior, from where the last one has led.
    fn advance(&self, walker: &mut Walker, alpha: f64) -> Result<Mode> {
        self.progress.check()?;
        let mode = train_to_mode(
            &walker.network,
            &walker.data,
            &walker.family,
            &self.under(alpha, &self.options.on_the_way),
            &(),
        )?;
        // From weights of zero there is no way on: the gradient vanishes there.
        let collapsed = mode.laplace.effective_parameters() < COLLAPSED;
        walker.network = if collapsed { self.start.clone() } else { mode.network.clone() };
        walker.family = mode.laplace.family().clone();
        Ok(mode)
    }
}

/// s²σ² with s² the mean of r²/(v + σ²) over held-out targets; none without one σ.
fn held_out_noise(laplace: &Laplace, latent: &LatentGaussian, held_out: &Dataset) -> Option<f64> {
    let [sigma] = laplace.family().sigma()? else { return None };
    let square = sigma * sigma;
    let of = |((row, output), target): ((usize, usize), &f64)| {
        (target - latent.mean[(row, output)]).powi(2) / (latent.covariance[(row, output, output)] + square)
    };
    let misfits: Vec<f64> = held_out.targets().indexed_iter().map(of).collect();
    Some(mean(&misfits) * square)
}

/// Sets σ² without moving the mode: the prior precisions fall as it rises, and all variances of a prediction scale alike.
fn widen(laplace: &mut Laplace, noise: f64) -> Result<()> {
    let Some([sigma]) = laplace.family().sigma() else { return Ok(()) };
    let factor = (noise / (sigma * sigma)).clamp(LEAST_FACTOR, MOST_FACTOR);
    let sigma = sigma * factor.sqrt();
    let prior = laplace.prior();
    let values = prior.values().iter().map(|value| value / factor).collect();
    let values = PriorValues::with_structure(prior.structure(), values);
    laplace.set_hyperparameters(&values, &[sigma])
}

/// log p(y | x) of held-out data by the linearised posterior, in the units of the data.
fn log_densities(laplace: &Laplace, latent: &LatentGaussian, held_out: &Dataset) -> Result<Vec<f64>> {
    let densities = latent.log_densities(laplace.family(), Link::default(), held_out.targets())?;
    let shift = laplace.schema().log_density_shift();
    match densities.iter().position(|value| value.is_nan()) {
        Some(row) => Err(Error::NotFinite { what: "the log density of a held-out point", row, column: 0 }),
        None => Ok(densities.iter().map(|value| value + shift).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(effective: f64, held_out: f64) -> Stop {
        let step = PriorPathStep { prior_precision: 1.0, ratio: 1.0, held_out };
        Stop {
            step,
            densities: Vec::new(),
            networks: Vec::new(),
            noise: None,
            effective,
            deviances: Deviances::default(),
        }
    }

    #[test]
    fn fewer_effective_parameters_are_simpler_down_to_those_of_a_linear_model_and_then_better_predictions_count() {
        assert!(stop(20.0, -2.0).is_simpler(&stop(30.0, -1.0), 9.0));
        assert!(!stop(30.0, -1.0).is_simpler(&stop(20.0, -2.0), 9.0));
        assert!(stop(8.0, -1.0).is_simpler(&stop(5.0, -2.0), 9.0));
        assert!(!stop(5.0, -2.0).is_simpler(&stop(8.0, -1.0), 9.0));
    }
}

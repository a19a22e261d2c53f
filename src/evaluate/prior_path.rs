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
//! Units that a strong prior has made alike stay alike, so that such a path never learns a sine. Where a mode is no more than a linear
//! model, a path may therefore train from new weights as well ([`NearlyLinear::TryNewWeights`]), and keep the mode of the greater
//! evidence. Nor does it end there because weaker priors predict worse: they may be on their way to what is not linear.
//!
//! A *cautious* path ([`PriorPathChoice::Simplest`]) differs in three ways.
//!
//! - A linear model is kept unless the best prior predicts held-out rows better by two paired standard errors. Among others, those
//!   within one standard error of the best are as good, and the one of fewest effective parameters is taken: on small sets the
//!   best is one by chance. (Nothing counts as simpler than a linear model.)
//! - As the noise of a fit is that of points which shaped the network, too small for new ones, σ is taken from held-out rows:
//!   σ² = mean over folds of s²σ², s² = mean rₙ²/(vₙ + σ²) (residual rₙ, epistemic variance vₙ). The precisions are divided by the
//!   same factor as σ² is multiplied by, which keeps the mode and scales all variances of a prediction alike.
//! - Priors are compared with that σ, since it is what will predict.
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
use super::prior_stop::{COLLAPSED, NearMode, SAME_KIND, Stop, is_worse};
use crate::conformal::Folded;
use crate::data::Dataset;
use crate::error::{Error, InvalidTraining, Result};
use crate::evidence::{Mode, ModeOptions, train_to_mode};
use crate::laplace::{Laplace, PriorValues};
use crate::likelihood::Family;
use crate::map::Model;
use crate::network::Network;
use crate::progress::Progress;
use crate::random::{Purpose, stream};

/// Weaker priors that may predict worse in a row before the path ends.
const PATIENCE: usize = 2;
/// Standard errors of the difference up to which a simpler prior is as good, and up to which a linear model is.
const ONE_ERROR: f64 = 1.0;
const TWO_ERRORS: f64 = 2.0;
/// Standard errors of the difference at which a prior is worse beyond doubt.
const BEYOND_DOUBT: f64 = 3.0;
/// The bounds of the factor by which held-out rows scale a prediction's variance.
const LEAST_FACTOR: f64 = 0.25;
const MOST_FACTOR: f64 = 1e4;

/// Settings of [`train_along_priors`].
#[derive(Debug, Clone, PartialEq)]
pub struct PriorPathOptions {
    /// The prior precisions, from strong to weak, each one number for all parameters (default: 10^1.5, 10, …, 0.01).
    pub precisions: Vec<f64>,
    /// The ratios r of the hidden layers' precision to the last one's that are tried (default: 1 alone).
    pub ratios: Vec<f64>,
    /// Which prior is taken, and with which noise (default: the best, with that of the fit).
    pub choice: PriorPathChoice,
    /// What is done where a mode is no more than a linear model (default: nothing).
    pub nearly_linear: NearlyLinear,
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
        let (ratios, choice, nearly_linear) = (vec![1.0], PriorPathChoice::Best, NearlyLinear::default());
        Self { precisions, ratios, choice, nearly_linear, folds: 3, folds_used: None, seed: 0, on_the_way, at_the_end }
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

/// What a path does where a mode is no more than a linear model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NearlyLinear {
    /// It goes on from there, as from any other mode.
    #[default]
    GoOn,
    /// It trains from new weights as well, and does not end.
    TryNewWeights,
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

/// The stop whose prior is taken: the best, or a simpler one that is not clearly worse.
fn choose<'a, 'p>(paths: &'a [(Path<'p>, Walk)], choice: PriorPathChoice) -> Option<(&'a Path<'p>, &'a Walk, usize)> {
    type At<'a, 'p> = (&'a Path<'p>, &'a Walk, usize);
    let stop = |(_, walk, place): &At<'a, 'p>| -> &'a Stop { &walk.stops[*place] };
    let all = || paths.iter().flat_map(|(path, walk)| (0..walk.stops.len()).map(move |place| (path, walk, place)));
    let better = |best: At<'a, 'p>, next: At<'a, 'p>| {
        if stop(&next).step.held_out > stop(&best).step.held_out { next } else { best }
    };
    let best = all().reduce(better)?;
    if choice == PriorPathChoice::Best {
        return Some(best);
    }
    let linear = best.0.linear_parameters();
    let is_near = |other: &At<'a, 'p>, errors| !is_worse(&stop(other).densities, &stop(&best).densities, errors);
    let nearly_linear = all().filter(|other| stop(other).effective <= linear).reduce(better);
    nearly_linear.filter(|other| is_near(other, TWO_ERRORS)).or_else(|| {
        let fewer = |one: At<'a, 'p>, next: At<'a, 'p>| {
            if stop(&next).effective < stop(&one).effective { next } else { one }
        };
        all().filter(|other| stop(other).effective > linear && is_near(other, ONE_ERROR)).reduce(fewer)
    })
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

/// A network on its way to weaker priors, its data, and the noise that it has found and that it began with.
pub(super) struct Walker {
    pub data: Dataset,
    network: Network,
    family: Family,
    first_family: Family,
}

impl Walker {
    pub fn new(data: &Dataset, network: &Network, family: &Family) -> Self {
        Self { data: data.clone(), network: network.clone(), family: family.clone(), first_family: family.clone() }
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

    fn tries_new_weights(&self) -> bool {
        self.options.nearly_linear == NearlyLinear::TryNewWeights
    }

    fn is_cautious(&self) -> bool {
        self.options.choice == PriorPathChoice::Simplest
    }

    /// The mode on all data under the best prior, and the place of that prior.
    ///
    /// A cautious path goes back to stronger priors until the mode is like those of the folds: held-out rows have judged these, and
    /// no others.
    fn finish(&self, stops: &[Stop], mut place: usize, data: &Dataset, family: &Family) -> Result<(Mode, usize)> {
        loop {
            let mode = self.mode_under(stops, place, data, family)?;
            if place == 0 || !self.is_cautious() || stops[place].is_like(&mode) {
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
            match self.advance(&mut own, *alpha) {
                Err(error) if !is_numerical(&error) => return Err(error),
                _ => {}
            }
        }
        let candidates = [self.advance(&mut own, alpha), self.advance(&mut from_fold, alpha)];
        // Of the kind that held-out rows have judged first, and then of the greater evidence.
        let cautious = self.is_cautious();
        let worth = |mode: &Mode| (!cautious || best.is_like(mode), mode.laplace.log_marginal_likelihood());
        let near = match candidates {
            [Ok(one), Ok(other)] => {
                if worth(&other) > worth(&one) {
                    other
                } else {
                    one
                }
            }
            [Ok(found), Err(error)] | [Err(error), Ok(found)] => found_despite(found, error)?,
            [Err(error), Err(_)] => return Err(error),
        };
        let options = self.under(alpha, &self.options.at_the_end);
        let mut mode = train_to_mode(&near.network, data, near.laplace.family(), &options, &())?;
        if let (true, Some(noise)) = (self.is_cautious(), best.noise) {
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

    /// Goes from strong priors to weak ones until these predict worse, or until rounding leaves no mode to be found.
    pub fn walk(&self, data: &Dataset, family: &Family) -> Result<Walk> {
        let mut folds = self.folds(data, family)?;
        let (mut stops, mut best): (Vec<Stop>, usize) = (Vec::new(), 0);
        for (index, alpha) in self.options.precisions.iter().enumerate() {
            let train = |fold: &mut Fold| NearMode::of(self.advance(&mut fold.walker, *alpha)?, fold);
            let networks = match folds.iter_mut().map(train).collect() {
                Err(error) if is_numerical(&error) && index > 0 => break,
                networks => networks?,
            };
            stops.push(Stop::new((*alpha, self.ratio), networks, self.options.choice));
            let (here, there) = (&stops[index], &stops[best]);
            self.progress.step(self.done + index + 1, here.step.held_out);
            let may_end = !(self.tries_new_weights() && here.effective <= self.linear_parameters());
            if index == 0 || here.step.held_out > there.step.held_out {
                best = index;
            } else if may_end && (index >= best + PATIENCE || is_worse(&here.densities, &there.densities, BEYOND_DOUBT))
            {
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
            NearMode::of(train_to_mode(&near.network, fold.training(), &near.family, &options, &())?, fold)
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

    /// Trains under the next prior, from where the last one has led; where that is no more than a linear model, from new
    /// weights as well.
    fn advance(&self, walker: &mut Walker, alpha: f64) -> Result<Mode> {
        self.progress.check()?;
        let options = self.under(alpha, &self.options.on_the_way);
        let train = |network: &Network, family: &Family| train_to_mode(network, &walker.data, family, &options, &());
        let mut mode = train(&walker.network, &walker.family);
        let most = SAME_KIND * self.linear_parameters();
        if self.tries_new_weights() && mode.as_ref().map_or(true, |mode| mode.laplace.effective_parameters() <= most) {
            let fresh = train(self.start, &walker.first_family);
            let evidence = |mode: &Mode| mode.laplace.log_marginal_likelihood();
            mode = match (mode, fresh) {
                (Ok(one), Ok(fresh)) => Ok(if evidence(&fresh) > evidence(&one) { fresh } else { one }),
                (Err(_), fresh) => fresh,
                (mode, Err(_)) => mode,
            };
        }
        let mode = mode?;
        // From weights of zero there is no way on: the gradient vanishes there.
        let collapsed = mode.laplace.effective_parameters() < COLLAPSED;
        walker.network = if collapsed { self.start.clone() } else { mode.network.clone() };
        walker.family = mode.laplace.family().clone();
        Ok(mode)
    }
}

/// Whether rounding left no mode to be found.
fn is_numerical(error: &Error) -> bool {
    matches!(error, Error::NotPositiveDefinite { .. } | Error::NotFinite { .. })
}

/// What was found, where the other way failed by rounding alone.
fn found_despite(found: Mode, error: Error) -> Result<Mode> {
    if is_numerical(&error) { Ok(found) } else { Err(error) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Activation, Architecture};

    /// A stop of these effective parameters whose rows have densities around a mean, half of them above it by 0.1 and half below.
    fn stop(effective: f64, held_out: f64, phase: usize) -> Stop {
        let density = |row: usize| held_out + if (row / phase).is_multiple_of(2) { 0.1 } else { -0.1 };
        let step = PriorPathStep { prior_precision: 1.0, ratio: 1.0, held_out };
        let densities = (0..100).map(density).collect();
        Stop { step, densities, networks: Vec::new(), noise: None, effective, deviances: Deviances::default() }
    }

    fn chosen(stops: Vec<Stop>, choice: PriorPathChoice) -> Option<usize> {
        let start = Network::random(Architecture::new(&[3, 2, 1], Activation::Tanh).ok()?, 0);
        let options = PriorPathOptions::default();
        let path = Path { start: &start, options: &options, progress: &(), ratio: 1.0, done: 0 };
        choose(&[(path, Walk { stops })], choice).map(|(_, _, place)| place)
    }

    // The differences of two stops of phases 1 and 2 have standard deviation 0.1 √2, and a mean over 100 rows an error of 0.014.
    #[test]
    fn a_linear_model_is_kept_up_to_two_standard_errors_and_the_best_of_them() {
        for (gain, place) in [(0.025, 1), (0.032, 2)] {
            let stops = vec![stop(2.0, -1.1, 1), stop(4.0, -1.0, 1), stop(9.0, -1.0 + gain, 2)];
            assert_eq!(chosen(stops, PriorPathChoice::Simplest), Some(place), "{gain}");
        }
    }

    #[test]
    fn beyond_a_linear_model_fewer_effective_parameters_win_within_one_standard_error() {
        for (gain, place) in [(0.01, 1), (0.02, 2)] {
            let stops = vec![stop(3.0, -9.0, 1), stop(8.0, -1.0, 1), stop(20.0, -1.0 + gain, 2)];
            assert_eq!(chosen(stops, PriorPathChoice::Simplest), Some(place), "{gain}");
            let stops = vec![stop(3.0, -9.0, 1), stop(8.0, -1.0, 1), stop(20.0, -1.0 + gain, 2)];
            assert_eq!(chosen(stops, PriorPathChoice::Best), Some(2));
        }
    }
}

//! Choosing the prior by cross-validation, with the network trained to its mode under each: from strong priors to weak ones.
//!
//! For each prior precision α₁ > α₂ > …, networks are trained on all folds but one ([`train_to_mode`], each from the mode
//! under the prior before it), and the linearised posterior there predicts the fold that was left out. The path ends
//! where weaker priors predict worse: beyond doubt once, or twice in a row. The network on all data then follows the same
//! path to the best α; another starts from that of the folds which fits all data best there, and of the two the one with the
//! greater evidence is kept. (Either may end in a poor mode: the first where it never leaves what strong priors allow, the
//! second where it keeps what it learnt from too few data.)
//!
//! Why not the evidence, nor leave-one-out in closed form? Both take the hidden units as given at θ̂, where they were
//! shaped by the very points to be predicted. On small sets the first prefers too few effective parameters and the second too
//! many; folds that were never seen do neither.

use rand::seq::SliceRandom;

use crate::data::Dataset;
use crate::error::{Error, InvalidTraining, Result};
use crate::evidence::{Mode, ModeOptions, train_to_mode};
use crate::laplace::{Laplace, PriorValues};
use crate::likelihood::Family;
use crate::map::Model;
use crate::network::Network;
use crate::predict::{Link, linearized};
use crate::prior::{Prior, PriorPrecision};
use crate::progress::Progress;
use crate::random::{Purpose, stream};
use crate::target::Target;

/// Weaker priors that may predict worse in a row before the path ends.
const PATIENCE: usize = 2;
/// Standard errors of the difference at which a prior is worse beyond doubt.
const BEYOND_DOUBT: f64 = 3.0;
/// Effective parameters below which a strong prior has left nothing of a network but its mean.
const COLLAPSED: f64 = 1.5;

/// Settings of [`train_along_priors`].
#[derive(Debug, Clone, PartialEq)]
pub struct PriorPathOptions {
    /// The prior precisions, from strong to weak, each one number for all parameters (default: 10^1.5, 10, …, 0.01).
    pub precisions: Vec<f64>,
    /// The parts that the data are cut into, each of which is predicted by the others (default 3).
    pub folds: usize,
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
        Self { precisions, folds: 3, seed: 0, on_the_way, at_the_end }
    }
}

/// One prior on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct PriorPathStep {
    /// α.
    pub prior_precision: f64,
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
    let path = Path { start, options, progress };
    let walk = path.walk(data, family)?;
    let best = &walk.stops[walk.best];
    let step = best.step.clone();
    let (mut own, mut from_fold) = (Walker::new(data, start, family), best.walker(data)?);
    for alpha in &options.precisions[..walk.best] {
        path.advance(&mut own, *alpha)?;
    }
    let modes = [path.advance(&mut own, step.prior_precision)?, path.advance(&mut from_fold, step.prior_precision)?];
    let [first, second] = modes.map(|mode| (mode.laplace.log_marginal_likelihood(), mode));
    let (_, near) = if second.0 > first.0 { second } else { first };
    let options = under(step.prior_precision, &options.at_the_end);
    let mode = train_to_mode(&near.network, data, near.laplace.family(), &options, &())?;
    Ok(PriorPath { mode, steps: walk.steps(), best: step })
}

/// The priors that were tried, and the place of the best among them.
pub(super) struct Walk {
    pub stops: Vec<Stop>,
    pub best: usize,
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
}

/// A network that was trained without its fold, near a mode of its posterior.
pub(super) struct NearMode {
    pub network: Network,
    pub family: Family,
    prior: PriorPrecision,
}

impl Stop {
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

/// The options with another prior.
fn under(alpha: f64, options: &ModeOptions) -> ModeOptions {
    ModeOptions { prior_precision: PriorValues::Shared(alpha), ..options.clone() }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Whether the mean of the differences is negative by more than its own error allows.
fn is_worse_beyond_doubt(densities: &[f64], best: &[f64]) -> bool {
    let differences: Vec<f64> = densities.iter().zip(best).map(|(here, there)| here - there).collect();
    let centre = mean(&differences);
    let variance = differences.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / differences.len() as f64;
    centre < -BEYOND_DOUBT * (variance / differences.len() as f64).sqrt()
}

pub(super) fn check(data: &Dataset, options: &PriorPathOptions) -> Result<()> {
    let falling = options.precisions.windows(2).all(|pair| pair[0] > pair[1]);
    let positive = options.precisions.iter().all(|alpha| *alpha > 0.0 && alpha.is_finite());
    if options.precisions.is_empty() || !falling || !positive {
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
    held_out: Dataset,
    walker: Walker,
}

impl Fold {
    /// The data without the part.
    pub fn training(&self) -> &Dataset {
        &self.walker.data
    }
}

pub(super) struct Path<'a> {
    pub start: &'a Network,
    pub options: &'a PriorPathOptions,
    pub progress: &'a dyn Progress,
}

impl Path<'_> {
    /// Goes from strong priors to weak ones until these predict worse.
    pub fn walk(&self, data: &Dataset, family: &Family) -> Result<Walk> {
        let mut folds = self.folds(data, family)?;
        let (mut stops, mut best): (Vec<Stop>, usize) = (Vec::new(), 0);
        for (index, alpha) in self.options.precisions.iter().enumerate() {
            let (mut densities, mut networks) = (Vec::with_capacity(data.len()), Vec::with_capacity(folds.len()));
            for fold in &mut folds {
                let Mode { network, laplace, .. } = self.advance(&mut fold.walker, *alpha)?;
                densities.extend(log_densities(&laplace, &fold.held_out)?);
                networks.push(NearMode { network, family: laplace.family().clone(), prior: laplace.prior().clone() });
            }
            let held_out = mean(&densities);
            self.progress.step(index + 1, held_out);
            stops.push(Stop { step: PriorPathStep { prior_precision: *alpha, held_out }, densities, networks });
            let (here, there) = (&stops[index], &stops[best]);
            if index == 0 || here.step.held_out > there.step.held_out {
                best = index;
            } else if index >= best + PATIENCE || is_worse_beyond_doubt(&here.densities, &there.densities) {
                break;
            }
        }
        Ok(Walk { stops, best })
    }

    pub fn folds(&self, data: &Dataset, family: &Family) -> Result<Vec<Fold>> {
        let mut rows: Vec<usize> = (0..data.len()).collect();
        rows.shuffle(&mut stream(self.options.seed, Purpose::Shuffle, 0));
        let part = |keep: &dyn Fn(usize) -> bool| {
            let places = (0..rows.len()).filter(|place| keep(place % self.options.folds));
            data.select(&places.map(|place| rows[place]).collect::<Vec<usize>>())
        };
        let fold = |index: usize| -> Result<Fold> {
            let (held_out, data) = (part(&|fold| fold == index)?, part(&|fold| fold != index)?);
            Ok(Fold { held_out, walker: Walker::new(&data, self.start, family) })
        };
        (0..self.options.folds).map(fold).collect()
    }

    /// Trains under the next prior, from where the last one has led.
    fn advance(&self, walker: &mut Walker, alpha: f64) -> Result<Mode> {
        self.progress.check()?;
        let mode =
            train_to_mode(&walker.network, &walker.data, &walker.family, &under(alpha, &self.options.on_the_way), &())?;
        // From weights of zero there is no way on: the gradient vanishes there.
        let collapsed = mode.laplace.effective_parameters() < COLLAPSED;
        walker.network = if collapsed { self.start.clone() } else { mode.network.clone() };
        walker.family = mode.laplace.family().clone();
        Ok(mode)
    }
}

/// log p(y | x) of held-out data by the linearised posterior, in the units of the data.
fn log_densities(laplace: &Laplace, held_out: &Dataset) -> Result<Vec<f64>> {
    let latent = linearized(laplace, held_out.inputs())?;
    let densities = latent.log_densities(laplace.family(), Link::default(), held_out.targets())?;
    let shift = laplace.schema().log_density_shift();
    match densities.iter().position(|value| value.is_nan()) {
        Some(row) => Err(Error::NotFinite { what: "the log density of a held-out point", row, column: 0 }),
        None => Ok(densities.iter().map(|value| value + shift).collect()),
    }
}

//! Scores as sums over test points, so that predictions can be scored a part at a time: Σ log p(yₙ), Σ (ŷₙ − yₙ)², …,
//! and bins of confidences and ranks. Only ratios of these sums are reported.

use ndarray::{Array2, ArrayView1};

use super::calibration::Reliability;
use super::curves::{COVERAGE_LEVELS, Curves, RANK_BINS};
use super::intervals::{IntervalScore, interval_sums, rank_histogram};
use super::scores::{BINS, ClassScores, CountScores, RegressionScores, Scores, confidences};
use crate::data::check_targets;
use crate::error::{Error, Result, check_size};
use crate::likelihood::{Family, TargetKind};
use crate::predict::Prediction;

/// How much is summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// What the scores need.
    #[default]
    Scores,
    /// The calibration curves as well.
    Curves,
}

/// The kind of scores that a likelihood has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Regression,
    Classes { per_output: bool },
    Counts,
}

/// Sums over the points that were scored so far.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::internals::evaluate::{Detail, Tally};
/// use riemannian_laplace::prelude::*;
///
/// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![0.0, 0.0])?;
/// let data = Dataset::new(array![[0.0], [1.0]], array![[0.5], [2.0]])?;
/// let laplace = Laplace::fit(network, data, Family::gaussian(1.0)?, &FitOptions::default())?;
/// let mut tally = Tally::none(laplace.family(), Detail::Scores);
/// for (x, y) in [(0.0, 0.5), (1.0, 2.0)] {
///     let prediction = laplace.predict(&array![[x]], &Method::Map)?;
///     tally.add(&Tally::of(&prediction, &array![[y]], Detail::Scores)?)?;
/// }
/// let Scores::Regression(scores) = tally.scores()? else { unreachable!() };
/// assert_eq!(scores.mse, (0.25 + 4.0) / 2.0);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    kind: Kind,
    points: f64,
    /// Points times target columns.
    targets: f64,
    log_density: f64,
    squares: f64,
    crps: f64,
    /// Targets within their 90 % interval.
    inside: f64,
    brier: f64,
    reliability: Reliability,
    /// For each level, how many targets are inside, and the sum of widths.
    intervals: Vec<[f64; 2]>,
    ranks: Vec<f64>,
}

impl Tally {
    /// Of no points.
    pub fn none(family: &Family, detail: Detail) -> Self {
        let kind = match family.likelihood().kind() {
            TargetKind::Real | TargetKind::Positive => Kind::Regression,
            TargetKind::Answers => Kind::Classes { per_output: true },
            TargetKind::Label => Kind::Classes { per_output: false },
            TargetKind::Count => Kind::Counts,
        };
        let has_intervals = detail == Detail::Curves && !matches!(kind, Kind::Classes { .. });
        let (levels, ranks) = if has_intervals { (COVERAGE_LEVELS.len(), RANK_BINS) } else { (0, 0) };
        Self {
            kind,
            points: 0.0,
            targets: 0.0,
            log_density: 0.0,
            squares: 0.0,
            crps: 0.0,
            inside: 0.0,
            brier: 0.0,
            reliability: Reliability::new(if matches!(kind, Kind::Classes { .. }) { BINS } else { 0 }),
            intervals: vec![[0.0; 2]; levels],
            ranks: vec![0.0; ranks],
        }
    }

    /// Of a prediction at some points.
    pub fn of(prediction: &Prediction, targets: &Array2<f64>, detail: Detail) -> Result<Self> {
        let family = prediction.family();
        check_targets(targets, family, prediction.mean.nrows(), prediction.n_outputs())?;
        if targets.nrows() == 0 {
            return Err(Error::NoRows { what: "the test data".to_string() });
        }
        let (here, observed) = prediction.beside(targets)?;
        let (prediction, targets) = (&*here, &observed.to_owned());
        let log_densities = prediction.log_densities(targets)?;
        let mut tally = Self::none(family, detail);
        tally.points = targets.nrows() as f64;
        tally.targets = targets.len() as f64;
        tally.log_density = log_densities.sum();
        match tally.kind {
            Kind::Regression => {
                let errors = &prediction.mean - targets;
                tally.squares = errors.mapv(|error| error * error).sum();
                let (ranks, crps) = prediction.ranks_and_crps(targets)?;
                tally.crps = crps.sum();
                tally.inside = ranks.iter().filter(|rank| (0.05..=0.95).contains(*rank)).count() as f64;
            }
            Kind::Classes { per_output } => {
                let (confidences, correct) = confidences(prediction, targets);
                tally.reliability.add(&confidences, &correct);
                tally.brier = if per_output {
                    prediction.mean.iter().zip(targets).map(|(p, y)| (p - y).powi(2)).sum()
                } else {
                    let rows = prediction.mean.rows().into_iter().zip(targets.column(0));
                    let square = |p: f64, hit: bool| (p - f64::from(u8::from(hit))).powi(2);
                    let row = |(p, y): (ArrayView1<'_, f64>, &f64)| -> f64 {
                        p.iter().enumerate().map(|(k, p)| square(*p, k == *y as usize)).sum()
                    };
                    rows.map(row).sum()
                };
            }
            Kind::Counts => {
                let errors = &prediction.mean - targets;
                tally.squares = errors.mapv(|error| error * error).sum();
                let (lower, upper) = prediction.interval(0.9)?;
                let ends = lower.iter().zip(&upper).zip(targets);
                tally.inside = ends.filter(|((low, high), y)| (**low..=**high).contains(*y)).count() as f64;
            }
        }
        if !tally.ranks.is_empty()
            && let Some(ranks) = prediction.ranks(targets)?
        {
            tally.intervals = interval_sums(prediction, targets, &COVERAGE_LEVELS)?;
            let histogram = rank_histogram(ranks.iter().copied(), RANK_BINS);
            tally.ranks = histogram.into_iter().map(|count| count as f64).collect();
        }
        Ok(tally)
    }

    /// Adds the points that come next.
    pub fn add(&mut self, later: &Tally) -> Result<()> {
        self.add_numbers(&later.numbers())
    }

    /// All sums, one after another.
    pub fn numbers(&self) -> Vec<f64> {
        self.clone().each().map(|sum| *sum).collect()
    }

    /// Adds the [`numbers`](Self::numbers) of the points that come next, of the same likelihood and detail.
    pub fn add_numbers(&mut self, later: &[f64]) -> Result<()> {
        check_size("number of sums", self.each().count(), later.len())?;
        self.each().zip(later).for_each(|(sum, later)| *sum += later);
        Ok(())
    }

    fn each(&mut self) -> impl Iterator<Item = &mut f64> {
        let Self { kind: _, points, targets, log_density, squares, crps, inside, brier, reliability, intervals, ranks } =
            self;
        [points, targets, log_density, squares, crps, inside, brier]
            .into_iter()
            .chain(reliability.each())
            .chain(intervals.iter_mut().flatten())
            .chain(ranks)
    }

    /// The points that were scored.
    pub fn points(&self) -> f64 {
        self.points
    }

    /// The scores.
    pub fn scores(&self) -> Result<Scores> {
        if self.points == 0.0 {
            return Err(Error::NoRows { what: "the test data".to_string() });
        }
        let (n, nll) = (self.points as usize, -self.log_density / self.points);
        Ok(match self.kind {
            Kind::Regression => {
                let mse = self.squares / self.targets;
                let (crps, coverage_90) = (self.crps / self.targets, self.inside / self.targets);
                Scores::Regression(RegressionScores { n, mse, rmse: mse.sqrt(), nll, crps, coverage_90 })
            }
            Kind::Classes { per_output } => Scores::Classes(ClassScores {
                n,
                nll,
                accuracy: self.reliability.accuracy(),
                brier: self.brier / if per_output { self.targets } else { self.points },
                ece: self.reliability.error(),
            }),
            Kind::Counts => {
                let mse = self.squares / self.targets;
                let coverage_90 = self.inside / self.targets;
                Scores::Counts(CountScores { n, mse, rmse: mse.sqrt(), nll, coverage_90 })
            }
        })
    }

    /// The calibration curves, where they were summed.
    pub fn curves(&self) -> Curves {
        if let Kind::Classes { .. } = self.kind {
            return Curves::Reliability { reliability: self.reliability.curve() };
        }
        let level = |(&level, [inside, widths]): (&f64, &[f64; 2])| IntervalScore {
            level,
            coverage: inside / self.targets,
            mean_width: widths / self.targets,
        };
        Curves::Intervals {
            intervals: COVERAGE_LEVELS.iter().zip(&self.intervals).map(level).collect(),
            pit_histogram: self.ranks.iter().map(|count| *count as usize).collect(),
        }
    }
}

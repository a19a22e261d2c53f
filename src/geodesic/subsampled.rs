//! Samples whose metric comes from a part of the data: the same part for all, or another for each.

use super::keeper::Watch;
use super::posterior::PathSolver;
use super::sampler::{SamplerOptions, exponential_map, follow, for_each_index, reserve_memory, sample_watched};
use super::samples::Samples;
use crate::error::{Result, check_size};
use crate::laplace::Precision;
use crate::metric::{self, Batch, Metric, MetricEvaluator, Pullback, SolverName, SolverReport, Subsampled};
use crate::random::{Purpose, stream};
use crate::target::Target;

/// The batch of data points that a metric is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricBatch {
    /// |B|, the number of data points.
    pub size: usize,
    /// Whether each sample has its own batch, constant along its geodesic; otherwise all share one.
    pub redraw: bool,
}

/// How far the sub-sampled metric is from that of all data.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchReport {
    /// The batch.
    pub batch: MetricBatch,
    /// |vᵀG_Bv − vᵀGv| / vᵀGv at the base point for the velocity of each sample.
    pub residuals: Vec<f64>,
}

impl BatchReport {
    /// The mean over the samples.
    pub fn mean_residual(&self) -> f64 {
        self.residuals.iter().sum::<f64>() / self.residuals.len().max(1) as f64
    }
}

/// A metric that is a sum over data points.
#[derive(Debug, Clone, Copy)]
pub(super) enum SumOverData {
    Fisher,
    EmpiricalFisher,
}

/// The batch of one sample.
fn draw_batch(total: usize, size: usize, seed: u64, index: usize) -> Result<Batch> {
    Batch::draw(total, size, &mut stream(seed, Purpose::MetricBatch, index as u64))
}

/// What one thread compares speeds with.
type Speeds = Box<dyn MetricEvaluator>;

/// What all samples share.
pub(super) struct Subsampling<'a> {
    pub target: &'a Target,
    pub name: SumOverData,
    pub batch: MetricBatch,
    pub solver: PathSolver<'a>,
    pub base: &'a [f64],
    pub precision: &'a dyn Precision,
}

impl Subsampling<'_> {
    /// Draws the samples, and compares the metric of each with that of all data.
    pub(super) fn sample(&self, options: &SamplerOptions, watch: Watch<'_>) -> Result<Samples> {
        let MetricBatch { size, redraw } = self.batch;
        let first = self.part(options.seed, 0)?;
        let speeds = of_all_data(self.target, self.name, PathSolver::for_speeds(), self.base, 1)?;
        let (mut samples, residuals) = if redraw {
            self.redrawn(&speeds, options, watch)?
        } else {
            let metric = self.metric(&first, self.solver, options.workers())?;
            let mut samples = sample_watched(&metric, self.base, self.precision, options, watch)?;
            samples.report_on(&metric);
            let prepare = || Ok((speeds.evaluator(), metric.evaluator()));
            let compare = |(whole, part): &mut (Speeds, Speeds), index| {
                let mut velocity = vec![0.0; self.base.len()];
                self.precision.sample(&mut stream(options.seed, Purpose::Velocity, index as u64), &mut velocity);
                Ok(self.residual(&mut **whole, &mut **part, &velocity))
            };
            (samples, for_each_index(options.range.clone(), prepare, compare)?)
        };
        samples.batch = Some(BatchReport { batch: MetricBatch { size, redraw }, residuals });
        Ok(samples)
    }

    /// Each sample with its own batch.
    fn redrawn(&self, whole: &dyn Metric, options: &SamplerOptions, watch: Watch<'_>) -> Result<(Samples, Vec<f64>)> {
        options.validate()?;
        let integrator = options.geodesic.integrator;
        let _reservation = reserve_memory(options.range.len(), self.base.len(), integrator)?;
        check_size("number of parameters of the precision", self.base.len(), self.precision.n_params())?;
        let workers = options.workers();
        let prepare = || Ok(whole.evaluator());
        let draw = |evaluator: &mut Speeds, index: usize| {
            watch.progress.check()?;
            let mut velocity = vec![0.0; self.base.len()];
            self.precision.sample(&mut stream(options.seed, Purpose::Velocity, index as u64), &mut velocity);
            let part = self.part(options.seed, index)?;
            let metric = self.metric(&part, self.solver, workers)?;
            let geodesic = watch.sample(index, self.base.len(), || {
                follow(&mut exponential_map(&metric, options.geodesic, watch.progress)?, self.base, &velocity)
            })?;
            let residual = self.residual(&mut **evaluator, &mut *metric.evaluator(), &velocity);
            Ok((geodesic, residual, (metric.solver_name(), metric.solver_report())))
        };
        let drawn = for_each_index(options.range.clone(), prepare, draw)?;
        let (mut geodesics, mut residuals, mut solver) = (Vec::new(), Vec::new(), None);
        let mut solver_name: Option<SolverName> = None;
        for (geodesic, residual, (name, report)) in drawn {
            solver_name = Some(name);
            geodesics.push(geodesic);
            residuals.push(residual);
            if let Some(report) = report {
                solver.get_or_insert_with(SolverReport::default).merge(&report);
            }
        }
        let mut samples = Samples::collect(geodesics, self.base.len()).drawn(options.seed, options.range.clone());
        (samples.solver_name, samples.solver) = (solver_name, solver);
        Ok((samples, residuals))
    }

    fn points(&self) -> usize {
        self.target.map().n_points()
    }

    fn part(&self, seed: u64, index: usize) -> Result<Subsampled> {
        Subsampled::new(self.target, &draw_batch(self.points(), self.batch.size, seed, index)?)
    }

    fn metric(&self, part: &Subsampled, solver: PathSolver<'_>, workers: usize) -> Result<Pullback> {
        Ok(match self.name {
            SumOverData::EmpiricalFisher => {
                solver.apply(part.empirical_fisher().judged_at(self.target), self.base, workers)?
            }
            SumOverData::Fisher => solver.apply(part.fisher().judged_at(self.target), self.base, workers)?,
        })
    }

    /// |vᵀG_Bv − vᵀGv| / vᵀGv.
    fn residual(&self, whole: &mut dyn MetricEvaluator, part: &mut dyn MetricEvaluator, velocity: &[f64]) -> f64 {
        let speed = whole.squared_speed(self.base, velocity);
        (part.squared_speed(self.base, velocity) - speed).abs() / speed
    }
}

/// The metric of all data: empirical Fisher, or Fisher.
pub(super) fn of_all_data(
    target: &Target,
    name: SumOverData,
    solver: PathSolver<'_>,
    base: &[f64],
    workers: usize,
) -> Result<Pullback> {
    Ok(match name {
        SumOverData::EmpiricalFisher => solver.apply(metric::empirical_fisher(target), base, workers)?,
        SumOverData::Fisher => solver.apply(metric::fisher(target), base, workers)?,
    })
}

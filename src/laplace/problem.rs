//! What is fitted: a model, a likelihood, its temperature and the number of data points; and a batch of the data as rows
//! J̃ at θ̂, whose sum of squares J̃ᵀJ̃ is the curvature at unit scale.

use std::sync::{Arc, Mutex, PoisonError};

use faer::Mat;
use ndarray::{Array2, ArrayView2};

use super::hessian::add_negative_hessian;
use super::{CurvatureKind, Structure};
use crate::data::Dataset;
use crate::error::{Error, Result, Unsupported};
use crate::likelihood::{Family, PointEvaluator};
use crate::map::{Evaluate, Map, Model, Rows, frozen_rows};

/// A model, the distribution of its targets, and the number of data points.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The model, with its trained parameters.
    pub model: Arc<dyn Model>,
    /// The likelihood.
    pub family: Family,
    /// What the curvature is made of.
    pub kind: CurvatureKind,
    /// T: the posterior is proportional to prior · likelihood^(1/T).
    pub temperature: f64,
    /// N.
    pub n_data: usize,
    /// The training data, where available: function space and the metrics are built from them.
    pub data: Option<Arc<Dataset>>,
}

impl Problem {
    /// The exact structure with the smaller matrix; for the Hessian, which has no rows, weight space.
    pub fn exact(&self) -> Structure {
        let weights = self.kind == CurvatureKind::Hessian || self.model.n_params() <= self.n_rows();
        if weights { Structure::WeightSpace } else { Structure::FunctionSpace }
    }

    /// M, the number of rows of all data: N·P, or N where each data point has one score.
    pub fn n_rows(&self) -> usize {
        self.n_data.saturating_mul(self.rows_per_point())
    }

    fn rows_per_point(&self) -> usize {
        match self.kind {
            CurvatureKind::Ggn | CurvatureKind::Hessian => self.model.n_outputs(),
            CurvatureKind::EmpiricalFisher => 1,
        }
    }

    /// Checks that the curvature is a function of the noise levels that tuning and structures can follow.
    pub(super) fn check_noise(&self) -> Result<()> {
        if self.kind == CurvatureKind::EmpiricalFisher && self.sigmas().len() > 1 {
            return Err(Error::Unsupported(Unsupported::EmpiricalFisherLevels));
        }
        Ok(())
    }

    /// The σ of each level: one for all outputs, one per output, or 1 for families without noise.
    pub fn sigmas(&self) -> Vec<f64> {
        sigmas(&self.family)
    }

    /// The power of σ in the scale: 2 for the empirical Fisher, since scores (y − f)/σ² enter it squared.
    pub(crate) fn sigma_power(&self) -> i32 {
        match self.kind {
            CurvatureKind::EmpiricalFisher if self.family.sigma().is_some() => 2,
            CurvatureKind::EmpiricalFisher | CurvatureKind::Ggn | CurvatureKind::Hessian => 1,
        }
    }

    /// The scale s of each level, with which the curvature C at unit scale counts as C/s²: σ√T, or σ²√T for the
    /// empirical Fisher.
    pub fn scales(&self) -> Vec<f64> {
        let scale = |sigma: f64| sigma.powi(self.sigma_power()) * self.temperature.sqrt();
        self.sigmas().into_iter().map(scale).collect()
    }

    /// log s of each level from log σ, which is empty for families without noise.
    pub(crate) fn log_scales(&self, log_sigma: &[f64]) -> Vec<f64> {
        let (power, shift) = (f64::from(self.sigma_power()), 0.5 * self.temperature.ln());
        match log_sigma {
            [] if shift != 0.0 => vec![shift],
            levels => levels.iter().map(|level| power * level + shift).collect(),
        }
    }

    /// The rows J̃ at θ̂ over their scale: one for all rows, or one per output. Whitened by the family's Fisher
    /// information, J̃ = RᵀJ; or the scores of the targets, J̃ₙ = sₙᵀ.
    pub(super) fn rows(
        &self,
        map: &Arc<dyn Map>,
        targets: ArrayView2<'_, f64>,
        scales: &[f64],
    ) -> Result<Box<dyn Rows>> {
        frozen_rows(map, self.model.parameters(), self.rows_per_point(), |outputs| {
            self.finite_seeds(map, outputs, targets, scales)
        })
    }

    /// The seeds of these rows, checked.
    fn finite_seeds(
        &self,
        map: &Arc<dyn Map>,
        outputs: &[f64],
        targets: ArrayView2<'_, f64>,
        scales: &[f64],
    ) -> Result<Vec<f64>> {
        let (n, columns) = (map.n_points(), self.rows_per_point());
        let seeds = self.seeds(map, outputs, targets, scales);
        match seeds.iter().position(|value| !value.is_finite()) {
            Some(index) => {
                let what = match self.kind {
                    CurvatureKind::Ggn | CurvatureKind::Hessian => "the output Fisher information",
                    CurvatureKind::EmpiricalFisher => "the score of the target",
                };
                Err(Error::NotFinite { what, row: index % n, column: index / n / columns })
            }
            None => Ok(seeds),
        }
    }

    /// The same without looking at the numbers: for rows that were made, and checked, before.
    pub(super) fn rows_again(&self, map: &Arc<dyn Map>, targets: ArrayView2<'_, f64>, scales: &[f64]) -> Box<dyn Rows> {
        let mut outputs = vec![0.0; map.n_points() * map.n_outputs()];
        let mut evaluator = map.clone().evaluate(self.rows_per_point());
        evaluator.outputs(self.model.parameters(), &mut outputs);
        evaluator.pull_back(self.model.parameters(), &self.seeds(map, &outputs, targets, scales));
        evaluator
    }

    /// The seeds at unit σ over their scale: R with P columns, or the scores in one.
    fn seeds(&self, map: &Arc<dyn Map>, outputs: &[f64], targets: ArrayView2<'_, f64>, scales: &[f64]) -> Vec<f64> {
        let (n, p, columns) = (map.n_points(), map.n_outputs(), self.rows_per_point());
        let weights = self.root_weights(targets);
        let mut points = PointEvaluator::new(n, p);
        let (likelihood, observed) = self.unit_family().of_rows(targets, p);
        let mut seeds = vec![0.0; n * p * columns];
        match self.kind {
            CurvatureKind::Ggn | CurvatureKind::Hessian => points.whitening(&*likelihood, outputs, &mut seeds),
            CurvatureKind::EmpiricalFisher => {
                let observations: Vec<f64> = observed.iter().copied().collect();
                points.scores(&*likelihood, &observations, outputs, &mut seeds);
                // The scores of a row of weight w are w times those of each of its w copies, whose squares are to be summed.
                for (index, seed) in seeds.iter_mut().enumerate() {
                    let root = weights.get(index % n.max(1)).copied().unwrap_or(1.0);
                    *seed = if root > 0.0 { *seed / root } else { 0.0 };
                }
            }
        }
        // Entry (n, p, k) is at (p·K + k)·N + n.
        for (index, column) in seeds.chunks_exact_mut(n.max(1)).enumerate() {
            let factor = 1.0 / scales[if scales.len() == 1 { 0 } else { index % columns }];
            column.iter_mut().for_each(|value| *value *= factor);
        }
        seeds
    }

    /// The roots of the rows' weights; empty where they have none.
    fn root_weights(&self, targets: ArrayView2<'_, f64>) -> Vec<f64> {
        match targets.ncols().checked_sub(1).filter(|_| self.family.has_weights()) {
            Some(last) => targets.column(last).iter().map(|weight| weight.sqrt()).collect(),
            None => Vec::new(),
        }
    }

    /// The rows of one output alone at unit scale, for likelihoods with a noise level for each.
    fn rows_of_output(&self, map: &Arc<dyn Map>, targets: ArrayView2<'_, f64>, output: usize) -> Result<Box<dyn Rows>> {
        let (n, p) = (map.n_points(), map.n_outputs());
        let mut seeds = vec![0.0; n * p];
        seeds[output * n..(output + 1) * n].fill(1.0);
        seeds[output * n..(output + 1) * n]
            .iter_mut()
            .zip(self.root_weights(targets))
            .for_each(|(seed, root)| *seed = root);
        frozen_rows(map, self.model.parameters(), 1, |_| Ok(seeds))
    }

    /// The family at σ = 1.
    fn unit_family(&self) -> Family {
        self.family.at_unit_noise()
    }
}

/// One σ for all outputs, one per output, or 1 for families without noise.
pub(crate) fn sigmas(family: &Family) -> Vec<f64> {
    family.sigma().map_or_else(|| vec![1.0], <[f64]>::to_vec)
}

/// A batch of data points at θ̂, from which a structure takes what it needs.
pub struct BatchRows<'a> {
    problem: &'a Problem,
    map: Arc<dyn Map>,
    inputs: ArrayView2<'a, f64>,
    targets: ArrayView2<'a, f64>,
    /// The evaluation at θ̂ that the first rows are made from.
    evaluated: Mutex<Option<Evaluation>>,
}

/// The model evaluated at θ̂.
struct Evaluation {
    evaluator: Box<dyn Evaluate>,
    /// Output by output.
    outputs: Vec<f64>,
}

impl<'a> BatchRows<'a> {
    /// The model at these inputs, where these targets were observed.
    pub(super) fn new(problem: &'a Problem, inputs: ArrayView2<'a, f64>, targets: ArrayView2<'a, f64>) -> Result<Self> {
        Ok(Self { problem, map: problem.model.bind(inputs)?, inputs, targets, evaluated: Mutex::new(None) })
    }

    /// The outputs at θ̂, one row per point. The evaluation is kept: the rows need not repeat it.
    pub(super) fn outputs(&self) -> Array2<f64> {
        let (points, p) = (self.map.n_points(), self.map.n_outputs());
        let mut unit_major = vec![0.0; points * p];
        let mut evaluator = self.map.clone().evaluate(self.problem.rows_per_point());
        evaluator.outputs(self.problem.model.parameters(), &mut unit_major);
        let outputs = Array2::from_shape_fn((points, p), |(n, output)| unit_major[output * points + n]);
        *self.evaluated.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Evaluation { evaluator, outputs: unit_major });
        outputs
    }

    /// The rows of all outputs at unit scale, from the evaluation that was kept if there is one.
    fn rows(&self) -> Result<Box<dyn Rows>> {
        let kept = self.evaluated.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Evaluation { mut evaluator, outputs }) = kept else {
            return self.problem.rows(&self.map, self.targets, &[1.0]);
        };
        let seeds = self.problem.finite_seeds(&self.map, &outputs, self.targets, &[1.0])?;
        evaluator.pull_back(self.problem.model.parameters(), &seeds);
        Ok(evaluator)
    }

    /// The model at these inputs.
    pub(super) fn map(&self) -> &Arc<dyn Map> {
        &self.map
    }

    /// What is being fitted.
    pub fn problem(&self) -> &Problem {
        self.problem
    }

    /// How often each point counts; empty where points have no weights.
    pub(super) fn weights(&self) -> Vec<f64> {
        self.problem.root_weights(self.targets).iter().map(|root| root * root).collect()
    }

    /// The batch's inputs.
    pub fn inputs(&self) -> ArrayView2<'_, f64> {
        self.inputs
    }

    /// The batch's targets.
    pub fn targets(&self) -> ArrayView2<'_, f64> {
        self.targets
    }

    /// The rows at θ̂ at unit scale whose squares add up to the curvature, for each noise level: all outputs together when
    /// there is one level, each output alone when there are several. (The Hessian has no rows, and is for weight space.)
    pub fn rows_of_levels(&self, levels: usize) -> impl Iterator<Item = Result<Box<dyn Rows>>> + '_ {
        (0..levels).map(move |level| match levels {
            1 => self.rows(),
            _ => self.problem.rows_of_output(&self.map, self.targets, level),
        })
    }

    /// Adds the negative Hessian of the log likelihood at unit scale to one matrix per noise level.
    pub(super) fn add_negative_hessians(&self, sums: &mut [Mat<f64>]) -> Result<()> {
        let levels = sums.len();
        let (likelihood, observed) = self.problem.unit_family().of_rows(self.targets, self.map.n_outputs());
        for (level, sum) in sums.iter_mut().enumerate() {
            let output = (levels > 1).then_some(level);
            let theta = self.problem.model.parameters();
            add_negative_hessian(&self.map, theta, &*likelihood, observed, output, sum)?;
        }
        Ok(())
    }
}

//! What is fitted: a model, a likelihood, its temperature and the number of data points; and a batch of the data as rows
//! J̃ at θ̂, whose sum of squares J̃ᵀJ̃ is the curvature at unit scale.

use std::sync::Arc;

use ndarray::ArrayView2;

use super::Structure;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::likelihood::{Family, Gaussian, PointEvaluator};
use crate::map::{Map, Model, Rows, frozen_rows};

/// A model, the distribution of its targets, and the number of data points.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The model, with its trained parameters.
    pub model: Arc<dyn Model>,
    /// The likelihood.
    pub family: Family,
    /// T: the posterior is proportional to prior · likelihood^(1/T).
    pub temperature: f64,
    /// N.
    pub n_data: usize,
    /// The training data, where available: function space and the metrics are built from them.
    pub data: Option<Arc<Dataset>>,
}

impl Problem {
    /// The exact structure with the smaller matrix.
    pub fn exact(&self) -> Structure {
        if self.model.n_params() <= self.n_rows() { Structure::WeightSpace } else { Structure::FunctionSpace }
    }

    /// M, the number of rows of all data: N·P.
    pub fn n_rows(&self) -> usize {
        self.n_data * self.model.n_outputs()
    }

    /// The σ of each level: one for all outputs, one per output, or 1 for families without noise.
    pub fn sigmas(&self) -> Vec<f64> {
        sigmas(&self.family)
    }

    /// The scale s = σ√T of each level, with which the curvature C at unit scale counts as C/s².
    pub fn scales(&self) -> Vec<f64> {
        self.sigmas().into_iter().map(|sigma| sigma * self.temperature.sqrt()).collect()
    }

    /// log s of each level from log σ, which is empty for families without noise.
    pub(crate) fn log_scales(&self, log_sigma: &[f64]) -> Vec<f64> {
        let shift = 0.5 * self.temperature.ln();
        match log_sigma {
            [] if shift != 0.0 => vec![shift],
            levels => levels.iter().map(|level| level + shift).collect(),
        }
    }

    /// The rows J̃ at θ̂ at unit scale; with `output`, those of one output alone.
    pub fn unit_rows(&self, map: &Arc<dyn Map>, output: Option<usize>) -> Result<Box<dyn Rows>> {
        let Some(output) = output else {
            return self.rows(map, &[1.0]);
        };
        let (n, p) = (map.n_points(), map.n_outputs());
        let mut seeds = vec![0.0; n * p];
        seeds[output * n..(output + 1) * n].fill(1.0);
        frozen_rows(map, self.model.parameters(), 1, |_| Ok(seeds))
    }

    /// The rows J̃ = RᵀJ at θ̂, whitened by the family's Fisher information, over their scale: one for all rows, or one
    /// per output.
    pub(super) fn rows(&self, map: &Arc<dyn Map>, scales: &[f64]) -> Result<Box<dyn Rows>> {
        let (n, p) = (map.n_points(), map.n_outputs());
        frozen_rows(map, self.model.parameters(), p, |outputs| {
            let seeds = self.seeds(map, outputs, scales);
            match seeds.iter().position(|value| !value.is_finite()) {
                Some(index) => {
                    let what = "the output Fisher information";
                    Err(Error::NotFinite { what, row: index % n, column: index / n / p })
                }
                None => Ok(seeds),
            }
        })
    }

    /// The same without looking at the numbers: for rows that were made, and checked, before.
    pub(super) fn rows_again(&self, map: &Arc<dyn Map>, scales: &[f64]) -> Box<dyn Rows> {
        let mut outputs = vec![0.0; map.n_points() * map.n_outputs()];
        let mut evaluator = map.clone().evaluate(map.n_outputs());
        evaluator.outputs(self.model.parameters(), &mut outputs);
        evaluator.pull_back(self.model.parameters(), &self.seeds(map, &outputs, scales));
        evaluator
    }

    /// The seeds R at unit σ over their scale.
    fn seeds(&self, map: &Arc<dyn Map>, outputs: &[f64], scales: &[f64]) -> Vec<f64> {
        let (n, p) = (map.n_points(), map.n_outputs());
        let mut seeds = vec![0.0; n * p * p];
        PointEvaluator::new(n, p).whitening(self.unit_family().likelihood(), outputs, &mut seeds);
        // Entry (n, p, k) is at (p·P + k)·N + n.
        for (index, column) in seeds.chunks_exact_mut(n.max(1)).enumerate() {
            let factor = 1.0 / scales[if scales.len() == 1 { 0 } else { index % p }];
            column.iter_mut().for_each(|value| *value *= factor);
        }
        seeds
    }

    /// The family at σ = 1.
    fn unit_family(&self) -> Family {
        match &self.family {
            Family::Gaussian(_) => Family::Gaussian(Gaussian::unit()),
            other => other.clone(),
        }
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
}

impl<'a> BatchRows<'a> {
    /// The model at these inputs.
    pub(super) fn new(problem: &'a Problem, inputs: ArrayView2<'a, f64>) -> Result<Self> {
        Ok(Self { problem, map: problem.model.bind(inputs)?, inputs })
    }

    /// The model at these inputs.
    pub(super) fn map(&self) -> &Arc<dyn Map> {
        &self.map
    }

    /// What is being fitted.
    pub fn problem(&self) -> &Problem {
        self.problem
    }

    /// The batch's inputs.
    pub fn inputs(&self) -> ArrayView2<'_, f64> {
        self.inputs
    }

    /// The rows J̃ at θ̂ at unit scale for each noise level: all outputs together when there is one level, each output
    /// alone when there are several.
    pub fn rows_of_levels(&self, levels: usize) -> impl Iterator<Item = Result<Box<dyn Rows>>> + '_ {
        (0..levels).map(move |level| self.problem.unit_rows(&self.map, (levels > 1).then_some(level)))
    }
}

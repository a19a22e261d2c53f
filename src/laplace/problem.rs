//! What is fitted: a model, a likelihood and the number of data points; and a batch of the data as whitened rows J̃ at
//! θ̂.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2};

use super::Structure;
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
    /// N.
    pub n_data: usize,
    /// The training inputs, where available: function space is built from them.
    pub inputs: Option<Arc<Array2<f64>>>,
}

impl Problem {
    /// The exact structure with the smaller matrix.
    pub fn exact(&self) -> Structure {
        if self.model.n_params() <= self.n_rows() { Structure::WeightSpace } else { Structure::FunctionSpace }
    }

    /// M = N·P.
    pub fn n_rows(&self) -> usize {
        self.n_data * self.model.n_outputs()
    }

    /// The σ of each level: one for all outputs, one per output, or 1 for families without noise.
    pub fn sigmas(&self) -> Vec<f64> {
        sigmas(&self.family)
    }

    /// The rows J̃ at θ̂, whitened at σ = 1; with `output`, those of one output alone.
    pub fn unit_rows(&self, map: &Arc<dyn Map>, output: Option<usize>) -> Result<Box<dyn Rows>> {
        let unit = match &self.family {
            Family::Gaussian(_) => Family::Gaussian(Gaussian::unit()),
            other => other.clone(),
        };
        let Some(output) = output else {
            return whitened_rows(map, self.model.parameters(), &unit);
        };
        let (n, p) = (map.n_points(), map.n_outputs());
        let mut seeds = vec![0.0; n * p];
        seeds[output * n..(output + 1) * n].fill(1.0);
        frozen_rows(map, self.model.parameters(), 1, |_| Ok(seeds))
    }
}

/// One σ for all outputs, one per output, or 1 for families without noise.
pub(crate) fn sigmas(family: &Family) -> Vec<f64> {
    family.sigma().map_or_else(|| vec![1.0], <[f64]>::to_vec)
}

/// The rows J̃ = RᵀJ at θ, whitened by the family's Fisher information.
pub(crate) fn whitened_rows(map: &Arc<dyn Map>, theta: &[f64], family: &Family) -> Result<Box<dyn Rows>> {
    let (n, p) = (map.n_points(), map.n_outputs());
    frozen_rows(map, theta, p, |outputs| {
        let mut seeds = vec![0.0; n * p * p];
        PointEvaluator::new(n, p).whitening(family.likelihood(), outputs, &mut seeds);
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
pub(super) fn whitened_rows_again(map: &Arc<dyn Map>, theta: &[f64], family: &Family) -> Box<dyn Rows> {
    let (n, p) = (map.n_points(), map.n_outputs());
    let (mut outputs, mut seeds) = (vec![0.0; n * p], vec![0.0; n * p * p]);
    let mut evaluator = map.clone().evaluate(p);
    evaluator.outputs(theta, &mut outputs);
    PointEvaluator::new(n, p).whitening(family.likelihood(), &outputs, &mut seeds);
    evaluator.pull_back(theta, &seeds);
    evaluator
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

    /// What is being fitted.
    pub fn problem(&self) -> &Problem {
        self.problem
    }

    /// The batch's inputs.
    pub fn inputs(&self) -> ArrayView2<'_, f64> {
        self.inputs
    }

    /// The rows J̃ at θ̂, whitened at σ = 1, for each noise level: all outputs together when there is one level, each
    /// output alone when there are several.
    pub fn rows_of_levels(&self, levels: usize) -> impl Iterator<Item = Result<Box<dyn Rows>>> + '_ {
        (0..levels).map(move |level| self.problem.unit_rows(&self.map, (levels > 1).then_some(level)))
    }
}

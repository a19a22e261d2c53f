//! θ → −½(θ − θ̂)ᵀP(θ − θ̂), the log density of a Gaussian as a map with one output.

use std::sync::Arc;

use crate::laplace::Precision;
use crate::linalg::dot;
use crate::map::{Evaluate, Jet, Map, SingleRow, single_row};

/// The log density of N(centre, P⁻¹), up to its constant.
#[derive(Debug, Clone)]
pub struct Quadratic {
    precision: Arc<dyn Precision>,
    centre: Arc<[f64]>,
    /// P column by column when D is small: a plain loop is then several times as fast as a general product.
    entries: Option<Arc<[f64]>>,
}

/// The largest D for which P is kept entry by entry.
const FEW: usize = 32;

impl Quadratic {
    /// The Gaussian with this precision and centre.
    pub fn new(precision: Arc<dyn Precision>, centre: &[f64]) -> Self {
        let size = centre.len();
        let entries = (size == precision.n_params() && size <= FEW).then(|| {
            let (mut entries, mut unit) = (vec![0.0; size * size], vec![0.0; size]);
            for (d, column) in entries.chunks_exact_mut(size.max(1)).enumerate() {
                unit[d] = 1.0;
                precision.times(&unit, column);
                unit[d] = 0.0;
            }
            entries.into()
        });
        Self { precision, centre: centre.into(), entries }
    }

    /// product ← P u, from the entries of P where they are kept.
    fn times(&self, direction: &[f64], product: &mut [f64]) {
        match &self.entries {
            Some(entries) => {
                product.fill(0.0);
                for (column, along) in entries.chunks_exact(direction.len().max(1)).zip(direction) {
                    product.iter_mut().zip(column).for_each(|(value, entry)| *value += entry * along);
                }
            }
            None => self.precision.times(direction, product),
        }
    }
}

impl Map for Quadratic {
    fn n_params(&self) -> usize {
        self.centre.len()
    }

    fn n_points(&self) -> usize {
        1
    }

    fn n_outputs(&self) -> usize {
        1
    }

    fn evaluate(self: Arc<Self>, _: usize) -> Box<dyn Evaluate> {
        let zeros = vec![0.0; self.n_params()];
        Box::new(QuadraticEvaluator {
            shift: zeros.clone(),
            momentum: zeros.clone(),
            turned: zeros,
            single: SingleRow::new(self.groups()),
            map: self,
        })
    }

    fn evaluator_size(&self, _: usize) -> f64 {
        5.0 * self.n_params() as f64
    }
}

/// One thread's buffers for a [`Quadratic`] map, and the operations that need them.
struct QuadraticEvaluator {
    map: Arc<Quadratic>,
    shift: Vec<f64>,
    /// P(θ − θ̂), the negative gradient.
    momentum: Vec<f64>,
    turned: Vec<f64>,
    single: SingleRow,
}

impl QuadraticEvaluator {
    fn move_to(&mut self, theta: &[f64]) {
        for ((shift, theta), centre) in self.shift.iter_mut().zip(theta).zip(self.map.centre.iter()) {
            *shift = theta - centre;
        }
        self.map.times(&self.shift, &mut self.momentum);
    }
}

impl Evaluate for QuadraticEvaluator {
    fn outputs(&mut self, theta: &[f64], outputs: &mut [f64]) {
        self.move_to(theta);
        outputs[0] = -0.5 * dot(&self.shift, &self.momentum);
    }

    fn jet(&mut self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        self.move_to(theta);
        if let Some(output) = jet.outputs.first_mut() {
            *output = -0.5 * dot(&self.shift, &self.momentum);
        }
        self.map.times(velocity, &mut self.turned);
        jet.first[0] = -dot(&self.momentum, velocity);
        jet.second[0] = -dot(&self.turned, velocity);
    }

    fn pull_back(&mut self, _: &[f64], seeds: &[f64]) {
        for (value, momentum) in self.single.row.iter_mut().zip(&self.momentum) {
            *value = -seeds[0] * momentum;
        }
    }
}

single_row!(QuadraticEvaluator);

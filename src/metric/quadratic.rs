//! θ → −½(θ − θ̂)ᵀP(θ − θ̂), the log density of a Gaussian as a map with one output.

use faer::MatMut;

use crate::laplace::{Precision, PrecisionWorker};
use crate::linalg::dot;
use crate::map::{DifferentiableMap, Jet, SingleRow};

/// The log density of N(centre, P⁻¹), up to its constant.
pub struct Quadratic<'a> {
    precision: &'a dyn Precision,
    centre: &'a [f64],
}

impl<'a> Quadratic<'a> {
    /// The Gaussian with this precision and centre.
    pub fn new(precision: &'a dyn Precision, centre: &'a [f64]) -> Self {
        Self { precision, centre }
    }
}

/// Buffers of a [`Quadratic`] map.
pub struct QuadraticWorkspace<'a> {
    worker: Box<dyn PrecisionWorker + Send + 'a>,
    shift: Vec<f64>,
    /// P(θ − θ̂), the negative gradient.
    momentum: Vec<f64>,
    turned: Vec<f64>,
    single: SingleRow,
}

impl QuadraticWorkspace<'_> {
    fn move_to(&mut self, theta: &[f64], centre: &[f64]) {
        for ((shift, theta), centre) in self.shift.iter_mut().zip(theta).zip(centre) {
            *shift = theta - centre;
        }
        self.worker.times(&self.shift, &mut self.momentum);
    }
}

impl<'a> DifferentiableMap for Quadratic<'a> {
    type Workspace = QuadraticWorkspace<'a>;

    fn n_params(&self) -> usize {
        self.centre.len()
    }

    fn n_points(&self) -> usize {
        1
    }

    fn n_outputs(&self) -> usize {
        1
    }

    fn workspace(&self, _: usize) -> QuadraticWorkspace<'a> {
        let zeros = vec![0.0; self.n_params()];
        QuadraticWorkspace {
            worker: self.precision.worker(),
            shift: zeros.clone(),
            momentum: zeros.clone(),
            turned: zeros,
            single: SingleRow::new(self.n_params()),
        }
    }

    fn outputs(&self, theta: &[f64], outputs: &mut [f64], workspace: &mut Self::Workspace) {
        workspace.move_to(theta, self.centre);
        outputs[0] = -0.5 * dot(&workspace.shift, &workspace.momentum);
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet, workspace: &mut Self::Workspace) {
        self.outputs(theta, &mut jet.outputs, workspace);
        workspace.worker.times(velocity, &mut workspace.turned);
        jet.tangents[0] = -dot(&workspace.momentum, velocity);
        jet.curvatures[0] = -dot(&workspace.turned, velocity);
    }

    fn pull_back(&self, _: &[f64], seeds: &[f64], workspace: &mut Self::Workspace) {
        for (value, momentum) in workspace.single.row.iter_mut().zip(&workspace.momentum) {
            *value = -seeds[0] * momentum;
        }
    }

    fn rows(&self, workspace: &mut Self::Workspace, rows: MatMut<'_, f64>) {
        workspace.single.rows(rows);
    }

    fn times(&self, direction: &[f64], workspace: &mut Self::Workspace, product: &mut [f64]) {
        workspace.single.times(direction, product);
    }

    fn transpose_times(&self, weights: &[f64], workspace: &mut Self::Workspace, product: &mut [f64]) {
        workspace.single.transpose_times(weights, product);
    }

    fn gram(&self, variances: &[f64], workspace: &mut Self::Workspace, gram: MatMut<'_, f64>) {
        workspace.single.gram(&self.groups(), variances, gram);
    }

    fn workspace_size(&self, _: usize) -> f64 {
        5.0 * self.n_params() as f64
    }
}

//! θ → −½(θ − θ̂)ᵀP(θ − θ̂), the log density of a Gaussian as a map with one output.

use faer::MatMut;

use crate::laplace::{Precision, PrecisionWorker};
use crate::linalg::dot;
use crate::map::{DifferentiableMap, Jet, SingleRow};

/// The log density of N(centre, P⁻¹), up to its constant.
pub struct Quadratic<'a> {
    precision: &'a dyn Precision,
    centre: &'a [f64],
    /// P column by column when D is small: a plain loop is then several times as fast as a general product.
    entries: Option<Vec<f64>>,
}

/// The largest D for which P is kept entry by entry.
const FEW: usize = 32;

impl<'a> Quadratic<'a> {
    /// The Gaussian with this precision and centre.
    pub fn new(precision: &'a dyn Precision, centre: &'a [f64]) -> Self {
        let size = centre.len();
        let entries = (size == precision.n_params() && size <= FEW).then(|| {
            let (mut worker, mut entries) = (precision.worker(), vec![0.0; size * size]);
            let mut unit = vec![0.0; size];
            for (d, column) in entries.chunks_exact_mut(size.max(1)).enumerate() {
                unit[d] = 1.0;
                worker.times(&unit, column);
                unit[d] = 0.0;
            }
            entries
        });
        Self { precision, centre, entries }
    }
}

/// product ← P u, from the entries where they are known.
fn times(
    entries: Option<&[f64]>,
    worker: &mut (dyn PrecisionWorker + Send + '_),
    direction: &[f64],
    product: &mut [f64],
) {
    match entries {
        Some(entries) => {
            product.fill(0.0);
            for (column, along) in entries.chunks_exact(direction.len().max(1)).zip(direction) {
                product.iter_mut().zip(column).for_each(|(value, entry)| *value += entry * along);
            }
        }
        None => worker.times(direction, product),
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
    fn move_to(&mut self, theta: &[f64], map: &Quadratic<'_>) {
        for ((shift, theta), centre) in self.shift.iter_mut().zip(theta).zip(map.centre) {
            *shift = theta - centre;
        }
        times(map.entries.as_deref(), &mut *self.worker, &self.shift, &mut self.momentum);
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
            single: SingleRow::new(self.groups()),
        }
    }

    fn outputs(&self, theta: &[f64], outputs: &mut [f64], workspace: &mut Self::Workspace) {
        workspace.move_to(theta, self);
        outputs[0] = -0.5 * dot(&workspace.shift, &workspace.momentum);
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet, workspace: &mut Self::Workspace) {
        self.outputs(theta, &mut jet.outputs, workspace);
        times(self.entries.as_deref(), &mut *workspace.worker, velocity, &mut workspace.turned);
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
        workspace.single.gram(variances, gram);
    }

    fn workspace_size(&self, _: usize) -> f64 {
        5.0 * self.n_params() as f64
    }
}

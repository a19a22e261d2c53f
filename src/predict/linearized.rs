//! The linearised predictive: f(x) ~ N(f(x, θ̂), J G⁻¹ Jᵀ), the GLM of laplace-redux.

use faer::Mat;
use ndarray::{Array1, Array2, Array3, Axis};

use crate::error::{Error, Result, check_size};
use crate::laplace::curvature::Posterior;
use crate::laplace::{FunctionSpace, Laplace, PrecisionWorker};
use crate::map::{DifferentiableMap, identity_seeds};
use crate::memory;
use crate::network::{NetworkMap, NetworkWorkspace};

/// Numbers in the Jacobian rows (weight space) or the workspace (function space) of one block of test points.
const BLOCK_NUMBERS: usize = 1 << 21;
/// Outputs in one block in function space, where the covariances between all of them are computed.
const BLOCK_OUTPUTS: usize = 256;
/// Where the posterior variance is smaller than this share of the prior's, it is computed without cancellation.
const CANCELLATION: f64 = 1e-5;

/// A Gaussian over the raw outputs at each test point.
#[derive(Debug, Clone, PartialEq)]
pub struct LatentGaussian {
    /// f(x, θ̂): one row a point.
    pub mean: Array2<f64>,
    /// J G⁻¹ Jᵀ: one P × P matrix a point, without observation noise.
    pub covariance: Array3<f64>,
}

/// One Gaussian over the raw outputs at all test points together.
#[derive(Debug, Clone, PartialEq)]
pub struct JointGaussian {
    /// Output p at point t stands at `t·P + p`.
    pub mean: Array1<f64>,
    /// The covariance in the same order.
    pub covariance: Array2<f64>,
}

impl LatentGaussian {
    /// Checks that there is a P × P covariance for each row of the mean.
    pub(super) fn check_shape(&self) -> Result<()> {
        let (points, p) = self.mean.dim();
        check_size("number of covariances", points, self.covariance.dim().0)?;
        check_size("number of rows of a covariance", p, self.covariance.dim().1)?;
        check_size("number of columns of a covariance", p, self.covariance.dim().2)
    }

    /// The variance of each output alone: the diagonals of the covariances.
    pub fn variance(&self) -> Array2<f64> {
        Array2::from_shape_fn(self.mean.dim(), |(t, p)| self.covariance[(t, p, p)])
    }
}

impl Laplace {
    /// The linearised predictive at each input on its own.
    pub fn linearized(&self, inputs: &Array2<f64>) -> Result<LatentGaussian> {
        let (points, p) = self.check_inputs(inputs)?;
        let mean = self.outputs(inputs)?;
        let mut covariance = Array3::zeros((points, p, p));
        let d = self.network.parameters().len();
        let widths: usize = self.network.architecture().linear_layers().iter().map(|layer| layer.outputs).sum();
        let block = match &self.posterior {
            Posterior::Weight(_) => BLOCK_NUMBERS / (d * p).max(1),
            Posterior::Function(_) => (BLOCK_NUMBERS / (widths * (4 + p)).max(1)).min(BLOCK_OUTPUTS / p),
        };
        let block = block.clamp(1, points);
        let mut worker = self.precision().worker();
        for (start, chunk) in (0..points).step_by(block).zip(inputs.axis_chunks_iter(Axis(0), block)) {
            let map = NetworkMap::new(self.network.architecture().clone(), chunk)?;
            let mut workspace = self.jacobian_rows(&map);
            match &self.posterior {
                Posterior::Weight(_) => {
                    let mut rows = Mat::zeros(map.n_points() * p, d);
                    map.rows(&mut workspace, rows.as_mut());
                    for n in 0..map.n_points() {
                        let point = Mat::from_fn(p, d, |output, d| rows[(output * map.n_points() + n, d)]);
                        let mut block = Mat::zeros(p, p);
                        worker.covariance(point.as_ref(), block.as_mut());
                        store(&mut covariance, start + n, &block);
                    }
                }
                Posterior::Function(posterior) => {
                    self.function_space_block(posterior, &mut *worker, &map, &mut workspace, start, &mut covariance)?;
                }
            }
        }
        Ok(LatentGaussian { mean, covariance })
    }

    /// The linearised predictive at all inputs together.
    pub fn linearized_joint(&self, inputs: &Array2<f64>) -> Result<JointGaussian> {
        let (points, p) = self.check_inputs(inputs)?;
        let d = self.network.parameters().len();
        let size = points * p;
        let numbers = (size * size) as f64 * 2.0 + (size * d) as f64 * 2.0;
        memory::check("the joint predictive covariance", numbers, "predict fewer points at a time")?;
        let mean = self.outputs(inputs)?;
        let map = NetworkMap::new(self.network.architecture().clone(), inputs.view())?;
        let mut workspace = self.jacobian_rows(&map);
        let mut rows = Mat::zeros(size, d);
        map.rows(&mut workspace, rows.as_mut());
        let mut covariance = Mat::zeros(size, size);
        self.precision().worker().covariance(rows.as_ref(), covariance.as_mut());
        let place = |index: usize| (index % p) * points + index / p;
        Ok(JointGaussian {
            mean: mean.iter().copied().collect(),
            covariance: Array2::from_shape_fn((size, size), |(i, j)| covariance[(place(i), place(j))]),
        })
    }

    fn check_inputs(&self, inputs: &Array2<f64>) -> Result<(usize, usize)> {
        let architecture = self.network.architecture();
        check_size("number of input columns", architecture.n_inputs(), inputs.ncols())?;
        if inputs.nrows() == 0 {
            return Err(Error::NoRows { what: "the inputs".to_string() });
        }
        Ok((inputs.nrows(), architecture.n_outputs()))
    }

    /// The Jacobian of the raw outputs, pulled back.
    fn jacobian_rows(&self, map: &NetworkMap) -> NetworkWorkspace {
        let (n, p) = (map.n_points(), map.n_outputs());
        let mut workspace = map.workspace(p);
        let theta = self.network.parameters();
        map.outputs(theta, &mut vec![0.0; n * p], &mut workspace);
        map.pull_back(theta, &identity_seeds(n, p), &mut workspace);
        workspace
    }

    /// Covariances of a block of points from layer products, and again without cancellation where those lose digits.
    fn function_space_block(
        &self,
        posterior: &FunctionSpace,
        worker: &mut (dyn PrecisionWorker + Send),
        map: &NetworkMap,
        workspace: &mut NetworkWorkspace,
        start: usize,
        covariance: &mut Array3<f64>,
    ) -> Result<()> {
        let (points, p) = (map.n_points(), map.n_outputs());
        let size = points * p;
        let (mut prior, mut joint) = (Mat::zeros(size, size), Mat::zeros(size, size));
        posterior.predictive_covariance(map, workspace, &mut prior, &mut joint);
        for n in 0..points {
            let at = |output: usize| output * points + n;
            let exact = (0..p).all(|o| joint[(at(o), at(o))] >= CANCELLATION * prior[(at(o), at(o))]);
            let mut block = Mat::from_fn(p, p, |i, j| joint[(at(i), at(j))]);
            if !exact {
                let one = NetworkMap::new(map.architecture().clone(), map.input(n).view())?;
                let mut rows = Mat::zeros(p, one.n_params());
                one.rows(&mut self.jacobian_rows(&one), rows.as_mut());
                worker.covariance(rows.as_ref(), block.as_mut());
            }
            store(covariance, start + n, &block);
        }
        Ok(())
    }
}

fn store(covariance: &mut Array3<f64>, point: usize, block: &Mat<f64>) {
    for i in 0..block.nrows() {
        for j in 0..block.ncols() {
            covariance[(point, i, j)] = block[(i, j)];
        }
    }
}

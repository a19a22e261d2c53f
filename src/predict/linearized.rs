//! The linearised predictive: f(x) ~ N(f(x, θ̂), J G⁻¹ Jᵀ), the GLM of laplace-redux.

use faer::Mat;
use ndarray::{Array1, Array2, Array3, ArrayView2, Axis};

use crate::error::{Error, Result, check_size};
use crate::laplace::Laplace;
use crate::likelihood::LatentPoint;
use crate::map::{Rows, frozen_rows, identity_seeds};
use crate::memory;

/// A Gaussian over the raw outputs at each test point.
#[derive(Debug, Clone, PartialEq)]
pub struct LatentGaussian {
    /// f(x, θ̂): one row per point.
    pub mean: Array2<f64>,
    /// J G⁻¹ Jᵀ: one P × P matrix per point, without observation noise.
    pub covariance: Array3<f64>,
}

/// One Gaussian over the raw outputs at all test points jointly.
#[derive(Debug, Clone, PartialEq)]
pub struct JointGaussian {
    /// Output p at point t is at `t·P + p`.
    pub mean: Array1<f64>,
    /// The covariance in the same order.
    pub covariance: Array2<f64>,
}

impl LatentGaussian {
    /// Checks that there is one P × P covariance per row of the mean.
    pub(super) fn check_shape(&self) -> Result<()> {
        let (points, p) = self.mean.dim();
        check_size("number of covariances", points, self.covariance.dim().0)?;
        check_size("number of rows of a covariance", p, self.covariance.dim().1)?;
        check_size("number of columns of a covariance", p, self.covariance.dim().2)
    }

    /// The Gaussian at one point.
    pub(super) fn at(&self, t: usize) -> LatentPoint {
        LatentPoint {
            mean: self.mean.row(t).to_vec(),
            covariance: self.covariance.index_axis(Axis(0), t).iter().copied().collect(),
        }
    }

    /// The variances of single outputs: the diagonals of the covariances.
    pub fn variance(&self) -> Array2<f64> {
        Array2::from_shape_fn(self.mean.dim(), |(t, p)| self.covariance[(t, p, p)])
    }
}

/// The linearised predictive at each input separately.
pub fn linearized(laplace: &Laplace, inputs: &Array2<f64>) -> Result<LatentGaussian> {
    let (points, p) = check_inputs(laplace, inputs)?;
    let mean = laplace.outputs(inputs)?;
    memory::check("the predictive covariances", (points * p * p) as f64, "predict fewer points at a time")?;
    let mut covariance = Array3::zeros((points, p, p));
    let (model, precision) = (laplace.model(), laplace.precision());
    let block = precision.points_at_once(p, model.numbers_per_point(p)).clamp(1, points);
    let parts = covariance.axis_chunks_iter_mut(Axis(0), block).zip(inputs.axis_chunks_iter(Axis(0), block));
    for (index, (mut target, chunk)) in parts.enumerate() {
        let rows = jacobian_rows(laplace, chunk).map_err(|error| error.in_part_from(index * block))?;
        let mut blocks = vec![0.0; chunk.nrows() * p * p];
        precision.point_covariances(&*rows, chunk.nrows(), &mut blocks);
        target.iter_mut().zip(&blocks).for_each(|(entry, value)| *entry = *value);
    }
    match covariance.indexed_iter().find(|(_, value)| !value.is_finite()) {
        Some(((row, column, _), _)) => Err(Error::NotFinite { what: "the predictive variance", row, column }),
        None => Ok(LatentGaussian { mean, covariance }),
    }
}

/// The linearised predictive at all inputs jointly.
pub fn linearized_joint(laplace: &Laplace, inputs: &Array2<f64>) -> Result<JointGaussian> {
    let (points, p) = check_inputs(laplace, inputs)?;
    let d = laplace.parameters().len();
    let size = points * p;
    let numbers = (size * size) as f64 * 2.0 + (size * d) as f64 * 2.0;
    memory::check("the joint predictive covariance", numbers, "predict fewer points at a time")?;
    let mean = laplace.outputs(inputs)?;
    let mut rows = Mat::zeros(size, d);
    jacobian_rows(laplace, inputs.view())?.dense(rows.as_mut());
    let mut covariance = Mat::zeros(size, size);
    laplace.precision().covariance(rows.as_ref(), covariance.as_mut());
    let place = |index: usize| (index % p) * points + index / p;
    Ok(JointGaussian {
        mean: mean.iter().copied().collect(),
        covariance: Array2::from_shape_fn((size, size), |(i, j)| covariance[(place(i), place(j))]),
    })
}

fn check_inputs(laplace: &Laplace, inputs: &Array2<f64>) -> Result<(usize, usize)> {
    check_size("number of input columns", laplace.model().n_inputs(), inputs.ncols())?;
    if inputs.nrows() == 0 {
        return Err(Error::NoRows { what: "the inputs".to_string() });
    }
    Ok((inputs.nrows(), laplace.model().n_outputs()))
}

/// The Jacobian of the raw outputs.
fn jacobian_rows(laplace: &Laplace, inputs: ArrayView2<'_, f64>) -> Result<Box<dyn Rows>> {
    let map = laplace.model().bind(inputs)?;
    let (n, p) = (map.n_points(), map.n_outputs());
    frozen_rows(&map, laplace.parameters(), p, |_| Ok(identity_seeds(n, p)))
}

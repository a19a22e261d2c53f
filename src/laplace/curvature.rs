//! What the data say about the curvature at θ̂, before any hyperparameter: the part that tuning reuses.

use faer::{Accum, Mat};
use ndarray::{Array2, Axis};

use super::function_space::FunctionSpace;
use super::precision::Precision;
use super::weight_space::WeightSpace;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::likelihood::{Family, Gaussian, PointBuffers};
use crate::linalg::multiply_by_own_transpose;
use crate::map::DifferentiableMap;
use crate::network::{Network, NetworkMap, NetworkWorkspace};
use crate::prior::PriorPrecision;

/// Numbers in the rows of one block of data points when a curvature matrix is accumulated.
const BLOCK_NUMBERS: usize = 1 << 22;

/// The curvature at θ̂ in either space.
#[derive(Debug, Clone)]
pub enum Curvature {
    /// Σₙ JₙᵀHₙJₙ at σ = 1: one matrix for all outputs (and one σ), or one for each (which may share their σ).
    Weight(Vec<Mat<f64>>),
    /// The network at its training inputs, from which rows and Gram matrices are made when needed.
    Function(Box<NetworkMap>),
}

/// A factored posterior precision.
#[derive(Debug, Clone)]
pub enum Posterior {
    /// A D × D matrix.
    Weight(WeightSpace),
    /// An M × M matrix.
    Function(Box<FunctionSpace>),
}

impl Posterior {
    /// The operations common to both.
    pub fn as_precision(&self) -> &dyn Precision {
        match self {
            Posterior::Weight(posterior) => posterior,
            Posterior::Function(posterior) => &**posterior,
        }
    }
}

/// The σ of each part of the curvature: one for all outputs, one for each, or 1 for families without.
pub(crate) fn sigmas(family: &Family) -> Vec<f64> {
    family.sigma().map_or_else(|| vec![1.0], <[f64]>::to_vec)
}

impl Curvature {
    /// Accumulates the weight-space matrices over blocks of data points.
    pub fn weight_space(network: &Network, data: &Dataset, family: &Family) -> Result<Self> {
        let (d, p) = (network.architecture().n_params(), network.architecture().n_outputs());
        let parts = sigmas(family).len();
        let mut curvatures = vec![Mat::zeros(d, d); parts];
        let block = (BLOCK_NUMBERS / (d * p).max(1)).clamp(1, data.len());
        for inputs in data.inputs().axis_chunks_iter(Axis(0), block) {
            let map = NetworkMap::new(network.architecture().clone(), inputs)?;
            for (part, curvature) in curvatures.iter_mut().enumerate() {
                let mut workspace = unit_rows(&map, network.parameters(), family, (parts > 1).then_some(part))?;
                let mut rows = Mat::zeros(map.n_points() * workspace.columns(), d);
                map.rows(&mut workspace, rows.as_mut());
                multiply_by_own_transpose(curvature.as_mut(), Accum::Add, rows.transpose());
            }
        }
        Ok(Curvature::Weight(curvatures))
    }

    /// Keeps the network at its training inputs.
    pub fn function_space(network: &Network, data: &Dataset) -> Result<Self> {
        Ok(Curvature::Function(Box::new(NetworkMap::new(network.architecture().clone(), data.inputs().view())?)))
    }

    /// The number of matrices in weight space.
    pub fn n_parts(&self) -> Option<usize> {
        match self {
            Curvature::Weight(parts) => Some(parts.len()),
            Curvature::Function(_) => None,
        }
    }

    /// The posterior under a prior and the family's σ.
    pub fn posterior(&self, network: &Network, family: &Family, prior: &PriorPrecision) -> Result<Posterior> {
        match self {
            Curvature::Weight(parts) => {
                let mut total: Mat<f64> = Mat::zeros(prior.n_params(), prior.n_params());
                for (part, sigma) in parts.iter().zip(sigmas(family).iter().cycle()) {
                    total += faer::Scale(1.0 / (sigma * sigma)) * part;
                }
                Ok(Posterior::Weight(WeightSpace::new(total.as_ref(), prior)?))
            }
            Curvature::Function(map) => {
                let workspace = whitened_rows(map, network.parameters(), family)?;
                Ok(Posterior::Function(Box::new(FunctionSpace::new((**map).clone(), workspace, prior)?)))
            }
        }
    }
}

/// Outputs at every input, one row a point, in blocks.
pub(crate) fn outputs(network: &Network, inputs: &Array2<f64>) -> Result<Array2<f64>> {
    let architecture = network.architecture();
    let (p, widest) = (architecture.n_outputs(), architecture.sizes().into_iter().max().unwrap_or(1));
    let block = (BLOCK_NUMBERS / (4 * widest)).clamp(1, inputs.nrows().max(1));
    let mut all = Array2::zeros((inputs.nrows(), p));
    for (mut target, chunk) in all.axis_chunks_iter_mut(Axis(0), block).zip(inputs.axis_chunks_iter(Axis(0), block)) {
        let map = NetworkMap::new(architecture.clone(), chunk)?;
        let mut values = vec![0.0; map.n_points() * p];
        map.outputs(network.parameters(), &mut values, &mut map.workspace(1));
        for ((n, output), value) in target.indexed_iter_mut() {
            *value = values[output * map.n_points() + n];
        }
    }
    if let Some(((row, column), _)) = all.indexed_iter().find(|(_, value)| !value.is_finite()) {
        return Err(Error::NotFinite { what: "the network's output", row, column });
    }
    Ok(all)
}

/// A workspace holding the rows J̃ = RᵀJ, whitened by the family's Fisher information.
pub(crate) fn whitened_rows(map: &NetworkMap, theta: &[f64], family: &Family) -> Result<NetworkWorkspace> {
    let (n, p) = (map.n_points(), map.n_outputs());
    let mut workspace = map.workspace(p);
    let mut outputs = vec![0.0; n * p];
    map.outputs(theta, &mut outputs, &mut workspace);
    let mut seeds = vec![0.0; n * p * p];
    PointBuffers::new(n, p).whitening(family.likelihood(), &outputs, &mut seeds);
    if let Some(index) = seeds.iter().position(|value| !value.is_finite()) {
        return Err(Error::NotFinite { what: "the output Fisher information", row: index % n, column: index / n / p });
    }
    map.pull_back(theta, &seeds, &mut workspace);
    Ok(workspace)
}

/// Rows whitened at σ = 1; with `output`, those of one output alone.
fn unit_rows(map: &NetworkMap, theta: &[f64], family: &Family, output: Option<usize>) -> Result<NetworkWorkspace> {
    let unit = match family {
        Family::Gaussian(_) => Family::Gaussian(Gaussian::unit()),
        other => other.clone(),
    };
    let Some(output) = output else {
        return whitened_rows(map, theta, &unit);
    };
    let (n, p) = (map.n_points(), map.n_outputs());
    let mut workspace = map.workspace(1);
    map.outputs(theta, &mut vec![0.0; n * p], &mut workspace);
    let mut seeds = vec![0.0; n * p];
    seeds[output * n..(output + 1) * n].fill(1.0);
    map.pull_back(theta, &seeds, &mut workspace);
    Ok(workspace)
}

/// The Gram matrix of the rows at σ = 1 and prior variances `variances`, lower triangle.
pub(crate) fn unit_gram(map: &NetworkMap, theta: &[f64], family: &Family, variances: &[f64]) -> Result<Mat<f64>> {
    let mut workspace = unit_rows(map, theta, family, None)?;
    let size = map.n_points() * workspace.columns();
    let mut gram = Mat::zeros(size, size);
    map.gram(variances, &mut workspace, gram.as_mut());
    Ok(gram)
}

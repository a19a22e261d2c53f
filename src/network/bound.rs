//! The network at fixed inputs, as a map of its parameters: outputs, jets, and products with the rows J̃ = RᵀJ.

use faer::{Mat, MatMut, MatRef};
use ndarray::ArrayView2;

use super::tape::{KroneckerFactors, Scratch, Tape};
use super::{Architecture, Sequence};
use crate::error::{Error, Result, check_size};
use crate::linalg::{affine, column_slice, column_slice_mut};
use crate::map::{DifferentiableMap, Jet};

/// A network at N fixed inputs, as a function of its parameters.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::map::DifferentiableMap;
/// use riemannian_laplace::network::{Activation, Architecture, NetworkMap};
///
/// // f(x) = 3x + 1 at x = 0 and x = 2.
/// let architecture = Architecture::new(&[1, 1], Activation::Identity)?;
/// let map = NetworkMap::new(architecture, array![[0.0], [2.0]].view())?;
/// let mut outputs = [0.0; 2];
/// map.outputs(&[3.0, 1.0], &mut outputs, &mut map.workspace(1));
/// assert_eq!(outputs, [1.0, 7.0]);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NetworkMap {
    architecture: Architecture,
    inputs: Mat<f64>,
}

/// The tapes of one evaluation of a [`NetworkMap`], and buffers for products with its rows.
#[derive(Debug, Clone)]
pub struct NetworkWorkspace {
    columns: usize,
    tapes: Vec<Tape>,
    scratch: Scratch,
}

impl NetworkWorkspace {
    /// K, the number of seed columns at each point.
    pub fn columns(&self) -> usize {
        self.columns
    }
}

impl NetworkMap {
    /// The network of this shape at the rows of `inputs`.
    pub fn new(architecture: Architecture, inputs: ArrayView2<'_, f64>) -> Result<Self> {
        check_size("number of input columns", architecture.n_inputs(), inputs.ncols())?;
        if let Some(((row, column), _)) = inputs.indexed_iter().find(|(_, value)| !value.is_finite()) {
            return Err(Error::NotFinite { what: "the input", row, column });
        }
        let inputs = Mat::from_fn(inputs.nrows(), inputs.ncols(), |n, i| inputs[(n, i)]);
        Ok(Self { architecture, inputs })
    }

    /// The shape of the network.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The same network at some of the points, in the order given.
    pub fn at_points(&self, points: &[usize]) -> Result<Self> {
        let n_points = self.n_points();
        if let Some(&point) = points.iter().find(|point| **point >= n_points) {
            return Err(Error::NoSuchPoint { point, n_points });
        }
        let inputs = Mat::from_fn(points.len(), self.inputs.ncols(), |row, i| self.inputs[(points[row], i)]);
        Ok(Self { architecture: self.architecture.clone(), inputs })
    }

    /// The input at point n, as a matrix of one row.
    pub fn input(&self, n: usize) -> ndarray::Array2<f64> {
        ndarray::Array2::from_shape_fn((1, self.inputs.ncols()), |(_, i)| self.inputs[(n, i)])
    }

    /// J̃ V J̃′ᵀ between the rows of this map (pulled back in `workspace`) and those of the same network at other inputs.
    pub fn cross_gram(
        &self,
        workspace: &NetworkWorkspace,
        other: &NetworkMap,
        other_workspace: &NetworkWorkspace,
        variances: &[f64],
        mut gram: MatMut<'_, f64>,
    ) {
        gram.fill(0.0);
        let rows = (self.inputs.as_ref(), workspace.tapes.as_slice());
        let others = (other.inputs.as_ref(), other_workspace.tapes.as_slice());
        self.sequence().cross_gram(variances, rows, others, &mut Scratch::default(), gram);
    }

    /// Kronecker factors of the linear layers, all zero, to which [`kronecker`](Self::kronecker) adds.
    pub fn kronecker_factors(&self) -> Vec<KroneckerFactors> {
        self.sequence().kronecker_factors()
    }

    /// Adds this map's points and pulled-back rows to the Kronecker factors of each linear layer.
    pub fn kronecker(&self, workspace: &NetworkWorkspace, factors: &mut [KroneckerFactors]) {
        self.sequence().kronecker(self.inputs.as_ref(), &workspace.tapes, factors);
    }

    /// Evaluates the network and its first derivatives along a velocity, which
    /// [`pull_back_along`](Self::pull_back_along) needs.
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::map::DifferentiableMap;
    /// use riemannian_laplace::network::{Activation, Architecture, NetworkMap};
    ///
    /// // f = w₂ w₁ at x = 1: along v = (1, 0) the gradient (w₂, w₁) changes by (0, 1).
    /// let architecture = Architecture::with_biases(&[1, 1, 1], &[false, false], Activation::Identity)?;
    /// let map = NetworkMap::new(architecture, array![[1.0]].view())?;
    /// let mut workspace = map.workspace(1);
    /// let (theta, velocity) = ([3.0, 5.0], [1.0, 0.0]);
    /// map.forward_along(&theta, &velocity, &mut workspace);
    /// map.pull_back_along(&theta, &velocity, &[1.0], &mut workspace);
    /// let mut change = [f64::NAN; 2];
    /// map.transpose_times_along(&[1.0], &mut workspace, &mut change);
    /// assert_eq!(change, [0.0, 1.0]);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn forward_along(&self, theta: &[f64], velocity: &[f64], workspace: &mut NetworkWorkspace) {
        self.sequence().forward_along(theta, velocity, self.inputs.as_ref(), &mut workspace.tapes);
    }

    /// Prepares the rows J̃ = RᵀJ and their derivatives along the velocity, for seeds R that do not move.
    pub fn pull_back_along(&self, theta: &[f64], velocity: &[f64], seeds: &[f64], workspace: &mut NetworkWorkspace) {
        self.write_seeds(seeds, workspace);
        self.sequence().pull_back_along(theta, velocity, &mut workspace.tapes, None);
    }

    /// dJ̃/dt as a dense M × D matrix.
    pub fn rows_along(&self, workspace: &NetworkWorkspace, rows: MatMut<'_, f64>) {
        self.sequence().rows_along(self.inputs.as_ref(), &workspace.tapes, rows);
    }

    /// (dJ̃/dt)ᵀ w. With one seed rₙ at each point and w = 1 this is the product of Σₙ rₙ∇²fₙ with the velocity.
    pub fn transpose_times_along(&self, weights: &[f64], workspace: &mut NetworkWorkspace, product: &mut [f64]) {
        let NetworkWorkspace { tapes, scratch, .. } = workspace;
        self.sequence().transpose_times_along(weights, self.inputs.as_ref(), tapes, scratch, product);
    }

    fn sequence(&self) -> &Sequence {
        self.architecture.sequence()
    }

    fn write_seeds(&self, seeds: &[f64], workspace: &mut NetworkWorkspace) {
        let m = self.n_points() * workspace.columns;
        let target = self.sequence().seeds_mut(&mut workspace.tapes);
        for (column, seed) in target.col_iter_mut().zip(seeds.chunks_exact(m.max(1))) {
            column_slice_mut(column).copy_from_slice(seed);
        }
    }

    /// The Taylor coefficients of the outputs.
    fn coefficients<'a>(&self, workspace: &'a NetworkWorkspace) -> MatRef<'a, f64> {
        self.sequence().outputs(&workspace.tapes)
    }
}

impl DifferentiableMap for NetworkMap {
    type Workspace = NetworkWorkspace;

    fn n_params(&self) -> usize {
        self.architecture.n_params()
    }

    fn n_points(&self) -> usize {
        self.inputs.nrows()
    }

    fn n_outputs(&self) -> usize {
        self.architecture.n_outputs()
    }

    fn groups(&self) -> Vec<usize> {
        self.architecture.layer_params()
    }

    fn workspace(&self, columns: usize) -> NetworkWorkspace {
        let (n, sequence) = (self.n_points(), self.sequence());
        let scratch = Scratch::new(n * sequence.scratch_width());
        NetworkWorkspace { columns, tapes: sequence.tapes(n, columns), scratch }
    }

    fn outputs(&self, theta: &[f64], outputs: &mut [f64], workspace: &mut NetworkWorkspace) {
        let n = self.n_points();
        self.sequence().forward(theta, self.inputs.as_ref(), &mut workspace.tapes);
        for (column, out) in self.coefficients(workspace).col_iter().zip(outputs.chunks_exact_mut(n.max(1))) {
            out.copy_from_slice(&column_slice(column)[..n]);
        }
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet, workspace: &mut NetworkWorkspace) {
        let n = self.n_points();
        self.sequence().jet(theta, velocity, self.inputs.as_ref(), &mut workspace.tapes);
        for (p, column) in self.coefficients(workspace).col_iter().enumerate() {
            let column = column_slice(column);
            let range = p * n..(p + 1) * n;
            jet.outputs[range.clone()].copy_from_slice(&column[..n]);
            jet.tangents[range.clone()].copy_from_slice(&column[n..2 * n]);
            affine(0.0, 2.0, &column[2 * n..], &mut jet.curvatures[range]);
        }
    }

    fn pull_back(&self, theta: &[f64], seeds: &[f64], workspace: &mut NetworkWorkspace) {
        self.write_seeds(seeds, workspace);
        self.sequence().pull_back(theta, &mut workspace.tapes, None);
    }

    fn rows(&self, workspace: &mut NetworkWorkspace, rows: MatMut<'_, f64>) {
        self.sequence().rows(self.inputs.as_ref(), &workspace.tapes, rows);
    }

    fn times(&self, direction: &[f64], workspace: &mut NetworkWorkspace, product: &mut [f64]) {
        product.fill(0.0);
        let NetworkWorkspace { tapes, scratch, .. } = workspace;
        self.sequence().times(direction, self.inputs.as_ref(), tapes, scratch, product);
    }

    fn transpose_times(&self, weights: &[f64], workspace: &mut NetworkWorkspace, product: &mut [f64]) {
        let NetworkWorkspace { tapes, scratch, .. } = workspace;
        self.sequence().transpose_times(weights, self.inputs.as_ref(), tapes, scratch, product);
    }

    fn gram(&self, variances: &[f64], workspace: &mut NetworkWorkspace, mut gram: MatMut<'_, f64>) {
        gram.fill(0.0);
        let NetworkWorkspace { tapes, scratch, .. } = workspace;
        self.sequence().gram(variances, self.inputs.as_ref(), tapes, scratch, gram);
    }

    fn workspace_size(&self, columns: usize) -> f64 {
        let (n, sequence) = (self.n_points(), self.sequence());
        sequence.tape_size(n, columns) + n as f64 * sequence.scratch_width() as f64
    }

    fn gram_work(&self, columns: usize) -> f64 {
        self.sequence().gram_work(self.n_points(), columns)
    }
}

//! Data sets: inputs and targets side by side, checked once.

#[cfg(feature = "cli")]
mod table;

#[cfg(feature = "cli")]
pub use table::Table;

use ndarray::Array2;

use crate::error::{Error, Result, check_size};
use crate::likelihood::Likelihood;

/// Inputs (one row a data point) and the targets that belong to them.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::data::Dataset;
/// let data = Dataset::new(array![[0.0], [1.0]], array![[0.1], [0.9]])?;
/// assert_eq!(data.len(), 2);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    inputs: Array2<f64>,
    targets: Array2<f64>,
}

impl Dataset {
    /// Checks that both have the same, positive number of rows and only finite values.
    pub fn new(inputs: Array2<f64>, targets: Array2<f64>) -> Result<Self> {
        check_size("number of target rows", inputs.nrows(), targets.nrows())?;
        if inputs.nrows() == 0 {
            return Err(Error::NoRows { what: "the data set".to_string() });
        }
        for (what, array) in [("the input", &inputs), ("the target", &targets)] {
            if let Some(((row, column), _)) = array.indexed_iter().find(|(_, value)| !value.is_finite()) {
                return Err(Error::NotFinite { what, row, column });
            }
        }
        Ok(Self { inputs, targets })
    }

    /// N, the number of data points.
    pub fn len(&self) -> usize {
        self.inputs.nrows()
    }

    /// Whether there are no data points (never, for a data set that was made by [`Dataset::new`]).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One row of inputs a data point.
    pub fn inputs(&self) -> &Array2<f64> {
        &self.inputs
    }

    /// One row of targets a data point.
    pub fn targets(&self) -> &Array2<f64> {
        &self.targets
    }

    /// Checks that a likelihood over P outputs can have produced the targets.
    pub fn check_targets(&self, likelihood: &dyn Likelihood, n_outputs: usize) -> Result<()> {
        check_targets(&self.targets, likelihood, self.len(), n_outputs)
    }

    /// The rows with the given indices, in that order.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        Self::new(self.inputs.select(ndarray::Axis(0), rows), self.targets.select(ndarray::Axis(0), rows))
    }
}

/// Checks that a likelihood can have produced targets for N points of P outputs.
pub(crate) fn check_targets(
    targets: &Array2<f64>,
    likelihood: &dyn Likelihood,
    n_points: usize,
    n_outputs: usize,
) -> Result<()> {
    likelihood.check_outputs(n_outputs).map_err(Error::Outputs)?;
    check_size("number of target rows", n_points, targets.nrows())?;
    check_size("number of target columns", likelihood.n_targets(n_outputs), targets.ncols())?;
    for (row, target) in targets.rows().into_iter().enumerate() {
        likelihood.validate(&target.to_vec(), n_outputs).map_err(|source| Error::Target { row, source })?;
    }
    Ok(())
}

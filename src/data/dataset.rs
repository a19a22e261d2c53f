//! Data sets in memory: inputs and targets side by side, checked once.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2, Axis};

use super::{Scaling, Schema};
use crate::error::{DataError, Error, Result, check_size};
use crate::likelihood::Family;
use crate::linalg::first_not_finite;

/// Inputs (one row per data point), the targets that belong to them, and the names of the columns.
///
/// Where the schema has a scaling, both arrays are scaled already: they are what the network sees.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::Dataset;
/// let data = Dataset::new(array![[0.0], [1.0]], array![[0.1], [0.9]])?;
/// assert_eq!(data.len(), 2);
/// assert_eq!(data.schema().inputs(), ["x1"]);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Shared among copies.
    inputs: Arc<Array2<f64>>,
    targets: Arc<Array2<f64>>,
    schema: Schema,
}

/// Which columns are standardised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standardize {
    /// The inputs.
    Inputs,
    /// Inputs and targets, for a regression.
    InputsAndTargets,
}

impl Dataset {
    /// Checks that both have the same, positive number of rows and only finite values. The columns are named `x1`,
    /// `x2`, … and `y` (`y1`, `y2`, … if there are several targets).
    pub fn new(inputs: Array2<f64>, targets: Array2<f64>) -> Result<Self> {
        check_size("number of target rows", inputs.nrows(), targets.nrows())?;
        if inputs.nrows() == 0 {
            return Err(Error::NoRows { what: "the data set".to_string() });
        }
        for (what, array) in [("the input", &inputs), ("the target", &targets)] {
            if let Some((row, column)) = first_not_finite(array.view()) {
                return Err(Error::NotFinite { what, row, column });
            }
        }
        let schema = Schema::unnamed(inputs.ncols(), targets.ncols());
        Ok(Self { inputs: Arc::new(inputs), targets: Arc::new(targets), schema })
    }

    /// The same arrays under other names, one per column. A scaling in the schema says how the arrays were scaled; it
    /// does not change them. Class names must cover the targets.
    pub fn with_schema(mut self, schema: Schema) -> Result<Self> {
        check_size("number of input names", self.inputs.ncols(), schema.inputs().len())?;
        check_size("number of target names", self.targets.ncols(), schema.targets().len() + schema.known().len())?;
        for (target, column) in self.targets.columns().into_iter().enumerate() {
            let Some(classes) = schema.classes_of(target) else { continue };
            let greatest = column.iter().copied().fold(-1.0, f64::max);
            if greatest >= classes.len() as f64 {
                return Err(Error::Size {
                    what: "number of class names".to_string(),
                    expected: (greatest as usize).saturating_add(1),
                    found: classes.len(),
                });
            }
        }
        self.schema = schema;
        Ok(self)
    }

    /// N, the number of data points.
    pub fn len(&self) -> usize {
        self.inputs.nrows()
    }

    /// Whether there are no data points (never, for a data set that was made by [`Dataset::new`]).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One row of inputs per data point.
    pub fn inputs(&self) -> &Array2<f64> {
        &self.inputs
    }

    /// One row of targets per data point, and behind them the known values that the schema names: noise, trials, weights.
    pub fn targets(&self) -> &Array2<f64> {
        &self.targets
    }

    /// Inputs and targets.
    pub fn into_arrays(self) -> (Array2<f64>, Array2<f64>) {
        (Arc::unwrap_or_clone(self.inputs), Arc::unwrap_or_clone(self.targets))
    }

    /// The names of columns and classes, and the scaling.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Checks that a likelihood over P outputs can have produced the targets.
    pub fn check_targets(&self, family: &Family, n_outputs: usize) -> Result<()> {
        check_targets(self.targets.view(), family, self.len(), n_outputs)
    }

    /// The rows with the given indices, in that order. An index beyond the last row is an error.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        if let Some(&row) = rows.iter().find(|&&row| row >= self.len()) {
            return Err(Error::Data(DataError::Row { row, n_rows: self.len() }));
        }
        if rows.is_empty() {
            return Err(Error::NoRows { what: "the selection".to_string() });
        }
        Ok(Self {
            inputs: Arc::new(self.inputs.select(Axis(0), rows)),
            targets: Arc::new(self.targets.select(Axis(0), rows)),
            schema: self.schema.clone(),
        })
    }

    /// The data with every column scaled to mean 0 and standard deviation 1 (a constant column to mean 0); the schema
    /// keeps the scaling.
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::{Dataset, Standardize};
    /// let data = Dataset::new(array![[10.0], [30.0]], array![[5.0], [9.0]])?;
    /// let scaled = data.standardized(Standardize::InputsAndTargets)?;
    /// assert_eq!((scaled.inputs(), scaled.targets()), (&array![[-1.0], [1.0]], &array![[-1.0], [1.0]]));
    /// assert_eq!(scaled.schema().restore_mean(array![[0.5]].view())?, array![[8.0]]);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn standardized(&self, which: Standardize) -> Result<Self> {
        self.scaled_by(Scaling::over(self, which)?)
    }

    /// The data as seen by a network that was trained on data scaled in this way; the schema keeps the scaling.
    pub fn scaled_by(&self, scaling: Scaling) -> Result<Self> {
        if self.schema.scaling().is_some() {
            return Err(Error::Data(DataError::AlreadyScaled));
        }
        let schema = self.schema.clone().with_scaling(scaling)?;
        let inputs = schema.scale_inputs(self.inputs.view())?;
        let targets = schema.scale_targets(self.targets.view())?;
        Ok(Self { inputs: Arc::new(inputs), targets: Arc::new(targets), schema })
    }
}

/// Checks that a family can have produced rows, targets with or without what is known besides, for N points of P outputs.
pub(crate) fn check_targets<'a>(
    rows: impl Into<ArrayView2<'a, f64>>,
    family: &Family,
    n_points: usize,
    n_outputs: usize,
) -> Result<()> {
    let rows = rows.into();
    family.likelihood().check_outputs(n_outputs).map_err(Error::Outputs)?;
    check_size("number of target rows", n_points, rows.nrows())?;
    if !family.takes_width(rows.ncols(), n_outputs) {
        check_size("number of target columns", family.row_width(n_outputs), rows.ncols())?;
    }
    for (row, values) in rows.rows().into_iter().enumerate() {
        let values = values.to_vec();
        let valid = match family.likelihood().at_point(row) {
            Some(own) => own.validate(&values, n_outputs),
            None => family.validate(&values, n_outputs),
        };
        valid.map_err(|source| Error::Target { row, source })?;
    }
    Ok(())
}

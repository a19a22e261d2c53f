//! More data later: a fitted posterior takes further data at the same θ̂, and its sums and its fit add up.

use std::sync::{Arc, OnceLock};

use ndarray::{Axis, concatenate};

use super::accumulate::accumulate;
use super::advice::choose;
use super::fit::Laplace;
use super::problem::Problem;
use crate::data::{Batches, Dataset};
use crate::error::{Error, PosteriorError, Result, check_size};

impl Laplace {
    /// Adds further data. The posterior is that of all data together, up to rounding; where it holds its training data,
    /// the new ones are appended. The columns must be those of the data before.
    ///
    /// ```
    /// # use ndarray::array;
    /// # use riemannian_laplace::{Activation, Architecture, Dataset, Family, FitOptions, Laplace, Network};
    /// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 1.0])?;
    /// let (first, more) = (Dataset::new(array![[0.0], [1.0]], array![[1.1], [2.9]])?, Dataset::new(array![[2.0]], array![[5.0]])?);
    /// let mut laplace = Laplace::fit(network, first, Family::gaussian(0.1)?, &FitOptions::default())?;
    /// laplace.update(more)?;
    /// assert_eq!((laplace.n_data(), laplace.data().map(Dataset::len)), (3, Some(3)));
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn update(&mut self, data: Dataset) -> Result<()> {
        self.check_columns(&data)?;
        let all = match self.data() {
            None => None,
            Some(before) => {
                let stack = |a: &ndarray::Array2<f64>, b: &ndarray::Array2<f64>| {
                    let (expected, found) = (a.ncols(), b.ncols());
                    concatenate(Axis(0), &[a.view(), b.view()]).map_err(|_| Error::Size {
                        what: "number of columns".to_string(),
                        expected,
                        found,
                    })
                };
                let (inputs, targets) =
                    (stack(before.inputs(), data.inputs())?, stack(before.targets(), data.targets())?);
                Some(Arc::new(Dataset::new(inputs, targets)?.with_schema(self.schema.clone())?))
            }
        };
        self.add(&data, all)
    }

    /// Adds further data that are read in batches and not kept: from then on the posterior holds no training data.
    pub fn update_batches(&mut self, data: &dyn Batches) -> Result<()> {
        self.check_columns(data)?;
        self.add(data, None)
    }

    fn check_columns(&self, data: &dyn Batches) -> Result<()> {
        if data.schema() == &self.schema {
            return Ok(());
        }
        check_size("number of input columns", self.schema.inputs().len(), data.schema().inputs().len())?;
        let (before, new) = (self.schema.target_columns(), data.schema().target_columns());
        check_size("number of target columns", before.len(), new.len())?;
        let expected = [self.schema.inputs(), &before].concat().join(", ");
        Err(Error::Posterior(PosteriorError::OtherColumns { expected }))
    }

    /// Adds the sums over new data; `all` are the old and the new ones together, where they are kept.
    fn add(&mut self, data: &dyn Batches, all: Option<Arc<Dataset>>) -> Result<()> {
        let n_data = self.n_data().saturating_add(data.n_rows());
        let problem = Problem { n_data, data: all, ..self.problem.clone() };
        choose(&problem, self.structure, self.prior())?;
        let (later, later_fit) = accumulate(&problem, self.structure, data)?;
        let mut curvature = self.curvature()?.duplicate();
        curvature.merge(later)?;
        self.precision = curvature.factor(self.prior(), &problem.scales())?;
        self.calibration = None;
        self.fit.merge(&later_fit);
        (self.problem, self.curvature) = (problem, OnceLock::from(Arc::from(curvature)));
        Ok(())
    }
}

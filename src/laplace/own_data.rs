//! From data that were read in batches, or by several ranks, to a posterior that has them itself.

use std::sync::{Arc, OnceLock};

use super::fit::Laplace;
use crate::data::Dataset;
use crate::error::{Error, PosteriorError, Result, check_size};

impl Laplace {
    /// Keeps the data that the posterior was fitted to in batches, so that the Riemannian metrics have them.
    pub fn keep_data(&mut self, data: Dataset) -> Result<()> {
        check_size("number of data points", self.n_data(), data.len())?;
        if data.schema() != &self.schema {
            let expected = [self.schema.inputs(), self.schema.targets()].concat().join(", ");
            return Err(Error::Posterior(PosteriorError::OtherColumns { expected }));
        }
        self.problem.data = Some(Arc::new(data));
        if let Some(precision) = self.precision.on_own_data(&self.problem)? {
            (self.precision, self.curvature) = (precision, OnceLock::new());
        }
        Ok(())
    }

    /// Computes now what is otherwise computed when it is first asked for: without a matrix, the log determinant and the
    /// draws for variances. Ranks that fit together all call it before one of them goes on alone.
    pub fn settle(&self) -> Result<()> {
        self.precision.settle()
    }
}

//! A fit that can be cancelled: it looks at a [`Progress`] before every batch of data.

use std::ops::Range;
use std::sync::Arc;

use super::fit::Laplace;
use super::options::FitOptions;
use crate::data::{BatchIterator, Batches, Dataset, Schema};
use crate::error::Result;
use crate::likelihood::Family;
use crate::map::Model;
use crate::progress::Progress;

impl Laplace {
    /// As [`fit_shared`](Self::fit_shared), for long fits: `progress` advances by one with every batch of data points, and
    /// may cancel.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use ndarray::array;
    /// # use riemannian_laplace::{Activation, Architecture, Dataset, Error, Family, FitOptions, Laplace, Network};
    /// use riemannian_laplace::internals::progress::Cancel;
    ///
    /// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 1.0])?;
    /// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [2.9], [5.0]])?;
    /// let (family, options, cancel) = (Family::gaussian(0.1)?, FitOptions::default(), Cancel::new());
    /// cancel.cancel();
    /// let outcome = Laplace::fit_watched(Arc::new(network), data, family, &options, &cancel);
    /// assert!(matches!(outcome, Err(Error::Cancelled)));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn fit_watched(
        model: Arc<dyn Model>,
        data: Dataset,
        family: Family,
        options: &FitOptions,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let data = Arc::new(data);
        let mut laplace = Self::fit_batches(model, &Watched { data: &data, progress }, family, options)?;
        laplace.problem.data = Some(data);
        Ok(laplace)
    }
}

/// Data whose reading is reported and may be cancelled.
struct Watched<'a> {
    data: &'a Dataset,
    progress: &'a dyn Progress,
}

impl Batches for Watched<'_> {
    fn n_rows(&self) -> usize {
        self.data.n_rows()
    }

    fn schema(&self) -> &Schema {
        self.data.schema()
    }

    fn batches(&self, rows: Range<usize>, most_rows: usize) -> Result<BatchIterator<'_>> {
        let batches = self.data.batches(rows, most_rows)?;
        Ok(Box::new(batches.map(|batch| {
            self.progress.check()?;
            self.progress.advance();
            batch
        })))
    }
}

//! A fit that reports its progress and can be cancelled: both happen where it reads its data.

use std::ops::Range;
use std::sync::Arc;

use super::accumulate::accumulate;
use super::features::AtFeatures;
use super::fit::{Laplace, prepare};
use super::options::FitOptions;
use super::problem::Problem;
use crate::data::{BatchIterator, Batches, Dataset, Schema};
use crate::error::Result;
use crate::likelihood::Family;
use crate::map::Model;
use crate::progress::Progress;
use crate::team::Team;

impl Laplace {
    /// As [`fit_shared`](Self::fit_shared), for long fits: `progress` advances by one with every data point that is read, and
    /// may cancel. The structures that are sums over the data read each point once.
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
        let (problem, prior, structure) = prepare(model, &*data, family, options)?;
        let features = if structure.is_sum() { AtFeatures::of(&problem, &data)? } else { None };
        let sums = match &features {
            Some(features) => {
                let read = Watched { data: &**features.data(), progress };
                accumulate(&features.problem(&problem), structure, &read)?
            }
            None => accumulate(&problem, structure, &Watched { data: &*data, progress })?,
        };
        let laplace = Self::factored(problem, data.schema(), prior, structure, sums)?;
        let problem = Problem { data: Some(data), ..laplace.problem };
        Ok(Self { problem, features: features.map(Arc::new), ..laplace })
    }
}

/// Data whose reading is reported, one [`advance`](Progress::advance) for every row, and may be cancelled.
pub struct Watched<'a> {
    /// The data.
    pub data: &'a dyn Batches,
    /// Who is told.
    pub progress: &'a dyn Progress,
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
            let batch = batch?;
            (0..batch.len()).for_each(|_| self.progress.advance());
            Ok(batch)
        })))
    }

    fn team(&self) -> Option<&Team> {
        self.data.team()
    }
}

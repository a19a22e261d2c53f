//! The metric of a part of the data: G_B = A + (N/|B|) Σ_{n∈B} JₙᵀHₙJₙ for a batch B, with mean G over batches.
//!
//! Only the metric is sub-sampled (Yu et al. 2024 name mini-batches as the way to many data points); velocities come
//! from the posterior of all data. A batch is constant along a geodesic, so that vᵀG_Bv is still conserved.

use rand::Rng;

use super::{Pullback, scores_of};
use crate::error::{Error, Result};
use crate::likelihood::to_the_power;
use crate::target::Target;

/// Some of N data points, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    points: Vec<usize>,
    total: usize,
}

impl Batch {
    /// `size` of `total` data points, every choice equally likely.
    ///
    /// ```
    /// use riemannian_laplace::internals::metric::Batch;
    /// use riemannian_laplace::internals::random::{Purpose, stream};
    /// let batch = Batch::draw(100, 10, &mut stream(0, Purpose::MetricBatch, 0))?;
    /// assert!(batch.points().len() == 10 && batch.points().is_sorted() && batch.scale() == 10.0);
    /// assert!(Batch::draw(100, 101, &mut stream(0, Purpose::MetricBatch, 0)).is_err());
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn draw(total: usize, size: usize, generator: &mut impl Rng) -> Result<Self> {
        if size == 0 || size > total {
            return Err(Error::BatchSize { size, total });
        }
        let mut points = rand::seq::index::sample(generator, total, size).into_vec();
        points.sort_unstable();
        Ok(Self { points, total })
    }

    /// The data points, counting from 0.
    pub fn points(&self) -> &[usize] {
        &self.points
    }

    /// N/|B|, the number of data points that each one represents.
    pub fn scale(&self) -> f64 {
        self.total as f64 / self.points.len() as f64
    }
}

/// A network's target at the points of a batch, from which the sub-sampled metrics are built.
///
/// ```
/// # use ndarray::array;
/// # use riemannian_laplace::internals::{likelihood::Gaussian, map::Model, network::*, prior::*, target::Target};
/// use riemannian_laplace::internals::metric::{Batch, Metric, Subsampled};
/// use riemannian_laplace::internals::random::{Purpose, stream};
/// # let network = Network::random(Architecture::new(&[1, 1], Activation::Identity)?, 1);
/// # let prior = Prior::gaussian(PriorPrecision::scalar(1.0, &[2])?);
/// # let map = network.bind(array![[1.0], [1.0], [1.0]].view())?;
/// # let observations = array![[0.0], [1.0], [2.0]];
/// # let target = Target::new(map, std::sync::Arc::new(Gaussian::unit()), observations.view(), prior)?;
/// // A target with three equal inputs: any one of them, counted three times, gives the metric of all.
/// let part = Subsampled::new(&target, &Batch::draw(3, 1, &mut stream(0, Purpose::MetricBatch, 0))?)?;
/// let speed = part.fisher().evaluator().squared_speed(network.parameters(), &[1.0, 0.0]);
/// assert!((speed - 4.0).abs() < 1e-12);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Subsampled {
    target: Target,
    scale: f64,
}

impl Subsampled {
    /// The points of the batch alone.
    pub fn new(target: &Target, batch: &Batch) -> Result<Self> {
        Ok(Self { target: target.at_points(batch.points())?, scale: batch.scale() })
    }

    /// A + (N/|B|) Σ_{n∈B} JₙᵀHₙJₙ.
    pub fn fisher(&self) -> Pullback {
        let scaled = to_the_power(self.target.likelihood(), self.scale);
        Pullback::fitting(self.target.map().clone(), scaled, self.target.prior().precision().clone())
    }

    /// A + (N/|B|T) Σ_{n∈B} sₙsₙᵀ with sₙ = ∇ log p(yₙ | fₙ(θ)).
    pub fn empirical_fisher(&self) -> Pullback {
        scores_of(&self.target, self.scale)
    }
}

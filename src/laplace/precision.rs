//! What a Gaussian posterior N(θ̂, G⁻¹) must be able to do, whatever holds its precision G.

use faer::{MatMut, MatRef};
use rand_chacha::ChaCha8Rng;

/// A precision matrix G in some factored form. The work is done by [`workers`](Precision::worker), one a thread.
pub trait Precision: Sync {
    /// D, the number of parameters.
    fn n_params(&self) -> usize;
    /// log det G − log det A: the posterior precision over the prior's.
    fn log_det_ratio(&self) -> f64;
    /// D − tr(A G⁻¹): the number of directions that the data determine.
    fn effective_parameters(&self) -> f64;
    /// The word for this form in reports: `weight-space` or `function-space`.
    fn solver(&self) -> &'static str;
    /// Buffers and the operations that need them.
    fn worker(&self) -> Box<dyn PrecisionWorker + Send + '_>;
}

/// Operations with a [`Precision`], with buffers of their own.
pub trait PrecisionWorker {
    /// G u.
    fn times(&mut self, direction: &[f64], product: &mut [f64]);
    /// G⁻¹ b.
    fn solve(&mut self, rhs: &[f64], solution: &mut [f64]);
    /// A draw from N(0, G⁻¹).
    fn sample(&mut self, generator: &mut ChaCha8Rng, draw: &mut [f64]);
    /// C G⁻¹ Cᵀ for the rows of C (a few of them, each of length D).
    fn covariance(&mut self, rows: MatRef<'_, f64>, covariance: MatMut<'_, f64>);
}

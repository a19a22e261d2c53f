//! The verbs of a fitted posterior in one place, each a call into the folder that does the work.

use ndarray::{Array2, ArrayView2};

use crate::data::Dataset;
use crate::error::{Result, check_size};
use crate::evaluate::{
    self, Influence, LeaveOneOut, TemperOptimum, TemperOptions, ValidationOptimum, ValidationOptions,
};
use crate::evidence::{self, EvidenceOptimum, EvidenceOptions};
use crate::export::{ExportOptions, Exported, Plan};
use crate::geodesic::{
    self, GeodesicOptions, Logarithm, LogarithmOptions, MetricName, MetricOptions, SamplerOptions, Samples, Smoothing,
    Watch,
};
use crate::laplace::Laplace;
use crate::metric::Metric;
use crate::predict::{self, Draws, JointGaussian, LatentGaussian, Method, Prediction};
use crate::progress::Progress;
use crate::suggest::{self, Goal, SuggestOptions, Suggestions};

impl Laplace {
    /// Maximises the log marginal likelihood over prior precision and σ, and refits with the optimum.
    pub fn optimize(&mut self, options: &EvidenceOptions) -> Result<EvidenceOptimum> {
        evidence::optimize(self, options, &())
    }

    /// As [`optimize`](Self::optimize), for a tuning that takes long: `progress` advances with every evaluation of the
    /// evidence, and may cancel.
    ///
    /// ```
    /// # use ndarray::array;
    /// # use riemannian_laplace::{Activation, Architecture, Dataset, Error, Family, FitOptions, Laplace, Network};
    /// use riemannian_laplace::EvidenceOptions;
    /// use riemannian_laplace::internals::progress::Cancel;
    ///
    /// # let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 1.0])?;
    /// # let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [2.9], [5.0]])?;
    /// let mut laplace = Laplace::fit(network, data, Family::gaussian(0.1)?, &FitOptions::default())?;
    /// let (before, cancel) = (laplace.log_marginal_likelihood(), Cancel::new());
    /// cancel.cancel();
    /// let outcome = laplace.optimize_watched(&EvidenceOptions::default(), &cancel);
    /// assert!(matches!(outcome, Err(Error::Cancelled)) && laplace.log_marginal_likelihood() == before);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn optimize_watched(&mut self, options: &EvidenceOptions, progress: &dyn Progress) -> Result<EvidenceOptimum> {
        evidence::optimize(self, options, progress)
    }

    /// Tunes prior precision and σ on held-out data (in the units of the data), and refits with the optimum. See
    /// [`evaluate::optimize_on`](crate::internals::evaluate::optimize_on).
    pub fn optimize_on(
        &mut self,
        held_out: &Dataset,
        options: &ValidationOptions,
        progress: &dyn Progress,
    ) -> Result<ValidationOptimum> {
        evaluate::optimize_on(self, held_out, options, progress)
    }

    /// Tunes the temperature on held-out data (in the units of the data), with prior and σ as they are. See
    /// [`evaluate::temper_on`](crate::internals::evaluate::temper_on).
    pub fn temper_on(
        &mut self,
        held_out: &Dataset,
        options: &TemperOptions,
        progress: &dyn Progress,
    ) -> Result<TemperOptimum> {
        evaluate::temper_on(self, held_out, options, progress)
    }

    /// Predicts at new inputs. See [`predict::predict`](crate::predict::predict).
    pub fn predict(&self, inputs: &Array2<f64>, method: &Method) -> Result<Prediction> {
        predict::predict(self, inputs, method, &())
    }

    /// Chooses which rows of a pool to measure next. See [`suggest`](crate::internals::suggest).
    pub fn suggest(&self, pool: &Array2<f64>, goal: Goal, options: &SuggestOptions) -> Result<Suggestions> {
        suggest::suggest(self, pool, goal, options)
    }

    /// What leaving each training row out would change. See [`Influence`](crate::internals::evaluate::Influence).
    pub fn influence(&self) -> Result<Influence> {
        Influence::of(self)
    }

    /// The posterior as one ONNX graph that gives predictions with error bars. See [`export`](crate::internals::export).
    pub fn export(&self, method: &Method, options: ExportOptions) -> Result<Exported> {
        Plan::new(self, method, options)?.write()
    }

    /// Leave-one-out of a way to predict, on the training data and without refitting. See
    /// [`LeaveOneOut`](crate::internals::evaluate::LeaveOneOut).
    pub fn leave_one_out(&self, method: &Method) -> Result<LeaveOneOut> {
        evaluate::leave_one_out(self, method, &())
    }

    /// The linearised predictive over the raw outputs at each input separately: J G⁻¹ Jᵀ, without observation noise.
    pub fn linearized(&self, inputs: &Array2<f64>) -> Result<LatentGaussian> {
        predict::linearized(self, inputs)
    }

    /// The linearised predictive over the raw outputs at all inputs jointly.
    pub fn linearized_joint(&self, inputs: &Array2<f64>) -> Result<JointGaussian> {
        predict::linearized_joint(self, inputs)
    }

    /// Draws θ ~ N(θ̂, G⁻¹), one per row: draws `0..count` of a seed.
    pub fn sample(&self, count: usize, seed: u64) -> Result<Array2<f64>> {
        predict::draw_weights(self, &Draws::first(count, seed))
    }

    /// Samples of the Riemannian posterior, each with its certificate.
    pub fn sample_riemannian(
        &self,
        metric: MetricName,
        options: &SamplerOptions,
        progress: &dyn Progress,
    ) -> Result<Samples> {
        geodesic::sample_posterior(self, metric, &MetricOptions::default(), options, progress)
    }

    /// The same with a metric that is evaluated without matrices, from a part of the data, or with another smoothing of
    /// kinks.
    pub fn sample_riemannian_with(
        &self,
        metric: MetricName,
        how: &MetricOptions,
        options: &SamplerOptions,
        progress: &dyn Progress,
    ) -> Result<Samples> {
        geodesic::sample_posterior(self, metric, how, options, progress)
    }

    /// The same, with samples given to a [`Keeper`](crate::internals::geodesic::Keeper) as they are finished, and those
    /// that it has from an earlier run taken from it.
    pub fn sample_riemannian_watched(
        &self,
        metric: MetricName,
        how: &MetricOptions,
        options: &SamplerOptions,
        watch: Watch<'_>,
    ) -> Result<Samples> {
        geodesic::sample_posterior_watched(self, metric, how, options, watch)
    }

    /// Samples along the geodesics of a metric of one's own, over the model's parameters: velocities are drawn from the
    /// posterior's precision at θ̂. Without data of its own a metric certifies the law alone.
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::internals::metric;
    /// use riemannian_laplace::prelude::*;
    ///
    /// let network = Network::random(Architecture::new(&[1, 2, 1], Activation::Tanh)?, 1);
    /// let data = Dataset::new(array![[0.0], [1.0]], array![[0.2], [0.7]])?;
    /// let laplace = Laplace::fit(network, data, Family::gaussian(0.5)?, &FitOptions::default())?;
    /// let sampler = SamplerOptions { range: 0..3, ..Default::default() };
    /// let flat = laplace.sample_riemannian_under(&metric::euclidean(7), &sampler, &())?;
    /// let known = laplace.sample_riemannian(MetricName::Euclidean, &sampler, &())?;
    /// assert_eq!(flat.theta, known.theta);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn sample_riemannian_under(
        &self,
        metric: &dyn Metric,
        options: &SamplerOptions,
        progress: &dyn Progress,
    ) -> Result<Samples> {
        check_size("number of parameters of the metric", self.parameters().len(), metric.n_params())?;
        geodesic::sample(metric, self.parameters(), &**self.precision(), options, progress)
    }

    /// The geodesics from θ̂ with the given velocities, one per row.
    pub fn exponential_map(
        &self,
        metric: MetricName,
        velocities: ArrayView2<'_, f64>,
        options: GeodesicOptions,
        progress: &dyn Progress,
    ) -> Result<Samples> {
        geodesic::exponential_map(self, metric, Smoothing::Default, velocities, options, progress)
    }

    /// The velocities that lead from θ̂ to the given points, one per row.
    pub fn logarithmic_map(
        &self,
        metric: MetricName,
        points: ArrayView2<'_, f64>,
        options: LogarithmOptions,
        progress: &dyn Progress,
    ) -> Result<Vec<Logarithm>> {
        geodesic::logarithmic_map(self, metric, Smoothing::Default, points, options, progress)
    }
}

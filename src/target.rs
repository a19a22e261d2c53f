//! The target density: a map, a likelihood, observations and a prior define the log posterior ℓ(θ) = Σₙ log p(yₙ |
//! fₙ(θ)) + log π(θ), with its gradient and its second derivatives. At temperature T its likelihood is p^(1/T).

use std::sync::Arc;

use faer::Mat;
use ndarray::ArrayView2;

use crate::data::check_targets;
use crate::error::Result;
use crate::likelihood::{Family, Likelihood, PointEvaluator, at_rows, to_the_power};
use crate::map::{Evaluate, Jet, Map, Scratch};
use crate::prior::Prior;

/// A posterior density over the parameters of a map. Cheap to clone: its parts are shared.
///
/// ```
/// use riemannian_laplace::internals::paper::problems::Banana;
/// let target = Banana::target(&[1.0, 1.5])?;
/// let mut evaluator = target.evaluator();
/// let mut gradient = [0.0; 2];
/// let value = evaluator.gradient(&[0.5, 0.7], &mut gradient);
/// assert_eq!(value, evaluator.log_posterior(&[0.5, 0.7]));
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Target {
    map: Arc<dyn Map>,
    /// The likelihood to the power 1/T.
    likelihood: Arc<dyn Likelihood>,
    temperature: f64,
    /// Observations, point by point.
    observations: Arc<[f64]>,
    /// How often each point counts; empty where points have no weights.
    weights: Arc<[f64]>,
    prior: Prior,
}

impl Target {
    /// Checks that the observations fit the likelihood and the map, and that the prior fits the map: a prior with one
    /// precision per group must have the map's groups; a single precision fits any.
    pub fn new(
        map: Arc<dyn Map>,
        likelihood: Arc<dyn Likelihood>,
        observations: ArrayView2<'_, f64>,
        prior: Prior,
    ) -> Result<Self> {
        Self::of_rows(map, &Family::from(likelihood), observations, prior)
    }

    /// The same for rows that may have known values behind their targets.
    pub fn of_rows(map: Arc<dyn Map>, family: &Family, rows: ArrayView2<'_, f64>, prior: Prior) -> Result<Self> {
        check_targets(rows, family, map.n_points(), map.n_outputs())?;
        let prior = prior.for_groups(&map.groups())?;
        let (likelihood, observed) = family.of_rows(rows, map.n_outputs());
        let observations = observed.iter().copied().collect();
        let weights = if family.has_weights() { family.weights(rows, map.n_outputs()) } else { Vec::new() };
        Ok(Self { map, likelihood, temperature: 1.0, observations, weights: weights.into(), prior })
    }

    /// The same target with its likelihood to the power 1/T.
    #[must_use]
    pub fn tempered(self, temperature: f64) -> Self {
        if temperature == 1.0 {
            return self;
        }
        let likelihood = to_the_power(&self.likelihood, 1.0 / temperature);
        Self { likelihood, temperature: self.temperature * temperature, ..self }
    }

    /// T.
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    /// θ → outputs.
    pub fn map(&self) -> &Arc<dyn Map> {
        &self.map
    }

    /// The distribution of an observation given its outputs, to the power 1/T.
    pub fn likelihood(&self) -> &Arc<dyn Likelihood> {
        &self.likelihood
    }

    /// The prior.
    pub fn prior(&self) -> &Prior {
        &self.prior
    }

    /// D, the number of parameters.
    pub fn n_params(&self) -> usize {
        self.map.n_params()
    }

    /// How often each point counts; empty where points have no weights.
    pub(crate) fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The observation at a point.
    pub fn observation(&self, n: usize) -> &[f64] {
        let width = self.observations.len() / self.map.n_points().max(1);
        &self.observations[n * width..(n + 1) * width]
    }

    /// The same target restricted to some of its points, in the order given.
    pub fn at_points(&self, points: &[usize]) -> Result<Self> {
        Ok(Self {
            map: self.map.at_points(points)?,
            likelihood: at_rows(&self.likelihood, points),
            temperature: self.temperature,
            observations: points.iter().flat_map(|point| self.observation(*point)).copied().collect(),
            weights: points.iter().filter_map(|point| self.weights.get(*point)).copied().collect(),
            prior: self.prior.clone(),
        })
    }

    /// One thread's buffers, and the operations that need them.
    pub fn evaluator(&self) -> TargetEvaluator {
        let (n, p) = (self.map.n_points(), self.map.n_outputs());
        TargetEvaluator {
            target: self.clone(),
            map: self.map.clone().evaluate(1),
            scratch: Scratch::default(),
            jet: Jet::new(n, p),
            scores: vec![0.0; n * p],
            ones: vec![1.0; n],
            points: PointEvaluator::new(n, p),
        }
    }
}

/// One thread's buffers for a [`Target`], and the operations that need them.
pub struct TargetEvaluator {
    target: Target,
    /// The map's own buffers, with one seed column.
    map: Box<dyn Evaluate>,
    scratch: Scratch,
    jet: Jet,
    /// ∂ log p/∂f, unit-major: the seeds of the gradient.
    scores: Vec<f64>,
    ones: Vec<f64>,
    points: PointEvaluator,
}

impl TargetEvaluator {
    /// Σₙ log p(yₙ | fₙ(θ)).
    pub fn log_likelihood(&mut self, theta: &[f64]) -> f64 {
        self.map.outputs(theta, &mut self.jet.outputs);
        self.log_likelihood_of_last()
    }

    /// Σₙ log p(yₙ | fₙ) at the outputs of the last evaluation.
    fn log_likelihood_of_last(&mut self) -> f64 {
        self.points.log_density(&*self.target.likelihood, &self.target.observations, &self.jet.outputs)
    }

    /// log p(yₙ | fₙ) at the outputs of the last evaluation.
    pub(crate) fn log_density_of_last(&mut self, n: usize) -> f64 {
        let Self { target, points, jet, .. } = self;
        points.log_density_at(&*target.likelihood, target.observation(n), &jet.outputs, n)
    }

    /// ℓ(θ).
    pub fn log_posterior(&mut self, theta: &[f64]) -> f64 {
        self.log_likelihood(theta) + self.target.prior.log_density(theta)
    }

    /// ℓ(θ) and its gradient.
    pub fn gradient(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let value = self.log_posterior(theta);
        self.fill_scores();
        self.pull_back_gradient(theta, gradient);
        value
    }

    /// ∇ℓ(θ) from the scores of the last evaluation, which was at θ.
    pub(crate) fn pull_back_gradient(&mut self, theta: &[f64], gradient: &mut [f64]) {
        self.map.pull_back(theta, &self.scores);
        self.map.transpose_times(&self.ones, gradient, &mut self.scratch);
        self.target.prior.add_gradient(theta, gradient);
    }

    /// ℓ, ℓ̇ and ℓ̈ along a velocity.
    pub fn jet(&mut self, theta: &[f64], velocity: &[f64]) -> (f64, f64, f64) {
        let (slope, bend) = self.slope_and_bend(theta, velocity);
        (self.log_posterior_of_last(theta), slope, bend)
    }

    /// ℓ(θ) at the outputs of the last evaluation, which was at θ.
    pub(crate) fn log_posterior_of_last(&mut self, theta: &[f64]) -> f64 {
        self.log_likelihood_of_last() + self.target.prior.log_density(theta)
    }

    /// ℓ̇ and ℓ̈ along a velocity: ℓ̈ = Σₙ [gₙ·f̈ₙ − ḟₙᵀWₙḟₙ] − vᵀAv, with g the scores and W the observed
    /// information (the negative Hessian of log p in its outputs).
    pub fn slope_and_bend(&mut self, theta: &[f64], velocity: &[f64]) -> (f64, f64) {
        self.move_along(theta, velocity);
        let Self { target, jet, scores, points, .. } = self;
        let (slope, bend) = points.log_density_jets(&*target.likelihood, &target.observations, jet, scores);
        (slope + target.prior.slope(theta, velocity), bend + target.prior.bend(velocity))
    }

    /// The jet along a velocity, and the scores.
    pub(crate) fn move_along(&mut self, theta: &[f64], velocity: &[f64]) {
        self.map.jet(theta, velocity, &mut self.jet);
        self.fill_scores();
    }

    /// The outputs, and the scores.
    pub(crate) fn move_to(&mut self, theta: &[f64]) {
        self.map.outputs(theta, &mut self.jet.outputs);
        self.fill_scores();
    }

    /// The first and second derivatives of log p(yₙ | fₙ) along the velocity of the last jet.
    pub(crate) fn point_jet(&mut self, n: usize) -> (f64, f64) {
        let Self { target, jet, scores, points, .. } = self;
        points.log_density_jet(&*target.likelihood, target.observation(n), jet, scores, n)
    }

    /// The scores ∂ log p/∂f at the outputs of the last evaluation.
    fn fill_scores(&mut self) {
        let Self { target, jet, scores, points, .. } = self;
        points.scores(&*target.likelihood, &target.observations, &jet.outputs, scores);
    }

    /// The outputs of the last evaluation, unit-major.
    pub(crate) fn outputs(&self) -> &[f64] {
        &self.jet.outputs
    }

    /// The scores of the last evaluation, unit-major.
    pub(crate) fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// The map's own evaluator.
    pub(crate) fn map(&mut self) -> &mut dyn Evaluate {
        &mut *self.map
    }

    /// The map's rows.
    pub(crate) fn rows(&self) -> &dyn Evaluate {
        &*self.map
    }

    /// ∇²ℓ(θ), exact, from jets by polarisation: uᵀ∇²ℓ w = ¼[ℓ̈(u + w) − ℓ̈(u − w)]. Costs D² jets; for small D.
    pub fn hessian(&mut self, theta: &[f64]) -> Mat<f64> {
        let size = theta.len();
        let mut hessian = Mat::zeros(size, size);
        let mut direction = vec![0.0; size];
        for i in 0..size {
            direction[i] = 1.0;
            hessian[(i, i)] = self.jet(theta, &direction).2;
            for j in 0..i {
                direction[j] = 1.0;
                let plus = self.jet(theta, &direction).2;
                direction[j] = -1.0;
                let minus = self.jet(theta, &direction).2;
                direction[j] = 0.0;
                hessian[(i, j)] = 0.25 * (plus - minus);
                hessian[(j, i)] = hessian[(i, j)];
            }
            direction[i] = 0.0;
        }
        hessian
    }
}

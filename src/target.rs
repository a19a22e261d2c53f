//! The target density: a map, a likelihood, observations and a prior make the log posterior
//! ℓ(θ) = Σₙ log p(yₙ | fₙ(θ)) + log π(θ), with its gradient and its second derivatives.

use std::sync::Arc;

use faer::Mat;
use ndarray::ArrayView2;

use crate::error::{Error, Result, check_size};
use crate::likelihood::{Likelihood, PointBuffers};
use crate::map::{DifferentiableMap, Jet};
use crate::network::NetworkMap;
use crate::prior::Prior;

/// A posterior density over the parameters of a map.
#[derive(Debug, Clone)]
pub struct Target<M> {
    /// θ → outputs.
    pub map: M,
    /// The distribution of an observation given its outputs.
    pub likelihood: Arc<dyn Likelihood>,
    /// Observations, point by point.
    observations: Vec<f64>,
    /// The prior.
    pub prior: Prior,
}

/// Buffers for evaluations of a [`Target`].
#[derive(Debug)]
pub struct TargetWorkspace<W> {
    /// The map's own buffers, with one seed column.
    pub(crate) map: W,
    pub(crate) jet: Jet,
    /// ∂ log p/∂f, unit-major: the seeds of the gradient.
    pub(crate) scores: Vec<f64>,
    pub(crate) ones: Vec<f64>,
    pub(crate) points: PointBuffers,
}

impl Target<NetworkMap> {
    /// The same target with some of its points only, in the order given.
    pub fn at_points(&self, points: &[usize]) -> Result<Self> {
        Ok(Self {
            map: self.map.at_points(points)?,
            likelihood: self.likelihood.clone(),
            observations: points.iter().flat_map(|point| self.observation(*point)).copied().collect(),
            prior: self.prior.clone(),
        })
    }
}

impl<M: DifferentiableMap> Target<M> {
    /// Checks that the observations fit the likelihood and the map.
    pub fn new(
        map: M,
        likelihood: Arc<dyn Likelihood>,
        observations: ArrayView2<'_, f64>,
        prior: Prior,
    ) -> Result<Self> {
        let n_outputs = map.n_outputs();
        likelihood.check_outputs(n_outputs).map_err(Error::Outputs)?;
        check_size("number of observations", map.n_points(), observations.nrows())?;
        check_size("number of target columns", likelihood.n_targets(n_outputs), observations.ncols())?;
        check_size("number of parameters of the prior", map.n_params(), prior.precision.n_params())?;
        for (row, target) in observations.rows().into_iter().enumerate() {
            likelihood.validate(&target.to_vec(), n_outputs).map_err(|source| Error::Target { row, source })?;
        }
        Ok(Self { map, likelihood, observations: observations.iter().copied().collect(), prior })
    }

    /// The observation at a point.
    pub fn observation(&self, n: usize) -> &[f64] {
        let width = self.observations.len() / self.map.n_points().max(1);
        &self.observations[n * width..(n + 1) * width]
    }

    /// Buffers for evaluations.
    pub fn workspace(&self) -> TargetWorkspace<M::Workspace> {
        let (n, p) = (self.map.n_points(), self.map.n_outputs());
        TargetWorkspace {
            map: self.map.workspace(1),
            jet: Jet::new(n, p),
            scores: vec![0.0; n * p],
            ones: vec![1.0; n],
            points: PointBuffers::new(n, p),
        }
    }

    /// Σₙ log p(yₙ | fₙ(θ)).
    pub fn log_likelihood(&self, theta: &[f64], workspace: &mut TargetWorkspace<M::Workspace>) -> f64 {
        self.map.outputs(theta, &mut workspace.jet.outputs, &mut workspace.map);
        self.log_likelihood_of_last(workspace)
    }

    /// Σₙ log p(yₙ | fₙ) at the outputs of the last evaluation.
    fn log_likelihood_of_last(&self, workspace: &mut TargetWorkspace<M::Workspace>) -> f64 {
        let TargetWorkspace { jet, points, .. } = workspace;
        points.log_density(&*self.likelihood, &self.observations, &jet.outputs)
    }

    /// log p(yₙ | fₙ) at the outputs of the last evaluation.
    pub(crate) fn log_density_of_last(&self, n: usize, workspace: &mut TargetWorkspace<M::Workspace>) -> f64 {
        let TargetWorkspace { jet, points, .. } = workspace;
        points.log_density_at(&*self.likelihood, self.observation(n), &jet.outputs, n)
    }

    /// ℓ(θ).
    pub fn log_posterior(&self, theta: &[f64], workspace: &mut TargetWorkspace<M::Workspace>) -> f64 {
        self.log_likelihood(theta, workspace) + self.prior.log_density(theta)
    }

    /// ℓ(θ) and its gradient.
    pub fn gradient(&self, theta: &[f64], gradient: &mut [f64], workspace: &mut TargetWorkspace<M::Workspace>) -> f64 {
        let value = self.log_posterior(theta, workspace);
        self.fill_scores(workspace);
        self.map.pull_back(theta, &workspace.scores, &mut workspace.map);
        self.map.transpose_times(&workspace.ones, &mut workspace.map, gradient);
        self.prior.add_gradient(theta, gradient);
        value
    }

    /// ℓ, ℓ̇ and ℓ̈ along a velocity.
    pub fn jet(
        &self,
        theta: &[f64],
        velocity: &[f64],
        workspace: &mut TargetWorkspace<M::Workspace>,
    ) -> (f64, f64, f64) {
        let (slope, curvature) = self.slope_and_curvature(theta, velocity, workspace);
        (self.log_likelihood_of_last(workspace) + self.prior.log_density(theta), slope, curvature)
    }

    /// ℓ̇ and ℓ̈ along a velocity: ℓ̈ = Σₙ [gₙ·f̈ₙ − ḟₙᵀHₙḟₙ] − vᵀAv, with g the scores and H the output Fisher (the negative
    /// Hessian of log p in its outputs, since every likelihood here is in canonical form).
    pub fn slope_and_curvature(
        &self,
        theta: &[f64],
        velocity: &[f64],
        workspace: &mut TargetWorkspace<M::Workspace>,
    ) -> (f64, f64) {
        self.map.jet(theta, velocity, &mut workspace.jet, &mut workspace.map);
        self.fill_scores(workspace);
        let TargetWorkspace { jet, scores, points, .. } = workspace;
        let (slope, curvature) = points.log_density_jets(&*self.likelihood, jet, scores);
        (slope + self.prior.slope(theta, velocity), curvature + self.prior.curvature(velocity))
    }

    /// The first and second derivative of log p(yₙ | fₙ) along the velocity of the last jet.
    pub(crate) fn point_jet(&self, n: usize, workspace: &mut TargetWorkspace<M::Workspace>) -> (f64, f64) {
        let TargetWorkspace { jet, scores, points, .. } = workspace;
        points.log_density_jet(&*self.likelihood, jet, scores, n)
    }

    /// The scores ∂ log p/∂f at the outputs of the last evaluation.
    pub(crate) fn fill_scores(&self, workspace: &mut TargetWorkspace<M::Workspace>) {
        let TargetWorkspace { jet, scores, points, .. } = workspace;
        points.scores(&*self.likelihood, &self.observations, &jet.outputs, scores);
    }

    /// ∇²ℓ(θ), exact, from jets by polarisation: uᵀ∇²ℓ w = ¼[ℓ̈(u + w) − ℓ̈(u − w)]. Costs D² jets; for small D.
    pub fn hessian(&self, theta: &[f64], workspace: &mut TargetWorkspace<M::Workspace>) -> Mat<f64> {
        let size = theta.len();
        let mut hessian = Mat::zeros(size, size);
        let mut direction = vec![0.0; size];
        for i in 0..size {
            direction[i] = 1.0;
            hessian[(i, i)] = self.jet(theta, &direction, workspace).2;
            for j in 0..i {
                direction[j] = 1.0;
                let plus = self.jet(theta, &direction, workspace).2;
                direction[j] = -1.0;
                let minus = self.jet(theta, &direction, workspace).2;
                direction[j] = 0.0;
                hessian[(i, j)] = 0.25 * (plus - minus);
                hessian[(j, i)] = hessian[(i, j)];
            }
            direction[i] = 0.0;
        }
        hessian
    }
}

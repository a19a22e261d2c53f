//! log det(I + K) and tr K(I + K)⁻¹ for K = A^(−½)CA^(−½) by stochastic Lanczos quadrature.
//!
//! With random signs z, E zᵀf(K)z = tr f(K), and zᵀf(K)z is a Gauss quadrature (see [`lanczos`](super::lanczos)). The
//! probes z are fixed, so the estimate is a smooth function of the hyperparameters, and its scatter over the probes is a
//! standard error. A model with few parameters takes every unit vector instead: the trace is then exact.
//!
//! For one α and one s, K = C/(αs²), and one decomposition of C serves all of them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rand::Rng;
use rayon::prelude::*;

use super::lanczos::Krylov;
use super::products::Products;
use crate::laplace::{LogDet, LogDetRatio};
use crate::prior::PriorPrecision;
use crate::random::{Purpose, stream};

/// Models with at most this many parameters are traced exactly.
const TRACED: usize = 64;
/// Probes and steps of a first look, from which tuning finds its way.
const PILOT: Plan = Plan { probes: 4, steps: 32 };
/// The least and the greatest number of probes.
const PROBES: (usize, usize) = (8, 256);
/// The standard error of the effective parameters that is aimed at, relative to them: half of the 5 % that a tuned prior
/// may be off, for two standard errors, with room for noise in the estimate of the error itself.
const AIM: f64 = 0.015;
/// The greatest number of Lanczos steps.
const MOST_STEPS: usize = 400;
/// Steps between two looks at a quadrature.
const LOOK: usize = 8;
/// A quadrature has converged when the last steps changed it by less than this, relatively: a hundredth of the scatter of
/// the probes that is aimed at.
const SETTLED: f64 = 1e-4;
/// Numbers in the bases that are held at once (half a gigabyte).
const BASIS_NUMBERS: usize = 1 << 26;
/// Steps that most problems take at most, where the number is not yet known.
const EXPECTED_STEPS: usize = 64;
/// Times that probes and steps are chosen anew for the same hyperparameters.
const ROUNDS: usize = 3;

/// How many probes, and how many steps from each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) probes: usize,
    pub(super) steps: usize,
}

impl Plan {
    /// At most as many as there are dimensions.
    pub(super) fn within(self, size: usize) -> Self {
        let probes = if size <= TRACED { size } else { self.probes };
        Self { probes, steps: self.steps.min(size) }
    }
}

/// K: the curvature with the weights 1/s² of its noise levels, whitened by a prior if there is one.
#[derive(Debug, Clone)]
pub(super) struct Whitened {
    pub(super) products: Arc<Products>,
    pub(super) prior: Option<PriorPrecision>,
    pub(super) weights: Vec<f64>,
}

impl Whitened {
    pub(super) fn size(&self) -> usize {
        self.products.n_params()
    }

    /// A^(−½)u.
    pub(super) fn unwhiten(&self, vector: &mut [f64]) {
        if let Some(prior) = &self.prior {
            prior.divide_by_root(vector);
        }
    }

    /// K u for each u.
    pub(super) fn times(&self, directions: &[&[f64]]) -> Vec<Vec<f64>> {
        let scaled: Vec<Vec<f64>> = directions
            .iter()
            .map(|direction| {
                let mut scaled = direction.to_vec();
                self.unwhiten(&mut scaled);
                scaled
            })
            .collect();
        let scaled: Vec<&[f64]> = scaled.iter().map(Vec::as_slice).collect();
        let mut products = self.products.times(&self.weights, &scaled);
        products.iter_mut().for_each(|product| self.unwhiten(product));
        products
    }

    /// The start of a probe: unit vectors for a small model, else random signs.
    fn start(&self, index: usize) -> Vec<f64> {
        let mut start = vec![0.0; self.size()];
        if self.size() <= TRACED {
            start[index] = 1.0;
        } else {
            let mut generator = stream(0, Purpose::TraceProbe, index as u64);
            start.iter_mut().for_each(|value| *value = if generator.random::<bool>() { 1.0 } else { -1.0 });
        }
        start
    }

    /// Runs Lanczos from every probe, in groups whose bases fit, and keeps what `keep` takes from each.
    pub(super) fn krylov_spaces<T: Send>(&self, plan: Plan, keep: impl Fn(&Krylov) -> T + Sync) -> Vec<T> {
        self.spaces_of(0..plan.probes, Steps::So(plan.steps), keep).0
    }

    /// The same for some of the probes, and the number of steps. Where that is not given, it is what the first of them takes,
    /// while the others of its group go along.
    fn spaces_of<T: Send>(
        &self,
        probes: Range<usize>,
        mut steps: Steps,
        keep: impl Fn(&Krylov) -> T + Sync,
    ) -> (Vec<T>, usize) {
        let (mut kept, mut taken) = (Vec::with_capacity(probes.len()), 0);
        let at_once = |steps: usize| (BASIS_NUMBERS / (steps * self.size()).max(1)).max(2);
        while kept.len() < probes.len() {
            let rest = probes.start + kept.len()..probes.end;
            let expected = if let Steps::So(steps) = steps { steps } else { EXPECTED_STEPS };
            let mut group: Vec<Krylov> =
                rest.take(at_once(expected)).map(|index| Krylov::new(self.start(index))).collect();
            match steps {
                Steps::So(steps) => (0..steps).for_each(|_| self.advance(&mut group)),
                Steps::UntilSettled { scale, after } => loop {
                    for _ in 0..LOOK {
                        self.advance(&mut group);
                        taken += 1;
                        // More than expected: the last probes start anew when there is room for them.
                        group.truncate(at_once(taken.max(expected)));
                    }
                    if group[0].has_settled(scale, after) {
                        steps = Steps::So(group[0].steps());
                        break;
                    }
                },
            }
            // Ranks that make products together must ask for them in the same order.
            match self.products.is_shared() {
                true => kept.extend(group.iter().map(&keep)),
                false => kept.extend(group.par_iter().map(&keep).collect::<Vec<T>>()),
            }
        }
        (kept, if let Steps::So(steps) = steps { steps } else { 0 })
    }

    /// One step of every process that is not exhausted.
    fn advance(&self, spaces: &mut [Krylov]) {
        let mut open: Vec<&mut Krylov> = spaces.iter_mut().filter(|space| space.next().is_some()).collect();
        let directions: Vec<&[f64]> = open.iter().filter_map(|space| space.next()).collect();
        if directions.is_empty() {
            return;
        }
        let images = self.times(&directions);
        open.par_iter_mut().zip(images).for_each(|(space, image)| space.step(image));
    }

    /// Steps after which the quadrature of the first probe has converged at this scale.
    pub(super) fn enough_steps(&self, scale: f64) -> usize {
        self.spaces_of(0..1, Steps::UntilSettled { scale, after: 0 }, |_| ()).1
    }

    /// What zᵀf(K)z/‖z‖² of each probe counts in tr f(K): ‖z‖², and one over the number of random probes.
    pub(super) fn trace_factor(&self, plan: Plan) -> f64 {
        if self.size() <= TRACED { 1.0 } else { self.size() as f64 / plan.probes as f64 }
    }
}

/// How many steps each probe takes.
#[derive(Debug, Clone, Copy)]
enum Steps {
    So(usize),
    /// As many as the first probe takes until its quadrature has converged at this scale, and more than some.
    UntilSettled {
        scale: f64,
        after: usize,
    },
}

impl Krylov {
    /// Whether the last few steps changed the quadrature at this scale by little, or there are no more.
    fn has_settled(&self, scale: f64, after: usize) -> bool {
        let steps = self.steps();
        let value = |steps: usize| quadrature(&self.nodes(steps), scale).0;
        let (now, before) = (value(steps), value(steps.saturating_sub(LOOK).max(1)));
        let settled = steps > LOOK.max(after) && (now - before).abs() <= SETTLED * now.abs();
        settled || self.next().is_none() || steps >= MOST_STEPS || !now.is_finite()
    }
}

/// Σ τ² log(1 + λ/x) and Σ τ² λ/(λ + x).
pub(super) fn quadrature(nodes: &[(f64, f64)], scale: f64) -> (f64, f64) {
    nodes.iter().fold((0.0, 0.0), |(log, effective), (node, weight)| {
        (log + weight * (node / scale).ln_1p(), effective + weight * node / (node + scale))
    })
}

/// log det(I + K) and tr K(I + K)⁻¹, with standard errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) log_det: f64,
    pub(super) log_det_error: f64,
    pub(super) effective: f64,
    effective_error: f64,
}

/// The quadratures of all probes.
#[derive(Debug, Clone)]
pub(super) struct Quadrature {
    plan: Plan,
    traced: bool,
    size: f64,
    /// Nodes and weights of each probe; and those a few steps earlier.
    nodes: Vec<[Vec<(f64, f64)>; 2]>,
}

impl Quadrature {
    pub(super) fn new(operator: &Whitened, plan: Plan) -> Self {
        let plan = plan.within(operator.size());
        Self::of(operator, plan, operator.krylov_spaces(plan, both_nodes))
    }

    /// With as many steps as it takes at this scale, and more than some.
    fn settled(operator: &Whitened, probes: usize, scale: f64, after: usize) -> Self {
        let Plan { probes, .. } = Plan { probes, steps: MOST_STEPS }.within(operator.size());
        let (nodes, steps) = operator.spaces_of(0..probes, Steps::UntilSettled { scale, after }, both_nodes);
        Self::of(operator, Plan { probes, steps }, nodes)
    }

    fn of(operator: &Whitened, plan: Plan, nodes: Vec<[Vec<(f64, f64)>; 2]>) -> Self {
        Self { plan, traced: operator.size() <= TRACED, size: operator.size() as f64, nodes }
    }

    /// With more probes of as many steps.
    fn extended(&self, operator: &Whitened, probes: usize) -> Self {
        let plan = Plan { probes, ..self.plan };
        let more = operator.spaces_of(self.nodes.len()..probes, Steps::So(plan.steps), both_nodes).0;
        Self::of(operator, plan, self.nodes.iter().cloned().chain(more).collect())
    }

    /// A better one for these hyperparameters, or none where this one serves.
    fn improved(&self, operator: &Whitened, scale: f64) -> Option<Self> {
        let (short, probes) = self.shortcomings(scale, most_probes(operator.size()));
        match (short, probes) {
            (false, None) => None,
            (false, Some(probes)) => Some(self.extended(operator, probes)),
            (true, probes) => Some(Self::settled(operator, probes.unwrap_or(self.plan.probes), scale, self.plan.steps)),
        }
    }

    fn estimate(&self, scale: f64, which: usize) -> Estimate {
        let of_probes: Vec<(f64, f64)> = self.nodes.iter().map(|nodes| quadrature(&nodes[which], scale)).collect();
        if self.traced {
            let (log_det, effective) = of_probes.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            return Estimate { log_det, log_det_error: 0.0, effective, effective_error: 0.0 };
        }
        let mean_and_error = |value: &dyn Fn(&(f64, f64)) -> f64| {
            let count = of_probes.len() as f64;
            let mean = of_probes.iter().map(value).sum::<f64>() / count;
            let squares = of_probes.iter().map(|one| (value(one) - mean).powi(2)).sum::<f64>();
            (self.size * mean, self.size * (squares / (count * (count - 1.0).max(1.0))).sqrt())
        };
        let (log_det, log_det_error) = mean_and_error(&|one| one.0);
        let (effective, effective_error) = mean_and_error(&|one| one.1);
        Estimate { log_det, log_det_error, effective, effective_error }
    }

    /// The estimate for K/x.
    pub(super) fn at(&self, scale: f64) -> Estimate {
        self.estimate(scale, 0)
    }

    /// Whether more steps, or more probes, are needed at this scale.
    fn shortcomings(&self, scale: f64, most_probes: usize) -> (bool, Option<usize>) {
        let (now, before) = (self.at(scale), self.estimate(scale, 1));
        let unsettled = (now.log_det - before.log_det).abs() > 10.0 * SETTLED * now.log_det.abs();
        let short = unsettled && self.plan.steps < MOST_STEPS.min(self.size as usize);
        let wanted = (1.1 * self.plan.probes as f64 * (now.effective_error / (AIM * now.effective)).powi(2)).ceil();
        let wanted = if wanted.is_finite() { (wanted as usize).clamp(PROBES.0, most_probes) } else { PROBES.0 };
        (short, Some(wanted).filter(|wanted| !self.traced && *wanted > self.plan.probes))
    }
}

/// The nodes and weights of a probe; and those a few steps earlier. An exhausted space is exact, however short.
fn both_nodes(space: &Krylov) -> [Vec<(f64, f64)>; 2] {
    let steps = space.steps();
    let before = if space.next().is_none() { steps } else { steps.saturating_sub(LOOK).max(1) };
    [space.nodes(steps), space.nodes(before)]
}

/// The number of f64 values in the bases that are held at once, of vectors of this size.
pub(super) fn numbers(size: usize) -> f64 {
    let each = (EXPECTED_STEPS * size) as f64;
    (BASIS_NUMBERS as f64).max(2.0 * each).min(most_probes(size) as f64 * each)
}

/// The most probes whose vectors are small beside the bases.
fn most_probes(size: usize) -> usize {
    (BASIS_NUMBERS / (8 * size).max(1)).clamp(PROBES.0, PROBES.1)
}

/// A better plan for these hyperparameters, or none where this one serves.
pub(super) fn better(operator: &Whitened, present: &Quadrature, scale: f64) -> Option<Plan> {
    let (short, probes) = present.shortcomings(scale, most_probes(operator.size()));
    if !short && probes.is_none() {
        return None;
    }
    let steps = if short { operator.enough_steps(scale).max(present.plan.steps + 1) } else { present.plan.steps };
    Some(Plan { probes: probes.unwrap_or(present.plan.probes), steps })
}

/// The quadrature at fixed hyperparameters, with as many steps and probes as it takes.
pub(super) fn estimate(operator: &Whitened, start: Option<Plan>) -> Estimate {
    let mut quadrature = match start {
        Some(plan) => Quadrature::new(operator, plan),
        None => Quadrature::settled(operator, PROBES.0, 1.0, 0),
    };
    for _ in 0..ROUNDS {
        match quadrature.improved(operator, 1.0) {
            Some(better) => quadrature = better,
            None => break,
        }
    }
    quadrature.at(1.0)
}

/// One decomposition of the curvature at unit scale for every α and s, refined where it is needed.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) operator: Whitened,
    present: Mutex<Option<Arc<Quadrature>>>,
}

impl Shared {
    pub(super) fn new(products: Arc<Products>) -> Self {
        let operator = Whitened { products, prior: None, weights: vec![1.0] };
        Self { operator, present: Mutex::new(None) }
    }

    /// The plan in use, if a decomposition was made.
    pub(super) fn plan(&self) -> Option<Plan> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|quadrature| quadrature.plan)
    }

    /// A plan for a prior precision and a noise of one.
    pub(super) fn first_plan(&self) -> Plan {
        Plan { probes: PROBES.0, steps: self.operator.enough_steps(1.0) }.within(self.operator.size())
    }

    /// The decomposition there is, or a first look.
    fn present(&self) -> Arc<Quadrature> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.get_or_insert_with(|| Arc::new(Quadrature::new(&self.operator, PILOT))).clone()
    }

    /// Improves the decomposition once for this αs²; false where it serves.
    fn improve(&self, scale: f64) -> bool {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let better = match &*present {
            Some(quadrature) => quadrature.improved(&self.operator, scale),
            None => Some(Quadrature::settled(&self.operator, PROBES.0, scale, 0)),
        };
        let Some(better) = better else { return false };
        *present = Some(Arc::new(better));
        true
    }

    /// The estimate at this αs².
    pub(super) fn estimate(&self, scale: f64) -> Estimate {
        for _ in 0..ROUNDS {
            if !self.improve(scale) {
                break;
            }
        }
        self.present().at(scale)
    }
}

/// αs² from the logarithms.
fn scale_of(log_alpha: &[f64], log_scales: &[f64]) -> Option<f64> {
    Some((log_alpha.first()? + 2.0 * log_scales.first().copied().unwrap_or(0.0)).exp())
}

/// The log determinant for one α and one s.
pub(super) struct SharedLogDet(pub(super) Arc<Shared>);

impl LogDet for SharedLogDet {
    fn evaluate(&self, log_alpha: &[f64], log_scales: &[f64]) -> Option<LogDetRatio> {
        let estimate = self.0.present().at(scale_of(log_alpha, log_scales)?);
        let by_log_sigma = vec![-2.0 * estimate.effective; log_scales.len()];
        estimate.log_det.is_finite().then(|| LogDetRatio {
            value: estimate.log_det,
            by_log_alpha: vec![-estimate.effective],
            by_log_sigma,
        })
    }

    fn refine(&self, log_alpha: &[f64], log_scales: &[f64]) -> bool {
        scale_of(log_alpha, log_scales).is_some_and(|scale| self.0.improve(scale))
    }
}

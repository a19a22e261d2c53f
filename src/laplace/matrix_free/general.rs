//! The log determinant for several α or several noise levels, where Lanczos runs anew for each of their values.
//!
//! Its gradient is that of the estimate itself, so that a search on it sees a smooth function with its own slope: with
//! S = I + K and zᵀlog(S)z of a probe z, d zᵀlog(S)z = ‖z‖² Σᵢⱼ τᵢτⱼ log[μᵢ, μⱼ] qᵢᵀ dS qⱼ, where μ = 1 + λ and q = Vy are
//! the Ritz values and vectors and log[·, ·] is the divided difference (Daleckii and Krein 1965). For log α_l,
//! dS = −½(P_lK + KP_l) with P_l the weights under α_l; for log s_p, dS = −2K_p, the share of level p.

use std::sync::{Arc, Mutex, PoisonError};

use faer::{Accum, Mat};

use super::lanczos::Krylov;
use super::products::Products;
use super::quadrature::{Plan, Quadrature, Shared, Whitened, better, quadrature};
use crate::laplace::{LogDet, LogDetRatio};
use crate::linalg::{add_products, add_scaled, multiply};
use crate::prior::{PriorPrecision, PriorStructure};

/// The log determinant as a function of every α and every s.
pub(super) struct GeneralLogDet {
    products: Arc<Products>,
    structure: PriorStructure,
    groups: Vec<usize>,
    plan: Mutex<Plan>,
}

impl GeneralLogDet {
    pub(super) fn new(products: Arc<Products>, structure: PriorStructure, groups: Vec<usize>, shared: &Shared) -> Self {
        let plan = shared.plan().unwrap_or_else(|| shared.first_plan());
        Self { products, structure, groups, plan: Mutex::new(plan) }
    }

    fn plan(&self) -> Plan {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn operator(&self, log_alpha: &[f64], log_scales: &[f64]) -> Option<Whitened> {
        let alpha = log_alpha.iter().map(|value| value.exp()).collect();
        let prior = PriorPrecision::with_structure(self.structure, alpha, &self.groups).ok()?;
        let weights = match log_scales {
            [] => vec![1.0],
            levels => levels.iter().map(|level| (-2.0 * level).exp()).collect(),
        };
        Some(Whitened { products: self.products.clone(), prior: Some(prior), weights })
    }
}

/// What one probe adds to the value and to the gradient.
struct Share {
    value: f64,
    effective: f64,
    /// For each weight d: Σ_b (VN)_db (KV)_db, with N = Y c Yᵀ and c the weighted divided differences.
    by_weight: Vec<f64>,
    /// tr N VᵀK_pV of each level.
    by_level: Vec<f64>,
}

/// (log μᵢ − log μⱼ)/(μᵢ − μⱼ), without cancellation.
fn divided_difference(a: f64, b: f64) -> f64 {
    let ratio = (b - a) / a;
    if ratio.abs() < 1e-5 { (1.0 - 0.5 * ratio + ratio * ratio / 3.0) / a } else { ratio.ln_1p() / (b - a) }
}

/// The value and the gradient of one probe; none where its matrix is not finite.
fn share(operator: &Whitened, space: &Krylov) -> Option<Share> {
    let (eigen, steps) = (space.eigen(space.steps())?, space.steps());
    let mu: Vec<f64> = eigen.values.iter().map(|value| 1.0 + value.max(0.0)).collect();
    let first = |i: usize| eigen.vectors[(0, i)];
    let differences = Mat::from_fn(steps, steps, |i, j| first(i) * first(j) * divided_difference(mu[i], mu[j]));
    let (mut half, mut weights) = (Mat::zeros(steps, steps), Mat::zeros(steps, steps));
    multiply(half.as_mut(), Accum::Replace, eigen.vectors.as_ref(), differences.as_ref());
    multiply(weights.as_mut(), Accum::Replace, half.as_ref(), eigen.vectors.transpose());
    let basis = space.basis();
    let mut by_weight = vec![0.0; operator.size()];
    let mut mixed = vec![0.0; operator.size()];
    for b in 0..steps {
        mixed.fill(0.0);
        for (a, vector) in basis.iter().enumerate() {
            add_scaled(weights[(a, b)], vector, &mut mixed);
        }
        add_products(&mixed, &space.image(b), &mut by_weight);
    }
    let by_level = match operator.weights.len() {
        1 => Vec::new(),
        _ => {
            let scaled: Vec<Vec<f64>> = basis
                .iter()
                .map(|vector| {
                    let mut scaled = vector.to_vec();
                    operator.unwhiten(&mut scaled);
                    scaled
                })
                .collect();
            let scaled: Vec<&[f64]> = scaled.iter().map(Vec::as_slice).collect();
            let grams = operator.products.level_grams(&operator.weights, &scaled);
            let entries = || (0..steps).flat_map(|i| (0..steps).map(move |j| (i, j)));
            grams.iter().map(|gram| entries().map(|at| weights[at] * gram[at]).sum()).collect()
        }
    };
    let (value, effective) = quadrature(&space.nodes(steps), 1.0);
    Some(Share { value, effective, by_weight, by_level })
}

impl LogDet for GeneralLogDet {
    fn evaluate(&self, log_alpha: &[f64], log_scales: &[f64]) -> Option<LogDetRatio> {
        let operator = self.operator(log_alpha, log_scales)?;
        let plan = self.plan();
        let shares = operator.krylov_spaces(plan, |space| share(&operator, space));
        let factor = operator.trace_factor(plan);
        let (mut value, mut effective) = (0.0, 0.0);
        let (mut by_weight, mut by_level) = (vec![0.0; operator.size()], vec![0.0; log_scales.len()]);
        for share in shares {
            let share = share?;
            value += factor * share.value;
            effective += factor * share.effective;
            add_scaled(-factor, &share.by_weight, &mut by_weight);
            by_level.iter_mut().zip(&share.by_level).for_each(|(sum, level)| *sum -= 2.0 * factor * level);
        }
        if let [level] = &mut by_level[..] {
            *level = -2.0 * effective;
        }
        let mut rest = &by_weight[..];
        let by_log_alpha = self.structure.shares(&self.groups).into_iter().map(|size| {
            let (part, after) = rest.split_at(size);
            rest = after;
            part.iter().sum()
        });
        let by_log_alpha = by_log_alpha.take(log_alpha.len()).collect();
        value.is_finite().then_some(LogDetRatio { value, by_log_alpha, by_log_sigma: by_level })
    }

    fn refine(&self, log_alpha: &[f64], log_scales: &[f64]) -> bool {
        let Some(operator) = self.operator(log_alpha, log_scales) else { return false };
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        match better(&operator, &Quadrature::new(&operator, *plan), 1.0) {
            Some(other) => {
                *plan = other.within(operator.size());
                true
            }
            None => false,
        }
    }
}

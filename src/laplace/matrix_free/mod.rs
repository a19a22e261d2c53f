//! The posterior without any matrix: exact G = A + Σₙ JₙᵀHₙJₙ, known through its products alone. For models in which both
//! D and N·P are too large for a matrix; memory O(D) and that of a batch.
//!
//! - draws v = G⁻¹(A^½ε₁ + J̃ᵀε₂) ~ N(0, G⁻¹), and all solves, by conjugate gradients
//! - log det G − log det A and D − tr(AG⁻¹) by stochastic Lanczos quadrature, with a standard error
//! - variances of predictions from draws v_s: J G⁻¹Jᵀ ≈ S⁻¹ Σ_s (Jv_s)(Jv_s)ᵀ, relative standard error √(2/S)
//!
//! Nothing here is approximate but by chance, and by how much is stated ([`Estimates`]).

mod block;
mod general;
mod lanczos;
mod precision;
mod products;
mod quadrature;
mod solves;

use std::any::Any;
use std::sync::{Arc, OnceLock};

use self::general::GeneralLogDet;
pub use self::precision::Estimates;
use self::precision::WithoutMatrix;
use self::products::{Block, Part, Products};
use self::quadrature::{Shared, SharedLogDet};
use super::accumulate::{Fit, accumulate_block, rows_at_once};
use super::problem::{BatchRows, Problem};
use super::share::FitSums;
use super::structure::{Curvature, LogDet, LogDetForm, Precision, SavedTensor, SavedTensors, same_kind};
use crate::data::{Batches, row_blocks};
use crate::error::{Error, Result, Unsupported};
use crate::prior::{PriorPrecision, PriorStructure};
use crate::team::Team;

/// Numbers per parameter while draws are solved for: six vectors for each solve of a block, and the lanes of products.
const NUMBERS_PER_PARAMETER: usize = 6 * precision::BLOCK + 4 * products::LANES;
/// Numbers of a batch and of what its products need.
const BATCH_NUMBERS: f64 = (1u64 << 23) as f64;

/// The number of f64 values held at the peak, apart from rows that are kept where there is room.
pub(super) fn numbers(problem: &Problem, draws: usize) -> f64 {
    let size = problem.model.n_params();
    let solving = (NUMBERS_PER_PARAMETER * size) as f64;
    let probing = quadrature::numbers(size);
    draws as f64 * size as f64 + solving.max(probing) + products::share_numbers(size) + BATCH_NUMBERS
}

/// The draws, and a batch.
pub(super) fn loaded_numbers(problem: &Problem, draws: usize) -> f64 {
    (draws as f64 + 8.0) * problem.model.n_params() as f64 + BATCH_NUMBERS
}

pub(super) fn begin(problem: &Problem, draws: usize) -> Result<Box<dyn Curvature>> {
    Ok(Box::new(TrainingParts::new(problem, draws, vec![Block::Here(Vec::new())], Team::alone())))
}

/// Reads this rank's blocks of rows; products are then made by all ranks together, each over its own.
pub(super) fn accumulate_on(
    team: &Team,
    problem: &Problem,
    draws: usize,
    data: &dyn Batches,
) -> Result<(Box<dyn Curvature>, Fit)> {
    let blocks = row_blocks(data.n_rows());
    let (mine, mut all, mut fits) = (team.share(blocks.len()), Vec::new(), Vec::new());
    for (index, block) in blocks.into_iter().enumerate() {
        if !mine.contains(&index) {
            all.push(Block::Elsewhere { points: block.len() });
            continue;
        }
        team.count_rows(block.len());
        let (parts, fit) = accumulate_block(problem, begin(problem, draws)?, data, block)?;
        all.extend(same_kind::<TrainingParts>(parts)?.blocks);
        fits.push(Ok(fit));
    }
    let fit = team.fold(&FitSums(problem), fits)?.ok_or_else(|| Error::NoRows { what: "the data set".to_string() })?;
    Ok((Box::new(TrainingParts::new(problem, draws, all, team.clone())), fit))
}

pub(super) fn load_sums(problem: &Problem, draws: usize, _: &mut dyn SavedTensors) -> Result<Box<dyn Curvature>> {
    Ok(Box::new(training_parts(problem, draws)?))
}

pub(super) fn load(
    problem: &Problem,
    draws: usize,
    prior: &PriorPrecision,
    file: &mut dyn SavedTensors,
) -> Result<Arc<dyn Precision>> {
    precision::load(problem, draws, prior, file)
}

/// The batches of the training data, cut as a fit cuts them.
fn training_parts(problem: &Problem, draws: usize) -> Result<TrainingParts> {
    let data = problem.data.as_deref().ok_or(Error::NoTrainingData { what: "the matrix-free solver" })?;
    let mut blocks = Vec::new();
    for block in row_blocks(data.n_rows()) {
        let part = |batch: Result<crate::data::Batch<'_>>| {
            let batch = batch?;
            Ok(Part { map: problem.model.bind(batch.inputs.view())?, targets: batch.targets.to_owned() })
        };
        let batches = data.batches(block, rows_at_once(&*problem.model, 0.0))?;
        blocks.push(Block::Here(batches.map(part).collect::<Result<Vec<Part>>>()?));
    }
    Ok(TrainingParts::new(problem, draws, blocks, Team::alone()))
}

/// The data in batches, from which products are computed; and what is known of their curvature's spectrum.
#[derive(Debug, Clone)]
struct TrainingParts {
    problem: Problem,
    /// S, the draws of a posterior.
    draws: usize,
    blocks: Vec<Block>,
    /// The ranks that have all blocks between them.
    team: Team,
    shared: OnceLock<Arc<Shared>>,
}

impl TrainingParts {
    fn new(problem: &Problem, draws: usize, blocks: Vec<Block>, team: Team) -> Self {
        Self { problem: problem.clone(), draws, blocks, team, shared: OnceLock::new() }
    }

    fn shared(&self) -> &Arc<Shared> {
        self.shared.get_or_init(|| {
            let products = Products::new(&self.problem, self.blocks.clone(), self.team.clone());
            Arc::new(Shared::new(Arc::new(products)))
        })
    }

    fn products(&self) -> &Arc<Products> {
        &self.shared().operator.products
    }
}

impl Curvature for TrainingParts {
    fn accumulate(&mut self, batch: &BatchRows<'_>) -> Result<()> {
        let part = Part { map: batch.map().clone(), targets: batch.targets().to_owned() };
        if let Some(Block::Here(block)) = self.blocks.last_mut() {
            block.push(part);
        }
        self.shared = OnceLock::new();
        Ok(())
    }

    fn merge(&mut self, later: Box<dyn Curvature>) -> Result<()> {
        self.blocks.extend(same_kind::<Self>(later)?.blocks);
        self.shared = OnceLock::new();
        Ok(())
    }

    /// Rows are weighted again for each σ.
    fn n_levels(&self) -> usize {
        self.problem.model.n_outputs()
    }

    fn numbers_per_point(&self) -> f64 {
        0.0
    }

    fn factor(&self, prior: &PriorPrecision, scales: &[f64]) -> Result<Arc<dyn Precision>> {
        if !prior.is_proper() {
            return Err(Error::Unsupported(Unsupported::ImproperMatrixFree));
        }
        self.products().check()?;
        Ok(Arc::new(WithoutMatrix::new(self.shared().clone(), self.draws, prior, scales)))
    }

    fn log_det(&self, form: LogDetForm) -> Result<Box<dyn LogDet>> {
        let shared = self.shared().clone();
        Ok(match form {
            LogDetForm::Shared => Box::new(SharedLogDet(shared)),
            LogDetForm::General { prior } => {
                let groups = self.problem.model.group_sizes();
                Box::new(GeneralLogDet::new(self.products().clone(), prior, groups, &shared))
            }
        })
    }

    fn duplicate(&self) -> Box<dyn Curvature> {
        Box::new(self.clone())
    }

    /// The products need the data.
    fn save(&self) -> Option<Vec<SavedTensor>> {
        None
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Whether one number scales all of A and all rows.
fn is_one_scale(prior: &PriorPrecision, scales: &[f64]) -> Option<f64> {
    let one = prior.structure() == PriorStructure::Scalar && prior.matrix().is_none() && scales.len() == 1;
    one.then(|| prior.values()[0] * scales[0] * scales[0])
}

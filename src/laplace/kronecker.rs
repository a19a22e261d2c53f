//! Kronecker-factored curvature (KFAC): for each weight matrix `[outputs, inputs]` one product B ⊗ Ā, for its bias B, for
//! parameters without matrix form the exact block, and nothing between blocks.
//!
//! B = Σₙ (∂f/∂z)ᵀH(∂f/∂z) is a sum over the data, Ā the mean of hhᵀ without a 1 for the bias. With B = Q_BΛQ_Bᵀ and Ā =
//! Q_AMQ_Aᵀ the precision is (Q_B ⊗ Q_A) diag(λᵢμⱼ/σ² + α) (Q_B ⊗ Q_A)ᵀ: another α or σ changes the diagonal alone. With
//! one σ per output, B = Σₚ Bₚ/σₚ² is decomposed again, and Ā is not.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use faer::{Accum, Mat, MatRef};
use rayon::prelude::*;

use super::kronecker_precision::Kronecker;
use super::problem::{BatchRows, Problem};
use super::structure::{
    Curvature, LogDet, LogDetForm, LogDetRatio, Precision, SavedTensor, SavedTensors, Spectrum, same_kind,
};
use crate::error::{Error, Result, Unsupported, check_size};
use crate::linalg::{
    Cholesky, column_slice, dot, eigenvalues, inverse_lower, mirror_lower, multiply, pack_lower, packed_length,
    symmetric_eigen, threads_are_free, trace_of_product, unpack_lower,
};
use crate::map::{BlockShape, BlockSums, KroneckerFactors};
use crate::prior::PriorPrecision;

/// The number of f64 values held at the peak: the sums of a batch, of a block of rows and of all rows, eigenvectors with
/// the room to compute them, and a few numbers per parameter.
pub(super) fn numbers(problem: &Problem) -> f64 {
    let levels = problem.sigmas().len() as f64;
    let numbers = |shape: BlockShape| (2.0 * levels + 4.0) * shape.sum_numbers() + 4.0 * shape.size() as f64;
    problem.model.blocks().into_iter().map(numbers).sum()
}

/// The eigenvectors, and the variances in their basis.
pub(super) fn loaded_numbers(problem: &Problem) -> f64 {
    problem.model.blocks().into_iter().map(|shape| shape.sum_numbers() + 3.0 * shape.size() as f64).sum()
}

pub(super) fn begin(problem: &Problem) -> Result<Box<dyn Curvature>> {
    let levels = problem.sigmas().len();
    let shapes = problem.model.blocks();
    let sums = vec![shapes.iter().map(|shape| BlockSums::zeros(*shape)).collect(); levels];
    Ok(Box::new(KroneckerSums::new(shapes, problem.model.group_sizes(), sums)))
}

pub(super) fn load_sums(problem: &Problem, file: &mut dyn SavedTensors) -> Result<Box<dyn Curvature>> {
    let shapes = problem.model.blocks();
    let several = file.has(&level_name(0, 1));
    let levels = if several { problem.model.n_outputs() } else { 1 };
    let mut sums = vec![Vec::with_capacity(shapes.len()); levels];
    for (block, shape) in shapes.iter().enumerate() {
        let mut triangle = |name: &str, size: usize| Ok(unpack_lower(&file.take(name, &[packed_length(size)])?, size));
        match *shape {
            BlockShape::Matrix { outputs, inputs, .. } => {
                let inputs = triangle(&format!("{block}.inputs"), inputs)?;
                let sensitivities: Vec<Mat<f64>> =
                    (0..levels).map(|level| triangle(&level_name(block, level), outputs)).collect::<Result<_>>()?;
                let count = file.take(&format!("{block}.count"), &[1])?.first().copied().unwrap_or(f64::NAN);
                for (sums, sensitivities) in sums.iter_mut().zip(sensitivities) {
                    let inputs = inputs.clone();
                    sums.push(BlockSums::Matrix(KroneckerFactors { inputs, sensitivities, count }));
                }
            }
            BlockShape::Dense { size } => {
                for (level, sums) in sums.iter_mut().enumerate() {
                    sums.push(BlockSums::Dense(triangle(&level_name(block, level), size)?));
                }
            }
        }
    }
    Ok(Box::new(KroneckerSums::new(shapes, problem.model.group_sizes(), sums)))
}

pub(super) fn load(
    problem: &Problem,
    prior: &PriorPrecision,
    file: &mut dyn SavedTensors,
) -> Result<Arc<dyn Precision>> {
    Ok(Arc::new(Kronecker::load(&problem.model.blocks(), prior, file)?))
}

fn level_name(block: usize, level: usize) -> String {
    format!("{block}.level.{level}")
}

/// An eigendecomposition whose eigenvalues are not negative.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) values: Vec<f64>,
    /// One eigenvector per column.
    pub(super) vectors: Arc<Mat<f64>>,
}

impl Axis {
    fn of(lower: MatRef<'_, f64>, name: &'static str) -> Result<Self> {
        let eigen = symmetric_eigen(lower, name)?;
        let values = eigen.values.into_iter().map(|value| value.max(0.0)).collect();
        Ok(Self { values, vectors: Arc::new(eigen.vectors) })
    }

    fn scaled(&self, factor: f64) -> Self {
        let values = self.values.iter().map(|value| value * factor).collect();
        Self { values, vectors: self.vectors.clone() }
    }
}

/// The curvature of a block at some σ.
#[derive(Debug, Clone)]
pub(super) enum BlockCurvature {
    /// B and Ā.
    Matrix { outputs: Axis, inputs: Axis, bias: bool },
    /// The lower triangle.
    Dense(Mat<f64>),
}

/// The sums of every block, at σ = 1: once for all outputs, or for each output.
#[derive(Debug, Clone)]
struct KroneckerSums {
    shapes: Vec<BlockShape>,
    /// The sizes of the groups of parameters.
    groups: Vec<usize>,
    /// For each level, one entry per block; every level has the same sums of inputs.
    levels: Vec<Vec<BlockSums>>,
    /// Ā of each matrix, decomposed when first needed.
    inputs: OnceLock<Vec<Option<Axis>>>,
    /// B of each matrix, over all levels at σ = 1.
    outputs: OnceLock<Vec<Option<Axis>>>,
}

impl KroneckerSums {
    fn new(shapes: Vec<BlockShape>, groups: Vec<usize>, levels: Vec<Vec<BlockSums>>) -> Self {
        Self { shapes, groups, levels, inputs: OnceLock::new(), outputs: OnceLock::new() }
    }

    /// Σₚ wₚ Bₚ of a matrix, or of a dense block.
    fn total(&self, block: usize, weights: &[f64]) -> Mat<f64> {
        let sums = self.levels.iter().map(|level| match &level[block] {
            BlockSums::Matrix(factors) => &factors.sensitivities,
            BlockSums::Dense(sum) => sum,
        });
        let mut total: Option<Mat<f64>> = None;
        for (sum, weight) in sums.zip(weights.iter().cycle()) {
            let part = faer::Scale(*weight) * sum;
            total = Some(total.map_or_else(|| part.clone(), |total| total + &part));
        }
        total.unwrap_or_else(Mat::new)
    }

    /// Applies `decompose` to every matrix, once.
    fn cached<'a>(
        &self,
        cell: &'a OnceLock<Vec<Option<Axis>>>,
        decompose: impl Fn(usize) -> Result<Option<Axis>>,
    ) -> Result<&'a [Option<Axis>]> {
        if cell.get().is_none() {
            let axes = (0..self.shapes.len()).map(decompose).collect::<Result<Vec<_>>>()?;
            return Ok(cell.get_or_init(|| axes));
        }
        Ok(cell.get().map_or(&[], Vec::as_slice))
    }

    fn input_axes(&self) -> Result<&[Option<Axis>]> {
        self.cached(&self.inputs, |block| self.input_axis(block))
    }

    fn output_axes(&self) -> Result<&[Option<Axis>]> {
        self.cached(&self.outputs, |block| self.output_axis(block, &[1.0]))
    }

    /// Decomposes all factors, each on a thread of its own, where threads are free and nothing has been decomposed yet.
    fn decompose_all(&self) -> Result<()> {
        if !threads_are_free() || self.inputs.get().is_some() || self.outputs.get().is_some() {
            return Ok(());
        }
        let blocks = self.shapes.len();
        let axis = |index: usize| match index.checked_sub(blocks) {
            None => self.input_axis(index),
            Some(block) => self.output_axis(block, &[1.0]),
        };
        let axes: Vec<Result<Option<Axis>>> = (0..2 * blocks).into_par_iter().map(axis).collect();
        let mut inputs = axes.into_iter().collect::<Result<Vec<_>>>()?;
        let outputs = inputs.split_off(blocks);
        self.inputs.get_or_init(|| inputs);
        self.outputs.get_or_init(|| outputs);
        Ok(())
    }

    fn input_axis(&self, block: usize) -> Result<Option<Axis>> {
        match &self.levels[0][block] {
            BlockSums::Dense(_) => Ok(None),
            BlockSums::Matrix(factors) => {
                let mean = faer::Scale(1.0 / factors.count) * &factors.inputs;
                Axis::of(mean.as_ref(), "the mean of a layer's squared inputs").map(Some)
            }
        }
    }

    fn output_axis(&self, block: usize, weights: &[f64]) -> Result<Option<Axis>> {
        match self.shapes[block] {
            BlockShape::Dense { .. } => Ok(None),
            BlockShape::Matrix { .. } => {
                Axis::of(self.total(block, weights).as_ref(), "the sum of a layer's squared sensitivities").map(Some)
            }
        }
    }

    /// The curvature of every block under the weights 1/σ² (one, or one per level).
    fn curvatures(&self, weights: &[f64]) -> Result<Vec<BlockCurvature>> {
        let common = weights.first().copied().filter(|first| weights.iter().all(|weight| weight == first));
        if common.is_some() {
            self.decompose_all()?;
        }
        let inputs = self.input_axes()?;
        let mut curvatures = Vec::with_capacity(self.shapes.len());
        for (block, shape) in self.shapes.iter().enumerate() {
            let outputs = match common {
                Some(weight) => self.output_axes()?[block].as_ref().map(|axis| axis.scaled(weight)),
                None => self.output_axis(block, weights)?,
            };
            curvatures.push(match (shape, outputs, &inputs[block]) {
                (BlockShape::Matrix { bias, .. }, Some(outputs), Some(inputs)) => {
                    BlockCurvature::Matrix { outputs, inputs: inputs.clone(), bias: *bias }
                }
                _ => BlockCurvature::Dense(self.total(block, weights)),
            });
        }
        Ok(curvatures)
    }
}

/// The group of each part of a block (its weights and its bias, or all of a dense block's parameters one by one): an
/// error where a matrix lies in several.
fn groups_of_blocks(shapes: &[BlockShape], groups: &[usize]) -> Result<Vec<Vec<usize>>> {
    let owners: Vec<usize> =
        groups.iter().enumerate().flat_map(|(group, size)| std::iter::repeat_n(group, *size)).collect();
    check_size("number of parameters in the blocks", shapes.iter().map(|shape| shape.size()).sum(), owners.len())?;
    let (mut start, mut all) = (0, Vec::with_capacity(shapes.len()));
    for shape in shapes {
        let own = &owners[start..start + shape.size()];
        start += shape.size();
        all.push(match *shape {
            BlockShape::Dense { .. } => own.to_vec(),
            BlockShape::Matrix { outputs, inputs, .. } => {
                let (weights, bias) = own.split_at(outputs * inputs);
                let one = |part: &[usize]| part.iter().all(|group| Some(group) == part.first());
                if !one(weights) || !one(bias) {
                    return Err(Error::Unsupported(Unsupported::PriorWithinMatrix));
                }
                weights.first().into_iter().chain(bias.first()).copied().collect()
            }
        });
    }
    Ok(all)
}

/// α of each part of a block: of its weights and its bias, or of each parameter of a dense block.
pub(super) fn precisions_of_blocks(shapes: &[BlockShape], prior: &PriorPrecision) -> Result<Vec<Vec<f64>>> {
    // Neighbours with the same precision are one group.
    let (mut merged, mut alphas): (Vec<usize>, Vec<f64>) = (Vec::new(), Vec::new());
    prior.for_each_group(|range, alpha| match (merged.last_mut(), alphas.last()) {
        (Some(last), Some(previous)) if *previous == alpha => *last += range.len(),
        _ => {
            merged.push(range.len());
            alphas.push(alpha);
        }
    });
    let groups = groups_of_blocks(shapes, &merged)?;
    Ok(groups.into_iter().map(|block| block.into_iter().map(|group| alphas[group]).collect()).collect())
}

impl Curvature for KroneckerSums {
    fn accumulate(&mut self, batch: &BatchRows<'_>) -> Result<()> {
        let (levels, weights) = (self.levels.len(), batch.weights());
        for (sums, rows) in self.levels.iter_mut().zip(batch.rows_of_levels(levels)) {
            let blocks = rows?.kronecker(&weights);
            check_size("number of blocks of parameters", sums.len(), blocks.len())?;
            sums.iter_mut().zip(&blocks).for_each(|(sum, block)| sum.add(block));
        }
        Ok(())
    }

    fn merge(&mut self, later: Box<dyn Curvature>) -> Result<()> {
        let later = same_kind::<Self>(later)?;
        for (sums, others) in self.levels.iter_mut().zip(&later.levels) {
            sums.iter_mut().zip(others).for_each(|(sum, other)| sum.add(other));
        }
        (self.inputs, self.outputs) = (OnceLock::new(), OnceLock::new());
        Ok(())
    }

    fn n_levels(&self) -> usize {
        self.levels.len()
    }

    /// Dense rows of the blocks that are not matrices.
    fn numbers_per_point(&self) -> f64 {
        let dense = |shape: &BlockShape| match shape {
            BlockShape::Matrix { .. } => 0.0,
            BlockShape::Dense { size } => *size as f64,
        };
        self.shapes.iter().map(dense).fold(0.0, f64::max)
    }

    fn factor(&self, prior: &PriorPrecision, sigma: &[f64]) -> Result<Arc<dyn Precision>> {
        let weights: Vec<f64> = sigma.iter().map(|sigma| 1.0 / (sigma * sigma)).collect();
        let alphas = precisions_of_blocks(&self.shapes, prior)?;
        Ok(Arc::new(Kronecker::new(self.curvatures(&weights)?, &alphas, prior)?))
    }

    fn log_det(&self, form: LogDetForm) -> Result<Box<dyn LogDet>> {
        match form {
            LogDetForm::Shared => {
                let mut spectrum = Vec::new();
                for curvature in self.curvatures(&[1.0])? {
                    match curvature {
                        BlockCurvature::Dense(sum) => spectrum.extend(eigenvalues(sum.as_ref(), "the curvature")?),
                        BlockCurvature::Matrix { outputs, inputs, bias } => {
                            for lambda in &outputs.values {
                                spectrum.extend(inputs.values.iter().map(|mu| lambda * mu));
                            }
                            spectrum.extend(outputs.values.iter().filter(|_| bias));
                        }
                    }
                }
                Ok(Box::new(Spectrum::new(spectrum)))
            }
            LogDetForm::General { prior } => {
                let groups = prior.shares(&self.groups);
                let places = groups_of_blocks(&self.shapes, &groups)?;
                self.curvatures(&[1.0])?;
                Ok(Box::new(KroneckerLogDet { sums: Self { groups, ..self.clone() }, places }))
            }
        }
    }

    fn duplicate(&self) -> Box<dyn Curvature> {
        Box::new(self.clone())
    }

    fn save(&self) -> Option<Vec<SavedTensor>> {
        let triangle = |name: String, matrix: &Mat<f64>| {
            let values = pack_lower(matrix.as_ref());
            SavedTensor { name, shape: vec![values.len()], values }
        };
        let mut saved = Vec::new();
        for (level, sums) in self.levels.iter().enumerate() {
            for (block, sums) in sums.iter().enumerate() {
                match sums {
                    BlockSums::Dense(sum) => saved.push(triangle(level_name(block, level), sum)),
                    BlockSums::Matrix(factors) => {
                        saved.push(triangle(level_name(block, level), &factors.sensitivities));
                        if level == 0 {
                            saved.push(triangle(format!("{block}.inputs"), &factors.inputs));
                            let name = format!("{block}.count");
                            saved.push(SavedTensor { name, shape: vec![1], values: vec![factors.count] });
                        }
                    }
                }
            }
        }
        Some(saved)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The log determinant for several α or several σ.
#[derive(Debug)]
struct KroneckerLogDet {
    sums: KroneckerSums,
    /// The group of each part of each block.
    places: Vec<Vec<usize>>,
}

impl LogDet for KroneckerLogDet {
    /// For a matrix Σᵢⱼ log(1 + λᵢμⱼ/α) and for its bias Σᵢ log(1 + λᵢ/α). By log α: −Σ λμ/(λμ + α); by log σₚ: −2
    /// Σᵢ gᵢ uᵢᵀBₚuᵢ/σₚ² with gᵢ = Σⱼ μⱼ/(λᵢμⱼ + α) and uᵢ the eigenvectors of B, which may be equal or not.
    fn evaluate(&self, log_alpha: &[f64], log_sigma: &[f64]) -> Option<LogDetRatio> {
        let alpha: Vec<f64> = log_alpha.iter().map(|value| value.exp()).collect();
        let weights: Vec<f64> = match log_sigma {
            [] => vec![1.0],
            _ => log_sigma.iter().map(|value| (-2.0 * value).exp()).collect(),
        };
        let mut ratio =
            LogDetRatio { value: 0.0, by_log_alpha: vec![0.0; alpha.len()], by_log_sigma: vec![0.0; log_sigma.len()] };
        for (block, curvature) in self.sums.curvatures(&weights).ok()?.into_iter().enumerate() {
            let places = &self.places[block];
            match curvature {
                BlockCurvature::Matrix { outputs, inputs, .. } => {
                    let mut slopes = vec![0.0; outputs.values.len()];
                    let mut add = |place: usize, i: usize, factor: f64| {
                        let (x, alpha) = (outputs.values[i] * factor, alpha[place]);
                        ratio.value += (x / alpha).ln_1p();
                        ratio.by_log_alpha[place] -= x / (x + alpha);
                        slopes[i] += factor / (x + alpha);
                    };
                    for i in 0..outputs.values.len() {
                        inputs.values.iter().for_each(|mu| add(places[0], i, *mu));
                        places.iter().skip(1).for_each(|place| add(*place, i, 1.0));
                    }
                    self.add_by_sigma(block, &outputs, &slopes, &weights, &mut ratio.by_log_sigma);
                }
                BlockCurvature::Dense(sum) => {
                    let mut cholesky = Cholesky::new(sum.nrows());
                    let mut matrix = cholesky.matrix_mut();
                    matrix.copy_from(&sum);
                    for (d, place) in places.iter().enumerate() {
                        matrix[(d, d)] += alpha[*place];
                    }
                    cholesky.factor().ok()?;
                    ratio.value += cholesky.log_det() - places.iter().map(|place| log_alpha[*place]).sum::<f64>();
                    let inverse = inverse_lower(&cholesky);
                    for (d, place) in places.iter().enumerate() {
                        ratio.by_log_alpha[*place] += alpha[*place] * inverse[(d, d)] - 1.0;
                    }
                    for (level, slot) in ratio.by_log_sigma.iter_mut().enumerate() {
                        let part = self.level_total(block, level, log_sigma.len());
                        *slot -= 2.0 * weights[level] * trace_of_product(&inverse, &part);
                    }
                }
            }
        }
        ratio.value.is_finite().then_some(ratio)
    }
}

impl KroneckerLogDet {
    /// What one σ multiplies: all levels together, or one of them.
    fn level_total(&self, block: usize, level: usize, n_sigma: usize) -> Mat<f64> {
        let levels = self.sums.levels.len();
        let weights: Vec<f64> =
            (0..levels).map(|other| if n_sigma == 1 || other == level { 1.0 } else { 0.0 }).collect();
        self.sums.total(block, &weights)
    }

    fn add_by_sigma(&self, block: usize, axis: &Axis, slopes: &[f64], weights: &[f64], by_log_sigma: &mut [f64]) {
        if let [slot] = by_log_sigma {
            // All of B: uᵢᵀBuᵢ/σ² is λᵢ.
            *slot -= 2.0 * dot(&axis.values, slopes);
            return;
        }
        for (level, slot) in by_log_sigma.iter_mut().enumerate() {
            let mut part = self.level_total(block, level, weights.len());
            mirror_lower(&mut part);
            let mut products = Mat::zeros(part.nrows(), part.ncols());
            multiply(products.as_mut(), Accum::Replace, part.as_ref(), axis.vectors.as_ref().as_ref());
            for (i, slope) in slopes.iter().enumerate() {
                let square = dot(column_slice(axis.vectors.col(i)), column_slice(products.col(i)));
                *slot -= 2.0 * weights[level] * slope * square;
            }
        }
    }
}

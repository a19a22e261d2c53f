//! The deviance 2 Σₙ [max log p(yₙ | ·) − log p(yₙ | fₙ)] of outputs, and that of the best constant: what share of it a model
//! explains.

use ndarray::Array2;

use crate::likelihood::{Family, RowLikelihood, TargetSummary};

/// Deviances on the same rows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Deviances {
    /// Of the model.
    pub model: f64,
    /// Of the best constant outputs of the data that it was trained on.
    pub constant: f64,
}

impl Deviances {
    /// 1 − Δ/Δ₀: 0 for a constant, 1 for a perfect fit, negative for what is worse than a constant. For a Gaussian R².
    pub fn explained(&self) -> f64 {
        1.0 - self.model / self.constant.max(f64::MIN_POSITIVE)
    }

    /// Of outputs for targets; the constant is that of `training` targets.
    pub fn of(family: &Family, outputs: &Array2<f64>, targets: &Array2<f64>, training: &Array2<f64>) -> Self {
        let constant = TargetSums::of(family, training, outputs.ncols()).constant(family, outputs.ncols());
        let mut sums = Self::default();
        for (output, target) in outputs.rows().into_iter().zip(targets.rows()) {
            let row = target.to_vec();
            let RowLikelihood { likelihood, target, .. } = family.of_row(&row, output.len());
            sums.model += likelihood.deviance(target, &output.to_vec());
            sums.constant += likelihood.deviance(target, &constant);
        }
        sums
    }
}

impl std::ops::AddAssign for Deviances {
    fn add_assign(&mut self, other: Self) {
        self.model += other.model;
        self.constant += other.constant;
    }
}

/// Sums over targets, from which the outputs follow that are the same at all points and have the greatest likelihood.
pub(super) struct TargetSums {
    /// The number of rows, each as often as its weight says, and of its trials, where it has several.
    pub n: f64,
    /// The mean of each target.
    pub means: Vec<f64>,
    /// How many targets are of each class.
    pub counts: Vec<f64>,
}

impl TargetSums {
    /// Of targets in memory.
    fn of(family: &Family, targets: &Array2<f64>, n_outputs: usize) -> Self {
        let mut sums = Self::none(family, n_outputs);
        targets.rows().into_iter().for_each(|row| Self::add(&mut sums, family, &row.to_vec(), n_outputs));
        Self::from_numbers(family, &sums, n_outputs)
    }

    /// The sums over no rows: the number, each target, each class.
    pub fn none(family: &Family, n_outputs: usize) -> Vec<f64> {
        vec![0.0; 1 + family.likelihood().n_targets(n_outputs) + family.likelihood().n_means(n_outputs)]
    }

    /// Adds a row.
    pub fn add(sums: &mut [f64], family: &Family, row: &[f64], n_outputs: usize) {
        let RowLikelihood { unweighted, target, weight, .. } = family.of_row(row, n_outputs);
        let class = target.first().map_or(0, |label| *label as usize);
        let values = std::iter::once(unweighted.trials()).chain(target.iter().copied());
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
        if let Some(count) = sums.get_mut((1 + target.len()).saturating_add(class)) {
            *count += weight;
        }
    }

    /// From such sums.
    pub fn from_numbers(family: &Family, sums: &[f64], n_outputs: usize) -> Self {
        let (targets, counts) = sums.split_at(sums.len().min(1 + family.likelihood().n_targets(n_outputs)));
        let n = targets.first().copied().unwrap_or(0.0);
        Self { n, means: targets.iter().skip(1).map(|sum| sum / n).collect(), counts: counts.to_vec() }
    }

    /// These outputs.
    pub fn constant(&self, family: &Family, n_outputs: usize) -> Vec<f64> {
        let sums = TargetSummary { n: self.n, means: &self.means, counts: &self.counts };
        (0..n_outputs).map(|output| family.likelihood().constant_output(&sums, output)).collect()
    }
}

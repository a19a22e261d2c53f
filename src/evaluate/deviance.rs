//! The deviance 2 Σₙ [max log p(yₙ | ·) − log p(yₙ | fₙ)] of outputs, and that of the best constant: what share of it a model
//! explains.

use ndarray::Array2;

use crate::likelihood::{Family, TargetSummary};

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
        let constant = ConstantOutputs::of(family, training, outputs.ncols());
        let mut sums = Self::default();
        for (output, target) in outputs.rows().into_iter().zip(targets.rows()) {
            let target = target.to_vec();
            sums.model += family.likelihood().deviance(&target, &output.to_vec());
            sums.constant += family.likelihood().deviance(&target, &constant.0);
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

/// The outputs with the greatest likelihood among those that are the same at all points.
pub(super) struct ConstantOutputs(pub Vec<f64>);

impl ConstantOutputs {
    fn of(family: &Family, targets: &Array2<f64>, n_outputs: usize) -> Self {
        let n = targets.nrows() as f64;
        let means: Vec<f64> = targets.columns().into_iter().map(|column| column.sum() / n).collect();
        let mut counts = vec![0.0; family.likelihood().n_means(n_outputs)];
        for row in targets.rows() {
            if let Some(count) = row.first().and_then(|label| counts.get_mut(*label as usize)) {
                *count += 1.0;
            }
        }
        Self::from_sums(family, n, (&means, &counts), n_outputs)
    }

    /// From the number of rows, the mean of each target and the rows of each class.
    pub fn from_sums(family: &Family, n: f64, (means, counts): (&[f64], &[f64]), n_outputs: usize) -> Self {
        let sums = TargetSummary { n, means, counts };
        Self((0..n_outputs).map(|output| family.likelihood().constant_output(&sums, output)).collect())
    }
}

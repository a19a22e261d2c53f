//! The moments of a predictive distribution from draws of the raw outputs.

use ndarray::{Array1, Array2};

use super::Moments;
use super::links::is_binary;
use crate::likelihood::{Family, likelihood_of};

/// Running moments of E(y | f) (Welford's recurrences), Var(y | f) and the entropy over draws of f.
pub(super) struct Summary<'a> {
    family: &'a Family,
    counts: Vec<usize>,
    mean: Array2<f64>,
    /// Σ (E(y | f) − mean)².
    scatter: Array2<f64>,
    variance: Array2<f64>,
    entropy: Array1<f64>,
    buffer: Vec<f64>,
}

impl<'a> Summary<'a> {
    /// No draws yet, of this many raw outputs at each of the points.
    pub fn new(family: &'a Family, points: usize, outputs: usize) -> Self {
        let width = family.likelihood().n_means(outputs);
        let zeros = Array2::zeros((points, width));
        Self {
            family,
            counts: vec![0; points],
            mean: zeros.clone(),
            scatter: zeros.clone(),
            variance: zeros,
            entropy: Array1::zeros(points),
            buffer: vec![0.0; width],
        }
    }

    /// Adds one draw of the outputs at a point.
    pub fn add(&mut self, point: usize, outputs: &[f64]) {
        self.counts[point] += 1;
        let share = 1.0 / self.counts[point] as f64;
        let likelihood = likelihood_of(self.family.likelihood(), point);
        likelihood.variance(outputs, &mut self.buffer);
        for (k, value) in self.buffer.iter().enumerate() {
            self.variance[(point, k)] += share * (value - self.variance[(point, k)]);
        }
        likelihood.mean(outputs, &mut self.buffer);
        for (k, value) in self.buffer.iter().enumerate() {
            let shift = value - self.mean[(point, k)];
            self.mean[(point, k)] += share * shift;
            self.scatter[(point, k)] += shift * (value - self.mean[(point, k)]);
        }
        self.entropy[point] += share * (class_entropy(self.family, &self.buffer) - self.entropy[point]);
    }

    /// The summary of all draws.
    pub fn finish(mut self) -> Moments {
        for (mut row, count) in self.scatter.rows_mut().into_iter().zip(&self.counts) {
            row.iter_mut().for_each(|value| *value /= (*count).max(1) as f64);
        }
        let mut prediction = Moments::from_parts(self.mean, self.scatter, self.variance);
        if self.family.has_classes() {
            let rows = prediction.mean.rows();
            let of_mean: Array1<f64> = rows.into_iter().map(|row| class_entropy(self.family, &row.to_vec())).collect();
            prediction.mutual_information = Some((&of_mean - &self.entropy).mapv(|value| value.max(0.0)));
            prediction.entropy = Some(of_mean);
        }
        prediction
    }
}

/// −Σ p log p.
fn entropy(probabilities: &[f64]) -> f64 {
    probabilities.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum()
}

/// The entropy of a row of class probabilities (of yes/no answers: of each, summed).
pub(super) fn class_entropy(family: &Family, row: &[f64]) -> f64 {
    match is_binary(family) {
        true => row.iter().map(|p| entropy(&[*p, 1.0 - p])).sum(),
        false => entropy(row),
    }
}

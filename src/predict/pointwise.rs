//! Each sample of a predictive distribution by itself: its log likelihoods, and distribution functions of its weighted
//! mixtures. What importance weights are applied to.

use ndarray::{Array1, Array2, Array3, ArrayView2, Axis};

use super::{LatentGaussian, MonteCarlo, SampledPredictive};
use crate::data::check_targets;
use crate::error::{Result, check_size};
use crate::likelihood::{Family, likelihood_of};
use crate::memory;

impl SampledPredictive {
    /// log p(yₜ | f(xₜ, θ_s)): samples × points.
    pub fn log_likelihoods(&self, targets: &Array2<f64>) -> Result<Array2<f64>> {
        let (samples, points, p) = self.outputs().dim();
        check_targets(targets, self.family(), points, p)?;
        let family = self.family().at_rows(targets.view(), p);
        let targets = self.family().observed(targets.view(), p);
        let rows: Vec<Vec<f64>> = targets.rows().into_iter().map(|row| row.to_vec()).collect();
        let mut logs = Array2::zeros((samples, points));
        for (s, sample) in self.outputs().outer_iter().enumerate() {
            for (t, output) in sample.rows().into_iter().enumerate() {
                logs[(s, t)] = likelihood_of(family.likelihood(), t).log_density(&rows[t], &output.to_vec());
            }
        }
        Ok(logs)
    }

    /// Σ_s w_st P(y < yₜ | θ_s), one column per target: the probability integral transform under weights that differ from
    /// point to point (samples × points). Half of a count's own probability counts as below it. Classes have none.
    pub fn weighted_ranks(&self, targets: &Array2<f64>, weights: ArrayView2<'_, f64>) -> Result<Option<Array2<f64>>> {
        let (samples, points, p) = self.outputs().dim();
        check_targets(targets, self.family(), points, p)?;
        check_size("number of weights per point", samples, weights.nrows())?;
        check_size("number of weighted points", points, weights.ncols())?;
        if self.family().has_classes() {
            return Ok(None);
        }
        let family = self.family().at_rows(targets.view(), p);
        let targets = self.family().observed(targets.view(), p);
        let width = targets.ncols();
        let mut ranks = Array2::zeros(targets.dim());
        for (s, sample) in self.outputs().outer_iter().enumerate() {
            for (t, output) in sample.rows().into_iter().enumerate() {
                let output = output.to_vec();
                for k in 0..width {
                    ranks[(t, k)] +=
                        weights[(s, t)] * likelihood_of(family.likelihood(), t).rank(&output, k, targets[(t, k)]);
                }
            }
        }
        Ok(Some(ranks))
    }
}

impl LatentGaussian {
    /// Draws of the outputs at each point by itself (independent from point to point), as a predictive distribution.
    pub fn sampled(&self, family: &Family, draws: MonteCarlo) -> Result<SampledPredictive> {
        self.check_shape()?;
        let (points, p) = self.mean.dim();
        let numbers = draws.samples as f64 * (points * p) as f64;
        memory::check("the draws of the outputs", numbers, "draw fewer, or predict fewer points at a time")?;
        let mut outputs = Array3::zeros((draws.samples, points, p));
        let mut next = vec![0; points];
        self.for_each_draw(draws, |t, f| {
            outputs.index_axis_mut(Axis(0), next[t]).row_mut(t).assign(&Array1::from(f.to_vec()));
            next[t] += 1;
        })?;
        Ok(SampledPredictive::of_outputs(family, outputs))
    }
}

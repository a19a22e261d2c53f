//! Draws of whole functions: of E(y | θ) at the test points, without the noise of observations; and the joint Gaussian
//! over the outputs in the units of the data.

use ndarray::{Array1, Array2, Array3};

use super::ensemble::draws_of_parts;
use super::prediction::{Prediction, Predictive};
use super::{JointGaussian, MonteCarlo, linearized_joint};
use crate::error::Result;
use crate::laplace::Laplace;
use crate::likelihood::likelihood_of;
use crate::memory;

impl Prediction {
    /// Draws of E(y | θ), for classes of their probabilities: draws × points × targets (or classes). Draw i of sampled
    /// predictions is network i mod S; linearised draws are independent from point to point.
    pub fn mean_draws(&self, count: usize, seed: u64) -> Result<Array3<f64>> {
        if let Predictive::Mixture(parts) = self.predictive() {
            return draws_of_parts(parts, count, seed, Prediction::mean_draws);
        }
        let (points, width) = self.mean.dim();
        memory::check("the draws", count as f64 * (points * width) as f64, "ask for fewer draws or points at a time")?;
        let mut draws = Array3::zeros((count, points, width));
        if count == 0 {
            return Ok(draws);
        }
        let likelihood = self.family().likelihood();
        let mut mean = vec![0.0; width];
        let mut write = |draws: &mut Array3<f64>, i: usize, t: usize, f: &[f64]| {
            likelihood_of(likelihood, t).mean(f, &mut mean);
            mean.iter().enumerate().for_each(|(k, value)| draws[(i, t, k)] = *value);
        };
        match self.predictive() {
            Predictive::Linearized { latent, .. } => {
                let mut next = vec![0; points];
                latent.for_each_draw(MonteCarlo { samples: count, seed }, |t, f| {
                    write(&mut draws, next[t], t, f);
                    next[t] += 1;
                })?;
            }
            Predictive::Network { outputs } => {
                for (t, f) in outputs.rows().into_iter().enumerate() {
                    (0..count).for_each(|i| write(&mut draws, i, t, &f.to_vec()));
                }
            }
            Predictive::Sampled(sampled) => {
                let outputs = sampled.outputs();
                for i in 0..count {
                    let network = outputs.index_axis(ndarray::Axis(0), i % outputs.dim().0);
                    network.rows().into_iter().enumerate().for_each(|(t, f)| write(&mut draws, i, t, &f.to_vec()));
                }
            }
            Predictive::Mixture(_) => {} // drawn above
        }
        self.restore(draws)
    }
}

impl Laplace {
    /// The linearised predictive over the raw outputs at all inputs jointly, inputs and outputs in the units of the data:
    /// N(f(x, θ̂), J G⁻¹ Jᵀ), without observation noise. Output p at point t is at `t·P + p`.
    pub fn predict_joint(&self, inputs: &Array2<f64>) -> Result<JointGaussian> {
        let schema = self.schema();
        let JointGaussian { mean, covariance } = linearized_joint(self, &schema.scale_inputs(inputs.view())?)?;
        if schema.scaling().is_none_or(|scaling| scaling.targets.is_none()) {
            return Ok(JointGaussian { mean, covariance });
        }
        // Outputs beyond the targets are log variances, to which a scaling adds 2 log scale.
        let p = self.model().n_outputs();
        let n_targets = self.family().likelihood().n_targets(p);
        let scales = schema.restore_deviations(&vec![1.0; n_targets]);
        let means = Array2::from_shape_fn((inputs.nrows(), n_targets), |(t, k)| mean[t * p + k]);
        let means = schema.restore_mean(means.view())?;
        let factor = |place: usize| if place % p < n_targets { scales[place % p] } else { 1.0 };
        let mean = Array1::from_shape_fn(mean.len(), |place| match (place % p).checked_sub(n_targets) {
            None => means[(place / p, place % p)],
            Some(target) => mean[place] + 2.0 * scales[target].ln(),
        });
        let covariance = Array2::from_shape_fn(covariance.dim(), |(i, j)| factor(i) * covariance[(i, j)] * factor(j));
        Ok(JointGaussian { mean, covariance })
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Axis, array};

    use super::*;
    use crate::data::{Dataset, Standardize};
    use crate::laplace::FitOptions;
    use crate::likelihood::Family;
    use crate::network::{Activation, Architecture, Network};
    use crate::predict::{Draws, Link, Method, predict};

    fn posterior(family: Family, standardized: bool) -> Result<Laplace> {
        let network = Network::random(Architecture::new(&[1, 3, 2], Activation::Tanh)?, 1);
        let inputs = Array2::from_shape_fn((20, 1), |(n, _)| 0.3 * n as f64);
        let targets = Array2::from_shape_fn((20, 2), |(n, k)| (0.2 * n as f64 + k as f64).sin() + 3.0);
        let data = match family.has_classes() {
            true => Dataset::new(inputs, targets.select(Axis(1), &[0]).mapv(|y| f64::from(y > 3.0)))?,
            false => Dataset::new(inputs, targets)?,
        };
        let data = if standardized { data.standardized(Standardize::InputsAndTargets)? } else { data };
        Laplace::fit(network, data, family, &FitOptions::default())
    }

    /// The blocks of the joint covariance are the covariances of single points, in the units of the data.
    #[test]
    fn joint_predictions_have_the_marginals_of_single_ones() -> Result<()> {
        let inputs = array![[0.5], [2.0], [9.0]];
        for standardized in [false, true] {
            let laplace = posterior(Family::gaussian(0.3)?, standardized)?;
            let joint = laplace.predict_joint(&inputs)?;
            let Some(single) = laplace.predict(&inputs, &Method::default())?.latent()? else { panic!("linearised") };
            for t in 0..3 {
                for k in 0..2 {
                    assert!((joint.mean[2 * t + k] - single.mean[(t, k)]).abs() < 1e-12);
                    for l in 0..2 {
                        let (found, expected) =
                            (joint.covariance[(2 * t + k, 2 * t + l)], single.covariance[(t, k, l)]);
                        assert!((found - expected).abs() < 1e-12 * (1.0 + expected.abs()), "{found} {expected}");
                    }
                }
            }
        }
        Ok(())
    }

    /// Draws of sampled networks are those networks' outputs; the mean of many linearised draws is the prediction's.
    #[test]
    fn draws_of_the_mean_are_the_functions_behind_a_prediction() -> Result<()> {
        let inputs = array![[0.5], [9.0]];
        let laplace = posterior(Family::gaussian(0.3)?, true)?;
        let sampled = predict(&laplace, &inputs, &Method::Nn(Draws::first(7, 2)), &())?;
        let draws = sampled.mean_draws(7, 0)?;
        let mean = draws.mean_axis(Axis(0)).unwrap_or_default();
        assert!(mean.iter().zip(&sampled.mean).all(|(a, b)| (a - b).abs() < 1e-12), "{mean} {}", sampled.mean);

        let classes = posterior("categorical".parse()?, false)?;
        let count = 4000;
        let linked =
            predict(&classes, &inputs, &Method::Glm(Link::MonteCarlo(MonteCarlo { samples: count, seed: 5 })), &())?;
        let mean = linked.mean_draws(count, 5)?.mean_axis(Axis(0)).unwrap_or_default();
        // The same draws as the link's.
        assert!(mean.iter().zip(&linked.mean).all(|(a, b)| (a - b).abs() < 1e-12), "{mean} {}", linked.mean);
        Ok(())
    }
}

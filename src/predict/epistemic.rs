//! The uncertainty of a prediction that more data would remove, one number per point: the mutual information between class
//! and weights (or the variance of E(y | θ)), and the spread of the logits.

use ndarray::{Array1, Array2, Array3, ArrayView1, Axis};

use super::MixturePart;
use super::links::is_binary;
use super::prediction::{Prediction, Predictive};
use super::{LatentGaussian, MonteCarlo};
use crate::error::Result;
use crate::likelihood::Family;

/// Draws of the logits for the mutual information of a link that draws none.
const DRAWS: MonteCarlo = MonteCarlo { samples: 256, seed: 0 };

impl Prediction {
    /// One number per point that grows with what the posterior does not know of it: for classes the mutual information
    /// I(y; θ) = H(E p) − E H(p) between class and weights, otherwise Var E(y | θ), summed over the targets. None of the
    /// trained model alone.
    ///
    /// The uncertainty that is left when the weights are known is no part of it: a point between two classes whose
    /// probabilities are certain has none. The mutual information of a linearised prediction is from draws of its logits: those of
    /// its link, or 256.
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::internals::likelihood::Categorical;
    /// use riemannian_laplace::prelude::*;
    ///
    /// let network = Network::random(Architecture::new(&[1, 3, 2], Activation::Tanh)?, 1);
    /// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[0.0], [1.0], [1.0]])?;
    /// let laplace = Laplace::fit(network, data, Family::new(Categorical), &FitOptions::default())?;
    /// let inputs = array![[0.5], [30.0]];
    /// let prediction = laplace.predict(&inputs, &Method::default())?;
    /// let epistemic = prediction.epistemic_uncertainty()?.expect("a posterior");
    /// assert!(epistemic[1] > epistemic[0] && epistemic[0] > 0.0);
    /// assert!(laplace.predict(&inputs, &Method::Map)?.epistemic_uncertainty()?.is_none());
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn epistemic_uncertainty(&self) -> Result<Option<Array1<f64>>> {
        if let Predictive::Network { .. } = self.predictive() {
            return Ok(None);
        }
        if !self.family().has_classes() {
            return Ok(Some(self.epistemic_variance.sum_axis(Axis(1))));
        }
        match (&self.mutual_information, self.predictive()) {
            (None, Predictive::Linearized { latent, .. }) => {
                Ok(latent.monte_carlo(self.family(), DRAWS)?.mutual_information)
            }
            (None, Predictive::Mixture(parts)) => self.information_of_parts(parts).map(Some),
            (known, _) => Ok(known.clone()),
        }
    }

    /// The variance of the logits at each point, summed over the classes and without what all classes share: tr PCP with
    /// their covariance C and P = I − 11ᵀ/K. (Adding a number to all logits changes no probability. The logits of a 0/1
    /// output are (−f/2, f/2).) None of the trained model alone, and none where there are no classes.
    ///
    /// The mutual information is small wherever the probabilities are near 0 and 1, however uncertain the logits; this is
    /// not.
    pub fn logit_variance(&self) -> Option<Array1<f64>> {
        if !self.family().likelihood().has_logits() {
            return None;
        }
        match self.predictive() {
            Predictive::Network { .. } => None,
            Predictive::Linearized { latent, .. } => Some(latent.logit_variance(self.family())),
            Predictive::Sampled(sampled) => Some(sampled_logit_variance(self.family(), sampled.outputs())),
            Predictive::Mixture(parts) => Some(self.logit_variance_of_parts(parts)),
        }
    }

    /// H(Σₖ wₖ pₖ) − Σₖ wₖ E H(p | θ, k) of a mixture.
    fn information_of_parts(&self, parts: &[MixturePart]) -> Result<Array1<f64>> {
        let mut left = self.uncertainty();
        for part in parts {
            let known = part.prediction.epistemic_uncertainty()?.unwrap_or_else(|| Array1::zeros(left.len()));
            left = left - part.weight * (part.prediction.uncertainty() - known);
        }
        Ok(left.mapv(|value| value.max(0.0)))
    }

    /// The variance within the parts of a mixture and that between them.
    fn logit_variance_of_parts(&self, parts: &[MixturePart]) -> Array1<f64> {
        let means: Vec<Array2<f64>> = parts.iter().map(|part| part.prediction.mean_outputs()).collect();
        let centre = self.mean_outputs();
        let mut variance = Array1::zeros(centre.nrows());
        for (part, mean) in parts.iter().zip(&means) {
            if let Some(within) = part.prediction.logit_variance() {
                variance = variance + part.weight * within;
            }
            let shifts = mean - &centre;
            let squares = shifts.rows().into_iter().map(|shift| squared_logits(self.family(), shift));
            variance = variance + part.weight * squares.collect::<Array1<f64>>();
        }
        variance
    }

    /// The mean of the raw outputs.
    fn mean_outputs(&self) -> Array2<f64> {
        match self.predictive() {
            Predictive::Network { outputs } => outputs.clone(),
            Predictive::Linearized { latent, .. } => latent.mean.clone(),
            Predictive::Sampled(sampled) => {
                sampled.outputs().sum_axis(Axis(0)) / sampled.outputs().dim().0.max(1) as f64
            }
            Predictive::Mixture(parts) => {
                let shape = (self.mean.nrows(), self.n_outputs());
                let terms = parts.iter().map(|part| part.weight * part.prediction.mean_outputs());
                terms.fold(Array2::<f64>::zeros(shape), |sum, term| sum + term)
            }
        }
    }
}

/// ‖P shift‖² of a shift of the logits.
fn squared_logits(family: &Family, shift: ArrayView1<'_, f64>) -> f64 {
    let square = shift.dot(&shift);
    match is_binary(family) {
        true => 0.5 * square,
        false => square - shift.sum().powi(2) / shift.len() as f64,
    }
}

impl LatentGaussian {
    fn logit_variance(&self, family: &Family) -> Array1<f64> {
        let classes = self.mean.ncols() as f64;
        let of_point = |covariance: ndarray::ArrayView2<'_, f64>| {
            let trace = covariance.diag().sum();
            match is_binary(family) {
                true => 0.5 * trace,
                false => (trace - covariance.sum() / classes).max(0.0),
            }
        };
        self.covariance.outer_iter().map(of_point).collect()
    }
}

/// The same of draws of the logits (samples × points × outputs), by their squared distances from their mean.
fn sampled_logit_variance(family: &Family, outputs: &Array3<f64>) -> Array1<f64> {
    let (samples, points, _) = outputs.dim();
    let mut squares = Array1::zeros(points);
    let mean: Array2<f64> = outputs.sum_axis(Axis(0)) / samples.max(1) as f64;
    for sample in outputs.outer_iter() {
        for (t, (output, mean)) in sample.rows().into_iter().zip(mean.rows()).enumerate() {
            squares[t] += squared_logits(family, (&output - &mean).view());
        }
    }
    squares.mapv(|square: f64| (square / samples.max(1) as f64).max(0.0))
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;
    use crate::data::Schema;
    use crate::likelihood::{Bernoulli, Categorical};
    use crate::predict::Link;
    use crate::predict::SampledPredictive;

    fn latent() -> LatentGaussian {
        let covariance = array![
            [[2.0, 0.3, -0.1], [0.3, 1.0, 0.2], [-0.1, 0.2, 0.5]],
            // What all logits share alone.
            [[4.0, 4.0, 4.0], [4.0, 4.0, 4.0], [4.0, 4.0, 4.0]],
            // As the first, at logits that saturate.
            [[2.0, 0.3, -0.1], [0.3, 1.0, 0.2], [-0.1, 0.2, 0.5]]
        ];
        LatentGaussian { mean: array![[0.5, 0.0, -0.3], [0.5, 0.0, -0.3], [60.0, 0.0, 0.0]], covariance }
    }

    fn prediction(family: Family, latent: LatentGaussian, link: Link) -> Result<Prediction> {
        let schema = Schema::unnamed(1, 1);
        Prediction::new(family, Predictive::Linearized { latent, link }, None, &schema)
    }

    #[test]
    fn logit_variances_are_those_of_centred_logits_and_draws_of_the_logits_have_them_too() -> Result<()> {
        let (family, latent) = (Family::new(Categorical), latent());
        let found = prediction(family.clone(), latent.clone(), Link::Probit)?.logit_variance().expect("classes");
        // tr PCP, by its definition.
        let centre = Array2::from_shape_fn((3, 3), |(i, j)| f64::from(i == j) - 1.0 / 3.0);
        for (t, covariance) in latent.covariance.outer_iter().enumerate() {
            let expected = centre.dot(&covariance).dot(&centre).diag().sum();
            assert!((found[t] - expected).abs() < 1e-14, "{t}: {} for {expected}", found[t]);
        }
        assert_eq!((found[0], found[1] < 1e-14), (found[2], true));
        let draws = latent.sampled(&family, MonteCarlo { samples: 40_000, seed: 1 })?;
        let sampled = Prediction::new(family, Predictive::Sampled(draws), None, &Schema::unnamed(1, 1))?;
        let sampled = sampled.logit_variance().expect("classes");
        // Two degrees of freedom at least: a relative standard error of √(2/2/40,000) = 0.5 %, and four of them.
        assert!((sampled[0] / found[0] - 1.0).abs() < 0.02 && sampled[1] < 1e-12);
        Ok(())
    }

    #[test]
    fn a_binary_output_is_as_uncertain_as_two_classes_that_say_the_same() -> Result<()> {
        let one = LatentGaussian { mean: array![[0.4], [-2.0]], covariance: array![[[1.5]], [[0.2]]] };
        let half = |variance: f64| [[0.25 * variance, -0.25 * variance], [-0.25 * variance, 0.25 * variance]];
        let two = LatentGaussian {
            mean: array![[-0.2, 0.2], [1.0, -1.0]],
            covariance: ndarray::arr3(&[half(1.5), half(0.2)]),
        };
        let (binary, classes) = (Family::new(Bernoulli), Family::new(Categorical));
        let of = |family: &Family, latent: &LatentGaussian| prediction(family.clone(), latent.clone(), Link::Centred);
        let (binary, classes) = (of(&binary, &one)?, of(&classes, &two)?);
        let variances = (binary.logit_variance().expect("classes"), classes.logit_variance().expect("classes"));
        let informations =
            (binary.epistemic_uncertainty()?.expect("drawn"), classes.epistemic_uncertainty()?.expect("drawn"));
        for t in 0..2 {
            assert!((variances.0[t] - variances.1[t]).abs() < 1e-15);
            // From 256 draws each, which differ: about 6 % of the value apart.
            assert!((informations.0[t] / informations.1[t] - 1.0).abs() < 0.3, "{informations:?}");
        }
        Ok(())
    }

    #[test]
    fn mutual_information_is_its_integral_and_nothing_where_logits_are_certain_or_saturate() -> Result<()> {
        let family = Family::new(Categorical);
        let found = prediction(family.clone(), latent(), Link::Centred)?.epistemic_uncertainty()?.expect("drawn");
        assert!(found[1].abs() < 1e-12 && found[2].abs() < 1e-12, "{found}");
        // One uncertain logit difference: the integral over it by the midpoint rule.
        let variance = 1.7;
        let one = LatentGaussian { mean: array![[0.4]], covariance: array![[[variance]]] };
        let binary = Family::new(Bernoulli);
        let found =
            prediction(binary.clone(), one.clone(), Link::MonteCarlo(MonteCarlo { samples: 100_000, seed: 3 }))?;
        let found = found.epistemic_uncertainty()?.expect("drawn")[0];
        let entropy = |p: f64| -p * p.ln() - (1.0 - p) * (1.0 - p).ln();
        let (mut mean, mut conditional, step) = (0.0, 0.0, 1e-3);
        for i in -8_000..8_000 {
            let z = (f64::from(i) + 0.5) * step;
            let weight = step * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
            let p = 1.0 / (1.0 + (-(0.4 + variance.sqrt() * z)).exp());
            mean += weight * p;
            conditional += weight * entropy(p);
        }
        let expected = entropy(mean) - conditional;
        // The standard deviation of H(p) is about 0.15 and that of p about 0.25; over 100,000 draws four errors are 0.003.
        assert!((found - expected).abs() < 3e-3, "{found} for {expected}");
        // Samples say their own.
        let samples = SampledPredictive::of_outputs(&family, ndarray::arr3(&[[[9.0, 0.0]], [[0.0, 9.0]]]));
        let samples = Prediction::new(family, Predictive::Sampled(samples), None, &Schema::unnamed(1, 1))?;
        assert_eq!(samples.epistemic_uncertainty()?, samples.mutual_information);
        assert!(samples.mutual_information.as_ref().expect("drawn")[0] > 0.69 - 9.0 * (-9.0f64).exp() * 2.0);
        Ok(())
    }
}

//! The check of a user's likelihood names the verb that is wrong.

use rand_chacha::ChaCha8Rng;
use riemannian_laplace::Family;
use riemannian_laplace::internals::likelihood::{
    Bernoulli, Categorical, Gaussian, Heteroscedastic, Likelihood, Poisson, REGISTER, TargetError, check_likelihood,
};

use crate::common::Outcome;

#[test]
fn every_registered_likelihood_passes() -> Outcome {
    check_likelihood(&Gaussian::per_output(vec![0.4, 2.0])?, &[0.3, -1.0], &[1.1, 0.2])?;
    check_likelihood(&Bernoulli, &[1.0, 0.0], &[-1.7, 0.4])?;
    check_likelihood(&Categorical, &[2.0], &[0.5, -1.3, 2.0])?;
    check_likelihood(&Heteroscedastic, &[0.3, -1.0], &[1.1, 0.2, 0.9, -1.6])?;
    check_likelihood(&Poisson, &[0.0, 5.0], &[-0.6, 1.4])?;
    for entry in REGISTER {
        let family: Family = entry.name().parse()?;
        assert_eq!(family.likelihood().name(), entry.name());
        // Of one output, two for a mean with its variance, or two classes.
        let outputs = if family.likelihood().check_outputs(1).is_ok() { vec![0.6] } else { vec![0.6, -0.3] };
        check_likelihood(family.likelihood(), &[1.0], &outputs)?;
    }
    Ok(())
}

/// Poisson with one verb changed.
#[derive(Debug)]
struct Wrong(&'static str);

impl Wrong {
    fn factor(&self, verb: &str) -> f64 {
        if self.0 == verb { 1.01 } else { 1.0 }
    }
}

fn scale(values: &mut [f64], factor: f64) {
    values.iter_mut().for_each(|value| *value *= factor);
}

impl Likelihood for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError> {
        Poisson.validate(target, n_outputs)
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        Poisson.log_density(target, outputs)
    }

    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        Poisson.gradient(target, outputs, gradient);
        scale(gradient, self.factor("gradient"));
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        Poisson.fisher(outputs, fisher);
    }

    fn observed_information(&self, _: &[f64], outputs: &[f64], information: &mut [f64]) {
        Poisson.fisher(outputs, information);
        scale(information, self.factor("observed_information"));
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        Poisson.whitening(outputs, whitening);
        scale(whitening, self.factor("whitening"));
    }

    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        Poisson.whitened_force(outputs, first, second, force);
        scale(force, self.factor("whitened_force"));
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        self.factor("fisher_quadratic") * Poisson.fisher_quadratic(outputs, first)
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        Poisson.mean(outputs, mean);
        scale(mean, self.factor("mean").powi(20));
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        Poisson.variance(outputs, variance);
        scale(variance, self.factor("variance").powi(20));
    }

    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        Poisson.draw(outputs, generator, target);
    }
}

#[test]
fn what_is_wrong_is_named() {
    let verbs =
        ["gradient", "observed_information", "whitening", "fisher_quadratic", "whitened_force", "mean", "variance"];
    for verb in verbs {
        let error = check_likelihood(&Wrong(verb), &[3.0], &[0.7]).expect_err(verb);
        assert_eq!(error.verb, verb, "{error}");
        assert!(error.to_string().contains(&format!("`{verb}` gives")), "{error}");
    }
    assert!(check_likelihood(&Wrong(""), &[3.0], &[0.7]).is_ok());
}

//! The check of a user's likelihood names the verb that is wrong.

use rand_chacha::ChaCha8Rng;
use riemannian_laplace::internals::likelihood::{
    Bernoulli, Categorical, Density, FromDensity, Gaussian, Heteroscedastic, Likelihood, Poisson, REGISTER,
    TargetError, TargetKind, check_likelihood,
};
use riemannian_laplace::{Activation, Family, FitOptions, Laplace, MetricName, SamplerOptions};

use crate::checks::close;
use crate::common::{Outcome, architecture, random_data, random_network};

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

/// Known distributions by their densities alone.
#[derive(Debug)]
enum ByDensity {
    Counts,
    Noisy,
    Times,
}

impl Density for ByDensity {
    fn name(&self) -> &'static str {
        "by-density"
    }

    fn kind(&self) -> TargetKind {
        match self {
            ByDensity::Counts => TargetKind::Count,
            ByDensity::Noisy => TargetKind::Real,
            ByDensity::Times => TargetKind::Positive,
        }
    }

    fn n_outputs(&self) -> usize {
        if let ByDensity::Noisy = self { 2 } else { 1 }
    }

    fn log_density(&self, y: f64, f: &[f64]) -> f64 {
        match self {
            ByDensity::Counts => Poisson.log_density(&[y], f),
            ByDensity::Noisy => Heteroscedastic.log_density(&[y], f),
            // Exponential in the log mean: a gamma distribution of shape 1.
            ByDensity::Times => -f[0] - y * (-f[0]).exp(),
        }
    }

    fn location(&self, f: &[f64]) -> (f64, f64) {
        match self {
            ByDensity::Counts => (f[0].exp(), (0.5 * f[0]).exp()),
            ByDensity::Noisy => (f[0], (0.5 * f[1]).exp()),
            ByDensity::Times => (f[0].exp(), f[0].exp()),
        }
    }
}

#[test]
fn a_density_alone_gives_the_geometry_of_the_closed_forms() -> Outcome {
    let written = |length: usize, write: &dyn Fn(&mut [f64])| {
        let mut values = vec![f64::NAN; length];
        write(&mut values);
        values
    };
    let near = |found: &[f64], expected: &[f64], what: &str| {
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-6 * (1.0 + b.abs()), "{what}: {found:?} for {expected:?}");
        }
    };
    let closed: [&dyn Likelihood; 2] = [&Poisson, &Heteroscedastic];
    let densities = [ByDensity::Counts, ByDensity::Noisy];
    let places = [(vec![1.3], vec![4.0]), (vec![0.4, -1.1], vec![0.9])];
    for ((density, closed), (f, y)) in densities.into_iter().zip(closed).zip(places) {
        let (p, own) = (f.len(), FromDensity(density));
        check_likelihood(&own, &y, &f)?;
        let (first, second) = (&[0.7, -0.4][..p], &[0.2, 1.1][..p]);
        near(
            &written(p, &|into| own.gradient(&y, &f, into)),
            &written(p, &|into| closed.gradient(&y, &f, into)),
            "score",
        );
        let fisher = |likelihood: &dyn Likelihood| written(p * p, &|into| likelihood.fisher(&f, into));
        near(&fisher(&own), &fisher(closed), "Fisher");
        // R z, since roots may differ by a rotation.
        let force = |likelihood: &dyn Likelihood| {
            let root = written(p * p, &|into| likelihood.whitening(&f, into));
            let z = written(p, &|into| likelihood.whitened_force(&f, first, second, into));
            (0..p).map(|k| (0..p).map(|j| root[k * p + j] * z[j]).sum()).collect::<Vec<f64>>()
        };
        near(&force(&own), &force(closed), "force");
        for value in [0.0, 1.0, 5.0] {
            let (found, expected) = (own.cumulative(&f, 0, value), closed.cumulative(&f, 0, value));
            assert!((found - expected).abs() < 3e-3, "P(y ≤ {value}): {found} for {expected}");
        }
    }
    check_likelihood(&FromDensity(ByDensity::Times), &[1.2], &[0.4])?;
    Ok(())
}

/// Through a posterior: evidence, predictions and certified geodesics of the density are those of the closed form.
#[test]
fn a_density_alone_reaches_every_method() -> Outcome {
    let network = random_network(architecture(&[1, 3, 1], &[true, true], Activation::Tanh), 4);
    let poisson = Family::new(Poisson);
    let data = random_data(&network, &poisson, 15, 6);
    let fit = |family: Family| Laplace::fit(network.clone(), data.clone(), family, &FitOptions::default());
    let (closed, own) = (fit(poisson)?, fit(Family::new(FromDensity(ByDensity::Counts)))?);
    close(own.log_marginal_likelihood(), closed.log_marginal_likelihood(), 1e-7, "evidence");
    let sampler = SamplerOptions { range: 0..3, ..Default::default() };
    let ends = |laplace: &Laplace| laplace.sample_riemannian(MetricName::Fisher, &sampler, &());
    let (one, other) = (ends(&own)?, ends(&closed)?);
    assert_eq!((one.failed(), one.uncertified()), (0, 0));
    for (a, b) in one.theta.iter().zip(&other.theta) {
        assert!((a - b).abs() < 2e-3 * (1.0 + b.abs()), "{a} {b}");
    }
    Ok(())
}

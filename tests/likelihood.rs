//! Likelihoods against their definitions (finite differences, expectations, the generic Christoffel symbol) and, where
//! outputs are saturated, against references computed with 1,000 digits.

use std::collections::BTreeMap;
use std::error::Error;

use riemannian_laplace::internals::likelihood::{
    Bernoulli, Categorical, Gaussian, Heteroscedastic, Likelihood, NoiseError, Poisson, Scaled, TargetError,
};

type Outcome = Result<(), Box<dyn Error>>;

/// A likelihood, a target and outputs of moderate size.
type Case = (Box<dyn Likelihood>, Vec<f64>, Vec<f64>);

const FIRST: [f64; 4] = [0.7, -1.3, 0.2, 0.9];
const SECOND: [f64; 4] = [-0.4, 2.1, 0.3, -1.6];

fn cases() -> Result<Vec<Case>, NoiseError> {
    Ok(vec![
        (Box::new(Gaussian::new(0.4)?), vec![0.3], vec![1.1]),
        (Box::new(Gaussian::per_output(vec![0.4, 2.0, 1.3])?), vec![0.3, -1.0, 2.0], vec![1.1, 0.2, -0.7]),
        (Box::new(Bernoulli), vec![1.0], vec![0.8]),
        (Box::new(Bernoulli), vec![1.0, 0.0, 0.0], vec![-1.7, 0.4, 2.2]),
        (Box::new(Categorical), vec![1.0], vec![0.5, -0.3]),
        (Box::new(Categorical), vec![2.0], vec![0.5, -1.3, 2.0, 0.1]),
        (Box::new(Poisson), vec![3.0], vec![0.9]),
        (Box::new(Poisson), vec![0.0, 5.0], vec![-0.6, 1.4]),
        (Box::new(Heteroscedastic), vec![0.3], vec![1.1, -0.7]),
        (Box::new(Heteroscedastic), vec![0.3, -1.0], vec![1.1, 0.2, 0.9, -1.6]),
    ])
}

fn fisher(likelihood: &dyn Likelihood, outputs: &[f64]) -> Vec<f64> {
    let mut fisher = vec![f64::NAN; outputs.len() * outputs.len()];
    likelihood.fisher(outputs, &mut fisher);
    fisher
}

fn gradient(likelihood: &dyn Likelihood, target: &[f64], outputs: &[f64]) -> Vec<f64> {
    let mut gradient = vec![f64::NAN; outputs.len()];
    likelihood.gradient(target, outputs, &mut gradient);
    gradient
}

/// Outputs with entry k moved.
fn moved(outputs: &[f64], k: usize, by: f64) -> Vec<f64> {
    let mut outputs = outputs.to_vec();
    outputs[k] += by;
    outputs
}

fn assert_close(got: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((got - expected).abs() <= tolerance, "{what}: {got} for {expected}");
}

#[test]
fn gradient_is_that_of_the_log_density() -> Outcome {
    let step = 1e-5;
    for (likelihood, target, outputs) in cases()? {
        for (k, exact) in gradient(&*likelihood, &target, &outputs).into_iter().enumerate() {
            let above = likelihood.log_density(&target, &moved(&outputs, k, step));
            let below = likelihood.log_density(&target, &moved(&outputs, k, -step));
            // Rounding eps·10/step = 2e-10, truncation below 1e-10.
            assert_close((above - below) / (2.0 * step), exact, 1e-9, likelihood.name());
        }
    }
    Ok(())
}

fn observed_information(likelihood: &dyn Likelihood, target: &[f64], outputs: &[f64]) -> Vec<f64> {
    let mut information = vec![f64::NAN; outputs.len() * outputs.len()];
    likelihood.observed_information(target, outputs, &mut information);
    information
}

#[test]
fn fisher_is_the_observed_information_of_a_natural_family() -> Outcome {
    for (likelihood, target, outputs) in cases()? {
        let natural = likelihood.name() != "heteroscedastic";
        let same = observed_information(&*likelihood, &target, &outputs) == fisher(&*likelihood, &outputs);
        assert_eq!(same, natural, "{}", likelihood.name());
    }
    Ok(())
}

#[test]
fn observed_information_is_the_negative_hessian() -> Outcome {
    let step = 1e-5;
    for (likelihood, target, outputs) in cases()? {
        let n = outputs.len();
        let exact = observed_information(&*likelihood, &target, &outputs);
        for k in 0..n {
            let above = gradient(&*likelihood, &target, &moved(&outputs, k, step));
            let below = gradient(&*likelihood, &target, &moved(&outputs, k, -step));
            for j in 0..n {
                let second = (above[j] - below[j]) / (2.0 * step);
                assert_close(-second, exact[j * n + k], 1e-9, likelihood.name());
            }
        }
    }
    Ok(())
}

/// Every target of non-negligible probability, for the families with countable support.
fn support(likelihood: &dyn Likelihood, n_outputs: usize) -> Vec<Vec<f64>> {
    let values: Vec<f64> = match likelihood.name() {
        "bernoulli" => vec![0.0, 1.0],
        "categorical" => return (0..n_outputs).map(|class| vec![class as f64]).collect(),
        _ => (0..60).map(f64::from).collect(),
    };
    (0..n_outputs).fold(vec![vec![]], |targets, _| {
        let extend = |target: Vec<f64>| values.iter().map(move |&value| [&target[..], &[value]].concat());
        targets.into_iter().flat_map(extend).collect()
    })
}

#[test]
fn densities_sum_to_one_and_moments_and_fisher_are_expectations() -> Outcome {
    for (likelihood, _, outputs) in cases()? {
        let name = likelihood.name();
        if name == "gaussian" || name == "heteroscedastic" {
            continue;
        }
        let n = outputs.len();
        let (mut total, mut first, mut second, mut outer) = (0.0, vec![0.0; n], vec![0.0; n], vec![0.0; n * n]);
        for target in support(&*likelihood, n) {
            likelihood.validate(&target, n)?;
            let probability = likelihood.log_density(&target, &outputs).exp();
            let score = gradient(&*likelihood, &target, &outputs);
            total += probability;
            for i in 0..n {
                let indicator = if target[0] == i as f64 { 1.0 } else { 0.0 };
                let y = if name == "categorical" { indicator } else { target[i] };
                first[i] += probability * y;
                second[i] += probability * y * y;
                for j in 0..n {
                    outer[i * n + j] += probability * score[i] * score[j];
                }
            }
        }
        assert_close(total, 1.0, 1e-14, name);
        let (mut mean, mut variance) = (vec![f64::NAN; n], vec![f64::NAN; n]);
        likelihood.mean(&outputs, &mut mean);
        likelihood.variance(&outputs, &mut variance);
        for i in 0..n {
            assert_close(mean[i], first[i], 1e-13, name);
            assert_close(variance[i], second[i] - first[i] * first[i], 1e-12, name);
        }
        for (got, expected) in fisher(&*likelihood, &outputs).into_iter().zip(outer) {
            assert_close(got, expected, 1e-13, name);
        }
    }
    Ok(())
}

#[test]
fn gaussian_density_integrates_to_one_with_its_moments() -> Outcome {
    let gaussian = Gaussian::new(0.4)?;
    let step = 1e-3;
    let (mut total, mut square, mut score) = (0.0, 0.0, 0.0);
    for i in -5000..=5000 {
        let y = 1.1 + step * f64::from(i);
        let density = step * gaussian.log_density(&[y], &[1.1]).exp();
        total += density;
        square += density * (y - 1.1).powi(2);
        score += density * gradient(&gaussian, &[y], &[1.1])[0].powi(2);
    }
    // The trapezoidal rule is exact to rounding for a Gaussian at this step.
    assert_close(total, 1.0, 1e-13, "mass");
    assert_close(square, 0.16, 1e-13, "variance");
    assert_close(score, fisher(&gaussian, &[1.1])[0], 1e-12, "fisher");
    Ok(())
}

#[test]
fn heteroscedastic_fisher_is_the_expected_information_and_outer_product_of_scores() {
    let (mean, log_variance) = (1.1, -0.7_f64);
    let outputs = [mean, log_variance];
    let step = 1e-3;
    let (mut total, mut outer, mut information) = (0.0, [0.0; 4], [0.0; 4]);
    for i in -9000..=9000 {
        let y = [mean + step * f64::from(i)];
        let density = step * Heteroscedastic.log_density(&y, &outputs).exp();
        let score = gradient(&Heteroscedastic, &y, &outputs);
        let observed = observed_information(&Heteroscedastic, &y, &outputs);
        total += density;
        for entry in 0..4 {
            outer[entry] += density * score[entry / 2] * score[entry % 2];
            information[entry] += density * observed[entry];
        }
    }
    // As for the Gaussian: the trapezoidal rule is exact to rounding.
    assert_close(total, 1.0, 1e-13, "mass");
    for (entry, expected) in fisher(&Heteroscedastic, &outputs).into_iter().enumerate() {
        assert_close(outer[entry], expected, 1e-12, "outer product of scores");
        assert_close(information[entry], expected, 1e-12, "observed information");
    }
    let (mut means, mut variances) = ([f64::NAN], [f64::NAN]);
    Heteroscedastic.mean(&outputs, &mut means);
    Heteroscedastic.variance(&outputs, &mut variances);
    assert_eq!((means[0], variances[0]), (mean, log_variance.exp()));
}

#[test]
fn whitening_is_a_factor_of_fisher() -> Outcome {
    for (likelihood, _, outputs) in cases()? {
        let n = outputs.len();
        let mut whitening = vec![f64::NAN; n * n];
        likelihood.whitening(&outputs, &mut whitening);
        for (entry, expected) in fisher(&*likelihood, &outputs).into_iter().enumerate() {
            let (i, j) = (entry / n, entry % n);
            let product: f64 = (0..n).map(|k| whitening[i * n + k] * whitening[j * n + k]).sum();
            assert_close(product, expected, 4e-15 * expected.abs().max(1.0), likelihood.name());
        }
    }
    Ok(())
}

#[test]
fn whitened_force_solves_the_generic_definition() -> Outcome {
    let step = 1e-5;
    for (likelihood, _, outputs) in cases()? {
        let n = outputs.len();
        let (first, second) = (&FIRST[..n], &SECOND[..n]);
        // derivative[i] = ∂H/∂f_i
        let derivative: Vec<Vec<f64>> = (0..n)
            .map(|i| {
                let above = fisher(&*likelihood, &moved(&outputs, i, step));
                let below = fisher(&*likelihood, &moved(&outputs, i, -step));
                above.iter().zip(&below).map(|(a, b)| (a - b) / (2.0 * step)).collect()
            })
            .collect();
        let exact = fisher(&*likelihood, &outputs);
        let (mut whitening, mut force) = (vec![f64::NAN; n * n], vec![f64::NAN; n]);
        likelihood.whitening(&outputs, &mut whitening);
        likelihood.whitened_force(&outputs, first, second, &mut force);
        for k in 0..n {
            let mut expected: f64 = (0..n).map(|j| exact[k * n + j] * second[j]).sum();
            for i in 0..n {
                for j in 0..n {
                    let symbol = derivative[i][j * n + k] - 0.5 * derivative[k][i * n + j];
                    expected += symbol * first[i] * first[j];
                }
            }
            let got: f64 = (0..n).map(|j| whitening[k * n + j] * force[j]).sum();
            assert_close(got, expected, 1e-9 * expected.abs().max(1.0), likelihood.name());
        }
    }
    Ok(())
}

#[test]
fn quadratic_form_is_that_of_the_matrix() -> Outcome {
    for (likelihood, _, outputs) in cases()? {
        let n = outputs.len();
        let matrix = fisher(&*likelihood, &outputs);
        let form: f64 = (0..n * n).map(|e| matrix[e] * FIRST[e / n] * FIRST[e % n]).sum();
        let got = likelihood.fisher_quadratic(&outputs, &FIRST[..n]);
        assert_close(got, form, 4e-15 * form.max(1.0), likelihood.name());
    }
    Ok(())
}

#[test]
fn observed_quadratic_form_is_that_of_the_observed_information() -> Outcome {
    for (likelihood, target, outputs) in cases()? {
        let n = outputs.len();
        let matrix = observed_information(&*likelihood, &target, &outputs);
        let form: f64 = (0..n * n).map(|e| matrix[e] * FIRST[e / n] * FIRST[e % n]).sum();
        let got = likelihood.observed_quadratic(&target, &outputs, &FIRST[..n]);
        assert_close(got, form, 4e-15 * form.abs().max(1.0), likelihood.name());
    }
    Ok(())
}

#[test]
fn a_power_of_a_likelihood_multiplies_its_observed_information() {
    let (target, outputs) = ([0.3], [1.1, -0.7]);
    let plain = observed_information(&Heteroscedastic, &target, &outputs);
    let scaled = Scaled::new(std::sync::Arc::new(Heteroscedastic), 4.0);
    let power = observed_information(&scaled, &target, &outputs);
    for (power, plain) in power.into_iter().zip(plain) {
        assert_eq!(power, 4.0 * plain);
    }
    let quadratic = Heteroscedastic.observed_quadratic(&target, &outputs, &[0.4, 0.9]);
    assert_eq!(scaled.observed_quadratic(&target, &outputs, &[0.4, 0.9]), 4.0 * quadratic);
    assert_eq!((scaled.n_targets(2), scaled.n_means(2)), (1, 1));
}

#[test]
fn two_classes_are_a_bernoulli_in_the_difference() {
    for logit in [-800.0, -50.0, -1.3, 0.0, 0.4, 36.0, 800.0] {
        let (two, one) = ([0.0, logit], [logit]);
        for y in [0.0, 1.0] {
            let (categorical, bernoulli) = (Categorical.log_density(&[y], &two), Bernoulli.log_density(&[y], &one));
            assert_close(categorical, bernoulli, 1e-15 * bernoulli.abs(), "log density");
            let score = gradient(&Categorical, &[y], &two)[1];
            assert_close(score, gradient(&Bernoulli, &[y], &one)[0], 1e-15 * score.abs(), "gradient");
        }
        let quadratic = Categorical.fisher_quadratic(&two, &[0.3, 1.7]);
        let expected = Bernoulli.fisher_quadratic(&one, &[1.7 - 0.3]);
        assert_close(quadratic, expected, 4e-15 * expected, "quadratic form");
    }
}

#[test]
fn saturated_outputs_agree_with_exact_references() -> Outcome {
    let text = include_str!("fixtures/likelihood/reference.json");
    let rows: Vec<BTreeMap<String, Vec<String>>> = serde_json::from_str(text)?;
    assert!(rows.len() > 70);
    for row in &rows {
        let numbers = |key: &str| -> Result<Vec<f64>, Box<dyn Error>> {
            let texts = row.get(key).ok_or("missing key")?;
            Ok(texts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?)
        };
        let name = row.get("likelihood").ok_or("missing key")?[0].as_str();
        let likelihood: &dyn Likelihood = match name {
            "bernoulli" => &Bernoulli,
            "categorical" => &Categorical,
            "heteroscedastic" => &Heteroscedastic,
            _ => &Poisson,
        };
        let [target, outputs] = [numbers("target")?, numbers("outputs")?];
        let [first, second] = [numbers("first")?, numbers("second")?];
        let n = outputs.len();
        likelihood.validate(&target, n)?;
        let vector = |fill: &dyn Fn(&mut [f64]), length: usize| {
            let mut values = vec![f64::NAN; length];
            fill(&mut values);
            values
        };
        let computed = [
            ("log_density", vec![likelihood.log_density(&target, &outputs)]),
            ("gradient", vector(&|v| likelihood.gradient(&target, &outputs, v), n)),
            ("fisher", vector(&|v| likelihood.fisher(&outputs, v), n * n)),
            ("whitening", vector(&|v| likelihood.whitening(&outputs, v), n * n)),
            ("force", vector(&|v| likelihood.whitened_force(&outputs, &first, &second, v), n)),
            ("fisher_quadratic", vec![likelihood.fisher_quadratic(&outputs, &first)]),
            ("observed_information", vector(&|v| likelihood.observed_information(&target, &outputs, v), n * n)),
            ("observed_quadratic", vec![likelihood.observed_quadratic(&target, &outputs, &first)]),
            ("mean", vector(&|v| likelihood.mean(&outputs, v), likelihood.n_means(n))),
            ("variance", vector(&|v| likelihood.variance(&outputs, v), likelihood.n_means(n))),
        ];
        for (key, values) in computed {
            let exact = numbers(key)?;
            assert_eq!(values.len(), exact.len(), "{name} {key}");
            for (got, exact) in values.into_iter().zip(exact) {
                // A Poisson log density and gradient are differences of terms of the size of y·(1 + |f| + log y).
                let cancels = name == "poisson" && (key == "log_density" || key == "gradient");
                let terms = if cancels { target[0] * (10.0 + outputs[0].abs()) } else { 0.0 };
                let close = (got - exact).abs() <= 16.0 * f64::EPSILON * exact.abs().max(terms);
                assert!(close || got == exact, "{name} {key} at {outputs:?}: {got} for {exact}");
            }
        }
    }
    Ok(())
}

#[test]
fn extreme_rates_give_no_nan() {
    assert_eq!(Poisson.log_density(&[0.0], &[f64::NEG_INFINITY]), 0.0);
    assert_eq!(Poisson.log_density(&[2.0], &[800.0]), f64::NEG_INFINITY);
    let mut force = [f64::NAN];
    Poisson.whitened_force(&[2000.0], &[0.0], &[0.0], &mut force);
    assert_eq!(force, [0.0]);
    assert_eq!(Poisson.fisher_quadratic(&[2000.0], &[0.0]), 0.0);
}

#[test]
fn extreme_log_variances_give_no_nan() {
    for log_variance in [-2000.0, -1000.0, 1000.0, 2000.0] {
        let outputs = [0.5, log_variance];
        assert!(!Heteroscedastic.log_density(&[0.5], &outputs).is_nan(), "{log_variance}");
        assert!(gradient(&Heteroscedastic, &[0.5], &outputs).iter().all(|value| !value.is_nan()));
        let (mut whitening, mut force) = ([f64::NAN; 4], [f64::NAN; 2]);
        Heteroscedastic.whitening(&outputs, &mut whitening);
        Heteroscedastic.whitened_force(&outputs, &[0.0, 0.3], &[0.0, -0.2], &mut force);
        assert!(whitening.iter().chain(&force).all(|value| !value.is_nan()), "{log_variance}");
        assert!(Heteroscedastic.fisher_quadratic(&outputs, &[0.0, 1.0]).is_finite(), "{log_variance}");
        assert!(!Heteroscedastic.observed_quadratic(&[0.5], &outputs, &[0.0, 1.0]).is_nan(), "{log_variance}");
    }
}

#[test]
fn targets_are_checked_with_a_reason() {
    let message = |result: Result<(), TargetError>| result.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(message(Poisson.validate(&[1.5], 1)).contains("1.5"));
    assert!(message(Poisson.validate(&[-1.0], 1)).contains("whole number"));
    assert!(message(Poisson.validate(&[f64::INFINITY], 1)).contains("inf"));
    assert!(message(Bernoulli.validate(&[0.0, 2.0], 2)).contains("position 1"));
    assert!(message(Categorical.validate(&[3.0], 3)).contains("from 0 to 2"));
    for label in [-1.0, 0.5, f64::NAN, f64::INFINITY] {
        assert!(Categorical.validate(&[label], 3).is_err());
        assert!(Categorical.log_density(&[label], &[0.0, 0.0, 0.0]).is_nan());
    }
    assert!(message(Categorical.validate(&[1.0, 2.0], 3)).contains("has 1 values, found 2"));
    assert!(message(Categorical.check_outputs(1)).contains("at least 2"));
    assert!(Categorical.check_outputs(2).is_ok() && Bernoulli.check_outputs(1).is_ok());
    assert!(Poisson.check_outputs(0).is_err());
    assert!(message(Heteroscedastic.check_outputs(3)).contains("two network outputs per target"));
    assert!(Heteroscedastic.check_outputs(0).is_err() && Heteroscedastic.check_outputs(4).is_ok());
    assert!(message(Heteroscedastic.validate(&[1.0, 2.0], 2)).contains("has 1 values, found 2"));
    assert!(message(Heteroscedastic.validate(&[f64::NAN], 2)).contains("finite"));
}

#[test]
fn noise_levels_are_checked() -> Outcome {
    for sigma in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Gaussian::new(sigma).is_err(), "{sigma}");
        assert!(Gaussian::per_output(vec![1.0, sigma]).is_err(), "{sigma}");
    }
    assert_eq!(Gaussian::per_output(vec![]), Err(NoiseError::Empty));
    let gaussian = Gaussian::per_output(vec![1.0, 2.0])?;
    assert!(gaussian.check_outputs(2).is_ok() && gaussian.check_outputs(3).is_err());
    assert!(gaussian.validate(&[1.0, f64::NAN], 2).is_err() && gaussian.validate(&[1.0], 2).is_err());
    assert!(Gaussian::new(1.0)?.check_outputs(5).is_ok());
    Ok(())
}

//! NUTS against independent results: moments in closed form, quadrature, the mode; and its diagnostics.
#![cfg(feature = "paper")]

mod common;
#[path = "reference/diagnostics.rs"]
mod diagnostics;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ndarray::{Array1, Array2, ArrayView1, Axis};
use riemannian_laplace::Activation;
use riemannian_laplace::Dataset;
use riemannian_laplace::internals::likelihood::Gaussian;
use riemannian_laplace::internals::map::Evaluator;
use riemannian_laplace::internals::paper::estimate::{euclidean_map, random_starts};
use riemannian_laplace::internals::paper::problems::{
    Banana, Funnel, Identity, Squiggle, logistic_regression, standardized,
};
use riemannian_laplace::internals::paper::reference::{
    Convergence, InvalidChains, LEAST_BULK_ESS, MOST_DIVERGENT, MassMatrix, NutsOptions, ReferenceSample, Start,
    WORST_R_HAT, nuts,
};
use riemannian_laplace::internals::target::Target;
use riemannian_laplace::{Error, Result};

/// A run of a second: enough for errors of a few per cent.
fn options(target_accept: f64) -> NutsOptions {
    NutsOptions { chains: 4, warmup: 1000, draws: 5000, thinning: 1, target_accept, seed: 1, ..NutsOptions::default() }
}

/// The run, which must be a reference.
fn reference(target: &Target, options: &NutsOptions) -> Result<ReferenceSample> {
    let sample = nuts(target, Start::StandardNormal, options, &|_| ())?;
    let convergence = sample.verdict()?;
    assert!(convergence.r_hat <= WORST_R_HAT && convergence.bulk_ess >= LEAST_BULK_ESS);
    Ok(sample)
}

/// Fails unless the mean of a function of the draws is within five standard errors, deviation/√ESS, of its expectation.
fn assert_mean(
    sample: &ReferenceSample,
    expected: f64,
    what: &str,
    function: impl Fn(ArrayView1<'_, f64>) -> f64,
) -> Result<()> {
    let values: Array1<f64> = sample.draws.rows().into_iter().map(function).collect();
    let mean = values.sum() / values.len() as f64;
    let error = values.std(1.0) / Convergence::of(values.view(), sample.chains())?.mean_ess.sqrt();
    assert!((mean - expected).abs() <= 5.0 * error, "{what}: {mean}, expected {expected}, standard error {error}");
    // A test with a wide error would show nothing.
    assert!(error <= 0.05 * values.std(1.0), "{what}: standard error {error}");
    Ok(())
}

#[test]
fn gaussian_moments() -> Result<()> {
    let deviations = [0.1, 1.0, 10.0];
    let sample = reference(&Identity::gaussian(&deviations)?, &options(0.8))?;
    assert_eq!(sample.divergences() + sample.depth_limited(), 0);
    for i in 0..3 {
        assert_mean(&sample, 0.0, "mean", |theta| theta[i])?;
        for j in 0..=i {
            let expected = if i == j { deviations[i].powi(2) } else { 0.0 };
            assert_mean(&sample, expected, "covariance", |theta| theta[i] * theta[j])?;
        }
    }
    Ok(())
}

/// ψ = φ⁻¹(θ) ~ N(0, S): an error in ℓ or its gradient would show here. Wider and shorter than the paper's, whose bends
/// NUTS follows so slowly that a run of seconds is (rightly) refused.
#[test]
fn squiggle_is_a_gaussian_in_disguise() -> Result<()> {
    let squiggle = Squiggle { frequency: 1.5, variances: [1.0, 0.2] };
    let sample = reference(&squiggle.target()?, &options(0.95))?;
    let psi = |theta: ArrayView1<'_, f64>| squiggle.inverse([theta[0], theta[1]]);
    for i in 0..2 {
        assert_mean(&sample, 0.0, "mean", |theta| psi(theta)[i])?;
        assert_mean(&sample, squiggle.variances[i], "variance", |theta| psi(theta)[i].powi(2))?;
    }
    assert_mean(&sample, 0.0, "covariance", |theta| psi(theta)[0] * psi(theta)[1])
}

/// The tilt of the prior is what makes the funnel's second coordinate normal: a mild funnel, which NUTS can enter.
#[test]
fn mild_funnel_has_a_normal_second_coordinate() -> Result<()> {
    let funnel = Funnel { sigma: 0.7 };
    let sample = reference(&funnel.target()?, &options(0.95))?;
    for i in 0..2 {
        assert_mean(&sample, 0.0, "mean", |theta| funnel.inverse([theta[0], theta[1]])[i])?;
        assert_mean(&sample, 1.0, "variance", |theta| funnel.inverse([theta[0], theta[1]])[i].powi(2))?;
    }
    Ok(())
}

fn banana_observations() -> Vec<f64> {
    common::geometry::dataset("banana.csv", "y").targets().iter().copied().collect()
}

/// E[θ₁], E[θ₂²], E[θ₂⁴] of the banana by the midpoint rule, from the model's definition.
fn banana_by_quadrature(observations: &[f64]) -> [f64; 3] {
    let (mut mass, mut moments) = (0.0, [0.0; 3]);
    let precision = 1.0 / (2.0 * Banana::DEVIATION.powi(2));
    for i in 0..1200 {
        for j in 0..800 {
            let (first, second) = (-10.0 + (f64::from(i) + 0.5) / 80.0, -4.0 + (f64::from(j) + 0.5) / 100.0);
            let misfit: f64 = observations.iter().map(|y| (y - first - second * second).powi(2)).sum();
            let weight = (-precision * (misfit - 430.0 + first * first + second * second)).exp();
            mass += weight;
            for (moment, value) in moments.iter_mut().zip([first, second.powi(2), second.powi(4)]) {
                *moment += weight * value;
            }
        }
    }
    moments.map(|moment| moment / mass)
}

#[test]
fn banana_is_symmetric_and_has_the_moments_of_quadrature() -> Result<()> {
    let observations = banana_observations();
    let target = Banana::target(&observations)?;
    let expected = banana_by_quadrature(&observations);
    for mass_matrix in [MassMatrix::Diagonal, MassMatrix::LowRank] {
        let sample = reference(&target, &NutsOptions { mass_matrix, ..options(0.95) })?;
        assert_mean(&sample, 0.0, "θ₂", |theta| theta[1])?;
        assert_mean(&sample, 0.0, "θ₂³", |theta| theta[1].powi(3))?;
        assert_mean(&sample, 0.0, "θ₁θ₂", |theta| theta[0] * theta[1])?;
        assert_mean(&sample, expected[0], "θ₁", |theta| theta[0])?;
        assert_mean(&sample, expected[1], "θ₂²", |theta| theta[1].powi(2))?;
        assert_mean(&sample, expected[2], "θ₂⁴", |theta| theta[1].powi(4))?;
    }
    Ok(())
}

fn ripley() -> Result<Target> {
    let raw = common::geometry::dataset("ripley.csv", "y");
    let data = Dataset::new(standardized(raw.inputs()), raw.targets().clone())?;
    logistic_regression(&data, 100.0)
}

/// With 250 observations the posterior is almost normal: the mean lies where the third derivatives shift it from the
/// mode, by ½Σ∇tr(Σ∇²ℓ) to leading order, and the variances are those of the inverse Hessian up to the skewness.
#[test]
fn logistic_regression_lies_around_its_mode() -> Result<()> {
    let target = ripley()?;
    let mode = euclidean_map(&target, &random_starts(3, 3, 0))?.theta;
    let hessian = target.evaluator().hessian(&mode);
    let start = Start::Around { centre: &mode, deviation: 1.0 };
    let sample = nuts(&target, start, &options(0.8), &|_| ())?;
    sample.verdict()?;
    // Σ = (−∇²ℓ)⁻¹ by its adjugate.
    let h = |i: usize, j: usize| -hessian[(i % 3, j % 3)];
    let minor = |i: usize| h(i + 1, i + 1) * h(i + 2, i + 2) - h(i + 1, i + 2) * h(i + 2, i + 1);
    let cofactor = |j: usize| h(1, j + 1) * h(2, j + 2) - h(1, j + 2) * h(2, j + 1);
    let determinant: f64 = (0..3).map(|j| h(0, j) * cofactor(j)).sum();
    let covariance =
        |i: usize, j: usize| (h(j + 1, i + 1) * h(j + 2, i + 2) - h(j + 1, i + 2) * h(j + 2, i + 1)) / determinant;
    let trace = |l: usize, step: f64| -> f64 {
        let mut theta = mode.clone();
        theta[l] += step;
        let hessian = target.evaluator().hessian(&theta);
        (0..9).map(|jk| covariance(jk / 3, jk % 3) * hessian[(jk / 3, jk % 3)]).sum()
    };
    let slopes: Vec<f64> = (0..3).map(|l| (trace(l, 1e-4) - trace(l, -1e-4)) / 2e-4).collect();
    for i in 0..3 {
        let column = sample.draws.column(i);
        let (mean, variance) = (column.sum() / column.len() as f64, column.var(1.0));
        let shifted = mode[i] + 0.5 * (0..3).map(|l| covariance(i, l) * slopes[l]).sum::<f64>();
        // Five standard errors of the mean with 14,000 effective draws; the next order is smaller.
        assert!((mean - shifted).abs() < 0.042 * variance.sqrt(), "{i}: mean {mean}, expected {shifted}");
        let laplace = minor(i) / determinant;
        assert!(
            (variance / laplace - 1.0).abs() < 0.15,
            "{i}: variance {variance}, of the Laplace approximation {laplace}"
        );
    }
    Ok(())
}

#[test]
fn draws_do_not_depend_on_the_number_of_threads() -> Result<()> {
    let target = ripley()?;
    let options = NutsOptions { chains: 3, warmup: 100, draws: 105, thinning: 10, ..NutsOptions::default() };
    let total = AtomicUsize::new(0);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
        let progress = |done: usize| {
            total.fetch_add(done, Ordering::Relaxed);
        };
        pool.install(|| nuts(&target, Start::StandardNormal, &options, &progress))
    };
    let (one, two) = (run(1)?, run(2)?);
    assert_eq!(one.draws, two.draws);
    assert_eq!(one.reports, two.reports);
    assert_eq!(one.draws.dim(), (3 * 10, 3));
    assert_eq!(total.into_inner(), 2 * options.iterations());

    // The first chain is the same whatever the number of chains, and different for another seed.
    let alone = nuts(&target, Start::StandardNormal, &NutsOptions { chains: 1, ..options }, &|_| ())?;
    assert_eq!(alone.draws, one.draws.view().split_at(Axis(0), 10).0);
    let reseeded = nuts(&target, Start::StandardNormal, &NutsOptions { chains: 1, seed: 9, ..options }, &|_| ())?;
    assert_ne!(reseeded.draws, alone.draws);
    Ok(())
}

#[test]
fn a_run_that_is_too_short_is_refused() -> Result<()> {
    let target = Squiggle::DIFFICULT.target()?;
    let short = NutsOptions { chains: 4, warmup: 50, draws: 50, thinning: 1, ..NutsOptions::default() };
    let sample = nuts(&target, Start::StandardNormal, &short, &|_| ())?;
    let refusal = sample.verdict().expect_err("fifty draws of the difficult squiggle");
    assert!(refusal.r_hat > WORST_R_HAT || refusal.bulk_ess < LEAST_BULK_ESS);
    assert_eq!(refusal.divergences, sample.divergences());
    let error = Error::from(refusal);
    assert!(error.to_string().contains("longer warm-up and more draws"), "{error}");
    assert!(!error.is_input());

    // Too few draws for any diagnostics: unknown is refused too.
    let tiny = NutsOptions { draws: 5, ..short };
    let refusal = nuts(&target, Start::StandardNormal, &tiny, &|_| ())?.verdict().expect_err("five draws");
    assert!(refusal.r_hat.is_nan() && refusal.bulk_ess.is_nan());
    Ok(())
}

/// The neck of the paper's funnel is narrower than the steps: R̂ may be fine, but transitions diverge.
#[test]
fn a_run_that_diverges_is_refused() -> Result<()> {
    let sample = nuts(&Funnel::PAPER.target()?, Start::StandardNormal, &options(0.8), &|_| ())?;
    assert!(sample.divergences() as f64 > MOST_DIVERGENT * sample.transitions() as f64);
    assert_eq!(sample.transitions(), 4 * 5000);
    let refusal = sample.verdict().expect_err("a funnel");
    assert_eq!((refusal.divergences, refusal.transitions), (sample.divergences(), sample.transitions()));
    assert!(refusal.to_string().contains("raise the target acceptance rate"), "{refusal}");
    // A quantity whose chains agree is refused all the same.
    let fair = Array2::from_shape_fn((20_000, 1), |(row, _)| ((row * 7919) % 20_011) as f64);
    let diagnostics = sample.diagnostics_of(fair.view())?;
    assert!(diagnostics.verdict().is_ok());
    let refusal = sample.verdict_on(&diagnostics).expect_err("divergences");
    assert!(!refusal.to_string().contains("longer warm-up"), "{refusal}");
    Ok(())
}

/// The weights of a network need not agree between chains; its outputs must.
#[test]
fn networks_are_judged_by_their_outputs() -> Result<()> {
    let noise = Arc::new(Gaussian::new(0.5).expect("positive"));
    let (target, _) = common::geometry::random_target(&[1, 2, 1], Activation::Tanh, noise, 8, 3);
    let options = NutsOptions { draws: 1500, ..options(0.9) };
    let sample = nuts(&target, Start::StandardNormal, &options, &|_| ())?;
    let mut evaluator = Evaluator::new(target.map(), 1);
    let mut outputs = Array2::zeros((sample.draws.nrows(), 8));
    for (theta, mut row) in sample.draws.rows().into_iter().zip(outputs.rows_mut()) {
        let mut values = vec![0.0; 8];
        evaluator.outputs(&theta.to_vec(), &mut values);
        row.assign(&Array1::from(values));
    }
    let convergence = sample.verdict_on(&sample.diagnostics_of(outputs.view())?)?;
    assert!(convergence.r_hat <= WORST_R_HAT);
    assert!(matches!(sample.diagnostics_of(outputs.view().split_at(Axis(0), 1).1), Err(Error::Size { .. })));
    Ok(())
}

#[test]
fn bad_settings_are_errors() -> Result<()> {
    let target = Identity::gaussian(&[1.0, 2.0])?;
    let small = NutsOptions { chains: 1, warmup: 10, draws: 10, thinning: 1, ..NutsOptions::default() };
    let run = |start: Start<'_>, options: NutsOptions| nuts(&target, start, &options, &|_| ());
    for wrong in [
        NutsOptions { chains: 0, ..small },
        NutsOptions { thinning: 0, ..small },
        NutsOptions { thinning: 11, ..small },
        NutsOptions { draws: 0, ..small },
        NutsOptions { target_accept: 1.0, ..small },
        NutsOptions { target_accept: f64::NAN, ..small },
        NutsOptions { max_tree_depth: 0, ..small },
        NutsOptions { max_tree_depth: 64, ..small },
    ] {
        assert!(matches!(run(Start::StandardNormal, wrong), Err(Error::Chains(_))), "{wrong:?}");
    }
    let around = |centre: &[f64], deviation: f64| run(Start::Around { centre, deviation }, small);
    assert!(matches!(around(&[0.0], 1.0), Err(Error::Size { .. })));
    assert!(matches!(around(&[0.0, f64::NAN], 1.0), Err(Error::NotFinite { column: 1, .. })));
    assert!(matches!(around(&[0.0, 0.0], 0.0), Err(Error::Chains(InvalidChains::StartDeviation(0.0)))));
    // ℓ overflows there.
    assert!(matches!(around(&[1e300, 0.0], 1.0), Err(Error::NoStart { chain: 0, .. })));
    // Without warm-up the first step size is kept; nothing breaks.
    assert!(run(Start::StandardNormal, NutsOptions { warmup: 0, ..small }).is_ok());
    let endless = NutsOptions { chains: usize::MAX / 2, draws: usize::MAX / 2, ..small };
    assert!(matches!(run(Start::StandardNormal, endless), Err(Error::Memory { .. })));
    Ok(())
}

/// The paper's sizes: `cargo test --release --test reference -- --ignored --nocapture paper`.
#[test]
#[ignore = "takes a minute; prints seconds, R-hat and effective sample sizes"]
fn paper_size_runs() -> Result<()> {
    let banana = Banana::target(&banana_observations())?;
    report("banana", &banana, &NutsOptions { target_accept: 0.95, ..NutsOptions::default() })?.verdict()?;
    report("ripley", &ripley()?, &NutsOptions::default())?.verdict()?;
    report("squiggle", &Squiggle::MAIN.target()?, &NutsOptions { target_accept: 0.95, ..NutsOptions::default() })?;
    report("funnel", &Funnel::PAPER.target()?, &NutsOptions { target_accept: 0.95, ..NutsOptions::default() })?;
    Ok(())
}

fn report(name: &str, target: &Target, options: &NutsOptions) -> Result<ReferenceSample> {
    let start = Instant::now();
    let sample = nuts(target, Start::StandardNormal, options, &|_| ())?;
    println!(
        "{name}: {:.1} s on {} threads, {} draws, {} gradients, {} divergences, {} at full depth, {:?}",
        start.elapsed().as_secs_f64(),
        rayon::current_num_threads(),
        sample.draws.nrows(),
        sample.gradients(),
        sample.divergences(),
        sample.depth_limited(),
        sample.verdict(),
    );
    Ok(sample)
}

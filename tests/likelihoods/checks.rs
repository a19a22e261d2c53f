//! What every likelihood must satisfy.

use ndarray::Array2;
use riemannian_laplace::internals::evidence::{ModeOptions, Noise, train_to_mode};
use riemannian_laplace::internals::likelihood::{LatentPoint, Likelihood, TargetKind};
use riemannian_laplace::{
    Activation, Dataset, EvidenceOptions, Family, FitOptions, Laplace, Link, Method, Network, Prediction, Structure,
};

use crate::common::{Outcome, architecture, draw_targets, forward, normal_matrix, random_data, random_network};

pub fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance * (1.0 + expected.abs()), "{what}: {found} for {expected}");
}

fn vector(length: usize, fill: impl Fn(&mut [f64])) -> Vec<f64> {
    let mut values = vec![f64::NAN; length];
    fill(&mut values);
    values
}

/// f(x + h) − f(x − h) over 2h.
fn difference(f: impl Fn(f64) -> f64, x: f64, h: f64) -> f64 {
    (f(x + h) - f(x - h)) / (2.0 * h)
}

/// Scores, observed information and isometric outputs by differences; R and H; ḟᵀHḟ and the observed form.
pub fn derivatives(likelihood: &dyn Likelihood, targets: &[f64], outputs: &[f64]) {
    let name = likelihood.name();
    let gradient = |y: f64, f: f64| vector(1, |into| likelihood.gradient(&[y], &[f], into))[0];
    let fisher = |f: f64| vector(1, |into| likelihood.fisher(&[f], into))[0];
    let isometric = |f: f64| vector(1, |into| assert!(likelihood.isometric(&[f], into)))[0];
    for &f in outputs {
        for &y in targets {
            close(gradient(y, f), difference(|f| likelihood.log_density(&[y], &[f]), f, 1e-5), 1e-8, name);
            let observed = vector(1, |into| likelihood.observed_information(&[y], &[f], into))[0];
            close(observed, -difference(|f| gradient(y, f), f, 1e-5), 1e-8, name);
            close(likelihood.observed_quadratic(&[y], &[f], &[1.3]), 1.69 * observed, 1e-12, name);
            assert!(likelihood.largest_log_density(&[y]).unwrap() >= likelihood.log_density(&[y], &[f]), "{name}");
            let deviance = likelihood.deviance(&[y], &[f]);
            assert!(deviance >= 0.0, "{name}: deviance {deviance}");
        }
        let root = vector(1, |into| likelihood.whitening(&[f], into))[0];
        close(root * root, fisher(f), 1e-14, name);
        close(likelihood.fisher_quadratic(&[f], &[1.3]), 1.69 * fisher(f), 1e-13, name);
        close(vector(1, |into| likelihood.deviations(&[f], into))[0], root, 1e-15, name);
        close(root, difference(isometric, f, 1e-5), 1e-8, name);
        let (mut slope, mut bend) = ([0.0], [0.0]);
        assert!(likelihood.isometry(&[f], &mut slope, &mut bend));
        close(slope[0], root, 1e-14, name);
        close(bend[0], difference(|f| vector(1, |into| likelihood.whitening(&[f], into))[0], f, 1e-5), 1e-8, name);
    }
}

/// R z = H f̈ + C(ḟ, ḟ), where C = ½ H′ ḟ² comes from differences of the Fisher metric.
pub fn force(likelihood: &dyn Likelihood, outputs: &[f64]) {
    for &f in outputs {
        let fisher = |f: f64| vector(1, |into| likelihood.fisher(&[f], into))[0];
        let (first, second) = (0.7, -0.4);
        let christoffel = 0.5 * difference(fisher, f, 1e-5) * first * first;
        let expected = fisher(f) * second + christoffel;
        let root = vector(1, |into| likelihood.whitening(&[f], into))[0];
        let force = vector(1, |into| likelihood.whitened_force(&[f], &[first], &[second], into))[0];
        close(root * force, expected, 1e-9, likelihood.name());
    }
}

/// Points with their weights over which densities are summed: whole numbers, or a fine grid in tan or in the logarithm.
fn support(kind: TargetKind, centre: f64, spread: f64) -> Vec<(f64, f64)> {
    match kind {
        TargetKind::Positive => {
            let step = 50.0 / 40_000.0;
            (0..40_000).map(|i| centre * (step * f64::from(i) - 42.0).exp()).map(|y| (y, step * y)).collect()
        }
        kind if kind.is_whole() => (0..4000).map(|y| (f64::from(y), 1.0)).collect(),
        _ => {
            const NODES: i32 = 40_000;
            let step = std::f64::consts::PI / f64::from(NODES);
            let at = |i: i32| {
                let angle = -std::f64::consts::FRAC_PI_2 + step * (f64::from(i) + 0.5);
                (centre + spread * angle.tan(), step * spread / angle.cos().powi(2))
            };
            (0..NODES).map(at).collect()
        }
    }
}

/// Mass 1, mean, variance, E score = 0, E score² = H and the distribution function, by sums over the support.
pub fn expectations(likelihood: &dyn Likelihood, outputs: &[f64]) {
    let name = likelihood.name();
    for &f in outputs {
        let mean = vector(1, |into| likelihood.mean(&[f], into))[0];
        let variance = vector(1, |into| likelihood.variance(&[f], into))[0];
        let fisher = vector(1, |into| likelihood.fisher(&[f], into))[0];
        let (mut mass, mut first, mut second, mut score, mut square) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (index, (y, weight)) in support(likelihood.kind(), mean, variance.sqrt()).into_iter().enumerate() {
            let p = weight * likelihood.log_density(&[y], &[f]).exp();
            let s = vector(1, |into| likelihood.gradient(&[y], &[f], into))[0];
            (mass, first, second) = (mass + p, first + p * y, second + p * (y - mean).powi(2));
            (score, square) = (score + p * s, square + p * s * s);
            if index % 997 == 0 {
                let whole = likelihood.kind().is_whole();
                let expected = if whole { mass } else { mass - 0.5 * p };
                close(likelihood.cumulative(&[f], 0, y), expected, 1e-5, name);
                let below = if whole { mass - 0.5 * p } else { expected };
                close(likelihood.rank(&[f], 0, y), below, 1e-5, name);
            }
        }
        close(mass, 1.0, 1e-9, name);
        close(first, mean, 1e-4, name);
        // Heavy tails: the grid ends where its last cells are as wide as the rest.
        close(second, variance, 2e-2, name);
        close(score, 0.0, 1e-9, name);
        close(square, fisher, 1e-8, name);
    }
}

/// Moments, density and distribution function under a Gaussian over the output, against sums over its values.
pub fn under_a_gaussian(likelihood: &dyn Likelihood, mean: f64, deviation: f64, targets: &[f64]) {
    let name = likelihood.name();
    let latent = LatentPoint { mean: vec![mean], covariance: vec![deviation * deviation] };
    let nodes: Vec<(f64, f64)> = (-4000..=4000)
        .map(|i| {
            let x = f64::from(i) / 400.0;
            (mean + deviation * x, (-0.5 * x * x).exp() / (400.0 * (2.0 * std::f64::consts::PI).sqrt()))
        })
        .collect();
    let moments = likelihood.moments_under(&latent);
    let of = |f: f64, what: &dyn Fn(&[f64], &mut [f64])| vector(1, |into| what(&[f], into))[0];
    let average = |g: &dyn Fn(f64) -> f64| nodes.iter().map(|(f, w)| w * g(*f)).sum::<f64>();
    let first = average(&|f| of(f, &|f, into| likelihood.mean(f, into)));
    let second = average(&|f| of(f, &|f, into| likelihood.mean(f, into)).powi(2));
    let noise = average(&|f| of(f, &|f, into| likelihood.variance(f, into)));
    close(moments.mean[0], first, 1e-9, name);
    close(moments.epistemic[0], second - first * first, 1e-8, name);
    close(moments.aleatoric[0], noise, 1e-9, name);
    let marginal = likelihood.marginal_under(&latent, 0);
    for &y in targets {
        let density = average(&|f| likelihood.log_density(&[y], &[f]).exp()).ln();
        close(likelihood.log_density_under(&latent, &[y]).unwrap(), density, 1e-8, name);
        // The mean over a hundred equally likely outputs.
        close(marginal.cumulative(y), average(&|f| likelihood.cumulative(&[f], 0, y)), 3e-3, name);
    }
    for level in [0.05, 0.5, 0.95] {
        let y = marginal.quantile(level);
        match likelihood.kind().is_whole() {
            true => assert!(marginal.cumulative(y) >= level && marginal.cumulative(y - 1.0) < level, "{name}"),
            false => close(marginal.cumulative(y), level, 1e-9, name),
        }
    }
    // ∫ (F − 1{observed ≤ x})² dx by plain steps.
    if !likelihood.kind().is_whole() {
        let (low, high, observed) = (marginal.quantile(1e-5), marginal.quantile(1.0 - 1e-5), targets[0]);
        let step = (high - low) / 4000.0;
        let score: f64 = (0..4000)
            .map(|i| {
                let x = low + step * (f64::from(i) + 0.5);
                step * (marginal.cumulative(x) - if observed <= x { 1.0 } else { 0.0 }).powi(2)
            })
            .sum();
        close(marginal.crps(observed), score, 5e-3, name);
    }
}

/// Evidence and predictive covariance agree in weight space and function space; every structure fits and predicts; its own
/// file gives the same posterior.
pub fn structures(family: &Family) -> Outcome {
    each_structure(family, |prediction, name| {
        let (lower, upper) = prediction.interval(0.9)?;
        assert!(lower.iter().zip(&upper).all(|(low, high)| low <= high && high.is_finite()), "{name}");
        Ok(())
    })
}

/// The same of classes, whose probabilities add up to 1.
pub fn structures_of_classes(family: &Family) -> Outcome {
    each_structure(family, |prediction, name| {
        prediction.mean.rows().into_iter().for_each(|row| close(row.sum(), 1.0, 1e-9, name));
        Ok(())
    })
}

fn each_structure(family: &Family, check: impl Fn(&Prediction, &str) -> Outcome) -> Outcome {
    let network = random_network(architecture(&[2, 5, 1], &[true, true], Activation::Tanh), 7);
    let data = random_data(&network, family, 20, 3);
    let fit = |structure: Structure| {
        let options = FitOptions { structure, prior_precision: 0.7.into(), ..Default::default() };
        Laplace::fit(network.clone(), data.clone(), family.clone(), &options)
    };
    let (weight, function) = (fit(Structure::WeightSpace)?, fit(Structure::FunctionSpace)?);
    close(weight.log_marginal_likelihood(), function.log_marginal_likelihood(), 1e-11, "evidence");
    let inputs = normal_matrix(6, 2, 9);
    let (one, other) = (weight.linearized(&inputs)?, function.linearized(&inputs)?);
    for (a, b) in one.covariance.iter().zip(&other.covariance) {
        close(*a, *b, 1e-10, "covariance");
    }
    for structure in ["full", "kron", "diag", "low-rank:5", "matrix-free"] {
        let laplace = fit(structure.parse()?)?;
        let prediction = laplace.predict(&inputs, &Method::Glm(Link::default()))?;
        check(&prediction, structure)?;
        let logs = prediction.log_densities(&draw_targets(
            family,
            &forward(network.architecture(), network.parameters(), &inputs),
            4,
        ))?;
        assert!(logs.iter().all(|log| log.is_finite()), "{structure}");
    }
    let path =
        std::env::temp_dir().join(format!("rla-{}-{}.safetensors", family.likelihood().name(), std::process::id()));
    weight.save(&path, riemannian_laplace::Contents::TrainingData)?;
    let loaded = Laplace::load(&path);
    std::fs::remove_file(&path)?;
    assert_eq!(loaded?.family(), family);
    Ok(())
}

/// Targets drawn from a line: its weights and the dispersion parameters are found again within three standard errors, and
/// 90 % intervals hold 88 % to 92 % of 2,000 new points.
pub fn recovery(truth: &Family, start: &Family, line: [f64; 2]) -> Outcome {
    let (laplace, held_out) = found_again(truth, start, line)?;
    let prediction = laplace.predict(held_out.inputs(), &Method::Glm(Link::default()))?;
    let (lower, upper) = prediction.interval(0.9)?;
    let ends = lower.iter().zip(&upper).zip(held_out.targets());
    let inside = ends.filter(|((low, high), y)| (**low..=**high).contains(*y)).count() as f64 / held_out.len() as f64;
    println!("{}: 90 % intervals hold {:.1} %", truth.likelihood().name(), 100.0 * inside);
    assert!((0.88..=0.92).contains(&inside), "coverage {inside}");
    Ok(())
}

/// The weights of a line and the dispersion parameters behind drawn targets, found again; and 2,000 new points.
pub fn found_again(
    truth: &Family,
    start: &Family,
    line: [f64; 2],
) -> Result<(Laplace, Dataset), Box<dyn std::error::Error>> {
    const TRAINING: usize = 1500;
    let shape = || architecture(&[1, 1], &[true], Activation::Identity);
    let source = Network::new(shape(), line.to_vec())?;
    let draw = |points: usize, seed: u64| {
        let inputs = normal_matrix(points, 1, seed);
        let outputs = forward(source.architecture(), source.parameters(), &inputs);
        Dataset::new(inputs, draw_targets(truth, &outputs, seed + 1))
    };
    let (data, held_out) = (draw(TRAINING, 11)?, draw(2000, 12)?);
    let (mut network, mut family) = (Network::new(shape(), vec![0.0, 0.0])?, start.clone());
    let mut laplace = None;
    // Weights and dispersion in turn.
    for _ in 0..3 {
        let options = ModeOptions { noise: Noise::Fixed, ..Default::default() };
        let mode = train_to_mode(&network, &data, &family, &options, &())?;
        let mut fitted = Laplace::fit(mode.network.clone(), data.clone(), family.clone(), &FitOptions::default())?;
        assert!(fitted.optimize(&EvidenceOptions::default())?.converged);
        (network, family) = (mode.network, fitted.family().clone());
        laplace = Some(fitted);
    }
    let laplace = laplace.ok_or("fitted")?;
    // The standard errors of the weights: those of f at 0 and of f at 1 less f at 0.
    let joint = laplace.linearized_joint(&Array2::from_shape_vec((2, 1), vec![0.0, 1.0])?)?.covariance;
    let errors = [(joint[(0, 0)] + joint[(1, 1)] - 2.0 * joint[(0, 1)]).sqrt(), joint[(0, 0)].sqrt()];
    for ((found, expected), error) in laplace.parameters().iter().zip(line).zip(errors) {
        assert!((found - expected).abs() < 3.0 * error, "weight {found} for {expected} ± {error}");
    }
    let (found, expected) = (family.likelihood().dispersions(), truth.likelihood().dispersions());
    let free = |moved: &[f64]| {
        let values: Vec<f64> = found.iter().zip(moved).map(|(parameter, free)| parameter.at(*free)).collect();
        laplace.with_dispersions(&values).map(|laplace| laplace.log_marginal_likelihood())
    };
    let centre: Vec<f64> = found.iter().map(|parameter| parameter.free()).collect();
    // Minus the Hessian of the evidence in the free coordinates, by second differences; its inverse's diagonal.
    let (h, n) = (0.02, centre.len());
    let mut hessian = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..n {
            let at = |a: f64, b: f64| {
                let mut moved = centre.clone();
                moved[i] += a * h;
                moved[j] += b * h;
                free(&moved)
            };
            hessian[i][j] = -(at(1.0, 1.0)? - at(1.0, -1.0)? - at(-1.0, 1.0)? + at(-1.0, -1.0)?) / (4.0 * h * h);
        }
    }
    let variance = |k: usize| match n {
        1 => 1.0 / hessian[0][0],
        _ => hessian[1 - k][1 - k] / (hessian[0][0] * hessian[1][1] - hessian[0][1] * hessian[1][0]),
    };
    for (k, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let (gap, error) = (found.free() - expected.free(), variance(k).sqrt());
        println!("{}: {} for {}, {:.2} standard errors", found.name, found.value, expected.value, gap / error);
        assert!(gap.abs() < 3.0 * error, "{}: {} for {} ± {error} (log)", found.name, found.value, expected.value);
    }
    Ok((laplace, held_out))
}

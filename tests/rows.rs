//! What is known of rows besides their targets: weights against replicated rows, known noise against a likelihood that is told
//! it, counts of trials against single trials.

use std::path::Path;
use std::process::Command;

use ndarray::{Array2, Axis, array, concatenate};
use riemannian_laplace::Result;
use riemannian_laplace::internals::data::KnownColumn;
use riemannian_laplace::internals::evaluate::ClosedForms;
use riemannian_laplace::internals::evidence::{ModeOptions, Noise, train_to_mode};
use riemannian_laplace::internals::geodesic::{MetricOptions, sample_densities};
use riemannian_laplace::internals::likelihood::Known;
use riemannian_laplace::internals::predict::Link;
use riemannian_laplace::prelude::*;

const WEIGHTS: [f64; 12] = [2.0, 1.0, 0.0, 3.0, 1.0, 1.0, 2.0, 0.0, 1.0, 4.0, 1.0, 2.0];

fn inputs() -> Array2<f64> {
    Array2::from_shape_fn((12, 2), |(n, k)| (0.7 * n as f64 + 1.3 * k as f64).sin())
}

fn targets(family: &Family) -> Array2<f64> {
    let inputs = inputs();
    let of = |n: usize| match family.likelihood().name() {
        "categorical" | "ordinal" => (n % 3) as f64,
        "bernoulli" => (n % 2) as f64,
        "poisson" | "negative-binomial" => (n % 5) as f64,
        "gamma" => 0.3 + (n % 4) as f64,
        _ => inputs[(n, 0)] - 0.5 * inputs[(n, 1)] + 0.1 * (5.0 * n as f64).cos(),
    };
    Array2::from_shape_fn((12, 1), |(n, _)| of(n))
}

fn with_column(targets: &Array2<f64>, column: &[f64]) -> Array2<f64> {
    let column = Array2::from_shape_fn((column.len(), 1), |(n, _)| column[n]);
    concatenate(Axis(1), &[targets.view(), column.view()]).expect("two columns of one length")
}

fn known(kinds: &[Known]) -> Vec<KnownColumn> {
    kinds.iter().map(|kind| KnownColumn { name: kind.name().to_string(), kind: *kind }).collect()
}

fn dataset(inputs: Array2<f64>, targets: Array2<f64>, kinds: &[Known]) -> Result<Dataset> {
    let n_targets = targets.ncols() - kinds.len();
    let schema = Schema::unnamed(inputs.ncols(), n_targets).with_known(known(kinds))?;
    Dataset::new(inputs, targets)?.with_schema(schema)
}

/// The same rows with weights, and each as often as its weight says.
fn weighted_and_replicated(family: &Family) -> Result<(Dataset, Dataset)> {
    let (inputs, targets) = (inputs(), targets(family));
    let weighted = dataset(inputs.clone(), with_column(&targets, &WEIGHTS), &[Known::Weight])?;
    let copies: Vec<usize> = (0..12).flat_map(|n| std::iter::repeat_n(n, WEIGHTS[n] as usize)).collect();
    Ok((weighted, Dataset::new(inputs, targets)?.select(&copies)?))
}

fn network(family: &Family) -> Result<Network> {
    let outputs = match family.likelihood().name() {
        "categorical" => 3,
        "heteroscedastic" => 2,
        _ => 1,
    };
    Ok(Network::random(Architecture::new(&[2, 3, outputs], Activation::Tanh)?, 3))
}

fn family(name: &str) -> Result<Family> {
    let family = name.parse::<Family>()?;
    match family.likelihood().for_classes(&[4.0, 4.0, 4.0]) {
        Some(likelihood) => Ok(Family::from(likelihood)),
        None => family.with_sigma(&[0.4]),
    }
}

const NAMES: [&str; 9] = [
    "gaussian",
    "heteroscedastic",
    "categorical",
    "bernoulli",
    "poisson",
    "student-t",
    "gamma",
    "negative-binomial",
    "ordinal",
];

fn close(one: f64, other: f64, what: &str) {
    assert!((one - other).abs() < 1e-10 * (1.0 + other.abs()), "{what}: {one} for {other}");
}

#[test]
fn a_row_of_weight_two_is_the_row_twice_in_every_likelihood_structure_and_curvature() -> Result<()> {
    for name in NAMES {
        let family = family(name)?;
        let (weighted, replicated) = weighted_and_replicated(&family)?;
        for structure in [
            Structure::WeightSpace,
            Structure::FunctionSpace,
            Structure::Diagonal,
            Structure::Kronecker,
            Structure::LowRank(5),
            Structure::MatrixFree(200),
        ] {
            for curvature in [CurvatureKind::Ggn, CurvatureKind::EmpiricalFisher, CurvatureKind::Hessian] {
                if curvature == CurvatureKind::Hessian && structure != Structure::WeightSpace {
                    continue;
                }
                let options = FitOptions {
                    structure,
                    curvature,
                    prior_precision: PriorValues::Shared(8.0),
                    ..FitOptions::default()
                };
                let fit = |data: &Dataset| Laplace::fit(network(&family)?, data.clone(), family.clone(), &options);
                let (one, other) = match (fit(&weighted), fit(&replicated)) {
                    (Ok(one), Ok(other)) => (one, other),
                    // Both are refused, or the test fails: an indefinite Hessian, a structure without this curvature.
                    (Err(one), Err(other)) => {
                        assert_eq!(
                            std::mem::discriminant(&one),
                            std::mem::discriminant(&other),
                            "{name} {one} {other}"
                        );
                        continue;
                    }
                    (one, other) => panic!("{name} {structure} {curvature:?}: {:?} {:?}", one.err(), other.err()),
                };
                let what = format!("{name} {structure} {curvature:?}");
                close(one.log_likelihood(), other.log_likelihood(), &what);
                if matches!(structure, Structure::MatrixFree(_)) {
                    // Its draws are of rows, of which there are more: compared by moments elsewhere.
                    continue;
                }
                close(one.log_marginal_likelihood(), other.log_marginal_likelihood(), &what);
                close(one.effective_parameters(), other.effective_parameters(), &what);
                let at = array![[0.3, -0.8], [2.0, 1.0]];
                let latent = |laplace: &Laplace| {
                    laplace.predict(&at, &Method::Glm(Link::default())).and_then(|prediction| prediction.latent())
                };
                let (Some(a), Some(b)) = (latent(&one)?, latent(&other)?) else { panic!("linearised") };
                a.covariance.iter().zip(&b.covariance).for_each(|(a, b)| close(*a, *b, &what));
            }
        }
    }
    Ok(())
}

#[test]
fn tuning_sees_weights_as_copies() -> Result<()> {
    for name in ["gaussian", "negative-binomial", "student-t"] {
        let family = family(name)?;
        let (weighted, replicated) = weighted_and_replicated(&family)?;
        let tuned = |data: &Dataset| -> Result<Laplace> {
            let mut laplace = Laplace::fit(network(&family)?, data.clone(), family.clone(), &FitOptions::default())?;
            laplace.optimize(&EvidenceOptions::default())?;
            Ok(laplace)
        };
        let (one, other) = (tuned(&weighted)?, tuned(&replicated)?);
        let figures = |laplace: &Laplace| -> Vec<f64> {
            let mut all = laplace.prior().values().to_vec();
            all.extend(laplace.family().sigma().unwrap_or_default());
            all.extend(laplace.dispersions().into_iter().map(|(_, value)| value));
            all
        };
        for (a, b) in figures(&one).into_iter().zip(figures(&other)) {
            assert!((a / b - 1.0).abs() < 1e-4, "{name}: {a} for {b}");
        }
        assert!((one.log_marginal_likelihood() - other.log_marginal_likelihood()).abs() < 1e-7);
    }
    Ok(())
}

/// All copies of a row left out together: the cavity is that of the replicated data without them.
#[test]
fn leave_one_out_leaves_out_all_copies() -> Result<()> {
    let family = family("gaussian")?;
    let (weighted, _) = weighted_and_replicated(&family)?;
    // A linear model, whose posterior without some rows is exact.
    let network = Network::random(Architecture::new(&[2, 1], Activation::Identity)?, 1);
    let mode = |data: &Dataset| -> Result<Laplace> {
        let options = ModeOptions {
            prior_precision: PriorValues::Shared(2.0),
            noise: Noise::Fixed,
            tolerance: 1e-12,
            ..Default::default()
        };
        Ok(train_to_mode(&network, data, &family, &options, &())?.laplace)
    };
    let all = mode(&weighted)?;
    let loo = ClosedForms::of(&all, Link::default())?.linearized;
    for row in [0, 3, 9] {
        let rest: Vec<usize> = (0..12).filter(|n| *n != row).collect();
        let without = mode(&weighted.select(&rest)?)?;
        let prediction = without.predict(&weighted.inputs().select(Axis(0), &[row]), &Method::default())?;
        let log = prediction.log_densities(&weighted.targets().select(Axis(0), &[row]))?[0];
        assert!(
            (loo.pointwise[row] - WEIGHTS[row] * log).abs() < 1e-7,
            "{} {}",
            loo.pointwise[row],
            WEIGHTS[row] * log
        );
    }
    assert_eq!(loo.pointwise[2], 0.0);
    Ok(())
}

/// Noise that is known is that of a heteroscedastic model whose log variances are told it.
#[test]
fn known_noise_is_that_of_a_heteroscedastic_reference() -> Result<()> {
    let family = Family::gaussian(0.3)?.with_known(&[Known::Noise])?;
    let noise: Vec<f64> = (0..12).map(|n| 0.1 + 0.05 * n as f64).collect();
    let data = dataset(inputs(), with_column(&targets(&Family::gaussian(1.0)?), &noise), &[Known::Noise])?;
    let network = network(&family)?;
    let laplace = Laplace::fit(network.clone(), data.clone(), family.clone(), &FitOptions::default())?;
    // By hand: G = A + Σ JᵀJ/(s² + σ²), and the log likelihood.
    let mean = network.outputs(data.inputs().view())?;
    let expected: f64 = (0..12)
        .map(|n| {
            let total = noise[n].hypot(0.3);
            let error = (data.targets()[(n, 0)] - mean[(n, 0)]) / total;
            -0.5 * error * error - total.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln()
        })
        .sum();
    close(laplace.log_likelihood(), expected, "log likelihood");
    for structure in [Structure::WeightSpace, Structure::FunctionSpace] {
        let fit = Laplace::fit(
            network.clone(),
            data.clone(),
            family.clone(),
            &FitOptions { structure, ..Default::default() },
        )?;
        close(fit.log_marginal_likelihood(), laplace.log_marginal_likelihood(), "the two exact structures");
    }
    // The heteroscedastic likelihood at each row has the same density of y.
    let reference = "heteroscedastic".parse::<Family>()?;
    for n in 0..12 {
        let row = data.targets().row(n).to_vec();
        let own = family.of_row(&row, 1);
        let told = [mean[(n, 0)], 2.0 * noise[n].hypot(0.3).ln()];
        close(
            own.likelihood.log_density(own.target, &told[..1]),
            reference.likelihood().log_density(&row[..1], &told),
            "density",
        );
    }
    // Predictions at rows whose noise is known have it, others do not.
    let prediction = laplace.predict(data.inputs(), &Method::default())?;
    close(prediction.aleatoric_variance[(4, 0)], 0.09, "σ² alone");
    let here = prediction.with_known(data.targets().select(Axis(1), &[1]).view())?;
    close(here.aleatoric_variance[(4, 0)], 0.09 + noise[4].powi(2), "σ² + s²");
    Ok(())
}

#[test]
fn noise_columns_follow_the_scaling_of_their_targets() -> Result<()> {
    let noise: Vec<f64> = (0..12).map(|n| 1.0 + 0.5 * n as f64).collect();
    let targets = targets(&Family::gaussian(1.0)?).mapv(|y| 100.0 + 10.0 * y);
    let data = dataset(inputs(), with_column(&targets, &noise), &[Known::Noise])?;
    let scaled = data.standardized(Standardize::InputsAndTargets)?;
    let scale = scaled.schema().scaling().and_then(|scaling| scaling.targets.as_ref()).expect("scaled").scale()[0];
    close(scaled.targets()[(3, 1)], noise[3] / scale, "noise in units of the standardised target");
    let restored = scaled.schema().restore_targets(scaled.targets().view())?;
    restored.iter().zip(data.targets()).for_each(|(a, b)| close(*a, *b, "there and back"));
    Ok(())
}

#[test]
fn k_of_n_trials_are_n_answers_of_which_k_are_yes() -> Result<()> {
    let family: Family = "binomial".parse()?;
    let trials = [3.0, 1.0, 4.0, 2.0, 5.0, 1.0, 2.0, 3.0, 6.0, 2.0, 1.0, 4.0];
    let successes: Vec<f64> = (0..12).map(|n| (n as f64 % (trials[n] + 1.0)).floor()).collect();
    let counts = Array2::from_shape_fn((12, 1), |(n, _)| successes[n]);
    let data = dataset(inputs(), with_column(&counts, &trials), &[Known::Trials])?;
    let mut rows = Vec::new();
    let mut answers = Vec::new();
    for n in 0..12 {
        for trial in 0..trials[n] as usize {
            rows.push(n);
            answers.push(if (trial as f64) < successes[n] { 1.0 } else { 0.0 });
        }
    }
    let answers = Array2::from_shape_vec((answers.len(), 1), answers).expect("a column");
    let single = Dataset::new(inputs().select(Axis(0), &rows), answers)?;
    let network = network(&family)?;
    let one = Laplace::fit(network.clone(), data.clone(), family.clone(), &FitOptions::default())?;
    let other = Laplace::fit(network, single, "bernoulli".parse()?, &FitOptions::default())?;
    close(one.log_det_ratio(), other.log_det_ratio(), "log det");
    // The log likelihoods differ by Σ log C(n, k).
    let choose = |n: f64, k: f64| (1..=k as usize).map(|i| ((n - k + i as f64) / i as f64).ln()).sum::<f64>();
    let constant: f64 = (0..12).map(|n| choose(trials[n], successes[n])).sum();
    close(one.log_likelihood(), other.log_likelihood() + constant, "log likelihood");
    let prediction = one.predict(data.inputs(), &Method::default())?;
    let here = prediction.with_known(data.targets().select(Axis(1), &[1]).view())?;
    close(here.mean[(4, 0)], 5.0 * prediction.mean[(4, 0)], "expected successes");
    Ok(())
}

#[test]
fn rows_with_impossible_values_are_named() -> Result<()> {
    let family = Family::gaussian(0.3)?;
    let mut rows = with_column(&targets(&family), &WEIGHTS);
    rows[(7, 1)] = -1.0;
    let data = dataset(inputs(), rows, &[Known::Weight])?;
    let error = Laplace::fit(network(&family)?, data, family.clone(), &FitOptions::default()).unwrap_err().to_string();
    assert!(error.contains("a weight of at least 0") && error.contains("-1"), "{error}");
    let poisson: Family = "poisson".parse()?;
    let error = poisson.with_known(&[Known::Noise]).unwrap_err().to_string();
    assert!(error.contains("poisson") && error.contains("noise"), "{error}");
    let error = "binomial".parse::<Family>()?.with_known(&[]).unwrap_err().to_string();
    assert!(error.contains("trials"), "{error}");
    Ok(())
}

/// Certified geodesics of weighted rows end where those of replicated rows do.
#[test]
fn geodesics_of_weighted_rows_are_those_of_their_copies() -> Result<()> {
    for name in ["gaussian", "poisson", "ordinal"] {
        let family = family(name)?;
        let (weighted, replicated) = weighted_and_replicated(&family)?;
        let options = FitOptions {
            prior_precision: PriorValues::Shared(8.0),
            structure: Structure::WeightSpace,
            ..Default::default()
        };
        let ends = |data: &Dataset| -> Result<Array2<f64>> {
            let laplace = Laplace::fit(network(&family)?, data.clone(), family.clone(), &options)?;
            let sampler = SamplerOptions { range: 0..3, seed: 5, ..Default::default() };
            Ok(laplace.sample_riemannian(MetricName::Fisher, &sampler, &())?.theta)
        };
        let (one, other) = (ends(&weighted)?, ends(&replicated)?);
        for (a, b) in one.iter().zip(&other) {
            assert!((a - b).abs() < 1e-6, "{name}: {a} for {b}");
        }
    }
    Ok(())
}

/// So do those of networks with kinks, whose residuals count the rows, and densities of samples are of the rows' own coordinates.
#[test]
fn residuals_and_densities_of_samples_see_weights_as_copies() -> Result<()> {
    let family = family("gaussian")?;
    let (weighted, replicated) = weighted_and_replicated(&family)?;
    // One structure for both, since draws are its own: there are fewer rows than copies.
    let (prior_precision, structure) = (PriorValues::Shared(8.0), Structure::WeightSpace);
    let options = FitOptions { prior_precision, structure, ..Default::default() };
    let fitted = |data: &Dataset, activation: Activation| {
        let network = Network::random(Architecture::new(&[2, 3, 1], activation)?, 3);
        Laplace::fit(network, data.clone(), family.clone(), &options)
    };
    let sampler = SamplerOptions { range: 0..3, seed: 5, ..Default::default() };
    let residuals = |data: &Dataset| -> Result<String> {
        // Without rounding, whose width follows from the rows as they are in the data.
        let how = MetricOptions { smoothing: Smoothing::None, ..Default::default() };
        let laplace = fitted(data, Activation::Relu)?;
        let samples = laplace.sample_riemannian_with(MetricName::Fisher, &how, &sampler, &())?;
        Ok(format!("{:.6?}", samples.residuals))
    };
    assert_eq!(residuals(&weighted)?, residuals(&replicated)?);
    for metric in [MetricName::Fisher, MetricName::EmpiricalFisher] {
        let (one, other) = (fitted(&weighted, Activation::Tanh)?, fitted(&replicated, Activation::Tanh)?);
        let densities = |laplace: &Laplace| sample_densities(laplace, metric, 0..3, 5, &());
        let (a, b) = (densities(&one)?.log_weight, densities(&other)?.log_weight);
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-6 * (1.0 + b.abs())), "{metric:?}: {a:?} for {b:?}");
        let ends = |laplace: &Laplace| laplace.sample_riemannian(metric, &sampler, &());
        let (a, b) = (ends(&one)?.theta, ends(&other)?.theta);
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5), "{metric:?}: {a} for {b}");
    }
    Ok(())
}

/// Runs the program; its standard output, or its message.
fn rla(arguments: &[&str], folder: &Path) -> (bool, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_rla")).args(arguments).current_dir(folder).output().expect("rla runs");
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(text).expect("text"))
}

fn evidence(arguments: &[&str], folder: &Path) -> f64 {
    let (done, text) = rla(arguments, folder);
    assert!(done, "{text}");
    let key = "\"log_marginal_likelihood\":";
    let rest = &text[text.find(key).expect("the evidence") + key.len()..];
    let end = rest.find([',', '\n']).expect("its end");
    rest[..end].trim().parse().expect("a number")
}

/// Whole, in batches, and in parts that are merged, the program counts rows by their weights.
#[test]
fn the_program_reads_weights_in_every_way_that_it_reads_rows() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let family = family("gaussian")?;
    network(&family)?.save(&folder.path().join("model.safetensors"))?;
    let (inputs, targets) = (inputs(), targets(&family));
    let mut weighted = "a,w,b,y\n".to_string();
    let mut replicated = "a,b,y\n".to_string();
    // Several blocks of rows, so that parts are not empty.
    for repeat in 0..20 {
        for n in 0..12 {
            let (a, b, y) = (inputs[(n, 0)] + 0.01 * f64::from(repeat), inputs[(n, 1)], targets[(n, 0)]);
            weighted += &format!("{a},{},{b},{y}\n", WEIGHTS[n]);
            replicated += &format!("{a},{b},{y}\n").repeat(WEIGHTS[n] as usize);
        }
    }
    std::fs::write(folder.path().join("w.csv"), weighted).expect("written");
    std::fs::write(folder.path().join("r.csv"), replicated).expect("written");
    let common = [
        "--model",
        "model.safetensors",
        "--activation",
        "tanh",
        "--target",
        "y",
        "--likelihood",
        "gaussian",
        "--sigma",
        "0.5",
    ];
    let fit = |data: &'static str, more: &[&'static str], out: &'static str| {
        [&["fit", "--json", "--data", data, "--out", out][..], &common, more].concat()
    };
    let expected = evidence(&fit("r.csv", &[], "r.safetensors"), folder.path());
    let weights = ["--weights-column", "w"];
    close(evidence(&fit("w.csv", &weights, "whole.safetensors"), folder.path()), expected, "whole");
    let streamed = [&weights[..], &["--without-data"]].concat();
    close(evidence(&fit("w.csv", &streamed, "streamed.safetensors"), folder.path()), expected, "in batches");
    for (shard, out) in [("1/2", "one.safetensors"), ("2/2", "two.safetensors")] {
        let (done, text) = rla(&fit("w.csv", &[&weights[..], &["--shard", shard]].concat(), out), folder.path());
        assert!(done, "{text}");
    }
    let merge = ["merge", "--quiet", "one.safetensors", "two.safetensors", "--out", "merged.safetensors"];
    let (done, text) = rla(&merge, folder.path());
    assert!(done, "{text}");
    // The posterior knows the column; scores and predictions do without it.
    let more = ["fit", "--json", "--from", "whole.safetensors", "--data", "w.csv", "--out", "more.safetensors"];
    assert!(evidence(&more, folder.path()).is_finite());
    let loaded = Laplace::load(&folder.path().join("merged.safetensors"))?;
    close(loaded.log_marginal_likelihood(), expected, "merged");
    for arguments in [
        ["evaluate", "--posterior", "whole.safetensors", "--data", "r.csv", "--json"],
        ["predict", "--posterior", "whole.safetensors", "--inputs", "r.csv", "--quiet"],
    ] {
        let (done, text) = rla(&arguments, folder.path());
        assert!(done, "{text}");
    }
    let (done, text) = rla(&fit("r.csv", &weights, "x.safetensors"), folder.path());
    assert!(!done && text.contains('w') && text.contains("r.csv"), "{text}");
    Ok(())
}

/// Rows whose noise is known have wider intervals; the file's column is found again by name.
#[test]
fn predictions_use_the_columns_of_known_values_that_a_file_has() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    network(&family("gaussian")?)?.save(&folder.path().join("model.safetensors"))?;
    let (inputs, targets) = (inputs(), targets(&family("gaussian")?));
    let mut text = "a,b,y,s\n".to_string();
    (0..12).for_each(|n| {
        text += &format!("{},{},{},{}\n", inputs[(n, 0)], inputs[(n, 1)], targets[(n, 0)], 0.2 + 0.1 * n as f64)
    });
    std::fs::write(folder.path().join("data.csv"), text).expect("written");
    let fit = "fit --quiet --model model.safetensors --activation tanh --data data.csv --target y --likelihood gaussian \
               --noise-column s --out posterior.safetensors";
    let (done, text) = rla(&fit.split_whitespace().collect::<Vec<_>>(), folder.path());
    assert!(done, "{text}");
    std::fs::write(folder.path().join("with.csv"), "s,a,b\n0.1,0.3,0.2\n2,0.3,0.2\n").expect("written");
    std::fs::write(folder.path().join("without.csv"), "a,b\n0.3,0.2\n").expect("written");
    let aleatoric = |file: &str| -> Vec<f64> {
        let (done, text) =
            rla(&["predict", "--quiet", "--posterior", "posterior.safetensors", "--inputs", file], folder.path());
        assert!(done, "{text}");
        let place = text.lines().next().expect("a header").split(',').position(|name| name == "aleatoric_variance");
        let value =
            |line: &str| line.split(',').nth(place.expect("the column")).expect("a cell").parse().expect("a number");
        text.lines().skip(1).map(value).collect()
    };
    let with = aleatoric("with.csv");
    close(with[0], 0.01, "0.1²");
    close(with[1], 4.0, "2²");
    assert!(aleatoric("without.csv")[0] < 1e-15);
    Ok(())
}

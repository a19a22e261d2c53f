//! `sample`, `exp`, `log` and the Riemannian predictive through the program.

use std::collections::BTreeMap;

use riemannian_laplace::internals::tensors::{self, TensorFile, Values};

use super::{Folder, repository};

/// A folder with the posterior of a reference case.
fn fitted(case: &str, options: &str) -> Folder {
    let folder = Folder::new();
    let file = |name: &str| repository(&format!("tests/golden/{case}/{name}"));
    folder.ok(&format!(
        "fit --model {} --data {} --target y --out p.safetensors --quiet {options}",
        file("model.safetensors"),
        file("train.csv")
    ));
    folder
}

fn gaussian_case() -> Folder {
    fitted("p1", "--activation tanh --likelihood gaussian --prior-precision 0.3 --sigma 0.2")
}

pub(super) fn write(folder: &Folder, name: &str, tensor: &str, shape: [usize; 2], values: &[f64]) {
    let entry = [(tensor, shape.to_vec(), Values::Real(values))];
    tensors::write(&folder.path(name), &entry, BTreeMap::new()).expect("a written file");
}

fn reals(folder: &Folder, file: &str, tensor: &str) -> Vec<f64> {
    let contents = TensorFile::read_where(&folder.path(file), |name| name == tensor).expect("a result");
    contents.tensors[tensor].values.clone()
}

#[test]
fn exp_and_log_are_inverse_and_write_what_they_promise() {
    let folder = gaussian_case();
    let reference =
        TensorFile::read(repository("tests/golden/p1/velocities.safetensors").as_ref()).expect("velocities");
    let velocities: Vec<f64> = reference.tensors["v"].values[..62].iter().map(|v| 0.3 * v).collect();
    write(&folder, "v.safetensors", "v", [2, 31], &velocities);
    folder.ok("exp --posterior p.safetensors --velocities v.safetensors --metric fisher --rtol 1e-10 --atol 1e-12 --solver dop853 --out e.safetensors");
    for (tensor, length) in [("theta", 62), ("velocity", 62), ("drift", 2)] {
        assert_eq!(reals(&folder, "e.safetensors", tensor).len(), length, "{tensor}");
    }
    assert!(reals(&folder, "e.safetensors", "drift").iter().all(|drift| *drift < 1e-7));
    // The end points, with everything else in the file, are points for the logarithm.
    folder.ok("log --posterior p.safetensors --points e.safetensors --metric fisher --out l.safetensors");
    let found = reals(&folder, "l.safetensors", "v");
    for (found, velocity) in found.iter().zip(&velocities) {
        assert!((found - velocity).abs() < 1e-6, "{found} against {velocity}");
    }
    assert!(reals(&folder, "l.safetensors", "residual").iter().all(|residual| *residual < 1e-7));
}

#[test]
fn a_wide_network_has_the_same_bits_on_any_number_of_threads() {
    // One sample: its products and the integrator's loops over 66,242 numbers are what threads share.
    let folder = Folder::new();
    let data = format!("--data {} --target y --likelihood gaussian", repository("data/snelson.csv"));
    folder.ok(&format!("train {data} --hidden 180,180 --activation tanh --epochs 40 --out m.safetensors --quiet"));
    folder.ok(&format!("fit --model m.safetensors {data} --prior-precision 1 --sigma 0.5 --out p.safetensors --quiet"));
    let run = |threads: usize| {
        let out = format!("{threads}.safetensors");
        let sample = "sample --posterior p.safetensors --metric fisher --samples 1 --json";
        let report = folder.ok(&format!("{sample} --threads {threads} --out {out}")).json();
        assert_eq!((&report["failed"], &report["uncertified"]), (&0.into(), &0.into()));
        std::fs::read(folder.path(&out)).expect("samples")
    };
    assert!(run(1) == run(2), "two threads round differently from one");
}

#[test]
fn samples_are_counted_certified_and_the_same_on_any_number_of_threads() {
    let folder = gaussian_case();
    let run = |metric: &str, options: &str, out: &str| {
        let arguments =
            format!("sample --posterior p.safetensors --metric {metric} --samples 6 --seed 3 --out {out} --json");
        folder.ok(&format!("{arguments} {options}")).json()
    };
    for metric in ["euclidean", "fisher", "monge", "empirical-fisher"] {
        let report = run(metric, "--threads 1", "one.safetensors");
        for key in ["samples", "failed", "mean_nfev", "max_drift", "seconds_per_sample"] {
            assert!(report[key].is_number(), "{metric}: {key}");
        }
        assert_eq!((report["samples"].as_u64(), report["failed"].as_u64()), (Some(6), Some(0)), "{metric}");
        assert!(report["max_drift"].as_f64().is_some_and(|drift| drift <= 1e-3), "{metric}");
        run(metric, "--threads 2", "two.safetensors");
        let bytes = |name: &str| std::fs::read(folder.path(name)).expect("samples");
        assert_eq!(bytes("one.safetensors"), bytes("two.safetensors"), "{metric}");
    }
    // Fixed tolerances: the evaluations of the paper's setting, whatever the drift.
    let fixed = run("fisher", "--rtol 1e-3 --allow-uncertified 1", "fixed.safetensors");
    let loose = run("fisher", "--drift-target 1e-6", "certified.safetensors");
    assert!(fixed["mean_nfev"].as_f64() < loose["mean_nfev"].as_f64());
    assert!(loose["max_drift"].as_f64().is_some_and(|drift| drift <= 1e-6));
}

#[test]
fn a_metric_without_matrices_or_of_a_part_of_the_data_is_asked_for_and_reported() {
    let folder = gaussian_case();
    let sample = "sample --posterior p.safetensors --samples 4 --seed 3 --json --out";
    let plain = folder.ok(&format!("{sample} exact.safetensors")).json();
    assert_eq!(plain["metric_solver"], "weight-space");
    for key in ["mean_cg_iterations", "worst_cg_residual", "metric_batch", "mean_metric_residual"] {
        assert!(plain.get(key).is_none(), "{key}");
    }
    let report = folder.ok(&format!("{sample} free.safetensors --metric-solver matrix-free")).json();
    assert_eq!(report["metric_solver"], "matrix-free");
    assert!(report["mean_cg_iterations"].as_f64().is_some_and(|count| count >= 1.0), "{report}");
    assert!(report["worst_cg_residual"].as_f64().is_some_and(|residual| residual <= 1e-6), "{report}");
    assert_eq!(report["cg_unconverged"].as_u64(), Some(0));
    assert!(report["preconditioner_rank"].as_u64().is_some_and(|rank| rank > 0), "{report}");
    assert!(report.get("metric_batch").is_none());
    let (exact, free) = (reals(&folder, "exact.safetensors", "theta"), reals(&folder, "free.safetensors", "theta"));
    let largest = exact.iter().fold(0.0_f64, |top, value| top.max(value.abs()));
    assert!(exact.iter().zip(&free).all(|(a, b)| (a - b).abs() < 1e-4 * largest));

    let shared = folder.ok(&format!("{sample} part.safetensors --metric-batch 15")).json();
    assert_eq!((shared["metric_batch"].as_u64(), shared["redraw"].as_bool()), (Some(15), Some(false)));
    assert!(shared["mean_metric_residual"].as_f64().is_some_and(|residual| residual > 0.0), "{shared}");
    assert!(shared.get("mean_cg_iterations").is_none());
    let report = folder.ok(&format!("{sample} cg.safetensors --metric-solver iterative")).json();
    assert_eq!(report["metric_solver"], "weight-space-cg");
    assert!(report["worst_cg_residual"].as_f64().is_some_and(|residual| residual <= 1e-3), "{report}");
    let redrawn = folder.ok(&format!("{sample} part.safetensors --metric-batch 15 --redraw")).json();
    assert_ne!(shared["mean_metric_residual"], redrawn["mean_metric_residual"]);
    let text = folder.ok("sample --posterior p.safetensors --samples 2 --metric-batch 15 --metric-solver matrix-free --out s.safetensors");
    assert!(text.stdout.contains("CG iterations") && text.stdout.contains("metric residual"), "{}", text.stdout);

    let refused = "sample --posterior p.safetensors --samples 2 --out r.safetensors";
    folder.refuses(&format!("{refused} --metric-batch 0"), &["0 of", "data points", "at least one"]);
    folder.refuses(&format!("{refused} --metric-batch 4000"), &["4000 of", "at most all"]);
    folder.refuses(&format!("{refused} --redraw"), &["--metric-batch"]);
    folder.refuses(&format!("{refused} --metric-solver dense"), &["matrix-free"]);
    folder.refuses(&format!("{refused} --metric monge --metric-batch 5"), &["monge", "fisher"]);
    folder
        .refuses(&format!("{refused} --metric euclidean --metric-solver matrix-free"), &["euclidean", "leave it out"]);
}

#[test]
fn the_monge_metric_with_logarithm_samples_a_logistic_regression() {
    let folder = fitted("p3", "--likelihood bernoulli --prior-precision 0.3");
    let report =
        folder.ok("sample --posterior p.safetensors --metric monge-log --samples 4 --out s.safetensors --json");
    assert_eq!(report.json()["failed"].as_u64(), Some(0));
}

#[test]
fn riemannian_predictions_have_the_columns_of_sampled_ones() {
    let folder = gaussian_case();
    let inputs = repository("tests/golden/p1/test.csv");
    let predict = format!("predict --posterior p.safetensors --inputs {inputs} --method riemannian --samples 20");
    folder.ok(&format!("{predict} --out out.csv"));
    let table = folder.table("out.csv");
    assert_eq!(
        table.columns(),
        ["row", "mean", "epistemic_variance", "aleatoric_variance", "total_variance", "lower", "upper"]
    );
    assert_eq!(table.values().nrows(), 17);
    folder.ok(&format!("{predict} --metric monge --out out.csv"));
    let data = repository("tests/golden/p1/train.csv");
    let scores = folder.ok(&format!(
        "evaluate --posterior p.safetensors --data {data} --target y --method riemannian --samples 50 --json"
    ));
    // On its own training data a Riemannian posterior predicts about as well as the network: σ = 0.2.
    assert!(scores.json()["nll"].as_f64().is_some_and(|nll| nll < 0.1), "{}", scores.stdout);

    let folder = fitted("p2", "--activation tanh --likelihood categorical --prior-precision 0.4");
    let inputs = repository("tests/golden/p2/test.csv");
    folder.ok(&format!(
        "predict --posterior p.safetensors --inputs {inputs} --method riemannian --samples 20 --out o.csv"
    ));
    assert_eq!(folder.table("o.csv").columns(), ["row", "p0", "p1", "p2", "class", "entropy", "mutual_information"]);
}

#[test]
fn predictions_from_a_file_of_samples_are_those_drawn_directly() {
    let folder = gaussian_case();
    let (inputs, data) = (repository("tests/golden/p1/test.csv"), repository("tests/golden/p1/train.csv"));
    for metric in ["fisher", "monge"] {
        let draws = format!("--metric {metric} --samples 7 --seed 3");
        folder.ok(&format!("sample --posterior p.safetensors {draws} --out s.safetensors"));
        let predict = format!("predict --posterior p.safetensors --inputs {inputs} --method riemannian");
        folder.ok(&format!("{predict} {draws} --out drawn.csv"));
        folder.ok(&format!("{predict} --samples-file s.safetensors --out read.csv"));
        let bytes = |name: &str| std::fs::read(folder.path(name)).expect("predictions");
        assert_eq!(bytes("drawn.csv"), bytes("read.csv"), "{metric}");
        let evaluate = format!("evaluate --posterior p.safetensors --data {data} --target y --method riemannian");
        let drawn = folder.ok(&format!("{evaluate} {draws} --json")).stdout;
        assert_eq!(drawn, folder.ok(&format!("{evaluate} --samples-file s.safetensors --json")).stdout);
        let text = folder.ok(&format!("{evaluate} --samples-file s.safetensors")).stdout;
        assert!(text.contains("samples of s.safetensors"), "{text}");
    }
    let predict = format!("predict --posterior p.safetensors --inputs {inputs} --samples-file s.safetensors");
    folder.refuses(&predict, &["--samples-file belongs to --method riemannian"]);
    let predict = format!("{predict} --method riemannian");
    for option in ["--samples 7", "--metric fisher", "--seed 0"] {
        folder.refuses(&format!("{predict} {option}"), &["--samples-file"]);
    }
    folder.refuses(&format!("{predict} --out s.safetensors"), &["input files"]);
    write(&folder, "s.safetensors", "theta", [2, 31], &[0.0; 62]);
    folder.refuses(&predict, &["s.safetensors", "`velocity` is missing"]);
    let other = fitted("p3", "--likelihood bernoulli --prior-precision 0.3");
    other.ok("sample --posterior p.safetensors --samples 2 --out s.safetensors");
    std::fs::copy(other.path("s.safetensors"), folder.path("s.safetensors")).expect("a copy");
    folder.refuses(&predict, &["s.safetensors", "the network has 31 parameters"]);
}

#[test]
fn a_range_of_samples_is_that_part_of_all() {
    let folder = gaussian_case();
    let sample = "sample --posterior p.safetensors --seed 3 --json --out";
    folder.ok(&format!("{sample} all.safetensors --samples 5"));
    let report = folder.ok(&format!("{sample} part.safetensors --range 2..5")).json();
    assert_eq!(report["samples"].as_u64(), Some(3));
    assert_eq!(reals(&folder, "all.safetensors", "theta")[62..], reals(&folder, "part.safetensors", "theta"));
    let metadata = TensorFile::read_where(&folder.path("part.safetensors"), |_| false).expect("samples").metadata;
    for (key, value) in [("metric", "fisher"), ("seed", "3"), ("range", "2..5")] {
        assert_eq!(metadata.get(key).map(String::as_str), Some(value));
    }
    folder.refuses(&format!("{sample} s.safetensors --range 2..5 --samples 3"), &["--range", "--samples"]);
    for range in ["5..2", "3..3", "3", "-1..2"] {
        folder.refuses(&format!("{sample} s.safetensors --range={range}"), &["--range", "A..B"]);
    }
}

#[test]
fn fixed_tolerances_leave_samples_that_are_called_uncertified() {
    let folder = gaussian_case();
    let velocities: Vec<f64> = (0..62).map(|index| 0.3 * f64::from(index % 7 - 3)).collect();
    write(&folder, "v.safetensors", "v", [2, 31], &velocities);
    let exp = "exp --posterior p.safetensors --velocities v.safetensors --out e.safetensors --rtol 0.1 --atol 0.1";
    let outcome = folder.ok(exp);
    let drift = reals(&folder, "e.safetensors", "drift");
    assert!(drift.iter().all(|drift| *drift > 1e-3), "{drift:?}");
    assert!(outcome.stderr.contains("2 of 2 geodesics are uncertified"), "{}", outcome.stderr);
    let sample = "sample --posterior p.safetensors --samples 4 --out s.safetensors --json --rtol 0.1 --atol 0.1";
    // The file is written, and the status says that it is not to be trusted.
    let outcome = folder.rla(sample);
    assert_eq!(outcome.status, Some(3), "{}", outcome.stderr);
    assert!(outcome.json()["uncertified"].as_u64().is_some_and(|count| count > 0));
    assert!(outcome.stderr.contains("--allow-uncertified"), "{}", outcome.stderr);
    assert_eq!(reals(&folder, "s.safetensors", "path_drift").len(), 4);
    folder.ok(&format!("{sample} --allow-uncertified 1"));
    let predict = format!(
        "predict --posterior p.safetensors --inputs {} --target y --method riemannian",
        repository("tests/golden/p1/train.csv")
    );
    let from_file = format!("{predict} --samples-file s.safetensors --out y.csv");
    assert_eq!(folder.rla(&from_file).status, Some(3));
    assert!(folder.path("y.csv").exists());
    folder.ok(&format!("{from_file} --allow-uncertified 1"));
    folder.refuses(&format!("{from_file} --allow-uncertified 2"), &["--allow-uncertified", "from 0 to 1"]);
}

#[test]
fn bad_requests_are_refused_by_name() {
    let folder = gaussian_case();
    let exp = "exp --posterior p.safetensors --velocities v.safetensors --out e.safetensors";
    folder.refuses(exp, &["v.safetensors", "No such file"]);
    write(&folder, "v.safetensors", "v", [2, 30], &[0.0; 60]);
    folder.refuses(exp, &["v.safetensors", "`v`", "[2, 30]", "[S, 31]", "31 parameters"]);
    write(&folder, "v.safetensors", "w", [2, 31], &[0.0; 62]);
    folder.refuses(exp, &["v.safetensors", "`v` is missing"]);
    let mut values = [0.1; 62];
    values[40] = f64::NAN;
    write(&folder, "v.safetensors", "v", [2, 31], &values);
    folder.refuses(exp, &["v.safetensors", "NaN", "40"]);
    write(&folder, "v.safetensors", "v", [2, 31], &[0.1; 62]);
    folder.refuses(&format!("{exp} --metric hyperbolic"), &["hyperbolic", "fisher", "monge"]);
    folder.refuses(&format!("{exp} --metric monge-log"), &["monge-log", "euclidean, fisher, monge, empirical-fisher"]);
    folder.refuses(&format!("{exp} --rtol -1"), &["--rtol"]);
    folder.refuses(&format!("{exp} --rtol 0 --atol 0"), &["tolerances"]);
    folder.refuses(&format!("{exp} --integrator euler"), &["dopri5", "dop853", "adams"]);
    folder.refuses(&format!("{exp} --solver euler"), &["dopri5", "dop853"]);
    folder.refuses(&format!("{exp} --rtol 1e-3 --drift-target 1e-3"), &["--drift-target"]);
    let log = "log --posterior p.safetensors --points v.safetensors --out l.safetensors";
    folder.refuses(log, &["`theta` is missing"]);
    folder.refuses("sample --posterior p.safetensors --samples 0 --out s.safetensors", &["--samples"]);
    folder.refuses("sample --posterior p.safetensors --metric kron --out s.safetensors", &["kron", "fisher"]);
    let inputs = repository("tests/golden/p1/test.csv");
    let predict = format!("predict --posterior p.safetensors --inputs {inputs}");
    folder.refuses(&format!("{predict} --method glm --metric fisher"), &["--metric belongs to --method riemannian"]);
}

#[test]
fn a_posterior_without_its_data_has_no_riemannian_metric() {
    let folder =
        fitted("p1", "--activation tanh --likelihood gaussian --prior-precision 0.3 --sigma 0.2 --without-data");
    for metric in ["fisher", "monge", "monge-log", "empirical-fisher"] {
        let arguments = format!("sample --posterior p.safetensors --metric {metric} --samples 2 --out s.safetensors");
        folder.refuses(&arguments, &["p.safetensors", "training data"]);
    }
    folder.ok("sample --posterior p.safetensors --metric euclidean --samples 2 --out s.safetensors");
}

#[test]
fn a_geodesic_that_cannot_be_finished_is_reported_and_the_others_are_kept() {
    let folder = gaussian_case();
    let mut values = vec![0.01; 62];
    values[31..].fill(1e6);
    write(&folder, "v.safetensors", "v", [2, 31], &values);
    let arguments =
        "exp --posterior p.safetensors --velocities v.safetensors --metric monge --max-steps 100 --out e.safetensors";
    let outcome = folder.ok(arguments);
    assert!(outcome.stderr.contains("1 of 2 geodesics reached the step limit"), "{}", outcome.stderr);
    assert!(reals(&folder, "e.safetensors", "theta")[..31].iter().all(|value| value.is_finite()));
}

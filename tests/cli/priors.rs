//! Priors, temperature, curvature, more data later and tasks in sequence on the command line.

use riemannian_laplace::Network;
use riemannian_laplace::internals::tensors::{self, Values};

use super::{Folder, Outcome};

const FIT: &str = "fit --model m.safetensors --data d.csv --target y --likelihood gaussian --sigma 0.5 \
                   --out p.safetensors --json";

/// A network of 10 weights and 24 rows, in two parts and whole.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 3, 1]);
    let row = |n: usize| {
        let x = n as f64 / 4.0 - 3.0;
        format!("{x},{}\n", (1.3 * x).sin() + 0.2 * ((7 * n % 5) as f64 - 2.0))
    };
    let rows = |range: std::ops::Range<usize>| format!("x,y\n{}", range.map(row).collect::<String>());
    folder.write("d.csv", rows(0..24));
    folder.write("first.csv", rows(0..10));
    folder.write("more.csv", rows(10..24));
    folder
}

fn evidence(outcome: &Outcome) -> f64 {
    outcome.json()["log_marginal_likelihood"].as_f64().expect("an evidence")
}

fn assert_close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-10 * b.abs(), "{a} against {b}");
}

#[test]
fn a_prior_for_each_weight_comes_from_text_or_a_tensor() {
    let folder = folder();
    let shared = evidence(&folder.ok(&format!("{FIT} --prior-precision 0.5")));
    folder.write("half.txt", "0.5 0.5,0.5\n0.5;0.5\n\n0.5\t0.5 0.5 0.5 0.5\n");
    assert_close(evidence(&folder.ok(&format!("{FIT} --prior-precision @half.txt"))), shared);
    let values: Vec<f64> = (0..10).map(|d| 0.1 + d as f64).collect();
    let entries = [("alpha", vec![10], Values::Real(&values))];
    tensors::write(&folder.path("alpha.safetensors"), &entries, Default::default()).expect("a tensor file");
    let fitted = folder.ok(&format!("{FIT} --prior-precision @alpha.safetensors")).json();
    assert_eq!(fitted["prior_precision"], serde_json::json!(values));
    let said = folder.ok(&format!("{} --prior-precision @alpha.safetensors", FIT.replace("--json", "")));
    assert!(said.stdout.contains("10 values, 0.1 to 9.1"), "{}", said.stdout);
    // The file keeps it: what is predicted from it needs no option.
    folder.ok("predict --posterior p.safetensors --inputs d.csv --target y --out out.csv");

    folder.write("three.txt", "1 2 3");
    folder.refuses(&format!("{FIT} --prior-precision @three.txt"), &["three.txt", "3 numbers", "10 weights"]);
    folder.write("words.txt", "1\n2 two");
    folder.refuses(&format!("{FIT} --prior-precision @words.txt"), &["words.txt: line 2", "`two`"]);
    folder.write("negative.txt", "1 1 1 1 -1 1 1 1 1 1");
    folder.refuses(&format!("{FIT} --prior-precision @negative.txt"), &["negative.txt", "position 4", "positive"]);
    folder.refuses(&format!("{FIT} --prior-precision @none.txt"), &["none.txt"]);
    folder.refuses(&format!("{FIT} --prior-precision @"), &["--prior-precision", "a file must follow the @"]);
}

#[test]
fn a_prior_mean_may_be_a_number_a_file_or_a_network() {
    let folder = folder();
    let network = folder.model("m.safetensors", &[1, 3, 1]);
    let plain = folder.ok(FIT).json();
    assert_eq!((&plain["prior_mean"], &plain["temperature"]), (&0.0.into(), &1.0.into()));
    let ratio = |outcome: &serde_json::Value| outcome["log_det_ratio"].as_f64().expect("a number");
    // With the mean at the weights themselves there is no scatter.
    let centred = folder.ok(&format!("{FIT} --prior-mean @m.safetensors")).json();
    assert_eq!(ratio(&centred), ratio(&plain));
    let scatter: f64 = network.parameters().iter().map(|theta| theta * theta).sum();
    let number = |outcome: &serde_json::Value| outcome["log_marginal_likelihood"].as_f64().expect("a number");
    assert_close(number(&centred) - 0.5 * scatter, number(&plain));
    let shifted = folder.ok(&format!("{FIT} --prior-mean -0.5")).json();
    let scatter: f64 = network.parameters().iter().map(|theta| (theta + 0.5).powi(2)).sum();
    assert_close(number(&shifted) + 0.5 * scatter, number(&centred));
    folder.refuses(&format!("{FIT} --prior-mean 1,2"), &["--prior-mean", "@FILE with one per weight"]);
    folder.refuses(&format!("{FIT} --prior-mean nan"), &["--prior-mean", "finite number"]);
}

#[test]
fn a_temperature_is_kept_and_said() {
    let folder = folder();
    let said = folder.ok(&format!("{} --temperature 2", FIT.replace("--json", "")));
    assert!(said.stdout.contains("temperature"), "{}", said.stdout);
    let json = folder.ok(&format!("{FIT} --temperature 2")).json();
    assert_eq!(json["temperature"], 2.0);
    folder.ok("sample --posterior p.safetensors --metric fisher --samples 2 --out s.safetensors");
    for value in ["0", "-1", "nan", "hot"] {
        folder.refuses(&format!("{FIT} --temperature {value}"), &["--temperature", "positive finite number"]);
    }
    // A temperature of one is no temperature: the same bytes.
    folder.ok(FIT);
    let plain = std::fs::read(folder.path("p.safetensors")).expect("a posterior");
    folder.ok(&format!("{FIT} --temperature 1 --prior-mean 0 --curvature ggn"));
    assert_eq!(std::fs::read(folder.path("p.safetensors")).expect("a posterior"), plain);
}

#[test]
fn precisions_of_weights_that_run_to_a_bound_are_counted_in_one_line() {
    let folder = folder();
    // Weights that are zero: the evidence only grows with their precision.
    let network = folder.model("m.safetensors", &[1, 3, 1]);
    let theta = network.parameters().iter().enumerate().map(|(d, theta)| if d < 4 { 0.0 } else { *theta }).collect();
    let pruned = Network::new(network.architecture().clone(), theta).expect("a network");
    pruned.save(&folder.path("m.safetensors")).expect("a saved network");
    let outcome = folder.ok(&format!("{} --optimize --prior weight", FIT.replace("--json", "")));
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("bound")).collect();
    assert!(lines.len() == 1 && lines[0].contains("of 10 prior precisions"), "{}", outcome.stderr);
    let json = folder.ok(&format!("{FIT} --optimize --prior weight")).json();
    assert_eq!(json["prior_precision"].as_array().map(Vec::len), Some(10));
    assert!(json["at_bound"].as_array().is_some_and(|bounds| !bounds.is_empty()));
}

#[test]
fn every_curvature_is_fitted_tuned_and_kept() {
    let folder = folder();
    folder.ok("train --data d.csv --target y --likelihood gaussian --hidden 3 --epochs 2000 --out m.safetensors");
    for curvature in ["ggn", "empirical-fisher", "hessian"] {
        let fit = FIT.replace(" --sigma 0.5", "");
        let json = folder.ok(&format!("{fit} --optimize --curvature {curvature}")).json();
        assert_eq!((&json["curvature"], &json["converged"]), (&curvature.into(), &true.into()), "{json}");
        folder.ok("sample --posterior p.safetensors --metric fisher --samples 2 --out s.safetensors");
    }
    // A network that was never trained.
    folder.model("m.safetensors", &[1, 3, 1]);
    let small = format!("{FIT} --sigma 0.05 --prior-precision 1e-6 --curvature hessian").replace("--sigma 0.5 ", "");
    folder.fails(
        1,
        &FIT.replace("--sigma 0.5", "--optimize --curvature hessian"),
        &["grows without bound", "train further", "ggn"],
    );
    folder.fails(1, &small, &["indefinite", "raise the prior precision to at least", "--curvature ggn"]);
    folder.refuses(&format!("{FIT} --curvature hessian --structure diag"), &["hessian", "weight-space", "ggn"]);
    folder.refuses(&format!("{FIT} --curvature fisher"), &["fisher", "ggn, empirical-fisher, hessian"]);
}

#[test]
fn more_data_give_the_posterior_of_all() {
    let folder = folder();
    for options in ["", " --without-data", " --structure diag", " --structure kron --without-data"] {
        let whole = folder.ok(&format!("{FIT}{options}")).json();
        folder.ok(&FIT.replace("d.csv", "first.csv").replace("--json", options));
        let more = "fit --from p.safetensors --data more.csv --target y --out q.safetensors";
        let json = folder.ok(&format!("{more} --json")).json();
        assert_eq!((&json["from"], &json["n_data"]), (&"more-data".into(), &24.into()));
        for key in ["log_likelihood", "log_marginal_likelihood", "effective_parameters"] {
            assert_close(json[key].as_f64().expect("a number"), whole[key].as_f64().expect("a number"));
        }
        // The network itself, named again, is the same network.
        let said = folder.ok(&format!("{more} --model m.safetensors"));
        assert!(said.stdout.contains("after 10 data points"), "{}", said.stdout);
        let sample = folder.rla("sample --posterior q.safetensors --metric fisher --samples 2 --out s.safetensors");
        assert_eq!(sample.status, Some(if options.contains("without") { 2 } else { 0 }), "{}", sample.stderr);
    }
}

#[test]
fn a_posterior_is_the_prior_of_the_next_task() {
    let folder = folder();
    folder.ok(&FIT.replace("d.csv", "first.csv"));
    let network = Network::load(&folder.path("m.safetensors"), None).expect("a network");
    let moved: Vec<f64> = network.parameters().iter().map(|theta| theta + 0.1).collect();
    let next = Network::new(network.architecture().clone(), moved).expect("a network");
    next.save(&folder.path("next.safetensors")).expect("a saved network");
    let task = "fit --from p.safetensors --model next.safetensors --data more.csv --target y --out q.safetensors";
    let json = folder.ok(&format!("{task} --optimize --json")).json();
    assert_eq!((&json["from"], &json["n_data"], &json["converged"]), (&"prior".into(), &14.into(), &true.into()));
    assert!(json["prior_precision"].is_null() && json["sigma"].as_f64() != Some(0.5), "{json}");
    let said = folder.ok(task);
    assert!(said.stdout.contains("p.safetensors, of 10 data points; it stays as it is"), "{}", said.stdout);
    folder.ok("predict --posterior q.safetensors --inputs d.csv --target y --out out.csv");
    folder.ok("sample --posterior q.safetensors --metric euclidean --samples 2 --out s.safetensors");
    folder.refuses(
        "sample --posterior q.safetensors --metric fisher --samples 2 --out t.safetensors",
        &["an earlier posterior", "are gone", "--metric euclidean"],
    );
    folder.refuses(&format!("{task} --structure kron"), &["an earlier posterior", "full structure"]);
}

#[test]
fn what_does_not_go_with_an_earlier_posterior_is_refused() {
    let folder = folder();
    folder.ok(&FIT.replace("d.csv", "first.csv"));
    let more = "fit --from p.safetensors --data more.csv --target y --out q.safetensors";
    for option in ["--prior-precision 1", "--prior-mean 1", "--temperature 2", "--curvature hessian", "--standardize"] {
        folder.refuses(&format!("{more} {option}"), &["--from", "cannot be used with"]);
    }
    folder.refuses(&format!("{more} --likelihood poisson"), &["p.safetensors", "its likelihood is gaussian"]);
    folder.refuses(&format!("{more} --structure diag"), &["its structure is full"]);
    folder.model("wide.safetensors", &[1, 4, 1]);
    folder.refuses(&format!("{more} --model wide.safetensors"), &["1-3-1", "1-4-1", "must be the same"]);
    folder.write("other.csv", "z,y\n1,2\n");
    folder.refuses(&more.replace("more.csv", "other.csv"), &["other.csv", "`x`"]);
    folder.refuses("fit --data d.csv --target y --likelihood gaussian --out q.safetensors", &["--model <FILE>"]);
}

#[test]
fn training_by_cross_validation_ends_where_a_fit_with_its_prior_and_noise_finds_a_mode() {
    let folder = folder();
    let train = "train --data d.csv --target y --likelihood gaussian --standardize --hidden 3 --out t.safetensors";
    let found = folder.ok(&format!("{train} --cross-validate --json")).json();
    assert!(found.get("loss").is_none() && found.get("epochs").is_none(), "{found}");
    assert!(found["path"].as_array().is_some_and(|path| path.len() > 1), "{found}");
    let [alpha, sigma] = ["prior_precision", "sigma"].map(|key| found[key].as_f64().expect("a number"));
    let fitted = folder
        .ok(&format!(
            "fit --model t.safetensors --data d.csv --target y --likelihood gaussian --prior-precision {alpha} --sigma {sigma} \
             --out p.safetensors --json"
        ))
        .json();
    // The numbers are printed in full, and the fit is that of the last step: equal to rounding.
    assert_close(
        fitted["log_likelihood"].as_f64().expect("a number"),
        found["log_likelihood"].as_f64().expect("a number"),
    );
    let said = folder.ok(&format!("{train} --cross-validate"));
    assert!(said.stdout.contains("held-out log likelihood") && said.stdout.contains("taken by fit"), "{}", said.stdout);
    folder.refuses(&format!("{train} --cross-validate --epochs 10"), &["--cross-validate", "--epochs"]);
    folder.refuses(&format!("{train} --cross-validate --evidence"), &["--cross-validate", "--evidence"]);
    folder.refuses(&format!("{train} --cross-validate --folds 100"), &["100 folds of 24 rows"]);
    folder.refuses(&format!("{train} --folds 4"), &["--cross-validate"]);
}

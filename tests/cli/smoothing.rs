//! `--smoothing`: what the program does about the kinks of relu, and says about it.

use riemannian_laplace::internals::tensors::TensorFile;
use riemannian_laplace::{Activation, Architecture, Network};

use crate::{Folder, repository};

/// A posterior of a small network.
fn fitted(activation: Activation) -> Folder {
    let folder = Folder::new();
    let architecture = Architecture::new(&[1, 6, 1], activation).expect("layer sizes");
    Network::random(architecture, 1).save(&folder.path("model.safetensors")).expect("a saved network");
    let data = repository("tests/golden/p1/train.csv");
    folder.ok(&format!(
        "fit --model model.safetensors --data {data} --target y --likelihood gaussian --sigma 0.2 --out p.safetensors"
    ));
    folder
}

fn width_in(folder: &Folder, file: &str) -> Option<String> {
    TensorFile::read_numbers(&folder.path(file)).expect("samples").metadata.get("smoothing").cloned()
}

const SAMPLE: &str = "sample --posterior p.safetensors --samples 3 --out s.safetensors --json";

#[test]
fn samples_of_a_relu_network_are_smoothed_and_say_so() {
    let folder = fitted(Activation::Relu);
    let outcome = folder.ok(SAMPLE);
    assert!(outcome.stderr.contains("(1-6-1 relu) has kinks, which the metric rounds over"), "{}", outcome.stderr);
    let report = outcome.json();
    assert_eq!((report["failed"].as_u64(), report["uncertified"].as_u64()), (Some(0), Some(0)));
    let width = report["smoothing"].as_f64().expect("the width");
    assert_eq!(width_in(&folder, "s.safetensors"), Some(width.to_string()));
    assert!(report["residual"].as_f64().is_some() && report["linearized_residual"].as_f64().is_some());
    folder.ok(&format!("{SAMPLE} --smoothing 0.1"));
    assert_eq!(width_in(&folder, "s.safetensors"), Some("0.1".to_string()));
    // Straight lines have no kinks.
    let straight = folder.ok(&format!("{SAMPLE} --metric euclidean"));
    assert!(!straight.stderr.contains("relu") && straight.json().get("smoothing").is_none(), "{}", straight.stderr);
}

#[test]
fn unsmoothed_samples_are_drawn_by_name_only_and_warned_about() {
    let folder = fitted(Activation::Relu);
    let outcome = folder.ok(&format!("{SAMPLE} --smoothing none --max-steps 200 --allow-uncertified 1"));
    assert!(outcome.stderr.contains("vᵀGv is not conserved"), "{}", outcome.stderr);
    assert!(outcome.json()["smoothing"].is_null());
    assert_eq!(width_in(&folder, "s.safetensors"), None);
    // One integration each, within the step limit.
    assert!(outcome.json()["mean_nfev"].as_f64().is_some_and(|count| count <= 200.0 * 6.0 + 2.0));
}

#[test]
fn a_width_that_is_too_large_is_warned_about() {
    // A trained network: one that does not fit its data has nothing to lose.
    let folder = Folder::new();
    let data = format!("--data {} --target y --likelihood gaussian", repository("tests/golden/p1/train.csv"));
    folder.ok(&format!("train {data} --hidden 20 --activation relu --epochs 1000 --out model.safetensors"));
    folder.ok(&format!("fit --model model.safetensors {data} --sigma 0.2 --out p.safetensors"));
    let outcome = folder.ok(&format!("{SAMPLE} --smoothing 5"));
    let report = outcome.json();
    let number = |key: &str| report[key].as_f64().expect(key);
    assert!(number("residual") > 1.1 * number("linearized_residual"), "{report}");
    assert!(outcome.stderr.contains("times worse than the linearised network"), "{}", outcome.stderr);
    assert!(!folder.ok(&format!("{SAMPLE} --smoothing 0.02")).stderr.contains("times worse"));
}

#[test]
fn predictions_and_scores_smooth_by_default() {
    let folder = fitted(Activation::LeakyRelu);
    let data = repository("tests/golden/p1/train.csv");
    let riemannian = "--method riemannian --samples 3";
    for command in [
        format!("predict --posterior p.safetensors --inputs {data} --target y {riemannian}"),
        format!("evaluate --posterior p.safetensors --data {data} --target y {riemannian}"),
    ] {
        let outcome = folder.ok(&command);
        assert!(outcome.stderr.contains("which the metric rounds over"), "{}", outcome.stderr);
        let wide = folder.ok(&format!("{command} --smoothing 0.2"));
        assert_ne!(wide.stdout, outcome.stdout);
        let glm = command.replace(riemannian, "--method glm --smoothing 0.2");
        folder.refuses(&glm, &["--smoothing belongs to the sampling of --method riemannian"]);
    }
}

#[test]
fn exponential_and_logarithmic_maps_are_unsmoothed_unless_asked() {
    let folder = fitted(Activation::Relu);
    folder.ok("sample --posterior p.safetensors --metric euclidean --samples 1 --out s.safetensors");
    let samples = TensorFile::read_numbers(&folder.path("s.safetensors")).expect("samples");
    let velocity: Vec<f64> = samples.tensors["velocity"].values.iter().map(|value| 0.2 * value).collect();
    super::geodesics::write(&folder, "v.safetensors", "v", [1, velocity.len()], &velocity);
    let exp = "exp --posterior p.safetensors --velocities v.safetensors --out e.safetensors";
    let outcome = folder.ok(&format!("{exp} --max-steps 400"));
    assert!(outcome.stderr.contains("round its kinks with --smoothing"), "{}", outcome.stderr);
    assert_eq!(width_in(&folder, "e.safetensors"), None);
    let outcome = folder.ok(&format!("{exp} --smoothing 0.1 --rtol 1e-9 --atol 1e-11"));
    assert!(!outcome.stderr.contains("kinks"), "{}", outcome.stderr);
    assert_eq!(width_in(&folder, "e.safetensors"), Some("0.1".to_string()));
    // The logarithm of the smoothed metric leads back to the velocity.
    let log = "log --posterior p.safetensors --points e.safetensors --smoothing 0.1 --out l.safetensors";
    folder.ok(log);
    let found = TensorFile::read_numbers(&folder.path("l.safetensors")).expect("velocities");
    for (found, expected) in found.tensors["v"].values.iter().zip(&velocity) {
        assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
    }
}

#[test]
fn a_smoothing_that_means_nothing_is_refused_or_said_to_do_nothing() {
    let folder = fitted(Activation::Tanh);
    let outcome = folder.ok(&format!("{SAMPLE} --smoothing 0.1"));
    assert!(outcome.stderr.contains("--smoothing has nothing to do"), "{}", outcome.stderr);
    for width in ["0", "-1", "nan", "wide"] {
        folder.refuses(&format!("{SAMPLE} --smoothing {width}"), &["--smoothing", "positive finite number, or none"]);
    }
}

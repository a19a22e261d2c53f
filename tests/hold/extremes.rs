//! Numbers at the edge of f64: a right answer or a named error.

use riemannian_laplace::{Activation, Architecture, Network};

use super::{FIT, fitted, folder};

#[test]
fn a_prior_too_uneven_for_the_logarithmic_map_is_a_named_error() {
    let folder = folder();
    for uneven in ["1e160", "1e200", "1e300"] {
        folder.ok(&format!("{FIT} --sigma 1 --prior-precision 1,{uneven} --out p.safetensors"));
        let sample = "sample --posterior p.safetensors --metric monge-log --samples 2 --out s.safetensors";
        folder.fails(1, sample, &["p.safetensors", "eigenvalues", "span too much", "prior precisions"]);
    }
}

#[test]
fn a_noise_level_whose_square_is_beyond_f64_has_its_log_likelihood() {
    let folder = folder();
    for (sigma, log) in [("1e160", 160.0), ("1e-170", -170.0)] {
        let outcome = folder.rla(&format!("{FIT} --sigma {sigma} --out p.safetensors --json"));
        if outcome.status == Some(0) {
            let found = outcome.json()["log_likelihood"].as_f64().expect("a number");
            let expected = -12.0 * (log * std::f64::consts::LN_10 + 0.5 * (2.0 * std::f64::consts::PI).ln());
            assert!((found - expected).abs() < 1e-9 * expected.abs(), "{sigma}: {found} {expected}");
        } else {
            assert_eq!(outcome.status, Some(1), "{sigma}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("extreme values"), "{}", outcome.stderr);
            assert!(!folder.path("p.safetensors").exists());
        }
        let _ = std::fs::remove_file(folder.path("p.safetensors"));
    }
}

#[test]
fn outputs_beyond_f64_name_the_file_and_the_line() {
    let folder = folder();
    folder.write("far.csv", "x,y\n0.1,2\n0.2,1e200\n");
    let fit = "fit --model m.safetensors --data far.csv --target y --likelihood gaussian --out p.safetensors";
    folder.refuses(fit, &["far.csv", "line 3", "squared error", "beyond what f64 can hold"]);
}

#[test]
fn weights_beyond_what_their_products_can_hold_are_a_named_error() {
    let folder = folder();
    let architecture = Architecture::new(&[1, 6, 1], Activation::Identity).expect("layer sizes");
    let weights = vec![1e300; architecture.n_params()];
    let network = Network::new(architecture, weights).expect("finite weights");
    network.save(&folder.path("m.safetensors")).expect("a saved network");
    folder.refuses(&format!("{FIT} --out p.safetensors --json"), &["d.csv", "line 2", "beyond what f64 can hold"]);
}

#[test]
fn scores_beyond_f64_are_an_error_and_no_null() {
    let folder = fitted();
    folder.write("far.csv", "x,y\n0.1,2\n0.2,1e200\n");
    let evaluate = "evaluate --posterior p.safetensors --data far.csv --target y --json";
    folder.fails(1, evaluate, &["mse", "inf", "beyond what f64 can hold"]);
}

#[test]
fn targets_in_very_large_or_small_units_are_tuned_as_any_others() {
    let folder = folder();
    let mut found = Vec::new();
    for power in [-20, 0, 20] {
        let rows: String = (0..12)
            .map(|n| format!("{},{:e}\n", 0.3 * f64::from(n), (0.7 * f64::from(n)).sin() * 10f64.powi(power)))
            .collect();
        folder.write("d.csv", format!("x,y\n{rows}"));
        let outcome = folder.ok(&format!("{FIT} --standardize --optimize --out p.safetensors --json"));
        assert!(!outcome.stderr.contains("sigma"), "{power}: {}", outcome.stderr);
        found.push(outcome.json()["sigma"].as_f64().expect("a number") / 10f64.powi(power));
        // Without standardising: the network's outputs are of another size, and σ is that of the targets or of the outputs.
        let outcome = folder.ok(&format!("{FIT} --optimize --out p.safetensors --json"));
        assert!(!outcome.stderr.contains("sigma 0 ran to the bound"), "{power}: {}", outcome.stderr);
    }
    // The same network on the same standardised data.
    assert!((found[0] / found[1] - 1.0).abs() < 1e-9 && (found[2] / found[1] - 1.0).abs() < 1e-9, "{found:?}");
}

//! `rla evaluate`: all methods side by side, curves, points unlike the data; and what `fit` and `evaluate` say of a method
//! that loses to the network alone.

use serde_json::Value;

use crate::{Folder, repository};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// A regression with its posterior.
fn regression() -> (Folder, String) {
    let folder = Folder::new();
    let data = format!("--data {} --target y", repository("data/snelson.csv"));
    let model = repository("data/snelson_map_complete_raw.safetensors");
    folder.ok(&format!(
        "fit --model {model} --activation tanh {data} --likelihood gaussian --sigma 0.29 --prior-precision 0.05 --out p.safetensors"
    ));
    (folder, data)
}

#[test]
fn all_methods_are_scored_side_by_side_and_the_best_is_named() {
    let (folder, data) = regression();
    let options = "--posterior p.safetensors --samples 20 --seed 4";
    let all = folder.ok(&format!("evaluate {options} {data} --method all --json")).json();
    let mut best = ("", f64::INFINITY);
    for method in ["map", "glm", "nn", "riemannian"] {
        let of_all = &all[method];
        let alone = match method {
            "map" | "glm" => format!("evaluate --posterior p.safetensors {data} --method {method} --json"),
            _ => format!("evaluate {options} {data} --method {method} --json"),
        };
        assert_eq!(of_all, &folder.ok(&alone).json(), "{method}");
        if number(&of_all["nll"]) < best.1 {
            best = (method, number(&of_all["nll"]));
        }
    }
    assert_eq!(all["smallest_nll"].as_str(), Some(best.0));
    let clear = number(&all["gain"]) > 2.0 * number(&all["gain_se"]);
    assert_eq!(all["best"].as_str(), clear.then_some(best.0));
    assert_eq!(all.as_object().map(serde_json::Map::len), Some(9));
    let text = folder.ok(&format!("evaluate {options} {data} --method all")).stdout;
    let last = text.lines().last().unwrap_or_default();
    let said =
        if clear { format!("best by nll: {}, by", best.0) } else { "best by nll: no clear difference".to_string() };
    assert!(last.starts_with(&said), "{text}");
    let line = |first: &str| {
        let found = text.lines().map(str::trim).find(|line| line.starts_with(&format!("{first} ")));
        found.unwrap_or_else(|| panic!("no line of {first} in {text}"))
    };
    let columns: Vec<&str> = line("method").split_whitespace().skip(1).collect();
    assert_eq!(columns, ["n", "mse", "rmse", "nll", "crps", "coverage_90"]);
    for method in ["map", "glm", "nn", "riemannian"] {
        let values = line(method).split_whitespace().skip(1);
        for (column, value) in columns.iter().zip(values) {
            // Six digits are printed.
            let (printed, exact) = (value.parse::<f64>().unwrap_or(f64::NAN), number(&all[method][*column]));
            assert!((printed - exact).abs() <= 1e-5 * exact.abs(), "{method} {column}: {printed} for {exact}");
        }
    }
    assert!(line("nn").ends_with("  20 samples"), "{text}");
    folder.refuses(
        &format!("predict --posterior p.safetensors --inputs {} --method all", repository("data/snelson.csv")),
        &["belongs to `rla evaluate`"],
    );
}

#[test]
fn a_method_worse_than_the_network_alone_is_said_to_be_so() {
    let (folder, data) = regression();
    // Gaussian draws of all weights of this network predict far worse than their centre.
    let outcome = folder.ok(&format!("evaluate --posterior p.safetensors {data} --method nn --samples 20"));
    assert!(outcome.stderr.contains("--method nn predicts these data worse than the trained network alone"));
    let outcome = folder.ok(&format!("evaluate --posterior p.safetensors {data} --method map"));
    assert!(!outcome.stderr.contains("worse"), "{}", outcome.stderr);
}

#[test]
fn fit_says_what_leave_one_out_expects_of_the_default_prediction() {
    let (folder, data) = regression();
    let fit = |options: &str| {
        let model = repository("data/snelson_map_complete_raw.safetensors");
        folder.ok(&format!(
            "fit --model {model} --activation tanh {data} --likelihood gaussian {options} --out q.safetensors"
        ))
    };
    let report = folder.ok("loo --posterior p.safetensors --json").json();
    let fitted = fit("--sigma 0.29 --prior-precision 0.05 --json").json();
    assert_eq!(fitted["elpd_loo"], report["elpd_loo"]);
    assert_eq!(fitted["elpd_loo_map"], report["methods"][0]["elpd_loo"]);
    // With far too much noise, more variance only makes it worse.
    let noisy = fit("--sigma 3 --prior-precision 1e-6");
    assert!(
        noisy.stderr.contains("the network alone predicts better than the linearised posterior"),
        "{}",
        noisy.stderr
    );
    assert!(noisy.stdout.contains("elpd_loo_map"));
}

#[test]
fn curves_and_detection_of_other_inputs_are_reported_when_asked_for() {
    let (folder, data) = regression();
    folder.write("far.csv", "x\n40\n-35\n60\n");
    let options = format!("evaluate --posterior p.safetensors {data} --curves --ood far.csv");
    let scores = folder.ok(&format!("{options} --json")).json();
    let intervals = scores["intervals"].as_array().expect("intervals");
    for (narrow, wide) in intervals.iter().zip(intervals.iter().skip(1)) {
        assert!(number(&narrow["level"]) < number(&wide["level"]));
        assert!(number(&narrow["mean_width"]) < number(&wide["mean_width"]));
        assert!(number(&narrow["coverage"]) <= number(&wide["coverage"]));
    }
    assert_eq!(intervals[8]["coverage"], scores["coverage_90"]);
    let ranks = scores["pit_histogram"].as_array().expect("ranks");
    assert_eq!(ranks.iter().map(number).sum::<f64>(), number(&scores["n"]));
    assert_eq!((number(&scores["ood_auroc"]), number(&scores["ood_auroc_epistemic"])), (1.0, 1.0));
    assert!(scores["ood_auroc_logits"].is_null());
    let text = folder.ok(&options).stdout;
    assert!(text.contains("90 % intervals contain") && text.contains("ood_auroc"), "{text}");

    // Classes have a reliability curve.
    let moons = format!("--data {} --target moon", repository("data/two_moons.csv"));
    folder.ok(&format!("train {moons} --likelihood categorical --hidden 4 --epochs 100 --out m.safetensors"));
    folder.ok(&format!("fit --model m.safetensors {moons} --likelihood categorical --out c.safetensors"));
    let scores = folder.ok(&format!("evaluate --posterior c.safetensors {moons} --curves --json")).json();
    let bins = scores["reliability"].as_array().expect("a curve");
    assert_eq!(bins.iter().map(|bin| number(&bin["count"])).sum::<f64>(), 300.0);
    let error: f64 = bins
        .iter()
        .filter(|bin| number(&bin["count"]) > 0.0)
        .map(|bin| number(&bin["count"]) / 300.0 * (number(&bin["accuracy"]) - number(&bin["confidence"])).abs())
        .sum();
    assert!((error - number(&scores["ece"])).abs() < 1e-12);
}

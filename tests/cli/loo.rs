//! `rla loo`: keys, files, comparisons, and what it refuses.

use crate::{Folder, repository};

/// Two posteriors of the same data and one of other data.
fn fitted() -> Folder {
    let folder = Folder::new();
    folder.model("model.safetensors", &[1, 5, 1]);
    let fit = |name: &str, options: &str| {
        let data = repository("tests/golden/p1/train.csv");
        folder.ok(&format!(
            "fit --model model.safetensors --data {data} --target y --likelihood gaussian {options} --out {name}"
        ));
    };
    fit("p.safetensors", "--sigma 0.5 --prior-precision 2");
    fit("q.safetensors", "--sigma 2 --prior-precision 2");
    fit("bare.safetensors", "--sigma 0.5 --without-data");
    folder
}

const KEYS: [&str; 7] = ["elpd_loo", "se", "p_loo", "k_max", "n_k_above_0_7", "pit_coverage_90", "method"];

#[test]
fn every_method_reports_the_keys_of_the_contract() {
    let folder = fitted();
    for (options, method, estimator) in [
        ("", "glm", "closed form"),
        ("--method map", "map", "closed form"),
        ("--method glm --samples 200", "glm", "psis"),
        ("--method riemannian --samples 30", "riemannian", "psis"),
    ] {
        let report = folder.ok(&format!("loo --posterior p.safetensors {options} --json --quiet")).json();
        for key in KEYS {
            assert!(!report[key].is_null(), "{key} with {options:?}: {report}");
        }
        assert_eq!((report["method"].as_str(), report["estimator"].as_str()), (Some(method), Some(estimator)));
        assert_eq!(report["n"].as_u64(), Some(folder_rows()));
        assert!(report["best"].is_string() && report["advice"].is_array());
    }
    // For people: the same numbers, and the best method.
    let text = folder.ok("loo --posterior p.safetensors").stdout;
    assert!(text.contains("elpd_loo") && text.contains("glm − map") && text.contains("best"), "{text}");
}

fn folder_rows() -> u64 {
    let path = repository("tests/golden/p1/train.csv");
    std::fs::read_to_string(path).map(|text| text.lines().count() as u64 - 1).expect("the data")
}

#[test]
fn points_are_written_in_the_order_of_the_data_and_add_up() {
    let folder = fitted();
    let report = folder.ok("loo --posterior p.safetensors --out points.csv --json").json();
    let text = std::fs::read_to_string(folder.path("points.csv")).expect("the points");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("log_density,log_density_with_all_data,k,pit"));
    let sum: f64 =
        lines.map(|line| line.split(',').next().and_then(|cell| cell.parse::<f64>().ok()).expect("a number")).sum();
    assert!((sum - report["elpd_loo"].as_f64().expect("a number")).abs() < 1e-9);
}

#[test]
fn samples_of_a_file_give_what_drawing_them_gives() {
    let folder = fitted();
    folder.ok("sample --posterior p.safetensors --samples 25 --seed 3 --out s.safetensors --quiet");
    let read =
        folder.ok("loo --posterior p.safetensors --method riemannian --samples-file s.safetensors --json").stdout;
    let drawn = folder.ok("loo --posterior p.safetensors --method riemannian --samples 25 --seed 3 --json").stdout;
    assert_eq!(read, drawn);
}

#[test]
fn two_posteriors_are_compared_point_by_point() {
    let folder = fitted();
    let report = folder.ok("loo --posterior p.safetensors --compare q.safetensors --json").json();
    let comparison = &report["comparison"];
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let difference = number(&report["elpd_loo"]) - number(&comparison["elpd_loo"]);
    assert!((number(&comparison["elpd_difference"]) - difference).abs() < 1e-9);
    assert!(number(&comparison["se_difference"]) > 0.0);
    let better = if difference > 0.0 { "p.safetensors" } else { "q.safetensors" };
    assert_eq!(comparison["better"].as_str(), Some(better));
}

#[test]
fn what_leave_one_out_cannot_use_is_refused() {
    let folder = fitted();
    folder.refuses("loo --posterior bare.safetensors", &["bare.safetensors", "without its training data"]);
    folder.refuses("loo --posterior p.safetensors --metric fisher", &["--metric belongs to --method riemannian"]);
    folder.refuses("loo --posterior p.safetensors --method map --samples 10", &["--method map needs no samples"]);
    folder.refuses("loo --posterior p.safetensors --out p.safetensors", &["one of the input files"]);
    folder.write("other.csv", "x1,y\n0.1,0.2\n0.5,0.1\n");
    folder.ok("fit --model model.safetensors --data other.csv --target y --likelihood gaussian --sigma 1 --out other.safetensors");
    folder.refuses("loo --posterior p.safetensors --compare other.safetensors", &["other.safetensors", "row by row"]);
}

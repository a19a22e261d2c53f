//! Memory, threads, and results that replace older ones.

use super::{Folder, repository};

/// A network that is too large for a megabyte in either space.
fn large(folder: &Folder) {
    folder.model("m.safetensors", &[1, 40, 40, 1]);
    let rows: String = (0..300).map(|n| format!("{},{}\n", n, n % 7)).collect();
    folder.write("d.csv", format!("x,y\n{rows}"));
}

const FIT: &str = "fit --model m.safetensors --data d.csv --target y --likelihood gaussian --out p.safetensors";

#[test]
fn a_case_too_large_for_the_memory_says_what_would_fit() {
    let folder = Folder::new();
    large(&folder);
    let limit = format!("{FIT} --max-memory 1MB");
    // N·P = 300 in function space; D = 1761 and 5 D² numbers in weight space.
    folder.fails(1, &limit, &["function-space", "N·P = 300", "GB", "limit is 0.0010 GB", "would fit", "--max-memory"]);
    folder.fails(1, &format!("{limit} --solver weight-space"), &["D = 1761", "needs 0.12 GB", "would fit"]);
    let ten = format!("{FIT} --max-memory 20MB --solver weight-space");
    folder.fails(
        1,
        &ten,
        &[
            "D = 1761",
            "0.12 GB",
            "function-space would fit: it needs 0.0051 GB",
            "`--structure kron`",
            "`--max-memory`)",
        ],
    );
    folder.ok(&format!("{FIT} --max-memory 20MB"));
    let train = "train --data d.csv --target y --likelihood gaussian --hidden 1000,1000 --out t.safetensors";
    folder.fails(1, &format!("{train} --max-memory 1MB"), &["1-1000-1000-1", "0.24", "GB", "narrower"]);
}

#[test]
fn a_posterior_too_large_for_the_memory_is_not_used() {
    let folder = Folder::new();
    large(&folder);
    folder.ok(&format!("{FIT} --max-memory 20MB"));
    let predict = "predict --posterior p.safetensors --inputs d.csv --target y --max-memory";
    // The packed factor, 300 · 301/2 numbers, is in the file; reading holds the file and its numbers.
    folder.fails(
        1,
        &format!("{predict} 500KB"),
        &["reading p.safetensors", "GB", "limit is 0.00050 GB", "--max-memory"],
    );
    // The factor is 0.72 MB once it is unpacked, and 256 points are predicted at once from another 0.61 MB.
    folder.fails(1, &format!("{predict} 1MB"), &["GB", "would fit"]);
}

#[test]
fn a_metric_too_large_for_the_memory_names_the_solver_without_matrices() {
    let folder = Folder::new();
    large(&folder);
    folder.ok(FIT);
    // N·P = 300: on each thread the exact solver holds three matrices of that size, 2.2 MB. The posterior fits in 5.3
    // MB.
    let sample = "sample --posterior p.safetensors --samples 4 --max-steps 5 --allow-uncertified 1 --threads 4 --out s.safetensors --json";
    let words = ["the metric", "GB", "--metric-solver matrix-free", "--metric-batch", "--threads"];
    folder.fails(1, &format!("{sample} --max-memory 8MB"), &words);
    let report = folder.ok(&format!("{sample} --max-memory 8MB --metric-solver matrix-free")).json();
    assert_eq!(report["metric_solver"].as_str(), Some("matrix-free"));
    let report = folder.ok(&format!("{sample} --max-memory 8MB --metric-batch 100")).json();
    assert_eq!(report["metric_batch"].as_u64(), Some(100));
}

#[test]
fn training_that_diverges_is_a_failure_of_the_work() {
    let folder = Folder::new();
    folder.write("d.csv", "x,y\n1,0\n2,1\n3,1000\n");
    let train = "train --data d.csv --target y --likelihood poisson --lr 1000 --epochs 200 --out t.safetensors";
    folder.fails(1, train, &["diverged", "learning rate"]);
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let folder = Folder::new();
    let case = |name: &str| repository(&format!("tests/golden/p2/{name}"));
    folder.ok(&format!(
        "fit --model {} --activation tanh --data {} --target y --likelihood categorical --out p.safetensors",
        case("model.safetensors"),
        case("train.csv"),
    ));
    let predict = |options: &str| {
        let inputs = case("test.csv");
        folder.ok(&format!("predict --posterior p.safetensors --inputs {inputs} --samples 200 {options}")).stdout
    };
    for method in ["--method nn", "--link mc"] {
        let one = predict(&format!("{method} --seed 5 --threads 1"));
        assert_eq!(one, predict(&format!("{method} --seed 5 --threads 2")));
        assert_ne!(one, predict(&format!("{method} --seed 6 --threads 2")));
    }
}

#[test]
fn the_same_fit_writes_the_same_bytes() {
    let folder = Folder::new();
    let case = |name: &str| repository(&format!("tests/golden/p1/{name}"));
    let fit = format!(
        "fit --model {} --activation tanh --data {} --target y --likelihood gaussian",
        case("model.safetensors"),
        case("train.csv"),
    );
    let mut files = Vec::new();
    for options in ["", "--solver function-space", "--without-data", "--optimize", "--optimize --prior layer"] {
        let written = ["one.safetensors", "two.safetensors"].map(|name| {
            folder.ok(&format!("{fit} {options} --out {name}"));
            std::fs::read(folder.path(name)).expect("a posterior")
        });
        assert!(written[0] == written[1], "fit {options}");
        files.extend(written.into_iter().take(1));
    }
    // Different options are different files.
    for (index, file) in files.iter().enumerate() {
        assert!(!files[..index].contains(file), "{index}");
    }
}

#[test]
fn an_older_result_survives_a_failure_and_is_replaced_by_a_success() {
    let folder = Folder::new();
    large(&folder);
    folder.write("p.safetensors", "older");
    folder.fails(1, &format!("{FIT} --max-memory 1MB"), &["GB"]);
    assert_eq!(std::fs::read(folder.path("p.safetensors")).expect("the older file"), b"older");
    folder.ok(FIT);
    assert_ne!(std::fs::read(folder.path("p.safetensors")).expect("the new file"), b"older");
    assert_eq!(folder.names(), ["d.csv", "m.safetensors", "p.safetensors"]);
}

#[cfg(unix)]
#[test]
fn a_link_is_followed_and_a_device_is_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 3, 1]);
    folder.write("d.csv", "x,y\n1,2\n2,3\n");
    folder.write("real.safetensors", "older");
    std::os::unix::fs::symlink(folder.path("real.safetensors"), folder.path("p.safetensors")).expect("a link");
    folder.ok(FIT);
    assert!(folder.path("p.safetensors").is_symlink());
    assert_ne!(std::fs::read(folder.path("real.safetensors")).expect("the result"), b"older");
    folder.ok("predict --posterior p.safetensors --inputs d.csv --target y --out /dev/null");
    assert!(std::fs::metadata("/dev/null").expect("the device").file_type().is_char_device());
}

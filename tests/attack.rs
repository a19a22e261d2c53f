//! A harder attack: folders and files from strangers, files that change, results that must not be lost. Each test is a case in
//! which the program once lost, leaked, lied or hung.

#![cfg(unix)]

#[path = "attack/certificates.rs"]
mod certificates;
#[path = "attack/committees.rs"]
mod committees;
#[path = "attack/condition.rs"]
mod condition;
#[path = "attack/disks.rs"]
mod disks;
#[path = "attack/files.rs"]
mod files;
#[path = "attack/graphs.rs"]
mod graphs;
#[path = "common/onnx_graph.rs"]
mod onnx_graph;
#[path = "common/program.rs"]
mod program;
#[path = "attack/side_files.rs"]
mod side_files;
#[path = "attack/work.rs"]
mod work;

use std::process::{Command, Stdio};

use program::{Folder, program};
use riemannian_laplace::internals::tensors::{FINGERPRINT, TensorFile, Values, fingerprint, write};

const FIT: &str = "fit --model m.safetensors --data d.csv --target y --likelihood gaussian";
const TRAIN: &str =
    "train --data d.csv --target y --likelihood gaussian --hidden 2 --cross-validate --folds 2 --committee --quiet";

/// Twelve data points.
fn data() -> String {
    let rows = (0..12).map(|n| format!("{},{}\n", 0.3 * f64::from(n), (0.7 * f64::from(n)).sin()));
    format!("x,y\n{}", rows.collect::<String>())
}

/// A small network and twelve data points.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 6, 1]);
    folder.write("d.csv", data());
    folder
}

/// The same, with a posterior.
fn fitted() -> Folder {
    let folder = folder();
    folder.ok(&format!("{FIT} --sigma 0.3 --out p.safetensors"));
    folder
}

/// Runs a command, and gives its status, what it said, and the most memory that it held, in bytes.
fn most_memory(folder: &Folder, arguments: &str) -> (Option<i32>, String, u64) {
    let mut child = Command::new(program())
        .args(arguments.split_whitespace())
        .current_dir(folder.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let (status, mut most) = (format!("/proc/{}/status", child.id()), 0);
    while child.try_wait().expect("a state").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<u64>().ok());
        most = most.max(1024 * kilobytes.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let output = child.wait_with_output().expect("an end");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned(), most)
}

/// Changes a safetensors file and signs it anew.
fn resign(folder: &Folder, name: &str, change: impl FnOnce(&mut TensorFile)) {
    let mut file = TensorFile::read_numbers(&folder.path(name)).expect("a file");
    change(&mut file);
    const INTEGERS: [&str; 5] = ["sample", "nfev", "status", "certified", "indices"];
    let whole: Vec<Vec<i64>> =
        file.tensors.values().map(|tensor| tensor.values.iter().map(|value| *value as i64).collect()).collect();
    let entries: Vec<_> = file
        .tensors
        .iter()
        .zip(&whole)
        .map(|((name, tensor), whole)| match INTEGERS.contains(&name.as_str()) {
            true => (name.as_str(), tensor.shape.clone(), Values::Integer(whole)),
            false => (name.as_str(), tensor.shape.clone(), Values::Real(&tensor.values)),
        })
        .collect();
    let mut metadata = file.metadata.clone();
    metadata.insert(FINGERPRINT.to_string(), fingerprint(&entries, &file.metadata));
    write(&folder.path(name), &entries, metadata).expect("a file");
}

/// The number of runs of a long test, unless the environment variable `RUNS` has another.
fn runs(usual: usize) -> usize {
    std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(usual)
}

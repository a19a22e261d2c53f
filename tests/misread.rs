//! Networks that were trained by PyTorch and are read wrongly: as a chain without the residual, with one activation in
//! place of two, with another activation, or with data in other units. `fit` warns of each, `--check` refuses each, and
//! neither says anything when the same files are read rightly. The script is beside the fixtures.

use std::path::Path;
use std::process::Command;

/// A way of reading a network: the arguments after `rla fit`.
struct Reading {
    data: &'static str,
    network: &'static str,
    units: &'static str,
    arguments: &'static str,
}

/// The readings of the networks of one data set that are wrong.
const WRONG: [(&str, &str, &str); 6] = [
    ("residual", "", "--activation tanh"),
    ("residual", "", "--layers layers.0:tanh,layers.1:tanh,layers.2"),
    ("mixed", "", "--activation tanh"),
    ("plain", "", "--activation relu"),
    ("relu", "", "--activation tanh"),
    ("plain", ".raw", "--activation tanh"),
];

/// Those that are right.
const RIGHT: [(&str, &str, &str); 4] = [
    ("plain", "", "--activation tanh"),
    ("relu", "", "--activation relu"),
    ("mixed", "", "--layers 0:tanh,2:relu,4"),
    ("plain", "", "--layers 0:tanh,2:tanh,4"),
];

fn readings(list: &'static [(&str, &str, &str)]) -> impl Iterator<Item = Reading> {
    ["regression", "classes"].into_iter().flat_map(move |data| {
        list.iter().map(move |&(network, units, arguments)| Reading { data, network, units, arguments })
    })
}

/// What the program ends with and says.
fn fit(reading: &Reading, more: &str) -> (Option<i32>, String) {
    let Reading { data, network, units, arguments } = reading;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/misread");
    let out = tempfile::tempdir().expect("a folder");
    let likelihood = if *data == "regression" { "gaussian" } else { "categorical" };
    let line = format!(
        "fit --model {data}.{network}.safetensors --data {data}{units}.csv --target y --likelihood {likelihood} \
         --quiet {arguments} {more}"
    );
    let output = Command::new(env!("CARGO_BIN_EXE_rla"))
        .args(line.split_whitespace())
        .arg("--out")
        .arg(out.path().join("posterior.safetensors"))
        .current_dir(folder)
        .output()
        .expect("the program runs");
    (output.status.code(), format!("rla {line}\n{}", String::from_utf8_lossy(&output.stderr)))
}

fn is_warned(said: &str) -> bool {
    said.contains("warning: the network is not at a mode") || said.contains("warning: the network explains less")
}

#[test]
fn a_network_that_is_read_wrongly_draws_a_warning() {
    for reading in readings(&WRONG) {
        for more in ["", "--optimize"] {
            let (status, said) = fit(&reading, more);
            assert!(status == Some(0) || said.contains("ran to its bound"), "{said}");
            assert!(is_warned(&said), "no warning: {said}");
        }
    }
}

#[test]
fn a_network_that_is_read_rightly_draws_none() {
    for reading in readings(&RIGHT) {
        for more in ["", "--optimize", "--structure low-rank:5", "--structure kron", "--structure diag"] {
            let (status, said) = fit(&reading, more);
            assert_eq!(status, Some(0), "{said}");
            assert!(!is_warned(&said), "{said}");
        }
    }
}

#[test]
fn the_check_refuses_what_is_read_wrongly_and_passes_what_is_read_rightly() {
    for reading in readings(&WRONG) {
        let (status, said) = fit(&reading, &format!("--check {}.{}.outputs.csv", reading.data, reading.network));
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("data point ") && said.contains("the network gives "), "{said}");
    }
    for reading in readings(&RIGHT) {
        let (status, said) = fit(&reading, &format!("--check {}.{}.outputs.csv", reading.data, reading.network));
        assert_eq!(status, Some(0), "{said}");
    }
}

#[test]
fn a_check_that_does_not_fit_the_data_is_refused() {
    let reading = Reading { data: "classes", network: "plain", units: "", arguments: "--activation tanh" };
    let (status, said) = fit(&reading, "--check regression.plain.outputs.csv");
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("1 column") && said.contains("10 outputs"), "{said}");
}

//! Files in which a network is a list of layers, written before networks were graphs: `tests/fixtures/former` holds posteriors
//! of several structures, and what the program that wrote them said of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::Array2;
use riemannian_laplace::{Laplace, Model, Network};
use serde::Deserialize;

#[derive(Deserialize)]
struct Record {
    inputs: Vec<Vec<f64>>,
    log_marginal_likelihood: f64,
    columns: BTreeMap<String, Vec<f64>>,
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// A column of predictions, with its number where there are several outputs.
fn column<'a>(record: &'a Record, name: &str, output: usize) -> Option<&'a Vec<f64>> {
    record.columns.get(name).or_else(|| record.columns.get(&format!("{name}_{}", output + 1)))
}

#[test]
fn posteriors_over_layers_predict_as_they_did() {
    let folder = tests().join("fixtures/former");
    let text = fs::read_to_string(folder.join("former.json")).expect("records");
    let records: BTreeMap<String, Record> = serde_json::from_str(&text).expect("records");
    assert_eq!(records.len(), 5);
    let mut compared = 0;
    for (name, record) in records {
        let path = folder.join(format!("{name}.safetensors"));
        let laplace = Laplace::load(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let error = laplace.log_marginal_likelihood() / record.log_marginal_likelihood - 1.0;
        assert!(error.abs() < 1e-10, "{name}: the evidence is off by {error:e}");
        let inputs = Array2::from_shape_vec((record.inputs.len(), record.inputs[0].len()), record.inputs.concat());
        let found = laplace.linearized(&inputs.expect("rows of one length")).expect("predictions");
        for ((row, output), mean) in found.mean.indexed_iter() {
            let (Some(means), Some(variances)) =
                (column(&record, "mean", output), column(&record, "epistemic_variance", output))
            else {
                continue; // Of classes there are probabilities.
            };
            let variance = found.covariance[(row, output, output)];
            assert!((mean - means[row]).abs() < 1e-10, "{name}: mean {mean}, not {}", means[row]);
            let error = variance / variances[row] - 1.0;
            assert!(error.abs() < 1e-9, "{name}: variance {variance}, not {}", variances[row]);
            compared += 1;
        }
    }
    assert_eq!(compared, 35);
}

#[test]
fn a_model_that_lists_its_layers_is_the_network_of_the_posterior() {
    let folder = tests().join("fixtures/former");
    let network = Network::load(&folder.join("model.safetensors"), None).expect("a network of layers");
    assert!(!network.architecture().layers().is_empty());
    let laplace = Laplace::load(&folder.join("layer_norm.safetensors")).expect("a posterior");
    assert_eq!(laplace.model().parameters(), network.parameters());
    assert_eq!(laplace.model().description(), network.description());
    let copy = tempfile::tempdir().expect("a folder");
    let copy = copy.path().join("copy.safetensors");
    network.save(&copy).expect("a file");
    assert_eq!(Network::load(&copy, None).expect("the same"), network);
}

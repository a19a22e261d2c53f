//! What the program does with files and words from strangers, as functions of bytes: each must return, whatever the bytes.
//! The fuzz targets under `fuzz/` and the tests of mutations call the same functions.

#![allow(dead_code)] // Every target that compiles this file uses one function of it.

#[path = "onnx_graph.rs"]
mod onnx_graph;
#[path = "structured.rs"]
mod structured;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ndarray::Array2;
use riemannian_laplace::internals::data::{Table, TableOptions};
use riemannian_laplace::internals::geodesic::{Checkpoint, Keeper, Outcome, read_samples};
use riemannian_laplace::internals::laplace::FitPart;
use riemannian_laplace::internals::memory;
use riemannian_laplace::internals::tensors::{FINGERPRINT, TensorFile, Values, fingerprint, write};
use riemannian_laplace::{Activation, Laplace, Method, Model, Network, Scaling};

/// The memory that a file of a few kilobytes may ask for.
const LIMIT: u64 = 64 << 20;
/// Networks that are larger than this are not evaluated: that takes its time, as it may.
const MOST_NUMBERS: f64 = 1e6;

/// A file with these bytes, in a folder of its own that is used again and again.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    memory::set_limit(Some(LIMIT));
    let folder = [Path::new("/dev/shm"), &std::env::temp_dir()][usize::from(!Path::new("/dev/shm").is_dir())]
        .join(format!("untrusted-{}-{:?}", std::process::id(), std::thread::current().id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// A network that could be read can be evaluated, where that does not take long.
fn evaluate(network: &Network) {
    if network.n_inputs() as f64 * 2.0 + network.numbers_per_point(1) > MOST_NUMBERS {
        return;
    }
    let inputs = Array2::from_elem((2, network.n_inputs()), 0.5);
    if let Ok(map) = network.bind(inputs.view()) {
        let mut outputs = vec![0.0; map.n_points() * map.n_outputs()];
        map.clone().evaluate(1).outputs(network.parameters(), &mut outputs);
    }
}

/// A state dict in safetensors.
pub fn model(bytes: &[u8]) {
    let path = file("model.safetensors", bytes);
    for activation in [None, Some(Activation::Tanh)] {
        if let Ok(network) = Network::load(&path, activation) {
            evaluate(&network);
        }
    }
}

/// An ONNX graph: the bytes as a file, and as the description of one.
pub fn onnx(bytes: &[u8]) {
    for bytes in [bytes, &onnx_graph::described(bytes)] {
        if let Ok(imported) = Network::from_onnx(&file("model.onnx", bytes)) {
            evaluate(&imported.network);
        }
    }
}

/// A posterior or a part of a fit, as it is and signed anew, so that what lies behind the fingerprint is reached.
pub fn posterior(bytes: &[u8]) {
    let path = file("posterior.safetensors", bytes);
    use_posterior(&path);
    use_part(&path);
    let Ok(contents) = TensorFile::read_numbers(&path) else { return };
    let integers: Vec<i64> = match contents.tensors.get("indices") {
        Some(tensor) => tensor.values.iter().map(|value| *value as i64).collect(),
        None => Vec::new(),
    };
    let entries: Vec<_> = contents
        .tensors
        .iter()
        .map(|(name, tensor)| match name.as_str() {
            "indices" => ("indices", tensor.shape.clone(), Values::Integer(&integers)),
            name => (name, tensor.shape.clone(), Values::Real(&tensor.values)),
        })
        .collect();
    let mut metadata = contents.metadata.clone();
    metadata.insert(FINGERPRINT.to_string(), fingerprint(&entries, &contents.metadata));
    let signed = path.with_file_name("signed.safetensors");
    if write(&signed, &entries, metadata).is_ok() {
        use_posterior(&signed);
        use_part(&signed);
    }
}

/// A part of a fit that could be read can be asked to join, alone and with itself.
fn use_part(path: &Path) {
    let (Ok(one), Ok(other)) = (FitPart::load(path), FitPart::load(path)) else { return };
    let _ = FitPart::join(vec![one]);
    let Ok(again) = FitPart::load(path) else { return };
    let _ = FitPart::join(vec![other, again]);
}

fn use_posterior(path: &Path) {
    let Ok(laplace) = Laplace::load(path) else { return };
    if laplace.model().n_inputs() as f64 + laplace.model().numbers_per_point(1) > MOST_NUMBERS {
        return;
    }
    let inputs = Array2::from_elem((2, laplace.model().n_inputs()), 0.5);
    for method in [Method::Map, Method::default()] {
        let _ = laplace.predict(&inputs, &method);
    }
    let _ = (laplace.log_marginal_likelihood(), laplace.effective_parameters());
}

/// Samples, checkpoints, vectors.
pub fn vectors(bytes: &[u8]) {
    let path = file("vectors.safetensors", bytes);
    if let Ok(samples) = read_samples(&path) {
        let _ = (samples.max_drift(), samples.reached(), samples.failed());
    }
    let _ = Checkpoint::resume(&path, Default::default(), Duration::ZERO);
    if let Ok(mut file) = TensorFile::read(&path) {
        let _ = file.take_rows(&path, "v", 3, "each row is a vector");
    }
    let _ = TensorFile::stored_fingerprint(&path);
}

/// A checkpoint that is well formed and signed: what it gives out is what a run would have saved.
pub fn checkpoint(bytes: &[u8]) {
    let path = file("run.partial", &[]);
    structured::checkpoint(&path, &mut structured::Choices(bytes));
    let samples = read_samples(&path);
    assert!(samples.is_err(), "a checkpoint is no file of samples");
    let Ok(checkpoint) = Checkpoint::resume(&path, Default::default(), Duration::ZERO) else { return };
    let found: Vec<_> = (0..5).filter_map(|index| checkpoint.find(index)).collect();
    for finished in &found {
        let (one, outcome) = &**finished;
        assert_eq!(one.theta.len(), one.velocity.len());
        let is_finite = one.theta.iter().chain(&one.velocity).all(|value| value.is_finite());
        assert!(is_finite || *outcome != Outcome::Reached);
        let is_known = [one.drift, one.path_drift, one.residual].iter().all(|figure| *figure >= 0.0);
        assert!(!one.certified || is_known && *outcome == Outcome::Reached, "{one:?}");
    }
    assert!(found.len() <= checkpoint.finished());
}

/// A scaling in JSON, or any other small text: numbers that are read are numbers.
pub fn side_file(bytes: &[u8]) {
    let text = structured::side_file(&mut structured::Choices(bytes));
    if let Ok(scaling) = Scaling::read(&file("side.json", text.as_bytes())) {
        let parts = [Some(&scaling.inputs), scaling.targets.as_ref()];
        let numbers = parts.into_iter().flatten().flat_map(|part| part.mean().iter().chain(part.scale()));
        assert!(numbers.into_iter().all(|number| number.is_finite()), "{scaling:?}");
    }
}

/// A table, and a scaling in JSON.
pub fn csv(bytes: &[u8]) {
    let path = file("table.csv", bytes);
    for drop_missing in [false, true] {
        let options = TableOptions { ignore_if_present: vec!["id".to_string()], drop_missing, ..Default::default() };
        let Ok(table) = Table::read_with(&path, &options) else { continue };
        let target = [table.columns().last().cloned().unwrap_or_default()];
        let _ = table.dataset(&target);
        if let Ok(data) = table.labelled_dataset(&target) {
            table.dataset_for(data.schema()).expect("a table has the columns of its own data");
        }
    }
    let _ = Scaling::read(&path);
}

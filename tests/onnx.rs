//! Networks from ONNX files: `tests/fixtures/onnx` holds exports by PyTorch's two exporters and by skl2onnx, with
//! onnxruntime's outputs and with evidence and covariances that torch computed in f64 from the modules themselves. The
//! script that made them is beside them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ndarray::Array2;
use riemannian_laplace::{Dataset, Error, Family, FitOptions, Imported, Laplace, Model, Network, Weights};
use serde::Deserialize;

/// The networks with an evidence: exported twice each.
const NETWORKS: [&str; 10] = [
    "mixed",
    "activations",
    "classifier",
    "counts",
    "nested",
    "layer_norm",
    "batch_norm",
    "convolution",
    "residual_convolution",
    "pooled",
];
/// Networks that are no chains, likewise; θ may have another order than the module.
const GRAPHS: [&str; 10] = [
    "lstm",
    "attention",
    "transformer",
    "shared",
    "autoencoder",
    "gate",
    "slope",
    "squeeze_excite",
    "dilated",
    "ceiling",
];
/// The networks of scikit-learn.
const SCIKIT_LEARN: [&str; 3] = ["regressor", "three_classes", "two_classes"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/onnx")
}

#[derive(Deserialize)]
struct Record {
    files: Vec<String>,
    link: Option<String>,
    theta: Vec<f64>,
    inputs: Vec<Vec<f64>>,
    outputs: Vec<Vec<Vec<f64>>>,
}

#[derive(Deserialize)]
struct Evidence {
    likelihood: String,
    sigma: Option<f64>,
    prior_precision: f64,
    data_inputs: Vec<Vec<f64>>,
    targets: Vec<Vec<f64>>,
    log_marginal_likelihood: f64,
    covariance: Vec<Vec<Vec<f64>>>,
}

fn read<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    let text = fs::read_to_string(folder().join(format!("{name}.json"))).expect("a fixture");
    serde_json::from_str(&text).expect("a record")
}

fn matrix(rows: &[Vec<f64>]) -> Array2<f64> {
    Array2::from_shape_vec((rows.len(), rows[0].len()), rows.concat()).expect("rows of one length")
}

/// What the graph computes, with its link.
fn linked(imported: &Imported, inputs: &Array2<f64>) -> Array2<f64> {
    let mut outputs = imported.network.outputs(inputs.view()).expect("inputs that fit");
    if let Some(link) = imported.link {
        link.apply(&mut outputs);
    }
    outputs
}

fn largest(values: &Array2<f64>) -> f64 {
    values.iter().fold(0.0, |most, value| value.abs().max(most))
}

#[test]
fn outputs_agree_with_onnxruntime_and_theta_with_pytorch() {
    for name in NETWORKS.iter().chain(&GRAPHS).chain(&SCIKIT_LEARN) {
        let record: Record = read(name);
        let inputs = matrix(&record.inputs);
        for (file, expected) in record.files.iter().zip(&record.outputs) {
            let imported = Network::from_onnx(&folder().join(file)).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(imported.link.map(|link| link.to_string()), record.link, "{file}");
            // The weights are f32 in the file and exact in f64.
            let (mut theta, mut theirs) = (imported.network.parameters().to_vec(), record.theta.clone());
            if GRAPHS.contains(name) {
                theta.sort_by(f64::total_cmp);
                theirs.sort_by(f64::total_cmp);
            }
            assert_eq!(theta, theirs, "{file}");
            let mut found = linked(&imported, &inputs);
            // scikit-learn writes both probabilities of two classes.
            if expected[0].len() == 2 && found.ncols() == 1 {
                found = ndarray::concatenate![ndarray::Axis(1), 1.0 - &found, found];
            }
            let expected = matrix(expected);
            // onnxruntime computes in f32.
            let error = largest(&(&found - &expected)) / largest(&expected);
            assert!(error < 1e-5, "{file}: outputs differ by {error:e} of the largest");
        }
    }
}

#[test]
fn evidence_and_linearised_covariance_agree_with_torch_in_f64() {
    for name in NETWORKS.iter().chain(&GRAPHS) {
        let (record, evidence): (Record, Evidence) = (read(name), read(name));
        let family = match evidence.sigma {
            Some(sigma) => Family::gaussian(sigma).expect("a noise level"),
            None => evidence.likelihood.parse().expect("a likelihood"),
        };
        for file in &record.files {
            let imported = Network::from_onnx(&folder().join(file)).unwrap_or_else(|error| panic!("{error}"));
            let network = imported.for_family(&family).expect("the likelihood of the link");
            let data = Dataset::new(matrix(&evidence.data_inputs), matrix(&evidence.targets)).expect("data");
            let options = FitOptions { prior_precision: evidence.prior_precision.into(), ..Default::default() };
            let laplace = Laplace::fit(network, data, family.clone(), &options).expect("a fit");
            let error = laplace.log_marginal_likelihood() / evidence.log_marginal_likelihood - 1.0;
            assert!(error.abs() < 1e-8, "{file}: the evidence is off by {error:e}");
            let found = laplace.linearized(&matrix(&record.inputs)).expect("a prediction");
            let expected: Vec<f64> = evidence.covariance.concat().concat();
            let scale = expected.iter().fold(0.0_f64, |most, value| value.abs().max(most));
            for (index, (found, expected)) in found.covariance.iter().zip(&expected).enumerate() {
                let error = (found - expected).abs() / scale;
                assert!(error < 1e-8, "{file}: covariance {index} is {found}, not {expected}");
            }
        }
    }
}

fn refusal(file: &str) -> String {
    Network::from_onnx(&folder().join(file)).expect_err("a graph that no layers represent").to_string()
}

#[test]
fn what_has_no_derivatives_for_every_point_is_refused_by_node_and_operator() {
    for (name, node, operator, reason) in [
        ("batch", "centre", "ReduceMean", "axis of the points"),
        ("loop", "again", "Loop", "control flow"),
        ("sort", "best", "TopK", "not supported"),
    ] {
        let message = refusal(&format!("refused_{name}.onnx"));
        assert!(message.contains(&format!("node `{node}` (operator {operator}): ")), "{name}: {message}");
        assert!(message.contains(reason), "{name}: {message}");
        assert!(message.contains("last layer") && message.contains("derivatives=\"torch\""), "{name}: {message}");
    }
}

#[test]
fn a_weight_that_is_used_twice_is_one_parameter() {
    for file in ["shared.script.onnx", "shared.dynamo.onnx"] {
        let imported = Network::from_onnx(&folder().join(file)).expect("a network");
        assert_eq!(imported.names.len(), 4, "{file}: {:?}", imported.names);
        assert_eq!(imported.network.n_params(), 16, "{file}");
    }
    // The exporter stores a transposed copy.
    let imported = Network::from_onnx(&folder().join("autoencoder.dynamo.onnx")).expect("a network");
    assert_eq!(
        (imported.names, imported.network.n_params()),
        (["weight", "inner", "outer"].map(String::from).to_vec(), 14)
    );
}

#[test]
fn parts_of_the_weights_are_named_as_in_the_graph() {
    let imported = Network::from_onnx(&folder().join("classifier.script.onnx")).expect("a network");
    let names: Vec<String> = imported.network.tensors().into_iter().map(|tensor| tensor.name).collect();
    assert_eq!(names, imported.names);
    let (first, size) = (&names[0], imported.network.tensors()[0].size);
    let network: Arc<dyn Model> = Arc::new(imported.network.clone());
    let part = Weights::Layers(vec![first.clone()]).restrict(&network).expect("a tensor of the graph");
    assert_eq!(part.n_params(), size);
    let error = Weights::Layers(vec!["nothing".to_string()]).restrict(&network).expect_err("no such layer").to_string();
    assert!(error.contains("no layer `nothing`"), "{error}");
}

#[test]
fn a_link_belongs_to_its_likelihood_and_a_sigmoid_may_be_an_activation() {
    let classifier = || Network::from_onnx(&folder().join("classifier.script.onnx")).expect("a network");
    let gaussian = Family::gaussian(1.0).expect("a noise level");
    let refusal = classifier().for_family(&gaussian).expect_err("a softmax is not for a Gaussian");
    assert!(matches!(refusal, Error::Link { belongs: "categorical", likelihood: "gaussian", .. }), "{refusal}");
    let sigmoid = Network::from_onnx(&folder().join("two_classes.skl.onnx")).expect("a network");
    let kept = sigmoid.clone().for_family(&gaussian).expect("a bounded regression");
    let inputs = matrix(&read::<Record>("two_classes").inputs);
    let difference = kept.outputs(inputs.view()).expect("inputs that fit") - linked(&sigmoid, &inputs);
    assert!(largest(&difference) < 1e-15, "{difference}");
}

#[test]
fn bytes_that_are_no_graph_are_refused_without_a_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("net.onnx");
    let whole = fs::read(self::folder().join("mixed.script.onnx")).expect("a fixture");
    for bytes in [Vec::new(), b"not protobuf".to_vec(), whole[..whole.len() / 2].to_vec()] {
        fs::write(&path, bytes).expect("a file");
        let error = Network::from_onnx(&path).expect_err("no network");
        assert!(error.to_string().contains("net.onnx"), "{error}");
    }
    // A byte may be wrong anywhere: the network is refused, or it is another network.
    for index in (0..whole.len()).step_by(5) {
        let mut bytes = whole.clone();
        bytes[index] ^= 0x5a;
        fs::write(&path, &bytes).expect("a file");
        let _ = Network::from_onnx(&path);
    }
}

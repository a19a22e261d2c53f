//! Networks that are no chains, from ONNX: outputs, log likelihood, evidence, linearised covariances and derivatives along a
//! velocity agree with references in f64. See `tests/fixtures/graph/README.md`.

use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{Array2, Axis};
use riemannian_laplace::internals::map::{Evaluator, Jet};
use riemannian_laplace::{Dataset, Family, FitOptions, Laplace, Model, Network};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    likelihood: String,
    sigma: Option<f64>,
    prior_precision: f64,
    theta: Vec<f64>,
    outputs: Vec<Vec<f64>>,
    log_likelihood: f64,
    log_marginal_likelihood: f64,
    glm_f_cov: Vec<Vec<Vec<f64>>>,
    directional: Directional,
    /// How far exact constants would move each quantity; none where the file has no rounded ones.
    #[serde(default)]
    float32_constants: std::collections::BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct Directional {
    velocity: Vec<f64>,
    f: Vec<Vec<f64>>,
    first: Vec<Vec<f64>>,
    second: Vec<Vec<f64>>,
}

struct Case {
    name: &'static str,
    expected: Expected,
    network: Network,
    family: Family,
    train: Dataset,
    test: Array2<f64>,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/graph").join(name)
}

/// The columns of a table whose names start with a letter.
fn columns(path: &Path, letter: char) -> Array2<f64> {
    let text = fs::read_to_string(path).expect("a table");
    let mut lines = text.lines();
    let wanted: Vec<bool> = lines.next().expect("a header").split(',').map(|name| name.starts_with(letter)).collect();
    let row = |line: &str| -> Vec<f64> {
        let cells = line.split(',').zip(&wanted).filter(|(_, wanted)| **wanted);
        cells.map(|(cell, _)| cell.parse().expect("a number")).collect()
    };
    let rows: Vec<Vec<f64>> = lines.map(row).collect();
    matrix(&rows)
}

fn matrix(rows: &[Vec<f64>]) -> Array2<f64> {
    Array2::from_shape_vec((rows.len(), rows[0].len()), rows.concat()).expect("rows of one length")
}

impl Case {
    fn read(name: &'static str) -> Self {
        let folder = folder(name);
        let text = fs::read_to_string(folder.join("expected.json")).expect("references");
        let expected: Expected = serde_json::from_str(&text).expect("references");
        let family = match expected.sigma {
            Some(sigma) => Family::gaussian(sigma).expect("a noise level"),
            None => expected.likelihood.parse().expect("a likelihood"),
        };
        let imported = Network::from_onnx(&folder.join("model.onnx")).unwrap_or_else(|error| panic!("{error}"));
        let network = imported.for_family(&family).expect("no link");
        let train = folder.join("train.csv");
        let train = Dataset::new(columns(&train, 'x'), columns(&train, 'y')).expect("data");
        Self { name, expected, network, family, train, test: columns(&folder.join("test.csv"), 'x') }
    }

    /// The larger of a limit and what the rounding of constants explains.
    fn limit(&self, quantity: &str, limit: f64) -> f64 {
        self.expected.float32_constants.get(quantity).map_or(limit, |moved| limit.max(3.0 * moved))
    }

    /// A vector in the order of the reference, in that of θ.
    fn reordered(&self, vector: &[f64]) -> Vec<f64> {
        let place = |value: &f64| self.expected.theta.iter().position(|own| own == value).expect("a parameter");
        self.network.parameters().iter().map(|value| vector[place(value)]).collect()
    }
}

/// The largest difference, relative to the largest number.
fn apart(found: &Array2<f64>, expected: &Array2<f64>) -> f64 {
    let size = |values: &Array2<f64>| values.iter().fold(0.0_f64, |most, value| value.abs().max(most));
    size(&(found - expected)) / size(expected)
}

fn check(name: &'static str) {
    let case = Case::read(name);
    let mut own = case.network.parameters().to_vec();
    let mut theirs = case.expected.theta.clone();
    own.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    assert_eq!(own, theirs, "{name}: other parameters");
    outputs_agree(&case);
    evidence_agrees(&case);
    derivatives_agree(&case);
}

fn outputs_agree(case: &Case) {
    let found = case.network.outputs(case.test.view()).expect("inputs that fit");
    let error = apart(&found, &matrix(&case.expected.outputs));
    assert!(error < case.limit("f_mean", 1e-12), "{}: outputs differ by {error:e}", case.name);
}

fn evidence_agrees(case: &Case) {
    let options = FitOptions { prior_precision: case.expected.prior_precision.into(), ..Default::default() };
    let laplace = Laplace::fit(case.network.clone(), case.train.clone(), case.family.clone(), &options).expect("a fit");
    for (quantity, found, expected) in [
        ("log_likelihood", laplace.log_likelihood(), case.expected.log_likelihood),
        ("log_marginal_likelihood", laplace.log_marginal_likelihood(), case.expected.log_marginal_likelihood),
    ] {
        let error = (found / expected - 1.0).abs();
        assert!(error < case.limit(quantity, 1e-10), "{}: {quantity} is off by {error:e}", case.name);
    }
    let found = laplace.linearized(&case.test).expect("a prediction");
    let expected = case.expected.glm_f_cov.concat().concat();
    let size = expected.iter().fold(0.0_f64, |most, value| value.abs().max(most));
    for (found, expected) in found.covariance.iter().zip(&expected) {
        let error = (found - expected).abs() / size;
        assert!(error < case.limit("f_cov", 1e-9), "{}: a covariance is {found}, not {expected}", case.name);
    }
}

fn derivatives_agree(case: &Case) {
    let velocity = case.reordered(&case.expected.directional.velocity);
    let map = case.network.bind(case.train.inputs().view()).expect("inputs that fit");
    let (n, p) = (map.n_points(), map.n_outputs());
    let mut jet = Jet::new(n, p);
    Evaluator::new(&map, 1).jet(case.network.parameters(), &velocity, &mut jet);
    let Directional { f, first, second, .. } = &case.expected.directional;
    for (what, found, expected) in [
        ("outputs", jet.outputs, f),
        ("first derivatives", jet.first, first),
        ("second derivatives", jet.second, second),
    ] {
        // One output after the other.
        let found = Array2::from_shape_vec((p, n), found).expect("N·P numbers").reversed_axes();
        assert_eq!(found.len_of(Axis(0)), expected.len());
        let error = apart(&found, &matrix(expected));
        assert!(
            error < case.limit("exp", 1e-9).max(case.limit("f_cov", 1e-9)),
            "{}: {what} differ by {error:e}",
            case.name
        );
    }
}

#[test]
fn an_embedding_of_categories() {
    check("embedding");
}

#[test]
fn a_tabular_transformer() {
    check("ft-transformer");
}

#[test]
fn a_recurrent_network() {
    check("gru");
}

#[test]
fn convolutions_that_are_concatenated() {
    check("dense-conv");
}

#[test]
fn gates_and_shared_weights() {
    check("gated");
}

#[test]
fn a_u_net() {
    check("unet");
}

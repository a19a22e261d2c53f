//! Exported graphs, evaluated by a small evaluator of their own operators, give the numbers of `predict` in f64: networks of
//! every kind of node, every structure, every method, every likelihood and every link.

#[path = "common/mod.rs"]
mod common;
#[path = "export/evaluator.rs"]
mod evaluator;
#[allow(dead_code)] // Shared with the reader, which uses more of it.
#[path = "../src/network/onnx/messages.rs"]
mod messages;
#[path = "graphs/random.rs"]
mod random;

use std::path::Path;

use common::{Outcome, draw_targets, normal_matrix, random_network};
use ndarray::{Array2, ArrayD, Axis};
use prost::Message;
use riemannian_laplace::internals::export::{ExportOptions, Plan, Precision};
use riemannian_laplace::internals::likelihood::TargetKind;
use riemannian_laplace::{
    Activation, Architecture, AvgPool2d, Conv2d, Dataset, Draws, Family, FitOptions, Image, Laplace, Layer, LayerNorm,
    Linear, Link, Method, Model, Network, Residual, Standardize, Structure, Weights,
};

/// The outputs of an exported graph.
fn run(laplace: &Laplace, method: &Method, inputs: &Array2<f64>, opset: i64) -> evaluator::Values {
    let options = ExportOptions::default().with_precision(Precision::F64).with_opset(opset);
    let exported = laplace.export(method, options).unwrap_or_else(|error| panic!("{error}"));
    let model = messages::ModelProto::decode(&exported.to_bytes()[..]).expect("a model");
    assert_eq!(model.opset_import[0].version, opset);
    let graph = model.graph.expect("a graph");
    let values = evaluator::Values::from([("inputs".to_string(), inputs.clone().into_dyn())]);
    evaluator::evaluate(&graph, values)
}

/// The largest difference relative to the largest number.
fn apart(found: &ArrayD<f64>, expected: &ArrayD<f64>) -> f64 {
    assert_eq!(found.shape(), expected.shape());
    let size = |values: &ArrayD<f64>| values.iter().fold(0.0_f64, |most, value| value.abs().max(most));
    size(&(found - expected)) / size(expected).max(1e-300)
}

/// 1e-9: sums in another order, over condition numbers of up to 1e5.
const LIMIT: f64 = 1e-9;

fn check(laplace: &Laplace, method: &Method, inputs: &Array2<f64>, what: &str) {
    let found = run(laplace, method, inputs, 17);
    let prediction = laplace.predict(inputs, method).unwrap_or_else(|error| panic!("{what}: {error}"));
    let is_count = laplace.family().likelihood().kind() == TargetKind::Count;
    let mut expected: Vec<(&str, ArrayD<f64>)> = Vec::new();
    if prediction.class_probabilities().is_some() {
        expected.push(("probabilities", prediction.mean.clone().into_dyn()));
        expected.push(("entropy", prediction.uncertainty().into_dyn()));
        match (&prediction.mutual_information, prediction.logit_variance()) {
            (Some(information), _) => expected.push(("mutual_information", information.clone().into_dyn())),
            (None, Some(variance)) => expected.push(("logit_variance", variance.into_dyn())),
            (None, None) => {}
        }
    } else {
        let (lower, upper) = prediction.interval(0.9).expect("intervals");
        expected.push(("mean", prediction.mean.clone().into_dyn()));
        expected.push(("epistemic_variance", prediction.epistemic_variance.clone().into_dyn()));
        expected.push(("aleatoric_variance", prediction.aleatoric_variance.clone().into_dyn()));
        expected.push(("lower", lower.into_dyn()));
        expected.push(("upper", upper.into_dyn()));
    }
    for (name, expected) in expected {
        let error = apart(&found[name], &expected);
        // Ends of counts are whole numbers: with rates beyond 10,000 the last bits of a distribution function move them by one.
        let is_large = |value: &f64| *value > 1e4 && (name == "lower" || name == "upper");
        let limit = if is_count && expected.iter().any(is_large) { 1e-4 } else { LIMIT };
        assert!(error < limit, "{what}: {name} is off by {error:e}: {:?} for {expected:?}", found[name]);
    }
}

/// A posterior over some weights of a network, from data of its own.
fn fit(network: &Network, family: &Family, structure: Structure, weights: Weights) -> Laplace {
    let inputs = normal_matrix(24, network.architecture().n_inputs(), 3);
    fit_at(network, family, structure, weights, inputs)
}

fn fit_at(network: &Network, family: &Family, structure: Structure, weights: Weights, inputs: Array2<f64>) -> Laplace {
    let outputs = network.outputs(inputs.view()).expect("outputs");
    let targets = draw_targets(family, &outputs, 5);
    let data = Dataset::new(inputs, targets).expect("data");
    let options = FitOptions { structure, prior_precision: 2.0.into(), ..Default::default() };
    let model =
        weights.restrict(&(std::sync::Arc::new(network.clone()) as std::sync::Arc<dyn Model>)).expect("weights");
    Laplace::fit_shared(model, data, family.clone(), &options).unwrap_or_else(|error| panic!("{error}"))
}

fn mlp(outputs: usize) -> Network {
    random_network(Architecture::new(&[3, 7, 6, outputs], Activation::Tanh).expect("an architecture"), 1)
}

fn gaussian() -> Family {
    Family::gaussian(0.4).expect("a noise level")
}

fn structures() -> Vec<Structure> {
    ["weight-space", "function-space", "kron", "diag", "low-rank:4", "matrix-free:6"]
        .iter()
        .map(|name| name.parse().expect("a structure"))
        .collect()
}

#[test]
fn every_structure_is_the_posterior_s_own_covariance() {
    let inputs = normal_matrix(5, 3, 9);
    for structure in structures() {
        for (outputs, weights) in [(1, Weights::All), (2, Weights::All), (2, Weights::LastLayer)] {
            let laplace = fit(&mlp(outputs), &gaussian(), structure, weights);
            check(&laplace, &Method::default(), &inputs, &format!("{structure}, {outputs} outputs"));
        }
    }
}

#[test]
fn every_form_of_a_covariance_is_the_inverse_of_its_precision() -> Outcome {
    for structure in ["weight-space", "function-space", "kron", "diag", "low-rank:4"] {
        let laplace = fit(&mlp(2), &gaussian(), structure.parse()?, Weights::All);
        let (covariance, precision) = (laplace.precision().form()?.to_matrix(), laplace.precision().to_matrix());
        let product = &covariance * &precision;
        for (i, j) in (0..product.nrows()).flat_map(|i| (0..product.ncols()).map(move |j| (i, j))) {
            let expected = if i == j { 1.0 } else { 0.0 };
            assert!((product[(i, j)] - expected).abs() < 1e-9, "{structure}: {i}, {j}: {}", product[(i, j)]);
        }
    }
    Ok(())
}

#[test]
fn every_likelihood_and_link_is_that_of_predict() -> Outcome {
    let inputs = normal_matrix(5, 3, 9);
    for (name, outputs) in [
        ("gaussian", 2),
        ("heteroscedastic", 2),
        ("poisson", 2),
        ("bernoulli", 2),
        ("categorical", 2),
        ("categorical", 4),
    ] {
        let family: Family = name.parse()?;
        let laplace = fit(&mlp(outputs), &family, "kron".parse()?, Weights::All);
        let draws = Method::Nn(Draws::first(4, 1));
        for (method, what) in [(Method::Map, "map"), (Method::default(), "glm"), (draws, "nn")] {
            check(&laplace, &method, &inputs, &format!("{name} of {outputs} outputs, {what}"));
        }
        if family.has_classes() {
            for link in [Link::CentredProbit, Link::Probit, Link::Bridge] {
                check(&laplace, &Method::Glm(link), &inputs, &format!("{name} of {outputs} outputs, {}", link.name()));
            }
        }
    }
    Ok(())
}

#[test]
fn networks_of_every_kind_of_node_are_written() -> Outcome {
    let conv = Conv2d { padding: [1, 1], groups: 2, ..Conv2d::new(Image::new(2, 4, 4), 4, [3, 3]) };
    let conv = vec![
        conv.into(),
        Activation::Relu.into(),
        AvgPool2d::new(Image::new(4, 4, 4), [2, 2]).into(),
        Layer::Flatten,
        Linear::new(16, 6).into(),
        LayerNorm::new(6).into(),
        Residual::new(vec![Linear::new(6, 6).into(), Activation::GeluTanh.into()], Vec::new())?.into(),
        Linear::new(6, 2).into(),
    ];
    let conv = random_network(Architecture::of_layers(conv)?, 2);
    let inputs = normal_matrix(3, 32, 9);
    for structure in ["weight-space", "kron", "diag"] {
        let laplace = fit(&conv, &gaussian(), structure.parse()?, Weights::All);
        check(&laplace, &Method::default(), &inputs, &format!("convolutions, {structure}"));
    }
    let laplace = fit(&conv, &gaussian(), "kron".parse()?, Weights::All);
    check(&laplace, &Method::Nn(Draws::first(3, 1)), &inputs, "convolutions, nn");
    for seed in 0..25 {
        let network = random::random_graph(seed);
        let train = random::inputs(&network, 24, seed);
        let test = random::inputs(&network, 3, seed + 100);
        for structure in ["full", "kron", "diag"] {
            let laplace = fit_at(&network, &gaussian(), structure.parse()?, Weights::All, train.clone());
            check(&laplace, &Method::default(), &test, &format!("graph {seed}, {structure}"));
        }
        let laplace = fit_at(&network, &gaussian(), "diag".parse()?, Weights::All, train);
        check(&laplace, &Method::Nn(Draws::first(3, 1)), &test, &format!("graph {seed}, nn"));
    }
    Ok(())
}

#[test]
fn networks_from_other_programs_are_written() -> Outcome {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/graph");
    for (name, likelihood) in [
        ("embedding", "gaussian"),
        ("ft-transformer", "gaussian"),
        ("gru", "categorical"),
        ("dense-conv", "gaussian"),
        ("gated", "bernoulli"),
        ("unet", "poisson"),
    ] {
        let family: Family = likelihood.parse()?;
        let network = Network::from_onnx(&folder.join(name).join("model.onnx"))?.for_family(&family)?;
        let columns = |file: &str| -> Result<Array2<f64>, Box<dyn std::error::Error>> {
            let table = common::read_numbers(&folder.join(name).join(file))?;
            Ok(table.slice_axis(Axis(1), (..network.architecture().n_inputs()).into()).to_owned())
        };
        let test = columns("test.csv")?.slice_axis(Axis(0), (..2).into()).to_owned();
        let laplace = fit_at(&network, &family, "kron".parse()?, Weights::All, columns("train.csv")?);
        check(&laplace, &Method::default(), &test, name);
        check(&laplace, &Method::Nn(Draws::first(2, 1)), &test, &format!("{name}, nn"));
    }
    Ok(())
}

#[test]
fn activations_are_themselves_with_their_slopes() -> Outcome {
    let inputs = 2.0 * normal_matrix(6, 3, 9);
    for activation in Activation::ALL {
        let network = random_network(Architecture::new(&[3, 5, 4, 1], activation)?, 1);
        let laplace = fit(&network, &gaussian(), "weight-space".parse()?, Weights::All);
        check(&laplace, &Method::default(), &inputs, activation.name());
    }
    Ok(())
}

#[test]
fn units_are_those_of_the_data_and_other_opsets_say_the_same() -> Outcome {
    let inputs = 3.0 * normal_matrix(24, 3, 3) + 5.0;
    let targets = 10.0 * normal_matrix(24, 2, 4) - 7.0;
    let data = Dataset::new(inputs, targets)?.standardized(Standardize::InputsAndTargets)?;
    let laplace = Laplace::fit(mlp(2), data, gaussian(), &FitOptions::default())?;
    let test = 3.0 * normal_matrix(4, 3, 9) + 5.0;
    check(&laplace, &Method::default(), &test, "scaled");
    check(&laplace, &Method::Nn(Draws::first(5, 1)), &test, "scaled, nn");
    for method in [Method::default(), Method::Nn(Draws::first(5, 1))] {
        let (one, other) = (run(&laplace, &method, &test, 17), run(&laplace, &method, &test, 21));
        assert_eq!(one["upper"], other["upper"]);
    }
    Ok(())
}

#[test]
fn training_data_are_never_inside_and_the_size_is_known_before() -> Outcome {
    let laplace = fit(&mlp(1), &gaussian(), Structure::Auto, Weights::All);
    let inputs = laplace.data().expect("data").inputs().clone();
    let options = ExportOptions::default().with_precision(Precision::F64);
    for method in [Method::default(), Method::Nn(Draws::first(5, 0))] {
        let plan = Plan::new(&laplace, &method, options)?;
        let bytes = plan.write()?.to_bytes();
        let found = |value: &f64| bytes.windows(8).any(|window| window == value.to_le_bytes());
        assert!(!inputs.iter().any(found));
        assert!(found(&laplace.parameters()[0]) || matches!(method, Method::Nn(_)));
        let ratio = plan.bytes() / bytes.len() as f64;
        assert!((0.7..1.4).contains(&ratio), "{} for {}", plan.bytes(), bytes.len());
    }
    Ok(())
}

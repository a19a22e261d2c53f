//! Error bars for networks that are not chains: a tabular transformer, an LSTM and a vision transformer, trained in PyTorch and
//! exported as ONNX (`models/make.py`).
//!
//! Each is read with all its weights, fitted, tuned by the evidence, and judged on rows that were held out: the network alone,
//! the linearised posterior, and geodesics of the Fisher metric, whose ends are certified. The vision transformer is fitted with
//! its last layer alone as well.
//!
//! Few rows and few geodesics, so that it takes seconds: a demonstration, not a benchmark.
//!
//! `cargo run --release --example graphs` prints the table.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use riemannian_laplace::internals::data::Table;
use riemannian_laplace::internals::map::Subset;
use riemannian_laplace::prelude::*;

/// A network, its target, its likelihood, and how many geodesics are drawn.
struct Case {
    name: &'static str,
    target: &'static str,
    family: Family,
    samples: usize,
    /// The rows of training that the posterior sees.
    rows: usize,
    last_layer: bool,
}

/// What is printed of a network.
pub struct Row {
    /// Which one.
    pub name: String,
    /// D.
    pub n_params: usize,
    /// The mean negative log likelihood of held-out rows: the network alone, linearised, geodesics.
    pub nll: [f64; 3],
    /// How many geodesics were drawn, and how many of them are certified.
    pub samples: (usize, usize),
}

fn judge(case: &Case) -> Result<Row, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/graphs/models");
    let read = |part: &str| -> Result<Dataset, Box<dyn Error>> {
        let table = Table::read(&folder.join(format!("{}_{part}.csv", case.name)))?;
        Ok(table.dataset(&[case.target.to_string()])?)
    };
    let (train, test) = (read("train")?, read("test")?);
    let train = train.select(&(0..case.rows.min(train.len())).collect::<Vec<usize>>())?;
    let network = Network::from_onnx(&folder.join(format!("{}.onnx", case.name)))?.for_family(&case.family)?;
    let options = FitOptions::default();
    let mut laplace = match case.last_layer {
        // The head: a weight matrix and a bias, the last tensors of θ.
        true => {
            let n_params = network.parameters().len();
            let head = 9 * network.n_outputs();
            let last = Subset::new(network, (n_params - head..n_params).collect(), "the last layer")?;
            Laplace::fit(last, train, case.family.clone(), &options)?
        }
        false => Laplace::fit(network, train, case.family.clone(), &options)?,
    };
    laplace.optimize(&EvidenceOptions::default())?;
    let samples = laplace.sample_riemannian(MetricName::Fisher, &SamplerOptions::first(case.samples), &())?;
    let mut nll = [0.0; 3];
    let certified = case.samples - samples.failed() - samples.uncertified();
    let methods = [Method::Map, Method::default(), Method::Samples(Arc::new(samples))];
    for (nll, method) in nll.iter_mut().zip(methods) {
        *nll = Scores::of(&laplace.predict(test.inputs(), &method)?, test.targets())?.nll();
    }
    let name = if case.last_layer { format!("{}, last layer", case.name) } else { case.name.to_string() };
    Ok(Row { name, n_params: laplace.parameters().len(), nll, samples: (case.samples, certified) })
}

/// Fits and judges all networks.
pub fn run() -> Result<Vec<Row>, Box<dyn Error>> {
    let regression = |name, target| -> Result<Case, Box<dyn Error>> {
        Ok(Case { name, target, family: Family::gaussian(0.1)?, samples: 4, rows: 100, last_layer: false })
    };
    let vision = |last_layer, samples, rows| -> Result<Case, Box<dyn Error>> {
        Ok(Case { name: "vision", target: "digit", family: "categorical".parse()?, samples, rows, last_layer })
    };
    let cases = [
        regression("transformer", "resistance")?,
        regression("recurrent", "next")?,
        vision(false, 2, 40)?,
        vision(true, 10, 200)?,
    ];
    let mut rows = Vec::new();
    for case in &cases {
        let row = judge(case)?;
        let Row { name, n_params, nll: [map, linear, geodesics], samples: (drawn, certified) } = &row;
        println!("{name:<20} {n_params:>6}   {map:>30.3} {linear:>12.3} {geodesics:>10.3}   {certified} of {drawn}");
        rows.push(row);
    }
    Ok(rows)
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:<20} {:>6}   NLL of held-out rows: network, linearised, geodesics   certified", "", "D");
    run().map(drop)
}

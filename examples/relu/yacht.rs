//! The yacht data: 308 points, six inputs, 50 relu units, five splits; scores in original units.

use std::error::Error;
use std::sync::Arc;

use riemannian_laplace::internals::data::Table;
use riemannian_laplace::prelude::*;

use crate::datasets::path;
use crate::tasks::{Trained, trained};

/// Settings of the study.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Samples of each split
    #[arg(long, default_value_t = 200)]
    samples: usize,
    /// The splits, of five
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 2, 3, 4])]
    splits: Vec<usize>,
}

pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let data = Table::read(&path("uci/yacht.csv"))?.dataset(&["resistance".to_string()])?;
    let tests = Table::read(&path("uci/yacht_test_rows.csv"))?;
    println!(
        "split   MAP      MAP (σ of the training residuals)   linearised   RLA-F    certified   evaluations   residual ratio"
    );
    let mut sums = [0.0; 4];
    for split in &options.splits {
        let test: Vec<usize> = tests.column(&format!("split_{split}"))?.iter().map(|row| *row as usize).collect();
        let architecture = Architecture::new(&[6, 50, 1], Activation::Relu)?;
        let trained = trained(&data, &test, Family::gaussian(1.0)?, architecture, 5000)?;
        let samples = Arc::new(trained.laplace.sample_riemannian(
            MetricName::Fisher,
            &SamplerOptions::first(options.samples),
            &(),
        )?);
        let scores = [
            trained.nll_of(&Method::Map)?,
            residual_nll(&trained)?,
            trained.nll_of(&Method::default())?,
            trained.nll_of(&Method::Samples(samples.clone()))?,
        ];
        sums.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score);
        let certified = samples.certified.iter().filter(|certified| **certified).count();
        println!(
            "{split:<7} {:<8.3} {:<35.3} {:<12.3} {:<8.3} {certified:>3}/{:<7} {:<13.0} {:.3}",
            scores[0],
            scores[1],
            scores[2],
            scores[3],
            samples.len(),
            samples.mean_evaluations(),
            samples.residuals.map_or(f64::NAN, |residuals| residuals.ratio()),
        );
    }
    let [tuned, residual, linearized, riemannian] = sums.map(|sum| sum / options.splits.len() as f64);
    println!("mean    {tuned:<8.3} {residual:<35.3} {linearized:<12.3} {riemannian:<8.3}");
    Ok(())
}

/// The trained network's NLL with the σ that its training residuals have, instead of the σ that the evidence chose.
fn residual_nll(trained: &Trained) -> Result<f64, Box<dyn Error>> {
    let laplace = &trained.laplace;
    let data = laplace.data().ok_or("the data")?;
    let outputs = laplace.outputs(data.inputs())?;
    let sigma = (data.targets() - &outputs).mapv(|residual| residual * residual).mean().ok_or("data")?.sqrt();
    let mut other = laplace.clone();
    other.set_hyperparameters(&laplace.prior().values().to_vec().into(), &[sigma])?;
    Ok(Scores::of(&other.predict(trained.test.inputs(), &Method::Map)?, trained.test.targets())?.nll())
}

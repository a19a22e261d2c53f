//! Velocities from the network's own posterior, as the library draws them, or from the posterior of the smoothed network,
//! whose metric they start in.

use std::error::Error;

use ndarray::Array2;
use riemannian_laplace::Smoothing;
use riemannian_laplace::internals::geodesic::{MetricOptions, SMOOTHING_WIDTH, sample, sample_posterior};
use riemannian_laplace::internals::map::Rounding;
use riemannian_laplace::internals::metric;
use riemannian_laplace::prelude::*;

use crate::tasks::{Task, Trained};

/// Settings of the study.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The networks
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["snelson", "energy", "two-moons"])]
    networks: Vec<Task>,
    /// The widths
    #[arg(long, value_delimiter = ',', default_values_t = [SMOOTHING_WIDTH])]
    widths: Vec<f64>,
    /// Samples of each network
    #[arg(long, default_value_t = 100)]
    samples: usize,
}

pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    println!("network, width, velocities from: certified, evaluations, residual, test NLL");
    for network in &options.networks {
        let trained = network.train(Activation::Relu)?;
        for width in &options.widths {
            let sampler = SamplerOptions::first(options.samples);
            let how = MetricOptions { smoothing: Smoothing::Width(*width), ..Default::default() };
            let own = sample_posterior(&trained.laplace, MetricName::Fisher, &how, &sampler, &())?;
            report(&trained, &format!("{network:?}, {width}, the network"), &own)?;
            let smooth = smoothed_posterior(&trained.laplace, *width)?;
            let fisher = metric::fisher(&smooth.target("fisher")?);
            let precision = &**smooth.precision();
            let others = sample(&fisher, smooth.parameters(), precision, &sampler, &())?;
            report(&trained, &format!("{network:?}, {width}, the smoothed network"), &others)?;
        }
    }
    Ok(())
}

/// The posterior of the smoothed network with the same hyperparameters.
fn smoothed_posterior(laplace: &Laplace, width: f64) -> Result<Laplace, Box<dyn Error>> {
    let data = laplace.data().ok_or("the data")?;
    let offsets = laplace.sample(32, 1)?
        - Array2::from_shape_fn((32, laplace.parameters().len()), |(_, d)| laplace.parameters()[d]);
    let rounding = Rounding { width, inputs: data.inputs().view(), offsets: offsets.view() };
    let architecture_record = laplace.model().record().ok_or("a network")?;
    let network = Network::from_record(&architecture_record, laplace.parameters().to_vec())?;
    let smooth = network.with_rounded_kinks(&rounding)?.ok_or("a network with kinks")?;
    let prior_precision = laplace.prior().values().to_vec().into();
    let options = FitOptions { prior_precision, ..Default::default() };
    Ok(Laplace::fit(smooth, data.clone(), laplace.family().clone(), &options)?)
}

fn report(trained: &Trained, name: &str, samples: &Samples) -> Result<(), Box<dyn Error>> {
    let laplace = &trained.laplace;
    let certified = samples.certified.iter().filter(|certified| **certified).count();
    let data = laplace.data().ok_or("the data")?;
    let mut deviance = 0.0;
    let map = laplace.model().bind(data.inputs().view())?;
    let (n, p) = (map.n_points(), map.n_outputs());
    let reached = samples.reached();
    for theta in reached.rows() {
        let mut outputs = vec![0.0; n * p];
        map.clone().evaluate(1).outputs(&theta.to_vec(), &mut outputs);
        for point in 0..n {
            let outputs: Vec<f64> = (0..p).map(|k| outputs[k * n + point]).collect();
            let target = data.targets().row(point).to_vec();
            let likelihood = laplace.family().likelihood();
            let largest = likelihood.largest_log_density(&target).ok_or("a likelihood with deviances")?;
            deviance += 2.0 * (largest - likelihood.log_density(&target, &outputs));
        }
    }
    let residual = (deviance / (n * reached.nrows()) as f64).sqrt();
    let nll = trained.nll(&Prediction::of_weights(laplace, reached.view(), trained.test.inputs())?)?;
    let evaluations = samples.mean_evaluations();
    println!("{name}: {certified}/{}, {evaluations:.0}, {residual:.3}, {nll:.3}", samples.len());
    Ok(())
}

//! Samples at several widths.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use riemannian_laplace::Smoothing;
use riemannian_laplace::internals::geodesic::{MetricOptions, sample_posterior};
use riemannian_laplace::prelude::*;

use crate::tasks::{Task, Trained};

/// Settings of the study.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The networks [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    networks: Vec<Task>,
    /// The widths
    #[arg(long, value_delimiter = ',', default_values_t = [0.02, 0.05, 0.1, 0.2])]
    widths: Vec<f64>,
    /// Samples of each network at each width
    #[arg(long, default_value_t = 100)]
    samples: usize,
    /// The activation
    #[arg(long, default_value = "relu")]
    activation: Activation,
    /// Also without smoothing, each geodesic within this many steps
    #[arg(long, value_name = "STEPS")]
    unsmoothed: Option<usize>,
}

pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let networks = if options.networks.is_empty() { &Task::ALL[..] } else { &options.networks };
    for network in networks {
        let trained = network.train(options.activation)?;
        let laplace = &trained.laplace;
        println!(
            "\n{network:?}, {}, {} points; σ {:?}, prior precision {:?}; test NLL: MAP {:.3}, linearised {:.3}",
            laplace.model().description(),
            laplace.n_data(),
            laplace.family().sigma().unwrap_or_default(),
            laplace.prior().values(),
            trained.nll_of(&Method::Map)?,
            trained.nll_of(&Method::default())?,
        );
        println!("width   certified   evaluations   residual (linearised, ratio)   test NLL   s/sample");
        for width in &options.widths {
            let usual = GeodesicOptions::default();
            row(&trained, Smoothing::Width(*width), usual, options.samples)?;
        }
        if let Some(max_steps) = options.unsmoothed {
            let limited = GeodesicOptions { max_steps, ..Default::default() };
            row(&trained, Smoothing::None, limited, options.samples)?;
        }
    }
    Ok(())
}

fn row(trained: &Trained, smoothing: Smoothing, geodesic: GeodesicOptions, count: usize) -> Result<(), Box<dyn Error>> {
    let how = MetricOptions { smoothing, ..Default::default() };
    let sampler = SamplerOptions { geodesic, ..SamplerOptions::first(count) };
    let start = Instant::now();
    let samples = sample_posterior(&trained.laplace, MetricName::Fisher, &how, &sampler, &())?;
    let seconds = start.elapsed().as_secs_f64() / count as f64;
    let certified = samples.certified.iter().filter(|certified| **certified).count();
    let evaluations = samples.mean_evaluations();
    let residuals = match samples.residuals {
        Some(residuals) => {
            format!("{:.3} ({:.3}, {:.3})", residuals.sampled, residuals.linearized, residuals.ratio())
        }
        None => "–".to_string(),
    };
    let nll = match samples.reached().nrows() {
        0 => "–".to_string(),
        _ => format!("{:.3}", trained.nll_of(&Method::Samples(Arc::new(samples)))?),
    };
    let name = match smoothing {
        Smoothing::Width(width) => width.to_string(),
        _ => "none".to_string(),
    };
    println!("{name:<7} {certified:>4}/{count:<6} {evaluations:>9.0}       {residuals:<30} {nll:<10} {seconds:.2}");
    Ok(())
}

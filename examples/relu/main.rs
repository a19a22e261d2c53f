//! relu networks: over which width the metric should round their kinks, and what their geodesics are worth.
//!
//! `cargo run --release --example relu -- width` draws samples of several trained networks at several widths and prints
//! the table from which the default width was chosen; `-- velocities` compares the two ways to draw the velocities;
//! `-- yacht` is a comparison of predictions on five splits of the yacht data.

#[path = "../datasets/mod.rs"]
mod datasets;
mod tasks;
mod velocities;
mod width;
mod yacht;

use std::error::Error;

use clap::{Parser, Subcommand};

/// Studies of relu networks
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    study: Study,
}

#[derive(Debug, Subcommand)]
enum Study {
    /// Samples at several widths: certificates, evaluations, residuals at the data, test scores
    Width(width::Options),
    /// Velocities from the network's posterior, or from that of the smoothed network
    Velocities(velocities::Options),
    /// Test scores on five splits of the yacht data
    Yacht(yacht::Options),
}

fn main() -> Result<(), Box<dyn Error>> {
    match Options::parse().study {
        Study::Width(options) => width::run(&options),
        Study::Velocities(options) => velocities::run(&options),
        Study::Yacht(options) => yacht::run(&options),
    }
}

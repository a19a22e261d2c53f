//! Does the point at which an approximation is centred matter? The paper's banana (Yu et al. 2024, section 5.2 with its
//! Table 1, and supplement "Empirical Fisher"): every method at a Euclidean MAP, with the negative Hessian as precision
//! of the velocities, and at the Hausdorff MAP, with the Fisher metric.

mod support;

use clap::Parser;
use ndarray::Array2;
use riemannian_laplace::internals::paper::problems::Banana;
use riemannian_laplace::internals::target::Target;
use support::canvas;
use support::cells::Cells;
use support::clouds::{CloudFigure, CloudPanel, CloudRow};
use support::comparison::{Comparison, ComparisonTable, Published, RunOptions};
use support::figure::Outcome;
use support::lowdim::banana::{MapChoice, nuts_settings, observations, placed, reference, truth};
use support::lowdim::chains::evenly;
use support::lowdim::placement::Method;
use support::lowdim::{REFERENCE_SEED, Size, exact_seed};
use support::references;

/// The banana: distances of every method to exact samples of the posterior, next to the paper's numbers
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    run: RunOptions,
}

/// W and T of the paper's Table 1, and W of the supplement's "Empirical Fisher".
fn published(map: MapChoice, method: Method) -> Published {
    let (distance, evaluations) = match (map, method) {
        (MapChoice::Euclidean, Method::Ela) => ("1.434 ± 0.010", None),
        (MapChoice::Euclidean, Method::RlaB) => ("0.811 ± 0.009", Some("70.4")),
        (MapChoice::Euclidean, Method::RlaBLog) => ("0.788 ± 0.013", Some("70.4")),
        (MapChoice::Euclidean, Method::RlaF) => ("0.791 ± 0.014", Some("24.9")),
        (MapChoice::Euclidean, Method::EmpiricalFisher) => ("0.799 ± 0.008", None),
        (MapChoice::Hausdorff, Method::Ela) => ("1.386 ± 0.009", None),
        (MapChoice::Hausdorff, Method::RlaB) => ("0.341 ± 0.006", Some("51.3")),
        (MapChoice::Hausdorff, Method::RlaBLog) => ("0.208 ± 0.007", Some("60.0")),
        (MapChoice::Hausdorff, Method::RlaF) => ("0.143 ± 0.009", Some("32.7")),
        (MapChoice::Hausdorff, Method::EmpiricalFisher) => ("0.141 ± 0.003", None),
    };
    Published { distance: Some(distance), evaluations, ..Default::default() }
}

/// Draws of NUTS, as many as there are samples in a repeat.
fn sampled(target: &Target, size: Size, cells: &Cells) -> Outcome<Array2<f64>> {
    let sample = references::draws("banana", target, &nuts_settings(size, 0), cells)?;
    references::describe("NUTS", &sample);
    Ok(evenly(sample.draws.view(), size.samples))
}

fn main() -> Outcome {
    let options = Options::parse().run;
    println!("The banana: Wasserstein-1 distance to exact samples of the posterior (the paper's: to NUTS samples).");
    options.announce("exact");
    let cells = options.cells("banana")?;
    let size = options.size();
    let observations = observations()?;
    let target = Banana::target(&observations)?;
    let exact = reference(&observations, size.reference, REFERENCE_SEED);
    let chains = sampled(&target, size, &cells)?;
    let mut rows = Vec::new();
    for map in MapChoice::BOTH {
        let placement = placed(&target, map)?;
        let base = [placement.base[0], placement.base[1]];
        println!("\n{} MAP ({:.4}, {:.4})", map.name(), base[0], base[1]);
        let comparison = Comparison {
            name: map.name(),
            target: &target,
            placement: &placement,
            reference: exact.view(),
            size,
            seed: 0,
            cells: &cells,
        };
        let mut table = ComparisonTable::new();
        for method in Method::ALL {
            table.row(method, &comparison.run(method)?, published(map, method));
        }
        let yardstick = comparison.run_exact(|repeat| reference(&observations, size.samples, exact_seed(repeat)))?;
        table.yardstick("exact", &yardstick);
        table.yardstick("NUTS", &comparison.run_drawn("NUTS", chains.view())?);
        table.print();

        let samples = size.samples.min(4_000);
        let title = |name: &str| format!("{name} · {} MAP", map.name());
        let panels = CloudPanel::of_methods(&Method::ALL, &target, &placement, samples, title)?;
        rows.push(CloudRow { truth: truth(&observations), x: (-5.0, 2.5), y: (-3.2, 3.2), panels });
    }
    println!();
    canvas::save(&CloudFigure { rows }, &options.figures.join("banana"))
}

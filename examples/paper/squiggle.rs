//! Is the Riemannian Laplace approximation exact for a Gaussian in disguise? The paper's squiggle (Yu et al. 2024,
//! section 4.3.2 and supplement "Squiggle"), in both versions: with the Fisher metric (RLA-F) the samples are as close
//! to exact ones as exact ones are to each other; with the Monge metric (RLA-B) they are too narrow.

mod support;

use clap::Parser;
use riemannian_laplace::internals::paper::problems::Squiggle;
use support::canvas;
use support::cells::Cells;
use support::clouds::{CloudFigure, CloudPanel, CloudRow};
use support::comparison::{Comparison, ComparisonTable, Published, RunOptions};
use support::figure::Outcome;
use support::lowdim::placement::Method;
use support::lowdim::squiggle::{exact, placed, truth};
use support::lowdim::{REFERENCE_SEED, exact_seed};

/// The squiggle: distances of every method to exact samples, and their pictures
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    run: RunOptions,
}

/// A version of the squiggle: name, window of its pictures, and the paper's T for RLA-B and RLA-F.
struct Version {
    name: &'static str,
    squiggle: Squiggle,
    window: [(f64, f64); 2],
    evaluations: [&'static str; 2],
}

const VERSIONS: [Version; 2] = [
    Version { name: "main", squiggle: Squiggle::MAIN, window: [(-7.0, 7.0), (-2.0, 2.0)], evaluations: ["75", "32"] },
    Version {
        name: "difficult",
        squiggle: Squiggle::DIFFICULT,
        window: [(-10.0, 10.0), (-1.6, 1.6)],
        evaluations: ["300", "41"],
    },
];

impl Version {
    fn published(&self, method: Method) -> Published {
        let evaluations = match method {
            Method::RlaB => Some(self.evaluations[0]),
            Method::RlaF => Some(self.evaluations[1]),
            _ => None,
        };
        Published { evaluations, ..Default::default() }
    }

    fn report(&self, options: &RunOptions, cells: &Cells) -> Outcome {
        let Squiggle { frequency, variances: [first, second] } = self.squiggle;
        println!("\nSquiggle, {} version: a = {frequency}, S = diag({first}, {second})", self.name);
        let size = options.size();
        let (target, placement) = placed(self.squiggle)?;
        let reference = exact(self.squiggle, size.reference, REFERENCE_SEED);
        let (target, placement) = (&target, &placement);
        let comparison =
            Comparison { name: self.name, target, placement, reference: reference.view(), size, seed: 0, cells };
        let mut table = ComparisonTable::new();
        for method in Method::FOUR {
            table.row(method, &comparison.run(method)?, self.published(method));
        }
        let yardstick = comparison.run_exact(|repeat| exact(self.squiggle, size.samples, exact_seed(repeat)))?;
        table.yardstick("exact", &yardstick);
        table.print();
        Ok(())
    }

    fn pictures(&self, samples: usize) -> Outcome<CloudRow> {
        let (target, placement) = placed(self.squiggle)?;
        let title = |name: &str| format!("{name} · {} version", self.name);
        let panels = CloudPanel::of_methods(&Method::FOUR, &target, &placement, samples, title)?;
        Ok(CloudRow { truth: truth(self.squiggle), x: self.window[0], y: self.window[1], panels })
    }
}

fn main() -> Outcome {
    let options = Options::parse().run;
    println!("The squiggle: Wasserstein-1 distance to exact samples, which are also compared with each other (exact).");
    options.announce("exact");
    let cells = options.cells("squiggle")?;
    for version in &VERSIONS {
        version.report(&options, &cells)?;
    }
    println!();
    let samples = options.size().samples.min(4_000);
    let rows = VERSIONS.iter().map(|version| version.pictures(samples)).collect::<Outcome<_>>()?;
    canvas::save(&CloudFigure { rows }, &options.figures.join("squiggle"))
}

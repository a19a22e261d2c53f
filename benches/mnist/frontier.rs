//! What prior precision and temperature do to the Kronecker posterior: NLL against AUROC, for each link and each score of
//! an image. The test images are for looking at here; rows of the table are tuned without them.

use std::path::Path;

use riemannian_laplace::internals::predict::MonteCarlo;
use riemannian_laplace::prelude::*;

use crate::problem::Problem;
use crate::rows::linearized_scores;
use crate::{Outcome, in_words};

/// Prior precisions at temperature 1.
const PRECISIONS: [f64; 5] = [1.0, 50.0, 500.0, 2e3, 1e4];
/// Temperatures at the prior precision of the evidence.
const TEMPERATURES: [f64; 7] = [1.0, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4];
/// Draws of the logits at each image.
const DRAWS: usize = 64;

pub fn print(problem: &Problem, network: &Path) -> Outcome {
    let options = FitOptions { structure: Structure::Kronecker, ..Default::default() };
    let mut laplace = Laplace::fit(problem.network(network)?, problem.train.clone(), Problem::family(), &options)?;
    laplace.optimize(&EvidenceOptions::default())?;
    let evidence = laplace.prior().values()[0];
    println!(
        "| prior precision | temperature | NLL and AUROC by entropy: centred | centred-probit | probit | mc | AUROC by \
         information | by logits |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let settings = TEMPERATURES.map(|temperature| (evidence, temperature)).into_iter();
    for (precision, temperature) in settings.chain(PRECISIONS.map(|precision| (precision, 1.0))) {
        laplace.set_hyperparameters(&precision.into(), &[])?;
        laplace.set_temperature(temperature)?;
        let drawn = Link::MonteCarlo(MonteCarlo { samples: DRAWS, seed: 0 });
        let method = Method::Glm(drawn);
        let predictions =
            (laplace.predict(problem.test.inputs(), &method)?, laplace.predict(&problem.foreign, &method)?);
        let scores = linearized_scores(&laplace, (&predictions.0, &predictions.1), problem, drawn, 0.0)?;
        let pairs: Vec<String> = scores.iter().map(|score| format!("{:.5}, {:.4}", score.nll, score.auroc)).collect();
        let [information, logits] =
            scores.first().map_or([None, None], |score| [score.auroc_epistemic, score.auroc_logits]).map(in_words);
        println!("| {precision:.1} | {temperature} | {} | {information} | {logits} |", pairs.join(" | "));
    }
    Ok(())
}

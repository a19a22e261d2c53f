//! The formulas of docs/scaling.md for the work of a fit and of predictions, beside the multiply-adds that were counted, at
//! three sizes. The only test of its binary: the count is that of the whole process.

use std::sync::Arc;

use ndarray::Array2;
use riemannian_laplace::internals::likelihood::Categorical;
use riemannian_laplace::internals::linalg::multiply_adds;
use riemannian_laplace::{
    Activation, Architecture, Dataset, Error, Family, FitOptions, Laplace, Method, Model, Network, Structure, Weights,
};

/// Inputs, two hidden layers, and classes.
const SIZES: [usize; 4] = [40, 60, 30, 10];

fn data(rows: usize) -> Result<Dataset, Error> {
    let inputs = Array2::from_shape_fn((rows, SIZES[0]), |(row, column)| ((row * (column + 2)) as f64 * 0.137).sin());
    Dataset::new(inputs, Array2::from_shape_fn((rows, 1), |(row, _)| (row % SIZES[3]) as f64))
}

/// What some work counts.
fn counted<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<(T, f64), Error> {
    let before = multiply_adds();
    let result = work()?;
    Ok((result, (multiply_adds() - before) as f64))
}

/// Multiply-adds per row of a fit and of a prediction, by the formulas.
fn formulas(weights: &Weights, structure: Structure) -> (f64, f64) {
    let p = SIZES[3] as f64;
    let layers: Vec<(f64, f64)> = SIZES.windows(2).map(|pair| (pair[0] as f64, pair[1] as f64)).collect();
    // Layers whose weights are certain are passed through, and no sensitivities go back to them.
    let (before, own) = layers.split_at(if *weights == Weights::LastLayer { layers.len() - 1 } else { 0 });
    let count = |layers: &[(f64, f64)]| layers.iter().map(|(i, o)| i * o).sum::<f64>();
    let (c, w) = (count(before), count(own));
    let sensitivities = p * (w - own[0].0 * own[0].1);
    let squares = |layers: &[(f64, f64)]| layers.iter().map(|(i, o)| i * i + p * o * o).sum::<f64>();
    match structure {
        Structure::Kronecker => {
            (c + w + sensitivities + 0.5 * squares(own), 2.0 * c + 3.0 * w + sensitivities + squares(own))
        }
        Structure::Diagonal => (c + 2.0 * w + sensitivities, 2.0 * c + 3.0 * w + sensitivities),
        _ => {
            let inputs = own[0].0 + 1.0;
            let d = inputs * p;
            let outer = 0.5 * p * (p + 1.0) * 0.5 * inputs * (inputs + 1.0);
            (c + w + outer, 2.0 * c + 2.0 * w + 0.5 * p * d * d)
        }
    }
}

#[test]
fn the_work_of_fits_and_predictions_is_that_of_the_formulas() -> Result<(), Error> {
    let network: Arc<dyn Model> = Arc::new(Network::random(Architecture::new(&SIZES, Activation::Tanh)?, 1));
    for (weights, structure) in [
        (Weights::All, Structure::Kronecker),
        (Weights::All, Structure::Diagonal),
        (Weights::LastLayer, Structure::WeightSpace),
        (Weights::LastLayer, Structure::Kronecker),
    ] {
        let model = weights.restrict(&network)?;
        let mut counts = Vec::new();
        for rows in [1200, 2400, 4800] {
            let options = FitOptions { structure, ..Default::default() };
            let fit = || Laplace::fit_shared(model.clone(), data(rows)?, Family::new(Categorical), &options);
            let (laplace, fitting) = counted(fit)?;
            let test = data(rows)?;
            let (_, predicting) = counted(|| laplace.predict(test.inputs(), &Method::default()))?;
            counts.push((rows as f64, fitting, predicting));
        }
        let (fit, predict) = formulas(&weights, structure);
        for pair in counts.windows(2) {
            let rows = pair[1].0 - pair[0].0;
            let (fitted, predicted) = ((pair[1].1 - pair[0].1) / rows, (pair[1].2 - pair[0].2) / rows);
            // Work is counted in whole numbers, and products too small to be counted are those of a last, short batch.
            assert!(
                (fitted / fit - 1.0).abs() < 1e-3,
                "{structure}: {fitted} multiply-adds a row, {fit} by the formula"
            );
            assert!(
                (predicted / predict - 1.0).abs() < 1e-3,
                "{structure}: {predicted} a row, {predict} by the formula"
            );
        }
    }
    Ok(())
}

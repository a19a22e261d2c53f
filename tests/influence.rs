//! Influence against training again without the row: exact for a linear model with Gaussian noise, to first order elsewhere.

mod common;

use ndarray::Array2;
use riemannian_laplace::internals::evaluate::Influence;
use riemannian_laplace::internals::evidence::{ModeOptions, Noise, train_to_mode};
use riemannian_laplace::{Activation, Dataset, Error, Family, FitOptions, Laplace, Method, Structure};

use common::{architecture, random_data, random_network};

/// A network at its mode under a prior, its data, and inputs that it has not seen.
fn at_mode(sizes: &[usize], family: &Family, points: usize) -> (Laplace, Dataset, Dataset) {
    let biases = vec![true; sizes.len() - 1];
    let truth = random_network(architecture(sizes, &biases, Activation::Tanh), 3);
    let (data, others) = (random_data(&truth, family, points, 4), random_data(&truth, family, 30, 5));
    let start = random_network(architecture(sizes, &biases, Activation::Tanh), 3);
    let laplace = mode(&start, &data, family);
    (laplace, data, others)
}

fn mode(start: &riemannian_laplace::Network, data: &Dataset, family: &Family) -> Laplace {
    let options = ModeOptions { noise: Noise::Fixed, tolerance: 1e-13, steps: 400, ..Default::default() };
    train_to_mode(start, data, family, &options, &()).expect("a mode").laplace
}

/// The mode without a row, from that with all of them.
fn without(laplace: &Laplace, data: &Dataset, row: usize) -> Laplace {
    let kept: Vec<usize> = (0..data.len()).filter(|other| *other != row).collect();
    let record = laplace.model().record().expect("a network");
    let start = riemannian_laplace::Network::from_record(&record, laplace.parameters().to_vec()).expect("a network");
    mode(&start, &data.select(&kept).expect("rows"), laplace.family())
}

fn loss(laplace: &Laplace, data: &Dataset) -> f64 {
    let prediction = laplace.predict(data.inputs(), &Method::Map).expect("a prediction");
    -prediction.log_densities(data.targets()).expect("densities").mean().expect("rows")
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (ma, mb) = (mean(a), mean(b));
    let sum = |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(x, y)| f(x - ma, y - mb)).sum::<f64>();
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}

#[test]
fn without_hidden_units_and_with_gaussian_noise_it_is_the_refit() {
    let family = Family::gaussian_per_output(&[0.3, 0.6]).expect("sigma");
    let (laplace, data, others) = at_mode(&[3, 2], &family, 12);
    let influence = Influence::of(&laplace).expect("influence");
    let changes = influence.on_outputs(&laplace, others.inputs()).expect("changes");
    let before = laplace.outputs(others.inputs()).expect("outputs");
    for row in 0..12 {
        let refit = without(&laplace, &data, row);
        let after = refit.outputs(others.inputs()).expect("outputs");
        for (n, k) in ndarray::indices(after.dim()) {
            let expected = after[(n, k)] - before[(n, k)];
            assert!(
                (changes[(row, 2 * n + k)] - expected).abs() < 1e-9,
                "{} for {expected}",
                changes[(row, 2 * n + k)]
            );
        }
        let own = data.select(&[row]).expect("a row");
        let expected = loss(&refit, &own) - loss(&laplace, &own);
        assert!((influence.of_itself[row] - expected).abs() < 1e-8, "{} for {expected}", influence.of_itself[row]);
    }
}

#[test]
fn it_agrees_with_refits_without_hidden_units_and_orders_rows_by_themselves_with_them() {
    // With hidden units the curvature is not the Hessian, which the effect on other rows sees and that on the row itself hardly.
    let cases: [(&[usize], Family, f64, f64); 3] = [
        (&[2, 4, 1], Family::gaussian(0.3).expect("sigma"), 0.9, -1.0),
        (&[2, 3], "categorical".parse().expect("a likelihood"), 0.99, 0.98),
        (&[2, 3, 1], "poisson".parse().expect("a likelihood"), 0.9, -1.0),
    ];
    for (sizes, family, least, least_of_loss) in cases {
        // So many that one of them moves the mode by little.
        let (laplace, data, others) = at_mode(sizes, &family, 600);
        let influence = Influence::of(&laplace).expect("influence");
        let on_loss = influence.on_loss(&laplace, &others).expect("effects");
        let (mut own, mut effect) = (Vec::new(), Vec::new());
        for row in 0..40 {
            let refit = without(&laplace, &data, row);
            let alone = data.select(&[row]).expect("a row");
            own.push(loss(&refit, &alone) - loss(&laplace, &alone));
            effect.push(loss(&refit, &others) - loss(&laplace, &others));
        }
        let (of_own, of_loss) = (correlation(&influence.of_itself[..40], &own), correlation(&on_loss[..40], &effect));
        assert!(of_own > least && of_loss > least_of_loss, "{sizes:?} {family:?}: {of_own} {of_loss}");
    }
}

#[test]
fn wrong_labels_come_first() {
    // Two classes on a line, three labels of which are flipped far from the border.
    let inputs = Array2::from_shape_fn((60, 1), |(n, _)| n as f64 / 10.0 - 2.95);
    let flipped = [5, 12, 50];
    let label = |n: usize| f64::from(u8::from((n >= 30) != flipped.contains(&n)));
    let data = Dataset::new(inputs, Array2::from_shape_fn((60, 1), |(n, _)| label(n))).expect("data");
    let start = random_network(architecture(&[1, 1], &[true], Activation::Tanh), 1);
    let laplace = mode(&start, &data, &"bernoulli".parse().expect("a likelihood"));
    let mut found = Influence::of(&laplace).expect("influence").most_suspicious(3);
    found.sort_unstable();
    assert_eq!(found, flipped);
}

#[test]
fn a_structure_in_which_a_row_cannot_be_left_out_is_refused_by_the_row() {
    // A Kronecker-factored precision need not be more than what one row alone adds to the exact one.
    let family = Family::gaussian(0.05).expect("sigma");
    let network = random_network(architecture(&[2, 6, 1], &[true, true], Activation::Tanh), 3);
    let data = random_data(&network, &family, 12, 4);
    let options = FitOptions { prior_precision: 1e-3.into(), structure: Structure::Kronecker, ..Default::default() };
    let laplace = Laplace::fit(network, data, family, &options).expect("a posterior");
    let latent = laplace.linearized(laplace.data().expect("data").inputs()).expect("variances");
    let leverages: Vec<f64> = latent.covariance.iter().map(|variance| variance / 0.05_f64.powi(2)).collect();
    let first = leverages.iter().position(|leverage| *leverage >= 1.0);
    match (first, Influence::of(&laplace)) {
        (Some(row), Err(Error::Leverage { row: found, leverage })) => {
            assert_eq!(found, row);
            assert!((leverage - leverages[row]).abs() < 1e-9 * leverage);
        }
        (first, other) => panic!("{first:?} {leverages:?} {:?}", other.map(|_| ())),
    }
}

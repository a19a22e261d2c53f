use ndarray::Array2;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use riemannian_laplace::internals::data::KnownColumn;
use riemannian_laplace::internals::evidence::{ModeOptions, Noise, train_to_mode};
use riemannian_laplace::internals::likelihood::{Bernoulli, Binomial, Known, Likelihood};
use riemannian_laplace::{Activation, Dataset, Family, Method, Network, Schema};

use crate::checks::{self, close};
use crate::common::{Outcome, architecture, normal_matrix};

const OUTPUTS: [f64; 3] = [-1.3, 0.4, 2.9];

#[test]
fn successes_of_trials_satisfy_their_definition() -> Outcome {
    for trials in [1.0, 4.0, 37.0] {
        let row = Binomial::default().at_row(&[trials]).ok_or("a row")?;
        checks::derivatives(&*row, &[0.0, 1.0, trials], &OUTPUTS);
        checks::force(&*row, &OUTPUTS);
        checks::expectations(&*row, &OUTPUTS);
        checks::under_a_gaussian(&*row, 0.4, 0.8, &[0.0, 1.0]);
    }
    Ok(())
}

/// Weights of a line are found again within three standard errors, and the central 90 % of the predicted distributions hold 88 % to
/// 92 % of 2,000 new rows, of so many trials that the errors of the weights, which all rows share, are small beside chance.
#[test]
fn weights_are_found_again_and_intervals_hold() -> Outcome {
    let (line, shape) = ([0.9, -0.4], architecture(&[1, 1], &[true], Activation::Identity));
    let draw = |points: usize, trials: &dyn Fn(usize) -> f64, seed: u64| {
        let inputs = normal_matrix(points, 1, seed);
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        let mut rows = Array2::zeros((points, 2));
        for (n, mut row) in rows.rows_mut().into_iter().enumerate() {
            let mut successes = [0.0];
            let trials = trials(n);
            let of_row = Binomial::default().at_row(&[trials]).expect("a row");
            of_row.draw(&[line[0] * inputs[(n, 0)] + line[1]], &mut generator, &mut successes);
            (row[0], row[1]) = (successes[0], trials);
        }
        let known = KnownColumn { name: "n".to_string(), kind: Known::Trials };
        Dataset::new(inputs, rows)?.with_schema(Schema::unnamed(1, 1).with_known(vec![known])?)
    };
    let (data, held_out) = (draw(600, &|n| (1 + n % 9) as f64, 21)?, draw(2000, &|_| 40.0, 22)?);
    let start = Network::new(shape, vec![0.0, 0.0])?;
    let options = ModeOptions { noise: Noise::Fixed, ..Default::default() };
    let family = Family::new(Binomial::default());
    let laplace = train_to_mode(&start, &data, &family, &options, &())?.laplace;
    let joint = laplace.linearized_joint(&Array2::from_shape_vec((2, 1), vec![0.0, 1.0])?)?.covariance;
    let errors = [(joint[(0, 0)] + joint[(1, 1)] - 2.0 * joint[(0, 1)]).sqrt(), joint[(0, 0)].sqrt()];
    for ((found, expected), error) in laplace.parameters().iter().zip(line).zip(errors) {
        assert!((found - expected).abs() < 3.0 * error, "weight {found} for {expected} ± {error}");
    }
    // The ends of an interval of counts have probabilities of their own, half of which a rank counts as below.
    let ranks = laplace.predict(held_out.inputs(), &Method::default())?.ranks(held_out.targets())?.ok_or("counts")?;
    let inside = ranks.iter().filter(|rank| (0.05..=0.95).contains(*rank)).count() as f64 / 2000.0;
    println!("binomial: 90 % intervals hold {:.1} %", 100.0 * inside);
    assert!((0.88..=0.92).contains(&inside), "coverage {inside}");
    Ok(())
}

#[test]
fn one_trial_is_an_answer() {
    for (y, f) in [(0.0, -1.2), (1.0, -1.2), (1.0, 30.0), (0.0, 30.0)] {
        close(Binomial::default().log_density(&[y], &[f]), Bernoulli.log_density(&[y], &[f]), 1e-12, "log density");
    }
}

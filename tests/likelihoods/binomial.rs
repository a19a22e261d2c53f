use riemannian_laplace::internals::likelihood::{Bernoulli, Binomial, Likelihood};

use crate::checks::{self, close};
use crate::common::Outcome;

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

#[test]
fn one_trial_is_an_answer() {
    for (y, f) in [(0.0, -1.2), (1.0, -1.2), (1.0, 30.0), (0.0, 30.0)] {
        close(Binomial::default().log_density(&[y], &[f]), Bernoulli.log_density(&[y], &[f]), 1e-12, "log density");
    }
}

use riemannian_laplace::Family;
use riemannian_laplace::internals::likelihood::{Likelihood, NegativeBinomial, Poisson};

use crate::checks::{self, close};
use crate::common::Outcome;

const OUTPUTS: [f64; 3] = [-1.3, 0.4, 2.9];

#[test]
fn a_negative_binomial_satisfies_its_definition() -> Outcome {
    for a in [0.05, 0.6, 3.0] {
        let counts = NegativeBinomial::new(a)?;
        checks::derivatives(&counts, &[0.0, 2.0, 31.0], &OUTPUTS);
        checks::force(&counts, &OUTPUTS);
        checks::expectations(&counts, &OUTPUTS);
        checks::under_a_gaussian(&counts, 0.4, 0.8, &[0.0, 3.0, 40.0]);
        checks::under_a_gaussian(&counts, 2.0, 0.05, &[7.0, 60.0]);
    }
    Ok(())
}

#[test]
fn without_dispersion_it_is_a_poisson_distribution() -> Outcome {
    let counts = NegativeBinomial::new(1e-6)?;
    for (y, f) in [(0.0, -1.0), (3.0, 1.2), (25.0, 3.0)] {
        close(counts.log_density(&[y], &[f]), Poisson.log_density(&[y], &[f]), 1e-4, "log density");
        close(counts.cumulative(&[f], 0, y), Poisson.cumulative(&[f], 0, y), 1e-4, "distribution function");
    }
    // The two ways to sum log(1 + aj) meet.
    let counts = NegativeBinomial::new(0.3)?;
    let step = counts.log_density(&[201.0], &[5.0]) - counts.log_density(&[200.0], &[5.0]);
    let expected = (1.0_f64 + 0.3 * 200.0).ln() + 5.0 - (1.0 + 0.3 * 5.0_f64.exp()).ln() - 201.0_f64.ln();
    close(step, expected, 1e-10, "step across the switch");
    Ok(())
}

#[test]
fn all_structures_take_it() -> Outcome {
    checks::structures(&Family::new(NegativeBinomial::new(0.4)?))
}

#[test]
fn the_dispersion_is_found_again() -> Outcome {
    checks::recovery(&Family::new(NegativeBinomial::new(0.6)?), &"negative-binomial".parse()?, [0.6, 4.5])
}

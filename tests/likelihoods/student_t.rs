use riemannian_laplace::Family;
use riemannian_laplace::internals::likelihood::StudentT;

use crate::checks;
use crate::common::Outcome;

const OUTPUTS: [f64; 3] = [-1.3, 0.0, 2.2];

#[test]
fn a_t_distribution_satisfies_its_definition() -> Outcome {
    for (nu, scale) in [(3.0, 0.5), (8.0, 2.0), (200.0, 1.0)] {
        let noise = StudentT::new(nu, scale)?;
        checks::derivatives(&noise, &[-2.0, 0.3, 9.0], &OUTPUTS);
        checks::force(&noise, &OUTPUTS);
        checks::expectations(&noise, &OUTPUTS);
        checks::under_a_gaussian(&noise, 0.4, 0.8, &[0.2, -3.0, 8.0]);
        checks::under_a_gaussian(&noise, -2.0, 0.05, &[-1.9, 30.0]);
    }
    Ok(())
}

#[test]
fn all_structures_take_it() -> Outcome {
    checks::structures(&Family::new(StudentT::new(3.5, 0.4)?))
}

#[test]
fn freedom_and_scale_are_found_again() -> Outcome {
    checks::recovery(&Family::new(StudentT::new(3.5, 0.4)?), &"student-t".parse()?, [0.7, -1.2])
}

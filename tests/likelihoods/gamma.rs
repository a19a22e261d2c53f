use riemannian_laplace::Family;
use riemannian_laplace::internals::likelihood::Gamma;

use crate::checks;
use crate::common::Outcome;

const OUTPUTS: [f64; 3] = [-1.3, 0.4, 2.9];

#[test]
fn a_gamma_distribution_satisfies_its_definition() -> Outcome {
    for shape in [1.5, 4.0, 30.0] {
        let noise = Gamma::new(shape)?;
        checks::derivatives(&noise, &[0.3, 2.0, 31.0], &OUTPUTS);
        checks::force(&noise, &OUTPUTS);
        checks::expectations(&noise, &OUTPUTS);
        checks::under_a_gaussian(&noise, 0.4, 0.8, &[0.4, 3.0, 20.0]);
        checks::under_a_gaussian(&noise, 2.0, 0.05, &[7.0, 30.0]);
    }
    Ok(())
}

#[test]
fn all_structures_take_it() -> Outcome {
    checks::structures(&Family::new(Gamma::new(3.0)?))
}

#[test]
fn the_shape_is_found_again() -> Outcome {
    checks::recovery(&Family::new(Gamma::new(3.0)?), &"gamma".parse()?, [0.6, 1.9])
}

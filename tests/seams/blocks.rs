//! Sums over row blocks: the bits of a fit depend on the data alone.

use riemannian_laplace::internals::data::row_blocks;
use riemannian_laplace::{Activation, Error, EvidenceOptions, Family, Laplace, Link, Method};

use crate::common::{Outcome, architecture, normal_matrix, random_data, random_network};
use crate::{Case, STRUCTURES, fit_bits, gaussian, named, prediction_bits};

const POINTS: usize = 1000;

/// Enough units for the products to be worth several threads.
fn case(family: Family, outputs: usize, points: usize) -> Case {
    let network = random_network(architecture(&[3, 20, outputs], &[true, true], Activation::Tanh), 2);
    let data = random_data(&network, &family, points, 3);
    Case { network, data, family }
}

#[test]
fn a_fit_has_the_same_bits_on_any_number_of_threads() -> Outcome {
    assert_eq!(row_blocks(POINTS).len(), 12);
    let inputs = normal_matrix(50, 3, 8);
    for case in [case(gaussian(0.3), 1, POINTS), case(named("poisson"), 1, POINTS)] {
        for structure in STRUCTURES {
            let work = || -> Result<(Vec<u64>, Vec<u64>), Error> {
                let laplace: Laplace = case.fit(structure)?;
                let prediction = laplace.predict(&inputs, &Method::Glm(Link::Probit))?;
                Ok((fit_bits(&laplace), prediction_bits(&prediction)?))
            };
            // Outside a pool matrix products are shared among the threads of the global one.
            let outside = work()?;
            for threads in [1, 2, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
                assert_eq!(pool.install(work)?, outside, "{structure}, {threads} threads");
            }
        }
    }
    Ok(())
}

#[test]
fn tuning_has_the_same_bits_on_any_number_of_threads() -> Outcome {
    // A matrix of 300 rows in function space: tuning decomposes it.
    let case = case(gaussian(0.3), 1, 300);
    for structure in STRUCTURES {
        let work = || -> Result<_, Error> {
            let mut laplace = case.fit(structure)?;
            let optimum = laplace.optimize(&EvidenceOptions::default())?;
            Ok((optimum, fit_bits(&laplace)))
        };
        let outside = work()?;
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
            assert_eq!(pool.install(work)?, outside, "{structure}, {threads} threads");
        }
    }
    Ok(())
}

//! Draws against the precision they are drawn from, and the same bits on any number of threads.

use faer::{Mat, Side};
use ndarray::Array2;
use riemannian_laplace::Activation;
use riemannian_laplace::Error;
use riemannian_laplace::EvidenceOptions;
use riemannian_laplace::Family;

use crate::common::{Outcome, architecture, normal_matrix, random_data, random_network};
use crate::{Case, SOLVERS, bits, cases};

/// Whitens draws with the factor of G and compares mean and covariance with 0 and I.
pub fn assert_drawn_from(draws: &Array2<f64>, centre: &[f64], precision: &Mat<f64>, name: &str) -> Outcome {
    let (count, size) = draws.dim();
    let factor = precision.llt(Side::Lower).map_err(|_| "not positive definite")?;
    let lower = factor.L();
    let mut whitened = Mat::zeros(count, size);
    for s in 0..count {
        for i in 0..size {
            whitened[(s, i)] = (i..size).map(|j| lower[(j, i)] * (draws[(s, j)] - centre[j])).sum();
        }
    }
    let root = (count as f64).sqrt();
    let second = whitened.transpose() * &whitened;
    for i in 0..size {
        let mean = whitened.col(i).iter().sum::<f64>() / count as f64;
        assert!(mean.abs() < 5.0 / root, "{name}: mean {i} is {} standard errors from 0", mean * root);
        for j in 0..=i {
            // Products of two independent normals have variance 1, squares have variance 2.
            let (expected, error) = if i == j { (1.0, 2f64.sqrt() / root) } else { (0.0, 1.0 / root) };
            let deviation = (second[(i, j)] / count as f64 - expected) / error;
            assert!(deviation.abs() < 5.0, "{name}: covariance ({i}, {j}) is {deviation} standard errors off");
        }
    }
    // The sum of all squares is chi-square with S·D degrees of freedom.
    let squares: f64 = (0..size).map(|i| second[(i, i)]).sum();
    let freedom = (count * size) as f64;
    assert!((squares - freedom).abs() < 5.0 * (2.0 * freedom).sqrt(), "{name}: χ² is {squares} for {freedom}");
    Ok(())
}

#[test]
fn samples_have_the_covariance_of_the_posterior() -> Outcome {
    for case in cases() {
        let precision = case.dense_precision();
        for solver in SOLVERS {
            let draws = case.fit(solver).sample(6000, 11)?;
            assert_drawn_from(&draws, case.network.parameters(), &precision, &format!("{}, {solver:?}", case.name))?;
        }
    }
    Ok(())
}

/// Runs in a pool of that many threads.
fn on_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool").install(work)
}

#[test]
fn draws_do_not_depend_on_the_number_of_threads() -> Outcome {
    for case in cases().into_iter().step_by(3) {
        for solver in SOLVERS {
            let laplace = case.fit(solver);
            let one = on_threads(1, || laplace.sample(33, 5))?;
            let two = on_threads(2, || laplace.sample(33, 5))?;
            let some = on_threads(2, || laplace.sample(7, 5))?;
            assert_eq!(bits(&one), bits(&two), "{}", case.name);
            assert_eq!(bits(&one)[..some.len()], bits(&some)[..], "{}: a shorter run differs", case.name);
            assert_ne!(bits(&one), bits(&laplace.sample(33, 6)?));
        }
    }
    Ok(())
}

#[test]
fn large_matrices_factor_to_the_same_bits_on_any_number_of_threads() -> Outcome {
    // Large enough for products and factorisations to be shared among threads.
    let family = Family::gaussian(0.5)?;
    let network = random_network(architecture(&[2, 150, 1], &[true, true], Activation::Tanh), 1);
    let data = random_data(&network, &family, 700, 2);
    let case = Case { name: "large".to_string(), network, data, family, prior: vec![1.0] };
    let inputs = normal_matrix(3, 2, 4);
    for solver in SOLVERS {
        let work = || -> Result<_, Error> {
            let mut laplace = case.fit(solver);
            let mut all = vec![laplace.log_det_ratio(), laplace.effective_parameters()];
            let tuned = laplace.optimize(&EvidenceOptions::default())?.hyperparameters;
            all.extend(tuned.prior_precision.iter().chain(&tuned.sigma));
            all.extend(laplace.linearized(&inputs)?.covariance);
            all.extend(laplace.sample(2, 1)?);
            Ok(all)
        };
        let free = work()?;
        let one = on_threads(1, work)?;
        let two = on_threads(2, work)?;
        assert_eq!(bits(&one), bits(&two), "{solver:?}: one and two threads");
        assert_eq!(bits(&one), bits(&free), "{solver:?}: one thread and all");
    }
    Ok(())
}

//! What a fit reports while it runs: a share of the rows that it has read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::Array2;
use riemannian_laplace::internals::laplace::Watched;
use riemannian_laplace::prelude::*;
use riemannian_laplace::{Progress, Structure};

const ROWS: usize = 300;

#[derive(Default)]
struct Counter(AtomicUsize);

impl Progress for Counter {
    fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn data() -> Dataset {
    let inputs = Array2::from_shape_fn((ROWS, 2), |(row, column)| ((row * (column + 3)) % 17) as f64 / 17.0);
    let targets = Array2::from_shape_fn((ROWS, 1), |(row, _)| (row as f64 / 40.0).sin());
    Dataset::new(inputs, targets).unwrap()
}

/// The rows that a fit reports, by a fit that keeps the data and one that reads them in batches.
fn reported(structure: Structure) -> [usize; 2] {
    let network = Arc::new(Network::random(Architecture::new(&[2, 5, 1], Activation::Tanh).unwrap(), 1));
    let family = Family::gaussian(0.3).unwrap();
    let options = FitOptions { structure, ..Default::default() };
    let (kept, read) = (Counter::default(), Counter::default());
    let watched = Laplace::fit_watched(network.clone(), data(), family.clone(), &options, &kept).unwrap();
    let in_batches =
        Laplace::fit_batches(network.clone(), &Watched { data: &data(), progress: &read }, family.clone(), &options);
    let plain = Laplace::fit_shared(network, data(), family, &options).unwrap();
    for other in [&plain, &in_batches.unwrap()] {
        assert_eq!(watched.log_marginal_likelihood(), other.log_marginal_likelihood());
    }
    [kept.0.into_inner(), read.0.into_inner()]
}

#[test]
fn a_fit_reports_every_row_once_whatever_the_structure_that_sums_over_them() {
    for structure in
        [Structure::Auto, Structure::WeightSpace, Structure::FunctionSpace, Structure::Kronecker, Structure::Diagonal]
    {
        assert_eq!(reported(structure), [ROWS; 2], "{structure:?}");
    }
}

#[test]
fn iterations_read_their_rows_more_than_once() {
    let [kept, read] = reported(Structure::MatrixFree(64));
    assert!(kept >= ROWS && read >= ROWS);
}

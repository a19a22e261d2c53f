//! Data that come in pieces from a source of one's own.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::{Array2, Axis, Slice};
use riemannian_laplace::internals::data::{Batch, BatchIterator, row_blocks};
use riemannian_laplace::{Batches, Dataset, Draws, Error, Laplace, Link, Method, Schema, Structure};

use crate::common::{Outcome, assert_all_close, is_close, normal_matrix};
use crate::{Case, STRUCTURES, fit_bits, gaussian, options, prediction_bits};

/// A data set that is served in pieces of the given sizes, over and over; each piece goes through `change` first.
struct Served<F> {
    data: Dataset,
    schema: Schema,
    sizes: Vec<usize>,
    passes: AtomicUsize,
    change: F,
}

impl<F: Fn(&mut Batch<'_>) -> Result<(), Error> + Send + Sync> Served<F> {
    fn new(data: &Dataset, sizes: &[usize], change: F) -> Self {
        Self {
            data: data.clone(),
            schema: data.schema().clone(),
            sizes: sizes.to_vec(),
            passes: AtomicUsize::new(0),
            change,
        }
    }

    fn piece(&self, rows: Range<usize>) -> Result<Batch<'_>, Error> {
        let part = |array: &Array2<f64>| array.slice_axis(Axis(0), Slice::from(rows.clone())).to_owned().into();
        let (inputs, targets) = (part(self.data.inputs()), part(self.data.targets()));
        let mut batch = Batch { first_row: rows.start, inputs, targets };
        (self.change)(&mut batch)?;
        Ok(batch)
    }
}

impl<F: Fn(&mut Batch<'_>) -> Result<(), Error> + Send + Sync> Batches for Served<F> {
    fn n_rows(&self) -> usize {
        self.data.len()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn batches(&self, rows: Range<usize>, most_rows: usize) -> Result<BatchIterator<'_>, Error> {
        self.passes.fetch_add(1, Ordering::Relaxed);
        let (mut next, mut sizes) = (rows.start, self.sizes.iter().cycle());
        Ok(Box::new(std::iter::from_fn(move || {
            let size = (*sizes.next()?).min(most_rows).min(rows.end - next);
            let first = next;
            next += size;
            // A piece of no rows is served where one was asked for, but not for ever.
            (first < rows.end).then(|| self.piece(first..next))
        })))
    }
}

fn as_it_is(_: &mut Batch<'_>) -> Result<(), Error> {
    Ok(())
}

fn fit(case: &Case, source: &dyn Batches, structure: Structure) -> Result<Laplace, Error> {
    Laplace::fit_batches(Arc::new(case.network.clone()), source, case.family.clone(), &options(structure))
}

/// Five blocks of 66 or 67 rows.
const POINTS: usize = 332;

fn cases() -> [Case; 2] {
    [Case::new(gaussian(0.3), 2, POINTS), Case::classes(POINTS)]
}

/// A fit takes one pass over each block; the iteration of the low-rank structure takes a few.
fn assert_passes(structure: Structure, passes: usize) {
    let blocks = row_blocks(POINTS).len();
    match structure {
        Structure::LowRank(_) => {
            assert!(passes.is_multiple_of(blocks) && (2..=8).contains(&(passes / blocks)), "{passes}")
        }
        other => assert_eq!(passes, blocks, "{other}"),
    }
}

#[test]
fn the_same_pieces_give_the_same_bits_as_the_data_set() -> Outcome {
    let inputs = normal_matrix(4, 2, 9);
    for case in cases() {
        for structure in STRUCTURES {
            let whole = case.fit(structure)?;
            // As many rows at once as the fit asks for: a block fits into one batch.
            let source = Served::new(&case.data, &[usize::MAX], as_it_is);
            let served = fit(&case, &source, structure)?;
            assert_passes(structure, source.passes.into_inner());
            assert_eq!(fit_bits(&served), fit_bits(&whole), "{structure}");
            assert!(served.data().is_none() && served.schema() == whole.schema() && served.n_data() == POINTS);
            for method in [Method::Map, Method::Glm(Link::Probit), Method::Nn(Draws::first(5, 1))] {
                let (a, b) = (served.predict(&inputs, &method)?, whole.predict(&inputs, &method)?);
                assert_eq!(prediction_bits(&a)?, prediction_bits(&b)?, "{structure}, {}", method.name());
            }
            let metric = served.predict(&inputs, &Method::riemannian(2, 0));
            assert!(matches!(metric, Err(Error::NoTrainingData { .. })), "{structure}: the data are not kept");
        }
    }
    Ok(())
}

#[test]
fn other_pieces_give_the_same_up_to_rounding() -> Outcome {
    let inputs = normal_matrix(4, 2, 9);
    for case in cases() {
        for structure in STRUCTURES {
            let whole = case.fit(structure)?;
            for sizes in [&[1][..], &[7, 1, 40, 13], &[66, 1], &[5, 0, 9]] {
                let served = fit(&case, &Served::new(&case.data, sizes, as_it_is), structure)?;
                let name = format!("{structure}, pieces of {sizes:?}");
                let (a, b) = (served.log_marginal_likelihood(), whole.log_marginal_likelihood());
                // Sums of some hundred terms in another order.
                assert!(is_close(a, b, 1e-12, 1.0), "{name}: {a} and {b}");
                let (a, b) = (served.linearized(&inputs)?, whole.linearized(&inputs)?);
                assert_all_close(&a.covariance, &b.covariance, 1e-10, &name);
            }
        }
    }
    Ok(())
}

#[test]
fn a_posterior_of_served_data_is_tuned_like_that_of_the_data_set() -> Outcome {
    let [case, _] = cases();
    for structure in STRUCTURES {
        let source = Served::new(&case.data, &[usize::MAX], as_it_is);
        let (mut served, mut whole) = (fit(&case, &source, structure)?, case.fit(structure)?);
        let passes = source.passes.load(Ordering::Relaxed);
        assert_eq!(served.optimize(&Default::default())?, whole.optimize(&Default::default())?, "{structure}");
        assert_eq!(fit_bits(&served), fit_bits(&whole), "{structure}");
        assert_eq!(source.passes.into_inner(), passes, "{structure}: the sums are kept");
    }
    Ok(())
}

#[test]
fn an_error_of_the_source_is_the_error_of_the_fit() {
    let [case, _] = cases();
    let broken = |batch: &mut Batch<'_>| {
        if batch.rows().contains(&200) {
            let source = std::io::Error::other("the connection is gone");
            return Err(Error::Io { path: PathBuf::from("far/away"), source });
        }
        Ok(())
    };
    for structure in STRUCTURES {
        match fit(&case, &Served::new(&case.data, &[20], broken), structure) {
            Err(Error::Io { path, source }) => {
                assert_eq!((path.to_str(), source.to_string().as_str()), (Some("far/away"), "the connection is gone"));
            }
            other => panic!("{structure}: {:?}", other.err()),
        }
    }
}

/// The piece that holds row 200, changed.
fn changed_at_200(
    change: impl Fn(&mut Batch<'_>) + Send + Sync,
) -> impl Fn(&mut Batch<'_>) -> Result<(), Error> + Send + Sync {
    move |batch| {
        if batch.rows().contains(&200) {
            change(batch);
        }
        Ok(())
    }
}

fn without_last_row(array: &Array2<f64>) -> Array2<f64> {
    array.slice_axis(Axis(0), Slice::from(..array.nrows() - 1)).to_owned()
}

#[test]
fn pieces_that_do_not_fit_are_refused_by_row_or_column() {
    let [case, _] = cases();
    for structure in STRUCTURES {
        let wide =
            changed_at_200(|batch: &mut Batch<'_>| batch.inputs = Array2::zeros((batch.inputs.nrows(), 3)).into());
        let error = fit(&case, &Served::new(&case.data, &[20], wide), structure).expect_err("three inputs");
        let found = matches!(&error, Error::Size { what, expected: 2, found: 3 } if what.contains("input columns"));
        assert!(found, "{structure}: {error}");

        let narrow =
            changed_at_200(|batch: &mut Batch<'_>| batch.targets = Array2::zeros((batch.targets.nrows(), 1)).into());
        let error = fit(&case, &Served::new(&case.data, &[20], narrow), structure).expect_err("one target");
        let found = matches!(&error, Error::Size { what, expected: 2, found: 1 } if what.contains("target columns"));
        assert!(found, "{structure}: {error}");

        for value in [f64::NAN, f64::INFINITY] {
            let target = changed_at_200(move |batch: &mut Batch<'_>| {
                let row = 200 - batch.first_row;
                let mut targets = batch.targets.to_owned();
                targets[(row, 1)] = value;
                batch.targets = targets.into();
            });
            let error = fit(&case, &Served::new(&case.data, &[20], target), structure).expect_err("a target");
            assert!(matches!(error, Error::Target { row: 200, .. }), "{structure}: {error}");

            let input = changed_at_200(move |batch: &mut Batch<'_>| {
                let row = 200 - batch.first_row;
                let mut inputs = batch.inputs.to_owned();
                inputs[(row, 1)] = value;
                batch.inputs = inputs.into();
            });
            let error = fit(&case, &Served::new(&case.data, &[20], input), structure).expect_err("an input");
            assert!(matches!(error, Error::NotFinite { row: 200, .. }), "{structure}: {error}");
        }
    }
}

#[test]
fn names_that_are_not_as_many_as_the_columns_are_refused() {
    let [case, _] = cases();
    for (inputs, targets, word, wrong) in [(3, 2, "input names", 3), (2, 1, "target names", 1)] {
        let schema = Schema::unnamed(inputs, targets);
        let source = Served { schema, ..Served::new(&case.data, &[20], as_it_is) };
        let error = fit(&case, &source, Structure::WeightSpace).expect_err("other names");
        let found =
            matches!(&error, Error::Size { what, expected: 2, found } if what.contains(word) && *found == wrong);
        assert!(found, "{error}");
    }
}

#[test]
fn rows_that_are_missing_or_out_of_order_are_refused() {
    let [case, _] = cases();
    let refusal = |structure, change: fn(&mut Batch<'_>)| {
        let source = Served::new(&case.data, &[20], changed_at_200(change));
        match fit(&case, &source, structure) {
            Err(Error::Size { what, expected, found }) => (what, expected, found),
            other => panic!("{structure}: {:?}", other.err()),
        }
    };
    for structure in STRUCTURES {
        // The third block, rows 132..199, and the fourth, 199..265, which begins with rows 199..219.
        let (what, expected, found) = refusal(structure, |batch| {
            batch.targets = without_last_row(&batch.targets.to_owned()).into();
        });
        assert_eq!((what.as_str(), expected, found), ("number of target rows of a batch", 20, 19));

        let (what, expected, found) = refusal(structure, |batch| {
            batch.inputs = without_last_row(&batch.inputs.to_owned()).into();
            batch.targets = without_last_row(&batch.targets.to_owned()).into();
        });
        assert_eq!((what.as_str(), expected, found), ("first row of a batch", 218, 219));

        let (what, expected, found) = refusal(structure, |batch| batch.first_row = 7);
        assert_eq!((what.as_str(), expected, found), ("first row of a batch", 199, 7));
    }
    // Rows that are missing at the end of a block.
    let last = |batch: &mut Batch<'_>| {
        if batch.rows().contains(&(POINTS - 1)) {
            batch.inputs = without_last_row(&batch.inputs.to_owned()).into();
            batch.targets = without_last_row(&batch.targets.to_owned()).into();
        }
        Ok(())
    };
    let error = fit(&case, &Served::new(&case.data, &[20], last), Structure::Diagonal).expect_err("a row is missing");
    let blocks = row_blocks(POINTS);
    let block = &blocks[blocks.len() - 1];
    let found = matches!(&error, Error::Size { what, expected, found }
        if what.contains(&format!("{}..{}", block.start, block.end)) && (*expected, *found) == (block.len(), block.len() - 1));
    assert!(found, "{error}");
}

//! Scores over data of any length: each piece of the rows is predicted, summed into a [`Tally`] and forgotten. Where a
//! team shares the data its ranks take the pieces in turn, and the first adds their sums in the order of the rows.

use super::tally::{Detail, Tally};
use crate::data::{Batch, Batches, Pieces};
use crate::error::{Error, Result};
use crate::laplace::Laplace;
use crate::predict::Method;
use crate::progress::Progress;
use crate::team::{pack_numbers, unpack_numbers};

/// What is summed besides the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScoringOptions {
    /// Whether the calibration curves are wanted (default: the scores alone).
    pub detail: Detail,
    /// Whether the uncertainty at each point is kept (default: no).
    pub uncertainty: KeepUncertainty,
}

/// Whether the [uncertainty](crate::predict::Prediction::uncertainty) at each point is kept: one number per row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeepUncertainty {
    /// It is.
    Yes,
    /// It is not.
    #[default]
    No,
}

/// One way to predict, scored.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The sums that its scores and curves come from.
    pub tally: Tally,
    /// The uncertainty at each point, where it was asked for.
    pub uncertainty: Vec<f64>,
}

/// Scores several ways to predict over the same data, in the units of the data and in one pass over them. `progress` is
/// told of each row. Of a team the first rank gets the result, and the others `None`.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::internals::evaluate::{ScoringOptions, score_over};
/// use riemannian_laplace::prelude::*;
///
/// let network = Network::random(Architecture::new(&[1, 3, 1], Activation::Tanh)?, 1);
/// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [0.9], [0.4]])?;
/// let laplace = Laplace::fit(network, data.clone(), Family::gaussian(0.5)?, &FitOptions::default())?;
/// let methods = [Method::Map, Method::default()];
/// let scored = score_over(&laplace, &data, &methods, ScoringOptions::default(), &())?.expect("the first rank");
/// let whole = Scores::of(&laplace.predict(data.inputs(), &methods[1])?, data.targets())?;
/// assert_eq!(scored[1].tally.scores()?, whole);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn score_over(
    laplace: &Laplace,
    data: &dyn Batches,
    methods: &[Method],
    options: ScoringOptions,
    progress: &dyn Progress,
) -> Result<Option<Vec<Scored>>> {
    let none = Tally::none(laplace.family(), options.detail);
    let sums = none.numbers().len();
    let mut all = vec![Scored { tally: none, uncertainty: Vec::new() }; methods.len()];
    let is_first = over_pieces(
        data,
        progress,
        |batch| {
            let (first_row, inputs, targets) = (batch.first_row, batch.inputs.into_owned(), batch.targets.into_owned());
            let mut numbers = Vec::new();
            for method in methods {
                let prediction = laplace.predict(&inputs, method)?;
                let tally = Tally::of(&prediction, &targets, options.detail);
                numbers.extend(tally.map_err(|error| error.in_part_from(first_row))?.numbers());
                if options.uncertainty == KeepUncertainty::Yes {
                    numbers.extend(prediction.uncertainty());
                }
            }
            Ok(numbers)
        },
        |numbers, rows| {
            let kept = if options.uncertainty == KeepUncertainty::Yes { rows } else { 0 };
            for (scored, part) in all.iter_mut().zip(numbers.chunks(sums + kept)) {
                let (tally, uncertainty) = part.split_at_checked(sums).unwrap_or((part, &[]));
                scored.tally.add_numbers(tally)?;
                scored.uncertainty.extend(uncertainty);
            }
            Ok(())
        },
    )?;
    Ok(is_first.then_some(all))
}

/// The uncertainty of several ways to predict at each row, which need not have targets. Of a team the first rank gets it.
pub fn uncertainty_over(
    laplace: &Laplace,
    data: &dyn Batches,
    methods: &[Method],
    progress: &dyn Progress,
) -> Result<Option<Vec<Vec<f64>>>> {
    let mut all = vec![Vec::new(); methods.len()];
    let is_first = over_pieces(
        data,
        progress,
        |batch| {
            let inputs = batch.inputs.into_owned();
            let mut numbers = Vec::new();
            for method in methods {
                numbers.extend(laplace.predict(&inputs, method)?.uncertainty());
            }
            Ok(numbers)
        },
        |numbers, rows| {
            all.iter_mut().zip(numbers.chunks(rows)).for_each(|(all, part)| all.extend(part));
            Ok(())
        },
    )?;
    Ok(is_first.then_some(all))
}

/// Makes numbers of each piece of the rows, and gives them to `take`, with the number of rows, at the first rank and in
/// the order of the pieces. Whether this is the first rank.
fn over_pieces(
    data: &dyn Batches,
    progress: &dyn Progress,
    mut make: impl FnMut(Batch<'_>) -> Result<Vec<f64>>,
    mut take: impl FnMut(Vec<f64>, usize) -> Result<()>,
) -> Result<bool> {
    let team = data.team().cloned().unwrap_or_default();
    let (mut pieces, places, mut taken) = (Pieces::of(data), Pieces::of(data), 0);
    team.in_turn::<Error>(
        pieces.count(),
        |piece| {
            progress.check()?;
            let batch = pieces.get(piece)?;
            team.count_rows(batch.len());
            Ok(pack_numbers(&make(batch)?))
        },
        |message| {
            let rows = places.rows(taken).len();
            taken += 1;
            take(unpack_numbers(&message)?, rows)?;
            (0..rows).for_each(|_| progress.advance());
            Ok(())
        },
    )?;
    Ok(team.is_first())
}

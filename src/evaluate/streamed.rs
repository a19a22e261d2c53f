//! Scores over data of any length: each piece of the rows is predicted, summed into a [`Tally`] and forgotten. Where a
//! team shares the data its ranks take the pieces in turn, and the first adds their sums in the order of the rows.

use ndarray::Array1;

use super::outside::Uncertainties;
use super::tally::{Detail, Tally};
use crate::data::{Batch, Batches, Pieces};
use crate::error::{Error, Result, TeamError};
use crate::laplace::Laplace;
use crate::predict::Method;
use crate::progress::Progress;
use crate::team::{pack_lists, unpack_lists};

/// What is summed besides the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScoringOptions {
    /// Whether the calibration curves are wanted (default: the scores alone).
    pub detail: Detail,
    /// Whether the uncertainty at each point is kept (default: no).
    pub uncertainty: KeepUncertainty,
}

/// Whether the [uncertainty](Uncertainties) at each point is kept: up to three numbers per row.
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
    pub uncertainty: Option<Uncertainties>,
    /// Σₙ (log p(yₙ) − log q(yₙ))² for every method q of the same call, in order.
    squared_differences: Vec<f64>,
}

impl Scored {
    /// By how much the mean log density is greater than that of method number `index` of the same call, and the paired
    /// standard error of the difference over rows.
    pub fn gain_over(&self, index: usize, other: &Scored) -> Result<(f64, f64)> {
        let (own, theirs) = (self.tally.scores()?, other.tally.scores()?);
        let (gain, rows) = (theirs.nll() - own.nll(), self.tally.points());
        let squares = self.squared_differences.get(index).copied().unwrap_or(f64::NAN);
        let variance = (squares / rows - gain * gain).max(0.0) * rows / (rows - 1.0).max(1.0);
        Ok((gain, (variance / rows).sqrt()))
    }
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
    let tally = Tally::none(laplace.family(), options.detail);
    let uncertainty = (options.uncertainty == KeepUncertainty::Yes).then(Uncertainties::default);
    let squared_differences = vec![0.0; methods.len()];
    let mut all = vec![Scored { tally, uncertainty, squared_differences }; methods.len()];
    let is_first = over_pieces(
        data,
        progress,
        |batch| {
            let (first_row, inputs, targets) = (batch.first_row, batch.inputs.into_owned(), batch.targets.into_owned());
            let (mut parts, mut densities) = (Vec::new(), Vec::new());
            for method in methods {
                let prediction = laplace.predict(&inputs, method).map_err(|error| error.in_part_from(first_row))?;
                densities.push(prediction.log_densities(&targets).map_err(|error| error.in_part_from(first_row))?);
                let tally = Tally::of(&prediction, &targets, options.detail);
                parts.push(tally.map_err(|error| error.in_part_from(first_row))?.numbers());
                if options.uncertainty == KeepUncertainty::Yes {
                    parts.push(Uncertainties::of(&prediction)?.numbers());
                }
            }
            let squares = |one: &Array1<f64>| -> Vec<f64> {
                let of = |other: &Array1<f64>| one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
                densities.iter().map(of).collect()
            };
            parts.extend(densities.iter().map(squares));
            Ok(parts)
        },
        |parts, rows| {
            let mut parts = parts.into_iter();
            for scored in &mut all {
                scored.tally.add_numbers(&parts.next().ok_or(TeamError::Message)?)?;
                if let Some(uncertainty) = &mut scored.uncertainty {
                    uncertainty.extend(&parts.next().ok_or(TeamError::Message)?, rows)?;
                }
            }
            for scored in &mut all {
                let squares = parts.next().ok_or(TeamError::Message)?;
                scored.squared_differences.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square);
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
) -> Result<Option<Vec<Uncertainties>>> {
    let mut all = vec![Uncertainties::default(); methods.len()];
    let is_first = over_pieces(
        data,
        progress,
        |batch| {
            let (first_row, inputs) = (batch.first_row, batch.inputs.into_owned());
            let of = |method: &Method| Ok(Uncertainties::of(&laplace.predict(&inputs, method)?)?.numbers());
            methods.iter().map(|method| of(method).map_err(|error: Error| error.in_part_from(first_row))).collect()
        },
        |parts, rows| all.iter_mut().zip(parts).try_for_each(|(all, part)| all.extend(&part, rows)),
    )?;
    Ok(is_first.then_some(all))
}

/// Makes lists of numbers of each piece of the rows, and gives them to `take`, with the number of rows, at the first rank
/// and in the order of the pieces. Whether this is the first rank.
pub(super) fn over_pieces(
    data: &dyn Batches,
    progress: &dyn Progress,
    mut make: impl FnMut(Batch<'_>) -> Result<Vec<Vec<f64>>>,
    mut take: impl FnMut(Vec<Vec<f64>>, usize) -> Result<()>,
) -> Result<bool> {
    let team = data.team().cloned().unwrap_or_default();
    let (mut pieces, places, mut taken) = (Pieces::of(data), Pieces::of(data), 0);
    team.in_turn::<Error>(
        pieces.count(),
        |piece| {
            progress.check()?;
            let batch = pieces.get(piece)?;
            team.count_rows(batch.len());
            Ok(pack_lists(&make(batch)?))
        },
        |message| {
            let rows = places.rows(taken).len();
            taken += 1;
            take(unpack_lists(&message)?, rows)?;
            (0..rows).for_each(|_| progress.advance());
            Ok(())
        },
    )?;
    Ok(team.is_first())
}

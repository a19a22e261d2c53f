//! A hint when the columns of a file, taken by position, would explain far more in another order.

use ndarray::{Array2, Axis};
use riemannian_laplace::Laplace;
use riemannian_laplace::internals::evaluate::Deviances;

use super::console::Console;
use super::failure::Failure;

/// At most this many rows and columns are looked at.
const MOST_ROWS: usize = 2000;
const MOST_COLUMNS: usize = 40;
/// Multiply-adds of one round of the search at most; rows are left out for it, but no fewer than these remain.
const MOST_WORK: f64 = 2e9;
const LEAST_ROWS: usize = 50;
/// The share of the deviance that another order must explain, and by how much more than the given one.
const LEAST_EXPLAINED: f64 = 0.2;
const CLEAR_GAIN: f64 = 0.1;

/// How the scaling of the inputs belongs to the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalingGoes {
    /// Each column has its own, wherever it stands: --standardize.
    WithTheColumn,
    /// Each of the network's inputs has its own, whichever column it gets: --scaling, or none.
    WithTheInput,
}

/// Says when the network would explain its data far better if its inputs were the columns in another order.
pub fn hint(laplace: &Laplace, scaling: ScalingGoes, console: &Console) -> Result<(), Failure> {
    let (Some(data), schema) = (laplace.data(), laplace.schema()) else { return Ok(()) };
    let names = schema.inputs();
    // The columns of one word have no order of their own.
    if !(2..=MOST_COLUMNS).contains(&names.len()) || names != schema.source_columns() {
        return Ok(());
    }
    let round = 1.5 * (names.len() * names.len()) as f64 * 2.0 * laplace.model().n_params() as f64;
    let rows = ((MOST_WORK / round) as usize).min(MOST_ROWS);
    if rows < LEAST_ROWS {
        return Ok(());
    }
    let step = data.len().div_ceil(rows).max(1);
    let some = data.select(&(0..data.len()).step_by(step).collect::<Vec<_>>())?;
    let columns = match scaling {
        ScalingGoes::WithTheInput => schema.restore_inputs(some.inputs().view())?,
        ScalingGoes::WithTheColumn => some.inputs().clone(),
    };
    let explained = |order: &[usize]| -> Result<f64, Failure> {
        let chosen: Array2<f64> = columns.select(Axis(1), order);
        let inputs = match scaling {
            ScalingGoes::WithTheInput => schema.scale_inputs(chosen.view())?,
            ScalingGoes::WithTheColumn => chosen,
        };
        let outputs = laplace.outputs(&inputs)?;
        Ok(Deviances::of(laplace.family(), &outputs, some.targets(), some.targets()).explained())
    };
    let as_given = explained(&(0..names.len()).collect::<Vec<_>>())?;
    if as_given > 1.0 - CLEAR_GAIN {
        return Ok(());
    }
    let (order, best) = search(names.len(), as_given, explained)?;
    if best < LEAST_EXPLAINED || best < as_given + CLEAR_GAIN {
        return Ok(());
    }
    let order: Vec<&str> = order.iter().filter_map(|column| names.get(*column)).map(String::as_str).collect();
    console.warn(format!(
        "the order of the columns does not look like that of the network's inputs: it explains {:.1} % of the deviance of \
         these data, and {:.1} % with `--input-order {}`",
        100.0 * as_given,
        100.0 * best,
        order.join(","),
    ));
    Ok(())
}

/// The order that explains most, by the best swap of two columns or move of one, again and again; which column goes to each
/// input.
fn search<E>(
    count: usize,
    as_given: f64,
    mut explained: impl FnMut(&[usize]) -> Result<f64, E>,
) -> Result<(Vec<usize>, f64), E> {
    let (mut order, mut best): (Vec<usize>, f64) = ((0..count).collect(), as_given);
    for _ in 0..count {
        let mut next = None;
        for other in neighbours(&order) {
            let value = explained(&other)?;
            if value > best {
                (next, best) = (Some(other), value);
            }
        }
        match next {
            Some(better) => order = better,
            None => break,
        }
    }
    Ok((order, best))
}

/// The orders in which two columns are swapped, or one stands elsewhere.
fn neighbours(order: &[usize]) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    for from in 0..order.len() {
        for to in 0..order.len() {
            let mut other = order.to_vec();
            if from < to {
                other.swap(from, to);
                found.push(other.clone());
                other.swap(from, to);
            }
            // To move a column by one place is to swap it.
            if from.abs_diff(to) > 1 {
                let column = other.remove(from);
                other.insert(to, column);
                found.push(other);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_column_and_two_swaps_are_found() {
        for right in [vec![1, 2, 3, 4, 0], vec![1, 0, 2, 4, 3]] {
            // Of each input that has its column, a fifth.
            let explained = |order: &[usize]| -> Result<f64, ()> {
                Ok(order.iter().zip(&right).filter(|(a, b)| a == b).count() as f64 / 5.0)
            };
            let given = explained(&[0, 1, 2, 3, 4]).unwrap_or_default();
            assert_eq!(search(5, given, explained), Ok((right.clone(), 1.0)));
        }
        assert_eq!(neighbours(&[0, 1, 2]).len(), 5);
    }
}

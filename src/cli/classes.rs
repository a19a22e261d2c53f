//! The names of classes: in summaries, in JSON, and in the order of a network's outputs.

use riemannian_laplace::internals::data::list_names;
use riemannian_laplace::internals::likelihood::TargetKind;
use riemannian_laplace::{Dataset, Family, Laplace, Method, Schema};
use serde::Serialize;

use super::console::Console;
use super::failure::Failure;
use super::output::Summary;

/// The classes of one target, or of each.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ClassNames {
    /// The same for all targets.
    Shared(Vec<String>),
    /// One list per target.
    PerTarget(Vec<Vec<String>>),
}

/// The classes of a family in the order of the network's outputs: their names, or their numbers.
pub fn of(schema: &Schema, family: &Family, n_outputs: usize) -> Option<ClassNames> {
    if !family.has_classes() {
        return None;
    }
    let lists: Vec<Vec<String>> =
        (0..schema.targets().len()).map(|target| names(schema, family, n_outputs, target)).collect();
    let first = lists.first()?.clone();
    let shared = lists.iter().all(|list| *list == first);
    Some(if shared { ClassNames::Shared(first) } else { ClassNames::PerTarget(lists) })
}

/// The classes of a target.
pub fn names(schema: &Schema, family: &Family, n_outputs: usize, target: usize) -> Vec<String> {
    let count = family.likelihood().n_classes(n_outputs);
    match schema.classes_of(target) {
        Some(names) => names.to_vec(),
        None => (0..count).map(|class| class.to_string()).collect(),
    }
}

impl ClassNames {
    /// In words.
    pub fn in_words(&self) -> String {
        match self {
            ClassNames::Shared(names) => list_names(names),
            ClassNames::PerTarget(lists) => lists.iter().map(|names| list_names(names)).collect::<Vec<_>>().join("; "),
        }
    }
}

/// Adds a line on the classes to a summary.
pub fn add_row(schema: &Schema, family: &Family, n_outputs: usize, summary: &mut Summary) {
    if let Some(classes) = of(schema, family, n_outputs) {
        let meaning = match family.likelihood().kind() {
            TargetKind::Answers => "probabilities are those of the second",
            _ => "in the order of the network's outputs",
        };
        summary.row("classes", classes.in_words(), meaning);
    }
}

/// At most this many rows and classes are looked at for another order.
const MOST_ROWS: usize = 20_000;
const MOST_CLASSES: usize = 500;
/// By how much another order must raise the accuracy to be mentioned.
const CLEAR_GAIN: f64 = 0.3;

/// Says when the network would fit its data far better if its outputs were the classes in another order.
pub fn hint_at_order(laplace: &Laplace, console: &Console) -> Result<(), Failure> {
    let (Some(data), schema, family) = (laplace.data(), laplace.schema(), laplace.family()) else { return Ok(()) };
    let n_outputs = laplace.model().n_outputs();
    if !family.has_classes() || data.targets().ncols() != 1 || n_outputs > MOST_CLASSES {
        return Ok(());
    }
    let confusion = confusion(laplace, data)?;
    let order = best_order(&confusion);
    let total: f64 = confusion.iter().flatten().sum();
    let accuracy = |order: &[usize]| {
        let hits = confusion.iter().zip(order).filter_map(|(row, output)| row.get(*output)).sum::<f64>();
        hits / total.max(1.0)
    };
    let as_given = accuracy(&(0..order.len()).collect::<Vec<_>>());
    let best = accuracy(&order);
    if best - as_given < CLEAR_GAIN || best < 2.0 * as_given {
        return Ok(());
    }
    // The class at each output, from the output of each class.
    let names = names(schema, family, n_outputs, 0);
    let mut by_output = names.clone();
    for (class, output) in order.iter().enumerate() {
        if let (Some(place), Some(name)) = (by_output.get_mut(*output), names.get(class)) {
            place.clone_from(name);
        }
    }
    console.warn(format!(
        "the order of the classes does not look like that of the network's outputs: its accuracy on these data is {:.1} %, \
         and {:.1} % with `--class-names {}`",
        100.0 * as_given,
        100.0 * best,
        by_output.join(","),
    ));
    Ok(())
}

/// How often each class (row) has its greatest probability at each output (column).
fn confusion(laplace: &Laplace, data: &Dataset) -> Result<Vec<Vec<f64>>, Failure> {
    let step = data.len().div_ceil(MOST_ROWS).max(1);
    let rows: Vec<usize> = (0..data.len()).step_by(step).collect();
    let some = data.select(&rows)?;
    let inputs = laplace.schema().restore_inputs(some.inputs().view())?;
    let probabilities = laplace.predict(&inputs, &Method::Map)?.mean;
    let count = if probabilities.ncols() == 1 { 2 } else { probabilities.ncols() };
    let mut confusion = vec![vec![0.0; count]; count];
    for (row, label) in probabilities.rows().into_iter().zip(some.targets().iter()) {
        let output = match row.len() {
            1 => usize::from(row.first().is_some_and(|p| *p > 0.5)),
            _ => row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(output, _)| output),
        };
        if let Some(entry) = confusion.get_mut(*label as usize).and_then(|row| row.get_mut(output)) {
            *entry += 1.0;
        }
    }
    Ok(confusion)
}

/// An output for each class, the most frequent pairs first.
fn best_order(confusion: &[Vec<f64>]) -> Vec<usize> {
    let count = confusion.len();
    let mut pairs: Vec<(f64, usize, usize)> = confusion
        .iter()
        .enumerate()
        .flat_map(|(class, row)| row.iter().enumerate().map(move |(output, hits)| (*hits, class, output)))
        .collect();
    // Ties stay as given.
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1 != a.2).cmp(&(b.1 != b.2))).then((a.1, a.2).cmp(&(b.1, b.2))));
    let (mut order, mut taken) = (vec![None; count], vec![false; count]);
    for (_, class, output) in pairs {
        if let (Some(place @ None), Some(free @ false)) = (order.get_mut(class), taken.get_mut(output)) {
            (*place, *free) = (Some(output), true);
        }
    }
    order.into_iter().enumerate().map(|(class, output)| output.unwrap_or(class)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_that_fits_best_is_found() {
        let turned = vec![vec![1.0, 9.0, 0.0], vec![0.0, 0.0, 10.0], vec![8.0, 1.0, 1.0]];
        assert_eq!(best_order(&turned), [1, 2, 0]);
        assert_eq!(best_order(&vec![vec![3.0; 3]; 3]), [0, 1, 2]);
    }
}

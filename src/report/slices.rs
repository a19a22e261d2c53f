//! Pictures of the predictions: along each of the most influential inputs, the others at their medians.

use ndarray::{Array1, Array2, Axis, Slice as Slicing};

use super::contents::{BandPoint, Curves, Pictures, Slice};
use super::gather::{ReportOptions, evenly};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::laplace::Laplace;
use crate::likelihood::TargetKind;
use crate::predict::{Method, Prediction, predict};

/// Points of a curve.
const POINTS: usize = 81;
/// The most distinct values of an input that is taken to be discrete: 0/1, ranks.
const MOST_LEVELS: usize = 8;
/// How far beyond the data a curve goes, as a share of their range.
const BEYOND: f64 = 0.2;
/// Points at which the influence of an input is measured.
const PROBES: usize = 7;
/// The rows that are predicted at once for influences.
const ROWS_AT_ONCE: usize = 2048;
/// The most curves of classes in one chart.
const MOST_CLASSES: usize = super::chart::Ink::SERIES;
/// The most targets with slices of their own.
const MOST_TARGETS: usize = 3;

/// The slices of the predictions by the method that is shown; where there is one input, by every method, with the
/// observations.
pub(super) fn pictures(
    laplace: &Laplace,
    (methods, shown): (&[Method], usize),
    training: Option<&Dataset>,
    scored: &Dataset,
    options: &ReportOptions,
) -> Result<Pictures> {
    let schema = laplace.schema();
    let known = training.unwrap_or(scored);
    let mut columns: Vec<Column> =
        known.inputs().axis_iter(Axis(1)).map(|column| Column::of(&column.to_vec())).collect();
    let centre: Array1<f64> = columns.iter().map(|column| column.median).collect();
    let influences = loop {
        match influences(laplace, &columns, &centre) {
            // The network takes whole numbers there, and not all of them.
            Err(Error::Category { column, .. }) if columns.get(column).is_some_and(|column| !column.as_observed) => {
                columns[column].only_observed(known.inputs().column(column).to_vec());
            }
            influences => break influences?,
        }
    };
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by(|a, b| influences[*b].total_cmp(&influences[*a]));
    order.truncate(options.max_inputs);
    let single = columns.len() == 1;
    let n_targets = if laplace.family().has_classes() { 1 } else { schema.targets().len().min(MOST_TARGETS) };
    let mut predicted = Vec::new();
    for input in &order {
        let grid = columns[*input].grid();
        let points = Array2::from_shape_fn(
            (grid.len(), centre.len()),
            |(row, k)| if k == *input { grid[row] } else { centre[k] },
        );
        for (index, method) in methods.iter().enumerate().filter(|(index, _)| single || *index == shown) {
            predicted.push((*input, index, grid.clone(), predict(laplace, &points, method, &())?));
        }
    }
    // A class has the same colour in every picture, so all show the same ones.
    let classes = most_probable(predicted.iter().map(|(.., prediction)| &prediction.mean));
    let mut slices = Vec::new();
    for (input, method, grid, prediction) in &predicted {
        for target in 0..n_targets {
            let observed = match (single, laplace.family().has_classes()) {
                (true, false) => observations(known, target, options.max_points),
                _ => Vec::new(),
            };
            slices.push(Slice {
                input: schema.inputs()[*input].clone(),
                method: *method,
                target: schema.targets()[target].clone(),
                range: training.map(|_| (columns[*input].low, columns[*input].high)),
                curves: curves(laplace, prediction, grid, (target, &classes), options.level)?,
                observed,
            });
        }
    }
    let total: f64 = influences.iter().sum();
    let share = |input: &usize| if total > 0.0 { influences[*input] / total } else { 0.0 };
    let influences = order.iter().map(|input| (schema.inputs()[*input].clone(), share(input))).collect();
    Ok(Pictures { slices, n_inputs: columns.len(), influences })
}

/// What an input looks like in the data.
struct Column {
    low: f64,
    high: f64,
    median: f64,
    /// The 5 % and 95 % quantiles.
    inner: (f64, f64),
    /// The distinct values, where they are few.
    levels: Option<Vec<f64>>,
    /// Whether no other values are predicted at.
    as_observed: bool,
}

impl Column {
    fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |level: f64| {
            sorted.get((level * (sorted.len().max(1) - 1) as f64).round() as usize).copied().unwrap_or(0.0)
        };
        let mut levels = sorted.clone();
        levels.dedup();
        let few = (2..=MOST_LEVELS).contains(&levels.len()) && values.len() > 2 * levels.len();
        Self {
            low: at(0.0),
            high: at(1.0),
            median: at(0.5),
            inner: (at(0.05), at(0.95)),
            levels: few.then_some(levels),
            as_observed: false,
        }
    }

    /// From here on, values between the observed ones are not predicted at.
    fn only_observed(&mut self, mut values: Vec<f64>) {
        values.sort_by(f64::total_cmp);
        values.dedup();
        self.levels = Some(evenly(values.len(), POINTS).into_iter().map(|place| values[place]).collect());
        self.as_observed = true;
    }

    /// The values at which to predict.
    fn grid(&self) -> Vec<f64> {
        if let Some(levels) = &self.levels {
            return levels.clone();
        }
        let width = if self.high > self.low { self.high - self.low } else { 1.0 };
        let (low, high) = (self.low - BEYOND * width, self.high + BEYOND * width);
        (0..POINTS).map(|index| low + (high - low) * index as f64 / (POINTS - 1) as f64).collect()
    }

    /// The values between which the influence is measured.
    fn probes(&self) -> [f64; PROBES] {
        if let (true, Some(levels)) = (self.as_observed, &self.levels) {
            let place = |index: usize| index * levels.len().saturating_sub(1) / (PROBES - 1);
            return std::array::from_fn(|index| levels.get(place(index)).copied().unwrap_or(self.median));
        }
        let (low, high) = if self.inner.0 < self.inner.1 { self.inner } else { (self.low, self.high) };
        std::array::from_fn(|index| low + (high - low) * index as f64 / (PROBES - 1) as f64)
    }
}

/// The variance of the network's mean prediction (for classes, of the probabilities) as each input moves through its
/// inner 90 %, the others at their medians; each target relative to its own greatest.
fn influences(laplace: &Laplace, columns: &[Column], centre: &Array1<f64>) -> Result<Vec<f64>> {
    let mut all: Vec<Vec<f64>> = Vec::with_capacity(columns.len());
    let at_once = (ROWS_AT_ONCE / PROBES).max(1);
    for first in (0..columns.len()).step_by(at_once) {
        let inputs = first..columns.len().min(first + at_once);
        let mut points = Array2::zeros((inputs.len() * PROBES, columns.len()));
        for (block, input) in inputs.clone().enumerate() {
            for (probe, value) in columns[input].probes().into_iter().enumerate() {
                let mut row = points.row_mut(block * PROBES + probe);
                row.assign(centre);
                row[input] = value;
            }
        }
        let mean = predict(laplace, &points, &Method::Map, &())?.mean;
        for block in 0..inputs.len() {
            let rows = mean.slice_axis(Axis(0), Slicing::from(block * PROBES..(block + 1) * PROBES));
            all.push(rows.var_axis(Axis(0), 0.0).to_vec());
        }
    }
    let outputs = all.first().map_or(0, Vec::len);
    let most: Vec<f64> = (0..outputs).map(|k| all.iter().map(|row| row[k]).fold(0.0, f64::max)).collect();
    let classes = laplace.family().has_classes();
    let unit = |k: usize| if classes || most[k] <= 0.0 { 1.0 } else { most[k] };
    Ok(all.iter().map(|row| row.iter().enumerate().map(|(k, value)| value / unit(k)).sum()).collect())
}

fn observations(data: &Dataset, target: usize, most: usize) -> Vec<(f64, f64)> {
    evenly(data.len(), most).into_iter().map(|row| (data.inputs()[(row, 0)], data.targets()[(row, target)])).collect()
}

/// The classes that become most probable in any of the pictures, in their order.
fn most_probable<'a>(pictures: impl Iterator<Item = &'a Array2<f64>>) -> Vec<usize> {
    let mut tops: Vec<(usize, f64)> = Vec::new();
    for mean in pictures {
        tops.resize(mean.ncols(), (0, 0.0));
        for (k, column) in mean.axis_iter(Axis(1)).enumerate() {
            tops[k] = (k, column.iter().copied().fold(tops[k].1, f64::max));
        }
    }
    tops.sort_by(|a, b| b.1.total_cmp(&a.1));
    tops.truncate(MOST_CLASSES);
    let mut classes: Vec<usize> = tops.into_iter().map(|(k, _)| k).collect();
    classes.sort_unstable();
    classes
}

/// The curve of a target, or of the given classes.
fn curves(
    laplace: &Laplace,
    prediction: &Prediction,
    grid: &[f64],
    (target, classes): (usize, &[usize]),
    level: f64,
) -> Result<Curves> {
    let mean = &prediction.mean;
    let curve = |k: usize| grid.iter().enumerate().map(|(row, x)| (*x, mean[(row, k)])).collect::<Vec<_>>();
    let schema = laplace.schema();
    match laplace.family().likelihood().kind() {
        TargetKind::Real | TargetKind::Positive | TargetKind::Count => {
            let (lower, upper) = prediction.interval(level)?;
            let z = crate::predict::normal_quantile(0.5 * (1.0 + level));
            let point = |(row, x): (usize, &f64)| {
                let at = (row, target);
                let half = z * prediction.epistemic_variance[at].max(0.0).sqrt();
                BandPoint {
                    x: *x,
                    mean: mean[at],
                    interval: (lower[at], upper[at]),
                    of_mean: (mean[at] - half, mean[at] + half),
                }
            };
            Ok(Curves::Band(grid.iter().enumerate().map(point).collect()))
        }
        TargetKind::Answers => {
            let name = |k: usize| {
                let target = &schema.targets()[k];
                let class = schema.classes_of(k).and_then(|names| names.get(1)).map_or("1", String::as_str);
                format!("{target} = {class}")
            };
            let shown = mean.ncols().min(MOST_CLASSES);
            Ok(Curves::Probabilities((0..shown).map(|k| (name(k), curve(k))).collect()))
        }
        TargetKind::Label => {
            let name =
                |k: usize| schema.classes().and_then(|names| names.get(k)).cloned().unwrap_or_else(|| k.to_string());
            Ok(Curves::Probabilities(classes.iter().map(|k| (name(*k), curve(*k))).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pictures_show_the_same_classes_those_that_come_out_on_top_in_any() {
        // Two more classes than curves; 3 is likely in the first picture alone and 6 in the second alone; 2 and 13 never.
        let count = MOST_CLASSES + 2;
        let likely = |class: usize| {
            Array2::from_shape_fn((1, count), |(_, k)| match k {
                k if k == class => 0.6,
                2 | 13 => 0.001,
                _ => 0.03,
            })
        };
        let shown = most_probable([&likely(3), &likely(6)].into_iter());
        assert_eq!(shown, (0..count).filter(|k| ![2, 13].contains(k)).collect::<Vec<_>>());
    }

    #[test]
    fn curves_go_beyond_the_data_and_stop_at_the_levels_of_a_discrete_input() {
        let smooth: Vec<f64> = (0..101).map(|i| f64::from(i) / 10.0).collect();
        let column = Column::of(&smooth);
        assert_eq!((column.low, column.high, column.median), (0.0, 10.0, 5.0));
        assert_eq!(column.inner, (0.5, 9.5));
        let grid = column.grid();
        assert_eq!((grid[0], grid[POINTS - 1], grid.len()), (-2.0, 12.0, POINTS));
        let binary = Column::of(&[1.0, 0.0, 0.0, 1.0, 1.0]);
        assert_eq!(binary.grid(), [0.0, 1.0]);
        // A constant has a grid around it, and no influence.
        let constant = Column::of(&[3.0; 9]);
        assert!(constant.grid()[0] < 3.0 && constant.probes().iter().all(|x| *x == 3.0));
    }
}

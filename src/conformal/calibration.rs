//! The scores of calibration rows, per way to predict, and the thresholds that follow from them.

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::{CalibrationError, Ranked, Score, needed_rows};
use crate::error::{Error, Result, check_size};

/// Scores of calibration rows, for each way to predict that was calibrated.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The level that predictions have unless another is asked for.
    pub level: f64,
    /// The groups in each of which coverage is to hold.
    pub groups: Option<Groups>,
    /// The column of weights of a covariate shift, and the weight of each row.
    pub weights: Option<(String, Vec<f64>)>,
    /// The fingerprints of the rows.
    pub rows: Vec<f64>,
    /// The scores of each way to predict.
    pub methods: Vec<Calibrated>,
}

/// Groups of rows, by the values of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// The column.
    pub column: String,
    /// Its values, in order.
    pub names: Vec<String>,
    /// The position among `names` of the value of each row.
    pub of_row: Vec<usize>,
}

impl Groups {
    /// Groups by the values of a column.
    pub fn new(column: String, values: &[String]) -> Self {
        let mut names = values.to_vec();
        names.sort_unstable();
        names.dedup();
        let of_row = values.iter().map(|value| names.partition_point(|name| name < value)).collect();
        Self { column, names, of_row }
    }
}

/// The scores of one way to predict.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// The method with its settings; only the same predicts with the guarantee.
    pub method: String,
    /// What the scores are.
    pub score: Score,
    /// One row per calibration row, one column per target.
    pub scores: Array2<f64>,
}

/// What thresholds depend on besides the prediction, for each of some rows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Conditions {
    /// The value of the column of groups.
    pub groups: Option<Vec<String>>,
    /// The weight under a covariate shift.
    pub weights: Option<Vec<f64>>,
}

impl Conditions {
    /// Those of a range of the rows.
    pub fn part(&self, rows: std::ops::Range<usize>) -> Self {
        let groups = self.groups.as_ref().map(|all| all.get(rows.clone()).unwrap_or_default().to_vec());
        Self { groups, weights: self.weights.as_ref().map(|all| all.get(rows).unwrap_or_default().to_vec()) }
    }

    /// Those of some rows.
    pub fn select(&self, rows: &[usize]) -> Self {
        let groups =
            self.groups.as_ref().map(|all| rows.iter().filter_map(|row| all.get(*row)).cloned().collect::<Vec<_>>());
        let weights =
            self.weights.as_ref().map(|all| rows.iter().filter_map(|row| all.get(*row)).copied().collect::<Vec<_>>());
        Self { groups, weights }
    }
}

impl Calibration {
    /// n, the number of calibration rows.
    pub fn n_rows(&self) -> usize {
        self.rows.len()
    }

    /// Checks that the rows, in each group, are enough for the level.
    pub fn check_level(&self, level: f64) -> Result<()> {
        let needed = needed_rows(level);
        let check = |group: Option<&String>, found: usize| match found < needed {
            true => Err(CalibrationError::TooFew { group: group.cloned(), level, found, needed }),
            false => Ok(()),
        };
        let Some(groups) = &self.groups else { return Ok(check(None, self.n_rows())?) };
        for (index, name) in groups.names.iter().enumerate() {
            check(Some(name), groups.of_row.iter().filter(|group| **group == index).count())?;
        }
        Ok(())
    }

    /// The scores of a way to predict, if it was calibrated.
    pub fn of(&self, method: &str, scores: &[Score]) -> Option<&Calibrated> {
        self.methods.iter().find(|one| one.method == method && scores.contains(&one.score))
    }

    /// The ways to predict that were calibrated, in words.
    pub fn methods_in_words(&self) -> String {
        let mut names: Vec<&str> = self.methods.iter().map(|one| one.method.as_str()).collect();
        names.dedup();
        names.join("; ")
    }

    /// The threshold of each row and target.
    pub fn thresholds(&self, calibrated: &Calibrated, level: f64, rows: usize, at: &Conditions) -> Result<Array2<f64>> {
        Thresholds::of(self, calibrated).at(level, rows, at)
    }

    fn weights(&self) -> Option<&[f64]> {
        self.weights.as_ref().map(|(_, weights)| weights.as_slice())
    }
}

/// The ordered scores of one way to predict, by group and target.
#[derive(Debug)]
pub struct Thresholds<'a> {
    of: &'a Calibration,
    /// For each group, for each target.
    ranked: Vec<Vec<Ranked>>,
}

impl<'a> Thresholds<'a> {
    /// Orders the scores.
    pub fn of(calibration: &'a Calibration, calibrated: &Calibrated) -> Self {
        let n_groups = calibration.groups.as_ref().map_or(1, |groups| groups.names.len());
        let of_group = |group: usize| {
            let belongs =
                |row: &usize| calibration.groups.as_ref().is_none_or(|all| all.of_row.get(*row) == Some(&group));
            let rows: Vec<usize> = (0..calibrated.scores.nrows()).filter(belongs).collect();
            let pick =
                |values: &[f64]| -> Vec<f64> { rows.iter().filter_map(|row| values.get(*row)).copied().collect() };
            let weights = calibration.weights().map(pick);
            let column =
                |scores: ndarray::ArrayView1<'_, f64>| Ranked::new(&pick(&scores.to_vec()), weights.as_deref());
            calibrated.scores.columns().into_iter().map(column).collect()
        };
        Self { of: calibration, ranked: (0..n_groups).map(of_group).collect() }
    }

    /// The threshold of each of some rows, for each target. It is infinite where the weight of a row is too great for the
    /// calibration rows.
    pub fn at(&self, level: f64, rows: usize, at: &Conditions) -> Result<Array2<f64>> {
        self.of.check_level(level)?;
        let groups = self.groups_of(rows, at)?;
        let weights = match (&self.of.weights, &at.weights) {
            (None, _) => None,
            (Some((column, _)), None) => {
                return Err(Error::Calibration(CalibrationError::NoWeights { column: column.clone() }));
            }
            (Some(_), Some(weights)) => {
                check_size("number of weights", rows, weights.len())?;
                check_weights(weights)?;
                Some(weights)
            }
        };
        let n_targets = self.ranked.first().map_or(0, Vec::len);
        // Without weights a group has one threshold per target.
        let threshold = |ranked: &Vec<Ranked>, new: f64| -> Vec<f64> {
            ranked.iter().map(|scores| scores.threshold(level, new)).collect()
        };
        let shared: Vec<Vec<f64>> = self.ranked.iter().map(|ranked| threshold(ranked, 1.0)).collect();
        let mut thresholds = Array2::from_elem((rows, n_targets), f64::INFINITY);
        for (row, (mut slots, group)) in thresholds.rows_mut().into_iter().zip(groups).enumerate() {
            let new = weights.and_then(|weights| weights.get(row));
            let own = new.and_then(|new| self.ranked.get(group).map(|ranked| threshold(ranked, *new)));
            let values = own.as_ref().or(shared.get(group)).into_iter().flatten();
            slots.iter_mut().zip(values).for_each(|(slot, value)| *slot = *value);
        }
        Ok(thresholds)
    }

    /// The group of each row.
    fn groups_of(&self, rows: usize, at: &Conditions) -> Result<Vec<usize>> {
        let Some(known) = &self.of.groups else { return Ok(vec![0; rows]) };
        let Some(groups) = &at.groups else {
            return Err(Error::Calibration(CalibrationError::NoGroups { column: known.column.clone() }));
        };
        check_size("number of groups", rows, groups.len())?;
        let find = |(row, group): (usize, &String)| {
            known.names.binary_search(group).map_err(|_| {
                Error::Calibration(CalibrationError::UnknownGroup {
                    row,
                    column: known.column.clone(),
                    group: group.clone(),
                    known: known.names.join(", "),
                })
            })
        };
        groups.iter().enumerate().map(find).collect()
    }
}

/// Checks that every weight is positive.
pub(crate) fn check_weights(weights: &[f64]) -> Result<()> {
    match weights.iter().enumerate().find(|(_, weight)| !(**weight > 0.0 && weight.is_finite())) {
        Some((row, value)) => Err(Error::Calibration(CalibrationError::Weight { row, value: *value })),
        None => Ok(()),
    }
}

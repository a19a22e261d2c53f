//! The calibration of a posterior: kept with it, written with it, and gone when it changes.

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::path::Path;
use std::sync::Arc;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::fit::Laplace;
use super::record::{from_json, metadata_error, to_json};
use super::structure::SavedTensor;
use crate::conformal::{Calibrated, Calibration, Groups, Score};
use crate::error::Result;
use crate::tensors::TensorFile;

/// The metadata entry that says what was calibrated.
pub(super) const KEY: &str = "calibration";
/// The tensors: fingerprints of the rows, their groups (positions), their weights, and `calibration.scores.I` of method I.
const ROWS: &str = "calibration.rows";
const GROUP: &str = "calibration.group";
const WEIGHTS: &str = "calibration.weights";

/// The metadata entry.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    level: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    groups: Option<(String, Vec<String>)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weights: Option<String>,
    methods: Vec<(String, Score)>,
}

impl Laplace {
    /// The scores of calibration rows, if the posterior was calibrated.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_deref()
    }

    /// Keeps the scores of calibration rows.
    pub fn set_calibration(&mut self, calibration: Option<Calibration>) {
        self.calibration = calibration.map(Arc::new);
    }
}

fn scores_name(index: usize) -> String {
    format!("calibration.scores.{index}")
}

/// The metadata entry and the tensors.
pub(super) fn save(path: &Path, calibration: &Calibration) -> Result<(String, Vec<SavedTensor>)> {
    let record = Record {
        level: calibration.level,
        groups: calibration.groups.as_ref().map(|groups| (groups.column.clone(), groups.names.clone())),
        weights: calibration.weights.as_ref().map(|(column, _)| column.clone()),
        methods: calibration.methods.iter().map(|one| (one.method.clone(), one.score)).collect(),
    };
    let list = |name: &str, values: Vec<f64>| SavedTensor { name: name.to_string(), shape: vec![values.len()], values };
    let mut tensors = vec![list(ROWS, calibration.rows.clone())];
    if let Some(groups) = &calibration.groups {
        tensors.push(list(GROUP, groups.of_row.iter().map(|group| *group as f64).collect()));
    }
    if let Some((_, weights)) = &calibration.weights {
        tensors.push(list(WEIGHTS, weights.clone()));
    }
    for (index, method) in calibration.methods.iter().enumerate() {
        let (rows, targets) = method.scores.dim();
        let values = method.scores.iter().copied().collect();
        tensors.push(SavedTensor { name: scores_name(index), shape: vec![rows, targets], values });
    }
    Ok((to_json(path, KEY, &record)?, tensors))
}

/// Reads the calibration, if there is one.
pub(super) fn load(path: &Path, file: &mut TensorFile, n_targets: usize) -> Result<Option<Calibration>> {
    if !file.metadata.contains_key(KEY) {
        return Ok(None);
    }
    let record: Record = from_json(path, file, KEY)?;
    let wrong = |problem: &str| metadata_error(path, KEY, format!("{problem}; the file was altered, calibrate again"));
    if !(record.level > 0.0 && record.level < 1.0) {
        return Err(wrong("has a level that is not between 0 and 1"));
    }
    let rows = file.take(path, ROWS)?.values;
    let mut take = |name: &str, columns: usize| {
        let values = file.take(path, name)?.values;
        if values.len() != rows.len() * columns || values.iter().any(|value| value.is_nan()) {
            return Err(wrong(&format!("does not go with the tensor `{name}`")));
        }
        Ok(values)
    };
    let groups = match record.groups {
        None => None,
        Some((column, names)) => {
            let of_row: Vec<usize> = take(GROUP, 1)?.into_iter().map(|group| group as usize).collect();
            if of_row.iter().any(|group| *group >= names.len()) || !names.is_sorted() {
                return Err(wrong("names groups that are not those of its rows"));
            }
            Some(Groups { column, names, of_row })
        }
    };
    let weights = record.weights.map(|column| Ok::<_, crate::Error>((column, take(WEIGHTS, 1)?))).transpose()?;
    if let Some((_, weights)) = &weights {
        crate::conformal::check_weights(weights)?;
    }
    let mut methods = Vec::new();
    for (index, (method, score)) in record.methods.into_iter().enumerate() {
        let values = take(&scores_name(index), n_targets)?;
        let scores = Array2::from_shape_vec((rows.len(), n_targets), values).map_err(|_| wrong("has no scores"))?;
        methods.push(Calibrated { method, score, scores });
    }
    Ok(Some(Calibration { level: record.level, groups, weights, rows, methods }))
}

//! Samples in a safetensors file: end points and certificates, with their metric, seed and range.
//!
//! | tensor | | |
//! |---|---|---|
//! | `theta`, `velocity` | \[S, D\] | θ and θ̇ at the end |
//! | `nfev` | \[S\] | evaluations of the acceleration |
//! | `drift` | \[S\] | the relative change of vᵀGv |
//! | `path_drift` | \[S\] | its largest at accepted states on the way |
//! | `off_graph` | \[S\] | the distance from the graph of the outputs, in units of the whitened outputs, where it is defined |
//! | `status` | \[S\] | the code of the [`Outcome`] |
//! | `indices` | \[D\] | of a posterior over some parameters: their places in the whole model's θ |
//! | `log_weight`, `conjugate` | \[S\] | where asked for: logarithms of importance weights, conjugate points on the way |
//! | `certified` | \[S\] | 1 where the end was reached with everything within its bound, otherwise 0 |
//!
//! The metadata are `range` (`a..b`), and `posterior` (its fingerprint), `metric`, `seed` and `smoothing` (the width over which the metric rounds kinks)
//! where there are any.

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use ndarray::Array2;

use super::density::SampleDensities;
use super::samples::{Outcome, Samples};
use crate::error::{Error, Result, TensorError};
use crate::tensors::{self, TensorFile, Values};

/// Writes samples, failed ones included.
pub fn write_samples(path: &Path, samples: &Samples) -> Result<()> {
    let (count, size) = samples.theta.dim();
    // Without a copy: an array in another order is written row by row as well.
    let (theta, velocity) = (rows(&samples.theta), rows(&samples.velocity));
    let (theta, velocity) = (slices(&theta), slices(&velocity));
    let evaluations: Vec<i64> = samples.evaluations.iter().map(|&value| value as i64).collect();
    let status: Vec<i64> = samples.outcome.iter().map(|outcome| outcome.code()).collect();
    let certified: Vec<i64> = samples.certified.iter().map(|&value| i64::from(value)).collect();
    let mut entries = vec![
        ("theta", vec![count, size], Values::Rows(&theta)),
        ("velocity", vec![count, size], Values::Rows(&velocity)),
        ("nfev", vec![count], Values::Integer(&evaluations)),
        ("drift", vec![count], Values::Real(&samples.drift)),
        ("path_drift", vec![count], Values::Real(&samples.path_drift)),
        ("status", vec![count], Values::Integer(&status)),
        ("certified", vec![count], Values::Integer(&certified)),
    ];
    if let Some(off_graph) = &samples.off_graph {
        entries.push(("off_graph", vec![count], Values::Real(off_graph)));
    }
    let indices: Vec<i64>;
    if let Some(places) = &samples.indices {
        indices = places.iter().map(|&index| index as i64).collect();
        entries.push(("indices", vec![indices.len()], Values::Integer(&indices)));
    }
    let conjugate: Vec<i64>;
    if let Some(density) = &samples.density {
        conjugate = density.conjugate.iter().map(|&count| count as i64).collect();
        entries.push(("log_weight", vec![count], Values::Real(&density.log_weight)));
        entries.push(("conjugate", vec![count], Values::Integer(&conjugate)));
    }
    let Range { start, end } = samples.range;
    let metadata = [
        ("range", Some(format!("{start}..{end}"))),
        ("posterior", samples.posterior.clone()),
        ("metric", samples.metric.map(|metric| metric.to_string())),
        ("seed", samples.seed.map(|seed| seed.to_string())),
        ("smoothing", samples.smoothing.map(|width| width.to_string())),
    ];
    let metadata = metadata.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?)));
    tensors::write(path, &entries, metadata.collect())
}

/// The rows of a matrix; copied only where they are not contiguous.
fn rows(matrix: &Array2<f64>) -> Vec<Cow<'_, [f64]>> {
    let row = |row: usize| match matrix.row(row).to_slice() {
        Some(values) => Cow::Borrowed(values),
        None => Cow::Owned(matrix.row(row).to_vec()),
    };
    (0..matrix.nrows()).map(row).collect()
}

fn slices<'a>(rows: &'a [Cow<'_, [f64]>]) -> Vec<&'a [f64]> {
    rows.iter().map(|row| &**row).collect()
}

/// Reads samples that [`write_samples`] wrote, and checks them: shapes agree, codes are known, and samples that reached
/// the end are finite. Reports of a solver or a sub-sampled metric are not in the file.
pub fn read_samples(path: &Path) -> Result<Samples> {
    let mut file = Reader { path, contents: TensorFile::read_numbers(path)? };
    let theta = file.take_matrix("theta")?;
    let velocity = file.take_matrix("velocity")?;
    let (count, size) = theta.dim();
    if velocity.dim() != (count, size) {
        let found = vec![velocity.nrows(), velocity.ncols()];
        return Err(file.shape("velocity", found, format!("expected that of `theta`, [{count}, {size}]")));
    }
    let evaluations = file.take_codes("nfev", count, "a whole number, at least 0", |value| {
        (value >= 0.0 && value.fract() == 0.0).then_some(value as usize)
    })?;
    let drift = file.take_row("drift", count)?;
    // Files of earlier versions do not have it.
    let looked = file.contents.tensors.contains_key("path_drift");
    let path_drift = if looked { file.take_row("path_drift", count)? } else { vec![f64::NAN; count] };
    let has_distance = file.contents.tensors.contains_key("off_graph");
    let off_graph = if has_distance { Some(file.take_row("off_graph", count)?) } else { None };
    let indices = if file.contents.tensors.contains_key("indices") {
        let whole = |value: f64| (value >= 0.0 && value.fract() == 0.0).then_some(value as usize);
        Some(file.take_codes("indices", size, "a whole number, at least 0", whole)?)
    } else {
        None
    };
    let outcome = file.take_codes("status", count, "0, 1, 2 or 3", |value| {
        Outcome::ALL.into_iter().find(|outcome| outcome.code() as f64 == value)
    })?;
    let certified = file.take_codes("certified", count, "0 or 1", |value| match value {
        0.0 => Some(false),
        1.0 => Some(true),
        _ => None,
    })?;
    // Without a look at the paths, `path_drift` holds anything.
    let drifts = drift.iter().zip(&path_drift).map(|(end, path)| end.is_nan() || looked && path.is_nan());
    for (row, ((outcome, certified), unknown)) in outcome.iter().zip(&certified).zip(drifts).enumerate() {
        if *outcome == Outcome::Reached {
            for (tensor, matrix) in [("theta", &theta), ("velocity", &velocity)] {
                if let Some((column, &value)) = matrix.row(row).iter().enumerate().find(|(_, value)| !value.is_finite())
                {
                    let (path, index) = (path.to_path_buf(), row * size + column);
                    return Err(Error::Tensor(TensorError::NotFinite {
                        path,
                        tensor: tensor.to_string(),
                        index,
                        value,
                    }));
                }
            }
        }
        if *certified && (*outcome != Outcome::Reached || unknown) {
            let requirement = "0 where the end was not reached, or the drift is not a number";
            return Err(file.value("certified", row, 1.0, requirement));
        }
    }
    let posterior = file.optional("posterior", |text| Some(text.to_string()))?;
    let density = if file.contents.tensors.contains_key("log_weight") {
        let whole = |value: f64| (value >= 0.0 && value.fract() == 0.0).then_some(value as usize);
        let log_weight = file.take_row("log_weight", count)?;
        let conjugate = file.take_codes("conjugate", count, "a whole number, at least 0", whole)?;
        Some(SampleDensities { log_weight, conjugate })
    } else {
        None
    };
    let metric = file.optional("metric", |text| text.parse().ok())?;
    let seed = file.optional("seed", |text| text.parse().ok())?;
    let smoothing = file.optional("smoothing", |text| text.parse().ok().filter(|width: &f64| *width > 0.0))?;
    let range = file.contents.required(path, "range")?;
    let range = parse_range(range).filter(|range| range.len() == count).ok_or_else(|| Error::Metadata {
        path: path.to_path_buf(),
        key: "range",
        problem: format!("is `{range}`; expected `a..b` for {count} samples"),
    })?;
    Ok(Samples {
        metric,
        posterior,
        seed,
        range,
        theta,
        velocity,
        evaluations,
        drift,
        path_drift,
        off_graph,
        outcome,
        certified,
        smoothing,
        residuals: None,
        indices,
        solver_name: None,
        solver: None,
        batch: None,
        density,
    })
}

/// A file's contents, and the path for messages.
struct Reader<'a> {
    path: &'a Path,
    contents: TensorFile,
}

impl Reader<'_> {
    fn shape(&self, tensor: &str, found: Vec<usize>, expected: String) -> Error {
        Error::Tensor(TensorError::Shape {
            path: self.path.to_path_buf(),
            tensor: tensor.to_string(),
            found,
            expected: expected.into(),
        })
    }

    fn value(&self, tensor: &str, index: usize, value: f64, requirement: &'static str) -> Error {
        Error::Tensor(TensorError::Value {
            path: self.path.to_path_buf(),
            tensor: tensor.to_string(),
            index,
            value,
            requirement,
        })
    }

    fn take_matrix(&mut self, name: &str) -> Result<Array2<f64>> {
        let tensor = self.contents.take(self.path, name)?;
        let &[rows, columns] = tensor.shape.as_slice() else {
            return Err(self.shape(name, tensor.shape, "expected [S, D], one row per sample".to_string()));
        };
        Array2::from_shape_vec((rows, columns), tensor.values)
            .map_err(|error| self.shape(name, vec![rows, columns], error.to_string()))
    }

    fn take_row(&mut self, name: &str, count: usize) -> Result<Vec<f64>> {
        let tensor = self.contents.take(self.path, name)?;
        if tensor.shape != [count] {
            return Err(self.shape(name, tensor.shape, format!("expected [{count}], one number per sample")));
        }
        Ok(tensor.values)
    }

    /// Numbers that are codes or counts.
    fn take_codes<T>(
        &mut self,
        name: &str,
        count: usize,
        requirement: &'static str,
        meaning: impl Fn(f64) -> Option<T>,
    ) -> Result<Vec<T>> {
        let values = self.take_row(name, count)?.into_iter().enumerate();
        values.map(|(index, value)| meaning(value).ok_or_else(|| self.value(name, index, value, requirement))).collect()
    }

    /// A metadata entry that may be absent.
    fn optional<T>(&self, key: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
        let Some(text) = self.contents.metadata.get(key) else { return Ok(None) };
        let problem = || format!("is `{text}`, which is unknown");
        let invalid = || Error::Metadata { path: self.path.to_path_buf(), key, problem: problem() };
        parse(text).map(Some).ok_or_else(invalid)
    }
}

/// Parses `a..b` with a ≤ b.
fn parse_range(text: &str) -> Option<Range<usize>> {
    let (start, end) = text.split_once("..")?;
    let (start, end) = (start.parse().ok()?, end.parse().ok()?);
    (start <= end).then_some(start..end)
}

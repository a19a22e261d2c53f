//! Samples in a safetensors file: end points and certificates, with their metric, seed and range.
//!
//! | tensor | | |
//! |---|---|---|
//! | `theta`, `velocity` | \[S, D\] | θ and θ̇ at the end |
//! | `nfev`, `attempts` | \[S\] | evaluations of the acceleration, and the integrations that they are of |
//! | `nfev_check` | \[S\] | evaluations for the error of the end alone |
//! | `drift` | \[S\] | the relative change of vᵀGv |
//! | `path_drift` | \[S\] | its largest at accepted states on the way |
//! | `off_graph` | \[S\] | the distance from the graph of the outputs, in units of the whitened outputs, where it is defined |
//! | `residual` | \[S\] | the largest relative residual of an iterative solver; 0 for an exact one |
//! | `end_error` | \[S\] | the error of the end, the largest at a data point in σ; infinite where it was not estimated |
//! | `status` | \[S\] | the code of the [`Outcome`] |
//! | `indices` | \[D\] | of a posterior over some parameters: their places in the whole model's θ |
//! | `log_weight`, `conjugate` | \[S\] | where asked for: logarithms of importance weights, conjugate points on the way |
//! | `certificate` | \[S\] | 2 path, 1 law, 0 neither |
//! | `certified` | \[S\] | 1 where there is a certificate, otherwise 0 |
//!
//! The metadata are `range` (`a..b`), and `posterior` (its fingerprint), `metric`, `seed`, `smoothing` (the width over which the metric rounds kinks)
//! and `solver` where there are any.

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use ndarray::Array2;

use super::columns::{Reader, Stored};
use super::samples::Samples;
use crate::error::{Error, JoinError, Result};
use crate::metric::SolverName;
use crate::tensors::{self, TensorFile, Values};

/// Writes samples, failed ones included.
pub fn write_samples(path: &Path, samples: &Samples) -> Result<()> {
    let (count, size) = samples.theta.dim();
    // Without a copy: an array in another order is written row by row as well.
    let (theta, velocity) = (rows(&samples.theta), rows(&samples.velocity));
    let (theta, velocity) = (slices(&theta), slices(&velocity));
    let mut entries = vec![
        ("theta", vec![count, size], Values::Rows(&theta)),
        ("velocity", vec![count, size], Values::Rows(&velocity)),
    ];
    let columns = samples.stored_columns();
    entries.extend(columns.iter().map(Stored::entry));
    let indices: Option<Vec<i64>> =
        samples.indices.as_ref().map(|places| places.iter().map(|&index| index as i64).collect());
    entries.extend(indices.iter().map(|indices| ("indices", vec![size], Values::Integer(indices))));
    tensors::write(path, &entries, samples.metadata())
}

impl Samples {
    /// What is said about all samples together.
    pub(super) fn metadata(&self) -> BTreeMap<String, String> {
        let Range { start, end } = self.range;
        let metadata = [
            ("range", Some(format!("{start}..{end}"))),
            ("posterior", self.posterior.clone()),
            ("metric", self.metric.map(|metric| metric.to_string())),
            ("seed", self.seed.map(|seed| seed.to_string())),
            ("smoothing", self.smoothing.map(|width| width.to_string())),
            ("solver", self.solver_name.map(|name| name.to_string())),
        ];
        metadata.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))).collect()
    }

    /// Takes it from metadata; an error says which key is wrong, and how.
    pub(super) fn take_metadata(
        &mut self,
        metadata: &BTreeMap<String, String>,
    ) -> std::result::Result<(), (&'static str, String)> {
        fn optional<T>(
            metadata: &BTreeMap<String, String>,
            key: &'static str,
            parse: impl Fn(&str) -> Option<T>,
        ) -> std::result::Result<Option<T>, (&'static str, String)> {
            let parsed = |text: &String| parse(text).ok_or_else(|| (key, format!("is `{text}`, which is unknown")));
            metadata.get(key).map(parsed).transpose()
        }
        let solver = |text: &str| SolverName::ALL.into_iter().find(|solver| solver.name() == text);
        self.posterior = metadata.get("posterior").cloned();
        self.metric = optional(metadata, "metric", |text| text.parse().ok())?;
        self.seed = optional(metadata, "seed", |text| text.parse().ok())?;
        self.smoothing = optional(metadata, "smoothing", |text| text.parse().ok().filter(|width: &f64| *width > 0.0))?;
        self.solver_name = optional(metadata, "solver", solver)?;
        let count = self.len();
        let range = metadata.get("range").map_or("", String::as_str);
        self.range = parse_range(range)
            .filter(|range| range.len() == count)
            .ok_or_else(|| ("range", format!("is `{range}`; expected `a..b` for {count} samples")))?;
        Ok(())
    }
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
    let ([count, size], theta) = file.take_matrix("theta")?;
    let (found, velocity) = file.take_matrix("velocity")?;
    if found != [count, size] {
        return Err(file.shape("velocity", found.to_vec(), format!("expected that of `theta`, [{count}, {size}]")));
    }
    let mut samples = Samples::collect_columns(&[]);
    file.take_columns(&mut samples, count)?;
    if file.contents.tensors.contains_key("indices") {
        samples.indices = Some(file.take_counts("indices", size)?);
    }
    for (tensor, values) in [("theta", &theta), ("velocity", &velocity)] {
        file.check_reached(tensor, values, size, &samples.outcome)?;
    }
    file.contents.required(path, "range")?;
    let invalid = |(key, problem)| Error::Metadata { path: path.to_path_buf(), key, problem };
    samples.take_metadata(&file.contents.metadata).map_err(invalid)?;
    let matrix = |values| Array2::from_shape_vec((count, size), values).map_err(|_| Error::from(JoinError::Ragged));
    (samples.theta, samples.velocity) = (matrix(theta)?, matrix(velocity)?);
    Ok(samples)
}

/// Parses `a..b` with a ≤ b.
fn parse_range(text: &str) -> Option<Range<usize>> {
    let (start, end) = text.split_once("..")?;
    let (start, end) = (start.parse().ok()?, end.parse().ok()?);
    (start <= end).then_some(start..end)
}

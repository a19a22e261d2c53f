//! Parts of a fit that separate jobs make, each over its own row blocks, and the posterior that they join to.
//!
//! A part keeps the sums of each of its blocks apart, because the order of a floating-point sum counts: the joined
//! posterior is that of a single fit to the last bit.

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ndarray::{ArrayView2, Axis, concatenate};

use super::accumulate::{Fit, accumulate_block};
use super::file::{Part, prefixed};
use super::fit::{Laplace, check_names, prepare};
use super::options::FitOptions;
use super::problem::Problem;
use super::record::{Described, Description, INDICES, check_fingerprint, metadata_error, read_data};
use super::share::BlockSums;
use super::structure::{Curvature, SavedTensor, Structure};
use crate::data::{Batches, Dataset, Schema, row_blocks};
use crate::error::{Error, PosteriorError, Result, TeamError, check_size};
use crate::likelihood::Family;
use crate::map::Model;
use crate::prior::Prior;
use crate::team::{Parts, Shard};
use crate::tensors::{self, TensorFile, Values};

/// The `format` entry of the metadata.
pub(super) const FORMAT: &str = "riemannian-laplace part of a fit";
/// The version written and read.
const VERSION: u32 = 1;
/// The metadata entry that says which part it is.
const SHARD: &str = "shard";
/// The prefix of the entries that a part carries for its owner.
const NOTE: &str = "note.";

/// The sums over a part of the data, from which, with all others, a posterior is made.
///
/// ```
/// use ndarray::Array2;
/// use std::sync::Arc;
/// use riemannian_laplace::internals::laplace::FitPart;
/// use riemannian_laplace::internals::team::Shard;
/// use riemannian_laplace::{Activation, Architecture, Dataset, Family, FitOptions, Laplace, Network};
///
/// let network = Arc::new(Network::random(Architecture::new(&[1, 3, 1], Activation::Tanh)?, 1));
/// let x = Array2::from_shape_fn((200, 1), |(row, _)| row as f64 / 100.0 - 1.0);
/// let data = Dataset::new(x.clone(), x.mapv(f64::sin))?;
/// let (family, options) = (Family::gaussian(0.1)?, FitOptions::default());
/// let part = |index| FitPart::fit(network.clone(), &data, family.clone(), &options, Shard::new(index, 2).unwrap());
/// let joined = FitPart::join(vec![part(1)?, part(0)?])?;
/// let whole = Laplace::fit_batches(network.clone(), &data, family.clone(), &options)?;
/// assert_eq!(joined.log_marginal_likelihood(), whole.log_marginal_likelihood());
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug)]
pub struct FitPart {
    problem: Problem,
    schema: Schema,
    prior: Prior,
    structure: Structure,
    shard: Shard,
    /// The sums of the row blocks, with their numbers.
    blocks: Vec<(usize, Box<dyn Curvature>, Fit)>,
    data: Option<Dataset>,
    notes: BTreeMap<String, String>,
}

impl FitPart {
    /// Sums over a part of the data. The arguments, and the data as a whole, must be the same for all parts.
    pub fn fit(
        model: Arc<dyn Model>,
        data: &dyn Batches,
        family: Family,
        options: &FitOptions,
        shard: Shard,
    ) -> Result<Self> {
        let (problem, prior, structure) = prepare(model, data, family, options)?;
        if !structure.is_sum() {
            let what = "the function-space solver";
            let advice = "it is for few data: fit them in one process, or choose the weight-space solver";
            return Err(TeamError::NotShared { what, advice }.into());
        }
        let all = row_blocks(data.n_rows());
        let mut blocks = Vec::new();
        for (number, block) in all.iter().enumerate().skip(shard.of(all.len()).start).take(shard.of(all.len()).len()) {
            let (curvature, fit) = accumulate_block(&problem, structure.begin(&problem)?, data, block.clone())?;
            blocks.push((number, curvature, fit));
        }
        let schema = data.schema().clone();
        check_names(&problem, &schema)?;
        Ok(Self { problem, schema, prior, structure, shard, blocks, data: None, notes: BTreeMap::new() })
    }

    /// The rows of the data that this part is about.
    pub fn rows(&self) -> std::ops::Range<usize> {
        rows_of(self.shard, self.problem.n_data)
    }

    /// Which part it is.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Keeps the part's rows, so that the posterior keeps all data.
    pub fn keep_data(&mut self, data: &dyn Batches) -> Result<()> {
        let rows = self.rows();
        if rows.is_empty() {
            return Ok(());
        }
        for batch in data.batches(rows.clone(), rows.len())? {
            let batch = batch?;
            let part = Dataset::new(batch.inputs.to_owned(), batch.targets.to_owned())?;
            self.data = Some(part.with_schema(self.schema.clone())?);
        }
        Ok(())
    }

    /// Words for whoever joins the parts, which must be the same in all of them.
    pub fn notes(&self) -> &BTreeMap<String, String> {
        &self.notes
    }

    /// Writes down a word for whoever joins the parts.
    pub fn note(&mut self, key: &str, value: String) {
        self.notes.insert(key.to_string(), value);
    }

    /// Writes the part; the file appears whole or not at all.
    pub fn save(&self, path: &Path) -> Result<()> {
        let description = Description::new(path, &self.problem, &self.schema, &self.prior, self.structure)?;
        let mut metadata = description.metadata(FORMAT, VERSION);
        metadata.insert(SHARD.to_string(), self.shard.to_string());
        metadata.extend(self.notes.iter().map(|(key, value)| (format!("{NOTE}{key}"), value.clone())));
        let mut saved: Vec<SavedTensor> = Vec::new();
        for (number, curvature, fit) in &self.blocks {
            let sums = curvature.save().ok_or(Error::Posterior(PosteriorError::OtherStructure))?;
            saved.extend(prefixed(&prefix(*number), sums));
            let values = fit.numbers();
            saved.push(SavedTensor { name: fit_name(*number), shape: vec![values.len()], values });
        }
        if let Some(data) = &self.data {
            for (name, array) in [("inputs", data.inputs()), ("targets", data.targets())] {
                let values = array.iter().copied().collect();
                saved.push(SavedTensor { name: name.to_string(), shape: array.shape().to_vec(), values });
            }
        }
        let mut entries = description.entries();
        for tensor in &saved {
            entries.push((tensor.name.as_str(), tensor.shape.clone(), Values::Real(&tensor.values)));
        }
        metadata.insert("fingerprint".to_string(), tensors::fingerprint(&entries, &metadata));
        tensors::write(path, &entries, metadata)
    }

    /// Whether a file holds a part of a fit.
    pub fn is_in(path: &Path) -> Result<bool> {
        let file = TensorFile::read_where(path, |_| false)?;
        Ok(file.metadata.get("format").is_some_and(|format| format == FORMAT))
    }

    /// Reads a part.
    pub fn load(path: &Path) -> Result<Self> {
        let mut file = TensorFile::read_with_integers(path, INDICES)?;
        if file.metadata.get("format").map(String::as_str) != Some(FORMAT) {
            return Err(metadata_error(path, "format", format!("is not `{FORMAT}`")));
        }
        if file.required(path, "version")?.parse() != Ok(VERSION) {
            return Err(metadata_error(path, "version", format!("is not {VERSION}, which this release reads")));
        }
        check_fingerprint(path, &file)?;
        let Described { problem, schema, prior, structure } = Described::read(path, &mut file)?;
        let shard: Shard =
            file.required(path, SHARD)?.parse().map_err(|problem: String| metadata_error(path, SHARD, problem))?;
        let count = row_blocks(problem.n_data).len();
        let mut blocks = Vec::new();
        for number in shard.of(count) {
            let values = file.take(path, &fit_name(number))?.values;
            let none = Fit::none(&problem.family, problem.model.n_outputs());
            let fit = none.with_numbers(values).ok_or_else(|| {
                metadata_error(path, SHARD, format!("does not go with the goodness of fit of block {number}"))
            })?;
            let mut sums = Part { path, prefix: &prefix(number), file: &mut file };
            blocks.push((number, structure.load_sums(&problem, &mut sums)?, fit));
        }
        let data = match file.tensors.contains_key("inputs") {
            true => Some(read_data(path, &mut file, &problem, &schema, rows_of(shard, problem.n_data).len())?),
            false => None,
        };
        let note = |(key, value): (&String, &String)| Some((key.strip_prefix(NOTE)?.to_string(), value.clone()));
        let notes = file.metadata.iter().filter_map(note).collect();
        Ok(Self { problem, schema, prior, structure, shard, blocks, data, notes })
    }

    /// The posterior of all data, from all parts in any order.
    pub fn join(mut parts: Vec<Self>) -> Result<Laplace> {
        parts.sort_by_key(|part| part.shard.index());
        let first = parts.first().ok_or(TeamError::NoParts)?;
        let count = first.shard.count();
        let path = Path::new("");
        let describe = |part: &Self| -> Result<_> {
            let description = Description::new(path, &part.problem, &part.schema, &part.prior, part.structure)?;
            Ok((description.metadata(FORMAT, VERSION), part.notes.clone(), part.shard.count(), part.prior.clone()))
        };
        let expected = describe(first)?;
        for part in &parts {
            let same =
                describe(part)? == expected && part.problem.model.parameters() == first.problem.model.parameters();
            if !same {
                let (one, other) = (first.shard.to_string(), part.shard.to_string());
                return Err(TeamError::OtherFit { one, other }.into());
            }
        }
        if let Some(missing) = (0..count).find(|index| !parts.iter().any(|part| part.shard.index() == *index)) {
            return Err(TeamError::MissingPart {
                part: Shard::new(missing, count).map_or_else(String::new, |shard| shard.to_string()),
            }
            .into());
        }
        let mut pairs = parts.iter().zip(parts.iter().skip(1));
        if let Some((part, _)) = pairs.find(|(part, next)| part.shard == next.shard) {
            return Err(TeamError::PartTwice { part: part.shard.to_string() }.into());
        }
        let data = join_data(&parts)?;
        let mut parts = parts.into_iter();
        let first = parts.next().ok_or(TeamError::NoParts)?;
        let Self { mut problem, schema, prior, structure, blocks, .. } = first;
        problem.data = data.map(Arc::new);
        let sums = BlockSums { problem: &problem, structure };
        let mut total: Option<(Box<dyn Curvature>, Fit)> = None;
        for (_, curvature, fit) in blocks.into_iter().chain(parts.flat_map(|part| part.blocks)) {
            match &mut total {
                Some(total) => sums.merge(total, (curvature, fit))?,
                None => total = Some((curvature, fit)),
            }
        }
        let (curvature, fit) = total.ok_or_else(|| Error::NoRows { what: "the parts of the fit".to_string() })?;
        let precision = curvature.factor(prior.precision(), &problem.scales())?;
        Ok(Laplace::from_parts(problem, schema, prior, fit, Some(curvature), precision))
    }
}

/// The rows of a part of N.
fn rows_of(shard: Shard, n_data: usize) -> std::ops::Range<usize> {
    let all = row_blocks(n_data);
    let own = all.get(shard.of(all.len())).unwrap_or_default();
    own.first().map_or(0, |block| block.start)..own.last().map_or(0, |block| block.end)
}

/// The data of all parts, where they have them.
fn join_data(parts: &[FitPart]) -> Result<Option<Dataset>> {
    let kept: Vec<&Dataset> = parts.iter().filter_map(|part| part.data.as_ref()).collect();
    let (Some(first), Some(part)) = (kept.first(), parts.first()) else { return Ok(None) };
    let rows: usize = kept.iter().map(|data| data.len()).sum();
    check_size("number of data points in all parts", part.problem.n_data, rows)?;
    let stack = |of: fn(&Dataset) -> ArrayView2<'_, f64>| {
        let views: Vec<ArrayView2<'_, f64>> = kept.iter().map(|data| of(data)).collect();
        let (expected, found) = (of(first).ncols(), rows);
        concatenate(Axis(0), &views).map_err(|_| Error::Size { what: "number of columns".to_string(), expected, found })
    };
    let data = Dataset::new(stack(|data| data.inputs().view())?, stack(|data| data.targets().view())?)?;
    Ok(Some(data.with_schema(first.schema().clone())?))
}

fn prefix(block: usize) -> String {
    format!("block.{block}.")
}

fn fit_name(block: usize) -> String {
    format!("fit.{block}")
}

//! Checkpoints of a long run: the finished samples in a file, from which the run can go on after an interruption.
//!
//! The file is written whole or not at all, so that it always holds everything that was saved before. It says which run
//! it belongs to, and a run takes nothing from a file of another. Sample i of a seed is the same whenever it is drawn, so
//! a run that goes on ends with the same bits as one that was never interrupted.
//!
//! | tensor | | |
//! |---|---|---|
//! | `sample` | \[K\] | which samples of the seed |
//! | `theta`, `velocity` | \[K, D\] | θ and θ̇ at the end |
//! | the columns of a file of samples | \[K\] | their certificates |
//!
//! The metadata are `format`, a fingerprint over everything, and what tells the run apart, each key with `run.` before it.

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::columns::{Reader, Stored};
use super::exponential::Geodesic;
use super::keeper::{Finished, Keeper};
use super::samples::Samples;
use crate::error::{Error, Result};
use crate::files;
use crate::tensors::{self, FINGERPRINT, TensorFile, Values};

/// The `format` entry of the metadata.
const FORMAT: &str = "riemannian-laplace partial samples";
/// What stands before the keys that tell a run apart.
const PREFIX: &str = "run.";
/// Saving may take one part in this many of the time.
const SHARE: u32 = 20;

/// What tells a run apart: names and values of everything that its samples depend on.
pub type Run = BTreeMap<String, String>;

/// The finished samples of a run, saved now and then.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::time::Duration;
/// use riemannian_laplace::internals::geodesic::Checkpoint;
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("samples.partial");
/// let run = BTreeMap::from([("seed".to_string(), "7".to_string())]);
/// let checkpoint = Checkpoint::resume(&path, run, Duration::from_secs(30))?;
/// assert_eq!(checkpoint.finished(), 0);
/// checkpoint.save()?;
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    run: Run,
    every: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    finished: BTreeMap<usize, Arc<Finished>>,
    /// How many of them are in the file.
    saved: usize,
    /// When they were saved, and how long that took.
    last: Instant,
    cost: Duration,
    /// Why they could not be saved the last time.
    failure: Option<Error>,
}

impl Checkpoint {
    /// A run that begins; nothing is written before the first sample is finished. Finished samples are saved once in
    /// `every`, or less often where saving would take more than a twentieth of the time; after every one if that is zero.
    pub fn begin(path: &Path, run: Run, every: Duration) -> Self {
        let (finished, last) = (BTreeMap::new(), Instant::now());
        let state = State { finished, saved: 0, last, cost: Duration::ZERO, failure: None };
        Self { path: path.to_path_buf(), run, every, state: Mutex::new(state) }
    }

    /// A run that goes on from the samples in the file, or begins where there is no file. A file of another run is an
    /// error.
    pub fn resume(path: &Path, run: Run, every: Duration) -> Result<Self> {
        let checkpoint = Self::begin(path, run, every);
        if path.exists() {
            let finished = checkpoint.read()?;
            let mut state = checkpoint.state();
            state.saved = finished.len();
            state.finished = finished;
        }
        Ok(checkpoint)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of samples that are finished.
    pub fn finished(&self) -> usize {
        self.state().finished.len()
    }

    /// Saves all finished samples, and returns their number. With none, nothing is written.
    pub fn save(&self) -> Result<usize> {
        let mut state = self.state();
        self.save_now(&mut state)?;
        Ok(state.saved)
    }

    /// Why samples could not be saved the last time, if so; asked once.
    pub fn failure(&self) -> Option<Error> {
        self.state().failure.take()
    }

    /// Removes the file, once the samples are where they belong.
    pub fn remove(self) -> Result<()> {
        files::remove(&self.path)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save_now(&self, state: &mut State) -> Result<()> {
        if state.finished.len() == state.saved {
            return Ok(());
        }
        let began = Instant::now();
        self.write(&state.finished)?;
        state.saved = state.finished.len();
        state.last = Instant::now();
        state.cost = state.last - began;
        Ok(())
    }

    fn write(&self, finished: &BTreeMap<usize, Arc<Finished>>) -> Result<()> {
        let rows = |of: fn(&Geodesic) -> &[f64]| finished.values().map(|one| of(&one.0)).collect::<Vec<&[f64]>>();
        let (theta, velocity) = (rows(|one| &one.theta), rows(|one| &one.velocity));
        let (count, size) = (finished.len(), theta.first().map_or(0, |row| row.len()));
        let samples: Vec<i64> = finished.keys().map(|&index| index as i64).collect();
        let mut entries = vec![
            ("sample", vec![count], Values::Integer(&samples)),
            ("theta", vec![count, size], Values::Rows(&theta)),
            ("velocity", vec![count, size], Values::Rows(&velocity)),
        ];
        let geodesics: Vec<Arc<Finished>> = finished.values().cloned().collect();
        let columns = Samples::collect_columns(&geodesics).stored_columns();
        entries.extend(columns.iter().map(Stored::entry));
        let mut metadata: BTreeMap<String, String> =
            self.run.iter().map(|(key, value)| (format!("{PREFIX}{key}"), value.clone())).collect();
        metadata.insert("format".to_string(), FORMAT.to_string());
        metadata.insert(FINGERPRINT.to_string(), tensors::fingerprint(&entries, &metadata));
        tensors::write(&self.path, &entries, metadata)
    }

    fn read(&self) -> Result<BTreeMap<usize, Arc<Finished>>> {
        let path = self.path.as_path();
        let file = TensorFile::read_numbers(path)?;
        let invalid = |key: &'static str, problem: String| Error::Metadata { path: path.to_path_buf(), key, problem };
        if file.metadata.get("format").is_none_or(|format| format != FORMAT) {
            return Err(invalid("format", format!("is not `{FORMAT}`; remove the file, or write elsewhere")));
        }
        if file.metadata.get(FINGERPRINT).is_none_or(|stored| stored != file.fingerprint()) {
            return Err(invalid(FINGERPRINT, "does not fit the contents: the file was altered or damaged".to_string()));
        }
        let stored: Run = file
            .metadata
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.into(), value.clone())))
            .collect();
        if let Some(key) = self.run.keys().chain(stored.keys()).find(|&key| self.run.get(key) != stored.get(key)) {
            let value = |run: &Run| run.get(key).map_or("not given", String::as_str).into();
            let (path, what) = (path.to_path_buf(), key.as_str().into());
            return Err(Error::OtherRun { path, what, found: value(&stored), expected: value(&self.run) });
        }
        let count = file.tensors.get("sample").map_or(0, |tensor| tensor.values.len());
        let mut file = Reader { path, contents: file };
        let indices = file.take_counts("sample", count)?;
        let ([rows, size], theta) = file.take_matrix("theta")?;
        let (shape, velocity) = file.take_matrix("velocity")?;
        if [rows, size] != [count, size] || shape != [rows, size] {
            return Err(file.shape(
                "theta",
                vec![rows, size],
                format!("expected {count} rows, as many as in `velocity`"),
            ));
        }
        file.require_columns()?;
        let mut samples = Samples::collect_columns(&[]);
        file.take_columns(&mut samples, count)?;
        for (tensor, values) in [("theta", &theta), ("velocity", &velocity)] {
            file.check_reached(tensor, values, size, &samples.outcome)?;
        }
        let rows = theta.chunks(size.max(1)).zip(velocity.chunks(size.max(1)));
        let finished = rows.enumerate().filter_map(|(row, (theta, velocity))| samples.finished(row, theta, velocity));
        Ok(indices.into_iter().zip(finished.map(Arc::new)).collect())
    }
}

impl Keeper for Checkpoint {
    fn find(&self, index: usize) -> Option<Arc<Finished>> {
        self.state().finished.get(&index).cloned()
    }

    fn keep(&self, index: usize, finished: &Arc<Finished>) {
        let mut state = self.state();
        state.finished.insert(index, finished.clone());
        // Whoever asks for every sample to be saved gets that.
        let pause = if self.every.is_zero() { Duration::ZERO } else { self.every.max(state.cost * SHARE) };
        if state.last.elapsed() >= pause
            && let Err(error) = self.save_now(&mut state)
        {
            // The work goes on: the disk may have room again the next time. The caller hears of it.
            state.failure = Some(error);
            state.last = Instant::now();
        }
    }
}

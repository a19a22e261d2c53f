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
//! | `nfev`, `drift`, `path_drift`, `residual`, `off_graph` (−1 where it is not defined), `status`, `certified` | \[K\] | their certificates |
//!
//! The metadata are `format`, a fingerprint over everything, and what tells the run apart, each key with `run.` before it.

// What is read here comes from a file: an index is checked, or has a proof.
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::exponential::Geodesic;
use super::keeper::{Finished, Keeper};
use super::samples::Outcome;
use crate::error::{Error, Result, TensorError};
use crate::files;
use crate::ode::Status;
use crate::tensors::{self, FINGERPRINT, TensorFile, Values};

/// The distance from the graph of a sample that has none.
const UNDEFINED: f64 = -1.0;

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
        let count = finished.len();
        let rows = |of: fn(&Geodesic) -> &[f64]| finished.values().map(|one| of(&one.0)).collect::<Vec<&[f64]>>();
        let reals = |of: fn(&Geodesic) -> f64| finished.values().map(|one| of(&one.0)).collect::<Vec<f64>>();
        let integers = |of: fn(&Finished) -> i64| finished.values().map(|one| of(one)).collect::<Vec<i64>>();
        let (theta, velocity) = (rows(|one| &one.theta), rows(|one| &one.velocity));
        let size = theta.first().map_or(0, |row| row.len());
        let (drift, path_drift) = (reals(|one| one.drift), reals(|one| one.path_drift));
        let residual = reals(|one| one.residual);
        let off_graph = reals(|one| one.off_graph.unwrap_or(UNDEFINED));
        let samples: Vec<i64> = finished.keys().map(|&index| index as i64).collect();
        let evaluations = integers(|one| one.0.evaluations as i64);
        let status = integers(|one| one.1.code());
        let certified = integers(|one| i64::from(one.0.certified));
        let entries = [
            ("sample", vec![count], Values::Integer(&samples)),
            ("theta", vec![count, size], Values::Rows(&theta)),
            ("velocity", vec![count, size], Values::Rows(&velocity)),
            ("nfev", vec![count], Values::Integer(&evaluations)),
            ("drift", vec![count], Values::Real(&drift)),
            ("path_drift", vec![count], Values::Real(&path_drift)),
            ("residual", vec![count], Values::Real(&residual)),
            ("off_graph", vec![count], Values::Real(&off_graph)),
            ("status", vec![count], Values::Integer(&status)),
            ("certified", vec![count], Values::Integer(&certified)),
        ];
        let mut metadata: BTreeMap<String, String> =
            self.run.iter().map(|(key, value)| (format!("{PREFIX}{key}"), value.clone())).collect();
        metadata.insert("format".to_string(), FORMAT.to_string());
        metadata.insert(FINGERPRINT.to_string(), tensors::fingerprint(&entries, &metadata));
        tensors::write(&self.path, &entries, metadata)
    }

    fn read(&self) -> Result<BTreeMap<usize, Arc<Finished>>> {
        let path = self.path.as_path();
        let mut file = TensorFile::read_numbers(path)?;
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
        let samples = file.take(path, "sample")?.values;
        let count = samples.len();
        let mut column = |name: &str| -> Result<Vec<f64>> {
            let tensor = file.take(path, name)?;
            if tensor.shape == [count] {
                return Ok(tensor.values);
            }
            let (path, expected) = (path.to_path_buf(), format!("expected [{count}]"));
            Err(Error::Tensor(TensorError::Shape {
                path,
                tensor: name.to_string(),
                found: tensor.shape,
                expected: expected.into(),
            }))
        };
        let (evaluations, drift, path_drift) = (column("nfev")?, column("drift")?, column("path_drift")?);
        let (residual, status, certified) = (column("residual")?, column("status")?, column("certified")?);
        let mut distances = column("off_graph")?.into_iter();
        let (theta, velocity) = (file.take(path, "theta")?, file.take(path, "velocity")?);
        let size = theta.values.len() / count.max(1);
        for (name, tensor) in [("theta", &theta), ("velocity", &velocity)] {
            if tensor.shape != [count, size] {
                let (path, expected) = (path.to_path_buf(), format!("expected [{count}, {size}]"));
                let (tensor, found) = (name.to_string(), tensor.shape.clone());
                return Err(Error::Tensor(TensorError::Shape { path, tensor, found, expected: expected.into() }));
            }
        }
        let mut rows = theta.values.chunks_exact(size.max(1)).zip(velocity.values.chunks_exact(size.max(1)));
        let mut finished = BTreeMap::new();
        let certificates = evaluations.iter().zip(&drift).zip(&path_drift).zip(&residual).zip(&status).zip(&certified);
        for (&sample, (((((&evaluations, &drift), &path_drift), &residual), &status), &certified)) in
            samples.iter().zip(certificates)
        {
            let outcome = Outcome::ALL.into_iter().find(|outcome| outcome.code() as f64 == status);
            let (Some((theta, velocity)), Some(outcome)) = (rows.next(), outcome) else {
                return Err(invalid("format", "does not fit the tensors".to_string()));
            };
            let geodesic = Geodesic {
                theta: theta.to_vec(),
                velocity: velocity.to_vec(),
                evaluations: evaluations as usize,
                drift,
                path_drift,
                residual,
                off_graph: distances.next().filter(|distance| *distance != UNDEFINED),
                status: match outcome {
                    Outcome::Reached | Outcome::NoLogarithm => Status::Reached,
                    Outcome::StepLimit => Status::StepLimit,
                    Outcome::NotFinite => Status::NotFinite,
                },
                certified: certified != 0.0,
            };
            if let Some(requirement) = contradiction(&geodesic, outcome, sample) {
                let (path, index) = (path.to_path_buf(), finished.len());
                let (tensor, value) = ("certified".to_string(), certified);
                return Err(Error::Tensor(TensorError::Value { path, tensor, index, value, requirement }));
            }
            finished.insert(sample as usize, Arc::new((geodesic, outcome)));
        }
        Ok(finished)
    }
}

/// What a sample in a file must be to count as what the file says, where it is not.
fn contradiction(one: &Geodesic, outcome: Outcome, sample: f64) -> Option<&'static str> {
    let mut coordinates = one.theta.iter().chain(&one.velocity);
    let figures = [one.drift, one.path_drift, one.residual];
    match outcome {
        _ if !(sample >= 0.0 && sample.fract() == 0.0) => Some("of a sample whose number is whole, and at least 0"),
        Outcome::Reached if coordinates.any(|value| !value.is_finite()) => {
            Some("of finite weights where the end was reached")
        }
        Outcome::Reached if !one.certified || figures.iter().all(|figure| *figure >= 0.0) => None,
        Outcome::StepLimit | Outcome::NotFinite | Outcome::NoLogarithm if !one.certified => None,
        _ => Some("0 where the end was not reached, or drift or residual is not a number of at least 0"),
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

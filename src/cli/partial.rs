//! `OUT.partial`: the finished samples of a run that was interrupted, and the run that goes on from them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use riemannian_laplace::Error;
use riemannian_laplace::internals::files;
use riemannian_laplace::internals::geodesic::{Checkpoint, Keeper};
use riemannian_laplace::internals::team::Team;

use super::arguments;
use super::console::Console;
use super::failure::Failure;
use super::output::counted;

/// How a run is saved and resumed.
#[derive(Debug, Args)]
pub struct PartialArgs {
    /// Go on from the samples in OUT.partial, which a run that was interrupted has left; the file will be the same, to
    /// the byte, as without the interruption. Begins where there is no such file
    #[arg(long)]
    resume: bool,
    /// How often finished samples are saved to OUT.partial while the run goes on; 0s: after every sample
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = arguments::duration)]
    save_every: Duration,
}

impl PartialArgs {
    /// The checkpoint of a run that writes to `out`; none where that is a device or a pipe.
    pub fn open(
        &self,
        out: &Path,
        run: BTreeMap<String, String>,
        samples: usize,
        console: &Console,
    ) -> Result<Partial, Failure> {
        if out.exists() && !out.is_file() {
            return Ok(Partial { checkpoint: None, samples });
        }
        let path = partial_path(out, console.team());
        if !self.resume && path.exists() {
            return Err(Failure::Usage(format!(
                "{} holds samples of a run that was interrupted; go on from them with --resume, or remove the file",
                path.display()
            )));
        }
        let checkpoint = Checkpoint::resume(&path, run, self.save_every)?;
        match checkpoint.finished() {
            0 if self.resume => console.note(format!("{} is not there: the run begins", path.display())),
            0 => {}
            found => console.note(format!("{found} of {} are in {}", counted(samples, "sample"), path.display())),
        }
        Ok(Partial { checkpoint: Some(checkpoint), samples })
    }
}

/// `OUT.partial`; `OUT.2of4.partial` for the second of four ranks.
pub fn partial_path(out: &Path, team: &Team) -> PathBuf {
    let mut path = out.as_os_str().to_os_string();
    if team.size() > 1 {
        path.push(format!(".{}of{}", team.rank() + 1, team.size()));
    }
    path.push(".partial");
    files::fitting_name(path.into())
}

/// The checkpoint of a run, if it has one.
#[derive(Debug)]
pub struct Partial {
    checkpoint: Option<Checkpoint>,
    samples: usize,
}

impl Partial {
    /// What keeps finished samples.
    pub fn keeper(&self) -> &dyn Keeper {
        match &self.checkpoint {
            Some(checkpoint) => checkpoint,
            None => &(),
        }
    }

    /// Saves what is finished of a run that was stopped, and says how to go on.
    pub fn stopped(&self, why: &str) -> Failure {
        let Some(checkpoint) = &self.checkpoint else { return Failure::Stopped(format!("{why}; nothing was saved")) };
        let samples = counted(self.samples, "sample");
        match checkpoint.save() {
            Ok(0) => Failure::Stopped(format!("{why} before any of {samples} was finished")),
            Ok(saved) => Failure::Stopped(format!(
                "{why}: {saved} of {samples} are saved in {}; the same command with --resume goes on from there",
                checkpoint.path().display()
            )),
            Err(error) => error.into(),
        }
    }

    /// The run is done and its samples are written: the checkpoint is no longer needed.
    pub fn done(self, console: &Console) -> Result<(), Error> {
        let Some(checkpoint) = self.checkpoint else { return Ok(()) };
        if let Some(error) = checkpoint.failure() {
            console.warn(format!("samples could not be saved on the way: {error}"));
        }
        checkpoint.remove()
    }
}

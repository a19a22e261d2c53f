//! Committees: `rla train --committee` writes posteriors that predict together into a folder, which `predict` and `evaluate`
//! take in the place of one posterior.
//!
//! `committee.json` in the folder names the members and their weights, `{"members": [{"posterior": "member-01.safetensors",
//! "weight": 0.2}, …]}`. It is written last, so that a folder with it is whole.

use std::path::{Path, PathBuf};

use riemannian_laplace::internals::evaluate::{Committee, PriorPathStep};
use riemannian_laplace::internals::predict::{self, Mixture, MixtureMember};
use riemannian_laplace::{Contents, Error, Laplace};
use serde::{Deserialize, Serialize};

use super::console::Console;
use super::failure::Failure;
use super::method::{Method, MethodArgs};
use super::output::{OutputFile, Summary, counted, short};
use super::posterior::PosteriorArgs;

/// The list of the members.
const LIST: &str = "committee.json";

#[derive(Debug, Serialize, Deserialize)]
struct List {
    held_out_log_likelihood: f64,
    members: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    posterior: String,
    weight: f64,
}

/// A folder to write a committee to, checked before the work begins.
#[derive(Debug)]
pub struct CommitteeFolder {
    path: PathBuf,
}

impl CommitteeFolder {
    /// A folder that is new, empty, or has an earlier committee, which will be replaced.
    pub fn at(path: &Path) -> Result<Self, Failure> {
        let refuse = |problem: &str| Err(Failure::Usage(format!("cannot write {}: {problem}", path.display())));
        if path.is_dir() {
            let is_empty = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
            if !is_empty && !path.join(LIST).is_file() {
                return refuse("a committee is a folder of its own, and this one holds other files");
            }
        } else if path.exists() {
            return refuse("a committee is a folder, and this is a file");
        }
        Ok(Self { path: path.to_path_buf() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the members, then the list of them.
    pub fn write(&self, committee: &Committee) -> Result<(), Failure> {
        let broken = |path: &Path| {
            let path = path.to_path_buf();
            move |source| Failure::from(Error::Write { path, source })
        };
        std::fs::create_dir_all(&self.path).map_err(broken(&self.path))?;
        let list = self.path.join(LIST);
        if list.exists() {
            self.remove_members(&list)?;
            std::fs::remove_file(&list).map_err(broken(&list))?;
        }
        let mut members = Vec::new();
        for (index, member) in committee.members.iter().enumerate() {
            let posterior = format!("member-{:02}.safetensors", index + 1);
            member.laplace.save(&self.path.join(&posterior), Contents::TrainingData)?;
            members.push(Entry { posterior, weight: member.weight });
        }
        let text = serde_json::to_string_pretty(&List { held_out_log_likelihood: committee.held_out, members })
            .map_err(|error| broken(&list)(error.into()))?;
        OutputFile::at(&list, &[])?.write(|out| writeln!(out, "{text}").map_err(broken(&list)))
    }

    /// The members of an earlier committee go; what else the folder holds stays.
    fn remove_members(&self, list: &Path) -> Result<(), Failure> {
        for entry in read(list)?.members {
            let path = self.path.join(&entry.posterior);
            if entry.posterior.starts_with("member-") && path.is_file() {
                std::fs::remove_file(&path).map_err(|source| Failure::from(Error::Write { path, source }))?;
            }
        }
        Ok(())
    }
}

fn read(list: &Path) -> Result<List, Failure> {
    let wrong = |problem: String| Failure::Usage(format!("{}: {problem}", list.display()));
    let text = std::fs::read_to_string(list).map_err(|error| wrong(error.to_string()))?;
    let read: List = serde_json::from_str(&text).map_err(|error| wrong(format!("not a list of members: {error}")))?;
    if read.members.is_empty() {
        return Err(wrong("it names no members".to_string()));
    }
    if let Some(entry) = read.members.iter().find(|entry| !(entry.weight > 0.0 && entry.weight.is_finite())) {
        return Err(wrong(format!("the weight of {} is {}; it must be positive", entry.posterior, entry.weight)));
    }
    Ok(read)
}

/// One posterior, or the members of a committee.
#[derive(Debug)]
pub struct Members {
    /// The first, whose columns the data are matched with.
    pub laplace: Laplace,
    weight: f64,
    others: Vec<(f64, Laplace)>,
}

impl Members {
    /// Reads a posterior, or all of a folder.
    pub fn load(args: &PosteriorArgs, console: &Console) -> Result<Self, Failure> {
        let path = &args.posterior;
        if !path.is_dir() {
            return Ok(Self { laplace: args.load(console)?, weight: 1.0, others: Vec::new() });
        }
        let list = path.join(LIST);
        if !list.is_file() {
            let advice = "name a posterior that `rla fit` wrote, or a folder that `rla train --committee` wrote";
            return Err(Failure::Usage(format!("{} is a folder without {LIST}; {advice}", path.display())));
        }
        let entries = read(&list)?.members;
        let progress = console.bar("loading the committee", entries.len());
        let mut members = Vec::with_capacity(entries.len());
        for entry in entries {
            let file = path.join(&entry.posterior);
            members.push((entry.weight, Laplace::load(&file).map_err(Failure::about(&file))?));
            progress.advance_by(1);
        }
        let mut members = members.into_iter();
        let (weight, laplace) =
            members.next().ok_or_else(|| Failure::Usage(format!("{}: it names no members", list.display())))?;
        Ok(Self { laplace, weight, others: members.collect() })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// Checks that the options have a meaning for all members.
    pub fn check(&self, args: &MethodArgs) -> Result<(), Failure> {
        let refuse = |problem: &str| Err(Failure::Usage(format!("{problem}; name one of its members as --posterior")));
        match self.others.is_empty() {
            false if args.wants_latent() => {
                refuse("--link none is one Gaussian, and a committee has one for each member")
            }
            false if args.samples_file().is_some() => {
                refuse("--samples-file belongs to one posterior, not a committee")
            }
            _ => Ok(()),
        }
    }

    /// A method as the library takes it, by all members; samples, if any, are drawn here.
    pub fn method(&self, args: &MethodArgs, method: Method, console: &Console) -> Result<predict::Method, Failure> {
        let own = args.library_method(method, &self.laplace, console)?;
        if self.others.is_empty() {
            return Ok(own);
        }
        let mut others = Vec::with_capacity(self.others.len());
        for (weight, laplace) in &self.others {
            let method = args.library_method(method, laplace, console)?;
            others.push(MixtureMember { weight: *weight, laplace: laplace.clone(), method });
        }
        Ok(predict::Method::Mixture(Mixture { weight: self.weight, method: Box::new(own), others: others.into() }))
    }
}

impl Members {
    /// Checks that a folder can take a committee.
    pub fn check_folder(&self, path: &Path) -> Result<(), Failure> {
        CommitteeFolder::at(path).map(|_| ())
    }

    /// Writes the committee that was read from one folder to another (which may be the same), with the calibration of its
    /// first member. The list is written last.
    pub fn write_calibrated(&self, from: &Path, to: &Path) -> Result<(), Failure> {
        let broken = |path: &Path| {
            let path = path.to_path_buf();
            move |source| Failure::from(Error::Write { path, source })
        };
        std::fs::create_dir_all(to).map_err(broken(to))?;
        let list = read(&from.join(LIST))?;
        for (index, entry) in list.members.iter().enumerate() {
            let file = to.join(&entry.posterior);
            if index == 0 {
                self.laplace.save(&file, super::calibrate::contents(&self.laplace))?;
            } else if from != to {
                std::fs::copy(from.join(&entry.posterior), &file).map_err(broken(&file))?;
            }
        }
        let path = to.join(LIST);
        let text = serde_json::to_string_pretty(&list).map_err(|error| broken(&path)(error.into()))?;
        OutputFile::at(&path, &[])?.write(|out| writeln!(out, "{text}").map_err(broken(&path)))
    }
}

/// What `train --json` adds.
#[derive(Debug, Serialize)]
pub struct CommitteeReport {
    members: usize,
    held_out_log_likelihood: f64,
    /// The same of the best prior alone.
    held_out_log_likelihood_alone: f64,
    /// Every prior precision that was tried, and its log likelihood of held-out data.
    path: Vec<(f64, f64)>,
}

/// What was found, in the units of the data.
pub fn report(committee: &Committee) -> CommitteeReport {
    let score = |step: &PriorPathStep| step.held_out;
    CommitteeReport {
        members: committee.members.len(),
        held_out_log_likelihood: committee.held_out,
        held_out_log_likelihood_alone: committee.steps.iter().map(score).fold(f64::NEG_INFINITY, f64::max),
        path: committee.steps.iter().map(|step| (step.prior_precision, step.held_out)).collect(),
    }
}

/// Adds what was found to a summary.
pub fn summarize(committee: &Committee, summary: &mut Summary) {
    let found = report(committee);
    summary.row("members", found.members, "posteriors that predict together; --posterior takes the folder");
    summary.row(
        "held-out log likelihood",
        short(found.held_out_log_likelihood),
        format!(
            "nats per row; {} with the best of {} alone",
            short(found.held_out_log_likelihood_alone),
            counted(found.path.len(), "prior")
        ),
    );
}

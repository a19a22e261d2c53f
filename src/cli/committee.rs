//! Committees: `rla train --committee` writes posteriors that predict together into a folder, which `predict` and `evaluate`
//! take in the place of one posterior.
//!
//! `committee.json` in the folder names the members and their weights, `{"members": [{"posterior": "member-01.safetensors",
//! "weight": 0.2}, …]}`. Members are written under names that are free, then `committee.json` is replaced in one step, then the
//! members of an earlier committee go: at every moment the folder has the old committee or the new one, or none yet.

use std::path::{Path, PathBuf};

use riemannian_laplace::internals::evaluate::{Committee, PriorPathStep};
use riemannian_laplace::internals::files::{self, Folder, Input, Text, WholeFile};
use riemannian_laplace::internals::laplace::POSTERIOR_FORMAT;
use riemannian_laplace::internals::memory::{self, Reservation};
use riemannian_laplace::internals::predict::{self, Mixture, MixtureMember};
use riemannian_laplace::internals::tensors::{FINGERPRINT, TensorFile};
use riemannian_laplace::{Contents, Error, Laplace};
use serde::{Deserialize, Serialize};

use super::console::Console;
use super::failure::Failure;
use super::method::{Method, MethodArgs};
use super::output::{Summary, counted, short};
use super::posterior::PosteriorArgs;

/// The list of the members.
const LIST: &str = "committee.json";
/// The most bytes of a list, and the most members.
const LONGEST_LIST: u64 = 1 << 20;
const MOST_MEMBERS: usize = 1000;
/// Numbers in memory for each number in a member's file (packed triangles become matrices), and of its names besides.
const NUMBERS_PER_NUMBER: f64 = 4.0;
const NUMBERS_PER_MEMBER: f64 = 2000.0;

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
    /// A folder that is new, has nothing but members in it, or has an earlier committee, which will be replaced.
    pub fn at(path: &Path) -> Result<Self, Failure> {
        let refuse = |problem: &str| Err(Failure::Usage(format!("cannot write {}: {problem}", path.display())));
        if path.is_dir() {
            let names = files::names(path)?;
            if names.iter().any(|name| name == LIST) {
                read(path)?;
            } else if names.iter().any(|name| !is_member(name)) {
                return refuse("a committee is a folder of its own, and this one holds other files");
            }
        } else if path.exists() {
            return refuse("a committee is a folder, and this is a file");
        }
        if let Some(folder) = path.ancestors().find(|folder| folder.is_dir()) {
            WholeFile::check(&folder.join(LIST))?;
        }
        Ok(Self { path: path.to_path_buf() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the members, then the list of them; then removes the members of an earlier committee.
    pub fn write(&self, committee: &Committee) -> Result<(), Failure> {
        let folder = Folder::create(&self.path)?;
        let mut own = Own::in_folder(&folder)?;
        let written = self.write_new(committee, &folder, &mut own);
        if written.is_err() {
            // What was there before is as it was; the first error is the one to report.
            own.new.iter().for_each(|name| drop(folder.remove(name)));
        }
        let listed = written?;
        for (name, _) in own.old {
            if !listed.contains(&name) {
                folder.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Writes what is new, and returns the names of all members.
    fn write_new(&self, committee: &Committee, folder: &Folder, own: &mut Own) -> Result<Vec<String>, Failure> {
        let mut members = Vec::new();
        for (index, member) in committee.members.iter().enumerate() {
            let name = free_name(index + 1, &folder.names()?);
            own.new.push(name.clone());
            member.laplace.save(&folder.at(&name)?, Contents::TrainingData)?;
            // The same member may be there already.
            let fingerprint = TensorFile::stored_fingerprint(&folder.at(&name)?)?;
            let taken = |name: &String| members.iter().any(|entry: &Entry| entry.posterior == *name);
            let same = own.old.iter().find(|(old, known)| Some(known) == fingerprint.as_ref() && !taken(old));
            if same.is_some() {
                folder.remove(&name)?;
                own.new.pop();
            }
            let posterior = same.map_or(name, |(old, _)| old.clone());
            members.push(Entry { posterior, weight: member.weight });
        }
        let names = members.iter().map(|entry| entry.posterior.clone()).collect();
        let text = serde_json::to_string_pretty(&List { held_out_log_likelihood: committee.held_out, members })
            .map_err(|error| Error::Write { path: self.path.join(LIST), source: error.into() })?;
        folder.write(LIST, format!("{text}\n").as_bytes())?;
        Ok(names)
    }
}

/// The members in a folder that this program wrote.
struct Own {
    /// From before, with their fingerprints.
    old: Vec<(String, String)>,
    /// From now.
    new: Vec<String>,
}

impl Own {
    fn in_folder(folder: &Folder) -> Result<Self, Failure> {
        let names = folder.names()?.into_iter().filter(|name| is_member(name));
        let old = names.filter_map(|name| Some((name.clone(), own_fingerprint(&folder.at(&name).ok()?)?))).collect();
        Ok(Self { old, new: Vec::new() })
    }
}

/// The fingerprint of a posterior that is whole and no link; none of anything else.
fn own_fingerprint(path: &Path) -> Option<String> {
    Input::open_member(path.parent()?, path.file_name()?.to_str()?).ok()?;
    let file = TensorFile::read_numbers(path).ok()?;
    let is_posterior = file.metadata.get("format").is_some_and(|format| format == POSTERIOR_FORMAT);
    let stored = file.metadata.get(FINGERPRINT).filter(|stored| *stored == file.fingerprint());
    stored.filter(|_| is_posterior).cloned()
}

/// Whether a name is one that members are written under: `member-01.safetensors`, `member-01-2.safetensors`.
fn is_member(name: &str) -> bool {
    let number = name.strip_prefix("member-").and_then(|rest| rest.strip_suffix(".safetensors"));
    number.is_some_and(|number| {
        number.split('-').count() <= 2
            && number.split('-').all(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// The first name of a member that nothing has.
fn free_name(number: usize, taken: &[String]) -> String {
    let first = std::iter::once(format!("member-{number:02}.safetensors"));
    let mut names = first.chain((2..).map(|version| format!("member-{number:02}-{version}.safetensors")));
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

fn read(folder: &Path) -> Result<List, Failure> {
    let wrong = |problem: String| Failure::Usage(format!("{}: {problem}", folder.join(LIST).display()));
    let text = Text::of(Input::open_member(folder, LIST)?.at_most(LONGEST_LIST)?)?;
    let read: List = serde_json::from_str(&text).map_err(|error| wrong(format!("not a list of members: {error}")))?;
    if read.members.is_empty() {
        return Err(wrong("it names no members".to_string()));
    }
    if read.members.len() > MOST_MEMBERS {
        return Err(wrong(format!("it names {} members; the most is {MOST_MEMBERS}", read.members.len())));
    }
    for entry in &read.members {
        files::plain_name(folder, &entry.posterior)?;
        if !(entry.weight > 0.0 && entry.weight.is_finite()) {
            return Err(wrong(format!("the weight of {} is {}; it must be positive", entry.posterior, entry.weight)));
        }
    }
    Ok(read)
}

/// The files of a posterior that is one file, or a committee.
pub fn files_of(posterior: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !posterior.is_dir() {
        return Ok(vec![posterior.to_path_buf()]);
    }
    let entries = check_list(posterior)?.members.into_iter().map(|entry| posterior.join(entry.posterior));
    Ok(entries.chain([posterior.join(LIST)]).collect())
}

/// The list in a folder, which must have one.
fn check_list(folder: &Path) -> Result<List, Failure> {
    if !folder.join(LIST).is_file() {
        let advice = "name a posterior that `rla fit` wrote, or a folder that `rla train --committee` wrote";
        return Err(Failure::Usage(format!("{} is a folder without {LIST}; {advice}", folder.display())));
    }
    read(folder)
}

/// Reads a member, and reserves the memory that it takes as long as it is there.
fn load_member(folder: &Path, name: &str) -> Result<(Laplace, Reservation), Failure> {
    let length = Input::open_member(folder, name)?.length().unwrap_or_default();
    let numbers = NUMBERS_PER_NUMBER * length as f64 / 8.0 + NUMBERS_PER_MEMBER;
    let path = folder.join(name);
    let reservation = memory::reserve(&format!("the committee in {}", folder.display()), numbers, "allow more memory")?;
    Ok((Laplace::load(&path).map_err(Failure::about(&path))?, reservation))
}

/// Reads a folder from a stranger, loads what its list names, and writes a committee of one in its place where that is allowed;
/// the names in the list that was read.
#[cfg(any(test, fuzzing))]
pub fn try_out(folder: &Path, laplace: &Laplace) -> Option<Vec<String>> {
    let list = read(folder).ok();
    for entry in list.iter().flat_map(|list| &list.members) {
        let _ = load_member(folder, &entry.posterior);
    }
    let _ = files_of(folder);
    let member = riemannian_laplace::internals::evaluate::Member { weight: 1.0, laplace: laplace.clone() };
    let committee = Committee { members: vec![member], held_out: 0.0, steps: Vec::new() };
    if let Ok(place) = CommitteeFolder::at(folder) {
        place.write(&committee).unwrap_or_else(|failure| panic!("{failure}"));
        let entries = read(folder).unwrap_or_else(|failure| panic!("{failure}")).members;
        entries.iter().for_each(|entry| {
            drop(load_member(folder, &entry.posterior).unwrap_or_else(|failure| panic!("{failure}")))
        });
    }
    Some(list?.members.into_iter().map(|entry| entry.posterior).collect())
}

/// One posterior, or the members of a committee.
#[derive(Debug)]
pub struct Members {
    /// The first, whose columns the data are matched with.
    pub laplace: Laplace,
    weight: f64,
    others: Vec<(f64, Laplace)>,
    _reserved: Vec<Reservation>,
}

impl Members {
    /// Reads a posterior, or all of a folder.
    pub fn load(args: &PosteriorArgs, console: &Console) -> Result<Self, Failure> {
        let path = &args.posterior;
        if !path.is_dir() {
            return Ok(Self { laplace: args.load(console)?, weight: 1.0, others: Vec::new(), _reserved: Vec::new() });
        }
        let entries = check_list(path)?.members;
        let progress = console.bar("loading the committee", entries.len());
        let (mut members, mut reserved) = (Vec::with_capacity(entries.len()), Vec::new());
        for entry in entries {
            let (member, memory) = load_member(path, &entry.posterior)?;
            members.push((entry.weight, member));
            reserved.push(memory);
            progress.advance_by(1);
        }
        let mut members = members.into_iter();
        let (weight, laplace) =
            members.next().ok_or_else(|| Failure::Usage(format!("{}: it names no members", path.display())))?;
        Ok(Self { laplace, weight, others: members.collect(), _reserved: reserved })
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
    pub fn check_folder(&self, from: &Path, path: &Path) -> Result<(), Failure> {
        if path.exists() && path.canonicalize().ok() == from.canonicalize().ok() {
            let problem = "the calibrated committee goes to a folder of its own; --out names that of --posterior";
            return Err(Failure::Usage(problem.to_string()));
        }
        CommitteeFolder::at(path).map(drop)
    }

    /// Writes the committee that was read from one folder to another, with the calibration of its first member. The list is
    /// written last.
    pub fn write_calibrated(&self, from: &Path, to: &Path) -> Result<(), Failure> {
        let list = check_list(from)?;
        let folder = Folder::create(to)?;
        let members = std::iter::once(&self.laplace).chain(self.others.iter().map(|(_, laplace)| laplace));
        for (entry, laplace) in list.members.iter().zip(members) {
            laplace.save(&folder.at(&entry.posterior)?, super::calibrate::contents(laplace))?;
        }
        let broken = |error: serde_json::Error| Error::Write { path: to.join(LIST), source: error.into() };
        let text = serde_json::to_string_pretty(&list).map_err(broken)?;
        Ok(folder.write(LIST, format!("{text}\n").as_bytes())?)
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

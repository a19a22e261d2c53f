//! Parts of a fit, made by `rla fit --shard`, and their posterior, made by `rla merge`.

use std::path::{Path, PathBuf};

use riemannian_laplace::internals::evidence::{Free, PriorStructure};
use riemannian_laplace::internals::files;
use riemannian_laplace::internals::laplace::FitPart;
use riemannian_laplace::{Contents, EvidenceOptions, Laplace};
use serde::{Deserialize, Serialize};

use super::console::Console;
use super::failure::Failure;
use super::prior;

/// The note that says what to tune once all parts are there.
const TUNING: &str = "optimize";

/// The note with the fingerprint of the data file, of which all parts must be.
const DATA: &str = "data";

/// What is tuned, in a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TuningNote {
    prior: bool,
    per: Per,
    sigma: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Per {
    All,
    Layer,
    Weight,
}

/// Writes down what to tune once all parts are there.
pub fn note_tuning(part: &mut FitPart, (prior, structure, sigma): (Free, PriorStructure, Free)) -> Result<(), Failure> {
    let per = match structure {
        PriorStructure::Scalar => Per::All,
        PriorStructure::PerLayer => Per::Layer,
        PriorStructure::PerWeight => Per::Weight,
    };
    let note = TuningNote { prior: prior == Free::Tuned, per, sigma: sigma == Free::Tuned };
    let text = serde_json::to_string(&note).map_err(|error| Failure::Usage(error.to_string()))?;
    part.note(TUNING, text);
    Ok(())
}

/// Writes down which file the part is of; of a pipe nothing is known.
pub fn note_data(part: &mut FitPart, data: &Path) -> Result<(), Failure> {
    if data.is_file() {
        part.note(DATA, files::fingerprint(data)?);
    }
    Ok(())
}

/// Joins the parts of a fit and writes the posterior; with the data, where the parts have them.
pub fn join(paths: &[PathBuf], out: &Path, console: &Console) -> Result<Laplace, Failure> {
    let mut parts = Vec::new();
    for path in paths {
        parts.push(FitPart::load(path)?);
    }
    let note = match paths.first().zip(parts.first().and_then(|part| part.notes().get(TUNING))) {
        Some((path, note)) => {
            let invalid = |error| Failure::Usage(format!("{}: {error}", path.display()));
            Some(serde_json::from_str::<TuningNote>(note).map_err(invalid)?)
        }
        None => None,
    };
    let mut laplace = FitPart::join(parts)?;
    if let Some(note) = note {
        let free = |tuned: bool| if tuned { Free::Tuned } else { Free::Held };
        let prior_structure = match note.per {
            Per::All => PriorStructure::Scalar,
            Per::Layer => PriorStructure::PerLayer,
            Per::Weight => PriorStructure::PerWeight,
        };
        let (prior, sigma) = (free(note.prior), free(note.sigma));
        let options = EvidenceOptions { prior, prior_structure, sigma, ..EvidenceOptions::for_posterior(&laplace) };
        let optimum = laplace.optimize(&options)?;
        prior::warn_of_bounds(&optimum.at_bound, &laplace, console);
    }
    let contents = if laplace.data().is_some() { Contents::TrainingData } else { Contents::Curvature };
    laplace.save(out, contents)?;
    Ok(laplace)
}

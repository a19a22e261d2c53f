//! Posterior files: the same bytes, refusals, and sums that are made again when they are needed.

use std::collections::BTreeMap;
use std::path::Path;

use riemannian_laplace::internals::evidence::PriorStructure;
use riemannian_laplace::internals::tensors::{self, Entry, TensorFile, Values};
use riemannian_laplace::{Contents, Error, EvidenceOptions, Family, FitOptions, Laplace, Structure};

use crate::common::{Outcome, normal_matrix};
use crate::{Case, STRUCTURES, fit_bits, gaussian, named, prediction_bits};

fn cases() -> [Case; 3] {
    [Case::regression(20), Case::classes(15), Case::new(named("poisson"), 1, 20)]
}

#[test]
fn the_same_fit_saved_twice_is_the_same_bytes() -> Outcome {
    let folder = tempfile::tempdir()?;
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    for case in cases() {
        for structure in STRUCTURES {
            // Two fits, not one: nothing of a run may be in the file.
            case.fit(structure)?.save(&first, Contents::TrainingData)?;
            case.fit(structure)?.save(&second, Contents::TrainingData)?;
            assert_eq!(std::fs::read(&first)?, std::fs::read(&second)?, "{structure}");
            // And what was read is written as it was.
            Laplace::load(&first)?.save(&second, Contents::TrainingData)?;
            assert_eq!(std::fs::read(&first)?, std::fs::read(&second)?, "{structure}, read and written");
            if structure != Structure::FunctionSpace {
                case.fit(structure)?.save(&first, Contents::Curvature)?;
                Laplace::load(&first)?.save(&second, Contents::Curvature)?;
                assert_eq!(std::fs::read(&first)?, std::fs::read(&second)?, "{structure}, without data");
            }
        }
    }
    Ok(())
}

/// Writes a file again after a change, with the fingerprint that it had.
fn alter(path: &Path, change: impl Fn(&mut TensorFile)) -> Result<(), Error> {
    let mut file = TensorFile::read(path)?;
    change(&mut file);
    let entries: Vec<Entry<'_>> = file
        .tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.shape.clone(), Values::Real(&tensor.values)))
        .collect();
    tensors::write(path, &entries, file.metadata.clone().into_iter().collect::<BTreeMap<_, _>>())
}

#[test]
fn a_file_that_was_altered_is_refused_whatever_was_altered() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    for structure in STRUCTURES {
        let laplace = Case::regression(20).fit(structure)?;
        let saved = || laplace.save(&path, Contents::TrainingData);
        saved()?;
        let whole = TensorFile::read(&path)?;
        let refused = |what: &str| match Laplace::load(&path) {
            Err(Error::Metadata { key: "fingerprint", .. }) => {}
            other => panic!("{structure}, {what}: {:?}", other.err()),
        };
        // Written again without a change it is read.
        alter(&path, |_| ())?;
        assert!(Laplace::load(&path).is_ok());
        for name in whole.tensors.keys() {
            saved()?;
            alter(&path, |file| {
                let values = &mut file.tensors.get_mut(name).expect("a tensor").values;
                let last = values.len() - 1;
                values[last] = values[last].next_up();
            })?;
            refused(name);
        }
        for key in whole.metadata.keys().filter(|key| !["fingerprint", "format", "version"].contains(&key.as_str())) {
            saved()?;
            alter(&path, |file| file.metadata.get_mut(key).expect("an entry").push(' '))?;
            refused(key);
        }
        saved()?;
        alter(&path, |file| drop(file.metadata.insert("note".to_string(), "added".to_string())))?;
        refused("a new entry");
    }
    Ok(())
}

#[test]
fn version_1_is_refused_with_what_to_do() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    Case::regression(20).fit(Structure::Auto)?.save(&path, Contents::TrainingData)?;
    for version in ["1", "3", "two"] {
        alter(&path, |file| drop(file.metadata.insert("version".to_string(), version.to_string())))?;
        match Laplace::load(&path) {
            Err(Error::Metadata { key: "version", problem, .. }) => {
                assert_eq!(problem.contains("fit the model again"), version == "1", "{problem}");
                assert!(problem.contains(version), "{problem}");
            }
            other => panic!("{version}: {:?}", other.err()),
        }
    }
    Ok(())
}

#[test]
fn a_loaded_posterior_is_tuned_to_the_optimum_that_it_would_have_had_before() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    let inputs = normal_matrix(4, 2, 71);
    for case in cases() {
        for structure in STRUCTURES {
            for contents in [Contents::TrainingData, Contents::Curvature] {
                let mut laplace = case.fit(structure)?;
                match laplace.save(&path, contents) {
                    // Function space is made of the data.
                    Err(Error::Unsupported(_)) if structure == Structure::FunctionSpace => continue,
                    saved => saved?,
                }
                let mut loaded = Laplace::load(&path)?;
                for prior_structure in [PriorStructure::Scalar, PriorStructure::PerLayer] {
                    let options = EvidenceOptions { prior_structure, ..Default::default() };
                    let name = format!("{structure}, {contents:?}, {prior_structure:?}");
                    assert_eq!(loaded.optimize(&options)?, laplace.optimize(&options)?, "{name}");
                    assert_eq!(fit_bits(&loaded), fit_bits(&laplace), "{name}");
                    let predicted =
                        |laplace: &Laplace| prediction_bits(&laplace.predict(&inputs, &Default::default())?);
                    assert_eq!(predicted(&loaded)?, predicted(&laplace)?, "{name}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn one_noise_level_becomes_several_only_where_the_data_are_at_hand() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    let case = Case::new(gaussian(0.3), 2, 20);
    for structure in STRUCTURES {
        let mut laplace = case.fit(structure)?;
        laplace.save(&path, Contents::TrainingData)?;
        let mut loaded = Laplace::load(&path)?;
        laplace.set_hyperparameters(&0.8.into(), &[0.2, 0.5])?;
        loaded.set_hyperparameters(&0.8.into(), &[0.2, 0.5])?;
        assert_eq!(fit_bits(&loaded), fit_bits(&laplace), "{structure}");
        // As if it had been fitted with both levels.
        let family = Family::gaussian_per_output(&[0.2, 0.5])?;
        let options = FitOptions { prior_precision: 0.8.into(), structure, ..Default::default() };
        let direct = Laplace::fit(case.network.clone(), case.data.clone(), family, &options)?;
        assert_eq!(fit_bits(&direct), fit_bits(&laplace), "{structure}");
        if structure == Structure::FunctionSpace {
            continue;
        }
        case.fit(structure)?.save(&path, Contents::Curvature)?;
        let mut without = Laplace::load(&path)?;
        let before = fit_bits(&without);
        let refused = without.set_hyperparameters(&0.8.into(), &[0.2, 0.5]);
        assert!(matches!(refused, Err(Error::NoTrainingData { what: "one sigma per output" })), "{structure}");
        assert_eq!(fit_bits(&without), before, "{structure}: a refusal changes nothing");
    }
    Ok(())
}

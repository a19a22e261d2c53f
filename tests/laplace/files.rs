//! Posteriors in files: the same bits after loading, and files that are refused.

use std::path::Path;

use riemannian_laplace::EvidenceOptions;
use riemannian_laplace::Family;
use riemannian_laplace::Model;
use riemannian_laplace::internals::evidence::PriorStructure;
use riemannian_laplace::internals::laplace::PosteriorError;
use riemannian_laplace::internals::tensors::{self, Entry, FINGERPRINT, TensorFile, Values};
use riemannian_laplace::{Activation, Network};
use riemannian_laplace::{Contents, FitOptions, Laplace, Structure};
use riemannian_laplace::{Error, Unsupported};

use crate::common::{Outcome, architecture, is_close, normal_matrix, random_data, random_network};
use crate::{bits, cases};

#[test]
fn saved_posteriors_predict_the_same_bits() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    for case in cases() {
        let inputs = normal_matrix(4, case.network.architecture().n_inputs(), 5);
        for (solver, contents) in [
            (Structure::WeightSpace, Contents::TrainingData),
            (Structure::FunctionSpace, Contents::TrainingData),
            (Structure::WeightSpace, Contents::Curvature),
        ] {
            let mut laplace = case.fit(solver);
            laplace.save(&path, contents)?;
            let mut loaded = Laplace::load_for(&path, &case.network)?;
            let name = format!("{}, {solver:?}, {contents:?}", case.name);
            assert_eq!(loaded.data().is_some(), contents == Contents::TrainingData, "{name}");
            assert_eq!(loaded.data().is_some(), loaded.target("fisher").is_ok(), "{name}");
            for _ in 0..2 {
                assert_eq!(laplace.family(), loaded.family(), "{name}");
                assert_eq!(laplace.prior(), loaded.prior(), "{name}");
                assert_eq!(laplace.n_data(), loaded.n_data(), "{name}");
                let (a, b) = (laplace.linearized(&inputs)?, loaded.linearized(&inputs)?);
                assert_eq!(bits(&a.mean), bits(&b.mean), "{name}");
                assert_eq!(bits(&a.covariance), bits(&b.covariance), "{name}");
                assert_eq!(bits(&laplace.sample(3, 1)?), bits(&loaded.sample(3, 1)?), "{name}");
                let (a, b) = (laplace.log_marginal_likelihood(), loaded.log_marginal_likelihood());
                assert_eq!(a.to_bits(), b.to_bits(), "{name}");
                // Once more after tuning, which both can do, and after the tuned posterior went through a file too.
                let options = EvidenceOptions { prior_structure: PriorStructure::PerLayer, ..Default::default() };
                assert_eq!(laplace.optimize(&options)?, loaded.optimize(&options)?, "{name}");
                loaded.save(&path, contents)?;
                loaded = Laplace::load(&path)?;
            }
        }
    }
    Ok(())
}

/// A small posterior in a file.
fn saved(path: &Path, contents: Contents) -> Result<Laplace, Error> {
    let family = Family::gaussian(0.3)?;
    let network = random_network(architecture(&[2, 3, 1], &[true, true], Activation::Tanh), 1);
    let data = random_data(&network, &family, 20, 1);
    let options = FitOptions { prior_precision: vec![0.5, 2.0].into(), ..Default::default() };
    let laplace = Laplace::fit(network, data, family, &options)?;
    laplace.save(path, contents)?;
    Ok(laplace)
}

/// Whether an altered file gets the fingerprint of its new contents.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Seal {
    Old,
    New,
}

/// Rewrites a file after a change of its tensors or metadata.
fn tamper(path: &Path, seal: Seal, change: impl FnOnce(&mut TensorFile)) -> Result<(), Error> {
    let mut file = TensorFile::read(path)?;
    change(&mut file);
    let entries: Vec<Entry<'_>> = file
        .tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.shape.clone(), Values::Real(&tensor.values)))
        .collect();
    let mut metadata = file.metadata.clone();
    if seal == Seal::New {
        metadata.insert(FINGERPRINT.to_string(), tensors::fingerprint(&entries, &metadata));
    }
    tensors::write(path, &entries, metadata)
}

#[test]
fn a_posterior_of_another_network_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    let laplace = saved(&path, Contents::TrainingData)?;
    let mut theta = laplace.parameters().to_vec();
    theta[4] *= 1.0 + f64::EPSILON;
    let nearly = Network::new(architecture(&[2, 3, 1], &[true, true], Activation::Tanh), theta)?;
    let relu = architecture(&[2, 3, 1], &[true, true], Activation::Relu);
    let other_activation = Network::new(relu, laplace.parameters().to_vec())?;
    for other in [nearly, other_activation] {
        match Laplace::load_for(&path, &other) {
            Err(Error::Posterior(PosteriorError::OtherModel { expected, found })) => {
                assert_eq!(expected, laplace.model().description());
                assert_eq!(found, other.description());
            }
            outcome => panic!("accepted, or refused for another reason: {:?}", outcome.err()),
        }
    }
    assert!(Laplace::load_for(&path, &**laplace.model()).is_ok());
    Ok(())
}

type Change = (&'static str, Contents, fn(&mut TensorFile), &'static str);

const WITH_DATA: Contents = Contents::TrainingData;
const WITHOUT: Contents = Contents::Curvature;

fn set(file: &mut TensorFile, key: &str, value: &str) {
    file.metadata.insert(key.to_string(), value.to_string());
}

fn replace(file: &mut TensorFile, key: &str, from: &str, to: &str) {
    let text = file.metadata[key].clone();
    assert!(text.contains(from), "`{key}` is {text}");
    set(file, key, &text.replace(from, to));
}

fn values<'a>(file: &'a mut TensorFile, name: &str) -> &'a mut Vec<f64> {
    &mut file.tensors.get_mut(name).unwrap().values
}

fn reshape(file: &mut TensorFile, name: &str, shape: &[usize]) {
    file.tensors.get_mut(name).unwrap().shape = shape.to_vec();
}

/// What is changed, and a word that the error must contain where the file has the fingerprint of its new contents.
fn changes() -> Vec<Change> {
    vec![
        ("no such activation", WITH_DATA, |file| replace(file, "model", "tanh", "tan"), "model"),
        ("no layers", WITH_DATA, |file| set(file, "model", "[]"), "model"),
        (
            "an offset",
            WITH_DATA,
            |file| replace(file, "model", "\"bias\":true", "\"bias\":true,\"offset\":99"),
            "model",
        ),
        ("a width", WITH_DATA, |file| replace(file, "model", "\"inputs\":3", "\"inputs\":4"), "model"),
        (
            "a huge width",
            WITH_DATA,
            |file| replace(file, "model", "\"inputs\":2", "\"inputs\":9223372036854775807"),
            "model",
        ),
        ("no prior", WITH_DATA, |file| set(file, "prior", "[]"), "prior"),
        ("a negative prior", WITH_DATA, |file| set(file, "prior", "[-1.0]"), "prior"),
        ("three priors", WITHOUT, |file| set(file, "prior", "[1,1,1]"), "prior"),
        (
            "a prior of another form",
            WITH_DATA,
            |file| set(file, "prior", r#"{"values":[1.0],"groups":[9,4]}"#),
            "prior",
        ),
        (
            "two noise levels",
            WITH_DATA,
            |file| set(file, "likelihood", r#"{"name":"gaussian","sigma":[1,2]}"#),
            "output",
        ),
        (
            "two noise levels, without data",
            WITHOUT,
            |file| set(file, "likelihood", r#"{"name":"gaussian","sigma":[1,2]}"#),
            "output",
        ),
        ("no noise level", WITH_DATA, |file| set(file, "likelihood", r#"{"name":"gaussian"}"#), "sigma"),
        ("no such family", WITH_DATA, |file| set(file, "likelihood", r#"{"name":"cauchy"}"#), "cauchy"),
        ("another family", WITH_DATA, |file| set(file, "likelihood", r#"{"name":"poisson"}"#), "likelihood"),
        (
            "another family that has not seen these targets",
            WITH_DATA,
            |file| {
                set(file, "likelihood", r#"{"name":"poisson"}"#);
                set(file, "fit", r#"{"log_likelihood":-1.0}"#);
            },
            "poisson",
        ),
        ("the structure", WITH_DATA, |file| set(file, "structure", "dense"), "structure"),
        ("the number of data", WITHOUT, |file| set(file, "n_data", "-3"), "n_data"),
        ("no data", WITHOUT, |file| set(file, "n_data", "0"), "n_data"),
        ("no targets", WITH_DATA, |file| drop(file.tensors.remove("targets")), "targets"),
        ("a flat list of inputs", WITH_DATA, |file| reshape(file, "inputs", &[40]), "inputs"),
        ("no weights", WITH_DATA, |file| drop(file.tensors.remove("theta")), "theta"),
        ("no curvature", WITHOUT, |file| drop(file.tensors.remove("sums.0")), "sums.0"),
        ("no errors", WITHOUT, |file| drop(file.metadata.remove("fit")), "fit"),
        ("two errors", WITHOUT, |file| set(file, "fit", r#"{"squared_errors":[1.0,2.0]}"#), "squared errors"),
        ("a curvature of another shape", WITHOUT, |file| reshape(file, "sums.0", &[7, 13]), "sums.0"),
        ("no factor", WITH_DATA, |file| drop(file.tensors.remove("factor.cholesky")), "factor.cholesky"),
        ("a factor of another shape", WITHOUT, |file| reshape(file, "factor.cholesky", &[7, 13]), "factor.cholesky"),
        ("an indefinite factor", WITHOUT, |file| values(file, "factor.cholesky")[0] = -1e3, "positive definite"),
        (
            "an indefinite factor, with data",
            WITH_DATA,
            |file| values(file, "factor.cholesky")[0] = 0.0,
            "positive definite",
        ),
    ]
}

#[test]
fn an_altered_file_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    for (what, contents, change, word) in changes() {
        saved(&path, contents)?;
        tamper(&path, Seal::Old, change)?;
        let error = Laplace::load(&path).expect_err(what);
        assert!(matches!(error, Error::Metadata { key: "fingerprint", .. }), "{what}: {error}");

        tamper(&path, Seal::New, |_| ())?;
        let error = Laplace::load(&path).expect_err(what);
        assert!(!matches!(error, Error::Metadata { key: "fingerprint", .. }), "{what}: {error}");
        assert!(error.to_string().contains(word), "{what}: {error}");
    }

    // Where the contents alone do not contradict the change.
    let changes: Vec<Change> = vec![
        ("a weight", WITH_DATA, |file| values(file, "theta")[0] += 1e-9, "fingerprint"),
        ("a weight, without data", WITHOUT, |file| values(file, "theta")[0] = 0.0, "fingerprint"),
        ("an input", WITH_DATA, |file| values(file, "inputs")[0] += 1e-9, "fingerprint"),
        ("the curvature", WITHOUT, |file| values(file, "sums.0")[0] *= 2.0, "fingerprint"),
        ("the factor", WITHOUT, |file| values(file, "factor.cholesky")[0] *= 2.0, "fingerprint"),
        ("the fingerprint", WITH_DATA, |file| set(file, "fingerprint", "0123456789abcdef"), "fingerprint"),
        ("no fingerprint", WITH_DATA, |file| drop(file.metadata.remove("fingerprint")), "fingerprint"),
        ("the activation", WITH_DATA, |file| replace(file, "model", "tanh", "relu"), "fingerprint"),
        ("the format", WITH_DATA, |file| set(file, "format", "something else"), "format"),
        ("no format", WITH_DATA, |file| drop(file.metadata.remove("format")), "format"),
        ("a later version", WITH_DATA, |file| set(file, "version", "3"), "version"),
        ("an earlier version", WITH_DATA, |file| set(file, "version", "1"), "fit the model again"),
    ];
    for (what, contents, change, word) in changes {
        saved(&path, contents)?;
        tamper(&path, Seal::Old, change)?;
        let error = Laplace::load(&path).expect_err(what);
        assert!(error.to_string().contains(word), "{what}: {error}");
    }

    saved(&path, WITH_DATA)?;
    let bytes = std::fs::read(&path)?;
    for length in [0, 7, 100, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length])?;
        assert!(matches!(Laplace::load(&path), Err(Error::Safetensors { .. })), "{length} bytes were accepted");
    }
    assert!(matches!(Laplace::load(&folder.path().join("absent")), Err(Error::Io { .. })));
    Ok(())
}

#[test]
fn an_indefinite_curvature_is_refused_when_it_is_needed() -> Outcome {
    // The factor is read, not recomputed: the curvature is used only with other hyperparameters.
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    let whole = saved(&path, WITHOUT)?;
    tamper(&path, Seal::New, |file| values(file, "sums.0")[0] = -1e6)?;
    let mut loaded = Laplace::load(&path)?;
    let inputs = normal_matrix(3, 2, 1);
    assert_eq!(bits(&loaded.linearized(&inputs)?.covariance), bits(&whole.linearized(&inputs)?.covariance));
    let error = loaded.set_hyperparameters(&1.0.into(), &[0.3]).expect_err("an indefinite curvature");
    assert!(error.to_string().contains("positive definite"), "{error}");
    Ok(())
}

#[test]
fn a_saved_posterior_is_described_by_its_contents() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    for (contents, names) in [
        (WITH_DATA, ["factor.cholesky", "inputs", "targets", "theta"].as_slice()),
        (WITHOUT, ["factor.cholesky", "sums.0", "theta"].as_slice()),
    ] {
        let laplace = saved(&path, contents)?;
        let file = TensorFile::read(&path)?;
        assert_eq!(file.tensors.keys().collect::<Vec<_>>(), names);
        let keys = ["fingerprint", "fit", "format", "likelihood", "model", "n_data", "prior", "schema", "structure"];
        assert_eq!(file.metadata.keys().collect::<Vec<_>>(), [keys.as_slice(), &["version"]].concat());
        assert_eq!(file.metadata["version"], "2");
        assert_eq!(file.metadata["fingerprint"], file.fingerprint());
        // The lower triangle, column by column: 13 numbers of the first, one of the last.
        let factor = &file.tensors["factor.cholesky"].values;
        assert_eq!(factor.len(), 13 * 14 / 2);
        let mut place = 0;
        let mut log_det = 0.0;
        for column in 0..13 {
            log_det += 2.0 * factor[place].ln();
            place += 13 - column;
        }
        let expected = laplace.log_det_ratio() + laplace.prior().log_det();
        assert!(is_close(log_det, expected, 1e-12, 1.0), "{log_det} for {expected}");
    }
    Ok(())
}

#[test]
fn without_data_only_a_weight_space_posterior_can_be_saved() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    let case = &cases()[0];
    let outcome = case.fit(Structure::FunctionSpace).save(&path, Contents::Curvature);
    assert!(matches!(outcome, Err(Error::Unsupported(Unsupported::SaveWithoutData("function-space")))));
    assert!(!path.exists());
    case.fit(Structure::WeightSpace).save(&path, Contents::Curvature)?;
    let file = TensorFile::read(&path)?;
    assert!(!file.tensors.contains_key("inputs") && !file.tensors.contains_key("targets"));
    assert!(matches!(Laplace::load(&path)?.target("fisher"), Err(Error::NoTrainingData { what: "fisher" })));
    Ok(())
}

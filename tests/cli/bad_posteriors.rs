//! Posterior files that were altered or damaged: status 2, and an error that names the file and the place.

use riemannian_laplace::internals::tensors::{self, FINGERPRINT, TensorFile, Values};

use super::Folder;

const PREDICT: &str = "predict --posterior p.safetensors --inputs d.csv --target y";

/// A folder with a posterior, fitted with the given options.
fn folder(options: &str) -> Folder {
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 3, 1]);
    folder.write("d.csv", "x,y\n1,2\n2,3\n4,0\n");
    folder.ok(&format!(
        "fit --model m.safetensors --data d.csv --target y --likelihood gaussian --out good.safetensors {options}"
    ));
    folder
}

/// The fingerprint of a file that was changed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Seal {
    /// The old one.
    Old,
    /// That of the new contents.
    New,
}

/// Changes the good posterior and writes it as `p.safetensors`.
fn tamper(folder: &Folder, seal: Seal, change: impl FnOnce(&mut TensorFile)) {
    let mut file = TensorFile::read(&folder.path("good.safetensors")).expect("the posterior");
    change(&mut file);
    let entries: Vec<_> = file
        .tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.shape.clone(), Values::Real(&tensor.values)))
        .collect();
    let mut metadata = file.metadata.clone();
    if seal == Seal::New {
        metadata.insert(FINGERPRINT.to_string(), tensors::fingerprint(&entries, &metadata));
    }
    tensors::write(&folder.path("p.safetensors"), &entries, metadata).expect("a tampered posterior");
}

/// A change must be refused by the fingerprint and, when the fingerprint is that of the new contents, with these words.
fn refuses(folder: &Folder, words: &[&str], change: impl Fn(&mut TensorFile)) {
    refused_by_fingerprint(folder, &change);
    tamper(folder, Seal::New, &change);
    folder.refuses(PREDICT, &[&["p.safetensors"], words].concat());
}

/// A change must be refused by the fingerprint.
fn refused_by_fingerprint(folder: &Folder, change: impl Fn(&mut TensorFile)) {
    tamper(folder, Seal::Old, change);
    folder.refuses(PREDICT, &["p.safetensors", "metadata `fingerprint`", "altered or damaged"]);
}

fn set(key: &str, value: &str) -> impl Fn(&mut TensorFile) {
    move |file| {
        let old = file.metadata.insert(key.to_string(), value.to_string());
        assert!(old.is_some_and(|old| old != value), "{key} is {value} already");
    }
}

fn without(name: &str) -> impl Fn(&mut TensorFile) {
    move |file| assert!(file.tensors.remove(name).is_some(), "no tensor {name}")
}

fn reshaped<'a>(name: &'a str, shape: &'a [usize]) -> impl Fn(&mut TensorFile) + 'a {
    move |file| {
        let tensor = tensors::Tensor { shape: shape.to_vec(), values: vec![0.5; shape.iter().product()] };
        assert!(file.tensors.insert(name.to_string(), tensor).is_some(), "no tensor {name}");
    }
}

fn value(name: &str, index: usize, value: f64) -> impl Fn(&mut TensorFile) {
    move |file| file.tensors.get_mut(name).expect("a tensor").values[index] = value
}

#[test]
fn metadata_that_are_missing() {
    let folder = folder("");
    for seal in [Seal::Old, Seal::New] {
        tamper(&folder, seal, |_| ());
        folder.ok(PREDICT);
    }
    for key in ["model", "likelihood", "prior", "structure", "n_data", "fit", "schema"] {
        refuses(&folder, &[&format!("metadata `{key}` is missing")], |file| {
            assert!(file.metadata.remove(key).is_some(), "no metadata {key}");
        });
    }
    // The format of a file is checked before its contents.
    for key in ["format", "version", "fingerprint"] {
        tamper(&folder, Seal::Old, |file| {
            assert!(file.metadata.remove(key).is_some(), "no metadata {key}");
        });
        folder.refuses(PREDICT, &["p.safetensors", &format!("metadata `{key}` is missing")]);
    }
}

#[test]
fn metadata() {
    let folder = folder("");
    let layers = |first: &str, second: &str| {
        format!("[{{\"linear\":{{{first}}}}},{{\"activation\":\"tanh\"}},{{\"linear\":{{{second}}}}}]")
    };
    let (first, second) = ("\"inputs\":1,\"outputs\":3,\"bias\":true", "\"inputs\":3,\"outputs\":1,\"bias\":true");
    let file = TensorFile::read(&folder.path("good.safetensors")).expect("the posterior");
    assert_eq!(file.metadata["model"], layers(first, second));
    let loose = layers(first, "\"inputs\":9,\"outputs\":1,\"bias\":true");
    let offset = layers(&format!("{first},\"offset\":7"), second);
    let huge = layers("\"inputs\":18446744073709551615,\"outputs\":3,\"bias\":true", second);
    let swoosh = layers(first, second).replace("tanh", "swoosh");
    let narrow = layers(first, second).replace('3', "2");
    for (key, value, words) in [
        ("model", "{}", vec!["metadata `model`", "cannot be used"]),
        ("model", "[]", vec!["metadata `model`", "cannot be used"]),
        ("model", &loose, vec!["metadata `model`", "cannot be used", "9"]),
        ("model", &offset, vec!["metadata `model`", "cannot be used", "offset"]),
        ("model", &huge, vec!["metadata `model`", "cannot be used"]),
        ("model", &swoosh, vec!["metadata `model`", "cannot be used", "swoosh"]),
        ("model", &narrow, vec!["metadata `model`", "cannot be used", "expected 7, found 10"]),
        ("likelihood", "{\"name\":\"cauchy\"}", vec!["metadata `likelihood`", "cannot be read", "`cauchy`"]),
        (
            "likelihood",
            "{\"name\":\"gaussian\",\"sigma\":[-1]}",
            vec!["metadata `likelihood`", "cannot be read", "sigma"],
        ),
        ("likelihood", "{\"name\":\"gaussian\"}", vec!["metadata `likelihood`", "cannot be read", "sigma"]),
        ("likelihood", "{\"name\":\"gaussian\",\"sigma\":[1,2,3]}", vec!["3 noise levels for 1 network output"]),
        ("likelihood", "{\"name\":\"categorical\"}", vec!["categorical", "at least 2"]),
        ("likelihood", "{\"name\":\"poisson\"}", vec!["metadata `fit`", "does not belong to the likelihood"]),
        ("prior", "[]", vec!["metadata `prior`", "cannot be used", "expected 2, found 0"]),
        ("prior", "[0]", vec!["metadata `prior`", "cannot be used", "positive"]),
        ("prior", "[1,2,3]", vec!["metadata `prior`", "cannot be used", "expected 2, found 3"]),
        ("prior", "{\"values\":[1],\"groups\":[10]}", vec!["metadata `prior`", "cannot be read"]),
        ("structure", "abacus", vec!["metadata `structure`", "`abacus`", "not known"]),
        ("n_data", "0", vec!["metadata `n_data`", "`0`", "not a number of data points"]),
        ("n_data", "-3", vec!["metadata `n_data`", "`-3`", "not a number of data points"]),
        ("n_data", "4", vec!["number of rows of `inputs`", "expected 4, found 3"]),
        ("fit", "{}", vec!["metadata `fit`", "cannot be read"]),
        ("fit", "{\"squared_errors\":[1,2]}", vec!["squared errors", "expected 1, found 2"]),
        ("fit", "{\"log_likelihood\":-1}", vec!["metadata `fit`", "does not belong to the likelihood"]),
        ("schema", "{}", vec!["metadata `schema`", "cannot be read", "inputs"]),
        ("schema", "{\"inputs\":[\"x\"],\"targets\":[\"x\"]}", vec!["metadata `schema`", "`x` appears twice"]),
        ("schema", "{\"inputs\":[\"x\",\"w\"],\"targets\":[\"y\"]}", vec!["expected 1, found 2"]),
    ] {
        refuses(&folder, &words, set(key, value));
    }
}

#[test]
fn another_format_version_or_fingerprint() {
    let folder = folder("");
    for seal in [Seal::Old, Seal::New] {
        for (key, value, words) in [
            ("format", "something else", ["metadata `format`", "`something else`"]),
            ("version", "1", ["metadata `version` is 1", "fit the model again"]),
            ("version", "99", ["metadata `version` is 99", "reads version 2"]),
            ("version", "one", ["metadata `version` is one", "reads version 2"]),
        ] {
            tamper(&folder, seal, set(key, value));
            folder.refuses(PREDICT, &[&["p.safetensors"], &words[..]].concat());
        }
    }
    refused_by_fingerprint(&folder, set("fingerprint", "0000000000000000"));
    refused_by_fingerprint(&folder, set("fingerprint", ""));
}

#[test]
fn tensors_of_a_posterior() {
    for (solver, length) in [("function-space", 3 * 4 / 2), ("weight-space", 10 * 11 / 2)] {
        let folder = folder(&format!("--solver {solver}"));
        let file = TensorFile::read(&folder.path("good.safetensors")).expect("the posterior");
        assert_eq!(file.tensors["factor.cholesky"].shape, [length], "{solver}");
        for name in ["theta", "targets", "factor.cholesky"] {
            refuses(&folder, &[&format!("`{name}` is missing")], without(name));
        }
        for (name, shape, words) in [
            ("theta", vec![3], vec!["metadata `model`", "expected 10, found 3"]),
            ("inputs", vec![3, 2], vec!["number of columns of `inputs`", "expected 1, found 2"]),
            ("inputs", vec![2, 1], vec!["number of rows of `inputs`", "expected 3, found 2"]),
            ("inputs", vec![3], vec!["`inputs`", "[3]", "one row per data point"]),
            ("targets", vec![3], vec!["`targets`", "[3]", "one row per data point"]),
            ("targets", vec![2, 1], vec!["expected 3, found 2"]),
            ("factor.cholesky", vec![length + 1], vec!["`factor.cholesky`", &format!("expected [{length}]")]),
        ] {
            refuses(&folder, &words, reshaped(name, &shape));
        }
    }
}

#[test]
fn changes_that_the_fingerprint_alone_notices() {
    let folder = folder("");
    for name in ["theta", "inputs", "targets", "factor.cholesky"] {
        refused_by_fingerprint(&folder, |file| {
            let value = &mut file.tensors.get_mut(name).expect("a tensor").values[0];
            *value = value.next_up();
        });
        // The changed values could have been fitted.
        tamper(&folder, Seal::New, |file| {
            let value = &mut file.tensors.get_mut(name).expect("a tensor").values[0];
            *value = value.next_up();
        });
        folder.ok(PREDICT);
    }
    // Another training row.
    refused_by_fingerprint(&folder, |file| {
        value("inputs", 1, 2.5)(file);
        value("targets", 1, 3.5)(file);
    });
    refused_by_fingerprint(&folder, set("n_data", "4"));
    refused_by_fingerprint(&folder, set("prior", "[2.0]"));
    refused_by_fingerprint(&folder, set("likelihood", "{\"name\":\"gaussian\",\"sigma\":[2.0]}"));
    refused_by_fingerprint(&folder, set("schema", "{\"inputs\":[\"x\"],\"targets\":[\"z\"]}"));
    refused_by_fingerprint(&folder, |file| {
        file.metadata.insert("remark".to_string(), "added later".to_string());
    });
}

#[test]
fn a_factor_whose_diagonal_is_not_positive() {
    for (options, size) in [("--solver function-space", 3), ("--solver weight-space", 10), ("--without-data", 10)] {
        let folder = folder(options);
        // The first number of the second column.
        for entry in [0.0, -1.0] {
            refuses(&folder, &["not positive definite", "entry 1", "fit again"], value("factor.cholesky", size, entry));
        }
    }
}

#[test]
fn a_posterior_without_data() {
    let folder = folder("--without-data");
    for seal in [Seal::Old, Seal::New] {
        tamper(&folder, seal, |_| ());
        folder.ok(PREDICT);
    }
    let file = TensorFile::read(&folder.path("good.safetensors")).expect("the posterior");
    assert_eq!(file.tensors.keys().collect::<Vec<_>>(), ["factor.cholesky", "sums.0", "theta"]);
    for name in ["sums.0", "factor.cholesky", "theta"] {
        refuses(&folder, &[&format!("`{name}` is missing")], without(name));
    }
    refuses(&folder, &["metadata `fit` is missing"], |file| {
        file.metadata.remove("fit");
    });
    refuses(&folder, &["`sums.0`", "[2, 10]", "expected [55]"], reshaped("sums.0", &[2, 10]));
    refused_by_fingerprint(&folder, set("n_data", "4"));
    refused_by_fingerprint(&folder, value("sums.0", 0, 7.0));
    refuses(
        &folder,
        &["number of input names", "expected 1, found 2"],
        set("schema", "{\"inputs\":[\"x\",\"w\"],\"targets\":[\"y\"]}"),
    );
    refuses(&folder, &["function-space", "training data"], set("structure", "function-space"));
}

#[test]
fn broken_files() {
    let folder = folder("");
    let good = std::fs::read(folder.path("good.safetensors")).expect("a posterior");
    for length in [good.len() - 1, good.len() / 2, 8, 0] {
        folder.write("p.safetensors", &good[..length]);
        folder.refuses(PREDICT, &["p.safetensors", "not a valid safetensors file"]);
    }
    std::fs::remove_file(folder.path("p.safetensors")).expect("the damaged file");
    folder.refuses(PREDICT, &["p.safetensors", "No such file"]);
    folder.refuses("evaluate --posterior p.safetensors --data d.csv --target y", &["p.safetensors", "No such file"]);
}

//! Posterior files that were tampered with or damaged: status 2, the file and the place.

use riemannian_laplace::tensors::{self, TensorFile, Values};

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

/// Changes the good posterior and writes it as `p.safetensors`.
fn tamper(folder: &Folder, change: impl FnOnce(&mut TensorFile)) {
    let mut file = TensorFile::read(&folder.path("good.safetensors")).expect("the posterior");
    change(&mut file);
    let entries: Vec<_> = file
        .tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.shape.clone(), Values::Real(&tensor.values)))
        .collect();
    tensors::write(&folder.path("p.safetensors"), &entries, file.metadata).expect("a tampered posterior");
}

#[test]
fn metadata() {
    let folder = folder("");
    tamper(&folder, |_| ());
    folder.ok(PREDICT);
    for key in ["version", "fingerprint", "architecture", "likelihood", "prior", "solver"] {
        tamper(&folder, |file| {
            file.metadata.remove(key);
        });
        folder.refuses(PREDICT, &["p.safetensors", &format!("metadata `{key}`"), "missing"]);
    }
    let empty = "{\"layers\":[],\"activation\":\"tanh\"}";
    let loose = "{\"layers\":[{\"inputs\":1,\"outputs\":3,\"bias\":true,\"offset\":7},\
                 {\"inputs\":9,\"outputs\":1,\"bias\":true,\"offset\":0}],\"activation\":\"tanh\"}";
    let huge = "{\"layers\":[{\"inputs\":18446744073709551615,\"outputs\":3,\"bias\":true,\"offset\":0}],\"activation\":\"tanh\"}";
    for (key, value) in [
        ("format", "something else"),
        ("version", "99"),
        ("version", "one"),
        ("fingerprint", "0000000000000000"),
        ("architecture", "{}"),
        ("architecture", empty),
        ("architecture", loose),
        ("architecture", huge),
        ("likelihood", "{\"name\":\"cauchy\"}"),
        ("likelihood", "{\"name\":\"gaussian\",\"sigma\":[-1]}"),
        ("likelihood", "{\"name\":\"gaussian\"}"),
        ("likelihood", "{\"name\":\"gaussian\",\"sigma\":[1,2,3]}"),
        ("likelihood", "{\"name\":\"categorical\"}"),
        ("prior", "{\"values\":[],\"groups\":[]}"),
        ("prior", "{\"values\":[0],\"groups\":[10]}"),
        ("prior", "{\"values\":[1,2,3],\"groups\":[10]}"),
        ("solver", "abacus"),
    ] {
        tamper(&folder, |file| {
            file.metadata.insert(key.to_string(), value.to_string());
        });
        folder.refuses(PREDICT, &["p.safetensors"]);
    }
}

#[test]
fn tensors_of_a_posterior() {
    let folder = folder("");
    for name in ["theta", "targets"] {
        tamper(&folder, |file| {
            file.tensors.remove(name);
        });
        folder.refuses(PREDICT, &["p.safetensors", &format!("`{name}`"), "missing"]);
    }
    // Another weight: the fingerprint notices.
    tamper(&folder, |file| {
        file.tensors.entry("theta".to_string()).and_modify(|theta| theta.values[0] += 1.0);
    });
    folder.refuses(PREDICT, &["p.safetensors", "fingerprint"]);
    for (name, shape) in [("theta", vec![3]), ("inputs", vec![3, 2]), ("inputs", vec![2, 1]), ("targets", vec![3])] {
        tamper(&folder, |file| {
            let size = shape.iter().product();
            let tensor = tensors::Tensor { shape, values: vec![0.5; size] };
            file.tensors.insert(name.to_string(), tensor);
        });
        folder.refuses(PREDICT, &["p.safetensors"]);
    }
}

#[test]
fn a_posterior_without_data() {
    let folder = folder("--without-data");
    tamper(&folder, |_| ());
    folder.ok(PREDICT);
    for name in ["curvature.0", "squared_errors"] {
        tamper(&folder, |file| {
            file.tensors.remove(name);
        });
        folder.refuses(PREDICT, &["p.safetensors", &format!("`{name}`"), "missing"]);
    }
    tamper(&folder, |file| {
        let tensor = tensors::Tensor { shape: vec![2, 10], values: vec![0.0; 20] };
        file.tensors.insert("curvature.0".to_string(), tensor);
    });
    folder.refuses(PREDICT, &["p.safetensors", "`curvature.0`", "[2, 10]"]);
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

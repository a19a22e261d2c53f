//! A posterior that was altered is refused, whatever was altered.

use riemannian_laplace::internals::tensors::{TensorFile, Values, fingerprint, write};

use super::{FIT, fitted};

const PREDICT: &str = "predict --posterior q.safetensors --inputs d.csv --target y";

/// Writes a copy of the posterior with one tensor or entry of the metadata changed, signed anew if `sign` says so.
fn altered(folder: &super::Folder, sign: bool, change: impl Fn(&mut TensorFile)) {
    let mut file = TensorFile::read_numbers(&folder.path("p.safetensors")).expect("a posterior");
    change(&mut file);
    let entries: Vec<_> = file
        .tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor.shape.clone(), Values::Real(&tensor.values)))
        .collect();
    let mut metadata = file.metadata.clone();
    if sign {
        metadata.insert("fingerprint".to_string(), fingerprint(&entries, &file.metadata));
    }
    write(&folder.path("q.safetensors"), &entries, metadata).expect("a file");
}

#[test]
fn every_alteration_of_a_posterior_is_noticed() {
    let folder = fitted();
    altered(&folder, false, |_| {});
    folder.ok(PREDICT);
    for name in ["theta", "inputs", "targets", "factor.cholesky"] {
        let file = TensorFile::read_numbers(&folder.path("p.safetensors")).expect("a posterior");
        let Some(name) = file.names().iter().find(|found| found.starts_with(name.split('.').next().unwrap_or(name)))
        else {
            panic!("no {name} among {:?}", file.names());
        };
        altered(&folder, false, |file| {
            let tensor = file.tensors.get_mut(name).expect("a tensor");
            let last = tensor.values.len() - 1;
            tensor.values[last] = tensor.values[last].next_up();
        });
        folder.refuses(PREDICT, &["q.safetensors", "fingerprint", "altered or damaged"]);
    }
    for (key, value) in [("n_data", "999"), ("prior", "[2.0]"), ("structure", "weight-space"), ("extra", "x")] {
        altered(&folder, false, |file| {
            file.metadata.insert(key.to_string(), value.to_string());
        });
        folder.refuses(PREDICT, &["q.safetensors", "fingerprint"]);
    }
}

#[test]
fn contradictions_are_noticed_even_where_the_file_was_signed_anew() {
    let folder = fitted();
    altered(&folder, true, |file| {
        file.metadata.insert("n_data".to_string(), "999".to_string());
    });
    folder.refuses(PREDICT, &["number of rows of `inputs`", "999", "12"]);
    altered(&folder, true, |file| {
        file.tensors.get_mut("targets").expect("targets").shape = vec![6, 2];
    });
    assert_eq!(folder.rla(PREDICT).status, Some(2));
    // The curvature is a packed triangle: there is no second half that could contradict the first.
    folder.ok(&format!("{FIT} --sigma 0.3 --without-data --structure full --solver weight-space --out p.safetensors"));
    let file = TensorFile::read_numbers(&folder.path("p.safetensors")).expect("a posterior");
    let sums: Vec<_> = file.tensors.iter().filter(|(name, _)| name.starts_with("sums.")).collect();
    assert!(!sums.is_empty());
    for (name, tensor) in sums {
        assert_ne!(tensor.values.len(), 19 * 19, "{name} is a whole matrix");
    }
}

//! Samples, parts and checkpoints that are not what they say.

use super::{FIT, Folder, fitted, resign};

const PREDICT: &str = "predict --inputs d.csv --target y --method riemannian --samples-file s.safetensors --out o.csv";

#[test]
fn samples_of_another_posterior_are_refused_however_alike_it_is() {
    let folder = fitted();
    folder.ok("sample --posterior p.safetensors --samples 3 --out s.safetensors");
    folder.ok(&format!("{PREDICT} --posterior p.safetensors"));
    folder.write("bits.csv", "x,y\n0.1,0\n0.2,1\n0.9,1\n1.4,0\n");
    let model = "--model m.safetensors --target y";
    let others = [
        // Other noise, other activation, other data, another likelihood: each has as many weights.
        format!("{FIT} --sigma 0.4"),
        format!("{FIT} --sigma 0.3 --activation relu"),
        format!("fit {model} --data bits.csv --likelihood gaussian --sigma 0.3"),
        format!("fit {model} --data bits.csv --likelihood bernoulli"),
    ];
    for (index, other) in others.iter().enumerate() {
        folder.ok(&format!("{other} --out other{index}.safetensors"));
        folder.refuses(
            &format!("{PREDICT} --posterior other{index}.safetensors"),
            &["s.safetensors", "another posterior"],
        );
    }
    folder.refuses(
        "loo --posterior other0.safetensors --method riemannian --samples-file s.safetensors",
        &["another posterior"],
    );
    let evaluate = "evaluate --data d.csv --target y --method riemannian --samples-file s.safetensors";
    folder.refuses(&format!("{evaluate} --posterior other0.safetensors"), &["another posterior"]);
}

#[test]
fn samples_of_other_weights_are_refused() {
    let folder = fitted();
    for (name, indices) in [("a", "0,1,2"), ("b", "0,1,3")] {
        folder.write("w.txt", indices);
        folder.ok(&format!("{FIT} --sigma 0.3 --weights subnetwork:@w.txt --out {name}.safetensors"));
        folder.ok(&format!("sample --posterior {name}.safetensors --samples 3 --out s{name}.safetensors"));
    }
    let predict = |posterior: &str, samples: &str| {
        format!("{PREDICT} --posterior {posterior}.safetensors").replace("s.safetensors", samples)
    };
    folder.ok(&predict("a", "sa.safetensors"));
    folder.refuses(&predict("a", "sb.safetensors"), &["other weights"]);
    // Signed anew as samples of that posterior: the weights still differ.
    let posterior = |folder: &Folder, name: &str| {
        let file =
            riemannian_laplace::internals::tensors::TensorFile::read_numbers(&folder.path(name)).expect("samples");
        file.metadata["posterior"].clone()
    };
    let stored = posterior(&folder, "sa.safetensors");
    resign(&folder, "sb.safetensors", |file| drop(file.metadata.insert("posterior".to_string(), stored)));
    folder.refuses(&predict("a", "sb.safetensors"), &["other weights"]);
}

#[test]
fn parts_of_fits_to_different_data_are_not_joined() {
    let folder = super::folder();
    let other = super::data().replacen(",0\n", ",0.001\n", 1);
    assert_ne!(other, super::data());
    folder.write("other.csv", other);
    let part = |data: &str, shard: &str, out: &str| {
        let fit = FIT.replace("d.csv", data);
        folder.ok(&format!("{fit} --sigma 0.3 --solver weight-space --shard {shard} --out {out}"));
    };
    part("d.csv", "1/2", "one");
    part("d.csv", "2/2", "two");
    part("other.csv", "2/2", "foreign");
    folder.ok("merge one two --out whole");
    folder.refuses("merge one foreign --out joined", &["1/2", "2/2"]);
}

#[test]
fn a_checkpoint_that_was_signed_anew_certifies_nothing_that_it_cannot() {
    let folder = fitted();
    let run = "sample --posterior p.safetensors --samples 40 --seed 3 --threads 1 --save-every 0s --out s.safetensors";
    let start = || {
        let _ = std::fs::remove_file(folder.path("s.safetensors.partial"));
        let outcome = folder.rla(&format!("{run} --max-total-evaluations 500"));
        assert_eq!(outcome.status, Some(130), "{}", outcome.stderr);
    };
    start();
    let resume = format!("{run} --resume");
    resign(&folder, "s.safetensors.partial", |_| {});
    folder.ok(&resume);
    std::fs::remove_file(folder.path("s.safetensors")).expect("the samples");
    type Change = fn(&mut riemannian_laplace::internals::tensors::TensorFile);
    let changes: [(&str, Change); 9] = [
        ("theta", |file| file.tensors.get_mut("theta").expect("theta").values[1] = f64::NAN),
        ("velocity", |file| file.tensors.get_mut("velocity").expect("velocity").values[0] = f64::INFINITY),
        ("drift", |file| file.tensors.get_mut("drift").expect("drift").values[0] = f64::NAN),
        ("path drift", |file| file.tensors.get_mut("path_drift").expect("path_drift").values[0] = f64::NAN),
        ("residual", |file| file.tensors.get_mut("residual").expect("residual").values[0] = f64::NAN),
        ("status", |file| file.tensors.get_mut("status").expect("status").values[0] = 1.0),
        ("index", |file| file.tensors.get_mut("sample").expect("sample").values[0] = -1.0),
        ("widths", |file| {
            for name in ["theta", "velocity"] {
                let tensor = file.tensors.get_mut(name).expect("a matrix");
                let rows = tensor.shape[0];
                tensor.values = vec![0.0; 2 * rows];
                tensor.shape = vec![rows, 2];
            }
        }),
        ("shape", |file| {
            let tensor = file.tensors.get_mut("velocity").expect("velocity");
            let size = tensor.values.len();
            tensor.shape = vec![size];
        }),
    ];
    for (what, change) in changes {
        start();
        resign(&folder, "s.safetensors.partial", change);
        let outcome = folder.rla(&resume);
        assert_eq!(outcome.status, Some(2), "{what}: {}", outcome.stderr);
        assert!(!folder.path("s.safetensors").exists(), "{what}");
    }
}

#[test]
fn a_count_of_data_beyond_what_can_be_counted_is_refused() {
    let folder = super::folder();
    folder.ok(&format!("{FIT} --sigma 0.3 --without-data --solver weight-space --structure full --out p.safetensors"));
    for count in ["18446744073709551615", "9223372036854775808", "9007199254740993", "0", "-1", "1e3"] {
        resign(&folder, "p.safetensors", |file| drop(file.metadata.insert("n_data".to_string(), count.to_string())));
        let from = "fit --from p.safetensors --data d.csv --target y --out q.safetensors --json";
        folder.refuses(from, &["p.safetensors", "n_data"]);
        folder.refuses("predict --posterior p.safetensors --inputs d.csv --target y", &["n_data"]);
    }
}

#[test]
fn resampled_never_replaces_the_samples_or_their_checkpoint() {
    let folder = Folder::new();
    folder.write("d.csv", super::data());
    // A straight line at its mode: all weights of samples are equal, and they can be drawn from.
    let train = "train --data d.csv --target y --likelihood gaussian --cross-validate --folds 2 --no-standardize";
    folder.ok(&format!("{train} --out m.safetensors"));
    folder.ok(&format!("{FIT} --out p.safetensors"));
    let run = "sample --posterior p.safetensors --samples 20 --weights-of-samples --out s.safetensors";
    // A link to a name that is not there yet, but will be.
    std::os::unix::fs::symlink("s.safetensors", folder.path("link")).expect("a link");
    for same in ["s.safetensors", "./s.safetensors", "s.safetensors.partial", "p.safetensors", "link"] {
        folder.refuses(&format!("{run} --resampled {same}"), &["another result"]);
    }
    folder.ok(&format!("{run} --resampled r.safetensors"));
    // Where the second file cannot be written, the first is not replaced.
    let before = std::fs::read(folder.path("s.safetensors")).expect("samples");
    let outcome = folder.rla(&format!("{run} --seed 4 --resampled /dev/full"));
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(std::fs::read(folder.path("s.safetensors")).expect("samples") == before);
    folder.ok(&format!("{run} --seed 4 --resampled r.safetensors --resume"));
}

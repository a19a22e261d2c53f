//! `rla sample --weights-of-samples`: tensors, the report, and what is withheld.

use riemannian_laplace::internals::tensors::TensorFile;

use crate::{Folder, repository};

#[test]
fn weights_are_written_with_the_samples_and_a_networks_evidence_may_be_withheld() {
    let folder = Folder::new();
    let (model, data) = (repository("data/snelson_map_complete_std.safetensors"), repository("data/snelson.csv"));
    folder.ok(&format!(
        "fit --model {model} --activation tanh --data {data} --target y --likelihood gaussian --sigma 0.4 --prior-precision 1 --standardize --out p.safetensors"
    ));
    let sample = "sample --posterior p.safetensors --samples 4 --seed 2 --out s.safetensors --json";
    let plain = folder.ok(sample).json();
    assert!(plain.get("weights_k").is_none());
    let report = folder.ok(&format!("{sample} --weights-of-samples")).json();
    assert!(report["effective_share"].as_f64().is_some_and(|share| share > 0.0 && share <= 1.0));
    assert_eq!(report["log_evidence"].is_null(), report["withheld"].is_string());
    let file = TensorFile::read_numbers(&folder.path("s.safetensors")).expect("samples");
    assert_eq!(file.tensors["log_weight"].values.len(), 4);
    assert_eq!(file.tensors["conjugate"].values.len(), 4);
    // The samples themselves can be used as before.
    folder.ok("loo --posterior p.safetensors --method riemannian --samples-file s.safetensors --json");
    folder.refuses(&format!("{sample} --weights-of-samples --metric monge-log"), &["monge-log"]);
    folder.refuses(
        "sample --posterior p.safetensors --samples 2 --resampled e.safetensors --out s.safetensors",
        &["--weights-of-samples"],
    );
}

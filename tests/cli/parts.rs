//! Posteriors over some of the weights, and approximate ones, from fit to predictions.

use riemannian_laplace::internals::tensors::TensorFile;

use super::{Folder, repository};

fn fit(options: &str) -> String {
    let data = format!("--data {} --target y --likelihood gaussian --sigma 0.5", repository("data/snelson.csv"));
    format!("fit --model model.safetensors {data} --out p.safetensors {options}")
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.model("model.safetensors", &[1, 6, 1]);
    folder.write("indices.txt", "0 3, 7\n18\n");
    folder.write("x.csv", "x\n0.5\n9\n");
    folder.write("x_y.csv", "x,y\n0.5,0.1\n9,-1\n");
    folder
}

#[test]
fn every_part_is_fitted_sampled_and_used_for_predictions() {
    let folder = folder();
    for (weights, size) in [
        ("last-layer", 7),
        ("layers:0", 12),
        ("layers:0.bias,2", 13),
        ("subnetwork:5", 5),
        ("subnetwork:5:variance", 5),
        ("subnetwork:5:random:2", 5),
        ("subnetwork:@indices.txt", 4),
    ] {
        let fitted = folder.ok(&fit(&format!("--weights {weights} --optimize --json"))).json();
        assert_eq!(fitted["n_params"], size, "{weights}");
        let said = folder.ok(&fit(&format!("--weights {weights}"))).stdout;
        assert!(said.contains("uncertain, of 19"), "{said}");
        folder.ok("sample --posterior p.safetensors --metric fisher --samples 4 --out s.safetensors");
        let samples = TensorFile::read_numbers(&folder.path("s.safetensors")).expect("samples");
        assert_eq!(samples.tensors["theta"].shape, [4, size]);
        assert_eq!(samples.tensors["indices"].shape, [size]);
        folder.ok("predict --posterior p.safetensors --inputs x.csv --method riemannian --samples-file s.safetensors --out r.csv");
        folder.ok("predict --posterior p.safetensors --inputs x.csv --method glm --out g.csv");
        assert_eq!(folder.table("r.csv").columns(), folder.table("g.csv").columns());
    }
    let samples = TensorFile::read_numbers(&folder.path("s.safetensors")).expect("samples");
    assert_eq!(samples.tensors["indices"].values, [0.0, 3.0, 7.0, 18.0]);
}

#[test]
fn a_posterior_without_a_matrix_says_how_well_it_knows_its_evidence() {
    let folder = folder();
    folder.model("wide.safetensors", &[1, 30, 1]);
    let fit = fit("--structure matrix-free --optimize").replace("model.safetensors", "wide.safetensors");
    let fitted = folder.ok(&format!("{fit} --json")).json();
    assert_eq!((&fitted["structure"], &fitted["solver"]), (&"matrix-free".into(), &"matrix-free".into()));
    assert!(fitted["log_marginal_likelihood_error"].as_f64().expect("an error") > 0.0);
    assert!(fitted["products"].as_f64().expect("a number") > 100.0);
    let said = folder.ok(&fit).stdout;
    assert!(said.contains("± ") && said.contains("no matrix; "), "{said}");
    let said = folder.ok("predict --posterior p.safetensors --inputs x.csv --method glm --out g.csv").stderr;
    assert!(said.contains("64 draws") && said.contains("18 %"), "{said}");
    folder.ok("evaluate --posterior p.safetensors --data x_y.csv --target y --method nn --samples 5");
    folder.ok("sample --posterior p.safetensors --metric euclidean --samples 3 --out e.safetensors");
    folder.ok(
        "sample --posterior p.safetensors --metric fisher --metric-solver matrix-free --samples 1 --out f.safetensors",
    );
    folder.fails(2, &format!("{fit} --without-data"), &["--structure matrix-free", "leave out --without-data"]);
}

#[test]
fn approximate_structures_are_fitted_tuned_and_used_for_predictions() {
    let folder = folder();
    for (structure, solver) in [("kron", "kronecker"), ("diag", "diagonal")] {
        let fitted = folder.ok(&fit(&format!("--structure {structure} --optimize --json"))).json();
        assert_eq!((&fitted["structure"], &fitted["solver"]), (&structure.into(), &solver.into()));
        folder.ok("predict --posterior p.safetensors --inputs x.csv --method glm --out g.csv");
        folder.ok(&fit(&format!("--structure {structure} --without-data")));
        folder.ok("predict --posterior p.safetensors --inputs x.csv --method nn --samples 5 --out n.csv");
    }
}

#[test]
fn parts_that_the_network_does_not_have() {
    let folder = folder();
    folder.write("words.txt", "1\n2 three\n");
    folder.write("many.txt", "1\n19\n");
    folder.refuses(&fit("--weights first-layer"), &["first-layer", "last-layer", "subnetwork:K"]);
    folder.refuses(&fit("--weights layers:fc1"), &["model.safetensors", "no layer `fc1`", "`0`, `2`"]);
    folder.refuses(&fit("--weights subnetwork:20"), &["the model has 19"]);
    folder.refuses(&fit("--weights subnetwork:@none.txt"), &["none.txt"]);
    folder.refuses(&fit("--weights subnetwork:@words.txt"), &["words.txt: line 2", "`three`"]);
    folder.refuses(&fit("--weights subnetwork:@many.txt"), &["parameter 19", "has 19"]);
    folder.refuses(&fit("--weights last-layer --prior-precision 1,2"), &["each of the 1 uncertain layers"]);
    folder.refuses(&fit("--structure kron --solver weight-space"), &["--structure full", "kron"]);
}

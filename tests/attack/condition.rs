//! The condition of the posterior precision, told beside the evidence.

use riemannian_laplace::{Activation, Architecture, Dataset, Family, FitOptions, Laplace, Network, Structure};

use super::{FIT, folder};

#[test]
fn the_condition_of_a_fit_is_that_of_its_matrix() {
    let inputs = ndarray::Array2::from_shape_fn((30, 2), |(n, k)| (0.3 * n as f64 + k as f64).sin());
    let targets = inputs.column(0).mapv(f64::cos).insert_axis(ndarray::Axis(1));
    let data = Dataset::new(inputs, targets).expect("data");
    let network = Network::random(Architecture::new(&[2, 7, 1], Activation::Tanh).expect("sizes"), 3);
    let structures = [Structure::WeightSpace, Structure::FunctionSpace, Structure::Diagonal, Structure::Kronecker];
    for structure in structures {
        // A greater prior precision lowers the condition: from 1e2 to 1e12.
        for prior in [1.0, 1e-4, 1e-9] {
            let options = FitOptions { prior_precision: prior.into(), structure, ..Default::default() };
            let family = Family::gaussian(0.1).expect("sigma");
            let laplace = Laplace::fit(network.clone(), data.clone(), family, &options).expect("a fit");
            let matrix = laplace.precision().to_matrix();
            let values = matrix.self_adjoint_eigenvalues(faer::Side::Lower).expect("eigenvalues");
            let exact = values[values.len() - 1] / values[0];
            let told = laplace.condition().expect("a condition");
            // A power iteration approaches from below; the exact one has lost digits itself where it is great.
            assert!(told > 0.9 * exact && told < 1.02 * exact, "{structure:?} {prior}: {told:e} for {exact:e}");
        }
    }
}

#[test]
fn fit_tells_the_condition_and_warns_when_it_takes_the_evidence() {
    let folder = folder();
    let report = folder.ok(&format!("{FIT} --sigma 0.3 --out p.safetensors --json")).json();
    let condition = report["condition"].as_f64().expect("a condition");
    let digits = report["evidence_digits"].as_f64().expect("digits");
    assert!(condition > 1.0 && condition < 1e12 && digits >= 3.0, "{report}");
    let text = folder.ok(&format!("{FIT} --sigma 0.3 --out p.safetensors"));
    assert!(text.stdout.contains("condition") && text.stdout.contains("digits of the evidence"), "{}", text.stdout);
    assert!(!text.stderr.contains("condition number"), "{}", text.stderr);
    folder.ok("report --posterior p.safetensors --out r.html");
    assert!(std::fs::read_to_string(folder.path("r.html")).expect("a page").contains("digits of the log evidence"));
    let bad = format!("{FIT} --sigma 1e-6 --prior-precision 1e-5 --out p.safetensors");
    let outcome = folder.ok(&format!("{bad} --json"));
    let (condition, digits) =
        (outcome.json()["condition"].as_f64().expect("a condition"), outcome.json()["evidence_digits"].as_f64());
    assert!(condition > 1e14, "{}", outcome.stdout);
    assert!(digits.expect("digits") <= 14.0, "{}", outcome.stdout);
    assert!(outcome.stderr.contains("the condition number of the posterior precision is"), "{}", outcome.stderr);
}

//! The reference cases through the program. The tolerances are those of two correct double-precision programs.

use riemannian_laplace::internals::tensors::{Tensor, TensorFile};

use super::{Folder, repository};

struct Case {
    folder: Folder,
    name: &'static str,
    expected: serde_json::Value,
    tensors: TensorFile,
    config: serde_json::Value,
}

impl Case {
    fn new(name: &'static str) -> Self {
        let path = |file: &str| repository(&format!("tests/golden/{name}/{file}"));
        let json = |file: &str| {
            let text = std::fs::read_to_string(path(file)).expect("a reference");
            serde_json::from_str(&text).expect("a JSON reference")
        };
        let tensors = TensorFile::read(path("expected.safetensors").as_ref()).expect("reference tensors");
        Self { folder: Folder::new(), name, expected: json("expected.json"), tensors, config: json("config.json") }
    }

    fn file(&self, name: &str) -> String {
        repository(&format!("tests/golden/{}/{name}", self.name))
    }

    fn fit(&self, options: &str) -> serde_json::Value {
        let activation = match self.config["activation"].as_str() {
            Some("identity") | None => String::new(),
            Some(name) => format!("--activation {name}"),
        };
        let likelihood = self.config["likelihood"].as_str().expect("a likelihood");
        let arguments = format!(
            "fit --model {} {activation} --data {} --target y --likelihood {likelihood} {options} --out p.safetensors --json",
            self.file("model.safetensors"),
            self.file("train.csv"),
        );
        self.folder.ok(&arguments).json()
    }

    /// A block of columns of the predictions at the test inputs, row by row.
    fn predict(&self, link: &str, columns: &[String]) -> Vec<f64> {
        let inputs = self.file("test.csv");
        let options = format!("--inputs {inputs} --method glm --link {link} --out out.csv");
        self.folder.ok(&format!("predict --posterior p.safetensors {options}"));
        let table = self.folder.table("out.csv");
        let columns: Vec<Vec<f64>> = columns.iter().map(|name| table.column(name).expect("a column")).collect();
        (0..table.values().nrows()).flat_map(|row| columns.iter().map(move |column| column[row])).collect()
    }

    fn tensor(&self, name: &str) -> &Tensor {
        &self.tensors.tensors[name]
    }
}

fn close(what: &str, found: &serde_json::Value, expected: &serde_json::Value, tolerance: f64) {
    let (found, expected) = (found.as_f64().expect(what), expected.as_f64().expect(what));
    assert!((found - expected).abs() <= tolerance * expected.abs(), "{what}: {found} instead of {expected}");
}

fn all_close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(0.0, |top: f64, value| top.max(value.abs()));
    let error = found.iter().zip(expected).fold(0.0, |top: f64, (a, b)| top.max((a - b).abs()));
    assert!(error <= tolerance * scale, "{what}: error {error:e} at scale {scale:e}");
}

fn check(name: &'static str) {
    let case = Case::new(name);
    let optimum = case.fit("--optimize");
    let best = &case.expected["optimum"];
    let evidence = "log_marginal_likelihood";
    close("best evidence", &optimum[evidence], &best[evidence], 1e-6);
    close("best prior precision", &optimum["prior_precision"], &best["prior_precision"], 1e-3);
    if best.get("sigma").is_some() {
        close("best sigma", &optimum["sigma"], &best["sigma"], 1e-3);
    }

    let mut options = format!("--prior-precision {}", case.config["prior_precision"]);
    if let Some(sigma) = case.config.get("sigma") {
        options += &format!(" --sigma {sigma}");
    }
    let fitted = case.fit(&options);
    assert_eq!(fitted["n_params"], case.expected["n_params"]);
    assert_eq!(fitted["n_data"], case.expected["n_data"]);
    close("log likelihood", &fitted["log_likelihood"], &case.expected["log_likelihood"], 1e-9);
    close("evidence", &fitted[evidence], &case.expected[evidence], 1e-9);

    let outputs = case.tensor("glm_f_mean").shape[1];
    let means: Vec<String> = (1..=outputs).map(|p| format!("f_mean_{p}")).collect();
    let covariances: Vec<String> =
        (1..=outputs).flat_map(|p| (1..=outputs).map(move |q| format!("f_cov_{p}_{q}"))).collect();
    all_close("mean", &case.predict("none", &means), &case.tensor("glm_f_mean").values, 1e-9);
    all_close("covariance", &case.predict("none", &covariances), &case.tensor("glm_f_cov").values, 1e-7);
    if let Some(probabilities) = case.tensors.tensors.get("glm_probit") {
        let names: Vec<String> = match outputs {
            1 => vec!["p1".to_string()],
            classes => (0..classes).map(|class| format!("p{class}")).collect(),
        };
        all_close("probit", &case.predict("probit", &names), &probabilities.values, 1e-8);
    }
}

#[test]
fn gaussian_network() {
    check("p1");
}

#[test]
fn categorical_network() {
    check("p2");
}

#[test]
fn logistic_regression() {
    check("p3");
}

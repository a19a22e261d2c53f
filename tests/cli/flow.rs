//! From data to scores, for every likelihood.

use riemannian_laplace::{Activation, Network};

use super::{Folder, repository};

/// Rows of a small classification or count problem: y depends on the sign of x.
fn rows(values: [&str; 3]) -> String {
    let mut text = "x,y\n".to_string();
    for n in 0..30 {
        let x = f64::from(n) / 5.0 - 3.0;
        let y = values[if x < -1.0 { 0 } else { usize::from(x > 1.0) + 1 }];
        text += &format!("{x},{y}\n");
    }
    text
}

fn keys(value: &serde_json::Value) -> Vec<String> {
    let mut keys: Vec<String> = value.as_object().expect("an object").keys().cloned().collect();
    keys.sort();
    keys
}

fn sorted(keys: &str) -> Vec<String> {
    let mut keys: Vec<String> = keys.split_whitespace().map(str::to_string).collect();
    keys.sort();
    keys
}

const FIT_KEYS: &str = "n_params n_data n_outputs log_likelihood log_marginal_likelihood prior_precision sigma \
                        log_det_ratio condition evidence_digits effective_parameters solver structure gradient_norm explained seconds \
                        prior_mean temperature curvature elpd_loo elpd_loo_map";

#[test]
fn a_regression_from_training_to_scores() {
    let folder = Folder::new();
    let data = format!("--data {} --target y", repository("data/snelson.csv"));
    let trained = folder.ok(&format!(
        "train {data} --likelihood gaussian --hidden 10 --activation tanh --epochs 300 --out model.safetensors --json"
    ));
    assert_eq!(trained.json()["n_params"], 31);
    assert!(trained.json()["loss"].as_f64().expect("a loss") < 0.5);

    let fit = format!("fit --model model.safetensors {data} --likelihood gaussian --optimize --out p.safetensors");
    let fitted = folder.ok(&format!("{fit} --json")).json();
    assert_eq!(keys(&fitted), sorted(&format!("{FIT_KEYS} train_rmse converged at_bound")));
    assert_eq!((&fitted["n_params"], &fitted["n_data"], &fitted["n_outputs"]), (&31.into(), &200.into(), &1.into()));
    assert_eq!(fitted["converged"], true);
    assert_eq!((&fitted["structure"], &fitted["solver"]), (&"full".into(), &"weight-space".into()));
    assert!(fitted["prior_precision"].is_f64() && fitted["sigma"].is_f64());
    let said = folder.ok(&fit);
    for word in ["31", "200", "log marginal likelihood", "tuned", "weight-space", "converged", "p.safetensors"] {
        assert!(said.stdout.contains(word), "{word}: {}", said.stdout);
    }
    assert_eq!(folder.ok(&format!("{fit} --quiet")).stdout, "");

    let inputs = format!("--inputs {} --target y", repository("data/snelson.csv"));
    for method in ["glm", "nn", "map"] {
        let options = format!("--method {method} --samples 20 --seed 3");
        folder.ok(&format!("predict --posterior p.safetensors {inputs} {options} --out {method}.csv"));
        let table = folder.table(&format!("{method}.csv"));
        assert_eq!(
            table.columns(),
            ["row", "mean", "epistemic_variance", "aleatoric_variance", "total_variance", "lower", "upper"]
        );
        assert_eq!(table.values().nrows(), 200);
        let column = |name| table.column(name).expect("a column");
        let sigma = fitted["sigma"].as_f64().expect("sigma");
        for (total, epistemic) in column("total_variance").iter().zip(column("epistemic_variance")) {
            assert!((total - epistemic - sigma * sigma).abs() < 1e-9 * total);
            assert_eq!(epistemic == 0.0, method == "map");
        }
        let scores = folder.ok(&format!("evaluate --posterior p.safetensors {data} {options} --json")).json();
        assert_eq!(keys(&scores), sorted("n mse rmse nll crps coverage_90"));
        assert_eq!(scores["n"], 200);
        // The scores are those of the predictions that were written.
        let targets = riemannian_laplace::internals::data::Table::read(repository("data/snelson.csv").as_ref())
            .and_then(|table| table.column("y"))
            .expect("targets");
        let error: f64 = column("mean").iter().zip(&targets).map(|(m, y)| (m - y).powi(2)).sum::<f64>() / 200.0;
        assert!((scores["mse"].as_f64().expect("mse") - error).abs() < 1e-12 * error);
        let printed = folder.ok(&format!("evaluate --posterior p.safetensors {data} {options}")).stdout;
        assert!(printed.contains("mean squared error"), "{printed}");
    }
    // Without --out the predictions go to stdout.
    let printed = folder.ok(&format!("predict --posterior p.safetensors {inputs}")).stdout;
    assert_eq!(printed, std::fs::read_to_string(folder.path("glm.csv")).expect("predictions"));
}

#[test]
fn classes_with_every_link() {
    let folder = Folder::new();
    folder.write("data.csv", rows(["0", "1", "2"]));
    let data = "--data data.csv --target y";
    folder.ok(&format!("train {data} --likelihood categorical --hidden 4 --epochs 200 --out m.safetensors"));
    let fit = format!("fit --model m.safetensors {data} --likelihood categorical --out p.safetensors --json");
    let fitted = folder.ok(&fit).json();
    assert_eq!(keys(&fitted), sorted(&format!("{FIT_KEYS} classes train_accuracy")));
    assert_eq!(fitted["n_outputs"], 3);
    assert_eq!(fitted["structure"], "full");
    assert!(fitted["sigma"].is_null());
    let predict = "predict --posterior p.safetensors --inputs data.csv --target y --samples 50 --out out.csv";
    for (options, columns) in [
        ("", "row p0 p1 p2 class entropy logit_variance"),
        ("--link centred", "row p0 p1 p2 class entropy logit_variance"),
        ("--link probit", "row p0 p1 p2 class entropy logit_variance"),
        ("--link bridge", "row p0 p1 p2 class entropy logit_variance"),
        ("--method map", "row p0 p1 p2 class entropy"),
        ("--link mc", "row p0 p1 p2 class entropy mutual_information"),
        ("--method nn", "row p0 p1 p2 class entropy mutual_information"),
    ] {
        folder.ok(&format!("{predict} {options}"));
        let table = folder.table("out.csv");
        assert_eq!(table.columns().join(" "), columns, "{options}");
        for row in table.values().rows() {
            assert!((row.iter().skip(1).take(3).sum::<f64>() - 1.0).abs() < 1e-12, "{options}");
        }
        let scores = folder.ok(&format!("evaluate --posterior p.safetensors {data} --samples 50 {options} --json"));
        assert_eq!(keys(&scores.json()), sorted("n nll accuracy brier ece"), "{options}");
    }
    folder.ok(&format!("{predict} --link none"));
    assert_eq!(
        folder.table("out.csv").columns().join(" "),
        "row f_mean_1 f_mean_2 f_mean_3 f_cov_1_1 f_cov_1_2 f_cov_1_3 f_cov_2_1 f_cov_2_2 f_cov_2_3 f_cov_3_1 f_cov_3_2 f_cov_3_3"
    );
    // More classes than the labels show.
    folder.ok(&format!("train {data} --likelihood categorical --classes 5 --epochs 2 --out five.safetensors"));
    let five = Network::load(&folder.path("five.safetensors"), None).expect("a network");
    assert_eq!(five.architecture().sizes(), [1, 5]);
    assert_eq!(five.architecture().activation(), Some(Activation::Identity));
}

#[test]
fn zero_one_targets_and_counts() {
    let folder = Folder::new();
    for (likelihood, values, columns, scores) in [
        ("bernoulli", ["0", "1", "1"], "row p1", "n nll accuracy brier ece"),
        ("poisson", ["0", "2", "7"], "row mean total_variance lower upper", "n mse rmse nll coverage_90"),
    ] {
        folder.write("data.csv", rows(values));
        let data = "--data data.csv --target y";
        folder.ok(&format!("train {data} --likelihood {likelihood} --hidden 3 --epochs 200 --out m.safetensors"));
        folder
            .ok(&format!("fit --model m.safetensors {data} --likelihood {likelihood} --optimize --out p.safetensors"));
        for method in ["glm", "nn", "map"] {
            let options = format!("--posterior p.safetensors --method {method} --samples 20");
            folder.ok(&format!("predict {options} --inputs data.csv --target y --out out.csv"));
            assert_eq!(folder.table("out.csv").columns().join(" "), columns, "{likelihood} {method}");
            let outcome = folder.ok(&format!("evaluate {options} {data} --json"));
            assert_eq!(keys(&outcome.json()), sorted(scores), "{likelihood} {method}");
        }
    }
}

#[test]
fn several_yes_no_targets_at_once() {
    let folder = Folder::new();
    // Two labels per row, each with its own dependence on the inputs; as numbers, as the same words, as other words.
    for [no, yes, ill, well] in [["0", "1", "0", "1"], ["no", "yes", "no", "yes"], ["no", "yes", "ill", "well"]] {
        let mut text = "a,x,u,b,v\n".to_string();
        for n in 0..60 {
            let (a, b) = (f64::from(n % 8) / 4.0 - 1.0, f64::from(n * 5 % 11) / 5.0 - 1.0);
            let (u, v) = (if a > 0.1 { yes } else { no }, if a + b > 0.0 { well } else { ill });
            text += &format!("{a},{},{u},{b},{v}\n", n % 3);
        }
        folder.write("data.csv", &text);
        let data = "--data data.csv --target u,v";
        let train = format!("train {data} --likelihood bernoulli --hidden 6 --epochs 400 --out m.safetensors --json");
        assert_eq!(folder.ok(&train).json()["n_outputs"], 2);
        let fit =
            format!("fit --model m.safetensors {data} --likelihood bernoulli --optimize --out p.safetensors --json");
        let fitted = folder.ok(&fit).json();
        assert_eq!((&fitted["n_outputs"], &fitted["n_data"]), (&2.into(), &60.into()));
        for options in ["", "--link probit", "--link bridge", "--link mc", "--method nn", "--method map"] {
            let options = format!("--posterior p.safetensors --samples 50 {options}");
            folder.ok(&format!("predict {options} --inputs data.csv --out out.csv"));
            let table = folder.table("out.csv");
            // The probability of the second class: 1, or the later word.
            let of = |class: &str| if class == "1" { "p1".to_string() } else { format!("p_{class}") };
            let expected = ["row".to_string(), of(yes) + "_u", of(well) + "_v"];
            assert_eq!(table.columns(), expected, "{options}");
            let p = table.values();
            let right = text.lines().skip(1).enumerate().filter(|(row, line)| {
                let cells: Vec<&str> = line.split(',').collect();
                (p[(*row, 1)] > 0.5) == (cells[2] == yes) && (p[(*row, 2)] > 0.5) == (cells[4] == well)
            });
            // Plain draws of the weights of a saturated network are no good classifier.
            let drawn = options.contains("nn");
            assert!(drawn || right.count() > 50, "{options}");
            let scores = folder.ok(&format!("evaluate {options} {data} --json")).json();
            assert_eq!(keys(&scores), sorted("n nll accuracy brier ece"), "{options}");
            assert!(drawn || scores["accuracy"].as_f64().is_some_and(|share| share > 0.9), "{options}: {scores}");
        }
        // Other columns in another order, and a label that was never seen.
        folder.write("other.csv", format!("v,b,a,u,x\n{well},1,1,{yes},0\n"));
        let evaluate = "evaluate --posterior p.safetensors --data other.csv --target v,u --json";
        assert_eq!(folder.ok(evaluate).json()["n"], 1);
        folder.write("other.csv", format!("v,b,a,u,x\n{well},1,1,perhaps,0\n"));
        folder.refuses(evaluate, &["other.csv: line 2", "perhaps"]);
    }
    folder.write("data.csv", "x,u,v\n1,no,low\n2,yes,high\n3,no,medium\n");
    let train = "train --data data.csv --target u,v --likelihood bernoulli --epochs 2 --out m.safetensors";
    folder.refuses(train, &["data.csv", "of `v`", "3 classes (high, low, medium)", "takes 2"]);
}

#[test]
fn tuning_on_held_out_data() {
    let folder = Folder::new();
    folder.write("data.csv", rows(["0", "1", "2"]));
    folder.write("held.csv", "y,x\n0,-2.9\n1,0.1\n2,2.5\n2,0.9\n0,-1.3\n1,-0.9\n");
    let data = "--data data.csv --target y --likelihood categorical";
    folder.ok(&format!("train {data} --hidden 4 --epochs 300 --out m.safetensors"));
    let fit = format!("fit --model m.safetensors {data} --optimize-on held.csv --out p.safetensors");
    let fitted = folder.ok(&format!("{fit} --json")).json();
    let keys_of_tuning = "validation_nll map_validation_nll at_grid_edge";
    assert_eq!(keys(&fitted), sorted(&format!("{FIT_KEYS} classes train_accuracy {keys_of_tuning}")));
    // The same numbers as evaluate gives.
    let nll = |method: &str| {
        let evaluate =
            format!("evaluate --posterior p.safetensors --data held.csv --target y --method {method} --json");
        folder.ok(&evaluate).json()["nll"].as_f64().expect("a number")
    };
    for (key, method) in [("validation_nll", "glm"), ("map_validation_nll", "map")] {
        let found = fitted[key].as_f64().expect("a number");
        assert!((found - nll(method)).abs() < 1e-12, "{key}: {found} and {}", nll(method));
    }
    let said = folder.ok(&fit).stdout;
    for word in ["validation nll", "map validation nll", "tuned", "grid"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // A value that is given is held.
    let held = folder.ok(&format!("{fit} --prior-precision 3"));
    assert!(held.stderr.contains("nothing to tune") && held.stdout.contains("given"), "{}", held.stderr);
    folder.refuses(&format!("{fit} --optimize"), &["--optimize-on", "--optimize"]);
    folder.write("held.csv", "x,y\n1,7\n");
    folder.refuses(&fit, &["held.csv: line 2", "7"]);
    folder.write("held.csv", "z,y\n1,0\n");
    folder.refuses(&fit, &["held.csv", "`x`"]);
    folder.refuses(&fit.replace("held.csv", "none.csv"), &["none.csv"]);
}

#[test]
fn the_temperature_on_held_out_data() {
    let folder = Folder::new();
    folder.write("data.csv", rows(["0", "1", "2"]));
    folder.write("held.csv", "y,x\n0,-2.9\n1,0.1\n2,2.5\n2,0.9\n0,-1.3\n1,-0.9\n");
    folder.write("far.csv", "x\n40\n-35\n60\n");
    let data = "--data data.csv --target y --likelihood categorical";
    folder.ok(&format!("train {data} --hidden 4 --epochs 300 --out m.safetensors"));
    let fit = format!("fit --model m.safetensors {data} --optimize --temperature-on held.csv --out p.safetensors");
    let fitted = folder.ok(&format!("{fit} --json")).json();
    let plain = folder.ok(&format!("fit --model m.safetensors {data} --optimize --out q.safetensors --json")).json();
    // The prior is the evidence's, at temperature 1.
    assert_eq!(fitted["prior_precision"], plain["prior_precision"]);
    // The same numbers as evaluate gives.
    let evaluate = |posterior: &str, options: &str| {
        let evaluate = format!("evaluate --posterior {posterior} --data held.csv --target y {options} --json");
        folder.ok(&evaluate).json()
    };
    for (key, posterior, options) in [
        ("tempered_validation_nll", "p.safetensors", "--link centred-probit"),
        ("untempered_validation_nll", "q.safetensors", "--link centred-probit"),
        ("tempered_map_validation_nll", "p.safetensors", "--method map"),
    ] {
        let (said, found) = (fitted[key].as_f64(), evaluate(posterior, options)["nll"].as_f64());
        let (said, found) = (said.expect("a number"), found.expect("a number"));
        assert!((said - found).abs() < 1e-12, "{key}: {said} and {found}");
    }
    let both = evaluate("p.safetensors", "--ood far.csv");
    assert!(both["ood_auroc_epistemic"].is_number() && both["ood_auroc_logits"] == 1.0, "{both}");
    let map = evaluate("p.safetensors", "--ood far.csv --method map");
    assert!(map["ood_auroc"].is_number() && map["ood_auroc_epistemic"].is_null(), "{map}");
    let table =
        folder.ok("evaluate --posterior p.safetensors --data held.csv --target y --ood far.csv --method all").stdout;
    assert!(table.contains("ood_auroc_logits") && table.contains("the variance of the logits"), "{table}");
    let said = folder.ok(&fit).stdout;
    assert!(said.contains("tempered validation nll") && said.contains("temperature"), "{said}");
    folder.refuses(&format!("{fit} --temperature 0.5"), &["--temperature-on", "--temperature"]);
    folder.refuses(&fit.replace("held.csv", "none.csv"), &["none.csv"]);
    folder.write("held.csv", "x,y\n1,7\n");
    folder.refuses(&fit, &["held.csv: line 2", "7"]);
}

#[test]
fn an_optimum_at_the_edge_of_the_grid_is_said_to_be_so() {
    let folder = Folder::new();
    // Targets that a line meets exactly: any uncertainty about it only costs.
    let line: String = (0..20).map(|n| format!("{n},{}\n", 2 * n + 1)).collect();
    folder.write("data.csv", format!("x,y\n{line}"));
    let data = "--data data.csv --target y --likelihood gaussian";
    folder.ok(&format!("train {data} --standardize --epochs 3000 --out m.safetensors"));
    let fit = "fit --model m.safetensors --data data.csv --target y --likelihood gaussian --sigma 0.5";
    let outcome = folder.ok(&format!("{fit} --optimize-on data.csv --out p.safetensors"));
    assert!(outcome.stderr.contains("end of the grid"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("worse than the trained network alone"), "{}", outcome.stderr);
}

#[test]
fn training_by_evidence() {
    let folder = Folder::new();
    let data = format!("--data {} --target y --likelihood gaussian", repository("data/snelson.csv"));
    let train = format!("train {data} --hidden 8 --epochs 600 --evidence --every 150 --out m.safetensors");
    let trained = folder.ok(&format!("{train} --json")).json();
    let plain =
        "n_params n_data n_inputs n_outputs activation procedure epochs loss explained explained_linear seconds";
    assert_eq!(keys(&trained), sorted(&format!("{plain} log_marginal_likelihood prior_precision sigma")));
    // A fit of these weights finds the same evidence.
    let fitted = folder.ok(&format!("fit --model m.safetensors {data} --optimize --out p.safetensors --json")).json();
    for key in ["log_marginal_likelihood", "prior_precision", "sigma"] {
        let (a, b) = (trained[key].as_f64().expect("a number"), fitted[key].as_f64().expect("a number"));
        assert!((a - b).abs() < 1e-6 * a.abs(), "{key}: {a} and {b}");
    }
    let said = folder.ok(&train).stdout;
    assert!(said.contains("log marginal likelihood") && said.contains("4 tunings"), "{said}");
    folder.refuses(&format!("{train} --decay decoupled"), &["--evidence", "--decay"]);
    folder.refuses(&train.replace("--evidence", ""), &["--every", "--evidence"]);
}

/// Rows whose noise grows with x: two targets, the second with larger noise and another mean.
fn noisy_rows() -> String {
    let mut text = "x,u,v\n".to_string();
    for n in 0..200 {
        let x = f64::from(n) / 50.0 - 2.0;
        // A fixed sequence of signs and sizes in place of draws.
        let noise = |step: i32| f64::from((n * step) % 101) / 50.0 - 1.0;
        text += &format!("{x},{},{}\n", x + (0.5 * x).exp() * noise(37), 3.0 - x + 2.0 * (-0.5 * x).exp() * noise(53));
    }
    text
}

#[test]
fn noise_that_depends_on_the_inputs() {
    let folder = Folder::new();
    folder.write("data.csv", noisy_rows());
    let data = "--data data.csv --target u,v --likelihood heteroscedastic";
    for standardize in ["", "--standardize"] {
        let train = format!("train {data} --hidden 8 --epochs 1500 {standardize} --out m.safetensors --json");
        let trained = folder.ok(&train).json();
        assert_eq!(trained["n_outputs"], 4);
        let fitted =
            folder.ok(&format!("fit --model m.safetensors {data} --optimize --out p.safetensors --json")).json();
        assert_eq!((&fitted["n_outputs"], &fitted["sigma"]), (&4.into(), &serde_json::Value::Null));
        // The training loss is the mean of the likelihood that the fit sums, both in the units of the data.
        let loss = trained["loss"].as_f64().expect("a loss");
        let mean = -fitted["log_likelihood"].as_f64().expect("a number") / 200.0;
        assert!((loss - mean).abs() < 1e-9 * mean.abs(), "{loss} and {mean}");
        for method in ["map", "glm", "nn", "riemannian"] {
            let options = format!("--posterior p.safetensors --method {method} --samples 10");
            folder.ok(&format!("predict {options} --inputs data.csv --out out.csv"));
            let table = folder.table("out.csv");
            let column = |name: &str| table.column(name).expect("a column");
            let names = ["mean", "epistemic_variance", "aleatoric_variance", "total_variance", "lower", "upper"];
            let named = names.iter().flat_map(|name| [format!("{name}_u"), format!("{name}_v")]);
            let expected: Vec<String> = std::iter::once("row".to_string()).chain(named).collect();
            assert_eq!(table.columns(), expected, "{method}");
            // The noise of u grows with x, that of v falls.
            let (u, v) = (column("aleatoric_variance_u"), column("aleatoric_variance_v"));
            if method == "map" || method == "glm" {
                assert!(
                    u[190] > 2.0 * u[10] && v[10] > 2.0 * v[190],
                    "{method}: {} {}",
                    u[190] / u[10],
                    v[10] / v[190]
                );
            }
            let (lower, upper, mean) = (column("lower_u"), column("upper_u"), column("mean_u"));
            assert!((0..200).all(|n| lower[n] < mean[n] && mean[n] < upper[n]), "{method}");
            let scores = folder.ok(&format!("evaluate {options} --data data.csv --target u,v --json")).json();
            assert_eq!(keys(&scores), sorted("n mse rmse nll crps coverage_90"), "{method}");
            assert!(scores["coverage_90"].as_f64().is_some_and(|share| share > 0.8), "{method}: {scores}");
        }
        // The latent Gaussian is over means and log variances, in the units of the data.
        folder.ok("predict --posterior p.safetensors --method map --inputs data.csv --out map.csv");
        folder.ok("predict --posterior p.safetensors --link none --inputs data.csv --out latent.csv");
        let (map, latent) = (folder.table("map.csv"), folder.table("latent.csv"));
        let pairs = [("mean_v", "f_mean_2"), ("aleatoric_variance_v", "f_mean_4")];
        for (index, (name, latent_name)) in pairs.into_iter().enumerate() {
            let (of_map, of_latent) = (map.column(name).expect("a column"), latent.column(latent_name).expect("one"));
            for (expected, found) in of_map.iter().zip(of_latent) {
                let found = if index == 1 { found.exp() } else { found };
                assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{name}: {found} and {expected}");
            }
        }
    }
    let wrong = "fit --model m.safetensors --data data.csv --target u --ignore v --likelihood heteroscedastic";
    folder.refuses(&format!("{wrong} --out q.safetensors"), &["--target names u"]);
    folder.refuses(
        &format!("fit --model m.safetensors {data} --sigma 1 --out q.safetensors"),
        &["--sigma", "heteroscedastic"],
    );
    folder.model("odd.safetensors", &[1, 3]);
    let wrong = "fit --model odd.safetensors --data data.csv --target u,v --likelihood heteroscedastic";
    folder.refuses(
        &format!("{wrong} --out q.safetensors"),
        &["odd.safetensors", "two network outputs per target", "found 3"],
    );
}

#[test]
fn the_columns_of_several_targets_have_their_names() {
    let folder = Folder::new();
    folder.write("data.csv", "a,u,b,v\n0,1,0,2\n1,2,0,1\n0,0,1,1\n1,3,1,0\n");
    let data = "--data data.csv --target u,v";
    folder.ok(&format!(
        "train {data} --likelihood gaussian --hidden 3 --epochs 50 --batch-size 2 --decay decoupled --out m.safetensors"
    ));
    let fit = format!("fit --model m.safetensors {data} --likelihood gaussian --out p.safetensors --json");
    let fitted = folder.ok(&format!("{fit} --sigma 0.5,0.25 --prior-precision 2,3")).json();
    assert_eq!(fitted["sigma"], serde_json::json!([0.5, 0.25]));
    assert_eq!(fitted["prior_precision"], serde_json::json!([2.0, 3.0]));
    folder.write("inputs.csv", "a,b\n0.5,0.5\n");
    folder.ok("predict --posterior p.safetensors --inputs inputs.csv --out out.csv");
    let table = folder.table("out.csv");
    let names = ["mean", "epistemic_variance", "aleatoric_variance", "total_variance", "lower", "upper"];
    let named = names.iter().flat_map(|name| [format!("{name}_u"), format!("{name}_v")]);
    let expected: Vec<String> = std::iter::once("row".to_string()).chain(named).collect();
    assert_eq!(table.columns(), expected);
    assert_eq!(table.column("aleatoric_variance_v").expect("a column"), [0.0625]);
}

/// The predictions of the posterior `p.safetensors` at the rows of `data.csv`.
fn predicted(folder: &Folder, options: &str) -> riemannian_laplace::internals::data::Table {
    folder.ok(&format!("predict --posterior p.safetensors --inputs data.csv --out out.csv {options}"));
    folder.table("out.csv")
}

#[test]
fn a_smaller_share_is_a_narrower_interval_around_the_mean() {
    let folder = Folder::new();
    for (likelihood, values) in [("gaussian", ["-1", "0.5", "2"]), ("poisson", ["2", "4", "7"])] {
        folder.write("data.csv", rows(values));
        let data = "--data data.csv --target y";
        folder.ok(&format!("train {data} --likelihood {likelihood} --hidden 3 --epochs 500 --out m.safetensors"));
        folder
            .ok(&format!("fit --model m.safetensors {data} --likelihood {likelihood} --optimize --out p.safetensors"));
        for method in ["glm", "nn", "map", "riemannian"] {
            let options = format!("--method {method} --samples 20 --seed 3");
            let name = format!("{likelihood} {method}");
            let (half, wide) = (
                predicted(&folder, &format!("{options} --interval 0.5")),
                predicted(&folder, &format!("{options} --interval 0.9")),
            );
            // 0.9 is the default, and the share changes the interval alone.
            assert_eq!(predicted(&folder, &options).values(), wide.values(), "{name}");
            for column in ["mean", "total_variance"] {
                assert_eq!(half.column(column).expect("a column"), wide.column(column).expect("a column"), "{name}");
            }
            let ends = |table: &riemannian_laplace::internals::data::Table| {
                ["lower", "mean", "upper", "total_variance"].map(|name| table.column(name).expect("a column"))
            };
            let ([low, mean, high, variance], [lowest, _, highest, _]) = (ends(&half), ends(&wide));
            for n in 0..mean.len() {
                assert!(low[n] <= mean[n] && mean[n] <= high[n], "{name}: {} {} {}", low[n], mean[n], high[n]);
                assert!(lowest[n] <= low[n] && high[n] <= highest[n], "{name}");
                assert!(high[n] - low[n] < highest[n] - lowest[n], "{name}: row {n}");
                if likelihood == "poisson" {
                    assert_eq!((low[n].fract(), highest[n].fract()), (0.0, 0.0), "{name}");
                } else if method == "glm" || method == "map" {
                    // One Gaussian: its quartiles and its 5th and 95th percentiles.
                    let deviation = variance[n].sqrt();
                    for (end, z) in [
                        (low[n], -0.674_489_750_196_081_7),
                        (high[n], 0.674_489_750_196_081_7),
                        (lowest[n], -1.644_853_626_951_472_7),
                        (highest[n], 1.644_853_626_951_472_7),
                    ] {
                        assert!((end - mean[n] - z * deviation).abs() < 1e-9 * (deviation + mean[n].abs()), "{name}");
                    }
                }
            }
        }
    }
}

#[test]
fn given_values_are_held_and_the_prior_may_differ_by_layer() {
    let folder = Folder::new();
    let fit = format!(
        "fit --model {} --activation tanh --data {} --target y --likelihood gaussian --optimize --out p.safetensors --json",
        repository("tests/golden/p1/model.safetensors"),
        repository("tests/golden/p1/train.csv"),
    );
    let both = folder.ok(&fit).json();
    let evidence = |value: &serde_json::Value| value["log_marginal_likelihood"].as_f64().expect("evidence");
    let held = folder.ok(&format!("{fit} --sigma 0.2")).json();
    assert_eq!(held["sigma"], 0.2);
    assert!(held["prior_precision"].is_f64() && evidence(&held) < evidence(&both));
    let held = folder.ok(&format!("{fit} --prior-precision 0.3,0.6")).json();
    assert_eq!(held["prior_precision"], serde_json::json!([0.3, 0.6]));
    assert!(evidence(&held) < evidence(&both));
    let layers = folder.ok(&format!("{fit} --prior layer")).json();
    assert_eq!(layers["prior_precision"].as_array().map(Vec::len), Some(2));
    assert!(evidence(&layers) > evidence(&both));
    let none = folder.ok(&format!("{fit} --sigma 0.2 --prior-precision 0.3"));
    assert!(none.stderr.contains("nothing to tune"), "{}", none.stderr);
    assert_eq!((&none.json()["sigma"], &none.json()["prior_precision"]), (&0.2.into(), &0.3.into()));
    let default = folder.ok(&fit.replace("--optimize", ""));
    assert!(default.stderr.contains("sigma is 1"), "{}", default.stderr);
    assert_eq!(default.json()["sigma"], 1.0);
}

#[test]
fn both_solvers_and_a_posterior_without_data_agree() {
    let folder = Folder::new();
    let case = |name: &str| repository(&format!("tests/golden/p2/{name}"));
    let fit = format!(
        "fit --model {} --activation tanh --data {} --target y --likelihood categorical --json --structure full --weights all",
        case("model.safetensors"),
        case("train.csv"),
    );
    let mut written = Vec::new();
    for (options, solver) in [
        ("--solver weight-space", "weight-space"),
        ("--solver function-space", "function-space"),
        ("--without-data", "weight-space"),
    ] {
        let fitted = folder.ok(&format!("{fit} {options} --out p.safetensors")).json();
        assert_eq!((&fitted["solver"], &fitted["structure"]), (&solver.into(), &"full".into()));
        folder
            .ok(&format!("predict --posterior p.safetensors --inputs {} --link none --out out.csv", case("test.csv")));
        written.push(folder.table("out.csv").values().clone());
    }
    for other in &written[1..] {
        let scale = written[0].iter().fold(0.0, |top: f64, value| top.max(value.abs()));
        let error = (&written[0] - other).iter().fold(0.0, |top: f64, value| top.max(value.abs()));
        assert!(error < 1e-9 * scale, "{error:e}");
    }
}

#[test]
fn an_optimum_at_a_bound_is_reported() {
    let folder = Folder::new();
    // y = 2x without noise, and the network that computes it: σ has no optimum above its bound.
    folder.write("data.csv", "x,y\n0,0\n1,2\n2,4\n3,6\n");
    let network = riemannian_laplace::internals::network::Architecture::new(&[1, 1], Activation::Identity)
        .and_then(|architecture| Network::new(architecture, vec![2.0, 0.0]))
        .expect("a network");
    network.save(&folder.path("m.safetensors")).expect("a saved network");
    let outcome = folder.ok(
        "fit --model m.safetensors --data data.csv --target y --likelihood gaussian --optimize --out p.safetensors --json",
    );
    assert!(outcome.stderr.contains("warning: sigma"), "{}", outcome.stderr);
    assert_eq!(outcome.json()["at_bound"][0]["parameter"], "sigma");
}

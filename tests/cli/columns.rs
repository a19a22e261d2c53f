//! Columns by name, labels as words, rows with gaps, and data that are standardised.

use riemannian_laplace::internals::data::{SCALING_KEY, SCHEMA_KEY};
use riemannian_laplace::internals::tensors::TensorFile;

use super::Folder;

/// y = 3a − b/10 + 100, in columns of very different units.
fn regression(columns: [&str; 3]) -> String {
    let mut text = columns.join(",") + "\n";
    for n in 0..40 {
        let (a, b) = (f64::from(n % 8), 100.0 * f64::from(n / 8));
        let cells = columns.map(|column| match column {
            "a" => a.to_string(),
            "b" => b.to_string(),
            _ => (3.0 * a - b / 10.0 + 100.0).to_string(),
        });
        text += &(cells.join(",") + "\n");
    }
    text
}

const TRAIN: &str = "train --data d.csv --target y --likelihood gaussian --epochs 3000 --out m.safetensors";
const FIT: &str = "fit --model m.safetensors --data d.csv --target y --likelihood gaussian --out p.safetensors";

fn metadata(folder: &Folder, key: &str) -> Option<serde_json::Value> {
    let file = TensorFile::read(&folder.path("m.safetensors")).expect("a model");
    file.metadata.get(key).map(|text| serde_json::from_str(text).expect("JSON"))
}

#[test]
fn the_model_keeps_names_and_scaling_and_the_fit_takes_them_from_there() {
    let folder = Folder::new();
    folder.write("d.csv", regression(["a", "b", "y"]));
    let trained = folder.ok(&format!("{TRAIN} --standardize --json")).json();
    // The loss is in the units of y, whose variance is 247.
    let loss = trained["loss"].as_f64().expect("a loss");
    assert!(loss < 1e-3, "{loss}");
    let schema = metadata(&folder, SCHEMA_KEY).expect("a schema");
    assert_eq!(
        schema,
        serde_json::json!({"inputs": ["a", "b"], "targets": ["y"], "reading": {"likelihood": "gaussian"}})
    );
    let scaling = metadata(&folder, SCALING_KEY).expect("a scaling");
    assert_eq!(scaling["inputs"]["mean"], serde_json::json!([3.5, 200.0]));
    assert!(scaling["targets"]["scale"][0].as_f64().is_some_and(|scale| scale > 1.0));

    let evidence = |options: &str| {
        let fitted = folder.ok(&format!("{FIT} --sigma 0.1 {options} --json")).json();
        (fitted["log_likelihood"].as_f64().expect("nats"), fitted["log_marginal_likelihood"].as_f64().expect("nats"))
    };
    let plain = evidence("");
    // The network fits the scaled data: what remains is the constant of the likelihood.
    assert!(plain.0 > 40.0 * 1.38, "{}", plain.0);
    assert_eq!(evidence("--standardize"), plain);
    folder.write("s.json", scaling.to_string());
    assert_eq!(evidence("--scaling s.json"), plain);
    folder.write("d.csv", regression(["y", "b", "a"]));
    assert_eq!(evidence(""), plain);
}

#[test]
fn a_scaling_that_contradicts_the_model_is_refused() {
    let folder = Folder::new();
    folder.write("d.csv", regression(["a", "b", "y"]));
    folder.write("s.json", r#"{"inputs": {"mean": [0, 0], "scale": [1, 2]}}"#);
    let train = TRAIN.replace("3000", "2");
    folder.ok(&format!("{train} --standardize"));
    folder.refuses(&format!("{FIT} --scaling s.json"), &["m.safetensors", "scaled differently", "--scaling"]);
    folder.refuses(&format!("{FIT} --standardize=inputs"), &["m.safetensors", "scaled differently"]);
    folder.ok(&train);
    assert_eq!(metadata(&folder, SCALING_KEY), None);
    folder.refuses(&format!("{FIT} --scaling s.json"), &["m.safetensors", "not scaled"]);
    folder.refuses(&format!("{FIT} --scaling s.json --standardize"), &["--scaling", "cannot be used with"]);
}

#[test]
fn a_network_from_elsewhere_comes_with_a_scaling_file() {
    let folder = Folder::new();
    folder.write("d.csv", regression(["a", "b", "y"]));
    folder.model("m.safetensors", &[2, 3, 1]);
    folder.write("s.json", r#"{"inputs": {"mean": [3.5, 200], "scale": [2, 100]}}"#);
    folder.ok(&format!("{FIT} --scaling s.json"));
    folder.ok(&format!("{FIT} --standardize"));
    folder.write("s.json", r#"{"inputs": {"mean": [3.5], "scale": [2]}}"#);
    folder.refuses(&format!("{FIT} --scaling s.json"), &["s.json", "scaled input columns", "expected 2, found 1"]);
    folder.write("s.json", r#"{"inputs": {"mean": [0, 0], "scale": [0, 1]}}"#);
    folder.refuses(&format!("{FIT} --scaling s.json"), &["s.json", "scale of column 1", "positive"]);
    folder.refuses(&format!("{FIT} --scaling none.json"), &["none.json", "No such file"]);
    folder.write("s.json", r#"{"inputs": {"mean": [0, 0], "scale": [1, 1]}, "targets": {"mean": [0], "scale": [2]}}"#);
    let poisson = FIT.replace("gaussian", "poisson");
    folder.refuses(&format!("{poisson} --scaling s.json"), &["targets", "--likelihood gaussian"]);
    let out = FIT.replace("--out p.safetensors", "--out s.json");
    folder.refuses(&format!("{out} --scaling s.json"), &["cannot write s.json", "one of the input files"]);
}

#[test]
fn a_fit_matches_the_columns_of_its_model_by_name() {
    let folder = Folder::new();
    folder.write("d.csv", regression(["a", "b", "y"]));
    folder.ok(&TRAIN.replace("3000", "2"));
    folder.write("d.csv", "a,c,y\n1,2,3\n");
    folder.refuses(FIT, &["d.csv", "no column `b`", "a, c, y"]);
    folder.write("d.csv", "a,b,c,y\n1,2,3,4\n");
    folder.refuses(&format!("{FIT} --strict"), &["d.csv", "`c` is neither an input nor a target"]);
    assert!(folder.ok(FIT).stderr.contains("1 column that the model does not know left out: c"));
    folder.ok(&format!("{FIT} --strict --ignore c"));
    folder.refuses(&FIT.replace("--target y", "--target c"), &["--target names c", "the model is y"]);
}

#[test]
fn columns_to_ignore_and_rows_with_gaps() {
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 3, 1]);
    folder.write("d.csv", "id;x;y\n;1;2\nA7;2;\nB9;3;4\n");
    folder.refuses(FIT, &["d.csv: 2 columns", "line 2, column `id`", "the cell is empty", "line 3, column `y`"]);
    folder.refuses(&format!("{FIT} --ignore id"), &["d.csv: line 3, column `y`", "the cell is empty"]);
    let fitted = folder.ok(&format!("{FIT} --ignore id --drop-missing --json"));
    assert_eq!(fitted.json()["n_data"], 2);
    assert!(fitted.stderr.contains("d.csv: 1 row with missing values left out"), "{}", fitted.stderr);
    folder.refuses(&format!("{FIT} --ignore identity"), &["d.csv", "no column `identity`"]);
    folder.refuses(&format!("{FIT} --ignore id,y"), &["--ignore names the target column `y`"]);
    folder.refuses(&format!("{FIT} --ignore id,id"), &["--ignore names the column `id` twice"]);
    let predict = "predict --posterior p.safetensors --inputs d.csv --target y --ignore id";
    assert_eq!(folder.ok(predict).stdout.lines().count(), 4);
    let evaluate = "evaluate --posterior p.safetensors --data d.csv --target y --ignore id --drop-missing --json";
    assert_eq!(folder.ok(evaluate).json()["n"], 2);
}

#[test]
fn a_file_without_a_header_is_refused() {
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 3, 1]);
    folder.write("d.csv", "1,2\n3,4\n");
    folder.refuses(FIT, &["d.csv: line 1", "header seems to be missing"]);
}

#[test]
fn labels_may_be_words() {
    let folder = Folder::new();
    let rows = |labels: [&str; 3]| {
        let row = |n: usize| format!("{n},{}\n", labels[n % 3]);
        "x,kind\n".to_string() + &(0..12).map(row).collect::<String>()
    };
    folder.write("d.csv", rows(["setosa", "virginica", "alba"]));
    let data = "--data d.csv --target kind --likelihood categorical";
    let train = format!("train {data} --epochs 2 --hidden 3 --out m.safetensors --json");
    assert_eq!(folder.ok(&train).json()["n_outputs"], 3);
    let schema = metadata(&folder, SCHEMA_KEY).expect("a schema");
    assert_eq!(schema["classes"], serde_json::json!(["alba", "setosa", "virginica"]));
    let fit = format!("fit --model m.safetensors {data} --out p.safetensors");
    folder.ok(&fit);
    folder.write("few.csv", "x,kind\n1,virginica\n2,setosa\n");
    folder.ok(&fit.replace("d.csv", "few.csv"));
    folder.write("new.csv", "x,kind\n1,virginica\n2,rosa\n");
    folder.refuses(&fit.replace("d.csv", "new.csv"), &["new.csv: line 3", "`rosa`", "alba, setosa, virginica"]);
    folder.refuses(&fit.replace("categorical", "gaussian"), &["m.safetensors", "trained on classes"]);

    folder.refuses(&train.replace("categorical", "bernoulli"), &["d.csv", "3 classes", "bernoulli", "takes 2"]);
    folder.refuses(&format!("{train} --classes 5"), &["3 classes (alba, setosa, virginica)", "takes 5"]);
    folder.refuses(&train.replace("categorical", "gaussian"), &["line 2, column `kind`", "`setosa`"]);
    folder.write("d.csv", rows(["alba", "alba", "alba"]));
    folder.refuses(&train, &["d.csv", "every label is `alba`", "at least 2 classes"]);
    folder.write("d.csv", rows(["no", "yes", "no"]));
    folder.ok(&train.replace("categorical", "bernoulli"));
}

#[test]
fn a_file_too_large_for_the_memory_is_refused_before_it_is_read() {
    let folder = Folder::new();
    folder.write("d.csv", format!("x,y\n{}one,two\n", "1,2\n".repeat(100_000)));
    let train = "train --data d.csv --target y --likelihood gaussian --out m.safetensors --max-memory";
    // 200,000 cells, 16 bytes each.
    folder.fails(1, &format!("{train} 3MB"), &["reading d.csv", "0.0032 GB", "0.0030 GB"]);
    folder.refuses(&format!("{train} 4MB"), &["d.csv: 2 columns", "line 100002", "`one`", "`two`"]);
}

/// A posterior of y on a and b, and the predictions at the training data.
fn posterior(folder: &Folder, options: &str) -> String {
    folder.write("d.csv", regression(["a", "b", "y"]));
    folder.ok(&format!("{TRAIN} {options}").replace("3000", "300"));
    folder.ok(&format!("{FIT} --sigma 0.1"));
    folder.ok("predict --posterior p.safetensors --inputs d.csv").stdout
}

#[test]
fn columns_in_another_order_predict_the_same() {
    let folder = Folder::new();
    let evaluate = "evaluate --posterior p.safetensors --data d.csv --target y --json";
    for options in ["", "--standardize"] {
        let predictions = posterior(&folder, options);
        let scores = folder.ok(evaluate).json();
        folder.write("d.csv", regression(["y", "b", "a"]));
        assert_eq!(folder.ok("predict --posterior p.safetensors --inputs d.csv").stdout, predictions);
        assert_eq!(folder.ok(evaluate).json(), scores);
        // A target that is not known yet is left out like any other.
        let known = regression(["b", "a", "y"]);
        let blank = known.lines().map(|line| match line.rsplit_once(',') {
            Some((inputs, "y")) => format!("{inputs},y\n"),
            Some((inputs, _)) => format!("{inputs},\n"),
            None => String::new(),
        });
        folder.write("d.csv", blank.collect::<String>());
        assert_eq!(folder.ok("predict --posterior p.safetensors --inputs d.csv").stdout, predictions);
    }
}

#[test]
fn a_missing_column_is_refused_by_name_and_an_unknown_one_left_out() {
    let folder = Folder::new();
    posterior(&folder, "");
    let predict = "predict --posterior p.safetensors --out out.csv --inputs n.csv";
    let evaluate = "evaluate --posterior p.safetensors --target y --data n.csv";
    folder.write("n.csv", "a,c,y\n1,2,3\n");
    folder.refuses(predict, &["n.csv", "no column `b`", "a, c"]);
    folder.refuses(evaluate, &["n.csv", "no column `b`", "a, c, y"]);
    folder.write("n.csv", "a,b,c,y\n1,2,3,4\n");
    for command in [predict, evaluate] {
        folder.refuses(&format!("{command} --strict"), &["n.csv", "`c` is neither an input nor a target"]);
        assert!(folder.ok(command).stderr.contains("1 column that the model does not know left out: c"));
        assert!(!folder.ok(&format!("{command} --strict --ignore c")).stderr.contains("left out"));
    }
}

#[test]
fn predictions_and_scores_of_standardised_data_are_in_the_original_units() {
    let folder = Folder::new();
    let plain = regression(["a", "b", "y"]);
    let thousandfold: String = plain
        .lines()
        .map(|line| match line.rsplit_once(',') {
            Some((inputs, "y")) => format!("{inputs},y\n"),
            Some((inputs, y)) => format!("{inputs},{}\n", 1000.0 * y.parse::<f64>().expect("a target")),
            None => String::new(),
        })
        .collect();
    let evaluate = "evaluate --posterior p.safetensors --data d.csv --target y --json";
    let mut results = Vec::new();
    for contents in [plain, thousandfold] {
        folder.write("d.csv", contents);
        folder.ok(&format!("{TRAIN} --standardize"));
        let scaling = metadata(&folder, SCALING_KEY).expect("a scaling");
        let scale = scaling["targets"]["scale"][0].as_f64().expect("the scale of y");
        let fit = folder.ok(&format!("{FIT} --sigma {} --json", 0.1 * scale)).json();
        assert!((fit["sigma"].as_f64().expect("sigma") / (0.1 * scale) - 1.0).abs() < 1e-15);
        for method in ["glm", "nn", "map"] {
            let options = format!("--method {method} --samples 20 --seed 3");
            folder.ok(&format!("predict --posterior p.safetensors --inputs d.csv {options} --out out.csv"));
            let (table, targets) = (folder.table("out.csv"), folder.table("d.csv").column("y").expect("targets"));
            let column = |name| table.column(name).expect("a column");
            let (mean, variance) = (column("mean"), column("total_variance"));
            // σ is a tenth of the target's deviation: the means are within three of them.
            for (mean, y) in mean.iter().zip(&targets) {
                assert!((mean - y).abs() < 0.3 * scale, "{method}: {mean} for {y}");
            }
            for noise in column("aleatoric_variance") {
                assert!((noise - (0.1 * scale).powi(2)).abs() < 1e-12 * noise, "{method}: {noise}");
            }
            let scores = folder.ok(&format!("{evaluate} {options}")).json();
            let (mse, nll) = (scores["mse"].as_f64().expect("mse"), scores["nll"].as_f64().expect("nll"));
            let pairs = || mean.iter().zip(&targets);
            let error = pairs().map(|(m, y)| (m - y).powi(2)).sum::<f64>() / targets.len() as f64;
            assert!((mse - error).abs() < 1e-9 * error, "{method}: {mse} for {error}");
            if method != "nn" {
                let density = |((m, y), v): ((&f64, &f64), &f64)| {
                    0.5 * ((2.0 * std::f64::consts::PI * v).ln() + (m - y).powi(2) / v)
                };
                let expected = pairs().zip(&variance).map(density).sum::<f64>() / targets.len() as f64;
                assert!((nll - expected).abs() < 1e-9, "{method}: {nll} for {expected}");
            }
            results.push((method, scale, nll, [mean, column("lower"), column("upper")].concat(), variance));
        }
    }
    // The same problem in a smaller unit: everything scales, and a nat of density costs log 1000.
    let (plain, thousandfold) = results.split_at(3);
    for (one, thousand) in plain.iter().zip(thousandfold) {
        let method = one.0;
        let close = |a: f64, b: f64, unit: f64| assert!((a - b).abs() < 1e-6 * unit, "{method}: {a} for {b}");
        close(thousand.1, 1000.0 * one.1, thousand.1);
        close(thousand.2, one.2 + 1000f64.ln(), 1.0);
        for (big, small) in thousand.3.iter().zip(&one.3) {
            close(*big, 1000.0 * small, thousand.1);
        }
        for (big, small) in thousand.4.iter().zip(&one.4) {
            close(*big, 1e6 * small, *big);
        }
    }
}

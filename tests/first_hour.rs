//! The first hour with data of one's own: defaults that do not mislead, and verdicts that are right.

#[path = "common/program.rs"]
mod program;

use program::{Folder, repository};
use riemannian_laplace::internals::tensors::TensorFile;
use serde_json::Value;

/// Numbers between −1 and 1 that look like noise, the same on every machine.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// About normal, with variance 1.
    fn normal(&mut self) -> f64 {
        (0..3).map(|_| self.next()).sum()
    }
}

/// Rows of eight inputs in their own units and a target in the hundreds, half of whose variance is noise.
fn table(rows: usize, seed: u64) -> String {
    let mut noise = Noise(seed);
    let mut text = "age,income,pressure,a,b,c,d,e,y\n".to_string();
    for _ in 0..rows {
        let x: Vec<f64> = (0..8).map(|_| noise.normal()).collect();
        let y = 150.0 + 40.0 * x[0] + 30.0 * x[1] - 25.0 * x[2] + 55.0 * noise.normal();
        let inputs = [50.0 + 12.0 * x[0], 30_000.0 + 9000.0 * x[1], 120.0 + 14.0 * x[2], x[3], x[4], x[5], x[6], x[7]];
        let cells: Vec<String> = inputs.iter().chain([&y]).map(|value| format!("{value:.3}")).collect();
        text += &(cells.join(",") + "\n");
    }
    text
}

const ABOUT: &str = "--target y --likelihood gaussian";
const TRAIN: &str = "train --data train.csv --target y --likelihood gaussian --hidden 10";

/// A folder with training and test rows of [`table`].
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("train.csv", table(160, 5));
    folder.write("test.csv", table(400, 77));
    folder
}

/// A network by the default, and one that plain Adam has overfitted, each with its posterior.
fn good_and_overfitted() -> Folder {
    let folder = folder();
    folder.ok(&format!("{TRAIN} --out good.safetensors"));
    folder.ok(&format!("fit --model good.safetensors --data train.csv {ABOUT} --out good_p.safetensors"));
    folder.ok(&format!("{TRAIN} --epochs 4000 --out bad.safetensors"));
    folder.ok(&format!("fit --model bad.safetensors --data train.csv {ABOUT} --optimize --out bad_p.safetensors"));
    folder
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

fn evaluate(folder: &Folder, posterior: &str) -> Value {
    folder.ok(&format!("evaluate --posterior {posterior} --data test.csv --target y --json")).json()
}

fn metadata(folder: &Folder, name: &str, key: &str) -> Option<String> {
    TensorFile::read(&folder.path(name)).expect("a file").metadata.get(key).cloned()
}

#[test]
fn a_default_training_learns_columns_in_their_own_units_and_says_what_it_explains_beside_a_linear_model() {
    let folder = folder();
    let trained = folder.ok(&format!("{TRAIN} --json --out m.safetensors"));
    assert!(trained.stderr.contains("standardised") && trained.stderr.contains("--no-standardize"));
    let report = trained.json();
    let (own, linear) = (&report["explained"], &report["explained_linear"]);
    // Half of the variance is noise.
    assert!((number(&own["held_out"]) - 0.5).abs() < 0.15, "{report}");
    assert!(number(&own["held_out"]) > number(&linear["held_out"]) - 0.05, "{report}");
    assert!(number(&own["training"]) - number(&own["held_out"]) < 0.2, "{report}");
    assert!(metadata(&folder, "m.safetensors", "scaling").is_some());
    let said = folder.ok(&format!("{TRAIN} --out m.safetensors")).stdout;
    assert!(said.contains("held out") && said.contains("linear model") && said.contains("a constant explains 0 %"));
}

#[test]
fn the_defaults_predict_new_rows_better_than_20000_epochs_and_their_intervals_hold() {
    let folder = good_and_overfitted();
    let (good, bad) = (evaluate(&folder, "good_p.safetensors"), evaluate(&folder, "bad_p.safetensors"));
    assert!(number(&good["nll"]) < number(&bad["nll"]) - 0.1, "{good} {bad}");
    assert!((number(&good["coverage_90"]) - 0.9).abs() < 0.05, "{good}");
    assert!(number(&bad["coverage_90"]) < 0.85, "{bad}");
}

#[test]
fn a_linear_model_takes_the_prior_that_predicts_best_since_none_of_them_is_simpler() {
    let folder = folder();
    let trained =
        folder.ok("train --data train.csv --target y --likelihood gaussian --json --out m.safetensors").json();
    let tried = trained["path"].as_array().expect("priors").iter().map(|step| number(&step[1]));
    let best = tried.fold(f64::NEG_INFINITY, f64::max);
    assert_eq!(number(&trained["held_out_log_likelihood"]), best, "{trained}");
}

#[test]
fn options_of_adam_ask_for_plain_adam_with_exactly_these_settings() {
    let folder = folder();
    let options = "--epochs 30 --lr 0.02 --weight-decay 0.001";
    let plain = folder.ok(&format!("{TRAIN} {options} --no-standardize --json --out a.safetensors")).json();
    assert_eq!(plain["epochs"], 30);
    assert!(plain["loss"].is_number() && plain.get("path").is_none(), "{plain}");
    assert_eq!(metadata(&folder, "a.safetensors", "scaling"), None);
    let recipe: Value = serde_json::from_str(&metadata(&folder, "a.safetensors", "recipe").expect("a recipe")).unwrap();
    assert_eq!((&recipe["procedure"]["name"], &recipe["procedure"]["epochs"]), (&"adam".into(), &30.into()));
    assert_eq!(recipe["procedure"]["learning_rate"], 0.02);
}

#[test]
fn a_fit_takes_the_prior_and_the_noise_that_training_found_unless_others_are_given() {
    let folder = folder();
    let trained = folder.ok(&format!("{TRAIN} --json --out m.safetensors")).json();
    let fit = format!("fit --model m.safetensors --data train.csv {ABOUT} --json --out p.safetensors");
    let fitted = folder.ok(&fit).json();
    assert_eq!(fitted["prior_precision"], trained["prior_precision"]);
    assert!((number(&fitted["sigma"]) / number(&trained["sigma"]) - 1.0).abs() < 1e-9);
    let given = folder.ok(&format!("{fit} --prior-precision 3 --sigma 20")).json();
    assert_eq!(number(&given["prior_precision"]), 3.0);
    assert!((number(&given["sigma"]) - 20.0).abs() < 1e-9);
}

#[test]
fn the_default_training_writes_the_same_bytes_on_any_number_of_threads() {
    let folder = folder();
    folder.ok(&format!("{TRAIN} --threads 1 --out one.safetensors"));
    folder.ok(&format!("{TRAIN} --threads 3 --out three.safetensors"));
    let bytes = |name: &str| std::fs::read(folder.path(name)).expect("a model");
    assert!(bytes("one.safetensors") == bytes("three.safetensors"));
}

#[test]
fn a_network_too_large_for_steps_by_its_curvature_is_stopped_by_held_out_rows() {
    let folder = Folder::new();
    folder.write("train.csv", table(2500, 3));
    folder.write("test.csv", table(500, 4));
    let trained = folder.ok(&format!("{}00,100 --json --out m.safetensors", TRAIN)).json();
    assert!(trained["procedure"].as_str().is_some_and(|words| words.contains("stopped early")), "{trained}");
    assert!((number(&trained["explained"]["held_out"]) - 0.5).abs() < 0.1, "{trained}");
    let fit = format!("fit --model m.safetensors --data train.csv {ABOUT} --structure diag --out p.safetensors");
    let said = folder.ok(&fit).stderr;
    assert!(!said.contains("ONNX"), "{said}");
    assert!((number(&evaluate(&folder, "p.safetensors")["coverage_90"]) - 0.9).abs() < 0.06);
}

#[test]
fn leave_one_out_says_that_it_is_at_these_weights_and_does_not_compare_networks_with_others() {
    let folder = good_and_overfitted();
    let said = folder.ok("loo --posterior good_p.safetensors").stdout;
    assert!(said.starts_with("leave-one-out of the posterior at these weights"), "{said}");
    let compare = "loo --posterior bad_p.safetensors --compare good_p.safetensors";
    folder.refuses(compare, &["other weights", "evidence", "--refit"]);
    // The closed form would prefer the overfitted one; training again without each fifth does not.
    let refit = folder.ok(&format!("{compare} --refit 5 --json")).json();
    let comparison = &refit["refit"]["comparison"];
    assert_eq!((&refit["refit"]["from"], &comparison["better"]), (&"recipe".into(), &"good_p.safetensors".into()));
    assert!(number(&comparison["elpd_difference"]) < -2.0 * number(&comparison["se_difference"]), "{comparison}");
    assert!(refit["advice"].to_string().contains("adapted to single points"), "{refit}");
    let good = folder.ok("loo --posterior good_p.safetensors --json").json();
    assert!(!good["advice"].to_string().contains("adapted"), "{good}");
}

#[test]
fn the_same_weights_under_two_priors_may_be_compared_by_leave_one_out() {
    let folder = folder();
    folder.ok(&format!("{TRAIN} --out m.safetensors"));
    for (prior, name) in [("1", "one"), ("30", "other")] {
        let fit = format!("fit --model m.safetensors --data train.csv {ABOUT} --prior-precision {prior}");
        folder.ok(&format!("{fit} --out {name}.safetensors"));
    }
    let compared = folder.ok("loo --posterior one.safetensors --compare other.safetensors --json").json();
    assert!(compared["comparison"]["elpd_difference"].is_number(), "{compared}");
}

#[test]
fn promise_and_outcome_stand_side_by_side_and_a_disagreement_is_the_headline() {
    let folder = good_and_overfitted();
    let bad = folder.ok("loo --posterior bad_p.safetensors --data test.csv --target y").stdout;
    assert!(bad.starts_with("leave-one-out promises too much"), "{bad}");
    let good = folder.ok("loo --posterior good_p.safetensors --data test.csv --target y --json").json();
    assert_eq!(good["held_out"]["agrees"], true);
    assert!(good["held_out"]["promised_log_density"].is_number(), "{good}");
}

#[test]
fn scores_by_samples_that_are_unreliable_at_many_points_are_not_printed_as_numbers() {
    let folder = folder();
    folder.ok(&format!("{TRAIN} --epochs 300 --out m.safetensors"));
    let fit = format!("fit --model m.safetensors --data train.csv {ABOUT} --prior-precision 0.01 --sigma 20");
    folder.ok(&format!("{fit} --out p.safetensors"));
    let loo = "loo --posterior p.safetensors --method riemannian --samples 30 --metric euclidean";
    let report = folder.ok(&format!("{loo} --json")).json();
    assert!(number(&report["n_k_above_0_7"]) > 16.0, "{report}");
    assert!(report["elpd_loo"].is_null() && report["se"].is_null() && report["p_loo"].is_null(), "{report}");
    let said = folder.ok(loo).stdout;
    assert!(said.contains("no reliable number") && !said.contains("riemannian − map"), "{said}");
}

fn report(folder: &Folder, options: &str) -> Value {
    folder.ok(&format!("report {options} --method map,glm --json --out page.html")).json()
}

fn finding<'a>(report: &'a Value, about: &str) -> &'a Value {
    let found = report["findings"].as_array().and_then(|all| all.iter().find(|finding| finding["about"] == about));
    found.unwrap_or_else(|| panic!("nothing about {about} in {report}"))
}

#[test]
fn the_report_tells_an_overfitted_network_from_one_that_is_not_with_and_without_held_out_rows() {
    let folder = good_and_overfitted();
    let rows = "--data test.csv --target y";
    for (posterior, overfitted) in [("good_p.safetensors", false), ("bad_p.safetensors", true)] {
        for data in [rows, ""] {
            let report = report(&folder, &format!("--posterior {posterior} {data}"));
            assert_eq!(report["overfitted"], overfitted, "{posterior} {data}: {report}");
            let words = finding(&report, "overfitting")["words"].to_string();
            assert!(words.contains("a linear model") && words.contains("a constant 0 %"), "{words}");
        }
    }
    // Without held-out rows the recipe is followed again without each fifth of the training rows.
    let refits = &report(&folder, "--posterior bad_p.safetensors")["explained"]["refits"];
    assert!(number(refits) < 0.3, "{refits}");
    let bad = report(&folder, &format!("--posterior bad_p.safetensors {rows}"));
    assert!(bad["explained"]["refits"].is_null());
    assert!(bad["headline"].to_string().contains("overfitted"), "{bad}");
    assert_eq!((&bad["mood"], &finding(&bad, "promise")["mood"]), (&"problem".into(), &"problem".into()));
    let page = std::fs::read_to_string(folder.path("page.html")).expect("a page");
    for part in ["Beside simpler models", "raining rows to look at", "R² of y", "by fifths of", "rla report", "seed 0"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn intervals_that_hold_overall_but_not_where_the_target_is_large_are_found_and_the_cure_is_named() {
    let folder = Folder::new();
    let mut noise = Noise(9);
    let rows = |count: usize, noise: &mut Noise| -> String {
        let row = |_| {
            let x = noise.next() + 1.0;
            format!("{x:.4},{:.4}\n", 10.0 * x + 0.3 * x.powi(3) * noise.normal() + 3.0)
        };
        "x,price\n".to_string() + &(0..count).map(row).collect::<String>()
    };
    folder.write("train.csv", rows(400, &mut noise));
    folder.write("test.csv", rows(1500, &mut noise));
    let about = "--target price --likelihood gaussian";
    folder.ok(&format!("train --data train.csv {about} --hidden 5 --out m.safetensors"));
    folder.ok(&format!("fit --model m.safetensors --data train.csv {about} --out p.safetensors"));
    let report = report(&folder, "--posterior p.safetensors --data test.csv --target price");
    let judged = finding(&report, "calibration");
    let words = judged["words"].to_string();
    assert_ne!(judged["mood"], "good", "{words}");
    assert!(words.contains("highest fifth") && words.contains("heteroscedastic"), "{words}");
    let fifths = &report["coverage_by_fifths"]["the prediction"];
    assert!(number(&fifths[0]["coverage_90"]) > 0.97 && number(&fifths[4]["coverage_90"]) < 0.8, "{fifths}");
}

#[test]
fn counts_have_scores_of_their_own_and_no_word_about_noise() {
    let folder = Folder::new();
    let mut noise = Noise(2);
    let mut text = "x,z,y\n".to_string();
    for _ in 0..200 {
        let (x, z) = (noise.next(), noise.next());
        // Counts that vary far more than a Poisson distribution has it.
        let y = ((0.5 + x).exp() * (2.0 * noise.normal()).exp()).floor().min(400.0);
        text += &format!("{x:.4},{z:.4},{y}\n");
    }
    folder.write("d.csv", text);
    let about = "--data d.csv --target y";
    folder.ok(&format!("train {about} --likelihood poisson --hidden 4 --out m.safetensors"));
    folder.ok(&format!("fit --model m.safetensors {about} --likelihood poisson --out p.safetensors"));
    let scores = folder.ok(&format!("evaluate --posterior p.safetensors {about} --json")).json();
    assert!(scores["rmse"].is_number() && scores["coverage_90"].is_number(), "{scores}");
    let report = report(&folder, &format!("--posterior p.safetensors {about}"));
    let words = finding(&report, "calibration")["words"].to_string();
    assert!(words.contains("vary more than a Poisson") && !words.contains("noise"), "{words}");
}

#[test]
fn a_best_method_is_named_only_beyond_two_paired_standard_errors() {
    let folder = folder();
    folder.ok(&format!("{TRAIN} --out m.safetensors"));
    folder.ok(&format!("fit --model m.safetensors --data train.csv {ABOUT} --out p.safetensors"));
    let all =
        "evaluate --posterior p.safetensors --data test.csv --target y --method all --samples 5 --metric euclidean";
    let outcome = folder.rla(&format!("{all} --json"));
    let scores = outcome.json();
    let clear = number(&scores["gain"]) > 2.0 * number(&scores["gain_se"]);
    assert_eq!(scores["best"].is_string(), clear, "{scores}");
    let said = folder.rla(all).stdout;
    assert_eq!(said.contains("no clear difference"), !clear, "{said}");
}

#[test]
fn a_network_of_this_program_that_is_not_at_a_mode_is_told_about_training_and_another_about_how_it_was_read() {
    let folder = folder();
    folder.ok(&format!("{TRAIN} --epochs 3 --out m.safetensors"));
    let fit = format!("--data train.csv {ABOUT} --optimize --out p.safetensors");
    let own = folder.ok(&format!("fit --model m.safetensors {fit}")).stderr;
    assert!(own.contains("--epochs") && !own.contains("ONNX") && !own.contains("layers"), "{own}");
    folder.model("random.safetensors", &[8, 10, 1]);
    let other = folder.ok(&format!("fit --model random.safetensors {fit}")).stderr;
    assert!(other.contains("layers") && other.contains("ONNX"), "{other}");
}

/// Starts the program, waits until it has said a word, interrupts it, and gives its status and all that it said.
#[cfg(unix)]
fn interrupted(folder: &Folder, arguments: &str, wait_for: Option<&str>) -> (Option<i32>, String) {
    use std::io::{BufRead, BufReader, Read};
    let mut child = program::program_that_listens()
        .args(arguments.split_whitespace())
        .current_dir(folder.path(""))
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the program runs");
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("stderr"));
    while let Some(word) = wait_for {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).expect("a line") > 0, "no {word:?} in {said}");
        said += &line;
        if line.contains(word) {
            break;
        }
    }
    std::thread::sleep(std::time::Duration::from_millis(700));
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(kill.success());
    stderr.read_to_string(&mut said).expect("text");
    (child.wait().expect("an end").code(), said)
}

#[test]
#[cfg(unix)]
fn a_long_fit_says_how_long_it_takes_and_what_is_faster_and_when_interrupted_that_nothing_is_kept() {
    let folder = Folder::new();
    let mut noise = Noise(4);
    let mut text = (0..20).map(|i| format!("x{i},")).collect::<String>() + "label\n";
    for row in 0..1000 {
        text += &(0..20).map(|_| format!("{:.3},", noise.normal())).collect::<String>();
        text += &format!("{}\n", row % 200);
    }
    folder.write("d.csv", text);
    let about = "--data d.csv --target label --likelihood categorical";
    folder.ok(&format!("train {about} --hidden 32 --epochs 3 --out m.safetensors"));
    let fit = format!("fit --model m.safetensors {about} --out p.safetensors");
    let (status, said) = interrupted(&folder, &fit, Some("the fit takes about"));
    assert!(said.contains("--structure kron") && said.contains("nothing is kept"), "{said}");
    assert_eq!(status, Some(130));
    assert!(!folder.path("p.safetensors").exists());
}

#[test]
#[cfg(unix)]
fn a_long_prediction_says_how_long_it_takes_before_it_starts() {
    let folder = Folder::new();
    let row = |n: usize| format!("{:.4},{:.4}\n", (n % 997) as f64 / 500.0, (n % 13) as f64);
    folder.write("d.csv", "x,y\n".to_string() + &(0..1300).map(row).collect::<String>());
    folder.write("new.csv", "x\n".to_string() + &(0..150_000).map(|n| format!("{}\n", n % 10)).collect::<String>());
    folder.ok("train --data d.csv --target y --likelihood gaussian --hidden 400 --epochs 2 --out m.safetensors");
    folder.ok("fit --model m.safetensors --data d.csv --out p.safetensors");
    let predict = "predict --posterior p.safetensors --inputs new.csv --threads 1 --out new_p.csv";
    let (status, said) = interrupted(&folder, predict, Some("predicting takes about"));
    assert!(said.contains("--method map needs none"), "{said}");
    assert!(status != Some(0) && !folder.path("new_p.csv").exists());
}

#[test]
fn every_class_is_in_the_legend_of_a_picture() {
    let folder = Folder::new();
    let row = |n: usize| format!("{:.2},{:.2},c{:02}\n", (n % 30) as f64, (n % 7) as f64, n % 30);
    folder.write("d.csv", "x,z,kind\n".to_string() + &(0..300).map(row).collect::<String>());
    let train = "train --data d.csv --target kind --likelihood categorical --hidden 4 --epochs 20 --out m.safetensors";
    folder.ok(train);
    folder.ok("fit --model m.safetensors --data d.csv --structure diag --out p.safetensors");
    folder.ok("report --posterior p.safetensors --data d.csv --method map,glm --out page.html");
    let page = std::fs::read_to_string(folder.path("page.html")).expect("a page");
    let legend: Vec<&str> = page.split("Class probabilities along").collect();
    assert!(legend.len() > 1, "no picture of classes");
    // 24 with lines of their own, and the others as one.
    assert!(page.contains("the other 6 together") && page.contains("s5 long"));
}

#[test]
#[cfg(unix)]
fn an_interrupted_training_by_adam_keeps_the_network_as_it_is_then() {
    let folder = folder();
    let train = format!("{TRAIN} --epochs 100000000 --out m.safetensors");
    let (status, said) = interrupted(&folder, &train, Some("training takes about"));
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("the network as it was then is in m.safetensors"), "{said}");
    folder.ok(&format!("fit --model m.safetensors --data train.csv {ABOUT} --optimize --out p.safetensors"));
}

/// The keys that a page of the documentation lists under a heading.
fn documented(command: &str) -> Vec<String> {
    let page = std::fs::read_to_string(repository("docs/json.md")).expect("docs/json.md");
    let start = page.find(&format!("## `rla {command}")).unwrap_or_else(|| panic!("no section on {command}"));
    let section = &page[start + 3..];
    let section = &section[..section.find("\n## ").unwrap_or(section.len())];
    section.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

#[test]
fn every_key_of_every_json_object_is_documented() {
    let folder = good_and_overfitted();
    let sample = "sample --posterior good_p.safetensors --samples 3 --metric euclidean --json --out s.safetensors";
    let data = "--data test.csv --target y";
    for (command, arguments) in [
        ("train", format!("{TRAIN} --json --out t.safetensors")),
        ("train", format!("{TRAIN} --epochs 40 --evidence --json --out t.safetensors")),
        ("fit", format!("fit --model good.safetensors --data train.csv {ABOUT} --optimize --json --out q.safetensors")),
        ("evaluate", format!("evaluate --posterior good_p.safetensors {data} --curves --json")),
        ("loo", format!("loo --posterior good_p.safetensors {data} --refit 2 --json")),
        ("report", format!("report --posterior good_p.safetensors {data} --method map,glm --json --out r.html")),
        ("sample", sample.to_string()),
    ] {
        let known = documented(command);
        for key in folder.ok(&arguments).json().as_object().expect("an object").keys() {
            assert!(known.contains(key), "docs/json.md does not list `{key}` of rla {command}");
        }
    }
}

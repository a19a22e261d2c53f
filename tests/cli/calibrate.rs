//! `rla calibrate`, and what `predict` and `evaluate` make of it.

use serde_json::Value;

use crate::{Folder, repository};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Rows of a line with noise that depends on the place, in three files without common rows.
fn regression() -> Folder {
    let folder = Folder::new();
    let rows = |from: usize, to: usize| {
        let mut text = "x,place,y\n".to_string();
        for row in from..to {
            let x = (row * 37 % 101) as f64 / 25.0 - 2.0;
            let place = if row % 3 == 0 { "loud" } else { "calm" };
            let noise = ((row * 7919 % 997) as f64 / 997.0 - 0.5) * if place == "loud" { 3.0 } else { 0.6 };
            text += &format!("{x},{place},{}\n", 0.7 * x + noise);
        }
        text
    };
    folder.write("train.csv", rows(0, 40));
    folder.write("held_out.csv", rows(40, 140));
    folder.write("test.csv", rows(140, 640));
    let train = "--data train.csv --target y --ignore place";
    folder.ok(&format!("train {train} --likelihood gaussian --hidden 3 --epochs 200 --out m.safetensors"));
    folder.ok("fit --model m.safetensors --data train.csv --ignore place --optimize --out p.safetensors");
    folder
}

/// Columns of a CSV by name.
fn column(folder: &Folder, file: &str, name: &str) -> Vec<f64> {
    let table = folder.table(file);
    table.dataset(&[name.to_string()]).expect("the column").targets().column(0).to_vec()
}

#[test]
fn intervals_are_the_mean_and_so_many_deviations_and_the_guarantee_is_named() {
    let folder = regression();
    let calibrate = "calibrate --posterior p.safetensors --data held_out.csv --ignore place";
    let said = folder.ok(&format!("{calibrate} --out c.safetensors"));
    assert!(said.stdout.contains("calibrated on 100 rows"), "{}", said.stdout);
    let predict = "predict --posterior c.safetensors --inputs held_out.csv --target y --ignore place --out o.csv";
    let outcome = folder.ok(predict);
    assert!(outcome.stderr.contains("with probability at least 0.9, whatever the model"), "{}", outcome.stderr);
    let of = |name: &str| column(&folder, "o.csv", name);
    let (mean, variance, lower, upper) = (of("mean"), of("total_variance"), of("lower"), of("upper"));
    let y = column(&folder, "held_out.csv", "y");
    let mut scores: Vec<f64> = (0..100).map(|n| (y[n] - mean[n]).abs() / variance[n].sqrt()).collect();
    scores.sort_by(f64::total_cmp);
    // ⌈0.9 · 101⌉ = 91.
    for n in 0..100 {
        let half = scores[90] * variance[n].sqrt();
        assert!((lower[n] - mean[n] + half).abs() < 1e-9 && (upper[n] - mean[n] - half).abs() < 1e-9, "row {n}");
    }
    // Another level, and the intervals as they were.
    folder.ok(&format!("{predict} --interval 0.5"));
    assert!((of("upper")[0] - mean[0] - scores[50] * variance[0].sqrt()).abs() < 1e-9);
    let outcome = folder.ok(&format!("{predict} --interval-method as-fitted"));
    assert!(!outcome.stderr.contains("whatever the model"));
    assert!((of("upper")[0] - mean[0] - 1.644_853_626_951 * variance[0].sqrt()).abs() < 1e-9);
    let evaluate = "evaluate --posterior c.safetensors --data test.csv --ignore place";
    let scores = folder.ok(&format!("{evaluate} --json")).json();
    let hold = scores["hold"].as_array().expect("how intervals hold");
    assert_eq!(hold.iter().map(|one| one["source"].as_str()).collect::<Vec<_>>(), [Some("as_fitted"), Some("split")]);
    let (coverage, error) = (number(&hold[1]["coverage"]), number(&hold[1]["coverage_se"]));
    assert!((error - (coverage * (1.0 - coverage) / 500.0).sqrt()).abs() < 1e-12);
    // 500 test rows and 100 calibration rows: a standard deviation of 0.033; three below the level is the alarm.
    assert!(coverage > 0.8, "{coverage}");
    let thirds = hold[1]["by_spread"].as_array().expect("terciles");
    assert_eq!(thirds.len(), 3);
    let mean_of_thirds: f64 =
        thirds.iter().map(|third| number(&third["coverage"]) * number(&third["n"])).sum::<f64>() / 500.0;
    assert!((mean_of_thirds - coverage).abs() < 1e-12);
    let text = folder.ok(evaluate).stdout;
    assert!(text.contains("as fitted") && text.contains("calibrated") && text.contains("by tercile"), "{text}");
}

#[test]
fn groups_are_each_covered_and_needed_when_predicting() {
    let folder = regression();
    let calibrate = "calibrate --posterior p.safetensors --data held_out.csv --by place --out c.safetensors";
    let report = folder.ok(&format!("{calibrate} --json")).json();
    assert_eq!(report["groups"].as_u64(), Some(2));
    let evaluate = "evaluate --posterior c.safetensors --data test.csv --json";
    let hold = folder.ok(evaluate).json()["hold"][1].clone();
    let groups = hold["by_group"].as_array().expect("groups");
    assert_eq!(groups.iter().map(|group| group[0].as_str()).collect::<Vec<_>>(), [Some("calm"), Some("loud")]);
    let widths: Vec<f64> = groups.iter().map(|group| number(&group[1]["mean_size"])).collect();
    assert!(widths[1] > 2.0 * widths[0], "{widths:?}");
    for group in groups {
        assert!(number(&group[1]["coverage"]) > 0.78, "{group}");
    }
    // The column need not be an input, but it must be there.
    folder.write("without.csv", "x\n1\n");
    folder.refuses("predict --posterior c.safetensors --inputs without.csv --out o.csv", &["place"]);
    folder.write("other.csv", "x,place\n1,calm\n2,elsewhere\n");
    folder.refuses(
        "predict --posterior c.safetensors --inputs other.csv --out o.csv",
        &["row 2", "elsewhere", "calm, loud"],
    );
}

#[test]
fn weights_of_a_shift_are_read_from_both_files() {
    let folder = regression();
    let add = |name: &str, out: &str, weight: &dyn Fn(usize) -> f64| {
        let text = std::fs::read_to_string(folder.path(name)).expect("a file");
        let lines: Vec<String> = text
            .lines()
            .enumerate()
            .map(|(row, line)| if row == 0 { format!("{line},w") } else { format!("{line},{}", weight(row)) })
            .collect();
        folder.write(out, lines.join("\n"));
    };
    add("held_out.csv", "h.csv", &|row| 1.0 + (row % 5) as f64);
    add("test.csv", "t.csv", &|row| if row == 1 { 500.0 } else { 2.0 });
    folder.ok("calibrate --posterior p.safetensors --data h.csv --ignore place --weights-column w --out c.safetensors");
    folder.ok("predict --posterior c.safetensors --inputs t.csv --target y --ignore place --out o.csv");
    let text = std::fs::read_to_string(folder.path("o.csv")).expect("predictions");
    let row = |index: usize| text.lines().nth(index).expect("a row").to_string();
    assert!(row(1).ends_with("-inf,inf") && !row(2).contains("inf"), "{}\n{}", row(1), row(2));
    folder.refuses("predict --posterior c.safetensors --inputs test.csv --target y --ignore place --out o.csv", &["w"]);
}

#[test]
fn classes_get_sets() {
    let folder = Folder::new();
    let rows = |from: usize, to: usize| {
        let mut text = "a,b,kind\n".to_string();
        for row in from..to {
            let kind = row % 3;
            let jitter = |step: usize| (row * step % 89) as f64 / 40.0 - 1.1;
            text += &format!("{},{},{}\n", kind as f64 + jitter(31), jitter(57), ["ant", "bee", "cat"][kind]);
        }
        text
    };
    folder.write("train.csv", rows(0, 60));
    folder.write("held_out.csv", rows(60, 160));
    folder.write("test.csv", rows(160, 400));
    folder.ok(
        "train --data train.csv --target kind --likelihood categorical --hidden 3 --epochs 200 --out m.safetensors",
    );
    folder.ok("fit --model m.safetensors --data train.csv --calibrate-on held_out.csv --out p.safetensors");
    for (sets, method) in [("lac", "glm"), ("aps", "glm"), ("lac", "map")] {
        let options = format!("--posterior p.safetensors --method {method} --sets {sets}");
        folder.ok(&format!("predict {options} --inputs held_out.csv --target kind --keep kind --out o.csv"));
        let text = std::fs::read_to_string(folder.path("o.csv")).expect("predictions");
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
        let header = lines.next().expect("a header");
        let place = |name: &str| header.iter().position(|column| column == name).expect("a column");
        let (kind, set, size) = (place("kind"), place("set"), place("set_size"));
        let mut inside = 0;
        for line in lines {
            let members: Vec<&str> = line[set].split('|').filter(|name| !name.is_empty()).collect();
            assert_eq!(line[size].parse::<f64>().ok(), Some(members.len() as f64));
            inside += usize::from(members.contains(&line[kind].as_str()));
        }
        // ⌈0.9 · 101⌉ of the calibration rows; more only where scores are equal.
        assert!((91..=93).contains(&inside), "{sets} {method}: {inside}");
        let hold = folder.ok(&format!("evaluate {options} --data test.csv --json")).json()["hold"][1].clone();
        assert!(number(&hold["coverage"]) > 0.8 && number(&hold["mean_size"]) < 3.0, "{hold}");
    }
}

#[test]
fn what_gives_no_guarantee_is_refused() {
    let folder = regression();
    let calibrate = "calibrate --posterior p.safetensors --ignore place --out c.safetensors";
    folder.refuses(&format!("{calibrate} --data train.csv"), &["40 of the 40 calibration rows", "held out"]);
    let held_out = std::fs::read_to_string(folder.path("held_out.csv")).expect("a file");
    let few: Vec<&str> = held_out.lines().take(9).collect();
    folder.write("few.csv", few.join("\n"));
    folder.refuses(&format!("{calibrate} --data few.csv"), &["8 rows", "90 % needs at least 9"]);
    folder.write("other.csv", held_out.replace("x,place", "z,place"));
    folder.refuses(&format!("{calibrate} --data other.csv"), &["x"]);
    folder
        .refuses(&format!("{calibrate} --data held_out.csv --level 0.995"), &["100 rows", "99.5 % needs at least 199"]);
    folder.ok(&format!("{calibrate} --data held_out.csv --method map"));
    let predict = "predict --posterior c.safetensors --inputs test.csv --target y --ignore place --out o.csv";
    let outcome = folder.ok(predict);
    assert!(outcome.stderr.contains("calibrated for map, and not for glm"), "{}", outcome.stderr);
    folder.refuses(&format!("{predict} --interval-method split"), &["not calibrated for `glm`"]);
    folder.refuses(&format!("{predict} --sets aps"), &["--sets belongs to classes"]);
    folder.refuses(&format!("{predict} --method map --interval 0.999"), &["99.9 % needs at least 999"]);
    assert!(!folder.names().contains(&"x.csv".to_string()));
}

#[test]
fn a_committee_is_calibrated_as_a_whole() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(repository("data/snelson.csv")).expect("data");
    let lines: Vec<&str> = text.lines().collect();
    let pick = |keep: &dyn Fn(usize) -> bool| {
        let rows = lines.iter().enumerate().filter(|(row, _)| *row == 0 || keep(*row));
        rows.map(|(_, line)| *line).collect::<Vec<_>>().join("\n")
    };
    folder.write("train.csv", pick(&|row| row % 3 == 0));
    folder.write("held_out.csv", pick(&|row| row % 3 != 0));
    let train = "--likelihood gaussian --hidden 5 --cross-validate --folds 3 --committee";
    folder.ok(&format!("train --data train.csv --target y {train} --out together --quiet"));
    folder.ok("calibrate --posterior together --data held_out.csv --out promised --method map");
    let hold =
        folder.ok("evaluate --posterior promised --data held_out.csv --method map --json").json()["hold"].clone();
    let n = lines.len() - 1 - (lines.len() - 1) / 3;
    let expected = (0.9 * (n as f64 + 1.0)).ceil() / n as f64;
    assert!((number(&hold[1]["coverage"]) - expected).abs() < 1e-12, "{hold}");
}

#[test]
fn rows_that_folds_left_out_scale_the_spread_by_default() {
    let folder = regression();
    let train =
        "train --data held_out.csv --target y --ignore place --likelihood gaussian --hidden 3 --out c.safetensors";
    folder.ok(&format!("{train} --cross-validate --folds 4"));
    folder.ok("fit --model c.safetensors --data held_out.csv --ignore place --out f.safetensors");
    let predict = "predict --posterior f.safetensors --inputs test.csv --target y --ignore place --out o.csv";
    let width = |options: &str, says: &str| {
        let outcome = folder.ok(&format!("{predict} {options}"));
        assert!(outcome.stderr.contains(says), "{options}: {}", outcome.stderr);
        let (lower, upper) = (column(&folder, "o.csv", "lower"), column(&folder, "o.csv", "upper"));
        upper.iter().zip(&lower).map(|(upper, lower)| upper - lower).sum::<f64>() / lower.len() as f64
    };
    let (folds, fitted) = (width("", "each fold left out"), width("--interval-method as-fitted", ""));
    assert_eq!(folds, width("--interval-method folds", "without a guarantee"));
    let cv_plus = width("--interval-method cv+", "at least 0.8, whatever the model");
    assert!(folds != fitted && cv_plus > 0.5 * fitted && cv_plus < 2.0 * fitted, "{fitted} {folds} {cv_plus}");
    let evaluate = "evaluate --posterior f.safetensors --data test.csv --ignore place --intervals --json";
    let hold = folder.ok(evaluate).json()["hold"].clone();
    let sources: Vec<_> = hold.as_array().expect("sources").iter().filter_map(|one| one["source"].as_str()).collect();
    assert_eq!(sources, ["as_fitted", "folds", "cv_plus"]);
    assert!((number(&hold[1]["mean_size"]) - folds).abs() < 1e-9 * folds);
    folder.refuses(
        &predict.replace("f.safetensors", "p.safetensors --interval-method cv+"),
        &["needs the left-out rows of `rla train --cross-validate`"],
    );
}

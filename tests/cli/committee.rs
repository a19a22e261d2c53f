//! `rla train --committee`: a folder of posteriors that predict together.

use serde_json::Value;

use crate::{Folder, repository};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// A small committee of a regression, and what `train` says of it.
fn trained() -> (Folder, String, Value) {
    let folder = Folder::new();
    let data = format!("--data {} --target y", repository("data/snelson.csv"));
    let train = "--likelihood gaussian --standardize --hidden 5 --cross-validate --folds 3 --committee";
    let report = folder.ok(&format!("train {data} {train} --out together --json --quiet")).json();
    (folder, data, report)
}

fn listed(folder: &Folder) -> Vec<(String, f64)> {
    let text = std::fs::read_to_string(folder.path("together/committee.json")).expect("the list of the members");
    let list: Value = serde_json::from_str(&text).expect("JSON");
    let members = list["members"].as_array().expect("members").iter();
    members
        .map(|entry| (entry["posterior"].as_str().unwrap_or_default().to_string(), number(&entry["weight"])))
        .collect()
}

#[test]
fn a_committee_predicts_the_weighted_mean_of_its_members() {
    let (folder, data, report) = trained();
    let members = listed(&folder);
    assert_eq!(report["members"].as_u64(), Some(members.len() as u64));
    assert!(number(&report["held_out_log_likelihood"]) >= number(&report["held_out_log_likelihood_alone"]) - 1e-3);
    assert!((members.iter().map(|member| member.1).sum::<f64>() - 1.0).abs() < 1e-12);
    folder.write("x.csv", "x\n-1\n2.5\n9\n");
    let predict = |posterior: &str| {
        folder.ok(&format!("predict --posterior {posterior} --inputs x.csv --out p.csv"));
        let table = folder.table("p.csv");
        let dataset = table.dataset(&["mean".to_string()]).expect("predictions");
        // Without the number of the row.
        (dataset.targets().clone(), dataset.inputs().select(ndarray::Axis(1), &[1, 2, 3, 4, 5]))
    };
    let (mean, rest) = predict("together");
    // Columns: epistemic, aleatoric and total variance, then the interval.
    let parts: Vec<_> = members.iter().map(|(name, weight)| (weight, predict(&format!("together/{name}")))).collect();
    for row in 0..3 {
        let expected: f64 = parts.iter().map(|(weight, (mean, _))| *weight * mean[(row, 0)]).sum();
        assert!((mean[(row, 0)] - expected).abs() < 1e-12 * expected.abs().max(1.0));
        let second = |(weight, (mean, rest)): &(&f64, (_, _))| -> f64 {
            let (mean, rest): (&ndarray::Array2<f64>, &ndarray::Array2<f64>) = (mean, rest);
            *weight * (rest[(row, 2)] + mean[(row, 0)].powi(2))
        };
        let variance: f64 = parts.iter().map(second).sum::<f64>() - expected * expected;
        assert!((rest[(row, 2)] - variance).abs() < 1e-10, "{} for {variance}", rest[(row, 2)]);
        assert!(rest[(row, 3)] < mean[(row, 0)] && mean[(row, 0)] < rest[(row, 4)]);
    }
    let scores = folder.ok(&format!("evaluate --posterior together {data} --json")).json();
    assert!(number(&scores["nll"]).is_finite());
    let text = folder.ok(&format!("evaluate --posterior together {data} --method all --samples 3")).stdout;
    assert!(text.contains(&format!("a committee of {}", members.len())) && text.contains("best by nll"), "{text}");
}

#[test]
fn the_same_command_writes_the_same_committee_over_an_earlier_one() {
    let (folder, data, _) = trained();
    let read = |name: &str| std::fs::read(folder.path(&format!("together/{name}"))).expect("a file of the committee");
    let files: Vec<(String, Vec<u8>)> =
        listed(&folder).into_iter().map(|(name, _)| (name.clone(), read(&name))).collect();
    let train = "--likelihood gaussian --standardize --hidden 5 --cross-validate --folds 3 --committee --out together";
    let said = folder.ok(&format!("train {data} {train}")).stdout;
    assert!(said.contains("members") && said.contains("held-out log likelihood"), "{said}");
    for (name, bytes) in files {
        assert!(read(&name) == bytes, "{name}");
    }
}

#[test]
fn what_a_committee_cannot_do_is_refused() {
    let (folder, data, _) = trained();
    folder.write("x.csv", "x\n-1\n");
    folder.refuses(
        "sample --posterior together --samples 2 --out s.safetensors",
        &["is a committee", "member-01.safetensors"],
    );
    folder.refuses("predict --posterior together --inputs x.csv --link none --out p.csv", &["one of its members"]);
    std::fs::create_dir(folder.path("other")).expect("a folder");
    folder.write("other/notes.txt", "mine");
    let train = format!("train {data} --likelihood gaussian --hidden 3 --committee");
    folder.refuses(&format!("{train} --out new"), &["--cross-validate"]);
    folder.refuses(&format!("{train} --cross-validate --out other"), &["holds other files"]);
    folder.refuses(&format!("{train} --cross-validate --out x.csv"), &["this is a file"]);
    folder.refuses("predict --posterior other --inputs x.csv --out p.csv", &["without committee.json"]);
    folder.write("together/committee.json", "{\"held_out_log_likelihood\": 0, \"members\": []}");
    folder.refuses("predict --posterior together --inputs x.csv --out p.csv", &["names no members"]);
    let entry = "{\"posterior\": \"member-01.safetensors\", \"weight\": 0}";
    folder.write("together/committee.json", format!("{{\"held_out_log_likelihood\": 0, \"members\": [{entry}]}}"));
    folder.refuses("predict --posterior together --inputs x.csv --out p.csv", &["must be positive"]);
}

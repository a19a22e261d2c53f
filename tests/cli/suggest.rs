//! `rla suggest` and `rla influence`.

use crate::{Folder, repository};

fn posterior() -> Folder {
    let folder = Folder::new();
    let model = repository("data/snelson_map_complete_raw.safetensors");
    let data = repository("data/snelson.csv");
    let options = "--activation tanh --target y --likelihood gaussian --sigma 0.29 --prior-precision 0.05";
    folder.ok(&format!("fit --model {model} --data {data} {options} --out p.safetensors"));
    let rows: Vec<String> = (0..60).map(|n| format!("p{n},{},{}", n as f64 / 4.0 - 4.0, 1 + n % 7)).collect();
    folder.write("pool.csv", format!("id,x,price\n{}\n", rows.join("\n")));
    folder
}

#[test]
fn rows_are_written_with_their_scores_and_reasons() {
    let folder = posterior();
    let suggest = "suggest --posterior p.safetensors --pool pool.csv --keep id --ignore price";
    let outcome = folder.ok(&format!("{suggest} --count 3 --out chosen.csv"));
    assert!(outcome.stderr.contains("3 rows written"), "{}", outcome.stderr);
    let text = std::fs::read_to_string(folder.path("chosen.csv")).expect("the choice");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "rank,row,id,score,mean,deviation,deviation_alone,why");
    assert_eq!(lines.len(), 4);
    for (rank, line) in lines[1..].iter().enumerate() {
        let cells: Vec<&str> = line.split(',').collect();
        let row: usize = cells[1].parse().expect("a row");
        assert_eq!((cells[0], cells[2]), ((rank + 1).to_string().as_str(), format!("p{}", row - 1).as_str()));
        assert!(cells[3].parse::<f64>().is_ok_and(|score| score > 0.0) && line.contains("nats about the weights"));
    }
    let json = folder.ok(&format!("{suggest} --for maximum --count 2 --json")).json();
    assert_eq!(json["chosen"].as_array().map(Vec::len), Some(2));
    folder.write("at.csv", "x\n0\n1\n");
    for goal in ["target --target-inputs at.csv", "minimum --by bound", "maximum --by thompson"] {
        assert!(folder.ok(&format!("{suggest} --for {goal} --count 2")).stdout.starts_with("rank,row,id"), "{goal}");
    }
    let dear = suggest.replace(" --ignore price", "");
    folder.ok(&format!("{dear} --cost-column price --count 2 --quiet"));
    folder.refuses(&format!("{suggest} --for label"), &["label is not what a gaussian likelihood"]);
    folder.refuses(&format!("{suggest} --for target"), &["needs --target-inputs"]);
    folder.refuses(&format!("{suggest} --by bound"), &["--by belongs to"]);
    folder.write("bad.csv", "x,price\n1,-3\n");
    folder.refuses(
        "suggest --posterior p.safetensors --pool bad.csv --cost-column price",
        &["row 1", "not a positive cost"],
    );
}

#[test]
fn influence_names_rows_that_look_wrong_and_those_behind_a_prediction() {
    let folder = posterior();
    let data = repository("data/snelson.csv");
    folder.write("at.csv", "x\n2\n5\n");
    let outcome = folder.ok(&format!(
        "influence --posterior p.safetensors --data {data} --target y --inputs at.csv --count 4 --out i.csv --json"
    ));
    let json = outcome.json();
    let rows = std::fs::read_to_string(folder.path("i.csv")).expect("the figures");
    let of_row: Vec<f64> = rows
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(1).and_then(|cell| cell.parse().ok()).expect("a number"))
        .collect();
    assert_eq!(json["n"].as_u64(), Some(of_row.len() as u64));
    let most = of_row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert_eq!(json["suspicious"][0]["value"].as_f64(), Some(most));
    assert_eq!(json["harmful"].as_array().map(Vec::len), Some(4));
    assert_eq!(json["of_inputs"].as_array().map(Vec::len), Some(2));
    let text = folder.ok("influence --posterior p.safetensors --inputs at.csv --count 2").stdout;
    assert!(text.contains("the most suspicious of") && text.contains("input 2: leaving these out"), "{text}");
    folder.ok(&format!(
        "fit --model {} --data {data} --activation tanh --target y --likelihood gaussian --without-data --out n.safetensors",
        repository("data/snelson_map_complete_raw.safetensors")
    ));
    folder.refuses("influence --posterior n.safetensors", &["influence", "data"]);
}

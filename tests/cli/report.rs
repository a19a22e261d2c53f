//! `rla report`: a page for every kind of posterior, its options, and what it says at the end.

use crate::{Folder, repository};

/// A posterior of a small regression, and other data of the same kind.
fn regression() -> (Folder, String) {
    let folder = Folder::new();
    let data = repository("tests/golden/p1/train.csv");
    folder.ok(&format!(
        "train --data {data} --target y --likelihood gaussian --hidden 5 --epochs 500 --out model.safetensors"
    ));
    folder.ok(&format!(
        "fit --model model.safetensors --data {data} --target y --likelihood gaussian --optimize --out p.safetensors"
    ));
    (folder, data)
}

fn page(folder: &Folder, name: &str) -> String {
    std::fs::read_to_string(folder.path(name)).expect("a page")
}

#[test]
fn a_page_is_written_with_a_verdict_and_the_same_command_writes_the_same_bytes() {
    let (folder, data) = regression();
    let report = format!("report --posterior p.safetensors --data {data} --target y --samples 6");
    let outcome = folder.ok(&format!("{report} --out one.html"));
    assert!(outcome.stdout.starts_with("one.html written\n"), "{}", outcome.stdout);
    folder.ok(&format!("{report} --threads 1 --quiet --out two.html"));
    let one = page(&folder, "one.html");
    assert!(one == page(&folder, "two.html"));
    assert!(one.contains("<h1>p.safetensors</h1>") && one.contains("held-out data, <b>train.csv</b>"));
    for method in ["map", "glm", "nn", "riemannian"] {
        assert!(one.contains(&format!("<code>{method}</code>")), "{method}");
    }
    assert_eq!(folder.ok(&format!("{report} --quiet --out three.html")).stdout, "");
}

#[test]
fn samples_of_a_file_give_the_page_of_the_samples_drawn() {
    let (folder, _) = regression();
    folder.ok("sample --posterior p.safetensors --samples 6 --out s.safetensors");
    let outcome =
        folder.ok("report --posterior p.safetensors --method map,glm,riemannian --samples 6 --out drawn.html");
    assert!(outcome.stderr.contains("the training data inside the posterior are scored"), "{}", outcome.stderr);
    folder.ok(
        "report --posterior p.safetensors --method map,glm,riemannian --samples-file s.safetensors --out read.html",
    );
    // All but the command is the same.
    let contents = |name: &str| {
        let page = page(&folder, name);
        page.lines().filter(|line| !line.contains("<code>rla report")).collect::<Vec<_>>().join("\n")
    };
    assert!(contents("drawn.html") == contents("read.html"));
}

#[test]
fn methods_are_chosen_by_name_and_a_posterior_without_data_has_no_geodesics() {
    let (folder, data) = regression();
    folder.ok("report --posterior p.safetensors --method glm,map --out two.html");
    let two = page(&folder, "two.html");
    assert!(two.contains("<code>glm</code>") && !two.contains("<code>riemannian</code>") && !two.contains("geodesic"));
    folder.ok(&format!(
        "fit --model model.safetensors --data {data} --target y --likelihood gaussian --without-data --out q.safetensors"
    ));
    let outcome = folder.ok(&format!("report --posterior q.safetensors --data {data} --target y --out q.html"));
    assert!(outcome.stderr.contains("the report is without riemannian"), "{}", outcome.stderr);
    assert!(!page(&folder, "q.html").contains("<code>riemannian</code>"));
    folder.refuses(
        "report --posterior q.safetensors --out r.html",
        &["q.safetensors", "training data", "--without-data"],
    );
}

#[test]
fn options_that_do_not_fit_together_are_refused_before_any_work() {
    let (folder, data) = regression();
    for (options, words) in [
        ("--method map --metric monge", "--metric belongs to --method riemannian"),
        ("--method map --samples-file s.safetensors", "--samples-file belongs to --method riemannian"),
        ("--method all", "invalid value 'all'"),
        ("--target y", "--data"),
        ("--interval 1", "between 0 and 1"),
    ] {
        folder.refuses(&format!("report --posterior p.safetensors --out r.html {options}"), &[words]);
    }
    folder.refuses("report --posterior p.safetensors --out p.safetensors", &["one of the input files"]);
    folder.refuses(&format!("report --posterior p.safetensors --data {data} --target z --out r.html"), &["z"]);
}

#[test]
fn uncertified_samples_are_a_problem_on_the_page_and_in_the_exit_status() {
    let (folder, _) = regression();
    folder.ok(
        "sample --posterior p.safetensors --samples 6 --rtol 0.5 --atol 1 --allow-uncertified 1 --out s.safetensors",
    );
    let outcome = folder.rla("report --posterior p.safetensors --samples-file s.safetensors --out r.html");
    assert_eq!(outcome.status, Some(3), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("problem: Of 6 geodesics"), "{}", outcome.stdout);
    assert!(page(&folder, "r.html").contains("<section class=\"verdict problem\""));
}

#[test]
fn a_pool_has_a_section_and_its_file_may_have_other_columns() {
    let (folder, data) = regression();
    let report = format!("report --posterior p.safetensors --data {data} --target y --method map,glm");
    let measured = folder.ok(&format!("{report} --pool {data} --out measured.html --json"));
    assert!(page(&folder, "measured.html").contains("All of its rows are measured already."));
    let json: serde_json::Value = serde_json::from_str(&measured.stdout).expect("JSON");
    assert_eq!(json["pool"]["first"].as_array().map(Vec::len), Some(0));
    assert_eq!(json["hold"][0]["source"], "as_fitted");
    assert_eq!(json["suspicious"].as_array().map(Vec::len), Some(5));
    // Under the input's own name.
    let name = std::fs::read_to_string(&data).expect("data").lines().next().expect("a header").to_string();
    let input = name.split(',').next().expect("an input").to_string();
    let far: String = (0..20).map(|row| format!("{},{row}\n", 10 * row)).collect();
    folder.write("pool.csv", format!("{input},price\n{far}"));
    folder.ok(&format!("{report} --pool pool.csv --out far.html"));
    let far = page(&folder, "far.html");
    assert!(far.contains("Where is the pool least known?") && far.contains(&format!(" times: {input} 0")), "{far}");
    folder.refuses(&format!("{report} --pool no.csv --out no.html"), &["no.csv"]);
}

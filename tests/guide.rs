//! The guide: its commands are run as they are printed, and print the lines that it shows, up to the digits of numbers.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

/// A block of the guide: its language and its text.
type Block = (String, String);

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push((language.to_string(), text.join("\n") + "\n"));
        }
    }
    found
}

/// The words of each line, with `#` for every number.
fn without_numbers(text: &str) -> Vec<Vec<String>> {
    let word = |word: &str| {
        let bare = word.trim_end_matches([',', ':', ';', '%']);
        if bare.parse::<f64>().is_ok() { "#".to_string() } else { word.to_string() }
    };
    text.lines().map(|line| line.split_whitespace().map(word).collect()).collect()
}

#[test]
fn every_command_of_the_guide_runs_and_prints_what_the_guide_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/guide.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root.join("data"), folder.path().join("data")).unwrap();
    let blocks = blocks(&page);
    let (mut commands, mut compared, mut printed) = (0, 0, String::new());
    for (language, text) in &blocks {
        match language.as_str() {
            "sh" => {
                let script = format!("set -eu\nrla() {{ \"$0\" \"$@\"; }}\n{text}");
                let run =
                    Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_rla")]).current_dir(&folder).output();
                let output = run.unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{text}\n{said}");
                printed = String::from_utf8(output.stdout).unwrap();
                commands += 1;
            }
            "text" => {
                let found = without_numbers(&printed);
                // In this order; there may be others in between.
                let mut lines = found.iter();
                for line in without_numbers(text) {
                    assert!(lines.any(|found| *found == line), "{line:?} is not in what was printed:\n{printed}");
                }
                compared += 1;
            }
            "python" => {}
            other => panic!("a block of `{other}`, which nothing runs"),
        }
    }
    assert!(commands >= 4 && compared >= 3, "{commands} {compared}");
    let report = std::fs::read_to_string(folder.path().join("guide/report.html")).unwrap();
    assert!(report.contains("Can I trust this?") && report.contains("test.csv"));
}

#[test]
fn what_the_guide_refers_to_exists() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let page = std::fs::read_to_string(docs.join("guide.md")).unwrap();
    let targets: Vec<&str> = page.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(targets.len() >= 5);
    // The package is without pictures.
    let pictures = docs.join("figures").exists();
    for target in targets.into_iter().filter(|target| pictures || !target.starts_with("figures/")) {
        assert!(docs.join(target).exists(), "{target}");
    }
}

#[test]
fn numbers_may_differ_and_words_may_not() {
    assert_eq!(without_numbers("a 1.5 b -2, 8-10-1"), without_numbers("a  3 b 1e-5, 8-10-1"));
    assert_ne!(without_numbers("a 1.5"), without_numbers("b 1.5"));
    assert_ne!(without_numbers("a 1"), without_numbers("a 1 2"));
}

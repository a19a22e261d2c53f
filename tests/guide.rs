//! The guide: its commands are run as they are printed, and print the lines that it shows, up to the digits of numbers.
#![cfg(unix)]

use std::path::{Path, PathBuf};
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
    let cell = |cell: &str| {
        let bare = cell.trim_end_matches([':', ';', '%']);
        if bare.parse::<f64>().is_ok() { "#".to_string() } else { cell.to_string() }
    };
    let word = |word: &str| word.split(',').map(cell).collect::<Vec<_>>().join(",");
    text.lines().map(|line| line.split_whitespace().map(word).collect()).collect()
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs the shell commands of a page in a folder with the data, and compares what they print with the blocks of text that
/// follow them; returns how many of both there were.
fn follow(page: &str, folder: &Path) -> (usize, usize) {
    std::os::unix::fs::symlink(repository().join("data"), folder.join("data")).unwrap();
    let (mut commands, mut compared, mut printed) = (0, 0, String::new());
    for (language, text) in &blocks(page) {
        match language.as_str() {
            // These build the project and run this very test.
            "sh" if text.starts_with("cargo ") => {}
            "sh" => {
                let script = format!("set -eu\nrla() {{ \"$0\" \"$@\"; }}\n{text}");
                let run =
                    Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_rla")]).current_dir(folder).output();
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
            // Rust is compiled and run as documentation, Python with its package.
            "python" | "rust" => {}
            other => panic!("a block of `{other}`, which nothing runs"),
        }
    }
    (commands, compared)
}

#[test]
fn every_command_of_the_guide_runs_and_prints_what_the_guide_shows() {
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(repository().join("docs/guide.md")).unwrap();
    let (commands, compared) = follow(&page, folder.path());
    assert!(commands >= 4 && compared >= 3, "{commands} {compared}");
    let report = std::fs::read_to_string(folder.path().join("guide/report.html")).unwrap();
    assert!(report.contains("Can I trust this?") && report.contains("test.csv"));
}

#[test]
fn the_session_of_the_readme_runs_and_prints_what_it_shows_in_at_most_a_hundred_lines() {
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(repository().join("README.md")).unwrap();
    assert_eq!(follow(&page, folder.path()), (1, 1));
    assert!(page.lines().count() <= 100, "{}", page.lines().count());
}

/// The Markdown files of a folder and its subfolders.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let markdown = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    markdown.chain(folders.iter().flat_map(|folder| pages(folder))).collect()
}

#[test]
fn the_book_has_every_page_of_the_docs() {
    let docs = repository().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut listed: Vec<&str> = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    listed.push("SUMMARY.md");
    listed.sort_unstable();
    let mut found: Vec<String> =
        pages(&docs).iter().map(|page| page.strip_prefix(&docs).unwrap().to_string_lossy().into_owned()).collect();
    found.sort_unstable();
    assert_eq!(listed, found);
}

#[test]
fn the_versions_of_the_crate_the_python_package_and_the_citation_agree() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, line) in
        [("python/Cargo.toml", format!("version = \"{version}\"")), ("CITATION.cff", format!("version: {version}"))]
    {
        // The package is without the Python crate.
        if file.starts_with("python") && !repository().join("python").exists() {
            continue;
        }
        let text = std::fs::read_to_string(repository().join(file)).unwrap();
        assert!(text.lines().any(|found| found == line), "{file} does not have the line `{line}`");
    }
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &str) -> Vec<String> {
    let kept = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == ' ';
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings
        .map(|text| text.to_lowercase().chars().filter(|c| kept(*c)).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn no_page_has_a_link_that_leads_nowhere() {
    let mut pages = pages(&repository().join("docs"));
    pages.push(repository().join("README.md"));
    let mut links = 0;
    // The package is without pictures.
    let pictures = repository().join("docs/figures").exists();
    for path in pages {
        let page = std::fs::read_to_string(&path).unwrap();
        for target in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.starts_with("http") || (!pictures && target.contains("figures/")) {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let place = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(place.exists(), "{}: {target}", path.display());
            if !anchor.is_empty() {
                let there = std::fs::read_to_string(&place).unwrap();
                assert!(anchors(&there).iter().any(|found| found == anchor), "{}: {target}", path.display());
            }
            links += 1;
        }
    }
    assert!(links > 50, "{links}");
}

#[test]
fn numbers_may_differ_and_words_may_not() {
    assert_eq!(without_numbers("a 1.5 b -2, 8-10-1"), without_numbers("a  3 b 1e-5, 8-10-1"));
    assert_ne!(without_numbers("a 1.5"), without_numbers("b 1.5"));
    assert_ne!(without_numbers("a 1"), without_numbers("a 1 2"));
}

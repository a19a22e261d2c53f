//! The list in `docs/architecture.md` against the sources: each folder or file imports only from those before it, the
//! program knows the library by its name alone, and the library knows nothing of the program.

#[path = "architecture/imports.rs"]
mod imports;

use std::fs;
use std::path::Path;

use imports::{Import, imports};

/// The files that are not in the list: they declare the others and re-export them.
const ROOTS: [&str; 3] = ["lib.rs", "internals.rs", "main.rs"];
/// The program's place, the last.
const PROGRAM: &str = "cli";

/// A source file: its path below `src`, with slashes, and its text.
type Source = (String, String);

fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The places in their order: the first code in the section "Layering" that is names separated by dots.
fn places(page: &str) -> Vec<String> {
    let section = page.split("\n## Layering").nth(1).expect("a section on layering");
    let list = section.split('`').skip(1).step_by(2).find(|code| code.contains('·')).expect("the list, as code");
    list.split('·').map(|name| name.trim().to_string()).collect()
}

fn listed() -> Vec<String> {
    places(&read(&repository("docs/architecture.md")))
}

/// Every source file.
fn sources() -> Vec<Source> {
    fn collect(folder: &Path, below: &str, found: &mut Vec<Source>) {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let entry = entry.expect("an entry of a folder");
            let name = format!("{below}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                collect(&entry.path(), &format!("{name}/"), found);
            } else if name.ends_with(".rs") {
                found.push((name, read(&entry.path())));
            }
        }
    }
    let mut found = Vec::new();
    collect(&repository("src"), "", &mut found);
    found.sort();
    found
}

/// `laplace` for `laplace/fit.rs` and for `laplace.rs`.
fn place_of(file: &str) -> &str {
    file.split('/').next().unwrap_or(file).trim_end_matches(".rs")
}

/// The module that a file is: `["laplace", "fit"]`.
fn module_of(file: &str) -> Vec<&str> {
    let path = file.trim_end_matches(".rs");
    path.strip_suffix("/mod").unwrap_or(path).split('/').collect()
}

fn is_program(file: &str) -> bool {
    file == "main.rs" || place_of(file) == PROGRAM
}

/// What is wrong with the imports of a file of the library.
fn complaints(file: &str, source: &str, places: &[String]) -> Vec<String> {
    let position = |name: &str| places.iter().position(|place| place == name);
    let own = place_of(file);
    let Some(own_position) = position(own) else { return vec![format!("src/{file}: `{own}` is not in the list")] };
    let complaint = |Import { line, path }: Import| {
        let written = format!("src/{file}:{line}: `crate::{}`", path.join("::"));
        let place = path.iter().find(|segment| *segment != "internals").map_or("", String::as_str);
        match position(place) {
            Some(position) if position <= own_position => None,
            Some(_) => Some(format!("{written}: `{place}` comes after `{own}` in the list")),
            None => Some(format!("{written}: import from a folder or file of the list")),
        }
    };
    let mut found: Vec<String> = imports(&module_of(file), source).into_iter().filter_map(complaint).collect();
    found.extend(includes(file, source));
    found
}

/// What is wrong with the imports of a file of the program: within its own crate, it may name only itself.
fn program_complaints(file: &str, source: &str) -> Vec<String> {
    let module = if file == "main.rs" { Vec::new() } else { module_of(file) };
    let foreign =
        imports(&module, source).into_iter().filter(|import| import.path.first().is_none_or(|at| at != PROGRAM));
    let complaint = |Import { line, path }: Import| {
        format!("src/{file}:{line}: `crate::{}`: the program uses `riemannian_laplace::…`", path.join("::"))
    };
    let declared = source.lines().filter_map(|line| line.trim().strip_prefix("mod ")?.strip_suffix(';'));
    let others = declared.filter(|name| file == "main.rs" && *name != PROGRAM);
    let mut found: Vec<String> = foreign.map(complaint).collect();
    found.extend(others.map(|name| format!("src/{file}: `mod {name}`: the program is `{PROGRAM}`")));
    found.extend(includes(file, source));
    found
}

/// Source text from elsewhere, which would belong to two places. What tests share is compiled into each of them.
fn includes(file: &str, source: &str) -> Vec<String> {
    let of_tests = |line: &str| line.contains("#[path = \"../../tests/common/");
    let included = |line: &str| line.contains("#[path") || line.contains("include!(");
    let lines = source.lines().enumerate().filter(|(_, line)| included(line) && !of_tests(line));
    lines.map(|(index, line)| format!("src/{file}:{}: `{}`: a file has one place", index + 1, line.trim())).collect()
}

/// Where a text mentions options or the program.
fn words_of_the_program(file: &str, source: &str) -> Vec<String> {
    let is_option = |line: &str| {
        let bytes = line.as_bytes();
        bytes.windows(3).any(|three| three.starts_with(b"--") && three[2].is_ascii_lowercase())
    };
    let names_it =
        |line: &str| line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).any(|word| word == "rla");
    let lines = source.lines().enumerate().filter(|(_, line)| is_option(line) || names_it(line));
    lines.map(|(index, line)| format!("src/{file}:{}: {}", index + 1, line.trim())).collect()
}

fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn every_file_imports_only_from_places_before_its_own() {
    let places = listed();
    assert_eq!(places.first().map(String::as_str), Some("error"), "`error` imports nothing of ours");
    assert_eq!(places.last().map(String::as_str), Some(PROGRAM));
    let library = sources().into_iter().filter(|(file, _)| !is_program(file) && !ROOTS.contains(&file.as_str()));
    assert_none(library.flat_map(|(file, source)| complaints(&file, &source, &places)).collect());
}

#[test]
fn every_folder_and_file_is_listed_once_and_exists() {
    let mut found: Vec<String> = sources()
        .iter()
        .filter(|(file, _)| !ROOTS.contains(&file.as_str()))
        .map(|(file, _)| place_of(file).to_string())
        .collect();
    found.dedup();
    let mut places = listed();
    places.sort();
    assert_eq!(places, found);
}

#[test]
fn the_program_uses_the_library_by_its_name() {
    let program: Vec<Source> = sources().into_iter().filter(|(file, _)| is_program(file)).collect();
    assert!(program.len() > 1 && program.iter().any(|(_, source)| source.contains("riemannian_laplace::")));
    assert_none(program.iter().flat_map(|(file, source)| program_complaints(file, source)).collect());
}

#[test]
fn the_library_speaks_of_no_command_line() {
    let library = sources().into_iter().filter(|(file, _)| !is_program(file));
    assert_none(library.flat_map(|(file, source)| words_of_the_program(&file, &source)).collect());
}

/// The made-up list used to test this test.
fn made_up() -> Vec<String> {
    places(
        "# Page\n\n`code`\n\n## Layering\n\nWords (`lib.rs` · words).\n\n`error · linalg ·\nlikelihood · metric · cli`\n\n`more · code`\n",
    )
}

#[test]
fn the_list_is_read_over_the_ends_of_lines() {
    assert_eq!(made_up(), ["error", "linalg", "likelihood", "metric", "cli"]);
}

#[test]
fn a_wrong_import_is_reported_with_file_line_and_path() {
    let source = "//! Head.\n\nuse crate::error::Result;\nuse crate::metric::Metric;\n";
    let expected = "src/likelihood/batch.rs:4: `crate::metric::Metric`: `metric` comes after `likelihood` in the list";
    assert_eq!(complaints("likelihood/batch.rs", source, &made_up()), [expected]);
    assert_eq!(complaints("metric/mod.rs", source, &made_up()), [""; 0]);
    assert_eq!(complaints("error/mod.rs", source, &made_up()).len(), 1);
    assert_eq!(complaints("unheard_of.rs", "", &made_up()), ["src/unheard_of.rs: `unheard_of` is not in the list"]);
}

#[test]
fn wrong_imports_are_found_however_they_are_written() {
    for (source, line) in [
        ("use crate::{error::Result, linalg::{self, dot},\n    metric::{Metric as M, Pullback}};", 2),
        ("fn f(_: &crate::metric::Metric) {}", 1),
        ("\nuse crate::internals::metric::Metric;", 2),
        ("pub use crate::metric::*;", 1),
        ("/// See [`Metric`](crate::metric::Metric).\nstruct S;", 1),
        ("use super::super::metric::Metric;", 1),
        ("use self::super::super::metric::Metric;", 1),
        ("mod tests {\n    use super::super::super::metric::Metric;\n}", 2),
        ("mod tests {\n    fn f() {}\n}\nuse super::super::metric::Metric;", 4),
        ("const A: char = '\\''; const B: &[u8] = b\"x\";\ntype T<'a> = &'a crate::metric::Metric;", 2),
        ("use crate as root;", 1),
        ("use crate::Taylor;", 1),
        ("#[path = \"../metric/mod.rs\"]\nmod metric;", 1),
    ] {
        let found = complaints("likelihood/batch.rs", source, &made_up());
        let expected = format!("src/likelihood/batch.rs:{line}: ");
        assert!(!found.is_empty() && found.iter().all(|text| text.starts_with(&expected)), "{source}: {found:?}");
    }
    let both = "use crate::metric::{Metric, Pullback};";
    assert_eq!(complaints("likelihood/batch.rs", both, &made_up()).len(), 2);
}

#[test]
fn what_is_no_import_is_not_reported() {
    for source in [
        "// crate::metric\n/* crate::metric /* crate::metric */ crate::metric */",
        "const A: &str = \"crate::metric \\\" crate::metric\";",
        "const A: &str = r#\"crate::metric \" crate::metric\"#;",
        "pub(crate) fn f() {}\npub(super) mod metric {}",
        "use super::metric::Metric;",
        "mod tests {\n    use super::*;\n    use super::super::metric::Metric;\n}",
        "use crate::likelihood::metric;\nuse std::metric;",
    ] {
        assert_eq!(complaints("likelihood/batch.rs", source, &made_up()), [""; 0], "{source}");
    }
}

#[test]
fn a_program_that_reaches_into_the_library_is_reported() {
    assert_eq!(program_complaints("cli/fit.rs", "use super::data;\nuse crate::cli::output;\n"), [""; 0]);
    assert_eq!(program_complaints("main.rs", "mod cli;\nuse riemannian_laplace::Error;\n"), [""; 0]);
    let wrong = "src/cli/fit.rs:1: `crate::metric::Metric`: the program uses `riemannian_laplace::…`";
    assert_eq!(program_complaints("cli/fit.rs", "use crate::metric::Metric;"), [wrong]);
    assert_eq!(program_complaints("cli/fit.rs", "use super::super::metric::Metric;"), [wrong]);
    assert_eq!(program_complaints("main.rs", "mod cli;\nmod metric;\n").len(), 1);
    assert_eq!(program_complaints("main.rs", "#[path = \"metric/mod.rs\"]\nmod cli;\n").len(), 1);
}

#[test]
fn words_of_the_program_are_reported() {
    assert_eq!(words_of_the_program("a.rs", "/// RLA-F, early; a -- b.\nlet interlarded = 1;"), [""; 0]);
    let found = words_of_the_program("a.rs", "// fine\n\"give `--threads`\"\n// as `rla fit` does");
    assert_eq!(found, ["src/a.rs:2: \"give `--threads`\"", "src/a.rs:3: // as `rla fit` does"]);
}

//! Completions, manual pages and `rla doctor`.

use std::process::Command;

use crate::program::{Folder, program, repository};

/// What bash offers after some words, the last of which is incomplete.
fn offered(words: &str) -> Option<Vec<String>> {
    let script = format!(
        "source <(\"$1\" completions bash) && COMP_WORDS=({words}) && COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )) && \
         _rla rla \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\" && printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let output = Command::new("bash").args(["-c", &script, "bash", &program()]).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect())
}

#[test]
fn bash_completes_commands_and_options() {
    let Some(commands) = offered("rla inf") else { return println!("skipped: there is no bash") };
    assert_eq!(commands, ["influence"]);
    let options = offered("rla predict --inp").expect("bash");
    assert_eq!(options, ["--inputs"]);
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = Folder::new();
    folder.ok("man pages");
    for name in ["rla", "rla-fit", "rla-predict", "rla-doctor"] {
        let page = std::fs::read_to_string(folder.path("pages").join(format!("{name}.1"))).expect(name);
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
        assert!(page.contains("SYNOPSIS") && page.contains(".SH OPTIONS"), "{page}");
    }
    folder.write("taken", "a file");
    folder.fails(1, "man taken", &["taken"]);
}

#[test]
fn the_doctor_tells_version_threads_and_memory() {
    let folder = Folder::new();
    let found = folder.ok("doctor --json --threads 2 --max-memory 1GB").json();
    assert_eq!(found["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(found["threads"], 2);
    assert_eq!(found["memory_limit_bytes"], 1_000_000_000);
    assert!(found["features"].as_array().is_some_and(|names| names.contains(&"cli".into())));
    assert!(folder.ok("doctor").stdout.contains("GB at most"));
}

#[test]
fn a_misspelt_option_or_command_is_told_the_right_one() {
    let folder = Folder::new();
    folder.fails(2, "predikt", &["predict"]);
    folder.fails(2, "predict --postrior p.safetensors", &["--posterior"]);
}

/// Every command's help, as a page. `UPDATE=1 cargo test --release --test cli reference` writes it.
#[test]
fn the_reference_has_the_help_of_every_command() {
    let folder = Folder::new();
    // As wide on a terminal as on none.
    let help = |command: &str| {
        let said = folder.shell(&format!("COLUMNS=100 rla {command} --help < /dev/null"));
        assert_eq!(said.status, Some(0), "{command}: {}", said.stderr);
        said.stdout
    };
    let top = help("");
    let listed = top.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> =
        // A line that goes on with a description is indented further.
        listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|name| !matches!(*name, "" | "help")).collect();
    assert!(names.len() > 15, "{names:?}");
    let mut page = String::from(
        "# Command line\n\nWhat `rla --help` and `rla COMMAND --help` print; a test keeps this page current.\n",
    );
    for (title, text) in std::iter::once(("rla".to_string(), top.clone()))
        .chain(names.iter().map(|name| (format!("rla {name}"), help(name))))
    {
        page += &format!("\n## {title}\n\n```text\n{}\n```\n", text.trim_end());
    }
    let place = repository("docs/command-line.md");
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(place, page).expect("the page");
    }
    let written = std::fs::read_to_string(place).expect("docs/command-line.md");
    assert!(written == page, "docs/command-line.md is not what the program prints; run this test with UPDATE=1");
}

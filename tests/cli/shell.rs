//! Completions, manual pages and `rla doctor`.

use std::process::Command;

use crate::program::{Folder, program};

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

//! Streams that nobody reads, files that may not grow, signals while writing.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::program::{program, program_that_listens};
use super::{FIT, fitted, folder};

#[test]
fn a_broken_stderr_pipe_costs_nothing() {
    let folder = folder();
    let mut child = Command::new(program())
        .args(FIT.split_whitespace().chain(["--out", "p.safetensors"]))
        .current_dir(folder.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("an end").code(), Some(0));
    assert!(folder.path("p.safetensors").is_file());
}

#[test]
fn a_file_beyond_its_limit_is_a_failure_of_the_work_and_leaves_nothing() {
    let folder = folder();
    let before = folder.names();
    // Two blocks of 512 bytes, or of 1024: less than a posterior.
    let outcome = folder.shell(&format!("ulimit -f 2; rla {FIT} --out p.safetensors"));
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("p.safetensors could not be written"), "{}", outcome.stderr);
    assert_eq!(folder.names(), before);
}

#[test]
fn a_program_that_is_ended_leaves_no_temporary_file() {
    let folder = fitted();
    let before = folder.names();
    for (signal, milliseconds) in [("INT", 150), ("TERM", 200), ("HUP", 250), ("KILL", 300)] {
        let mut child = program_that_listens()
            .args("sample --posterior p.safetensors --metric euclidean --samples 400000 --out s.safetensors".split(' '))
            .current_dir(folder.path(""))
            .stderr(Stdio::null())
            .spawn()
            .expect("the program runs");
        std::thread::sleep(Duration::from_millis(milliseconds));
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().expect("kill");
        assert!(sent.success());
        let status = child.wait().expect("an end");
        assert_eq!(status.code(), if signal == "KILL" { None } else { Some(130) }, "{signal}: {status}");
        let names: Vec<String> = folder.names().into_iter().filter(|name| !before.contains(name)).collect();
        assert!(names.iter().all(|name| name == "s.safetensors.partial"), "{signal}: {names:?}");
        for name in names {
            std::fs::remove_file(folder.path(&name)).expect("a file");
        }
    }
}

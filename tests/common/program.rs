//! The program `rla`, run on files in a temporary folder.

#![allow(dead_code)] // Every test binary that compiles this file uses its own part of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use riemannian_laplace::internals::data::Table;
use riemannian_laplace::{Activation, Architecture, Network};

/// The program: the one built with the tests, or another that the environment variable `RLA` names, to see how an earlier
/// one fares.
pub fn program() -> String {
    std::env::var("RLA").unwrap_or_else(|_| env!("CARGO_BIN_EXE_rla").to_string())
}

/// The program with the signals that end it as they are by default: a test may run in the background of a shell, which ignores
/// some of them there, and what is ignored at the start stays ignored.
pub fn program_that_listens() -> Command {
    match cfg!(target_os = "linux") {
        true => {
            let mut command = Command::new("env");
            command.arg("--default-signal=INT,TERM,HUP").arg(program());
            command
        }
        false => Command::new(program()),
    }
}

/// What the program did.
pub struct Outcome {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The one JSON object on stdout.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

/// A temporary folder, and the program run on files in it.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).expect("a file in the temporary folder");
    }

    pub fn table(&self, name: &str) -> Table {
        Table::read(&self.path(name)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A network with random weights, saved.
    pub fn model(&self, name: &str, sizes: &[usize]) -> Network {
        let network = Network::random(Architecture::new(sizes, Activation::Tanh).expect("layer sizes"), 1);
        network.save(&self.path(name)).expect("a saved network");
        network
    }

    /// The names of all files, to see that a failure leaves none behind.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("the temporary folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Runs `rla` in the folder with a line of arguments, separated by spaces.
    pub fn rla(&self, arguments: &str) -> Outcome {
        let output = Command::new(program())
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .output()
            .expect("the program runs");
        Outcome {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("text on stdout"),
            stderr: String::from_utf8(output.stderr).expect("text on stderr"),
        }
    }

    /// Runs a line of the shell in the folder, in which `rla` is the program.
    #[cfg(unix)]
    pub fn shell(&self, line: &str) -> Outcome {
        let script = format!("rla() {{ \"$0\" \"$@\"; }}\n{line}");
        let output =
            Command::new("sh").args(["-c", &script, &program()]).current_dir(self.0.path()).output().expect("a shell");
        Outcome {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("text on stdout"),
            stderr: String::from_utf8(output.stderr).expect("text on stderr"),
        }
    }

    /// Runs `rla`, which must succeed.
    pub fn ok(&self, arguments: &str) -> Outcome {
        let outcome = self.rla(arguments);
        assert_eq!(outcome.status, Some(0), "rla {arguments}\n{}", outcome.stderr);
        outcome
    }

    /// Runs `rla`, which must end with the status, report each of the words, print no result and leave no file.
    pub fn fails(&self, status: i32, arguments: &str, words: &[&str]) {
        let before = self.names();
        let outcome = self.rla(arguments);
        let said = &outcome.stderr;
        assert_eq!(outcome.status, Some(status), "rla {arguments}\n{said}");
        for word in words {
            assert!(said.contains(word), "rla {arguments}\ndoes not say {word:?} but\n{said}");
        }
        assert_eq!(outcome.stdout, "", "rla {arguments}");
        assert_eq!(self.names(), before, "rla {arguments}");
    }

    /// As [`fails`](Self::fails), with the status of bad input.
    pub fn refuses(&self, arguments: &str, words: &[&str]) {
        self.fails(2, arguments, words);
    }
}

/// A file of the repository.
pub fn repository(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name).display().to_string()
}

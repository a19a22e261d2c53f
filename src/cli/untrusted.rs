//! What the program does with a committee from a stranger, as a function of bytes: a test and a fuzz target call it.

#[path = "../../tests/common/structured.rs"]
mod structured;

use std::path::Path;

use ndarray::array;
use riemannian_laplace::internals::memory;
use riemannian_laplace::{Activation, Architecture, Contents, Dataset, Family, FitOptions, Laplace, Network};

use super::committee;

/// A folder with a committee's files, a file outside of it that must not be touched, and a link that leads there.
struct Theirs {
    outer: tempfile::TempDir,
    laplace: Laplace,
}

const PRECIOUS: &[u8] = b"precious";

impl Theirs {
    fn new() -> Option<Self> {
        let outer = tempfile::tempdir().ok()?;
        let network = Network::random(Architecture::new(&[1, 2, 1], Activation::Tanh).ok()?, 1);
        let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[0.1], [0.9], [0.4]]).ok()?;
        let laplace = Laplace::fit(network, data, Family::gaussian(0.3).ok()?, &FitOptions::default()).ok()?;
        let folder = outer.path().join("theirs");
        std::fs::create_dir_all(folder.join("inner")).ok()?;
        std::fs::write(outer.path().join("victim.txt"), PRECIOUS).ok()?;
        laplace.save(&folder.join("member-01.safetensors"), Contents::TrainingData).ok()?;
        std::fs::write(folder.join("damaged.safetensors"), "damaged").ok()?;
        #[cfg(unix)]
        std::os::unix::fs::symlink("../victim.txt", folder.join("linked.safetensors")).ok()?;
        #[cfg(unix)]
        std::os::unix::fs::symlink("../victim.txt", folder.join("member-02.safetensors")).ok()?;
        Some(Self { outer, laplace })
    }

    fn folder(&self) -> std::path::PathBuf {
        self.outer.path().join("theirs")
    }
}

/// Reads a list, loads what it names, and writes a committee in its place where that is allowed.
///
/// # Panics
///
/// Where something was read, written or removed that must not be.
#[allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a check")]
pub fn read_committee(bytes: &[u8]) {
    thread_local!(static THEIRS: Theirs = Theirs::new().expect("a folder"));
    memory::set_limit(Some(64 << 20));
    THEIRS.with(|theirs| {
        let folder = theirs.folder();
        let text = structured::list(&mut structured::Choices(bytes));
        std::fs::write(folder.join("committee.json"), &text).expect("a list");
        let names = committee::try_out(&folder, &theirs.laplace);
        for name in names.unwrap_or_default() {
            assert!(Path::new(&name).components().count() == 1 && !name.starts_with('.'), "{name:?} in {text}");
        }
        let victim = std::fs::read(theirs.outer.path().join("victim.txt")).expect("the file outside");
        assert!(victim == PRECIOUS, "{text}");
        for kept in ["damaged.safetensors", "linked.safetensors", "inner"] {
            assert!(folder.join(kept).symlink_metadata().is_ok(), "{kept} is gone after {text}");
        }
    });
}

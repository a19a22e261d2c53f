//! Finished parts of a long run, kept as JSON so that an interrupted one goes on where it stopped.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::figure::Outcome;

/// A folder with one file for each finished cell, or nothing for runs that are over soon.
#[derive(Debug, Clone)]
pub struct Cells {
    folder: Option<PathBuf>,
}

impl Cells {
    /// Keeps nothing.
    pub const NONE: Self = Self { folder: None };

    /// Keeps cells in `results/<name>`; `fresh` forgets those that are there.
    pub fn kept(name: &str, fresh: bool) -> Outcome<Self> {
        let folder = Path::new("results").join(name);
        if fresh && folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        println!("Finished cells are kept in {} and read again; `--fresh` computes them anew.", folder.display());
        Ok(Self { folder: Some(folder) })
    }

    /// A cell that was finished before. One that cannot be read counts as not finished.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let text = std::fs::read_to_string(self.path(key)?).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Keeps a cell, whole or not at all.
    pub fn put<T: Serialize>(&self, key: &str, cell: &T) -> Outcome {
        if let Some(path) = self.path(key) {
            let unfinished = path.with_extension("tmp");
            std::fs::write(&unfinished, serde_json::to_string_pretty(cell)?)?;
            std::fs::rename(unfinished, path)?;
        }
        Ok(())
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(format!("{}.json", key.to_lowercase().replace(' ', "-"))))
    }
}

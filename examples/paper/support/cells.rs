//! Finished parts of a long run, saved as files so that an interrupted run continues where it stopped.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::figure::Outcome;

/// A folder with one file per finished cell, or nothing for short runs.
#[derive(Debug, Clone)]
pub struct Cells {
    folder: Option<PathBuf>,
    fresh: bool,
}

impl Cells {
    /// Keeps nothing.
    pub const NONE: Self = Self { folder: None, fresh: false };

    /// Keeps cells in `results/<name>`; with `fresh`, existing ones are not read.
    pub fn kept(name: &str, fresh: bool) -> Outcome<Self> {
        let folder = Path::new("results").join(name);
        std::fs::create_dir_all(&folder)?;
        println!("Finished cells are kept in {} and read again; `--fresh` recomputes them.", folder.display());
        Ok(Self { folder: Some(folder), fresh })
    }

    /// A cell that was finished before. One that cannot be read counts as not finished.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let text = std::fs::read_to_string(self.readable(key, "json")?).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Keeps a cell, whole or not at all.
    pub fn put<T: Serialize>(&self, key: &str, cell: &T) -> Outcome {
        if let Some(path) = self.writable(key, "json") {
            let unfinished = path.with_extension("tmp");
            std::fs::write(&unfinished, serde_json::to_string_pretty(cell)?)?;
            std::fs::rename(unfinished, path)?;
        }
        Ok(())
    }

    /// The file of a cell that may be read, if there is one.
    pub fn readable(&self, key: &str, extension: &str) -> Option<PathBuf> {
        self.writable(key, extension).filter(|path| !self.fresh && path.exists())
    }

    /// The file that a cell is kept in.
    pub fn writable(&self, key: &str, extension: &str) -> Option<PathBuf> {
        let file = format!("{}.{extension}", key.to_lowercase().replace(' ', "-"));
        self.folder.as_ref().map(|folder| folder.join(file))
    }
}

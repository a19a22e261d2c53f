//! Files and words from strangers: the corpus, seeded mutations of it, and what fuzzing found, through the functions that the
//! fuzz targets call. None may panic, hang or take more memory than is allowed.

#[path = "common/untrusted.rs"]
mod untrusted;

use std::path::{Path, PathBuf};

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use riemannian_laplace::internals::random::{Purpose, stream};

/// Mutations of each file of the corpus; another number in the environment variable `MUTATIONS` for longer runs.
fn mutations() -> u64 {
    std::env::var("MUTATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(150)
}

/// Numbers at which readers stumble, as bytes and as text.
const BYTES: [&[u8]; 6] =
    [&[0; 8], &[255; 8], &[0, 0, 0, 0, 0, 0, 0, 128], &[1, 0, 0, 0, 0, 0, 0, 0], b"\xef\xbb\xbf", b"\0"];
const WORDS: [&str; 14] = [
    "0",
    "-1",
    "18446744073709551615",
    "9223372036854775808",
    "1e309",
    "NaN",
    "[]",
    "{}",
    "\"",
    ",",
    "\n",
    "null",
    "../../etc/passwd",
    "\u{1b}[2J",
];

/// The files of one folder of the corpus, in order.
fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}

/// One to four changes of the bytes.
fn mutate(bytes: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for _ in 0..random.random_range(1..5) {
        let at = random.random_range(0..changed.len().max(1)).min(changed.len());
        let until = (at + random.random_range(0..64)).min(changed.len());
        match random.random_range(0..9) {
            0 if at < changed.len() => changed[at] ^= 1 << random.random_range(0..8),
            1 if at < changed.len() => changed[at] = random.random(),
            2 => changed.truncate(at),
            3 => drop(changed.drain(at..until)),
            4 => {
                let copy = changed[at..until].to_vec();
                changed.splice(at..at, copy);
            }
            5 => drop(changed.splice(at..at, BYTES[random.random_range(0..BYTES.len())].iter().copied())),
            6 => drop(changed.splice(at..until, WORDS[random.random_range(0..WORDS.len())].bytes())),
            // A number in text becomes another.
            7 => {
                if let Some(start) = (at..changed.len()).find(|&index| changed[index].is_ascii_digit()) {
                    let end = (start..changed.len()).find(|&i| !changed[i].is_ascii_digit()).unwrap_or(changed.len());
                    changed.splice(start..end, WORDS[random.random_range(0..5)].bytes());
                }
            }
            _ => changed.extend_from_slice(&bytes[..until.min(bytes.len())]),
        }
    }
    changed
}

fn hold(name: &str, function: fn(&[u8])) {
    // Inputs that fuzzing found, a few for each branch that the corpus itself does not reach.
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/found").join(name).is_dir();
    for (path, bytes) in if found { corpus(&format!("found/{name}")) } else { Vec::new() } {
        if std::panic::catch_unwind(|| function(&bytes)).is_err() {
            panic!("{} panics", path.display());
        }
    }
    for (index, (path, bytes)) in corpus(name).into_iter().enumerate() {
        function(&bytes);
        for mutation in 0..mutations() {
            let changed = mutate(&bytes, &mut stream(index as u64, Purpose::Data, mutation));
            if std::panic::catch_unwind(|| function(&changed)).is_err() {
                let kept = std::env::temp_dir().join(format!("{name}-{index}-{mutation}"));
                std::fs::write(&kept, &changed).expect("a file");
                panic!("mutation {mutation} of {} panics; it is kept in {}", path.display(), kept.display());
            }
        }
    }
}

#[test]
fn models_hold() {
    hold("model", untrusted::model);
}

#[test]
fn onnx_graphs_hold() {
    hold("onnx", untrusted::onnx);
}

#[test]
fn posteriors_hold() {
    hold("posterior", untrusted::posterior);
}

#[test]
fn vectors_hold() {
    hold("vectors", untrusted::vectors);
}

#[test]
fn checkpoints_hold() {
    hold("checkpoint", untrusted::checkpoint);
}

#[test]
fn side_files_hold() {
    hold("side_file", untrusted::side_file);
}

#[test]
fn tables_hold() {
    hold("csv", untrusted::csv);
}

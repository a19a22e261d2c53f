//! What the program holds against: bad input, faults of the machine, requests without bounds. Each test is a case that
//! once made it panic, hang, lie, leak or lose work.

#![cfg(unix)]

#[path = "hold/address_space.rs"]
mod address_space;
#[path = "hold/extremes.rs"]
mod extremes;
#[path = "hold/memory.rs"]
mod memory;
#[path = "common/program.rs"]
mod program;
#[path = "hold/requests.rs"]
mod requests;
#[path = "hold/resume.rs"]
mod resume;
#[path = "hold/streams.rs"]
mod streams;
#[path = "hold/tampering.rs"]
mod tampering;

use program::Folder;

const FIT: &str = "fit --model m.safetensors --data d.csv --target y --likelihood gaussian";

/// A small network and twelve data points.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 6, 1]);
    let rows: String = (0..12).map(|n| format!("{},{}\n", 0.3 * f64::from(n), (0.7 * f64::from(n)).sin())).collect();
    folder.write("d.csv", format!("x,y\n{rows}"));
    folder
}

/// The same, with a posterior.
fn fitted() -> Folder {
    let folder = folder();
    folder.ok(&format!("{FIT} --sigma 0.3 --out p.safetensors"));
    folder
}

/// The number of runs of a long test, unless the environment variable `RUNS` has another.
fn runs(usual: usize) -> usize {
    std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(usual)
}

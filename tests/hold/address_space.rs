//! Limits of the address space: what does not fit is refused before the memory is taken; nothing ends by a signal.

use rand::Rng;
use riemannian_laplace::internals::random::{Purpose, stream};

use super::{Folder, fitted};

/// Commands of different needs.
fn commands() -> [(&'static str, String); 6] {
    let many = "--inputs many.csv --method";
    [
        (
            "fit",
            "fit --model wide.safetensors --data d.csv --target y --likelihood gaussian --solver weight-space --out q"
                .to_string(),
        ),
        ("sample", "sample --posterior p.safetensors --metric euclidean --samples 30000 --out s".to_string()),
        ("fisher", "sample --posterior p.safetensors --samples 40 --out s".to_string()),
        ("glm", format!("predict --posterior p.safetensors {many} glm --out o")),
        ("nn", format!("predict --posterior p.safetensors {many} nn --samples 20 --out o")),
        (
            "train",
            "train --data d.csv --target y --likelihood gaussian --hidden 400,400 --epochs 2 --out t".to_string(),
        ),
    ]
}

fn prepared() -> Folder {
    let folder = fitted();
    folder.model("wide.safetensors", &[1, 30, 30, 1]);
    let rows: String = (0..60_000).map(|n| format!("{}\n", n % 1000)).collect();
    folder.write("many.csv", format!("x\n{rows}"));
    folder
}

/// Runs commands under random limits; returns how many ended well, and how many were refused.
fn under_limits(runs: u64) -> (usize, usize) {
    let folder = prepared();
    let (mut done, mut refused) = (0, 0);
    for run in 0..runs {
        let mut random = stream(3, Purpose::Data, run);
        let commands = commands();
        let (name, command) = &commands[run as usize % commands.len()];
        // From a little above what the program and its threads take by themselves.
        let kilobytes = (f64::exp(random.random_range(f64::ln(180e3)..f64::ln(900e3)))) as u64;
        let outcome = folder.shell(&format!("ulimit -v {kilobytes}; rla {command} --threads 2"));
        match outcome.status {
            Some(0) => done += 1,
            Some(1) => {
                refused += 1;
                assert!(
                    outcome.stderr.contains("GB") || outcome.stderr.contains("threads"),
                    "{name}: {}",
                    outcome.stderr
                );
            }
            other => panic!("{name} under {kilobytes} kB ended with {other:?}: {}", outcome.stderr),
        }
        for file in ["q", "s", "o", "t", "s.partial"] {
            let _ = std::fs::remove_file(folder.path(file));
        }
    }
    (done, refused)
}

#[test]
fn no_limit_of_the_address_space_ends_in_a_signal() {
    let (done, refused) = under_limits(18);
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
}

#[test]
#[ignore = "takes minutes: the same in 200 runs"]
fn two_hundred_limits_of_the_address_space_never_end_in_a_signal() {
    let (done, refused) = under_limits(200);
    println!("{done} done, {refused} refused, no signal");
}

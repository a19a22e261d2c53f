//! Disks that are full: what was there stays, what is new is whole, and the same command works once there is room.

use rand::Rng;
use riemannian_laplace::internals::random::{Purpose, stream};

use super::{FIT, Folder, TRAIN, fitted};

/// A command and its output.
fn commands() -> Vec<(String, &'static str)> {
    let posterior = "--posterior p.safetensors";
    vec![
        (format!("{FIT} --sigma 0.2 --out fit.safetensors"), "fit.safetensors"),
        (format!("sample {posterior} --samples 30 --save-every 0s --out s.safetensors"), "s.safetensors"),
        (format!("predict {posterior} --inputs many.csv --out o.csv"), "o.csv"),
        (format!("loo {posterior} --out loo.csv"), "loo.csv"),
        (format!("report {posterior} --out r.html"), "r.html"),
        (format!("exp {posterior} --velocities v.safetensors --out e.safetensors"), "e.safetensors"),
        ("merge a.safetensors b.safetensors --out ab.safetensors".to_string(), "ab.safetensors"),
        (format!("{} --out together", TRAIN.replace(" --quiet", "")), "together"),
        (
            "train --data d.csv --target y --likelihood gaussian --hidden 30 --epochs 3 --out t.safetensors"
                .to_string(),
            "t.safetensors",
        ),
    ]
}

fn prepared() -> Folder {
    let folder = fitted();
    folder.write("many.csv", format!("x\n{}", "0.5\n".repeat(400)));
    let sample = "sample --posterior p.safetensors --seed 1";
    folder.ok(&format!("{sample} --range 0..9 --out a.safetensors"));
    folder.ok(&format!("{sample} --range 9..20 --out b.safetensors"));
    let v = riemannian_laplace::internals::tensors::Values::Real(&[0.1; 19 * 20]);
    riemannian_laplace::internals::tensors::write(
        &folder.path("v.safetensors"),
        &[("v", vec![20, 19], v)],
        Default::default(),
    )
    .expect("velocities");
    folder
}

/// The bytes of a file, or of all files of a folder, by name.
fn contents(folder: &Folder, name: &str) -> Vec<(String, Vec<u8>)> {
    let path = folder.path(name);
    if path.is_file() {
        return vec![(name.to_string(), std::fs::read(path).expect("a file"))];
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    names.sort();
    names.iter().map(|path| (path.display().to_string(), std::fs::read(path).expect("a file"))).collect()
}

fn remove(folder: &Folder, name: &str) {
    let path = folder.path(name);
    let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
}

/// Runs commands that may write only so many blocks to a file, over earlier results and where there are none.
fn fill_disks(runs: usize) {
    let folder = prepared();
    let commands = commands();
    let (mut failed, mut done) = (0, 0);
    // The blocks of 512 bytes of the largest file that each command writes.
    let largest = |(command, out): &(String, &str)| {
        folder.ok(&format!("{command} --quiet"));
        let lengths = contents(&folder, out).iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>();
        lengths.into_iter().max().unwrap_or(0).div_ceil(512)
    };
    let sizes: Vec<usize> = commands.iter().map(largest).collect();
    for run in 0..runs {
        let which = run % commands.len();
        let (command, out) = &commands[which];
        let mut random = stream(5, Purpose::Data, run as u64);
        remove(&folder, out);
        if random.random_range(0..2) == 0 {
            folder.ok(&format!("{command} --quiet"));
        }
        let (before, names) = (contents(&folder, out), folder.names());
        // Nearly always too few: from none to a little more than enough.
        let blocks = random.random_range(0..=sizes[which] + sizes[which] / 8 + 1);
        let outcome = folder.shell(&format!("ulimit -f {blocks}; rla {command} --quiet"));
        let after = contents(&folder, out);
        let about = format!("rla {command}\nwith {blocks} blocks: {}", outcome.stderr);
        match outcome.status {
            Some(0) => done += 1,
            Some(1) => {
                assert!(after == before || before.is_empty() && after.is_empty(), "{about}");
                let new: Vec<String> = folder.names().into_iter().filter(|name| !names.contains(name)).collect();
                let allowed = |name: &String| name == &format!("{out}.partial") || name == out;
                assert!(new.iter().all(allowed), "{about}: {new:?}");
                failed += 1;
            }
            other => panic!("{other:?}: {about}"),
        }
        // There is room again.
        let resume = if folder.path(&format!("{out}.partial")).exists() { "--resume" } else { "" };
        folder.ok(&format!("{command} --quiet {resume}"));
        assert!(!contents(&folder, out).is_empty(), "{about}");
    }
    println!("{failed} of {runs} disks full, {done} with room enough; nothing lost or half-written");
    assert!(failed > 0 && done > 0);
}

#[test]
fn a_full_disk_loses_nothing() {
    fill_disks(27);
}

#[test]
#[ignore = "takes minutes: the same with 600 disks, over 500 of them full; RUNS has another number"]
fn five_hundred_full_disks_lose_nothing() {
    fill_disks(super::runs(600));
}

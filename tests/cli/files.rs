//! Files, devices and streams: permissions, links, full disks, and a stderr that nobody reads.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::Folder;

const FIT: &str = "fit --model m.safetensors --data d.csv --target y --likelihood gaussian";
const PREDICT: &str = "predict --posterior p.safetensors --inputs d.csv --target y";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 3, 1]);
    folder.write("d.csv", "x,y\n1,2\n2,3\n4,0\n");
    folder
}

fn fitted() -> Folder {
    let folder = folder();
    folder.ok(&format!("{FIT} --out p.safetensors"));
    folder
}

fn mode(path: &Path) -> u32 {
    path.metadata().expect("a file").permissions().mode() & 0o7777
}

#[test]
fn results_have_the_permissions_of_the_umask_or_of_the_file_that_they_replace() {
    let folder = fitted();
    for (umask, expected) in [("022", 0o644), ("002", 0o664), ("077", 0o600), ("000", 0o666), ("027", 0o640)] {
        for command in [FIT, PREDICT] {
            let outcome = folder.shell(&format!("umask {umask}; rla {command} --out result"));
            assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
            assert_eq!(mode(&folder.path("result")), expected, "umask {umask}: {command}");
            std::fs::remove_file(folder.path("result")).expect("the result");
        }
    }
    for (umask, kept) in [("022", 0o600), ("077", 0o664), ("000", 0o440), ("022", 0o755)] {
        folder.write("result", "older");
        std::fs::set_permissions(folder.path("result"), PermissionsExt::from_mode(kept)).expect("permissions");
        let outcome = folder.shell(&format!("umask {umask}; rla {PREDICT} --out result"));
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        assert_eq!(mode(&folder.path("result")), kept, "umask {umask}");
        assert_ne!(std::fs::read(folder.path("result")).expect("the result"), b"older");
        std::fs::remove_file(folder.path("result")).expect("the result");
    }
}

#[test]
fn the_file_that_a_dangling_link_names_is_created() {
    let folder = fitted();
    std::fs::create_dir(folder.path("elsewhere")).expect("a folder");
    symlink("elsewhere/real.csv", folder.path("link.csv")).expect("a link");
    folder.ok(&format!("{PREDICT} --out link.csv"));
    assert!(folder.path("link.csv").is_symlink());
    assert_eq!(folder.table("elsewhere/real.csv").values().nrows(), 3);
    symlink("absent/real.csv", folder.path("lost.csv")).expect("a link");
    folder.refuses(&format!("{PREDICT} --out lost.csv"), &["lost.csv", "No such file"]);
}

#[test]
fn the_same_command_writes_the_same_bytes() {
    let folder = fitted();
    let first = std::fs::read(folder.path("p.safetensors")).expect("a posterior");
    for _ in 0..3 {
        folder.ok(&format!("{FIT} --out p.safetensors"));
        assert!(std::fs::read(folder.path("p.safetensors")).expect("a posterior") == first);
    }
}

#[test]
fn a_full_disk_is_a_failure_of_the_work() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let folder = fitted();
    let sample = "sample --posterior p.safetensors --samples 2";
    for command in [FIT, PREDICT, sample] {
        folder.fails(1, &format!("{command} --out /dev/full"), &["/dev/full", "could not be written", "No space left"]);
    }
    let outcome = folder.shell(&format!("rla {PREDICT} > /dev/full"));
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("standard output"), "{}", outcome.stderr);
}

#[test]
fn a_device_is_not_read_as_a_file() {
    let folder = fitted();
    let predict = "predict --posterior /dev/zero --inputs d.csv --target y";
    folder.refuses(predict, &["/dev/zero", "is a device", "regular file"]);
    let fit = "fit --model /dev/zero --data d.csv --target y --likelihood gaussian --out q.safetensors";
    folder.refuses(fit, &["/dev/zero", "is a device"]);
}

#[test]
fn a_stderr_that_cannot_be_written_costs_nothing() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let folder = fitted();
    for nowhere in ["2>/dev/full", "2>&-"] {
        // Notes and a warning, about kinks.
        let outcome = folder.shell(&format!("rla {FIT} --activation relu --out r.safetensors {nowhere}"));
        assert_eq!(outcome.status, Some(0), "{nowhere}: {}", outcome.stdout);
        let sample =
            "sample --posterior r.safetensors --samples 2 --max-steps 20 --allow-uncertified 1 --out s.safetensors";
        assert_eq!(folder.shell(&format!("rla {sample} {nowhere}")).status, Some(0), "{nowhere}");
        assert!(folder.path("s.safetensors").is_file());
        std::fs::remove_file(folder.path("s.safetensors")).expect("the samples");
        let outcome = folder.shell(&format!("rla {PREDICT} {nowhere}"));
        assert_eq!((outcome.status, outcome.stdout.lines().count()), (Some(0), 4), "{nowhere}");
        // The message is lost, the status is not.
        assert_eq!(folder.shell(&format!("rla {PREDICT} --method abacus {nowhere}")).status, Some(2), "{nowhere}");
        assert_eq!(folder.shell(&format!("rla {FIT} --out absent/p {nowhere}")).status, Some(2), "{nowhere}");
        assert_eq!(folder.shell(&format!("rla {FIT} --out p --max-memory 100 {nowhere}")).status, Some(1), "{nowhere}");
    }
}

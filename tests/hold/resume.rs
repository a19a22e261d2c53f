//! Runs that are killed or interrupted, and go on.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::Rng;
use riemannian_laplace::internals::geodesic::Checkpoint;
use riemannian_laplace::internals::random::{Purpose, stream};
use riemannian_laplace::internals::tensors::TensorFile;

use super::program::program_that_listens;
use super::{Folder, fitted};

/// A run that saves every sample: a good part of its time is spent on writing and renaming.
const RUN: &str = "sample --posterior p.safetensors --metric fisher --samples 60 --seed 3 --save-every 0s -q";

fn start(folder: &Folder, arguments: &str) -> Child {
    program_that_listens()
        .args(arguments.split_whitespace())
        .current_dir(folder.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs")
}

fn read(folder: &Folder, name: &str) -> Vec<u8> {
    std::fs::read(folder.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The number of samples in a checkpoint, which must be complete if it is there.
fn saved(path: &Path) -> usize {
    if !path.exists() {
        return 0;
    }
    let file = TensorFile::read_numbers(path).unwrap_or_else(|error| panic!("half-written: {error}"));
    assert_eq!(file.metadata.get("fingerprint").map(String::as_str), Some(file.fingerprint()));
    file.tensors["sample"].values.len()
}

/// Kills a run at an instant, and again after a while when it goes on, until it ends; then compares the bytes.
fn kill_and_resume(instants: usize) {
    let folder = fitted();
    folder.ok(&format!("{RUN} --out whole.safetensors"));
    let began = Instant::now();
    folder.ok(&format!("{RUN} --out again.safetensors"));
    let length = began.elapsed();
    let whole = read(&folder, "whole.safetensors");
    assert!(whole == read(&folder, "again.safetensors"));
    let names = folder.names();
    let mut random = stream(1, Purpose::Data, 0);
    let (mut killed, mut with_samples) = (0, 0);
    for instant in 0..instants {
        let out = format!("s{instant}.safetensors");
        let partial = folder.path(&format!("{out}.partial"));
        let mut before = 0;
        let mut resume = "";
        for _ in 0..200 {
            let mut child = start(&folder, &format!("{RUN} --out {out} {resume}"));
            resume = "--resume";
            match instant % 3 {
                // At any time: while computing, writing or renaming.
                0 => std::thread::sleep(length.mul_f64(random.random_range(0.0..1.05))),
                // Just when a checkpoint has been renamed, or a little later.
                1 => {
                    let modified = || partial.metadata().and_then(|metadata| metadata.modified()).ok();
                    let (last, patience) = (modified(), Instant::now());
                    while modified() == last && patience.elapsed() < length && !ended(&mut child) {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    std::thread::sleep(Duration::from_micros(random.random_range(0..1500)));
                }
                // When the result is about to appear, or has just appeared.
                _ => {
                    while saved(&partial) < 55 && !ended(&mut child) {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                    std::thread::sleep(length.mul_f64(random.random_range(0.0..0.15)));
                }
            }
            child.kill().expect("a signal");
            let status = child.wait().expect("an end");
            if status.code() == Some(0) {
                break;
            }
            assert_eq!(status.code(), None, "{instant}: {status}");
            killed += 1;
            let now = if folder.path(&out).exists() { 60 } else { saved(&partial) };
            assert!(now >= before, "{instant}: {before} samples were saved, {now} are left");
            before = now;
            with_samples += usize::from(now > 0 && now < 60);
            if instant % 3 != 1 {
                break;
            }
        }
        // It goes on to the end.
        folder.ok(&format!("{RUN} --out {out} --resume"));
        assert!(read(&folder, &out) == whole, "{instant}: other bytes than without the interruption");
        std::fs::remove_file(folder.path(&out)).expect("the result");
        assert_eq!(folder.names(), names, "{instant}: something stayed behind");
    }
    println!(
        "{killed} kills at {instants} instants, {with_samples} of them in the middle of a run; all files identical"
    );
    assert!(killed >= instants / 3 && with_samples >= instants / 6, "{killed} {with_samples}");
}

fn ended(child: &mut Child) -> bool {
    child.try_wait().expect("a state").is_some()
}

#[test]
fn a_run_killed_at_any_instant_goes_on_to_the_same_bytes() {
    kill_and_resume(6);
}

#[test]
#[ignore = "takes minutes: the same at 300 instants; RUNS has another number"]
fn a_run_killed_at_three_hundred_instants_goes_on_to_the_same_bytes() {
    kill_and_resume(super::runs(300));
}

#[test]
fn an_interrupted_run_saves_what_is_finished_and_says_how_to_go_on() {
    let folder = fitted();
    // More than any machine ends before the signal comes.
    let run = "sample --posterior p.safetensors --samples 200000 --seed 3 --save-every 0s --out s.safetensors";
    for signal in ["INT", "TERM"] {
        let mut child = start(&folder, run);
        while saved(&folder.path("s.safetensors.partial")) == 0 && !ended(&mut child) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().expect("kill");
        assert!(sent.success());
        let output = child.wait_with_output().expect("an end");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert!(said.contains("of 200000 samples are saved in s.safetensors.partial"), "{said}");
        assert!(said.contains("--resume"), "{said}");
        assert!(saved(&folder.path("s.safetensors.partial")) > 0);
        // Not silently from the beginning, and not with other options.
        folder.refuses(run, &["s.safetensors.partial", "--resume", "remove"]);
        folder.refuses(
            &format!("{run} --resume --seed 4").replace("--seed 3", ""),
            &["another run", "seed was 3", "is 4"],
        );
        folder.refuses(&format!("{run} --resume --metric monge"), &["another run", "metric was fisher"]);
        std::fs::remove_file(folder.path("s.safetensors.partial")).expect("the checkpoint");
    }
}

#[test]
fn a_run_stops_at_its_limits_and_goes_on() {
    let folder = fitted();
    let run = "sample --posterior p.safetensors --samples 30 --seed 3 --threads 1";
    folder.ok(&format!("{run} --out whole.safetensors"));
    let outcome = folder.rla(&format!("{run} --out s.safetensors --max-total-evaluations 500"));
    assert_eq!(outcome.status, Some(130), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--max-total-evaluations"), "{}", outcome.stderr);
    let found = saved(&folder.path("s.safetensors.partial"));
    assert!((1..30).contains(&found), "{found}");
    let outcome = folder.ok(&format!("{run} --out s.safetensors --resume"));
    assert!(outcome.stderr.contains(&format!("{found} of 30 samples")), "{}", outcome.stderr);
    assert!(read(&folder, "s.safetensors") == read(&folder, "whole.safetensors"));
    let outcome = folder.rla(&format!("{run} --samples 30000 --max-time 0.3s --out t.safetensors").replacen(
        "--samples 30 ",
        "",
        1,
    ));
    assert_eq!(outcome.status, Some(130), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--max-time"), "{}", outcome.stderr);
    // Of one geodesic: its status is 1.
    let report =
        folder.ok(&format!("{run} --max-evaluations 20 --allow-uncertified 1 --out u.safetensors --json")).json();
    assert!(report["failed"].as_u64() > Some(0) && report["mean_nfev"].as_f64() <= Some(20.0), "{report}");
    let report =
        folder.ok(&format!("{run} --max-time-per-sample 0s --allow-uncertified 1 --out u.safetensors --json")).json();
    assert_eq!(report["failed"].as_u64(), Some(30), "{report}");
}

#[test]
fn weights_of_samples_are_the_same_after_an_interruption() {
    let folder = fitted();
    let run = "sample --posterior p.safetensors --samples 12 --seed 3 --threads 1";
    let weights = "--weights-of-samples";
    folder.ok(&format!("{run} {weights} --out weighted.safetensors"));
    folder.ok(&format!("{run} --out plain.safetensors"));
    assert!(read(&folder, "weighted.safetensors") != read(&folder, "plain.safetensors"));
    // The weights are no part of the run: they are for the samples that it ends with, whoever drew them.
    for (first, then, expected) in
        [(weights, weights, "weighted"), ("", weights, "weighted"), (weights, "", "plain"), ("", "", "plain")]
    {
        let outcome = folder.rla(&format!("{run} {first} --out s.safetensors --max-total-evaluations 300"));
        assert_eq!(outcome.status, Some(130), "{}", outcome.stderr);
        let found = saved(&folder.path("s.safetensors.partial"));
        assert!((1..12).contains(&found), "{found}");
        folder.ok(&format!("{run} {then} --out s.safetensors --resume"));
        let expected = format!("{expected}.safetensors");
        assert!(read(&folder, "s.safetensors") == read(&folder, &expected), "{first:?}, then {then:?}");
        std::fs::remove_file(folder.path("s.safetensors")).expect("the samples");
    }
}

#[test]
fn a_long_run_says_what_it_will_take() {
    let folder = fitted();
    // At a microsecond each, a million samples would not take 15 s; a geodesic takes hundreds of times longer.
    let run = "sample --posterior p.safetensors --samples 1000000 --max-time 0.5s --out s.safetensors";
    let outcome = folder.rla(run);
    assert_eq!(outcome.status, Some(130), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the first sample took"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("999999 more on"), "{}", outcome.stderr);
}

#[test]
fn parts_join_to_the_bytes_of_one_run() {
    let folder = fitted();
    let run = "sample --posterior p.safetensors --seed 5";
    folder.ok(&format!("{run} --samples 23 --out whole.safetensors"));
    for part in 1..=4 {
        folder.ok(&format!("{run} --samples 23 --shard {part}/4 --out part{part}.safetensors"));
    }
    folder.ok("merge part3.safetensors part1.safetensors part4.safetensors part2.safetensors --out joined.safetensors");
    assert!(read(&folder, "joined.safetensors") == read(&folder, "whole.safetensors"));
    folder.ok(&format!("{run} --range 0..10 --out a.safetensors"));
    folder.ok(&format!("{run} --range 10..23 --out b.safetensors"));
    folder.ok("merge a.safetensors b.safetensors --out joined.safetensors");
    assert!(read(&folder, "joined.safetensors") == read(&folder, "whole.safetensors"));

    folder.refuses("merge part1.safetensors part3.safetensors --out x", &["missing between the parts"]);
    folder.refuses("merge a.safetensors part1.safetensors --out x", &["overlap"]);
    folder.refuses("merge a.safetensors p.safetensors --out x", &["p.safetensors", "posterior"]);
    folder.refuses("merge a.safetensors m.safetensors --out x", &["m.safetensors", "no samples"]);
    folder.ok(&format!("{run} --range 10..23 --metric monge --out c.safetensors"));
    folder.refuses("merge a.safetensors c.safetensors --out x", &["different metrics"]);
    folder.ok(&format!("{} --sigma 0.4 --out q.safetensors", super::FIT));
    folder.ok("sample --posterior q.safetensors --seed 5 --range 10..23 --out d.safetensors");
    folder.refuses("merge a.safetensors d.safetensors --out x", &["different posteriors"]);
    for shard in ["0/4", "5/4", "1/0", "x"] {
        folder.refuses(&format!("{run} --shard {shard} --out x"), &["I/N"]);
    }
    folder.refuses(&format!("{run} --samples 3 --shard 1/9 --out x"), &["no such part"]);
}

#[test]
fn a_damaged_checkpoint_is_refused() {
    let folder = fitted();
    let path = folder.path("s.safetensors.partial");
    let run = "sample --posterior p.safetensors --samples 4 --out s.safetensors --resume";
    folder.write("s.safetensors.partial", "not a checkpoint");
    folder.refuses(run, &["s.safetensors.partial", "safetensors"]);
    folder.ok("sample --posterior p.safetensors --samples 4 --out t.safetensors");
    std::fs::copy(folder.path("t.safetensors"), &path).expect("a copy");
    folder.refuses(run, &["s.safetensors.partial", "format"]);
    assert!(Checkpoint::resume(&path, Default::default(), Duration::ZERO).is_err());
}

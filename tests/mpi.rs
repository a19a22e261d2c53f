//! The program on several ranks by a real `mpirun`: the same bytes as in one process, and an end for all when one dies.
//!
//! Runs with `cargo test --release --features mpi --test mpi`, and needs an MPI.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use riemannian_laplace::{Activation, Architecture, Network};

const RLA: &str = env!("CARGO_BIN_EXE_rla");

/// So many ranks with one thread each.
fn on_ranks(ranks: usize, arguments: &[&str]) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "-n", &ranks.to_string(), RLA]).args(arguments).args(["--threads", "1"]);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

fn alone(arguments: &[&str]) -> Output {
    Command::new(RLA).args(arguments).output().expect("the program")
}

/// Eight inputs and a target, and a network for them.
fn problem(folder: &Path, rows: usize, hidden: usize) {
    let mut text = "a,b,c,d,e,f,g,h,y\n".to_string();
    for row in 0..rows {
        let input = |column: usize| ((row * (column + 2)) as f64 * 0.137).sin();
        (0..8).for_each(|column| write!(text, "{:.6},", input(column)).expect("a cell"));
        writeln!(text, "{:.6}", input(0) * input(1) + 0.1 * input(5)).expect("a cell");
    }
    std::fs::write(folder.join("data.csv"), text).expect("a file");
    let architecture = Architecture::new(&[8, hidden, 1], Activation::Tanh).expect("an architecture");
    Network::random(architecture, 1).save(&folder.join("model.safetensors")).expect("a model");
}

fn fit<'a>(options: &[&'a str], out: &'a str) -> Vec<&'a str> {
    [&["fit", "--target", "y", "--likelihood", "gaussian"], options, &["--out", out]].concat()
}

#[test]
fn posteriors_have_the_same_bytes_on_one_to_four_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    problem(folder.path(), 1500, 12);
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (model, data, out) = (path("model.safetensors"), path("data.csv"), path("posterior.safetensors"));
    let cases: [&[&str]; 7] = [
        &["--optimize", "--without-data"],
        &["--optimize"],
        &["--structure", "kron", "--optimize", "--prior", "layer"],
        &["--structure", "diag", "--optimize", "--without-data", "--standardize"],
        &["--weights", "last-layer", "--optimize", "--without-data"],
        &["--weights", "subnetwork:20:variance", "--sigma", "0.3"],
        &["--structure", "matrix-free", "--sigma", "0.3", "--prior-precision", "2"],
    ];
    for case in cases {
        let options = [&["--model", &model, "--data", &data], case].concat();
        let arguments = fit(&options, &out);
        let run = alone(&arguments);
        assert!(run.status.success(), "{case:?}: {}", String::from_utf8_lossy(&run.stderr));
        let expected = std::fs::read(&out).expect("a posterior");
        for ranks in 1..=4 {
            std::fs::remove_file(&out).expect("the posterior before");
            let run = on_ranks(ranks, &arguments).output().expect("mpirun");
            assert!(run.status.success(), "{case:?} on {ranks}: {}", String::from_utf8_lossy(&run.stderr));
            assert!(std::fs::read(&out).expect("a posterior") == expected, "{case:?} on {ranks} ranks");
            // One rank speaks.
            assert_eq!(String::from_utf8_lossy(&run.stdout).matches("log marginal likelihood").count(), 1);
        }
    }
}

#[test]
fn rows_with_weights_and_known_noise_have_the_same_bytes_on_one_to_four_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    problem(folder.path(), 700, 5);
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (model, data) = (path("model.safetensors"), path("known.csv"));
    let text = std::fs::read_to_string(path("data.csv")).expect("the data");
    let mut known = String::new();
    for (row, line) in text.lines().enumerate() {
        match row {
            0 => writeln!(known, "{line},w,s"),
            _ => writeln!(known, "{line},{},{}", row % 4, 0.1 + 0.001 * row as f64),
        }
        .expect("a line");
    }
    std::fs::write(&data, known).expect("a file");
    let fit = ["fit", "--target", "y", "--likelihood", "gaussian", "--model", &model, "--data", &data];
    let weights: &[&str] = &["--weights-column", "w", "--ignore", "s"];
    let cases: [&[&str]; 3] = [
        &["--optimize", "--without-data"],
        &["--structure", "kron", "--optimize"],
        &["--structure", "diag", "--sigma", "0.3"],
    ];
    for case in cases {
        has_the_same_file(folder.path(), &[&fit[..], weights, case].concat());
    }
    has_the_same_file(folder.path(), &[&fit[..], &["--weights-column", "w", "--noise-column", "s"]].concat());
}

/// A posterior of 150 rows of that problem, with its data.
fn posterior(folder: &Path) -> String {
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (model, data, out) = (path("model.safetensors"), path("few.csv"), path("posterior.safetensors"));
    let text = std::fs::read_to_string(folder.join("data.csv")).expect("the data");
    std::fs::write(&data, text.lines().take(151).map(|line| format!("{line}\n")).collect::<String>()).expect("a file");
    let run = alone(&fit(&["--model", &model, "--data", &data, "--optimize"], &out));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    out
}

/// A command whose result is a file: the same bytes on any number of ranks, and nothing else is left.
fn has_the_same_file(folder: &Path, arguments: &[&str]) {
    let out = folder.join("out");
    let arguments = [arguments, &["--out", out.to_str().expect("a path")]].concat();
    let run = alone(&arguments);
    assert!(run.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    let expected = std::fs::read(&out).expect("a file");
    std::fs::remove_file(&out).expect("the file");
    let before = files(folder);
    for ranks in 1..=4 {
        let run = on_ranks(ranks, &arguments).output().expect("mpirun");
        assert!(run.status.success(), "{arguments:?} on {ranks}: {}", String::from_utf8_lossy(&run.stderr));
        assert!(std::fs::read(&out).expect("a file") == expected, "{arguments:?} on {ranks}");
        std::fs::remove_file(&out).expect("the file");
        assert_eq!(files(folder), before, "{arguments:?} on {ranks}");
    }
}

/// The names of the files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn samples_have_the_same_bytes_on_one_to_four_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    problem(folder.path(), 200, 3);
    let posterior = posterior(folder.path());
    let cases: [&[&str]; 4] = [
        &["--samples", "9"],
        // Fewer samples than ranks.
        &["--samples", "2", "--seed", "5"],
        &["--range", "3..8", "--metric", "monge"],
        &["--samples", "5", "--weights-of-samples"],
    ];
    for case in cases {
        has_the_same_file(folder.path(), &[&["sample", "--posterior", &posterior], case].concat());
    }
}

#[test]
fn predictions_and_scores_have_the_same_bytes_on_one_to_four_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    // Four pieces of 4,096 rows, the last of them short.
    problem(folder.path(), 13_000, 3);
    let posterior = posterior(folder.path());
    let data = folder.path().join("data.csv").to_string_lossy().into_owned();
    let few = folder.path().join("few.csv").to_string_lossy().into_owned();
    let predict = ["predict", "--posterior", &posterior, "--target", "y", "--inputs", &data];
    let riemannian: &[&str] = &["--method", "riemannian", "--samples", "5"];
    for case in [&[], riemannian, &["--link", "none"]] {
        has_the_same_file(folder.path(), &[&predict, case].concat());
    }
    let evaluate = ["evaluate", "--posterior", &posterior, "--target", "y", "--json", "--data", &data];
    let all: &[&str] = &["--method", "all", "--samples", "5", "--curves", "--ood", &few];
    for case in [&[], all] {
        let arguments = [&evaluate, case].concat();
        let expected = alone(&arguments);
        assert!(expected.status.success(), "{}", String::from_utf8_lossy(&expected.stderr));
        for ranks in 1..=4 {
            let run = on_ranks(ranks, &arguments).output().expect("mpirun");
            assert!(run.status.success(), "{ranks} ranks: {}", String::from_utf8_lossy(&run.stderr));
            assert_eq!(run.stdout, expected.stdout, "{arguments:?} on {ranks}");
        }
    }
}

#[test]
fn an_error_on_one_rank_ends_all_with_its_status_and_message() {
    let folder = tempfile::tempdir().expect("a folder");
    problem(folder.path(), 1500, 5);
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (model, data, out) = (path("model.safetensors"), path("data.csv"), path("posterior.safetensors"));
    let mut text = std::fs::read_to_string(&data).expect("the data");
    text.push_str("0,0,0,0,0,word,0,0,0\n");
    std::fs::write(&data, text).expect("the data");
    let options = ["--model", &model, "--data", &data, "--without-data"];
    let run = on_ranks(3, &fit(&options, &out)).output().expect("mpirun");
    assert_eq!(run.status.code(), Some(2));
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(said.contains("rank 2: error:") && said.contains("1502") && said.contains("word"), "{said}");
    assert!(!Path::new(&out).exists());
}

#[test]
fn a_command_that_is_not_shared_is_refused() {
    let arguments = "train --data x.csv --target y --likelihood gaussian --hidden 3 --out m".split(' ');
    let run = on_ranks(2, &arguments.collect::<Vec<_>>()).output().expect("mpirun");
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("without mpirun"));
}

/// The processes that another one started.
fn children(parent: &Child) -> Vec<String> {
    let found = Command::new("pgrep").args(["-P", &parent.id().to_string(), "rla"]).output().expect("pgrep");
    String::from_utf8_lossy(&found.stdout).lines().map(str::to_string).collect()
}

/// Kills the second of three ranks in the middle of a command: all end within ten seconds, and no file is left but what a
/// run can go on from.
fn ends_when_a_rank_is_killed(folder: &Path, arguments: &[&str]) {
    let before = files(folder);
    let mut command = on_ranks(3, arguments);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("mpirun");
    let began = Instant::now();
    let mut ranks = children(&run);
    while ranks.len() < 3 && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
        ranks = children(&run);
    }
    assert_eq!(ranks.len(), 3, "three ranks");
    // In the middle: each of these commands takes many seconds.
    std::thread::sleep(Duration::from_millis(500));
    let killed = Command::new("kill").args(["-9", &ranks[1]]).status().expect("kill");
    assert!(killed.success());
    let limit = Instant::now() + Duration::from_secs(10);
    let status = loop {
        match run.try_wait().expect("mpirun") {
            Some(status) => break Some(status),
            None if Instant::now() > limit => break None,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    if status.is_none() {
        let _ = run.kill();
    }
    assert!(status.is_some_and(|status| !status.success()), "{arguments:?}: {status:?}");
    let left: Vec<String> = files(folder).into_iter().filter(|name| !name.ends_with(".partial")).collect();
    assert_eq!(left, before, "{arguments:?}");
}

#[test]
fn a_run_that_was_stopped_on_ranks_goes_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    problem(folder.path(), 200, 3);
    let (posterior, out) = (posterior(folder.path()), folder.path().join("out"));
    let name = out.to_string_lossy().into_owned();
    let sample = ["sample", "--posterior", &posterior, "--samples", "60", "--save-every", "0s", "--out", &name];
    assert!(alone(&sample).status.success());
    let expected = std::fs::read(&out).expect("samples");
    std::fs::remove_file(&out).expect("samples");
    let before = files(folder.path());
    let run = on_ranks(3, &[&sample[..], &["--max-total-evaluations", "150"]].concat()).output().expect("mpirun");
    assert_eq!(run.status.code(), Some(130), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(!out.exists() && files(folder.path()).iter().any(|file| file.ends_with("of3.partial")));
    let run = on_ranks(3, &[&sample[..], &["--resume"]].concat()).output().expect("mpirun");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(std::fs::read(&out).expect("samples") == expected);
    std::fs::remove_file(&out).expect("samples");
    assert_eq!(files(folder.path()), before);
}

#[test]
fn a_killed_rank_ends_the_others_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    problem(folder.path(), 200_000, 60);
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (model, data, out) = (path("model.safetensors"), path("data.csv"), path("out"));
    let options = ["--model", &model, "--data", &data, "--without-data", "--optimize"];
    ends_when_a_rank_is_killed(folder.path(), &fit(&options, &out));
    let posterior = posterior(folder.path());
    let predict = ["predict", "--posterior", &posterior, "--inputs", &data, "--target", "y", "--out", &out];
    let predict = [&predict[..], &["--method", "nn", "--samples", "500"]].concat();
    ends_when_a_rank_is_killed(folder.path(), &predict);
    let sample = ["sample", "--posterior", &posterior, "--samples", "100000", "--out", &out];
    ends_when_a_rank_is_killed(folder.path(), &sample);
}

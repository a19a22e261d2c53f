//! Work that ends: signals, limits, and what is left out because it would take too long.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::program::program;
use super::{FIT, Folder, fitted, folder};

#[test]
fn signals_that_are_ignored_stay_ignored() {
    let folder = fitted();
    let run = "sample --posterior p.safetensors --samples 200000 --save-every 0s --out s.safetensors";
    for signal in ["HUP", "INT", "TERM"] {
        // What `nohup` does, for any signal.
        let script = format!("trap '' {signal}; exec \"$0\" {run}");
        let mut child = Command::new("sh")
            .args(["-c", &script, &program()])
            .current_dir(folder.path(""))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program runs");
        let partial = folder.path("s.safetensors.partial");
        let began = Instant::now();
        while !partial.exists() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(2));
        }
        for _ in 0..3 {
            let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().expect("kill");
            assert!(sent.success());
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(child.try_wait().expect("a state").is_none(), "{signal} ended it");
        child.kill().expect("a signal");
        child.wait().expect("an end");
        let _ = std::fs::remove_file(partial);
    }
}

#[test]
fn leave_one_out_after_a_fit_is_counted_before_and_left_out_where_it_is_long() {
    let folder = Folder::new();
    folder.model("m.safetensors", &[1, 2, 400]);
    let rows: String = (0..400).map(|n| format!("{},{n}\n", 0.01 * f64::from(n))).collect();
    folder.write("d.csv", format!("x,y\n{rows}"));
    let fit = "fit --model m.safetensors --data d.csv --target y --likelihood categorical --structure diag --out p.safetensors";
    let outcome = folder.ok(fit);
    assert!(!outcome.stdout.contains("elpd_loo"), "{}", outcome.stdout);
    assert!(
        outcome.stderr.contains("leave-one-out would take") && outcome.stderr.contains("rla loo"),
        "{}",
        outcome.stderr
    );
    // Few classes: it is there.
    let few = fitted();
    assert!(few.ok(&format!("{FIT} --sigma 0.3 --out p.safetensors")).stdout.contains("elpd_loo"));
}

#[test]
fn the_logarithmic_map_stops_at_its_limits_and_writes_what_is_solved() {
    let folder = folder();
    folder.ok(&format!("{FIT} --sigma 0.05 --prior-precision 0.01 --out p.safetensors"));
    folder.ok("sample --posterior p.safetensors --metric euclidean --samples 20 --out t.safetensors");
    let log = "log --posterior p.safetensors --points t.safetensors --out log.safetensors";
    let solved = |folder: &Folder| -> usize {
        let file = riemannian_laplace::internals::tensors::TensorFile::read_numbers(&folder.path("log.safetensors"))
            .expect("velocities");
        file.tensors["converged"].values.iter().filter(|value| **value == 1.0).count()
    };
    // Ten evaluations solve nothing, and take no time.
    let began = Instant::now();
    let outcome = folder.ok(&format!("{log} --max-evaluations 10"));
    assert!(began.elapsed() < Duration::from_secs(30));
    assert!(outcome.stderr.contains("20 of 20 points not solved"), "{}", outcome.stderr);
    assert_eq!(solved(&folder), 0);
    folder.ok(&format!("{log} --max-time-per-point 0s"));
    assert_eq!(solved(&folder), 0);
    let began = Instant::now();
    let outcome = folder.rla(&format!("{log} --max-time 1s"));
    assert!(began.elapsed() < Duration::from_secs(60));
    if outcome.status != Some(0) {
        assert_eq!(outcome.status, Some(130), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("stopped by --max-time"), "{}", outcome.stderr);
        assert!(solved(&folder) < 20);
    }
    // What thousands of points will take is said after the first.
    folder.ok("sample --posterior p.safetensors --metric euclidean --samples 100000 --out t.safetensors");
    let outcome = folder.rla(&format!("{log} --max-time 3s"));
    assert_eq!(outcome.status, Some(130), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the first point took"), "{}", outcome.stderr);
}

#[test]
fn predictions_that_are_no_numbers_are_an_error_as_they_are_for_scores() {
    use riemannian_laplace::{Activation, Architecture, Network};
    let folder = Folder::new();
    folder.write("far.csv", "x,y\n0.1,2\n1e305,1\n-1e305,2\n");
    folder.write("d.csv", "x,y\n0.1,2\n0.3,1\n");
    let architecture = Architecture::new(&[1, 1], Activation::Identity).expect("sizes");
    let network = Network::new(architecture, vec![1e5, 0.0]).expect("weights");
    network.save(&folder.path("m.safetensors")).expect("a network");
    folder.ok(&format!("{FIT} --sigma 0.3 --out l.safetensors"));
    let predict = "predict --posterior l.safetensors --method map --out o.csv";
    folder.refuses(&format!("{predict} --inputs far.csv"), &["far.csv", "line 3", "beyond what f64 can hold"]);
    folder.ok(&format!("{predict} --inputs d.csv"));
    // A rate beyond f64, of an output that is not.
    let network = Network::new(Architecture::new(&[1, 1], Activation::Identity).expect("sizes"), vec![1e3, 0.0]);
    network.expect("weights").save(&folder.path("m.safetensors")).expect("a network");
    folder.write("d.csv", "x,y\n0.001,2\n0.002,1\n");
    folder.write("far.csv", "x\n0.001\n1\n");
    folder.ok(&format!("{} --out l.safetensors", FIT.replace("gaussian", "poisson")));
    folder.fails(1, &format!("{predict} --inputs far.csv"), &["far.csv", "line 3", "nothing is written"]);
}

#[test]
fn blocks_within_blocks_are_refused_before_they_cannot_be_read() {
    use riemannian_laplace::{Architecture, Layer, Linear, Network, Residual};
    let folder = Folder::new();
    let linear = || Layer::from(Linear::new(2, 2));
    let nest = |depth: usize| -> Result<Architecture, riemannian_laplace::Error> {
        let mut layers = vec![linear()];
        for _ in 0..depth {
            layers = vec![Residual::new(layers, Vec::new())?.into(), linear()];
        }
        Architecture::of_layers(layers)
    };
    let deepest = nest(32).expect("32 blocks within one another");
    let path = folder.path("m.safetensors");
    Network::random(deepest.clone(), 1).save(&path).expect("a file");
    assert_eq!(Network::load(&path, None).expect("the same").architecture(), &deepest);
    let refused = nest(60).expect_err("too deep");
    assert!(refused.to_string().contains("32 deep"), "{refused}");
    // Written by hand, without the check of a block.
    let mut layers = vec![linear()];
    for _ in 0..60 {
        layers = vec![Layer::Residual(Residual { body: layers, shortcut: Vec::new() })];
    }
    assert!(Architecture::of_layers(layers).is_err());
}

//! MNIST, the benchmark that Laplace approximations are compared on: a 784-200-200-10 tanh network (D = 199,210) on
//! 55,000 images, its posteriors, and how they score on 10,000 others and tell clothes (Fashion-MNIST) from digits.
//!
//! `cargo bench --bench mnist -- FOLDER [rows]`, where the folder holds the idx files `mnist-train-images-idx3-ubyte`,
//! `mnist-train-labels-…`, `mnist-t10k-…` and `fashion-t10k-images-…`, compressed (`.gz`) or not. Rows are names separated
//! by commas (`map`, `last-layer-full`, `last-layer-kronecker`, `diagonal`, `kronecker`, `kronecker-validated`,
//! `kronecker-tempered`, `last-layer-geodesics`, `matrix-free`); without any, all but the last, which takes long, and with
//! `none` only the network is trained. The trained network and finished rows are kept in `target/mnist`, and only what is
//! missing is computed, each row in a process of its own, whose peak memory is its. `frontier` instead of rows prints what
//! prior precision and temperature do to the Kronecker posterior's NLL and AUROC.
//!
//! `laplace_torch.py` beside this file adds laplace-torch's rows on the same network, and `side_by_side.py` times the fits
//! of both in one run (with `ROW --only-fit` a row is fitted and tuned, and said on one line, and nothing is kept).

mod frontier;
mod images;
mod problem;
mod rows;
mod training;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use problem::Problem;
use rows::{Cell, Row, Score, Wanted};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Says to a process that it computes one row.
const ROW: &str = "MNIST_ROW";

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let Some(folder) = arguments.first().map(Path::new) else {
        println!("mnist: give the folder with the images, as in `cargo bench --bench mnist -- FOLDER`");
        return Ok(());
    };
    std::fs::create_dir_all(kept())?;
    if let Ok(key) = std::env::var(ROW) {
        return compute(&key, folder, Wanted::All);
    }
    match arguments.get(1..).unwrap_or_default() {
        [key, option] if option == "--only-fit" => return compute(key, folder, Wanted::Fit),
        [what] if what == "frontier" => return frontier::print(&Problem::read(folder)?, &network_file()),
        _ => {}
    }
    let named = |key: &str| Row::ALL.into_iter().find(|row| row.key() == key).ok_or(format!("there is no row {key}"));
    let wanted: Vec<Row> = match arguments.get(1) {
        Some(keys) if keys == "none" => Vec::new(),
        Some(keys) => keys.split(',').map(named).collect::<Result<_, _>>()?,
        None => Row::ALL.into_iter().filter(|row| *row != Row::MatrixFree).collect(),
    };
    let network = network_file();
    if !network.exists() {
        let began = Instant::now();
        Problem::read(folder)?.network(&network)?;
        eprintln!("trained in {:.0} s, {:.0} s of CPU", began.elapsed().as_secs_f64(), used()?.1);
    }
    for row in wanted {
        if Cell::read(&file(row.key()))?.is_none() {
            let status = Command::new(std::env::current_exe()?).arg(folder).env(ROW, row.key()).status()?;
            if !status.success() {
                eprintln!("{}: {status}", row.key());
            }
        }
    }
    print()
}

/// Computes a row in this process.
fn compute(key: &str, folder: &Path, wanted: Wanted) -> Outcome {
    let row = Row::ALL.into_iter().find(|row| row.key() == key).ok_or("no such row")?;
    let known = match row {
        Row::MatrixFree => {
            let other = Cell::read(&file(Row::Kronecker.key()))?;
            Some(other.ok_or("the row kronecker has its prior precision: compute that first")?.prior_precision)
        }
        _ => None,
    };
    let problem = Problem::read(folder)?;
    let network = problem.network(&network_file())?;
    let mut cell = row.compute(&problem, network, known, wanted)?;
    (cell.peak_megabytes, cell.cpu_seconds) = used()?;
    if wanted == Wanted::Fit {
        println!("{}", serde_json::to_string(&cell)?);
        return Ok(());
    }
    eprintln!("{key}: {cell:?}");
    cell.write(&file(key))
}

/// Where the trained network is.
fn network_file() -> PathBuf {
    kept().join("network.safetensors")
}

/// Where finished rows are.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/mnist")
}

fn file(key: &str) -> PathBuf {
    kept().join(format!("{key}.json"))
}

/// The peak memory of this process in megabytes, and its seconds of processor time, as Linux counts them.
pub(crate) fn used() -> Outcome<(f64, f64)> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // User and system time, in hundredths of a second, are the 14th and 15th words; the second may have spaces.
    let words: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: f64 = words.iter().skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum();
    Ok((peak.ok_or("no VmHWM")? * 1024.0 / 1e6, ticks / 100.0))
}

/// The table of all rows that are finished.
fn print() -> Outcome {
    println!(
        "| | link | NLL | accuracy | ECE | AUROC by entropy | by information | by logits | fit + tuning, s | of CPU | \
         predicting, s | CPU s | peak MB | prior precision | temperature |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for row in Row::ALL {
        for (name, key) in [(row.name().to_string(), row.key().to_string()), peer(row)] {
            let Some(cell) = Cell::read(&file(&key))? else { continue };
            let times = format!("{:.1} + {:.1}", cell.fit, cell.tune);
            let cpu = cell.fit_cpu.map_or("–".to_string(), |seconds| format!("{seconds:.1}"));
            let used = format!("{:.0} | {:.0} | {:.3}", cell.cpu_seconds, cell.peak_megabytes, cell.prior_precision);
            let used = format!("{used} | {:.5}", cell.temperature.unwrap_or(1.0));
            if cell.scores.is_empty() {
                println!(
                    "| {name} | predictions not finished | – | – | – | – | – | – | {times} | {cpu} | – | {used} |"
                );
            }
            let sampling = cell.sample.map_or(String::new(), |seconds| format!(" + {seconds:.1}"));
            for Score { link, nll, accuracy, ece, auroc, auroc_epistemic, auroc_logits, seconds } in &cell.scores {
                let [information, logits] = [auroc_epistemic, auroc_logits].map(|auroc| in_words(*auroc));
                println!(
                    "| {name} | {link} | {nll:.5} | {accuracy:.4} | {ece:.4} | {auroc:.4} | {information} | {logits} | \
                     {times}{sampling} | {cpu} | {seconds:.1} | {used} |"
                );
            }
        }
        if let Some([nll, accuracy, ece, auroc]) = row.published() {
            let rest = "| | | | | | | | |";
            println!("| {}, published | | {nll:.4} | {accuracy:.4} | {ece:.4} | {auroc:.3} {rest} |", row.name());
        }
    }
    println!("| VaLLA-200, published | | 0.0752 | 0.9769 | 0.0108 | 0.921 | | | | | | | | | |");
    Ok(())
}

/// An area, where there is one.
pub(crate) fn in_words(auroc: Option<f64>) -> String {
    auroc.map_or("–".to_string(), |auroc| format!("{auroc:.4}"))
}

/// The same row by laplace-torch.
fn peer(row: Row) -> (String, String) {
    (format!("{}, laplace-torch", row.name()), format!("laplace-torch-{}", row.key()))
}

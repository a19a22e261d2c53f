//! Is a posterior worth its cost for classification? NLL, calibration error and accuracy of every method on two moons,
//! wine, breast cancer and digits, networks trained in candle, over random splits.
//!
//! `cargo run --release --example classification` takes two splits of each; `-- --full` takes ten and keeps finished
//! cells in `results/classification`, so that an interrupted run continues where it stopped.

#[path = "../paper/support/cells.rs"]
mod cells;
#[path = "../datasets/mod.rs"]
mod datasets;
// Only its `Outcome`.
#[allow(dead_code)]
#[path = "../paper/support/figure.rs"]
mod figure;
mod study;
#[path = "../paper/support/table.rs"]
mod table;

use cells::Cells;
use clap::Parser;
use datasets::Classes;
use figure::Outcome;
use study::{Cell, Trained, Way, paired};
use table::{TextTable, with_deviation};

/// Scores of every method on four classification data sets
#[derive(Debug, Parser)]
struct Options {
    /// Ten splits of each data set; finished cells are kept
    #[arg(long)]
    full: bool,
    /// Recompute every cell of a full run, even those already in `results`
    #[arg(long, requires = "full")]
    fresh: bool,
    /// Only these data sets
    #[arg(long, value_enum, value_delimiter = ',')]
    data: Vec<Classes>,
    /// Only these methods; MAP is always there to compare with
    #[arg(long, value_enum, value_delimiter = ',')]
    methods: Vec<Way>,
}

fn main() -> Outcome {
    let options = Options::parse();
    let cells = if options.full { Cells::kept("classification", options.fresh)? } else { Cells::NONE };
    let splits = if options.full { 10 } else { 2 };
    let sets = if options.data.is_empty() { Classes::ALL.to_vec() } else { options.data.clone() };
    let wanted = |way: &Way| *way == Way::Map || options.methods.is_empty() || options.methods.contains(way);
    let ways: Vec<Way> = Way::ALL.into_iter().filter(wanted).collect();
    for set in sets {
        let mut rows: Vec<Vec<Cell>> = vec![Vec::new(); ways.len()];
        for index in 0..splits {
            let name = format!("{} {index}", set.name());
            let trained = Trained::new(set, index, 1000, cells.writable(&name, "safetensors").as_deref())?;
            for (way, row) in ways.iter().zip(&mut rows) {
                let key = format!("{name} {}", way.key());
                let cell = match cells.get(&key) {
                    Some(cell) => cell,
                    None => {
                        let cell = trained.score(*way)?;
                        eprintln!("{key}: NLL {:.4}, {:.1} s", cell.nll, cell.seconds);
                        cells.put(&key, &cell)?;
                        cell
                    }
                };
                row.push(cell);
            }
        }
        print(set, &ways, &rows);
    }
    Ok(())
}

/// Mean ± standard deviation over the splits, and the paired difference to MAP ± its standard error.
fn print(set: Classes, ways: &[Way], rows: &[Vec<Cell>]) {
    println!("\n{}", set.name());
    let mut table = TextTable::new(&["method", "NLL", "ECE", "accuracy", "NLL − MAP's", "uncertified", "s"]);
    let column = |cells: &[Cell], of: fn(&Cell) -> f64| cells.iter().map(of).collect::<Vec<f64>>();
    let map = column(&rows[0], |cell| cell.nll);
    for (way, cells) in ways.iter().zip(rows) {
        let nll = column(cells, |cell| cell.nll);
        let (difference, error) = paired(&nll, &map);
        let uncertified: usize = cells.iter().map(|cell| cell.uncertified).sum();
        let seconds = column(cells, |cell| cell.seconds).iter().sum::<f64>() / cells.len() as f64;
        table.row(vec![
            way.name().to_string(),
            with_deviation(&nll),
            with_deviation(&column(cells, |cell| cell.ece)),
            with_deviation(&column(cells, |cell| cell.accuracy)),
            if *way == Way::Map {
                "–".to_string()
            } else {
                format!("{difference:+.4} ± {error:.4}").replace('-', "−")
            },
            if *way == Way::RlaF { uncertified.to_string() } else { "–".to_string() },
            if *way == Way::Map { "–".to_string() } else { format!("{seconds:.2}") },
        ]);
    }
    table.print();
}

//! Trained networks with data to test them on.

use std::error::Error;

use riemannian_laplace::internals::data::Table;
use riemannian_laplace::prelude::*;

use crate::datasets::{Classes, path};

/// A network of the study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Task {
    /// Snelson's data, complete: 150 points, 1-50-1
    Snelson,
    /// Energy efficiency of buildings: 691 points, 8-50-50-1
    Energy,
    /// Two moons: 270 points, 2-20-20-1, Bernoulli
    TwoMoons,
    /// Breast cancer: 512 points, 30-20-1, Bernoulli
    BreastCancer,
    /// 8 × 8 digits: 1,347 points, 64-32-10, categorical
    Digits,
}

/// A posterior with tuned prior precision (and noise), and test data in original units.
pub struct Trained {
    pub laplace: Laplace,
    pub test: Dataset,
}

impl Task {
    pub const ALL: [Task; 5] = [Task::Snelson, Task::Energy, Task::TwoMoons, Task::BreastCancer, Task::Digits];

    /// Trains the network with this activation, from the first seed, and tunes its posterior.
    pub fn train(self, activation: Activation) -> Result<Trained, Box<dyn Error>> {
        let (data, test_rows, hidden, epochs): (Dataset, Vec<usize>, &[usize], usize) = match self {
            Task::Snelson => {
                let split = std::fs::read_to_string(path("snelson_split.csv"))?;
                let is_test = |line: &str| line.split(',').nth(1) == Some("test");
                let lines = split.lines().skip(1).enumerate();
                let test = lines.filter(|(_, line)| is_test(line)).map(|(row, _)| row).collect();
                (Table::read(&path("snelson.csv"))?.dataset(&["y".to_string()])?, test, &[50], 5000)
            }
            Task::Energy => {
                let data = Table::read(&path("uci/energy.csv"))?.dataset(&["heating".to_string()])?;
                let test = every_tenth(data.len());
                (data, test, &[50, 50], 3000)
            }
            Task::TwoMoons => classes(Classes::TwoMoons, &[20, 20], 1000)?,
            Task::BreastCancer => classes(Classes::BreastCancer, &[20], 500)?,
            Task::Digits => {
                let (data, _, hidden, epochs) = classes(Classes::Digits, &[32], 300)?;
                let test = (0..data.len()).filter(|row| row % 4 == 3).take(450).collect();
                (data, test, hidden, epochs)
            }
        };
        let (family, outputs) = match self {
            Task::Snelson | Task::Energy => (Family::gaussian(1.0)?, 1),
            Task::TwoMoons | Task::BreastCancer => ("bernoulli".parse()?, 1),
            Task::Digits => ("categorical".parse()?, 10),
        };
        let sizes = [&[data.inputs().ncols()], hidden, &[outputs]].concat();
        trained(&data, &test_rows, family, Architecture::new(&sizes, activation)?, epochs)
    }
}

fn every_tenth(count: usize) -> Vec<usize> {
    (0..count).filter(|row| row % 10 == 9).collect()
}

type Parts = (Dataset, Vec<usize>, &'static [usize], usize);

fn classes(which: Classes, hidden: &'static [usize], epochs: usize) -> Result<Parts, Box<dyn Error>> {
    let data = which.load()?;
    let test = every_tenth(data.len());
    Ok((data, test, hidden, epochs))
}

/// Trains on the rows that are not for testing, standardised, and tunes the posterior.
pub fn trained(
    data: &Dataset,
    test_rows: &[usize],
    family: Family,
    architecture: Architecture,
    epochs: usize,
) -> Result<Trained, Box<dyn Error>> {
    let train_rows: Vec<usize> = (0..data.len()).filter(|row| !test_rows.contains(row)).collect();
    let which = match family.likelihood().name() {
        "gaussian" => Standardize::InputsAndTargets,
        _ => Standardize::Inputs,
    };
    let train_data = data.select(&train_rows)?.standardized(which)?;
    let options = TrainingOptions { epochs, weight_decay: 1e-4, ..Default::default() };
    let trained = train(&Network::random(architecture, 1), &train_data, &family, &options, &())?;
    let mut laplace = Laplace::fit(trained.network, train_data, family, &FitOptions::default())?;
    laplace.optimize(&EvidenceOptions::default())?;
    Ok(Trained { laplace, test: data.select(test_rows)? })
}

impl Trained {
    /// The test negative log likelihood of a prediction.
    pub fn nll(&self, prediction: &Prediction) -> riemannian_laplace::Result<f64> {
        Ok(Scores::of(prediction, self.test.targets())?.nll())
    }

    /// The same of a method.
    pub fn nll_of(&self, method: &Method) -> riemannian_laplace::Result<f64> {
        self.nll(&self.laplace.predict(self.test.inputs(), method)?)
    }
}

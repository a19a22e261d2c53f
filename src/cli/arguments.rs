//! Arguments that several commands share, and the parsers of single values.

use std::ops::Range;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use riemannian_laplace::data::{Dataset, Table};
use riemannian_laplace::likelihood::{Family, Likelihood};
use riemannian_laplace::network::{Activation, Architecture};

use super::failure::Failure;
use super::output::counted;

/// A CSV file and the columns to be predicted.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// The data: CSV with a header, every cell a number
    #[arg(long, value_name = "CSV")]
    pub data: PathBuf,
    /// The target columns, separated by commas; every other column is an input
    #[arg(long, value_name = "NAMES", required = true, value_delimiter = ',')]
    pub target: Vec<String>,
}

impl DataArgs {
    /// Reads the file and splits its columns.
    pub fn read(&self) -> Result<DataFile, Failure> {
        refuse_twice(&self.target)?;
        let table = Table::read(&self.data)?;
        let dataset = table.dataset(&self.target).map_err(Failure::about(&self.data))?;
        if dataset.inputs().ncols() == 0 {
            let path = self.data.display();
            return Err(Failure::Usage(format!("{path}: there are no input columns; every column is a target")));
        }
        Ok(DataFile { table, dataset, path: self.data.clone(), targets: self.target.clone() })
    }
}

/// A data set, and the file that knows on which line each of its rows stands.
#[derive(Debug)]
pub struct DataFile {
    table: Table,
    path: PathBuf,
    targets: Vec<String>,
    /// Its inputs and targets.
    pub dataset: Dataset,
}

impl DataFile {
    /// Checks that there are as many target columns as the likelihood takes.
    pub fn check_target_columns(&self, likelihood: &dyn Likelihood, n_outputs: usize) -> Result<(), Failure> {
        let (expected, found) = (likelihood.n_targets(n_outputs), self.targets.len());
        if expected != found {
            return Err(Failure::Usage(format!(
                "--target names {} ({}); a {} likelihood over {} takes {expected}",
                counted(found, "column"),
                self.targets.join(", "),
                likelihood.name(),
                counted(n_outputs, "network output"),
            )));
        }
        Ok(())
    }

    /// Checks the targets, naming the line of the first that the likelihood cannot have produced.
    pub fn check_targets(&self, likelihood: &dyn Likelihood, n_outputs: usize) -> Result<(), Failure> {
        self.check_target_columns(likelihood, n_outputs)?;
        Ok(self.table.check_targets(&self.dataset, likelihood, n_outputs)?)
    }

    /// Checks inputs and targets against a network.
    pub fn check_against(&self, architecture: &Architecture, likelihood: &dyn Likelihood) -> Result<(), Failure> {
        let (expected, found) = (architecture.n_inputs(), self.dataset.inputs().ncols());
        if expected != found {
            return Err(Failure::Usage(format!(
                "{}: the network has {}, the file {} ({}) beside the target {}",
                self.path.display(),
                counted(expected, "input"),
                counted(found, "input column"),
                input_names(&self.table, &self.targets),
                self.targets.join(", "),
            )));
        }
        self.check_targets(likelihood, architecture.n_outputs())
    }
}

/// The names of the columns that are inputs, for a message.
pub fn input_names(table: &Table, leave_out: &[String]) -> String {
    let names: Vec<&str> =
        table.columns().iter().filter(|name| !leave_out.contains(name)).map(String::as_str).collect();
    names.join(", ")
}

/// Refuses a list of column names in which one stands twice.
pub fn refuse_twice(names: &[String]) -> Result<(), Failure> {
    match names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        Some((_, name)) => Err(Failure::Usage(format!("--target names the column `{name}` twice"))),
        None => Ok(()),
    }
}

/// The likelihoods by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LikelihoodName {
    /// Real targets with Gaussian noise
    Gaussian,
    /// Class labels 0, 1, …, C−1
    Categorical,
    /// 0/1 targets
    Bernoulli,
    /// Counts
    Poisson,
}

impl LikelihoodName {
    /// The family of that name, with σ where it is Gaussian.
    pub fn family(self, sigma: &[f64]) -> Result<Family, Failure> {
        Ok(match self {
            LikelihoodName::Gaussian => Family::gaussian_per_output(sigma)?,
            LikelihoodName::Categorical => "categorical".parse()?,
            LikelihoodName::Bernoulli => "bernoulli".parse()?,
            LikelihoodName::Poisson => "poisson".parse()?,
        })
    }
}

/// Parses an activation, listing all of them when there is none of that name.
pub fn activation() -> impl TypedValueParser<Value = Activation> {
    PossibleValuesParser::new(Activation::ALL.map(Activation::name)).try_map(|name| name.parse::<Activation>())
}

/// Parses a positive finite number.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("it must be a positive finite number".to_string()),
    }
}

/// Parses a finite number that is at least zero.
pub fn non_negative(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("it must be a finite number, at least 0".to_string()),
    }
}

/// Parses a whole number that is at least one.
pub fn count(text: &str) -> Result<usize, String> {
    match text.trim().parse::<usize>() {
        Ok(value) if value > 0 => Ok(value),
        _ => Err("it must be a whole number, at least 1".to_string()),
    }
}

/// Parses a range `A..B` with at least one number in it.
pub fn range(text: &str) -> Result<Range<usize>, String> {
    let parsed = text.split_once("..").and_then(|(start, end)| {
        let (start, end) = (start.trim().parse().ok()?, end.trim().parse().ok()?);
        (start < end).then_some(start..end)
    });
    parsed.ok_or_else(|| "it must be A..B with whole numbers A < B, such as 100..200".to_string())
}

/// Parses an amount of memory: bytes, or a number with a decimal (GB) or binary (GiB) unit.
pub fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 9] = [
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KIB", 1024.0),
        ("MIB", 1_048_576.0),
        ("GIB", 1_073_741_824.0),
        ("TIB", 1_099_511_627_776.0),
        ("B", 1.0),
    ];
    let upper = text.trim().to_ascii_uppercase();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| upper.strip_suffix(name).map(|number| (number, *unit)))
        .unwrap_or((upper.as_str(), 1.0));
    match number.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value * unit >= 1.0 => Ok((value * unit) as u64),
        _ => Err("it must be a positive amount such as 2GB, 500MB or 4096 (bytes)".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_understood() {
        assert_eq!(range("0..3"), Ok(0..3));
        assert_eq!(range("100..200"), Ok(100..200));
        for text in ["", "3", "..3", "3..", "3..3", "5..3", "-1..3", "1..=3", "0..18446744073709551616"] {
            assert!(range(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_of_memory_are_understood() {
        assert_eq!(bytes("2GB"), Ok(2_000_000_000));
        assert_eq!(bytes("0.5 gib"), Ok(536_870_912));
        assert_eq!(bytes("500mb"), Ok(500_000_000));
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("10B"), Ok(10));
        for text in ["", "GB", "-1GB", "0", "inf", "nan", "2 apples"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}

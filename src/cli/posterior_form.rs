//! What is uncertain and in which form: the weights, the structure of their precision, and the exact solver.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use riemannian_laplace::internals::files::read_text;
use riemannian_laplace::{Structure, Weights};

use super::failure::Failure;

/// The form of the posterior.
#[derive(Debug, Args)]
pub struct FormArgs {
    /// The weights that are uncertain, the others staying as trained: all; last-layer; layers:0,2 by their names in the
    /// model file; subnetwork:K, the K weights of largest magnitude (subnetwork:K:variance, subnetwork:K:random:SEED);
    /// subnetwork:@indices.txt
    #[arg(long, value_name = "WEIGHTS", default_value = "all")]
    weights: WeightsArg,
    /// The structure of the posterior precision: exact (full, or auto, which is the same as long as it fits); exact but
    /// known through products alone, with random estimates of evidence and variances (matrix-free, or matrix-free:S with
    /// variances from S draws in place of 64); or an approximation: kron (KFAC), low-rank:K (the K largest eigenvalues),
    /// diag
    #[arg(long, value_name = "STRUCTURE", default_value = "auto", value_parser = structure)]
    structure: StructureName,
    /// Which of the exact solvers to use with --structure auto or full; the answer is the same
    #[arg(long, value_name = "SOLVER", value_parser = solver())]
    solver: Option<Structure>,
}

/// --weights, as given.
#[derive(Debug, Clone)]
enum WeightsArg {
    Rule(Weights),
    File(PathBuf),
}

impl FromStr for WeightsArg {
    type Err = riemannian_laplace::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("subnetwork:@") {
            Some(path) => Ok(WeightsArg::File(PathBuf::from(path))),
            None => Ok(WeightsArg::Rule(text.parse()?)),
        }
    }
}

/// --structure, as given: the exact ones with a matrix by two names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StructureName {
    Exact,
    Approximate(Structure),
}

fn structure(text: &str) -> Result<StructureName, riemannian_laplace::Error> {
    match text {
        "auto" | "full" => Ok(StructureName::Exact),
        other => Ok(StructureName::Approximate(other.parse()?)),
    }
}

/// The exact solvers by name.
fn solver() -> impl TypedValueParser<Value = Structure> {
    let exact =
        Structure::ALL.iter().filter(|structure| structure.word() == "full").map(|structure| structure.solver());
    PossibleValuesParser::new(["auto"].into_iter().chain(exact))
        .map(|name| Structure::of_solver(&name).unwrap_or_default())
}

impl FormArgs {
    /// The structure to fit: a file without data needs one whose sums can be written.
    pub fn structure(&self, without_data: bool) -> Result<Structure, Failure> {
        match (&self.structure, self.solver.unwrap_or_default(), without_data) {
            (StructureName::Exact, Structure::Auto, true) => Ok(Structure::WeightSpace),
            (StructureName::Exact, Structure::FunctionSpace, true) => Err(Failure::Usage(
                "--without-data stores the D × D matrix of the weight-space solver; leave out --solver function-space"
                    .to_string(),
            )),
            (StructureName::Exact, solver, _) => Ok(solver),
            (StructureName::Approximate(Structure::MatrixFree(_)), Structure::Auto, true) => Err(Failure::Usage(
                "--structure matrix-free computes with the training data and cannot leave them out of the file; leave \
                 out --without-data, or use --structure kron or diag"
                    .to_string(),
            )),
            (StructureName::Approximate(structure), Structure::Auto, _) => Ok(*structure),
            (StructureName::Approximate(structure), solver, _) => Err(Failure::Usage(format!(
                "--solver {solver} belongs to --structure full; leave it out with {}",
                structure.word()
            ))),
        }
    }

    /// The file that names the weights, if one does.
    pub fn file(&self) -> Option<&Path> {
        match &self.weights {
            WeightsArg::Rule(_) => None,
            WeightsArg::File(path) => Some(path),
        }
    }

    /// The weights that are uncertain.
    pub fn weights(&self) -> Result<Weights, Failure> {
        match &self.weights {
            WeightsArg::Rule(weights) => Ok(weights.clone()),
            WeightsArg::File(path) => read_indices(path).map(Weights::Indices),
        }
    }
}

/// Indices separated by spaces, commas or line breaks.
fn read_indices(path: &Path) -> Result<Vec<usize>, Failure> {
    let text = read_text(path)?;
    let mut indices = Vec::new();
    for (line, contents) in text.lines().enumerate() {
        for word in contents.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty()) {
            let index = word.parse().map_err(|_| {
                let (path, line) = (path.display(), line + 1);
                Failure::Usage(format!("{path}: line {line}: `{word}` is not the index of a weight, counting from 0"))
            })?;
            indices.push(index);
        }
    }
    Ok(indices)
}

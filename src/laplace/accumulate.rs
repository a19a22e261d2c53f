//! Sums over the data, batch by batch: the curvature at unit scale, and what the log likelihood at θ̂ depends on.

use std::ops::Range;

use ndarray::{Array2, ArrayView2};

use super::matrix_free;
use super::problem::{BatchRows, Problem};
use super::share::BlockSums;
use super::structure::{Curvature, Structure};
use crate::data::{Batch, Batches, sum_over_blocks_at_once, sum_over_blocks_of};
use crate::error::{Error, Result, check_size};
use crate::likelihood::{Family, RowLikelihood};
use crate::linalg::first_not_finite;
use crate::map::Model;
use crate::memory;
use crate::team::Team;

/// Numbers in the rows of one batch of data points.
pub(crate) const BATCH_NUMBERS: f64 = (1u64 << 22) as f64;

/// What the log likelihood at θ̂ depends on, and the weight of all rows: their number, unless they have weights.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fit {
    pub(super) sums: FitSums,
    pub(super) weight: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum FitSums {
    /// Σₙ (y − f)² of each output, from which the log likelihood follows for any σ.
    SquaredErrors(Vec<f64>),
    /// The log likelihood itself, for families without hyperparameters.
    LogLikelihood(f64),
}

/// The number of data points whose rows and evaluator stay within a batch's numbers.
pub(super) fn rows_at_once(model: &dyn Model, dense: f64) -> usize {
    let columns = model.n_outputs();
    let numbers = model.numbers_per_point(columns) + dense * columns as f64;
    ((BATCH_NUMBERS / numbers.max(1.0)) as usize).max(1)
}

/// Sums over all data, in as many passes as the structure takes: over each row block, then over the blocks in order. What is
/// no sum is made of all data on every rank.
pub(super) fn accumulate(
    problem: &Problem,
    structure: Structure,
    data: &dyn Batches,
) -> Result<(Box<dyn Curvature>, Fit)> {
    if let (Structure::MatrixFree(draws), Some(team)) = (structure, data.team().filter(|team| team.size() > 1)) {
        return matrix_free::accumulate_on(team, problem, draws, data);
    }
    let alone = Team::alone();
    let team = data.team().filter(|_| structure.is_sum()).unwrap_or(&alone);
    let parts = BlockSums { problem, structure };
    let pass = |begin: &(dyn Fn() -> Result<Box<dyn Curvature>> + Sync)| {
        let of_block = |block| accumulate_block(problem, begin()?, data, block);
        match structure {
            // What a block adds is small beside its rows, and much of the work is none of products that threads can share.
            Structure::Kronecker | Structure::Diagonal => {
                let numbers = 2.0 * BATCH_NUMBERS + structure.numbers(problem);
                sum_over_blocks_at_once(team, data, &parts, numbers, of_block)
            }
            _ => sum_over_blocks_of(team, data, &parts, of_block),
        }
    };
    let (mut curvature, fit) = pass(&|| structure.begin(problem))?;
    while let Some(empty) = curvature.end_pass()? {
        curvature = pass(&|| Ok(empty.duplicate()))?.0;
    }
    Ok((curvature, fit))
}

/// The sums over one row block, added to an empty curvature.
pub(super) fn accumulate_block(
    problem: &Problem,
    mut curvature: Box<dyn Curvature>,
    data: &dyn Batches,
    block: Range<usize>,
) -> Result<(Box<dyn Curvature>, Fit)> {
    let model = &problem.model;
    // A batch has one point at least, however large.
    let of_point = model.numbers_per_point(model.n_outputs());
    let batch = (block.len() as f64 * of_point).min(BATCH_NUMBERS.max(of_point));
    memory::check("a batch of the data", batch, "allow more memory")?;
    let mut fit = Fit::none(&problem.family, model.n_outputs());
    let rows = rows_at_once(&**model, curvature.numbers_per_point());
    let mut next = block.start;
    for batch in data.batches(block.clone(), rows)? {
        let batch = batch?;
        check_batch(problem, &batch, next)?;
        next = batch.rows().end;
        let rows = BatchRows::new(problem, batch.inputs.view(), batch.targets.view())
            .map_err(|error| error.in_part_from(batch.first_row))?;
        fit.add(problem, batch.first_row, &rows.outputs(), batch.targets.view())?;
        curvature.accumulate(&rows)?;
    }
    let what = format!("number of rows that the source gives for rows {}..{}", block.start, block.end);
    check_size(&what, block.len(), next - block.start)?;
    Ok((curvature, fit))
}

/// Checks what a source of one's own may get wrong: the batch must begin with the row that is next, have as many targets
/// as inputs, both of the right width, and finite inputs. (Targets are checked by the likelihood.)
fn check_batch(problem: &Problem, batch: &Batch<'_>, next: usize) -> Result<()> {
    let model = &problem.model;
    check_size("first row of a batch", next, batch.first_row)?;
    check_size("number of target rows of a batch", batch.inputs.nrows(), batch.targets.nrows())?;
    check_size("number of input columns", model.n_inputs(), batch.inputs.ncols())?;
    check_size("number of target columns", problem.family.row_width(model.n_outputs()), batch.targets.ncols())?;
    match first_not_finite(batch.inputs.view()) {
        Some((row, column)) => Err(Error::NotFinite { what: "the input", row: next + row, column }),
        None => Ok(()),
    }
}

impl Fit {
    pub(super) fn none(family: &Family, n_outputs: usize) -> Self {
        let sums = match family.sigma() {
            Some(_) => FitSums::SquaredErrors(vec![0.0; n_outputs]),
            None => FitSums::LogLikelihood(0.0),
        };
        Self { sums, weight: 0.0 }
    }

    /// Its numbers.
    pub(super) fn numbers(&self) -> Vec<f64> {
        let mut numbers = match &self.sums {
            FitSums::SquaredErrors(errors) => errors.clone(),
            FitSums::LogLikelihood(value) => vec![*value],
        };
        numbers.push(self.weight);
        numbers
    }

    /// One of the same kind with other numbers, where there are as many.
    pub(super) fn with_numbers(&self, mut values: Vec<f64>) -> Option<Self> {
        let weight = values.pop()?;
        let sums = match (&self.sums, &values[..]) {
            (FitSums::SquaredErrors(errors), _) if errors.len() == values.len() => FitSums::SquaredErrors(values),
            (FitSums::LogLikelihood(_), [value]) => FitSums::LogLikelihood(*value),
            (FitSums::SquaredErrors(_) | FitSums::LogLikelihood(_), _) => return None,
        };
        Some(Self { sums, weight })
    }

    /// Adds a batch whose first row has the given index.
    fn add(
        &mut self,
        problem: &Problem,
        first: usize,
        outputs: &Array2<f64>,
        targets: ArrayView2<'_, f64>,
    ) -> Result<()> {
        let family = &problem.family;
        let not_finite = |what, row: usize, column| Err(Error::NotFinite { what, row: first + row, column });
        for (row, (output, values)) in outputs.rows().into_iter().zip(targets.rows()).enumerate() {
            let (output, values) = (output.to_vec(), values.to_vec());
            let valid = family.validate(&values, output.len());
            valid.map_err(|source| Error::Target { row: first + row, source })?;
            if let Some(column) = output.iter().position(|value| !value.is_finite()) {
                return not_finite("the network's output", row, column);
            }
            let RowLikelihood { likelihood, target, weight, .. } = family.of_row(&values, output.len());
            self.weight += weight;
            match &mut self.sums {
                FitSums::SquaredErrors(errors) => {
                    for (column, (error, (f, y))) in errors.iter_mut().zip(output.iter().zip(target)).enumerate() {
                        let square = weight * (f - y) * (f - y);
                        if !square.is_finite() {
                            return not_finite("the squared error of the network's output", row, column);
                        }
                        *error += square;
                    }
                }
                FitSums::LogLikelihood(sum) => {
                    let log_density = likelihood.log_density(target, &output);
                    if !log_density.is_finite() {
                        return not_finite("the log likelihood at the network's output", row, 0);
                    }
                    *sum += log_density;
                }
            }
        }
        Ok(())
    }

    pub(super) fn merge(&mut self, later: &Fit) {
        self.weight += later.weight;
        match (&mut self.sums, &later.sums) {
            (FitSums::SquaredErrors(errors), FitSums::SquaredErrors(more)) => {
                errors.iter_mut().zip(more).for_each(|(sum, error)| *sum += error);
            }
            (FitSums::LogLikelihood(sum), FitSums::LogLikelihood(more)) => *sum += more,
            // All blocks of a fit have the same family.
            (FitSums::SquaredErrors(_), FitSums::LogLikelihood(_))
            | (FitSums::LogLikelihood(_), FitSums::SquaredErrors(_)) => {}
        }
    }

    /// The weight of all rows.
    pub(crate) fn weight(&self) -> f64 {
        self.weight
    }

    /// The squared errors of each output; empty for families without σ.
    pub(crate) fn squared_errors(&self) -> &[f64] {
        match &self.sums {
            FitSums::SquaredErrors(errors) => errors,
            FitSums::LogLikelihood(_) => &[],
        }
    }

    /// The log likelihood under the given σ (one, or one per output).
    pub(crate) fn log_likelihood(&self, sigma: &[f64]) -> f64 {
        match &self.sums {
            FitSums::LogLikelihood(value) => *value,
            FitSums::SquaredErrors(errors) => {
                let term = |(output, error): (usize, &f64)| {
                    let sigma = sigma[if sigma.len() == 1 { 0 } else { output }];
                    let variance = sigma.powi(2);
                    // The square of a σ beyond 1e154 or below 1e-154 is not in f64, its logarithm and the quotient are.
                    let (log, misfit) = match variance.is_normal() {
                        true => ((2.0 * std::f64::consts::PI * variance).ln(), error / variance),
                        false => ((2.0 * std::f64::consts::PI).ln() + 2.0 * sigma.ln(), error / sigma / sigma),
                    };
                    -0.5 * (self.weight * log + misfit)
                };
                errors.iter().enumerate().map(term).sum()
            }
        }
    }
}

//! What is known of each row besides its target: a weight, the standard deviation of its noise, a number of trials.
//!
//! A row with known values has a likelihood of its own: that of weight w is log p(y | f)ʷ, that with known noise s has the
//! variance σ² + s², and k of n trials are binomial. Everything else follows: a sum over rows takes each row's likelihood, and
//! nothing but this module knows why they differ.

use std::sync::Arc;

use ndarray::{ArrayView2, Axis};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Family, Likelihood, Scaled, TargetError, TargetKind};
use crate::error::{Error, NoiseError, Result};

/// A column of known values. They stand behind the columns of targets, weights last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Known {
    /// The standard deviation of a target's noise, in units of the target: one column for each target.
    Noise,
    /// The number of trials, of which the target counts the successes.
    Trials,
    /// How many times the row counts: a row of weight 2 is that row twice, one of weight 0 is not there.
    Weight,
}

impl Known {
    /// The word in messages and files.
    pub fn name(self) -> &'static str {
        match self {
            Known::Noise => "noise",
            Known::Trials => "trials",
            Known::Weight => "weight",
        }
    }

    /// Whether a value is possible.
    fn allows(self, value: f64) -> bool {
        match self {
            Known::Noise | Known::Weight => value.is_finite() && value >= 0.0,
            Known::Trials => value.is_finite() && value >= 1.0 && value == value.trunc(),
        }
    }

    /// The possible values in words.
    fn allowed(self) -> &'static str {
        match self {
            Known::Noise => "a standard deviation of at least 0",
            Known::Trials => "a whole number of trials from 1",
            Known::Weight => "a weight of at least 0",
        }
    }
}

/// A row's likelihood, its target, and its weight.
#[derive(Debug, Clone)]
pub struct RowLikelihood<'a> {
    /// The likelihood, to the power of the weight.
    pub likelihood: Arc<dyn Likelihood>,
    /// The likelihood of the row counted once.
    pub unweighted: Arc<dyn Likelihood>,
    /// The observed values.
    pub target: &'a [f64],
    /// How many times the row counts.
    pub weight: f64,
}

impl Family {
    /// The same for rows with these known values.
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::internals::likelihood::Known;
    /// use riemannian_laplace::Family;
    ///
    /// // Rows (y, s, w): noise of variance 0.3² + s², counted w times.
    /// let family = Family::gaussian(0.3)?.with_known(&[Known::Noise, Known::Weight])?;
    /// let row = family.of_row(&[1.0, 0.4, 2.0], 1);
    /// let plain = Family::gaussian(0.5)?;
    /// let (weighted, once) = (row.likelihood.log_density(row.target, &[0.2]), plain.likelihood().log_density(&[1.0], &[0.2]));
    /// assert!((weighted - 2.0 * once).abs() < 1e-14);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn with_known(&self, known: &[Known]) -> Result<Self> {
        let (weights, others): (Vec<Known>, Vec<Known>) = known.iter().partition(|known| **known == Known::Weight);
        let name = self.likelihood().name();
        let refused = |known: Known| Error::Noise(NoiseError::Known { likelihood: name, known: known.name() });
        if weights.len() > 1 || known.iter().rev().skip(weights.len()).any(|known| *known == Known::Weight) {
            return Err(refused(Known::Weight));
        }
        let own = self.likelihood().known();
        let family = match (&own[..], &others[..]) {
            (own, others) if own == others => self.clone(),
            ([needed, ..], []) => {
                return Err(Error::Noise(NoiseError::Needs { likelihood: name, known: needed.name() }));
            }
            _ => Self::from(self.likelihood().with_known(&others).ok_or_else(|| refused(others[0]))?),
        };
        Ok(family.weighted(!weights.is_empty()))
    }

    /// The columns of known values behind the targets, in order.
    pub fn known(&self) -> Vec<Known> {
        let mut known = self.likelihood().known();
        known.extend(self.has_weights().then_some(Known::Weight));
        known
    }

    /// The columns of a row: its targets, then its known values.
    pub fn row_width(&self, n_outputs: usize) -> usize {
        self.likelihood().n_targets(n_outputs) + self.known().len()
    }

    /// Whether rows may have so many columns: targets alone, with what is known of them, or with their weight as well.
    pub(crate) fn takes_width(&self, columns: usize, n_outputs: usize) -> bool {
        let n_targets = self.likelihood().n_targets(n_outputs);
        [n_targets, n_targets + self.likelihood().known().len(), self.row_width(n_outputs)].contains(&columns)
    }

    /// A row with its known values, which must have been checked. Without them (at new inputs, whose noise nobody has measured)
    /// the likelihood is the family's own.
    pub fn of_row<'a>(&self, row: &'a [f64], n_outputs: usize) -> RowLikelihood<'a> {
        let (target, rest) = row.split_at(row.len().min(self.likelihood().n_targets(n_outputs)));
        if rest.is_empty() {
            return RowLikelihood { likelihood: self.shared(), unweighted: self.shared(), target, weight: 1.0 };
        }
        let (values, weight) = rest.split_at(rest.len().min(self.likelihood().known().len()));
        let unweighted = self.likelihood().at_row(values).unwrap_or_else(|| self.shared());
        let weight = weight.first().copied().unwrap_or(1.0);
        let likelihood = match weight {
            1.0 => unweighted.clone(),
            _ => Arc::new(Scaled::new(unweighted.clone(), weight)) as Arc<dyn Likelihood>,
        };
        RowLikelihood { likelihood, unweighted, target, weight }
    }

    /// The likelihood of rows, and their observed values without what is known besides.
    pub fn of_rows<'a>(
        &self,
        rows: ArrayView2<'a, f64>,
        n_outputs: usize,
    ) -> (Arc<dyn Likelihood>, ArrayView2<'a, f64>) {
        (self.per_row(rows, n_outputs, |row| row.likelihood), self.observed(rows, n_outputs))
    }

    /// The observed values of rows, without what is known besides.
    pub fn observed<'a>(&self, rows: ArrayView2<'a, f64>, n_outputs: usize) -> ArrayView2<'a, f64> {
        let n_targets = self.likelihood().n_targets(n_outputs).min(rows.ncols());
        rows.split_at(Axis(1), n_targets).0
    }

    /// The family of predictions at these rows, each counted once and with what is known of it.
    pub(crate) fn at_rows(&self, rows: ArrayView2<'_, f64>, n_outputs: usize) -> Self {
        Self::from(self.per_row(rows, n_outputs, |row| row.unweighted))
    }

    fn per_row(
        &self,
        rows: ArrayView2<'_, f64>,
        n_outputs: usize,
        of: impl Fn(RowLikelihood<'_>) -> Arc<dyn Likelihood>,
    ) -> Arc<dyn Likelihood> {
        if rows.ncols() <= self.likelihood().n_targets(n_outputs) {
            return self.shared();
        }
        let rows = rows.rows().into_iter().map(|row| of(self.of_row(&row.to_vec(), n_outputs))).collect();
        Arc::new(PerRow { base: self.shared(), rows })
    }

    /// How many times each row counts.
    pub fn weights(&self, rows: ArrayView2<'_, f64>, n_outputs: usize) -> Vec<f64> {
        rows.rows().into_iter().map(|row| self.of_row(&row.to_vec(), n_outputs).weight).collect()
    }

    /// Whether a row could have been observed: its width, known values, and targets.
    pub fn validate(&self, row: &[f64], n_outputs: usize) -> std::result::Result<(), TargetError> {
        let (known, likelihood) = (self.known(), self.likelihood());
        let n_targets = likelihood.n_targets(n_outputs);
        if known.is_empty() || row.len() == n_targets {
            return likelihood.validate(row, n_outputs);
        }
        if !self.takes_width(row.len(), n_outputs) {
            let (expected, found) = (n_targets + known.len(), row.len());
            return Err(TargetError::Width { likelihood: likelihood.name(), outputs: n_outputs, expected, found });
        }
        for (position, (known, &value)) in (n_targets..).zip(known.iter().zip(&row[n_targets..])) {
            if !known.allows(value) {
                return Err(TargetError::Value {
                    likelihood: likelihood.name(),
                    position,
                    value,
                    allowed: known.allowed(),
                });
            }
        }
        let row = self.of_row(row, n_outputs);
        row.unweighted.validate(row.target, n_outputs)
    }
}

/// The likelihoods of rows that differ in what is known of them.
#[derive(Debug, Clone)]
pub(crate) struct PerRow {
    base: Arc<dyn Likelihood>,
    rows: Arc<[Arc<dyn Likelihood>]>,
}

/// The likelihoods of some of the rows; the likelihood itself where all rows have the same.
pub(crate) fn at_rows(likelihood: &Arc<dyn Likelihood>, rows: &[usize]) -> Arc<dyn Likelihood> {
    let any: &dyn std::any::Any = &**likelihood;
    match any.downcast_ref::<PerRow>() {
        Some(all) => {
            let chosen = rows.iter().map(|row| all.rows[*row].clone()).collect();
            Arc::new(PerRow { base: all.base.clone(), rows: chosen })
        }
        None => likelihood.clone(),
    }
}

/// A likelihood to a power of its own at each row.
pub(crate) fn to_powers(likelihood: &Arc<dyn Likelihood>, powers: impl Iterator<Item = f64>) -> Arc<dyn Likelihood> {
    let scaled = |power: f64| Arc::new(Scaled::new(likelihood.clone(), power)) as Arc<dyn Likelihood>;
    Arc::new(PerRow { base: likelihood.clone(), rows: powers.map(scaled).collect() })
}

/// A likelihood to a power: that of each row, where they differ.
pub(crate) fn to_the_power(likelihood: &Arc<dyn Likelihood>, power: f64) -> Arc<dyn Likelihood> {
    let any: &dyn std::any::Any = &**likelihood;
    let scaled =
        |likelihood: &Arc<dyn Likelihood>| Arc::new(Scaled::new(likelihood.clone(), power)) as Arc<dyn Likelihood>;
    match any.downcast_ref::<PerRow>() {
        Some(all) => Arc::new(PerRow { base: scaled(&all.base), rows: all.rows.iter().map(scaled).collect() }),
        None => scaled(likelihood),
    }
}

/// Everything that is not asked of a row is that of the family.
impl Likelihood for PerRow {
    fn at_point(&self, n: usize) -> Option<&dyn Likelihood> {
        self.rows.get(n).map(|likelihood| &**likelihood)
    }

    fn name(&self) -> &'static str {
        self.base.name()
    }

    fn kind(&self) -> TargetKind {
        self.base.kind()
    }

    fn n_targets(&self, n_outputs: usize) -> usize {
        self.base.n_targets(n_outputs)
    }

    fn n_means(&self, n_outputs: usize) -> usize {
        self.base.n_means(n_outputs)
    }

    fn check_outputs(&self, n_outputs: usize) -> std::result::Result<(), TargetError> {
        self.base.check_outputs(n_outputs)
    }

    fn validate(&self, target: &[f64], n_outputs: usize) -> std::result::Result<(), TargetError> {
        self.base.validate(target, n_outputs)
    }

    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64 {
        self.base.log_density(target, outputs)
    }

    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]) {
        self.base.gradient(target, outputs, gradient);
    }

    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]) {
        self.base.fisher(outputs, fisher);
    }

    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]) {
        self.base.whitening(outputs, whitening);
    }

    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]) {
        self.base.whitened_force(outputs, first, second, force);
    }

    /// Whether there are such coordinates; those of a row are asked of it.
    fn isometry(&self, outputs: &[f64], slopes: &mut [f64], bends: &mut [f64]) -> bool {
        self.base.isometry(outputs, slopes, bends)
    }

    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64 {
        self.base.fisher_quadratic(outputs, first)
    }

    fn has_constant_fisher(&self) -> bool {
        self.base.has_constant_fisher()
    }

    fn mean(&self, outputs: &[f64], mean: &mut [f64]) {
        self.base.mean(outputs, mean);
    }

    fn variance(&self, outputs: &[f64], variance: &mut [f64]) {
        self.base.variance(outputs, variance);
    }

    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]) {
        self.base.draw(outputs, generator, target);
    }
}

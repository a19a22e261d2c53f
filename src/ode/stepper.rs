//! One trial step of an embedded explicit Runge–Kutta pair.
//!
//! From the state `y` and its derivative k₀ the stepper computes the stages kᵢ = f(t + cᵢ h, y + h Σⱼ aᵢⱼ kⱼ), the
//! trial state y′ = y + h Σᵢ bᵢ kᵢ and its derivative kₛ = f(t + h, y′). When the step is accepted kₛ becomes k₀
//! without a copy or an evaluation (first same as last); when it is rejected k₀ is still there.
//!
//! All vectors are stored as blocks of [`LANES`] numbers, the last one padded with zeros, so that a sum over stages
//! runs over arrays of fixed size that stay in registers: it reads each number once and writes each once, with one
//! check of an index per block. The right-hand side sees slices of the true length.
//!
//! Source: Hairer, Nørsett & Wanner 1993, sections II.1 and II.4.

use super::control::Probe;
use super::tableau::{Stage, Tableau};
use crate::elementary::vectorized;
use crate::linalg::{share, threads_are_free};

/// Numbers in one block of a [`Row`].
pub(crate) const LANES: usize = 8;

/// A block of consecutive numbers of a vector.
pub(crate) type Block = [f64; LANES];

/// A vector as blocks; the last one is padded with zeros.
pub(crate) type Row = Vec<Block>;

/// The stages, the state and the trial state of one system.
#[derive(Clone, Debug)]
pub(crate) struct Stepper {
    tableau: &'static Tableau,
    dim: usize,
    /// The derivatives k₀ … kₛ, and any further stages of the dense output.
    stages: Vec<Row>,
    /// The current state `y`.
    state: Row,
    /// The state y′ at the end of the trial step.
    trial: Row,
    /// The state at which a stage is evaluated.
    point: Row,
}

impl Stepper {
    /// Storage for steps of a system with `dim` unknowns.
    pub(crate) fn new(tableau: &'static Tableau, dim: usize) -> Self {
        let row = vec![[0.0; LANES]; dim.div_ceil(LANES)];
        Stepper {
            tableau,
            dim,
            stages: vec![row.clone(); tableau.last() + 1],
            state: row.clone(),
            trial: row.clone(),
            point: row,
        }
    }

    /// The coefficients in use.
    pub(crate) fn tableau(&self) -> &'static Tableau {
        self.tableau
    }

    /// Number of unknowns.
    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// The stages k₀ … kₛ, followed by any further ones.
    pub(crate) fn stages(&self) -> &[Row] {
        &self.stages
    }

    /// The current state `y`.
    pub(crate) fn state(&self) -> &[Block] {
        &self.state
    }

    /// The state y′ at the end of the last trial step.
    pub(crate) fn trial(&self) -> &[Block] {
        &self.trial
    }

    /// The derivative k₀ at the current state.
    pub(crate) fn derivative(&self) -> &[Block] {
        &self.stages[0]
    }

    /// The numbers of a row without its padding.
    pub(crate) fn numbers<'a>(&self, row: &'a [Block]) -> &'a [f64] {
        &row.as_flattened()[..self.dim]
    }

    /// Sets the state to `y`, of length `dim`, and evaluates its derivative.
    pub(crate) fn start<R>(&mut self, rhs: &mut R, t: f64, y: &[f64])
    where
        R: FnMut(f64, &[f64], &mut [f64]),
    {
        self.state.as_flattened_mut()[..self.dim].copy_from_slice(y);
        evaluate(rhs, t, &self.state, &mut self.stages[0], self.dim);
    }

    /// What the rule for the first step needs; it overwrites stage 1.
    pub(crate) fn probe(&mut self) -> Probe<'_> {
        let (first, rest) = self.stages.split_at_mut(1);
        Probe { dim: self.dim, state: &self.state, derivative: &first[0], point: &mut self.point, after: &mut rest[0] }
    }

    /// Tries a step of size `h`: fills k₁ … kₛ and the trial state with [`Tableau::last`] evaluations.
    pub(crate) fn attempt<R>(&mut self, rhs: &mut R, t: f64, h: f64)
    where
        R: FnMut(f64, &[f64], &mut [f64]),
    {
        let tableau = self.tableau;
        self.evaluate_stages(rhs, t, h, 1, tableau.stages);
        combine(tableau.solution, &self.stages, &self.state, h, &mut self.trial);
        let last = &mut self.stages[tableau.last()];
        evaluate(rhs, t + h, &self.trial, last, self.dim);
    }

    /// Evaluates further stages after kₛ, for the dense output, and makes room for them the first time. Call it between
    /// [`Stepper::attempt`] and [`Stepper::accept`].
    pub(crate) fn extend<R>(&mut self, rhs: &mut R, t: f64, h: f64, extra: &'static [Stage])
    where
        R: FnMut(f64, &[f64], &mut [f64]),
    {
        let first = self.tableau.last() + 1;
        if self.stages.len() < first + extra.len() {
            let row = vec![[0.0; LANES]; self.point.len()];
            self.stages.resize(first + extra.len(), row);
        }
        self.evaluate_stages(rhs, t, h, first, extra);
    }

    /// Moves to the trial state.
    pub(crate) fn accept(&mut self) {
        std::mem::swap(&mut self.state, &mut self.trial);
        self.stages.swap(0, self.tableau.last());
    }

    /// Evaluates `list` into the stages numbered from `first` on.
    fn evaluate_stages<R>(&mut self, rhs: &mut R, t: f64, h: f64, first: usize, list: &[Stage])
    where
        R: FnMut(f64, &[f64], &mut [f64]),
    {
        for (index, stage) in (first..).zip(list) {
            combine(stage.weights, &self.stages, &self.state, h, &mut self.point);
            let out = &mut self.stages[index];
            evaluate(rhs, t + stage.node * h, &self.point, out, self.dim);
        }
    }
}

/// `out = f(t, at)` on the true numbers of the rows.
pub(crate) fn evaluate<R>(rhs: &mut R, t: f64, at: &[Block], out: &mut [Block], dim: usize)
where
    R: FnMut(f64, &[f64], &mut [f64]),
{
    rhs(t, &at.as_flattened()[..dim], &mut out.as_flattened_mut()[..dim]);
}

/// Blocks that one thread works on at a time: long vectors are divided, whatever the number of threads, so that sums
/// over them have the same bits.
const PART: usize = 4096;

/// Where to divide this many blocks in two; `None` if they are few.
pub(crate) fn middle(blocks: usize) -> Option<usize> {
    (blocks > PART).then(|| (blocks / 2).next_multiple_of(PART))
}

/// Both results, computed at the same time if threads may be shared.
pub(crate) fn either_way<A: Send, B: Send>(
    shared: bool,
    left: impl FnOnce() -> A + Send,
    right: impl FnOnce() -> B + Send,
) -> (A, B) {
    if shared { share(|| rayon::join(left, right)) } else { (left(), right()) }
}

/// out = y + h Σᵢ wᵢ kᵢ.
pub(crate) fn combine(weights: &[(usize, f64)], stages: &[Row], y: &[Block], h: f64, out: &mut [Block]) {
    combine_from(0, weights, stages, y, h, out, threads_are_free());
}

/// [`combine`] for the blocks from `first` on, which `out` and `y` hold.
fn combine_from(
    first: usize,
    weights: &[(usize, f64)],
    stages: &[Row],
    y: &[Block],
    h: f64,
    out: &mut [Block],
    shared: bool,
) {
    if let Some(middle) = middle(out.len()) {
        let ((y_left, y_right), (left, right)) = (y.split_at(middle), out.split_at_mut(middle));
        either_way(
            shared,
            || combine_from(first, weights, stages, y_left, h, left, shared),
            || combine_from(first + middle, weights, stages, y_right, h, right, shared),
        );
        return;
    }
    vectorized(
        #[inline(always)]
        || {
            for (index, (out, y)) in (first..).zip(out.iter_mut().zip(y)) {
                let mut sum = weighted(weights, stages, index);
                for (sum, y) in sum.iter_mut().zip(y) {
                    *sum = y + h * *sum;
                }
                *out = sum;
            }
        },
    );
}

/// Block `index` of Σᵢ wᵢ kᵢ.
#[inline(always)]
pub(crate) fn weighted(weights: &[(usize, f64)], stages: &[Row], index: usize) -> Block {
    let mut sum = [0.0; LANES];
    for &(stage, weight) in weights {
        for (sum, k) in sum.iter_mut().zip(&stages[stage][index]) {
            *sum += weight * k;
        }
    }
    sum
}

//! The acceleration by conjugate gradients, in weight space or in function space.
//!
//! With K = J̃A^(−½) the two systems are (I + KᵀK)y = Kᵀz, a = A^(−½)y, and (I + KKᵀ)x = z, a = A^(−½)Kᵀx: the same
//! eigenvalues, D or M unknowns, and products of O(N·D) for a network. Three things make them cheap along a path:
//!
//! - A solve starts from the solution at the same time, else from the polynomial through the last three solutions.
//! - It ends when the error δa of the acceleration is one that the integrator cannot tell from zero: ‖δa‖_G at most 10/3
//!   of its relative tolerance, and at most 1e-3, of the speed ‖J̃v‖ of the whitened outputs. (Errors relative to ‖a‖_G
//!   say little: a velocity of the posterior has about one unit of speed in every direction that the data determine,
//!   while the acceleration may be a hundred times as large.)
//! - Where that takes many products, as in ill-conditioned regression, the matrix of the current rows is factored, and
//!   its factor preconditions this solve and those that follow, until one again takes many, or took more than the mean
//!   evaluation since, the price of the factor included. The matrix is formed, factored and kept in f32 (where the rows
//!   can do that, and the matrix is positive definite in so few digits; else it is formed in f64, and the factor rounded),
//!   in half the time: a preconditioner, and nothing else; the system, its solution and the residual are f64.
//! - Until it is renewed, what the latest products have told of the system corrects the factor (`memory`).
//!
//! All of this counts products and multiply-adds, never time: the same path has the same bits everywhere.
//!
//! ‖δa‖_G is also the residual J̃ᵀz − Ga in the norm of G⁻¹: it measures errors in all directions, while the drift of vᵀGv
//! sees only vᵀδa. In weight space it is the error that conjugate gradients minimise. With a factor P ≈ G, corrected by what
//! products have told, it is about √(rᵀP⁻¹r), and the largest such number of the latest iterates is taken for it; without
//! one, each step says by how much it diminished the error, and the sum over the last few steps estimates what there was
//! before them (Strakoš and Tichý 2002). In function space the error is at most ‖r‖.

mod history;
mod memory;
mod system;

use std::sync::Arc;

use self::history::{History, REMEMBERED};
use self::memory::{Memory, PAIRS};
use self::system::System;
use super::report::{SolverReport, Tally};
use super::weight_ridge;
use super::{RidgeSolver, TIGHTEST, check_base, check_iteration, rows_at_base};
use crate::error::Result;
use crate::laplace::{function_space, weight_space};
use crate::likelihood::Likelihood;
use crate::linalg::{Cholesky, Convergence, RoundedCholesky, RoundedFactor, StoppingRule, norm};
use crate::map::{Map, PulledBack, Rows, Scratch};
use crate::prior::PriorPrecision;
use crate::random::{Purpose, fill_standard_normal, stream};

/// The space whose vectors conjugate gradients work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// D unknowns.
    Weights,
    /// M = N·P unknowns.
    Functions,
}

impl Space {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Space::Weights => "weights",
            Space::Functions => "functions",
        }
    }
}

/// Settings of conjugate gradients along a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IterativeOptions {
    /// The space; by default (`None`) the one with fewer unknowns.
    pub space: Option<Space>,
    /// The largest relative residual ‖δa‖_G/‖J̃v‖ (default 1e-3). On a path whose integrator has a relative tolerance
    /// below 0.3 of this, 10/3 of that tolerance is used instead.
    pub tolerance: f64,
    /// The most products with the system in one evaluation (default 2000).
    pub max_products: usize,
}

impl Default for IterativeOptions {
    fn default() -> Self {
        Self { space: None, tolerance: 1e-3, max_products: 2000 }
    }
}

/// The residual as a multiple of the integrator's relative tolerance. Chosen on a handful of paths: with 10/3, six
/// of Snelson's took 107 evaluations for 110 with an exact solver, and one of a digits network 37 for 34.
const MULTIPLE_OF_TOLERANCE: f64 = 10.0 / 3.0;
/// A matrix larger than this is never factored.
const LARGEST_FACTOR: usize = 8192;
/// Where there is none, a factor is made once a solve has cost this share of its price, and no fewer products than that.
const PATIENCE: f64 = 0.4;
/// Where there is one, a new one is made at once when a solve has cost this multiple: it is for paths that turn suddenly,
/// since slow ones have their factor renewed before it comes to that.
const PATIENCE_WITH_FACTOR: f64 = 1.5;
/// What a multiply-add of a matrix formed and factored in f32 costs, in those of a blocked product in f64 (21 picoseconds
/// to 51 for 3,051 columns, on one busy machine).
const ROUNDED_PRICE: f64 = 0.4;
const LEAST_PATIENCE: f64 = 8.0;
/// What a multiply-add of products with rows costs, in multiply-adds of a blocked product, as the bench `solvers` measures
/// them (picoseconds, on one busy machine: digits 116 to 53, regression 96 to 45).
const PRODUCT_PRICE: f64 = 2.0;
/// The same for a number of the square that a solve reads half of (0.76 ms for 3,051 columns, and a quarter of a
/// millisecond for the corrections by remembered products, where a multiply-add of a blocked product takes 51 picoseconds).
const READING_PRICE: f64 = 2.0;

/// What a solve with the factor of a matrix of this size costs.
fn solve_work(size: usize) -> f64 {
    READING_PRICE * (size * size) as f64
}

/// The time at which a geodesic ends.
const END: f64 = 1.0;

/// Factors that fail after this many solves are short-lived; after this many of them in a row every evaluation has its own.
const SHORT_LIVED: (usize, usize) = (2, 4);

impl IterativeOptions {
    /// Checks that every setting is in its range.
    pub fn validate(&self) -> Result<()> {
        check_iteration(self.tolerance, self.max_products)
    }

    /// The residual on a path with this relative tolerance.
    pub(super) fn residual(&self, rtol: f64) -> f64 {
        self.tolerance.min((MULTIPLE_OF_TOLERANCE * rtol).max(TIGHTEST))
    }
}

impl Space {
    /// The space with fewer unknowns.
    pub fn smaller(map: &dyn Map) -> Self {
        if map.n_params() <= map.n_points() * map.n_outputs() { Space::Weights } else { Space::Functions }
    }

    /// The number of unknowns.
    fn size(self, map: &dyn Map) -> usize {
        match self {
            Space::Weights => map.n_params(),
            Space::Functions => map.n_points() * map.n_outputs(),
        }
    }
}

/// Prices in products with the system that are followed by a solve with a factor.
#[derive(Debug, Clone, Copy)]
struct Prices {
    /// Of a factor.
    factor: f64,
    /// Of the part of it that remains where the factor of a matrix is known: rounding and inverting that.
    known: f64,
    /// Of a product alone.
    product: f64,
}

/// What all solvers of a metric share: settings, prices, the factor at the base point, and a tally.
#[derive(Debug)]
pub struct Iterative {
    space: Space,
    options: IterativeOptions,
    /// What a factor costs; none where the matrix is too large.
    prices: Option<Prices>,
    /// Whether a factor is made in f32.
    rounds: bool,
    /// The factor at the base point, if solves without one take many products there.
    base: Option<Arc<RoundedFactor>>,
    tally: Tally,
}

impl Iterative {
    /// Looks at the system at `base`, where the geodesics start: is it worth a factor? If a factor of a matrix near it is
    /// known, that is taken, unless it serves badly.
    pub fn new(
        map: &Arc<dyn Map>,
        likelihood: &dyn Likelihood,
        prior: &PriorPrecision,
        base: &[f64],
        near: Option<&Cholesky>,
        options: IterativeOptions,
    ) -> Result<Self> {
        options.validate()?;
        check_base(map, prior, base)?;
        let space = options.space.unwrap_or(Space::smaller(&**map));
        let rounds = space == Space::Weights && prior.matrix().is_none() && map.rounds_curvature(map.n_outputs());
        let size = space.size(&**map);
        let inverse_work = ROUNDED_PRICE * (size as f64).powi(3) / 6.0;
        let factor_work = inverse_work
            + match space {
                Space::Weights if rounds => ROUNDED_PRICE * weight_space::work(&**map),
                Space::Weights => weight_space::work(&**map),
                Space::Functions => function_space::work(&**map, prior),
            };
        let product = product_work(&**map);
        let with_factor = product + solve_work(size);
        let [factor, known, product] = [factor_work, inverse_work, product].map(|work| work / with_factor);
        let prices = Prices { factor, known, product };
        let prices = (size <= LARGEST_FACTOR).then_some(prices);
        let mut shared = Self { space, options, prices, rounds, base: None, tally: Tally::default() };
        if shared.prices.is_some() {
            shared.base = shared.factor_at_base(&*rows_at_base(map, likelihood, base)?, prior, near);
        }
        Ok(shared)
    }

    /// The factor for the rows at the base point; none where solves take few products without.
    fn factor_at_base(
        &self,
        rows: &dyn Rows,
        prior: &PriorPrecision,
        near: Option<&Cholesky>,
    ) -> Option<Arc<RoundedFactor>> {
        let (mut system, mut scratch) = (System::new(self.space, rows), Scratch::default());
        let (size, mut force) = (system.solution.len(), vec![0.0; rows.n_rows()]);
        fill_standard_normal(&mut stream(0, Purpose::Preconditioner, 0), &mut force);
        let mut serves = |factor: Option<&RoundedFactor>, max_products: usize, scratch: &mut Scratch| {
            system.set_force(rows, scratch, prior, &force, norm(&force));
            let rule = StoppingRule { tolerance: self.options.residual(1.0), max_products };
            let mut memory = Memory::default();
            system.solve(rows, scratch, prior, factor.map(|factor| (factor, &mut memory)), rule).converged
        };
        let near = near.filter(|factor| self.space == Space::Weights && factor.size() == size);
        let Prices { factor: made, known, product } = self.prices?;
        let price = if near.is_some() { known } else { made };
        if serves(None, patience(PATIENCE * price, product), &mut scratch) {
            return None;
        }
        let mut known = RoundedFactor::new();
        if near.is_some_and(|factor| known.round(factor)) && serves(Some(&known), LEAST_PATIENCE as usize, &mut scratch)
        {
            return Some(Arc::new(known));
        }
        let mut factor = Factor::new(size, self.rounds);
        factor.make(self.space, rows, &mut scratch, prior).then(|| Arc::new(factor.rounded))
    }

    /// Products, with or without a factor, after which a factor for the current rows is made.
    fn patience(&self, with_factor: bool) -> Option<usize> {
        let Prices { factor, product, .. } = self.prices?;
        Some(if with_factor {
            patience(PATIENCE_WITH_FACTOR * factor, 1.0)
        } else {
            patience(PATIENCE * factor, product)
        })
    }

    /// The space of the unknowns.
    pub fn space(&self) -> Space {
        self.space
    }

    /// The number of f64 values of one solver.
    pub(super) fn solver_size(&self, map: &dyn Map) -> f64 {
        let (size, d) = (self.space.size(map) as f64, map.n_params() as f64);
        let factor = if self.prices.is_some() { 2.0 * size * size + map.curvature_size(map.n_outputs()) } else { 0.0 };
        let pairs = if self.prices.is_some() { 2 * PAIRS } else { 0 };
        (7 + REMEMBERED + pairs) as f64 * size + d + (map.n_points() * map.n_outputs()) as f64 + factor
    }

    /// All solves so far.
    pub fn report(&self) -> SolverReport {
        self.tally.report(0)
    }
}

/// The products of this price that are waited for until a factor is made.
fn patience(worth: f64, product: f64) -> usize {
    (worth.max(LEAST_PATIENCE) / product) as usize
}

/// Multiply-adds of a product with either system, in units of those of a blocked matrix product.
pub(super) fn product_work(map: &dyn Map) -> f64 {
    PRODUCT_PRICE * 2.0 * map.product_work(map.n_outputs())
}

/// One thread's solver and the state of its path.
#[derive(Debug)]
pub(super) struct IterativeRidge {
    shared: Arc<Iterative>,
    system: Option<System>,
    history: History,
    /// The factor of this path, where the one at the base point has become too old.
    factor: Option<Factor>,
    /// What products have told since the factor was made.
    memory: Memory,
    age: Age,
    /// Factors in a row that failed at once.
    short_lived: usize,
    tolerance: f64,
    /// ‖J̃v‖.
    speed: f64,
    /// The time of this evaluation, and of the one before.
    time: Option<f64>,
    before: Option<f64>,
    worst_residual: f64,
    report: SolverReport,
}

/// What a factor has cost since it was made.
#[derive(Debug, Clone, Copy, Default)]
struct Age {
    /// Whether the factor in use is that of this path.
    own: bool,
    solves: usize,
    products: usize,
    last: usize,
}

impl IterativeRidge {
    pub(super) fn new(shared: Arc<Iterative>) -> Self {
        let tolerance = shared.options.tolerance;
        Self {
            shared,
            system: None,
            history: History::default(),
            factor: None,
            memory: Memory::default(),
            age: Age::default(),
            short_lived: 0,
            tolerance,
            speed: 0.0,
            time: None,
            before: None,
            worst_residual: 0.0,
            report: SolverReport::default(),
        }
    }

    fn count(&mut self, report: &SolverReport) {
        self.shared.tally.record(report);
        self.report.merge(report);
    }

    fn has_factor(&self) -> bool {
        self.age.own || self.shared.base.is_some()
    }

    /// Evaluations to the end of the path, this one included, if the steps remain as long as the last.
    fn evaluations_left(&self) -> f64 {
        match (self.time, self.before) {
            (Some(time), Some(before)) if time > before => 1.0 + ((END - time).max(0.0) / (time - before)).ceil(),
            _ => f64::INFINITY,
        }
    }

    /// Whether the factor in use has become dearer than a new one: its last solve took more products than the mean
    /// evaluation since it was made, its price included. That mean is then at its smallest. Where the path ends soon, a new
    /// one would not be used often enough.
    fn is_old(&self) -> bool {
        let Some(Prices { factor: price, .. }) = self.shared.prices else { return false };
        let Age { solves, products, last, .. } = self.age;
        if self.short_lived >= SHORT_LIVED.1 {
            return true;
        }
        let last = last as f64;
        let dear = self.has_factor() && solves > 0 && last * solves as f64 > price + products as f64;
        dear && last * self.evaluations_left() > price
    }

    /// Continues from the system's present solution, with the factor of this path, that of the base point, or none.
    fn iterate(
        &mut self,
        system: &mut System,
        rows: &mut PulledBack<'_>,
        prior: &PriorPrecision,
        rule: StoppingRule,
    ) -> Convergence {
        let own = self.factor.as_ref().map(|factor| &factor.rounded).filter(|_| self.age.own);
        let (rows, scratch) = rows.parts();
        let factor = own.or(self.shared.base.as_deref()).map(|factor| (factor, &mut self.memory));
        system.solve(rows, scratch, prior, factor, rule)
    }

    /// Factors the matrix of the current rows. If that fails (because of an overflow, say), the old factor is kept.
    fn renew(&mut self, rows: &mut PulledBack<'_>, prior: &PriorPrecision) {
        let (rows, scratch) = rows.parts();
        let size = if self.shared.space == Space::Weights { rows.n_params() } else { rows.n_rows() };
        let factor = self.factor.get_or_insert_with(|| Factor::new(size, self.shared.rounds));
        let own = factor.make(self.shared.space, rows, scratch, prior);
        self.age = Age { own, ..Age::default() };
        self.memory.clear();
        self.count(&SolverReport { factors: 1, ..Default::default() });
    }
}

/// A factor of the current rows, and the room in which it is made.
#[derive(Debug)]
struct Factor {
    size: usize,
    /// For a matrix formed in f32; none once one was not positive definite in so few digits.
    single: Option<RoundedCholesky>,
    /// For a matrix formed in f64.
    exact: Option<Cholesky>,
    rounded: RoundedFactor,
}

impl Factor {
    fn new(size: usize, rounds: bool) -> Self {
        let single = rounds.then(|| RoundedCholesky::new(size));
        Self { size, single, exact: None, rounded: RoundedFactor::new() }
    }

    /// The factor of A + J̃ᵀJ̃, or of I + J̃A⁻¹J̃ᵀ. False where the matrix is not positive definite.
    fn make(&mut self, space: Space, rows: &dyn Rows, scratch: &mut Scratch, prior: &PriorPrecision) -> bool {
        if let Some(mut single) = self.single.take()
            && weight_ridge::factor_rounded_rows(rows, scratch, prior, &mut single)
            && self.rounded.take(&single)
        {
            self.single = Some(single);
            return true;
        }
        let exact = self.exact.get_or_insert_with(|| Cholesky::new(self.size));
        let made = match space {
            Space::Weights => weight_ridge::factor_rows(rows, scratch, prior, exact),
            Space::Functions => function_space::factor_rows(rows, scratch, &prior.variances(), exact),
        };
        made && self.rounded.round(exact)
    }
}

impl RidgeSolver for IterativeRidge {
    fn solve(
        &mut self,
        rows: &mut PulledBack<'_>,
        prior: &PriorPrecision,
        force: &mut [f64],
        solution: &mut [f64],
    ) -> bool {
        let shared = self.shared.clone();
        let mut system = match self.system.take() {
            Some(system) => system,
            None => System::new(shared.space, rows.parts().0),
        };
        let (inner, scratch) = rows.parts();
        system.set_force(inner, scratch, prior, force, self.speed);
        self.history.predict(self.time, &mut system.solution);
        let rule = StoppingRule { tolerance: self.tolerance, max_products: shared.options.max_products };
        let fresh = self.is_old();
        if fresh {
            self.renew(rows, prior);
        }
        let patience =
            shared.patience(self.has_factor()).filter(|_| !fresh).unwrap_or(rule.max_products).min(rule.max_products);
        let first = self.iterate(&mut system, rows, prior, StoppingRule { max_products: patience, ..rule });
        let (mut end, mut before) = (first, 0);
        if !first.converged && first.products >= patience && patience < rule.max_products {
            let short = self.age.own && self.age.solves <= SHORT_LIVED.0;
            self.short_lived = if short { self.short_lived + 1 } else { 0 };
            self.renew(rows, prior);
            before = first.products;
            let max_products = rule.max_products - before;
            end = self.iterate(&mut system, rows, prior, StoppingRule { max_products, ..rule });
            end.products += before;
        }
        // A force that is not finite means that the path left the finite numbers; it says nothing about the solver.
        if end.products > 0 || end.converged {
            let report = SolverReport::of(end, 0);
            self.worst_residual = self.worst_residual.max(report.worst_residual);
            self.count(&report);
            let after = end.products - before;
            self.age =
                Age { solves: self.age.solves + 1, products: self.age.products + after, last: after, ..self.age };
        }
        let (rows, scratch) = rows.parts();
        system.write_acceleration(rows, scratch, prior, solution);
        if let (Some(time), true) = (self.time, end.converged) {
            self.history.remember(time, &system.solution);
        }
        self.system = Some(system);
        true
    }

    fn begin_path(&mut self, rtol: f64) {
        self.forget();
        self.tolerance = self.shared.options.residual(rtol);
        self.worst_residual = 0.0;
    }

    fn at_time(&mut self, time: f64) {
        if self.time != Some(time) {
            self.before = self.time;
        }
        self.time = Some(time);
    }

    fn speed_mut(&mut self) -> Option<&mut f64> {
        Some(&mut self.speed)
    }

    fn forget(&mut self) {
        self.history.clear();
        self.memory.clear();
        (self.age, self.short_lived) = (Age::default(), 0);
        (self.time, self.before) = (None, None);
    }

    fn path_residual(&self) -> f64 {
        self.worst_residual
    }

    fn report(&self) -> Option<SolverReport> {
        Some(self.report)
    }
}

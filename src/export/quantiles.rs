//! Quantiles of mixtures, by a loop in the graph.

use super::functions::normal_cdf;
use super::writer::{DOUBLE, Name, Writer};
use crate::likelihood::LEVEL_ROUNDING;
use crate::predict::normal_quantile;

/// Σ wᵢ N(mᵢ, sᵢ²), with the components along the first axis.
pub(super) struct NormalMixture {
    /// `[components, rows, targets]`.
    pub(super) means: Name,
    /// Of the same shape, or one that is repeated.
    pub(super) deviations: Name,
    /// `[components, 1, 1]`; equal where there are none.
    pub(super) weights: Option<Name>,
    pub(super) count: usize,
}

/// Poisson distributions of equal weight.
pub(super) struct PoissonMixture {
    /// `[components, rows, targets]`.
    pub(super) log_rates: Name,
    pub(super) count: usize,
}

/// The largest count that is looked at.
const MOST_COUNTS: i64 = 1_000_000;

/// The most halvings: an interval of the widest numbers in single precision down to neighbours.
const MOST_HALVINGS: i64 = 400;

/// Quantiles by bisection: each lies between those of the components. It ends when no number is left in between.
pub(super) fn normal_quantiles(w: &mut Writer, mixture: &NormalMixture, levels: [f64; 2], opset: i64) -> [Name; 2] {
    levels.map(|level| {
        let shifts = w.with("Mul", &mixture.deviations, normal_quantile(level));
        let own = w.add(&mixture.means, &shifts);
        let high = w.largest_over_first(&own, opset);
        let negative = w.unary("Neg", &own);
        let low = w.largest_over_first(&negative, opset);
        let low = w.unary("Neg", &low);
        let real = w.real();
        let ends = w.repeat(MOST_HALVINGS, &[(low, real), (high, real)], |w, _, ends| {
            let (low, high) = (ends[0].clone(), ends[1].clone());
            let sum = w.add(&low, &high);
            let middle = w.with("Mul", &sum, 0.5);
            let distance = w.subtract(&middle, &mixture.means);
            let z = w.divide(&distance, &mixture.deviations);
            let below = normal_cdf(w, &z);
            let share = match &mixture.weights {
                None => w.mean(&below, 0, mixture.count),
                Some(weights) => {
                    let weighted = w.multiply(&below, weights);
                    w.sum(&weighted, 0, false)
                }
            };
            let short = w.with("Less", &share, level);
            let next = vec![w.choose(&short, &middle, &low), w.choose(&short, &high, &middle)];
            let sum = w.add(&next[0], &next[1]);
            let after = w.with("Mul", &sum, 0.5);
            let (above, below) = (w.binary("Greater", &after, &next[0]), w.binary("Less", &after, &next[1]));
            let apart = w.binary("And", &above, &below);
            let apart = w.cast(&apart, real);
            let any = w.sum_of_all(&apart);
            (w.with("Greater", &any, 0.0), next)
        });
        ends[1].clone()
    })
}

/// The smallest counts at which the distribution function reaches the levels: its terms e^{k log r − r − log k!} are added up
/// in double precision until all have reached theirs.
pub(super) fn poisson_quantiles(w: &mut Writer, mixture: &PoissonMixture, levels: [f64; 2]) -> [Name; 2] {
    let (real, double) = (w.real(), DOUBLE);
    let log_rates = w.cast(&mixture.log_rates, double);
    let rates = w.unary("Exp", &log_rates);
    let zero = w.doubles(&[], &[0.0]);
    let minus = w.doubles(&[], &[-1.0]);
    let one = w.doubles(&[], &[1.0]);
    let share = w.doubles(&[], &[1.0 / mixture.count as f64]);
    let levels = levels.map(|level| w.doubles(&[], &[level - LEVEL_ROUNDING]));
    let first = w.sum(&rates, 0, false);
    let shape = w.unary("Shape", &first);
    let [start, found] = [&zero, &minus].map(|constant| w.binary("Expand", constant, &shape));
    // The distribution function, log k!, and the quantiles, −1 until they are found.
    let values = [(start, double), (zero.clone(), double), (found.clone(), double), (found, double)];
    let ends = w.repeat(MOST_COUNTS, &values, |w, iteration, values| {
        let count = w.cast(iteration, double);
        let held = w.binary("Max", &count, &one);
        let log = w.unary("Log", &held);
        let log_factorial = w.add(&values[1], &log);
        let power = w.multiply(&log_rates, &count);
        let exponent = w.subtract(&power, &rates);
        let exponent = w.subtract(&exponent, &log_factorial);
        let terms = w.unary("Exp", &exponent);
        let sum = w.sum(&terms, 0, false);
        let mean = w.multiply(&sum, &share);
        let below = w.add(&values[0], &mean);
        let mut next = vec![below.clone(), log_factorial];
        for (level, known) in levels.iter().zip(&values[2..]) {
            let short = w.binary("Less", &below, level);
            let unknown = w.binary("Less", known, &zero);
            let now = w.choose(&short, &minus, &count);
            next.push(w.choose(&unknown, &now, known));
        }
        // As long as any upper quantile is not found.
        let missing = w.binary("Less", &next[3], &zero);
        let missing = w.cast(&missing, double);
        let any = w.sum_of_all(&missing);
        (w.binary("Greater", &any, &zero), next)
    });
    [2, 3].map(|place: usize| {
        let unknown = w.binary("Less", &ends[place], &zero);
        let infinite = w.doubles(&[], &[f64::INFINITY]);
        let value = w.choose(&unknown, &infinite, &ends[place]);
        w.cast(&value, real)
    })
}

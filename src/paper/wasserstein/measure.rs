//! Preparation of the two clouds: scaling, merging, cancelling, ordering.

use super::search::LANES;
use std::cmp::Ordering;

/// The number of neighbouring points that one point of the next coarser level represents.
pub(super) const GROUP: usize = 4;

/// A discrete measure with integer masses on distinct points.
#[derive(Clone, Debug, Default)]
pub(super) struct Measure {
    /// Row-major coordinates.
    pub points: Vec<f64>,
    /// Mass of every point, in units of 1/lcm(n, m).
    pub mass: Vec<i64>,
}

impl Measure {
    /// Number of support points.
    pub fn len(&self) -> usize {
        self.mass.len()
    }

    /// The coarser measure that keeps every fourth point, with the mass of its whole group: in the order of
    /// [`spatial_order`] neighbours share a group, and the total mass is unchanged.
    pub fn coarsen(&self, dim: usize) -> Self {
        Self {
            points: self.points.chunks(dim * GROUP).flat_map(|group| group[..dim].iter().copied()).collect(),
            mass: self.mass.chunks(GROUP).map(|g| g.iter().sum()).collect(),
        }
    }
}

/// Multiplies by 2ᵉ in two steps, so that no intermediate power overflows.
pub(super) fn times_power_of_two(x: f64, e: i32) -> f64 {
    let half = e / 2;
    x * 2f64.powi(half) * 2f64.powi(e - half)
}

/// Prepares the coordinates without changing any distance ratio: both clouds are scaled by one power of two, so that
/// the largest coordinate has a magnitude of about one and squares neither overflow nor, where it matters, underflow;
/// columns that are constant over both clouds are dropped; the others are sorted by decreasing mean absolute deviation,
/// so that partial sums of squares grow as fast as possible. Returns the points, their dimension and the exponent to
/// scale distances back by.
pub(super) fn normalise(a: &[f64], b: &[f64], dim: usize) -> ([Vec<f64>; 2], usize, i32) {
    let largest = a.iter().chain(b).fold(0.0f64, |m, x| m.max(x.abs()));
    let exponent = if largest > 0.0 { largest.log2().floor() as i32 } else { 0 };
    // Adding zero turns -0.0 into 0.0, so that equal points compare equal.
    let scale = |x: f64| times_power_of_two(x, -exponent) + 0.0;
    let column = |k: usize| {
        let pooled = a.iter().skip(k).step_by(dim);
        pooled.chain(b.iter().skip(k).step_by(dim)).map(|&x| scale(x))
    };
    let count = ((a.len() + b.len()) / dim) as f64;
    let mut columns: Vec<(f64, usize)> = (0..dim)
        .filter_map(|k| {
            let first = column(k).next()?;
            if column(k).all(|x| x == first) {
                return None;
            }
            let mean = column(k).map(|x| x / count).sum::<f64>();
            Some((column(k).map(|x| (x - mean).abs() / count).sum(), k))
        })
        .collect();
    columns.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
    if columns.is_empty() {
        columns.push((0.0, 0));
    }
    let pick = |side: &[f64]| side.chunks_exact(dim).flat_map(|p| columns.iter().map(|&(_, k)| scale(p[k]))).collect();
    ([pick(a), pick(b)], columns.len(), exponent)
}

fn compare(x: &[f64], y: &[f64]) -> Ordering {
    x.iter().zip(y).map(|(p, q)| p.total_cmp(q)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

/// Merges equal points, giving each of the original points mass `unit`.
fn merge(points: &[f64], dim: usize, unit: i64) -> Measure {
    let mut rows: Vec<&[f64]> = points.chunks_exact(dim).collect();
    rows.sort_unstable_by(|x, y| compare(x, y));
    let mut out = Measure::default();
    let mut previous: Option<&[f64]> = None;
    for row in rows {
        match (previous, out.mass.last_mut()) {
            (Some(p), Some(mass)) if p == row => *mass += unit,
            _ => {
                out.points.extend_from_slice(row);
                out.mass.push(unit);
            }
        }
        previous = Some(row);
    }
    out
}

/// Removes the mass that the two measures have in common. For a metric cost the optimal value depends only on the
/// difference of the measures, so shared mass need not move.
fn cancel(a: &mut Measure, b: &mut Measure, dim: usize) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let x = &a.points[i * dim..(i + 1) * dim];
        let y = &b.points[j * dim..(j + 1) * dim];
        match compare(x, y) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => {
                let shared = a.mass[i].min(b.mass[j]);
                a.mass[i] -= shared;
                b.mass[j] -= shared;
                i += 1;
                j += 1;
            }
        }
    }
    for side in [a, b] {
        let kept: Vec<usize> = (0..side.len()).filter(|&p| side.mass[p] > 0).collect();
        *side = gather(side, &kept, dim);
    }
}

fn gather(side: &Measure, order: &[usize], dim: usize) -> Measure {
    Measure {
        points: order.iter().flat_map(|&p| side.points[p * dim..(p + 1) * dim].iter().copied()).collect(),
        mass: order.iter().map(|&p| side.mass[p]).collect(),
    }
}

/// Orders points by recursive median cuts along the widest coordinate, so that neighbours in the list are neighbours in
/// space and every run of [`LANES`] points is one cell.
fn spatial_order(points: &[f64], dim: usize, order: &mut [usize]) {
    let mut stack = vec![(0, order.len())];
    while let Some((low, high)) = stack.pop() {
        let len = high - low;
        if len <= GROUP {
            continue;
        }
        let cell = &mut order[low..high];
        let mut widest = (f64::NEG_INFINITY, 0);
        for k in 0..dim {
            let mean = cell.iter().map(|&p| points[p * dim + k]).sum::<f64>() / len as f64;
            let spread: f64 = cell.iter().map(|&p| (points[p * dim + k] - mean).abs()).sum();
            if spread > widest.0 {
                widest = (spread, k);
            }
        }
        let k = widest.1;
        let unit = if len > LANES { LANES } else { GROUP };
        let middle = (len / 2).div_ceil(unit) * unit;
        cell.select_nth_unstable_by(middle.min(len - 1), |&p, &q| {
            points[p * dim + k].total_cmp(&points[q * dim + k]).then(p.cmp(&q))
        });
        stack.push((low, low + middle));
        stack.push((low + middle, high));
    }
}

/// The reduced transport problem: equal points merged, common mass removed, and each side in spatial order.
pub(super) fn reduce(points: &[Vec<f64>; 2], dim: usize, units: [i64; 2]) -> [Measure; 2] {
    let mut a = merge(&points[0], dim, units[0]);
    let mut b = merge(&points[1], dim, units[1]);
    cancel(&mut a, &mut b, dim);
    [a, b].map(|side| {
        let mut order: Vec<usize> = (0..side.len()).collect();
        spatial_order(&side.points, dim, &mut order);
        gather(&side, &order, dim)
    })
}

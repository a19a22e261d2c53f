//! The one-dimensional problem, solved by sorting.

use super::{Wasserstein, relative_gap, sum};

/// The quantile coupling of two sets of numbers of mass `units` per point: the k-th unit of mass on the left goes to
/// the k-th unit on the right. The lower bound is the integral of |F − G| over the distribution functions, the value of
/// the potential with slope sign(G − F).
pub(super) fn solve(points: &[Vec<f64>; 2], units: [i64; 2], total: f64) -> Wasserstein {
    let [mut a, mut b] = points.clone();
    a.sort_unstable_by(f64::total_cmp);
    b.sort_unstable_by(f64::total_cmp);

    let mut pieces = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    let [mut left, mut right] = units;
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let moved = left.min(right);
        pieces.push(moved as f64 * (x - y).abs());
        left -= moved;
        right -= moved;
        if left == 0 {
            i += 1;
            left = units[0];
        }
        if right == 0 {
            j += 1;
            right = units[1];
        }
    }

    let mut steps: Vec<(f64, i64)> = a.iter().map(|&x| (x, units[0])).collect();
    steps.extend(b.iter().map(|&y| (y, -units[1])));
    steps.sort_unstable_by(|p, q| p.0.total_cmp(&q.0).then(p.1.cmp(&q.1)));
    let mut excess = 0i64;
    let areas = steps.windows(2).map(|w| {
        excess += w[0].1;
        excess.unsigned_abs() as f64 * (w[1].0 - w[0].0)
    });

    let dual = sum(areas) / total;
    let arcs = pieces.len();
    let distance = sum(pieces.into_iter()) / total;
    Wasserstein { distance, dual, relative_gap: relative_gap(distance, dual), pivots: 0, arcs, rounds: 0 }
}

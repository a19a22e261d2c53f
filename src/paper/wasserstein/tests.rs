//! Tests against closed forms and exhaustive search, and of invariances.

use super::reference::bells;
use super::search::distance;
use super::*;
use std::sync::Mutex;

fn solve(a: &[f64], b: &[f64], dim: usize) -> Wasserstein {
    let found = wasserstein1(a, b, dim, &TransportOptions::default()).unwrap();
    assert!(found.relative_gap < 1e-12, "{found:?}");
    found
}

fn w1(a: &[f64], b: &[f64], dim: usize) -> f64 {
    solve(a, b, dim).distance
}

fn assert_close(x: f64, y: f64, relative: f64) {
    assert!((x - y).abs() <= relative * x.abs().max(y.abs()), "{x} {y}");
}

/// Smallest mean cost over all matchings of equally many points.
fn exhaustive(a: &[&[f64]], b: &mut [&[f64]], at: usize, cost: f64, best: &mut f64) {
    if at == a.len() {
        *best = best.min(cost / a.len() as f64);
        return;
    }
    for k in at..b.len() {
        b.swap(at, k);
        let step = distance(a[at], b[at]);
        exhaustive(a, b, at + 1, cost + step, best);
        b.swap(at, k);
    }
}

fn brute_force(a: &[f64], b: &[f64], dim: usize) -> f64 {
    let (n, m) = (a.len() / dim, b.len() / dim);
    let lcm = n / gcd(n, m) * m;
    let copies = |points, times| -> Vec<&[f64]> {
        let rows = <[f64]>::chunks_exact(points, dim);
        rows.flat_map(|p| std::iter::repeat_n(p, times)).collect()
    };
    let (a, mut b) = (copies(a, lcm / n), copies(b, lcm / m));
    let mut best = f64::INFINITY;
    exhaustive(&a, &mut b, 0, 0.0, &mut best);
    best
}

#[test]
fn tiny_sets_by_exhaustive_search() {
    let sizes = [(1, 1), (2, 2), (3, 3), (5, 5), (7, 7), (1, 7), (7, 1), (2, 3), (3, 2), (2, 6), (6, 3), (4, 6)];
    let mut seed = 0;
    for (n, m) in sizes {
        if n / gcd(n, m) * m > 7 {
            continue;
        }
        for dim in 1..=4 {
            for grid in [0.0, 2.0] {
                seed += 1;
                let round = |x: &f64| if grid > 0.0 { (x * grid).round() } else { *x };
                let a: Vec<f64> = bells(seed, n * dim).iter().map(round).collect();
                let b: Vec<f64> = bells(seed + 500, m * dim).iter().map(round).collect();
                let expected = brute_force(&a, &b, dim);
                assert!((w1(&a, &b, dim) - expected).abs() < 1e-14 * (1.0 + expected));
            }
        }
    }
}

#[test]
fn one_dimension_by_sorting() {
    let (mut a, mut b) = (bells(1, 800), bells(2, 800));
    let found = w1(&a, &b, 1);
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let expected = a.iter().zip(&b).map(|(x, y)| (x - y).abs()).sum::<f64>() / 800.0;
    assert_close(found, expected, 1e-13);
    // Unequal sizes: {0, 1} against {0, 0, 1}, then thirds against halves.
    assert_close(w1(&[0.0, 1.0], &[0.0, 0.0, 1.0], 1), 1.0 / 6.0, 1e-14);
    assert_close(w1(&[0.0, 3.0, 6.0], &[1.0, 2.0], 1), 13.0 / 6.0, 1e-14);
}

#[test]
fn line_embedded_in_the_plane() {
    // The general method against sorting, with unequal sizes.
    let (a, b) = (bells(3, 611), bells(4, 907));
    let lift = |x: &[f64]| -> Vec<f64> { x.iter().flat_map(|t| [0.6 * t, 0.8 * t]).collect() };
    let found = solve(&lift(&a), &lift(&b), 2);
    assert!(found.pivots > 0);
    assert_close(found.distance, w1(&a, &b, 1), 1e-12);
    // A constant column does not matter, and leaves the simple case.
    let flat = |x: &[f64]| -> Vec<f64> { x.iter().flat_map(|&t| [7.0, t]).collect() };
    let found = solve(&flat(&a), &flat(&b), 2);
    assert_eq!(found.pivots, 0);
    assert_close(found.distance, w1(&a, &b, 1), 1e-14);
}

#[test]
fn translations() {
    for (count, dim, step) in [(300, 3, 0.01), (1500, 2, 3.0), (900, 10, 1e3)] {
        let a = bells(5, count * dim);
        let b: Vec<f64> = a.iter().map(|x| x + step).collect();
        assert_close(w1(&a, &b, dim), step * (dim as f64).sqrt(), 1e-11);
    }
}

#[test]
fn a_single_point_takes_everything() {
    let (a, b) = (bells(6, 3), bells(7, 3 * 700));
    let expected = b.chunks_exact(3).map(|y| distance(&a, y)).sum::<f64>() / 700.0;
    assert_close(w1(&a, &b, 3), expected, 1e-13);
    assert_close(w1(&b, &a, 3), expected, 1e-13);
    assert_eq!(w1(&[1.0, 2.0], &[4.0, 6.0], 2), 5.0);
}

#[test]
fn symmetric_and_equivariant() {
    let (n, m, dim) = (420, 630, 4);
    let (a, b) = (bells(8, n * dim), bells(9, m * dim));
    let base = w1(&a, &b, dim);
    assert_close(base, w1(&b, &a, dim), 1e-12);
    for factor in [1e8, 1e-8, 3.7, -2.0, 1e150, 1e-150, 1e300, 1e-300] {
        let scale = |x: &[f64]| -> Vec<f64> { x.iter().map(|x| x * factor).collect() };
        let found = w1(&scale(&a), &scale(&b), dim);
        assert_close(found / factor.abs(), base, 1e-12);
    }
    let doubled: Vec<f64> = a.iter().chain(&a).copied().collect();
    assert_close(w1(&doubled, &b, dim), base, 1e-12);
    let backwards: Vec<f64> = a.rchunks_exact(dim).flatten().copied().collect();
    assert_close(w1(&backwards, &b, dim), base, 1e-12);
    let reversed = |x: &[f64]| -> Vec<f64> { x.iter().rev().copied().collect() };
    assert_close(w1(&reversed(&a), &reversed(&b), dim), base, 1e-12);
}

#[test]
fn triangle_inequality() {
    let (a, b, c) = (bells(10, 300 * 3), bells(11, 400 * 3), bells(12, 500 * 3));
    let [x, y, z] = [w1(&a, &b, 3), w1(&b, &c, 3), w1(&a, &c, 3)];
    assert!(x > 0.0 && x < y + z && y < x + z && z < x + y);
}

#[test]
fn coinciding_points() {
    let a = bells(13, 900 * 2);
    assert_eq!(w1(&a, &a, 2), 0.0);
    let doubled: Vec<f64> = a.iter().chain(&a).copied().collect();
    assert_eq!(w1(&a, &doubled, 2), 0.0);
    assert_eq!(w1(&[2.5; 60], &[2.5; 90], 3), 0.0);
    assert_eq!(w1(&[0.0; 60], &[-0.0; 90], 3), 0.0);
    // All of one cloud in one place.
    let expected = a.chunks_exact(2).map(|p| distance(p, &[1.0, 1.0])).sum::<f64>() / 900.0;
    assert_close(w1(&[1.0; 40], &a, 2), expected, 1e-13);
    // Common mass stays: one point of 900 moves.
    let mut b = a.clone();
    b[0] += 0.75;
    assert_close(w1(&a, &b, 2), 0.75 / 900.0, 1e-12);
}

#[test]
fn independent_of_threads() {
    let (a, b) = (bells(14, 700 * 3), bells(15, 1100 * 3));
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| solve(&a, &b, 3))
    };
    let first = run(1);
    for threads in [2, 3, 7] {
        let again = run(threads);
        assert_eq!(first, again);
        assert_eq!(first.distance.to_bits(), again.distance.to_bits());
        assert_eq!(first.dual.to_bits(), again.dual.to_bits());
    }
}

#[test]
fn the_pool_is_bounded() {
    // On a line almost all arcs tie, and the pool would grow beyond the bound.
    let a = bells(28, 3000);
    let b: Vec<f64> = bells(29, 3500).iter().map(|x| 1.1 * x).collect();
    let lift = |x: &[f64]| -> Vec<f64> { x.iter().flat_map(|t| [0.6 * t, 0.8 * t]).collect() };
    let most = Mutex::new(0);
    let report = |p: &TransportProgress| {
        let mut most = most.lock().unwrap();
        *most = p.arcs.max(*most);
    };
    let mut options = TransportOptions { progress: Some(&report), ..TransportOptions::default() };
    let run = |options: &TransportOptions| {
        let found = wasserstein1(&lift(&a), &lift(&b), 2, options).unwrap();
        assert_close(found.distance, w1(&a, &b, 1), 1e-12);
        std::mem::take(&mut *most.lock().unwrap())
    };
    let bound = 32 * 6500;
    assert!(run(&options) > bound);
    options.max_arcs = 0;
    assert!(run(&options) <= bound);
}

#[test]
fn options_are_respected() {
    let a: Vec<f64> = bells(16, 1500 * 2).iter().map(|x| 1e-3 * x).collect();
    let b = bells(17, 1500 * 2);
    let seen = Mutex::new(Vec::new());
    let report = |p: &TransportProgress| seen.lock().unwrap().push(*p);
    let options = TransportOptions { progress: Some(&report), ..TransportOptions::default() };
    let tight = wasserstein1(&a, &b, 2, &options).unwrap();
    assert_close(tight.distance, w1(&a, &b, 2), 1e-12);
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert!(seen.len() > tight.rounds && tight.rounds > 1);
    assert_eq!(seen.last().map(|p| p.primal), Some(tight.distance));
    let options = TransportOptions { max_rounds: 1, ..options };
    let error = wasserstein1(&a, &b, 2, &options).unwrap_err();
    assert!(matches!(error, TransportError::NotConverged { relative_gap } if relative_gap > 0.0));
    let options = TransportOptions { max_rounds: 1000, tolerance: 1e-3, ..options };
    let loose = wasserstein1(&a, &b, 2, &options).unwrap();
    assert!(loose.relative_gap <= 1e-3 && loose.dual <= tight.distance);
    assert!(format!("{options:?}").contains("max_arcs"));
}

#[test]
fn bad_input_is_an_error() {
    let solve = |a: &[f64], b: &[f64], dim| wasserstein1(a, b, dim, &TransportOptions::default());
    let (first, second) = (CloudSide::First, CloudSide::Second);
    assert_eq!(solve(&[1.0], &[1.0], 0), Err(TransportError::ZeroDimension));
    assert_eq!(solve(&[], &[1.0], 1), Err(TransportError::Empty { side: first }));
    assert_eq!(solve(&[1.0], &[], 1), Err(TransportError::Empty { side: second }));
    let ragged = TransportError::Ragged { side: second, len: 3, dim: 2 };
    assert_eq!(solve(&[1.0, 2.0], &[1.0, 2.0, 3.0], 2), Err(ragged));
    assert!(ragged.to_string().contains("3 coordinates"));
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let expected = TransportError::NotFinite { side: first, index: 1 };
        assert_eq!(solve(&[1.0, bad], &[1.0, 2.0], 2), Err(expected));
    }
    let huge = f64::MAX;
    assert_eq!(solve(&[-huge], &[huge], 1), Err(TransportError::Overflow));
    let diagonal = solve(&[-huge, -huge], &[huge, huge], 2);
    assert_eq!(diagonal, Err(TransportError::Overflow));
    let tiny = solve(&[0.0, 0.0], &[3e-320, 4e-320], 2).unwrap();
    assert_close(tiny.distance, 5e-320, 1e-3);
}

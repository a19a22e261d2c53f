//! Tests of the parts: search, pool, basis and reduction.

use super::gcd;
use super::measure::{Measure, normalise, reduce};
use super::pool::{Arc, Pool};
use super::reference::{Random, bells};
use super::search::{Cloud, distance, smallest};
use super::start::{Ends, greedy};

#[test]
fn search_finds_the_smallest() {
    for (dim, limit) in [(1, f64::INFINITY), (2, 0.0), (7, f64::INFINITY), (13, 0.3)] {
        let (rows, columns) = (bells(18, 150 * dim), bells(19, 333 * dim));
        let (u, v) = (bells(20, 150), bells(21, 333));
        let (x, y) = (Cloud::new(rows, dim), Cloud::new(columns, dim));
        let found = smallest((&x, &u), (&y, &v), 5, limit);
        for (i, hits) in found.iter().enumerate() {
            let mut all: Vec<(f64, u32)> = (0..333)
                .map(|j| (distance(x.point(i), y.point(j)) - u[i] - v[j], j as u32))
                .filter(|pair| pair.0 < limit)
                .collect();
            all.sort_by(|p, q| p.0.total_cmp(&q.0));
            all.truncate(5);
            let hits: Vec<(f64, u32)> = hits.iter().map(|h| (h.reduced, h.column)).collect();
            assert_eq!(hits, all);
        }
    }
}

#[test]
fn pool_merges_and_drops() {
    let arc = |source, sink, cost| Arc { source, sink, cost };
    let mut pool = Pool::new(3, vec![arc(2, 1, 5.0), arc(0, 4, 1.0), arc(2, 1, 5.0)]);
    assert_eq!(pool.len(), 2);
    let new = vec![arc(1, 0, 2.0), arc(0, 4, 1.0), arc(2, 0, 3.0), arc(2, 7, 4.0)];
    pool.merge(new, |old| old.source != 2);
    let expected = [arc(0, 4, 1.0), arc(1, 0, 2.0), arc(2, 0, 3.0), arc(2, 7, 4.0)];
    assert_eq!(pool.arcs().collect::<Vec<_>>(), expected);
}

#[test]
fn basis_stays_consistent() {
    for (n, m) in [(60, 90), (61, 90), (90, 30)] {
        let points = [bells(22, n * 2), bells(23, m * 2)];
        let g = gcd(n, m);
        let sides = reduce(&points, 2, [(m / g) as i64, (n / g) as i64]);
        let (u, v) = (bells(24, n), bells(25, m));
        let mut arcs = Vec::new();
        for (i, x) in sides[0].points.chunks_exact(2).enumerate() {
            for (j, y) in sides[1].points.chunks_exact(2).enumerate() {
                let (source, sink) = (i as u32, j as u32);
                let cost = distance(x, y);
                arcs.push(Arc { source, sink, cost });
            }
        }
        let few = arcs.iter().step_by(7).copied().collect();
        let ends = Ends { sides: [&sides[0], &sides[1]], potentials: [&u, &v], dim: 2 };
        let mut tree = greedy(&ends, &Pool::new(n, few));
        let mut supply = sides[0].mass.clone();
        supply.extend(sides[1].mass.iter().map(|w| -w));
        supply.push(0);
        tree.assert_consistent(&supply);
        let mut random = Random(26);
        let mut before = tree.objective();
        for _ in 0..3000 {
            let arc = arcs[random.next() as usize % arcs.len()];
            let (tail, head) = (arc.source as usize, n + arc.sink as usize);
            if arc.cost + tree.potential[tail] - tree.potential[head] < -1e-12 {
                assert!(tree.pivot(tail, head, arc.cost));
                tree.assert_consistent(&supply);
                let after = tree.objective();
                assert!(after <= before + 1e-9);
                before = after;
            }
        }
    }
}

#[test]
fn reduction_keeps_mass() {
    let points = [vec![1.0, 1.0, 2.0, 0.0, 1.0, 1.0], vec![1.0, 1.0, 5.0, 5.0]];
    let [a, b] = reduce(&points, 2, [2, 3]);
    assert_eq!((a.mass.clone(), b.mass.clone()), (vec![1, 2], vec![3]));
    assert_eq!(a.points, [1.0, 1.0, 2.0, 0.0]);
    assert_eq!(b.points, [5.0, 5.0]);
    let many = Measure { points: bells(27, 3 * 101), mass: (1..=101).collect() };
    let coarse = many.coarsen(3);
    assert_eq!(coarse.len(), 26);
    assert_eq!(coarse.mass.iter().sum::<i64>(), 101 * 51);
    assert_eq!(coarse.points[3..6], many.points[12..15]);
    let (scaled, dim, exponent) = normalise(&[3.0, 8.0, 5.0], &[3.0, -1.0, 40.0], 3);
    assert_eq!((dim, exponent), (2, 5));
    assert_eq!(scaled, [vec![5.0 / 32.0, 0.25], vec![1.25, -1.0 / 32.0]]);
}

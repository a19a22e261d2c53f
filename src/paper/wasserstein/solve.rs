//! Levels and rounds: the pool grows until all pairs are priced out.

use super::measure::{self, GROUP, Measure};
use super::pool::{Arc, Pool};
use super::search::{Cloud, Hit, distance, smallest};
use super::start::{Ends, greedy};
use super::tree::Tree;
use super::{TransportError, TransportOptions, TransportProgress, Wasserstein};
use super::{relative_gap, sum};

/// Pairs up to which the pool holds the complete graph.
const COMPLETE: usize = 100_000;

/// Arcs per point in the pool at the start of a level.
const AT_START: usize = 12;

/// Arcs per point and round that pricing adds.
const PER_ROUND: usize = 8;

/// Share of points with violated constraints above which pricing looks for the worst arcs of both clouds, rather than
/// of one.
const BOTH_SIDES: f64 = 0.02;

/// Relative gap to which coarse levels are solved.
const COARSE_GAP: f64 = 1e-8;

/// Reduced costs count as negative beyond this share of the largest potential.
const NOISE: f64 = 1e-13;

/// What a level hands to the next finer one.
struct Coarse {
    sources: Cloud,
    u: Vec<f64>,
    arcs: Vec<Arc>,
}

/// One level of the problem.
struct Level<'a> {
    sides: &'a [Measure; 2],
    clouds: [Cloud; 2],
    u: Vec<f64>,
    v: Vec<f64>,
}

fn from_sources(hits: &[Vec<Hit>]) -> impl Iterator<Item = (Arc, f64)> {
    hits.iter().enumerate().flat_map(|(i, hits)| {
        hits.iter().map(move |hit| {
            let (source, sink) = (i as u32, hit.column);
            (Arc { source, sink, cost: hit.cost }, hit.reduced)
        })
    })
}

fn from_sinks(hits: &[Vec<Hit>]) -> impl Iterator<Item = (Arc, f64)> {
    hits.iter().enumerate().flat_map(|(j, hits)| {
        hits.iter().map(move |hit| {
            let (source, sink) = (hit.column, j as u32);
            (Arc { source, sink, cost: hit.cost }, hit.reduced)
        })
    })
}

/// The smallest reduced cost per row.
fn minima(hits: &[Vec<Hit>]) -> Vec<f64> {
    let first = |row: &Vec<Hit>| row.first().map_or(0.0, |hit| hit.reduced);
    hits.iter().map(first).collect()
}

impl<'a> Level<'a> {
    fn new(sides: &'a [Measure; 2], dim: usize) -> Self {
        Self {
            clouds: [0, 1].map(|s| Cloud::new(sides[s].points.clone(), dim)),
            u: vec![0.0; sides[0].len()],
            v: vec![0.0; sides[1].len()],
            sides,
        }
    }

    /// The pairs of smallest reduced cost below `limit`, per source.
    fn by_source(&self, keep: usize, limit: f64) -> Vec<Vec<Hit>> {
        let [a, b] = &self.clouds;
        smallest((a, &self.u), (b, &self.v), keep, limit)
    }

    /// The pairs of smallest reduced cost below `limit`, per sink.
    fn by_sink(&self, keep: usize, limit: f64) -> Vec<Vec<Hit>> {
        let [a, b] = &self.clouds;
        smallest((b, &self.v), (a, &self.u), keep, limit)
    }

    /// All arcs of the complete graph.
    fn complete(&self) -> Vec<Arc> {
        let [a, b] = &self.clouds;
        let pairs = (0..a.len()).flat_map(|i| (0..b.len()).map(move |j| (i, j)));
        pairs.map(|(i, j)| Arc { source: i as u32, sink: j as u32, cost: distance(a.point(i), b.point(j)) }).collect()
    }

    /// Feasible potentials and the arcs they make cheap, with the help of the coarser level: vⱼ = minᵢ (cᵢⱼ − uᵢ) over
    /// the sources of that level, then uᵢ = minⱼ (cᵢⱼ − vⱼ) over all sinks.
    fn extend(&mut self, coarse: Option<Coarse>) -> Vec<Arc> {
        let infinity = f64::INFINITY;
        let mut arcs = Vec::new();
        match coarse {
            Some(coarse) => {
                let sinks = (&self.clouds[1], &self.v[..]);
                let hits = smallest(sinks, (&coarse.sources, &coarse.u), 1, infinity);
                self.v = minima(&hits);
                arcs = coarse.arcs;
            }
            None => self.v = minima(&self.by_sink(1, infinity)),
        }
        let hits = self.by_source(AT_START, infinity);
        self.u = minima(&hits);
        arcs.extend(from_sources(&hits).map(|(arc, _)| arc));
        let hits = self.by_sink(AT_START, infinity);
        arcs.extend(from_sinks(&hits).map(|(arc, _)| arc));
        arcs
    }

    /// Takes over the potentials of the basis.
    fn read_potentials(&mut self, tree: &Tree) {
        let sources = self.u.len();
        for (u, p) in self.u.iter_mut().zip(&tree.potential) {
            *u = -p;
        }
        self.v.copy_from_slice(&tree.potential[sources..tree.len() - 1]);
    }

    /// Arcs with reduced costs below `-noise`, the worst per point, and the value of the potentials once each vⱼ is
    /// lowered to meet all of its constraints.
    fn price(&self, noise: f64) -> (Vec<Arc>, f64) {
        let hits = self.by_sink(PER_ROUND, 0.0);
        let excess = minima(&hits);
        let [a, b] = self.sides;
        let at_sources = self.u.iter().zip(&a.mass).map(|(u, &w)| w as f64 * u);
        let lowered = self.v.iter().zip(&excess).map(|(v, e)| v + e);
        let at_sinks = lowered.zip(&b.mass).map(|(v, &w)| w as f64 * v);
        let dual = sum(at_sources.chain(at_sinks));

        let bad = |&(_, reduced): &(Arc, f64)| reduced < -noise;
        let mut arcs: Vec<Arc> = from_sinks(&hits).filter(bad).map(|(arc, _)| arc).collect();
        let violated = excess.iter().filter(|&&e| e < -noise).count();
        if violated as f64 > BOTH_SIDES * excess.len() as f64 {
            let hits = self.by_source(PER_ROUND, -noise);
            arcs.extend(from_sources(&hits).map(|(arc, _)| arc));
        }
        (arcs, dual)
    }

    /// Puts new arcs into the pool. If it would grow beyond `most` arcs, only the half of its arcs with the smallest
    /// reduced costs is kept.
    fn enlarge(&self, pool: &mut Pool, new: Vec<Arc>, most: usize) {
        if pool.len() + new.len() <= most {
            pool.merge(new, |_| true);
            return;
        }
        let mut reduced: Vec<f64> = pool.arcs().map(|x| x.reduced(&self.u, &self.v)).collect();
        let half = (most / 2).min(reduced.len().saturating_sub(1));
        let cut = match reduced.get(half) {
            Some(_) => *reduced.select_nth_unstable_by(half, f64::total_cmp).1,
            None => f64::INFINITY,
        };
        drop(reduced);
        pool.merge(new, |arc| arc.reduced(&self.u, &self.v) < cut);
    }
}

/// Solves the reduced problem. Only the costs reported to the progress function are multiplied by 2^exponent.
pub(super) fn solve(
    pair: [Measure; 2],
    dim: usize,
    total: f64,
    exponent: i32,
    options: &TransportOptions,
) -> Result<Wasserstein, TransportError> {
    let mut found = Wasserstein { distance: 0.0, dual: 0.0, relative_gap: 0.0, pivots: 0, arcs: 0, rounds: 0 };
    let mut levels = vec![pair];
    while let Some([a, b]) = levels.last() {
        if a.len().saturating_mul(b.len()) <= COMPLETE {
            break;
        }
        levels.push([a.coarsen(dim), b.coarsen(dim)]);
    }
    let mut coarse = None;
    for (above, sides) in levels.iter().enumerate().rev() {
        let (sources, sinks) = (sides[0].len(), sides[1].len());
        if sources == 0 {
            // All mass was shared.
            return Ok(found);
        }
        let mut level = Level::new(sides, dim);
        let arcs =
            if sources.saturating_mul(sinks) <= COMPLETE { level.complete() } else { level.extend(coarse.take()) };
        let mut pool = Pool::new(sources, arcs);
        let ends = Ends { sides: [&sides[0], &sides[1]], potentials: [&level.u, &level.v], dim };
        let mut tree = greedy(&ends, &pool);
        let tolerance = if above == 0 { options.tolerance } else { COARSE_GAP.max(options.tolerance) };
        let most = options.max_arcs.max(COMPLETE).max(32 * (sources + sinks));
        found.rounds = 0;
        loop {
            let largest = tree.potential.iter().fold(0.0f64, |m, p| m.max(p.abs()));
            let noise = NOISE * largest;
            found.pivots += pool.optimise(&mut tree, noise);
            found.rounds += 1;
            level.read_potentials(&tree);
            let (new, dual) = level.price(noise);
            found.distance = tree.objective() / total;
            found.dual = dual / total;
            found.relative_gap = relative_gap(found.distance, found.dual);
            found.arcs = pool.len();
            if let Some(report) = options.progress {
                report(&TransportProgress {
                    sources,
                    sinks,
                    round: found.rounds,
                    arcs: found.arcs,
                    pivots: found.pivots,
                    primal: measure::times_power_of_two(found.distance, exponent),
                    dual: measure::times_power_of_two(found.dual, exponent),
                });
            }
            if new.is_empty() || found.relative_gap <= tolerance {
                break;
            }
            if found.rounds >= options.max_rounds {
                if above > 0 {
                    // A coarse level only has to be a good start.
                    break;
                }
                let relative_gap = found.relative_gap;
                return Err(TransportError::NotConverged { relative_gap });
            }
            level.enlarge(&mut pool, new, most);
        }
        if above > 0 {
            let [sources, _] = level.clouds;
            let group = GROUP as u32;
            let finer = |arc: Arc| Arc { source: arc.source * group, sink: arc.sink * group, ..arc };
            coarse = Some(Coarse { sources, u: level.u, arcs: pool.arcs().map(finer).collect() });
        }
    }
    Ok(found)
}

//! The first basis: a greedy flow along arcs of small reduced cost.

use super::measure::Measure;
use super::pool::Pool;
use super::search::distance;
use super::tree::{Link, NONE, Tree};

/// The two ends of a transport problem with potentials.
pub(super) struct Ends<'a> {
    pub sides: [&'a Measure; 2],
    pub potentials: [&'a [f64]; 2],
    pub dim: usize,
}

impl Ends<'_> {
    fn point(&self, node: usize) -> &[f64] {
        let sources = self.sides[0].len();
        let (side, p) = if node < sources { (self.sides[0], node) } else { (self.sides[1], node - sources) };
        &side.points[p * self.dim..(p + 1) * self.dim]
    }

    /// The mean of the sources.
    fn hub(&self) -> Vec<f64> {
        let count = self.sides[0].len() as f64;
        let mut hub = vec![0.0; self.dim];
        for point in self.sides[0].points.chunks_exact(self.dim) {
            for (h, x) in hub.iter_mut().zip(point) {
                *h += x / count;
            }
        }
        hub
    }
}

/// A strongly feasible tree that routes as much as possible over the arcs of the pool, those of smallest reduced cost
/// first, and the rest through the hub.
///
/// Each arc used exhausts one of its ends, so that a component of used arcs has at most one node with mass left, and no
/// cycle. That node is connected to the hub by the flow it has left; a component without one is connected by an arc
/// without flow from one of its sources, towards the root.
pub(super) fn greedy(ends: &Ends, pool: &Pool) -> Tree {
    let sources = ends.sides[0].len();
    let nodes = sources + ends.sides[1].len();
    let [u, v] = ends.potentials;
    let mut order: Vec<_> = pool.arcs().map(|arc| (arc.reduced(u, v), arc)).collect();
    // The pool is sorted, and a stable sort keeps its order among ties.
    order.sort_by(|x, y| x.0.total_cmp(&y.0));

    let masses = ends.sides.iter().flat_map(|side| &side.mass);
    let mut left: Vec<i64> = masses.copied().collect();
    let mut used: Vec<Vec<(usize, Link)>> = vec![Vec::new(); nodes];
    for (_, arc) in order {
        let (i, j) = (arc.source as usize, sources + arc.sink as usize);
        let flow = left[i].min(left[j]);
        if flow > 0 {
            left[i] -= flow;
            left[j] -= flow;
            let cost = arc.cost;
            // From each end: the node at the other end, and the arc to it.
            used[i].push((j, Link { flow, cost, up: false }));
            used[j].push((i, Link { flow, cost, up: true }));
        }
    }

    let hub = ends.hub();
    let mut parent = vec![NONE; nodes + 1];
    let mut link = vec![Link::default(); nodes + 1];
    let unfinished = (0..nodes).filter(|&x| left[x] > 0);
    let mut stack = Vec::new();
    for top in unfinished.chain(0..sources) {
        if parent[top] != NONE {
            continue;
        }
        parent[top] = nodes as u32;
        link[top] = Link { flow: left[top], cost: distance(ends.point(top), &hub), up: top < sources };
        stack.push(top);
        while let Some(x) = stack.pop() {
            for &(y, arc) in &used[x] {
                if parent[y] == NONE {
                    parent[y] = x as u32;
                    link[y] = arc;
                    stack.push(y);
                }
            }
        }
    }
    Tree::new(parent, link)
}

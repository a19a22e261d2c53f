//! The pool of candidate arcs, and the pivots over it.

use super::tree::Tree;

/// An arc from a source to a sink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arc {
    pub source: u32,
    pub sink: u32,
    pub cost: f64,
}

impl Arc {
    fn key(&self) -> (u32, u32) {
        (self.source, self.sink)
    }

    /// Reduced cost c − u − v under potentials of sources and sinks.
    pub fn reduced(&self, u: &[f64], v: &[f64]) -> f64 {
        self.cost - u[self.source as usize] - v[self.sink as usize]
    }
}

/// Arcs sorted by source and sink, without repetition. The basis does not refer to the pool: arcs may come and go.
pub(super) struct Pool {
    start: Vec<usize>,
    sink: Vec<u32>,
    cost: Vec<f64>,
    /// The source to examine next.
    turn: usize,
}

impl Pool {
    /// A pool over some number of sources with the given arcs.
    pub fn new(sources: usize, arcs: Vec<Arc>) -> Self {
        let mut pool = Self { start: vec![0; sources + 1], sink: Vec::new(), cost: Vec::new(), turn: 0 };
        pool.merge(arcs, |_| true);
        pool
    }

    /// Number of arcs.
    pub fn len(&self) -> usize {
        self.sink.len()
    }

    fn arc(&self, source: usize, at: usize) -> Arc {
        Arc { source: source as u32, sink: self.sink[at], cost: self.cost[at] }
    }

    /// All arcs in order.
    pub fn arcs(&self) -> impl Iterator<Item = Arc> {
        self.start.windows(2).enumerate().flat_map(move |(i, run)| (run[0]..run[1]).map(move |at| self.arc(i, at)))
    }

    /// Adds new arcs, and drops old ones that are not to be kept.
    pub fn merge(&mut self, mut new: Vec<Arc>, keep: impl Fn(&Arc) -> bool) {
        new.sort_unstable_by_key(Arc::key);
        new.dedup_by_key(|arc| arc.key());
        let sources = self.start.len() - 1;
        let room = self.len() + new.len();
        let mut start = Vec::with_capacity(sources + 1);
        let mut sink = Vec::with_capacity(room);
        let mut cost = Vec::with_capacity(room);
        start.push(0);
        let mut new = new.into_iter().peekable();
        for i in 0..sources {
            for at in self.start[i]..self.start[i + 1] {
                let old = self.arc(i, at);
                while let Some(arc) = new.next_if(|arc| arc.key() < old.key()) {
                    sink.push(arc.sink);
                    cost.push(arc.cost);
                }
                let again = new.next_if(|arc| arc.key() == old.key()).is_some();
                if again || keep(&old) {
                    sink.push(old.sink);
                    cost.push(old.cost);
                }
            }
            while let Some(arc) = new.next_if(|arc| arc.source as usize <= i) {
                sink.push(arc.sink);
                cost.push(arc.cost);
            }
            start.push(sink.len());
        }
        self.start = start;
        self.sink = sink;
        self.cost = cost;
    }

    /// Pivots until no arc has a reduced cost below `-tolerance`, and returns the number of pivots. The entering arc is
    /// the best of a block of whole sources, taken in turn, with about 2√arcs arcs.
    ///
    /// Rounding could in principle make the method cycle; after far more pivots than are ever needed the tolerance
    /// grows.
    pub fn optimise(&mut self, tree: &mut Tree, mut tolerance: f64) -> usize {
        let sources = self.start.len() - 1;
        let block = (2.0 * (self.len() as f64).sqrt()) as usize;
        let mut budget = 200 * tree.len();
        let mut pivots = 0;
        let (mut looked, mut idle) = (0, 0);
        let mut best = -tolerance;
        let mut entering = Arc { source: 0, sink: 0, cost: 0.0 };
        while idle < sources {
            let i = self.turn;
            self.turn = if i + 1 < sources { i + 1 } else { 0 };
            let run = self.start[i]..self.start[i + 1];
            looked += run.len();
            idle += 1;
            let (at_source, at_sinks) = (tree.potential[i], &tree.potential[sources..]);
            for (&sink, &cost) in self.sink[run.clone()].iter().zip(&self.cost[run]) {
                let reduced = cost + at_source - at_sinks[sink as usize];
                if reduced < best {
                    best = reduced;
                    entering = Arc { source: i as u32, sink, cost };
                }
            }
            if best < -tolerance && (looked >= block || idle == sources) {
                let (tail, head) = (entering.source as usize, entering.sink as usize);
                if !tree.pivot(tail, sources + head, entering.cost) {
                    break;
                }
                pivots += 1;
                if pivots >= budget {
                    budget *= 2;
                    tolerance *= 8.0;
                    tree.refresh();
                }
                best = -tolerance;
                (looked, idle) = (0, 0);
            }
        }
        tree.refresh();
        pivots
    }
}

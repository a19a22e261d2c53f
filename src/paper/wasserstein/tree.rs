//! The basis of the network simplex: a spanning tree with flows and potentials.
//!
//! Nodes are the sources, then the sinks, then the hub, which is the root. Every other node carries the arc to its
//! parent. The preorder of the tree is a circular doubly linked list (the *thread*), in which each subtree is a run
//! from a node to its `last` descendant. Together with the subtree sizes this finds the cycle of an entering arc, and
//! moves the subtree that the leaving arc cuts off, in time proportional to the cycle; only the potentials of the
//! smaller of the two parts are changed, since they matter only up to a constant.
//!
//! The tree is kept *strongly feasible*: each arc without flow points towards the root. The rule for ties among leaving
//! arcs preserves this, and with it a sequence of degenerate pivots cannot return to an earlier tree.

/// Parent of the root.
pub(super) const NONE: u32 = u32::MAX;

/// The arc between a node and its parent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    /// Flow along the arc.
    pub flow: i64,
    /// Cost per unit of flow.
    pub cost: f64,
    /// Whether the arc leads to the parent, rather than from it.
    pub up: bool,
}

/// A spanning tree basis.
pub(super) struct Tree {
    parent: Vec<u32>,
    link: Vec<Link>,
    thread: Vec<u32>,
    back: Vec<u32>,
    last: Vec<u32>,
    size: Vec<u32>,
    /// Potentials p with cost + p(tail) − p(head) = 0 on every tree arc.
    pub potential: Vec<f64>,
}

/// The leaving arc of a pivot.
struct Leaving {
    /// The node below the arc.
    node: usize,
    /// Whether it lies between the join and the tail of the entering arc.
    on_tail: bool,
    /// Flow pushed around the cycle.
    delta: i64,
    /// The node where both sides of the cycle meet.
    join: usize,
}

impl Tree {
    /// Builds the tree from the parent of each node and the arc to it. The last node must be the root.
    pub fn new(parent: Vec<u32>, link: Vec<Link>) -> Self {
        let count = parent.len();
        let root = count - 1;
        let mut child = vec![NONE; count];
        let mut sibling = vec![NONE; count];
        for v in 0..root {
            let p = parent[v] as usize;
            sibling[v] = child[p];
            child[p] = v as u32;
        }
        let mut order = Vec::with_capacity(count);
        let mut stack = vec![root as u32];
        while let Some(v) = stack.pop() {
            order.push(v as usize);
            let mut c = child[v as usize];
            while c != NONE {
                stack.push(c);
                c = sibling[c as usize];
            }
        }
        let mut thread = vec![root as u32; count];
        let mut back = vec![root as u32; count];
        for pair in order.windows(2) {
            thread[pair[0]] = pair[1] as u32;
            back[pair[1]] = pair[0] as u32;
        }
        let mut last: Vec<u32> = (0..count as u32).collect();
        let mut size = vec![1; count];
        if let Some(&end) = order.last() {
            back[root] = end as u32;
        }
        // Backwards, the first child met is the one the subtree ends in.
        for &v in order[1..].iter().rev() {
            let p = parent[v] as usize;
            if size[p] == 1 {
                last[p] = last[v];
            }
            size[p] += size[v];
        }
        let mut tree = Self { parent, link, thread, back, last, size, potential: vec![0.0; count] };
        tree.refresh();
        tree
    }

    /// Number of nodes, with the root.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Recomputes all potentials from the tree, free of accumulated rounding.
    pub fn refresh(&mut self) {
        let root = self.len() - 1;
        self.potential[root] = 0.0;
        let mut v = self.thread[root] as usize;
        while v != root {
            let above = self.potential[self.parent[v] as usize];
            let Link { cost, up, .. } = self.link[v];
            self.potential[v] = if up { above - cost } else { above + cost };
            v = self.thread[v] as usize;
        }
    }

    /// The cost of the flow.
    pub fn objective(&self) -> f64 {
        super::sum(self.link.iter().map(|l| l.flow as f64 * l.cost))
    }

    /// Brings the arc from `tail` to `head` into the basis. Returns false if no arc blocks the flow, which cannot
    /// happen with non-negative costs.
    pub fn pivot(&mut self, tail: usize, head: usize, cost: f64) -> bool {
        let Some(leaving) = self.leaving(tail, head) else {
            return false;
        };
        if leaving.delta > 0 {
            self.push(tail, head, &leaving);
        }
        let reduced = cost + self.potential[tail] - self.potential[head];
        let entering = Link { flow: leaving.delta, cost, up: leaving.on_tail };
        let (inner, outer, shift) = if leaving.on_tail { (tail, head, -reduced) } else { (head, tail, reduced) };
        let moved = self.size[leaving.node];
        self.cut(leaving.node, outer, leaving.join);
        let end = self.reroot(inner, outer, leaving.node, entering);
        let next = self.attach(inner, end, outer);
        self.shift(inner, next, moved, shift);
        true
    }

    /// Finds the end of the cycle and the arc that limits the flow around it. Among ties it is the last one on the way
    /// around the cycle, in the direction of the entering arc, from the join.
    fn leaving(&self, tail: usize, head: usize) -> Option<Leaving> {
        let (mut u, mut v) = (tail, head);
        let (mut near_tail, mut near_head) = ((i64::MAX, None), (i64::MAX, None));
        while u != v {
            // The smaller subtree cannot contain the larger one.
            let (below_u, below_v) = (self.size[u], self.size[v]);
            if below_u <= below_v {
                let link = &self.link[u];
                if link.up && link.flow < near_tail.0 {
                    near_tail = (link.flow, Some(u));
                }
                u = self.parent[u] as usize;
            }
            if below_v <= below_u {
                let link = &self.link[v];
                if !link.up && link.flow <= near_head.0 {
                    near_head = (link.flow, Some(v));
                }
                v = self.parent[v] as usize;
            }
        }
        let on_tail = near_tail.0 < near_head.0;
        let (delta, node) = if on_tail { near_tail } else { near_head };
        Some(Leaving { node: node?, on_tail, delta, join: u })
    }

    /// Sends flow around the cycle.
    fn push(&mut self, tail: usize, head: usize, leaving: &Leaving) {
        for (start, sign) in [(tail, -1), (head, 1)] {
            let mut v = start;
            while v != leaving.join {
                let link = &mut self.link[v];
                link.flow += if link.up { sign } else { -sign } * leaving.delta;
                v = self.parent[v] as usize;
            }
        }
    }

    /// Takes the subtree of `node` out of the thread, and moves its size from its current ancestors to those of
    /// `outer`.
    fn cut(&mut self, node: usize, outer: usize, join: usize) {
        let moved = self.size[node];
        let mut v = self.parent[node] as usize;
        while v != join {
            self.size[v] -= moved;
            v = self.parent[v] as usize;
        }
        let mut v = outer;
        while v != join {
            self.size[v] += moved;
            v = self.parent[v] as usize;
        }
        let (before, end) = (self.back[node], self.last[node]);
        let after = self.thread[end as usize];
        self.join_thread(before, after);
        self.replace_last(self.parent[node], end, before);
    }

    fn join_thread(&mut self, first: u32, second: u32) {
        self.thread[first as usize] = second;
        self.back[second as usize] = first;
    }

    /// Replaces the last descendant `old` by `new`, from `node` upwards.
    fn replace_last(&mut self, node: u32, old: u32, new: u32) {
        let mut v = node;
        while v != NONE && self.last[v as usize] == old {
            self.last[v as usize] = new;
            v = self.parent[v as usize];
        }
    }

    /// Hangs the subtree of `top`, already cut off, by its node `inner` below `outer`. Each parent on the way from
    /// `inner` to `top` becomes a child, together with the rest of its subtree: in the thread, the run before the
    /// child's own and the run after it. Returns the end of the new subtree.
    fn reroot(&mut self, inner: usize, outer: usize, top: usize, entering: Link) -> u32 {
        let moved = self.size[top];
        let mut end = self.last[inner];
        let mut rest = self.thread[end as usize];
        let (mut node, mut above, mut link, mut taken) = (inner, outer as u32, entering, 0);
        let (mut node_back, mut node_last) = (self.back[inner], self.last[inner]);
        loop {
            let old_parent = self.parent[node];
            let old_link = std::mem::replace(&mut self.link[node], link);
            let old_size = std::mem::replace(&mut self.size[node], moved - taken);
            self.parent[node] = above;
            if node == top {
                break;
            }
            above = node as u32;
            link = Link { up: !old_link.up, ..old_link };
            taken = old_size;
            node = old_parent as usize;
            let (back, last) = (self.back[node], self.last[node]);
            self.join_thread(end, old_parent);
            end = node_back;
            if last != node_last {
                self.join_thread(end, rest);
                end = last;
                rest = self.thread[end as usize];
            }
            (node_back, node_last) = (back, last);
        }
        let mut v = top;
        while v != outer {
            self.last[v] = end;
            v = self.parent[v] as usize;
        }
        end
    }

    /// Puts the run from `inner` to `end` into the thread after `outer`, and returns what follows it.
    fn attach(&mut self, inner: usize, end: u32, outer: usize) -> usize {
        let next = self.thread[outer];
        self.join_thread(outer as u32, inner as u32);
        self.join_thread(end, next);
        self.replace_last(outer as u32, outer as u32, end);
        next as usize
    }

    /// Adds `shift` to the potentials of the `moved` nodes from `inner` on, or takes it from all others, whichever are
    /// fewer.
    fn shift(&mut self, inner: usize, next: usize, moved: u32, shift: f64) {
        let others = self.len() as u32 - moved;
        let (start, end, count, shift) = if moved <= others {
            (inner, self.back[next] as usize, moved, shift)
        } else {
            (next, self.back[inner] as usize, others, -shift)
        };
        // From both ends at once: the two walks do not wait for each other.
        let (mut v, mut w) = (start, end);
        for _ in 0..count / 2 {
            self.potential[v] += shift;
            v = self.thread[v] as usize;
            self.potential[w] += shift;
            w = self.back[w] as usize;
        }
        if count % 2 == 1 {
            self.potential[v] += shift;
        }
    }
}

#[cfg(test)]
impl Tree {
    /// Checks every invariant of the tree against its parents, with the given net supply of each node.
    pub fn assert_consistent(&self, supply: &[i64]) {
        let root = self.len() - 1;
        let mut size = vec![1; self.len()];
        let mut net = vec![0; self.len()];
        let mut v = self.back[root] as usize;
        while v != root {
            let p = self.parent[v] as usize;
            size[p] += size[v];
            let Link { flow, cost, up } = self.link[v];
            assert!(flow > 0 || (flow == 0 && up), "not strongly feasible");
            let sign = if up { 1 } else { -1 };
            net[v] += sign * flow;
            net[p] -= sign * flow;
            let step = self.potential[p] - self.potential[v];
            assert!((step - sign as f64 * cost).abs() < 1e-9);
            assert_eq!(self.thread[self.back[v] as usize], v as u32);
            v = self.back[v] as usize;
        }
        assert_eq!(size, self.size);
        assert_eq!(net, supply);
        for (v, &count) in size.iter().enumerate() {
            let mut end = v;
            for _ in 1..count {
                end = self.thread[end] as usize;
            }
            assert_eq!(end as u32, self.last[v]);
        }
    }
}

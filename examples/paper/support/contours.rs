//! Contour lines of a density by marching squares, at levels that enclose given shares of its mass.

use std::collections::HashMap;

/// Values of a function at the nodes of a regular grid.
pub struct Grid {
    x: (f64, f64),
    y: (f64, f64),
    columns: usize,
    rows: usize,
    values: Vec<f64>,
}

/// An edge of the grid: its lower left node, and whether it goes up.
type Edge = (usize, usize, bool);

impl Grid {
    pub fn new(x: (f64, f64), y: (f64, f64), columns: usize, rows: usize, f: impl Fn([f64; 2]) -> f64) -> Self {
        let mut grid = Self { x, y, columns, rows, values: Vec::with_capacity(columns * rows) };
        for j in 0..rows {
            for i in 0..columns {
                grid.values.push(f(grid.node(i as f64, j as f64)));
            }
        }
        grid
    }

    fn node(&self, i: f64, j: f64) -> [f64; 2] {
        let along =
            |range: (f64, f64), index: f64, count: usize| range.0 + (range.1 - range.0) * index / (count - 1) as f64;
        [along(self.x, i, self.columns), along(self.y, j, self.rows)]
    }

    fn value(&self, i: usize, j: usize) -> f64 {
        self.values[j * self.columns + i]
    }

    /// The log densities whose contours enclose these shares of all mass, for values that are normalised log densities.
    pub fn levels(&self, shares: &[f64]) -> Vec<f64> {
        let cell = (self.x.1 - self.x.0) * (self.y.1 - self.y.0) / ((self.columns - 1) * (self.rows - 1)) as f64;
        let mut descending = self.values.clone();
        descending.sort_by(|a, b| b.total_cmp(a));
        let level = |share: &f64| {
            let mut mass = 0.0;
            let enclosed = descending.iter().find(|value| {
                mass += value.exp() * cell;
                mass >= *share
            });
            enclosed.copied()
        };
        shares.iter().filter_map(level).collect()
    }

    /// The lines on which the function has this value.
    pub fn contour(&self, level: f64) -> Vec<Vec<(f64, f64)>> {
        let mut neighbours: HashMap<Edge, Vec<Edge>> = HashMap::new();
        for j in 0..self.rows - 1 {
            for i in 0..self.columns - 1 {
                for (from, to) in self.crossings(i, j, level) {
                    neighbours.entry(from).or_default().push(to);
                    neighbours.entry(to).or_default().push(from);
                }
            }
        }
        // Open lines first, from their ends; what is left is closed.
        let mut edges: Vec<Edge> = neighbours.keys().copied().collect();
        edges.sort_by_key(|edge| (neighbours[edge].len(), *edge));
        let mut lines = Vec::new();
        for start in edges {
            let mut line = vec![self.crossing(start, level)];
            let mut at = start;
            while let Some(next) = neighbours.get_mut(&at).and_then(Vec::pop) {
                if let Some(back) = neighbours.get_mut(&next)
                    && let Some(position) = back.iter().position(|edge| *edge == at)
                {
                    back.swap_remove(position);
                }
                line.push(self.crossing(next, level));
                at = next;
            }
            if line.len() > 1 {
                lines.push(line);
            }
        }
        lines
    }

    /// The pieces of the contour within one cell, each from edge to edge.
    fn crossings(&self, i: usize, j: usize, level: f64) -> Vec<(Edge, Edge)> {
        let corners = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)];
        let above = corners.map(|(i, j)| self.value(i, j) > level);
        let edges: [Edge; 4] = [(i, j, false), (i + 1, j, true), (i, j + 1, false), (i, j, true)];
        let crossed: Vec<Edge> = (0..4).filter(|&k| above[k] != above[(k + 1) % 4]).map(|k| edges[k]).collect();
        match crossed[..] {
            [from, to] => vec![(from, to)],
            // A saddle: the corners that agree with the middle are joined.
            [south, east, north, west] => {
                let middle = 0.25 * corners.iter().map(|&(i, j)| self.value(i, j)).sum::<f64>() > level;
                if middle == above[0] { vec![(south, east), (north, west)] } else { vec![(south, west), (north, east)] }
            }
            _ => Vec::new(),
        }
    }

    /// Where the contour crosses an edge, by linear interpolation.
    fn crossing(&self, (i, j, up): Edge, level: f64) -> (f64, f64) {
        let (start, end) = (self.value(i, j), if up { self.value(i, j + 1) } else { self.value(i + 1, j) });
        let part = ((level - start) / (end - start)).clamp(0.0, 1.0);
        let [x, y] = if up { self.node(i as f64, j as f64 + part) } else { self.node(i as f64 + part, j as f64) };
        (x, y)
    }
}

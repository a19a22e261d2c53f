//! Search over all pairs of points for the smallest reduced costs.

use rayon::prelude::*;

/// Points per cell: one cell is stored coordinate by coordinate, so that the distances from a point to all of its
/// members are computed side by side.
pub(super) const LANES: usize = 16;

/// Coordinates summed between two tests of whether a cell can still matter.
const STRIP: usize = 6;

/// Rows of one parallel task. Fixed, so that the result does not depend on the number of threads.
const ROWS: usize = 64;

/// Relative guard of the cell bound against rounding.
const GUARD: f64 = 1e-12;

/// A point cloud laid out for the search.
pub(super) struct Cloud {
    dim: usize,
    points: Vec<f64>,
    cells: Vec<f64>,
    centres: Vec<f64>,
    radii: Vec<f64>,
}

/// One pair found by the search: its column, cost and reduced cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub reduced: f64,
    pub cost: f64,
    pub column: u32,
}

/// Euclidean distance, summed in the order of the coordinates.
pub(super) fn distance(x: &[f64], y: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (p, q) in x.iter().zip(y) {
        sum += (p - q) * (p - q);
    }
    sum.sqrt()
}

/// Stores rows of points in blocks of [`LANES`], coordinate by coordinate.
fn transpose(points: &[f64], dim: usize) -> Vec<f64> {
    let count = points.len() / dim;
    let mut out = vec![0.0; count.div_ceil(LANES) * LANES * dim];
    for (p, point) in points.chunks_exact(dim).enumerate() {
        let base = (p / LANES) * LANES * dim + p % LANES;
        for (k, &x) in point.iter().enumerate() {
            out[base + k * LANES] = x;
        }
    }
    out
}

impl Cloud {
    pub fn new(points: Vec<f64>, dim: usize) -> Self {
        let mut centres = Vec::new();
        let mut radii = Vec::new();
        for cell in points.chunks(dim * LANES) {
            let count = (cell.len() / dim) as f64;
            let centre: Vec<f64> = (0..dim).map(|k| cell.iter().skip(k).step_by(dim).sum::<f64>() / count).collect();
            let radius = cell.chunks_exact(dim).fold(0.0f64, |r, p| r.max(distance(p, &centre)));
            radii.push(radius * (1.0 + GUARD));
            centres.extend(centre);
        }
        Self { dim, cells: transpose(&points, dim), centres: transpose(&centres, dim), radii, points }
    }

    pub fn len(&self) -> usize {
        self.points.len() / self.dim
    }

    pub fn point(&self, p: usize) -> &[f64] {
        &self.points[p * self.dim..(p + 1) * self.dim]
    }
}

/// Squared distances to the members of one block, or nothing as soon as all of them are known to reach their bounds.
#[inline]
fn squares_below(point: &[f64], block: &[f64], bounds: &[f64; LANES]) -> Option<[f64; LANES]> {
    let mut sums = [0.0; LANES];
    for (xs, lanes) in point.chunks(STRIP).zip(block.chunks(STRIP * LANES)) {
        for (&x, lane) in xs.iter().zip(lanes.chunks_exact(LANES)) {
            for (s, &y) in sums.iter_mut().zip(lane) {
                let t = x - y;
                *s += t * t;
            }
        }
        let mut open = false;
        for (s, b) in sums.iter().zip(bounds) {
            open |= s < b;
        }
        if !open {
            return None;
        }
    }
    Some(sums)
}

/// Squares of the positive parts of `base + values`.
#[inline]
fn squared_bounds(base: f64, values: &[f64]) -> [f64; LANES] {
    let mut bounds = [0.0; LANES];
    for (b, &v) in bounds.iter_mut().zip(values) {
        let t = (base + v).max(0.0);
        *b = t * t;
    }
    bounds
}

/// The best pairs of one row, in increasing order of reduced cost.
struct Row<'a> {
    point: &'a [f64],
    potential: f64,
    limit: f64,
    keep: usize,
    hits: Vec<Hit>,
}

impl Row<'_> {
    fn offer(&mut self, column: usize, cost: f64, potential: f64) {
        let reduced = cost - self.potential - potential;
        let column = column as u32;
        if reduced >= self.limit || self.hits.iter().any(|h| h.column == column) {
            return;
        }
        let at = self.hits.partition_point(|h| h.reduced <= reduced);
        self.hits.truncate(self.keep - 1);
        self.hits.insert(at, Hit { reduced, cost, column });
        if self.hits.len() == self.keep {
            self.limit = self.hits[self.keep - 1].reduced;
        }
    }
}

/// The columns of a search, with the potentials laid out as the points are.
struct Columns<'a> {
    cloud: &'a Cloud,
    potentials: Vec<f64>,
    reach: Vec<f64>,
}

impl<'a> Columns<'a> {
    fn new(cloud: &'a Cloud, potentials: &[f64]) -> Self {
        let cells = cloud.radii.len();
        let mut padded = potentials.to_vec();
        padded.resize(cells * LANES, f64::NEG_INFINITY);
        let mut reach: Vec<f64> = padded
            .chunks_exact(LANES)
            .zip(&cloud.radii)
            .map(|(v, r)| v.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x)) + r)
            .collect();
        reach.resize(cells.div_ceil(LANES) * LANES, f64::NEG_INFINITY);
        Self { cloud, potentials: padded, reach }
    }

    /// Offers one block of [`LANES`] cells to a row.
    fn visit(&self, block: usize, row: &mut Row) {
        let stride = LANES * self.cloud.dim;
        let reach = &self.reach[block * LANES..(block + 1) * LANES];
        let mut bounds = squared_bounds(row.limit + row.potential, reach);
        for b in &mut bounds {
            *b *= 1.0 + GUARD;
        }
        let centres = &self.cloud.centres[block * stride..(block + 1) * stride];
        let Some(to_centres) = squares_below(row.point, centres, &bounds) else {
            return;
        };
        for lane in 0..LANES {
            if to_centres[lane] >= bounds[lane] {
                continue;
            }
            let cell = block * LANES + lane;
            let values = &self.potentials[cell * LANES..(cell + 1) * LANES];
            let inner = squared_bounds(row.limit + row.potential, values);
            let members = &self.cloud.cells[cell * stride..(cell + 1) * stride];
            let Some(squares) = squares_below(row.point, members, &inner) else {
                continue;
            };
            for l in 0..LANES {
                if squares[l] < inner[l] {
                    row.offer(cell * LANES + l, squares[l].sqrt(), values[l]);
                }
            }
        }
    }
}

/// For every row x with potential u, the `keep` columns y with potential v of smallest reduced cost |x − y| − u − v,
/// where that is below `limit`.
pub(super) fn smallest(rows: (&Cloud, &[f64]), columns: (&Cloud, &[f64]), keep: usize, limit: f64) -> Vec<Vec<Hit>> {
    let columns = Columns::new(columns.0, columns.1);
    let blocks = columns.reach.len() / LANES;
    let (cloud, potentials) = rows;
    let tasks: Vec<Vec<Vec<Hit>>> = potentials
        .par_chunks(ROWS)
        .enumerate()
        .map(|(task, potentials)| {
            let mut rows: Vec<Row> = potentials
                .iter()
                .enumerate()
                .map(|(r, &potential)| Row {
                    point: cloud.point(task * ROWS + r),
                    potential,
                    limit,
                    keep: keep.max(1),
                    hits: Vec::new(),
                })
                .collect();
            let Some((lead, others)) = rows.split_first_mut() else {
                return Vec::new();
            };
            for block in 0..blocks {
                columns.visit(block, lead);
            }
            // Neighbouring rows: what is good for one bounds the others.
            for row in others.iter_mut() {
                for hit in &lead.hits {
                    let column = hit.column as usize;
                    let cost = distance(row.point, columns.cloud.point(column));
                    row.offer(column, cost, columns.potentials[column]);
                }
            }
            for block in 0..blocks {
                for row in others.iter_mut() {
                    columns.visit(block, row);
                }
            }
            rows.into_iter().map(|row| row.hits).collect()
        })
        .collect();
    tasks.into_iter().flatten().collect()
}

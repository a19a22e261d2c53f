//! Products with the curvature C = J̃ᵀWJ̃ of all data, batch by batch, for several vectors at once; W has the weight 1/s² of
//! each row's noise level.
//!
//! The rows of a batch are made from a forward and a backward sweep. They are kept where all of them together are small
//! enough, and made again for every block of vectors where they are not: the numbers are the same.
//!
//! Where a team shares the data, each rank has the batches of its own blocks of rows and sums over them; the sums of all
//! blocks are then added in their order, C u = ((C₁u + C₂u) + C₃u) + …, and every rank gets the result: the same bits as in
//! one process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use faer::{Accum, Mat, MatRef};
use ndarray::Array2;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::error::{Error, Result, TeamError};
use crate::laplace::problem::Problem;
use crate::linalg::{add_scaled, multiply};
use crate::map::{Map, Rows, Scratch};
use crate::memory::{self, Reservation};
use crate::random::fill_standard_normal;
use crate::team::{Sums, Team};

/// Rows are kept where all of them together have at most this many numbers (half a gigabyte).
const KEPT_NUMBERS: f64 = (1u64 << 26) as f64;

/// Vectors that go through the rows together.
pub(super) const LANES: usize = 16;
/// Numbers in the shares of several batches that are made at the same time (an eighth of a gigabyte).
const WAITING_NUMBERS: usize = 1 << 24;

/// Batches of which the shares of so many lanes are made at the same time.
fn batches_at_once(lanes: usize, size: usize) -> usize {
    (WAITING_NUMBERS / (lanes * size).max(1)).clamp(1, rayon::current_num_threads())
}

/// The number of f64 values in those shares, of vectors of this size.
pub(super) fn share_numbers(size: usize) -> f64 {
    (batches_at_once(LANES, size) * LANES) as f64 * size as f64
}

/// A batch of data points: the model bound to their inputs, and their targets.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) map: Arc<dyn Map>,
    pub(super) targets: Array2<f64>,
}

/// A block of rows.
#[derive(Debug, Clone)]
pub(super) enum Block {
    /// In batches.
    Here(Vec<Part>),
    /// So many points, which another rank has.
    Elsewhere { points: usize },
}

/// The batches of each block of rows, and the products with all of them.
pub(super) struct Products {
    problem: Problem,
    blocks: Vec<Block>,
    team: Team,
    kept: OnceLock<Option<Kept>>,
    count: AtomicU64,
    /// Why ranks could not talk to each other, if so: products are not finite then.
    failure: Mutex<Option<Error>>,
}

/// What comes next in the order of the rows.
enum Next<'a> {
    /// A batch, and whether it is the last of its block.
    Batch { batch: Batch<'a>, is_last: bool },
    /// So many points that another rank has.
    Elsewhere(usize),
}

/// A batch with its rows, or with what they are made from.
#[derive(Clone, Copy)]
enum Batch<'a> {
    Kept(&'a dyn Rows),
    Part(&'a Part),
}

/// The rows of the batches of each block; none of a block that is elsewhere.
struct Kept {
    rows: Vec<Vec<Box<dyn Rows>>>,
    _memory: Reservation,
}

impl std::fmt::Debug for Products {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "products with {} rows of {} numbers", self.n_rows(), self.n_params())
    }
}

/// One vector's sums.
struct Lane<T> {
    /// Where its numbers come from.
    source: T,
    /// The sum over a block's batches, and over the blocks.
    block: Vec<f64>,
    sum: Vec<f64>,
    /// The sums of whole blocks that wait for those of earlier ranks.
    waiting: Vec<Vec<f64>>,
}

impl<T> Lane<T> {
    fn new(source: T, size: usize) -> Self {
        Self { source, block: vec![0.0; size], sum: vec![0.0; size], waiting: Vec::new() }
    }
}

impl Products {
    pub(super) fn new(problem: &Problem, blocks: Vec<Block>, team: Team) -> Self {
        let (kept, count) = (OnceLock::new(), AtomicU64::new(0));
        Self { problem: problem.clone(), blocks, team, kept, count, failure: Mutex::new(None) }
    }

    /// Whether several ranks make each product together.
    pub(super) fn is_shared(&self) -> bool {
        self.team.size() > 1
    }

    /// Says why ranks could not talk to each other, if that was so.
    pub(super) fn check_team(&self) -> Result<()> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// D.
    pub(super) fn n_params(&self) -> usize {
        self.problem.model.n_params()
    }

    /// M.
    pub(super) fn n_rows(&self) -> usize {
        let points = |block: &Block| match block {
            Block::Here(parts) => parts.iter().map(|part| part.map.n_points()).sum::<usize>(),
            Block::Elsewhere { points } => *points,
        };
        Problem { n_data: self.blocks.iter().map(points).sum(), ..self.problem.clone() }.n_rows()
    }

    /// The batches that are here, block by block.
    fn parts(&self) -> impl Iterator<Item = &[Part]> {
        self.blocks.iter().map(|block| match block {
            Block::Here(parts) => parts.as_slice(),
            Block::Elsewhere { .. } => &[],
        })
    }

    /// Points that are here.
    fn points(&self) -> usize {
        self.parts().flatten().map(|part| part.map.n_points()).sum()
    }

    /// Rows of each point.
    fn rows_per_point(&self) -> usize {
        self.problem.n_rows() / self.problem.n_data.max(1)
    }

    /// The number of products with the curvature so far; half a product is one with the rows or their transpose alone.
    pub(super) fn count(&self) -> f64 {
        0.5 * self.count.load(Ordering::Relaxed) as f64
    }

    /// Makes all rows once, and checks that they are finite.
    pub(super) fn check(&self) -> Result<()> {
        if self.kept.get().is_some() {
            return Ok(());
        }
        let memory = self.room();
        let mut rows = Vec::new();
        for block in self.parts() {
            let mut made = block.iter().map(|part| self.problem.rows(&part.map, part.targets.view(), &[1.0]));
            match memory {
                Some(_) => rows.push(made.collect::<Result<Vec<_>>>()?),
                None => made.try_for_each(|rows| rows.map(drop))?,
            }
        }
        self.kept.get_or_init(|| memory.map(|memory| Kept { rows, _memory: memory }));
        Ok(())
    }

    /// Memory for the rows, where they are to be kept.
    fn room(&self) -> Option<Reservation> {
        let numbers = self.points() as f64 * self.problem.model.numbers_per_point(self.rows_per_point());
        (numbers <= KEPT_NUMBERS).then(|| memory::reserve("the rows of the training data", numbers, "").ok()).flatten()
    }

    /// All batches in the order of their rows.
    fn order(&self) -> Vec<Next<'_>> {
        let kept = self.kept.get_or_init(|| {
            let again = |part: &Part| self.rows_again(part);
            let rows = |block: &[Part]| block.iter().map(again).collect();
            self.room().map(|memory| Kept { rows: self.parts().map(rows).collect(), _memory: memory })
        });
        let mut order = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            match block {
                Block::Here(parts) => {
                    let batch = |at: usize| match kept {
                        Some(kept) => Batch::Kept(&*kept.rows[index][at]),
                        None => Batch::Part(&parts[at]),
                    };
                    let next = |at: usize| Next::Batch { batch: batch(at), is_last: at + 1 == parts.len() };
                    order.extend((0..parts.len()).map(next));
                }
                Block::Elsewhere { points } => order.push(Next::Elsewhere(*points)),
            }
        }
        order
    }

    fn rows_again(&self, part: &Part) -> Box<dyn Rows> {
        self.problem.rows_again(&part.map, part.targets.view(), &[1.0])
    }

    /// Shows the rows of a batch.
    fn with_rows<T>(&self, batch: Batch<'_>, show: impl FnOnce(&dyn Rows) -> T) -> T {
        match batch {
            Batch::Kept(rows) => show(rows),
            Batch::Part(part) => show(&*self.rows_again(part)),
        }
    }

    /// The number of rows of a batch.
    fn rows_of(&self, batch: Batch<'_>) -> usize {
        match batch {
            Batch::Kept(rows) => rows.n_rows(),
            Batch::Part(part) => part.map.n_points() * self.rows_per_point(),
        }
    }

    /// Adds the batches' shares J̃ᵀWw to each sum: over each block, then over the blocks. `start` gives w of a batch with so
    /// many rows, or room for it, and `finish` what it lacks, once the rows are there. `pass` is told of points that another
    /// rank has.
    fn add_shares<T: Send + Sync>(
        &self,
        weights: &[f64],
        lanes: &mut [Lane<T>],
        start: impl Fn(&mut T, usize) -> Vec<f64> + Sync,
        finish: impl Fn(&T, &dyn Rows, &mut [f64], &mut Scratch) + Sync,
        pass: impl Fn(&mut T, usize) + Sync,
    ) {
        let (d, is_first, order) = (self.n_params(), self.team.is_first(), self.order());
        let at_once = batches_at_once(lanes.len(), d);
        for several in order.chunks(at_once) {
            // In order: a generator's numbers follow each other.
            let begin = |lane: &mut Lane<T>| -> Vec<Vec<f64>> {
                let begin = |next: &Next<'_>| match next {
                    Next::Batch { batch, .. } => start(&mut lane.source, self.rows_of(*batch)),
                    Next::Elsewhere(points) => {
                        pass(&mut lane.source, *points);
                        Vec::new()
                    }
                };
                several.iter().map(begin).collect()
            };
            let images: Vec<Vec<Vec<f64>>> = lanes.par_iter_mut().map(begin).collect();
            let share = |rows: &dyn Rows, at: usize, lane: usize, scratch: &mut Scratch| {
                let mut image = images[lane][at].clone();
                finish(&lanes[lane].source, rows, &mut image, scratch);
                self.weigh(weights, rows, &mut image);
                let mut share = vec![0.0; d];
                rows.transpose_times(&image, &mut share, scratch);
                share
            };
            let shares = |(at, next): (usize, &Next<'_>)| -> Vec<Vec<f64>> {
                let Next::Batch { batch, .. } = next else { return Vec::new() };
                self.with_rows(*batch, |rows| match (several.len(), lanes.len()) {
                    (1, 2..) => {
                        let own = || Scratch::default();
                        (0..lanes.len())
                            .into_par_iter()
                            .map_init(own, |scratch, lane| share(rows, at, lane, scratch))
                            .collect()
                    }
                    // Batches share the threads; a single vector of a single one leaves them to the products of its layers.
                    _ => {
                        let mut scratch = Scratch::default();
                        (0..lanes.len()).map(|lane| share(rows, at, lane, &mut scratch)).collect()
                    }
                })
            };
            let shares: Vec<Vec<Vec<f64>>> = match several {
                [one] => vec![shares((0, one))],
                several => several.par_iter().enumerate().map(shares).collect(),
            };
            let add = |(index, lane): (usize, &mut Lane<T>)| {
                for (next, shares) in several.iter().zip(&shares) {
                    let Next::Batch { is_last, .. } = next else { continue };
                    add_scaled(1.0, &shares[index], &mut lane.block);
                    match (is_last, is_first) {
                        (false, _) => {}
                        (true, true) => {
                            add_scaled(1.0, &lane.block, &mut lane.sum);
                            lane.block.fill(0.0);
                        }
                        (true, false) => lane.waiting.push(std::mem::replace(&mut lane.block, vec![0.0; d])),
                    }
                }
            };
            lanes.par_iter_mut().enumerate().for_each(add);
        }
        self.team.count_rows(lanes.len() * self.points());
        if self.is_shared() {
            let blocks = lanes.first().map_or(0, |lane| lane.waiting.len());
            let of_block = |block: usize| lanes.iter().flat_map(|lane| &lane.waiting[block]).copied().collect();
            let mine = match is_first {
                true => vec![lanes.iter().flat_map(|lane| &lane.sum).copied().collect()],
                false => (0..blocks).map(of_block).collect(),
            };
            let sum = self.over_ranks(mine, lanes.len() * d);
            for (lane, sum) in lanes.iter_mut().zip(sum.chunks_exact(d.max(1))) {
                lane.sum.copy_from_slice(sum);
            }
        }
    }

    /// The sum of all ranks' parts in their order; not finite where ranks cannot talk to each other.
    fn over_ranks(&self, mine: Vec<Vec<f64>>, length: usize) -> Vec<f64> {
        match self.team.fold(&Sums, mine.into_iter().map(Ok)) {
            Ok(Some(sum)) if sum.len() == length => sum,
            outcome => {
                let error = outcome.err().unwrap_or_else(|| TeamError::Message.into());
                self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                vec![f64::NAN; length]
            }
        }
    }

    /// C u for each u, with one weight 1/s² for all rows or one per output.
    pub(super) fn times(&self, weights: &[f64], directions: &[&[f64]]) -> Vec<Vec<f64>> {
        directions.chunks(LANES).flat_map(|part| self.times_few(weights, part)).collect()
    }

    fn times_few(&self, weights: &[f64], directions: &[&[f64]]) -> Vec<Vec<f64>> {
        let mut lanes: Vec<Lane<&[f64]>> = directions.iter().map(|u| Lane::new(*u, self.n_params())).collect();
        let start = |_: &mut &[f64], rows: usize| vec![0.0; rows];
        let finish =
            |u: &&[f64], rows: &dyn Rows, image: &mut [f64], scratch: &mut Scratch| rows.times(u, image, scratch);
        self.add_shares(weights, &mut lanes, start, finish, |_, _| {});
        self.count.fetch_add(2 * directions.len() as u64, Ordering::Relaxed);
        lanes.into_iter().map(|lane| lane.sum).collect()
    }

    /// J̃ᵀW^½ε for standard normal ε of each generator.
    pub(super) fn noise(&self, weights: &[f64], generators: &mut [ChaCha8Rng]) -> Vec<Vec<f64>> {
        generators.chunks_mut(LANES).flat_map(|part| self.noise_of_few(weights, part)).collect()
    }

    fn noise_of_few(&self, weights: &[f64], generators: &mut [ChaCha8Rng]) -> Vec<Vec<f64>> {
        let roots: Vec<f64> = weights.iter().map(|weight| weight.sqrt()).collect();
        let mut lanes: Vec<Lane<&mut ChaCha8Rng>> =
            generators.iter_mut().map(|source| Lane::new(source, self.n_params())).collect();
        let draw = |generator: &mut &mut ChaCha8Rng, rows: usize| {
            let mut image = vec![0.0; rows];
            fill_standard_normal(generator, &mut image);
            image
        };
        // The numbers of points that another rank has are drawn all the same, so that those that follow are the same.
        let pass = |generator: &mut &mut ChaCha8Rng, points: usize| {
            let mut passed = vec![0.0; self.rows_per_point()];
            (0..points).for_each(|_| fill_standard_normal(generator, &mut passed));
        };
        self.add_shares(&roots, &mut lanes, draw, |_, _, _, _| {}, pass);
        self.count.fetch_add(lanes.len() as u64, Ordering::Relaxed);
        lanes.into_iter().map(|lane| lane.sum).collect()
    }

    /// VᵀC_pV for each noise level p and its share C_p of the curvature.
    pub(super) fn level_grams(&self, weights: &[f64], vectors: &[&[f64]]) -> Vec<Mat<f64>> {
        let k = vectors.len();
        let (mut sum, mut waiting) = (vec![0.0; weights.len() * k * k], Vec::new());
        for next in self.order() {
            let Next::Batch { batch, .. } = next else { continue };
            let grams = self.with_rows(batch, |rows| {
                let image = |u: &&[f64]| {
                    let mut image = vec![0.0; rows.n_rows()];
                    rows.times(u, &mut image, &mut Scratch::default());
                    image
                };
                let images: Vec<Vec<f64>> = vectors.par_iter().map(image).collect();
                let points = rows.n_rows() / weights.len();
                let mut grams = Vec::with_capacity(sum.len());
                for (level, weight) in weights.iter().enumerate() {
                    let part: Vec<f64> =
                        images.iter().flat_map(|image| &image[level * points..(level + 1) * points]).copied().collect();
                    let part = MatRef::from_column_major_slice(&part, points, k);
                    let mut share = Mat::zeros(k, k);
                    multiply(share.as_mut(), Accum::Replace, part.transpose(), part);
                    grams.extend((0..k * k).map(|at| weight * share[(at % k, at / k)]));
                }
                grams
            });
            if self.team.is_first() { add_scaled(1.0, &grams, &mut sum) } else { waiting.push(grams) }
        }
        self.count.fetch_add(k as u64, Ordering::Relaxed);
        if self.is_shared() {
            let length = sum.len();
            sum = self.over_ranks(if self.team.is_first() { vec![sum] } else { waiting }, length);
        }
        let of_level = |gram: &[f64]| Mat::from_fn(k, k, |i, j| gram[j * k + i]);
        sum.chunks_exact((k * k).max(1)).map(of_level).collect()
    }

    /// w ← Ww, for the rows of a batch, which are numbered output by output.
    fn weigh(&self, weights: &[f64], rows: &dyn Rows, image: &mut [f64]) {
        let share = rows.n_rows() / weights.len();
        for (part, weight) in image.chunks_exact_mut(share.max(1)).zip(weights) {
            part.iter_mut().for_each(|value| *value *= weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::data::Dataset;
    use crate::laplace::matrix_free::training_parts;
    use crate::laplace::{FitOptions, Laplace};
    use crate::likelihood::Family;
    use crate::network::{Activation, Architecture, Network};

    #[test]
    fn rows_that_are_made_again_give_the_same_bits_as_kept_ones() -> Result<()> {
        let network = Network::random(Architecture::new(&[2, 5, 2], Activation::Tanh)?, 3);
        let entry = |(i, j): (usize, usize)| (1.0 + (3 * i + 7 * j) as f64).sin();
        let data = Dataset::new(Array2::from_shape_fn((300, 2), entry), Array2::from_shape_fn((300, 2), entry))?;
        let laplace = Laplace::fit(network, data, Family::gaussian(0.5)?, &FitOptions::default())?;
        let parts = training_parts(laplace.problem(), 1)?;
        // Two batches in every block.
        let halves = |block: &Block| match block {
            Block::Here(parts) => Block::Here([parts.clone(), parts.clone()].concat()),
            Block::Elsewhere { points } => Block::Elsewhere { points: *points },
        };
        let blocks: Vec<Block> = parts.blocks.iter().map(halves).collect();
        let kept = Products::new(laplace.problem(), blocks.clone(), Team::alone());
        let again = Products { kept: OnceLock::from(None), ..Products::new(laplace.problem(), blocks, Team::alone()) };
        kept.check()?;
        assert!(kept.kept.get().is_some_and(Option::is_some));
        let vectors: Vec<Vec<f64>> =
            (0..3).map(|k| (0..kept.n_params()).map(|d| entry((d, k))).collect::<Vec<f64>>()).collect();
        let vectors: Vec<&[f64]> = vectors.iter().map(Vec::as_slice).collect();
        let products = kept.times(&[4.0, 0.5], &vectors);
        assert_eq!(products, again.times(&[4.0, 0.5], &vectors));
        assert_eq!(products[1..2], kept.times(&[4.0, 0.5], &vectors[1..2]));
        assert_eq!(kept.count(), 4.0);
        // Batches at the same time, as many as there are threads, are added in their order.
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(std::io::Error::other);
            let several = pool.map(|pool| pool.install(|| again.times(&[4.0, 0.5], &vectors)));
            assert!(several.is_ok_and(|several| several == products), "{threads} threads");
        }
        Ok(())
    }
}

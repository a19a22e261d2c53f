//! Several processes that share one task: what they say to each other, and sums over what they hold.
//!
//! A [`Ranks`] sends and receives messages, nothing more; a single process ([`Alone`]) and MPI (feature `mpi`) are its two
//! implementations. A [`Team`] builds on it what the rest of the crate needs: a sum over parts in their fixed order
//! ([`Team::fold`]), and messages from each rank to all or to the first. No structure of a posterior knows which it runs
//! on.
//!
//! **The order of a sum.** Floating-point sums depend on their order, so the parts p₀, p₁, … of a sum are combined as
//! ((p₀ + p₁) + p₂) + … however many ranks hold them: rank r waits for the sum of all earlier parts, adds its own, and
//! passes the result on; the last rank's result goes around the ring. Each rank sends a message of the sum's size at most
//! twice, and 2(R − 1) are sent in all.

mod message;
#[cfg(feature = "mpi")]
mod mpi;
mod shard;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

pub use crate::error::TeamError;
pub use message::{pack_lists, pack_numbers, pack_tensors, unpack_lists, unpack_numbers, unpack_tensors};
#[cfg(feature = "mpi")]
pub use mpi::Mpi;
pub use shard::Shard;

/// Processes numbered 0 to R − 1, each of which can send bytes to any other.
pub trait Ranks: Send + Sync + std::fmt::Debug {
    /// The number of this process.
    fn rank(&self) -> usize;
    /// R, the number of processes.
    fn size(&self) -> usize;
    /// Sends a message, which may have any length.
    fn send(&self, to: usize, message: &[u8]) -> Result<()>;
    /// Waits for the next message from a rank. Messages of one rank to another arrive in the order they were sent.
    fn receive(&self, from: usize) -> Result<Vec<u8>>;
}

/// A single process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Alone;

impl Ranks for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn send(&self, to: usize, _: &[u8]) -> Result<()> {
        Err(TeamError::NoSuchRank { rank: to, size: 1 }.into())
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        Err(TeamError::NoSuchRank { rank: from, size: 1 }.into())
    }
}

/// How the parts of a sum are combined, and what they are as bytes.
pub trait Parts {
    /// A part, and also the sum of several.
    type Part;
    /// Adds what comes next.
    fn merge(&self, sum: &mut Self::Part, later: Self::Part) -> Result<()>;
    /// A part as a message.
    fn encode(&self, part: &Self::Part) -> Result<Vec<u8>>;
    /// A part from a message. It is the same to the last bit.
    fn decode(&self, message: &[u8]) -> Result<Self::Part>;
}

/// Sums of numbers, entry by entry.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sums;

impl Parts for Sums {
    type Part = Vec<f64>;

    fn merge(&self, sum: &mut Vec<f64>, later: Vec<f64>) -> Result<()> {
        crate::error::check_size("number of sums", sum.len(), later.len())?;
        sum.iter_mut().zip(later).for_each(|(sum, later)| *sum += later);
        Ok(())
    }

    fn encode(&self, part: &Vec<f64>) -> Result<Vec<u8>> {
        Ok(pack_numbers(part))
    }

    fn decode(&self, message: &[u8]) -> Result<Vec<f64>> {
        unpack_numbers(message)
    }
}

/// What this rank has done so far: the counts that `docs/scaling.md` has formulas for.
#[derive(Debug, Default)]
struct Counters {
    bytes: AtomicU64,
    messages: AtomicU64,
    rows: AtomicU64,
}

/// The counts of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Bytes sent to other ranks.
    pub bytes: u64,
    /// Messages sent to other ranks.
    pub messages: u64,
    /// Data points that went into sums here, as often as they did.
    pub rows: u64,
}

/// The processes that share a task. Cheap to clone; the clones count together.
///
/// ```
/// use riemannian_laplace::internals::team::{Sums, Team};
/// let alone = Team::alone();
/// let sum = alone.fold(&Sums, [Ok(vec![1.0, 2.0]), Ok(vec![0.5, 0.5])])?;
/// assert_eq!(sum, Some(vec![1.5, 2.5]));
/// assert_eq!(alone.share(12), 0..12);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Team {
    ranks: Arc<dyn Ranks>,
    counters: Arc<Counters>,
}

impl Default for Team {
    fn default() -> Self {
        Self::alone()
    }
}

impl Team {
    /// Of processes that can talk to each other.
    pub fn new(ranks: Arc<dyn Ranks>) -> Self {
        Self { ranks, counters: Arc::default() }
    }

    /// Of this process alone.
    pub fn alone() -> Self {
        Self::new(Arc::new(Alone))
    }

    /// The number of this process.
    pub fn rank(&self) -> usize {
        self.ranks.rank()
    }

    /// R, the number of processes.
    pub fn size(&self) -> usize {
        self.ranks.size().max(1)
    }

    /// Whether this is the process that writes files and speaks to the user.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Which of `count` things in a row are this rank's: ⌊r·count/R⌋ to ⌊(r+1)·count/R⌋.
    pub fn share(&self, count: usize) -> Range<usize> {
        share(count, self.rank(), self.size())
    }

    /// The same of a range of things.
    pub fn share_of(&self, range: Range<usize>) -> Range<usize> {
        let share = self.share(range.len());
        range.start + share.start..range.start + share.end
    }

    /// What this rank has done so far.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            bytes: read(&self.counters.bytes),
            messages: read(&self.counters.messages),
            rows: read(&self.counters.rows),
        }
    }

    /// Counts data points that went into a sum.
    pub(crate) fn count_rows(&self, rows: usize) {
        self.counters.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// The sum of the parts that all ranks hold, rank 0's first; every rank gets it. Each rank gives its own parts in
    /// order. `None` where there is no part at all.
    ///
    /// The parts of the first rank are added as they come; those of another wait for the sum of all earlier ones.
    pub fn fold<P: Parts>(
        &self,
        parts: &P,
        mine: impl IntoIterator<Item = Result<P::Part>>,
    ) -> Result<Option<P::Part>> {
        let (rank, size) = (self.rank(), self.size());
        let (mut sum, mut waiting) = (None, Vec::new());
        for part in mine {
            if rank == 0 { add(parts, &mut sum, part?)? } else { waiting.push(part?) }
        }
        if size == 1 {
            return Ok(sum);
        }
        let encode = |sum: &Option<P::Part>| sum.as_ref().map_or_else(|| Ok(Vec::new()), |sum| parts.encode(sum));
        let decode = |message: Vec<u8>| Some(message).filter(|m| !m.is_empty()).map(|m| parts.decode(&m)).transpose();
        let (next, last) = ((rank + 1) % size, size - 1);
        if rank > 0 {
            sum = decode(self.receive(rank - 1)?)?;
            waiting.into_iter().try_for_each(|part| add(parts, &mut sum, part))?;
        }
        self.send(next, &encode(&sum)?)?;
        if rank < last {
            let message = self.receive((rank + last) % size)?;
            if next < last {
                self.send(next, &message)?;
            }
            sum = decode(message)?;
        }
        Ok(sum)
    }

    /// The messages of all ranks, in their order; every rank gets them.
    pub fn share_all(&self, mine: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let (rank, size) = (self.rank(), self.size());
        // In the order of arrival: of this rank, the one before it, and so on around the ring.
        let mut all = Vec::with_capacity(size);
        let mut message = mine;
        for _ in 1..size {
            let received = self.exchange((rank + 1) % size, &message, (rank + size - 1) % size)?;
            all.push(std::mem::replace(&mut message, received));
        }
        all.push(message);
        // Backwards, it begins with the rank after this one.
        all.reverse();
        all.rotate_right((rank + 1) % size.max(1));
        Ok(all)
    }

    /// The messages of all ranks, in their order, at the first; the others get `None`.
    pub fn gather(&self, mine: Vec<u8>) -> Result<Option<Vec<Vec<u8>>>> {
        if !self.is_first() {
            self.send(0, &mine)?;
            return Ok(None);
        }
        let mut all = vec![mine];
        (1..self.size()).try_for_each(|rank| self.receive(rank).map(|message| all.push(message)))?;
        Ok(Some(all))
    }

    /// The parts 0, 1, … of a result, made by the ranks in turn (part i by rank i mod R) and given to `take` at the first, in
    /// their order, as they come: no rank holds more than one.
    ///
    /// ```
    /// use riemannian_laplace::Error;
    /// use riemannian_laplace::internals::team::Team;
    /// let mut text = Vec::new();
    /// Team::alone().in_turn::<Error>(3, |part| Ok(vec![b'a' + part as u8]), |bytes| Ok(text.extend(bytes)))?;
    /// assert_eq!(text, b"abc");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn in_turn<E: From<Error>>(
        &self,
        parts: usize,
        mut make: impl FnMut(usize) -> std::result::Result<Vec<u8>, E>,
        mut take: impl FnMut(Vec<u8>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for part in 0..parts {
            let maker = part % self.size();
            match (maker == self.rank(), self.is_first()) {
                (true, true) => take(make(part)?)?,
                (true, false) => self.send(0, &make(part)?)?,
                (false, true) => take(self.receive(maker)?)?,
                (false, false) => {}
            }
        }
        Ok(())
    }

    /// Waits until every rank has come here.
    pub fn wait(&self) -> Result<()> {
        self.share_all(Vec::new()).map(|_| ())
    }

    /// Sends one message and receives another. Even ranks send first, so that somebody always listens.
    fn exchange(&self, to: usize, message: &[u8], from: usize) -> Result<Vec<u8>> {
        if self.rank().is_multiple_of(2) {
            self.send(to, message)?;
            return self.receive(from);
        }
        let received = self.receive(from)?;
        self.send(to, message)?;
        Ok(received)
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<()> {
        self.counters.bytes.fetch_add(message.len() as u64, Ordering::Relaxed);
        self.counters.messages.fetch_add(1, Ordering::Relaxed);
        self.ranks.send(to, message)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        self.ranks.receive(from)
    }
}

/// Which of `count` things in a row belong to part `index` of `parts`: ⌊i·count/n⌋ to ⌊(i+1)·count/n⌋.
pub fn share(count: usize, index: usize, parts: usize) -> Range<usize> {
    let start = |index: usize| (index as u128 * count as u128 / parts.max(1) as u128) as usize;
    start(index)..start(index + 1)
}

fn add<P: Parts>(parts: &P, sum: &mut Option<P::Part>, part: P::Part) -> Result<()> {
    match sum {
        Some(sum) => parts.merge(sum, part)?,
        None => *sum = Some(part),
    }
    Ok(())
}

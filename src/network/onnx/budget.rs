//! How much a graph may unfold: one budget for all constants, places and nodes that reading it computes.

use super::trouble::{Step, Trouble, refuse};
use crate::memory::{self, Reservation};

/// What any file may compute, in numbers.
const ALLOWANCE: usize = 1 << 26;
/// What it may compute besides, for every byte.
const PER_BYTE: usize = 64;
/// Multiply-adds that any file may spend on products that are the same at all points: a second or so.
const WORK: usize = 1 << 31;
/// How many numbers are reserved at a time.
const CHUNK: usize = 1 << 16;

/// What is left of it.
#[derive(Debug)]
pub struct Budget {
    left: usize,
    /// Multiply-adds that are left.
    work: usize,
    /// What is reserved and not yet spent.
    reserved: usize,
    reservations: Vec<Reservation>,
}

impl Budget {
    /// Of a file of this many bytes.
    pub fn new(bytes: usize) -> Self {
        let left = ALLOWANCE.saturating_add(bytes.saturating_mul(PER_BYTE));
        Self { left, work: WORK, reserved: 0, reservations: Vec::new() }
    }

    /// Takes time for this many multiply-adds, which every evaluation of the network spends, or refuses the node.
    pub fn work(&mut self, multiply_adds: usize) -> Step<()> {
        match self.work.checked_sub(multiply_adds) {
            Some(left) => self.work = left,
            None => return refuse("the graph multiplies larger constants than is allowed"),
        }
        Ok(())
    }

    /// Takes room for this many numbers, or refuses the node that asks for it.
    pub fn spend(&mut self, numbers: usize) -> Step<()> {
        if numbers > self.left {
            return refuse("the graph unfolds to more numbers than a file of its size may compute");
        }
        self.left -= numbers;
        if numbers > self.reserved {
            let more = (numbers - self.reserved).max(CHUNK);
            let kept = memory::reserve("reading an ONNX graph", more as f64, "allow more memory");
            self.reservations.push(kept.map_err(Trouble::Other)?);
            self.reserved += more;
        }
        self.reserved -= numbers;
        Ok(())
    }
}

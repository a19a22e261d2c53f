//! How much a graph may unfold: one budget for all constants, places and nodes that reading it computes.

use super::trouble::{Step, Trouble, refuse};
use crate::memory::{self, Reservation};

/// What any file may compute, in numbers.
const ALLOWANCE: usize = 1 << 26;
/// What it may compute besides, for every byte.
const PER_BYTE: usize = 64;
/// How many numbers are reserved at a time.
const CHUNK: usize = 1 << 16;

/// What is left of it.
#[derive(Debug)]
pub struct Budget {
    left: usize,
    /// What is reserved and not yet spent.
    reserved: usize,
    reservations: Vec<Reservation>,
}

impl Budget {
    /// Of a file of this many bytes.
    pub fn new(bytes: usize) -> Self {
        let left = ALLOWANCE.saturating_add(bytes.saturating_mul(PER_BYTE));
        Self { left, reserved: 0, reservations: Vec::new() }
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

//! The same work on every column, shared among threads where some are free.
//!
//! For work on columns that do not depend on each other: what is divided depends on the number of threads, so nothing may be
//! summed over the columns of a part.

use faer::{MatMut, MatRef};

use super::{share, threads_are_free};

/// From this many numbers on, work on columns is worth sharing.
const SHARED: usize = 1 << 15;

/// What can be divided into its first columns and the others.
pub(crate) trait Columns: Send + Sized {
    /// The number of columns.
    fn count(&self) -> usize;
    /// The columns before this one, and those from it on.
    fn divide(self, at: usize) -> (Self, Self);
}

impl Columns for MatRef<'_, f64> {
    fn count(&self) -> usize {
        self.ncols()
    }

    fn divide(self, at: usize) -> (Self, Self) {
        self.split_at_col(at)
    }
}

impl Columns for MatMut<'_, f64> {
    fn count(&self) -> usize {
        self.ncols()
    }

    fn divide(self, at: usize) -> (Self, Self) {
        self.split_at_col_mut(at)
    }
}

/// One number for each column.
impl Columns for &mut [f64] {
    fn count(&self) -> usize {
        self.len()
    }

    fn divide(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }
}

/// Side by side, with as many columns each.
impl<A: Columns, B: Columns> Columns for (A, B) {
    fn count(&self) -> usize {
        self.0.count().min(self.1.count())
    }

    fn divide(self, at: usize) -> (Self, Self) {
        let (first, second) = (self.0.divide(at), self.1.divide(at));
        ((first.0, second.0), (first.1, second.1))
    }
}

/// Does this work, of so many numbers in all, on all columns: in as many parts as there are threads, if they are free. The
/// work is told which column its part starts with.
pub(crate) fn in_parts<C: Columns>(numbers: usize, columns: C, work: impl Fn(usize, C) + Sync) {
    let parts = if numbers >= SHARED && threads_are_free() { rayon::current_num_threads() } else { 1 };
    divide(parts, 0, columns, &work);
}

fn divide<C: Columns>(parts: usize, first: usize, columns: C, work: &(impl Fn(usize, C) + Sync)) {
    let (count, left) = (columns.count(), parts / 2);
    if parts <= 1 || count <= 1 {
        return work(first, columns);
    }
    let middle = count * left / parts;
    let (before, after) = columns.divide(middle);
    let (before, after) = (|| divide(left, first, before, work), || divide(parts - left, first + middle, after, work));
    share(|| rayon::join(before, after));
}

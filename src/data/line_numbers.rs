//! The line of a file that each row comes from, for messages.

/// The lines of rows, as far as they do not follow one another: most files have one row per line.
#[derive(Debug, Clone, Default)]
pub(super) struct LineNumbers {
    /// Rows whose line is not the one after the line of the row before, and their lines.
    jumps: Vec<(usize, u64)>,
    rows: usize,
}

impl LineNumbers {
    /// Adds the line of the next row.
    pub(super) fn push(&mut self, line: u64) {
        if self.rows == 0 || self.of(self.rows - 1).saturating_add(1) != line {
            self.jumps.push((self.rows, line));
        }
        self.rows += 1;
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// The line of a row; 0 if there is no such row.
    pub(super) fn of(&self, row: usize) -> u64 {
        let after = self.jumps.partition_point(|(first, _)| *first <= row);
        match after.checked_sub(1).and_then(|last| self.jumps.get(last)) {
            Some((first, line)) if row < self.rows => line + (row - first) as u64,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_line() {
        let lines = [2, 3, 4, 7, 8, 20, 21, 5];
        let mut numbers = LineNumbers::default();
        lines.iter().for_each(|line| numbers.push(*line));
        assert_eq!(numbers.len(), lines.len());
        assert_eq!((0..lines.len()).map(|row| numbers.of(row)).collect::<Vec<_>>(), lines);
        assert_eq!(numbers.jumps.len(), 4);
        assert_eq!(LineNumbers::default().of(3), 0);
    }
}

//! Solutions on a path, from which the next one is extrapolated.

use crate::linalg::add_scaled;

/// Solutions that a start is extrapolated from. With three, 30 samples of four 8-50-50-1 networks with 5,000 rows and of a
/// digits network took up to 4 % less time than with four; single samples took longer with two, five or six.
pub(super) const REMEMBERED: usize = 3;

/// The last solutions on a path and their times, the newest last.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: Vec<(f64, Vec<f64>)>,
    /// Vectors to be used again.
    spare: Vec<Vec<f64>>,
}

impl History {
    pub(super) fn clear(&mut self) {
        self.spare.extend(self.entries.drain(..).map(|(_, vector)| vector));
    }

    /// Writes the solution at this time, or the polynomial through all solutions; leaves zeros where there are none.
    pub(super) fn predict(&self, time: Option<f64>, solution: &mut [f64]) {
        let Some(time) = time else { return };
        if let Some((_, same)) = self.entries.iter().find(|(other, _)| *other == time) {
            return solution.copy_from_slice(same);
        }
        for (index, (node, vector)) in self.entries.iter().enumerate() {
            let others = self.entries.iter().enumerate().filter(|(other, _)| *other != index);
            let weight: f64 = others.map(|(_, (other, _))| (time - other) / (node - other)).product();
            add_scaled(weight, vector, solution);
        }
    }

    /// Keeps a solution, in place of that at the same time or of the oldest.
    pub(super) fn remember(&mut self, time: f64, solution: &[f64]) {
        if let Some(place) = self.entries.iter().position(|(other, _)| *other == time) {
            let (_, vector) = self.entries.remove(place);
            self.spare.push(vector);
        } else if self.entries.len() == REMEMBERED {
            let (_, vector) = self.entries.remove(0);
            self.spare.push(vector);
        }
        let mut vector = self.spare.pop().unwrap_or_default();
        vector.clear();
        vector.extend_from_slice(solution);
        self.entries.push((time, vector));
    }
}

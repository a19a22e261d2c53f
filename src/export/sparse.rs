//! Constant sparse matrices on the last axis of a value.

use super::writer::{Name, Writer};

/// y = Sx on the last axis: the output, the input and the weight of every term.
#[derive(Debug, Clone)]
pub(super) struct Sparse {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) terms: Vec<(usize, usize, f64)>,
}

/// A dense matrix takes at most this many times the numbers of the terms.
const DENSE: usize = 8;

impl Sparse {
    /// Entries of the input: output j is input `places[j]`.
    pub(super) fn selection(inputs: usize, places: &[usize]) -> Self {
        let terms = places.iter().enumerate().map(|(output, input)| (output, *input, 1.0)).collect();
        Self { inputs, outputs: places.len(), terms }
    }

    pub(super) fn transposed(&self) -> Self {
        let terms = self.terms.iter().map(|(output, input, weight)| (*input, *output, *weight)).collect();
        Self { inputs: self.outputs, outputs: self.inputs, terms }
    }

    /// The inputs and weights of every output.
    fn rows(&self) -> Vec<Vec<(usize, f64)>> {
        let mut rows = vec![Vec::new(); self.outputs];
        for (output, input, weight) in &self.terms {
            rows[*output].push((*input, *weight));
        }
        rows
    }

    /// Sx for a value with so many axes before the last.
    pub(super) fn apply(&self, writer: &mut Writer, x: &Name, lead: usize) -> Name {
        let rows = self.rows();
        let most = rows.iter().map(Vec::len).max().unwrap_or(0);
        if most <= 1 {
            return self.apply_single(writer, x, &rows);
        }
        let padded = most * self.outputs;
        if self.inputs * self.outputs <= DENSE * self.terms.len().max(1) || padded > self.inputs * self.outputs {
            let mut dense = vec![0.0; self.inputs * self.outputs];
            for (output, input, weight) in &self.terms {
                dense[input * self.outputs + output] += weight;
            }
            let dense = writer.numbers(&[self.inputs, self.outputs], &dense);
            return writer.matmul(x, &dense);
        }
        let entry = |row: &Vec<(usize, f64)>, place: usize| row.get(place).copied().unwrap_or((0, 0.0));
        let entries: Vec<(usize, f64)> = rows.iter().flat_map(|row| (0..most).map(move |m| entry(row, m))).collect();
        let gathered = writer.gather(x, &entries.iter().map(|(input, _)| *input).collect::<Vec<_>>(), -1);
        let gathered = writer.reshape(&gathered, lead, &[self.outputs, most]);
        let weights: Vec<f64> = entries.iter().map(|(_, weight)| *weight).collect();
        let weighted = match weights.iter().all(|weight| *weight == 1.0) {
            true => gathered,
            false => {
                let weights = writer.numbers(&[self.outputs, most], &weights);
                writer.multiply(&gathered, &weights)
            }
        };
        writer.sum(&weighted, -1, false)
    }

    /// The same where no output has more than one term.
    fn apply_single(&self, writer: &mut Writer, x: &Name, rows: &[Vec<(usize, f64)>]) -> Name {
        let places: Vec<usize> = rows.iter().map(|row| row.first().map_or(0, |term| term.0)).collect();
        let weights: Vec<f64> = rows.iter().map(|row| row.first().map_or(0.0, |term| term.1)).collect();
        let is_identity = self.inputs == self.outputs && places.iter().enumerate().all(|(o, input)| o == *input);
        let chosen = if is_identity { x.clone() } else { writer.gather(x, &places, -1) };
        match weights.first() {
            Some(first) if weights.iter().all(|weight| weight == first) => match *first == 1.0 {
                true => chosen,
                false => writer.with("Mul", &chosen, *first),
            },
            _ => {
                let weights = writer.numbers(&[self.outputs], &weights);
                writer.multiply(&chosen, &weights)
            }
        }
    }
}

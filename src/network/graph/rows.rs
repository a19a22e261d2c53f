//! What the rows of a node's parameters are computed from.

use std::ops::Range;

use faer::{ColRef, MatRef};

use crate::linalg::column_slice;

/// Inputs h and sensitivities δ of a node with parameters: the row of a seed is Σ_t δ_t h_tᵀ.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeRows<'a> {
    /// N × inputs: h₀.
    pub(super) inputs: MatRef<'a, f64>,
    /// N × inputs: h₁, after a sweep along a velocity; none where the inputs do not move.
    pub(super) inputs_along: Option<MatRef<'a, f64>>,
    /// Of how many points, and from which on, the sensitivities hold these N: all from the first, unless this is a
    /// [`part`](Self::part).
    pub(super) window: (usize, usize),
    /// M × outputs: δ.
    pub(super) sensitivities: MatRef<'a, f64>,
    /// M × outputs: δ̇; empty unless they were pulled back along a velocity.
    pub(super) along: MatRef<'a, f64>,
    /// Whether Σ_t δ_t for the biases belongs to the row.
    pub(super) with_bias: bool,
}

impl<'a> NodeRows<'a> {
    /// The derivative of the row along the velocity as two rows, δ̇h₀ᵀ and δh₁ᵀ.
    pub(super) fn terms_along(self) -> impl Iterator<Item = Self> {
        let moved = Self { sensitivities: self.along, ..self };
        let shifted = self.inputs_along.map(|inputs| Self { inputs, with_bias: false, ..self });
        std::iter::once(moved).chain(shifted)
    }

    /// N, the number of points.
    pub(super) fn n_points(&self) -> usize {
        self.inputs.nrows()
    }

    /// K, the number of rows at each point.
    pub(super) fn columns(&self) -> usize {
        self.sensitivities.nrows() / self.window.0.max(1)
    }

    /// The same at some of the points.
    pub(super) fn part(self, points: Range<usize>) -> Self {
        Self {
            inputs: self.inputs.get(points.clone(), ..),
            window: (self.window.0, self.window.1 + points.start),
            ..self
        }
    }

    /// A column of the sensitivities, cut into those of the rows with number k at each point.
    pub(super) fn by_rows(&self, column: ColRef<'a, f64>) -> impl Iterator<Item = &'a [f64]> + use<'a> {
        let (n, (all, first)) = (self.n_points(), self.window);
        (0..self.columns()).map(move |k| column_slice(column.subrows(k * all + first, n)))
    }
}

//! Max pooling: output (c, t) is the largest value of channel c below the window at position t.
//!
//! The layer keeps the tap that won at every point and output, the first of several equal ones, as PyTorch does.
//! Taylor coefficients are those of the winner, and sensitivities go to it. Padding never wins. Where the winner
//! changes, the outputs have a kink.

use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, MatRef};
use serde::{Deserialize, Serialize};

use super::image::{Image, Window};
use super::pooling::Pooling;
use crate::linalg::{column_slice, column_slice_mut};
use crate::network::tape::Kept;

/// Max pooling of images; the formulas are in the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxPool2d {
    /// The shape of the inputs.
    pub input: Image,
    /// Rows and columns of the window.
    pub kernel: [usize; 2],
    /// The steps between positions.
    pub stride: [usize; 2],
    /// Rows and columns around the image that never win.
    pub padding: [usize; 2],
}

impl MaxPool2d {
    /// A window of this size, moved by its own size, without padding.
    pub fn new(input: Image, kernel: [usize; 2]) -> Self {
        Self { input, kernel, stride: kernel, padding: [0, 0] }
    }

    /// The shape of the outputs.
    pub fn output(&self) -> Image {
        self.outputs()
    }

    /// The input columns below every output, without padding.
    pub(super) fn columns_below(&self) -> Vec<Vec<usize>> {
        let (window, pixels) = (self.window(), self.input.pixels());
        let below = |channel: usize, position: usize| {
            window.pixels_below(position).map(|pixel| channel * pixels + pixel).collect()
        };
        let below = &below;
        (0..self.input.channels).flat_map(|c| (0..window.positions()).map(move |t| below(c, t))).collect()
    }

    /// The coefficients of b − a for every tap b of a window but the first, with a the largest of the taps before it:
    /// the arguments of the hinges in max(a, b) = a + relu(b − a).
    fn hinges(&self, inputs: MatRef<'_, f64>, points: usize) -> Mat<f64> {
        let below = self.columns_below();
        let mut hinges = Mat::zeros(inputs.nrows(), below.iter().map(|columns| columns.len().saturating_sub(1)).sum());
        let mut targets = hinges.col_iter_mut();
        for columns in &below {
            let Some((first, others)) = columns.split_first() else { continue };
            let mut largest = column_slice(inputs.col(*first)).to_vec();
            for (column, target) in others.iter().zip(targets.by_ref()) {
                let (input, target) = (column_slice(inputs.col(*column)), column_slice_mut(target));
                for (target, (b, a)) in target.iter_mut().zip(input.iter().zip(&largest)) {
                    *target = b - a;
                }
                for n in (0..points).filter(|n| target[*n] > 0.0) {
                    (n..input.len()).step_by(points).for_each(|row| largest[row] = input[row]);
                }
            }
        }
        drop(targets);
        hinges
    }

    /// Calls `visit` with every output column, a tap of its window and the pixel column below it.
    fn for_each(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let (window, pixels) = (self.window(), self.input.pixels());
        let positions = window.positions();
        for channel in 0..self.input.channels {
            for position in 0..positions {
                for tap in 0..window.taps() {
                    if let Some(pixel) = window.pixel(position, tap) {
                        visit(channel * positions + position, tap, channel * pixels + pixel);
                    }
                }
            }
        }
    }
}

impl Pooling for MaxPool2d {
    const NAME: &'static str = "max pooling";
    const HAS_KINK: bool = true;

    fn input(&self) -> Image {
        self.input
    }

    fn window(&self) -> Window {
        let Self { input, kernel, stride, padding } = *self;
        Window { image: [input.height, input.width], kernel, stride, padding, dilation: [1, 1] }
    }

    /// The winner of every output.
    fn n_kept(&self) -> usize {
        self.outputs().size()
    }

    fn kinks(&self, inputs: MatRef<'_, f64>, points: usize) -> Option<Mat<f64>> {
        Some(self.hinges(inputs, points))
    }

    /// Takes the values of the winners, and then the other Taylor coefficients of the same pixels; rows that the
    /// inputs lack are zero.
    fn pool(&self, inputs: MatRef<'_, f64>, mut outputs: MatMut<'_, f64>, kept: &mut Kept) {
        let n = kept.matrix.nrows();
        outputs.fill(0.0);
        outputs.rb_mut().get_mut(..n, ..).fill(f64::NEG_INFINITY);
        kept.matrix.fill(-1.0);
        self.for_each(|output, tap, input| {
            let values = column_slice_mut(outputs.rb_mut().col_mut(output));
            let winners = column_slice_mut(kept.matrix.as_mut().col_mut(output));
            for ((value, winner), input) in values.iter_mut().zip(winners).zip(&column_slice(inputs.col(input))[..n]) {
                // The first tap wins whatever it is, so that what is not a number is passed on.
                if *input > *value || *winner < 0.0 || input.is_nan() {
                    (*value, *winner) = (*input, tap as f64);
                }
            }
        });
        self.for_each(|output, tap, input| {
            let input = column_slice(inputs.col(input));
            let winners = column_slice(kept.matrix.col(output));
            let values = &mut column_slice_mut(outputs.rb_mut().col_mut(output))[n..];
            for (values, input) in values.chunks_exact_mut(n.max(1)).zip(input[n..].chunks_exact(n.max(1))) {
                for ((value, winner), input) in values.iter_mut().zip(winners).zip(input) {
                    if *winner == tap as f64 {
                        *value = *input;
                    }
                }
            }
        });
    }

    /// Gives every row's sensitivities to the winners.
    fn spread(&self, sensitivities: MatRef<'_, f64>, mut inputs: MatMut<'_, f64>, kept: &Kept) {
        let n = kept.matrix.nrows().max(1);
        inputs.fill(0.0);
        self.for_each(|output, tap, input| {
            let winners = column_slice(kept.matrix.col(output));
            let targets = column_slice_mut(inputs.rb_mut().col_mut(input));
            let deltas = column_slice(sensitivities.col(output));
            for (targets, deltas) in targets.chunks_exact_mut(n).zip(deltas.chunks_exact(n)) {
                for ((target, winner), delta) in targets.iter_mut().zip(winners).zip(deltas) {
                    *target += if *winner == tap as f64 { *delta } else { 0.0 };
                }
            }
        });
    }
}

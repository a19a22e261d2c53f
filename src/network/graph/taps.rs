//! Where a weight matrix is used: at consecutive blocks of its input (a linear layer, at one block or at every token), or at
//! the windows of an image (convolutions, transposed ones included).

use faer::prelude::{IntoConst, ReborrowMut};
use faer::{MatMut, MatRef};
use serde::{Deserialize, Serialize};

use crate::linalg::{add_scaled, column_slice, column_slice_mut};

/// The places at which one weight matrix multiplies parts of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Taps {
    /// Each of this many consecutive blocks of the input gives one block of the output.
    Blocks(usize),
    /// Every position of a window over an image gives one value of each output channel; the channels are split into groups.
    Windows {
        /// The geometry.
        window: Window,
        /// Input channels.
        channels: usize,
        /// The groups of channels that do not mix.
        groups: usize,
    },
}

/// A window that moves over the rows and columns of an image.
///
/// Tap i at position t is pixel t·stride + i·dilation − padding, or, of a transposed convolution, the pixel q with
/// q·stride + i·dilation − padding = t, where there is one. What lies outside of the image is padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Rows and columns of the image.
    pub image: [usize; 2],
    /// Rows and columns of the window.
    pub kernel: [usize; 2],
    /// Steps between positions.
    pub stride: [usize; 2],
    /// Rows above and columns to the left of the image.
    pub padding: [usize; 2],
    /// Steps between taps.
    pub dilation: [usize; 2],
    /// Rows and columns of positions.
    pub outputs: [usize; 2],
    /// Whether it is that of a transposed convolution.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transposed: bool,
}

impl Window {
    /// A window with as much padding on both sides of the image, at ⌊(size + 2p − d(k − 1) − 1)/s⌋ + 1 positions along an axis;
    /// none where it does not fit.
    pub fn new(
        image: [usize; 2],
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
    ) -> Self {
        let along = |axis: usize| -> Option<usize> {
            let framed = image[axis].checked_add(padding[axis].checked_mul(2)?)?;
            let reach = dilation[axis].checked_mul(kernel[axis].checked_sub(1)?)?.checked_add(1)?;
            framed.checked_sub(reach)?.checked_div(stride[axis])?.checked_add(1)
        };
        let outputs = [0, 1].map(|axis| along(axis).unwrap_or(0));
        Self { image, kernel, stride, padding, dilation, outputs, transposed: false }
    }

    /// The number of positions.
    pub fn positions(&self) -> usize {
        self.outputs[0].saturating_mul(self.outputs[1])
    }

    /// The number of taps.
    pub fn taps(&self) -> usize {
        self.kernel[0].saturating_mul(self.kernel[1])
    }

    /// The number of pixels of a channel.
    pub fn pixels(&self) -> usize {
        self.image[0].saturating_mul(self.image[1])
    }

    /// The pixel below a tap (row by row) at a position (row by row); `None` where it is padding.
    pub fn pixel(&self, position: usize, tap: usize) -> Option<usize> {
        let columns = self.outputs[1].max(1);
        let at = [position / columns, position % columns];
        let tap = [tap / self.kernel[1], tap % self.kernel[1]];
        let on_axis = |axis: usize| {
            let reach = tap[axis] * self.dilation[axis];
            let pixel = match self.transposed {
                false => (at[axis] * self.stride[axis] + reach).checked_sub(self.padding[axis])?,
                true => {
                    let from = (at[axis] + self.padding[axis]).checked_sub(reach)?;
                    from.is_multiple_of(self.stride[axis]).then_some(from / self.stride[axis])?
                }
            };
            (pixel < self.image[axis]).then_some(pixel)
        };
        Some(on_axis(0)? * self.image[1] + on_axis(1)?)
    }

    /// The pixels below the window at a position, without padding.
    pub fn pixels_below(&self, position: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.taps()).filter_map(move |tap| self.pixel(position, tap))
    }

    /// What is wrong with it, if anything is.
    pub fn problem(&self) -> Option<String> {
        if self.kernel.contains(&0) || self.stride.contains(&0) || self.dilation.contains(&0) {
            return Some("needs a kernel, strides and dilations of at least 1".to_string());
        }
        if self.outputs.contains(&0) {
            let [[rows, columns], [height, width], [above, left]] = [self.kernel, self.image, self.padding];
            return Some(format!(
                "has a kernel of {rows}×{columns} that does not fit into {height}×{width} pixels with a padding of {above}×{left}"
            ));
        }
        // Far from where an index could overflow.
        let settings = [self.image, self.kernel, self.stride, self.padding, self.dilation, self.outputs];
        let huge = settings.iter().flatten().any(|setting| *setting > 1 << 30);
        huge.then(|| "has a window with lengths beyond any image".to_string())
    }
}

impl Taps {
    /// Groups of outputs with a matrix of their own.
    pub fn groups(&self) -> usize {
        match self {
            Self::Blocks(_) => 1,
            Self::Windows { groups, .. } => *groups,
        }
    }

    /// How often each matrix is used at a point.
    pub fn count(&self) -> usize {
        match self {
            Self::Blocks(count) => *count,
            Self::Windows { window, .. } => window.positions(),
        }
    }

    /// The width of the input from which vectors of this length are taken; `None` if they do not fit.
    pub fn input_width(&self, length: usize) -> Option<usize> {
        match self {
            Self::Blocks(count) => count.checked_mul(length),
            Self::Windows { window, channels, groups } => {
                let own = channels.checked_div(*groups).filter(|own| own * groups == *channels)?;
                (own.checked_mul(window.taps())? == length).then_some(channels.checked_mul(window.pixels())?)
            }
        }
    }

    /// Whether inputs and outputs are blocks of columns, which need no copy.
    pub fn are_blocks(&self) -> bool {
        matches!(self, Self::Blocks(_))
    }

    /// The input columns of the vector of a group at a tap: entry by entry, `None` for padding.
    fn for_each_entry(&self, group: usize, tap: usize, mut visit: impl FnMut(usize, Option<usize>)) {
        let Self::Windows { window, channels, groups } = self else { return };
        let (own, taps, pixels) = (channels / groups, window.taps(), window.pixels());
        for place in 0..taps {
            let pixel = window.pixel(tap, place);
            for channel in 0..own {
                visit(channel * taps + place, pixel.map(|pixel| (group * own + channel) * pixels + pixel));
            }
        }
    }

    /// The input column of every entry of a group's vector at every tap; `None` for padding.
    pub fn columns(&self, group: usize, length: usize) -> Vec<Vec<Option<usize>>> {
        let of_tap = |tap: usize| match self {
            Self::Blocks(_) => (0..length).map(|entry| Some(tap * length + entry)).collect(),
            Self::Windows { .. } => {
                let mut columns = vec![None; length];
                self.for_each_entry(group, tap, |entry, column| columns[entry] = column);
                columns
            }
        };
        (0..self.count()).map(of_tap).collect()
    }

    /// The input vectors of a group at a tap: columns of the source, or copied into the room.
    pub(super) fn inputs<'a>(
        &self,
        (group, tap): (usize, usize),
        length: usize,
        source: MatRef<'a, f64>,
        room: MatMut<'a, f64>,
    ) -> MatRef<'a, f64> {
        if self.are_blocks() {
            return source.get(.., tap * length..(tap + 1) * length);
        }
        let mut room = room.get_mut(..source.nrows(), ..length);
        self.for_each_entry(group, tap, |entry, column| {
            let target = column_slice_mut(room.rb_mut().col_mut(entry));
            match column {
                Some(column) => target.copy_from_slice(column_slice(source.col(column))),
                None => target.fill(0.0),
            }
        });
        room.into_const()
    }

    /// Adds vectors of a group at a tap to the columns that they were taken from.
    pub(super) fn add_inputs(
        &self,
        (group, tap): (usize, usize),
        vectors: MatRef<'_, f64>,
        mut target: MatMut<'_, f64>,
    ) {
        self.for_each_entry(group, tap, |entry, column| {
            if let Some(column) = column {
                add_scaled(1.0, column_slice(vectors.col(entry)), column_slice_mut(target.rb_mut().col_mut(column)));
            }
        });
    }

    /// The column of an output of a group at a tap.
    pub(super) fn output_column(&self, (group, tap): (usize, usize), outputs: usize, output: usize) -> usize {
        match self {
            Self::Blocks(_) => tap * outputs + output,
            Self::Windows { window, .. } => (group * outputs + output) * window.positions() + tap,
        }
    }

    /// The outputs of a group at a tap (or their sensitivities): columns of the source, or copied into the room.
    pub(super) fn outputs<'a>(
        &self,
        place: (usize, usize),
        outputs: usize,
        source: MatRef<'a, f64>,
        room: MatMut<'a, f64>,
    ) -> MatRef<'a, f64> {
        if self.are_blocks() {
            return source.get(.., place.1 * outputs..(place.1 + 1) * outputs);
        }
        let mut room = room.get_mut(..source.nrows(), ..outputs);
        for (output, column) in room.rb_mut().col_iter_mut().enumerate() {
            let from = self.output_column(place, outputs, output);
            column_slice_mut(column).copy_from_slice(column_slice(source.col(from)));
        }
        room.into_const()
    }

    /// Groups and taps.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (groups, count) = (self.groups(), self.count());
        (0..groups).flat_map(move |group| (0..count).map(move |tap| (group, tap)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_pixels_follow_the_formula() {
        let window = Window {
            image: [5, 4],
            kernel: [3, 2],
            stride: [2, 1],
            padding: [1, 0],
            dilation: [1, 2],
            outputs: [3, 2],
            transposed: false,
        };
        // Position (1, 1), tap (2, 1): row 1·2 + 2 − 1 = 3, column 1 + 2 = 3.
        assert_eq!(window.pixel(3, 5), Some(3 * 4 + 3));
        // Position (0, 0), tap (0, 0) is above the image.
        assert_eq!(window.pixel(0, 0), None);
        assert!(window.problem().is_none());
        assert!(Window { stride: [0, 1], ..window }.problem().is_some());
        assert!(
            Window { outputs: [0, 2], kernel: [8, 1], ..window }.problem().is_some_and(|text| text.contains("8×1"))
        );
    }

    #[test]
    fn a_transposed_window_visits_the_same_pairs() {
        let forward = Window {
            image: [7, 5],
            kernel: [3, 2],
            stride: [2, 3],
            padding: [1, 0],
            dilation: [1, 2],
            outputs: [4, 1],
            transposed: false,
        };
        let backward = Window { image: forward.outputs, outputs: forward.image, transposed: true, ..forward };
        for (position, tap) in (0..forward.positions()).flat_map(|p| (0..forward.taps()).map(move |t| (p, t))) {
            if let Some(pixel) = forward.pixel(position, tap) {
                assert_eq!(backward.pixel(pixel, tap), Some(position));
            }
        }
        let pairs = |window: &Window| (0..window.positions()).map(|p| window.pixels_below(p).count()).sum::<usize>();
        assert_eq!(pairs(&forward), pairs(&backward));
    }
}

//! Images as columns, and windows that slide over them.
//!
//! Pixel (c, y, x) of an image is column (c·height + y)·width + x. A window of kernel k, stride s, padding p and
//! dilation d has ⌊(size + 2p − d(k − 1) − 1)/s⌋ + 1 positions along an axis, and its tap i at position t is at pixel
//! t·s + i·d − p, which is padding outside of the image.

use serde::{Deserialize, Serialize};

/// The shape of an image whose pixels are the columns of a matrix, in the order [channel, row, column].
///
/// ```
/// use riemannian_laplace::Image;
/// assert_eq!(Image::new(3, 8, 8).size(), 192);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The number of channels.
    pub channels: usize,
    /// The number of rows.
    pub height: usize,
    /// The number of columns.
    pub width: usize,
}

impl Image {
    /// An image of this shape.
    pub const fn new(channels: usize, height: usize, width: usize) -> Self {
        Self { channels, height, width }
    }

    /// The number of pixels in a channel.
    pub fn pixels(&self) -> usize {
        self.height.saturating_mul(self.width)
    }

    /// The number of values: channels × height × width.
    pub fn size(&self) -> usize {
        self.channels.saturating_mul(self.pixels())
    }
}

impl std::fmt::Display for Image {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}×{}×{}", self.channels, self.height, self.width)
    }
}

/// A window that slides over the rows and columns of an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// The rows and columns of pixels below it.
    pub image: [usize; 2],
    /// Its own rows and columns.
    pub kernel: [usize; 2],
    /// The steps between positions.
    pub stride: [usize; 2],
    /// The width of the frame of padding.
    pub padding: [usize; 2],
    /// The steps between taps.
    pub dilation: [usize; 2],
}

impl Window {
    /// What is wrong with it, if anything is.
    pub fn problem(&self) -> Option<String> {
        let Self { image: [height, width], kernel, stride, padding, dilation } = self;
        if kernel.contains(&0) || stride.contains(&0) || dilation.contains(&0) {
            return Some("needs a kernel, strides and dilations of at least 1".to_string());
        }
        let fits = (0..2).all(|axis| self.along(axis).is_some_and(|positions| positions > 0));
        (!fits).then(|| {
            format!(
                "has a kernel of {}×{} (dilation {}×{}) that does not fit into {height}×{width} pixels with a padding \
                 of {}×{}",
                kernel[0], kernel[1], dilation[0], dilation[1], padding[0], padding[1]
            )
        })
    }

    /// The number of positions along an axis; `None` if the window does not fit.
    fn along(&self, axis: usize) -> Option<usize> {
        let framed = self.image[axis].checked_add(self.padding[axis].checked_mul(2)?)?;
        let reach = self.dilation[axis].checked_mul(self.kernel[axis].checked_sub(1)?)?.checked_add(1)?;
        framed.checked_sub(reach)?.checked_div(self.stride[axis])?.checked_add(1)
    }

    /// The rows and columns of positions; zero where the window does not fit.
    pub fn outputs(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.along(axis).unwrap_or(0))
    }

    /// The number of positions.
    pub fn positions(&self) -> usize {
        let [rows, columns] = self.outputs();
        rows.saturating_mul(columns)
    }

    /// The number of taps.
    pub fn taps(&self) -> usize {
        self.kernel[0].saturating_mul(self.kernel[1])
    }

    /// The pixel below a tap (row by row) at a position (row by row); `None` where it is padding.
    pub fn pixel(&self, position: usize, tap: usize) -> Option<usize> {
        let columns = self.outputs()[1].max(1);
        let at = [position / columns, position % columns];
        let tap = [tap / self.kernel[1], tap % self.kernel[1]];
        let on_axis = |axis: usize| {
            let pixel =
                (at[axis] * self.stride[axis] + tap[axis] * self.dilation[axis]).checked_sub(self.padding[axis])?;
            (pixel < self.image[axis]).then_some(pixel)
        };
        Some(on_axis(0)? * self.image[1] + on_axis(1)?)
    }

    /// The pixels below the window at a position, without padding.
    pub fn pixels_below(&self, position: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.taps()).filter_map(move |tap| self.pixel(position, tap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_pixels_follow_the_formula() {
        let window = Window { image: [5, 4], kernel: [3, 2], stride: [2, 1], padding: [1, 0], dilation: [1, 2] };
        assert_eq!(window.outputs(), [3, 2]);
        // Position (1, 1), tap (2, 1): row 1·2 + 2 − 1 = 3, column 1 + 2 = 3.
        assert_eq!(window.pixel(3, 5), Some(3 * 4 + 3));
        // Position (0, 0), tap (0, 0) is above the image.
        assert_eq!(window.pixel(0, 0), None);
        assert!(window.problem().is_none());
        let too_large = Window { kernel: [8, 1], ..window };
        assert!(too_large.problem().is_some_and(|problem| problem.contains("8×1")));
        assert_eq!(too_large.positions(), 0);
        assert!(Window { stride: [0, 1], ..window }.problem().is_some());
    }
}

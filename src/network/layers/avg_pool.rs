//! Average pooling: output (c, t) is the mean of channel c below the window at position t.
//!
//! z(c, t) = Σ h(c, pixel)/divisor over the pixels below the window. The divisor is the number of the window's taps,
//! padding included, or only the number of pixels, as PyTorch's `count_include_pad` says; both count what is inside of
//! the frame. The layer is linear and has no parameters: Taylor coefficients are pooled one by one, and sensitivities
//! pull back to δ/divisor at every pixel below.

use faer::prelude::ReborrowMut;
use faer::{MatMut, MatRef};
use serde::{Deserialize, Serialize};

use super::image::{Image, Window};
use super::pooling::Pooling;
use crate::linalg::{add_scaled, column_slice, column_slice_mut};
use crate::network::tape::Kept;

/// Average pooling of images; the formulas are in the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AvgPool2d {
    /// The shape of the inputs.
    pub input: Image,
    /// Rows and columns of the window.
    pub kernel: [usize; 2],
    /// The steps between positions.
    pub stride: [usize; 2],
    /// Rows and columns of zeros around the image.
    pub padding: [usize; 2],
    /// Whether the zeros of the padding count in the mean (PyTorch's default).
    pub count_include_pad: bool,
}

impl AvgPool2d {
    /// A window of this size, moved by its own size, without padding.
    pub fn new(input: Image, kernel: [usize; 2]) -> Self {
        Self { input, kernel, stride: kernel, padding: [0, 0], count_include_pad: true }
    }

    /// The shape of the outputs.
    pub fn output(&self) -> Image {
        self.outputs()
    }

    /// What the sum at a position is multiplied with.
    fn factor(&self, window: &Window, position: usize) -> f64 {
        let count = if self.count_include_pad { window.taps() } else { window.pixels_below(position).count() };
        1.0 / count as f64
    }

    /// Calls `visit` with every position, a pixel below it and the factor.
    pub(crate) fn for_each_in_channel(&self, mut visit: impl FnMut(usize, usize, f64)) {
        let window = self.window();
        for position in 0..window.positions() {
            let factor = self.factor(&window, position);
            window.pixels_below(position).for_each(|pixel| visit(position, pixel, factor));
        }
    }

    /// Calls `visit` with every output column, a pixel column below it and the factor.
    fn for_each(&self, mut visit: impl FnMut(usize, usize, f64)) {
        let (pixels, positions) = (self.input.pixels(), self.window().positions());
        self.for_each_in_channel(|position, pixel, factor| {
            for channel in 0..self.input.channels {
                visit(channel * positions + position, channel * pixels + pixel, factor);
            }
        });
    }
}

impl Pooling for AvgPool2d {
    const NAME: &'static str = "average pooling";
    const HAS_KINK: bool = false;

    fn input(&self) -> Image {
        self.input
    }

    fn window(&self) -> Window {
        let Self { input, kernel, stride, padding, .. } = *self;
        Window { image: [input.height, input.width], kernel, stride, padding, dilation: [1, 1] }
    }

    fn pool(&self, inputs: MatRef<'_, f64>, mut outputs: MatMut<'_, f64>, _kept: &mut Kept) {
        outputs.fill(0.0);
        self.for_each(|output, input, factor| {
            let target = column_slice_mut(outputs.rb_mut().col_mut(output));
            add_scaled(factor, column_slice(inputs.col(input)), target);
        });
    }

    fn spread(&self, sensitivities: MatRef<'_, f64>, mut inputs: MatMut<'_, f64>, _kept: &Kept) {
        inputs.fill(0.0);
        self.for_each(|output, input, factor| {
            let target = column_slice_mut(inputs.rb_mut().col_mut(input));
            add_scaled(factor, column_slice(sensitivities.col(output)), target);
        });
    }
}

/// Global average pooling: the mean of every channel, which is average pooling with a window as large as the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobalAvgPool {
    /// The shape of the inputs.
    pub input: Image,
}

impl GlobalAvgPool {
    /// Over images of this shape.
    pub fn new(input: Image) -> Self {
        Self { input }
    }

    /// The same as a window.
    fn average(&self) -> AvgPool2d {
        AvgPool2d::new(self.input, [self.input.height, self.input.width])
    }
}

impl Pooling for GlobalAvgPool {
    const NAME: &'static str = "global average pooling";
    const HAS_KINK: bool = false;

    fn input(&self) -> Image {
        self.input
    }

    fn window(&self) -> Window {
        self.average().window()
    }

    fn pool(&self, inputs: MatRef<'_, f64>, outputs: MatMut<'_, f64>, kept: &mut Kept) {
        self.average().pool(inputs, outputs, kept);
    }

    fn spread(&self, sensitivities: MatRef<'_, f64>, inputs: MatMut<'_, f64>, kept: &Kept) {
        self.average().spread(sensitivities, inputs, kept);
    }
}

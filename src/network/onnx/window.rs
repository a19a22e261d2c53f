//! Windows that slide over an image: the geometry that convolutions and pooling share.

use super::messages::NodeProto;
use super::node::Attributes;
use crate::network::Image;

/// A window over the last two axes of `[channels, height, width]`. A signal `[channels, length]` is an image of height
/// 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The channels of the input.
    pub channels: usize,
    /// The height and width of the input.
    pub size: [usize; 2],
    /// The height and width of the window.
    pub kernel: [usize; 2],
    /// The distance between neighbouring windows.
    pub stride: [usize; 2],
    /// Zeros before the first row and column.
    pub before: [usize; 2],
    /// Zeros after the last row and column.
    pub after: [usize; 2],
    /// The distance between neighbouring entries of a window.
    pub dilation: [usize; 2],
    /// The height and width of the output.
    pub outputs: [usize; 2],
    /// Whether the input has one axis besides the channels.
    signal: bool,
}

impl Window {
    /// The window of a node over a point of this shape; `kernel` where the weights say it. `None` if there is none.
    #[allow(clippy::indexing_slicing, reason = "axes are 0 and 1, and every array has an entry for each")]
    pub fn of(node: &NodeProto, point: &[usize], kernel: Option<&[usize]>) -> Option<Self> {
        let (channels, axes) = point.split_first()?;
        let rank = axes.len();
        let pair = |list: Vec<usize>, missing: usize| match list[..] {
            [length] if rank == 1 => Some([missing, length]),
            [height, width] if rank == 2 => Some([height, width]),
            _ => None,
        };
        let attribute = |name: &str, missing: usize| match node.ints(name) {
            None => Some([missing; 2]),
            Some(list) => {
                let list: Vec<usize> =
                    list.into_iter().map(|value| usize::try_from(value).ok()).collect::<Option<_>>()?;
                pair(list, missing)
            }
        };
        let size = pair(axes.to_vec(), 1)?;
        let kernel = match kernel {
            Some(kernel) => pair(kernel.to_vec(), 1)?,
            None => attribute("kernel_shape", 1)?,
        };
        let (stride, dilation) = (attribute("strides", 1)?, attribute("dilations", 1)?);
        if [kernel, stride, dilation].iter().flatten().any(|&value| value == 0) {
            return None;
        }
        let span = [0, 1].map(|axis| (kernel[axis] - 1).saturating_mul(dilation[axis]).saturating_add(1));
        let pads: Vec<usize> = match node.ints("pads") {
            None => vec![0; 2 * rank],
            Some(pads) => pads.into_iter().map(|pad| usize::try_from(pad).ok()).collect::<Option<_>>()?,
        };
        let same = |axis: usize| {
            let outputs = size[axis].div_ceil(stride[axis]);
            (outputs.saturating_sub(1).saturating_mul(stride[axis]))
                .saturating_add(span[axis])
                .saturating_sub(size[axis])
        };
        let (before, after) = match node.word("auto_pad").as_deref() {
            None | Some("NOTSET" | "") if pads.len() == 2 * rank => {
                let (before, after) = pads.split_at(rank);
                (pair(before.to_vec(), 0)?, pair(after.to_vec(), 0)?)
            }
            Some("VALID") => ([0; 2], [0; 2]),
            Some("SAME_UPPER") => ([0, 1].map(|axis| same(axis) / 2), [0, 1].map(|axis| same(axis).div_ceil(2))),
            Some("SAME_LOWER") => ([0, 1].map(|axis| same(axis).div_ceil(2)), [0, 1].map(|axis| same(axis) / 2)),
            _ => return None,
        };
        let mut outputs = [0; 2];
        for axis in 0..2 {
            let room = size[axis].checked_add(before[axis])?.checked_add(after[axis])?.checked_sub(span[axis])?;
            // A last window that does not fit in whole is left out.
            if node.int("ceil_mode") == Some(1) && room % stride[axis] != 0 {
                return None;
            }
            outputs[axis] = room / stride[axis] + 1;
        }
        let signal = rank == 1;
        Some(Self { channels: *channels, size, kernel, stride, before, after, dilation, outputs, signal })
    }

    /// The image that it slides over.
    pub fn image(&self) -> Image {
        Image::new(self.channels, self.size[0], self.size[1])
    }

    /// The shape of a point of the output with this many channels.
    pub fn shape(&self, channels: usize) -> Vec<usize> {
        match self.signal {
            true => vec![channels, self.outputs[1]],
            false => vec![channels, self.outputs[0], self.outputs[1]],
        }
    }
}

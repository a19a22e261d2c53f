//! What figures have in common: font and colours.

use std::error::Error;

use plotters::prelude::*;

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The text font of bitmaps; SVG viewers use their own sans-serif.
pub static FONT: &[u8] = include_bytes!("DejaVuSans-subset.ttf");

pub const INK: RGBColor = RGBColor(40, 44, 52);
pub const GRID: RGBColor = RGBColor(225, 228, 232);
pub const BLUE: RGBColor = RGBColor(46, 109, 180);
pub const ORANGE: RGBColor = RGBColor(214, 110, 40);

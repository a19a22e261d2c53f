//! A drawing saved as SVG and as a smooth PNG: drawn four times as large, then averaged to twice the size of the SVG.

use std::fs::File;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontStyle;

use super::figure::{FONT, Outcome};

/// Something that can be drawn at any scale.
pub trait Drawing {
    /// Width and height in points.
    fn size(&self) -> (u32, u32);
    /// Draws with `scale` pixels per point.
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: f64) -> Outcome
    where
        B::ErrorType: 'static;
}

/// Pixels of the first drawing for one pixel of the PNG, along each axis.
const SUPERSAMPLING: usize = 2;
/// Pixels of the PNG for one point of the SVG.
const RESOLUTION: usize = 2;

/// Saves to `<path>.svg` and `<path>.png`.
pub fn save(drawing: &impl Drawing, path: &Path) -> Outcome {
    // Registering the same font twice is harmless; a second figure does so.
    let _ = plotters::style::register_font("sans-serif", FontStyle::Normal, FONT);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let (width, height) = drawing.size();
    let svg = path.with_extension("svg");
    let area = SVGBackend::new(&svg, (width, height)).into_drawing_area();
    drawing.draw(&area, 1.0)?;
    area.present()?;

    let factor = SUPERSAMPLING * RESOLUTION;
    let large = (factor as u32 * width, factor as u32 * height);
    let mut pixels = vec![255; 3 * large.0 as usize * large.1 as usize];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, large).into_drawing_area();
        drawing.draw(&area, factor as f64)?;
        area.present()?;
    }
    let small = (RESOLUTION as u32 * width, RESOLUTION as u32 * height);
    let averaged = average(&pixels, small.0 as usize, small.1 as usize);
    let mut encoder = png::Encoder::new(File::create(path.with_extension("png"))?, small.0, small.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&averaged)?;
    println!("Figure: {} and .png", svg.display());
    Ok(())
}

/// The mean of each block of pixels.
fn average(pixels: &[u8], width: usize, height: usize) -> Vec<u8> {
    let stride = 3 * width * SUPERSAMPLING;
    let mut averaged = Vec::with_capacity(3 * width * height);
    for y in 0..height {
        for x in 0..width {
            for channel in 0..3 {
                let mut sum = 0;
                for row in 0..SUPERSAMPLING {
                    for column in 0..SUPERSAMPLING {
                        let at = (SUPERSAMPLING * y + row) * stride + 3 * (SUPERSAMPLING * x + column) + channel;
                        sum += u32::from(pixels[at]);
                    }
                }
                averaged.push((sum / (SUPERSAMPLING * SUPERSAMPLING) as u32) as u8);
            }
        }
    }
    averaged
}

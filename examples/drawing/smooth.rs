//! A picture with smooth lines: drawn twice as large as the PNG, then averaged.

use std::error::Error;
use std::fs::File;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontStyle;

/// The area that a picture is drawn on.
pub type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;

/// Draws on a white area of twice `width` × twice `height` pixels and saves the average of each 2 × 2 block.
pub fn save(
    path: &Path,
    (width, height): (usize, usize),
    draw: impl FnOnce(&Area<'_>) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    // A bundled font looks the same everywhere. Registering it twice is harmless.
    let font = include_bytes!("../paper/support/DejaVuSans-subset.ttf");
    let _ = plotters::style::register_font("sans-serif", FontStyle::Normal, font);
    let line = 2 * 3 * width;
    let mut pixels = vec![255; line * 2 * height];
    {
        let size = (2 * width as u32, 2 * height as u32);
        let area = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    let mut smooth = Vec::with_capacity(3 * width * height);
    for index in 0..3 * width * height {
        let (row, column, channel) = (index / (3 * width), index / 3 % width, index % 3);
        let at = 2 * row * line + 2 * 3 * column + channel;
        let block = [at, at + 3, at + line, at + line + 3];
        smooth.push((block.iter().map(|&place| u32::from(pixels[place])).sum::<u32>() / 4) as u8);
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut encoder = png::Encoder::new(File::create(path)?, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    encoder.write_header()?.write_image_data(&smooth)?;
    println!("\nPicture: {}", path.display());
    Ok(())
}

//! Sheets of 28 × 28 grey images, read from PNG files.

use std::error::Error;
use std::fs::File;
use std::io::BufReader;

/// Pixels along each side of an image.
pub const SIDE: usize = 28;

/// The images of a sheet.
#[derive(Debug, Clone)]
pub struct Sheet {
    /// One image after the other, row by row of the sheet, each pixel between 0 and 1.
    pub pixels: Vec<f32>,
    /// The row of the sheet that each image comes from: on the sheets of digits, the digit.
    pub rows: Vec<usize>,
}

impl Sheet {
    /// Reads a PNG file in the folder `data`, at most the first `columns` images of each row.
    pub fn read(file: &str, columns: usize) -> Result<Self, Box<dyn Error>> {
        let path = super::path(file);
        let problem = |what: String| format!("{}: {what}", path.display());
        let opened = File::open(&path).map_err(|error| problem(error.to_string()))?;
        let mut reader = png::Decoder::new(BufReader::new(opened)).read_info()?;
        let size = reader.output_buffer_size().ok_or_else(|| problem("is too large".to_string()))?;
        let mut bytes = vec![0; size];
        let frame = reader.next_frame(&mut bytes)?;
        if (frame.color_type, frame.bit_depth) != (png::ColorType::Grayscale, png::BitDepth::Eight) {
            return Err(problem("is not a grey picture of 8 bits".to_string()).into());
        }
        let (width, height) = (frame.width as usize, frame.height as usize);
        let mut sheet = Self { pixels: Vec::with_capacity(width * height), rows: Vec::new() };
        for row in 0..height / SIDE {
            for column in 0..(width / SIDE).min(columns) {
                for line in row * SIDE..(row + 1) * SIDE {
                    let start = line * frame.line_size + column * SIDE;
                    sheet.pixels.extend(bytes[start..start + SIDE].iter().map(|&grey| f32::from(grey) / 255.0));
                }
                sheet.rows.push(row);
            }
        }
        Ok(sheet)
    }

    /// How many images there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
}

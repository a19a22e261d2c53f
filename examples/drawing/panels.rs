//! Class probabilities over the plane, one panel per method, with the data on top. All of it is plotters; none of it is
//! needed to use the crate.

#[path = "smooth.rs"]
mod smooth;

use std::error::Error;
use std::path::Path;

use ndarray::Array2;
use plotters::prelude::*;
use riemannian_laplace::prelude::*;

const INK: RGBColor = RGBColor(38, 42, 51);
/// Class 0, undecided, class 1.
const COLORS: [RGBColor; 3] = [RGBColor(222, 92, 30), RGBColor(250, 249, 246), RGBColor(36, 100, 180)];
/// Steps of the colour scale.
const STEPS: f64 = 20.0;
/// Pixels at the left, above and below the panels, and at the right for the scale.
const MARGINS: [i32; 4] = [110, 110, 120, 330];

/// A rectangle of the plane, seen at a grid of points.
#[derive(Debug, Clone, Copy)]
pub struct Plane {
    /// From left to right.
    pub x: (f64, f64),
    /// From bottom to top.
    pub y: (f64, f64),
    /// Points along x and along y.
    pub points: (usize, usize),
}

impl Plane {
    /// The points, row by row from the bottom.
    pub fn grid(&self) -> Array2<f64> {
        let (columns, rows) = self.points;
        let at = |(low, high): (f64, f64), i: usize, n: usize| low + (high - low) * i as f64 / (n - 1) as f64;
        Array2::from_shape_fn((columns * rows, 2), |(point, axis)| match axis {
            0 => at(self.x, point % columns, columns),
            _ => at(self.y, point / columns, rows),
        })
    }

    /// The value between grid points, linear along each axis.
    fn interpolate(&self, values: &[f64], (x, y): (f64, f64)) -> f64 {
        let (columns, rows) = self.points;
        let place = |(low, high): (f64, f64), at: f64, n: usize| {
            let exact = ((at - low) / (high - low) * (n - 1) as f64).clamp(0.0, (n - 1) as f64);
            let whole = (exact as usize).min(n - 2);
            (whole, exact - whole as f64)
        };
        let ((i, s), (j, t)) = (place(self.x, x, columns), place(self.y, y, rows));
        let value = |i: usize, j: usize| values[j * columns + i];
        (1.0 - t) * ((1.0 - s) * value(i, j) + s * value(i + 1, j))
            + t * ((1.0 - s) * value(i, j + 1) + s * value(i + 1, j + 1))
    }
}

/// The colour of a probability of class 1, in steps.
fn color(probability: f64) -> RGBColor {
    let middle = ((probability * STEPS).floor().clamp(0.0, STEPS - 1.0) + 0.5) / STEPS;
    let (end, share) = if middle < 0.5 { (COLORS[0], 1.0 - 2.0 * middle) } else { (COLORS[2], 2.0 * middle - 1.0) };
    let mix = |from: u8, to: u8| (f64::from(from) + 0.75 * share * (f64::from(to) - f64::from(from))).round() as u8;
    let RGBColor(red, green, blue) = COLORS[1];
    RGBColor(mix(red, end.0), mix(green, end.1), mix(blue, end.2))
}

/// Draws the probability of class 1 at the plane's grid, one named panel each, with the decision boundary, the data and
/// the named points. `classes` are the names of class 0 and class 1.
pub fn draw(
    path: &Path,
    plane: &Plane,
    panels: &[(&str, Vec<f64>)],
    data: &Dataset,
    classes: [&str; 2],
    named: &[(&str, [f64; 2])],
) -> Result<(), Box<dyn Error>> {
    let text = |size: i32| ("sans-serif", size).into_font().color(&INK);
    let [left, top, bottom, right] = MARGINS;
    let (width, gap) = (880, 50);
    let height = (f64::from(width) * (plane.y.1 - plane.y.0) / (plane.x.1 - plane.x.0)) as i32;
    let count = panels.len() as i32;
    let size = (left + count * width + (count - 1) * gap + right, top + height + bottom);
    smooth::save(path, (size.0 as usize / 2, size.1 as usize / 2), |area| {
        for (index, (name, values)) in panels.iter().enumerate() {
            let x0 = left + index as i32 * (width + gap);
            let to_plane = |(column, row): (i32, i32)| {
                let share = |part: i32, whole: i32| (f64::from(part) + 0.5) / f64::from(whole);
                let x = plane.x.0 + share(column, width) * (plane.x.1 - plane.x.0);
                (x, plane.y.1 - share(row, height) * (plane.y.1 - plane.y.0))
            };
            let to_pixel = |[x, y]: [f64; 2]| {
                let column = (x - plane.x.0) / (plane.x.1 - plane.x.0) * f64::from(width);
                let row = (plane.y.1 - y) / (plane.y.1 - plane.y.0) * f64::from(height);
                (x0 + column as i32, top + row as i32)
            };
            // The map; the boundary is where a neighbour has the other class.
            let probability = |at| plane.interpolate(values, to_plane(at));
            for (column, row) in (0..width).flat_map(|column| (0..height).map(move |row| (column, row))) {
                area.draw_pixel((x0 + column, top + row), &color(probability((column, row))))?;
            }
            for (column, row) in (0..width - 1).flat_map(|column| (0..height - 1).map(move |row| (column, row))) {
                let here = probability((column, row)) >= 0.5;
                if [(column + 1, row), (column, row + 1)].iter().any(|&at| (probability(at) >= 0.5) != here) {
                    area.draw(&Circle::new((x0 + column, top + row), 3, INK.filled()))?;
                }
            }
            for (input, target) in data.inputs().rows().into_iter().zip(data.targets()) {
                let at = to_pixel([input[0], input[1]]);
                area.draw(&Circle::new(at, 10, WHITE.filled()))?;
                area.draw(&Circle::new(at, 7, COLORS[if *target > 0.5 { 2 } else { 0 }].filled()))?;
            }
            for (label, at) in named {
                let (x, y) = to_pixel(*at);
                for (thick, ink) in [(12, WHITE), (6, INK)] {
                    area.draw(&PathElement::new([(x - 13, y - 13), (x + 13, y + 13)], ink.stroke_width(thick)))?;
                    area.draw(&PathElement::new([(x - 13, y + 13), (x + 13, y - 13)], ink.stroke_width(thick)))?;
                }
                area.draw(&Text::new(label.to_string(), (x + 26, y - 24), text(46)))?;
            }
            area.draw(&Rectangle::new([(x0, top), (x0 + width, top + height)], INK.mix(0.5).stroke_width(3)))?;
            let centred = text(58).pos(plotters::style::text_anchor::Pos::new(
                plotters::style::text_anchor::HPos::Center,
                plotters::style::text_anchor::VPos::Center,
            ));
            area.draw(&Text::new(name.to_string(), (x0 + width / 2, top / 2), centred.clone()))?;
            for x in (plane.x.0.ceil() as i32..=plane.x.1 as i32).filter(|x| x % 2 == 0) {
                let (column, row) = to_pixel([f64::from(x), plane.y.0]);
                area.draw(&PathElement::new([(column, row), (column, row + 14)], INK.mix(0.5).stroke_width(3)))?;
                let number = x.to_string().replace('-', "−");
                let style = centred.clone();
                area.draw(&Text::new(number, (column, row + 48), resized(&style, 44)))?;
            }
            for y in (plane.y.0.ceil() as i32..=plane.y.1 as i32).filter(|y| index == 0 && y % 2 == 0) {
                let (column, row) = to_pixel([plane.x.0, f64::from(y)]);
                area.draw(&PathElement::new([(column - 14, row), (column, row)], INK.mix(0.5).stroke_width(3)))?;
                area.draw(&Text::new(y.to_string().replace('-', "−"), (column - 50, row), resized(&centred, 44)))?;
            }
        }
        // The scale.
        let x0 = left + count * (width + gap);
        for row in 0..height {
            let probability = 1.0 - (f64::from(row) + 0.5) / f64::from(height);
            area.draw(&PathElement::new([(x0, top + row), (x0 + 60, top + row)], color(probability)))?;
        }
        area.draw(&Rectangle::new([(x0, top), (x0 + 60, top + height)], INK.mix(0.5).stroke_width(3)))?;
        for (level, class) in
            [(0.0, Some(classes[0])), (0.25, None), (0.5, None), (0.75, None), (1.0, Some(classes[1]))]
        {
            let row = top + ((1.0 - level) * f64::from(height)) as i32;
            area.draw(&PathElement::new([(x0 + 60, row), (x0 + 74, row)], INK.mix(0.5).stroke_width(3)))?;
            let label = class.map_or(level.to_string(), |class| format!("{level} {class}"));
            area.draw(&Text::new(label, (x0 + 86, row - 24), text(46)))?;
        }
        Ok(())
    })
}

/// The same style with another size of the font.
fn resized<'a>(style: &TextStyle<'a>, size: i32) -> TextStyle<'a> {
    TextStyle { font: ("sans-serif", size).into_font(), ..style.clone() }
}

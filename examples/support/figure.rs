//! Figures made to be looked at, drawn once for SVG and once for PNG.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontStyle;

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The text font of bitmaps; SVG viewers use their own sans-serif.
pub static FONT: &[u8] = include_bytes!("DejaVuSans-subset.ttf");

pub const INK: RGBColor = RGBColor(40, 44, 52);
pub const GRID: RGBColor = RGBColor(225, 228, 232);
const SHADE: RGBColor = RGBColor(238, 240, 243);
pub const BLUE: RGBColor = RGBColor(46, 109, 180);
pub const ORANGE: RGBColor = RGBColor(214, 110, 40);

/// One panel: curves of sampled networks, their mean and band, data, and the region that has training data.
pub struct BandPanel {
    pub title: String,
    pub x: Vec<f64>,
    pub mean: Vec<f64>,
    /// Lower and upper edge of the predictive band (mean ± 2 deviations of y).
    pub band: (Vec<f64>, Vec<f64>),
    pub curves: Vec<Vec<f64>>,
    pub training: Vec<(f64, f64)>,
    pub test: Vec<(f64, f64)>,
    /// Intervals of x with training data.
    pub covered: Vec<(f64, f64)>,
}

/// Draws panels row by row to `<path>.svg` and `<path>.png`.
pub fn draw_bands(path: &Path, rows: &[Vec<BandPanel>], y_range: (f64, f64)) -> Outcome {
    // Registering the same font twice is harmless; a second figure does so.
    let _ = plotters::style::register_font("sans-serif", FontStyle::Normal, FONT);
    let columns = rows.iter().map(Vec::len).max().unwrap_or(1);
    let size = (330 * columns as u32 + 20, 280 * rows.len() as u32 + 50);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let svg = path.with_extension("svg");
    draw_all(SVGBackend::new(&svg, size).into_drawing_area(), rows, columns, y_range)?;
    let png = path.with_extension("png");
    draw_all(BitMapBackend::new(&png, size).into_drawing_area(), rows, columns, y_range)
}

fn draw_all<B: DrawingBackend>(
    area: DrawingArea<B, Shift>,
    rows: &[Vec<BandPanel>],
    columns: usize,
    y_range: (f64, f64),
) -> Outcome
where
    B::ErrorType: 'static,
{
    area.fill(&WHITE)?;
    let (height, _) = (area.dim_in_pixel().1, ());
    let (panels, legend) = area.split_vertically(height as i32 - 36);
    for (row, cells) in rows.iter().zip(panels.split_evenly((rows.len(), 1))) {
        for (panel, cell) in row.iter().zip(cells.split_evenly((1, columns))) {
            draw_panel(&cell, panel, y_range)?;
        }
    }
    draw_legend(&legend)?;
    area.present()?;
    Ok(())
}

fn draw_panel<B: DrawingBackend>(area: &DrawingArea<B, Shift>, panel: &BandPanel, y_range: (f64, f64)) -> Outcome
where
    B::ErrorType: 'static,
{
    let x_range = panel.x[0]..panel.x[panel.x.len() - 1];
    let mut chart = ChartBuilder::on(area)
        .margin(6)
        .margin_right(12)
        .caption(&panel.title, ("sans-serif", 15).into_font().color(&INK))
        .x_label_area_size(30)
        .y_label_area_size(38)
        .build_cartesian_2d(x_range, y_range.0..y_range.1)?;
    for (low, high) in &panel.covered {
        chart.draw_series(std::iter::once(Rectangle::new([(*low, y_range.0), (*high, y_range.1)], SHADE.filled())))?;
    }
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK.mix(0.5))
        .x_labels(7)
        .y_labels(7)
        .label_style(("sans-serif", 11).into_font().color(&INK))
        .x_desc("x")
        .y_desc("y")
        .draw()?;
    let clipped = |values: &[f64]| -> Vec<(f64, f64)> {
        panel.x.iter().zip(values).map(|(x, y)| (*x, y.clamp(y_range.0, y_range.1))).collect()
    };
    let outline: Vec<(f64, f64)> =
        clipped(&panel.band.0).into_iter().chain(clipped(&panel.band.1).into_iter().rev()).collect();
    chart.draw_series(std::iter::once(Polygon::new(outline, BLUE.mix(0.14).filled())))?;
    for curve in &panel.curves {
        for piece in visible_pieces(&panel.x, curve, y_range) {
            chart.draw_series(LineSeries::new(piece, BLUE.mix(0.22).stroke_width(1)))?;
        }
    }
    let inside = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points.iter().copied().filter(|(_, y)| (y_range.0..=y_range.1).contains(y)).collect()
    };
    chart.draw_series(inside(&panel.test).into_iter().map(|at| Circle::new(at, 2, ORANGE.stroke_width(1))))?;
    chart.draw_series(inside(&panel.training).into_iter().map(|at| Circle::new(at, 2, INK.mix(0.65).filled())))?;
    for piece in visible_pieces(&panel.x, &panel.mean, y_range) {
        chart.draw_series(LineSeries::new(piece, INK.stroke_width(2)))?;
    }
    Ok(())
}

/// The parts of a curve that lie within the range, so that nothing is drawn along its edge.
fn visible_pieces(x: &[f64], y: &[f64], range: (f64, f64)) -> Vec<Vec<(f64, f64)>> {
    let mut pieces = vec![Vec::new()];
    for (x, y) in x.iter().zip(y) {
        if (range.0..=range.1).contains(y) {
            if let Some(piece) = pieces.last_mut() {
                piece.push((*x, *y));
            }
        } else if pieces.last().is_some_and(|piece| !piece.is_empty()) {
            pieces.push(Vec::new());
        }
    }
    pieces.retain(|piece| piece.len() > 1);
    pieces
}

fn draw_legend<B: DrawingBackend>(area: &DrawingArea<B, Shift>) -> Outcome
where
    B::ErrorType: 'static,
{
    let text = ("sans-serif", 12).into_font().color(&INK);
    let mut x = 24;
    let middle = 16;
    let mut entry = |label: &str, kind: usize| -> Outcome {
        match kind {
            0 => area.draw(&Circle::new((x + 10, middle), 3, INK.mix(0.65).filled()))?,
            1 => area.draw(&Circle::new((x + 10, middle), 3, ORANGE.stroke_width(1)))?,
            2 => area.draw(&PathElement::new([(x, middle), (x + 20, middle)], INK.stroke_width(2)))?,
            3 => area.draw(&PathElement::new([(x, middle), (x + 20, middle)], BLUE.mix(0.5).stroke_width(1)))?,
            4 => area.draw(&Rectangle::new([(x, middle - 6), (x + 20, middle + 6)], BLUE.mix(0.14).filled()))?,
            _ => area.draw(&Rectangle::new([(x, middle - 6), (x + 20, middle + 6)], SHADE.filled()))?,
        }
        area.draw(&Text::new(label.to_string(), (x + 27, middle - 7), text.clone()))?;
        x += 50 + 7 * label.chars().count() as i32;
        Ok(())
    };
    let entries = ["training data", "test data", "mean", "samples", "mean ± 2 sd of y", "region with training data"];
    for (kind, label) in entries.into_iter().enumerate() {
        entry(label, kind)?;
    }
    Ok(())
}

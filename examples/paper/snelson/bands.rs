//! The paper's figure: sampled curves, their mean and band, data, and the region that has training data.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::support::canvas::Drawing;
use super::support::figure::{BLUE, GRID, INK, ORANGE, Outcome};

const SHADE: RGBColor = RGBColor(238, 240, 243);

/// One panel. Without a mean it says that every sample failed.
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

/// Panels, row by row.
pub struct BandFigure {
    pub rows: Vec<Vec<BandPanel>>,
    pub y_range: (f64, f64),
}

const LEGEND: u32 = 30;

impl BandFigure {
    fn columns(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(1)
    }
}

impl Drawing for BandFigure {
    fn size(&self) -> (u32, u32) {
        (240 * self.columns() as u32 + 10, 210 * self.rows.len() as u32 + LEGEND)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: f64) -> Outcome
    where
        B::ErrorType: 'static,
    {
        area.fill(&WHITE)?;
        let height = f64::from(area.dim_in_pixel().1) - scale * f64::from(LEGEND);
        let (panels, legend) = area.split_vertically(height as i32);
        for (row, cells) in self.rows.iter().zip(panels.split_evenly((self.rows.len(), 1))) {
            for (panel, cell) in row.iter().zip(cells.split_evenly((1, self.columns()))) {
                panel.draw(&cell, self.y_range, scale)?;
            }
        }
        draw_legend(&legend, scale)
    }
}

impl BandPanel {
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, y_range: (f64, f64), scale: f64) -> Outcome
    where
        B::ErrorType: 'static,
    {
        let px = |points: f64| (scale * points).round() as i32;
        let width = |points: f64| px(points).max(1) as u32;
        let font = |size: f64| ("sans-serif", scale * size).into_font().color(&INK);
        let ends = self.x.first().zip(self.x.last()).map_or((0.0, 1.0), |(low, high)| (*low, *high));
        let mut chart = ChartBuilder::on(area)
            .margin(px(5.0))
            .margin_right(px(9.0))
            .caption(&self.title, font(12.5))
            .x_label_area_size(px(20.0))
            .y_label_area_size(px(24.0))
            .build_cartesian_2d(ends.0..ends.1, y_range.0..y_range.1)?;
        let shade = |(low, high): &(f64, f64)| Rectangle::new([(*low, y_range.0), (*high, y_range.1)], SHADE.filled());
        chart.draw_series(self.covered.iter().map(shade))?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.stroke_width(width(0.7)))
            .axis_style(INK.mix(0.5).stroke_width(width(0.7)))
            .set_all_tick_mark_size(px(3.0))
            .x_labels(7)
            .y_labels(7)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| format!("{y:.0}"))
            .label_style(font(10.0))
            .draw()?;
        let clipped = |values: &[f64]| -> Vec<(f64, f64)> {
            self.x.iter().zip(values).map(|(x, y)| (*x, y.clamp(y_range.0, y_range.1))).collect()
        };
        let (low, high) = (clipped(&self.band.0), clipped(&self.band.1));
        let outline: Vec<(f64, f64)> = low.into_iter().chain(high.into_iter().rev()).collect();
        if outline.is_empty() {
            let (x, y) = (0.95 * ends.0 + 0.05 * ends.1, 0.1 * y_range.0 + 0.9 * y_range.1);
            chart.draw_series([Text::new("every sample failed", (x, y), font(11.0))])?;
        } else {
            chart.draw_series([Polygon::new(outline, BLUE.mix(0.14).filled())])?;
        }
        for piece in self.curves.iter().flat_map(|curve| visible_pieces(&self.x, curve, y_range)) {
            chart.draw_series(LineSeries::new(piece, BLUE.mix(0.25).stroke_width(width(0.8))))?;
        }
        let inside = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
            points.iter().copied().filter(|(_, y)| (y_range.0..=y_range.1).contains(y)).collect()
        };
        let hollow = ORANGE.stroke_width(width(0.9));
        chart.draw_series(
            inside(&self.training).into_iter().map(|at| Circle::new(at, px(1.3), INK.mix(0.6).filled())),
        )?;
        chart.draw_series(inside(&self.test).into_iter().map(|at| Circle::new(at, px(1.7), hollow)))?;
        for piece in visible_pieces(&self.x, &self.mean, y_range) {
            chart.draw_series(LineSeries::new(piece, INK.stroke_width(width(1.6))))?;
        }
        Ok(())
    }
}

/// The parts of a curve that lie within the range, cut where they leave it.
fn visible_pieces(x: &[f64], y: &[f64], (low, high): (f64, f64)) -> Vec<Vec<(f64, f64)>> {
    let inside = |y: f64| (low..=high).contains(&y);
    // The point between two neighbours where the curve crosses an edge.
    let crossing = |(x0, y0): (f64, f64), (x1, y1): (f64, f64)| {
        let outer = if inside(y0) { y1 } else { y0 };
        let edge = outer.clamp(low, high);
        (x0 + (x1 - x0) * (edge - y0) / (y1 - y0), edge)
    };
    let mut pieces: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    let mut before: Option<(f64, f64)> = None;
    for point in x.iter().copied().zip(y.iter().copied()) {
        if let Some(before) = before
            && inside(before.1) != inside(point.1)
        {
            let cut = crossing(before, point);
            match pieces.last_mut() {
                Some(piece) if inside(before.1) => piece.push(cut),
                _ => pieces.push(vec![cut]),
            }
        }
        if inside(point.1)
            && let Some(piece) = pieces.last_mut()
        {
            piece.push(point);
        }
        before = Some(point);
    }
    pieces.retain(|piece| piece.len() > 1);
    pieces
}

fn draw_legend<B: DrawingBackend>(area: &DrawingArea<B, Shift>, scale: f64) -> Outcome
where
    B::ErrorType: 'static,
{
    let px = |points: f64| (scale * points).round() as i32;
    let text = ("sans-serif", scale * 11.0).into_font().color(&INK);
    let width = |points: f64| px(points).max(1) as u32;
    let entries = ["training data", "test data", "mean", "samples", "mean ± 2 sd of y", "region with training data"];
    let middle = 12.0;
    let mut x = 24.0;
    for (kind, label) in entries.into_iter().enumerate() {
        let centre = (px(x + 10.0), px(middle));
        let line = [(px(x), px(middle)), (px(x + 20.0), px(middle))];
        let area_of = [(px(x), px(middle - 5.0)), (px(x + 20.0), px(middle + 5.0))];
        match kind {
            0 => area.draw(&Circle::new(centre, px(1.8), INK.mix(0.6).filled()))?,
            1 => area.draw(&Circle::new(centre, px(2.2), ORANGE.stroke_width(width(0.9))))?,
            2 => area.draw(&PathElement::new(line, INK.stroke_width(width(1.6))))?,
            3 => area.draw(&PathElement::new(line, BLUE.mix(0.5).stroke_width(width(0.8))))?,
            4 => area.draw(&Rectangle::new(area_of, BLUE.mix(0.2).filled()))?,
            _ => area.draw(&Rectangle::new(area_of, SHADE.filled()))?,
        }
        area.draw(&Text::new(label, (px(x + 26.0), px(middle - 5.5)), text.clone()))?;
        x += 46.0 + 6.2 * label.chars().count() as f64;
    }
    Ok(())
}

//! Curves of a mean with a band of two standard deviations.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::canvas::Drawing;
use super::figure::{BLUE, GRID, INK, ORANGE, Outcome};

/// A named curve.
pub struct Line {
    pub name: String,
    /// x, mean and standard deviation.
    pub points: Vec<(f64, f64, f64)>,
}

/// Curves in one panel with a legend.
pub struct LineFigure {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub lines: Vec<Line>,
}

const PURPLE: RGBColor = RGBColor(128, 90, 170);
const GREEN: RGBColor = RGBColor(60, 145, 90);
const COLORS: [RGBColor; 4] = [INK, ORANGE, PURPLE, BLUE];

fn color(index: usize) -> RGBColor {
    COLORS.get(index).copied().unwrap_or(GREEN)
}

impl Drawing for LineFigure {
    fn size(&self) -> (u32, u32) {
        (520, 380)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: f64) -> Outcome
    where
        B::ErrorType: 'static,
    {
        area.fill(&WHITE)?;
        let px = |points: f64| (scale * points).round() as i32;
        let font = |size: f64| ("sans-serif", px(size)).into_font().color(&INK);
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let high = all().map(|(_, mean, deviation)| mean + 2.0 * deviation).fold(0.0, f64::max);
        let (left, right) = all().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (x, ..)| (a.min(*x), b.max(*x)));
        let mut chart = ChartBuilder::on(area)
            .margin(px(8.0))
            .margin_right(px(14.0))
            .caption(&self.title, font(14.0))
            .x_label_area_size(px(36.0))
            .y_label_area_size(px(52.0))
            .build_cartesian_2d(left..right, 0.0..1.25 * high)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.stroke_width(px(1.0) as u32))
            .axis_style(INK.mix(0.5).stroke_width(px(1.0) as u32))
            .set_all_tick_mark_size(px(4.0))
            .x_labels(10)
            .y_labels(6)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .label_style(font(11.0))
            .axis_desc_style(font(12.0))
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .draw()?;
        for (index, line) in self.lines.iter().enumerate() {
            let color = color(index);
            let edge = |sign: f64| {
                line.points.iter().map(move |(x, mean, deviation)| (*x, (mean + sign * 2.0 * deviation).max(0.0)))
            };
            let outline: Vec<_> = edge(-1.0).chain(edge(1.0).rev()).collect();
            chart.draw_series([Polygon::new(outline, color.mix(0.1).filled())])?;
            let means = line.points.iter().map(|(x, mean, _)| (*x, *mean));
            // Lines that coincide stay visible: earlier ones are wider.
            let wider = (self.lines.len() - 1 - index) as f64;
            let width = px(1.4 + 1.5 * wider) as u32;
            chart
                .draw_series(LineSeries::new(means.clone(), color.stroke_width(width)))?
                .label(line.name.clone())
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + (16.0 * scale) as i32, y)], color.stroke_width(width))
                });
            chart.draw_series(means.map(|at| Circle::new(at, px(2.2 + 0.8 * wider), color.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .margin(px(8.0))
            .legend_area_size(px(22.0))
            .background_style(WHITE.mix(0.85))
            .border_style(GRID)
            .label_font(font(12.0))
            .draw()?;
        Ok(())
    }
}

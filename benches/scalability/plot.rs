//! The paper's figure: the data, and the time per sample against the number of parameters.

use plotters::coord::Shift;
use plotters::prelude::*;
use riemannian_laplace::Dataset;

use super::measure::{Measurement, Solver};
use super::support::canvas::Drawing;
use super::support::figure::{BLUE, GRID, INK, ORANGE, Outcome};

const PURPLE: RGBColor = RGBColor(128, 90, 170);

/// Seconds per sample against D, for one solver and one N.
struct Curve {
    name: String,
    color: RGBColor,
    /// Larger for more points.
    width: f64,
    points: Vec<(f64, f64)>,
}

pub struct ScalabilityFigure {
    data: Vec<(f64, f64)>,
    curves: Vec<Curve>,
}

/// The figure of these measurements.
pub fn figure(data: &Dataset, measurements: &[Measurement]) -> ScalabilityFigure {
    let mut sizes: Vec<usize> = measurements.iter().map(|m| m.n_points).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut curves = Vec::new();
    for solver in Solver::ALL {
        let color = match solver {
            Solver::FisherFunction => BLUE,
            Solver::FisherWeight => PURPLE,
            Solver::Monge => ORANGE,
        };
        for (rank, &points) in sizes.iter().enumerate() {
            let of = measurements.iter().filter(|m| m.solver == solver && m.n_points == points);
            let points_on_curve: Vec<(f64, f64)> =
                of.filter_map(|m| m.sampled.map(|run| (m.n_params as f64, run.seconds))).collect();
            if !points_on_curve.is_empty() {
                let name = format!("{}, N = {points}", solver.name());
                curves.push(Curve { name, color, width: 1.0 + rank as f64, points: points_on_curve });
            }
        }
    }
    let shown = data.inputs().iter().zip(data.targets()).take(100).map(|(x, y)| (*x, *y)).collect();
    ScalabilityFigure { data: shown, curves }
}

impl Drawing for ScalabilityFigure {
    fn size(&self) -> (u32, u32) {
        (940, 400)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: f64) -> Outcome
    where
        B::ErrorType: 'static,
    {
        area.fill(&WHITE)?;
        let px = |points: f64| (scale * points).round() as i32;
        let font = |size: f64| ("sans-serif", px(size)).into_font().color(&INK);
        let (left, right) = area.split_horizontally(px(330.0));
        let mut chart = ChartBuilder::on(&left)
            .margin(px(8.0))
            .caption("the data, N = 100 of them", font(14.0))
            .x_label_area_size(px(36.0))
            .y_label_area_size(px(44.0))
            .build_cartesian_2d(-1.9..1.9, -2.8..2.8)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.stroke_width(px(1.0) as u32))
            .label_style(font(11.0))
            .axis_desc_style(font(12.0))
            .x_desc("x, standardised")
            .y_desc("y, standardised")
            .draw()?;
        chart.draw_series(self.data.iter().map(|at| Circle::new(*at, px(2.2), BLUE.mix(0.7).filled())))?;

        let all = || self.curves.iter().flat_map(|curve| &curve.points);
        let range = |pick: fn(&(f64, f64)) -> f64| {
            all().map(pick).fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)))
        };
        let ((x_low, x_high), (y_low, y_high)) = (range(|at| at.0), range(|at| at.1));
        let mut chart = ChartBuilder::on(&right)
            .margin(px(8.0))
            .caption("seconds per sample", font(14.0))
            .x_label_area_size(px(36.0))
            .y_label_area_size(px(64.0))
            .build_cartesian_2d((0.8 * x_low..1.3 * x_high).log_scale(), (0.5 * y_low..40.0 * y_high).log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.stroke_width(px(1.0) as u32))
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| format!("{y}"))
            .label_style(font(11.0))
            .axis_desc_style(font(12.0))
            .x_desc("number of parameters D")
            .y_desc("seconds")
            .draw()?;
        for curve in &self.curves {
            let style = curve.color.stroke_width(px(curve.width) as u32);
            chart
                .draw_series(LineSeries::new(curve.points.iter().copied(), style))?
                .label(curve.name.clone())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + (16.0 * scale) as i32, y)], style));
            chart.draw_series(
                curve.points.iter().map(|at| Circle::new(*at, px(1.5 + curve.width), curve.color.filled())),
            )?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .margin(px(8.0))
            .legend_area_size(px(22.0))
            .background_style(WHITE.mix(0.85))
            .border_style(GRID)
            .label_font(font(11.0))
            .draw()?;
        Ok(())
    }
}

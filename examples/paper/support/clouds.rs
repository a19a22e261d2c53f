//! Samples in the plane on top of the true density: dots, contours, and marginal histograms with the true marginals.

use ndarray::Array2;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use riemannian_laplace::internals::target::Target;

use super::canvas::Drawing;
use super::comparison::progress;
use super::contours::Grid;
use super::figure::{BLUE, GRID, INK, ORANGE, Outcome};
use super::lowdim::placement::{Method, Placement};
use super::lowdim::truth::Truth;

/// Samples of one method.
pub struct CloudPanel {
    pub title: String,
    pub points: Array2<f64>,
    /// The base point of the approximation.
    pub base: [f64; 2],
}

impl CloudPanel {
    /// One panel per method, with `samples` new samples of seed 0; `title` is called with its name.
    pub fn of_methods(
        methods: &[Method],
        target: &Target,
        placement: &Placement,
        samples: usize,
        title: impl Fn(&str) -> String,
    ) -> Outcome<Vec<Self>> {
        let base = [placement.base[0], placement.base[1]];
        let panel = |method: &Method| {
            let bar = progress(&format!("picture of {}", method.name()), samples);
            let points = placement.draw(target, *method, samples, 0, &bar)?.reached();
            bar.finish_and_clear();
            Ok(Self { title: title(method.name()), points, base })
        };
        methods.iter().map(panel).collect()
    }
}

/// Panels over one density, with the window that they show.
pub struct CloudRow {
    pub truth: Truth,
    pub x: (f64, f64),
    pub y: (f64, f64),
    pub panels: Vec<CloudPanel>,
}

/// Rows of panels with a legend.
pub struct CloudFigure {
    pub rows: Vec<CloudRow>,
}

/// Shares of the mass that the contours enclose.
const SHARES: [f64; 2] = [0.5, 0.95];
/// The most dots in a panel; histograms count all samples.
const DOTS: usize = 2_000;
/// Bars of a histogram.
const BARS: usize = 40;
/// Sizes in points.
const PANEL: (u32, u32) = (300, 322);
const LEGEND: u32 = 34;
const STRIP: f64 = 46.0;
const LEFT: f64 = 42.0;
const BELOW: f64 = 34.0;

type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

impl Drawing for CloudFigure {
    fn size(&self) -> (u32, u32) {
        let columns = self.rows.iter().map(|row| row.panels.len()).max().unwrap_or(1) as u32;
        (PANEL.0 * columns + 10, PANEL.1 * self.rows.len() as u32 + LEGEND)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: f64) -> Outcome
    where
        B::ErrorType: 'static,
    {
        area.fill(&WHITE)?;
        let (panels, legend) = area.split_vertically(pixels(scale, f64::from(PANEL.1)) * self.rows.len() as i32);
        let columns = self.rows.iter().map(|row| row.panels.len()).max().unwrap_or(1);
        for (row, cells) in self.rows.iter().zip(panels.split_evenly((self.rows.len(), 1))) {
            let grid = Grid::new(row.x, row.y, 2_000, 800, &row.truth.log_density);
            let contours: Vec<_> = grid.levels(&SHARES).into_iter().flat_map(|level| grid.contour(level)).collect();
            for (panel, cell) in row.panels.iter().zip(cells.split_evenly((1, columns))) {
                Pen { scale, row }.panel(&cell, panel, &contours)?;
            }
        }
        draw_legend(&legend, scale)
    }
}

fn pixels(scale: f64, points: f64) -> i32 {
    (scale * points).round() as i32
}

/// The scale, and the row whose panels are drawn.
struct Pen<'a> {
    scale: f64,
    row: &'a CloudRow,
}

impl Pen<'_> {
    fn px(&self, points: f64) -> i32 {
        pixels(self.scale, points)
    }

    fn line(&self, color: impl Color, width: f64) -> ShapeStyle {
        color.stroke_width(self.px(width).max(1) as u32)
    }

    fn panel<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        panel: &CloudPanel,
        contours: &[Vec<(f64, f64)>],
    ) -> Outcome
    where
        B::ErrorType: 'static,
    {
        let area = area.margin(self.px(4.0), self.px(2.0), self.px(4.0), self.px(4.0));
        let title = ("sans-serif", self.px(14.0)).into_font().color(&INK);
        area.draw(&Text::new(panel.title.clone(), (self.px(LEFT), self.px(2.0)), title))?;
        let (_, body) = area.split_vertically(self.px(22.0));
        let (width, _) = body.dim_in_pixel();
        let (top, lower) = body.split_vertically(self.px(STRIP));
        let across = width as i32 - self.px(STRIP);
        let (top, _) = top.split_horizontally(across);
        let (middle, right) = lower.split_horizontally(across);

        let mut chart = self.chart(&middle, (LEFT, BELOW), self.row.x, self.row.y)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(self.line(GRID, 1.0))
            .axis_style(self.line(INK.mix(0.5), 1.0))
            .x_labels(6)
            .y_labels(6)
            .set_all_tick_mark_size(self.px(4.0))
            .label_style(("sans-serif", self.px(11.0)).into_font().color(&INK))
            .axis_desc_style(("sans-serif", self.px(12.0)).into_font().color(&INK))
            .x_desc("θ1")
            .y_desc("θ2")
            .draw()?;
        let inside = |(x, y): &(f64, f64)| {
            (self.row.x.0..=self.row.x.1).contains(x) && (self.row.y.0..=self.row.y.1).contains(y)
        };
        let points = panel.points.rows().into_iter().map(|row| (row[0], row[1])).take(DOTS).filter(inside);
        chart.draw_series(points.map(|at| Circle::new(at, self.px(1.3), BLUE.mix(0.28).filled())))?;
        for line in contours {
            chart.draw_series(LineSeries::new(line.iter().copied(), self.line(INK, 0.8)))?;
        }
        let base = (panel.base[0], panel.base[1]);
        chart.draw_series([Circle::new(base, self.px(3.2), WHITE.filled())])?;
        chart.draw_series([Circle::new(base, self.px(2.4), ORANGE.filled())])?;

        for (coordinate, area) in [(0, &top), (1, &right)] {
            self.marginal(area, panel, coordinate)?;
        }
        Ok(())
    }

    /// A histogram of one coordinate with the true marginal, along the x-axis or upright along the y-axis.
    fn marginal<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        panel: &CloudPanel,
        coordinate: usize,
    ) -> Outcome
    where
        B::ErrorType: 'static,
    {
        let range = [self.row.x, self.row.y][coordinate];
        let heights = histogram(&panel.points, coordinate, range);
        let step = (range.1 - range.0) / BARS as f64;
        let density = &self.row.truth.marginals[coordinate];
        let curve: Vec<(f64, f64)> = (0..=240)
            .map(|i| range.0 + (range.1 - range.0) * f64::from(i) / 240.0)
            .map(|at| (at, density(at)))
            .collect();
        // The true marginal determines the scale: bars far above it are cut off.
        let peak = curve.iter().map(|(_, height)| *height).fold(0.0, f64::max);
        let highest = 1.08 * heights.iter().copied().fold(peak, f64::max).min(2.0 * peak);
        let upright = coordinate == 1;
        let placed = |at: f64, height: f64| if upright { (height.min(highest), at) } else { (at, height.min(highest)) };
        let (labels, x, y) =
            if upright { ((0.0, BELOW), (0.0, highest), range) } else { ((LEFT, 0.0), range, (0.0, highest)) };
        let mut chart = self.chart(area, labels, x, y)?;
        chart.draw_series(heights.iter().enumerate().map(|(bar, height)| {
            let low = range.0 + step * bar as f64;
            Rectangle::new([placed(low, 0.0), placed(low + step, *height)], BLUE.mix(0.35).filled())
        }))?;
        let curve = curve.into_iter().map(|(at, height)| placed(at, height));
        chart.draw_series(LineSeries::new(curve, self.line(INK, 1.2)))?;
        Ok(())
    }

    fn chart<'a, B: DrawingBackend + 'a>(
        &self,
        area: &DrawingArea<B, Shift>,
        (left, below): (f64, f64),
        x: (f64, f64),
        y: (f64, f64),
    ) -> Outcome<Chart<'a, B>>
    where
        B::ErrorType: 'static,
    {
        Ok(ChartBuilder::on(area)
            .set_label_area_size(LabelAreaPosition::Left, self.px(left))
            .set_label_area_size(LabelAreaPosition::Bottom, self.px(below))
            .build_cartesian_2d(x.0..x.1, y.0..y.1)?)
    }
}

/// Densities of the bars: shares of all samples, including those outside the range.
fn histogram(points: &Array2<f64>, coordinate: usize, (low, high): (f64, f64)) -> Vec<f64> {
    let mut heights = vec![0.0; BARS];
    let step = (high - low) / BARS as f64;
    let weight = 1.0 / (step * points.nrows().max(1) as f64);
    for value in points.column(coordinate) {
        if (low..high).contains(value) {
            heights[(((value - low) / step) as usize).min(BARS - 1)] += weight;
        }
    }
    heights
}

fn draw_legend<B: DrawingBackend>(area: &DrawingArea<B, Shift>, scale: f64) -> Outcome
where
    B::ErrorType: 'static,
{
    let px = |points: f64| pixels(scale, points);
    let text = ("sans-serif", px(12.0)).into_font().color(&INK);
    let middle = px(13.0);
    let mut x = 20.0;
    let entries = [
        "samples and their marginals",
        "true density (50 and 95 % of its mass) and marginals",
        "base point of the approximation",
    ];
    for (kind, label) in entries.into_iter().enumerate() {
        let line = [(px(x), middle), (px(x + 18.0), middle)];
        match kind {
            0 => area.draw(&Circle::new((px(x + 9.0), middle), px(3.0), BLUE.mix(0.6).filled()))?,
            1 => area.draw(&PathElement::new(line, INK.stroke_width(px(1.2) as u32)))?,
            _ => area.draw(&Circle::new((px(x + 9.0), middle), px(3.0), ORANGE.filled()))?,
        }
        area.draw(&Text::new(label, (px(x + 24.0), middle - px(5.0)), text.clone()))?;
        x += 48.0 + 6.6 * label.chars().count() as f64;
    }
    Ok(())
}

//! Dots in rows on a logarithmic axis: one row per problem, one colour per method.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::canvas::Drawing;
use super::figure::{BLUE, GRID, INK, ORANGE, Outcome};

/// A method's value in one row.
#[derive(Debug, Clone, Copy)]
pub struct Dot {
    /// Index of the method in [`DotFigure::methods`].
    pub method: usize,
    pub value: f64,
    /// A published value: drawn as a ring.
    pub published: bool,
}

/// A row with its name.
pub struct DotRow {
    pub name: String,
    pub dots: Vec<Dot>,
}

/// Rows of dots with a legend, and a line at 1.
pub struct DotFigure {
    pub title: String,
    pub x_label: String,
    /// What the line at 1 is.
    pub unit: String,
    pub methods: Vec<&'static str>,
    pub rows: Vec<DotRow>,
}

const PURPLE: RGBColor = RGBColor(128, 90, 170);
const GREEN: RGBColor = RGBColor(60, 145, 90);
const COLORS: [RGBColor; 5] = [INK, ORANGE, PURPLE, BLUE, GREEN];

/// Sizes in points.
const WIDTH: u32 = 720;
const ROW: u32 = 38;
const HEAD: u32 = 66;
const FOOT: u32 = 52;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 22.0;
/// How far the middle of a line of text lies above that of its letters.
const NUDGE: f64 = 1.5;

/// Where axes may have a label.
const TICKS: [f64; 15] = [0.5, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0];

impl Drawing for DotFigure {
    fn size(&self) -> (u32, u32) {
        (WIDTH, HEAD + ROW * self.rows.len() as u32 + FOOT)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: f64) -> Outcome
    where
        B::ErrorType: 'static,
    {
        area.fill(&WHITE)?;
        let pen = Pen { scale, range: self.range(), figure: self };
        area.draw(&Text::new(self.title.clone(), (pen.px(12.0), pen.px(18.0)), pen.font(14.0)))?;
        pen.legend(area)?;
        pen.bands(area)?;
        pen.axes(area)?;
        for (index, row) in self.rows.iter().enumerate() {
            pen.row(area, index, row)?;
        }
        Ok(())
    }
}

impl DotFigure {
    /// The least and the largest value, with a margin; 1 is always shown.
    fn range(&self) -> (f64, f64) {
        let values = self.rows.iter().flat_map(|row| &row.dots).map(|dot| dot.value);
        let finite = values.filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = finite.fold((1.0, 1.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
        (low / 1.06, (high * 1.08).max(1.3))
    }
}

/// The scale, the range of the axis, and what is drawn.
struct Pen<'a> {
    scale: f64,
    range: (f64, f64),
    figure: &'a DotFigure,
}

impl Pen<'_> {
    fn px(&self, points: f64) -> i32 {
        (self.scale * points).round() as i32
    }

    /// Text that begins at its point, which is in the middle of its height.
    fn font(&self, size: f64) -> TextStyle<'static> {
        ("sans-serif", self.px(size)).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center))
    }

    fn line(&self, color: impl Color, width: f64) -> ShapeStyle {
        color.stroke_width(self.px(width).max(1) as u32)
    }

    /// The position of a value along the axis.
    fn x(&self, value: f64) -> i32 {
        let part = (value / self.range.0).ln() / (self.range.1 / self.range.0).ln();
        self.px(LEFT + part.clamp(0.0, 1.0) * (f64::from(WIDTH) - LEFT - RIGHT))
    }

    /// The middle of a row.
    fn y(&self, row: usize) -> f64 {
        f64::from(HEAD) + (row as f64 + 0.5) * f64::from(ROW)
    }

    fn bottom(&self) -> f64 {
        f64::from(HEAD + ROW * self.figure.rows.len() as u32)
    }

    /// Every other row is grey, so that it is clear to which row a dot belongs.
    fn bands<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Outcome
    where
        B::ErrorType: 'static,
    {
        for index in (0..self.figure.rows.len()).step_by(2) {
            let (middle, half) = (self.y(index), 0.5 * f64::from(ROW));
            let corners = [(0, self.px(middle - half)), (self.x(self.range.1), self.px(middle + half))];
            area.draw(&Rectangle::new(corners, GRID.mix(0.35).filled()))?;
        }
        Ok(())
    }

    fn axes<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Outcome
    where
        B::ErrorType: 'static,
    {
        let (top, bottom) = (self.px(f64::from(HEAD)), self.px(self.bottom()));
        let mut last = i32::MIN / 2;
        for tick in TICKS.into_iter().filter(|tick| (self.range.0..=self.range.1).contains(tick)) {
            let x = self.x(tick);
            let style = if tick == 1.0 { self.line(INK.mix(0.6), 1.4) } else { self.line(GRID, 1.0) };
            area.draw(&PathElement::new([(x, top), (x, bottom)], style))?;
            if x - last > self.px(26.0) {
                let font = self.font(11.0).pos(Pos::new(HPos::Center, VPos::Center));
                area.draw(&Text::new(tick.to_string(), (x, bottom + self.px(12.0)), font))?;
                last = x;
            }
        }
        let frame = self.line(INK.mix(0.5), 1.0);
        area.draw(&PathElement::new([(self.px(LEFT), bottom), (self.x(self.range.1), bottom)], frame))?;
        let label = format!("{} (1: {})", self.figure.x_label, self.figure.unit);
        area.draw(&Text::new(label, (self.px(LEFT), bottom + self.px(34.0)), self.font(12.0)))?;
        Ok(())
    }

    fn row<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, index: usize, row: &DotRow) -> Outcome
    where
        B::ErrorType: 'static,
    {
        let middle = self.y(index);
        area.draw(&Text::new(row.name.clone(), (self.px(12.0), self.px(middle + NUDGE)), self.font(12.0)))?;
        for dot in &row.dots {
            // Methods side by side, so that equal values stay visible.
            let offset = (dot.method as f64 - 0.5 * (self.figure.methods.len() as f64 - 1.0)) * 5.0;
            let (at, color) = ((self.x(dot.value), self.px(middle + offset)), color(dot.method));
            if dot.published {
                area.draw(&Circle::new(at, self.px(5.5), self.line(color, 1.1)))?;
            } else {
                area.draw(&Circle::new(at, self.px(3.6), color.filled()))?;
            }
        }
        Ok(())
    }

    fn legend<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Outcome
    where
        B::ErrorType: 'static,
    {
        let (mut x, y) = (LEFT, 46.0);
        for (index, name) in self.figure.methods.iter().enumerate() {
            area.draw(&Circle::new((self.px(x), self.px(y)), self.px(3.6), color(index).filled()))?;
            area.draw(&Text::new((*name).to_string(), (self.px(x + 9.0), self.px(y + NUDGE)), self.font(12.0)))?;
            x += 36.0 + 7.0 * name.chars().count() as f64;
        }
        if self.figure.rows.iter().flat_map(|row| &row.dots).any(|dot| dot.published) {
            area.draw(&Circle::new((self.px(x), self.px(y)), self.px(5.5), self.line(INK, 1.1)))?;
            area.draw(&Text::new("the paper's", (self.px(x + 11.0), self.px(y + NUDGE)), self.font(12.0)))?;
        }
        Ok(())
    }
}

fn color(method: usize) -> RGBColor {
    COLORS.get(method).copied().unwrap_or(GREEN)
}

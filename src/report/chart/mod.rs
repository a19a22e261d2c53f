//! Small charts as inline SVG: axes with round ticks, lines, bands, dots, spans and bars.
//!
//! Written by hand, because nothing in the field makes what the page needs: plotters and charming draw with fixed colours
//! and without titles, descriptions and roles, and so can neither follow the page's colours (light, dark, paper) nor be
//! read aloud. Here every mark has a class, and the page's style sheet gives it its colour.
//!
//! A chart is 400 units wide, about the width of a phone, so that its text is as large there as on a desk. Lengths of
//! texts are not known without a font: they are estimated from above, by [`text_width`], and ticks are thinned until
//! their labels cannot touch.

mod draw;
mod ticks;

pub use ticks::{Scale, number};

/// The colour of a mark, by its role; the style sheet has a class for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// The first, second … kind of thing shown; at most [`Ink::SERIES`] are told apart.
    Series(usize),
    /// What was observed.
    Observed,
    /// What is wrong, or beyond a limit.
    Bad,
    /// What to compare with: a diagonal, a limit.
    Reference,
}

impl Ink {
    /// The number of series that are told apart: six colours, each drawn in four ways.
    pub const SERIES: usize = 24;

    fn class(self) -> &'static str {
        match self {
            Ink::Series(index) => {
                const CLASSES: [&str; Ink::SERIES] = [
                    "s0",
                    "s1",
                    "s2",
                    "s3",
                    "s4",
                    "s5",
                    "s0 dashed",
                    "s1 dashed",
                    "s2 dashed",
                    "s3 dashed",
                    "s4 dashed",
                    "s5 dashed",
                    "s0 dotted",
                    "s1 dotted",
                    "s2 dotted",
                    "s3 dotted",
                    "s4 dotted",
                    "s5 dotted",
                    "s0 long",
                    "s1 long",
                    "s2 long",
                    "s3 long",
                    "s4 long",
                    "s5 long",
                ];
                CLASSES[index % Ink::SERIES]
            }
            Ink::Observed => "observed",
            Ink::Bad => "bad",
            Ink::Reference => "reference",
        }
    }
}

/// What is drawn, in the units of the data. Marks are drawn in their order; what is not finite is left out.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// A line through points.
    Line(Vec<(f64, f64)>),
    /// The area between two curves: x, lower, upper.
    Band(Vec<(f64, f64, f64)>),
    /// Dots.
    Dots(Vec<(f64, f64)>),
    /// Upright lines, such as intervals: x, lower, upper.
    Spans(Vec<(f64, f64, f64)>),
    /// Rectangles from (left, bottom) to (right, top).
    Bars(Vec<Bar>),
    /// A line across the chart at this height.
    Across(f64),
    /// An upright line through the whole chart.
    Upright(f64),
}

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// Its horizontal extent.
    pub x: (f64, f64),
    /// Its vertical extent.
    pub y: (f64, f64),
}

/// An axis: its name, its ends and its scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What is measured.
    pub label: String,
    /// The smallest number shown.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// How numbers become lengths.
    pub scale: Scale,
}

impl Axis {
    /// A linear axis between two numbers.
    pub fn between(label: impl Into<String>, low: f64, high: f64) -> Self {
        let mut axis = Self { label: label.into(), low, high, scale: Scale::Linear };
        axis.repair();
        axis
    }

    /// A linear axis that has room for all values, with a margin of 4 %.
    pub fn around(label: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = ends(values);
        let margin = 0.04 * (high - low);
        Self::between(label, low - margin, high + margin)
    }

    /// The same, from zero.
    pub fn from_zero(label: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let high = ends(values.into_iter().chain([0.0])).1;
        Self::between(label, 0.0, 1.06 * high)
    }

    /// A linear axis that shows `inner` values and half of their range on either side, as far as `all` go: what is far
    /// beyond would make the rest flat.
    pub fn focused(
        label: impl Into<String>,
        inner: impl IntoIterator<Item = f64>,
        all: impl IntoIterator<Item = f64>,
    ) -> Self {
        let ((low, high), (lowest, highest)) = (ends(inner), ends(all));
        let room = 0.5 * (high - low);
        Self::around(label, [lowest.max(low - room).min(low), highest.min(high + room).max(high)])
    }

    /// A logarithmic axis that has room for all positive values.
    pub fn log(label: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = ends(values.into_iter().filter(|value| *value > 0.0).map(f64::log10));
        let margin = (0.05 * (high - low)).max(0.15);
        let (low, high) = (10f64.powf((low - margin).max(-300.0)), 10f64.powf((high + margin).min(300.0)));
        Self { label: label.into(), low, high, scale: Scale::Log }
    }

    /// An axis without extent has no scale: one is made around its number.
    fn repair(&mut self) {
        if !(self.low.is_finite() && self.high.is_finite()) {
            (self.low, self.high) = (0.0, 1.0);
        }
        // Too little to be told apart by labels, or nothing at all.
        let least = 1e-9 * self.low.abs().max(self.high.abs());
        if self.high - self.low <= least {
            let room = if self.low == 0.0 { 1.0 } else { 0.1 * self.low.abs() };
            (self.low, self.high) = (self.low - room, self.high + room);
        }
    }
}

/// The ends of the finite values; 0 and 1 where there are none.
fn ends(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let finite = values.into_iter().filter(|value| value.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// A chart: what it is called, what it shows in words, its axes, marks and legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// A few words.
    pub title: String,
    /// What it shows, for those who cannot see it.
    pub description: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub marks: Vec<(Ink, Mark)>,
    /// The names of colours; none where the caption says it all.
    pub legend: Vec<(Ink, String)>,
}

impl Chart {
    /// A chart with nothing in it yet.
    pub fn new(title: impl Into<String>, description: impl Into<String>, x: Axis, y: Axis) -> Self {
        let (title, description) = (title.into(), description.into());
        Self { title, description, x, y, marks: Vec::new(), legend: Vec::new() }
    }

    /// Adds a mark.
    pub fn mark(mut self, ink: Ink, mark: Mark) -> Self {
        self.marks.push((ink, mark));
        self
    }

    /// Adds a line to the legend.
    pub fn key(mut self, ink: Ink, words: impl Into<String>) -> Self {
        self.legend.push((ink, words.into()));
        self
    }

    /// The SVG element. `id` is unique on the page.
    ///
    /// ```
    /// use riemannian_laplace::internals::report::{Axis, Chart, Ink, Mark};
    /// let chart = Chart::new("a < b", "A line.", Axis::between("x", 0.0, 1.0), Axis::between("y", 0.0, 2.0))
    ///     .mark(Ink::Series(0), Mark::Line(vec![(0.0, 0.0), (1.0, 2.0)]));
    /// let svg = chart.to_svg("first");
    /// assert!(svg.starts_with("<svg ") && svg.contains("<title id=\"first-title\">a &lt; b</title>"));
    /// ```
    pub fn to_svg(&self, id: &str) -> String {
        draw::svg(self, id)
    }
}

/// A bound from above of the width of a text at 12 units, from the advances of DejaVu Sans, which is wider than the fonts
/// that the page asks for first.
fn text_width(text: &str) -> f64 {
    let advance = |letter: char| match letter {
        '0'..='9' => 7.7,
        '.' | ',' | ' ' | '(' | ')' | 'i' | 'j' | 'l' => 4.8,
        '⁰' | '¹' | '²' | '³' | '⁴'..='⁹' | '⁻' => 5.7,
        '−' | '×' => 10.1,
        'm' | 'w' | 'M' | 'W' => 11.9,
        letter if letter.is_ascii_uppercase() => 9.3,
        letter if letter.is_ascii() => 7.7,
        _ => 12.0,
    };
    text.chars().map(advance).sum()
}

#[cfg(test)]
mod tests;

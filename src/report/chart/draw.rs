//! From a chart to SVG: where everything goes, and the text of the elements.

use std::fmt::Write as _;

use super::ticks::{Tick, ticks};
use super::{Axis, Chart, Ink, Mark, text_width};
use crate::report::html::escape;

/// The width of every chart.
const WIDTH: f64 = 400.0;
/// The height of the area with the data.
const PLOT_HEIGHT: f64 = 210.0;
/// The height of a line of text.
const LINE: f64 = 17.0;
/// The space to the right of the data, in which half of the last label may stand.
const RIGHT: f64 = 14.0;
/// The least distance of two labels.
const GAP: f64 = 10.0;

/// The rectangle with the data, in units of the picture.
struct Plot<'a> {
    chart: &'a Chart,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Plot<'_> {
    fn x(&self, value: f64) -> f64 {
        self.left + (self.right - self.left) * share(&self.chart.x, value)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * share(&self.chart.y, value)
    }
}

/// Where a number lies between the ends of an axis, at most a little beyond them: what is far outside is cut off there.
fn share(axis: &Axis, value: f64) -> f64 {
    let (low, high) = (axis.scale.apply(axis.low), axis.scale.apply(axis.high));
    ((axis.scale.apply(value) - low) / (high - low)).clamp(-1.0, 2.0)
}

/// The element.
pub(super) fn svg(chart: &Chart, id: &str) -> String {
    let heights = ticks(chart.y.low, chart.y.high, chart.y.scale, 5);
    let widest = heights.iter().map(|tick| text_width(&tick.label)).fold(0.0, f64::max);
    let left = (widest + 12.0).max(20.0);
    let legend = legend_lines(chart);
    let top = LINE * (1 + legend.len()) as f64 + 8.0;
    let plot = Plot { chart, left, right: WIDTH - RIGHT, top, bottom: top + PLOT_HEIGHT };
    let height = plot.bottom + 2.0 * LINE + 8.0;
    let places = labels_that_fit(&plot);

    let mut text = String::new();
    let title = escape(&chart.title);
    let _ = write!(
        text,
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"{id}-title {id}-description\"><title id=\"{id}-title\">{title}</title>\
         <desc id=\"{id}-description\">{}</desc>",
        escape(&chart.description)
    );
    let _ = write!(
        text,
        "<clipPath id=\"{id}-clip\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>",
        round(plot.left),
        round(plot.top - 4.0),
        round(plot.right - plot.left + 4.0),
        round(PLOT_HEIGHT + 4.0)
    );
    text += "<g class=\"axes\" aria-hidden=\"true\">";
    axes(&plot, &heights, &places, &mut text);
    write_legend(&legend, &mut text);
    let _ = write!(text, "</g><g clip-path=\"url(#{id}-clip)\" aria-hidden=\"true\">");
    chart.marks.iter().for_each(|(ink, mark)| draw(&plot, *ink, mark, &mut text));
    text + "</g></svg>"
}

/// As many ticks of the horizontal axis as have labels that do not touch, without those whose labels would leave the
/// picture.
fn labels_that_fit(plot: &Plot<'_>) -> Vec<Tick> {
    let axis = &plot.chart.x;
    let mut single = Vec::new();
    for count in (1..=8).rev() {
        let ends = |tick: &Tick| {
            let (centre, half) = (plot.x(tick.value), 0.5 * text_width(&tick.label));
            (centre - half, centre + half)
        };
        let mut found = ticks(axis.low, axis.high, axis.scale, count);
        found.retain(|tick| ends(tick).0 >= 0.0 && ends(tick).1 <= WIDTH);
        if found.windows(2).all(|pair| ends(&pair[0]).1 + GAP <= ends(&pair[1]).0) {
            match found.len() {
                0 => {}
                1 => single = found,
                _ => return found,
            }
        }
    }
    single
}

fn axes(plot: &Plot<'_>, heights: &[Tick], places: &[Tick], text: &mut String) {
    let (left, right, bottom) = (round(plot.left), round(plot.right), round(plot.bottom));
    for tick in heights {
        let y = plot.y(tick.value);
        let _ = write!(text, "<path class=\"grid\" d=\"M{left} {y}H{right}\"/>", y = round(y));
        let _ = write!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            round(plot.left - 6.0),
            round(y + 4.0),
            escape(&tick.label)
        );
    }
    let _ = write!(text, "<path class=\"base\" d=\"M{left} {bottom}H{right}\"/>");
    for tick in places {
        let x = round(plot.x(tick.value));
        let _ = write!(text, "<path class=\"base\" d=\"M{x} {bottom}v4\"/>");
        let y = round(plot.bottom + LINE);
        let _ = write!(text, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", escape(&tick.label));
    }
    let name = escape(&shortened(&plot.chart.y.label, WIDTH - 4.0));
    let _ = write!(text, "<text class=\"name\" x=\"2\" y=\"12\">{name}</text>");
    let name = escape(&shortened(&plot.chart.x.label, plot.right - plot.left));
    let (x, y) = (round(plot.right), round(plot.bottom + 2.0 * LINE + 1.0));
    let _ = write!(text, "<text class=\"name\" x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{name}</text>");
}

/// The text, or its beginning and an ellipsis, within a width.
fn shortened(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_string();
    }
    let mut short = String::new();
    for letter in text.chars() {
        if text_width(&short) + 17.2 > width {
            break;
        }
        short.push(letter);
    }
    short.trim_end().to_string() + "…"
}

/// A key of the legend and where it stands.
struct Key {
    ink: Ink,
    words: String,
    x: f64,
    y: f64,
}

/// The keys, line by line, under the name of the vertical axis.
fn legend_lines(chart: &Chart) -> Vec<Vec<Key>> {
    let (mut lines, mut x): (Vec<Vec<Key>>, f64) = (Vec::new(), 0.0);
    for (ink, words) in &chart.legend {
        let words = shortened(words, WIDTH - 30.0);
        let width = 18.0 + text_width(&words) + 12.0;
        if lines.is_empty() || x + width > WIDTH {
            (x, lines) = (0.0, lines.into_iter().chain([Vec::new()]).collect());
        }
        let y = 12.0 + LINE * lines.len() as f64;
        if let Some(line) = lines.last_mut() {
            line.push(Key { ink: *ink, words, x: x + 2.0, y });
        }
        x += width;
    }
    lines
}

fn write_legend(lines: &[Vec<Key>], text: &mut String) {
    for Key { ink, words, x, y } in lines.iter().flatten() {
        let (class, middle) = (ink.class(), round(y - 4.0));
        let _ = write!(text, "<path class=\"key {class}\" d=\"M{} {middle}h12\"/>", round(*x));
        let _ = write!(text, "<text x=\"{}\" y=\"{}\">{}</text>", round(x + 17.0), round(*y), escape(words));
    }
}

fn draw(plot: &Plot<'_>, ink: Ink, mark: &Mark, text: &mut String) {
    let class = ink.class();
    let mut path = String::new();
    let place = |x: f64, y: f64| format!("{} {}", round(plot.x(x)), round(plot.y(y)));
    let (kind, class) = match mark {
        Mark::Line(points) => {
            // A gap where a point is not finite.
            let mut command = 'M';
            for (x, y) in points {
                if x.is_finite() && y.is_finite() {
                    let _ = write!(path, "{command}{}", place(*x, *y));
                    command = 'L';
                } else {
                    command = 'M';
                }
            }
            // A single point is no line.
            if !path.contains('L') {
                path.clear();
            }
            ("line", class)
        }
        Mark::Band(points) => {
            let finite: Vec<_> =
                points.iter().filter(|(x, a, b)| x.is_finite() && a.is_finite() && b.is_finite()).collect();
            for (index, (x, _, upper)) in finite.iter().enumerate() {
                let _ = write!(path, "{}{}", if index == 0 { 'M' } else { 'L' }, place(*x, *upper));
            }
            for (x, lower, _) in finite.iter().rev() {
                let _ = write!(path, "L{}", place(*x, *lower));
            }
            if !path.is_empty() {
                path.push('Z');
            }
            ("band", class)
        }
        Mark::Dots(points) => {
            for (x, y) in points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
                let _ = write!(path, "M{}h0", place(*x, *y));
            }
            (if points.len() > 150 { "dots many" } else { "dots" }, class)
        }
        Mark::Spans(spans) => {
            for (x, low, high) in spans.iter().filter(|(x, a, b)| x.is_finite() && a.is_finite() && b.is_finite()) {
                let _ = write!(path, "M{}V{}", place(*x, *low), round(plot.y(*high)));
            }
            (if spans.len() > 150 { "spans many" } else { "spans" }, class)
        }
        Mark::Bars(bars) => {
            for bar in bars.iter().filter(|bar| bar.y.0.is_finite() && bar.y.1.is_finite() && bar.y.0 != bar.y.1) {
                let (left, right) = (plot.x(bar.x.0), plot.x(bar.x.1));
                // A hair of space between neighbours.
                let inset = (0.06 * (right - left)).min(1.0);
                let (left, right) = (round(left + inset), round(right - inset));
                let (low, high) = (round(plot.y(bar.y.0)), round(plot.y(bar.y.1)));
                let _ = write!(path, "M{left} {low}V{high}H{right}V{low}Z");
            }
            ("bars", class)
        }
        Mark::Across(y) => {
            if y.is_finite() {
                let y = round(plot.y(*y));
                let _ = write!(path, "M{} {y}H{}", round(plot.left), round(plot.right));
            }
            ("rule", class)
        }
        Mark::Upright(x) => {
            if x.is_finite() {
                let x = round(plot.x(*x));
                let _ = write!(path, "M{x} {}V{}", round(plot.top), round(plot.bottom));
            }
            ("rule", class)
        }
    };
    if !path.is_empty() {
        let _ = write!(text, "<path class=\"{kind} {class}\" d=\"{path}\"/>");
    }
}

/// A coordinate to a tenth of a unit.
fn round(value: f64) -> f64 {
    let rounded = (10.0 * value).round() / 10.0;
    // Not "-0".
    if rounded == 0.0 { 0.0 } else { rounded }
}

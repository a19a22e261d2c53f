//! The picture of the examples: predictions with their intervals over the data. All of it is plotters; none of it is
//! needed to use the crate.

#[path = "smooth.rs"]
mod smooth;

use std::error::Error;
use std::path::Path;

use ndarray::Array2;
use plotters::prelude::*;
use riemannian_laplace::prelude::*;

/// Draws the mean and the central interval of each named prediction at `inputs` (one column, ascending), and the named
/// data sets on top: the first as dots, the others as circles. `labels` are the title and those of the axes.
pub fn draw(
    path: &Path,
    labels: [&str; 3],
    points: &[(&str, &Dataset)],
    inputs: &Array2<f64>,
    predictions: &[(&str, Prediction)],
    level: f64,
) -> Result<(), Box<dyn Error>> {
    const INK: RGBColor = RGBColor(38, 42, 51);
    const COLORS: [RGBColor; 3] = [RGBColor(36, 113, 190), RGBColor(228, 100, 30), RGBColor(60, 145, 90)];
    let text = |size: i32| ("sans-serif", size).into_font().color(&INK);

    let x: Vec<f64> = inputs.iter().copied().collect();
    let curve = |y: &Array2<f64>| x.iter().copied().zip(y.iter().copied()).collect::<Vec<_>>();
    let intervals = predictions.iter().map(|(_, prediction)| prediction.interval(level));
    let intervals = intervals.collect::<Result<Vec<_>, _>>()?;
    let ends = || intervals.iter().flat_map(|(lower, upper)| lower.iter().chain(upper));
    let all = || ends().chain(points.iter().flat_map(|(_, data)| data.targets())).copied();
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let (left, right) = (x.first().copied().unwrap_or(0.0), x.last().copied().unwrap_or(1.0));
    let margin = 0.04 * (high - low);

    smooth::save(path, (1600, 1000), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(60)
            .margin_right(80)
            .caption(labels[0], text(76))
            .x_label_area_size(160)
            .y_label_area_size(240)
            .build_cartesian_2d(left..right, low - margin..high + margin)?;
        let number = |value: &f64| format!("{}", (1e6 * value).round() / 1e6).replace('-', "−");
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(INK.mix(0.09).stroke_width(3))
            .axis_style(INK.mix(0.5).stroke_width(4))
            .set_all_tick_mark_size(18)
            .x_label_formatter(&number)
            .y_label_formatter(&number)
            .label_style(text(52))
            .axis_desc_style(text(58))
            .x_desc(labels[1])
            .y_desc(labels[2])
            .draw()?;
        for ((lower, upper), color) in intervals.iter().zip(COLORS) {
            let outline: Vec<_> = curve(lower).into_iter().chain(curve(upper).into_iter().rev()).collect();
            chart.draw_series([Polygon::new(outline, color.mix(0.16))])?;
        }
        for (((lower, upper), color), (name, prediction)) in intervals.iter().zip(COLORS).zip(predictions) {
            chart.draw_series([lower, upper].map(|end| PathElement::new(curve(end), color.stroke_width(5))))?;
            let mean = PathElement::new(curve(&prediction.mean), color.stroke_width(10));
            let label = format!("{name}: mean and {:.0} % interval", 100.0 * level);
            chart.draw_series([mean])?.label(label).legend(move |(x, y)| {
                let band = Rectangle::new([(x, y - 20), (x + 90, y + 20)], color.mix(0.25).filled());
                EmptyElement::at((0, 0)) + band + PathElement::new([(x, y), (x + 90, y)], color.stroke_width(10))
            });
        }
        for (index, (name, data)) in points.iter().enumerate() {
            let style = if index == 0 { INK.mix(0.85).filled() } else { INK.stroke_width(6) };
            let at = data.inputs().iter().copied().zip(data.targets().iter().copied());
            let series = chart.draw_series(at.map(|at| Circle::new(at, 13, style)))?;
            series.label(*name).legend(move |(x, y)| Circle::new((x + 45, y - 6), 13, style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .margin(40)
            .legend_area_size(120)
            .label_font(text(52))
            .background_style(WHITE.mix(0.85))
            .border_style(INK.mix(0.2))
            .draw()?;
        Ok(())
    })
}

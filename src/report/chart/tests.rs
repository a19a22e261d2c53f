//! Charts of every kind of mark and of awkward numbers: labels that do not touch, paths without numbers that are none.

use super::*;

/// The texts of a picture: x, y, how they are anchored, and the words.
fn texts(svg: &str) -> Vec<(f64, f64, bool, String)> {
    let attribute = |tag: &str, name: &str| -> Option<f64> {
        tag.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?.parse().ok()
    };
    let parts = svg.split("<text").skip(1).map(|rest| rest.split("</text>").next().unwrap_or_default());
    parts
        .filter_map(|part| {
            let (tag, words) = part.split_once('>')?;
            Some((attribute(tag, "x")?, attribute(tag, "y")?, tag.contains("middle"), words.to_string()))
        })
        .collect()
}

/// The horizontal labels: those in the middle of their ticks.
fn horizontal(svg: &str) -> Vec<(f64, String)> {
    texts(svg).into_iter().filter(|(_, _, middle, _)| *middle).map(|(x, _, _, words)| (x, words)).collect()
}

fn line(x: Axis, y: Axis) -> Chart {
    let points = vec![(x.low, y.low), (x.high, y.high)];
    Chart::new("title", "description", x, y).mark(Ink::Series(0), Mark::Line(points))
}

#[test]
fn labels_of_the_horizontal_axis_never_touch_and_stay_in_the_picture() {
    for exponent in [-9, -5, -3, -1, 0, 2, 5, 8] {
        for (low, high) in [(-1.0, 1.0), (0.0, 0.37), (9.95, 10.05), (-123.456, 7.0), (1e6, 1e6 + 3.0)] {
            let scale = 10f64.powi(exponent);
            let svg = line(Axis::between("x", low * scale, high * scale), Axis::between("y", 0.0, 1.0)).to_svg("f");
            let labels = horizontal(&svg);
            assert!(!labels.is_empty(), "{low} {high} {scale}");
            let half = |words: &str| 0.5 * text_width(words);
            for pair in labels.windows(2) {
                assert!(pair[0].0 + half(&pair[0].1) + 9.9 <= pair[1].0 - half(&pair[1].1), "{pair:?}");
            }
            assert!(labels.iter().all(|(x, words)| x - half(words) >= 0.0 && x + half(words) <= 400.0), "{labels:?}");
        }
    }
    for (low, high) in [(1e-300, 1e300), (1e-12, 1.0), (2.0, 90.0), (3.0, 4.0), (1e-3, 1.1e-3)] {
        let x = Axis { label: "x".to_string(), low, high, scale: Scale::Log };
        let labels = horizontal(&line(x, Axis::between("y", 0.0, 1.0)).to_svg("f"));
        assert!(labels.windows(2).all(|pair| pair[0].0 + 20.0 < pair[1].0), "{labels:?}");
    }
}

#[test]
fn every_kind_of_mark_is_drawn_once_and_never_with_numbers_that_are_none() {
    let marks = [
        Mark::Line(vec![(0.0, 0.0), (0.2, 0.2), (0.5, f64::NAN), (1.0, 1.0)]),
        Mark::Band(vec![(0.0, 0.0, 1.0), (0.5, f64::NEG_INFINITY, 1.0), (1.0, 0.2, 0.8)]),
        Mark::Dots(vec![(0.1, 0.1), (f64::INFINITY, 0.3), (0.2, 1e300)]),
        Mark::Spans(vec![(0.1, -1e300, 1e300), (f64::NAN, 0.0, 1.0)]),
        Mark::Bars(vec![Bar { x: (0.0, 0.1), y: (0.0, 0.5) }, Bar { x: (0.1, 0.2), y: (0.0, 0.0) }]),
        Mark::Across(0.5),
        Mark::Upright(0.5),
    ];
    for mark in marks {
        let chart = Chart::new("t", "d", Axis::between("x", 0.0, 1.0), Axis::between("y", 0.0, 1.0));
        let svg = chart.mark(Ink::Bad, mark.clone()).to_svg("f");
        assert_eq!(svg.matches(" bad\"").count(), 1, "{mark:?}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
    // Nothing to draw, nothing drawn.
    let empty = Chart::new("t", "d", Axis::around("x", []), Axis::log("y", [])).mark(Ink::Bad, Mark::Line(Vec::new()));
    let svg = empty.to_svg("f");
    assert!(!svg.contains(" bad\"") && svg.contains("</svg>"));
}

#[test]
fn axes_of_single_values_and_of_none_have_room_around_them() {
    for values in [vec![], vec![0.0], vec![5.0; 3], vec![f64::NAN, 1e12]] {
        for axis in
            [Axis::around("a", values.clone()), Axis::from_zero("a", values.clone()), Axis::log("a", values.clone())]
        {
            assert!(axis.high > axis.low && axis.low.is_finite() && axis.high.is_finite(), "{values:?}: {axis:?}");
        }
    }
    let focused = Axis::focused("a", [0.0, 1.0], [-100.0, 1.2]);
    assert!(focused.low < -0.5 && focused.low > -0.7 && focused.high > 1.2 && focused.high < 1.4, "{focused:?}");
}

#[test]
fn names_are_escaped_and_long_ones_shortened() {
    let long = "a column with a name of more than forty words ".repeat(8);
    let chart =
        line(Axis::between(long.clone(), 0.0, 1.0), Axis::between("<b>&", 0.0, 1.0)).key(Ink::Series(0), long.clone());
    let svg = chart.to_svg("f");
    assert!(svg.contains("&lt;b&gt;&amp;") && !svg.contains("<b>"));
    assert!(texts(&svg).iter().all(|(_, _, _, words)| text_width(words) <= 400.0));
    assert_eq!(svg.matches('…').count(), 2);
}

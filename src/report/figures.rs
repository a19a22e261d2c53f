//! The figures of a report: from its data to charts with captions that say how to read them.

use super::chart::{Axis, Bar, Chart, Ink, Mark};
use super::contents::{Calibration, Comparison, Curves, Pair, Slice, Spectrum};
use super::words::{counted, percent, thousands};
use super::{Report, number};
use crate::evaluate::{self, COVERAGE_LEVELS, rank_histogram, reliability_curve};
use crate::likelihood::TargetKind;

/// A chart and the sentence under it.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The chart.
    pub chart: Chart,
    /// How to read it.
    pub caption: String,
}

/// The most targets with a figure of their own.
const MOST_TARGETS: usize = 4;
/// Fewer predictions of about the same confidence say nothing about it.
const LEAST_IN_BIN: usize = 5;
/// The usual bounds of the drift at the end and on the way.
const DRIFT_BOUNDS: [f64; 2] = [1e-3, 5e-3];

impl Report {
    /// Predictions along inputs.
    pub fn picture_figures(&self) -> Vec<Figure> {
        self.pictures.slices.iter().map(|slice| self.slice(slice)).collect()
    }

    /// How good the predictions are.
    pub fn score_figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        if let Comparison::Numbers(targets) = &self.comparison {
            let pairs = targets.iter().zip(&self.fitted.targets).take(MOST_TARGETS);
            figures.extend(pairs.map(|(pairs, target)| self.predicted_and_observed(pairs, target)));
        }
        match &self.methods[self.shown].calibration {
            Calibration::Ranks(ranks) => {
                figures.push(self.coverage());
                figures.push(self.rank_histogram(ranks));
            }
            Calibration::Confidence(pairs) => {
                figures.push(self.reliability());
                figures.push(self.confidence_histogram(pairs));
            }
        }
        figures
    }

    /// Whether the geodesics can be trusted.
    pub fn certificate_figures(&self) -> Vec<Figure> {
        let Some(certificates) = &self.certificates else { return Vec::new() };
        let charts = [
            ("Drift at the end", &certificates.drift, DRIFT_BOUNDS[0], "at the end of each geodesic"),
            ("Drift on the way", &certificates.path_drift, DRIFT_BOUNDS[1], "at its worst state on the way"),
        ];
        let drawn = charts.into_iter().filter(|(_, values, ..)| !values.is_empty());
        let mut figures: Vec<Figure> =
            drawn.map(|(title, values, bound, where_)| drift(title, values, bound, where_)).collect();
        let known = certificates.off_graph.iter().any(|value| value.is_finite());
        figures.extend(known.then(|| distance(&certificates.off_graph)));
        figures
    }

    /// The spectrum of the curvature.
    pub fn spectrum_figure(&self) -> Option<Figure> {
        let Spectrum::All(values) = &self.fitted.spectrum else { return None };
        let largest = values.first().copied().filter(|value| *value > 0.0)?;
        // Rounding leaves eigenvalues of zero at about this share of the largest.
        let floor = (1e-13 * largest).max(1e-9);
        let points: Vec<(f64, f64)> =
            values.iter().enumerate().map(|(index, value)| ((index + 1) as f64, value.max(floor))).collect();
        let above = values.iter().filter(|value| **value > 1.0).count();
        let description = format!(
            "{} of {} eigenvalues are above 1. The largest is {}.",
            thousands(above),
            thousands(values.len()),
            number(largest)
        );
        let x = Axis::between("directions, the best determined first", 0.0, values.len() as f64 + 1.0);
        let y = Axis::log("eigenvalue: data relative to prior", points.iter().map(|point| point.1).chain([1.0]));
        let chart = Chart::new("Spectrum of the curvature", description, x, y)
            .mark(Ink::Reference, Mark::Across(1.0))
            .mark(Ink::Series(0), Mark::Dots(points));
        let caption = format!(
            "How much the data say about each direction in weight space, relative to the prior. Above the line ({} of {}) \
             the data speak, below it the prior does. Summed as λ/(1 + λ) they are the {} effective parameters.",
            thousands(above),
            thousands(values.len()),
            number(self.fitted.effective_parameters)
        );
        Some(Figure { chart, caption })
    }

    fn slice(&self, slice: &Slice) -> Figure {
        let method = self.methods[slice.method].words;
        let single = self.pictures.n_inputs == 1;
        match &slice.curves {
            Curves::Band(points) => {
                let title = if single {
                    format!("{} by {}: {method}", slice.target, slice.input)
                } else {
                    format!("{} along {}", slice.target, slice.input)
                };
                let widest = points.iter().map(|p| p.interval.1 - p.interval.0).fold(0.0, f64::max);
                let description = format!(
                    "The mean goes from {} at {} = {} to {} at {}. The widest {} interval is {} wide.",
                    points.first().map_or(String::new(), |p| number(p.mean)),
                    slice.input,
                    points.first().map_or(String::new(), |p| number(p.x)),
                    points.last().map_or(String::new(), |p| number(p.mean)),
                    points.last().map_or(String::new(), |p| number(p.x)),
                    percent(self.level),
                    number(widest)
                );
                let y = self.band_axis(slice, format!("{} ({method})", slice.target));
                let x = Axis::between(
                    &slice.input,
                    points.first().map_or(0.0, |p| p.x),
                    points.last().map_or(1.0, |p| p.x),
                );
                let mut chart = Chart::new(title, description, x, y)
                    .mark(
                        Ink::Series(0),
                        Mark::Band(points.iter().map(|p| (p.x, p.interval.0, p.interval.1)).collect()),
                    )
                    .mark(Ink::Series(0), Mark::Band(points.iter().map(|p| (p.x, p.of_mean.0, p.of_mean.1)).collect()));
                chart = with_range(chart, slice.range.filter(|_| slice.observed.is_empty()));
                if !slice.observed.is_empty() {
                    chart = chart.mark(Ink::Observed, Mark::Dots(slice.observed.clone()));
                }
                chart = chart.mark(Ink::Series(0), Mark::Line(points.iter().map(|p| (p.x, p.mean)).collect()));
                Figure { chart, caption: self.band_caption(slice, method, single) }
            }
            Curves::Probabilities(curves) => {
                let title = format!("Class probabilities along {}", slice.input);
                let ends = |curve: &[(f64, f64)]| {
                    let (first, last) = (curve.first().map_or(0.0, |p| p.1), curve.last().map_or(0.0, |p| p.1));
                    format!("from {} to {}", percent(first), percent(last))
                };
                let parts: Vec<String> = curves.iter().map(|(name, curve)| format!("{name} {}", ends(curve))).collect();
                let first = curves.first().map(|(_, curve)| curve.as_slice()).unwrap_or_default();
                let x =
                    Axis::between(&slice.input, first.first().map_or(0.0, |p| p.0), first.last().map_or(1.0, |p| p.0));
                let y = Axis::between(format!("probability ({method})"), 0.0, 1.0);
                let mut chart = with_range(Chart::new(title, format!("{}.", parts.join("; ")), x, y), slice.range);
                for (index, (name, curve)) in curves.iter().enumerate() {
                    chart =
                        chart.mark(Ink::Series(index), Mark::Line(curve.clone())).key(Ink::Series(index), name.clone());
                }
                if let Some((words, rest)) = self.other_classes(curves) {
                    chart = chart.mark(Ink::Reference, Mark::Line(rest)).key(Ink::Reference, words);
                }
                let held = if single { "" } else { " The other inputs are held at their medians." };
                let range =
                    if slice.range.is_some() { " Upright lines mark the range of the training data." } else { "" };
                let caption = format!(
                    "Probabilities along {} by the prediction “{method}”.{held}{range} Away from the data they should move \
                     towards even odds.",
                    slice.input
                );
                Figure { chart, caption }
            }
        }
    }

    /// The classes without a curve of their own: how many there are, and their probability together.
    fn other_classes(&self, curves: &[(String, Vec<(f64, f64)>)]) -> Option<(String, Vec<(f64, f64)>)> {
        let all = self.fitted.classes.first().map_or(0, Vec::len);
        let count = all.checked_sub(curves.len()).filter(|count| *count > 0)?;
        if self.fitted.family.likelihood().kind() != TargetKind::Label {
            return None;
        }
        let (_, first) = curves.first()?;
        let shown =
            |place: usize| curves.iter().flat_map(|(_, curve)| curve.get(place)).fold(0.0, |sum, point| sum + point.1);
        let rest = |(place, point): (usize, &(f64, f64))| (point.0, (1.0 - shown(place)).max(0.0));
        let words = if count == 1 { "the other class".to_string() } else { format!("the other {count} together") };
        Some((words, first.iter().enumerate().map(rest).collect()))
    }

    /// The axis of all bands along an input: it shows the observations, or the intervals where there are data, and some
    /// of what lies beyond. The prediction of sampled weights does not count: it is often wide enough to hide the others.
    fn band_axis(&self, slice: &Slice, label: String) -> Axis {
        let same = |other: &&Slice| other.input == slice.input && other.target == slice.target;
        let counts = |other: &&Slice| other.method == self.shown || self.methods[other.method].name != "nn";
        let points = || {
            let slices = self.pictures.slices.iter().filter(same).filter(counts);
            slices.flat_map(|other| match &other.curves {
                Curves::Band(points) => points.as_slice(),
                Curves::Probabilities(_) => &[],
            })
        };
        let (low, high) = slice.range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let known = points().filter(|p| low <= p.x && p.x <= high).flat_map(|p| [p.interval.0, p.interval.1]);
        let inner: Vec<f64> = match slice.observed.is_empty() {
            true => known.collect(),
            false => slice.observed.iter().map(|o| o.1).collect(),
        };
        Axis::focused(label, inner, points().flat_map(|p| [p.interval.0, p.interval.1]))
    }

    fn band_caption(&self, slice: &Slice, method: &str, single: bool) -> String {
        let level = percent(self.level);
        let counts = self.fitted.family.likelihood().kind() == TargetKind::Count;
        let bands = if counts {
            format!(
                "Light: where {level} of new counts should fall. Dark: the mean itself, as far as the weights are known."
            )
        } else {
            format!(
                "Light: where {level} of new observations should fall. Dark: the mean itself, as far as the weights are known."
            )
        };
        if self.methods[slice.method].name == "map" {
            return format!(
                "“{method}”: where {level} of new observations should fall by the noise alone. It does not widen where there \
                 are no data, because the network alone does not know what it does not know."
            );
        }
        if single {
            return format!("“{method}”. {bands} The dark band should widen where there are no dots.");
        }
        let share =
            self.pictures.influences.iter().find(|(name, _)| *name == slice.input).map_or(0.0, |(_, share)| *share);
        let range = if slice.range.is_some() { " Upright lines mark the range of the training data." } else { "" };
        format!(
            "{bands} The other inputs are held at their medians; {} has {} of the variation that single inputs cause there.{range}",
            slice.input,
            percent(share)
        )
    }

    fn predicted_and_observed(&self, pairs: &[Pair], target: &str) -> Figure {
        let method = self.methods[self.shown].words;
        let inside = |pair: &&Pair| pair.interval.0 <= pair.observed && pair.observed <= pair.interval.1;
        let (within, beyond): (Vec<&Pair>, Vec<&Pair>) = pairs.iter().partition(inside);
        let description = format!(
            "{} of {} observed values lie inside their {} interval.",
            within.len(),
            pairs.len(),
            percent(self.level)
        );
        let both = || pairs.iter().flat_map(|pair| [pair.mean, pair.observed]);
        let x = Axis::around(format!("predicted {target} ({method})"), both());
        let y = Axis { label: format!("observed {target}"), ..x.clone() };
        let (low, high) = (x.low, x.high);
        let spans =
            |of: &[&Pair]| Mark::Spans(of.iter().map(|pair| (pair.mean, pair.interval.0, pair.interval.1)).collect());
        let dots = |of: &[&Pair]| Mark::Dots(of.iter().map(|pair| (pair.mean, pair.observed)).collect());
        let chart = Chart::new(format!("Predicted and observed {target}"), description, x, y)
            .mark(Ink::Series(0), spans(&within))
            .mark(Ink::Series(0), spans(&beyond))
            .mark(Ink::Reference, Mark::Line(vec![(low, low), (high, high)]))
            .mark(Ink::Observed, dots(&within))
            .mark(Ink::Bad, dots(&beyond))
            .key(Ink::Observed, "inside its interval")
            .key(Ink::Bad, "outside");
        let thinned = if pairs.len() < self.scored.used {
            format!(" Drawn are {} of {} rows, evenly spaced.", pairs.len(), thousands(self.scored.used))
        } else {
            String::new()
        };
        let caption = format!(
            "Each dot is a row; on the diagonal it was predicted exactly. Upright lines are {} intervals, and about {} of \
             the dots should be outside theirs.{thinned}",
            percent(self.level),
            percent(1.0 - self.level)
        );
        Figure { chart, caption }
    }

    fn coverage(&self) -> Figure {
        let x = Axis::between("level of the interval", 0.0, 1.0);
        let y = Axis::between("share of observed values inside", 0.0, 1.0);
        let mut parts = Vec::new();
        let mut chart = Chart::new("Coverage by level", String::new(), x, y)
            .mark(Ink::Reference, Mark::Line(vec![(0.0, 0.0), (1.0, 1.0)]));
        for (index, method) in self.methods.iter().enumerate() {
            let points: Vec<(f64, f64)> = COVERAGE_LEVELS
                .iter()
                .filter_map(|level| Some((*level, method.calibration.coverage(*level)?)))
                .collect();
            if let Some(share) = method.calibration.coverage(0.9) {
                parts.push(format!("{}: {} inside the 90 % intervals", method.words, percent(share)));
            }
            let ink = Ink::Series(index);
            chart = chart.mark(ink, Mark::Line(points.clone())).mark(ink, Mark::Dots(points)).key(ink, method.words);
        }
        chart.description = format!("{}.", parts.join("; "));
        let caption =
            "Intervals of every level should hold that share of the observed values: on the diagonal. Below it \
                       they are too narrow, above it wider than need be."
                .to_string();
        Figure { chart, caption }
    }

    fn rank_histogram(&self, ranks: &[f64]) -> Figure {
        let bins = if ranks.len() >= 100 { 10 } else { 5 };
        let counts = rank_histogram(ranks.iter().copied(), bins);
        let (share, total) = (1.0 / bins as f64, ranks.len().max(1) as f64);
        let chance = 1.96 * (share * (1.0 - share) / total).sqrt();
        let height = |count: &usize| *count as f64 / total;
        let description = format!(
            "Shares from the lowest to the highest fifth or tenth: {}.",
            counts.iter().map(|count| percent(height(count))).collect::<Vec<_>>().join(", ")
        );
        let heights = counts.iter().map(height).chain([share + chance]);
        let x = Axis::between("rank of the observed value in its prediction", 0.0, 1.0);
        let y = Axis::from_zero(format!("share of rows ({})", self.methods[self.shown].words), heights);
        let bar = |(bin, count): (usize, &usize)| Bar {
            x: (bin as f64 * share, (bin + 1) as f64 * share),
            y: (0.0, height(count)),
        };
        let chart = Chart::new("Histogram of ranks (PIT)", description, x, y)
            .mark(Ink::Series(0), Mark::Bars(counts.iter().enumerate().map(bar).collect()))
            .mark(
                Ink::Reference,
                Mark::Band(vec![(0.0, share - chance, share + chance), (1.0, share - chance, share + chance)]),
            );
        let caption = "The probability that each prediction gave to values below the observed one. Even bars are right (95 % \
                       of them within the grey band); a valley in the middle means intervals that are too narrow, a hill ones \
                       that are too wide, a slope a bias."
            .to_string();
        Figure { chart, caption }
    }

    fn reliability(&self) -> Figure {
        let x = Axis::between("confidence in the most probable class", 0.0, 1.0);
        let y = Axis::between("share that was right", 0.0, 1.0);
        let mut chart = Chart::new("Reliability", String::new(), x, y)
            .mark(Ink::Reference, Mark::Line(vec![(0.0, 0.0), (1.0, 1.0)]));
        let mut lowest: f64 = 1.0;
        for (index, method) in self.methods.iter().enumerate() {
            let Calibration::Confidence(pairs) = &method.calibration else { continue };
            let bins = reliability_bins(pairs);
            lowest = bins.iter().map(|bin| bin.confidence).fold(lowest, f64::min);
            let points: Vec<(f64, f64)> = bins.iter().map(|bin| (bin.confidence, bin.accuracy)).collect();
            let ink = Ink::Series(index);
            if index == self.shown {
                let parts = bins
                    .iter()
                    .map(|bin| format!("{} at confidence {}", percent(bin.accuracy), percent(bin.confidence)));
                chart.description = format!("{}: right in {}.", method.words, parts.collect::<Vec<_>>().join(", "));
                let spans = bins.iter().map(|bin| (bin.confidence, bin.likely.0, bin.likely.1)).collect();
                chart = chart.mark(ink, Mark::Spans(spans));
            }
            chart = chart.mark(ink, Mark::Line(points.clone())).mark(ink, Mark::Dots(points)).key(ink, method.words);
        }
        chart.x.low = (10.0 * lowest).floor().clamp(0.0, 9.0) / 10.0;
        let caption = format!(
            "Of predictions made with confidence 80 %, 80 % should be right: on the diagonal. Below it the probabilities are \
             too confident. Upright lines are what chance allows ({}); bins of a tenth with fewer than {LEAST_IN_BIN} rows are left out.",
            self.methods[self.shown].words
        );
        Figure { chart, caption }
    }

    fn confidence_histogram(&self, pairs: &[(f64, bool)]) -> Figure {
        const BINS: usize = 20;
        let (mut right, mut wrong) = ([0usize; BINS], [0usize; BINS]);
        for (confidence, correct) in pairs {
            let bin = ((confidence * BINS as f64) as usize).min(BINS - 1);
            if *correct { right[bin] += 1 } else { wrong[bin] += 1 }
        }
        let first = (0..BINS).find(|bin| right[*bin] + wrong[*bin] > 0).unwrap_or(0);
        let edge = |bin: usize| bin as f64 / BINS as f64;
        let errors: usize = wrong.iter().sum();
        let sure = pairs.iter().filter(|(confidence, correct)| *confidence >= 0.95 && !correct).count();
        let description = format!(
            "{} of {} are wrong, {} of them with a confidence of 95 % or more.",
            thousands(errors),
            counted(pairs.len(), "prediction"),
            thousands(sure)
        );
        let x = Axis::between("confidence in the most probable class", edge(first), 1.0);
        let heights = (0..BINS).map(|bin| (right[bin] + wrong[bin]) as f64);
        let y = Axis::from_zero(format!("predictions ({})", self.methods[self.shown].words), heights);
        let bars = |from: &dyn Fn(usize) -> usize, height: &[usize; BINS]| {
            let bar = |bin: usize| {
                let bottom = from(bin) as f64;
                Bar { x: (edge(bin), edge(bin + 1)), y: (bottom, bottom + height[bin] as f64) }
            };
            Mark::Bars((first..BINS).map(bar).collect())
        };
        let chart = Chart::new("How confident it is", description, x, y)
            .mark(Ink::Bad, bars(&|_| 0, &wrong))
            .mark(Ink::Series(0), bars(&|bin| wrong[bin], &right))
            .key(Ink::Series(0), "right")
            .key(Ink::Bad, "wrong");
        let caption = format!(
            "How often each confidence occurs. Mistakes belong to the left: {} of {} were made with a confidence of 95 % or more.",
            thousands(sure),
            counted(errors, "mistake")
        );
        Figure { chart, caption }
    }
}

/// Upright lines at the ends of the training data.
fn with_range(chart: Chart, range: Option<(f64, f64)>) -> Chart {
    let Some((low, high)) = range else { return chart };
    chart.mark(Ink::Reference, Mark::Upright(low)).mark(Ink::Reference, Mark::Upright(high))
}

/// Predictions of about the same confidence.
struct ReliabilityBin {
    confidence: f64,
    accuracy: f64,
    /// Wilson's 95 % interval for the accuracy.
    likely: (f64, f64),
}

fn reliability_bins(pairs: &[(f64, bool)]) -> Vec<ReliabilityBin> {
    let (confidences, right): (Vec<f64>, Vec<bool>) = pairs.iter().copied().unzip();
    let filled = reliability_curve(&confidences, &right, 10).into_iter().filter(|bin| bin.count >= LEAST_IN_BIN);
    let with_error = |bin: evaluate::ReliabilityBin| {
        let (accuracy, count, z) = (bin.accuracy, bin.count as f64, 1.96);
        let centre = (accuracy + z * z / (2.0 * count)) / (1.0 + z * z / count);
        let half =
            z / (1.0 + z * z / count) * (accuracy * (1.0 - accuracy) / count + z * z / (4.0 * count * count)).sqrt();
        ReliabilityBin { confidence: bin.confidence, accuracy, likely: (centre - half, centre + half) }
    };
    filled.map(with_error).collect()
}

/// A histogram of drifts over equal ratios.
fn drift(title: &str, values: &[f64], bound: f64, where_: &str) -> Figure {
    let bins = LogBins::of(values, &[bound, bound * 10f64.powf(0.2)]);
    let beyond = values.iter().filter(|value| value.is_nan() || value.abs() > bound).count();
    let largest = values.iter().map(|value| value.abs()).fold(0.0, f64::max);
    let description = format!(
        "{} of {} are above {}. The largest is {}.",
        beyond,
        counted(values.len(), "geodesic"),
        number(bound),
        number(largest)
    );
    let (good, bad): (Vec<Bar>, Vec<Bar>) = bins.bars().partition(|bar| bar.x.1 <= bound * 1.001);
    let (x, y) = bins.axes("relative change of vᵀGv");
    let chart = Chart::new(title, description, x, y)
        .mark(Ink::Series(0), Mark::Bars(good))
        .mark(Ink::Series(1), Mark::Bars(bad))
        .mark(Ink::Reference, Mark::Upright(bound));
    let caption = format!(
        "A geodesic conserves vᵀGv: its change {where_} measures errors along the velocity. Right of the line ({}, the usual \
         bound) a geodesic is not certified.",
        number(bound)
    );
    Figure { chart, caption }
}

/// How far the ends are from the graph of the outputs.
fn distance(values: &[f64]) -> Figure {
    let bins = LogBins::of(values, &[]);
    let largest = values.iter().copied().fold(0.0, f64::max);
    let description = format!("{}. The largest distance is {}.", counted(values.len(), "geodesic"), number(largest));
    let (x, y) = bins.axes("distance, in standard deviations of the noise");
    let chart = Chart::new("Distance from the graph", description, x, y)
        .mark(Ink::Series(0), Mark::Bars(bins.bars().collect()));
    let caption =
        "The outputs at the data can be followed in two ways: by the weights, and by themselves. They agree on an \
                   exact geodesic; their root mean square difference at its end, in whitened units, is what the \
                   errors of the integration have done to the outputs. Above 0.1 a geodesic is not certified."
            .to_string();
    Figure { chart, caption }
}

/// Numbers counted by their orders of magnitude.
struct LogBins {
    lowest: f64,
    width: f64,
    counts: [usize; Self::COUNT],
}

impl LogBins {
    const COUNT: usize = 24;

    /// Counts the numbers; the bins also reach what is to be `shown`.
    fn of(values: &[f64], shown: &[f64]) -> Self {
        // What is exactly conserved has no logarithm.
        let log = |value: &f64| value.abs().max(1e-16).log10();
        let logs: Vec<f64> = values.iter().filter(|value| value.is_finite()).map(log).collect();
        let all = || logs.iter().copied().chain(shown.iter().map(log));
        let lowest = all().fold(f64::INFINITY, f64::min).floor();
        let highest = all().fold(f64::NEG_INFINITY, f64::max).ceil().max(lowest + 1.0);
        let width = (highest - lowest) / Self::COUNT as f64;
        let mut counts = [0; Self::COUNT];
        for log in &logs {
            counts[(((log - lowest) / width) as usize).min(Self::COUNT - 1)] += 1;
        }
        Self { lowest, width, counts }
    }

    fn edge(&self, bin: usize) -> f64 {
        10f64.powf(self.lowest + self.width * bin as f64)
    }

    fn bars(&self) -> impl Iterator<Item = Bar> + '_ {
        let bar =
            |(bin, count): (usize, &usize)| Bar { x: (self.edge(bin), self.edge(bin + 1)), y: (0.0, *count as f64) };
        self.counts.iter().enumerate().map(bar)
    }

    fn axes(&self, label: &str) -> (Axis, Axis) {
        let x = Axis { low: self.edge(0), high: self.edge(Self::COUNT), ..Axis::log(label, [1.0]) };
        (x, Axis::from_zero("geodesics", self.counts.iter().map(|count| *count as f64)))
    }
}

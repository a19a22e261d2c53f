//! From a posterior, data and ways to predict to the contents of a report.

use std::collections::HashSet;
use std::sync::Arc;

use ndarray::{Array2, Axis};

use super::beside::beside;
use super::conditional::conditional;
use super::contents::{
    Calibration, Certificates, Comparison, Fitted, LeftOut, Made, MethodReport, Origin, Pair, Scored,
};
use super::hold::hold;
use super::left_out::left_out;
use super::notable::worst;
use super::pool::unknown;
use super::quality::quality;
use super::slices::pictures;
use super::spectrum::spectrum;
use super::words::gain_over;
use super::{Report, number};
use crate::conformal::{Calibration as Calibrations, Conditions};
use crate::data::{Dataset, check_targets};
use crate::error::{Error, Result};
use crate::evaluate::{Promise, Scores, TrainingFit, confidences};
use crate::geodesic::{Outcome, Samples, sample_posterior};
use crate::laplace::Laplace;
use crate::likelihood::TargetKind;
use crate::network::Procedure;
use crate::predict::{Geodesics, Method, Prediction, SamplingReport, predict};
use crate::prior::PriorStructure;
use crate::progress::Progress;

/// Settings of [`Report::of`].
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// The ways to predict that are compared (default: the model alone, linearised, 100 draws of the weights and 100
    /// geodesics). Geodesics are drawn once.
    pub methods: Vec<Method>,
    /// The level of the intervals (default: 0.9).
    pub level: f64,
    /// The most rows that are scored (default: 5,000); of more, evenly spaced ones.
    pub max_rows: usize,
    /// The most points in a figure (default: 500); of more, evenly spaced ones.
    pub max_points: usize,
    /// The most inputs along which predictions are drawn (default: 3).
    pub max_inputs: usize,
    /// The group and the weight of each row of the held-out data, where the posterior was calibrated with such (default: none).
    pub conditions: Conditions,
    /// Inputs that could be measured, in the units of the data (default: none).
    pub pool: Option<Array2<f64>>,
    /// Title, date, command and seed, to be shown (default: none).
    pub made: Made,
}

impl Default for ReportOptions {
    fn default() -> Self {
        let draws = crate::predict::Draws::first(100, 0);
        let methods = vec![Method::Map, Method::default(), Method::Nn(draws), Method::riemannian(100, 0)];
        Self {
            methods,
            level: 0.9,
            max_rows: 5000,
            max_points: 500,
            max_inputs: 3,
            conditions: Conditions::default(),
            pool: None,
            made: Made::default(),
        }
    }
}

/// What the report is about, in the user's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The posterior, such as its file's name.
    pub posterior: String,
    /// The held-out data, if any.
    pub data: String,
}

impl Report {
    /// Gathers everything. Without `held_out` data (in their own units) the training data inside the posterior are
    /// scored.
    ///
    /// ```
    /// use ndarray::Array2;
    /// use riemannian_laplace::internals::report::{Names, Report, ReportOptions};
    /// use riemannian_laplace::{Activation, Architecture, Dataset, Family, FitOptions, Laplace, Method, Network};
    ///
    /// let inputs = Array2::from_shape_fn((12, 1), |(n, _)| n as f64 / 6.0 - 1.0);
    /// let data = Dataset::new(inputs.clone(), inputs.mapv(f64::sin))?;
    /// let network = Network::random(Architecture::new(&[1, 3, 1], Activation::Tanh)?, 1);
    /// let laplace = Laplace::fit(network, data, Family::gaussian(0.3)?, &FitOptions::default())?;
    /// let names = Names { posterior: "sine".to_string(), data: String::new() };
    /// let options = ReportOptions { methods: vec![Method::Map, Method::default()], ..Default::default() };
    /// let page = Report::of(&laplace, &names, None, &options, &())?.to_html();
    /// assert!(page.starts_with("<!doctype html>") && page.contains("Can I trust this?"));
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn of(
        laplace: &Laplace,
        names: &Names,
        held_out: Option<&Dataset>,
        options: &ReportOptions,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let methods = with_samples_drawn(laplace, &options.methods, progress)?;
        if methods.is_empty() {
            return Err(Error::NoRows { what: "the methods of a report".to_string() });
        }
        let training = training_data(laplace)?;
        let (data, origin, name) = match (held_out, &training) {
            (Some(data), _) => (data, Origin::HeldOut, names.data.clone()),
            (None, Some(data)) => (data, Origin::Training, names.posterior.clone()),
            (None, None) => return Err(Error::NoTrainingData { what: "a report without other data" }),
        };
        check_targets(data.targets(), laplace.family(), data.len(), laplace.model().n_outputs())?;
        let rows = evenly(data.len(), options.max_rows);
        let used = data.select(&rows)?;
        let outside = if origin == Origin::HeldOut { outside(laplace, &used)? } else { None };
        let repeated = if origin == Origin::HeldOut { repeated(laplace, &used)? } else { None };
        let scored = Scored { origin, name, rows: data.len(), used: used.len(), outside, repeated };
        let observed =
            |rows: &Array2<f64>| laplace.family().observed(rows.view(), laplace.model().n_outputs()).to_owned();
        let targets = observed(used.targets());
        let mut reports = Vec::with_capacity(methods.len());
        let mut predictions = Vec::with_capacity(methods.len());
        for method in &methods {
            progress.check()?;
            let prediction = predict(laplace, used.inputs(), method, progress)?;
            let prediction = prediction.beside(used.targets())?.0.into_owned();
            reports.push(method_report(method, &prediction, &targets, options.level)?);
            predictions.push(prediction);
        }
        let (left_out, notable) = left_out(laplace, &methods, training.as_ref(), progress)?;
        let (shown, why_shown) = shown(&reports, &scored.origin, &left_out);
        let prediction = &predictions[shown];
        let comparison = comparison(prediction, &targets, options)?;
        let worst = worst(prediction, &targets);
        let quality = quality(laplace, prediction, &targets)?;
        let at = options.conditions.select(&rows);
        let hold = hold(laplace, &methods[shown], (&used, &scored.origin), (options.level, at), progress)?;
        let unknown = options.pool.as_ref().map(|pool| unknown(laplace, pool)).transpose()?;
        let negative_ends = negative_ends(prediction, training.as_ref(), options.level)?;
        let promise = promise(&left_out, &reports[shown], shown, &scored.origin);
        progress.check()?;
        let beside = beside(laplace, held_out.map(|_| &used), progress)?;
        let pictures = pictures(laplace, (&methods, shown), training.as_ref(), &used, options)?;
        let inputs: Vec<String> = pictures.influences.iter().map(|(name, _)| name.clone()).collect();
        let conditional = conditional(&predictions[shown], (&used, &targets), &inputs)?;
        let samples = methods.iter().find_map(|method| match method {
            Method::Samples(samples) => Some(samples),
            _ => None,
        });
        Ok(Self {
            posterior: names.posterior.clone(),
            level: options.level,
            fitted: fitted(laplace)?,
            scored,
            methods: reports,
            shown,
            why_shown,
            left_out,
            comparison,
            pictures,
            certificates: samples.map(|samples| certificates(samples)),
            beside,
            promise,
            hold,
            unknown,
            conditional,
            negative_ends,
            notable,
            worst,
            quality,
            made: options.made.clone(),
        })
    }
}

/// What leave-one-out promised of a method beside held-out rows.
fn promise(left_out: &LeftOut, report: &MethodReport, shown: usize, origin: &Origin) -> Option<Promise> {
    let loo = left_out.of(shown).filter(|loo| loo.is_comparable() && *origin == Origin::HeldOut)?;
    Some(Promise::compare(loo, &report.log_densities, report.calibration.coverage(0.9)))
}

/// The share of lower ends below zero, where no training target is.
fn negative_ends(prediction: &Prediction, training: Option<&Dataset>, level: f64) -> Result<Option<f64>> {
    let real = prediction.family().likelihood().kind() == TargetKind::Real;
    let Some(training) = training.filter(|_| real) else { return Ok(None) };
    if training
        .targets()
        .columns()
        .into_iter()
        .take(training.schema().targets().len())
        .flatten()
        .any(|target| *target < 0.0)
    {
        return Ok(None);
    }
    let (lower, _) = prediction.interval(level)?;
    Ok(Some(lower.iter().filter(|end| **end < 0.0).count() as f64 / lower.len().max(1) as f64))
}

/// The methods, with geodesics followed.
fn with_samples_drawn(laplace: &Laplace, methods: &[Method], progress: &dyn Progress) -> Result<Vec<Method>> {
    let drawn = |method: &Method| match method {
        Method::Riemannian(Geodesics { metric, how, sampler, .. }) => {
            let samples = sample_posterior(laplace, *metric, how, sampler, progress)?;
            Ok(Method::Samples(Arc::new(samples)))
        }
        other => Ok(other.clone()),
    };
    methods.iter().map(drawn).collect()
}

/// The training data in their own units, where the posterior holds them.
fn training_data(laplace: &Laplace) -> Result<Option<Dataset>> {
    let (Some(data), schema) = (laplace.data(), laplace.schema()) else { return Ok(None) };
    let inputs = schema.restore_inputs(data.inputs().view())?;
    let targets = schema.restore_targets(data.targets().view())?;
    Dataset::new(inputs, targets)?.with_schema(schema.without_scaling()).map(Some)
}

/// At most `most` of `count` rows, evenly spaced, the first among them.
pub(super) fn evenly(count: usize, most: usize) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|index| index * count / most.max(1)).collect()
}

/// The rows that leave the range of the training inputs in some column. Compared in the units of the model: to restore those
/// of the data and back would round.
fn outside(laplace: &Laplace, data: &Dataset) -> Result<Option<usize>> {
    let Some(training) = laplace.data() else { return Ok(None) };
    let inputs = laplace.schema().scale_inputs(data.inputs().view())?;
    Ok(Some(rows_beyond(training.inputs(), &inputs)))
}

/// The rows of `inputs` that leave the range of the columns of `known` somewhere.
fn rows_beyond(known: &Array2<f64>, inputs: &Array2<f64>) -> usize {
    let ranges: Vec<(f64, f64)> = known
        .axis_iter(Axis(1))
        .map(|column| column.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x))))
        .collect();
    let leaves =
        |row: ndarray::ArrayView1<'_, f64>| row.iter().zip(&ranges).any(|(x, (low, high))| x < low || x > high);
    inputs.rows().into_iter().filter(|row| leaves(*row)).count()
}

/// The rows that are also among the training data, to the last bit in the units of the model.
fn repeated(laplace: &Laplace, data: &Dataset) -> Result<Option<usize>> {
    let (Some(training), schema) = (laplace.data(), laplace.schema()) else { return Ok(None) };
    let bits = |inputs: &Array2<f64>, targets: &Array2<f64>| -> Vec<Vec<u64>> {
        let rows = inputs.rows().into_iter().zip(targets.rows());
        rows.map(|(x, y)| x.iter().chain(y).map(|value| value.to_bits()).collect()).collect()
    };
    let observed = |rows: &Array2<f64>| laplace.family().observed(rows.view(), laplace.model().n_outputs()).to_owned();
    let known: HashSet<Vec<u64>> = bits(training.inputs(), &observed(training.targets())).into_iter().collect();
    let inputs = schema.scale_inputs(data.inputs().view())?;
    let targets = schema.scale_targets(data.targets().view())?;
    Ok(Some(bits(&inputs, &observed(&targets)).iter().filter(|row| known.contains(*row)).count()))
}

fn fitted(laplace: &Laplace) -> Result<Fitted> {
    let (model, schema, family) = (laplace.model(), laplace.schema(), laplace.family());
    let likelihood = family.likelihood();
    let n_targets = schema.targets().len();
    let class_names = |target: usize| match schema.classes_of(target) {
        Some(names) => names.to_vec(),
        None => (0..likelihood.n_classes(model.n_outputs())).map(|class| class.to_string()).collect(),
    };
    Ok(Fitted {
        network: model.description(),
        part: model
            .subset()
            .map(|place| format!("{} of {} weights: {}", model.n_params(), place.all.len(), place.name)),
        n_params: model.n_params(),
        family: family.clone(),
        n_data: laplace.n_data(),
        n_calibration: laplace.calibration().map(Calibrations::n_rows),
        inputs: schema.inputs().to_vec(),
        targets: schema.targets().to_vec(),
        classes: if family.has_classes() { (0..n_targets).map(class_names).collect() } else { Vec::new() },
        scaled: schema.scaling().is_some(),
        prior: prior_in_words(laplace),
        sigma: laplace.sigma(),
        temperature: Some(laplace.temperature()).filter(|temperature| *temperature != 1.0),
        structure: laplace.structure().word(),
        curvature: laplace.curvature_kind().name(),
        log_likelihood: laplace.log_likelihood(),
        log_marginal_likelihood: laplace.log_marginal_likelihood(),
        log_marginal_likelihood_error: laplace.log_marginal_likelihood_error(),
        condition: laplace.condition().map(|condition| (condition, laplace.evidence_digits(condition))),
        effective_parameters: laplace.effective_parameters(),
        spectrum: spectrum(laplace)?,
        fit: if laplace.data().is_some() { Some(TrainingFit::of(laplace)?) } else { None },
        trained_here: laplace.recipe().is_some(),
        held_rows_out: laplace.recipe().is_some_and(|recipe| {
            matches!(recipe.procedure, Procedure::EarlyStopping { .. } | Procedure::CrossValidated { .. })
        }),
        stopped_early: laplace
            .recipe()
            .is_some_and(|recipe| matches!(recipe.procedure, Procedure::EarlyStopping { .. })),
    })
}

fn prior_in_words(laplace: &Laplace) -> String {
    let prior = laplace.prior();
    if prior.is_earlier_posterior() {
        return "an earlier posterior".to_string();
    }
    let values = prior.values();
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
    match prior.structure() {
        PriorStructure::Scalar => format!("precision {}, one for all weights", number(low)),
        PriorStructure::PerLayer if values.len() <= 6 => {
            format!("precision {}, one per layer", values.iter().map(|v| number(*v)).collect::<Vec<_>>().join(", "))
        }
        PriorStructure::PerLayer => format!("precisions {} to {}, one per layer", number(low), number(high)),
        PriorStructure::PerWeight => format!("precisions {} to {}, one per weight", number(low), number(high)),
    }
}

fn method_report(method: &Method, prediction: &Prediction, targets: &Array2<f64>, level: f64) -> Result<MethodReport> {
    let words = match method {
        Method::Map => "network alone",
        Method::Glm(_) => "linearised",
        Method::Nn(_) => "sampled weights",
        Method::Riemannian(_) | Method::Samples(_) => "geodesics",
        Method::Mixture(_) => "mixture of posteriors",
    };
    let mean_width = match prediction.family().has_classes() {
        true => None,
        false => {
            let (lower, upper) = prediction.interval(level)?;
            (upper - lower).mean()
        }
    };
    Ok(MethodReport {
        name: method.name(),
        words,
        scores: Scores::of(prediction, targets)?,
        log_densities: prediction.log_densities(targets)?.to_vec(),
        mean_width,
        calibration: calibration(prediction, targets)?,
    })
}

fn calibration(prediction: &Prediction, targets: &Array2<f64>) -> Result<Calibration> {
    match prediction.family().has_classes() {
        false => Ok(Calibration::Ranks(prediction.ranks(targets)?.into_iter().flatten().collect())),
        true => {
            let (confidences, right) = confidences(prediction, targets);
            Ok(Calibration::Confidence(confidences.into_iter().zip(right).collect()))
        }
    }
}

fn most_probable(probabilities: ndarray::ArrayView1<'_, f64>) -> usize {
    (0..probabilities.len()).fold(0, |best, k| if probabilities[k] > probabilities[best] { k } else { best })
}

/// The method that the figures show, and why: the linearised one, unless another is better by more than two standard
/// errors, on held-out data or (where there are none) by leave-one-out.
fn shown(methods: &[MethodReport], origin: &Origin, left_out: &LeftOut) -> (usize, &'static str) {
    let default = methods.iter().position(|method| method.name == "glm").unwrap_or(0);
    let logs = |index: usize| -> Option<&[f64]> {
        match origin {
            Origin::HeldOut => Some(&methods[index].log_densities),
            Origin::Training => {
                let comparable = left_out.of(index).filter(|scores| scores.is_comparable());
                comparable.map(|scores| scores.pointwise.as_slice())
            }
        }
    };
    let gain = |index: usize| match (logs(index), logs(default)) {
        (Some(one), Some(other)) => gain_over(one, other),
        _ => (0.0, 0.0),
    };
    let clear = (0..methods.len()).filter(|index| gain(*index).0 > 2.0 * gain(*index).1);
    match clear.max_by(|a, b| gain(*a).0.total_cmp(&gain(*b).0)) {
        Some(best) => (best, "which is clearly better than the others here"),
        None if methods.len() > 1 => (default, "which no other clearly beats here"),
        None => (default, "the only one"),
    }
}

fn comparison(prediction: &Prediction, targets: &Array2<f64>, options: &ReportOptions) -> Result<Comparison> {
    match prediction.family().likelihood().kind() {
        TargetKind::Real | TargetKind::Positive | TargetKind::Count => {
            let (lower, upper) = prediction.interval(options.level)?;
            let rows = evenly(targets.nrows(), options.max_points);
            let pairs = |target: usize| {
                let pair = |row: &usize| Pair {
                    mean: prediction.mean[(*row, target)],
                    interval: (lower[(*row, target)], upper[(*row, target)]),
                    observed: targets[(*row, target)],
                };
                rows.iter().map(pair).collect()
            };
            Ok(Comparison::Numbers((0..targets.ncols()).map(pairs).collect()))
        }
        TargetKind::Answers => {
            let table = |target: usize| {
                let mut counts = vec![vec![0; 2]; 2];
                for (p, y) in prediction.mean.column(target).iter().zip(targets.column(target)) {
                    counts[usize::from(*y > 0.5)][usize::from(*p >= 0.5)] += 1;
                }
                counts
            };
            Ok(Comparison::Confusion((0..targets.ncols()).map(table).collect()))
        }
        TargetKind::Label => {
            let classes = prediction.mean.ncols();
            let mut counts = vec![vec![0; classes]; classes];
            for (p, y) in prediction.mean.rows().into_iter().zip(targets.column(0)) {
                // A label without a class of its own is in no cell.
                if let Some(count) = counts.get_mut(*y as usize).and_then(|row| row.get_mut(most_probable(p))) {
                    *count += 1;
                }
            }
            Ok(Comparison::Confusion(vec![counts]))
        }
    }
}

fn certificates(samples: &Samples) -> Certificates {
    let reached = |values: &[f64]| -> Vec<f64> {
        let pairs = values.iter().zip(&samples.outcome).filter(|(_, outcome)| **outcome == Outcome::Reached);
        pairs.map(|(value, _)| *value).collect()
    };
    Certificates {
        count: SamplingReport::of(samples),
        metric: samples.metric.map_or_else(|| "unknown".to_string(), |metric| metric.name().to_string()),
        drift: reached(&samples.drift),
        path_drift: reached(&samples.path_drift),
        off_graph: samples.off_graph.as_deref().map_or_else(Vec::new, reached),
        paths: samples.path_certified(),
        end_error: samples.max_end_error(),
        mean_evaluations: samples.mean_evaluations(),
        residual_ratio: samples.residuals.map(|residuals| residuals.ratio()),
        smoothing: samples.smoothing,
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn rows_are_thinned_evenly_from_the_first() {
        assert_eq!(evenly(3, 5), [0, 1, 2]);
        assert_eq!(evenly(10, 5), [0, 2, 4, 6, 8]);
        assert_eq!(evenly(7, 3), [0, 2, 4]);
        assert_eq!(evenly(1_000_003, 5000).len(), 5000);
    }

    #[test]
    fn rows_outside_the_range_of_any_column_are_counted_once() {
        let known = array![[0.0, -1.0], [1.0, 1.0]];
        assert_eq!(rows_beyond(&known, &array![[0.5, 0.0], [1.1, 0.0], [2.0, 2.0], [0.0, 1.0]]), 2);
    }
}

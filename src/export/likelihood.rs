//! From raw outputs to the outputs of the file, by likelihood: all that differs between likelihoods is here.

use super::covariance::Covariance;
use super::functions::expm1;
use super::quantiles::{NormalMixture, PoissonMixture, normal_quantiles, poisson_quantiles};
use super::writer::{Axis, Name, Writer};
use crate::data::Schema;
use crate::error::{Error, Result, Unsupported};
use crate::likelihood::{Family, GraphForm, TargetKind};
use crate::predict::{Link, normal_quantile};

/// What is known of the raw outputs.
pub(super) enum Outputs<'a> {
    /// Those of the trained network: `[rows, P]`.
    Network(Name),
    /// A Gaussian over them: its mean, and its covariance.
    Gaussian { mean: Name, covariance: &'a Covariance, link: Link },
    /// Those of S networks: `[S, rows, P]`.
    Samples { outputs: Name, count: usize },
}

/// The setting of the outputs.
pub(super) struct Setting<'a> {
    pub(super) family: &'a Family,
    pub(super) schema: &'a Schema,
    /// P.
    pub(super) n_outputs: usize,
    /// The probability of an interval.
    pub(super) level: f64,
    pub(super) opset: i64,
}

/// An output of the file.
pub(super) struct Output {
    pub(super) name: &'static str,
    pub(super) value: Name,
    /// The lengths of its axes.
    pub(super) axes: Vec<Axis>,
}

/// The nodes at which a log variance is evaluated, in standard deviations: as `predict` does.
const NODE_STEP: f64 = 0.25;
const LAST_NODE: i32 = 24;
/// e⁸⁵ is within single precision.
const LARGEST_EXPONENT: f64 = 85.0;
/// The points of equal probability at which a log-normal rate is evaluated: as `predict` does.
const RATES: usize = 400;

/// Writes the outputs.
pub(super) fn write(w: &mut Writer, setting: &Setting<'_>, outputs: &Outputs<'_>) -> Result<Vec<Output>> {
    let likelihood = setting.family.likelihood();
    match likelihood.graph_form() {
        Some(GraphForm::Normal) => normal(w, setting, outputs),
        Some(GraphForm::NormalWithLogVariance) => normal_with_log_variance(w, setting, outputs),
        Some(GraphForm::LogRate) => counts(w, setting, outputs),
        Some(GraphForm::Logits) => classes(w, setting, outputs),
        None => {
            let (name, known) =
                (likelihood.name(), if likelihood.known().is_empty() { "" } else { " with known noise or trials" });
            Err(super::refused(&format!(
                "the {name} likelihood{known}, whose predictions are not written as a graph yet"
            )))
        }
    }
}

impl Setting<'_> {
    fn output(&self, name: &'static str, value: Name, width: Option<usize>) -> Output {
        Output { name, value, axes: std::iter::once(Axis::Rows).chain(width.map(Axis::Length)).collect() }
    }

    /// The levels of both ends.
    fn ends(&self) -> [f64; 2] {
        [0.5 * (1.0 - self.level), 0.5 * (1.0 + self.level)]
    }

    /// Means in the units of the data.
    fn restored(&self, w: &mut Writer, value: &Name) -> Name {
        let Some(scaling) = self.schema.scaling().and_then(|scaling| scaling.targets.as_ref()) else {
            return value.clone();
        };
        let (scale, mean) =
            (w.numbers(&[scaling.n_columns()], scaling.scale()), w.numbers(&[scaling.n_columns()], scaling.mean()));
        let scaled = w.multiply(value, &scale);
        w.add(&scaled, &mean)
    }

    /// Variances in the units of the data.
    fn restored_variance(&self, w: &mut Writer, value: &Name) -> Name {
        let Some(scaling) = self.schema.scaling().and_then(|scaling| scaling.targets.as_ref()) else {
            return value.clone();
        };
        let squares: Vec<f64> = scaling.scale().iter().map(|scale| scale * scale).collect();
        let squares = w.numbers(&[squares.len()], &squares);
        w.multiply(value, &squares)
    }

    /// The outputs of real targets and counts.
    fn regression(
        &self,
        w: &mut Writer,
        width: usize,
        [mean, epistemic, aleatoric]: [Name; 3],
        ends: [Name; 2],
    ) -> Vec<Output> {
        let width = Some(width);
        let [lower, upper] = ends;
        let named = [
            ("mean", self.restored(w, &mean)),
            ("epistemic_variance", self.restored_variance(w, &epistemic)),
            ("aleatoric_variance", self.restored_variance(w, &aleatoric)),
            ("lower", self.restored(w, &lower)),
            ("upper", self.restored(w, &upper)),
        ];
        named.into_iter().map(|(name, value)| self.output(name, value, width)).collect()
    }
}

/// m ± zσ.
fn normal_ends(w: &mut Writer, setting: &Setting<'_>, mean: &Name, variance: &Name) -> [Name; 2] {
    let deviation = w.unary("Sqrt", variance);
    setting.ends().map(|level| {
        let shift = w.with("Mul", &deviation, normal_quantile(level));
        w.add(mean, &shift)
    })
}

/// The mean and the variance over samples.
fn spread(w: &mut Writer, samples: &Name, count: usize) -> [Name; 2] {
    let mean = w.mean(samples, 0, count);
    let shifts = w.subtract(samples, &mean);
    let squares = w.square(&shifts);
    [mean.clone(), w.mean(&squares, 0, count)]
}

/// Zeros like another value.
fn zeros_like(w: &mut Writer, like: &Name) -> Name {
    let zero = w.number(0.0);
    w.expand_like(&zero, like)
}

fn normal(w: &mut Writer, setting: &Setting<'_>, outputs: &Outputs<'_>) -> Result<Vec<Output>> {
    let p = setting.n_outputs;
    let sigmas = setting.family.sigma().unwrap_or(&[1.0]);
    let noise: Vec<f64> = (0..p).map(|k| sigmas[if sigmas.len() == 1 { 0 } else { k }].powi(2)).collect();
    let noise = w.numbers(&[p], &noise);
    let (mean, epistemic, ends) = match outputs {
        Outputs::Network(mean) => (mean.clone(), zeros_like(w, mean), None),
        Outputs::Gaussian { mean, covariance, .. } => (mean.clone(), covariance.variances(w), None),
        Outputs::Samples { outputs, count } => {
            let [mean, variance] = spread(w, outputs, *count);
            let deviations = w.unary("Sqrt", &noise);
            let mixture = NormalMixture { means: outputs.clone(), deviations, weights: None, count: *count };
            (mean, variance, Some(normal_quantiles(w, &mixture, setting.ends(), setting.opset)))
        }
    };
    let aleatoric = w.expand_like(&noise, &mean);
    let ends = match ends {
        Some(ends) => ends,
        None => {
            let total = w.add(&epistemic, &noise);
            normal_ends(w, setting, &mean, &total)
        }
    };
    Ok(setting.regression(w, p, [mean, epistemic, aleatoric], ends))
}

/// Outputs are means, then log variances.
fn normal_with_log_variance(w: &mut Writer, setting: &Setting<'_>, outputs: &Outputs<'_>) -> Result<Vec<Output>> {
    let n = setting.n_outputs / 2;
    let (first, second): (Vec<usize>, Vec<usize>) = ((0..n).collect(), (n..2 * n).collect());
    match outputs {
        Outputs::Network(raw) => {
            let (mean, log_variance) = (w.gather(raw, &first, -1), w.gather(raw, &second, -1));
            let (epistemic, aleatoric) = (zeros_like(w, &mean), w.unary("Exp", &log_variance));
            let ends = normal_ends(w, setting, &mean, &aleatoric);
            Ok(setting.regression(w, n, [mean, epistemic, aleatoric], ends))
        }
        Outputs::Samples { outputs, count } => {
            let (means, log_variances) = (w.gather(outputs, &first, -1), w.gather(outputs, &second, -1));
            let [mean, epistemic] = spread(w, &means, *count);
            let variances = w.unary("Exp", &log_variances);
            let (aleatoric, deviations) = (w.mean(&variances, 0, *count), w.unary("Sqrt", &variances));
            let mixture = NormalMixture { means, deviations, weights: None, count: *count };
            let ends = normal_quantiles(w, &mixture, setting.ends(), setting.opset);
            Ok(setting.regression(w, n, [mean, epistemic, aleatoric], ends))
        }
        Outputs::Gaussian { mean: raw, covariance, .. } => {
            let (mean, log_variance) = (w.gather(raw, &first, -1), w.gather(raw, &second, -1));
            let (epistemic, spread) = (covariance.between(w, &first, &first), covariance.between(w, &second, &second));
            let cross = covariance.between(w, &first, &second);
            let half = w.with("Mul", &spread, 0.5);
            let exponent = w.add(&log_variance, &half);
            let aleatoric = w.unary("Exp", &exponent);
            let mixture = noise_mixture(w, [&mean, &log_variance], [&epistemic, &cross, &spread]);
            let ends = normal_quantiles(w, &mixture, setting.ends(), setting.opset);
            Ok(setting.regression(w, n, [mean, epistemic, aleatoric], ends))
        }
    }
}

/// Given that the log variance s is x of its standard deviations above its mean, y is normal: its components at the nodes.
fn noise_mixture(w: &mut Writer, [mean, log_variance]: [&Name; 2], [own, cross, spread]: [&Name; 3]) -> NormalMixture {
    let nodes: Vec<f64> = (-LAST_NODE..=LAST_NODE).map(|i| NODE_STEP * f64::from(i)).collect();
    let densities: Vec<f64> = nodes.iter().map(|x| (-0.5 * x * x).exp()).collect();
    let total: f64 = densities.iter().sum();
    let count = nodes.len();
    let weights: Vec<f64> = densities.iter().map(|density| density / total).collect();
    let (nodes, weights) = (w.numbers(&[count, 1, 1], &nodes), w.numbers(&[count, 1, 1], &weights));
    let deviation = w.unary("Sqrt", spread);
    // Nothing is divided by a log variance that is certain.
    let floor = w.with("Max", &deviation, 1e-30);
    let slope = w.divide(cross, &floor);
    let explained = w.square(&slope);
    let rest = w.subtract(own, &explained);
    let rest = w.with("Max", &rest, 0.0);
    let shifts = w.multiply(&nodes, &slope);
    let means = w.add(mean, &shifts);
    let moved = w.multiply(&nodes, &deviation);
    let exponents = w.add(log_variance, &moved);
    // A component far out whose variance single precision cannot hold weighs nothing.
    let exponents = w.with("Min", &exponents, LARGEST_EXPONENT);
    let noise = w.unary("Exp", &exponents);
    let variances = w.add(&noise, &rest);
    let deviations = w.unary("Sqrt", &variances);
    NormalMixture { means, deviations, weights: Some(weights), count }
}

fn counts(w: &mut Writer, setting: &Setting<'_>, outputs: &Outputs<'_>) -> Result<Vec<Output>> {
    let (moments, mixture) = match outputs {
        Outputs::Network(raw) => {
            let rate = w.unary("Exp", raw);
            let logs = w.reshape_front(raw, setting.n_outputs);
            ([rate.clone(), zeros_like(w, &rate), rate], PoissonMixture { log_rates: logs, count: 1 })
        }
        Outputs::Samples { outputs, count } => {
            let rates = w.unary("Exp", outputs);
            let [mean, variance] = spread(w, &rates, *count);
            ([mean.clone(), variance, mean], PoissonMixture { log_rates: outputs.clone(), count: *count })
        }
        Outputs::Gaussian { mean: raw, covariance, .. } => {
            let variance = covariance.variances(w);
            let half = w.with("Mul", &variance, 0.5);
            let exponent = w.add(raw, &half);
            let mean = w.unary("Exp", &exponent);
            let square = w.square(&mean);
            let growth = expm1(w, &variance);
            let epistemic = w.multiply(&growth, &square);
            let levels: Vec<f64> = (0..RATES).map(|i| normal_quantile((i as f64 + 0.5) / RATES as f64)).collect();
            let levels = w.numbers(&[RATES, 1, 1], &levels);
            let deviation = w.unary("Sqrt", &variance);
            let shifts = w.multiply(&levels, &deviation);
            let log_rates = w.add(raw, &shifts);
            ([mean.clone(), epistemic, mean], PoissonMixture { log_rates, count: RATES })
        }
    };
    let ends = poisson_quantiles(w, &mixture, setting.ends());
    Ok(setting.regression(w, setting.n_outputs, moments, ends))
}

fn is_binary(setting: &Setting<'_>) -> bool {
    setting.family.likelihood().kind() == TargetKind::Answers
}

/// Probabilities of raw outputs along the last axis.
fn probabilities(w: &mut Writer, setting: &Setting<'_>, logits: &Name) -> Name {
    if is_binary(setting) { w.unary("Sigmoid", logits) } else { w.softmax(logits, -1) }
}

/// −Σ p log p over the last axis; of yes/no answers, of both.
fn entropy(w: &mut Writer, setting: &Setting<'_>, p: &Name) -> Name {
    let of = |w: &mut Writer, p: &Name| {
        let held = w.with("Max", p, f64::from(f32::MIN_POSITIVE));
        let logs = w.unary("Log", &held);
        let products = w.multiply(p, &logs);
        let sum = w.sum(&products, -1, false);
        w.unary("Neg", &sum)
    };
    let own = of(w, p);
    if !is_binary(setting) {
        return own;
    }
    let one = w.number(1.0);
    let rest = w.subtract(&one, p);
    let other = of(w, &rest);
    w.add(&own, &other)
}

fn classes(w: &mut Writer, setting: &Setting<'_>, outputs: &Outputs<'_>) -> Result<Vec<Output>> {
    let (p, last) = match outputs {
        Outputs::Network(logits) => (probabilities(w, setting, logits), None),
        Outputs::Samples { outputs, count } => {
            let each = probabilities(w, setting, outputs);
            let p = w.mean(&each, 0, *count);
            let (of_mean, of_each) = (entropy(w, setting, &p), entropy(w, setting, &each));
            let known = w.mean(&of_each, 0, *count);
            let left = w.subtract(&of_mean, &known);
            (p, Some(("mutual_information", w.with("Max", &left, 0.0))))
        }
        Outputs::Gaussian { mean, covariance, link } => {
            let p = linked(w, setting, mean, covariance, *link)?;
            let logits = Logits::new(w, setting, mean, covariance);
            (p, Some(("logit_variance", logits.total_variance(w))))
        }
    };
    let entropy = entropy(w, setting, &p);
    let mut found =
        vec![setting.output("probabilities", p, Some(setting.n_outputs)), setting.output("entropy", entropy, None)];
    found.extend(last.map(|(name, value)| setting.output(name, value, None)));
    Ok(found)
}

/// Logits, their variances and the row sums of their covariance.
struct Logits {
    mean: Name,
    variances: Name,
    row_sums: Option<Name>,
    count: f64,
}

impl Logits {
    fn new(w: &mut Writer, setting: &Setting<'_>, mean: &Name, covariance: &Covariance) -> Self {
        let row_sums = if is_binary(setting) { None } else { Some(covariance.row_sums(w)) };
        Self { mean: mean.clone(), variances: covariance.variances(w), row_sums, count: setting.n_outputs as f64 }
    }

    /// tr C, or what is left of it for logits whose mean is subtracted.
    fn total_variance(&self, w: &mut Writer) -> Name {
        let trace = w.sum(&self.variances, -1, false);
        match &self.row_sums {
            None => w.with("Mul", &trace, 0.5),
            Some(sums) => {
                let all = w.sum(sums, -1, false);
                let common = w.with("Mul", &all, 1.0 / self.count);
                let left = w.subtract(&trace, &common);
                w.with("Max", &left, 0.0)
            }
        }
    }

    /// The logits less their mean: their values and variances.
    fn centred(&self, w: &mut Writer) -> [Name; 2] {
        let Some(sums) = &self.row_sums else { return [self.mean.clone(), self.variances.clone()] };
        let sum = w.sum(&self.mean, -1, true);
        let average = w.with("Mul", &sum, 1.0 / self.count);
        let mean = w.subtract(&self.mean, &average);
        let total = w.sum(sums, -1, true);
        let total = w.with("Mul", &total, 1.0 / (self.count * self.count));
        let shared = w.with("Mul", sums, 2.0 / self.count);
        let variances = w.subtract(&self.variances, &shared);
        [mean, w.add(&variances, &total)]
    }

    /// The logits conditioned on their sum being zero.
    fn conditioned(&self, w: &mut Writer) -> [Name; 2] {
        let Some(sums) = &self.row_sums else {
            return [self.mean.clone(), self.variances.clone()];
        };
        let total = w.sum(sums, -1, true);
        let sizes = w.unary("Abs", &self.variances);
        let rounding = w.sum(&sizes, -1, true);
        let rounding = w.with("Mul", &rounding, 4.0 * self.count * self.count * f64::EPSILON);
        let known = w.binary("Greater", &total, &rounding);
        let share = w.divide(sums, &total);
        let equal = w.number(1.0 / self.count);
        let share = w.choose(&known, &share, &equal);
        let sum = w.sum(&self.mean, -1, true);
        let taken = w.multiply(&share, &sum);
        let mean = w.subtract(&self.mean, &taken);
        let taken = w.multiply(&share, sums);
        let variances = w.subtract(&self.variances, &taken);
        [mean, w.with("Max", &variances, 0.0)]
    }
}

/// f/√(1 + π/8·share·var).
fn probit(w: &mut Writer, [mean, variances]: &[Name; 2], share: f64) -> Name {
    let seen = w.with("Mul", variances, std::f64::consts::FRAC_PI_8 * share);
    let sum = w.with("Add", &seen, 1.0);
    let root = w.unary("Sqrt", &sum);
    w.divide(mean, &root)
}

/// Class probabilities by a link.
fn linked(w: &mut Writer, setting: &Setting<'_>, mean: &Name, covariance: &Covariance, link: Link) -> Result<Name> {
    let (binary, opset) = (is_binary(setting), setting.opset);
    let logits = Logits::new(w, setting, mean, covariance);
    let shrunken = match link {
        Link::Probit => probit(w, &[logits.mean, logits.variances], 1.0),
        Link::Centred if !binary && setting.n_outputs > 2 => {
            let [mean, variances] = logits.centred(w);
            let variances = w.with("Max", &variances, 0.0);
            let bridge = Bridge { logits: mean, variances, classes: setting.n_outputs, opset, axis: -1 };
            return Ok(bridge.probabilities(w));
        }
        Link::Centred | Link::CentredProbit => {
            let centred = logits.centred(w);
            probit(w, &centred, if binary { 0.25 } else { 1.0 })
        }
        Link::Bridge if binary => return Ok(binary_bridge(w, setting, &logits)),
        Link::Bridge => {
            let [mean, variances] = logits.conditioned(w);
            let bridge = Bridge { logits: mean, variances, classes: setting.n_outputs, opset, axis: -1 };
            return Ok(bridge.probabilities(w));
        }
        Link::MonteCarlo(_) => {
            return Err(Error::Unsupported(Unsupported::Link {
                link: "mc",
                likelihood: setting.family.likelihood().name(),
                instead: "centred, probit or bridge, or the nn method, whose samples travel in the file",
            }));
        }
    };
    Ok(probabilities(w, setting, &shrunken))
}

/// Two classes with logits (−f/2, f/2), for every output.
fn binary_bridge(w: &mut Writer, setting: &Setting<'_>, logits: &Logits) -> Name {
    let last = w.integers(&[-1]);
    let column = w.binary("Unsqueeze", &logits.mean, &last);
    let halves = w.numbers(&[2], &[-0.5, 0.5]);
    let both = w.multiply(&column, &halves);
    let variances = w.binary("Unsqueeze", &logits.variances, &last);
    let quarters = w.numbers(&[2], &[0.25, 0.25]);
    let variances = w.multiply(&variances, &quarters);
    let bridge = Bridge { logits: both, variances, classes: 2, opset: setting.opset, axis: -1 };
    let p = bridge.probabilities(w);
    let second = w.gather(&p, &[1], -1);
    w.binary("Squeeze", &second, &last)
}

/// The Laplace bridge along the last axis.
struct Bridge {
    logits: Name,
    variances: Name,
    classes: usize,
    opset: i64,
    axis: i64,
}

impl Bridge {
    /// α_k ∝ (1 − 2/K + e^{f_k}/K² Σ_l e^{−f_l})/var_k; where a variance vanishes, the softmax.
    fn probabilities(&self, w: &mut Writer) -> Name {
        let count = self.classes as f64;
        let negative = w.unary("Neg", &self.logits);
        let top = w.largest(&negative, self.axis, self.opset);
        let shifted = w.subtract(&negative, &top);
        let exponentials = w.unary("Exp", &shifted);
        let sum = w.sum(&exponentials, -1, true);
        let log_sum = w.unary("Log", &sum);
        let log_inverse_sum = w.add(&log_sum, &top);
        let log_weight = w.add(&self.logits, &log_inverse_sum);
        let log_weight = w.with("Sub", &log_weight, 2.0 * count.ln());
        let inverse = w.unary("Neg", &log_weight);
        let inverse = w.unary("Exp", &inverse);
        let inverse = w.with("Mul", &inverse, 1.0 - 2.0 / count);
        let rest = w.with("Add", &inverse, 1.0);
        let rest = w.unary("Log", &rest);
        let log_variances = w.unary("Log", &self.variances);
        let concentrations = w.add(&log_weight, &rest);
        let concentrations = w.subtract(&concentrations, &log_variances);
        let bridge = w.softmax(&concentrations, self.axis);
        let plain = w.softmax(&self.logits, self.axis);
        let negative = w.unary("Neg", &self.variances);
        let least = w.largest(&negative, self.axis, self.opset);
        let certain = w.number(0.0);
        let uncertain = w.binary("Less", &least, &certain);
        w.choose(&uncertain, &bridge, &plain)
    }
}

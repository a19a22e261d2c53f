//! Calibrating the ways to predict on rows that were held out, and predicting with the guarantee that follows
//! ([`conformal`](crate::conformal) has the arithmetic).

use ndarray::{Array1, Array2, Array3, Axis};

use super::{Method, Prediction, predict};
use crate::conformal::{
    Calibrated, Calibration, CalibrationError, Conditions, Groups, Score, adaptive_scores, check_weights, common_rows,
    fingerprints, repeated_share,
};
use crate::data::{Dataset, Pieces, check_targets};
use crate::error::{Error, Result, Unsupported, check_size};
use crate::laplace::Laplace;
use crate::likelihood::{Family, TargetKind};
use crate::progress::Progress;

/// The share of calibration rows that may be training rows, beyond what repeats among these.
const MORE_THAN_BY_NATURE: f64 = 0.1;

/// The rounding of a rank, a sum of up to thousands of probabilities.
const RANK_ROUNDING: f64 = 1e-12;

/// How to calibrate.
#[derive(Debug, Clone)]
pub struct CalibrationOptions {
    /// The level that predictions have unless another is asked for (default: 0.9).
    pub level: f64,
    /// A column and its value at each row: coverage is to hold in each group (default: none).
    pub groups: Option<(String, Vec<String>)>,
    /// A column of weights and its value at each row: the density of new inputs relative to that of the calibration rows, up to a
    /// factor (default: none).
    pub weights: Option<(String, Vec<f64>)>,
}

impl Default for CalibrationOptions {
    fn default() -> Self {
        Self { level: 0.9, groups: None, weights: None }
    }
}

/// What a prediction promises: y is inside with at least the probability of the level.
#[derive(Debug, Clone, PartialEq)]
pub enum Promised {
    /// For numbers: the ends, one row per input, one column per target. They are infinite where the scores are not enough.
    Interval(Array2<f64>, Array2<f64>),
    /// For classes: whether a class is in the set; rows × targets × classes.
    Set(Array3<bool>),
}

impl Promised {
    /// Whether each observation is inside: rows × targets.
    pub fn contains(&self, targets: &Array2<f64>) -> Array2<bool> {
        Array2::from_shape_fn(targets.dim(), |(n, k)| {
            let y = targets[(n, k)];
            match self {
                Promised::Interval(lower, upper) => (lower[(n, k)]..=upper[(n, k)]).contains(&y),
                Promised::Set(inside) => inside.get((n, k, y as usize)).copied().unwrap_or(false),
            }
        })
    }

    /// How wide each interval is, or how many classes are in each set: rows × targets.
    pub fn sizes(&self) -> Array2<f64> {
        match self {
            Promised::Interval(lower, upper) => upper - lower,
            Promised::Set(inside) => inside.map_axis(Axis(2), |set| set.iter().filter(|class| **class).count() as f64),
        }
    }
}

impl Score {
    /// The scores that calibration keeps for a likelihood; the first is the usual one.
    pub fn of_family(family: &Family) -> &'static [Score] {
        match family.likelihood().kind() {
            TargetKind::Label | TargetKind::Answers => &[Score::Lac, Score::Aps],
            TargetKind::Real => &[Score::Normalized],
            TargetKind::Positive | TargetKind::Count => &[Score::Rank],
        }
    }
}

impl Laplace {
    /// Calibrates ways to predict on rows that the posterior has not seen (in the units of the data), so that
    /// [`promised`](Self::promised) has intervals or sets with a guarantee. It replaces an earlier calibration.
    ///
    /// Returned is the number of rows that are also training rows, where the posterior holds those. They are refused where they are
    /// clearly more than rows that repeat by nature: than twice the share of training rows that occur twice, and a tenth. So are too
    /// few rows.
    ///
    /// ```
    /// use ndarray::Array2;
    /// use riemannian_laplace::prelude::*;
    /// use riemannian_laplace::internals::predict::{CalibrationOptions, Promised};
    ///
    /// let rows = |from: i32, to: i32| {
    ///     let x = Array2::from_shape_fn(((to - from) as usize, 1), |(n, _)| 0.1 * f64::from(from + n as i32));
    ///     let y = x.mapv(|x| x.sin() + 0.3 * (37.0 * x).sin());
    ///     Dataset::new(x, y)
    /// };
    /// let network = Network::random(Architecture::new(&[1, 4, 1], Activation::Tanh)?, 1);
    /// let mut laplace = Laplace::fit(network, rows(0, 20)?, Family::gaussian(0.1)?, &FitOptions::default())?;
    /// let (method, held_out) = (Method::default(), rows(20, 40)?);
    /// laplace.calibrate(&held_out, &[method.clone()], CalibrationOptions::default(), &())?;
    /// let prediction = laplace.predict(held_out.inputs(), &method)?;
    /// let promised = laplace.promised(&prediction, &method, 0.9, None, &Default::default())?;
    /// // ⌈0.9 · 21⌉ = 19 of the 20 calibration rows are inside, by construction.
    /// assert_eq!(promised.contains(held_out.targets()).iter().filter(|inside| **inside).count(), 19);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn calibrate(
        &mut self,
        data: &Dataset,
        methods: &[Method],
        options: CalibrationOptions,
        progress: &dyn Progress,
    ) -> Result<usize> {
        let rows = self.fingerprints_of(data)?;
        let overlap = self.overlap(&rows)?;
        let groups = options.groups.map(|(column, values)| {
            check_size("number of groups", data.len(), values.len()).map(|()| Groups::new(column, &values))
        });
        if let Some((_, weights)) = &options.weights {
            check_size("number of weights", data.len(), weights.len())?;
            check_weights(weights)?;
        }
        let (groups, weights) = (groups.transpose()?, options.weights);
        let mut calibration = Calibration { level: options.level, groups, weights, rows, methods: Vec::new() };
        calibration.check_level(options.level)?;
        for method in methods {
            calibration.methods.extend(self.scores_of(data, method, progress)?);
        }
        self.set_calibration(Some(calibration));
        Ok(overlap)
    }

    /// How many rows are training rows: none, or about as many as rows repeat by nature. More are refused.
    fn overlap(&self, rows: &[f64]) -> Result<usize> {
        let Some(training) = self.data() else { return Ok(0) };
        let known = fingerprints(training.inputs(), &self.observed(training.targets()));
        let common = common_rows(rows, &known);
        let allowed = 2.0 * repeated_share(&known) + MORE_THAN_BY_NATURE;
        match common.first() {
            Some(&first) if common.len() as f64 > allowed * rows.len() as f64 => {
                let (count, of) = (common.len(), rows.len());
                Err(Error::Calibration(CalibrationError::Overlap { count, of, first }))
            }
            _ => Ok(common.len()),
        }
    }

    /// The fingerprints of rows in the units of the data, as training rows have them.
    pub fn fingerprints_of(&self, data: &Dataset) -> Result<Vec<f64>> {
        let schema = self.schema();
        let targets = schema.scale_targets(self.observed(data.targets()).view())?;
        Ok(fingerprints(&schema.scale_inputs(data.inputs().view())?, &targets))
    }

    /// Targets alone: rows may be read with their weights or without.
    fn observed(&self, rows: &Array2<f64>) -> Array2<f64> {
        self.family().observed(rows.view(), self.model().n_outputs()).to_owned()
    }

    fn scores_of(&self, data: &Dataset, method: &Method, progress: &dyn Progress) -> Result<Vec<Calibrated>> {
        let name = method.signature(self.family());
        let kinds = Score::of_family(self.family());
        let n_targets = self.family().likelihood().n_targets(self.model().n_outputs());
        let mut all = vec![Array2::zeros((data.len(), n_targets)); kinds.len()];
        for start in (0..data.len()).step_by(Pieces::ROWS) {
            progress.check()?;
            let rows: Vec<usize> = (start..data.len().min(start + Pieces::ROWS)).collect();
            let part = data.select(&rows)?;
            let prediction = predict(self, part.inputs(), method, &())?;
            for (kind, all) in kinds.iter().zip(&mut all) {
                let scores = prediction.conformal_scores(part.targets(), *kind).map_err(|e| e.in_part_from(start))?;
                if let Some(((row, _), _)) = scores.indexed_iter().find(|(_, score)| score.is_nan()) {
                    let (row, method) = (start + row, name.clone());
                    return Err(Error::Calibration(CalibrationError::Score { row, method }));
                }
                rows.iter().zip(scores.rows()).for_each(|(row, scores)| all.row_mut(*row).assign(&scores));
            }
            rows.iter().for_each(|_| progress.advance());
        }
        let scored = kinds.iter().zip(all);
        Ok(scored.map(|(score, scores)| Calibrated { method: name.clone(), score: *score, scores }).collect())
    }

    /// The intervals or sets of a prediction that a method with these settings has made: y is inside with probability at least
    /// `level`, for rows exchangeable with the calibration rows, whatever the model. `score` chooses among the sets of classes
    /// (default: LAC). `at` has the group and the weight of each row, where the calibration has such.
    pub fn promised(
        &self,
        prediction: &Prediction,
        method: &Method,
        level: f64,
        score: Option<Score>,
        at: &Conditions,
    ) -> Result<Promised> {
        if !(level > 0.0 && level < 1.0) {
            return Err(Error::QuantileLevel(level));
        }
        let kinds = Score::of_family(self.family());
        let wanted = score.as_ref().map_or(kinds, std::slice::from_ref);
        let name = method.signature(self.family());
        let found = self.calibration().and_then(|all| Some((all, all.of(&name, wanted)?)));
        let Some((calibration, calibrated)) = found else {
            let calibrated = self.calibration().map(Calibration::methods_in_words);
            return Err(Error::Calibration(CalibrationError::OtherMethod { method: name, calibrated }));
        };
        let thresholds = calibration.thresholds(calibrated, level, prediction.mean.nrows(), at)?;
        prediction.within(calibrated.score, &thresholds)
    }
}

impl Prediction {
    /// The score of each observation: rows × targets. Targets are in the units of the data.
    pub fn conformal_scores(&self, targets: &Array2<f64>, score: Score) -> Result<Array2<f64>> {
        check_targets(targets, &self.family, self.mean.nrows(), self.n_outputs())?;
        let (here, targets) = self.beside(targets)?;
        here.scores_of(&targets.to_owned(), score)
    }

    fn scores_of(&self, targets: &Array2<f64>, score: Score) -> Result<Array2<f64>> {
        match score {
            Score::Normalized => {
                let error = (targets - &self.mean).mapv(f64::abs);
                Ok(ndarray::Zip::from(&error).and(&self.total_variance).map_collect(|error, variance| {
                    // A prediction without any spread is right or infinitely wrong.
                    if *error == 0.0 { 0.0 } else { error / variance.sqrt() }
                }))
            }
            Score::Rank => {
                let ranks = self.ranks(targets)?.ok_or(Error::Unsupported(Unsupported::ClassQuantiles))?;
                Ok(ranks.mapv(|rank| (rank - 0.5).abs()))
            }
            Score::Lac | Score::Aps => Ok(Array2::from_shape_fn(targets.dim(), |(n, k)| {
                let scores = class_scores(&self.probabilities(n, k), score);
                scores.get(targets[(n, k)] as usize).copied().unwrap_or(f64::NAN)
            })),
        }
    }

    /// {y : s(x, y) ≤ q} for the thresholds q of each row and target.
    pub(crate) fn within(&self, score: Score, thresholds: &Array2<f64>) -> Result<Promised> {
        let n_targets = self.family.likelihood().n_targets(self.n_outputs());
        check_size("number of thresholds", self.mean.nrows() * n_targets, thresholds.len())?;
        match score {
            Score::Normalized => {
                // A row whose score is the threshold is inside, whatever the rounding.
                let half = thresholds * &self.standard_deviation();
                let half = &half + &((&half + &self.mean.mapv(f64::abs)) * (4.0 * f64::EPSILON));
                Ok(Promised::Interval(&self.mean - &half, &self.mean + &half))
            }
            Score::Rank => self.within_ranks(thresholds),
            Score::Lac | Score::Aps => {
                let classes = if self.is_binary() { 2 } else { self.mean.ncols() };
                let mut inside = Array3::from_elem((self.mean.nrows(), n_targets, classes), false);
                for ((n, k), threshold) in thresholds.indexed_iter() {
                    let scores = class_scores(&self.probabilities(n, k), score);
                    scores.iter().enumerate().for_each(|(class, score)| inside[(n, k, class)] = *score <= *threshold);
                }
                Ok(Promised::Set(inside))
            }
        }
    }

    /// The values whose ranks are within `q` of ½. Where they are counts, the ends are those at which that is just so.
    fn within_ranks(&self, thresholds: &Array2<f64>) -> Result<Promised> {
        let kind = self.family.likelihood().kind();
        let (mut lower, mut upper) = (Array2::zeros(thresholds.dim()), Array2::zeros(thresholds.dim()));
        for ((n, k), q) in thresholds.indexed_iter() {
            let marginal = self.marginal(n, k);
            let end = |level: f64| match level {
                _ if level <= 0.0 => f64::NEG_INFINITY,
                _ if level >= 1.0 => f64::INFINITY,
                _ => marginal.quantile(level),
            };
            let (mut low, mut high) = (end(0.5 - q), end(0.5 + q));
            if kind != TargetKind::Real {
                low = low.max(0.0);
            }
            if kind.is_whole() {
                // A count's rank is Σ_{j<y} p_j + p_y/2, between the distribution function below it and at it.
                // A row whose score is the threshold is inside, whatever the rounding.
                let is_beyond = |count: f64| (marginal.rank(count) - 0.5).abs() > q + RANK_ROUNDING;
                low += f64::from(u8::from(is_beyond(low)));
                high -= f64::from(u8::from(high.is_finite() && is_beyond(high)));
            }
            (lower[(n, k)], upper[(n, k)]) = (low, high);
        }
        Ok(Promised::Interval(self.schema.restore_mean(lower.view())?, self.schema.restore_mean(upper.view())?))
    }

    /// Whether each target is a class of two, whose second has the predicted probability.
    fn is_binary(&self) -> bool {
        self.family.likelihood().kind() == TargetKind::Answers
    }

    /// The probabilities of the classes of a target.
    fn probabilities(&self, n: usize, k: usize) -> Vec<f64> {
        match self.is_binary() {
            true => vec![1.0 - self.mean[(n, k)], self.mean[(n, k)]],
            false => self.mean.row(n).to_vec(),
        }
    }

    /// What a prediction says without any calibration, at a level: the central interval, or the most probable classes that
    /// together have at least that probability.
    pub fn as_fitted(&self, level: f64) -> Result<Promised> {
        if !self.family.has_classes() {
            return self.interval(level).map(|(lower, upper)| Promised::Interval(lower, upper));
        }
        let n_targets = self.family.likelihood().n_targets(self.n_outputs());
        let classes = if self.is_binary() { 2 } else { self.mean.ncols() };
        let mut inside = Array3::from_elem((self.mean.nrows(), n_targets, classes), false);
        for n in 0..self.mean.nrows() {
            for k in 0..n_targets {
                let probabilities = self.probabilities(n, k);
                let mut order: Vec<usize> = (0..classes).collect();
                order.sort_by(|a, b| probabilities[*b].total_cmp(&probabilities[*a]));
                let mut mass = 0.0;
                for class in order {
                    inside[(n, k, class)] = true;
                    mass += probabilities[class];
                    if mass >= level {
                        break;
                    }
                }
            }
        }
        Ok(Promised::Set(inside))
    }

    /// What rows are ordered by when coverage is looked at by spread: √Var y of each target, or the entropy of the classes.
    pub fn spread(&self) -> Array2<f64> {
        let n_targets = self.family.likelihood().n_targets(self.n_outputs());
        match self.family.has_classes() {
            false => self.standard_deviation(),
            true => Array2::from_shape_fn((self.mean.nrows(), n_targets), |(n, k)| {
                let entropy = |p: &f64| if *p > 0.0 { -p * p.ln() } else { 0.0 };
                self.probabilities(n, k).iter().map(entropy).sum()
            }),
        }
    }
}

/// The score of each class.
fn class_scores(probabilities: &[f64], score: Score) -> Vec<f64> {
    match score {
        Score::Aps => adaptive_scores(probabilities),
        _ => Array1::from(probabilities.to_vec()).mapv(|p| 1.0 - p).to_vec(),
    }
}

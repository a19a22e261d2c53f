//! Intervals from the folds of a training: rows that were left out say how wide intervals must be, and no row is spent on
//! calibration.
//!
//! Cross-validation trains a network without each fold. Let sᵢ be the score of row i under the posterior without its fold, k(i).
//!
//! - *Folds*: the quantile q of all sᵢ scales the spread of the posterior of *all* data: E y ± q √Var y. The scores come from other
//!   networks than the intervals, so there is no guarantee; where tried, they covered as promised at no extra width.
//! - *CV+* (Barber et al. 2021): y is inside unless sᵢ < s(x, y; k(i)) for at least (1 − α)(n + 1) rows. Guaranteed 1 − 2α, and
//!   usually more than 1 − α. For real targets the ends are quantiles of μ_k(i)(x) ± sᵢ sd_k(i)(x).

use ndarray::{Array2, Array3};

use super::prior_path::Fold;
use super::prior_stop::NearMode;
use crate::conformal::{FoldNetwork, Folded, Ranked, Score, needed_rows};
use crate::error::{CalibrationError, Error, Result, check_size};
use crate::laplace::{FitOptions, Laplace, PriorValues};
use crate::likelihood::Family;
use crate::network::Network;
use crate::predict::{Link, Method, Prediction, Predictive, Promised, linearized, predict};

/// The scores of left-out rows by the posteriors of their folds.
pub(super) fn scores_of_folds(networks: &[NearMode], folds: &[Fold]) -> Result<Folded> {
    let mut folded = Folded::default();
    for (near, fold) in networks.iter().zip(folds) {
        let prior_precision = PriorValues::of(&near.prior);
        let options = FitOptions { prior_precision, ..Default::default() };
        let laplace = Laplace::fit(near.network.clone(), fold.training().clone(), near.family.clone(), &options)?;
        let latent = linearized(&laplace, fold.held_out().inputs())?;
        let predictive = Predictive::Linearized { latent, link: Link::default() };
        let prediction = Prediction::new(near.family.clone(), predictive, None, laplace.schema())?;
        let targets = laplace.schema().restore_targets(fold.held_out().targets().view())?;
        for kind in Score::of_family(&near.family) {
            let scores = prediction.conformal_scores(&targets, *kind)?;
            let rows = scores.rows().into_iter().map(|row| row.to_vec());
            match folded.scores.iter_mut().find(|(score, _)| score == kind) {
                Some((_, all)) => all.extend(rows),
                None => folded.scores.push((*kind, rows.collect())),
            }
        }
        folded.networks.push(FoldNetwork {
            left_out: fold.left_out().to_vec(),
            theta: near.network.parameters().to_vec(),
            prior_precision: near.prior.values().to_vec(),
            sigma: near.family.sigma().map(<[f64]>::to_vec),
        });
    }
    Ok(folded)
}

/// The scores of the folds that belong to a posterior, for the linearised method: it must be that of the whole network, under the
/// prior and the noise of the training.
pub fn fold_scores<'a>(laplace: &'a Laplace, method: &Method) -> Option<&'a Folded> {
    let recipe = laplace.recipe()?;
    let prior = recipe.prior_precision.as_deref() == Some(laplace.prior().values());
    let as_trained = prior && recipe.sigma.as_deref() == laplace.family().sigma();
    let whole = laplace.model().subset().is_none() && laplace.temperature() == 1.0;
    let linearized = matches!(method, Method::Glm(link) if *link == Link::default());
    recipe.folded.as_ref().filter(|_| as_trained && whole && linearized)
}

fn scores(folded: &Folded, score: Score) -> Result<&Vec<Vec<f64>>> {
    let found = folded.scores.iter().find(|(kind, _)| *kind == score);
    found.map(|(_, scores)| scores).ok_or_else(|| not_folded(score.name()))
}

fn not_folded(method: &str) -> Error {
    Error::Calibration(CalibrationError::OtherMethod { method: format!("{method} scores of folds"), calibrated: None })
}

fn check_count(found: usize, level: f64) -> Result<()> {
    let needed = needed_rows(level);
    match found < needed {
        true => Err(CalibrationError::TooFew { group: None, level, found, needed }.into()),
        false => Ok(()),
    }
}

/// The intervals or sets of a linearised prediction, with its spread scaled by the scores of the folds. No guarantee in finite
/// samples.
pub fn promised_by_folds(
    prediction: &Prediction,
    folded: &Folded,
    level: f64,
    score: Option<Score>,
) -> Result<Promised> {
    let kind = score.or(Score::of_family(prediction.family()).first().copied()).unwrap_or(Score::Normalized);
    let scores = scores(folded, kind)?;
    check_count(scores.len(), level)?;
    let n_targets = scores.first().map_or(0, Vec::len);
    let threshold = |target: usize| {
        let column: Vec<f64> = scores.iter().map(|row| row[target]).collect();
        Ranked::new(&column, None).threshold(level, 1.0)
    };
    let thresholds: Vec<f64> = (0..n_targets).map(threshold).collect();
    let all = Array2::from_shape_fn((prediction.mean.nrows(), n_targets), |(_, target)| thresholds[target]);
    prediction.within(kind, &all)
}

/// The posteriors without each fold, for CV+.
#[derive(Debug, Clone)]
pub struct FoldPosteriors {
    /// Each with the scores of the rows that it has not seen.
    posteriors: Vec<(Laplace, Vec<Vec<f64>>)>,
    kind: Score,
    rows: usize,
}

impl FoldPosteriors {
    /// Fits the posteriors of the folds again, from the training data that the posterior holds.
    pub fn of(laplace: &Laplace, score: Option<Score>) -> Result<Self> {
        let folded = fold_scores(laplace, &Method::default()).ok_or_else(|| not_folded("no"))?;
        let data = laplace.data().ok_or(Error::NoTrainingData { what: "CV+" })?;
        let kind = score.or(Score::of_family(laplace.family()).first().copied()).unwrap_or(Score::Normalized);
        if kind == Score::Rank {
            return Err(not_folded("cv+ with rank"));
        }
        let scores = scores(folded, kind)?;
        let record = laplace.model().record().ok_or_else(|| not_folded("no"))?;
        let (mut posteriors, mut first) = (Vec::new(), 0);
        for fold in &folded.networks {
            let left_out: std::collections::HashSet<usize> = fold.left_out.iter().copied().collect();
            let kept: Vec<usize> = (0..data.len()).filter(|row| !left_out.contains(row)).collect();
            let network = Network::from_record(&record, fold.theta.clone())?;
            let family = match &fold.sigma {
                Some(sigma) => Family::gaussian_per_output(sigma)?,
                None => laplace.family().clone(),
            };
            let options =
                FitOptions { prior_precision: PriorValues::from(fold.prior_precision.clone()), ..Default::default() };
            let own = Laplace::fit(network, data.select(&kept)?, family, &options)?;
            let end = first + fold.left_out.len();
            let own_scores = scores.get(first..end).ok_or_else(|| not_folded("other"))?.to_vec();
            posteriors.push((own, own_scores));
            first = end;
        }
        check_size("number of rows of the folds", data.len(), first)?;
        Ok(Self { posteriors, kind, rows: first })
    }

    /// CV+ intervals or sets at inputs in the units of the data.
    pub fn promised(&self, inputs: &Array2<f64>, level: f64) -> Result<Promised> {
        check_count(self.rows, level)?;
        let predictions: Vec<Prediction> = self
            .posteriors
            .iter()
            .map(|(laplace, _)| predict(laplace, inputs, &Method::default(), &()))
            .collect::<Result<_>>()?;
        if self.kind == Score::Normalized {
            Ok(self.intervals(&predictions, level))
        } else {
            self.sets(&predictions, level)
        }
    }

    fn intervals(&self, predictions: &[Prediction], level: f64) -> Promised {
        let shape = predictions.first().map_or((0, 0), |prediction| prediction.mean.dim());
        let (mut lower, mut upper) = (Array2::zeros(shape), Array2::zeros(shape));
        for (n, k) in ndarray::indices(shape) {
            let (mut below, mut above) = (Vec::with_capacity(self.rows), Vec::with_capacity(self.rows));
            for (prediction, (_, scores)) in predictions.iter().zip(&self.posteriors) {
                let (mean, deviation) = (prediction.mean[(n, k)], prediction.total_variance[(n, k)].sqrt());
                below.extend(scores.iter().map(|row| row[k] * deviation - mean));
                above.extend(scores.iter().map(|row| row[k] * deviation + mean));
            }
            lower[(n, k)] = -Ranked::new(&below, None).threshold(level, 1.0);
            upper[(n, k)] = Ranked::new(&above, None).threshold(level, 1.0);
        }
        Promised::Interval(lower, upper)
    }

    fn sets(&self, predictions: &[Prediction], level: f64) -> Result<Promised> {
        let Some(first) = predictions.first() else { return Err(not_folded("no")) };
        // The classes and targets of a set, from one that holds everything.
        let n_targets = self.posteriors.first().and_then(|(_, scores)| scores.first()).map_or(0, Vec::len);
        let everything = Array2::from_elem((first.mean.nrows(), n_targets), f64::INFINITY);
        let Promised::Set(shape) = first.within(self.kind, &everything)? else { return Err(not_folded("no")) };
        let mut inside = Array3::from_elem(shape.dim(), false);
        let mut counts = Array3::<f64>::zeros(shape.dim());
        let (points, targets, classes) = shape.dim();
        for (prediction, (_, scores)) in predictions.iter().zip(&self.posteriors) {
            for class in 0..classes {
                let labels = Array2::from_elem((points, targets), class as f64);
                let own = prediction.conformal_scores(&labels, self.kind)?;
                for ((n, k), score) in own.indexed_iter() {
                    counts[(n, k, class)] += scores.iter().filter(|row| row[k] < *score).count() as f64;
                }
            }
        }
        let most = level * (self.rows as f64 + 1.0);
        inside.zip_mut_with(&counts, |inside, count| *inside = *count < most);
        Ok(Promised::Set(inside))
    }
}

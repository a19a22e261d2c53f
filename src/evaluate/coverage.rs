//! Whether intervals and sets hold: the share of observations inside, with its binomial error, over all rows, by tercile of the
//! predicted spread, and by group; of predictions as fitted, and as calibrated.

use serde::Serialize;

use super::folded::{FoldPosteriors, fold_scores, promised_by_folds};
use super::streamed::over_pieces;
use crate::conformal::{Calibration, Conditions, Score};
use crate::data::Batches;
use crate::error::{Result, TeamError};
use crate::laplace::Laplace;
use crate::predict::Method;
use crate::progress::Progress;

/// What is looked at.
#[derive(Debug, Clone, Default)]
pub struct CoverageOptions {
    /// The level; none is that of the calibration, or 0.9.
    pub level: Option<f64>,
    /// The kind of sets of classes (default: LAC).
    pub score: Option<Score>,
    /// The group and the weight of each row.
    pub at: Conditions,
}

/// Where an interval or a set comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The predictive distribution itself.
    AsFitted,
    /// Split conformal scores of calibration rows.
    Split,
    /// The spread, scaled by the scores of the rows that folds left out.
    Folds,
    /// CV+ of the folds.
    CvPlus,
}

/// The share of observations inside, over some rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Share {
    /// Observations.
    pub n: usize,
    /// The share of them inside.
    pub coverage: f64,
    /// Its binomial standard error √(c(1 − c)/n).
    pub coverage_se: f64,
    /// The mean width, or the mean number of classes; infinite where one is.
    pub mean_size: f64,
}

impl Share {
    fn of<'a>(rows: impl Iterator<Item = &'a Row>) -> Self {
        let (mut n, mut inside, mut sizes) = (0, 0.0, 0.0);
        for row in rows {
            n += 1;
            inside += row.inside;
            sizes += row.size;
        }
        let count = f64::from(n).max(1.0);
        let coverage = inside / count;
        let coverage_se = (coverage * (1.0 - coverage) / count).sqrt();
        Self { n: n as usize, coverage, coverage_se, mean_size: sizes / count }
    }
}

/// How the intervals or sets of one method hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Coverage {
    /// Where they come from.
    pub source: Source,
    /// The level that they promise, or claim.
    pub level: f64,
    /// All rows.
    #[serde(flatten)]
    pub all: Share,
    /// The rows of the smallest, the middle and the greatest predicted spread (√Var y, or the entropy of classes); none where the
    /// spread is the same everywhere.
    pub by_spread: Vec<Share>,
    /// By group, where rows have one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_group: Vec<(String, Share)>,
}

/// One observation: its target's spread, whether it is inside, and the size.
#[derive(Debug, Clone, Copy)]
struct Row {
    spread: f64,
    inside: f64,
    size: f64,
}

/// Coverage of several ways to predict over the same data (in the units of the data): for each method as fitted, and then as
/// calibrated where it is. Of a team the first rank gets it.
pub fn coverage_over(
    laplace: &Laplace,
    data: &dyn Batches,
    methods: &[Method],
    options: &CoverageOptions,
    progress: &dyn Progress,
) -> Result<Option<Vec<Vec<Coverage>>>> {
    let level = options.level.or(laplace.calibration().map(|known| known.level)).unwrap_or(0.9);
    let kinds = Score::of_family(laplace.family());
    let wanted = options.score.as_ref().map_or(kinds, std::slice::from_ref);
    let is_known = |all: &Calibration, method: &Method| all.of(&method.signature(laplace.family()), wanted).is_some();
    // CV+ needs the training data, and is left out where they are not there.
    let cv_plus = FoldPosteriors::of(laplace, options.score).ok();
    let sources = |method: &Method| {
        let mut sources = vec![Source::AsFitted];
        sources.extend(laplace.calibration().filter(|all| is_known(all, method)).map(|_| Source::Split));
        if fold_scores(laplace, method).is_some() {
            sources.push(Source::Folds);
            sources.extend(cv_plus.as_ref().map(|_| Source::CvPlus));
        }
        sources
    };
    let sources: Vec<Vec<Source>> = methods.iter().map(sources).collect();
    let mut lists: Vec<Vec<Vec<Row>>> = sources.iter().map(|sources| vec![Vec::new(); sources.len()]).collect();
    let is_first = over_pieces(
        data,
        progress,
        |batch| {
            let at = options.at.part(batch.rows());
            let (inputs, targets) = (batch.inputs.into_owned(), batch.targets.into_owned());
            let mut parts = Vec::new();
            for (method, sources) in methods.iter().zip(&sources) {
                let prediction = laplace.predict(&inputs, method)?;
                let (prediction, targets) = prediction.beside(&targets)?;
                let targets = targets.to_owned();
                for source in sources {
                    let promised = match source {
                        Source::AsFitted => prediction.as_fitted(level)?,
                        Source::Split => laplace.promised(&prediction, method, level, options.score, &at)?,
                        Source::Folds => match fold_scores(laplace, method) {
                            Some(folded) => promised_by_folds(&prediction, folded, level, options.score)?,
                            None => prediction.as_fitted(level)?,
                        },
                        Source::CvPlus => match &cv_plus {
                            Some(folds) => folds.promised(&inputs, level)?,
                            None => prediction.as_fitted(level)?,
                        },
                    };
                    let inside = promised.contains(&targets);
                    parts.push(inside.iter().map(|inside| f64::from(u8::from(*inside))).collect());
                    parts.push(promised.sizes().iter().copied().collect());
                }
                parts.push(prediction.spread().iter().copied().collect());
            }
            Ok(parts)
        },
        |parts, _| {
            let mut parts = parts.into_iter();
            for lists in &mut lists {
                let own: Vec<Vec<f64>> = parts.by_ref().take(2 * lists.len() + 1).collect();
                let spread = own.last().ok_or(TeamError::Message)?;
                for (rows, pair) in lists.iter_mut().zip(own.chunks_exact(2)) {
                    let [inside, sizes] = pair else { return Err(TeamError::Message.into()) };
                    let each = spread.iter().zip(inside).zip(sizes);
                    rows.extend(each.map(|((spread, inside), size)| Row {
                        spread: *spread,
                        inside: *inside,
                        size: *size,
                    }));
                }
            }
            Ok(())
        },
    )?;
    let summarize = |(lists, sources): (&Vec<Vec<Row>>, &Vec<Source>)| -> Vec<Coverage> {
        lists.iter().zip(sources).map(|(rows, source)| summary(rows, *source, level, &options.at)).collect()
    };
    Ok(is_first.then(|| lists.iter().zip(&sources).map(summarize).collect()))
}

fn summary(rows: &[Row], source: Source, level: f64, at: &Conditions) -> Coverage {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| rows[*a].spread.total_cmp(&rows[*b].spread));
    let ends = order.first().zip(order.last()).map(|(first, last)| (rows[*first].spread, rows[*last].spread));
    let varies = ends.is_some_and(|(least, greatest)| greatest > least * (1.0 + 1e-9));
    let third = |index: usize| {
        let part = order.get(index * rows.len() / 3..(index + 1) * rows.len() / 3).unwrap_or_default();
        Share::of(part.iter().map(|row| &rows[*row]))
    };
    let mut by_group = Vec::new();
    if let Some(groups) = at.groups.as_ref().filter(|groups| !groups.is_empty()) {
        // Several targets of a row are next to each other.
        let targets = rows.len() / groups.len();
        let mut names = groups.clone();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let belongs = |(index, _): &(usize, &Row)| groups.get(index / targets.max(1)) == Some(&name);
            let share = Share::of(rows.iter().enumerate().filter(belongs).map(|(_, row)| row));
            by_group.push((name, share));
        }
    }
    Coverage {
        source,
        level,
        all: Share::of(rows.iter()),
        by_spread: if varies { (0..3).map(third).collect() } else { Vec::new() },
        by_group,
    }
}

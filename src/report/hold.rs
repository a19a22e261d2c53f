//! Do the intervals hold? Coverage of held-out rows as fitted and as calibrated, by tercile of the predicted spread and by group.

use std::fmt::Write as _;

use super::contents::{Hold, Origin};
use super::verdict::{Finding, Mood};
use super::words::{counted, percent};
use super::{Report, escape, number};
use crate::conformal::Conditions;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::evaluate::{Coverage, CoverageOptions, CoverageSource, Share, coverage_over};
use crate::laplace::Laplace;
use crate::predict::Method;
use crate::progress::Progress;

/// Standard errors below the level that chance is allowed.
const CHANCE: f64 = 2.0;
/// The same for the worst of several groups.
const CHANCE_OF_GROUPS: f64 = 3.0;

/// Coverage of the shown method over held-out rows. What cannot be computed is no reason to have no report.
pub(super) fn hold(
    laplace: &Laplace,
    method: &Method,
    (data, origin): (&Dataset, &Origin),
    (level, at): (f64, Conditions),
    progress: &dyn Progress,
) -> Result<Hold> {
    if *origin == Origin::Training {
        let words = "Training rows are inside their own intervals too often: it takes rows that were held out to tell.";
        return Ok(Hold::Omitted(words.to_string()));
    }
    let options = CoverageOptions { level: Some(level), at, ..Default::default() };
    match coverage_over(laplace, data, std::slice::from_ref(method), &options, progress) {
        Ok(coverage) => Ok(Hold::Shares(coverage.into_iter().flatten().flatten().collect())),
        Err(Error::Calibration(error)) => Ok(Hold::Omitted(format!("Not computed: {error}."))),
        Err(error) => Err(error),
    }
}

impl Report {
    /// The verdict on calibrated intervals or sets, where there are some.
    pub(super) fn on_hold(&self) -> Option<Finding> {
        let Hold::Shares(all) = &self.hold else { return None };
        let as_fitted = all.iter().find(|one| one.source == CoverageSource::AsFitted)?;
        let own = [CoverageSource::Split, CoverageSource::Folds];
        let calibrated = own.iter().find_map(|source| all.iter().find(|one| one.source == *source))?;
        let what = if self.fitted.classes.is_empty() { "intervals" } else { "sets" };
        let (level, before) = (percent(calibrated.level), percent(as_fitted.all.coverage));
        let shares = with_error(&calibrated.all);
        let start = format!(
            "{} {level} {what} hold {shares} of the scored rows; as fitted they held {before}.",
            sentence_name(calibrated.source)
        );
        if self.is_short(&calibrated.all, calibrated.level, CHANCE) {
            let words = format!(
                "{start} That is fewer than chance allows: these rows are of another kind than those of the calibration, or \
                 were not exchangeable with them."
            );
            return Some(Finding { mood: Mood::Bad, about: "guarantee", words });
        }
        let groups = calibrated.by_group.iter();
        let short = groups.filter(|(_, share)| self.is_short(share, calibrated.level, CHANCE_OF_GROUPS));
        let names: Vec<&str> = short.map(|(name, _)| name.as_str()).collect();
        Some(match names.is_empty() {
            true => Finding { mood: Mood::Good, about: "guarantee", words: start },
            false => {
                let words = format!("{start} But not in {}: fewer than chance allows.", names.join(", "));
                Finding { mood: Mood::Care, about: "guarantee", words }
            }
        })
    }

    /// Whether a share is below the level by more than chance: that of the rows here, and of as many calibration rows.
    fn is_short(&self, share: &Share, level: f64, errors: f64) -> bool {
        let rows = share.n.max(1) as f64;
        let calibration = self.fitted.n_calibration.unwrap_or(self.fitted.n_data).max(1) as f64;
        let error = (level * (1.0 - level) * (1.0 / rows + 1.0 / calibration)).sqrt();
        share.coverage < level - errors * error
    }

    /// The section of the page.
    pub(super) fn hold_html(&self) -> String {
        let mut text = "<section aria-labelledby=\"hold\">\n<h2 id=\"hold\">Do the intervals hold?</h2>\n".to_string();
        match &self.hold {
            Hold::Omitted(reason) => {
                let _ = writeln!(text, "<p>{}</p>", escape(reason));
            }
            Hold::Shares(all) => {
                text += &self.shares_html(all);
                if !all.iter().any(|one| one.source != CoverageSource::AsFitted) {
                    text += "<p>The prediction is not calibrated. Rows that were held out from training and from this page \
                             make intervals that hold whatever the network is worth: calibrate it.</p>\n";
                }
            }
        }
        text + "</section>\n"
    }

    fn shares_html(&self, all: &[Coverage]) -> String {
        let classes = !self.fitted.classes.is_empty();
        let (what, size) = if classes { ("sets", "classes in a set") } else { ("intervals", "mean width") };
        let level = all.first().map_or(0.9, |one| one.level);
        let mut text = format!(
            "<p>The share of {} inside {} {what}, by the prediction <b>{}</b>, with its standard error; thirds are those of the \
             predicted spread.</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Coverage before and after \
             calibration\">\n<table class=\"scores\">\n<thead><tr><th scope=\"col\">{what}</th>",
            counted(self.scored.used, "row"),
            percent(level),
            self.methods[self.shown].words
        );
        for name in ["all rows", "lowest third", "middle third", "highest third", size] {
            let _ = write!(text, "<th scope=\"col\">{name}</th>");
        }
        text += "</tr></thead>\n<tbody>\n";
        for one in all {
            let mut cells = vec![with_error(&one.all)];
            cells.extend((0..3).map(|third| one.by_spread.get(third).map_or("–".to_string(), with_error)));
            cells.push(number(one.all.mean_size));
            text += &row_html(table_name(one.source), &cells);
            for (group, share) in &one.by_group {
                let cells = [with_error(share), format!("{} of this group", counted(share.n, "row"))];
                let cells = [&cells[..], &["".to_string(), "".to_string()], &[number(share.mean_size)]].concat();
                text += &row_html(&format!("{}, {}", table_name(one.source), escape(group)), &cells);
            }
        }
        text += "</tbody>\n</table>\n</div>\n<p class=\"how\">Calibrated (split conformal) has a guarantee on average over rows, \
                 and in each group that it was calibrated for, at no single input. Scaled by folds has none, and costs no rows. \
                 CV+ is guaranteed to hold at least as often as twice the miss rate allows, and usually more than its \
                 level.</p>\n";
        text
    }
}

fn row_html(name: &str, cells: &[String]) -> String {
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr><th scope=\"row\">{name}</th>{cells}</tr>\n")
}

fn table_name(source: CoverageSource) -> &'static str {
    match source {
        CoverageSource::AsFitted => "as fitted",
        CoverageSource::Split => "calibrated",
        CoverageSource::Folds => "scaled by folds",
        CoverageSource::CvPlus => "CV+",
    }
}

fn sentence_name(source: CoverageSource) -> &'static str {
    match source {
        CoverageSource::AsFitted => "Uncalibrated",
        CoverageSource::Split => "Calibrated",
        CoverageSource::Folds => "Scaled by folds,",
        CoverageSource::CvPlus => "CV+",
    }
}

fn with_error(share: &Share) -> String {
    format!("{:.1} ± {:.1} %", 100.0 * share.coverage, 100.0 * share.coverage_se)
}

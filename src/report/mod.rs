//! A report on a posterior as one page of HTML: can it be trusted, how good is it, what does it predict, what was fitted.
//!
//! [`Report::of`] gathers plain data from a posterior; [`Report::findings`] judges them in words; [`Report::to_html`]
//! writes a page that needs no network, no scripts and no other file, follows the reader's choice of light or dark, and
//! prints. Its figures are inline SVG with titles and descriptions. The same posterior, data and options give the same
//! bytes.

mod beside;
mod calibration;
mod chart;
mod conditional;
mod contents;
mod figures;
mod gather;
mod hold;
mod html;
mod left_out;
mod notable;
mod page;
mod pool;
mod quality;
mod sections;
mod slices;
mod spectrum;
mod table;
mod trust;
mod verdict;
mod words;

pub use chart::{Axis, Bar, Chart, Ink, Mark, Scale, number};
pub use contents::{
    BandPoint, Beside, Calibration, Certificates, Comparison, Curves, Explained, Fifth, Fifths, Fitted, Hold, LeftOut,
    Made, MethodReport, Notable, NotableRow, Origin, Pair, Pictures, PoolFifth, PoolInput, PoolRow, Quality, Scored,
    Slice, Spectrum, Suspicious, Unknown,
};
pub use figures::Figure;
pub use gather::{Names, ReportOptions};
pub use html::escape;
pub use trust::Overfitting;
pub use verdict::{Finding, Mood};

use crate::evaluate::Promise;

/// What a report says, as plain data.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What the posterior is called.
    pub posterior: String,
    /// The level of the intervals.
    pub level: f64,
    /// What was fitted.
    pub fitted: Fitted,
    /// The data that predictions are compared with.
    pub scored: Scored,
    /// The ways to predict.
    pub methods: Vec<MethodReport>,
    /// Which of them the figures show.
    pub shown: usize,
    /// Why that one.
    pub why_shown: &'static str,
    /// Leave-one-out of the training data.
    pub left_out: LeftOut,
    /// Predicted beside observed, by that method.
    pub comparison: Comparison,
    /// Predictions along inputs.
    pub pictures: Pictures,
    /// The certificates of the geodesics, if any were followed.
    pub certificates: Option<Certificates>,
    /// The network beside a constant and a linear model, where the training data are known.
    pub beside: Option<Beside>,
    /// What leave-one-out promised of the shown method beside its held-out rows.
    pub promise: Option<Promise>,
    /// Whether the intervals or sets of the shown method hold, before and after calibration.
    pub hold: Hold,
    /// Where the pool is least known, where one was given.
    pub unknown: Option<Unknown>,
    /// Coverage by fifths, by the shown method.
    pub conditional: Vec<Fifths>,
    /// The share of lower ends below zero, where no training target is negative.
    pub negative_ends: Option<f64>,
    /// Training rows worth a look.
    pub notable: Notable,
    /// The worst predicted of the scored rows.
    pub worst: Vec<NotableRow>,
    /// R², AUROC, recall.
    pub quality: Quality,
    /// Who made it, when and how.
    pub made: Made,
}

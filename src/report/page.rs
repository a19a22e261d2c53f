//! The page: sections, tables and figures as HTML.

use std::fmt::Write as _;

use super::contents::{Comparison, LeftOut, Origin, Spectrum};
use super::figures::Figure;
use super::table::{columns, table};
use super::verdict::Mood;
use super::words::{counted, percent, plus_minus, thousands};
use super::{Report, escape, number};

/// Everything the page looks like; it has no other source.
const STYLE: &str = include_str!("style.css");
/// The most classes that are shown as a table.
const MOST_CLASSES: usize = 12;
/// The most confused pairs that are listed where a table would be too large.
const MOST_PAIRS: usize = 12;
/// The most columns that are listed by name.
const MOST_NAMES: usize = 12;

/// A page in the making.
struct Page {
    text: String,
    figures: usize,
}

impl Report {
    /// The whole page.
    pub fn to_html(&self) -> String {
        let mut page = Page { text: String::new(), figures: 0 };
        let title = escape(self.made.title.as_ref().unwrap_or(&self.posterior));
        let _ = write!(
            page.text,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>Report on {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        );
        page.header(self);
        page.text += "<main>\n";
        page.verdict(self);
        page.scores(self);
        page.text += &self.hold_html();
        page.left_out(self);
        page.pictures(self);
        page.text += &self.unknown_html();
        page.certificates(self);
        page.fitted(self);
        page.limits(self);
        page.text += "</main>\n<footer><p>Made by riemannian-laplace. The same posterior, data and options give the same \
                      page.</p></footer>\n</body>\n</html>\n";
        page.text
    }
}

impl Page {
    fn header(&mut self, report: &Report) {
        let fitted = &report.fitted;
        let _ = write!(
            self.text,
            "<header>\n<p class=\"eyebrow\">Report on a posterior</p>\n<h1>{}</h1>\n<p class=\"lead\">{}, {} likelihood, {}, \
             {}.</p>\n",
            escape(report.made.title.as_ref().unwrap_or(&report.posterior)),
            escape(&fitted.network),
            escape(fitted.family.likelihood().name()),
            counted(fitted.n_params, "uncertain weight"),
            counted(fitted.n_data, "training point"),
        );
        let made = &report.made;
        let mut parts = vec![format!("riemannian-laplace {}", env!("CARGO_PKG_VERSION"))];
        parts.extend(made.title.as_ref().map(|_| format!("posterior {}", report.posterior)));
        parts.extend(made.date.clone());
        parts.extend(made.seed.map(|seed| format!("seed {seed}")));
        let _ = writeln!(self.text, "<p class=\"how\">{}</p>", escape(&parts.join(" · ")));
        if let Some(command) = &made.command {
            let _ = writeln!(self.text, "<p class=\"how\"><code>{}</code></p>", escape(command));
        }
        self.text += "</header>\n";
    }

    fn verdict(&mut self, report: &Report) {
        let (mood, headline) = report.headline();
        let _ = write!(
            self.text,
            "<section class=\"verdict {}\" aria-labelledby=\"trust\">\n<h2 id=\"trust\">Can I trust this?</h2>\n\
             <p class=\"headline\">{headline}</p>\n<ul class=\"findings\">\n",
            class_of(mood)
        );
        for finding in report.findings() {
            let _ = writeln!(
                self.text,
                "<li class=\"{}\"><span class=\"mood\">{}</span><span class=\"about\">{}</span><span class=\"words\">{}</span></li>",
                class_of(finding.mood),
                finding.mood.word(),
                finding.about,
                escape(&finding.words)
            );
        }
        self.text += "</ul>\n</section>\n";
    }

    fn scores(&mut self, report: &Report) {
        let scored = &report.scored;
        let origin = match scored.origin {
            Origin::HeldOut => format!("held-out data, <b>{}</b>", escape(&scored.name)),
            Origin::Training => "the training data inside the posterior".to_string(),
        };
        let rows = if scored.used < scored.rows {
            format!("{} of {}, evenly spaced", thousands(scored.used), counted(scored.rows, "row"))
        } else {
            counted(scored.rows, "row")
        };
        let _ = write!(
            self.text,
            "<section aria-labelledby=\"good\">\n<h2 id=\"good\">How good are the predictions?</h2>\n<p>Scored on {origin}: {rows}. \
             The best of each column is bold.</p>\n"
        );
        self.text += &table(report, "Scores of all methods", &columns(report));
        self.text += &report.beside_html();
        self.text += &report.conditional_html();
        self.text += &report.worst_html();
        let (shown, why) = (report.methods[report.shown].words, report.why_shown);
        let _ = writeln!(self.text, "<p>The figures show the prediction <b>{shown}</b>, {why}.</p>");
        self.figures(&report.score_figures());
        if let Comparison::Confusion(tables) = &report.comparison {
            for (target, table) in tables.iter().enumerate() {
                let name = report.fitted.targets.get(target).map_or("", String::as_str);
                self.confusion(table, report.fitted.classes.get(target).map_or(&[], Vec::as_slice), name);
            }
        }
        self.text += "</section>\n";
    }

    fn confusion(&mut self, table: &[Vec<usize>], names: &[String], target: &str) {
        let name = |class: usize| escape(names.get(class).map_or("", String::as_str));
        let target = escape(target);
        if table.len() > MOST_CLASSES {
            let mut pairs: Vec<(usize, usize, usize)> = Vec::new();
            for (truth, row) in table.iter().enumerate() {
                let wrong = row.iter().enumerate().filter(|(class, count)| *class != truth && **count > 0);
                pairs.extend(wrong.map(|(class, count)| (*count, truth, class)));
            }
            pairs.sort_by_key(|(count, truth, class)| (std::cmp::Reverse(*count), *truth, *class));
            pairs.truncate(MOST_PAIRS);
            let _ = writeln!(self.text, "<h3>What is confused with what: {target}</h3>\n<ol class=\"pairs\">");
            for (count, truth, class) in pairs {
                let _ = writeln!(self.text, "<li>{} taken for {}: {count}</li>", name(truth), name(class));
            }
            self.text += "</ol>\n";
            return;
        }
        // Long names of many classes stand upright.
        let long = table.len() > 4 && names.iter().any(|name| name.chars().count() > 3);
        let kind = if long { "confusion upright" } else { "confusion" };
        let _ = write!(
            self.text,
            "<h3>What is confused with what: {target}</h3>\n<p class=\"how\">Rows are true classes, columns the most probable \
             ones; the diagonal is right.</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
             aria-label=\"Confusion table of {target}\">\n<table class=\"{kind}\">\n<thead><tr><td></td>"
        );
        for class in 0..table.len() {
            let _ = write!(self.text, "<th scope=\"col\">{}</th>", name(class));
        }
        self.text += "</tr></thead>\n<tbody>\n";
        for (truth, row) in table.iter().enumerate() {
            let total: usize = row.iter().sum();
            let _ = write!(self.text, "<tr><th scope=\"row\">{}</th>", name(truth));
            for (class, count) in row.iter().enumerate() {
                // Shades in tenths of the row.
                let shade = (10 * count).div_ceil(total.max(1));
                let kind = if class == truth { "right" } else { "wrong" };
                let _ = write!(self.text, "<td class=\"{kind} shade{shade}\">{count}</td>");
            }
            self.text += "</tr>\n";
        }
        self.text += "</tbody>\n</table>\n</div>\n";
    }

    fn left_out(&mut self, report: &Report) {
        self.text += "<section aria-labelledby=\"left-out\">\n<h2 id=\"left-out\">What if a training point had been missing?</h2>\n";
        match &report.left_out {
            LeftOut::Omitted(reason) => {
                let _ = writeln!(self.text, "<p>Leave-one-out scores are missing. {}</p>", escape(reason));
            }
            LeftOut::Scores(_) => {
                let _ = writeln!(
                    self.text,
                    "<p>Leave-one-out of the posterior at these weights: each of the {} is predicted by the others, without training \
                     again. What a point has taught the hidden units stays, so the scores of an overfitted network are too good; \
                     held-out rows, or training again without parts of the data, are the judges. It cannot see extrapolation.</p>",
                    counted(report.fitted.n_data, "training point")
                );
                self.text += &table(report, "Leave-one-out scores of all methods", &report.left_out_columns());
                self.text += &report.notable_html();
                self.figures(&report.left_out_figures());
            }
        }
        self.text += "</section>\n";
    }

    fn pictures(&mut self, report: &Report) {
        let figures = report.picture_figures();
        if figures.is_empty() {
            return;
        }
        self.text += "<section aria-labelledby=\"pictures\">\n<h2 id=\"pictures\">What does it predict?</h2>\n";
        let pictures = &report.pictures;
        if pictures.n_inputs > pictures.influences.len() {
            let _ = writeln!(
                self.text,
                "<p>Of {}, the {} that move the prediction most from the median row are shown, the others held at their \
                 medians. An input that matters only together with another may be missing.</p>",
                counted(pictures.n_inputs, "input"),
                pictures.influences.len()
            );
        }
        self.figures(&figures);
        self.text += "</section>\n";
    }

    fn certificates(&mut self, report: &Report) {
        let Some(certificates) = &report.certificates else { return };
        let count = certificates.count;
        let _ = write!(
            self.text,
            "<section aria-labelledby=\"certificates\">\n<h2 id=\"certificates\">Did the geodesics stay on course?</h2>\n<p>{} of \
             the {} metric, with {} evaluations each on average: <b>{}</b> failed, <b>{}</b> uncertified.",
            counted(count.requested, "geodesic"),
            escape(&certificates.metric),
            number(certificates.mean_evaluations.round()),
            count.failed,
            count.uncertified
        );
        if let Some(width) = certificates.smoothing {
            let _ = write!(self.text, " The metric rounds the network’s kinks over a width of {}.", number(width));
        }
        let laws = count.requested.saturating_sub(count.failed + count.uncertified + certificates.paths);
        let _ = write!(
            self.text,
            " The <b>path</b> is certified of {}: the end is that of its velocity’s geodesic{}. Only the <b>law</b> of {laws}: \
             speed and graph are kept, so that their distribution is right, while a single end is not reproducible.",
            certificates.paths,
            certificates.end_error.map_or(String::new(), |error| format!(
                ", to {} standard deviations of the noise at the data",
                number(error)
            ))
        );
        self.text += " A certificate does not say that the Laplace approximation is a good one.</p>\n";
        self.figures(&report.certificate_figures());
        self.text += "</section>\n";
    }

    fn fitted(&mut self, report: &Report) {
        let fitted = &report.fitted;
        self.text +=
            "<section aria-labelledby=\"fitted\">\n<h2 id=\"fitted\">What was fitted?</h2>\n<dl class=\"facts\">\n";
        let mut fact = |name: &str, value: String| {
            let _ = writeln!(self.text, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        };
        fact("network", escape(&fitted.network));
        match &fitted.part {
            Some(part) => fact("uncertain weights", escape(part)),
            None => fact("uncertain weights", format!("all {}", thousands(fitted.n_params))),
        }
        fact("likelihood", escape(fitted.family.likelihood().name()));
        fact(
            "training data",
            format!("{}, {}", counted(fitted.n_data, "point"), counted(fitted.inputs.len(), "input")),
        );
        fact("inputs", names(&fitted.inputs));
        fact("targets", names(&fitted.targets));
        if let Some(classes) = fitted.classes.first().filter(|_| fitted.classes.len() == 1) {
            fact("classes", names(classes));
        }
        if fitted.scaled {
            fact("units", "standardised inside; all numbers here are in the units of the data".to_string());
        }
        fact("prior", escape(&fitted.prior));
        if let Some(sigma) = &fitted.sigma {
            let shown: Vec<String> = sigma.iter().take(MOST_NAMES).map(|value| number(*value)).collect();
            let more = if sigma.len() > MOST_NAMES { " …" } else { "" };
            fact("noise σ", format!("{}{more}, in units of the target", shown.join(", ")));
        }
        if let Some(temperature) = fitted.temperature {
            fact("temperature", number(temperature));
        }
        fact(
            "posterior precision",
            format!("structure {}, curvature {}", escape(fitted.structure), escape(fitted.curvature)),
        );
        fact("log likelihood", format!("{} nats at the trained weights", number(fitted.log_likelihood)));
        let evidence = match fitted.log_marginal_likelihood_error {
            Some(error) => plus_minus(fitted.log_marginal_likelihood, error),
            None => number(fitted.log_marginal_likelihood),
        };
        fact("log evidence", format!("{evidence} nats; greater is better, among posteriors of the same data"));
        if let Some((condition, digits)) = fitted.condition {
            let digits = format!("{digits:.0} digits of the log evidence hold");
            fact("condition", format!("{condition:.1e}, of the posterior precision: {digits}"));
        }
        fact(
            "effective parameters",
            format!(
                "{} of {}: directions that the data determine",
                number(fitted.effective_parameters),
                thousands(fitted.n_params)
            ),
        );
        if let Some(fit) = &fitted.fit {
            fact("explained", format!("{} of the training data’s deviance", percent(fit.explained)));
        }
        if let Spectrum::Omitted(reason) = &fitted.spectrum {
            fact("spectrum", escape(reason));
        }
        self.text += "</dl>\n";
        self.figures(report.spectrum_figure().as_slice());
        self.text += "</section>\n";
    }

    fn limits(&mut self, report: &Report) {
        let training = match report.scored.origin {
            Origin::HeldOut => "",
            Origin::Training => "<li>How it does on new data: nothing here was held out.</li>\n",
        };
        let _ = write!(
            self.text,
            "<section aria-labelledby=\"limits\">\n<h2 id=\"limits\">What this page cannot tell</h2>\n<ul class=\"limits\">\n\
             {training}<li>What happens where there are no data. Intervals there rest on the prior and on the shape of the \
             network; no score looks there.</li>\n\
             <li>Whether new inputs will be like these. A shift between these data and use is invisible here.</li>\n\
             <li>Whether other modes of the posterior would predict otherwise. A Laplace approximation knows one.</li>\n\
             </ul>\n</section>\n"
        );
    }

    fn figures(&mut self, figures: &[Figure]) {
        if figures.is_empty() {
            return;
        }
        // Two or four figures stand in pairs, others in threes.
        let layout = if figures.len().is_multiple_of(2) && figures.len() < 6 { "figures two" } else { "figures" };
        let _ = writeln!(self.text, "<div class=\"{layout}\">");
        for figure in figures {
            self.figures += 1;
            let svg = figure.chart.to_svg(&format!("figure{}", self.figures));
            let _ = writeln!(
                self.text,
                "<figure>\n<h3>{}</h3>\n{svg}\n<figcaption>{}</figcaption>\n</figure>",
                escape(&figure.chart.title),
                escape(&figure.caption)
            );
        }
        self.text += "</div>\n";
    }
}

fn class_of(mood: Mood) -> &'static str {
    match mood {
        Mood::Good => "good",
        Mood::Note => "note",
        Mood::Care => "care",
        Mood::Bad => "problem",
    }
}

/// The first names, and how many there are.
fn names(all: &[String]) -> String {
    let shown: Vec<String> = all.iter().take(MOST_NAMES).map(|name| escape(name)).collect();
    let more = all.len().saturating_sub(MOST_NAMES);
    let rest = if more > 0 { format!(" and {} more", thousands(more)) } else { String::new() };
    shown.join(", ") + &rest
}

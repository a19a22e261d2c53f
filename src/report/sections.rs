//! Sections of the page in tables: the network beside simpler models, coverage by fifths, and rows worth a look.

use std::fmt::Write as _;

use super::contents::{Explained, NotableRow};
use super::words::{percent, thousands};
use super::{Report, escape, number};

impl Report {
    /// The network, a linear model and a constant side by side, with R², AUROC and recall.
    pub(super) fn beside_html(&self) -> String {
        let mut text = String::new();
        if let Some(beside) = &self.beside {
            let of_new = beside.network.of_new().is_some();
            let which = if beside.network.held_out.is_some() { "held out" } else { "trained again without them" };
            let mut rows = vec![("network alone", Some(beside.network))];
            rows.extend(beside.linear.map(|linear| ("linear model", Some(linear))));
            rows.push(("constant", None));
            text += "<h3>Beside simpler models</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
                     aria-label=\"The network beside simpler models\">\n<table class=\"scores\">\n<thead><tr><th \
                     scope=\"col\">model</th><th scope=\"col\">explained, training</th>";
            if of_new {
                let _ = write!(text, "<th scope=\"col\">explained, {which}</th>");
            }
            text += "</tr></thead>\n<tbody>\n";
            for (name, explained) in rows {
                let cell = |of: fn(&Explained) -> Option<f64>| {
                    explained
                        .as_ref()
                        .map_or("0 %".to_string(), |explained| of(explained).map_or("–".to_string(), percent))
                };
                let _ = write!(text, "<tr><th scope=\"row\">{name}</th><td>{}</td>", cell(|of| Some(of.training)));
                if of_new {
                    let _ = write!(text, "<td>{}</td>", cell(Explained::of_new));
                }
                text += "</tr>\n";
            }
            text += "</tbody>\n</table>\n</div>\n<p class=\"how\">Shares of the deviance of a constant; 100 % is a perfect fit, \
                     below 0 is worse than a constant. For real targets it is R².</p>\n";
        }
        text + &self.quality_html()
    }

    fn quality_html(&self) -> String {
        let quality = &self.quality;
        let mut facts: Vec<(String, String)> = Vec::new();
        for (target, value) in self.fitted.targets.iter().zip(&quality.r_squared) {
            facts.push((format!("R² of {target}"), number(*value)));
        }
        if let Some(area) = quality.auroc {
            facts.push(("AUROC".to_string(), format!("{}: each class against the rest, on average", number(area))));
        }
        let classes = self.fitted.classes.first().map_or(&[][..], Vec::as_slice);
        let recalls: Vec<String> = classes
            .iter()
            .zip(&quality.recall)
            .filter_map(|(class, recall)| Some(format!("{class} {}", percent((*recall)?))))
            .collect();
        if !recalls.is_empty() {
            facts.push(("recall by class".to_string(), recalls.join(", ")));
        }
        if let Some(nll) = quality.constant_nll {
            facts.push((
                "NLL of a constant".to_string(),
                format!("{}: what knows the targets and no inputs", number(nll)),
            ));
        }
        if facts.is_empty() {
            return String::new();
        }
        let mut text = "<dl class=\"facts\">\n".to_string();
        for (name, value) in facts {
            let _ = writeln!(text, "<div><dt>{}</dt><dd>{}</dd></div>", escape(&name), escape(&value));
        }
        text + "</dl>\n"
    }

    /// Coverage by fifths.
    pub(super) fn conditional_html(&self) -> String {
        if self.conditional.is_empty() {
            return String::new();
        }
        let mut text = format!(
            "<h3>Where the 90 % intervals hold: {}</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
             aria-label=\"Coverage by fifths\">\n<table class=\"scores\">\n<thead><tr><th scope=\"col\">by fifths of</th>",
            self.methods[self.shown].words
        );
        for name in ["lowest", "second", "third", "fourth", "highest"] {
            let _ = write!(text, "<th scope=\"col\">{name}</th>");
        }
        text += "</tr></thead>\n<tbody>\n";
        for by in &self.conditional {
            let _ = write!(text, "<tr><th scope=\"row\">{}</th>", escape(&by.by));
            for place in 0..5 {
                let cell = by.fifths.get(place).map_or(String::new(), |fifth| {
                    format!(
                        "{}<br><small>{} to {}</small>",
                        percent(fifth.share()),
                        number(fifth.low),
                        number(fifth.high)
                    )
                });
                let _ = write!(text, "<td>{cell}</td>");
            }
            text += "</tr>\n";
        }
        text += "</tbody>\n</table>\n</div>\n<p class=\"how\">Each cell should be about 90 %. Small numbers are the range of the \
                 values; equal values stay together.</p>\n";
        text
    }

    /// Training rows by number.
    pub(super) fn notable_html(&self) -> String {
        let lists = [
            ("largest residuals", &self.notable.residuals),
            ("largest leverages", &self.notable.leverages),
            ("largest influence on themselves", &self.notable.influences),
        ];
        if lists.iter().all(|(_, rows)| rows.is_empty()) {
            return String::new();
        }
        let mut text = self.suspicious_html();
        let title = if text.is_empty() { "Training" } else { "Other training" };
        let _ = writeln!(text, "<h3>{title} rows to look at</h3>\n<dl class=\"facts\">");
        for (name, rows) in lists {
            let _ = writeln!(text, "<div><dt>{name}</dt><dd>{}</dd></div>", listed(rows));
        }
        text + "</dl>\n<p class=\"how\">By number, from 1, of the rows that were fitted, each predicted by the others. Residuals are \
                in standard deviations of the prediction (for classes: one minus the probability of the true class); leverage is \
                between 0 and 1; influence is what a row’s own presence adds to its log density, in nats.</p>\n"
    }

    /// Training rows that look wrong.
    fn suspicious_html(&self) -> String {
        let rows = &self.notable.suspicious;
        if rows.is_empty() {
            return String::new();
        }
        let (title, given) = match self.fitted.classes.is_empty() {
            true => ("Possible errors of targets", "given"),
            false => ("Possible label errors", "labelled"),
        };
        let mut text = format!("<h3>{title}</h3>\n<ol class=\"pairs\">\n");
        for row in rows {
            let _ = writeln!(
                text,
                "<li>row {}: {given} {}, while the others predict {} (self-influence {} nats)</li>",
                thousands(row.row),
                escape(&row.given),
                escape(&row.expected),
                number(row.self_influence)
            );
        }
        text + "</ol>\n<p class=\"how\">The training rows that would be predicted worst without themselves, the most suspicious first. \
                Such a row may be wrong, rare, or right where the network is not: look at it, do not delete it unseen. Hidden units \
                that a row has shaped stay as they are, so an overfitted network hides its errors.</p>\n"
    }

    /// The worst predicted of the scored rows.
    pub(super) fn worst_html(&self) -> String {
        if self.worst.is_empty() {
            return String::new();
        }
        format!("<p>The worst predicted of the scored rows: {}.</p>\n", listed(&self.worst))
    }
}

fn listed(rows: &[NotableRow]) -> String {
    let one = |row: &NotableRow| {
        let mut parts = vec![format!("residual {}", number(row.residual))];
        parts.extend(row.leverage.map(|value| format!("leverage {}", number(value))));
        parts.extend(row.influence.map(|value| format!("influence {}", number(value))));
        format!("row {} ({})", thousands(row.row), parts.join(", "))
    };
    rows.iter().map(one).collect::<Vec<_>>().join("; ")
}

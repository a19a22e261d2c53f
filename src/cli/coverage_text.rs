//! Coverage for people.

use riemannian_laplace::Family;
use riemannian_laplace::internals::evaluate::{Coverage, CoverageSource, Share};

use super::output::{aligned, short};

/// The coverage of one method, a line for each source.
pub fn lines(method: &str, coverage: &[Coverage], family: &Family) -> String {
    let mut table = Vec::new();
    for one in coverage {
        let source = match one.source {
            CoverageSource::AsFitted => "as fitted",
            CoverageSource::Split => "calibrated",
            CoverageSource::Folds => "scaled by folds",
            CoverageSource::CvPlus => "CV+",
        };
        let size = if family.has_classes() {
            format!("{} classes on average", short(one.all.mean_size))
        } else {
            format!("mean width {}", short(one.all.mean_size))
        };
        let level =
            format!("{} % {}", short(100.0 * one.level), if family.has_classes() { "sets" } else { "intervals" });
        let spread = match one.by_spread.as_slice() {
            [] => "the same spread everywhere".to_string(),
            parts => format!("by tercile of the spread {}", list(parts)),
        };
        table.push(vec![
            method.to_string(),
            level,
            source.to_string(),
            format!("hold {}", percent(&one.all)),
            size,
            spread,
        ]);
        for (group, share) in &one.by_group {
            let size = format!("of {}", share.n);
            table.push(vec![
                String::new(),
                format!("group {group}"),
                source.to_string(),
                format!("hold {}", percent(share)),
                size,
            ]);
        }
    }
    aligned(&table)
}

fn percent(share: &Share) -> String {
    format!("{:.1} ± {:.1} %", 100.0 * share.coverage, 100.0 * share.coverage_se)
}

fn list(parts: &[Share]) -> String {
    let each: Vec<String> = parts.iter().map(|part| format!("{:.1}", 100.0 * part.coverage)).collect();
    each.join(", ") + " %"
}

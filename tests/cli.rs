//! Tests of the program `rla`: the flow from data to scores, the golden cases, and its errors for bad input.

#[path = "cli/bad_data.rs"]
mod bad_data;
#[path = "cli/bad_models.rs"]
mod bad_models;
#[path = "cli/bad_options.rs"]
mod bad_options;
#[path = "cli/bad_posteriors.rs"]
mod bad_posteriors;
#[path = "cli/calibrate.rs"]
mod calibrate;
#[path = "cli/columns.rs"]
mod columns;
#[path = "cli/committee.rs"]
mod committee;
#[cfg(unix)]
#[path = "cli/files.rs"]
mod files;
#[path = "cli/flow.rs"]
mod flow;
#[path = "cli/geodesics.rs"]
mod geodesics;
#[path = "cli/golden.rs"]
mod golden;
#[path = "cli/limits.rs"]
mod limits;
#[path = "cli/loo.rs"]
mod loo;
#[path = "cli/parts.rs"]
mod parts;
#[path = "cli/priors.rs"]
mod priors;
#[path = "cli/report.rs"]
mod report;
#[path = "cli/scores.rs"]
mod scores;
#[path = "cli/shell.rs"]
mod shell;
#[path = "cli/smoothing.rs"]
mod smoothing;
#[path = "cli/suggest.rs"]
mod suggest;
#[path = "cli/weights.rs"]
mod weights;

#[path = "common/program.rs"]
mod program;

use program::{Folder, Outcome, repository};

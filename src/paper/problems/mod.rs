//! The paper's low-dimensional targets, each a map and a likelihood: banana, squiggle, funnel, Gaussian, logistic.

mod banana;
mod funnel;
mod gaussian;
mod logistic;
mod squiggle;

pub use crate::error::InvalidProblem;
pub use banana::Banana;
pub use funnel::Funnel;
pub use gaussian::Identity;
pub use logistic::{logistic_regression, standardized};
pub use squiggle::Squiggle;

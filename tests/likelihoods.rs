//! Every likelihood with dispersion parameters, against its definition: derivatives by differences, the force against
//! Christoffel symbols of a differenced Fisher metric, integrals by plain sums, weight space against function space,
//! parameters found again in simulated data, and intervals that hold what they promise.

mod common;

#[path = "likelihoods/binomial.rs"]
mod binomial;
#[path = "likelihoods/checks.rs"]
mod checks;
#[path = "likelihoods/gamma.rs"]
mod gamma;
#[path = "likelihoods/negative_binomial.rs"]
mod negative_binomial;
#[path = "likelihoods/ordinal.rs"]
mod ordinal;
#[path = "likelihoods/own.rs"]
mod own;
#[path = "likelihoods/student_t.rs"]
mod student_t;

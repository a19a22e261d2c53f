//! Chains that cannot be run, and draws that are not good enough to compare with.

use std::fmt;

/// Chains that cannot be run as asked, or cannot be told apart.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidChains {
    /// No chains.
    #[error("the number of chains is 0; it must be at least 1")]
    NoChains,
    /// A thinning that keeps nothing.
    #[error("the thinning is {thinning} of {draws} draws; it must be at least 1 and at most the number of draws")]
    Thinning {
        /// One of this many draws is kept.
        thinning: usize,
        /// The draws of a chain.
        draws: usize,
    },
    /// A target acceptance rate that is not a probability.
    #[error("the target acceptance rate is {0}; it must be between 0 and 1")]
    TargetAcceptance(f64),
    /// Trajectories of no steps, or of more than can be counted.
    #[error("the maximal tree depth is {depth}; it must be from 1 to {most}")]
    TreeDepth {
        /// The depth.
        depth: usize,
        /// The largest depth.
        most: usize,
    },
    /// A deviation of the starts that is not a positive finite number.
    #[error("the deviation of the starts is {0}; it must be positive and finite")]
    StartDeviation(f64),
    /// Draws that do not divide into this many chains of equal length.
    #[error("the number of chains is {chains} for {draws} draws; it must be a divisor of the number of draws")]
    Unequal {
        /// The number of chains.
        chains: usize,
        /// The draws of all of them.
        draws: usize,
    },
}

/// What is required of draws before they may be called a reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReferenceLimits {
    /// The largest R̂.
    pub r_hat: f64,
    /// The least bulk effective sample size.
    pub bulk_ess: f64,
    /// The largest share of divergent transitions.
    pub divergent: f64,
}

/// Why draws are not a reference, and what to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Refusal {
    /// The quantity with the worst R̂, counting from 0.
    pub quantity: usize,
    /// Its R̂.
    pub r_hat: f64,
    /// The least bulk effective sample size of all quantities.
    pub bulk_ess: f64,
    /// Divergent transitions after warm-up.
    pub divergences: usize,
    /// Transitions after warm-up; 0 where the draws came without their run.
    pub transitions: usize,
    /// What is required of a reference.
    pub limits: ReferenceLimits,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quantity, r_hat, bulk_ess, divergences, transitions, limits } = self;
        let ReferenceLimits { r_hat: worst, bulk_ess: least, divergent } = limits;
        write!(
            f,
            "these draws are not a reference: the worst R-hat is {r_hat:.4} (quantity {quantity}; at most {worst}), the \
             least bulk effective sample size {bulk_ess:.0} (at least {least})"
        )?;
        if *divergences > 0 {
            let most = 100.0 * divergent;
            write!(f, ", {divergences} of {transitions} transitions diverged (at most {most} %)")?;
        }
        if !(r_hat <= worst && bulk_ess >= least) {
            write!(f, "; take a longer warm-up and more draws")?;
        }
        if *divergences > 0 {
            write!(
                f,
                "; raise the target acceptance rate, or change coordinates: divergences leave out narrow regions"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

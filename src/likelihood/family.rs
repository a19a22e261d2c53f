//! The likelihoods of this crate by name, as a command line or a file refers to them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Bernoulli, Categorical, Gaussian, Heteroscedastic, Likelihood, Poisson};
use crate::error::{Error, Result, UnknownLikelihood};

/// The names of all likelihoods.
const NAMES: [&str; 5] = ["gaussian", "heteroscedastic", "categorical", "bernoulli", "poisson"];

/// One of the likelihoods of this crate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub enum Family {
    /// Real targets with Gaussian noise.
    Gaussian(Gaussian),
    /// Real targets with Gaussian noise, outputs are means and log variances.
    Heteroscedastic(Heteroscedastic),
    /// 0/1 targets, outputs are logits.
    Bernoulli(Bernoulli),
    /// Class labels, outputs are logits.
    Categorical(Categorical),
    /// Counts, outputs are log rates.
    Poisson(Poisson),
}

impl Family {
    /// Gaussian noise with one σ.
    pub fn gaussian(sigma: f64) -> Result<Self> {
        Self::gaussian_per_output(&[sigma])
    }

    /// Gaussian noise with one σ per output (or a single one for all).
    pub fn gaussian_per_output(sigma: &[f64]) -> Result<Self> {
        Ok(Family::Gaussian(Gaussian::per_output(sigma.to_vec())?))
    }

    /// The likelihood itself.
    pub fn likelihood(&self) -> &dyn Likelihood {
        match self {
            Family::Gaussian(likelihood) => likelihood,
            Family::Heteroscedastic(likelihood) => likelihood,
            Family::Bernoulli(likelihood) => likelihood,
            Family::Categorical(likelihood) => likelihood,
            Family::Poisson(likelihood) => likelihood,
        }
    }

    /// Whether an observation is a class, or several yes/no answers, so that predictions are probabilities.
    pub fn has_classes(&self) -> bool {
        matches!(self, Family::Categorical(_) | Family::Bernoulli(_))
    }

    /// The likelihood, shared.
    pub fn shared(&self) -> Arc<dyn Likelihood> {
        match self.clone() {
            Family::Gaussian(likelihood) => Arc::new(likelihood),
            Family::Heteroscedastic(likelihood) => Arc::new(likelihood),
            Family::Bernoulli(likelihood) => Arc::new(likelihood),
            Family::Categorical(likelihood) => Arc::new(likelihood),
            Family::Poisson(likelihood) => Arc::new(likelihood),
        }
    }

    /// The noise σ: one value, or one per output; `None` for families without noise.
    pub fn sigma(&self) -> Option<&[f64]> {
        match self {
            Family::Gaussian(gaussian) => Some(gaussian.sigmas()),
            _ => None,
        }
    }
}

/// A family as written to files: its name and, for the Gaussian, σ.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sigma: Vec<f64>,
}

impl From<Family> for Record {
    fn from(family: Family) -> Self {
        let sigma = family.sigma().unwrap_or_default().to_vec();
        Self { name: family.likelihood().name().to_string(), sigma }
    }
}

impl TryFrom<Record> for Family {
    type Error = Error;

    fn try_from(record: Record) -> Result<Self> {
        match record.name.as_str() {
            "gaussian" => Family::gaussian_per_output(&record.sigma),
            name => name.parse(),
        }
    }
}

impl std::str::FromStr for Family {
    type Err = Error;

    /// The family of that name; a Gaussian one with σ = 1.
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "gaussian" => Ok(Family::Gaussian(Gaussian::unit())),
            "heteroscedastic" => Ok(Family::Heteroscedastic(Heteroscedastic)),
            "bernoulli" => Ok(Family::Bernoulli(Bernoulli)),
            "categorical" => Ok(Family::Categorical(Categorical)),
            "poisson" => Ok(Family::Poisson(Poisson)),
            other => Err(UnknownLikelihood { name: other.to_string(), known: NAMES.join(", ") }.into()),
        }
    }
}

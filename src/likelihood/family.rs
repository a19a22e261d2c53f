//! A likelihood as a value, and the register of those that have a name on the command line and in files.

use std::sync::{Arc, RwLock};

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::loss::negative_log_likelihood;
use super::{Gaussian, Known, Likelihood};
use crate::error::{Error, Result, UnknownLikelihood};

/// A likelihood that can be had by name, with parameters that are replaced afterwards.
pub trait Registered: Likelihood + Sized + 'static {
    /// What it is for, in one line.
    const HELP: &'static str;

    /// With default parameters.
    fn start() -> Self;
}

/// An entry of the register.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// What it is for, in one line.
    pub help: &'static str,
    new: fn() -> Arc<dyn Likelihood>,
}

impl Entry {
    /// Of a type.
    pub const fn of<L: Registered>() -> Self {
        Self { help: L::HELP, new: || Arc::new(L::start()) }
    }

    /// With default parameters.
    pub fn family(&self) -> Family {
        Family::from((self.new)())
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        (self.new)().name()
    }
}

/// Likelihoods of users that posterior files may name.
static OWN: RwLock<Vec<Entry>> = RwLock::new(Vec::new());

/// Any likelihood, shared: one of this crate by name, or a type of one's own.
///
/// ```
/// use riemannian_laplace::Family;
/// use riemannian_laplace::internals::likelihood::Poisson;
///
/// assert_eq!("poisson".parse::<Family>()?, Family::new(Poisson));
/// assert_eq!(Family::gaussian(0.5)?.sigma(), Some(&[0.5][..]));
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub struct Family {
    likelihood: Arc<dyn Likelihood>,
    /// Whether rows have a weight behind their other columns.
    has_weights: bool,
}

impl Family {
    /// Of a likelihood, this crate's or one's own.
    pub fn new(likelihood: impl Likelihood + 'static) -> Self {
        Self::from(Arc::new(likelihood) as Arc<dyn Likelihood>)
    }

    /// Gaussian noise with one σ.
    pub fn gaussian(sigma: f64) -> Result<Self> {
        Self::gaussian_per_output(&[sigma])
    }

    /// Gaussian noise with one σ per output (or a single one for all).
    pub fn gaussian_per_output(sigma: &[f64]) -> Result<Self> {
        Ok(Self::new(Gaussian::per_output(sigma.to_vec())?))
    }

    /// Makes a likelihood of one's own known by its name, so that files with it can be read: call it once, before reading.
    /// A name of this crate stays what it is.
    pub fn register<L: Registered>() {
        let mut own = OWN.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let entry = Entry::of::<L>();
        own.retain(|known| known.name() != entry.name());
        own.push(entry);
    }

    /// The likelihood itself.
    pub fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    /// The likelihood, shared.
    pub fn shared(&self) -> Arc<dyn Likelihood> {
        self.likelihood.clone()
    }

    /// The likelihood as its own type, if it is this one.
    pub fn downcast<L: Likelihood + 'static>(&self) -> Option<&L> {
        let any: &dyn std::any::Any = &*self.likelihood;
        any.downcast_ref()
    }

    /// Whether an observation is a class, or several yes/no answers, so that predictions are probabilities.
    pub fn has_classes(&self) -> bool {
        self.likelihood.kind().has_classes()
    }

    /// The noise σ: one value, or one per output; `None` for families without noise.
    pub fn sigma(&self) -> Option<&[f64]> {
        self.likelihood.noise_levels()
    }

    /// The family with this σ, one or one per output; those without noise stay as they are.
    pub fn with_sigma(&self, sigma: &[f64]) -> Result<Self> {
        match self.likelihood.noise_levels() {
            Some(_) => Ok(self.with_likelihood(self.likelihood.with_noise_levels(sigma)?)),
            None => Ok(self.clone()),
        }
    }

    /// The family at σ = 1; those without noise as they are.
    pub fn at_unit_noise(&self) -> Self {
        self.with_sigma(&[1.0]).unwrap_or_else(|_| self.clone())
    }

    /// The family with these dispersion parameters, in the order of [`Likelihood::dispersions`].
    pub fn with_dispersions(&self, values: &[f64]) -> Result<Self> {
        match values {
            [] => Ok(self.clone()),
            _ => Ok(self.with_likelihood(self.likelihood.with_dispersions(values)?)),
        }
    }

    /// The mean training loss of outputs and targets (one row per point), in operations that candle can differentiate:
    /// the likelihood's own, or the mean of −log p.
    pub fn training_loss(&self, outputs: &Tensor, targets: &Tensor) -> candle_core::Result<Tensor> {
        if !self.known().is_empty() {
            let loss = negative_log_likelihood(self, outputs, targets)?;
            // The mean squared error, up to a constant, where it is what other rows are trained by.
            return match self.sigma() {
                Some([sigma]) => loss * (2.0 * sigma * sigma / outputs.dim(1)?.max(1) as f64),
                _ => Ok(loss),
            };
        }
        match self.likelihood.training_loss(outputs, targets) {
            Some(loss) => loss,
            None => negative_log_likelihood(self, outputs, targets),
        }
    }
}

impl From<Arc<dyn Likelihood>> for Family {
    fn from(likelihood: Arc<dyn Likelihood>) -> Self {
        Self { likelihood, has_weights: false }
    }
}

impl PartialEq for Family {
    /// The same name and parameters.
    fn eq(&self, other: &Self) -> bool {
        self.likelihood.name() == other.likelihood.name()
            && self.known() == other.known()
            && self.sigma() == other.sigma()
            && self.values() == other.values()
    }
}

impl Family {
    /// With another likelihood, for the same rows.
    fn with_likelihood(&self, likelihood: Arc<dyn Likelihood>) -> Self {
        Self { likelihood, ..self.clone() }
    }

    /// For rows with weights, or without.
    pub(crate) fn weighted(&self, has_weights: bool) -> Self {
        Self { has_weights, ..self.clone() }
    }

    /// Whether rows have weights.
    pub fn has_weights(&self) -> bool {
        self.has_weights
    }

    /// The dispersion parameters.
    fn values(&self) -> Vec<f64> {
        self.likelihood.dispersions().into_iter().map(|parameter| parameter.value).collect()
    }
}

/// A family as written to files: its name, σ where there is noise, other dispersion parameters, and what rows have behind their
/// targets.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sigma: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dispersions: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    known: Vec<Known>,
}

impl From<Family> for Record {
    fn from(family: Family) -> Self {
        let sigma = family.sigma().unwrap_or_default().to_vec();
        Self {
            name: family.likelihood().name().to_string(),
            sigma,
            dispersions: family.values(),
            known: family.known(),
        }
    }
}

impl TryFrom<Record> for Family {
    type Error = Error;

    fn try_from(record: Record) -> Result<Self> {
        let family = record.name.parse::<Family>()?.with_known(&record.known)?;
        family.with_sigma(&record.sigma)?.with_dispersions(&record.dispersions)
    }
}

impl std::str::FromStr for Family {
    type Err = Error;

    /// The family of that name, with default parameters: a Gaussian one with σ = 1.
    fn from_str(name: &str) -> Result<Self> {
        let own = OWN.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut known = super::REGISTER.iter().chain(own.iter());
        match known.clone().find(|entry| entry.name() == name) {
            Some(entry) => Ok(entry.family()),
            None => {
                let names: Vec<&str> = known.by_ref().map(Entry::name).collect();
                Err(UnknownLikelihood { name: name.to_string(), known: names.join(", ") }.into())
            }
        }
    }
}

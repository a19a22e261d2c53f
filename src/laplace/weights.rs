//! Which weights are uncertain: all, a few layers, or a sub-network. The rest stay at θ̂.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rand::Rng;

use super::fit::Laplace;
use super::options::FitOptions;
use super::structure::Structure;
use crate::data::Batches;
use crate::error::{Error, Result, SelectionError};
use crate::likelihood::Family;
use crate::map::{Model, Subset};
use crate::random::{Purpose, stream};

/// Which of a model's parameters are uncertain. In words, as the program and files have them, in parentheses.
///
/// ```
/// use riemannian_laplace::{Activation, Architecture, Model, Network, Weights};
/// use std::sync::Arc;
///
/// let network: Arc<dyn Model> = Arc::new(Network::random(Architecture::new(&[2, 8, 3], Activation::Tanh)?, 1));
/// let last = Weights::LastLayer.restrict(&network)?;
/// assert_eq!((network.n_params(), last.n_params()), (51, 27));
/// let weights: Weights = "layers:0.bias,2".parse()?;
/// assert_eq!(weights.restrict(&network)?.n_params(), 8 + 27);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Weights {
    /// Every parameter (`all`).
    #[default]
    All,
    /// The last layer that has parameters (`last-layer`).
    LastLayer,
    /// Layers or tensors by name, such as `0`, `2.weight` or `layer 2` (`layers:0,2`).
    Layers(Vec<String>),
    /// So many parameters, chosen by a rule (`subnetwork:100:magnitude`).
    Subnetwork {
        /// How many.
        count: usize,
        /// Which.
        choice: Choice,
    },
    /// These parameters, by their indices in θ.
    Indices(Vec<usize>),
}

/// How a sub-network is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The parameters with the largest |θ̂| (`magnitude`).
    #[default]
    Magnitude,
    /// Those with the largest variance under the diagonal posterior (`variance`).
    Variance,
    /// At random (`random`, or `random:7` with a seed).
    Random {
        /// The seed.
        seed: u64,
    },
}

impl Weights {
    /// The model with these parameters uncertain. A sub-network by variance depends on data: see
    /// [`restrict_with`](Self::restrict_with).
    pub fn restrict(&self, model: &Arc<dyn Model>) -> Result<Arc<dyn Model>> {
        let theta = model.parameters();
        let indices = match self {
            Weights::All => return Ok(model.clone()),
            Weights::LastLayer => {
                let size = model.group_sizes().last().copied().unwrap_or(0);
                (theta.len() - size..theta.len()).collect()
            }
            Weights::Layers(names) => named(&**model, names)?,
            Weights::Indices(indices) => indices.clone(),
            Weights::Subnetwork { count, choice: Choice::Magnitude } => {
                largest(&theta.iter().map(|value| value.abs()).collect::<Vec<f64>>(), *count)?
            }
            Weights::Subnetwork { count, choice: Choice::Random { seed } } => at_random(theta.len(), *count, *seed)?,
            Weights::Subnetwork { choice: Choice::Variance, .. } => {
                return Err(Error::NoTrainingData { what: "a sub-network by variance" });
            }
        };
        Ok(Arc::new(Subset::of_shared(model.clone(), indices, &self.in_words())?))
    }

    /// The same with data, for a sub-network of the largest variances under the diagonal posterior with these settings.
    pub fn restrict_with(
        &self,
        model: &Arc<dyn Model>,
        data: &dyn Batches,
        family: &Family,
        options: &FitOptions,
    ) -> Result<Arc<dyn Model>> {
        let Weights::Subnetwork { count, choice: Choice::Variance } = self else { return self.restrict(model) };
        let options = FitOptions { structure: Structure::Diagonal, ..options.clone() };
        let laplace = Laplace::fit_batches(model.clone(), data, family.clone(), &options)?;
        let (ones, mut variances) = (vec![1.0; model.n_params()], vec![0.0; model.n_params()]);
        laplace.precision().solve(&ones, &mut variances);
        Ok(Arc::new(Subset::of_shared(model.clone(), largest(&variances, *count)?, &self.in_words())?))
    }

    /// For people.
    fn in_words(&self) -> String {
        match self {
            Weights::All => "all weights".to_string(),
            Weights::LastLayer => "last layer".to_string(),
            Weights::Layers(names) => format!("layers {}", names.join(", ")),
            Weights::Indices(indices) => format!("sub-network of {} weights", indices.len()),
            Weights::Subnetwork { count, choice } => {
                let rule = match choice {
                    Choice::Magnitude => "largest magnitude".to_string(),
                    Choice::Variance => "largest variance".to_string(),
                    Choice::Random { seed } => format!("drawn at random with seed {seed}"),
                };
                format!("sub-network of {count} weights, {rule}")
            }
        }
    }
}

/// The indices of all parameters of the named layers or tensors.
fn named(model: &dyn Model, names: &[String]) -> Result<Vec<usize>> {
    let (tensors, groups) = (model.tensors(), model.groups());
    let mut indices = Vec::new();
    for name in names {
        let (mut found, mut start) = (false, 0);
        for tensor in &tensors {
            let layer =
                tensor.name.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            if layer {
                indices.extend(start..start + tensor.size);
                found = true;
            }
            start += tensor.size;
        }
        let mut start = 0;
        for group in groups.iter().filter(|_| !found) {
            if group.name == *name {
                indices.extend(start..start + group.size);
            }
            start += group.size;
        }
        if !found && !groups.iter().any(|group| group.name == *name) {
            let mut known: Vec<&str> = Vec::new();
            for tensor in &tensors {
                let layer = tensor.name.rsplit_once('.').map_or(tensor.name.as_str(), |(layer, _)| layer);
                if !known.contains(&layer) {
                    known.push(layer);
                }
            }
            let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<String>>().join(", ");
            return Err(Error::Selection(SelectionError::UnknownLayer { name: name.clone(), known }));
        }
    }
    // A layer and one of its tensors may both be named.
    indices.sort_unstable();
    indices.dedup();
    Ok(indices)
}

/// The indices of the `count` largest values; of equal ones the first.
fn largest(values: &[f64], count: usize) -> Result<Vec<usize>> {
    check_count(count, values.len())?;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]).then(a.cmp(b)));
    order.truncate(count);
    Ok(order)
}

/// `count` different indices below `n_params`: the first of a shuffle.
fn at_random(n_params: usize, count: usize, seed: u64) -> Result<Vec<usize>> {
    check_count(count, n_params)?;
    let mut generator = stream(seed, Purpose::Subnetwork, 0);
    let mut order: Vec<usize> = (0..n_params).collect();
    for place in 0..count {
        let other = generator.random_range(place..n_params);
        order.swap(place, other);
    }
    order.truncate(count);
    Ok(order)
}

fn check_count(count: usize, n_params: usize) -> Result<()> {
    match count {
        0 => Err(Error::Selection(SelectionError::Nothing)),
        count if count > n_params => Err(Error::Selection(SelectionError::TooMany { count, n_params })),
        _ => Ok(()),
    }
}

impl FromStr for Weights {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || Error::Selection(SelectionError::Syntax(text.to_string()));
        let mut words = text.split(':');
        let weights = match (words.next(), words.next(), words.next(), words.next()) {
            (Some("all"), None, _, _) => Weights::All,
            (Some("last-layer"), None, _, _) => Weights::LastLayer,
            (Some("layers"), Some(names), None, _) if names.split(',').all(|name| !name.trim().is_empty()) => {
                Weights::Layers(names.split(',').map(|name| name.trim().to_string()).collect())
            }
            (Some("subnetwork"), Some(count), rule, seed) => {
                let choice = match (rule, seed) {
                    (None | Some("magnitude"), None) => Choice::Magnitude,
                    (Some("variance"), None) => Choice::Variance,
                    (Some("random"), None) => Choice::Random { seed: 0 },
                    (Some("random"), Some(seed)) => Choice::Random { seed: seed.parse().map_err(|_| refuse())? },
                    _ => return Err(refuse()),
                };
                Weights::Subnetwork { count: count.parse().map_err(|_| refuse())?, choice }
            }
            _ => return Err(refuse()),
        };
        if words.next().is_some() { Err(refuse()) } else { Ok(weights) }
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weights::All => formatter.write_str("all"),
            Weights::LastLayer => formatter.write_str("last-layer"),
            Weights::Layers(names) => write!(formatter, "layers:{}", names.join(",")),
            Weights::Subnetwork { count, choice: Choice::Magnitude } => {
                write!(formatter, "subnetwork:{count}:magnitude")
            }
            Weights::Subnetwork { count, choice: Choice::Variance } => write!(formatter, "subnetwork:{count}:variance"),
            Weights::Subnetwork { count, choice: Choice::Random { seed } } => {
                write!(formatter, "subnetwork:{count}:random:{seed}")
            }
            Weights::Indices(indices) => write!(formatter, "subnetwork of {} given indices", indices.len()),
        }
    }
}

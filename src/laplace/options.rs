//! What a fit is told: the prior, the temperature, the kind of curvature and its structure.

use super::fit::Laplace;
use super::{CurvatureKind, Structure};
use crate::error::{Error, Result};
use crate::linalg::{Cholesky, FailedPivot, PackedFactor};
use crate::memory;
use crate::prior::{PriorMatrix, PriorMean, PriorPrecision, PriorStructure};

/// Prior precisions: one for all parameters, one per group of them (a network's layers), or one per parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum PriorValues {
    /// The same for every parameter.
    Shared(f64),
    /// One per group.
    PerGroup(Vec<f64>),
    /// One per parameter, in the order of θ̂.
    PerWeight(Vec<f64>),
    /// An earlier posterior's, which stays as it is; see [`FitOptions::following`].
    Posterior(PriorPrecision),
}

impl Default for PriorValues {
    /// 1 for every parameter.
    fn default() -> Self {
        PriorValues::Shared(1.0)
    }
}

impl From<f64> for PriorValues {
    fn from(value: f64) -> Self {
        PriorValues::Shared(value)
    }
}

impl From<Vec<f64>> for PriorValues {
    /// A list of one is shared by all groups.
    fn from(values: Vec<f64>) -> Self {
        match values[..] {
            [value] => PriorValues::Shared(value),
            _ => PriorValues::PerGroup(values),
        }
    }
}

impl PriorValues {
    /// The values of a prior as it is.
    pub fn of(prior: &PriorPrecision) -> Self {
        match prior.is_earlier_posterior() {
            true => PriorValues::Posterior(prior.clone()),
            false => Self::with_structure(prior.structure(), prior.values().to_vec()),
        }
    }

    /// The values of a prior of this structure.
    pub(crate) fn with_structure(structure: PriorStructure, values: Vec<f64>) -> Self {
        match (structure, &values[..]) {
            (PriorStructure::Scalar, [value]) => PriorValues::Shared(*value),
            (PriorStructure::Scalar | PriorStructure::PerLayer, _) => PriorValues::PerGroup(values),
            (PriorStructure::PerWeight, _) => PriorValues::PerWeight(values),
        }
    }

    /// A over groups of these sizes.
    pub fn over(&self, groups: &[usize]) -> Result<PriorPrecision> {
        match self {
            PriorValues::Shared(value) => PriorPrecision::scalar(*value, groups),
            PriorValues::PerGroup(values) => PriorPrecision::per_group(values.clone(), groups),
            PriorValues::PerWeight(values) => PriorPrecision::per_weight(values.clone(), groups),
            PriorValues::Posterior(precision) => precision.for_groups(groups),
        }
    }
}

/// Settings of [`Laplace::fit`].
#[derive(Debug, Clone, PartialEq)]
pub struct FitOptions {
    /// The prior precision (default: 1 for every parameter).
    pub prior_precision: PriorValues,
    /// The prior mean μ (default: 0 for every parameter).
    pub prior_mean: PriorMean,
    /// T > 0: the posterior is proportional to prior · likelihood^(1/T) (default: 1). Below 1 the data count for more,
    /// above 1 for less.
    pub temperature: f64,
    /// What the data's share of the posterior precision is made of (default: the generalised Gauss-Newton matrix).
    pub curvature: CurvatureKind,
    /// The structure of the posterior precision (default: exact).
    pub structure: Structure,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self {
            prior_precision: PriorValues::default(),
            prior_mean: PriorMean::default(),
            temperature: 1.0,
            curvature: CurvatureKind::default(),
            structure: Structure::default(),
        }
    }
}

impl FitOptions {
    /// The posterior of an earlier task as the prior of the next: N(θ_old, G_old⁻¹), constant, with the same temperature
    /// and kind of curvature. A diagonal posterior is followed by a diagonal one; any other by the full structure, for
    /// which G_old is written out (D × D).
    ///
    /// ```
    /// # use ndarray::array;
    /// # use riemannian_laplace::{Activation, Architecture, Dataset, Family, FitOptions, Laplace, Network};
    /// let network = |slope: f64| Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![slope, 1.0]);
    /// let data = |x: f64, y: f64| Dataset::new(array![[x]], array![[y]]);
    /// let first = Laplace::fit(network(2.0)?, data(1.0, 3.1)?, Family::gaussian(0.5)?, &FitOptions::default())?;
    /// let second = Laplace::fit(network(2.1)?, data(2.0, 5.2)?, Family::gaussian(0.5)?, &FitOptions::following(&first)?)?;
    /// assert!(second.linearized(&array![[2.0]])?.covariance[(0, 0, 0)] < first.linearized(&array![[2.0]])?.covariance[(0, 0, 0)]);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn following(earlier: &Laplace) -> Result<Self> {
        let (precision, groups) = (earlier.precision(), earlier.model().group_sizes());
        let size = precision.n_params();
        let (prior, structure) = match earlier.structure() {
            Structure::Diagonal => {
                let mut diagonal = vec![0.0; size];
                precision.times(&vec![1.0; size], &mut diagonal);
                (PriorPrecision::of_diagonal_posterior(diagonal, &groups)?, Structure::Diagonal)
            }
            _ => {
                let advice = "fit both tasks with the diagonal structure, or make fewer weights uncertain";
                memory::check("an earlier posterior as a prior", 3.0 * (size as f64).powi(2), advice)?;
                let mut cholesky = Cholesky::new(size);
                cholesky.matrix_mut().copy_from(precision.to_matrix());
                cholesky.factor().map_err(|FailedPivot(pivot)| Error::NotPositiveDefinite {
                    matrix: "the earlier posterior precision",
                    size,
                    pivot,
                    advice: "fit the earlier task with a greater prior precision",
                })?;
                let matrix = PriorMatrix::from(PackedFactor::from(cholesky));
                (PriorPrecision::of_posterior(matrix, &groups)?, Structure::WeightSpace)
            }
        };
        Ok(Self {
            prior_precision: PriorValues::Posterior(prior),
            prior_mean: earlier.parameters().to_vec().into(),
            temperature: earlier.temperature(),
            curvature: earlier.curvature_kind(),
            structure,
        })
    }
}

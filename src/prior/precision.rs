//! The prior precision A = diag(α): one α for all parameters, one per group of them (a network's layers), or one per
//! parameter.

use std::sync::Arc;

use faer::{Mat, MatMut};

use super::PriorMatrix;
use crate::error::{Error, Result, check_size};
use crate::linalg::dot;

/// How many precisions α a prior has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PriorStructure {
    /// One for all parameters.
    #[default]
    Scalar,
    /// One per group of parameters: a network's layers.
    PerLayer,
    /// One per parameter.
    PerWeight,
}

impl PriorStructure {
    /// The numbers of consecutive parameters that share each α, for parameters in groups of these sizes.
    pub fn shares(self, groups: &[usize]) -> Vec<usize> {
        match self {
            PriorStructure::Scalar => vec![groups.iter().sum()],
            PriorStructure::PerLayer => groups.to_vec(),
            PriorStructure::PerWeight => vec![1; groups.iter().sum()],
        }
    }
}

/// A = diag(α) over groups of consecutive parameters.
///
/// ```
/// use riemannian_laplace::internals::prior::PriorPrecision;
/// let prior = PriorPrecision::per_group(vec![1.0, 4.0], &[2, 1])?;
/// assert_eq!(prior.quadratic(&[1.0, 2.0, 3.0]), 1.0 + 4.0 + 4.0 * 9.0);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PriorPrecision {
    structure: PriorStructure,
    /// One value, one per group, or one per parameter.
    values: Vec<f64>,
    groups: Vec<usize>,
    earlier: Option<Earlier>,
}

/// Where a prior is an earlier posterior: what it has beyond the values.
#[derive(Debug, Clone, PartialEq)]
enum Earlier {
    /// A is diagonal.
    Diagonal,
    /// A is this matrix, and the values are its diagonal.
    Matrix(Arc<PriorMatrix>),
}

impl PriorPrecision {
    /// The same precision α > 0 for every parameter.
    pub fn scalar(value: f64, groups: &[usize]) -> Result<Self> {
        Self::checked(PriorStructure::Scalar, vec![value], groups)
    }

    /// One precision α > 0 per group.
    pub fn per_group(values: Vec<f64>, groups: &[usize]) -> Result<Self> {
        check_size("number of prior precisions", groups.len(), values.len())?;
        Self::checked(PriorStructure::PerLayer, values, groups)
    }

    /// One precision α > 0 per parameter, for parameters in groups of these sizes.
    ///
    /// ```
    /// use riemannian_laplace::internals::prior::PriorPrecision;
    /// let prior = PriorPrecision::per_weight(vec![1.0, 2.0, 4.0], &[2, 1])?;
    /// assert_eq!(prior.quadratic(&[1.0, 2.0, 3.0]), 1.0 + 2.0 * 4.0 + 4.0 * 9.0);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn per_weight(values: Vec<f64>, groups: &[usize]) -> Result<Self> {
        check_size("number of prior precisions", groups.iter().sum(), values.len())?;
        Self::checked(PriorStructure::PerWeight, values, groups)
    }

    /// One precision for each α that this structure has.
    pub fn with_structure(structure: PriorStructure, values: Vec<f64>, groups: &[usize]) -> Result<Self> {
        check_size("number of prior precisions", structure.shares(groups).len(), values.len())?;
        Self::checked(structure, values, groups)
    }

    /// The precision of an earlier posterior that is diagonal: a constant, one value per parameter.
    pub fn of_diagonal_posterior(values: Vec<f64>, groups: &[usize]) -> Result<Self> {
        Ok(Self { earlier: Some(Earlier::Diagonal), ..Self::per_weight(values, groups)? })
    }

    /// The precision of an earlier posterior: a constant matrix. Only the weight-space structure takes it.
    pub fn of_posterior(matrix: PriorMatrix, groups: &[usize]) -> Result<Self> {
        let values = (0..matrix.size()).map(|d| matrix.matrix()[(d, d)]).collect();
        Ok(Self { earlier: Some(Earlier::Matrix(Arc::new(matrix))), ..Self::per_weight(values, groups)? })
    }

    /// Whether this is the precision of an earlier posterior, which tuning leaves alone.
    pub fn is_earlier_posterior(&self) -> bool {
        self.earlier.is_some()
    }

    /// The matrix, where A is not diagonal. [`values`](Self::values) and [`for_each_group`](Self::for_each_group) then
    /// tell of its diagonal alone.
    pub fn matrix(&self) -> Option<&PriorMatrix> {
        match &self.earlier {
            Some(Earlier::Matrix(matrix)) => Some(matrix),
            Some(Earlier::Diagonal) | None => None,
        }
    }

    /// A = I.
    pub fn identity(groups: &[usize]) -> Self {
        Self { structure: PriorStructure::Scalar, values: vec![1.0], groups: groups.to_vec(), earlier: None }
    }

    /// No prior term: A = 0.
    pub fn improper(n_params: usize) -> Self {
        Self { structure: PriorStructure::Scalar, values: vec![0.0], groups: vec![n_params], earlier: None }
    }

    /// The same prior over the groups of a map: a single value and one value per parameter fit any groups with the same
    /// total number of parameters; one value per group fits only the same groups.
    pub fn for_groups(&self, groups: &[usize]) -> Result<Self> {
        check_size("number of parameters of the prior", groups.iter().sum(), self.n_params())?;
        if self.structure == PriorStructure::PerLayer && self.groups != groups {
            return Err(Error::PriorGroups { prior: self.groups.clone(), model: groups.to_vec() });
        }
        Ok(Self { groups: groups.to_vec(), ..self.clone() })
    }

    fn checked(structure: PriorStructure, values: Vec<f64>, groups: &[usize]) -> Result<Self> {
        match values.iter().enumerate().find(|(_, value)| !(**value > 0.0 && value.is_finite())) {
            Some((position, &value)) => Err(Error::PriorPrecision { position, value }),
            None => {
                // A single value is one for all, whatever it was asked for.
                let structure = if values.len() == 1 { PriorStructure::Scalar } else { structure };
                Ok(Self { structure, values, groups: groups.to_vec(), earlier: None })
            }
        }
    }

    /// How many values there are.
    pub fn structure(&self) -> PriorStructure {
        self.structure
    }

    /// The single value, one per group, or one per parameter.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The number of parameters in each group.
    pub fn groups(&self) -> &[usize] {
        &self.groups
    }

    /// D.
    pub fn n_params(&self) -> usize {
        self.groups.iter().sum()
    }

    /// Whether every precision is positive.
    pub fn is_proper(&self) -> bool {
        self.values.iter().all(|value| *value > 0.0)
    }

    /// The prior variances 1/α in the form that [`weighted_gram`](crate::map::weighted_gram) takes: one per group, or
    /// one per parameter.
    pub fn variances(&self) -> Vec<f64> {
        let mut variances = Vec::new();
        self.write_variances(&mut variances);
        variances
    }

    /// The same, into a reused vector.
    pub fn write_variances(&self, variances: &mut Vec<f64>) {
        variances.clear();
        match self.structure {
            PriorStructure::Scalar => variances.resize(self.groups.len(), 1.0 / self.values[0]),
            PriorStructure::PerLayer | PriorStructure::PerWeight => {
                variances.extend(self.values.iter().map(|value| 1.0 / value));
            }
        }
    }

    /// Calls `visit` with the range of parameters that share an α, and with that α: once for each group, or for each
    /// parameter where each has its own.
    pub fn for_each_group(&self, mut visit: impl FnMut(std::ops::Range<usize>, f64)) {
        if self.structure == PriorStructure::PerWeight {
            self.values.iter().enumerate().for_each(|(d, alpha)| visit(d..d + 1, *alpha));
            return;
        }
        let mut start = 0;
        for (size, alpha) in self.groups.iter().zip(self.values.iter().cycle()) {
            visit(start..start + size, *alpha);
            start += size;
        }
    }

    /// u ← s(α) ∘ u, with a factor that depends on the parameter's α.
    fn scale(&self, vector: &mut [f64], factor: impl Fn(f64) -> f64) {
        self.for_each_group(|range, alpha| {
            let factor = factor(alpha);
            vector[range].iter_mut().for_each(|value| *value *= factor);
        });
    }

    /// u ← A u.
    pub fn multiply(&self, vector: &mut [f64]) {
        if let Some(matrix) = self.matrix() {
            return matrix.multiply(vector);
        }
        self.scale(vector, |alpha| alpha);
    }

    /// u ← A⁻¹ u.
    pub fn divide(&self, vector: &mut [f64]) {
        if let Some(matrix) = self.matrix() {
            return matrix.divide(vector);
        }
        self.scale(vector, |alpha| 1.0 / alpha);
    }

    /// u ← A^(−½) u: a standard normal vector becomes a draw from the prior.
    pub fn divide_by_root(&self, vector: &mut [f64]) {
        if let Some(matrix) = self.matrix() {
            return matrix.divide_by_root(vector);
        }
        self.scale(vector, |alpha| 1.0 / alpha.sqrt());
    }

    /// uᵀAu.
    pub fn quadratic(&self, vector: &[f64]) -> f64 {
        if let Some(matrix) = self.matrix() {
            return matrix.quadratic(vector);
        }
        let mut sum = 0.0;
        self.for_each_group(|range, alpha| sum += alpha * dot(&vector[range.clone()], &vector[range]));
        sum
    }

    /// log det A.
    pub fn log_det(&self) -> f64 {
        if let Some(matrix) = self.matrix() {
            return matrix.log_det();
        }
        let mut sum = 0.0;
        self.for_each_group(|range, alpha| sum += range.len() as f64 * alpha.ln());
        sum
    }

    /// tr(AM), for a symmetric matrix given by its lower triangle.
    pub fn trace_with(&self, lower: &Mat<f64>) -> f64 {
        if let Some(matrix) = self.matrix() {
            return matrix.trace_with(lower);
        }
        let mut sum = 0.0;
        self.for_each_group(|range, alpha| sum += alpha * range.map(|d| lower[(d, d)]).sum::<f64>());
        sum
    }

    /// M ← M + A, in the lower triangle.
    pub fn add_to(&self, mut matrix: MatMut<'_, f64>) {
        if let Some(earlier) = self.matrix() {
            return earlier.add_to(matrix);
        }
        self.for_each_group(|range, alpha| {
            for d in range {
                matrix[(d, d)] += alpha;
            }
        });
    }
}

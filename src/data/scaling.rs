//! Standardisation, column by column: z = (x − mean) / scale, and its inverse.

use std::path::Path;

use ndarray::{Array2, Array3, ArrayView2, ArrayView3};
use serde::{Deserialize, Serialize};

use crate::error::{DataError, Error, Result, check_size};
use crate::files::read_text;

/// The mean and scale of each column.
///
/// A network sees z = (x − mean) / scale. A Gaussian over z with mean m and variance v is a Gaussian over x with mean
/// m·scale + mean and variance v·scale², and log p(x) = log p(z) − Σ log scale.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::internals::data::Standardization;
/// let columns = array![[1.0, 7.0], [3.0, 7.0]];
/// let scaling = Standardization::of(columns.view())?;
/// assert_eq!((scaling.mean(), scaling.scale()), (&[2.0, 7.0][..], &[1.0, 1.0][..]));
/// let scaled = scaling.apply(columns.view())?;
/// assert_eq!(scaled, array![[-1.0, 0.0], [1.0, 0.0]]);
/// assert_eq!(scaling.undo(scaled.view())?, columns);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Columns")]
pub struct Standardization {
    mean: Vec<f64>,
    scale: Vec<f64>,
}

/// The contents of a file, before they are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Columns {
    mean: Vec<f64>,
    scale: Vec<f64>,
}

impl TryFrom<Columns> for Standardization {
    type Error = Error;

    fn try_from(columns: Columns) -> Result<Self> {
        Self::new(columns.mean, columns.scale)
    }
}

impl Standardization {
    /// One mean and one scale per column; means must be finite, scales positive and finite.
    pub fn new(mean: Vec<f64>, scale: Vec<f64>) -> Result<Self> {
        check_size("number of scales", mean.len(), scale.len())?;
        let refuse = |what, index: usize, value, requirement| {
            Err(Error::Data(DataError::Standardization { what, column: index + 1, value, requirement }))
        };
        if let Some((index, &value)) = mean.iter().enumerate().find(|(_, value)| !value.is_finite()) {
            return refuse("mean", index, value, "finite");
        }
        if let Some((index, &value)) = scale.iter().enumerate().find(|(_, value)| !(**value > 0.0 && value.is_finite()))
        {
            return refuse("scale", index, value, "positive and finite");
        }
        Ok(Self { mean, scale })
    }

    /// Mean and standard deviation (the root of the mean squared deviation) of each column; a constant column gets
    /// scale 1.
    pub fn of(values: ArrayView2<'_, f64>) -> Result<Self> {
        let no_rows = || Error::NoRows { what: "the data to standardise".to_string() };
        if values.nrows() == 0 {
            return Err(no_rows());
        }
        let rows = values.nrows() as f64;
        let (mut mean, mut scale) = (Vec::new(), Vec::new());
        for column in values.columns() {
            let first = column.first().copied().ok_or_else(no_rows)?;
            if column.iter().all(|value| *value == first) {
                mean.push(first);
                scale.push(1.0);
                continue;
            }
            let average = column.sum() / rows;
            // Deviations are divided by the largest, so that no square leaves the range of f64.
            let greatest = column.iter().fold(0.0_f64, |top, value| top.max((value - average).abs()));
            let squares: f64 = column.iter().map(|value| ((value - average) / greatest).powi(2)).sum();
            mean.push(average);
            scale.push(greatest * (squares / rows).sqrt());
        }
        Self::new(mean, scale)
    }

    /// The mean of each column.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The scale of each column.
    pub fn scale(&self) -> &[f64] {
        &self.scale
    }

    /// The number of columns.
    pub fn n_columns(&self) -> usize {
        self.mean.len()
    }

    /// (x − mean) / scale; every result must be finite.
    pub fn apply(&self, values: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        let scaled = self.each(values, |value, mean, scale| (value - mean) / scale)?;
        match scaled.indexed_iter().find(|(_, value)| !value.is_finite()) {
            Some(((row, column), _)) => Err(Error::NotFinite { what: "the standardised value", row, column }),
            None => Ok(scaled),
        }
    }

    /// z·scale + mean: values, or the means of predictions, in the original units.
    pub fn undo(&self, values: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        self.each(values, |value, mean, scale| value * scale + mean)
    }

    /// v·scale²: variances of predictions in the original units.
    pub fn undo_variance(&self, variances: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        self.each(variances, |value, _, scale| value * scale * scale)
    }

    /// C_pq·scale_p·scale_q: covariances between columns, one matrix per point, in the original units.
    pub fn undo_covariance(&self, covariances: ArrayView3<'_, f64>) -> Result<Array3<f64>> {
        let (_, rows, columns) = covariances.dim();
        check_size("number of covariance rows", self.n_columns(), rows)?;
        check_size("number of covariance columns", self.n_columns(), columns)?;
        let mut restored = covariances.to_owned();
        for mut matrix in restored.outer_iter_mut() {
            for (mut row, one) in matrix.outer_iter_mut().zip(&self.scale) {
                row.iter_mut().zip(&self.scale).for_each(|(value, other)| *value *= one * other);
            }
        }
        Ok(restored)
    }

    /// −Σ log scale, which turns a log density of one point's scaled values into that of the original values.
    pub fn log_density_shift(&self) -> f64 {
        -self.scale.iter().map(|scale| scale.ln()).sum::<f64>()
    }

    fn each(&self, values: ArrayView2<'_, f64>, rule: impl Fn(f64, f64, f64) -> f64) -> Result<Array2<f64>> {
        check_size("number of columns to scale", self.n_columns(), values.ncols())?;
        let mut result = values.to_owned();
        for (mut column, (&mean, &scale)) in result.columns_mut().into_iter().zip(self.mean.iter().zip(&self.scale)) {
            column.mapv_inplace(|value| rule(value, mean, scale));
        }
        Ok(result)
    }
}

/// How inputs and targets were standardised before the network saw them.
///
/// In JSON `{"inputs": {"mean": […], "scale": […]}, "targets": {"mean": […], "scale": […]}}`, one number per column;
/// `targets` may be left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaling {
    /// Of the inputs.
    pub inputs: Standardization,
    /// Of the targets, when they were standardised too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<Standardization>,
}

impl Scaling {
    /// Reads a JSON file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_text(path)?;
        serde_json::from_str(&text).map_err(|error| {
            Error::Data(DataError::ScalingFile { path: path.to_path_buf(), problem: error.to_string() })
        })
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array3, array};

    use super::*;

    #[test]
    fn standardised_columns_have_mean_zero_and_variance_one() -> Result<()> {
        let values = array![[1.0, 1e200], [2.0, -1e200], [4.0, 3e200], [9.0, 0.0]];
        let scaled = Standardization::of(values.view())?.apply(values.view())?;
        for column in scaled.columns() {
            assert!(column.sum().abs() < 1e-14);
            assert!((column.mapv(|value| value * value).sum() / 4.0 - 1.0).abs() < 1e-14);
        }
        Ok(())
    }

    #[test]
    fn a_constant_column_keeps_its_unit() -> Result<()> {
        // The mean of ten times 0.1 is not 0.1 in floating point.
        let scaling = Standardization::of(Array2::from_elem((10, 1), 0.1).view())?;
        assert_eq!((scaling.mean(), scaling.scale()), (&[0.1][..], &[1.0][..]));
        Ok(())
    }

    #[test]
    fn variances_covariances_and_densities_return_to_the_original_units() -> Result<()> {
        let scaling = Standardization::new(vec![1.0, -1.0], vec![2.0, 0.5])?;
        assert_eq!(scaling.undo(array![[1.0, 2.0]].view())?, array![[3.0, 0.0]]);
        assert_eq!(scaling.undo_variance(array![[1.0, 4.0]].view())?, array![[4.0, 1.0]]);
        let covariance = Array3::from_shape_fn((1, 2, 2), |(_, p, q)| if p == q { 4.0 } else { 3.0 });
        let restored = scaling.undo_covariance(covariance.view())?;
        assert_eq!(restored.iter().copied().collect::<Vec<_>>(), [16.0, 3.0, 3.0, 1.0]);
        // p(x) of a unit Gaussian in z = (x − 1)/2, at x = 3: the density of N(1, 2²) there.
        let one = Standardization::new(vec![1.0], vec![2.0])?;
        let log_normal = |z: f64| -0.5 * (z * z + (2.0 * std::f64::consts::PI).ln());
        let expected = -0.5 * ((2.0 / 2.0_f64).powi(2) + (2.0 * std::f64::consts::PI * 4.0).ln());
        assert!((log_normal(1.0) + one.log_density_shift() - expected).abs() < 1e-15);
        Ok(())
    }

    #[test]
    fn unusable_scales_and_shapes_are_refused() {
        for scale in [0.0, -1.0, f64::INFINITY, f64::NAN] {
            let error = Standardization::new(vec![0.0, 0.0], vec![1.0, scale]).unwrap_err().to_string();
            assert!(error.contains("the scale of column 2"), "{error}");
        }
        assert!(Standardization::new(vec![f64::NAN], vec![1.0]).is_err());
        assert!(Standardization::new(vec![0.0], vec![]).is_err());
        assert!(Standardization::of(Array2::zeros((0, 1)).view()).is_err());
        let scaling = Standardization::new(vec![0.0], vec![1e-300]).expect("a scaling");
        assert!(scaling.apply(array![[1.0, 2.0]].view()).is_err());
        assert!(matches!(scaling.apply(array![[1e300]].view()), Err(Error::NotFinite { row: 0, column: 0, .. })));
    }

    #[test]
    fn the_json_form_is_checked_when_it_is_read() {
        let text = r#"{"inputs":{"mean":[1.5],"scale":[2.0]},"targets":{"mean":[0.1],"scale":[3.0]}}"#;
        let scaling: Scaling = serde_json::from_str(text).expect("a scaling");
        assert_eq!(serde_json::to_string(&scaling).expect("JSON"), text);
        let inputs_only: Scaling = serde_json::from_str(r#"{"inputs":{"mean":[1],"scale":[2]}}"#).expect("a scaling");
        assert_eq!(inputs_only.targets, None);
        for (text, word) in [
            (r#"{"inputs":{"mean":[1],"scale":[0]}}"#, "scale of column 1"),
            (r#"{"inputs":{"mean":[1,2],"scale":[1]}}"#, "number of scales"),
            (r#"{"inputs":{"mean":[1],"scale":[1]},"target":{"mean":[1],"scale":[1]}}"#, "unknown field `target`"),
            (r#"{"inputs":{"mean":[1],"std":[1]}}"#, "unknown field `std`"),
        ] {
            let error = serde_json::from_str::<Scaling>(text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}

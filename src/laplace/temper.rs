//! Another temperature: the posterior prior · likelihood^(1/T) at the same θ̂, from the same sums over the data.

use super::fit::{Laplace, checked_temperature};
use super::problem::Problem;
use crate::error::{Error, Result, Unsupported};

impl Laplace {
    /// Replaces the temperature T: the precision becomes A + T⁻¹ Σₙ JₙᵀHₙJₙ, and prior precision and σ stay.
    ///
    /// ```
    /// # use ndarray::array;
    /// # use riemannian_laplace::{Activation, Architecture, Dataset, Family, FitOptions, Laplace, Network};
    /// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 1.0])?;
    /// let data = Dataset::new(array![[0.0], [1.0], [2.0]], array![[1.1], [2.9], [5.0]])?;
    /// let fit = |temperature: f64| {
    ///     let options = FitOptions { temperature, ..Default::default() };
    ///     Laplace::fit(network.clone(), data.clone(), Family::gaussian(0.5)?, &options)
    /// };
    /// let mut laplace = fit(1.0)?;
    /// laplace.set_temperature(0.1)?;
    /// assert_eq!(laplace.log_det_ratio(), fit(0.1)?.log_det_ratio());
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn set_temperature(&mut self, temperature: f64) -> Result<()> {
        let temperature = checked_temperature(temperature)?;
        if self.prior().is_earlier_posterior() && temperature != self.temperature() {
            return Err(Error::Unsupported(Unsupported::ConstantTemperature));
        }
        let problem = Problem { temperature, ..self.problem.clone() };
        self.precision = self.curvature()?.factor(self.prior.precision(), &problem.scales())?;
        self.calibration = None;
        self.problem = problem;
        Ok(())
    }
}

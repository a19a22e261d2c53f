//! The spectrum of the curvature relative to the prior: the eigenvalues λ of A^{−½}(G − A)A^{−½}.
//!
//! A direction with λ ≫ 1 is determined by the data, one with λ ≪ 1 by the prior alone: Σ λ/(1 + λ) is the number of
//! effective parameters, and Σ log(1 + λ) = log det G − log det A.

use super::contents::Spectrum;
use crate::error::Result;
use crate::laplace::Laplace;
use crate::linalg::eigenvalues;
use crate::memory;

/// The most parameters for which all eigenvalues are computed: 27 billion multiply-adds, some seconds.
const MOST_PARAMETERS: usize = 3000;

/// The spectrum of a posterior, from the largest eigenvalue.
pub fn spectrum(laplace: &Laplace) -> Result<Spectrum> {
    let size = laplace.parameters().len();
    if size > MOST_PARAMETERS {
        return Ok(Spectrum::Omitted(format!(
            "not computed beyond {MOST_PARAMETERS} uncertain weights; here are {size}"
        )));
    }
    if laplace.prior().is_earlier_posterior() || !laplace.prior().is_proper() {
        return Ok(Spectrum::Omitted("the prior is an earlier posterior, not a number per weight".to_string()));
    }
    let advice = "allow more of it, or fit fewer weights";
    let _reservation = memory::reserve("the spectrum", 3.0 * (size * size) as f64, advice)?;
    let mut matrix = laplace.precision().to_matrix();
    let mut deviations = vec![0.0; size];
    laplace.prior().for_each_group(|range, precision| deviations[range].fill(1.0 / precision.sqrt()));
    for j in 0..size {
        for i in 0..size {
            matrix[(i, j)] *= deviations[i] * deviations[j];
        }
        matrix[(j, j)] -= 1.0;
    }
    let mut values = eigenvalues(matrix.as_ref(), "the curvature")?;
    values.reverse();
    Ok(Spectrum::All(values))
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;
    use crate::data::Dataset;
    use crate::laplace::{FitOptions, PriorValues, Structure};
    use crate::likelihood::Family;
    use crate::network::{Activation, Architecture, Network};

    #[test]
    fn the_spectrum_gives_the_effective_parameters_and_the_log_determinant_of_every_structure() -> Result<()> {
        let network = Network::random(Architecture::new(&[2, 4, 1], Activation::Tanh)?, 3);
        let data =
            Dataset::new(array![[0.0, 1.0], [1.0, -1.0], [2.0, 0.5], [-1.0, 0.3]], array![[1.0], [0.9], [0.4], [0.2]])?;
        for structure in [Structure::WeightSpace, Structure::FunctionSpace, Structure::Kronecker, Structure::Diagonal] {
            let prior_precision = PriorValues::PerGroup(vec![0.7, 2.0]);
            let options = FitOptions { structure, prior_precision, ..Default::default() };
            let laplace = Laplace::fit(network.clone(), data.clone(), Family::gaussian(0.3)?, &options)?;
            let Spectrum::All(values) = spectrum(&laplace)? else { panic!("no spectrum") };
            assert!(values.is_sorted_by(|a, b| a >= b));
            let effective: f64 = values.iter().map(|value| value / (1.0 + value)).sum();
            let log_det: f64 = values.iter().map(|value| value.ln_1p()).sum();
            // Rounding of eigenvalues up to a thousand.
            assert!((effective - laplace.effective_parameters()).abs() < 1e-9, "{structure:?}");
            assert!((log_det - laplace.log_det_ratio()).abs() < 1e-9, "{structure:?}");
        }
        Ok(())
    }
}

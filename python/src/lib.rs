//! The compiled part of the Python package `riemannian_laplace`: arrays in, arrays out, and everything else is a call
//! into the crate. What users see (data of many kinds, models of many kinds, warnings) is written in Python on top.

mod decisions;
mod derivatives;
mod errors;
mod evidence;
mod fit;
mod leave_one_out;
mod method;
mod network;
mod posterior;
mod prediction;
mod report;
mod samples;
mod train;
mod work;

use pyo3::prelude::*;

/// The compiled part of `riemannian_laplace`.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::decisions::{export, influence, promised, suggest};
    #[pymodule_export]
    use crate::derivatives::DerivedModel;
    #[pymodule_export]
    use crate::evidence::Evidence;
    #[pymodule_export]
    use crate::leave_one_out::LeaveOneOut;
    #[pymodule_export]
    use crate::network::Network;
    #[pymodule_export]
    use crate::posterior::Posterior;
    #[pymodule_export]
    use crate::prediction::Prediction;
    #[pymodule_export]
    use crate::report::report;
    #[pymodule_export]
    use crate::samples::Samples;
    #[pymodule_export]
    use crate::train::train;

    use pyo3::prelude::*;

    /// The activations by name.
    #[pyfunction]
    fn activations() -> Vec<&'static str> {
        riemannian_laplace::Activation::ALL.map(riemannian_laplace::Activation::name).to_vec()
    }

    /// The likelihoods by name.
    #[pyfunction]
    fn likelihoods() -> Vec<&'static str> {
        riemannian_laplace::internals::likelihood::REGISTER.iter().map(|entry| entry.name()).collect()
    }

    /// Those of them whose targets are classes.
    #[pyfunction]
    fn class_likelihoods() -> Vec<&'static str> {
        let register = riemannian_laplace::internals::likelihood::REGISTER.iter();
        register.filter(|entry| entry.family().has_classes()).map(|entry| entry.name()).collect()
    }

    /// Sets the most memory, in bytes, that the engine may take; none for what the machine has.
    #[pyfunction]
    #[pyo3(signature = (n_bytes))]
    fn set_memory_limit(n_bytes: Option<u64>) {
        riemannian_laplace::internals::memory::set_limit(n_bytes);
    }

    /// Sets the number of threads of the engine, before its first work in this process.
    #[pyfunction]
    fn set_num_threads(py: Python<'_>, n_threads: usize) -> PyResult<()> {
        crate::work::set_num_threads(py, n_threads)
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::work::begin();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

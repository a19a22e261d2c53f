//! A page of HTML on a posterior and its predictions.

use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use riemannian_laplace::Method;
use riemannian_laplace::internals::report::{Names, Report, ReportOptions};

use crate::errors::OrRaise;
use crate::method::MethodSettings;
use crate::posterior::Posterior;
use crate::work::run;

type Array<'py> = PyReadonlyArray2<'py, f64>;

/// What the page is about.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Page {
    posterior: String,
    data: String,
    level: f64,
    max_rows: usize,
}

/// The page, as text. Without data those of the fit are scored, and the page says so.
#[pyfunction]
#[pyo3(signature = (posterior, methods, page, data=None, watch=None))]
pub fn report(
    py: Python<'_>,
    posterior: &Posterior,
    methods: Vec<MethodSettings>,
    page: Page,
    data: Option<(Array<'_>, Array<'_>)>,
    watch: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let methods: PyResult<Vec<Method>> = methods.iter().map(|method| method.parse(py)).collect();
    let data = data.map(|(inputs, targets)| posterior.columns_of(inputs, targets)).transpose().or_raise(py)?;
    let options = ReportOptions { methods: methods?, level: page.level, max_rows: page.max_rows, ..Default::default() };
    let names = Names { posterior: page.posterior, data: page.data };
    run(py, watch, |progress| Ok(Report::of(posterior.laplace(), &names, data.as_ref(), &options, progress)?.to_html()))
}

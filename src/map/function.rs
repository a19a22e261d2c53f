//! A user's own parametric function as a model: write f(θ, x) once, and its derivatives follow from [`Taylor`] numbers.

use std::sync::Arc;

use faer::MatMut;
use ndarray::{Array2, ArrayView2};

use super::{Explicit, ExplicitMap, Group, Jet, Map, Model, Taylor};
use crate::error::{Error, Result, check_size};

/// f(θ, x), written for [`Taylor`] numbers: takes θ and one row of inputs, and writes P outputs.
pub trait ParametricFunction: Fn(&[Taylor], &[f64], &mut [Taylor]) + Send + Sync + 'static {}

impl<F: Fn(&[Taylor], &[f64], &mut [Taylor]) + Send + Sync + 'static> ParametricFunction for F {}

/// A model given by a formula. Meant for few parameters: a Jacobian takes D evaluations of the formula.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::internals::map::jacobian;
/// use riemannian_laplace::{FunctionModel, Model, Taylor};
///
/// // An exponential decay: f(x) = θ₀ exp(−θ₁x).
/// let decay = |theta: &[Taylor], x: &[f64], f: &mut [Taylor]| f[0] = theta[0] * (-theta[1] * x[0]).exp();
/// let model = FunctionModel::new(vec![2.0, 1.0], 1, 1, decay)?;
/// let jacobian = jacobian(&model.bind(array![[0.0]].view())?, model.parameters());
/// assert_eq!((jacobian[(0, 0)], jacobian[(0, 1)]), (1.0, 0.0));
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Clone)]
pub struct FunctionModel<F> {
    parameters: Vec<f64>,
    n_inputs: usize,
    n_outputs: usize,
    function: Arc<F>,
}

impl<F> std::fmt::Debug for FunctionModel<F> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { parameters, n_inputs, n_outputs, .. } = self;
        write!(formatter, "FunctionModel of {} parameters, {n_inputs} inputs, {n_outputs} outputs", parameters.len())
    }
}

impl<F: ParametricFunction> FunctionModel<F> {
    /// The formula with its trained parameters θ̂.
    pub fn new(parameters: Vec<f64>, n_inputs: usize, n_outputs: usize, function: F) -> Result<Self> {
        if let Some(column) = parameters.iter().position(|value| !value.is_finite()) {
            return Err(Error::NotFinite { what: "the parameter vector", row: 0, column });
        }
        if parameters.is_empty() || n_outputs == 0 {
            return Err(Error::Size { what: "number of parameters and outputs".to_string(), expected: 1, found: 0 });
        }
        Ok(Self { parameters, n_inputs, n_outputs, function: Arc::new(function) })
    }
}

impl<F: ParametricFunction> Model for FunctionModel<F> {
    fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    fn groups(&self) -> Vec<Group> {
        vec![Group { name: "parameters".to_string(), size: self.parameters.len() }]
    }

    fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    fn n_outputs(&self) -> usize {
        self.n_outputs
    }

    fn bind(&self, inputs: ArrayView2<'_, f64>) -> Result<Arc<dyn Map>> {
        check_size("number of input columns", self.n_inputs, inputs.ncols())?;
        Ok(Arc::new(Explicit(FunctionMap { model: self.clone_shared(), inputs: inputs.to_owned() })))
    }

    fn numbers_per_point(&self, columns: usize) -> f64 {
        (self.parameters.len() * (self.n_outputs + 2 * columns)) as f64
    }

    fn description(&self) -> String {
        format!("a function of {} parameters", self.parameters.len())
    }
}

impl<F> FunctionModel<F> {
    fn clone_shared(&self) -> Self {
        let Self { parameters, n_inputs, n_outputs, function } = self;
        Self {
            parameters: parameters.clone(),
            n_inputs: *n_inputs,
            n_outputs: *n_outputs,
            function: Arc::clone(function),
        }
    }
}

/// The formula at N inputs.
struct FunctionMap<F> {
    model: FunctionModel<F>,
    inputs: Array2<f64>,
}

impl<F> std::fmt::Debug for FunctionMap<F> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} at {} inputs", self.model, self.inputs.nrows())
    }
}

impl<F: ParametricFunction> FunctionMap<F> {
    /// Calls `visit` with the point and its outputs at θ + t·velocity.
    fn for_each_point(&self, theta: &[f64], velocity: impl Fn(usize) -> f64, mut visit: impl FnMut(usize, &[Taylor])) {
        let theta: Vec<Taylor> =
            theta.iter().enumerate().map(|(d, value)| Taylor::along(*value, velocity(d))).collect();
        let mut outputs = vec![Taylor::default(); self.model.n_outputs];
        for (n, row) in self.inputs.rows().into_iter().enumerate() {
            outputs.fill(Taylor::default());
            (self.model.function)(&theta, &row.to_vec(), &mut outputs);
            visit(n, &outputs);
        }
    }
}

impl<F: ParametricFunction> ExplicitMap for FunctionMap<F> {
    fn n_params(&self) -> usize {
        self.model.parameters.len()
    }

    fn n_points(&self) -> usize {
        self.inputs.nrows()
    }

    fn n_outputs(&self) -> usize {
        self.model.n_outputs
    }

    fn outputs(&self, theta: &[f64], outputs: &mut [f64]) {
        let points = self.n_points();
        self.for_each_point(
            theta,
            |_| 0.0,
            |n, f| f.iter().enumerate().for_each(|(p, f)| outputs[p * points + n] = f.value),
        );
    }

    fn jet(&self, theta: &[f64], velocity: &[f64], jet: &mut Jet) {
        let points = self.n_points();
        self.for_each_point(
            theta,
            |d| velocity[d],
            |n, f| {
                for (p, f) in f.iter().enumerate() {
                    if let Some(output) = jet.outputs.get_mut(p * points + n) {
                        *output = f.value;
                    }
                    jet.first[p * points + n] = f.first;
                    jet.second[p * points + n] = f.second;
                }
            },
        );
    }

    fn jacobian(&self, theta: &[f64], mut jacobian: MatMut<'_, f64>) {
        let points = self.n_points();
        for d in 0..self.n_params() {
            let unit = |index: usize| if index == d { 1.0 } else { 0.0 };
            self.for_each_point(theta, unit, |n, f| {
                f.iter().enumerate().for_each(|(p, f)| jacobian[(p * points + n, d)] = f.first);
            });
        }
    }
}

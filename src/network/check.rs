//! The network compared with outputs that the framework it comes from gave for the same inputs.

use candle_core::{DType, Module, Tensor};
use ndarray::{Array2, ArrayView2, Axis, Zip};

use super::{Network, OutputLink};
use crate::error::{Error, Result, check_size};
use crate::map::Model;

/// The largest difference allowed, relative to the largest output: frameworks compute in f32, and files hold a few
/// digits.
pub const CHECK_TOLERANCE: f64 = 1e-4;

/// The points that are evaluated at a time.
const POINTS: usize = 1024;

impl Network {
    /// The raw outputs at θ̂, one row per input.
    pub fn outputs(&self, inputs: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        check_size("number of input columns", self.n_inputs(), inputs.ncols())?;
        let mut all = Array2::zeros((inputs.nrows(), self.n_outputs()));
        let parts = all.axis_chunks_iter_mut(Axis(0), POINTS).zip(inputs.axis_chunks_iter(Axis(0), POINTS));
        for (index, (mut part, chunk)) in parts.enumerate() {
            let n = chunk.nrows();
            let mut unit_major = vec![0.0; n * self.n_outputs()];
            let map = self.bind(chunk).map_err(|error| error.in_part_from(index * POINTS))?;
            map.evaluate(1).outputs(self.parameters(), &mut unit_major);
            part.indexed_iter_mut().for_each(|((row, output), value)| *value = unit_major[output * n + row]);
        }
        Ok(all)
    }

    /// Compares the outputs with those of the framework that the network comes from, which may end in a link. Returns
    /// the largest difference relative to the largest output, and refuses one above [`CHECK_TOLERANCE`].
    ///
    /// ```
    /// use ndarray::array;
    /// use riemannian_laplace::{Activation, Architecture, Network};
    ///
    /// let network = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, 1.0])?;
    /// let inputs = array![[0.0], [1.0]];
    /// assert!(network.check_outputs(inputs.view(), array![[1.0], [3.00001]].view(), None)? < 1e-5);
    /// let refusal = network.check_outputs(inputs.view(), array![[1.0], [2.9]].view(), None).unwrap_err();
    /// assert!(refusal.to_string().contains("the network gives 3 and the framework 2.9"));
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn check_outputs(
        &self,
        inputs: ArrayView2<'_, f64>,
        expected: ArrayView2<'_, f64>,
        link: Option<OutputLink>,
    ) -> Result<f64> {
        check_size("number of rows of outputs", inputs.nrows(), expected.nrows())?;
        check_size("number of columns of outputs", self.n_outputs(), expected.ncols())?;
        let mut found = self.outputs(inputs)?;
        if let Some(link) = link {
            link.apply(&mut found);
        }
        compare(&found, expected, CHECK_TOLERANCE)
    }

    /// Compares the outputs with those of a candle module, or of a closure that is the user's forward function, at a
    /// batch of inputs in the shape that it takes. Returns the largest difference relative to the module's largest
    /// output, and refuses one above `tolerance`, naming the worst output; in f32, 1e-5 is about what rounding leaves.
    ///
    /// [`Network::builder`] has an example.
    pub fn verify(&self, module: &impl Module, inputs: &Tensor, tolerance: f64) -> Result<f64> {
        let found = self.outputs(matrix(inputs)?.view())?;
        let expected = matrix(&module.forward(inputs)?)?;
        check_size("number of rows of the module's outputs", found.nrows(), expected.nrows())?;
        check_size("number of outputs of the module", found.ncols(), expected.ncols())?;
        compare(&found, expected.view(), tolerance)
    }
}

/// A tensor as a matrix with one row per point.
fn matrix(tensor: &Tensor) -> Result<Array2<f64>> {
    let rows = tensor.dim(0)?;
    let values = tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
    let columns = values.len() / rows.max(1);
    Ok(Array2::from_shape_fn((rows, columns), |(row, column)| values[row * columns + column]))
}

/// The largest difference relative to the largest expected output; an error if it is not allowed.
fn compare(found: &Array2<f64>, expected: ArrayView2<'_, f64>, allowed: f64) -> Result<f64> {
    let largest = expected.iter().fold(0.0_f64, |most, value| most.max(value.abs())).max(f64::MIN_POSITIVE);
    let mut worst = (0.0_f64, (0, 0));
    Zip::indexed(found).and(&expected).for_each(|place, found, expected| {
        let difference = (found - expected).abs() / largest;
        if difference.is_nan() || difference > worst.0 {
            worst = (if difference.is_nan() { f64::INFINITY } else { difference }, place);
        }
    });
    let (difference, (row, column)) = worst;
    if difference <= allowed {
        return Ok(difference);
    }
    let (found, expected) = (found[(row, column)], expected[(row, column)]);
    Err(Error::OutputsDiffer { row, column, found, expected, difference, allowed })
}

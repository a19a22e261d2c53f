//! A network with its kinks rounded: the widths are ε_j = c·√(variance of unit j's input z over the data + its mean
//! posterior variance), at θ̂.
//!
//! The first term is the unit's own scale. The second, the mean of (∂z/∂θ · v)² over the data and over posterior draws
//! v, is how far a sample moves z; without it a unit whose input is the same for all data would have no width.

use faer::{Mat, MatRef};
use ndarray::{ArrayView2, Axis, Slice};

use super::graph::Graph;
use super::{Architecture, Network};
use crate::data::row_blocks;
use crate::error::{Error, Result, check_size};
use crate::linalg::column_slice;
use crate::map::Rounding;

impl Network {
    /// The same parameters in a network whose kinks are rounded; `None` where it has none, or one that cannot be
    /// rounded. Its derivatives are for metrics: predictions and evidence belong to the network itself.
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// use riemannian_laplace::internals::map::Rounding;
    /// use riemannian_laplace::internals::network::graph::{Function, Kind};
    /// use riemannian_laplace::{Activation, Architecture, Network};
    ///
    /// // The unit's input is x, with variance 1 over the data, and the draws do not move it.
    /// let network = Network::new(Architecture::new(&[1, 1, 1], Activation::Relu)?, vec![1.0, 0.0, 1.0, 0.0])?;
    /// let inputs = array![[-1.0], [1.0]];
    /// let offsets = Array2::zeros((1, 4));
    /// let rounding = Rounding { width: 0.05, inputs: inputs.view(), offsets: offsets.view() };
    /// let smooth = network.with_rounded_kinks(&rounding)?.expect("relu has a kink");
    /// let Kind::Elementwise(Function::Rounded(relu)) = &smooth.architecture().graph().nodes()[2].kind else { panic!() };
    /// assert_eq!(relu.widths(), [0.05]);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn with_rounded_kinks(&self, rounding: &Rounding<'_>) -> Result<Option<Network>> {
        let architecture = self.architecture();
        if !architecture.has_kinks() {
            return Ok(None);
        }
        if !(rounding.width > 0.0 && rounding.width.is_finite()) {
            return Err(Error::SmoothingWidth(rounding.width));
        }
        check_size("number of input columns", architecture.n_inputs(), rounding.inputs.ncols())?;
        check_size("length of an offset", architecture.n_params(), rounding.offsets.ncols())?;
        let scales = scales(architecture.graph(), self.parameters(), rounding.inputs, rounding.offsets)?;
        let widths = |units: Vec<f64>| units.into_iter().map(|scale| rounding.width * scale).collect();
        match architecture.graph().rounded(scales.into_iter().map(widths)) {
            Some(graph) => Self::new(Architecture::of_graph(graph)?, self.parameters().to_vec()).map(Some),
            None => Ok(None),
        }
    }
}

/// √(variance over the data + mean posterior variance) of the inputs of each kink, one number per unit.
fn scales(
    graph: &Graph,
    theta: &[f64],
    inputs: ArrayView2<'_, f64>,
    offsets: ArrayView2<'_, f64>,
) -> Result<Vec<Vec<f64>>> {
    let offsets: Vec<Vec<f64>> = offsets.rows().into_iter().map(|row| row.to_vec()).collect();
    let mut kinks: Vec<Vec<Moments>> = Vec::new();
    for block in row_blocks(inputs.nrows()) {
        let points = block.len();
        let rows = inputs.slice_axis(Axis(0), Slice::from(block));
        let rows = Mat::from_fn(points, rows.ncols(), |n, i| rows[(n, i)]);
        let _reservation = graph.reserve(points)?;
        let mut tapes = graph.tapes(points, 0);
        let still = graph.still_values(rows.as_ref())?;
        for (draw, offset) in offsets.iter().enumerate() {
            let mut next = 0;
            graph.forward_along(theta, offset, &still, &mut tapes, &mut |z| {
                if kinks.len() == next {
                    kinks.push(vec![Moments::default(); z.ncols()]);
                }
                add(&mut kinks[next], z, draw == 0);
                next += 1;
            });
        }
    }
    let draws = offsets.len().max(1) as f64;
    Ok(kinks.into_iter().map(|units| units.iter().map(|unit| unit.scale(draws)).collect()).collect())
}

/// Adds a block's inputs z₀ (once) and their motion z₁ along a draw.
fn add(units: &mut [Moments], z: MatRef<'_, f64>, first: bool) {
    let points = z.nrows() / 2;
    for (unit, column) in units.iter_mut().zip(z.col_iter()) {
        let (z0, z1) = column_slice(column).split_at(points);
        if first {
            unit.merge(z0);
        }
        unit.motion += z1.iter().map(|z| z * z).sum::<f64>();
    }
}

/// What is known of one unit's input z.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: f64,
    mean: f64,
    /// Σ (z − mean)².
    spread: f64,
    /// Σ ż², over data and draws.
    motion: f64,
}

impl Moments {
    /// Adds the values of a block.
    fn merge(&mut self, values: &[f64]) {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let spread: f64 = values.iter().map(|z| (z - mean) * (z - mean)).sum();
        let (total, apart) = (self.count + count, mean - self.mean);
        self.spread += spread + apart * apart * self.count * count / total;
        self.mean += apart * count / total;
        self.count = total;
    }

    /// √(variance + mean posterior variance), or where both are zero, so that z is a constant, any number that leaves
    /// the unit as it is: its size, or 1 for z = 0.
    fn scale(&self, draws: f64) -> f64 {
        let scale = ((self.spread + self.motion / draws) / self.count).sqrt();
        [scale, self.mean.abs()].into_iter().find(|scale| *scale > 0.0).unwrap_or(1.0)
    }
}

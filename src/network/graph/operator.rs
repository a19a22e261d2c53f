//! What an operator without parameters provides; a user's own may implement it as well.

use faer::{MatMut, MatRef};

/// An operator on values, without parameters.
///
/// Values are matrices with one column per unit and N rows per Taylor coefficient, one block of rows below the other.
/// `outputs` of a forward sweep have C·N rows, with C = 1, 2 or 3; every input has as many, or N where it does not move, and
/// then its other coefficients are zero. Sensitivities have M = N·K rows: K blocks of N.
///
/// ```
/// use std::sync::Arc;
/// use faer::{MatMut, MatRef};
/// use ndarray::array;
/// use riemannian_laplace::internals::network::graph::{Custom, GraphBuilder, Kind, Operator, Seen};
///
/// /// The sum of all columns.
/// #[derive(Debug)]
/// struct Total;
///
/// impl Operator for Total {
///     fn description(&self) -> String {
///         "total".to_string()
///     }
///     fn width(&self, _inputs: &[usize]) -> Result<usize, String> {
///         Ok(1)
///     }
///     fn forward(&self, _points: usize, inputs: &[MatRef<'_, f64>], mut outputs: MatMut<'_, f64>) {
///         for row in 0..outputs.nrows() {
///             let still = row >= inputs[0].nrows();
///             outputs[(row, 0)] = if still { 0.0 } else { inputs[0].row(row).iter().sum() };
///         }
///     }
///     fn pull_back(&self, _: usize, order: usize, _: &Seen<'_>, deltas: MatRef<'_, f64>, target: MatMut<'_, f64>) {
///         // A sum pulls back in the same way everywhere.
///         if order == 0 {
///             target.col_iter_mut().for_each(|mut column| column += deltas.col(0));
///         }
///     }
/// }
///
/// let mut graph = GraphBuilder::new();
/// let x = graph.input(&[2]);
/// let weight = graph.parameter("w", &[3, 2], vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0])?;
/// let h = graph.linear(x, &weight, None)?;
/// let total = graph.node(Kind::Custom(Custom(Arc::new(Total))), &[h], &[1])?;
/// let network = graph.finish(total)?;
/// assert_eq!(network.outputs(array![[1.0, 2.0]].view())?, array![[6.0]]);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub trait Operator: Send + Sync + std::fmt::Debug {
    /// Its name, for people.
    fn description(&self) -> String;
    /// The width of its value for inputs of these widths, or what is wrong with them, as the rest of a sentence that starts
    /// with the operator.
    fn width(&self, inputs: &[usize]) -> Result<usize, String>;
    /// Writes the Taylor coefficients of the value.
    fn forward(&self, points: usize, inputs: &[MatRef<'_, f64>], outputs: MatMut<'_, f64>);
    /// Adds, to the sensitivities of one input, what those of the value (M rows) give: δ → Bδ at order 0, and at order 1 the
    /// derivative of B along the velocity of the forward sweep, δ → Ḃδ.
    fn pull_back(&self, which: usize, order: usize, seen: &Seen<'_>, deltas: MatRef<'_, f64>, target: MatMut<'_, f64>);
    /// Whether it reads its own value in a pull-back, so that no later node may replace it in place.
    fn needs_value(&self) -> bool {
        false
    }
}

/// What a forward sweep has left for the pull-back.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// N.
    pub points: usize,
    /// The inputs: N rows where they do not move, else several blocks of N.
    pub inputs: &'a [MatRef<'a, f64>],
    /// The value.
    pub value: MatRef<'a, f64>,
}

impl<'a> Seen<'a> {
    /// A coefficient of an input; `None` where it is zero, since the input does not move.
    pub fn input(&self, which: usize, order: usize) -> Option<MatRef<'a, f64>> {
        let rows = order * self.points..(order + 1) * self.points;
        self.inputs.get(which).filter(|input| input.nrows() >= rows.end).map(|input| input.get(rows, ..))
    }
}

//! Which training rows made a prediction: leave-one-out influence in closed form, from the linearised posterior.
//!
//! Without row n the mode moves, by one Newton step, to θ₋ₙ = θ̂ − G⁻¹Jₙᵀuₙ with
//!
//! uₙ = (I − HₙCₙ/T)⁻¹ sₙ/T,   Cₙ = JₙG⁻¹Jₙᵀ,   sₙ = ∂log p(yₙ | f)/∂f at f(xₙ, θ̂).
//!
//! With Gaussian noise this is exact for the linearised model, uₙ = e/(σ²(1 − h)) for one output with residual e and leverage h.
//! Outputs anywhere move by −J(x)G⁻¹Jₙᵀuₙ; a loss by the product of that with its gradient; and the row's own loss by
//! −log p(yₙ | f₋ₙ) + log p(yₙ | f̂), its *self-influence*: large where the network had to bend for this row alone, as it does for a
//! wrong label. It is a linearisation at θ̂: hidden units that a row has shaped stay as they are, so on overfitted networks real
//! refits differ by more. With hidden units the order of rows by self-influence agrees with refits, and effects on other rows are
//! hints: G is not the Hessian. Where θ̂ is a minimum, a posterior with the Hessian curvature is closer.

use faer::Mat;
use faer::linalg::solvers::Solve;
use ndarray::{Array2, ArrayView2, Axis};

use crate::data::Dataset;
use crate::error::{Error, Result, check_size};
use crate::laplace::Laplace;
use crate::likelihood::RowLikelihood;
use crate::linalg::symmetric_eigen;
use crate::map::{Rows, Scratch, frozen_rows, identity_seeds};
use crate::predict::linearized;

/// Training rows whose derivatives are held at a time.
const ROWS_AT_ONCE: usize = 1024;

/// The influence of every training row.
///
/// ```
/// use ndarray::array;
/// use riemannian_laplace::internals::evaluate::Influence;
/// use riemannian_laplace::prelude::*;
///
/// // A line through five points, of which the last is off.
/// let x = array![[0.0], [1.0], [2.0], [3.0], [4.0]];
/// let data = Dataset::new(x.clone(), array![[0.0], [1.0], [2.0], [3.0], [9.0]])?;
/// let start = Network::new(Architecture::new(&[1, 1], Activation::Identity)?, vec![2.0, -1.0])?;
/// let laplace = Laplace::fit(start, data, Family::gaussian(1.0)?, &FitOptions { prior_precision: 1e-9.into(), ..Default::default() })?;
/// let influence = Influence::of(&laplace)?;
/// assert_eq!(influence.most_suspicious(1), [4]);
/// // Without it the line has slope 1 and no intercept: 6 at x = 6, which was 11.
/// let change = influence.on_outputs(&laplace, &array![[6.0]])?;
/// assert!((change[(4, 0)] + 5.0).abs() < 1e-6);
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Influence {
    /// uₙ: training rows × outputs.
    pub pull: Array2<f64>,
    /// −log p(yₙ | f₋ₙ) + log p(yₙ | f̂): how much worse a row is predicted without it.
    pub of_itself: Vec<f64>,
    /// The raw outputs at each row without it, in the units of the model.
    pub without: Array2<f64>,
}

impl Influence {
    /// Of the training rows that a posterior holds.
    pub fn of(laplace: &Laplace) -> Result<Self> {
        let data = laplace.data().ok_or(Error::NoTrainingData { what: "influence" })?;
        let latent = linearized(laplace, data.inputs())?;
        let (points, p) = latent.mean.dim();
        let temperature = laplace.temperature();
        let (mut pull, mut without) = (Array2::zeros((points, p)), latent.mean.clone());
        let mut of_itself = Vec::with_capacity(points);
        let (mut score, mut whitening) = (vec![0.0; p], vec![0.0; p * p]);
        for n in 0..points {
            let (outputs, row) = (latent.mean.row(n).to_vec(), data.targets().row(n).to_vec());
            let RowLikelihood { likelihood, target, .. } = laplace.family().of_row(&row, p);
            likelihood.gradient(target, &outputs, &mut score);
            likelihood.whitening(&outputs, &mut whitening);
            let root = Mat::from_fn(p, p, |i, j| whitening[i * p + j]);
            let covariance = Mat::from_fn(p, p, |i, j| latent.covariance[(n, i, j)]);
            let system =
                Mat::<f64>::identity(p, p) - &root * root.transpose() * &covariance * faer::Scale(1.0 / temperature);
            let inner = root.transpose() * &covariance * &root * faer::Scale(1.0 / temperature);
            let eigen = symmetric_eigen(inner.as_ref(), "the leverage of a data point")?;
            let leverage = eigen.values.iter().copied().fold(0.0, f64::max);
            if leverage.is_nan() || leverage >= 1.0 {
                return Err(Error::Leverage { row: n, leverage });
            }
            let rhs = Mat::from_fn(p, 1, |i, _| score[i] / temperature);
            let solved = system.full_piv_lu().solve(&rhs);
            let moved = &covariance * &solved;
            for i in 0..p {
                pull[(n, i)] = solved[(i, 0)];
                without[(n, i)] -= moved[(i, 0)];
            }
            let own =
                likelihood.log_density(target, &outputs) - likelihood.log_density(target, &without.row(n).to_vec());
            if !own.is_finite() {
                return Err(Error::NotFinite { what: "the influence", row: n, column: 0 });
            }
            of_itself.push(own);
        }
        Ok(Self { pull, of_itself, without })
    }

    /// The rows with the greatest self-influence, the first the most suspicious.
    pub fn most_suspicious(&self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.of_itself.len()).collect();
        order.sort_by(|a, b| self.of_itself[*b].total_cmp(&self.of_itself[*a]));
        order.truncate(count);
        order
    }

    /// By how much each raw output at some inputs (in the units of the data) changes when a training row is left out: training
    /// rows × (inputs · outputs), output p of input t at t·P + p, in the units of the model.
    pub fn on_outputs(&self, laplace: &Laplace, inputs: &Array2<f64>) -> Result<Array2<f64>> {
        let scaled = laplace.schema().scale_inputs(inputs.view())?;
        let (points, p) = (scaled.nrows(), laplace.model().n_outputs());
        let rows = jacobian(laplace, scaled.view())?;
        let directions = (0..points * p).map(|index| {
            let mut weights = vec![0.0; points * p];
            weights[(index % p) * points + index / p] = 1.0;
            weights
        });
        self.along(laplace, &*rows, directions)
    }

    /// By how much the mean loss −log p over some data (in the units of the data) changes, to first order, when a training row is
    /// left out: positive for a row that helps, negative for one that harms.
    pub fn on_loss(&self, laplace: &Laplace, data: &Dataset) -> Result<Vec<f64>> {
        let schema = laplace.schema();
        let (inputs, targets) =
            (schema.scale_inputs(data.inputs().view())?, schema.scale_targets(data.targets().view())?);
        data.check_targets(laplace.family(), laplace.model().n_outputs())?;
        let outputs = laplace.outputs(&inputs)?;
        let (points, p) = outputs.dim();
        let (mut weights, mut score) = (vec![0.0; points * p], vec![0.0; p]);
        for n in 0..points {
            let row = targets.row(n).to_vec();
            let RowLikelihood { likelihood, target, .. } = laplace.family().of_row(&row, p);
            likelihood.gradient(target, &outputs.row(n).to_vec(), &mut score);
            score.iter().enumerate().for_each(|(k, score)| weights[k * points + n] = -score / points as f64);
        }
        let changes = self.along(laplace, &*jacobian(laplace, inputs.view())?, std::iter::once(weights))?;
        Ok(changes.column(0).to_vec())
    }

    /// −wᵀJ G⁻¹ Jₙᵀ uₙ for the rows J and each list of weights w.
    fn along(
        &self,
        laplace: &Laplace,
        rows: &dyn Rows,
        weights: impl Iterator<Item = Vec<f64>>,
    ) -> Result<Array2<f64>> {
        let data = laplace.data().ok_or(Error::NoTrainingData { what: "influence" })?;
        check_size("number of training rows", self.pull.nrows(), data.len())?;
        let d = laplace.parameters().len();
        let mut scratch = Scratch::default();
        let solve = |weights: Vec<f64>| {
            let (mut gradient, mut solution) = (vec![0.0; d], vec![0.0; d]);
            rows.transpose_times(&weights, &mut gradient, &mut scratch);
            laplace.precision().solve(&gradient, &mut solution);
            solution
        };
        let directions: Vec<Vec<f64>> = weights.map(solve).collect();
        let p = self.pull.ncols();
        let mut changes = Array2::zeros((data.len(), directions.len()));
        for (part, first) in data.inputs().axis_chunks_iter(Axis(0), ROWS_AT_ONCE).zip((0..).step_by(ROWS_AT_ONCE)) {
            let (training, points) = (jacobian(laplace, part)?, part.nrows());
            let mut product = vec![0.0; points * p];
            for (column, direction) in directions.iter().enumerate() {
                training.times(direction, &mut product, &mut scratch);
                for n in 0..points {
                    let terms = (0..p).map(|k| product[k * points + n] * self.pull[(first + n, k)]);
                    changes[(first + n, column)] = -terms.sum::<f64>();
                }
            }
        }
        Ok(changes)
    }
}

/// The Jacobian of the raw outputs at inputs in the units of the model: row `p·N + n`.
fn jacobian(laplace: &Laplace, inputs: ArrayView2<'_, f64>) -> Result<Box<dyn Rows>> {
    let map = laplace.model().bind(inputs)?;
    let (n, p) = (map.n_points(), map.n_outputs());
    frozen_rows(&map, laplace.parameters(), p, |_| Ok(identity_seeds(n, p)))
}

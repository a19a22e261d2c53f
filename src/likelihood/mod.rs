//! Likelihoods log p(y | f) of one observation y given the network's raw outputs f ∈ R^P, and their Fisher geometry:
//! H = E(∇log p ∇log pᵀ) = R Rᵀ, and the whitened force z with R z = H f̈ + C(ḟ, ḟ).
//!
//! | likelihood (outputs) | H | R | z |
//! |---|---|---|---|
//! | [`Gaussian`], noise σ | I/σ² | I/σ | f̈/σ |
//! | [`Bernoulli`] (logit), p = sigmoid f | p(1−p) | √(p(1−p)) | √(p(1−p)) (f̈ + ½(1−2p) ḟ²) |
//! | [`Categorical`] (logits), p = softmax f | diag p − ppᵀ | diag √p − p√pᵀ | √p∘(f̈ − p·f̈ + ½((ḟ − p·ḟ)² − Var_p ḟ)) |
//! | [`Poisson`] (log rate), r = eᶠ | r | √r | √r (f̈ + ½ḟ²) |
//! | [`Heteroscedastic`] (mean μ, log variance s) | diag(e⁻ˢ, ½) | diag(e^(−s/2), 1/√2) | (e^(−s/2) (μ̈ − ṡμ̇), (s̈ + e⁻ˢμ̇²)/√2) |
//!
//! The first four are exponential families in their natural parameter (the Gaussian up to its scale σ), log p = yᵀf −
//! A(f) + const. Hence H = ∇²A is also the negative Hessian of log p, the gradient is y − E(y), and the Christoffel term
//! of the output metric, C_k = Σ_ij (∂_i H_jk − ½∂_k H_ij) ḟ_i ḟ_j, is ½∇³A(ḟ, ḟ, ·), which gives the last column. The
//! heteroscedastic Gaussian is not: its observed information −∇²log p depends on y, and H is its expectation.
//!
//! Everything is finite and accurate for saturated outputs: log p of the unlikely class at logit 800 is −800, and
//! √(p(1−p)) there is e⁻⁴⁰⁰ although p(1−p) underflows.

mod batch;
mod check;
mod distribution;
mod family;
mod from_density;
mod kind;
mod known;
mod latent;
mod loss;
mod measured;
mod noisy;
mod normals;
mod scaled;

pub use crate::error::{NoiseError, TargetError, UnknownLikelihood};
pub use batch::PointEvaluator;
pub use check::{Disagreement, check_likelihood};
pub(crate) use distribution::normal_quantile;
pub use family::{Entry, Family, Registered};
pub use from_density::{Density, FromDensity};
pub use kind::{Dispersion, GraphForm, Misfit, TargetKind, TargetSummary};
pub use known::{Known, RowLikelihood};
pub(crate) use known::{at_rows, to_powers, to_the_power};
pub(crate) use latent::{LEVEL_ROUNDING, log_sum_exp};
pub use latent::{LatentPoint, Marginal, OutputMixture, PointMoments, gauss_hermite};
pub use normals::{Normal, NormalMixture};
pub use scaled::Scaled;

use std::any::Any;
use std::sync::Arc;

use candle_core::Tensor;
use rand_chacha::ChaCha8Rng;

use crate::elementary::vectorized;
use crate::error::Result as CrateResult;

/// Declares the likelihoods, one file each, and lists them for the command line and for files.
macro_rules! register {
    ($($file:ident::$name:ident),* $(,)?) => {
        $(mod $file; pub use $file::$name;)*
        /// The likelihoods that have a name on the command line and in files.
        pub const REGISTER: &[Entry] = &[$(Entry::of::<$name>()),*];
    };
}

register! {
    gaussian::Gaussian,
    heteroscedastic::Heteroscedastic,
    categorical::Categorical,
    bernoulli::Bernoulli,
    poisson::Poisson,
    student_t::StudentT,
    gamma::Gamma,
    negative_binomial::NegativeBinomial,
    binomial::Binomial,
    ordinal::Ordinal,
}

/// The distribution of one observation y given the network's P raw outputs f.
///
/// Slices named `outputs`, `first` (ḟ), `second` (f̈), `gradient` and `force` have P entries, matrices are P × P in
/// row-major order, `target` has [`n_targets`](Self::n_targets) entries, and `mean` and `variance` have
/// [`n_means`](Self::n_means). Callers pass only
/// targets that [`validate`](Self::validate) accepts and numbers of outputs that [`check_outputs`](Self::check_outputs)
/// accepts; the other methods do not check again and never allocate.
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Bernoulli, Categorical, Likelihood, Poisson};
///
/// let likelihoods: [&dyn Likelihood; 3] = [&Bernoulli, &Categorical, &Poisson];
/// let (outputs, first) = ([0.3, -1.2], [1.0, 0.5]);
/// for likelihood in likelihoods {
///     let mut fisher = [0.0; 4];
///     likelihood.fisher(&outputs, &mut fisher);
///     let quadratic = fisher[0] + fisher[1] + 0.25 * fisher[3]; // ḟᵀHḟ with ḟ = (1, ½)
///     assert!((likelihood.fisher_quadratic(&outputs, &first) - quadratic).abs() < 1e-15);
/// }
/// ```
pub trait Likelihood: Any + Send + Sync + std::fmt::Debug {
    /// The name used in files and on the command line.
    fn name(&self) -> &'static str;

    /// What an observation is.
    fn kind(&self) -> TargetKind {
        TargetKind::Real
    }

    /// The columns of known values that rows have behind their targets: the noise of a measurement, a number of trials.
    fn known(&self) -> Vec<Known> {
        Vec::new()
    }

    /// The same for rows with these known values; `None` where they are of no use to it.
    fn with_known(&self, _known: &[Known]) -> Option<Arc<dyn Likelihood>> {
        None
    }

    /// The likelihood of a row with these known values, one for each of [`known`](Self::known). Without them it is the
    /// likelihood itself: of a measurement without noise, of a single trial.
    fn at_row(&self, _known: &[f64]) -> Option<Arc<dyn Likelihood>> {
        None
    }

    /// The number of trials that an observation counts: 1, unless a row says otherwise.
    fn trials(&self) -> f64 {
        1.0
    }

    /// The likelihood of point n, where points differ; of no use to a likelihood of one's own.
    fn at_point(&self, _n: usize) -> Option<&dyn Likelihood> {
        None
    }

    /// The number of outputs of a network for that many targets; where targets are labels of a softmax, of classes.
    fn outputs_for(&self, n_targets: usize) -> usize {
        n_targets
    }

    /// The function that takes an output to a mean, as exporters put it at the end of a graph: `identity`, `exp`,
    /// `sigmoid` or `softmax`.
    fn mean_function(&self) -> &'static str {
        "identity"
    }

    /// How its predictions are written as a graph, where they can be.
    fn graph_form(&self) -> Option<GraphForm> {
        None
    }

    /// Whether class probabilities follow from a Gaussian over the outputs by a choice of link; otherwise by quadrature.
    fn has_logits(&self) -> bool {
        self.kind().has_classes()
    }

    /// The number of classes of a target; 2 of a yes/no answer, and of no use to numbers.
    fn n_classes(&self, n_outputs: usize) -> usize {
        if self.kind() == TargetKind::Answers { 2 } else { self.n_means(n_outputs) }
    }

    /// The number of values in one target: P, or 1 for a class label.
    fn n_targets(&self, n_outputs: usize) -> usize {
        n_outputs
    }

    /// The number of entries of E(y | f) and Var(y | f): P (one per output, or per class), unless some outputs are no
    /// means.
    fn n_means(&self, n_outputs: usize) -> usize {
        n_outputs
    }

    /// Whether the likelihood fits a network with that many outputs.
    fn check_outputs(&self, n_outputs: usize) -> Result<(), TargetError> {
        at_least_outputs(self.name(), 1, n_outputs)
    }

    /// Whether y could have been observed: its width, and every value.
    fn validate(&self, target: &[f64], n_outputs: usize) -> Result<(), TargetError>;

    /// log p(y | f), with every constant.
    fn log_density(&self, target: &[f64], outputs: &[f64]) -> f64;

    /// The largest log p(y | f) over all outputs f, to which deviances are relative; `None` where there is none.
    fn largest_log_density(&self, _target: &[f64]) -> Option<f64> {
        None
    }

    /// Writes ∂ log p(y | f)/∂f.
    fn gradient(&self, target: &[f64], outputs: &[f64], gradient: &mut [f64]);

    /// Writes the output Fisher information H(f).
    fn fisher(&self, outputs: &[f64], fisher: &mut [f64]);

    /// Writes the observed information −∇²log p(y | f), whose expectation is H. In a natural exponential family (the
    /// default) it is H itself; otherwise it depends on y and need not be positive semidefinite.
    fn observed_information(&self, _target: &[f64], outputs: &[f64], information: &mut [f64]) {
        self.fisher(outputs, information);
    }

    /// Writes R(f), with R Rᵀ = H.
    fn whitening(&self, outputs: &[f64], whitening: &mut [f64]);

    /// Writes z, with R z = H f̈ + C(ḟ, ḟ).
    fn whitened_force(&self, outputs: &[f64], first: &[f64], second: &[f64], force: &mut [f64]);

    /// Coordinates u(f) in which the output metric is Euclidean, by their derivatives: writes ∂u_k/∂f_j at `k·P + j` and
    /// ∂²u_k/∂f_i∂f_j at `(k·P + i)·P + j`. Returns false, with nothing written, where there are none: the outputs of a
    /// heteroscedastic Gaussian are a hyperbolic plane.
    ///
    /// | likelihood | u(f) |
    /// |---|---|
    /// | Gaussian | f/σ |
    /// | Bernoulli | 2 atan e^(f/2) |
    /// | categorical | 2√softmax f, on a sphere |
    /// | Poisson | 2e^(f/2) |
    fn isometry(&self, _outputs: &[f64], _slopes: &mut [f64], _bends: &mut [f64]) -> bool {
        false
    }

    /// ḟᵀ H ḟ, as a sum of squares.
    fn fisher_quadratic(&self, outputs: &[f64], first: &[f64]) -> f64;

    /// Writes the isometric outputs y(f), in which the metric H is Euclidean and whose Jacobian is Rᵀ; false where there
    /// are none.
    fn isometric(&self, _outputs: &[f64], _isometric: &mut [f64]) -> bool {
        false
    }

    /// Adds what ÿ has beyond z along a jet: a part normal to the surface on which y lies, where that is curved.
    fn add_normal_force(&self, _outputs: &[f64], _first: &[f64], _force: &mut [f64]) {}

    /// −d²log p along a straight line of outputs, the quadratic form of the
    /// [observed information](Self::observed_information): ḟᵀHḟ in a natural exponential family (the default).
    fn observed_quadratic(&self, _target: &[f64], outputs: &[f64], first: &[f64]) -> f64 {
        self.fisher_quadratic(outputs, first)
    }

    /// Whether H is the same for all outputs f: then R, z and ḟᵀHḟ do not depend on f, and the outputs given for them
    /// may be any numbers.
    fn has_constant_fisher(&self) -> bool {
        false
    }

    /// Whether log p is a sum over the outputs of terms of one form, each with its own target. All points of a network
    /// with one output are then evaluated by one call, as if they were many outputs of a single observation.
    fn is_separable(&self) -> bool {
        false
    }

    /// Writes √H of each output, for separable likelihoods: the diagonal of R, for any number of outputs.
    fn deviations(&self, outputs: &[f64], deviations: &mut [f64]) {
        for (output, deviation) in outputs.iter().zip(deviations) {
            self.whitening(std::slice::from_ref(output), std::slice::from_mut(deviation));
        }
    }

    /// Writes E(y | f): for classes, their probabilities.
    fn mean(&self, outputs: &[f64], mean: &mut [f64]);

    /// Writes the variance of every component of y given f: for classes, that of their indicators.
    fn variance(&self, outputs: &[f64], variance: &mut [f64]);

    /// Draws an observation y given f, of [`n_targets`](Self::n_targets) values.
    fn draw(&self, outputs: &[f64], generator: &mut ChaCha8Rng, target: &mut [f64]);

    /// P(y_k ≤ value | f); of no use to classes.
    fn cumulative(&self, _outputs: &[f64], _target: usize, _value: f64) -> f64 {
        f64::NAN
    }

    /// P(y_k < value | f) + ½P(y_k = value | f).
    fn rank(&self, outputs: &[f64], target: usize, value: f64) -> f64 {
        let up_to = self.cumulative(outputs, target, value);
        match self.kind().is_whole() {
            true => 0.5 * (up_to + self.cumulative(outputs, target, value - 1.0)),
            false => up_to,
        }
    }

    /// Mean and standard deviation of y_k given f, where it is normal.
    fn normal(&self, _outputs: &[f64], _target: usize) -> Option<(f64, f64)> {
        None
    }

    /// The moments of y under a Gaussian over the outputs, where there is a closed form; otherwise they are found by
    /// Gauss-Hermite quadrature.
    fn closed_moments(&self, _latent: &LatentPoint) -> Option<PointMoments> {
        None
    }

    /// log p(y) under a Gaussian over the outputs, where there is a better way than quadrature over each output.
    fn closed_log_density(&self, _latent: &LatentPoint, _target: &[f64]) -> CrateResult<Option<f64>> {
        Ok(None)
    }

    /// The distribution of y_k under a Gaussian over the outputs as a mixture of normals, where it is one.
    fn closed_mixture(&self, _latent: &LatentPoint, _target: usize) -> Option<NormalMixture> {
        None
    }

    /// The number of equally likely outputs over which the distribution function of y is averaged otherwise.
    fn n_nodes(&self) -> usize {
        latent::OUTPUTS
    }

    /// The deviance 2 (max log p(y | ·) − log p(y | f)).
    fn deviance(&self, target: &[f64], outputs: &[f64]) -> f64 {
        2.0 * (self.largest_log_density(target).unwrap_or(0.0) - self.log_density(target, outputs))
    }

    /// An output that is the same at all points, with the greatest likelihood of targets with these sums.
    fn constant_output(&self, sums: &TargetSummary<'_>, output: usize) -> f64 {
        sums.mean(output)
    }

    /// The same for as many classes as there are counts of rows, with its parameters at what a constant output would need;
    /// `None` where the number of outputs says how many classes there are.
    fn for_classes(&self, _counts: &[f64]) -> Option<Arc<dyn Likelihood>> {
        None
    }

    /// A training loss in candle's operations, of outputs and targets with one row per point, where it should be another
    /// than the mean of −log p.
    fn training_loss(&self, _outputs: &Tensor, _targets: &Tensor) -> Option<candle_core::Result<Tensor>> {
        None
    }

    /// A mean training loss in the units of the data, and what it is. `scales` are those of standardised targets.
    fn loss_in_units(&self, loss: f64, _n_targets: usize, scales: Option<&[f64]>) -> (f64, &'static str) {
        let shift: f64 = scales.unwrap_or_default().iter().map(|scale| scale.ln()).sum();
        (loss + shift, "mean negative log likelihood of the last epoch")
    }

    /// Shift and factor that take an output to the units of the data, given those of the targets.
    fn output_in_units(&self, output: usize, (shifts, scales): (&[f64], &[f64])) -> (f64, f64) {
        (shifts[output], scales[output])
    }

    /// What would help where intervals are wrong in this way.
    fn cure(&self, _misfit: Misfit) -> Option<&'static str> {
        None
    }

    /// σ of Gaussian noise: one for all outputs, or one per output. The Fisher information is that at σ = 1 over σ², and
    /// the log likelihood follows from the squared errors, so both are summed over the data once for all σ.
    fn noise_levels(&self) -> Option<&[f64]> {
        None
    }

    /// The same with other σ.
    fn with_noise_levels(&self, _sigma: &[f64]) -> Result<Arc<dyn Likelihood>, NoiseError> {
        Err(NoiseError::None { likelihood: self.name() })
    }

    /// The parameters besides σ that are no outputs, and that tuning may move.
    fn dispersions(&self) -> Vec<Dispersion> {
        Vec::new()
    }

    /// The same with other values of them.
    fn with_dispersions(&self, _values: &[f64]) -> Result<Arc<dyn Likelihood>, NoiseError> {
        Err(NoiseError::None { likelihood: self.name() })
    }
}

/// The likelihood of point n.
pub(crate) fn likelihood_of(likelihood: &dyn Likelihood, n: usize) -> &dyn Likelihood {
    likelihood.at_point(n).unwrap_or(likelihood)
}

impl dyn Likelihood + '_ {
    /// E(y) and the parts of Var y under a Gaussian over the outputs.
    pub fn moments_under(&self, latent: &LatentPoint) -> PointMoments {
        self.closed_moments(latent).unwrap_or_else(|| latent.quadrature_moments(self))
    }

    /// log ∫ p(y | f) N(f | m, C) df.
    pub fn log_density_under(&self, latent: &LatentPoint, target: &[f64]) -> CrateResult<f64> {
        match self.closed_log_density(latent, target)? {
            Some(value) => Ok(value),
            None => Ok(latent.quadrature_log_density(self, target)),
        }
    }

    /// The distribution of target k under a Gaussian over the outputs.
    pub fn marginal_under(&self, latent: &LatentPoint, target: usize) -> Marginal<'_> {
        match self.closed_mixture(latent, target) {
            Some(mixture) => Marginal::Normals(mixture),
            None => Marginal::given(self, target, latent.equally_likely(target, self.n_nodes())),
        }
    }
}

/// Gaussian noise of unit variance: the likelihood whose output metric is Euclidean.
pub fn unit_noise() -> Arc<dyn Likelihood> {
    Arc::new(Gaussian::unit())
}

/// Checks that there are at least as many outputs as the likelihood needs.
fn at_least_outputs(likelihood: &'static str, least: usize, found: usize) -> Result<(), TargetError> {
    if found >= least {
        return Ok(());
    }
    Err(TargetError::TooFewOutputs { likelihood, least, found })
}

/// Checks a target's number of values.
fn check_width(likelihood: &dyn Likelihood, target: &[f64], outputs: usize) -> Result<(), TargetError> {
    let (expected, found) = (likelihood.n_targets(outputs), target.len());
    if found == expected {
        return Ok(());
    }
    Err(TargetError::Width { likelihood: likelihood.name(), outputs, expected, found })
}

/// Checks a target's number of values, then each of them.
fn check_values(
    likelihood: &dyn Likelihood,
    target: &[f64],
    n_outputs: usize,
    allowed: &'static str,
    is_allowed: impl Fn(f64) -> bool,
) -> Result<(), TargetError> {
    check_width(likelihood, target, n_outputs)?;
    match target.iter().position(|&value| !is_allowed(value)) {
        Some(position) => {
            Err(TargetError::Value { likelihood: likelihood.name(), position, value: target[position], allowed })
        }
        None => Ok(()),
    }
}

/// Checks that parameters are within their bounds.
fn check_parameters(parameters: &[Dispersion]) -> Result<(), NoiseError> {
    match parameters.iter().find(|p| !(p.bounds.0 <= p.value && p.value <= p.bounds.1)) {
        Some(Dispersion { name, value, bounds: (low, high), .. }) => {
            Err(NoiseError::Parameter { name: name.clone(), value: *value, low: *low, high: *high })
        }
        None => Ok(()),
    }
}

/// Writes the n × n matrix with the given diagonal.
fn write_diagonal(matrix: &mut [f64], n: usize, diagonal: impl Iterator<Item = f64>) {
    matrix.fill(0.0);
    for (entry, value) in matrix.iter_mut().step_by(n + 1).zip(diagonal) {
        *entry = value;
    }
}

/// The derivatives of coordinates that take one output each, from the first and second derivative of every one.
fn write_separable_isometry(slopes: &mut [f64], bends: &mut [f64], derivatives: impl Iterator<Item = (f64, f64)>) {
    slopes.fill(0.0);
    bends.fill(0.0);
    let count = slopes.len().isqrt();
    for (k, (first, second)) in derivatives.take(count).enumerate() {
        slopes[k * count + k] = first;
        bends[(k * count + k) * count + k] = second;
    }
}

/// Writes the values one after another.
#[inline(always)]
fn write(into: &mut [f64], values: impl Iterator<Item = f64>) {
    vectorized(
        #[inline(always)]
        || {
            for (entry, value) in into.iter_mut().zip(values) {
                *entry = value;
            }
        },
    );
}

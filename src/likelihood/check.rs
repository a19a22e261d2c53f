//! A likelihood against its own definition: every derivative against differences of what it is the derivative of, moments
//! and Fisher information against draws. The first disagreement is named.

use super::Likelihood;
use crate::random::{Purpose, stream};

/// A verb of a likelihood that disagrees with its definition.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{likelihood}: `{verb}` gives {found} where {definition} is {expected} (target {target:?}, outputs {outputs:?})"
)]
pub struct Disagreement {
    /// The likelihood's name.
    pub likelihood: &'static str,
    /// The method that is wrong.
    pub verb: &'static str,
    /// What it should be equal to.
    pub definition: &'static str,
    /// Its value.
    pub found: f64,
    /// The value that follows from the definition.
    pub expected: f64,
    /// The target at which they were compared.
    pub target: Vec<f64>,
    /// The outputs.
    pub outputs: Vec<f64>,
}

/// Differences err by the square of the step times a third derivative, and by rounding over the step.
const STEP: f64 = 1e-5;
const TOLERANCE: f64 = 1e-5;
/// Draws behind moments and the Fisher information, and the standard errors that they may be off.
const DRAWS: usize = 20_000;
const ERRORS: f64 = 6.0;

/// Compares every verb of a likelihood with its definition at a target and outputs of moderate size.
///
/// | verb | definition |
/// |---|---|
/// | `gradient` | differences of `log_density` |
/// | `observed_information`, `observed_quadratic` | differences of `gradient` |
/// | `whitening`, `fisher_quadratic` | R Rᵀ = H, ḟᵀHḟ |
/// | `whitened_force` | R z = H f̈ + C(ḟ, ḟ), with the Christoffel term from differences of `fisher` |
/// | `isometric`, `isometry` | ∂y/∂f = Rᵀ, where there are such coordinates on a plane |
/// | `fisher`, `mean`, `variance` | averages over `draw`, to six standard errors |
///
/// ```
/// use riemannian_laplace::internals::likelihood::{Poisson, StudentT, check_likelihood};
///
/// check_likelihood(&Poisson, &[3.0], &[0.7])?;
/// check_likelihood(&StudentT::new(5.0, 0.3)?, &[1.0], &[0.7])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_likelihood(likelihood: &dyn Likelihood, target: &[f64], outputs: &[f64]) -> Result<(), Box<Disagreement>> {
    let check = Check { likelihood, target, outputs };
    check.scores()?;
    check.whitening()?;
    check.information()?;
    check.force()?;
    check.isometric()?;
    check.draws()
}

struct Check<'a> {
    likelihood: &'a dyn Likelihood,
    target: &'a [f64],
    outputs: &'a [f64],
}

/// The vector that a verb writes.
fn written(length: usize, write: impl FnOnce(&mut [f64])) -> Vec<f64> {
    let mut values = vec![f64::NAN; length];
    write(&mut values);
    values
}

impl Check<'_> {
    fn size(&self) -> usize {
        self.outputs.len()
    }

    /// (g(f + h e_k) − g(f − h e_k))/2h.
    fn difference(&self, k: usize, g: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
        let moved = |by: f64| {
            let mut outputs = self.outputs.to_vec();
            outputs[k] += by;
            g(&outputs)
        };
        moved(STEP).iter().zip(moved(-STEP)).map(|(up, down)| (up - down) / (2.0 * STEP)).collect()
    }

    fn same(
        &self,
        verb: &'static str,
        definition: &'static str,
        (found, expected): (f64, f64),
        tolerance: f64,
    ) -> Result<(), Box<Disagreement>> {
        if (found - expected).abs() <= tolerance {
            return Ok(());
        }
        let (target, outputs) = (self.target.to_vec(), self.outputs.to_vec());
        Err(Box::new(Disagreement {
            likelihood: self.likelihood.name(),
            verb,
            definition,
            found,
            expected,
            target,
            outputs,
        }))
    }

    fn all(
        &self,
        verb: &'static str,
        definition: &'static str,
        found: &[f64],
        expected: &[f64],
    ) -> Result<(), Box<Disagreement>> {
        let scale = expected.iter().fold(1.0, |scale: f64, value| scale.max(value.abs()));
        let mut pairs = found.iter().zip(expected);
        pairs.try_for_each(|(a, b)| self.same(verb, definition, (*a, *b), TOLERANCE * scale))
    }

    fn gradient(&self, outputs: &[f64]) -> Vec<f64> {
        written(self.size(), |into| self.likelihood.gradient(self.target, outputs, into))
    }

    fn fisher(&self, outputs: &[f64]) -> Vec<f64> {
        written(self.size() * self.size(), |into| self.likelihood.fisher(outputs, into))
    }

    fn velocity(&self) -> Vec<f64> {
        (0..self.size()).map(|k| 0.7 - 0.3 * k as f64).collect()
    }

    fn scores(&self) -> Result<(), Box<Disagreement>> {
        let log_density = |f: &[f64]| vec![self.likelihood.log_density(self.target, f)];
        let expected: Vec<f64> = (0..self.size()).map(|k| self.difference(k, log_density)[0]).collect();
        self.all("gradient", "the derivative of `log_density`", &self.gradient(self.outputs), &expected)
    }

    fn information(&self) -> Result<(), Box<Disagreement>> {
        let n = self.size();
        let found = written(n * n, |into| self.likelihood.observed_information(self.target, self.outputs, into));
        let rows = (0..n).flat_map(|k| self.difference(k, |f| self.gradient(f)));
        let expected: Vec<f64> = rows.map(|value| -value).collect();
        self.all("observed_information", "minus the derivative of `gradient`", &found, &expected)?;
        let first = self.velocity();
        let quadratic = self.likelihood.observed_quadratic(self.target, self.outputs, &first);
        self.all("observed_quadratic", "the form of the observed information", &[quadratic], &[form(&expected, &first)])
    }

    fn whitening(&self) -> Result<(), Box<Disagreement>> {
        let (n, fisher) = (self.size(), self.fisher(self.outputs));
        let root = written(n * n, |into| self.likelihood.whitening(self.outputs, into));
        let product = |i: usize, j: usize| (0..n).map(|k| root[i * n + k] * root[j * n + k]).sum::<f64>();
        let squares: Vec<f64> = (0..n * n).map(|at| product(at / n, at % n)).collect();
        self.all("whitening", "the root of `fisher`", &squares, &fisher)?;
        let first = self.velocity();
        let quadratic = self.likelihood.fisher_quadratic(self.outputs, &first);
        self.all("fisher_quadratic", "the form of `fisher`", &[quadratic], &[form(&fisher, &first)])
    }

    fn force(&self) -> Result<(), Box<Disagreement>> {
        let (n, first) = (self.size(), self.velocity());
        let second: Vec<f64> = (0..n).map(|k| 0.2 * k as f64 - 0.5).collect();
        let slopes: Vec<Vec<f64>> = (0..n).map(|k| self.difference(k, |f| self.fisher(f))).collect();
        let fisher = self.fisher(self.outputs);
        // C_k = Σ_ij (∂_i H_jk − ½ ∂_k H_ij) ḟ_i ḟ_j.
        let christoffel = |k: usize| {
            let along: f64 =
                (0..n).map(|i| (0..n).map(|j| slopes[i][j * n + k] * first[i] * first[j]).sum::<f64>()).sum();
            along - 0.5 * form(&slopes[k], &first)
        };
        let expected: Vec<f64> =
            (0..n).map(|k| christoffel(k) + (0..n).map(|j| fisher[k * n + j] * second[j]).sum::<f64>()).collect();
        let root = written(n * n, |into| self.likelihood.whitening(self.outputs, into));
        let force = written(n, |into| self.likelihood.whitened_force(self.outputs, &first, &second, into));
        let found: Vec<f64> = (0..n).map(|k| (0..n).map(|j| root[k * n + j] * force[j]).sum()).collect();
        self.all("whitened_force", "H f̈ + C(ḟ, ḟ) before whitening", &found, &expected)
    }

    fn isometric(&self) -> Result<(), Box<Disagreement>> {
        let n = self.size();
        let root = written(n * n, |into| self.likelihood.whitening(self.outputs, into));
        let mut isometric = vec![0.0; n];
        if self.likelihood.isometric(self.outputs, &mut isometric) {
            for k in 0..n {
                let slopes = self.difference(k, |f| written(n, |into| _ = self.likelihood.isometric(f, into)));
                self.all("isometric", "coordinates whose slopes are `whitening`", &slopes, &root[k * n..(k + 1) * n])?;
            }
        }
        let (mut slopes, mut bends) = (vec![0.0; n * n], vec![0.0; n * n * n]);
        if !self.likelihood.isometry(self.outputs, &mut slopes, &mut bends) {
            return Ok(());
        }
        let metric = |i: usize, j: usize| (0..n).map(|k| slopes[k * n + i] * slopes[k * n + j]).sum::<f64>();
        let product: Vec<f64> = (0..n * n).map(|at| metric(at / n, at % n)).collect();
        self.all("isometry", "coordinates whose metric is `fisher`", &product, &self.fisher(self.outputs))
    }

    fn draws(&self) -> Result<(), Box<Disagreement>> {
        let (n, width) = (self.size(), self.likelihood.n_means(self.size()));
        let mean = written(width, |into| self.likelihood.mean(self.outputs, into));
        let variance = written(width, |into| self.likelihood.variance(self.outputs, into));
        let mut generator = stream(1, Purpose::PredictiveDraw, 0);
        let mut target = vec![0.0; self.target.len()];
        let (mut squares, mut fourth) = (vec![0.0; n * n], vec![0.0; n * n]);
        let mut sums = vec![[0.0; 3]; width];
        for _ in 0..DRAWS {
            self.likelihood.draw(self.outputs, &mut generator, &mut target);
            let score = written(n, |into| self.likelihood.gradient(&target, self.outputs, into));
            for at in 0..n * n {
                let product = score[at / n] * score[at % n];
                (squares[at], fourth[at]) = (squares[at] + product, fourth[at] + product * product);
            }
            for (k, sum) in sums.iter_mut().enumerate() {
                // A label is compared through the indicators of the classes.
                let labels = target.len() == 1 && width > 1;
                let y = if labels { f64::from(u8::from(target[0] == k as f64)) } else { target[k] };
                let square = (y - mean[k]).powi(2);
                *sum = [sum[0] + y, sum[1] + square, sum[2] + square * square];
            }
        }
        let count = DRAWS as f64;
        for ((sum, fourth), found) in squares.iter().zip(&fourth).zip(self.fisher(self.outputs)) {
            let error = ((fourth / count - (sum / count).powi(2)).max(0.0) / count).sqrt();
            self.same("fisher", "E(score scoreᵀ) over `draw`", (found, sum / count), ERRORS * error + TOLERANCE)?;
        }
        for ([sum, square, fourth], (mean, variance)) in sums.iter().zip(mean.iter().zip(&variance)) {
            let error = (square / count / count).sqrt();
            self.same("mean", "the mean of `draw`", (*mean, sum / count), ERRORS * error + TOLERANCE)?;
            let error = ((fourth / count - (square / count).powi(2)).max(0.0) / count).sqrt();
            self.same("variance", "the variance of `draw`", (*variance, square / count), ERRORS * error + TOLERANCE)?;
        }
        Ok(())
    }
}

/// vᵀMv.
fn form(matrix: &[f64], v: &[f64]) -> f64 {
    let n = v.len();
    (0..n * n).map(|at| matrix[at] * v[at / n] * v[at % n]).sum()
}

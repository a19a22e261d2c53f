//! The seam for posterior structures: what the data's curvature must be able to do, what a factored precision must be
//! able to do, and the list of all structures. A new one is one file next to this one, its `mod` line, and one line in
//! the list.

use std::sync::Arc;

use faer::{Mat, MatMut, MatRef};
use rand_chacha::ChaCha8Rng;

use super::form::{self, CovarianceForm};
use super::matrix_free::Estimates;
use super::problem::{BatchRows, Problem};
use crate::error::{Error, PosteriorError, Result, UnknownStructure, Unsupported};
use crate::linalg::Cholesky;
use crate::map::Rows;
use crate::prior::{PriorPrecision, PriorStructure};

/// The curvature Σₙ JₙᵀHₙJₙ at θ̂ and unit scale (σ = T = 1) in some form, accumulated over the data without any hyperparameters: the
/// part that tuning reuses.
pub trait Curvature: Send + Sync + std::fmt::Debug {
    /// Adds a batch of data points.
    fn accumulate(&mut self, batch: &BatchRows<'_>) -> Result<()>;
    /// Adds what another of the same kind has accumulated from the data that come next.
    fn merge(&mut self, later: Box<dyn Curvature>) -> Result<()>;
    /// Ends a pass over all data, after the last merge. Where another pass is needed, gives the empty accumulator from
    /// which it starts, in place of this one; most structures need one pass.
    fn end_pass(&mut self) -> Result<Option<Box<dyn Curvature>>> {
        Ok(None)
    }
    /// The number of separate noise levels σ: one, or one per output.
    fn n_levels(&self) -> usize;
    /// The number of f64 values per data point that a batch takes in addition to the model's own.
    fn numbers_per_point(&self) -> f64;
    /// The precision G = A + curvature/s² under a prior, with one scale s = σ√T or one per output.
    fn factor(&self, prior: &PriorPrecision, scales: &[f64]) -> Result<Arc<dyn Precision>>;
    /// log det G − log det A as a function of the hyperparameters.
    fn log_det(&self, form: LogDetForm) -> Result<Box<dyn LogDet>>;
    /// log det G − log det A beside a constant prior that is an earlier posterior, as a function of the noise alone: its
    /// `log_alpha` is empty.
    fn log_det_beside(&self, _prior: &PriorPrecision) -> Result<Box<dyn LogDet>> {
        Err(Error::Unsupported(Unsupported::EarlierPosterior))
    }
    /// A copy, to which further data are added.
    fn duplicate(&self) -> Box<dyn Curvature>;
    /// The sums as tensors for a file, or `None` where they follow from the training data alone.
    fn save(&self) -> Option<Vec<SavedTensor>>;
    /// For merging with another of the same kind.
    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any>;
}

/// A factored posterior precision G of N(θ̂, G⁻¹). Shared among threads.
pub trait Precision: Send + Sync + std::fmt::Debug {
    /// D, the number of parameters.
    fn n_params(&self) -> usize;
    /// log det G − log det A: the posterior precision relative to the prior's.
    fn log_det_ratio(&self) -> f64;
    /// D − tr(A G⁻¹): the number of directions that the data determine.
    fn effective_parameters(&self) -> f64;
    /// What is estimated by chance, and how well; none where nothing is.
    fn estimates(&self) -> Option<Estimates> {
        None
    }
    /// Which structure this is.
    fn structure(&self) -> Structure;
    /// G, both triangles.
    fn to_matrix(&self) -> Mat<f64> {
        let size = self.n_params();
        let (mut matrix, mut unit, mut column) = (Mat::zeros(size, size), vec![0.0; size], vec![0.0; size]);
        for j in 0..size {
            unit[j] = 1.0;
            self.times(&unit, &mut column);
            unit[j] = 0.0;
            column.iter().enumerate().for_each(|(i, value)| matrix[(i, j)] = *value);
        }
        matrix
    }
    /// The factor L of G = LLᵀ, where there is one.
    fn factor(&self) -> Option<&Cholesky> {
        None
    }
    /// product ← G u.
    fn times(&self, direction: &[f64], product: &mut [f64]);
    /// solution ← G⁻¹ b.
    fn solve(&self, rhs: &[f64], solution: &mut [f64]);
    /// The same with a relative error of at most `tolerance` in the norm of G, where solves are iterations.
    fn solve_within(&self, _tolerance: f64, rhs: &[f64], solution: &mut [f64]) {
        self.solve(rhs, solution);
    }
    /// A draw from N(0, G⁻¹).
    fn sample(&self, generator: &mut ChaCha8Rng, draw: &mut [f64]);
    /// C G⁻¹ Cᵀ for the rows of C (a few of them, each of length D).
    fn covariance(&self, rows: MatRef<'_, f64>, covariance: MatMut<'_, f64>);
    /// The covariance J G⁻¹ Jᵀ of the outputs at each of `points` points separately, for the Jacobian's rows J numbered
    /// `p·points + n`: one P × P block after another.
    fn point_covariances(&self, rows: &dyn Rows, points: usize, covariances: &mut [f64]) {
        let p = rows.n_rows() / points.max(1);
        let mut dense = Mat::zeros(rows.n_rows(), rows.n_params());
        rows.dense(dense.as_mut());
        let mut block = Mat::zeros(p, p);
        for (n, target) in covariances.chunks_exact_mut((p * p).max(1)).enumerate() {
            let point = Mat::from_fn(p, rows.n_params(), |output, d| dense[(output * points + n, d)]);
            self.covariance(point.as_ref(), block.as_mut());
            write_block(&block, target);
        }
    }
    /// The most test points that [`point_covariances`](Self::point_covariances) should take at once, for a model with P
    /// outputs whose evaluator holds this many numbers per point.
    fn points_at_once(&self, n_outputs: usize, numbers_per_point: f64) -> usize;
    /// G⁻¹ written down as numbers, for those who take it elsewhere: by default a D × D factor.
    fn form(&self) -> Result<CovarianceForm> {
        form::of_matrix(self)
    }
    /// Its size, in words.
    fn size_in_words(&self) -> String;
    /// Computes now what is otherwise computed when it is first asked for. Where ranks compute together, all of them call
    /// this before one goes on alone.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
    /// The same for the training data of a problem, where so far ranks have them between them; none where nothing changes.
    fn on_own_data(&self, _: &Problem) -> Result<Option<Arc<dyn Precision>>> {
        Ok(None)
    }
    /// The factor as tensors for a file.
    fn save(&self) -> Vec<SavedTensor>;
}

/// Writes a matrix row by row.
pub(super) fn write_block(block: &Mat<f64>, target: &mut [f64]) {
    let columns = block.ncols();
    for (index, value) in target.iter_mut().enumerate() {
        *value = block[(index / columns, index % columns)];
    }
}

/// A named tensor to be written.
#[derive(Debug, Clone)]
pub struct SavedTensor {
    /// Its name within the structure's part of the file.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its values, last axis fastest.
    pub values: Vec<f64>,
}

/// How many hyperparameters the log determinant depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogDetForm {
    /// One α for all parameters and one σ for all outputs.
    Shared,
    /// As many α as the prior has; one σ, or one per output.
    General {
        /// One α for all parameters, one per group, or one per parameter.
        prior: PriorStructure,
    },
}

/// log det G − log det A as a function of (log α, log s), with the scale s = σ√T of the curvature.
pub trait LogDet: Send + Sync {
    /// The value and its gradient; `None` where a factorisation fails (far out in the hyperparameters). There are as
    /// many values log s as noise levels; where there is none, s = 1.
    fn evaluate(&self, log_alpha: &[f64], log_sigma: &[f64]) -> Option<LogDetRatio>;
    /// Where the log determinant is an estimate: makes it a better one around these hyperparameters. False where it is
    /// good enough, or exact.
    fn refine(&self, _log_alpha: &[f64], _log_sigma: &[f64]) -> bool {
        false
    }
}

/// log det G − log det A and its gradient with respect to each log α and each log s.
#[derive(Debug, Clone)]
pub struct LogDetRatio {
    /// The value.
    pub value: f64,
    /// Its derivative with respect to each log α.
    pub by_log_alpha: Vec<f64>,
    /// Its derivative with respect to each log s, and so to each log σ.
    pub by_log_sigma: Vec<f64>,
}

/// The log determinant for one α and one σ from the eigenvalues λ of the curvature: Σ log(1 + λ/(ασ²)).
#[derive(Debug, Clone)]
pub struct Spectrum(Vec<f64>);

impl Spectrum {
    /// The curvature is positive semidefinite: eigenvalues that rounding made negative are set to zero.
    pub fn new(eigenvalues: Vec<f64>) -> Self {
        Self(eigenvalues.into_iter().map(|value| value.max(0.0)).collect())
    }

    /// The curvature may be indefinite, and its eigenvalues count as they are.
    pub fn signed(eigenvalues: Vec<f64>) -> Self {
        Self(eigenvalues)
    }
}

impl LogDet for Spectrum {
    fn evaluate(&self, log_alpha: &[f64], log_sigma: &[f64]) -> Option<LogDetRatio> {
        let scale = (log_alpha.first()? + 2.0 * log_sigma.first().copied().unwrap_or(0.0)).exp();
        let (mut value, mut effective) = (0.0, 0.0);
        for eigenvalue in &self.0 {
            if eigenvalue + scale <= 0.0 {
                return None;
            }
            value += (eigenvalue / scale).ln_1p();
            effective += eigenvalue / (eigenvalue + scale);
        }
        let by_log_sigma = vec![-2.0 * effective; log_sigma.len()];
        Some(LogDetRatio { value, by_log_alpha: vec![-effective], by_log_sigma })
    }
}

/// Tensors of a file, to be taken by name.
pub trait SavedTensors {
    /// Takes the tensor of that name, which must have this shape.
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f64>>;
    /// Whether there is a tensor of that name.
    fn has(&self, name: &str) -> bool;
}

/// One line per structure: its name, the word for the solver in reports, the word for the structure, its module. Then those
/// with a number, which follows their word after a colon: the number that is usual, the word, whether the word alone means
/// that number, and the module.
macro_rules! structures {
    (
        plain { $($(#[$documentation:meta])* $name:ident = $solver:literal, $word:literal, $module:ident;)* }
        numbered {
            $($(#[$of_numbered:meta])* $numbered:ident($usual:expr) = $named:literal, $alone:literal, $place:ident;)*
        }
    ) => {
        /// The form of the posterior precision.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[non_exhaustive]
        pub enum Structure {
            /// Exact, in the space with the smaller matrix: weight space when D ≤ N·P.
            #[default]
            Auto,
            $($(#[$documentation])* $name,)*
            $($(#[$of_numbered])* $numbered(usize),)*
        }

        impl Structure {
            /// Every structure but [`Structure::Auto`], each of those with a number once.
            pub const ALL: &'static [Structure] = &[$(Structure::$name,)* $(Structure::$numbered($usual),)*];

            /// The structure with another number, if it has one.
            fn numbered(self, number: usize) -> Option<Structure> {
                match self {
                    $(Structure::$numbered(_) => Some(Structure::$numbered(number)),)*
                    _ => None,
                }
            }

            /// Its number, unless its word alone means this one.
            fn spoken_number(self) -> Option<usize> {
                match self {
                    $(Structure::$numbered(number) => Some(number).filter(|number| !$alone || *number != $usual),)*
                    _ => None,
                }
            }

            /// Whether the name does without a number.
            fn is_word_enough(self) -> bool {
                match self {
                    $(Structure::$numbered(_) => $alone,)*
                    _ => true,
                }
            }

            /// The number of f64 values that fitting and tuning hold at their peak.
            pub fn numbers(self, problem: &Problem) -> f64 {
                match self {
                    Structure::Auto => problem.exact().numbers(problem),
                    $(Structure::$name => super::$module::numbers(problem),)*
                    $(Structure::$numbered(number) => super::$place::numbers(problem, number),)*
                }
            }

            /// The number of f64 values that a posterior read from a file holds while it predicts.
            pub(super) fn loaded_numbers(self, problem: &Problem) -> f64 {
                match self {
                    Structure::Auto => problem.exact().loaded_numbers(problem),
                    $(Structure::$name => super::$module::loaded_numbers(problem),)*
                    $(Structure::$numbered(number) => super::$place::loaded_numbers(problem, number),)*
                }
            }

            /// An empty curvature.
            pub(super) fn begin(self, problem: &Problem) -> Result<Box<dyn Curvature>> {
                match self {
                    Structure::Auto => problem.exact().begin(problem),
                    $(Structure::$name => super::$module::begin(problem),)*
                    $(Structure::$numbered(number) => super::$place::begin(problem, number),)*
                }
            }

            pub(super) fn load_sums(self, problem: &Problem, file: &mut dyn SavedTensors) -> Result<Box<dyn Curvature>> {
                match self {
                    Structure::Auto => problem.exact().load_sums(problem, file),
                    $(Structure::$name => super::$module::load_sums(problem, file),)*
                    $(Structure::$numbered(number) => super::$place::load_sums(problem, number, file),)*
                }
            }

            pub(super) fn load(
                self,
                problem: &Problem,
                prior: &PriorPrecision,
                file: &mut dyn SavedTensors,
            ) -> Result<Arc<dyn Precision>> {
                match self {
                    Structure::Auto => problem.exact().load(problem, prior, file),
                    $(Structure::$name => super::$module::load(problem, prior, file),)*
                    $(Structure::$numbered(number) => super::$place::load(problem, number, prior, file),)*
                }
            }

            /// The name of the solver in files and reports, such as `weight-space`.
            pub fn solver(self) -> &'static str {
                match self {
                    Structure::Auto => "auto",
                    $(Structure::$name => $solver,)*
                    $(Structure::$numbered(_) => $named,)*
                }
            }

            /// The name of the kind of structure: `full` for both exact ones.
            pub fn word(self) -> &'static str {
                match self {
                    Structure::Auto => "auto",
                    $(Structure::$name => $word,)*
                    $(Structure::$numbered(_) => $named,)*
                }
            }
        }
    };
}

structures! {
    plain {
        /// Exact: a D × D matrix.
        WeightSpace = "weight-space", "full", weight_space;
        /// Exact: an N·P × N·P matrix; needs a proper prior.
        FunctionSpace = "function-space", "full", function_space;
        /// One Kronecker product per weight matrix (KFAC), and nothing between layers: of the size of the layers' widths
        /// squared.
        Kronecker = "kronecker", "kron", kronecker;
        /// The diagonal alone: D variances, correlations ignored.
        Diagonal = "diagonal", "diag", diagonal;
    }
    numbered {
        /// Exact, and known through its products alone: no matrix, for models and data that are both large. The log
        /// determinant and the variances of predictions are estimates with a standard error. The variances are from so
        /// many draws S, and have a relative standard error of √(2/S). [`Structure::MATRIX_FREE`] has 64.
        MatrixFree(64) = "matrix-free", true, matrix_free;
        /// The prior and so many of the largest eigenvalues of the curvature with their eigenvectors.
        LowRank(20) = "low-rank", false, low_rank;
    }
}

impl Structure {
    /// The structure without a matrix, with 64 draws: `matrix-free`.
    pub const MATRIX_FREE: Structure = Structure::MatrixFree(64);

    /// The structure whose solver has that name, such as `weight-space` or `low-rank:20`.
    pub fn of_solver(name: &str) -> Option<Structure> {
        let (word, number) = match name.split_once(':') {
            Some((word, number)) => (word, Some(number.parse().ok().filter(|number| *number > 0)?)),
            None => (name, None),
        };
        let named = Self::ALL.iter().copied().find(|structure| structure.solver() == word)?;
        number.map_or_else(|| Some(named).filter(|named| named.is_word_enough()), |number| named.numbered(number))
    }

    /// The name of the structure on the command line and in reports with its number, where it has one: `full` for both
    /// exact ones, `low-rank:20`.
    pub fn in_words(self) -> String {
        self.with_number(self.word())
    }

    fn with_number(self, name: &str) -> String {
        self.spoken_number().map_or_else(|| name.to_string(), |number| format!("{name}:{number}"))
    }

    /// Whether the curvature is a sum over data points of a size that does not grow with them, so that ranks and shards
    /// can each make a part of it.
    pub fn is_sum(self) -> bool {
        !matches!(self, Structure::Auto | Structure::FunctionSpace | Structure::LowRank(_) | Structure::MatrixFree(_))
    }
}

impl std::str::FromStr for Structure {
    type Err = Error;

    /// The structure of a word or of a solver's name; `full` leaves the choice of the exact solver open.
    fn from_str(name: &str) -> Result<Self> {
        if matches!(name, "auto" | "full") {
            return Ok(Structure::Auto);
        }
        let named = Self::ALL.iter().copied().find(|structure| structure.word() == name && structure.is_word_enough());
        named.or_else(|| Self::of_solver(name)).ok_or_else(|| {
            let mut words = vec!["auto".to_string()];
            for structure in Self::ALL {
                let word = match structure.numbered(1) {
                    Some(_) if structure.is_word_enough() => format!("{0}, {0}:S", structure.word()),
                    Some(_) => format!("{}:K", structure.word()),
                    None => structure.word().to_string(),
                };
                words.extend(Some(word).filter(|word| !words.contains(word)));
            }
            Error::UnknownStructure(UnknownStructure { name: name.to_string(), known: words.join(", ") })
        })
    }
}

impl std::fmt::Display for Structure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.with_number(self.solver()))
    }
}

/// The position of the first number that a stored factor cannot have on its diagonal.
pub(super) fn damaged(diagonal: impl IntoIterator<Item = f64>) -> Result<()> {
    match diagonal.into_iter().position(|value| !(value > 0.0 && value.is_finite())) {
        Some(entry) => Err(Error::Posterior(PosteriorError::StoredFactor { entry })),
        None => Ok(()),
    }
}

/// The curvature as the kind that it is merged into.
pub(super) fn same_kind<T: 'static>(later: Box<dyn Curvature>) -> Result<Box<T>> {
    later.into_any().downcast::<T>().map_err(|_| Error::Posterior(PosteriorError::OtherStructure))
}

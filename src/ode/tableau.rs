//! Embedded explicit Runge–Kutta pairs as data, and the list of integrators.
//!
//! A pair with `s` stages takes a step of size `h` from `(t, y)` by
//!
//! ```text
//! k₀ = f(t, y)
//! kᵢ = f(t + cᵢ h, y + h Σ_{j<i} aᵢⱼ kⱼ),   i = 1 … s − 1
//! y′ = y + h Σᵢ bᵢ kᵢ
//! kₛ = f(t + h, y′)
//! ```
//!
//! kₛ is the k₀ of the next step (first same as last) and may enter the error estimate and the dense output, so every
//! pair costs `s` evaluations per trial. Rows are stored sparsely, as `(stage, weight)` entries, so that zero
//! coefficients cost nothing. A new pair needs a [`Tableau`] and a line in [`Integrator`]; nothing else in this module
//! knows the integrators by name.
//!
//! Sources: J. R. Dormand and P. J. Prince, "A family of embedded Runge–Kutta formulae", J. Comput. Appl. Math. 6
//! (1980) 19–26; L. F. Shampine, "Some practical Runge–Kutta formulas", Math. Comp. 46 (1986) 135–150 (dense output of
//! the former); P. Bogacki and L. F. Shampine, "A 3(2) pair of Runge–Kutta formulas", Appl. Math. Lett. 2 (1989)
//! 321–325; E. Hairer, S. P. Nørsett and G. Wanner, *Solving Ordinary Differential Equations I*, Springer 1993.

use std::fmt;
use std::str::FromStr;

use super::dop853::DOP853;

/// A sparse row of coefficients: `(stage, weight)` means `weight k_stage`.
pub type Weights = &'static [(usize, f64)];

/// One stage kᵢ = f(t + cᵢ h, y + h Σⱼ aᵢⱼ kⱼ).
#[derive(Debug)]
pub struct Stage {
    /// The node cᵢ.
    pub node: f64,
    /// The row aᵢⱼ, nonzero entries only.
    pub weights: Weights,
}

/// How the local error is estimated from the stages k₀ … kₛ.
///
/// The first row lists every stage, with weight zero where it does not enter: 0 · NaN is `NaN`, so a stage that could
/// not be evaluated always shows.
#[derive(Debug)]
pub enum ErrorRule {
    /// e = h Σᵢ eᵢ kᵢ, measured by its scaled root mean square.
    Single(Weights),
    /// |h| |e₅|² / √(n (|e₅|² + 0.01 |e₃|²)) with e₅ and e₃ two scaled estimates of orders 5 and 3 (Hairer, Nørsett
    /// & Wanner 1993, II.10).
    Combined {
        /// The row of the fifth-order estimate.
        fifth: Weights,
        /// The row of the third-order estimate, nonzero entries only.
        third: Weights,
    },
}

/// How the solution between the ends of a step follows from the stages, with x = (t − t_old) / h in `[0, 1]`.
#[derive(Debug)]
pub enum DenseRule {
    /// y_old + h Σᵣ xʳ qᵣ, r = 1, 2, …, where row `r` gives qᵣ = Σᵢ pᵣᵢ kᵢ.
    Powers(&'static [Weights]),
    /// y_old + x (F₀ + (1 − x) (F₁ + x (F₂ + (1 − x) (F₃ + …)))), where F₀ = y′ − y, F₁ = h k₀ − F₀,
    /// F₂ = 2 F₀ − h (k₀ + kₛ) and the remaining `F` are `h` times the rows `rest`.
    Nested {
        /// Stages evaluated in addition, numbered from `s + 1` on.
        extra: &'static [Stage],
        /// Rows of F₃, F₄, … over all stages.
        rest: &'static [Weights],
    },
}

/// The coefficients of one embedded explicit Runge–Kutta pair.
#[derive(Debug)]
pub struct Tableau {
    /// The name of the integrator, as parsed and displayed.
    pub name: &'static str,
    /// Order of the solution that is propagated.
    pub order: usize,
    /// Order `q` of the error estimate, which is `O(h^(q + 1))`.
    pub error_order: usize,
    /// Order of the dense output.
    pub dense_order: usize,
    /// The stages 1 … s − 1; stage 0 is `f(t, y)`.
    pub stages: &'static [Stage],
    /// The row bᵢ, nonzero entries only.
    pub solution: Weights,
    /// The estimate of the local error.
    pub error: ErrorRule,
    /// The dense output.
    pub dense: DenseRule,
}

impl Tableau {
    /// Index `s` of the derivative at the end of the step, which is also the number of evaluations that one trial step
    /// costs.
    pub const fn last(&self) -> usize {
        self.stages.len() + 1
    }
}

/// An integrator with adaptive steps: an embedded explicit Runge–Kutta pair, or Adams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Integrator {
    /// Dormand and Prince's pair of orders 5 and 4 (SciPy's `RK45`, Diffrax's `Dopri5`): six evaluations per step.
    #[default]
    Dopri5,
    /// The method of order 8 with error estimates of orders 5 and 3 (SciPy's `DOP853`): twelve evaluations per step,
    /// for tight tolerances.
    Dop853,
    /// Bogacki and Shampine's pair of orders 3 and 2 (SciPy's `RK23`): three evaluations per step, for loose
    /// tolerances.
    Bosh3,
    /// The Adams method of orders 1 to 8, chosen on the way: one evaluation per step (predict, evaluate, correct), for
    /// expensive evaluations.
    Adams,
}

impl Integrator {
    /// All integrators.
    pub const ALL: [Integrator; 4] = [Integrator::Dopri5, Integrator::Dop853, Integrator::Bosh3, Integrator::Adams];

    /// The coefficients of a Runge–Kutta pair; the Adams method has no fixed ones.
    pub const fn tableau(self) -> Option<&'static Tableau> {
        match self {
            Integrator::Dopri5 => Some(&DOPRI5),
            Integrator::Dop853 => Some(&DOP853),
            Integrator::Bosh3 => Some(&BOSH3),
            Integrator::Adams => None,
        }
    }

    /// The name, as parsed and displayed.
    pub const fn name(self) -> &'static str {
        match self.tableau() {
            Some(tableau) => tableau.name,
            None => "adams",
        }
    }
}

impl fmt::Display for Integrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An unknown [`Integrator`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownIntegrator(
    /// The name as given.
    pub String,
);

impl fmt::Display for UnknownIntegrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown integrator '{}'; use one of", self.0)?;
        for (i, integrator) in Integrator::ALL.iter().enumerate() {
            write!(f, "{} {integrator}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownIntegrator {}

impl FromStr for Integrator {
    type Err = UnknownIntegrator;

    /// Parses the name that `Display` writes, in any case.
    fn from_str(name: &str) -> Result<Self, UnknownIntegrator> {
        Integrator::ALL
            .into_iter()
            .find(|integrator| integrator.name().eq_ignore_ascii_case(name.trim()))
            .ok_or_else(|| UnknownIntegrator(name.to_owned()))
    }
}

/// Dormand and Prince's pair of orders 5 and 4, with Shampine's dense output of order 4.
pub static DOPRI5: Tableau = Tableau {
    name: "dopri5",
    order: 5,
    error_order: 4,
    dense_order: 4,
    stages: &[
        Stage { node: 1.0 / 5.0, weights: &[(0, 1.0 / 5.0)] },
        Stage { node: 3.0 / 10.0, weights: &[(0, 3.0 / 40.0), (1, 9.0 / 40.0)] },
        Stage { node: 4.0 / 5.0, weights: &[(0, 44.0 / 45.0), (1, -56.0 / 15.0), (2, 32.0 / 9.0)] },
        Stage {
            node: 8.0 / 9.0,
            weights: &[(0, 19372.0 / 6561.0), (1, -25360.0 / 2187.0), (2, 64448.0 / 6561.0), (3, -212.0 / 729.0)],
        },
        Stage {
            node: 1.0,
            weights: &[
                (0, 9017.0 / 3168.0),
                (1, -355.0 / 33.0),
                (2, 46732.0 / 5247.0),
                (3, 49.0 / 176.0),
                (4, -5103.0 / 18656.0),
            ],
        },
    ],
    solution: &[(0, 35.0 / 384.0), (2, 500.0 / 1113.0), (3, 125.0 / 192.0), (4, -2187.0 / 6784.0), (5, 11.0 / 84.0)],
    error: ErrorRule::Single(&[
        (0, -71.0 / 57600.0),
        (1, 0.0),
        (2, 71.0 / 16695.0),
        (3, -71.0 / 1920.0),
        (4, 17253.0 / 339200.0),
        (5, -22.0 / 525.0),
        (6, 1.0 / 40.0),
    ]),
    dense: DenseRule::Powers(&[
        &[(0, 1.0)],
        &[
            (0, -8048581381.0 / 2820520608.0),
            (2, 131558114200.0 / 32700410799.0),
            (3, -1754552775.0 / 470086768.0),
            (4, 127303824393.0 / 49829197408.0),
            (5, -282668133.0 / 205662961.0),
            (6, 40617522.0 / 29380423.0),
        ],
        &[
            (0, 8663915743.0 / 2820520608.0),
            (2, -68118460800.0 / 10900136933.0),
            (3, 14199869525.0 / 1410260304.0),
            (4, -318862633887.0 / 49829197408.0),
            (5, 2019193451.0 / 616988883.0),
            (6, -110615467.0 / 29380423.0),
        ],
        &[
            (0, -12715105075.0 / 11282082432.0),
            (2, 87487479700.0 / 32700410799.0),
            (3, -10690763975.0 / 1880347072.0),
            (4, 701980252875.0 / 199316789632.0),
            (5, -1453857185.0 / 822651844.0),
            (6, 69997945.0 / 29380423.0),
        ],
    ]),
};

/// Bogacki and Shampine's pair of orders 3 and 2, with the cubic Hermite polynomial as dense output.
pub static BOSH3: Tableau = Tableau {
    name: "bosh3",
    order: 3,
    error_order: 2,
    dense_order: 3,
    stages: &[
        Stage { node: 1.0 / 2.0, weights: &[(0, 1.0 / 2.0)] },
        Stage { node: 3.0 / 4.0, weights: &[(1, 3.0 / 4.0)] },
    ],
    solution: &[(0, 2.0 / 9.0), (1, 1.0 / 3.0), (2, 4.0 / 9.0)],
    error: ErrorRule::Single(&[(0, 5.0 / 72.0), (1, -1.0 / 12.0), (2, -1.0 / 9.0), (3, 1.0 / 8.0)]),
    dense: DenseRule::Powers(&[
        &[(0, 1.0)],
        &[(0, -4.0 / 3.0), (1, 1.0), (2, 4.0 / 3.0), (3, -1.0)],
        &[(0, 5.0 / 9.0), (1, -2.0 / 3.0), (2, -8.0 / 9.0), (3, 1.0)],
    ]),
};

//! Which matrix of second derivatives the posterior precision is made of.

/// The data's share of the posterior precision, up to the scale 1/T.
///
/// | | curvature | |
/// |---|---|---|
/// | [`Ggn`](Self::Ggn) | Σₙ JₙᵀHₙJₙ | never negative; the Fisher information |
/// | [`EmpiricalFisher`](Self::EmpiricalFisher) | Σₙ sₙsₙᵀ, sₙ = ∇log p(yₙ, fₙ(θ̂)) | never negative; one row per data point |
/// | [`Hessian`](Self::Hessian) | −Σₙ ∇²log p(yₙ, fₙ(θ̂)) | exact; positive definite only near a minimum of the loss |
///
/// With Gaussian noise they depend on σ as 1/σ², 1/σ⁴ and 1/σ².
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CurvatureKind {
    /// The generalised Gauss-Newton matrix, which is the Fisher information of all likelihoods here.
    #[default]
    Ggn,
    /// The sum of squared scores of the observed targets.
    EmpiricalFisher,
    /// The exact negative Hessian of the log likelihood.
    Hessian,
}

impl CurvatureKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [CurvatureKind::Ggn, CurvatureKind::EmpiricalFisher, CurvatureKind::Hessian];

    /// The name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            CurvatureKind::Ggn => "ggn",
            CurvatureKind::EmpiricalFisher => "empirical-fisher",
            CurvatureKind::Hessian => "hessian",
        }
    }

    /// The kind of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl std::fmt::Display for CurvatureKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

//! BFGS in a box: d = −B∇f on the free coordinates, a strong-Wolfe step α along d, and the update of B from what
//! changed.

use super::bounds::Bounds;
use super::inverse_hessian::{InverseHessian, dot};
use super::line_search::{Search, Trial};
use super::{BfgsOptions, Minimum, OptimizeError, Status};

/// An update with sᵀy below this times |s||y| would only add rounding errors to B.
const LEAST_CURVATURE: f64 = 1e-14;
/// Steps without a lower value or a halved gradient after which the model is given up, and the next time the search.
const PATIENCE: usize = 20;

/// Minimises `objective`, which returns f(x) and writes ∇f(x) into its second argument.
///
/// A value that is not a finite number, or a gradient with such an entry, is treated as +∞: the line search steps back.
/// The inverse Hessian starts as a multiple of the identity and is rescaled by sᵀy/yᵀy after the first step. When the
/// line search fails, the search restarts once from that point; when it fails again, the status is
/// [`LineSearchFailed`](Status::LineSearchFailed).
///
/// With bounds, a coordinate that lies at its bound and is pushed against it is held, until the gradient pulls it back;
/// steps end at the first bound they meet.
///
/// ```
/// use riemannian_laplace::internals::optimize::{BfgsOptions, Status, minimize};
///
/// // Rosenbrock's valley, with x₀ no larger than ½.
/// let mut valley = |x: &[f64], gradient: &mut [f64]| {
///     let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
///     gradient[0] = -2.0 * a - 400.0 * x[0] * b;
///     gradient[1] = 200.0 * b;
///     a * a + 100.0 * b * b
/// };
/// let options = BfgsOptions { bounds: Some(&[(-2.0, 0.5), (-2.0, 2.0)]), ..BfgsOptions::default() };
/// let minimum = minimize(&mut valley, &[-1.2, 1.0], &options)?;
/// assert_eq!(minimum.status, Status::Converged);
/// assert_eq!(minimum.at_bound, [0]);
/// assert!((minimum.point[1] - 0.25).abs() < 1e-9);
/// # Ok::<(), riemannian_laplace::internals::optimize::OptimizeError>(())
/// ```
pub fn minimize<F>(objective: &mut F, start: &[f64], options: &BfgsOptions<'_>) -> Result<Minimum, OptimizeError>
where
    F: FnMut(&[f64], &mut [f64]) -> f64,
{
    let n = start.len();
    let bounds = Bounds::new(options.bounds, n)?;
    let mut evaluations = 0;
    let mut evaluate = |point: &[f64], gradient: &mut [f64]| {
        evaluations += 1;
        let value = objective(point, gradient);
        let is_finite = value.is_finite() && point.iter().chain(gradient.iter()).all(|x| x.is_finite());
        if is_finite { value } else { f64::INFINITY }
    };

    let mut here = Place { point: start.to_vec(), gradient: vec![0.0; n], value: f64::INFINITY };
    bounds.project(&mut here.point);
    here.value = evaluate(&here.point, &mut here.gradient);
    let mut next = here.clone();
    let mut direction = vec![0.0; n];
    let mut iterations = 0;
    let mut patience = Patience::new();
    let mut model = Model::new(&here, &bounds, options.first_step);

    let ended = loop {
        let gradient_norm = bounds.gradient_norm(&here.point, &here.gradient);
        if !here.value.is_finite() {
            break Some(Status::NotFinite);
        }
        if gradient_norm <= options.gradient_tolerance {
            break Some(Status::Converged);
        }
        if iterations >= options.max_iterations {
            break Some(Status::IterationLimit);
        }
        if patience.is_over(here.value, gradient_norm) {
            if patience.has_restarted {
                break None;
            }
            patience.restart();
            model = Model::new(&here, &bounds, options.first_step);
        }

        let slope = model.direction(&here, &bounds, &mut direction);
        let search = Search {
            origin: Trial { step: 0.0, value: here.value, slope },
            first: 1.0,
            longest: bounds.longest_step(&here.point, &direction),
            sufficient_decrease: options.sufficient_decrease,
            curvature: options.curvature,
            max_evaluations: options.max_search_evaluations,
        };
        let mut phi = |step: f64| {
            bounds.advance(&here.point, &direction, step, &mut next.point);
            next.value = evaluate(&next.point, &mut next.gradient);
            Trial { step, value: next.value, slope: dot(&next.gradient, &direction) }
        };
        match search.run(&mut phi) {
            Some(_) => {
                model.learn(&here, &next);
                std::mem::swap(&mut here, &mut next);
                iterations += 1;
            }
            None if model.is_fresh => break None,
            None => model = Model::new(&here, &bounds, options.first_step),
        }
    };
    let status = ended.unwrap_or_else(|| {
        let relative_gradient = bounds.relative_gradient(&here.point, &here.gradient, here.value);
        Status::LineSearchFailed { gradient_is_small: relative_gradient <= f64::EPSILON.sqrt() }
    });
    Ok(Minimum {
        gradient_norm: bounds.gradient_norm(&here.point, &here.gradient),
        at_bound: bounds.met_by(&here.point),
        point: here.point,
        value: here.value,
        iterations,
        evaluations,
        status,
    })
}

/// A point, with the objective and its gradient.
#[derive(Debug, Clone)]
struct Place {
    point: Vec<f64>,
    gradient: Vec<f64>,
    value: f64,
}

/// What is known of the objective's Hessian.
#[derive(Debug)]
struct Model {
    inverse_hessian: InverseHessian,
    /// The inverse second derivative assumed for a coordinate about which nothing else is known.
    scale: f64,
    /// Length of a step along the gradient.
    first_step: f64,
    /// Whether nothing has been learnt yet: the direction is then that of steepest descent.
    is_fresh: bool,
}

impl Model {
    /// Steepest descent, with a first step no longer than `first_step` and no longer than the gradient.
    fn new(here: &Place, bounds: &Bounds, first_step: f64) -> Self {
        let held = |i: usize| bounds.holds(i, here.point[i], here.gradient[i]);
        let held: Vec<bool> = (0..here.point.len()).map(held).collect();
        let free = here.gradient.iter().zip(&held).filter(|(_, held)| !**held);
        let scale = (first_step / norm(free.map(|(g, _)| g))).min(1.0);
        Self { inverse_hessian: InverseHessian::scaled_identity(scale, held), scale, first_step, is_fresh: true }
    }

    /// Writes a direction of descent that does not leave the box at once, and returns the slope ∇f·d along it.
    fn direction(&mut self, here: &Place, bounds: &Bounds, direction: &mut [f64]) -> f64 {
        let n = here.point.len();
        if self.is_fresh {
            *self = Self::new(here, bounds, self.first_step);
        }
        for i in 0..n {
            match (self.inverse_hessian.held()[i], bounds.holds(i, here.point[i], here.gradient[i])) {
                (false, true) => self.inverse_hessian.hold(i),
                (true, false) => self.inverse_hessian.release(i, self.scale),
                _ => {}
            }
        }
        // A free coordinate at its bound may be sent outwards by the others; then it is held for this step.
        loop {
            self.inverse_hessian.descend(&here.gradient, direction);
            let blocked = (0..n).find(|&i| bounds.blocks(i, here.point[i], direction[i]));
            match blocked {
                Some(i) => self.inverse_hessian.hold(i),
                None => break,
            }
        }
        let slope = dot(&here.gradient, direction);
        if slope < 0.0 && slope.is_finite() {
            return slope;
        }
        *self = Self::new(here, bounds, self.first_step);
        self.inverse_hessian.descend(&here.gradient, direction);
        dot(&here.gradient, direction)
    }

    /// Updates the inverse Hessian from a step.
    fn learn(&mut self, from: &Place, to: &Place) {
        let held = self.inverse_hessian.held();
        let difference = |to: &[f64], from: &[f64]| -> Vec<f64> {
            let entries = to.iter().zip(from).zip(held);
            entries.map(|((to, from), held)| if *held { 0.0 } else { to - from }).collect()
        };
        let step = difference(&to.point, &from.point);
        let change = difference(&to.gradient, &from.gradient);
        let (product, length) = (dot(&step, &change), norm(change.iter()));
        // Not after a step cut short by a bound or by rounding: then the second derivative along it may be negative.
        if product.is_finite() && product > LEAST_CURVATURE * norm(step.iter()) * length {
            self.scale = product / length / length;
            if self.is_fresh {
                self.inverse_hessian = InverseHessian::scaled_identity(self.scale, held.to_vec());
            }
            self.inverse_hessian.update(&step, &change);
            self.is_fresh = false;
        }
    }
}

/// √Σ x², without overflow.
fn norm<'a>(entries: impl Iterator<Item = &'a f64>) -> f64 {
    entries.fold(0.0, |norm: f64, x| norm.hypot(*x))
}

/// Counts steps without progress.
#[derive(Debug)]
struct Patience {
    lowest: f64,
    gradient_norm: f64,
    waited: usize,
    /// Whether the model was given up since the last progress.
    has_restarted: bool,
}

impl Patience {
    fn new() -> Self {
        Self { lowest: f64::INFINITY, gradient_norm: f64::INFINITY, waited: 0, has_restarted: false }
    }

    /// Records where a step led, and returns whether too many led nowhere.
    fn is_over(&mut self, value: f64, gradient_norm: f64) -> bool {
        let progress = value < self.lowest || gradient_norm < 0.5 * self.gradient_norm;
        if progress {
            self.lowest = value.min(self.lowest);
            self.gradient_norm = gradient_norm.min(self.gradient_norm);
            (self.waited, self.has_restarted) = (0, false);
        } else {
            self.waited += 1;
        }
        self.waited > PATIENCE
    }

    fn restart(&mut self) {
        (self.waited, self.has_restarted) = (0, true);
    }
}

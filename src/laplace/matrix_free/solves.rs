//! Conjugate gradients for several right-hand sides in step, so that their products share the rows of a batch. Each is
//! solved as if it were alone.

use crate::linalg::{StoppingRule, add_scaled, dot, norm};

/// The solutions of (I + K)x = b, and the largest relative residual that is left. `times` writes K u for each u.
pub(super) fn solve_together(
    forces: Vec<Vec<f64>>,
    rule: StoppingRule,
    times: impl Fn(&[&[f64]]) -> Vec<Vec<f64>>,
) -> (Vec<Vec<f64>>, f64) {
    let mut systems: Vec<System> = forces.into_iter().map(System::new).collect();
    for _ in 0..rule.max_products {
        let mut open: Vec<&mut System> = systems.iter_mut().filter(|system| !system.is_done(rule.tolerance)).collect();
        if open.is_empty() {
            break;
        }
        let directions: Vec<&[f64]> = open.iter().map(|system| system.direction.as_slice()).collect();
        let images = times(&directions);
        for (system, image) in open.iter_mut().zip(images) {
            system.step(image);
        }
    }
    let worst = systems.iter().map(System::relative_residual).fold(0.0, f64::max);
    (systems.into_iter().map(|system| system.solution).collect(), worst)
}

struct System {
    solution: Vec<f64>,
    residual: Vec<f64>,
    direction: Vec<f64>,
    /// ‖b‖ and rᵀr.
    scale: f64,
    square: f64,
    /// Rounding errors dominate.
    is_stuck: bool,
}

impl System {
    fn new(force: Vec<f64>) -> Self {
        let (scale, square) = (norm(&force), dot(&force, &force));
        Self {
            solution: vec![0.0; force.len()],
            direction: force.clone(),
            residual: force,
            scale,
            square,
            is_stuck: !scale.is_finite(),
        }
    }

    fn relative_residual(&self) -> f64 {
        match self.square.sqrt() / self.scale {
            _ if self.scale == 0.0 => 0.0,
            residual if residual.is_nan() => f64::INFINITY,
            residual => residual,
        }
    }

    fn is_done(&self, tolerance: f64) -> bool {
        self.is_stuck || self.relative_residual() <= tolerance
    }

    /// A step with the image Ku of the direction u.
    fn step(&mut self, mut image: Vec<f64>) {
        add_scaled(1.0, &self.direction, &mut image);
        let bend = dot(&self.direction, &image);
        if !(bend > 0.0 && self.square > 0.0) {
            self.is_stuck = true;
            return;
        }
        let length = self.square / bend;
        add_scaled(length, &self.direction, &mut self.solution);
        add_scaled(-length, &image, &mut self.residual);
        let before = std::mem::replace(&mut self.square, dot(&self.residual, &self.residual));
        let turn = self.square / before;
        for (direction, residual) in self.direction.iter_mut().zip(&self.residual) {
            *direction = residual + turn * *direction;
        }
    }
}

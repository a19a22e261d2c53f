//! How far a path has left the graph of its outputs.
//!
//! In isometric outputs y(θ) the metric G = A + JᵧᵀJᵧ is that of the graph {(θ, y(θ))} in flat space, and a geodesic is a
//! particle that stays on it. Carried beside the path, y′ = u and u′ = ÿ, with ÿ = z + Jᵧa as every evaluation has it; the
//! integration of θ knows nothing of them. At the end |y(θ) − y|, in units of the whitened outputs (σ, for a Gaussian),
//! measures what errors of all evaluations together have done to the outputs, where the drift of vᵀGv only sees errors
//! along v.
//!
//! y(T) = y(0) + T u(0) + ∫₀ᵀ (T − t) ÿ dt, from the accepted evaluations: over each interval between two of them the
//! integral of the polynomial through the six nearest.

use std::collections::VecDeque;

use crate::linalg::add_scaled;

/// Evaluations on each side of an interval, where there are as many.
const REACH: usize = 3;
/// Gauss and Legendre's four points on [−1, 1], exact for polynomials of degree 7, and their weights.
const POINTS: [(f64, f64); 4] = [
    (-0.861_136_311_594_052_6, 0.347_854_845_137_453_86),
    (-0.339_981_043_584_856_3, 0.652_145_154_862_546_1),
    (0.339_981_043_584_856_3, 0.652_145_154_862_546_1),
    (0.861_136_311_594_052_6, 0.347_854_845_137_453_86),
];

/// The outputs carried beside a path.
#[derive(Debug)]
pub(super) struct Carried {
    /// T.
    time: f64,
    /// y(0) + T u(0), and the integral so far.
    outputs: Vec<f64>,
    /// The last evaluations that were accepted, and how many of them are before the interval that comes next.
    nodes: VecDeque<Node>,
    before: usize,
    /// The last evaluation; its time is NaN once it is among the nodes.
    latest: (f64, Vec<f64>),
    /// Vectors to be used again.
    spare: Vec<Vec<f64>>,
}

/// An accepted evaluation. Its part of the integral is added once, when no interval needs it any more.
#[derive(Debug)]
struct Node {
    time: f64,
    acceleration: Vec<f64>,
    weight: f64,
}

impl Carried {
    /// From the outputs and their velocities at t = 0, to `time`.
    pub(super) fn new([mut outputs, velocities]: [Vec<f64>; 2], time: f64) -> Self {
        add_scaled(time, &velocities, &mut outputs);
        let latest = (f64::NAN, vec![0.0; outputs.len()]);
        Self { time, outputs, nodes: VecDeque::new(), before: 0, latest, spare: Vec::new() }
    }

    /// Takes note of an evaluation, which counts once its step is accepted; the first always is.
    pub(super) fn evaluated(&mut self, t: f64, acceleration: &[f64]) {
        self.latest.0 = t;
        self.latest.1.copy_from_slice(acceleration);
        if self.nodes.is_empty() {
            self.accept(t);
        }
    }

    /// The step to `t` was accepted; its last evaluation was there.
    pub(super) fn accept(&mut self, t: f64) {
        if self.latest.0 != t {
            // Nothing is known at the end of this step.
            return self.outputs.fill(f64::NAN);
        }
        let next = self.spare.pop().unwrap_or_else(|| vec![0.0; self.outputs.len()]);
        let (_, acceleration) = std::mem::replace(&mut self.latest, (f64::NAN, next));
        self.nodes.push_back(Node { time: t, acceleration, weight: 0.0 });
        while self.nodes.len() >= (self.before + 1 + REACH).max(2 * REACH) {
            self.integrate();
        }
    }

    /// Adds the integral over the next interval.
    fn integrate(&mut self) {
        let most = self.nodes.len().saturating_sub(2 * REACH);
        let first = (self.before + 1).saturating_sub(REACH).min(most);
        let (left, right) = (self.nodes[self.before].time, self.nodes[self.before + 1].time);
        let (middle, half) = (0.5 * (left + right), 0.5 * (right - left));
        let (mut times, count) = ([0.0; 2 * REACH], (self.nodes.len() - first).min(2 * REACH));
        times.iter_mut().zip(self.nodes.iter().skip(first)).for_each(|(time, node)| *time = node.time);
        let times = &times[..count];
        // Π (t − tₖ) over the nodes but the j-th.
        let others = |j: usize, t: f64| {
            let factor = |(k, time): (usize, &f64)| if k == j { 1.0 } else { t - time };
            times.iter().enumerate().map(factor).product::<f64>()
        };
        for (j, node) in times.iter().enumerate() {
            let value = |(point, weight): (f64, f64)| {
                let t = middle + half * point;
                weight * (self.time - t) * others(j, t)
            };
            self.nodes[first + j].weight += half * POINTS.into_iter().map(value).sum::<f64>() / others(j, *node);
        }
        self.before += 1;
        while self.before > 2 * REACH {
            self.add_first();
            self.before -= 1;
        }
    }

    /// Adds the part of the earliest evaluation, which no later interval needs.
    fn add_first(&mut self) {
        if let Some(Node { acceleration, weight, .. }) = self.nodes.pop_front() {
            add_scaled(weight, &acceleration, &mut self.outputs);
            self.spare.push(acceleration);
        }
    }

    /// The root mean square of y(θ) − y at the end of the path.
    pub(super) fn distance(mut self, outputs: &[f64]) -> f64 {
        if self.nodes.back().map(|node| node.time) != Some(self.time) {
            return f64::NAN;
        }
        while self.before + 1 < self.nodes.len() {
            self.integrate();
        }
        while !self.nodes.is_empty() {
            self.add_first();
        }
        let squares = outputs.iter().zip(&self.outputs).map(|(here, carried)| (here - carried).powi(2)).sum::<f64>();
        (squares / outputs.len() as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ÿ = t^n from y = 2, ẏ = −1 over uneven steps.
    #[test]
    fn accelerations_of_degree_five_are_integrated_exactly() {
        for power in 0..=5 {
            let mut carried = Carried::new([vec![2.0], vec![-1.0]], 1.0);
            for t in [0.0, 0.02, 0.1, 0.17, 0.3, 0.31, 0.5, 0.62, 0.8, 0.9, 1.0] {
                if t > 0.0 {
                    carried.evaluated(t + 0.001, &[f64::NAN]); // a trial that is rejected
                }
                carried.evaluated(t, &[f64::powi(t, power)]);
                if t > 0.0 {
                    carried.accept(t);
                }
            }
            let p = f64::from(power);
            let exact = 2.0 - 1.0 + 1.0 / ((p + 1.0) * (p + 2.0));
            assert!((carried.distance(&[exact + 0.5]) - 0.5).abs() < 1e-13, "{power}");
        }
    }

    #[test]
    fn a_path_that_ends_early_or_skips_an_evaluation_has_no_distance() {
        let mut early = Carried::new([vec![0.0], vec![0.0]], 1.0);
        early.evaluated(0.0, &[1.0]);
        assert!(early.distance(&[0.0]).is_nan());
        let mut other = Carried::new([vec![0.0], vec![0.0]], 1.0);
        other.evaluated(0.0, &[1.0]);
        other.evaluated(0.9, &[1.0]);
        other.accept(1.0);
        assert!(other.distance(&[0.0]).is_nan());
    }
}

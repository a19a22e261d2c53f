//! A regression in plain loops, and its geodesics by a method of its own: nothing here is shared with the library but the
//! widths over which kinks are rounded.

use riemannian_laplace::MetricName;

/// The widths over which kinks are rounded, layer by layer.
pub type Widths = Vec<Vec<f64>>;

/// The function of a hidden unit: φ, φ′ and φ″.
#[derive(Debug, Clone)]
pub enum Unit {
    Tanh,
    /// A hinge with this slope on its left, rounded over the width of each unit.
    Hinge {
        left: f64,
        widths: Widths,
    },
}

impl Unit {
    fn jet(&self, layer: usize, unit: usize, z: f64) -> [f64; 3] {
        match self {
            Unit::Tanh => {
                let t = z.tanh();
                [t, 1.0 - t * t, -2.0 * t * (1.0 - t * t)]
            }
            Unit::Hinge { left, widths } => {
                let width = widths[layer][unit];
                let u = z / width;
                let (mass, density) = (normal_mass(u), (-0.5 * u * u).exp() / (2.0 * std::f64::consts::PI).sqrt());
                let bend = 1.0 - left;
                [left * z + bend * z * mass, left + bend * (mass + u * density), bend * (2.0 - u * u) * density / width]
            }
        }
    }
}

/// Φ(u), by its series near zero and by its continued fraction far from it.
fn normal_mass(u: f64) -> f64 {
    let density = (-0.5 * u * u).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if u.abs() < 3.0 {
        // ½ + φ(u) (u + u³/3 + u⁵/(3·5) + …)
        let (mut term, mut sum, mut k) = (u, u, 3.0);
        while term.abs() > 1e-17 {
            term *= u * u / k;
            sum += term;
            k += 2.0;
        }
        return 0.5 + density * sum;
    }
    // 1 − Φ(u) = φ(u) / (u + 1/(u + 2/(u + …)))
    let tail = density / (1..60).rev().fold(u.abs(), |below, k| u.abs() + f64::from(k) / below);
    if u > 0.0 { 1.0 - tail } else { tail }
}

/// A regression with a network of fully connected layers and one output.
#[derive(Debug, Clone)]
pub struct Reference {
    pub sizes: Vec<usize>,
    pub unit: Unit,
    pub inputs: Vec<Vec<f64>>,
    pub targets: Vec<f64>,
    pub sigma: f64,
    pub prior: f64,
    pub metric: MetricName,
}

impl Reference {
    /// f(x), and its first and second derivatives along v; `gradient` takes ∂f/∂θ. `units` takes the values of all units with
    /// their derivatives along v, and the slopes of their functions.
    fn output(&self, theta: &[f64], v: &[f64], x: &[f64], gradient: &mut [f64], units: &mut Vec<[f64; 4]>) -> [f64; 3] {
        let last = self.sizes.len() - 2;
        units.clear();
        units.extend(x.iter().map(|x| [*x, 0.0, 0.0, 1.0]));
        let (mut start, mut first_unit) = (0, 0);
        for (layer, pair) in self.sizes.windows(2).enumerate() {
            let (width, bias) = (pair[0], start + pair[0] * pair[1]);
            for j in 0..pair[1] {
                let mut z = [theta[bias + j], v[bias + j], 0.0];
                for i in 0..width {
                    let [h, first, second, _] = units[first_unit + i];
                    let (w, dw) = (theta[start + j * width + i], v[start + j * width + i]);
                    z[0] += w * h;
                    z[1] += dw * h + w * first;
                    z[2] += 2.0 * dw * first + w * second;
                }
                let [value, slope, bend] = if layer == last { [z[0], 1.0, 0.0] } else { self.unit.jet(layer, j, z[0]) };
                units.push([value, slope * z[1], bend * z[1] * z[1] + slope * z[2], slope]);
            }
            (start, first_unit) = (bias + pair[1], first_unit + width);
        }
        let [value, first, second, _] = units[first_unit];
        let mut sensitivities = vec![1.0];
        for layer in (0..=last).rev() {
            let (width, count) = (self.sizes[layer], self.sizes[layer + 1]);
            (start, first_unit) = (start - count * (width + 1), first_unit - width);
            let mut before = vec![0.0; width];
            for (j, sensitivity) in sensitivities.iter().enumerate() {
                let through = sensitivity * units[first_unit + width + j][3];
                gradient[start + width * count + j] = through;
                for (i, before) in before.iter_mut().enumerate() {
                    gradient[start + j * width + i] = through * units[first_unit + i][0];
                    *before += through * theta[start + j * width + i];
                }
            }
            sensitivities = before;
        }
        [value, first, second]
    }

    /// −Γ(v, v) = −Jᵀ(aI + JJᵀ)⁻¹z of the metric aI + JᵀJ, with the second derivatives z along v of the outputs that J
    /// belongs to.
    fn acceleration(&self, theta: &[f64], v: &[f64]) -> Vec<f64> {
        let (d, precision) = (theta.len(), 1.0 / (self.sigma * self.sigma));
        let (mut rows, mut force, mut units): (Vec<Vec<f64>>, Vec<f64>, _) = (Vec::new(), Vec::new(), Vec::new());
        for (x, y) in self.inputs.iter().zip(&self.targets) {
            let mut gradient = vec![0.0; d];
            let [f, first, second] = self.output(theta, v, x, &mut gradient, &mut units);
            let (share, bend) = match self.metric {
                MetricName::Fisher => (1.0 / self.sigma, second / self.sigma),
                // Of −(f − y)²/2σ².
                _ => (-precision * (f - y), -precision * (first * first + (f - y) * second)),
            };
            gradient.iter_mut().for_each(|entry| *entry *= share);
            rows.push(gradient);
            force.push(bend);
        }
        let mut ridge = self.prior;
        if matches!(self.metric, MetricName::Monge | MetricName::MongeLog) {
            // One output: the log posterior.
            let mut slope: Vec<f64> = theta.iter().map(|theta| -self.prior * theta).collect();
            rows.iter().for_each(|row| slope.iter_mut().zip(row).for_each(|(slope, entry)| *slope += entry));
            rows = vec![slope];
            force = vec![force.iter().sum::<f64>() - self.prior * v.iter().map(|v| v * v).sum::<f64>()];
            ridge = 1.0;
        }
        let mut gram: Vec<Vec<f64>> = rows
            .iter()
            .map(|row| rows.iter().map(|other| row.iter().zip(other).map(|(a, b)| a * b).sum()).collect())
            .collect();
        gram.iter_mut().enumerate().for_each(|(n, row)| row[n] += ridge);
        let multipliers = eliminate(gram, force);
        let mut acceleration = vec![0.0; d];
        for (row, multiplier) in rows.iter().zip(&multipliers) {
            acceleration.iter_mut().zip(row).for_each(|(entry, row)| *entry -= multiplier * row);
        }
        acceleration
    }

    /// The end of the geodesic: modified midpoint steps extrapolated to order twelve, each to the relative and absolute
    /// tolerance. None where the steps become too short.
    pub fn end(&self, theta: &[f64], v: &[f64], tolerance: f64) -> Option<Vec<f64>> {
        let d = theta.len();
        let rate = |state: &[f64]| -> Vec<f64> {
            let (theta, v) = state.split_at(d);
            v.iter().copied().chain(self.acceleration(theta, v)).collect()
        };
        let (mut state, mut t, mut step) = ([theta, v].concat(), 0.0, 1e-2);
        while t < 1.0 {
            step = f64::min(step, 1.0 - t);
            let first = rate(&state);
            let (next, error) = extrapolated(&rate, &state, &first, step);
            let error =
                next.iter().zip(error).map(|(s, e)| e.abs() / (tolerance * (1.0 + s.abs()))).fold(0.0, f64::max);
            if error <= 1.0 {
                t += step;
                state = next;
            }
            // What is not a number is an error as well.
            let factor =
                if error.is_finite() { (0.8 * error.max(1e-9).powf(-1.0 / 11.0)).clamp(0.1, 4.0) } else { 0.1 };
            step *= factor;
            if step < 1e-9 {
                return None;
            }
        }
        state.truncate(d);
        Some(state)
    }

    /// The largest difference of outputs at a data point, in σ.
    pub fn distance(&self, one: &[f64], other: &[f64]) -> f64 {
        let (zero, mut gradient, mut units) = (vec![0.0; one.len()], vec![0.0; one.len()], Vec::new());
        let mut output = |theta: &[f64], x: &[f64]| self.output(theta, &zero, x, &mut gradient, &mut units)[0];
        self.inputs.iter().map(|x| (output(one, x) - output(other, x)).abs() / self.sigma).fold(0.0, f64::max)
    }
}

/// A step by Gragg's modified midpoint rule with 2, 4, …, 12 parts, extrapolated to none, and the last two orders' difference.
fn extrapolated(rate: &impl Fn(&[f64]) -> Vec<f64>, state: &[f64], first: &[f64], step: f64) -> (Vec<f64>, Vec<f64>) {
    let along = |from: &[f64], rate: &[f64], h: f64| -> Vec<f64> {
        from.iter().zip(rate).map(|(entry, rate)| entry + h * rate).collect()
    };
    let mut row: Vec<Vec<f64>> = Vec::new();
    for parts in (2..=12).step_by(2) {
        let h = step / parts as f64;
        let (mut before, mut now) = (state.to_vec(), along(state, first, h));
        for _ in 1..parts {
            let next = along(&before, &rate(&now), 2.0 * h);
            (before, now) = (now, next);
        }
        let end = along(&before, &rate(&now), h).iter().zip(&now).map(|(a, b)| 0.5 * (a + b)).collect();
        let mut column: Vec<Vec<f64>> = vec![end];
        for (k, coarser) in row.iter().enumerate() {
            let ratio = parts as f64 / (parts - 2 * (k + 1)) as f64;
            let finer: &Vec<f64> = &column[k];
            let next = finer.iter().zip(coarser).map(|(a, b)| a + (a - b) / (ratio * ratio - 1.0)).collect();
            column.push(next);
        }
        row = column;
    }
    let best = row.pop().unwrap_or_default();
    let error = best.iter().zip(row.last().into_iter().flatten()).map(|(a, b)| a - b).collect();
    (best, error)
}

/// The solution of a symmetric positive definite system.
fn eliminate(mut matrix: Vec<Vec<f64>>, mut rhs: Vec<f64>) -> Vec<f64> {
    let n = rhs.len();
    for k in 0..n {
        let (upper, lower) = matrix.split_at_mut(k + 1);
        let pivot = &upper[k];
        for (row, i) in lower.iter_mut().zip(k + 1..) {
            let factor = row[k] / pivot[k];
            row.iter_mut().zip(pivot).skip(k).for_each(|(entry, above)| *entry -= factor * above);
            rhs[i] -= factor * rhs[k];
        }
    }
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|j| matrix[k][j] * rhs[j]).sum();
        rhs[k] = (rhs[k] - known) / matrix[k][k];
    }
    rhs
}

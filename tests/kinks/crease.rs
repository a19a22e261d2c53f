//! The exact law of a geodesic that meets a kink, for one hidden layer of relu and Gaussian noise: slow, and written out
//! without the library.
//!
//! Between kinks every unit is either on or off at every data point, f is bilinear in the weights, and the geodesic
//! equation is smooth. Where unit j's input z at point n changes its sign, G jumps, but G₋ and G₊ agree on the kink's
//! tangent space. With n = ∇z, a± = nᵀG±⁻¹n and the tangential part τ = v₋ − (ż₋/a₋)G₋⁻¹n of the velocity,
//!
//! ż₊ = ż₋√(a₊/a₋), v₊ = τ + (ż₊/a₊)G₊⁻¹n,
//!
//! which keeps vᵀGv and the tangential momentum.

/// y = Σ_j u_j relu(w_j x + b_j) + c with noise σ and prior precision α at scalar inputs; θ = (w, b, u, c).
pub struct Crease<'a> {
    pub inputs: &'a [f64],
    pub units: usize,
    pub sigma: f64,
    pub prior: f64,
}

/// Where a path ended.
pub struct End {
    pub theta: Vec<f64>,
    /// The crossings on the way.
    pub crossings: usize,
    /// The largest relative change of vᵀGv at a crossing.
    pub jump: f64,
    /// Its relative change from start to end.
    pub drift: f64,
}

impl Crease<'_> {
    fn size(&self) -> usize {
        3 * self.units + 1
    }

    /// Unit j's input at point n.
    fn input(&self, theta: &[f64], j: usize, n: usize) -> f64 {
        theta[j] * self.inputs[n] + theta[self.units + j]
    }

    /// Which units are on at which points: entry `j·N + n`.
    fn pattern(&self, theta: &[f64]) -> Vec<bool> {
        let count = self.inputs.len();
        (0..self.units * count).map(|index| self.input(theta, index / count, index % count) > 0.0).collect()
    }

    /// The gradient of f at point n, with the units that are on as given.
    fn gradient(&self, theta: &[f64], pattern: &[bool], n: usize) -> Vec<f64> {
        let (units, count) = (self.units, self.inputs.len());
        let mut gradient = vec![0.0; self.size()];
        for j in (0..units).filter(|j| pattern[j * count + n]) {
            gradient[j] = theta[2 * units + j] * self.inputs[n];
            gradient[units + j] = theta[2 * units + j];
            gradient[2 * units + j] = self.input(theta, j, n);
        }
        gradient[3 * units] = 1.0;
        gradient
    }

    fn metric(&self, theta: &[f64], pattern: &[bool]) -> Vec<Vec<f64>> {
        let size = self.size();
        let mut metric = vec![vec![0.0; size]; size];
        for (d, row) in metric.iter_mut().enumerate() {
            row[d] = self.prior;
        }
        for n in 0..self.inputs.len() {
            let gradient = self.gradient(theta, pattern, n);
            for (a, row) in metric.iter_mut().enumerate() {
                for (b, entry) in row.iter_mut().enumerate() {
                    *entry += gradient[a] * gradient[b] / (self.sigma * self.sigma);
                }
            }
        }
        metric
    }

    /// −G⁻¹Jᵀf̈/σ², with f̈ = 2 Σ_j u̇_j ż_j over the units that are on.
    fn acceleration(&self, theta: &[f64], velocity: &[f64], pattern: &[bool]) -> Vec<f64> {
        let (units, count) = (self.units, self.inputs.len());
        let mut force = vec![0.0; self.size()];
        for n in 0..count {
            let on = (0..units).filter(|j| pattern[j * count + n]);
            let second: f64 = on.map(|j| 2.0 * velocity[2 * units + j] * self.input(velocity, j, n)).sum();
            for (entry, slope) in force.iter_mut().zip(self.gradient(theta, pattern, n)) {
                *entry -= slope * second / (self.sigma * self.sigma);
            }
        }
        solve(self.metric(theta, pattern), force)
    }

    /// One step of the classical Runge–Kutta method of order four within a smooth piece.
    fn step(&self, state: &[f64], pattern: &[bool], h: f64) -> Vec<f64> {
        let derivative = |state: &[f64]| {
            let (theta, velocity) = state.split_at(self.size());
            [velocity.to_vec(), self.acceleration(theta, velocity, pattern)].concat()
        };
        let moved = |slope: &[f64], h: f64| state.iter().zip(slope).map(|(s, k)| s + h * k).collect::<Vec<f64>>();
        let k1 = derivative(state);
        let k2 = derivative(&moved(&k1, 0.5 * h));
        let k3 = derivative(&moved(&k2, 0.5 * h));
        let k4 = derivative(&moved(&k3, h));
        let slope = |d: usize| (k1[d] + 2.0 * k2[d] + 2.0 * k3[d] + k4[d]) / 6.0;
        (0..state.len()).map(|d| state[d] + h * slope(d)).collect()
    }

    /// Follows the geodesic for unit time with steps of at most h, each cut short where a unit is switched.
    pub fn follow(&self, theta: &[f64], velocity: &[f64], h: f64) -> End {
        let size = self.size();
        let mut state = [theta, velocity].concat();
        let mut pattern = self.pattern(theta);
        let start = quadratic(&self.metric(theta, &pattern), velocity);
        let (mut time, mut crossings, mut jump) = (0.0, 0, 0.0_f64);
        while time < 1.0 {
            let whole = h.min(1.0 - time);
            let next = self.step(&state, &pattern, whole);
            let Some((until, switched)) = self.first_switch(&state, &pattern, whole) else {
                (state, time) = (next, if time + whole > 1.0 - 1e-14 { 1.0 } else { time + whole });
                continue;
            };
            state = self.step(&state, &pattern, until);
            time += until;
            let (theta, velocity) = state.split_at(size);
            let before = self.metric(theta, &pattern);
            pattern[switched] = !pattern[switched];
            let after = self.metric(theta, &pattern);
            let turned = self.cross(&before, &after, velocity, switched);
            let (old, new) = (quadratic(&before, velocity), quadratic(&after, &turned));
            jump = jump.max((new / old - 1.0).abs());
            state = [theta, &turned].concat();
            crossings += 1;
        }
        let (theta, velocity) = state.split_at(size);
        let end = quadratic(&self.metric(theta, &pattern), velocity);
        End { theta: theta.to_vec(), crossings, jump, drift: (end / start - 1.0).abs() }
    }

    /// The earliest time within a step at which a unit is switched, by bisection, and the unit's place in the pattern.
    fn first_switch(&self, state: &[f64], pattern: &[bool], whole: f64) -> Option<(f64, usize)> {
        let switched = |h: f64| {
            let theta = self.step(state, pattern, h)[..self.size()].to_vec();
            self.pattern(&theta).iter().zip(pattern).position(|(new, old)| new != old)
        };
        switched(whole)?;
        let (mut low, mut high) = (0.0, whole);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            match switched(middle) {
                Some(_) => high = middle,
                None => low = middle,
            }
        }
        Some((high, switched(high)?))
    }

    /// v₊ of a path that comes to the kink of this place in the pattern with v₋.
    fn cross(&self, before: &[Vec<f64>], after: &[Vec<f64>], velocity: &[f64], switched: usize) -> Vec<f64> {
        let (units, count) = (self.units, self.inputs.len());
        let (j, n) = (switched / count, switched % count);
        let mut normal = vec![0.0; self.size()];
        (normal[j], normal[units + j]) = (self.inputs[n], 1.0);
        let (from, to) = (solve(before.to_vec(), normal.clone()), solve(after.to_vec(), normal.clone()));
        let (a_before, a_after) = (dot(&normal, &from), dot(&normal, &to));
        let speed = dot(&normal, velocity);
        let new_speed = speed * (a_after / a_before).sqrt();
        let turn = |d: usize| velocity[d] - speed / a_before * from[d] + new_speed / a_after * to[d];
        (0..velocity.len()).map(turn).collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn quadratic(matrix: &[Vec<f64>], vector: &[f64]) -> f64 {
    matrix.iter().zip(vector).map(|(row, value)| value * dot(row, vector)).sum()
}

/// Gaussian elimination with pivoting.
fn solve(mut matrix: Vec<Vec<f64>>, mut rhs: Vec<f64>) -> Vec<f64> {
    let size = rhs.len();
    for column in 0..size {
        let largest = (column..size).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()));
        let pivot = largest.expect("a row is left");
        matrix.swap(column, pivot);
        rhs.swap(column, pivot);
        for row in column + 1..size {
            let factor = matrix[row][column] / matrix[column][column];
            for k in column..size {
                matrix[row][k] -= factor * matrix[column][k];
            }
            rhs[row] -= factor * rhs[column];
        }
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|k| matrix[row][k] * rhs[k]).sum();
        rhs[row] = (rhs[row] - known) / matrix[row][row];
    }
    rhs
}

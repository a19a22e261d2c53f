//! Initial value problems shared by the tests of the `ode` module, with their solutions where these are known.
//! `fixtures/ode/make.py` states the same right-hand sides with the same order of operations.

use riemannian_laplace::internals::ode::Status;

/// The right-hand side `f(t, y)` written to the last argument.
pub type Rhs = fn(f64, &[f64], &mut [f64]);

/// y′ = rhs(t, y) from `y0` at `t0` to `t1`.
pub struct Problem {
    pub name: &'static str,
    pub rhs: Rhs,
    pub t0: f64,
    pub t1: f64,
    pub y0: Vec<f64>,
    pub first_step: Option<f64>,
    /// How a solve ends.
    pub end: Status,
    /// The exact state at a time, if known.
    pub solution: Option<fn(f64) -> Vec<f64>>,
}

const ECCENTRICITY: f64 = 0.5;
const MASSES: usize = 31;

/// All problems.
pub fn all() -> Vec<Problem> {
    let perihelion = ((1.0 + ECCENTRICITY) / (1.0 - ECCENTRICITY)).sqrt();
    let mut chain_start = vec![0.0; 2 * MASSES];
    for (i, q) in chain_start[..MASSES].iter_mut().enumerate() {
        *q = ((i + 1) * (MASSES - i)) as f64 / 256.0;
    }
    let new = |name, rhs: Rhs, t0, t1, y0: &[f64]| Problem {
        name,
        rhs,
        t0,
        t1,
        y0: y0.to_vec(),
        first_step: None,
        end: Status::Reached,
        solution: None,
    };
    vec![
        Problem { solution: Some(|t| vec![t.cos(), -t.sin()]), ..new("harmonic", harmonic, 0.0, 10.0, &[1.0, 0.0]) },
        Problem {
            solution: Some(|t| {
                let (sin, cos) = (t - 3.0).sin_cos();
                vec![cos + 0.5 * sin, 0.5 * cos - sin]
            }),
            ..new("harmonic_backward", harmonic, 3.0, -7.0, &[1.0, 0.5])
        },
        Problem {
            first_step: Some(0.75),
            solution: Some(|t| vec![t.cos(), -t.sin()]),
            ..new("harmonic_first_step", harmonic, 0.0, 10.0, &[1.0, 0.0])
        },
        Problem {
            solution: Some(kepler_solution),
            ..new("kepler", kepler, 0.0, 10.0, &[1.0 - ECCENTRICITY, 0.0, 0.0, perihelion])
        },
        Problem {
            solution: Some(|t| vec![1.0 / (1.0 + 9.0 * (-t).exp())]),
            ..new("logistic", logistic, 0.0, 10.0, &[0.1])
        },
        Problem {
            solution: Some(|t| vec![1.0 / (1.0 + 9.0 * (-t).exp())]),
            ..new("logistic_short", logistic, 0.0, 1e-3, &[0.1])
        },
        Problem {
            solution: Some(|t| vec![(-50.0 * t).exp(), (-t).exp()]),
            ..new("decay", decay, 0.0, 2.0, &[1.0, 1.0])
        },
        new("van_der_pol", van_der_pol, 0.0, 20.0, &[2.0, 0.0]),
        Problem { solution: Some(geodesic_solution), ..new("geodesic", geodesic, 0.0, 4.0, &[-1.0, 1.0]) },
        new("lotka_volterra", lotka_volterra, 0.0, 15.0, &[10.0, 5.0]),
        new("lorenz", lorenz, 0.0, 2.0, &[1.0, 1.0, 1.0]),
        Problem { solution: Some(|t| vec![t.atan(), t * t]), ..new("forcing", forcing, 0.0, 5.0, &[0.0, 0.0]) },
        Problem {
            first_step: Some(1.85),
            solution: Some(|t| vec![(1.0 - 0.5 * t).powi(2)]),
            ..new("draining", draining, 0.0, 1.9, &[1.0])
        },
        Problem { end: Status::NotFinite, ..new("drained", draining, 0.0, 2.5, &[1.0]) },
        Problem { end: Status::StepLimit, ..new("blow_up", blow_up, 0.0, 2.0, &[1.0]) },
        Problem { solution: Some(|_| vec![1.0, -2.0]), ..new("constant", constant, 0.0, 5.0, &[1.0, -2.0]) },
        new("chain", chain, 0.0, 20.0, &chain_start),
    ]
}

/// The problem of that name.
pub fn named(name: &str) -> Problem {
    let found = all().into_iter().find(|problem| problem.name == name);
    found.unwrap_or_else(|| panic!("no problem {name}"))
}

fn harmonic(_t: f64, y: &[f64], out: &mut [f64]) {
    out[0] = y[1];
    out[1] = -y[0];
}

fn kepler(_t: f64, y: &[f64], out: &mut [f64]) {
    let square = y[0] * y[0] + y[1] * y[1];
    let cube = square * square.sqrt();
    out.copy_from_slice(&[y[2], y[3], -y[0] / cube, -y[1] / cube]);
}

/// The orbit with unit semi-major axis and mean motion, from Kepler's equation t = E − e sin E.
fn kepler_solution(t: f64) -> Vec<f64> {
    let e = ECCENTRICITY;
    let anomaly = root(t, |a| (a - e * a.sin() - t, 1.0 - e * a.cos()));
    let (sin, cos) = anomaly.sin_cos();
    let width = (1.0 - e * e).sqrt();
    let rate = 1.0 / (1.0 - e * cos);
    vec![cos - e, width * sin, -sin * rate, width * cos * rate]
}

fn logistic(_t: f64, y: &[f64], out: &mut [f64]) {
    out[0] = y[0] * (1.0 - y[0]);
}

fn decay(_t: f64, y: &[f64], out: &mut [f64]) {
    out[0] = -50.0 * y[0];
    out[1] = -y[1];
}

fn van_der_pol(_t: f64, y: &[f64], out: &mut [f64]) {
    out[0] = y[1];
    out[1] = 5.0 * (1.0 - y[0] * y[0]) * y[1] - y[0];
}

/// The geodesic of the metric (1 + x²) dx² on the line.
fn geodesic(_t: f64, y: &[f64], out: &mut [f64]) {
    out[0] = y[1];
    out[1] = -y[0] * y[1] * y[1] / (1.0 + y[0] * y[0]);
}

/// The arc length s(x) = (x √(1 + x²) + asinh x) / 2 grows linearly in time.
fn geodesic_solution(t: f64) -> Vec<f64> {
    let length = |x: f64| 0.5 * (x * x.hypot(1.0) + x.asinh());
    let speed = 2f64.sqrt();
    let target = length(-1.0) + speed * t;
    let x = root(0.0, |x| (length(x) - target, x.hypot(1.0)));
    vec![x, speed / x.hypot(1.0)]
}

fn lotka_volterra(_t: f64, y: &[f64], out: &mut [f64]) {
    out[0] = 1.5 * y[0] - y[0] * y[1];
    out[1] = y[0] * y[1] - 3.0 * y[1];
}

fn lorenz(_t: f64, y: &[f64], out: &mut [f64]) {
    out[0] = 10.0 * (y[1] - y[0]);
    out[1] = y[0] * (28.0 - y[2]) - y[1];
    out[2] = y[0] * y[1] - 8.0 / 3.0 * y[2];
}

fn forcing(t: f64, _y: &[f64], out: &mut [f64]) {
    out[0] = 1.0 / (1.0 + t * t);
    out[1] = 2.0 * t;
}

/// NaN for a negative content, which a long trial step reaches.
fn draining(_t: f64, y: &[f64], out: &mut [f64]) {
    out[0] = -y[0].sqrt();
}

fn blow_up(_t: f64, y: &[f64], out: &mut [f64]) {
    out[0] = y[0] * y[0];
}

fn constant(_t: f64, _y: &[f64], out: &mut [f64]) {
    out.fill(0.0);
}

/// A row of masses between walls, with linear springs and a cubic pull.
fn chain(_t: f64, y: &[f64], out: &mut [f64]) {
    let (q, p) = y.split_at(MASSES);
    out[..MASSES].copy_from_slice(p);
    for i in 0..MASSES {
        let left = if i == 0 { 0.0 } else { q[i - 1] };
        let right = if i + 1 == MASSES { 0.0 } else { q[i + 1] };
        out[MASSES + i] = left - 2.0 * q[i] + right - q[i] * q[i] * q[i];
    }
}

/// The root of a function given with its derivative, by Newton's method.
fn root(start: f64, function: impl Fn(f64) -> (f64, f64)) -> f64 {
    (0..100).fold(start, |x, _| {
        let (value, slope) = function(x);
        x - value / slope
    })
}

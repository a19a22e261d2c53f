//! Integrators for Fisher geodesics of networks, compared by evaluations of the acceleration (experimental harness).
#![allow(missing_docs)]

use std::path::{Path, PathBuf};
use std::time::Instant;

use faer::Mat;
use ndarray::{Array2, array};
use riemannian_laplace::data::{Dataset, Table};
use riemannian_laplace::evidence::EvidenceOptions;
use riemannian_laplace::laplace::{FitOptions, Laplace};
use riemannian_laplace::likelihood::Family;
use riemannian_laplace::map::{DifferentiableMap, MlpMap};
use riemannian_laplace::metric::{self, Evaluator};
use riemannian_laplace::network::{Activation, Architecture, Decay, Network, TrainingOptions, train};
use riemannian_laplace::ode::{IvpOptions, Method, Workspace, solve};
use riemannian_laplace::target::Target;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn data_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

struct Problem {
    name: String,
    laplace: Laplace,
    target: Target<MlpMap>,
    velocities: Array2<f64>,
    sigma: f64,
    kind: char,
}

fn standardised(data: &Dataset) -> Outcome<Dataset> {
    let scale = |values: &Array2<f64>| {
        let mean = values.sum() / values.len() as f64;
        let variance = values.mapv(|value| (value - mean).powi(2)).sum() / values.len() as f64;
        values.mapv(|value| (value - mean) / variance.sqrt())
    };
    Ok(Dataset::new(scale(data.inputs()), scale(data.targets()))?)
}

impl Problem {
    fn new(name: String, network: Network, data: Dataset, samples: usize) -> Outcome<Self> {
        let mut laplace = Laplace::fit(network, data, Family::gaussian(1.0)?, &FitOptions::default())?;
        laplace.optimize(&EvidenceOptions::default())?;
        let mut velocities = laplace.sample(samples, 11)?;
        for mut row in velocities.rows_mut() {
            row.iter_mut().zip(laplace.network().parameters()).for_each(|(v, t)| *v -= t);
        }
        let target = laplace.target("Fisher")?;
        let sigma = laplace.family().sigma().and_then(|s| s.first().copied()).unwrap_or(1.0);
        Ok(Self { name, laplace, target, velocities, sigma, kind: 'f' })
    }

    fn snelson(split: &str, units: &str, samples: usize) -> Outcome<Self> {
        let data = Table::read(&data_folder().join("snelson.csv"))?.dataset(&["y".to_string()])?;
        let text = std::fs::read_to_string(data_folder().join("snelson_split.csv"))?;
        let column = if split == "complete" { 1 } else { 2 };
        let words = text.lines().skip(1).map(|line| line.split(',').nth(column).unwrap_or(""));
        let rows: Vec<usize> = words.enumerate().filter(|(_, word)| *word == "train").map(|(row, _)| row).collect();
        let mut data = data.select(&rows)?;
        if units == "std" {
            data = standardised(&data)?;
        }
        let path = data_folder().join(format!("snelson_map_{split}_{units}.safetensors"));
        let network = Network::load(&path, Some(Activation::Tanh))?;
        Self::new(format!("{split}-{units}"), network, data, samples)
    }

    fn sine(width: usize, activation: Activation, samples: usize) -> Outcome<Self> {
        let mut state = 0x9e3779b97f4a7c15u64;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut inputs = Array2::zeros((100, 1));
        let mut targets = Array2::zeros((100, 1));
        for n in 0..100 {
            let x = 8.0 * uniform();
            let normal = (-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
            inputs[(n, 0)] = x;
            targets[(n, 0)] = x.sin() + 0.3 * normal;
        }
        let data = standardised(&Dataset::new(inputs, targets)?)?;
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sine_{width}_{activation:?}.safetensors"));
        let network = if path.exists() {
            Network::load(&path, Some(activation))?
        } else {
            let start = Network::random(Architecture::new(&[1, width, width, 1], activation)?, 1);
            let options = TrainingOptions {
                epochs: 3000,
                learning_rate: 1e-3,
                weight_decay: 1e-4,
                decay: Decay::L2,
                ..Default::default()
            };
            let trained = train(&start, &data, &Family::gaussian(1.0)?, &options, |_, _| ())?;
            eprintln!("sine {width}: loss {}", trained.loss);
            trained.network.save(&path)?;
            trained.network
        };
        Self::new(format!("sine-{width}"), network, data, samples)
    }

    fn outputs(&self, theta: &[f64]) -> Vec<f64> {
        let map = &self.target.map;
        let mut out = vec![0.0; map.n_points() * map.n_outputs()];
        map.outputs(theta, &mut out, &mut map.workspace(1));
        out
    }
}

type Rhs<'a> = dyn FnMut(&[f64], &mut [f64]) + 'a;
/// Integrates over unit time: rhs, state, rtol, atol to evaluations.
type Solver = Box<dyn Fn(&mut Rhs<'_>, &mut [f64], f64, f64) -> usize>;

fn library(method: Method) -> Solver {
    Box::new(move |rhs, y, rtol, atol| {
        let options = IvpOptions { method, rtol, atol, max_steps: 20_000, first_step: None };
        let mut workspace = Workspace::new(method, y.len());
        solve(&mut |_: f64, y: &[f64], out: &mut [f64]| rhs(y, out), 0.0, 1.0, y, &options, &mut workspace).evaluations
    })
}

/// A plain embedded pair, FSAL.
#[derive(Clone)]
struct Pair {
    a: Vec<Vec<f64>>,
    b: Vec<f64>,
    e: Vec<f64>,
    error_order: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Norm {
    Full,
    Position,
    Max,
}

fn first_step(rhs: &mut Rhs<'_>, y: &[f64], f: &[f64], rtol: f64, atol: f64, order: usize) -> f64 {
    let norm = |v: &[f64]| {
        (v.iter().zip(y).map(|(v, y)| (v / (atol + rtol * y.abs())).powi(2)).sum::<f64>() / y.len() as f64).sqrt()
    };
    let (d0, d1) = (norm(y), norm(f));
    let h0 = if d0 < 1e-5 || d1 < 1e-5 { 1e-6 } else { 0.01 * d0 / d1 };
    let p: Vec<f64> = y.iter().zip(f).map(|(y, f)| y + h0 * f).collect();
    let mut g = vec![0.0; y.len()];
    rhs(&p, &mut g);
    let diff: Vec<f64> = g.iter().zip(f).map(|(g, f)| g - f).collect();
    let d2 = norm(&diff) / h0;
    let h1 = if d1.max(d2) <= 1e-15 { 1e-6f64.max(h0 * 1e-3) } else { (0.01 / d1.max(d2)).powf(1.0 / (order + 1) as f64) };
    (100.0 * h0).min(h1).min(1.0)
}

fn pair(pair: Pair, norm: Norm, pi: bool) -> Solver {
    Box::new(move |rhs, y, rtol, atol| {
        let n = y.len();
        let s = pair.b.len();
        let mut k = vec![vec![0.0; n]; s + 1];
        rhs(y, &mut k[0]);
        let mut evaluations = 2;
        let f0 = k[0].clone();
        let mut h = first_step(rhs, y, &f0, rtol, atol, pair.error_order);
        let mut t = 0.0;
        let mut previous: f64 = 1.0;
        let mut rejected = false;
        let mut point = vec![0.0; n];
        while t < 1.0 && evaluations < 20_000 && h > 1e-12 {
            h = h.min(1.0 - t);
            for i in 1..=s {
                let weights = if i < s { &pair.a[i - 1] } else { &pair.b };
                for d in 0..n {
                    let mut sum = 0.0;
                    for (j, w) in weights.iter().enumerate() {
                        sum += w * k[j][d];
                    }
                    point[d] = y[d] + h * sum;
                }
                let (_, rest) = k.split_at_mut(i);
                rhs(&point, &mut rest[0]);
            }
            evaluations += s;
            let range = if norm == Norm::Position { 0..n / 2 } else { 0..n };
            let count = range.len() as f64;
            let mut squares: f64 = 0.0;
            for d in range {
                let e: f64 = pair.e.iter().enumerate().map(|(j, w)| w * k[j][d]).sum();
                let scaled = h * e / (atol + rtol * y[d].abs().max(point[d].abs()));
                if norm == Norm::Max { squares = squares.max(scaled * scaled * count) } else { squares += scaled * scaled }
            }
            let error = (squares / count).sqrt();
            let q = pair.error_order as f64 + 1.0;
            if error < 1.0 {
                let mut factor = if pi {
                    0.9 * error.max(1e-10).powf(-0.7 / q) * previous.powf(0.4 / q)
                } else {
                    0.9 * error.max(1e-10).powf(-1.0 / q)
                };
                if rejected {
                    factor = factor.min(1.0);
                }
                t += h;
                h *= factor.clamp(0.2, 10.0);
                previous = error.max(1e-4);
                rejected = false;
                y.copy_from_slice(&point);
                k.swap(0, s);
            } else {
                rejected = true;
                h *= if error.is_finite() { (0.9 * error.powf(-1.0 / q)).max(0.2) } else { 0.2 };
            }
        }
        if t < 1.0 { y.fill(f64::NAN) }
        evaluations
    })
}

fn rk4() -> Pair {
    Pair {
        a: vec![vec![0.5], vec![0.0, 0.5], vec![0.0, 0.0, 1.0]],
        b: vec![1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0],
        e: vec![0.0, 0.0, 0.0, 0.1, -0.1],
        error_order: 3,
    }
}

fn bosh3() -> Pair {
    Pair {
        a: vec![vec![0.5], vec![0.0, 0.75]],
        b: vec![2.0 / 9.0, 1.0 / 3.0, 4.0 / 9.0],
        e: vec![5.0 / 72.0, -1.0 / 12.0, -1.0 / 9.0, 1.0 / 8.0],
        error_order: 2,
    }
}

fn tsit5() -> Pair {
    Pair {
        a: vec![
            vec![0.161],
            vec![-0.008480655492356989, 0.335480655492357],
            vec![2.8971530571054935, -6.359448489975075, 4.3622954328695815],
            vec![5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525],
            vec![5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383],
        ],
        b: vec![0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774],
        e: vec![
            -0.001780011052226, -0.000816434459657, 0.007880878010262, -0.1447110071733, 0.5823571654526, -0.4580821059292,
            1.0 / 66.0,
        ],
        error_order: 4,
    }
}

/// Variable-step variable-order Adams by modified divided differences.
#[derive(Clone, Copy)]
struct Adams {
    max_order: usize,
    /// Evaluate again after the correction.
    second: bool,
    safety: f64,
    growth: f64,
    /// The derivative of the position is the corrected velocity.
    fix: bool,
    /// Order by the longest step.
    longest: bool,
    start: f64,
    variable: bool,
    accept: f64,
}

const PEC: Adams =
    Adams { max_order: 11, second: false, safety: 0.8, growth: 1.3, fix: false, longest: false, start: 2.0, variable: false, accept: 1.0 };

const GAMMA: [f64; 14] = [
    1.0,
    -1.0 / 2.0,
    -1.0 / 12.0,
    -1.0 / 24.0,
    -19.0 / 720.0,
    -3.0 / 160.0,
    -863.0 / 60480.0,
    -275.0 / 24192.0,
    -33953.0 / 3628800.0,
    -8183.0 / 1036800.0,
    -3250433.0 / 479001600.0,
    -4671.0 / 788480.0,
    -0.00523669,
    -0.004677498,
];

fn adams(settings: Adams) -> Solver {
    Box::new(move |rhs, y, rtol, atol| {
        let n = y.len();
        let top = settings.max_order + 2;
        let mut phi = vec![vec![0.0; n]; top];
        let mut star = vec![vec![0.0; n]; top];
        let mut next = vec![vec![0.0; n]; top];
        rhs(y, &mut phi[0]);
        let mut evaluations = 2;
        let f0 = phi[0].clone();
        let mut h = first_step(rhs, y, &f0, rtol, atol, 1).min(1.0);
        let mut times = vec![0.0f64]; // newest last
        let mut t = 0.0;
        let mut k = 1usize;
        let mut starting = true;
        let (mut p, mut f) = (vec![0.0; n], vec![0.0; n]);
        let mut constant = 0usize; // steps at this size
        let mut fails = 0;
        while t < 1.0 && evaluations < 20_000 && h > 1e-12 {
            h = h.min(1.0 - t);
            // Past points available: k <= times.len().
            let end = t + h;
            let past = |i: usize| times[times.len() - 1 - i];
            // beta, star
            let mut beta = vec![1.0; k + 1];
            let have = times.len();
            for j in 1..=k {
                beta[j] = if j < have { beta[j - 1] * (end - past(j - 1)) / (t - past(j)) } else { 0.0 };
            }
            for j in 0..k {
                for d in 0..n {
                    star[j][d] = beta[j] * phi[j][d];
                }
            }
            if k < have {
                for d in 0..n {
                    star[k][d] = beta[k] * phi[k][d];
                }
            }
            // g
            let size = k + 3;
            let mut c: Vec<f64> = (1..=size).map(|q| 1.0 / q as f64).collect();
            let mut g = vec![c[0]];
            for j in 1..=k + 1 {
                let ratio = if j == 1 { 1.0 } else if j - 1 < have { h / (end - past(j - 1)) } else { 0.0 };
                for q in 0..size - j {
                    c[q] = if j == 1 { 1.0 / ((q + 1) as f64 * (q + 2) as f64) } else { c[q] - c[q + 1] * ratio };
                }
                g.push(c[0]);
            }
            for d in 0..n {
                let mut sum = 0.0;
                for j in 0..k {
                    sum += g[j] * star[j][d];
                }
                p[d] = y[d] + h * sum;
            }
            rhs(&p, &mut f);
            evaluations += 1;
            // next phi
            let upto = if k < have { k + 1 } else { k };
            next[0].copy_from_slice(&f);
            for j in 1..=upto {
                let (low, high) = next.split_at_mut(j);
                for d in 0..n {
                    high[0][d] = low[j - 1][d] - star[j - 1][d];
                }
            }
            let scale: Vec<f64> = (0..n).map(|d| atol + rtol * y[d].abs().max(p[d].abs())).collect();
            let norm = |v: &[f64], factor: f64| {
                let mut sum = 0.0;
                for d in 0..n {
                    let scaled = v[d] * factor / scale[d];
                    sum += scaled * scaled;
                }
                (sum / n as f64).sqrt()
            };
            let error = norm(&next[k], h * (g[k] - g[k - 1]).abs());
            let at = |q: usize| if settings.longest || settings.variable { g[q] - g[q - 1] } else { GAMMA[q] };
            let lower = if k >= 2 { norm(&next[k - 1], h * at(k - 1).abs()) } else { f64::INFINITY };
            let lower2 = if k >= 3 { norm(&next[k - 2], h * at(k - 2).abs()) } else { 0.0 };
            if !(error < settings.accept) {
                fails += 1;
                h *= if error.is_finite() { (settings.safety * error.powf(-1.0 / (k as f64 + 1.0))).clamp(0.2, 0.9) } else { 0.2 };
                if starting { starting = false; }
                if k >= 2 && lower.max(lower2) <= error { k -= 1; }
                if fails >= 3 { k = 1; h *= 0.5; }
                constant = 0;
                continue;
            }
            fails = 0;
            // Correct.
            for d in 0..n {
                y[d] = p[d] + h * g[k] * next[k][d];
            }
            if settings.second {
                rhs(y, &mut f);
                evaluations += 1;
                next[0].copy_from_slice(&f);
                for j in 1..=upto {
                    let (low, high) = next.split_at_mut(j);
                    for d in 0..n {
                        high[0][d] = low[j - 1][d] - star[j - 1][d];
                    }
                }
            }
            if settings.fix {
                next[0][..n / 2].copy_from_slice(&y[n / 2..]);
                for j in 1..=upto {
                    let (low, high) = next.split_at_mut(j);
                    for d in 0..n / 2 {
                        high[0][d] = low[j - 1][d] - star[j - 1][d];
                    }
                }
            }
            std::mem::swap(&mut phi, &mut next);
            t = end;
            times.push(t);
            if times.len() > top + 2 { times.remove(0); }
            constant += 1;
            // Order.
            let mut used = error;
            if starting && k < settings.max_order.min(11) && error < 0.5 && k + 1 <= times.len() {
                if k >= 3 && lower.max(lower2) <= error { starting = false; } else {
                k += 1;
                h *= settings.start;
                constant = 0;
                continue;
                }
            }
            starting = false;
            if settings.longest {
                let step = |error: f64, q: usize| settings.safety * error.max(1e-10).powf(-1.0 / (q as f64 + 1.0));
                let here = step(error, k);
                let down = if k >= 2 { step(lower, k - 1) } else { 0.0 };
                let up = if upto == k + 1 && k < settings.max_order.min(11) && constant > k { step(norm(&phi[k + 1], h * at(k + 1).abs()), k + 1) } else { 0.0 };
                if down > here && down >= up { k -= 1; used = lower; }
                else if up > 1.1 * here { used = norm(&phi[k + 1], h * at(k + 1).abs()); k += 1; }
            } else if k >= 2 && lower.max(lower2) <= error {
                k -= 1;
                used = lower;
            } else if k < settings.max_order.min(11) && upto == k + 1 && constant > k {
                let higher = norm(&phi[k + 1], h * at(k + 1).abs());
                if higher < error && (k == 1 && higher < 0.5 * error || k > 1) {
                    k += 1;
                    used = higher;
                }
            }
            let r = settings.safety * used.max(1e-10).powf(-1.0 / (k as f64 + 1.0));
            if settings.growth < 0.0 { h *= r.clamp(0.5, -settings.growth); }
            else if r >= 2.0 { h *= 2.0; constant = 0; }
            else if r >= 1.0 { if r > settings.growth { h *= settings.growth; constant = 0; } }
            else { h *= r.clamp(0.5, 0.95); constant = 0; }
        }
        if t < 1.0 { y.fill(f64::NAN) }
        evaluations
    })
}

/// Adams for x'' = a(x, x'): the velocity by the Adams formulas, the position by integrating the same polynomial twice.
#[derive(Clone, Copy)]
struct Second {
    max_order: usize,
    safety: f64,
    /// 0: every number relative to itself; 1: relative to the root mean square of all positions and all velocities.
    norm: usize,
    /// 0: Shampine and Gordon; 1: the order that allows the longest step.
    control: usize,
    growth: f64,
    second: bool,
}

fn second(settings: Second) -> Solver {
    Box::new(move |rhs, y, rtol, atol| {
        let n = y.len() / 2;
        let top = settings.max_order + 3;
        let mut phi = vec![vec![0.0; n]; top];
        let mut star = vec![vec![0.0; n]; top];
        let mut next = vec![vec![0.0; n]; top];
        let mut full = vec![0.0; 2 * n];
        rhs(y, &mut full);
        phi[0].copy_from_slice(&full[n..]);
        let mut evaluations = 2;
        let mut h = first_step(rhs, y, &full, rtol, atol, 1);
        let mut times = vec![0.0f64];
        let mut t = 0.0;
        let mut k = 1usize;
        let mut starting = true;
        let mut p = vec![0.0; 2 * n];
        let mut since = 0;
        let mut fails = 0;
        while t < 1.0 && evaluations < 20_000 && h > 1e-12 {
            if h > 1.0 - t { h = 1.0 - t } else if h > 0.5 * (1.0 - t) { h = 0.5 * (1.0 - t) }
            let end = t + h;
            let have = times.len();
            let past = |i: usize| times[times.len() - 1 - i];
            let mut beta = vec![1.0; k + 2];
            for j in 1..=k + 1 {
                beta[j] = if j < have { beta[j - 1] * (end - past(j - 1)) / (t - past(j)) } else { 0.0 };
            }
            // Differences in hand: phi_0 .. phi_{have - 1}.
            let upto = k.min(have - 1);
            for j in 0..=upto {
                for d in 0..n {
                    star[j][d] = beta[j] * phi[j][d];
                }
            }
            let size = k + 4;
            let mut c: Vec<f64> = (1..=size).map(|q| 1.0 / q as f64).collect();
            // The double integral of the basis function j is c_{j,2}.
            let (mut g, mut w) = (vec![1.0], vec![0.5]);
            for j in 1..=k + 1 {
                let ratio = if j == 1 { 1.0 } else { h / (end - past(j - 1)) };
                for q in 0..size - j {
                    c[q] = if j == 1 { 1.0 / ((q + 1) as f64 * (q + 2) as f64) } else { c[q] - c[q + 1] * ratio };
                }
                g.push(c[0]);
                w.push(c[1]);
                if j >= have { break }
            }
            for d in 0..n {
                let (mut sum, mut twice) = (0.0, 0.0);
                for j in 0..k {
                    sum += g[j] * star[j][d];
                    twice += w[j] * star[j][d];
                }
                p[d] = y[d] + h * (y[n + d] + h * twice);
                p[n + d] = y[n + d] + h * sum;
            }
            rhs(&p, &mut full);
            evaluations += 1;
            let high = upto + 1;
            next[0].copy_from_slice(&full[n..]);
            for j in 1..=high {
                let (low, rest) = next.split_at_mut(j);
                for d in 0..n {
                    rest[0][d] = low[j - 1][d] - star[j - 1][d];
                }
            }
            let rms = |v: &[f64]| (v.iter().map(|v| v * v).sum::<f64>() / n as f64).sqrt();
            let scale: Vec<f64> = if settings.norm == 0 {
                (0..2 * n).map(|d| atol + rtol * y[d].abs().max(p[d].abs())).collect()
            } else {
                let (x, v) = (rms(&y[..n]), rms(&y[n..]));
                (0..2 * n).map(|d| atol + rtol * if d < n { x } else { v }).collect()
            };
            let norm = |row: &[f64], single: f64, double: f64| {
                let mut sum = 0.0;
                for d in 0..n {
                    sum += (row[d] * double / scale[d]).powi(2) + (row[d] * single / scale[n + d]).powi(2);
                }
                (sum / (2 * n) as f64).sqrt()
            };
            let estimate = |q: usize| {
                // Error of order q: the change by one more difference.
                norm(&next[q], h * (g[q] - g[q - 1]), h * h * (w[q] - w[q - 1]))
            };
            let error = estimate(k);
            let lower = if k >= 2 { estimate(k - 1) } else { f64::INFINITY };
            let lower2 = if k >= 3 { estimate(k - 2) } else { 0.0 };
            if !(error < 1.0) {
                fails += 1;
                h *= if error.is_finite() { (settings.safety * error.powf(-1.0 / (k as f64 + 1.0))).clamp(0.2, 0.9) } else { 0.2 };
                starting = false;
                if k >= 2 && lower.max(lower2) <= error { k -= 1; }
                if fails >= 3 { k = 1; h *= 0.5; }
                since = 0;
                continue;
            }
            fails = 0;
            for d in 0..n {
                y[d] = p[d] + h * h * w[k] * next[k][d];
                y[n + d] = p[n + d] + h * g[k] * next[k][d];
            }
            let higher = if high == k + 1 { estimate(k + 1) } else { f64::INFINITY };
            if settings.second {
                rhs(y, &mut full);
                evaluations += 1;
                next[0].copy_from_slice(&full[n..]);
                for j in 1..=high {
                    let (low, rest) = next.split_at_mut(j);
                    for d in 0..n {
                        rest[0][d] = low[j - 1][d] - star[j - 1][d];
                    }
                }
            }
            std::mem::swap(&mut phi, &mut next);
            t = end;
            times.push(t);
            if times.len() > top + 2 { times.remove(0); }
            since += 1;
            if starting {
                if k < settings.max_order && error < 0.5 && !(k >= 3 && lower.max(lower2) <= error) {
                    k += 1;
                    h *= 2.0;
                    since = 0;
                    continue;
                }
                starting = false;
            }
            let step = |error: f64, q: usize| settings.safety * error.max(1e-10).powf(-1.0 / (q as f64 + 1.0));
            let mut r = step(error, k);
            if settings.control == 0 {
                if k >= 2 && lower.max(lower2) <= error {
                    k -= 1;
                    r = step(lower, k);
                } else if k < settings.max_order && since > k && higher < error && (k > 1 || higher < 0.5 * error) {
                    k += 1;
                    r = step(higher, k);
                    since = 0;
                }
            } else if since > k {
                let (down, up) = (if k > 1 { step(lower, k - 1) } else { 0.0 }, if k < settings.max_order { step(higher, k + 1) } else { 0.0 });
                if down * 0.95 > r && down > up { k -= 1; r = down; since = 0; }
                else if up * 0.95 > r { k += 1; r = up; since = 0; }
            } else if k >= 2 && lower.max(lower2) <= error { k -= 1; r = step(lower, k); since = 0; }
            if settings.growth > 0.0 {
                h *= if r >= 2.0 { 2.0 } else if r >= settings.growth { settings.growth } else if r >= 1.0 { 1.0 } else { r.clamp(0.5, 0.95) };
            } else {
                h *= r.clamp(0.5, -settings.growth);
            }
        }
        if t < 1.0 { y.fill(f64::NAN) }
        evaluations
    })
}

fn solver(name: &str) -> Option<Solver> {
    Some(match name {
        "dopri5" => library(Method::Dopri5),
        "dop853" => library(Method::Dop853),
        "bosh3" => library(Method::Bosh3),
        "adams" => library(Method::Adams),
        "bosh3pi" => pair(bosh3(), Norm::Full, true),
        "rk4" => pair(rk4(), Norm::Full, false),
        "rk4pi" => pair(rk4(), Norm::Full, true),
        "rk4pos" => pair(rk4(), Norm::Position, false),
        "rk4max" => pair(rk4(), Norm::Max, false),
        "tsit5" => pair(tsit5(), Norm::Full, false),
        "tsit5pos" => pair(tsit5(), Norm::Position, false),
        "tsit5pi" => pair(tsit5(), Norm::Full, true),
        name => {
            let (kind, order) = name.split_once('-')?;
            let max_order: usize = order.parse().ok()?;
            match kind {
                "pece" => adams(Adams { max_order, second: true, ..PEC }),
                "ny" => second(Second { max_order, safety: 0.8, norm: 0, control: 0, growth: 1.3, second: false }),
                "nyece" => second(Second { max_order, safety: 0.8, norm: 0, control: 0, growth: 1.3, second: true }),
                "nysm" => second(Second { max_order, safety: 0.8, norm: 0, control: 0, growth: -1.2, second: false }),
                "nyrms" => second(Second { max_order, safety: 0.8, norm: 1, control: 0, growth: 1.3, second: false }),
                "nymax" => second(Second { max_order, safety: 0.8, norm: 0, control: 1, growth: 1.3, second: false }),
                "ny7" => second(Second { max_order, safety: 0.7, norm: 0, control: 0, growth: 1.3, second: false }),
                "pec" => adams(Adams { max_order, ..PEC }),
                "var" => adams(Adams { max_order, variable: true, growth: 1.2, start: 2.5, ..PEC }),
                "best" => adams(Adams { max_order, growth: 1.2, start: 2.5, ..PEC }),
                "s7" => adams(Adams { max_order, safety: 0.7, ..PEC }),
                "s9" => adams(Adams { max_order, safety: 0.9, ..PEC }),
                "g12" => adams(Adams { max_order, growth: 1.2, ..PEC }),
                "g15" => adams(Adams { max_order, growth: 1.5, ..PEC }),
                "sm" => adams(Adams { max_order, growth: -1.2, ..PEC }),
                "fix" => adams(Adams { max_order, fix: true, ..PEC }),
                "long" => adams(Adams { max_order, longest: true, ..PEC }),
                "st3" => adams(Adams { max_order, start: 3.0, ..PEC }),
                "acc2" => adams(Adams { max_order, accept: 2.0, ..PEC }),
                _ => return None,
            }
        }
    })
}

struct Reference {
    outputs: Vec<Vec<f64>>,
}

/// Mean evaluations, median and largest drift, median and largest output error of one method at one tolerance.
fn study(problem: &Problem, name: &str, rtol: f64, reference: &Reference) -> (f64, f64, f64, f64, f64) {
    let Some(solver) = solver(name) else { return (0.0, 0.0, 0.0, 0.0, 0.0) };
    let (mut drifts, mut errors, mut total) = (Vec::new(), Vec::new(), 0);
    for (velocity, exact) in problem.velocities.rows().into_iter().zip(&reference.outputs) {
        let (evaluations, drift, theta) = run(problem, &solver, &velocity.to_vec(), rtol);
        total += evaluations;
        drifts.push(drift);
        let outputs = problem.outputs(&theta);
        let squares: f64 = outputs.iter().zip(exact).map(|(a, b)| (a - b).powi(2)).sum();
        errors.push((squares / exact.len() as f64).sqrt() / problem.sigma);
    }
    drifts.sort_by(f64::total_cmp);
    errors.sort_by(f64::total_cmp);
    let n = drifts.len();
    (total as f64 / n as f64, drifts[n / 2], drifts[n - 1], errors[n / 2], errors[n - 1])
}

fn run(problem: &Problem, solver: &Solver, velocity: &[f64], rtol: f64) -> (usize, f64, Vec<f64>) {
    let metric: Box<dyn metric::Metric> = match problem.kind {
        'm' => Box::new(metric::monge(&problem.target)),
        'e' => Box::new(metric::empirical_fisher(&problem.target)),
        _ => Box::new(metric::fisher(&problem.target)),
    };
    let mut evaluator = metric.evaluator();
    let base = problem.laplace.network().parameters();
    let n = base.len();
    let mut y = [base, velocity].concat();
    let start = evaluator.squared_speed(base, velocity);
    let evaluations = solver(
        &mut |y: &[f64], out: &mut [f64]| {
            let (theta, velocity) = y.split_at(n);
            out[..n].copy_from_slice(velocity);
            evaluator.acceleration(theta, velocity, &mut out[n..]);
        },
        &mut y,
        rtol,
        1e-3 * rtol,
    );
    let end = evaluator.squared_speed(&y[..n], &y[n..]);
    y.truncate(n);
    (evaluations, (end / start - 1.0).abs(), y)
}

/// Mean evaluations until certified, with a first tolerance and the present refinement.
fn certified(problem: &Problem, name: &str, first: f64) -> (f64, f64) {
    let Some(solver) = solver(name) else { return (0.0, 0.0) };
    let (mut total, mut attempts) = (0, 0);
    for velocity in problem.velocities.rows() {
        let mut rtol = first;
        for _ in 0..7 {
            let (evaluations, drift, _) = run(problem, &solver, &velocity.to_vec(), rtol);
            total += evaluations;
            attempts += 1;
            if drift <= 1e-3 {
                break;
            }
            let missing = 0.5e-3 / drift;
            rtol *= if missing.is_finite() { missing.clamp(1e-3, 0.2) } else { 0.1 };
        }
    }
    let n = problem.velocities.nrows() as f64;
    (total as f64 / n, attempts as f64 / n)
}

/// Ritz values of the Jacobian of the geodesic flow halfway along a geodesic.
fn spectrum(problem: &Problem) {
    let metric = metric::fisher(&problem.target);
    let mut evaluator = metric.pullback_evaluator();
    let base = problem.laplace.network().parameters();
    let n = base.len();
    let velocity = problem.velocities.row(0).to_vec();
    let mut y = [base, &velocity].concat();
    let mut rhs = |y: &[f64], out: &mut [f64]| {
        let (theta, velocity) = y.split_at(n);
        out[..n].copy_from_slice(velocity);
        evaluator.acceleration(theta, velocity, &mut out[n..]);
    };
    let options = IvpOptions { method: Method::Dop853, rtol: 1e-6, atol: 1e-9, max_steps: 9999, first_step: None };
    let mut workspace = Workspace::new(Method::Dop853, y.len());
    solve(&mut |_: f64, y: &[f64], out: &mut [f64]| rhs(y, out), 0.0, 0.5, &mut y, &options, &mut workspace);
    let m = 60.min(2 * n);
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut h = Mat::<f64>::zeros(m, m);
    let mut q: Vec<f64> = (0..2 * n).map(|i| ((i * 7919 % 1009) as f64 / 1009.0) - 0.5).collect();
    let norm = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    let size = norm(&q);
    q.iter_mut().for_each(|q| *q /= size);
    basis.push(q);
    let step = 1e-6 * norm(&y);
    for j in 0..m {
        let plus: Vec<f64> = y.iter().zip(&basis[j]).map(|(y, q)| y + step * q).collect();
        let minus: Vec<f64> = y.iter().zip(&basis[j]).map(|(y, q)| y - step * q).collect();
        let (mut a, mut b) = (vec![0.0; 2 * n], vec![0.0; 2 * n]);
        rhs(&plus, &mut a);
        rhs(&minus, &mut b);
        let mut w: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (a - b) / (2.0 * step)).collect();
        for _ in 0..2 {
            for i in 0..=j {
                let dot: f64 = w.iter().zip(&basis[i]).map(|(a, b)| a * b).sum();
                h[(i, j)] += dot;
                w.iter_mut().zip(&basis[i]).for_each(|(w, b)| *w -= dot * b);
            }
        }
        let size = norm(&w);
        if j + 1 < m {
            h[(j + 1, j)] = size;
        }
        w.iter_mut().for_each(|w| *w /= size);
        basis.push(w);
    }
    let Ok(mut values) = h.eigenvalues() else { return };
    values.sort_by(|a, b| b.norm().total_cmp(&a.norm()));
    print!("{} D {} spectrum:", problem.name, n);
    for value in values.iter().take(24) {
        print!(" {:.1}{:+.1}i", value.re, value.im);
    }
    println!();
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if arguments.len() < 4 {
        return Ok(());
    }
    let samples: usize = arguments[2].parse()?;
    for name in arguments[1].split(',') {
        let (kind, name) = name.split_once(':').unwrap_or(("f", name));
        let mut problem = match name {
            "cr" => Problem::snelson("complete", "raw", samples)?,
            "gr" => Problem::snelson("gap", "raw", samples)?,
            "cs" => Problem::snelson("complete", "std", samples)?,
            "gs" => Problem::snelson("gap", "std", samples)?,
            "relu" => Problem::sine(10, Activation::Relu, samples)?,
            width => Problem::sine(width.parse()?, Activation::Tanh, samples)?,
        };
        problem.kind = kind.chars().next().unwrap_or('f');
        match arguments[0].as_str() {
            "spectrum" => spectrum(&problem),
            "cost" => {
                for method in arguments[3].split(',') {
                    let Some(solver) = solver(method) else { continue };
                    for rtol in [1e-3, 1e-4] {
                        for velocity in problem.velocities.rows() {
                            let (t, drift, _) = run(&problem, &solver, &velocity.to_vec(), rtol);
                            println!("{:>13} {method:>8} {rtol:>6.0e} T {t:>6} drift {drift:.1e}", problem.name);
                        }
                    }
                }
            }
            "ladder" => {
                let exact = library(Method::Dop853);
                let outputs = problem.velocities.rows().into_iter().map(|v| {
                    problem.outputs(&run(&problem, &exact, &v.to_vec(), 1e-10).2)
                });
                let reference = Reference { outputs: outputs.collect() };
                for method in arguments[3].split(',') {
                    for rtol in [1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6] {
                        let (t, median, most, error, worst) = study(&problem, method, rtol, &reference);
                        println!("{:>13} {method:>8} {rtol:>6.0e} T {t:>6.1} drift {median:.1e} {most:.1e} error {error:.1e} {worst:.1e}", problem.name);
                    }
                }
            }
            _ => {
                for method in arguments[3].split(',') {
                    print!("{:>13} {method:>8}", problem.name);
                    for rtol in [3e-3, 1e-3, 3e-4, 1e-4, 3e-5] {
                        let begin = Instant::now();
                        let (t, attempts) = certified(&problem, method, rtol);
                        let _ = begin.elapsed();
                        print!("  {rtol:.0e}: {t:.0} ({attempts:.2})");
                    }
                    println!();
                }
            }
        }
    }
    let _ = array![0.0];
    Ok(())
}

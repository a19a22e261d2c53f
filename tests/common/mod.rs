//! What the tests share: networks and data from fixed seeds, a forward pass written out in loops, comparisons, files.

#![allow(dead_code)] // Every test binary compiles this file and uses its own part of it.

pub mod geometry;

use std::error::Error;
use std::path::{Path, PathBuf};

use faer::Mat;
use ndarray::{Array1, Array2, Axis};
use rand::Rng;
use riemannian_laplace::Dataset;
use riemannian_laplace::Family;
use riemannian_laplace::internals::random::{Purpose, fill_standard_normal, stream};
use riemannian_laplace::{Activation, Architecture, Network};

pub type Outcome = Result<(), Box<dyn Error>>;

/// A vector of standard normal numbers.
pub fn normal_vector(size: usize, seed: u64) -> Vec<f64> {
    let mut values = vec![0.0; size];
    fill_standard_normal(&mut stream(seed, Purpose::Velocity, 0x7e57), &mut values);
    values
}

/// A matrix of standard normal numbers.
pub fn normal_matrix(rows: usize, columns: usize, seed: u64) -> Array2<f64> {
    let values = normal_vector(rows * columns, seed);
    Array2::from_shape_fn((rows, columns), |(i, j)| values[i * columns + j])
}

/// A network with normal weights of variance 1/inputs (of a unit or a patch) and small biases, so that units are neither dead nor saturated.
pub fn random_network(architecture: Architecture, seed: u64) -> Network {
    let mut theta = normal_vector(architecture.n_params(), seed);
    let mut rest = theta.as_mut_slice();
    for group in architecture.parameter_groups() {
        let (values, others) = rest.split_at_mut(group.size());
        match (group.name.ends_with("bias"), group.shape.as_slice()) {
            (true, _) => values.iter_mut().for_each(|value| *value *= 0.3),
            (false, [_, inputs @ ..]) => {
                let inputs = inputs.iter().product::<usize>() as f64;
                values.iter_mut().for_each(|value| *value /= inputs.sqrt());
            }
            (false, []) => {}
        }
        rest = others;
    }
    Network::new(architecture, theta).expect("the parameters fit the architecture")
}

/// Inputs from a standard normal distribution, and targets from the likelihood at the network's outputs, disturbed so
/// that the network is not the very source of its data.
pub fn random_data(network: &Network, family: &Family, points: usize, seed: u64) -> Dataset {
    let architecture = network.architecture();
    let inputs = normal_matrix(points, architecture.n_inputs(), seed);
    let mut outputs = forward(architecture, network.parameters(), &inputs);
    outputs += &(0.3 * normal_matrix(points, architecture.n_outputs(), seed + 1));
    Dataset::new(inputs, draw_targets(family, &outputs, seed)).expect("finite data")
}

/// One draw of the targets at each row of outputs.
pub fn draw_targets(family: &Family, outputs: &Array2<f64>, seed: u64) -> Array2<f64> {
    let mut generator = stream(seed, Purpose::Velocity, 0xda7a);
    match family.likelihood().name() {
        "gaussian" => {
            let noise = normal_matrix(outputs.nrows(), outputs.ncols(), seed + 2);
            let sigmas = family.sigma().unwrap_or_default();
            Array2::from_shape_fn(outputs.dim(), |at| outputs[at] + sigmas[at.1 % sigmas.len()] * noise[at])
        }
        "heteroscedastic" => {
            let targets = outputs.ncols() / 2;
            let noise = normal_matrix(outputs.nrows(), targets, seed + 2);
            Array2::from_shape_fn(noise.dim(), |(n, k)| {
                outputs[(n, k)] + (0.5 * outputs[(n, targets + k)]).exp() * noise[(n, k)]
            })
        }
        "bernoulli" => outputs.mapv(|f| {
            let probability = 1.0 / (1.0 + (-f).exp());
            if generator.random::<f64>() < probability { 1.0 } else { 0.0 }
        }),
        "categorical" => Array2::from_shape_fn((outputs.nrows(), 1), |(n, _)| {
            let weights = outputs.row(n).mapv(f64::exp);
            let mut rest = generator.random::<f64>() * weights.sum();
            let mut label = 0;
            while label + 1 < weights.len() && rest > weights[label] {
                rest -= weights[label];
                label += 1;
            }
            label as f64
        }),
        // The number of unit exponentials that fit into the rate.
        "poisson" => outputs.mapv(|f| {
            let (mut rest, mut count) = (f.exp(), -1.0);
            while rest > 0.0 {
                rest += (1.0 - generator.random::<f64>()).ln();
                count += 1.0;
            }
            count
        }),
        _ => {
            let likelihood = family.likelihood();
            let mut targets = Array2::zeros((outputs.nrows(), likelihood.n_targets(outputs.ncols())));
            for (output, mut target) in outputs.rows().into_iter().zip(targets.rows_mut()) {
                let mut drawn = vec![0.0; target.len()];
                likelihood.draw(&output.to_vec(), &mut generator, &mut drawn);
                target.assign(&Array1::from(drawn));
            }
            targets
        }
    }
}

/// The sums of every layer at one input, first layer first, in plain loops: the network's definition.
pub fn layer_sums(architecture: &Architecture, theta: &[f64], input: &[f64]) -> Vec<Vec<f64>> {
    let mut sums: Vec<Vec<f64>> = Vec::new();
    let mut offset = 0;
    let activation = architecture.activation().expect("a plain multilayer perceptron");
    for layer in architecture.linear_layers() {
        let hidden: Vec<f64> = match sums.last() {
            Some(before) => before.iter().map(|z| activation.value(*z)).collect(),
            None => input.to_vec(),
        };
        let bias = offset + layer.inputs * layer.outputs;
        let sum = |o: usize| {
            let products = (0..layer.inputs).map(|i| theta[offset + o * layer.inputs + i] * hidden[i]);
            products.sum::<f64>() + if layer.bias { theta[bias + o] } else { 0.0 }
        };
        sums.push((0..layer.outputs).map(sum).collect());
        offset = bias + if layer.bias { layer.outputs } else { 0 };
    }
    sums
}

/// The outputs at every input, one row each.
pub fn forward(architecture: &Architecture, theta: &[f64], inputs: &Array2<f64>) -> Array2<f64> {
    let mut outputs = Array2::zeros((inputs.nrows(), architecture.n_outputs()));
    for (n, input) in inputs.rows().into_iter().enumerate() {
        let sums = layer_sums(architecture, theta, &input.to_vec());
        outputs.row_mut(n).assign(&Array1::from(sums[sums.len() - 1].clone()));
    }
    outputs
}

/// The Jacobian by five-point differences of [`forward`]: row `n·P + p`, point by point.
///
/// With steps of 2e-3 the truncation is h⁴/30 ≈ 5e-13 fifth derivatives and the rounding ε/h ≈ 1e-13.
pub fn jacobian_by_differences(architecture: &Architecture, theta: &[f64], inputs: &Array2<f64>) -> Mat<f64> {
    let (n, p, step) = (inputs.nrows(), architecture.n_outputs(), 2e-3);
    let mut jacobian = Mat::zeros(n * p, theta.len());
    let mut moved = theta.to_vec();
    for d in 0..theta.len() {
        for (multiple, weight) in [(-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)] {
            moved[d] = theta[d] + multiple * step;
            for (row, output) in forward(architecture, &moved, inputs).iter().enumerate() {
                jacobian[(row, d)] += weight * output / (12.0 * step);
            }
        }
        moved[d] = theta[d];
    }
    jacobian
}

/// Every shape the tests go through: no hidden layer to three, with and without biases, one to three outputs.
pub fn shapes() -> Vec<(Vec<usize>, Vec<bool>)> {
    vec![
        (vec![3, 2], vec![true]),
        (vec![2, 1], vec![false]),
        (vec![2, 5, 1], vec![true, true]),
        (vec![1, 4, 3], vec![true, false]),
        (vec![2, 4, 3, 2], vec![true, true, true]),
        (vec![3, 2, 6, 3], vec![false, false, false]),
        (vec![2, 4, 3, 5, 1], vec![false, true, false, true]),
    ]
}

/// The architecture of that shape.
pub fn architecture(sizes: &[usize], biases: &[bool], activation: Activation) -> Architecture {
    Architecture::with_biases(sizes, biases, activation).expect("a valid shape")
}

/// |a − b| ≤ tolerance · max(|a|, |b|, floor); a NaN is never close.
pub fn is_close(a: f64, b: f64, tolerance: f64, floor: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(floor)
}

/// Fails unless every pair differs by no more than the tolerance times the largest entry of either.
pub fn assert_all_close<'a>(
    found: impl IntoIterator<Item = &'a f64>,
    expected: impl IntoIterator<Item = &'a f64>,
    tolerance: f64,
    what: &str,
) {
    let found: Vec<f64> = found.into_iter().copied().collect();
    let expected: Vec<f64> = expected.into_iter().copied().collect();
    assert_eq!(found.len(), expected.len(), "{what}: the lengths differ");
    let largest = found.iter().chain(&expected).fold(f64::MIN_POSITIVE, |top, value| top.max(value.abs()));
    for (index, (a, b)) in found.iter().zip(&expected).enumerate() {
        assert!((a - b).abs() <= tolerance * largest, "{what}: entry {index} is {a}, expected {b} (largest {largest})");
    }
}

/// A symmetric matrix as a list, row by row, from its lower triangle.
pub fn lower_as_list(matrix: &Mat<f64>) -> Vec<f64> {
    let (rows, columns) = (matrix.nrows(), matrix.ncols());
    (0..rows * columns).map(|i| matrix[((i / columns).max(i % columns), (i / columns).min(i % columns))]).collect()
}

/// A matrix as a list, row by row.
pub fn as_list(matrix: &Mat<f64>) -> Vec<f64> {
    let columns = matrix.ncols();
    (0..matrix.nrows() * columns).map(|i| matrix[(i / columns, i % columns)]).collect()
}

/// A file of the repository.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A header, and the cells of each row.
pub type TextRows = (Vec<String>, Vec<Vec<String>>);

/// A CSV file with a header: the names, and the cells as text.
pub fn read_csv(path: &Path) -> Result<TextRows, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines = text.lines().map(|line| line.split(',').map(|cell| cell.trim().to_string()).collect());
    let header = lines.next().ok_or("an empty file")?;
    Ok((header, lines.collect()))
}

/// The cells of a CSV file as numbers.
pub fn read_numbers(path: &Path) -> Result<Array2<f64>, Box<dyn Error>> {
    let (header, rows) = read_csv(path)?;
    let mut values = Vec::new();
    for row in &rows {
        for cell in row {
            values.push(cell.parse::<f64>()?);
        }
    }
    Ok(Array2::from_shape_vec((rows.len(), header.len()), values)?)
}

/// The column `y`, which comes last, as targets and all others as inputs.
pub fn read_dataset(path: &Path) -> Result<Dataset, Box<dyn Error>> {
    let table = read_numbers(path)?;
    let last = table.ncols() - 1;
    let (inputs, targets) = table.view().split_at(Axis(1), last);
    Ok(Dataset::new(inputs.to_owned(), targets.to_owned())?)
}

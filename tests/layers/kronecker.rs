//! The curvature of blocks of parameters in layers other than linear ones.

use faer::Mat;
use riemannian_laplace::internals::map::{BlockShape, BlockSums};
use riemannian_laplace::{Activation, Architecture, BatchNorm, Conv2d, Image, Linear, Model, Network};

use super::common::{Outcome, as_list, assert_all_close, lower_as_list, normal_matrix, normal_vector, random_network};
use super::{Case, POINTS, bound, cases, dense, matrices, pulled_back};

#[test]
fn the_blocks_of_parameters_without_matrix_form_are_exact() {
    let mut compared = 0;
    for Case { network, map, name, .. } in cases() {
        let (theta, p) = (network.parameters(), map.n_outputs());
        let seeds = normal_vector(POINTS * p * p, 81);
        let sums = pulled_back(&map, theta, &seeds, p).kronecker(&[]);
        let rows = dense(&map, theta, &seeds, p);
        let shapes = network.blocks();
        assert_eq!(shapes.len(), sums.len(), "{name}");
        let mut start = 0;
        for (shape, sum) in shapes.iter().zip(&sums) {
            if let (BlockShape::Dense { size }, BlockSums::Dense(sum)) = (shape, sum) {
                let block = rows.get(.., start..start + size);
                let expected = block.transpose() * block;
                assert_all_close(&lower_as_list(sum), &lower_as_list(&expected), 1e-13, &name);
                compared += 1;
            }
            start += shape.size();
        }
        assert_eq!(start, theta.len(), "{name}");
    }
    assert!(compared > 20, "only {compared} blocks");
}

#[test]
fn the_factors_of_a_convolution_are_sums_over_points_and_positions() -> Outcome {
    let conv = Conv2d { stride: [2, 1], padding: [1, 0], groups: 2, ..Conv2d::new(Image::new(2, 4, 3), 4, [3, 2]) };
    let (output, outputs) = (conv.output(), conv.output().size());
    // A shift of its own for every output, all zero: its rows are the sensitivities of the convolution's outputs.
    let probe = BatchNorm {
        eps: 0.0,
        weight: false,
        ..BatchNorm::new(Image::new(outputs, 1, 1), vec![0.0; outputs], vec![1.0; outputs])
    };
    let tail = [Activation::Tanh.into(), Linear::new(outputs, 3).into()];
    let plain = Architecture::of_layers([vec![conv.into()], tail.to_vec()].concat())?;
    let probed = Architecture::of_layers([vec![conv.into(), probe.into()], tail.to_vec()].concat())?;
    let (network, inputs) = (random_network(plain, 5), normal_matrix(POINTS, conv.input.size(), 6));
    let first = conv.n_weights() + conv.outputs;
    let (own, rest) = network.parameters().split_at(first);
    let theta = [own.to_vec(), vec![0.0; outputs], rest.to_vec()].concat();
    let with_probe = Network::new(probed, theta)?;

    let seeds = normal_vector(POINTS * 3 * 3, 7);
    let sums = pulled_back(&bound(network.architecture(), &inputs), network.parameters(), &seeds, 3).kronecker(&[]);
    let rows = dense(&bound(with_probe.architecture(), &inputs), with_probe.parameters(), &seeds, 3);
    let factors = matrices(&sums);
    let positions = output.pixels();
    for group in 0..2 {
        let found = &factors[group];
        assert_eq!(found.count, (POINTS * positions) as f64);
        let (mut patches, mut deltas) = (Mat::zeros(6, 6), Mat::<f64>::zeros(2, 2));
        for (y, x) in (0..output.height).flat_map(|y| (0..output.width).map(move |x| (y, x))) {
            for input in inputs.rows() {
                // Row 2y + i of the image with a frame of one row.
                let tap = |k: usize| match (2 * y + k / 2).checked_sub(1) {
                    Some(row) if row < 4 => input[group * 12 + row * 3 + x + k % 2],
                    _ => 0.0,
                };
                (0..36).for_each(|k| patches[(k / 6, k % 6)] += tap(k / 6) * tap(k % 6));
            }
            let column = |o: usize| first + (2 * group + o) * positions + y * output.width + x;
            for row in rows.row_iter() {
                (0..4).for_each(|k| deltas[(k / 2, k % 2)] += row[column(k / 2)] * row[column(k % 2)]);
            }
        }
        assert_all_close(&lower_as_list(&found.inputs), &lower_as_list(&patches), 1e-13, "patches");
        assert_all_close(&lower_as_list(&found.sensitivities), &lower_as_list(&deltas), 1e-13, "sensitivities");
    }
    Ok(())
}

#[test]
fn a_convolution_with_one_position_is_a_linear_layer() -> Outcome {
    let conv = Conv2d::new(Image::new(2, 3, 2), 4, [3, 2]);
    let tail = [Activation::Tanh.into(), Linear::new(4, 2).into()];
    let as_conv = Architecture::of_layers([vec![conv.into()], tail.to_vec()].concat())?;
    let as_linear = Architecture::of_layers([vec![Linear::new(12, 4).into()], tail.to_vec()].concat())?;
    let (network, inputs) = (random_network(as_linear.clone(), 8), normal_matrix(POINTS, 12, 9));
    let (theta, seeds) = (network.parameters(), normal_vector(POINTS * 2 * 2, 10));
    let [left, right] = [&as_conv, &as_linear].map(|architecture| bound(architecture, &inputs));
    let same = |a: &Mat<f64>, b: &Mat<f64>| assert_all_close(&as_list(a), &as_list(b), 1e-14, "one position");
    same(&dense(&left, theta, &seeds, 2), &dense(&right, theta, &seeds, 2));
    let [left, right] = [left, right].map(|map| pulled_back(&map, theta, &seeds, 2).kronecker(&[]));
    let (left, right) = (matrices(&left), matrices(&right));
    for (left, right) in left.iter().zip(&right) {
        assert_eq!(left.count, right.count);
        assert_all_close(&lower_as_list(&left.inputs), &lower_as_list(&right.inputs), 1e-14, "inputs");
        let (left, right) = (lower_as_list(&left.sensitivities), lower_as_list(&right.sensitivities));
        assert_all_close(&left, &right, 1e-14, "sensitivities");
    }
    Ok(())
}

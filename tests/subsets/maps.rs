//! The verbs of a restricted map.

use std::sync::Arc;

use faer::Mat;
use riemannian_laplace::internals::map::{
    BlockCovariance, BlockShape, BlockSums, Evaluator, Jet, Map, MatrixCovariance, Rows, Scratch, frozen_rows,
};
use riemannian_laplace::{Error, Weights};

use super::common::{Outcome, as_list, assert_all_close, lower_as_list, normal_matrix, normal_vector};
use super::{POINTS, inputs, network, restricted, selections, shared};

fn rows(map: &Arc<dyn Map>, theta: &[f64], seeds: &[f64], columns: usize) -> Result<Box<dyn Rows>, Error> {
    frozen_rows(map, theta, columns, |_| Ok(seeds.to_vec()))
}

fn dense(rows: &dyn Rows) -> Mat<f64> {
    let mut dense = Mat::zeros(rows.n_rows(), rows.n_params());
    rows.dense(dense.as_mut());
    dense
}

/// The columns of a matrix with these indices.
fn select(matrix: &Mat<f64>, indices: &[usize]) -> Mat<f64> {
    Mat::from_fn(matrix.nrows(), indices.len(), |row, column| matrix[(row, indices[column])])
}

#[test]
fn every_product_is_that_of_the_selected_columns() -> Outcome {
    let (whole, theta) = (shared().bind(inputs().view())?, network().parameters().to_vec());
    let others = normal_matrix(3, 2, 77);
    let whole_others = shared().bind(others.view())?;
    let p = whole.n_outputs();
    for weights in selections() {
        let (model, indices) = restricted(&weights);
        let (name, size) = (weights.to_string(), indices.len());
        let (map, other) = (model.bind(inputs().view())?, model.bind(others.view())?);
        assert_eq!(map.groups(), model.group_sizes(), "{name}");
        // Somewhere else than θ̂, with the frozen weights still there.
        let part: Vec<f64> = model.parameters().iter().zip(normal_vector(size, 3)).map(|(a, b)| a + 0.3 * b).collect();
        let (mut at, mut along) = (theta.clone(), vec![0.0; theta.len()]);
        let velocity = normal_vector(size, 4);
        for (k, index) in indices.iter().enumerate() {
            (at[*index], along[*index]) = (part[k], velocity[k]);
        }
        let (mut found, mut expected) = (Jet::new(POINTS, p), Jet::new(POINTS, p));
        Evaluator::new(&map, 1).jet(&part, &velocity, &mut found);
        Evaluator::new(&whole, 1).jet(&at, &along, &mut expected);
        assert_all_close(&found.outputs, &expected.outputs, 1e-13, &name);
        assert_all_close(&found.first, &expected.first, 1e-13, &name);
        assert_all_close(&found.second, &expected.second, 1e-12, &name);

        let (seeds, other_seeds) = (normal_vector(POINTS * p * p, 6), normal_vector(3 * p * p, 7));
        let (pulled, pulled_other) = (rows(&map, &part, &seeds, p)?, rows(&other, &part, &other_seeds, p)?);
        let columns = select(&dense(&*rows(&whole, &at, &seeds, p)?), &indices);
        let other_columns = select(&dense(&*rows(&whole_others, &at, &other_seeds, p)?), &indices);
        assert_all_close(&as_list(&dense(&*pulled)), &as_list(&columns), 1e-13, &name);
        let some: Vec<usize> = (0..size).step_by(2).collect();
        let mut picked = Mat::zeros(POINTS * p, some.len());
        pulled.columns(&some, picked.as_mut());
        assert_all_close(&as_list(&picked), &as_list(&select(&columns, &some)), 1e-13, &name);

        let mut scratch = Scratch::default();
        let mut product = vec![f64::NAN; POINTS * p];
        pulled.times(&velocity, &mut product, &mut scratch);
        let dot = |a: faer::RowRef<'_, f64>| a.iter().zip(&velocity).map(|(a, b)| a * b).sum();
        assert_all_close(&product, &columns.row_iter().map(dot).collect::<Vec<f64>>(), 1e-12, &name);
        let weights = normal_vector(POINTS * p, 8);
        let mut product = vec![f64::NAN; size];
        pulled.transpose_times(&weights, &mut product, &mut scratch);
        let dot = |a: faer::ColRef<'_, f64>| a.iter().zip(&weights).map(|(a, b)| a * b).sum();
        assert_all_close(&product, &columns.col_iter().map(dot).collect::<Vec<f64>>(), 1e-12, &name);

        let variances: Vec<f64> = (0..map.groups().len()).map(|group| 0.3 + 1.7 * group as f64).collect();
        let v: Vec<f64> = map.groups().iter().zip(&variances).flat_map(|(count, v)| vec![*v; *count]).collect();
        let weighted = |x: &Mat<f64>, y: &Mat<f64>| -> Mat<f64> {
            Mat::from_fn(x.nrows(), y.nrows(), |i, j| (0..size).map(|d| x[(i, d)] * v[d] * y[(j, d)]).sum())
        };
        let mut gram = Mat::zeros(POINTS * p, POINTS * p);
        pulled.gram(&variances, gram.as_mut(), &mut scratch);
        assert_all_close(&lower_as_list(&gram), &lower_as_list(&weighted(&columns, &columns)), 1e-12, &name);
        let mut gram = Mat::zeros(POINTS * p, 3 * p);
        pulled.cross_gram(&*pulled_other, &variances, gram.as_mut(), &mut scratch);
        assert_all_close(&as_list(&gram), &as_list(&weighted(&columns, &other_columns)), 1e-12, &name);

        let mut squares = vec![0.0; size];
        pulled.add_squares(&mut squares);
        let expected: Vec<f64> = columns.col_iter().map(|column| column.squared_norm_l2()).collect();
        assert_all_close(&squares, &expected, 1e-12, &name);
    }
    Ok(())
}

#[test]
fn derivatives_of_rows_and_parts_of_the_points_are_restricted_too() -> Outcome {
    let (whole, theta) = (shared().bind(inputs().view())?, network().parameters().to_vec());
    let p = whole.n_outputs();
    for weights in selections() {
        let (model, indices) = restricted(&weights);
        let (name, map) = (weights.to_string(), model.bind(inputs().view())?);
        let velocity = normal_vector(indices.len(), 4);
        let mut along = vec![0.0; theta.len()];
        indices.iter().zip(&velocity).for_each(|(index, value)| along[*index] = *value);
        let seeds = normal_vector(POINTS * p * p, 6);
        let found = map.clone().rows_along(model.parameters(), &velocity, &seeds, p).ok_or("no derivatives")?;
        let expected = whole.clone().rows_along(&theta, &along, &seeds, p).ok_or("no derivatives")?;
        let (mut part, mut all) = (Mat::zeros(POINTS * p, indices.len()), Mat::zeros(POINTS * p, theta.len()));
        found.dense(part.as_mut());
        expected.dense(all.as_mut());
        assert_all_close(&as_list(&part), &as_list(&select(&all, &indices)), 1e-12, &name);
        let weights = normal_vector(POINTS * p, 8);
        let (mut part, mut all) = (vec![0.0; indices.len()], vec![0.0; theta.len()]);
        found.transpose_times(&weights, &mut part, &mut Scratch::default());
        expected.transpose_times(&weights, &mut all, &mut Scratch::default());
        let selected: Vec<f64> = indices.iter().map(|index| all[*index]).collect();
        assert_all_close(&part, &selected, 1e-12, &name);

        let points = [4, 1];
        let (some, all) = (map.at_points(&points)?, whole.at_points(&points)?);
        let seeds = normal_vector(2 * p * p, 6);
        let found = dense(&*rows(&some, model.parameters(), &seeds, p)?);
        let expected = select(&dense(&*rows(&all, &theta, &seeds, p)?), &indices);
        assert_all_close(&as_list(&found), &as_list(&expected), 1e-13, &name);
    }
    Ok(())
}

/// Variances that differ from parameter to parameter, in the form of each block, and as a list.
fn variances(shapes: &[BlockShape]) -> (Vec<BlockCovariance>, Vec<f64>) {
    let mut all = Vec::new();
    let mut block = |shape: &BlockShape| {
        let own: Vec<f64> = (0..shape.size()).map(|d| 0.2 + (1.3 * (all.len() + d) as f64).sin().powi(2)).collect();
        all.extend(&own);
        match *shape {
            BlockShape::Dense { .. } => BlockCovariance::Diagonal(own),
            BlockShape::Matrix { outputs, inputs, bias } => BlockCovariance::Matrix(MatrixCovariance {
                bases: None,
                variances: Mat::from_fn(inputs, outputs, |i, o| own[o * inputs + i]),
                bias: bias.then(|| own[inputs * outputs..].to_vec()),
            }),
        }
    };
    (shapes.iter().map(&mut block).collect(), all)
}

#[test]
fn blocks_are_whole_layers_or_the_exact_rest_of_one() -> Outcome {
    let p = 2;
    for weights in selections() {
        let (model, _) = restricted(&weights);
        let (name, map, shapes) = (weights.to_string(), model.bind(inputs().view())?, model.blocks());
        let seeds = normal_vector(POINTS * p * p, 6);
        let pulled = rows(&map, model.parameters(), &seeds, p)?;
        let all = dense(&*pulled);
        let sums = pulled.kronecker(&[]);
        assert_eq!(sums.len(), shapes.len(), "{name}");
        assert_eq!(shapes.iter().map(|shape| shape.size()).sum::<usize>(), model.n_params(), "{name}");
        let mut start = 0;
        for (sum, shape) in sums.iter().zip(&shapes) {
            let columns = select(&all, &(start..start + shape.size()).collect::<Vec<usize>>());
            start += shape.size();
            match (sum, shape) {
                (BlockSums::Dense(sum), BlockShape::Dense { .. }) => {
                    let expected = columns.transpose() * &columns;
                    assert_all_close(&lower_as_list(sum), &lower_as_list(&expected), 1e-12, &name);
                }
                (BlockSums::Matrix(factors), BlockShape::Matrix { outputs, inputs, bias }) => {
                    assert_eq!((factors.sensitivities.nrows(), factors.inputs.nrows()), (*outputs, *inputs), "{name}");
                    assert_eq!(factors.count, POINTS as f64);
                    if *bias {
                        // The rows of a bias are the sensitivities.
                        let deltas = columns.get(.., outputs * inputs..);
                        let expected = deltas.transpose() * deltas;
                        assert_all_close(
                            &lower_as_list(&factors.sensitivities),
                            &lower_as_list(&expected),
                            1e-12,
                            &name,
                        );
                    }
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        let (blocks, diagonal) = variances(&shapes);
        let mut found = vec![0.0; POINTS * p * p];
        pulled.add_point_covariances(POINTS, &blocks, &mut found);
        let entry = |n: usize, k: usize, l: usize| -> f64 {
            (0..diagonal.len()).map(|d| all[(k * POINTS + n, d)] * diagonal[d] * all[(l * POINTS + n, d)]).sum()
        };
        let expected: Vec<f64> = (0..POINTS * p * p).map(|i| entry(i / (p * p), i / p % p, i % p)).collect();
        assert_all_close(&found, &expected, 1e-12, &name);
    }
    Ok(())
}

#[test]
fn selections_that_make_no_sense_are_refused() {
    let refused = |weights: Weights, expected: &str| {
        let error = weights.restrict(&shared()).expect_err("an invalid selection").to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(Weights::Indices(Vec::new()), "no parameter is selected");
    refused(Weights::Indices(vec![3, 32]), "parameter 32 is selected; the model has 32");
    refused(Weights::Indices(vec![3, 1, 3]), "parameter 3 is selected twice");
    refused(Weights::Layers(vec!["fc1".to_string()]), "no layer `fc1`; it has `0`, `2`, `4`");
    for (word, expected) in [
        ("subnetwork:0", "no parameter is selected"),
        ("subnetwork:33", "the model has 32"),
        ("subnetwork:5:variance", "training data"),
    ] {
        refused(word.parse().expect("words"), expected);
    }
    for word in
        ["", "some", "layers", "layers:", "layers:0,", "subnetwork", "subnetwork:x", "subnetwork:3:best", "all:1"]
    {
        let error = word.parse::<Weights>().expect_err("words without meaning").to_string();
        assert!(error.contains("last-layer"), "{error}");
    }
    for weights in selections().into_iter().filter(|weights| !matches!(weights, Weights::Indices(_))) {
        assert_eq!(weights.to_string().parse::<Weights>().expect("its own words"), weights);
    }
    let last = Weights::LastLayer.restrict(&shared()).expect("a last layer");
    let error = Weights::Indices(vec![0]).restrict(&last).expect_err("a part of a part").to_string();
    assert!(error.contains("whole model"), "{error}");
}

//! What to measure next, against what measuring does: a posterior that is given the rows one by one with `update` has the
//! variances, the evidence and the gains that were promised.

mod common;

use std::collections::HashSet;

use ndarray::{Array2, Axis};
use riemannian_laplace::internals::suggest::{Acquisition, Goal, SuggestOptions, Suggestions, suggest};
use riemannian_laplace::{Activation, Dataset, Family, FitOptions, Laplace};

use common::{architecture, random_data, random_network};

/// A posterior of a small network and a pool that it has not seen.
fn case(family: &Family, outputs: usize) -> (Laplace, Array2<f64>) {
    let network = random_network(architecture(&[2, 4, outputs], &[true, true], Activation::Tanh), 3);
    let data = random_data(&network, family, 25, 4);
    let pool = random_data(&network, family, 40, 5).inputs().clone();
    (Laplace::fit(network, data, family.clone(), &FitOptions::default()).expect("a posterior"), pool)
}

fn choose(laplace: &Laplace, pool: &Array2<f64>, goal: Goal, options: SuggestOptions) -> Suggestions {
    suggest(laplace, pool, goal, &options).expect("suggestions")
}

/// The posterior with some rows of the pool measured; with Gaussian noise their values do not matter to its variances.
fn with_rows(laplace: &Laplace, pool: &Array2<f64>, rows: &[usize]) -> Laplace {
    let mut updated = laplace.clone();
    for row in rows {
        let inputs = pool.select(Axis(0), &[*row]);
        let targets = Array2::zeros((1, laplace.model().n_outputs()));
        updated.update(Dataset::new(inputs, targets).expect("a row")).expect("one more row");
    }
    updated
}

#[test]
fn deviations_and_information_are_those_of_a_posterior_that_was_given_the_rows() {
    let family = Family::gaussian_per_output(&[0.3, 0.5]).expect("sigma");
    let (laplace, pool) = case(&family, 2);
    let options = SuggestOptions { count: 6, ..Default::default() };
    let chosen = choose(&laplace, &pool, Goal::Uncertainty, options);
    let rows: Vec<usize> = chosen.rows.iter().map(|one| one.row).collect();
    assert_eq!(rows.iter().collect::<HashSet<_>>().len(), 6);
    let mut total = 0.0;
    for (index, one) in chosen.rows.iter().enumerate() {
        let before = with_rows(&laplace, &pool, &rows[..index]);
        let latent = before.linearized(&pool).expect("variances");
        for output in 0..2 {
            let expected = latent.covariance[(one.row, output, output)].sqrt();
            // A sum of 25 rows and a factorisation round differently from a downdate.
            assert!(
                (one.standard_deviation[output] - expected).abs() < 1e-8 * expected,
                "row {index}, output {output}"
            );
        }
        // The gain is half of what the row adds to log det G; and no row that is left adds more.
        let gain = |row: usize| 0.5 * (with_rows(&before, &pool, &[row]).log_det_ratio() - before.log_det_ratio());
        assert!((one.score - gain(one.row)).abs() < 1e-8, "{} for {}", one.score, gain(one.row));
        let best = (0..pool.nrows()).filter(|row| !rows[..index].contains(row)).map(gain).fold(0.0, f64::max);
        assert!((one.score - best).abs() < 1e-8, "{} for {best}", one.score);
        total += one.score;
    }
    let all = with_rows(&laplace, &pool, &rows).log_det_ratio() - laplace.log_det_ratio();
    assert!((total - 0.5 * all).abs() < 1e-8);
}

#[test]
fn the_gain_towards_targets_is_what_their_predictive_variances_lose() {
    let (laplace, pool) = case(&Family::gaussian(0.3).expect("sigma"), 1);
    let targets = Array2::from_shape_fn((5, 2), |(n, k)| (n as f64 - 2.0) * if k == 0 { 0.4 } else { -0.2 });
    let options = SuggestOptions { count: 2, target_inputs: Some(targets.clone()), ..Default::default() };
    let chosen = choose(&laplace, &pool, Goal::Target, options);
    let variance = |laplace: &Laplace| -> Vec<f64> {
        let latent = laplace.linearized(&targets).expect("variances");
        (0..5).map(|t| latent.covariance[(t, 0, 0)] + 0.09).collect()
    };
    let mut before = laplace.clone();
    for one in &chosen.rows {
        let gain = |row: usize| {
            let after = variance(&with_rows(&before, &pool, &[row]));
            variance(&before).iter().zip(after).map(|(before, after)| 0.5 * (before / after).ln()).sum::<f64>() / 5.0
        };
        let best = (0..pool.nrows()).map(gain).fold(0.0, f64::max);
        assert!((one.score - gain(one.row)).abs() < 1e-8 && (one.score - best).abs() < 1e-8);
        before = with_rows(&before, &pool, &[one.row]);
    }
}

#[test]
fn optima_are_looked_for_where_they_may_be() {
    let (laplace, pool) = case(&Family::gaussian(0.3).expect("sigma"), 1);
    let latent = laplace.linearized(&pool).expect("predictions");
    let argmax =
        |values: Vec<f64>| (0..values.len()).reduce(|a, b| if values[b] > values[a] { b } else { a }).expect("a row");
    for (sign, goal) in [(1.0, Goal::Maximum as fn(_) -> _), (-1.0, Goal::Minimum as fn(_) -> _)] {
        let options = || SuggestOptions { count: 4, seed: 3, ..Default::default() };
        let bound = choose(&laplace, &pool, goal(Acquisition::UpperConfidenceBound), options());
        let at = |n: usize| sign * latent.mean[(n, 0)] + 2.0 * latent.covariance[(n, 0, 0)].sqrt();
        assert_eq!(bound.rows[0].row, argmax((0..40).map(at).collect()));
        let improved = choose(&laplace, &pool, goal(Acquisition::ExpectedImprovement), options());
        assert!(improved.rows.iter().all(|one| one.score >= 0.0));
        let drawn = choose(&laplace, &pool, goal(Acquisition::Thompson), options());
        assert_eq!(drawn, choose(&laplace, &pool, goal(Acquisition::Thompson), options()));
        assert_eq!(drawn.rows.iter().map(|one| one.row).collect::<HashSet<_>>().len(), 4);
        // What a cost divides is the gain of the bound over the best mean: a dear row gives way.
        let costs = (0..40).map(|row| if row == bound.rows[0].row { 1000.0 } else { 1.0 }).collect();
        let dear = choose(
            &laplace,
            &pool,
            goal(Acquisition::UpperConfidenceBound),
            SuggestOptions { costs: Some(costs), ..options() },
        );
        assert_ne!(dear.rows[0].row, bound.rows[0].row);
        let same = SuggestOptions { costs: Some(vec![3.0; 40]), ..options() };
        assert_eq!(choose(&laplace, &pool, goal(Acquisition::UpperConfidenceBound), same), bound);
    }
}

#[test]
fn classes_are_labelled_where_networks_disagree_and_costs_and_measured_rows_count() {
    let (laplace, pool) = case(&"categorical".parse().expect("a likelihood"), 3);
    let options = |costs| SuggestOptions { count: 3, costs, ..Default::default() };
    let chosen = choose(&laplace, &pool, Goal::Label, options(None));
    let first = &chosen.rows[0];
    // A row that costs a thousand times as much as the others is not chosen.
    let costs = (0..40).map(|row| if row == first.row { 1000.0 } else { 1.0 }).collect();
    let dear = choose(&laplace, &pool, Goal::Label, options(Some(costs)));
    assert!(dear.rows.iter().all(|one| one.row != first.row));
    assert!((0.0..=3f64.ln()).contains(&first.score) && first.score >= dear.rows[0].score);
    let measured = laplace.data().expect("data").inputs().clone();
    let mut both = pool.clone();
    (0..25).for_each(|row| both.row_mut(row).assign(&measured.row(row)));
    let chosen = choose(&laplace, &both, Goal::Uncertainty, SuggestOptions { count: 99, ..Default::default() });
    assert_eq!((chosen.measured, chosen.rows.len()), (25, 15));
    assert!(chosen.rows.iter().all(|one| one.row >= 25));
    let refused =
        |laplace: &Laplace, goal: Goal| suggest(laplace, &pool, goal, &options(None)).expect_err("refused").to_string();
    assert!(refused(&laplace, Goal::Maximum(Acquisition::Thompson)).contains("an optimum is not what a categorical"));
    let (regression, _) = case(&Family::gaussian(0.3).expect("sigma"), 1);
    assert!(refused(&regression, Goal::Label).contains("uncertainty"));
    assert!(refused(&regression, Goal::Target).contains("target inputs"));
}

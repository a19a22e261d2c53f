//! Calibrated intervals and sets: by every method and likelihood the rows that were calibrated on are inside as often as the
//! quantile says, ends are those of the definition, and a posterior keeps its calibration until it changes.

mod common;

use std::sync::Arc;

use ndarray::Array2;
use riemannian_laplace::internals::conformal::{CalibrationError, Conditions, Score};
use riemannian_laplace::internals::evaluate::{FoldPosteriors, fold_scores, follow, promised_by_folds};
use riemannian_laplace::internals::network::{Procedure, Recipe};
use riemannian_laplace::internals::predict::{CalibrationOptions, Mixture, MixtureMember, Promised};
use riemannian_laplace::{
    Activation, Contents, Dataset, Draws, Error, Family, FitOptions, Laplace, Method, MetricName, Network,
    SamplerOptions,
};

use common::{architecture, random_data, random_network};

/// A posterior, and rows that it was not fitted to.
fn posterior(family: &Family, outputs: usize) -> (Laplace, Dataset) {
    let network = random_network(architecture(&[2, 4, outputs], &[true, true], Activation::Tanh), 3);
    let all = random_data(&network, family, 90, 4);
    let rows = |from: usize, to: usize| all.select(&(from..to).collect::<Vec<_>>()).expect("rows");
    let laplace = Laplace::fit(network, rows(0, 40), family.clone(), &FitOptions::default()).expect("a posterior");
    (laplace, rows(40, 90))
}

fn families() -> Vec<(Family, usize)> {
    let named = |name: &str| name.parse::<Family>().expect("a likelihood");
    vec![
        (Family::gaussian(0.3).expect("sigma"), 2),
        (named("heteroscedastic"), 2),
        (named("poisson"), 1),
        (named("categorical"), 3),
        (named("bernoulli"), 2),
    ]
}

fn methods(laplace: &Laplace) -> Vec<Method> {
    let options = SamplerOptions { seed: 2, ..SamplerOptions::first(3) };
    let samples = laplace.sample_riemannian(MetricName::Fisher, &options, &()).expect("samples");
    let other = MixtureMember { weight: 0.5, laplace: laplace.clone(), method: Method::Nn(Draws::first(4, 9)) };
    let mixture = Mixture { weight: 1.0, method: Box::new(Method::default()), others: vec![other].into() };
    vec![
        Method::Map,
        Method::default(),
        Method::Nn(Draws::first(7, 1)),
        Method::Samples(Arc::new(samples)),
        Method::Mixture(mixture),
    ]
}

fn promised(laplace: &Laplace, rows: &Dataset, method: &Method, score: Score, level: f64) -> Promised {
    let prediction = laplace.predict(rows.inputs(), method).expect("a prediction");
    laplace.promised(&prediction, method, level, Some(score), &Conditions::default()).expect("a promise")
}

#[test]
fn of_the_calibration_rows_as_many_are_inside_as_the_quantile_says_by_every_method_and_likelihood() {
    for (family, outputs) in families() {
        let (mut laplace, rows) = posterior(&family, outputs);
        let methods = methods(&laplace);
        laplace.calibrate(&rows, &methods, CalibrationOptions::default(), &()).expect("calibrated");
        for method in &methods {
            for score in Score::of_family(&family) {
                for level in [0.5, 0.9] {
                    let inside = promised(&laplace, &rows, method, *score, level).contains(rows.targets());
                    let needed = (level * 51.0_f64).ceil() as usize;
                    for column in inside.columns() {
                        let count = column.iter().filter(|inside| **inside).count();
                        let about = format!("{family:?} {} {score:?} at {level}: {count}", method.name());
                        // Counts and binary classes have equal scores.
                        let has_ties = outputs == 1 || family.likelihood().name() == "bernoulli";
                        assert!(if has_ties { count >= needed } else { count == needed }, "{about}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_interval_of_a_count_is_the_set_of_counts_whose_score_is_at_most_the_threshold() {
    let family: Family = "poisson".parse().expect("a likelihood");
    let (mut laplace, rows) = posterior(&family, 1);
    for method in [Method::Map, Method::default(), Method::Nn(Draws::first(7, 1))] {
        laplace
            .calibrate(&rows, std::slice::from_ref(&method), CalibrationOptions::default(), &())
            .expect("calibrated");
        let scores = &laplace.calibration().expect("scores").methods[0].scores;
        for level in [0.1, 0.5, 0.9] {
            let Promised::Interval(lower, upper) = promised(&laplace, &rows, &method, Score::Rank, level) else {
                unreachable!()
            };
            let mut sorted = scores.column(0).to_vec();
            sorted.sort_by(f64::total_cmp);
            let q = sorted[(level * 51.0_f64).ceil() as usize - 1];
            let prediction = laplace.predict(rows.inputs(), &method).expect("a prediction");
            for count in 0..40 {
                let y = Array2::from_elem(rows.targets().dim(), f64::from(count));
                let scores = prediction.conformal_scores(&y, Score::Rank).expect("scores");
                for row in 0..rows.len() {
                    let inside = lower[(row, 0)] <= f64::from(count) && f64::from(count) <= upper[(row, 0)];
                    assert_eq!(inside, scores[(row, 0)] <= q, "{count} in row {row} by {} at {level}", method.name());
                }
            }
        }
    }
}

#[test]
fn a_file_keeps_the_calibration_and_a_change_of_the_posterior_drops_it() {
    let (mut laplace, rows) = posterior(&Family::gaussian(0.3).expect("sigma"), 2);
    let method = Method::default();
    let groups = ("place".to_string(), (0..50).map(|row| if row % 2 == 0 { "a" } else { "b" }.to_string()).collect());
    let weights = ("weight".to_string(), (0..50).map(|row| 1.0 + f64::from(row)).collect());
    let options = CalibrationOptions { level: 0.8, groups: Some(groups), weights: Some(weights) };
    laplace.calibrate(&rows, &[Method::Map, method.clone()], options, &()).expect("calibrated");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("p.safetensors");
    for contents in [Contents::TrainingData, Contents::Curvature] {
        laplace.save(&path, contents).expect("saved");
        let loaded = Laplace::load(&path).expect("loaded");
        assert_eq!(loaded.calibration(), laplace.calibration());
    }
    let plain = laplace.predict(rows.inputs(), &method).expect("a prediction");
    let at = |groups: Option<&str>, weight: Option<f64>| Conditions {
        groups: groups.map(|group| vec![group.to_string(); 50]),
        weights: weight.map(|weight| vec![weight; 50]),
    };
    let refused = |at: &Conditions| laplace.promised(&plain, &method, 0.8, None, at).expect_err("refused").to_string();
    assert!(refused(&at(None, Some(1.0))).contains("groups of `place`"));
    assert!(refused(&at(Some("a"), None)).contains("the weights `weight`"));
    assert!(refused(&at(Some("c"), Some(1.0))).contains("no group `c`"));
    assert!(refused(&at(Some("a"), Some(-1.0))).contains("not a positive number"));
    // A row of a kind that calibration rows are short of has a wider interval, and an endless one in the limit.
    let width = |weight: f64| {
        laplace.promised(&plain, &method, 0.8, None, &at(Some("a"), Some(weight))).map(|p| p.sizes()[(0, 0)])
    };
    let (little, much, most) = (width(1.0).expect("a"), width(100.0).expect("b"), width(1e6).expect("c"));
    assert!(little < much && much < most && most.is_infinite(), "{little} {much} {most}");
    let mut changed = laplace.clone();
    changed.set_hyperparameters(&2.0.into(), &[0.3]).expect("another prior");
    assert!(changed.calibration().is_none());
    let mut changed = laplace.clone();
    changed.update(rows.clone()).expect("more data");
    assert!(changed.calibration().is_none());
}

#[test]
fn what_gives_no_guarantee_is_refused_by_name() {
    let (mut laplace, rows) = posterior(&Family::gaussian(0.3).expect("sigma"), 2);
    let mut try_with = |rows: &Dataset, options: CalibrationOptions| -> CalibrationError {
        match laplace.calibrate(rows, &[Method::Map], options, &()) {
            Err(Error::Calibration(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let few = rows.select(&[0, 1, 2, 3, 4, 5, 6, 7]).expect("eight rows");
    let error = try_with(&few, CalibrationOptions::default());
    assert!(matches!(error, CalibrationError::TooFew { group: None, found: 8, needed: 9, .. }), "{error}");
    let groups = (0..50).map(|row| if row < 45 { "many" } else { "few" }.to_string()).collect();
    let options = CalibrationOptions { groups: Some(("g".to_string(), groups)), ..Default::default() };
    let error = try_with(&rows, options);
    assert!(matches!(&error, CalibrationError::TooFew { group: Some(name), found: 5, .. } if name == "few"), "{error}");
    let training = posterior(&Family::gaussian(0.3).expect("sigma"), 2).0.data().expect("data").clone();
    let error = try_with(&training, CalibrationOptions::default());
    assert!(matches!(error, CalibrationError::Overlap { count: 40, of: 40, first: 0 }), "{error}");
    // A few that repeat are counted, and not refused.
    let mixed = |count: usize| {
        let stack = |a: &Array2<f64>, b: &Array2<f64>| {
            ndarray::concatenate(ndarray::Axis(0), &[a.slice_axis(ndarray::Axis(0), (..count).into()), b.view()])
                .expect("rows")
        };
        Dataset::new(stack(training.inputs(), rows.inputs()), stack(training.targets(), rows.targets())).expect("data")
    };
    let mut calibrate = |rows: &Dataset| laplace.calibrate(rows, &[Method::Map], CalibrationOptions::default(), &());
    assert_eq!(calibrate(&mixed(5)).expect("five of 55 rows"), 5);
    assert!(calibrate(&mixed(6)).is_err());
    assert_eq!(calibrate(&rows).expect("calibrated"), 0);
    let prediction = laplace.predict(rows.inputs(), &Method::default()).expect("a prediction");
    let ask = |method: &Method, level: f64| {
        laplace.promised(&prediction, method, level, None, &Conditions::default()).expect_err("refused").to_string()
    };
    assert!(ask(&Method::default(), 0.9).contains("not calibrated for `glm` (it is for: map)"));
    assert!(ask(&Method::Map, 0.99).contains("99 % needs at least 99"), "{}", ask(&Method::Map, 0.99));
}

/// A network trained by cross-validation, as its model file and its posterior have it.
fn folded() -> (Laplace, Dataset) {
    let inputs = Array2::from_shape_fn((60, 1), |(n, _)| n as f64 / 15.0 - 2.0);
    let noise = |n: usize| 0.2 * (37.0 * n as f64).sin();
    let targets = Array2::from_shape_fn((60, 1), |(n, _)| (2.0 * inputs[(n, 0)]).sin() + noise(n));
    let data = Dataset::new(inputs, targets).expect("data");
    let start = Network::random(architecture(&[1, 4, 1], &[true, true], Activation::Tanh), 1);
    let procedure = Procedure::CrossValidated { folds: 4, folds_used: 4, ratios: vec![1.0], cautious: false };
    let recipe = Recipe { seed: 1, procedure, prior_precision: None, sigma: None, dispersions: None, folded: None };
    let trained = follow(&recipe, &start, &data, &Family::gaussian(1.0).expect("sigma"), &()).expect("trained");
    let sigma = trained.recipe.sigma.clone().expect("a noise");
    let family = Family::gaussian_per_output(&sigma).expect("sigma");
    let prior_precision = trained.recipe.prior_precision.clone().expect("a prior").into();
    let options = FitOptions { prior_precision, ..Default::default() };
    let mut laplace = Laplace::fit(trained.network, data.clone(), family, &options).expect("a posterior");
    laplace.set_recipe(Some(trained.recipe));
    (laplace, data)
}

#[test]
fn scores_of_folds_scale_the_spread_and_cv_plus_is_its_definition() {
    let (laplace, data) = folded();
    let method = Method::default();
    let folds = fold_scores(&laplace, &method).expect("the scores of the folds");
    assert_eq!(folds.networks.len(), 4);
    // Every row was left out once, and its score is that of the posterior without its fold.
    let record = laplace.model().record().expect("a network");
    let (mut all, mut posteriors) = (Vec::new(), Vec::new());
    let mut seen = vec![0; 60];
    for fold in &folds.networks {
        fold.left_out.iter().for_each(|row| seen[*row] += 1);
        let kept: Vec<usize> = (0..60).filter(|row| !fold.left_out.contains(row)).collect();
        let network = Network::from_record(&record, fold.theta.clone()).expect("a network");
        let family = Family::gaussian_per_output(fold.sigma.as_ref().expect("a noise")).expect("sigma");
        let options = FitOptions { prior_precision: fold.prior_precision.clone().into(), ..Default::default() };
        let own = Laplace::fit(network, data.select(&kept).expect("rows"), family, &options).expect("a posterior");
        let left_out = data.select(&fold.left_out).expect("rows");
        let prediction = own.predict(left_out.inputs(), &method).expect("a prediction");
        let scores: Vec<f64> = (0..left_out.len())
            .map(|n| {
                (left_out.targets()[(n, 0)] - prediction.mean[(n, 0)]).abs() / prediction.total_variance[(n, 0)].sqrt()
            })
            .collect();
        all.extend(scores.clone());
        posteriors.push((own, scores));
    }
    assert_eq!(seen, vec![1; 60]);
    let kept: Vec<f64> = folds.scores[0].1.iter().map(|row| row[0]).collect();
    assert!(kept.iter().zip(&all).all(|(kept, score)| (kept - score).abs() < 1e-12 * score.max(1.0)));
    let inputs = Array2::from_shape_fn((9, 1), |(n, _)| n as f64 - 4.0);
    let prediction = laplace.predict(&inputs, &method).expect("a prediction");
    let mut sorted = all.clone();
    sorted.sort_by(f64::total_cmp);
    let q = sorted[(0.9 * 61.0_f64).ceil() as usize - 1];
    let sizes = promised_by_folds(&prediction, folds, 0.9, None).expect("intervals").sizes();
    let cv_plus = FoldPosteriors::of(&laplace, None).expect("the folds").promised(&inputs, 0.9).expect("intervals");
    let Promised::Interval(lower, upper) = cv_plus else { unreachable!() };
    for n in 0..9 {
        assert!((sizes[(n, 0)] - 2.0 * q * prediction.total_variance[(n, 0)].sqrt()).abs() < 1e-9);
        // By counting: y is inside where fewer than 0.9 · 61 values μ ± s sd lie beyond it on either side.
        let at: Vec<(f64, f64, f64)> = posteriors
            .iter()
            .flat_map(|(own, scores)| {
                let one = own.predict(&inputs, &method).expect("a prediction");
                let (mean, deviation) = (one.mean[(n, 0)], one.total_variance[(n, 0)].sqrt());
                scores.iter().map(move |score| (mean, deviation, *score)).collect::<Vec<_>>()
            })
            .collect();
        let mut above: Vec<f64> = at.iter().map(|(mean, deviation, score)| mean + score * deviation).collect();
        let mut below: Vec<f64> = at.iter().map(|(mean, deviation, score)| mean - score * deviation).collect();
        above.sort_by(f64::total_cmp);
        below.sort_by(|a, b| b.total_cmp(a));
        assert!((upper[(n, 0)] - above[54]).abs() < 1e-9 && (lower[(n, 0)] - below[54]).abs() < 1e-9, "point {n}");
    }
    // Another prior or noise than that of the training has no scores.
    let mut other = laplace.clone();
    other.set_hyperparameters(&2.0.into(), &[0.2]).expect("another prior");
    assert!(fold_scores(&other, &method).is_none() && fold_scores(&laplace, &Method::Map).is_none());
}

//! Calibrated intervals and sets: by every method and likelihood the rows that were calibrated on are inside as often as the
//! quantile says, ends are those of the definition, and a posterior keeps its calibration until it changes.

mod common;

use std::sync::Arc;

use ndarray::Array2;
use riemannian_laplace::internals::conformal::{CalibrationError, Conditions, Score};
use riemannian_laplace::internals::predict::{CalibrationOptions, Mixture, MixtureMember, Promised};
use riemannian_laplace::{
    Activation, Contents, Dataset, Draws, Error, Family, FitOptions, Laplace, Method, MetricName, SamplerOptions,
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
                        let has_ties = outputs == 1 || matches!(family, Family::Bernoulli(_));
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
        laplace.calibrate(&rows, &[method.clone()], CalibrationOptions::default(), &()).expect("calibrated");
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
    laplace.calibrate(&rows, &[Method::Map], CalibrationOptions::default(), &()).expect("calibrated");
    let prediction = laplace.predict(rows.inputs(), &Method::default()).expect("a prediction");
    let ask = |method: &Method, level: f64| {
        laplace.promised(&prediction, method, level, None, &Conditions::default()).expect_err("refused").to_string()
    };
    assert!(ask(&Method::default(), 0.9).contains("not calibrated for `glm` (it is for: map)"));
    assert!(ask(&Method::Map, 0.99).contains("99 % needs at least 99"), "{}", ask(&Method::Map, 0.99));
}

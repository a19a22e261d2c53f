//! Pages of reports on posteriors of every kind: complete, well-formed, safe, honest, the same each time.

use ndarray::{Array1, Array2, array};
use riemannian_laplace::internals::conformal::Conditions;
use riemannian_laplace::internals::evaluate::{CoverageOptions, coverage_over};
use riemannian_laplace::internals::predict::CalibrationOptions;
use riemannian_laplace::internals::report::{
    Calibration, Comparison, Curves, Hold, LeftOut, Mood, Names, Origin, Spectrum,
};
use riemannian_laplace::prelude::*;
use riemannian_laplace::{Report, ReportOptions};

fn names() -> Names {
    Names { posterior: "posterior".to_string(), data: "test data".to_string() }
}

/// Inputs on a lattice that fills the square, the same each time.
fn inputs(rows: usize, columns: usize) -> Array2<f64> {
    let steps = [0.618_034, 0.414_214, 0.732_051, 0.236_068];
    Array2::from_shape_fn((rows, columns), |(n, k)| 2.0 * ((n as f64 + 1.0) * steps[k % 4]).fract() - 1.0)
}

/// Something like noise, between −½ and ½.
fn noise(n: usize) -> f64 {
    ((n as f64 + 0.5) * 78.233).sin().fract().abs() - 0.5
}

fn trained(data: &Dataset, family: &Family, sizes: &[usize]) -> Laplace {
    let start = Network::random(Architecture::new(sizes, Activation::Tanh).unwrap(), 1);
    let options = TrainingOptions { epochs: 400, ..Default::default() };
    let network = train(&start, data, family, &options, &()).unwrap().network;
    let mut laplace = Laplace::fit(network, data.clone(), family.clone(), &FitOptions::default()).unwrap();
    laplace.optimize(&EvidenceOptions::default()).unwrap();
    laplace
}

fn regression(rows: usize, columns: usize) -> Dataset {
    let inputs = inputs(rows, columns);
    let targets: Array1<f64> =
        inputs.rows().into_iter().enumerate().map(|(n, x)| (3.0 * x[0]).sin() + 0.3 * noise(n)).collect();
    Dataset::new(inputs, targets.insert_axis(ndarray::Axis(1))).unwrap()
}

fn options(geodesics: usize) -> ReportOptions {
    let methods =
        vec![Method::Map, Method::default(), Method::Nn(Draws::first(20, 0)), Method::riemannian(geodesics, 0)];
    ReportOptions { methods, ..Default::default() }
}

/// The elements of a page, opened and closed in order; what is wrong with them, if anything.
fn check_elements(page: &str) {
    const EMPTY: [&str; 4] = ["!doctype", "meta", "link", "br"];
    let (mut open, mut ids): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let body = page.split("<style>").next().unwrap().to_string() + page.split("</style>").nth(1).unwrap();
    let body: &str = Box::leak(body.into_boxed_str());
    for part in body.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("an open tag: {part}"));
        assert!(!text.contains('>'), "{part}");
        let name = tag.split([' ', '\n']).next().unwrap().trim_end_matches('/');
        if let Some(closed) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "near {part}");
        } else if !tag.ends_with('/') && !EMPTY.contains(&name) {
            open.push(name);
        }
        ids.extend(tag.split(" id=\"").nth(1).and_then(|rest| rest.split('"').next()));
    }
    assert!(open.is_empty(), "{open:?}");
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids appear twice");
    // What a figure's label refers to exists.
    for label in body.split("aria-labelledby=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(label.split(' ').all(|id| ids.contains(&id)), "{label}");
    }
}

/// What holds for every page.
fn check_page(report: &Report) -> String {
    let page = report.to_html();
    check_elements(&page);
    assert!(page.len() < 2_000_000, "{}", page.len());
    for forbidden in ["<script", "http:", "https:", "NaN", "src=", "@import", "url(h"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    let figures = page.matches("<figure>").count();
    assert!(figures >= 4, "{figures}");
    assert_eq!(page.matches("<svg ").count(), figures);
    assert_eq!(page.matches(" role=\"img\"").count(), figures);
    assert_eq!(page.matches("</title>").count(), figures + 1);
    assert_eq!(page.matches("</desc>").count(), figures);
    assert!(!page.contains("></desc>") && !page.contains("<figcaption></figcaption>"));
    for section in ["Can I trust this?", "How good are the predictions?", "What was fitted?", "cannot tell"] {
        assert!(page.contains(section), "{section}");
    }
    assert_eq!(report.findings().len(), page.matches("<span class=\"mood\">").count());
    page
}

#[test]
fn a_regression_with_one_input_shows_a_band_for_every_method_and_its_scores_are_those_of_evaluation() {
    let laplace = trained(&regression(60, 1), &Family::gaussian(0.3).unwrap(), &[1, 6, 1]);
    let test = regression(100, 1);
    let report = Report::of(&laplace, &names(), Some(&test), &options(30), &()).unwrap();
    let page = check_page(&report);
    assert_eq!(report.pictures.slices.len(), 4);
    assert!(report.pictures.slices.iter().all(|slice| slice.observed.len() == 60));
    for (method, own) in report.methods.iter().zip(&options(30).methods) {
        let scores = Scores::of(&laplace.predict(test.inputs(), own).unwrap(), test.targets()).unwrap();
        assert_eq!(method.scores, scores, "{}", method.name);
    }
    // The default is shown unless another has a smaller NLL.
    let nll = |index: usize| report.methods[index].scores.nll();
    assert!(report.shown == 1 || nll(report.shown) < nll(1));
    let LeftOut::Scores(left_out) = &report.left_out else { panic!("no leave-one-out") };
    assert_eq!(left_out.iter().filter(|scores| scores.is_none()).count(), 1);
    for (scores, own) in left_out.iter().zip(&options(30).methods) {
        assert!(scores.is_none() || *scores == laplace.leave_one_out(own).ok(), "{}", own.name());
    }
    assert!(page.contains("What if a training point had been missing?") && page.contains(" of each training point: "));
    let Calibration::Ranks(ranks) = &report.methods[1].calibration else { panic!("no ranks") };
    assert_eq!(ranks.len(), 100);
    let certificates = report.certificates.as_ref().unwrap();
    assert_eq!((certificates.count.requested, certificates.drift.len()), (30, 30));
    assert!(page.contains("held-out data, <b>test data</b>"));
    let again = Report::of(&laplace, &names(), Some(&test), &options(30), &()).unwrap();
    assert!(again.to_html() == page, "the same report is the same page");
}

#[test]
fn of_several_inputs_the_influential_ones_are_shown_and_the_others_held_at_their_medians() {
    let data = regression(80, 4);
    let laplace = trained(&data, &Family::gaussian(0.3).unwrap(), &[4, 5, 1]);
    let report = Report::of(&laplace, &names(), None, &options(5), &()).unwrap();
    check_page(&report);
    // The target depends on the first input alone.
    assert_eq!(report.pictures.influences[0].0, laplace.schema().inputs()[0]);
    assert!(report.pictures.influences[0].1 > 0.8, "{:?}", report.pictures.influences);
    assert_eq!(report.pictures.slices.len(), 3);
    let mut median: Vec<f64> = data.inputs().column(1).to_vec();
    median.sort_by(f64::total_cmp);
    let Curves::Band(points) = &report.pictures.slices[0].curves else { panic!("no band") };
    let held: Vec<f64> = (0..4)
        .map(|k| {
            let mut column: Vec<f64> = data.inputs().column(k).to_vec();
            column.sort_by(f64::total_cmp);
            column[40]
        })
        .collect();
    let x = array![[points[0].x, held[1], held[2], held[3]]];
    let expected = laplace.predict(&x, &Method::default()).unwrap();
    assert!((points[0].mean - expected.mean[(0, 0)]).abs() < 1e-12);
    let (lower, upper) = expected.interval(0.9).unwrap();
    assert!((points[0].interval.0 - lower[(0, 0)]).abs() + (points[0].interval.1 - upper[(0, 0)]).abs() < 1e-12);
}

#[test]
fn without_other_data_the_page_says_that_the_scores_are_of_the_training_data() {
    let laplace = trained(&regression(40, 1), &Family::gaussian(0.3).unwrap(), &[1, 4, 1]);
    let report = Report::of(&laplace, &names(), None, &options(5), &()).unwrap();
    assert_eq!(report.scored.origin, Origin::Training);
    let page = check_page(&report);
    assert!(page.contains("the training data inside the posterior") && page.contains("Such scores are too good"));
    assert_eq!(report.headline().0, Mood::Care);
}

fn labels(rows: usize, classes: usize) -> Dataset {
    let inputs = inputs(rows, 2);
    let label = |x: &[f64]| ((0.5 + 0.5 * x[0]) * classes as f64).floor().clamp(0.0, classes as f64 - 1.0);
    let targets: Vec<f64> = inputs.rows().into_iter().map(|row| label(&row.to_vec())).collect();
    Dataset::new(inputs, Array2::from_shape_vec((rows, 1), targets).unwrap()).unwrap()
}

#[test]
fn classes_have_reliability_confidence_and_a_confusion_table_whose_counts_are_right() {
    for (classes, family) in [(2, "bernoulli"), (3, "categorical"), (15, "categorical")] {
        let data = labels(150, classes);
        let outputs = if family == "bernoulli" { 1 } else { classes };
        let laplace = trained(&data, &family.parse().unwrap(), &[2, 6, outputs]);
        let report = Report::of(&laplace, &names(), Some(&labels(90, classes)), &options(4), &()).unwrap();
        let page = check_page(&report);
        let Comparison::Confusion(tables) = &report.comparison else { panic!("no confusion") };
        assert_eq!((tables.len(), tables[0].len()), (1, classes));
        assert_eq!(tables[0].iter().flatten().sum::<usize>(), 90);
        let right: usize = (0..classes).map(|class| tables[0][class][class]).sum();
        let Scores::Classes(scores) = &report.methods[report.shown].scores else { panic!("no scores of classes") };
        assert!((scores.accuracy - right as f64 / 90.0).abs() < 1e-12);
        assert!(page.contains("Reliability") && page.contains("How confident it is"));
        // A large table is a list instead.
        assert_eq!(page.contains("<table class=\"confusion"), classes <= 12);
    }
}

#[test]
fn counts_several_targets_and_noise_levels_of_their_own_have_pages_too() {
    let inputs = inputs(50, 2);
    let counts =
        Array2::from_shape_fn((50, 1), |(n, _)| (3.0 * (1.0 + inputs[(n, 0)]) + 2.0 * noise(n)).round().max(0.0));
    let laplace = trained(&Dataset::new(inputs.clone(), counts).unwrap(), &"poisson".parse().unwrap(), &[2, 4, 1]);
    let page = check_page(&Report::of(&laplace, &names(), None, &options(3), &()).unwrap());
    assert!(page.contains("Coverage by level") && page.contains("PIT"));

    let two = Array2::from_shape_fn((50, 2), |(n, k)| (2.0 * inputs[(n, k)]).sin() + 0.2 * noise(n + k));
    let data = Dataset::new(inputs.clone(), two).unwrap();
    let laplace = trained(&data, &Family::gaussian_per_output(&[0.2, 0.3]).unwrap(), &[2, 4, 2]);
    let page = check_page(&Report::of(&laplace, &names(), None, &options(3), &()).unwrap());
    assert_eq!(page.matches("<h3>Predicted and observed").count(), 2);

    let one = Array2::from_shape_fn((50, 1), |(n, _)| inputs[(n, 0)] + noise(n) * (1.2 + inputs[(n, 1)]));
    let data = Dataset::new(inputs, one).unwrap();
    let laplace = trained(&data, &"heteroscedastic".parse().unwrap(), &[2, 4, 2]);
    check_page(&Report::of(&laplace, &names(), None, &options(3), &()).unwrap());
}

#[test]
fn names_of_columns_classes_and_files_cannot_break_out_of_their_place() {
    let evil = |name: &str| format!("<img src=x onerror=alert(1)> \"{name}\" & 'co' </title></svg>");
    let schema = Schema::new(vec![evil("a"), evil("b")], vec![evil("y")]).unwrap();
    let data = labels(60, 3).with_schema(schema.with_classes(vec![evil("0"), evil("1"), evil("2")]).unwrap()).unwrap();
    let laplace = trained(&data, &"categorical".parse().unwrap(), &[2, 4, 3]);
    let names = Names { posterior: evil("p"), data: evil("d") };
    let options = ReportOptions { methods: vec![Method::Map, Method::default()], ..Default::default() };
    let page = Report::of(&laplace, &names, Some(&data), &options, &()).unwrap().to_html();
    check_elements(&page);
    assert!(
        !page.contains("<img") && page.contains("&lt;img src=x onerror=alert(1)&gt; &quot;p&quot; &amp; &#39;co&#39;")
    );
}

#[test]
fn large_data_are_thinned_and_the_page_says_so() {
    let laplace = trained(&regression(60, 1), &Family::gaussian(0.3).unwrap(), &[1, 4, 1]);
    let test = regression(30_000, 1);
    let report = Report::of(&laplace, &names(), Some(&test), &options(4), &()).unwrap();
    let page = check_page(&report);
    assert_eq!((report.scored.rows, report.scored.used), (30_000, 5000));
    assert!(page.contains("5,000 of 30,000 rows, evenly spaced") && page.contains("Drawn are 500 of 5,000 rows"));
    assert!(page.len() < 300_000, "{}", page.len());
}

#[test]
fn what_is_wrong_is_said_and_what_is_out_of_range_counted() {
    // A network that was never trained, scored outside of the range of its data.
    let network = Network::random(Architecture::new(&[1, 5, 1], Activation::Tanh).unwrap(), 3);
    let shifted = Dataset::new(inputs(50, 1), inputs(50, 1).mapv(|x| 20.0 + x)).unwrap();
    let laplace = Laplace::fit(network, shifted, Family::gaussian(0.1).unwrap(), &FitOptions::default()).unwrap();
    let beyond = Dataset::new(inputs(40, 1).mapv(|x| x + 1.0), Array2::from_elem((40, 1), 20.0)).unwrap();
    let options = ReportOptions { methods: vec![Method::Map, Method::default()], ..Default::default() };
    let report = Report::of(&laplace, &names(), Some(&beyond), &options, &()).unwrap();
    assert_eq!(report.headline().0, Mood::Bad);
    let found = report.findings();
    let mood = |about: &str| found.iter().find(|finding| finding.about == about).map(|finding| finding.mood);
    assert_eq!((mood("fit"), mood("calibration"), mood("range")), (Some(Mood::Bad), Some(Mood::Bad), Some(Mood::Care)));
    let (low, high) = inputs(50, 1).iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
    let outside = beyond.inputs().iter().filter(|x| **x < low || **x > high).count();
    assert_eq!(report.scored.outside, Some(outside));
    assert_eq!(report.scored.repeated, Some(0));
    check_page(&report);
}

#[test]
fn rows_that_were_trained_on_are_found_out_even_when_they_are_scaled() {
    let data = regression(60, 2).standardized(Standardize::InputsAndTargets).unwrap();
    let laplace = trained(&data, &Family::gaussian(0.3).unwrap(), &[2, 4, 1]);
    let options = ReportOptions { methods: vec![Method::Map, Method::default()], ..Default::default() };
    // The first thirty rows are the same, the others are not.
    let all = regression(60, 2);
    let targets = Array2::from_shape_fn((60, 1), |(n, _)| all.targets()[(n, 0)] + if n < 30 { 0.0 } else { 0.01 });
    let half = Dataset::new(all.inputs().clone(), targets).unwrap();
    for (held_out, count, mood) in [(half, 30, Mood::Care), (all, 60, Mood::Bad)] {
        let report = Report::of(&laplace, &names(), Some(&held_out), &options, &()).unwrap();
        assert_eq!((report.scored.repeated, report.scored.outside), (Some(count), Some(0)));
        let words = format!("{count} of 60 scored rows are also among the training data");
        let found = report.findings();
        assert!(found.iter().any(|finding| finding.words.starts_with(&words) && finding.mood == mood), "{found:?}");
    }
}

#[test]
fn the_spectrum_adds_up_to_the_effective_parameters_or_says_why_it_is_missing() {
    let laplace = trained(&regression(40, 1), &Family::gaussian(0.3).unwrap(), &[1, 4, 1]);
    let options = ReportOptions { methods: vec![Method::default()], ..Default::default() };
    let report = Report::of(&laplace, &names(), None, &options, &()).unwrap();
    let Spectrum::All(values) = &report.fitted.spectrum else { panic!("no spectrum") };
    let sum: f64 = values.iter().map(|value| value / (1.0 + value)).sum();
    assert!((sum - laplace.effective_parameters()).abs() < 1e-8);

    let network = Network::random(Architecture::new(&[1, 1001, 1], Activation::Tanh).unwrap(), 1);
    let wide =
        Laplace::fit(network, regression(20, 1), Family::gaussian(0.3).unwrap(), &FitOptions::default()).unwrap();
    let report = Report::of(&wide, &names(), None, &options, &()).unwrap();
    assert!(matches!(report.fitted.spectrum, Spectrum::Omitted(_)));
    assert!(report.to_html().contains("<dt>spectrum</dt><dd>not computed beyond"));
}

#[test]
fn a_posterior_without_its_data_has_a_page_that_says_what_is_missing() {
    let laplace = trained(&regression(40, 1), &Family::gaussian(0.3).unwrap(), &[1, 4, 1]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("posterior.safetensors");
    laplace.save(&path, Contents::Curvature).unwrap();
    let loaded = Laplace::load(&path).unwrap();
    let options = ReportOptions { methods: vec![Method::Map, Method::default()], ..Default::default() };
    let report = Report::of(&loaded, &names(), Some(&regression(50, 1)), &options, &()).unwrap();
    let page = check_page(&report);
    assert!(page.contains("Leave-one-out scores are missing. The posterior does not hold its training data."));
    assert_eq!((report.scored.outside, report.fitted.fit.is_none()), (None, true));
    assert!(Report::of(&loaded, &names(), None, &options, &()).is_err());
}

#[test]
fn a_calibrated_posterior_shows_coverage_before_and_after_by_third_and_by_group_as_evaluation_has_it() {
    let all = regression(220, 1);
    let rows = |from: usize, to: usize| all.select(&(from..to).collect::<Vec<_>>()).unwrap();
    let mut laplace = trained(&rows(0, 60), &Family::gaussian(0.3).unwrap(), &[1, 6, 1]);
    let groups = |count: usize| (0..count).map(|row| if row % 3 == 0 { "a" } else { "b" }.to_string()).collect();
    let options = CalibrationOptions { groups: Some(("place".to_string(), groups(80))), ..Default::default() };
    laplace.calibrate(&rows(60, 140), &[Method::default()], options, &()).unwrap();
    let (test, methods) = (rows(140, 220), vec![Method::default()]);
    let conditions = Conditions { groups: Some(groups(80)), weights: None };
    let options = ReportOptions { methods: methods.clone(), conditions: conditions.clone(), ..Default::default() };
    let report = Report::of(&laplace, &names(), Some(&test), &options, &()).unwrap();
    let page = check_page(&report);
    let Hold::Shares(found) = &report.hold else { panic!("{:?}", report.hold) };
    let options = CoverageOptions { at: conditions, ..Default::default() };
    let expected = coverage_over(&laplace, &test, &methods, &options, &()).unwrap().unwrap();
    assert_eq!(found, &expected[0]);
    assert_eq!((found.len(), found[1].by_spread.len(), found[1].by_group.len()), (2, 3, 2));
    for words in ["Do the intervals hold?", "<th scope=\"row\">calibrated</th>", "calibrated, a</th>", "lowest third"] {
        assert!(page.contains(words), "{words}");
    }
    let verdict = report.findings().into_iter().find(|finding| finding.about == "guarantee").unwrap();
    assert_eq!(verdict.mood, Mood::Good, "{}", verdict.words);
    // Rows of another kind: the guarantee does not cover them, and the page says so.
    let shifted = Dataset::new(test.inputs().clone(), test.targets().mapv(|y| y + 2.0)).unwrap();
    let options = ReportOptions { methods: methods.clone(), conditions: options.at, ..Default::default() };
    let report = Report::of(&laplace, &names(), Some(&shifted), &options, &()).unwrap();
    assert!(report.findings().iter().any(|finding| finding.about == "guarantee" && finding.mood == Mood::Bad));
    // Without the groups there is a reason in place of figures; and training rows are no judges.
    let options = ReportOptions { methods, ..Default::default() };
    let report = Report::of(&laplace, &names(), Some(&test), &options, &()).unwrap();
    assert!(matches!(&report.hold, Hold::Omitted(reason) if reason.contains("place")), "{:?}", report.hold);
    check_page(&report);
    let report = Report::of(&laplace, &names(), None, &options, &()).unwrap();
    assert!(check_page(&report).contains("it takes rows that were held out to tell"));
}

#[test]
fn a_pool_is_least_known_far_from_the_training_rows() {
    let laplace = trained(&regression(60, 2), &Family::gaussian(0.3).unwrap(), &[2, 5, 1]);
    // Along the first input the pool goes far beyond the data; the second stays within.
    let pool = Array2::from_shape_fn((50, 2), |(n, k)| if k == 0 { 0.1 * n as f64 - 1.0 } else { noise(n) });
    let methods = vec![Method::default()];
    let options = ReportOptions { methods, pool: Some(pool.clone()), ..Default::default() };
    let report = Report::of(&laplace, &names(), Some(&regression(60, 2)), &options, &()).unwrap();
    let page = check_page(&report);
    let unknown = report.unknown.as_ref().unwrap();
    assert_eq!((unknown.rows, unknown.beside_training, unknown.first.len()), (50, true, 5));
    let deviations = |inputs: &Array2<f64>| laplace.linearized(inputs).unwrap().variance().mapv(f64::sqrt);
    let mut training = deviations(laplace.data().unwrap().inputs()).into_iter().collect::<Vec<f64>>();
    training.sort_by(f64::total_cmp);
    let largest = deviations(&pool).into_iter().fold(0.0, f64::max) / training[30];
    assert!((unknown.largest - largest).abs() < 1e-12 * largest);
    assert_eq!(unknown.inputs[0].name, laplace.schema().inputs()[0]);
    let fifths: Vec<f64> = unknown.inputs[0].fifths.iter().map(|part| part.relative).collect();
    assert!(fifths.len() == 5 && fifths[4] > 2.0 * fifths[0], "{fifths:?}");
    // The first to measure is the least known, in its own inputs.
    assert_eq!(unknown.first[0].relative, unknown.largest);
    assert_eq!(unknown.first[0].inputs[0].1, pool[(unknown.first[0].row - 1, 0)]);
    assert!(page.contains("Where is the pool least known?") && page.contains("Rows to measure first"));
}

#[test]
fn a_wrong_label_is_the_first_of_the_suspicious_rows_with_what_the_others_predict() {
    let data = labels(120, 2);
    // The row that is furthest inside the second class is called the first.
    let row = (0..120).max_by(|a, b| data.inputs()[(*a, 0)].total_cmp(&data.inputs()[(*b, 0)])).unwrap();
    let mut targets = data.targets().clone();
    targets[(row, 0)] = 0.0;
    let schema = Schema::new(vec!["a".to_string(), "b".to_string()], vec!["y".to_string()]).unwrap();
    let schema = schema.with_classes(vec!["red".to_string(), "blue".to_string()]).unwrap();
    let wrong = Dataset::new(data.inputs().clone(), targets).unwrap().with_schema(schema).unwrap();
    let laplace = trained(&wrong, &"bernoulli".parse().unwrap(), &[2, 1]);
    let options = ReportOptions { methods: vec![Method::default()], ..Default::default() };
    let report = Report::of(&laplace, &names(), Some(&labels(90, 2)), &options, &()).unwrap();
    let first = &report.notable.suspicious[0];
    assert_eq!((first.row, first.given.as_str()), (row + 1, "red"));
    assert!(first.expected.starts_with("blue with "), "{}", first.expected);
    assert_eq!(report.notable.suspicious.len(), 5);
    let page = check_page(&report);
    assert!(page.contains("Possible label errors") && page.contains("do not delete it unseen"));
}

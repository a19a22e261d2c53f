//! The shipped classification data, and what is claimed about predictions on them, at a size that takes seconds.

#[path = "../examples/datasets/mod.rs"]
mod datasets;
#[allow(dead_code)]
#[path = "../examples/classification/study.rs"]
mod study;

use datasets::images::{SIDE, Sheet};
use datasets::{Classes, Split};
use study::{Trained, Way, paired};

#[test]
fn the_shipped_tables_have_the_rows_columns_and_classes_that_their_description_states() {
    let stated = [
        (Classes::TwoMoons, (300, 2), Some(vec!["lower", "upper"])),
        (Classes::Wine, (178, 13), Some(vec!["cultivar_1", "cultivar_2", "cultivar_3"])),
        (Classes::BreastCancer, (569, 30), Some(vec!["benign", "malignant"])),
        (Classes::Digits, (1797, 64), None),
    ];
    for (set, size, names) in stated {
        let data = set.load().unwrap();
        assert_eq!(data.inputs().dim(), size, "{}", set.name());
        let classes = data.schema().classes().map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(classes, names, "{}", set.name());
        let counted =
            (0..set.count()).map(|class| data.targets().iter().filter(|&&label| label == class as f64).count());
        assert_eq!(counted.sum::<usize>(), data.len(), "{}", set.name());
    }
    for (file, target, size) in [
        ("yacht", "resistance", (308, 6)),
        ("energy", "heating", (768, 8)),
        ("concrete", "strength", (1030, 8)),
        ("wine_red", "quality", (1599, 11)),
    ] {
        let table =
            riemannian_laplace::internals::data::Table::read(&datasets::path(&format!("uci/{file}.csv"))).unwrap();
        assert_eq!(table.dataset(&[target.to_string()]).unwrap().inputs().dim(), size, "{file}");
    }
}

#[test]
fn a_split_has_every_row_once_and_another_index_is_another_split() {
    let data = Classes::Wine.load().unwrap();
    let [first, again, other] = [0, 0, 1].map(|index| Split::random(&data, 0.8, index).unwrap());
    assert_eq!((first.train.len(), first.test.len()), (142, 36));
    assert_eq!(first.test, again.test);
    assert_ne!(first.test, other.test);
    let restored = first.train.schema().restore_inputs(first.train.inputs().view()).unwrap();
    let sum = restored.sum() + first.test.inputs().sum();
    // Rounding in and out of standardised units.
    assert!((sum / data.inputs().sum() - 1.0).abs() < 1e-12);
}

#[test]
fn the_sheets_have_as_many_images_of_each_digit_as_their_description_states() {
    for (file, per_row) in [("mnist_train.png", 300), ("mnist_test.png", 100), ("fashion.png", 40)] {
        let sheet = Sheet::read(file, usize::MAX).unwrap();
        assert_eq!(sheet.len(), 10 * per_row, "{file}");
        assert_eq!(sheet.pixels.len(), sheet.len() * SIDE * SIDE, "{file}");
        assert_eq!(Sheet::read(file, 3).unwrap().rows[..4], [0, 0, 0, 1], "{file}");
        assert!((0..10).all(|row| sheet.rows.iter().filter(|&&other| other == row).count() == per_row), "{file}");
        // No image is empty: each has some white.
        assert!(sheet.pixels.chunks(SIDE * SIDE).all(|image| image.iter().any(|&grey| grey > 0.5)), "{file}");
    }
    // A one has less ink than a zero: the rows are not mixed up.
    let digits = Sheet::read("mnist_train.png", 300).unwrap();
    let ink = |row: usize| -> f32 { digits.pixels.chunks(300 * SIDE * SIDE).nth(row).unwrap().iter().sum() };
    assert!((0..10).all(|row| ink(1) <= ink(row)) && (0..10).all(|row| ink(row) <= ink(0)));
}

/// The claim of the table in docs/results/classification.md at a tenth of its size.
#[test]
fn the_default_prediction_is_not_worse_than_the_network_alone_beyond_two_standard_errors() {
    for set in [Classes::TwoMoons, Classes::Wine, Classes::BreastCancer] {
        let both = |index| {
            let trained = Trained::new(set, index, 500, None).unwrap();
            [Way::Default, Way::Map].map(|way| trained.score(way).unwrap().nll)
        };
        let (default, map): (Vec<f64>, Vec<f64>) = (0..6).map(both).map(|[default, map]| (default, map)).unzip();
        let (difference, error) = paired(&default, &map);
        assert!(difference <= 2.0 * error, "{}: {difference} ± {error}", set.name());
    }
}

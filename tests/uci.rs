//! The splits of the regression benchmark are the published ones.

#[path = "../benches/uci/splits.rs"]
mod splits;

use std::path::Path;

/// `yacht_test_rows.csv` was written by NumPy, one column per split.
#[test]
fn the_splits_of_yacht_are_those_that_numpy_draws() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/uci/yacht_test_rows.csv");
    let text = std::fs::read_to_string(path).expect("the committed splits");
    let rows: Vec<Vec<usize>> =
        text.lines().skip(1).map(|line| line.split(',').map(|cell| cell.parse().expect("a row")).collect()).collect();
    for split in 0..5 {
        let expected: Vec<usize> = rows.iter().map(|row| row[split]).collect();
        let (train, test) = splits::split(308, split);
        assert_eq!(test, expected, "split {split}");
        let mut all: Vec<usize> = train.into_iter().chain(test).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..308));
    }
}

/// The first words after `np.random.seed(1)` and `np.random.permutation(10)`.
#[test]
fn the_generator_is_numpys() {
    assert_eq!(splits::MersenneTwister::seeded(1).permutation(10), [2, 9, 6, 4, 0, 3, 1, 7, 8, 5]);
}

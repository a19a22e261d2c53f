//! Arrays of rows, as data are kept, and matrices of columns, as products take them.

use faer::{Mat, MatRef};
use ndarray::ArrayView2;

use super::{column_slice, column_slice_mut};

/// Columns that are written side by side, and the entries of each that are written at once: a line of the cache.
const COLUMNS: usize = 32;
const ENTRIES: usize = 8;
/// Values that are looked at together.
const VALUES: usize = 1024;

/// An array as a matrix with contiguous columns.
pub(crate) fn columns_of(array: ArrayView2<'_, f64>) -> Mat<f64> {
    let (rows, columns) = array.dim();
    let Some(values) = array.as_slice() else {
        return Mat::from_fn(rows, columns, |row, column| array[(row, column)]);
    };
    let mut matrix = Mat::zeros(rows, columns);
    for first in (0..columns).step_by(COLUMNS) {
        let width = COLUMNS.min(columns - first);
        let mut targets: Vec<&mut [f64]> =
            matrix.as_mut().subcols_mut(first, width).col_iter_mut().map(column_slice_mut).collect();
        for start in (0..rows).step_by(ENTRIES) {
            let count = ENTRIES.min(rows - start);
            let sources = &values[start * columns..(start + count) * columns];
            for (column, target) in targets.iter_mut().enumerate() {
                let entries = sources.iter().skip(first + column).step_by(columns);
                target[start..start + count].iter_mut().zip(entries).for_each(|(entry, value)| *entry = *value);
            }
        }
    }
    matrix
}

/// A matrix with contiguous columns, row by row.
pub(crate) fn write_rows(matrix: MatRef<'_, f64>, target: &mut [f64]) {
    let width = matrix.ncols().max(1);
    let sources: Vec<&[f64]> = matrix.col_iter().map(column_slice).collect();
    for (group, rows) in target.chunks_mut(ENTRIES * width).enumerate() {
        let start = ENTRIES * group;
        for (column, source) in sources.iter().enumerate() {
            let entries = rows.iter_mut().skip(column).step_by(width);
            entries.zip(&source[start..]).for_each(|(entry, value)| *entry = *value);
        }
    }
}

/// The row and the column of the first value that is not finite.
pub(crate) fn first_not_finite(array: ArrayView2<'_, f64>) -> Option<(usize, usize)> {
    let finite = |values: &[f64]| values.iter().fold(true, |all, value| all & value.is_finite());
    if array.as_slice().is_some_and(|values| values.chunks(VALUES).all(finite)) {
        return None;
    }
    array.indexed_iter().find(|(_, value)| !value.is_finite()).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, Axis, Slice};

    use super::*;

    #[test]
    fn columns_are_those_of_the_array() {
        for (rows, columns) in [(0, 3), (3, 0), (1, 1), (7, 31), (8, 32), (9, 33), (41, 100)] {
            let array = Array2::from_shape_fn((rows, columns), |(row, column)| (1000 * row + column) as f64);
            let expected = Mat::from_fn(rows, columns, |row, column| array[(row, column)]);
            assert_eq!(columns_of(array.view()), expected);
            let mut written = vec![f64::NAN; rows * columns];
            write_rows(expected.as_ref(), &mut written);
            assert_eq!(Some(&written[..]), array.as_slice());
            let turned = Mat::from_fn(columns, rows, |row, column| array[(column, row)]);
            assert_eq!(columns_of(array.t()), turned);
        }
    }

    #[test]
    fn the_first_value_that_is_not_finite_is_found() {
        let mut array = Array2::<f64>::zeros((50, 70));
        assert_eq!(first_not_finite(array.view()), None);
        array[(31, 4)] = f64::INFINITY;
        array[(31, 60)] = f64::NAN;
        assert_eq!(first_not_finite(array.view()), Some((31, 4)));
        assert_eq!(first_not_finite(array.slice_axis(Axis(1), Slice::from(5..))), Some((31, 55)));
        assert_eq!(first_not_finite(array.slice_axis(Axis(0), Slice::from(32..))), None);
    }
}

//! Symmetric matrices stored as their lower triangle: packing, inverses from a factor, traces of products.

use std::sync::OnceLock;

use faer::{Accum, Mat};

use super::{Cholesky, column_slice_mut, multiply_by_own_transpose};

/// Copies the lower triangle onto the upper one.
pub fn mirror_lower(matrix: &mut Mat<f64>) {
    for j in 0..matrix.ncols() {
        for i in j + 1..matrix.nrows() {
            matrix[(j, i)] = matrix[(i, j)];
        }
    }
}

/// The number of entries of a packed triangle.
pub fn packed_length(size: usize) -> usize {
    size * (size + 1) / 2
}

/// The lower triangle, column by column.
pub fn pack_lower(matrix: faer::MatRef<'_, f64>) -> Vec<f64> {
    let mut packed = Vec::with_capacity(packed_length(matrix.ncols()));
    for (j, column) in matrix.col_iter().enumerate() {
        packed.extend(column.iter().skip(j));
    }
    packed
}

/// The matrix with this packed lower triangle, and zeros above the diagonal.
pub fn unpack_lower(packed: &[f64], size: usize) -> Mat<f64> {
    let mut matrix = Mat::zeros(size, size);
    let mut rest = packed;
    for j in 0..size {
        let (column, after) = rest.split_at((size - j).min(rest.len()));
        let target = &mut column_slice_mut(matrix.as_mut().col_mut(j))[j..];
        target.iter_mut().zip(column).for_each(|(entry, value)| *entry = *value);
        rest = after;
    }
    matrix
}

/// The diagonal of a packed lower triangle.
pub fn packed_diagonal(packed: &[f64], size: usize) -> impl Iterator<Item = f64> + '_ {
    let mut place = 0;
    (0..size).map_while(move |column| {
        let value = packed.get(place).copied();
        place += size - column;
        value
    })
}

/// A factor that is unpacked from its packed triangle when it is first used.
#[derive(Debug, Clone)]
pub struct PackedFactor {
    size: usize,
    packed: Vec<f64>,
    factor: OnceLock<Cholesky>,
}

impl PackedFactor {
    /// The factor of size `size` with this packed lower triangle.
    pub fn packed(packed: Vec<f64>, size: usize) -> Self {
        Self { size, packed, factor: OnceLock::new() }
    }

    /// The number of rows.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The factor, ready to solve with.
    pub fn get(&self) -> &Cholesky {
        self.factor.get_or_init(|| Cholesky::from_factor(unpack_lower(&self.packed, self.size)))
    }
}

impl From<Cholesky> for PackedFactor {
    fn from(factor: Cholesky) -> Self {
        Self { size: factor.size(), packed: Vec::new(), factor: OnceLock::from(factor) }
    }
}

/// M⁻¹ from the factor of M, lower triangle.
pub fn inverse_lower(cholesky: &Cholesky) -> Mat<f64> {
    let size = cholesky.size();
    let mut root: Mat<f64> = Mat::identity(size, size);
    cholesky.solve_lower_many(root.as_mut());
    let mut inverse = Mat::zeros(size, size);
    multiply_by_own_transpose(inverse.as_mut(), Accum::Replace, root.transpose());
    inverse
}

/// tr(XY) of two symmetric matrices given by their lower triangles.
pub fn trace_of_product(x: &Mat<f64>, y: &Mat<f64>) -> f64 {
    let mut sum = 0.0;
    for c in 0..x.ncols() {
        sum += x[(c, c)] * y[(c, c)];
        for r in c + 1..x.nrows() {
            sum += 2.0 * x[(r, c)] * y[(r, c)];
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_triangle_unpacks_to_itself() {
        for size in [0, 1, 5] {
            let matrix = Mat::from_fn(size, size, |i, j| if i >= j { (10 * i + j) as f64 } else { 0.0 });
            let packed = pack_lower(matrix.as_ref());
            assert_eq!(packed.len(), packed_length(size));
            assert_eq!(unpack_lower(&packed, size), matrix);
            let diagonal: Vec<f64> = (0..size).map(|i| matrix[(i, i)]).collect();
            assert_eq!(packed_diagonal(&packed, size).collect::<Vec<f64>>(), diagonal);
        }
    }
}

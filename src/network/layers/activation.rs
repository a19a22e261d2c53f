//! An activation as a layer: h = φ(z) for every entry, in place.
//!
//! Along a velocity h₀ = φ(z₀), h₁ = φ′z₁, h₂ = φ′z₂ + ½φ″z₁². The layer keeps the slopes φ′ (N × width), with which
//! sensitivities pull back to δ∘φ′, and along a velocity also φ″z₁: δ̇ becomes δ̇∘φ′ + δ∘φ″z₁.

use faer::MatMut;

use crate::linalg::{add_products, column_slice, column_slice_mut, in_parts, scale_by};
use crate::map::resize;
use crate::network::Activation;
use crate::network::layer::Elementwise;
use crate::network::tape::Kept;

impl Elementwise for Activation {
    fn description(&self) -> String {
        self.to_string()
    }

    fn has_kink(&self) -> bool {
        Activation::has_kink(*self)
    }

    fn kept(&self, width: usize, points: usize) -> Kept {
        Kept::matrix(points, width)
    }

    fn kept_size(&self, width: usize, points: usize) -> f64 {
        points as f64 * width as f64
    }

    fn forward(&self, values: MatMut<'_, f64>, kept: &mut Kept) {
        in_parts(values.nrows() * values.ncols(), (values, kept.matrix.as_mut()), |_, (values, slopes)| {
            for (values, slopes) in values.col_iter_mut().zip(slopes.col_iter_mut()) {
                self.replace_with_slope(column_slice_mut(values), column_slice_mut(slopes));
            }
        });
    }

    fn jet(&self, values: MatMut<'_, f64>, kept: &mut Kept) {
        let n = values.nrows() / 3;
        in_parts(values.nrows() * values.ncols(), (values, kept.matrix.as_mut()), |_, (values, slopes)| {
            for (values, slopes) in values.col_iter_mut().zip(slopes.col_iter_mut()) {
                let (z0, rest) = column_slice_mut(values).split_at_mut(n);
                let (z1, z2) = rest.split_at_mut(n);
                self.replace_taylor(z0, z1, z2, column_slice_mut(slopes));
            }
        });
    }

    fn pull_back(&self, sensitivities: MatMut<'_, f64>, kept: &Kept) {
        pull_back_slopes(sensitivities, kept);
    }

    fn forward_along(&self, values: MatMut<'_, f64>, kept: &mut Kept) {
        let n = values.nrows() / 2;
        resize(&mut kept.along, n, values.ncols());
        let columns = values.col_iter_mut().zip(kept.matrix.col_iter_mut()).zip(kept.along.col_iter_mut());
        for ((values, slopes), bends) in columns {
            let (z0, z1) = column_slice_mut(values).split_at_mut(n);
            self.replace_tangent(z0, z1, column_slice_mut(slopes), column_slice_mut(bends));
        }
    }

    fn pull_back_along(&self, sensitivities: MatMut<'_, f64>, along: MatMut<'_, f64>, kept: &Kept) {
        pull_back_slopes_along(sensitivities, along, kept);
    }
}

/// δ ← δ∘φ′ with the slopes that a layer has kept.
pub(super) fn pull_back_slopes(sensitivities: MatMut<'_, f64>, kept: &Kept) {
    let numbers = sensitivities.nrows() * sensitivities.ncols();
    in_parts(numbers, (sensitivities, kept.matrix.as_ref()), |_, (sensitivities, slopes)| {
        for (deltas, slopes) in sensitivities.col_iter_mut().zip(slopes.col_iter()) {
            let slopes = column_slice(slopes);
            for block in column_slice_mut(deltas).chunks_exact_mut(slopes.len().max(1)) {
                scale_by(slopes, block);
            }
        }
    });
}

/// δ̇ ← δ̇∘φ′ + δ∘φ″z₁ and δ ← δ∘φ′ with what a layer has kept.
pub(super) fn pull_back_slopes_along(sensitivities: MatMut<'_, f64>, along: MatMut<'_, f64>, kept: &Kept) {
    let kept = kept.matrix.col_iter().zip(kept.along.col_iter());
    for ((deltas, along), (slopes, bends)) in sensitivities.col_iter_mut().zip(along.col_iter_mut()).zip(kept) {
        let (slopes, bends) = (column_slice(slopes), column_slice(bends));
        let n = slopes.len().max(1);
        let blocks = column_slice_mut(deltas).chunks_exact_mut(n).zip(column_slice_mut(along).chunks_exact_mut(n));
        for (deltas, along) in blocks {
            scale_by(slopes, along);
            add_products(deltas, bends, along);
            scale_by(slopes, deltas);
        }
    }
}

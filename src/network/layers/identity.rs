//! Layers that leave every number as it is: flatten, because the columns of an image already are in the flat order, and
//! dropout, which a trained network no longer does.

use faer::MatMut;

use crate::network::layer::Elementwise;
use crate::network::tape::Kept;

/// h = z, under the name that the layer has in the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// An image becomes a vector.
    Flatten,
    /// Dropout in a trained network.
    Dropout,
}

impl Elementwise for Identity {
    fn description(&self) -> String {
        match self {
            Self::Flatten => "flatten".to_string(),
            Self::Dropout => "dropout".to_string(),
        }
    }

    fn has_kink(&self) -> bool {
        false
    }

    fn kept(&self, _width: usize, _points: usize) -> Kept {
        Kept::nothing()
    }

    fn kept_size(&self, _width: usize, _points: usize) -> f64 {
        0.0
    }

    fn forward(&self, _values: MatMut<'_, f64>, _kept: &mut Kept) {}
    fn jet(&self, _values: MatMut<'_, f64>, _kept: &mut Kept) {}
    fn pull_back(&self, _sensitivities: MatMut<'_, f64>, _kept: &Kept) {}
    fn forward_along(&self, _values: MatMut<'_, f64>, _kept: &mut Kept) {}
    fn pull_back_along(&self, _sensitivities: MatMut<'_, f64>, _along: MatMut<'_, f64>, _kept: &Kept) {}
}

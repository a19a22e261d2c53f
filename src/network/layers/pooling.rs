//! What all pooling layers share: outputs are taken from the pixels below a window and sensitivities given back to them,
//! by the same rule for every Taylor coefficient and every row. They have no parameters.

use faer::{Mat, MatMut, MatRef};

use super::image::{Image, Window};
use super::{AvgPool2d, GlobalAvgPool, MaxPool2d};
use crate::network::layer::LayerVerbs;
use crate::network::tape::Kept;

/// A pooling layer: from it follow the [`LayerVerbs`].
pub(in super::super) trait Pooling {
    /// What messages call it.
    const NAME: &'static str;
    /// Whether a derivative of its outputs has jumps.
    const HAS_KINK: bool;

    /// The shape of the inputs.
    fn input(&self) -> Image;
    /// The windows, each with at least one pixel below it.
    fn window(&self) -> Window;
    /// Takes the outputs from the pixels below, all Taylor coefficients that there is room for; rows that the inputs lack
    /// are zero.
    fn pool(&self, inputs: MatRef<'_, f64>, outputs: MatMut<'_, f64>, kept: &mut Kept);
    /// Gives the sensitivities of every row to the pixels below.
    fn spread(&self, sensitivities: MatRef<'_, f64>, inputs: MatMut<'_, f64>, kept: &Kept);

    /// The columns of its outputs that it keeps a number for, at every point.
    fn n_kept(&self) -> usize {
        0
    }
    /// The arguments of its kinks, a column each, for rows of this many points.
    fn kinks(&self, _inputs: MatRef<'_, f64>, _points: usize) -> Option<Mat<f64>> {
        None
    }

    /// The shape of the outputs.
    fn outputs(&self) -> Image {
        let [height, width] = self.window().outputs();
        Image { height, width, ..self.input() }
    }
}

/// The verbs of a layer that follow from its pooling.
macro_rules! layer_verbs {
    ($($pooling:ty),*) => {$(
        impl LayerVerbs for $pooling {
            fn description(&self) -> String {
                format!("{} {} → {}", Self::NAME, self.input(), self.outputs())
            }

            /// PyTorch allows a frame of at most half the window, so that every window has pixels below it.
            fn problem(&self) -> Option<String> {
                let Window { kernel, padding, .. } = self.window();
                let wide = kernel.iter().zip(&padding).any(|(kernel, padding)| *padding > kernel / 2);
                let message = || format!("has a padding of {}×{}, more than half its window", padding[0], padding[1]);
                wide.then(message).or_else(|| self.window().problem())
            }

            fn n_inputs(&self) -> Option<usize> {
                Some(self.input().size())
            }

            fn n_outputs(&self, _inputs: usize) -> usize {
                self.outputs().size()
            }

            fn has_kink(&self) -> bool {
                Self::HAS_KINK
            }

            fn kept(&self, _inputs: usize, points: usize, _columns: usize) -> Kept {
                match self.n_kept() {
                    0 => Kept::nothing(),
                    kept => Kept::matrix(points, kept),
                }
            }

            fn kept_size(&self, _inputs: usize, points: usize, _columns: usize) -> f64 {
                points as f64 * self.n_kept() as f64
            }

            fn forward(&self, _theta: &[f64], inputs: MatRef<'_, f64>, outputs: MatMut<'_, f64>, kept: &mut Kept) {
                self.pool(inputs, outputs, kept);
            }

            fn jet(
                &self,
                _theta: &[f64],
                _velocity: &[f64],
                inputs: MatRef<'_, f64>,
                outputs: MatMut<'_, f64>,
                kept: &mut Kept,
            ) {
                self.pool(inputs, outputs, kept);
            }

            fn pull_back(
                &self,
                _theta: &[f64],
                sensitivities: MatRef<'_, f64>,
                inputs: Option<MatMut<'_, f64>>,
                kept: &mut Kept,
            ) {
                if let Some(inputs) = inputs {
                    self.spread(sensitivities, inputs, kept);
                }
            }

            fn forward_along(
                &self,
                _theta: &[f64],
                _velocity: &[f64],
                inputs: MatRef<'_, f64>,
                outputs: MatMut<'_, f64>,
                kept: &mut Kept,
            ) {
                self.pool(inputs, outputs, kept);
            }

            fn forward_along_kinks(
                &self,
                _theta: &[f64],
                _velocity: &[f64],
                inputs: MatRef<'_, f64>,
                outputs: MatMut<'_, f64>,
                kept: &mut Kept,
                show: &mut dyn FnMut(MatRef<'_, f64>),
            ) {
                if let Some(kinks) = self.kinks(inputs, kept.matrix.nrows()) {
                    show(kinks.as_ref());
                }
                self.pool(inputs, outputs, kept);
            }

            fn pull_back_along(
                &self,
                _theta: &[f64],
                _velocity: &[f64],
                sensitivities: (MatRef<'_, f64>, MatRef<'_, f64>),
                inputs: Option<(MatMut<'_, f64>, MatMut<'_, f64>)>,
                kept: &mut Kept,
            ) {
                if let Some((inputs, along)) = inputs {
                    self.spread(sensitivities.0, inputs, kept);
                    self.spread(sensitivities.1, along, kept);
                }
            }
        }
    )*};
}

layer_verbs!(AvgPool2d, GlobalAvgPool, MaxPool2d);

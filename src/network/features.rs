//! The frozen front of a network: features for the layers behind it.

use ndarray::{Array2, ArrayView2, Axis};

use super::graph::Graph;
use crate::error::{Error, Result, check_size};
use crate::linalg::{columns_of, first_not_finite, write_rows};
use crate::map::Features;

/// Numbers in the tapes of one batch of points.
const BATCH_NUMBERS: f64 = (1u64 << 22) as f64;

/// The first nodes of a network with their parameters.
#[derive(Debug, Clone)]
pub(super) struct Front {
    graph: Graph,
    parameters: Vec<f64>,
}

impl Front {
    pub(super) fn new(graph: Graph, parameters: Vec<f64>) -> Self {
        Self { graph, parameters }
    }
}

impl Features for Front {
    fn n_features(&self) -> usize {
        self.graph.n_outputs()
    }

    fn features(&self, inputs: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        check_size("number of input columns", self.graph.n_inputs(), inputs.ncols())?;
        if let Some((row, column)) = first_not_finite(inputs) {
            return Err(Error::NotFinite { what: "the input", row, column });
        }
        let mut features = Array2::zeros((inputs.nrows(), self.n_features()));
        let rows = ((BATCH_NUMBERS / self.graph.tape_size(1, 0).max(1.0)) as usize).max(1);
        let parts = features.axis_chunks_iter_mut(Axis(0), rows).zip(inputs.axis_chunks_iter(Axis(0), rows));
        for (index, (mut target, chunk)) in parts.enumerate() {
            let points = chunk.nrows();
            let _reservation = self.graph.reserve(points)?;
            let chunk = columns_of(chunk);
            let mut tapes = self.graph.tapes(points, 0);
            let still = self.graph.still_values(chunk.as_ref()).map_err(|error| error.in_part_from(index * rows))?;
            self.graph.forward(&self.parameters, &still, &mut tapes);
            let outputs = self.graph.outputs(&tapes).get(..points, ..);
            write_rows(outputs, target.as_slice_mut().unwrap_or_default());
        }
        match first_not_finite(features.view()) {
            Some((row, column)) => Err(Error::NotFinite { what: "the network's feature", row, column }),
            None => Ok(features),
        }
    }
}

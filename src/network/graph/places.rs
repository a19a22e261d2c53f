//! Where the parameters of nodes are in θ, and the same graph with θ in another order.

use super::affine::Weight;
use super::indices::Indices;
use super::node::{Kind, Node, Tensor};
use super::{Graph, refuse};
use crate::error::Result;

impl Graph {
    /// The same graph over other tensors: what was parameter i is now parameter `places[i]`. Parameters with one place
    /// become one, as tied weights are.
    pub fn with_tensors(&self, tensors: Vec<Tensor>, places: &[usize]) -> Result<Graph> {
        if places.len() != self.n_params() {
            let problem = format!("has {} parameters, but places for {}", self.n_params(), places.len());
            return Err(refuse("the network", problem));
        }
        let moved = |old: &Indices| -> Indices {
            let new = old.iter().map(|place| places.get(place).copied().unwrap_or(usize::MAX));
            new.collect::<Vec<usize>>().into()
        };
        let node = |node: &Node| Node { kind: with_places(&node.kind, moved), inputs: node.inputs.clone() };
        Graph::new(self.nodes.iter().map(node).collect(), tensors, self.output)
    }
}

/// The node with other places in θ.
pub(super) fn with_places(kind: &Kind, moved: impl Fn(&Indices) -> Indices) -> Kind {
    let mut kind = kind.clone();
    let change = |places: &mut Indices| *places = moved(places);
    match &mut kind {
        Kind::Affine(affine) => {
            if let Some(Weight::Parameters(places)) = &mut affine.weight {
                change(places);
            }
            affine.bias.iter_mut().for_each(change);
        }
        Kind::ScaleShift(scale) => scale.scale.iter_mut().chain(&mut scale.shift).for_each(change),
        _ => {}
    }
    kind
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use crate::error::Result;
    use crate::map::{Model, jacobian};
    use crate::network::{Activation, Architecture, Network};

    fn names(shapes: &[&[usize]]) -> Vec<(String, Vec<usize>)> {
        shapes.iter().enumerate().map(|(index, shape)| (format!("p{index}"), shape.to_vec())).collect()
    }

    #[test]
    fn parameters_in_another_order_have_the_same_jacobian_in_that_order() -> Result<()> {
        let network = Network::random(Architecture::new(&[2, 3, 1], Activation::Tanh)?, 1);
        let inputs = array![[0.3, -1.2], [0.8, 0.1]];
        // The last layer first, and the first matrix by columns.
        let places = [4, 7, 5, 8, 6, 9, 10, 11, 12, 0, 1, 2, 3];
        let mut parameters = vec![0.0; 13];
        places.iter().zip(network.parameters()).for_each(|(place, value)| parameters[*place] = *value);
        let moved = network.with_tensors(&names(&[&[1, 3], &[1], &[2, 3], &[3]]), &places, parameters)?;
        let before = jacobian(&network.bind(inputs.view())?, network.parameters());
        let after = jacobian(&moved.bind(inputs.view())?, moved.parameters());
        for row in 0..2 {
            for (old, new) in places.iter().enumerate() {
                assert!((before[(row, old)] - after[(row, *new)]).abs() < 1e-14);
            }
        }
        Ok(())
    }

    #[test]
    fn parameters_with_one_place_are_tied() -> Result<()> {
        // f = a tanh(b x) with a = b = w.
        let architecture = Architecture::with_biases(&[1, 1, 1], &[false, false], Activation::Tanh)?;
        let network = Network::new(architecture, vec![0.7, 0.7])?;
        let tied = network.with_tensors(&names(&[&[1, 1]]), &[0, 0], vec![0.7])?;
        let row = jacobian(&tied.bind(array![[1.5]].view())?, tied.parameters());
        let inside = (0.7_f64 * 1.5).tanh();
        let expected = inside + 0.7 * 1.5 * (1.0 - inside * inside);
        assert!(row.ncols() == 1 && (row[(0, 0)] - expected).abs() < 1e-14);
        Ok(())
    }

    #[test]
    fn places_beyond_the_tensors_are_refused() -> Result<()> {
        let network = Network::random(Architecture::new(&[1, 1], Activation::Identity)?, 1);
        assert!(network.with_tensors(&names(&[&[1, 1], &[1]]), &[0, 7], vec![0.0; 2]).is_err());
        assert!(network.with_tensors(&names(&[&[1, 1], &[1]]), &[0], vec![0.0; 2]).is_err());
        Ok(())
    }
}

//! State dicts: tensors by name, which do not say how they are connected.
//!
//! So nothing is guessed. Layers that are numbered as in an `nn.Sequential` are a chain; for any other names the caller
//! [states](StatedLayer) the chain and its activations; and what no chain of linear layers has is refused by its tensor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;

use super::{Activation, Layer, Linear};
use crate::error::{DataError, Error, Result, StateDictProblem, TensorError, UnknownActivation};
use crate::tensors::{Tensor, TensorFile};

/// A linear layer of a state dict by name, and the activation after it.
///
/// ```
/// use riemannian_laplace::{Activation, StatedLayer};
///
/// let layer: StatedLayer = "backbone.fc1:tanh".parse()?;
/// assert_eq!((layer.name.as_str(), layer.activation), ("backbone.fc1", Some(Activation::Tanh)));
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedLayer {
    /// The name of its tensors without `.weight` or `.bias`.
    pub name: String,
    /// The activation after it, if there is one.
    pub activation: Option<Activation>,
}

impl StatedLayer {
    /// The name of one of its tensors.
    pub(super) fn tensor(&self, kind: &str) -> String {
        tensor_name(&self.name, kind)
    }
}

/// `stem.kind`, or the kind alone where the stem is empty.
fn tensor_name(stem: &str, kind: &str) -> String {
    if stem.is_empty() { kind.to_string() } else { format!("{stem}.{kind}") }
}

impl FromStr for StatedLayer {
    type Err = Error;

    /// Reads `name` or `name:activation`.
    fn from_str(text: &str) -> Result<Self> {
        let (name, activation) = match text.trim().rsplit_once(':') {
            Some((name, activation)) => {
                (name, Some(activation.trim().parse().map_err(|error: UnknownActivation| Error::from(error))?))
            }
            None => (text.trim(), None),
        };
        if name.is_empty() {
            return Err(Error::Data(DataError::EmptyName { what: "layer", index: 1 }));
        }
        Ok(Self { name: name.to_string(), activation })
    }
}

/// The tensors of one layer.
pub(super) struct LayerTensors {
    /// Both positive.
    pub outputs: usize,
    pub inputs: usize,
    /// W, `[outputs, inputs]`.
    pub weight: Tensor,
    /// b.
    pub bias: Option<Tensor>,
}

/// Reads a state dict. What is not a linear layer is refused by name, before its numbers are looked at.
pub(super) fn read(path: &Path) -> Result<TensorFile> {
    let names = TensorFile::read_where(path, |_| false)?;
    for name in names.names() {
        if let Some(what) = foreign(name) {
            return Err(problem(path, name, StateDictProblem::Foreign { what }));
        }
    }
    TensorFile::read(path)
}

/// What a tensor belongs to by its name, if that is no linear layer.
fn foreign(name: &str) -> Option<&'static str> {
    let last = name.rsplit('.').next().unwrap_or(name);
    match last {
        "running_mean" | "running_var" | "num_batches_tracked" => Some("a batch normalisation"),
        "in_proj_weight" | "in_proj_bias" => Some("an attention layer"),
        _ if last.starts_with("weight_ih") || last.starts_with("weight_hh") => Some("a recurrent layer"),
        _ if last.starts_with("bias_ih") || last.starts_with("bias_hh") => Some("a recurrent layer"),
        _ => None,
    }
}

fn problem(path: &Path, tensor: &str, problem: StateDictProblem) -> Error {
    Error::StateDict { path: path.to_path_buf(), tensor: tensor.to_string(), problem: Box::new(problem) }
}

/// The layers of a state dict that is numbered as an `nn.Sequential` is: `0.weight`, `2.bias`, with any common prefix.
pub(super) fn numbered(path: &Path, mut tensors: BTreeMap<String, Tensor>) -> Result<Vec<LayerTensors>> {
    let mut numbers: BTreeMap<u64, String> = BTreeMap::new();
    let mut common: Option<String> = None;
    for name in tensors.keys() {
        let unnumbered = || problem(path, name, StateDictProblem::Unnumbered { layers: stems(&tensors) });
        let (stem, prefix, number) = layer_number(name).ok_or_else(unnumbered)?;
        if common.get_or_insert_with(|| prefix.to_string()) != prefix {
            return Err(unnumbered());
        }
        match numbers.insert(number, stem.to_string()) {
            Some(other) if other != stem => return Err(unnumbered()),
            _ => {}
        }
    }
    let stems: Vec<String> = numbers.values().cloned().collect();
    let layers = chain(path, &mut tensors, &stems)?;
    check_numbering(path, &numbers)?;
    Ok(layers)
}

/// The layers with these names, in this order.
pub(super) fn stated(
    path: &Path,
    mut tensors: BTreeMap<String, Tensor>,
    layers: &[StatedLayer],
) -> Result<(Vec<Layer>, Vec<f64>)> {
    let names: Vec<String> = layers.iter().map(|layer| layer.name.clone()).collect();
    let mut seen = BTreeSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(Error::Data(DataError::DuplicateName { what: "layer", name: name.clone() }));
    }
    let found = chain(path, &mut tensors, &names)?;
    if let Some(name) = tensors.keys().next() {
        return Err(problem(path, name, StateDictProblem::Unused { layers: names }));
    }
    let (mut chain, mut parameters) = (Vec::new(), Vec::new());
    for (layer, tensors) in layers.iter().zip(found) {
        let (outputs, inputs) = (tensors.outputs, tensors.inputs);
        chain.push(Layer::Linear(Linear { inputs, outputs, bias: tensors.bias.is_some() }));
        chain.extend(layer.activation.filter(|activation| *activation != Activation::Identity).map(Layer::Activation));
        parameters.extend(tensors.weight.values);
        parameters.extend(tensors.bias.map(|bias| bias.values).unwrap_or_default());
    }
    Ok((chain, parameters))
}

/// Takes the tensors of these layers, whose shapes must chain.
fn chain(path: &Path, tensors: &mut BTreeMap<String, Tensor>, stems: &[String]) -> Result<Vec<LayerTensors>> {
    let shape_error = |name: &str, tensor: &Tensor, expected: String| {
        Error::Tensor(TensorError::Shape {
            path: path.to_path_buf(),
            tensor: name.to_string(),
            found: tensor.shape.clone(),
            expected: expected.into(),
        })
    };
    let missing =
        |tensor: String, found: String| Error::Tensor(TensorError::Missing { path: path.to_path_buf(), tensor, found });
    let mut layers: Vec<LayerTensors> = Vec::new();
    for stem in stems {
        let (weight_name, bias_name) = (tensor_name(stem, "weight"), tensor_name(stem, "bias"));
        let bias = tensors.remove(&bias_name);
        let Some(weight) = tensors.remove(&weight_name) else {
            let found = match bias {
                Some(_) => format!("`{bias_name}` without it"),
                None => list(tensors.keys()),
            };
            return Err(missing(weight_name, found));
        };
        let (outputs, inputs) = match weight.shape[..] {
            [outputs, inputs] if outputs > 0 && inputs > 0 => (outputs, inputs),
            [_] if bias.as_ref().is_none_or(|bias| bias.shape == weight.shape) => {
                let what = "a normalisation (its weight has one axis)";
                return Err(problem(path, &weight_name, StateDictProblem::Foreign { what }));
            }
            [_, _, _] | [_, _, _, _] if !weight.shape.contains(&0) => {
                let what = "a convolution (its weight has more than two axes)";
                return Err(problem(path, &weight_name, StateDictProblem::Foreign { what }));
            }
            _ => {
                let expected = "a weight needs shape [outputs, inputs], both positive".to_string();
                return Err(shape_error(&weight_name, &weight, expected));
            }
        };
        if let Some(previous) = layers.last().map(|layer| layer.outputs).filter(|width| *width != inputs) {
            let expected =
                format!("the layer before it has {previous} outputs, so it needs shape [outputs, {previous}]");
            return Err(shape_error(&weight_name, &weight, expected));
        }
        if let Some(bias) = bias.as_ref().filter(|bias| bias.shape != [outputs]) {
            let expected = format!("its weight has {outputs} outputs, so it needs shape [{outputs}]");
            return Err(shape_error(&bias_name, bias, expected));
        }
        layers.push(LayerTensors { outputs, inputs, weight, bias });
    }
    if layers.is_empty() {
        return Err(missing("0.weight".to_string(), "no layers".to_string()));
    }
    Ok(layers)
}

/// In an `nn.Sequential`, activations and dropout are numbered too: between all layers there is room for one, or (in a
/// list of layers alone) between none.
fn check_numbering(path: &Path, numbers: &BTreeMap<u64, String>) -> Result<()> {
    // The steps from each number to the next, with the name of the next.
    let steps = || numbers.keys().zip(numbers.iter().skip(1)).map(|(before, (number, stem))| (number - before, stem));
    let apart = steps().any(|(step, _)| step > 1);
    match steps().find(|(step, _)| *step == 1) {
        Some((_, stem)) if apart => {
            let numbers = numbers.keys().copied().collect();
            Err(problem(path, &format!("{stem}.weight"), StateDictProblem::Numbering { numbers }))
        }
        _ => Ok(()),
    }
}

/// Splits `model.2.weight` into the stem `model.2`, the prefix `model.` and the number 2. A lone `weight` is layer 0.
fn layer_number(name: &str) -> Option<(&str, &str, u64)> {
    let (stem, kind) = name.rsplit_once('.').unwrap_or(("", name));
    if !matches!(kind, "weight" | "bias") {
        return None;
    }
    if stem.is_empty() {
        return Some(("", "", 0));
    }
    let digits = stem.rsplit('.').next().unwrap_or(stem);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((stem, &stem[..stem.len() - digits.len()], digits.parse().ok().filter(|_| is_number)?))
}

/// The names of what has tensors, each once.
fn stems(tensors: &BTreeMap<String, Tensor>) -> Vec<String> {
    let stems: BTreeSet<&str> = tensors.keys().map(|name| name.rsplit_once('.').map_or("", |(stem, _)| stem)).collect();
    stems.into_iter().filter(|stem| !stem.is_empty()).map(str::to_string).collect()
}

fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.take(8).map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "nothing else".to_string() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_a_sequential_and_not_those_of_a_name() {
        assert_eq!(layer_number("0.weight"), Some(("0", "", 0)));
        assert_eq!(layer_number("model.12.bias"), Some(("model.12", "model.", 12)));
        assert_eq!(layer_number("weight"), Some(("", "", 0)));
        assert_eq!(layer_number("fc3.weight"), None);
        assert_eq!(layer_number("model.fc.weight"), None);
        assert_eq!(layer_number("0.scale"), None);
    }
}

//! From nodes to a graph: one pass over the nodes, each of which turns what is known of its inputs into what is known of its
//! outputs.

use std::collections::HashSet;
use std::ops::Range;

use super::budget::Budget;
use super::file::{File, Input};
use super::node::Call;
use super::operators;
use super::parameters::{Parameters, Role};
use super::recognise::Recipes;
use super::tensor::{Constant, Content, Origin, Shape, Size, Tensor};
use super::trouble::{Step, refuse};
use crate::error::Result;
use crate::network::graph::{self, Function, GraphBuilder, Term, View};

/// The largest constant that is computed, as opposed to read.
const MOST_COMPUTED: usize = 1 << 24;
/// What a node costs besides its numbers.
pub const NODE: usize = 128;

/// A graph in the making.
pub struct Lowering<'a> {
    /// The file.
    pub file: &'a File<'a>,
    /// What the nodes become.
    pub graph: GraphBuilder,
    /// What the values are, by their numbers; `None` where that is not known.
    pub values: Vec<Option<Tensor>>,
    /// The parameters of the file.
    pub parameters: Parameters,
    /// What may still be computed.
    pub budget: Budget,
    /// How values were computed entry by entry.
    pub recipes: Recipes,
    /// Whether constants of nodes are parameters: where no initialiser is.
    pub constants_are_parameters: bool,
    /// Nodes that were read together with an earlier one.
    pub done: HashSet<usize>,
}

impl<'a> Lowering<'a> {
    /// Makes the inputs.
    pub fn inputs(&mut self, inputs: Vec<Input<'a>>) {
        for Input { name, shape, origin } in inputs {
            let value = self.graph.input(&shape.lengths);
            self.define(name, Tensor { shape, content: Content::Data(value, origin) });
        }
    }

    /// What a name stands for.
    pub fn named(&self, name: &str) -> Option<&Tensor> {
        self.values.get(self.file.number(name)?)?.as_ref()
    }

    /// Says what a name stands for.
    pub fn define(&mut self, name: &str, tensor: Tensor) {
        if let Some(value) = self.file.number(name).and_then(|number| self.values.get_mut(number)) {
            *value = Some(tensor);
        }
    }

    /// Reads all nodes that a value depends on.
    pub fn run(&mut self, output: &str) -> Result<()> {
        let needed = self.file.needed(output);
        for (index, node) in self.file.nodes.iter().enumerate() {
            if !needed.get(index).copied().unwrap_or(false) || self.done.contains(&index) {
                continue;
            }
            let known = |number: &Option<usize>| self.values.get((*number)?).and_then(Clone::clone);
            let call = Call { node, index, inputs: self.file.arguments(index).iter().map(known).collect() };
            let outputs = self.call(&call).map_err(|trouble| self.file.trouble(index, trouble))?;
            for (name, tensor) in node.output.iter().zip(outputs).filter(|(name, _)| !name.is_empty()) {
                self.define(name, tensor);
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Call<'a>) -> Step<Vec<Tensor>> {
        self.budget.spend(NODE)?;
        for (name, value) in call.node.input.iter().zip(&call.inputs) {
            if !name.is_empty() && value.is_none() {
                return refuse(format!("its input `{name}` {}", self.file.unread(name)));
            }
        }
        operators::lower(self, call)
    }

    /// Data that a value of the graph holds.
    pub fn data(&self, value: graph::Value, shape: Shape) -> Tensor {
        Tensor { shape, content: Content::Data(value, Origin::Computed) }
    }

    /// The constant that a tensor is, those that may be parameters included.
    pub fn constant(&self, tensor: &Tensor) -> Step<Constant> {
        match &tensor.content {
            Content::Constant(constant) if constant.per_point.is_none() => Ok(constant.clone()),
            Content::Parameter(places) => Ok(Constant::real(self.parameters.values(places))),
            _ => refuse("one of its inputs is computed from the data; only constants are read there"),
        }
    }

    /// Parameters as places in θ.
    pub fn view(&mut self, tensor: &Tensor, role: Role, beside: Option<usize>) -> Step<Option<View>> {
        let Content::Parameter(places) = &tensor.content else { return Ok(None) };
        let lengths = &tensor.shape.lengths;
        self.parameters.view(&mut self.graph, (lengths, places), role, beside).map(Some)
    }

    /// The initialiser that a tensor is.
    pub fn initializer(&self, tensor: &Tensor) -> Option<usize> {
        match &tensor.content {
            Content::Parameter(places) => self.parameters.whole(places),
            _ => None,
        }
    }

    /// A value of the graph for anything.
    pub fn value(&mut self, tensor: &Tensor) -> Step<graph::Value> {
        self.value_as(tensor, Role::Weight)
    }

    /// The same, of parameters in a role.
    pub fn value_as(&mut self, tensor: &Tensor, role: Role) -> Step<graph::Value> {
        if let Content::Data(value, _) = tensor.content {
            return Ok(value);
        }
        self.budget.spend(tensor.shape.size())?;
        if let Some(view) = self.view(tensor, role, None)? {
            return Ok(self.graph.parameter_value(&view)?);
        }
        let constant = self.constant(tensor)?;
        Ok(self.graph.combine(&[], &tensor.shape.lengths, Vec::new(), Some(constant.values.to_vec()))?)
    }

    /// φ of every entry.
    pub fn apply(&mut self, tensor: &Tensor, function: impl Into<Function>) -> Step<Tensor> {
        let value = self.value(tensor)?;
        let value = self.graph.function(value, function)?;
        Ok(self.data(value, tensor.shape.clone()))
    }

    /// Entries of a tensor in another shape, or a number where there is none.
    pub fn entries(&mut self, tensor: &Tensor, shape: Shape, places: &[Option<usize>], fill: f64) -> Step<Tensor> {
        let whole = places.iter().all(Option::is_some);
        let content = match &tensor.content {
            Content::Constant(constant) => {
                self.limit(places.len())?;
                Content::Constant(constant.entries(places, fill))
            }
            Content::Parameter(own) if whole => {
                let list = places.iter().flatten().map(|place| own.get(*place));
                Content::Parameter(list.collect::<Vec<usize>>().into())
            }
            content => {
                let value = self.value(tensor)?;
                let origin = match content {
                    Content::Data(_, origin) if whole => *origin,
                    _ => Origin::Computed,
                };
                let value = match whole || fill == 0.0 {
                    true => self.graph.select(value, &shape.lengths, places)?,
                    false => {
                        let entry = |(output, place): (usize, &Option<usize>)| {
                            place.map(|entry| Term { output, input: 0, entry, weight: 1.0 })
                        };
                        let terms = places.iter().enumerate().filter_map(entry).collect();
                        let fills = places.iter().map(|place| if place.is_some() { 0.0 } else { fill }).collect();
                        self.graph.combine(&[value], &shape.lengths, terms, Some(fills))?
                    }
                };
                Content::Data(value, origin)
            }
        };
        Ok(Tensor { shape, content })
    }

    /// The same entries in another shape of the same size.
    pub fn in_shape(&mut self, tensor: &Tensor, shape: Shape) -> Step<Tensor> {
        let content = match &tensor.content {
            Content::Data(value, origin) => Content::Data(self.graph.reshape(*value, &shape.lengths)?, *origin),
            other => other.clone(),
        };
        Ok(Tensor { shape, content })
    }

    /// The same entries in axes of these sizes.
    pub fn reshape(&mut self, tensor: &Tensor, sizes: &[Size]) -> Step<Tensor> {
        let shape = tensor.shape.reshaped(sizes, self.file.points)?;
        self.in_shape(tensor, shape)
    }

    /// The axes in another order.
    pub fn transpose(&mut self, tensor: &Tensor, axes: &[usize]) -> Step<Tensor> {
        let shape = tensor.shape.permuted(axes);
        // Axes of length 1 may move freely.
        let long = |axis: &&usize| tensor.shape.length(**axis) != 1;
        if axes.iter().filter(long).is_sorted() && shape.size() == tensor.shape.size() {
            return self.in_shape(tensor, shape);
        }
        self.budget.spend(tensor.shape.size().saturating_mul(4))?;
        let Some((_, places)) = graph::transposed(&tensor.shape.lengths, axes) else {
            return refuse(format!("there are no such axes {axes:?} among {}", tensor.shape.rank()));
        };
        let places: Vec<Option<usize>> = places.into_iter().map(Some).collect();
        self.entries(tensor, shape, &places, 0.0)
    }

    /// Entries by lists of places along axes; `None` for an axis that stays as it is.
    pub fn pick(&mut self, tensor: &Tensor, lists: &[Option<Vec<Option<usize>>>], fill: f64) -> Step<Tensor> {
        let same = |(axis, list): (usize, &Option<Vec<Option<usize>>>)| {
            let length = tensor.shape.length(axis);
            list.as_ref().is_none_or(|list| list.iter().copied().eq((0..length).map(Some)))
        };
        if lists.iter().enumerate().all(same) {
            return Ok(tensor.clone());
        }
        let length = |(axis, own): (usize, &usize)| lists.get(axis).and_then(Option::as_ref).map_or(*own, Vec::len);
        let lengths: Vec<usize> = tensor.shape.lengths.iter().enumerate().map(length).collect();
        self.budget.spend(graph::size(&lengths).saturating_mul(4))?;
        let mut places = vec![Some(0)];
        let strides = graph::row_major(&tensor.shape.lengths);
        for (axis, (own, stride)) in tensor.shape.lengths.iter().zip(&strides).enumerate() {
            let whole: Vec<Option<usize>>;
            let list = match lists.get(axis).and_then(Option::as_ref) {
                Some(list) => list,
                None => {
                    whole = (0..*own).map(Some).collect();
                    &whole
                }
            };
            let step = |place: &Option<usize>| {
                let place = *place;
                list.iter().map(move |index| Some(place? + (*index)? * stride))
            };
            places = places.iter().flat_map(step).collect();
        }
        let shape = Shape { lengths, points: tensor.shape.points };
        self.entries(tensor, shape, &places, fill)
    }

    /// Entries by a list of places along one axis.
    pub fn along(&mut self, tensor: &Tensor, axis: usize, list: Vec<Option<usize>>) -> Step<Tensor> {
        let mut lists = vec![None; axis];
        lists.push(Some(list));
        self.pick(tensor, &lists, 0.0)
    }

    /// Consecutive entries along one axis.
    pub fn part(&mut self, tensor: &Tensor, axis: usize, range: Range<usize>) -> Step<Tensor> {
        match range.end > tensor.shape.length(axis) {
            true => refuse(format!("one of its inputs has shape {:?}, which is too short", tensor.shape.lengths)),
            false => self.along(tensor, axis, range.map(Some).collect()),
        }
    }

    /// Refuses constants that are too large to be computed.
    pub fn limit(&mut self, numbers: usize) -> Step<()> {
        match numbers > MOST_COMPUTED {
            true => refuse(format!("it computes a constant of {numbers} numbers; at most {MOST_COMPUTED} are")),
            false => self.budget.spend(numbers),
        }
    }
}

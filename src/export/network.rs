//! The forward graph: one value per node of the network, at one θ or at S of them.
//!
//! A value is `[rows, width]`, or `[samples, rows, width]` where samples move it.

use faer::Mat;

use super::functions;
use super::products;
use super::sparse::Sparse;
use super::writer::{Name, Writer};
use crate::error::Result;
use crate::network::graph::{Affine, FixedLinear, Graph, Kind, ScaleShift, Taps, Weight};

/// A value of the graph that is written.
#[derive(Debug, Clone)]
pub(super) struct Value {
    pub(super) name: Name,
    /// Whether it differs between samples.
    pub(super) stacked: bool,
}

impl Value {
    /// Its leading axes: rows, or samples and rows.
    pub(super) fn lead(&self) -> &'static str {
        if self.stacked { "sn" } else { "n" }
    }

    fn n_lead(&self) -> usize {
        self.lead().len()
    }
}

/// The parameters: θ̂, and samples of all or some of them.
#[derive(Debug)]
pub(super) struct Parameters<'a> {
    /// θ̂ of the whole network.
    pub(super) theta: &'a [f64],
    /// Which of them are uncertain.
    pub(super) uncertain: &'a [bool],
    /// θ of every sample; none where the network is that of θ̂.
    pub(super) samples: Option<&'a [Vec<f64>]>,
}

impl Parameters<'_> {
    /// Whether samples differ in any of these.
    fn differ(&self, mut places: impl Iterator<Item = usize>) -> bool {
        self.samples.is_some() && places.any(|place| self.uncertain[place])
    }

    /// θ of every sample, or θ̂ alone.
    fn all(&self, stacked: bool) -> Vec<&[f64]> {
        match self.samples {
            Some(samples) if stacked => samples.iter().map(Vec::as_slice).collect(),
            _ => vec![self.theta],
        }
    }
}

/// The network's graph as it is written: what every node has become.
pub(super) struct Forward<'a> {
    pub(super) graph: &'a Graph,
    pub(super) parameters: Parameters<'a>,
    pub(super) values: Vec<Value>,
}

impl<'a> Forward<'a> {
    /// Writes all nodes; `inputs` are the scaled data columns.
    pub(super) fn write(w: &mut Writer, graph: &'a Graph, parameters: Parameters<'a>, inputs: &Name) -> Result<Self> {
        let mut forward = Self { graph, parameters, values: Vec::new() };
        for index in 0..graph.nodes().len() {
            let value = forward.node(w, index, inputs)?;
            forward.values.push(value);
        }
        Ok(forward)
    }

    /// The inputs of a node.
    pub(super) fn inputs(&self, index: usize) -> Vec<&Value> {
        self.graph.nodes()[index].inputs.iter().map(|input| &self.values[*input]).collect()
    }

    fn node(&self, w: &mut Writer, index: usize, data: &Name) -> Result<Value> {
        let (kind, inputs) = (&self.graph.nodes()[index].kind, self.inputs(index));
        let width = |which: usize| self.graph.width(self.graph.nodes()[index].inputs[which]);
        let stacked = inputs.iter().any(|input| input.stacked);
        let plain = |name: Name| Value { name, stacked };
        match kind {
            Kind::Input(width) => {
                let start = self.graph.input_start(index);
                let places: Vec<usize> = (start..start + width).collect();
                let name = Sparse::selection(self.graph.n_inputs(), &places).apply(w, data, 1);
                Ok(Value { name, stacked: false })
            }
            Kind::OneHot(size) => {
                let column = w.reshape(&inputs[0].name, inputs[0].n_lead(), &[width(0), 1]);
                let classes: Vec<f64> = (0..*size).map(|class| class as f64).collect();
                let classes = w.numbers(&[*size], &classes);
                let same = w.binary("Equal", &column, &classes);
                let real = w.real();
                let same = w.cast(&same, real);
                Ok(plain(w.reshape(&same, inputs[0].n_lead(), &[width(0) * size])))
            }
            Kind::Affine(affine) => Ok(self.affine(w, affine, inputs.first().copied())),
            Kind::ScaleShift(scale) => Ok(self.scale_shift(w, scale, inputs[0])),
            Kind::Elementwise(function) => Ok(plain(functions::value(w, function, &inputs[0].name)?)),
            Kind::Bilinear(bilinear) => {
                let values = [0, 1].map(|which: usize| (&inputs[which].name, inputs[which].lead()));
                let widths = [width(0), width(1), self.graph.width(index)];
                Ok(plain(products::forward(w, bilinear, values, widths)?))
            }
            Kind::FixedLinear(fixed) => Ok(self.fixed_linear(w, index, fixed)),
            Kind::Softmax(softmax) => {
                let lead = inputs[0].n_lead();
                let shaped = w.reshape(&inputs[0].name, lead, &[softmax.outer, softmax.length, softmax.inner]);
                let p = w.softmax(&shaped, lead as i64 + 1);
                Ok(plain(w.reshape(&p, lead, &[width(0)])))
            }
            other => Err(super::refused(&format!("a node of the user's own ({})", other.description()))),
        }
    }

    /// The sum of a sparse matrix times each input, and a constant.
    fn fixed_linear(&self, w: &mut Writer, index: usize, fixed: &FixedLinear) -> Value {
        let mut total: Option<Value> = None;
        for (matrix, input) in self.parts(index, fixed).iter().zip(self.inputs(index)) {
            if matrix.terms.is_empty() {
                continue;
            }
            let name = matrix.apply(w, &input.name, input.n_lead());
            total = Some(match total {
                None => Value { name, stacked: input.stacked },
                Some(sum) => Value { name: w.add(&sum.name, &name), stacked: sum.stacked || input.stacked },
            });
        }
        let width = self.graph.width(index);
        let total = total.unwrap_or_else(|| {
            // A constant: no columns of any input.
            let input = &self.values[0];
            let name =
                Sparse { inputs: self.graph.width(0), outputs: width, terms: Vec::new() }.apply(w, &input.name, 1);
            Value { name, stacked: false }
        });
        match fixed.offset() {
            None => total,
            Some(offset) => {
                let offset = w.numbers(&[width], offset);
                Value { name: w.add(&total.name, &offset), ..total }
            }
        }
    }

    /// The matrix of each input of a fixed linear node.
    pub(super) fn parts(&self, index: usize, fixed: &FixedLinear) -> Vec<Sparse> {
        let outputs = self.graph.width(index);
        let mut starts = Vec::new();
        let mut parts = Vec::new();
        let mut end = 0;
        for input in &self.graph.nodes()[index].inputs {
            starts.push(end);
            end += self.graph.width(*input);
            parts.push(Sparse { inputs: self.graph.width(*input), outputs, terms: Vec::new() });
        }
        for (output, column, weight) in fixed.terms() {
            let which = starts.partition_point(|start| *start <= column) - 1;
            parts[which].terms.push((output, column - starts[which], weight));
        }
        parts
    }

    fn scale_shift(&self, w: &mut Writer, node: &ScaleShift, input: &Value) -> Value {
        let mut value = input.clone();
        for (places, operator) in [(&node.scale, "Mul"), (&node.shift, "Add")] {
            let Some(places) = places else { continue };
            let stacked = self.parameters.differ(places.iter());
            let rows = self.parameters.all(stacked);
            let numbers: Vec<f64> =
                rows.iter().flat_map(|theta| places.iter().map(move |place| theta[place])).collect();
            let shape = if stacked { vec![rows.len(), 1, places.len()] } else { vec![places.len()] };
            let constants = w.numbers(&shape, &numbers);
            value = Value { name: w.binary(operator, &value.name, &constants), stacked: value.stacked || stacked };
        }
        value
    }

    /// W of a node at θ̂: groups one after the other, each outputs × inputs row by row.
    pub(super) fn weights(&self, affine: &Affine) -> Vec<f64> {
        weights_at(affine, self.parameters.theta)
    }

    /// Whether a node's weights or biases are uncertain.
    pub(super) fn is_uncertain(&self, index: usize) -> bool {
        let is_one = |places: &crate::network::graph::Indices| places.iter().any(|at| self.parameters.uncertain[at]);
        match &self.graph.nodes()[index].kind {
            Kind::Affine(affine) => {
                let weight = match &affine.weight {
                    Some(Weight::Parameters(places)) => is_one(places),
                    _ => false,
                };
                weight || affine.bias.as_ref().is_some_and(is_one)
            }
            Kind::ScaleShift(node) => [&node.scale, &node.shift].into_iter().flatten().any(is_one),
            _ => false,
        }
    }

    fn affine(&self, w: &mut Writer, affine: &Affine, input: Option<&Value>) -> Value {
        let (groups, taps) = (affine.taps.groups(), affine.taps.count());
        let outputs = affine.outputs / groups.max(1);
        let places = |weight: &Option<Weight>| match weight {
            Some(Weight::Parameters(places)) => places.iter().collect::<Vec<usize>>(),
            _ => Vec::new(),
        };
        let moved = self.parameters.differ(places(&affine.weight).into_iter());
        let single = affine.taps == Taps::Blocks(1);
        let mut value: Option<Value> = None;
        if let Some(input) = input.filter(|_| affine.weight.is_some()) {
            let h = match single {
                true => input.name.clone(),
                false => taps_of(w, affine, input, self.input_width(affine)),
            };
            let rows = self.parameters.all(moved);
            // Transposed: inputs × outputs for every group.
            let transposed: Vec<f64> = rows.iter().flat_map(|theta| transposed_weights(affine, theta)).collect();
            let mut shape = if moved { vec![rows.len()] } else { Vec::new() };
            if !single {
                shape.extend(if moved { vec![1, groups] } else { vec![groups] });
            }
            shape.extend([affine.inputs, outputs]);
            let weights = w.numbers(&shape, &transposed);
            value = Some(Value { name: w.matmul(&h, &weights), stacked: input.stacked || moved });
        }
        if let Some(bias) = &affine.bias {
            let moved = self.parameters.differ(bias.iter());
            let rows = self.parameters.all(moved);
            let numbers: Vec<f64> = rows.iter().flat_map(|theta| bias.iter().map(move |place| theta[place])).collect();
            let mut shape = if moved { vec![rows.len(), 1] } else { Vec::new() };
            match single {
                true => shape.push(outputs),
                false => shape.extend([groups, 1, outputs]),
            }
            let bias = w.numbers(&shape, &numbers);
            value = Some(match value {
                Some(sum) => Value { name: w.add(&sum.name, &bias), stacked: sum.stacked || moved },
                None => self.alone(w, bias, moved, affine),
            });
        }
        let value = value.unwrap_or_else(|| Value { name: w.number(0.0), stacked: false });
        if single {
            return value;
        }
        // [groups, taps, outputs] to the order of the node's value.
        let lead = value.n_lead();
        let name = match affine.taps {
            Taps::Blocks(_) => value.name.clone(),
            Taps::Windows { .. } => w.exchange_last(&value.name, lead + 3),
        };
        Value { name: w.reshape(&name, lead, &[groups * taps * outputs]), ..value }
    }

    /// Parameters that are a value by themselves, as often as there are rows.
    fn alone(&self, w: &mut Writer, bias: Name, moved: bool, affine: &Affine) -> Value {
        // Zero times the first column of the first input, `[rows, 1]`.
        let first = Sparse { inputs: self.graph.width(0), outputs: 1, terms: vec![(0, 0, 0.0)] };
        let zeros = first.apply(w, &self.values[0].name, 1);
        let name = match affine.taps == Taps::Blocks(1) {
            true => w.add(&zeros, &bias),
            false => {
                let zeros = w.reshape(&zeros, 1, &[1, 1, 1]);
                let all = vec![0.0; affine.taps.count()];
                let taps = w.numbers(&[all.len(), 1], &all);
                let zeros = w.add(&zeros, &taps);
                w.add(&zeros, &bias)
            }
        };
        Value { name, stacked: moved }
    }

    /// The width of the value that a node takes.
    pub(super) fn input_width(&self, affine: &Affine) -> usize {
        affine.taps.input_width(affine.inputs).unwrap_or(0)
    }
}

/// h at the taps: `[…, groups, taps, inputs]`.
pub(super) fn taps_of(w: &mut Writer, affine: &Affine, input: &Value, width: usize) -> Name {
    let (groups, taps) = (affine.taps.groups(), affine.taps.count());
    let entries = match affine.taps {
        Taps::Blocks(_) => input.name.clone(),
        Taps::Windows { .. } => windows(affine, width).apply(w, &input.name, input.n_lead()),
    };
    w.reshape(&entries, input.n_lead(), &[groups, taps, affine.inputs])
}

/// The entries of all windows as a matrix on the input.
pub(super) fn windows(affine: &Affine, width: usize) -> Sparse {
    let (groups, taps, length) = (affine.taps.groups(), affine.taps.count(), affine.inputs);
    let mut terms = Vec::new();
    for group in 0..groups {
        for (tap, columns) in affine.taps.columns(group, length).into_iter().enumerate() {
            let start = (group * taps + tap) * length;
            let filled = columns.into_iter().enumerate();
            terms.extend(filled.filter_map(|(entry, column)| Some((start + entry, column?, 1.0))));
        }
    }
    Sparse { inputs: width, outputs: groups * taps * length, terms }
}

/// W of a node at some θ, groups one after the other, row by row.
fn weights_at(affine: &Affine, theta: &[f64]) -> Vec<f64> {
    match &affine.weight {
        Some(Weight::Parameters(places)) => places.iter().map(|place| theta[place]).collect(),
        Some(Weight::Constants(constants)) => constants.clone(),
        None => Vec::new(),
    }
}

/// Wᵀ of every group, row by row.
fn transposed_weights(affine: &Affine, theta: &[f64]) -> Vec<f64> {
    let weights = weights_at(affine, theta);
    let (inputs, groups) = (affine.inputs, affine.taps.groups());
    let outputs = affine.outputs / groups.max(1);
    let entry = |group: usize, i: usize, o: usize| weights[(group * outputs + o) * inputs + i];
    let places = (0..groups).flat_map(|g| (0..inputs).flat_map(move |i| (0..outputs).map(move |o| (g, i, o))));
    places.map(|(g, i, o)| entry(g, i, o)).collect()
}

/// The numbers of a matrix, row by row.
pub(super) fn row_by_row(matrix: &Mat<f64>) -> Vec<f64> {
    (0..matrix.nrows()).flat_map(|i| (0..matrix.ncols()).map(move |j| matrix[(i, j)])).collect()
}

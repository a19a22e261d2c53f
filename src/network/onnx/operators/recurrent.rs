//! Recurrent layers, unrolled over the steps: an affine map of all inputs at once, then one of the state at every step.
//!
//! | layer | step, with W x + b and R h + c of the gates |
//! |---|---|
//! | RNN | h = φ(Wx + Rh) |
//! | GRU | z, r = σ(…), n = tanh(Wx + r∘(Rh)) or tanh(Wx + R(r∘h)), h = n + z∘(h − n) |
//! | LSTM | i, o, f = σ(…), g = tanh(…), c = f∘c + i∘g, h = o∘tanh(c) |

use crate::network::Activation;
use crate::network::graph::{Term, Value};
use crate::network::onnx::lowering::Lowering;
use crate::network::onnx::node::Call;
use crate::network::onnx::parameters::Role;
use crate::network::onnx::tensor::{Constant, Content, Points, Shape, Size, Tensor};
use crate::network::onnx::trouble::{Step, refuse};

use super::products::dense;

/// The kinds of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Plain,
    /// Whether the state is multiplied by its matrix before it is reset.
    Gru(bool),
    Lstm,
}

/// A layer in one direction.
struct Layer {
    cell: Cell,
    /// The number of gates.
    gates: usize,
    /// The width of the state.
    width: usize,
    /// The number of sequences of a point.
    rows: usize,
    functions: Vec<Activation>,
    /// R, and its part for the last gate.
    weights: [Tensor; 2],
    biases: [Option<Tensor>; 2],
}

/// States of all steps in the order of time, the last one computed, and the last memory.
struct Run {
    states: Vec<Value>,
    state: Value,
    memory: Option<Value>,
}

/// Any of them: all states, the last one, and the last memory.
pub fn recurrent(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Vec<Tensor>> {
    let node = call.node;
    let batch_first = node.int("layout") == Some(1);
    let input = call.input(0)?;
    let input = if batch_first { low.transpose(input, &[1, 0, 2])? } else { input.clone() };
    let [steps, rows, _] = input.shape.lengths[..] else { return refuse("it needs sequences") };
    if input.shape.points.is_some_and(|points| points.axis != 1) {
        return refuse("its steps are the points");
    }
    checks(low, call, steps)?;
    let cell = match node.op_type.as_str() {
        "LSTM" => Cell::Lstm,
        "GRU" => Cell::Gru(node.int("linear_before_reset").unwrap_or(0) != 0),
        _ => Cell::Plain,
    };
    let gates = match cell {
        Cell::Plain => 1,
        Cell::Gru(_) => 3,
        Cell::Lstm => 4,
    };
    let directions: &[bool] = match node.word("direction").as_str() {
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        _ => &[false],
    };
    let (weight, recurrence) = (call.input(1)?, call.input(2)?);
    let width = recurrence.shape.length(2);
    // θ has them in the order of the file.
    for tensor in call.inputs.iter().skip(1).take(3).flatten() {
        low.view(tensor, Role::Weight, None)?;
    }
    let size = |rows: usize| Size::from(rows as i64);
    let mut runs = Vec::new();
    for (direction, reverse) in directions.iter().enumerate() {
        low.budget.spend(steps.saturating_mul(rows * gates * width + 1).saturating_mul(64))?;
        let own = part(low, weight, 0, direction..direction + 1)?;
        let own = low.reshape(&own, &[size(gates * width), size(weight.shape.length(2))])?;
        let matrix = part(low, recurrence, 0, direction..direction + 1)?;
        let matrix = low.reshape(&matrix, &[size(gates * width), size(width)])?;
        let biases = biases(low, call.optional(3), direction, gates * width)?;
        let functions = functions(call, cell, direction)?;
        let projected = dense(low, &input, &own, biases[0].as_ref())?;
        let inputs = low.value(&projected)?;
        let layer = Layer::new(low, (cell, gates, width, rows), functions, &matrix, biases[1].clone())?;
        let state = initial(low, call.optional(5), direction, (rows, width), input.shape.points)?;
        let memory = initial(low, call.optional(6), direction, (rows, width), input.shape.points)?;
        runs.push(layer.run(low, inputs, (state, memory), (steps, *reverse))?);
    }
    results(low, runs, (steps, rows, width), input.shape.points, batch_first)
}

/// Settings that are not supported.
fn checks(low: &Lowering<'_>, call: &Call<'_>, steps: usize) -> Step<()> {
    if let Some(lengths) = call.optional(4) {
        let whole = lengths.as_constant().is_some_and(|own| own.values.iter().all(|length| *length == steps as f64));
        if !whole {
            return refuse("sequences of different lengths are not supported");
        }
    }
    if let Some(tensor) = call.optional(7) {
        if low.constant(tensor)?.values.iter().any(|value| *value != 0.0) {
            return refuse("peepholes are not supported");
        }
    }
    let set = |name: &str| call.node.int(name).unwrap_or(0) != 0;
    if set("input_forget") || call.node.float("clip").unwrap_or(0.0) != 0.0 {
        return refuse("joined gates and clipping are not supported");
    }
    Ok(())
}

/// Entries of an axis.
fn part(low: &mut Lowering<'_>, tensor: &Tensor, axis: usize, range: std::ops::Range<usize>) -> Step<Tensor> {
    if range.end > tensor.shape.length(axis) {
        return refuse(format!("one of its inputs has shape {:?}, which is too short", tensor.shape.lengths));
    }
    let mut lists = vec![None; tensor.shape.rank()];
    if let Some(list) = lists.get_mut(axis) {
        *list = Some(range.map(Some).collect());
    }
    low.pick(tensor, &lists, 0.0)
}

/// The biases of the inputs and of the state, in one direction.
fn biases(low: &mut Lowering<'_>, tensor: Option<&Tensor>, direction: usize, width: usize) -> Step<[Option<Tensor>; 2]> {
    let Some(tensor) = tensor else { return Ok([None, None]) };
    let own = part(low, tensor, 0, direction..direction + 1)?;
    let mut half = |start: usize| -> Step<Option<Tensor>> {
        let half = part(low, &own, 1, start..start + width)?;
        low.reshape(&half, &[Size::from(width as i64)]).map(Some)
    };
    Ok([half(0)?, half(width)?])
}

/// The activations of the gates, in one direction.
fn functions(call: &Call<'_>, cell: Cell, direction: usize) -> Step<Vec<Activation>> {
    let default: &[&str] = match cell {
        Cell::Plain => &["Tanh"],
        Cell::Gru(_) => &["Sigmoid", "Tanh"],
        Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
    };
    let names = call.node.words("activations").filter(|names| !names.is_empty());
    let names = names.unwrap_or_else(|| default.iter().cycle().take(2 * default.len()).map(ToString::to_string).collect());
    let own = names.iter().skip(direction * default.len()).take(default.len());
    let function = |name: &String| match name.to_ascii_lowercase().as_str() {
        "tanh" => Ok(Activation::Tanh),
        "sigmoid" => Ok(Activation::Sigmoid),
        "relu" => Ok(Activation::Relu),
        "softplus" => Ok(Activation::Softplus),
        _ => refuse(format!("the activation {name} is not supported there")),
    };
    let functions = own.map(function).collect::<Step<Vec<Activation>>>()?;
    if functions.len() == default.len() { Ok(functions) } else { refuse("it names too few activations") }
}

/// The state before the first step: zeros where none is given.
fn initial(
    low: &mut Lowering<'_>,
    tensor: Option<&Tensor>,
    direction: usize,
    (rows, width): (usize, usize),
    points: Option<Points>,
) -> Step<Value> {
    let zeros = |lengths: Vec<usize>| {
        let constant = Constant::real(vec![0.0; lengths.iter().product()]);
        Tensor { shape: Shape { points: points.filter(|_| lengths.len() == 3), lengths }, content: Content::Constant(constant) }
    };
    let Some(tensor) = tensor else { return low.value(&zeros(vec![rows, width])) };
    let own = part(low, tensor, 0, direction..direction + 1)?;
    // Beside data with the same points, so that it fits them.
    let (shape, fitted) = low.join(&[&own, &zeros(vec![1, rows, 1])])?;
    let own = fitted.into_iter().next().unwrap_or(own);
    let list = (0..rows).map(|row| Some(if own.shape.length(1) == 1 { 0 } else { row })).collect();
    let own = low.pick(&own, &[None, Some(list), None], 0.0)?;
    if shape.lengths != [1, rows, width] {
        return refuse(format!("its initial state has shape {:?}", tensor.shape.lengths));
    }
    low.in_shape(&own, Shape::still(vec![rows, width])).and_then(|own| low.value(&own))
}

impl Layer {
    fn new(
        low: &mut Lowering<'_>,
        (cell, gates, width, rows): (Cell, usize, usize, usize),
        functions: Vec<Activation>,
        matrix: &Tensor,
        bias: Option<Tensor>,
    ) -> Step<Self> {
        // A state that is reset first meets the last part of R alone.
        let split = if cell == Cell::Gru(false) { (gates - 1) * width } else { gates * width };
        let mut halves = |tensor: &Tensor| -> Step<[Tensor; 2]> {
            Ok([part(low, tensor, 0, 0..split)?, part(low, tensor, 0, split..gates * width)?])
        };
        let weights = halves(matrix)?;
        let biases = match bias {
            Some(bias) => halves(&bias)?.map(Some),
            None => [None, None],
        };
        Ok(Self { cell, gates, width, rows, functions, weights, biases })
    }

    /// R h + c of a state, of all gates or of the last.
    #[allow(clippy::indexing_slicing, reason = "there are two halves")]
    fn recur(&self, low: &mut Lowering<'_>, state: Value, half: usize) -> Step<Value> {
        let state = low.data(state, Shape::still(vec![self.rows, self.width]));
        let result = dense(low, &state, &self.weights[half], self.biases[half].as_ref())?;
        low.value(&result)
    }

    /// A gate of the inputs at a step plus one of the state, if there is one: its first column, and the columns of a row.
    fn gate(
        &self,
        low: &mut Lowering<'_>,
        (inputs, step, gate): (Value, usize, usize),
        state: Option<(Value, usize, usize)>,
    ) -> Step<Value> {
        let (width, own) = (self.width, self.gates * self.width);
        let mut terms = Vec::with_capacity(2 * self.rows * width);
        for (row, unit) in (0..self.rows).flat_map(|row| (0..width).map(move |unit| (row, unit))) {
            let output = row * width + unit;
            let entry = (step * self.rows + row) * own + gate * width + unit;
            terms.push(Term { output, input: 0, entry, weight: 1.0 });
            if let Some((_, first, columns)) = state {
                terms.push(Term { output, input: 1, entry: row * columns + first + unit, weight: 1.0 });
            }
        }
        let values: Vec<Value> = std::iter::once(inputs).chain(state.map(|(value, _, _)| value)).collect();
        Ok(low.graph.combine(&values, &[self.rows, width], terms, None)?)
    }

    /// All steps.
    fn run(
        &self,
        low: &mut Lowering<'_>,
        inputs: Value,
        (mut state, mut memory): (Value, Value),
        (steps, reverse): (usize, bool),
    ) -> Step<Run> {
        let mut states = Vec::with_capacity(steps);
        for count in 0..steps {
            let step = if reverse { steps - 1 - count } else { count };
            (state, memory) = match self.cell {
                Cell::Plain => (self.plain(low, (inputs, step), state)?, memory),
                Cell::Gru(_) => (self.gru(low, (inputs, step), state)?, memory),
                Cell::Lstm => self.lstm(low, (inputs, step), (state, memory))?,
            };
            states.push(state);
        }
        if reverse {
            states.reverse();
        }
        Ok(Run { states, state, memory: (self.cell == Cell::Lstm).then_some(memory) })
    }

    fn function(&self, low: &mut Lowering<'_>, value: Value, which: usize) -> Step<Value> {
        let activation = self.functions.get(which).copied().unwrap_or(Activation::Tanh);
        Ok(low.graph.function(value, activation)?)
    }

    fn plain(&self, low: &mut Lowering<'_>, (inputs, step): (Value, usize), state: Value) -> Step<Value> {
        let recurred = self.recur(low, state, 0)?;
        let sum = self.gate(low, (inputs, step, 0), Some((recurred, 0, self.width)))?;
        self.function(low, sum, 0)
    }

    fn gru(&self, low: &mut Lowering<'_>, (inputs, step): (Value, usize), state: Value) -> Step<Value> {
        let (width, recurred) = (self.width, self.recur(low, state, 0)?);
        let early = self.cell == Cell::Gru(true);
        let columns = if early { 3 * width } else { 2 * width };
        let mut gates = [state; 2];
        for (place, gate) in gates.iter_mut().enumerate() {
            let sum = self.gate(low, (inputs, step, place), Some((recurred, place * width, columns)))?;
            *gate = self.function(low, sum, 0)?;
        }
        let [update, reset] = gates;
        let new = match early {
            true => {
                let rest: Vec<Option<usize>> = (0..self.rows)
                    .flat_map(|row| (0..width).map(move |unit| Some(row * columns + 2 * width + unit)))
                    .collect();
                let rest = low.graph.select(recurred, &[self.rows, width], &rest)?;
                let kept = low.graph.mul(reset, rest)?;
                self.gate(low, (inputs, step, 2), Some((kept, 0, width)))?
            }
            false => {
                let kept = low.graph.mul(reset, state)?;
                let recurred = self.recur(low, kept, 1)?;
                self.gate(low, (inputs, step, 2), Some((recurred, 0, width)))?
            }
        };
        let new = self.function(low, new, 1)?;
        let apart = low.graph.sub(state, new)?;
        let moved = low.graph.mul(update, apart)?;
        Ok(low.graph.add(new, moved)?)
    }

    fn lstm(
        &self,
        low: &mut Lowering<'_>,
        (inputs, step): (Value, usize),
        (state, memory): (Value, Value),
    ) -> Step<(Value, Value)> {
        let recurred = self.recur(low, state, 0)?;
        let mut gates = [state; 4];
        for (place, gate) in gates.iter_mut().enumerate() {
            let sum = self.gate(low, (inputs, step, place), Some((recurred, place * self.width, 4 * self.width)))?;
            *gate = self.function(low, sum, usize::from(place == 3))?;
        }
        let [input, output, forget, new] = gates;
        let (kept, added) = (low.graph.mul(forget, memory)?, low.graph.mul(input, new)?);
        let memory = low.graph.add(kept, added)?;
        let bounded = self.function(low, memory, 2)?;
        Ok((low.graph.mul(output, bounded)?, memory))
    }
}

/// The outputs of the operator: `[steps, directions, points, width]`, and twice `[directions, points, width]`.
fn results(
    low: &mut Lowering<'_>,
    runs: Vec<Run>,
    (steps, rows, width): (usize, usize, usize),
    points: Option<Points>,
    batch_first: bool,
) -> Step<Vec<Tensor>> {
    let count = runs.len();
    let mut stack = |values: Vec<Value>, lengths: Vec<usize>| -> Step<Tensor> {
        let blocks = values.into_iter().map(|value| Ok(low.graph.reshape(value, &[1, rows, width])?));
        let blocks = blocks.collect::<Step<Vec<Value>>>()?;
        let value = low.graph.concat(&blocks, 0)?;
        let value = low.graph.reshape(value, &lengths)?;
        let points = points.map(|points| Points { axis: lengths.len() - 2, ..points });
        Ok(low.data(value, Shape { lengths, points }))
    };
    let by_time = (0..steps).flat_map(|step| runs.iter().filter_map(move |run| run.states.get(step).copied()));
    let all = stack(by_time.collect(), vec![steps, count, rows, width])?;
    let last = stack(runs.iter().map(|run| run.state).collect(), vec![count, rows, width])?;
    let memories: Option<Vec<Value>> = runs.iter().map(|run| run.memory).collect();
    let memory = memories.map(|values| stack(values, vec![count, rows, width])).transpose()?;
    let mut results = vec![all, last];
    results.extend(memory);
    if batch_first {
        for (result, axes) in results.iter_mut().zip([vec![2, 0, 1, 3], vec![1, 0, 2], vec![1, 0, 2]]) {
            *result = low.transpose(result, &axes)?;
        }
    }
    Ok(results)
}

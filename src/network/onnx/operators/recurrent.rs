//! Recurrent layers, unrolled over the steps: an affine map of all inputs at once, then one of the state at every step.
//!
//! | layer | step, with W x + b and R h + c of the gates |
//! |---|---|
//! | RNN | h = φ(Wx + Rh) |
//! | GRU | z, r = σ(…), n = tanh(Wx + r∘(Rh)) or tanh(Wx + R(r∘h)), h = n + z∘(h − n) |
//! | LSTM | i, o, f = σ(…), g = tanh(…), c = f∘c + i∘g, h = o∘tanh(c) |

use crate::network::Activation;
use crate::network::onnx::lowering::Lowering;
use crate::network::onnx::node::Call;
use crate::network::onnx::parameters::Role;
use crate::network::onnx::scalar::Numbers;
use crate::network::onnx::tensor::{Constant, Content, Points, Shape, Size, Tensor};
use crate::network::onnx::trouble::{Step, refuse};

use super::products::dense;
use super::shapes::join;

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
    /// The width of the state.
    width: usize,
    functions: Vec<Activation>,
    /// R, and its part for a state that is reset first.
    weights: [Tensor; 2],
    biases: [Option<Tensor>; 2],
}

/// States of all steps in the order of time, the last one computed, and the last memory.
struct Run {
    states: Vec<Tensor>,
    state: Tensor,
    memory: Tensor,
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
        let own = low.part(weight, 0, direction..direction + 1)?;
        let own = low.reshape(&own, &[size(gates * width), size(weight.shape.length(2))])?;
        let matrix = low.part(recurrence, 0, direction..direction + 1)?;
        let matrix = low.reshape(&matrix, &[size(gates * width), size(width)])?;
        let [first, second] = biases(low, call.optional(3), direction, gates * width)?;
        let inputs = dense(low, &input, &own, first.as_ref())?;
        // A state that is reset first meets the last part of R alone.
        let split = if cell == Cell::Gru(false) { (gates - 1) * width } else { gates * width };
        let mut halves = |own: &Tensor| -> Step<[Tensor; 2]> {
            Ok([low.part(own, 0, 0..split)?, low.part(own, 0, split..gates * width)?])
        };
        let weights = halves(&matrix)?;
        let biases = second.map(|bias| halves(&bias)).transpose()?.map_or([None, None], |both| both.map(Some));
        let layer = Layer { cell, width, functions: functions(call, cell, direction)?, weights, biases };
        let state = initial(low, call.optional(5), direction, (rows, width), input.shape.points)?;
        let memory = initial(low, call.optional(6), direction, (rows, width), input.shape.points)?;
        runs.push(layer.run(low, &inputs, (state, memory), *reverse)?);
    }
    results(low, &runs, (steps, rows, width), input.shape.points, batch_first)
}

/// Settings that are not supported.
fn checks(low: &Lowering<'_>, call: &Call<'_>, steps: usize) -> Step<()> {
    if let Some(lengths) = call.optional(4) {
        let whole = lengths.as_constant().is_some_and(|own| own.values.iter().all(|length| *length == steps as f64));
        if !whole {
            return refuse("sequences of different lengths are not supported");
        }
    }
    let peepholes = call.optional(7).map(|tensor| low.constant(tensor)).transpose()?;
    if peepholes.is_some_and(|own| own.values.iter().any(|value| *value != 0.0)) {
        return refuse("peepholes are not supported");
    }
    let set = |name: &str| call.node.int(name).unwrap_or(0) != 0;
    if set("input_forget") || call.node.float("clip").unwrap_or(0.0) != 0.0 {
        return refuse("joined gates and clipping are not supported");
    }
    Ok(())
}

/// The biases of the inputs and of the state, in one direction.
fn biases(
    low: &mut Lowering<'_>,
    tensor: Option<&Tensor>,
    direction: usize,
    width: usize,
) -> Step<[Option<Tensor>; 2]> {
    let Some(tensor) = tensor else { return Ok([None, None]) };
    let own = low.part(tensor, 0, direction..direction + 1)?;
    let mut half = |start: usize| -> Step<Option<Tensor>> {
        let half = low.part(&own, 1, start..start + width)?;
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
    let names =
        names.unwrap_or_else(|| default.iter().cycle().take(2 * default.len()).map(ToString::to_string).collect());
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
) -> Step<Tensor> {
    let zeros = |lengths: Vec<usize>| {
        let constant = Constant::real(vec![0.0; lengths.iter().product()]);
        Tensor {
            shape: Shape { points: points.filter(|_| lengths.len() == 3), lengths },
            content: Content::Constant(constant),
        }
    };
    let Some(tensor) = tensor else { return Ok(zeros(vec![rows, width])) };
    let own = low.part(tensor, 0, direction..direction + 1)?;
    // Beside data with the same points, so that it fits them.
    let (shape, fitted) = low.join(&[&own, &zeros(vec![1, rows, 1])])?;
    let own = fitted.into_iter().next().unwrap_or(own);
    let list = (0..rows).map(|row| Some(if own.shape.length(1) == 1 { 0 } else { row })).collect();
    let own = low.along(&own, 1, list)?;
    if shape.lengths != [1, rows, width] {
        return refuse(format!("its initial state has shape {:?}", tensor.shape.lengths));
    }
    low.in_shape(&own, Shape::still(vec![rows, width]))
}

impl Layer {
    /// All steps.
    fn run(
        &self,
        low: &mut Lowering<'_>,
        inputs: &Tensor,
        (mut state, mut memory): (Tensor, Tensor),
        reverse: bool,
    ) -> Step<Run> {
        let [steps, rows, columns] = inputs.shape.lengths[..] else { return refuse("it needs sequences") };
        let mut states = Vec::with_capacity(steps);
        for count in 0..steps {
            let step = if reverse { steps - 1 - count } else { count };
            let own = low.part(inputs, 0, step..step + 1)?;
            let own = low.in_shape(&own, Shape::still(vec![rows, columns]))?;
            (state, memory) = match self.cell {
                Cell::Plain => {
                    let recurred = self.recur(low, &state, 0)?;
                    (self.gate(low, (&own, 0), Some((&recurred, 0)), 0)?, memory)
                }
                Cell::Gru(early) => (self.gru(low, &own, &state, early)?, memory),
                Cell::Lstm => self.lstm(low, &own, &state, &memory)?,
            };
            states.push(state.clone());
        }
        if reverse {
            states.reverse();
        }
        Ok(Run { states, state, memory })
    }

    /// R h + c of a state, of all gates or of the last.
    #[allow(clippy::indexing_slicing, reason = "there are two halves")]
    fn recur(&self, low: &mut Lowering<'_>, state: &Tensor, half: usize) -> Step<Tensor> {
        dense(low, state, &self.weights[half], self.biases[half].as_ref())
    }

    /// Activation number `which` of a gate of the inputs plus one of the state.
    fn gate(
        &self,
        low: &mut Lowering<'_>,
        (inputs, gate): (&Tensor, usize),
        state: Option<(&Tensor, usize)>,
        which: usize,
    ) -> Step<Tensor> {
        let place = |gate: usize| gate * self.width..(gate + 1) * self.width;
        let mut sum = low.part(inputs, 1, place(gate))?;
        if let Some((state, gate)) = state {
            let other = low.part(state, 1, place(gate))?;
            sum = low.sum((&sum, 1.0), (&other, 1.0))?;
        }
        low.activation(&sum, self.functions.get(which).copied().unwrap_or(Activation::Tanh))
    }

    fn gru(&self, low: &mut Lowering<'_>, inputs: &Tensor, state: &Tensor, early: bool) -> Step<Tensor> {
        let recurred = self.recur(low, state, 0)?;
        let update = self.gate(low, (inputs, 0), Some((&recurred, 0)), 0)?;
        let reset = self.gate(low, (inputs, 1), Some((&recurred, 1)), 0)?;
        let rest = match early {
            true => {
                let last = low.part(&recurred, 1, 2 * self.width..3 * self.width)?;
                low.product(&reset, &last)?
            }
            false => {
                let kept = low.product(&reset, state)?;
                self.recur(low, &kept, 1)?
            }
        };
        let new = self.gate(low, (inputs, 2), Some((&rest, 0)), 1)?;
        let apart = low.sum((state, 1.0), (&new, -1.0))?;
        let moved = low.product(&update, &apart)?;
        low.sum((&new, 1.0), (&moved, 1.0))
    }

    fn lstm(&self, low: &mut Lowering<'_>, inputs: &Tensor, state: &Tensor, memory: &Tensor) -> Step<(Tensor, Tensor)> {
        let recurred = self.recur(low, state, 0)?;
        let sums = low.sum((inputs, 1.0), (&recurred, 1.0))?;
        let mut gate = |place: usize, which: usize| self.gate(low, (&sums, place), None, which);
        let (input, output, forget, new) = (gate(0, 0)?, gate(1, 0)?, gate(2, 0)?, gate(3, 1)?);
        let (kept, added) = (low.product(&forget, memory)?, low.product(&input, &new)?);
        let memory = low.sum((&kept, 1.0), (&added, 1.0))?;
        let bounded = low.activation(&memory, self.functions.get(2).copied().unwrap_or(Activation::Tanh))?;
        Ok((low.product(&output, &bounded)?, memory))
    }
}

/// The outputs of the operator: `[steps, directions, points, width]`, and twice `[directions, points, width]`.
fn results(
    low: &mut Lowering<'_>,
    runs: &[Run],
    (steps, rows, width): (usize, usize, usize),
    points: Option<Points>,
    batch_first: bool,
) -> Step<Vec<Tensor>> {
    let mut stack = |parts: Vec<&Tensor>, lengths: Vec<usize>| -> Step<Tensor> {
        let parts = parts.into_iter().map(|part| low.in_shape(part, Shape::still(vec![1, rows, width])));
        let parts = parts.collect::<Step<Vec<Tensor>>>()?;
        let whole = join(low, &parts, 0)?;
        let points = points.map(|points| Points { axis: lengths.len() - 2, ..points });
        low.in_shape(&whole, Shape { lengths, points })
    };
    let by_time = (0..steps).flat_map(|step| runs.iter().filter_map(move |run| run.states.get(step)));
    let last = vec![runs.len(), rows, width];
    let mut results = vec![
        stack(by_time.collect(), vec![steps, runs.len(), rows, width])?,
        stack(runs.iter().map(|run| &run.state).collect(), last.clone())?,
        stack(runs.iter().map(|run| &run.memory).collect(), last)?,
    ];
    if batch_first {
        for (result, axes) in results.iter_mut().zip([vec![2, 0, 1, 3], vec![1, 0, 2], vec![1, 0, 2]]) {
            *result = low.transpose(result, &axes)?;
        }
    }
    Ok(results)
}

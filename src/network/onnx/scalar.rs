//! Operators that work entry by entry, each written once: on numbers, for constants and to recognise activations, and on
//! tensors.

use super::messages::NodeProto;
use super::trouble::{Step, refuse};
use crate::network::Activation;
use crate::network::graph::Function;

/// What the operators are written with.
pub trait Numbers {
    /// A number, or a tensor of them.
    type Item: Clone;
    /// A number.
    fn number(&mut self, value: f64) -> Self::Item;
    /// w₁a + w₂b.
    fn sum(&mut self, a: (&Self::Item, f64), b: (&Self::Item, f64)) -> Step<Self::Item>;
    /// ab.
    fn product(&mut self, a: &Self::Item, b: &Self::Item) -> Step<Self::Item>;
    /// a/b.
    fn quotient(&mut self, a: &Self::Item, b: &Self::Item) -> Step<Self::Item>;
    /// aᵇ.
    fn power(&mut self, a: &Self::Item, b: &Self::Item) -> Step<Self::Item>;
    /// φ(a).
    fn function(&mut self, a: &Self::Item, function: Function) -> Step<Self::Item>;
    /// The larger of a and b.
    fn larger(&mut self, a: &Self::Item, b: &Self::Item) -> Step<Self::Item>;
    /// a where the condition is not zero, else b.
    fn choose(&mut self, condition: &Self::Item, a: &Self::Item, b: &Self::Item) -> Step<Self::Item>;
    /// An operator whose results are whole numbers.
    fn rounded(&mut self, operator: &str, a: &Self::Item, b: Option<&Self::Item>) -> Step<Self::Item>;

    /// wa + c.
    fn linear(&mut self, a: &Self::Item, weight: f64, offset: f64) -> Step<Self::Item> {
        let one = self.number(offset);
        self.sum((a, weight), (&one, 1.0))
    }

    /// An activation.
    fn activation(&mut self, a: &Self::Item, activation: Activation) -> Step<Self::Item> {
        self.function(a, activation.into())
    }

    /// The smaller of a and b.
    fn smaller(&mut self, a: &Self::Item, b: &Self::Item) -> Step<Self::Item> {
        let (a, b) = (self.linear(a, -1.0, 0.0)?, self.linear(b, -1.0, 0.0)?);
        let larger = self.larger(&a, &b)?;
        self.linear(&larger, -1.0, 0.0)
    }

    /// 1 where a > b, else 0.
    fn exceeds(&mut self, a: &Self::Item, b: &Self::Item) -> Step<Self::Item> {
        let apart = self.sum((a, 1.0), (b, -1.0))?;
        self.function(&apart, Function::Step)
    }

    /// Between two bounds.
    fn clip(&mut self, a: &Self::Item, bounds: [Option<&Self::Item>; 2]) -> Step<Self::Item> {
        let [low, high] = bounds;
        let above = low.map(|low| self.larger(low, a)).transpose()?.unwrap_or_else(|| a.clone());
        high.map(|high| self.smaller(high, &above)).transpose().map(|below| below.unwrap_or(above))
    }

    /// |a| = 2 relu(a) − a.
    fn magnitude(&mut self, a: &Self::Item) -> Step<Self::Item> {
        let positive = self.activation(a, Activation::Relu)?;
        self.sum((&positive, 2.0), (a, -1.0))
    }

    /// a for a > 0, else α(eᵃ − 1): (1 − α) relu(a) + α elu(a).
    fn elu(&mut self, a: &Self::Item, alpha: f64) -> Step<Self::Item> {
        let (hinge, elu) = (self.activation(a, Activation::Relu)?, self.activation(a, Activation::Elu)?);
        self.sum((&hinge, 1.0 - alpha), (&elu, alpha))
    }
}

/// The activation that an operator is, if it is one.
pub fn activation(node: &NodeProto) -> Option<Activation> {
    let alpha = |own: f64| node.float("alpha").is_none_or(|alpha| (alpha - own).abs() < 1e-8);
    Some(match node.op_type.as_str() {
        "Relu" => Activation::Relu,
        "Tanh" => Activation::Tanh,
        "Sigmoid" => Activation::Sigmoid,
        "Softplus" => Activation::Softplus,
        "Sin" => Activation::Sin,
        "Elu" | "Celu" if alpha(1.0) => Activation::Elu,
        "LeakyRelu" if alpha(0.01) => Activation::LeakyRelu,
        "Swish" if alpha(1.0) => Activation::Silu,
        "Gelu" if node.word("approximate") == "tanh" => Activation::GeluTanh,
        "Gelu" => Activation::Gelu,
        _ => return None,
    })
}

/// Whether this is an operator that works entry by entry.
pub fn is_elementwise(node: &NodeProto) -> bool {
    // Any number will do: what matters is whether the operator is known.
    node.is_standard() && evaluate(&mut Plain, node, &[Some(0.5), Some(0.5), Some(0.5)]).is_ok()
}

/// The result of an operator.
pub fn evaluate<N: Numbers>(on: &mut N, node: &NodeProto, inputs: &[Option<N::Item>]) -> Step<N::Item> {
    let at = |place: usize| -> Step<&N::Item> {
        inputs.get(place).and_then(Option::as_ref).ok_or_else(|| format!("its input {place} is missing").into())
    };
    let x = at(0)?;
    if let Some(activation) = activation(node) {
        return on.activation(x, activation);
    }
    match node.op_type.as_str() {
        "Add" => on.sum((x, 1.0), (at(1)?, 1.0)),
        "Sub" => on.sum((x, 1.0), (at(1)?, -1.0)),
        "Mul" | "And" => on.product(x, at(1)?),
        "Div" => on.quotient(x, at(1)?),
        "Pow" => on.power(x, at(1)?),
        "Sum" | "Mean" | "Max" | "Min" => variadic(on, node.op_type.as_str(), inputs),
        "Or" => on.larger(x, at(1)?),
        "Neg" => on.linear(x, -1.0, 0.0),
        "Not" => on.linear(x, -1.0, 1.0),
        "Greater" => on.exceeds(x, at(1)?),
        "Less" => on.exceeds(at(1)?, x),
        "GreaterOrEqual" => on.exceeds(at(1)?, x).and_then(|less| on.linear(&less, -1.0, 1.0)),
        "LessOrEqual" => on.exceeds(x, at(1)?).and_then(|more| on.linear(&more, -1.0, 1.0)),
        "Where" => on.choose(x, at(1)?, at(2)?),
        "Equal" | "Mod" => on.rounded(&node.op_type, x, Some(at(1)?)),
        "Floor" | "Ceil" | "Round" | "IsNaN" | "IsInf" => on.rounded(&node.op_type, x, None),
        "Abs" => on.magnitude(x),
        "Sign" => {
            let zero = on.number(0.0);
            let (above, below) = (on.exceeds(x, &zero)?, on.exceeds(&zero, x)?);
            on.sum((&above, 1.0), (&below, -1.0))
        }
        "Exp" => on.function(x, Function::Exp),
        "Log" => on.function(x, Function::Log),
        "Sqrt" => on.function(x, Function::Sqrt),
        "Reciprocal" => on.function(x, Function::Reciprocal),
        "Erf" => on.function(x, Function::Erf),
        "Cos" => on.function(x, Function::Cos),
        "Atan" => on.function(x, Function::Atan),
        "Tan" => {
            let (sine, cosine) = (on.activation(x, Activation::Sin)?, on.function(x, Function::Cos)?);
            on.quotient(&sine, &cosine)
        }
        _ => shaped(on, node, x, inputs),
    }
}

/// Operators on any number of inputs.
fn variadic<N: Numbers>(on: &mut N, operator: &str, inputs: &[Option<N::Item>]) -> Step<N::Item> {
    let mut rest = inputs.iter().flatten();
    let Some(first) = rest.next() else { return refuse("it has no input") };
    let mut result = first.clone();
    for next in rest {
        result = match operator {
            "Max" => on.larger(&result, next)?,
            "Min" => on.smaller(&result, next)?,
            _ => on.sum((&result, 1.0), (next, 1.0))?,
        };
    }
    match operator {
        "Mean" => on.linear(&result, 1.0 / inputs.iter().flatten().count() as f64, 0.0),
        _ => Ok(result),
    }
}

/// Activations with settings, and those that are made of others.
fn shaped<N: Numbers>(on: &mut N, node: &NodeProto, x: &N::Item, inputs: &[Option<N::Item>]) -> Step<N::Item> {
    let alpha = |default: f64| node.decimal("alpha", default);
    let second = inputs.get(1).and_then(Option::as_ref);
    match node.op_type.as_str() {
        "Clip" => match (node.float("min"), node.float("max")) {
            (None, None) => on.clip(x, [second, inputs.get(2).and_then(Option::as_ref)]),
            (low, high) => {
                let bounds = [low, high].map(|bound| bound.map(|bound| on.number(bound)));
                on.clip(x, [bounds[0].as_ref(), bounds[1].as_ref()])
            }
        },
        "LeakyRelu" => {
            let hinge = on.activation(x, Activation::Relu)?;
            on.sum((x, alpha(0.01)), (&hinge, 1.0 - alpha(0.01)))
        }
        "PRelu" => {
            let positive = on.activation(x, Activation::Relu)?;
            let negative = on.sum((x, 1.0), (&positive, -1.0))?;
            let scaled = on.product(&negative, second.ok_or("it has no slope")?)?;
            on.sum((&positive, 1.0), (&scaled, 1.0))
        }
        "Elu" => on.elu(x, alpha(1.0)),
        "Selu" => {
            // The defaults are those of the standard, which has them as f32.
            let elu = on.elu(x, node.float("alpha").unwrap_or(1.673_263_192_176_818_8))?;
            on.linear(&elu, node.float("gamma").unwrap_or(1.050_701_022_148_132_3), 0.0)
        }
        "Celu" => {
            let inner = on.linear(x, 1.0 / alpha(1.0), 0.0)?;
            let elu = on.activation(&inner, Activation::Elu)?;
            on.linear(&elu, alpha(1.0), 0.0)
        }
        "Swish" => {
            let inner = on.linear(x, alpha(1.0), 0.0)?;
            let gate = on.activation(&inner, Activation::Sigmoid)?;
            on.product(x, &gate)
        }
        "HardSigmoid" => hard_sigmoid(on, x, (alpha(0.2), node.decimal("beta", 0.5))),
        "HardSwish" => {
            let gate = hard_sigmoid(on, x, (1.0 / 6.0, 0.5))?;
            on.product(x, &gate)
        }
        "Mish" => {
            let soft = on.activation(x, Activation::Softplus)?;
            let gate = on.activation(&soft, Activation::Tanh)?;
            on.product(x, &gate)
        }
        "Softsign" => {
            let size = on.magnitude(x)?;
            let divisor = on.linear(&size, 1.0, 1.0)?;
            on.quotient(x, &divisor)
        }
        "ThresholdedRelu" => {
            let threshold = on.number(alpha(1.0));
            let gate = on.exceeds(x, &threshold)?;
            on.product(x, &gate)
        }
        _ => refuse("this operator is not supported"),
    }
}

fn hard_sigmoid<N: Numbers>(on: &mut N, x: &N::Item, (slope, offset): (f64, f64)) -> Step<N::Item> {
    let (line, zero, one) = (on.linear(x, slope, offset)?, on.number(0.0), on.number(1.0));
    on.clip(&line, [Some(&zero), Some(&one)])
}

/// Plain numbers.
pub struct Plain;

impl Numbers for Plain {
    type Item = f64;

    fn number(&mut self, value: f64) -> f64 {
        value
    }

    fn sum(&mut self, (a, one): (&f64, f64), (b, other): (&f64, f64)) -> Step<f64> {
        Ok(one * a + other * b)
    }

    fn product(&mut self, a: &f64, b: &f64) -> Step<f64> {
        Ok(a * b)
    }

    fn quotient(&mut self, a: &f64, b: &f64) -> Step<f64> {
        Ok(a / b)
    }

    fn power(&mut self, a: &f64, b: &f64) -> Step<f64> {
        Ok(a.powf(*b))
    }

    fn function(&mut self, a: &f64, function: Function) -> Step<f64> {
        Ok(match function {
            Function::Activation(activation) => activation.value(*a),
            function => function.derivatives(0, *a).0,
        })
    }

    fn larger(&mut self, a: &f64, b: &f64) -> Step<f64> {
        Ok(a.max(*b))
    }

    fn choose(&mut self, condition: &f64, a: &f64, b: &f64) -> Step<f64> {
        Ok(if *condition == 0.0 { *b } else { *a })
    }

    fn rounded(&mut self, operator: &str, a: &f64, b: Option<&f64>) -> Step<f64> {
        let truth = |condition: bool| if condition { 1.0 } else { 0.0 };
        Ok(match (operator, b) {
            ("Equal", Some(b)) => truth(a == b),
            ("Mod", Some(b)) => a - (a / b).floor() * b,
            ("Floor", _) => a.floor(),
            ("Ceil", _) => a.ceil(),
            ("Round", _) => a.round_ties_even(),
            ("IsNaN", _) => truth(a.is_nan()),
            ("IsInf", _) => truth(a.is_infinite()),
            _ => return refuse("this operator is not supported"),
        })
    }
}

//! Arithmetic with tensors of any kind: shapes that broadcast to each other, and what the graph computes with them.

use super::lowering::Lowering;
use super::parameters::Role;
use super::scalar::Numbers;
use super::tensor::{Constant, Content, Points, Shape, Tensor};
use super::trouble::{Step, refuse};
use crate::network::Activation;
use crate::network::graph::{Function, Term, broadcast, broadcast_places};

/// Bounds beyond any number that a network computes, which exporters write where there is none.
const NO_BOUND: f64 = 1e30;

impl Lowering<'_> {
    /// The shape that tensors broadcast to, and the tensors as they fit it.
    pub fn join(&mut self, tensors: &[&Tensor]) -> Step<(Shape, Vec<Tensor>)> {
        let rank = tensors.iter().map(|tensor| tensor.shape.rank()).max().unwrap_or(0);
        // The axis of the points, counted from the end, and what is joined with them.
        let from_end = |tensor: &Tensor| {
            tensor.shape.points.map(|points| Points { axis: tensor.shape.rank() - points.axis, ..points })
        };
        let mut points: Option<Points> = None;
        for own in tensors.iter().filter_map(|tensor| from_end(tensor)) {
            if points.is_some_and(|points| points != own) {
                return refuse("its inputs have the points along different axes, so one point would depend on others");
            }
            points = Some(own);
        }
        let mut fitted = Vec::with_capacity(tensors.len());
        let mut lengths = Vec::new();
        for tensor in tensors {
            let tensor = self.settled(tensor, points)?;
            let joined = broadcast(&lengths, &tensor.shape.lengths);
            let problem = || format!("its inputs have shapes {lengths:?} and {:?} at a point", tensor.shape.lengths);
            lengths = joined.ok_or_else(problem)?;
            fitted.push(tensor);
        }
        let points = points.map(|points| Points { axis: rank - points.axis, ..points });
        Ok((Shape { lengths, points }, fitted))
    }

    /// A tensor that is the same at every point beside values whose points are along an axis (counted from the end): where it
    /// is written out for a fixed number of points, only the first of them is left.
    fn settled(&mut self, tensor: &Tensor, points: Option<Points>) -> Step<Tensor> {
        let (None, Some(points)) = (tensor.shape.points, points) else { return Ok(tensor.clone()) };
        let Some(axis) = tensor.shape.rank().checked_sub(points.axis) else { return Ok(tensor.clone()) };
        let (own, Points { before, after, .. }) = (tensor.shape.length(axis), points);
        let count = match (own, self.file.points) {
            (1, _) => return Ok(tensor.clone()),
            (own, Some(count)) if before.checked_mul(after).and_then(|size| size.checked_mul(count)) == Some(own) => count,
            _ => return refuse(format!("a constant has length {own} along the axis of the points")),
        };
        let at = |point: usize| -> Vec<Option<usize>> {
            (0..before).flat_map(|b| (0..after).map(move |a| Some((b * count + point) * after + a))).collect()
        };
        let mut lists = vec![None; tensor.shape.rank()];
        let mut first: Option<Tensor> = None;
        for point in 0..count {
            if let Some(list) = lists.get_mut(axis) {
                *list = Some(at(point));
            }
            let part = self.pick(tensor, &lists, 0.0)?;
            let same = count == 1 || !matches!(part.content, Content::Data(..));
            if !same || first.as_ref().is_some_and(|first| *first != part) {
                return refuse("it has constants that differ between the points of a batch");
            }
            first.get_or_insert(part);
        }
        Ok(first.unwrap_or_else(|| tensor.clone()))
    }

    /// Entries of two constants that meet; `None` if one of the tensors is something else.
    fn constants(&mut self, a: &Tensor, b: &Tensor, of: impl Fn(f64, f64) -> f64) -> Step<Option<Tensor>> {
        let (Some(left), Some(right)) = (a.as_constant(), b.as_constant()) else { return Ok(None) };
        let (shape, _) = self.join(&[a, b])?;
        self.limit(shape.size())?;
        let places = [a, b].map(|tensor| broadcast_places(&tensor.shape.lengths, &shape.lengths).unwrap_or_default());
        let at = |constant: &Constant, place: usize| constant.values.get(place).copied().unwrap_or(0.0);
        let [left_places, right_places] = places;
        let values = left_places.iter().zip(&right_places).map(|(l, r)| of(at(left, *l), at(right, *r)));
        let content = Content::Constant(Constant::real(values.collect()));
        Ok(Some(Tensor { shape, content }))
    }

    /// Whether parameters can act on data entry by entry: they broadcast to its shape.
    fn acts_on(shape: &Shape, data: &Tensor, parameter: &Tensor) -> bool {
        let kinds = matches!((&data.content, &parameter.content), (Content::Data(..), Content::Parameter(_)));
        kinds && data.shape.lengths == shape.lengths && parameter.shape.rank() <= shape.rank()
    }

    /// data·weight + parameters or constants·other; `None` if the graph has no such node.
    fn shifted(&mut self, shape: &Shape, (a, one): (&Tensor, f64), (b, other): (&Tensor, f64)) -> Step<Option<Tensor>> {
        if one == 1.0 && other == 1.0 && Self::acts_on(shape, a, b) {
            let (value, view) = (self.value(a)?, self.view(b, Role::Shift, None)?);
            let sum = self.graph.scale_shift(value, None, view.as_ref())?;
            return Ok(Some(self.data(sum, shape.clone())));
        }
        let Some(constant) = b.as_constant() else { return Ok(None) };
        if constant.values.iter().all(|value| *value == 0.0) && one == 1.0 && a.shape == *shape {
            return Ok(Some(a.clone()));
        }
        let value = self.value(a)?;
        let factors = (one != 1.0).then(|| vec![one; constant.values.len()]);
        let offsets: Vec<f64> = constant.values.iter().map(|value| other * value).collect();
        let offsets = offsets.iter().any(|offset| *offset != 0.0).then_some(offsets);
        let lengths = &b.shape.lengths;
        let sum = self.graph.affine_constant(value, lengths, factors.as_deref(), offsets.as_deref())?;
        Ok(Some(self.data(sum, shape.clone())))
    }

    /// data·(parameters or constants); `None` if the graph has no such node.
    fn scaled(&mut self, shape: &Shape, a: &Tensor, b: &Tensor) -> Step<Option<Tensor>> {
        if Self::acts_on(shape, a, b) {
            let (value, view) = (self.value(a)?, self.view(b, Role::Scale, None)?);
            let product = self.graph.scale_shift(value, view.as_ref(), None)?;
            return Ok(Some(self.data(product, shape.clone())));
        }
        let Some(constant) = b.as_constant() else { return Ok(None) };
        if constant.values.iter().all(|value| *value == 1.0) && a.shape == *shape {
            return Ok(Some(a.clone()));
        }
        let value = self.value(a)?;
        let product = self.graph.affine_constant(value, &b.shape.lengths, Some(&constant.values), None)?;
        Ok(Some(self.data(product, shape.clone())))
    }
}

impl Numbers for Lowering<'_> {
    type Item = Tensor;

    fn number(&mut self, value: f64) -> Tensor {
        Tensor::number(value)
    }

    fn sum(&mut self, (a, one): (&Tensor, f64), (b, other): (&Tensor, f64)) -> Step<Tensor> {
        if let Some(sum) = self.constants(a, b, |a, b| one * a + other * b)? {
            return Ok(sum);
        }
        let (shape, fitted) = self.join(&[a, b])?;
        let [a, b] = &fitted[..] else { return refuse("it has no two inputs") };
        self.budget.spend(shape.size().saturating_mul(2))?;
        if let Some(sum) = self.shifted(&shape, (a, one), (b, other))? {
            return Ok(sum);
        }
        if let Some(sum) = self.shifted(&shape, (b, other), (a, one))? {
            return Ok(sum);
        }
        let values = [(self.value_as(a, Role::Shift)?, one), (self.value_as(b, Role::Shift)?, other)];
        let sum = self.graph.weighted_sum(&values)?;
        Ok(self.data(sum, shape))
    }

    fn product(&mut self, a: &Tensor, b: &Tensor) -> Step<Tensor> {
        if let Some(product) = self.constants(a, b, |a, b| a * b)? {
            return Ok(product);
        }
        let (shape, fitted) = self.join(&[a, b])?;
        let [a, b] = &fitted[..] else { return refuse("it has no two inputs") };
        self.budget.spend(shape.size())?;
        if let Some(product) = self.scaled(&shape, a, b)? {
            return Ok(product);
        }
        if let Some(product) = self.scaled(&shape, b, a)? {
            return Ok(product);
        }
        let (left, right) = (self.value_as(a, Role::Scale)?, self.value_as(b, Role::Scale)?);
        let product = match left == right {
            true => self.graph.function(left, Function::Power(2.0))?,
            false => self.graph.mul(left, right)?,
        };
        Ok(self.data(product, shape))
    }

    fn quotient(&mut self, a: &Tensor, b: &Tensor) -> Step<Tensor> {
        if let Some(quotient) = self.constants(a, b, |a, b| a / b)? {
            return Ok(quotient);
        }
        let inverse = self.function(b, Function::Reciprocal)?;
        self.product(a, &inverse)
    }

    fn power(&mut self, a: &Tensor, b: &Tensor) -> Step<Tensor> {
        let uniform = |constant: &Constant| {
            let first = constant.values.first().copied();
            first.filter(|first| constant.values.iter().all(|value| value == first))
        };
        let (shape, _) = self.join(&[a, b])?;
        match (b.as_constant().and_then(uniform), a.as_constant().and_then(uniform)) {
            (Some(exponent), _) if shape == a.shape => match exponent {
                1.0 => Ok(a.clone()),
                0.5 => self.function(a, Function::Sqrt),
                -1.0 => self.function(a, Function::Reciprocal),
                exponent => self.function(a, Function::Power(exponent)),
            },
            (_, Some(base)) if base > 0.0 => {
                let exponent = self.linear(b, base.ln(), 0.0)?;
                self.function(&exponent, Function::Exp)
            }
            _ => {
                let logarithm = self.function(a, Function::Log)?;
                let exponent = self.product(b, &logarithm)?;
                self.function(&exponent, Function::Exp)
            }
        }
    }

    fn function(&mut self, a: &Tensor, function: Function) -> Step<Tensor> {
        let Some(constant) = a.as_constant() else { return self.apply(a, function) };
        self.limit(constant.values.len())?;
        let value = |z: &f64| super::scalar::Plain.function(z, function.clone());
        let values = constant.values.iter().map(value).collect::<Step<Vec<f64>>>()?;
        Ok(Tensor { shape: a.shape.clone(), content: Content::Constant(Constant::real(values)) })
    }

    fn larger(&mut self, a: &Tensor, b: &Tensor) -> Step<Tensor> {
        if let Some(larger) = self.constants(a, b, f64::max)? {
            return Ok(larger);
        }
        match (a.as_number(), b.as_number()) {
            (Some(bound), _) if bound <= -NO_BOUND => return Ok(b.clone()),
            (_, Some(bound)) if bound <= -NO_BOUND => return Ok(a.clone()),
            // One subtraction less, and exact where the bound wins.
            (None, Some(_)) => return self.larger(b, a),
            _ => {}
        }
        let apart = self.sum((b, 1.0), (a, -1.0))?;
        let excess = self.activation(&apart, Activation::Relu)?;
        self.sum((a, 1.0), (&excess, 1.0))
    }

    fn choose(&mut self, condition: &Tensor, a: &Tensor, b: &Tensor) -> Step<Tensor> {
        let Some(mask) = condition.as_constant() else {
            // c·a + (1 − c)·b.
            let otherwise = self.linear(condition, -1.0, 1.0)?;
            let (a, b) = (self.product(condition, a)?, self.product(&otherwise, b)?);
            return self.sum((&a, 1.0), (&b, 1.0));
        };
        let (shape, fitted) = self.join(&[condition, a, b])?;
        self.budget.spend(shape.size().saturating_mul(4))?;
        let (mut inputs, mut terms, mut offsets) = (Vec::new(), Vec::new(), vec![0.0; shape.size()]);
        let places = |tensor: &Tensor| broadcast_places(&tensor.shape.lengths, &shape.lengths).unwrap_or_default();
        let masks = fitted.first().map(places).unwrap_or_default();
        for (tensor, wanted) in fitted.iter().skip(1).zip([true, false]) {
            let chosen = |(output, entry): (usize, usize)| {
                let truth = masks.get(output).and_then(|place| mask.values.get(*place)).is_some_and(|value| *value != 0.0);
                (truth == wanted).then_some((output, entry))
            };
            let chosen: Vec<(usize, usize)> = places(tensor).into_iter().enumerate().filter_map(chosen).collect();
            if let Some(constant) = tensor.as_constant() {
                for (output, entry) in chosen {
                    if let (Some(offset), Some(value)) = (offsets.get_mut(output), constant.values.get(entry)) {
                        *offset = *value;
                    }
                }
                continue;
            }
            let input = inputs.len();
            inputs.push(self.value(tensor)?);
            terms.extend(chosen.into_iter().map(|(output, entry)| Term { output, input, entry, weight: 1.0 }));
        }
        let value = self.graph.combine(&inputs, &shape.lengths, terms, Some(offsets))?;
        Ok(self.data(value, shape))
    }

    fn rounded(&mut self, operator: &str, a: &Tensor, _: Option<&Tensor>) -> Step<Tensor> {
        match operator {
            // Networks that are read have finite values.
            "IsNaN" | "IsInf" => Ok(Tensor::constant(vec![1; a.shape.rank()], Constant::real(vec![0.0]))),
            _ => refuse("it rounds computed values, and so has no derivatives"),
        }
    }
}

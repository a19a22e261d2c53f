//! Sums of products of two values at every point, forwards and backwards: an einsum where the entries of each value are those
//! of an array, else products of gathered entries.

use super::sparse::Sparse;
use super::writer::{Name, Writer};
use crate::error::Result;
use crate::network::graph::Bilinear;

/// The most products at a point that are gathered one by one.
const MOST: usize = 1 << 22;

/// One of the three values of a node: its step along each axis, and its width.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) steps: &'a [usize],
    pub(super) width: usize,
}

/// A value with the letters of its leading axes: `n` for rows, `s` for samples, `k` for outputs.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) value: &'a Name,
    pub(super) lead: &'a str,
    pub(super) side: Side<'a>,
}

/// Σ left·right over all axes, at the places of `out`; its leading axes are `lead`.
pub(super) fn contract(
    w: &mut Writer,
    sizes: &[usize],
    [left, right]: [Operand<'_>; 2],
    (lead, out): (&str, Side<'_>),
) -> Result<Name> {
    let axes = [left.side, right.side, out].map(|side| array_axes(sizes, side));
    if let [Some(a), Some(b), Some(c)] = &axes
        && c.iter().all(|axis| a.contains(axis) || b.contains(axis))
        && a.iter().chain(b).all(|axis| c.contains(axis) || (a.contains(axis) && b.contains(axis)))
    {
        if a == b && b == c && left.lead == lead {
            let right = aligned(w, right.value.clone(), right.lead, lead, out.width);
            return Ok(w.multiply(left.value, &right));
        }
        let letters = |axes: &[usize]| axes.iter().map(|axis| (b'A' + *axis as u8) as char).collect::<String>();
        let shaped = |w: &mut Writer, operand: Operand<'_>, axes: &[usize]| {
            let lengths: Vec<usize> = axes.iter().map(|axis| sizes[*axis]).collect();
            w.reshape(operand.value, operand.lead.len(), &lengths)
        };
        let (x, y) = (shaped(w, left, a), shaped(w, right, b));
        let equation = format!("{}{},{}{}->{lead}{}", left.lead, letters(a), right.lead, letters(b), letters(c));
        let product = w.einsum(&equation, &x, &y);
        return Ok(w.reshape(&product, lead.len(), &[out.width]));
    }
    one_by_one(w, sizes, [left, right], (lead, out))
}

/// The axes of an array in row-major order that these steps walk through; `None` if it is none.
fn array_axes(sizes: &[usize], side: Side<'_>) -> Option<Vec<usize>> {
    let mut axes: Vec<usize> = (0..sizes.len()).filter(|axis| sizes[*axis] > 1 && side.steps[*axis] > 0).collect();
    axes.sort_by_key(|axis| std::cmp::Reverse(side.steps[*axis]));
    let mut step = 1;
    for axis in axes.iter().rev() {
        if side.steps[*axis] != step {
            return None;
        }
        step *= sizes[*axis];
    }
    (step == side.width && axes.len() <= 20).then_some(axes)
}

fn one_by_one(
    w: &mut Writer,
    sizes: &[usize],
    [left, right]: [Operand<'_>; 2],
    (lead, out): (&str, Side<'_>),
) -> Result<Name> {
    let count = sizes.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
    let Some(count) = count.filter(|count| *count <= MOST) else {
        return Err(super::refused("a product of two values over more terms than can be listed"));
    };
    let places = |side: Side<'_>| -> Vec<usize> {
        let place = |index: usize| {
            let mut rest = index;
            let parts = sizes.iter().zip(side.steps).rev().map(|(size, step)| {
                let at = rest % size;
                rest /= size;
                at * step
            });
            parts.sum()
        };
        (0..count).map(place).collect()
    };
    let taken = |w: &mut Writer, operand: Operand<'_>| {
        let entries = Sparse::selection(operand.side.width, &places(operand.side));
        let entries = entries.apply(w, operand.value, operand.lead.len());
        aligned(w, entries, operand.lead, lead, count)
    };
    let (x, y) = (taken(w, left), taken(w, right));
    let products = w.multiply(&x, &y);
    let terms = places(out).into_iter().enumerate().map(|(input, output)| (output, input, 1.0)).collect();
    Ok(Sparse { inputs: count, outputs: out.width, terms }.apply(w, &products, lead.len()))
}

/// A value with axes of length one where the result has axes that it lacks.
fn aligned(w: &mut Writer, value: Name, own: &str, lead: &str, width: usize) -> Name {
    match (own, lead) {
        // Rows in front of outputs: `[n, width]` beside `[n, k, width]`.
        ("n", "nk") => w.reshape(&value, 1, &[1, width]),
        _ => value,
    }
}

/// Forwards.
pub(super) fn forward(
    w: &mut Writer,
    bilinear: &Bilinear,
    values: [(&Name, &str); 2],
    widths: [usize; 3],
) -> Result<Name> {
    let operand = |which: usize, steps| Operand {
        value: values[which].0,
        lead: values[which].1,
        side: Side { steps, width: widths[which] },
    };
    let lead = if values.iter().any(|(_, lead)| *lead == "sn") { "sn" } else { "n" };
    let operands = [operand(0, &bilinear.left), operand(1, &bilinear.right)];
    // A product entry by entry of a stacked and a plain value starts with the stacked one.
    let operands = if operands[0].lead == lead { operands } else { [operands[1], operands[0]] };
    contract(w, &bilinear.sizes, operands, (lead, Side { steps: &bilinear.out, width: widths[2] }))
}

/// Sensitivities of one of the inputs, from those of the value and the other input.
pub(super) fn backward(
    w: &mut Writer,
    bilinear: &Bilinear,
    which: usize,
    (deltas, delta_lead): (&Name, &str),
    other: &Name,
    widths: [usize; 3],
) -> Result<Name> {
    let steps = [&bilinear.left, &bilinear.right];
    let side = |which: usize| Side { steps: steps[which], width: widths[which] };
    let deltas = Operand { value: deltas, lead: delta_lead, side: Side { steps: &bilinear.out, width: widths[2] } };
    let other = Operand { value: other, lead: "n", side: side(1 - which) };
    contract(w, &bilinear.sizes, [deltas, other], ("nk", side(which)))
}

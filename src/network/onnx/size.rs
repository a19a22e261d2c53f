//! The nodes of a model and the memory that it takes once it is decoded, counted from its bytes before it is: an empty message
//! of two bytes becomes a structure of a hundred and more, in a vector that doubles.

use super::messages::{AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto};

/// Messages within which others are counted.
#[derive(Clone, Copy)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
}

/// What a vector that doubles may hold beyond what is in it.
const DOUBLED: usize = 2;
/// A string or a list of bytes: its place in a vector, and the allocator's own.
const STRING: usize = DOUBLED * size_of::<String>() + 16;
/// Bytes of a number for each byte of it in a packed list.
const PACKED: usize = DOUBLED * size_of::<i64>();
/// The same of what describes a value: a dimension without a length takes two bytes.
const DESCRIBED: usize = 64;

/// Nodes, and values that they take, of the largest graph that is read. Networks have thousands.
pub(super) const MOST_NODES: usize = 1 << 18;

/// The nodes of a model's graph and the values that they take.
pub(super) fn nodes(model: &[u8]) -> usize {
    let values = |node| 1 + fields(node, 1).count();
    fields(model, 7).flat_map(|graph| fields(graph, 1)).map(values).sum()
}

/// The contents of every field of that number.
fn fields(mut rest: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || next(&mut rest)).filter_map(move |(field, payload)| payload.filter(|_| field == number))
}

/// Bytes that decoding takes, at most. What is no message ends the count, as it ends the decoding.
pub(super) fn decoded(bytes: &[u8]) -> usize {
    count(Message::Model, bytes)
}

fn count(message: Message, mut rest: &[u8]) -> usize {
    let mut total = 0_usize;
    while let Some((field, payload)) = next(&mut rest) {
        let length = payload.map_or(0, <[u8]>::len);
        let within = |child: Message, size: usize| DOUBLED * size + count(child, payload.unwrap_or_default());
        total = total.saturating_add(match (message, field) {
            (Message::Model, 7) => within(Message::Graph, size_of::<GraphProto>()),
            (Message::Graph, 1) => within(Message::Node, size_of::<NodeProto>()),
            (Message::Graph, 5) => within(Message::Tensor, size_of::<TensorProto>()),
            (Message::Graph, 11..=13) => DOUBLED * size_of::<ValueInfoProto>() + DESCRIBED * length,
            (Message::Node, 5) => within(Message::Attribute, size_of::<AttributeProto>()),
            (Message::Attribute, 5) => within(Message::Tensor, size_of::<TensorProto>()),
            // The weights themselves: as bytes, or as numbers of their own length.
            (Message::Tensor, 4 | 9 | 10) => STRING + DOUBLED * length,
            (Message::Tensor | Message::Attribute, _) => 2 * STRING + PACKED * length,
            (Message::Model | Message::Graph | Message::Node, _) => 2 * STRING + DOUBLED * length,
        });
    }
    total
}

/// The number of the next field, and its contents where they have a length.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u64, Option<&'a [u8]>)> {
    let tag = varint(rest)?;
    let payload = match tag & 7 {
        0 => varint(rest).map(|_| None)?,
        1 => rest.split_off(..8).map(|_| None)?,
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            Some(rest.split_off(..length)?)
        }
        5 => rest.split_off(..4).map(|_| None)?,
        _ => return None,
    };
    Some((tag >> 3, payload))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, others) = rest.split_first()?;
        *rest = others;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

//! How large a graph is, before it is decoded: a node takes twenty times its bytes in memory.

use prost::encoding::decode_varint;

/// Nodes, and values that they take, of the largest graph that is read. Networks have thousands.
pub const MOST_NODES: usize = 1 << 18;

/// The fields of a message that have a length, with their numbers; those before the first that is malformed.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        loop {
            let key = decode_varint(&mut rest).ok()?;
            let length = match key & 7 {
                0 => {
                    decode_varint(&mut rest).ok()?;
                    continue;
                }
                1 => 8,
                2 => usize::try_from(decode_varint(&mut rest).ok()?).ok()?,
                5 => 4,
                _ => return None,
            };
            let (own, after) = rest.split_at_checked(length)?;
            rest = after;
            return Some((key >> 3, own));
        }
    })
}

/// The nodes of a model's graph and the values that they take, and the parts of everything in the graph.
pub fn extent(model: &[u8]) -> (usize, usize) {
    let (mut nodes, mut parts) = (0, 0);
    for (_, graph) in fields(model).filter(|(number, _)| *number == 7) {
        for (number, part) in fields(graph) {
            parts += 1 + fields(part).map(|(_, inner)| 1 + fields(inner).count()).sum::<usize>();
            if number == 1 {
                nodes += 1 + fields(part).filter(|(number, _)| *number == 1).count();
            }
        }
    }
    (nodes, parts)
}

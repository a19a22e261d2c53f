//! Numbers and named tensors as bytes, little-endian, to the last bit.

use std::collections::BTreeMap;

use crate::error::{Result, TeamError};
use crate::tensors::Tensor;

/// Numbers one after another.
pub fn pack_numbers(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The numbers of a message.
pub fn unpack_numbers(message: &[u8]) -> Result<Vec<f64>> {
    let (words, rest) = message.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(TeamError::Message.into());
    }
    Ok(words.iter().map(|word| f64::from_le_bytes(*word)).collect())
}

/// Lists of numbers, each after its length.
pub fn pack_lists(lists: &[Vec<f64>]) -> Vec<u8> {
    let mut message = Vec::new();
    for list in lists {
        message.extend((list.len() as u64).to_le_bytes());
        message.extend(pack_numbers(list));
    }
    message
}

/// The lists of a message.
pub fn unpack_lists(message: &[u8]) -> Result<Vec<Vec<f64>>> {
    let (mut rest, mut lists) = (message, Vec::new());
    while !rest.is_empty() {
        let bytes = take_count(&mut rest)?.checked_mul(8).ok_or(TeamError::Message)?;
        lists.push(unpack_numbers(take(&mut rest, bytes)?)?);
    }
    Ok(lists)
}

/// Tensors: the number of them, then for each the length of its name, the name, the number of its axes, their lengths, and
/// its values.
pub fn pack_tensors<'a>(tensors: impl IntoIterator<Item = (&'a str, &'a [usize], &'a [f64])>) -> Vec<u8> {
    let tensors: Vec<(&str, &[usize], &[f64])> = tensors.into_iter().collect();
    let mut message = (tensors.len() as u64).to_le_bytes().to_vec();
    for (name, shape, values) in tensors {
        message.extend((name.len() as u64).to_le_bytes());
        message.extend(name.as_bytes());
        message.extend((shape.len() as u64).to_le_bytes());
        shape.iter().for_each(|axis| message.extend((*axis as u64).to_le_bytes()));
        message.reserve(8 * values.len());
        values.iter().for_each(|value| message.extend(value.to_le_bytes()));
    }
    message
}

/// The tensors of a message, by name.
pub fn unpack_tensors(message: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    let mut rest = message;
    let mut tensors = BTreeMap::new();
    for _ in 0..take_count(&mut rest)? {
        let length = take_count(&mut rest)?;
        let name = std::str::from_utf8(take(&mut rest, length)?).map_err(|_| TeamError::Message)?.to_string();
        let mut shape = Vec::new();
        for _ in 0..take_count(&mut rest)? {
            shape.push(take_count(&mut rest)?);
        }
        let bytes = shape.iter().try_fold(8_usize, |size, &axis| size.checked_mul(axis)).ok_or(TeamError::Message)?;
        let values = unpack_numbers(take(&mut rest, bytes)?)?;
        tensors.insert(name, Tensor { shape, values });
    }
    if rest.is_empty() { Ok(tensors) } else { Err(TeamError::Message.into()) }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length).ok_or(TeamError::Message)?;
    *rest = after;
    Ok(taken)
}

fn take_count(rest: &mut &[u8]) -> Result<usize> {
    let (count, after) = rest.split_first_chunk::<8>().ok_or(TeamError::Message)?;
    *rest = after;
    usize::try_from(u64::from_le_bytes(*count)).map_err(|_| TeamError::Message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_and_numbers_return_to_the_last_bit() -> Result<()> {
        let values = [0.1, -0.0, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY, 1e300];
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&unpack_numbers(&pack_numbers(&values))?), bits(&values));
        let message =
            pack_tensors([("sums.ü", &[2, 3][..], &values[..]), ("one", &[][..], &values[..1]), ("", &[0], &[])]);
        let tensors = unpack_tensors(&message)?;
        assert_eq!(tensors.len(), 3);
        assert_eq!((&tensors["sums.ü"].shape, bits(&tensors["sums.ü"].values)), (&vec![2, 3], bits(&values)));
        assert_eq!((tensors["one"].shape.len(), tensors["one"].values[0]), (0, 0.1));
        assert!(tensors[""].values.is_empty());
        let lists = [vec![1.0, -0.0], Vec::new(), vec![f64::MIN_POSITIVE]];
        assert_eq!(unpack_lists(&pack_lists(&lists))?, lists);
        Ok(())
    }

    #[test]
    fn every_truncated_or_longer_message_is_refused() {
        let message = pack_tensors([("a", &[2][..], &[1.0, 2.0][..])]);
        for length in 0..message.len() {
            assert!(unpack_tensors(&message[..length]).is_err(), "{length}");
        }
        assert!(unpack_tensors(&[message.clone(), vec![0]].concat()).is_err());
        let lists = pack_lists(&[vec![1.0], vec![2.0, 3.0]]);
        for length in (1..lists.len()).filter(|length| *length != 16) {
            assert!(unpack_lists(&lists[..length]).is_err(), "{length}");
        }
        let mut absurd = message;
        absurd[25..33].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(unpack_tensors(&absurd).is_err() && unpack_numbers(&[0; 7]).is_err());
    }
}

//! Lists of indices: a range where they are consecutive, and stored in files as runs `[first, step, count]`.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::memory;

/// Indices in a stated order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Run>", into = "Vec<Run>")]
pub enum Indices {
    /// Consecutive ones.
    Range(Range<usize>),
    /// Any others.
    List(Arc<[usize]>),
}

/// `count` indices, `step` apart.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Run(usize, isize, usize);

impl Indices {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::List(list) => list.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        let (range, list) = match self {
            Self::Range(range) => (range.clone(), &[][..]),
            Self::List(list) => (0..0, &list[..]),
        };
        range.chain(list.iter().copied())
    }

    /// The index at a place; zero beyond the end.
    pub fn get(&self, place: usize) -> usize {
        match self {
            Self::Range(range) => range.start + place,
            Self::List(list) => list.get(place).copied().unwrap_or(0),
        }
    }

    /// Those at consecutive places.
    pub fn part(&self, places: Range<usize>) -> Self {
        match self {
            Self::Range(range) => Self::Range(range.start + places.start..range.start + places.end),
            Self::List(list) => list.get(places).unwrap_or_default().to_vec().into(),
        }
    }

    /// One more than the greatest.
    pub fn end(&self) -> usize {
        match self {
            Self::Range(range) => range.end,
            Self::List(list) => list.iter().max().map_or(0, |greatest| greatest + 1),
        }
    }
}

impl From<Vec<usize>> for Indices {
    fn from(list: Vec<usize>) -> Self {
        let first = list.first().copied().unwrap_or(0);
        match list.iter().enumerate().all(|(place, index)| *index == first + place) {
            true => Self::Range(first..first + list.len()),
            false => Self::List(list.into()),
        }
    }
}

impl TryFrom<Vec<Run>> for Indices {
    type Error = Error;

    /// A few bytes can stand for very many indices, so that their memory is asked for first.
    fn try_from(runs: Vec<Run>) -> Result<Self> {
        if let [Run(first, 1, count)] = runs[..] {
            return Ok(Self::Range(first..first.saturating_add(count)));
        }
        let total = runs.iter().fold(0.0, |sum, run| sum + run.2 as f64);
        let _room = memory::reserve("the indices of a network", 2.0 * total, "use a smaller network")?;
        let run = |&Run(first, step, count): &Run| {
            (0..count).map(move |place| first.saturating_add_signed(step.saturating_mul(place as isize)))
        };
        Ok(runs.iter().flat_map(run).collect::<Vec<usize>>().into())
    }
}

impl From<Indices> for Vec<Run> {
    fn from(indices: Indices) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        let mut last = 0;
        for index in indices.iter() {
            let step = index as isize - last as isize;
            match runs.last_mut() {
                Some(run) if run.2 == 1 || run.1 == step => *run = Run(run.0, step, run.2 + 1),
                _ => runs.push(Run(index, 1, 1)),
            }
            last = index;
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_come_back_from_their_runs() {
        for list in [vec![], vec![4], vec![3, 4, 5], vec![0, 0, 0, 1, 1, 1], vec![9, 7, 5, 1, 2, 3, 3], vec![5, 0]] {
            let indices: Indices = list.clone().into();
            let runs = serde_json::to_string(&indices).expect("numbers");
            let back: Indices = serde_json::from_str(&runs).expect("the same runs");
            assert_eq!(back.iter().collect::<Vec<usize>>(), list);
            assert_eq!(back.len(), list.len());
        }
    }
}

//! One of several parts of a task, for jobs that do not talk to each other.

use super::share;

/// Part `index` of `count`, counting from 0; `1/4` is the first of four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// Part `index` of `count`, counting from 0.
    pub fn new(index: usize, count: usize) -> Option<Self> {
        (index < count).then_some(Self { index, count })
    }

    /// Its number, counting from 0.
    pub fn index(self) -> usize {
        self.index
    }

    /// How many parts there are.
    pub fn count(self) -> usize {
        self.count
    }

    /// Which of `total` things in a row are this part's.
    pub fn of(self, total: usize) -> std::ops::Range<usize> {
        share(total, self.index, self.count)
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.index + 1, self.count)
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(index, count)| {
            Self::new(index.trim().parse::<usize>().ok()?.checked_sub(1)?, count.trim().parse().ok()?)
        });
        parsed.ok_or_else(|| "it must be I/N with I from 1 to N, such as 2/4".to_string())
    }
}

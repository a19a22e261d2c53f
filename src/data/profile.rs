//! What the cells of a column are: counted once, from a table in memory or while a long file is read for the first time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::numbers::{Cell, NumberStyle};

/// The most different words that are kept of a column of categories or labels, and of another. More are no categories.
const MOST_CATEGORIES: usize = 100_000;
const MOST_WORDS: usize = 10_000;

/// At most this many different numbers may be categories without being asked for.
pub(super) const FEW: usize = 10;

/// Whether the different numbers of a column are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codes {
    Collected,
    Ignored,
}

/// The cells of a column.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Profile {
    /// The cells that are numbers, and the line of the first.
    pub(super) numbers: u64,
    pub(super) first_number: Option<(u64, f64)>,
    /// The cells without a value, and the line of the first.
    pub(super) missing: u64,
    pub(super) first_missing: Option<u64>,
    /// The cells that are words; and each word, with the first line where it occurs.
    pub(super) n_words: u64,
    pub(super) words: BTreeMap<String, u64>,
    /// Each number in its shortest form, with the first line where it occurs, where they are collected.
    pub(super) codes: BTreeMap<String, u64>,
    /// The first different numbers where they are not, one more than are few.
    few: Vec<f64>,
}

impl Profile {
    /// Adds a cell.
    pub(super) fn see(&mut self, line: u64, cell: Cell<'_>, codes: Codes) {
        match cell {
            Cell::Number(value) => {
                self.numbers += 1;
                self.first_number = self.first_number.or(Some((line, value)));
                match codes {
                    Codes::Collected => note(&mut self.codes, &code(value), line, MOST_CATEGORIES),
                    Codes::Ignored => self.note_few(value),
                }
            }
            Cell::Missing => {
                self.missing += 1;
                self.first_missing = self.first_missing.or(Some(line));
            }
            Cell::Word(text) => {
                self.n_words += 1;
                let most = if codes == Codes::Collected { MOST_CATEGORIES } else { MOST_WORDS };
                note(&mut self.words, text, line, most);
            }
        }
    }

    /// Adds a cell by its text. Of numbers that are not collected only the first few are computed.
    pub(super) fn see_text(&mut self, line: u64, text: &str, style: NumberStyle, codes: Codes) {
        if self.few.len() > FEW && codes == Codes::Ignored && style.is_short_number(text) {
            self.numbers += 1;
        } else {
            self.see(line, style.read(text), codes);
        }
    }

    /// That of a column of nothing but numbers.
    pub(super) fn of_numbers(count: usize, first: Option<(u64, f64)>) -> Self {
        Self { numbers: count as u64, first_number: first, ..Default::default() }
    }

    /// Adds the cells of a later part of the file, which begins after this many lines.
    pub(super) fn add(&mut self, later: &Self, lines: u64) {
        self.numbers += later.numbers;
        self.missing += later.missing;
        self.n_words += later.n_words;
        self.first_number = self.first_number.or(later.first_number.map(|(line, value)| (line + lines, value)));
        self.first_missing = self.first_missing.or(later.first_missing.map(|line| line + lines));
        later.words.iter().for_each(|(word, line)| note(&mut self.words, word, line + lines, MOST_CATEGORIES));
        later.few.iter().for_each(|value| self.note_few(*value));
        later.codes.iter().for_each(|(code, line)| note(&mut self.codes, code, line + lines, MOST_CATEGORIES));
    }

    fn note_few(&mut self, value: f64) {
        if self.few.len() <= FEW && !self.few.contains(&value) {
            self.few.push(value);
        }
    }

    /// The number of different words and numbers, unless there are more numbers than a few.
    pub(super) fn few_categories(&self) -> Option<usize> {
        (self.few.len() <= FEW).then(|| self.words.len() + self.few.len())
    }

    /// The first word, and its line.
    pub(super) fn first_word(&self) -> Option<(u64, &String)> {
        self.first_word_that(|_| true)
    }

    /// The first word with some property, and its line.
    pub(super) fn first_word_that(&self, property: impl Fn(&str) -> bool) -> Option<(u64, &String)> {
        self.words.iter().filter(|(word, _)| property(word)).map(|(word, line)| (*line, word)).min()
    }

    /// The words and numbers in order: numbers by value, or all as texts where there are words.
    pub(super) fn categories(&self) -> Vec<String> {
        let few = self.few.iter().map(|value| code(*value));
        let mut all: Vec<String> = self.words.keys().chain(self.codes.keys()).cloned().chain(few).collect();
        sort_labels(&mut all);
        all
    }
}

/// Sorts labels: by value if all are numbers, otherwise as texts.
pub(super) fn sort_labels(labels: &mut [String]) {
    let value = |text: &String| text.parse::<f64>().unwrap_or(f64::NAN);
    if labels.iter().all(|text| value(text).is_finite()) {
        labels.sort_by(|one, other| value(one).total_cmp(&value(other)));
    } else {
        labels.sort_unstable();
    }
}

/// A number as a category: its shortest text, without the sign of zero.
pub(super) fn code(value: f64) -> String {
    (value + 0.0).to_string()
}

fn note(seen: &mut BTreeMap<String, u64>, text: &str, line: u64, most: usize) {
    if seen.len() < most && !seen.contains_key(text) {
        seen.insert(text.to_string(), line);
    }
}

//! Files that are well formed and wrong inside: what a fuzzer's bytes choose is the structure, not the text.

#![allow(dead_code)] // Every target that compiles this file uses its own part of it.

use std::collections::BTreeMap;
use std::path::Path;

use riemannian_laplace::internals::tensors::{FINGERPRINT, Values, fingerprint, write};

/// Numbers at which arithmetic and conversions stumble.
const NUMBERS: [f64; 16] = [
    0.0,
    1.0,
    2.0,
    0.5,
    -1.0,
    -0.0,
    3.0,
    1e-3,
    1e-300,
    1e308,
    -1e308,
    9_007_199_254_740_993.0,
    1.8446744073709552e19,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

/// Names of files in a list: plain ones, and ones that lead elsewhere.
pub const NAMES: [&str; 16] = [
    "member-01.safetensors",
    "member-02.safetensors",
    "member-01-2.safetensors",
    "linked.safetensors",
    "damaged.safetensors",
    "absent.safetensors",
    "committee.json",
    "inner",
    "member-x/../../victim.txt",
    "../victim.txt",
    "inner/../../victim.txt",
    "/etc/hostname",
    "..",
    ".",
    "",
    "a\\b\u{1b}[2J",
];

/// Words of small text files.
const WORDS: [&str; 16] = [
    "0",
    "1",
    "2",
    "-1",
    "1e309",
    "NaN",
    "inf",
    "18446744073709551616",
    "0x1",
    "1_000",
    "é",
    "\u{0}",
    "1e-400",
    "+3",
    "..",
    "\"",
];

/// Bytes that are read as choices; when they end, every choice is the first.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Whether something unusual happens, which is seldom.
    pub fn seldom(&mut self) -> bool {
        self.byte() >= 240
    }

    pub fn number(&mut self) -> f64 {
        match self.seldom() {
            true => f64::from_bits(u64::from_le_bytes(std::array::from_fn(|_| self.byte()))),
            false => self.one_of(&NUMBERS),
        }
    }
}

/// Writes a signed checkpoint of K samples of D weights, with tensors that may be missing, of another shape or of other numbers.
pub fn checkpoint(path: &Path, choices: &mut Choices<'_>) {
    let (count, size) = (choices.below(5), choices.below(5));
    let columns = [
        "sample",
        "nfev",
        "nfev_check",
        "attempts",
        "drift",
        "path_drift",
        "residual",
        "off_graph",
        "end_error",
        "status",
        "certified",
        "certificate",
    ];
    let mut tensors: Vec<(&str, Vec<usize>, Vec<f64>)> = Vec::new();
    for name in columns.into_iter().chain(["theta", "velocity"]) {
        let is_matrix = name == "theta" || name == "velocity";
        let mut shape = if is_matrix { vec![count, size] } else { vec![count] };
        match choices.byte() {
            250.. => continue,
            245..250 => shape = vec![choices.below(4), choices.below(4)],
            240..245 => shape = vec![count * size],
            235..240 => shape.push(1),
            _ => {}
        }
        let length = shape.iter().product();
        let plain = choices.byte() < 200;
        let value = |index: usize, choices: &mut Choices<'_>| match (plain, name) {
            (true, "sample") => index as f64,
            (true, "certified") => 1.0,
            (true, "certificate") => 2.0,
            (true, "status") => 0.0,
            (true, _) => 1e-4,
            (false, _) => choices.number(),
        };
        let values = (0..length).map(|index| value(index, choices)).collect();
        tensors.push((name, shape, values));
    }
    let whole: Vec<Vec<i64>> =
        tensors.iter().map(|(_, _, values)| values.iter().map(|value| *value as i64).collect()).collect();
    let entries: Vec<_> = tensors
        .iter()
        .zip(&whole)
        .map(|((name, shape, values), whole)| {
            let as_integers = ["sample", "nfev", "nfev_check", "attempts", "status", "certified", "certificate"]
                .contains(name)
                && choices.byte() < 128;
            (*name, shape.clone(), if as_integers { Values::Integer(whole) } else { Values::Real(values) })
        })
        .collect();
    let mut metadata = BTreeMap::new();
    if !choices.seldom() {
        metadata.insert("format".to_string(), "riemannian-laplace partial samples".to_string());
    }
    if choices.seldom() {
        metadata.insert("run.seed".to_string(), "1".to_string());
    }
    let signature = fingerprint(&entries, &metadata);
    metadata.insert(FINGERPRINT.to_string(), signature);
    write(path, &entries, metadata).expect("a file");
}

/// A list of a committee: entries of all kinds of names and weights.
pub fn list(choices: &mut Choices<'_>) -> String {
    let entries: Vec<String> = (0..choices.below(6))
        .map(|_| {
            let (name, weight) = (choices.one_of(&NAMES), choices.number());
            let weight = if weight.is_finite() { format!("{weight:e}") } else { "null".to_string() };
            match choices.byte() {
                250.. => format!("{{\"posterior\": {name:?}}}"),
                245..250 => format!("{{\"posterior\": 1, \"weight\": {weight}}}"),
                _ => format!("{{\"posterior\": {}, \"weight\": {weight}}}", serde_json::json!(name)),
            }
        })
        .collect();
    let brackets = if choices.seldom() { "[".repeat(1 + 1000 * choices.below(200)) } else { String::new() };
    format!("{{\"held_out_log_likelihood\": 0.5, \"members\": {brackets}[{}]}}", entries.join(", "))
}

/// A small text file: words and separators, or a scaling in JSON.
pub fn side_file(choices: &mut Choices<'_>) -> String {
    let mut text = String::new();
    if choices.byte() < 128 {
        for _ in 0..choices.below(200) {
            text += choices.one_of(&WORDS);
            text += choices.one_of(&[" ", ",", ";", "\t", "\n", "\r\n", "", "\u{a0}"]);
        }
        return text;
    }
    let numbers = |choices: &mut Choices<'_>| -> String {
        let numbers: Vec<&str> = (0..choices.below(5)).map(|_| choices.one_of(&WORDS)).collect();
        numbers.join(",")
    };
    for part in ["inputs", "targets"] {
        let (mean, scale) = (numbers(choices), numbers(choices));
        text += &format!(",\"{part}\": {{\"mean\": [{mean}], \"scale\": [{scale}]}}");
    }
    format!("{{{}}}", text.trim_start_matches(','))
}

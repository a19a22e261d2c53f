//! Bytes as the words of a command line, separated by line breaks.

#![no_main]
#![allow(dead_code)]

#[path = "../../src/cli/mod.rs"]
mod cli;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cli::parse_words(bytes));

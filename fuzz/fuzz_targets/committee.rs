//! Choices of the list of a committee in a folder.

#![no_main]
#![allow(dead_code)]

#[path = "../../src/cli/mod.rs"]
mod cli;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cli::read_committee(bytes));

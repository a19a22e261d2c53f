//! Choices of a small text file's structure.

#![no_main]

#[path = "../../tests/common/untrusted.rs"]
mod untrusted;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| untrusted::side_file(bytes));

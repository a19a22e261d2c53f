//! Bytes as a table.

#![no_main]

#[path = "../../tests/common/untrusted.rs"]
mod untrusted;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| untrusted::csv(bytes));

//! The program `rla`: parses, validates, calls the library, and turns the outcome into an exit status.

#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}

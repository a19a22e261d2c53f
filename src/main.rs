//! The program `rla`: parses, validates, calls the library, and turns the outcome into an exit status.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}

//! What makes the program at home in a shell: `rla completions`, `rla man` and `rla doctor`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use riemannian_laplace::internals::files::Folder;
use riemannian_laplace::internals::linalg::instruction_set;
use riemannian_laplace::internals::memory;

use super::Cli;
use super::console::Console;
use super::failure::Failure;
use super::output::{counted, print, short};

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const COMPLETIONS: &str = "\
Examples:
  rla completions bash > ~/.local/share/bash-completion/completions/rla
  rla completions zsh > ~/.zfunc/_rla
  rla completions fish > ~/.config/fish/completions/rla.fish
  rla completions powershell >> $PROFILE";

/// Write a manual page for the program and one for each command
#[derive(Debug, Args)]
#[command(after_help = MAN)]
pub struct ManArgs {
    /// The folder that receives them; it is created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

const MAN: &str = "\
Example:
  rla man ~/.local/share/man/man1 && man rla-fit";

/// Print the version, the features and what this machine offers, for a bug report
#[derive(Debug, Args)]
#[command(after_help = DOCTOR)]
pub struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const DOCTOR: &str = "\
Example:
  rla doctor --threads 4";

/// Runs `rla completions`.
pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rla", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Runs `rla man`.
pub fn man(args: &ManArgs, console: &Console) -> Result<(), Failure> {
    let folder = Folder::create(&args.folder)?;
    let mut program = Cli::command();
    program.build();
    // Built, a subcommand is displayed as `rla-fit`, the name that `man` finds its page by.
    let commands = program.get_subcommands().filter(|command| command.get_name() != "help");
    let mut count = 0;
    for command in std::iter::once(&program).chain(commands) {
        let name = format!("{}.1", command.get_display_name().unwrap_or_else(|| command.get_name()));
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command.clone()).render(&mut page);
        rendered.map_err(|error| Failure::Work(format!("{name} could not be rendered: {error}")))?;
        folder.write(&name, &page)?;
        count += 1;
    }
    console.note(format!("{} written to {}", counted(count, "page"), args.folder.display()));
    Ok(())
}

/// What a maintainer asks for first.
#[derive(Debug, serde::Serialize)]
struct Findings {
    version: &'static str,
    target: String,
    features: Vec<&'static str>,
    cores: usize,
    threads: usize,
    simd: &'static str,
    memory_limit_bytes: u64,
    address_space_limited: bool,
}

/// Runs `rla doctor`.
pub fn doctor(args: &DoctorArgs) -> Result<(), Failure> {
    let features = [("cli", true), ("paper", cfg!(feature = "paper")), ("mpi", cfg!(feature = "mpi"))];
    let findings = Findings {
        version: env!("CARGO_PKG_VERSION"),
        target: format!("{} {}", std::env::consts::ARCH, std::env::consts::OS),
        features: features.into_iter().filter_map(|(name, has)| has.then_some(name)).collect(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        threads: rayon::current_num_threads(),
        simd: instruction_set(),
        memory_limit_bytes: memory::limit(),
        address_space_limited: memory::is_address_space_limited(),
    };
    if args.json {
        let json = serde_json::to_string(&findings).map_err(|error| Failure::Work(error.to_string()))?;
        return print(&format!("{json}\n"));
    }
    print(&table(&findings))
}

fn table(findings: &Findings) -> String {
    let limited = match findings.address_space_limited {
        true => "limited by the operating system (ulimit -v)",
        false => "not limited",
    };
    let rows = [
        ("version", findings.version.to_string()),
        ("system", findings.target.clone()),
        ("features", findings.features.join(", ")),
        ("threads", format!("{} of {}", findings.threads, counted(findings.cores, "core"))),
        ("SIMD", findings.simd.to_string()),
        ("memory", format!("{} GB at most (--max-memory)", short(findings.memory_limit_bytes as f64 / 1e9))),
        ("address space", limited.to_string()),
    ];
    rows.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name:<14}{value}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_has_a_script_that_names_every_command() {
        let names: Vec<String> =
            Cli::command().get_subcommands().map(|command| command.get_name().to_string()).collect();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell, Shell::Elvish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "rla", &mut script);
            let script = String::from_utf8_lossy(&script).into_owned();
            let missing: Vec<&String> = names.iter().filter(|name| !script.contains(name.as_str())).collect();
            assert!(missing.is_empty(), "{shell}: {missing:?}");
        }
    }
}

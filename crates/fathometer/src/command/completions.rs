//! `fathometer completions`: shell completions and manual pages, made from the definitions of the commands.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;
use fathometer_files::whole_file;

use super::{Arguments, Failure};

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "Install completions for bash with:\n  \
                        fathometer completions bash > /usr/share/bash-completion/completions/fathometer\n\
                        Write the manual pages with:\n  \
                        fathometer completions --man /usr/local/share/man/man1")]
pub struct CompletionsArguments {
    /// Print the completions for this shell
    #[arg(required_unless_present = "man")]
    shell: Option<Shell>,
    /// Write a manual page for each command to this folder
    #[arg(long, value_name = "FOLDER")]
    man: Option<PathBuf>,
}

/// Prints completions, writes manual pages, or both.
pub fn run(arguments: &CompletionsArguments) -> Result<ExitCode, Failure> {
    if let Some(folder) = &arguments.man {
        for (name, page) in manual_pages()? {
            write(&folder.join(name), &page)?;
        }
    }
    if let Some(shell) = arguments.shell {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut visible(), "fathometer", &mut text);
        print!("{}", String::from_utf8_lossy(&text));
    }
    Ok(ExitCode::SUCCESS)
}

/// The program without its hidden commands, which bash completions would otherwise offer.
fn visible() -> Command {
    let all = Arguments::command();
    let commands = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .cloned();
    Command::new("fathometer")
        .version(crate::build_facts::VERSION)
        .args(all.get_arguments().cloned())
        .subcommands(commands)
}

fn write(path: &Path, page: &[u8]) -> Result<(), Failure> {
    whole_file::write(path, page).map_err(|error| {
        format!(
            "failed to write {}: {error}: create the folder, or choose another one with --man",
            path.display()
        )
        .into()
    })
}

/// The pages by file name: `fathometer.1` for the program, and `fathometer-load.1` and so on for its commands.
fn manual_pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut program = Arguments::command();
    // Gives each command the name and the usage line that it has on the command line.
    program.build();
    let commands = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help");
    std::iter::once(page(&program, "fathometer"))
        .chain(commands.map(|command| page(command, &format!("fathometer-{}", command.get_name()))))
        .collect()
}

fn page(command: &Command, name: &str) -> io::Result<(String, Vec<u8>)> {
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text)?;
    Ok((format!("{name}.1"), text))
}

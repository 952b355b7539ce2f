//! `fathometer completions`: shell completions and manual pages, generated from the definitions of the commands.

use std::fmt::Write as _;
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
    /// Write a manual page for each command and subcommand to this folder
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

/// Returns the command line without hidden commands, which bash completions would otherwise offer.
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

/// Returns the pages by file name: `fathometer.1` for the program, `fathometer-cluster.1` and so on for its commands,
/// and `fathometer-cluster-slurm.1` and so on for their subcommands.
fn manual_pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    // The command `help` has no page.
    let mut program = Arguments::command().disable_help_subcommand(true);
    // Gives each command the name and the usage line that it has on the command line.
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, "fathometer", None, &mut pages)?;
    Ok(pages)
}

/// Adds the page of the command with this name, and the pages of its subcommands.
fn add_pages(
    command: &Command,
    name: &str,
    parent: Option<&str>,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> io::Result<()> {
    let subcommands: Vec<_> = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(|command| (command, format!("{name}-{}", command.get_name())))
        .collect();
    let mut text = Vec::new();
    Man::new(command.clone())
        .title(name)
        .source(format!("fathometer {}", env!("CARGO_PKG_VERSION")))
        .manual("Fathometer")
        .render(&mut text)?;
    let related = parent.into_iter();
    let related = related.chain(subcommands.iter().map(|(_, name)| name.as_str()));
    text.extend(see_also(related).into_bytes());
    pages.push((format!("{name}.1"), text));
    for (command, its_name) in &subcommands {
        add_pages(command, its_name, Some(name), pages)?;
    }
    Ok(())
}

/// Returns the section with the names of other pages, in roff.
fn see_also<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut section = String::new();
    for name in names {
        section.push_str(match section.is_empty() {
            true => ".SH \"SEE ALSO\"\n",
            false => ",\n",
        });
        // roff prints an unescaped hyphen as a typographic hyphen.
        let name = name.replace('-', "\\-");
        let _ = write!(section, ".BR {name} (1)");
    }
    section.push('\n');
    section
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_page_that_another_page_names_exists() {
        let pages = manual_pages().unwrap();
        let names: BTreeSet<&str> = pages
            .iter()
            .map(|(file, _)| file.strip_suffix(".1").unwrap())
            .collect();
        assert!(names.contains("fathometer-cluster-slurm"), "{names:?}");
        for (file, page) in &pages {
            let page = str::from_utf8(page).unwrap().replace("\\-", "-");
            let name = file.strip_suffix(".1").unwrap();
            let title = page.lines().find(|line| line.starts_with(".TH ")).unwrap();
            assert!(title.starts_with(&format!(".TH {name} 1 ")), "{title}");
            let (before, related) = page.split_once(".SH \"SEE ALSO\"").unwrap();
            let related = related
                .lines()
                .filter_map(|line| line.strip_prefix(".BR ")?.split(' ').next());
            let listed = before.lines().filter_map(|line| line.strip_suffix("(1)"));
            for other in related.chain(listed) {
                assert!(names.contains(other), "{file} names {other}");
            }
        }
    }
}

//! `cargo xtask scale`: the tables of `docs/scale.md`, from the example `scale` of the crate `ranks`, which measures the
//! costs of rank 0 on this machine and simulates tests with them.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The lines around the tables in the document.
const BEGIN: &str = "<!-- tables: cargo xtask scale --write -->\n";
const END: &str = "<!-- end of the tables -->\n";

/// Measure and simulate the limits of a load test with many ranks.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write the tables to docs/scale.md instead of stdout.
    #[arg(long)]
    write: bool,
}

/// Runs the example; prints its tables or writes them.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--release", "--quiet"])
        .args(["--package", "fathometer-ranks", "--example", "scale"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("failed to run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the example `scale` failed".to_owned());
    }
    let tables = String::from_utf8(output.stdout)
        .map_err(|error| format!("the output of the example is not UTF-8: {error}"))?;
    if !arguments.write {
        print!("{tables}");
        return Ok(ExitCode::SUCCESS);
    }
    let path = root.join("docs/scale.md");
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("failed to read {}: {error}", path.display()))?;
    let text = replaced(&text, &tables)
        .ok_or_else(|| format!("{} has no marker lines for the tables", path.display()))?;
    fs::write(&path, text)
        .map_err(|error| format!("failed to write {}: {error}", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Replaces the tables between the marker lines; `None` if a marker is missing.
fn replaced(text: &str, tables: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!(
        "{before}{BEGIN}\n{}\n\n{END}{after}",
        tables.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_replaced_and_the_text_around_them_stays() {
        let text = format!("# Scale\n{BEGIN}old\n{END}after\n");
        let once = replaced(&text, "| new |\n").unwrap();
        assert_eq!(once, format!("# Scale\n{BEGIN}\n| new |\n\n{END}after\n"));
        assert_eq!(replaced(&once, "| new |"), Some(once));
        assert_eq!(replaced("no place", ""), None);
    }
}

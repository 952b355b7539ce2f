//! `cargo xtask tidy`: checks rules of this workspace that the compiler and clippy do not check.
//!
//! Every rule is a function from the text of the tree to findings. Each rule can therefore be tested on a small tree
//! that violates the rule. `clippy.toml` states which crates may use sockets, clocks, threads, processes and files; a
//! lint of the workspace covers `unsafe`.

mod data;
mod docs;
mod floors;
mod imports;
mod text;

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Folders of build output and measurements, which are not written by hand.
const SKIPPED: &[&str] = &[".git", "target", "runs", "corpus", "artifacts"];

/// A file of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Relative to the root, with `/` between folders.
    pub path: String,
    /// The text; empty when it is not UTF-8.
    pub text: String,
}

impl Source {
    fn is(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|found| found == extension)
    }
}

/// A violation of a rule, as `file:line: what, why, what to do`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
    why: &'static str,
    remedy: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}\n    why: {}\n    do:  {}",
            self.path, self.line, self.what, self.why, self.remedy
        )
    }
}

/// Checks the workspace at `root` and prints the findings.
pub(crate) fn run(root: &Path) -> Result<ExitCode, String> {
    let tree = read_tree(root)?;
    let mut findings = floors::check(&metadata(root)?, &tree)?;
    findings.extend(imports::check(&tree));
    findings.extend(text::check(&tree));
    findings.extend(docs::check(&tree));
    findings.extend(data::check(&tree));
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, no findings", tree.len());
        Ok(ExitCode::SUCCESS)
    } else {
        println!("tidy: {} files, {} findings", tree.len(), findings.len());
        Ok(ExitCode::FAILURE)
    }
}

/// Returns every file below `root` outside [`SKIPPED`], ordered by path.
fn read_tree(root: &Path) -> Result<Vec<Source>, String> {
    let mut tree = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |error| format!("failed to read {}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let path = entry.path();
            if kind.is_dir() {
                if !SKIPPED.iter().any(|&skipped| entry.file_name() == skipped) {
                    folders.push(path);
                }
            } else if kind.is_file() {
                let bytes = fs::read(&path)
                    .map_err(|error| format!("failed to read {}: {error}", path.display()))?;
                tree.push(Source {
                    path: path
                        .strip_prefix(root)
                        .expect("a path below the root")
                        .to_string_lossy()
                        .into_owned(),
                    text: String::from_utf8(bytes).unwrap_or_default(),
                });
            }
        }
    }
    tree.extend(published_runs(root));
    tree.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(tree)
}

/// Returns the pages of published runs, with empty texts: documents link to them.
fn published_runs(root: &Path) -> Vec<Source> {
    let runs = fs::read_dir(root.join("runs/published"));
    let names = runs.into_iter().flatten().flatten();
    names
        .map(|run| run.path().join("README.md"))
        .filter(|page| page.is_file())
        .filter_map(|page| {
            let path = page.strip_prefix(root).ok()?;
            Some(Source {
                path: path.to_string_lossy().into_owned(),
                text: String::new(),
            })
        })
        .collect()
}

/// Returns the output of `cargo metadata` for the workspace, as JSON.
fn metadata(root: &Path) -> Result<String, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("failed to run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_states_place_problem_reason_and_remedy() {
        let finding = Finding {
            path: "crates/path/src/lib.rs".to_owned(),
            line: 7,
            what: "reads a clock".to_owned(),
            why: "the path runs in virtual time too",
            remedy: "take the instant as an argument",
        };
        assert_eq!(
            finding.to_string(),
            "crates/path/src/lib.rs:7: reads a clock\n    \
             why: the path runs in virtual time too\n    \
             do:  take the instant as an argument"
        );
    }

    #[test]
    fn the_tree_leaves_out_what_is_built() {
        let root = tempfile::tempdir().unwrap();
        for path in ["a/b.rs", "target/c.rs", "a/target/d.rs", "e.md"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        let tree = read_tree(root.path()).unwrap();
        let paths: Vec<&str> = tree.iter().map(|source| source.path.as_str()).collect();
        assert_eq!(paths, ["a/b.rs", "e.md"]);
    }
}

//! Sets the commit that the program is built from, if git is available.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Data folders that `fathometer-lab` embeds.
const FOLDERS: [&str; 4] = ["papers", "paths", "eras", "servers"];
/// Source files outside the crates and the data folders.
const SOURCES: [&str; 2] = ["Cargo.toml", "Cargo.lock"];

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../..")
        .canonicalize()
        .expect("the workspace root is two folders above this crate");
    name_commit(&root);
}

/// Sets `FATHOMETER_VERSION`, `FATHOMETER_COMMIT` and `FATHOMETER_MODIFIED` for the compiler. Without git, or
/// outside of a checkout of this repository, the last two are empty.
fn name_commit(root: &Path) {
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let commit = commit(root);
    let modified = commit.as_ref().and_then(|_| modified(root));
    let line = match (&commit, modified) {
        (None, _) => version,
        (Some(commit), Some(true)) => format!("{version} ({commit}, modified)"),
        (Some(commit), _) => format!("{version} ({commit})"),
    };
    let modified = match modified {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    };
    println!("cargo::rustc-env=FATHOMETER_VERSION={line}");
    println!(
        "cargo::rustc-env=FATHOMETER_COMMIT={}",
        commit.unwrap_or_default()
    );
    println!("cargo::rustc-env=FATHOMETER_MODIFIED={modified}");
    // Reruns this script when a source file changes: the sources may then differ from the commit.
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    for entry in fs::read_dir(root.join("crates")).into_iter().flatten() {
        let sources = entry.map(|entry| entry.path().join("src"));
        if let Ok(sources) = sources.as_ref().map(|path| path.display()) {
            println!("cargo::rerun-if-changed={sources}");
        }
    }
    // A new commit without changed sources changes only the version line. Only release builds are recompiled for it.
    if env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && let Some(log) = git(root, &["rev-parse", "--git-path", "logs/HEAD"])
        && root.join(&log).exists()
    {
        println!("cargo::rerun-if-changed={}", root.join(log).display());
    }
}

/// Returns the checked-out commit. `None` if `root` is not the top of a checkout, as for a source archive that was
/// extracted inside another checkout.
fn commit(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    let top = Path::new(&top).canonicalize().ok()?;
    (top == root)
        .then(|| git(root, &["rev-parse", "--short=12", "HEAD"]))
        .flatten()
}

/// Whether the sources have uncommitted changes.
fn modified(root: &Path) -> Option<bool> {
    let mut arguments = vec![
        "--no-optional-locks",
        "status",
        "--porcelain",
        "--untracked-files=all",
        "--",
        "crates",
    ];
    arguments.extend(SOURCES);
    arguments.extend(FOLDERS);
    git(root, &arguments).map(|changes| !changes.is_empty())
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(arguments);
    // A git hook sets these variables, possibly for another checkout.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

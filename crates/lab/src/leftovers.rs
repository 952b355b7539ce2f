//! Removes what killed programs left on the machine: control groups and temporary folders.
//!
//! Each of these objects has an owner: a process that holds a lock, which the kernel releases when the process exits.
//! Every command that creates such objects first removes all objects without an owner, also those of other commands.

use std::path::PathBuf;

use fathometer_sys::cgroup::{self, Removal};

use fathometer_files::scratch;

/// Removes the control groups and temporary folders of killed programs.
pub fn remove() -> Removal {
    let mut all = cgroup::remove_stale();
    let folders = scratch::remove_stale();
    all.removed.extend(folders.removed);
    all.in_use.extend(folders.in_use);
    all.refused.extend(folders.refused);
    all
}

/// Describes the result of a removal, one line per item.
pub fn description(removal: &Removal) -> String {
    let line = |what: &str, path: &PathBuf| format!("{what} {}\n", path.display());
    let removed = removal.removed.iter().map(|path| line("removed", path));
    let in_use = removal.in_use.iter().map(|path| line("in use ", path));
    let refused = removal
        .refused
        .iter()
        .map(|(path, error)| format!("failed to remove {}: {error}\n", path.display()));
    let mut text: String = removed.chain(in_use).chain(refused).collect();
    text.push_str(&format!(
        "{} removed, {} in use by running programs, {} could not be removed\n",
        removal.removed.len(),
        removal.in_use.len(),
        removal.refused.len()
    ));
    text
}

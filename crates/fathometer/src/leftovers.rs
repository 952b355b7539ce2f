//! What a killed program leaves on the machine, and its removal: control groups and temporary folders.
//!
//! Each is owned by a lock that the kernel releases when the owner exits. Every command that makes such things
//! removes, before it makes any, those without an owner, whichever command left them.

use std::path::PathBuf;

use fathometer_sys::cgroup::{self, Removal};

use crate::server;

/// Removes the control groups and the temporary folders of programs that were killed.
pub fn remove() -> Removal {
    let mut all = cgroup::remove_stale();
    let folders = server::remove_stale_folders();
    all.removed.extend(folders.removed);
    all.in_use.extend(folders.in_use);
    all.refused.extend(folders.refused);
    all
}

/// What a removal came to, a line each.
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
        "{} removed, {} in use by running programs, {} that could not be removed\n",
        removal.removed.len(),
        removal.in_use.len(),
        removal.refused.len()
    ));
    text
}

//! Why the system says no, in words that say what to do about it.

use std::io;
use std::path::Path;

use super::Resource;
use super::layout::Tree;
use crate::error::Error;

/// What helps whoever is not root.
pub(super) const DELEGATE: &str = "run as root, or in a scope of its own with `systemd-run --user --scope -p \
                        Delegate=yes fathometer …`";

/// Why no tree here has a controller.
pub(super) fn unavailable(resource: Resource, trees: &[Tree]) -> String {
    let mut versions: Vec<&str> = trees
        .iter()
        .map(|tree| resource.controller(tree.version))
        .collect();
    versions.dedup();
    match versions.as_slice() {
        [] => "no control groups are mounted: mount -t cgroup2 none /sys/fs/cgroup".to_owned(),
        _ => format!(
            "none of the control groups mounted here has the controller {}; a container or a \
             user's session may not have been given it: {DELEGATE}",
            versions.join(" or ")
        ),
    }
}

pub(super) fn no_directory(path: &Path, error: &io::Error) -> Error {
    let parent = path.parent().unwrap_or(path).display();
    let reason = match error.raw_os_error() {
        Some(libc::EROFS) => format!(
            "{parent} is mounted read-only, as in containers: give the container the right \
             (docker: --privileged)"
        ),
        Some(libc::EACCES | libc::EPERM) => {
            format!("no group may be made in {parent}: {DELEGATE}")
        }
        _ => format!("no group can be made in {parent}: {error}"),
    };
    Error::NoLimit {
        what: "limits",
        reason,
    }
}

pub(super) fn not_enabled(control: &Path, word: &str, error: &io::Error) -> Error {
    let group = control.parent().unwrap_or(control).display();
    let reason = match error.raw_os_error() {
        Some(libc::EBUSY) => format!(
            "{group} has processes of its own, and then Linux limits nothing below it: {DELEGATE}"
        ),
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            format!("{group} may not be changed: {DELEGATE}")
        }
        _ => format!("{word} was refused by {group}: {error}"),
    };
    Error::NoLimit {
        what: "use of a controller",
        reason,
    }
}

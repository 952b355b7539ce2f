//! Explanations of system errors, with remedies.

use std::io;
use std::path::Path;

use super::Resource;
use super::layout::Tree;
use crate::error::Error;
use crate::privilege;

/// Returns advice for a group that cannot be created or has no controllers to delegate.
pub fn advice() -> &'static str {
    if privilege::is_machine_root() {
        "run in a separate scope with `systemd-run --scope -p Delegate=yes fathometer …`, or give a \
         container its control groups (docker: --privileged)"
    } else {
        "run as root, or in a separate scope with `systemd-run --user --scope -p Delegate=yes \
         fathometer …`"
    }
}

/// Returns the reason why no tree on this machine has a controller.
pub(super) fn unavailable(resource: Resource, trees: &[Tree]) -> String {
    let mut versions: Vec<&str> = trees
        .iter()
        .map(|tree| resource.controller(tree.version))
        .collect();
    versions.dedup();
    match versions.as_slice() {
        [] => "no control groups are mounted: mount -t cgroup2 none /sys/fs/cgroup".to_owned(),
        _ if privilege::is_machine_root() => format!(
            "no mounted control group has the controller {}: the kernel was started without it \
             (cgroup_disable=, cgroup_enable=), or the container does not have it (docker: \
             --privileged)",
            versions.join(" or ")
        ),
        _ => format!(
            "no mounted control group has the controller {}; the container or the user's session \
             may not have it: {}",
            versions.join(" or "),
            advice()
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
            format!("no permission to create a group in {parent}: {}", advice())
        }
        _ => format!("cannot create a group in {parent}: {error}"),
    };
    Error::NoLimit {
        what: "limits",
        reason,
    }
}

pub(super) fn not_enabled(control: &Path, word: &str, error: &io::Error) -> Error {
    let parent = control.parent().unwrap_or(control);
    let group = parent.display();
    let reason = match error.raw_os_error() {
        Some(libc::EBUSY) => return has_processes(parent),
        Some(libc::EOPNOTSUPP) => return for_threads(parent),
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            format!("no permission to change {group}: {}", advice())
        }
        _ => format!("{group} refused {word}: {error}"),
    };
    no_controller(reason)
}

/// Returns the error for a group to which a controller is not delegated.
pub(super) fn not_handed_down(controller: &str, group: &Path) -> Error {
    let group = group.display();
    no_controller(match privilege::is_machine_root() {
        true => format!(
            "controller {controller} is not delegated to {group}: {}",
            advice()
        ),
        false => format!(
            "controller {controller} is not delegated to {group}: run as root, or delegate it to users \
             (`systemctl edit user@.service`, then Delegate=cpu cpuset io memory pids below \
             [Service]) and use `systemd-run --user --scope -p Delegate=yes fathometer …`"
        ),
    })
}

/// Returns the error for a group with processes, below which no group can be limited.
pub(super) fn has_processes(group: &Path) -> Error {
    no_controller(format!(
        "{} contains processes, so groups below it cannot be limited: {}",
        group.display(),
        advice()
    ))
}

/// Returns the error for a threaded group, below which only threaded groups are possible.
pub(super) fn for_threads(group: &Path) -> Error {
    no_controller(format!(
        "{} is a threaded group, and no group below it can contain processes: {}",
        group.display(),
        advice()
    ))
}

fn no_controller(reason: String) -> Error {
    Error::NoLimit {
        what: "use of a controller",
        reason,
    }
}

//! Whose group a directory is, by its name, and the removal of those whose owner is gone.
//!
//! A group outlives a program that is killed. Its name therefore says who made it, as process
//! number, start time and PID namespace, which together never come again until the machine starts
//! anew, and which controllers were switched on in the group above for its sake.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::layout::{Tree, Version, trees};
use crate::error::{Doing, Result};

const PREFIX: &str = "fathometer";

/// How deep groups are looked for: systemd nests a user's about seven deep.
const DEEPEST: usize = 16;

/// How often members are moved out before giving up: they may fork meanwhile.
const ROUNDS: usize = 200;

/// What the name of a group says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    /// The PID namespace that `pid` is a number in.
    namespace: u64,
    pid: u32,
    /// When the owner started, in ticks since the machine did.
    start: u64,
    /// Tells the groups of one owner apart.
    number: u64,
    /// Controllers that were switched on in the group above.
    pub(super) switched: BTreeSet<String>,
    label: String,
}

impl Name {
    /// A name for a group of this program, not used before.
    pub(super) fn new(label: &str, switched: BTreeSet<String>) -> Result<Name> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let pid = std::process::id();
        Ok(Name {
            namespace: pid_namespace().doing("find the own PID namespace")?,
            pid,
            start: start_time(pid).doing("find the own start time")?,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            switched,
            label: label.to_owned(),
        })
    }

    pub(super) fn parse(text: &str) -> Option<Name> {
        let mut parts = text.splitn(7, '-');
        (parts.next()? == PREFIX).then_some(())?;
        Some(Name {
            namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            start: parts.next()?.parse().ok()?,
            number: parts.next()?.parse().ok()?,
            switched: match parts.next()? {
                "none" => BTreeSet::new(),
                list => list.split('+').map(str::to_owned).collect(),
            },
            label: parts.next()?.to_owned(),
        })
    }

    /// Whether the owner is known to be gone. In another PID namespace nothing is known of it.
    fn stale(&self) -> bool {
        pid_namespace().is_ok_and(|namespace| namespace == self.namespace)
            && !start_time(self.pid).is_ok_and(|start| start == self.start)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let switched: Vec<&str> = self.switched.iter().map(String::as_str).collect();
        let switched = match switched.as_slice() {
            [] => "none".to_owned(),
            list => list.join("+"),
        };
        write!(
            f,
            "{PREFIX}-{}-{}-{}-{}-{switched}-{}",
            self.namespace, self.pid, self.start, self.number, self.label
        )
    }
}

/// Whether a label can be part of a directory's name.
pub(super) fn valid_label(label: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !label.is_empty() && label.len() <= 64 && label.chars().all(fits)
}

/// Removes the groups of owners that are gone, moving what is still in them into the group of
/// this program. Returns the directories that were removed.
///
/// A group that cannot be removed is left for the next time: it holds nobody up.
pub fn remove_stale() -> Vec<PathBuf> {
    let mut removed = Vec::new();
    for tree in trees() {
        for (path, name) in groups_below(&tree.top, 0) {
            if name.stale() && remove(&path, &tree).is_ok() {
                removed.push(path);
            }
        }
    }
    removed
}

/// Removes a group and those below it; their members go where this program is. Controllers that
/// were switched on for it are switched off again when no other such group is beside it.
pub(super) fn remove(path: &Path, tree: &Tree) -> io::Result<()> {
    for below in directories(path) {
        remove(&below, tree)?;
    }
    let members = match tree.version {
        Version::One => "tasks",
        // Threads can be read where processes cannot, and all threads are moved in the end.
        Version::Two => "cgroup.threads",
    };
    for round in 0..ROUNDS {
        match fs::remove_dir(path) {
            Ok(()) => {
                switch_off(path);
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if round + 1 == ROUNDS => return Err(error),
            Err(error) if error.kind() != io::ErrorKind::ResourceBusy => return Err(error),
            Err(_) => move_out(path, members, tree),
        }
        // The last member may be just about to end.
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Moves the members of a group to the group of this program. Who has ended since cannot be
/// moved, and need not be.
fn move_out(path: &Path, members: &str, tree: &Tree) {
    let threads = fs::read_to_string(path.join(members)).unwrap_or_default();
    for thread in threads.lines() {
        let alone = fs::write(tree.own.join(members), thread);
        if alone.is_err() && tree.version == Version::Two {
            // A thread leaves a domain with its whole process or not at all.
            let _ = fs::write(tree.own.join("cgroup.procs"), thread);
        }
    }
}

/// The names of this program's kind among the groups directly below `parent`.
pub(super) fn names_in(parent: &Path) -> Vec<Name> {
    directories(parent)
        .iter()
        .filter_map(|path| Name::parse(path.file_name()?.to_str()?))
        .collect()
}

fn switch_off(removed: &Path) {
    let name = removed.file_name().and_then(|name| name.to_str());
    let (Some(name), Some(parent)) = (name.and_then(Name::parse), removed.parent()) else {
        return;
    };
    if !names_in(parent).is_empty() {
        return;
    }
    for controller in &name.switched {
        // Somebody else may have come to need it; then the kernel says no, and is right.
        let _ = fs::write(
            parent.join("cgroup.subtree_control"),
            format!("-{controller}"),
        );
    }
}

fn groups_below(path: &Path, depth: usize) -> Vec<(PathBuf, Name)> {
    if depth > DEEPEST {
        return Vec::new();
    }
    let mut found = Vec::new();
    for path in directories(path) {
        let name = path.file_name().and_then(|name| name.to_str());
        match name.and_then(Name::parse) {
            Some(name) => found.push((path, name)),
            None => found.extend(groups_below(&path, depth + 1)),
        }
    }
    found
}

fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn pid_namespace() -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// When a process started, in ticks since the machine did: field 22 of its `stat`.
fn start_time(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let start = stat
        .rfind(')')
        .and_then(|end| stat[end + 1..].split_whitespace().nth(22 - 3)?.parse().ok());
    start.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_who_made_the_group() {
        let name = Name::new("server-1", BTreeSet::new()).unwrap();
        let again = Name::parse(&name.to_string()).unwrap();
        assert_eq!(again, name);
        assert!(!again.stale(), "its owner reads this");
        let switched = BTreeSet::from(["cpu".to_owned(), "memory".to_owned()]);
        let name = Name::new("x", switched.clone()).unwrap();
        assert_eq!(Name::parse(&name.to_string()).unwrap().switched, switched);
        assert_eq!(Name::parse("user.slice"), None);
        assert_eq!(Name::parse("fathometer-report"), None);
    }

    #[test]
    fn an_owner_that_ended_or_whose_number_came_again_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let mut name = Name::new("x", BTreeSet::new()).unwrap();
        name.pid = child.id();
        child.wait().unwrap();
        assert!(name.stale());
        let mut name = Name::new("x", BTreeSet::new()).unwrap();
        name.start += 1;
        assert!(name.stale(), "another process of the same number");
        let mut name = Name::new("x", BTreeSet::new()).unwrap();
        name.pid = u32::MAX;
        name.namespace += 1;
        assert!(!name.stale(), "nothing is known of other namespaces");
    }

    #[test]
    fn labels_are_plain() {
        assert!(valid_label("server-1.a_b"));
        for label in ["", "a/b", "..\n", "a b"] {
            assert!(!valid_label(label), "{label:?}");
        }
    }
}

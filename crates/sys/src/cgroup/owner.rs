//! The owner of a group's directory, and the removal of groups whose owner has exited.
//!
//! A group outlives a killed program. Therefore the owner holds a lock on the group's own directory ([`create`]), which the
//! kernel releases when the owner exits. A lock file elsewhere would not suffice: another container has the same control
//! groups but its own `/tmp` and `/run`. A lock on the directory is visible wherever the group is visible. `flock(2)`
//! works on directories of both versions of cgroupfs. It is the same lock in every mount, PID and cgroup namespace, and
//! does not prevent the removal of the directory.
//!
//! The group's name contains the process number, the start time and the PID namespace of the owner. It also contains
//! the controllers that were enabled in the parent group for this group. The name is a second check: the group of a
//! running owner is not removed, even without a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::layout::{Tree, Version, trees};
use super::refusal::{has_processes, no_directory};
use crate::error::{Doing, Result};
use crate::lock::{Lock, Taken};

const PREFIX: &str = "fathometer";

/// The label of a group to which processes were moved to free their group ([`move_aside`]). It is not a
/// [valid](valid_label) label, so no other group can have it.
const ASIDE: &str = "+processes";

/// The maximum depth of the search for groups: systemd nests a user's group about seven levels deep.
const DEEPEST: usize = 16;

/// The number of attempts to move members out of a group, because members may fork meanwhile.
const ROUNDS: usize = 200;

/// The number of attempts to create a directory when another program removes it before it is locked.
const CREATIONS: usize = 32;

/// The number of attempts, a millisecond apart, to take a lock that another program holds.
const LOCK_ATTEMPTS: usize = 5000;

/// The locks of this program's groups, by directory.
static LOCKS: Mutex<BTreeMap<PathBuf, Lock>> = Mutex::new(BTreeMap::new());

/// The parts of a group's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    /// The PID namespace of `pid`.
    namespace: u64,
    pid: u32,
    /// The start time of the owner, in ticks since boot.
    start: u64,
    /// Distinguishes the groups of one owner.
    number: u64,
    /// Controllers that were enabled in the parent group.
    pub(super) switched: BTreeSet<String>,
    label: String,
}

impl Name {
    /// Creates a new, unique name for a group of this program.
    pub(super) fn new(label: &str, switched: BTreeSet<String>) -> Result<Name> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let pid = std::process::id();
        Ok(Name {
            namespace: pid_namespace().doing("find this process's PID namespace")?,
            pid,
            start: start_time(pid).doing("find this process's start time")?,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            switched,
            label: label.to_owned(),
        })
    }

    /// Whether this is a group to which the parent group's own processes were moved.
    fn is_aside(&self) -> bool {
        self.label == ASIDE
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

    /// Whether a process with the owner's number and start time is running. This does not find owners in other PID
    /// namespaces.
    fn is_running(&self) -> bool {
        pid_namespace().is_ok_and(|namespace| namespace == self.namespace)
            && start_time(self.pid).is_ok_and(|start| start == self.start)
    }
}

/// Creates a group's directory and locks it until it is removed or this program exits.
pub(super) fn create(path: &Path) -> io::Result<()> {
    for _ in 0..CREATIONS {
        fs::create_dir(path)?;
        match Lock::directory(path) {
            Ok(Taken::Ours(lock)) => {
                locks().insert(path.to_owned(), lock);
                return Ok(());
            }
            // Another program found the directory before this program locked it, and removes the directory.
            Ok(Taken::Held | Taken::Gone) => {}
            Err(error) => {
                let _ = fs::remove_dir(path);
                return Err(error);
            }
        }
        for _ in 0..ROUNDS {
            if !path.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        "another program removed the new group each time",
    ))
}

fn locks() -> MutexGuard<'static, BTreeMap<PathBuf, Lock>> {
    LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Whether a label is valid in a directory's name.
pub(super) fn valid_label(label: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !label.is_empty() && label.len() <= 64 && label.chars().all(fits)
}

/// The result of removing groups whose owner has exited.
#[derive(Debug, Default)]
pub struct Removal {
    /// The removed directories.
    pub removed: Vec<PathBuf>,
    /// The directories of running owners.
    pub in_use: Vec<PathBuf>,
    /// The directories that could not be removed, with the error.
    pub refused: Vec<(PathBuf, io::Error)>,
}

/// Removes the groups of exited owners, and moves remaining members into this program's group.
///
/// A group that cannot be removed is left for the next run.
pub fn remove_stale() -> Removal {
    let mut removal = Removal::default();
    for tree in trees() {
        let _alone = alone(&tree);
        let mut groups = groups_below(&tree.top, 0);
        // Groups of moved processes come last, because they can be removed only when no sibling group exists.
        groups.sort_by_key(|(_, name)| name.is_aside());
        for (path, name) in groups {
            if name.is_running() {
                removal.in_use.push(path);
                continue;
            }
            // The lock is held until the directory is removed, so that no other program removes the directory too.
            match Lock::directory(&path) {
                Ok(Taken::Ours(_lock)) => match remove(&path, &tree) {
                    Ok(()) => removal.removed.push(path),
                    Err(error) => removal.refused.push((path, error)),
                },
                Ok(Taken::Held) => removal.in_use.push(path),
                Ok(Taken::Gone) => {}
                Err(error) => removal.refused.push((path, error)),
            }
        }
    }
    removal
}

/// Removes a group and the groups below it, and moves their members to this program's group. Controllers that were enabled
/// for the group are disabled if it has no sibling groups of this kind.
pub(super) fn remove(path: &Path, tree: &Tree) -> io::Result<()> {
    if is_aside(path) {
        move_back(path.parent().unwrap_or(path));
        return match path.exists() {
            true => Err(io::ErrorKind::ResourceBusy.into()),
            false => Ok(()),
        };
    }
    for below in directories(path) {
        remove(&below, tree)?;
    }
    locks().remove(path);
    let members = match tree.version {
        Version::One => "tasks",
        // `cgroup.threads` can be read even if `cgroup.procs` cannot, and all threads are moved one after the other.
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
        // The last member may be about to exit.
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Moves the members of a group to this program's group. Errors are ignored, because exited members cannot be moved.
fn move_out(path: &Path, members: &str, tree: &Tree) {
    // This program's group may have changed since the group was created.
    let own = tree.now().own;
    let threads = fs::read_to_string(path.join(members)).unwrap_or_default();
    for thread in threads.lines() {
        let alone = fs::write(own.join(members), thread);
        if alone.is_err() && tree.version == Version::Two {
            // A thread can leave a domain group only together with its process.
            let _ = fs::write(own.join("cgroup.procs"), thread);
        }
    }
}

/// Whether a directory is a group to which processes were moved to free their group.
pub(super) fn is_aside(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(Name::parse)
        .is_some_and(|name| name.is_aside())
}

/// Moves all processes of this program's group (of version 2) into a group below it, so that this program's group can
/// delegate controllers. `switched` are the controllers that will be enabled.
///
/// This program must control the group: systemd has delegated it (`Delegate=`), it is the topmost group of a container, or
/// it contains only this program, its ancestors and its descendants.
pub(super) fn move_aside(tree: &Tree, switched: BTreeSet<String>) -> Result<PathBuf> {
    let own = &tree.own;
    let processes = || -> Result<Vec<String>> {
        let path = own.join("cgroup.procs");
        let text = fs::read_to_string(&path).doing(super::reading(&path))?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    let ours = || processes().is_ok_and(|all| all.iter().all(|pid| is_related(pid)));
    if !(is_delegated(own) || *own == tree.top || ours()) {
        return Err(has_processes(own));
    }
    let mut name = Name::new("x", switched)?;
    ASIDE.clone_into(&mut name.label);
    let aside = own.join(name.to_string());
    create(&aside).map_err(|error| no_directory(&aside, &error))?;
    let moved = || {
        for _ in 0..ROUNDS {
            let left = processes()?;
            if left.is_empty() {
                return Ok(());
            }
            for pid in left {
                match fs::write(aside.join("cgroup.procs"), &pid) {
                    Ok(()) => {}
                    // The process has exited meanwhile.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => {
                        return Err(error).doing(format!(
                            "move process {pid} from {} into a separate group",
                            own.display()
                        ));
                    }
                }
            }
        }
        Err(has_processes(own))
    };
    moved().inspect_err(|_| move_back(own))?;
    Ok(aside)
}

/// Undoes [`move_aside`], unless other groups of this kind still need it.
pub(super) fn move_back(parent: &Path) {
    if names_in(parent).iter().any(|name| !name.is_aside()) {
        return;
    }
    for aside in directories(parent).iter().filter(|path| is_aside(path)) {
        let name = aside.file_name().and_then(|name| name.to_str());
        for controller in name
            .and_then(Name::parse)
            .into_iter()
            .flat_map(|n| n.switched)
        {
            let _ = fs::write(
                parent.join("cgroup.subtree_control"),
                format!("-{controller}"),
            );
        }
        locks().remove(aside);
        for _ in 0..ROUNDS {
            let processes = fs::read_to_string(aside.join("cgroup.procs")).unwrap_or_default();
            for pid in processes.lines() {
                let _ = fs::write(parent.join("cgroup.procs"), pid);
            }
            match fs::remove_dir(aside) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                _ => break,
            }
        }
    }
}

/// Whether systemd has delegated a group to the programs in it (`Delegate=yes`, marked by an extended attribute).
pub(super) fn is_delegated(group: &Path) -> bool {
    [c"user.delegate", c"trusted.delegate"].iter().any(|name| {
        let mut value = [0; 8];
        let read = rustix::fs::getxattr(group, *name, &mut value[..]);
        read.is_ok_and(|length| value[..length] == *b"1")
    })
}

/// Whether a process is this program, or one of its ancestors or descendants.
fn is_related(pid: &str) -> bool {
    let own = std::process::id();
    let Ok(pid) = pid.parse::<u32>() else {
        return false;
    };
    ancestry(own).any(|ancestor| ancestor == pid) || ancestry(pid).any(|ancestor| ancestor == own)
}

/// Iterates over a process and its ancestors.
fn ancestry(pid: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(pid), |&pid| {
        let parent: u32 = field(pid, 4).ok()?.try_into().ok()?;
        (parent != 0).then_some(parent)
    })
    .take(1000)
}

/// Prevents other threads, and other running instances of this program, from creating or removing groups. Otherwise the
/// last group to be removed could disable controllers that a new group needs.
pub(super) fn alone(tree: &Tree) -> impl Drop {
    static HERE: Mutex<()> = Mutex::new(());
    let here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    let everywhere = fs::File::open(&tree.top).ok();
    if let Some(directory) = &everywhere {
        // Another program may hold the lock permanently, so the number of attempts is limited.
        for _ in 0..LOCK_ATTEMPTS {
            match flock(directory, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                _ => break,
            }
        }
    }
    Alone {
        _everywhere: everywhere,
        _here: here,
    }
}

struct Alone {
    _everywhere: Option<fs::File>,
    _here: MutexGuard<'static, ()>,
}

impl Drop for Alone {
    /// Does nothing: the fields are dropped in order, first the lock on the directory, then the lock of this program.
    fn drop(&mut self) {}
}

/// Returns the names of the groups directly below `parent` that instances of this program have created.
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
    if names_in(parent).iter().any(|name| !name.is_aside()) {
        return;
    }
    for controller in &name.switched {
        // If another group uses the controller now, the kernel rejects the request, as intended.
        let _ = fs::write(
            parent.join("cgroup.subtree_control"),
            format!("-{controller}"),
        );
    }
    move_back(parent);
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

/// Returns the start time of a process, in ticks since boot: field 22 of its `stat`.
fn start_time(pid: u32) -> io::Result<u64> {
    field(pid, 22)
}

/// Returns a field of a process's `stat`, numbered as in `man 5 proc_pid_stat`. The field must be after the name.
fn field(pid: u32, number: usize) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let found = stat.rfind(')').and_then(|end| {
        let mut fields = stat[end + 1..].split_whitespace();
        fields.nth(number - 3)?.parse().ok()
    });
    found.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_identifies_the_creator_of_the_group() {
        let name = Name::new("server-1", BTreeSet::new()).unwrap();
        let again = Name::parse(&name.to_string()).unwrap();
        assert_eq!(again, name);
        assert!(again.is_running(), "its owner is this process");
        let switched = BTreeSet::from(["cpu".to_owned(), "memory".to_owned()]);
        let name = Name::new("x", switched.clone()).unwrap();
        assert_eq!(Name::parse(&name.to_string()).unwrap().switched, switched);
        assert_eq!(Name::parse("user.slice"), None);
        assert_eq!(Name::parse("fathometer-report"), None);
    }

    #[test]
    fn an_owner_is_found_by_number_and_start_in_its_own_namespace() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let mut name = Name::new("x", BTreeSet::new()).unwrap();
        name.pid = child.id();
        child.wait().unwrap();
        assert!(!name.is_running());
        let mut name = Name::new("x", BTreeSet::new()).unwrap();
        name.start += 1;
        assert!(!name.is_running(), "another process with the same number");
        let mut name = Name::new("x", BTreeSet::new()).unwrap();
        name.namespace += 1;
        assert!(!name.is_running(), "a process number of another namespace");
    }

    /// Returns a name left by a killed process of another PID namespace, such as the first process of a container.
    fn foreign(label: &str) -> Name {
        let mut name = Name::new(label, BTreeSet::new()).unwrap();
        name.namespace += 1;
        name.pid = 1;
        name
    }

    #[test]
    fn a_group_of_another_pid_namespace_is_removed_when_its_lock_is_free_and_kept_while_it_is_held()
    {
        let tree = |tree: &Tree| {
            let path = tree.own.join(foreign("probe-rights").to_string());
            fs::create_dir(&path)
                .and_then(|()| fs::remove_dir(&path))
                .is_ok()
        };
        let Some(tree) = trees().into_iter().find(tree) else {
            return eprintln!("SKIPPED, no group can be made on this machine");
        };
        let held = tree.own.join(foreign("held").to_string());
        create(&held).unwrap();
        let left = tree.own.join(foreign("left").to_string());
        create(&left).unwrap();
        // The kernel does this when the owner exits.
        locks().remove(&left);
        let mut removal = remove_stale();
        // A child of another test holds a copy of the lock between its fork and its exec.
        for _ in 0..1000 {
            if !left.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            removal = remove_stale();
        }
        assert!(removal.in_use.contains(&held), "{removal:?}");
        assert!(held.exists());
        assert!(!left.exists(), "{removal:?}");
        remove(&held, &tree).unwrap();
        assert!(!held.exists() && !locks().contains_key(&held));
    }

    #[test]
    fn relatives_are_ancestors_and_descendants() {
        let own = std::process::id();
        assert!(is_related(&own.to_string()) && ancestry(own).count() > 1);
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        assert!(is_related(&child.id().to_string()));
        assert!(!is_related("0"), "a process of another PID namespace");
        child.kill().unwrap();
        child.wait().unwrap();
        let unrelated = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
            let name = entry.file_name();
            let pid: Option<u32> = name.to_str().and_then(|name| name.parse().ok());
            pid.is_some_and(|pid| !is_related(&pid.to_string()))
        });
        println!("{} others", unrelated.count());
    }

    #[test]
    fn the_group_of_moved_processes_is_known_by_its_name() {
        let mut name = Name::new("x", BTreeSet::from(["cpu".to_owned()])).unwrap();
        assert!(!name.is_aside());
        ASIDE.clone_into(&mut name.label);
        assert!(is_aside(
            &Path::new("/sys/fs/cgroup").join(name.to_string())
        ));
        assert!(!valid_label(ASIDE));
    }

    #[test]
    fn labels_are_plain() {
        assert!(valid_label("server-1.a_b"));
        for label in ["", "a/b", "..\n", "a b"] {
            assert!(!valid_label(label), "{label:?}");
        }
    }
}

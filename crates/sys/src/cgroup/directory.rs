//! Creates a group's directories and prepares them for members.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::layout::{self, Tree, Version};
use super::owner::{self, Name};
use super::refusal::{for_threads, has_processes, no_directory, not_enabled, not_handed_down};
use super::{Group, Part, Resource, reading, writing};
use crate::error::{Doing, Result};

/// The optional controllers for reading a group's usage.
const ACCOUNTS: [&str; 3] = ["cpu", "cpuacct", "memory"];

/// The controllers of a group of version 2.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    /// The controllers that the group must have.
    needed: &'a BTreeSet<&'a str>,
    /// The controllers that the group uses if enabling them has no side effects.
    wished: &'a BTreeSet<&'a str>,
}

impl Group {
    /// Returns the optional controllers for reading the group's usage.
    fn wished(&self, version: Version) -> BTreeSet<&'static str> {
        let disk = self
            .limits
            .counts_disk
            .map(|_| Resource::Disk.controller(version));
        ACCOUNTS.into_iter().chain(disk).collect()
    }

    /// Creates the group's directory in a tree of version 1, if the group needs a directory there.
    pub(super) fn make_v1(&self, name: &str, tree: &Tree) -> Result<Option<Part>> {
        let needed = self
            .limits
            .resources()
            .into_iter()
            .any(|resource| tree.has(resource.controller(Version::One)));
        let wished = self.wished(Version::One);
        if !needed && !wished.iter().any(|name| tree.has(name)) {
            return Ok(None);
        }
        let name = Name::new(name, BTreeSet::new())?.to_string();
        let mut refused = None;
        for parent in [&tree.own, &tree.top] {
            let path = parent.join(&name);
            match owner::create(&path) {
                Ok(()) => {
                    let part = Part {
                        tree: tree.clone(),
                        counts_sockets: tree.has("memory") && account_for_sockets(&path),
                        path,
                        controllers: tree.controllers.clone(),
                    };
                    if let Err(error) = inherit_cpuset(&part) {
                        let _ = owner::remove(&part.path, tree);
                        return Err(error);
                    }
                    return Ok(Some(part));
                }
                Err(error) => refused = Some((path, error)),
            }
        }
        match refused {
            Some((path, error)) if needed => Err(no_directory(&path, &error)),
            // The controllers for reading usage are optional.
            _ => Ok(None),
        }
    }

    /// Creates the group's directory in the tree of version 2, if the group needs a directory there.
    pub(super) fn make_v2(&self, name: &str, tree: &Tree) -> Result<Option<Part>> {
        let resources = self.limits.resources();
        let needed: BTreeSet<&str> = resources
            .iter()
            .map(|resource| resource.controller(Version::Two))
            .filter(|controller| tree.has(controller))
            .collect();
        let counted = self.parts.iter().any(|part| part.has("cpuacct"));
        let counts_disk =
            self.limits.counts_disk.is_some() && tree.has(Resource::Disk.controller(Version::Two));
        if needed.is_empty() && counted && !counts_disk {
            return Ok(self.make_for_pressure(name, tree));
        }
        let mut wished = self.wished(Version::Two);
        wished.retain(|name| tree.has(name));
        let _alone = owner::alone(tree);
        // Another thread may have moved this program to another group meanwhile.
        let tree = &tree.now();
        let none = BTreeSet::new();
        // Without limits, the controllers for usage are optional: tries all groups with them, then all groups without
        // them.
        let attempts = match needed.is_empty() {
            true => vec![(&wished, &none), (&none, &none)],
            false => vec![(&needed, &wished)],
        };
        let mut reason = None;
        for (needed, wished) in attempts {
            let wanted = Wanted { needed, wished };
            // systemd does not change a delegated group, but it changes the groups above it.
            let stays = !needed.is_empty() && owner::is_delegated(&tree.own);
            if stays && occupied(&tree.own) && lacks(&tree.own, needed)?.is_none() {
                match self.make_v2_beside_own(name, tree, wanted) {
                    Ok(part) => return Ok(Some(part)),
                    Err(error) => {
                        let _ = reason.get_or_insert(error);
                    }
                }
            }
            let parents = tree.upwards().filter(|parent| !owner::is_aside(parent));
            for parent in parents {
                match self.make_v2_in(parent, name, tree, wanted) {
                    Ok(part) => return Ok(Some(part)),
                    // The first error is the most useful error, because it concerns the nearest group.
                    Err(error) => {
                        let _ = reason.get_or_insert(error);
                    }
                }
            }
        }
        let Some(reason) = reason else {
            return Ok(None);
        };
        if needed.is_empty() {
            return Ok(None);
        }
        let wanted = Wanted {
            needed: &needed,
            wished: &wished,
        };
        if lacks(&tree.own, &needed)?.is_none() && occupied(&tree.own) {
            return self.make_v2_beside_own(name, tree, wanted).map(Some);
        }
        Err(reason)
    }

    /// Creates the group's directory below the program's own group, after moving the processes in the own group to a
    /// sibling of the new group.
    fn make_v2_beside_own(&self, name: &str, tree: &Tree, wanted: Wanted<'_>) -> Result<Part> {
        let all = wanted.needed.union(wanted.wished);
        let switched = all.map(|name| (*name).to_owned()).collect();
        owner::move_aside(tree, switched)?;
        self.make_v2_in(&tree.own, name, tree, wanted)
            .inspect_err(|_| owner::move_back(&tree.own))
    }

    /// Creates a directory in version 2 without limits, to read the pressure of its members. The kernel provides pressure
    /// without any controller, but only in version 2. Returns `None` if pressure is not available.
    fn make_for_pressure(&self, name: &str, tree: &Tree) -> Option<Part> {
        if !tree.own.join("cpu.pressure").exists() {
            return None;
        }
        let none = BTreeSet::new();
        let nothing = Wanted {
            needed: &none,
            wished: &none,
        };
        self.make_v2_in(&tree.own, name, tree, nothing).ok()
    }

    fn make_v2_in(
        &self,
        parent: &Path,
        name: &str,
        tree: &Tree,
        wanted: Wanted<'_>,
    ) -> Result<Part> {
        if let Some(absent) = lacks(parent, wanted.needed)? {
            return Err(not_handed_down(absent, parent));
        }
        let control = parent.join("cgroup.subtree_control");
        let enabled = controllers_in(&control)?;
        let off = |name: &&&str| !enabled.iter().any(|other| other == **name);
        let missing: BTreeSet<&str> = wanted.needed.iter().filter(off).copied().collect();
        let occupied = occupied(parent);
        if occupied && !missing.is_empty() {
            // The kernel might accept the controller and turn the parent into a threaded group, below which no group can
            // have processes.
            return Err(has_processes(parent));
        }
        let present = controllers_in(&parent.join("cgroup.controllers"))?;
        let extra: BTreeSet<&str> = wanted
            .wished
            .iter()
            .filter(off)
            .filter(|name| !occupied && present.iter().any(|other| other == **name))
            .copied()
            .collect();
        // The name lists the controllers that this group and its siblings have enabled, because the last of these groups
        // to be removed disables them.
        let mut switched: BTreeSet<String> = missing
            .union(&extra)
            .map(|name| (*name).to_owned())
            .collect();
        for name in owner::names_in(parent) {
            switched.extend(name.switched);
        }
        let path = parent.join(Name::new(name, switched)?.to_string());
        owner::create(&path).map_err(|error| no_directory(&path, &error))?;
        let made = || {
            for controller in &missing {
                let word = format!("+{controller}");
                fs::write(&control, &word).map_err(|error| not_enabled(&control, &word, &error))?;
            }
            for controller in extra.difference(&missing) {
                // If this fails, the usage is not available.
                let _ = fs::write(&control, format!("+{controller}"));
            }
            // Groups below a threaded group cannot have processes.
            let kind = fs::read_to_string(path.join("cgroup.type"));
            if kind.is_ok_and(|kind| kind.trim() != "domain") {
                return Err(for_threads(parent));
            }
            Ok(Part {
                tree: tree.clone(),
                path: path.clone(),
                controllers: controllers_in(&path.join("cgroup.controllers"))?,
                counts_sockets: true,
            })
        };
        made().inspect_err(|_| {
            let _ = owner::remove(&path, tree);
        })
    }
}

/// Returns the controllers that a file of version 2 lists.
fn controllers_in(file: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).doing(reading(file))?;
    Ok(layout::words(&text))
}

/// Returns the first needed controller that a group does not have and therefore cannot delegate.
fn lacks<'a>(group: &Path, needed: &BTreeSet<&'a str>) -> Result<Option<&'a str>> {
    let present = controllers_in(&group.join("cgroup.controllers"))?;
    let mut needed = needed.iter().copied();
    Ok(needed.find(|name| !present.iter().any(|other| other == name)))
}

/// Whether a group of version 2 has its own processes, so that groups below it cannot be limited
/// (`Documentation/admin-guide/cgroup-v2.rst`, "No Internal Process Constraint"). The root group, the only group without
/// `cgroup.type`, has no such constraint.
fn occupied(group: &Path) -> bool {
    let has_type = group.join("cgroup.type").exists();
    // The processes of a threaded group cannot be read.
    let processes = || fs::read_to_string(group.join("cgroup.procs"));
    has_type && processes().is_ok_and(|text| !text.is_empty())
}

/// Copies the parent's processors and memory nodes. A new cpuset group of version 1 has neither, and accepts no
/// members.
fn inherit_cpuset(part: &Part) -> Result<()> {
    if !(part.tree.version == Version::One && part.has("cpuset")) {
        return Ok(());
    }
    let parent = part.path.parent().unwrap_or(&part.path);
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let from = parent.join(file);
        let value = fs::read_to_string(&from).doing(reading(&from))?;
        let to = part.path.join(file);
        fs::write(&to, value.trim()).doing(writing(&to, value.trim()))?;
    }
    Ok(())
}

/// Sets a limit of socket memory that cannot be reached, because version 1 accounts for socket memory only with a
/// limit. Returns whether this succeeded.
fn account_for_sockets(path: &Path) -> bool {
    let limit = path.join("memory.kmem.tcp.limit_in_bytes");
    fs::write(limit, i64::MAX.to_string()).is_ok()
}

//! Finds the mounts of control groups on this machine, and the groups of this program.
//!
//! Linux has two interfaces. In version 1 every controller may have its own tree; in version 2 there is one tree. Both
//! versions may be mounted at once ("hybrid"); each controller then belongs to one version. `/proc/self/mountinfo`
//! lists the mounts, and `/proc/self/cgroup` this program's groups (`man 7 cgroups`).

use std::fs;
use std::path::{Path, PathBuf};

/// The version of a tree of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// One tree of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) version: Version,
    /// The controllers by their kernel names: `cpu`, `cpuacct`, `memory`, `blkio`, `cpuset` in
    /// version 1, `cpu`, `memory`, `io`, `cpuset` in version 2.
    pub(super) controllers: Vec<String>,
    /// The topmost visible group.
    pub(super) top: PathBuf,
    /// The group that this program is in.
    pub(super) own: PathBuf,
}

impl Tree {
    /// Whether a controller can be used in this tree.
    pub(super) fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }

    /// Returns the same tree, with the current group of this program.
    pub(super) fn now(&self) -> Tree {
        let same = |now: &Tree| now.top == self.top && now.version == self.version;
        trees()
            .into_iter()
            .find(same)
            .unwrap_or_else(|| self.clone())
    }

    /// Iterates over the program's own group and the groups above it, nearest first.
    pub(super) fn upwards(&self) -> impl Iterator<Item = &Path> {
        let top = self.top.as_path();
        self.own
            .ancestors()
            .take_while(move |path| path.starts_with(top))
    }
}

/// Returns the trees of this machine.
pub(super) fn trees() -> Vec<Tree> {
    trees_with("/proc/self/cgroup")
}

/// Returns the trees of this machine, with the groups of another process as `own`.
pub(super) fn trees_of_process(pid: u32) -> Vec<Tree> {
    let groups = format!("/proc/{pid}/cgroup");
    match Path::new(&groups).exists() {
        true => trees_with(&groups),
        false => Vec::new(),
    }
}

fn trees_with(groups: &str) -> Vec<Tree> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut trees = parse(&text("/proc/self/mountinfo"), &text(groups));
    for tree in &mut trees {
        if tree.version == Version::Two {
            let path = tree.top.join("cgroup.controllers");
            tree.controllers = words(&fs::read_to_string(path).unwrap_or_default());
        }
    }
    trees
}

/// Splits a line into words, the format of the kernel's lists of controllers.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Parses the mounts and this program's groups. Leaves the controllers of version 2 empty, because another file lists
/// them.
fn parse(mountinfo: &str, cgroup: &str) -> Vec<Tree> {
    let mut trees: Vec<Tree> = Vec::new();
    for line in mountinfo.lines() {
        let Some(mount) = Mount::parse(line) else {
            continue;
        };
        let Some(path) = path_in(cgroup, &mount) else {
            continue;
        };
        // In another cgroup namespace, or if the mount starts further down, the program's group may be outside the
        // visible tree. Then the top of the visible tree is used.
        let below = Path::new(path).strip_prefix(&mount.root).ok();
        let below = below.filter(|below| !below.starts_with(".."));
        let tree = Tree {
            version: mount.version,
            own: below.map_or_else(|| mount.point.clone(), |below| join(&mount.point, below)),
            top: mount.point,
            controllers: mount.controllers,
        };
        // The same tree may be mounted in several places; the first mount is used.
        let again = trees
            .iter()
            .any(|known| known.version == tree.version && known.controllers == tree.controllers);
        if !again {
            trees.push(tree);
        }
    }
    trees
}

/// Joins two paths. `Path::join` with an empty path would append a slash.
fn join(path: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() {
        path.to_owned()
    } else {
        path.join(below)
    }
}

struct Mount {
    version: Version,
    controllers: Vec<String>,
    /// The path of the group at the mount point, within its tree.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// Parses a line like `31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct`.
    fn parse(line: &str) -> Option<Mount> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let version = match after.next()? {
            "cgroup" => Version::One,
            "cgroup2" => Version::Two,
            _ => return None,
        };
        let known = |option: &&str| {
            matches!(*option, "cpu" | "cpuacct" | "cpuset" | "memory" | "blkio")
                && version == Version::One
        };
        let options = after.nth(1).unwrap_or_default();
        Some(Mount {
            version,
            controllers: options
                .split(',')
                .filter(known)
                .map(str::to_owned)
                .collect(),
            root: PathBuf::from(unescape(root)),
            point: PathBuf::from(unescape(point)),
        })
        .filter(|mount| version == Version::Two || !mount.controllers.is_empty())
    }
}

/// Returns the group of this program in the tree of a mount, from lines like `4:memory:/a/b` and `0::/a`.
fn path_in<'a>(cgroup: &'a str, mount: &Mount) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let found = match mount.version {
            Version::Two => controllers.is_empty(),
            Version::One => controllers
                .split(',')
                .any(|name| mount.controllers.iter().any(|known| known == name)),
        };
        found.then_some(path)
    })
}

/// Decodes the octal escapes of white space and backslashes in mount tables.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_machine_has_a_tree_for_each_controller() {
        let mountinfo = "\
            31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
            37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n\
            40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";
        let cgroup = "9:name=systemd:/\n6:freezer:/\n4:memory:/api/95\n1:cpu,cpuacct:/\n0::/\n";
        let trees = parse(mountinfo, cgroup);
        assert_eq!(trees.len(), 3);
        assert_eq!(trees[0].controllers, ["cpu", "cpuacct"]);
        assert_eq!(trees[0].own, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(trees[1].own, Path::new("/sys/fs/cgroup/memory/api/95"));
        let upwards: Vec<_> = trees[1].upwards().collect();
        assert_eq!(upwards.len(), 3);
        assert_eq!(upwards[2], Path::new("/sys/fs/cgroup/memory"));
        assert_eq!(trees[2].version, Version::Two);
        assert_eq!(trees[2].own, trees[2].top);
    }

    #[test]
    fn a_group_seen_from_inside_a_container_is_below_the_mount() {
        // The mount shows the container's part of the tree; the path is from the root of the whole tree.
        let mountinfo = "700 690 0:29 /docker/4f /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n";
        let trees = parse(mountinfo, "1:cpu:/docker/4f/job\n");
        assert_eq!(trees[0].own, Path::new("/sys/fs/cgroup/cpu/job"));
        // A group outside the visible tree.
        let trees = parse(mountinfo, "1:cpu:/elsewhere\n");
        assert_eq!(trees[0].own, trees[0].top);
        let unified = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(parse(unified, "0::/../../a\n")[0].upwards().count(), 1);
        assert_eq!(
            parse(unified, "0::/user.slice/user-1000.slice/session-2.scope\n")[0]
                .upwards()
                .count(),
            4
        );
    }

    #[test]
    fn a_machine_without_groups_has_no_trees() {
        assert!(parse("23 1 254:0 / / rw - ext4 /dev/vda rw\n", "").is_empty());
        assert!(parse("", "0::/\n").is_empty());
    }
}

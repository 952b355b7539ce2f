//! Stacks of block devices: LVM, LUKS and MD build devices on other devices (`slaves` in sysfs).
//!
//! The kernel counts a request of a group at each device of a stack (`blk_cgroup_bio_start` in block/blk-cgroup.c), so
//! a sum over all devices counts the same data several times.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::limits::BlockDevice;

/// The devices that are part of a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stacks(BTreeMap<BlockDevice, Place>);

/// The position of a device in its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// A device that identifies the stack.
    stack: BlockDevice,
    /// Whether no other device is built on this device.
    is_top: bool,
    /// Whether this device is built on no other device.
    is_bottom: bool,
}

impl Stacks {
    /// Reads the stacks from the folder of disks, `/sys/block`. A folder that cannot be read has no stacks.
    pub(super) fn read(disks: &Path) -> Stacks {
        let mut pairs = Vec::new();
        for disk in entries(disks) {
            let Some(upper) = BlockDevice::of_directory(&disk) else {
                continue;
            };
            for slave in entries(&disk.join("slaves")) {
                pairs.extend(BlockDevice::of_directory(&slave).map(|lower| (upper, lower)));
            }
        }
        Stacks::of(&pairs)
    }

    /// Builds stacks from pairs of a device and a device below it.
    fn of(pairs: &[(BlockDevice, BlockDevice)]) -> Stacks {
        let mut stacks = BTreeMap::new();
        for &(upper, lower) in pairs {
            let stack = *stacks.entry(upper).or_insert(upper);
            let joined = *stacks.entry(lower).or_insert(lower);
            for each in stacks.values_mut().filter(|each| **each == joined) {
                *each = stack;
            }
        }
        let upper: BTreeSet<BlockDevice> = pairs.iter().map(|pair| pair.0).collect();
        let lower: BTreeSet<BlockDevice> = pairs.iter().map(|pair| pair.1).collect();
        let place = |(device, stack)| {
            let place = Place {
                stack,
                is_top: !lower.contains(&device),
                is_bottom: !upper.contains(&device),
            };
            (device, place)
        };
        Stacks(stacks.into_iter().map(place).collect())
    }

    /// Returns the sum of a figure over all devices. Of each stack, it counts either the top or the bottom devices:
    /// those with the larger sum.
    ///
    /// Neither sum is complete. The top lacks requests to other partitions of the disks below. The bottom lacks
    /// requests that a kernel thread makes for the group. It also lacks the bytes of requests that a driver passes on
    /// unchanged.
    pub(super) fn sum(&self, figures: impl IntoIterator<Item = (BlockDevice, u64)>) -> u64 {
        let mut alone = 0;
        let mut stacks: BTreeMap<BlockDevice, (u64, u64)> = BTreeMap::new();
        for (device, figure) in figures {
            let Some(place) = self.0.get(&device) else {
                alone += figure;
                continue;
            };
            let (top, bottom) = stacks.entry(place.stack).or_default();
            *top += figure * u64::from(place.is_top);
            *bottom += figure * u64::from(place.is_bottom);
        }
        let stacked = stacks.into_values().map(|(top, bottom)| top.max(bottom));
        alone + stacked.sum::<u64>()
    }
}

/// Returns the entries of a directory with symbolic links resolved; none if it cannot be read.
fn entries(directory: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::canonicalize(entry.path()).ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn device(text: &str) -> BlockDevice {
        BlockDevice::parse(text).unwrap()
    }

    #[test]
    fn each_stack_counts_once() {
        // A logical volume on an encrypted partition of sda, a mirror of sdb and sdc, and a disk without a stack.
        let root = tempfile::tempdir().unwrap();
        let disks = root.path().join("block");
        let add = |directory: &Path, number: &str| {
            fs::create_dir_all(directory).unwrap();
            fs::write(directory.join("dev"), format!("{number}\n")).unwrap();
        };
        let names = ["sda", "sdb", "sdc", "vda", "dm-0", "dm-1", "md0"];
        let numbers = ["8:0", "8:16", "8:32", "254:0", "253:0", "253:1", "9:0"];
        for (name, number) in names.iter().zip(numbers) {
            let directory = root.path().join("devices").join(name);
            add(&directory, number);
            fs::create_dir(directory.join("slaves")).unwrap();
            fs::create_dir_all(&disks).unwrap();
            symlink(&directory, disks.join(name)).unwrap();
        }
        let partition = root.path().join("devices/sda/sda3");
        add(&partition, "8:3");
        fs::write(partition.join("partition"), "3\n").unwrap();
        let pairs = [
            ("dm-0", "sda/sda3"),
            ("dm-1", "dm-0"),
            ("md0", "sdb"),
            ("md0", "sdc"),
        ];
        for (upper, lower) in pairs {
            let lower = root.path().join("devices").join(lower);
            let link = disks.join(upper).join("slaves");
            symlink(&lower, link.join(lower.file_name().unwrap())).unwrap();
        }
        let stacks = Stacks::read(&disks);
        let sum = |figures: &[(&str, u64)]| {
            stacks.sum(
                figures
                    .iter()
                    .map(|&(number, figure)| (device(number), figure)),
            )
        };
        assert_eq!(sum(&[("253:1", 10), ("253:0", 10), ("8:0", 10)]), 10);
        // Another partition of the disk is used too.
        assert_eq!(sum(&[("253:1", 10), ("253:0", 10), ("8:0", 13)]), 13);
        // A kernel thread writes the encrypted data.
        assert_eq!(sum(&[("253:1", 10), ("253:0", 10)]), 10);
        // Each disk of a mirror has half of the reads.
        assert_eq!(sum(&[("9:0", 10), ("8:16", 5), ("8:32", 5)]), 10);
        assert_eq!(sum(&[("9:0", 1), ("253:1", 2), ("254:0", 4)]), 7);
        assert_eq!(Stacks::read(&root.path().join("none")), Stacks::default());
    }
}

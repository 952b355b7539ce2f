//! Stores the names of a package's files, and detects duplicates with limited memory.

use std::collections::BTreeSet;

use fathometer_model::Seed;

use super::Limits;

/// The reason why a name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    TooMany,
    Duplicate,
    OutOfOrder,
    CriticalLate,
}

/// The files of a package until now.
///
/// If names ascend, only the last name is stored. Otherwise 64 bits of each name are stored. With 16 384 different
/// names, two names collide in about one of 10^11 packages. Collisions are deterministic, so they are the same for the
/// writer and the reader. The names are in a tree and not in a hash table, for which an attacker could choose names
/// that collide.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenNames {
    seen: BTreeSet<u64>,
    ascending: bool,
    last: String,
    others_began: bool,
    files: u32,
}

impl SeenNames {
    /// Creates an empty list. If `ascending` is set, the names of non-critical files must ascend; otherwise they may
    /// have any order.
    pub(super) fn new(ascending: bool) -> SeenNames {
        SeenNames {
            ascending,
            ..SeenNames::default()
        }
    }

    /// Returns the number of files in the list.
    pub(super) fn files(&self) -> u32 {
        self.files
    }

    /// Adds a file, or refuses it.
    pub(super) fn admit(
        &mut self,
        name: &str,
        critical: bool,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        if self.files >= limits.files {
            return Err(Refusal::TooMany);
        }
        if critical && self.others_began {
            return Err(Refusal::CriticalLate);
        }
        let hash = Seed(0).stream(name).0;
        if self.ascending && !critical {
            if self.seen.contains(&hash) {
                return Err(Refusal::Duplicate);
            }
            match name.cmp(&self.last) {
                std::cmp::Ordering::Greater => {}
                std::cmp::Ordering::Equal => return Err(Refusal::Duplicate),
                std::cmp::Ordering::Less => return Err(Refusal::OutOfOrder),
            }
            self.last.clear();
            self.last.push_str(name);
        } else {
            if self.seen.contains(&hash) {
                return Err(Refusal::Duplicate);
            }
            if self.seen.len() >= limits.remembered_files {
                return Err(Refusal::TooMany);
            }
            self.seen.insert(hash);
        }
        self.others_began |= !critical;
        self.files += 1;
        Ok(())
    }

    /// Removes the names. No further file is added.
    pub(super) fn close(&mut self) {
        self.seen = BTreeSet::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_there_twice() {
        let limits = Limits {
            files: 6,
            remembered_files: 3,
            ..Limits::default()
        };
        let mut roll = SeenNames::new(false);
        assert_eq!(roll.admit("b", true, &limits), Ok(()));
        assert_eq!(roll.admit("b", true, &limits), Err(Refusal::Duplicate));
        assert_eq!(roll.admit("a", false, &limits), Ok(()));
        assert_eq!(roll.admit("c", true, &limits), Err(Refusal::CriticalLate));
        assert_eq!(roll.admit("b", false, &limits), Err(Refusal::Duplicate));
        assert_eq!(roll.admit("c", false, &limits), Ok(()));
        assert_eq!(roll.admit("d", false, &limits), Err(Refusal::TooMany));
        assert_eq!(roll.files(), 3);

        let mut roll = SeenNames::new(true);
        for name in ["y", "x", "z"] {
            assert_eq!(roll.admit(name, true, &limits), Ok(()));
        }
        // Three names can be stored; ascending names need no memory.
        for (name, admitted) in [
            ("a", Ok(())),
            ("b", Ok(())),
            ("b", Err(Refusal::Duplicate)),
            ("a", Err(Refusal::OutOfOrder)),
            ("z", Err(Refusal::Duplicate)),
            ("zz", Ok(())),
            ("zzz", Err(Refusal::TooMany)),
        ] {
            assert_eq!(roll.admit(name, false, &limits), admitted, "{name}");
        }
    }
}

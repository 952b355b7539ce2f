//! Pressure stall information (PSI): the time for which threads were stalled for lack of a resource.
//!
//! The kernel provides PSI for the machine and for every control group of version 2, even without controllers. See
//! `Documentation/accounting/psi.rst` of the kernel.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The time for which threads were stalled, in the machine (`/proc/pressure`) or in a group (`cpu.pressure`,
/// `memory.pressure`, `io.pressure`): the `total=` of each line. "some": at least one thread was stalled; "full": all
/// threads that were not idle were stalled. `None` if the kernel was built or started without PSI.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// "some" for lack of a processor.
    pub cpu_some: Option<Duration>,
    /// "full" for lack of a processor. For a group: no member ran although a member was runnable, for example because
    /// the quota was used up. It is undefined for the machine, and `None` there.
    #[serde(default)]
    pub cpu_full: Option<Duration>,
    /// "some" for lack of memory.
    pub memory_some: Option<Duration>,
    /// "full" for lack of memory.
    pub memory_full: Option<Duration>,
    /// "some" for lack of a disk.
    pub io_some: Option<Duration>,
    /// "full" for lack of a disk.
    pub io_full: Option<Duration>,
}

/// The subject of a reading: the machine or a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfWhom {
    Machine,
    Group,
}

impl Pressure {
    /// Parses the texts of three files; an empty text is a missing file.
    pub(crate) fn parse(whom: OfWhom, cpu: &str, memory: &str, io: &str) -> Pressure {
        let total = |text: &str, kind: &str| {
            let line = text.lines().find(|line| line.starts_with(kind))?;
            let word = line.split(' ').find_map(|w| w.strip_prefix("total="))?;
            word.parse().ok().map(Duration::from_micros)
        };
        let cpu_full = total(cpu, "full ");
        Pressure {
            cpu_some: total(cpu, "some "),
            // Since Linux 5.13 the line also exists for the machine, but is always 0.
            cpu_full: cpu_full.filter(|_| whom == OfWhom::Group),
            memory_some: total(memory, "some "),
            memory_full: total(memory, "full "),
            io_some: total(io, "some "),
            io_full: total(io, "full "),
        }
    }

    /// Returns the stall times since an earlier reading.
    pub(crate) fn since(&self, earlier: &Pressure) -> Pressure {
        let time = |now: Option<Duration>, then: Option<Duration>| now?.checked_sub(then?);
        Pressure {
            cpu_some: time(self.cpu_some, earlier.cpu_some),
            cpu_full: time(self.cpu_full, earlier.cpu_full),
            memory_some: time(self.memory_some, earlier.memory_some),
            memory_full: time(self.memory_full, earlier.memory_full),
            io_some: time(self.io_some, earlier.io_some),
            io_full: time(self.io_full, earlier.io_full),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_in_microseconds_and_missing_values_are_not_zero() {
        let cpu = "some avg10=6.25 avg60=2.84 avg300=1.18 total=3659325792\n\
                   full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        let io = "some avg10=0.00 total=5\n";
        let machine = Pressure::parse(OfWhom::Machine, cpu, cpu, io);
        assert_eq!(machine.cpu_some, Some(Duration::from_micros(3_659_325_792)));
        assert_eq!(machine.cpu_full, None, "undefined for the machine");
        assert_eq!(machine.memory_full, Some(Duration::ZERO));
        assert_eq!(
            (machine.io_some, machine.io_full),
            (Some(Duration::from_micros(5)), None)
        );
        let group = Pressure::parse(OfWhom::Group, cpu, "", "");
        assert_eq!(group.cpu_full, Some(Duration::ZERO));
        assert_eq!((group.memory_some, group.io_some), (None, None));
        let later = Pressure::parse(OfWhom::Machine, cpu, cpu, "some total=12\n");
        let step = later.since(&machine);
        assert_eq!(step.io_some, Some(Duration::from_micros(7)));
        assert_eq!(step.cpu_some, Some(Duration::ZERO));
        assert_eq!((step.io_full, step.cpu_full), (None, None));
        assert_eq!(
            Pressure::parse(OfWhom::Machine, "", "", ""),
            Pressure::default()
        );
    }
}

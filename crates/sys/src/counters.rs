//! The TCP counters of a namespace, summed over all connections.
//!
//! A packet that the path delivered can still be lost inside a host: a full buffer, a full queue of new
//! connections, or a bad checksum. [`TcpCounters::losses`] lists these losses. Any such loss makes a measurement
//! questionable.

use std::collections::BTreeMap;
use std::fs;

use crate::error::{Doing, Error, Result};

/// Counters by their kernel names, as printed by `nstat -az`: `TcpRetransSegs`, `TcpExtListenDrops`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TcpCounters(BTreeMap<String, u64>);

/// Counters of packets that a host received and dropped.
const LOSSES: [&str; 11] = [
    "IpInDiscards",
    "TcpExtListenDrops",
    "TcpExtOfoPruned",
    "TcpExtPFMemallocDrop",
    "TcpExtRcvPruned",
    "TcpExtTCPBacklogDrop",
    "TcpExtTCPOFODrop",
    "TcpExtTCPRcvQDrop",
    "TcpExtTCPReqQFullDrop",
    "TcpExtTCPZeroWindowDrop",
    "TcpInCsumErrors",
];

impl TcpCounters {
    /// Reads the counters of the calling thread's namespace.
    pub fn read() -> Result<TcpCounters> {
        let mut counters = TcpCounters::default();
        for file in ["snmp", "netstat"] {
            let path = format!("/proc/thread-self/net/{file}");
            let text = fs::read_to_string(&path).doing(format!("read {path}"))?;
            counters.take_in(&text)?;
        }
        Ok(counters)
    }

    /// Returns one counter; 0 if the kernel has no counter of this name.
    pub fn count(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Returns the difference to an earlier reading, without counters that did not change.
    pub fn since(&self, earlier: &TcpCounters) -> TcpCounters {
        let changes = self.0.iter().filter_map(|(name, &count)| {
            let change = count.saturating_sub(earlier.count(name));
            (change > 0).then(|| (name.clone(), change))
        });
        TcpCounters(changes.collect())
    }

    /// Returns the non-zero losses inside the host, by name.
    pub fn losses(&self) -> BTreeMap<String, u64> {
        LOSSES
            .into_iter()
            .map(|name| (name.to_owned(), self.count(name)))
            .filter(|&(_, count)| count > 0)
            .collect()
    }

    /// Parses pairs of lines: `Tcp: names…` and `Tcp: values…`.
    fn take_in(&mut self, text: &str) -> Result<()> {
        let bad = || Error::BadAnswer {
            what: "counters of TCP",
        };
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let (group, names) = names.split_once(':').ok_or_else(bad)?;
            let (again, values) = values.split_once(':').ok_or_else(bad)?;
            if group != again {
                return Err(bad());
            }
            for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
                // Some values are signed: -1 means no limit, and is not a count.
                if let Ok(value) = value.parse() {
                    self.0.insert(format!("{group}{name}"), value);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_as_the_kernel_groups_them() {
        let mut counters = TcpCounters::default();
        let text = "Tcp: MaxConn InSegs RetransSegs\nTcp: -1 90 2\n\
                    TcpExt: TCPRcvQDrop ListenDrops\nTcpExt: 3 0\n";
        counters.take_in(text).unwrap();
        assert_eq!(counters.count("TcpInSegs"), 90);
        assert_eq!(counters.count("TcpMaxConn"), 0);
        assert_eq!(
            counters.losses(),
            BTreeMap::from([("TcpExtTCPRcvQDrop".to_owned(), 3)])
        );
        let mut later = counters.clone();
        later.take_in("Tcp: InSegs\nTcp: 95\n").unwrap();
        assert_eq!(later.since(&counters).0.len(), 1);
        assert_eq!(later.since(&counters).count("TcpInSegs"), 5);
        assert!(counters.take_in("Tcp: A\nUdp: 1\n").is_err());
    }

    #[test]
    fn the_kernel_here_has_the_counters_that_matter() {
        let counters = TcpCounters::read().unwrap();
        for name in LOSSES {
            assert!(counters.0.contains_key(name), "{name}");
        }
    }
}

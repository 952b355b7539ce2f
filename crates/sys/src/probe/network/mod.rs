//! The network of a host: TCP counters, numbers of sockets by state, their kernel memory, and the TCP state
//! of each connection.

mod connection;
mod counters;
mod diagnosis;
mod table;
mod windows;

use serde::{Deserialize, Serialize};

use super::kernel_file::{KernelFile, text};
use crate::error::Result;
use crate::namespace::Namespace;
use counters::socket_value;
use diagnosis::{ALL_STATES, Diagnosis, ESTABLISHED_ONLY, INFO, MEMORY, Question};

pub use connection::{Connection, SocketMemory, TcpState};
pub use counters::{SocketCounts, TcpCounts};
pub use table::SocketTable;
pub use windows::Windows;

/// The network figures of one namespace since it was created; from [`Network::since`], between two readings. A figure that
/// this kernel does not report is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// TCP counters (`/proc/net/snmp` and `netstat`).
    pub tcp: TcpCounts,
    /// The numbers of sockets (`/proc/net/sockstat`).
    pub sockets: SocketCounts,
    /// The sums over all TCP sockets (sock_diag). Only in readings that include them.
    pub table: Option<SocketTable>,
    /// The congestion windows of a server's connections (sock_diag), from all readings so far. Only if
    /// requested.
    pub windows: Option<Windows>,
}

/// Reads the network figures of one namespace, from any thread.
#[derive(Debug)]
pub struct NetworkProbe {
    snmp: KernelFile,
    netstat: Option<KernelFile>,
    sockstat: Option<KernelFile>,
    sockstat6: Option<KernelFile>,
    diagnosis: Diagnosis,
}

impl NetworkProbe {
    /// Opens a probe of this namespace.
    pub fn open(namespace: &Namespace) -> Result<NetworkProbe> {
        namespace.run(NetworkProbe::open_here)?
    }

    /// Opens a probe of the calling thread's namespace.
    pub fn open_here() -> Result<NetworkProbe> {
        let optional =
            |name: &str| KernelFile::open_if_there(&format!("/proc/thread-self/net/{name}"));
        Ok(NetworkProbe {
            snmp: KernelFile::open("/proc/thread-self/net/snmp")?,
            netstat: optional("netstat"),
            sockstat: optional("sockstat"),
            sockstat6: optional("sockstat6"),
            diagnosis: Diagnosis::open(),
        })
    }

    /// Reads counters and numbers of sockets. Takes about 30 µs, for any number of connections.
    pub fn read(&mut self) -> Network {
        let mut tcp = TcpCounts::default();
        tcp.take(self.snmp.read().unwrap_or_default());
        tcp.take(text(&mut self.netstat));
        let mut sockets = SocketCounts::parse(text(&mut self.sockstat));
        let six = socket_value(text(&mut self.sockstat6), "TCP6", "inuse");
        sockets.tcp_in_use = sockets.tcp_in_use.map(|four| four + six.unwrap_or(0));
        Network {
            tcp,
            sockets,
            table: None,
            windows: None,
        }
    }

    /// Counts the TCP sockets of the namespace by state. The kernel walks its whole table, which all namespaces share. This
    /// takes at least 1 ms, and another 1 ms per some thousand sockets.
    pub fn table(&mut self) -> Result<SocketTable> {
        let mut table = SocketTable::default();
        let question = Question {
            states: ALL_STATES,
            attributes: &[MEMORY],
        };
        self.diagnosis
            .query(question, &mut |answer| table.count(answer))?;
        Ok(table)
    }

    /// Calls a function for every TCP socket of the namespace, listeners included, with its whole TCP state. Takes about
    /// 2 µs per connection longer than [`table`](Self::table).
    ///
    /// The states are from different instants: connections open and close while the kernel walks its table.
    pub fn connections(&mut self, each: &mut dyn FnMut(&Connection)) -> Result<()> {
        let question = Question {
            states: ALL_STATES,
            attributes: &[INFO, MEMORY],
        };
        self.diagnosis
            .query(question, &mut |answer| each(&Connection::of(answer)))
    }

    /// Adds the current congestion windows of the established connections with this local port to `windows`.
    pub fn windows(&mut self, port: u16, windows: &mut Windows) -> Result<()> {
        let question = Question {
            states: ESTABLISHED_ONLY,
            attributes: &[INFO],
        };
        // A failed reading adds nothing.
        let mut reading = windows.clone();
        reading.begin();
        self.diagnosis.query(question, &mut |answer| {
            if answer.local_port() == port
                && let Some(window) = Connection::of(answer).congestion_window()
            {
                reading.found(window);
            }
        })?;
        *windows = reading;
        Ok(())
    }
}

impl Network {
    /// Returns the difference to an earlier reading. Figures that are not counters (`established`, `sockets`, `table`)
    /// are copied from `self`.
    pub fn since(&self, earlier: &Network) -> Network {
        Network {
            tcp: self.tcp.since(&earlier.tcp),
            sockets: self.sockets,
            table: self.table,
            windows: self
                .windows
                .as_ref()
                .zip(earlier.windows.as_ref())
                .and_then(|(now, then)| now.since(then)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_differences_and_gauges_are_kept() {
        let mut before = Network::default();
        before.tcp.segments_in = Some(10);
        before.tcp.established = Some(5);
        let mut after = before.clone();
        after.tcp.segments_in = Some(25);
        after.tcp.established = Some(3);
        after.sockets.time_wait = Some(4);
        let step = after.since(&before);
        assert_eq!(step.tcp.segments_in, Some(15));
        assert_eq!(step.tcp.established, Some(3));
        assert_eq!(step.sockets.time_wait, Some(4));
        assert_eq!(step.tcp.segments_out, None);
    }
}

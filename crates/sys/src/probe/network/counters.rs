//! The TCP counters and the numbers of sockets of a namespace, from files of `/proc/net`.

use fathometer_model::Bytes;
use serde::{Deserialize, Serialize};

use super::super::kernel_file::counted;
use super::super::page_size;

/// Counters of TCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounts {
    /// Segments received, including invalid segments (`InSegs`).
    pub segments_in: Option<u64>,
    /// Segments sent, without retransmissions (`OutSegs`). A packet that the device segments counts as several segments.
    pub segments_out: Option<u64>,
    /// Segments retransmitted (`RetransSegs`).
    pub retransmitted: Option<u64>,
    /// RST segments sent (`OutRsts`).
    pub resets_out: Option<u64>,
    /// Connections opened locally (`ActiveOpens`).
    pub active_opens: Option<u64>,
    /// Connections opened by a peer (`PassiveOpens`).
    pub passive_opens: Option<u64>,
    /// Failed connection attempts (`AttemptFails`).
    pub failed_opens: Option<u64>,
    /// Connections reset by either side (`EstabResets`).
    pub resets: Option<u64>,
    /// The current number of connections in ESTABLISHED or CLOSE_WAIT (`CurrEstab`).
    pub established: Option<u64>,
    /// Connections that arrived while a listener's queue was full (`ListenOverflows`).
    pub listen_overflows: Option<u64>,
    /// Connections that a listener dropped, because of a full queue or for another reason (`ListenDrops`).
    pub listen_drops: Option<u64>,
    /// Connection requests that arrived while the queue of half-open connections was full: answered with a SYN cookie
    /// (`TCPReqQFullDoCookies`) or dropped (`TCPReqQFullDrop`).
    pub half_open_overflows: Option<u64>,
    /// Retransmission time-outs (`TCPTimeouts`).
    pub timeouts: Option<u64>,
    /// Sockets that left TIME_WAIT because its time expired (`TW`).
    pub time_waits_ended: Option<u64>,
}

/// The current numbers of sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketCounts {
    /// TCP sockets in use, of both families, without TIME_WAIT.
    pub tcp_in_use: Option<u64>,
    /// Sockets in TIME_WAIT.
    pub time_wait: Option<u64>,
    /// TCP sockets that no program owns any more, in all namespaces.
    pub orphans: Option<u64>,
    /// Memory for TCP buffers in all namespaces, in whole pages. It includes up to 1 MB of unused reserves per processor.
    pub tcp_memory: Option<Bytes>,
}

impl TcpCounts {
    /// Returns the difference to an earlier reading; `established` is copied from `self`.
    pub(super) fn since(&self, then: &TcpCounts) -> TcpCounts {
        TcpCounts {
            segments_in: counted(self.segments_in, then.segments_in),
            segments_out: counted(self.segments_out, then.segments_out),
            retransmitted: counted(self.retransmitted, then.retransmitted),
            resets_out: counted(self.resets_out, then.resets_out),
            active_opens: counted(self.active_opens, then.active_opens),
            passive_opens: counted(self.passive_opens, then.passive_opens),
            failed_opens: counted(self.failed_opens, then.failed_opens),
            resets: counted(self.resets, then.resets),
            established: self.established,
            listen_overflows: counted(self.listen_overflows, then.listen_overflows),
            listen_drops: counted(self.listen_drops, then.listen_drops),
            half_open_overflows: counted(self.half_open_overflows, then.half_open_overflows),
            timeouts: counted(self.timeouts, then.timeouts),
            time_waits_ended: counted(self.time_waits_ended, then.time_waits_ended),
        }
    }

    /// Takes the needed fields from `snmp` or `netstat`, which consist of pairs of lines: `Tcp: names…` and `Tcp: values…`.
    pub(super) fn take(&mut self, text: &str) {
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let (mut names, mut values) = (names.split(' '), values.split(' '));
            let group = names.next();
            if values.next() != group {
                return;
            }
            for (name, value) in names.zip(values) {
                let Ok(value) = value.parse::<u64>() else {
                    continue;
                };
                let place = match (group, name) {
                    (Some("Tcp:"), "InSegs") => &mut self.segments_in,
                    (Some("Tcp:"), "OutSegs") => &mut self.segments_out,
                    (Some("Tcp:"), "RetransSegs") => &mut self.retransmitted,
                    (Some("Tcp:"), "OutRsts") => &mut self.resets_out,
                    (Some("Tcp:"), "ActiveOpens") => &mut self.active_opens,
                    (Some("Tcp:"), "PassiveOpens") => &mut self.passive_opens,
                    (Some("Tcp:"), "AttemptFails") => &mut self.failed_opens,
                    (Some("Tcp:"), "EstabResets") => &mut self.resets,
                    (Some("Tcp:"), "CurrEstab") => &mut self.established,
                    (Some("TcpExt:"), "ListenOverflows") => &mut self.listen_overflows,
                    (Some("TcpExt:"), "ListenDrops") => &mut self.listen_drops,
                    (Some("TcpExt:"), "TCPTimeouts") => &mut self.timeouts,
                    (Some("TcpExt:"), "TW") => &mut self.time_waits_ended,
                    (Some("TcpExt:"), "TCPReqQFullDoCookies" | "TCPReqQFullDrop") => {
                        let sum = self.half_open_overflows.unwrap_or(0) + value;
                        self.half_open_overflows = Some(sum);
                        continue;
                    }
                    _ => continue,
                };
                *place = Some(value);
            }
        }
    }
}

impl SocketCounts {
    /// Parses lines like `TCP: inuse 1 orphan 0 tw 0 alloc 1 mem 371`.
    pub(super) fn parse(sockstat: &str) -> SocketCounts {
        let page = page_size();
        SocketCounts {
            tcp_in_use: socket_value(sockstat, "TCP", "inuse"),
            time_wait: socket_value(sockstat, "TCP", "tw"),
            orphans: socket_value(sockstat, "TCP", "orphan"),
            tcp_memory: socket_value(sockstat, "TCP", "mem").map(|pages| Bytes(pages * page)),
        }
    }
}

/// Returns the number after a key in a protocol's line.
pub(super) fn socket_value(sockstat: &str, protocol: &str, key: &str) -> Option<u64> {
    let line = sockstat.lines().find_map(|line| {
        let (name, rest) = line.split_once(':')?;
        (name == protocol).then_some(rest)
    })?;
    let mut words = line.split_whitespace();
    words.by_ref().find(|word| *word == key)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_are_missing_are_not_zero() {
        let mut tcp = TcpCounts::default();
        tcp.take(
            "Ip: Forwarding InReceives\nIp: 1 90\n\
             Tcp: RtoAlgorithm MaxConn ActiveOpens CurrEstab InSegs RetransSegs\n\
             Tcp: 1 -1 5 2 90 3\n",
        );
        tcp.take(
            "TcpExt: TW ListenOverflows TCPReqQFullDoCookies TCPReqQFullDrop\n\
             TcpExt: 7 1 2 3\nIpExt: InNoRoutes\nIpExt: 0\n",
        );
        assert_eq!((tcp.segments_in, tcp.retransmitted), (Some(90), Some(3)));
        assert_eq!((tcp.active_opens, tcp.established), (Some(5), Some(2)));
        assert_eq!(tcp.listen_overflows, Some(1));
        assert_eq!(tcp.half_open_overflows, Some(5));
        assert_eq!((tcp.listen_drops, tcp.segments_out), (None, None));
        // Lines that are not a pair are ignored.
        let mut odd = TcpCounts::default();
        odd.take("Tcp: InSegs\nUdp: 5\n");
        assert_eq!(odd, TcpCounts::default());
    }

    #[test]
    fn numbers_of_sockets() {
        let text =
            "sockets: used 21\nTCP: inuse 4 orphan 1 tw 9 alloc 5 mem 3\nUDP: inuse 8 mem 0\n";
        let counts = SocketCounts::parse(text);
        assert_eq!((counts.tcp_in_use, counts.time_wait), (Some(4), Some(9)));
        assert_eq!(counts.orphans, Some(1));
        let page = page_size();
        assert_eq!(counts.tcp_memory, Some(Bytes(3 * page)));
        assert_eq!(SocketCounts::parse(""), SocketCounts::default());
        assert_eq!(socket_value("TCP6: inuse 2\n", "TCP6", "inuse"), Some(2));
    }
}

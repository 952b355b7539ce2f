//! Statistics of an origin, counted by each loop and summed over the loops.

use fathometer_http::origin::Origin;
use fathometer_sys::udp::Batches;

use crate::machine::Handed;

/// The work of an origin, counted over all its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OriginStatistics {
    /// Connections accepted.
    pub connections: u64,
    /// Responses that were completely handed to the kernel.
    pub responses: u64,
    /// Content bytes of these responses.
    pub content: u64,
    /// Pushed responses among these.
    pub pushed: u64,
    /// Packages and archives that were sent as responses.
    pub packages: u64,
    /// Files that were opened.
    pub disk_opens: u64,
    /// Calls that read bytes of files, into memory or directly into a socket.
    pub disk_reads: u64,
    /// Connections that were, or became, HTTP/2.
    pub http2: u64,
    /// Completed TLS handshakes.
    pub handshakes: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
    /// Handshakes with early data that was accepted.
    pub early: u64,
    /// Handshakes that failed.
    pub handshakes_failed: u64,
    /// Connections that were reset when the loop finished.
    pub reset_at_end: u64,
    /// Connections that were reset because too many were open.
    pub shed: u64,
    /// Connections that were closed to make room for others, because they waited longest for their clients.
    pub yielded: u64,
    /// HTTP/3 connections that were closed because their clients acknowledged too little.
    pub stalled: u64,
    /// Number of times that accepting paused because there were no descriptors.
    pub pauses: u64,
    /// Access-log lines that could not be written.
    pub log_lines_lost: u64,
    /// The longest time from the return of a poll to the next poll, in nanoseconds.
    pub busy_max_ns: u64,
    /// The number of system calls and buffers that carried QUIC datagrams.
    pub datagrams: Batches,
}

impl OriginStatistics {
    pub(crate) fn count(&mut self, handed: &Handed) {
        if handed.whole {
            self.responses += 1;
            self.content += handed.exchange.body.0;
            self.pushed += u64::from(handed.pushed);
        }
    }

    /// Adds the counts of an origin that were not added before, because several loops may share one origin.
    pub(crate) fn take_from(&mut self, origin: &Origin) {
        let work = origin.take_work();
        self.packages += origin.take_packages();
        self.disk_opens += work.opens;
        self.disk_reads += work.reads;
    }

    /// Returns the sum of both statistics.
    #[must_use]
    pub fn and(self, other: OriginStatistics) -> OriginStatistics {
        OriginStatistics {
            connections: self.connections + other.connections,
            responses: self.responses + other.responses,
            content: self.content + other.content,
            pushed: self.pushed + other.pushed,
            packages: self.packages + other.packages,
            disk_opens: self.disk_opens + other.disk_opens,
            disk_reads: self.disk_reads + other.disk_reads,
            http2: self.http2 + other.http2,
            handshakes: self.handshakes + other.handshakes,
            resumed: self.resumed + other.resumed,
            early: self.early + other.early,
            handshakes_failed: self.handshakes_failed + other.handshakes_failed,
            reset_at_end: self.reset_at_end + other.reset_at_end,
            shed: self.shed + other.shed,
            yielded: self.yielded + other.yielded,
            stalled: self.stalled + other.stalled,
            pauses: self.pauses + other.pauses,
            log_lines_lost: self.log_lines_lost + other.log_lines_lost,
            busy_max_ns: self.busy_max_ns.max(other.busy_max_ns),
            datagrams: self.datagrams.and(other.datagrams),
        }
    }
}

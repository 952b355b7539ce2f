//! The figures of one window of one loop.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_analysis::load::{
    ByteCounts, Connections, Counts, Datagrams, Distribution, Ended, Handshakes, Latency, Window,
};
use fathometer_model::{Bytes, Failure};

use super::super::frames::FrameTally;
use super::super::timeline::merge_counts;

/// The number of status codes, each of which has a counter.
const STATUSES: usize = 1000;

/// Histograms initially have memory for connection lifetimes up to this value; they grow for longer lifetimes.
const LONGEST_LIFE: Duration = Duration::from_secs(3600);

/// The figures of one window of one loop.
#[derive(Default)]
pub(crate) struct WindowTally {
    pub(super) planned: u64,
    pub(super) sent: u64,
    pub(super) completed: u64,
    pub(super) unfinished: u64,
    pub(super) wrong_size: u64,
    pub(super) retried: u64,
    pub(super) connects: u64,
    pub(super) connected: u64,
    pub(super) pages: u64,
    pub(super) page_connections: u64,
    pub(super) pages_failed: u64,
    pub(super) sessions: u64,
    statuses: Vec<u64>,
    pub(super) failures: [u64; Failure::ALL.len()],
    pub(super) connect_failures: [u64; Failure::ALL.len()],
    pub(super) bytes: ByteCounts,
    pub(super) latency: Latency,
    pub(super) ended: Ended,
    pub(super) connections: Connections,
    pub(super) handshakes: Handshakes,
    pub(super) frames: FrameTally,
    pub(super) datagrams: Datagrams,
    pub(super) paused: Duration,
}

impl WindowTally {
    /// Allocates memory for latencies up to `longest`, and for connection lifetimes up to [`LONGEST_LIFE`].
    pub(super) fn with_room(longest: Duration) -> WindowTally {
        let room = || Distribution::with_room(longest);
        WindowTally {
            latency: Latency {
                corrected: room(),
                uncorrected: room(),
                queue: room(),
                send_lag: room(),
                connect: room(),
                tls: room(),
                first_byte: room(),
                transfer: room(),
                page: room(),
                failed: room(),
            },
            connections: Connections {
                life: Distribution::with_room(LONGEST_LIFE),
                ..Connections::default()
            },
            statuses: vec![0; STATUSES],
            ..WindowTally::default()
        }
    }

    /// Adds the figures to the window of a result.
    pub(crate) fn add_to(&self, to: &mut Window) {
        merge_counts(&mut to.counts, self.counts());
        let ByteCounts {
            request_heads,
            request_fields,
            request_bodies,
            response_heads,
            response_fields,
            response_bodies,
            content,
            failed_responses,
        } = self.bytes;
        to.bytes.request_heads += request_heads;
        to.bytes.request_bodies += request_bodies;
        to.bytes.request_fields += request_fields;
        to.bytes.response_heads += response_heads;
        to.bytes.response_fields += response_fields;
        to.bytes.response_bodies += response_bodies;
        to.bytes.content += content;
        to.bytes.failed_responses += failed_responses;
        let Latency {
            corrected,
            uncorrected,
            queue,
            send_lag,
            connect,
            tls,
            first_byte,
            transfer,
            page,
            failed,
        } = &self.latency;
        for (to, from) in [
            (&mut to.latency.corrected, corrected),
            (&mut to.latency.uncorrected, uncorrected),
            (&mut to.latency.queue, queue),
            (&mut to.latency.send_lag, send_lag),
            (&mut to.latency.connect, connect),
            (&mut to.latency.tls, tls),
            (&mut to.latency.first_byte, first_byte),
            (&mut to.latency.transfer, transfer),
            (&mut to.latency.page, page),
            (&mut to.latency.failed, failed),
        ] {
            to.merge(from);
        }
        let Ended {
            completed,
            status_errors,
            failed,
            received,
            useful,
            connected,
            silent_from: _,
        } = self.ended;
        to.ended.completed += completed;
        to.ended.status_errors += status_errors;
        to.ended.failed += failed;
        to.ended.received = Bytes(to.ended.received.0 + received.0);
        to.ended.useful += useful;
        to.ended.connected += connected;
        to.connections.merge(&self.connections);
        to.handshakes.merge(&self.handshakes);
        to.frames.merge(&self.frames.frames());
        to.datagrams.merge(&self.datagrams);
        to.paused += self.paused;
    }

    /// Counts the status of a complete response.
    pub(super) fn count_status(&mut self, status: u16) {
        if self.statuses.is_empty() {
            self.statuses = vec![0; STATUSES];
        }
        self.statuses[usize::from(status)] += 1;
    }

    /// Returns the counts in the form of the results.
    pub(super) fn counts(&self) -> Counts {
        let statuses = self.statuses.iter().copied().enumerate();
        Counts {
            planned: self.planned,
            sent: self.sent,
            completed: self.completed,
            statuses: statuses
                .filter(|&(_, count)| count > 0)
                .map(|(status, count)| (status as u16, count))
                .collect(),
            failures: by_failure(&self.failures),
            unfinished: self.unfinished,
            wrong_size: self.wrong_size,
            retried: self.retried,
            connects: self.connects,
            connected: self.connected,
            connect_failures: by_failure(&self.connect_failures),
            pages: self.pages,
            page_connections: self.page_connections,
            pages_failed: self.pages_failed,
            sessions: self.sessions,
        }
    }
}

fn by_failure(counts: &[u64; Failure::ALL.len()]) -> BTreeMap<Failure, u64> {
    let counted = Failure::ALL.into_iter().zip(counts.iter().copied());
    counted.filter(|&(_, count)| count > 0).collect()
}

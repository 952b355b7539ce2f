//! Counts the frames of HTTP/2 connections in the window in which they were sent or received.

use std::collections::BTreeMap;

use fathometer_analysis::load::{FrameCount, Frames};
use fathometer_http::h2::client::{Connection, Traffic};
use fathometer_http::h2::frame::FrameType;
use fathometer_model::Bytes;

/// Frame types and their names in results; the last entry is for all unknown types.
const KINDS: [(FrameType, &str); 13] = [
    (FrameType::DATA, "data"),
    (FrameType::HEADERS, "headers"),
    (FrameType::PRIORITY, "priority"),
    (FrameType::RST_STREAM, "rst-stream"),
    (FrameType::SETTINGS, "settings"),
    (FrameType::PUSH_PROMISE, "push-promise"),
    (FrameType::PING, "ping"),
    (FrameType::GOAWAY, "goaway"),
    (FrameType::WINDOW_UPDATE, "window-update"),
    (FrameType::CONTINUATION, "continuation"),
    (FrameType::ALTSVC, "altsvc"),
    (FrameType::PRIORITY_UPDATE, "priority-update"),
    (FrameType(0xff), "other"),
];

/// The part of a connection's traffic that the tally already includes. Connections without frames allocate no memory.
#[derive(Default)]
pub(super) struct Counted(Option<Box<(Traffic, Traffic)>>);

/// Frames of one window.
#[derive(Default)]
pub(super) struct FrameTally {
    sent: [FrameCount; KINDS.len()],
    received: [FrameCount; KINDS.len()],
    most_streams: u64,
    allowed_streams: Option<u64>,
}

impl FrameTally {
    /// Counts the frames that a connection carried since the last call. `most_streams` is the maximum number of
    /// concurrent streams in this time.
    pub(super) fn count(
        &mut self,
        connection: &Connection,
        counted: &mut Counted,
        most_streams: u32,
    ) {
        let counted = counted.0.get_or_insert_default();
        add(&mut self.sent, connection.sent(), &counted.0);
        add(&mut self.received, connection.received(), &counted.1);
        **counted = (*connection.sent(), *connection.received());
        self.most_streams = self.most_streams.max(most_streams.into());
        let allowed = connection.peer_settings().map(|s| s.max_concurrent_streams);
        self.allowed_streams = self.allowed_streams.max(allowed.flatten().map(u64::from));
    }

    /// Returns the counts in the form of the results.
    pub(super) fn frames(&self) -> Frames {
        Frames {
            sent: by_name(&self.sent),
            received: by_name(&self.received),
            most_streams: self.most_streams,
            allowed_streams: self.allowed_streams,
        }
    }
}

fn by_name(counts: &[FrameCount; KINDS.len()]) -> BTreeMap<String, FrameCount> {
    let named = KINDS
        .iter()
        .zip(counts)
        .filter(|(_, count)| count.frames > 0);
    named
        .map(|((_, name), count)| ((*name).to_owned(), *count))
        .collect()
}

fn add(tally: &mut [FrameCount; KINDS.len()], now: &Traffic, before: &Traffic) {
    for ((kind, _), count) in KINDS.iter().zip(tally) {
        count.frames += now.frames(*kind) - before.frames(*kind);
        count.bytes += Bytes(now.bytes(*kind).0 - before.bytes(*kind).0);
    }
}

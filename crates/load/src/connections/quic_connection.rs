//! The state of an HTTP/3 connection.

use fathometer_http::client::RequestId;
use fathometer_quic::Statistics;
use fathometer_sys::udp::Batches;

use super::super::timers::Deadline;
use crate::http3_client::Http3Client;

/// An HTTP/3 connection, with its transport.
pub(super) struct QuicConnection {
    pub(super) client: Http3Client,
    /// The time at which QUIC has work to do.
    pub(super) deadline: Deadline,
    /// The first request that waits for a stream.
    pub(super) stalled: Option<RequestId>,
    /// Whether the connection failed before it was established, and the failure was counted.
    pub(super) is_refused: bool,
    /// Statistics that the tally already includes.
    pub(super) counted: Statistics,
    pub(super) batches: Batches,
    pub(super) overflowed: u64,
    pub(super) unsent: u64,
}

impl QuicConnection {
    pub(super) fn new(client: Http3Client) -> QuicConnection {
        QuicConnection {
            client,
            deadline: Deadline::default(),
            stalled: None,
            is_refused: false,
            counted: Statistics::default(),
            batches: Batches::default(),
            overflowed: 0,
            unsent: 0,
        }
    }

    /// Returns whether a request may be queued. While requests wait for streams, none may.
    pub(super) fn can_request(&self) -> bool {
        self.stalled.is_none() && self.client.http_ref().can_request()
    }
}

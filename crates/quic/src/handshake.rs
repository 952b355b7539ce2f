//! The figures of a handshake.

use std::time::Duration;

use fathometer_model::Bytes;

/// A number of datagrams and their bytes (UDP payload).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volume {
    /// The number of datagrams.
    pub datagrams: u64,
    /// The bytes of their payloads.
    pub bytes: Bytes,
}

impl Volume {
    pub(crate) fn add(&mut self, datagrams: u64, bytes: usize) {
        self.datagrams += datagrams;
        self.bytes += Bytes(bytes as u64);
    }
}

/// The outcome of data sent before the handshake was complete (0-RTT).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum EarlyData {
    /// Early data was not possible (no ticket), or not requested.
    #[default]
    None,
    /// The server accepted early data.
    Accepted,
    /// The server rejected early data. All streams opened before the rejection are closed without an event, and stream
    /// IDs start again.
    Rejected,
}

/// The figures of a handshake, until it is complete on this side: for a client, when the server's Finished has arrived
/// (before the client's Finished is sent); for a server, when the client's Finished has arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handshake {
    /// The duration, from the connect call (client) or from the arrival of the first datagram (server).
    pub took: Duration,
    /// Datagrams sent during the handshake, including early data.
    pub sent: Volume,
    /// Datagrams received during the handshake.
    pub received: Volume,
    /// The round trips that the handshake needs without losses: normally 1. A Retry adds one (only a client counts a
    /// Retry). Certificates above the limit for an unvalidated address add one. Losses affect only the duration.
    pub round_trips: u32,
    /// The negotiated protocol (ALPN), such as `h3`.
    pub protocol: Option<Vec<u8>>,
    /// The name that the client requested; only servers have it.
    pub server_name: Option<String>,
    /// Whether the handshake resumed an earlier session with a ticket.
    pub resumed: bool,
    /// The negotiated cipher suite, by its registered name.
    pub cipher_suite: Option<&'static str>,
    /// The bytes of the certificates that the peer presented; 0 for a resumed session.
    pub certificates: Bytes,
    /// The outcome of early data; only clients have it.
    pub early_data: EarlyData,
}

/// Derives the number of round trips of a handshake from the numbers of bytes sent and received.
///
/// A handshake takes one round trip, and a Retry adds another. Until a server has validated the client's address, it
/// may send three times the bytes received from the client, and complete the last datagram (RFC 9000 section 8.1).
/// Bytes above this limit answer later bytes of the client, and so took another round trip. The effects of losses and
/// of the congestion window are not counted, but are part of the handshake's duration.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    count: u32,
    is_server: bool,
    is_validated: bool,
    /// Bytes sent by the client.
    clients: u64,
    /// Bytes sent by the server.
    servers: u64,
    /// Bytes sent by the client before the server's first bytes.
    before: Option<u64>,
}

/// The bytes by which a server may exceed its limit: it may complete a datagram that it has started.
const EXCESS: u64 = 1500;

impl RoundTrips {
    pub(crate) fn new(is_server: bool) -> RoundTrips {
        RoundTrips {
            count: 1,
            is_server,
            is_validated: false,
            clients: 0,
            servers: 0,
            before: None,
        }
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        match self.is_server {
            true => self.servers_sent(bytes),
            false => self.clients += bytes as u64,
        }
    }

    pub(crate) fn received(&mut self, bytes: usize, is_retry: bool) {
        if is_retry {
            self.count += 1;
            self.is_validated = true;
        }
        match self.is_server {
            true => self.clients += bytes as u64,
            false => self.servers_sent(bytes),
        }
    }

    fn servers_sent(&mut self, bytes: usize) {
        self.servers += bytes as u64;
        let before = *self.before.get_or_insert(self.clients);
        let exceeds = self.servers > 3 * before + EXCESS && self.clients > before;
        if exceeds && !self.is_validated {
            self.count += 1;
            self.is_validated = true;
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

/// Whether a datagram begins with a Retry packet of version 1 (RFC 9000 section 17.2.5).
pub(crate) fn is_retry(datagram: &[u8]) -> bool {
    matches!(datagram, [first, 0, 0, 0, 1, ..] if first & 0xf0 == 0xf0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the count after these steps: sends (`true`) and arrivals, in bytes.
    fn counted(is_server: bool, steps: &[(bool, usize)]) -> u32 {
        let mut trips = RoundTrips::new(is_server);
        for &(is_sent, bytes) in steps {
            match is_sent {
                true => trips.sent(bytes),
                false => trips.received(bytes, false),
            }
        }
        trips.count()
    }

    #[test]
    fn what_a_server_may_send_at_once_is_one_round_trip() {
        let steps = [
            (true, 1200),
            (false, 1200),
            (true, 1200),
            (false, 1200),
            (false, 1200),
        ];
        assert_eq!(counted(false, &steps), 1);
        let mirrored = steps.map(|(is_sent, bytes)| (!is_sent, bytes));
        assert_eq!(counted(true, &mirrored), 1);
    }

    #[test]
    fn bytes_beyond_the_limit_take_another_round_trip() {
        let mut steps = vec![(true, 1200)];
        steps.extend([(false, 1200); 3]);
        steps.push((true, 1200));
        steps.extend([(false, 1200); 3]);
        assert_eq!(counted(false, &steps), 2);
        let mirrored: Vec<_> = steps
            .iter()
            .map(|&(is_sent, bytes)| (!is_sent, bytes))
            .collect();
        assert_eq!(counted(true, &mirrored), 2);
    }

    #[test]
    fn a_retry_counts_as_another_round_trip() {
        let mut trips = RoundTrips::new(false);
        trips.sent(1200);
        trips.received(100, true);
        trips.sent(1200);
        trips.received(9000, false);
        assert_eq!(trips.count(), 2);
        assert!(is_retry(&[0xf3, 0, 0, 0, 1, 0]));
        for other in [
            &[0xc3, 0, 0, 0, 1][..],
            &[0xf3, 0, 0, 0, 2],
            &[0x73, 0, 0, 0, 1],
            &[],
        ] {
            assert!(!is_retry(other));
        }
    }
}

//! The figures of a handshake.

use std::time::Duration;

use fathometer_model::Bytes;

/// Datagrams and their octets (UDP payload).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volume {
    /// Datagrams.
    pub datagrams: u64,
    /// Their octets.
    pub octets: Bytes,
}

impl Volume {
    pub(crate) fn add(&mut self, datagrams: u64, octets: usize) {
        self.datagrams += datagrams;
        self.octets += Bytes(octets as u64);
    }
}

/// What became of data sent before the handshake was complete (0-RTT).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum EarlyData {
    /// It was not possible: there was no ticket, or it was not wanted.
    #[default]
    None,
    /// It was possible, and the server took what came.
    Accepted,
    /// It was possible, and the server took nothing: all streams opened until then are gone without
    /// further word and their identifiers begin anew.
    Rejected,
}

/// A handshake, up to the moment at which this side held it for complete: for a client that is when
/// the server's Finished has come, before its own has left; for a server when the client's has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handshake {
    /// How long it took since the connection was asked for, or its first datagram came.
    pub took: Duration,
    /// Sent until then, what early data there was included.
    pub sent: Volume,
    /// Received until then.
    pub received: Volume,
    /// Round trips it took by its nature: 1 as a rule; one more with Retry (as the client sees it), and
    /// where the server's certificates were more than it may send before it has heard from the client
    /// again. What losses added is in the time alone.
    pub round_trips: u32,
    /// The protocol agreed upon (ALPN), such as `h3`.
    pub protocol: Option<Vec<u8>>,
    /// The name that the client asked for; known to servers alone.
    pub server_name: Option<String>,
    /// Whether it resumed an earlier session, by a ticket.
    pub resumed: bool,
    /// The cipher suite agreed upon, by its registered name.
    pub cipher_suite: Option<&'static str>,
    /// Octets of the certificates that the peer has shown; none where a session is resumed.
    pub certificates: Bytes,
    /// What became of early data, as a client knows.
    pub early_data: EarlyData,
}

/// Counts the round trips of a handshake from outside, by what must have caused what.
///
/// One is what a handshake takes. A Retry is another. And a server may send a client three times the
/// octets that it has had from it, and the rest of a datagram, until it has heard again from there and
/// knows the client's address for good (RFC 9000 section 8.1): what goes beyond that was caused by what
/// the client sent since, which was a round trip later. What losses and the congestion window cost is
/// not among these, but is part of the time it took.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    count: u32,
    is_server: bool,
    is_validated: bool,
    /// Octets sent by the client and by the server.
    clients: u64,
    servers: u64,
    /// The client's octets that caused the server's first.
    before: Option<u64>,
}

/// Octets by which a server may exceed its allowance: it may end a datagram that it could begin.
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

    pub(crate) fn sent(&mut self, octets: usize) {
        match self.is_server {
            true => self.servers_sent(octets),
            false => self.clients += octets as u64,
        }
    }

    pub(crate) fn received(&mut self, octets: usize, is_retry: bool) {
        if is_retry {
            self.count += 1;
            self.is_validated = true;
        }
        match self.is_server {
            true => self.clients += octets as u64,
            false => self.servers_sent(octets),
        }
    }

    fn servers_sent(&mut self, octets: usize) {
        self.servers += octets as u64;
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

    /// Sends (`true`) and arrivals, in octets.
    fn counted(is_server: bool, steps: &[(bool, usize)]) -> u32 {
        let mut trips = RoundTrips::new(is_server);
        for &(is_sent, octets) in steps {
            match is_sent {
                true => trips.sent(octets),
                false => trips.received(octets, false),
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
        let mirrored = steps.map(|(is_sent, octets)| (!is_sent, octets));
        assert_eq!(counted(true, &mirrored), 1);
    }

    #[test]
    fn what_it_may_send_only_when_it_has_heard_again_is_another() {
        let mut steps = vec![(true, 1200)];
        steps.extend([(false, 1200); 3]);
        steps.push((true, 1200));
        steps.extend([(false, 1200); 3]);
        assert_eq!(counted(false, &steps), 2);
        let mirrored: Vec<_> = steps
            .iter()
            .map(|&(is_sent, octets)| (!is_sent, octets))
            .collect();
        assert_eq!(counted(true, &mirrored), 2);
    }

    #[test]
    fn a_retry_is_another() {
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

//! The figures of a handshake.

use std::time::Duration;

use fathometer_model::{Bytes, Instant};

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
    /// Round trips it took, as this side could tell: 1 as a rule; 2 with Retry, or where the server had
    /// to wait for the client's address to be validated before the rest of its certificates could
    /// leave; more with losses. A server counts those that it waited for.
    pub round_trips: u32,
    /// The protocol agreed upon (ALPN), such as `h3`.
    pub protocol: Option<Vec<u8>>,
    /// The name that the client asked for; known to servers alone.
    pub server_name: Option<String>,
    /// Octets of the certificates that the peer has shown; zero on a resumed connection.
    pub certificates: Bytes,
    /// What became of early data, as a client knows.
    pub early_data: EarlyData,
}

/// Counts round trips from outside, when the packets' contents are not to be seen.
///
/// An answer to what was sent at a time cannot be there before the path's round-trip time has passed. So
/// a flight of datagrams that begins to arrive after that counts as one round trip, and the next is
/// looked for from the next sending on. Datagrams that follow each other more closely than half a round
/// trip are one flight, however long it takes.
#[derive(Debug, Default)]
pub(crate) struct RoundTrips {
    count: u32,
    /// When what is being waited for an answer to was sent.
    asked: Option<Instant>,
    last_arrival: Option<Instant>,
    shortest: Option<Duration>,
}

impl RoundTrips {
    pub(crate) fn sent(&mut self, now: Instant) {
        self.asked.get_or_insert(now);
    }

    pub(crate) fn received(&mut self, now: Instant) {
        let gap = self.last_arrival.map(|last| now.since(last));
        self.last_arrival = Some(now);
        let Some(asked) = self.asked else { return };
        let waited = now.since(asked);
        let Some(shortest) = self.shortest else {
            self.shortest = Some(waited);
            self.count = 1;
            self.asked = None;
            return;
        };
        let is_new_flight = gap.is_none_or(|gap| gap > shortest / 2);
        if is_new_flight && waited > shortest * 9 / 10 {
            self.shortest = Some(shortest.min(waited));
            self.count += 1;
            self.asked = None;
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millisecond: u64) -> Instant {
        Instant::from_nanos(millisecond * 1_000_000)
    }

    /// Sends (`true`) and arrivals at milliseconds.
    fn counted(steps: &[(bool, u64)]) -> u32 {
        let mut trips = RoundTrips::default();
        for &(is_sent, time) in steps {
            match is_sent {
                true => trips.sent(at(time)),
                false => trips.received(at(time)),
            }
        }
        trips.count()
    }

    #[test]
    fn a_flight_is_one_round_trip_whatever_is_acknowledged_meanwhile() {
        assert_eq!(counted(&[(true, 0), (false, 100)]), 1);
        let acknowledged_meanwhile = [(true, 0), (false, 100), (true, 100), (false, 101)];
        assert_eq!(counted(&acknowledged_meanwhile), 1);
        // A slow link: the flight takes longer than the path's round trip.
        let slow = [
            (true, 0),
            (false, 100),
            (true, 100),
            (false, 140),
            (false, 180),
            (false, 220),
        ];
        assert_eq!(counted(&slow), 1);
    }

    #[test]
    fn what_waits_for_an_answer_is_another_round_trip() {
        let retried = [(true, 0), (false, 100), (true, 100), (false, 200)];
        assert_eq!(counted(&retried), 2);
        let validated = [
            (true, 0),
            (false, 100),
            (false, 101),
            (true, 101),
            (false, 201),
            (false, 202),
        ];
        assert_eq!(counted(&validated), 2);
        assert_eq!(counted(&[(false, 5), (true, 5), (false, 105)]), 1);
        assert_eq!(counted(&[(false, 5)]), 0);
    }
}

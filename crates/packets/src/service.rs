//! The response time of a server, measured at the server's end of the path.
//!
//! Fujinoki et al. (2003) measure a server's response time from the arrival of the first request to the transmission of
//! the last packet of the last file. This module finds the same period at the taps `server.rx` and `server.tx` of this
//! program's captures; a capture without these taps does not show the period. Requests and responses are packets with
//! payload: TCP segments that carry bytes, and all UDP datagrams.

use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;

use super::capture::{Capture, CaptureError};
use super::link;
use super::parse::{Parsed, Transport};
use super::tap::TapRole;

/// The period in which a server was working, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServicePeriod {
    /// The arrival of the first request.
    pub first_arrival: u64,
    /// The transmission of the last packet with payload, whether or not the path dropped it.
    pub last_departure: u64,
}

impl ServicePeriod {
    /// Returns the length of the period, in nanoseconds.
    pub fn length_ns(self) -> u64 {
        self.last_departure - self.first_arrival
    }
}

/// Finds the period in a capture, from the packets within `times`, in nanoseconds since the Unix epoch. `times`
/// should begin when the connection is established and end with the client's last byte. Earlier packets with
/// payload belong to a TLS handshake. Later packets are not part of a response that the client needed: TCP
/// repeats the last segment if its acknowledgement is late, and HTTP/2 and HTTP/3 close connections with
/// frames. Returns `None` if no request arrived, or if no payload was sent after it.
///
/// # Errors
/// As [`account`](super::account).
pub fn service_period(
    reader: impl Read,
    times: RangeInclusive<u64>,
) -> Result<Option<ServicePeriod>, CaptureError> {
    let mut capture = Capture::open(reader)?;
    let mut first_arrival: Option<u64> = None;
    let mut last_departure: Option<u64> = None;
    while let Some(record) = capture.next_record()? {
        let role = record.interface.name.as_deref().and_then(TapRole::of);
        let (Some(role), Some(time)) = (role.filter(|role| role.is_server()), record.time) else {
            continue;
        };
        let looked_for = match role {
            TapRole::ServerReceives => first_arrival.is_none(),
            _ => first_arrival.is_some(),
        };
        if !looked_for
            || !times.contains(&time)
            || !carries(record.interface.link, record.data, record.original_length)
        {
            continue;
        }
        match role {
            TapRole::ServerReceives => first_arrival = Some(time),
            // Both directions are written into one file in order of arrival, so a record's time stamp may
            // precede the stamp of an earlier record.
            _ => last_departure = last_departure.max(Some(time)),
        }
    }
    let period = first_arrival.zip(last_departure);
    Ok(period
        .filter(|(first, last)| last >= first)
        .map(|(first_arrival, last_departure)| ServicePeriod {
            first_arrival,
            last_departure,
        }))
}

/// Finds the period in a capture file ([`service_period`]).
///
/// # Errors
/// As [`service_period`], and if the file cannot be opened.
pub fn service_period_of_file(
    path: &Path,
    times: RangeInclusive<u64>,
) -> Result<Option<ServicePeriod>, CaptureError> {
    let file = File::open(path).map_err(|source| CaptureError::Io { offset: 0, source })?;
    service_period(file, times)
}

/// Whether a packet carries payload.
fn carries(link: super::capture::LinkType, data: &[u8], original_length: u32) -> bool {
    let Some(packet) = link::ip_packet(link, data) else {
        return false;
    };
    let before = (data.len() - packet.len()) as u32;
    match Parsed::parse(packet, original_length.saturating_sub(before)) {
        Parsed::Ip(ip) => match ip.transport {
            Transport::Tcp(segment) => segment.payload_length > 0,
            Transport::Udp => true,
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::Flags;
    use super::super::synthetic::{CaptureWriter, Conversation};
    use super::*;

    const ACK: Flags = Flags::ACK;

    /// Builds a capture with this program's taps: a request that takes 45 ms to the server, and two response packets.
    fn capture() -> Vec<u8> {
        let (client, server) = ("10.0.0.1:1025", "10.0.0.2:80");
        let (client, server) = (client.parse().unwrap(), server.parse().unwrap());
        let mut talk = Conversation::new(client, server, (1, 1));
        let taps = ["client.tx", "server.rx", "server.tx", "client.rx"];
        let mut writer = CaptureWriter::pcapng(&taps.map(|name| (name, 101)));
        let [syn, syn_ack, ack] = talk.open();
        let up = |at: u64| [(0, at), (1, at + 45)];
        let down = |at: u64| [(2, at), (3, at + 45)];
        let packets = [
            (syn, up(0)),
            (syn_ack, down(45)),
            (ack, up(90)),
            (talk.up(ACK, 120), up(90)),
            (talk.down(ACK, 0), down(136)),
            (talk.down(ACK, 1460), down(140)),
            (talk.down(ACK, 700), down(150)),
            (talk.up(ACK, 0), up(195)),
            (talk.down(Flags(0x11), 0), down(300)),
        ];
        for (plan, times) in packets {
            for (tap, at) in times {
                writer.packet(tap, at * 1_000_000, &plan.ip_packet(), None);
            }
        }
        writer.into_bytes()
    }

    #[test]
    fn a_server_works_from_the_first_request_to_the_last_packet_with_payload() {
        let period = service_period(&capture()[..], 0..=u64::MAX)
            .unwrap()
            .unwrap();
        assert_eq!(period.first_arrival, 135_000_000);
        assert_eq!(period.last_departure, 150_000_000);
        assert_eq!(period.length_ns(), 15_000_000);
    }

    #[test]
    fn a_service_period_starts_at_the_given_time() {
        let from = |since: u64| service_period(&capture()[..], since..=u64::MAX).unwrap();
        assert_eq!(from(135_000_001), None);
        assert!(from(135_000_000).is_some());
    }

    #[test]
    fn packets_that_leave_after_the_clients_last_byte_are_not_of_the_period() {
        let until = |last: u64| service_period(&capture()[..], 0..=last).unwrap().unwrap();
        assert_eq!(until(150_000_000).last_departure, 150_000_000);
        assert_eq!(until(149_999_999).last_departure, 140_000_000);
    }
}

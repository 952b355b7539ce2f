//! Suspicions about the path, TCP and the accept queue.

use std::time::Duration;

use super::super::words::{count, number, percent, time};
use super::super::{Confidence, Resource, Suspicion};
use super::{FULL, NEARLY, Seen, by_use, share, suspicion, whole};

impl Seen<'_> {
    pub(super) fn link_rate(&self) -> Option<Suspicion> {
        let ends = [
            (self.signals.link_down, "towards the clients"),
            (self.signals.link_up, "towards the server"),
        ];
        let (used, way) = ends
            .into_iter()
            .filter_map(|(used, way)| Some((used?, way)))
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        let confidence = by_use(used)?;
        let mut evidence = vec![format!(
            "the link {way} carried {} of its rate",
            percent(used)
        )];
        if let Some(drops) = self.signals.queue_drops_per_s.filter(|drops| *drops > 0.0) {
            let drops = number(drops);
            evidence.push(format!("its full queue dropped {drops} packets per second"));
        }
        Some(suspicion(
            Resource::LinkRate,
            confidence,
            evidence,
            "a faster link: throughput grows with it, and not with a shorter round trip",
        ))
    }

    pub(super) fn round_trip(&self) -> Option<Suspicion> {
        let signals = self.signals;
        let round_trip = signals.round_trip.filter(|time| !time.is_zero())?;
        let mut evidence = Vec::new();
        let mut confidence = None;
        let window = [
            (
                signals.rate_of_window,
                0.7,
                "of the window limit (one window per round trip) was used",
            ),
            (
                signals.receive_window_limited,
                0.5,
                "of the senders' time was a wait for the receive window",
            ),
            (
                signals.send_buffer_limited,
                0.5,
                "of the senders' time was a wait for room in the send buffer",
            ),
        ];
        for (share, from, text) in window {
            if let Some(share) = share.filter(|share| *share >= from) {
                evidence.push(format!(
                    "{} {text}, at a round trip of {}",
                    percent(share),
                    time(round_trip)
                ));
                confidence = Some(Confidence::Strong);
            }
        }
        // Waits for the peer that do not depend on a window: handshakes and requests.
        let handshake = signals.connect.unwrap_or_default().min(round_trip);
        let request = signals.first_byte.unwrap_or_default().min(round_trip);
        if let Some(whole) = whole(signals).filter(|whole| !whole.is_zero()) {
            let share = (handshake + request).as_secs_f64() / whole.as_secs_f64();
            let by_share = match share {
                most if most >= 0.8 => Some(Confidence::Strong),
                half if half >= 0.5 => Some(Confidence::Likely),
                some if some >= 0.3 => Some(Confidence::Possible),
                _ => None,
            };
            if by_share.is_some() {
                evidence.push(format!(
                    "round trips of {} take {} of the exchange time ({})",
                    time(round_trip),
                    percent(share),
                    time(whole)
                ));
            }
            confidence = confidence.max(by_share);
        }
        let mut confidence = confidence?;
        // A saturated link increases the round trip by its queueing delay. A saturated processor delays every exchange,
        // at any round-trip time.
        let link = [signals.link_up, signals.link_down];
        if self.is_computing || link.into_iter().flatten().any(|used| used >= NEARLY) {
            confidence = Confidence::Possible;
        }
        Some(suspicion(
            Resource::RoundTrip,
            confidence,
            evidence,
            "a shorter round trip: throughput grows with it, and not with the rate of the link",
        ))
    }

    pub(super) fn backlog(&self) -> Option<Suspicion> {
        let signals = self.signals;
        let overflows = signals.listen_overflows_per_s;
        let connect = signals.connect.unwrap_or_default();
        // The first SYN retransmission comes after one second. So a mean connect time above 0.1 s and above several
        // round trips means that some SYNs were dropped.
        let round_trip = signals.round_trip.unwrap_or_default();
        let slow = connect > Duration::from_millis(100) && connect > 4 * round_trip;
        let mut confidence = match overflows {
            Some(rate) if rate > 0.0 && slow => Confidence::Strong,
            Some(rate) if rate > 0.0 => Confidence::Likely,
            Some(_) => return None,
            None if slow => Confidence::Possible,
            None => return None,
        };
        let mut evidence = Vec::new();
        if let Some(rate) = overflows {
            let mut text = format!(
                "{} connections a second found the accept queue full",
                number(rate)
            );
            if let Some(backlog) = signals.backlog {
                text.push_str(&format!(", which holds {}", count(backlog)));
            }
            evidence.push(text);
        }
        if slow {
            let connect = time(connect);
            evidence.push(format!(
                "connecting took {connect} per exchange: a dropped SYN is retransmitted after 1 s, then after \
                 another 2 s"
            ));
        }
        // The queue is full because the server does not accept connections.
        if self.workers_taken || self.is_computing {
            confidence = Confidence::Possible;
            let cause = match self.workers_taken {
                true => "all workers were busy",
                false => "the server was always busy",
            };
            evidence.push(format!(
                "{cause}, which fills an accept queue of any length"
            ));
        }
        Some(suspicion(
            Resource::Backlog,
            confidence,
            evidence,
            "a longer backlog: throughput grows with it, and not with the number of workers",
        ))
    }

    pub(super) fn workers(&self) -> Option<Suspicion> {
        let signals = self.signals;
        let waiting = signals.accept_queue.filter(|length| *length >= 0.5);
        let overflows = signals
            .listen_overflows_per_s
            .is_some_and(|rate| rate > 0.0);
        let taken = share(signals.established, signals.worker_limit);
        let is_waited = waiting.is_some() || overflows;
        let mut confidence = match taken {
            Some(share) if share >= FULL && is_waited => Confidence::Strong,
            Some(share) if share >= FULL => Confidence::Possible,
            Some(share) if share >= NEARLY && is_waited => Confidence::Likely,
            Some(_) => return None,
            // Connections wait although the server has CPU time to accept them.
            None if waiting.is_some() && !self.is_computing => Confidence::Possible,
            None => return None,
        };
        if self.is_computing {
            confidence = Confidence::Possible;
        }
        let mut evidence = Vec::new();
        if let (Some(established), Some(limit)) = (signals.established, signals.worker_limit) {
            evidence.push(format!(
                "{} of {} workers were busy",
                count(established.min(limit)),
                count(limit)
            ));
        }
        if let Some(length) = waiting {
            let length = count(length);
            let mut text = format!("{length} connections on average waited to be accepted");
            if let Some(used) = signals.cpu_of_quota.filter(|_| !self.is_computing) {
                let used = percent(used);
                text.push_str(&format!(", while {used} of the CPU time was used"));
            }
            evidence.push(text);
        }
        Some(suspicion(
            Resource::Workers,
            confidence,
            evidence,
            "more workers: throughput grows with them, and not with the backlog",
        ))
    }
}

//! Time-outs, tail loss probes, the reordering timer, and the single timer that they share.

use std::time::Duration;

use fathometer_model::Instant;

use super::{Departure, Sender, State, Timer};

/// The margin that is added to two round-trip times for the delay of a tail loss probe.
const PROBE_MARGIN: Duration = Duration::from_millis(2);

impl Sender {
    /// Returns the time at which the timer expires.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.timer.map(|(_, due)| due)
    }

    /// Handles the timer, if it has expired.
    pub(crate) fn expire(&mut self, now: Instant) {
        let Some((timer, due)) = self.timer else {
            return;
        };
        if now < due {
            return;
        }
        match timer {
            Timer::Retransmission => {
                self.timer = None;
                self.time_out(now);
            }
            // If no probe is sent, the time-out runs from the sending of the first segment, and may be due already.
            Timer::Probe => self.probe_tail(now),
            Timer::Reordering => {
                self.detect_losses(now);
                if self.count(|sent| sent.lost && !sent.retransmitted) > 0 {
                    if self.state != State::Recovery {
                        self.enter_recovery();
                    }
                    self.retransmit_lost(now);
                }
                if self.timer == Some((timer, due)) {
                    self.rearm(now);
                }
            }
        }
    }

    /// Sets the time-out. The time-out runs from now; if it replaces another timer, it runs from the sending of the
    /// first segment.
    pub(super) fn rearm(&mut self, now: Instant) {
        let Some(first) = self.sent.front() else {
            self.timer = None;
            return;
        };
        let mut wait = self.round_trip.timeout();
        if matches!(self.timer, Some((Timer::Probe | Timer::Reordering, _))) {
            wait = (first.at + wait).since(now).max(Duration::from_micros(1));
        }
        self.set(Timer::Retransmission, wait, now);
    }

    pub(super) fn set(&mut self, timer: Timer, wait: Duration, now: Instant) {
        self.timer = Some((timer, self.ticks.expiry(now, wait)));
    }

    /// Schedules a tail loss probe instead of the time-out (RFC 8985 section 7.2). `advanced`: new data was
    /// acknowledged. Returns whether a probe was scheduled.
    pub(super) fn schedule_probe(&mut self, now: Instant, advanced: bool) -> bool {
        let may = self.settings.loss_probe && self.settings.sack;
        let Some(first) = self.sent.front().filter(|_| may) else {
            return false;
        };
        if self.state != State::Open {
            return false;
        }
        let mut wait = match self.round_trip.smoothed() {
            None => Duration::from_secs(1),
            Some(smoothed) if self.sent.len() == 1 => {
                2 * smoothed + self.round_trip.least_timeout()
            }
            Some(smoothed) => 2 * smoothed + PROBE_MARGIN,
        };
        let timeout = self.round_trip.timeout();
        let left = match advanced {
            true => timeout,
            false => (first.at + timeout).since(now),
        };
        if !left.is_zero() {
            wait = wait.min(left);
        }
        self.set(Timer::Probe, wait, now);
        true
    }

    /// Sends a new segment, even if the congestion window is full, or retransmits the last segment.
    fn probe_tail(&mut self, now: Instant) {
        if self.probe.is_none() {
            let sent_new = self.next < self.written() && self.send_one(now, false, false);
            let probed = match (sent_new, self.sent.back_mut()) {
                (true, _) => true,
                (false, Some(last)) => {
                    last.retransmitted = true;
                    last.at = now;
                    let departure = Departure {
                        start: last.start,
                        end: last.end,
                        push: true,
                        retransmission: true,
                    };
                    self.departures.push_back(departure);
                    self.counters.retransmissions += 1;
                    true
                }
                (false, None) => false,
            };
            if probed {
                self.counters.probes += 1;
                self.probe = Some((self.next, !sent_new));
                self.timer = None;
            }
        }
        self.rearm(now);
    }

    /// Handles a time-out: marks all segments in flight as lost, except those sent within the last round trip.
    fn time_out(&mut self, now: Instant) {
        if self.sent.is_empty() {
            return;
        }
        self.counters.timeouts += 1;
        let is_new = !matches!(self.state, State::Recovery | State::Loss);
        let round_trip = self.delivered.map(|(_, _, round_trip)| round_trip);
        for (place, sent) in self.sent.iter_mut().enumerate() {
            let is_recent = round_trip.is_some_and(|time| sent.at + time > now);
            if !sent.sacked && (place == 0 || !is_recent) {
                sent.lost = true;
                sent.retransmitted = false;
            }
        }
        if is_new || self.high <= self.unacknowledged || self.timeouts_in_row == 0 {
            self.begin_undo();
            self.window.threshold = self.window.reduced();
        }
        self.window.reset(now);
        self.window.size = self.in_flight() + 1;
        self.state = State::Loss;
        self.high = self.next;
        self.spurious_check = is_new || self.timeouts_in_row > 0;
        self.probe = None;
        self.retransmit(0, now);
        self.timeouts_in_row += 1;
        self.round_trip.back_off();
        self.set(Timer::Retransmission, self.round_trip.timeout(), now);
    }

    /// Retransmits the segment at this index of `sent`.
    pub(super) fn retransmit(&mut self, place: usize, now: Instant) {
        let Some(sent) = self.sent.get_mut(place) else {
            return;
        };
        sent.retransmitted = true;
        sent.at = now;
        let departure = Departure {
            start: sent.start,
            end: sent.end,
            push: true,
            retransmission: true,
        };
        self.departures.push_back(departure);
        self.retransmitted_at
            .get_or_insert(now.as_nanos() / 1_000_000);
        self.undo_retransmissions += 1;
        self.counters.retransmissions += 1;
        self.last_sent = now;
        if self.state == State::Recovery {
            self.reduction.out += 1;
        }
    }
}

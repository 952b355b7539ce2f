//! Processing of acknowledgements: delivered segments, lost segments, and spurious retransmissions.

use std::time::Duration;

use fathometer_model::Instant;

use super::{Acknowledgement, Reduction, Sender, State, Timer};

/// If at least this many segments were delivered after a gap, the gap counts as lost without a reordering window (RFC
/// 6675).
const THRESHOLD: usize = 3;

/// The effects of one acknowledgement.
#[derive(Debug, Default)]
struct News {
    /// The number of newly delivered segments.
    delivered: u64,
    advanced: bool,
    sacked: bool,
    /// Whether a segment that was sent only once was delivered.
    original: bool,
    /// Whether a retransmitted segment was acknowledged.
    repeated: bool,
    /// Whether the acknowledgement contains a duplicate SACK: the peer has received a range twice.
    duplicate: bool,
    first_sent: Option<Instant>,
    last_sent: Option<Instant>,
}

impl Sender {
    /// Processes an acknowledgement.
    pub(crate) fn handle_acknowledgement(&mut self, ack: Acknowledgement<'_>, now: Instant) {
        if ack.number > self.next {
            return;
        }
        let was_at = self.unacknowledged;
        if ack.number >= was_at {
            let edge = ack.number + u64::from(ack.window);
            let is_update = edge > self.edge;
            self.edge = self.edge.max(edge);
            self.most_window = self.most_window.max(u64::from(ack.window));
            if ack.number == was_at && ack.sack.is_empty() && self.sent.is_empty() {
                self.send(now, false);
                return;
            }
            if ack.number == was_at && !ack.is_bare && !is_update && ack.sack.is_empty() {
                return;
            }
        }
        let mut news = News::default();
        self.take_cumulative(ack.number, &mut news, now);
        self.take_selective(ack, &mut news, now);
        self.take_samples(ack, &news, now);
        self.judge_probe(ack, &news);
        let was_recovering = self.state == State::Recovery;
        let is_dubious = news.sacked
            || self.state != State::Open
            || self.count(|sent| sent.sacked || sent.lost) > 0;
        if is_dubious {
            self.alert(ack, &news, now);
        }
        if news.advanced
            && !matches!(self.timer, Some((Timer::Reordering, _)))
            && !self.schedule_probe(now, true)
        {
            self.rearm(now);
        }
        if self.state == State::Recovery {
            if was_recovering || news.delivered > 0 {
                self.reduce(&news);
            }
        } else if news.advanced && self.is_window_used() {
            self.window.grow(news.delivered, now);
        }
        if matches!(self.state, State::Recovery | State::Loss) {
            self.retransmit_lost(now);
        }
        self.send(now, false);
    }

    fn take_cumulative(&mut self, number: u64, news: &mut News, now: Instant) {
        if number <= self.unacknowledged {
            return;
        }
        news.advanced = true;
        self.unacknowledged = number;
        self.timeouts_in_row = 0;
        while let Some(sent) = self.sent.front().copied().filter(|sent| sent.end <= number) {
            self.sent.pop_front();
            news.repeated |= sent.retransmitted;
            if !sent.sacked {
                news.delivered += 1;
                news.original |= !sent.retransmitted;
                self.note_delivered(sent.at, sent.end, sent.retransmitted, now);
            }
            if !sent.retransmitted && !sent.sacked {
                news.first_sent.get_or_insert(sent.at);
                news.last_sent = Some(sent.at);
            }
        }
    }

    fn take_selective(&mut self, ack: Acknowledgement<'_>, news: &mut News, now: Instant) {
        let mut ranges = ack.sack;
        if let [first, rest @ ..] = ranges {
            let is_inside = rest
                .first()
                .is_some_and(|second| second.0 <= first.0 && first.1 <= second.1);
            if first.1 <= ack.number || is_inside {
                news.duplicate = true;
                self.undo_retransmissions -= 1;
                ranges = rest;
            }
        }
        for &(start, end) in ranges {
            for place in 0..self.sent.len() {
                let sent = &mut self.sent[place];
                if sent.sacked || sent.start < start || sent.end > end {
                    continue;
                }
                let sent = *{
                    sent.sacked = true;
                    sent
                };
                news.sacked = true;
                news.delivered += 1;
                news.original |= !sent.retransmitted;
                self.note_delivered(sent.at, sent.end, sent.retransmitted, now);
            }
        }
    }

    /// Updates the delivered segment that was sent last (RFC 8985 section 6.2).
    fn note_delivered(&mut self, at: Instant, end: u64, retransmitted: bool, now: Instant) {
        let round_trip = now.since(at);
        if retransmitted
            && self
                .round_trip
                .least
                .is_some_and(|least| round_trip < least)
        {
            return;
        }
        if self
            .delivered
            .is_none_or(|(latest, highest, _)| (at, end) > (latest, highest))
        {
            self.delivered = Some((at, end, round_trip));
        }
    }

    fn take_samples(&mut self, ack: Acknowledgement<'_>, news: &News, now: Instant) {
        if !news.advanced {
            return;
        }
        let stamped = ack.echoed.map(|(round_trip, _)| round_trip);
        let (first, last) = match (news.first_sent, news.last_sent) {
            (Some(first), Some(last)) if !news.repeated => {
                (Some(now.since(first)), Some(now.since(last)))
            }
            _ => (stamped, stamped),
        };
        if let Some(first) = first {
            self.round_trip
                .sample(first, self.unacknowledged, self.next);
        }
        if let Some(last) = last {
            self.window
                .sample(last, self.unacknowledged, self.next, now);
        }
    }

    /// Decides whether the tail loss probe repaired a loss (RFC 8985 section 7.4).
    fn judge_probe(&mut self, ack: Acknowledgement<'_>, news: &News) {
        let Some((end, was_retransmission)) = self.probe else {
            return;
        };
        if ack.number < end {
            return;
        }
        if !was_retransmission || news.duplicate {
            self.probe = None;
        } else if ack.number > end {
            // New data is acknowledged and no duplicate was reported: the probe was needed.
            self.probe = None;
            self.counters.losses += 1;
            self.window.threshold = self.window.reduced();
            self.window.size = self.window.threshold;
        } else if !news.advanced && !news.sacked {
            self.probe = None;
        }
    }

    fn alert(&mut self, ack: Acknowledgement<'_>, news: &News, now: Instant) {
        let is_over = self.unacknowledged >= self.high;
        match self.state {
            State::Loss => {
                if news.advanced && self.may_undo(ack)
                    || self.spurious_check && news.original && !news.repeated
                {
                    self.undo();
                    return;
                }
                if is_over {
                    self.state = State::Open;
                    self.retransmitted_at = None;
                }
                return;
            }
            State::Recovery if is_over => {
                match self.may_undo(ack) {
                    true => self.undo(),
                    false => self.window.size = self.window.threshold,
                }
                self.state = State::Open;
                self.retransmitted_at = None;
            }
            _ => {}
        }
        self.detect_losses(now);
        let has_lost = self.count(|sent| sent.lost && !sent.sacked) > 0;
        match (self.state, has_lost) {
            (State::Recovery, _) => {}
            (_, true) => self.enter_recovery(),
            (State::Open | State::Disorder, false) => {
                self.state = match self.count(|sent| sent.sacked) {
                    0 => State::Open,
                    _ => State::Disorder,
                };
            }
            _ => {}
        }
    }

    /// Marks as lost each segment that was sent before a delivered segment, at least a round-trip time and a reordering
    /// window ago.
    pub(super) fn detect_losses(&mut self, now: Instant) {
        let Some((latest, highest, round_trip)) = self.delivered else {
            return;
        };
        let sacked = self.count(|sent| sent.sacked);
        let least = self.round_trip.least.unwrap_or_default();
        let tolerance = match sacked >= THRESHOLD || self.state == State::Recovery {
            true => Duration::ZERO,
            false => least / 4,
        };
        let mut wait = Duration::ZERO;
        for sent in &mut self.sent {
            let is_open = !sent.sacked && (!sent.lost || sent.retransmitted);
            if !is_open || (sent.at, sent.end) >= (latest, highest) {
                continue;
            }
            let left = (sent.at + round_trip + tolerance).since(now);
            if left.is_zero() {
                sent.lost = true;
                sent.retransmitted = false;
                self.counters.losses += 1;
            } else {
                wait = wait.max(left);
            }
        }
        if !wait.is_zero() {
            self.set(Timer::Reordering, wait, now);
        }
    }

    pub(super) fn enter_recovery(&mut self) {
        self.begin_undo();
        self.window.threshold = self.window.reduced();
        self.reduction = Reduction {
            prior: self.window.size,
            ..Reduction::default()
        };
        self.state = State::Recovery;
        self.high = self.next;
        self.probe = None;
    }

    /// Sets the window by proportional rate reduction (RFC 6937): sends in proportion to the delivered segments.
    fn reduce(&mut self, news: &News) {
        let in_flight = self.in_flight();
        let reduction = &mut self.reduction;
        reduction.delivered += news.delivered;
        let threshold = self.window.threshold;
        let may = match in_flight > threshold {
            true => (threshold * reduction.delivered).div_ceil(reduction.prior.max(1)),
            false => {
                let room = threshold - in_flight;
                let step = reduction
                    .delivered
                    .saturating_sub(reduction.out)
                    .max(news.delivered);
                reduction.out + room.min(step + 1)
            }
        };
        let mut send = may.saturating_sub(reduction.out);
        if reduction.out == 0 {
            // The first retransmission is always sent.
            send = send.max(1);
        }
        self.window.size = in_flight + send;
    }

    pub(super) fn retransmit_lost(&mut self, now: Instant) {
        for place in 0..self.sent.len() {
            let sent = self.sent[place];
            if !sent.lost || sent.retransmitted || sent.sacked {
                continue;
            }
            if self.in_flight() >= self.window.size {
                return;
            }
            self.retransmit(place, now);
            if place == 0 {
                self.rearm(now);
            }
        }
    }

    pub(super) fn begin_undo(&mut self) {
        self.prior = Some((self.window.size, self.window.threshold));
        self.undo_from = Some(self.unacknowledged);
        self.undo_retransmissions = 0;
        self.retransmitted_at = None;
    }

    /// Whether all retransmissions were spurious: the acknowledgement echoes a time stamp from before the first
    /// retransmission (RFC 3522), or duplicate SACKs reported all of them.
    fn may_undo(&self, ack: Acknowledgement<'_>) -> bool {
        let is_delayed = match (ack.echoed, self.retransmitted_at) {
            (Some((_, echoed)), Some(first)) => echoed < first,
            _ => false,
        };
        self.undo_from.is_some() && (is_delayed || self.undo_retransmissions <= 0)
    }

    fn undo(&mut self) {
        for sent in &mut self.sent {
            sent.lost = false;
        }
        if let Some((size, threshold)) = self.prior.take() {
            self.window.size = self.window.size.max(size);
            self.window.threshold = self.window.threshold.max(threshold);
        }
        self.undo_from = None;
        self.retransmitted_at = None;
        self.timeouts_in_row = 0;
        self.counters.undone += 1;
        self.state = State::Open;
    }
}

//! The sending side of an endpoint: written data, segments in flight, and the decision when to send.

mod alert;
mod timers;

use std::collections::VecDeque;
use std::time::Duration;

use fathometer_model::Instant;

use crate::congestion::Window;
use crate::counters::Counters;
use crate::round_trip::RoundTrip;
use crate::settings::Settings;
use crate::ticks::Ticks;

/// Bytes of send buffer per segment of the congestion window: two windows, each segment with the kernel's overhead
/// (`tcp_sndbuf_expand`).
const BUFFER_PER_SEGMENT: u64 = 2 * 4352;

/// The largest burst, in bytes (`gso_max_size`).
const MOST_BURST_BYTES: u64 = 65_536;
/// The largest burst before the first round-trip sample, in segments.
const MOST_BURST: u64 = 44;

/// A segment in flight.
#[derive(Debug, Clone, Copy)]
struct Sent {
    start: u64,
    end: u64,
    /// The time of the last transmission.
    at: Instant,
    retransmitted: bool,
    sacked: bool,
    lost: bool,
}

impl Sent {
    /// Returns the number of segments that this segment contributes to the segments in flight.
    fn in_flight(&self) -> u64 {
        match self.sacked {
            true => 0,
            false => u64::from(!self.lost) + u64::from(self.retransmitted),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Some data was acknowledged out of order.
    Disorder,
    Recovery,
    Loss,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    Retransmission,
    Probe,
    Reordering,
}

/// A range of sequence numbers to send as one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) start: u64,
    /// The sequence number after the last byte; a FIN counts as one.
    pub(crate) end: u64,
    pub(crate) push: bool,
    pub(crate) retransmission: bool,
}

/// The fields of a received acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acknowledgement<'a> {
    pub(crate) number: u64,
    pub(crate) sack: &'a [(u64, u64)],
    /// The round-trip time computed from the echoed time stamp, and the echoed time stamp in milliseconds.
    pub(crate) echoed: Option<(Duration, u64)>,
    pub(crate) window: u32,
    /// Whether the segment carries neither data nor FIN.
    pub(crate) is_bare: bool,
}

/// The sending side of an endpoint.
#[derive(Debug)]
pub(crate) struct Sender {
    settings: Settings,
    ticks: Ticks,
    /// The largest payload of a segment, in bytes.
    size: u64,
    /// All bytes that were written; the first has number 1.
    pub(crate) bytes: Vec<u8>,
    /// The sequence numbers after the ends of writes.
    pushes: VecDeque<u64>,
    /// The FIN's sequence number, once the application has closed its side.
    pub(crate) fin: Option<u64>,
    unacknowledged: u64,
    next: u64,
    /// The right edge of the peer's window.
    edge: u64,
    most_window: u64,
    /// The end of the last sent segment that was not full (Nagle's algorithm).
    last_small: u64,
    sent: VecDeque<Sent>,
    pub(crate) window: Window,
    pub(crate) round_trip: RoundTrip,
    state: State,
    timer: Option<(Timer, Instant)>,
    last_sent: Instant,
    // Congestion window validation.
    limited: bool,
    most_out: u64,
    usage_end: u64,
    // Recovery.
    high: u64,
    prior: Option<(u64, u64)>,
    undo_from: Option<u64>,
    /// Retransmissions that no duplicate SACK has reported yet.
    undo_retransmissions: i64,
    retransmitted_at: Option<u64>,
    spurious_check: bool,
    reduction: Reduction,
    /// After a tail loss probe: the next sequence number at that time, and whether the probe was a retransmission.
    probe: Option<(u64, bool)>,
    timeouts_in_row: u32,
    /// RACK: the sending time, the end and the round-trip time of the delivered segment that was sent last.
    delivered: Option<(Instant, u64, Duration)>,
    departures: VecDeque<Departure>,
    pub(crate) counters: Counters,
}

/// Proportional rate reduction (RFC 6937).
#[derive(Debug, Clone, Copy, Default)]
struct Reduction {
    delivered: u64,
    out: u64,
    prior: u64,
}

impl Sender {
    pub(crate) fn new(settings: &Settings, ticks: Ticks, now: Instant) -> Sender {
        let options = if settings.timestamps { 12 } else { 0 };
        Sender {
            ticks,
            size: u64::from(settings.mtu.saturating_sub(40 + options)).max(1),
            bytes: Vec::new(),
            pushes: VecDeque::new(),
            fin: None,
            unacknowledged: 1,
            next: 1,
            edge: 1,
            most_window: 0,
            last_small: 0,
            sent: VecDeque::new(),
            window: Window::new(settings.congestion, settings.initial_window, now),
            round_trip: RoundTrip::new(settings.least_timeout),
            state: State::Open,
            timer: None,
            last_sent: now,
            limited: false,
            most_out: 0,
            usage_end: 1,
            high: 0,
            prior: None,
            undo_from: None,
            undo_retransmissions: 0,
            retransmitted_at: None,
            spurious_check: false,
            reduction: Reduction::default(),
            probe: None,
            timeouts_in_row: 0,
            delivered: None,
            departures: VecDeque::new(),
            counters: Counters::default(),
            settings: settings.clone(),
        }
    }

    /// Applies the window that the peer announced in the handshake.
    pub(crate) fn open_window(&mut self, window: u32) {
        self.edge = self.edge.max(1 + u64::from(window));
        self.most_window = self.most_window.max(u64::from(window));
    }

    /// Returns the sequence number after all written data.
    fn written(&self) -> u64 {
        1 + self.bytes.len() as u64 + u64::from(self.fin.is_some())
    }

    /// Whether all written data is acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.unacknowledged == self.written()
    }

    /// Whether the FIN is acknowledged.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin.is_some() && self.is_idle()
    }

    /// Returns the number of bytes that the send buffer accepts now. The kernel allocates pieces of half a window, and
    /// fills the last piece completely.
    pub(crate) fn space(&self) -> usize {
        let queued = self.written() - self.unacknowledged;
        let most = BUFFER_PER_SEGMENT * self.window.size.max(10);
        let piece = (self.most_window / 2 / self.size * self.size).max(self.size);
        match most.checked_sub(queued) {
            None | Some(0) => 0,
            Some(left) => (left.div_ceil(piece) * piece) as usize,
        }
    }

    /// Whether an application that waits for space is woken: at least a third of the buffer is free.
    pub(crate) fn is_writable(&self) -> bool {
        let queued = self.written() - self.unacknowledged;
        3 * queued <= 2 * BUFFER_PER_SEGMENT * self.window.size.max(10)
    }

    /// Adds bytes that the application wrote. With `more`, a last segment that is not full waits for the next write.
    pub(crate) fn write(&mut self, bytes: &[u8], more: bool, now: Instant) {
        if self.sent.is_empty() {
            let idle = now.since(self.last_sent);
            let timeout = self.round_trip.timeout();
            if idle > timeout {
                self.window
                    .restart(idle, timeout, self.settings.initial_window);
            }
        }
        self.bytes.extend_from_slice(bytes);
        if !more {
            self.pushes.push_back(self.written());
        }
        self.send(now, more);
    }

    /// Closes this side, as requested by the application.
    pub(crate) fn close(&mut self, now: Instant) {
        if self.fin.is_none() {
            self.fin = Some(1 + self.bytes.len() as u64);
            self.send(now, false);
        }
    }

    /// Removes and returns the range of the next segment to build.
    pub(crate) fn poll_departure(&mut self) -> Option<Departure> {
        self.departures.pop_front()
    }

    /// Returns the sequence number of the next byte to send.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    fn in_flight(&self) -> u64 {
        self.sent.iter().map(Sent::in_flight).sum()
    }

    fn count(&self, test: impl Fn(&Sent) -> bool) -> usize {
        self.sent.iter().filter(|sent| test(sent)).count()
    }

    /// Sends the segments that the windows permit; with `more`, only full segments.
    pub(crate) fn send(&mut self, now: Instant, more: bool) {
        let mut any = false;
        let mut limited = false;
        while self.next < self.written() {
            if self.in_flight() >= self.window.size {
                limited = true;
                break;
            }
            let burst = self.burst();
            let sent = (1..=burst)
                .take_while(|&place| self.send_one(now, more, burst > 1 && place == burst))
                .count();
            any |= sent > 0;
            if sent < burst {
                break;
            }
        }
        limited |= self.in_flight() >= self.window.size;
        if any || limited {
            self.note_use(limited);
        }
        if any {
            self.schedule_probe(now, false);
        }
    }

    /// Returns the number of segments to send as one burst. A burst lasts about a millisecond at the pacing rate. It
    /// has at least two segments, but at most half a window.
    fn burst(&self) -> usize {
        // If there are data, the FIN is part of the last segment with data.
        let data = 1 + self.bytes.len() as u64 - self.next;
        let window = self.window.size;
        let room = (window - self.in_flight()).min((window / 2).max(1));
        let of_rate = match self.round_trip.smoothed() {
            None => MOST_BURST,
            Some(time) => {
                let factor = if window < self.window.threshold / 2 {
                    2.0
                } else {
                    1.2
                };
                let rate = factor * (window * self.size) as f64 / time.as_secs_f64().max(1e-6);
                // Hosts with a short round-trip time get larger bursts.
                let least = self.round_trip.least.unwrap_or(time).as_micros() as u64;
                let near = MOST_BURST_BYTES >> (least >> 9).min(63);
                ((rate / 1024.0) as u64 + near).min(MOST_BURST_BYTES) / self.size
            }
        };
        let most = of_rate.max(2).min(room).max(1);
        data.div_ceil(self.size).clamp(1, most) as usize
    }

    /// Sends the next segment if the peer's window and Nagle's algorithm permit it. `ends` marks the last segment of a
    /// burst.
    fn send_one(&mut self, now: Instant, more: bool, ends: bool) -> bool {
        let left = self.written() - self.next;
        let data = 1 + self.bytes.len() as u64 - self.next;
        let length = data.min(self.size);
        let window = self.edge.saturating_sub(self.next);
        let has_fin = self.fin.is_some() && data <= self.size;
        if length > window {
            return false;
        }
        if length < self.size && !has_fin {
            let waits = !self.settings.no_delay
                && !self.sent.is_empty()
                && self.last_small > self.unacknowledged;
            if more || waits {
                return false;
            }
        }
        let end = self.next + if has_fin { left } else { length };
        if length < self.size {
            self.last_small = end;
        }
        while self.pushes.front().is_some_and(|&push| push < end) {
            self.pushes.pop_front();
        }
        let push = ends || self.pushes.front() == Some(&end) || has_fin;
        let (start, was_empty) = (self.next, self.sent.is_empty());
        self.sent.push_back(Sent {
            start,
            end,
            at: now,
            retransmitted: false,
            sacked: false,
            lost: false,
        });
        self.departures.push_back(Departure {
            start,
            end,
            push,
            retransmission: false,
        });
        self.next = end;
        self.last_sent = now;
        if self.state == State::Recovery {
            self.reduction.out += 1;
        }
        if was_empty || matches!(self.timer, Some((Timer::Probe, _))) {
            self.rearm(now);
        }
        true
    }

    /// Records the used part of the congestion window: the window grows only if it is used.
    fn note_use(&mut self, limited: bool) {
        let out = self.sent.len() as u64;
        let is_new = self.unacknowledged >= self.usage_end;
        if is_new || limited || !self.limited && out > self.most_out {
            self.limited = limited;
            self.most_out = out;
            self.usage_end = self.next;
        }
    }

    fn is_window_used(&self) -> bool {
        self.limited || self.window.is_in_slow_start() && self.window.size < 2 * self.most_out
    }
}

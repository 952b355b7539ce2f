//! One end of a connection.

mod handshake;

use std::collections::VecDeque;
use std::time::Duration;

use fathometer_model::Instant;

use crate::acknowledging::{Acknowledging, Circumstances};
use crate::counters::Counters;
use crate::receiver::{Receiver, Taken};
use crate::segment::{Flags, Segment};
use crate::sender::{Acknowledgement, Departure, Sender};
use crate::settings::Settings;
use crate::ticks::Ticks;

/// The largest number of SACK ranges in a segment with time stamps.
const MOST_RANGES: usize = 3;
/// The result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Data were read.
    Data(Vec<u8>),
    /// The peer has closed its side, and all data were read.
    End,
    /// No data yet.
    WouldBlock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Listening,
    /// The SYN or SYN-ACK was sent `sent` times; the next retransmission is due at `due`.
    Opening {
        sent: u32,
        due: Instant,
    },
    Established,
}

/// One end of a connection. The documentation of the [crate] shows its use.
///
/// After each call, send the segments that [`Endpoint::poll_transmit`] returns.
#[derive(Debug)]
pub struct Endpoint {
    settings: Settings,
    ticks: Ticks,
    is_client: bool,
    phase: Phase,
    sender: Sender,
    receiver: Receiver,
    acknowledging: Acknowledging,
    /// The peer's time stamp to echo (TS.Recent of RFC 7323).
    recent: u64,
    /// The time at which the first SYN or SYN-ACK was sent.
    opened: Instant,
    retransmitted_open: u64,
    /// A range that was received twice, to be reported as a duplicate SACK (RFC 2883).
    duplicate: Option<(u64, u64)>,
    window: u32,
    answered_bare: Option<Instant>,
    out: VecDeque<Segment>,
}

impl Endpoint {
    /// Creates the end that opens a connection. [`Endpoint::poll_transmit`] returns its SYN immediately.
    pub fn connect(settings: Settings, now: Instant) -> Endpoint {
        let mut endpoint = Endpoint::new(settings, true, now);
        endpoint.open(now, 1);
        endpoint
    }

    /// Creates an end that waits for a SYN.
    pub fn listen(settings: Settings) -> Endpoint {
        Endpoint::new(settings, false, Instant::ZERO)
    }

    fn new(settings: Settings, is_client: bool, now: Instant) -> Endpoint {
        let ticks = Ticks::new(settings.tick_phase);
        Endpoint {
            ticks,
            is_client,
            phase: Phase::Listening,
            sender: Sender::new(&settings, ticks, now),
            receiver: Receiver::default(),
            acknowledging: Acknowledging::new(ticks, now),
            recent: 0,
            opened: now,
            retransmitted_open: 0,
            duplicate: None,
            window: settings.receive_window,
            answered_bare: None,
            out: VecDeque::new(),
            settings,
        }
    }

    /// Whether data can be sent.
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// Whether both sides are closed and all data and the FIN of this side are acknowledged.
    pub fn is_closed(&self) -> bool {
        self.sender.is_finished()
            && self
                .receiver
                .fin
                .is_some_and(|fin| self.receiver.next > fin)
    }

    /// Returns the event counters of this side.
    pub fn counters(&self) -> Counters {
        let counters = self.sender.counters;
        Counters {
            retransmissions: counters.retransmissions + self.retransmitted_open,
            ..counters
        }
    }

    /// Returns the number of bytes that can be read.
    pub fn unread(&self) -> usize {
        self.receiver.unread()
    }

    /// Whether a read returns data or [`Read::End`].
    pub fn is_readable(&self) -> bool {
        self.receiver.unread() > 0 || self.receiver.is_at_end()
    }

    /// Whether an application that waits for space in the send buffer is woken.
    pub fn is_writable(&self) -> bool {
        self.is_established() && self.sender.is_writable()
    }

    /// Whether all written data is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.sender.is_idle()
    }

    /// Writes bytes, like one system call of an application; returns the number of bytes that the send buffer took.
    /// With `more` (MSG_MORE), a last segment that is not full waits for the next call.
    pub fn write(&mut self, bytes: &[u8], more: bool, now: Instant) -> usize {
        if !self.is_established() || self.sender.fin.is_some() {
            return 0;
        }
        let taken = bytes.len().min(self.sender.space());
        if taken > 0 {
            self.sender
                .write(&bytes[..taken], more && taken == bytes.len(), now);
            self.depart(now);
        }
        taken
    }

    /// Reads up to `most` bytes, like one system call of an application.
    pub fn read(&mut self, most: usize, now: Instant) -> Read {
        if self.receiver.unread() == 0 {
            return match self.receiver.is_at_end() {
                true => Read::End,
                false => Read::WouldBlock,
            };
        }
        let bytes = self.receiver.read(most);
        let emptied = self.receiver.unread() == 0;
        if self
            .acknowledging
            .decide_after_read(self.receiver.next, emptied)
        {
            self.acknowledge(now);
        }
        Read::Data(bytes)
    }

    /// Closes this side: the FIN follows the data already written.
    pub fn close(&mut self, now: Instant) {
        if self.is_established() {
            self.sender.close(now);
            self.depart(now);
        }
    }

    /// Removes and returns the next segment to send.
    pub fn poll_transmit(&mut self) -> Option<Segment> {
        self.out.pop_front()
    }

    /// Returns the time at which [`Endpoint::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let opening = match self.phase {
            Phase::Opening { due, .. } => Some(due),
            _ => None,
        };
        [opening, self.sender.due(), self.acknowledging.due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Handles the timers that have expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Phase::Opening { sent, due } = self.phase
            && due <= now
        {
            self.retransmitted_open += 1;
            self.open(now, sent + 1);
        }
        if self.acknowledging.due().is_some_and(|due| due <= now)
            && self.acknowledging.expire(self.sender.round_trip.timeout())
        {
            self.acknowledge(now);
        }
        self.sender.expire(now);
        self.depart(now);
    }

    /// Processes an arrived segment.
    pub fn handle_segment(&mut self, segment: &Segment, now: Instant) {
        if segment.flags.syn {
            return self.handle_syn(segment, now);
        }
        if let Some((stamp, _)) = segment.timestamps
            && segment.sequence <= self.acknowledging.acknowledged
        {
            self.recent = self.recent.max(stamp);
        }
        let echoed = segment.timestamps.map(|(_, echo)| {
            let since = (now.as_nanos() / 1_000_000).saturating_sub(echo);
            (Duration::from_millis(since.max(1)), echo)
        });
        match self.phase {
            Phase::Listening => return,
            Phase::Opening { .. } if self.is_client => return,
            Phase::Opening { sent, .. } => self.establish(segment, echoed, sent, now),
            Phase::Established => {}
        }
        let ack = Acknowledgement {
            number: segment.acknowledgement,
            sack: &segment.sack,
            echoed,
            window: segment.window,
            is_bare: segment.payload.is_empty() && !segment.flags.fin,
        };
        self.sender.handle_acknowledgement(ack, now);
        self.take_payload(segment, now);
        self.depart(now);
        let at = self.circumstances();
        if self.acknowledging.decide(now, at) {
            self.acknowledge(now);
        }
    }

    fn take_payload(&mut self, segment: &Segment, now: Instant) {
        let length = segment.payload.len() as u32;
        if length == 0 && !segment.flags.fin {
            return;
        }
        let at = self.circumstances();
        match self
            .receiver
            .take(segment.sequence, &segment.payload, segment.flags.fin)
        {
            Taken::Duplicate => {
                self.duplicate = Some((segment.sequence, segment.end()));
                self.acknowledging.note_duplicate(self.window);
            }
            Taken::Ahead => self.acknowledging.note_filled(),
            Taken::InOrder { fills } => {
                if length > 0 {
                    self.acknowledging
                        .note_data(length, segment.flags.push, now, at);
                }
                // The window opens by two segments for each segment that arrives, up to its limit.
                let grown = self.window + 2 * self.settings.mtu;
                self.window = grown.min(self.settings.most_receive_window.max(self.window));
                if fills {
                    self.acknowledging.note_filled();
                }
            }
        }
        if self.receiver.has_gap() {
            self.acknowledging.note_filled();
        }
        if segment.flags.fin
            && self
                .receiver
                .fin
                .is_some_and(|fin| self.receiver.next > fin)
        {
            match self.sender.fin {
                // Our side is closed too: no later data can carry the acknowledgement.
                Some(_) => self.acknowledging.note_filled(),
                None => self.acknowledging.note_fin(),
            }
        }
        self.acknowledging.note_pending();
    }

    fn circumstances(&self) -> Circumstances {
        Circumstances {
            next: self.receiver.next,
            window: self.window,
            round_trip: self.sender.round_trip.smoothed(),
            timeout: self.sender.round_trip.timeout(),
        }
    }

    fn stamps(&self, now: Instant) -> Option<(u64, u64)> {
        self.settings
            .timestamps
            .then(|| (now.as_nanos() / 1_000_000, self.recent))
    }

    /// Sends a bare acknowledgement.
    fn acknowledge(&mut self, now: Instant) {
        let sequence = self.sender.next();
        let segment = self.segment(sequence, Vec::new(), Flags::default(), now);
        self.out.push_back(segment);
    }

    /// Builds the segments that the sender has decided to send.
    fn depart(&mut self, now: Instant) {
        while let Some(departure) = self.sender.poll_departure() {
            let segment = self.filled(departure, now);
            self.out.push_back(segment);
            if !departure.retransmission {
                self.acknowledging.note_sent_data(now);
            }
        }
    }

    fn filled(&mut self, departure: Departure, now: Instant) -> Segment {
        let has_fin = self.sender.fin.is_some_and(|fin| departure.end > fin);
        let bytes = departure.start as usize - 1..departure.end as usize - 1 - usize::from(has_fin);
        let payload = self.sender.bytes[bytes].to_vec();
        let flags = Flags {
            fin: has_fin,
            push: departure.push,
            ..Flags::default()
        };
        let mut segment = self.segment(departure.start, payload, flags, now);
        segment.retransmission = departure.retransmission;
        segment
    }

    /// Builds a segment with the fields that all segments carry.
    fn segment(&mut self, sequence: u64, payload: Vec<u8>, flags: Flags, now: Instant) -> Segment {
        self.acknowledging.note_acknowledged(self.receiver.next);
        let mut sack = Vec::new();
        if self.settings.sack {
            sack.extend(self.duplicate.take());
            sack.extend(self.receiver.ranges(MOST_RANGES - sack.len()));
        }
        Segment {
            sequence,
            acknowledgement: self.receiver.next,
            flags: Flags { ack: true, ..flags },
            window: self.window,
            sack,
            timestamps: self.stamps(now),
            payload,
            ..Segment::default()
        }
    }
}

//! The state machine of a member's control connection (a rank other than 0), without I/O.
//!
//! The member identifies itself, and compares the clocks when its event loops are ready. It waits for the common start,
//! and sends the figures of each interval. Finally it compares the clocks again and sends its result. Each side detects
//! by pings, once a second, that the other side is lost.

use std::collections::VecDeque;
use std::time::Duration;

use fathometer_model::Instant;

use crate::clock_offset::{ClockRecord, Estimator};
use crate::limits::printable;
use crate::link::{Link, LinkError};
use crate::message::{Hello, Message};
use crate::secret::{BINDING, NONCE, Secret, Side};

/// The interval of a member's pings.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// The longest time until the start that a member accepts. Rank 0 needs one second for the largest number of ranks.
pub const MOST_LEAD: Duration = Duration::from_secs(60);

/// An event for the caller, which does the I/O of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberEvent {
    /// Rank 0 accepts this rank.
    Welcome,
    /// The test starts at this instant of the member's clock. The second value is the number of the test.
    Start(Instant, u64),
    /// Rank 0 ended the test early.
    Stop,
    /// The clocks were compared after the test.
    Compared(ClockRecord),
    /// Rank 0 has received the result, so this rank may exit.
    Done,
    /// The test does not start, or rank 0 is lost. No further event follows.
    Lost(String),
}

/// The purpose of a series of round trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Series {
    None,
    Before,
    After,
}

/// The control connection of a member.
#[derive(Debug)]
pub struct Member {
    link: Link,
    hello: Option<Hello>,
    estimator: Estimator,
    series: Series,
    events: VecDeque<MemberEvent>,
    /// Whether rank 0 accepted this rank.
    is_welcome: bool,
    /// Whether the event loops of this rank are ready.
    is_ready: bool,
    is_lost: bool,
    silence: Duration,
    last_ping: Instant,
    last_heard: Instant,
}

impl Member {
    /// Creates a member whose connection was just established. Rank 0 is lost if it sends no message for `silence`.
    pub fn new(
        hello: Hello,
        secret: Secret,
        nonce: [u8; NONCE],
        silence: Duration,
        now: Instant,
    ) -> Member {
        Member {
            link: Link::new(Side::Member, secret, nonce),
            hello: Some(hello),
            estimator: Estimator::default(),
            series: Series::None,
            events: VecDeque::new(),
            is_welcome: false,
            is_ready: false,
            is_lost: false,
            silence,
            last_ping: now,
            last_heard: now,
        }
    }

    /// The unsent bytes. The caller removes sent bytes from the front.
    pub fn outbox(&mut self) -> &mut Vec<u8> {
        self.link.outbox()
    }

    /// Binds the connection to its TLS session. Must be called before the first byte of rank 0.
    pub fn bind(&mut self, binding: &[u8; BINDING]) {
        self.link.bind(binding);
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<MemberEvent> {
        self.events.pop_front()
    }

    /// Processes bytes that were read at `now`.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) {
        if self.is_lost {
            return;
        }
        self.link.receive(bytes);
        while !self.is_lost {
            match self.link.message() {
                Ok(Some(message)) => self.handle(message, now),
                Ok(None) => break,
                Err(error) => self.lose(error.to_string()),
            }
        }
        if self.link.is_open()
            && let Some(hello) = self.hello.take()
        {
            self.last_heard = now;
            self.send(&Message::Hello(hello));
        }
    }

    pub(crate) fn handle(&mut self, message: Message, now: Instant) {
        self.last_heard = now;
        match message {
            Message::Welcome => {
                self.is_welcome = true;
                self.events.push_back(MemberEvent::Welcome);
                if self.is_ready {
                    self.begin(Series::Before, now);
                }
            }
            Message::Refused(why) => self.lose(printable(&why)),
            Message::Pong { sent, read } => {
                let (sent, read) = (Instant::from_nanos(sent), Instant::from_nanos(read));
                self.round_trip(sent, read, now);
            }
            Message::Start { at, test } => match self.estimator.record() {
                Some(clock) => {
                    let at = clock.before.own(Instant::from_nanos(at));
                    if at.since(now) > MOST_LEAD {
                        let why = "rank 0 set a start time that is too far in the future";
                        return self.lose(why.to_owned());
                    }
                    self.events.push_back(MemberEvent::Start(at, test));
                }
                None => self.lose("rank 0 started the test before this rank was ready".to_owned()),
            },
            Message::Stop => self.events.push_back(MemberEvent::Stop),
            Message::Done => self.events.push_back(MemberEvent::Done),
            // Only members send these messages.
            Message::Hello(_)
            | Message::Ping { .. }
            | Message::Ready
            | Message::Interval(_)
            | Message::Ended(_)
            | Message::Failed(_) => self.lose(LinkError::Message.to_string()),
        }
    }

    fn round_trip(&mut self, sent: Instant, read: Instant, now: Instant) {
        // If the ping was never sent, the answer would give a wrong offset.
        if sent > now {
            return self.lose(LinkError::Message.to_string());
        }
        let is_complete = self.estimator.add(sent, read, now);
        match (self.series, is_complete) {
            (Series::None, _) => {}
            (_, false) => self.ping(now),
            (Series::Before, true) => {
                self.series = Series::None;
                self.estimator.end_before();
                self.send(&Message::Ready);
            }
            (Series::After, true) => {
                self.series = Series::None;
                self.estimator.end_after();
                let record = self.estimator.record();
                self.events.extend(record.map(MemberEvent::Compared));
            }
        }
    }

    /// Records that the event loops of this rank are ready.
    pub fn ready(&mut self, now: Instant) {
        self.is_ready = true;
        // Before the welcome, rank 0 has not accepted this rank.
        if self.is_welcome {
            self.begin(Series::Before, now);
        }
    }

    /// Starts the second comparison of the clocks, after the share of this rank has finished.
    pub fn compare_again(&mut self, now: Instant) {
        self.begin(Series::After, now);
    }

    fn begin(&mut self, series: Series, now: Instant) {
        self.series = series;
        self.estimator.begin();
        self.ping(now);
    }

    /// Returns the result of the comparison of the clocks so far.
    pub fn clock(&self) -> Option<ClockRecord> {
        self.estimator.record()
    }

    fn ping(&mut self, now: Instant) {
        self.last_ping = now;
        let sent = now.as_nanos();
        self.send(&Message::Ping { sent });
    }

    /// Sends a message of the caller: the figures of an interval, a result, or a failure.
    pub fn send(&mut self, message: &Message) {
        if self.is_lost {
            return;
        }
        if let Err(error) = self.link.send(message) {
            self.lose(error.to_string());
        }
    }

    /// Whether the test does not start, or rank 0 is lost.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Records that the connection was closed.
    pub fn closed(&mut self, why: &str) {
        self.lose(why.to_owned());
    }

    fn lose(&mut self, why: String) {
        if !self.is_lost {
            self.is_lost = true;
            self.events.push_back(MemberEvent::Lost(why));
        }
    }

    /// Handles all time-outs that are due.
    pub fn tick(&mut self, now: Instant) {
        if now.since(self.last_heard) >= self.silence {
            let silence = self.silence;
            return self.lose(format!("rank 0 sent no message for {silence:?}"));
        }
        if self.link.is_open() && now.since(self.last_ping) >= HEARTBEAT {
            self.ping(now);
        }
    }
}

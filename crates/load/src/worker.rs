//! One event loop: its sockets, its timers and the order of its steps.

use std::collections::VecDeque;
use std::time::Duration;

use fathometer_http::client::Received;
use fathometer_model::{Failure, Instant, Outcome};
use fathometer_sys::Clock;
use fathometer_sys::poller::Poller;
use fathometer_sys::udp::ReceiveBuffer;
use fathometer_sys::usage::{ProcessorTime, thread_time};

use super::LoadError;
use super::pool::Pool;
use super::rest::Rest;
use super::shared::Shared;
use super::slot::{End, Exchange, Protection, Slot, State};
use super::spin::WakeUps;
use super::tally::{Tally, nanos};
use super::timers::{Timer, Timers};
use super::turns::Turns;
use super::user::User;

/// Bytes read at a time.
const BUFFER: usize = 128 * 1024;

/// Ready sockets reported at a time.
const EVENTS: usize = 256;

/// The longest wait, in nanoseconds: a stop is noticed at most this late.
const LONGEST_WAIT: u64 = 100_000_000;

/// Waits of this length and more are shortened, because the kernel may exceed a wait by a thousandth of it. A
/// second wait is then short enough to be exact.
const LONG_WAIT: u64 = 2_000_000;

/// After a rest this many responses are read before the requests that they lead to are written. The kernel's
/// receive and send paths are long; a processor that runs each several times in a row finds it in its caches.
/// The first request leaves some 20 µs late, which its send lag shows; the rest was longer.
const TOGETHER: usize = 16;

/// One event loop.
pub(super) struct Worker<'a> {
    pub(super) shared: &'a Shared,
    pub(super) clock: Clock,
    pub(super) poller: Poller,
    pub(super) slots: Vec<Slot>,
    pub(super) free_slots: Vec<u32>,
    pub(super) users: Vec<User>,
    pub(super) timers: Timers,
    /// Users that may be able to continue.
    ready: VecDeque<u32>,
    /// Slots with something to write.
    pub(super) dirty: Vec<u32>,
    /// Memory to receive datagrams into; `None` without QUIC.
    pub(super) datagrams: Option<ReceiveBuffer>,
    /// Slots with unread data.
    pub(super) unread: Turns,
    pub(super) tally: Tally,
    /// The arrivals and connections of an open loop.
    pub(super) pool: Option<Pool<'a>>,
    /// The users of a closed loop.
    pub(super) population: Option<super::user::Population>,
    /// Exchanges planned that have not ended.
    pub(super) pending: u64,
    /// Exchanges that have ended.
    pub(super) ended: u64,
    /// The wake-up coalescing of a closed loop.
    rest: Rest,
    /// When the loop stops waiting for exchanges in flight.
    give_up: u64,
    spin: Spin,
    /// The last reading of the clock.
    pub(super) now: u64,
}

/// How a loop may busy-wait before planned instants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spin {
    /// The longest that the options allow, in nanoseconds.
    pub(super) longest: u64,
    /// `None` where nothing is planned that a loop could be late for.
    pub(super) wake_ups: Option<WakeUps>,
}

/// The results of a loop.
pub(super) struct Outcomes {
    pub(super) tally: Tally,
    /// Processor time within the measured window.
    pub(super) processor: ProcessorTime,
    /// When it ended, in nanoseconds of the clock.
    pub(super) finished: u64,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        clock: Clock,
        tally: Tally,
        drain: u64,
        spin: Spin,
        rest: u64,
    ) -> Result<Worker<'a>, LoadError> {
        Ok(Worker {
            shared,
            clock,
            poller: Poller::new(EVENTS)?,
            slots: Vec::new(),
            free_slots: Vec::new(),
            users: Vec::new(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            dirty: Vec::new(),
            unread: Turns::default(),
            datagrams: None,
            give_up: tally.edges.end.saturating_add(drain),
            tally,
            pool: None,
            population: None,
            pending: 0,
            ended: 0,
            rest: Rest::new(rest),
            spin,
            now: 0,
        })
    }

    /// Runs to the end of the test.
    pub(super) fn run(mut self) -> Result<Outcomes, LoadError> {
        let mut buffer = vec![0; BUFFER];
        let mut meter = Meter::default();
        self.tick();
        self.enter();
        loop {
            self.tick();
            if let Some(edge) = meter.look(self.now, &self.tally) {
                // Frames counted now passed before the edge, except those of one turn of the loop.
                self.count_all_frames(edge.saturating_sub(1));
            }
            self.roll();
            self.run_timers();
            self.settle();
            self.read_on(&mut buffer);
            if self.is_over() {
                break;
            }
            let (ready, has_rested) = self.wait()?;
            let together = if has_rested { TOGETHER } else { 1 };
            for place in 0..ready {
                let news = self.poller.ready(place);
                self.serve(news, &mut buffer);
                match (place + 1) % together == 0 || place + 1 == ready {
                    true => self.settle(),
                    false => self.advance_ready(),
                }
            }
        }
        self.leave();
        self.tick();
        let processor = meter.finish(self.now, &self.tally);
        self.roll();
        self.close_interval(self.now);
        self.tally.rest_latency_ratio = self.rest.latency_ratio();
        self.tally.wake_up_latency = self.spin.wake_ups.map(|wake_ups| wake_ups.median());
        self.tally.hang_up();
        Ok(Outcomes {
            tally: self.tally,
            processor,
            finished: self.now,
        })
    }

    /// Closes the intervals of the timeline that are over.
    pub(super) fn roll(&mut self) {
        while self.now >= self.tally.interval_end() {
            self.close_interval(self.tally.interval_end());
        }
    }

    fn close_interval(&mut self, end: u64) {
        if let Some(pool) = &mut self.pool {
            // When all permitted exchanges are planned, waiting arrivals will not be. A stopped test does not
            // wait for a loop that is at least one interval behind to count its arrivals.
            let is_late = self.now.saturating_sub(end) >= self.tally.interval();
            let end = match self.shared.is_planned_out() || (is_late && self.shared.is_stopped()) {
                true => 0,
                false => end.min(self.tally.edges.end),
            };
            self.tally.announce(pool.announce(end));
        }
        self.tally.close_interval();
    }

    /// Reads the clock.
    pub(super) fn tick(&mut self) {
        self.now = self.clock.now().as_nanos();
    }

    pub(super) fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Whether nothing more is planned.
    pub(super) fn is_planned_out(&self) -> bool {
        self.now >= self.tally.edges.end || self.shared.is_planned_out() || self.shared.is_stopped()
    }

    fn is_over(&self) -> bool {
        if self.shared.is_stopped() || self.now >= self.give_up {
            return true;
        }
        let waiting = self.pool.as_ref().is_some_and(|pool| {
            !self.shared.is_planned_out() && pool.has_arrivals_before(self.tally.edges.end)
        });
        self.pending == 0 && !waiting && (self.is_planned_out() || self.has_no_more_to_come())
    }

    /// Whether the schedule of an open loop has ended by itself.
    fn has_no_more_to_come(&self) -> bool {
        self.pool.as_ref().is_some_and(Pool::is_exhausted)
    }

    /// Waits for sockets until the next thing is due. Returns how many are ready, and whether it rested.
    fn wait(&mut self) -> Result<(usize, bool), LoadError> {
        self.tick();
        let before = self.now;
        let edges = &self.tally.edges;
        let mut planned = self.timers.next().unwrap_or(u64::MAX);
        // Once all exchanges are planned, later arrivals are not carried out.
        if let Some(pool) = &self.pool
            && !self.shared.is_planned_out()
        {
            planned = planned.min(pool.next_wake(edges.end));
        }
        let wake = [edges.measured, edges.end, self.give_up]
            .into_iter()
            .filter(|&edge| edge > before)
            .fold(planned.min(self.tally.interval_end()), u64::min);
        let spin = self.spin.wake_ups.filter(|_| wake == planned);
        let spin = spin.map_or(0, |wake_ups| {
            wake_ups.spin(self.spin.longest, self.shared.has_spare())
        });
        let mut wait = self.time_until(wake, spin);
        self.tally.waits(before);
        let rest = match self.pool {
            None => self.rest.length(before, self.ended, self.pending),
            Some(_) => 0,
        };
        let mut ready = 0;
        let mut has_rested = false;
        if (1..=wait).contains(&rest) {
            ready = self.poller.wait(Some(Duration::ZERO))?;
            if ready == 0 {
                self.poller.sleep(nanos(rest));
                has_rested = true;
                // Nearly always something has arrived; only if not, the time is needed.
                ready = self.poller.wait(Some(Duration::ZERO))?;
                if ready == 0 {
                    self.tick();
                    wait = self.time_until(wake, spin);
                }
            }
        }
        if ready > 0 {
            self.tick();
        } else if wait > 0 {
            let begin = self.now;
            ready = match wait {
                LONG_WAIT.. => self.poller.wait_coarsely(self.instant(), nanos(wait))?,
                _ => self.poller.wait(Some(nanos(wait)))?,
            };
            self.tick();
            let waited = self.now - begin;
            // A timer that a longer wait has set may end this one early.
            if ready == 0
                && (wait..).contains(&waited)
                && wait < LONG_WAIT
                && let Some(wake_ups) = &mut self.spin.wake_ups
            {
                wake_ups.took(waited - wait);
            }
        } else {
            ready = self.busy_wait(wake)?;
        }
        self.tally.wakes(before, self.now, has_rested);
        Ok((ready, has_rested))
    }

    /// How long to sleep in order to be awake at an instant, if the last `spin` before it may be spent
    /// busy-waiting.
    fn time_until(&self, wake: u64, spin: u64) -> u64 {
        if !self.unread.is_empty() {
            return 0;
        }
        let wait = wake.saturating_sub(self.now).min(LONGEST_WAIT);
        match wait {
            LONG_WAIT.. => wait - wait / 256,
            _ => wait.saturating_sub(spin),
        }
    }

    /// Polls the sockets until some are ready, or until an instant; only once where there is already something
    /// to read. Returns how many are ready.
    fn busy_wait(&mut self, wake: u64) -> Result<usize, LoadError> {
        let begin = self.now;
        loop {
            let ready = self.poller.wait(Some(Duration::ZERO))?;
            self.tick();
            if ready > 0 || self.now >= wake || !self.unread.is_empty() {
                if begin < wake && self.unread.is_empty() {
                    self.tally.busy_waited(begin, self.now);
                }
                return Ok(ready);
            }
        }
    }

    fn run_timers(&mut self) {
        while let Some((at, timer)) = self.timers.due(self.now) {
            match timer {
                Timer::Slot(slot) => self.slot_is_due(slot, at),
                Timer::Quic(slot) => self.quic_is_due(slot, at),
                Timer::User(user) => self.user_is_due(user, at),
                Timer::Step(step) => self.step_users(step, at),
            }
            self.settle();
        }
    }

    /// Lets users continue, gives requests to connections and writes them, until nothing is left that can be
    /// done without waiting.
    pub(super) fn settle(&mut self) {
        loop {
            self.advance_ready();
            self.distribute();
            // In the order of their instants: the oldest one that is due must not wait for the others.
            let mut next = 0;
            while let Some(&slot) = self.dirty.get(next) {
                next += 1;
                self.slots[slot as usize].dirty = false;
                self.flush(slot);
            }
            self.dirty.clear();
            if self.ready.is_empty() {
                return;
            }
        }
    }

    /// Lets users continue, so that what they plan has the instant of the event that let them.
    fn advance_ready(&mut self) {
        while let Some(user) = self.ready.pop_front() {
            self.users[user as usize].queued = false;
            self.advance(user);
        }
    }

    /// Lets a user continue as soon as the current step is done.
    pub(super) fn make_ready(&mut self, user: u32) {
        let entry = &mut self.users[user as usize];
        if !entry.queued {
            entry.queued = true;
            self.ready.push_back(user);
        }
    }

    /// Counts the exchanges in flight when the test is over, and releases everything.
    fn leave(&mut self) {
        self.tick();
        self.count_all_frames(self.now);
        self.leave_quic();
        let now = self.now;
        let user_numbers = |worker: &Worker<'_>, exchange: &Exchange| {
            worker.users[exchange.user as usize].number as u32
        };
        let mut left = Vec::new();
        for slot in &mut self.slots {
            let is_there = slot.state != State::Free && slot.established > 0;
            if is_there && slot.exchanges.is_empty() {
                self.tally.idled(slot.free_since, now);
            }
            if is_there && slot.state == State::Lingering {
                self.tally
                    .connection_ended(End::Server, slot.established, slot.served, now);
            } else if is_there {
                self.tally.was_open(slot.established, now);
            }
            left.extend(slot.exchanges.drain(..).map(|e| (e, slot.number)));
            slot.stream = None;
            slot.protection = Protection::None;
        }
        for user in &mut self.users {
            left.extend(user.again.drain(..).map(|exchange| (exchange, u32::MAX)));
        }
        for (exchange, connection) in left {
            let user = user_numbers(self, &exchange);
            let nothing = Received::default();
            self.tally.failed(&exchange, None, &nothing, now);
            let outcome = Outcome::Failed(Failure::LocalAbort);
            self.tally
                .row(&exchange, user, connection, &nothing, outcome, now);
        }
        self.leave_arrivals();
    }
}

/// The processor time of a loop within the measured window.
#[derive(Default)]
struct Meter {
    begin: Option<ProcessorTime>,
    end: Option<ProcessorTime>,
}

impl Meter {
    /// The edge between two windows that has passed since the last call, if any.
    fn look(&mut self, now: u64, tally: &Tally) -> Option<u64> {
        let mut passed = None;
        for (at, meter) in [
            (tally.edges.measured, &mut self.begin),
            (tally.edges.end, &mut self.end),
        ] {
            if meter.is_none() && now >= at {
                *meter = Some(thread_time());
                passed = Some(at);
            }
        }
        passed
    }

    fn finish(&mut self, now: u64, tally: &Tally) -> ProcessorTime {
        self.look(now, tally);
        let end = self.end.unwrap_or_else(thread_time);
        self.begin
            .map_or_else(ProcessorTime::default, |begin| end.since(begin))
    }
}

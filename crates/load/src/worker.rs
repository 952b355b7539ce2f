//! One event loop: the order of its steps.

use std::time::Duration;

use fathometer_model::Instant;
use fathometer_sys::Clock;
use fathometer_sys::usage::{ProcessorTime, thread_time};

use super::LoadError;
use super::activity::Activity;
use super::connections::{Connections, Requester as _};
use super::context::Context;
use super::sessions::{SessionSource, Sessions};
use super::shared::Shared;
use super::tally::{Tallied, Tally};
use super::timers::{NEVER, Timer};
use super::waiting::{Spin, Waiting, Wake, Woken};

/// The size of the read buffer, in bytes.
const BUFFER: usize = 128 * 1024;

/// The number of responses that are read after a delay before the next requests are written. The kernel's code for
/// receiving and for sending is long; running the same code several times in succession keeps it in the processor's
/// caches. The first request is sent about 20 µs late, which its send lag includes; the delay itself was longer.
const TOGETHER: usize = 16;

/// One event loop. It connects its parts; its only decision is when the test ends.
///
/// Except after a delay, the loop does all possible work after each event ([`Worker::settle`]) before it handles the
/// next event.
pub(super) struct Worker<'a> {
    connections: Connections<'a>,
    sessions: Sessions<'a>,
    waiting: Waiting,
    /// The time at which the loop stops waiting for exchanges in flight.
    give_up: Instant,
}

/// The results of a loop.
pub(super) struct Outcomes {
    pub(super) tallied: Tallied,
    pub(super) activity: Activity,
    pub(super) rest_latency_ratio: Option<f64>,
    pub(super) wake_up_latency: Option<Duration>,
    /// CPU time within the measured window.
    pub(super) processor: ProcessorTime,
    /// The time at which the loop finished.
    pub(super) finished: Instant,
}

impl<'a> Worker<'a> {
    /// Creates a loop for a test with the windows of `tally`. `drain` is the longest wait for exchanges in flight,
    /// `longest_delay` the longest delay of a wake-up.
    pub(super) fn new(
        shared: &'a Shared,
        clock: Clock,
        tally: Tally,
        source: SessionSource<'a>,
        drain: Duration,
        spin: Spin,
        longest_delay: Duration,
    ) -> Result<Worker<'a>, LoadError> {
        let edges = *tally.edges();
        Ok(Worker {
            connections: Connections::new(Context::new(shared, clock, tally))?,
            sessions: Sessions::new(source),
            waiting: Waiting::new(spin, longest_delay, Activity::new(edges)),
            give_up: edges.end + drain,
        })
    }

    /// Runs the loop until the end of the test.
    pub(super) fn run(mut self) -> Result<Outcomes, LoadError> {
        let mut buffer = vec![0; BUFFER];
        self.connections.context.tick();
        self.sessions.enter(&mut self.connections.context);
        loop {
            self.connections.context.tick();
            let now = self.connections.context.now();
            if let Some(edge) = self.waiting.activity.passed_edge(now, thread_time) {
                // The frames counted now were carried before the edge, except for frames of the current turn of the
                // loop.
                let before = Instant::from_nanos(edge.as_nanos().saturating_sub(1));
                self.connections.count_all_frames(before);
            }
            self.sessions
                .close_past_intervals(&mut self.connections.context);
            self.run_timers();
            self.settle();
            self.read_on(&mut buffer);
            if self.is_over() {
                return Ok(self.finish());
            }
            let Woken { ready, was_delayed } = self.wait()?;
            // Due arrivals first get connections that are already free. If a response were read first, its connection
            // would become free later, and the arrivals would appear to have waited for it.
            if ready > 0 {
                self.settle();
            }
            let together = if was_delayed { TOGETHER } else { 1 };
            for place in 0..ready {
                let event = self.connections.poller.ready(place);
                let Worker {
                    connections,
                    sessions,
                    ..
                } = &mut self;
                connections.serve(sessions, event, &mut buffer);
                match (place + 1) % together == 0 || place + 1 == ready {
                    true => self.settle(),
                    false => sessions.advance_ready(connections),
                }
            }
        }
    }

    fn finish(mut self) -> Outcomes {
        self.connections.context.tick();
        let left = self.connections.leave();
        let context = &mut self.connections.context;
        self.sessions.leave(context, left);
        context.tick();
        let finished = context.now();
        let processor = self.waiting.activity.processor(finished, thread_time);
        self.sessions.close_past_intervals(context);
        self.sessions.close_interval(context, finished);
        Outcomes {
            tallied: self.connections.context.tally.finish(),
            rest_latency_ratio: self.waiting.rest_latency_ratio(),
            wake_up_latency: self.waiting.wake_up_latency(),
            activity: self.waiting.activity,
            processor,
            finished,
        }
    }

    fn is_over(&self) -> bool {
        let context = &self.connections.context;
        context.shared.is_stopped()
            || context.now() >= self.give_up
            || self.sessions.is_over(context)
    }

    /// Waits for sockets until the next instant at which there is work.
    fn wait(&mut self) -> Result<Woken, LoadError> {
        let has_unread = self.connections.unread() > 0;
        let Connections {
            context, poller, ..
        } = &mut self.connections;
        context.tick();
        let timer = context.timers.next().unwrap_or(NEVER);
        let planned = timer.min(self.sessions.next_arrival(context));
        let edges = context.tally.edges();
        let at = [edges.measured, edges.end, self.give_up]
            .into_iter()
            .filter(|&edge| edge > context.now())
            .fold(planned.min(context.tally.interval_end()), Instant::min);
        let wake = Wake {
            planned,
            at,
            has_unread,
            exchanges: self.sessions.waited_for(),
        };
        self.waiting.wait(context, poller, &wake)
    }

    fn run_timers(&mut self) {
        while let Some((at, timer)) = self.connections.context.due_timer() {
            let (connections, sessions) = (&mut self.connections, &mut self.sessions);
            match timer {
                Timer::Connection(place) => connections.is_due(sessions, place, at),
                Timer::Quic(place) => connections.quic_is_due(sessions, place, at),
                Timer::User(user) => sessions.user_is_due(connections, user, at),
                Timer::Step(step) => {
                    sessions.change_population(&mut connections.context, step, at);
                }
            }
            self.settle();
        }
    }

    /// Continues reading connections that had to yield to others.
    fn read_on(&mut self, buffer: &mut [u8]) {
        for _ in 0..self.connections.unread() {
            if !self.connections.read_next(&mut self.sessions, buffer) {
                return;
            }
            self.settle();
        }
    }

    /// Lets users continue, passes requests to connections and writes them, until all remaining work must wait.
    fn settle(&mut self) {
        let (connections, sessions) = (&mut self.connections, &mut self.sessions);
        loop {
            sessions.advance_ready(connections);
            sessions.distribute(connections);
            connections.write_all(sessions);
            if sessions.is_settled() {
                return;
            }
        }
    }
}

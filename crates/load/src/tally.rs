//! What a loop counts and times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use fathometer_analysis::load::{
    Connections, Counts, Datagrams, Distribution, Ended, Handshakes, Latency, Octets,
};
use fathometer_http::client::Received;
use fathometer_model::{Bytes, ExchangeRow, Failure, Outcome, TestPhase};

use super::frames::FrameTally;
use super::recorder::Rows;
use super::slot::{End, Exchange};
use super::timeline::{Part, Spares};

/// Status codes are counted by their number.
const STATUSES: usize = 1000;

/// The edges of the windows, in nanoseconds of the clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edges {
    pub(super) start: u64,
    /// The measured window begins.
    pub(super) measured: u64,
    /// It ends; `u64::MAX` when that is not known beforehand.
    pub(super) end: u64,
}

/// The index of the measured window.
const MEASURED: usize = 1;

impl Edges {
    /// The index of an instant's window: warm-up, measured, drain.
    fn window(&self, at: u64) -> usize {
        usize::from(at >= self.measured) + usize::from(at >= self.end)
    }

    /// How much of a period lies in each window.
    fn parts(&self, from: u64, to: u64) -> [u64; 3] {
        let warm_up = to.min(self.measured).saturating_sub(from);
        let measured = self.measured_part(from, to);
        [warm_up, measured, (to - from) - warm_up - measured]
    }

    /// How much of a period lies in the measured window.
    fn measured_part(&self, from: u64, to: u64) -> u64 {
        to.min(self.end).saturating_sub(from.max(self.measured))
    }
}

/// The figures of one window of one loop.
#[derive(Default)]
pub(super) struct WindowTally {
    pub(super) planned: u64,
    pub(super) sent: u64,
    pub(super) completed: u64,
    pub(super) unfinished: u64,
    pub(super) wrong_size: u64,
    pub(super) retried: u64,
    pub(super) connects: u64,
    pub(super) connected: u64,
    pub(super) pages: u64,
    pub(super) page_connections: u64,
    pub(super) pages_failed: u64,
    pub(super) sessions: u64,
    statuses: Vec<u64>,
    failures: [u64; Failure::ALL.len()],
    connect_failures: [u64; Failure::ALL.len()],
    pub(super) octets: Octets,
    pub(super) latency: Latency,
    pub(super) ended: Ended,
    pub(super) connections: Connections,
    pub(super) handshakes: Handshakes,
    pub(super) frames: FrameTally,
    pub(super) datagrams: Datagrams,
}

fn by_failure(counts: &[u64; Failure::ALL.len()]) -> BTreeMap<Failure, u64> {
    let counted = Failure::ALL.into_iter().zip(counts.iter().copied());
    counted.filter(|&(_, count)| count > 0).collect()
}

impl WindowTally {
    /// Allocates its memory at once: for latencies up to `longest`, and lives of connections up to
    /// [`LONGEST_LIFE`].
    fn with_room(longest: Duration) -> WindowTally {
        let room = || Distribution::with_room(longest);
        WindowTally {
            latency: Latency {
                corrected: room(),
                uncorrected: room(),
                queue: room(),
                send_lag: room(),
                connect: room(),
                tls: room(),
                first_byte: room(),
                transfer: room(),
                page: room(),
                failed: room(),
            },
            connections: Connections {
                life: Distribution::with_room(LONGEST_LIFE),
                ..Connections::default()
            },
            statuses: vec![0; STATUSES],
            ..WindowTally::default()
        }
    }

    /// The counts in the form that results have.
    pub(super) fn counts(&self) -> Counts {
        let statuses = self.statuses.iter().copied().enumerate();
        Counts {
            planned: self.planned,
            sent: self.sent,
            completed: self.completed,
            statuses: statuses
                .filter(|&(_, count)| count > 0)
                .map(|(status, count)| (status as u16, count))
                .collect(),
            failures: by_failure(&self.failures),
            unfinished: self.unfinished,
            wrong_size: self.wrong_size,
            retried: self.retried,
            connects: self.connects,
            connected: self.connected,
            connect_failures: by_failure(&self.connect_failures),
            pages: self.pages,
            page_connections: self.page_connections,
            pages_failed: self.pages_failed,
            sessions: self.sessions,
        }
    }
}

/// The longest life of a connection that histograms have memory for at the start; they grow for longer ones.
const LONGEST_LIFE: Duration = Duration::from_secs(3600);

/// Samples that are counted at a time.
const SAMPLES: usize = 512;

/// Times to be counted, in nanoseconds; `kind` says which ones.
struct Sample {
    window: u8,
    kind: Kind,
    times: [u64; 4],
}

enum Kind {
    Sent,
    Completed,
    Page,
}

/// The counts and times of one loop.
pub(super) struct Tally {
    pub(super) edges: Edges,
    /// Warm-up, measured, drain.
    pub(super) windows: [WindowTally; 3],
    part: Part,
    part_ends: u64,
    interval: u64,
    samples: Vec<Sample>,
    parts: Option<Sender<Part>>,
    /// Where unused parts come from and merged parts go back to.
    spares: Arc<Spares>,
    pub(super) rows: Option<Rows>,
    /// For each target: completed exchanges, and those that failed or have status 400 and above.
    pub(super) targets: Vec<(u64, u64)>,
    /// Connections that are open or being opened: now, and the most so far.
    pub(super) connections: u64,
    pub(super) most_connections: u64,
    pub(super) ports_exhausted: u64,
    /// Time of the measured window that was spent waiting, in nanoseconds.
    pub(super) waited: u64,
    /// The part of it that was rests, and their effect on the mean latency.
    pub(super) rested: u64,
    pub(super) rest_latency_ratio: Option<f64>,
    /// The part of it that was busy-waiting before planned instants, and the median wake-up latency.
    pub(super) busy_waited: u64,
    pub(super) wake_up_latency: Option<Duration>,
    pub(super) longest_turn: u64,
    /// When the last wait ended.
    woken: u64,
    /// When the last exchange ended.
    pub(super) last_end: u64,
    /// When the last response was complete.
    pub(super) last_answer: u64,
    /// Time spent waiting for the recorder.
    pub(super) recorder_wait: Duration,
}

impl Tally {
    /// A tally with its memory allocated; `begin` sets the edges of its windows.
    pub(super) fn new(
        interval: Duration,
        (parts, spares): (Sender<Part>, Arc<Spares>),
        rows: Option<Rows>,
        targets: usize,
    ) -> Tally {
        let interval = interval.as_nanos() as u64;
        let longest = spares.longest();
        Tally {
            edges: Edges {
                start: 0,
                measured: 0,
                end: 0,
            },
            // The other windows are short and need little memory.
            windows: [
                WindowTally::default(),
                WindowTally::with_room(longest),
                WindowTally::default(),
            ],
            part: spares.take(0),
            part_ends: 0,
            interval,
            samples: Vec::with_capacity(SAMPLES),
            parts: Some(parts),
            spares,
            rows,
            targets: vec![(0, 0); targets],
            connections: 0,
            most_connections: 0,
            ports_exhausted: 0,
            waited: 0,
            rested: 0,
            rest_latency_ratio: None,
            busy_waited: 0,
            wake_up_latency: None,
            longest_turn: 0,
            woken: 0,
            last_end: 0,
            last_answer: 0,
            recorder_wait: Duration::ZERO,
        }
    }

    /// The test begins, with these windows.
    pub(super) fn begin(&mut self, edges: Edges) {
        self.edges = edges;
        self.part_ends = edges.start + self.interval;
        self.woken = edges.start;
        self.last_end = edges.start;
    }

    /// The window of an instant.
    pub(super) fn at(&mut self, instant: u64) -> &mut WindowTally {
        &mut self.windows[self.edges.window(instant)]
    }

    /// When the interval ends.
    pub(super) fn interval_end(&self) -> u64 {
        self.part_ends
    }

    /// How long an interval is.
    pub(super) fn interval(&self) -> u64 {
        self.interval
    }

    /// Closes the interval.
    pub(super) fn close_interval(&mut self) {
        self.count_samples();
        self.part.connections = self.connections;
        self.part.so_far = self.at(self.part_ends - 1).counts();
        let next = self.spares.take(self.part.interval + 1);
        let part = std::mem::replace(&mut self.part, next);
        if let Some(parts) = &self.parts {
            // Fails when the receiver is closed.
            let _ = parts.send(part);
        }
        self.part_ends += self.interval;
        if let Some(rows) = &mut self.rows {
            rows.hand_over();
        }
    }

    /// Closes the channels: nothing more follows.
    pub(super) fn hang_up(&mut self) {
        self.parts = None;
        if let Some(rows) = self.rows.take() {
            self.recorder_wait = rows.waited;
        }
    }

    /// A page has ended, with every exchange complete or not.
    pub(super) fn page(&mut self, started: u64, now: u64, complete: bool, connected: u32) {
        let window = self.edges.window(started);
        match complete {
            true => {
                self.windows[window].pages += 1;
                self.windows[window].page_connections += u64::from(connected);
            }
            false => self.windows[window].pages_failed += 1,
        }
        self.sample(Sample {
            window: window as u8,
            kind: Kind::Page,
            times: [now.saturating_sub(started), 0, 0, 0],
        });
    }

    /// An exchange was planned. `announced`: its interval has already counted it.
    pub(super) fn planned(&mut self, planned: u64, announced: bool) {
        self.at(planned).planned += 1;
        self.part.planned += u64::from(!announced);
    }

    /// Counts exchanges that are planned in this interval and come later as announced.
    pub(super) fn announce(&mut self, count: u64) {
        self.part.planned += count;
    }

    /// The first byte of a request was handed to the kernel, just now; its instants are complete up to that.
    pub(super) fn sent(&mut self, exchange: &Exchange) {
        let window = &mut self.windows[self.edges.window(exchange.planned)];
        window.sent += 1;
        window.octets.request_heads.0 += u64::from(exchange.head);
        window.octets.request_fields.0 += u64::from(exchange.fields);
        window.octets.request_bodies.0 += exchange.content;
        self.sample(Sample {
            window: self.edges.window(exchange.planned) as u8,
            kind: Kind::Sent,
            times: [
                exchange.due - exchange.planned,
                exchange.sent.saturating_sub(exchange.due),
                0,
                0,
            ],
        });
    }

    /// Collects times and counts many of them together: a histogram that is visited for every exchange would be
    /// out of the processor's caches each time.
    fn sample(&mut self, sample: Sample) {
        self.samples.push(sample);
        if self.samples.len() == SAMPLES {
            self.count_samples();
        }
    }

    fn count_samples(&mut self) {
        let Tally {
            samples,
            windows,
            part,
            ..
        } = self;
        for sample in samples.iter() {
            let latency = &mut windows[usize::from(sample.window)].latency;
            let [one, two, three, four] = sample.times;
            match sample.kind {
                Kind::Sent => {
                    latency.queue.record_nanos(one);
                    latency.send_lag.record_nanos(two);
                    part.send_lag.record_nanos(two);
                }
                Kind::Completed => {
                    latency.corrected.record_nanos(one);
                    part.latency.record_nanos(one);
                    latency.uncorrected.record_nanos(two);
                    latency.first_byte.record_nanos(three);
                    latency.transfer.record_nanos(four);
                }
                Kind::Page => latency.page.record_nanos(one),
            }
        }
        samples.clear();
    }

    /// A response is complete.
    pub(super) fn completed(
        &mut self,
        exchange: &Exchange,
        received: &Received,
        wanted: Option<Bytes>,
        now: u64,
    ) {
        let failed = exchange.status >= 400;
        let octets = received.head + received.body;
        let ended = &mut self.windows[self.edges.window(now)].ended;
        ended.completed += 1;
        ended.received += octets;
        match failed {
            true => ended.status_errors += 1,
            false => ended.useful += received.content,
        }
        self.part.completed += 1;
        self.part.errors += u64::from(failed);
        self.part.received += octets;
        let window = &mut self.windows[self.edges.window(exchange.planned)];
        window.completed += 1;
        if window.statuses.is_empty() {
            window.statuses = vec![0; STATUSES];
        }
        window.statuses[usize::from(exchange.status)] += 1;
        window.octets.response_heads += received.head;
        window.octets.response_fields += received.fields;
        window.octets.response_bodies += received.body;
        window.octets.content += received.content;
        if wanted.is_some_and(|wanted| wanted != received.content) {
            window.wrong_size += 1;
        }
        self.last_end = now;
        self.last_answer = now;
        self.sample(Sample {
            window: self.edges.window(exchange.planned) as u8,
            kind: Kind::Completed,
            times: [
                now - exchange.planned,
                now - exchange.sent,
                exchange.first_byte - exchange.sent,
                now - exchange.first_byte,
            ],
        });
        if self.edges.window(exchange.planned) == MEASURED
            && let Some(target) = self.targets.get_mut(exchange.target as usize)
        {
            match failed {
                true => target.1 += 1,
                false => target.0 += 1,
            }
        }
    }

    /// An exchange failed, or (without a failure) is still in flight when the test is over. `received` is the
    /// part of its response that arrived.
    pub(super) fn failed(
        &mut self,
        exchange: &Exchange,
        failure: Option<Failure>,
        received: &Received,
        now: u64,
    ) {
        let corrected = nanos(now.saturating_sub(exchange.planned));
        let place = self.edges.window(now);
        let window = &mut self.windows[self.edges.window(exchange.planned)];
        window.latency.corrected.record(corrected);
        window.latency.failed.record(corrected);
        window.octets.failed_responses += received.head + received.body;
        if exchange.sent > 0 {
            let uncorrected = nanos(now.saturating_sub(exchange.sent));
            window.latency.uncorrected.record(uncorrected);
        }
        match failure {
            Some(failure) => {
                window.failures[failure as usize] += 1;
                self.windows[place].ended.failed += 1;
                self.part.errors += 1;
                self.part.latency.record(corrected);
                if self.edges.window(exchange.planned) == MEASURED
                    && let Some(target) = self.targets.get_mut(exchange.target as usize)
                {
                    target.1 += 1;
                }
            }
            None => window.unfinished += 1,
        }
        self.last_end = now;
    }

    /// A connection could not be established.
    pub(super) fn connect_failed(&mut self, failure: Failure, now: u64) {
        self.at(now).connect_failures[failure as usize] += 1;
    }

    /// A connection was idle for this long.
    pub(super) fn idled(&mut self, from: u64, to: u64) {
        if from < to {
            let parts = self.edges.parts(from, to);
            for (window, part) in self.windows.iter_mut().zip(parts) {
                window.connections.idle += nanos(part);
            }
        }
    }

    /// A connection was open for this long.
    pub(super) fn was_open(&mut self, from: u64, to: u64) {
        let parts = self.edges.parts(from, to);
        for (window, part) in self.windows.iter_mut().zip(parts) {
            window.connections.open += nanos(part);
        }
    }

    /// A connection has ended that was established at `from` and carried this many exchanges.
    pub(super) fn connection_ended(&mut self, end: End, from: u64, exchanges: u32, now: u64) {
        self.was_open(from, now);
        let connections = &mut self.at(now).connections;
        match end {
            End::Client => connections.closed_by_client += 1,
            End::Server => connections.closed_by_server += 1,
            End::Failure => connections.failed += 1,
        }
        connections.life.record(nanos(now - from));
        connections.exchanges.record(exchanges.into());
    }

    /// Hands a row to the recorder, if there is one.
    pub(super) fn row(
        &mut self,
        exchange: &Exchange,
        user: u32,
        connection: u32,
        received: &Received,
        outcome: Outcome,
        now: u64,
    ) {
        if let Some(rows) = &mut self.rows {
            rows.push(ExchangeRow {
                planned: exchange.planned,
                due: exchange.due,
                sent: exchange.sent,
                first_byte: exchange.first_byte,
                last_byte: now,
                target: exchange.target,
                page: exchange.page,
                user,
                connection,
                status: exchange.status,
                outcome,
                request_head: exchange.head,
                request_body: exchange.content,
                response_head: received.head.0 as u32,
                response_body: received.body.0,
                phase: TestPhase::ALL[self.edges.window(exchange.planned)],
                measured_from: self.edges.measured,
            });
        }
    }

    /// A wait begins.
    pub(super) fn waits(&mut self, now: u64) {
        let turn = self.edges.measured_part(self.woken, now);
        self.longest_turn = self.longest_turn.max(turn);
    }

    /// The loop has busy-waited for this long.
    pub(super) fn busy_waited(&mut self, from: u64, to: u64) {
        self.busy_waited += self.edges.measured_part(from, to);
    }

    /// A wait is over. `is_rest`: it was a rest.
    pub(super) fn wakes(&mut self, began: u64, now: u64, is_rest: bool) {
        let part = self.edges.measured_part(began, now);
        self.waited += part;
        if is_rest {
            self.rested += part;
        }
        self.woken = now;
    }
}

/// A number of nanoseconds as a duration.
pub(super) fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_of_time_is_shared_out_among_the_windows() {
        let edges = Edges {
            start: 0,
            measured: 10,
            end: 30,
        };
        for (from, to, parts) in [
            (0, 40, [10, 20, 10]),
            (2, 7, [5, 0, 0]),
            (7, 12, [3, 2, 0]),
            (10, 30, [0, 20, 0]),
            (29, 31, [0, 1, 1]),
            (35, 35, [0, 0, 0]),
            (35, 39, [0, 0, 4]),
        ] {
            assert_eq!(edges.parts(from, to), parts, "{from} to {to}");
        }
    }

    #[test]
    fn an_instant_belongs_to_one_window() {
        let edges = Edges {
            start: 5,
            measured: 10,
            end: 20,
        };
        let windows = [5, 9, 10, 19, 20, 99].map(|at| edges.window(at));
        assert_eq!(windows, [0, 0, 1, 1, 2, 2]);
        assert_eq!(edges.measured_part(5, 12), 2);
        assert_eq!(edges.measured_part(12, 25), 8);
        assert_eq!(edges.measured_part(1, 9), 0);
    }
}

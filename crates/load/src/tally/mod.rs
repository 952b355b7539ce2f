//! The counts and times of one loop.
//!
//! [`edges`] divides the test into windows, [`window`] holds the figures of one window, and [`samples`]
//! collects the times that are counted in batches.

mod edges;
mod samples;
mod window;

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use fathometer_analysis::load::{Datagrams, Handshakes};
use fathometer_http::client::Received;
use fathometer_model::{Bytes, ExchangeRow, Failure, Instant, Outcome, TestPhase};

use super::exchange::Exchange;
use super::frames::FrameTally;
use super::nanos::Nanos;
use super::recorder::Rows;
use super::timeline::{Part, Spares};
use edges::MEASURED;
use samples::{Sample, Samples};
use window::WindowTally;

pub(super) use edges::Edges;

/// The side that ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// The client, because it has no further requests.
    Client,
    /// The server, or the client because the server announced the end.
    Server,
    /// Neither side: the connection failed.
    Failure,
}

/// The counts and times of one loop.
///
/// Every planned exchange is counted in the window of its planned instant, exactly once as completed, failed or
/// unfinished. An event of a connection is counted in the window of its own instant. The current interval begins at the
/// end of the last closed interval.
pub(super) struct Tally {
    edges: Edges,
    /// Warm-up, measured, drain.
    windows: [WindowTally; 3],
    part: Part,
    part_ends: Instant,
    interval: Duration,
    samples: Samples,
    parts: Sender<Part>,
    /// The source of unused parts, to which merged parts are returned.
    spares: Arc<Spares>,
    rows: Option<Rows>,
    /// For each target: the number of completed exchanges, and the number that failed or have status 400
    /// and above.
    targets: Vec<(u64, u64)>,
    /// The number of connections that are open or being opened: the current number, and the maximum until now.
    connections: u64,
    most_connections: u64,
    ports_exhausted: u64,
    /// The time at which the last exchange ended.
    last_end: Instant,
    /// The time at which the last complete response ended; zero if there was none.
    last_answer: Instant,
}

/// The result of a loop's tally.
pub(super) struct Tallied {
    /// Warm-up, measured, drain.
    pub(super) windows: [WindowTally; 3],
    /// For each target: the number of completed exchanges, and the number that failed or have status 400
    /// and above.
    pub(super) targets: Vec<(u64, u64)>,
    /// The maximum number of connections that were open or being opened.
    pub(super) most_connections: u64,
    pub(super) ports_exhausted: u64,
    /// The time at which the last exchange ended.
    pub(super) last_end: Instant,
    /// The time at which the last complete response ended; zero if there was none.
    pub(super) last_answer: Instant,
    /// Time spent waiting for the recorder.
    pub(super) recorder_wait: Duration,
}

impl Tally {
    /// Creates a tally and allocates its memory; [`Tally::begin`] sets the edges of its windows.
    pub(super) fn new(
        interval: Duration,
        (parts, spares): (Sender<Part>, Arc<Spares>),
        rows: Option<Rows>,
        targets: usize,
    ) -> Tally {
        let longest = spares.longest();
        Tally {
            edges: Edges {
                start: Instant::ZERO,
                measured: Instant::ZERO,
                end: Instant::ZERO,
            },
            // The other windows are short and need little memory.
            windows: [
                WindowTally::default(),
                WindowTally::with_room(longest),
                WindowTally::default(),
            ],
            part: spares.take(0),
            part_ends: Instant::ZERO,
            interval,
            samples: Samples::with_room(),
            parts,
            spares,
            rows,
            targets: vec![(0, 0); targets],
            connections: 0,
            most_connections: 0,
            ports_exhausted: 0,
            last_end: Instant::ZERO,
            last_answer: Instant::ZERO,
        }
    }

    /// Begins the test, with these windows.
    pub(super) fn begin(&mut self, edges: Edges) {
        self.edges = edges;
        self.part_ends = edges.start + self.interval;
        self.last_end = edges.start;
    }

    /// Returns the edges of the windows.
    pub(super) fn edges(&self) -> &Edges {
        &self.edges
    }

    /// Returns the tally of the window that contains an instant.
    fn at(&mut self, instant: Instant) -> &mut WindowTally {
        &mut self.windows[self.edges.window(instant)]
    }

    /// Returns the end of the current interval.
    pub(super) fn interval_end(&self) -> Instant {
        self.part_ends
    }

    /// Returns the length of an interval.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// Closes the current interval.
    pub(super) fn close_interval(&mut self) {
        self.count_samples();
        self.part.connections = self.connections;
        // An interval belongs to the window that contains its last instant.
        let last = Instant::from_nanos(self.part_ends.as_nanos() - 1);
        self.part.so_far = self.at(last).counts();
        let next = self.spares.take(self.part.interval + 1);
        let part = std::mem::replace(&mut self.part, next);
        // Fails if the receiver is closed.
        let _ = self.parts.send(part);
        self.part_ends += self.interval;
        if let Some(rows) = &mut self.rows {
            rows.hand_over();
        }
    }

    /// Closes the channels and returns the result.
    pub(super) fn finish(self) -> Tallied {
        Tallied {
            windows: self.windows,
            targets: self.targets,
            most_connections: self.most_connections,
            ports_exhausted: self.ports_exhausted,
            last_end: self.last_end,
            last_answer: self.last_answer,
            recorder_wait: self.rows.map_or(Duration::ZERO, |rows| rows.waited),
        }
    }

    /// Counts a page that has ended. `complete`: all its exchanges were complete.
    pub(super) fn page(&mut self, started: Instant, now: Instant, complete: bool, connected: u32) {
        let window = self.edges.window(started);
        match complete {
            true => {
                self.windows[window].pages += 1;
                self.windows[window].page_connections += u64::from(connected);
            }
            false => self.windows[window].pages_failed += 1,
        }
        self.sample(Sample::page(
            window,
            Nanos::between(started, now.max(started)),
        ));
    }

    /// Counts a pause of a closed-loop user, until `to` or the end of the window.
    pub(super) fn paused(&mut self, from: Instant, to: Instant) {
        self.windows[MEASURED].paused += self.edges.measured_part(from, to);
    }

    /// Counts a planned exchange. `announced`: its interval has already counted it.
    pub(super) fn planned(&mut self, planned: Instant, announced: bool) {
        self.at(planned).planned += 1;
        self.part.planned += u64::from(!announced);
    }

    /// Counts exchanges that are planned for this interval. They are passed to [`Tally::planned`] later, marked as
    /// announced.
    pub(super) fn announce(&mut self, count: u64) {
        self.part.planned += count;
    }

    /// Counts a request whose first byte was just handed to the kernel; the later instants of the exchange are not set
    /// yet.
    pub(super) fn sent(&mut self, exchange: &Exchange) {
        let (planned, due) = (exchange.planned_at(), exchange.due_at());
        let place = self.edges.window(planned);
        let window = &mut self.windows[place];
        window.sent += 1;
        window.bytes.request_heads += Bytes(exchange.head().into());
        window.bytes.request_fields += Bytes(exchange.fields().into());
        window.bytes.request_bodies += exchange.content();
        let send_lag = Nanos::between(due, exchange.sent_at().max(due));
        self.sample(Sample::sent(place, Nanos::between(planned, due), send_lag));
    }

    fn sample(&mut self, sample: Sample) {
        if self.samples.add(sample) {
            self.count_samples();
        }
    }

    fn count_samples(&mut self) {
        self.samples.count(&mut self.windows, &mut self.part);
    }

    /// Counts a complete response.
    pub(super) fn completed(
        &mut self,
        exchange: &Exchange,
        received: &Received,
        wanted: Option<Bytes>,
        now: Instant,
    ) {
        let failed = exchange.status() >= 400;
        let bytes = received.head + received.body;
        let ended = &mut self.windows[self.edges.window(now)].ended;
        ended.completed += 1;
        ended.received += bytes;
        match failed {
            true => ended.status_errors += 1,
            false => ended.useful += received.content,
        }
        self.part.completed += 1;
        self.part.errors += u64::from(failed);
        self.part.received += bytes;
        let place = self.edges.window(exchange.planned_at());
        let window = &mut self.windows[place];
        window.completed += 1;
        window.count_status(exchange.status());
        window.bytes.response_heads += received.head;
        window.bytes.response_fields += received.fields;
        window.bytes.response_bodies += received.body;
        window.bytes.content += received.content;
        if wanted.is_some_and(|wanted| wanted != received.content) {
            window.wrong_size += 1;
        }
        self.last_end = now;
        self.last_answer = now;
        let (sent, first_byte) = (exchange.sent_at(), exchange.first_byte_at());
        let latencies = (
            Nanos::between(exchange.planned_at(), now),
            Nanos::between(sent, now),
        );
        let phases = (
            Nanos::between(sent, first_byte),
            Nanos::between(first_byte, now),
        );
        self.sample(Sample::completed(place, latencies, phases));
        if place == MEASURED
            && let Some(target) = self.targets.get_mut(exchange.target() as usize)
        {
            match failed {
                true => target.1 += 1,
                false => target.0 += 1,
            }
        }
    }

    /// Counts an exchange that failed, or (without a failure) is still in flight at the end of the test.
    /// `received` is the part of its response that arrived.
    pub(super) fn failed(
        &mut self,
        exchange: &Exchange,
        failure: Option<Failure>,
        received: &Received,
        now: Instant,
    ) {
        let corrected = now.since(exchange.planned_at());
        let place = self.edges.window(exchange.planned_at());
        let window = &mut self.windows[place];
        window.latency.corrected.record(corrected);
        window.latency.failed.record(corrected);
        window.bytes.failed_responses += received.head + received.body;
        if exchange.is_sent() {
            window
                .latency
                .uncorrected
                .record(now.since(exchange.sent_at()));
        }
        match failure {
            Some(failure) => {
                window.failures[failure as usize] += 1;
                self.at(now).ended.failed += 1;
                self.part.errors += 1;
                self.part.latency.record(corrected);
                if place == MEASURED
                    && let Some(target) = self.targets.get_mut(exchange.target() as usize)
                {
                    target.1 += 1;
                }
            }
            None => window.unfinished += 1,
        }
        self.last_end = now;
    }

    /// Counts a retry.
    pub(super) fn retried(&mut self, now: Instant) {
        self.at(now).retried += 1;
    }

    /// Counts a session whose pages have all ended.
    pub(super) fn session_ended(&mut self, now: Instant) {
        self.at(now).sessions += 1;
    }

    /// Counts an attempt to connect.
    pub(super) fn connect_begins(&mut self, now: Instant) {
        self.at(now).connects += 1;
    }

    /// Counts a connection that could not be opened because no local port was free.
    pub(super) fn port_missing(&mut self) {
        self.ports_exhausted += 1;
    }

    /// Counts a connection that could not be established.
    pub(super) fn connect_failed(&mut self, failure: Failure, now: Instant) {
        self.at(now).connect_failures[failure as usize] += 1;
    }

    /// Counts a connection whose socket was opened.
    pub(super) fn connection_opened(&mut self) {
        self.connections += 1;
        self.most_connections = self.most_connections.max(self.connections);
    }

    /// Counts a connection whose socket was closed.
    pub(super) fn connection_closed(&mut self) {
        self.connections -= 1;
    }

    /// Records the time needed to establish the transport of a connection.
    pub(super) fn reached(&mut self, took: Duration, now: Instant) {
        self.at(now).latency.connect.record(took);
    }

    /// Records the time of a TLS handshake over TCP.
    pub(super) fn secured(&mut self, took: Duration, now: Instant) {
        self.at(now).latency.tls.record(took);
    }

    /// Counts a connection that can now carry requests.
    pub(super) fn established(&mut self, now: Instant) {
        let window = self.at(now);
        window.connected += 1;
        window.ended.connected += 1;
    }

    /// Returns the handshakes of the window of `now`.
    pub(super) fn handshakes(&mut self, now: Instant) -> &mut Handshakes {
        &mut self.at(now).handshakes
    }

    /// Returns the frames of the window of `at`.
    pub(super) fn frames(&mut self, at: Instant) -> &mut FrameTally {
        &mut self.at(at).frames
    }

    /// Counts datagrams in the window of `at`.
    pub(super) fn datagrams(&mut self, datagrams: &Datagrams, at: Instant) {
        self.at(at).datagrams.merge(datagrams);
    }

    /// Records the time for which a connection was idle.
    pub(super) fn idled(&mut self, from: Instant, to: Instant) {
        if from < to {
            let parts = self.edges.parts(from, to);
            for (window, part) in self.windows.iter_mut().zip(parts) {
                window.connections.idle += part;
            }
        }
    }

    /// Records the time for which a connection was open.
    pub(super) fn was_open(&mut self, from: Instant, to: Instant) {
        let parts = self.edges.parts(from, to);
        for (window, part) in self.windows.iter_mut().zip(parts) {
            window.connections.open += part;
        }
    }

    /// Counts the end of a connection that was established at `from` and carried `served` exchanges.
    pub(super) fn connection_ended(
        &mut self,
        end: ConnectionEnd,
        from: Instant,
        exchanges: u32,
        now: Instant,
    ) {
        self.was_open(from, now);
        let connections = &mut self.at(now).connections;
        match end {
            ConnectionEnd::Client => connections.closed_by_client += 1,
            ConnectionEnd::Server => connections.closed_by_server += 1,
            ConnectionEnd::Failure => connections.failed += 1,
        }
        connections.life.record(now.since(from));
        connections.exchanges.record(exchanges.into());
    }

    /// Returns whether there is a recorder.
    pub(super) fn records(&self) -> bool {
        self.rows.is_some()
    }

    /// Passes a row to the recorder, if there is one.
    pub(super) fn row(
        &mut self,
        exchange: &Exchange,
        user: u32,
        connection: u32,
        received: &Received,
        outcome: Outcome,
        now: Instant,
    ) {
        if let Some(rows) = &mut self.rows {
            rows.push(ExchangeRow {
                planned: exchange.planned_at().as_nanos(),
                due: exchange.due_at().as_nanos(),
                sent: exchange.sent_at().as_nanos(),
                first_byte: exchange.first_byte_at().as_nanos(),
                last_byte: now.as_nanos(),
                target: exchange.target(),
                page: exchange.page(),
                user,
                connection,
                status: exchange.status(),
                outcome,
                request_head: exchange.head(),
                request_body: exchange.content().0,
                response_head: received.head.0 as u32,
                response_body: received.body.0,
                phase: TestPhase::ALL[self.edges.window(exchange.planned_at())],
                measured_from: self.edges.measured.as_nanos(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use fathometer_analysis::load::{Distribution, Window};

    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Creates a tally with a warm-up of 100 ns, a measured window of 900 ns, and intervals of 250 ns.
    fn tally() -> (Tally, Receiver<Part>) {
        let (parts, received) = channel();
        let spares = Spares::new(1, Duration::from_secs(1));
        let interval = Duration::from_nanos(250);
        let mut tally = Tally::new(interval, (parts, spares), None, 1);
        tally.begin(Edges {
            start: at(1000),
            measured: at(1100),
            end: at(2000),
        });
        (tally, received)
    }

    fn exchange(planned: u64) -> Exchange {
        let mut exchange = Exchange::planned(at(planned), 0, 0, 0, 0);
        exchange.could_leave(at(planned + 10));
        exchange.leaves(at(planned + 15));
        exchange.response_begins(at(planned + 40));
        exchange.has_status(200);
        exchange
    }

    #[test]
    fn an_exchange_is_counted_in_the_window_that_it_was_planned_in() {
        let (mut tally, _parts) = tally();
        let received = Received {
            head: Bytes(10),
            body: Bytes(90),
            ..Received::default()
        };
        for planned in [1090, 1500, 1600, 1990] {
            let exchange = exchange(planned);
            tally.planned(exchange.planned_at(), false);
            tally.sent(&exchange);
            match planned {
                1600 => tally.failed(&exchange, Some(Failure::Reset), &received, at(1700)),
                _ => tally.completed(&exchange, &received, None, at(planned + 50)),
            }
        }
        tally.planned(at(1995), false);
        let nothing = Received::default();
        tally.failed(&exchange(1995), None, &nothing, at(2100));
        tally.close_interval();
        let tallied = tally.finish();
        let counts = tallied.windows.each_ref().map(WindowTally::counts);
        assert_eq!(counts.each_ref().map(|c| c.planned), [1, 4, 0]);
        assert_eq!(counts.each_ref().map(|c| c.completed), [1, 2, 0]);
        assert_eq!(counts.each_ref().map(|c| c.unfinished), [0, 1, 0]);
        assert_eq!(counts[1].failures[&Failure::Reset], 1);
        // Throughput is counted in the window in which exchanges ended.
        let ended = tallied.windows.each_ref().map(|w| w.ended.completed);
        assert_eq!(ended, [0, 2, 1]);
        assert_eq!(tallied.targets, [(2, 1)]);
        let mut window = Window::default();
        tallied.windows[1].add_to(&mut window);
        let max = |times: &Distribution| times.max().map(|time| time.as_nanos());
        assert_eq!(max(&window.latency.queue), Some(10));
        assert_eq!(max(&window.latency.send_lag), Some(5));
        assert_eq!(max(&window.latency.first_byte), Some(25));
        assert_eq!(max(&window.latency.transfer), Some(10));
        assert_eq!(window.bytes.failed_responses, Bytes(100));
        assert_eq!(
            (tallied.last_answer, tallied.last_end),
            (at(2040), at(2100))
        );
    }

    #[test]
    fn intervals_follow_each_other_and_have_the_counts_of_their_window() {
        let (mut tally, parts) = tally();
        tally.planned(at(1010), false);
        assert_eq!(tally.interval_end(), at(1250));
        tally.close_interval();
        tally.connection_opened();
        tally.announce(3);
        assert_eq!(tally.interval_end(), at(1500));
        tally.close_interval();
        let parts: Vec<Part> = parts.try_iter().collect();
        assert_eq!(parts.iter().map(|p| p.interval).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(parts.iter().map(|p| p.planned).collect::<Vec<_>>(), [1, 3]);
        assert_eq!((parts[0].connections, parts[1].connections), (0, 1));
        assert_eq!(
            parts[0].so_far.planned, 0,
            "the interval ends in the measured window"
        );
    }
}

//! Wake-up coalescing: an idle closed loop sleeps for a short time instead of being woken by the next response.
//! Off by default. Such a sleep is a *delay*.
//!
//! A loop that is faster than its server has nothing to do after nearly every response. If it slept until the next
//! response, each response would cost a context switch in the loop and the CPU time of a wake-up in the server. A
//! faster loop causes more wake-ups. So the loop sleeps for a fixed short time, in which several responses arrive, and
//! handles them together.
//!
//! The disadvantage is that a response is read later, by up to the length of the delay (plus the wake-up latency, as
//! after any sleep). If the server is saturated, this does not change the latency: the next request would otherwise
//! wait at the server. The mean latency is then the number of users divided by the throughput, regardless of where
//! requests wait. If the server (or the path) is slow but not saturated, a delay would over-report the latency. The
//! loop distinguishes the two cases by experiment: it alternates periods with and without delays, and compares the mean
//! latencies of neighbouring periods. It computes these by Little's law, which includes the time of responses that wait
//! unread. Delays that raise the mean latency by more than [`HARM`] are stopped, and retried periodically.
//!
//! A delay is at most the mean latency divided by [`SHARE`], and at most the limit in the options. The loop does not
//! delay if it expects fewer than [`WORTH`] responses during the delay. An open loop has no delays, because its
//! requests are due at planned instants.

use std::collections::VecDeque;
use std::time::Duration;

use fathometer_model::Instant;

use super::nanos::Nanos;

/// A delay is at most the mean latency divided by this number.
const SHARE: u64 = 2;

/// The minimum number of responses expected during a delay; if fewer are expected, the loop does not delay.
const WORTH: u64 = 2;

/// The shortest and the longest time over which the rate of responses is measured. Between these limits, the
/// measurement ends when [`ROUNDS`] times the mean number of exchanges in flight have ended. The time is long compared
/// with a delay, and short compared with changes of the load.
const WINDOW: (Nanos, Nanos) = (Nanos(1_000_000), Nanos(100_000_000));
const ROUNDS: u64 = 4;

/// The largest accepted increase of the mean latency: to start delays, and to continue them.
const HARM: (f64, f64) = (0.02, 0.04);

/// The shortest period with or without delays: a time, or a multiple of the mean latency, whichever is longer.
const PERIOD: (Nanos, u64) = (Nanos(2_000_000), 4);

/// Comparisons before the first decision. Before it, periods with and without delays alternate.
const TRIALS: usize = 16;

/// The number of comparisons that a decision uses.
const MEMORY: usize = 32;

/// One period in this many is a test period of the other kind: the first number applies while delays are used, the
/// second while they are not.
const PROBES: (u32, u32) = (16, 32);

/// The minimum ratio of the mean latency to the longest delay from which delays need no trial. On average a response
/// waits for half a delay, which is then negligible.
const LONG: u64 = 50;

/// Measures a loop's rate of responses, and computes the delays from it.
#[derive(Debug)]
pub(super) struct Coalescing {
    /// The longest delay.
    longest: Nanos,
    count: Count,
    /// The time per exchange and the mean latency, from the previous measurement.
    each: Nanos,
    latency: Nanos,
    trial: Trial,
}

impl Coalescing {
    /// Creates the state; there are no delays until the rate is measured.
    pub(super) fn new(longest: Duration) -> Coalescing {
        Coalescing {
            longest: Nanos(longest.as_nanos() as u64),
            count: Count::default(),
            each: Nanos::MAX,
            latency: Nanos::ZERO,
            trial: Trial::new(),
        }
    }

    /// Returns the time to sleep when there is nothing to do; zero: do not sleep.
    ///
    /// `ended` is the number of exchanges that have ended since the start, `under_way` the number in flight. Call this
    /// whenever there is nothing to do, because it integrates the number in flight over the time between two calls.
    pub(super) fn length(&mut self, now: Instant, ended: u64, under_way: u64) -> Duration {
        if self.longest == Nanos::ZERO {
            return Duration::ZERO;
        }
        self.delay(now, ended, under_way).into()
    }

    /// Like [`Coalescing::length`], if delays are allowed.
    fn delay(&mut self, now: Instant, ended: u64, under_way: u64) -> Nanos {
        self.count.advance(now, under_way);
        if self.count.is_long(now, ended) {
            let (each, latency) = self.count.result(now, ended);
            self.each = each.unwrap_or(Nanos::MAX);
            self.latency = Nanos(latency.unwrap_or(0.0) as u64);
            self.count = Count::new(now, ended, under_way);
        }
        let most = self.longest.min(self.latency / SHARE);
        if most < self.each.saturating_mul(WORTH) {
            self.trial.stop();
            return Nanos::ZERO;
        }
        if self.latency >= self.longest.saturating_mul(LONG) {
            self.trial.stop();
            return most;
        }
        match self.trial.has_delays(now, ended, under_way, self.latency) {
            true => most,
            false => Nanos::ZERO,
        }
    }

    /// Returns the ratio of the mean latencies with and without delays: the median of the last comparisons. `None`
    /// before the first comparison.
    pub(super) fn latency_ratio(&self) -> Option<f64> {
        self.trial.median()
    }
}

/// The number of exchanges in a period, and the integral of the number in flight.
#[derive(Debug, Default)]
struct Count {
    /// The start of the count, and the number of exchanges that had ended at that time.
    since: Instant,
    ended: u64,
    /// The time of the last call, the exchanges in flight since that call, and the integral of the exchanges in flight
    /// up to that call, in exchanges times nanoseconds.
    seen: Instant,
    under_way: u64,
    area: u128,
}

impl Count {
    fn new(now: Instant, ended: u64, under_way: u64) -> Count {
        Count {
            since: now,
            ended,
            seen: now,
            under_way,
            area: 0,
        }
    }

    /// Adds the time since the last call, in which the number in flight was constant.
    fn advance(&mut self, now: Instant, under_way: u64) {
        let passed = Nanos::saturating_between(self.seen, now);
        self.area += u128::from(passed.0) * u128::from(self.under_way);
        self.seen = now;
        self.under_way = under_way;
    }

    /// Returns whether the count is long enough to measure the rate.
    fn is_long(&self, now: Instant, ended: u64) -> bool {
        let passed = Nanos::saturating_between(self.since, now);
        let rounds = u128::from(ROUNDS) * self.area / u128::from(passed.0.max(1));
        let count = ended - self.ended;
        passed >= WINDOW.1 || (passed >= WINDOW.0 && u128::from(count) >= rounds)
    }

    /// Returns the time per exchange, and the mean latency in nanoseconds by Little's law: the exchanges in flight
    /// divided by the rate. `None` if no exchange has ended.
    fn result(&self, now: Instant, ended: u64) -> (Option<Nanos>, Option<f64>) {
        let count = ended - self.ended;
        let passed = Nanos::saturating_between(self.since, now);
        let each = passed.0.checked_div(count).map(Nanos);
        (each, each.map(|_| self.area as f64 / count as f64))
    }
}

/// Decides whether delays increase the latency, by comparing periods with and without delays.
#[derive(Debug)]
struct Trial {
    /// The current period.
    period: Option<Period>,
    /// The mean latency of the previous period, in nanoseconds, if that period was of the other kind.
    before: Option<f64>,
    /// The number of periods since the kind last changed.
    periods: u32,
    /// The ratios of the mean latencies with and without delays, from the last [`MEMORY`] comparisons.
    ratios: VecDeque<f64>,
    /// Whether delays were found harmless.
    good: bool,
}

#[derive(Debug)]
struct Period {
    with_delays: bool,
    began: Instant,
    /// `None` at the start of a period: the exchanges then in flight belong to the previous kind of period.
    count: Option<Count>,
}

impl Period {
    fn new(with_delays: bool, now: Instant) -> Period {
        Period {
            with_delays,
            began: now,
            count: None,
        }
    }
}

impl Trial {
    fn new() -> Trial {
        Trial {
            period: None,
            before: None,
            periods: 0,
            ratios: VecDeque::with_capacity(MEMORY),
            good: false,
        }
    }

    /// Stops the trial, because there are no delays to try at present.
    fn stop(&mut self) {
        self.period = None;
        self.before = None;
    }

    /// Returns whether to delay now.
    fn has_delays(&mut self, now: Instant, ended: u64, under_way: u64, latency: Nanos) -> bool {
        let good = self.good;
        let period = self.period.get_or_insert_with(|| Period::new(good, now));
        let Some(count) = &mut period.count else {
            if Nanos::saturating_between(period.began, now) >= latency {
                period.count = Some(Count::new(now, ended, under_way));
            }
            return period.with_delays;
        };
        count.advance(now, under_way);
        let length = PERIOD.0.max(latency.saturating_mul(PERIOD.1));
        let with_delays = period.with_delays;
        if Nanos::saturating_between(count.since, now) < length {
            return with_delays;
        }
        let (_, mean) = count.result(now, ended);
        let next = self.next(mean, with_delays);
        self.period = Some(Period::new(next, now));
        next
    }

    /// Ends a period and returns whether the next one has delays.
    fn next(&mut self, mean: Option<f64>, with_delays: bool) -> bool {
        self.periods += 1;
        let is_usual = with_delays == self.good;
        if let (Some(before), Some(mean)) = (self.before.take(), mean) {
            self.compare(if with_delays {
                mean / before
            } else {
                before / mean
            });
        }
        let every = match self.good {
            _ if self.ratios.len() < TRIALS => 1,
            true => PROBES.0,
            false => PROBES.1,
        };
        let next = match is_usual && self.periods >= every {
            true => !self.good,
            false => self.good,
        };
        if next != with_delays {
            self.periods = 0;
            self.before = mean;
        }
        next
    }

    /// Adds one ratio. The median decides, because a preempted processor or a stalled server can produce single ratios
    /// of any size.
    fn compare(&mut self, ratio: f64) {
        if self.ratios.len() == MEMORY {
            self.ratios.pop_front();
        }
        self.ratios.push_back(ratio);
        if self.ratios.len() < TRIALS {
            return;
        }
        let harm = match self.good {
            true => HARM.1,
            false => HARM.0,
        };
        self.good = self.median().is_some_and(|ratio| ratio <= 1.0 + harm);
    }

    fn median(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.ratios.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    /// A simulated server.
    #[derive(Debug)]
    enum Server {
        /// Processes exchanges serially, each in this many nanoseconds.
        Busy(u64),
        /// Processes all exchanges concurrently, each in this many nanoseconds or up to 50 % more.
        Slow(u64),
        /// Both: serially with the first number, then concurrently with the second.
        Both(u64, u64),
    }

    /// Calls [`Coalescing::length`] with times in nanoseconds.
    fn length(coalescing: &mut Coalescing, now: u64, ended: u64, under_way: u64) -> u64 {
        let length = coalescing.length(Instant::from_nanos(now), ended, under_way);
        length.as_nanos() as u64
    }

    /// The results of a simulation.
    struct Outcome {
        /// Exchanges per second.
        rate: f64,
        /// Mean time from the request until the loop handles the response, in nanoseconds.
        latency: f64,
        /// Sleeps (delays and others) per exchange.
        sleeps: f64,
    }

    /// Simulates a closed loop for `seconds`; the loop itself uses no CPU time. Each user pauses for `pause`
    /// nanoseconds between its exchanges. The first quarter is not counted.
    fn run(server: &Server, users: u64, pause: u64, longest: u64, seconds: u64) -> Outcome {
        let mut coalescing = Coalescing::new(Duration::from_nanos(longest));
        let end = seconds * 1_000_000_000;
        let mut now = 0;
        let mut free = 0;
        // The times at which each response arrives and was requested; the times at which pausing users continue.
        let mut under_way: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
        let mut random = 1_u64;
        let mut pausing: VecDeque<u64> = (0..users).map(|n| n * 100).collect();
        let (mut ended, mut counted, mut waited, mut sleeps) = (0, 0_u64, 0_u64, 0_u64);
        while now < end {
            while pausing.front().is_some_and(|&at| at <= now) {
                pausing.pop_front();
                let served = match *server {
                    Server::Slow(_) => now,
                    Server::Busy(each) | Server::Both(each, _) => {
                        free = now.max(free) + each;
                        free
                    }
                };
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let comes = match *server {
                    Server::Busy(_) => served,
                    Server::Slow(late) | Server::Both(_, late) => {
                        served + late + (random >> 33) % (late / 2)
                    }
                };
                under_way.push(Reverse((comes, now)));
            }
            while let Some(&Reverse((_, asked))) =
                under_way.peek().filter(|Reverse((comes, _))| *comes <= now)
            {
                under_way.pop();
                ended += 1;
                if now > end / 4 {
                    counted += 1;
                    waited += now - asked;
                }
                pausing.push_back(now + pause);
            }
            if pausing.front().is_some_and(|&at| at <= now) {
                continue;
            }
            let length = length(&mut coalescing, now, ended, under_way.len() as u64);
            let next = [
                under_way.peek().map(|Reverse((comes, _))| *comes),
                pausing.front().copied(),
            ];
            let next = next.into_iter().flatten().min().unwrap();
            sleeps += u64::from(now > end / 4);
            // A delay ends at the next planned instant at the latest. After a delay without a response, the loop sleeps
            // until the next event.
            let planned = pausing.front().map_or(u64::MAX, |&at| at - now);
            now = match length {
                1.. if length <= planned => next.max(now + length),
                _ => next,
            };
        }
        Outcome {
            rate: counted as f64 / (end as f64 * 0.75) * 1e9,
            latency: waited as f64 / counted as f64,
            sleeps: sleeps as f64 / counted as f64,
        }
    }

    #[test]
    fn with_a_saturated_server_a_delay_covers_many_responses_and_adds_no_latency() {
        let with = run(&Server::Busy(20_000), 64, 0, 500_000, 4);
        let without = run(&Server::Busy(20_000), 64, 0, 0, 4);
        assert!(without.sleeps > 0.99);
        assert!(with.sleeps < 0.12, "{}", with.sleeps);
        assert!((with.rate / without.rate - 1.0).abs() < 0.001);
        assert!((with.latency / without.latency - 1.0).abs() < 0.001);
    }

    #[test]
    fn with_a_slow_server_that_is_not_saturated_delays_stop() {
        let servers = [
            Server::Slow(1_280_000),
            Server::Slow(300_000),
            Server::Both(2_000, 1_000_000),
            Server::Both(10_000, 600_000),
            Server::Slow(60_000_000),
        ];
        for server in servers {
            for (users, pause) in [(64, 0), (1000, 0), (500, 20_000_000)] {
                let with = run(&server, users, pause, 500_000, 5);
                let without = run(&server, users, pause, 0, 5);
                let longer = with.latency / without.latency - 1.0;
                assert!(
                    longer < HARM.0,
                    "{server:?}, {users} users, pause {pause} ns: latency increase {longer}"
                );
            }
        }
    }

    #[test]
    fn a_delay_is_a_part_of_the_latency_and_covers_several_responses() {
        /// Returns the delay when the rate is measured and delays are accepted.
        fn after(each: u64, under_way: u64, longest: u64) -> u64 {
            let mut coalescing = Coalescing::new(Duration::from_nanos(longest));
            coalescing.trial.good = true;
            assert_eq!(length(&mut coalescing, 0, 0, under_way), 0);
            let count = WINDOW.1.0 / each;
            length(&mut coalescing, count * each, count, under_way)
        }
        // A mean latency of 640 µs.
        assert_eq!(after(10_000, 64, 500_000), 320_000);
        assert_eq!(after(10_000, 64, 30_000), 30_000);
        assert_eq!(after(10_000, 1000, 50_000), 50_000);
        // Fewer than two responses would arrive during a delay.
        assert_eq!(after(10_000, 3, 50_000), 0);
        assert_eq!(after(10_000, 1, 50_000), 0);
        assert_eq!(after(30_000, 1000, 50_000), 0);
        assert_eq!(after(10_000, 64, 0), 0);
    }

    #[test]
    fn no_delay_before_the_rate_is_known_nor_after_a_stall() {
        let mut coalescing = Coalescing::new(Duration::from_nanos(50_000));
        coalescing.trial.good = true;
        assert_eq!(length(&mut coalescing, 0, 0, 64), 0);
        assert_eq!(length(&mut coalescing, WINDOW.0.0 / 2, 300, 64), 0);
        assert_eq!(length(&mut coalescing, WINDOW.0.0, 100, 64), 0);
        assert_eq!(length(&mut coalescing, 3 * WINDOW.0.0, 300, 64), 50_000);
        // The count of the second window continues.
        assert_eq!(length(&mut coalescing, 4 * WINDOW.0.0, 301, 64), 50_000);
        assert_eq!(
            length(&mut coalescing, 3 * WINDOW.0.0 + WINDOW.1.0, 301, 64),
            0
        );
        assert_eq!(
            length(&mut coalescing, 9 * WINDOW.0.0 + WINDOW.1.0, 901, 64),
            50_000
        );
    }

    #[test]
    fn without_a_trial_no_ratio_is_reported() {
        let mut coalescing = Coalescing::new(Duration::from_nanos(50_000));
        // 1000 users and one exchange every 10 µs: a mean latency of 10 ms.
        for step in 1..=500 {
            let length = length(&mut coalescing, step * WINDOW.0.0, step * 100, 1000);
            assert!(length == 50_000 || step < 100, "{step}: {length}");
        }
        assert_eq!(coalescing.latency_ratio(), None);
    }

    #[test]
    fn a_few_stalls_do_not_end_coalescing() {
        let mut trial = Trial::new();
        for number in 0..40 {
            trial.compare(if number % 3 == 0 { 100.0 } else { 0.97 });
        }
        assert!(trial.good);
        for _ in 0..MEMORY {
            trial.compare(1.03);
        }
        assert!(trial.good, "the ratios are too small to stop delays");
        for _ in 0..MEMORY {
            trial.compare(1.1);
        }
        assert!(!trial.good);
        for _ in 0..MEMORY {
            trial.compare(1.03);
        }
        assert!(!trial.good, "too much to start delays");
    }
}

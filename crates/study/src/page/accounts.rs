//! Measures the CPU time of both hosts in one replicate, in nanoseconds. Also measures it as Fujinoki et al. (2003)
//! did: in percent, every 100 ms.
//!
//! A host's CPU time is the sum over the threads of its program and the process that receives its packets from the
//! path. The threads of the program are the client's event loop, or the threads of the origin, including HTTP/3. The
//! receiving process runs the host's TCP for incoming packets. Sending is charged to the thread that sends. Not
//! included are the threads of the path, which represent the network, and the kernel's timers, which may run on any
//! thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_sys::Clock;
use fathometer_sys::usage::ThreadClock;
use serde::Serialize;

use fathometer_lab::hosts::Side;

/// The sampling interval of the paper.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

/// The smallest reading, in percent, that is not rounded down to zero: the paper's readings were whole numbers.
const ZERO: f64 = 0.5;

/// CPU accounting of both hosts.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    entries: Mutex<Vec<Entry>>,
    is_over: AtomicBool,
}

/// The CPU time account of one thread.
#[derive(Debug)]
struct Entry {
    side: Side,
    part: Part,
    clock: ThreadClock,
    /// The thread's CPU time at the instant at which its account was opened.
    opened: Duration,
    /// The thread's CPU time since its account was opened, at the last reading.
    used: Duration,
    is_closed: bool,
}

/// The kind of work that a thread does for its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Runs the program.
    Program,
    /// Receives packets.
    Network,
}

/// CPU time of a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// The CPU time of the program's threads.
    pub(super) program: Duration,
    /// The CPU time of the process that receives packets.
    pub(super) network: Duration,
}

impl Used {
    /// Returns the total CPU time.
    pub(super) fn total(self) -> Duration {
        self.program + self.network
    }
}

/// Utilisation of both hosts in one [`PERIOD`], in percent of one processor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Reading {
    /// The end of the period.
    pub(super) at: Instant,
    /// The utilisation of the client's host.
    pub(super) client_pct: f64,
    /// The utilisation of the server's host.
    pub(super) server_pct: f64,
}

impl Reading {
    pub(super) fn of(&self, side: Side) -> f64 {
        match side {
            Side::Client => self.client_pct,
            Side::Server => self.server_pct,
        }
    }
}

impl Accounts {
    /// Opens an account of a thread for a host. CPU time counts from this call.
    pub(super) fn open(&self, side: Side, part: Part, clock: ThreadClock) {
        let Some(opened) = clock.read() else { return };
        self.lock().push(Entry {
            side,
            part,
            clock,
            opened,
            used: Duration::ZERO,
            is_closed: false,
        });
    }

    /// Closes the account of the calling thread. Its CPU time until this call still counts.
    pub(super) fn close_current(&self) {
        let current = ThreadClock::current();
        for entry in self.lock().iter_mut().filter(|e| e.clock == current) {
            entry.look();
            entry.is_closed = true;
        }
    }

    /// Returns the CPU time that a host has used since the accounts were opened.
    pub(super) fn used(&self, side: Side) -> Used {
        let mut used = Used::default();
        for entry in self.lock().iter_mut().filter(|e| e.side == side) {
            entry.look();
            match entry.part {
                Part::Program => used.program += entry.used,
                Part::Network => used.network += entry.used,
            }
        }
        used
    }

    /// Takes readings until [`Accounts::end`] is called. The last reading is at the end of the current period. Readings
    /// are at least one period apart.
    pub(super) fn sample(&self, clock: Clock) -> Vec<Reading> {
        let mut readings: Vec<Reading> = Vec::new();
        let (mut last_at, mut last) = (clock.now(), [Duration::ZERO; 2]);
        loop {
            let due = last_at + PERIOD;
            while clock.now() < due {
                std::thread::sleep(due.since(clock.now()));
            }
            let is_last = self.is_over.load(Ordering::Acquire);
            let now = clock.now();
            let used = [Side::Client, Side::Server].map(|side| self.used(side).total());
            let percent = |side: usize| {
                let share = (used[side].saturating_sub(last[side])).as_secs_f64();
                100.0 * share / now.since(last_at).as_secs_f64()
            };
            readings.push(Reading {
                at: now,
                client_pct: percent(0),
                server_pct: percent(1),
            });
            (last_at, last) = (now, used);
            if is_last {
                return readings;
            }
        }
    }

    /// Stops the sampling thread after its current period.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn look(&mut self) {
        if !self.is_closed
            && let Some(now) = self.clock.read()
        {
            self.used = now.saturating_sub(self.opened);
        }
    }
}

/// Returns the accumulated utilisation, which the paper defines as the sum of the readings.
pub(super) fn accumulated(readings: &[Reading], side: Side) -> f64 {
    readings.iter().map(|reading| reading.of(side)).sum()
}

/// Returns the number of the first reading, counted from 1, from which utilisation is always zero.
pub(super) fn zero_at(readings: &[Reading], side: Side) -> usize {
    let busy = readings
        .iter()
        .rposition(|reading| reading.of(side) >= ZERO);
    busy.map_or(1, |last| last + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(server: &[f64]) -> Vec<Reading> {
        let reading = |(n, &server_pct): (usize, &f64)| Reading {
            at: Instant::from_nanos(100_000_000 * (n as u64 + 1)),
            client_pct: 0.0,
            server_pct,
        };
        server.iter().enumerate().map(reading).collect()
    }

    #[test]
    fn readings_are_summed_and_their_end_is_found_as_the_paper_does() {
        let busy = readings(&[50.0, 0.0, 30.0, 0.2, 0.0]);
        assert!((accumulated(&busy, Side::Server) - 80.2).abs() < 1e-9);
        assert_eq!(zero_at(&busy, Side::Server), 4);
        assert_eq!(zero_at(&busy, Side::Client), 1);
        assert_eq!(zero_at(&readings(&[9.0]), Side::Server), 2);
    }

    #[test]
    fn what_threads_use_is_their_hosts_and_the_readings_add_up_to_it() {
        let clock = Clock::start();
        let accounts = Accounts::default();
        let readings = std::thread::scope(|scope| {
            let sampling = scope.spawn(|| accounts.sample(clock));
            scope
                .spawn(|| {
                    accounts.open(Side::Server, Part::Program, ThreadClock::current());
                    let own = ThreadClock::current();
                    let begun = own.read().unwrap();
                    while own.read().unwrap() - begun < Duration::from_millis(30) {
                        std::hint::spin_loop();
                    }
                    accounts.close_current();
                })
                .join()
                .unwrap();
            accounts.end();
            sampling.join().unwrap()
        });
        let used = accounts.used(Side::Server);
        assert_eq!(used.network, Duration::ZERO);
        assert!(used.program >= Duration::from_millis(30), "{used:?}");
        assert_eq!(accounts.used(Side::Client), Used::default());
        // One percent of a period of 100 ms is 1 ms.
        let sum = accumulated(&readings, Side::Server) / 1e3;
        assert!(
            sum > 0.0 && sum <= used.total().as_secs_f64() * 1.001,
            "{sum}"
        );
    }
}

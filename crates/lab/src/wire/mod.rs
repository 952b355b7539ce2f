//! The path on devices: two threads carry packets between the TUN devices of two hosts. The state machine of
//! `fathometer-path` defines what happens to each packet.
//!
//! ```text
//!  client ─ TUN ─► [up:   link, clock] ─► TUN ─ server
//!  client ◄ TUN ─  [down: link, clock] ◄─ TUN ─ server
//! ```
//!
//! Each thread reads one host's device and writes to the other host's device. A write runs the receiver's TCP on the
//! writing thread, so that a direction's CPU time belongs to its receiving host. A thread sleeps until the next
//! delivery is due or a packet arrives, with the precision of the kernel's timers. The lateness of each delivery is
//! recorded and reported in the [`PathCertificate`]. Effects that the profile does not define (a full device ring, a
//! refused write, lateness beyond the [`Limits`], an incomplete capture) make the measurement invalid ([`Validity`]).
//!
//! The arrival time is the time at which the thread read the packet. The time that a packet spends in the device's ring
//! is unknown, and is not included in the lateness.

pub mod counts;
mod direction;
mod lateness;
pub mod receiver;
mod taps;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use fathometer_model::{DirectionCertificate, Instant, PathCertificate, Seed, Validity};
use fathometer_path::{DelayedAck, DelayedAckClock, Direction, Link, Profile};
use fathometer_sys::{Clock, Result, Tun, Waiter, Waker, priority};

use self::counts::Course;
use self::direction::{Acks, Lane, Outcome, Parts, Shared};
use self::receiver::Receiver;
use self::taps::Taps;

pub use self::counts::PacketCounts;
pub use self::direction::RING_FULL;

/// The default of [`WireOptions::spin`]: longer than 90 % of wake-up latencies, also on virtual machines.
pub const USUAL_SPIN: Duration = Duration::from_micros(100);

/// Options of a path.
#[derive(Debug, Clone)]
pub struct WireOptions {
    /// The seed of all random decisions.
    pub seed: Seed,
    /// The clock of all instants. The measurements at both ends use the same clock.
    pub clock: Clock,
    /// The capture file to write, if any.
    pub capture: Option<PathBuf>,
    /// The comment in the capture file.
    pub comment: String,
    /// The time before a deadline in which a thread polls instead of sleeping. It is used only if it is at most 1/8 of
    /// the wait. Polling hides the wake-up latency.
    pub spin: Duration,
    /// The limits of valid lateness. `None` means the limits that [`Limits::of`] returns for the profile.
    pub limits: Option<Limits>,
    /// The clock that delays the client's acknowledgements, if the client's kernel cannot delay them as the era
    /// requires. The client's route must then have quick acknowledgements on.
    pub client_acks: Option<DelayedAckClock>,
    /// Whether a separate process receives packets for the server's host ([`Wire::server_receiver`]), so that this work
    /// can be charged to the host. Otherwise the path's thread does this work.
    pub server_receives: bool,
    /// Whether a separate process receives packets for the client's host ([`Wire::client_receiver`]).
    pub client_receives: bool,
    /// The maximum number of bytes of each packet in the capture; `None` for whole packets.
    pub snap_length: Option<u32>,
    /// Whether packets are counted by class and time ([`Carried::packets`]).
    pub count_packets: bool,
}

impl WireOptions {
    /// Returns options without a capture and counts, with [`USUAL_SPIN`], the usual limits, and a clock that starts
    /// now.
    pub fn new(seed: Seed) -> WireOptions {
        WireOptions {
            seed,
            clock: Clock::start(),
            capture: None,
            comment: String::new(),
            spin: USUAL_SPIN,
            limits: None,
            client_acks: None,
            server_receives: false,
            client_receives: false,
            snap_length: None,
            count_packets: false,
        }
    }
}

/// Limits of a path's lateness. A lateness beyond a limit makes the measurement invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The limit of the 99th percentile.
    pub p99: Duration,
    /// The limit of every delivery.
    pub maximum: Duration,
}

impl Limits {
    /// Returns the default limits of a profile. For the 99th percentile: 1 ms or a fiftieth of the round-trip time,
    /// whichever is larger. For every delivery: 20 ms or a tenth of the round-trip time, whichever is larger.
    pub fn of(profile: &Profile) -> Limits {
        let round_trip = profile.round_trip();
        Limits {
            p99: (round_trip / 50).max(Duration::from_millis(1)),
            maximum: (round_trip / 10).max(Duration::from_millis(20)),
        }
    }
}

/// The result of a path, and its validity.
#[derive(Debug)]
pub struct Carried {
    /// The path's effects on packets, and its lateness.
    pub certificate: PathCertificate,
    /// The validity, with the reasons if the path is invalid.
    pub validity: Validity,
    /// The delivered packets, if they were counted.
    pub packets: Option<PacketCounts>,
}

/// A path that carries packets.
#[derive(Debug)]
pub struct Wire {
    up: Running,
    down: Running,
    taps: Option<Arc<Taps>>,
    server: Option<Receiver>,
    client: Option<Receiver>,
    limits: Limits,
    clock: Clock,
}

/// The thread of one direction, and its devices.
#[derive(Debug)]
struct Running {
    thread: Option<JoinHandle<Outcome>>,
    waker: Waker,
    shared: Arc<Shared>,
    from: Arc<Tun>,
    /// The drops that the device counted before the path started.
    dropped_before: u64,
}

/// The source device and the destination device of a direction.
struct Ends<'a> {
    from: &'a Arc<Tun>,
    to: &'a Arc<Tun>,
    ring: Option<receiver::Ring>,
}

impl Wire {
    /// Connects two devices. After this call, only this path may read or write them.
    pub fn start(
        profile: &Profile,
        client: &Arc<Tun>,
        server: &Arc<Tun>,
        options: &WireOptions,
    ) -> Result<Wire> {
        let taps = match &options.capture {
            None => None,
            Some(file) => Some(Arc::new(Taps::create(
                file,
                profile,
                options.seed,
                options.clock,
                &options.comment,
                options.snap_length,
            )?)),
        };
        let acks: Option<Acks> = options.client_acks.map(|clock| {
            let seed = options.seed.stream("client.acks");
            Arc::new(Mutex::new(DelayedAck::new(clock, seed)))
        });
        let receiver = |wanted: bool, device: &Arc<Tun>| {
            let started = wanted.then(|| Receiver::start(device)).transpose();
            started.map(Option::unzip)
        };
        let (server_receiver, server_ring) = receiver(options.server_receives, server)?;
        let (client_receiver, client_ring) = receiver(options.client_receives, client)?;
        let start = |direction: Direction, from: &Arc<Tun>, to: &Arc<Tun>, ring| {
            let ends = Ends { from, to, ring };
            let link = Link::new(profile, direction, options.seed);
            Running::start(direction, link, ends, taps.clone(), acks.clone(), options)
        };
        Ok(Wire {
            up: start(Direction::Up, client, server, server_ring)?,
            down: start(Direction::Down, server, client, client_ring)?,
            limits: options.limits.unwrap_or_else(|| Limits::of(profile)),
            clock: options.clock,
            taps,
            server: server_receiver,
            client: client_receiver,
        })
    }

    /// The ID of the process that receives packets for the server's host, if a separate process does so.
    pub fn server_receiver(&self) -> Option<u32> {
        self.server.as_ref().map(Receiver::pid)
    }

    /// The ID of the process that receives packets for the client's host, if a separate process does so.
    pub fn client_receiver(&self) -> Option<u32> {
        self.client.as_ref().map(Receiver::pid)
    }

    /// Waits until no packet has been in flight for `quiet`, but no longer than `limit`. Returns whether the path
    /// became quiet. The packets after the last exchange close connections. They must be in the capture.
    pub fn settle(&self, quiet: Duration, limit: Duration) -> bool {
        let end = self.clock.now() + limit;
        loop {
            let now = self.clock.now();
            let directions = [&self.up, &self.down];
            let busy = directions
                .iter()
                .any(|one| one.shared.in_transit.load(Ordering::Acquire) > 0);
            let active = directions
                .iter()
                .map(|one| one.shared.active.load(Ordering::Acquire))
                .max()
                .map_or(Instant::ZERO, Instant::from_nanos);
            let silent = now.since(active);
            if !busy && silent >= quiet {
                return true;
            }
            if now >= end {
                return false;
            }
            let nap = quiet.saturating_sub(silent).max(Duration::from_millis(1));
            std::thread::sleep(nap.min(end.since(now)).min(Duration::from_millis(20)));
        }
    }

    /// Stops the path. [`Wire::end`] also returns packet counts.
    pub fn stop(self) -> (PathCertificate, Validity) {
        let carried = self.end();
        (carried.certificate, carried.validity)
    }

    /// Stops the path. Packets in flight are lost, but are not counted as drops.
    pub fn end(mut self) -> Carried {
        let mut validity = Validity::default();
        // Signal both threads before waiting for the first, so that both stop at about the same time.
        self.up.tell_to_stop();
        self.down.tell_to_stop();
        let (up, packets_up) = self.up.finish("up", self.limits, &mut validity);
        let (down, packets_down) = self.down.finish("down", self.limits, &mut validity);
        for (host, receiver) in [("server", &mut self.server), ("client", &mut self.client)] {
            let Some(receiver) = receiver else { continue };
            if let Some(reason) = receiver.stop() {
                validity.invalidate(format!(
                    "the {host}'s host stopped receiving packets: {reason}"
                ));
            }
            let refused = receiver.refused();
            if refused > 0 {
                validity.invalidate(format!(
                    "the {host}'s device refused {refused} packets (limit 0)"
                ));
            }
        }
        if let Some(taps) = self.taps.take().and_then(Arc::into_inner)
            && let Err(error) = taps.finish()
        {
            validity.invalidate(format!("the capture is not complete: {error}"));
        }
        Carried {
            certificate: PathCertificate { up, down },
            validity,
            packets: packets_up
                .zip(packets_down)
                .map(|(up, down)| PacketCounts { up, down }),
        }
    }
}

impl Drop for Wire {
    /// Stops both threads if the path was not ended before. Signals both before waiting for the first.
    fn drop(&mut self) {
        self.up.tell_to_stop();
        self.down.tell_to_stop();
    }
}

impl Drop for Running {
    /// Stops the thread, for example when the other direction failed to start.
    fn drop(&mut self) {
        self.tell_to_stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Running {
    fn start(
        direction: Direction,
        link: Link<Box<[u8]>>,
        ends: Ends<'_>,
        taps: Option<Arc<Taps>>,
        client_acks: Option<Acks>,
        options: &WireOptions,
    ) -> Result<Running> {
        let (acks_from, acks_to) = match direction {
            Direction::Up => (client_acks, None),
            Direction::Down => (None, client_acks),
        };
        let Ends { from, to, ring } = ends;
        let dropped_before = from.dropped()?;
        let shared = Arc::new(Shared::default());
        let (clock, spin) = (options.clock, options.spin);
        let counts = options.count_packets.then(|| Course::new(clock.now()));
        let (sender, result) = std::sync::mpsc::sync_channel(1);
        let thread = {
            let (from, to, shared) = (Arc::clone(from), Arc::clone(to), Arc::clone(&shared));
            std::thread::Builder::new()
                .name(format!("path-{}", direction.name()))
                .spawn(move || {
                    // Without the right to the highest priority, lateness increases. The certificate shows the
                    // lateness.
                    let _ = priority::set_real_time();
                    // The thread itself must create the waiter, because the waiter sets the timer slack of its own
                    // thread.
                    let waiter = match Waiter::new(clock) {
                        Ok(waiter) => waiter,
                        Err(error) => {
                            let failure = error.to_string();
                            let _ = sender.send(Err(error));
                            return Outcome::failed(failure);
                        }
                    };
                    let _ = sender.send(Ok(waiter.waker()));
                    let taps = taps.as_deref().map(|taps| taps.direction(direction));
                    Lane::new(Parts {
                        link,
                        from: &from,
                        to: &to,
                        ring,
                        clock,
                        waiter,
                        spin,
                        taps,
                        acks_from,
                        acks_to,
                        counts,
                        shared,
                    })
                    .run()
                })
                .map_err(|source| fathometer_sys::Error::System {
                    doing: "start a thread".to_owned(),
                    source,
                })?
        };
        let waker = result.recv().expect("the thread sends before it ends")?;
        Ok(Running {
            thread: Some(thread),
            waker,
            shared,
            from: Arc::clone(from),
            dropped_before,
        })
    }

    fn tell_to_stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn finish(
        &mut self,
        name: &str,
        limits: Limits,
        validity: &mut Validity,
    ) -> (DirectionCertificate, Option<Course>) {
        let thread = self.thread.take().expect("it is finished once");
        let Ok(outcome) = thread.join() else {
            validity.invalidate(format!("{name}: the path's thread panicked"));
            return (DirectionCertificate::default(), None);
        };
        let mut certificate = outcome.certificate;
        let refused = certificate.unasked_drops;
        match self.from.dropped() {
            Ok(dropped) => {
                let overflowed = dropped - self.dropped_before;
                certificate.unasked_drops += overflowed;
                if overflowed > 0 {
                    validity.invalidate(format!(
                        "{name}: {overflowed} packets lost in the ring of {} (limit 0)",
                        self.from.name()
                    ));
                }
            }
            Err(error) => validity.invalidate(format!("{name}: drops are unknown: {error}")),
        }
        if let Some(failure) = outcome.failure {
            validity.invalidate(format!("{name}: the path stopped: {failure}"));
        }
        if let Some(refusal) = outcome.refusal {
            validity.invalidate(format!(
                "{name}: {refused} packets lost (limit 0): {refusal}"
            ));
        }
        for (what, nanos, limit) in [
            ("p99", certificate.lateness_p99_ns, limits.p99),
            ("maximum", certificate.lateness_max_ns, limits.maximum),
        ] {
            let lateness = Duration::from_nanos(nanos);
            if lateness > limit {
                validity.invalidate(format!(
                    "{name}: lateness {what} {lateness:.3?} (limit {limit:?})"
                ));
            }
        }
        if outcome.longest_capture > limits.p99 {
            validity.invalidate(format!(
                "{name}: a packet waited {:.3?} for its capture (limit {:?})",
                outcome.longest_capture, limits.p99
            ));
        }
        (certificate, outcome.counts)
    }
}

//! The path on devices: two threads carry packets between the TUN devices of two hosts, as the
//! machine of `fathometer-path` says.
//!
//! ```text
//!  client ─ TUN ─► [up:   link, clock] ─► TUN ─ server
//!  client ◄ TUN ─  [down: link, clock] ◄─ TUN ─ server
//! ```
//!
//! Each thread reads one host's device and writes to the other's. A write runs the receiver's
//! TCP on the writing thread, so a direction's processor time belongs to its receiving host. A
//! thread sleeps until the next delivery is due or a packet comes, to the nanosecond as far as
//! the kernel keeps the promise; how late each delivery was is kept, and told in the
//! [`PathCertificate`]. What the experiment did not ask for (a full device ring, a refused write,
//! lateness beyond the [`Limits`], a capture that is not whole) is a reason against the
//! measurement in [`Validity`].
//!
//! The time of arrival is when the packet was read, not when the kernel queued it: how long it
//! lay in the device's ring is not known, and not in the lateness.

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

/// Longer than waking takes in nine cases of ten, also on virtual machines.
pub const USUAL_SPIN: Duration = Duration::from_micros(100);

/// How a path is run.
#[derive(Debug, Clone)]
pub struct WireOptions {
    /// Where every chance decision comes from.
    pub seed: Seed,
    /// The origin of all instants, shared with whoever measures at the ends.
    pub clock: Clock,
    /// The capture file to write, if any.
    pub capture: Option<PathBuf>,
    /// What the capture file should say about itself.
    pub comment: String,
    /// How long before a deadline a thread stops sleeping and polls, where that takes no more
    /// than an eighth of the wait. It hides the time that waking takes.
    pub spin: Duration,
    /// What lateness is still a measurement; `None` for [`Limits::of`] the profile.
    pub limits: Option<Limits>,
    /// The clock that the client's acknowledgements wait for, where its kernel cannot delay them
    /// as it should; its route must then have quick acknowledgements on.
    pub client_acks: Option<DelayedAckClock>,
    /// Whether the server's host receives in a process of its own, whose work can be charged to it
    /// ([`Wire::server_receiver`]); otherwise the path does that work.
    pub server_receives: bool,
    /// The same of the client's host ([`Wire::client_receiver`]).
    pub client_receives: bool,
    /// The most octets that the capture keeps of a packet; `None` keeps all.
    pub snap_length: Option<u32>,
    /// Whether packets are counted by class and time ([`Carried::packets`]).
    pub count_packets: bool,
}

impl WireOptions {
    /// No capture and no counts, [`USUAL_SPIN`], the usual limits, and a clock that starts now.
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

/// How late a path may be before its measurement is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For 99 deliveries in a hundred.
    pub p99: Duration,
    /// For every delivery.
    pub maximum: Duration,
}

impl Limits {
    /// For all but one delivery in a hundred a millisecond or a fiftieth of the round trip,
    /// whichever is more; for every delivery 20 ms or a tenth of it.
    pub fn of(profile: &Profile) -> Limits {
        let round_trip = profile.round_trip();
        Limits {
            p99: (round_trip / 50).max(Duration::from_millis(1)),
            maximum: (round_trip / 10).max(Duration::from_millis(20)),
        }
    }
}

/// What a path did, and whether it may be believed.
#[derive(Debug)]
pub struct Carried {
    /// What it did to packets, and how punctually.
    pub certificate: PathCertificate,
    /// What speaks against it.
    pub validity: Validity,
    /// The packets that it delivered, when they were counted.
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

/// One direction's thread and its ends.
#[derive(Debug)]
struct Running {
    thread: Option<JoinHandle<Outcome>>,
    waker: Waker,
    shared: Arc<Shared>,
    from: Arc<Tun>,
    /// What the device had dropped before the path began.
    dropped_before: u64,
}

/// Where a direction's packets come from and go to.
struct Ends<'a> {
    from: &'a Arc<Tun>,
    to: &'a Arc<Tun>,
    ring: Option<receiver::Ring>,
}

impl Wire {
    /// Joins two devices, which nobody else may read or write from now on.
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

    /// The process in which the server's host receives, as the kernel numbers it, when it has one.
    pub fn server_receiver(&self) -> Option<u32> {
        self.server.as_ref().map(Receiver::pid)
    }

    /// The same of the client's host.
    pub fn client_receiver(&self) -> Option<u32> {
        self.client.as_ref().map(Receiver::pid)
    }

    /// Waits until no packet has been under way for `quiet`, at most until `limit` has passed;
    /// says whether it became quiet. Both hosts being done, what is under way is the end of their
    /// connections, which belongs into a capture.
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

    /// Ends the path, for who wants no packets counted ([`Wire::end`]).
    pub fn stop(self) -> (PathCertificate, Validity) {
        let carried = self.end();
        (carried.certificate, carried.validity)
    }

    /// Ends the path. What is still under way is lost without being counted as a drop.
    pub fn end(mut self) -> Carried {
        let mut validity = Validity::default();
        // Both are told before either is waited for, so that neither carries on alone for long.
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
            validity.invalidate(format!("the capture is not whole: {error}"));
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
    /// A path that nobody asks for its certificate ends all the same.
    fn drop(&mut self) {
        for one in [&mut self.up, &mut self.down] {
            one.tell_to_stop();
            if let Some(thread) = one.thread.take() {
                let _ = thread.join();
            }
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
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let thread = {
            let (from, to, shared) = (Arc::clone(from), Arc::clone(to), Arc::clone(&shared));
            std::thread::Builder::new()
                .name(format!("path-{}", direction.name()))
                .spawn(move || {
                    // Without the right to be put first, deliveries are later; how much, the
                    // certificate tells.
                    let _ = priority::put_first();
                    // A waiter belongs to the thread that makes it: it sets the thread's slack.
                    let waiter = match Waiter::new(clock) {
                        Ok(waiter) => waiter,
                        Err(error) => {
                            let failure = error.to_string();
                            let _ = tell.send(Err(error));
                            return Outcome::failed(failure);
                        }
                    };
                    let _ = tell.send(Ok(waiter.waker()));
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
        let waker = told.recv().expect("the thread tells before it ends")?;
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
            validity.invalidate(format!("{name}: the path's thread died"));
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

//! The thread of one direction: reads packets from one host, and delivers each packet to the other host when it is due.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fathometer_model::{Bytes, DirectionCertificate, Instant};
use fathometer_path::{Arrival, DelayedAck, Delivery, Link, Outbound};
use fathometer_sys::{Clock, Interest, Tun, Waiter};

use super::counts::Course;
use super::lateness::Lateness;
use super::receiver::Ring;
use super::taps::DirectionTaps;

/// The maximum number of packets that are read before due deliveries are checked. So a burst does not delay deliveries.
const BURST: usize = 16;

/// The fraction of a wait in which the thread busy-waits: at most 1/8. This thread has a higher priority than all other
/// threads, so it must leave CPU time for them.
const SPIN_SHARE: u32 = 8;

/// The idle time after which buffered packets of the capture are written to disk.
const IDLE: Duration = Duration::from_millis(100);

/// The number of buffers that are allocated in advance; more buffers are allocated if the queue needs them.
const BUFFERS: usize = 64;

/// The drop reason of packets that did not fit into the receiving host's ring.
pub const RING_FULL: &str = "host-ring-full";

/// The maximum number of free buffers that are stored for reuse.
const POOL: usize = 4096;

/// State shared by the thread and its owner.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    /// The time at which a packet last entered or left the path, in nanoseconds of the clock.
    pub(super) active: AtomicU64,
    /// The number of packets in flight, plus 1 while the device may contain more packets.
    pub(super) in_transit: AtomicU64,
}

/// The result of a direction's thread.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The certificate, without the drops that only the devices count.
    pub(super) certificate: DirectionCertificate,
    /// The reason why the direction ended before it was told to stop.
    pub(super) failure: Option<String>,
    /// The first refused delivery.
    pub(super) refusal: Option<String>,
    /// The longest time that the path needed to capture a packet.
    pub(super) longest_capture: Duration,
    /// The delivered packets, if they are counted.
    pub(super) counts: Option<Course>,
}

impl Outcome {
    /// Returns the result of a direction that could not start.
    pub(super) fn failed(failure: String) -> Outcome {
        Outcome {
            certificate: DirectionCertificate::default(),
            failure: Some(failure),
            refusal: None,
            longest_capture: Duration::ZERO,
            counts: None,
        }
    }
}

/// One direction between two devices.
pub(super) struct Lane<'a> {
    link: Link<Box<[u8]>>,
    from: &'a Tun,
    to: &'a Tun,
    /// The ring of the receiving host, if a separate process receives packets for this host.
    ring: Option<Ring>,
    clock: Clock,
    waiter: Waiter,
    spin: Duration,
    taps: Option<DirectionTaps<'a>>,
    /// The delayed acknowledgements of the sending host and of the receiving host.
    acks_from: Option<Acks>,
    acks_to: Option<Acks>,
    counts: Option<Course>,
    shared: Arc<Shared>,
    pool: Vec<Box<[u8]>>,
    scratch: Vec<u8>,
    certificate: DirectionCertificate,
    lateness: Lateness,
    refusal: Option<String>,
}

/// The parts of a direction.
pub(super) struct Parts<'a> {
    pub(super) link: Link<Box<[u8]>>,
    pub(super) from: &'a Tun,
    pub(super) to: &'a Tun,
    /// The ring to which packets are written instead of `to`, if a separate process receives packets for the host.
    pub(super) ring: Option<Ring>,
    pub(super) clock: Clock,
    pub(super) waiter: Waiter,
    /// The time before a deadline in which the thread polls instead of sleeping.
    pub(super) spin: Duration,
    pub(super) taps: Option<DirectionTaps<'a>>,
    /// The delayed acknowledgements of the sending host.
    pub(super) acks_from: Option<Acks>,
    /// The delayed acknowledgements of the receiving host. They depend on the packets that are delivered to that host.
    pub(super) acks_to: Option<Acks>,
    /// Counts of delivered packets, if enabled.
    pub(super) counts: Option<Course>,
    pub(super) shared: Arc<Shared>,
}

/// A host's delayed acknowledgements, shared by both directions.
pub(super) type Acks = Arc<Mutex<DelayedAck>>;

fn lock(acks: &Acks) -> MutexGuard<'_, DelayedAck> {
    acks.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Lane<'a> {
    pub(super) fn new(parts: Parts<'a>) -> Lane<'a> {
        let mtu = parts.from.mtu() as usize;
        Lane {
            link: parts.link,
            from: parts.from,
            to: parts.to,
            ring: parts.ring,
            clock: parts.clock,
            waiter: parts.waiter,
            spin: parts.spin,
            taps: parts.taps,
            acks_from: parts.acks_from,
            acks_to: parts.acks_to,
            counts: parts.counts,
            shared: parts.shared,
            pool: (0..BUFFERS).map(|_| vec![0; mtu].into()).collect(),
            scratch: Vec::with_capacity(mtu),
            certificate: DirectionCertificate::default(),
            lateness: Lateness::new(),
            refusal: None,
        }
    }

    /// Carries packets until it is stopped.
    pub(super) fn run(mut self) -> Outcome {
        let failure = loop {
            if self.shared.stop.load(Ordering::Acquire) {
                break None;
            }
            let more = match self.take_in() {
                Ok(more) => more,
                Err(error) => break Some(format!("reading {}: {error}", self.from.name())),
            };
            self.release_acks();
            self.hand_over();
            let held = self.acks_from.as_ref().map_or(0, |acks| lock(acks).held());
            let in_transit = (self.link.in_transit() + held) as u64;
            self.shared
                .in_transit
                .store(in_transit + u64::from(more), Ordering::Release);
            if more {
                continue;
            }
            if let Err(error) = self.rest() {
                break Some(error.to_string());
            }
        };
        self.certificate.lateness_p50_ns = self.lateness.quantile(0.5);
        self.certificate.lateness_p99_ns = self.lateness.quantile(0.99);
        self.certificate.lateness_max_ns = self.lateness.maximum();
        Outcome {
            certificate: self.certificate,
            failure,
            refusal: self.refusal,
            longest_capture: self.taps.map_or(Duration::ZERO, |taps| taps.longest()),
            counts: self.counts,
        }
    }

    /// Waits for a packet, the due time of the next delivery, or a request to stop.
    fn rest(&mut self) -> fathometer_sys::Result<()> {
        let source = [(self.from.as_fd(), Interest::Read)];
        let now = self.clock.now();
        let tick = self
            .acks_from
            .as_ref()
            .and_then(|acks| lock(acks).next_due());
        let due = [self.link.next_due(), tick].into_iter().flatten().min();
        let Some(due) = due else {
            if let Some(taps) = self.taps.as_mut().filter(|taps| taps.has_news()) {
                if self.waiter.wait(&source, Some(now + IDLE))?.timed_out() {
                    taps.save();
                }
                return Ok(());
            }
            return self.waiter.wait(&source, None).map(drop);
        };
        if self.spin.is_zero() || due.since(now) < SPIN_SHARE * self.spin {
            return self.waiter.wait(&source, Some(due)).map(drop);
        }
        let early = Instant::from_nanos(due.as_nanos() - self.spin.as_nanos() as u64);
        let mut ready = self.waiter.wait(&source, Some(early))?;
        while ready.timed_out() && ready.now < due {
            ready = self.waiter.wait(&source, Some(Instant::ZERO))?;
        }
        Ok(())
    }

    /// Reads packets up to [`BURST`]. Returns whether there may be more packets.
    fn take_in(&mut self) -> std::io::Result<bool> {
        for _ in 0..BURST {
            let mut buffer = match self.pool.pop() {
                Some(buffer) => buffer,
                None => vec![0; self.from.mtu() as usize].into(),
            };
            let Some(length) = self.from.read(&mut buffer)? else {
                self.pool.push(buffer);
                return Ok(false);
            };
            let now = self.clock.now();
            self.shared.active.store(now.as_nanos(), Ordering::Release);
            let held = self
                .acks_from
                .as_ref()
                .is_some_and(|acks| lock(acks).outbound(now, &buffer[..length]) == Outbound::Held);
            if held {
                self.recycle(buffer);
            } else {
                self.arrive(now, length, buffer);
            }
        }
        Ok(true)
    }

    /// Sends the delayed acknowledgements that are due.
    fn release_acks(&mut self) {
        let Some(acks) = self.acks_from.clone() else {
            return;
        };
        let mut acks = lock(&acks);
        let now = self.clock.now();
        while let Some(packet) = acks.release(now) {
            let mut buffer = match self.pool.pop() {
                Some(buffer) => buffer,
                None => vec![0; self.from.mtu() as usize].into(),
            };
            buffer[..packet.len()].copy_from_slice(packet);
            self.arrive(now, packet.len(), buffer);
        }
    }

    fn arrive(&mut self, now: Instant, length: usize, buffer: Box<[u8]>) {
        self.certificate.packets_in += 1;
        self.certificate.bytes_in += Bytes(length as u64);
        // The link takes ownership of the buffer before the capture's metadata is available, so the packet is copied.
        if self.taps.is_some() {
            self.scratch.clear();
            self.scratch.extend_from_slice(&buffer[..length]);
        }
        let (index, depth, dropped) = match self.link.arrive(now, length as u32, buffer) {
            Arrival::Accepted { index, depth } => (index, depth, None),
            Arrival::Dropped(dropped) => {
                count(&mut self.certificate.drops, dropped.reason.name());
                self.pool.push(dropped.payload);
                (dropped.index, dropped.depth, Some(dropped.reason))
            }
        };
        if let Some(taps) = &mut self.taps {
            taps.sent(now, index, depth, dropped, &self.scratch);
        }
    }

    /// Delivers all packets that are due.
    fn hand_over(&mut self) {
        let mut now = self.clock.now();
        while let Some(delivery) = self.link.deliver(now) {
            now = self.deliver(now, delivery);
        }
        while let Some(dropped) = self.link.poll_drop() {
            count(&mut self.certificate.drops, dropped.reason.name());
            if let Some(taps) = &mut self.taps {
                let packet = &dropped.payload[..dropped.length as usize];
                taps.dropped(
                    dropped.at,
                    dropped.index,
                    dropped.depth,
                    dropped.reason,
                    packet,
                );
            }
            self.recycle(dropped.payload);
        }
    }

    /// Writes a packet to the receiving host, whose kernel processes the packet on this thread. The time stamp is taken
    /// before the write, so that no response appears to precede the packet.
    fn deliver(&mut self, now: Instant, delivery: Delivery<Box<[u8]>>) -> Instant {
        let packet = &delivery.payload[..delivery.length as usize];
        let late = now.since(delivery.scheduled);
        let mut time = now;
        if let Some(acks) = &self.acks_to {
            lock(acks).inbound(packet);
        }
        for copy in 0..delivery.copies {
            if let Some(taps) = &mut self.taps {
                taps.received(time, delivery.index, late, copy > 0, packet);
            }
            let handed = match &mut self.ring {
                None => self.to.write(packet).map(|()| true),
                Some(ring) => Ok(ring.push(packet)),
            };
            match handed {
                Ok(true) => {
                    self.certificate.packets_out += 1;
                    self.certificate.bytes_out += Bytes(u64::from(delivery.length));
                    if let Some(counts) = &mut self.counts {
                        counts.count(time, packet);
                    }
                }
                Ok(false) => count(&mut self.certificate.drops, RING_FULL),
                Err(error) => {
                    self.certificate.unasked_drops += 1;
                    let device = self.to.name();
                    self.refusal
                        .get_or_insert_with(|| format!("{device} refused a packet: {error}"));
                }
            }
            self.lateness
                .record(time.since(delivery.scheduled).as_nanos() as u64);
            time = self.clock.now();
        }
        self.shared.active.store(time.as_nanos(), Ordering::Release);
        self.recycle(delivery.payload);
        time
    }

    fn recycle(&mut self, buffer: Box<[u8]>) {
        if self.pool.len() < POOL {
            self.pool.push(buffer);
        }
    }
}

fn count(drops: &mut BTreeMap<String, u64>, reason: &str) {
    match drops.get_mut(reason) {
        Some(count) => *count += 1,
        None => {
            drops.insert(reason.to_owned(), 1);
        }
    }
}

//! The capture of a path: the points at which packets are recorded, and the comment on each.
//!
//! | interface | packets | comment |
//! |---|---|---|
//! | `client.tx` | sent by the client, when they enter the path | number, length of the queue before it, drop reason |
//! | `server.rx` | delivered to the server, just before its kernel | number, lateness |
//! | `server.tx` | sent by the server | as `client.tx` |
//! | `client.rx` | delivered to the client | as `server.rx` |
//! | `up.drop`, `down.drop` | dropped by CoDel | number, reason, length of the queue after it |
//!
//! Comments are pairs `key=value`: `packet=17 queue_packets=3 queue_bytes=4500`, with `drop=loss` if the packet was
//! dropped there, and `packet=17 late_ns=8312`, with `copy=2` for the second copy of a duplicated packet. `packet` is
//! the number of the packet in this direction, counted from 0 in the order of entry. It identifies a packet at both
//! taps of a direction. A profile's drop list uses the same numbers.

use std::fmt::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use fathometer_model::{Instant, Seed};
use fathometer_path::{Depth, Direction, DropReason, Profile, Queue};
use fathometer_sys::pcapng::{self, CaptureWriter, Packet, Section, Tap};
use fathometer_sys::{Clock, Result};

/// The capture file, to which both directions write.
#[derive(Debug)]
pub(super) struct Taps {
    writer: Mutex<CaptureWriter>,
    clock: Clock,
}

/// The capture of one direction.
#[derive(Debug)]
pub(super) struct DirectionTaps<'a> {
    taps: &'a Taps,
    /// The indices of this direction's interfaces in the file.
    sent: u32,
    received: u32,
    dropped: u32,
    comment: String,
    news: bool,
    /// The longest time that the path needed to capture a packet.
    longest: Duration,
}

impl Taps {
    /// Creates the file. `comment` describes the capture, and `snap_length` is the maximum number of bytes of each
    /// packet.
    pub(super) fn create(
        file: &Path,
        profile: &Profile,
        seed: Seed,
        clock: Clock,
        comment: &str,
        snap_length: Option<u32>,
    ) -> Result<Taps> {
        let mut what = format!("path {profile}; seed {seed}");
        if !comment.is_empty() {
            what = format!("{comment}; {what}");
        }
        let section = Section {
            os: format!("Linux {}", release()),
            application: concat!("fathometer ", env!("CARGO_PKG_VERSION")).to_owned(),
            comment: what,
            ..Section::default()
        };
        let tap = |name: &str, description: &str, direction: Direction| Tap {
            name: name.to_owned(),
            description: description.to_owned(),
            snap_length: snap_length.unwrap_or(0),
            bits_per_second: profile
                .direction(direction)
                .rate
                .map(fathometer_model::Bandwidth::as_bits_per_second),
        };
        let mut taps = vec![
            tap("client.tx", "packets that the client sends", Direction::Up),
            tap(
                "server.rx",
                "packets delivered to the server",
                Direction::Up,
            ),
            tap(
                "server.tx",
                "packets that the server sends",
                Direction::Down,
            ),
            tap(
                "client.rx",
                "packets delivered to the client",
                Direction::Down,
            ),
        ];
        if [&profile.up, &profile.down]
            .iter()
            .any(|direction| matches!(direction.queue, Queue::Codel(_)))
        {
            taps.push(tap("up.drop", "packets that CoDel dropped", Direction::Up));
            taps.push(tap(
                "down.drop",
                "packets that CoDel dropped",
                Direction::Down,
            ));
        }
        Ok(Taps {
            writer: Mutex::new(CaptureWriter::create(file, &section, &taps)?),
            clock,
        })
    }

    pub(super) fn direction(&self, direction: Direction) -> DirectionTaps<'_> {
        let place = match direction {
            Direction::Up => 0,
            Direction::Down => 1,
        };
        DirectionTaps {
            taps: self,
            sent: 2 * place,
            received: 2 * place + 1,
            dropped: 4 + place,
            comment: String::with_capacity(80),
            news: false,
            longest: Duration::ZERO,
        }
    }

    /// Waits until the file is complete. Returns an error if a part of the capture was lost.
    pub(super) fn finish(self) -> Result<()> {
        let writer = self.writer.into_inner();
        writer.unwrap_or_else(|lock| lock.into_inner()).finish()
    }
}

impl DirectionTaps<'_> {
    /// Records a packet that enters the path, or that is dropped on entry.
    pub(super) fn sent(
        &mut self,
        at: Instant,
        index: u64,
        depth: Depth,
        dropped: Option<DropReason>,
        packet: &[u8],
    ) {
        self.begin(index);
        self.note(format_args!(
            " queue_packets={} queue_bytes={}",
            depth.packets, depth.bytes.0
        ));
        if let Some(reason) = dropped {
            self.note(format_args!(" drop={reason}"));
        }
        self.write(self.sent, at, packet);
    }

    /// Records a packet that is about to be delivered to the receiving host.
    pub(super) fn received(
        &mut self,
        at: Instant,
        index: u64,
        late: Duration,
        copy: bool,
        packet: &[u8],
    ) {
        self.begin(index);
        self.note(format_args!(" late_ns={}", late.as_nanos()));
        if copy {
            self.note(format_args!(" copy=2"));
        }
        self.write(self.received, at, packet);
    }

    /// Records a packet that the queue dropped after accepting it.
    pub(super) fn dropped(
        &mut self,
        at: Instant,
        index: u64,
        depth: Depth,
        reason: DropReason,
        packet: &[u8],
    ) {
        self.begin(index);
        self.note(format_args!(
            " queue_packets={} queue_bytes={} drop={reason}",
            depth.packets, depth.bytes.0
        ));
        self.write(self.dropped, at, packet);
    }

    /// Whether packets have been recorded since the last [`DirectionTaps::save`].
    pub(super) fn has_news(&self) -> bool {
        self.news
    }

    /// Starts to write buffered data to the disk.
    pub(super) fn save(&mut self) {
        self.lock().flush();
        self.news = false;
    }

    /// The longest time that the path needed to capture a packet.
    pub(super) fn longest(&self) -> Duration {
        self.longest
    }

    fn begin(&mut self, index: u64) {
        self.comment.clear();
        self.note(format_args!("packet={index}"));
    }

    fn note(&mut self, text: std::fmt::Arguments<'_>) {
        self.comment
            .write_fmt(text)
            .expect("a string takes any text");
    }

    fn write(&mut self, tap: u32, at: Instant, data: &[u8]) {
        self.news = true;
        let clock = self.taps.clock;
        let before = clock.now();
        self.lock().packet(&Packet {
            tap,
            time: clock.realtime_of(at),
            data,
            direction: Some(if tap == self.received {
                pcapng::Direction::Inbound
            } else {
                pcapng::Direction::Outbound
            }),
            comment: &self.comment,
            drops: 0,
        });
        self.longest = self.longest.max(clock.now().since(before));
    }

    fn lock(&self) -> MutexGuard<'_, CaptureWriter> {
        let writer = &self.taps.writer;
        writer.lock().unwrap_or_else(|lock| lock.into_inner())
    }
}

fn release() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}

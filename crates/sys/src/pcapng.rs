//! Capture files in pcapng (draft-ietf-opsawg-pcapng), written during a run.
//!
//! A file has one section and any number of interfaces of raw IP packets (`LINKTYPE_RAW`: the first nibble is the IP
//! version), with nanosecond time stamps. Each packet has its direction, a comment (the cause of a drop, the length of
//! the queue) and a count of drops, in options that Wireshark displays.
//!
//! [`CaptureWriter::packet`] copies the packet into memory and returns. A separate thread writes whole blocks, so a
//! slow disk does not delay the path. When a packet arrives, packets older than [`LONGEST_IN_MEMORY`] are written to
//! the kernel; [`CaptureWriter::flush`] writes all packets. Written packets remain in the file if the program is
//! killed. The first write error (a full disk) is stored and returned by every later call that can fail. After an error
//! the file is truncated to its last whole block, so it stays readable.
//!
//! This module does not read captures; analysis does.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Doing, Error, Result};

/// Packets are passed to the writing thread when the buffer has reached this many bytes.
const BUFFER: usize = 256 * 1024;

/// The number of buffers that may wait for the disk before [`CaptureWriter::packet`] blocks.
const WAITING: usize = 64;

/// Packets are passed to the writing thread when the oldest packet has waited this long, by the packets' time stamps.
pub const LONGEST_IN_MEMORY: Duration = Duration::from_millis(250);

/// `LINKTYPE_RAW`: the packet begins with an IPv4 or IPv6 header.
const LINKTYPE_RAW: u16 = 101;

/// The origin of a capture: the machine, the system and the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section {
    /// The machine, for example its processor's model name.
    pub hardware: String,
    /// The operating system and its release.
    pub os: String,
    /// The program and its version.
    pub application: String,
    /// Any other information, for example the cell and the seed.
    pub comment: String,
}

/// A tap: a point at which packets are captured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tap {
    /// The tap's name, as in `up-in`.
    pub name: String,
    /// The description for readers of the capture.
    pub description: String,
    /// The maximum number of captured bytes per packet; 0: unlimited. Longer packets are truncated, with their original
    /// length recorded.
    pub snap_length: u32,
    /// The rate of the tap's link, in bit/s, if it has a rate.
    pub bits_per_second: Option<u64>,
}

/// The direction in which a packet passed a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Towards the observer.
    Inbound,
    /// Away from the observer.
    Outbound,
}

/// One packet at one tap.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The index of the tap in the list given to [`CaptureWriter::create`].
    pub tap: u32,
    /// The time of capture since the Unix epoch ([`Clock::realtime_of`](crate::Clock::realtime_of)).
    pub time: Duration,
    /// The IP packet.
    pub data: &'a [u8],
    /// The packet's direction.
    pub direction: Option<Direction>,
    /// A comment; empty for none.
    pub comment: &'a str,
    /// The number of packets lost at this tap between the previous packet and this packet.
    pub drops: u64,
}

/// Writes one capture file.
#[derive(Debug)]
pub struct CaptureWriter {
    taps: Vec<u32>,
    buffer: Vec<u8>,
    oldest: Option<Duration>,
    packets: u64,
    full: SyncSender<Work>,
    spare: Receiver<Vec<u8>>,
    failure: Arc<Mutex<Option<Failure>>>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Work {
    Write(Vec<u8>),
    Notify(Sender<()>),
}

#[derive(Debug, Clone)]
struct Failure {
    errno: Option<i32>,
    message: String,
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const OPT_COMMENT: u16 = 1;
const SHB_HARDWARE: u16 = 2;
const SHB_OS: u16 = 3;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_SPEED: u16 = 8;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const EPB_DROPCOUNT: u16 = 4;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;

impl CaptureWriter {
    /// Creates or overwrites a file and writes its header blocks.
    pub fn create(path: &Path, section: &Section, taps: &[Tap]) -> Result<CaptureWriter> {
        let mut file = File::create(path).doing(format!("create {}", path.display()))?;
        let head = head(section, taps);
        file.write_all(&head)
            .map_err(|error| Failure::of(&error).with_path(path))?;
        let (full, work) = sync_channel(WAITING);
        let (give_back, spare) = channel();
        let failure = Arc::new(Mutex::new(None));
        let thread = {
            let failure = Arc::clone(&failure);
            let whole = head.len() as u64;
            std::thread::Builder::new()
                .name("capture".to_owned())
                .spawn(move || write_blocks(file, whole, &work, &give_back, &failure))
                .doing("start a thread")?
        };
        Ok(CaptureWriter {
            taps: taps.iter().map(|tap| tap.snap_length).collect(),
            buffer: Vec::with_capacity(BUFFER + 4096),
            oldest: None,
            packets: 0,
            full,
            spare,
            failure,
            path: path.to_owned(),
            thread: Some(thread),
        })
    }

    /// Records one packet. Does not access the disk.
    ///
    /// # Panics
    /// If there is no tap with this index.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        let snap = match self.taps[packet.tap as usize] {
            0 => usize::MAX,
            length => length as usize,
        };
        let kept = &packet.data[..packet.data.len().min(snap)];
        let start = begin(&mut self.buffer, ENHANCED_PACKET);
        let stamp = packet.time.as_nanos() as u64;
        self.buffer.extend_from_slice(&packet.tap.to_le_bytes());
        put_stamp(&mut self.buffer, stamp);
        for length in [kept.len(), packet.data.len()] {
            self.buffer
                .extend_from_slice(&(length as u32).to_le_bytes());
        }
        self.buffer.extend_from_slice(kept);
        pad(&mut self.buffer);
        if let Some(direction) = packet.direction {
            let flags: u32 = match direction {
                Direction::Inbound => 1,
                Direction::Outbound => 2,
            };
            option(&mut self.buffer, EPB_FLAGS, &flags.to_le_bytes());
        }
        if packet.drops > 0 {
            option(&mut self.buffer, EPB_DROPCOUNT, &packet.drops.to_le_bytes());
        }
        text(&mut self.buffer, OPT_COMMENT, packet.comment);
        end(&mut self.buffer, start);
        self.packets += 1;
        let oldest = *self.oldest.get_or_insert(packet.time);
        let waited = packet.time.saturating_sub(oldest);
        if self.buffer.len() >= BUFFER || waited >= LONGEST_IN_MEMORY {
            self.flush();
        }
    }

    /// Records the total numbers of packets that a tap received and lost, up to `time`.
    ///
    /// # Panics
    /// If there is no tap with this index.
    pub fn statistics(&mut self, tap: u32, time: Duration, received: u64, dropped: u64) {
        assert!((tap as usize) < self.taps.len(), "no tap {tap}");
        let start = begin(&mut self.buffer, INTERFACE_STATISTICS);
        self.buffer.extend_from_slice(&tap.to_le_bytes());
        put_stamp(&mut self.buffer, time.as_nanos() as u64);
        option(&mut self.buffer, ISB_IFRECV, &received.to_le_bytes());
        option(&mut self.buffer, ISB_IFDROP, &dropped.to_le_bytes());
        end(&mut self.buffer, start);
    }

    /// Passes all packets in memory to the writing thread, for example when the path becomes idle. Blocks only if 16 MiB
    /// wait for the disk.
    pub fn flush(&mut self) {
        self.oldest = None;
        if self.buffer.is_empty() {
            return;
        }
        let fresh = self.spare.try_recv().unwrap_or_default();
        let blocks = std::mem::replace(&mut self.buffer, fresh);
        if let Err(TrySendError::Full(work)) = self.full.try_send(Work::Write(blocks)) {
            // The thread receives until this sender is dropped, so sending never blocks forever.
            let _ = self.full.send(work);
        }
    }

    /// Waits until all packets recorded so far are written to the kernel. Fails if any packet was lost.
    pub fn sync(&mut self) -> Result<()> {
        self.flush();
        let (done, wait) = channel();
        if self.full.send(Work::Notify(done)).is_ok() {
            let _ = wait.recv();
        }
        self.check()
    }

    /// Returns the first write error, if any. Does not wait.
    pub fn check(&self) -> Result<()> {
        let failure = self.failure.lock().unwrap_or_else(|lock| lock.into_inner());
        match &*failure {
            None => Ok(()),
            Some(failure) => Err(failure.with_path(&self.path)),
        }
    }

    /// Returns the number of packets recorded so far, at all taps.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Writes the remaining packets and closes the file. Dropping the writer does the same but discards the
    /// error.
    pub fn finish(mut self) -> Result<()> {
        self.sync()
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        self.flush();
        // The thread exits when its channel closes, so the sender is replaced by an unconnected sender.
        self.full = sync_channel(0).0;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is ignored: the error that it recorded is reported.
            let _ = thread.join();
        }
    }
}

impl Failure {
    fn of(error: &io::Error) -> Failure {
        Failure {
            errno: error.raw_os_error(),
            message: error.to_string(),
        }
    }

    fn with_path(&self, path: &Path) -> Error {
        match self.errno {
            Some(libc::ENOSPC | libc::EDQUOT) => Error::DiskFull {
                path: path.to_owned(),
            },
            errno => Error::System {
                doing: format!("write {}", path.display()),
                source: errno.map_or_else(
                    || io::Error::other(self.message.clone()),
                    io::Error::from_raw_os_error,
                ),
            },
        }
    }
}

fn write_blocks(
    mut file: File,
    mut whole: u64,
    work: &Receiver<Work>,
    give_back: &Sender<Vec<u8>>,
    failure: &Mutex<Option<Failure>>,
) {
    let mut failed = false;
    for work in work {
        let mut blocks = match work {
            Work::Write(blocks) => blocks,
            Work::Notify(done) => {
                // The caller may no longer wait.
                let _ = done.send(());
                continue;
            }
        };
        // After an error, later blocks are discarded, because a gap in the file could not be detected.
        if !failed {
            match file.write_all(&blocks) {
                Ok(()) => whole += blocks.len() as u64,
                Err(error) => {
                    failed = true;
                    // Removes a partly written block at the end. If the removal fails too, readers must tolerate the
                    // incomplete block.
                    let _ = file.set_len(whole);
                    let mut failure = failure.lock().unwrap_or_else(|lock| lock.into_inner());
                    *failure = Some(Failure::of(&error));
                }
            }
        }
        blocks.clear();
        // Fails while the writer is closing.
        let _ = give_back.send(blocks);
    }
}

fn head(section: &Section, taps: &[Tap]) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin(&mut out, SECTION_HEADER);
    out.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
    out.extend_from_slice(&1u16.to_le_bytes());
    out.extend_from_slice(&0u16.to_le_bytes());
    // The length of the section is not known in advance.
    out.extend_from_slice(&u64::MAX.to_le_bytes());
    text(&mut out, SHB_HARDWARE, &section.hardware);
    text(&mut out, SHB_OS, &section.os);
    text(&mut out, SHB_USERAPPL, &section.application);
    text(&mut out, OPT_COMMENT, &section.comment);
    end(&mut out, start);
    for tap in taps {
        let start = begin(&mut out, INTERFACE_DESCRIPTION);
        out.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
        out.extend_from_slice(&tap.snap_length.to_le_bytes());
        text(&mut out, IF_NAME, &tap.name);
        text(&mut out, IF_DESCRIPTION, &tap.description);
        if let Some(rate) = tap.bits_per_second {
            option(&mut out, IF_SPEED, &rate.to_le_bytes());
        }
        option(&mut out, IF_TSRESOL, &[9]);
        end(&mut out, start);
    }
    out
}

/// Starts a block and returns its offset.
fn begin(out: &mut Vec<u8>, kind: u32) -> usize {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    start
}

/// Ends the options and the block that began at `start`.
fn end(out: &mut Vec<u8>, start: usize) {
    out.extend_from_slice(&[0; 4]);
    let length = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
}

fn put_stamp(out: &mut Vec<u8>, stamp: u64) {
    out.extend_from_slice(&((stamp >> 32) as u32).to_le_bytes());
    out.extend_from_slice(&(stamp as u32).to_le_bytes());
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let length = value.len().min(usize::from(u16::MAX));
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(length as u16).to_le_bytes());
    out.extend_from_slice(&value[..length]);
    pad(out);
}

fn text(out: &mut Vec<u8>, code: u16, value: &str) {
    if !value.is_empty() {
        option(out, code, value.as_bytes());
    }
}

/// Pads a block or a field to a multiple of four bytes.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a file into its blocks, and checks both lengths of each block. Returns types and bodies.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let length = word(bytes, 4) as usize;
            assert_eq!(length % 4, 0);
            assert_eq!(word(bytes, length - 4) as usize, length);
            blocks.push((word(bytes, 0), bytes[8..length - 4].to_vec()));
            bytes = &bytes[length..];
        }
        blocks
    }

    fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut options = Vec::new();
        loop {
            let code = word(bytes, 0) as u16;
            let length = (word(bytes, 0) >> 16) as usize;
            if code == 0 {
                assert_eq!(bytes.len(), 4, "the end of options ends the block");
                return options;
            }
            options.push((code, bytes[4..4 + length].to_vec()));
            bytes = &bytes[4 + length.next_multiple_of(4)..];
        }
    }

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    fn taps() -> [Tap; 2] {
        [
            Tap {
                name: "up-in".to_owned(),
                ..Tap::default()
            },
            Tap {
                name: "up-out".to_owned(),
                description: "after the queue".to_owned(),
                snap_length: 6,
                bits_per_second: Some(28_800),
            },
        ]
    }

    fn packet(tap: u32, nanoseconds: u64, data: &[u8]) -> Packet<'_> {
        Packet {
            tap,
            time: Duration::from_nanos(nanoseconds),
            data,
            direction: None,
            comment: "",
            drops: 0,
        }
    }

    #[test]
    fn written_blocks_follow_the_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcapng");
        let section = Section {
            application: "fathometer".to_owned(),
            comment: "seed 7".to_owned(),
            ..Section::default()
        };
        let mut writer = CaptureWriter::create(&path, &section, &taps()).unwrap();
        let time = 1_700_000_000_123_456_789;
        writer.packet(&packet(0, time, &[0x45, 1, 2, 3, 4]));
        writer.packet(&Packet {
            direction: Some(Direction::Outbound),
            comment: "queue-full",
            drops: 3,
            ..packet(1, time + 1, &[0x60; 40])
        });
        writer.statistics(1, Duration::from_nanos(time + 2), 9, 3);
        assert_eq!(writer.packets(), 2);
        writer.finish().unwrap();

        let blocks = blocks(&std::fs::read(&path).unwrap());
        let kinds: Vec<u32> = blocks.iter().map(|block| block.0).collect();
        assert_eq!(kinds, [SECTION_HEADER, 1, 1, 6, 6, 5]);
        assert_eq!(word(&blocks[0].1, 0), 0x1a2b_3c4d);
        assert_eq!(
            options(&blocks[0].1[16..]),
            [(4, b"fathometer".to_vec()), (1, b"seed 7".to_vec())]
        );
        assert_eq!(blocks[2].1[..8], [101, 0, 0, 0, 6, 0, 0, 0]);
        assert_eq!(
            options(&blocks[2].1[8..]),
            [
                (2, b"up-out".to_vec()),
                (3, b"after the queue".to_vec()),
                (8, 28_800u64.to_le_bytes().to_vec()),
                (9, vec![9])
            ]
        );
        let first = &blocks[3].1;
        let stamp = u64::from(word(first, 4)) << 32 | u64::from(word(first, 8));
        assert_eq!((word(first, 0), stamp), (0, time));
        assert_eq!((word(first, 12), word(first, 16)), (5, 5));
        assert_eq!(first[20..28], [0x45, 1, 2, 3, 4, 0, 0, 0]);
        let second = &blocks[4].1;
        assert_eq!((word(second, 12), word(second, 16)), (6, 40));
        assert_eq!(
            options(&second[28..]),
            [
                (2, vec![2, 0, 0, 0]),
                (4, 3u64.to_le_bytes().to_vec()),
                (1, b"queue-full".to_vec())
            ]
        );
    }

    #[test]
    fn the_file_is_whole_after_every_sync_and_packets_do_not_wait_for_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcapng");
        let mut writer = CaptureWriter::create(&path, &Section::default(), &taps()).unwrap();
        let count = || blocks(&std::fs::read(&path).unwrap()).len();
        assert_eq!(count(), 3, "headers are there from the start");
        writer.packet(&packet(0, 0, &[0x45; 1500]));
        writer.sync().unwrap();
        assert_eq!(count(), 4);
        writer.packet(&packet(0, 1, &[0x45; 1500]));
        let late = 1 + LONGEST_IN_MEMORY.as_nanos() as u64;
        writer.packet(&packet(0, late, &[0x45; 1500]));
        assert!(
            writer.buffer.is_empty(),
            "the age of the oldest packet counts"
        );
        for n in 0..1000 {
            writer.packet(&packet(0, late + n, &[0x45; 1500]));
            assert!(writer.buffer.len() < BUFFER);
        }
        drop(writer);
        assert_eq!(count(), 1006);
    }

    #[test]
    fn a_full_disk_is_reported_and_stored() {
        // /dev/full can be opened, and every write to it fails with ENOSPC.
        let error = CaptureWriter::create(Path::new("/dev/full"), &Section::default(), &taps());
        assert!(matches!(error, Err(Error::DiskFull { .. })), "{error:?}");

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcapng");
        let (full, work) = sync_channel(4);
        let (give_back, _spare) = channel();
        let failure = Mutex::new(None);
        // A file without write permission imitates a disk that fails midway.
        std::fs::write(&path, b"head").unwrap();
        for blocks in [vec![1; 4], vec![2; 4]] {
            full.send(Work::Write(blocks)).unwrap();
        }
        drop(full);
        let file = File::open(&path).unwrap();
        write_blocks(file, 4, &work, &give_back, &failure);
        let failure = failure.into_inner().unwrap().unwrap();
        assert_eq!(failure.errno, Some(libc::EBADF));
        assert_eq!(std::fs::read(&path).unwrap(), b"head");
        assert!(failure.with_path(&path).to_string().contains("a.pcapng"));
    }
}

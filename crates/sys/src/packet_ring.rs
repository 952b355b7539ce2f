//! A ring of packets in memory that two processes share: one process adds packets, the other removes them.
//!
//! Neither side locks or waits. A process may be stopped at any instruction, for example because its control group has
//! used up its CPU time; the other process can continue. The ring only reports that the sleeping receiver must be
//! woken; the program that uses the ring wakes it with a [`Waker`](crate::Waker).
//!
//! Packets are in slots of equal size. The shared memory has two queues of slot numbers: full slots, and empty slots that
//! return to the sender. The sender reuses the most recently returned slot first, so that few packets in flight touch
//! little memory.
//!
//! ```text
//! header │ numbers of full slots │ numbers of empty slots │ slot 0 │ slot 1 │ …
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::{Doing, Error, Result};

// The offsets of the header's words, each on its own cache line.
const SLOTS: usize = 0;
const SLOT_BYTES: usize = 4;
/// The number of full slots added so far; written by the sender.
const FULL_IN: usize = 64;
/// The number of empty slots returned so far; written by the receiver.
const EMPTY_IN: usize = 128;
/// Whether the receiver sleeps, or is about to sleep.
const ASLEEP: usize = 192;
/// The number of packets that could not be delivered.
const REFUSED: usize = 256;
const HEADER: usize = 512;

/// The largest ring whose memory a receiver populates before the first packet arrives.
const POPULATED: usize = 8 << 20;

/// The mapped memory.
#[derive(Debug)]
struct Shared {
    start: *mut u8,
    length: usize,
    slots: u32,
    slot_bytes: usize,
}

// SAFETY: the pointer is to a mapping that lives as long as the value. All words in it are accessed as
// atomics. A slot is accessed only by the side that holds its number, and a number changes sides through an
// atomic release store and an acquire load.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// The memory of a ring, to be passed to the receiving process.
#[derive(Debug)]
pub struct PacketRing {
    shared: Arc<Shared>,
    memory: OwnedFd,
}

/// The sending side, which adds packets.
#[derive(Debug)]
pub struct PacketSender {
    shared: Arc<Shared>,
    /// The numbers of the empty slots.
    free: Vec<u32>,
    full_in: u32,
    empty_out: u32,
}

/// The receiving side, which removes packets.
#[derive(Debug)]
pub struct PacketReceiver {
    shared: Shared,
    full_out: u32,
    empty_in: u32,
}

impl PacketRing {
    /// Creates a ring with room for `packets` packets (a power of two) of at most `longest` bytes, and its
    /// sending side.
    ///
    /// # Panics
    /// If `packets` is not a power of two.
    pub fn create(packets: u32, longest: u32) -> Result<(PacketRing, PacketSender)> {
        assert!(packets.is_power_of_two(), "{packets} packets");
        let slot_bytes = (longest as usize).next_multiple_of(64);
        let length = slots_at(packets) + packets as usize * slot_bytes;
        let memory = memfd_create("fathometer-packets", MemfdFlags::CLOEXEC)
            .doing("make memory to share with another process")?;
        ftruncate(&memory, length as u64).doing("size memory to share with another process")?;
        let mut shared = Shared::map(memory.as_fd(), length, MapFlags::SHARED)?;
        shared.slots = packets;
        shared.slot_bytes = slot_bytes;
        shared.word(SLOTS).store(packets, Ordering::Relaxed);
        shared
            .word(SLOT_BYTES)
            .store(slot_bytes as u32, Ordering::Relaxed);
        // Touches the memory here because the kernel charges memory to the control group of the first process that
        // touches it. This group must not be the receiver's group.
        for at in (0..slots_at(packets)).step_by(1024) {
            shared.word(at).fetch_or(0, Ordering::Relaxed);
        }
        let shared = Arc::new(shared);
        let sender = PacketSender {
            shared: Arc::clone(&shared),
            free: (0..packets).rev().collect(),
            full_in: 0,
            empty_out: 0,
        };
        Ok((PacketRing { shared, memory }, sender))
    }

    /// Returns the number of packets that the receiver could not deliver ([`PacketReceiver::count_refused`]).
    pub fn refused(&self) -> u64 {
        self.shared.refused().load(Ordering::Acquire)
    }
}

impl AsFd for PacketRing {
    /// Returns the memory's descriptor, for [`PacketReceiver::open`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

impl PacketSender {
    /// Copies a packet into the ring. Returns whether there was room.
    pub fn push(&mut self, packet: &[u8]) -> bool {
        let shared = &*self.shared;
        let empty_in = shared.word(EMPTY_IN).load(Ordering::Acquire);
        while self.empty_out != empty_in {
            let number = shared.empty_entry(self.empty_out).load(Ordering::Relaxed);
            self.free.push(number % shared.slots);
            self.empty_out = self.empty_out.wrapping_add(1);
        }
        if packet.len() > shared.slot_bytes {
            return false;
        }
        let Some(slot) = self.free.pop() else {
            return false;
        };
        // SAFETY: the slot is inside the mapping and this side holds its number; the packet fits.
        unsafe {
            let to = shared.slot(slot);
            std::ptr::copy_nonoverlapping(packet.as_ptr(), to, packet.len());
        }
        let entry = u64::from(slot) | (packet.len() as u64) << 32;
        shared
            .full_entry(self.full_in)
            .store(entry, Ordering::Relaxed);
        self.full_in = self.full_in.wrapping_add(1);
        shared.word(FULL_IN).store(self.full_in, Ordering::Release);
        true
    }

    /// Whether the receiver must be woken now. Returns `true` once for each sleep.
    pub fn must_wake(&self) -> bool {
        // Orders the write of the packet before the check. `may_sleep` orders its mark before its check in the same
        // way, so at least one side reads the other side's write.
        fence(Ordering::SeqCst);
        let asleep = self.shared.word(ASLEEP);
        asleep.load(Ordering::Relaxed) == 1 && asleep.swap(0, Ordering::AcqRel) == 1
    }
}

impl PacketReceiver {
    /// Creates the receiving side of a ring whose memory came from another process.
    pub fn open(memory: BorrowedFd<'_>) -> Result<PacketReceiver> {
        let length = fstat(memory)
            .doing("read the size of memory of another process")?
            .st_size as usize;
        let flags = match length <= POPULATED {
            true => MapFlags::SHARED | MapFlags::POPULATE,
            false => MapFlags::SHARED,
        };
        let invalid = Error::BadAnswer {
            what: "memory of a packet ring",
        };
        if length < HEADER {
            return Err(invalid);
        }
        let mut shared = Shared::map(memory, length, flags)?;
        let slots = shared.word(SLOTS).load(Ordering::Relaxed);
        let slot_bytes = shared.word(SLOT_BYTES).load(Ordering::Relaxed) as usize;
        let fits = slots.is_power_of_two()
            && slots as usize <= length
            && slots_at(slots) + slots as usize * slot_bytes == length;
        if !fits {
            return Err(invalid);
        }
        shared.slots = slots;
        shared.slot_bytes = slot_bytes;
        Ok(PacketReceiver {
            shared,
            full_out: 0,
            empty_in: 0,
        })
    }

    /// Removes the next packet and passes it to `deliver`. Returns whether there was a packet.
    pub fn take(&mut self, deliver: impl FnOnce(&[u8])) -> bool {
        let shared = &self.shared;
        if shared.word(FULL_IN).load(Ordering::Acquire) == self.full_out {
            return false;
        }
        let entry = shared.full_entry(self.full_out).load(Ordering::Relaxed);
        let slot = entry as u32 % shared.slots;
        let length = ((entry >> 32) as usize).min(shared.slot_bytes);
        // SAFETY: the slot is inside the mapping, and this side holds its number until it is returned below.
        deliver(unsafe { std::slice::from_raw_parts(shared.slot(slot), length) });
        self.full_out = self.full_out.wrapping_add(1);
        shared
            .empty_entry(self.empty_in)
            .store(slot, Ordering::Relaxed);
        self.empty_in = self.empty_in.wrapping_add(1);
        shared
            .word(EMPTY_IN)
            .store(self.empty_in, Ordering::Release);
        true
    }

    /// Counts a packet that could not be delivered.
    pub fn count_refused(&self) {
        self.shared.refused().fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the ring is empty. If so, [`PacketSender::must_wake`] returns `true` after the next packet.
    pub fn may_sleep(&self) -> bool {
        let asleep = self.shared.word(ASLEEP);
        asleep.store(1, Ordering::Relaxed);
        // See `PacketSender::must_wake`.
        fence(Ordering::SeqCst);
        let empty = self.shared.word(FULL_IN).load(Ordering::Acquire) == self.full_out;
        if !empty {
            asleep.store(0, Ordering::Relaxed);
        }
        empty
    }
}

impl Shared {
    fn map(memory: BorrowedFd<'_>, length: usize, flags: MapFlags) -> Result<Shared> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap(std::ptr::null_mut(), length, access, flags, memory, 0) }
            .doing("map memory that is shared with another process")?;
        Ok(Shared {
            start: start.cast(),
            length,
            slots: 0,
            slot_bytes: 0,
        })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4) && at + 4 <= self.length);
        // SAFETY: aligned and inside the mapping, whose start is page-aligned.
        unsafe { AtomicU32::from_ptr(self.start.add(at).cast()) }
    }

    fn long_word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= self.length);
        // SAFETY: aligned and inside the mapping, whose start is page-aligned.
        unsafe { AtomicU64::from_ptr(self.start.add(at).cast()) }
    }

    fn refused(&self) -> &AtomicU64 {
        self.long_word(REFUSED)
    }

    /// Returns an entry of the queue of full slots: the slot number in the lower half, the packet's length in the upper
    /// half.
    fn full_entry(&self, count: u32) -> &AtomicU64 {
        self.long_word(HEADER + (count % self.slots) as usize * 8)
    }

    fn empty_entry(&self, count: u32) -> &AtomicU32 {
        let entries = HEADER + self.slots as usize * 8;
        self.word(entries + (count % self.slots) as usize * 4)
    }

    fn slot(&self, number: u32) -> *mut u8 {
        let at = slots_at(self.slots) + number as usize * self.slot_bytes;
        // SAFETY: slot numbers are below `slots`, so the slot is inside the mapping.
        unsafe { self.start.add(at) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping that this value created; no reference into it exists any more.
        let _ = unsafe { munmap(self.start.cast(), self.length) };
    }
}

/// Returns the offset of slot 0.
fn slots_at(slots: u32) -> usize {
    (HEADER + slots as usize * (8 + 4)).next_multiple_of(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(packets: u32, longest: u32) -> (PacketRing, PacketSender, PacketReceiver) {
        let (ring, sender) = PacketRing::create(packets, longest).unwrap();
        let memory = ring.memory.try_clone().unwrap();
        (ring, sender, PacketReceiver::open(memory.as_fd()).unwrap())
    }

    fn taken(receiver: &mut PacketReceiver) -> Option<Vec<u8>> {
        let mut packet = None;
        receiver.take(|bytes| packet = Some(bytes.to_vec()));
        packet
    }

    #[test]
    fn packets_come_out_as_they_went_in_and_no_more_go_in_than_there_is_room_for() {
        let (_ring, mut sender, mut receiver) = ring(4, 100);
        assert_eq!(taken(&mut receiver), None);
        for round in 0..1000_u32 {
            let packet = |n: u32| vec![(round + n) as u8; ((round + n) % 101) as usize];
            for n in 0..4 {
                assert!(sender.push(&packet(n)), "{round} {n}");
            }
            assert!(!sender.push(&[1]), "it is full");
            assert_eq!(taken(&mut receiver), Some(packet(0)));
            assert!(sender.push(&packet(4)));
            for n in 1..=4 {
                assert_eq!(taken(&mut receiver), Some(packet(n)));
            }
            assert_eq!(taken(&mut receiver), None);
        }
        assert!(!sender.push(&[0; 129]), "longer than a slot");
    }

    #[test]
    fn few_packets_in_flight_use_few_slots() {
        let (_ring, mut sender, mut receiver) = ring(64, 100);
        let mut places = std::collections::BTreeSet::new();
        for n in 0..500_u32 {
            assert!(sender.push(&n.to_ne_bytes()));
            receiver.take(|packet| {
                places.insert(packet.as_ptr() as usize);
            });
        }
        assert!(places.len() <= 2, "{} slots", places.len());
    }

    #[test]
    fn a_sender_wakes_a_sleeping_receiver_once() {
        let (ring, mut sender, mut receiver) = ring(4, 10);
        assert!(!sender.must_wake());
        assert!(receiver.may_sleep());
        assert!(sender.push(&[1]));
        assert!(sender.must_wake());
        assert!(!sender.must_wake());
        assert!(!receiver.may_sleep(), "there is a packet");
        assert!(!sender.must_wake(), "it did not go to sleep");
        assert_eq!(taken(&mut receiver), Some(vec![1]));
        assert_eq!(ring.refused(), 0);
        receiver.count_refused();
        assert_eq!(ring.refused(), 1);
    }

    /// Two threads on one ring: in any interleaving, no packet is lost or changed, and no wait is endless.
    #[test]
    fn nothing_is_lost_between_two_sides_that_run_at_once() {
        const PACKETS: u64 = 200_000;
        let (_ring, mut sender, mut receiver) = ring(16, 64);
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        let taking = std::thread::spawn(move || {
            let (mut next, mut sleeps) = (0, 0_u64);
            while next < PACKETS {
                while receiver.take(|packet| {
                    let number = u64::from_ne_bytes(packet[..8].try_into().unwrap());
                    assert_eq!(number, next);
                    assert_eq!(packet.len(), 8 + (next % 50) as usize);
                    next += 1;
                }) {}
                if next < PACKETS && receiver.may_sleep() {
                    sleeps += 1;
                    woken
                        .recv_timeout(std::time::Duration::from_secs(60))
                        .expect("the receiver is woken for the next packet");
                }
            }
            sleeps
        });
        let mut buffer = [7; 64];
        for number in 0..PACKETS {
            buffer[..8].copy_from_slice(&number.to_ne_bytes());
            let packet = &buffer[..8 + (number % 50) as usize];
            while !sender.push(packet) {
                std::thread::yield_now();
            }
            if sender.must_wake() {
                wake.send(()).unwrap();
            }
            if number.is_multiple_of(1000) {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        }
        let sleeps = taking.join().unwrap();
        assert!(sleeps > 0, "the receiver never slept");
    }

    #[test]
    fn memory_that_does_not_hold_a_ring_is_refused() {
        let memory = |length: u64| {
            let memory = memfd_create("x", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&memory, length).unwrap();
            PacketReceiver::open(memory.as_fd()).unwrap_err()
        };
        for length in [0, 100, 4096, 1 << 20] {
            let error = memory(length);
            assert!(matches!(error, Error::BadAnswer { .. }), "{error}");
        }
    }
}

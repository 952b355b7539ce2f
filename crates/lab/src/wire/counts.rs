//! Packet counts by class, direction and time: the cost of a load on the wire, without a capture.
//!
//! A packet is counted each time the path delivers it to the receiving host, so duplicates are counted too. Packets
//! that the path or a full ring drops are not counted. The classes are those of [`fathometer_packets`], so that a
//! capture of the same traffic gives the same counts. A bounded number of time bins stores the counts, so that a
//! measured window can be extracted later.
//!
//! Counting does not allocate memory. When all bins are used, they are merged in pairs.

use std::array;
use std::ops::AddAssign;
use std::time::Duration;

use fathometer_model::{Bytes, Instant};
use fathometer_packets::Class;
use fathometer_packets::parse::{Parsed, Transport};
use fathometer_path::Direction;

/// The initial length of a bin. The ends of a window are accurate to half a bin, which is 1 % of a second.
pub const BIN: Duration = Duration::from_millis(20);

/// Maximum number of bins per direction; when it is exceeded, the length of a bin doubles.
pub const MOST_BINS: usize = 4096;

const CLASSES: usize = Class::ALL.len();

/// Number and total length of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of packets.
    pub packets: u64,
    /// The bytes of the packets, including IP headers.
    pub bytes: Bytes,
    /// The bytes of TCP payload.
    pub payload: Bytes,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.payload += other.payload;
    }
}

/// The packets of one direction over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    start: Instant,
    /// The length of a bin, in nanoseconds.
    bin: u64,
    bins: Vec<[Tally; CLASSES]>,
}

impl Course {
    /// Creates empty counts that begin at `start`.
    pub fn new(start: Instant) -> Course {
        Course {
            start,
            bin: BIN.as_nanos() as u64,
            // The kernel allocates this memory only on first use.
            bins: Vec::with_capacity(MOST_BINS),
        }
    }

    /// Counts a packet. `packet` begins with its IP header. A packet before the start is counted in the first bin.
    #[inline]
    pub fn count(&mut self, at: Instant, packet: &[u8]) {
        let parsed = Parsed::parse(packet, packet.len() as u32);
        let payload = match &parsed {
            Parsed::Ip(ip) => match &ip.transport {
                Transport::Tcp(segment) => u64::from(segment.payload_length),
                _ => 0,
            },
            _ => 0,
        };
        let bin = self.bin_of(at);
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, Default::default());
        }
        self.bins[bin][Class::of(&parsed) as usize] += Tally {
            packets: 1,
            bytes: Bytes(packet.len() as u64),
            payload: Bytes(payload),
        };
    }

    /// Returns the index of an instant's bin; it may be one more than the index of the last bin.
    fn bin_of(&mut self, at: Instant) -> usize {
        let since = at.since(self.start).as_nanos() as u64;
        while since / self.bin >= MOST_BINS as u64 {
            self.merge_pairs();
        }
        (since / self.bin) as usize
    }

    fn merge_pairs(&mut self) {
        for merged in 0..self.bins.len().div_ceil(2) {
            let mut sum = self.bins[2 * merged];
            if let Some(second) = self.bins.get(2 * merged + 1) {
                add(&mut sum, second);
            }
            self.bins[merged] = sum;
        }
        self.bins.truncate(self.bins.len().div_ceil(2));
        self.bin *= 2;
    }

    /// The packets of one class.
    pub fn of(&self, class: Class) -> Tally {
        self.sum()[class as usize]
    }

    /// All packets.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for tally in self.sum() {
            total += tally;
        }
        total
    }

    /// The length of a bin.
    pub fn bin(&self) -> Duration {
        Duration::from_nanos(self.bin)
    }

    /// Returns the bins whose middle is in the period. Each end is accurate to half a bin.
    pub fn between(&self, from: Instant, to: Instant) -> Course {
        let middle = |bin: usize| self.start + self.bin() * bin as u32 + self.bin() / 2;
        let mut inside = (0..self.bins.len()).filter(|&bin| (from..to).contains(&middle(bin)));
        let first = inside.next().unwrap_or(self.bins.len());
        let count = usize::from(first < self.bins.len()) + inside.count();
        Course {
            start: self.start + self.bin() * first as u32,
            bin: self.bin,
            bins: self.bins[first..first + count].to_vec(),
        }
    }

    fn sum(&self) -> [Tally; CLASSES] {
        let mut sum: [Tally; CLASSES] = array::from_fn(|_| Tally::default());
        for bin in &self.bins {
            add(&mut sum, bin);
        }
        sum
    }
}

fn add(sum: &mut [Tally; CLASSES], other: &[Tally; CLASSES]) {
    for (sum, other) in sum.iter_mut().zip(other) {
        *sum += *other;
    }
}

/// The packets of both directions over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketCounts {
    /// The packets to the server.
    pub up: Course,
    /// The packets to the client.
    pub down: Course,
}

impl PacketCounts {
    /// Returns the counts of a period. Each end is accurate to half a bin.
    pub fn between(&self, from: Instant, to: Instant) -> PacketCounts {
        PacketCounts {
            up: self.up.between(from, to),
            down: self.down.between(from, to),
        }
    }

    /// The packets of one direction.
    pub fn direction(&self, direction: Direction) -> &Course {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Returns the packets of one class in both directions together.
    pub fn of(&self, class: Class) -> Tally {
        let mut sum = self.up.of(class);
        sum += self.down.of(class);
        sum
    }

    /// Returns the packets with payload (data, and data+FIN) in both directions together.
    pub fn with_payload(&self) -> Tally {
        let mut sum = self.of(Class::Data);
        sum += self.of(Class::DataFin);
        sum
    }

    /// Returns all packets of both directions together.
    pub fn total(&self) -> Tally {
        let mut sum = self.up.total();
        sum += self.down.total();
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an IPv4 TCP segment with `payload` bytes of payload.
    fn segment(flags: u8, payload: usize) -> Vec<u8> {
        let mut packet = vec![0; 40 + payload];
        packet[0] = 0x45;
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[9] = 6;
        packet[32] = 0x50;
        packet[33] = flags;
        packet
    }

    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    const FIN: u8 = 0x01;

    fn at(milliseconds: u64) -> Instant {
        Instant::from_nanos(milliseconds * 1_000_000)
    }

    #[test]
    fn a_class_is_found_by_its_place() {
        for (place, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, place);
        }
    }

    #[test]
    fn packets_are_counted_by_class_with_their_bytes() {
        let mut course = Course::new(at(0));
        for packet in [
            segment(SYN, 0),
            segment(ACK, 0),
            segment(ACK, 100),
            segment(ACK, 1460),
            segment(ACK | FIN, 10),
            segment(ACK | FIN, 0),
            vec![0x45, 0],
        ] {
            course.count(at(5), &packet);
        }
        let data = course.of(Class::Data);
        assert_eq!(
            (data.packets, data.bytes, data.payload),
            (2, Bytes(1640), Bytes(1560))
        );
        for class in [
            Class::Syn,
            Class::PureAck,
            Class::DataFin,
            Class::BareFin,
            Class::Other,
        ] {
            assert_eq!(course.of(class).packets, 1, "{class}");
        }
        assert_eq!(course.of(Class::Rst).packets, 0);
        assert_eq!(course.total().packets, 7);
        assert_eq!(course.total().payload, Bytes(1570));
    }

    #[test]
    fn a_window_contains_the_bins_whose_midpoint_it_contains() {
        let mut course = Course::new(at(1000));
        for n in 0..100 {
            course.count(at(1000 + n * 10), &segment(ACK, 1));
        }
        // A bin of 20 ms contains two packets.
        assert_eq!(course.between(at(1200), at(1400)).total().packets, 20);
        assert_eq!(course.between(at(1209), at(1391)).total().packets, 20);
        assert_eq!(course.between(at(1211), at(1389)).total().packets, 16);
        assert_eq!(course.between(at(0), at(9000)).total().packets, 100);
        assert_eq!(course.between(at(5000), at(9000)).total().packets, 0);
        let cut = course.between(at(1200), at(1400));
        assert_eq!(cut.between(at(1300), at(1400)).total().packets, 10);
    }

    #[test]
    fn a_long_test_has_longer_bins_and_loses_no_count() {
        let mut course = Course::new(at(0));
        let seconds = 400;
        for second in 0..seconds {
            course.count(at(second * 1000), &segment(ACK, 7));
        }
        assert!(course.bins.len() <= MOST_BINS, "{}", course.bins.len());
        assert_eq!(course.bin(), BIN * 8);
        assert_eq!(course.total().packets, seconds);
        assert_eq!(course.between(at(99_000), at(199_000)).total().packets, 100);
    }
}

//! Writes the packets of some taps of a capture into a separate capture, as captured at one host.
//!
//! This program's captures contain each packet twice: where the packet enters and where it leaves the path. Wireshark
//! reports the second copy of a packet as a retransmission. Therefore a file for Wireshark must contain the packets of
//! one host only. Names, link types, comments and lengths are copied. Times are in nanoseconds. Two threads write the
//! taps of a path, so a capture is not in time order. The writer sorts packets by time within a window of `REORDERED`
//! packets.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io::{self, Write};

use super::capture::{Interface, LinkType, Record};
use super::tap::TapChoice;

/// Number of packets that are buffered to be sorted by time.
const REORDERED: usize = 256;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_NAME: u16 = 2;
const OPTION_TIME_RESOLUTION: u16 = 9;
/// `if_tsresol`: nanoseconds.
const NANOSECONDS: u8 = 9;

/// Writes a pcapng capture of the counted taps.
#[derive(Debug)]
pub struct TapWriter<W> {
    out: W,
    taps: TapChoice,
    /// For each interface of the input file: `None` if the interface is not counted, otherwise its number in the output
    /// file, which is assigned at its first packet.
    numbers: Vec<Option<Option<u32>>>,
    interfaces: u32,
    waiting: BinaryHeap<Reverse<Waiting>>,
    packets: u64,
    last: u64,
}

/// An encoded packet in the sort buffer.
#[derive(Debug, PartialEq, Eq)]
struct Waiting {
    time: u64,
    number: u64,
    block: Vec<u8>,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<W: Write> TapWriter<W> {
    /// Writes the file's header.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn new(mut out: W, taps: TapChoice) -> io::Result<TapWriter<W>> {
        let mut body = Vec::new();
        body.extend(0x1a2b_3c4d_u32.to_le_bytes());
        body.extend([1, 0, 0, 0]);
        // A section length of -1 means "unknown".
        body.extend([0xff; 8]);
        out.write_all(&block(SECTION, &body))?;
        Ok(TapWriter {
            out,
            taps,
            numbers: Vec::new(),
            interfaces: 0,
            waiting: BinaryHeap::new(),
            packets: 0,
            last: 0,
        })
    }

    /// Adds a packet of the input capture.
    ///
    /// # Errors
    /// If writing fails.
    pub fn packet(&mut self, record: &Record<'_>) -> io::Result<()> {
        let Some(interface) = self.number(record.interface_index, record.interface)? else {
            return Ok(());
        };
        // A packet without a time gets the time of the previous packet.
        let time = record.time.unwrap_or(self.last);
        self.last = time;
        let mut body = Vec::with_capacity(record.data.len() + 64);
        body.extend(interface.to_le_bytes());
        body.extend(((time >> 32) as u32).to_le_bytes());
        body.extend((time as u32).to_le_bytes());
        body.extend((record.data.len() as u32).to_le_bytes());
        body.extend(record.original_length.to_le_bytes());
        body.extend(record.data);
        pad(&mut body);
        let mut comments = record.comments().peekable();
        if comments.peek().is_some() {
            comments.for_each(|comment| option(&mut body, OPTION_COMMENT, comment.as_bytes()));
            option(&mut body, OPTION_END, &[]);
        }
        self.waiting.push(Reverse(Waiting {
            time,
            number: self.packets,
            block: block(ENHANCED_PACKET, &body),
        }));
        self.packets += 1;
        match self.waiting.len() > REORDERED {
            true => self.write_first(),
            false => Ok(()),
        }
    }

    /// Writes the buffered packets, and returns the total number of packets.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> io::Result<u64> {
        while !self.waiting.is_empty() {
            self.write_first()?;
        }
        self.out.flush()?;
        Ok(self.packets)
    }

    fn write_first(&mut self) -> io::Result<()> {
        match self.waiting.pop() {
            Some(Reverse(first)) => self.out.write_all(&first.block),
            None => Ok(()),
        }
    }

    /// Returns the number of an interface in the output file; declares the interface at its first packet.
    fn number(&mut self, index: usize, interface: &Interface) -> io::Result<Option<u32>> {
        if let Some(Some(known)) = self.numbers.get(index) {
            return Ok(*known);
        }
        if index >= self.numbers.len() {
            self.numbers.resize(index + 1, None);
        }
        let number = match self.taps.counts(interface.name.as_deref()) {
            false => None,
            true => {
                let LinkType(link) = interface.link;
                let mut body = Vec::new();
                body.extend(u32::from(link).to_le_bytes());
                body.extend(interface.snap_length.to_le_bytes());
                if let Some(name) = &interface.name {
                    option(&mut body, OPTION_NAME, name.as_bytes());
                }
                option(&mut body, OPTION_TIME_RESOLUTION, &[NANOSECONDS]);
                option(&mut body, OPTION_END, &[]);
                self.out.write_all(&block(INTERFACE, &body))?;
                self.interfaces += 1;
                Some(self.interfaces - 1)
            }
        };
        self.numbers[index] = Some(number);
        Ok(number)
    }
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = ((body.len() + 12) as u32).to_le_bytes();
    [&kind.to_le_bytes(), &length, body, &length].concat()
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    // The length field has 16 bits. This program's comments have some tens of bytes.
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::super::capture::Capture;
    use super::super::synthetic::CaptureWriter;
    use super::*;

    type Seen = (String, u64, u32, Vec<u8>, Vec<String>);

    fn seen(bytes: &[u8]) -> Vec<Seen> {
        let mut capture = Capture::open(bytes).unwrap();
        let mut seen = Vec::new();
        while let Some(record) = capture.next_record().unwrap() {
            seen.push((
                record.interface.name.clone().unwrap(),
                record.time.unwrap(),
                record.original_length,
                record.data.to_vec(),
                record.comments().map(str::to_owned).collect(),
            ));
        }
        assert!(capture.integrity().is_whole());
        seen
    }

    fn extracted(bytes: &[u8], taps: TapChoice) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = TapWriter::new(&mut out, taps).unwrap();
        let mut capture = Capture::open(bytes).unwrap();
        while let Some(record) = capture.next_record().unwrap() {
            writer.packet(&record).unwrap();
        }
        writer.finish().unwrap();
        out
    }

    #[test]
    fn one_tap_of_four_keeps_all_but_the_others() {
        let taps = [
            "client.tx",
            "server.rx",
            "server.tx",
            "client.rx",
            "up.drop",
        ];
        for big_endian in [false, true] {
            let taps = taps.map(|name| (name, 101));
            let mut writer = CaptureWriter::pcapng_in_order(&taps, big_endian);
            let comment = Some("packet=3 drop=loss");
            writer.packet(0, 1_000, b"first of the client", comment);
            writer.packet(1, 2_000, b"first of the client", None);
            writer.cut_packet(3, 2_900, b"of the server", 5, Some("late_ns=7"));
            // Not in time order, because another thread wrote this packet.
            writer.packet(0, 2_500, b"second of the client", None);
            writer.packet(4, 2_600, b"second of the client", comment);
            let all = seen(writer.bytes());
            let client = seen(&extracted(writer.bytes(), TapChoice::Client));
            let expected = [0, 3, 2].map(|place| all[place].clone());
            assert_eq!(client, expected);
            let server = seen(&extracted(writer.bytes(), TapChoice::Server));
            assert_eq!(server, [all[1].clone()]);
            // A second extraction changes nothing.
            let again = extracted(writer.bytes(), TapChoice::Client);
            assert_eq!(extracted(&again, TapChoice::All), again);
        }
    }
}

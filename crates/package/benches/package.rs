//! Speed of packing and unpacking packages and archives in memory, by the protocol state machines without sockets.
//!
//! `cargo bench -p fathometer-package --bench package` packs groups of files of one size into memory that is already
//! allocated, and unpacks them in pieces of the size that a socket delivers. The baseline copies the contents.
//! Unpacking does not write contents, but computes and compares the checksums of version 2. A round takes a few
//! milliseconds. The fastest of many rounds is reported, because others may have been interrupted.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark measures time"
)]

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use fathometer_package::archive::tar;
use fathometer_package::{Decoder, Encoder, Entry, Event, Limits, Piece, Version};

/// The total size in bytes of the files in a group.
const GROUP: usize = 32 << 20;
/// The number of bytes read in one step.
const PIECE: usize = 64 << 10;
/// The measuring time for each figure.
const PATIENCE: Duration = Duration::from_millis(400);

fn main() {
    // With `--test`, a bench only checks that it runs, so it is short.
    let short = std::env::args().any(|argument| argument == "--test");
    let patience = if short { Duration::ZERO } else { PATIENCE };
    println!("GB/s of content     4 kB files   16 kB  256 kB    1 MB");
    let sizes = [4 << 10, 16 << 10, 256 << 10, 1 << 20];
    let rows: [(&str, Make); 8] = [
        ("copying", |group| {
            let mut memory = vec![0; GROUP];
            Box::new(move || {
                memory.copy_from_slice(&group.content);
                black_box(&memory);
            })
        }),
        ("checksum alone", |group| {
            Box::new(move || {
                for file in group.files() {
                    black_box(fathometer_package::Checksum::of(file));
                }
            })
        }),
        ("pack, version 1", |group| packing(group, Version::One)),
        ("pack, version 2", |group| packing(group, Version::Two)),
        ("pack, tar", |group| {
            let mut memory = Vec::with_capacity(GROUP * 2);
            Box::new(move || {
                memory.clear();
                group.tar(&mut memory);
                black_box(&memory);
            })
        }),
        ("unpack, version 1", |group| unpacking(&group, Version::One)),
        ("unpack, version 2", |group| unpacking(&group, Version::Two)),
        ("unpack, tar", |group| {
            let mut archive = Vec::new();
            group.tar(&mut archive);
            Box::new(move || {
                let mut reader = tar::Reader::new();
                let mut bytes = 0;
                for piece in archive.chunks(PIECE) {
                    let mut input = piece;
                    while let Some(event) = reader.poll(&mut input).expect("our own archive") {
                        if let fathometer_package::archive::Event::Data { content, .. } = event {
                            bytes += content.len();
                        }
                    }
                }
                assert_eq!(bytes, GROUP);
            })
        }),
    ];
    for (name, make) in rows {
        let speeds = sizes.map(|size| {
            let mut round = make(Group::new(size));
            let start = Clock::now();
            let mut best = Duration::MAX;
            loop {
                let from = Clock::now();
                round();
                best = best.min(from.elapsed());
                if start.elapsed() >= patience {
                    break GROUP as f64 / best.as_secs_f64() / 1e9;
                }
            }
        });
        let [a, b, c, d] = speeds.map(|speed| format!("{speed:8.2}"));
        println!("{name:20}  {a}{b}{c}{d}");
    }
}

/// Creates the function of one round.
type Make = fn(Group) -> Box<dyn FnMut()>;

/// Files of one size.
struct Group {
    content: Vec<u8>,
    size: usize,
    names: Vec<String>,
}

impl Group {
    fn new(size: usize) -> Group {
        let mut state = 1u64;
        let mut word = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        Group {
            content: (0..GROUP / 8).flat_map(|_| word().to_ne_bytes()).collect(),
            size,
            names: (0..GROUP / size)
                .map(|n| format!("set/{n:06}.html"))
                .collect(),
        }
    }

    fn files(&self) -> impl Iterator<Item = &[u8]> {
        self.content.chunks(self.size)
    }

    fn pack(&self, version: Version, package: &mut Vec<u8>) {
        let entries = self.names.iter().map(|name| Entry {
            name: name.clone(),
            size: Some(self.size as u64),
            ..Entry::default()
        });
        let encoder = Encoder::new(version, entries.collect(), &Limits::default());
        let mut encoder = encoder.expect("a package of these");
        while let Some(piece) = encoder.next() {
            match piece {
                Piece::Bytes(bytes) => package.extend_from_slice(bytes),
                Piece::Content { entry, .. } => {
                    let content = &self.content[entry * self.size..][..self.size];
                    let framing = encoder.content(content).expect("all of a file");
                    package.extend_from_slice(&framing);
                    package.extend_from_slice(content);
                }
            }
        }
    }

    fn tar(&self, archive: &mut Vec<u8>) {
        for (name, content) in self.names.iter().zip(self.files()) {
            tar::head(name, self.size as u64, 0, archive);
            archive.extend_from_slice(content);
            archive.extend_from_slice(tar::padding(self.size as u64));
        }
        archive.extend_from_slice(&tar::END);
    }
}

fn packing(group: Group, version: Version) -> Box<dyn FnMut()> {
    let mut memory = Vec::with_capacity(GROUP * 2);
    Box::new(move || {
        memory.clear();
        group.pack(version, &mut memory);
        black_box(&memory);
    })
}

fn unpacking(group: &Group, version: Version) -> Box<dyn FnMut()> {
    let mut package = Vec::new();
    group.pack(version, &mut package);
    Box::new(move || {
        let mut decoder = Decoder::new(Limits::default());
        let mut bytes = 0;
        for piece in package.chunks(PIECE) {
            let mut input = piece;
            while let Some(event) = decoder.poll(&mut input).expect("our own package") {
                if let Event::Data { content, .. } = event {
                    bytes += content.len();
                }
            }
        }
        decoder.end_of_input().expect("a whole package");
        assert_eq!(bytes, GROUP);
    })
}

//! The capture reader and the packet accounting: no file makes them panic, memory does not depend on the
//! lengths that a file claims, any split of the reads gives the same figures, and the classes are a partition.

#![no_main]

use std::io::{self, Read};
use std::mem::discriminant;

use fathometer_fuzz::Pieces;
use fathometer_packets::{Accounting, Options, TapChoice, account, account_with_sequences};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let pieces = Pieces::new(input);
    for taps in [TapChoice::Client, TapChoice::All] {
        let options = Options {
            taps,
            time_sequences: 2,
            ..Options::default()
        };
        let whole = account(pieces.bytes, &options);
        let cut = account_with_sequences(InPieces::new(pieces.cut(50)), &options);
        match (whole, cut) {
            (Ok(whole), Ok((cut, _))) => {
                // Compared as text, because NaN is not equal to itself.
                assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
                judge(&whole);
            }
            // The same kind of error; a message may quote data that depends on the first read.
            (Err(whole), Err(cut)) => assert_eq!(discriminant(&whole), discriminant(&cut)),
            (whole, cut) => panic!(
                "a split made an error: {:?}, {:?}",
                whole.err(),
                cut.map(|_| ()).err()
            ),
        }
    }
});

fn judge(accounting: &Accounting) {
    let directed = accounting.up.packets() + accounting.down.packets();
    assert_eq!(accounting.classes.total(), accounting.packets());
    assert_eq!(directed + accounting.undirected, accounting.packets());
    assert!(accounting.connection_packets() <= accounting.packets());
    for (metric, value) in accounting.metrics() {
        assert!(value.is_finite(), "{metric} is {value}");
    }
    let _ = accounting.table("fuzz", true);
}

/// Returns one piece for each read.
struct InPieces<'a, I> {
    pieces: I,
    rest: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a [u8]>> InPieces<'a, I> {
    fn new(pieces: I) -> InPieces<'a, I> {
        InPieces { pieces, rest: &[] }
    }
}

impl<'a, I: Iterator<Item = &'a [u8]>> Read for InPieces<'a, I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            self.rest = self.pieces.next().unwrap_or_default();
        }
        self.rest.read(buffer)
    }
}

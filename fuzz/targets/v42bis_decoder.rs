//! V.42bis, the decoder: no line makes it panic, any split gives the same output and error, and its output is
//! bounded by the longest string.

#![no_main]

use fathometer_fuzz::{Pieces, v42bis};
use fathometer_path::v42bis::Decoder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (parameters, rest) = v42bis::parameters(input);
    let line = Pieces::new(rest);
    let mut whole = Vec::new();
    let result = Decoder::new(parameters).decode(line.bytes, &mut whole);
    let most = usize::from(parameters.longest_string()) * line.bytes.len();
    assert!(whole.len() <= most, "{} bytes of output", whole.len());
    let (mut decoder, mut cut) = (Decoder::new(parameters), Vec::new());
    let last = line
        .cut(64)
        .map(|piece| decoder.decode(piece, &mut cut))
        .last();
    assert_eq!(last.unwrap_or(Ok(())), result);
    assert!(whole == cut, "pieces were decoded to other bytes");
});

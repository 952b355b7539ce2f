//! V.42bis: what the encoder makes of any data, with a flush after each piece, is decoded to the same data.

#![no_main]

use fathometer_fuzz::{Pieces, v42bis};
use fathometer_path::v42bis::{Decoder, Encoder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (parameters, rest) = v42bis::parameters(input);
    let data = Pieces::new(rest);
    let (mut encoder, mut decoder) = (Encoder::new(parameters), Decoder::new(parameters));
    let (mut line, mut decoded) = (Vec::new(), Vec::new());
    for piece in data.cut(1500) {
        line.clear();
        encoder.encode(piece, &mut line);
        encoder.flush(&mut line);
        let start = decoded.len();
        decoder
            .decode(&line, &mut decoded)
            .expect("it is the encoder's line");
        assert!(
            decoded[start..] == *piece,
            "a piece was decoded to other bytes"
        );
    }
    // Without flushes, the line has one end.
    line.clear();
    let mut encoder = Encoder::new(parameters);
    for piece in data.cut(1500) {
        encoder.encode(piece, &mut line);
    }
    encoder.flush(&mut line);
    decoded.clear();
    Decoder::new(parameters)
        .decode(&line, &mut decoded)
        .expect("it is the encoder's line");
    assert!(decoded == data.bytes, "the data was decoded to other bytes");
});

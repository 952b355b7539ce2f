//! V.42bis on random input: decoding restores the encoded data, for any split of the data, and no input makes a decoder
//! panic.

use fathometer_path::v42bis::{Decoder, Encoder, Parameters};
use proptest::prelude::*;

fn parameters() -> impl Strategy<Value = Parameters> {
    // A small dictionary fills quickly.
    (prop_oneof![512u16..700, 512u16..], 6u8..=250)
        .prop_map(|(codewords, longest)| Parameters::new(codewords, longest).unwrap())
}

/// Generates data with compressible and incompressible parts, so that the encoder changes its mode.
fn data() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..700),
        prop::collection::vec(prop::sample::select(b"<td>/ =\"\0\x33".as_slice()), 0..1500),
        (any::<u8>(), 0usize..900).prop_map(|(byte, times)| vec![byte; times]),
        ("[a-z]{1,40}", 1usize..60).prop_map(|(word, times)| word.repeat(times).into_bytes()),
    ];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

/// Cuts bytes at positions that `cuts` determines.
fn pieces<'a>(mut bytes: &'a [u8], cuts: &'a [usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for cut in cuts.iter().cycle() {
        if bytes.is_empty() || cuts.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at((cut + 1).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_one_side_encodes_the_other_decodes_in_any_pieces(
        parameters in parameters(),
        data in data(),
        flushes in prop::collection::vec(0usize..600, 0..9),
        cuts in prop::collection::vec(0usize..90, 0..9),
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(parameters), Decoder::new(parameters));
        let mut decoded = Vec::new();
        for piece in pieces(&data, &flushes) {
            let mut line = Vec::new();
            encoder.encode(piece, &mut line);
            encoder.flush(&mut line);
            for part in pieces(&line, &cuts) {
                decoder.decode(part, &mut decoded).unwrap();
            }
            // After a flush, no character is pending in the encoder or the decoder.
            let sent = decoded.len();
            prop_assert!(data[..sent].ends_with(piece));
        }
        prop_assert_eq!(decoded, data);
    }

    #[test]
    fn the_pieces_of_the_input_do_not_change_the_line(
        parameters in parameters(),
        data in data(),
        cuts in prop::collection::vec(0usize..90, 1..9),
    ) {
        let (mut whole, mut cut) = (Vec::new(), Vec::new());
        Encoder::new(parameters).encode(&data, &mut whole);
        let mut encoder = Encoder::new(parameters);
        for piece in pieces(&data, &cuts) {
            encoder.encode(piece, &mut cut);
        }
        prop_assert_eq!(whole, cut);
    }

    #[test]
    fn any_line_is_decoded_or_refused(
        parameters in parameters(),
        compressed in any::<bool>(),
        noise in prop::collection::vec(any::<u8>(), 0..3000),
        cuts in prop::collection::vec(0usize..90, 1..9),
    ) {
        let mut line = if compressed { vec![0, 0] } else { Vec::new() };
        line.extend(noise);
        let mut whole = Vec::new();
        let result = Decoder::new(parameters).decode(&line, &mut whole);
        prop_assert!(whole.len() <= usize::from(parameters.longest_string()) * line.len());
        let (mut decoder, mut cut) = (Decoder::new(parameters), Vec::new());
        let last = pieces(&line, &cuts).into_iter().map(|piece| decoder.decode(piece, &mut cut)).last();
        prop_assert_eq!((whole, Some(result)), (cut, last));
    }
}

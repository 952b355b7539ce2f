use super::dictionary::Dictionary;
use super::*;

fn parameters(codewords: u16, longest_string: u8) -> Parameters {
    Parameters::new(codewords, longest_string).unwrap()
}

fn encode(parameters: Parameters, input: &[u8]) -> Vec<u8> {
    let (mut encoder, mut line) = (Encoder::new(parameters), Vec::new());
    encoder.encode(input, &mut line);
    encoder.flush(&mut line);
    line
}

fn decode(parameters: Parameters, line: &[u8]) -> (Vec<u8>, Result<(), DecodeError>) {
    let mut output = Vec::new();
    let result = Decoder::new(parameters).decode(line, &mut output);
    (output, result)
}

/// Builds the change to the compressed mode at the start of a connection, then codewords of given sizes, bit by bit.
fn compressed(codewords: &[(u16, u32)]) -> Vec<u8> {
    let bits: Vec<u8> = codewords
        .iter()
        .flat_map(|&(codeword, size)| (0..size).map(move |bit| (codeword >> bit & 1) as u8))
        .collect();
    let byte = |bits: &[u8]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit);
    let mut line = vec![0, command::ECM];
    line.extend(bits.chunks(8).map(byte));
    line
}

const A: u16 = 3 + b'a' as u16;
const B: u16 = 3 + b'b' as u16;

#[test]
fn the_ranges_are_the_recommendations() {
    assert!(Parameters::new(511, 6).is_none());
    assert!(Parameters::new(512, 5).is_none());
    assert!(Parameters::new(u16::MAX, 251).is_none());
    for (codewords, bits) in [(512, 9), (513, 10), (1024, 10), (2048, 11), (u16::MAX, 16)] {
        assert_eq!(parameters(codewords, 6).longest_codeword_bits(), bits);
    }
}

#[test]
fn the_escape_character_moves_on_each_time_that_it_occurs() {
    // The escape character is 0, then 51, then 102. The second 0 is an ordinary character.
    let line = encode(parameters(512, 6), &[0, 0, 51, 102, 102]);
    assert_eq!(line, [0, 1, 0, 51, 1, 102, 1, 102]);
    assert_eq!(decode(parameters(512, 6), &line).0, [0, 0, 51, 102, 102]);
}

#[test]
fn codewords_are_read_from_their_least_significant_bit() {
    // The second codeword adds "ab" as 259, the third "ba" as 260, the fourth "abb" as 261, and so on.
    let line = compressed(&[
        (A, 9),
        (B, 9),
        (259, 9),
        (260, 9),
        (261, 9),
        (control::FLUSH, 9),
    ]);
    // 100 is 0b0_0110_0100 and 101 is 0b0_0110_0101.
    assert_eq!(line[2..4], [0b0110_0100, 0b1100_1010]);
    let (output, result) = decode(parameters(512, 6), &line);
    assert_eq!(result, Ok(()));
    assert_eq!(
        output,
        b"ab.ab.ba.abb"
            .iter()
            .copied()
            .filter(|&c| c != b'.')
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_flush_ends_with_a_whole_byte_and_the_next_string_still_extends_the_last() {
    // "a", a flush, then "b": "ab" is in the dictionary as 259. Two codewords of 9 bits take 3 bytes.
    let mut line = compressed(&[(A, 9), (control::FLUSH, 9)]);
    line.extend(&compressed(&[(B, 9), (control::FLUSH, 9)])[2..]);
    line.extend(&compressed(&[(259, 9)])[2..]);
    assert_eq!(line.len(), 2 + 3 + 3 + 2);
    assert_eq!(
        decode(parameters(512, 6), &line),
        (b"abab".to_vec(), Ok(()))
    );
}

#[test]
fn the_encoder_compresses_after_a_period_that_would_have_been_shorter() {
    // 256 uncompressed characters, the escape character and ECM, then "a" and a flush: 100 + (1 << 9) is 0x264.
    let line = encode(parameters(512, 250), &[b'a'; 257]);
    assert_eq!(line[..256], [b'a'; 256]);
    assert_eq!(line[256..], [0, command::ECM, 0x64, 0x02, 0x00]);
}

#[test]
fn the_encoder_steps_up_when_a_codeword_needs_it() {
    let parameters = parameters(2048, 32);
    let text: Vec<u8> = (0..4000u32)
        .flat_map(|n| format!("<li>{}</li>", n % 40 * 7919).into_bytes())
        .collect();
    let line = encode(parameters, &text);
    let mut decoder = Decoder::new(parameters);
    let mut output = Vec::new();
    decoder.decode(&line, &mut output).unwrap();
    assert!(output == text);
    assert!(line.len() * 4 < text.len(), "{} bytes", line.len());
    // A decoder with a smaller dictionary rejects the first STEPUP to ten bits, or an unknown string.
    assert!(decode(Parameters::new(512, 32).unwrap(), &line).1.is_err());
}

#[test]
fn data_that_does_not_compress_is_sent_as_it_is() {
    let parameters = parameters(2048, 32);
    let mut random = 1u32;
    let noise: Vec<u8> = (0..20_000)
        .map(|_| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 24) as u8
        })
        .collect();
    let text = b"the same text again, ".repeat(100);
    let data = [&text[..], &noise, &text].concat();
    let line = encode(parameters, &data);
    let (output, result) = decode(parameters, &line);
    assert_eq!((output == data, result), (true, Ok(())));
    let texts = encode(parameters, &text).len();
    assert!(texts * 2 < text.len());
    // One character in 256 is the escape character. The first period of noise is sent in compressed mode.
    assert!(line.len() < noise.len() + noise.len() / 200 + 2 * texts + 200);
}

#[test]
fn what_no_encoder_sends_is_an_error_and_stays_one() {
    for (codewords, line, error) in [
        // The entry that this codeword creates.
        (
            512,
            compressed(&[(A, 9), (259, 9)]),
            DecodeError::UnknownCodeword(259),
        ),
        // The entry after the next.
        (
            512,
            compressed(&[(A, 9), (300, 9)]),
            DecodeError::UnknownCodeword(300),
        ),
        // A codeword beyond the dictionary, of the size that the dictionary needs.
        (
            600,
            compressed(&[(A, 9), (control::STEPUP, 9), (700, 10)]),
            DecodeError::UnknownCodeword(700),
        ),
        (
            512,
            compressed(&[(A, 9), (control::STEPUP, 9)]),
            DecodeError::StepUp(9),
        ),
        (
            1024,
            compressed(&[(A, 9), (control::STEPUP, 9), (control::STEPUP, 10)]),
            DecodeError::StepUp(10),
        ),
    ] {
        let mut decoder = Decoder::new(parameters(codewords, 6));
        let mut output = Vec::new();
        assert_eq!(decoder.decode(&line, &mut output), Err(error));
        assert_eq!(decoder.decode(b"more", &mut output), Err(error));
        assert_eq!(output, b"a");
    }
    let (output, result) = decode(parameters(512, 6), &[b'x', 0, 3]);
    assert_eq!(output, b"x");
    assert_eq!(result, Err(DecodeError::ReservedCommand(3)));
}

#[test]
fn a_reset_returns_to_the_initial_state() {
    // The escape character is 51 after the first occurrence, and 0 again after the reset.
    let line = [0, command::EID, 51, command::RESET, 51, 0, command::EID];
    assert_eq!(decode(parameters(512, 6), &line), (vec![0, 51, 0], Ok(())));
}

#[test]
fn the_oldest_string_that_begins_no_other_is_recovered() {
    let mut dictionary = Dictionary::new(parameters(512, 6));
    let root = Dictionary::root;
    // "ab" is a prefix of "abc"; "ac" is not a prefix of any string.
    assert_eq!(dictionary.add(root(b'a'), b'b'), Some(259));
    assert_eq!(dictionary.add(root(b'a'), b'c'), Some(260));
    assert_eq!(dictionary.add(259, b'c'), Some(261));
    assert_eq!(dictionary.add(259, b'c'), None, "the string exists already");
    for n in 0..250 {
        assert_eq!(dictionary.add(root(b'z'), n), Some(262 + u16::from(n)));
    }
    // The last addition filled the dictionary, so "ac" was deleted to make room for the next string.
    assert!(dictionary.contains(259) && !dictionary.contains(260));
    assert_eq!(dictionary.longer(root(b'a'), b'c'), None);
    assert_eq!(dictionary.add(root(b'a'), b'd'), Some(260));
    // The next addition deleted "abc". "ab" is now not a prefix, but the search has already passed it.
    assert!(!dictionary.contains(261) && dictionary.contains(259));
}

#[test]
fn no_string_is_longer_than_agreed() {
    let mut dictionary = Dictionary::new(parameters(512, 6));
    let mut string = Dictionary::root(b'x');
    for _ in 1..6 {
        string = dictionary.add(string, b'x').unwrap();
    }
    assert_eq!(dictionary.add(string, b'x'), None);
    let mut spelt = Vec::new();
    dictionary.spell(string, &mut spelt);
    assert_eq!(spelt, b"xxxxxx");
}

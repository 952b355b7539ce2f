//! Tests of the examples of RFC 7541, of its rules, and of properties.

use proptest::prelude::*;

use super::*;
use crate::field_block::FieldBlock;
use crate::hexadecimal::bytes;

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, Error> {
    let mut fields = FieldBlock::default();
    decoder.decode(block, &mut fields)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ok(fields.iter().map(|(n, v)| (text(n), text(v))).collect())
}

fn encode(encoder: &mut Encoder, fields: &[(&str, &str)], indexing: Indexing) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value) in fields {
        encoder.encode(name.as_bytes(), value.as_bytes(), indexing, &mut out);
    }
    out
}

fn assert_fields(found: &[(String, String)], expected: &[(&str, &str)]) {
    let found: Vec<_> = found
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    assert_eq!(found, expected);
}

fn plain() -> Decoder {
    Decoder::new(4096, 1 << 16)
}

/// The examples of RFC 7541 appendix C.2.
#[test]
fn representations_of_one_field() {
    let never = "1008 7061 7373 776f 7264 0673 6563 7265 74";
    for (block, name, value) in [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key",
            "custom-header",
        ),
        (
            "040c 2f73 616d 706c 652f 7061 7468",
            ":path",
            "/sample/path",
        ),
        (never, "password", "secret"),
        ("82", ":method", "GET"),
    ] {
        let found = decode(&mut plain(), &bytes(block)).unwrap();
        assert_fields(&found, &[(name, value)]);
    }
    let mut encoder = Encoder::new(4096);
    let secret = [("password", "secret")];
    let block = encode(&mut encoder, &secret, Indexing::Never);
    assert_eq!(block[0], 0x10);
    // The field was not inserted: the second block has the same bytes.
    assert_eq!(encode(&mut encoder, &secret, Indexing::Never), block);
    let method = encode(&mut encoder, &[(":method", "GET")], Indexing::Never);
    assert_eq!(
        method,
        bytes("12 83 c5 837f"),
        "a name from the static table"
    );
    let path = encode(&mut encoder, &[(":path", "/x")], Indexing::No);
    assert_eq!(path, bytes("04 82 63 cf"));
    assert_eq!(encode(&mut encoder, &[(":path", "/x")], Indexing::No), path);
}

const REQUESTS: [&[(&str, &str)]; 3] = [
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
];

const DATE: &str = "Mon, 21 Oct 2013 20:13:21 GMT";
const LATER: &str = "Mon, 21 Oct 2013 20:13:22 GMT";
const LOCATION: (&str, &str) = ("location", "https://www.example.com");
const RESPONSES: [&[(&str, &str)]; 3] = [
    &[
        (":status", "302"),
        ("cache-control", "private"),
        ("date", DATE),
        LOCATION,
    ],
    &[
        (":status", "307"),
        ("cache-control", "private"),
        ("date", DATE),
        LOCATION,
    ],
    &[
        (":status", "200"),
        ("cache-control", "private"),
        ("date", LATER),
        LOCATION,
        ("content-encoding", "gzip"),
        (
            "set-cookie",
            "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
        ),
    ],
];

/// The examples of RFC 7541 appendix C.3.
#[test]
fn requests_without_huffman_code() {
    let mut decoder = plain();
    let blocks = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    for (block, expected) in blocks.into_iter().zip(REQUESTS) {
        assert_fields(&decode(&mut decoder, &bytes(block)).unwrap(), expected);
    }
}

/// The examples of RFC 7541 appendix C.4, encoded and decoded.
#[test]
fn requests_with_huffman_code() {
    let (mut encoder, mut decoder) = (Encoder::new(4096), plain());
    let blocks = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for (block, fields) in blocks.into_iter().zip(REQUESTS) {
        assert_fields(&decode(&mut decoder, &bytes(block)).unwrap(), fields);
        assert_eq!(encode(&mut encoder, fields, Indexing::Yes), bytes(block));
    }
}

/// The examples of RFC 7541 appendix C.5.
#[test]
fn responses_without_huffman_code_evict_entries() {
    let mut decoder = Decoder::new(256, 1 << 16);
    decode(&mut decoder, &bytes("3fe101")).unwrap();
    let blocks = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
         2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
         6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
         54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
         5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
         3d31",
    ];
    for (block, expected) in blocks.into_iter().zip(RESPONSES) {
        assert_fields(&decode(&mut decoder, &bytes(block)).unwrap(), expected);
    }
}

/// The examples of RFC 7541 appendix C.6, encoded and decoded.
#[test]
fn responses_with_huffman_code_evict_entries() {
    let mut decoder = Decoder::new(256, 1 << 16);
    let mut encoder = Encoder::new(256);
    let update = encode(&mut encoder, &[], Indexing::Yes);
    assert_eq!(update, bytes("3fe101"));
    decode(&mut decoder, &update).unwrap();
    let blocks = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
         9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    for (block, fields) in blocks.into_iter().zip(RESPONSES) {
        assert_fields(&decode(&mut decoder, &bytes(block)).unwrap(), fields);
        assert_eq!(encode(&mut encoder, fields, Indexing::Yes), bytes(block));
    }
}

#[test]
fn each_fault_of_a_block_has_its_error() {
    for (block, expected) in [
        ("80", Error::UnknownIndex),
        ("be", Error::UnknownIndex),
        ("ffff ffff ffff 7f", Error::UnknownIndex),
        ("7f ff01 00", Error::UnknownIndex),
        ("ff ffff ffff ffff ffff ffff ff7f", Error::IntegerTooLarge),
        ("ff 8080 8080 8080 8080 8080 00", Error::IntegerTooLarge),
        ("ff", Error::Truncated),
        ("40", Error::Truncated),
        ("40 05 61 62", Error::Truncated),
        ("40 01 61", Error::Truncated),
        ("40 7f ffff ffff ffff ff7f", Error::Truncated),
        ("40 81 00 00", Error::BadHuffman),
        ("40 84 ffff ffff 00", Error::BadHuffman),
        ("82 20", Error::LateSizeUpdate),
        ("3f e2 1f", Error::TableTooLarge),
    ] {
        let found = decode(&mut plain(), &bytes(block));
        assert_eq!(found, Err(expected), "{block}");
        assert!(expected.is_fatal());
    }
}

#[test]
fn a_smaller_table_is_signalled_and_applied() {
    let mut decoder = plain();
    let mut encoder = Encoder::new(4096);
    let fields = [("x-a", "1"), ("x-b", "2")];
    let block = encode(&mut encoder, &fields, Indexing::Yes);
    decode(&mut decoder, &block).unwrap();
    // The limit is set to 0 and raised again: the table was emptied on both sides.
    encoder.set_table_limit(0);
    encoder.set_table_limit(100);
    decoder.set_table_limit(100);
    let block = encode(&mut encoder, &fields, Indexing::Yes);
    assert_eq!(block[..3], bytes("20 3f 45"));
    assert_fields(&decode(&mut decoder, &block).unwrap(), &fields);
    let block = encode(&mut encoder, &fields, Indexing::Yes);
    assert_eq!(block, bytes("bf be"));
    assert_fields(&decode(&mut decoder, &block).unwrap(), &fields);
    // A larger limit: the table never exceeds the maximum of the encoder.
    encoder.set_table_limit(1 << 20);
    assert_eq!(encode(&mut encoder, &[], Indexing::Yes), bytes("3f e1 1f"));
    // The decoder detects a peer that ignores a smaller table.
    let mut decoder = plain();
    decoder.set_table_limit(100);
    assert_eq!(
        decode(&mut decoder, &bytes("82")),
        Err(Error::MissingSizeUpdate)
    );
}

#[test]
fn a_table_of_size_zero_works() {
    let mut encoder = Encoder::new(0);
    let mut decoder = Decoder::new(0, 1 << 16);
    let fields = [("x-a", "1"), (":status", "200"), ("x-a", "1")];
    let block = encode(&mut encoder, &fields, Indexing::Yes);
    assert_eq!(block[0], 0x20);
    assert_fields(&decode(&mut decoder, &block).unwrap(), &fields);
    let again = encode(&mut encoder, &fields, Indexing::Yes);
    assert_eq!(again, block[1..]);
}

#[test]
fn a_decompression_bomb_is_bounded_by_the_section_limit() {
    let mut decoder = Decoder::new(4096, 20_000);
    let value = "v".repeat(4000);
    let mut encoder = Encoder::new(4096);
    let block = encode(&mut encoder, &[("x", &value)], Indexing::Yes);
    decode(&mut decoder, &block).unwrap();
    // 30 kB that would decode to 120 MB; after them an entry that both sides must insert.
    let mut bomb = vec![0xbe; 30_000];
    encoder.encode(b"later", b"entry", Indexing::Yes, &mut bomb);
    let mut fields = FieldBlock::default();
    let result = decoder.decode(&bomb, &mut fields);
    assert_eq!(result, Err(Error::SectionTooLarge));
    assert!(!Error::SectionTooLarge.is_fatal());
    assert_eq!(fields.len(), 4);
    assert!(fields.bytes().0 <= 20_000);
    let fields = [("later", "entry")];
    let block = encode(&mut encoder, &fields, Indexing::Yes);
    assert_eq!(block, [0xbe]);
    assert_fields(&decode(&mut decoder, &block).unwrap(), &fields);
}

fn any_field() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let name = prop_oneof![
        prop::sample::select(vec![&b":status"[..], b"date", b"x-1", b"x-2", b"x-3"])
            .prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    let value = prop_oneof![
        prop::sample::select(vec![&b""[..], b"200", b"1", b"2", b"3"]).prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 0..80),
    ];
    (name, value)
}

proptest! {
    #[test]
    fn encoded_sections_are_decoded_back(
        sections in prop::collection::vec(prop::collection::vec((any_field(), 0u8..3), 0..12), 1..20),
        limits in prop::collection::vec((0usize..20, 0u32..9000), 0..6),
        max_table in prop_oneof![Just(0u32), Just(4096), 0u32..9000],
    ) {
        let mut encoder = Encoder::new(max_table);
        let mut decoder = Decoder::new(9000, 1 << 20);
        let (mut block, mut fields) = (Vec::new(), FieldBlock::default());
        for (place, section) in sections.iter().enumerate() {
            for &(_, limit) in limits.iter().filter(|&&(at, _)| at == place) {
                encoder.set_table_limit(limit);
                decoder.set_table_limit(limit);
            }
            block.clear();
            fields.clear();
            encoder.begin(&mut block);
            for ((name, value), indexing) in section {
                let indexing = [Indexing::Yes, Indexing::No, Indexing::Never][usize::from(*indexing)];
                encoder.encode(name, value, indexing, &mut block);
            }
            prop_assert_eq!(decoder.decode(&block, &mut fields), Ok(()));
            let expected = section.iter().map(|((name, value), _)| (&name[..], &value[..]));
            prop_assert!(fields.iter().eq(expected));
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(input in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz(&input);
    }
}

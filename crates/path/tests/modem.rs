//! Links whose modems compress, in virtual time.

use fathometer_model::{Instant, Seed};
use fathometer_path::v42bis::{Encoder, Parameters};
use fathometer_path::{Arrival, Direction, DropReason, Link, Profile};

const MODEM: &str = "rate = \"28.8kbit/s\"\nframing = \"ppp\"\npropagation = \"75ms\"\n\
                     compression = { v42bis = { codewords = 2048, longest-string = 32 } }";

fn profile(both: &str) -> Result<Profile, String> {
    let text = format!("name = \"test\"\nsource = \"a test\"\n[both]\n{both}");
    Profile::from_toml(&text, "test").map_err(|error| error.to_string())
}

fn link(both: &str) -> Link<Vec<u8>> {
    Link::new(&profile(both).unwrap(), Direction::Down, Seed(1))
}

/// Returns the time at which the last bit of each packet leaves, in nanoseconds, if all packets arrive at 0.
fn departures(mut link: Link<Vec<u8>>, packets: &[Vec<u8>]) -> Vec<u64> {
    for packet in packets {
        link.arrive(Instant::ZERO, packet.len() as u32, packet.clone());
    }
    let mut departures = Vec::new();
    while let Some(due) = link.next_due() {
        while let Some(packet) = link.deliver(due) {
            departures.push(packet.scheduled.as_nanos() - 75_000_000);
        }
    }
    departures
}

/// Returns the serialisation time of `bytes` at 28.8 kbit/s in nanoseconds, rounded up.
fn nanos(bytes: usize) -> u64 {
    (bytes as u64 * 8 * 1_000_000_000).div_ceil(28_800)
}

/// Builds the PPP frame of an IPv4 packet that contains neither the flag nor the escape. `check` is the check sequence.
fn frame(packet: &[u8], check: [u8; 2]) -> Vec<u8> {
    [&[0xff, 3, 0, 0x21], packet, &check, &[0x7e]].concat()
}

#[test]
fn the_first_packet_takes_its_frame_and_an_escape() {
    // 40 bytes, 7 bytes of framing, and 1 byte because the protocol 0x0021 begins with a zero, the first escape
    // character.
    let packet = vec![0x45; 40];
    assert_eq!(departures(link(MODEM), &[packet]), [nanos(48)]);
    assert_eq!(nanos(48), 13_333_334);
}

#[test]
fn a_payload_may_be_a_longer_buffer() {
    let mut link = link(MODEM);
    let mut buffer = vec![0x45; 40];
    buffer.extend([0x7e; 1460]);
    link.arrive(Instant::ZERO, 40, buffer);
    let due = link.next_due().unwrap().as_nanos();
    assert_eq!(due - 75_000_000, nanos(48));
}

#[test]
fn a_flag_in_the_packet_is_escaped_before_it_is_compressed() {
    let mut packet = vec![0x45; 40];
    packet[20] = 0x7e;
    assert_eq!(departures(link(MODEM), &[packet]), [nanos(49)]);
}

#[test]
fn the_dictionary_is_kept_from_packet_to_packet() {
    let packet = vec![0x45; 40];
    let packets = vec![packet.clone(); 40];
    let sent = departures(link(MODEM), &packets);
    // The modem sends the 235 characters of five packets uncompressed. It changes its mode within the sixth packet.
    assert_eq!(sent[4], nanos(5 * 47 + 1));
    assert!(sent[5] < nanos(6 * 47));
    // The last frame is three strings of at most 32 characters: 3 × 10 bits and a flush of 10, in whole bytes.
    let last = sent[39] - sent[38];
    assert!(last <= nanos(6), "{last} ns");
    // The encoder alone gives the same numbers of bytes.
    let mut encoder = Encoder::new(Parameters::new(2048, 32).unwrap());
    let mut line = Vec::new();
    for at in sent {
        encoder.encode(&frame(&packet, [0x2b, 0xa5]), &mut line);
        encoder.flush(&mut line);
        assert_eq!(at, nanos(line.len()));
    }
}

#[test]
fn a_dropped_packet_does_not_reach_the_modem() {
    let packet = vec![0x45; 40];
    let other = vec![0x46; 40];
    let mut dropping = link(&format!(
        "{MODEM}\ndrop-list = [0]\nqueue = {{ packets = 1 }}"
    ));
    let mut arrive =
        |bytes: &Vec<u8>| match dropping.arrive(Instant::ZERO, bytes.len() as u32, bytes.clone()) {
            Arrival::Accepted { .. } => None,
            Arrival::Dropped(dropped) => Some(dropped.reason),
        };
    assert_eq!(arrive(&other), Some(DropReason::DropList));
    assert_eq!(arrive(&packet), None);
    assert_eq!(arrive(&packet), None);
    assert_eq!(arrive(&other), Some(DropReason::QueueFull));
    let rest = departures(dropping, &[]);
    assert_eq!(rest, departures(link(MODEM), &[packet.clone(), packet]));
}

#[test]
fn content_that_is_compressed_already_takes_hardly_longer_than_without_a_modem() {
    let mut random = 7u32;
    let mut packet = || {
        let mut byte = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 24) as u8
        };
        (0..1500).map(|_| byte()).collect::<Vec<u8>>()
    };
    let packets: Vec<Vec<u8>> = (0..50).map(|_| packet()).collect();
    let plain = MODEM.lines().take(3).collect::<Vec<_>>().join("\n");
    let plain = *departures(link(&plain), &packets).last().unwrap();
    let modem = *departures(link(MODEM), &packets).last().unwrap();
    // PPP escapes 2 of 256 characters, and the modem escapes 1: 1.2 %.
    let ratio = modem as f64 / plain as f64;
    assert!((1.005..1.02).contains(&ratio), "{ratio}");
}

#[test]
fn a_profile_states_its_compression_and_is_checked() {
    assert!(
        profile(MODEM)
            .unwrap()
            .to_string()
            .contains("PPP framing, V.42bis 2048 codewords of up to 32 B")
    );
    let least = profile("rate = \"1Mbit/s\"\nframing = \"ppp\"\ncompression = { v42bis = {} }");
    let text = serde_json::to_value(least.unwrap().up.compression).unwrap();
    assert_eq!(
        text,
        serde_json::json!({ "v42bis": { "codewords": 512, "longest-string": 6 } })
    );
    for (text, what) in [
        (
            "rate = \"1Mbit/s\"\ncompression = { v42bis = {} }",
            "framing = \"ppp\"",
        ),
        ("framing = \"ppp\"\ncompression = { v42bis = {} }", "a rate"),
        (
            "compression = { v42bis = { codewords = 511 } }",
            "512 to 65535",
        ),
        (
            "compression = { v42bis = { longest-string = 251 } }",
            "6 to 250",
        ),
        (
            "compression = { v42bis = { words = 600 } }",
            "unknown field `words`",
        ),
        ("compression = { mnp5 = {} }", "unknown variant `mnp5`"),
    ] {
        let error = profile(text).unwrap_err();
        assert!(error.contains(what), "{text}: {error}");
    }
    let none = profile("rate = \"1Mbit/s\"").unwrap();
    let json = serde_json::to_value(&none.up).unwrap();
    assert!(
        json.get("compression").is_none(),
        "old records stay the same"
    );
}

//! Every packet has the same class here and in an independent program.
//!
//! [`fathometer_packets`] and tshark (with the display filter of each class) classify each capture.
//! The test compares the numbers of the frames, not only their count. Some captures are generated here, with
//! packets that are easily miscounted. Others are recorded in a lab where one is available (if
//! `FATHOMETER_REQUIRE_LAB` is 1, one must be). Captures of runs in this tree and those named in
//! `FATHOMETER_CAPTURES` (separated by `:`) are compared too.
//!
//! Without tshark nothing is compared: the test prints a message to stderr, or fails when
//! `FATHOMETER_REQUIRE_TOOLS` is 1.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fathometer_model::Seed;
use fathometer_packets::capture::Capture;
use fathometer_packets::link::ip_packet as ip_packet_in;
use fathometer_packets::parse::{Flags, Parsed};
use fathometer_packets::synthetic::{
    CaptureWriter, Conversation, SegmentPlan, ethernet, ip_packet,
};
use fathometer_packets::{Class, Options, TapChoice, account};

use crate::support::laboratory::possible;

const ACK: Flags = Flags::ACK;
const FIN_ACK: Flags = Flags(0x11);
const MS: u64 = 1_000_000;

/// The link type of raw IP.
const RAW: u16 = 101;

#[test]
fn every_made_up_packet_is_in_tsharks_class() {
    let Some(tshark) = Tshark::find() else { return };
    let captures = [
        ("retransmissions and wraps, raw IP, four taps", four_taps()),
        (
            "IPv6, virtual LANs, tunnels, fragments, quotations",
            ethernet_zoo(),
        ),
        ("any flags, lengths and cuts, IPv4", anything(4, Seed(1))),
        ("any flags, lengths and cuts, IPv6", anything(6, Seed(2))),
        ("link types of one section each", link_types()),
        ("classic, microseconds, other byte order", classic()),
        ("cut in its last packet", cut(&four_taps())),
    ];
    for (name, bytes) in captures {
        let file = tshark.file(&bytes);
        tshark.compare(name, &file);
    }
}

#[test]
fn every_packet_of_a_lab_is_in_tsharks_class() {
    let Some(tshark) = Tshark::find() else { return };
    if !possible("every_packet_of_a_lab_is_in_tsharks_class") {
        return;
    }
    for (policy, era) in [("h1.0x4", "1997"), ("h1.1-pipeline", "today")] {
        let file = fetch_behind_a_lossy_path(tshark.folder.path(), policy, era);
        tshark.compare(&format!("a lab: {policy}, {era}"), &file);
        let bytes = fs::read(&file).unwrap();
        let accounting = account(&bytes[..], &Options::default()).unwrap();
        assert!(accounting.integrity.is_whole());
        // The path dropped data, but every byte arrived, and the cause of each loss is known.
        let sent = accounting
            .sent
            .as_ref()
            .expect("the lab reports what was sent");
        assert!(sent.total().lost_total() > 0, "{sent:?}");
        let expected = Class::ALL
            .iter()
            .map(|class| accounting.classes.of(*class))
            .sum::<u64>();
        let taps = r#"frame.interface_name == "client.tx" || frame.interface_name == "client.rx""#;
        assert_eq!(tshark.frames(&file, taps).len() as u64, expected);
    }
}

#[test]
fn every_recorded_packet_is_in_tsharks_class() {
    let Some(tshark) = Tshark::find() else { return };
    let captures = recorded_captures();
    if captures.is_empty() {
        eprintln!("no capture of a run in this tree: only generated captures are compared");
    }
    for file in captures {
        tshark.compare(&file.display().to_string(), &file);
    }
}

#[test]
fn the_totals_are_tsharks() {
    let Some(tshark) = Tshark::find() else { return };
    let file = tshark.file(&pages());
    let accounting = account(&fs::read(&file).unwrap()[..], &Options::default()).unwrap();
    let column = |filter: &str, field: &str| tshark.column(&file, filter, field);
    let sum = |values: Vec<String>| {
        values
            .iter()
            .map(|v| v.parse::<u64>().unwrap())
            .sum::<u64>()
    };

    let streams: BTreeSet<String> = column("tcp", "tcp.stream").into_iter().collect();
    assert_eq!(accounting.connections.len(), streams.len());
    assert!(
        streams.len() > 20,
        "{} connections are too few",
        streams.len()
    );
    assert_eq!(accounting.payload_bytes().0, sum(column("tcp", "tcp.len")));
    assert_eq!(accounting.ip_bytes().0, sum(column("ip", "ip.len")));

    let both = |figure: fn(&fathometer_packets::DirectionSummary) -> u64| {
        figure(&accounting.up) + figure(&accounting.down)
    };
    let count = |filter: &str| column(filter, "frame.number").len() as u64;
    // A segment that fills a gap has new data. Its delay decides whether it counts as a retransmission or as out of
    // order.
    let again = "tcp.analysis.retransmission || tcp.analysis.out_of_order";
    let ours = both(|d| d.retransmitted_packets + d.out_of_order_packets);
    assert_eq!(ours, count(again));
    // tshark counts more ACKs as duplicates: it does not check whether data are outstanding.
    let duplicates = count("tcp.analysis.duplicate_ack");
    assert_eq!(both(|d| d.duplicate_acks), 4 * 24);
    assert!(duplicates >= 4 * 24, "{duplicates}");
    assert_eq!(both(|d| d.keep_alives), count("tcp.analysis.keep_alive"));
    assert_eq!(both(|d| d.zero_windows), count("tcp.analysis.zero_window"));
    let most = |values: Vec<String>| values.iter().map(|v| v.parse::<u64>().unwrap()).max();
    let up = "tcp.dstport == 80 && tcp.flags.syn == 0 && tcp.flags.reset == 0";
    let window = accounting.up.window_max.map(|bytes| bytes.0);
    assert_eq!(window, most(column(up, "tcp.window_size")));
}

/// Fetches the Microscape page over a path that loses, reorders and duplicates packets; returns the capture.
fn fetch_behind_a_lossy_path(folder: &Path, policy: &str, era: &str) -> PathBuf {
    let profile = folder.join("lossy.toml");
    fs::write(&profile, LOSSY).unwrap();
    let capture = folder.join(format!("{policy}-{era}.pcapng"));
    let program = env!("CARGO_BIN_EXE_fathometer");
    let server = format!("exec '{program}' serve --site microscape --listen 0.0.0.0:80");
    // The server takes some time to listen; the capture also contains connections refused before that.
    let client = format!(
        "for n in $(seq 100); do '{program}' fetch http://$FATHOMETER_SERVER/ --policy {policy} \
         && exit 0; sleep 0.1; done; exit 1"
    );
    let output = fathometer(&["path"])
        .arg(&profile)
        .args(["--era", era, "--server", &server, "--capture"])
        .arg(&capture)
        .args(["--", "sh", "-c", &client])
        .output()
        .unwrap();
    // Exit code 3: the path was late, which does not affect this test.
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{errors}");
    capture
}

fn fathometer(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathometer"));
    command.args(words).stdin(Stdio::null());
    command
}

const LOSSY: &str = r#"
name = "lossy"
source = "made up: every way in which a packet can fail to arrive once and in order"
mtu = 1500

[both]
rate = "5Mbit/s"
propagation = "10ms"
framing = "ethernet"
queue = { codel = { packets = 60 } }
loss = { independent = 0.03 }
reorder = { probability = 0.01, extra = "6ms" }
duplicate = 0.005
"#;

/// tshark, and a temporary folder for it.
struct Tshark {
    folder: tempfile::TempDir,
}

impl Tshark {
    /// Finds tshark; `None`, with a message, if it is not installed.
    fn find() -> Option<Tshark> {
        let found = Command::new("tshark")
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if found.is_ok_and(|status| status.success()) {
            let folder = tempfile::tempdir().unwrap();
            return Some(Tshark { folder });
        }
        let required = std::env::var("FATHOMETER_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(
            !required,
            "tshark does not run, and FATHOMETER_REQUIRE_TOOLS is 1"
        );
        eprintln!(
            "SKIPPED: tshark does not run here, so no class is compared (apt-get install tshark)"
        );
        None
    }

    fn file(&self, bytes: &[u8]) -> PathBuf {
        let number = fs::read_dir(self.folder.path()).unwrap().count();
        let file = self.folder.path().join(format!("{number}.pcap"));
        fs::write(&file, bytes).unwrap();
        file
    }

    /// Compares the frames of every class.
    fn compare(&self, name: &str, file: &Path) {
        let ours = classes(file);
        let all = self.frames(file, "frame");
        assert_eq!(ours.len(), all.len(), "{name}: packets");
        let mut partition = 0;
        for class in Class::ALL {
            let of_class = |(n, c): (usize, &Class)| (*c == class).then_some(n as u64 + 1);
            let ours: Vec<u64> = ours.iter().enumerate().filter_map(of_class).collect();
            let theirs = self.frames(file, class.display_filter());
            assert_eq!(ours, theirs, "{name}: frames of class {class}");
            partition += theirs.len();
        }
        assert_eq!(partition, all.len(), "{name}: the classes are a partition");
        println!("{name}: {} packets, every class equal", all.len());
    }

    fn frames(&self, file: &Path, filter: &str) -> Vec<u64> {
        let numbers = self.column(file, filter, "frame.number");
        numbers
            .iter()
            .map(|number| number.parse().unwrap())
            .collect()
    }

    /// Returns one field of the packets that pass a filter.
    fn column(&self, file: &Path, filter: &str, field: &str) -> Vec<String> {
        let output = Command::new("tshark")
            .args([
                "-n",
                "-o",
                "ip.defragment:FALSE",
                "-o",
                "ipv6.defragment:FALSE",
            ])
            .args([
                "-T",
                "fields",
                "-E",
                "occurrence=f",
                "-e",
                field,
                "-Y",
                filter,
                "-r",
            ])
            .arg(file)
            // Ignores the user's preferences.
            .env("WIRESHARK_CONFIG_DIR", self.folder.path())
            .env("HOME", self.folder.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        // tshark reports a truncated capture on stderr, after its packets.
        let well = output.status.success() || errors.contains("cut short");
        assert!(well, "tshark -Y {filter:?}: {errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// Returns our class of every packet in a file.
fn classes(file: &Path) -> Vec<Class> {
    let bytes = fs::read(file).unwrap();
    let mut capture = Capture::open(&bytes[..]).unwrap();
    let (mut classes, mut counted) = (Vec::new(), Vec::new());
    while let Some(record) = capture.next_record().unwrap() {
        let parsed = match ip_packet_in(record.interface.link, record.data) {
            Some(packet) => {
                let link = (record.data.len() - packet.len()) as u32;
                Parsed::parse(packet, record.original_length - link)
            }
            None => Parsed::NotIp,
        };
        let class = Class::of(&parsed);
        classes.push(class);
        if TapChoice::All.counts(record.interface.name.as_deref()) {
            counted.push(class);
        }
    }
    let options = Options {
        taps: TapChoice::All,
        ..Options::default()
    };
    let accounting = account(&bytes[..], &options).unwrap();
    for class in Class::ALL {
        let count = counted.iter().filter(|c| **c == class).count();
        assert_eq!(accounting.classes.of(class), count as u64, "{class}");
    }
    classes
}

/// Returns the newest few captures of runs in this tree, and those named in the environment.
fn recorded_captures() -> Vec<PathBuf> {
    let mut captures = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "pcapng")
            {
                captures.push(path);
            }
        }
    }
    let age = |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).ok();
    captures.sort_by_key(|path| std::cmp::Reverse(age(path)));
    captures.truncate(6);
    let named = std::env::var_os("FATHOMETER_CAPTURES").unwrap_or_default();
    captures.extend(std::env::split_paths(&named).filter(|path| path.is_file()));
    captures
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Returns the segments of a page with loss in both directions, sequence numbers that wrap, probes and every kind of
/// connection end.
fn page(port: u16, initial: (u32, u32)) -> Vec<SegmentPlan> {
    let client = SocketAddr::new([10, 0, 0, 1].into(), port);
    let mut talk = Conversation::new(client, address("10.0.0.2:80"), initial);
    talk.offer = vec![
        2, 4, 0x05, 0xb4, 1, 3, 3, 7, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0,
    ];
    talk.options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0];
    let [syn, syn_ack, ack] = talk.open();
    let mut plans = vec![syn.clone(), syn, syn_ack, ack];
    plans.push(talk.up(ACK | Flags::PSH, 300));
    let first = talk.down(ACK, 1_448);
    plans.push(first.clone());
    plans.push(talk.up(ACK, 0));
    let waiting = talk.up(ACK, 0);
    let lost = talk.down(ACK, 1_448);
    for _ in 0..4 {
        plans.push(talk.down(ACK, 1_448));
        plans.push(waiting.clone());
    }
    plans.push(lost);
    plans.push(talk.up(ACK, 0));
    plans.push(first);
    plans.push(talk.up(ACK, 0));
    let mut keep_alive = talk.down(ACK, 0);
    keep_alive.sequence = keep_alive.sequence.wrapping_sub(1);
    plans.push(keep_alive);
    plans.push(SegmentPlan {
        window: 0,
        ..talk.up(ACK, 0)
    });
    plans.push(talk.up(ACK, 0));
    match port % 4 {
        0 => {
            plans.push(talk.down(FIN_ACK, 500));
            plans.push(talk.up(ACK, 0));
            plans.push(talk.up(FIN_ACK, 0));
            plans.push(talk.down(ACK, 0));
        }
        1 => {
            plans.push(talk.down(FIN_ACK, 0));
            plans.push(talk.up(ACK, 200));
            plans.push(SegmentPlan {
                acknowledgement: 0,
                ..talk.down(Flags::RST, 0)
            });
        }
        2 => {
            plans.push(talk.up(FIN_ACK, 0));
            plans.push(talk.down(FIN_ACK, 0));
            plans.push(talk.up(ACK, 0));
            plans.push(talk.down(Flags::RST | ACK, 0));
        }
        _ => {}
    }
    plans
}

/// Returns a capture of many pages one after another at one tap; ports are reused.
fn pages() -> Vec<u8> {
    let mut writer = CaptureWriter::pcapng(&[("eth0", RAW)]);
    let mut time = 0;
    for n in 0..24u32 {
        let initial = (u32::MAX - 100 - 7 * n, u32::MAX - 3_000 * n);
        for plan in page(1_024 + (n % 16) as u16, initial) {
            // The pages are so far apart that no packet counts as reordered because of its time stamp.
            time += 40 * MS;
            writer.packet(0, time, &plan.ip_packet(), None);
        }
    }
    writer.into_bytes()
}

/// Returns a capture with each packet at the tap where it enters the path and, unless lost, at the tap where it leaves.
fn four_taps() -> Vec<u8> {
    let taps = ["client.tx", "server.rx", "server.tx", "client.rx"];
    let mut writer = CaptureWriter::pcapng(&taps.map(|name| (name, RAW)));
    let mut time = 0;
    for port in 2_000..2_012u16 {
        for (n, plan) in page(port, (u32::MAX - 150, u32::MAX - 4_000))
            .iter()
            .enumerate()
        {
            time += MS;
            let enters = if plan.destination.port() == 80 { 0 } else { 2 };
            let lost = n % 7 == 5;
            let comment = match lost {
                true => "packet=1 queue_packets=3 queue_bytes=4500 drop=loss",
                false => "packet=1 queue_packets=0 queue_bytes=0",
            };
            let packet = plan.ip_packet();
            writer.packet(enters, time, &packet, Some(comment));
            if !lost {
                writer.packet(
                    enters + 1,
                    time + 1_000,
                    &packet,
                    Some("packet=1 late_ns=812"),
                );
            }
        }
    }
    writer.into_bytes()
}

/// Returns a capture of frames with other headers before, around or inside the IP packet.
fn ethernet_zoo() -> Vec<u8> {
    let mut writer = CaptureWriter::pcapng(&[("eth0", 1)]);
    let mut time = 0;
    let mut put = |frame: &[u8]| {
        time += MS;
        writer.packet(0, time, frame, None);
    };
    let (one, other) = (address("10.0.0.1:0"), address("10.0.0.2:0"));
    let mut v4 = Conversation::new(address("10.0.0.1:1025"), address("10.0.0.2:80"), (1, 2));
    let mut v6 = Conversation::new(address("[fd00::1]:1025"), address("[fd00::2]:80"), (1, 2));
    let [syn, syn_ack, ack] = v4.open();
    for (plan, vlan) in [(&syn, None), (&syn_ack, Some(7)), (&ack, Some(4_094))] {
        put(&ethernet(&plan.ip_packet(), vlan));
    }
    for plan in v6.open() {
        put(&ethernet(&plan.ip_packet(), Some(9)));
    }
    // Two VLAN tags, and minimum-size frames with padding after every kind of short segment.
    let mut twice = ethernet(&v4.up(ACK, 1).ip_packet(), Some(5));
    twice.splice(12..12, [0x88, 0xa8, 0, 1]);
    put(&twice);
    put(&ethernet(&v4.up(FIN_ACK, 0).ip_packet(), None));
    put(&ethernet(&v4.down(Flags::RST, 0).ip_packet(), None));
    put(&ethernet(&v4.down(FIN_ACK, 3).ip_packet(), None));
    // SNAP and PPPoE.
    let data = v4.up(ACK, 20).ip_packet();
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &data].concat();
    put(&[&[2; 12][..], &(snap.len() as u16).to_be_bytes(), &snap].concat());
    let length = (data.len() as u16 + 2).to_be_bytes();
    let session = [0x88, 0x64, 0x11, 0, 0, 1, length[0], length[1], 0, 0x21];
    put(&[&[2; 12][..], &session, &data].concat());
    // IPv4 options, and a packet whose total length is 0, as with segmentation offload.
    let mut options = data.clone();
    options[0] = 0x46;
    options[3] += 4;
    options.splice(20..20, [1, 1, 1, 0]);
    put(&ethernet(&options, None));
    let mut unsegmented = v4.up(ACK, 3_000).ip_packet();
    unsegmented[2..4].fill(0);
    put(&ethernet(&unsegmented, None));
    // IPv6 extension headers; an atomic fragment is a complete packet.
    let v6_data = v6.up(ACK, 20).ip_packet();
    put(&ethernet(
        &extended(&v6_data, 0, &[6, 0, 1, 4, 0, 0, 0, 0]),
        None,
    ));
    put(&ethernet(
        &extended(&v6_data, 60, &[6, 0, 1, 4, 0, 0, 0, 0]),
        None,
    ));
    put(&ethernet(
        &extended(&v6_data, 44, &[6, 0, 0, 0, 0, 0, 0, 1]),
        None,
    ));
    // Fragments of both IP versions: the first, a middle one and the last.
    for (more, offset) in [(0x20, 0), (0x20, 4), (0, 8)] {
        let mut fragment = data.clone();
        fragment[6..8].copy_from_slice(&[more, offset]);
        put(&ethernet(&fragment, None));
    }
    for bits in [0x0001u16, 0x0021, 0x0040] {
        let [high, low] = bits.to_be_bytes();
        put(&ethernet(
            &extended(&v6_data, 44, &[6, 0, high, low, 0, 0, 0, 2]),
            None,
        ));
    }
    // An ICMP error that quotes a segment, and tunnels that carry a segment.
    let quotation = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &syn.ip_packet()].concat();
    put(&ethernet(&ip_packet(other, one, 1, &quotation), None));
    let (one6, other6) = (address("[fd00::1]:0"), address("[fd00::2]:0"));
    let quotation = [&[1, 4, 0, 0, 0, 0, 0, 0][..], &v6_data].concat();
    put(&ethernet(&ip_packet(other6, one6, 58, &quotation), None));
    put(&ethernet(&ip_packet(one, other, 4, &syn.ip_packet()), None));
    put(&ethernet(&ip_packet(one, other, 41, &v6_data), None));
    put(&ethernet(
        &ip_packet(one6, other6, 4, &syn.ip_packet()),
        None,
    ));
    let generic = [&[0, 0, 8, 0][..], &syn.ip_packet()].concat();
    put(&ethernet(&ip_packet(one, other, 47, &generic), None));
    let inner = ethernet(&syn.ip_packet(), None);
    let length = (16 + inner.len() as u16).to_be_bytes();
    let extensible = [
        0x80, 1, 0x12, 0xb5, length[0], length[1], 0, 0, 8, 0, 0, 0, 0, 0, 1, 0,
    ];
    put(&ethernet(
        &ip_packet(one, other, 17, &[&extensible[..], &inner].concat()),
        None,
    ));
    // Packets that are not TCP, not IP, or malformed.
    put(&ethernet(
        &ip_packet(one, other, 17, &[0x80, 0, 0, 53, 0, 20, 0, 0, 1, 2, 3]),
        None,
    ));
    put(&ethernet(&ip_packet(one, other, 6, &[0; 12]), None));
    put(&[&[0xff; 12][..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[0; 40]].concat());
    put(&[&[2; 12][..], &[8, 0, 0x45, 0]].concat());
    writer.into_bytes()
}

/// Inserts an extension header after the IPv6 header.
fn extended(packet: &[u8], kind: u8, extension: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[6] = kind;
    let length = u16::from_be_bytes([packet[4], packet[5]]) + extension.len() as u16;
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    packet.splice(40..40, extension.iter().copied());
    packet
}

/// Returns a capture of segments with any flags, lengths and header lengths, complete or truncated.
fn anything(version: u8, seed: Seed) -> Vec<u8> {
    let (client, server) = match version {
        4 => ("10.0.0.1:20000", "10.0.0.2:30000"),
        _ => ("[fd00::1]:20000", "[fd00::2]:30000"),
    };
    let mut writer = CaptureWriter::pcapng_in_order(&[("eth0", 1)], true);
    for n in 0..2_000u64 {
        let draw = |what: u64, below: u64| seed.draw(n * 16 + what) % below;
        let plan = SegmentPlan {
            source: address(client),
            destination: address(server),
            sequence: seed.draw(n * 16) as u32,
            acknowledgement: seed.draw(n * 16 + 1) as u32,
            flags: Flags(draw(2, 64) as u8),
            window: draw(3, 65_536) as u16,
            options: vec![1; draw(4, 11) as usize * 4],
            payload: [0, 0, 1, 6, 500][draw(5, 5) as usize],
        };
        let mut packet = plan.ip_packet();
        if draw(6, 20) == 0 {
            // A random header length.
            let at = if version == 4 { 32 } else { 52 };
            packet[at] = (draw(7, 16) << 4) as u8;
        }
        let frame = ethernet(&packet, None);
        let kept = match draw(8, 4) {
            0 => 14 + draw(9, 90) as usize,
            _ => frame.len(),
        };
        writer.cut_packet(0, n * MS, &frame, kept, None);
    }
    writer.into_bytes()
}

/// Returns a capture of the same three packets with the header of every other supported link type.
fn link_types() -> Vec<u8> {
    let cooked = [&[0; 14][..], &[8, 0]].concat();
    let cooked_2 = [&[8, 0][..], &[0; 18]].concat();
    let addresses = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let behind = |before: &[u8], header: &[u8]| [before, header].concat();
    let mpls = behind(&addresses, &[0x88, 0x47, 0, 1, 0, 9, 0, 2, 1, 9]);
    let macsec = behind(&addresses, &[0x88, 0xe5, 0, 0, 0, 0, 0, 1, 8, 0]);
    let fddi = [&[0x50][..], &addresses, &snap].concat();
    let token_ring = [&[0x10, 0x40][..], &addresses, &snap].concat();
    let wireless = [
        &[8, 1, 0, 0][..],
        &addresses,
        &[2, 0, 0, 0, 0, 3, 0, 0],
        &snap,
    ]
    .concat();
    let radiotap = behind(&[0, 0, 8, 0, 0, 0, 0, 0], &wireless);
    let quality = [
        &[0x88, 2, 0, 0][..],
        &addresses,
        &[2, 0, 0, 0, 0, 3, 0, 0, 0, 0],
        &snap,
    ];
    let links: [(u16, &[u8]); 15] = [
        (1, &mpls),
        (1, &macsec),
        (10, &fddi),
        (6, &token_ring),
        (104, &[0x0f, 0, 8, 0]),
        (105, &wireless),
        (105, &quality.concat()),
        (127, &radiotap),
        (11, &snap),
        (9, &[0xff, 3, 0, 0x21]),
        (113, &cooked),
        (276, &cooked_2),
        (0, &[2, 0, 0, 0]),
        (108, &[0, 0, 0, 2]),
        (228, &[]),
    ];
    let mut writer = CaptureWriter::pcapng(&[]);
    for (n, (link, _)) in links.iter().enumerate() {
        writer.interface(&format!("link{n}"), *link, 6, 0);
    }
    for (n, (_, header)) in links.iter().enumerate() {
        let client = SocketAddr::new([10, 0, 0, 1].into(), 3_000 + n as u16);
        let mut talk = Conversation::new(client, address("10.0.0.2:80"), (1, 2));
        for plan in talk.open() {
            writer.packet(n as u32, 1, &[header, &plan.ip_packet()[..]].concat(), None);
        }
    }
    writer.into_bytes()
}

fn classic() -> Vec<u8> {
    let mut writer = CaptureWriter::pcap(RAW, false, true);
    for (n, plan) in page(1_025, (u32::MAX, 0)).iter().enumerate() {
        writer.packet(0, n as u64 * MS, &plan.ip_packet(), None);
    }
    writer.into_bytes()
}

fn cut(capture: &[u8]) -> Vec<u8> {
    capture[..capture.len() - 9].to_vec()
}

//! Packages over a path, from our origin to our client. Over a modem, each file of a package is usable after its own
//! bytes, and a file of an archive only at the archive's end. A delta transfers only what has changed. The byte counts
//! must equal tshark's.
//!
//! Needs a lab, and tshark for its counts. If something is missing, a test prints a message and skips, unless
//! `FATHOMETER_REQUIRE_LAB` or `FATHOMETER_REQUIRE_TOOLS` is 1.

mod http3;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{
    BundleAnswer, Options, PageDriver, PageList, Retrieval, ValidatorCache, Visit,
};
use fathometer_http::origin::companions::Plan;
use fathometer_http::origin::packages::{Making, Packages};
use fathometer_lab::hosts::{Lab, Side};
use fathometer_lab::server::definition::Definition;
use fathometer_lab::server::{self, Content, Demands, Storage};
use fathometer_lab::wire::{Carried, WireOptions};
use fathometer_load::client::{self, ClientSockets};
use fathometer_model::{Bytes, Delivery, File, Seed, Site};
use fathometer_path::Profile;
use fathometer_sys::SocketOptions;
use fathometer_sys::era::TcpSettings;

use crate::ground;

const FILES: usize = 8;
const SIZE: usize = 3000;

/// Returns a site with files of equal size; the files at `changed` differ from the original files.
fn site(changed: &[usize]) -> Arc<Site> {
    let file = |place: usize| {
        let is_changed = changed.contains(&place);
        let content = (0..SIZE).map(|byte| (byte * 7 + place + usize::from(is_changed)) as u8);
        File {
            path: format!("/set/{place}.bin"),
            content_type: "application/octet-stream".into(),
            body: content.collect::<Vec<u8>>().into(),
            encoded: Vec::new(),
            last_modified: 784_111_777 + u64::from(is_changed),
        }
    };
    Arc::new(Site {
        name: "set".to_owned(),
        files: (0..FILES).map(file).collect(),
        pages: Vec::new(),
    })
}

/// One retrieval over the path, and the path's certificate.
struct Fetched {
    retrieval: Retrieval,
    carried: Carried,
    capture: PathBuf,
}

fn fetch(
    path: &str,
    policy: &str,
    site: &Arc<Site>,
    cache: ValidatorCache,
    folder: &Path,
) -> Fetched {
    let text = fathometer_lab::data::load("paths", "path", path).unwrap();
    let profile = Profile::from_toml(&text, path).unwrap();
    let capture = folder.join(format!("{path}-{policy}-{}.pcapng", cache.len()));
    let options = WireOptions {
        capture: Some(capture.clone()),
        count_packets: true,
        ..WireOptions::new(Seed(6))
    };
    let clock = options.clock;
    let lab = Lab::start(&profile, &options, |_| TcpSettings::default()).unwrap();
    let packages = Packages {
        making: Making::OnTheFly,
        ..Packages::default()
    };
    let content = Content {
        site,
        folder: Path::new(""),
        push: &Plan::default(),
        early_hints: &Plan::default(),
        packages: &packages,
        storage: Storage::Memory,
    };
    let demands = Demands {
        max_requests: None,
        careless_close: false,
        nodelay: true,
        quick_ack: None,
        service_time: Duration::ZERO,
        connection_time: Duration::ZERO,
    };
    let definition = Definition::load("embedded").unwrap();
    let running = server::start(&definition, None, &lab.server, content, demands, clock).unwrap();
    let list = PageList {
        folder: "/set/".to_owned(),
        files: site.files.iter().map(|file| file.path.clone()).collect(),
    };
    let options = Options {
        list: Some(Arc::new(list)),
        ..Options::default()
    };
    let visit = match cache.is_empty() {
        true => Visit::First,
        false => Visit::Revalidate,
    };
    let sockets = ClientSockets {
        options: SocketOptions {
            no_delay: Some(true),
            ..SocketOptions::default()
        },
        ..ClientSockets::default()
    };
    let address = SocketAddr::new(Side::Server.ipv4().into(), server::PORT);
    let policy = policy.parse().unwrap();
    let retrieval = lab
        .client
        .namespace
        .run(|| {
            let start = clock.now();
            let base = String::new();
            let mut driver = PageDriver::new(policy, options, visit, base, cache, start);
            let deadline = start + Duration::from_secs(300);
            let statistics =
                client::drive(&mut driver, address, &sockets, clock, deadline, &|| false).unwrap();
            assert!(!statistics.timed_out && !statistics.cpu_time.is_zero());
            driver.finish(clock.now())
        })
        .unwrap();
    lab.settle(Duration::from_millis(500), Duration::from_secs(10));
    running.stop().unwrap();
    Fetched {
        retrieval,
        carried: lab.end(),
        capture,
    }
}

fn first(path: &str, policy: &str, folder: &Path) -> Fetched {
    let fetched = fetch(path, policy, &site(&[]), ValidatorCache::new(), folder);
    let retrieval = &fetched.retrieval;
    assert_eq!(retrieval.failures, [], "{policy}");
    let bytes: BTreeMap<&str, Bytes> = retrieval
        .files
        .iter()
        .map(|file| (file.target.as_str(), file.bytes))
        .collect();
    assert_eq!(bytes.len(), FILES, "{policy}");
    assert!(bytes.values().all(|&bytes| bytes == Bytes(SIZE as u64)));
    fetched
}

#[test]
fn over_a_modem_a_file_is_usable_after_its_own_bytes() {
    let Some(_guard) = ground("over_a_modem_a_file_is_usable_after_its_own_bytes") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // Time that the line needs for one file.
    let one = Duration::from_secs_f64(SIZE as f64 * 8.0 / 28_800.0);
    let policies = ["package", "package-v1", "tar", "h1.1-tar-whole", "h1.1-zip"];
    // Modem lines use nearly no CPU time, so the retrievals can run in parallel.
    let mut retrievals: BTreeMap<&str, Retrieval> = std::thread::scope(|scope| {
        let fetch = |policy| scope.spawn(move || first("ppp", policy, at).retrieval);
        let threads = policies.map(|policy| (policy, fetch(policy)));
        threads
            .map(|(policy, thread)| (policy, thread.join().unwrap()))
            .into()
    });
    for policy in ["package", "package-v1", "tar"] {
        let retrieval = retrievals.remove(policy).unwrap();
        assert_eq!(retrieval.exchanges.len(), 1, "{policy}");
        let files = &retrieval.files;
        let sent = retrieval.exchanges[0].sent.unwrap();
        for (place, file) in files.iter().enumerate() {
            let place = place as u32;
            println!(
                "{policy}: file {place} at {:.2} s, {} read",
                file.usable.since(sent).as_secs_f64(),
                file.read
            );
            // A file is not usable before its bytes can have arrived.
            assert!(
                file.usable.since(sent) >= one * (place + 1),
                "{policy} {place}"
            );
        }
        // Little data precedes a file, and a segment may also contain the start of the next file. A delayed client
        // reads more data at a time, but less than the line transfers in a second.
        let received = retrieval.connections[0].received;
        assert!(
            files[0].read.0 * 2 < received.0,
            "{policy}: {}",
            files[0].read
        );
        // The first file is usable long before the last: the line needs seconds for the other files, on any machine.
        let last = files[FILES - 1].usable;
        assert!(
            last.since(files[0].usable) > one * (FILES as u32 / 2),
            "{policy}"
        );
    }
    for policy in ["h1.1-tar-whole", "h1.1-zip"] {
        let retrieval = retrievals.remove(policy).unwrap();
        let files = &retrieval.files;
        let received = retrieval.connections[0].received;
        let at_the_end = |file: &fathometer_model::FileArrival| {
            file.usable == files[0].usable && file.read == received
        };
        assert!(files.iter().all(at_the_end), "{policy}");
    }
}

#[test]
fn a_delta_brings_only_what_has_changed() {
    let Some(_guard) = ground("a_delta_brings_only_what_has_changed") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for policy in ["h1.1-package-delta", "h2c-package-delta"] {
        let cache = first("lan", policy, folder.path()).retrieval.cache;
        let later = fetch("lan", policy, &site(&[1, 6]), cache, folder.path());
        let retrieval = &later.retrieval;
        assert_eq!(retrieval.bundle, Some(BundleAnswer::Whole { files: 2 }));
        let brought: Vec<&str> = retrieval
            .files
            .iter()
            .filter(|file| file.by == Delivery::Bundled)
            .map(|file| file.target.as_str())
            .collect();
        assert_eq!(brought, ["/set/1.bin", "/set/6.bin"], "{policy}");
        assert_eq!(retrieval.files.len(), FILES);
        // The response has two files, a head, and one line for each unchanged file.
        let received = retrieval.connections[0].received.0;
        let content = 2 * SIZE as u64;
        assert!(
            (content..content + 2000).contains(&received),
            "{policy}: {received}"
        );
    }
    for policy in ["h1.1-package", "h1.0-zip"] {
        let cache = first("lan", policy, folder.path()).retrieval.cache;
        let same = fetch("lan", policy, &site(&[]), cache, folder.path());
        let retrieval = &same.retrieval;
        assert_eq!(retrieval.bundle, Some(BundleAnswer::Current), "{policy}");
        assert!(retrieval.connections[0].received.0 < 500, "{policy}");
    }
}

#[test]
fn packets_and_bytes_are_those_that_tshark_counts() {
    let Some(_guard) = ground("packets_and_bytes_are_those_that_tshark_counts") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut packets = BTreeMap::new();
    for policy in [
        "h1.0",
        "h1.1",
        "h1.1-pipeline",
        "h2c",
        "package",
        "h2c-package",
        "h1.1-tar",
    ] {
        let fetched = first("lan", policy, folder.path());
        let Some([up, down, sent, received]) = tshark(&fetched.capture) else {
            let required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS");
            assert!(
                required.is_none_or(|value| value != "1"),
                "tshark is required"
            );
            eprintln!("SKIPPED: tshark is not installed");
            return;
        };
        let certificate = &fetched.carried.certificate;
        assert_eq!(up, certificate.up.packets_out, "{policy}");
        assert_eq!(down, certificate.down.packets_out, "{policy}");
        let connections = || fetched.retrieval.connections.iter();
        assert_eq!(
            sent,
            connections().map(|c| c.sent.0).sum::<u64>(),
            "{policy}"
        );
        assert_eq!(
            received,
            connections().map(|c| c.received.0).sum::<u64>(),
            "{policy}"
        );
        println!("{policy}: {up} packets up, {down} down, {sent} and {received} bytes");
        packets.insert(policy, down);
    }
    // Small files in one response need fewer packets than in one response each. (The packets up are
    // acknowledgements, whose number depends on timing.)
    assert!(packets["package"] < packets["h1.1"]);
    assert!(packets["h1.1"] < packets["h1.0"]);
}

/// Returns the packets up and down, and the bytes of TCP payload up and down, as tshark counts them at the client. A
/// retransmission counts as a packet, but its bytes do not count.
fn tshark(capture: &Path) -> Option<[u64; 4]> {
    Command::new("tshark").arg("--version").output().ok()?;
    let output = Command::new("tshark")
        .args(["-n", "-r"])
        .arg(capture)
        .args([
            "-Y",
            r#"frame.interface_name == "client.tx" || frame.interface_name == "client.rx""#,
            "-T",
            "fields",
            "-e",
            "frame.interface_name",
            "-e",
            "tcp.stream",
            "-e",
            "tcp.seq",
            "-e",
            "tcp.len",
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut counted = [0; 4];
    let mut segments = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let down = usize::from(fields[0] == "client.rx");
        counted[down] += 1;
        let [stream, begin, length] = [1, 2, 3].map(|field| fields[field].parse::<u64>());
        if let (Ok(stream), Ok(begin), Ok(length)) = (stream, begin, length) {
            segments.push((down, stream, begin, begin + length));
        }
    }
    segments.sort_unstable();
    let mut seen = (usize::MAX, 0, 0);
    for (down, stream, begin, end) in segments {
        if (seen.0, seen.1) != (down, stream) {
            seen = (down, stream, begin);
        }
        counted[2 + down] += end.saturating_sub(begin.max(seen.2));
        seen.2 = seen.2.max(end);
    }
    Some(counted)
}

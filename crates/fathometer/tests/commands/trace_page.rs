//! `fathometer trace --report`: the page of a capture, opened and used in Chromium.

use std::fs;
use std::path::Path;
use std::process::Command;

use fathometer_packets::parse::Flags;
use fathometer_packets::synthetic::{CaptureWriter, Conversation};

use crate::peers::clients::browser;
use crate::support::programs::{run_well, tool};

const MS: u64 = 1_000_000;

/// Returns a capture of a response of 40 segments over a path of 20 ms each way. The path drops the tenth segment, and
/// the server retransmits it.
fn lossy_capture() -> Vec<u8> {
    let taps = ["client.tx", "server.rx", "server.tx", "client.rx"];
    let mut writer = CaptureWriter::pcapng(&taps.map(|name| (name, 101)));
    let ends = (
        "10.0.0.1:1025".parse().unwrap(),
        "10.0.0.2:80".parse().unwrap(),
    );
    let mut talk = Conversation::new(ends.0, ends.1, (1, 2));
    let mut packets = Vec::new();
    for (n, plan) in talk.open().into_iter().enumerate() {
        packets.push((20 * n as u64, plan, None));
    }
    packets.push((41, talk.up(Flags::ACK, 300), None));
    let mut dropped = None;
    for n in 0..40 {
        let plan = talk.down(Flags::ACK, 1_000);
        let drop = (n == 9).then_some("packet=9 drop=queue-full");
        if drop.is_some() {
            dropped = Some(plan.clone());
        }
        packets.push((100 + n, plan, drop));
    }
    packets.push((300, dropped.unwrap(), None));
    let mut seen = Vec::new();
    for (time, plan, comment) in packets {
        let enters = if plan.source == talk.client { 0 } else { 2 };
        seen.push((time, enters, plan.ip_packet(), comment));
        if comment.is_none() {
            seen.push((time + 20, enters + 1, plan.ip_packet(), None));
        }
    }
    seen.sort_by_key(|packet| packet.0);
    for (time, tap, packet, comment) in seen {
        writer.packet(tap, time * MS, &packet, comment);
    }
    writer.into_bytes()
}

fn trace(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathometer"));
    command.current_dir(folder).arg("trace").args(words);
    command
}

/// A page that operates the graph by keyboard and wheel, and records the visible range after each step.
const USE: &str = r#"<!doctype html><body><iframe src="page.html" width="1000" height="1400"></iframe>
<script>
const frame = document.querySelector("iframe");
const turn = () => new Promise(done => setTimeout(done, 30));
frame.onload = async () => {
    const page = frame.contentDocument, view = frame.contentWindow;
    const figure = page.querySelector("figure.sequence");
    for (let n = 0; n < 200 && !figure.classList.contains("is-live"); n += 1) await turn();
    const [down, up] = figure.querySelectorAll(".panel");
    const steps = [down.dataset.view];
    const key = name => down.dispatchEvent(new view.KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
    key("+");
    steps.push(down.dataset.view);
    key("0");
    key("n");
    steps.push(down.dataset.view, down.querySelector(".tip").textContent);
    key("n");
    steps.push(down.querySelector(".tip").textContent);
    key("0");
    const wheel = () => down.querySelector("canvas").dispatchEvent(new view.WheelEvent("wheel", { deltaY: -100, clientX: 300, clientY: 200, bubbles: true, cancelable: true }));
    // Without the focus the wheel scrolls the page.
    wheel();
    steps.push(down.dataset.view);
    down.focus();
    wheel();
    steps.push(down.dataset.view, up.dataset.view);
    const shown = element => view.getComputedStyle(element).display !== "none";
    steps.push(String(shown(figure.querySelector(".live"))), String(shown(figure.querySelector(".scroll"))));
    const pixels = [...figure.querySelectorAll("canvas")].map(canvas => canvas.getContext("2d")
        .getImageData(0, 0, canvas.width, canvas.height).data.filter((value, index) => index % 4 === 3 && value > 0).length);
    steps.push(String(pixels.every(count => count > 1000)));
    for (const width of [390, 2560]) {
        frame.width = width;
        await turn();
        const root = page.documentElement;
        steps.push(`${width}: ${root.scrollWidth - root.clientWidth} pixels too wide`);
    }
    document.body.dataset.seen = steps.join("|");
};
</script>"#;

#[test]
fn the_page_of_a_capture_zooms_to_what_the_path_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("lossy.pcapng"), lossy_capture()).unwrap();
    run_well(&trace(folder, &["lossy.pcapng", "--report", "page.html"]));
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    // Without scripts, the drawing also shows the drop and its cause.
    assert!(page.contains("<title>dropped: queue-full</title>"));
    assert!(page.contains("dropped by the path: 1 down (queue-full)"));
    assert!(page.contains("default-src 'none'"));
    let Some(chromium) = tool("chromium") else {
        return;
    };
    fs::write(folder.join("use.html"), USE).unwrap();
    let url = format!("file://{}", folder.join("use.html").display());
    let mut command = browser(&chromium, &folder.join("profile"), &url);
    command.arg("--allow-file-access-from-files");
    let page = String::from_utf8(run_well(&command)).unwrap();
    let seen = page
        .split_once("data-seen=\"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .unwrap_or_else(|| panic!("{page}"));
    let seen: Vec<&str> = seen.0.split('|').collect();
    let view = |text: &str| -> Vec<f64> {
        let numbers = text.split(' ').map(|number| number.parse().unwrap());
        numbers.collect()
    };
    let whole = view(seen[0]);
    assert_eq!((whole[0], whole[2]), (0.0, 0.0));
    assert!(whole[1] >= 320_000.0 && whole[3] >= 40_001.0, "{whole:?}");
    let near = |a: f64, b: f64| (a - b).abs() <= 2.0;
    let closer = view(seen[1]);
    assert!(near(closer[1] - closer[0], whole[1] / 2.0), "{closer:?}");
    assert!(near(closer[3] - closer[2], whole[3] / 2.0), "{closer:?}");
    // The first event is the drop at 109 ms, of the bytes 9001 to 10001; the second is its retransmission.
    let drop = view(seen[2]);
    assert!(drop[0] < 109_000.0 && 109_000.0 < drop[1], "{drop:?}");
    assert!(drop[1] - drop[0] < whole[1] / 9.0, "{drop:?}");
    assert!(
        seen[3].starts_with("1 of 2: dropped by the path: queue-full, 109 ms, bytes 9001 to 10001"),
        "{}",
        seen[3]
    );
    assert!(
        seen[4].starts_with("2 of 2: retransmission after a drop (queue-full), 300 ms"),
        "{}",
        seen[4]
    );
    assert_eq!(
        view(seen[5]),
        whole,
        "the wheel of a panel without the focus"
    );
    let wheel = view(seen[6]);
    assert!(near(wheel[1] - wheel[0], whole[1] * 0.8), "{wheel:?}");
    // Both panels have the same time axis.
    assert_eq!(view(seen[7])[..2], wheel[..2]);
    assert_eq!(seen[8..11], ["true", "false", "true"]);
    assert_eq!(
        seen[11..],
        ["390: 0 pixels too wide", "2560: 0 pixels too wide"]
    );
}

#[test]
fn a_page_needs_a_connection() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = CaptureWriter::pcapng(&[("eth0", 101)]).into_bytes();
    fs::write(folder.path().join("empty.pcapng"), bytes).unwrap();
    let output = trace(folder.path(), &["empty.pcapng", "--report", "page.html"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("no packet of a TCP connection"), "{error}");
    assert!(!folder.path().join("page.html").exists());
}

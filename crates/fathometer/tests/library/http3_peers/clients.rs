//! Third-party clients with our server.

use std::process::Command;
use std::sync::Arc;

use fathometer_model::{Body, File, Site};
use fathometer_sys::Clock;
use serde_json::Value;

use super::support::{
    NAME, Running, Trust, aioquic, content, origin, run_well, script, service_options, sha256, site,
};
use crate::support::programs::tool;

const SMALL: usize = 1_000;
/// Bytes of a file that is larger than one window, and small enough for a client in Python on a busy machine.
const LARGE: usize = 300_000;

#[test]
fn aioquic_gets_small_and_large_files_over_many_streams() {
    let Some(python) = aioquic() else { return };
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let files = origin(site(&[("/small", SMALL), ("/large", LARGE), ("/empty", 0)]));
    let server = Running::start(&service_options(&trust), vec![files], clock);
    let targets = [vec!["/large", "/empty", "/nowhere"], vec!["/small"; 60]].concat();
    let mut command = Command::new(python);
    command
        .arg(script("aioquic_client.py"))
        .args(["127.0.0.1", &server.address().port().to_string(), NAME])
        .arg(trust.file("ca.pem"))
        .args(&targets);
    let printed: Value = serde_json::from_str(&run_well(&command)).unwrap();
    let answers = printed["answers"].as_array().unwrap();
    assert_eq!(answers.len(), targets.len());
    let (small, large) = (sha256(&content(SMALL, 0)), sha256(&content(LARGE, 1)));
    for answer in answers {
        let (status, length, digest) = match answer["target"].as_str().unwrap() {
            "/small" => (200, SMALL, Some(&small)),
            "/large" => (200, LARGE, Some(&large)),
            "/empty" => (200, 0, None),
            _ => {
                assert_eq!(answer["status"], 404);
                continue;
            }
        };
        assert_eq!(
            (&answer["status"], &answer["length"]),
            (&status.into(), &length.into())
        );
        if let Some(digest) = digest {
            assert_eq!(answer["sha256"], digest.as_str(), "{}", answer["target"]);
        }
        let fields = &answer["fields"];
        assert_eq!(fields["content-length"], length.to_string());
        assert!(
            fields["etag"].is_string() && fields["date"].is_string(),
            "{fields}"
        );
    }
    let statistics = server.end();
    assert_eq!(
        (statistics.connections, statistics.responses),
        (1, targets.len() as u64)
    );
}

/// An image of one pixel, the smallest that browsers show.
const DOT: &[u8] =
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\
    \x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";
const PICTURES: usize = 30;

/// Returns a page whose text reports the number of shown images and their protocol.
fn pictures() -> Site {
    let images: String = (0..PICTURES)
        .map(|n| format!("<img src=\"/dot{n}.gif\">"))
        .collect();
    let page = format!(
        "<!DOCTYPE html><title>pictures</title><body>{images}<p id=\"found\"></p><script>\
         onload = () => {{\
           const shown = [...document.images].filter(one => one.naturalWidth == 1).length;\
           const over = performance.getEntriesByType('resource').map(one => one.nextHopProtocol);\
           const page = performance.getEntriesByType('navigation')[0].nextHopProtocol;\
           document.getElementById('found').textContent =\
             `shown ${{shown}} over ${{[...new Set([page, ...over])].join('+')}}`;\
         }}</script></body>"
    );
    let file = |path: String, content_type: &'static str, bytes: &[u8]| File {
        path,
        content_type: content_type.into(),
        body: Body::from(bytes.to_vec()),
        encoded: Vec::new(),
        last_modified: 1_000_000_000,
    };
    let mut files = vec![file("/page.html".to_owned(), "text/html", page.as_bytes())];
    files.extend((0..PICTURES).map(|n| file(format!("/dot{n}.gif"), "image/gif", DOT)));
    Site {
        name: "pictures".to_owned(),
        files,
        pages: Vec::new(),
    }
}

#[test]
fn chromium_loads_a_page_with_pictures() {
    let (Some(chromium), Some(openssl)) = (tool("chromium"), tool("openssl")) else {
        return;
    };
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let server = Running::start(&service_options(&trust), vec![origin(pictures())], clock);
    let port = server.address().port();
    // The browser does not trust our authority, so it gets the hash of the key instead.
    let mut hash = Command::new("sh");
    hash.arg("-c")
        .arg(
            "\"$1\" x509 -in \"$2\" -pubkey -noout | \"$1\" pkey -pubin -outform der \
             | \"$1\" dgst -sha256 -binary | base64",
        )
        .args(["sh".as_ref(), openssl.as_os_str()])
        .arg(trust.file("chain.pem"));
    let hash = run_well(&hash);
    let mut command = Command::new(chromium);
    command
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
        ])
        .arg(format!(
            "--user-data-dir={}",
            trust.file("profile").display()
        ))
        .arg(format!("--origin-to-force-quic-on={NAME}:{port}"))
        .arg(format!("--host-resolver-rules=MAP {NAME} 127.0.0.1"))
        .arg(format!(
            "--ignore-certificate-errors-spki-list={}",
            hash.trim()
        ))
        .arg("--dump-dom")
        .arg(format!("https://{NAME}:{port}/page.html"));
    let page = run_well(&command);
    assert!(
        page.contains(&format!("shown {PICTURES} over h3")),
        "{page}"
    );
    // The server has only UDP at that port, so all responses went over UDP.
    let statistics = server.end();
    assert!(statistics.responses > PICTURES as u64, "{statistics:?}");
}

#[test]
fn two_clients_at_once_are_served_by_several_loops() {
    let Some(python) = aioquic() else { return };
    let clock = Clock::start();
    let trust = Trust::new(clock);
    let files = origin(site(&[("/large", LARGE)]));
    let server = Running::start(
        &service_options(&trust),
        vec![Arc::clone(&files), files],
        clock,
    );
    let digest = sha256(&content(LARGE, 0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut command = Command::new(&python);
                command
                    .arg(script("aioquic_client.py"))
                    .args(["127.0.0.1", &server.address().port().to_string(), NAME])
                    .arg(trust.file("ca.pem"))
                    .args(["/large", "/large"]);
                let printed: Value = serde_json::from_str(&run_well(&command)).unwrap();
                for answer in printed["answers"].as_array().unwrap() {
                    assert_eq!(answer["sha256"], digest.as_str());
                }
            });
        }
    });
    assert_eq!(server.end().connections, 2);
}

//! One retrieval behind the path: the origin, the visit, and the accounting of the packets between them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::visit::Visit;

/// The host of the page, which Chromium resolves to the server.
pub(super) const HOST: &str = "site.test";
/// The server's address in the laboratory.
const SERVER: &str = "10.77.0.2";
/// The number of images of the page.
const IMAGES: u64 = 42;
/// Seconds after which a visit has failed: several times the duration of the slowest visit.
const PATIENCE: &str = "600";
/// Bytes of a packet's headers, by the paper's rule.
const HEADER_BYTES: u64 = 40;

/// The server persona and the protocol with which the page is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Serving {
    /// HTTP/1.1 with the response heads and the output buffer of Jigsaw.
    Jigsaw,
    /// HTTP/1.1 with the response heads and the output buffer of Apache.
    Apache,
    /// HTTP/2 over TLS 1.3.
    Http2,
}

impl Serving {
    /// All servers, in the order of the tables.
    pub(super) const ALL: [Serving; 3] = [Serving::Jigsaw, Serving::Apache, Serving::Http2];

    pub(super) fn name(self) -> &'static str {
        match self {
            Serving::Jigsaw => "HTTP/1.1, embedded-jigsaw",
            Serving::Apache => "HTTP/1.1, embedded-apache",
            Serving::Http2 => "HTTP/2 over TLS, embedded",
        }
    }

    fn protocol(self) -> &'static str {
        match self {
            Serving::Jigsaw | Serving::Apache => "http/1.1",
            Serving::Http2 => "h2",
        }
    }

    fn url(self) -> String {
        let scheme = match self {
            Serving::Jigsaw | Serving::Apache => "http",
            Serving::Http2 => "https",
        };
        format!("{scheme}://{HOST}/microscape.html")
    }

    fn arguments(self, keys: &Path) -> String {
        match self {
            Serving::Jigsaw => format!("--as embedded-jigsaw --listen {SERVER}:80"),
            Serving::Apache => format!("--as embedded-apache --listen {SERVER}:80"),
            Serving::Http2 => format!(
                "--listen {SERVER}:443 --certificate '{0}/chain.pem' --key '{0}/key.pem'",
                keys.display()
            ),
        }
    }
}

/// The programs and files that all retrievals share.
pub(super) struct Common<'a> {
    /// `fathometer`.
    pub(super) program: &'a Path,
    /// The program `xtask`, which visits the page.
    pub(super) visitor: &'a Path,
    /// The path profile.
    pub(super) path: &'a str,
    /// The folder with the certificate of the server with TLS.
    pub(super) keys: &'a Path,
    /// The hash of that server's key, by which Chromium accepts the key.
    pub(super) key_hash: &'a str,
}

/// The measurements of one retrieval at the client's end of the path.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Retrieval {
    pub(super) connections: u64,
    pub(super) packets: u64,
    /// Bytes in packets without their TCP and IP headers, both ways.
    pub(super) bytes: u64,
    /// Seconds from the start of the navigation to the load event.
    pub(super) seconds: f64,
    /// The number of responses with content (200), and the number of responses without a change (304).
    pub(super) status_200: u64,
    pub(super) status_304: u64,
    /// The 99th percentile of packet lateness, in milliseconds.
    pub(super) lateness_p99_ms: f64,
    /// The reason why the path was not exact enough; empty if it was exact enough.
    pub(super) invalid: String,
}

impl Retrieval {
    /// The share of headers in percent, by the paper's rule.
    pub(super) fn overhead(&self) -> f64 {
        let headers = (self.packets * HEADER_BYTES) as f64;
        100.0 * headers / (self.bytes as f64 + headers)
    }
}

/// Visits the page of the folder `site` with the browser's profile in `place`.
pub(super) fn retrieve(
    common: &Common<'_>,
    serving: Serving,
    site: &Path,
    place: &Path,
    visit: Visit,
) -> Result<Retrieval, String> {
    let (capture, log) = (place.join("capture.pcapng"), place.join("log"));
    for file in [&capture, &log] {
        // The file is left from an earlier retrieval, or does not exist.
        let _ = fs::remove_file(file);
    }
    let serve = format!(
        "exec '{}' serve '{}' {} --log '{}'",
        common.program.display(),
        site.display(),
        serving.arguments(common.keys),
        log.display()
    );
    let mut behind = Command::new(common.program);
    behind
        .args(["path", common.path, "--era", "1997", "--json"])
        .arg("--capture")
        .arg(&capture)
        .args(["--server", &serve, "--"])
        .args(["timeout", PATIENCE])
        .arg(common.visitor)
        .args(["browser-visit", &serving.url(), "--profile"])
        .arg(place.join("profile"))
        .args(["--visit", visit.name()])
        .arg("--")
        .arg(format!("--host-resolver-rules=MAP {HOST} {SERVER}"))
        .arg(format!(
            "--ignore-certificate-errors-spki-list={}",
            common.key_hash
        ));
    // Exit code 3: the path was late; the record states this.
    let output = run(&mut behind, &[0, 3])?;
    let seen = json_line(&output.stdout).ok_or("the visit printed nothing")?;
    let path = json_line(&output.stderr).ok_or("the path printed no report")?;
    // Files from the cache may have no protocol.
    let mut protocols = seen["protocols"].as_array().into_iter().flatten();
    if seen["images"] != IMAGES || !protocols.all(|name| name == serving.protocol()) {
        return Err(format!("the page is incomplete: {seen}"));
    }
    let mut trace = Command::new(common.program);
    let trace = run(trace.args(["trace", "--json"]).arg(&capture), &[0])?;
    let trace = serde_json::from_slice(&trace.stdout)
        .map_err(|error| format!("the trace cannot be read: {error}"))?;
    let log = fs::read_to_string(&log)
        .map_err(|error| format!("the server's log {}: {error}", log.display()))?;
    record(&seen, &path, &trace, &log).ok_or_else(|| format!("a figure is missing: {path}"))
}

fn record(seen: &Value, path: &Value, trace: &Value, log: &str) -> Option<Retrieval> {
    let mut packets = 0;
    for count in trace["classes"].as_object()?.values() {
        packets += count.as_u64()?;
    }
    let payload = |way: &str| trace[way]["payload_bytes"].as_u64();
    let late = |way: &str| path["path"][way]["lateness_p99_ns"].as_f64();
    let reasons = path["validity"]["reasons"].as_array()?;
    let count = |status: &str| {
        let lines = log.lines().filter(|line| line.contains("GET /"));
        lines.filter(|line| line.contains(status)).count() as u64
    };
    Some(Retrieval {
        connections: trace["connections"].as_array()?.len() as u64,
        packets,
        bytes: payload("up")? + payload("down")?,
        seconds: seen["seconds"].as_f64()?,
        status_200: count("\" 200 "),
        status_304: count("\" 304 "),
        lateness_p99_ms: late("up")?.max(late("down")?) / 1e6,
        invalid: reasons
            .iter()
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .join("; "),
    })
}

/// Returns the last line that is a JSON object.
fn json_line(output: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(output);
    let mut lines = text.lines().rev();
    lines.find_map(|line| {
        let value: Value = serde_json::from_str(line).ok()?;
        value.is_object().then_some(value)
    })
}

/// Runs a command; fails if its exit code is not in `accepted`.
pub(super) fn run(command: &mut Command, accepted: &[i32]) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("failed to run {name}: {error}"))?;
    match output.status.code() {
        Some(code) if accepted.contains(&code) => Ok(output),
        _ => Err(format!(
            "{name} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_retrieval_is_recorded_from_page_path_trace_and_log() {
        let trace = json!({
            "classes": { "syn": 1, "data": 9 }, "connections": [{}, {}],
            "up": { "payload_bytes": 100 }, "down": { "payload_bytes": 3500 },
        });
        let path = json!({
            "path": { "up": { "lateness_p99_ns": 1_000_000 }, "down": { "lateness_p99_ns": 2_500_000 } },
            "validity": { "reasons": ["late"] },
        });
        let log = "c - - [d] \"GET /a HTTP/1.1\" 200 5\nc - - [d] \"GET /b HTTP/1.1\" 304 -\n\
                   c - - [d] \"GET /c HTTP/1.1\" 304 200\n";
        let found = record(&json!({ "seconds": 1.5 }), &path, &trace, log).unwrap();
        let counts = [found.connections, found.packets, found.bytes];
        assert_eq!(counts, [2, 10, 3600]);
        assert_eq!((found.status_200, found.status_304), (1, 2));
        assert_eq!((found.seconds, found.lateness_p99_ms), (1.5, 2.5));
        assert_eq!(found.invalid, "\"late\"");
        // 10 packets of 40 bytes of headers and 3600 of content.
        assert_eq!(found.overhead(), 10.0);
        assert_eq!(record(&json!({}), &path, &trace, log), None);
    }

    #[test]
    fn the_last_line_of_json_counts() {
        let output = b"progress\n{\"a\":1}\n{\"a\":2}\n3\nend\n";
        assert_eq!(json_line(output), Some(json!({ "a": 2 })));
        assert_eq!(json_line(b"none\n"), None);
    }
}

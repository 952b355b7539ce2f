//! `fathometer capacity --probe`: the first exhausted resource.

use std::io::BufReader;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use fathometer_sys::cgroup::{CpuLimit, Group, Limits};
use serde_json::{Value, json};

use crate::support::programs::{FATHOMETER, tool};
use crate::support::waiting::wait_until;
use crate::support::{ports, serving};

/// Number of searches that may end without the expected result. Other tests use the processors too: a trial may be
/// INVALID, or fail its SLO before the server's limit is reached. A defect of the program fails every attempt.
const ATTEMPTS: u32 = 6;

/// Searches and returns the first exhausted resource, or the reason for no result. A wide target interval limits the
/// search to a few seconds.
fn probed(url: &str, slo: &str, start: &str, pid: u32) -> Value {
    let pid = pid.to_string();
    let mut command = Command::new(FATHOMETER);
    command.args([
        "capacity",
        "--quiet",
        url,
        "--slo",
        slo,
        "--probe",
        &pid,
        "--start",
        start,
        "--width",
        "25%",
        "--final-trial",
        "1s",
        "--warmup",
        "200ms",
        "--longest-trial",
        "10s",
        "--budget",
        "60s",
        "--no-calibration",
        "--json",
    ]);
    let output = command.output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match &result["gave_out"][0] {
        // The server's queue may overflow for a long time; the search then reports that the server stopped answering.
        Value::Null => json!({
            "slos": result["outcome"]["slos"],
            "stderr": String::from_utf8_lossy(&output.stderr),
        }),
        gave_out => gave_out.clone(),
    }
}

/// Repeats the search until the first exhausted resource is as expected; else fails with all results.
fn until_expected(search: impl Fn() -> Value, is_expected: impl Fn(&Value) -> bool) {
    let mut others = Vec::new();
    for _ in 0..ATTEMPTS {
        let found = search();
        if is_expected(&found) {
            return;
        }
        others.push(found.to_string());
    }
    panic!("no search found the expected resource: {others:#?}");
}

/// Whether the text of a result contains these words.
fn says(gave_out: &Value, words: &str) -> bool {
    let text = gave_out["text"].as_str();
    text.is_some_and(|text| text.contains(words))
}

/// Returns a figure of the first exhausted resource at the load that fails.
fn at_fails(gave_out: &Value, name: &str) -> Option<f64> {
    let mut figures = gave_out["figures"].as_array()?.iter();
    let found = figures.find(|figure| {
        let is_named = figure["name"].as_str();
        is_named.is_some_and(|it| it.starts_with(name))
    });
    found?["fails"].as_f64()
}

/// A process, killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_quota_of_a_server_is_what_gave_out_first() {
    let limits = Limits {
        cpu: Some(CpuLimit::cores(0.1)),
        ..Limits::default()
    };
    let group = match Group::create("capacity", &limits) {
        Ok(group) => group,
        Err(error) => {
            let required = std::env::var_os("FATHOMETER_REQUIRE_LAB").is_some_and(|v| v == "1");
            assert!(!required, "no control groups on this machine: {error}");
            return eprintln!("SKIPPED, no control groups on this machine: {error}");
        }
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("index.html"), [b'x'; 100]).unwrap();
    let server = Command::new(FATHOMETER)
        .args(["serve", "--threads", "1", "--listen", "127.0.0.1:0"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut server = Server(server.unwrap());
    let output = server.0.stdout.take().unwrap();
    let address = serving::address(&mut BufReader::new(output));
    group.add_process(server.0.id()).unwrap();
    let url = format!("http://{address}/index.html");
    until_expected(
        || probed(&url, "p95<300ms", "1000", server.0.id()),
        |found| {
            let throttled = at_fails(found, "periods of the quota");
            found["resource"] == "cpu"
                && says(found, "quota of 0.10 cores")
                && throttled.is_some_and(|share| share > 0.5)
        },
    );
}

#[test]
fn a_server_that_refuses_by_its_configuration_exhausts_nothing() {
    let Some(nginx) = tool("nginx") else { return };
    let folder = tempfile::tempdir().unwrap();
    let address = ports::free_address();
    let place = folder.path().display();
    // nginx must serve a file, because it executes `return 200` before it limits requests.
    std::fs::create_dir(folder.path().join("site")).unwrap();
    std::fs::write(folder.path().join("site/index.html"), [b'x'; 100]).unwrap();
    let configuration = format!(
        "daemon off;\nmaster_process off;\nerror_log {place}/error.log;\npid {place}/pid;\nevents {{}}\n\
         http {{\naccess_log off;\nlimit_req_zone $server_name zone=all:1m rate=200r/s;\n\
         client_body_temp_path {place}/a;\nproxy_temp_path {place}/b;\nfastcgi_temp_path {place}/c;\n\
         uwsgi_temp_path {place}/d;\nscgi_temp_path {place}/e;\n\
         server {{\nlisten {address};\nserver_name all;\nlimit_req zone=all burst=20 nodelay;\n\
         root {place}/site;\n}}\n}}\n"
    );
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, configuration).unwrap();
    let server = Command::new(nginx)
        .arg("-c")
        .arg(&file)
        .stderr(Stdio::null())
        .spawn();
    let server = Server(server.unwrap());
    wait_until("nginx listens", || TcpStream::connect(address).is_ok());
    let url = format!("http://{address}/");
    // Other tests may exhaust the machine's processors. This server exhausts no other resource.
    until_expected(
        || probed(&url, "errors<5%", "180", server.0.id()),
        |found| {
            let busy = at_fails(found, "machine's processors");
            let by_others = found["resource"] == "cpu" && busy.is_some_and(|share| share > 0.7);
            says(found, "had a status of 400 or above")
                && (found["resource"].is_null() || by_others)
        },
    );
}

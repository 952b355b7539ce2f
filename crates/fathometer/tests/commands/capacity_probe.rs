//! `fathometer capacity --probe`: what gave out first.

use std::io::BufReader;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use fathometer_sys::cgroup::{CpuLimit, Group, Limits};
use serde_json::Value;

use crate::support::programs::{FATHOMETER, tool};
use crate::support::waiting::wait_until;
use crate::support::{ports, serving};

/// How many searches may end without an answer.
const ATTEMPTS: u32 = 4;

/// A wide search with probes, which takes some seconds for its trials.
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
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        // A server whose queue overflows for long looks as if it were gone.
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        Value::Null
    })
}

/// A figure of what gave out, at the load that fails.
fn at_fails(gave_out: &Value, name: &str) -> f64 {
    let figures = gave_out["figures"].as_array().unwrap();
    let found = figures
        .iter()
        .find(|figure| figure["name"].as_str().unwrap().starts_with(name));
    found
        .and_then(|figure| figure["fails"].as_f64())
        .unwrap_or_else(|| panic!("{name}: {gave_out}"))
}

#[test]
fn the_quota_of_a_server_is_what_gave_out_first() {
    let limits = Limits {
        cpu: Some(CpuLimit::cores(0.2)),
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
    let mut server = Command::new(FATHOMETER)
        .args(["serve", "--threads", "1", "--listen", "127.0.0.1:0"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = serving::address(&mut BufReader::new(server.stdout.take().unwrap()));
    group.add_process(server.id()).unwrap();
    // A busy machine makes trials INVALID: then there is no answer.
    let found = (0..ATTEMPTS).map(|_| {
        probed(
            &format!("http://{address}/index.html"),
            "p95<300ms",
            "2000",
            server.id(),
        )
    });
    let found = found
        .map(|result| result["gave_out"][0].clone())
        .find(|found| !found.is_null());
    server.kill().unwrap();
    server.wait().unwrap();
    let found = found.expect("this machine is too busy for a search");
    assert_eq!(found["resource"], "cpu", "{found}");
    assert!(
        found["text"]
            .as_str()
            .unwrap()
            .contains("quota of 0.20 cores"),
        "{found}"
    );
    assert!(at_fails(&found, "periods of the quota") > 0.5, "{found}");
}

#[test]
fn a_server_that_refuses_by_its_configuration_exhausts_nothing() {
    let Some(nginx) = tool("nginx") else { return };
    let folder = tempfile::tempdir().unwrap();
    let address = ports::free_address();
    let place = folder.path().display();
    // Not `return 200`: nginx limits requests after it.
    std::fs::create_dir(folder.path().join("site")).unwrap();
    std::fs::write(folder.path().join("site/index.html"), [b'x'; 100]).unwrap();
    let configuration = format!(
        "daemon off;\nerror_log {place}/error.log;\npid {place}/pid;\nworker_processes 1;\nevents {{}}\n\
         http {{\naccess_log off;\nlimit_req_zone $server_name zone=all:1m rate=200r/s;\n\
         client_body_temp_path {place}/a;\nproxy_temp_path {place}/b;\nfastcgi_temp_path {place}/c;\n\
         uwsgi_temp_path {place}/d;\nscgi_temp_path {place}/e;\n\
         server {{\nlisten {address};\nserver_name all;\nlimit_req zone=all burst=20 nodelay;\n\
         root {place}/site;\n}}\n}}\n"
    );
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, configuration).unwrap();
    let mut server = Command::new(nginx)
        .arg("-c")
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("nginx listens", || TcpStream::connect(address).is_ok());
    let found = (0..ATTEMPTS).map(|_| {
        probed(
            &format!("http://{address}/"),
            "errors<5%",
            "180",
            server.id(),
        )
    });
    let found = found
        .map(|result| result["gave_out"][0].clone())
        .find(|found| !found.is_null());
    // The first process of nginx ends its workers when it is asked to exit.
    Command::new("kill")
        .arg(server.id().to_string())
        .status()
        .unwrap();
    server.wait().unwrap();
    let found = found.expect("this machine is too busy for a search");
    assert!(
        found["text"]
            .as_str()
            .unwrap()
            .contains("had a status of 400 or above"),
        "{found}"
    );
    // Other tests may use up the processors of the machine, and this server has nothing else that runs out.
    let resource = &found["resource"];
    assert!(resource.is_null() || resource == "cpu", "{found}");
    if resource == "cpu" {
        let busy = at_fails(&found, "machine's processors");
        assert!(busy > 0.7, "{found}");
    }
}

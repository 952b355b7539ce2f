//! A wrong argument leads to one clear message that names the argument.

use std::process::Command;

use super::support::{Ended, fathometer, load, written};
use crate::support::closed_port::ClosedPort;
use crate::support::programs::FATHOMETER;
use crate::support::scripted_server::{Answer, Server};

/// Checks the exit code and the words of the message, and that nothing was printed to standard output.
fn assert_told(what: &str, ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(
        ended.code,
        Some(code),
        "{what}: {} {}",
        ended.err,
        ended.out
    );
    assert!(!ended.err.contains("panicked"), "{what}: {}", ended.err);
    for word in words {
        let is_named = ended.err.contains(word);
        assert!(is_named, "{what}: {word:?} is not in: {}", ended.err);
    }
    assert_eq!(ended.out, "", "{what}");
    if code == 1 {
        let lines = ended.err.lines();
        let messages = lines.filter(|line| line.starts_with("fathometer: "));
        assert_eq!(messages.count(), 1, "{what}: {}", ended.err);
    }
}

#[test]
fn contradictory_arguments_are_usage_errors() {
    // No process listens there, and no request is sent.
    let url = "http://127.0.0.1:9/";
    for (arguments, words) in [
        (&["--wibble"][..], &["--wibble"][..]),
        (&["-c", "0"], &["--connections", "0 is not in"]),
        (&["--ue", "0"], &["--ue", "0 is not in"]),
        (&["-n", "0"], &["--requests", "0 is not in"]),
        (&["-t", "0"], &["--threads", "0 is not in"]),
        (&["-d", "soon"], &["--duration", "soon"]),
        (&["-d", "0s"], &["--duration", "longer than 0"]),
        (&["--timeout", "0s"], &["--timeout", "longer than 0"]),
        (&["--connect-timeout", "0"], &["--connect-timeout"]),
        (&["--timeout", "3 weeks"], &["--timeout", "weeks"]),
        (&["-d", "99999999h"], &["--duration", "30 days"]),
        (
            &["--speed", "1e-20"],
            &["--speed", "1e-20", "from 0.000001"],
        ),
        (&["--speed", "inf"], &["--speed", "from 0.000001"]),
        (&["--speed", "nan"], &["--speed"]),
        (&["--speed", "0"], &["--speed", "above 0"]),
        (&["--speed", "fast"], &["--speed", "above 0"]),
        (&["--policy", "h4"], &["--policy", "\"h4\"", "h1.1"]),
        (&["-m", "0"], &["--max-streams", "0 is not in"]),
        (&["--h2-window", "3000000000"], &["--h2-window"]),
        (&["--h2-connection-window", "100"], &["65535"]),
        (&["--tls-version", "1.1"], &["--tls-version", "1.1"]),
        (&["--cert", "x.pem"], &["--key"]),
        (&["--early-data", "--no-resume"], &["--no-resume"]),
        (&["--cacert", "x.pem", "-k"], &["--insecure"]),
        (&["--policy", "h1.1x0"], &["--policy", "h1.1x0"]),
        (&["--slo", "p99<100"], &["--slo", "column 8", "unit"]),
        (&["--slo", "p99<1s,wit>1"], &["--slo", "column 8"]),
        (&["--format", "pdf"], &["--format", "pdf", "webstone"]),
        (&["--arrivals", "rare"], &["--arrivals", "poisson"]),
        (&["-n", "5", "-d", "5s"], &["--requests", "--duration"]),
        (&["--ue", "5", "-c", "5"], &["--ue", "--connections"]),
        (&["--ue", "5", "--rate", "5"], &["--ue", "--rate"]),
        (&["--rest", "1ms", "--rate", "5"], &["--rest", "--rate"]),
        (&["--batch", "8"], &["--batch", "--rate"]),
        (&["--batch", "0", "--rate", "5"], &["--batch"]),
        (&["--json", "--format", "csv"], &["--json", "--format"]),
        (
            &["--against", url, "--slo", "p99<1s"],
            &["--slo", "--against", "--gate"],
        ),
        (&["--against", url, "--ue", "5"], &["--ue", "--against"]),
        (
            &["--body", "x", "--workload", "today"],
            &["--body", "--workload"],
        ),
    ] {
        let what = format!("{arguments:?}");
        assert_told(&what, &load(url, arguments), 2, words);
    }
    let bare = fathometer(Command::new(FATHOMETER).arg("load"));
    assert_told("no URL", &bare, 2, &["<URL>"]);
}

#[test]
fn unreachable_servers_are_reported_before_the_test() {
    let closed_port = ClosedPort::new();
    let gone = closed_port.address.to_string();
    for (url, words) in [
        (
            "http://nowhere.invalid/",
            &["nowhere.invalid", "resolve"][..],
        ),
        (&format!("http://{gone}/"), &[&gone, "refused", "port"]),
        ("http://127.0.0.1:99999/", &["127.0.0.1:99999", "port"]),
        (&format!("https://{gone}/"), &[&gone, "refused", "port"]),
    ] {
        assert_told(url, &load(url, &["-d", "10s"]), 1, words);
    }
    for (url, words) in [
        ("ftp://localhost/", &["ftp://localhost/", "http://host"][..]),
        ("localhost", &["\"localhost\"", "http://host"]),
        ("http:///path", &["http:///path", "no host"]),
        ("http://me@localhost/", &["@localhost/", "credentials"]),
        ("http://localhost/a b", &["' '", "percent-encoded"]),
    ] {
        assert_told(url, &load(url, &["-d", "10s"]), 2, words);
    }
    let elsewhere = load("http://localhost/", &["--connect-to", &gone]);
    assert_told("--connect-to", &elsewhere, 1, &[&gone, "refused"]);
    let elsewhere = load("http://localhost/", &["--connect-to", "nowhere.invalid:80"]);
    assert_told(
        "--connect-to",
        &elsewhere,
        1,
        &["nowhere.invalid", "resolve"],
    );
}

#[test]
fn what_is_read_and_written_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| written(&folder, name, text);
    let empty = file("empty", "");
    let list = file("list", "/a.html 3 #100\n\n/b.html many #100\n");
    let log = file("log", "\n h - - [10/Oct/2000:13:55:37 -07");
    let archive = file(
        "archive",
        "{\"log\":{\"version\":\"1.2\",\n\"entries\":[{\"requ",
    );
    let sessions = file("sessions", "/a.html\n/b.html think=\n");
    let missing = folder.path().join("missing").display().to_string();
    let server = Server::start(|_| Answer::Whole(10));
    let url = format!("http://{}/", server.address);
    let try_all = |code: i32, option: &str, cases: &[(&str, &[&str])]| {
        for (value, words) in cases {
            let what = format!("{option} {value}");
            let ended = load(&url, &[option, value, "-d", "10s"]);
            assert_told(&what, &ended, code, words);
        }
    };
    try_all(
        1,
        "--workload",
        &[
            (&format!("webstone:{list}"), &[&list, "line 3"]),
            (&format!("webstone:{empty}"), &[&empty, "no page"]),
            (&format!("webstone:{missing}"), &[&missing, "No such file"]),
            (&format!("wsesslog:{sessions}"), &[&sessions, "line 2"]),
            (&format!("wsesslog:{empty}"), &[&empty, "no session"]),
            (&format!("log:{log}"), &[&log, "line 2", "can be replayed"]),
            (&format!("log:{empty}"), &[&empty, "no request"]),
            (&format!("har:{archive}"), &[&archive, "line 2, column"]),
            (&format!("har:{empty}"), &[&empty, "line 1"]),
        ],
    );
    try_all(
        2,
        "--workload",
        &[
            ("wobstone", &["\"wobstone\"", "webstone", "surge"]),
            (
                "surge:files=none",
                &["surge:files=none", "files", "\"none\""],
            ),
            ("surge:flies=5", &["\"flies=5\"", "files=N"]),
            ("surge:files=0", &["too few files (0)"]),
            ("microscape:files=x", &["microscape:files=x"]),
        ],
    );
    try_all(
        2,
        "--rate",
        &[
            ("1e308", &["--rate", "1e308", "10000000"]),
            ("inf", &["--rate", "10000000"]),
            ("fast", &["--rate", "\"fast\""]),
            ("0", &["--rate", "sends no request"]),
            ("5/d", &["--rate", "\"d\"", "/m"]),
            ("100,200", &["--rate", "\"100\"", "no duration"]),
        ],
    );
    try_all(
        2,
        "--steps",
        &[
            ("10", &["\"10\"", "no @"]),
            ("10@0s,many@1s", &["\"many@1s\"", "\"many\""]),
            ("10@2s,20@1s", &["\"20@1s\"", "later"]),
        ],
    );
    try_all(
        2,
        "--header",
        &[
            ("Accept", &["\"Accept\"", "Name: value"]),
            ("Accept me: x", &["\"Accept me\""]),
            (": x", &["\": x\""]),
            ("A: b\r\nC: d", &["A: b", "control"]),
        ],
    );
    try_all(
        2,
        "--save",
        &[
            ("figures.xml", &["figures.xml", ".parquet"]),
            ("figures", &["figures", ".json"]),
        ],
    );
    try_all(
        1,
        "--save",
        &[
            (&format!("{missing}/it.json"), &[&missing, "--save"]),
            (&format!("{missing}/it.parquet"), &[&missing, "--save"]),
        ],
    );
    try_all(
        1,
        "--body",
        &[(&format!("@{missing}"), &[&missing, "No such file"])],
    );
    try_all(2, "--method", &[("G T", &["G T", "method"])]);
    try_all(
        2,
        "--arrivals",
        &[("poisson", &["--rate"]), ("recorded", &["log:FILE"])],
    );
    for workload in ["webstone", "specweb96", "today"] {
        let ended = load(&url, &["--workload", workload, "--ue", "5"]);
        assert_told(workload, &ended, 2, &[workload, "no pauses", "-c"]);
    }
    let ended = load(&url, &["--ue", "5"]);
    assert_told("--ue", &ended, 2, &["URL", "no pauses", "-c"]);
    assert_eq!(server.seen(), [], "a request reached the server");
}

#[test]
fn policies_that_do_not_fit_the_url_are_refused() {
    let server = Server::start(|_| Answer::Whole(10));
    let (http, https) = (
        format!("http://{}/", server.address),
        format!("https://{}/", server.address),
    );
    for (url, arguments, words) in [
        (&http, &["--policy", "h2"][..], &["h2", "https", "h2c"][..]),
        (&http, &["--policy", "h1.1x6-tls"], &["h1.1x6-tls", "https"]),
        (&https, &["--policy", "h2c", "-k"], &["h2c", "http"]),
        (&https, &["--policy", "h3", "-k"], &["HTTP/3", "UDP"]),
        (&http, &["--policy", "h3"], &["h3", "https"]),
        (
            &http,
            &["--policy", "h1.0", "-m", "4"],
            &["--max-streams", "h1.0"],
        ),
        (&http, &["--policy", "h1.1-pipeline-ranges"], &["ranges"]),
        (
            &http,
            &["--policy", "h2c"],
            &["does not support HTTP/2", "h1.1"],
        ),
        (&http, &["--insecure"], &["https"]),
        (&https, &["--insecure"], &["TLS"]),
    ] {
        let what = format!("{url} {arguments:?}");
        // Only the TLS check of a server that sends nothing waits for the whole timeout.
        let patience = match (url == &https, arguments) {
            (true, ["--insecure"]) => "1s",
            _ => "50s",
        };
        let mut all = arguments.to_vec();
        all.extend(["--connect-timeout", patience]);
        // Only a connection to the server finds these errors (exit code 1). The command line alone shows the others
        // (2).
        let code = match arguments {
            ["--policy", "h3", "-k"] => 1,
            ["--policy", "h2c"] if url == &http => 1,
            ["--insecure"] if url == &https => 1,
            _ => 2,
        };
        assert_told(&what, &load(url, &all), code, words);
    }
    // The HTTP/2 connection preface resembles a request with a method that no server implements.
    let seen = server.seen();
    let asked = seen.iter().filter(|seen| seen.method.starts_with("GET"));
    assert_eq!(asked.count(), 0, "{seen:?}");
}

#[test]
fn a_server_that_sends_nothing_is_reported_with_the_time_limit() {
    // The kernel accepts connections, but no process reads from them.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for (scheme, policy) in [("http", "h2c"), ("https", "h2")] {
        let url = format!("{scheme}://{address}/");
        let mut arguments = vec!["--policy", policy, "--connect-timeout", "300ms"];
        if scheme == "https" {
            arguments.push("-k");
        }
        let ended = load(&url, &arguments);
        assert_told(
            &url,
            &ended,
            1,
            &["timed out", "300ms", "--connect-timeout"],
        );
        assert!(!ended.err.contains("Resource temporarily"), "{}", ended.err);
    }
}

#[test]
fn a_folder_that_cannot_be_served_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().to_str().unwrap();
    let missing = folder.path().join("missing").display().to_string();
    let serve = |arguments: &[&str]| {
        let mut command = Command::new(FATHOMETER);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        fathometer(command.args(arguments))
    };
    assert_told("missing", &serve(&[&missing]), 1, &[&missing]);
    assert_told(
        "no site",
        &serve(&["--site", "wobstone"]),
        2,
        &["wobstone", "webstone"],
    );

    // An empty folder is a site that may get files later: it is served, with a message.
    let mut child = Command::new(FATHOMETER)
        .args(["serve", name, "--listen", "127.0.0.1:0"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut stderr, &mut said).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.contains(name) && said.contains("is empty"), "{said}");
}

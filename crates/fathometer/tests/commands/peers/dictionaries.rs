//! Dictionaries for compression (RFC 9842) of `fathometer serve`: content that zstd, brotli and Chromium decode.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::clients::{NAMED, browser};
use super::support::{Response, Server};
use crate::support::programs::{FATHOMETER, run, run_well, tool};

/// Returns words that hardly repeat, in `lines` lines; `version` changes one line in forty and adds lines.
fn text(version: u32) -> String {
    let mut text = String::new();
    for line in 0..4000_u32 {
        let seed = if line % 40 == 7 {
            line ^ version << 16
        } else {
            line
        };
        let words = [seed, seed ^ 0x5555].map(|word| word.wrapping_mul(0x9e37_79b9) >> 4);
        text.push_str(&format!("{:x} and {:x}\n", words[0], words[1]));
        if version > 1 && line % 500 == 3 {
            text.push_str("a line that the first version does not have\n");
        }
    }
    text
}

/// Writes two versions of a file, and a page that fetches both.
fn site() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| fs::write(folder.path().join(name), content).unwrap();
    write("v1.txt", &text(1));
    write("v2.txt", &text(2));
    write("page.html", PAGE);
    folder
}

const DICTIONARY: &str = "/v1.txt,match=/v*.txt,id=one,max-age=1h";

/// A response that takes 50 ms of real time. A timer would take no real time, because the browser's virtual time stops
/// only during a fetch.
const PAUSE: &str = "/pause.txt,parts=2,size=1,every=50ms";

/// Fetches the first version, then repeats the second until its content is compressed with the first. The browser
/// stores a dictionary only some time after its response.
const PAGE: &str = "<!doctype html><body><pre></pre><script>\n\
    (async function () {\n\
      await (await fetch('/v1.txt')).text();\n\
      for (var n = 0; n < 1000; n++) {\n\
        performance.clearResourceTimings();\n\
        var response = await fetch('/v2.txt?' + n);\n\
        var text = await response.text();\n\
        var coding = response.headers.get('content-encoding');\n\
        if (coding == 'dcb' || coding == 'dcz') {\n\
          document.querySelector('pre').textContent = text;\n\
          document.body.setAttribute('data-coding', coding);\n\
          var entry = performance.getEntriesByName(response.url)[0];\n\
          document.body.setAttribute('data-protocol', entry.nextHopProtocol);\n\
          return;\n\
        }\n\
        await (await fetch('/pause.txt?' + n)).text();\n\
      }\n\
      document.body.setAttribute('data-coding', 'none of 1000');\n\
    })();\n\
    </script>\n";

/// Returns the SHA-256 of a file as a byte sequence of a structured field, by OpenSSL.
fn hash_of(file: &Path) -> String {
    let script = "openssl dgst -sha256 -binary \"$1\" | openssl base64 -A";
    let printed = run_well(Command::new("sh").args(["-c", script, "sh"]).arg(file));
    format!(":{}:", String::from_utf8(printed).unwrap().trim())
}

fn curl(server: &Server, path: &str, arguments: &[&str]) -> Response {
    let printed = run_well(
        Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "60", "--include"])
            .args(arguments)
            .arg(server.url(path)),
    );
    Response::parse(&printed)
}

/// Returns the first response with a coding: a large file is not compressed until it has been unchanged for two
/// seconds.
fn coded(server: &Server, path: &str, arguments: &[&str]) -> Response {
    for _ in 0..600 {
        let response = curl(server, path, arguments);
        if response.field("Content-Encoding").is_some() {
            return response;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{path} is not compressed");
}

#[test]
fn zstd_and_brotli_decode_content_with_a_dictionary() {
    if ["curl", "openssl", "zstd"]
        .iter()
        .any(|name| tool(name).is_none())
    {
        return;
    }
    let site = site();
    let first = site.path().join("v1.txt");
    let hash = hash_of(&first);
    let arguments = [
        "--compress",
        "br:5,zstd:3,gzip:6",
        "--dictionary",
        DICTIONARY,
    ];
    let plain = Server::origin(site.path(), &arguments);
    let secure = Server::secure(site.path(), &arguments);
    let root = secure.root();
    let root = root.to_str().unwrap();
    let announced = curl(&plain, "v1.txt", &[]);
    let field = announced.field("Use-As-Dictionary");
    assert_eq!(field, Some("match=\"/v*.txt\", id=\"one\""));
    assert_eq!(announced.field("Cache-Control"), Some("max-age=3600"));
    let available = format!("Available-Dictionary: {hash}");
    for (coding, program, header) in [("dcz", "zstd", 40), ("dcb", "brotli", 36)] {
        let accept = format!("Accept-Encoding: gzip, br, zstd, {coding}");
        let fields = ["--header", &accept, "--header", &available];
        let response = coded(&plain, "v2.txt", &[&["--http1.1"], &fields[..]].concat());
        assert_eq!(response.field("Content-Encoding"), Some(coding));
        let vary = response.field("Vary");
        assert_eq!(vary, Some("Accept-Encoding, Available-Dictionary"));
        assert!(
            response.content.len() < 12_000,
            "{}",
            response.content.len()
        );
        let over_tls = [&["--http2", "--cacert", root], &fields[..]].concat();
        let over_tls = coded(&secure, "v2.txt", &over_tls);
        assert!(over_tls.content == response.content, "{coding} over TLS");
        // Older versions of the program brotli have no dictionaries.
        let help = run(Command::new(program).arg("--help")).stdout;
        if String::from_utf8_lossy(&help).contains("-D") {
            let coded = site.path().join("coded");
            fs::write(&coded, &response.content[header..]).unwrap();
            let decoded = run_well(
                Command::new(program)
                    .args(["-d", "-c", "-D"])
                    .args([&first, &coded]),
            );
            assert!(decoded == text(2).as_bytes(), "{program}: other content");
        } else {
            eprintln!("SKIPPED: this {program} has no option -D");
        }
    }
}

/// The connection of Chromium to the server.
struct Visit {
    /// The value of `--protocols` for a server with TLS; `None` for a server without TLS.
    secure: Option<&'static str>,
    /// The host name in the URL, which resolves to 127.0.0.1.
    host: &'static str,
    /// The browser's name for the HTTP version, an ALPN identifier.
    protocol: &'static str,
    /// The value of `--compress`, and the resulting content coding.
    coding: [&'static str; 2],
}

const DCB: [&str; 2] = ["br:5", "dcb"];
const DCZ: [&str; 2] = ["zstd:3", "dcz"];
const LOOPBACK: &str = "127.0.0.1";

/// Returns the hash of the public key of the server's certificate, for Chromium's option
/// `--ignore-certificate-errors-spki-list`.
fn key_hash(server: &Server) -> String {
    let script = "openssl s_client -connect \"$1\" </dev/null | openssl x509 -pubkey -noout \
                  | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | openssl base64 -A";
    let address = server.address.to_string();
    let printed = run_well(Command::new("sh").args(["-c", script, "sh", &address]));
    String::from_utf8(printed).unwrap().trim().to_owned()
}

/// Returns the arguments with which Chromium accepts the server as if a public authority had issued its certificate.
fn accepting(visit: &Visit, server: &Server) -> Vec<String> {
    let mut arguments = Vec::new();
    if visit.secure.is_some() {
        let hash = key_hash(server);
        arguments.push(format!("--ignore-certificate-errors-spki-list={hash}"));
    }
    if visit.protocol == "h3" {
        let origin = format!("{}:{}", visit.host, server.address.port());
        arguments.push(format!("--origin-to-force-quic-on={origin}"));
    }
    if visit.host == NAMED {
        // By default, Chromium uses dictionaries only with certificates of public authorities, and on loopback.
        let feature = "CompressionDictionaryTransportRequireKnownRootCert";
        arguments.push(format!("--disable-features={feature}"));
    }
    arguments
}

/// Compares the text in the browser with the file, and the bytes in the server's log with the bytes that curl gets.
fn chromium_decodes(visit: &Visit) {
    let chromium = tool("chromium").or_else(|| tool("chromium-browser"));
    let (Some(chromium), Some(_)) = (chromium, tool("openssl")) else {
        return;
    };
    let site = site();
    let hash = hash_of(&site.path().join("v1.txt"));
    let [compress, coding] = visit.coding;
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut arguments = vec!["--compress", compress, "--dictionary", DICTIONARY];
    arguments.extend(["--dynamic", PAUSE, "--log", log.path().to_str().unwrap()]);
    let mut server = match visit.secure {
        Some(protocols) => {
            arguments.extend(["--protocols", protocols]);
            Server::secure(site.path(), &arguments)
        }
        None => Server::origin(site.path(), &arguments),
    };
    let profile = tempfile::tempdir().unwrap();
    let url = server.url("page.html").replace(LOOPBACK, visit.host);
    let mut command = browser(&chromium, profile.path(), &url);
    let dom = run_well(command.args(accepting(visit, &server)));
    let dom = String::from_utf8_lossy(&dom);
    let end = dom.get(dom.len().saturating_sub(300)..).unwrap_or(&dom);
    for attribute in [
        format!("data-coding=\"{coding}\""),
        format!("data-protocol=\"{}\"", visit.protocol),
    ] {
        assert!(dom.contains(&attribute), "no {attribute}: {end}");
    }
    assert!(dom.contains(&text(2)), "{coding}: other content");
    let fields = [
        format!("Accept-Encoding: {coding}"),
        format!("Available-Dictionary: {hash}"),
    ];
    // `--insecure`: for a server without TLS there is no root to trust.
    let fields = ["--insecure", "--header", &fields[0], "--header", &fields[1]];
    let sent = curl(&server, "v2.txt", &fields).content.len();
    assert!(server.stop().unwrap().success());
    let log = fs::read_to_string(log.path()).unwrap();
    let end = format!("\" 200 {sent}");
    let is_sent = |line: &str| line.contains("GET /v2.txt?") && line.ends_with(&end);
    assert!(log.lines().any(is_sent), "no line ends in {end}:\n{log}");
}

#[test]
fn chromium_decodes_content_with_a_dictionary() {
    for coding in [DCB, DCZ] {
        chromium_decodes(&Visit {
            secure: None,
            host: LOOPBACK,
            protocol: "http/1.1",
            coding,
        });
    }
}

#[test]
fn chromium_decodes_content_with_a_dictionary_over_tls() {
    for (protocols, host, protocol, coding) in [
        ("h1,h2", LOOPBACK, "h2", DCB),
        ("h1,h2", NAMED, "h2", DCZ),
        ("h1", LOOPBACK, "http/1.1", DCZ),
        ("h1,h2,h3", LOOPBACK, "h3", DCB),
    ] {
        chromium_decodes(&Visit {
            secure: Some(protocols),
            host,
            protocol,
            coding,
        });
    }
}

#[test]
fn dictionaries_outside_of_secure_contexts_are_refused() {
    let site = site();
    let refused = |arguments: &[&str]| {
        let output = run(Command::new(FATHOMETER)
            .arg("serve")
            .arg(site.path())
            .args(["--listen", "0.0.0.0:0", "--dictionary", DICTIONARY])
            .args(arguments));
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&["--compress", "br"]);
    assert!(said.contains("needs a secure context"), "{said}");
    let said = refused(&["--compress", "gzip"]);
    assert!(said.contains("needs br or zstd"), "{said}");
    let said = refused(&[]);
    assert!(said.contains("--compress"), "{said}");
}

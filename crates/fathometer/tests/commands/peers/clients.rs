//! curl, wget and Chromium fetch the site from our origin.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fathometer_http::h1::server::ServerConfig;
use fathometer_http::origin::{Origin, OriginConfig};
use fathometer_origin::{OriginLoop, OriginSockets};
use fathometer_sys::Clock;

use super::support::{IMAGES, PAGE, Response, Server, SiteFolder, inflate};
use crate::support::programs::{run, run_well, tool};

/// curl, the site, and our origin that serves the site.
struct Curl {
    program: PathBuf,
    site: SiteFolder,
    server: Server,
}

impl Curl {
    fn new() -> Option<Curl> {
        let program = tool("curl")?;
        let site = SiteFolder::new();
        let server = Server::origin(site.path(), &[]);
        Some(Curl {
            program,
            site,
            server,
        })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--silent", "--show-error", "--noproxy", "*"])
            .args(arguments);
        command
    }

    /// Fetches one file with its head.
    fn get(&self, file: &str, arguments: &[&str]) -> Response {
        let mut command = self.command(arguments);
        command.arg("--include").arg(self.server.url(file));
        Response::parse(&run_well(&command))
    }
}

#[test]
fn curl_fetches_every_file_in_both_versions() {
    let Some(curl) = Curl::new() else { return };
    for version in ["--http1.0", "--http1.1"] {
        for file in curl.site.images().iter().map(String::as_str).chain([PAGE]) {
            let response = curl.get(file, &[version]);
            assert_eq!(response.status(), 200, "{version} {file}");
            let body = curl.site.read(file);
            let length = body.len().to_string();
            assert_eq!(response.field("Content-Length"), Some(length.as_str()));
            assert!(response.content == body, "{version} {file}");
        }
    }
}

#[test]
fn curl_keeps_its_connection_where_it_persists() {
    let Some(curl) = Curl::new() else { return };
    let connections = |arguments: &[&str]| -> u32 {
        let mut command = curl.command(arguments);
        command.args(["--write-out", "%{num_connects}\n", "--output", "/dev/null"]);
        command.arg(curl.server.url(PAGE));
        for image in curl.site.images().iter().take(5) {
            command
                .args(["--output", "/dev/null"])
                .arg(curl.server.url(image));
        }
        let counts = String::from_utf8(run_well(&command)).unwrap();
        counts
            .lines()
            .map(|line| line.parse::<u32>().unwrap())
            .sum()
    };
    assert_eq!(connections(&["--http1.1"]), 1);
    assert_eq!(connections(&["--http1.0"]), 6);
    assert_eq!(
        connections(&["--http1.1", "--header", "Connection: close"]),
        6
    );
}

#[test]
fn curl_gets_heads_alone() {
    let Some(curl) = Curl::new() else { return };
    for version in ["--http1.0", "--http1.1"] {
        let response = curl.get(PAGE, &[version, "--head"]);
        assert_eq!(response.status(), 200);
        assert_eq!(response.field("Content-Length"), Some("43008"));
        assert_eq!(response.field("Content-Type"), Some("text/html"));
        assert!(response.content.is_empty());
    }
    let missing = curl.get("none.html", &["--head"]);
    assert_eq!(missing.status(), 404);
}

#[test]
fn curl_gets_ranges() {
    let Some(curl) = Curl::new() else { return };
    let body = curl.site.read(PAGE);
    for (range, from, to) in [
        ("0-0", 0, 1),
        ("10-99", 10, 100),
        ("43000-", 43_000, 43_008),
        ("-5", 43_003, 43_008),
        ("43000-99999", 43_000, 43_008),
    ] {
        let response = curl.get(PAGE, &["--range", range]);
        assert_eq!(response.status(), 206, "{range}");
        let stated = format!("bytes {from}-{}/43008", to - 1);
        assert_eq!(response.field("Content-Range"), Some(stated.as_str()));
        assert!(response.content == body[from..to], "{range}");
    }
    let beyond = curl.get(PAGE, &["--range", "43008-"]);
    assert_eq!(beyond.status(), 416);
    assert_eq!(beyond.field("Content-Range"), Some("bytes */43008"));

    // If-Range: the response is the part if the validator matches, otherwise the whole file.
    let etag = curl
        .get(PAGE, &["--head"])
        .field("ETag")
        .unwrap()
        .to_owned();
    let matching = format!("If-Range: {etag}");
    let response = curl.get(PAGE, &["--range", "0-9", "--header", &matching]);
    assert_eq!((response.status(), response.content.len()), (206, 10));
    let response = curl.get(PAGE, &["--range", "0-9", "--header", "If-Range: \"old\""]);
    assert_eq!((response.status(), response.content.len()), (200, 43_008));
}

#[test]
fn curl_gets_several_ranges_in_one_response() {
    let Some(curl) = Curl::new() else { return };
    let body = curl.site.read(PAGE);
    let response = curl.get(PAGE, &["--range", "0-9,100-119,-3"]);
    assert_eq!(response.status(), 206);
    let content_type = response.field("Content-Type").unwrap();
    let boundary = content_type
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap_or_else(|| panic!("{content_type}"))
        .trim_matches('"');
    let mut rest = &response.content[..];
    for range in [0..10, 100..120, 43_005..43_008] {
        let part = Part::take(&mut rest, boundary, range.len());
        let stated = format!("bytes {}-{}/43008", range.start, range.end - 1);
        assert_eq!(part.range, stated);
        assert!(part.content == body[range], "{stated}");
    }
    let end = format!("\r\n--{boundary}--");
    assert!(rest.starts_with(end.as_bytes()), "{rest:?}");
}

/// One part of a multipart/byteranges response.
struct Part {
    range: String,
    content: Vec<u8>,
}

impl Part {
    fn take(rest: &mut &[u8], boundary: &str, length: usize) -> Part {
        let at = rest
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .map(|at| if at == 0 { 0 } else { at })
            .expect("a part has a head");
        let head = String::from_utf8(rest[..at].to_vec()).unwrap();
        assert!(
            head.trim_start().starts_with(&format!("--{boundary}\r\n")),
            "{head:?}"
        );
        let range = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-range"))
            .map(|(_, value)| value.to_owned())
            .expect("a part states its range");
        let content = rest[at + 4..at + 4 + length].to_vec();
        *rest = &rest[at + 4 + length..];
        Part { range, content }
    }
}

#[test]
fn curl_validates_by_entity_tag_and_by_date() {
    let Some(curl) = Curl::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    for file in [PAGE, "images/img39.gif"] {
        let head = curl.get(file, &["--head"]);
        let tags = folder.path().join("tags");
        let tags = tags.to_str().unwrap();
        let first = curl.get(file, &["--etag-save", tags]);
        assert_eq!(first.status(), 200);
        let second = curl.get(file, &["--etag-compare", tags]);
        assert_eq!((second.status(), second.content.len()), (304, 0));
        assert_eq!(second.field("ETag"), head.field("ETag"));

        let modified = head.field("Last-Modified").unwrap();
        for (date, status) in [
            (modified, 304),
            ("Wed, 01 Jan 2025 00:00:00 GMT", 304),
            ("Wed, 01 Jan 1997 00:00:00 GMT", 200),
        ] {
            let condition = format!("If-Modified-Since: {date}");
            let response = curl.get(file, &["--header", &condition]);
            assert_eq!(response.status(), status, "{file} {date}");
        }
        // Also with curl's own option, which takes the date from a local file.
        let local = curl.site.path().join(file);
        let response = curl.get(file, &["--time-cond", local.to_str().unwrap()]);
        assert_eq!(response.status(), 304, "{file}");
        let other = curl.get(file, &["--header", "If-None-Match: \"other\""]);
        assert_eq!(other.status(), 200);
    }
}

#[test]
fn curl_decodes_both_codings() {
    let Some(curl) = Curl::new() else { return };
    let python = tool("python3");
    let body = curl.site.read(PAGE);
    for coding in ["deflate", "gzip"] {
        let accept = format!("Accept-Encoding: {coding}");
        let coded = curl.get(PAGE, &["--header", &accept]);
        assert_eq!(coded.field("Content-Encoding"), Some(coding));
        assert!(coded.content.len() < body.len() / 3, "{coding}");
        assert!(
            coded
                .field("Vary")
                .is_some_and(|vary| vary.contains("Accept-Encoding"))
        );
        let decoded = curl.get(PAGE, &["--header", &accept, "--compressed"]);
        assert!(
            decoded.content == body,
            "curl decodes {coding} to content that differs from the file"
        );
        if let Some(python) = &python {
            assert!(inflate(python, &coded.content) == body, "{coding}");
        }
        // A coded representation is another representation with its own entity tag.
        let plain = curl.get(PAGE, &["--head"]);
        assert_ne!(coded.field("ETag"), plain.field("ETag"));
    }
    // Images are stored without coding only.
    let image = curl.get("images/img39.gif", &["--compressed"]);
    assert_eq!(image.field("Content-Encoding"), None);
    assert!(image.content == curl.site.read("images/img39.gif"));
}

/// With `Expect: 100-continue`, the origin sends 100 (Continue) only for content that it accepts. It refuses other
/// content before the client sends this content.
#[test]
fn curl_asks_before_it_sends() {
    let Some(curl) = Curl::new() else { return };
    let refused = {
        let mut command = curl.command(&["--include", "--header", "Expect: 100-continue"]);
        command
            .args(["--data", "unwanted"])
            .arg(curl.server.url(PAGE));
        Response::parse(&run_well(&command))
    };
    assert_eq!((refused.heads.len(), refused.status()), (1, 405));

    // An origin with a resource that accepts content.
    let clock = Clock::start();
    let site = fathometer_files::site_folder::read(curl.site.path()).unwrap();
    let config = OriginConfig {
        discard: Some("/sink".to_owned()),
        ..OriginConfig::default()
    };
    let origin = Arc::new(Origin::new(Arc::new(site), config).unwrap());
    let origin = OriginLoop::bind(
        &["127.0.0.1:0".parse().unwrap()],
        origin,
        Arc::new(ServerConfig::default()),
        OriginSockets {
            nodelay: true,
            quick_ack: None,
            backlog: None,
        },
        clock,
    )
    .unwrap();
    let address = origin.addresses().unwrap()[0];
    let handle = origin.handle();
    let thread = std::thread::spawn(move || origin.run());
    let upload = tempfile::NamedTempFile::new().unwrap();
    fs::write(upload.path(), vec![b'x'; 300_000]).unwrap();
    let data = format!("@{}", upload.path().display());
    for (coding, heads) in [
        (&["--header", "Expect: 100-continue"][..], 2),
        (
            &[
                "--header",
                "Expect: 100-continue",
                "--header",
                "Transfer-Encoding: chunked",
            ][..],
            2,
        ),
        (&["--header", "Expect:"][..], 1),
        (
            &[
                "--header",
                "Expect:",
                "--header",
                "Transfer-Encoding: chunked",
            ][..],
            1,
        ),
    ] {
        let mut command = curl.command(coding);
        // The timeout for 100 (Continue) is far longer than the response takes.
        command
            .args([
                "--include",
                "--expect100-timeout",
                "30",
                "--data-binary",
                &data,
            ])
            .arg(format!("http://{address}/sink"));
        let response = Response::parse(&run_well(&command));
        assert_eq!(response.status(), 204, "{coding:?}");
        assert_eq!(
            response.heads.len(),
            heads,
            "{coding:?}: {:?}",
            response.heads
        );
    }
    handle.stop();
    thread.join().unwrap().unwrap();
}

#[test]
fn wget_fetches_the_page_and_its_images() {
    let Some(wget) = tool("wget") else { return };
    let site = SiteFolder::new();
    let server = Server::origin(site.path(), &[]);
    let fetched = tempfile::tempdir().unwrap();
    let output = run(Command::new(wget)
        .args([
            "--page-requisites",
            "--no-verbose",
            "--no-host-directories",
            "--no-proxy",
        ])
        .args(["--tries=1", "--directory-prefix"])
        .arg(fetched.path())
        .arg(server.url(PAGE))
        // Ignores the user's configuration.
        .arg("--no-config"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for file in site.images().iter().map(String::as_str).chain([PAGE]) {
        let got = fs::read(fetched.path().join(file));
        assert!(
            got.is_ok_and(|got| got == site.read(file)),
            "{file}\n{said}"
        );
    }
}

/// The browser runs a script that counts the images that it could decode, by size.
#[test]
fn chromium_decodes_every_image() {
    let Some(chromium) = tool("chromium").or_else(|| tool("chromium-browser")) else {
        return;
    };
    let site = SiteFolder::new();
    let page = String::from_utf8(site.read(PAGE)).unwrap();
    fs::write(site.path().join("check.html"), page + CHECK).unwrap();
    let server = Server::origin(site.path(), &[]);
    let profile = tempfile::tempdir().unwrap();
    let dom = run_well(&browser(
        &chromium,
        profile.path(),
        &server.url("check.html"),
    ));
    let dom = String::from_utf8_lossy(&dom);
    let expected = format!("data-decoded=\"{IMAGES}\" data-failed=\"\"");
    let found = dom
        .split_once("data-decoded")
        .map_or("nothing", |(_, rest)| rest.get(..200).unwrap_or(rest));
    assert!(dom.contains(&expected), "data-decoded{found}");
}

/// Counts distinct images that are complete and have the size stated by the page.
pub const CHECK: &str = "<script>\n\
    window.onload = function () {\n\
      var good = {}, bad = {};\n\
      for (var image of document.images) {\n\
        var whole = image.complete && image.naturalWidth == image.getAttribute('width')\n\
          && image.naturalHeight == image.getAttribute('height');\n\
        (whole ? good : bad)[image.getAttribute('src')] = 1;\n\
      }\n\
      document.body.setAttribute('data-decoded', Object.keys(good).length);\n\
      document.body.setAttribute('data-failed', Object.keys(bad).join(' '));\n\
    };\n\
    </script>\n";

/// A name that [`browser`] resolves to 127.0.0.1.
pub const NAMED: &str = "site.test";

/// Returns a command of headless Chromium, on loopback only, with a separate profile.
pub fn browser(chromium: &Path, profile: &Path, url: &str) -> Command {
    let mut command = Command::new(chromium);
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--no-first-run",
            "--disable-background-networking",
            "--disable-sync",
        ])
        .args(["--disable-component-update", "--no-proxy-server"])
        .arg(format!(
            "--host-resolver-rules=MAP {NAMED} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        ))
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(url);
    command
}

#[test]
fn our_origin_stops_in_order_on_sigterm() {
    let site = SiteFolder::new();
    let mut server = Server::origin(site.path(), &[]);
    let status = server.stop().expect("the server exits on SIGTERM");
    assert_eq!(status.code(), Some(0));
}

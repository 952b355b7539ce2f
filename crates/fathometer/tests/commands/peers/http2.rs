//! nghttp, h2load and Chromium over HTTP/2.

use std::fs;
use std::process::Command;

use super::clients::{CHECK, browser};
use super::support::{IMAGES, PAGE, Server, SiteFolder};
use crate::support::programs::{run_well, tool};

#[test]
fn nghttp_fetches_the_page_with_all_it_names() {
    let Some(nghttp) = tool("nghttp") else { return };
    let site = SiteFolder::new();
    let clear = Server::origin(site.path(), &[]);
    let secure = Server::secure(site.path(), &[]);
    // HTTP/2 by prior knowledge, by Upgrade and by ALPN; with and without stream dependencies.
    for (server, arguments) in [
        (&clear, &["-nasv"][..]),
        (&clear, &["-nasvu"]),
        (&clear, &["-nasv", "--no-dep"]),
        (&secure, &["-nasv"]),
    ] {
        let said = run_well(Command::new(&nghttp).args(arguments).arg(server.url(PAGE)));
        let said = String::from_utf8_lossy(&said);
        let answers = said.matches(":status: 200").count();
        assert_eq!(answers, IMAGES + 1, "{arguments:?}\n{said}");
        assert!(!said.contains("RST_STREAM"), "{said}");
        assert!(said.contains("recv SETTINGS frame"), "{said}");
    }
}

#[test]
fn nghttp_is_pushed_what_the_plan_says() {
    let Some(nghttp) = tool("nghttp") else { return };
    let site = SiteFolder::new();
    let images = site.images();
    let plan = tempfile::NamedTempFile::new().unwrap();
    let line: String = images
        .iter()
        .take(10)
        .map(|image| format!(" /{image}"))
        .collect();
    fs::write(plan.path(), format!("/{PAGE}{line}\n")).unwrap();
    let arguments = ["--push", plan.path().to_str().unwrap()];
    for server in [
        Server::origin(site.path(), &arguments),
        Server::secure(site.path(), &arguments),
    ] {
        let fetch = |more: &str| {
            let said = run_well(
                Command::new(&nghttp)
                    .args(["-nv", more])
                    .arg(server.url(PAGE)),
            );
            String::from_utf8_lossy(&said).into_owned()
        };
        let said = fetch("-n");
        assert_eq!(
            said.matches("recv PUSH_PROMISE frame").count(),
            10,
            "{said}"
        );
        assert_eq!(said.matches(":status: 200").count(), 11, "{said}");
        let declined = fetch("--no-push");
        assert_eq!(declined.matches("PUSH_PROMISE").count(), 0, "{declined}");
    }
}

#[test]
fn h2load_loses_nothing() {
    let Some(h2load) = tool("h2load") else { return };
    let site = SiteFolder::new();
    let clear = Server::origin(site.path(), &[]);
    let secure = Server::secure(site.path(), &[]);
    for (server, arguments) in [
        (&clear, &["-m10"][..]),
        (&secure, &["-m10"]),
        (&secure, &["-m100"]),
        (&secure, &["-m1", "--h1"]),
        (&clear, &["-m10", "--h1"]),
    ] {
        for (file, count, bytes) in [(PAGE, "300", 43_008), ("images/img00.gif", "2000", 0)] {
            let said = run_well(
                Command::new(&h2load)
                    .args(["-n", count, "-c4", "-t1"])
                    .args(arguments)
                    .arg(server.url(file)),
            );
            let said = String::from_utf8_lossy(&said);
            let expected = format!(
                "requests: {count} total, {count} started, {count} done, {count} succeeded, 0 failed, \
                 0 errored, 0 timeout"
            );
            assert!(said.contains(&expected), "{arguments:?} {file}\n{said}");
            let content = count.parse::<u64>().unwrap() * bytes;
            if bytes > 0 {
                assert!(said.contains(&format!("({content}) data")), "{said}");
            }
        }
    }
}

/// Compares the browser's report of each file's protocol with the server's log.
#[test]
fn chromium_decodes_every_image_over_http2() {
    let Some(chromium) = tool("chromium").or_else(|| tool("chromium-browser")) else {
        return;
    };
    let site = SiteFolder::new();
    let page = String::from_utf8(site.read(PAGE)).unwrap();
    fs::write(site.path().join("check.html"), page + CHECK + PROTOCOLS).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let arguments = ["--log", log.path().to_str().unwrap(), "--log-format", "tls"];
    let mut server = Server::secure(site.path(), &arguments);
    let profile = tempfile::tempdir().unwrap();
    let mut command = browser(&chromium, profile.path(), &server.url("check.html"));
    command.arg("--ignore-certificate-errors");
    let dom = run_well(&command);
    let dom = String::from_utf8_lossy(&dom);
    let found = dom
        .split_once("data-decoded")
        .map_or("nothing", |(_, rest)| rest.get(..300).unwrap_or(rest));
    let decoded = format!("data-decoded=\"{IMAGES}\" data-failed=\"\"");
    assert!(dom.contains(&decoded), "data-decoded{found}");
    assert!(dom.contains("data-protocols=\"h2\""), "data-decoded{found}");
    assert!(server.stop().unwrap().success());
    let log = fs::read_to_string(log.path()).unwrap();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("GET /images/"))
        .collect();
    assert!(lines.len() >= IMAGES, "{log}");
    for line in lines {
        assert!(line.contains(" HTTP/2.0\" 200 "), "{line}");
        assert!(line.contains(" 1.3 TLS_"), "{line}");
    }
}

/// The distinct protocols by which the files arrived.
const PROTOCOLS: &str = "<script>\n\
    window.addEventListener('load', function () {\n\
      var entries = performance.getEntriesByType('resource')\n\
        .concat(performance.getEntriesByType('navigation'));\n\
      var names = new Set(entries.map(function (entry) { return entry.nextHopProtocol; }));\n\
      document.body.setAttribute('data-protocols', Array.from(names).join(' '));\n\
    });\n\
    </script>\n";

//! Sources of packages: pages, lists, HTTP archives.

use std::io::{Read as _, Write as _};
use std::sync::mpsc;

use fathometer_package::{Decoder, Event, Limits};

use super::place::Place;
use crate::support::waiting::AT_LAST;

fn names(place: &Place, package: &str) -> Vec<(String, bool)> {
    let list = place
        .run(&["unpack", "--list", "--json", package])
        .done()
        .json();
    let files = list["files"].as_array().unwrap().iter();
    files
        .map(|file| {
            let name = file["name"].as_str().unwrap().to_owned();
            (name, file["critical"].as_bool().unwrap())
        })
        .collect()
}

#[test]
fn a_page_brings_what_it_embeds_and_what_is_critical_first() {
    let place = Place::new();
    place.write(
        "site/news/index.html",
        "<link rel=stylesheet href='../style.css'><img src='a%20b.gif'><img src=/logo.gif?v=2>\
         <script src=s.js></script><script src=late.js async></script><img src=//other.example/x>\
         <img src=missing.gif><img src=../../../etc/passwd><img src='a%20b.gif'>",
    );
    for file in [
        "style.css",
        "news/a b.gif",
        "logo.gif",
        "news/s.js",
        "news/late.js",
        "unused",
    ] {
        place.write(format!("site/{file}"), file);
    }
    let packed = place
        .run(&["pack", "site", "--page", "news/", "-o", "p.objp"])
        .done();
    for told in ["news/missing.gif", "another host", "etc/passwd"] {
        assert!(packed.err.contains(told), "{}", packed.err);
    }
    let expected = [
        ("news/index.html", true),
        ("style.css", true),
        ("news/s.js", true),
        ("news/a%20b.gif", false),
        ("logo.gif?v=2", false),
        ("news/late.js", false),
    ];
    assert_eq!(
        names(&place, "p.objp"),
        expected.map(|(name, c)| (name.to_owned(), c))
    );
    place
        .run(&["pack", "site", "--page", "nothing.html"])
        .failed(&["site/nothing.html", "No such file"]);
    place
        .run(&["pack", "site", "--page", "../x"])
        .failed(&["is no page of"]);
}

#[test]
fn a_list_is_packed_as_its_lines_come() {
    let place = Place::new();
    for name in ["b", "a", "c d"] {
        place.write(format!("in/{name}"), name);
    }
    let mut pack = place.start(&["pack", "in", "--names", "-"]);
    let mut list = pack.stdin.take().unwrap();
    let mut package = pack.stdout.take().unwrap();
    // Another thread reports complete names, because a read has no time limit.
    let (tell, told) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut decoder = Decoder::new(Limits::default());
        let mut buffer = [0; 4096];
        loop {
            let read = package.read(&mut buffer).unwrap();
            let mut input = &buffer[..read];
            while let Some(event) = decoder.poll(&mut input).unwrap() {
                if matches!(event, Event::Start { .. }) {
                    tell.send(decoder.entry().name.clone()).unwrap();
                }
            }
            if read == 0 {
                return decoder.end_of_input();
            }
        }
    });
    for (line, name) in [("b\n", "b"), ("./a\n\n", "a"), ("c d", "c%20d")] {
        list.write_all(line.as_bytes()).unwrap();
        if line.ends_with('\n') {
            assert_eq!(told.recv_timeout(AT_LAST).unwrap(), name);
        }
    }
    drop(list);
    assert_eq!(told.recv_timeout(AT_LAST).unwrap(), "c%20d");
    reader.join().unwrap().unwrap();
    assert!(pack.wait().unwrap().success());

    let zeros = place
        .run_with(&["pack", "in", "--names", "-", "-0"], b"a\0c d\0")
        .done();
    place.run_with(&["unpack", "-", "out"], &zeros.out).done();
    assert_eq!(place.tree("out").len(), 2);
    for (list, told) in [
        ("../in/a\n", "not below the folder"),
        ("/etc/passwd", "not below"),
        ("x\n", "in/x"),
        ("a\na\n", "same name"),
    ] {
        place
            .run_with(&["pack", "in", "--names", "-"], list.as_bytes())
            .failed(&[told]);
    }
}

#[test]
fn an_archive_of_a_visit_is_packed_with_its_contents() {
    let place = Place::new();
    let exchange = |url: &str, kind: &str, text: &str| {
        serde_json::json!({
            "request": { "method": "GET", "url": url },
            "response": { "status": 200, "headers": [{ "name": "etag", "value": "\"7\"" }],
                "content": { "mimeType": kind, "text": text } },
        })
    };
    let har = serde_json::json!({ "log": { "entries": [
        exchange("https://a.example/", "text/html", "<p>"),
        exchange("https://a.example/i.png", "image/png", "x"),
        exchange("https://a.example/s.css", "text/css", "p{}"),
        exchange("https://b.example/t.css", "text/css", "p{}"),
    ] } })
    .to_string();
    place.write("visit.har", &har);
    let packed = place
        .run(&["pack", "visit.har", "-o", "v.objp", "--json"])
        .done();
    assert_eq!(packed.json()["files"], 3);
    assert_eq!(packed.json()["left_out"].as_array().unwrap().len(), 1);
    let expected = [("index.html", true), ("s.css", true), ("i.png", false)];
    assert_eq!(
        names(&place, "v.objp"),
        expected.map(|(name, c)| (name.to_owned(), c))
    );
    let list = place
        .run(&["unpack", "--list", "--json", "v.objp"])
        .done()
        .json();
    assert_eq!(list["files"][0]["etag"], "\"7\"");
    let other = place.run_with(
        &["pack", "-", "--host", "b.example", "--format", "1"],
        har.as_bytes(),
    );
    place
        .run_with(&["unpack", "-", "out"], &other.done().out)
        .done();
    assert_eq!(place.tree("out").len(), 1);
    place.write("no.har", "{}");
    place
        .run(&["pack", "no.har"])
        .failed(&["no HTTP archive", "with contents"]);
    place
        .run(&["pack", "missing"])
        .failed(&["missing", "No such file"]);
    place
        .run(&["pack", "visit.har", "--page", "x"])
        .failed(&["is no folder"]);
}

#[test]
fn of_an_archive_one_content_is_in_memory_at_a_time() {
    let place = Place::new();
    // Forty contents of 1.5 MB, while the memory limit leaves no room for many of them.
    let text = "x".repeat(1_500_000);
    let entries: Vec<_> = (0..40)
        .map(|n| {
            serde_json::json!({
                "request": { "method": "GET", "url": format!("https://a.example/{n:02}.txt") },
                "response": { "status": 200, "content": { "mimeType": "text/plain", "text": text } },
            })
        })
        .collect();
    let har = serde_json::json!({ "log": { "entries": entries } }).to_string();
    drop(entries);
    let mut child = place.start(&["pack", "-", "-o", "v.objp", "--json"]);
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(har.as_bytes()).unwrap();
    // The program has read everything except the last bytes, which are still in the pipe.
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
    let peak: u64 = peak
        .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap();
    assert!(peak < 40_000, "{peak} kB for 60 MB of contents");
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let packed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(packed["content_octets"], 60_000_000);
}

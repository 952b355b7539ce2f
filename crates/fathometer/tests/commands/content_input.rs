//! `fathometer content` of an HTTP archive and of a list of URLs: the result equals the result for a folder with the
//! same files.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::peers::support::Server;
use crate::support::programs::{FATHOMETER, run};

/// A page, a style sheet and a GIF of one pixel.
const PAGE: &str = "<!DOCTYPE html><LINK REL=stylesheet HREF=site.css><IMG SRC=a.gif><p>one</p><p>one</p><p>one</p>";
const STYLE: &str =
    "p { color: red; margin: 0 } p { color: red; margin: 0 } p { color: red; margin: 0 }";
const GIF: &[u8] =
    b"GIF89a\x01\0\x01\0\x80\0\0\xff\0\0\0\0\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b";
const GIF_BASE64: &str = "R0lGODlhAQABAIAAAP8AAAAAACwAAAAAAQABAAACAkQBADs=";

fn content(site: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(FATHOMETER);
    command
        .args(["content", "--json", "--repeat", "1"])
        .arg(site)
        .args(arguments);
    run(&command)
}

fn result(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// Writes the files to a folder; returns the result of `content`.
fn folder(folder: &Path) -> Value {
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("index.html"), PAGE).unwrap();
    fs::write(folder.join("site.css"), STYLE).unwrap();
    fs::write(folder.join("a.gif"), GIF).unwrap();
    let output = content(folder, &[]);
    assert_eq!(output.status.code(), Some(0));
    result(&output)
}

/// Returns the bytes of each treatment that joins no files. In these archives and lists the image is on another host,
/// so no file is joined.
fn bytes(result: &Value) -> Vec<(String, u64)> {
    let rows = result["treatments"].as_array().unwrap();
    let mut bytes: Vec<_> = rows
        .iter()
        .filter(|row| row.get("requests_saved").is_none())
        .map(|row| {
            let name = row["treatment"].as_str().unwrap().to_owned();
            (name, row["bytes"].as_u64().unwrap())
        })
        .collect();
    bytes.sort();
    bytes
}

fn entry(method: &str, url: &str, status: u16, content: &Value) -> Value {
    json!({
        "request": { "method": method, "url": url },
        "response": { "status": status, "content": content },
    })
}

#[test]
fn an_archive_gives_the_result_of_its_files_and_names_what_it_lacks() {
    let place = tempfile::tempdir().unwrap();
    let of_folder = folder(&place.path().join("site"));
    let mut entries = vec![
        // The name does not end in .html.
        entry(
            "GET",
            "http://a.test/?page",
            200,
            &json!({ "mimeType": "text/html; charset=utf-8", "text": PAGE }),
        ),
        entry(
            "GET",
            "http://a.test/site.css",
            200,
            &json!({ "mimeType": "text/css", "text": STYLE, "size": STYLE.len() }),
        ),
        entry(
            "GET",
            "http://b.test/a",
            200,
            &json!({ "mimeType": "image/png", "text": GIF_BASE64, "encoding": "base64" }),
        ),
        entry("POST", "http://a.test/form", 200, &json!({ "text": "x" })),
        entry("GET", "data:,x", 200, &json!({ "text": "x" })),
    ];
    let har = place.path().join("page.har");
    let write = |entries: &[Value]| {
        let archive = json!({ "log": { "entries": entries } });
        fs::write(&har, archive.to_string()).unwrap();
    };
    write(&entries);
    let output = content(&har, &[]);
    assert_eq!(output.status.code(), Some(0));
    let whole = result(&output);
    assert_eq!(whole["files"], 3);
    assert_eq!(whole["entries_skipped"], 2);
    assert_eq!(bytes(&whole), bytes(&of_folder));
    assert_eq!(whole["images"], of_folder["images"]);

    entries.push(entry(
        "GET",
        "http://a.test/lost.js",
        200,
        &json!({ "size": 9 }),
    ));
    let cut = json!({ "size": 90, "text": "cut" });
    entries.push(entry("GET", "http://a.test/cut.js", 200, &cut));
    write(&entries);
    let output = content(&har, &[]);
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        message.contains("http://a.test/lost.js: the archive does not contain its content"),
        "{message}"
    );
    assert!(
        message.contains("http://a.test/cut.js: the archive contains only 3 of its 90 bytes"),
        "{message}"
    );
    assert_eq!(result(&output)["files_failed"], 2);
    assert_eq!(bytes(&result(&output)), bytes(&whole));
}

#[test]
fn a_list_is_fetched_within_its_limits() {
    let place = tempfile::tempdir().unwrap();
    let site = place.path().join("site");
    let of_folder = folder(&site);
    let plain = Server::origin(&site, &[]);
    let secure = Server::secure(&site, &[]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let list = place.path().join("urls.txt");
    let write =
        |urls: &[String]| fs::write(&list, format!("# a list\n{}\n", urls.join("\n"))).unwrap();
    let mut urls = vec![
        plain.url("index.html"),
        plain.url("site.css"),
        secure.url("a.gif"),
    ];
    write(&urls);
    let root = secure.root();
    let trust = ["--cacert", root.to_str().unwrap()];
    let output = content(&list, &trust);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(bytes(&result(&output)), bytes(&of_folder));

    fs::write(site.join("large"), [b'x'; 2000]).unwrap();
    urls.push(plain.url("large"));
    urls.push(plain.url("missing"));
    urls.push(format!("http://{}/", silent.local_addr().unwrap()));
    write(&urls);
    let limits = ["--max-file", "1999", "--timeout", "1"];
    let output = content(
        &list,
        &[trust, [limits[0], limits[1]], [limits[2], limits[3]]].concat(),
    );
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    for expected in [
        "/large: it is longer than 1999 bytes",
        "/missing: its status is 404",
        "/: it takes longer than permitted (--timeout)",
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
    assert_eq!(result(&output)["files_failed"], 3);
    assert_eq!(bytes(&result(&output)), bytes(&of_folder));

    // Without the root certificate, the file over TLS is not fetched.
    write(&urls[1..3]);
    let output = content(&list, &[]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        message.contains("a.gif: ") && message.contains("not trusted"),
        "{message}"
    );
    assert_eq!(result(&output)["files"], 1);
}

#[test]
fn what_is_neither_is_a_usage_error() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    for (text, expected) in [
        ("{}", "not an HTTP archive"),
        ("index.html\n", "line 1: "),
        ("# nothing\n", "no URL"),
    ] {
        fs::write(&file, text).unwrap();
        let output = content(&file, &[]);
        assert_eq!(output.status.code(), Some(2), "{text}");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains(expected), "{message}");
    }
    let output = content(place.path(), &["--insecure"]);
    assert_eq!(output.status.code(), Some(2));
}

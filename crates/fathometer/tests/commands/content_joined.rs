//! `fathometer content` with joined files: the rows and the predictions equal those of the copy that `--write` makes,
//! and Chromium shows inlined images like image files.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::content_write::{screenshot, site, write};
use crate::support::programs::{FATHOMETER, run_well, tool};

/// A grey pixel.
const DOT: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xcc\xcc\xcc\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// Writes a page with two style sheets, two scripts and two images, and another page with one of the style sheets.
fn small_site(folder: &Path) -> PathBuf {
    let site = folder.join("site");
    for name in ["a", "a/style sheets", "i"] {
        fs::create_dir_all(site.join(name)).unwrap();
    }
    let rules = |name: &str| format!("p.{name} {{ color: red; margin: 0 }}\n").repeat(40);
    let page = "<!DOCTYPE html>\n<link rel=stylesheet href='style%20sheets/one.css'>\n\
        <link rel=stylesheet href='style%20sheets/two.css'>\n<p>text <img src=../i/a.gif><img alt=x src=\"../i/b.gif\">\n\
        <script src=one.js></script>\n<script src=two.js></script>\n";
    let other = "<!DOCTYPE html>\n<link rel=stylesheet href='a/style%20sheets/two.css'>\n<p>text\n";
    for (name, content) in [
        ("a/page.html", page.to_owned()),
        ("other.html", other.to_owned()),
        ("a/style sheets/one.css", rules("one")),
        ("a/style sheets/two.css", rules("two")),
        ("a/one.js", "window.one = 1;\n".repeat(30)),
        ("a/two.js", "window.two = 2;\n".repeat(30)),
    ] {
        fs::write(site.join(name), content).unwrap();
    }
    fs::write(site.join("i/a.gif"), DOT).unwrap();
    fs::write(site.join("i/b.gif"), DOT).unwrap();
    site
}

fn content(site: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new(FATHOMETER);
    command
        .args(["content", "--json", "--repeat", "2"])
        .args(arguments);
    serde_json::from_slice(&run_well(command.arg(site))).unwrap()
}

/// Returns the bytes of all files below a folder except `without`; if `is_coded`, counts the files that gzip 6 makes
/// smaller with their compressed size.
fn bytes(folder: &Path, without: &[&str], is_coded: bool) -> u64 {
    let mut sum = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(open) = folders.pop() {
        for entry in fs::read_dir(&open).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let place = path.strip_prefix(folder).unwrap().to_str().unwrap();
            if without.contains(&place) {
                continue;
            }
            let content = fs::read(&path).unwrap();
            let mut coded = Vec::new();
            let level = flate2::Compression::new(6);
            flate2::read::GzEncoder::new(content.as_slice(), level)
                .read_to_end(&mut coded)
                .unwrap();
            sum += match is_coded {
                true => coded.len().min(content.len()),
                false => content.len(),
            };
        }
    }
    sum as u64
}

/// For each way to join files: its name, the value of --treat, and the files that documents no longer load.
const WAYS: [(&str, &str, &[&str]); 3] = [
    (
        "concatenated",
        "concat",
        &["a/style sheets/one.css", "a/one.js", "a/two.js"],
    ),
    ("inlined", "inline", &["i/a.gif", "i/b.gif"]),
    ("sprites", "sprite", &["i/a.gif", "i/b.gif"]),
];

#[test]
fn rows_of_joined_files_have_the_bytes_and_requests_of_the_copy_and_times() {
    let folder = tempfile::tempdir().unwrap();
    let site = small_site(folder.path());
    let result = content(&site, &[]);
    let rows = result["treatments"].as_array().unwrap();
    for (name, treat, gone) in WAYS {
        let copy = folder.path().join(treat);
        let written = run_well(&write(&site, &copy, &["--json", "--treat", treat]));
        let written: Value = serde_json::from_slice(&written).unwrap();
        for (suffix, is_coded) in [("", false), (", gzip 6", true)] {
            let name = format!("{name}{suffix}");
            let row = rows.iter().find(|row| row["treatment"] == name.as_str());
            let row = row.unwrap_or_else(|| panic!("{name}: {result}"));
            // The copy keeps the old files, which other sites may reference.
            let expected = bytes(&copy, gone, is_coded);
            assert_eq!(row["bytes"], expected, "{name}: {result}");
            assert_eq!(row["requests_saved"], written["requests_saved"], "{name}");
            for key in ["encode_s", "decode_s"] {
                let times = row[key].as_array().unwrap();
                let are_measured = times.iter().all(|time| time.as_f64().unwrap() > 0.0);
                assert!(times.len() == 2 && are_measured, "{name}: {row}");
            }
        }
    }
    let smaller = |name: &str| {
        let row = rows.iter().find(|row| row["treatment"] == name).unwrap();
        row["files_smaller"].as_u64().unwrap()
    };
    // The page has fewer tags, and a joined file has at most one line break more than its parts.
    let length = |tree: &str, name: &str| {
        let path = folder.path().join(tree).join(name);
        fs::metadata(path).unwrap().len()
    };
    let parts = |names: &[&str]| names.iter().map(|name| length("site", name)).sum::<u64>();
    let made = [
        ("a/page.html", parts(&["a/page.html"])),
        ("a/concatenated-2.js", parts(&["a/one.js", "a/two.js"])),
        (
            "a/style sheets/concatenated-1.css",
            parts(&["a/style sheets/one.css", "a/style sheets/two.css"]),
        ),
    ];
    let fewer = made
        .iter()
        .filter(|(name, bytes)| length("concat", name) < *bytes);
    assert_eq!(smaller("concatenated"), fewer.count() as u64, "{result}");
    // gzip makes the page, a style sheet and two scripts smaller. The copy has one script instead of two.
    assert_eq!(smaller("concatenated, gzip 6"), smaller("gzip 6") - 1);
}

#[test]
fn predictions_of_joined_files_are_those_of_the_copy() {
    let folder = tempfile::tempdir().unwrap();
    let site = small_site(folder.path());
    let predicted = |site: &Path| {
        let result = content(site, &["--path", "ppp", "--policy", "h1.1"]);
        let rows = result["predictions"].as_array().unwrap().clone();
        let rows = rows.into_iter().filter(|row| row["page"] == "/a/page.html");
        rows.collect::<Vec<Value>>()
    };
    let of_site = predicted(&site);
    let find = |rows: &[Value], treatment: &str| {
        let row = rows.iter().find(|row| row["treatment"] == treatment);
        row.unwrap_or_else(|| panic!("{treatment}: {rows:?}"))
            .clone()
    };
    let seconds = |row: &Value| row["seconds"].as_f64().unwrap();
    let alone = find(&of_site, "gzip 6");
    let mut ways: Vec<(&str, &str)> = WAYS.iter().map(|way| (way.0, way.1)).collect();
    ways.push(("sprites, concatenated", "sprite,concat"));
    for (name, treat) in ways {
        let copy = folder.path().join(treat);
        run_well(&write(&site, &copy, &["--treat", treat]));
        let of_copy = find(&predicted(&copy), "gzip 6");
        let joined = find(&of_site, &format!("{name}, gzip 6"));
        for key in ["seconds", "packets_up", "packets_down", "wire_bytes"] {
            assert_eq!(joined[key], of_copy[key], "{name}, {key}");
        }
        // Each request takes at least the modem's round trip of 150 ms.
        assert!(seconds(&joined) < seconds(&alone) - 0.1, "{name}");
    }
    assert_eq!(of_site.len(), 6, "{of_site:?}");
}

#[test]
fn a_browser_shows_inlined_images_as_it_shows_files() {
    let folder = tempfile::tempdir().unwrap();
    let site = site(folder.path());
    // Images that another page also uses would not be inlined.
    for entry in fs::read_dir(&site).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "html") && !path.ends_with("index.html") {
            fs::remove_file(path).unwrap();
        }
    }
    let out = folder.path().join("copy");
    let arguments = ["--json", "--treat", "gif,webp,inline,minify"];
    let result = run_well(&write(&site, &out, &arguments));
    let result: Value = serde_json::from_slice(&result).unwrap();
    let inlined = result["images_inlined"].as_u64().unwrap();
    assert!(inlined >= 20, "{result}");
    assert_eq!(result["requests_saved"], inlined);
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert_eq!(page.matches("src=\"data:image/").count() as u64, inlined);
    // The inlined images are the smaller files of the copy.
    assert!(page.contains("data:image/png;base64,"), "{result}");
    let Some(chromium) = tool("chromium") else {
        return;
    };
    let expected = screenshot(&chromium, &site);
    // Removes the files of the inlined images.
    for entry in fs::read_dir(out.join("images")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !page.contains(name) && !name.ends_with(".webp") && !name.ends_with(".png") {
            fs::remove_file(&path).unwrap();
        }
    }
    assert!(screenshot(&chromium, &out) == expected, "the pages differ");
    fs::write(out.join("index.html"), page.replace("data:", "data-")).unwrap();
    assert!(screenshot(&chromium, &out) != expected);
}

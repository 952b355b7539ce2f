//! `fathometer content --write`: the copy looks the same in a browser, and is complete or absent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::peers::support::Server;
use super::small_disk::SmallDisk;
use crate::support::programs::{FATHOMETER, run, run_well, tool};

/// Writes a page that references the still images of the microscape site by attributes, styles and a style sheet.
pub fn site(folder: &Path) -> PathBuf {
    let site = folder.join("site");
    run_well(
        Command::new(FATHOMETER)
            .args(["site", "microscape"])
            .arg(&site),
    );
    let mut names: Vec<String> = fs::read_dir(site.join("images"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        // Two screenshots of an animation may differ.
        .filter(|path| {
            let content = fs::read(path).unwrap();
            !content.windows(11).any(|window| window == b"NETSCAPE2.0")
        })
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names.len(), 40);
    let (with_css, others) = names.split_at(3);
    let images: String = others
        .iter()
        .map(|name| format!("<img src=\"images/{name}\">\n"))
        .collect();
    let page = format!(
        "<!DOCTYPE html>\n<link rel=stylesheet href=style/site.css>\n<h1>images/{0}</h1>\n\
         <p class=back>background</p>\n<p style=\"background: url('images/{1}')\">style</p>\n\
         <img srcset=\"images/{2} 1x\">\n{images}",
        with_css[0], with_css[1], with_css[2]
    );
    fs::write(site.join("index.html"), page).unwrap();
    fs::create_dir(site.join("style")).unwrap();
    let style = format!(".back {{ background: url(../images/{}) }}\n", with_css[0]);
    fs::write(site.join("style/site.css"), style).unwrap();
    site
}

/// Returns the command that writes a copy.
pub fn write(site: &Path, out: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(FATHOMETER);
    command
        .arg("content")
        .arg(site)
        .arg("--write")
        .arg(out)
        .args(arguments);
    command
}

/// Returns a command for Chromium without a window and without external requests, with its state in this folder.
pub fn headless(chromium: &Path, place: &Path) -> Command {
    let mut command = Command::new(chromium);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-sync"])
        .args(["--disable-component-update", "--no-proxy-server"])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
        .args(["--hide-scrollbars", "--window-size=1000,1500"])
        .arg("--virtual-time-budget=20000")
        .arg(format!(
            "--user-data-dir={}",
            place.join("profile").display()
        ));
    command
}

/// Takes a screenshot of the page in Chromium, as PNG: equal pixels give equal bytes.
pub fn screenshot(chromium: &Path, folder: &Path) -> Vec<u8> {
    let server = Server::origin(folder, &[]);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("page.png");
    run_well(
        headless(chromium, place.path())
            .arg(format!("--screenshot={}", file.display()))
            .arg(server.url("index.html")),
    );
    fs::read(&file).unwrap()
}

#[test]
fn a_browser_shows_the_same_page_of_the_copy() {
    let folder = tempfile::tempdir().unwrap();
    let site = site(folder.path());
    let before = fs::read(site.join("index.html")).unwrap();
    let out = folder.path().join("copy");
    let result = run_well(&write(&site, &out, &["--json"]));
    let result: Value = serde_json::from_slice(&result).unwrap();
    let number = |key: &str| result[key].as_u64().unwrap();
    assert!(number("images_renamed") >= 20, "{result}");
    assert!(number("references") > number("images_renamed"), "{result}");
    assert!(number("treated_bytes") < number("bytes"), "{result}");
    assert!(!folder.path().join("copy.incomplete").exists());
    // The original is unchanged. All references in the copy have the new names, and the old files remain.
    assert_eq!(fs::read(site.join("index.html")).unwrap(), before);
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    let heading = page.lines().find(|line| line.starts_with("<h1>"));
    assert!(!heading.unwrap().contains(".gif."), "{page}");
    let references = page.matches(".gif.png\"").count() + page.matches(".gif.webp\"").count();
    assert!(references >= 15, "{page}");
    for entry in fs::read_dir(site.join("images")).unwrap() {
        let entry = entry.unwrap();
        let copied = fs::read(out.join("images").join(entry.file_name())).unwrap();
        assert_eq!(copied, fs::read(entry.path()).unwrap());
    }

    let Some(chromium) = tool("chromium") else {
        return;
    };
    let expected = screenshot(&chromium, &site);
    assert!(screenshot(&chromium, &out) == expected, "the pages differ");
    // Without its images the page looks different.
    let bare = folder.path().join("bare");
    fs::create_dir(&bare).unwrap();
    fs::copy(out.join("index.html"), bare.join("index.html")).unwrap();
    assert!(screenshot(&chromium, &bare) != expected);
}

#[test]
fn a_copy_goes_to_a_new_place_outside_of_the_site() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("page.html"), "<p>text").unwrap();
    let full = folder.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("file"), "x").unwrap();
    for (out, expected) in [
        (full.clone(), "is not empty"),
        (site.join("copy"), "is inside the site"),
    ] {
        let output = run(&write(&site, &out, &[]));
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(fs::read_dir(&site).unwrap().count(), 1);
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1);

    // An empty folder is accepted. A broken image is copied, and the exit code reports it.
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::write(site.join("broken.gif"), "GIF89a").unwrap();
    let output = run(&write(&site, &empty, &[]));
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(fs::read(empty.join("broken.gif")).unwrap(), b"GIF89a");
    assert_eq!(fs::read(empty.join("page.html")).unwrap(), b"<p>text");
}

#[test]
fn a_copy_has_no_predictions() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("page.html"), "<p>text").unwrap();
    let out = folder.path().join("copy");
    let output = run(&write(&site, &out, &["--path", "ppp"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(!out.exists());
}

#[test]
fn files_whose_hash_is_stated_stay_and_others_are_treated() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    fs::create_dir(&site).unwrap();
    let style = "p { color: red }  /* x */\n";
    fs::write(site.join("hashed.css"), style).unwrap();
    fs::write(site.join("other.css"), style).unwrap();
    let page = "<link rel=stylesheet href=hashed.css integrity=sha256-x><link rel=stylesheet href=other.css>";
    fs::write(site.join("page.html"), page).unwrap();
    let out = folder.path().join("copy");
    let copied = |result: &[u8]| {
        let result: Value = serde_json::from_slice(result).unwrap();
        let is_same = |name: &str| fs::read(out.join(name)).unwrap() == style.as_bytes();
        let copied = (
            result["files_hashed"].as_u64(),
            is_same("hashed.css"),
            is_same("other.css"),
        );
        fs::remove_dir_all(&out).unwrap();
        copied
    };
    let arguments = ["--json", "--treat", "minify"];
    let result = run_well(&write(&site, &out, &arguments));
    assert_eq!(copied(&result), (Some(1), true, false));
    // A document that cannot be parsed may contain the integrity hash of any file.
    fs::write(site.join("page.html"), format!("{page}<![CDATA[")).unwrap();
    let result = run_well(&write(&site, &out, &arguments));
    assert_eq!(copied(&result), (Some(2), true, true));
}

#[test]
fn a_full_disk_leaves_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "256k") else {
        return;
    };
    let site = folder.path().join("site");
    fs::create_dir(&site).unwrap();
    for number in 0..10 {
        fs::write(site.join(format!("{number}.txt")), vec![b'x'; 50_000]).unwrap();
    }
    let output = run(&write(&site, &disk.0.join("copy"), &[]));
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("No space left on device"), "{message}");
    assert!(message.contains("no copy was made"), "{message}");
    assert_eq!(fs::read_dir(&disk.0).unwrap().count(), 0);
}

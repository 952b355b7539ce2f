//! Minified and concatenated files, and sprites: Chromium shows and styles the treated pages like the original pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::content_write::{headless, screenshot, site, write};
use super::peers::support::Server;
#[cfg(feature = "css")]
use crate::support::programs::{FATHOMETER, run};
use crate::support::programs::{run_well, tool};

/// A page whose look depends on white space, comments, the order of its style sheets, and both scripts.
const PAGE: &str = "<!DOCTYPE html>
<html>  <!-- a comment -->
<head>
  <title>A  page</title>
  <link rel=\"stylesheet\"   href=\"style/one.css\">
  <!-- between -->
  <link rel=\"stylesheet\" href=\"style/two.css\">
  <style>
    /* in the document */
    .own { color : #ff0000 ; padding: 1px 1px 1px 1px }
  </style>
</head>
<body>
  <h1   class=\"first\"
        id='top'>Head<!-- x -->line</h1>
  <p>Some   text <b> bold </b>
     and <!-- y --> more,
     <a href=\"#top\" >a link</a>  .</p>
  <pre>
  kept   <i>  white </i>
     space <!-- z -->
  </pre>
  <code class=\"block\">two  spaces</code>  <span class=\"own\">red</span>
  <textarea>  a  b  </textarea>
  <p id=\"out\"></p>
  <script src=\"script/one.js\"></script>
  <script src=\"script/two.js\"></script>
  <script src=\"/probe.js\"></script>
</body>
</html>
";
const ONE: &str = "/* one */\nbody { font-family : sans-serif ; margin: 10px 10px 10px 10px; }\n\
    code.block { white-space: pre; }\np { color: rgb(0, 0, 255); background : url( 'dot.gif' ) }\n\
    @media (min-width: 500px) { h1 { border-bottom: 2px solid #008000; } }\n";
const TWO: &str = "p { color: #00f; color: #123456 }\nh1.first { letter-spacing: 0.50em; }\n\
    .own { font-weight: bold; }\n";

/// Writes the site, with a script that appends the computed style and box of each element to the document.
fn site_of_text(folder: &Path) {
    for name in ["style", "script"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    let probe = "let all = '';
for (const element of document.body.querySelectorAll('*:not(script)')) {
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  all += element.localName + ' ' + [box.x, box.y, box.width, box.height].join(' ');
  for (const name of style) { all += ' ' + name + ':' + style.getPropertyValue(name); }
  all += '\\n';
}
const result = document.createElement('output');
result.id = 'probed';
result.textContent = all;
document.body.append(result);
";
    for (name, content) in [
        ("index.html", PAGE),
        ("style/one.css", ONE),
        ("style/two.css", TWO),
        (
            "script/one.js",
            "window.said = 'one' // without a semicolon\n",
        ),
        (
            "script/two.js",
            "document.getElementById('out').textContent = said + ' and two'",
        ),
        ("probe.js", probe),
    ] {
        fs::write(folder.join(name), content).unwrap();
    }
    fs::write(folder.join("style/dot.gif"), DOT).unwrap();
}

/// A grey pixel.
const DOT: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xcc\xcc\xcc\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// Returns the probe's result in Chromium, with the server's address removed from URLs.
fn probed(chromium: &Path, folder: &Path) -> String {
    let server = Server::origin(folder, &[]);
    let place = tempfile::tempdir().unwrap();
    let url = server.url("index.html");
    let document = run_well(headless(chromium, place.path()).arg("--dump-dom").arg(&url));
    let document = String::from_utf8(document).unwrap();
    let (_, probed) = document.split_once("<output id=\"probed\">").unwrap();
    probed.replace(url.trim_end_matches("index.html"), "/")
}

#[test]
fn a_browser_styles_every_element_of_a_minified_and_concatenated_page_alike() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    site_of_text(&site);
    let out = folder.path().join("copy");
    let result = run_well(&write(&site, &out, &["--json", "--treat", "minify,concat"]));
    let result: Value = serde_json::from_slice(&result).unwrap();
    for (key, expected) in [
        ("files_minified", if cfg!(feature = "css") { 3 } else { 1 }),
        ("files_concatenated", 2),
        ("requests_saved", 3),
        ("documents_left", 0),
    ] {
        assert_eq!(result[key], expected, "{key}: {result}");
    }
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.len() < PAGE.len() * 4 / 5, "{page}");
    for (text, count) in [
        ("<!--", 1),
        ("stylesheet", 1),
        ("<script", 1),
        ("  kept   <i>", 1),
    ] {
        assert_eq!(page.matches(text).count(), count, "{text}: {page}");
    }
    let is_short = page.contains(".own{color:red;padding:1px}");
    assert_eq!(is_short, cfg!(feature = "css"), "{page}");
    // The old files remain, because other sites may reference them.
    assert!(out.join("style/one.css").exists() && out.join("script/two.js").exists());

    let Some(chromium) = tool("chromium") else {
        return;
    };
    let before = probed(&chromium, &site);
    assert!(before.contains("letter-spacing:16px"), "{before}");
    assert_eq!(probed(&chromium, &out), before);
    assert!(screenshot(&chromium, &out) == screenshot(&chromium, &site));
    // Without its style sheets the page is styled differently.
    fs::remove_dir_all(out.join("style")).unwrap();
    assert_ne!(probed(&chromium, &out), before);
}

#[test]
fn a_browser_shows_the_images_of_sprites_as_it_shows_files() {
    let folder = tempfile::tempdir().unwrap();
    let site = site(folder.path());
    let out = folder.path().join("copy");
    let result = run_well(&write(&site, &out, &["--json", "--treat", "sprite,minify"]));
    let result: Value = serde_json::from_slice(&result).unwrap();
    let number = |key: &str| result[key].as_u64().unwrap();
    let (sprites, images) = (number("sprites"), number("images_in_sprites"));
    assert!(sprites >= 1 && images >= 25, "{result}");
    // The site has a second document with the same images.
    assert_eq!(number("requests_saved"), 2 * (images - sprites));
    if tool("identify").is_some() {
        for number in 1..=sprites {
            let file = out.join(format!("images/sprite-{number}.png"));
            let format = run_well(Command::new("identify").args(["-format", "%m"]).arg(file));
            assert_eq!(format, b"PNG");
        }
    }
    let Some(chromium) = tool("chromium") else {
        return;
    };
    let expected = screenshot(&chromium, &site);
    assert!(screenshot(&chromium, &out) == expected, "the pages differ");
    fs::remove_file(out.join("images/sprite-1.png")).unwrap();
    assert!(screenshot(&chromium, &out) != expected);
}

#[cfg(feature = "css")]
#[test]
fn whole_pages_have_rows_and_a_faulty_style_sheet_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    site_of_text(&site);
    let mut page = PAGE.to_owned();
    for name in ["a", "b"] {
        fs::write(site.join(format!("{name}.gif")), DOT).unwrap();
        page += &format!("<img src={name}.gif>");
    }
    fs::write(site.join("index.html"), page).unwrap();
    fs::write(site.join("faulty.css"), "a { color: red }\nb { *zoom: 1 }").unwrap();
    let report = folder.path().join("report.html");
    let mut command = Command::new(FATHOMETER);
    command
        .args(["content", "--json", "--repeat", "2", "--report"])
        .arg(&report)
        .arg(&site);
    let output = run(&command);
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("faulty.css: line 2: "), "{message}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["style_sheets_failed"], 1);
    let row = |name: &str| {
        let rows = result["treatments"].as_array().unwrap();
        let row = rows.iter().find(|row| row["treatment"] == name);
        row.unwrap_or_else(|| panic!("{name}: {result}"))
    };
    let bytes = |name: &str| row(name)["bytes"].as_u64().unwrap();
    let site_bytes = result["bytes"].as_u64().unwrap();
    assert!(bytes("minified") < site_bytes);
    assert!(bytes("minified, brotli 11") < bytes("brotli 11"));
    assert_eq!(row("minified")["encode_s"].as_array().unwrap().len(), 2);
    // Two files joined into one: fewer tags, and one compression context for both.
    assert!(bytes("concatenated") < site_bytes);
    assert!(bytes("concatenated, gzip 6") < bytes("gzip 6"));
    assert_eq!(row("concatenated, brotli 11")["requests_saved"], 3);
    assert_eq!(row("sprites")["requests_saved"], 1);
    let together = "lossless images, sprites, minified, concatenated, brotli 11";
    assert_eq!(row(together)["requests_saved"], 4);
    assert!(bytes(together) < bytes("lossless images, minified and brotli 11") + 200);
    let report = fs::read_to_string(report).unwrap();
    for text in [
        "concatenated, gzip 6",
        "3 fewer requests",
        "style sheets could not be minified",
    ] {
        assert!(report.contains(text), "{text}");
    }
}

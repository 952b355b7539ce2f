//! `fathometer content` with AVIF: the row of the table, the page of the report, and a copy that a browser shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::content_write::headless;
use crate::support::programs::{FATHOMETER, run_well, tool};

/// A script that adds the widths and heights of all decoded images to the page.
const SIZES: &str = "<script>
onload = () => {
  const sizes = [...document.images].map((image) => image.naturalWidth + 'x' + image.naturalHeight);
  document.body.setAttribute('data-sizes', sizes.join(' '));
};
</script>
";

/// Writes a page with a photograph in JPEG, a transparent drawing in PNG, and an animation; `None` without ImageMagick.
fn site(folder: &Path) -> Option<PathBuf> {
    let convert = tool("convert")?;
    let site = folder.join("site");
    fs::create_dir(&site).unwrap();
    let make = |arguments: &[&str], name: &str| {
        let seeded = ["-seed", "11", "-define", "png:exclude-chunks=all"];
        run_well(
            Command::new(&convert)
                .args(seeded)
                .args(arguments)
                .arg(site.join(name)),
        );
    };
    make(
        &["-size", "160x121", "plasma:fractal", "-quality", "95"],
        "photograph.jpg",
    );
    let circle = ["-fill", "green", "-draw", "circle 40,30 40,3"];
    make(
        &[&["-size", "81x60", "xc:none"], circle.as_slice()].concat(),
        "drawing.png",
    );
    make(
        &["-size", "20x20", "xc:red", "xc:blue", "-loop", "0"],
        "animation.gif",
    );
    let page = "<!DOCTYPE html>\n<body><img src=photograph.jpg>\n<img src=drawing.png>\n<img src=animation.gif>\n";
    fs::write(site.join("index.html"), format!("{page}{SIZES}")).unwrap();
    Some(site)
}

#[test]
fn an_avif_has_a_row_with_its_distortion_and_no_time_to_decode() {
    let folder = tempfile::tempdir().unwrap();
    let Some(site) = site(folder.path()) else {
        return;
    };
    let page = folder.path().join("page.html");
    let result = run_well(
        Command::new(FATHOMETER)
            .args(["content", "--avif", "--json", "--repeat", "2"])
            .args(["--jpeg-quality", "95", "--report"])
            .arg(&page)
            .arg(&site),
    );
    let result: Value = serde_json::from_slice(&result).unwrap();
    let name = "still images to AVIF (lossy)";
    let mut rows = result["treatments"].as_array().unwrap().iter();
    let row = rows.find(|row| row["treatment"] == name).unwrap();
    assert_eq!(row["images"], 2, "{row}");
    assert_eq!(row["encode_s"].as_array().unwrap().len(), 2, "{row}");
    assert_eq!(row["decode_s"].as_array().unwrap().len(), 0, "{row}");
    let similarity = row["distortion"]["ssim_least"].as_f64().unwrap();
    assert!(similarity > 0.85 && similarity < 1.0, "{row}");
    assert!(row["bytes"].as_u64() < result["bytes"].as_u64(), "{row}");
    let mut files = result["largest_savings"].as_array().unwrap().iter();
    let photograph = files.find(|file| {
        let path = file["path"].as_str().unwrap();
        path.ends_with("photograph.jpg")
    });
    assert_eq!(photograph.unwrap()["treatment"], name);

    let page = fs::read_to_string(page).unwrap();
    let (_, pair) = page.split_once("data:image/avif;base64,").unwrap();
    assert!(pair.contains(&format!("by {name}; SSIM 0.")));
    let table = |options: &[&str]| {
        let mut command = Command::new(FATHOMETER);
        command.args(["content", "--repeat", "1"]).args(options);
        String::from_utf8(run_well(command.arg(&site))).unwrap()
    };
    assert!(
        !table(&[]).contains(name),
        "AVIF is slow, so it must not be a default"
    );
    let table = table(&["--avif"]);
    let row = table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row.trim_end().ends_with('-'), "no time to decode: {row}");
}

/// Runs a real browser, which takes a second: only a browser proves that browsers show the files of the copy.
#[test]
fn a_browser_shows_the_avif_files_of_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let Some(site) = site(folder.path()) else {
        return;
    };
    let copy = folder.path().join("copy");
    let result = run_well(
        Command::new(FATHOMETER)
            .args(["content", "--json", "--treat", "avif", "--write"])
            .arg(&copy)
            .arg(&site),
    );
    let result: Value = serde_json::from_slice(&result).unwrap();
    assert_eq!(result["images_failed"], 0, "{result}");
    let renamed = result["images_renamed"].as_u64().unwrap();
    let page = fs::read_to_string(copy.join("index.html")).unwrap();
    assert_eq!(page.matches(".avif>").count() as u64, renamed, "{page}");
    assert!(page.contains("<img src=photograph.jpg.avif>"), "{page}");
    assert!(page.contains("<img src=animation.gif>"), "{page}");
    let before = fs::metadata(site.join("photograph.jpg")).unwrap().len();
    let after = fs::metadata(copy.join("photograph.jpg.avif"))
        .unwrap()
        .len();
    assert!(after < before, "{before} {after}");

    let Some(chromium) = tool("chromium") else {
        return;
    };
    let page = format!("file://{}", copy.join("index.html").display());
    let document = run_well(
        headless(&chromium, folder.path())
            .arg("--dump-dom")
            .arg(page),
    );
    let document = String::from_utf8(document).unwrap();
    assert!(
        document.contains("data-sizes=\"160x121 81x60 20x20\""),
        "{document}"
    );
}

//! Images that HTML and CSS could replace: Chromium shows the exact proposals like the images.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::content_write::screenshot;
use crate::support::programs::{FATHOMETER, run_well, tool};

/// The images of the page, by ImageMagick: their tags, and whether they can be replaced exactly.
const IMAGES: [(&str, &[&str], &str, Option<bool>); 6] = [
    (
        "rule.gif",
        &["-size", "300x2", "xc:#99a"],
        "<img src=rule.gif alt=rule>",
        Some(true),
    ),
    (
        "spacer.gif",
        &["-size", "1x1", "xc:none"],
        "<img src=spacer.gif width=40 height=30 border=0>",
        Some(true),
    ),
    (
        "flag.png",
        &[
            "-size", "60x10", "xc:black", "xc:#d00", "xc:#fc0", "-append",
        ],
        "<img src=flag.png alt='a &quot;flag&quot;'>",
        Some(true),
    ),
    (
        "bars.png",
        &[
            "-size",
            "7x20",
            "xc:#036",
            "xc:white",
            "xc:#808080",
            "+append",
        ],
        "<img src=bars.png>",
        Some(true),
    ),
    (
        "banner.gif",
        &[
            "-font",
            "DejaVu-Sans",
            "-background",
            "#fc0",
            "-fill",
            "white",
            "-pointsize",
            "24",
            "label:solutions",
            "-bordercolor",
            "#fc0",
            "-border",
            "20x6",
        ],
        "<img src=banner.gif alt=solutions>",
        Some(false),
    ),
    (
        "photo.png",
        &["-size", "60x40", "-seed", "3", "plasma:red-blue"],
        "<img src=photo.png>",
        None,
    ),
];

#[test]
fn exact_proposals_look_the_same_and_others_say_so() {
    let (Some(convert), Some(chromium)) = (tool("convert"), tool("chromium")) else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let folder = place.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    };
    let (before, after) = (folder("before"), folder("after"));
    let mut page = "<!DOCTYPE html>\n<p>".to_owned();
    for (name, arguments, tag, _) in IMAGES {
        let mut command = Command::new(&convert);
        command
            .args(arguments)
            .args(["-strip", "-depth", "8", "-define", "png:exclude-chunks=all"])
            .arg(before.join(name));
        run_well(&command);
        page.push_str(&format!("text {tag} text<br>\n"));
    }
    fs::write(before.join("index.html"), &page).unwrap();
    let report = place.path().join("report.html");
    let output = run_well(
        Command::new(FATHOMETER)
            .args(["content", "--json", "--repeat", "1", "--report"])
            .arg(&report)
            .arg(&before),
    );
    let result: Value = serde_json::from_slice(&output).unwrap();
    let report = fs::read_to_string(report).unwrap();
    for (name, _, tag, expected) in IMAGES {
        let file = before.join(name);
        let rows = result["replacements"].as_array().unwrap();
        let row = rows
            .iter()
            .find(|row| row["path"] == file.to_str().unwrap());
        assert_eq!(
            row.map(|row| row["exact"] == true),
            expected,
            "{name}: {row:?}"
        );
        let Some(row) = row else { continue };
        let html = row["html"].as_str().unwrap();
        assert_eq!(
            row["bytes"],
            fs::metadata(&file).unwrap().len() + tag.len() as u64
        );
        assert_eq!(row["replaced_bytes"], html.len());
        assert!(
            report.contains(&format!("<div class=\"sheet\">{html}</div>")),
            "{html}"
        );
        match expected {
            Some(true) => page = page.replace(tag, html),
            _ => {
                assert!(html.contains(">solutions</span>"), "{html}");
                let image = fs::read(&file).unwrap();
                fs::write(after.join(name), image).unwrap();
            }
        }
    }
    fs::copy(before.join("photo.png"), after.join("photo.png")).unwrap();
    fs::write(after.join("index.html"), &page).unwrap();
    let expected = screenshot(&chromium, &before);
    assert!(
        screenshot(&chromium, &after) == expected,
        "the pages differ"
    );
    // The test detects the smallest difference of a colour.
    fs::write(
        after.join("index.html"),
        page.replace("#fc0 20px", "#fc1 20px"),
    )
    .unwrap();
    assert!(screenshot(&chromium, &after) != expected);
}

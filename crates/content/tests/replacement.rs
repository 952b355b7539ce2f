//! Tests that text drawn by ImageMagick is recognised as text, and that images without text are not.
#![cfg(feature = "images")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the tests run other programs on files"
)]

use std::fs;
use std::process::Command;

use fathometer_content::image::{Format, Image, Limits, Replacement};

const LIMITS: Limits = Limits {
    pixels: 4_000_000,
    frames: 100,
};

/// Returns the replacement of the image that `convert` draws with these arguments; `None` if `convert` is not
/// installed.
fn replacement(arguments: &[&str], format: Format) -> Option<Option<Replacement>> {
    let folder = tempfile::tempdir().unwrap();
    let extension = match format {
        Format::Gif => "gif",
        _ => "png",
    };
    let file = folder.path().join("image").with_extension(extension);
    // The image has no colour chunks, because CSS cannot express them.
    let drawn = Command::new("convert")
        .args(arguments)
        .args(["-strip", "-depth", "8", "-define", "png:exclude-chunks=all"])
        .arg(&file)
        .output();
    if !drawn.is_ok_and(|output| output.status.success()) {
        let is_required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(!is_required, "ImageMagick with a font is required");
        eprintln!("skipped: ImageMagick cannot draw {arguments:?}");
        return None;
    }
    let content = fs::read(&file).unwrap();
    let image = Image::decode(format, &content, LIMITS).unwrap();
    assert!(!image.picture().has_other_colours);
    Some(Replacement::of(image.picture()))
}

/// Returns ImageMagick's arguments for a text of this size.
fn label<'a>(colors: [&'a str; 2], size: &'a str, text: &'a str) -> Vec<&'a str> {
    let [background, ink] = colors;
    vec![
        "-background",
        background,
        "-fill",
        ink,
        "-font",
        "DejaVu-Sans",
        "-pointsize",
        size,
        "-gravity",
        "center",
        "-bordercolor",
        background,
        text,
        "-border",
        "6x4",
    ]
}

#[test]
fn drawn_text_is_found_with_its_colors() {
    for (colors, size, text, expected) in [
        // The paper's banner.
        (
            ["#fc0", "white"],
            "20",
            "label:solutions",
            ["background:#fc0;", "color:#fff;"],
        ),
        (
            ["#000080", "#ffff00"],
            "14",
            "label:Download now",
            ["background:#000080;", "color:#ff0;"],
        ),
        (
            ["white", "black"],
            "12",
            "label:Two lines\nof small text",
            ["background:#fff;", "color:#000;"],
        ),
        // The letters touch each other.
        (
            ["white", "#008"],
            "10",
            "label:Download the\nfree browser",
            ["background:#fff;", "color:#008;"],
        ),
    ] {
        for format in [Format::Gif, Format::Png] {
            let Some(found) = replacement(&label(colors, size, text), format) else {
                return;
            };
            let found = found
                .unwrap_or_else(|| panic!("the text {text} in the {format} is not recognised"));
            assert!(!found.is_exact());
            let html = found.html(Some("a <b>"), [None; 2]).unwrap();
            for part in expected {
                assert!(html.contains(part), "{html}");
            }
            assert!(html.ends_with(">a &lt;b&gt;</span>"), "{html}");
        }
    }
}

#[test]
fn the_size_of_the_font_is_that_of_the_text() {
    let Some(found) = replacement(&label(["white", "black"], "32", "label:Size"), Format::Png)
    else {
        return;
    };
    let html = found.unwrap().html(Some("Size"), [None; 2]).unwrap();
    let (_, font) = html.split_once("font:").unwrap();
    let size = font
        .trim_start_matches("bold ")
        .split_once("px/")
        .unwrap()
        .0;
    // At ImageMagick's default resolution, a point is one pixel.
    let size: f64 = size.parse().unwrap();
    assert!((size - 32.0).abs() <= 3.0, "{html}");
}

#[test]
fn what_is_no_text_is_not_found() {
    let circle = [
        "-size",
        "80x60",
        "xc:white",
        "-fill",
        "black",
        "-draw",
        "circle 40,30 40,8",
    ];
    let frame = [
        "-size",
        "80x60",
        "xc:white",
        "-fill",
        "none",
        "-stroke",
        "black",
        "-draw",
        "rectangle 5,5 70,50",
    ];
    let plasma = ["-size", "80x60", "-seed", "7", "plasma:red-blue"];
    let gradient = ["-size", "80x60", "gradient:white-black"];
    let noise = [
        "-size", "80x20", "xc:white", "-seed", "7", "+noise", "Random",
    ];
    let bars = [
        "-size",
        "80x20",
        "xc:white",
        "-fill",
        "black",
        "-draw",
        "rectangle 10,4 14,15",
        "-draw",
        "rectangle 30,4 34,15",
        "-draw",
        "rectangle 50,4 54,15",
    ];
    for arguments in [&circle[..], &frame, &plasma, &gradient, &noise, &bars] {
        let Some(found) = replacement(arguments, Format::Png) else {
            return;
        };
        assert_eq!(found, None, "{arguments:?}");
    }
}

//! Pages of other commands that contain every part that may be wide: long names, wide tables, large images.

use fathometer_analysis::capacity_page::{self, CapacityReport, LoadPoint};
use fathometer_analysis::content_page::{
    self, ContentReport, FileSaving, ImageFile, ImagePair, Replaced, Treatment,
};

/// A path that is wider than the screen of a phone.
const LONG: &str = "a/folder/of/a/site/with/a/name/that/has/no/spaces/and-does-not-end/before-the-picture-of-the-page-0042";

/// Returns the page of a capacity search over three loads.
pub(super) fn capacity() -> String {
    let point = |load: f64, p99: f64, bad_share: f64| LoadPoint {
        load,
        latency_ms: Some([1.0, p99]),
        completed_per_s: Some(load),
        bad_share,
    };
    capacity_page::render(&CapacityReport {
        url: format!("http://server.example:8080/{LONG}"),
        facts: vec![("load".to_owned(), "open loop, Poisson arrivals".to_owned())],
        unit: "requests/s".to_owned(),
        answers: vec![(
            "p99<100ms: works at 12 000 requests/s, fails at 12 240".to_owned(),
            true,
        )],
        points: vec![
            point(100.0, 2.0, 0.0),
            point(12_000.0, 50.0, 0.004),
            point(12_240.0, 200.0, 0.2),
        ],
        ends: vec![
            (12_000.0, "p99<100ms works".to_owned()),
            (12_240.0, "p99<100ms fails".to_owned()),
        ],
        knee: Some(12_000.0),
    })
}

/// Returns the page of a site with treatments, files, images and a replacement.
pub(super) fn content() -> String {
    let picture = |width: u32| {
        ImageFile {
        media_type: "image/svg+xml",
        content: format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"200\"><rect width=\"{width}\" \
             height=\"200\" fill=\"teal\"/></svg>"
        )
        .into_bytes(),
    }
    };
    let treatment = |name: &str, saved_share: f64| Treatment {
        name: name.to_owned(),
        bytes: 123_456_789,
        saved_share,
        files_smaller: 1_234,
        encode: "1 234 ms, 1 200 to 1 300".to_owned(),
        decode: "12.3 ms, 12.0 to 12.9".to_owned(),
        distortion: Some("SSIM 0.998, at least 0.95".to_owned()),
    };
    content_page::render(&ContentReport {
        site: format!("/srv/{LONG}"),
        answers: vec!["The largest saving is 60.0 %.".to_owned()],
        facts: vec![("files".to_owned(), "1 234".to_owned())],
        treatments: vec![
            treatment("brotli 11 with a shared dictionary of the site", 0.6),
            treatment("gzip 6", 0.4),
        ],
        remark: "CPU times are of one core.".to_owned(),
        files: vec![FileSaving {
            path: format!("{LONG}.html"),
            bytes: 1_000_000,
            treated_bytes: 10_000,
            treatment: "brotli 11".to_owned(),
        }],
        images: vec![ImagePair {
            path: format!("{LONG}.gif"),
            original: picture(1_600),
            treated: picture(1_600),
            treatment: "GIF to WebP".to_owned(),
            distortion: "the same pixels".to_owned(),
        }],
        replaced: vec![Replaced {
            path: format!("{LONG}.gif"),
            file: picture(600),
            is_exact: false,
            has_text: true,
            tags: 2,
            bytes_before: 1_043,
            bytes_after: 40,
            html: "<i style=\"display:block;width:600px;height:20px\"></i>".to_owned(),
        }],
        notes: vec!["Fonts are not treated.".to_owned()],
        incomplete: Vec::new(),
    })
}

//! The Microscape page: the test site of H. F. Nielsen et al., "Network Performance Effects of
//! HTTP/1.1, CSS1, and PNG" (SIGCOMM '97).
//!
//! The paper merged two of the busiest home pages of its time into one HTML page of 42 KB with 42 images of
//! 125 KB. Those pages are protected works of others, so this site is synthetic. It matches what affects the
//! traffic: the number and the sizes of the files (`workloads/microscape_sizes.csv`), real GIF images that do
//! not compress further, and HTML that deflates as the original did. References are spread so that the first
//! segment of the plain page refers to a few images and the first segment of the deflated page to many.
//!
//! It does not contain the paper's converted content (PNG, MNG, style sheets).

mod manifest;
mod page;
mod picture;

use fathometer_model::{ContentCoding, File, FileId, Page, Seed, Site};

use crate::coding;

/// 24 June 1997, 12:00:00 GMT, in seconds since the Unix epoch: the date of every file.
const LAST_MODIFIED: u64 = 867_153_600;

/// The letter case of the page's mark-up.
#[expect(
    clippy::enum_variant_names,
    reason = "Variant::Lower would not say of what"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Variant {
    /// All element and attribute names in lower case, which compresses best.
    #[default]
    LowerCase,
    /// All of those names in upper case; nothing else differs.
    UpperCase,
    /// Each letter of those names in random case; nothing else differs.
    MixedCase,
}

impl Variant {
    /// The name of the site in this variant.
    pub const fn site_name(self) -> &'static str {
        match self {
            Variant::LowerCase => "microscape",
            Variant::UpperCase => "microscape-upper-case",
            Variant::MixedCase => "microscape-mixed-case",
        }
    }
}

/// The site: `/microscape.html` and its 42 images below `/images/`, as one page.
///
/// The HTML is stored plain, deflated and gzipped. Images are stored plain only, because their format is
/// already compressed. The same seed gives the same bytes on every machine.
pub fn site(seed: Seed, variant: Variant) -> Site {
    let seed = seed.stream("workload.microscape");
    let images = manifest::images();
    let pictures: Vec<picture::Picture> = images
        .iter()
        .map(|image| picture::of_size(seed.stream(image.name), image.kind, image.size))
        .collect();
    let embedded: Vec<page::Embedded<'_>> = images
        .iter()
        .zip(&pictures)
        .map(|(image, picture)| page::Embedded {
            name: image.name,
            picture,
        })
        .collect();
    let (html_name, html_size) = manifest::html();
    let html = page::html(seed.stream("html"), &embedded, html_size, variant);

    let mut files = vec![File {
        path: format!("/{html_name}"),
        content_type: "text/html".into(),
        encoded: [ContentCoding::Deflate, ContentCoding::Gzip]
            .map(|coding| (coding, coding::encode(coding, html.as_bytes()).into()))
            .into(),
        body: html.as_bytes().into(),
        last_modified: LAST_MODIFIED,
    }];
    // Files are in the order in which the document first refers to them, as in `Page::embedded`.
    let mut order: Vec<usize> = (0..images.len()).collect();
    order.sort_by_key(|&n| html.find(images[n].name));
    for n in order {
        files.push(File {
            path: format!("/{}{}", page::IMAGES, images[n].name),
            content_type: "image/gif".into(),
            body: pictures[n].gif[..].into(),
            encoded: Vec::new(),
            last_modified: LAST_MODIFIED,
        });
    }
    let embedded = (1..files.len() as u32).map(FileId).collect();
    Site {
        name: variant.site_name().to_owned(),
        files,
        pages: vec![Page {
            base: FileId(0),
            embedded,
            named_by: Vec::new(),
        }],
    }
}

#[cfg(test)]
mod tests;

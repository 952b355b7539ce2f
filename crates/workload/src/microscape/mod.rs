//! The Microscape page: the test site of H. F. Nielsen et al., "Network Performance Effects of
//! HTTP/1.1, CSS1, and PNG" (SIGCOMM '97).
//!
//! The paper merged two of the busiest home pages of its time into one HTML page of 42 KB with 42 images of 125 KB.
//! Those pages are protected by copyright, so this site is synthetic. It matches the properties that affect the
//! traffic: the number and the sizes of the files (`workloads/microscape_sizes.csv`), real GIF images that do not
//! compress further, and HTML that deflates like the original. References are spread over the page: the first segment
//! of the uncompressed page refers to a few images, and the first segment of the deflated page to many.
//!
//! The variants are the content changes of the paper: the case of tags, style sheets instead of images, PNG and MNG
//! instead of GIF.

mod changed;
mod manifest;
mod page;
mod picture;

use fathometer_model::{ContentCoding, File, FileId, Page, Seed, Site};

use crate::coding;
use crate::synthetic::Pngs;

/// 24 June 1997, 12:00:00 GMT, in seconds since the Unix epoch: the date of every file.
const LAST_MODIFIED: u64 = 867_153_600;

/// A variant of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Variant {
    /// The unchanged page. All element and attribute names are in lower case, which compresses best.
    #[default]
    LowerCase,
    /// All these names are in upper case; nothing else differs.
    UpperCase,
    /// Each letter of these names has random case; nothing else differs.
    MixedCase,
    /// 23 small images are replaced by HTML and CSS.
    StyleSheet,
    /// The images are PNG, the animations MNG.
    Png,
    /// 23 small images are replaced by HTML and CSS; the other images are PNG and MNG.
    StyleSheetAndPng,
}

impl Variant {
    /// Returns the name of the site in this variant.
    pub const fn site_name(self) -> &'static str {
        match self {
            Variant::LowerCase => "microscape",
            Variant::UpperCase => "microscape-upper-case",
            Variant::MixedCase => "microscape-mixed-case",
            Variant::StyleSheet => "microscape-css",
            Variant::Png => "microscape-png",
            Variant::StyleSheetAndPng => "microscape-css-png",
        }
    }

    fn has_style_sheet(self) -> bool {
        matches!(self, Variant::StyleSheet | Variant::StyleSheetAndPng)
    }

    fn has_png(self) -> bool {
        matches!(self, Variant::Png | Variant::StyleSheetAndPng)
    }
}

/// Returns the site: `/microscape.html` and its images (42, or 19 with a style sheet) below `/images/`, as one page.
///
/// The HTML is stored uncompressed, deflated and gzipped. Images are stored without a content coding, because their
/// format is already compressed. The same seed gives the same bytes on every machine.
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
    let mut html = page::html(seed.stream("html"), &embedded, html_size, variant);
    let is_replaced = |name: &str| {
        let image = images.iter().find(|image| image.name == name);
        image.is_some_and(|image| variant.has_style_sheet() && image.is_replaceable)
    };
    if variant.has_style_sheet() {
        html = changed::with_style_sheet(&html, is_replaced);
    }

    let mut files = Vec::new();
    // Files are in the order in which the document first refers to them, as in `Page::embedded`.
    let mut order: Vec<usize> = (0..images.len())
        .filter(|&n| !is_replaced(images[n].name))
        .collect();
    order.sort_by_key(|&n| html.find(images[n].name));
    let sizes = changed::sizes(&images);
    let pngs = variant.has_png().then(|| Pngs::new(seed.stream("png")));
    for n in order {
        let image = &images[n];
        let (ending, content_type, body) = match &pngs {
            None => (".gif", "image/gif", pictures[n].gif.clone()),
            Some(pngs) => {
                let body = changed::picture(pngs, n, image.kind, sizes[n]);
                match image.kind {
                    manifest::Kind::Static => (".png", "image/png", body),
                    manifest::Kind::Animated => (".mng", "video/x-mng", body),
                }
            }
        };
        let name = image.name.replace(".gif", ending);
        html = html.replace(image.name, &name);
        files.push(File {
            path: format!("/{}{name}", page::IMAGES),
            content_type: content_type.into(),
            body: body.into(),
            encoded: Vec::new(),
            last_modified: LAST_MODIFIED,
        });
    }
    files.insert(0, page_file(html_name, &html));
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

/// Creates the HTML file: uncompressed, deflated and gzipped.
fn page_file(name: &str, html: &str) -> File {
    File {
        path: format!("/{name}"),
        content_type: "text/html".into(),
        encoded: [ContentCoding::Deflate, ContentCoding::Gzip]
            .map(|coding| (coding, coding::encode(coding, html.as_bytes()).into()))
            .into(),
        body: html.as_bytes().into(),
        last_modified: LAST_MODIFIED,
    }
}

#[cfg(test)]
mod tests;

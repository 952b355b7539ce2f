//! The page of a content analysis: one HTML file without scripts, and without requests to the outside.
//!
//! The answers come first, then all treatments, then images before and after, each list with the largest saving
//! first. Images are `data:` URLs. They are untrusted: the browser decodes them like the images of any site.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fathometer_model::digits::grouped;
use maud::{Markup, PreEscaped, html};

use crate::page;

/// The content security policy: the page loads nothing, because styles and images are inline.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
const STYLE: &str = include_str!("content_page.css");

/// The bytes that treatments of a site save.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContentReport {
    /// The site: a folder, an archive or a list.
    pub site: String,
    /// The answers, one sentence each.
    pub answers: Vec<String>,
    /// The site's files and bytes, and the settings, as names and values.
    pub facts: Vec<(String, String)>,
    /// All treatments, with the largest saving first.
    pub treatments: Vec<Treatment>,
    /// An explanation of the CPU times.
    pub remark: String,
    /// The files with the largest savings.
    pub files: Vec<FileSaving>,
    /// Images before and after, with the largest saving first.
    pub images: Vec<ImagePair>,
    /// Images that HTML and CSS could replace, with the largest saving first.
    pub replaced: Vec<Replaced>,
    /// The exclusions from the result, each with the reason.
    pub notes: Vec<String>,
    /// The files that could not be read or treated; empty if the result is complete.
    pub incomplete: Vec<String>,
}

/// The effect of one treatment on the whole site.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Treatment {
    /// The name of the treatment.
    pub name: String,
    /// Bytes to transfer after the treatment.
    pub bytes: u64,
    /// The share of the site's bytes that the treatment saves, 0 to 1.
    pub saved_share: f64,
    /// The number of files that the treatment makes smaller.
    pub files_smaller: u64,
    /// CPU time to encode all files: median and spread, in words.
    pub encode: String,
    /// CPU time to decode all files: median and spread, in words.
    pub decode: String,
    /// The changes to the content, if the treatment is lossy.
    pub distortion: Option<String>,
}

/// A file and the treatment that makes it smallest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileSaving {
    /// Its path or URL.
    pub path: String,
    /// Bytes of the original file.
    pub bytes: u64,
    /// Bytes after the treatment.
    pub treated_bytes: u64,
    /// The treatment.
    pub treatment: String,
}

/// An image and its smallest treated file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImagePair {
    /// Its path or URL.
    pub path: String,
    /// The original file.
    pub original: ImageFile,
    /// The treated file.
    pub treated: ImageFile,
    /// The treatment.
    pub treatment: String,
    /// `the same pixels`, or the SSIM.
    pub distortion: String,
}

/// The file of an image.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImageFile {
    /// Its media type, as in `image/png`.
    pub media_type: &'static str,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// An image that HTML and CSS could replace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replaced {
    /// Its path or URL.
    pub path: String,
    /// The original file.
    pub file: ImageFile,
    /// Whether the replacement shows the same pixels; otherwise its fonts differ from the fonts in the image.
    pub is_exact: bool,
    /// Whether the text comes from the site's pages; otherwise the reader must write it.
    pub has_text: bool,
    /// The number of tags that show the image.
    pub tags: u64,
    /// Bytes of the image and of all tags that show it.
    pub bytes_before: u64,
    /// Bytes of the HTML and CSS that replace all these tags.
    pub bytes_after: u64,
    /// The HTML and CSS that replace one tag. The page shows it unescaped, so it must not contain markup of the site.
    pub html: String,
}

impl Replaced {
    /// Bytes that the replacement adds; negative if the replacement saves bytes.
    pub fn added_bytes(&self) -> i64 {
        self.bytes_after.cast_signed() - self.bytes_before.cast_signed()
    }
}

/// Returns the whole page.
pub fn render(report: &ContentReport) -> String {
    let body = html! {
        header {
            p.kicker { "Content" }
            h1 { (report.site) }
            p.lead.answer { @for answer in &report.answers { (answer) " " } }
            @for what in &report.incomplete {
                p { span.badge.reversed { "incomplete" } " " (what) }
            }
            dl.facts {
                @for (name, value) in &report.facts { dt { (name) } dd { (value) } }
            }
        }
        main {
            section {
                h2 { "Savings by treatment" }
                (treatments(report))
                p.remark { (report.remark) }
            }
            @if !report.files.is_empty() {
                section {
                    h2 { "The largest savings" }
                    (files(report))
                }
            }
            @if !report.images.is_empty() {
                section {
                    h2 { "Images before and after" }
                    p.remark { "Left: the file of the site. Right: the smallest treated file. Both have their natural size." }
                    @for pair in &report.images { (image_pair(pair)) }
                }
            }
            @if !report.replaced.is_empty() {
                section {
                    h2 { "Images that HTML and CSS could replace" }
                    p.remark {
                        "These are proposals; they are not applied. "
                        "Left: the image. Right: the HTML and CSS as this browser "
                        "shows them. Bytes are counted before content coding; each image that is replaced saves one request."
                    }
                    @for replaced in &report.replaced { (replacement(replaced)) }
                }
            }
            @if !report.notes.is_empty() {
                section {
                    h2 { "Notes" }
                    ul { @for note in &report.notes { li { (note) } } }
                }
            }
        }
        footer {
            "Made by fathometer " (env!("CARGO_PKG_VERSION")) ". "
            code { "fathometer content --json" } " has the same figures for programs."
        }
    };
    let title = format!("Content of {}", report.site);
    page::page_with(&title, POLICY, STYLE, &body).into_string()
}

fn treatments(report: &ContentReport) -> Markup {
    html! {
        div.table {
            table.content {
                thead {
                    tr {
                        th scope="col" { "treatment" }
                        th scope="col" colspan="2" { "saved" }
                        th.number scope="col" { "bytes" }
                        th.number scope="col" { "files smaller" }
                        th.number scope="col" { "encode, ms CPU" }
                        th.number scope="col" { "decode, ms CPU" }
                    }
                }
                tbody {
                    @for row in &report.treatments {
                        tr {
                            th scope="row" {
                                (row.name)
                                @if let Some(distortion) = &row.distortion { small { (distortion) } }
                            }
                            td.bar { (bar(row.saved_share)) }
                            td.number { (percent(row.saved_share)) }
                            td.number { (grouped(row.bytes)) }
                            td.number { (grouped(row.files_smaller)) }
                            td.number { (row.encode) }
                            td.number { (row.decode) }
                        }
                    }
                }
            }
        }
    }
}

/// A bar for a share of the width. A treatment that adds bytes has no bar; a dictionary may add bytes.
fn bar(share: f64) -> Markup {
    let percent = 100.0 * share.clamp(0.0, 1.0);
    html! { i style=(format!("width: {percent:.1}%")) {} }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn files(report: &ContentReport) -> Markup {
    html! {
        div.table {
            table.content {
                thead {
                    tr {
                        th scope="col" { "file" }
                        th.number scope="col" { "bytes" }
                        th.number scope="col" { "treated" }
                        th.number scope="col" { "saved" }
                        th scope="col" { "by" }
                    }
                }
                tbody {
                    @for file in &report.files {
                        tr {
                            th scope="row" { (file.path) }
                            td.number { (grouped(file.bytes)) }
                            td.number { (grouped(file.treated_bytes)) }
                            td.number { (percent(saved(file.bytes, file.treated_bytes))) }
                            td { (file.treatment) }
                        }
                    }
                }
            }
        }
    }
}

fn saved(before: u64, after: u64) -> f64 {
    match before {
        0 => 0.0,
        _ => 1.0 - after as f64 / before as f64,
    }
}

fn image_pair(pair: &ImagePair) -> Markup {
    let bytes = |file: &ImageFile| file.content.len() as u64;
    let saved = percent(saved(bytes(&pair.original), bytes(&pair.treated)));
    html! {
        article.pair {
            h3 { (pair.path) }
            div.sides {
                figure {
                    (picture(&pair.original, &format!("{} as it is", pair.path)))
                    figcaption { (kind(&pair.original)) ", " (grouped(bytes(&pair.original))) " bytes" }
                }
                figure {
                    (picture(&pair.treated, &format!("{} after {}", pair.path, pair.treatment)))
                    figcaption {
                        (kind(&pair.treated)) ", " (grouped(bytes(&pair.treated))) " bytes, " (saved) " fewer, by "
                        (pair.treatment) "; " (pair.distortion)
                    }
                }
            }
        }
    }
}

fn replacement(replaced: &Replaced) -> Markup {
    let (class, word) = match replaced.is_exact {
        true => ("holds", "the same pixels"),
        false => ("weaker", "looks different"),
    };
    let tags = match replaced.tags {
        1 => "1 tag".to_owned(),
        tags => format!("{} tags", grouped(tags)),
    };
    let added = replaced.added_bytes();
    let change = match added {
        ..0 => format!("{} bytes fewer", grouped(added.unsigned_abs())),
        _ => format!("{} bytes more", grouped(added)),
    };
    html! {
        article.pair {
            h3 { (replaced.path) " " span.badge.(class) { (word) } }
            div.sides {
                figure {
                    (picture(&replaced.file, &format!("{} as it is", replaced.path)))
                    figcaption {
                        (kind(&replaced.file)) ", " (grouped(replaced.bytes_before)) " bytes with " (tags)
                    }
                }
                figure {
                    div.sheet { (PreEscaped(&replaced.html)) }
                    figcaption {
                        "HTML and CSS, " (grouped(replaced.bytes_after)) " bytes for " (tags) ": " (change)
                        ", 1 request fewer"
                        @if !replaced.has_text { "; no page has an alt text for the image: write the text in place of TEXT" }
                    }
                }
            }
            pre { (replaced.html) }
        }
    }
}

fn kind(file: &ImageFile) -> String {
    let name = file.media_type.rsplit('/').next().unwrap_or_default();
    match name {
        "webp" => "WebP".to_owned(),
        _ => name.to_ascii_uppercase(),
    }
}

fn picture(file: &ImageFile, alt: &str) -> Markup {
    let source = format!(
        "data:{};base64,{}",
        file.media_type,
        BASE64_STANDARD.encode(&file.content)
    );
    html! {
        div.sheet { img src=(source) alt=(alt); }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> ContentReport {
        ContentReport {
            site: "a <site>".to_owned(),
            answers: vec!["The largest saving is 60.0 %.".to_owned()],
            treatments: vec![
                Treatment {
                    name: "brotli 11".to_owned(),
                    saved_share: 0.6,
                    ..Treatment::default()
                },
                Treatment {
                    name: "with a dictionary".to_owned(),
                    saved_share: -0.1,
                    ..Treatment::default()
                },
            ],
            images: vec![ImagePair {
                path: "\"><script>".to_owned(),
                original: ImageFile {
                    media_type: "image/gif",
                    content: b"foobar".to_vec(),
                },
                treated: ImageFile {
                    media_type: "image/webp",
                    content: b"foo".to_vec(),
                },
                treatment: "GIF to WebP".to_owned(),
                distortion: "the same pixels".to_owned(),
            }],
            replaced: vec![Replaced {
                path: "dot.gif".to_owned(),
                file: ImageFile {
                    media_type: "image/gif",
                    content: b"foo".to_vec(),
                },
                is_exact: true,
                has_text: true,
                tags: 2,
                bytes_before: 1043,
                bytes_after: 40,
                html: "<i style=\"width:1px\"></i>".to_owned(),
            }],
            incomplete: vec!["1 file could not be read".to_owned()],
            ..ContentReport::default()
        }
    }

    #[test]
    fn the_answer_is_first_and_images_stand_side_by_side() {
        let page = render(&report());
        let mut before = 0;
        for place in [
            "a &lt;site&gt;</h1>",
            "The largest saving is 60.0 %.",
            "incomplete",
            "width: 60.0%",
            "width: 0.0%",
            "-10.0 %",
            "data:image/gif;base64,Zm9vYmFy",
            "GIF, 6 bytes",
            "data:image/webp;base64,Zm9v",
            "WebP, 3 bytes, 50.0 % fewer, by GIF to WebP; the same pixels",
            "the same pixels</span>",
            "GIF, 1 043 bytes with 2 tags",
            "<div class=\"sheet\"><i style=\"width:1px\"></i></div>",
            "40 bytes for 2 tags: 1 003 bytes fewer, 1 request fewer",
            "<pre>&lt;i style=",
        ] {
            let at = page[before..]
                .find(place)
                .unwrap_or_else(|| panic!("{place} is missing or too early"));
            before += at;
        }
        assert!(!page.contains("<script"));
    }

    #[test]
    fn the_page_requests_nothing() {
        let page = render(&report());
        assert!(page.contains("default-src 'none'"));
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("url("));
    }

    #[test]
    fn a_site_without_a_treatment_has_a_page() {
        assert!(render(&ContentReport::default()).contains("Content"));
    }
}

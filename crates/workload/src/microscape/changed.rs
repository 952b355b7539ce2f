//! The paper's changes of content (section 8.3): images replaced by style sheets, GIF by PNG, animations by MNG.
//!
//! The paper gives the total size of the 40 static images as PNG (92 096 bytes) and of the two animations as MNG (16
//! 329 bytes), and states that 23 of the static images can be replaced. The W3C's list of replacements accompanies the
//! paper. According to it, the HTML and CSS for these images take 3208 bytes, and GIFs below 200 bytes grow by 10.5 %
//! as PNG (ten files, from 1042 to 1151 bytes). All other images are assumed to shrink by the same share.

use std::fmt::Write;

use super::manifest::{Image, Kind};
use crate::synthetic::{Pngs, mng};

/// Bytes of the static images as PNG.
const STATIC_AS_PNG: usize = 92_096;
/// Bytes of the animations as MNG.
const ANIMATED_AS_MNG: usize = 16_329;
/// Bytes of the HTML and CSS for the replaced images.
pub(super) const STYLED: usize = 3208;
/// The size in bytes below which GIFs grow when converted to PNG, by [`SMALL_GROWTH`] thousandths.
const SMALL: usize = 200;
const SMALL_GROWTH: usize = 105;
/// The number of frames of an animation.
const FRAMES: usize = 5;

/// Computes the size of each image as PNG or MNG. The sums match the totals exactly.
pub(super) fn sizes(images: &[Image]) -> Vec<usize> {
    let is_small = |image: &Image| image.kind == Kind::Static && image.size < SMALL;
    let grown = |image: &Image| image.size + (image.size * SMALL_GROWTH).div_ceil(1000);
    let small: usize = images
        .iter()
        .filter(|image| is_small(image))
        .map(grown)
        .sum();
    let mut large = Share::new(STATIC_AS_PNG - small, images, |image| {
        image.kind == Kind::Static && !is_small(image)
    });
    let mut animated = Share::new(ANIMATED_AS_MNG, images, |image| {
        image.kind == Kind::Animated
    });
    images
        .iter()
        .map(|image| match image.kind {
            Kind::Animated => animated.of(image.size),
            Kind::Static if is_small(image) => grown(image),
            Kind::Static => large.of(image.size),
        })
        .collect()
}

/// Divides a total in proportion to sizes. The rounding error of each part is carried over to the next part.
struct Share {
    total: usize,
    of: usize,
    seen: usize,
}

impl Share {
    fn new(total: usize, images: &[Image], counts: impl Fn(&Image) -> bool) -> Share {
        let counted = images.iter().filter(|image| counts(image));
        Share {
            total,
            of: counted.map(|image| image.size).sum(),
            seen: 0,
        }
    }

    fn of(&mut self, size: usize) -> usize {
        let before = self.total * self.seen / self.of;
        self.seen += size;
        self.total * self.seen / self.of - before
    }
}

/// Generates image number `number` as PNG, or as MNG of five frames, with exactly `size` bytes.
pub(super) fn picture(pngs: &Pngs, number: usize, kind: Kind, size: usize) -> Vec<u8> {
    let png = |frame: usize, size: usize| {
        let body = pngs.make((number * FRAMES + frame) as u64, size as u64);
        body.bytes().into_owned()
    };
    match kind {
        Kind::Static => png(0, size),
        Kind::Animated => mng(FRAMES, size, png),
    }
}

/// Replaces each image that `is_replaced` accepts by styled text. The style sheet and the new tags take [`STYLED`]
/// bytes.
pub(super) fn with_style_sheet(html: &str, is_replaced: impl Fn(&str) -> bool) -> String {
    let mut body = String::with_capacity(html.len());
    let mut classes: Vec<&str> = Vec::new();
    let mut styled = 0;
    let mut rest = html;
    while let Some(start) = rest.find("<img src=\"") {
        let tag = &rest[start..=start + rest[start..].find('>').expect("tags end")];
        let mut quoted = tag.split('"').skip(1).step_by(2);
        let name = quoted.next().and_then(|path| path.rsplit('/').next());
        let name = name.expect("images have a path");
        body.push_str(&rest[..start]);
        rest = &rest[start + tag.len()..];
        if !is_replaced(name) {
            body.push_str(tag);
            continue;
        }
        let class = classes.iter().position(|known| *known == name);
        let class = class.unwrap_or_else(|| {
            classes.push(name);
            classes.len() - 1
        });
        let words = match quoted.last() {
            Some("") | None => "&middot;",
            Some(words) => words,
        };
        let from = body.len();
        let _ = write!(body, "<b class=i{class}>{words}</b>");
        styled += body.len() - from;
    }
    body.push_str(rest);
    let sheet = style_sheet(classes.len(), STYLED - styled);
    body.replacen("</head>\n", &format!("{sheet}</head>\n"), 1)
}

/// Generates a style sheet of exactly `size` bytes with a rule for each class. A rule sets the same properties as the
/// paper's example: colour, background, font and padding.
fn style_sheet(classes: usize, size: usize) -> String {
    const GROUNDS: [&str; 4] = ["#fc0", "#036", "#ffc", "#fff"];
    const FONTS: [&str; 3] = [
        "bold oblique 20px sans-serif",
        "bold 12px sans-serif",
        "10px serif",
    ];
    let (start, end) = ("<style type=\"text/css\"><!--\n", "--></style>\n");
    let mut sheet = start.to_owned();
    for class in 0..classes {
        let _ = writeln!(
            sheet,
            ".i{class} {{ color: {}; background: {}; font: {}; padding: 0.{}em }}",
            GROUNDS[(class + 2) % 4],
            GROUNDS[class % 4],
            FONTS[class % 3],
            class % 9 + 1,
        );
    }
    // Spaces in a CSS comment fill the remaining bytes.
    let used = sheet.len() + end.len() + "/**/\n".len();
    let padding = size.checked_sub(used).expect("the rules leave room");
    let _ = writeln!(sheet, "/*{}*/", " ".repeat(padding));
    sheet + end
}

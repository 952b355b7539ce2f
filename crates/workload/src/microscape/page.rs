//! The HTML of the Microscape page: two portals in the style of 1997, the second below the first, with a layout of
//! nested tables, `font` elements and small images.
//!
//! The proportions of mark-up and text are chosen so that the page compresses like the paper's page: to about
//! 0.27 of its size with lower-case tags, and to about 0.35 with mixed-case tags.

use std::fmt::Write;

use fathometer_model::Seed;

use super::Variant;
use super::picture::Picture;
use crate::content::{Draws, English};

/// The folder of the images, relative to the page.
pub(super) const IMAGES: &str = "images/";

/// An image that the page embeds.
pub(super) struct Embedded<'a> {
    /// The file name of the image.
    pub name: &'a str,
    /// The picture, for its dimensions.
    pub picture: &'a Picture,
}

/// The order in which the images first appear in each portal, as indexes into the manifest's table: logo,
/// advertisement, the row of buttons, then the images in the body.
const PORTALS: [Portal; 2] = [
    Portal {
        title: "Microscape Home",
        logo: 30,
        advertisement: 40,
        buttons: &[10, 11, 12, 13, 14, 15, 8],
        bullets: &[1, 0],
        pictures: &[31, 39, 20, 26, 35, 22],
        badges: &[23, 4, 24, 6],
    },
    Portal {
        title: "Microscape Start Page",
        logo: 33,
        advertisement: 41,
        buttons: &[16, 9, 17, 18, 19, 21],
        bullets: &[2, 3],
        pictures: &[27, 38, 29, 34, 32, 37, 36],
        badges: &[5, 28, 7, 25],
    },
];

/// One of the two merged pages.
struct Portal {
    title: &'static str,
    logo: usize,
    advertisement: usize,
    buttons: &'static [usize],
    bullets: &'static [usize],
    pictures: &'static [usize],
    badges: &'static [usize],
}

/// The end of the document.
const END: &str = "</font></td>\n</tr>\n</table>\n</center>\n</body>\n</html>\n";

const FONT: &str = "<font size=2>";
const SMALL: &str = "<font size=1>";

/// Generates the page, with exactly `size` bytes.
pub(super) fn html(seed: Seed, images: &[Embedded<'_>], size: usize, variant: Variant) -> String {
    let mut builder = Builder {
        html: String::with_capacity(size),
        english: English::new(seed.stream("english")),
        draws: Draws::new(seed.stream("layout")),
        images,
    };
    builder.head();
    builder.portal(&PORTALS[0], size / 2);
    builder.portal(&PORTALS[1], size - 700);
    builder.closing(size);
    match variant {
        Variant::LowerCase | Variant::StyleSheet | Variant::Png | Variant::StyleSheetAndPng => {
            builder.html
        }
        Variant::UpperCase => with_names(&builder.html, |letter| letter.to_ascii_uppercase()),
        Variant::MixedCase => mixed_case(seed.stream("case"), &builder.html),
    }
}

struct Builder<'a> {
    html: String,
    english: English,
    draws: Draws,
    images: &'a [Embedded<'a>],
}

impl Builder<'_> {
    fn head(&mut self) {
        self.html.push_str(
            "<!doctype html public \"-//w3c//dtd html 3.2//en\">\n\
             <html>\n\
             <head>\n\
             <title>Microscape</title>\n\
             <meta name=\"keywords\" content=\"software, servers, browsers, networks, news\">\n\
             <meta name=\"description\" content=\"Two busy front doors of the network on one page: \
             everything there is to read, to try and to download this week, with pictures.\">\n\
             <meta name=\"rating\" content=\"General\">\n\
             <base target=\"_top\">\n\
             </head>\n\
             <!-- The links of this page lead nowhere: it exists to be measured. -->\n\
             <body bgcolor=\"#ffffff\" text=\"#000000\" link=\"#0000cc\" vlink=\"#663399\" \
             alink=\"#ff0000\">\n\
             <center>\n",
        );
    }

    /// Writes a complete portal. Headlines are added until the document has `until` bytes.
    fn portal(&mut self, portal: &Portal, until: usize) {
        let title = portal.title;
        self.html.push_str(
            "<table border=0 cellpadding=0 cellspacing=0 width=620>\n<tr>\n\
             <td valign=top align=left>",
        );
        self.linked_image("/home/index.html", portal.logo, title);
        self.html.push_str("</td>\n<td valign=top align=right>");
        self.linked_image("/ads/click.cgi", portal.advertisement, "advertisement");
        self.html.push_str("</td>\n</tr>\n</table>\n");
        self.buttons(portal);
        self.html
            .push_str("<table border=0 cellpadding=4 cellspacing=0 width=620>\n<tr>\n");
        self.index(portal);
        self.headlines(portal, until);
        self.badges(portal);
        self.html.push_str("</tr>\n</table>\n");
    }

    /// Writes the row of buttons below the logo: words as images, as was common in 1997.
    fn buttons(&mut self, portal: &Portal) {
        const WORDS: [&str; 7] = [
            "products",
            "solutions",
            "download",
            "support",
            "search",
            "news",
            "company",
        ];
        self.html
            .push_str("<table border=0 cellpadding=0 cellspacing=0>\n<tr>\n");
        for (&image, word) in portal.buttons.iter().zip(WORDS) {
            self.html.push_str("<td>");
            self.linked_image(&format!("/{word}/index.html"), image, word);
            self.html.push_str("</td>\n");
        }
        self.html.push_str("</tr>\n</table>\n");
    }

    /// Writes the left column: sections of links, each with a bullet.
    fn index(&mut self, portal: &Portal) {
        self.html
            .push_str("<td valign=top width=150 bgcolor=\"#ffffcc\">\n");
        for section in 0..4 {
            self.image(portal.bullets[section % portal.bullets.len()], "");
            let heading = self.english.label();
            let _ = write!(self.html, "{FONT}<b>{heading}</b></font>\n<ul>\n{SMALL}");
            for _ in 0..6 {
                let (path, label) = (self.path(), self.english.label());
                let _ = writeln!(self.html, "<li><b><a href=\"{path}\">{label}</a></b>");
            }
            self.html.push_str("</font>\n</ul>\n<hr size=1 noshade>\n");
        }
        self.html.push_str("</td>\n");
    }

    /// Writes the middle column: a table of stories, some with a picture.
    fn headlines(&mut self, portal: &Portal, until: usize) {
        // Reserve bytes for the part after this column: the badges and the ends of the tables.
        let until = until - 300 * portal.badges.len();
        let from = self.html.len();
        self.html.push_str(
            "<td valign=top width=330>\n\
             <table border=0 cellpadding=2 cellspacing=0 width=330>\n",
        );
        let mut shown = 0;
        while self.html.len() < until {
            // The pictures are evenly spaced in the column.
            let due = from + (until - from) * shown / portal.pictures.len();
            let picture = portal
                .pictures
                .get(shown)
                .filter(|_| self.html.len() >= due);
            let path = self.path();
            let headline = self.english.headline();
            if let Some(&picture) = picture {
                shown += 1;
                self.html.push_str("<tr>\n<td align=center>");
                self.linked_image(&path, picture, &headline);
                self.html.push_str("</td>\n<td>");
            } else {
                self.html.push_str("<tr valign=top>\n<td colspan=2>");
            }
            let _ = writeln!(
                self.html,
                "{FONT}<a href=\"{path}\"><b>{headline}</b></a></font><br>"
            );
            self.html.push_str(SMALL);
            for _ in 0..1 + self.draws.below(2) {
                let sentence = self.english.sentence();
                let _ = writeln!(self.html, "{sentence}");
            }
            if self.draws.one_in(2) {
                let (path, label) = (self.path(), self.english.label());
                let _ = writeln!(self.html, "<i><a href=\"{path}\">{label}</a></i>");
            }
            self.html.push_str("</font></td>\n</tr>\n");
        }
        self.html.push_str("</table>\n</td>\n");
    }

    /// Writes the right column: downloads, each with a badge.
    fn badges(&mut self, portal: &Portal) {
        self.html
            .push_str("<td valign=top align=center width=140>\n");
        for &badge in portal.badges {
            let (path, label) = (self.path(), self.english.label());
            self.linked_image(&path, badge, &label);
            let _ = writeln!(
                self.html,
                "<br>\n{SMALL}<a href=\"{path}\">{label}</a></font><p>"
            );
        }
        self.html.push_str("</td>\n");
    }

    /// Writes the small print, which fills the document up to `size` bytes.
    fn closing(&mut self, size: usize) {
        let _ = write!(
            self.html,
            "<table border=0 cellpadding=4 cellspacing=0 width=620>\n<tr>\n\
             <td align=center>{SMALL}"
        );
        let left = size - self.html.len() - END.len();
        self.html.push_str(&self.english.exactly(left));
        self.html.push_str(END);
    }

    fn linked_image(&mut self, path: &str, image: usize, alt: &str) {
        let _ = write!(self.html, "<a href=\"{path}\">");
        self.image(image, alt);
        self.html.push_str("</a>");
    }

    fn image(&mut self, image: usize, alt: &str) {
        let Embedded { name, picture } = self.images[image];
        let _ = write!(
            self.html,
            "<img src=\"{IMAGES}{name}\" width={} height={} border=0 alt=\"{alt}\">",
            picture.width, picture.height
        );
    }

    /// Returns a local path in the style of content-management systems of 1997: a date, a number, words.
    fn path(&mut self) -> String {
        const FOLDERS: [&str; 6] = ["products", "news", "download", "support", "misc", "company"];
        let folder = self.draws.pick(&FOLDERS);
        let slug = self.english.slug();
        match self.draws.below(5) {
            0 => format!("/{folder}/{slug}.html"),
            1 => format!(
                "/{folder}/97{:02}{:02}/{:04}.html",
                1 + self.draws.below(6),
                1 + self.draws.below(28),
                self.draws.below(10_000)
            ),
            _ => format!("/cgi-bin/go?{slug}={:016x}", self.draws.below(usize::MAX)),
        }
    }
}

/// Changes the case of each letter of every tag name and attribute name at random. Values and text are unchanged.
///
/// The paper does not describe its mixed case. Random case of whole names accounts for about half of the measured
/// effect (0.31 here, 0.35 in the paper). Random case of each letter accounts for all of it.
fn mixed_case(seed: Seed, html: &str) -> String {
    let mut draws = Draws::new(seed);
    with_names(html, |letter| {
        if letter.is_ascii_lowercase() && draws.one_in(2) {
            letter.to_ascii_uppercase()
        } else {
            letter
        }
    })
}

/// Applies `change` to every letter of the names of elements and attributes.
fn with_names(html: &str, mut change: impl FnMut(char) -> char) -> String {
    #[derive(Clone, Copy, PartialEq)]
    enum Place {
        Text,
        Name,
        BareValue,
        QuotedValue,
    }
    let mut place = Place::Text;
    html.chars()
        .map(|letter| {
            place = match (place, letter) {
                (Place::Text, '<') => Place::Name,
                (Place::Name | Place::BareValue, '>') => Place::Text,
                (Place::Name, '=') => Place::BareValue,
                (Place::BareValue, ' ' | '\n') => Place::Name,
                (Place::Name | Place::BareValue, '"') => Place::QuotedValue,
                (Place::QuotedValue, '"') => Place::Name,
                (place, _) => place,
            };
            match place {
                Place::Name => change(letter),
                _ => letter,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_case_of_names_changes_and_nothing_else() {
        let html = "<td align=center bgcolor=\"#ffffcc\" nowrap><a href=\"/a=b c\">text = text</a>";
        let mixed = mixed_case(Seed(4), html);
        assert_eq!(mixed.to_ascii_lowercase(), html);
        for kept in ["=center ", "=\"#ffffcc\" ", "=\"/a=b c\">text = text</"] {
            assert!(mixed.contains(kept), "{mixed}");
        }
        let upper = mixed.chars().filter(char::is_ascii_uppercase).count();
        assert!(upper > 5, "{mixed}");
        assert_eq!(
            with_names(html, |letter| letter.to_ascii_uppercase()),
            "<TD ALIGN=center BGCOLOR=\"#ffffcc\" NOWRAP><A HREF=\"/a=b c\">text = text</A>"
        );
    }
}

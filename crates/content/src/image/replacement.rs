//! Images that HTML and CSS can replace. The replacement is exact for one or a few bands of colour. It is a proposal
//! for images that look like text on a flat background.
//!
//! nielsen97 replaces a banner of 682 bytes by about 150 bytes of HTML and CSS, and also saves a request. The words in
//! an image cannot be read from its pixels; a proposal for text uses the `alt` attribute of the page.

mod text;

use std::fmt::Write as _;

use super::Picture;
pub use text::TextShape;

/// The maximum number of bands of colour: with more bands, CSS is not simpler than the image.
const MOST_BANDS: usize = 8;

/// The replacement of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Bands of one colour each; one band is a flat image. The pixels are the same if a browser draws one CSS pixel as
    /// one screen pixel.
    Bands {
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
        /// Whether the bands are side by side; otherwise each band is below the previous one.
        beside: bool,
        /// The bands, from left to right or from top to bottom.
        bands: Vec<Band>,
    },
    /// Text. The replacement looks different, because it uses another font.
    Text(TextShape),
}

/// A band of one colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Red, green, blue and alpha.
    pub color: [u8; 4],
    /// The width of a vertical band, or the height of a horizontal band, in pixels.
    pub pixels: u32,
}

impl Replacement {
    /// Finds the replacement of an image. `None` for most images: animations, photographs, drawings, images that their
    /// metadata may rotate, and images whose colours differ from CSS (because of a profile or a gamma value).
    pub fn of(picture: &Picture) -> Option<Replacement> {
        let has_own_meaning =
            picture.icc.is_some() || picture.has_other_colours || picture.exif.is_some();
        if picture.is_animated() || has_own_meaning {
            return None;
        }
        bands(picture, false)
            .or_else(|| bands(picture, true))
            .or_else(|| TextShape::of(picture).map(Replacement::Text))
    }

    /// Returns whether all pixels are preserved.
    pub fn is_exact(&self) -> bool {
        matches!(self, Replacement::Bands { .. })
    }

    /// Returns the element that replaces `<img>`, with its style: inline, with the size of the image, and with the
    /// lower edge on the baseline. `alt` is the source of the `alt` attribute, with its character references. Markup in
    /// the attribute is escaped.
    ///
    /// `shown` is the size in the tag. Only a flat image may be scaled; `None` for other scaled images.
    pub fn html(&self, alt: Option<&str>, shown: [Option<u32>; 2]) -> Option<String> {
        let [width, height] = self.size_of(shown)?;
        let alt = alt.map(str::trim).filter(|alt| !alt.is_empty());
        Some(match self {
            Replacement::Bands { beside, bands, .. } => {
                let label = match alt {
                    Some(alt) => format!(" role=img aria-label=\"{}\"", escaped(alt)),
                    None => String::new(),
                };
                let background = background(bands, *beside);
                format!(
                    "<i{label} style=\"display:inline-block;width:{width}px;height:{height}px{background}\"></i>"
                )
            }
            Replacement::Text(shape) => shape.html(&escaped(alt.unwrap_or("TEXT"))),
        })
    }

    /// Returns the size at which a tag with these attributes shows the image. If only one attribute is given, the other
    /// value is in proportion (HTML, section 15.4.3).
    fn size_of(&self, shown: [Option<u32>; 2]) -> Option<[u32; 2]> {
        let own @ [width, height] = match self {
            Replacement::Bands { width, height, .. } => [*width, *height],
            Replacement::Text(shape) => shape.size(),
        };
        let in_proportion = |of: u32, given: u32, to: u32| {
            let product = u64::from(of) * u64::from(given);
            let is_whole = product.is_multiple_of(u64::from(to));
            is_whole.then(|| u32::try_from(product / u64::from(to)).ok())?
        };
        let size = match shown {
            [None, None] => own,
            [Some(width), Some(height)] => [width, height],
            [Some(given), None] => [given, in_proportion(height, given, width)?],
            [None, Some(given)] => [in_proportion(width, given, height)?, given],
        };
        let is_flat = matches!(self, Replacement::Bands { bands, .. } if bands.len() == 1);
        (is_flat || size == own).then_some(size)
    }
}

/// Converts the pixels to bands, if each row (or each column, with `beside`) has one colour.
fn bands(picture: &Picture, beside: bool) -> Option<Replacement> {
    let pixels = picture.pixels();
    let (width, height) = (picture.width as usize, picture.height as usize);
    let (lines, length) = match beside {
        false => (height, width),
        true => (width, height),
    };
    let at = |line: usize, place: usize| match beside {
        false => visible(pixels[line * width + place]),
        true => visible(pixels[place * width + line]),
    };
    let mut bands: Vec<Band> = Vec::new();
    for line in 0..lines {
        let color = at(line, 0);
        if (1..length).any(|place| at(line, place) != color) {
            return None;
        }
        if let Some(band) = bands.last_mut()
            && band.color == color
        {
            band.pixels += 1;
        } else if bands.len() == MOST_BANDS {
            return None;
        } else {
            bands.push(Band { color, pixels: 1 });
        }
    }
    Some(Replacement::Bands {
        width: picture.width,
        height: picture.height,
        beside,
        bands,
    })
}

/// Returns the visible colour of a pixel. The colour of a transparent pixel is not visible.
fn visible(pixel: [u8; 4]) -> [u8; 4] {
    match pixel[3] {
        0 => [0; 4],
        _ => pixel,
    }
}

/// Returns the declaration of the background; empty for a transparent image.
fn background(bands: &[Band], beside: bool) -> String {
    match bands {
        [Band { color: [.., 0], .. }] => String::new(),
        [band] => format!(";background:{}", css_color(band.color)),
        bands => {
            let mut stops = String::new();
            let mut from = 0;
            for band in bands {
                let to = from + band.pixels;
                let color = css_color(band.color);
                let separator = if from == 0 { "" } else { "," };
                let unit = if from == 0 { "" } else { "px" };
                let _ = write!(stops, "{separator}{color} {from}{unit} {to}px");
                from = to;
            }
            let direction = if beside { "90deg," } else { "" };
            format!(";background:linear-gradient({direction}{stops})")
        }
    }
}

/// Returns the shortest hexadecimal notation of a CSS colour (CSS Color 4, section 5.2).
fn css_color([red, green, blue, alpha]: [u8; 4]) -> String {
    if alpha == 0 {
        return "#0000".to_owned();
    }
    let mut channels = vec![red, green, blue];
    if alpha != 255 {
        channels.push(alpha);
    }
    let is_short = channels.iter().all(|channel| channel % 17 == 0);
    channels
        .iter()
        .fold("#".to_owned(), |color, channel| match is_short {
            true => format!("{color}{:x}", channel % 16),
            false => format!("{color}{channel:02x}"),
        })
}

/// Escapes the text of an attribute, which may contain character references, for use as text and in an attribute with
/// double quotes.
fn escaped(source: &str) -> String {
    source
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Frame;

    pub(super) fn picture(width: u32, height: u32, color: impl Fn(u32, u32) -> [u8; 4]) -> Picture {
        let rows = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        Picture {
            width,
            height,
            frames: vec![Frame {
                rgba: rows.flat_map(|(x, y)| color(x, y)).collect(),
                delay: (0, 1),
            }],
            plays: 0,
            icc: None,
            exif: None,
            has_other_colours: false,
        }
    }

    const RED: [u8; 4] = [255, 0, 0, 255];
    const GREY: [u8; 4] = [0x80, 0x80, 0x80, 255];

    fn html(picture: &Picture) -> Option<String> {
        Replacement::of(picture)?.html(None, [None; 2])
    }

    #[test]
    fn flat_images_and_bands_are_replaced_exactly() {
        for (picture, expected) in [
            (
                picture(3, 2, |_, _| RED),
                "width:3px;height:2px;background:#f00",
            ),
            (
                picture(1, 9, |_, _| GREY),
                "width:1px;height:9px;background:#808080",
            ),
            // A spacer: transparent pixels of any colours.
            (
                picture(5, 5, |x, _| [x as u8, 0, 0, 0]),
                "width:5px;height:5px",
            ),
            (
                picture(2, 2, |_, _| [0, 0, 0, 0x88]),
                "width:2px;height:2px;background:#0008",
            ),
            (
                picture(4, 3, |_, y| if y == 1 { GREY } else { RED }),
                "width:4px;height:3px;background:linear-gradient(#f00 0 1px,#808080 1px 2px,#f00 2px 3px)",
            ),
            (
                picture(4, 3, |x, _| if x < 3 { RED } else { [0; 4] }),
                "width:4px;height:3px;background:linear-gradient(90deg,#f00 0 3px,#0000 3px 4px)",
            ),
        ] {
            let expected = format!("<i style=\"display:inline-block;{expected}\"></i>");
            assert_eq!(html(&picture), Some(expected));
        }
    }

    #[test]
    fn what_css_cannot_show_the_same_is_left() {
        assert_eq!(
            html(&picture(4, 4, |x, y| [x as u8, y as u8, 0, 255])),
            None
        );
        assert_eq!(html(&picture(4, 9, |_, y| [y as u8, 0, 0, 255])), None);
        let mut flat = picture(3, 2, |_, _| RED);
        flat.has_other_colours = true;
        assert_eq!(html(&flat), None);
        flat.has_other_colours = false;
        flat.frames.push(flat.frames[0].clone());
        assert_eq!(html(&flat), None);
    }

    #[test]
    fn only_a_flat_image_is_shown_in_another_size() {
        let spacer = Replacement::of(&picture(2, 1, |_, _| RED)).unwrap();
        for (shown, expected) in [
            ([Some(30), Some(5)], Some("width:30px;height:5px;")),
            ([Some(30), None], Some("width:30px;height:15px;")),
            ([None, Some(5)], Some("width:10px;height:5px;")),
            // The proportional height would be half a pixel.
            ([Some(3), None], None),
        ] {
            let html = spacer.html(None, shown);
            assert_eq!(html.is_some(), expected.is_some(), "{shown:?}");
            assert!(
                html.unwrap_or_default()
                    .contains(expected.unwrap_or_default())
            );
        }
        let bands = Replacement::of(&picture(2, 2, |_, y| [y as u8, 0, 0, 255])).unwrap();
        assert!(bands.html(None, [Some(2), Some(2)]).is_some());
        assert!(bands.html(None, [Some(2), Some(4)]).is_none());
    }

    #[test]
    fn the_text_of_a_page_cannot_add_markup() {
        let flat = Replacement::of(&picture(1, 1, |_, _| RED)).unwrap();
        let html = flat.html(Some("\"><script>&amp;"), [None; 2]).unwrap();
        assert!(
            html.starts_with("<i role=img aria-label=\"&quot;&gt;&lt;script&gt;&amp;\" style=")
        );
        assert_eq!(html.matches('<').count(), 2);
    }
}

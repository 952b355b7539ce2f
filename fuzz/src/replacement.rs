//! Drawings made of a fuzzer's input, and an interpreter of the styles that replace them.

use fathometer_content::image::{Frame, Picture};

/// Bands of colour above which an image is not replaced.
const MOST_BANDS: usize = 8;

/// An image, and how a page shows it.
pub struct Drawing<'a> {
    /// The image.
    pub picture: Picture,
    /// Whether CSS cannot show it: an animation, or colours with another meaning.
    pub has_own_meaning: bool,
    /// Width and height of the tag.
    pub shown: [Option<u32>; 2],
    /// The source of `alt`.
    pub alt: Option<&'a str>,
}

impl<'a> Drawing<'a> {
    /// Reads flags, size, shown size, four colours, a text with its length, and runs of pixels. A run has the colour in
    /// two bits and its length in six; the last run fills the image.
    pub fn new(input: &'a [u8]) -> Option<Drawing<'a>> {
        let (&[flags, width, height, shown_width, shown_height], rest) =
            input.split_first_chunk::<5>()?;
        let (palette, rest) = rest.split_first_chunk::<16>()?;
        let (&length, rest) = rest.split_first()?;
        let (alt, runs) = rest.split_at_checked(usize::from(length))?;
        let is_set = |bit: u8| flags >> bit & 1 == 1;
        let (width, height) = (u32::from(width).max(1), u32::from(height).max(1));
        let pixels = (width * height) as usize;
        let rgba = rgba(palette, runs, pixels);
        let frame = Frame {
            rgba,
            delay: (0, 1),
        };
        let given = |bit, pixels: u8| is_set(bit).then_some(u32::from(pixels));
        Some(Drawing {
            picture: Picture {
                width,
                height,
                frames: vec![frame; 1 + usize::from(is_set(0))],
                plays: 0,
                icc: is_set(1).then(Vec::new),
                exif: is_set(2).then(Vec::new),
                has_other_colours: is_set(3),
            },
            has_own_meaning: flags & 15 != 0,
            shown: [given(4, shown_width), given(5, shown_height)],
            alt: std::str::from_utf8(alt).ok().filter(|_| is_set(6)),
        })
    }
}

fn rgba(palette: &[u8; 16], runs: &[u8], pixels: usize) -> Vec<u8> {
    let mut rgba = Vec::with_capacity(4 * pixels);
    let color = |run: u8| &palette[usize::from(run >> 6) * 4..][..4];
    for &run in runs {
        for _ in 0..=(run & 63) {
            rgba.extend_from_slice(color(run));
        }
        if rgba.len() >= 4 * pixels {
            break;
        }
    }
    let last = runs.last().copied().unwrap_or(0);
    while rgba.len() < 4 * pixels {
        rgba.extend_from_slice(color(last));
    }
    rgba.truncate(4 * pixels);
    rgba
}

/// The pixels as they look: all transparent ones are the same.
pub fn visible_pixels(picture: &Picture) -> Vec<[u8; 4]> {
    let (pixels, _) = picture.frames[0].rgba.as_chunks::<4>();
    let visible = |pixel: &[u8; 4]| if pixel[3] == 0 { [0; 4] } else { *pixel };
    pixels.iter().map(visible).collect()
}

/// The image with rows and columns exchanged.
pub fn transposed(picture: &Picture) -> Picture {
    let (pixels, _) = picture.frames[0].rgba.as_chunks::<4>();
    let (width, height) = (picture.width as usize, picture.height as usize);
    let rgba = (0..width)
        .flat_map(|x| (0..height).flat_map(move |y| pixels[y * width + x]))
        .collect();
    Picture {
        width: picture.height,
        height: picture.width,
        frames: vec![Frame {
            rgba,
            delay: (0, 1),
        }],
        ..picture.clone()
    }
}

/// Whether the rows, or the columns, are at most eight bands of one colour each.
pub fn few_bands(picture: &Picture) -> bool {
    let is_banded = |picture: &Picture| {
        let pixels = visible_pixels(picture);
        let rows: Vec<&[[u8; 4]]> = pixels.chunks(picture.width as usize).collect();
        let bands = rows.chunk_by(|a, b| a[0] == b[0]).count();
        bands <= MOST_BANDS && rows.iter().all(|row| row.iter().all(|&p| p == row[0]))
    };
    is_banded(picture) || is_banded(&transposed(picture))
}

/// What the style of a replacement says.
pub struct Style {
    /// Width and height in pixels.
    pub size: [u32; 2],
    /// The size of the letters in pixels, if there is a font.
    pub font_px: Option<u32>,
    background: Background,
}

enum Background {
    Flat([u8; 4]),
    /// Whether the bands are beside each other; their colours and ends.
    Bands(bool, Vec<([u8; 4], u32)>),
}

impl Style {
    /// Reads an element: one with one attribute `style`, whose text and label have no markup.
    pub fn parse(html: &str) -> Result<Style, &'static str> {
        let count = |sign| html.matches(sign).count();
        if count('<') != 2 || count('>') != 2 {
            return Err("more than one element");
        }
        let (tag, _) = html.split_once('>').ok_or("no tag")?;
        let is_of = |name: &str| {
            tag.starts_with(&format!("<{name} ")) && html.ends_with(&format!("</{name}>"))
        };
        if !is_of("i") && !is_of("span") {
            return Err("an element that is neither <i> nor <span>");
        }
        let mut quoted = tag.split('"');
        let mut style = None;
        while let Some(name) = quoted.next() {
            let Some(value) = quoted.next() else { break };
            match name.rsplit(' ').next() {
                Some("style=") if style.is_none() => style = Some(value),
                Some("aria-label=") => {}
                _ => return Err("another attribute"),
            }
        }
        Style::of(style.ok_or("no style")?)
    }

    fn of(declarations: &str) -> Result<Style, &'static str> {
        let (mut size, mut font_px) = ([None; 2], None);
        let mut background = Background::Flat([0; 4]);
        for declaration in declarations.split(';') {
            let (name, value) = declaration.split_once(':').ok_or("no declaration")?;
            match name {
                "width" => size[0] = Some(pixels(value)?),
                "height" => size[1] = Some(pixels(value)?),
                "background" => background = Background::parse(value)?,
                "color" => drop(color(value)?),
                "font" => font_px = Some(font(value)?),
                "display" | "overflow" | "text-align" => {}
                _ => return Err("an unknown declaration"),
            }
        }
        match size {
            [Some(width), Some(height)] => Ok(Style {
                size: [width, height],
                font_px,
                background,
            }),
            _ => Err("no size"),
        }
    }

    /// The pixels that a browser draws.
    pub fn pixels(&self) -> Vec<[u8; 4]> {
        let [width, height] = self.size;
        let at = |x: u32, y: u32| match &self.background {
            Background::Flat(color) => *color,
            Background::Bands(beside, bands) => {
                let place = if *beside { x } else { y };
                let band = bands.iter().find(|(_, end)| place < *end);
                band.or(bands.last()).map_or([0; 4], |(color, _)| *color)
            }
        };
        (0..height)
            .flat_map(|y| (0..width).map(move |x| at(x, y)))
            .collect()
    }
}

impl Background {
    /// A colour, or a gradient without transitions (CSS Images 3, section 3.1).
    fn parse(value: &str) -> Result<Background, &'static str> {
        let Some(stops) = value.strip_prefix("linear-gradient(") else {
            return Ok(Background::Flat(color(value)?));
        };
        let stops = stops.strip_suffix(')').ok_or("an open gradient")?;
        let (beside, stops) = match stops.strip_prefix("90deg,") {
            Some(stops) => (true, stops),
            None => (false, stops),
        };
        let (mut bands, mut reached) = (Vec::new(), 0);
        for stop in stops.split(',') {
            let mut words = stop.split(' ');
            let band = color(words.next().ok_or("no colour")?)?;
            let from = pixels(words.next().ok_or("no start")?)?;
            let to = pixels(words.next().ok_or("no end")?)?;
            if from != reached || to <= from || words.next().is_some() {
                return Err("bands that do not follow each other");
            }
            bands.push((band, to));
            reached = to;
        }
        Ok(Background::Bands(beside, bands))
    }
}

fn pixels(text: &str) -> Result<u32, &'static str> {
    // A length of zero needs no unit.
    let number = text.strip_suffix("px").or((text == "0").then_some("0"));
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or("a length that is not in pixels")
}

/// The size of `bold 12px/20px sans-serif`.
fn font(value: &str) -> Result<u32, &'static str> {
    let value = value.strip_prefix("bold ").unwrap_or(value);
    let (size, rest) = value.split_once('/').ok_or("no height of lines")?;
    let (line, family) = rest.split_once(' ').ok_or("no family")?;
    if pixels(line)? == 0 || family != "sans-serif" {
        return Err("another font");
    }
    pixels(size)
}

/// A hexadecimal colour (CSS Color 4, section 5.2).
fn color(text: &str) -> Result<[u8; 4], &'static str> {
    let digits = text.strip_prefix('#').ok_or("no colour")?;
    let values: Option<Vec<u8>> = digits
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
        .collect();
    let values = values.ok_or("no hexadecimal colour")?;
    let mut channels: Vec<u8> = match values.len() {
        3 | 4 => values.iter().map(|value| value * 17).collect(),
        6 | 8 => values.chunks(2).map(|two| two[0] << 4 | two[1]).collect(),
        _ => return Err("a colour of another length"),
    };
    if channels.len() == 3 {
        channels.push(255);
    }
    channels
        .try_into()
        .map_err(|_| "a colour of another length")
}

//! Reads the dimensions of an image from its first bytes. The layout of a page needs only the dimensions.

/// Width and height in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dimensions {
    /// Pixels in a row.
    pub width: u32,
    /// The number of rows; 0 for a JPEG that gives its height after its first scan.
    pub height: u32,
}

/// Reads a GIF, PNG or JPEG until its dimensions are known, in pieces of any size.
#[derive(Debug, Clone, Default)]
pub struct Sizer {
    state: State,
    /// The bytes of the signature, or of a JPEG's frame header.
    buffer: [u8; 24],
    length: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// The format is not certain yet, or it is GIF or PNG.
    #[default]
    Signature,
    /// Before the 0xFF of a JPEG marker.
    MarkerStart,
    Marker,
    /// Before the length of a segment; `frame`: the segment is a frame header.
    Length {
        frame: bool,
    },
    Skip(u16),
    /// Within a frame header: precision, height, width.
    Frame,
    Known(Dimensions),
    /// The format is not supported, or the file is broken.
    Unknown,
}

impl Sizer {
    /// Creates a reader at the start of a file.
    pub fn new() -> Sizer {
        Sizer::default()
    }

    /// The dimensions; `None` until they are known.
    pub fn dimensions(&self) -> Option<Dimensions> {
        match self.state {
            State::Known(dimensions) => Some(dimensions),
            _ => None,
        }
    }

    /// Reads the next bytes of the file and returns the dimensions once they are known.
    pub fn push(&mut self, bytes: &[u8]) -> Option<Dimensions> {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            self.state = match self.state {
                State::Known(_) | State::Unknown => break,
                State::Skip(count) => {
                    // Skips this byte and the available following bytes, at most `count` in total.
                    let more = usize::from(count - 1).min(rest.len());
                    rest = &rest[more..];
                    match count - 1 - more as u16 {
                        0 => State::MarkerStart,
                        left => State::Skip(left),
                    }
                }
                state => self.step(state, byte),
            };
        }
        self.dimensions()
    }

    fn step(&mut self, state: State, byte: u8) -> State {
        match state {
            State::Signature => {
                self.keep(byte);
                signature(&self.buffer[..self.length])
            }
            State::MarkerStart if byte == 0xff => State::Marker,
            State::MarkerStart => State::Unknown,
            State::Marker => {
                self.length = 0;
                match byte {
                    // Fill bytes, and markers without a segment.
                    0xff => State::Marker,
                    0x01 | 0xd0..=0xd8 => State::MarkerStart,
                    // Start of frame, for any coding process.
                    0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                        State::Length { frame: true }
                    }
                    // The scan or the end of the image comes before any frame.
                    0x00 | 0xd9 | 0xda => State::Unknown,
                    _ => State::Length { frame: false },
                }
            }
            State::Length { frame } => {
                self.keep(byte);
                let &[high, low] = &self.buffer[..self.length] else {
                    return state;
                };
                self.length = 0;
                // The length counts its own two bytes.
                match (u16::from_be_bytes([high, low]), frame) {
                    (0 | 1, _) => State::Unknown,
                    (2, false) => State::MarkerStart,
                    (length, false) => State::Skip(length - 2),
                    (_, true) => State::Frame,
                }
            }
            State::Frame => {
                self.keep(byte);
                match self.buffer[..self.length] {
                    [_precision, h, i, w, x] => State::Known(Dimensions {
                        width: u32::from(u16::from_be_bytes([w, x])),
                        height: u32::from(u16::from_be_bytes([h, i])),
                    }),
                    _ => State::Frame,
                }
            }
            State::Skip(_) | State::Known(_) | State::Unknown => state,
        }
    }

    fn keep(&mut self, byte: u8) {
        self.buffer[self.length] = byte;
        self.length += 1;
    }
}

/// Identifies the format by the first bytes of a file; at most 24 are needed.
fn signature(bytes: &[u8]) -> State {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const JPEG: &[u8] = b"\xff\xd8";
    let agrees = |start: &[u8]| {
        let length = start.len().min(bytes.len());
        start[..length] == bytes[..length]
    };
    if agrees(b"GIF87a") || agrees(b"GIF89a") {
        let [_, _, _, _, _, _, w, x, h, i] = *bytes else {
            return State::Signature;
        };
        return State::Known(Dimensions {
            width: u32::from(u16::from_le_bytes([w, x])),
            height: u32::from(u16::from_le_bytes([h, i])),
        });
    }
    if agrees(PNG) {
        let number = |at: usize| {
            let four = bytes.get(at..at + 4)?;
            four.try_into().ok().map(u32::from_be_bytes)
        };
        return match (number(16), number(20)) {
            (Some(width), Some(height)) => State::Known(Dimensions { width, height }),
            _ => State::Signature,
        };
    }
    match agrees(JPEG) {
        true if bytes.len() >= JPEG.len() => State::MarkerStart,
        true => State::Signature,
        false => State::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIF: &[u8] = b"GIF89a\x0a\x01\x14\x00\xf0";
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x0a\0\0\0\x14\x08";
    const JPEG: &[u8] =
        b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xff\xdb\0\x02\
        \xff\x01\xff\xc2\x00\x11\x08\x00\x14\x01\x0a\x03";
    const EXPECTED: Option<Dimensions> = Some(Dimensions {
        width: 266,
        height: 20,
    });

    #[test]
    fn dimensions_are_found_as_soon_as_their_bytes_arrive() {
        for (image, needed) in [(GIF, 10), (PNG, 24), (JPEG, JPEG.len() - 1)] {
            assert_eq!(Sizer::new().push(&image[..needed]), EXPECTED);
            assert_eq!(Sizer::new().push(&image[..needed - 1]), None);
        }
    }

    #[test]
    fn data_that_is_not_an_image_has_no_dimensions() {
        for file in [
            &b"<html>"[..],
            b"GIF90a\x0a\x01\x14\0",
            b"\xff\xd8\xff\xda\0\x02",
            b"\xff\xd8\xff\xe0\0\x01",
        ] {
            let mut sizer = Sizer::new();
            assert_eq!(sizer.push(file), None);
            assert_eq!(sizer.push(GIF), None);
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_dimensions(cut in 0usize..50, which in 0usize..3) {
            let image = [GIF, PNG, JPEG][which];
            let (before, after) = image.split_at(cut.min(image.len()));
            let mut sizer = Sizer::new();
            sizer.push(before);
            prop_assert_eq!(sizer.push(after), EXPECTED);
        }
    }
}

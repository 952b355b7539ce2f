//! Encodes still images as AVIF.

#[cfg(feature = "avif")]
use super::Frame;
#[cfg(feature = "avif")]
use super::encode::failed;
use super::{ImageError, Picture, exif};

/// The maximum number of pixels of an image to encode. The encoder needs three to five seconds of CPU time per million
/// pixels.
const MOST_PIXELS: u64 = 4_000_000;

/// Encodes the first frame as a lossy AVIF. Also returns the pixels that decoders show.
#[cfg(feature = "avif")]
pub(super) fn avif(picture: &Picture) -> Result<(Vec<u8>, Picture), ImageError> {
    check(picture)?;
    let (width, height) = (picture.width, picture.height);
    let still = fathometer_avif::Picture {
        width,
        height,
        rgba: &picture.frames[0].rgba,
        icc: picture.icc.as_deref(),
        exif: picture.exif.as_deref(),
    };
    let encoded = still.encode().map_err(|error| match error {
        fathometer_avif::Error::Profile => ImageError::NotApplicable(
            "its ICC profile is not for RGB (or, for a grey picture, not for grey)",
        ),
        error => failed(error),
    })?;
    let shown = Picture {
        width,
        height,
        frames: vec![Frame {
            rgba: encoded.rgba,
            delay: (0, 1),
        }],
        plays: 0,
        icc: picture.icc.clone(),
        exif: picture.exif.clone(),
        has_other_colours: false,
    };
    Ok((encoded.file, shown))
}

/// Refuses images with properties that AVIF cannot store, and images that would need too much time.
fn check(picture: &Picture) -> Result<(), ImageError> {
    let why = if picture.has_other_colours {
        "it states its colour space without an ICC profile"
    } else if picture.exif.as_deref().is_some_and(exif::turns) {
        "its EXIF metadata rotates it, which browsers ignore in AVIF"
    } else if picture.width.max(picture.height) > u32::from(u16::MAX) {
        "AVIF has at most 65535 pixels in a row or column"
    } else if u64::from(picture.width) * u64::from(picture.height) > MOST_PIXELS {
        "it has more than 4 million pixels, which take too long to encode"
    } else {
        return Ok(());
    };
    Err(ImageError::NotApplicable(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: u32, height: u32) -> Picture {
        Picture {
            width,
            height,
            frames: Vec::new(),
            plays: 0,
            icc: None,
            exif: None,
            has_other_colours: false,
        }
    }

    #[test]
    fn what_the_file_cannot_state_or_takes_too_long_is_left_as_it_is() {
        for size in [(1, 1), (65535, 1), (1, 65535), (2000, 2000)] {
            check(&picture(size.0, size.1)).unwrap();
        }
        let exif = |orientation| Some(exif::tests::tiff(orientation));
        for refused in [
            picture(65536, 1),
            picture(1, 65536),
            picture(2000, 2001),
            Picture {
                has_other_colours: true,
                ..picture(1, 1)
            },
            Picture {
                exif: exif(6),
                ..picture(1, 1)
            },
        ] {
            let result = check(&refused);
            assert!(
                matches!(result, Err(ImageError::NotApplicable(_))),
                "{refused:?}"
            );
        }
        let upright = Picture {
            exif: exif(1),
            ..picture(1, 1)
        };
        check(&upright).unwrap();
    }
}

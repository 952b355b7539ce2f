//! Tests that lossless treatments preserve every pixel, that malformed files are errors, and that limits are enforced.

use super::*;

const LIMITS: Limits = Limits {
    pixels: 1_000_000,
    frames: 50,
};

/// Returns a pseudo-random number.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number ^ (number >> 29)
}

/// Creates a GIF of 40 x 30 pixels. Its frames have all disposal methods, different positions, and 8 colours, one of
/// them transparent.
fn gif(frames: u64) -> Vec<u8> {
    let palette: Vec<u8> = (0..24).map(|byte| mixed(byte) as u8).collect();
    let mut coded = Vec::new();
    let mut encoder = gif::Encoder::new(&mut coded, 40, 30, &palette).unwrap();
    if frames > 1 {
        encoder.set_repeat(gif::Repeat::Finite(3)).unwrap();
    }
    for number in 0..frames {
        let (width, height) = match number {
            0 => (40, 30),
            _ => (7 + number as u16, 5),
        };
        let disposals = [
            gif::DisposalMethod::Keep,
            gif::DisposalMethod::Background,
            gif::DisposalMethod::Previous,
        ];
        let pixels = (0..u64::from(width) * u64::from(height)).map(|at| match at % 40 {
            ..20 => 3,
            _ => (mixed(at * 7 + number) % 8) as u8,
        });
        let frame = gif::Frame {
            delay: 5 + number as u16,
            dispose: disposals[number as usize % 3],
            transparent: Some(2),
            left: number as u16,
            top: 2 * number as u16,
            width,
            height,
            buffer: pixels.collect::<Vec<_>>().into(),
            ..gif::Frame::default()
        };
        encoder.write_frame(&frame).unwrap();
    }
    drop(encoder);
    coded
}

/// Creates a PNG of 8-bit samples, with a text chunk.
fn png(color: png::ColorType, change: impl Fn(&mut png::Encoder<'_, &mut Vec<u8>>)) -> Vec<u8> {
    png_with(color, 1, change)
}

/// Creates a PNG like [`png`], with samples of one or two bytes.
fn png_with(
    color: png::ColorType,
    bytes_a_sample: u64,
    change: impl Fn(&mut png::Encoder<'_, &mut Vec<u8>>),
) -> Vec<u8> {
    let mut coded = Vec::new();
    let mut encoder = png::Encoder::new(&mut coded, 33, 21);
    encoder.set_color(color);
    let text = "a comment that no browser shows".to_owned();
    encoder.add_text_chunk("Comment".to_owned(), text).unwrap();
    change(&mut encoder);
    let mut writer = encoder.write_header().unwrap();
    let bytes = 33 * 21 * color.samples() as u64 * bytes_a_sample;
    let samples: Vec<u8> = (0..bytes).map(|at| mixed(at / 9) as u8).collect();
    writer.write_image_data(&samples).unwrap();
    writer.finish().unwrap();
    coded
}

/// Creates a JPEG of 90 x 70 pixels with a gradient and noise.
fn jpeg() -> Vec<u8> {
    let mut coded = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut coded, 97);
    encoder.add_icc_profile(b"a profile").unwrap();
    let pixels: Vec<u8> = (0..90 * 70_u64)
        .flat_map(|at| [at % 90 * 2, at / 90 * 3, mixed(at) % 60].map(|sample| sample as u8))
        .collect();
    encoder
        .encode(&pixels, 90, 70, jpeg_encoder::ColorType::Rgb)
        .unwrap();
    coded
}

const TREATMENTS: [ImageTreatment; 5] = [
    ImageTreatment::GifToPng,
    ImageTreatment::GifToApng,
    ImageTreatment::OptimisePng,
    ImageTreatment::ToWebp,
    ImageTreatment::Jpeg(75),
];

/// Applies every applicable treatment. Returns their names, sizes and distortions.
fn treat(content: &[u8]) -> Vec<(ImageTreatment, usize, Option<f64>)> {
    let format = Format::of(content).unwrap();
    let image = Image::decode(format, content, LIMITS).unwrap();
    TREATMENTS
        .into_iter()
        .filter(|treatment| treatment.applies_to(&image))
        .map(|treatment| {
            let treated = treatment.encode(&image).unwrap();
            assert_eq!(Format::of(&treated.file), Some(treatment.format()));
            let decoded = treatment.decode(&image, &treated).unwrap();
            let distortion = treatment.distortion(&image, &decoded).unwrap();
            (treatment, treated.file.len(), distortion)
        })
        .collect()
}

#[test]
fn lossless_treatments_keep_every_pixel_and_save_bytes() {
    let still = gif(1);
    let made = treat(&still);
    let names: Vec<_> = made.iter().map(|row| row.0).collect();
    assert_eq!(names, [ImageTreatment::GifToPng, ImageTreatment::ToWebp]);
    assert!(made[0].1 < still.len(), "{made:?} of {}", still.len());

    let animated = gif(9);
    let made = treat(&animated);
    assert_eq!(made.len(), 1);
    assert_eq!(made[0].0, ImageTreatment::GifToApng);
    let apng = {
        let image = Image::decode(Format::Gif, &animated, LIMITS).unwrap();
        assert_eq!(image.picture().frames.len(), 9);
        assert_eq!(image.picture().plays, 4);
        ImageTreatment::GifToApng.encode(&image).unwrap().file
    };
    // An APNG is also an image to treat, and is optimised with its frames.
    assert_eq!(treat(&apng)[0].0, ImageTreatment::OptimisePng);

    for color in [png::ColorType::Rgb, png::ColorType::Rgba] {
        let plain = png(color, |_| {});
        let made = treat(&plain);
        assert_eq!(made.len(), 2);
        assert!(made[0].1 < plain.len());
    }
    let grey = png(png::ColorType::GrayscaleAlpha, |_| {});
    assert_eq!(treat(&grey).len(), 2);
}

#[test]
fn a_changed_pixel_time_or_number_of_plays_is_found() {
    let animated = gif(4);
    let image = Image::decode(Format::Gif, &animated, LIMITS).unwrap();
    let same = image.picture().clone();
    let treatment = ImageTreatment::GifToApng;
    treatment.distortion(&image, &same).unwrap();
    let changes: [fn(&mut Picture); 4] = [
        |picture| picture.frames[3].rgba[17] ^= 1,
        |picture| picture.frames[2].delay.0 += 1,
        |picture| picture.plays = 0,
        |picture| drop(picture.frames.pop()),
    ];
    for change in changes {
        let mut changed = image.picture().clone();
        change(&mut changed);
        let refused = treatment.distortion(&image, &changed);
        assert!(
            matches!(refused, Err(ImageError::Changed(_))),
            "{refused:?}"
        );
    }
}

#[test]
fn what_a_format_cannot_keep_is_not_treated() {
    let deep = png_with(png::ColorType::Rgb, 2, |encoder| {
        encoder.set_depth(png::BitDepth::Sixteen);
    });
    let refused = Image::decode(Format::Png, &deep, LIMITS);
    assert!(
        matches!(refused, Err(ImageError::NotApplicable(_))),
        "{refused:?}"
    );

    let gamma = png(png::ColorType::Rgb, |encoder| {
        encoder.set_source_gamma(png::ScaledFloat::new(1.0));
    });
    let image = Image::decode(Format::Png, &gamma, LIMITS).unwrap();
    let refused = ImageTreatment::ToWebp.encode(&image);
    assert!(
        matches!(refused, Err(ImageError::NotApplicable(_))),
        "{refused:?}"
    );
    let optimised = ImageTreatment::OptimisePng.encode(&image).unwrap();
    let finds = |name: &[u8]| optimised.file.windows(4).any(|window| window == name);
    assert!(finds(b"gAMA") && !finds(b"tEXt"));
}

#[test]
fn a_jpeg_states_its_distortion_and_keeps_its_profile() {
    let source = jpeg();
    let image = Image::decode(Format::Jpeg, &source, LIMITS).unwrap();
    let mut last = 1.0;
    for quality in [90, 60, 20] {
        let treated = ImageTreatment::Jpeg(quality).encode(&image).unwrap();
        let decoded = ImageTreatment::Jpeg(quality)
            .decode(&image, &treated)
            .unwrap();
        assert_eq!(decoded.icc.as_deref(), Some(b"a profile".as_slice()));
        let similarity = ssim(image.picture(), &decoded).unwrap();
        assert!(
            similarity < last && similarity > 0.3,
            "{quality}: {similarity}"
        );
        last = similarity;
    }
    assert_eq!(ssim(image.picture(), image.picture()), Some(1.0));
}

#[test]
fn sizes_are_refused_before_they_are_allocated() {
    // The headers state 65535 x 65535 pixels.
    let mut gif = gif(1);
    gif[6..10].fill(0xff);
    let mut png = png(png::ColorType::Rgb, |_| {});
    png[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let sum = crc32(&png[12..29]);
    png[29..33].copy_from_slice(&sum.to_be_bytes());
    let mut jpeg = jpeg();
    let frame = jpeg
        .windows(2)
        .position(|window| window == [0xff, 0xc0])
        .unwrap();
    jpeg[frame + 5..frame + 9].fill(0xff);
    for (format, content) in [(Format::Gif, gif), (Format::Png, png), (Format::Jpeg, jpeg)] {
        let refused = Image::decode(format, &content, LIMITS);
        assert!(
            matches!(
                refused,
                Err(ImageError::TooLarge {
                    width: 65535,
                    height: 65535,
                    ..
                })
            ),
            "{format}: {refused:?}"
        );
    }
    let frames = Limits {
        frames: 3,
        ..LIMITS
    };
    let animated = self::gif(4);
    let refused = Image::decode(Format::Gif, &animated, frames);
    assert!(
        matches!(refused, Err(ImageError::TooManyFrames(3))),
        "{refused:?}"
    );
    let pixels = Limits {
        pixels: 40 * 30 * 3,
        ..LIMITS
    };
    let refused = Image::decode(Format::Gif, &animated, pixels);
    assert!(
        matches!(refused, Err(ImageError::TooLarge { frames: 4, .. })),
        "{refused:?}"
    );
}

/// Computes the CRC of a chunk (PNG, annex D) bit by bit.
fn crc32(content: &[u8]) -> u32 {
    !content.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    })
}

#[test]
fn cut_off_and_damaged_images_never_end_the_program() {
    let apng = {
        let animated = gif(3);
        let image = Image::decode(Format::Gif, &animated, LIMITS).unwrap();
        ImageTreatment::GifToApng.encode(&image).unwrap().file
    };
    let files = [gif(3), apng, png(png::ColorType::Rgba, |_| {}), jpeg()];
    let mut refused = 0;
    for file in &files {
        let format = Format::of(file).unwrap();
        for step in 0..60 {
            let cut = &file[..file.len() * step / 60];
            refused += usize::from(Image::decode(format, cut, LIMITS).is_err());
            let mut damaged = file.clone();
            let at = mixed(step as u64) as usize % file.len();
            damaged[at] ^= 1 << (step % 8);
            if let Ok(image) = Image::decode(format, &damaged, LIMITS) {
                // Every decoded image is treated.
                for treatment in TREATMENTS.into_iter().filter(|one| one.applies_to(&image)) {
                    drop(treatment.encode(&image));
                }
            }
        }
        let refusal = Image::decode(format, b"GIF89a no image", LIMITS);
        assert!(refusal.is_err(), "{format}");
    }
    assert!(refused > 180, "{refused}");
}

#[test]
fn an_avif_is_found_by_any_of_its_brands_and_not_decoded() {
    let file =
        |length: u8, brands: &[u8]| [&[0, 0, 0, length], b"ftyp".as_slice(), brands].concat();
    for (content, expected) in [
        (file(16, b"avif\0\0\0\0"), Some(Format::Avif)),
        (file(16, b"avis\0\0\0\0rest"), Some(Format::Avif)),
        (file(24, b"mif1\0\0\0\0miafavif"), Some(Format::Avif)),
        // The brand is after the box, in the version field, of another format, or truncated.
        (file(20, b"mif1\0\0\0\0miafavif"), None),
        (file(16, b"mif1avif"), None),
        (file(20, b"isom\0\0\0\0mp41"), None),
        (file(0, b"avif\0\0\0\0"), None),
        (file(16, b"avi"), None),
    ] {
        assert_eq!(Format::of(&content), expected, "{content:?}");
    }
    assert_eq!(Format::of_extension("AVIF"), Some(Format::Avif));
    let avif = file(16, b"avif\0\0\0\0");
    let refused = Image::decode(Format::Avif, &avif, LIMITS);
    assert!(
        matches!(refused, Err(ImageError::NotApplicable(_))),
        "{refused:?}"
    );
}

#[test]
fn a_transparent_image_is_compared_over_black_and_over_white() {
    let picture = |pixel: [u8; 4]| Picture {
        width: 12,
        height: 12,
        frames: vec![Frame {
            rgba: pixel.repeat(144),
            delay: (0, 1),
        }],
        plays: 0,
        icc: None,
        exif: None,
        has_other_colours: false,
    };
    // The colours of transparent pixels are ignored. Over white, a lower alpha of white is invisible; over black, a
    // lower alpha of black is invisible.
    let same = ssim(&picture([255, 0, 9, 0]), &picture([0, 0, 200, 0])).unwrap();
    assert!((same - 1.0).abs() < 1e-12, "{same}");
    for colour in [0, 255] {
        let opaque = picture([colour, colour, colour, 255]);
        let clear = picture([colour, colour, colour, 0]);
        let different = ssim(&opaque, &clear).unwrap();
        assert!(different < 0.01, "{different}");
    }
}

#[test]
fn a_panic_of_a_library_is_an_error_of_the_image() {
    let result = guarded::<()>(|| panic!("index {} out of bounds", 7));
    assert!(matches!(result, Err(ImageError::Panicked(why)) if why == "index 7 out of bounds"));
}

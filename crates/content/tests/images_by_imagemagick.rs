//! Decodes every image that this crate writes with ImageMagick, which uses the C library of each format. The pixels
//! must equal the source, or have the stated distortion.
#![cfg(feature = "images")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the tests run other programs on files"
)]

#[path = "support/imagemagick.rs"]
mod imagemagick;

use std::fs;
use std::path::Path;

use fathometer_content::image::{Format, Image, ImageTreatment, ssim};

use self::imagemagick::{LIMITS, SOURCES, convert, is_installed, make};

/// Decodes the pixels of all frames with ImageMagick, each frame as the whole canvas. Transparent pixels have no
/// colour.
fn decode(content: &[u8], file: &Path) -> Vec<[u8; 4]> {
    fs::write(file, content).unwrap();
    let output = convert()
        .arg(file)
        .args(["-coalesce", "-depth", "8", "rgba:-"])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {message}", file.display());
    let (pixels, rest) = output.stdout.as_chunks();
    assert!(rest.is_empty());
    without_hidden_colours(pixels)
}

fn without_hidden_colours(pixels: &[[u8; 4]]) -> Vec<[u8; 4]> {
    let clear = |pixel: &[u8; 4]| if pixel[3] == 0 { [0; 4] } else { *pixel };
    pixels.iter().map(clear).collect()
}

/// Additional sources in lossless formats.
const OTHER_SOURCES: [(&str, &[&str]); 3] = [
    (
        "interlaced.gif",
        &[
            "-size",
            "90x70",
            "plasma:tan-blue",
            "-colors",
            "256",
            "-interlace",
            "GIF",
        ],
    ),
    (
        "grey.png",
        &[
            "-size",
            "60x60",
            "gradient:",
            "-colorspace",
            "Gray",
            "-depth",
            "8",
        ],
    ),
    (
        "two-colours.png",
        &["-size", "99x21", "pattern:checkerboard", "-monochrome"],
    ),
];

#[test]
fn lossless_images_decode_to_the_pixels_of_their_source() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let without_loss = SOURCES.iter().filter(|(name, _)| !name.ends_with(".jpg"));
    for (name, arguments) in without_loss.chain(&OTHER_SOURCES) {
        let file = folder.path().join(name);
        let source = make(arguments, &file);
        let expected = decode(&source, &file);
        let image = Image::decode(Format::of(&source).unwrap(), &source, LIMITS).unwrap();
        let ours = without_hidden_colours(image.picture().frames[0].rgba.as_chunks().0);
        assert!(ours == expected, "{name}: our decoder differs");
        let treatments = [
            (ImageTreatment::GifToPng, "treated.png"),
            (ImageTreatment::OptimisePng, "treated.png"),
            (ImageTreatment::ToWebp, "treated.webp"),
        ];
        let mut made = 0;
        for (treatment, file) in treatments {
            if treatment.applies_to(&image) {
                let treated = treatment.encode(&image).unwrap();
                let decoded = decode(&treated.file, &folder.path().join(file));
                assert!(decoded == expected, "{name}, {treatment}");
                made += 1;
            }
        }
        assert_eq!(made, 2, "{name}");
    }
}

/// Creates a PNG chunk with its length and its CRC.
fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let named = [name.as_slice(), data].concat();
    let sum = !named.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    });
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [&length, named.as_slice(), &sum.to_be_bytes()].concat()
}

fn number(data: &[u8]) -> u32 {
    u32::from_be_bytes(data[..4].try_into().unwrap())
}

/// Converts each frame of an APNG to a separate PNG, because ImageMagick does not read APNG. Also returns the left and
/// top position of the frame, and whether the frame is blended over the underlying pixels.
fn frames_of(apng: &[u8]) -> Vec<(Vec<u8>, u32, u32, bool)> {
    let mut frames: Vec<(Vec<u8>, u32, u32, bool)> = Vec::new();
    let (mut header, mut shared, mut at) = (Vec::new(), Vec::new(), 8);
    while at < apng.len() {
        let length = number(&apng[at..]) as usize;
        let name: &[u8; 4] = apng[at + 4..at + 8].try_into().unwrap();
        let data = &apng[at + 8..at + 8 + length];
        at += length + 12;
        match name {
            b"IHDR" => header = data.to_vec(),
            b"PLTE" | b"tRNS" => shared.extend(chunk(name, data)),
            b"fcTL" => {
                let mut header = header.clone();
                header[..8].copy_from_slice(&data[4..12]);
                let png = [
                    b"\x89PNG\r\n\x1a\n".as_slice(),
                    &chunk(b"IHDR", &header),
                    &shared,
                ];
                assert_eq!(data[24], 0, "the encoder uses no disposal method");
                frames.push((
                    png.concat(),
                    number(&data[12..]),
                    number(&data[16..]),
                    data[25] == 1,
                ));
            }
            b"IDAT" => frames.last_mut().unwrap().0.extend(chunk(name, data)),
            b"fdAT" => frames
                .last_mut()
                .unwrap()
                .0
                .extend(chunk(b"IDAT", &data[4..])),
            _ => {}
        }
    }
    for frame in &mut frames {
        frame.0.extend(chunk(b"IEND", b""));
    }
    frames
}

#[test]
fn an_animation_decodes_to_the_frames_of_its_source() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for dispose in ["None", "Background", "Previous"] {
        // A dot moves over a drawing, on a transparent canvas of 70 x 50 pixels.
        let mut arguments = vec![
            "-delay", "7", "-loop", "2", "-size", "70x50", "-dispose", "None",
        ];
        arguments.extend(["xc:none", "-fill", "green", "-draw", "rectangle 3,3 60,30"]);
        arguments.extend(["-dispose", dispose]);
        let pages: Vec<_> = (0..5)
            .map(|at| format!("70x50+{}+{}", at * 9, at * 6))
            .collect();
        for page in &pages {
            arguments.extend([
                "(",
                "-size",
                "12x9",
                "xc:none",
                "-fill",
                "orange",
                "+antialias",
            ]);
            arguments.extend(["-draw", "circle 6,4 6,1", "-repage", page, ")"]);
        }
        let file = folder.path().join("animated.gif");
        let source = make(&arguments, &file);
        let expected = decode(&source, &file);
        let image = Image::decode(Format::Gif, &source, LIMITS).unwrap();
        assert_eq!(image.picture().frames.len(), 6, "{dispose}");
        let apng = ImageTreatment::GifToApng.encode(&image).unwrap();

        let mut canvas = vec![[0; 4]; 70 * 50];
        let mut decoded = Vec::new();
        for (png, left, top, is_over) in frames_of(&apng.file) {
            let pixels = decode(&png, &folder.path().join("frame.png"));
            let width = number(&png[16..]) as usize;
            for (row, pixels) in pixels.chunks(width).enumerate() {
                let start = (top as usize + row) * 70 + left as usize;
                for (below, above) in canvas[start..start + width].iter_mut().zip(pixels) {
                    if !is_over || above[3] == 255 {
                        *below = *above;
                    } else {
                        assert_eq!(above[3], 0, "unchanged pixels must be transparent");
                    }
                }
            }
            decoded.extend_from_slice(&canvas);
        }
        assert!(decoded == expected, "{dispose}");
    }
}

/// Computes SSIM by its definition, window by window: sums over 121 pixels with the weights of a two-dimensional
/// Gaussian.
fn ssim_by_definition(a: &[f64], b: &[f64], width: usize, height: usize) -> f64 {
    let weight = |x: usize, y: usize| {
        let (dx, dy) = (x as f64 - 5.0, y as f64 - 5.0);
        (-(dx * dx + dy * dy) / 4.5).exp()
    };
    let total: f64 = (0..121).map(|at| weight(at % 11, at / 11)).sum();
    let mut sum = 0.0;
    for top in 0..=height - 11 {
        for left in 0..=width - 11 {
            let mean = |value: &dyn Fn(usize) -> f64| -> f64 {
                let at = |at: usize| (top + at / 11) * width + left + at % 11;
                (0..121)
                    .map(|i| weight(i % 11, i / 11) / total * value(at(i)))
                    .sum()
            };
            let (x, y) = (mean(&|at| a[at]), mean(&|at| b[at]));
            let variance_a = mean(&|at| (a[at] - x).powi(2));
            let variance_b = mean(&|at| (b[at] - y).powi(2));
            let covariance = mean(&|at| (a[at] - x) * (b[at] - y));
            let (c1, c2) = (6.5025, 58.5225);
            sum += (2.0 * x * y + c1) * (2.0 * covariance + c2)
                / ((x * x + y * y + c1) * (variance_a + variance_b + c2));
        }
    }
    sum / ((width - 10) * (height - 10)) as f64
}

#[test]
fn a_jpeg_has_the_distortion_that_is_stated() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("photograph.jpg");
    let sources: [&[&str]; 3] = [
        &[
            "-seed",
            "3",
            "-size",
            "120x90",
            "plasma:fractal",
            "-quality",
            "96",
        ],
        &[
            "-size",
            "97x61",
            "gradient:",
            "-colorspace",
            "Gray",
            "-attenuate",
            "0.4",
            "-quality",
            "95",
        ],
        &[
            "-seed",
            "5",
            "-size",
            "80x64",
            "plasma:red-blue",
            "-interlace",
            "JPEG",
            "-quality",
            "93",
        ],
    ];
    for arguments in sources {
        let source = make(arguments, &file);
        let expected = decode(&source, &file);
        let image = Image::decode(Format::Jpeg, &source, LIMITS).unwrap();
        let (width, height) = (
            image.picture().width as usize,
            image.picture().height as usize,
        );
        let lumas = |pixels: &[[u8; 4]]| -> Vec<f64> {
            let luma = |&[r, g, b, _]: &[u8; 4]| {
                0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b)
            };
            pixels.iter().map(luma).collect()
        };
        for quality in [30, 75, 92] {
            let treatment = ImageTreatment::Jpeg(quality);
            let treated = treatment.encode(&image).unwrap();
            let decoded = treatment.decode(&image, &treated).unwrap();
            let stated = ssim(image.picture(), &decoded).unwrap();
            // The same pixels give the same value, except for rounding.
            let ours = [&image.picture().frames[0].rgba, &decoded.frames[0].rgba];
            let [a, b] = ours.map(|rgba| lumas(rgba.as_chunks().0));
            let by_definition = ssim_by_definition(&a, &b, width, height);
            assert!(
                (by_definition - stated).abs() < 1e-9,
                "{by_definition} {stated}"
            );
            // JPEG decoders differ in rounding and in the upsampling of 4:2:0 colours.
            let theirs = decode(&treated.file, &folder.path().join("treated.jpg"));
            let theirs = ssim_by_definition(&lumas(&expected), &lumas(&theirs), width, height);
            assert!(
                (theirs - stated).abs() < 0.01,
                "{arguments:?}, quality {quality}: SSIM {theirs} with the other decoder, {stated} stated"
            );
        }
    }
}

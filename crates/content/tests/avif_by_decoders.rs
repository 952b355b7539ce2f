//! Tests that independent AVIF decoders show the pixels that the encoder states, and that images with properties that
//! AVIF cannot store are not treated.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the tests run other programs on files"
)]

#[path = "support/imagemagick.rs"]
mod imagemagick;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fathometer_content::image::{Format, Frame, Image, ImageError, ImageTreatment, Picture, ssim};

use self::imagemagick::{LIMITS, SOURCES, is_installed, make};

const TO_AVIF: ImageTreatment = ImageTreatment::ToAvif;
/// The largest accepted difference of samples: decoders convert samples to pixels with different constants and
/// rounding.
const ROUNDING: u8 = 2;

/// Returns the path of a program from a Debian package; `./test` installs the package.
fn program(name: &str) -> Option<PathBuf> {
    let found = Some(Path::new("/usr/bin").join(name)).filter(|path| path.exists());
    if found.is_none() {
        let is_required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(!is_required, "{name} is required and not installed");
        eprintln!("skipped: {name} is not installed");
    }
    found
}

/// Decodes the pixels and the profile with avifdec (libavif with dav1d). ImageMagick would halve the resolution of
/// colours.
fn decode(content: &[u8], folder: &Path) -> (Vec<[u8; 4]>, Option<Vec<u8>>) {
    let [avif, png] = ["decoded.avif", "decoded.png"].map(|name| folder.join(name));
    fs::write(&avif, content).unwrap();
    let mut avifdec = Command::new("/usr/bin/avifdec");
    let output = avifdec.args([&avif, &png]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let png = fs::read(png).unwrap();
    let picture = Image::decode(Format::Png, &png, LIMITS).unwrap();
    let picture = picture.picture();
    let pixels = picture.frames[0].rgba.as_chunks().0.to_vec();
    (pixels, picture.icc.clone())
}

/// An AVIF file, its source, and the picture that the encoder states.
struct Treated {
    name: String,
    file: Vec<u8>,
    source: Picture,
    stated: Picture,
}

impl Treated {
    fn of(name: &str, source: &[u8]) -> Treated {
        let image = Image::decode(Format::of(source).unwrap(), source, LIMITS).unwrap();
        assert!(TO_AVIF.applies_to(&image), "{name}");
        let treated = TO_AVIF.encode(&image).unwrap();
        assert_eq!(Format::of(&treated.file), Some(Format::Avif));
        let stated = TO_AVIF.decode(&image, &treated).unwrap().into_owned();
        Treated {
            name: name.to_owned(),
            source: image.picture().clone(),
            stated,
            file: treated.file,
        }
    }

    /// Compares the stated picture with the pixels of a decoder. Colours are compared if the alpha is at least
    /// `has_colours`.
    fn assert_shown(&self, decoder: &str, pixels: &[[u8; 4]], has_colours: u8) {
        let name = &self.name;
        let different = different(&self.stated, pixels, has_colours);
        assert_eq!(
            different, None,
            "{name}: first pixel that differs (stated by the encoder, shown by {decoder})"
        );
    }
}

/// Returns the first pixels that differ by more than [`ROUNDING`].
fn different(picture: &Picture, pixels: &[[u8; 4]], has_colours: u8) -> Option<([u8; 4], [u8; 4])> {
    let stated = picture.frames[0].rgba.as_chunks().0;
    assert_eq!(stated.len(), pixels.len());
    let mut pairs = stated.iter().copied().zip(pixels.iter().copied());
    pairs.find(|(a, b)| {
        let is_seen = a[3] > 0 && a[3].min(b[3]) >= has_colours;
        let mut samples = if is_seen { 0..4 } else { 3..4 };
        samples.any(|sample| a[sample].abs_diff(b[sample]) > ROUNDING)
    })
}

/// Converts the sources to AVIF.
fn treated_sources(folder: &Path) -> Vec<Treated> {
    let treated = SOURCES.iter().map(|(name, arguments)| {
        let source = make(arguments, &folder.join(name));
        Treated::of(name, &source)
    });
    treated.collect()
}

#[test]
fn avifdec_shows_what_the_encoder_states() {
    let (true, Some(_)) = (is_installed(), program("avifdec")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for treated in treated_sources(folder.path()) {
        let name = &treated.name;
        let pixels = decode(&treated.file, folder.path()).0;
        treated.assert_shown("avifdec", &pixels, 1);
        let (source, stated) = (&treated.source, &treated.stated);
        if name.starts_with("photograph") {
            let lost = different(source, &pixels, 1);
            assert!(
                lost.is_some(),
                "{name}: the comparison must detect a lost part"
            );
        }
        let theirs = Picture {
            frames: vec![Frame {
                rgba: pixels.concat(),
                delay: (0, 1),
            }],
            ..stated.clone()
        };
        let [stated, theirs] = [stated, &theirs].map(|picture| ssim(source, picture).unwrap());
        assert!(
            (stated - theirs).abs() < 0.002,
            "{name}: SSIM {stated} stated, {theirs} with the other decoder"
        );
        assert!(stated > 0.8 && stated < 1.0, "{name}: {stated}");
        if name == "photograph.jpg" {
            let before = fs::metadata(folder.path().join(name)).unwrap().len();
            assert!((treated.file.len() as u64) < before, "of {before} bytes");
        }
    }
}

/// A script that writes the pixels of all images into the page, one hexadecimal line per image.
const PIXELS: &str = "<script>
onload = () => {
  let all = '';
  for (const image of document.images) {
    const canvas = document.createElement('canvas');
    canvas.width = image.naturalWidth;
    canvas.height = image.naturalHeight;
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    all += Array.from(data, (sample) => sample.toString(16).padStart(2, '0')).join('') + '\\n';
  }
  const result = document.createElement('output');
  result.id = 'pixels';
  result.textContent = all;
  document.body.append(result);
};
</script>
";

/// Converts alpha to the value that Chromium 156 shows. Chromium interprets the samples in the limited range, 16 to
/// 235, although their header states the full range, as AVIF requires. Files of avifenc are affected too.
fn from_limited_range(alpha: u8) -> u8 {
    let expanded = (f32::from(alpha) - 16.0) * 255.0 / 219.0;
    expanded.round() as u8
}

/// This test takes two seconds, but is needed in addition to avifdec: Chromium's decoder and colour conversion are
/// different.
#[test]
fn chromium_shows_what_the_encoder_states() {
    let (true, Some(chromium)) = (is_installed(), program("chromium")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let all = treated_sources(folder.path());
    let mut page = "<!DOCTYPE html>\n<body>\n".to_owned();
    for (number, treated) in all.iter().enumerate() {
        fs::write(folder.path().join(format!("{number}.avif")), &treated.file).unwrap();
        writeln!(page, "<img src={number}.avif>").unwrap();
    }
    let file = folder.path().join("page.html");
    fs::write(&file, page + PIXELS).unwrap();
    let output = Command::new("timeout")
        .args(["--kill-after=5", "120"])
        .arg(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-sync"])
        .args(["--disable-component-update", "--no-proxy-server"])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .args([
            "--allow-file-access-from-files",
            "--force-color-profile=srgb",
        ])
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let document = String::from_utf8_lossy(&output.stdout);
    let (_, pixels) = document
        .split_once("<output id=\"pixels\">")
        .unwrap_or_else(|| panic!("no pixels: {}", String::from_utf8_lossy(&output.stderr)));
    let mut lines = pixels.lines();
    for treated in &all {
        let line = lines.next().unwrap();
        let mut samples: Vec<u8> = (0..line.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap())
            .collect();
        let stated = treated.stated.frames[0].rgba.as_chunks::<4>().0;
        for (stated, shown) in stated.iter().zip(samples.as_chunks_mut::<4>().0) {
            if shown[3].abs_diff(from_limited_range(stated[3])) <= ROUNDING {
                shown[3] = stated[3];
            }
        }
        // A canvas stores colours multiplied by alpha, which loses precision for an alpha below 255.
        treated.assert_shown("Chromium", samples.as_chunks().0, 255);
    }
}

/// Creates a PNG of this size, with a different colour in each pixel.
fn png_of(width: u32, height: u32) -> Vec<u8> {
    let mut coded = Vec::new();
    let mut encoder = png::Encoder::new(&mut coded, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    let samples: Vec<u8> = (0..width * height)
        .flat_map(|at| [at % width * 3, at / width * 5, 200 - at % 200].map(|sample| sample as u8))
        .collect();
    writer.write_image_data(&samples).unwrap();
    writer.finish().unwrap();
    coded
}

#[test]
fn every_size_from_one_pixel_on_is_encoded() {
    let folder = tempfile::tempdir().unwrap();
    let is_installed = program("avifdec").is_some();
    for (width, height) in [
        (1, 1),
        (1, 2),
        (2, 1),
        (3, 3),
        (7, 9),
        (8, 8),
        (1, 65),
        (66, 1),
        (65, 63),
        (200, 5),
    ] {
        let treated = Treated::of(&format!("{width} x {height}"), &png_of(width, height));
        let stated = &treated.stated;
        assert_eq!((stated.width, stated.height), (width, height));
        if is_installed {
            let pixels = decode(&treated.file, folder.path()).0;
            treated.assert_shown("avifdec", &pixels, 1);
        }
    }
}

/// Creates a JPEG with this metadata.
fn jpeg_with(icc: Option<&[u8]>, exif: Option<&[u8]>) -> Vec<u8> {
    let mut coded = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut coded, 90);
    if let Some(icc) = icc {
        encoder.add_icc_profile(icc).unwrap();
    }
    if let Some(exif) = exif {
        encoder.add_exif_metadata(exif).unwrap();
    }
    let pixels = [200; 24 * 16 * 3];
    encoder
        .encode(&pixels, 24, 16, jpeg_encoder::ColorType::Rgb)
        .unwrap();
    coded
}

/// Creates EXIF metadata with only this orientation.
fn exif(orientation: u8) -> Vec<u8> {
    let mut tiff = b"II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
    tiff.extend([orientation, 0, 0, 0, 0, 0, 0, 0]);
    tiff
}

/// Creates the header of an ICC profile for this colour space, with some content.
fn icc(colours: &[u8; 4]) -> Vec<u8> {
    let mut icc = vec![0; 150];
    icc[..4].copy_from_slice(&150_u32.to_be_bytes());
    icc[12..16].copy_from_slice(b"mntr");
    icc[16..20].copy_from_slice(colours);
    icc[20..24].copy_from_slice(b"XYZ ");
    icc[36..40].copy_from_slice(b"acsp");
    // The illuminant D50 (ICC.1:2022, section 7.2.16).
    icc[68..80].copy_from_slice(b"\0\0\xf6\xd6\0\x01\0\0\0\0\xd3\x2d");
    icc[140..].copy_from_slice(b"a profile.");
    icc
}

#[test]
fn metadata_is_kept_or_the_image_is_not_treated() {
    let (upright, rgb, grey) = (exif(1), icc(b"RGB "), icc(b"GRAY"));
    let folder = tempfile::tempdir().unwrap();
    let is_installed = program("avifdec").is_some();
    for profile in [&rgb, &grey] {
        let source = jpeg_with(Some(profile), Some(&upright));
        let kept = Treated::of("upright", &source);
        assert_eq!(kept.stated.icc.as_ref(), Some(profile));
        let mut windows = kept.file.windows(upright.len());
        assert!(windows.any(|window| window == upright));
        assert!(
            kept.file
                .windows(profile.len())
                .any(|window| window == profile)
        );
        // avifdec writes an RGB PNG, for which a grey profile is invalid.
        if is_installed && profile == &rgb {
            let (pixels, read) = decode(&kept.file, folder.path());
            kept.assert_shown("avifdec", &pixels, 1);
            assert_eq!(read.as_ref(), Some(profile));
        }
    }
    for source in [
        jpeg_with(None, Some(&exif(6))),
        jpeg_with(Some(&icc(b"Lab ")), None),
        jpeg_with(Some(b"no profile"), None),
    ] {
        let image = Image::decode(Format::Jpeg, &source, LIMITS).unwrap();
        let refused = TO_AVIF.encode(&image);
        assert!(
            matches!(refused, Err(ImageError::NotApplicable(_))),
            "{refused:?}"
        );
    }
}

#[test]
fn animations_are_left_alone() {
    let mut coded = Vec::new();
    let mut encoder = gif::Encoder::new(&mut coded, 4, 4, &[0, 0, 0, 255, 0, 0]).unwrap();
    for colour in [0, 1] {
        let frame = gif::Frame {
            width: 4,
            height: 4,
            buffer: vec![colour; 16].into(),
            ..gif::Frame::default()
        };
        encoder.write_frame(&frame).unwrap();
    }
    drop(encoder);
    let image = Image::decode(Format::Gif, &coded, LIMITS).unwrap();
    assert!(image.picture().is_animated());
    assert!(!TO_AVIF.applies_to(&image));
    assert!(!TO_AVIF.has_decoder() && !TO_AVIF.is_lossless());
}

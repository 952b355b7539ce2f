use std::collections::HashSet;
use std::io::Cursor;

use fathometer_model::ContentCoding;

use super::*;
use crate::coding::encode;

const SEED: Seed = Seed(1998);
const IMAGES: [&str; 4] = ["image/gif", "image/png", "image/jpeg", "image/webp"];

fn spec(content_type: &'static str, size: u64) -> FileSpec {
    FileSpec {
        path: format!("/{size}"),
        content_type,
        size,
    }
}

/// Decodes the whole image and returns its width and height.
fn decode(content_type: &str, file: &[u8]) -> Result<(u32, u32), String> {
    match content_type {
        "image/gif" => {
            let mut options = gif::DecodeOptions::new();
            options.check_frame_consistency(true);
            let mut decoder = options.read_info(file).map_err(|e| e.to_string())?;
            let size = (decoder.width().into(), decoder.height().into());
            let mut frames = 0;
            while decoder
                .read_next_frame()
                .map_err(|e| e.to_string())?
                .is_some()
            {
                frames += 1;
            }
            (frames == 1).then_some(size).ok_or("not one frame".into())
        }
        "image/png" => {
            let decoder = png::Decoder::new(Cursor::new(file));
            let mut reader = decoder.read_info().map_err(|e| e.to_string())?;
            let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
            let info = reader.next_frame(&mut pixels).map_err(|e| e.to_string())?;
            // Reads every chunk to the end, and checks the CRCs of the chunks.
            reader.finish().map_err(|e| e.to_string())?;
            Ok((info.width, info.height))
        }
        "image/jpeg" => {
            let mut decoder = jpeg_decoder::Decoder::new(file);
            decoder.decode().map_err(|e| e.to_string())?;
            let info = decoder.info().unwrap();
            Ok((info.width.into(), info.height.into()))
        }
        "image/webp" => {
            let mut decoder =
                image_webp::WebPDecoder::new(Cursor::new(file)).map_err(|e| e.to_string())?;
            let mut pixels = vec![0; decoder.output_buffer_size().unwrap()];
            decoder.read_image(&mut pixels).map_err(|e| e.to_string())?;
            Ok(decoder.dimensions())
        }
        other => panic!("{other}"),
    }
}

#[test]
fn images_decode_at_every_size_from_the_smallest() {
    for content_type in IMAGES {
        let first = smallest(content_type);
        // Every remainder modulo the block size of the padding, and sizes near the ends of the larger blocks.
        let sizes = (first..first + 900)
            .chain(65_400..65_900)
            .chain(131_000..131_400)
            .chain([500_000, 1_100_000, 2_500_001]);
        let specs: Vec<FileSpec> = sizes.map(|size| spec(content_type, size)).collect();
        for file in files(specs, TEXT_RATIO, SEED) {
            let bytes = file.body.bytes();
            assert_eq!(format!("/{}", bytes.len()), file.path);
            let decoded = decode(content_type, &bytes);
            let size = decoded.map_err(|e| format!("{content_type} of {} B: {e}", bytes.len()));
            let (width, height) = size.unwrap();
            assert!(width >= 1 && height >= 1);
        }
    }
}

#[test]
fn a_size_too_small_for_an_image_is_kept() {
    for content_type in IMAGES {
        let size = smallest(content_type) - 1;
        for size in 0..=size {
            let file = &files([spec(content_type, size)], TEXT_RATIO, SEED)[0];
            assert_eq!(file.body.len().0, size);
        }
        let bytes = files([spec(content_type, size)], TEXT_RATIO, SEED);
        assert!(decode(content_type, &bytes[0].body.bytes()).is_err());
    }
}

#[test]
fn no_coding_makes_images_and_noise_smaller() {
    for content_type in IMAGES.into_iter().chain(["font/woff2", "video/mp4"]) {
        for size in [5_000, 200_000, 3_000_000] {
            let file = &files([spec(content_type, size)], TEXT_RATIO, SEED)[0];
            let coded = encode(ContentCoding::Gzip, &file.body.bytes()).len() as f64;
            assert!(
                coded > 0.97 * size as f64,
                "{content_type} of {size} B compresses to {coded} B"
            );
        }
    }
}

#[test]
fn files_of_one_size_and_type_differ() {
    let kinds = IMAGES
        .into_iter()
        .chain(["text/html", "text/plain", "application/octet-stream"]);
    for content_type in kinds {
        for size in [200, 3_000, 80_000] {
            let specs = (0..200).map(|_| spec(content_type, size));
            let files = files(specs, TEXT_RATIO, SEED);
            let distinct: HashSet<Vec<u8>> = files
                .iter()
                .map(|file| file.body.bytes().into_owned())
                .collect();
            assert_eq!(distinct.len(), 200, "{content_type} {size}");
        }
    }
}

/// Computes the 64-bit FNV-1a hash of the files.
fn hash(files: &[File]) -> u64 {
    files
        .iter()
        .flat_map(|file| file.body.pieces())
        .flatten()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_every_machine() {
    let pinned = [
        ("text/html", 0xbf28_e3f9_f01f_db0d),
        ("text/css", 0x2b2d_84c4_b0fa_4c36),
        ("text/javascript", 0xe305_3380_8930_ee85),
        ("application/json", 0xe7d5_507e_16c7_cd75),
        ("image/svg+xml", 0x3af7_4124_57c4_927d),
        ("text/plain", 0x489b_2d59_b68a_b850),
        ("image/gif", 0x7063_2fcd_d79b_6d88),
        ("image/png", 0xa3dd_4683_1a5f_facc),
        ("image/jpeg", 0x57aa_af6f_2f33_8a6d),
        ("image/webp", 0x2d45_36d8_28fb_998f),
        ("font/woff2", 0x0688_b621_6ad6_9850),
    ];
    for (content_type, wanted) in pinned {
        let specs = [100, 1_000, 70_000, 300_000].map(|size| spec(content_type, size));
        let got = hash(&files(specs, TEXT_RATIO, SEED));
        assert_eq!(got, wanted, "{content_type}: {got:#x}");
    }
}

#[test]
fn references_are_found_by_reading_the_files() {
    let sizes = [
        ("/index.html", "text/html", 3_000),
        ("/a.css", "text/css", 2_000),
        ("/f.woff2", "font/woff2", 9_000),
        ("/a.js", "text/javascript", 4_000),
        ("/late.png", "image/png", 8_000),
        ("/early.webp", "image/webp", 8_000),
    ];
    let specs = sizes.map(|(path, content_type, size)| FileSpec {
        path: path.to_owned(),
        content_type,
        size,
    });
    let page = Page {
        base: FileId(0),
        embedded: (1..6).map(FileId).collect(),
        named_by: vec![None, Some(0), None, Some(2), None],
    };
    let site = site("test", specs.into(), vec![page], TEXT_RATIO, SEED);
    let names = |by: usize, path: &str| {
        let bytes = site.files[by].body.bytes().into_owned();
        String::from_utf8(bytes).unwrap().contains(path)
    };
    assert!(names(0, "<link rel=stylesheet href=\"/a.css\">"));
    assert!(names(0, "<script defer src=\"/a.js\">"));
    assert!(names(0, "<img src=\"/early.webp\""));
    assert!(names(1, "src:url(/f.woff2)"));
    assert!(names(3, "new Image().src=\"/late.png\""));
    assert!(!names(0, "/f.woff2") && !names(0, "/late.png"));
    for (file, (path, _, size)) in site.files.iter().zip(sizes) {
        assert_eq!((file.path.as_str(), file.body.len().0), (path, size));
    }
}

#[test]
fn a_file_has_few_pieces_whatever_its_size() {
    for content_type in ["text/html", "image/png", "image/jpeg", "font/woff2"] {
        let files = files([spec(content_type, 1_000_000)], TEXT_RATIO, SEED);
        assert!(files[0].body.pieces().count() <= 8, "{content_type}");
    }
}

#[test]
fn types_follow_from_extensions() {
    for (path, content_type) in [
        ("/", "text/html"),
        ("/a/b", "text/html"),
        ("/x.d/b", "text/html"),
        ("/a.GIF?x=1.css", "image/gif"),
        ("/a.tar.gz", "application/octet-stream"),
        ("/a.woff2", "font/woff2"),
    ] {
        assert_eq!(type_of(path), content_type, "{path}");
    }
}

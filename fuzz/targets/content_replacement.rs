//! Images that HTML and CSS replace: the bands are the pixels, and no text of a page adds markup. Of any document, the
//! tags of images are found inside it.

#![no_main]

use fathometer_content::image::{Frame, Picture, Replacement};
use fathometer_content::image_tags;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&[width, height, colors], rest)) = input.split_first_chunk() else {
        return;
    };
    let (width, height) = (1 + usize::from(width % 64), 1 + usize::from(height % 64));
    // Few colours: an image of random pixels has neither bands nor text.
    let palette = [[0, 0, 0, 255], [255; 4], [colors; 4], [0; 4]];
    let pixels: Vec<[u8; 4]> = (0..width * height)
        .map(|place| palette[usize::from(rest.get(place).copied().unwrap_or(0) % 4)])
        .collect();
    let picture = Picture {
        width: width as u32,
        height: height as u32,
        frames: vec![Frame {
            rgba: pixels.concat(),
            delay: (0, 1),
        }],
        plays: 0,
        icc: None,
        exif: None,
        has_other_colours: false,
    };
    if let Some(replacement) = Replacement::of(&picture) {
        let alt = String::from_utf8_lossy(rest);
        let html = replacement.html(Some(&alt), [None; 2]).expect("its own size is possible");
        assert_eq!(html.matches('<').count(), 2, "{html}");
        assert_eq!(html.matches('>').count(), 2, "{html}");
        if let Replacement::Bands { beside, bands, .. } = &replacement {
            let lines: Vec<[u8; 4]> = bands
                .iter()
                .flat_map(|band| std::iter::repeat_n(band.color, band.pixels as usize))
                .collect();
            assert_eq!(lines.len(), if *beside { width } else { height });
            for (place, pixel) in pixels.iter().enumerate() {
                let line = if *beside { place % width } else { place / width };
                let is_same = lines[line] == *pixel || (pixel[3] == 0 && lines[line][3] == 0);
                assert!(is_same, "pixel {place} is of another colour");
            }
        }
    }
    let mut bytes = 0;
    let _ = image_tags(input, |tag| {
        assert!(!tag.source.is_empty());
        bytes += tag.bytes;
    });
    assert!(bytes <= input.len(), "tags overlap");
});

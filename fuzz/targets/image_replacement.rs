//! The replacement of images by HTML and CSS: what is called exact shows every pixel when the style is interpreted
//! again, every image of few bands is found, and no text of a page adds markup.
//!
//! An input describes an image by runs of colours of a palette, the size in which a tag shows it, and its `alt`.

#![no_main]

use fathometer_content::image::{Band, Picture, Replacement};
use fathometer_fuzz::replacement::{Drawing, Style, few_bands, transposed, visible_pixels};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some(drawing) = Drawing::new(input) else {
        return;
    };
    let picture = &drawing.picture;
    let replacement = Replacement::of(picture);
    if drawing.has_own_meaning {
        assert_eq!(replacement, None, "CSS does not have its meaning");
        return;
    }
    assert_eq!(
        replacement.as_ref().is_some_and(Replacement::is_exact),
        few_bands(picture),
        "{replacement:?}"
    );
    let Some(replacement) = replacement else {
        return;
    };
    check_turned(picture, &replacement);
    let own = [Some(picture.width), Some(picture.height)];
    for shown in [[None; 2], own, drawing.shown] {
        if let Some(html) = replacement.html(drawing.alt, shown) {
            check(&html, picture, &replacement, shown);
        } else {
            assert!(
                shown != own && shown != [None; 2],
                "there is one in its own size"
            );
        }
    }
});

/// Checks an element by its style.
fn check(html: &str, picture: &Picture, replacement: &Replacement, shown: [Option<u32>; 2]) {
    let style = Style::parse(html).unwrap_or_else(|fault| panic!("{fault} in {html}"));
    for (size, shown) in style.size.into_iter().zip(shown) {
        assert!(shown.is_none_or(|shown| shown == size), "{html}");
    }
    match replacement {
        Replacement::Bands { bands, .. } => {
            if style.size == [picture.width, picture.height] {
                assert!(style.pixels() == visible_pixels(picture), "{html}");
            } else {
                assert_eq!(bands.len(), 1, "only a flat image can be scaled: {html}");
                let color = visible_pixels(picture)[0];
                assert!(style.pixels().iter().all(|&pixel| pixel == color), "{html}");
                let [width, height] = style.size;
                let ratios = [
                    u64::from(width) * u64::from(picture.height),
                    u64::from(height) * u64::from(picture.width),
                ];
                let keeps_ratio = shown.iter().all(Option::is_some) || ratios[0] == ratios[1];
                assert!(keeps_ratio, "{html}");
            }
        }
        Replacement::Text(_) => {
            assert_eq!(style.size, [picture.width, picture.height], "{html}");
            let font = style.font_px.expect("text has a font");
            assert!(
                (1..=2 * picture.height).contains(&font),
                "letters of {font} px: {html}"
            );
        }
    }
}

/// Bands of an image that is turned by a quarter are the same in the other direction.
fn check_turned(picture: &Picture, replacement: &Replacement) {
    let Replacement::Bands { bands, .. } = replacement else {
        return;
    };
    match Replacement::of(&transposed(picture)) {
        Some(Replacement::Bands { bands: others, .. }) => {
            let colors = |bands: &[Band]| bands.iter().map(|band| band.color).collect::<Vec<_>>();
            assert_eq!(colors(bands), colors(&others));
            // A flat image is a band of all rows in both directions.
            assert!(bands.len() == 1 || *bands == others, "{others:?}");
        }
        other => panic!("turned, it is {other:?}"),
    }
}

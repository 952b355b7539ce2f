//! Converts pixels to the planes of AV1 and back: luma, Cb and Cr by BT.601, in the full range of 8 bits (ITU-T
//! H.273, equations 38 to 40, and table 4).

/// The weights of red, green and blue in luma.
const RED: f32 = 0.299;
const GREEN: f32 = 0.587;
const BLUE: f32 = 0.114;
/// The sample of Cb and Cr for grey.
const NEUTRAL: f32 = 128.0;
/// The width and height of a block in which hidden colours become uniform: the size of the smallest transform that is
/// used.
const BLOCK: usize = 8;

/// The samples of a picture, row by row.
#[derive(Debug)]
pub struct Planes {
    /// Only luma for a grey picture; otherwise luma, Cb and Cr.
    pub colour: Vec<Vec<u8>>,
    /// Alpha, if a pixel is not opaque.
    pub alpha: Option<Vec<u8>>,
}

impl Planes {
    /// Converts pixels in rows of this width to planes. The colours of transparent pixels, which no decoder shows, are
    /// replaced.
    pub fn of(pixels: &[[u8; 4]], width: usize) -> Planes {
        if pixels.iter().all(|pixel| pixel[3] == 255) {
            return Planes {
                colour: colour(pixels),
                alpha: None,
            };
        }
        Planes {
            colour: colour(&without_hidden_colours(pixels, width)),
            alpha: Some(pixels.iter().map(|pixel| pixel[3]).collect()),
        }
    }

    /// Adds the Cb and Cr planes to a grey picture.
    pub fn add_colours(&mut self) {
        if self.colour.len() == 1 {
            let neutral = vec![NEUTRAL as u8; self.colour[0].len()];
            self.colour.extend([neutral.clone(), neutral]);
        }
    }

    /// Converts the planes to pixels: red, green, blue and alpha of each pixel.
    pub fn rgba(&self) -> Vec<u8> {
        let luma = &self.colour[0];
        let mut rgba = Vec::with_capacity(4 * luma.len());
        for (at, &luma) in luma.iter().enumerate() {
            let colour = match self.colour.as_slice() {
                [_, blue, red] => rgb([luma, blue[at], red[at]]),
                _ => [luma; 3],
            };
            rgba.extend(colour);
            rgba.push(self.alpha.as_ref().map_or(255, |alpha| alpha[at]));
        }
        rgba
    }
}

/// Returns only luma if red, green and blue are equal in all pixels; otherwise luma, Cb and Cr.
fn colour(pixels: &[[u8; 4]]) -> Vec<Vec<u8>> {
    if pixels.iter().all(|&[r, g, b, _]| r == g && g == b) {
        return vec![pixels.iter().map(|pixel| pixel[0]).collect()];
    }
    let mut planes: [Vec<u8>; 3] = std::array::from_fn(|_| Vec::with_capacity(pixels.len()));
    for &[r, g, b, _] in pixels {
        for (plane, sample) in planes.iter_mut().zip(samples([r, g, b])) {
            plane.push(sample);
        }
    }
    planes.into()
}

fn samples(rgb: [u8; 3]) -> [u8; 3] {
    let [r, g, b] = rgb.map(f32::from);
    let luma = RED * r + GREEN * g + BLUE * b;
    let blue = NEUTRAL + (b - luma) / (2.0 * (1.0 - BLUE));
    let red = NEUTRAL + (r - luma) / (2.0 * (1.0 - RED));
    [luma, blue, red].map(rounded)
}

fn rgb(samples: [u8; 3]) -> [u8; 3] {
    let [luma, blue, red] = samples.map(f32::from);
    let r = luma + 2.0 * (1.0 - RED) * (red - NEUTRAL);
    let b = luma + 2.0 * (1.0 - BLUE) * (blue - NEUTRAL);
    let g = (luma - RED * r - BLUE * b) / GREEN;
    [r, g, b].map(rounded)
}

/// Rounds to the nearest sample. The conversion keeps samples between 0 and 255.
fn rounded(value: f32) -> u8 {
    value.round() as u8
}

/// Replaces hidden colours by the mean of the visible colours in their block, because uniform colours need few bits. If
/// the block has no visible colours, the mean of the picture is used.
fn without_hidden_colours(pixels: &[[u8; 4]], width: usize) -> Vec<[u8; 4]> {
    let visible = pixels.iter().filter(|pixel| pixel[3] > 0);
    let of_picture = mean(visible).unwrap_or_default();
    let mut cleaned = pixels.to_vec();
    for rows in cleaned.chunks_mut(width * BLOCK) {
        for left in (0..width).step_by(BLOCK) {
            let columns = left..width.min(left + BLOCK);
            let block = rows.chunks(width).flat_map(|row| &row[columns.clone()]);
            let mean = mean(block.filter(|pixel| pixel[3] > 0)).unwrap_or(of_picture);
            for row in rows.chunks_mut(width) {
                let hidden = row[columns.clone()].iter_mut();
                for pixel in hidden.filter(|pixel| pixel[3] == 0) {
                    pixel[..3].copy_from_slice(&mean);
                }
            }
        }
    }
    cleaned
}

/// Returns the mean colour; `None` without pixels.
fn mean<'a>(pixels: impl Iterator<Item = &'a [u8; 4]>) -> Option<[u8; 3]> {
    let mut sums = [0_u64; 3];
    let mut count = 0;
    for pixel in pixels {
        count += 1;
        for (sum, &sample) in sums.iter_mut().zip(pixel) {
            *sum += u64::from(sample);
        }
    }
    (count > 0).then(|| sums.map(|sum| ((sum + count / 2) / count) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_come_back_to_within_rounding() {
        let levels = [0, 1, 17, 100, 127, 128, 200, 254, 255];
        for r in levels {
            for g in levels {
                for b in levels {
                    let back = rgb(samples([r, g, b]));
                    for (before, after) in [r, g, b].into_iter().zip(back) {
                        assert!(before.abs_diff(after) <= 1, "{r} {g} {b}: {back:?}");
                    }
                }
            }
        }
        // Table 4 of H.273: white, black, and pure blue, which has the largest Cb.
        assert_eq!(samples([255; 3]), [255, 128, 128]);
        assert_eq!(samples([0; 3]), [0, 128, 128]);
        assert_eq!(samples([0, 0, 255]), [29, 255, 107]);
    }

    #[test]
    fn a_picture_has_the_planes_that_it_needs() {
        let grey = Planes::of(&[[7, 7, 7, 255], [9, 9, 9, 255]], 2);
        assert_eq!(grey.colour, [[7, 9]]);
        assert_eq!(grey.alpha, None);
        assert_eq!(grey.rgba(), [7, 7, 7, 255, 9, 9, 9, 255]);
        // A hidden red does not make the picture coloured.
        let clear = Planes::of(&[[255, 0, 0, 0], [9, 9, 9, 128]], 1);
        assert_eq!(clear.colour, [[9, 9]]);
        assert_eq!(clear.alpha, Some(vec![0, 128]));
        let mut padded = Planes::of(&[[7, 7, 7, 255]], 1);
        padded.add_colours();
        assert_eq!(padded.colour, [[7], [128], [128]]);
        assert_eq!(padded.rgba(), [7, 7, 7, 255]);
        let coloured = Planes::of(&[[9, 9, 10, 255]], 1);
        assert_eq!((coloured.colour.len(), coloured.alpha), (3, None));
    }

    #[test]
    fn hidden_colours_become_those_of_their_surroundings() {
        // Two blocks in a row: one with white and hidden red, and one without visible pixels.
        let mut pixels = vec![[255, 0, 0, 0]; 16 * 9];
        pixels[3] = [250, 250, 250, 255];
        pixels[16 * 8] = [10, 10, 10, 1];
        let cleaned = without_hidden_colours(&pixels, 16);
        assert_eq!(cleaned[0], [250, 250, 250, 0]);
        assert_eq!(cleaned[3], pixels[3]);
        assert_eq!(cleaned[9], [130, 130, 130, 0]);
        assert_eq!(cleaned[16 * 8 + 1], [10, 10, 10, 0]);
        assert_eq!(
            without_hidden_colours(&[[5, 6, 7, 0]], 1),
            [[0, 0, 0, 0]],
            "nothing is visible"
        );
    }
}

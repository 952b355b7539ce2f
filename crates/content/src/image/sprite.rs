//! Combines several small images into one: a sprite.

use std::collections::HashSet;

use super::{Frame, ImageError, Picture, encode, guarded};

/// The maximum number of colours in a PNG palette.
const PALETTE: usize = 256;

/// Several still images combined into one picture.
#[derive(Clone, Debug)]
pub struct Sprite {
    picture: Picture,
    places: Vec<[u32; 2]>,
}

impl Sprite {
    /// Returns whether the picture can be part of a sprite: a still image with standard colours.
    pub fn can_have(picture: &Picture) -> bool {
        let has_own_meaning =
            picture.icc.is_some() || picture.has_other_colours || picture.exif.is_some();
        !picture.is_animated() && !has_own_meaning
    }

    /// Arranges the pictures in rows, the tallest first, so that the sprite is about square. Pixels are unchanged; the
    /// remaining area is transparent. [`Sprite::can_have`] must be true for all pictures, and there must be at least
    /// one picture.
    pub fn of(pictures: &[&Picture]) -> Sprite {
        let mut order: Vec<usize> = (0..pictures.len()).collect();
        order.sort_by_key(|&index| {
            let picture = pictures[index];
            (
                std::cmp::Reverse(picture.height),
                std::cmp::Reverse(picture.width),
                index,
            )
        });
        let area = |picture: &&Picture| u64::from(picture.width) * u64::from(picture.height);
        let side = pictures.iter().map(area).sum::<u64>().isqrt() as u32;
        let widest = pictures.iter().map(|picture| picture.width).max();
        let limit = side.max(widest.unwrap_or(1));
        let mut places = vec![[0; 2]; pictures.len()];
        let (mut left, mut top, mut below, mut width) = (0, 0, 0, 0);
        for index in order {
            let picture = pictures[index];
            if left > 0 && left + picture.width > limit {
                (left, top) = (0, below);
            }
            places[index] = [left, top];
            left += picture.width;
            width = width.max(left);
            below = below.max(top + picture.height);
        }
        let mut rgba = vec![0; width as usize * below as usize * 4];
        for (picture, &[left, top]) in pictures.iter().zip(&places) {
            let row_bytes = picture.width as usize * 4;
            let rows = picture.frames[0].rgba.chunks_exact(row_bytes);
            for (row, source) in rows.enumerate() {
                let start = ((top as usize + row) * width as usize + left as usize) * 4;
                rgba[start..start + row_bytes].copy_from_slice(source);
            }
        }
        let frame = Frame {
            rgba,
            delay: (0, 1),
        };
        let picture = Picture {
            width,
            height: below,
            frames: vec![frame],
            plays: 0,
            icc: None,
            exif: None,
            has_other_colours: false,
        };
        Sprite { picture, places }
    }

    /// Returns the position of each picture, in the order of the pictures: pixels from the left and from the top.
    pub fn places(&self) -> &[[u32; 2]] {
        &self.places
    }

    /// Returns the combined picture.
    pub fn picture(&self) -> &Picture {
        &self.picture
    }

    /// Encodes the sprite as PNG, with oxipng.
    ///
    /// # Errors
    ///
    /// If the encoder fails.
    pub fn png(&self) -> Result<Vec<u8>, ImageError> {
        guarded(|| encode::png(&self.picture))
    }
}

/// Divides the pictures into sprites whose colours fit into one palette, because PNG then needs one byte per pixel
/// instead of three or four. Pictures with more colours are placed in separate sprites. Returns the indices of the
/// pictures in each sprite.
pub fn by_palette(pictures: &[&Picture]) -> Vec<Vec<usize>> {
    let mut sprites: Vec<(HashSet<[u8; 4]>, Vec<usize>)> = Vec::new();
    let mut others = Vec::new();
    for (index, picture) in pictures.iter().enumerate() {
        let mut colours: HashSet<[u8; 4]> = HashSet::new();
        // The transparent pixels that fill the rows also need a palette entry.
        colours.insert([0; 4]);
        for pixel in picture.pixels() {
            colours.insert(*pixel);
            if colours.len() > PALETTE {
                break;
            }
        }
        if colours.len() > PALETTE {
            others.push(index);
            continue;
        }
        let fitting = sprites
            .iter_mut()
            .find(|(palette, _)| palette.union(&colours).count() <= PALETTE);
        match fitting {
            Some((palette, indices)) => {
                palette.extend(colours);
                indices.push(index);
            }
            None => sprites.push((colours, vec![index])),
        }
    }
    let mut all: Vec<_> = sprites.into_iter().map(|(_, indices)| indices).collect();
    if !others.is_empty() {
        all.push(others);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Format, Image, Limits};

    fn picture(width: u32, height: u32, color: impl Fn(u32) -> [u8; 4]) -> Picture {
        Picture {
            width,
            height,
            frames: vec![Frame {
                rgba: (0..width * height).flat_map(color).collect(),
                delay: (0, 1),
            }],
            plays: 0,
            icc: None,
            exif: None,
            has_other_colours: false,
        }
    }

    #[test]
    fn every_pixel_of_every_picture_is_in_the_file() {
        let sizes = [(3, 2), (1, 9), (5, 5), (16, 1), (2, 2)];
        let pictures: Vec<_> = sizes
            .iter()
            .enumerate()
            .map(|(number, &(width, height))| {
                picture(width, height, move |at| [number as u8, at as u8, 7, 255])
            })
            .collect();
        let pictures: Vec<_> = pictures.iter().collect();
        let sprite = Sprite::of(&pictures);
        let limits = Limits {
            pixels: 10_000,
            frames: 1,
        };
        let file = sprite.png().unwrap();
        let decoded = Image::decode(Format::Png, &file, limits).unwrap();
        assert!(decoded.picture().shows_the_same(sprite.picture()));
        let width = decoded.picture().width;
        let all = decoded.picture().pixels();
        let mut seen = HashSet::new();
        for (picture, &[left, top]) in pictures.iter().zip(sprite.places()) {
            for (at, pixel) in picture.pixels().iter().enumerate() {
                let (x, y) = (at as u32 % picture.width, at as u32 / picture.width);
                let place = ((top + y) * width + left + x) as usize;
                assert_eq!(&all[place], pixel);
                assert!(seen.insert(place), "two pictures overlap");
            }
        }
    }

    #[test]
    fn pictures_that_share_a_palette_share_a_sprite() {
        let few = |first: u8| picture(10, 10, move |at| [first, at as u8, 0, 255]);
        let many = picture(30, 30, |at| [at as u8, (at >> 8) as u8, 9, 255]);
        let pictures = [few(1), few(2), many.clone(), few(3), few(1), many];
        let pictures: Vec<_> = pictures.iter().collect();
        assert_eq!(by_palette(&pictures), [vec![0, 1, 4], vec![3], vec![2, 5]]);
    }
}

//! The images shown in the HTML page: the images with the largest savings, within a memory limit.

use fathometer_analysis::content_page::ImagePair;

/// The largest image that is shown, in bytes, including its treated file.
const LARGEST: usize = 4 << 20;
/// The maximum number of bytes of all shown files.
const MOST: usize = 24 << 20;

/// The images with the largest savings until now.
#[derive(Debug, Default)]
pub struct Shown {
    most: usize,
    /// The images in descending order of bytes saved.
    pairs: Vec<(usize, ImagePair)>,
    bytes: usize,
    too_large: u64,
}

impl Shown {
    /// Creates an empty selection for at most this number of images.
    pub fn new(most: usize) -> Shown {
        Shown {
            most,
            ..Shown::default()
        }
    }

    /// Adds an image of `before` bytes whose treated file has `after` bytes, if its saving is one of the largest.
    pub fn add(&mut self, before: usize, after: usize, pair: impl FnOnce() -> ImagePair) {
        if self.most == 0 || after >= before {
            return;
        }
        if before + after > LARGEST {
            self.too_large += 1;
            return;
        }
        let saving = before - after;
        let place = self.pairs.partition_point(|(larger, _)| *larger >= saving);
        self.pairs.insert(place, (saving, pair()));
        self.bytes += before + after;
        while self.pairs.len() > self.most || self.bytes > MOST {
            if let Some((_, smallest)) = self.pairs.pop() {
                self.bytes -= smallest.original.content.len() + smallest.treated.content.len();
            }
        }
    }

    /// Returns the images in descending order of savings, and the reason why other images are not shown.
    pub fn finish(self) -> (Vec<ImagePair>, Option<String>) {
        let why = (self.too_large > 0).then(|| {
            format!(
                "{} images are not shown: each is larger than {} MiB, including its treated file",
                self.too_large,
                LARGEST >> 20
            )
        });
        let pairs = self.pairs.into_iter().map(|(_, pair)| pair).collect();
        (pairs, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathometer_analysis::content_page::ImageFile;

    fn add(shown: &mut Shown, before: usize, after: usize) {
        shown.add(before, after, || {
            let file = |bytes| ImageFile {
                media_type: "image/png",
                content: vec![0; bytes],
            };
            ImagePair {
                original: file(before),
                treated: file(after),
                ..ImagePair::default()
            }
        });
    }

    #[test]
    fn the_largest_savings_stay_within_the_memory() {
        let mut shown = Shown::new(3);
        for (before, after) in [(10, 9), (100, 10), (50, 60), (30, 10), (40, 30)] {
            add(&mut shown, before, after);
        }
        let (pairs, why) = shown.finish();
        let sizes: Vec<_> = pairs
            .iter()
            .map(|pair| pair.original.content.len())
            .collect();
        assert_eq!((sizes, why), (vec![100, 30, 40], None));

        let mut shown = Shown::new(100);
        add(&mut shown, LARGEST, 1);
        for _ in 0..10 {
            add(&mut shown, LARGEST - 2, 1);
        }
        let (pairs, why) = shown.finish();
        assert_eq!(pairs.len(), MOST / LARGEST);
        assert!(why.unwrap().starts_with("1 images"));
    }

    #[test]
    fn without_a_page_nothing_is_kept() {
        let mut shown = Shown::new(0);
        shown.add(10, 1, || unreachable!("no page is written"));
        assert!(shown.finish().0.is_empty());
    }
}

//! The files of the Microscape page and their sizes, read from `workloads/microscape_sizes.csv`.
//!
//! The paper states the number of images, their total size, and the number of images in each range of sizes. The table
//! is a set of files that matches all of these figures.

/// The table, as CSV.
const TABLE: &str = include_str!("../../../../workloads/microscape_sizes.csv");

/// The kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An image of one frame.
    Static,
    /// An animated image that loops.
    Animated,
}

/// An image of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Image {
    /// The file name of the image.
    pub name: &'static str,
    /// Whether the image is static or animated.
    pub kind: Kind,
    /// The size of the image in bytes.
    pub size: usize,
    /// Whether HTML and CSS can replace the image.
    pub is_replaceable: bool,
}

/// Returns the name and the size in bytes of the page's HTML.
pub(super) fn html() -> (&'static str, usize) {
    rows()
        .find(|row| row[1] == "html")
        .map(|row| (row[0], size(row)))
        .expect("the table has a row of type html")
}

/// Returns the images in the order of the table.
pub(super) fn images() -> Vec<Image> {
    rows()
        .filter_map(|row| {
            let kind = match row[1] {
                "static" => Kind::Static,
                "animated" => Kind::Animated,
                _ => return None,
            };
            Some(Image {
                name: row[0],
                kind,
                size: size(row),
                is_replaceable: row[3] == "1",
            })
        })
        .collect()
}

fn rows() -> impl Iterator<Item = [&'static str; 4]> {
    TABLE.lines().skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        let mut next = || fields.next();
        Some([next()?, next()?, next()?, next()?])
    })
}

fn size(row: [&'static str; 4]) -> usize {
    row[2]
        .parse()
        .expect("the table has numbers in the size column")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the section "Test Web Site" of the paper, and the totals of its section on content changes.
    #[test]
    fn the_table_satisfies_everything_the_paper_prints() {
        let images = images();
        assert_eq!(html(), ("microscape.html", 42 * 1024));
        assert_eq!(images.len(), 42);
        let within = |low: usize, high: usize| {
            images
                .iter()
                .filter(|image| (low..high).contains(&image.size))
                .count()
        };
        assert_eq!(within(0, 1024), 19);
        assert_eq!(within(1024, 2048), 7);
        assert_eq!(within(2048, 3072), 6);
        let sum = |kind| -> usize {
            images
                .iter()
                .filter(|image| image.kind == kind)
                .map(|image| image.size)
                .sum()
        };
        assert_eq!(sum(Kind::Static), 103_299);
        assert_eq!(sum(Kind::Animated), 24_988);
        let sizes: Vec<usize> = images.iter().map(|image| image.size).collect();
        assert_eq!(sizes.iter().min(), Some(&70));
        assert_eq!(sizes.iter().max(), Some(&40_960));
        let replaceable = images.iter().filter(|image| image.is_replaceable);
        let sizes_of: Vec<usize> = replaceable.map(|image| image.size).collect();
        // The paper states 23 images of 14 791 bytes.
        assert_eq!((sizes_of.len(), sizes_of.iter().sum()), (23, 14_791));
        assert!(2 * (40_960 + sum(Kind::Animated)) > sizes.iter().sum::<usize>());
    }
}

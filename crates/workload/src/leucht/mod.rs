//! The three reference pages of Leucht and Gratchoff (University of Amsterdam, 2015).
//!
//! The paper states the size of each page and its number of links: 20 kB with 2, 600 kB with 7, 1600 kB with 54. The
//! distribution of the bytes over the files was chosen for this program (`workloads/leucht15.csv`). 1 kB is 1000 bytes.

use crate::builder::Builder;
use crate::workload::Workload;

/// The table with one row per group of files: page, type, bytes of each file, and number of such files. The HTML file
/// comes first.
const TABLE: &str = include_str!("../../../../workloads/leucht15.csv");

/// One of the paper's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// `small.html`.
    Small,
    /// `medium.html`.
    Medium,
    /// `large.html`.
    Large,
}

impl Size {
    const fn name(self) -> &'static str {
        match self {
            Size::Small => "small",
            Size::Medium => "medium",
            Size::Large => "large",
        }
    }
}

/// Generates the page, which is requested repeatedly. Its HTML refers to all other files.
pub fn page(size: Size) -> Workload {
    let mut builder = Builder::default();
    let mut members = Vec::new();
    let page = size.name();
    for row in TABLE.lines().skip(1) {
        let fields: Vec<&str> = row.split(',').collect();
        if fields[0] != page {
            continue;
        }
        let number = |field: usize| -> u64 {
            fields[field]
                .parse()
                .expect("the table has numbers in this column")
        };
        for n in 0..number(3) {
            let (path, content_type) = match fields[1] {
                "html" => (format!("/{page}.html"), "text/html"),
                "css" => (format!("/{page}/{n}.css"), "text/css"),
                "js" => (format!("/{page}/{n}.js"), "text/javascript"),
                "png" => (format!("/{page}/{n}.png"), "image/png"),
                _ => (format!("/{page}/{n}.jpg"), "image/jpeg"),
            };
            members.push(builder.file(&path, content_type, number(2)));
        }
    }
    builder.notes.push(
        "the paper states only the page's size and number of links; the sizes of the files were chosen for this program"
            .to_owned(),
    );
    builder.one_page(&format!("leucht15-{page}"), &members, None)
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;

    use super::*;

    /// Table 1 of the paper.
    #[test]
    fn pages_are_as_printed() {
        let pages = [
            (Size::Small, 20, 2),
            (Size::Medium, 600, 7),
            (Size::Large, 1600, 54),
        ];
        for (size, kilobytes, links) in pages {
            let workload = page(size);
            let statistics = workload.statistics();
            assert_eq!(statistics.total.0, kilobytes * 1000, "{size:?}");
            assert_eq!(statistics.mean_files_per_page, f64::from(links + 1));
            let site = workload.site(0.3, Seed(1));
            let html = site.files[0].body.bytes().into_owned();
            let html = String::from_utf8(html).unwrap();
            for file in &site.files[1..] {
                assert!(html.contains(&file.path), "{size:?} names {}", file.path);
            }
        }
    }
}

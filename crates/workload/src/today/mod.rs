//! A present-day page: the median home page on a desktop in July 2025, according to the HTTP Archive
//! (`workloads/modern_page.csv`).
//!
//! Its totals are the published medians: 2862 KB in 80 requests, with separate medians for HTML, style sheets, fonts,
//! scripts and images. The medians of the types do not sum to the median of the total. The difference is assigned to
//! JSON texts that scripts request, so that the types and the total match the published values. Sizes within a type
//! follow the published percentiles of that type's files.
//!
//! The dependency graph: the HTML refers to style sheets, scripts, frames and the first half of the images;
//! style sheets refer to the fonts; scripts refer to the other images and to the JSON texts.

use crate::builder::Builder;
use crate::plan::TargetId;
use crate::workload::Workload;

const TABLE: &str = include_str!("../../../../workloads/modern_page.csv");
/// The source of the used rows.
const SOURCE: &str = "Web Almanac 2025 page-weight (July 2025 crawl)";
/// Bytes per KB in the table.
const KB: u64 = 1024;
/// The minimum size of a file in bytes.
const SMALLEST: u64 = 160;

/// Creates the page, which is requested repeatedly.
pub fn page() -> Workload {
    let bytes = |kind: &str| median(&format!("median_home_desktop.bytes.{kind}")) * KB;
    let count = |kind: &str| median(&format!("median_home.requests.{kind}")) as usize;
    let kinds = ["html", "css", "font", "js", "image"];
    let rest_bytes =
        median("median_home_desktop.total") * KB - kinds.map(bytes).iter().sum::<u64>();
    let rest = median("requests.home.desktop") as usize - kinds.map(count).iter().sum::<usize>();

    let mut page = Graph::default();
    // The main document has most of the HTML's bytes; frames are small.
    let frames = count("html") - 1;
    let frame = KB;
    page.add(
        "/index.html",
        "text/html",
        bytes("html") - frames as u64 * frame,
        0,
    );
    let styles = page.add_all(
        "css",
        "text/css",
        &sizes("js", count("css"), bytes("css")),
        &[0],
    );
    let scripts = page.add_all(
        "js",
        "text/javascript",
        &sizes("js", count("js"), bytes("js")),
        &[0],
    );
    page.add_all("html", "text/html", &vec![frame; frames], &[0]);
    let images = sizes("image", count("image"), bytes("image"));
    // Every second size is taken, so that both halves contain small and large images.
    let half = |late: usize| -> Vec<u64> { images.iter().copied().skip(late).step_by(2).collect() };
    page.add_all("webp", "image/webp", &half(0), &[0]);
    page.add_all(
        "woff2",
        "font/woff2",
        &sizes("font", count("font"), bytes("font")),
        &styles,
    );
    page.add_all("jpg", "image/jpeg", &half(1), &scripts);
    page.add_all(
        "json",
        "application/json",
        &sizes("js", rest, rest_bytes),
        &scripts,
    );

    let Graph {
        mut builder,
        members,
        named_by,
        ..
    } = page;
    builder.notes.push(format!(
        "{rest} requests and {} KB are JSON texts: the difference between the published medians of \
         the page and of its types",
        rest_bytes / KB
    ));
    builder.one_page("today", &members, Some(&named_by))
}

/// The members of a page, and their dependencies.
#[derive(Default)]
struct Graph {
    builder: Builder,
    members: Vec<TargetId>,
    named_by: Vec<u16>,
}

impl Graph {
    /// Adds a file to which the member with index `by` refers. Returns the index of the file.
    fn add(&mut self, path: &str, content_type: &'static str, size: u64, by: u16) -> u16 {
        self.members
            .push(self.builder.file(path, content_type, size));
        self.named_by.push(by);
        self.named_by.len() as u16 - 1
    }

    /// Adds files of one type, to which the members with indexes `by` refer round-robin. Returns the indexes of the
    /// files.
    fn add_all(
        &mut self,
        extension: &str,
        content_type: &'static str,
        sizes: &[u64],
        by: &[u16],
    ) -> Vec<u16> {
        let mut places = Vec::new();
        for ((n, &size), &by) in sizes.iter().enumerate().zip(by.iter().cycle()) {
            places.push(self.add(
                &format!("/{extension}/{n}.{extension}"),
                content_type,
                size,
                by,
            ));
        }
        places
    }
}

/// Returns `count` sizes that sum to `total` bytes, the largest first. They are distributed according to the published
/// percentiles for this kind of file.
fn sizes(kind: &str, count: usize, total: u64) -> Vec<u64> {
    let metric = format!("file_size.{kind}.desktop");
    let mut points = vec![(0.0, 0.0)];
    points.extend(rows(&metric));
    // No value is published above the 90th percentile, so the maximum is assumed to be twice the 90th percentile.
    let largest = points.last().map_or(1.0, |&(_, size)| 2.0 * size);
    points.push((100.0, largest));
    let at = |percentile: f64| {
        let next = points.partition_point(|&(p, _)| p <= percentile).max(1);
        let ((low, from), (high, to)) = (points[next - 1], points[next]);
        from + (to - from) * (percentile - low) / (high - low)
    };
    let shape: Vec<f64> = (0..count)
        .rev()
        .map(|n| at((n as f64 + 0.5) * 100.0 / count as f64))
        .collect();
    let sum: f64 = shape.iter().sum();
    let mut sizes: Vec<u64> = shape
        .iter()
        .map(|size| ((size / sum * total as f64) as u64).max(SMALLEST))
        .collect();
    // The largest file absorbs the rounding error.
    let others: u64 = sizes.iter().skip(1).sum();
    if let Some(first) = sizes.first_mut() {
        *first = total - others;
    }
    sizes
}

/// Returns the median of a metric.
fn median(metric: &str) -> u64 {
    rows(metric)
        .find(|&(percentile, _)| percentile == 50.0)
        .map(|(_, value)| value as u64)
        .expect("the table has the metric")
}

/// Percentiles and values of a metric.
fn rows(metric: &str) -> impl Iterator<Item = (f64, f64)> {
    TABLE.lines().filter_map(move |row| {
        let mut fields = row.split(',');
        if fields.next() != Some(SOURCE) || fields.next() != Some(metric) {
            return None;
        }
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;

    use super::*;
    use crate::plan::PageId;

    #[test]
    fn totals_are_as_published() {
        let statistics = page().statistics();
        assert_eq!(statistics.files, 80);
        assert_eq!(statistics.total.0, 2862 * 1024);
        let of = |content_type: &str| {
            let of_type = statistics.by_type[content_type];
            (of_type.files, of_type.total.0 / 1024)
        };
        assert_eq!(of("text/html"), (3, 22));
        assert_eq!(of("text/css"), (8, 82));
        assert_eq!(of("font/woff2"), (4, 139));
        assert_eq!(of("text/javascript"), (22, 697));
        let images = [of("image/webp"), of("image/jpeg")];
        assert_eq!((images[0].0, images[1].0), (10, 9));
        let bytes = ["image/webp", "image/jpeg"].map(|t| statistics.by_type[t].total.0);
        assert_eq!(bytes.iter().sum::<u64>(), 1058 * 1024);
    }

    #[test]
    fn the_graph_is_html_to_styles_and_scripts_to_fonts_and_late_images() {
        let workload = page();
        let targets = workload.plan.pages.get(PageId(0));
        let extension = |place: usize| {
            let target = &workload.plan.targets[targets.members[place].0 as usize];
            target.path.rsplit('.').next().unwrap()
        };
        for (place, &by) in targets.named_by.iter().enumerate().skip(1) {
            let wanted = match extension(place) {
                "woff2" => "css",
                "jpg" | "json" => "js",
                _ => "html",
            };
            assert_eq!(extension(usize::from(by)), wanted, "{}", extension(place));
        }
        // The generated files contain the references.
        let site = workload.site(0.3, Seed(1));
        let page = &site.pages[0];
        for (&file, by) in page.embedded.iter().zip(&page.named_by) {
            let by = by.map_or(page.base, |by| page.embedded[usize::from(by)]);
            let bytes = site.file(by).body.bytes().into_owned();
            let text = String::from_utf8(bytes).unwrap();
            let (path, by) = (&site.file(file).path, &site.file(by).path);
            assert!(text.contains(path), "{by} names {path}");
        }
    }
}

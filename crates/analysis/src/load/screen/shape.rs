//! A small plot of a distribution of times: its density on a logarithmic axis, with its percentiles.

use std::time::Duration;

use super::super::Distribution;
use super::super::lines::HEAD;
use super::super::quantity::time;

/// Width in columns, one for each class of times.
const COLUMNS: usize = 72;
/// Height in lines; each line has eight levels.
const LINES: usize = 4;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The percentiles that are marked under the axis, if there is room.
const MARKS: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// The smallest number of times for a plot.
const FEWEST: u64 = 20;

/// Draws the plot under a heading; empty if there are too few times or all times are equal.
pub(super) fn render(head: &str, times: &Distribution) -> String {
    let (Some(least), Some(most)) = (times.min(), times.max()) else {
        return String::new();
    };
    // Zero has no logarithm.
    let axis = Axis::new(least.max(Duration::from_nanos(1)), most);
    if times.count() < FEWEST || axis.span < 0.01 {
        return String::new();
    }
    let mut text = String::new();
    let heights = heights(&axis.density(times));
    for row in (0..LINES).rev() {
        let blocks: String = heights
            .iter()
            .map(|&height| BLOCKS[height.saturating_sub(8 * row).min(8)])
            .collect();
        let head = if row + 1 == LINES { head } else { "" };
        text.push_str(format!("{head:<HEAD$}{blocks}").trim_end());
        text.push('\n');
    }
    let mut marks = vec![' '; COLUMNS + 8];
    let mut free = 0;
    for (name, quantile) in MARKS {
        let column = times.quantile(quantile).map_or(0, |at| axis.column(at));
        if column >= free {
            for (place, letter) in name.chars().enumerate() {
                marks[column + place] = letter;
            }
            free = column + name.len() + 1;
        }
    }
    let marks: String = marks.into_iter().collect();
    text.push_str(format!("{:HEAD$}{marks}", "").trim_end());
    let (low, high) = (time(least), format!("{} (log scale)", time(most)));
    let gap = COLUMNS.saturating_sub(low.chars().count() + high.chars().count());
    text.push_str(&format!("\n{:HEAD$}{low}{:gap$}{high}\n", "", ""));
    text
}

/// A logarithmic axis of times.
struct Axis {
    /// The logarithm of the first time, in nanoseconds.
    start: f64,
    /// The logarithm of the ratio of the last time to the first.
    span: f64,
}

impl Axis {
    fn new(least: Duration, most: Duration) -> Axis {
        let start = (least.as_nanos() as f64).ln();
        Axis {
            start,
            span: (most.as_nanos() as f64).ln() - start,
        }
    }

    fn column(&self, at: Duration) -> usize {
        let share = ((at.as_nanos().max(1) as f64).ln() - self.start) / self.span;
        ((share * COLUMNS as f64).max(0.0) as usize).min(COLUMNS - 1)
    }

    /// The number of times in each column.
    fn density(&self, times: &Distribution) -> [u64; COLUMNS] {
        let mut columns = [0; COLUMNS];
        for (nanos, number) in times.recorded() {
            columns[self.column(Duration::from_nanos(nanos))] += number;
        }
        columns
    }
}

/// Heights in eighths of a line, in proportion to the counts. A non-empty column has a height of at least one.
fn heights(counts: &[u64]) -> Vec<usize> {
    let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let levels = 8.0 * LINES as f64;
    let height = |&count: &u64| (count as f64 / most * levels).ceil() as usize;
    counts.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_of_one_in_a_thousand_is_visible_and_marked() {
        let mut times = Distribution::new();
        (0..998).for_each(|n| times.record(Duration::from_micros(100 + n % 7)));
        (0..2).for_each(|_| times.record(Duration::from_millis(50)));
        let text = render("latency", &times);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), LINES + 2);
        assert!(lines[0].starts_with("latency       █"), "{text}");
        assert!(lines[LINES - 1].ends_with('▁'), "{text}");
        assert!(lines[LINES].starts_with("              p50"), "{text}");
        assert!(lines[LINES].ends_with("p99.9"), "{text}");
        assert!(lines[LINES + 1].ends_with("50.0 ms (log scale)"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn equal_times_and_few_times_have_no_shape() {
        let mut times = Distribution::new();
        assert_eq!(render("latency", &times), "");
        (0..100).for_each(|_| times.record(Duration::from_millis(5)));
        assert_eq!(render("latency", &times), "");
        let mut few = Distribution::new();
        (1..10).for_each(|n| few.record(Duration::from_millis(n)));
        assert_eq!(render("latency", &few), "");
    }
}

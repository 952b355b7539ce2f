//! The history of a test in a bounded number of points.

use std::time::Duration;

use fathometer_analysis::load::Interval;

/// One or more consecutive intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    start: Duration,
    length: Duration,
    planned: u64,
    completed: u64,
    /// Median, 90th and 99th percentile, maximum. For several intervals, the largest value of each: percentiles
    /// cannot be added, and slow intervals must not be smoothed away.
    pub(super) latency: [Option<Duration>; 4],
}

/// Points in the order of time. If there are too many points, neighbours are merged in pairs.
#[derive(Debug)]
pub(super) struct History {
    points: Vec<Point>,
    /// The number of intervals in a point.
    every: usize,
    /// The number of intervals in the last point.
    filled: usize,
}

impl History {
    /// The maximum number of points, which is larger than the number of columns of any terminal.
    const MOST: usize = 1024;

    pub(super) fn new() -> History {
        // Writes all points once, because reserved memory becomes resident only when it is written.
        let mut points = vec![Point::NOTHING; History::MOST];
        points.clear();
        History {
            points,
            every: 1,
            filled: 0,
        }
    }

    pub(super) fn push(&mut self, interval: &Interval) {
        let point = Point::from(interval);
        match self.points.last_mut() {
            Some(last) if self.filled < self.every => {
                last.extend(&point);
                self.filled += 1;
                return;
            }
            _ => {}
        }
        if self.points.len() == History::MOST {
            self.halve();
        }
        self.points.push(point);
        self.filled = 1;
    }

    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    /// The end of the last interval.
    pub(super) fn end(&self) -> Duration {
        self.points
            .last()
            .map_or(Duration::ZERO, |point| point.start + point.length)
    }

    fn halve(&mut self) {
        let halves = self.points.len() / 2;
        for n in 0..halves {
            let mut point = self.points[2 * n];
            point.extend(&self.points[2 * n + 1]);
            self.points[n] = point;
        }
        self.points.truncate(halves);
        self.every *= 2;
    }
}

impl Point {
    /// An interval without events.
    const NOTHING: Point = Point {
        start: Duration::ZERO,
        length: Duration::ZERO,
        planned: 0,
        completed: 0,
        latency: [None; 4],
    };

    /// The middle of the point, in seconds from the start of the test.
    pub(super) fn middle(&self) -> f64 {
        (self.start + self.length / 2).as_secs_f64()
    }

    /// Exchanges completed per second.
    pub(super) fn achieved(&self) -> f64 {
        self.per_second(self.completed)
    }

    /// Exchanges planned per second.
    pub(super) fn offered(&self) -> f64 {
        self.per_second(self.planned)
    }

    pub(super) fn extend(&mut self, next: &Point) {
        self.length = (next.start + next.length).saturating_sub(self.start);
        self.planned += next.planned;
        self.completed += next.completed;
        for (own, other) in self.latency.iter_mut().zip(next.latency) {
            *own = (*own).max(other);
        }
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.length.is_zero() {
            return 0.0;
        }
        count as f64 / self.length.as_secs_f64()
    }
}

impl From<&Interval> for Point {
    fn from(interval: &Interval) -> Point {
        Point {
            start: interval.start,
            length: interval.length,
            planned: interval.planned,
            completed: interval.completed,
            latency: interval.latency,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: u64, slow: bool) -> Interval {
        let millis = if slow { 900 } else { 1 };
        Interval {
            start: Duration::from_secs(n),
            length: Duration::from_secs(1),
            planned: 100,
            completed: 90,
            errors: 0,
            received: fathometer_model::Bytes(0),
            latency: [Some(Duration::from_millis(millis)); 4],
            connections: 1,
            send_lag_p99: None,
        }
    }

    #[test]
    fn a_timeline_of_a_day_is_as_large_as_one_of_an_hour_and_keeps_the_slowest() {
        let day = 86_400;
        let mut history = History::new();
        for n in 0..day {
            history.push(&second(n, n == 40_000));
        }
        let points = history.points();
        assert!(points.len() <= History::MOST);
        assert!(points.len() > History::MOST / 2);
        assert_eq!(history.end(), Duration::from_secs(day));
        let completed: u64 = points.iter().map(|point| point.completed).sum();
        assert_eq!(completed, 90 * day);
        let mut end = Duration::ZERO;
        for point in points {
            assert_eq!(point.start, end);
            assert!((point.achieved() - 90.0).abs() < 1e-9);
            assert!((point.offered() - 100.0).abs() < 1e-9);
            end = point.start + point.length;
        }
        let slow = points
            .iter()
            .filter(|point| point.latency[3] == Some(Duration::from_millis(900)))
            .count();
        assert_eq!(slow, 1);
    }
}

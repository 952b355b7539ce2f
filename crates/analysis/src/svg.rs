//! Common code of charts: scales, ticks and labels.

/// Maps values to positions on a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    logarithmic: bool,
}

impl Scale {
    /// A linear scale: values from `low` to `high` at positions from `start` to `end`.
    pub(crate) fn linear(low: f64, high: f64, start: f64, end: f64) -> Scale {
        let high = if high > low { high } else { low + 1.0 };
        Scale {
            low,
            high,
            start,
            end,
            logarithmic: false,
        }
    }

    /// A logarithmic scale. Both values must be above zero.
    pub(crate) fn logarithmic(low: f64, high: f64, start: f64, end: f64) -> Scale {
        Scale {
            logarithmic: true,
            ..Scale::linear(low, high, start, end)
        }
    }

    /// A logarithmic scale from `least` to `most`, with a margin of 10 % at both ends. It spans at least a factor of
    /// two. `least` must be above zero.
    pub(crate) fn logarithmic_around(least: f64, most: f64, start: f64, end: f64) -> Scale {
        Scale::logarithmic(0.9 * least, (1.1 * most).max(2.0 * least), start, end)
    }

    /// The position of a value. A value beyond an end has the position of the end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.start + share * (self.end - self.start)
    }

    /// Whether a value lies beyond an end.
    pub(crate) fn is_beyond(&self, value: f64) -> bool {
        value < self.low || value > self.high
    }

    /// About `count` round values between the ends.
    pub(crate) fn ticks(&self, count: usize) -> Vec<f64> {
        if self.logarithmic {
            return self.logarithmic_ticks(count);
        }
        let rough = (self.high - self.low) / count as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|digit| digit * power)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(10.0 * power);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }

    fn logarithmic_ticks(&self, count: usize) -> Vec<f64> {
        const SETS: [&[f64]; 4] = [
            &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
            &[1.0, 2.0, 3.0, 5.0],
            &[1.0, 3.0],
            &[1.0],
        ];
        let mut ticks = Vec::new();
        for set in SETS {
            let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            ticks = powers
                .flat_map(|power| set.iter().map(move |digit| digit * 10f64.powi(power)))
                .filter(|value| !self.is_beyond(*value))
                .collect();
            if ticks.len() <= count + 1 {
                break;
            }
        }
        if ticks.len() < 2 {
            return Scale {
                logarithmic: false,
                ..*self
            }
            .ticks(count);
        }
        ticks
    }
}

/// A coordinate with one decimal, which exceeds the resolution of a screen.
pub(crate) fn xy(value: f64) -> String {
    format!("{value:.1}")
}

/// The width of the column of row labels before the bars: the longest label and a gap.
pub(crate) fn label_width<'a>(labels: impl Iterator<Item = &'a str>) -> f64 {
    /// The average width of a character in the report's sans-serif font at the size of labels, with a margin.
    const CHARACTER: f64 = 6.7;
    let longest = labels.map(|label| label.chars().count()).max().unwrap_or(0);
    (longest as f64 * CHARACTER + 14.0).clamp(60.0, 320.0)
}

/// Pixels per `rem` in a window of usual width. Lengths in `rem` scale with the text in wide windows and in print.
pub(crate) const REM: f64 = 16.0;

/// The style of a picture of this width. Its text is about as large as the surrounding text.
pub(crate) fn natural_width(width: f64) -> String {
    format!(
        "max-width:{:.1}rem;min-width:{:.1}rem",
        width * 1.2 / REM,
        width * 0.72 / REM
    )
}

#[cfg(test)]
mod tests {
    use fathometer_model::digits::trimmed;

    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let labels =
            |scale: Scale| -> Vec<String> { scale.ticks(4).into_iter().map(trimmed).collect() };
        assert_eq!(
            labels(Scale::linear(0.0, 7.3, 0.0, 1.0)),
            ["0", "2", "4", "6"]
        );
        assert_eq!(
            labels(Scale::linear(-0.05, 0.05, 0.0, 1.0)),
            ["-0.05", "0", "0.05"]
        );
        assert_eq!(
            labels(Scale::logarithmic(0.9, 11.0, 0.0, 1.0)),
            ["1", "2", "3", "5", "10"]
        );
        assert_eq!(
            labels(Scale::logarithmic(0.97, 1.06, 0.0, 1.0)),
            ["1", "1.05"]
        );
    }

    #[test]
    fn places_stay_on_the_line() {
        let scale = Scale::logarithmic(1.0, 100.0, 10.0, 30.0);
        assert_eq!(scale.place(10.0), 20.0);
        assert_eq!(scale.place(1e9), 30.0);
        assert!(scale.is_beyond(0.5));
        // A scale of zero length still returns positions.
        assert_eq!(Scale::linear(2.0, 2.0, 0.0, 1.0).place(2.0), 0.0);
    }
}

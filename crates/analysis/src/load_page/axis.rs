//! Axes of the charts: positions and round labels.

/// Maps values to positions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    is_log: bool,
}

impl Axis {
    /// A linear axis from zero.
    pub(super) fn linear(high: f64, start: f64, end: f64) -> Axis {
        Axis {
            low: 0.0,
            high: if high > 0.0 { high } else { 1.0 },
            start,
            end,
            is_log: false,
        }
    }

    /// A logarithmic axis; both values are above zero, and a short range is extended.
    pub(super) fn logarithmic(low: f64, high: f64, start: f64, end: f64) -> Axis {
        let (low, high) = (low * 0.9, (high * 1.1).max(low * 2.0));
        Axis {
            low,
            high,
            start,
            end,
            is_log: true,
        }
    }

    /// The position of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = match self.is_log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.start + share * (self.end - self.start)
    }

    /// A few round values within the axis.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if !self.is_log {
            let rough = self.high / 5.0;
            let power = 10f64.powf(rough.log10().floor());
            let digits = [1.0, 2.0, 5.0, 10.0];
            let step = digits
                .into_iter()
                .map(|digit| digit * power)
                .find(|step| *step >= rough);
            let step = step.unwrap_or(10.0 * power);
            let count = (self.high / step + 1e-9).floor() as u32;
            return (0..=count).map(|n| f64::from(n) * step).collect();
        }
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let of = |digits: &[f64]| -> Vec<f64> {
            let all = powers
                .clone()
                .flat_map(|power| digits.iter().map(move |d| d * 10f64.powi(power)));
            all.filter(|value| (self.low..=self.high).contains(value))
                .collect()
        };
        let (fine, coarse) = (of(&[1.0, 2.0, 5.0]), of(&[1.0]));
        if fine.len() <= 9 || coarse.len() < 2 {
            fine
        } else {
            coarse
        }
    }
}

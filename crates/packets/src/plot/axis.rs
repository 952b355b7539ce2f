//! An axis from zero to the largest value, with round ticks.

/// An axis from zero to `most`.
pub(super) struct Axis {
    /// The largest value.
    pub(super) most: f64,
    step: f64,
    /// The divisor of the values in the labels.
    scale: f64,
    /// Number of decimals of a label.
    decimals: usize,
}

impl Axis {
    /// Creates an axis with about `count` ticks at most, at multiples of 1, 2 or 5 times a power of ten.
    pub(super) fn new(most: f64, count: usize) -> Axis {
        let most = if most > 0.0 { most } else { 1e-3 };
        let rough = most / count as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(10.0 * power);
        let scale = match most {
            most if most >= 10e6 => 1e6,
            most if most >= 10e3 => 1e3,
            _ => 1.0,
        };
        let decimals = (-(step / scale).log10().floor()).clamp(0.0, 9.0) as usize;
        Axis {
            most,
            step,
            scale,
            decimals,
        }
    }

    /// Returns the value at the end of the axis: slightly more than the largest value.
    pub(super) fn span(&self) -> f64 {
        self.most * 1.02
    }

    /// Returns the unit of the labels: the plain unit, a thousand units, or a million units.
    pub(super) fn unit(
        &self,
        one: &'static str,
        kilo: &'static str,
        mega: &'static str,
    ) -> &'static str {
        match self.scale {
            1e6 => mega,
            1e3 => kilo,
            _ => one,
        }
    }

    /// Returns the values and labels of the ticks.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let count = (self.span() / self.step).floor() as u32;
        (0..=count)
            .map(|n| {
                let value = f64::from(n) * self.step;
                let decimals = if n == 0 { 0 } else { self.decimals };
                (value, format!("{:.decimals$}", value / self.scale))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let labels = |most, count| -> Vec<String> {
            Axis::new(most, count)
                .ticks()
                .into_iter()
                .map(|tick| tick.1)
                .collect()
        };
        assert_eq!(labels(1.0, 5), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(190_735.0, 4), ["0", "50", "100", "150"]);
        assert_eq!(labels(0.0, 2), ["0", "0.0005", "0.0010"]);
        assert_eq!(Axis::new(190_735.0, 4).unit("B", "kB", "MB"), "kB");
        for most in [1e-9, 0.37, 53.3, 9_999.0, 1e12] {
            let count = Axis::new(most, 8).ticks().len();
            assert!((3..=10).contains(&count), "{most}: {count} ticks");
        }
    }
}

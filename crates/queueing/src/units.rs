//! Times and rates of models, as floating-point numbers.
//!
//! The quantities of `fathometer_model` are limited to the ranges that a user may set; results of a model have no such limits.

/// A time, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

/// Events per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct PerSecond(pub f64);

impl Seconds {
    /// Converts a time from milliseconds.
    pub fn from_ms(milliseconds: f64) -> Seconds {
        Seconds(milliseconds / 1e3)
    }

    /// The time in milliseconds.
    pub fn ms(self) -> f64 {
        self.0 * 1e3
    }
}

impl std::ops::Add for Seconds {
    type Output = Seconds;

    fn add(self, other: Seconds) -> Seconds {
        Seconds(self.0 + other.0)
    }
}

impl std::iter::Sum for Seconds {
    fn sum<I: Iterator<Item = Seconds>>(times: I) -> Seconds {
        Seconds(times.map(|time| time.0).sum())
    }
}

/// Throughput times time: the mean number of customers that are present, by Little's law.
impl std::ops::Mul<Seconds> for PerSecond {
    type Output = f64;

    fn mul(self, time: Seconds) -> f64 {
        self.0 * time.0
    }
}

//! The goal of a search. Terms of RFC 9971 (Multiple Loss Ratio Search) are in parentheses.

use crate::slo_limit::SloLimit;

/// Growth of the load while the capacity is not bracketed.
pub(crate) const GROWTH: f64 = 4.0;

/// The goal of a search. Times are seconds; loads are requests per second, or users.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// The largest relative width of the interval (RFC 9971: goal width): 0.02 is 2 %.
    pub width: f64,
    /// The smallest probability with which the interval contains the capacity.
    pub confidence: f64,
    /// The load of the first trial.
    pub start: f64,
    /// The largest load that is tried.
    pub most: f64,
    /// Whether loads are whole numbers (users).
    pub whole: bool,
    /// The warm-up at the start of each trial, which is not measured.
    pub warm_up: f64,
    /// The shortest trial that can show that a load works (RFC 9971: goal final trial duration).
    pub final_trial: f64,
    /// The longest trial.
    pub longest_trial: f64,
    /// Time after which an exchange counts as failed; 0: no exchange times out. Short trials of an SLO without a
    /// latency limit may be longer by twice this time, because the outcome of an exchange is known only then.
    pub timeout: f64,
    /// A load works only if a rise of its latency would not violate the SLO within this time.
    pub horizon: f64,
    /// No trial starts after this time.
    pub budget: f64,
    /// Maximum number of repeats of a trial that other work of the machine may have made invalid.
    pub noise_repeats: u32,
}

impl Default for Goal {
    fn default() -> Goal {
        Goal {
            width: 0.02,
            confidence: 0.95,
            start: 100.0,
            most: 1e6,
            whole: false,
            warm_up: 1.0,
            final_trial: 10.0,
            longest_trial: 120.0,
            timeout: 0.0,
            horizon: 300.0,
            budget: 900.0,
            noise_repeats: 3,
        }
    }
}

impl Goal {
    /// The unit of loads, for messages.
    pub(crate) fn unit(&self) -> &'static str {
        match self.whole {
            true => "users",
            false => "requests per second",
        }
    }

    /// The shortest trial that can show that a load fails: long enough for a cold start to pass.
    pub fn shortest_failing(&self) -> f64 {
        self.final_trial / 2.0
    }

    /// Returns the error probability of the `attempt`-th pair of ends, counted from 1. The probabilities of all pairs
    /// add up to one minus the confidence, whatever their number: the sum of 1/k² is π²/6.
    pub fn level(&self, attempt: u32) -> f64 {
        let k = f64::from(attempt.max(1));
        (1.0 - self.confidence) * 6.0 / (std::f64::consts::PI * std::f64::consts::PI * k * k)
    }

    /// Returns the load that is applied for a proposed load: at most [`Goal::most`], and for users a whole number of at
    /// least one.
    pub fn possible(&self, load: f64) -> f64 {
        if self.whole {
            load.round().min(self.most.floor()).max(1.0)
        } else {
            load.min(self.most)
        }
    }

    /// Returns the longest time until the outcome of an exchange is known for all of these SLOs: the latency limit, or
    /// the timeout of an SLO without one.
    pub fn longest_wait<'a>(&self, slos: impl IntoIterator<Item = &'a SloLimit>) -> f64 {
        let waits = slos
            .into_iter()
            .map(|slo| slo.limit.unwrap_or(self.timeout));
        waits.fold(0.0, f64::max)
    }

    /// Returns the next lower load to try.
    pub fn lower(&self, load: f64) -> f64 {
        self.possible(load / GROWTH)
    }

    /// Whether two loads are the ends of an interval that is narrow enough. The interval between adjacent numbers of
    /// users always is.
    pub fn is_reached(&self, works: f64, fails: f64) -> bool {
        fails <= works * (1.0 + self.width) * (1.0 + 1e-9) || (self.whole && fails - works <= 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_attempts_together_err_as_often_as_stated() {
        let goal = Goal::default();
        let sum: f64 = (1..100_000).map(|attempt| goal.level(attempt)).sum();
        assert!(sum < 0.05 && sum > 0.0499, "{sum}");
    }

    #[test]
    fn users_are_whole() {
        let users = Goal {
            whole: true,
            ..Goal::default()
        };
        assert_eq!(users.possible(0.3), 1.0);
        assert_eq!(users.possible(7.4), 7.0);
        let limited = Goal { most: 7.6, ..users };
        assert_eq!(limited.possible(7.6), 7.0);
        assert!(users.is_reached(7.0, 8.0) && !users.is_reached(7.0, 9.0));
        assert!(users.is_reached(100.0, 102.0));
        assert!(!Goal::default().is_reached(7.0, 8.0));
    }
}

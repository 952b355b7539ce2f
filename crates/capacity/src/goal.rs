//! The goal of a search, in the terms of RFC 9971 (multiple loss ratio search) where it has one.

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
    /// A load works only if a rise of its latency would not violate the SLO within this time.
    pub horizon: f64,
    /// No trial starts after this time.
    pub budget: f64,
    /// How often a trial is repeated if other work of the machine may have made it invalid.
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

    /// The error probability of the `attempt`-th pair of ends, counted from 1. The probabilities of all pairs add up
    /// to one minus the confidence, whatever their number: the sum of 1/k² is π²/6.
    pub fn level(&self, attempt: u32) -> f64 {
        let k = f64::from(attempt.max(1));
        (1.0 - self.confidence) * 6.0 / (std::f64::consts::PI * std::f64::consts::PI * k * k)
    }

    /// The load that is applied for a proposed load: at most the largest one, and a whole number of users, at least
    /// one.
    pub fn possible(&self, load: f64) -> f64 {
        let load = load.min(self.most);
        if self.whole {
            load.round().max(1.0)
        } else {
            load
        }
    }

    /// The next lower load to try, while no load is known to be possible.
    pub fn lower(&self, load: f64) -> f64 {
        self.possible(load / GROWTH)
    }

    /// Whether two loads are the ends of an interval that is narrow enough. Adjacent numbers of users always are.
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
        assert!(users.is_reached(7.0, 8.0) && !users.is_reached(7.0, 9.0));
        assert!(users.is_reached(100.0, 102.0));
        assert!(!Goal::default().is_reached(7.0, 8.0));
    }
}

//! Erlang's formulas for M/M/c.
//!
//! Source: Kleinrock: "Queueing Systems", volume 1 (1975), 3.5; the recursion of formula B after Jagerman (1984).

/// Formula B: the probability that all of `servers` servers of a system without a queue are busy, with `load` servers'
/// worth of offered work. The recursion has no term that overflows.
pub fn blocking(load: f64, servers: u32) -> f64 {
    (1..=servers).fold(1.0, |blocked, k| {
        load * blocked / (f64::from(k) + load * blocked)
    })
}

/// Formula C: the probability that an arrival waits; 1 when the load reaches the number of servers.
pub fn waiting(load: f64, servers: u32) -> f64 {
    let c = f64::from(servers);
    if load >= c {
        return 1.0;
    }
    let blocked = blocking(load, servers);
    blocked / (1.0 - load / c * (1.0 - blocked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_published_tables() {
        // Erlang B: 5 erlangs, 10 lines: 0.018385. Erlang C of the same: 0.036105.
        assert!((blocking(5.0, 10) - 0.018_385).abs() < 1e-6);
        assert!((waiting(5.0, 10) - 0.036_105).abs() < 1e-6);
        // One server: the utilisation.
        assert!((waiting(0.7, 1) - 0.7).abs() < 1e-15);
        assert_eq!(waiting(2.0, 2), 1.0);
        assert!(blocking(5000.0, 5000).is_finite());
    }
}

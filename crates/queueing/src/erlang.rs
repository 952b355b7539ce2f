//! Erlang's formulas for M/M/c, and their extension to a queue of limited length.
//!
//! Source: Kleinrock: "Queueing Systems", volume 1 (1975), 3.5 and 3.6; the recursion of formula B after Jagerman (1984).

/// Erlang's formula B: the probability that all servers of a system without a queue are busy. `load` is the offered load in
/// erlangs. The recursion has no term that overflows.
pub fn blocking(load: f64, servers: u32) -> f64 {
    (1..=servers).fold(1.0, |blocked, k| {
        load * blocked / (f64::from(k) + load * blocked)
    })
}

/// Erlang's formula C: the probability that an arrival waits; 1 if the load reaches the number of servers.
pub fn waiting(load: f64, servers: u32) -> f64 {
    let c = f64::from(servers);
    if load >= c {
        return 1.0;
    }
    let blocked = blocking(load, servers);
    blocked / (1.0 - load / c * (1.0 - blocked))
}

/// Returns the probability that an arrival finds an M/M/c/K system full: all `servers` servers (at least 1) are busy,
/// and all `places` slots of the queue are taken. w(k) is the weight of k customers, and S(k) the sum of the weights up
/// to k: P(k) = w(k) / S(k) and w(k+1) = w(k) load / c give P(k+1) from P(k) without a term that overflows.
pub fn full(load: f64, servers: u32, places: u32) -> f64 {
    let ratio = load / f64::from(servers);
    (0..places).fold(blocking(load, servers), |full, _| {
        ratio * full / (1.0 + ratio * full)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_published_tables() {
        // Erlang B: 5 erlangs, 10 lines: 0.018385. Erlang C of the same load: 0.036105.
        assert!((blocking(5.0, 10) - 0.018_385).abs() < 1e-6);
        assert!((waiting(5.0, 10) - 0.036_105).abs() < 1e-6);
        // With one server, an arrival waits with a probability that equals the utilisation.
        assert!((waiting(0.7, 1) - 0.7).abs() < 1e-15);
        assert_eq!(waiting(2.0, 2), 1.0);
        assert!(blocking(5000.0, 5000).is_finite());
    }

    #[test]
    fn a_full_system_has_the_probability_of_its_birth_death_equations() {
        // M/M/1/K: (1 - u) u^K / (1 - u^(K+1)).
        let u: f64 = 0.8;
        let expected = (1.0 - u) * u.powi(6) / (1.0 - u.powi(7));
        assert!((full(u, 1, 5) - expected).abs() < 1e-15);
        assert_eq!(full(5.0, 10, 0), blocking(5.0, 10));
        // In an overload, the share of arrivals that cannot be served: 1 - c / load.
        assert!((full(8.0, 4, 1000) - 0.5).abs() < 1e-9);
    }
}

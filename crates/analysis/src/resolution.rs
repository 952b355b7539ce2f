//! The resolution of the instrument, by metric.
//!
//! The unit at the end of a metric's name shows how the metric was obtained.

use crate::statistics::Resolution;

/// The limit of the path's certificate: 99 % of the packets are delivered within this time after their scheduled time.
/// A time that is derived from packets cannot be more precise.
const LATENESS_MS: f64 = 0.05;

/// The relative resolution of rates, means and shares. They are quotients of counts in the thousands, or of times of
/// several seconds with a precision of about a millisecond.
const OF_A_QUOTIENT: f64 = 1e-3;

/// The relative resolution of a capacity. It is the middle of an interval whose usual width is a few percent.
const OF_A_CAPACITY: f64 = 2e-2;

/// The resolution of a metric's values.
pub(crate) fn resolution(metric: &str) -> Resolution {
    let absolute = |absolute: f64| Resolution {
        absolute,
        relative: 0.0,
    };
    let is_quotient = ["_per_", "_mean", "mean_", "_ratio", "_factor"]
        .iter()
        .any(|part| metric.contains(part));
    if matches!(metric, "capacity" | "capacity_works" | "capacity_fails") {
        return Resolution {
            absolute: 0.0,
            relative: OF_A_CAPACITY,
        };
    }
    match metric.rsplit('_').next() {
        Some("pct") => absolute(0.1),
        Some("s") if !metric.contains("_per_") => absolute(LATENESS_MS / 1e3),
        Some("ms") => absolute(LATENESS_MS),
        Some("us" | "kB") => quotient(),
        _ if is_quotient => quotient(),
        // Counts of packets, bytes or connections.
        _ => absolute(1.0),
    }
}

/// Whether a metric counts packets, bytes, connections or requests: its readings are whole numbers without a rounding
/// error.
pub(crate) fn is_count(metric: &str) -> bool {
    resolution(metric).absolute == 1.0
}

/// The resolution of a figure that is computed from several values or several metrics.
pub(crate) fn quotient() -> Resolution {
    Resolution {
        absolute: 0.0,
        relative: OF_A_QUOTIENT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_say_what_a_reading_resolves() {
        assert_eq!(resolution("packets").absolute, 1.0);
        assert_eq!(resolution("payload_bytes").absolute, 1.0);
        assert!(is_count("packets") && !is_count("elapsed_s") && !is_count("cwnd_mean"));
        assert_eq!(resolution("elapsed_s").absolute, 0.05 / 1e3);
        assert_eq!(resolution("response_mean_ms").absolute, 0.05);
        assert_eq!(resolution("overhead_pct").absolute, 0.1);
        for metric in [
            "exchanges_per_s",
            "packets_per_connection",
            "cwnd_mean",
            "memory_pss_kB",
        ] {
            assert_eq!(resolution(metric), quotient(), "{metric}");
        }
        assert_eq!(resolution("capacity").relative, 0.02);
        assert!(!is_count("capacity_fails") && is_count("capacity_trials"));
    }
}

//! The phases of an exchange by name.

use super::{Distribution, Latency};

/// Every phase with its name in files.
pub(super) fn of(latency: &Latency) -> [(&'static str, &Distribution); 10] {
    [
        ("corrected", &latency.corrected),
        ("uncorrected", &latency.uncorrected),
        ("queue", &latency.queue),
        ("send-lag", &latency.send_lag),
        ("connect", &latency.connect),
        ("tls", &latency.tls),
        ("first-byte", &latency.first_byte),
        ("transfer", &latency.transfer),
        ("page", &latency.page),
        ("failed", &latency.failed),
    ]
}

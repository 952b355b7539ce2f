//! SLOs as limits of a share: at most this share of the exchanges may be bad.
//!
//! `p99<100ms` is met if at most 1 % of the exchanges take longer than 100 ms, and `errors<0.1%` if at most 0.1 %
//! fail. In this form an SLO can be tested without an assumption about the distribution of latencies.

use fathometer_analysis::load::Slo;
use fathometer_analysis::load::slo::{ShareLimit, ShareLimitError};

/// An SLO: at most [`SloLimit::share`] of the exchanges are bad.
#[derive(Debug, Clone, PartialEq)]
pub struct SloLimit {
    /// The SLO as it was written, as in `p99<100ms`.
    pub text: String,
    /// The longest latency of a good exchange, in seconds; `None`: an exchange is bad only if it failed.
    pub limit: Option<f64>,
    /// The largest share of bad exchanges, above 0 and below 1.
    pub share: f64,
}

impl SloLimit {
    /// Returns the SLOs of a list (`--slo`), in the order in which they were written.
    ///
    /// # Errors
    /// If an SLO does not limit a share: a mean or a maximum, for example.
    pub fn of(slo: &Slo) -> Result<Vec<SloLimit>, ShareLimitError> {
        let limits = slo.share_limits()?;
        Ok(limits.into_iter().map(SloLimit::from).collect())
    }

    /// Whether an exchange that ended after `latency` seconds is bad. A failed exchange is bad for every SLO: a
    /// server that rejects requests quickly does not serve them.
    pub fn is_bad(&self, latency: f64, failed: bool) -> bool {
        failed || self.limit.is_some_and(|limit| latency > limit)
    }
}

impl From<ShareLimit> for SloLimit {
    fn from(limit: ShareLimit) -> SloLimit {
        SloLimit {
            text: limit.text,
            limit: limit.slower_than.map(|time| time.as_secs_f64()),
            share: limit.share,
        }
    }
}

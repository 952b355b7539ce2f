//! Thresholds for a load test (service level objectives): `p98<100ms,errors<0.1%`.
//!
//! Thresholds are separated by commas. Each is a metric, an operator (`<`, `<=`, `>`, `>=`) and a number with its unit:
//!
//! | metric | meaning | unit |
//! |---|---|---|
//! | `p50` … `p99.99`, `mean`, `max` | corrected latency | `us`, `ms`, `s` |
//! | `uncorrected.p99`, `connect.mean` … | the same for another phase: `corrected`, `uncorrected`, `queue`, `send-lag`, `connect`, `tls`, `first-byte`, `transfer`, `page` | `us`, `ms`, `s` |
//! | `errors` | share of failures, statuses of 400 and above, and unfinished exchanges | `%` |
//! | `rate` | achieved exchanges | `/s` |
//! | `throughput`, `goodput` | response bytes; useful content | `kB/s`, `MB/s`, `Mbit/s` … |
//!
//! An INVALID result is inconclusive: it neither meets nor fails a threshold (`met` is false, and `reason` has the
//! cause). A metric that was not measured meets no threshold. An unfinished exchange counts as longer than all finished
//! exchanges.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Distribution, LoadResult, Window, quantity, rates};

/// The thresholds of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct Slo {
    thresholds: Vec<Threshold>,
}

/// The verdict on a threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The text of the threshold.
    #[serde(alias = "promise")]
    pub slo: String,
    /// The measured value, in `unit`; `null` if it could not be measured.
    pub measured: Option<f64>,
    /// The limit of the threshold, in `unit`.
    pub limit: f64,
    /// The unit of `measured` and `limit`.
    pub unit: Unit,
    /// Whether the result meets the threshold.
    #[serde(alias = "kept")]
    pub met: bool,
    /// The reason why the result does not meet the threshold, if `measured` alone does not show it.
    pub reason: Option<String>,
}

/// A threshold as a limit on a share: at most this share of the exchanges may violate it.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareLimit {
    /// The text of the threshold.
    pub text: String,
    /// An exchange that takes longer violates the threshold; with `None`, only failed exchanges do.
    pub slower_than: Option<Duration>,
    /// The largest share of exchanges that may violate the threshold, above 0 and below 1.
    pub share: f64,
}

/// The error for a threshold that is not a limit on a share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} does not limit the share of exchanges that are slow or fail: write a percentile of the latency below 100 with \
     < or <=, as in p99<100ms, or errors<0.1%"
)]
pub struct ShareLimitError(pub String);

/// The unit of a threshold's metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Milliseconds.
    Ms,
    /// A share, 0 to 1.
    Share,
    /// Exchanges per second.
    PerS,
    /// Bytes per second.
    BytesPerS,
}

/// The error for a text that is not a valid threshold: the position, and the expected text at this position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "column {column}: expected {expected}\n  {text}\n  {marker:>column$}",
    marker = '^'
)]
pub struct SloError {
    /// The whole text.
    pub text: String,
    /// The position, in characters, from 1.
    pub column: usize,
    /// The valid text at this position.
    pub expected: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Threshold {
    text: String,
    metric: Metric,
    comparison: Comparison,
    limit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Metric {
    Latency(PhaseName, Statistic),
    Errors,
    Rate,
    Throughput,
    Goodput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PhaseName {
    Corrected,
    Uncorrected,
    Queue,
    SendLag,
    Connect,
    Tls,
    FirstByte,
    Transfer,
    Page,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Statistic {
    /// The quantile at this fraction, 0 to 1.
    Quantile(f64),
    Mean,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Slo {
    /// Returns the verdicts on the thresholds, in the order of the text.
    pub fn judge(&self, result: &LoadResult) -> Vec<Verdict> {
        self.thresholds
            .iter()
            .map(|threshold| threshold.judge(result))
            .collect()
    }

    /// The thresholds as limits on shares: `p99<100ms` means at most 1 % above 100 ms, `errors<0.1%` at most 0.1 % failures.
    ///
    /// # Errors
    /// When a threshold has another metric, a phase other than the corrected latency, or a lower limit.
    pub fn share_limits(&self) -> Result<Vec<ShareLimit>, ShareLimitError> {
        self.thresholds.iter().map(Threshold::share_limit).collect()
    }
}

impl FromStr for Slo {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Slo, SloError> {
        let mut parser = Parser { text, at: 0 };
        let mut thresholds = vec![parser.threshold()?];
        while !parser.rest().is_empty() {
            parser.at += 1;
            thresholds.push(parser.threshold()?);
        }
        Ok(Slo { thresholds })
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, threshold) in self.thresholds.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{}", threshold.text)?;
        }
        Ok(())
    }
}

impl Verdict {
    /// The measured value as text, as in `12.3 ms`, `0.200 %` or `not measured`.
    pub fn measured_text(&self) -> String {
        let Some(measured) = self.measured else {
            return "not measured".to_owned();
        };
        match self.unit {
            Unit::Ms => quantity::seconds(measured / 1e3),
            Unit::Share => quantity::percent(measured),
            Unit::PerS => format!("{}/s", quantity::three_digits(measured)),
            Unit::BytesPerS => format!("{}/s", quantity::bytes(measured)),
        }
    }
}

impl Threshold {
    fn share_limit(&self) -> Result<ShareLimit, ShareLimitError> {
        let refused = || ShareLimitError(self.text.clone());
        if !matches!(self.comparison, Comparison::Less | Comparison::AtMost) {
            return Err(refused());
        }
        let (slower_than, share) = match self.metric {
            Metric::Latency(PhaseName::Corrected, Statistic::Quantile(quantile)) => (
                Some(Duration::try_from_secs_f64(self.limit / 1e3).map_err(|_| refused())?),
                1.0 - quantile,
            ),
            Metric::Errors => (None, self.limit),
            _ => return Err(refused()),
        };
        let is_possible = share > 1e-9 && share < 1.0 && slower_than != Some(Duration::ZERO);
        if !is_possible {
            return Err(refused());
        }
        Ok(ShareLimit {
            text: self.text.clone(),
            slower_than,
            share,
        })
    }

    fn judge(&self, result: &LoadResult) -> Verdict {
        let window = &result.measured;
        let (measured, missing) = match self.metric.measure(window) {
            Ok(measured) => (Some(measured), None),
            Err(reason) => (None, Some(reason)),
        };
        let holds = measured.is_some_and(|measured| self.comparison.holds(measured, self.limit));
        let invalid = || "the result is INVALID, so the SLO is neither kept nor broken".to_owned();
        let is_valid = result.validity.is_valid();
        Verdict {
            slo: self.text.clone(),
            measured,
            limit: self.limit,
            unit: self.metric.unit(),
            met: holds && is_valid,
            reason: missing.or_else(|| (!is_valid).then(invalid)),
        }
    }
}

impl Metric {
    fn unit(self) -> Unit {
        match self {
            Metric::Latency(..) => Unit::Ms,
            Metric::Errors => Unit::Share,
            Metric::Rate => Unit::PerS,
            Metric::Throughput | Metric::Goodput => Unit::BytesPerS,
        }
    }

    fn measure(self, window: &Window) -> Result<f64, String> {
        let nothing = || "nothing was measured".to_owned();
        match self {
            Metric::Latency(phase, statistic) => phase.measure(statistic, window),
            Metric::Errors => rates::error_share(window).ok_or_else(nothing),
            Metric::Rate => rates::achieved(window).ok_or_else(nothing),
            Metric::Throughput => rates::throughput(window).ok_or_else(nothing),
            Metric::Goodput => rates::goodput(window).ok_or_else(nothing),
        }
    }
}

impl PhaseName {
    const ALL: [(&'static str, PhaseName); 9] = [
        ("corrected", PhaseName::Corrected),
        ("uncorrected", PhaseName::Uncorrected),
        ("queue", PhaseName::Queue),
        ("send-lag", PhaseName::SendLag),
        ("connect", PhaseName::Connect),
        ("tls", PhaseName::Tls),
        ("first-byte", PhaseName::FirstByte),
        ("transfer", PhaseName::Transfer),
        ("page", PhaseName::Page),
    ];

    fn times(self, window: &Window) -> &Distribution {
        let latency = &window.latency;
        match self {
            PhaseName::Corrected => &latency.corrected,
            PhaseName::Uncorrected => &latency.uncorrected,
            PhaseName::Queue => &latency.queue,
            PhaseName::SendLag => &latency.send_lag,
            PhaseName::Connect => &latency.connect,
            PhaseName::Tls => &latency.tls,
            PhaseName::FirstByte => &latency.first_byte,
            PhaseName::Transfer => &latency.transfer,
            PhaseName::Page => &latency.page,
        }
    }

    /// Computes the statistic in milliseconds. Unfinished exchanges count as longer than all others, so a quantile
    /// among them is unknown. With any unfinished exchange, the mean and the maximum are unknown.
    fn measure(self, statistic: Statistic, window: &Window) -> Result<f64, String> {
        let times = self.times(window);
        let recorded = times.count();
        let (all, endless) = match self {
            // These phases also contain the unfinished exchanges, with the time for which they waited.
            PhaseName::Corrected | PhaseName::Uncorrected => {
                let incomplete = recorded.saturating_sub(window.counts.completed);
                (recorded, window.counts.unfinished.min(incomplete))
            }
            // An unfinished page has no recorded time, and at least one unfinished exchange.
            PhaseName::Page => {
                let endless = window.counts.unfinished;
                (recorded + endless, endless)
            }
            _ => (recorded, 0),
        };
        let unknown = || {
            let exchanges = quantity::counted(endless, "exchange");
            format!("{exchanges} did not end, so the value is beyond the measured range")
        };
        let measured = match statistic {
            _ if times.is_empty() && endless == 0 => {
                return Err("nothing was measured".to_owned());
            }
            Statistic::Quantile(quantile) => {
                let rank = quantile * all as f64;
                if endless > 0 && rank > (all - endless) as f64 {
                    return Err(unknown());
                }
                times.quantile((rank / recorded as f64).min(1.0))
            }
            _ if endless > 0 => return Err(unknown()),
            Statistic::Mean => times.mean(),
            Statistic::Max => times.max(),
        };
        measured
            .map(|time| time.as_nanos() as f64 / 1e6)
            .ok_or_else(unknown)
    }
}

impl Comparison {
    fn holds(self, measured: f64, limit: f64) -> bool {
        match self {
            Comparison::Less => measured < limit,
            Comparison::AtMost => measured <= limit,
            Comparison::More => measured > limit,
            Comparison::AtLeast => measured >= limit,
        }
    }
}

/// Parses thresholds from left to right.
struct Parser<'a> {
    text: &'a str,
    /// The position in bytes.
    at: usize,
}

impl<'a> Parser<'a> {
    /// Parses one threshold, up to a comma or the end.
    fn threshold(&mut self) -> Result<Threshold, SloError> {
        self.skip_spaces();
        let start = self.at;
        let metric = self.metric()?;
        self.skip_spaces();
        let comparison = self.comparison()?;
        self.skip_spaces();
        let number = self.number()?;
        self.skip_spaces();
        let limit = number * self.unit(metric.unit())?;
        let text = self.text[start..self.at].to_owned();
        self.skip_spaces();
        match self.rest().chars().next() {
            None | Some(',') => Ok(Threshold {
                text,
                metric,
                comparison,
                limit,
            }),
            Some(_) => Err(self.expected("a comma or the end")),
        }
    }

    fn metric(&mut self) -> Result<Metric, SloError> {
        let start = self.at;
        let word = self.take(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'));
        match word {
            "errors" => return Ok(Metric::Errors),
            "rate" => return Ok(Metric::Rate),
            "throughput" => return Ok(Metric::Throughput),
            "goodput" => return Ok(Metric::Goodput),
            _ => {}
        }
        let prefix = PhaseName::ALL.into_iter().find_map(|(name, phase)| {
            let statistic = word.strip_prefix(name)?.strip_prefix('.')?;
            Some((phase, statistic))
        });
        let (phase, statistic) = prefix.unwrap_or((PhaseName::Corrected, word));
        let statistic_start = start + word.len() - statistic.len();
        match statistic {
            "mean" => return Ok(Metric::Latency(phase, Statistic::Mean)),
            "max" => return Ok(Metric::Latency(phase, Statistic::Max)),
            _ => {}
        }
        let looks_so = statistic.starts_with('p')
            && statistic.len() > 1
            && statistic[1..]
                .bytes()
                .all(|b| b.is_ascii_digit() || b == b'.');
        if looks_so {
            return match statistic[1..].parse::<f64>() {
                Ok(percent) if percent > 0.0 && percent <= 100.0 => {
                    Ok(Metric::Latency(phase, Statistic::Quantile(percent / 100.0)))
                }
                _ => Err(self.expected_at(
                    statistic_start + 1,
                    "a percentile above 0 and at most 100, as in p99.9",
                )),
            };
        }
        let (at, expected) = if prefix.is_some() {
            (
                statistic_start,
                "a percentile (p99), mean or max".to_owned(),
            )
        } else if word.contains('.') {
            let phases: Vec<_> = PhaseName::ALL.iter().map(|(name, _)| *name).collect();
            (start, format!("one of the phases {}", phases.join(", ")))
        } else {
            let metrics = "a percentile (p99, connect.p95), mean, max, errors, rate, throughput or \
                           goodput";
            (start, metrics.to_owned())
        };
        Err(self.expected_at(at, &expected))
    }

    fn comparison(&mut self) -> Result<Comparison, SloError> {
        for (sign, comparison) in [
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("<", Comparison::Less),
            (">", Comparison::More),
        ] {
            if self.rest().starts_with(sign) {
                self.at += sign.len();
                return Ok(comparison);
            }
        }
        Err(self.expected("<, <=, > or >="))
    }

    fn number(&mut self) -> Result<f64, SloError> {
        let start = self.at;
        let digits = self.take(|c| c.is_ascii_digit() || c == '.');
        match digits.parse::<f64>() {
            Ok(number) if !digits.starts_with('.') && !digits.ends_with('.') => Ok(number),
            _ => Err(self.expected_at(start, "a number, as in 100 or 0.5")),
        }
    }

    /// The factor from the unit at this position to the unit of the metric.
    fn unit(&mut self, of: Unit) -> Result<f64, SloError> {
        let units: &[(&str, f64)] = match of {
            Unit::Ms => &[("us", 1e-3), ("µs", 1e-3), ("ms", 1.0), ("s", 1e3)],
            Unit::Share => &[("%", 1e-2)],
            Unit::PerS => &[("/s", 1.0)],
            Unit::BytesPerS => &[
                ("B/s", 1.0),
                ("kB/s", 1e3),
                ("MB/s", 1e6),
                ("GB/s", 1e9),
                ("kbit/s", 1e3 / 8.0),
                ("Mbit/s", 1e6 / 8.0),
                ("Gbit/s", 1e9 / 8.0),
            ],
        };
        let start = self.at;
        let word = self.take(|c| !matches!(c, ',' | ' '));
        match units.iter().find(|(name, _)| *name == word) {
            Some((_, factor)) => Ok(*factor),
            None => {
                let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
                Err(self.expected_at(start, &format!("a unit: {}", names.join(", "))))
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.take(|c| c == ' ');
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn expected(&self, what: &str) -> SloError {
        self.expected_at(self.at, what)
    }

    fn expected_at(&self, at: usize, what: &str) -> SloError {
        SloError {
            text: self.text.to_owned(),
            column: self.text[..at].chars().count() + 1,
            expected: what.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slos_are_parsed() {
        let slo: Slo =
            "p98<100ms, errors <= 0.1 %,first-byte.p99.9<2s,rate>=1000/s,send-lag.max<50us,\
                        goodput>8Mbit/s"
                .parse()
                .unwrap();
        let of = |n: usize| {
            let threshold = &slo.thresholds[n];
            (threshold.metric, threshold.comparison, threshold.limit)
        };
        let quantile = Statistic::Quantile;
        let latency = Metric::Latency;
        assert_eq!(
            of(0),
            (
                latency(PhaseName::Corrected, quantile(0.98)),
                Comparison::Less,
                100.0
            )
        );
        assert_eq!(of(1), (Metric::Errors, Comparison::AtMost, 0.001));
        let Metric::Latency(PhaseName::FirstByte, Statistic::Quantile(q)) = of(2).0 else {
            panic!("{:?}", of(2));
        };
        assert!((q - 0.999).abs() < 1e-12);
        assert_eq!(of(2).2, 2000.0);
        assert_eq!(of(3), (Metric::Rate, Comparison::AtLeast, 1000.0));
        assert_eq!(of(4).0, latency(PhaseName::SendLag, Statistic::Max));
        assert!((of(4).2 - 0.05).abs() < 1e-12);
        assert_eq!(of(5), (Metric::Goodput, Comparison::More, 1e6));
        assert_eq!(slo.thresholds[1].text, "errors <= 0.1 %");
    }

    #[test]
    fn an_error_of_an_slo_names_the_column() {
        for (text, column, expected) in [
            ("", 1, "a percentile"),
            ("p98", 4, "<, <=, > or >="),
            ("p98=3ms", 4, "<, <=, > or >="),
            ("p98<", 5, "a number"),
            ("p98<.5ms", 5, "a number"),
            ("p98<1.2.3ms", 5, "a number"),
            ("p98<-5ms", 5, "a number"),
            ("p98<100", 8, "a unit: us, µs, ms, s"),
            ("p98<100%", 8, "a unit: us"),
            ("errors<1ms", 9, "a unit: %"),
            ("rate>1000", 10, "a unit: /s"),
            ("p98<100ms;errors<1%", 8, "a unit"),
            ("p98<100ms errors<1%", 11, "a comma or the end"),
            ("p98<100ms,", 11, "a percentile"),
            ("p999<1s", 2, "a percentile above 0 and at most 100"),
            ("p0<1s", 2, "a percentile above 0"),
            ("p9.9.9<1s", 2, "a percentile above 0"),
            ("µ98<1s", 1, "a percentile (p99"),
            (
                "p98<1µs,connect.p<1s",
                17,
                "a percentile (p99), mean or max",
            ),
            ("wait.p99<1s", 1, "one of the phases corrected, uncorrected"),
        ] {
            let error = text.parse::<Slo>().unwrap_err();
            assert_eq!(error.column, column, "{text}: {error}");
            assert!(error.expected.starts_with(expected), "{text}: {error}");
        }
        assert_eq!(
            "p98<100".parse::<Slo>().unwrap_err().to_string(),
            "column 8: expected a unit: us, µs, ms, s\n  p98<100\n         ^"
        );
    }

    #[test]
    fn percentiles_and_errors_limit_shares() {
        let limits = |text: &str| text.parse::<Slo>().unwrap().share_limits();
        let found = limits("p99<100ms, errors<=0.1%").unwrap();
        assert_eq!(found[0].text, "p99<100ms");
        assert_eq!(found[0].slower_than, Some(Duration::from_millis(100)));
        assert!((found[0].share - 0.01).abs() < 1e-12);
        assert_eq!((found[1].slower_than, found[1].share), (None, 0.001));
        for text in [
            "p100<1s",
            "max<1s",
            "mean<1s",
            "p99>1s",
            "queue.p99<1s",
            "rate>=5/s",
            "errors<0%",
            "p99<0ms",
        ] {
            let error = limits(text).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9.,<>=%/ µ-]{0,24}") {
            if let Err(error) = text.parse::<Slo>() {
                prop_assert!(error.column >= 1 && error.column <= text.chars().count() + 1);
            }
        }

        #[test]
        fn what_was_read_is_written_and_read_again(
            percent in 1u32..=9999, limit in 0u32..100_000, unit in "us|ms|s"
        ) {
            let text = format!("p{},queue.p50<{limit}{unit}", f64::from(percent) / 100.0);
            let text = text.replacen(",", &format!(">={limit}{unit},"), 1);
            let slo: Slo = text.parse().unwrap();
            prop_assert_eq!(slo.to_string(), text);
        }
    }
}

//! Suspicions about a host's processors, memory and disk.

use super::super::words::{bytes, number, percent};
use super::super::{Confidence, Resource, Suspicion};
use super::{NEARLY, Seen, by_use, share, suspicion};

/// Bytes of a memory page.
const PAGE: f64 = 4096.0;
/// Smaller reads, in bytes, load the disk by their number; larger reads load it by their size.
const SMALL_READ: f64 = 65_536.0;

impl Seen<'_> {
    pub(super) fn cpu(&self) -> Option<Suspicion> {
        let used = self.signals.cpu_of_quota?;
        let throttled = self.signals.throttled_periods;
        let mut confidence = by_use(used);
        // A quota that is exhausted in most periods delays requests, even if the mean utilisation is below 1.
        if throttled.is_some_and(|share| share >= 0.5) {
            let by_periods = match used {
                nearly if nearly >= NEARLY => Confidence::Strong,
                _ => Confidence::Likely,
            };
            confidence = confidence.max(Some(by_periods));
        }
        let confidence = confidence?;
        let mut text = format!("the host used {} of its ", percent(used));
        text.push_str(&match self.signals.cpu_quota_cores {
            Some(cores) => format!("quota of {} cores", super::super::words::hundredths(cores)),
            None => "CPU time".to_owned(),
        });
        if let Some(throttled) = throttled.filter(|share| *share > 0.0) {
            let periods = percent(throttled);
            text.push_str(&format!(", and {periods} of the periods were throttled"));
        }
        let mut evidence = vec![text];
        if let Some(pressure) = self.signals.cpu_pressure.filter(|share| *share >= 0.1) {
            let pressure = percent(pressure);
            evidence.push(format!(
                "tasks waited for a processor for {pressure} of the time"
            ));
        }
        Some(suspicion(
            Resource::Cpu,
            confidence,
            evidence,
            "a larger quota of CPU time: throughput grows with it",
        ))
    }

    pub(super) fn one_core(&self) -> Option<Suspicion> {
        let thread = self.signals.busiest_thread?;
        let quota = self.signals.cpu_quota_cores;
        let used = self.signals.cpu_of_quota;
        // With a quota of one core or less, a thread reaches the quota before it uses a whole core.
        if quota.is_some_and(|cores| cores <= 1.0) || used.is_some_and(|share| share >= 0.9) {
            return None;
        }
        let confidence = by_use(thread)?;
        let mut text = format!(
            "the server's busiest thread was running for {} of the time on one core",
            percent(thread)
        );
        if let Some(used) = used {
            text.push_str(&format!(
                ", while the host used {} of its quota",
                percent(used)
            ));
        }
        Some(suspicion(
            Resource::OneCore,
            confidence,
            vec![text],
            "a larger quota has no effect; more threads of the server or a faster core do",
        ))
    }

    pub(super) fn memory(&self) -> Option<Suspicion> {
        let signals = self.signals;
        let full = signals.memory_of_limit.filter(|share| *share >= 0.9)?;
        let read = signals
            .disk_read_bytes_per_s
            .or(signals.page_in_bytes_per_s)
            .unwrap_or(0.0);
        let disk_waits = [signals.io_pressure, signals.disk_busy, self.disk_use()]
            .into_iter()
            .flatten()
            .any(|share| share >= 0.3);
        let confidence = match (signals.refaults_per_s, read >= PAGE) {
            (Some(_), _) if self.has_refaults && disk_waits => Confidence::Strong,
            (Some(_), _) if self.has_refaults => Confidence::Likely,
            // The files were not in memory before, so more memory does not help.
            (Some(_), _) => return None,
            (None, true) if disk_waits => Confidence::Likely,
            (None, true) => Confidence::Possible,
            (None, false) => return None,
        };
        let limit = signals
            .memory_limit
            .map_or(String::new(), |limit| format!(" of {limit}"));
        let mut text = format!("memory was full ({} of its limit{limit})", percent(full));
        if let Some(refaults) = signals.refaults_per_s {
            let refaults = number(refaults);
            text.push_str(&format!(
                ", and {refaults} evicted pages per second were read again"
            ));
        }
        let mut evidence = vec![text];
        if read >= PAGE {
            let read = bytes(read);
            evidence.push(format!("{read} a second were read from the disk"));
        }
        Some(suspicion(
            Resource::Memory,
            confidence,
            evidence,
            "more memory increases throughput, and by more than an equal increase of the disk's limits",
        ))
    }

    pub(super) fn disk_operations(&self) -> Option<Suspicion> {
        let signals = self.signals;
        let reads = signals.disk_reads_per_s?;
        let (confidence, text) = match signals.disk_reads_limit_per_s {
            Some(limit) => (
                disk_by_use(reads / limit)?,
                format!(
                    "the disk did {} of at most {} reads per second ({})",
                    number(reads),
                    number(limit),
                    percent(reads / limit)
                ),
            ),
            // A disk without a limit on operations, busy with small reads.
            None if self.bytes_per_read()? < SMALL_READ => self.disk_by_waits()?,
            None => return None,
        };
        let evidence = self.disk_evidence(text);
        Some(suspicion(
            Resource::DiskOperations,
            self.as_a_victim(confidence),
            evidence,
            "more disk operations per second: throughput grows with them, and less with memory",
        ))
    }

    pub(super) fn disk_bytes(&self) -> Option<Suspicion> {
        let signals = self.signals;
        let read = signals.disk_read_bytes_per_s?;
        let (confidence, text) = match signals.disk_bytes_limit_per_s {
            Some(limit) => (
                disk_by_use(read / limit)?,
                format!(
                    "the disk read {} of at most {} per second ({})",
                    bytes(read),
                    bytes(limit),
                    percent(read / limit)
                ),
            ),
            None if signals.disk_reads_limit_per_s.is_none()
                && self.bytes_per_read()? >= SMALL_READ =>
            {
                self.disk_by_waits()?
            }
            None => return None,
        };
        let evidence = self.disk_evidence(text);
        Some(suspicion(
            Resource::DiskBytes,
            self.as_a_victim(confidence),
            evidence,
            "more disk bytes per second: throughput grows with them, and less with memory",
        ))
    }

    /// The larger utilisation of the disk's two limits.
    fn disk_use(&self) -> Option<f64> {
        let signals = self.signals;
        let reads = share(signals.disk_reads_per_s, signals.disk_reads_limit_per_s);
        let bytes = share(
            signals.disk_read_bytes_per_s,
            signals.disk_bytes_limit_per_s,
        );
        reads.into_iter().chain(bytes).max_by(f64::total_cmp)
    }

    fn bytes_per_read(&self) -> Option<f64> {
        share(
            self.signals.disk_read_bytes_per_s,
            self.signals.disk_reads_per_s,
        )
    }

    fn disk_by_waits(&self) -> Option<(Confidence, String)> {
        let busy = self.signals.disk_busy.unwrap_or(0.0);
        let pressure = self.signals.io_pressure.unwrap_or(0.0);
        let (most, text) = match busy >= pressure {
            true => (busy, "the disk was busy"),
            false => (pressure, "tasks waited for the disk"),
        };
        let confidence = match most {
            full if full >= 0.9 => Confidence::Likely,
            half if half >= 0.5 => Confidence::Possible,
            _ => return None,
        };
        Some((
            confidence,
            format!("{text} for {} of the time", percent(most)),
        ))
    }

    /// Lowers the confidence in a disk with refaults: it may be busy only because memory is short.
    fn as_a_victim(&self, confidence: Confidence) -> Confidence {
        match self.has_refaults {
            true => confidence.min(Confidence::Likely),
            false => confidence,
        }
    }

    fn disk_evidence(&self, text: String) -> Vec<String> {
        let mut evidence = vec![text];
        if self.has_refaults {
            let pages = number(self.signals.refaults_per_s.unwrap_or(0.0));
            evidence.push(format!(
                "memory may be the cause: {pages} pages per second were read again after eviction"
            ));
        }
        evidence
    }
}

/// The kernel enforces disk limits only within a few percent, and counts requests at their completion. So 0.05 is added
/// to the utilisation.
fn disk_by_use(share: f64) -> Option<Confidence> {
    by_use(share + 0.05)
}

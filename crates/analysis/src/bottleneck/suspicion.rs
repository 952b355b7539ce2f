//! What probes alone make suspect.
//!
//! No resource is named from probes: what is full may be the victim of what is short elsewhere.
//! What comes out is a list of suspicions, each with the perturbation that would confirm it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::words::{number, octets, percent, time};
use super::{Resource, Signals};

/// Use from here on is saturation: what is left is the granularity of quotas and of sampling.
const FULL: f64 = 0.95;
/// Use from here on leaves room for bursts to wait.
const NEARLY: f64 = 0.85;
/// Use from here on is worth a word.
const MUCH: f64 = 0.70;
/// Octets of a page.
const PAGE: f64 = 4096.0;
/// Reads of fewer octets than this are more of a burden by their number than by their size.
const SMALL_READ: f64 = 65_536.0;

/// A resource that the probes of one load make suspect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspicion {
    /// Which.
    pub resource: Resource,
    /// How strongly.
    pub confidence: Confidence,
    /// What was seen, in clauses without a full stop; the first is the weightiest.
    pub evidence: Vec<String>,
    /// Which perturbation would confirm it.
    pub confirm: String,
}

/// How strongly the probes speak for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Something points that way, and other causes would show the same.
    Possible,
    /// It is saturated or nearly, and another limit may be the cause.
    Likely,
    /// It is saturated, and nothing seen explains that otherwise.
    Strong,
}

impl Confidence {
    /// As an adverb before *suspect*: `strongly`.
    pub const fn words(self) -> &'static str {
        match self {
            Confidence::Possible => "possibly",
            Confidence::Likely => "likely",
            Confidence::Strong => "strongly",
        }
    }
}

/// What the probes of one load, or the means of several, make suspect: the strongest first, and of
/// equals the cause before what it causes.
pub fn suspect(signals: &Signals) -> Vec<Suspicion> {
    let seen = Seen::of(signals);
    let mut suspicions: Vec<Suspicion> = [
        seen.generator(),
        seen.cpu(),
        seen.one_core(),
        seen.link_rate(),
        seen.memory(),
        seen.disk_operations(),
        seen.disk_bytes(),
        seen.workers(),
        seen.backlog(),
        seen.round_trip(),
    ]
    .into_iter()
    .flatten()
    .collect();
    // What is nobody's limit is suspect when nothing else is.
    let limit = suspicions
        .iter()
        .map(|suspicion| suspicion.confidence)
        .max();
    suspicions.extend(seen.server_itself(limit));
    suspicions.extend(seen.load(limit));
    suspicions.sort_by_key(|suspicion| std::cmp::Reverse(suspicion.confidence));
    suspicions
}

/// The mean time to a response's first octet that neither the round trip nor the processor's work
/// explains, and its share of the whole exchange. `None` when the times are not known.
pub(super) fn unexplained_wait(signals: &Signals) -> Option<(Duration, f64)> {
    let first_byte = signals.first_byte?;
    let explained = signals.round_trip? + signals.cpu_per_exchange.unwrap_or_default();
    let wait = first_byte.saturating_sub(explained);
    let whole = whole(signals)?;
    (!whole.is_zero()).then(|| (wait, wait.as_secs_f64() / whole.as_secs_f64()))
}

/// The mean time of an exchange by its parts; connecting may be left out of it (persistent
/// connections), the rest not.
fn whole(signals: &Signals) -> Option<Duration> {
    let known = signals.first_byte? + signals.transfer?;
    Some(known + signals.connect.unwrap_or_default() + signals.queue.unwrap_or_default())
}

/// Signals, and what several suspicions ask of them.
struct Seen<'a> {
    signals: &'a Signals,
    /// The processor (all of it, or the one core that is used) has next to nothing left.
    is_computing: bool,
    /// All workers are taken, as far as that is known.
    workers_taken: bool,
    /// Files are read again that had been in memory, while memory is full.
    rereads: bool,
}

impl Seen<'_> {
    fn of(signals: &Signals) -> Seen<'_> {
        let is_full = signals.memory_of_limit.is_some_and(|share| share >= 0.9);
        Seen {
            signals,
            is_computing: signals.cpu_of_quota.is_some_and(|share| share >= NEARLY)
                || signals.busiest_thread.is_some_and(|share| share >= NEARLY),
            workers_taken: share(signals.established, signals.worker_limit)
                .is_some_and(|share| share >= FULL),
            rereads: is_full && signals.refaults_per_s.is_some_and(|pages| pages >= 1.0),
        }
    }

    fn generator(&self) -> Option<Suspicion> {
        let busy = self.signals.generator_busy?;
        let confidence = by_use(busy)?;
        let evidence = vec![format!(
            "the generator's busiest thread was busy for {} of the time",
            percent(busy)
        )];
        let confirm = "more threads for the generator";
        Some(suspicion(
            Resource::Generator,
            confidence,
            evidence,
            confirm,
        ))
    }

    fn cpu(&self) -> Option<Suspicion> {
        let used = self.signals.cpu_of_quota?;
        let throttled = self.signals.throttled_periods;
        let mut confidence = by_use(used);
        // A quota that is used up in most of its periods holds requests up, whatever is left of it
        // in the others.
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
            Some(cores) => format!("quota of {} cores", super::words::hundredths(cores)),
            None => "processor time".to_owned(),
        });
        if let Some(throttled) = throttled.filter(|share| *share > 0.0) {
            let periods = percent(throttled);
            text.push_str(&format!(", and {periods} of the periods were throttled"));
        }
        let mut evidence = vec![text];
        if let Some(pressure) = self.signals.cpu_pressure.filter(|share| *share >= 0.1) {
            let pressure = percent(pressure);
            evidence.push(format!(
                "something waited for a processor for {pressure} of the time"
            ));
        }
        Some(suspicion(
            Resource::Cpu,
            confidence,
            evidence,
            "a larger quota of processor time: throughput grows with it",
        ))
    }

    fn one_core(&self) -> Option<Suspicion> {
        let thread = self.signals.busiest_thread?;
        let quota = self.signals.cpu_quota_cores;
        let used = self.signals.cpu_of_quota;
        // With a core and less to spend, the quota is what a thread meets first.
        if quota.is_some_and(|cores| cores <= 1.0) || used.is_some_and(|share| share >= 0.9) {
            return None;
        }
        let confidence = by_use(thread)?;
        let mut text = format!(
            "the server's busiest thread computed for {} of the time on one core",
            percent(thread)
        );
        if let Some(used) = used {
            text.push_str(&format!(
                ", while the host used {} of what it may",
                percent(used)
            ));
        }
        Some(suspicion(
            Resource::OneCore,
            confidence,
            vec![text],
            "a larger quota gives nothing; more threads of the server, or a faster core, do",
        ))
    }

    fn memory(&self) -> Option<Suspicion> {
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
            (Some(_), _) if self.rereads && disk_waits => Confidence::Strong,
            (Some(_), _) if self.rereads => Confidence::Likely,
            // What is read was never in memory: more of it would help nothing.
            (Some(_), _) => return None,
            (None, true) if disk_waits => Confidence::Likely,
            (None, true) => Confidence::Possible,
            (None, false) => return None,
        };
        let limit = signals
            .memory_limit
            .map_or(String::new(), |limit| format!(" ({limit})"));
        let mut text = format!("memory was full ({} of its limit{limit})", percent(full));
        if let Some(refaults) = signals.refaults_per_s {
            let refaults = number(refaults);
            text.push_str(&format!(
                ", and {refaults} pages a second were read again that had been in it"
            ));
        }
        let mut evidence = vec![text];
        if read >= PAGE {
            let read = octets(read);
            evidence.push(format!("{read} a second were read from the disk"));
        }
        Some(suspicion(
            Resource::Memory,
            confidence,
            evidence,
            "more memory gives more throughput, and more than as much more of the disk does",
        ))
    }

    fn disk_operations(&self) -> Option<Suspicion> {
        let signals = self.signals;
        let reads = signals.disk_reads_per_s?;
        let (confidence, text) = match signals.disk_reads_limit_per_s {
            Some(limit) => (
                disk_by_use(reads / limit)?,
                format!(
                    "the disk did {} reads a second of the {} that it may ({})",
                    number(reads),
                    number(limit),
                    percent(reads / limit)
                ),
            ),
            // A disk without a limit of its own, busy with small reads.
            None if self.octets_per_read()? < SMALL_READ => self.disk_by_waits()?,
            None => return None,
        };
        let evidence = self.disk_evidence(text);
        Some(suspicion(
            Resource::DiskOperations,
            self.as_a_victim(confidence),
            evidence,
            "more operations a second of the disk: throughput grows with them, and less with memory",
        ))
    }

    fn disk_bytes(&self) -> Option<Suspicion> {
        let signals = self.signals;
        let read = signals.disk_read_bytes_per_s?;
        let (confidence, text) = match signals.disk_bytes_limit_per_s {
            Some(limit) => (
                disk_by_use(read / limit)?,
                format!(
                    "the disk read {} a second of the {} that it may ({})",
                    octets(read),
                    octets(limit),
                    percent(read / limit)
                ),
            ),
            None if signals.disk_reads_limit_per_s.is_none()
                && self.octets_per_read()? >= SMALL_READ =>
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
            "more octets a second of the disk: throughput grows with them, and less with memory",
        ))
    }

    /// The largest share that is used of a limit of the disk.
    fn disk_use(&self) -> Option<f64> {
        let signals = self.signals;
        let reads = share(signals.disk_reads_per_s, signals.disk_reads_limit_per_s);
        let octets = share(
            signals.disk_read_bytes_per_s,
            signals.disk_bytes_limit_per_s,
        );
        reads.into_iter().chain(octets).max_by(f64::total_cmp)
    }

    fn octets_per_read(&self) -> Option<f64> {
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
            false => (pressure, "something waited for the disk"),
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

    /// A disk that reads again what memory could not keep may be the victim.
    fn as_a_victim(&self, confidence: Confidence) -> Confidence {
        match self.rereads {
            true => confidence.min(Confidence::Likely),
            false => confidence,
        }
    }

    fn disk_evidence(&self, text: String) -> Vec<String> {
        let mut evidence = vec![text];
        if self.rereads {
            let pages = number(self.signals.refaults_per_s.unwrap_or(0.0));
            evidence.push(format!(
                "memory may be the cause: {pages} pages a second had been in it before"
            ));
        }
        evidence
    }

    fn link_rate(&self) -> Option<Suspicion> {
        let ends = [
            (self.signals.link_down, "towards the clients"),
            (self.signals.link_up, "towards the server"),
        ];
        let (used, way) = ends
            .into_iter()
            .filter_map(|(used, way)| Some((used?, way)))
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        let confidence = by_use(used)?;
        let mut evidence = vec![format!(
            "the link {way} carried {} of what it can",
            percent(used)
        )];
        if let Some(drops) = self.signals.queue_drops_per_s.filter(|drops| *drops > 0.0) {
            let drops = number(drops);
            evidence.push(format!("its full queue dropped {drops} packets a second"));
        }
        Some(suspicion(
            Resource::LinkRate,
            confidence,
            evidence,
            "a faster link: throughput grows with it, and not with a shorter round trip",
        ))
    }

    fn round_trip(&self) -> Option<Suspicion> {
        let signals = self.signals;
        let round_trip = signals.round_trip.filter(|time| !time.is_zero())?;
        let mut evidence = Vec::new();
        let mut confidence = None;
        let window = [
            (
                signals.rate_of_window,
                0.7,
                "of what a window a round trip allows was sent",
            ),
            (
                signals.receive_window_limited,
                0.5,
                "of their time senders waited for the receive window",
            ),
            (
                signals.send_buffer_limited,
                0.5,
                "of their time senders waited for room in the send buffer",
            ),
        ];
        for (share, from, text) in window {
            if let Some(share) = share.filter(|share| *share >= from) {
                evidence.push(format!(
                    "{} {text}, at a round trip of {}",
                    percent(share),
                    time(round_trip)
                ));
                confidence = Some(Confidence::Strong);
            }
        }
        // Waiting for the other end without a window in the way: handshakes and requests.
        let handshake = signals.connect.unwrap_or_default().min(round_trip);
        let request = signals.first_byte.unwrap_or_default().min(round_trip);
        if let Some(whole) = whole(signals).filter(|whole| !whole.is_zero()) {
            let share = (handshake + request).as_secs_f64() / whole.as_secs_f64();
            let by_share = match share {
                most if most >= 0.8 => Some(Confidence::Strong),
                half if half >= 0.5 => Some(Confidence::Likely),
                some if some >= 0.3 => Some(Confidence::Possible),
                _ => None,
            };
            if by_share.is_some() {
                evidence.push(format!(
                    "{} of an exchange's {} are round trips of {}",
                    percent(share),
                    time(whole),
                    time(round_trip)
                ));
            }
            confidence = confidence.max(by_share);
        }
        let mut confidence = confidence?;
        // A full link makes the round trip as long as its queue; a full processor makes everybody
        // wait for it anyway.
        let link = [signals.link_up, signals.link_down];
        if self.is_computing || link.into_iter().flatten().any(|used| used >= NEARLY) {
            confidence = Confidence::Possible;
        }
        Some(suspicion(
            Resource::RoundTrip,
            confidence,
            evidence,
            "a shorter round trip: throughput grows with it, and not with the rate of the link",
        ))
    }

    fn backlog(&self) -> Option<Suspicion> {
        let signals = self.signals;
        let overflows = signals.listen_overflows_per_s;
        let connect = signals.connect.unwrap_or_default();
        // The first retransmission of a SYN is after a second: a mean beyond a tenth of it, and
        // many round trips, is that of connections of which some were thrown away.
        let round_trip = signals.round_trip.unwrap_or_default();
        let slow = connect > Duration::from_millis(100) && connect > 4 * round_trip;
        let mut confidence = match overflows {
            Some(rate) if rate > 0.0 && slow => Confidence::Strong,
            Some(rate) if rate > 0.0 => Confidence::Likely,
            Some(_) => return None,
            None if slow => Confidence::Possible,
            None => return None,
        };
        let mut evidence = Vec::new();
        if let Some(rate) = overflows {
            let mut text = format!(
                "{} connections a second found the accept queue full",
                number(rate)
            );
            if let Some(backlog) = signals.backlog {
                text.push_str(&format!(", which holds {}", number(backlog)));
            }
            evidence.push(text);
        }
        if slow {
            let connect = time(connect);
            evidence.push(format!(
                "connecting took {connect} an exchange: a SYN that is thrown away is sent again after \
                 1 s, then 2 s more"
            ));
        }
        // The queue is full because nobody takes from it.
        if self.workers_taken || self.is_computing {
            confidence = Confidence::Possible;
            let cause = match self.workers_taken {
                true => "all workers were taken",
                false => "the server was computing all the time",
            };
            evidence.push(format!(
                "{cause}, which fills an accept queue of any length"
            ));
        }
        Some(suspicion(
            Resource::Backlog,
            confidence,
            evidence,
            "a longer backlog: throughput grows with it, and not with the number of workers",
        ))
    }

    fn workers(&self) -> Option<Suspicion> {
        let signals = self.signals;
        let waiting = signals.accept_queue.filter(|length| *length >= 0.5);
        let overflows = signals
            .listen_overflows_per_s
            .is_some_and(|rate| rate > 0.0);
        let taken = share(signals.established, signals.worker_limit);
        let is_waited = waiting.is_some() || overflows;
        let mut confidence = match taken {
            Some(share) if share >= FULL && is_waited => Confidence::Strong,
            Some(share) if share >= FULL => Confidence::Possible,
            Some(share) if share >= NEARLY && is_waited => Confidence::Likely,
            Some(_) => return None,
            // A queue of waiting connections at a server that has time to take them.
            None if waiting.is_some() && !self.is_computing => Confidence::Possible,
            None => return None,
        };
        if self.is_computing {
            confidence = Confidence::Possible;
        }
        let mut evidence = Vec::new();
        if let (Some(established), Some(limit)) = (signals.established, signals.worker_limit) {
            evidence.push(format!(
                "{} of {} workers were taken",
                number(established.min(limit)),
                number(limit)
            ));
        }
        if let Some(length) = waiting {
            let length = number(length);
            let mut text = format!("{length} connections on average waited to be accepted");
            if let Some(used) = signals.cpu_of_quota.filter(|_| !self.is_computing) {
                let used = percent(used);
                text.push_str(&format!(", while {used} of the processor time was used"));
            }
            evidence.push(text);
        }
        Some(suspicion(
            Resource::Workers,
            confidence,
            evidence,
            "more workers: throughput grows with them, and not with the backlog",
        ))
    }

    fn server_itself(&self, limit: Option<Confidence>) -> Option<Suspicion> {
        let signals = self.signals;
        let (wait, share) = unexplained_wait(signals)?;
        if share < 0.5 {
            return None;
        }
        // Waiting for a processor, a disk or a worker looks the same from outside.
        let has_time = signals.cpu_of_quota.is_some_and(|used| used < MUCH);
        let confidence = match limit {
            Some(Confidence::Strong) => return None,
            Some(Confidence::Likely) => Confidence::Possible,
            _ if share >= 0.8 && has_time => Confidence::Strong,
            _ if has_time => Confidence::Likely,
            _ => Confidence::Possible,
        };
        let mut text = format!(
            "{} of an exchange is a wait of {} for the first octet that neither the round trip nor \
             the processor explains",
            percent(share),
            time(wait)
        );
        if let Some(used) = signals.cpu_of_quota {
            let used = percent(used);
            text.push_str(&format!(", while {used} of the processor time was used"));
        }
        Some(suspicion(
            Resource::ServerItself,
            confidence,
            vec![text],
            "no limit of the host, relieved, gives more throughput",
        ))
    }

    fn load(&self, limit: Option<Confidence>) -> Option<Suspicion> {
        let signals = self.signals;
        let answered = share(signals.achieved_per_s, signals.offered_per_s);
        let under_way = share(signals.concurrency, signals.users);
        let (by_signals, text) = match (answered, under_way) {
            (Some(share), _) if share >= 0.98 => (
                Confidence::Strong,
                format!(
                    "{} of the rate that was asked for was answered",
                    percent(share)
                ),
            ),
            (None, Some(share)) if share < 0.5 => (
                Confidence::Strong,
                format!(
                    "users waited for answers in {} of their time, and paused in the rest",
                    percent(share)
                ),
            ),
            (None, Some(_)) => (
                Confidence::Possible,
                "nothing is saturated, and each user waits for an answer before asking again"
                    .to_owned(),
            ),
            _ => return None,
        };
        let confidence = match limit {
            Some(Confidence::Strong) if by_signals == Confidence::Possible => return None,
            Some(Confidence::Strong) => Confidence::Possible,
            Some(Confidence::Likely) => by_signals.min(Confidence::Likely),
            _ => by_signals,
        };
        Some(suspicion(
            Resource::Load,
            confidence,
            vec![text],
            "more users or a higher rate: throughput grows in proportion, and latency does not",
        ))
    }
}

fn suspicion(
    resource: Resource,
    confidence: Confidence,
    evidence: Vec<String>,
    confirm: &str,
) -> Suspicion {
    Suspicion {
        resource,
        confidence,
        evidence,
        confirm: confirm.to_owned(),
    }
}

fn by_use(share: f64) -> Option<Confidence> {
    match share {
        full if full >= FULL => Some(Confidence::Strong),
        nearly if nearly >= NEARLY => Some(Confidence::Likely),
        much if much >= MUCH => Some(Confidence::Possible),
        _ => None,
    }
}

/// Limits of disks are kept to some per cent, and counted when requests end.
fn disk_by_use(share: f64) -> Option<Confidence> {
    by_use(share + 0.05)
}

/// A part of a whole that is known and above zero.
fn share(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    let whole = whole.filter(|whole| *whole > 0.0)?;
    Some(part? / whole)
}

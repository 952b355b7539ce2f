//! The resource that was exhausted first, by the probes at a load that fails. The probes at a load that works are given
//! for comparison.

use serde::{Deserialize, Serialize};

use super::suspicion::machine_is_saturated;
use super::words::{count, hundredths, number, percent};
use super::{Confidence, Resource, Signals, Suspicion, suspect};

/// The smallest share of refusals that is reported.
const LEAST_REFUSED: f64 = 0.0005;

/// The resource that was exhausted first between two loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GaveOut {
    /// The exhausted resource; `None` if no probed resource was exhausted.
    pub resource: Option<Resource>,
    /// How strongly the probes indicate that the resource is exhausted.
    pub confidence: Option<Confidence>,
    /// The answer in words, with its evidence.
    pub text: String,
    /// The figures that were probed, at both loads.
    pub figures: Vec<Figure>,
}

/// A figure at the load that works and at the load that fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The name of the figure, with its unit.
    pub name: String,
    /// The value at the load that works.
    pub works: Option<f64>,
    /// The value at the load that fails.
    pub fails: Option<f64>,
    /// Whether the value is a share, 0 to 1.
    pub is_share: bool,
}

impl GaveOut {
    /// Whether the resource can be exhausted. It must be a limit of the host, the server or the link, and not the round
    /// trip.
    pub fn can_name(resource: Resource) -> bool {
        resource.is_a_limit() && resource != Resource::RoundTrip
    }
}

impl Figure {
    /// Both values as text, as in `96 %`; a dash replaces a missing value.
    pub fn words(&self) -> [String; 2] {
        [self.works, self.fails].map(|value| match value {
            Some(share) if self.is_share => percent(share),
            Some(value) => number(value),
            None => "–".to_owned(),
        })
    }
}

/// Returns the resource that was exhausted first between the load that works and the load that fails. `refused` is the
/// share of exchanges with a status of 400 or above at the load that fails.
pub fn gave_out(works: &Signals, fails: &Signals, refused: f64) -> GaveOut {
    let figures = figures(works, fails);
    if machine_is_saturated(fails) {
        let idle = percent(fails.machine_idle.unwrap_or(0.0));
        return GaveOut {
            resource: Some(Resource::Cpu),
            confidence: Some(Confidence::Likely),
            text: format!(
                "the CPU time of the machine was exhausted first: its processors were idle for {idle}, while the \
                 server did not use its quota; other programs, including the generator, used the rest"
            ),
            figures,
        };
    }
    let exhausted = suspect(fails).into_iter().find(is_exhausted);
    GaveOut {
        resource: exhausted.as_ref().map(|found| found.resource),
        confidence: exhausted.as_ref().map(|found| found.confidence),
        text: match &exhausted {
            Some(found) => format!(
                "the {} was exhausted first: {}",
                noun(found, fails),
                found.evidence.join("; ")
            ),
            None => "no probed resource was exhausted".to_owned(),
        } + &refusals(refused),
        figures,
    }
}

/// Whether the suspected resource is exhausted.
fn is_exhausted(suspicion: &Suspicion) -> bool {
    GaveOut::can_name(suspicion.resource) && suspicion.confidence >= Confidence::Likely
}

/// The name of the exhausted resource. Without a CPU quota, the CPU time belongs to the machine and not to the host.
fn noun(suspicion: &Suspicion, fails: &Signals) -> &'static str {
    let is_quota = fails.throttled_periods.is_some();
    match suspicion.resource {
        Resource::Cpu if !is_quota => "CPU time of the machine",
        other => other.noun(),
    }
}

/// A clause about refusals, if there are any. They may come from the exhausted resource or from a limit in the server's
/// configuration.
fn refusals(share: f64) -> String {
    match share >= LEAST_REFUSED {
        true => format!(
            "; {} of the exchanges had a status of 400 or above; a limit in the server's configuration can also cause this",
            percent(share)
        ),
        false => String::new(),
    }
}

/// The figures that were measured at one or both of the loads.
fn figures(works: &Signals, fails: &Signals) -> Vec<Figure> {
    type Read = fn(&Signals) -> Option<f64>;
    let quota = fails.cpu_quota_cores.map_or_else(
        || "CPU time".to_owned(),
        |cores| format!("CPU time of {} cores", hundredths(cores)),
    );
    let memory = fails.memory_limit.map_or_else(
        || "memory, of its limit".to_owned(),
        |limit| format!("memory of {limit}"),
    );
    let backlog = fails.backlog.map_or_else(
        || "connections that waited to be accepted, mean".to_owned(),
        |most| {
            format!(
                "connections that waited to be accepted, mean (at most {})",
                count(most)
            )
        },
    );
    let shares: [(String, Read); 9] = [
        (quota, |s| s.cpu_of_quota),
        ("periods of the quota that were throttled".to_owned(), |s| {
            s.throttled_periods
        }),
        (
            "busiest thread of the server, of one core".to_owned(),
            |s| s.busiest_thread,
        ),
        ("machine's processors busy".to_owned(), |s| {
            Some(1.0 - s.machine_idle?)
        }),
        (memory, |s| s.memory_of_limit),
        ("disk busy".to_owned(), |s| s.disk_busy),
        ("link towards the clients".to_owned(), |s| s.link_down),
        ("link towards the server".to_owned(), |s| s.link_up),
        ("segments retransmitted".to_owned(), |s| s.retransmitted),
    ];
    let rates: [(String, Read); 4] = [
        ("evicted pages read again, per second".to_owned(), |s| {
            s.refaults_per_s
        }),
        ("established connections, mean".to_owned(), |s| {
            s.established
        }),
        (backlog, |s| s.accept_queue),
        (
            "connections that found the accept queue full, per second".to_owned(),
            |s| s.listen_overflows_per_s,
        ),
    ];
    let shares = shares.into_iter().map(|figure| (figure, true));
    let all = shares.chain(rates.into_iter().map(|figure| (figure, false)));
    all.map(|((name, read), is_share)| Figure {
        name,
        works: read(works),
        fails: read(fails),
        is_share,
    })
    .filter(|figure| figure.works.or(figure.fails).is_some())
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signals(cpu: f64, throttled: Option<f64>) -> Signals {
        Signals {
            cpu_quota_cores: Some(0.25),
            cpu_of_quota: Some(cpu),
            throttled_periods: throttled,
            machine_idle: Some(0.4),
            ..Signals::default()
        }
    }

    #[test]
    fn a_quota_that_is_used_up_gave_out_first() {
        let found = gave_out(&signals(0.9, Some(0.2)), &signals(0.99, Some(0.97)), 0.0);
        assert_eq!(found.resource, Some(Resource::Cpu));
        assert!(
            found
                .text
                .starts_with("the host's CPU time was exhausted first: the host used 99"),
            "{found:?}"
        );
        let first = &found.figures[0];
        assert_eq!((first.works, first.fails), (Some(0.9), Some(0.99)));
        assert!(first.name.contains("0.25 cores"), "{first:?}");
    }

    #[test]
    fn refusals_by_a_server_with_time_left_are_no_exhausted_resource() {
        let idle = signals(0.2, None);
        let found = gave_out(&idle, &idle, 0.02);
        assert_eq!(found.resource, None);
        assert!(
            found.text.contains("no probed resource") && found.text.contains("2"),
            "{found:?}"
        );
        assert!(!gave_out(&idle, &idle, 0.0).text.contains("status"));
    }

    #[test]
    fn a_machine_without_processor_time_gave_out_and_not_the_quota() {
        let fails = Signals {
            machine_idle: Some(0.01),
            ..signals(0.5, Some(0.0))
        };
        let found = gave_out(&signals(0.4, Some(0.0)), &fails, 0.0);
        assert!(
            found.text.starts_with("the CPU time of the machine"),
            "{found:?}"
        );
    }
}

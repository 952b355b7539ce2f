//! Synthetic loads with a known limit, computed by the operational laws.

use std::time::Duration;

use fathometer_model::{Bytes, Seed, Validity};

use super::super::*;
use crate::statistics::Intervals;

pub(super) const USERS: f64 = 40.0;
pub(super) const REPLICATES: u32 = 5;

/// A load with a known limit: the signals of its probes, and the response of its throughput.
pub(super) struct Plant {
    pub(super) signals: Signals,
    /// Each step: the resource, the factor, and the elasticity of throughput to relief.
    pub(super) answers: Vec<(Resource, f64, f64)>,
}

impl Plant {
    /// Five replicates of the unchanged load and of each change. All loads of a replicate share a drift. Each load also
    /// has noise of its own, from -`noise` to +`noise`.
    pub(super) fn observed(&self, noise: f64) -> Vec<Observation> {
        let draws = Seed(17).stream("noise");
        let mut observations = Vec::new();
        let loads = [None].into_iter().chain(self.answers.iter().map(Some));
        for (place, answer) in loads.enumerate() {
            for replicate in 0..REPLICATES {
                let drift = 1.0 + 0.3 * draws.uniform(u64::from(replicate));
                let draw = draws.child(place as u64).uniform(u64::from(replicate));
                let own = 1.0 + noise * (2.0 * draw - 1.0);
                let change = answer.map(|(resource, factor, _)| Change {
                    resource: *resource,
                    factor: *factor,
                });
                let effect = answer.map_or(1.0, |(_, _, elasticity)| {
                    (elasticity * change.and_then(Change::relief).unwrap()).exp()
                });
                let throughput = 100.0 * drift * own * effect;
                // Little's law in a closed loop: more users wait longer.
                let users = match change {
                    Some(change) if change.resource == Resource::Load => USERS * change.factor,
                    _ => USERS,
                };
                observations.push(observation(
                    change,
                    replicate,
                    throughput,
                    users,
                    self.signals,
                ));
            }
        }
        observations
    }

    pub(super) fn verdict(&self) -> Verdict {
        judge(&self.observed(0.02), Intervals::default())
    }
}

pub(super) fn observation(
    change: Option<Change>,
    replicate: u32,
    throughput: f64,
    users: f64,
    signals: Signals,
) -> Observation {
    let latency = Duration::from_secs_f64(users / throughput);
    Observation {
        change,
        replicate,
        throughput_per_s: throughput,
        goodput_bytes_per_s: 1e4 * throughput,
        latency_mean: latency,
        latency_p98: 3 * latency,
        errors: 0.0,
        signals,
        validity: Validity::default(),
    }
}

/// A host with spare CPU time, memory and link capacity, and busy users.
pub(super) fn idle() -> Signals {
    Signals {
        cpu_quota_cores: Some(2.0),
        cpu_of_quota: Some(0.12),
        busiest_thread: Some(0.2),
        cpu_per_exchange: Some(Duration::from_micros(800)),
        memory_of_limit: Some(0.5),
        memory_limit: Some(Bytes(64_000_000)),
        refaults_per_s: Some(0.0),
        disk_read_bytes_per_s: Some(0.0),
        disk_reads_per_s: Some(0.0),
        link_up: Some(0.01),
        link_down: Some(0.1),
        round_trip: Some(Duration::from_millis(1)),
        listen_overflows_per_s: Some(0.0),
        accept_queue: Some(0.0),
        established: Some(40.0),
        connect: Some(Duration::ZERO),
        queue: Some(Duration::ZERO),
        first_byte: Some(Duration::from_millis(390)),
        transfer: Some(Duration::from_millis(10)),
        concurrency: Some(USERS),
        users: Some(USERS),
        achieved_per_s: Some(100.0),
        ..Signals::default()
    }
}

/// The steps of a typical search. Only the given resources have an effect.
pub(super) fn answers(given: &[(Resource, f64)]) -> Vec<(Resource, f64, f64)> {
    [
        (Resource::Cpu, 1.25),
        (Resource::OneCore, 0.8),
        (Resource::Memory, 1.25),
        (Resource::LinkRate, 1.25),
        (Resource::RoundTrip, 0.8),
        (Resource::Backlog, 1.25),
        (Resource::Workers, 1.25),
        (Resource::Load, 1.25),
    ]
    .into_iter()
    .chain(
        [Resource::DiskOperations, Resource::DiskBytes]
            .into_iter()
            .filter(|disk| given.iter().any(|(resource, _)| resource == disk))
            .map(|disk| (disk, 1.25)),
    )
    .map(|(resource, factor)| {
        let answer = given.iter().find(|(of, _)| *of == resource);
        (
            resource,
            factor,
            answer.map_or(0.0, |(_, elasticity)| *elasticity),
        )
    })
    .collect()
}

pub(super) fn cpu() -> Plant {
    Plant {
        signals: Signals {
            cpu_quota_cores: Some(0.2),
            cpu_of_quota: Some(0.99),
            throttled_periods: Some(0.94),
            busiest_thread: Some(0.2),
            ..idle()
        },
        answers: answers(&[(Resource::Cpu, 0.96)]),
    }
}

pub(super) fn one_core() -> Plant {
    Plant {
        signals: Signals {
            cpu_of_quota: Some(0.52),
            busiest_thread: Some(0.99),
            ..idle()
        },
        answers: answers(&[(Resource::OneCore, 0.97)]),
    }
}

/// Memory is short, so files are read from the disk. The disk is throttled and therefore saturated.
pub(super) fn memory() -> Plant {
    Plant {
        signals: Signals {
            memory_of_limit: Some(0.999),
            refaults_per_s: Some(900.0),
            disk_reads_per_s: Some(196.0),
            disk_reads_limit_per_s: Some(200.0),
            disk_read_bytes_per_s: Some(4.1e6),
            io_pressure: Some(0.8),
            ..idle()
        },
        answers: answers(&[(Resource::Memory, 2.4), (Resource::DiskOperations, 0.9)]),
    }
}

/// The same probes with many more files, so that slightly more memory has little effect.
pub(super) fn disk_operations() -> Plant {
    Plant {
        answers: answers(&[(Resource::Memory, 0.15), (Resource::DiskOperations, 0.95)]),
        ..memory()
    }
}

pub(super) fn disk_bytes() -> Plant {
    Plant {
        signals: Signals {
            memory_of_limit: Some(0.99),
            refaults_per_s: Some(0.0),
            disk_reads_per_s: Some(30.0),
            disk_read_bytes_per_s: Some(3.9e6),
            disk_bytes_limit_per_s: Some(4e6),
            ..idle()
        },
        answers: answers(&[(Resource::DiskBytes, 0.98)]),
    }
}

pub(super) fn link_rate() -> Plant {
    Plant {
        signals: Signals {
            link_down: Some(0.985),
            queue_drops_per_s: Some(3.0),
            first_byte: Some(Duration::from_millis(100)),
            transfer: Some(Duration::from_millis(300)),
            ..idle()
        },
        answers: answers(&[(Resource::LinkRate, 0.97)]),
    }
}

pub(super) fn round_trip() -> Plant {
    Plant {
        signals: Signals {
            round_trip: Some(Duration::from_millis(60)),
            rate_of_window: Some(0.93),
            first_byte: Some(Duration::from_millis(61)),
            transfer: Some(Duration::from_millis(339)),
            ..idle()
        },
        answers: answers(&[(Resource::RoundTrip, 0.97), (Resource::Load, 0.98)]),
    }
}

pub(super) fn backlog() -> Plant {
    Plant {
        signals: Signals {
            listen_overflows_per_s: Some(25.0),
            accept_queue: Some(0.7),
            backlog: Some(4.0),
            established: Some(3.0),
            worker_limit: Some(64.0),
            connect: Some(Duration::from_millis(380)),
            first_byte: Some(Duration::from_millis(10)),
            ..idle()
        },
        answers: answers(&[(Resource::Backlog, 0.7)]),
    }
}

pub(super) fn workers() -> Plant {
    Plant {
        signals: Signals {
            listen_overflows_per_s: Some(2.0),
            accept_queue: Some(28.0),
            backlog: Some(28.0),
            established: Some(8.0),
            worker_limit: Some(8.0),
            connect: Some(Duration::from_millis(150)),
            ..idle()
        },
        answers: answers(&[(Resource::Workers, 0.98)]),
    }
}

/// One request at a time: more users wait longer, and throughput does not grow.
pub(super) fn lock() -> Plant {
    Plant {
        signals: idle(),
        answers: answers(&[]),
    }
}

/// Each request sleeps separately: more users raise throughput, and no limit of the host shortens the sleep.
pub(super) fn sleep() -> Plant {
    Plant {
        signals: idle(),
        answers: answers(&[(Resource::Load, 0.98)]),
    }
}

pub(super) fn pauses() -> Plant {
    Plant {
        signals: Signals {
            concurrency: Some(1.2),
            first_byte: Some(Duration::from_millis(4)),
            transfer: Some(Duration::from_millis(2)),
            ..idle()
        },
        answers: answers(&[(Resource::Load, 0.99)]),
    }
}

pub(super) fn rate() -> Plant {
    Plant {
        signals: Signals {
            users: None,
            offered_per_s: Some(100.2),
            ..pauses().signals
        },
        answers: answers(&[(Resource::Load, 1.0)]),
    }
}

pub(super) fn plants() -> Vec<(Resource, Plant)> {
    vec![
        (Resource::Cpu, cpu()),
        (Resource::OneCore, one_core()),
        (Resource::Memory, memory()),
        (Resource::DiskOperations, disk_operations()),
        (Resource::DiskBytes, disk_bytes()),
        (Resource::LinkRate, link_rate()),
        (Resource::RoundTrip, round_trip()),
        (Resource::Backlog, backlog()),
        (Resource::Workers, workers()),
        (Resource::ServerItself, lock()),
        (Resource::ServerItself, sleep()),
        (Resource::Load, pauses()),
        (Resource::Load, rate()),
    ]
}

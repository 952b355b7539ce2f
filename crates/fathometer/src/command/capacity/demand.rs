//! What the loads of a search are: rates, or numbers of users.

use std::time::Duration;

use fathometer_load::Users;
use fathometer_model::Seed;
use fathometer_workload::arrivals::{Arrivals, Profile};

use super::super::Failure;
use super::super::load::ArrivalsChoice;

/// What a load is a number of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Requests per second of an open loop.
    Rate {
        /// The arrival process.
        arrivals: ArrivalsChoice,
        /// The most connections.
        connections: u32,
        /// Up to how many more are used where exchanges wait for one.
        most_connections: u32,
    },
    /// Closed-loop users without pauses.
    Users,
    /// Users with the pauses and sessions of the workload.
    UserEquivalents,
}

impl Demand {
    /// The options of a load test with such users; their number is set for each trial.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Demand::Rate { .. } => &["--rate", "1"],
            Demand::Users => &["-c", "1"],
            Demand::UserEquivalents => &["--ue", "1"],
        }
    }

    /// In words.
    pub fn describe(self) -> String {
        match self {
            Demand::Rate {
                arrivals,
                connections,
                ..
            } => {
                let process = match arrivals {
                    ArrivalsChoice::Poisson => "Poisson",
                    _ => "constant",
                };
                format!("open loop, {process} arrivals, at most {connections} connections")
            }
            Demand::Users => "closed loop, users without pauses".to_owned(),
            Demand::UserEquivalents => {
                "closed loop, users with the pauses of the workload".to_owned()
            }
        }
    }

    /// The users of a trial.
    pub(super) fn users(self, load: f64, warm_up: Duration, seed: Seed) -> Result<Users, Failure> {
        Ok(match self {
            Demand::Rate {
                arrivals,
                connections,
                ..
            } => {
                let profile = Profile::constant(load)?;
                Users::Open {
                    arrivals: match arrivals {
                        ArrivalsChoice::Poisson => Arrivals::poisson(profile, seed),
                        _ => Arrivals::constant(profile),
                    },
                    connections,
                }
            }
            Demand::Users => Users::closed(load as u32),
            Demand::UserEquivalents => Users::Closed {
                users: load as u32,
                // All of them are there before the measured window.
                start_interval: warm_up / (load as u32).max(1),
                steps: Vec::new(),
            },
        })
    }
}

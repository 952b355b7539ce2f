//! The kinds of load of a search: rates, or numbers of users.

use std::time::Duration;

use fathometer_load::Users;
use fathometer_model::Seed;
use fathometer_workload::arrivals::{Arrivals, Profile, RateError};
use schemars::JsonSchema;
use serde::Deserialize;

/// The arrival process of an open loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalProcess {
    /// Arrivals at constant intervals.
    #[default]
    Constant,
    /// Random arrivals that are independent of each other.
    Poisson,
}

/// The kind of load of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Requests per second of an open loop.
    Rate {
        /// The arrival process.
        arrivals: ArrivalProcess,
        /// The maximum number of connections at the start of the search.
        connections: u32,
        /// The limit to which the maximum number of connections may grow, if exchanges wait for a free connection.
        most_connections: u32,
    },
    /// Closed-loop users without pauses.
    Users,
    /// Users with the pauses and sessions of the workload.
    UserEquivalents,
}

impl Demand {
    /// Whether a load is a number of users, which is an integer.
    pub fn is_users(self) -> bool {
        !matches!(self, Demand::Rate { .. })
    }

    /// Describes the kind of load in words.
    pub fn describe(self) -> String {
        match self {
            Demand::Rate {
                arrivals,
                connections,
                ..
            } => {
                let process = match arrivals {
                    ArrivalProcess::Poisson => "Poisson",
                    ArrivalProcess::Constant => "constant",
                };
                format!("open loop, {process} arrivals, at most {connections} connections")
            }
            Demand::Users => "closed loop, users without pauses".to_owned(),
            Demand::UserEquivalents => {
                "closed loop, users with the pauses of the workload".to_owned()
            }
        }
    }

    /// Returns the users of a trial.
    pub(super) fn users(
        self,
        load: f64,
        warm_up: Duration,
        seed: Seed,
    ) -> Result<Users, RateError> {
        Ok(match self {
            Demand::Rate {
                arrivals,
                connections,
                ..
            } => {
                let profile = Profile::constant(load)?;
                Users::Open {
                    arrivals: match arrivals {
                        ArrivalProcess::Poisson => Arrivals::poisson(profile, seed),
                        ArrivalProcess::Constant => Arrivals::constant(profile),
                    },
                    connections,
                }
            }
            Demand::Users => Users::closed(load as u32),
            Demand::UserEquivalents => Users::Closed {
                users: load as u32,
                // All users start before the measured window begins.
                start_interval: warm_up / (load as u32).max(1),
                steps: Vec::new(),
            },
        })
    }
}

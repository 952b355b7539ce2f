//! Queueing models: pure functions of their parameters.
//!
//! | module | content | source |
//! |---|---|---|
//! | [`bounds`] | asymptotic bounds | Lazowska, Zahorjan, Graham, Sevcik: "Quantitative System Performance" (1984), chapter 5 |
//! | [`scalability`] | the Universal Scalability Law, fitted | Gunther: "Guerrilla Capacity Planning" (2007), chapters 4 to 6 |
//! | [`closed`] | closed networks of one class: queueing, delay and multiserver stations | Reiser and Lavenberg, JACM 27 (1980); Buzen, CACM 16 (1973) |
//! | [`limited`] | closed networks of one class with a limited number of workers | Lazowska and others (1984), 9.3: flow-equivalent servers |
//! | [`varying`] | closed networks with demands that depend on the throughput | Kattepur and Nambiar, "MVASD" (2015) |
//! | [`classes`] | closed networks of several classes | Reiser and Lavenberg (1980) |
//! | [`open`] | open networks of M/M/c stations | Jackson, Operations Research 5 (1957) |
//! | [`erlang`] | Erlang's formulas | Erlang (1917); Kleinrock: "Queueing Systems" (1975), 3.5 |
//! | [`cache`] | hit ratios of an LRU cache | Che, Tung, Wang, JSAC 20 (2002) |
//! | [`simulation`] | discrete-event simulation of networks with workers, a backlog and time-outs | Law: "Simulation Modeling and Analysis" (2015), chapters 1 and 9 |
//!
//! A *demand* is the total service time of an exchange at a station, without waiting.

pub mod bounds;
pub mod cache;
pub mod classes;
pub mod closed;
pub mod erlang;
pub mod limited;
mod linear;
pub mod open;
pub mod scalability;
pub mod simulation;
pub mod units;
pub mod varying;
mod wide;

pub use units::{PerSecond, Seconds};

/// Why a model has no solution.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A parameter is out of its range.
    #[error("{what} is {found}: it must be {range}")]
    Parameter {
        /// The parameter.
        what: String,
        /// The value of the parameter.
        found: f64,
        /// The valid range.
        range: &'static str,
    },
    /// The offered load of an open station reaches or exceeds its capacity.
    #[error(
        "the offered load of {station} is {offered:.3} of its capacity: there is no steady state"
    )]
    Saturated {
        /// The station.
        station: String,
        /// The offered load divided by the capacity: 1 or more.
        offered: f64,
    },
    /// The data do not determine the parameters.
    #[error("not identified: {0}")]
    NotIdentified(String),
    /// The model is too large for an exact solution.
    #[error("{states} populations are too many for an exact solution; the limit is {limit}")]
    TooLarge {
        /// The number of populations.
        states: f64,
        /// The largest number of populations.
        limit: f64,
    },
}

/// Checks that a parameter is finite and not negative.
fn not_negative(what: &str, value: f64) -> Result<f64, ModelError> {
    match value.is_finite() && value >= 0.0 {
        true => Ok(value),
        false => Err(ModelError::Parameter {
            what: what.to_owned(),
            found: value,
            range: "finite and at least 0",
        }),
    }
}

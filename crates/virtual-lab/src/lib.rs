//! Predicts a page retrieval in virtual time. The laboratory runs the protocol state machines of client and origin on
//! kernels. This crate runs the same state machines over models of TCP ([`fathometer_tcp`]) and of the path
//! ([`fathometer_path`]).
//!
//! [`predict`] returns a prediction of the laboratory's measurement: the retrieval with its records, the packets and
//! bytes in each direction, and TCP's event counters. The computation takes milliseconds for any path. A prediction
//! lists its extrapolations ([`Extrapolation`]). [`predict_spread`] returns the dependence of the result on the phase
//! of the kernel's timers. A path or a policy that is not in the model is an error ([`Unsupported`]).
//!
//! Client and origin read and write as in the laboratory: one turn handles all received data, and then writes. The time
//! from an arrival to the turn is a parameter ([`HostTimes`]).

mod client;
mod packet;
mod prediction;
mod retrieval;
mod server;
mod spread;

pub use prediction::{Extrapolation, HostTimes, Packets, Prediction, Scenario, Unsupported};
pub use retrieval::predict;
pub use spread::{Spread, predict_spread};

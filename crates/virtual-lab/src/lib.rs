//! A page retrieval in virtual time: the protocol machines of client and origin that the laboratory hosts on kernels, here
//! over the models of TCP ([`fathometer_tcp`]) and of the path ([`fathometer_path`]).
//!
//! [`predict`] returns what the laboratory would measure: the retrieval with its records, the packets and bytes in each
//! direction, and what happened to TCP. It takes milliseconds, whatever the path. A prediction says where it
//! extrapolates ([`Extrapolation`]), [`predict_spread`] how far it depends on the phase of the kernel's timers, and there is none for a path or a policy that is not in the model ([`Unsupported`]).
//!
//! The laboratory's page client reads and writes as this module's client does: one turn handles everything that has
//! arrived, then writes. The same holds for the origin. The time in which a program is woken is a parameter ([`HostTimes`]).

mod client;
mod packet;
mod prediction;
mod retrieval;
mod server;
mod spread;

pub use prediction::{Extrapolation, HostTimes, Packets, Prediction, Scenario, Unsupported};
pub use retrieval::predict;
pub use spread::{Spread, predict_spread};

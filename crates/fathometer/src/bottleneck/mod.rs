//! The search for what limits a server: trials of a set-up as it is and with one limit after another
//! changed by a step, and what the judge of [`fathometer_analysis::bottleneck`] makes of them.
//!
//! - [`setup`]: a server on a host with limits, a path and a load, and changes of it
//! - [`server`], [`site`]: the server that is judged, and what it serves
//! - [`run`]: the trials
//! - [`signals`]: what probes, path and clients say of one
//! - [`record`]: what a search leaves on the screen and in a folder
//! - [`plants`], [`self_test`]: set-ups whose limit is known because it was built in, to judge the judge by
//! - [`slow_server`]: a server with a fault in its handler, for them

pub mod plants;
pub mod record;
pub mod run;
pub mod self_test;
pub mod server;
pub mod setup;
pub mod signals;
pub mod site;
pub mod slow_server;

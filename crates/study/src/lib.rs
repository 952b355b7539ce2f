//! Studies: their files ([`files`]), the design ([`spec`]), the order of execution ([`schedule`]), one
//! replicate ([`replicate`]; [`page`], [`load`]), the whole run ([`run`]), and resuming it after an
//! interruption ([`past`]).

pub mod bottleneck;
pub mod files;
pub mod load;
mod materials;
pub mod page;
pub mod past;
mod plots;
pub mod progress;
pub mod replicate;
pub mod run;
pub mod run_folder;
pub mod schedule;
pub mod spec;

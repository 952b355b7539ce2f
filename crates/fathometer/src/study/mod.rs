//! Studies: what is varied ([`spec`]), in which order it is run ([`schedule`]), one repetition
//! ([`replicate`]) and all of them ([`run`]).

pub mod load;
pub mod replicate;
pub mod run;
pub mod schedule;
pub mod spec;

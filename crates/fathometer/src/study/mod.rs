//! Studies: their files ([`files`]), what is varied ([`spec`]), in which order it is run ([`schedule`]), one repetition
//! ([`replicate`]; [`page`], [`load`]) and all of them ([`run`]), also when they take more than one sitting ([`past`]).

pub mod files;
pub mod hash;
pub mod load;
mod materials;
pub mod page;
pub mod past;
mod plots;
pub mod replicate;
pub mod run;
pub mod schedule;
pub mod spec;

//! Results of load tests, statistics, claims, tables, figures and the report, from recorded files alone.
//!
//! Everything here is a function of files: a run's folder, a paper's published figures. The crate uses no clock,
//! no network and no randomness except the seed that a run recorded. So a report that is rendered again years
//! later is the same.
//!
//! - [`load`]: the results of a load test; [`load_page`]: its HTML page
//! - [`bottleneck`]: which resource limited a load test; [`capacity_page`]: the HTML page of a capacity search
//! - [`content_page`]: the HTML page of what treatments of a site's files save
//! - [`compare`]: comparisons of two results
//! - [`run`]: a run's folder, as read
//! - [`statistics`]: intervals over replicates
//! - [`selection`], [`published`], [`published_claims`]: cells of a run by their levels, and the published
//!   figures and claims
//! - [`tables`], [`sweep`], [`closeness`], [`claims`]: the figures, the curves that they form, how close they
//!   are to the published figures, and the verdicts on claims
//! - [`study`]: a paper as data, which combines all of these
//! - [`retrieval_trace`]: page retrievals as a Chrome trace and as an HTTP archive
//! - [`ledger`]: the verdicts of several runs on all claims
//! - [`real_cells`]: cells with many replicates, for simulations
//! - [`machine_differences`]: how much the machines of a merged run differ
//! - [`equal_cells`]: A/A tests of equal cells, which a run measured twice
//! - [`waterfall`]: where the time of a page went, by cause
//! - [`civil`]: dates and lengths of time as text
//! - [`digest`]: all results of a run, computed once for [`terminal`], [`report`] and [`summary`]

pub mod bottleneck;
pub mod capacity_page;
pub mod civil;
pub mod claims;
pub mod closeness;
pub mod compare;
pub mod content_page;
mod csv;
pub mod digest;
pub mod equal_cells;
mod error;
pub mod gave_out_first;
mod inputs;
pub mod ledger;
pub mod load;
pub mod load_page;
pub mod machine_differences;
mod machines;
mod page;
pub mod published;
pub mod published_claims;
pub mod real_cells;
pub mod report;
mod resolution;
pub mod retrieval_trace;
pub mod run;
pub mod selection;
pub mod statistics;
pub mod study;
mod study_share;
pub mod summary;
mod svg;
pub mod sweep;
pub mod tables;
pub mod terminal;
mod text;
pub mod waterfall;

pub use error::Error;

//! Results of load tests, statistics, claims, tables, figures and the report, from recorded files alone.
//!
//! The crate computes everything from files: a run's folder and a paper's published figures. It uses no clock and no
//! network, and all its random numbers come from the seed that a run recorded. So a report that is rendered again
//! years later is identical.
//!
//! - [`load`]: the results of a load test; [`load_page`]: its HTML page
//! - [`bottleneck`]: which resource limited a load test; [`capacity_page`]: the HTML page of a capacity search
//! - [`content_page`]: the HTML page of a content analysis
//! - [`compare`]: comparisons of two results
//! - [`run`]: a run's folder, as read
//! - [`statistics`]: intervals over replicates
//! - [`selection`], [`published`], [`published_claims`]: cells of a run by their levels, and the published
//!   figures and claims
//! - [`tables`], [`sweep`], [`closeness`], [`claims`]: tables of figures, curves of figures, differences from the
//!   published figures, and verdicts on claims
//! - [`study`]: a paper as data, which combines all of these
//! - [`retrieval_trace`]: page retrievals as a Chrome trace and as an HTTP archive
//! - [`ledger`]: the verdicts of several runs on all claims
//! - [`real_cells`]: cells with many replicates, for simulations
//! - [`machine_differences`]: differences between the machines of a merged run
//! - [`equal_cells`]: A/A tests of cells that a run measured twice
//! - [`waterfall`]: the time of a page by cause
//! - [`civil`]: dates and durations as text
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

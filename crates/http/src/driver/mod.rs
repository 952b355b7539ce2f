//! Retrieves a page with a connection policy, without I/O.
//!
//! [`PageDriver`] implements the part of a browser or a robot that decides which requests to send. It fetches the base
//! file, finds the embedded files while the HTML arrives, and requests them. [`Policy`] and [`Options`] control the
//! number of connections, pipelining, flushing, validation and closing. The result is a [`Retrieval`]: a record of
//! every exchange and connection, the cache for the next visit, and the times at which the page reached its milestones.
//!
//! # How to drive it
//!
//! A [`PageDriver`] has no clock and no sockets. Its methods are of three kinds:
//!
//! - inputs, which change the state:
//!   [`handle_connected`](PageDriver::handle_connected), [`handle_data`](PageDriver::handle_data),
//!   [`handle_eof`](PageDriver::handle_eof), [`handle_failure`](PageDriver::handle_failure),
//!   [`handle_timeout`](PageDriver::handle_timeout), [`transmitted`](PageDriver::transmitted);
//! - outputs, which change only the queue of actions: [`poll_action`](PageDriver::poll_action),
//!   [`transmit`](PageDriver::transmit), [`poll_timeout`](PageDriver::poll_timeout),
//!   [`is_finished`](PageDriver::is_finished);
//! - [`finish`](PageDriver::finish), which ends it.
//!
//! After [`new`](PageDriver::new) and after every input:
//!
//! 1. do all actions that `poll_action` returns, in their order;
//! 2. for each established connection, while `transmit` is not empty: write its bytes, report the number of bytes taken
//!    by `transmitted`, and stop when the transport took fewer. The bytes of one `transmit` are one flush: write them
//!    with one call, so that no buffering is added to the buffering of the client;
//! 3. stop when `is_finished`; else wait for input until `poll_timeout`, then call `handle_timeout`.
//!
//! `now` must not run backwards. Inputs about closed connections are ignored.
//!
//! # What it does
//!
//! *First visit*: everything is fetched. *Revisit*: [`Options::revalidation`] sets how cached files are validated. When
//! the base file is current, its references come from the cached HTML, all at once. With [`Policy::ranges`] images are
//! fetched in two parts: the first bytes of all images, then the remaining bytes of each image.
//!
//! *Retries*: a request is retried if its connection ends before or during its response, up to
//! [`Options::retries`] times. After a connection has closed without notice, the next connection is not
//! pipelined before its first response (RFC 9112 section 9.3.2).
//!
//! *References* to other origins are counted and not followed. Redirections are treated like any other
//! response. Style sheets and frames are fetched and not parsed: the files that they name come from a
//! [`PageGraph`], and are requested when the file that names them has arrived (if it is a script: when it has
//! been executed).
//!
//! *Multiplexing* (HTTP/2): there is one connection to each host. Every file is requested as soon as a reference to it
//! is found and the server permits a stream, with its own urgency ([`Priorities`]). A server may push: a push of a
//! cached or already requested file is cancelled; other pushes are accepted and matched with the page. *Sharding*: the
//! embedded files are spread over several host names by a hash of their targets. *Preloads* ([`Options::preloads`]): a
//! file is requested before the HTML that names it arrives.
//!
//! *Bundles* ([`Policy::bundle`]): the page is requested as a package or an archive of all its files. Each file
//! is used when its last byte has arrived; some archives can be used only when they are complete. Missing files
//! are requested one by one. A server without bundles answers with the page itself. *Lists*
//! ([`Options::list`]): files without a page, all known at the start.
//!
//! *HTTP/3*: its state machine uses QUIC streams and belongs to the caller. The caller sends the requests from
//! [`take_request`](PageDriver::take_request) and passes back the machine's events
//! ([`handle_hosted`](PageDriver::handle_hosted), [`handle_progress`](PageDriver::handle_progress)); `transmit` is then
//! always empty. Everything else is as with HTTP/2. *Alternative services* ([`Policy::alt_svc`]): HTTP/2 until the
//! server has announced HTTP/3, and HTTP/3 after that; [`protocol_of`](PageDriver::protocol_of) returns the protocol of
//! a connection.
//!
//! Invariants:
//!
//! - Every connection has one `Connect` and one `Close` or `Abort`.
//! - Every exchange is recorded once, with its outcome.
//! - No byte of a request is sent before a flush, and the flushes are counted by cause.

mod action;
mod alternative;
mod answer;
mod base;
mod bundle;
mod bundling;
mod cache;
mod connections;
mod discovery;
mod dispatch;
mod fuzz;
mod graph;
mod hints;
mod hosted;
mod image;
mod item;
mod kind;
mod link;
mod machine;
mod missing;
mod options;
mod page;
mod policy;
mod push;
mod reader;
mod retrieval;
mod service;
#[cfg(test)]
mod tests;
mod unbundle;

pub use crate::exchange::Version;
pub use crate::protocol::Protocol;
pub use action::{Action, ConnectionId};
pub use bundle::{Bundle, PageList};
pub use cache::{BundleEntry, CacheEntry, ValidatorCache};
pub use fuzz::fuzz;
pub use graph::PageGraph;
pub use image::{Dimensions, Sizer};
pub use kind::{FileKind, ParsePrioritiesError, Priorities, Urgency};
pub use machine::HostedRequest;
pub use missing::Missing;
pub use options::{
    CloseManner, Flush, Http2Windows, Options, ParseFlushError, Revalidation, Visit,
};
pub use page::PageDriver;
pub use policy::{
    DEFAULT_HOSTS, DEFAULT_PIPELINE_DEPTH, MOST_CONNECTIONS, ParsePolicyError, Policy,
};
pub use retrieval::{BundleAnswer, ByteCounts, Counters, Milestones, Retrieval};
pub use service::Service;

/// The maximum number of files of one page that are fetched. Further references are counted in
/// [`Counters::references_left_out`], and the page is then not complete.
pub const MOST_FILES: usize = 4096;

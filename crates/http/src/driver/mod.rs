//! Retrieving a page by a connection policy, without I/O.
//!
//! [`PageDriver`] is what a browser or a robot is between its user and its sockets: it fetches the
//! base file, finds the embedded files while the HTML arrives, and asks for them over as many
//! connections, pipelined or not, flushed, validated and closed as [`Policy`] and [`Options`] say.
//! What came of it is a [`Retrieval`]: a record of every exchange and connection, the cache for the
//! next visit, and when the page reached which state.
//!
//! # How to drive it
//!
//! A [`PageDriver`] has no clock and no sockets. Its methods fall into three kinds:
//!
//! - inputs, the only ones that change anything but the queue of actions:
//!   [`handle_connected`](PageDriver::handle_connected), [`handle_data`](PageDriver::handle_data),
//!   [`handle_eof`](PageDriver::handle_eof), [`handle_failure`](PageDriver::handle_failure),
//!   [`handle_timeout`](PageDriver::handle_timeout), [`transmitted`](PageDriver::transmitted);
//! - outputs: [`poll_action`](PageDriver::poll_action), [`transmit`](PageDriver::transmit),
//!   [`poll_timeout`](PageDriver::poll_timeout), [`is_finished`](PageDriver::is_finished);
//! - [`finish`](PageDriver::finish), which ends it.
//!
//! After [`new`](PageDriver::new) and after every input:
//!
//! 1. do all actions that `poll_action` yields, in their order;
//! 2. for each established connection, while `transmit` is not empty: write it, report what the
//!    transport took by `transmitted`, and stop when it took less. What `transmit` yields at one
//!    time is one flush: one write, so that the transport sees the client's buffering and no other;
//! 3. stop when `is_finished`; else wait for input until `poll_timeout`, then call
//!    `handle_timeout`.
//!
//! `now` must not run backwards. Inputs about connections that have been closed are ignored.
//!
//! # What it does
//!
//! *First visit*: everything is fetched. *Revisit*: by [`Options::revalidation`]; when the base file
//! is current its references come from the cached HTML, all at once. With [`Policy::ranges`] images
//! are fetched in two parts: the first octets of all before the rest of any.
//!
//! A request is asked again when its connection ended before any of its answer (or within it), up to
//! [`Options::retries`] times; after a connection that ended unannounced the next one is not
//! pipelined on before its first answer, as RFC 9112 section 9.3.2 demands. References to other
//! origins are counted and not followed, redirections are answers like any other, style sheets and
//! frames are fetched and not searched: what they name is told by a [`PageGraph`], and asked for when
//! the file that names it is there (a script: executed).
//!
//! *Multiplexing* (HTTP/2): one connection to each host, every file asked for as soon as it is known,
//! as far as the server allows streams, with an urgency of its own ([`Priorities`]). A server may push:
//! what the cache has or what was asked for already is given up, the rest is taken and matched with
//! the page. *Sharding*: the embedded files are spread over hosts of other names by a hash of their
//! targets. *Preloads* ([`Options::preloads`]) make a file known before the HTML names it.
//!
//! *Bundles* ([`Policy::bundle`]): the page is asked for as a package or an archive of all its files. Each
//! file is used when its last octet is there (of archives that wait for all, when the archive is whole),
//! what is missing is asked for singly, and a server that has no bundle answers with the page itself.
//! *Lists* ([`Options::list`]): files that make no page, all known at the start.
//!
//! *HTTP/3*: its machine speaks to the streams of QUIC and is held by the host, which makes the requests
//! that [`take_request`](PageDriver::take_request) yields and hands on what the machine reports
//! ([`handle_hosted`](PageDriver::handle_hosted), [`handle_progress`](PageDriver::handle_progress)); there
//! is nothing to `transmit` then. All else is as with HTTP/2. *Alternative services*
//! ([`Policy::alt_svc`]): HTTP/2 until the server has told that it speaks HTTP/3, and HTTP/3 from then on;
//! [`protocol_of`](PageDriver::protocol_of) says what a connection is to speak.
//!
//! Invariants: every connection has one `Connect` and one `Close` or `Abort`; every exchange is
//! recorded once, with its outcome; no octet leaves that was not flushed, and every flush has a
//! cause that is counted.

mod alternative;
mod answer;
mod base;
mod bundle;
mod cache;
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
mod options;
mod page;
mod policy;
mod push;
mod reader;
mod retrieval;
#[cfg(test)]
mod tests;
mod unbundle;

pub use crate::h1::client::Version;
pub use alternative::Service;
pub use bundle::{Bundle, PageList};
pub use cache::{BundleEntry, CacheEntry, ValidatorCache};
pub use fuzz::fuzz;
pub use graph::PageGraph;
pub use image::{Dimensions, Sizer};
pub use kind::{FileKind, ParsePrioritiesError, Priorities, Urgency};
pub use machine::HostedRequest;
pub use options::{
    CloseManner, Flush, Http2Windows, Options, ParseFlushError, Revalidation, Visit,
};
pub use page::{Action, ConnectionId, PageDriver};
pub use policy::{
    DEFAULT_HOSTS, DEFAULT_PIPELINE_DEPTH, MOST_CONNECTIONS, ParsePolicyError, Policy, Protocol,
};
pub use retrieval::{BundleAnswer, Counters, Milestones, Octets, Retrieval};

/// The most files of one page that are fetched. References beyond are counted in
/// [`Counters::references_left_out`], and the page is then not complete.
pub const MOST_FILES: usize = 4096;

//! How much may wait for clients that take nothing.
//!
//! What a server holds for a client is bounded by what is said here, for every protocol: per response, per
//! connection and for all connections together. Content that lies in memory or in files anyway is not counted.

use fathometer_model::Bytes;

/// With so much of a response waiting for its client, no more of its content is made, and a transport that copies
/// content takes no more of it before some is acknowledged.
pub const ENOUGH_WAITING: Bytes = Bytes(64 * 1024);

/// With so much of all responses of a connection waiting, no more of their content is made.
pub const ENOUGH_WAITING_TOGETHER: Bytes = Bytes(256 * 1024);

/// What a server's transports hold for all their clients together.
pub const MOST_WAITING: Bytes = Bytes(256 * 1024 * 1024);

//! Limits on the data buffered for clients that do not read.
//!
//! They apply to every protocol: per response, per connection and for all connections together. Content that is
//! in memory or in files anyway is not counted.

use fathometer_model::Bytes;

/// With this much of a response waiting to be sent, no more of its content is generated. A transport that
/// copies content takes no more of it until some is acknowledged.
pub const ENOUGH_WAITING: Bytes = Bytes(64 * 1024);

/// With this much of all responses of a connection waiting, no more of their content is generated.
pub const ENOUGH_WAITING_TOGETHER: Bytes = Bytes(256 * 1024);

/// The most that a server's transports buffer for all clients together.
pub const MOST_WAITING: Bytes = Bytes(256 * 1024 * 1024);

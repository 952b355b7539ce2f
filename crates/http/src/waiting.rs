//! Limits on the data buffered for clients that do not read.
//!
//! The limits apply to every protocol: per response, per connection and for all connections together. Content that
//! is already in memory or in files is not counted.

use fathometer_model::Bytes;

/// The limit on unsent bytes of one response. At this limit no more content is generated. A transport that copies
/// content then accepts no more until the client acknowledges a part.
pub const MAX_UNSENT_PER_RESPONSE: Bytes = Bytes(64 * 1024);

/// The limit on unsent bytes of all responses of a connection. At this limit no more content is generated.
pub const MAX_UNSENT_PER_CONNECTION: Bytes = Bytes(256 * 1024);

/// The limit on bytes that a server's transports buffer for all clients together.
pub const MOST_WAITING: Bytes = Bytes(256 * 1024 * 1024);

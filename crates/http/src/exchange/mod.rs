//! Exchanges of a request and a response: the types that the connection machines of all HTTP versions share.
//!
//! - clients: the request that is written, the [events](Event) and the [head](Head) of its response, limits
//! - servers: the request that is read, the output queue, the [record](Served) of the exchange

mod event;
mod head;
mod limits;
mod output;
mod pending;
mod request;
pub(crate) mod request_head;
mod request_writer;
mod server;
mod window_waits;
mod work;
mod writer;

pub use event::{Event, Received};
pub use head::Head;
pub(crate) use head::{FieldSpan, Lines};
pub use limits::{Limits, Timeouts};
pub(crate) use output::Queue;
pub use pending::Pending;
pub use request::{
    Content, Queued, RequestId, RequestLine, SendError, Version, is_idempotent, is_target,
};
pub(crate) use request_writer::RequestQueue;
pub use request_writer::RequestWriter;
pub use server::{Action, CloseManner, FilePart, RequestText, Served, StreamServed};
pub use window_waits::{WindowWait, WindowWaits};
pub(crate) use work::WorkQueue;
pub use writer::PreparedRequest;
pub(crate) use writer::{Opening, RequestFields};

//! Writing requests.

use fathometer_model::Bytes;

use super::connection::Connection;
use super::stream::Upload;
use crate::exchange::{Opening, Queued, is_target};
use crate::exchange::{PreparedRequest, RequestLine, RequestWriter, SendError};
use crate::exchange::{RequestFields, RequestQueue};
use crate::h3::frame::{self, FrameType};
use crate::h3::stream_of;
use crate::qpack::Indexing;

impl RequestQueue for Connection {
    fn fields(&mut self) -> &mut RequestFields {
        &mut self.request
    }

    fn queue(&mut self, opening: Opening, fields: &RequestFields) -> Queued {
        self.open(opening, fields.bytes(), fields.iter())
    }
}

impl Connection {
    /// Starts to write a request. The request is queued after earlier requests.
    pub fn request(&mut self, line: RequestLine<'_>) -> Result<RequestWriter<'_>, SendError> {
        self.check_room()?;
        Ok(RequestWriter::new(self, line, SCHEME))
    }

    /// Queues a prepared request for `target`. The result is the same as with [`request`](Self::request) and
    /// [`RequestWriter::send_with`]. If the request announces content, send it with
    /// [`send_content`](Self::send_content).
    pub fn request_prepared(
        &mut self,
        prepared: &PreparedRequest,
        target: &str,
    ) -> Result<Queued, SendError> {
        if !is_target(target) {
            return Err(SendError::BadTarget);
        }
        self.check_room()?;
        let fields = prepared.iter(SCHEME, target);
        Ok(self.open(prepared.opening(), prepared.bytes(SCHEME, target), fields))
    }

    /// Checks that one more request can be queued.
    fn check_room(&self) -> Result<(), SendError> {
        if !self.accepts_requests() {
            return Err(SendError::Closed);
        }
        if self.outstanding() >= self.config.streams.max(1) as usize {
            return Err(SendError::PipelineFull);
        }
        Ok(())
    }

    /// Writes the head of a request and creates its stream.
    fn open<'f>(
        &mut self,
        opening: Opening,
        bytes: Bytes,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8], Indexing)>,
    ) -> Queued {
        let request = self.next_request;
        let encoder = &mut self.critical.encoder;
        encoder.begin(stream_of(request));
        let index_targets = self.config.index_targets;
        fields.for_each(|(name, value, indexing)| {
            let indexing = match name == b":path" && !index_targets {
                true => Indexing::No,
                false => indexing,
            };
            encoder.encode(name, value, indexing);
        });
        self.section.clear();
        encoder.finish(&mut self.section);
        let mut stream = self.spare.pop().unwrap_or_default();
        let length = self.section.len() as u64;
        let header = frame::write_header(FrameType::HEADERS, length, &mut stream.out);
        stream.out.extend_from_slice(&self.section);
        let ends = opening.ends();
        stream.ends = ends;
        stream.head_method = opening.head_method;
        stream.idempotent = opening.idempotent;
        stream.upload = (!ends).then_some(Upload {
            remaining: opening.remaining(),
            awaits_continue: opening.expect_continue,
        });
        self.streams.insert(request, stream);
        self.next_request.0 += 1;
        self.settle();
        Queued {
            request,
            head: Bytes(header + length),
            fields: bytes,
        }
    }
}

/// The value of `:scheme`; HTTP/3 always uses TLS.
const SCHEME: &str = "https";

//! Writing requests.

use std::fmt;

use fathometer_model::Bytes;

use super::connection::{Connection, Core};
use super::stream::{Answer, Stream, Upload, UploadState, stream_of};
pub use crate::exchange::{Content, PreparedRequest, RequestLine, SendError};
use crate::exchange::{Opening, Queued, Received, RequestId, is_target};
use crate::h2::flow::{ReceiveWindow, Window};
use crate::h2::frame::write;
use crate::hpack::Indexing;

/// Writes one request. It is compressed only by one of the `send` methods, so dropping it before has no effect.
#[derive(Debug)]
#[must_use = "a request leaves when it is sent"]
pub struct RequestWriter<'c> {
    core: &'c mut Core,
    opening: Opening,
    error: Option<SendError>,
}

impl<'c> RequestWriter<'c> {
    /// Adds a field; its name is converted to lower case. The fields that frame the content, `Expect`, and
    /// connection-specific fields of HTTP/1.x are refused.
    pub fn field(&mut self, name: &str, value: &str) -> &mut RequestWriter<'c> {
        self.field_display(name, value)
    }

    /// Adds a field whose value is formatted into place.
    pub fn field_display(
        &mut self,
        name: &str,
        value: impl fmt::Display,
    ) -> &mut RequestWriter<'c> {
        self.error = self.core.request.add(name, value).err().or(self.error);
        self
    }

    /// Queues the request without content. It is sent only after [`flush`](Connection::flush) or
    /// [`release`](Connection::release).
    pub fn send(self) -> Result<Queued, SendError> {
        self.send_with(Content::None, false)
    }

    /// Queues the request with content to follow by [`Connection::send_content`]. [`Content::Chunked`] leaves
    /// its length open. With `expect_continue` it requests 100 (Continue) and the content waits for
    /// [`Event::SendContent`](super::Event::SendContent).
    pub fn send_with(self, content: Content, expect_continue: bool) -> Result<Queued, SendError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let opening = Opening {
            content,
            expect_continue,
            ..self.opening
        };
        let core = self.core;
        core.request.end(&opening)?;
        let request = std::mem::take(&mut core.request);
        core.note_authority(request.authority());
        let queued = core.open(opening, request.bytes(), request.iter());
        core.request = request;
        Ok(queued)
    }
}

impl Connection {
    /// Starts to write a request after those already queued.
    pub fn request(&mut self, line: RequestLine<'_>) -> Result<RequestWriter<'_>, SendError> {
        let core = self.core_mut();
        core.check_room()?;
        let error = core.request.begin(line, core.config.scheme.name());
        Ok(RequestWriter {
            core,
            opening: Opening::new(line.method),
            error,
        })
    }

    /// Queues a prepared request for `target`, as [`request`](Self::request) and [`RequestWriter::send_with`]
    /// would. Announced content must follow by [`send_content`](Self::send_content).
    pub fn request_prepared(
        &mut self,
        prepared: &PreparedRequest,
        target: &str,
    ) -> Result<Queued, SendError> {
        if !is_target(target) {
            return Err(SendError::BadTarget);
        }
        let core = self.core_mut();
        core.check_room()?;
        let scheme = core.config.scheme.name();
        core.note_authority(prepared.host().as_bytes());
        let fields = prepared.iter(scheme, target);
        Ok(core.open(prepared.opening(), prepared.bytes(scheme, target), fields))
    }
}

impl Core {
    /// Writes the head of a request and opens its stream.
    fn open<'f>(
        &mut self,
        opening: Opening,
        bytes: Bytes,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8], Indexing)>,
    ) -> Queued {
        let request = self.next_request;
        let ends = opening.ends();
        self.output.begin_request();
        let carrier = write::Carrier::Headers {
            end_stream: ends,
            dependency: None,
        };
        let Core {
            encoder,
            output,
            peer,
            ..
        } = self;
        let index_targets = self.config.index_targets;
        let head = write::header_block(
            &mut output.held,
            stream_of(request),
            carrier,
            peer.max_frame_size,
            |out| {
                encoder.begin(out);
                fields.for_each(|(name, value, indexing)| {
                    let indexing = match name == b":path" && !index_targets {
                        true => Indexing::No,
                        false => indexing,
                    };
                    encoder.encode(name, value, indexing, out);
                });
            },
        );
        let state = match opening.expect_continue {
            _ if ends => UploadState::Done,
            true => UploadState::AwaitsContinue,
            false => UploadState::Open,
        };
        let stream = Stream {
            head_method: opening.head_method,
            idempotent: opening.idempotent,
            answer: Answer::None,
            interims: 0,
            received: Received::default(),
            sent: None,
            send: Window::new(self.peer.initial_window_size),
            receive: ReceiveWindow::new(self.config.settings.initial_window_size),
            upload: Upload {
                state,
                remaining: opening.remaining(),
                backlog: match ends {
                    true => Vec::new(),
                    false => self.spare.pop().unwrap_or_default(),
                },
                ..Upload::default()
            },
        };
        if state == UploadState::AwaitsContinue {
            self.continuing.push((request, None));
        }
        self.streams.insert(request, stream);
        self.asked += 1;
        self.next_request = RequestId(request.0 + 1);
        Queued {
            request,
            head: Bytes(u64::from(head)),
            fields: bytes,
        }
    }

    /// Whether a further request can be queued, and if not, why not.
    fn check_room(&self) -> Result<(), SendError> {
        if !self.accepts_requests() {
            return Err(SendError::Closed);
        }
        match self.has_room() {
            true => Ok(()),
            false => Err(SendError::PipelineFull),
        }
    }
}

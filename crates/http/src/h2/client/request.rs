//! Writing requests.

use fathometer_model::Bytes;

use super::connection::{Connection, Core};
use super::stream::{Answer, Stream, Upload, UploadState, stream_of};
use crate::exchange::{Opening, Queued, Received, RequestId, is_target};
use crate::exchange::{PreparedRequest, RequestLine, RequestWriter, SendError};
use crate::exchange::{RequestFields, RequestQueue};
use crate::h2::flow::{ReceiveWindow, Window};
use crate::h2::frame::write;
use crate::hpack::Indexing;

impl RequestQueue for Core {
    fn fields(&mut self) -> &mut RequestFields {
        &mut self.request
    }

    fn queue(&mut self, opening: Opening, fields: &RequestFields) -> Queued {
        self.note_authority(fields.authority());
        self.open(opening, fields.bytes(), fields.iter())
    }
}

impl Connection {
    /// Starts to write a request. The request is queued after earlier requests.
    pub fn request(&mut self, line: RequestLine<'_>) -> Result<RequestWriter<'_>, SendError> {
        let core = self.core_mut();
        core.check_room()?;
        let scheme = core.config.scheme.name();
        Ok(RequestWriter::new(core, line, scheme))
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

    /// Checks that one more request can be queued.
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

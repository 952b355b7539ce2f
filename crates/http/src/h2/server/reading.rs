//! Reads frames, and applies each frame to the connection and its streams (RFC 9113 sections 3.4, 5 and 6).

use fathometer_model::{Bytes, Instant};

use super::streams::{Past, Place, Progress, Slot};
use super::{CloseReason, Connection, LEAVING_PING};
use crate::h2::StreamId;
use crate::h2::error::{ConnectionError, Error, ErrorCode, Fault, StreamError};
use crate::h2::frame::{DataPiece, Dependency, Frame, HeaderBlock, SettingsList, write};
use crate::message::Priority;
use crate::message::section::{self, Recipient};
use crate::origin::Status;

/// The result of a stream look-up for a received frame.
enum Target {
    At(Place),
    /// The stream is above the last accepted stream.
    Ignored,
}

impl Connection {
    /// Processes received bytes.
    pub(super) fn process(&mut self, data: &[u8], now: Instant) {
        let mut input = data;
        if let Err(fault) = self.input.read_preface(&mut input) {
            self.refuse(fault.into());
        }
        // The returned frames borrow the reader, so it is moved out of `self`.
        let mut reader = self.input.take_reader();
        while self.ending.is_active()
            && self.input.has_preface()
            && let Some(result) = reader.read(&mut input)
        {
            let result = result.and_then(|frame| self.handle(frame, now));
            match result {
                Ok(()) => {}
                Err(Error::Connection(error)) => self.refuse(error),
                Err(Error::Stream(error)) => self.refuse_stream(error, now),
            }
            // Checked after each frame, so that the result does not depend on the split of the input.
            self.end_if_nothing_is_owed();
        }
        self.input.put_reader(reader, now);
        self.ending.discard(input.len());
    }

    fn handle(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), Error> {
        self.input.check_first(&frame)?;
        match frame {
            Frame::Data(piece) => self.handle_content(&piece, now),
            Frame::Headers(block) => self.handle_headers(&block, now),
            Frame::Priority { stream, dependency } => {
                self.budget.take_idle_frame(now)?;
                self.handle_dependency(stream, dependency)
            }
            Frame::Reset { stream, code } => self.handle_reset(stream, code, now),
            Frame::Settings(list) => self.handle_settings(list, now),
            Frame::SettingsAcknowledged => self.handle_acknowledgement(),
            Frame::Push { .. } => Err(Fault::UnexpectedPush.into()),
            Frame::Ping {
                acknowledges: true,
                payload,
            } => {
                if self.ending.is_announced() && payload == LEAVING_PING {
                    self.leave(CloseReason::ServerEnds);
                    return Ok(());
                }
                Ok(self.budget.take_idle_frame(now)?)
            }
            Frame::Ping { payload, .. } => {
                self.budget.take_answer(now)?;
                self.responses.write(|out| write::ping(out, true, payload));
                Ok(())
            }
            Frame::GoAway { code, .. } => {
                self.budget.take_idle_frame(now)?;
                self.leave(match code {
                    ErrorCode::NO_ERROR => CloseReason::ClientRequested,
                    code => CloseReason::ClientFailed(code),
                });
                Ok(())
            }
            Frame::WindowUpdate { stream, increment } => {
                self.budget.take_idle_frame(now)?;
                self.handle_window_update(stream, increment)
            }
            Frame::PriorityUpdate { stream, field } => {
                self.budget.take_idle_frame(now)?;
                self.handle_priority_update(stream, Priority::parse(field))
            }
            // A server must ignore ALTSVC (RFC 7838 section 4).
            Frame::AltSvc { .. } | Frame::Unknown(_) => Ok(self.budget.take_idle_frame(now)?),
        }
    }

    /// Looks up a stream. Returns a fault if the stream was never opened (section 5.1, idle).
    fn place(&self, id: StreamId) -> Result<Target, Error> {
        if self.ending.ignores(id) {
            return Ok(Target::Ignored);
        }
        let place = self.streams.place(id);
        Ok(Target::At(place.ok_or(Fault::IdleStream)?))
    }

    /// Returns the fault if content or fields arrive on a stream that does not accept them (section 5.1, half-closed
    /// and closed); `None` if the stream accepts them.
    fn misplaced(&self, id: StreamId, target: &Target) -> Option<Error> {
        let on_stream = |fault| Some(StreamError::new(id, fault).into());
        let Target::At(place) = target else {
            return None;
        };
        match *place {
            Place::Closed(Some(Past::ResetHere)) => None,
            Place::Open(slot) if self.streams[slot].receiving => None,
            Place::Open(_) => on_stream(Fault::HalfClosedStream),
            Place::Closed(Some(Past::ResetByClient)) => on_stream(Fault::ClosedStream),
            Place::Closed(Some(Past::Ended) | None) => Some(Fault::ClosedStream.into()),
        }
    }

    fn handle_content(&mut self, piece: &DataPiece<'_>, now: Instant) -> Result<(), Error> {
        if piece.first {
            self.begin_data(piece, now)?;
            self.end_if_nothing_is_owed();
            if self.ending.reason().is_some() {
                return Ok(());
            }
        }
        let was_empty = self.input.note_data(piece.content.len(), piece.last);
        if was_empty && !piece.end_stream {
            self.budget.take_idle_frame(now)?;
        }
        if piece.last
            && let Some(increment) = self.receiving.release(piece.length)
        {
            self.responses
                .write(|out| write::window_update(out, StreamId::CONNECTION, increment));
        }
        // The stream may have been reset between two pieces.
        let slot = self.input.data();
        let Some(slot) = slot.filter(|&slot| self.streams[slot].id == piece.stream) else {
            return Ok(());
        };
        let stream = &mut self.streams[slot];
        let pace = &self.config.limits.content;
        stream.request.note(piece.content.len(), pace, now);
        let received = stream.request.received();
        stream.served.exchange.request_body = Bytes(received);
        if !piece.last {
            return Ok(());
        }
        self.input.end_data();
        if stream.request.is_too_long() {
            return Err(StreamError::new(piece.stream, Fault::ContentLength).into());
        }
        if piece.end_stream {
            return self.end_request(slot, now);
        }
        let released = self.receiving.release_of(&mut stream.receive, piece.length);
        if let Some(increment) = released {
            let id = piece.stream;
            self.responses
                .write(|out| write::window_update(out, id, increment));
        }
        if received > self.config.limits.body.0 {
            self.answer_early(slot, Status::CONTENT_TOO_LARGE, now);
        }
        Ok(())
    }

    /// Begins a DATA frame: finds its stream, and counts the frame against the windows.
    fn begin_data(&mut self, piece: &DataPiece<'_>, now: Instant) -> Result<(), Error> {
        self.input.begin_data(None);
        let target = self.place(piece.stream)?;
        self.receiving.receive(piece.length)?;
        match (self.misplaced(piece.stream, &target), target) {
            (Some(Error::Connection(error)), _) => return Err(error.into()),
            (Some(Error::Stream(error)), _) => self.refuse_stream(error, now),
            (None, Target::At(Place::Open(slot))) => {
                match self.streams[slot].receive.receive(piece.length) {
                    Ok(()) => self.input.begin_data(Some(slot)),
                    Err(fault) => self.refuse_stream(StreamError::new(piece.stream, fault), now),
                }
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// Notes that the client has closed its side of a stream.
    fn end_request(&mut self, slot: Slot, now: Instant) -> Result<(), Error> {
        let stream = &mut self.streams[slot];
        stream.receiving = false;
        if stream.request.differs() && !stream.answered_early {
            return Err(StreamError::new(stream.id, Fault::ContentLength).into());
        }
        if stream.progress == Progress::Reading {
            self.take_up(slot, now);
        }
        Ok(())
    }

    fn handle_headers(&mut self, block: &HeaderBlock<'_>, now: Instant) -> Result<(), Error> {
        let id = block.stream;
        if !id.is_client() {
            return Err(Fault::BadStreamNumber.into());
        }
        let before = self.decoder.generation();
        let is_new = self.streams.is_idle(id);
        if is_new
            && block.end_stream
            && self.ending.accepts_streams()
            && let Some(key) = self.responses.memory().find(block.block, before)
        {
            self.streams.use_number(id);
            let (slot, early) = self.open(block, now)?;
            self.begin_remembered(slot, key, early, now);
            return Ok(());
        }
        // The fields are always decoded, so that the HPACK table stays synchronised with the client's table.
        self.fields.clear();
        let is_too_large = match self.decoder.decode(block.block, &mut self.fields) {
            Ok(()) => false,
            Err(error) if error.is_fatal() => return Err(Fault::Compression.into()),
            Err(_) => true,
        };
        if is_new {
            if !self.ending.accepts_streams() {
                return Ok(());
            }
            self.streams.use_number(id);
            let (slot, early) = self.open(block, now)?;
            self.streams[slot].served.request_fields = self.fields.bytes();
            self.begin(slot, early, is_too_large, now)?;
            if self.decoder.generation() == before {
                self.remember(slot, id, block.block);
            }
            return Ok(());
        }
        let target = self.place(id)?;
        if let Target::At(Place::Closed(None)) = target {
            // The stream was closed long ago or was skipped by a higher stream number, so it can no longer open.
            return Err(Fault::BadStreamNumber.into());
        }
        if let Some(error) = self.misplaced(id, &target) {
            return Err(error);
        }
        let Target::At(Place::Open(slot)) = target else {
            return Ok(());
        };
        let stream = &mut self.streams[slot];
        stream.served.exchange.request_head += Bytes(block.wire.into());
        stream.served.request_fields += self.fields.bytes();
        if let Some(dependency) = block.dependency {
            self.handle_dependency(id, dependency)?;
        }
        if !block.end_stream || section::trailers(&self.fields, Recipient::Http2Server).is_err() {
            return Err(StreamError::new(id, Fault::Malformed).into());
        }
        self.end_request(slot, now)
    }

    /// Opens a stream for a request (section 8.1), with the priority that arrived earlier, if any.
    fn open(
        &mut self,
        block: &HeaderBlock<'_>,
        now: Instant,
    ) -> Result<(Slot, Option<Priority>), Error> {
        let id = block.stream;
        let early = self.early.take(id);
        if self.streams.count() >= self.config.limits.streams as usize {
            return Err(StreamError::new(id, Fault::TooManyStreams).into());
        }
        if block
            .dependency
            .is_some_and(|dependency| dependency.on == id)
        {
            return Err(StreamError::new(id, Fault::SelfDependency).into());
        }
        self.budget.note_request();
        let receive = self.receiving.stream_window();
        let send = self.responses.peer().initial_window_size;
        let slot = self.streams.open(id, receive, send, now);
        self.requests += 1;
        let stream = &mut self.streams[slot];
        stream.receiving = !block.end_stream;
        stream.served.exchange.request_head = Bytes(block.wire.into());
        if let Some(dependency) = block.dependency {
            self.responses.schedule().depend(id, dependency);
        }
        if self.config.max_requests_per_connection == Some(self.requests) {
            self.leave(CloseReason::RequestLimit);
        }
        Ok((slot, early))
    }

    fn handle_dependency(&mut self, id: StreamId, dependency: Dependency) -> Result<(), Error> {
        if dependency.on == id {
            return Err(StreamError::new(id, Fault::SelfDependency).into());
        }
        self.responses.schedule().depend(id, dependency);
        Ok(())
    }

    fn handle_reset(&mut self, id: StreamId, code: ErrorCode, now: Instant) -> Result<(), Error> {
        let Target::At(Place::Open(slot)) = self.place(id)? else {
            return Ok(self.budget.take_idle_frame(now)?);
        };
        // A cancelled push is not counted, because the client did not request the work.
        if id.is_client() {
            self.budget.take_reset(now)?;
        }
        self.abandon(slot, code, Past::ResetByClient);
        Ok(())
    }

    fn handle_settings(&mut self, list: SettingsList<'_>, now: Instant) -> Result<(), Error> {
        self.budget.take_answer(now)?;
        self.responses.apply_settings(&mut self.streams, &list)?;
        self.responses.write(write::settings_acknowledged);
        Ok(())
    }

    /// Handles the acknowledgement of the server's settings. The client has also applied them to open streams.
    fn handle_acknowledgement(&mut self) -> Result<(), Error> {
        self.receiving.acknowledge()?;
        self.decoder.set_table_limit(self.config.decoder_table);
        let mut place = 0;
        while let Some(slot) = self.streams.at(place) {
            let stream = &mut self.streams[slot];
            let (id, is_receiving) = (stream.id, stream.receiving);
            let increment = self.receiving.shrink(&mut stream.receive);
            if let Some(increment) = increment.filter(|_| is_receiving) {
                self.responses
                    .write(|out| write::window_update(out, id, increment));
            }
            place += 1;
        }
        Ok(())
    }

    fn handle_window_update(&mut self, id: StreamId, increment: u32) -> Result<(), Error> {
        if id.is_connection() {
            return Ok(self.responses.give(increment)?);
        }
        if let Target::At(Place::Open(slot)) = self.place(id)? {
            let given = self
                .responses
                .give_stream(&mut self.streams, slot, increment);
            given.map_err(|fault| StreamError::new(id, fault))?;
        }
        Ok(())
    }

    /// Sets the priority of a stream (RFC 9218 section 7).
    fn handle_priority_update(&mut self, id: StreamId, priority: Priority) -> Result<(), Error> {
        self.responses.schedule().note_rfc9218();
        if let Some(slot) = self.streams.find(id) {
            self.responses
                .set_priority(&mut self.streams, slot, priority);
        } else if self.streams.is_idle(id) {
            if id.is_server() {
                return Err(Fault::IdleStream.into());
            }
            self.early.set(id, priority);
        }
        Ok(())
    }

    /// Resets a stream because of a fault of the client.
    pub(super) fn refuse_stream(&mut self, error: StreamError, now: Instant) {
        let id = error.stream;
        let slot = match self.place(id) {
            Ok(Target::At(Place::Open(slot))) => Some(slot),
            // A window update on a closed stream has no effect.
            Ok(Target::At(Place::Closed(_))) if error.why == Fault::ZeroIncrement => return,
            Ok(Target::At(Place::Closed(_))) => None,
            Ok(Target::Ignored) => return,
            // The stream does not exist, so the fault becomes a connection error.
            Err(_) => {
                return self.refuse(ConnectionError {
                    code: error.code,
                    why: error.why,
                });
            }
        };
        if let Err(fault) = self.budget.take_provoked_reset(now) {
            return self.refuse(fault.into());
        }
        self.responses
            .write(|out| write::reset(out, id, error.code));
        match slot {
            Some(slot) => self.abandon(slot, error.code, Past::ResetHere),
            None => self.streams.remember(id, Past::ResetHere),
        }
    }
}

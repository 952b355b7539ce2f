//! Reading: the preface, and the effect of each frame on the connection and its streams (RFC 9113 sections 3.4,
//! 5 and 6).

use fathometer_model::{Bytes, Instant};

use super::streams::{Past, Progress, Slot};
use super::{CloseReason, Connection, LEAVING_PING, Leaving, PREFACE, Phase, Start};
use crate::h2::StreamId;
use crate::h2::error::{ConnectionError, Error, ErrorCode, Fault, StreamError};
use crate::h2::frame::{DataPiece, Dependency, Frame, HeaderBlock, Reader, SettingsList, write};
use crate::message::Priority;
use crate::message::section::{self, Recipient};
use crate::origin::Status;

/// Idle frames that a request gives back: its WINDOW_UPDATE and its dependency.
const IDLE_PER_REQUEST: u32 = 4;

/// The stream of a frame.
enum Place {
    Open(Slot),
    /// Not open, but not idle either.
    Closed(Option<Past>),
    /// Above the last stream that is accepted.
    Ignored,
}

impl Connection {
    /// The client has applied this side's initial window to the streams that were open.
    fn shrink_windows(&mut self) {
        let (size, update) = (self.config.receive.stream, self.config.receive.update);
        let mut place = 0;
        while let Some(slot) = self.streams.at(place) {
            let stream = &mut self.streams[slot];
            let (id, is_receiving) = (stream.id, stream.receiving);
            let increment = stream.receive.shrink(size, update);
            if let Some(increment) = increment.filter(|_| is_receiving) {
                self.output
                    .write(|out| write::window_update(out, id, increment));
            }
            place += 1;
        }
    }

    /// Processes received bytes.
    pub(super) fn process(&mut self, data: &[u8], now: Instant) {
        let mut input = data;
        if let Start::Preface(matched) = self.start {
            self.read_preface(matched, &mut input);
        }
        // A frame borrows the reader; nothing else uses it in the meantime.
        let mut reader = std::mem::take(&mut self.reader);
        while self.is_reading()
            && let Some(result) = reader.read(&mut input)
        {
            let result = result.and_then(|frame| self.handle(frame, now));
            match result {
                Ok(()) => {}
                Err(Error::Connection(error)) => self.refuse(error),
                Err(Error::Stream(error)) => self.refuse_stream(error, now),
            }
            // Checked after each frame and not at the end of the input, so that the result does not depend on
            // how the input is split.
            self.end_if_nothing_is_owed();
        }
        self.note_partial_frame(&reader, now);
        self.reader = reader;
        self.discarded += input.len() as u64;
    }

    fn is_reading(&self) -> bool {
        self.phase == Phase::Open
            && self.close_reason.is_none()
            && !matches!(self.start, Start::Preface(_))
    }

    fn read_preface(&mut self, matched: usize, input: &mut &[u8]) {
        let expected = &PREFACE[matched..];
        let length = expected.len().min(input.len());
        let (octets, rest) = input.split_at(length);
        *input = rest;
        if octets != &expected[..length] {
            self.refuse(Fault::BadPreface.into());
        } else if length == expected.len() {
            self.start = Start::Settings;
        } else {
            self.start = Start::Preface(matched + length);
        }
    }

    /// Starts and stops the time limit on incomplete frames. DATA has a different one.
    fn note_partial_frame(&mut self, reader: &Reader, now: Instant) {
        if self.start != Start::Done {
            return;
        }
        if reader.is_between_frames() || reader.is_within_data() {
            self.frame_started = None;
        } else {
            self.frame_started.get_or_insert(now);
        }
    }

    fn handle(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), Error> {
        if self.start == Start::Settings {
            if !matches!(frame, Frame::Settings(_)) {
                return Err(Fault::NoSettings.into());
            }
            self.start = Start::Done;
        }
        match frame {
            Frame::Data(piece) => self.handle_content(&piece, now),
            Frame::Headers(block) => self.handle_headers(&block, now),
            Frame::Priority { stream, dependency } => {
                self.take_idle_frame(now)?;
                self.handle_dependency(stream, dependency)
            }
            Frame::Reset { stream, code } => self.handle_reset(stream, code, now),
            Frame::Settings(list) => self.handle_settings(list, now),
            Frame::SettingsAcknowledged => match self.unacknowledged.take() {
                Some(_) => {
                    self.decoder.set_table_limit(self.config.decoder_table);
                    self.receive_initial = self.config.receive.stream;
                    self.shrink_windows();
                    Ok(())
                }
                None => Err(Fault::UnexpectedAcknowledgement.into()),
            },
            Frame::Push { .. } => Err(Fault::UnexpectedPush.into()),
            Frame::Ping {
                acknowledges: true,
                payload,
            } => {
                if self.leaving == Leaving::Announced && payload == LEAVING_PING {
                    self.leave(CloseReason::ServerEnds);
                    return Ok(());
                }
                self.take_idle_frame(now)
            }
            Frame::Ping { payload, .. } => {
                self.take_answer(now)?;
                self.output.write(|out| write::ping(out, true, payload));
                Ok(())
            }
            Frame::GoAway { code, .. } => {
                self.take_idle_frame(now)?;
                self.leave(match code {
                    ErrorCode::NO_ERROR => CloseReason::ClientAsked,
                    code => CloseReason::ClientGaveUp(code),
                });
                Ok(())
            }
            Frame::WindowUpdate { stream, increment } => {
                self.take_idle_frame(now)?;
                self.handle_window_update(stream, increment)
            }
            Frame::PriorityUpdate { stream, field } => {
                self.take_idle_frame(now)?;
                self.handle_priority_update(stream, Priority::parse(field))
            }
            // Only clients use ALTSVC.
            Frame::AltSvc { .. } | Frame::Unknown(_) => self.take_idle_frame(now),
        }
    }

    /// Counts a frame that carries nothing.
    fn take_idle_frame(&mut self, now: Instant) -> Result<(), Error> {
        let allowance = self.config.limits.idle_frames;
        match self.counters.idle_frames.take(allowance, now) {
            true => Ok(()),
            false => Err(Fault::IdleFrames.into()),
        }
    }

    /// Counts a frame that requires an answer.
    fn take_answer(&mut self, now: Instant) -> Result<(), Error> {
        let allowance = self.config.limits.answers;
        match self.counters.answers.take(allowance, now) {
            true => Ok(()),
            false => Err(Fault::AnswerFlood.into()),
        }
    }

    /// The place of a stream; a fault if it was never opened (section 5.1, idle).
    fn place(&self, id: StreamId) -> Result<Place, Error> {
        if let Leaving::Above(last, _) = self.leaving
            && id.is_client()
            && id > last
        {
            return Ok(Place::Ignored);
        }
        match self.streams.find(id) {
            Some(slot) => Ok(Place::Open(slot)),
            None if id > self.last_of_side(id) => Err(Fault::IdleStream.into()),
            None => Ok(Place::Closed(self.streams.past(id))),
        }
    }

    fn last_of_side(&self, id: StreamId) -> StreamId {
        if id.is_client() {
            self.last_stream
        } else {
            self.last_promised
        }
    }

    /// The fault if content or fields arrive on a stream that does not accept them (section 5.1, half-closed
    /// and closed); `None` where they are allowed.
    fn misplaced(&self, id: StreamId, place: &Place) -> Option<Error> {
        let on_stream = |fault| Some(StreamError::new(id, fault).into());
        match place {
            Place::Ignored | Place::Closed(Some(Past::ResetHere)) => None,
            Place::Open(slot) if self.streams[*slot].receiving => None,
            Place::Open(_) => on_stream(Fault::HalfClosedStream),
            Place::Closed(Some(Past::ResetByClient)) => on_stream(Fault::ClosedStream),
            Place::Closed(Some(Past::Ended) | None) => Some(Fault::ClosedStream.into()),
        }
    }

    fn handle_content(&mut self, piece: &DataPiece<'_>, now: Instant) -> Result<(), Error> {
        if piece.first {
            self.data = None;
            self.data_has_content = false;
            let place = self.place(piece.stream)?;
            self.receive.receive(piece.length)?;
            match (self.misplaced(piece.stream, &place), place) {
                (Some(Error::Connection(error)), _) => return Err(error.into()),
                (Some(Error::Stream(error)), _) => self.refuse_stream(error, now),
                (None, Place::Open(slot)) => {
                    match self.streams[slot].receive.receive(piece.length) {
                        Ok(()) => self.data = Some(slot),
                        Err(fault) => {
                            self.refuse_stream(StreamError::new(piece.stream, fault), now);
                        }
                    }
                }
                (None, _) => {}
            }
            self.end_if_nothing_is_owed();
            if self.close_reason.is_some() {
                return Ok(());
            }
        }
        self.data_has_content |= !piece.content.is_empty();
        if piece.last && !piece.end_stream && !self.data_has_content {
            self.take_idle_frame(now)?;
        }
        self.give_back_if(piece.last, piece.length);
        // The stream may have been reset between two pieces.
        let slot = self
            .data
            .filter(|&slot| self.streams[slot].id == piece.stream);
        let Some(slot) = slot else {
            return Ok(());
        };
        let stream = &mut self.streams[slot];
        if let Some(paid) = &mut stream.paid {
            paid.note(piece.content.len() as u64, &self.config.limits.content, now);
        }
        stream.received += piece.content.len() as u64;
        stream.served.exchange.request_body = Bytes(stream.received);
        if !piece.last {
            return Ok(());
        }
        self.data = None;
        let received = stream.received;
        if stream
            .announced
            .is_some_and(|announced| received > announced)
        {
            return Err(StreamError::new(piece.stream, Fault::ContentLength).into());
        }
        if piece.end_stream {
            return self.end_request(slot, now);
        }
        if let Some(increment) = stream
            .receive
            .release(piece.length, self.config.receive.update)
        {
            let id = piece.stream;
            self.output
                .write(|out| write::window_update(out, id, increment));
        }
        if received > self.config.limits.body.0 {
            self.answer_early(slot, Status::CONTENT_TOO_LARGE, now);
        }
        Ok(())
    }

    /// Gives a DATA frame back to the window of the connection, once it is complete.
    fn give_back_if(&mut self, is_whole: bool, length: u32) {
        if is_whole
            && let Some(increment) = self.receive.release(length, self.config.receive.update)
        {
            self.output.write(|out| {
                write::window_update(out, StreamId::CONNECTION, increment);
            });
        }
    }

    /// The client has closed its side of a stream.
    fn end_request(&mut self, slot: Slot, now: Instant) -> Result<(), Error> {
        let stream = &mut self.streams[slot];
        stream.receiving = false;
        let differs = stream
            .announced
            .is_some_and(|announced| announced != stream.received);
        if differs && !stream.answered_early {
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
        if id > self.last_stream
            && block.end_stream
            && !matches!(self.leaving, Leaving::Above(..))
            && let Some(key) = self.memory.find(block.block, before)
        {
            self.last_stream = id;
            let (slot, early) = self.open(block, now)?;
            self.begin_remembered(slot, key, early, now);
            return Ok(());
        }
        // The fields are always decoded, to keep the table synchronised with the client's.
        self.fields.clear();
        let is_too_large = match self.decoder.decode(block.block, &mut self.fields) {
            Ok(()) => false,
            Err(error) if error.is_fatal() => return Err(Fault::Compression.into()),
            Err(_) => true,
        };
        if id > self.last_stream {
            if let Leaving::Above(..) = self.leaving {
                return Ok(());
            }
            self.last_stream = id;
            let (slot, early) = self.open(block, now)?;
            self.streams[slot].served.request_fields = self.fields.octets();
            self.begin(slot, early, is_too_large, now)?;
            if self.decoder.generation() == before {
                self.remember(slot, id, block.block);
            }
            return Ok(());
        }
        let place = self.place(id)?;
        if let Place::Closed(None) = place {
            // Never used, or used long ago: in both cases it must not be opened now.
            return Err(Fault::BadStreamNumber.into());
        }
        if let Some(error) = self.misplaced(id, &place) {
            return Err(error);
        }
        let Place::Open(slot) = place else {
            return Ok(());
        };
        let stream = &mut self.streams[slot];
        stream.served.exchange.request_head += Bytes(block.wire.into());
        stream.served.request_fields += self.fields.octets();
        if let Some(dependency) = block.dependency {
            self.handle_dependency(id, dependency)?;
        }
        if !block.end_stream || section::trailers(&self.fields, Recipient::Http2Server).is_err() {
            return Err(StreamError::new(id, Fault::Malformed).into());
        }
        self.end_request(slot, now)
    }

    /// Opens a stream for a request (section 8.1), with the priority that it was given before.
    fn open(
        &mut self,
        block: &HeaderBlock<'_>,
        now: Instant,
    ) -> Result<(Slot, Option<Priority>), Error> {
        let id = block.stream;
        let early = self.take_early_priority(id);
        if self.streams.count() >= self.config.limits.streams as usize {
            return Err(StreamError::new(id, Fault::TooManyStreams).into());
        }
        if block
            .dependency
            .is_some_and(|dependency| dependency.on == id)
        {
            return Err(StreamError::new(id, Fault::SelfDependency).into());
        }
        let allowance = self.config.limits.idle_frames;
        self.counters.idle_frames.give(allowance, IDLE_PER_REQUEST);
        let (receive, send) = (self.receive_initial, self.peer.initial_window_size);
        let slot = self.streams.open(id, receive, send, now);
        self.requests += 1;
        let stream = &mut self.streams[slot];
        stream.receiving = !block.end_stream;
        stream.served.exchange.request_head = Bytes(block.wire.into());
        if let Some(dependency) = block.dependency {
            self.schedule.depend(id, dependency);
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
        self.schedule.depend(id, dependency);
        Ok(())
    }

    fn handle_reset(&mut self, id: StreamId, code: ErrorCode, now: Instant) -> Result<(), Error> {
        let Place::Open(slot) = self.place(id)? else {
            return self.take_idle_frame(now);
        };
        // Cancelling a push does not waste work that the client requested.
        let allowance = self.config.limits.resets;
        if id.is_client() && !self.counters.resets.take(allowance, now) {
            return Err(Fault::ResetFlood.into());
        }
        self.abandon(slot, code, Past::ResetByClient);
        Ok(())
    }

    fn handle_settings(&mut self, list: SettingsList<'_>, now: Instant) -> Result<(), Error> {
        self.take_answer(now)?;
        let before = self.peer;
        for (id, value) in list.iter() {
            self.peer.apply(id, value)?;
            if id == crate::h2::settings::id::HEADER_TABLE_SIZE {
                self.encoder.set_table_limit(value);
            }
        }
        if self.peer.no_rfc7540_priorities {
            self.schedule.note_newer();
        }
        let (from, to) = (before.initial_window_size, self.peer.initial_window_size);
        if from != to {
            self.change_windows(from, to)?;
        }
        self.output.write(write::settings_acknowledged);
        Ok(())
    }

    /// The client has changed the windows of all its streams (section 6.9.2).
    fn change_windows(&mut self, from: u32, to: u32) -> Result<(), Error> {
        let mut place = 0;
        while let Some(slot) = self.streams.at(place) {
            let stream = &mut self.streams[slot];
            stream.send.change_initial(from, to)?;
            self.unblock(slot);
            place += 1;
        }
        Ok(())
    }

    fn handle_window_update(&mut self, id: StreamId, increment: u32) -> Result<(), Error> {
        if id.is_connection() {
            return Ok(self.send.give(increment)?);
        }
        if let Place::Open(slot) = self.place(id)? {
            let stream = &mut self.streams[slot];
            let given = stream.send.give(increment);
            given.map_err(|fault| StreamError::new(id, fault))?;
            self.unblock(slot);
        }
        Ok(())
    }

    /// Sets the priority of a stream (RFC 9218 section 7).
    fn handle_priority_update(&mut self, id: StreamId, priority: Priority) -> Result<(), Error> {
        self.schedule.note_newer();
        if let Some(slot) = self.streams.find(id) {
            self.set_priority(slot, priority);
        } else if id > self.last_of_side(id) {
            if id.is_server() {
                return Err(Fault::IdleStream.into());
            }
            self.early_priorities.retain(|&(other, _)| other != id);
            if self.early_priorities.len() >= self.config.limits.streams as usize {
                self.early_priorities.pop_front();
            }
            self.early_priorities.push_back((id, priority));
        }
        Ok(())
    }

    /// The priority that was received for a stream before it was opened. Drops those of lower streams, which
    /// can no longer be opened.
    fn take_early_priority(&mut self, id: StreamId) -> Option<Priority> {
        if self.early_priorities.is_empty() {
            return None;
        }
        let found = self
            .early_priorities
            .iter()
            .find(|&&(other, _)| other == id);
        let priority = found.map(|&(_, priority)| priority);
        self.early_priorities.retain(|&(other, _)| other > id);
        priority
    }

    /// Resets a stream because of a fault of the client.
    pub(super) fn refuse_stream(&mut self, error: StreamError, now: Instant) {
        let id = error.stream;
        let slot = match self.place(id) {
            Ok(Place::Open(slot)) => Some(slot),
            // The window of a closed stream has no effect.
            Ok(Place::Closed(_)) if error.why == Fault::ZeroIncrement => return,
            Ok(Place::Closed(_)) => None,
            Ok(Place::Ignored) => return,
            // A fault on a stream that does not exist is a connection error.
            Err(_) => {
                return self.refuse(ConnectionError {
                    code: error.code,
                    why: error.why,
                });
            }
        };
        let allowance = self.config.limits.provoked_resets;
        if !self.counters.provoked_resets.take(allowance, now) {
            return self.refuse(Fault::ProvokedResets.into());
        }
        self.output.write(|out| write::reset(out, id, error.code));
        match slot {
            Some(slot) => self.abandon(slot, error.code, Past::ResetHere),
            None => self.streams.remember(id, Past::ResetHere),
        }
    }
}

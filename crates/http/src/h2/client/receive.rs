//! Processing of received frames.

use fathometer_model::{Bytes, Failure};

use super::config::Push;
use super::connection::Core;
use super::ending::failure_of;
use super::stream::{Answer, UploadState, request_of, stream_of};
use crate::exchange::{Event, RequestId};
use crate::h2::StreamId;
use crate::h2::error::{Error, ErrorCode, Fault};
use crate::h2::frame::{DataPiece, Frame, HeaderBlock, SettingsList, write};
use crate::h2::settings::id;
use crate::message::section::{self, Malformed, Recipient};

/// The expected next part of a response after its head.
enum Reading {
    /// Another head, because the last head was interim.
    Interim,
    /// The content, with its length if announced.
    Content(Option<u64>),
}

impl Core {
    /// Handles a frame other than DATA.
    pub(super) fn take(&mut self, frame: &Frame<'_>) -> Result<(), Fault> {
        if !self.peer_is_known && !matches!(frame, Frame::Settings(_)) {
            return Err(Fault::NoSettings);
        }
        match *frame {
            // DATA before SETTINGS. `data` handles all other DATA.
            Frame::Data(_) => Err(Fault::NoSettings),
            Frame::Headers(block) => self.headers(&block),
            Frame::Push { promised, block } => self.pushed(promised, &block),
            Frame::Settings(list) => self.settings(list),
            Frame::SettingsAcknowledged => self.settings_acknowledged(),
            Frame::Ping {
                acknowledges: false,
                payload,
            } => {
                self.calm.wants_answer(&self.config.floods, self.now)?;
                self.answer(|out| write::ping(out, true, payload))
            }
            Frame::Ping { payload, .. } if self.pings > 0 => {
                self.pings -= 1;
                self.notes.push_back(Event::Pong { payload });
                Ok(())
            }
            Frame::Reset { stream, code } => self.peer_reset(stream, code),
            Frame::GoAway { last, code, .. } => self.peer_goes_away(last, code),
            Frame::WindowUpdate { stream, increment } => self.window_update(stream, increment),
            Frame::AltSvc {
                stream,
                origin,
                value,
            } => self.take_alternatives(stream, origin, value),
            // Only clients send PRIORITY_UPDATE (RFC 9218 section 7.1).
            Frame::PriorityUpdate { .. } => Err(Fault::UnexpectedPriorityUpdate),
            Frame::Priority { .. } | Frame::Ping { .. } | Frame::Unknown(_) => self.nothing(),
        }
    }

    /// Handles an error reported by the reader.
    pub(super) fn take_error(&mut self, error: Error) -> Result<(), Fault> {
        match error {
            Error::Connection(error) => Err(error.why),
            Error::Stream(error) => {
                if !self.peer_is_known {
                    return Err(Fault::NoSettings);
                }
                let request = request_of(error.stream);
                self.must_not_be_idle(error.stream)?;
                self.nothing()?;
                self.fail_stream(request, error.code, failure_of(error.why));
                Ok(())
            }
        }
    }

    /// Handles a piece of a DATA frame with the given content.
    pub(super) fn data<'i>(
        &mut self,
        piece: &DataPiece<'_>,
        content: &'i [u8],
    ) -> Result<Option<Event<'i>>, Fault> {
        let update_at = self.config.update_at;
        if piece.first {
            self.receive.receive(piece.length)?;
        }
        if piece.first
            && let Some(waits) = &mut self.window_waits
        {
            let initial = u64::from(self.config.settings.initial_window_size);
            let (request, length) = (request_of(piece.stream), u64::from(piece.length));
            waits.receive(request, length, initial, self.now);
        }
        if piece.last
            && let Some(increment) = self.receive.release(piece.length, update_at)
        {
            if let Some(waits) = &mut self.window_waits {
                waits.grant(u64::from(increment), self.now);
            }
            self.answer(|out| write::window_update(out, StreamId::CONNECTION, increment))?;
        }
        let request = request_of(piece.stream);
        let Some(stream) = self.streams.get_mut(request) else {
            if piece.first {
                self.on_closed_stream(piece.stream)?;
            }
            return Ok(None);
        };
        if piece.first && stream.receive.receive(piece.length).is_err() {
            let code = ErrorCode::FLOW_CONTROL_ERROR;
            self.fail_stream(request, code, Failure::BadResponse);
            return Ok(None);
        }
        stream.received.body.0 += u64::from(piece.wire);
        let Answer::Content(left) = &mut stream.answer else {
            self.fail_stream(request, ErrorCode::PROTOCOL_ERROR, Failure::BadResponse);
            return Ok(None);
        };
        let room = self.config.limits.body.0 - stream.received.content.0;
        let announced = left.unwrap_or(u64::MAX);
        let most = usize::try_from(room.min(announced)).unwrap_or(usize::MAX);
        let bytes = &content[..content.len().min(most)];
        stream.received.content.0 += bytes.len() as u64;
        if let Some(left) = left {
            *left -= bytes.len() as u64;
        }
        let left = *left;
        let event = (!bytes.is_empty()).then_some(Event::Content { request, bytes });
        if bytes.len() < content.len() {
            let (code, failure) = match announced <= room {
                true => (ErrorCode::PROTOCOL_ERROR, Failure::BadResponse),
                false => (ErrorCode::CANCEL, Failure::TooLarge),
            };
            self.fail_stream(request, code, failure);
            return Ok(event);
        }
        if piece.first {
            self.data_is_empty = true;
        }
        if event.is_some() {
            self.data_is_empty = false;
            self.calm.progress();
        } else if piece.last && self.data_is_empty && !piece.end_stream {
            self.nothing()?;
        }
        if piece.end_stream {
            if let Some(waits) = &mut self.window_waits {
                waits.end(request, self.streams.len() <= 1);
            }
            self.response_ends(request, left);
        } else if piece.last && left != Some(0) {
            self.give_back(request, piece.length)?;
        }
        Ok(event)
    }

    /// Enlarges the receive window of a stream.
    fn give_back(&mut self, request: RequestId, bytes: u32) -> Result<(), Fault> {
        let update_at = self.config.update_at;
        let stream = self.streams.get_mut(request);
        match stream.and_then(|stream| stream.receive.release(bytes, update_at)) {
            Some(increment) => {
                if let Some(waits) = &mut self.window_waits {
                    waits.grant_stream(request, u64::from(increment), self.now);
                }
                self.answer(|out| write::window_update(out, stream_of(request), increment))
            }
            None => Ok(()),
        }
    }

    /// Ends a response after its last frame. All announced content must have arrived.
    fn response_ends(&mut self, request: RequestId, left: Option<u64>) {
        match left {
            None | Some(0) => self.end_stream(request),
            Some(_) => {
                self.fail_stream(request, ErrorCode::PROTOCOL_ERROR, Failure::BadResponse);
            }
        }
    }

    fn headers(&mut self, block: &HeaderBlock<'_>) -> Result<(), Fault> {
        let request = request_of(block.stream);
        let Some(stream) = self.streams.get_mut(request) else {
            self.skip_block(block.block)?;
            return self.on_closed_stream(block.stream);
        };
        stream.received.head.0 += u64::from(block.wire);
        if let Answer::Content(left) = stream.answer {
            return self.trailers(request, block, left);
        }
        if !stream.is_begun() {
            if request.is_pushed() && self.too_many_pushes() {
                self.skip_block(block.block)?;
                self.fail_stream(request, ErrorCode::REFUSED_STREAM, Failure::TooLarge);
                return Ok(());
            }
            self.notes.push_back(Event::Begin { request });
            if let Some(stream) = self.streams.get_mut(request) {
                stream.answer = Answer::Begun;
            }
        }
        if let Err(failure) = self.decode_head(block.block)? {
            self.count_fields(request, self.head.bytes());
            let code = match failure {
                Failure::TooLarge => ErrorCode::CANCEL,
                _ => ErrorCode::PROTOCOL_ERROR,
            };
            self.fail_stream(request, code, failure);
            return Ok(());
        }
        self.count_fields(request, self.head.bytes());
        match self.read_head(request, block.end_stream) {
            Ok(Reading::Interim) => {
                let status = self.info.status;
                let is_go_ahead = status == 100 && self.stops_waiting(request);
                self.notes.push_back(match is_go_ahead {
                    true => Event::SendContent { request },
                    false => Event::Interim { request, status },
                });
            }
            Ok(Reading::Content(left)) => {
                self.calm.progress();
                if let Some(stream) = self.streams.get_mut(request) {
                    stream.answer = Answer::Content(left);
                }
                self.notes.push_back(Event::Head { request });
                if block.end_stream {
                    self.response_ends(request, left);
                }
            }
            Err((code, failure)) => self.fail_stream(request, code, failure),
        }
        Ok(())
    }

    /// Reads the current head; returns the expected next part.
    fn read_head(
        &mut self,
        request: RequestId,
        ends: bool,
    ) -> Result<Reading, (ErrorCode, Failure)> {
        let malformed = (ErrorCode::PROTOCOL_ERROR, Failure::BadResponse);
        let too_large = (ErrorCode::CANCEL, Failure::TooLarge);
        let info = self.info;
        let stream = self.streams.get_mut(request).ok_or(malformed)?;
        if info.status < 200 {
            // Switching protocols (101) does not exist in HTTP/2.
            if ends || info.status == 101 {
                return Err(malformed);
            }
            if stream.interims == self.config.limits.interim {
                return Err(malformed);
            }
            stream.interims += 1;
            return Ok(Reading::Interim);
        }
        if stream.head_method || matches!(info.status, 204 | 304) {
            return Ok(Reading::Content(Some(0)));
        }
        match info.content_length {
            Some(length) if length > self.config.limits.body.0 => Err(too_large),
            length => Ok(Reading::Content(length)),
        }
    }

    fn trailers(
        &mut self,
        request: RequestId,
        block: &HeaderBlock<'_>,
        left: Option<u64>,
    ) -> Result<(), Fault> {
        self.trailers.clear();
        let decoded = self.decoder.decode(block.block, &mut self.trailers);
        self.count_fields(request, self.trailers.bytes());
        let failure = match decoded {
            Err(error) if error.is_fatal() => return Err(Fault::Compression),
            Err(_) => Some((ErrorCode::CANCEL, Failure::TooLarge)),
            Ok(()) if self.trailers.len() > usize::from(self.config.limits.fields) => {
                Some((ErrorCode::CANCEL, Failure::TooLarge))
            }
            Ok(())
                if !block.end_stream
                    || section::trailers(&self.trailers, Recipient::Http2Client).is_err() =>
            {
                Some((ErrorCode::PROTOCOL_ERROR, Failure::BadResponse))
            }
            Ok(()) => None,
        };
        match failure {
            Some((code, failure)) => self.fail_stream(request, code, failure),
            None => {
                self.notes.push_back(Event::Trailers { request });
                self.response_ends(request, left);
            }
        }
        Ok(())
    }

    /// Decodes and checks a head. Servers often repeat a head as references to the table. The result of the previous
    /// head is then reused.
    fn decode_head(&mut self, block: &[u8]) -> Result<Result<(), Failure>, Fault> {
        let generation = self.decoder.generation();
        if self.head_generation == Some(generation) && self.head_block == block {
            return Ok(Ok(()));
        }
        self.head_generation = None;
        self.head.clear();
        match self.decoder.decode(block, &mut self.head) {
            Ok(()) => {}
            Err(error) if error.is_fatal() => return Err(Fault::Compression),
            Err(_) => return Ok(Err(Failure::TooLarge)),
        }
        // The extra field is the pseudo-header field `:status`.
        if self.head.len() > usize::from(self.config.limits.fields) + 1 {
            return Ok(Err(Failure::TooLarge));
        }
        match section::response(&self.head, Recipient::Http2Client) {
            Ok(info) => self.info = info,
            Err(Malformed) => return Ok(Err(Failure::BadResponse)),
        }
        if generation == self.decoder.generation() {
            self.head_block.clear();
            self.head_block.extend_from_slice(block);
            self.head_generation = Some(generation);
        }
        Ok(Ok(()))
    }

    /// Decodes a header block only to update the HPACK table.
    pub(super) fn skip_block(&mut self, block: &[u8]) -> Result<(), Fault> {
        self.trailers.clear();
        let decoded = self.decoder.decode(block, &mut self.trailers);
        self.trailers.clear();
        match decoded {
            Err(error) if error.is_fatal() => Err(Fault::Compression),
            _ => Ok(()),
        }
    }

    fn count_fields(&mut self, request: RequestId, bytes: Bytes) {
        if let Some(stream) = self.streams.get_mut(request) {
            stream.received.fields += bytes;
        }
    }

    /// Ends the wait of a request for 100 (Continue); returns whether the request was waiting.
    fn stops_waiting(&mut self, request: RequestId) -> bool {
        let before = self.continuing.len();
        self.continuing.retain(|&(other, _)| other != request);
        let waited = self.continuing.len() < before;
        if waited && let Some(stream) = self.streams.get_mut(request) {
            stream.upload.state = UploadState::Open;
        }
        waited
    }

    /// Reports that the caller may send the content although the server did not send 100 (Continue).
    pub(super) fn may_continue(&mut self, request: RequestId) {
        if let Some(stream) = self.streams.get_mut(request) {
            stream.upload.state = UploadState::Open;
            self.notes.push_back(Event::SendContent { request });
        }
    }

    fn settings(&mut self, list: SettingsList<'_>) -> Result<(), Fault> {
        self.calm.wants_answer(&self.config.floods, self.now)?;
        let before = self.peer;
        for (id, value) in list.iter() {
            // Clients cannot push, so a server must not enable push (section 6.5.2).
            if id == id::ENABLE_PUSH && value != 0 {
                return Err(Fault::BadSetting);
            }
            self.peer.apply(id, value).map_err(|error| error.why)?;
        }
        self.peer_is_known = true;
        if list.iter().any(|(id, _)| id == id::HEADER_TABLE_SIZE) {
            // The sizes in the list apply in order. An earlier, smaller size evicts entries from the server's table.
            for (id, value) in list.iter() {
                if id == id::HEADER_TABLE_SIZE {
                    self.encoder.set_table_limit(value);
                }
            }
        }
        let (old, new) = (before.initial_window_size, self.peer.initial_window_size);
        if old != new {
            for (_, stream) in self.streams.iter_mut() {
                stream.send.change_initial(old, new)?;
            }
        }
        // Held frames obey the previous settings. If the new settings are narrower, the acknowledgement is sent after
        // the held frames.
        let narrower = self.peer.header_table_size < before.header_table_size
            || new < old
            || self.peer.max_frame_size < before.max_frame_size;
        if narrower && !self.output.held.is_empty() {
            write::settings_acknowledged(&mut self.output.held);
        } else {
            self.answer(write::settings_acknowledged)?;
        }
        self.frame_backlogs();
        self.notes.push_back(Event::Settings);
        Ok(())
    }

    fn settings_acknowledged(&mut self) -> Result<(), Fault> {
        if !std::mem::take(&mut self.settings_wait) {
            return Err(Fault::UnexpectedAcknowledgement);
        }
        let limit = self.config.settings.header_table_size;
        self.decoder.set_table_limit(limit);
        Ok(())
    }

    fn window_update(&mut self, stream: StreamId, increment: u32) -> Result<(), Fault> {
        self.nothing()?;
        if stream.is_connection() {
            self.send.give(increment)?;
            self.frame_backlogs();
            return Ok(());
        }
        let request = request_of(stream);
        let Some(open) = self.streams.get_mut(request) else {
            return self.must_not_be_idle(stream);
        };
        if open.send.give(increment).is_err() {
            let code = ErrorCode::FLOW_CONTROL_ERROR;
            self.fail_stream(request, code, Failure::BadResponse);
        } else if open.upload.is_blocked() {
            self.frame_backlogs();
        }
        Ok(())
    }

    fn peer_reset(&mut self, stream: StreamId, code: ErrorCode) -> Result<(), Fault> {
        let request = request_of(stream);
        if self.streams.get(request).is_none() {
            self.must_not_be_idle(stream)?;
            return self.nothing();
        }
        // REFUSED_STREAM means that the server did not process any part of the request (section 8.7).
        let acted = code != ErrorCode::REFUSED_STREAM;
        self.forget_held(request);
        self.lose_stream(request, Failure::StreamReset, acted);
        Ok(())
    }

    /// Handles a reset of a stream by the server. Held frames of the stream are still sent, because the compression
    /// state depends on them. RST_STREAM follows them.
    fn forget_held(&mut self, request: RequestId) {
        let stream = stream_of(request);
        if self.output.holds(stream) {
            write::reset(&mut self.output.held, stream, ErrorCode::CANCEL);
        }
    }

    fn peer_goes_away(&mut self, last: StreamId, code: ErrorCode) -> Result<(), Fault> {
        let first_left_out = match last.is_client() {
            true => RequestId(request_of(last).0 + 1),
            false => RequestId(last.number() >> 1),
        };
        if self.end.is_some_and(|(before, _)| first_left_out > before) {
            return self.nothing();
        }
        let repeated = self.end == Some((first_left_out, code));
        self.end = Some((first_left_out, code));
        if repeated {
            self.nothing()?;
        } else {
            let last = (first_left_out.0 > 0).then(|| RequestId(first_left_out.0 - 1));
            let code = code.0;
            self.notes.push_back(Event::GoAway { last, code });
        }
        let left_out = self.streams.iter().map(|(request, _)| request);
        let mut left_out: Vec<RequestId> = left_out
            .filter(|&request| !request.is_pushed() && request >= first_left_out)
            .collect();
        left_out.sort_unstable();
        for request in left_out {
            self.lose_stream(request, Failure::GoneAway, false);
        }
        self.close_when_drained();
        Ok(())
    }

    /// Counts an idle frame.
    pub(super) fn nothing(&mut self) -> Result<(), Fault> {
        self.calm.carries_nothing(&self.config.floods, self.now)
    }

    /// Handles a frame of a message on a stream that is not open. The frame is valid if this side has reset the stream:
    /// the server may have sent the frame before it received the reset.
    fn on_closed_stream(&mut self, stream: StreamId) -> Result<(), Fault> {
        self.must_not_be_idle(stream)?;
        let request = request_of(stream);
        match self.resets_overflowed || self.resets.contains(&request) {
            true => self.nothing(),
            false => Err(Fault::ClosedStream),
        }
    }

    pub(super) fn must_not_be_idle(&self, stream: StreamId) -> Result<(), Fault> {
        let is_idle = match stream.is_client() {
            true => request_of(stream) >= self.next_request,
            false => stream > self.last_promised || self.config.push == Push::Disabled,
        };
        match is_idle {
            true => Err(Fault::IdleStream),
            false => Ok(()),
        }
    }

    /// Handles an ALTSVC frame.
    fn take_alternatives(
        &mut self,
        stream: StreamId,
        origin: &[u8],
        value: &[u8],
    ) -> Result<(), Fault> {
        // An ALTSVC frame carries no part of a response and counts as an idle frame.
        self.nothing()?;
        let request = (!stream.is_connection()).then(|| request_of(stream));
        let is_in_place = match request {
            None => !origin.is_empty(),
            Some(request) => origin.is_empty() && self.streams.get(request).is_some(),
        };
        if is_in_place && self.announcement.set(origin, value) {
            self.notes.push_back(Event::Alternatives { request });
        }
        Ok(())
    }
}

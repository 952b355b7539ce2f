//! The critical streams of both sides: the control stream and the two QPACK streams (RFC 9114 section 6.2).

use std::io::IoSlice;

use fathometer_model::Instant;

use super::error::{ErrorCode, Fault};
use super::frame::{self, FrameType, Frames, Piece};
use super::settings::Settings;
use super::varint;
use super::{Action, Priority};
use crate::qpack::{Decoder, Encoder};

/// The side of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// Types of unidirectional streams.
const CONTROL: u64 = 0x0;
const PUSH: u64 = 0x1;
const ENCODER: u64 = 0x2;
const DECODER: u64 = 0x3;

/// The maximum length of a frame on a control stream, in bytes. A longer frame is treated as an attack.
const MOST_CONTROL_FRAME: u64 = 4096;
/// The maximum number of bytes that may wait on the control stream or the QPACK decoder stream, because the peer does
/// not accept them.
const MOST_WAITING: usize = 64 * 1024;
/// The maximum number of frames without effect in one second.
const MOST_IDLE: u32 = 10_000;

/// A message on the peer's control stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlEvent {
    Settings(Settings),
    /// The peer does not process requests with this or a higher identifier.
    GoAway(u64),
    /// The peer changes the priority of the response on this stream.
    Priority(u64, Priority),
}

/// The critical streams, and the QPACK encoder and decoder that use them.
#[derive(Debug)]
pub(super) struct Critical {
    role: Role,
    /// The control, encoder and decoder streams of this side, in this order.
    own: [Outgoing; 3],
    incoming: Vec<Incoming>,
    /// For each type of critical stream: whether the peer has opened it.
    seen: [bool; 4],
    pub peer_settings: Option<Settings>,
    /// The identifier in the peer's last GOAWAY.
    peer_goaway: Option<u64>,
    /// The peer's last MAX_PUSH_ID.
    max_push: Option<u64>,
    pub encoder: Encoder,
    pub decoder: Decoder,
    /// The number of frames without effect since `idle_since`.
    idle: u32,
    idle_since: Instant,
}

/// A stream that this side opens.
#[derive(Debug, Default)]
struct Outgoing {
    stream: Option<u64>,
    /// Bytes to send. The transport has taken `bytes[..taken]`.
    bytes: Vec<u8>,
    /// The number of bytes that the transport took.
    taken: usize,
    blocked: bool,
}

/// A stream that the peer opened.
#[derive(Debug)]
struct Incoming {
    stream: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The type of the stream is not complete yet.
    Unknown {
        bytes: [u8; 8],
        have: u8,
    },
    Control(Box<Control>),
    Encoder,
    Decoder,
    /// The stream type is unsupported. The stream is refused, and its remaining bytes are skipped.
    Refused,
}

#[derive(Debug, Default)]
struct Control {
    frames: Frames,
    kind: Option<FrameType>,
    payload: Vec<u8>,
}

impl Critical {
    pub fn new(
        role: Role,
        settings: &Settings,
        reserved: Option<u64>,
        encoder: Encoder,
        decoder: Decoder,
        now: Instant,
    ) -> Critical {
        let mut own = [CONTROL, ENCODER, DECODER].map(|kind| Outgoing {
            bytes: vec![kind as u8],
            ..Outgoing::default()
        });
        settings.write(reserved, &mut own[0].bytes);
        if let Some(number) = reserved {
            frame::write_header(FrameType(frame::reserved(number)), 0, &mut own[0].bytes);
        }
        Critical {
            role,
            own,
            incoming: Vec::new(),
            seen: [false; 4],
            peer_settings: None,
            peer_goaway: None,
            max_push: None,
            encoder,
            decoder,
            idle: 0,
            idle_since: now,
        }
    }

    /// Whether a critical stream of this side has not been opened yet.
    pub fn wants_stream(&self) -> bool {
        self.own.iter().any(|own| own.stream.is_none())
    }

    /// Handles a stream that the transport has opened. The stream becomes the next critical stream of this side.
    pub fn opened(&mut self, stream: u64) {
        if let Some(own) = self.own.iter_mut().find(|own| own.stream.is_none()) {
            own.stream = Some(stream);
        }
    }

    /// Whether the stream is one of this side's critical streams.
    pub fn is_own(&self, stream: u64) -> bool {
        self.own.iter().any(|own| own.stream == Some(stream))
    }

    /// The output buffer of the control stream.
    pub fn control(&mut self) -> &mut Vec<u8> {
        &mut self.own[0].bytes
    }

    /// Moves the instructions of the QPACK encoder and decoder to their streams.
    pub fn settle(&mut self) -> Result<(), Fault> {
        let [control, encoder, decoder] = &mut self.own;
        if self.encoder.has_instructions() {
            self.encoder.write_instructions(&mut encoder.bytes);
        }
        if self.decoder.has_instructions() {
            self.decoder.write_instructions(&mut decoder.bytes);
        }
        let waiting = [control, decoder].map(|own| own.bytes.len() - own.taken);
        if waiting.iter().any(|&waiting| waiting > MOST_WAITING) {
            return Err(Fault::Flood);
        }
        Ok(())
    }

    /// Fills a slice with the next bytes of a critical stream. Returns the stream ID and the number of bytes.
    pub fn transmit<'a>(&'a self, slices: &mut [IoSlice<'a>], most: usize) -> Option<(u64, usize)> {
        let own = self.own.iter().find(|own| own.has_something())?;
        let slice = slices.first_mut()?;
        let bytes = &own.bytes[own.taken..];
        let bytes = &bytes[..bytes.len().min(most)];
        *slice = IoSlice::new(bytes);
        Some((own.stream?, bytes.len()))
    }

    /// Notes that the transport took bytes of a critical stream of this side.
    pub fn transmitted(&mut self, stream: u64, bytes: usize) {
        if let Some(own) = self.own(stream) {
            own.taken += bytes;
            if own.taken >= own.bytes.len() {
                own.bytes.clear();
                own.taken = 0;
            } else if own.taken > MOST_WAITING {
                own.bytes.drain(..own.taken);
                own.taken = 0;
            }
        }
    }

    /// Records whether the transport accepts bytes of a critical stream of this side.
    pub fn set_blocked(&mut self, stream: u64, blocked: bool) {
        if let Some(own) = self.own(stream) {
            own.blocked = blocked;
        }
    }

    fn own(&mut self, stream: u64) -> Option<&mut Outgoing> {
        self.own.iter_mut().find(|own| own.stream == Some(stream))
    }

    /// Counts a frame without effect. Too many such frames in one second are a fault.
    pub fn count_idle(&mut self, now: Instant) -> Result<(), Fault> {
        if now.since(self.idle_since).as_secs() >= 1 {
            self.idle_since = now;
            self.idle = 0;
        }
        self.idle += 1;
        if self.idle > MOST_IDLE {
            return Err(Fault::Flood);
        }
        Ok(())
    }

    /// Reads bytes of a unidirectional stream of the peer, until there is a message to report or the input is consumed.
    pub fn read(
        &mut self,
        stream: u64,
        input: &mut &[u8],
        actions: &mut impl FnMut(Action),
        now: Instant,
    ) -> Result<Option<ControlEvent>, Fault> {
        let place = self.place(stream);
        while !input.is_empty() {
            match &mut self.incoming[place].kind {
                Kind::Unknown { bytes, have } => {
                    bytes[usize::from(*have)] = input[0];
                    *have += 1;
                    *input = &input[1..];
                    if let Some((kind, _)) = varint::read(&bytes[..usize::from(*have)]) {
                        self.incoming[place].kind = self.kind(kind, stream, actions)?;
                    }
                }
                Kind::Encoder => {
                    match self.role {
                        // The caller executes the instructions with `follow_on`, and resumes streams when they are
                        // unblocked.
                        Role::Server => self.decoder.take_instructions(input),
                        Role::Client => self.decoder.handle_instructions(input)?,
                    }
                    *input = &[];
                }
                Kind::Decoder => {
                    self.encoder.handle_instructions(input)?;
                    *input = &[];
                }
                Kind::Refused => *input = &[],
                Kind::Control(control) => {
                    let Some(piece) = control.frames.read(input) else {
                        break;
                    };
                    let event = self.control_piece(place, piece, now)?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
            }
        }
        // The end of a frame is reported even if the input has no more bytes.
        if let Kind::Control(control) = &mut self.incoming[place].kind
            && let Some(piece) = control.frames.read(input)
        {
            return self.control_piece(place, piece, now);
        }
        Ok(None)
    }

    /// Handles the end or the reset of a stream of the peer.
    pub fn ended(&mut self, stream: u64) -> Result<(), Fault> {
        let place = self
            .incoming
            .iter()
            .position(|incoming| incoming.stream == stream);
        let Some(place) = place else {
            return Ok(());
        };
        match self.incoming.swap_remove(place).kind {
            Kind::Unknown { .. } | Kind::Refused => Ok(()),
            Kind::Control(_) | Kind::Encoder | Kind::Decoder => Err(Fault::ClosedCriticalStream),
        }
    }

    fn place(&mut self, stream: u64) -> usize {
        let place = self
            .incoming
            .iter()
            .position(|incoming| incoming.stream == stream);
        place.unwrap_or_else(|| {
            self.incoming.push(Incoming {
                stream,
                kind: Kind::Unknown {
                    bytes: [0; 8],
                    have: 0,
                },
            });
            self.incoming.len() - 1
        })
    }

    /// Returns the state for a stream of this type.
    fn kind(
        &mut self,
        kind: u64,
        stream: u64,
        actions: &mut impl FnMut(Action),
    ) -> Result<Kind, Fault> {
        if matches!(kind, CONTROL | ENCODER | DECODER)
            && std::mem::replace(&mut self.seen[kind as usize], true)
        {
            return Err(Fault::RepeatedStream);
        }
        match (kind, self.role) {
            (CONTROL, _) => Ok(Kind::Control(Box::default())),
            (ENCODER, _) => Ok(Kind::Encoder),
            (DECODER, _) => Ok(Kind::Decoder),
            (PUSH, Role::Server) => Err(Fault::ForbiddenStream),
            // This client does not permit pushes.
            (PUSH, Role::Client) => Err(Fault::BadIdentifier),
            _ => {
                actions(Action::StopSending {
                    stream,
                    code: ErrorCode::STREAM_CREATION_ERROR,
                });
                Ok(Kind::Refused)
            }
        }
    }

    fn control_piece(
        &mut self,
        place: usize,
        piece: Piece<'_>,
        now: Instant,
    ) -> Result<Option<ControlEvent>, Fault> {
        let Kind::Control(control) = &mut self.incoming[place].kind else {
            return Ok(None);
        };
        match piece {
            Piece::Begin { kind, length, .. } => {
                if self.peer_settings.is_none() && kind != FrameType::SETTINGS {
                    return Err(Fault::MissingSettings);
                }
                control.payload.clear();
                control.kind = is_known(kind).then_some(kind);
                match kind {
                    FrameType::SETTINGS if self.peer_settings.is_some() => {
                        return Err(Fault::UnexpectedFrame);
                    }
                    FrameType::DATA | FrameType::HEADERS | FrameType::PUSH_PROMISE => {
                        return Err(Fault::UnexpectedFrame);
                    }
                    FrameType::MAX_PUSH_ID
                    | FrameType::PRIORITY_UPDATE
                    | FrameType::PUSH_PRIORITY_UPDATE
                        if self.role == Role::Client =>
                    {
                        return Err(Fault::UnexpectedFrame);
                    }
                    _ if kind.is_of_http2() => return Err(Fault::UnexpectedFrame),
                    _ if control.kind.is_some() && length > MOST_CONTROL_FRAME => {
                        return Err(Fault::Flood);
                    }
                    FrameType::SETTINGS => {}
                    _ => self.count_idle(now)?,
                }
                Ok(None)
            }
            Piece::Payload(bytes) => {
                if control.kind.is_some() {
                    control.payload.extend_from_slice(bytes);
                }
                Ok(None)
            }
            Piece::End => {
                let Some(kind) = control.kind.take() else {
                    return Ok(None);
                };
                let payload = std::mem::take(&mut control.payload);
                let event = self.control_frame(kind, &payload);
                if let Kind::Control(control) = &mut self.incoming[place].kind {
                    control.payload = payload;
                }
                event
            }
        }
    }

    fn control_frame(
        &mut self,
        kind: FrameType,
        payload: &[u8],
    ) -> Result<Option<ControlEvent>, Fault> {
        match kind {
            FrameType::SETTINGS => {
                let settings = Settings::read(payload)?;
                self.peer_settings = Some(settings);
                self.encoder.handle_settings(
                    settings.qpack_max_table_capacity,
                    settings.qpack_blocked_streams,
                );
                Ok(Some(ControlEvent::Settings(settings)))
            }
            FrameType::GOAWAY => {
                let id = only_number(payload)?;
                let is_request = id % 4 == 0;
                if self.role == Role::Client && !is_request
                    || self.peer_goaway.is_some_and(|before| id > before)
                {
                    return Err(Fault::BadIdentifier);
                }
                self.peer_goaway = Some(id);
                Ok(Some(ControlEvent::GoAway(id)))
            }
            FrameType::MAX_PUSH_ID => {
                let id = only_number(payload)?;
                if self.max_push.is_some_and(|before| id < before) {
                    return Err(Fault::BadIdentifier);
                }
                self.max_push = Some(id);
                Ok(None)
            }
            FrameType::CANCEL_PUSH => {
                let id = only_number(payload)?;
                // The server never pushes, but the client may cancel any push ID that it has permitted.
                let permitted = match self.role {
                    Role::Client => false,
                    Role::Server => self.max_push.is_some_and(|most| id <= most),
                };
                if permitted {
                    Ok(None)
                } else {
                    Err(Fault::BadIdentifier)
                }
            }
            FrameType::PRIORITY_UPDATE => {
                let mut field = payload;
                let stream = varint::take(&mut field).ok_or(Fault::MalformedFrame)?;
                if stream % 4 != 0 {
                    return Err(Fault::BadIdentifier);
                }
                Ok(Some(ControlEvent::Priority(stream, Priority::parse(field))))
            }
            FrameType::PUSH_PRIORITY_UPDATE => {
                let mut field = payload;
                let push = varint::take(&mut field).ok_or(Fault::MalformedFrame)?;
                if self.max_push.is_none_or(|most| push > most) {
                    return Err(Fault::BadIdentifier);
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}

impl Outgoing {
    fn has_something(&self) -> bool {
        self.stream.is_some() && !self.blocked && self.taken < self.bytes.len()
    }
}

/// Whether the payload of this frame type is parsed.
fn is_known(kind: FrameType) -> bool {
    matches!(
        kind,
        FrameType::SETTINGS
            | FrameType::GOAWAY
            | FrameType::MAX_PUSH_ID
            | FrameType::CANCEL_PUSH
            | FrameType::PRIORITY_UPDATE
            | FrameType::PUSH_PRIORITY_UPDATE
    )
}

/// Reads a payload that consists of exactly one integer.
fn only_number(mut payload: &[u8]) -> Result<u64, Fault> {
    let number = varint::take(&mut payload).ok_or(Fault::MalformedFrame)?;
    if payload.is_empty() {
        Ok(number)
    } else {
        Err(Fault::MalformedFrame)
    }
}

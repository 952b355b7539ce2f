//! Incremental frame reader.

use super::super::StreamId;
use super::super::error::{Error, ErrorCode, Fault, StreamError};
use super::super::settings::MIN_FRAME_SIZE;
use super::write::Carrier;
use super::{
    DataPiece, Dependency, Frame, FrameType, HEADER_LENGTH, Header, HeaderBlock, SettingsList,
    flags,
};

/// Limits on the frames that a reader accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum payload of a frame, in bytes: this side's SETTINGS_MAX_FRAME_SIZE.
    pub frame: u32,
    /// The maximum size of one header block over all its frames, in bytes.
    pub block: u32,
    /// The maximum number of CONTINUATION frames in one header block.
    pub continuations: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame: MIN_FRAME_SIZE,
            block: 64 * 1024,
            continuations: 16,
        }
    }
}

/// A frame reader. It buffers incomplete frame headers, incomplete payloads of frames other than DATA, and incomplete
/// header blocks. The buffers hold at most one frame and one header block.
#[derive(Debug, Default)]
pub struct Reader {
    limits: Limits,
    state: State,
    /// The received bytes of the frame header.
    head: [u8; HEADER_LENGTH],
    head_length: usize,
    /// The received bytes of a payload that arrives in several pieces.
    partial: Vec<u8>,
    /// The received part of a header block that has more than one frame.
    block: Vec<u8>,
    continued: Option<Continued>,
}

#[derive(Debug, Clone, Copy, Default)]
enum State {
    /// A frame header is next.
    #[default]
    Header,
    /// A payload is next. `partial` may hold its first bytes.
    Payload(Header),
    /// The payload of a DATA frame, or the remaining part, is next.
    Data(Data),
    /// The number of bytes to skip.
    Skip(usize),
    /// A connection error occurred. No more input is read.
    Failed,
}

/// A partly read DATA frame.
#[derive(Debug, Clone, Copy)]
struct Data {
    header: Header,
    first: bool,
    /// Whether the padding length has not arrived yet.
    padding_unknown: bool,
    /// Remaining bytes of content.
    content: usize,
    /// Remaining bytes of padding.
    padding: usize,
}

/// A header block that continues in the next frame.
#[derive(Debug, Clone, Copy)]
struct Continued {
    stream: StreamId,
    carrier: Carrier,
    wire: u32,
    /// The number of CONTINUATION frames so far.
    count: u32,
}

impl Reader {
    /// Creates a reader that expects a frame header.
    pub fn new(limits: Limits) -> Reader {
        Reader {
            limits,
            ..Reader::default()
        }
    }

    /// Resets the reader to the state of [`new`](Self::new). Allocated memory is reused.
    pub fn renew(&mut self, limits: Limits) {
        self.limits = limits;
        self.state = State::Header;
        self.head_length = 0;
        self.continued = None;
    }

    /// Whether the reader is neither within a frame nor within a header block.
    pub fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Header) && self.head_length == 0 && self.continued.is_none()
    }

    /// Whether the reader is within a DATA frame.
    pub fn is_within_data(&self) -> bool {
        matches!(self.state, State::Data(_))
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        if self.is_between_frames() {
            self.partial = Vec::new();
            self.block = Vec::new();
        }
    }

    /// Reads the next frame and consumes its bytes from `input`. Returns `None` if the input ends before the frame is
    /// complete. After a connection error, every call returns `None`. After a stream error, the next call continues
    /// with the next frame.
    pub fn read<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Option<Result<Frame<'a>, Error>> {
        let header = loop {
            match &mut self.state {
                State::Header => {
                    let header = self.take_header(input)?;
                    match self.begin(header) {
                        Ok(None) => {}
                        Ok(Some(frame)) => return Some(Ok(frame)),
                        Err(error) => {
                            self.state = match error {
                                Error::Stream(_) => State::Skip(header.length as usize),
                                Error::Connection(_) => State::Failed,
                            };
                            return Some(Err(error));
                        }
                    }
                }
                State::Data(data) => {
                    if input.is_empty() && data.header.length > 0 {
                        return None;
                    }
                    let piece = data.read(input);
                    match piece {
                        Ok(piece) if piece.last => self.state = State::Header,
                        Ok(_) => {}
                        Err(_) => self.state = State::Failed,
                    }
                    return Some(piece.map(Frame::Data).map_err(Error::from));
                }
                State::Skip(left) => {
                    *left -= take(input, *left).len();
                    if *left > 0 {
                        return None;
                    }
                    self.state = State::Header;
                }
                State::Failed => {
                    *input = &[];
                    return None;
                }
                State::Payload(header) => {
                    let header = *header;
                    let length = header.length as usize;
                    if !self.partial.is_empty() || input.len() < length {
                        let missing = length - self.partial.len();
                        self.partial.extend_from_slice(take(input, missing));
                        if self.partial.len() < length {
                            return None;
                        }
                    }
                    self.state = State::Header;
                    let goes_on = header.is_block() && !header.has(flags::END_HEADERS);
                    if !goes_on {
                        break header;
                    }
                    if let Err(fault) = self.begin_block(header, input) {
                        self.state = State::Failed;
                        return Some(Err(fault.into()));
                    }
                }
            }
        };
        let payload = match self.partial.len() {
            0 => take(input, header.length as usize),
            _ => &self.partial[..],
        };
        let frame = match self.continued.take() {
            None => parse(header, payload),
            Some(continued) => {
                self.block.extend_from_slice(payload);
                let wire = continued.wire + wire(header);
                Ok(continued.carrier.frame(continued.stream, &self.block, wire))
            }
        };
        if matches!(frame, Err(Error::Connection(_))) {
            self.state = State::Failed;
        }
        Some(frame)
    }

    /// Reads the next frame header; returns it when it is complete.
    fn take_header(&mut self, input: &mut &[u8]) -> Option<Header> {
        if self.head_length == 0
            && let Some((head, rest)) = input.split_first_chunk()
        {
            *input = rest;
            return Some(Header::parse(head));
        }
        let more = take(input, HEADER_LENGTH - self.head_length);
        let end = self.head_length + more.len();
        self.head[self.head_length..end].copy_from_slice(more);
        self.head_length = end % HEADER_LENGTH;
        (end == HEADER_LENGTH).then(|| Header::parse(&self.head))
    }

    /// Checks a frame header, and sets the state for the payload.
    fn begin(&mut self, header: Header) -> Result<Option<Frame<'static>>, Error> {
        if header.length > self.limits.frame {
            return Err(Fault::FrameTooLong.into());
        }
        match &mut self.continued {
            Some(continued) => {
                if header.kind != FrameType::CONTINUATION || header.stream != continued.stream {
                    return Err(Fault::BlockInterrupted.into());
                }
                continued.count += 1;
                let length = self.block.len() + header.length as usize;
                if continued.count > self.limits.continuations
                    || length > self.limits.block as usize
                {
                    return Err(Fault::BlockTooLong.into());
                }
            }
            None if header.kind == FrameType::CONTINUATION => {
                return Err(Fault::UnexpectedContinuation.into());
            }
            None => {}
        }
        let length = header.length;
        let ack = header.has(flags::ACK);
        let padded = u32::from(header.has(flags::PADDED));
        // Whether a frame of this type belongs on the connection, and whether its length is valid.
        let (on_connection, fits) = match header.kind {
            FrameType::DATA => (Some(false), length >= padded),
            FrameType::HEADERS if header.has(flags::PRIORITY) => {
                (Some(false), length >= padded + 5)
            }
            FrameType::HEADERS => (Some(false), length >= padded),
            FrameType::PUSH_PROMISE => (Some(false), length >= padded + 4),
            FrameType::CONTINUATION => (Some(false), true),
            FrameType::PRIORITY => (Some(false), length == 5),
            FrameType::RST_STREAM => (Some(false), length == 4),
            FrameType::SETTINGS if ack => (Some(true), length == 0),
            FrameType::SETTINGS => (Some(true), length.is_multiple_of(6)),
            FrameType::PING => (Some(true), length == 8),
            FrameType::GOAWAY => (Some(true), length >= 8),
            FrameType::PRIORITY_UPDATE => (Some(true), length >= 4),
            FrameType::WINDOW_UPDATE => (None, length == 4),
            FrameType::ALTSVC if length >= 2 => (None, true),
            _ => {
                self.state = State::Skip(length as usize);
                return Ok(Some(Frame::Unknown(header)));
            }
        };
        if on_connection.is_some_and(|wanted| wanted != header.stream.is_connection()) {
            return Err(Fault::WrongStreamZero.into());
        }
        match header.kind {
            FrameType::PRIORITY if !fits => {
                return Err(StreamError::new(header.stream, Fault::FrameLength).into());
            }
            _ if !fits => return Err(Fault::FrameLength.into()),
            FrameType::HEADERS | FrameType::PUSH_PROMISE if length > self.limits.block => {
                return Err(Fault::BlockTooLong.into());
            }
            _ => {}
        }
        self.state = if header.kind == FrameType::DATA {
            State::Data(Data {
                header,
                first: true,
                padding_unknown: header.has(flags::PADDED),
                content: length as usize,
                padding: 0,
            })
        } else {
            self.partial.clear();
            State::Payload(header)
        };
        Ok(None)
    }

    /// Buffers the payload of a frame whose header block continues in another frame.
    fn begin_block(&mut self, header: Header, input: &mut &[u8]) -> Result<(), Fault> {
        let payload = match self.partial.len() {
            0 => take(input, header.length as usize),
            _ => &self.partial[..],
        };
        match &mut self.continued {
            Some(continued) => {
                self.block.extend_from_slice(payload);
                continued.wire += wire(header);
            }
            None => {
                let (carrier, fragment) = block_start(header, payload)?;
                self.block.clear();
                self.block.extend_from_slice(fragment);
                self.continued = Some(Continued {
                    stream: header.stream,
                    carrier,
                    wire: wire(header),
                    count: 0,
                });
            }
        }
        Ok(())
    }
}

impl Data {
    /// Reads a piece of the frame. Unless the frame is empty, `input` must have at least one byte.
    fn read<'a>(&mut self, input: &mut &'a [u8]) -> Result<DataPiece<'a>, Fault> {
        let before = input.len();
        if self.padding_unknown
            && let Some((&padding, rest)) = input.split_first()
        {
            *input = rest;
            self.padding_unknown = false;
            self.padding = usize::from(padding);
            self.content = (self.content - 1)
                .checked_sub(self.padding)
                .ok_or(Fault::Padding)?;
        }
        let content = take(input, self.content);
        self.content -= content.len();
        if self.content == 0 {
            self.padding -= take(input, self.padding).len();
        }
        let last = self.content == 0 && self.padding == 0;
        let first = std::mem::replace(&mut self.first, false);
        let consumed = (before - input.len()) as u32;
        Ok(DataPiece {
            stream: self.header.stream,
            length: self.header.length,
            first,
            last,
            end_stream: last && self.header.has(flags::END_STREAM),
            content,
            wire: consumed + if first { HEADER_LENGTH as u32 } else { 0 },
        })
    }
}

impl Header {
    fn is_block(self) -> bool {
        matches!(
            self.kind,
            FrameType::HEADERS | FrameType::PUSH_PROMISE | FrameType::CONTINUATION
        )
    }
}

impl Carrier {
    fn frame(self, stream: StreamId, block: &[u8], wire: u32) -> Frame<'_> {
        let block = HeaderBlock {
            stream,
            end_stream: false,
            dependency: None,
            block,
            wire,
        };
        match self {
            Carrier::Push { promised } => Frame::Push { promised, block },
            Carrier::Headers {
                end_stream,
                dependency,
            } => Frame::Headers(HeaderBlock {
                end_stream,
                dependency,
                ..block
            }),
        }
    }
}

/// Parses a payload whose length is valid for its frame type.
fn parse(header: Header, payload: &[u8]) -> Result<Frame<'_>, Error> {
    let stream = header.stream;
    let acknowledges = header.has(flags::ACK);
    Ok(match header.kind {
        FrameType::HEADERS | FrameType::PUSH_PROMISE => {
            let (carrier, block) = block_start(header, payload)?;
            carrier.frame(stream, block, wire(header))
        }
        FrameType::PRIORITY => Frame::Priority {
            stream,
            dependency: Dependency::parse(*first(payload)?),
        },
        FrameType::RST_STREAM => Frame::Reset {
            stream,
            code: ErrorCode(number(payload)?),
        },
        FrameType::SETTINGS if acknowledges => Frame::SettingsAcknowledged,
        FrameType::SETTINGS => {
            Frame::Settings(SettingsList::parse(payload).ok_or(Fault::FrameLength)?)
        }
        FrameType::PING => Frame::Ping {
            acknowledges,
            payload: *first(payload)?,
        },
        FrameType::GOAWAY => Frame::GoAway {
            last: StreamId::new(number(payload)?),
            code: ErrorCode(number(&payload[4..])?),
            debug: &payload[8..],
        },
        FrameType::WINDOW_UPDATE => {
            let increment = StreamId::new(number(payload)?).number();
            match increment {
                0 if stream.is_connection() => return Err(Fault::ZeroIncrement.into()),
                0 => return Err(StreamError::new(stream, Fault::ZeroIncrement).into()),
                _ => Frame::WindowUpdate { stream, increment },
            }
        }
        FrameType::PRIORITY_UPDATE => {
            let about = StreamId::new(number(payload)?);
            if about.is_connection() {
                return Err(Fault::WrongStreamZero.into());
            }
            Frame::PriorityUpdate {
                stream: about,
                field: &payload[4..],
            }
        }
        FrameType::ALTSVC => match alt_svc(payload) {
            Some((origin, value)) => Frame::AltSvc {
                stream,
                origin,
                value,
            },
            None => Frame::Unknown(header),
        },
        _ => Frame::Unknown(header),
    })
}

/// Splits the first payload of a header block into the parts that precede the fields, and the fields.
fn block_start(header: Header, mut payload: &[u8]) -> Result<(Carrier, &[u8]), Fault> {
    if header.has(flags::PADDED) {
        let (&padding, rest) = payload.split_first().ok_or(Fault::FrameLength)?;
        let length = rest.len().checked_sub(usize::from(padding));
        payload = &rest[..length.ok_or(Fault::Padding)?];
    }
    // Without the padding, the payload may be too short for the parts that the flags announce.
    let carrier = if header.kind == FrameType::PUSH_PROMISE {
        let promised = StreamId::new(number(payload).map_err(|_| Fault::Padding)?);
        payload = &payload[4..];
        Carrier::Push { promised }
    } else {
        let mut dependency = None;
        if header.has(flags::PRIORITY) {
            let bytes: &[u8; 5] = first(payload).map_err(|_| Fault::Padding)?;
            dependency = Some(Dependency::parse(*bytes));
            payload = &payload[5..];
        }
        Carrier::Headers {
            end_stream: header.has(flags::END_STREAM),
            dependency,
        }
    };
    Ok((carrier, payload))
}

/// Splits the payload of an ALTSVC frame into the origin and the field value.
fn alt_svc(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = payload.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// The size of a frame on the wire in bytes.
fn wire(header: Header) -> u32 {
    HEADER_LENGTH as u32 + header.length
}

fn first<const N: usize>(payload: &[u8]) -> Result<&[u8; N], Fault> {
    payload.first_chunk().ok_or(Fault::FrameLength)
}

fn number(payload: &[u8]) -> Result<u32, Fault> {
    first(payload).map(|&bytes| u32::from_be_bytes(bytes))
}

/// Takes at most `most` bytes from the input.
fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    taken
}

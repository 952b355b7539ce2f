use proptest::prelude::*;

use super::super::error::{Error, Fault, StreamError};
use super::write::Carrier;
use super::*;

/// Builds a frame with this payload, even if its lengths are wrong.
fn raw(kind: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let header = Header {
        length: payload.len() as u32,
        kind,
        flags,
        stream: StreamId::new(stream),
    };
    write::header(&mut out, header);
    out.extend_from_slice(payload);
    out
}

/// Reads bytes that arrive in `pieces`; returns all results, with the pieces of DATA frames joined.
fn read_all<'p>(limits: Limits, pieces: impl Iterator<Item = &'p [u8]>) -> Vec<String> {
    let mut reader = Reader::new(limits);
    let mut log: Vec<String> = Vec::new();
    let mut joined = String::new();
    let mut wire = 0;
    for mut input in pieces {
        while let Some(result) = reader.read(&mut input) {
            match result {
                Ok(Frame::Data(piece)) => {
                    if piece.first {
                        joined = format!("data {:?} {} ", piece.stream, piece.length);
                        wire = 0;
                    }
                    wire += piece.wire;
                    for byte in piece.content {
                        joined.push(char::from(b'a' + byte % 26));
                    }
                    if piece.last {
                        assert_eq!(wire, piece.length + 9);
                        log.push(format!("{joined} {}", piece.end_stream));
                    }
                }
                other => log.push(format!("{other:?}")),
            }
        }
        assert!(input.is_empty());
    }
    log
}

fn errors(bytes: &[u8]) -> Vec<Error> {
    let mut reader = Reader::new(Limits::default());
    let mut input = bytes;
    let mut errors = Vec::new();
    while let Some(result) = reader.read(&mut input) {
        errors.extend(result.err());
    }
    errors
}

fn connection_fault(bytes: &[u8]) -> Fault {
    match errors(bytes)[..] {
        [Error::Connection(error)] => error.why,
        ref others => panic!("{others:?}"),
    }
}

#[test]
fn written_frames_are_read_back() {
    let mut out = Vec::new();
    let stream = StreamId::new(5);
    let dependency = Dependency {
        on: StreamId::new(3),
        exclusive: true,
        weight: 200,
    };
    write::settings(&mut out, [(1, 2), (0xfff0, u32::MAX)].into_iter());
    write::settings_acknowledged(&mut out);
    write::ping(&mut out, false, *b"12345678");
    write::ping(&mut out, true, *b"12345678");
    write::go_away(&mut out, stream, ErrorCode::CANCEL, b"why");
    write::window_update(&mut out, StreamId::CONNECTION, 77);
    write::reset(&mut out, stream, ErrorCode::REFUSED_STREAM);
    write::priority(&mut out, stream, dependency);
    write::priority_update(&mut out, stream, b"u=1");
    write::alt_svc(&mut out, stream, "https://h", "h3=\":1\"");
    let headers = Carrier::Headers {
        end_stream: true,
        dependency: Some(dependency),
    };
    let wire = write::header_block(&mut out, stream, headers, 16_384, |out| {
        out.extend_from_slice(b"block");
    });
    assert_eq!(wire, 9 + 5 + 5);
    let push = Carrier::Push {
        promised: StreamId::new(2),
    };
    write::header_block(&mut out, stream, push, 16_384, |out| out.push(b'p'));
    write::data_header(&mut out, stream, 3, true);
    out.extend_from_slice(b"abc");
    let mut reader = Reader::new(Limits::default());
    let mut input = &out[..];
    let mut check = |wanted: Frame<'_>| {
        let frame = reader.read(&mut input).unwrap().unwrap();
        assert_eq!(frame, wanted);
    };
    let entries = [0, 1, 0, 0, 0, 2, 0xff, 0xf0, 255, 255, 255, 255];
    check(Frame::Settings(SettingsList::parse(&entries).unwrap()));
    check(Frame::SettingsAcknowledged);
    for acknowledges in [false, true] {
        check(Frame::Ping {
            acknowledges,
            payload: *b"12345678",
        });
    }
    check(Frame::GoAway {
        last: stream,
        code: ErrorCode::CANCEL,
        debug: b"why",
    });
    check(Frame::WindowUpdate {
        stream: StreamId::CONNECTION,
        increment: 77,
    });
    check(Frame::Reset {
        stream,
        code: ErrorCode::REFUSED_STREAM,
    });
    check(Frame::Priority { stream, dependency });
    check(Frame::PriorityUpdate {
        stream,
        field: b"u=1",
    });
    check(Frame::AltSvc {
        stream,
        origin: b"https://h",
        value: b"h3=\":1\"",
    });
    check(Frame::Headers(HeaderBlock {
        stream,
        end_stream: true,
        dependency: Some(dependency),
        block: b"block",
        wire,
    }));
    check(Frame::Push {
        promised: StreamId::new(2),
        block: HeaderBlock {
            stream,
            end_stream: false,
            dependency: None,
            block: b"p",
            wire: 14,
        },
    });
    check(Frame::Data(DataPiece {
        stream,
        length: 3,
        first: true,
        last: true,
        end_stream: true,
        content: b"abc",
        wire: 12,
    }));
    assert!(reader.read(&mut input).is_none());
    assert!(reader.is_between_frames());
}

#[test]
fn long_header_blocks_are_split_and_joined() {
    let block: Vec<u8> = (0..100).collect();
    for size in [1, 7, 33, 50, 99, 100, 101] {
        let mut out = Vec::new();
        let carrier = Carrier::Headers {
            end_stream: true,
            dependency: None,
        };
        let wire = write::header_block(&mut out, StreamId::new(1), carrier, size, |out| {
            out.extend_from_slice(&block);
        });
        assert_eq!(wire as usize, out.len());
        assert_eq!(out.len(), 100 + 9 * 100_usize.div_ceil(size as usize));
        let mut reader = Reader::new(Limits {
            continuations: 100,
            ..Limits::default()
        });
        let mut input = &out[..];
        match reader.read(&mut input) {
            Some(Ok(Frame::Headers(read))) => {
                assert_eq!((read.block, read.wire), (&block[..], wire), "{size}");
                assert!(read.end_stream);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn frames_have_the_lengths_and_streams_that_their_types_allow() {
    use FrameType as T;
    for (kind, flags, stream, length, fault) in [
        (T::DATA, 0, 0, 1, Fault::WrongStreamZero),
        (T::DATA, flags::PADDED, 1, 0, Fault::FrameLength),
        (T::HEADERS, flags::END_HEADERS, 0, 1, Fault::WrongStreamZero),
        (T::HEADERS, flags::PRIORITY, 1, 4, Fault::FrameLength),
        (T::HEADERS, flags::PADDED, 1, 0, Fault::FrameLength),
        (T::PRIORITY, 0, 0, 5, Fault::WrongStreamZero),
        (T::RST_STREAM, 0, 0, 4, Fault::WrongStreamZero),
        (T::RST_STREAM, 0, 1, 3, Fault::FrameLength),
        (T::RST_STREAM, 0, 1, 5, Fault::FrameLength),
        (T::SETTINGS, 0, 1, 0, Fault::WrongStreamZero),
        (T::SETTINGS, 0, 0, 5, Fault::FrameLength),
        (T::SETTINGS, flags::ACK, 0, 6, Fault::FrameLength),
        (T::PUSH_PROMISE, 0, 0, 4, Fault::WrongStreamZero),
        (T::PUSH_PROMISE, 0, 1, 3, Fault::FrameLength),
        (T::PING, 0, 1, 8, Fault::WrongStreamZero),
        (T::PING, 0, 0, 7, Fault::FrameLength),
        (T::PING, flags::ACK, 0, 9, Fault::FrameLength),
        (T::GOAWAY, 0, 1, 8, Fault::WrongStreamZero),
        (T::GOAWAY, 0, 0, 7, Fault::FrameLength),
        (T::WINDOW_UPDATE, 0, 1, 5, Fault::FrameLength),
        (T::WINDOW_UPDATE, 0, 0, 4, Fault::ZeroIncrement),
        (T::CONTINUATION, 0, 1, 4, Fault::UnexpectedContinuation),
        (T::CONTINUATION, 0, 0, 4, Fault::UnexpectedContinuation),
        (T::PRIORITY_UPDATE, 0, 1, 5, Fault::WrongStreamZero),
        (T::PRIORITY_UPDATE, 0, 0, 3, Fault::FrameLength),
        (T::PRIORITY_UPDATE, 0, 0, 4, Fault::WrongStreamZero),
        (T::DATA, 0, 1, 16_385, Fault::FrameTooLong),
        (FrameType(0xee), 0, 1, 16_385, Fault::FrameTooLong),
    ] {
        let bytes = raw(kind, flags, stream, &vec![0; length]);
        assert_eq!(connection_fault(&bytes), fault, "{kind:?} {length}");
    }
}

#[test]
fn some_faults_end_only_their_stream() {
    let stream = StreamId::new(9);
    let mut bytes = raw(FrameType::PRIORITY, 0, 9, &[0; 4]);
    bytes.extend(raw(FrameType::WINDOW_UPDATE, 0, 9, &[0x80, 0, 0, 0]));
    bytes.extend(raw(FrameType::RST_STREAM, 0, 9, &[0]));
    assert_eq!(
        errors(&bytes),
        [
            StreamError::new(stream, Fault::FrameLength).into(),
            StreamError::new(stream, Fault::ZeroIncrement).into(),
            Fault::FrameLength.into(),
        ]
    );
}

#[test]
fn padding_is_removed_and_may_not_exceed_the_frame() {
    use FrameType as T;
    let padded = flags::PADDED | flags::END_HEADERS;
    for (kind, flags, payload, fits) in [
        (T::DATA, flags::PADDED, &[3, b'x', 0, 0, 0][..], true),
        (T::DATA, flags::PADDED, &[4, 0, 0, 0, 0], true),
        (T::DATA, flags::PADDED, &[5, 0, 0, 0, 0], false),
        (T::HEADERS, padded, &[1, b'x', 0], true),
        (T::HEADERS, padded, &[3, b'x', 0], false),
        (
            T::HEADERS,
            padded | flags::PRIORITY,
            &[1, 0, 0, 0, 3, 9],
            false,
        ),
        (T::PUSH_PROMISE, padded, &[1, 0, 0, 0, 2, 0], true),
        (T::PUSH_PROMISE, padded, &[2, 0, 0, 0, 2, 0], false),
    ] {
        let bytes = raw(kind, flags, 1, payload);
        let errors = errors(&bytes);
        match fits {
            true => assert_eq!(errors, [], "{kind:?} {payload:?}"),
            false => assert_eq!(errors, [Fault::Padding.into()], "{kind:?} {payload:?}"),
        }
    }
}

#[test]
fn header_blocks_must_not_be_interrupted_and_are_bounded() {
    use FrameType as T;
    let headers = raw(T::HEADERS, 0, 1, b"a");
    let join = |parts: &[Vec<u8>]| parts.concat();
    let continuation = |flags, stream, payload: &[u8]| raw(T::CONTINUATION, flags, stream, payload);
    for other in [
        raw(T::DATA, 0, 1, b""),
        raw(T::HEADERS, flags::END_HEADERS, 3, b""),
        raw(T::PRIORITY, 0, 1, &[0; 5]),
        raw(T::PING, 0, 0, &[0; 8]),
        raw(FrameType(0x42), 0, 0, b""),
        continuation(flags::END_HEADERS, 3, b"b"),
    ] {
        let bytes = join(&[headers.clone(), other]);
        assert_eq!(connection_fault(&bytes), Fault::BlockInterrupted);
    }
    let empty = continuation(0, 1, b"");
    let mut flood = vec![headers.clone()];
    flood.extend(std::iter::repeat_n(empty, 16));
    assert_eq!(errors(&join(&flood)), []);
    flood.push(continuation(flags::END_HEADERS, 1, b""));
    assert_eq!(connection_fault(&join(&flood)), Fault::BlockTooLong);
    let long = continuation(0, 1, &[0; 16_384]);
    let mut bomb = vec![headers];
    bomb.extend(std::iter::repeat_n(long, 4));
    assert_eq!(connection_fault(&join(&bomb)), Fault::BlockTooLong);
}

/// Generates frames of all types, some of them invalid.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let frame = (
        prop_oneof![4 => 0..=0x10_u8, 1 => any::<u8>()],
        prop_oneof![2 => Just(flags::END_HEADERS), 1 => any::<u8>()],
        0..4_u32,
        prop_oneof![
            4 => prop::collection::vec(any::<u8>(), 0..40),
            1 => prop::collection::vec(0..3_u8, 4..=5),
            1 => prop::collection::vec(any::<u8>(), 8..=8),
        ],
    );
    let frames = prop::collection::vec(frame, 0..12);
    frames.prop_map(|frames| {
        let frames = frames.iter();
        frames
            .flat_map(|(kind, flags, stream, payload)| {
                raw(FrameType(*kind), *flags, *stream, payload)
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn any_split_gives_the_same_frames(bytes in frames(), cuts in prop::collection::vec(1..20_usize, 1..20)) {
        let limits = Limits { frame: 30, block: 60, continuations: 3 };
        let whole = read_all(limits, std::iter::once(&bytes[..]));
        prop_assert_eq!(&whole, &read_all(limits, bytes.chunks(1)));
        let mut rest = &bytes[..];
        let mut cuts = cuts.iter().cycle();
        let pieces = std::iter::from_fn(move || {
            let cut = rest.len().min(*cuts.next()?);
            let (piece, after) = rest.split_at(cut);
            rest = after;
            (!piece.is_empty()).then_some(piece)
        });
        prop_assert_eq!(&whole, &read_all(limits, pieces));
    }
}

//! Requests that two recipients in series could frame differently. Each is refused with its own reason, and no
//! later request is answered.

use super::tests::Host;
use super::*;
use crate::h1::chunked::ChunkedError;
use crate::h1::syntax::SyntaxError;
use crate::origin::target::TargetError;

/// The request that an attacker tries to smuggle.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";

macro_rules! refused {
    ($($name:ident: $request:expr => $status:literal, $refusal:expr;)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name), $request, $status, $refusal);
            }
        )*

        /// Sends each request byte by byte.
        #[test]
        fn each_shape_is_refused_at_any_pace() {
            $(check_slowly(stringify!($name), $request, $refusal);)*
        }
    };
}

fn check(name: &str, request: &str, status: u16, refusal: Refusal) {
    let mut host = Host::new(ServerConfig::default());
    host.send(request.to_owned() + SMUGGLED);
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::Refused(refusal)),
        "{name}"
    );
    let output = host.output();
    assert!(output.starts_with(&format!("HTTP/1.1 {status} ")), "{name}");
    assert_eq!(output.matches("HTTP/1.1 ").count(), 1, "{name}");
    assert!(output.contains("Connection: close\r\n"), "{name}");
    assert_eq!(host.actions, [Action::ShutdownWrite], "{name}");
}

fn check_slowly(name: &str, request: &str, refusal: Refusal) {
    let mut host = Host::new(ServerConfig::default());
    for byte in (request.to_owned() + SMUGGLED).bytes() {
        host.send([byte]);
    }
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::Refused(refusal)),
        "{name}"
    );
    assert_eq!(host.output().matches("HTTP/1.1 ").count(), 1, "{name}");
}

const fn syntax(error: SyntaxError) -> Refusal {
    Refusal::Syntax(error)
}

const fn chunked(error: ChunkedError) -> Refusal {
    Refusal::Chunked(error)
}

refused! {
    length_and_coding:
        "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        => 400, Refusal::LengthAndCoding;
    coding_and_length:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"
        => 400, Refusal::LengthAndCoding;
    length_zero_and_coding:
        "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        => 400, Refusal::LengthAndCoding;
    two_lengths_that_differ:
        "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"
        => 400, syntax(SyntaxError::ConflictingContentLength);
    two_lengths_that_agree:
        "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello"
        => 400, syntax(SyntaxError::ConflictingContentLength);
    list_of_lengths:
        "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 5\r\n\r\nhello"
        => 400, syntax(SyntaxError::BadContentLength);
    signed_length:
        "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\nhello"
        => 400, syntax(SyntaxError::BadContentLength);
    hexadecimal_length:
        "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: 0x5\r\n\r\nhello"
        => 400, syntax(SyntaxError::BadContentLength);
    empty_length:
        "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: \r\n\r\nhello"
        => 400, syntax(SyntaxError::BadContentLength);
    overflowing_length:
        "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551621\r\n\r\nhello"
        => 400, syntax(SyntaxError::BadContentLength);
    coding_in_http_1_0:
        "POST /discard HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        => 400, Refusal::CodingInOldVersion;
    coding_other_than_chunked_last:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"
        => 400, syntax(SyntaxError::ChunkedNotLast);
    coding_without_chunked:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"
        => 400, Refusal::CodingWithoutEnd;
    coding_chunked_twice:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        => 400, syntax(SyntaxError::ChunkedNotLast);
    coding_spelled_with_a_vertical_tab:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"
        => 400, syntax(SyntaxError::ControlInValue);
    coding_spelled_xchunked:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"
        => 400, Refusal::CodingWithoutEnd;
    coding_quoted:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"
        => 400, syntax(SyntaxError::BadTransferEncoding);
    coding_that_is_not_implemented:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
        => 501, Refusal::UnknownCoding;
    folded_line:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"
        => 400, syntax(SyntaxError::FoldedLine);
    space_before_the_first_field:
        "GET /a HTTP/1.1\r\n Host: h\r\n\r\n"
        => 400, syntax(SyntaxError::FoldedLine);
    space_before_the_colon:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n"
        => 400, syntax(SyntaxError::SpaceBeforeColon);
    tab_before_the_colon:
        "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length\t: 5\r\n\r\nhello"
        => 400, syntax(SyntaxError::SpaceBeforeColon);
    bare_line_feed_after_the_request_line:
        "GET /a HTTP/1.1\nHost: h\r\n\r\n"
        => 400, syntax(SyntaxError::BareLineFeed);
    bare_line_feed_after_a_field:
        "GET /a HTTP/1.1\r\nHost: h\nContent-Length: 5\r\n\r\n"
        => 400, syntax(SyntaxError::BareLineFeed);
    bare_line_feed_as_the_empty_line:
        "GET /a HTTP/1.1\r\nHost: h\r\n\n"
        => 400, syntax(SyntaxError::BareLineFeed);
    bare_line_feed_before_the_request_line:
        "\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n"
        => 400, Refusal::BadRequestLine;
    bare_carriage_return_in_a_value:
        "GET /a HTTP/1.1\r\nHost: h\r\nA: b\rContent-Length: 5\r\n\r\n"
        => 400, syntax(SyntaxError::BareCarriageReturn);
    bare_carriage_return_at_the_end_of_a_value:
        "GET /a HTTP/1.1\r\nHost: h\r\nA: b\r\r\n\r\n"
        => 400, syntax(SyntaxError::BareCarriageReturn);
    bare_carriage_return_in_the_request_line:
        "GET /a\r HTTP/1.1\r\nHost: h\r\n\r\n"
        => 400, syntax(SyntaxError::BareCarriageReturn);
    bare_carriage_return_as_the_empty_line:
        "GET /a HTTP/1.1\r\nHost: h\r\n\rX: y\r\n\r\n"
        => 400, syntax(SyntaxError::BadFieldName);
    nul_in_a_value:
        "GET /a HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n\r\n"
        => 400, syntax(SyntaxError::ControlInValue);
    nul_in_a_name:
        "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length\0: 5\r\n\r\nhello"
        => 400, syntax(SyntaxError::BadFieldName);
    nul_in_the_target:
        "GET /a\0b HTTP/1.1\r\nHost: h\r\n\r\n"
        => 400, Refusal::BadTarget(TargetError::BadCharacter);
    field_without_a_colon:
        "POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length 5\r\n\r\nhello"
        => 400, syntax(SyntaxError::MissingColon);
    field_without_a_name:
        "GET /a HTTP/1.1\r\nHost: h\r\n: b\r\n\r\n"
        => 400, syntax(SyntaxError::BadFieldName);
    request_without_a_version:
        "GET /a\r\nHost: h\r\n\r\n"
        => 400, Refusal::BadRequestLine;
    space_within_the_target:
        "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n"
        => 400, Refusal::BadRequestLine;
    request_without_a_host:
        "GET /a HTTP/1.1\r\n\r\n"
        => 400, Refusal::MissingHost;
    two_hosts:
        "GET /a HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n"
        => 400, Refusal::RepeatedHost;
    two_hosts_in_http_1_0:
        "GET /a HTTP/1.0\r\nHost: h\r\nHost: i\r\n\r\n"
        => 400, Refusal::RepeatedHost;
    list_of_hosts:
        "GET /a HTTP/1.1\r\nHost: h, i\r\n\r\n"
        => 400, Refusal::BadHost;
    host_with_a_path:
        "GET /a HTTP/1.1\r\nHost: h/i\r\n\r\n"
        => 400, Refusal::BadHost;
    chunk_size_with_a_sign:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n"
        => 400, chunked(ChunkedError::BadSize);
    chunk_size_with_a_prefix:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"
        => 400, chunked(ChunkedError::BadSize);
    chunk_size_after_a_space:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n"
        => 400, chunked(ChunkedError::BadSize);
    chunk_size_before_a_space:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n"
        => 400, chunked(ChunkedError::BadExtension);
    chunk_size_that_overflows:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"
        => 400, chunked(ChunkedError::SizeTooLong);
    chunk_size_that_is_empty:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n"
        => 400, chunked(ChunkedError::BadSize);
    chunk_size_before_a_bare_line_feed:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n"
        => 400, chunked(ChunkedError::BadLineEnd);
    chunk_extension_with_a_bare_line_feed:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nxxxx\r\nhello\r\n0\r\n\r\n"
        => 400, chunked(ChunkedError::BadLineEnd);
    chunk_extension_that_hides_a_line_end_in_quotes:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\r\nhello\r\n0\r\n\r\n"
        => 400, chunked(ChunkedError::BadExtension);
    chunk_longer_than_its_size:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n"
        => 400, chunked(ChunkedError::DataTooLong);
    chunk_without_a_line_end:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\n"
        => 400, chunked(ChunkedError::DataTooLong);
    chunked_end_with_a_bare_line_feed:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n"
        => 400, chunked(ChunkedError::BadLineEnd);
    trailer_that_is_a_request:
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nGET / HTTP/1.1\r\n\r\n"
        => 400, chunked(ChunkedError::BadTrailer);
}

#[test]
fn a_length_in_a_trailer_changes_nothing() {
    let mut host = Host::new(ServerConfig::default());
    host.send(
        "POST /discard HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\nContent-Length: 500\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    let statuses: Vec<u16> = host.served.iter().map(|served| served.status).collect();
    assert_eq!(statuses, [204, 200]);
}

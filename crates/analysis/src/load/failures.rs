//! Failures in words.

use fathometer_model::Failure;

/// What it means to whoever looks for the cause.
pub(super) fn meaning(failure: Failure) -> &'static str {
    match failure {
        Failure::Refused => "nobody listens there, the backlog is full, or the network said no",
        Failure::Reset => "the server reset the connection",
        Failure::ClosedEarly => "the server closed the connection before answering",
        Failure::Truncated => "the connection ended inside a response",
        Failure::BadResponse => "the response broke HTTP's syntax or framing",
        Failure::StreamReset => {
            "the server reset the stream of the exchange and kept the connection"
        }
        Failure::GoneAway => "the server said that it goes away, and left the request alone",
        Failure::TlsFailed => "TLS could not be established with the server, or broke",
        Failure::TooLarge => "the response went past a limit of this client",
        Failure::TimedOut => "the time limit passed without a whole answer",
        Failure::LocalAbort => "this client gave up for reasons of its own",
        Failure::LocalLimit => "this system had no port, descriptor or memory left",
    }
}

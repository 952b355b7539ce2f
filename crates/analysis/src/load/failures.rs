//! Failures in words.

use fathometer_model::Failure;

/// The failure's name, as in every record.
pub(super) fn name(failure: Failure) -> &'static str {
    match failure {
        Failure::Refused => "refused",
        Failure::Reset => "reset",
        Failure::ClosedEarly => "closed-early",
        Failure::Truncated => "truncated",
        Failure::BadResponse => "bad-response",
        Failure::TooLarge => "too-large",
        Failure::TimedOut => "timed-out",
        Failure::LocalAbort => "local-abort",
        Failure::LocalLimit => "local-limit",
    }
}

/// What it means to whoever looks for the cause.
pub(super) fn meaning(failure: Failure) -> &'static str {
    match failure {
        Failure::Refused => "nobody listens there, the backlog is full, or the network said no",
        Failure::Reset => "the server reset the connection",
        Failure::ClosedEarly => "the server closed the connection before answering",
        Failure::Truncated => "the connection ended inside a response",
        Failure::BadResponse => "the response broke HTTP's syntax or framing",
        Failure::TooLarge => "the response went past a limit of this client",
        Failure::TimedOut => "the time limit passed without a whole answer",
        Failure::LocalAbort => "this client gave up for reasons of its own",
        Failure::LocalLimit => "this system had no port, descriptor or memory left",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_records() {
        for failure in [
            Failure::Refused,
            Failure::Reset,
            Failure::ClosedEarly,
            Failure::Truncated,
            Failure::BadResponse,
            Failure::TooLarge,
            Failure::TimedOut,
            Failure::LocalAbort,
            Failure::LocalLimit,
        ] {
            assert_eq!(serde_json::to_value(failure).unwrap(), name(failure));
        }
    }
}

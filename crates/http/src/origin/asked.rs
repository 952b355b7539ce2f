//! What a request asks for, kept for an answer that takes several turns.

use super::conditions::{Lines, Preconditions, Single};
use super::target::Target;
use super::{Method, Request};

/// What of a request decides its answer once it is known what is at its path, and whether a package is
/// wanted.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// The canonical path.
    pub path: Box<[u8]>,
    pub method: Method,
    if_match: Vec<Box<[u8]>>,
    if_none_match: Vec<Box<[u8]>>,
    accept_encoding: Vec<Box<[u8]>>,
    if_modified_since: Once,
    if_unmodified_since: Once,
    if_range: Once,
    range: Once,
}

/// The value of a field that may come once.
#[derive(Debug, Clone)]
enum Once {
    Absent,
    Value(Box<[u8]>),
    Repeated,
}

impl Asked {
    /// What a request for a canonical path asks for.
    pub fn of(path: &[u8], request: &Request<'_>) -> Asked {
        let of = &request.preconditions;
        let lines = |lines: &Lines<'_>| lines.iter().map(Box::from).collect();
        Asked {
            path: path.into(),
            method: request.method,
            if_match: lines(&of.if_match),
            if_none_match: lines(&of.if_none_match),
            accept_encoding: lines(&request.accept_encoding),
            if_modified_since: Once::of(of.if_modified_since),
            if_unmodified_since: Once::of(of.if_unmodified_since),
            if_range: Once::of(of.if_range),
            range: Once::of(request.range),
        }
    }

    /// The same as a request: one that asks for no package.
    pub fn request(&self) -> Request<'_> {
        Request {
            method: self.method,
            target: Target::Path(&self.path),
            preconditions: Preconditions {
                if_match: lines(&self.if_match),
                if_none_match: lines(&self.if_none_match),
                if_modified_since: self.if_modified_since.single(),
                if_unmodified_since: self.if_unmodified_since.single(),
                if_range: self.if_range.single(),
            },
            range: self.range.single(),
            accept: Lines::default(),
            accept_encoding: lines(&self.accept_encoding),
            package_have: Single::Absent,
        }
    }
}

impl Once {
    fn of(single: Single<'_>) -> Once {
        match single {
            Single::Absent => Once::Absent,
            Single::Value(value) => Once::Value(value.into()),
            Single::Repeated => Once::Repeated,
        }
    }

    fn single(&self) -> Single<'_> {
        match self {
            Once::Absent => Single::Absent,
            Once::Value(value) => Single::Value(value),
            Once::Repeated => Single::Repeated,
        }
    }
}

fn lines(values: &[Box<[u8]>]) -> Lines<'_> {
    let mut lines = Lines::default();
    for value in values {
        // There are no more than there were.
        let _ = lines.push(value);
    }
    lines
}

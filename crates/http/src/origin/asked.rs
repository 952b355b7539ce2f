//! An owned copy of a request, for an answer that takes several turns.

use super::conditions::{Lines, Preconditions, Single};
use super::target::Target;
use super::{Method, Request};

/// The parts of a request that determine its answer after the path look-up and the format choice.
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
    no_transform: bool,
}

/// The value of a field that must occur only once.
#[derive(Debug, Clone)]
enum Once {
    Absent,
    Value(Box<[u8]>),
    Repeated,
}

impl Asked {
    /// Copies a request for a canonical path.
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
            no_transform: request.no_transform,
        }
    }

    /// Returns the same request, but without the request for a package.
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
            // The dictionary is not needed after the format has been chosen.
            available_dictionary: Single::Absent,
            package_have: Single::Absent,
            no_transform: self.no_transform,
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
        // The list cannot be full, because the original list has the same number of lines.
        let _ = lines.push(value);
    }
    lines
}

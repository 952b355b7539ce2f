//! Decides the origin's answer to a request.

use std::sync::Arc;

use fathometer_model::Instant;

use super::conditions::{self, Single, Verdict};
use super::encoding::{self, Coding, Qualities};
use super::live::{Dynamic, Live};
use super::negotiation::dictionary;
use super::ranges::{self, Selection};
use super::store::Lookup;
use super::target::{self, Target};
use super::{
    Answer, Content, Described, Method, Origin, Pending, Place, Request, Selected, Source, Status,
    Subject,
};

pub(super) const ALLOW_FILE: &str = "GET, HEAD, OPTIONS";
pub(super) const ALLOW_DISCARD: &str = "OPTIONS, POST, PUT";
pub(super) const ALLOW_ANY: &str = "GET, HEAD, OPTIONS, POST, PUT";

impl Origin {
    /// Decides the answer at `now`. `scratch` is a buffer for path decoding; its previous content is ignored. If the
    /// answer is [undecided](Answer::is_undecided), continue with [`go_on`](Origin::go_on).
    pub fn decide(&self, request: &Request<'_>, now: Instant, scratch: &mut Vec<u8>) -> Answer {
        let mut answer = self.decide_content(request, now, scratch);
        answer.head_only = request.method == Method::Head;
        answer
    }

    /// Continues an undecided answer for one turn. Serve other responses before the next turn. Returns whether the
    /// answer is now decided.
    pub fn go_on(&self, answer: &mut Answer, now: Instant) -> bool {
        self.take_turn(answer, true, now)
    }

    /// Continues an answer until it is decided, without turns for other responses. Does not wait for content that
    /// another response is compressing.
    pub(crate) fn complete(&self, answer: &mut Answer, now: Instant) {
        while !self.take_turn(answer, false, now) {}
    }

    fn take_turn(&self, answer: &mut Answer, patient: bool, now: Instant) -> bool {
        let Content::Undecided(pending) = &mut answer.content else {
            return true;
        };
        let mut decided = match &mut **pending {
            Pending::Package(undecided) => match self.decide_on(undecided, now) {
                Some(decided) => decided,
                None => return false,
            },
            Pending::Compressing(compressing) => {
                match self.compress_on(compressing, patient, now) {
                    None => return false,
                    Some(decided) => Answer {
                        file: answer.file,
                        page: answer
                            .page
                            .filter(|_| matches!(decided.content, Content::Whole(_))),
                        negotiated: answer.negotiated,
                        varies: answer.varies,
                        dictionary: answer.dictionary,
                        location: answer.location.take(),
                        ..decided
                    },
                }
            }
        };
        decided.head_only = answer.head_only;
        *answer = decided;
        !answer.is_undecided()
    }

    fn decide_content(&self, request: &Request<'_>, now: Instant, scratch: &mut Vec<u8>) -> Answer {
        let path = match request.target {
            _ if request.method == Method::Unknown => {
                return Answer::refusal(Status::NOT_IMPLEMENTED);
            }
            Target::Asterisk => return Answer::empty(Status::OK, Some(self.allowed_anywhere())),
            Target::Authority(_) => return not_allowed(ALLOW_FILE),
            Target::Path(path) => path,
        };
        let path = match target::canonical(path, scratch) {
            Ok(Some(path)) => path,
            Ok(None) => return Answer::refusal(Status::NOT_FOUND),
            Err(_) => return Answer::refusal(Status::BAD_REQUEST),
        };
        if self.discard.as_deref() == Some(path) {
            return match request.method {
                Method::Post | Method::Put => Answer::empty(Status::NO_CONTENT, None),
                Method::Options => Answer::empty(Status::OK, Some(ALLOW_DISCARD)),
                _ => not_allowed(ALLOW_DISCARD),
            };
        }
        let is_read = matches!(request.method, Method::Get | Method::Head);
        if let Some(packager) = &self.packager
            && is_read
            && let Some(answer) = self.decide_package(packager, path, request, now)
        {
            return answer;
        }
        self.decide_plain(path, request, now)
    }

    /// The value of `Allow` with the methods that at least one resource of this origin supports.
    fn allowed_anywhere(&self) -> &'static str {
        match self.discard {
            Some(_) => ALLOW_ANY,
            None => ALLOW_FILE,
        }
    }

    /// Decides the answer when no package is requested.
    pub(super) fn decide_plain(&self, path: &[u8], request: &Request<'_>, now: Instant) -> Answer {
        let dynamic = self.dynamic_at(path);
        if let Some(dynamic) = dynamic.filter(|dynamic| dynamic.is_text()) {
            let live = Subject::Live(Live::of_text(dynamic));
            let negotiated = self
                .packager
                .as_ref()
                .is_some_and(|packager| packager.is_planned(path));
            return self.answer_subject(live, path, negotiated, request);
        }
        let (source, file) = match (self.index.file(path), &self.store) {
            (Some(file), _) => (Source::Indexed(file), Some(file)),
            (None, None) => return Answer::refusal(Status::NOT_FOUND),
            (None, Some(store)) => match store.find(path, now) {
                Lookup::Found(resource) => (Source::Stored(resource), None),
                Lookup::Folder => return moved(path),
                Lookup::Missing => return Answer::refusal(Status::NOT_FOUND),
                Lookup::Forbidden => return Answer::refusal(Status::FORBIDDEN),
                Lookup::Overloaded => return Answer::refusal(Status::SERVICE_UNAVAILABLE),
            },
        };
        let negotiated = self
            .packager
            .as_ref()
            .is_some_and(|packager| match &source {
                Source::Indexed(file) => packager.is_page(*file),
                Source::Stored(resource) => packager.may_be_page(path, resource),
            });
        let is_read = matches!(request.method, Method::Get | Method::Head);
        if dynamic.is_none() && is_read && self.negotiation.is_on() {
            let mut answer = self.negotiate(path, source, request, now);
            answer.negotiated = negotiated;
            answer.file = file;
            answer.dictionary = dictionary::announced(&self.negotiation.dictionaries, path);
            // An undecided answer will have the complete content, unless a range was requested.
            let is_whole = match &answer.content {
                Content::Whole(_) => true,
                content => {
                    matches!(content, Content::Undecided(_)) && request.range == Single::Absent
                }
            };
            if request.method == Method::Get && is_whole {
                answer.page = self.companions.find(path);
            }
            return answer;
        }
        let subject = match dynamic {
            None => {
                let qualities = Qualities::of(&request.accept_encoding);
                Subject::File(self.select(source, &qualities, |_| true))
            }
            Some(dynamic) => Subject::Live(Live::of_file(dynamic, self.plain(&source), self)),
        };
        let mut answer = self.answer_subject(subject, path, negotiated, request);
        answer.file = file;
        answer
    }

    /// Answers a request for the resource at a path.
    pub(super) fn answer_subject(
        &self,
        subject: Subject,
        path: &[u8],
        negotiated: bool,
        request: &Request<'_>,
    ) -> Answer {
        match request.method {
            Method::Get | Method::Head => {
                let mut answer = self.represent(subject, request);
                answer.negotiated = negotiated;
                let is_whole = matches!(answer.content, Content::Whole(_) | Content::Flowing(_));
                if request.method == Method::Get && is_whole {
                    answer.page = self.companions.find(path);
                }
                answer
            }
            Method::Options => Answer::empty(Status::OK, Some(ALLOW_FILE)),
            _ => not_allowed(ALLOW_FILE),
        }
    }

    /// The dynamic resource at a canonical path.
    pub(super) fn dynamic_at(&self, path: &[u8]) -> Option<&Arc<Dynamic>> {
        self.dynamic.iter().find(|dynamic| dynamic.is_at(path))
    }

    /// Answers a GET or HEAD for a representation.
    pub(super) fn represent(&self, subject: Subject, request: &Request<'_>) -> Answer {
        let of = self.describe(&subject);
        match conditions::evaluate(&request.preconditions, &of.validators) {
            Verdict::Proceed => {}
            Verdict::Failed => return Answer::refusal(Status::PRECONDITION_FAILED),
            Verdict::NotModified => {
                return Answer {
                    content: Content::NotModified(subject),
                    ..Answer::empty(Status::NOT_MODIFIED, None)
                };
            }
        }
        if subject.is_open() {
            return Answer {
                content: Content::Flowing(subject),
                ..Answer::empty(Status::OK, None)
            };
        }
        let whole = of.length;
        let selection = match request.range.value() {
            Some(field)
                if request.method == Method::Get
                    && conditions::range_applies(
                        request.preconditions.if_range,
                        &of.validators,
                    ) =>
            {
                ranges::select(field, whole)
            }
            _ => Selection::Whole,
        };
        let (content, length) = match selection {
            Selection::Whole => {
                return Answer {
                    content: Content::Whole(subject),
                    length: whole,
                    ..Answer::empty(Status::OK, None)
                };
            }
            Selection::Unsatisfiable => {
                return Answer {
                    content: Content::Unsatisfiable(subject),
                    ..Answer::refusal(Status::RANGE_NOT_SATISFIABLE)
                };
            }
            Selection::Part(range) => (Content::Part(subject, range), range.length()),
            Selection::Parts(ranges) => {
                let length = self.parts_length(&subject, ranges.as_slice());
                (Content::Parts(subject, ranges), length)
            }
        };
        Answer {
            content,
            length,
            ..Answer::empty(Status::PARTIAL_CONTENT, None)
        }
    }

    /// Selects a representation by content coding. Only codings for which `fits` returns true are considered.
    pub(super) fn select(
        &self,
        source: Source,
        qualities: &Qualities,
        fits: impl Fn(Coding) -> bool,
    ) -> Selected {
        Selected(match source {
            Source::Indexed(file) => {
                let coded = self
                    .index
                    .representations(file)
                    .filter_map(|(_, candidate)| Some((candidate.coding?, candidate.length)))
                    .filter(|(coding, _)| fits(*coding));
                let chosen = encoding::choose(qualities, coded);
                self.index
                    .representations(file)
                    .find(|(_, candidate)| candidate.coding == chosen)
                    .map(|(id, _)| Place::Indexed(id))
                    .expect("each file has a representation without a coding, and the chosen coding is listed")
            }
            Source::Stored(resource) => {
                let variants = resource.variants();
                let coded = variants
                    .iter()
                    .filter_map(|variant| Some((variant.coding()?, variant.length())))
                    .filter(|(coding, _)| fits(*coding));
                let chosen = encoding::choose(qualities, coded);
                let place = variants
                    .iter()
                    .position(|variant| variant.coding() == chosen)
                    .expect("each resource has a representation without a coding, and the chosen coding is listed");
                Place::Stored(resource, place as u8)
            }
        })
    }

    pub(super) fn describe<'a>(&'a self, subject: &'a Subject) -> Described<'a> {
        match subject {
            Subject::File(selected) => self.describe_selected(selected),
            Subject::Composed(composed) => composed.describe(),
            Subject::Live(live) => live.describe(),
        }
    }

    pub(super) fn describe_selected<'a>(&'a self, selected: &'a Selected) -> Described<'a> {
        match &selected.0 {
            Place::Indexed(id) => {
                let representation = self.index.representation(*id);
                Described {
                    validators: self.index.validators(*id),
                    coding: representation.coding,
                    length: representation.length,
                    content_type: self.index.content_type(*id),
                    is_coded: self
                        .index
                        .representations(representation.file)
                        .nth(1)
                        .is_some(),
                    by_have: false,
                }
            }
            Place::Stored(resource, variant) => {
                let chosen = &resource.variants()[*variant as usize];
                Described {
                    validators: resource.validators(*variant),
                    coding: chosen.coding(),
                    length: chosen.length(),
                    content_type: resource.content_type(),
                    is_coded: resource.variants().len() > 1,
                    by_have: false,
                }
            }
            Place::Coded(coded) => self.describe_coded(coded),
        }
    }
}

/// Redirects to the address of a folder, which ends in a slash. Without the slash, relative references in the index
/// page would be resolved in the parent folder.
fn moved(path: &[u8]) -> Answer {
    let location = target::encoded(path) + "/";
    Answer {
        location: Some(location.into()),
        ..Answer::refusal(Status::MOVED_PERMANENTLY)
    }
}

fn not_allowed(allow: &'static str) -> Answer {
    Answer {
        allow: Some(allow),
        ..Answer::refusal(Status::METHOD_NOT_ALLOWED)
    }
}

//! The effect of responses on the page.

use fathometer_model::{ContentCoding, Delivery, Failure, Instant, Outcome, WindowWait};

use super::base::BaseFile;
use super::cache::CacheEntry;
use super::item::{Ask, Exchange, Item, Job, KnownBy, Meaning};
use super::page::PageDriver;
use super::retrieval::BundleAnswer;
use crate::client::{self, Event, Head, Received, RequestId};
use crate::message::ContentRange;

/// 421 (Misdirected Request).
const MISDIRECTED: u16 = 421;

impl PageDriver {
    /// Passes bytes to a connection and handles its events.
    pub(super) fn pump(&mut self, place: usize, bytes: &[u8], now: Instant) {
        let mut input = bytes;
        while let Some(event) = self.links[place].machine.poll(&mut input, now) {
            self.handle_event(place, event, now);
        }
        let waits = self.links[place].machine.take_window_waits();
        self.note_window_waits(place, waits);
    }

    /// Records how long the server waited for flow-control windows of this client.
    pub(super) fn note_window_waits(&mut self, place: usize, waits: Vec<client::WindowWait>) {
        let link = &mut self.links[place];
        for wait in waits {
            let exchange = wait.request.and_then(|request| link.exchange(request));
            // A stream that the driver has given up belongs to no exchange.
            if wait.request.is_none() || exchange.is_some() {
                link.record.window_waits.push(WindowWait {
                    exchange: exchange.map(|exchange| exchange as u32),
                    from: wait.from,
                    granted: wait.granted,
                    to: wait.to,
                });
            }
        }
    }

    pub(super) fn handle_event(&mut self, place: usize, event: Event<'_>, now: Instant) {
        let exchange = |request: RequestId| self.links[place].exchange(request);
        match event {
            Event::Begin { request } => {
                if let Some(exchange) = exchange(request) {
                    self.begin(exchange, now);
                }
            }
            Event::Interim { request, .. } => {
                if let Some(exchange) = exchange(request) {
                    self.follow_preloads(place, self.exchanges[exchange].job.item, now);
                }
            }
            Event::Head { request } => {
                if let Some(exchange) = exchange(request) {
                    self.head(place, exchange, now);
                }
            }
            Event::Content { request, bytes } => {
                if let Some(exchange) = exchange(request) {
                    self.content(exchange, bytes, now);
                }
            }
            Event::End {
                request, received, ..
            } => {
                if let Some(exchange) = exchange(request) {
                    let link = &mut self.links[place];
                    link.record.exchanges += 1;
                    link.cautious = false;
                    self.account(exchange, received, Outcome::Complete);
                    self.exchanges[exchange].record.last_byte = Some(now);
                    self.end(exchange, now);
                }
            }
            Event::Failed {
                request,
                failure,
                received,
                ..
            } => {
                if let Some(exchange) = exchange(request) {
                    self.account(exchange, received, Outcome::Failed(failure));
                    self.broke_off(exchange, failure, now);
                }
            }
            Event::Unanswered {
                request,
                failure,
                sent,
                ..
            } => {
                if let Some(exchange) = exchange(request) {
                    let useful = self.links[place].record.exchanges > 0;
                    // If the alternative service failed, the origin itself can still be used.
                    let elsewhere = self.give_up_service(place, failure, now);
                    self.unanswered(exchange, failure, sent, useful, elsewhere, now);
                }
            }
            Event::Promised {
                request,
                parent,
                accepted,
            } => self.promised(place, request, parent, accepted, now),
            Event::Alternatives { request } => {
                self.note_service_frame(place, request.is_some(), now);
            }
            // The driver never uploads content. Settings change only the number of requests that the machine
            // accepts. The close is handled after all events.
            Event::SendContent { .. }
            | Event::Trailers { .. }
            | Event::Settings
            | Event::Pong { .. }
            | Event::GoAway { .. }
            | Event::Closed { .. } => {}
        }
    }

    fn begin(&mut self, exchange: usize, now: Instant) {
        let job = self.exchanges[exchange].job;
        self.exchanges[exchange].record.first_byte = Some(now);
        if job.ask != Ask::Rest {
            self.items[job.item].started = Some(now);
        }
        if self.is_base(job.item) && self.milestones.base_first_byte.is_none() {
            self.milestones.base_first_byte = Some(now);
            self.bytes.base_first_byte = Some(self.bytes.received);
        }
    }

    fn account(&mut self, exchange: usize, received: Received, outcome: Outcome) {
        let record = &mut self.exchanges[exchange].record;
        record.response_head = received.head;
        record.response_body = received.body;
        // Only protocols with field compression have a separate size of the fields.
        let compressed = record.request_fields.is_some() || record.pushed;
        record.response_fields = compressed.then_some(received.fields);
        record.outcome = outcome;
        if matches!(self.exchanges[exchange].job.ask, Ask::FirstPart { .. }) {
            self.first_parts -= 1;
        }
    }

    /// Determines the meaning of a response when its head is complete.
    fn head(&mut self, place: usize, exchange: usize, now: Instant) {
        let item = self.exchanges[exchange].job.item;
        self.follow_preloads(place, item, now);
        self.note_services(place, now);
        let status = self.links[place].machine.head().status();
        self.exchanges[exchange].record.status = Some(status);
        // RFC 7838 section 6: the service is not valid for this origin.
        if status == MISDIRECTED && self.links[place].service.is_some() {
            self.break_service(place, Failure::BadResponse, now);
            self.exchanges[exchange].meaning = Meaning::Unusable;
            return;
        }
        if let Ask::Bundle { conditional } = self.exchanges[exchange].job.ask {
            let meaning = self.bundle_head(place, exchange, conditional, now);
            if let Some(meaning) = meaning {
                self.exchanges[exchange].meaning = meaning;
                return;
            }
            self.exchanges[exchange].job.ask = Ask::Whole { conditional };
        }
        let is_base = self.is_base(item);
        let head = self.links[place].machine.head();
        let Exchange { job, meaning, .. } = &mut self.exchanges[exchange];
        let item = &mut self.items[job.item];
        let entry = self.cache.get_mut(&item.target);
        *meaning = match (job.ask, status) {
            (Ask::Whole { conditional } | Ask::FirstPart { conditional }, 304) => {
                match entry.filter(|_| conditional) {
                    Some(entry) => {
                        item.fresh.dimensions = entry.dimensions;
                        refresh(entry, head);
                        Meaning::Current
                    }
                    None => Meaning::Unusable,
                }
            }
            (Ask::Head, 200) => match entry {
                Some(entry) if is_current(entry, head) => {
                    item.fresh.dimensions = entry.dimensions;
                    Meaning::Current
                }
                _ => Meaning::Changed,
            },
            // The server does not support HEAD.
            (Ask::Head, 405 | 501) => Meaning::Changed,
            (Ask::Head, _) => Meaning::Nothing,
            (_, 206) if !is_base => part(item, job.ask, head),
            (Ask::FirstPart { .. } | Ask::Rest, 416) => match head.content_range() {
                // An empty file, or a file of unknown length that has been read completely.
                Some(ContentRange::Unsatisfied { complete }) if complete == item.received => {
                    Meaning::Had
                }
                _ => Meaning::Unusable,
            },
            (Ask::Rest, 304 | 412) => Meaning::Unusable,
            (_, 200 | 203) => {
                begin_copy(item, head);
                match is_base {
                    true => Meaning::Base,
                    false => Meaning::Whole,
                }
            }
            _ => Meaning::Nothing,
        };
        if *meaning == Meaning::Base {
            match coding(head) {
                Ok(coding) => {
                    item.fresh.coding = coding;
                    let scanned = is_html(head.content_type());
                    let target = &item.target;
                    let base = BaseFile::new(&self.options.host, target, coding, scanned);
                    self.base = Some(base);
                }
                Err(failure) => *meaning = Meaning::Broken(failure),
            }
        }
        if *meaning == Meaning::Current && !is_base {
            self.check_sizes(now);
        }
    }

    fn content(&mut self, exchange: usize, bytes: &[u8], now: Instant) {
        let Exchange { job, meaning, .. } = &mut self.exchanges[exchange];
        let item = &mut self.items[job.item];
        match meaning {
            Meaning::Base => {
                item.received += bytes.len() as u64;
                let mut found = Vec::new();
                if let Some(base) = &mut self.base
                    && let Err(failure) = base.push(bytes, &mut found)
                {
                    *meaning = Meaning::Broken(failure);
                }
                self.found(found, now);
            }
            Meaning::Whole | Meaning::Part => {
                let item = job.item;
                self.receive(item, bytes, now);
            }
            Meaning::Bundle => self.bundle_content(exchange, bytes, now),
            _ => {}
        }
    }

    /// Takes content of an embedded file.
    pub(super) fn receive(&mut self, item: usize, bytes: &[u8], now: Instant) {
        let item = &mut self.items[item];
        item.received += bytes.len() as u64;
        let known = item.fresh.dimensions.is_some();
        if !known && item.is_image() {
            item.fresh.dimensions = item.sizer.push(bytes);
            if item.fresh.dimensions.is_some() {
                self.check_sizes(now);
            }
        }
    }

    /// Handles the end of a response.
    fn end(&mut self, exchange: usize, now: Instant) {
        let job = self.exchanges[exchange].job;
        let meaning = self.exchanges[exchange].meaning;
        let by = match self.exchanges[exchange].record.pushed {
            true => Delivery::Pushed,
            false => Delivery::Singly,
        };
        let item = &mut self.items[job.item];
        match meaning {
            Meaning::Base => match self.base.take().map(BaseFile::finish) {
                Some(Ok(html)) => self.keep_base(html, by, now),
                Some(Err(failure)) => self.broken(exchange, failure, now),
                None => self.broken(exchange, Failure::BadResponse, now),
            },
            Meaning::Whole | Meaning::Had => self.keep(job.item, by, now),
            Meaning::Part => {
                let rest = Job {
                    item: job.item,
                    ask: Ask::Rest,
                };
                match (item.complete, job.ask) {
                    (Some(complete), _) if item.received >= complete => {
                        self.keep(job.item, by, now);
                    }
                    (None, Ask::Rest) => self.keep(job.item, by, now),
                    // A server may send fewer bytes than requested; the request for the remaining bytes counts as a
                    // retry.
                    (Some(_), Ask::Rest) => {
                        self.ask_again(rest, true, Failure::BadResponse, now);
                    }
                    _ => self.queue.push_back(rest),
                }
            }
            Meaning::Current => {
                if self.is_base(job.item) {
                    self.scan_cached_html(now);
                }
                self.resolve(job.item, Delivery::Current, now);
            }
            Meaning::Changed => self.queue.push_back(Job {
                item: job.item,
                ask: Ask::Whole { conditional: false },
            }),
            Meaning::Nothing => {
                self.cache.remove(&item.target);
                if self.is_base(job.item) {
                    self.milestones.base_complete.get_or_insert(now);
                }
                self.settle_item(job.item, now);
            }
            Meaning::Unusable | Meaning::Unknown => {
                let ask = match job.ask {
                    // The request was misdirected: request the bundle from the origin itself.
                    Ask::Bundle { .. } => job.ask,
                    _ => Ask::Whole { conditional: false },
                };
                let job = Job {
                    item: job.item,
                    ask,
                };
                self.ask_again(job, true, Failure::BadResponse, now);
            }
            Meaning::Broken(failure) => self.broken(exchange, failure, now),
            Meaning::Bundle => self.end_of_bundle(exchange, now),
            Meaning::BundleCurrent => self.bundle_is_current(now),
            Meaning::BrokenBundle(failure) => {
                self.exchanges[exchange].record.outcome = Outcome::Failed(failure);
            }
            Meaning::Passed => {}
        }
    }

    /// Handles a complete response whose content is unusable.
    fn broken(&mut self, exchange: usize, failure: Failure, now: Instant) {
        let exchange = &mut self.exchanges[exchange];
        exchange.record.outcome = Outcome::Failed(failure);
        let item = exchange.job.item;
        self.fail_item(item, failure, now);
    }

    /// Handles a response that was cut off. If the connection is the cause, the file is requested again.
    fn broke_off(&mut self, exchange: usize, failure: Failure, now: Instant) {
        let Exchange { job, meaning, .. } = self.exchanges[exchange];
        let connections_fault = [
            Failure::Truncated,
            Failure::Reset,
            Failure::StreamReset,
            Failure::GoneAway,
        ]
        .contains(&failure);
        self.counters.responses_lost += u32::from(connections_fault);
        match meaning {
            Meaning::Bundle => return self.break_bundle(failure, String::new(), now),
            Meaning::BundleCurrent => return self.bundle_is_current(now),
            // No file depends on this response any more.
            Meaning::BrokenBundle(_) | Meaning::Passed => return,
            _ => {}
        }
        if connections_fault {
            self.ask_again(job, true, failure, now);
        } else {
            self.fail_item(job.item, failure, now);
        }
    }

    /// Handles a request that will get no response. (Every request here is idempotent.)
    fn unanswered(
        &mut self,
        exchange: usize,
        failure: Failure,
        sent: bool,
        useful: bool,
        elsewhere: bool,
        now: Instant,
    ) {
        self.counters.responses_lost += u32::from(sent);
        let hopeless = match failure {
            _ if elsewhere => false,
            Failure::Refused | Failure::LocalLimit | Failure::LocalAbort => true,
            Failure::TimedOut => sent,
            // A server whose certificate is rejected will be rejected on a retry too.
            Failure::TlsFailed => !sent,
            _ => false,
        };
        let job = self.exchanges[exchange].job;
        let asked_again = if hopeless {
            self.fail_item(job.item, failure, now);
            false
        } else {
            self.ask_again(job, !useful && !elsewhere, failure, now)
        };
        let outcome = match asked_again {
            true => Outcome::Retried(failure),
            false => Outcome::Failed(failure),
        };
        self.account(exchange, Received::default(), outcome);
    }

    /// Queues a request again, before new requests. If the retries are used up, the request fails instead. `counts`:
    /// whether this attempt uses up a retry.
    fn ask_again(&mut self, job: Job, counts: bool, failure: Failure, now: Instant) -> bool {
        if !self.items[job.item].wanted {
            self.forget_push(job.item, now);
            return false;
        }
        let item = &mut self.items[job.item];
        item.retries += u16::from(counts);
        if item.retries > self.options.retries {
            self.fail_item(job.item, failure, now);
            return false;
        }
        self.counters.requests_retried += 1;
        self.again.push_back(job);
        true
    }

    /// Stores a complete copy of the base file in the cache.
    pub(super) fn keep_base(&mut self, html: Vec<u8>, by: Delivery, now: Instant) {
        let item = &mut self.items[0];
        let mut entry = std::mem::take(&mut item.fresh);
        entry.html = html;
        self.cache.insert(item.target.clone(), entry);
        self.resolve(0, by, now);
    }

    /// Stores a complete copy of an embedded file in the cache.
    pub(super) fn keep(&mut self, item: usize, by: Delivery, now: Instant) {
        let kept = &mut self.items[item];
        self.cache.insert(kept.target.clone(), kept.fresh.clone());
        self.resolve(item, by, now);
    }

    /// Handles a file that can now be used.
    pub(super) fn resolve(&mut self, item: usize, by: Delivery, now: Instant) {
        let resolved = &mut self.items[item];
        resolved.by = Some(by);
        resolved.started.get_or_insert(now);
        self.arrivals.push(item);
        if self.is_base(item) && self.milestones.base_complete.is_none() {
            self.milestones.base_complete = Some(now);
            self.bytes.base_complete = Some(self.bytes.received);
        }
        // Must precede `settle_item`: the files that this file names are needed too, so the page is not
        // complete yet.
        if self.items[item].wanted {
            self.discover(item, now);
        }
        self.settle_item(item, now);
    }

    pub(super) fn fail_item(&mut self, item: usize, failure: Failure, now: Instant) {
        if !self.items[item].wanted {
            return self.forget_push(item, now);
        }
        // Without the bundle, the files are requested one by one.
        let answer = BundleAnswer::Broken {
            failure,
            reason: String::new(),
        };
        if self.items[item].known_by == KnownBy::Folder {
            return self.end_bundling(answer, now);
        }
        let target = self.items[item].target.clone();
        self.failures.push((target, failure));
        self.settle_item(item, now);
        if self.is_base(item) {
            self.end_bundling(answer, now);
        }
    }

    /// Records the time at which the dimensions of all images are known.
    pub(super) fn check_sizes(&mut self, now: Instant) {
        if self.milestones.sizes_known.is_some() || self.milestones.base_complete.is_none() {
            return;
        }
        let unknown = self.items.iter().any(|item| {
            let waits = item.wanted && item.is_image() && item.resolved.is_none();
            waits && item.fresh.dimensions.is_none()
        });
        if !unknown {
            self.milestones.sizes_known = Some(now);
        }
    }
}

/// Whether the copy in the cache is the file described by the response to a HEAD request.
fn is_current(entry: &CacheEntry, head: Head<'_>) -> bool {
    match (entry.etag.as_deref(), head.etag()) {
        (Some(ours), Some(theirs)) => ours == theirs,
        _ => {
            entry.last_modified.is_some() && entry.last_modified.as_deref() == head.last_modified()
        }
    }
}

/// Updates the validators of a cache entry with the validators of a 304 (Not Modified) response.
fn refresh(entry: &mut CacheEntry, head: Head<'_>) {
    if let Some(etag) = head.etag() {
        entry.etag = Some(etag.to_owned());
    }
    if let Some(date) = head.last_modified() {
        entry.last_modified = Some(date.to_owned());
    }
    if let Some(date) = head.text("date") {
        entry.date = Some(date.to_owned());
    }
}

/// Resets the received part of a file: the first byte of a copy follows.
fn begin_copy(item: &mut Item, head: Head<'_>) {
    item.begin_copy(CacheEntry {
        etag: head.etag().map(str::to_owned),
        last_modified: head.last_modified().map(str::to_owned),
        date: head.text("date").map(str::to_owned),
        status: 200,
        coding: coding(head).unwrap_or(None),
        html: Vec::new(),
        dimensions: None,
    });
}

/// Determines the meaning of a partial response: the requested part of the current copy, or an unusable response.
fn part(item: &mut Item, ask: Ask, head: Head<'_>) -> Meaning {
    let Some(ContentRange::Part {
        first, complete, ..
    }) = head.content_range()
    else {
        return Meaning::Unusable;
    };
    let fresh = &item.fresh;
    let other_copy = match (head.etag(), head.last_modified(), &fresh.last_modified) {
        (Some(etag), ..) => fresh.etag.as_deref() != Some(etag),
        (None, Some(theirs), Some(ours)) => theirs != ours,
        _ => false,
    };
    match ask {
        Ask::FirstPart { .. } if first == 0 => begin_copy(item, head),
        Ask::Rest if first == item.received && !other_copy => {}
        _ => return Meaning::Unusable,
    }
    item.complete = complete.or(item.complete);
    Meaning::Part
}

fn coding(head: Head<'_>) -> Result<Option<ContentCoding>, Failure> {
    let Some(coding) = head.content_encoding() else {
        return Ok(None);
    };
    match coding.to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(None),
        "deflate" => Ok(Some(ContentCoding::Deflate)),
        "gzip" | "x-gzip" => Ok(Some(ContentCoding::Gzip)),
        _ => Err(Failure::BadResponse),
    }
}

/// Whether the content is HTML: the media type is HTML or missing.
pub(super) fn is_html(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else {
        return true;
    };
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    ["text/html", "application/xhtml+xml"]
        .iter()
        .any(|html| essence.eq_ignore_ascii_case(html))
}

//! Assigning requests to connections, and flushing them.

use std::collections::HashSet;

use fathometer_model::{Bytes, Failure, Instant};

use super::bundle::Bundle;
use super::cache::CacheEntry;
use super::item::{Ask, Exchange, Item, Job, KnownBy, Meaning, new_record};
use super::kind::{FileKind, Urgency};
use super::options::{Options, Revalidation, Visit};
use super::page::PageDriver;
use crate::client::{Queued, RequestLine};
use crate::exchange::Version;
use fathometer_package as package;
use fathometer_package::have;

/// The maximum number of files listed in `Package-Have`: 512 keys take 5.5 KB, and servers accept heads of at least 8
/// KB.
const MOST_KEYS: usize = 512;

/// The cause of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Explicit,
    Full,
    Timer,
    End,
}

impl PageDriver {
    /// Chooses the kind of the first request for a file.
    pub(super) fn first_ask(&self, item: usize) -> Ask {
        if let Some(bundle) = self.policy.bundle
            && item == 0
            && (self.is_base(item) || self.items[item].known_by == KnownBy::Folder)
        {
            let conditional = self.bundle_condition(bundle).is_some();
            return Ask::Bundle { conditional };
        }
        let item = &self.items[item];
        let entry = match self.visit {
            Visit::First => None,
            Visit::Revalidate | Visit::Session => self.cache.get(&item.target),
        };
        let is_base = item.kind == FileKind::Document;
        let conditional = match (self.options.revalidation, entry) {
            (_, None) => false,
            (Revalidation::Head, Some(_)) if is_base => false,
            (Revalidation::Head, Some(_)) => return Ask::Head,
            // Without cached HTML, a 304 would give no references.
            (_, Some(entry)) if is_base && entry.html.is_empty() => false,
            (revalidation, Some(entry)) => {
                condition(revalidation, &entry.etag, &entry.last_modified).is_some()
            }
        };
        match self.policy.ranges && item.is_image() {
            true => Ask::FirstPart { conditional },
            false => Ask::Whole { conditional },
        }
    }

    /// Passes waiting requests to connections that accept them: the most urgent first, and requests of equal urgency in
    /// the order in which they were queued.
    pub(super) fn dispatch(&mut self, now: Instant) {
        while let Some(job) = self.again.pop_back() {
            self.queue.push_front(job);
        }
        let mut busy = vec![false; usize::from(self.policy.hosts)];
        while let Some(place) = self.next_job(&busy) {
            let host = self.items[self.queue[place].item].host;
            match self.choose_link(host, now) {
                None => busy[usize::from(host)] = true,
                Some(link) => {
                    if let Some(job) = self.queue.remove(place) {
                        self.ask(link, job, now);
                    }
                }
            }
        }
    }

    /// Returns the position in the queue of the next request to a host that is not busy.
    fn next_job(&self, busy: &[bool]) -> Option<usize> {
        let jobs = self.queue.iter().enumerate();
        let possible = jobs.filter(|(_, job)| !busy[usize::from(self.items[job.item].host)]);
        let first = possible.min_by_key(|(place, job)| {
            let kind = self.items[job.item].kind;
            (self.options.priorities.of(kind).level, *place)
        });
        first.map(|(place, _)| place)
    }

    /// Chooses the connection to a host for the next request: an idle connection, else a new connection, else
    /// (pipelining, multiplexing) the connection with the fewest requests. `None` if no connection can take a request.
    fn choose_link(&mut self, host: u16, now: Instant) -> Option<usize> {
        if self.policy.alt_svc {
            return self.choose_by_service(host, now);
        }
        let to_host = || {
            let links = self.links.iter().enumerate();
            links.filter(|(_, link)| link.host == host)
        };
        let candidates = to_host().filter(|(_, link)| {
            let waits = link.cautious && !link.multiplexes() && link.machine.outstanding() > 0;
            link.is_live() && link.machine.can_request() && !waits
        });
        let best = candidates
            .map(|(place, link)| (link.machine.outstanding(), place))
            .min();
        if let Some((0, idle)) = best {
            return Some(idle);
        }
        let used = to_host().filter(|(_, link)| link.takes_a_place()).count();
        if used < usize::from(self.policy.connections.max(1)) {
            return Some(self.open_link(host, now));
        }
        best.map(|(_, place)| place)
    }

    /// Writes a request into a connection's buffer.
    fn ask(&mut self, place: usize, job: Job, now: Instant) {
        let item = &self.items[job.item];
        let method = match job.ask {
            Ask::Head => "HEAD",
            _ => "GET",
        };
        let line = RequestLine {
            method,
            target: &item.target,
            host: &self.host_names[usize::from(item.host)],
            version: self.policy.protocol.http1().unwrap_or(Version::Http11),
        };
        let asks_bundle = matches!(job.ask, Ask::Bundle { .. });
        let stands_alone = asks_bundle || self.is_base(job.item);
        let bundle = self.policy.bundle.filter(|_| asks_bundle);
        let bundle_fields = bundle.map(|bundle| self.bundle_fields(item, bundle));
        let link = &mut self.links[place];
        let entry = self.cache.get(&item.target);
        let fields = match (job.ask, bundle_fields) {
            (Ask::Bundle { .. }, Some(fields)) => fields,
            _ => fields_of(item, job.ask, &self.options, entry),
        };
        let Ok(queued) = link.machine.ask(line, fields) else {
            // The options make the request invalid.
            self.fail_item(job.item, Failure::LocalAbort, now);
            return;
        };
        let exchange = self.exchanges.len();
        let mut record = new_record(exchange, place, method, item);
        if let Some(Queued { head, fields, .. }) = queued {
            record.request_head = head;
            record.request_fields = link.multiplexes().then_some(fields);
        }
        record.named_by = item.named_by.map(|by| self.items[by].target.clone());
        self.exchanges.push(Exchange {
            record,
            job,
            meaning: Meaning::Unknown,
        });
        link.exchanges.push(exchange);
        link.holds_primary |= job.ask != Ask::Rest;
        link.holds_base |= stands_alone;
        if matches!(job.ask, Ask::FirstPart { .. }) {
            self.first_parts += 1;
        }
    }

    /// Releases the requests that are due according to [`super::Flush`].
    pub(super) fn flush(&mut self, now: Instant) {
        for place in 0..self.links.len() {
            if self.links[place].is_live() {
                self.flush_link(place, now);
            }
        }
    }

    fn flush_link(&mut self, place: usize, now: Instant) {
        let flush = self.options.flush;
        let link = &self.links[place];
        if link.machine.held() == Bytes(0) {
            return;
        }
        // Without pipelining, requests are not held back for a joint write.
        if self.policy.pipeline.is_none() {
            return self.release_all(place, Cause::Explicit, now);
        }
        let buffer = flush.buffer.max(Bytes(1));
        while self.links[place].machine.held() >= buffer {
            self.release(place, buffer, Cause::Full, now);
        }
        let link = &self.links[place];
        if link.machine.held() == Bytes(0) {
            return;
        }
        let is_full = !link.machine.can_request() || link.cautious;
        if link.holds_base && flush.at_the_end() {
            let cause = match flush.explicit {
                true => Cause::Explicit,
                false => Cause::End,
            };
            self.release_all(place, cause, now);
        } else if is_full {
            self.release_all(place, Cause::Full, now);
        } else if flush.at_the_end()
            && self.base_done
            && (link.holds_primary || self.first_parts == 0)
        {
            self.release_all(place, Cause::End, now);
        } else if let Some(timer) = flush.timer {
            self.links[place].flush_by.get_or_insert(now + timer);
        }
    }

    /// Releases the bytes whose flush timer has expired.
    pub(super) fn flush_by_timer(&mut self, place: usize, now: Instant) {
        let link = &self.links[place];
        if link.is_live() && link.flush_by.is_some_and(|by| by <= now) {
            self.release_all(place, Cause::Timer, now);
        }
    }

    fn release_all(&mut self, place: usize, cause: Cause, now: Instant) {
        let held = self.links[place].machine.held();
        self.release(place, held, cause, now);
    }

    fn release(&mut self, place: usize, bytes: Bytes, cause: Cause, now: Instant) {
        let link = &mut self.links[place];
        let released = link.machine.release(bytes);
        if !link.multiplexes() {
            link.flushes.push_back(released.0 as usize);
        }
        if link.machine.held() == Bytes(0) {
            link.flush_by = None;
            link.holds_primary = false;
            link.holds_base = false;
        }
        let counters = &mut self.counters;
        *match cause {
            Cause::Explicit => &mut counters.flushes_explicit,
            Cause::Full => &mut counters.flushes_full,
            Cause::Timer => &mut counters.flushes_timer,
            Cause::End => &mut counters.flushes_end,
        } += 1;
        if counters.flushes() == 2 {
            self.milestones.second_batch_sent.get_or_insert(now);
        }
    }
}

/// Requests for a bundle.
impl PageDriver {
    /// Returns the conditional field (name and value) of a request for a bundle. A server without bundles answers with
    /// the page, so the page's tag is included.
    fn bundle_condition(&self, bundle: Bundle) -> Option<(&'static str, String)> {
        let revalidation = self.options.revalidation;
        if self.visit == Visit::First || revalidation == Revalidation::Head {
            return None;
        }
        let target = &self.items[0].target;
        let page = self.cache.get(target).filter(|_| self.is_base(0));
        let page = page.filter(|page| !page.html.is_empty());
        let known = self.cache.bundle(target).filter(|entry| {
            // Without cached HTML, a 304 would give no references.
            let of_use = page.is_some() || !self.is_base(0);
            entry.bundle == bundle && of_use
        });
        let known =
            known.and_then(|entry| condition(revalidation, &entry.etag, &entry.last_modified));
        let page = page.and_then(|page| condition(revalidation, &page.etag, &None));
        match (known, page) {
            (Some((field @ "If-None-Match", tag)), Some((_, of_page))) => {
                Some((field, format!("{tag}, {of_page}")))
            }
            (known, page) => known.or(page).map(|(field, tag)| (field, tag.to_owned())),
        }
    }

    /// Returns the fields of a request for all files at once.
    fn bundle_fields(&self, item: &Item, bundle: Bundle) -> Vec<(String, String)> {
        let options = &self.options;
        let is_accept = |name: &str| name.eq_ignore_ascii_case("accept");
        let others = options.headers.iter();
        let otherwise = others.clone().find(|(name, _)| is_accept(name));
        let accept = bundle.accept(otherwise.map(|(_, value)| value.as_str()));
        let mut fields = vec![("Accept".to_owned(), accept)];
        fields.extend(others.filter(|(name, _)| !is_accept(name)).cloned());
        let mut field = |name: &str, value: String| fields.push((name.to_owned(), value));
        // The codings apply to the files in a package. Files in an archive have no coding.
        if !options.accept_encoding.is_empty() && bundle.is_package() {
            field("Accept-Encoding", codings(options));
        }
        let urgency = options.priorities.of(item.kind);
        if urgency != Urgency::DEFAULT {
            field("Priority", urgency.to_string());
        }
        if let Some((name, value)) = self.bundle_condition(bundle) {
            field(name, value);
        }
        if bundle == Bundle::PackageDelta && self.visit != Visit::First {
            let keys = self.cached_keys();
            if !keys.is_empty() {
                field(package::HAVE_FIELD, keys.to_string());
            }
        }
        fields
    }

    /// Returns the keys of cached files: for a list, of the files in the list; for a page, of all files in the cache.
    fn cached_keys(&self) -> have::Keys {
        let page = &self.items[0].target;
        let last = self.cache.bundle(page);
        let called = last.and_then(|last| last.page.as_deref());
        let key = |target: &str, entry: &CacheEntry| {
            let target = called.filter(|_| target == page).unwrap_or(target);
            let name = target.strip_prefix('/')?;
            Some(have::key(name, entry.etag.as_deref()?))
        };
        // The files of a page are known from its last package and are listed first.
        let listed = self.options.list.as_ref().map(|list| &list.files);
        let first = listed
            .or(last.map(|last| &last.members))
            .into_iter()
            .flatten();
        let first = first.filter_map(|target| Some((target.as_str(), self.cache.get(target)?)));
        let all = self.cache.iter().filter(|_| listed.is_none());
        let mut seen = HashSet::new();
        first
            .chain(all)
            .filter(|(target, _)| seen.insert(*target))
            .filter_map(|(target, entry)| key(target, entry))
            .take(MOST_KEYS)
            .collect()
    }
}

fn codings(options: &Options) -> String {
    let codings: Vec<&str> = options.accept_encoding.iter().map(|c| c.token()).collect();
    codings.join(", ")
}

/// Returns the conditional field (name and value) that validates a copy with these validators.
fn condition<'e>(
    revalidation: Revalidation,
    etag: &'e Option<String>,
    last_modified: &'e Option<String>,
) -> Option<(&'static str, &'e str)> {
    let tag = etag.as_deref();
    let tag = tag.filter(|_| revalidation != Revalidation::Date);
    let date = last_modified.as_deref();
    tag.map(|tag| ("If-None-Match", tag))
        .or(date.map(|date| ("If-Modified-Since", date)))
}

/// Returns the fields of a request after the request line and `Host`.
fn fields_of(
    item: &Item,
    ask: Ask,
    options: &Options,
    entry: Option<&CacheEntry>,
) -> Vec<(String, String)> {
    let mut fields = options.headers.clone();
    let mut field = |name: &str, value: String| fields.push((name.to_owned(), value));
    let urgency = options.priorities.of(item.kind);
    if !options.accept_encoding.is_empty() && !item.is_image() {
        field("Accept-Encoding", codings(options));
    }
    if urgency != Urgency::DEFAULT {
        field("Priority", urgency.to_string());
    }
    let conditional = match ask {
        Ask::Whole { conditional } | Ask::FirstPart { conditional } => conditional,
        Ask::Rest | Ask::Head | Ask::Bundle { .. } => false,
    };
    let entry = entry.filter(|_| conditional);
    let condition =
        entry.and_then(|entry| condition(options.revalidation, &entry.etag, &entry.last_modified));
    if let Some((name, value)) = condition {
        field(name, value.to_owned());
    }
    match ask {
        Ask::FirstPart { .. } => {
            let last = options.first_range.0.max(1) - 1;
            field("Range", format!("bytes=0-{last}"));
            let strong = entry.and_then(CacheEntry::strong_validator);
            if let Some(strong) = strong.filter(|_| options.if_range_on_revisit) {
                field("If-Range", strong.to_owned());
            }
        }
        Ask::Rest => {
            field("Range", format!("bytes={}-", item.received));
            if let Some(strong) = item.fresh.strong_validator() {
                field("If-Range", strong.to_owned());
            }
        }
        Ask::Whole { .. } | Ask::Head | Ask::Bundle { .. } => {}
    }
    fields
}

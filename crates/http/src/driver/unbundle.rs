//! A page's files in one response: a package or an archive; each file is used when it has arrived.
//!
//! While a bundle is in flight, files that it may contain are not requested. When the bundle has ended, successfully or
//! not, the needed files that it did not contain are requested one by one. Files that arrive before another file names
//! them are treated like pushes: they are used when they are named.
//!
//! The remaining bytes of a broken bundle are useless. With multiplexing, the stream of the bundle is reset. Otherwise
//! the connection is aborted if reading these bytes would take longer than opening another connection.

use fathometer_model::{Delivery, Failure, Instant, Outcome};

use super::answer::is_html;
use super::base::BaseFile;
use super::bundle::{Bundle, kind_by_name};
use super::bundling::{Arriving, Bundling};
use super::cache::{BundleEntry, CacheEntry};
use super::item::{Ask, Job, KnownBy, Meaning};
use super::kind::FileKind;
use super::options::Visit;
use super::page::PageDriver;
use super::reader::{Member, Piece, Reader, WholeArchive};
use super::retrieval::BundleAnswer;
use crate::client::RequestId;

/// The initial congestion window (RFC 6928): bytes that a new connection delivers in its first round trip.
const FIRST_WINDOW: f64 = 14_600.0;

impl PageDriver {
    /// Determines the meaning of the head of a response to a request for a bundle. `None`: the response is the page
    /// itself or an error, and is handled like a response to a request for the page.
    pub(super) fn bundle_head(
        &mut self,
        place: usize,
        exchange: usize,
        conditional: bool,
        now: Instant,
    ) -> Option<Meaning> {
        let bundle = self.policy.bundle?;
        let begun = self.exchanges[exchange].record.first_byte.unwrap_or(now);
        let head = self.links[place].machine.head();
        let is_page = self.is_base(0);
        let target = &self.items[0].target;
        match head.status() {
            304 if conditional => {
                // The tag shows which of the two validated copies is current: the bundle or the page.
                let etag = head.etag();
                let page = self.cache.get(target).filter(|_| is_page);
                let is_the_page = page.is_some_and(|page| page.etag.as_deref() == etag);
                let known = self.cache.bundle(target);
                let known = known.filter(|known| known.bundle == bundle);
                if known.is_some_and(|known| {
                    known.etag.as_deref() == etag || etag.is_none() || !is_the_page
                }) {
                    return Some(Meaning::BundleCurrent);
                }
            }
            200 | 203 if bundle.matches_content_type(head.content_type()) => {
                let coding = head.content_encoding().unwrap_or("identity");
                if !coding.eq_ignore_ascii_case("identity") {
                    let reason = format!("the whole bundle has content coding {coding}");
                    let arriving = Arriving::new(bundle, head, begun);
                    self.break_bundle(Failure::BadResponse, reason, now);
                    self.give_up_rest(exchange, &arriving, now);
                    return Some(Meaning::BrokenBundle(Failure::BadResponse));
                }
                let arriving = Arriving::new(bundle, head, begun);
                self.bundling = Bundling::Arriving(Box::new(arriving));
                return Some(Meaning::Bundle);
            }
            // The request for the page is repeated without the bundle's media type.
            406 | 415 if is_page => {
                self.exchanges[exchange].job.ask = Ask::Whole { conditional: false };
                self.end_bundling(BundleAnswer::Refused, now);
                return Some(Meaning::Changed);
            }
            _ => {}
        }
        self.end_bundling(BundleAnswer::Refused, now);
        (!is_page).then_some(Meaning::Passed)
    }

    /// Reads the next bytes of a bundle.
    pub(super) fn bundle_content(&mut self, exchange: usize, bytes: &[u8], now: Instant) {
        let Some(mut arriving) = self.take_arriving() else {
            return;
        };
        arriving.received += bytes.len() as u64;
        match self.read(&mut arriving, bytes, now, now) {
            Ok(()) => self.bundling = Bundling::Arriving(arriving),
            Err(reason) => {
                let failure = Failure::BadResponse;
                self.exchanges[exchange].meaning = Meaning::BrokenBundle(failure);
                self.break_bundle(failure, reason, now);
                self.give_up_rest(exchange, &arriving, now);
            }
        }
    }

    /// Cancels the remaining bytes of a broken bundle if that is faster than reading them.
    fn give_up_rest(&mut self, exchange: usize, arriving: &Arriving, now: Instant) {
        let place = self.exchanges[exchange].record.connection as usize;
        let link = &mut self.links[place];
        let asked = link.exchanges.iter();
        let Some(request) = asked.rev().position(|&other| other == exchange) else {
            return;
        };
        let request = RequestId((link.exchanges.len() - 1 - request) as u32);
        let is_cheaper = match arriving.length {
            _ if link.multiplexes() => true,
            None => true,
            Some(length) => {
                // Compares two times: for the remaining bytes at the rate so far, and for another connection (its
                // handshakes, and the same time again for slow start). Before content has arrived, the rate is one
                // initial window per handshake time.
                let left = length.saturating_sub(arriving.received) as f64;
                let established = link.record.established.unwrap_or(link.record.opened);
                let handshake = established.since(link.record.opened).as_secs_f64();
                let taken = now.since(arriving.begun).as_secs_f64();
                let rest = match arriving.received {
                    received if received > 0 && taken > 0.0 => taken * left / received as f64,
                    _ => handshake * left / FIRST_WINDOW,
                };
                rest > 2.0 * handshake
            }
        };
        if is_cheaper {
            link.gives_up = true;
            link.machine.cancel(request, Failure::BadResponse, now);
        }
    }

    /// Handles the end of the response with the bundle.
    pub(super) fn end_of_bundle(&mut self, exchange: usize, now: Instant) {
        let Some(arriving) = self.take_arriving() else {
            return;
        };
        let mut arriving = *arriving;
        let reader = std::mem::replace(&mut arriving.reader, Reader::new(Bundle::Tar));
        let begun = arriving.begun;
        let read = reader.finish().and_then(|whole| match whole {
            None => Ok(()),
            Some(WholeArchive::Tar(bytes)) => {
                self.read(&mut arriving, &bytes, begun, now)?;
                let reader = std::mem::replace(&mut arriving.reader, Reader::new(Bundle::Tar));
                reader.finish().map(|_| ())
            }
            Some(WholeArchive::Zip(files)) => {
                for file in files {
                    let name = file.name;
                    let member = Member {
                        name,
                        ..Member::default()
                    };
                    self.begin_member(&mut arriving, member, begun, now);
                    self.member_content(&mut arriving, &file.content, now);
                    self.end_member(&mut arriving, now);
                }
                Ok(())
            }
        });
        if let Err(reason) = read {
            let failure = Failure::BadResponse;
            self.exchanges[exchange].record.outcome = Outcome::Failed(failure);
            return self.break_bundle(failure, reason, now);
        }
        let Arriving {
            bundle,
            etag,
            last_modified,
            page,
            members,
            files,
            ..
        } = arriving;
        let entry = BundleEntry {
            bundle,
            // A delta package has only some of the files, so it cannot be validated as a copy.
            etag: etag.filter(|_| bundle != Bundle::PackageDelta),
            last_modified: last_modified.filter(|_| bundle != Bundle::PackageDelta),
            page,
            members,
        };
        self.cache
            .insert_bundle(self.items[0].target.clone(), entry);
        self.end_bundling(BundleAnswer::Whole { files }, now);
    }

    /// Handles a response which states that all files of an earlier bundle are current.
    pub(super) fn bundle_is_current(&mut self, now: Instant) {
        let known = self.cache.bundle(&self.items[0].target);
        let members = known.map_or_else(Vec::new, |known| known.members.clone());
        for target in members {
            if let Some(place) = self.place_of(target, None) {
                self.has_copy(place, now);
            }
        }
        self.end_bundling(BundleAnswer::Current, now);
    }

    /// Handles a bundle that was cut off or is malformed: its complete files are used.
    pub(super) fn break_bundle(&mut self, failure: Failure, reason: String, now: Instant) {
        self.base = None;
        self.end_bundling(BundleAnswer::Broken { failure, reason }, now);
    }

    /// Ends the wait for a bundle: requests the missing files one by one.
    pub(super) fn end_bundling(&mut self, answer: BundleAnswer, now: Instant) {
        if !self.bundling.is_open() {
            return;
        }
        self.bundling = Bundling::Over;
        // A response without a bundle is a response for the page.
        let is_answered = answer == BundleAnswer::Refused;
        self.bundle_answer = Some(answer);
        if self.items[0].known_by == KnownBy::Folder {
            self.settle_item(0, now);
        } else if self.items[0].resolved.is_none() && !is_answered {
            self.counters.bundle_missed += 1;
            let ask = Ask::Whole { conditional: false };
            self.queue.push_back(Job { item: 0, ask });
        }
        for item in std::mem::take(&mut self.withheld) {
            if self.items[item].resolved.is_none() {
                self.counters.bundle_missed += u32::from(!is_answered);
                let ask = self.first_ask(item);
                self.queue.push_back(Job { item, ask });
            }
        }
    }

    fn take_arriving(&mut self) -> Option<Box<Arriving>> {
        match std::mem::replace(&mut self.bundling, Bundling::Awaited) {
            Bundling::Arriving(arriving) => Some(arriving),
            other => {
                self.bundling = other;
                None
            }
        }
    }

    /// Splits bytes of a bundle into files; `begun` is the start time of files that begin in these bytes.
    fn read(
        &mut self,
        arriving: &mut Arriving,
        bytes: &[u8],
        begun: Instant,
        now: Instant,
    ) -> Result<(), String> {
        let mut input = bytes;
        while let Some(piece) = arriving.reader.poll(&mut input)? {
            match piece {
                Piece::Start(member) => self.begin_member(arriving, member, begun, now),
                Piece::Data(content) => self.member_content(arriving, content, now),
                Piece::End => self.end_member(arriving, now),
            }
        }
        Ok(())
    }

    fn begin_member(
        &mut self,
        arriving: &mut Arriving,
        member: Member,
        begun: Instant,
        now: Instant,
    ) {
        arriving.current = None;
        arriving.files += u64::from(!member.kept);
        let mut target = format!("/{}", member.name);
        if self.is_base(0) {
            // In the bundle of a folder, the page comes first and has its own file name.
            let is_folder = self.items[0].target.ends_with('/');
            if is_folder && arriving.members.is_empty() {
                arriving.page.get_or_insert_with(|| target.clone());
            }
            if arriving.page.as_ref() == Some(&target) {
                target.clone_from(&self.items[0].target);
            }
        }
        let Some(place) = self.place_of(target, member.media_type.as_deref()) else {
            return;
        };
        arriving.members.push(self.items[place].target.clone());
        if member.kept {
            return self.has_copy(place, now);
        }
        let item = &mut self.items[place];
        if item.resolved.is_some() {
            return;
        }
        arriving.current = Some(place);
        item.started = Some(begun);
        item.begin_copy(CacheEntry {
            etag: member.etag,
            last_modified: member.last_modified,
            date: None,
            status: 200,
            coding: member.coding,
            html: Vec::new(),
            dimensions: None,
        });
        if place == 0 {
            let scanned = is_html(member.media_type.as_deref());
            let (host, target) = (&self.options.host, &item.target);
            self.base = Some(BaseFile::new(host, target, member.coding, scanned));
        }
    }

    fn member_content(&mut self, arriving: &mut Arriving, content: &[u8], now: Instant) {
        match arriving.current {
            None => {}
            Some(0) => {
                self.items[0].received += content.len() as u64;
                let mut found = Vec::new();
                if let Some(base) = &mut self.base
                    && base.push(content, &mut found).is_err()
                {
                    // The page's HTML cannot be decoded, or is too long to scan. The remaining HTML is skipped, and the
                    // page is requested separately.
                    self.base = None;
                    arriving.current = None;
                }
                self.found(found, now);
            }
            Some(place) => self.receive(place, content, now),
        }
    }

    fn end_member(&mut self, arriving: &mut Arriving, now: Instant) {
        match arriving.current.take() {
            None => {}
            Some(0) => {
                if let Some(Ok(html)) = self.base.take().map(BaseFile::finish) {
                    self.keep_base(html, Delivery::Bundled, now);
                }
            }
            Some(place) => self.keep(place, Delivery::Bundled, now),
        }
    }

    /// Uses the client's copy of a file: the bundle or its validation showed that the copy is current. Does
    /// nothing without a copy.
    fn has_copy(&mut self, place: usize, now: Instant) {
        let item = &mut self.items[place];
        let entry = self.cache.get(&item.target);
        let entry = entry.filter(|_| self.visit != Visit::First && item.resolved.is_none());
        let Some(entry) = entry else {
            return;
        };
        item.fresh.dimensions = entry.dimensions;
        if self.is_base(place) {
            if entry.html.is_empty() {
                return;
            }
            self.scan_cached_html(now);
        }
        self.resolve(place, Delivery::Current, now);
    }

    /// Returns the item with this target, and creates the item if no file has named it so far. `None` if there are too
    /// many items.
    fn place_of(&mut self, target: String, media_type: Option<&str>) -> Option<usize> {
        if let Some(&place) = self.known.get(&target) {
            return Some(place);
        }
        if self.items.len() > super::MOST_FILES {
            return None;
        }
        let kind = media_type.map_or_else(|| kind_by_name(&target), FileKind::of_content_type);
        let now = self.items[0].planned;
        let place = self.add(target, kind, Some(0), now);
        self.items[place].wanted = false;
        self.items[place].known_by = KnownBy::Bundle;
        Some(place)
    }
}

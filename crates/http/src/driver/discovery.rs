//! Discovery of the files of a page: in arriving HTML, in the page's graph when the file that names them has arrived,
//! and in preloads.

use fathometer_model::{Bytes, Delivery, Instant};

use super::base::{BaseFile, Found};
use super::bundle::PageList;
use super::bundling::Bundling;
use super::hints;
use super::item::{Ask, Item, Job, KnownBy, Resolved};
use super::kind::FileKind;
use super::options::Visit;
use super::page::PageDriver;
use crate::client::Head;
use crate::html::{Resolution, Resolver};

impl PageDriver {
    /// Adds a file to the page, unless the page already has the file.
    pub(super) fn want(
        &mut self,
        target: String,
        kind: FileKind,
        named_by: Option<usize>,
        now: Instant,
    ) {
        if let Some(&item) = self.known.get(&target) {
            return self.use_unrequested(item, kind, named_by, now);
        }
        if self.items.len() > super::MOST_FILES {
            self.counters.references_left_out += 1;
            return;
        }
        let item = self.add(target, kind, named_by, now);
        self.unresolved += 1;
        let cached = self.visit == Visit::Session && !self.is_base(item);
        if let Some(entry) = self.cache.get(&self.items[item].target).filter(|_| cached) {
            self.items[item].fresh.dimensions = entry.dimensions;
            self.resolve(item, Delivery::Cached, now);
        } else {
            self.plan(item);
        }
    }

    /// Queues the request for a file, or withholds the request while a bundle in flight may contain the file.
    fn plan(&mut self, item: usize) {
        if self.bundling.is_open() {
            self.withheld.push(item);
            return;
        }
        let ask = self.first_ask(item);
        if matches!(ask, Ask::Bundle { .. }) {
            self.bundling = Bundling::Awaited;
        }
        self.queue.push_back(Job { item, ask });
    }

    /// Adds the files of a list. If the policy uses bundles, also adds the request for a bundle of all files.
    pub(super) fn want_list(&mut self, list: &PageList, now: Instant) {
        self.base_done = true;
        if self.policy.bundle.is_some() {
            // The folder is not a file: a file with the same target has its own item.
            let mut folder = Item::new(list.folder.clone(), FileKind::Other, now);
            folder.known_by = KnownBy::Folder;
            self.items.push(folder);
            self.unresolved += 1;
            self.plan(0);
        }
        for target in &list.files {
            self.want(target.clone(), FileKind::Other, None, now);
        }
    }

    /// Whether this item is the page's base file.
    pub(super) fn is_base(&self, item: usize) -> bool {
        item == 0 && self.options.list.is_none()
    }

    /// Adds an item that is still to be requested.
    pub(super) fn add(
        &mut self,
        target: String,
        kind: FileKind,
        named_by: Option<usize>,
        now: Instant,
    ) -> usize {
        let place = self.items.len();
        let mut item = Item::new(target, kind, now);
        item.named_by = named_by;
        item.host = match place {
            0 => 0,
            _ => shard(&item.target, self.policy.hosts),
        };
        self.known.insert(item.target.clone(), place);
        self.items.push(item);
        place
    }

    /// Handles a reference to a known file. If the file was pushed or bundled before it was named, the page now
    /// needs it.
    fn use_unrequested(
        &mut self,
        place: usize,
        kind: FileKind,
        named_by: Option<usize>,
        now: Instant,
    ) {
        let item = &mut self.items[place];
        if item.wanted {
            return;
        }
        item.wanted = true;
        item.kind = kind;
        item.named_by = named_by;
        let is_push = item.known_by == KnownBy::Push;
        self.counters.pushes_used += u32::from(is_push);
        match item.resolved {
            None => {
                self.unresolved += 1;
                // The file has not arrived completely: the bundle is still in flight, or was cut off within the file.
                if !is_push {
                    self.plan(place);
                }
            }
            Some(_) => self.discover(place, now),
        }
    }

    pub(super) fn found(&mut self, found: Vec<Found>, now: Instant) {
        for found in found {
            match found {
                Found::Here(kind, target) => {
                    self.want(target, FileKind::of_reference(kind), Some(0), now);
                }
                Found::Elsewhere => self.counters.references_elsewhere += 1,
            }
        }
    }

    /// Adds the references of the cached page.
    pub(super) fn scan_cached_html(&mut self, now: Instant) {
        let item = &self.items[0];
        let Some(entry) = self.cache.get(&item.target) else {
            return;
        };
        let mut found = Vec::new();
        let mut page = BaseFile::new(&self.options.host, &item.target, None, true);
        // This cannot fail: the HTML has no coding and is no longer than when it was stored.
        if page.push(&entry.html, &mut found).is_ok() {
            self.found(found, now);
        }
    }

    /// Adds the preloads in a head of the response for `item`; the head may be interim or final.
    pub(super) fn follow_preloads(&mut self, place: usize, item: usize, now: Instant) {
        if !self.options.preloads || self.options.list.is_some() {
            return;
        }
        let resolver = Resolver::new(&self.options.host, &self.items[item].target);
        let named = preloads_of(self.links[place].machine.head(), &resolver);
        for (target, kind) in named {
            if !self.known.contains_key(&target) {
                self.counters.preloads += 1;
            }
            self.want(target, kind, Some(item), now);
        }
    }

    /// Handles an arrived file: the files that it names become known (for a script: after its execution).
    pub(super) fn discover(&mut self, item: usize, now: Instant) {
        let executes = self.items[item].kind.is_script() && !self.options.script_time.is_zero();
        if executes {
            let free = self.executions.back().map_or(now, |&(end, _)| end);
            let end = free.max(now) + self.options.script_time;
            self.executions.push_back((end, item));
        } else {
            self.name_others(item, now);
        }
    }

    /// Handles the scripts whose execution has ended by `now`.
    pub(super) fn end_executions(&mut self, now: Instant) {
        while let Some(&(end, item)) = self.executions.front()
            && end <= now
        {
            self.executions.pop_front();
            self.name_others(item, now);
        }
    }

    fn name_others(&mut self, item: usize, now: Instant) {
        let graph = std::sync::Arc::clone(&self.options.graph);
        for (target, kind) in graph.named_by(&self.items[item].target) {
            self.want(target.clone(), *kind, Some(item), now);
        }
    }

    pub(super) fn settle_item(&mut self, item: usize, now: Instant) {
        let bytes: Bytes = self.bytes.received;
        let settled = &mut self.items[item];
        debug_assert!(settled.resolved.is_none());
        settled.resolved = Some(Resolved { at: now, bytes });
        if settled.wanted {
            self.unresolved -= 1;
        }
        self.base_done |= item == 0;
        self.check_sizes(now);
    }
}

/// Returns the preloads in a head's `Link` fields whose targets are on the page's own origin.
fn preloads_of(head: Head<'_>, resolver: &Resolver) -> Vec<(String, FileKind)> {
    let mut named = Vec::new();
    for (name, value) in head.fields() {
        if !name.eq_ignore_ascii_case(b"link") {
            continue;
        }
        let Ok(value) = std::str::from_utf8(value) else {
            continue;
        };
        for (reference, kind) in hints::preloads(value) {
            if let Resolution::Target(target) = resolver.resolve(reference.as_bytes()) {
                named.push((target, kind));
            }
        }
    }
    named
}

/// Chooses the host for a file out of `hosts`. The same target gives the same host in every retrieval, so that
/// later retrievals can use the cache. (FNV-1a; Fowler, Noll and Vo.)
fn shard(target: &str, hosts: u16) -> u16 {
    let hash = target
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    (hash % u64::from(hosts.max(1))) as u16
}

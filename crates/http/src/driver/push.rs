//! Pushes: responses that the server sends without a request from the client (RFC 9113 section 8.4). The page may or
//! may not need them.

use fathometer_model::{Failure, Instant};

use super::item::{Ask, Exchange, Job, KnownBy, Meaning, new_record};
use super::kind::FileKind;
use super::options::Visit;
use super::page::PageDriver;
use crate::client::RequestId;

impl PageDriver {
    /// Handles a promised response (PUSH_PROMISE). It is accepted unless the file was already requested or is
    /// in the cache, or the target is not on a host of this page.
    pub(super) fn promised(
        &mut self,
        place: usize,
        request: RequestId,
        parent: RequestId,
        accepted: bool,
        now: Instant,
    ) {
        self.counters.pushes_promised += 1;
        let target = self.promised_target(place);
        let has_room = self.items.len() <= super::MOST_FILES;
        let new = target.filter(|target| {
            let cached = self.visit != Visit::First && self.cache.get(target).is_some();
            accepted && has_room && !cached && !self.known.contains_key(target)
        });
        let Some(target) = new else {
            self.counters.pushes_refused += 1;
            if accepted {
                self.links[place]
                    .machine
                    .cancel(request, Failure::LocalAbort, now);
            }
            return;
        };
        let by = self.links[place].exchange(parent);
        let by = by.map(|exchange| self.exchanges[exchange].job.item);
        let item = self.add(target, FileKind::Other, by, now);
        self.items[item].wanted = false;
        self.items[item].known_by = KnownBy::Push;
        let exchange = self.exchanges.len();
        let mut record = new_record(exchange, place, "GET", &self.items[item]);
        record.sent = Some(now);
        record.pushed = true;
        record.named_by = by.map(|by| self.items[by].target.clone());
        self.exchanges.push(Exchange {
            record,
            job: Job {
                item,
                ask: Ask::Whole { conditional: false },
            },
            meaning: Meaning::Unknown,
        });
        self.links[place].pushes.insert(request, exchange);
    }

    /// Returns the target of the last promise on a connection, if this client could request it.
    fn promised_target(&self, place: usize) -> Option<String> {
        let link = &self.links[place];
        let promise = link.machine.http2()?.promise()?;
        let host = &self.host_names[usize::from(link.host)];
        let ours = promise.method == "GET"
            && promise.authority.eq_ignore_ascii_case(host)
            && promise.target.starts_with('/');
        ours.then(|| promise.target.to_owned())
    }

    /// Handles the failure of a push that the page has not needed so far. If the page needs the file later, the file is
    /// requested like a file without a promise.
    pub(super) fn forget_push(&mut self, item: usize, now: Instant) {
        let target = self.items[item].target.clone();
        self.known.remove(&target);
        self.settle_item(item, now);
    }
}

//! A client's cache of fetched files.

use std::collections::BTreeMap;

use fathometer_model::ContentCoding;

use super::bundle::Bundle;
use super::image::Dimensions;
use super::service::Service;
use crate::origin::date::parse_date;

/// The cached data of one file: enough to validate it, and for a page, enough to find its references again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheEntry {
    /// The entity tag, as the server sent it.
    pub etag: Option<String>,
    /// The date of last modification, as the server sent it.
    pub last_modified: Option<String>,
    /// The time of the response that delivered the file or confirmed it, as the server sent it in `Date`.
    pub date: Option<String>,
    /// The status of the response that delivered the file; 200 also if the file was fetched in parts.
    pub status: u16,
    /// The content coding in which the file was received.
    pub coding: Option<ContentCoding>,
    /// The HTML of a page, after content decoding; empty for every other file.
    pub html: Vec<u8>,
    /// An image's dimensions, if its first bytes gave them.
    pub dimensions: Option<Dimensions>,
}

impl CacheEntry {
    /// Returns the validator for `If-Range` (RFC 9110 section 13.1.5): a strong entity tag. If there is no entity tag:
    /// the date of last modification, if it is a strong validator.
    pub(super) fn strong_validator(&self) -> Option<&str> {
        match &self.etag {
            Some(etag) => Some(&**etag).filter(|etag| !etag.starts_with("W/")),
            None => self
                .last_modified
                .as_deref()
                .filter(|_| self.was_modified_before()),
        }
    }

    /// Whether the file was modified at least one second before the response (RFC 9110 section 8.8.2.2). Both times
    /// come from the clock of the same server.
    fn was_modified_before(&self) -> bool {
        let seconds = |date: &Option<String>| parse_date(date.as_deref()?.as_bytes());
        match (seconds(&self.last_modified), seconds(&self.date)) {
            (Some(modified), Some(date)) => date > modified,
            _ => false,
        }
    }
}

/// The cached data of a package or an archive: enough to validate all its files at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleEntry {
    /// The format of the bundle.
    pub bundle: Bundle,
    /// The entity tag of the bundle, as the server sent it.
    pub etag: Option<String>,
    /// The date of last modification of the bundle, as the server sent it.
    pub last_modified: Option<String>,
    /// The target of the page's base file within the bundle, if the page was requested by another target.
    pub page: Option<String>,
    /// The targets of the files in the bundle, in order.
    pub members: Vec<String>,
}

/// A persistent cache for one origin: validators by request target, and the alternative services of its hosts. To store
/// the cache, iterate over its entries; to load the cache, insert them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValidatorCache {
    entries: BTreeMap<String, CacheEntry>,
    bundles: BTreeMap<String, BundleEntry>,
    services: BTreeMap<String, Service>,
}

impl ValidatorCache {
    /// Creates an empty cache.
    pub fn new() -> ValidatorCache {
        ValidatorCache::default()
    }

    /// The entry of the file with this target.
    pub fn get(&self, target: &str) -> Option<&CacheEntry> {
        self.entries.get(target)
    }

    /// The entry of the file with this target, mutable.
    pub fn get_mut(&mut self, target: &str) -> Option<&mut CacheEntry> {
        self.entries.get_mut(target)
    }

    /// Adds the entry of a file, or replaces it.
    pub fn insert(&mut self, target: String, entry: CacheEntry) {
        self.entries.insert(target, entry);
    }

    /// Removes a file.
    pub fn remove(&mut self, target: &str) -> Option<CacheEntry> {
        self.entries.remove(target)
    }

    /// The entry of the last package or archive fetched from this target.
    pub fn bundle(&self, target: &str) -> Option<&BundleEntry> {
        self.bundles.get(target)
    }

    /// Adds the entry of a package or an archive, or replaces it.
    pub fn insert_bundle(&mut self, target: String, entry: BundleEntry) {
        self.bundles.insert(target, entry);
    }

    /// The alternative service of a host. `host` is the name used in requests.
    pub fn service(&self, host: &str) -> Option<&Service> {
        self.services.get(host)
    }

    /// The alternative service of a host, mutable.
    pub fn service_mut(&mut self, host: &str) -> Option<&mut Service> {
        self.services.get_mut(host)
    }

    /// Adds the alternative service of a host, or replaces it.
    pub fn insert_service(&mut self, host: String, service: Service) {
        self.services.insert(host, service);
    }

    /// Removes a host's alternative service.
    pub fn remove_service(&mut self, host: &str) -> Option<Service> {
        self.services.remove(host)
    }

    /// All files, in the alphabetical order of their targets.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &CacheEntry)> {
        self.entries
            .iter()
            .map(|(target, entry)| (target.as_str(), entry))
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_strong_validators_are_sent_with_ranges() {
        let (early, late) = (
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:38 GMT",
        );
        let table = [
            (Some("\"e\""), Some(early), Some(late), Some("\"e\"")),
            (Some("\"e\""), None, None, Some("\"e\"")),
            (Some("W/\"e\""), Some(early), Some(late), None),
            (None, Some(early), Some(late), Some(early)),
            (None, Some(early), Some(early), None),
            (None, Some(late), Some(early), None),
            (None, Some(early), None, None),
            (None, Some("yesterday"), Some(late), None),
            (None, None, Some(late), None),
        ];
        for (etag, last_modified, date, strong) in table {
            let entry = CacheEntry {
                etag: etag.map(str::to_owned),
                last_modified: last_modified.map(str::to_owned),
                date: date.map(str::to_owned),
                ..CacheEntry::default()
            };
            assert_eq!(entry.strong_validator(), strong, "{entry:?}");
        }
    }
}

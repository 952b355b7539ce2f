//! What a client remembers of the files it has fetched.

use std::collections::BTreeMap;

use fathometer_model::ContentCoding;

use super::alternative::Service;
use super::bundle::Bundle;
use super::image::Dimensions;

/// What is remembered of one file: enough to validate it, and of a page enough to find its
/// references again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheEntry {
    /// The entity tag, as the server wrote it.
    pub etag: Option<String>,
    /// The date of last modification, as the server wrote it.
    pub last_modified: Option<String>,
    /// The status it was fetched with; 200 also when it came in parts.
    pub status: u16,
    /// The content coding it came in.
    pub coding: Option<ContentCoding>,
    /// The HTML of a page, content coding taken off; empty for every other file.
    pub html: Vec<u8>,
    /// An image's dimensions, as far as its first octets told them.
    pub dimensions: Option<Dimensions>,
}

impl CacheEntry {
    /// The validator for `If-Range`, which must be a strong one; a date is taken for strong.
    pub(super) fn strong_validator(&self) -> Option<&str> {
        let etag = self.etag.as_deref().filter(|etag| !etag.starts_with("W/"));
        etag.or(self.last_modified.as_deref())
    }
}

/// What is remembered of a package or an archive: enough to validate all that was in it at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleEntry {
    /// What it was.
    pub bundle: Bundle,
    /// Its entity tag, as the server wrote it.
    pub etag: Option<String>,
    /// Its date of last modification, as the server wrote it.
    pub last_modified: Option<String>,
    /// The target of the page's base file within it, if it was asked for by another.
    pub page: Option<String>,
    /// The targets of the files that were in it, in order.
    pub members: Vec<String>,
}

/// A persistent cache of validators, by request target, for one origin, and of the alternative services of
/// its hosts. Plain data: iterate over it to store it, insert to load it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValidatorCache {
    entries: BTreeMap<String, CacheEntry>,
    bundles: BTreeMap<String, BundleEntry>,
    services: BTreeMap<String, Service>,
}

impl ValidatorCache {
    /// A cache that knows nothing.
    pub fn new() -> ValidatorCache {
        ValidatorCache::default()
    }

    /// What is known of the file with this target.
    pub fn get(&self, target: &str) -> Option<&CacheEntry> {
        self.entries.get(target)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, target: &str) -> Option<&mut CacheEntry> {
        self.entries.get_mut(target)
    }

    /// Remembers a file in place of what was known of it.
    pub fn insert(&mut self, target: String, entry: CacheEntry) {
        self.entries.insert(target, entry);
    }

    /// Forgets a file.
    pub fn remove(&mut self, target: &str) -> Option<CacheEntry> {
        self.entries.remove(target)
    }

    /// What is known of the last package or archive that this target brought.
    pub fn bundle(&self, target: &str) -> Option<&BundleEntry> {
        self.bundles.get(target)
    }

    /// Remembers a package or an archive in place of what was known of it.
    pub fn insert_bundle(&mut self, target: String, entry: BundleEntry) {
        self.bundles.insert(target, entry);
    }

    /// The alternative service of a host, as its requests name it.
    pub fn service(&self, host: &str) -> Option<&Service> {
        self.services.get(host)
    }

    /// The same, to be changed.
    pub fn service_mut(&mut self, host: &str) -> Option<&mut Service> {
        self.services.get_mut(host)
    }

    /// Remembers a host's alternative service in place of what was known of it.
    pub fn insert_service(&mut self, host: String, service: Service) {
        self.services.insert(host, service);
    }

    /// Forgets a host's alternative service.
    pub fn remove_service(&mut self, host: &str) -> Option<Service> {
        self.services.remove(host)
    }

    /// All files, by target in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &CacheEntry)> {
        self.entries
            .iter()
            .map(|(target, entry)| (target.as_str(), entry))
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no file is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

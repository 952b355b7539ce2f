//! Builds a workload from targets and files, each listed once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::Bytes;

use crate::plan::{Choice, Pages, Plan, Sessions, Target, TargetId};
use crate::synthetic::FileSpec;
use crate::target::{file_key, without_query};
use crate::workload::{Content, Workload};

/// The size in bytes of a file for which the workload gives no size.
pub const UNKNOWN_SIZE: u64 = 1024;

/// Collects targets and files, each listed once.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub targets: Vec<Target>,
    pub pages: Pages,
    pub files: Vec<FileSpec>,
    pub notes: Vec<String>,
    pub skipped: BTreeMap<String, u64>,
    target_ids: HashMap<TargetKey, TargetId>,
    file_places: HashMap<Vec<u8>, usize>,
    /// Whether the size of each file is known.
    sized: Vec<bool>,
    /// The size of the response to each request target, including the query; `None` if the sizes differ between
    /// requests.
    target_sizes: HashMap<String, Option<u64>>,
}

/// Method, path, content and content type. Requests that are equal in all of these have the same target.
type TargetKey = (String, String, Option<Arc<[u8]>>, Option<Arc<str>>);

impl Builder {
    /// Returns the target of a request. Adds the target if it is new.
    pub fn target(&mut self, method: &str, path: &str, content: Option<Arc<[u8]>>) -> TargetId {
        self.target_with_type(method, path, content, None)
    }

    /// Like [`Builder::target`], with the media type of the request's content.
    pub fn target_with_type(
        &mut self,
        method: &str,
        path: &str,
        content: Option<Arc<[u8]>>,
        content_type: Option<Arc<str>>,
    ) -> TargetId {
        let key = (method.to_owned(), path.to_owned(), content, content_type);
        if let Some(&id) = self.target_ids.get(&key) {
            return id;
        }
        let id = TargetId(self.targets.len() as u32);
        self.targets.push(Target {
            method: method.to_owned().into(),
            content: key.2.clone(),
            content_type: key.3.clone(),
            ..Target::get(path, None)
        });
        self.target_ids.insert(key, id);
        id
    }

    /// Adds a file for a path, with its size if known. If several sizes are given, the largest is used.
    pub fn add_file(&mut self, path: &str, content_type: &'static str, size: Option<u64>) {
        let Some(key) = file_key(path) else {
            return;
        };
        let place = *self.file_places.entry(key).or_insert_with(|| {
            self.files.push(FileSpec {
                path: without_query(path).to_owned(),
                content_type,
                size: UNKNOWN_SIZE,
            });
            self.sized.push(false);
            self.files.len() - 1
        });
        let Some(size) = size else {
            return;
        };
        // The size is kept only if all responses have the same size, because otherwise there is no expected size.
        self.target_sizes
            .entry(path.to_owned())
            .and_modify(|known| *known = known.filter(|&known| known == size))
            .or_insert(Some(size));
        let file = &mut self.files[place];
        file.size = match self.sized[place] {
            true => file.size.max(size),
            false => size,
        };
        self.sized[place] = true;
    }

    /// Adds a GET request for a file of known size.
    pub fn file(&mut self, path: &str, content_type: &'static str, size: u64) -> TargetId {
        self.add_file(path, content_type, Some(size));
        self.target("GET", path, None)
    }

    /// Creates a workload that requests one page repeatedly.
    pub fn one_page(
        mut self,
        name: &str,
        members: &[TargetId],
        named_by: Option<&[u16]>,
    ) -> Workload {
        let page = match named_by {
            Some(named_by) => self.pages.push_with_dependencies(members, named_by),
            None => self.pages.push(members),
        };
        self.finish(name, Choice::Sequence([page].into()), None)
    }

    /// Completes the workload. Unless sessions were recorded, users request pages without pauses and without end.
    pub fn finish(
        mut self,
        name: &str,
        choice: Choice,
        recorded: Option<Arc<[Duration]>>,
    ) -> Workload {
        for target in &mut self.targets {
            target.size = match &*target.method {
                "HEAD" => Some(Bytes(0)),
                "GET" => self
                    .target_sizes
                    .get(&target.path)
                    .copied()
                    .flatten()
                    .map(Bytes),
                _ => None,
            };
        }
        let several = self.target_sizes.iter().filter(|(path, size)| {
            let place = file_key(path).and_then(|key| self.file_places.get(&key).copied());
            place.is_some_and(|place| **size != Some(self.files[place].size))
        });
        let several = several.count();
        if several > 0 {
            self.notes.push(format!(
                "{several} request targets have sizes that vary or differ from others of the same path: a site made \
                 from this workload has one file for each path, of the largest size"
            ));
        }
        let unknown = self.sized.iter().filter(|&&sized| !sized).count();
        if unknown > 0 {
            self.notes.push(format!(
                "the sizes of {unknown} files are unknown: any size is accepted, and in a site made from this workload \
                 each of these files has {UNKNOWN_SIZE} B"
            ));
        }
        let sessions = Sessions {
            pages: recorded
                .is_some()
                .then_some(crate::distribution::Law::Fixed(1.0)),
            off: None,
        };
        Workload {
            plan: Plan {
                name: name.to_owned(),
                targets: self.targets,
                pages: self.pages,
                choice,
                sessions,
                recorded,
            },
            files: self.files,
            notes: self.notes,
            skipped: self.skipped,
            content: Content::Synthetic,
        }
    }
}

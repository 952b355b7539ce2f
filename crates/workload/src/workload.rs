//! A workload: a plan, its files, and notes about them.

use std::collections::{BTreeMap, HashMap};

use fathometer_model::{FileId, Page, Seed, Site};

use crate::microscape::{self, Variant};
use crate::plan::{PageId, Plan, TargetId};
use crate::synthetic::{self, FileSpec};
use crate::target::file_key;

/// A plan of requests, and the files of the responses.
#[derive(Debug, Clone)]
pub struct Workload {
    /// The requests and the order in which users send them.
    pub plan: Plan,
    /// The files for the plan's targets, each path once. A target has no file if its method is neither GET nor HEAD, or
    /// if the workload's source shows that the file does not exist.
    pub files: Vec<FileSpec>,
    /// Choices that the workload's source does not determine, and omissions. Each note is a sentence without a full
    /// stop, to be printed with the results.
    pub notes: Vec<String>,
    /// The number of lines or entries of the workload's source that are not requested, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// The source of the files' bytes.
    pub content: Content,
}

/// The source of the bytes of a workload's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Bytes from [`synthetic::site`].
    Synthetic,
    /// Bytes from [`microscape::site`].
    Microscape(Variant),
}

impl Workload {
    /// Creates the site that answers the plan's requests. `ratio` is the fraction to which DEFLATE reduces synthetic
    /// texts; the usual value is [`synthetic::TEXT_RATIO`].
    pub fn site(&self, ratio: f64, seed: Seed) -> Site {
        match self.content {
            Content::Microscape(variant) => microscape::site(seed, variant),
            Content::Synthetic => synthetic::site(
                self.plan.name.clone(),
                self.files.clone(),
                self.pages(),
                ratio,
                seed,
            ),
        }
    }

    /// Converts the plan's pages to pages of files.
    fn pages(&self) -> Vec<Page> {
        let places: HashMap<Vec<u8>, FileId> = self
            .files
            .iter()
            .zip(0..)
            .filter_map(|(file, id)| Some((file_key(&file.path)?, FileId(id))))
            .collect();
        let file_of = |target: TargetId| {
            let key = file_key(&self.plan.targets[target.0 as usize].path)?;
            places.get(&key).copied()
        };
        (0..self.plan.pages.len() as u32)
            .filter_map(|page| {
                let targets = self.plan.pages.get(PageId(page));
                let base = file_of(targets.members[0])?;
                let mut page = Page {
                    base,
                    embedded: Vec::new(),
                    named_by: Vec::new(),
                };
                if targets.members.len() == 1 {
                    return Some(page);
                }
                // The index of each member among the embedded files; `None` for the base and for members
                // without a file.
                let mut place_of: Vec<Option<u16>> = vec![None];
                let mut seen = HashMap::from([(base, None)]);
                for (place, &member) in targets.members.iter().enumerate().skip(1) {
                    let Some(file) = file_of(member) else {
                        place_of.push(None);
                        continue;
                    };
                    let new = u16::try_from(page.embedded.len()).ok();
                    let at = *seen.entry(file).or_insert(new);
                    place_of.push(at);
                    if at == new && new.is_some() {
                        page.embedded.push(file);
                        let by = targets.named_by.get(place).copied().unwrap_or(0);
                        page.named_by.push(place_of[usize::from(by)]);
                    }
                }
                if page.named_by.iter().all(Option::is_none) {
                    page.named_by = Vec::new();
                }
                Some(page)
            })
            .collect()
    }
}

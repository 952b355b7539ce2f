//! Looks up the files of a package.

use std::sync::Arc;

use fathometer_model::Instant;

use super::group::{Group, Member};
use super::parts::{Gathered, LivePart, Part};
use crate::origin::conditions::Lines;
use crate::origin::encoding::{Coding, Qualities};
use crate::origin::live::Live;
use crate::origin::store::{Lookup, Stored, Variant};
use crate::origin::target::{INDEX, encoded};
use crate::origin::{COST_OF_A_FILE, Origin, Place, Selected, Source};
use fathometer_package::have::Keys;

/// The maximum cost of the file look-ups in one turn, in bytes. It is higher than the limit on reads per turn, because
/// most files were looked up before and are not read again.
const LOOKED_UP_IN_A_TURN: u64 = 256 * 1024;

/// The rules for looking up files.
pub(super) struct Gathering<'a> {
    /// The files that the client already has.
    pub keys: &'a Keys,
    /// The codings that the client accepts; `None`: files are sent without codings.
    pub codings: Option<Lines<'a>>,
    /// Whether dynamic resources are included.
    pub live: bool,
    /// Whether recently looked up files are looked up again.
    pub anew: bool,
    pub now: Instant,
}

impl Gathering<'_> {
    /// Looks up all files without codings; recent look-ups are reused.
    pub fn of_now(now: Instant) -> Self {
        static NONE: Keys = Keys::none();
        Gathering {
            keys: &NONE,
            codings: None,
            live: false,
            anew: false,
            now,
        }
    }
}

/// The files looked up so far, and the number of members processed.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    gathered: Gathered,
    /// Whether the page was looked up.
    has_page: bool,
    members: usize,
}

/// The reason why there is no package.
#[derive(Debug)]
pub(super) enum NoPackage {
    /// The resource has no package in this format.
    None,
    /// The server is out of descriptors or memory.
    Overloaded,
}

impl Origin {
    /// Looks up the files of a group. Missing files are omitted.
    pub(super) fn gather(
        &self,
        group: &Group,
        gathering: &Gathering<'_>,
    ) -> Result<Gathered, NoPackage> {
        let mut progress = Progress::default();
        loop {
            if let Some(gathered) = self.gather_on(group, gathering, &mut progress)? {
                return Ok(gathered);
            }
        }
    }

    /// Looks up files of a group for one turn. `None` if another turn is needed.
    pub(super) fn gather_on(
        &self,
        group: &Group,
        gathering: &Gathering<'_>,
        progress: &mut Progress,
    ) -> Result<Option<Gathered>, NoPackage> {
        let gathered = &mut progress.gathered;
        let mut cost = 0;
        if !std::mem::replace(&mut progress.has_page, true) {
            gathered.parts.reserve(1 + group.members.len());
            cost += self.gather_page(group, gathering, gathered)?;
        }
        while let Some(member) = group.members.get(progress.members) {
            if cost >= LOOKED_UP_IN_A_TURN {
                return Ok(None);
            }
            progress.members += 1;
            if let Some(live) = self.live(&member.path, gathering)? {
                if gathering.live {
                    let name = member.name.clone();
                    gathered.live.push(LivePart { name, live });
                }
                cost += COST_OF_A_FILE;
            } else if let Some(source) = self.source(&member.path, gathering)? {
                let named = (member.name.clone(), member.critical);
                cost += cost_of(&source);
                self.add(gathered, named, source, gathering);
            } else {
                cost += COST_OF_A_FILE;
            }
        }
        match gathered.parts.is_empty() && !gathered.is_open() {
            true => Err(NoPackage::None),
            false => Ok(Some(std::mem::take(gathered))),
        }
    }

    /// Looks up the page of a group, if it has one; returns the cost.
    fn gather_page(
        &self,
        group: &Group,
        gathering: &Gathering<'_>,
        gathered: &mut Gathered,
    ) -> Result<u64, NoPackage> {
        let mut cost = COST_OF_A_FILE;
        if let Some(live) = self.live(&group.path, gathering)? {
            let target = page_target(&group.path);
            // The page must be the first file of the package.
            let member = Member::of_target(&target, true).filter(|_| gathering.live);
            let Some(Member { name, .. }) = member else {
                return Err(NoPackage::None);
            };
            gathered.base = target.into();
            gathered.page = Some(LivePart { name, live });
        } else if let Some(page) = self.source(&group.path, gathering)? {
            let target = self.target_of(&page, &group.path);
            if let Some(member) = Member::of_target(&target, true) {
                gathered.base = target.into();
                cost = cost_of(&page);
                self.add(gathered, (member.name, true), page, gathering);
            }
        }
        Ok(cost)
    }

    fn add(
        &self,
        gathered: &mut Gathered,
        (name, critical): (Box<str>, bool),
        source: Source,
        gathering: &Gathering<'_>,
    ) {
        let keys = gathering.keys;
        let has = |selected: &Selected| {
            let tag = self.describe_selected(selected).validators.tag_text();
            keys.contains(&name, &tag)
        };
        let kept = match keys.is_empty() {
            true => None,
            // The client may have the file in any content coding.
            false => self.all(&source).find(has),
        };
        gathered.is_delta |= kept.is_some();
        let (kept, selected) = match (kept, gathering.codings) {
            (Some(selected), _) => (true, selected),
            (None, None) => (false, self.plain(&source)),
            (None, Some(accept)) => {
                gathered.is_coded |= self.all(&source).nth(1).is_some();
                let qualities = Qualities::of(&accept);
                let fits = |coding: Coding| coding.in_packages().is_some();
                (false, self.select(source, &qualities, fits))
            }
        };
        gathered.parts.push(Part {
            name,
            critical,
            kept,
            selected,
        });
    }

    /// Looks up the resource at a canonical path; `None` if there is none.
    pub(super) fn source(
        &self,
        path: &[u8],
        gathering: &Gathering<'_>,
    ) -> Result<Option<Source>, NoPackage> {
        if let Some(file) = self.index.file(path) {
            return Ok(Some(Source::Indexed(file)));
        }
        let found = self.store.as_deref().map(|store| match gathering.anew {
            true => store.look(path, gathering.now),
            false => store.find(path, gathering.now),
        });
        match found {
            Some(Lookup::Found(resource)) => Ok(Some(Source::Stored(resource))),
            Some(Lookup::Overloaded) => Err(NoPackage::Overloaded),
            Some(Lookup::Folder | Lookup::Missing | Lookup::Forbidden) | None => Ok(None),
        }
    }

    /// Looks up the dynamic resource at a canonical path. `None` if there is none, or if the file with its content is
    /// missing.
    pub(super) fn live(
        &self,
        path: &[u8],
        gathering: &Gathering<'_>,
    ) -> Result<Option<Live>, NoPackage> {
        let Some(dynamic) = self.dynamic_at(path) else {
            return Ok(None);
        };
        if dynamic.is_text() {
            return Ok(Some(Live::of_text(dynamic)));
        }
        let source = self.source(path, gathering)?;
        Ok(source.map(|source| Live::of_file(dynamic, self.plain(&source), self)))
    }

    /// The request target of a group's page.
    fn target_of(&self, page: &Source, path: &[u8]) -> String {
        match page {
            Source::Indexed(file) => self.index.site().file(*file).path.clone(),
            Source::Stored(_) => page_target(path),
        }
    }

    /// Returns the representation without a coding.
    pub(in crate::origin) fn plain(&self, source: &Source) -> Selected {
        self.all(source)
            .next()
            .expect("each resource has a representation without a coding")
    }

    /// Returns all representations. The representation without a coding comes first.
    pub(in crate::origin) fn all<'a>(
        &'a self,
        source: &'a Source,
    ) -> impl Iterator<Item = Selected> + 'a {
        let (file, resource) = match source {
            Source::Indexed(file) => (Some(*file), None),
            Source::Stored(resource) => (None, Some(resource)),
        };
        let indexed = file
            .into_iter()
            .flat_map(|file| self.index.representations(file))
            .map(|(id, _)| Selected(Place::Indexed(id)));
        let stored = resource.into_iter().flat_map(|resource| {
            (0..resource.variants().len())
                .map(|place| Selected(Place::Stored(Arc::clone(resource), place as u8)))
        });
        indexed.chain(stored)
    }
}

/// The cost of a file look-up in bytes. A store with files in memory may have read the whole file.
fn cost_of(source: &Source) -> u64 {
    let Source::Stored(resource) = source else {
        return 0;
    };
    let variants = resource.variants().iter();
    let in_memory = variants.filter(|variant| matches!(variant.bytes(), Stored::Memory(_)));
    COST_OF_A_FILE + in_memory.map(Variant::length).sum::<u64>()
}

/// The request target of the page at a canonical path.
fn page_target(path: &[u8]) -> String {
    match path.ends_with(b"/") {
        true => encoded(&[path, INDEX].concat()),
        false => encoded(path),
    }
}

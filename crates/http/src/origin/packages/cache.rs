//! Stored packages: their location, and the rule for rebuilding them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fathometer_model::{Body, FileId, Instant};

use super::accept::{self, AcceptedFormats};
use super::compose::{About, Composed, checksum, read_file};
use super::gather::{Gathering, NoPackage, Progress};
use super::group::{Group, Groups, LONGEST_HTML, MOST_FILES, Member};
use super::parts::Gathered;
use super::{Format, Making, Packages};
use crate::origin::asked::Asked;
use crate::origin::companions::Plan;
use crate::origin::conditions::ETAG_LENGTH;
use crate::origin::ranges::ByteRange;
use crate::origin::store::{Lookup, Resource, Stored};
use crate::origin::target::encoded;
use crate::origin::{Answer, Content, Method, Origin, Place, Request, Selected, Status, Subject};
use fathometer_package::have::Keys;
use fathometer_package::{Checksum, Version};

/// The maximum number of packages in a store, and of pages whose scanned HTML is cached. The least recently checked
/// entry is evicted.
const MOST_KEPT: usize = 1024;

/// The maximum quality of a media type, in thousandths.
const BEST: u16 = 1000;

/// Builds packages of an origin's files, and stores the packages that are built in advance.
#[derive(Debug)]
pub(in crate::origin) struct Packager {
    options: Packages,
    groups: Groups,
    /// For a site: the packages that were built, by group and format. An inner `None` means that the package cannot be
    /// built.
    made: Vec<[OnceLock<Option<Arc<Composed>>>; Format::COUNT]>,
    /// For a site: whether each file is the page of a group.
    pages: Vec<bool>,
    /// For a site: the checksum of each representation.
    checksums: Vec<OnceLock<Checksum>>,
    cache: Mutex<Cache>,
    /// The number of packages and archives that were sent.
    sent: AtomicU64,
}

/// The state of a store's packages.
#[derive(Debug, Default)]
struct Cache {
    kept: HashMap<(Box<[u8]>, Format), Kept>,
    scanned: HashMap<Box<[u8]>, Scanned>,
}

/// A package in the store.
#[derive(Debug)]
struct Kept {
    /// The name of the package in the store.
    name: Box<str>,
    about: About,
    /// The states of the member files when the package was built.
    states: Vec<Option<u64>>,
    looked_at: Instant,
}

/// The references in the HTML of a page.
#[derive(Debug)]
struct Scanned {
    etag: [u8; ETAG_LENGTH],
    group: Arc<Group>,
    looked_at: Instant,
}

/// An answer with a package whose files are being looked up.
#[derive(Debug, Clone)]
pub(in crate::origin) struct Undecided {
    asked: Asked,
    place: GroupPlace,
    format: Format,
    /// The files that the client already has.
    keys: Keys,
    /// Whether files are sent in the codings that the client accepts, and dynamic resources are included.
    as_it_is: bool,
    progress: Progress,
}

/// The index of a group in the plan, or a group that was looked up.
#[derive(Debug, Clone)]
enum GroupPlace {
    Planned(usize),
    Looked(Arc<Group>),
}

/// A group from the plan, or a group that was looked up.
enum Found<'a> {
    Planned(usize, &'a Group),
    Looked(Arc<Group>),
}

impl Found<'_> {
    fn place(&self) -> GroupPlace {
        match self {
            Found::Planned(place, _) => GroupPlace::Planned(*place),
            Found::Looked(group) => GroupPlace::Looked(Arc::clone(group)),
        }
    }
}

impl GroupPlace {
    fn found<'a>(&self, packager: &'a Packager) -> Found<'a> {
        match self {
            GroupPlace::Planned(place) => Found::Planned(*place, packager.groups.at(*place)),
            GroupPlace::Looked(group) => Found::Looked(Arc::clone(group)),
        }
    }
}

impl std::ops::Deref for Found<'_> {
    type Target = Group;

    fn deref(&self) -> &Group {
        match self {
            Found::Planned(_, group) => group,
            Found::Looked(group) => group,
        }
    }
}

impl Packager {
    /// Creates a packager for an origin; `None` if packages are disabled.
    pub fn new(options: Packages, origin: &Origin) -> Option<Packager> {
        if options.making == Making::None {
            return None;
        }
        let site = origin.index.site();
        let mut plan = Plan::of_site(site);
        plan.extend(&options.plan);
        let mut groups = Groups::new(&plan, options.shared);
        let mut pages = vec![false; site.files.len()];
        if let Some(page) = site.pages.first() {
            let base = site.file(page.base);
            if let Some(member) = Member::of_target(&base.path, true) {
                groups.alias(b"/", &member.path);
            }
        }
        for place in 0..groups.len() {
            if let Some(file) = origin.index.file(&groups.at(place).path) {
                pages[file.0 as usize] = true;
            }
        }
        Some(Packager {
            options,
            made: (0..groups.len()).map(|_| Default::default()).collect(),
            groups,
            pages,
            checksums: vec![OnceLock::new(); origin.index.representation_count()],
            cache: Mutex::default(),
            sent: AtomicU64::new(0),
        })
    }

    /// The number of packages and archives that were sent since the last call.
    pub fn take_sent(&self) -> u64 {
        self.sent.swap(0, Ordering::Relaxed)
    }

    /// Whether the plan or the site has a page or a folder with this canonical path.
    pub fn is_planned(&self, path: &[u8]) -> bool {
        self.groups.find(path).is_some()
    }

    /// Whether a file of a site is available as a package.
    pub fn is_page(&self, file: FileId) -> bool {
        self.pages.get(file.0 as usize).copied().unwrap_or(false)
    }

    /// Whether a resource of a store may be available as a package.
    pub fn may_be_page(&self, path: &[u8], resource: &Resource) -> bool {
        match self.options.plan.is_empty() {
            true => is_html(resource),
            false => self.groups.find(path).is_some(),
        }
    }
}

impl Origin {
    /// With [`Making::Made`], builds the packages of all groups of the plan or the site. Without this call, each
    /// package is built at its first request. In the other modes, this call does nothing.
    pub fn prepare(&self, now: Instant) {
        let Some(packager) = &self.packager else {
            return;
        };
        if packager.options.making != Making::Made {
            return;
        }
        for place in 0..packager.groups.len() {
            for format in packager.options.formats.iter() {
                let found = Found::Planned(place, packager.groups.at(place));
                let _ = self.package(packager, &found, format, now);
            }
        }
    }

    /// Answers a request that prefers a package or an archive to the resource at the path. `None` if the request does
    /// not prefer one, or if there is no package.
    pub(in crate::origin) fn decide_package(
        &self,
        packager: &Packager,
        path: &[u8],
        request: &Request<'_>,
        now: Instant,
    ) -> Option<Answer> {
        if !accept::may_name_a_format(&request.accept) {
            return None;
        }
        let wishes = AcceptedFormats::of(&request.accept, packager.options.formats);
        if wishes.is_empty() {
            return None;
        }
        let found = self.group(packager, path, now)?;
        let format = match wishes.best(BEST) {
            Some(format) => format,
            None => {
                let gathering = Gathering::of_now(now);
                let page = self.source(&found.path, &gathering);
                let other = match (self.live(&found.path, &gathering), page) {
                    (Ok(Some(live)), _) => {
                        accept::quality_of(&request.accept, live.content_type().as_bytes())
                    }
                    (_, Ok(Some(page))) => {
                        let plain = self.plain(&page);
                        let content_type = self.describe_selected(&plain).content_type;
                        accept::quality_of(&request.accept, content_type)
                    }
                    // A folder exists only as a package.
                    (Err(NoPackage::Overloaded), _) | (_, Err(NoPackage::Overloaded)) => {
                        return Some(overloaded());
                    }
                    (_, Ok(None) | Err(NoPackage::None)) => 0,
                };
                wishes.best(other)?
            }
        };
        let keys = match request.package_have.value() {
            Some(value) if format == Format::Package(Version::Two) => {
                Keys::parse(value).unwrap_or_default()
            }
            _ => Keys::default(),
        };
        let on_the_fly = packager.options.making == Making::OnTheFly;
        if !on_the_fly && keys.is_empty() {
            let package = self.package(packager, &found, format, now);
            return self.answer_package(packager, package, path, request);
        }
        let mut undecided = Undecided {
            asked: Asked::of(path, request),
            place: found.place(),
            format,
            keys,
            // Archives and packages of version 1 have no content codings. All formats except version 2 need the sizes
            // in advance.
            as_it_is: format == Format::Package(Version::Two) && on_the_fly,
            progress: Progress::default(),
        };
        match self.gather_for(packager, &mut undecided, now) {
            Some(package) => self.answer_package(packager, package, path, request),
            None => Some(Answer {
                content: Content::Undecided(Box::new(undecided.into())),
                negotiated: true,
                ..Answer::empty(Status::OK, None)
            }),
        }
    }

    /// Continues an answer whose files are being looked up. `None` if the answer needs another turn.
    pub(in crate::origin) fn decide_on(
        &self,
        undecided: &mut Undecided,
        now: Instant,
    ) -> Option<Answer> {
        let package = match &self.packager {
            Some(packager) => {
                let package = self.gather_for(packager, undecided, now)?;
                let request = undecided.asked.request();
                self.answer_package(packager, package, &undecided.asked.path, &request)
            }
            None => None,
        };
        Some(package.unwrap_or_else(|| {
            let asked = &undecided.asked;
            self.decide_plain(&asked.path, &asked.request(), now)
        }))
    }

    /// Looks up files of a package for one turn. When all files are looked up, composes the package; `None` before
    /// that.
    fn gather_for(
        &self,
        packager: &Packager,
        undecided: &mut Undecided,
        now: Instant,
    ) -> Option<Result<Arc<Composed>, NoPackage>> {
        let Undecided {
            asked,
            place,
            format,
            keys,
            as_it_is,
            progress,
        } = undecided;
        let found = place.found(packager);
        let gathering = Gathering {
            keys,
            codings: as_it_is.then(|| asked.request().accept_encoding),
            live: *as_it_is,
            ..Gathering::of_now(now)
        };
        let gathered = match self.gather_on(&found, &gathering, progress) {
            Ok(gathered) => gathered?,
            Err(lacking) => return Some(Err(lacking)),
        };
        let on_the_fly = packager.options.making == Making::OnTheFly;
        Some(
            match gathered.is_delta || on_the_fly && *format != Format::Zip {
                true => self.compose(&gathered, *format, false),
                false => self.package(packager, &found, *format, now),
            },
        )
    }

    /// Creates the answer with a package; `None` if there is no package.
    fn answer_package(
        &self,
        packager: &Packager,
        package: Result<Arc<Composed>, NoPackage>,
        path: &[u8],
        request: &Request<'_>,
    ) -> Option<Answer> {
        let composed = match package {
            Ok(composed) => composed,
            Err(NoPackage::None) => return None,
            Err(NoPackage::Overloaded) => return Some(overloaded()),
        };
        let names_base = composed.base().is_some_and(|base| base != encoded(path));
        let mut answer = self.represent(Subject::Composed(composed), request);
        answer.negotiated = true;
        answer.names_base = names_base;
        let is_content = matches!(answer.status(), Status::OK | Status::PARTIAL_CONTENT);
        if is_content && request.method == Method::Get {
            packager.sent.fetch_add(1, Ordering::Relaxed);
        }
        Some(answer)
    }

    /// Returns the checksum of a representation, which is computed once.
    pub(super) fn checksum(&self, selected: &Selected) -> Option<Checksum> {
        let place = self.checksum_place(selected)?;
        if let Some(known) = place.get() {
            return Some(*known);
        }
        let computed = checksum(self, selected)?;
        Some(*place.get_or_init(|| computed))
    }

    /// Returns the checksum of a representation, if it is already known.
    pub(in crate::origin) fn known_checksum(&self, selected: &Selected) -> Option<Checksum> {
        self.checksum_place(selected)?.get().copied()
    }

    /// Stores a checksum that was computed during sending.
    pub(in crate::origin) fn learn_checksum(&self, selected: &Selected, checksum: Checksum) {
        if let Some(place) = self.checksum_place(selected) {
            place.get_or_init(|| checksum);
        }
    }

    fn checksum_place<'a>(&'a self, selected: &'a Selected) -> Option<&'a OnceLock<Checksum>> {
        match &selected.0 {
            Place::Indexed(id) => self.packager.as_ref()?.checksums.get(id.place()),
            Place::Stored(resource, variant) => {
                Some(resource.variants()[*variant as usize].checksum())
            }
            // Packages never contain content that was compressed on the fly.
            Place::Coded(_) => None,
        }
    }

    /// Finds the group at a path: the files of its package.
    fn group<'a>(&self, packager: &'a Packager, path: &[u8], now: Instant) -> Option<Found<'a>> {
        if let Some(place) = packager.groups.find(path) {
            return Some(Found::Planned(place, packager.groups.at(place)));
        }
        let store = self.store.as_deref()?;
        match store.find(path, now) {
            Lookup::Found(resource) if packager.options.plan.is_empty() && is_html(&resource) => {
                self.scanned(packager, path, &resource, now)
                    .map(Found::Looked)
            }
            Lookup::Missing if packager.options.folders && path.ends_with(b"/") => {
                let targets = store.list(path, MOST_FILES)?;
                Some(Found::Looked(Arc::new(Group::of_folder(path, &targets))))
            }
            _ => None,
        }
    }

    /// Returns the group that the HTML of a page defines. The HTML is scanned once for each entity tag.
    fn scanned(
        &self,
        packager: &Packager,
        path: &[u8],
        resource: &Arc<Resource>,
        now: Instant,
    ) -> Option<Arc<Group>> {
        let etag = *resource.validators(0).etag;
        let mut cache = packager.cache();
        if let Some(scanned) = cache.scanned.get_mut(path)
            && scanned.etag == etag
        {
            scanned.looked_at = now;
            return Some(Arc::clone(&scanned.group));
        }
        let plain = &resource.variants()[0];
        let html = match plain.bytes() {
            Stored::Memory(body) => body.bytes().into_owned(),
            Stored::File(_) if plain.length() > LONGEST_HTML => return None,
            Stored::File(file) => {
                let whole = ByteRange {
                    first: 0,
                    end: plain.length(),
                };
                let mut html = Vec::with_capacity(plain.length() as usize);
                let store = self.store.as_deref()?;
                read_file(store, file, whole, &mut |bytes| {
                    html.extend_from_slice(bytes);
                    true
                })
                .then_some(html)?
            }
        };
        let group = Arc::new(Group::of_html(path, &encoded(path), &html));
        let scanned = Scanned {
            etag,
            group: Arc::clone(&group),
            looked_at: now,
        };
        make_room(&mut cache.scanned, |scanned| scanned.looked_at);
        cache.scanned.insert(path.into(), scanned);
        Some(group)
    }

    /// Returns the package of a group. Builds it unless it exists.
    fn package(
        &self,
        packager: &Packager,
        found: &Found<'_>,
        format: Format,
        now: Instant,
    ) -> Result<Arc<Composed>, NoPackage> {
        match (found, &self.store) {
            (Found::Planned(place, group), None) => packager.made[*place][format.place()]
                .get_or_init(|| {
                    let gathered = self.gather(group, &Gathering::of_now(now)).ok()?;
                    let composed = self.compose(&gathered, format, true).ok()?;
                    Some(self.in_one_piece(&composed))
                })
                .clone()
                .ok_or(NoPackage::None),
            _ => self.stored_package(packager, found, format, now),
        }
    }

    /// Returns the package in a store. Rebuilds it if a member file has changed.
    fn stored_package(
        &self,
        packager: &Packager,
        group: &Group,
        format: Format,
        now: Instant,
    ) -> Result<Arc<Composed>, NoPackage> {
        let Some(store) = self.store.as_deref() else {
            return Err(NoPackage::None);
        };
        let states = || -> Vec<Option<u64>> {
            let members = group.members.iter().map(|member| &member.path);
            std::iter::once(&group.path)
                .chain(members)
                .map(|path| store.state(path))
                .collect()
        };
        let key = (group.path.clone(), format);
        let mut cache = packager.cache();
        let mut now_states = None;
        if let Some(kept) = cache.kept.get_mut(&key) {
            // Files with a weak tag may change without a change of the tag.
            let is_still = now.since(kept.looked_at) < packager.options.fresh
                || !kept.about.weak && *now_states.insert(states()) == kept.states;
            if is_still
                && let Lookup::Found(whole) = store.kept(&kept.name, now)
                && whole.variants()[0].length() == kept.about.length
            {
                if now_states.is_some() {
                    kept.looked_at = now;
                }
                return Ok(Arc::new(Composed::of_whole(kept.about.clone(), whole)));
            }
        }
        // The states are read before the files are looked up. A change in between is thus detected at the next check.
        let states = now_states.unwrap_or_else(states);
        let gathering = Gathering {
            anew: true,
            ..Gathering::of_now(now)
        };
        let gathered = self.gather(group, &gathering)?;
        let composed = self.compose(&gathered, format, true)?;
        let about = composed.about();
        let digits = String::from_utf8_lossy(&about.etag[1..ETAG_LENGTH - 1]);
        let extension = format.extension();
        let name = match about.weak {
            false => format!("{digits}.{extension}"),
            // Later packages with different bytes may have the same tag, so the name also contains a number.
            true => {
                static NEXT: AtomicU64 = AtomicU64::new(0);
                let n = NEXT.fetch_add(1, Ordering::Relaxed);
                format!("{digits}-{n}.{extension}")
            }
        };
        let name = name.into_boxed_str();
        let is_kept = store.keep(&name, about.length, &mut |sink| {
            composed.write_all(self, sink)
        });
        if !is_kept {
            return Ok(composed);
        }
        let kept = Kept {
            name: name.clone(),
            about: about.clone(),
            states,
            looked_at: now,
        };
        let gone = make_room(&mut cache.kept, |kept| kept.looked_at);
        let before = cache.kept.insert(key, kept);
        for gone in [gone, before].into_iter().flatten() {
            // Folders with the same files may share one stored package.
            if cache.kept.values().all(|kept| kept.name != gone.name) {
                store.forget(&gone.name);
            }
        }
        Ok(match store.kept(&name, now) {
            Lookup::Found(whole) if whole.variants()[0].length() == about.length => {
                Arc::new(Composed::of_whole(about.clone(), whole))
            }
            _ => composed,
        })
    }

    /// Composes a package of these files. With `at_once`, the package is not composed during sending.
    fn compose(
        &self,
        gathered: &Gathered,
        format: Format,
        at_once: bool,
    ) -> Result<Arc<Composed>, NoPackage> {
        match gathered.is_open() {
            true => Composed::of_open(self, gathered),
            false => Composed::new(self, format, gathered, at_once),
        }
        .map(Arc::new)
        .ok_or(NoPackage::None)
    }

    /// Copies a package into one piece in memory.
    fn in_one_piece(&self, composed: &Composed) -> Arc<Composed> {
        let mut whole = Vec::with_capacity(composed.length() as usize);
        composed.write_all(self, &mut |bytes| {
            whole.extend_from_slice(bytes);
            true
        });
        let about = composed.about().clone();
        let resource = Resource::whole(about.format.content_type(), about.etag, Body::from(whole));
        Arc::new(Composed::of_whole(about, Arc::new(resource)))
    }
}

impl Packager {
    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Evicts the least recently checked entry if the table is full.
fn make_room<K: Clone + Eq + std::hash::Hash, V>(
    entries: &mut HashMap<K, V>,
    looked_at: impl Fn(&V) -> Instant,
) -> Option<V> {
    if entries.len() < MOST_KEPT {
        return None;
    }
    let oldest = entries
        .iter()
        .min_by_key(|(_, entry)| looked_at(entry))
        .map(|(key, _)| key.clone())?;
    entries.remove(&oldest)
}

fn overloaded() -> Answer {
    Answer::refusal(Status::SERVICE_UNAVAILABLE)
}

fn is_html(resource: &Resource) -> bool {
    resource.content_type().starts_with(b"text/html")
}

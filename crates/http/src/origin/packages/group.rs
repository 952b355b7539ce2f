//! The files of a package, and their order.

use std::collections::{HashMap, HashSet};

use super::Shared;
use crate::html::{ReferenceKind, Resolution, Resolver, Scanner};
use crate::origin::companions::{Companion, Plan};
use crate::origin::target::{self, INDEX};
use fathometer_package::name;

/// The maximum number of files in a package, without the page.
pub(super) const MOST_FILES: usize = 16_000;

/// The maximum length in bytes of HTML that is scanned for references.
pub(super) const LONGEST_HTML: u64 = 4 << 20;

/// A page or a folder, with the other files of its package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// The canonical path. A path that ends in a slash is a page if the folder has an index, otherwise a folder.
    pub path: Box<[u8]>,
    /// The member files. Critical files come first; otherwise, the order of the references is preserved.
    pub members: Vec<Member>,
}

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// The canonical path of the file.
    pub path: Box<[u8]>,
    /// The name of the file in the package: its request target without the leading slash.
    pub name: Box<str>,
    pub critical: bool,
}

impl Member {
    /// Creates the member for a request target; `None` if a package cannot contain a file with this name.
    pub fn of_target(target: &str, critical: bool) -> Option<Member> {
        let mut scratch = Vec::new();
        let path = target::canonical(target.as_bytes(), &mut scratch).ok()??;
        let name = target.strip_prefix('/')?;
        // A target with a query does not identify a file.
        if target.contains('?') || name::check(name.as_bytes()).is_err() {
            return None;
        }
        Some(Member {
            path: path.into(),
            name: name.into(),
            critical,
        })
    }
}

impl Group {
    /// Creates a group with the critical members first. Duplicates and the page itself are removed.
    fn new(path: &[u8], members: impl IntoIterator<Item = Member>) -> Group {
        let mut known = HashSet::from([Box::<[u8]>::from(path)]);
        let (critical, others): (Vec<Member>, Vec<Member>) = members
            .into_iter()
            .filter(|member| known.insert(member.path.clone()))
            .take(MOST_FILES)
            .partition(|member| member.critical);
        Group {
            path: path.into(),
            members: critical.into_iter().chain(others).collect(),
        }
    }

    /// Creates the group of the page at `path` from the references in its HTML. `target` is the request target of the
    /// page.
    pub fn of_html(path: &[u8], target: &str, html: &[u8]) -> Group {
        let mut scanner = Scanner::new();
        // The server's host name is unknown here, so every reference with a host is treated as external.
        let mut resolver = Resolver::new("", target);
        let mut members = Vec::new();
        let mut rest = html;
        while let Some(reference) = scanner.scan(&mut rest) {
            if reference.kind == ReferenceKind::Base {
                resolver.rebase(reference.value);
            } else if let Resolution::Target(target) = resolver.resolve(reference.value) {
                let critical = matches!(
                    reference.kind,
                    ReferenceKind::StyleSheet | ReferenceKind::Script
                );
                members.extend(Member::of_target(&target, critical));
            }
        }
        Group::new(path, members)
    }

    /// Creates the group of a folder from the targets of its files.
    pub fn of_folder(path: &[u8], targets: &[String]) -> Group {
        let members = targets
            .iter()
            .filter_map(|target| Member::of_target(target, false));
        Group::new(path, members)
    }
}

/// The groups of a plan.
#[derive(Debug, Default)]
pub(super) struct Groups {
    places: HashMap<Box<[u8]>, usize>,
    groups: Vec<Group>,
}

impl Groups {
    /// Creates the groups of a plan. With [`Shared::Once`], a file of several pages is a member only of the first
    /// page's group. The groups of folders are always complete.
    pub fn new(plan: &Plan, shared: Shared) -> Groups {
        let mut places: HashMap<Box<[u8]>, usize> = HashMap::new();
        let mut lines: Vec<(&[u8], Vec<Member>)> = Vec::new();
        for (base, companions) in plan.lines() {
            let place = *places.entry(base.into()).or_insert(lines.len());
            if place == lines.len() {
                lines.push((base, Vec::new()));
            }
            let members = companions.iter().filter_map(|companion| {
                Member::of_target(companion.target(), is_critical(companion))
            });
            lines[place].1.extend(members);
        }
        let mut known = HashSet::new();
        let groups = lines
            .into_iter()
            .map(|(base, members)| {
                let is_page = !base.ends_with(b"/");
                let members = members
                    .into_iter()
                    .map(|member| Member {
                        critical: member.critical && is_page,
                        ..member
                    })
                    .filter(|member| {
                        shared == Shared::Repeated || !is_page || known.insert(member.path.clone())
                    });
                Group::new(base, members)
            })
            .collect();
        Groups { places, groups }
    }

    /// Makes `alias` another path of the group at `path`.
    pub fn alias(&mut self, alias: &[u8], path: &[u8]) {
        if let Some(&place) = self.places.get(path) {
            self.places.entry(alias.into()).or_insert(place);
        }
    }

    /// Finds the index of the group at a canonical path. A folder and its index have the same group.
    pub fn find(&self, path: &[u8]) -> Option<usize> {
        if let Some(&place) = self.places.get(path) {
            return Some(place);
        }
        let other = match path.strip_suffix(INDEX) {
            Some(folder) if folder.ends_with(b"/") => folder.to_vec(),
            _ if path.ends_with(b"/") => [path, INDEX].concat(),
            _ => return None,
        };
        self.places.get(&other[..]).copied()
    }

    /// The group with this index.
    pub fn at(&self, place: usize) -> &Group {
        &self.groups[place]
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }
}

/// Whether a page cannot be shown without the file.
fn is_critical(companion: &Companion) -> bool {
    matches!(companion.destination(), Some("style" | "script"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(group: &Group) -> Vec<&str> {
        group.members.iter().map(|member| &*member.name).collect()
    }

    #[test]
    fn critical_files_come_first_and_none_comes_twice() {
        let plan: Plan = "/a.html /1.png /s.css /2.png /j.js /1.png /a.html /q?x\n\
                          /a.html /3.png\n/f/ /f/2 /f/1.css\n"
            .parse()
            .unwrap();
        let groups = Groups::new(&plan, Shared::Repeated);
        let page = groups.at(groups.find(b"/a.html").unwrap());
        assert_eq!(names(page), ["s.css", "j.js", "1.png", "2.png", "3.png"]);
        assert!(page.members[1].critical && !page.members[2].critical);
        let folder = groups.at(groups.find(b"/f/").unwrap());
        assert_eq!(names(folder), ["f/2", "f/1.css"]);
        assert!(groups.find(b"/f").is_none() && groups.find(b"/1.png").is_none());
    }

    #[test]
    fn a_folder_and_its_index_are_one_page() {
        let plan: Plan = "/a/index.html /1\n/b/ /2\n".parse().unwrap();
        let mut groups = Groups::new(&plan, Shared::Repeated);
        assert_eq!(groups.find(b"/a/"), groups.find(b"/a/index.html"));
        assert_eq!(groups.find(b"/b/index.html"), groups.find(b"/b/"));
        assert_eq!(groups.find(b"/aindex.html"), None);
        assert_eq!(groups.find(b"/"), None);
        groups.alias(b"/", b"/b/");
        assert_eq!(groups.find(b"/"), groups.find(b"/b/"));
    }

    #[test]
    fn shared_files_go_into_the_first_page_alone() {
        let plan: Plan = "/a /s.css /1\n/b /s.css /2\n/f/ /s.css\n/c /2 /1 /3\n"
            .parse()
            .unwrap();
        let groups = Groups::new(&plan, Shared::Once);
        let members: Vec<_> = (0..groups.len())
            .map(|place| names(groups.at(place)))
            .collect();
        assert_eq!(
            members,
            [vec!["s.css", "1"], vec!["2"], vec!["s.css"], vec!["3"]]
        );
    }

    #[test]
    fn what_the_html_names_goes_with_a_page() {
        let html = b"<html><link rel=stylesheet href=s.css><img src='../b%20c.png'>\
                     <script src=later.js defer></script><script src=/now.js></script>\
                     <img src=http://elsewhere/x.png><img src=?q><img src=data:,x><img src=s.css>";
        let group = Group::of_html(b"/d/p.html", "/d/p.html", html);
        assert_eq!(
            names(&group),
            ["d/s.css", "now.js", "b%20c.png", "d/later.js"]
        );
        assert_eq!(&*group.members[2].path, b"/b c.png");
        let critical: Vec<bool> = group.members.iter().map(|member| member.critical).collect();
        assert_eq!(critical, [true, true, false, false]);
    }
}

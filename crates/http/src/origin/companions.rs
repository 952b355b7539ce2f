//! The files that belong to a page. A server may push them with the page (RFC 9113 section 8.4), or announce them
//! before the page is ready (103 Early Hints, RFC 8297).

use std::collections::{HashMap, HashSet};
use std::str::FromStr;

use fathometer_model::{File, Site};

use super::target;

/// The companion files of base files.
///
/// Text format: each line contains the target of a base file, followed by the targets of its companions, separated by
/// white space. A base file may have several lines. A word that starts with `#` begins a comment. A folder and its
/// `index.html` are the same base file.
///
/// ```text
/// # base        companions
/// /index.html   /style.css /script.js
/// /index.html   /logo.png
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The lines, in the order of the text. Bases are canonical paths.
    lines: Vec<(Box<[u8]>, Vec<Companion>)>,
}

impl Plan {
    /// Creates the plan of a site. The companions of a page are its embedded files, in document order. The companions
    /// of a folder (a base that ends in a slash) are the files in it that belong to no page, in the order of the site.
    pub fn of_site(site: &Site) -> Plan {
        let mut plan = Plan::default();
        let mut in_pages = HashSet::new();
        for page in &site.pages {
            in_pages.insert(page.base);
            in_pages.extend(page.embedded.iter().copied());
            let embedded = page.embedded.iter().map(|file| site.file(*file));
            plan.add(&site.file(page.base).path, embedded);
        }
        let mut folders: Vec<(&str, Vec<&File>)> = Vec::new();
        let mut places = HashMap::new();
        for (place, file) in site.files.iter().enumerate() {
            if in_pages.contains(&fathometer_model::FileId(place as u32)) {
                continue;
            }
            let slash = file.path.rfind('/').map_or(0, |slash| slash + 1);
            let folder = &file.path[..slash];
            let at = *places.entry(folder).or_insert_with(|| {
                folders.push((folder, Vec::new()));
                folders.len() - 1
            });
            folders[at].1.push(file);
        }
        for (folder, files) in folders {
            plan.add(folder, files);
        }
        plan
    }

    /// Adds the lines of another plan.
    pub fn extend(&mut self, other: &Plan) {
        self.lines.extend(other.lines.iter().cloned());
    }

    /// Whether no base has companions.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Iterates over the bases with their companions. A base may occur several times.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&[u8], &[Companion])> {
        self.lines
            .iter()
            .map(|(base, companions)| (&**base, &companions[..]))
    }

    fn add<'s>(&mut self, base: &str, files: impl IntoIterator<Item = &'s File>) {
        let mut scratch = Vec::new();
        let Ok(Some(path)) = target::canonical(base.as_bytes(), &mut scratch) else {
            return;
        };
        let companions = files.into_iter().map(|file| Companion {
            target: file.path.as_str().into(),
        });
        self.lines.push((path.into(), companions.collect()));
    }
}

/// A file that belongs to a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    target: Box<str>,
}

impl Companion {
    /// The target of the file: a path, in the form of a request target.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The use of the file in a browser (a destination of the Fetch standard), derived from the file extension.
    pub(super) fn destination(&self) -> Option<&'static str> {
        let path = self.target.split('?').next().unwrap_or_default();
        let (_, ending) = path.rsplit_once('.')?;
        Some(match ending {
            "css" => "style",
            "js" | "mjs" => "script",
            "gif" | "png" | "jpg" | "jpeg" | "webp" | "avif" | "svg" | "ico" => "image",
            "woff" | "woff2" | "ttf" | "otf" => "font",
            _ => return None,
        })
    }

    fn write_link(&self, value: &mut Vec<u8>) {
        if !value.is_empty() {
            value.extend_from_slice(b", ");
        }
        value.push(b'<');
        value.extend_from_slice(self.target.as_bytes());
        value.extend_from_slice(b">; rel=preload");
        if let Some(destination) = self.destination() {
            value.extend_from_slice(b"; as=");
            value.extend_from_slice(destination.as_bytes());
            // Browsers fetch fonts in CORS mode, so the preload must use the same mode.
            if destination == "font" {
                value.extend_from_slice(b"; crossorigin");
            }
        }
    }
}

/// The reason why the text of a plan is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ParsePlanError {
    line: usize,
    reason: String,
}

impl FromStr for Plan {
    type Err = ParsePlanError;

    fn from_str(text: &str) -> Result<Plan, ParsePlanError> {
        let mut plan = Plan::default();
        for (number, line) in text.lines().enumerate() {
            let refused = |reason: String| ParsePlanError {
                line: number + 1,
                reason,
            };
            let mut words = line
                .split_ascii_whitespace()
                .take_while(|word| !word.starts_with('#'));
            let Some(base) = words.next() else {
                continue;
            };
            let mut scratch = Vec::new();
            let path = target::canonical(base.as_bytes(), &mut scratch);
            let base = match path {
                Ok(Some(path)) if is_target(base) && !base.contains('?') => path.into(),
                _ => return Err(refused(format!("{base:?} is not the path of a file"))),
            };
            let companions = words
                .map(|word| {
                    let target = is_target(word).then(|| Companion {
                        target: word.into(),
                    });
                    target.ok_or_else(|| {
                        refused(format!(
                            "{word:?} is not a target: a target starts with a slash"
                        ))
                    })
                })
                .collect::<Result<Vec<_>, _>>()?;
            if companions.is_empty() {
                return Err(refused(
                    "the file has no companions: list companions after the path of the file"
                        .to_owned(),
                ));
            }
            plan.lines.push((base, companions));
        }
        Ok(plan)
    }
}

/// Whether the word is valid as a request target and within the angle brackets of a `Link` field.
fn is_target(word: &str) -> bool {
    word.starts_with('/')
        && !word.starts_with("//")
        && word
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"<>#\"\\".contains(&byte))
}

/// The index of a page with companions in a [`Table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageId(u32);

/// Plans, indexed for look-ups.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The pages by their [`key`].
    places: HashMap<Box<[u8]>, PageId>,
    pages: Vec<Page>,
}

/// Returns the common key of a folder and its index file.
fn key(path: &[u8]) -> &[u8] {
    let folder = path.strip_suffix(target::INDEX);
    folder
        .filter(|folder| folder.ends_with(b"/"))
        .unwrap_or(path)
}

#[derive(Debug, Default)]
struct Page {
    pushed: Vec<Companion>,
    /// The value of the `Link` field; empty if there are no files to announce.
    link: Vec<u8>,
}

impl Table {
    pub fn new(push: Plan, early_hints: Plan) -> Table {
        let mut table = Table::default();
        for (base, companions) in push.lines {
            table.page(&base).pushed.extend(companions);
        }
        for (base, companions) in early_hints.lines {
            let page = table.page(&base);
            for companion in companions {
                companion.write_link(&mut page.link);
            }
        }
        table
    }

    fn page(&mut self, base: &[u8]) -> &mut Page {
        let next = PageId(self.pages.len() as u32);
        let id = *self.places.entry(key(base).into()).or_insert(next);
        if id == next {
            self.pages.push(Page::default());
        }
        &mut self.pages[id.0 as usize]
    }

    /// The page at a canonical path, if the page has companions.
    pub fn find(&self, path: &[u8]) -> Option<PageId> {
        if self.places.is_empty() {
            return None;
        }
        self.places.get(key(path)).copied()
    }

    /// Makes `alias` another path of the page at `path`, unless `alias` has its own plan.
    pub fn alias(&mut self, alias: &[u8], path: &[u8]) {
        if let Some(id) = self.find(path) {
            self.places.entry(key(alias).into()).or_insert(id);
        }
    }

    pub fn hints_early(&self) -> bool {
        self.pages.iter().any(|page| !page.link.is_empty())
    }

    pub fn pushed(&self, id: PageId) -> &[Companion] {
        &self.pages[id.0 as usize].pushed
    }

    pub fn link(&self, id: PageId) -> Option<&[u8]> {
        let link = &self.pages[id.0 as usize].link;
        (!link.is_empty()).then_some(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        text.parse().unwrap()
    }

    #[test]
    fn a_plan_names_the_companions_of_a_page() {
        let push = plan(
            "# all of them\n/a%62c.html\t/x.css /y?z  # styles\n\n/other /x.css\n/abc.html /z\n",
        );
        let hints = plan("/abc.html /x.css /f.woff2 /y /m.mjs?v=1\n");
        let table = Table::new(push, hints);
        let page = table.find(b"/abc.html").unwrap();
        let targets: Vec<&str> = table.pushed(page).iter().map(Companion::target).collect();
        assert_eq!(targets, ["/x.css", "/y?z", "/z"]);
        assert_eq!(
            table.link(page),
            Some(
                &b"</x.css>; rel=preload; as=style, </f.woff2>; rel=preload; as=font; crossorigin, \
                   </y>; rel=preload, </m.mjs?v=1>; rel=preload; as=script"[..]
            )
        );
        let other = table.find(b"/other").unwrap();
        assert_eq!(table.link(other), None);
        assert_eq!(table.pushed(other).len(), 1);
        assert_eq!(table.find(b"/"), None);
        assert_eq!(Table::default().find(b"/other"), None);
    }

    #[test]
    fn a_folder_and_its_index_have_one_plan() {
        let mut table = Table::new(
            plan("/index.html /a\n/d/ /b\n/e/my-index.html /c\n"),
            plan("/ /h\n"),
        );
        for (folder, index, target) in [("/", "/index.html", "/a"), ("/d/", "/d/index.html", "/b")]
        {
            let page = table.find(folder.as_bytes()).unwrap();
            assert_eq!(table.find(index.as_bytes()), Some(page));
            assert_eq!(table.pushed(page)[0].target(), target);
        }
        let root = table.find(b"/").unwrap();
        assert_eq!(table.link(root), Some(&b"</h>; rel=preload"[..]));
        assert_eq!(table.find(b"/e/"), None);
        table.alias(b"/e/", b"/e/my-index.html");
        table.alias(b"/", b"/e/my-index.html");
        assert_eq!(
            table.find(b"/e/index.html"),
            table.find(b"/e/my-index.html")
        );
        assert_eq!(table.find(b"/"), Some(root), "the alias has its own plan");
    }

    #[test]
    fn the_plan_of_a_site_has_its_pages_and_its_lists() {
        let file = |path: &str| File {
            path: path.to_owned(),
            content_type: "text/plain".into(),
            body: Vec::new().into(),
            encoded: Vec::new(),
            last_modified: 0,
        };
        let site = Site {
            name: "test".to_owned(),
            files: ["/a.html", "/i/x.png", "/l/2", "/l/1%20", "/i/y.png"]
                .map(file)
                .into(),
            pages: vec![fathometer_model::Page {
                base: fathometer_model::FileId(0),
                embedded: vec![fathometer_model::FileId(4), fathometer_model::FileId(1)],
                named_by: Vec::new(),
            }],
        };
        let expected = plan("/a.html /i/y.png /i/x.png\n/l/ /l/2 /l/1%20\n");
        assert_eq!(Plan::of_site(&site), expected);
        assert!(Plan::default().is_empty() && !expected.is_empty());
    }

    #[test]
    fn an_invalid_plan_is_an_error_with_its_line() {
        for (text, line) in [
            ("/a /b\nc /d", 2),
            ("/a b", 1),
            ("\n\n/a", 3),
            ("/a //host/b", 1),
            ("/a?q /b", 1),
            ("/a /b>;x", 1),
            ("/%zz /b", 1),
        ] {
            let error = text.parse::<Plan>().unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
        }
        assert_eq!(plan("# nothing\n"), Plan::default());
    }
}

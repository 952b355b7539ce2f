//! Sources of a package: the files of a folder, of a page in it, or of a list.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use fathometer_http::html::{ReferenceKind, Resolution, Resolver, Scanner};
use fathometer_package as package;
use rustix::fs::{Mode, OFlags};

use super::flow::{CHUNK, Flow, open_below};
use super::output::Output;
use super::{PackageError, har, name};

/// Maximum length of a line in a list of names, in bytes.
const LONGEST_LINE: usize = 16 * 1024;

/// A file to pack.
#[derive(Debug, Clone)]
pub enum Item {
    /// A file in the folder.
    OnDisk {
        /// Its name in the package.
        name: String,
        /// Its path, relative to the folder.
        path: PathBuf,
        /// Whether the page cannot be displayed without it.
        critical: bool,
    },
    /// A file of an HTTP archive.
    Spooled(Box<har::Resource>),
}

/// A sequence of files to pack.
pub trait Items {
    /// Returns the next file. An implementation that must wait for it flushes `output` first.
    fn next(&mut self, output: &mut Output) -> Result<Option<Item>, PackageError>;

    /// Whether the names are in ascending byte order.
    fn ascend(&self) -> bool {
        false
    }

    /// The number of files, if known.
    fn count(&self) -> Option<u64> {
        None
    }
}

/// A sequence whose files are all known in advance.
#[derive(Debug, Default)]
pub struct Known {
    items: VecDeque<Item>,
    ascend: bool,
    /// Descriptions of what was left out.
    pub left_out: Vec<String>,
}

impl Items for Known {
    fn next(&mut self, _output: &mut Output) -> Result<Option<Item>, PackageError> {
        Ok(self.items.pop_front())
    }

    fn ascend(&self) -> bool {
        self.ascend
    }

    fn count(&self) -> Option<u64> {
        Some(self.items.len() as u64)
    }
}

impl Known {
    /// These files in this order.
    pub fn new(items: impl IntoIterator<Item = Item>, left_out: Vec<String>) -> Known {
        Known {
            items: items.into_iter().collect(),
            ascend: false,
            left_out,
        }
    }

    /// The files, in their order.
    pub fn into_items(self) -> impl Iterator<Item = Item> {
        self.items.into_iter()
    }
}

/// A folder whose files are packed.
#[derive(Debug)]
pub struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder.
    pub fn open(path: &Path) -> Result<Folder, PackageError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| PackageError::system("open the folder", path)(error.into()))?;
        Ok(Folder {
            descriptor,
            path: path.to_owned(),
        })
    }

    /// The path of one of its files for messages.
    pub fn shown(&self, path: &Path) -> PathBuf {
        self.path.join(path)
    }

    /// Opens one of its regular files, and returns its metadata.
    pub fn file(&self, path: &Path) -> Result<(File, Metadata), PackageError> {
        open_below(&self.descriptor, path).map_err(PackageError::system("open", &self.shown(path)))
    }

    /// Every regular file below it, and those that symbolic links refer to within it; links to folders are not
    /// followed. Sorted by name, in byte order.
    pub fn files(&self) -> Result<Known, PackageError> {
        let mut known = Known {
            ascend: true,
            ..Known::default()
        };
        let root = self
            .path
            .canonicalize()
            .map_err(PackageError::system("open the folder", &self.path))?;
        let mut paths = Vec::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let whole = self.path.join(&folder);
            let failed = || PackageError::system("read the folder", &whole);
            for entry in fs::read_dir(&whole).map_err(failed())? {
                let entry = entry.map_err(failed())?;
                let path = folder.join(entry.file_name());
                let kind = entry
                    .file_type()
                    .map_err(PackageError::system("look at", &self.shown(&path)))?;
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file()
                    || (kind.is_symlink() && stays_within(&root, &entry.path()))
                {
                    paths.push(path);
                } else {
                    let why = match kind.is_symlink() {
                        true => "a symbolic link to a folder, out of this one, or to nothing",
                        false => "neither a file nor a folder",
                    };
                    known
                        .left_out
                        .push(format!("{} is {why}", self.shown(&path).display()));
                }
            }
        }
        let mut items: Vec<(String, PathBuf)> = paths
            .into_iter()
            .filter_map(|path| Some((name::of_path(&path)?, path)))
            .collect();
        items.sort();
        let on_disk = |(name, path)| Item::OnDisk {
            name,
            path,
            critical: false,
        };
        known.items = items.into_iter().map(on_disk).collect();
        Ok(known)
    }

    /// A page of it: the HTML file at this relative path, then its critical files, then the other embedded
    /// files. Files of another host and missing files are left out.
    pub fn page(&self, page: &str) -> Result<Known, PackageError> {
        let mut path = page.trim_start_matches('/').to_owned();
        if path.is_empty() || path.ends_with('/') {
            path.push_str("index.html");
        }
        let path = PathBuf::from(path);
        let Some(name) = name::of_path(&path) else {
            return Err(PackageError::Source(format!(
                "{page} is no page of {}: give its path from there",
                self.path.display()
            )));
        };
        let mut left_out = Vec::new();
        let mut critical = vec![Item::OnDisk {
            name: name.clone(),
            path: path.clone(),
            critical: true,
        }];
        let mut others = Vec::new();
        let mut seen = HashSet::from([name.clone()]);
        for (kind, resolution) in self.references(&path, &name)? {
            let target = match resolution {
                Resolution::Target(target) => target,
                Resolution::Elsewhere => {
                    left_out.push("a file of another host, which the page names".to_owned());
                    continue;
                }
                Resolution::Nothing => continue,
            };
            let name = target.trim_start_matches('/').to_owned();
            if !seen.insert(name.clone()) {
                continue;
            }
            // Only a server interprets a query; the file is the same.
            let file = name.split('?').next().and_then(name::to_path);
            let is_there = file.as_ref().is_some_and(|file| self.file(file).is_ok());
            let (Some(path), true) = (file, is_there) else {
                left_out.push(format!(
                    "/{name}, which the page names, is not in the folder"
                ));
                continue;
            };
            if let Err(error) = package::name::check(name.as_bytes()) {
                left_out.push(format!(
                    "/{name}: no file of a package has such a name, it {error}"
                ));
                continue;
            }
            let is_critical = matches!(kind, ReferenceKind::StyleSheet | ReferenceKind::Script);
            let item = Item::OnDisk {
                name,
                path,
                critical: is_critical,
            };
            match is_critical {
                true => critical.push(item),
                false => others.push(item),
            }
        }
        critical.extend(others);
        Ok(Known::new(critical, left_out))
    }

    /// The references in the HTML at `path`, in document order.
    fn references(
        &self,
        path: &Path,
        name: &str,
    ) -> Result<Vec<(ReferenceKind, Resolution)>, PackageError> {
        let (mut file, _) = self.file(path)?;
        let mut scanner = Scanner::new();
        let mut resolver = Resolver::new("", &format!("/{name}"));
        let mut references = Vec::new();
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = file
                .read(&mut buffer)
                .map_err(PackageError::system("read", &self.shown(path)))?;
            if read == 0 {
                return Ok(references);
            }
            let mut html = &buffer[..read];
            while let Some(reference) = scanner.scan(&mut html) {
                match reference.kind {
                    ReferenceKind::Base => resolver.rebase(reference.value),
                    kind => references.push((kind, resolver.resolve(reference.value))),
                }
            }
        }
    }
}

fn stays_within(root: &Path, link: &Path) -> bool {
    link.canonicalize()
        .is_ok_and(|real| real.starts_with(root) && real.is_file())
}

/// Files of a folder whose paths arrive in a stream, one per line. Each file is packed as soon as its line
/// arrives.
#[derive(Debug)]
pub struct List {
    flow: Flow,
    buffer: Vec<u8>,
    /// Number of bytes of the buffer that were already processed.
    passed: usize,
    separator: u8,
    at_end: bool,
}

impl List {
    /// The list in `flow`; its paths are relative to the folder, and separated by `separator`.
    pub fn new(flow: Flow, separator: u8) -> List {
        List {
            flow,
            buffer: Vec::new(),
            passed: 0,
            separator,
            at_end: false,
        }
    }

    fn item(&self, line: &[u8]) -> Result<Item, PackageError> {
        let path = Path::new(OsStr::from_bytes(line));
        let name = name::of_path(path).ok_or_else(|| {
            PackageError::Source(format!(
                "{} lists {}, which is not below the folder: give paths from there",
                self.flow.path().display(),
                path.display()
            ))
        })?;
        Ok(Item::OnDisk {
            name,
            path: path.to_owned(),
            critical: false,
        })
    }
}

impl Items for List {
    fn next(&mut self, output: &mut Output) -> Result<Option<Item>, PackageError> {
        loop {
            let rest = &self.buffer[self.passed..];
            let end = rest.iter().position(|&byte| byte == self.separator);
            let end = end.or_else(|| self.at_end.then_some(rest.len()));
            if let Some(end) = end {
                if rest.is_empty() {
                    return Ok(None);
                }
                let line = rest[..end].to_vec();
                self.passed = (self.passed + end + 1).min(self.buffer.len());
                if line.is_empty() {
                    continue;
                }
                return self.item(&line).map(Some);
            }
            self.buffer.drain(..self.passed);
            self.passed = 0;
            if self.buffer.len() > LONGEST_LINE {
                return Err(PackageError::Source(format!(
                    "{} is no list of paths: a line is longer than {LONGEST_LINE} octets",
                    self.flow.path().display()
                )));
            }
            // Pass everything so far to the reader of the package before waiting.
            output.flush()?;
            let filled = self.buffer.len();
            self.buffer.resize(filled + 4096, 0);
            let read = self.flow.read(&mut self.buffer[filled..])?;
            self.buffer.truncate(filled + read);
            self.at_end = read == 0;
        }
    }
}

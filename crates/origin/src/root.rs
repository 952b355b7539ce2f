//! A folder from which files are opened. No path leads out of this folder.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathometer_http::origin::encoding::Coding;
use fathometer_http::origin::store::{EntityTag, digest_of};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use fathometer_files::site_folder::CODINGS;

/// The folder beneath which all paths are resolved.
#[derive(Debug)]
pub(super) struct Root {
    folder: OwnedFd,
    path: PathBuf,
    /// Whether precompressed files in the codings of [`LATER_CODINGS`] are representations of a file.
    pub later_codings: bool,
    /// The number of files opened so far.
    pub opens: AtomicU64,
}

/// An opened file, and its identity when it was opened.
pub(super) struct Opened {
    pub file: OwnedFd,
    pub identity: Identity,
}

/// The file of a path and the precompressed files beside it.
pub(super) struct Found {
    pub name: PathBuf,
    pub plain: Opened,
    pub coded: Vec<(Coding, Opened)>,
}

pub(super) enum Refused {
    Missing,
    Folder,
    Forbidden,
    Overloaded,
}

/// If a file was unchanged for this time, any further change alters its times. Some file systems store times in whole
/// seconds.
pub const SETTLED: Duration = Duration::from_secs(2);

/// Codings that the sites of the studies do not use, and their file name extensions.
const LATER_CODINGS: [(Coding, &str); 2] = [(Coding::Brotli, "br"), (Coding::Zstd, "zst")];

const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY)
    // Opening a pipe without a writer must not block.
    .union(OFlags::NONBLOCK);

impl Root {
    pub fn open(folder: &Path) -> io::Result<Root> {
        let path = folder.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Root {
            folder: fs::open(&path, flags, Mode::empty())?,
            path,
            later_codings: false,
            opens: AtomicU64::new(0),
        })
    }

    /// Returns a number that identifies the state of the file at a canonical path, computed without opening the file.
    /// Different states give different numbers.
    pub fn state(&self, path: &[u8]) -> Option<u64> {
        let name = name_of(path)?;
        // This also follows links out of the folder. A client can learn only that the target of a link has
        // changed.
        let stat = fs::statat(&self.folder, OsStr::from_bytes(&name), AtFlags::empty()).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then(|| Identity::of(&stat).digest())
    }

    /// Finds the file at a canonical path.
    pub fn look(&self, path: &[u8]) -> Result<Found, Refused> {
        let mut name = name_of(path).ok_or(Refused::Missing)?;
        let plain = match self.open_beneath(&name) {
            Ok(opened) => opened,
            Err(error) => return Err(Refused::from(error)),
        };
        let plain = match plain {
            Some(plain) => plain,
            None => {
                name.extend_from_slice(b"/index.html");
                return Err(match self.open_beneath(&name) {
                    Ok(Some(_)) => Refused::Folder,
                    _ => Refused::Missing,
                });
            }
        };
        let mut coded: Vec<(Coding, Opened)> = Vec::new();
        let later = match self.later_codings {
            true => &LATER_CODINGS[..],
            false => &[],
        };
        let codings = CODINGS.map(|(coding, ending)| (Coding::from(coding), ending));
        for (coding, ending) in codings.into_iter().chain(later.iter().copied()) {
            if coded.iter().any(|(known, _)| *known == coding) {
                continue;
            }
            let whole = name.len();
            name.push(b'.');
            name.extend_from_slice(ending.as_bytes());
            if let Ok(Some(opened)) = self.open_beneath(&name)
                && opened.identity.modified >= plain.identity.modified
            {
                coded.push((coding, opened));
            }
            name.truncate(whole);
        }
        Ok(Found {
            name: PathBuf::from(OsStr::from_bytes(&name)),
            plain,
            coded,
        })
    }

    /// Opens a folder beneath this folder; an empty name opens this folder.
    pub fn open_folder(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        let name = match name {
            [] => b".",
            name if name.starts_with(b"/") || name.windows(2).any(|pair| pair == b"//") => {
                return Err(Errno::NOENT);
            }
            name => name,
        };
        self.open_at(Path::new(OsStr::from_bytes(name)), READ | OFlags::DIRECTORY)
    }

    /// Opens a regular file beneath the folder; `None` if it is a folder.
    fn open_beneath(&self, name: &[u8]) -> Result<Option<Opened>, Errno> {
        let file = self.open_at(Path::new(OsStr::from_bytes(name)), READ)?;
        let stat = fs::fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                self.opens.fetch_add(1, Ordering::Relaxed);
                Ok(Some(Opened {
                    file,
                    identity: Identity::of(&stat),
                }))
            }
            FileType::Directory => Ok(None),
            _ => Err(Errno::NOENT),
        }
    }

    /// Opens the target of a path beneath the folder.
    fn open_at(&self, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            match fs::openat2(&self.folder, name, flags, Mode::empty(), beneath) {
                // A file was renamed while the kernel resolved the path.
                Err(Errno::AGAIN) if tries < 8 => tries += 1,
                // A symbolic link to an absolute path, which may be inside the folder.
                Err(Errno::XDEV) if !beneath.contains(ResolveFlags::NO_SYMLINKS) => {
                    let inside = self.inside(name)?;
                    beneath |= ResolveFlags::NO_SYMLINKS;
                    return fs::openat2(&self.folder, &inside, flags, Mode::empty(), beneath);
                }
                // A kernel before 5.6, or a sandbox that forbids openat2(2). A user with write access to the folder can
                // then replace a file by a link between the check and the opening.
                Err(Errno::NOSYS | Errno::PERM) => {
                    let inside = self.inside(name)?;
                    let flags = flags | OFlags::NOFOLLOW;
                    return fs::openat(&self.folder, &inside, flags, Mode::empty());
                }
                result => return result,
            }
        }
    }

    /// Follows all symbolic links of a path. Returns the target, relative to the folder; an error if the target is
    /// outside the folder.
    fn inside(&self, name: &Path) -> Result<PathBuf, Errno> {
        let real = self
            .path
            .join(name)
            .canonicalize()
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOENT))?;
        real.strip_prefix(&self.path)
            .map(Path::to_owned)
            .map_err(|_| Errno::NOENT)
    }
}

/// Returns the file name of a canonical path, relative to the folder; for the path of a folder, its index file. A path
/// with an empty segment is rejected: such a path refers to no file, and would be absolute if its first segment is
/// empty.
fn name_of(path: &[u8]) -> Option<Vec<u8>> {
    let relative = path.strip_prefix(b"/").unwrap_or(path);
    if relative.starts_with(b"/") || relative.windows(2).any(|pair| pair == b"//") {
        return None;
    }
    let mut name = relative.to_vec();
    if name.is_empty() || name.ends_with(b"/") {
        name.extend_from_slice(b"index.html");
    }
    Some(name)
}

impl From<Errno> for Refused {
    fn from(error: Errno) -> Refused {
        match error {
            Errno::ACCESS | Errno::PERM => Refused::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::AGAIN => {
                Refused::Overloaded
            }
            _ => Refused::Missing,
        }
    }
}

/// Identifies the state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    number: u64,
    pub size: u64,
    pub modified: (i64, u64),
    pub changed: (i64, u64),
}

impl Identity {
    // The kernel's types differ between architectures.
    #[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
    pub fn of(stat: &Stat) -> Identity {
        Identity {
            device: stat.st_dev as u64,
            number: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        }
    }

    pub fn now(file: &OwnedFd) -> Option<Identity> {
        fs::fstat(file).ok().map(|stat| Identity::of(&stat))
    }

    pub fn is_settled(&self, wall_clock: Duration) -> bool {
        let (seconds, nanoseconds) = self.changed;
        u64::try_from(seconds).is_ok_and(|seconds| {
            wall_clock >= Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds) + SETTLED
        })
    }

    pub fn tag(&self, coding: Option<Coding>, wall_clock: Duration) -> EntityTag {
        let mut words = [0; 8];
        words[..7].copy_from_slice(&self.words());
        words[7] = coding.map_or(0, |coding| coding as u64 + 1);
        EntityTag::of_metadata(&words, self.is_settled(wall_clock))
    }

    fn words(&self) -> [u64; 7] {
        [
            self.device,
            self.number,
            self.size,
            self.modified.0 as u64,
            self.modified.1,
            self.changed.0 as u64,
            self.changed.1,
        ]
    }

    /// A 64-bit number that differs for different states, except with probability 2^-64.
    pub fn digest(&self) -> u64 {
        digest_of(&self.words())
    }
}

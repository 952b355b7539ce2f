//! Extracts files below a folder. Each file appears under its name only when it is complete.
//!
//! Folders are opened one by one, starting at the target; a symbolic link is an error. Therefore nothing is written
//! outside the target, regardless of its contents and of concurrent changes. A file is written under a temporary name
//! next to its destination, and renamed when its content is complete and verified.
//!
//! Two files of one package may have the same destination: their names may differ only in percent-encoding, or a
//! decoded file may get the name of another file. In this case the first file is preserved, even if existing files are
//! overwritten.

use std::cell::Cell;
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::BuildHasher as _;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fathometer_model::{Bytes, ContentCoding};
use fathometer_package::Entry;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, futimens, mkdirat, openat,
    statat, unlinkat,
};
use rustix::io::Errno;

use super::rename::rename;
use super::{PackageError, name};
use fathometer_files::site_folder::CODINGS;

/// The number of coded bytes to decode in one step. The decoded bytes, at most about a thousand times as many, are in
/// memory until they are written.
const DECODED_AT_ONCE: usize = 4 * 1024;

/// The file size in bytes above which the destination is checked before writing starts.
const LOOK_BEFORE: u64 = 64 * 1024;

/// The number of bytes that may be written regardless of the ratio, because a small file may compress extremely well.
const ALWAYS: u64 = 16 << 20;

/// The options of an extraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether existing files are overwritten. Files of the same package are never overwritten.
    pub overwrite: bool,
    /// Whether content codings are decoded. File names then do not have the suffix of the coding.
    pub decode: bool,
    /// The maximum number of bytes of all files.
    pub total: u64,
    /// The highest ratio of written bytes to content bytes in the package.
    pub ratio: u64,
}

/// The numbers of bytes read and written until now, with their limits.
#[derive(Debug)]
struct Budget {
    options: Options,
    read: Cell<u64>,
    written: Cell<u64>,
}

impl Budget {
    /// Counts bytes of the package, before they are decoded.
    fn reads(&self, length: usize) {
        self.read.set(self.read.get() + length as u64);
    }

    /// Counts bytes that will be written; fails if this exceeds a limit.
    fn writes(&self, length: usize, path: &Path) -> Result<(), PackageError> {
        let written = self.written.get() + length as u64;
        self.written.set(written);
        let Options { total, ratio, .. } = self.options;
        let why = if written > total {
            format!("the files take more than {} (--max-size)", Bytes(total))
        } else if written > ALWAYS.max(self.read.get().saturating_mul(ratio)) {
            format!(
                "the decoded files take more than {ratio} times their bytes in the package (--max-ratio)"
            )
        } else {
            return Ok(());
        };
        let path = path.to_owned();
        Err(PackageError::Expands { path, why })
    }
}

/// A folder into which files are extracted.
#[derive(Debug)]
pub struct Target {
    root: Rc<OwnedFd>,
    path: PathBuf,
    options: Options,
    /// The open folder of the last file, by relative path, because the next file is usually in the same folder.
    last: Option<(PathBuf, Rc<OwnedFd>)>,
    /// The number of files started until now.
    begun: u64,
    /// The hashes of the relative paths of all files until now, which must not be overwritten. Used only if existing
    /// files are overwritten.
    written: HashSet<u64>,
    hashing: RandomState,
    budget: Rc<Budget>,
}

/// A file that is not yet complete. It is removed if it is dropped.
#[derive(Debug)]
pub struct Growing {
    file: File,
    folder: Rc<OwnedFd>,
    temporary: String,
    name: OsString,
    path: PathBuf,
    last_modified: Option<u64>,
    /// The hash of the file's relative path.
    hash: u64,
    coding: Decoder,
    renamed: bool,
    budget: Rc<Budget>,
}

/// The decoder of a content coding. Its output is written to the file and removed at once.
#[derive(Debug)]
enum Decoder {
    None,
    Gzip(MultiGzDecoder<Vec<u8>>),
    Deflate(ZlibDecoder<Vec<u8>>),
}

impl Target {
    /// Opens the folder at this path, and creates it if needed.
    pub fn open(path: &Path, options: Options) -> Result<Target, PackageError> {
        std::fs::create_dir_all(path).map_err(PackageError::system("create the folder", path))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| PackageError::system("open the folder", path)(error.into()))?;
        Ok(Target {
            root: Rc::new(root),
            path: path.to_owned(),
            options,
            last: None,
            begun: 0,
            written: HashSet::new(),
            hashing: RandomState::new(),
            budget: Rc::new(Budget {
                options,
                read: Cell::new(0),
                written: Cell::new(0),
            }),
        })
    }

    /// Starts a file.
    pub fn begin(&mut self, entry: &Entry) -> Result<Growing, PackageError> {
        let mut relative = name::to_path(&entry.name).ok_or_else(|| PackageError::Climbs {
            name: entry.name.clone(),
        })?;
        // A coded file is stored in the folder of the uncoded file, with the suffix of its coding, as in a site's
        // folder.
        if let Some(coding) = entry.coding.filter(|_| !self.options.decode)
            && let Some((_, ending)) = CODINGS.iter().find(|(known, _)| *known == coding)
        {
            relative.as_mut_os_string().push(format!(".{ending}"));
        }
        let path = self.path.join(&relative);
        let hash = self.hashing.hash_one(relative.as_os_str());
        if self.written.contains(&hash) {
            return Err(PackageError::SamePath {
                name: entry.name.clone(),
                path,
            });
        }
        let folder = self.folder(relative.parent().unwrap_or(Path::new("")))?;
        let name = relative.file_name().unwrap_or_default().to_owned();
        if entry.size.is_none_or(|size| size > LOOK_BEFORE) {
            self.look(&folder, &name, &path)?;
        }
        let mode = match (entry.attributes.executable, entry.attributes.read_only) {
            (false, false) => 0o666,
            (false, true) => 0o444,
            (true, false) => 0o777,
            (true, true) => 0o555,
        };
        let (file, temporary) = self
            .create(&folder, Mode::from_raw_mode(mode))
            .map_err(PackageError::system("make", &path))?;
        Ok(Growing {
            file: File::from(file),
            folder,
            temporary,
            name,
            path,
            last_modified: entry.last_modified,
            hash,
            coding: match entry.coding.filter(|_| self.options.decode) {
                None => Decoder::None,
                Some(ContentCoding::Gzip) => Decoder::Gzip(MultiGzDecoder::new(Vec::new())),
                Some(ContentCoding::Deflate) => Decoder::Deflate(ZlibDecoder::new(Vec::new())),
            },
            renamed: false,
            budget: Rc::clone(&self.budget),
        })
    }

    /// Renames a complete file to its final name.
    pub fn finish(&mut self, mut file: Growing) -> Result<(), PackageError> {
        file.end_of_coding()?;
        if let Some(second) = file.last_modified {
            let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
            let times = Timestamps {
                last_access: time(0, UTIME_NOW),
                last_modification: time(i64::try_from(second).unwrap_or(i64::MAX), 0),
            };
            // An error is ignored, because some file systems cannot store every time.
            let _ = futimens(&file.file, &times);
        }
        self.rename(&file)?;
        file.renamed = true;
        if self.options.overwrite {
            self.written.insert(file.hash);
        }
        Ok(())
    }

    fn rename(&mut self, file: &Growing) -> Result<(), PackageError> {
        let (folder, to) = (file.folder.as_fd(), &file.name);
        match rename(folder, file.temporary.as_ref(), to, self.options.overwrite) {
            Err(Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY) => {
                self.look(&file.folder, to, &file.path)?;
                Err(PackageError::Exists(file.path.clone()))
            }
            result => {
                result.map_err(|error| PackageError::system("write", &file.path)(error.into()))
            }
        }
    }

    /// Fails if the destination exists and must not be overwritten.
    fn look(&self, folder: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), PackageError> {
        match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(_) => Ok(()),
            Ok(data) if FileType::from_raw_mode(data.st_mode) == FileType::Directory => {
                Err(PackageError::IsFolder(path.to_owned()))
            }
            Ok(_) if self.options.overwrite => Ok(()),
            Ok(_) => Err(PackageError::Exists(path.to_owned())),
        }
    }

    /// Opens the folder at a relative path, and creates it if needed.
    fn folder(&mut self, relative: &Path) -> Result<Rc<OwnedFd>, PackageError> {
        if let Some((last, folder)) = &self.last
            && last == relative
        {
            return Ok(Rc::clone(folder));
        }
        let mut folder = Rc::clone(&self.root);
        let mut path = self.path.clone();
        for segment in relative {
            path.push(segment);
            folder = Rc::new(step(&folder, segment, &path)?);
        }
        self.last = Some((relative.to_owned(), Rc::clone(&folder)));
        Ok(folder)
    }

    /// Creates a file with a unique temporary name.
    fn create(&mut self, folder: &OwnedFd, mode: Mode) -> io::Result<(OwnedFd, String)> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = format!(".fathometer-{}-{}.partial", std::process::id(), self.begun);
            self.begun += 1;
            match openat(folder, &name, flags, mode) {
                Ok(file) => return Ok((file, name)),
                // The existing file remains from another program with the same process ID.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Opens a folder within a folder, or creates it. Never follows a link.
fn step(folder: &OwnedFd, segment: &OsStr, path: &Path) -> Result<OwnedFd, PackageError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || openat(folder, segment, flags, Mode::empty());
    let opened = match open() {
        Err(Errno::NOENT) => match mkdirat(folder, segment, Mode::from_raw_mode(0o777)) {
            // Another program may have created the folder in the meantime.
            Ok(()) | Err(Errno::EXIST) => open(),
            Err(error) => {
                return Err(PackageError::system("create the folder", path)(
                    error.into(),
                ));
            }
        },
        opened => opened,
    };
    opened.map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP => {
            let data = statat(folder, segment, AtFlags::SYMLINK_NOFOLLOW);
            let kind = data.map(|data| FileType::from_raw_mode(data.st_mode));
            PackageError::NotAFolder {
                path: path.to_owned(),
                what: match kind {
                    Ok(FileType::Symlink) => "a symbolic link",
                    Ok(FileType::RegularFile) => "a file",
                    _ => "a special file",
                },
            }
        }
        error => PackageError::system("open the folder", path)(error.into()),
    })
}

impl Growing {
    /// Appends to the file's content.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PackageError> {
        self.budget.reads(bytes.len());
        self.put(bytes)
    }

    /// Decodes bytes if needed, and writes them.
    fn put(&mut self, bytes: &[u8]) -> Result<(), PackageError> {
        // The parts are small, so that their decoded form is also small.
        for part in bytes.chunks(DECODED_AT_ONCE) {
            let decoded = match &mut self.coding {
                Decoder::None => {
                    self.budget.writes(bytes.len(), &self.path)?;
                    return self
                        .file
                        .write_all(bytes)
                        .map_err(PackageError::system("write", &self.path));
                }
                Decoder::Gzip(decoder) => decoder.write_all(part).map(|()| decoder.get_mut()),
                Decoder::Deflate(decoder) => decoder.write_all(part).map(|()| decoder.get_mut()),
            };
            let decoded = decoded.map_err(PackageError::system("decode", &self.path))?;
            self.budget.writes(decoded.len(), &self.path)?;
            self.file
                .write_all(decoded)
                .map_err(PackageError::system("write", &self.path))?;
            decoded.clear();
        }
        Ok(())
    }

    /// Writes the remaining output of the decoder.
    fn end_of_coding(&mut self) -> Result<(), PackageError> {
        let rest = match std::mem::replace(&mut self.coding, Decoder::None) {
            Decoder::None => return Ok(()),
            Decoder::Gzip(decoder) => decoder.finish(),
            Decoder::Deflate(decoder) => decoder.finish(),
        };
        let rest = rest.map_err(PackageError::system("decode", &self.path))?;
        self.put(&rest)
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        if !self.renamed {
            // If the file cannot be removed, its name marks it as incomplete.
            let _ = unlinkat(&*self.folder, &self.temporary, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    /// Extracts one file with this coded content, and decodes it. Returns the file, if it was written.
    fn decoded(coding: ContentCoding, coded: &[u8]) -> (Result<(), PackageError>, Option<Vec<u8>>) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            overwrite: false,
            decode: true,
            total: 1 << 20,
            ratio: 100,
        };
        let mut target = Target::open(folder.path(), options).unwrap();
        let entry = Entry {
            name: "file".to_owned(),
            coding: Some(coding),
            ..Entry::default()
        };
        let mut file = target.begin(&entry).unwrap();
        let result = file.write(coded).and_then(|()| target.finish(file));
        (result, std::fs::read(folder.path().join("file")).ok())
    }

    #[test]
    fn a_coded_content_that_is_cut_off_is_an_error() {
        let content: Vec<u8> = (0..10_000_u32).flat_map(u32::to_be_bytes).collect();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&content).unwrap();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(&content).unwrap();
        for (coding, coded) in [
            (ContentCoding::Gzip, gzip.finish().unwrap()),
            (ContentCoding::Deflate, zlib.finish().unwrap()),
        ] {
            let (result, file) = decoded(coding, &coded);
            assert!(result.is_ok(), "{result:?}");
            assert_eq!(file.as_deref(), Some(&content[..]));
            for length in [0, 1, coded.len() / 2, coded.len() - 5, coded.len() - 1] {
                let (result, file) = decoded(coding, &coded[..length]);
                assert!(result.is_err() && file.is_none(), "{coding:?} {length}");
            }
        }
    }
}

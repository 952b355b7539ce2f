//! A site as a folder: written for any server, and read by the embedded origin.
//!
//! A representation that is compressed in advance is stored beside its file, with a suffix for its coding:
//! `index.html.deflate` (or `.zz`), `index.html.gz`.

use std::ffi::OsString;
use std::fs::{self, File as DiskFile};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fathometer_model::{Body, ContentCoding, File, FileId, Page, Site};
use fathometer_sys::page_cache;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::scratch;

/// The codings and the suffixes of their files. Files are written with the first suffix of a coding.
pub const CODINGS: [(ContentCoding, &str); 3] = [
    (ContentCoding::Deflate, "deflate"),
    (ContentCoding::Deflate, "zz"),
    (ContentCoding::Gzip, "gz"),
];

/// The media types by file name extension. All other files are `application/octet-stream`.
const TYPES: [(&str, &str); 20] = [
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("mjs", "text/javascript"),
    ("json", "application/json"),
    ("txt", "text/plain"),
    ("xml", "application/xml"),
    ("svg", "image/svg+xml"),
    ("gif", "image/gif"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("ico", "image/x-icon"),
    ("woff2", "font/woff2"),
    ("pdf", "application/pdf"),
    ("mp4", "video/mp4"),
    ("wasm", "application/wasm"),
];

/// The reason why a folder cannot be written or served.
#[derive(Debug, thiserror::Error)]
pub enum SiteFolderError {
    /// A system call failed.
    #[error("failed to {doing} {path}: {error}{advice}", path = path.display(), advice = advice(path, error))]
    System {
        /// `read`, `write`, ….
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The folder contains no file to serve.
    #[error("cannot serve {path}: it contains no regular files", path = .0.display())]
    Empty(PathBuf),
    /// The name of a file is not UTF-8, so this origin cannot serve the file.
    #[error("failed to serve {path}: its name is not UTF-8", path = .0.display())]
    Name(PathBuf),
}

/// Returns advice for a full disk. Most sites are written to temporary folders.
fn advice(path: &Path, error: &io::Error) -> &'static str {
    match path.starts_with(std::env::temp_dir()) {
        true => scratch::no_room(error),
        false => "",
    }
}

fn system(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SiteFolderError + use<> {
    let path = path.to_owned();
    move |error| SiteFolderError::System { doing, path, error }
}

/// Writes every file of the site below `folder` with its modification time, and its coded representations
/// beside it. Returns the number of files written.
pub fn write(site: &Site, folder: &Path) -> Result<usize, SiteFolderError> {
    let mut written = 0;
    for file in &site.files {
        let path = folder.join(name_of(&file.path));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(system("create the folder", parent))?;
        }
        let modified = UNIX_EPOCH + Duration::from_secs(file.last_modified);
        write_one(&path, &file.body, modified)?;
        written += 1;
        for (coding, body) in &file.encoded {
            let ending = CODINGS
                .iter()
                .find(|(c, _)| c == coding)
                .map_or("coded", |(_, ending)| ending);
            let mut name = path.clone().into_os_string();
            name.push(".");
            name.push(ending);
            write_one(Path::new(&name), body, modified)?;
            written += 1;
        }
    }
    Ok(written)
}

/// Like [`write()`], for servers that may run as another user: every user may read the files, regardless of the umask.
pub fn write_for_servers(site: &Site, folder: &Path) -> Result<usize, SiteFolderError> {
    let written = write(site, folder)?;
    scratch::open_to_all(folder).map_err(system("set the permissions below", folder))?;
    Ok(written)
}

/// Hard-links a file of one folder into another on the same file system.
pub fn link(target: &str, from: &Path, to: &Path) -> Result<(), SiteFolderError> {
    let path = to.join(name_of(target));
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(system("create the folder", parent))?;
    }
    fs::hard_link(from.join(name_of(target)), &path).map_err(system("link", &path))
}

/// Returns the path of a target's file, relative to the folder of the site.
pub fn name_of(target: &str) -> PathBuf {
    let name = percent_decode_str(target.trim_start_matches('/'));
    PathBuf::from(OsString::from_vec(name.collect()))
}

/// Evicts the files below `folder` from the page cache. The next reader then reads them from the disk, and
/// their memory is charged to that reader. The files must not be in use.
pub fn forget(folder: &Path) -> Result<(), SiteFolderError> {
    for path in files_below(folder)? {
        forget_file(&path)?;
    }
    Ok(())
}

/// Evicts one file from the page cache.
pub fn forget_file(path: &Path) -> Result<(), SiteFolderError> {
    let file = DiskFile::open(path).map_err(system("open", path))?;
    page_cache::evict(&file).map_err(|error| system("forget", path)(io::Error::other(error)))
}

/// Reads a file into the page cache.
pub fn remember_file(path: &Path) -> Result<(), SiteFolderError> {
    let mut file = DiskFile::open(path).map_err(system("open", path))?;
    io::copy(&mut file, &mut io::sink()).map_err(system("read", path))?;
    Ok(())
}

/// Returns the number of a file's pages in the page cache.
pub fn pages_in_memory(path: &Path) -> Result<u64, SiteFolderError> {
    let file = DiskFile::open(path).map_err(system("open", path))?;
    page_cache::resident_pages(&file)
        .map_err(|error| system("examine", path)(io::Error::other(error)))
}

/// Returns all regular files below a folder.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>, SiteFolderError> {
    let mut paths = Vec::new();
    collect(folder, folder, &mut paths)?;
    Ok(paths)
}

fn write_one(path: &Path, body: &Body, modified: SystemTime) -> Result<(), SiteFolderError> {
    let mut file = DiskFile::create(path).map_err(system("write", path))?;
    for piece in body.pieces() {
        file.write_all(piece).map_err(system("write", path))?;
    }
    file.set_modified(modified)
        .map_err(system("set the time of", path))
}

/// Reads a folder as a site: all regular files below the folder, and symbolic links to files below it. The site has one
/// page, `index.html` of the root, or no page if that file does not exist.
pub fn read(folder: &Path) -> Result<Site, SiteFolderError> {
    let root = folder.canonicalize().map_err(system("open", folder))?;
    let mut paths = Vec::new();
    collect(&root, &root, &mut paths)?;
    paths.sort();
    let mut files: Vec<File> = Vec::new();
    let mut coded = Vec::new();
    for path in paths {
        let name = path
            .strip_prefix(&root)
            .ok()
            .and_then(Path::to_str)
            .ok_or_else(|| SiteFolderError::Name(path.clone()))?;
        let body = Body::from(fs::read(&path).map_err(system("read", &path))?);
        let target = format!("/{}", utf8_percent_encode(name, ESCAPED));
        if let Some((coding, plain)) = CODINGS.iter().find_map(|(coding, ending)| {
            Some((
                *coding,
                target.strip_suffix(ending)?.strip_suffix('.')?.to_owned(),
            ))
        }) {
            coded.push((plain, coding, body.clone()));
        }
        let modified = fs::metadata(&path)
            .and_then(|metadata| metadata.modified())
            .map_err(system("read the time of", &path))?;
        files.push(File {
            content_type: media_type(&path).into(),
            path: target,
            body,
            encoded: Vec::new(),
            last_modified: modified
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        });
    }
    if files.is_empty() {
        return Err(SiteFolderError::Empty(folder.to_owned()));
    }
    for (plain, coding, body) in coded {
        if let Some(file) = files.iter_mut().find(|file| file.path == plain)
            && file.encoded.iter().all(|(known, _)| *known != coding)
        {
            file.encoded.push((coding, body));
        }
    }
    let pages = files
        .iter()
        .position(|file| file.path == "/index.html")
        .map(|index| Page {
            base: FileId(index as u32),
            embedded: Vec::new(),
            named_by: Vec::new(),
        })
        .into_iter()
        .collect();
    Ok(Site {
        name: folder.display().to_string(),
        files,
        pages,
    })
}

fn collect(root: &Path, folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), SiteFolderError> {
    for entry in fs::read_dir(folder).map_err(system("read the folder", folder))? {
        let path = entry.map_err(system("read the folder", folder))?.path();
        let kind = fs::symlink_metadata(&path)
            .map_err(system("examine", &path))?
            .file_type();
        if kind.is_dir() {
            collect(root, &path, paths)?;
        } else if kind.is_file()
            || (kind.is_symlink()
                && path
                    .canonicalize()
                    .is_ok_and(|real| real.starts_with(root) && real.is_file()))
        {
            paths.push(path);
        }
    }
    Ok(())
}

/// Returns the media type for the extension of a file name.
pub fn media_type(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    TYPES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(ending))
        .map_or("application/octet-stream", |(_, kind)| kind)
}

/// The bytes that are escaped in the path of a URI: all except `pchar` and the slash (RFC 3986 section 3.3).
pub const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_that_is_written_reads_back_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let site = Site {
            name: "small".into(),
            files: vec![
                File {
                    path: "/index.html".into(),
                    content_type: "text/html".into(),
                    body: b"<p>plain".to_vec().into(),
                    encoded: vec![(ContentCoding::Deflate, b"coded".to_vec().into())],
                    last_modified: 867_801_600,
                },
                File {
                    path: "/pictures/a%20b,%C3%A9.gif".into(),
                    content_type: "image/gif".into(),
                    body: b"GIF89a".to_vec().into(),
                    encoded: vec![],
                    last_modified: 867_801_600,
                },
            ],
            pages: vec![],
        };
        assert_eq!(write(&site, folder.path()).unwrap(), 3);
        assert!(folder.path().join("pictures/a b,é.gif").exists());
        let again = read(folder.path()).unwrap();
        let page = again
            .files
            .iter()
            .find(|f| f.path == "/index.html")
            .unwrap();
        assert_eq!(&*page.body.bytes(), b"<p>plain");
        assert_eq!(page.encoded.len(), 1);
        assert_eq!(page.content_type, "text/html");
        assert_eq!(page.last_modified, 867_801_600);
        assert!(
            again
                .files
                .iter()
                .any(|f| f.path == "/pictures/a%20b,%C3%A9.gif")
        );
    }

    #[test]
    fn links_that_lead_out_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.txt"), "a").unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("out"))
            .unwrap();
        std::os::unix::fs::symlink(folder.path().join("a.txt"), folder.path().join("in.txt"))
            .unwrap();
        let names: Vec<String> = read(folder.path())
            .unwrap()
            .files
            .into_iter()
            .map(|f| f.path)
            .collect();
        assert_eq!(names, ["/a.txt", "/in.txt"]);
    }

    #[test]
    fn an_empty_folder_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(folder.path().to_str().unwrap()), "{error}");
    }
}

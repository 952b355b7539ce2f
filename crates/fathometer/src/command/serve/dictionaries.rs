//! Arguments of `fathometer serve` about dictionaries for compression (RFC 9842).

use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fathometer_http::origin::negotiation::{Announcement, DictionaryResource, LARGEST_DICTIONARY};
use fathometer_model::Site;

use crate::command::arguments::time;
use crate::command::{Failure, usage};

/// An argument of `--dictionary`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DictionaryArgument {
    announcement: Announcement,
    /// Files with earlier contents of the resource.
    previous: Vec<PathBuf>,
}

/// Parses `PATH[,match=PATTERN][,id=ID][,max-age=TIME][,previous=FILE]…`.
pub fn read(text: &str) -> Result<DictionaryArgument, String> {
    let mut words = text.split(',');
    let mut announcement = Announcement {
        path: words.next().unwrap_or_default().to_owned(),
        pattern: None,
        id: None,
        max_age: None,
    };
    let mut previous = Vec::new();
    for word in words {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| format!("{word:?} is not of the form NAME=VALUE"))?;
        match name.trim() {
            "match" => announcement.pattern = Some(value.trim().to_owned()),
            "id" => announcement.id = Some(value.trim().to_owned()),
            "max-age" => announcement.max_age = Some(time(value)?),
            "previous" => previous.push(PathBuf::from(value)),
            other => {
                return Err(format!(
                    "unknown setting {other:?}: use match, id, max-age or previous"
                ));
            }
        }
    }
    // Rejects wrong settings early; `load` repeats the checks with the contents.
    DictionaryResource::new(announcement.clone(), Vec::new()).map_err(|error| error.to_string())?;
    Ok(DictionaryArgument {
        announcement,
        previous,
    })
}

/// Fails in insecure contexts, in which browsers do not use dictionaries (RFC 9842 section 8).
pub fn check_addresses(is_tls: bool, addresses: &[SocketAddr]) -> Result<(), Failure> {
    match addresses.iter().find(|address| !address.ip().is_loopback()) {
        Some(address) if !is_tls => Err(usage(format!(
            "--dictionary needs a secure context, and http://{address} is not secure: add --tls, or listen on a \
             loopback address only"
        ))),
        _ => Ok(()),
    }
}

/// The source of a dictionary's content.
#[derive(Debug, Clone, Copy)]
pub enum Contents<'a> {
    /// A folder.
    Folder(&'a Path),
    /// A site in memory.
    Site(&'a Site),
}

/// Reads the dictionaries with their current contents.
pub fn load(
    arguments: &[DictionaryArgument],
    contents: Contents<'_>,
) -> Result<Vec<DictionaryResource>, Failure> {
    let mut all: Vec<DictionaryResource> = Vec::new();
    for (place, argument) in arguments.iter().enumerate() {
        let path = &argument.announcement.path;
        let is_same = |other: &DictionaryArgument| other.announcement.path == *path;
        if arguments[..place].iter().any(is_same) {
            return Err(format!("the dictionary {path} is given twice").into());
        }
        let present = match contents {
            Contents::Folder(folder) => content(&folder.join(path.trim_start_matches('/')))?,
            Contents::Site(site) => {
                let file = site.files.iter().find(|file| file.path == *path);
                let file = file.ok_or_else(|| format!("the site has no file {path}"))?;
                file.body.bytes().to_vec()
            }
        };
        let mut versions = vec![present];
        for file in &argument.previous {
            versions.push(content(file)?);
        }
        all.push(DictionaryResource::new(
            argument.announcement.clone(),
            versions,
        )?);
    }
    Ok(all)
}

/// Reads a file, but at most one byte more than a dictionary may have; a longer file is rejected later.
fn content(path: &Path) -> Result<Vec<u8>, Failure> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let most = LARGEST_DICTIONARY as u64 + 1;
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| {
        format!("failed to read the dictionary {}: {error}", path.display()).into()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dictionaries_are_read_with_what_they_leave_out() {
        let whole =
            read("/a.1.js,match=/a.*.js,id=one,max-age=1m,previous=a,previous=old/b").unwrap();
        assert_eq!(whole.announcement.path, "/a.1.js");
        assert_eq!(whole.announcement.pattern.as_deref(), Some("/a.*.js"));
        assert_eq!(whole.announcement.id.as_deref(), Some("one"));
        assert_eq!(whole.announcement.max_age, Some(Duration::from_secs(60)));
        assert_eq!(whole.previous, [Path::new("a"), Path::new("old/b")]);
        let short = read("/a.js").unwrap();
        assert_eq!(
            (short.announcement.pattern, short.previous.len()),
            (None, 0)
        );
        for bad in [
            "",
            "a.js",
            "/",
            "/a,match",
            "/a,match=https://b/*",
            "/a,id=\"",
            "/a,max-age=soon",
            "/a,ttl=1",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn dictionaries_need_tls_or_the_loopback() {
        let addresses = |text: &[&str]| -> Vec<SocketAddr> {
            text.iter().map(|text| text.parse().unwrap()).collect()
        };
        let loopback = addresses(&["127.0.0.1:80", "[::1]:80"]);
        assert!(check_addresses(false, &loopback).is_ok());
        let any = addresses(&["127.0.0.1:80", "0.0.0.0:80"]);
        assert!(check_addresses(false, &any).is_err());
        assert!(check_addresses(true, &any).is_ok());
    }

    #[test]
    fn contents_are_those_of_the_folder_and_of_earlier_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("a.js"), b"new").unwrap();
        std::fs::write(file("old.js"), b"old").unwrap();
        let load = |text: &str| {
            let arguments: Vec<_> = text.split(' ').map(|text| read(text).unwrap()).collect();
            load(&arguments, Contents::Folder(folder.path()))
        };
        let previous = format!("/a.js,previous={}", file("old.js").display());
        assert_eq!(load(&previous).unwrap().len(), 1);
        let failure = |text| load(text).unwrap_err().to_string();
        assert!(failure("/b.js").contains("b.js: No such file"));
        assert!(failure("/a.js /a.js").contains("given twice"));
        std::fs::write(file("long"), vec![1; LARGEST_DICTIONARY + 9]).unwrap();
        assert!(failure("/long").contains("larger than 2 MiB"));
    }
}

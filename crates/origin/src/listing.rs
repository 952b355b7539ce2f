//! Lists the files of a folder, as request targets.

use std::os::fd::OwnedFd;

use fathometer_http::origin::target;
use rustix::fs::{self, AtFlags, Dir, FileType};

use fathometer_files::site_folder::CODINGS;

/// Returns the targets of the regular files in `folder`, whose canonical path is `path`, sorted by name. Hidden files
/// and precompressed representations of other files are left out. `None` if the folder cannot be read, or has more than
/// `most` files.
pub(super) fn targets(folder: &OwnedFd, path: &[u8], most: usize) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        // A symbolic link may point outside the folder; its target is checked when the file is opened.
        let is_file = match entry.file_type() {
            FileType::RegularFile => true,
            FileType::Symlink | FileType::Unknown => fs::statat(folder, name, AtFlags::empty())
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile),
            _ => false,
        };
        if is_file {
            names.push(name.to_bytes().to_vec());
        }
        if names.len() > most {
            return None;
        }
    }
    names.sort_unstable();
    let is_coded = |name: &[u8]| {
        CODINGS.iter().any(|(_, ending)| {
            name.strip_suffix(ending.as_bytes())
                .and_then(|name| name.strip_suffix(b"."))
                .is_some_and(|plain| names.binary_search_by(|name| (**name).cmp(plain)).is_ok())
        })
    };
    let visible = names.iter().filter(|name| !is_coded(name));
    Some(
        visible
            .map(|name| target::encoded(&[path, name].concat()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, OFlags};

    use super::*;

    #[test]
    fn a_folder_lists_its_own_visible_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.css", "b.css.gz", "a b", ".hidden", "c.gz"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        let opened = || fs::open(folder.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let listed = targets(&opened(), b"/a&<d>/", 4).unwrap();
        assert_eq!(
            listed,
            ["/a&%3Cd%3E/a%20b", "/a&%3Cd%3E/b.css", "/a&%3Cd%3E/c.gz"]
        );
        assert_eq!(targets(&opened(), b"/", 3), None);
    }
}

//! ZIP archives (APPNOTE.TXT 6.3). The central directory is at the end, so no file is usable before the whole archive
//! has arrived.
//!
//! Files are written uncompressed (method 0); deflated files can also be read. Checksums are verified.

use std::io::{self, Cursor, Read as _, Write as _};

use ::zip::result::ZipError as Broken;
use ::zip::write::SimpleFileOptions;
use ::zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};
use fathometer_model::calendar;

use super::{File, Member, is_name};

/// The largest content of all files after decompression, in bytes.
pub const LARGEST: u64 = 1 << 30;

/// The reason why an archive cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ZipError {
    /// The input is not a ZIP archive, is damaged or truncated, or needs an unsupported feature (encryption, another
    /// compression method).
    #[error("not a zip archive, or damaged: {0}")]
    Broken(#[from] Broken),
    /// A file's content is damaged.
    #[error("the content of {name:?} cannot be read: {error}")]
    Content {
        /// The name of the file.
        name: String,
        /// The cause.
        error: io::Error,
    },
    /// A file has an invalid name ([`is_name`]).
    #[error("{name:?} is not a valid file name")]
    Name {
        /// The invalid name.
        name: String,
    },
    /// The files together are larger than [`LARGEST`].
    #[error("the archive decompresses to more than {LARGEST} B")]
    TooLarge,
}

/// Writes an archive of the members. Names must be unique.
pub fn write<'m>(members: impl IntoIterator<Item = Member<'m>>) -> Result<Vec<u8>, ZipError> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for member in members {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(local_time(member.last_modified))
            .large_file(member.content.len().0 > u64::from(u32::MAX))
            .unix_permissions(0o644);
        writer.start_file(member.name, options)?;
        for piece in member.content.pieces() {
            writer.write_all(piece).map_err(Broken::from)?;
        }
    }
    Ok(writer.finish()?.into_inner())
}

/// Reads the files of a complete archive, in the order of its directory. Folders and links are skipped.
pub fn read_whole(archive: &[u8]) -> Result<Vec<File>, ZipError> {
    let mut reader = ZipArchive::new(Cursor::new(archive))?;
    let mut files = Vec::new();
    let mut left = LARGEST;
    for index in 0..reader.len() {
        let mut entry = reader.by_index(index)?;
        if !entry.is_file() {
            continue;
        }
        let name = entry.name()?.into_owned();
        if !is_name(&name) {
            return Err(ZipError::Name { name });
        }
        // The size in the directory is untrusted.
        let mut content = Vec::new();
        let result = entry.by_ref().take(left + 1).read_to_end(&mut content);
        if let Err(error) = result {
            return Err(ZipError::Content { name, error });
        }
        left = left
            .checked_sub(content.len() as u64)
            .ok_or(ZipError::TooLarge)?;
        files.push(File { name, content });
    }
    Ok(files)
}

/// Converts a time in seconds since the Unix epoch to the form that an archive stores: from 1980 on, without a time
/// zone.
fn local_time(second: u64) -> DateTime {
    let (days, rest) = (second / 86_400, second % 86_400);
    let (year, month, day) = calendar::date(days);
    DateTime::from_date_and_time(
        year.min(u64::from(u16::MAX)) as u16,
        month as u8,
        day as u8,
        (rest / 3_600) as u8,
        (rest / 60 % 60) as u8,
        (rest % 60) as u8,
    )
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use fathometer_model::Body;

    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let bodies: Vec<Body> = files.iter().map(|(_, bytes)| (*bytes).into()).collect();
        let members = files.iter().zip(&bodies);
        write(members.map(|((name, _), content)| Member {
            name,
            last_modified: 867_801_600,
            content,
        }))
        .unwrap()
    }

    #[test]
    fn what_is_written_reads_back() {
        let files: [(&str, &[u8]); 3] = [
            ("index.html", b"<p>"),
            ("a/\u{fc} b", &[7; 70_000]),
            ("0", b""),
        ];
        let read = read_whole(&archive(&files)).unwrap();
        let read: Vec<_> = read.iter().map(|f| (&f.name[..], &f.content[..])).collect();
        assert_eq!(read, files);
    }

    #[test]
    fn damaged_entries_and_paths_outside_the_folder_are_refused() {
        let whole = archive(&[("index.html", b"content")]);
        for length in 0..whole.len() {
            assert!(read_whole(&whole[..length]).is_err(), "{length}");
        }
        let mut damaged = whole.clone();
        let content = whole.windows(7).position(|w| w == b"content").unwrap();
        damaged[content] ^= 1;
        let error = read_whole(&damaged).unwrap_err();
        assert!(
            matches!(&error, ZipError::Content { name, .. } if name == "index.html"),
            "{error}"
        );
        let climbs = archive(&[("../a", b"")]);
        assert!(matches!(read_whole(&climbs), Err(ZipError::Name { .. })));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (second, expected) in [
            (867_801_600, (1997, 7, 2, 0, 0, 0)),
            (951_827_696, (2000, 2, 29, 12, 34, 56)),
            (951_868_800, (2000, 3, 1, 0, 0, 0)),
            (1_735_689_598, (2024, 12, 31, 23, 59, 58)),
            (4_107_542_400, (2100, 3, 1, 0, 0, 0)),
            // The time is before the first year that the format can store.
            (1, (1980, 1, 1, 0, 0, 0)),
        ] {
            let t = local_time(second);
            let told = (
                t.year(),
                t.month(),
                t.day(),
                t.hour(),
                t.minute(),
                t.second(),
            );
            assert_eq!(told, expected);
        }
    }
}

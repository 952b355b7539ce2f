//! Writes the parts of an archive.

use ::tar::{EntryType, Header};

use super::{BLOCK, to_block};
use crate::archive::Member;

/// The end of an archive.
pub const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// The largest size that fits into the octal size field of a header.
const LARGEST_IN_HEAD: u64 = 0o777_7777_7777;

/// Appends an archive of the members to `archive`.
pub fn write<'m>(members: impl IntoIterator<Item = Member<'m>>, archive: &mut Vec<u8>) {
    for member in members {
        let size = member.content.len().0;
        head(member.name, size, member.last_modified, archive);
        for piece in member.content.pieces() {
            archive.extend_from_slice(piece);
        }
        archive.extend_from_slice(padding(size));
    }
    archive.extend_from_slice(&END);
}

/// Appends the header of a file. `name` must satisfy [`is_name`](crate::archive::is_name).
pub fn head(name: &str, size: u64, last_modified: u64, archive: &mut Vec<u8>) {
    let mut header = Header::new_ustar();
    let mut records = Vec::new();
    if header.set_path(name).is_err() {
        record("path", name.as_bytes(), &mut records);
        let short = &name.as_bytes()[..name.len().min(100)];
        header.as_old_mut().name[..short.len()].copy_from_slice(short);
        if let Some(ustar) = header.as_ustar_mut() {
            ustar.prefix = [0; 155];
        }
    }
    if size > LARGEST_IN_HEAD {
        record("size", size.to_string().as_bytes(), &mut records);
    }
    if !records.is_empty() {
        let mut extended = Header::new_ustar();
        extended.as_old_mut().name[..10].copy_from_slice(b"PaxHeaders");
        finish(
            &mut extended,
            EntryType::XHeader,
            records.len() as u64,
            last_modified,
        );
        archive.extend_from_slice(extended.as_bytes());
        archive.extend_from_slice(&records);
        archive.extend_from_slice(padding(records.len() as u64));
    }
    finish(&mut header, EntryType::Regular, size, last_modified);
    archive.extend_from_slice(header.as_bytes());
}

/// Returns the padding after a content of `size` bytes.
pub fn padding(size: u64) -> &'static [u8] {
    &END[..to_block(size) as usize]
}

/// Computes the length in bytes of an archive with files of these names and sizes.
pub fn length<'m>(files: impl IntoIterator<Item = (&'m str, u64)>) -> u64 {
    let mut scratch = Vec::new();
    let files = files.into_iter().map(|(name, size)| {
        scratch.clear();
        head(name, size, 0, &mut scratch);
        scratch.len() as u64 + size + to_block(size)
    });
    files.sum::<u64>() + END.len() as u64
}

fn finish(header: &mut Header, kind: EntryType, size: u64, last_modified: u64) {
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    header.set_mtime(last_modified);
    header.set_cksum();
}

/// Appends `length key=value` and a line feed. The length includes the whole record and the length field itself.
fn record(key: &str, value: &[u8], records: &mut Vec<u8>) {
    let others = key.len() + value.len() + 3;
    let mut length = others + 1;
    while length != others + length.to_string().len() {
        length = others + length.to_string().len();
    }
    records.extend_from_slice(format!("{length} {key}=").as_bytes());
    records.extend_from_slice(value);
    records.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_themselves() {
        for value in (0..120).chain(980..1000).chain(9980..10_010) {
            let mut records = Vec::new();
            record("path", &vec![b'a'; value], &mut records);
            let text = String::from_utf8(records).unwrap();
            assert!(text.starts_with(&format!("{} path=", text.len())), "{text}");
        }
    }

    #[test]
    fn lengths_are_known_beforehand() {
        let long = "folder/".repeat(40) + "name";
        let contents = [vec![], vec![1; 512], vec![2; 513]].map(fathometer_model::Body::from);
        let names = ["a", "b/c", &long];
        let mut archive = Vec::new();
        write(
            names.iter().zip(&contents).map(|(name, content)| Member {
                name,
                last_modified: 1,
                content,
            }),
            &mut archive,
        );
        let files = names.iter().zip(&contents);
        let files = files.map(|(name, content)| (*name, content.len().0));
        assert_eq!(length(files), archive.len() as u64);
        assert_eq!(length([("big", 1 << 40)]), 512 * 5 + (1 << 40));
    }
}

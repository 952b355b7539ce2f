use fathometer_model::Body;

use super::*;
use crate::archive::{Event, Member};

/// The result of reading an archive in pieces: names with contents, and the end or the error.
type Outcome = (Vec<(String, Vec<u8>)>, Result<(), TarError>);

fn read(pieces: &[&[u8]]) -> Outcome {
    let mut reader = Reader::new();
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut open = None;
    let mut finished = false;
    for piece in pieces {
        let mut input = *piece;
        loop {
            match reader.poll(&mut input) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    assert!(!finished, "{event:?} after the end");
                    match event {
                        Event::Start { entry } => {
                            assert_eq!((open, entry), (None, files.len()));
                            open = Some((entry, 0));
                            files.push((reader.entry().name.clone(), Vec::new()));
                        }
                        Event::Data { entry, content } => {
                            assert_eq!(open.map(|(open, _)| open), Some(entry));
                            assert!(!content.is_empty());
                            open = open.map(|(entry, size)| (entry, size + content.len() as u64));
                            files[entry].1.extend_from_slice(content);
                        }
                        Event::End { entry } => {
                            assert_eq!(open, Some((entry, reader.entry().size)));
                            open = None;
                        }
                        Event::Finished => finished = true,
                    }
                }
                Err(error) => {
                    assert_eq!(reader.poll(&mut input), Err(error));
                    assert_eq!(reader.end_of_input(), Err(error));
                    return (files, Err(error));
                }
            }
        }
        assert!(input.is_empty());
    }
    let end = reader.end_of_input();
    (files, end)
}

fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let bodies: Vec<Body> = files.iter().map(|(_, bytes)| (*bytes).into()).collect();
    let members = files.iter().zip(&bodies);
    let mut archive = Vec::new();
    write(
        members.map(|((name, _), content)| Member {
            name,
            last_modified: 867_801_600,
            content,
        }),
        &mut archive,
    );
    archive
}

/// Returns the block with a corrected checksum.
fn sealed(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn block(name: &str, kind: u8, size: &str) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..124 + size.len()].copy_from_slice(size.as_bytes());
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    sealed(block)
}

fn error_of(archive: &[u8]) -> TarError {
    read(&[archive]).1.unwrap_err()
}

#[test]
fn what_is_written_reads_back_however_it_is_cut() {
    let long = format!("{}{}", "segment/".repeat(30), "x".repeat(180));
    let files: [(&str, &[u8]); 6] = [
        ("index.html", b"<p>"),
        ("empty", b""),
        ("pictures/a%20b.gif", &[7; 1024]),
        ("\u{fc}/line\nfeed", &[8; 511]),
        (&long, &[9; 513]),
        ("last", b"x"),
    ];
    let whole = archive(&files);
    let (expected, end) = read(&[&whole]);
    assert_eq!(end, Ok(()));
    let told = expected
        .iter()
        .map(|(name, content)| (&name[..], &content[..]));
    assert_eq!(told.collect::<Vec<_>>(), files);
    for cut in 0..whole.len() {
        let (left, right) = whole.split_at(cut);
        assert_eq!(read(&[left, right]).0, expected, "{cut}");
    }
    let single: Vec<&[u8]> = whole.chunks(1).collect();
    assert_eq!(read(&single), (expected, Ok(())));
}

#[test]
fn a_file_is_whole_with_its_last_byte() {
    let whole = archive(&[("a", b"four"), ("b", b"")]);
    let mut reader = Reader::new();
    let mut input = &whole[..512];
    let start = reader.poll(&mut input).unwrap();
    assert_eq!(start, Some(Event::Start { entry: 0 }));
    assert_eq!(reader.entry().size, 4);
    assert_eq!(reader.entry().last_modified, 867_801_600);
    assert_eq!(reader.poll(&mut input), Ok(None));
    let mut input = &whole[512..516];
    assert!(matches!(
        reader.poll(&mut input),
        Ok(Some(Event::Data { .. }))
    ));
    assert_eq!(reader.poll(&mut input), Ok(Some(Event::End { entry: 0 })));
    let mut input = &whole[516..1536];
    assert_eq!(reader.poll(&mut input), Ok(Some(Event::Start { entry: 1 })));
    assert_eq!(reader.poll(&mut input), Ok(Some(Event::End { entry: 1 })));
}

#[test]
fn an_archive_that_is_cut_short_keeps_what_was_whole() {
    let whole = archive(&[("a", &[1; 600]), ("b", b"b")]);
    let end = whole.len() - 512;
    for length in 0..end {
        let (files, result) = read(&[&whole[..length]]);
        let bytes = length as u64;
        assert_eq!(result, Err(TarError::Truncated { bytes }), "{length}");
        assert_eq!(
            files.len(),
            usize::from(length >= 512) + usize::from(length >= 2048)
        );
    }
    // One block of zeros is sufficient, and any bytes may follow the second block.
    assert_eq!(read(&[&whole[..end]]).1, Ok(()));
    let padded = [&whole[..], &[0; 4096], b"rubbish"].concat();
    assert_eq!(read(&[&padded]).1, Ok(()));
}

#[test]
fn folders_and_links_are_passed_over() {
    let mut whole = Vec::new();
    whole.extend(block("folder/", b'5', "1000"));
    whole.extend(block("old/", 0, "0"));
    whole.extend(block("link", b'2', "0"));
    whole.extend(block("same", b'1', "4"));
    whole.extend(block("label", b'V', "1"));
    whole.extend([7; BLOCK]);
    whole.extend(block("./a", b'0', "0"));
    whole.extend(END);
    let mut reader = Reader::new();
    let mut input = &whole[..];
    assert_eq!(reader.poll(&mut input), Ok(Some(Event::Start { entry: 0 })));
    assert_eq!(
        (reader.entry().name.as_str(), reader.passed_over()),
        ("a", 5)
    );
}

#[test]
fn gnu_names_and_numbers_are_read() {
    let long = "n".repeat(300);
    let mut whole = Vec::new();
    whole.extend(block("././@LongLink", b'L', "455"));
    let mut name = long.clone().into_bytes();
    name.resize(512, 0);
    whole.extend(name);
    let mut head = block("short", b'0', "");
    head[124] = 0x80;
    head[135] = 3;
    whole.extend(sealed(head));
    whole.extend(b"abc");
    whole.resize(whole.len() + 509, 0);
    whole.extend(END);
    assert_eq!(read(&[&whole]), (vec![(long, b"abc".to_vec())], Ok(())));
}

#[test]
fn a_file_that_is_not_an_archive_is_refused_with_the_reason() {
    let offset = 0;
    let checksum = TarError::Checksum { offset };
    assert_eq!(error_of(&[b'x'; 512]), checksum);
    assert_eq!(error_of(b"<!DOCTYPE html>".repeat(40).as_slice()), checksum);
    for name in ["../a", "/etc/passwd", "a/../../b", "a//b", "a\\b", ""] {
        assert_eq!(
            error_of(&block(name, b'0', "0")),
            TarError::Name { offset },
            "{name}"
        );
    }
    assert_eq!(
        error_of(&block("a", b'0', "12x")),
        TarError::Number { offset }
    );
    let mut beyond = block("a", b'0', "");
    beyond[124] = 0x80;
    beyond[128..136].fill(0xff);
    assert_eq!(error_of(&sealed(beyond)), TarError::Number { offset });
    for kind in [b'S', b'M'] {
        let unsupported = TarError::Unsupported { offset };
        assert_eq!(error_of(&block("a", kind, "0")), unsupported);
    }
    let extension = TarError::Extension { offset };
    assert_eq!(error_of(&block("x", b'x', "7777777")), extension);
    for records in [
        "0 a=b\n",
        "99 path=a\n",
        "8 path=a\n",
        "x",
        "99999999999999999999 a=b\n",
        "7 size=\n",
    ] {
        let mut whole = block("x", b'x', &format!("{:o}", records.len())).to_vec();
        whole.extend(records.as_bytes());
        whole.resize(1024, 0);
        assert_eq!(error_of(&whole), extension, "{records}");
    }
}

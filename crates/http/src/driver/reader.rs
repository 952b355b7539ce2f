//! Incremental readers of bundles: packages and archives with one interface.

use fathometer_model::ContentCoding;

use super::bundle::Bundle;
use crate::origin::date::format_date;
use fathometer_package as package;
use fathometer_package::archive::{self, tar, zip};

/// The largest archive that is buffered in memory until it is complete.
const LARGEST_WHOLE: usize = 1 << 30;

/// A file of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Member {
    /// The target of the file without the leading slash.
    pub(super) name: String,
    pub(super) media_type: Option<String>,
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
    pub(super) coding: Option<ContentCoding>,
    /// Whether the content is omitted, because the client has the file.
    pub(super) kept: bool,
}

/// An event of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece<'i> {
    Start(Member),
    /// Bytes of the file that was started last.
    Data(&'i [u8]),
    /// The file is complete.
    End,
}

#[derive(Debug)]
pub(super) enum Reader {
    Package(Box<package::Decoder>),
    Tar(Box<tar::Reader>),
    /// An archive that is unpacked when it is complete.
    Whole(Bundle, Vec<u8>),
}

impl Reader {
    pub(super) fn new(bundle: Bundle) -> Reader {
        match bundle {
            Bundle::Package(_) | Bundle::PackageDelta => {
                let limits = package::Limits::default();
                Reader::Package(Box::new(package::Decoder::new(limits)))
            }
            Bundle::Tar => Reader::Tar(Box::default()),
            Bundle::TarWhole | Bundle::Zip => Reader::Whole(bundle, Vec::new()),
        }
    }

    /// Reads the next event; `None` when the input is used up.
    pub(super) fn poll<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Piece<'i>>, String> {
        match self {
            Reader::Package(decoder) => loop {
                use package::Event;
                let event = decoder.poll(input).map_err(|error| error.to_string())?;
                return Ok(Some(match event {
                    None => return Ok(None),
                    Some(Event::Header | Event::Finished) => continue,
                    Some(Event::Start { .. }) => Piece::Start(Member::of_entry(decoder.entry())),
                    Some(Event::Data { content, .. }) => Piece::Data(content),
                    Some(Event::End { .. }) => Piece::End,
                }));
            },
            Reader::Tar(reader) => loop {
                use archive::Event;
                let event = reader.poll(input).map_err(|error| error.to_string())?;
                return Ok(Some(match event {
                    None => return Ok(None),
                    Some(Event::Finished) => continue,
                    Some(Event::Start { .. }) => Piece::Start(Member {
                        name: reader.entry().name.clone(),
                        last_modified: Some(date(reader.entry().last_modified)),
                        ..Member::default()
                    }),
                    Some(Event::Data { content, .. }) => Piece::Data(content),
                    Some(Event::End { .. }) => Piece::End,
                }));
            },
            Reader::Whole(_, bytes) => {
                if bytes.len() + input.len() > LARGEST_WHOLE {
                    return Err(format!("the archive is larger than {LARGEST_WHOLE} B"));
                }
                bytes.extend_from_slice(input);
                *input = &[];
                Ok(None)
            }
        }
    }

    /// Handles the end of the input. Returns the archive if it must be unpacked now.
    pub(super) fn finish(self) -> Result<Option<WholeArchive>, String> {
        match self {
            Reader::Package(mut decoder) => {
                decoder.end_of_input().map_err(|error| error.to_string())?;
                Ok(None)
            }
            Reader::Tar(mut reader) => {
                reader.end_of_input().map_err(|error| error.to_string())?;
                Ok(None)
            }
            Reader::Whole(Bundle::Zip, bytes) => {
                let files = zip::read_whole(&bytes).map_err(|error| error.to_string())?;
                Ok(Some(WholeArchive::Zip(files)))
            }
            Reader::Whole(_, bytes) => Ok(Some(WholeArchive::Tar(bytes))),
        }
    }
}

/// A completely received archive.
#[derive(Debug)]
pub(super) enum WholeArchive {
    Tar(Vec<u8>),
    Zip(Vec<archive::File>),
}

impl Member {
    fn of_entry(entry: &package::Entry) -> Member {
        Member {
            name: entry.name.clone(),
            media_type: entry.media_type.clone(),
            etag: entry.etag.clone(),
            last_modified: entry.last_modified.map(date),
            coding: entry.coding,
            kept: entry.kept,
        }
    }
}

fn date(second: u64) -> String {
    String::from_utf8_lossy(&format_date(second)).into_owned()
}

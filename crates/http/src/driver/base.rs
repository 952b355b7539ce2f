//! The reader of the base file: decodes its content coding, finds references as the content arrives, and keeps
//! the HTML for the next visit.

use fathometer_model::{ContentCoding, Failure};
use flate2::{Decompress, FlushDecompress, Status};

use crate::html::{ReferenceKind, Resolution, Resolver, Scanner};

/// The largest HTML of one page, in bytes after content decoding, because a small compressed response can
/// expand to any size.
const LONGEST_HTML: usize = 64 << 20;

/// Reads one base file.
#[derive(Debug)]
pub(super) struct BaseFile {
    decoder: Decoder,
    scanner: Scanner,
    resolver: Resolver,
    html: Vec<u8>,
    /// Whether the file is HTML.
    scanned: bool,
}

#[derive(Debug)]
enum Decoder {
    Identity,
    Inflate { inflate: Decompress, ended: bool },
}

/// A reference to an embedded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Here(ReferenceKind, String),
    Elsewhere,
}

impl BaseFile {
    /// Creates a reader for the page at `target` on `host`, with this content coding. If the page is not HTML
    /// (`scanned` is false), no references are searched for.
    pub(super) fn new(
        host: &str,
        target: &str,
        coding: Option<ContentCoding>,
        scanned: bool,
    ) -> BaseFile {
        let inflate = match coding {
            None => None,
            Some(ContentCoding::Deflate) => Some(Decompress::new(true)),
            Some(ContentCoding::Gzip) => Some(Decompress::new_gzip(15)),
        };
        BaseFile {
            decoder: inflate.map_or(Decoder::Identity, |inflate| Decoder::Inflate {
                inflate,
                ended: false,
            }),
            scanner: Scanner::new(),
            resolver: Resolver::new(host, target),
            html: Vec::new(),
            scanned,
        }
    }

    /// Reads the next bytes of the content and adds the references found.
    pub(super) fn push(&mut self, content: &[u8], found: &mut Vec<Found>) -> Result<(), Failure> {
        if !self.scanned {
            return Ok(());
        }
        let before = self.html.len();
        match &mut self.decoder {
            Decoder::Identity => self.html.extend_from_slice(content),
            Decoder::Inflate { ended: true, .. } => {}
            Decoder::Inflate { inflate, ended } => {
                *ended = inflate_into(inflate, content, &mut self.html)?;
            }
        }
        if self.html.len() > LONGEST_HTML {
            return Err(Failure::TooLarge);
        }
        let mut input = &self.html[before..];
        while let Some(reference) = self.scanner.scan(&mut input) {
            if reference.kind == ReferenceKind::Base {
                self.resolver.rebase(reference.value);
                continue;
            }
            match self.resolver.resolve(reference.value) {
                Resolution::Target(target) => found.push(Found::Here(reference.kind, target)),
                Resolution::Elsewhere => found.push(Found::Elsewhere),
                Resolution::Nothing => {}
            }
        }
        Ok(())
    }

    /// Returns the HTML, if the content is complete in its content coding.
    pub(super) fn finish(self) -> Result<Vec<u8>, Failure> {
        match self.decoder {
            Decoder::Inflate { ended: false, .. } if self.scanned => Err(Failure::BadResponse),
            _ => Ok(self.html),
        }
    }
}

/// Appends the decoded `input`; returns whether the end of the coded data was reached.
fn inflate_into(
    inflate: &mut Decompress,
    input: &[u8],
    output: &mut Vec<u8>,
) -> Result<bool, Failure> {
    let mut rest = input;
    loop {
        output.reserve(16 * 1024);
        let (read, written) = (inflate.total_in(), output.len());
        let status = inflate
            .decompress_vec(rest, output, FlushDecompress::None)
            .map_err(|_| Failure::BadResponse)?;
        rest = &rest[(inflate.total_in() - read) as usize..];
        if status == Status::StreamEnd {
            return Ok(true);
        }
        let stuck = inflate.total_in() == read && output.len() == written;
        if stuck || (rest.is_empty() && output.len() < output.capacity()) {
            return Ok(false);
        }
        if output.len() > LONGEST_HTML {
            return Err(Failure::TooLarge);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use std::io::Write;

    fn page() -> Vec<u8> {
        let images = (0..500).map(|n| format!("<p>text {n}<img src=i{n}.gif>"));
        let mut html: String = images.collect();
        html.push_str("<img src=http://other/x.gif><img src=#>");
        html.into_bytes()
    }

    fn read(
        coding: Option<ContentCoding>,
        content: &[u8],
        piece: usize,
    ) -> (usize, Result<usize, Failure>) {
        let mut file = BaseFile::new("a", "/", coding, true);
        let mut found = Vec::new();
        for piece in content.chunks(piece) {
            if let Err(failure) = file.push(piece, &mut found) {
                return (found.len(), Err(failure));
            }
        }
        (found.len(), file.finish().map(|html| html.len()))
    }

    #[test]
    fn references_are_found_in_every_coding_and_chunk_size() {
        let html = page();
        let mut deflate = ZlibEncoder::new(Vec::new(), Compression::default());
        deflate.write_all(&html).unwrap();
        let deflated = deflate.finish().unwrap();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&html).unwrap();
        let gzipped = gzip.finish().unwrap();
        for piece in [1, 100, 100_000] {
            for (coding, content) in [
                (None, &html),
                (Some(ContentCoding::Deflate), &deflated),
                (Some(ContentCoding::Gzip), &gzipped),
            ] {
                let read = read(coding, content, piece);
                assert_eq!(read, (501, Ok(html.len())), "{coding:?} {piece}");
            }
        }
        let cut = &deflated[..deflated.len() / 2];
        let (found, outcome) = read(Some(ContentCoding::Deflate), cut, 100);
        assert!((100..501).contains(&found), "{found}");
        assert_eq!(outcome, Err(Failure::BadResponse));
        let (_, outcome) = read(Some(ContentCoding::Gzip), &html, 100);
        assert_eq!(outcome, Err(Failure::BadResponse));
    }

    #[test]
    fn a_decompression_bomb_is_stopped() {
        let mut deflate = ZlibEncoder::new(Vec::new(), Compression::best());
        for _ in 0..70 {
            deflate.write_all(&[b' '; 1 << 20]).unwrap();
        }
        let bomb = deflate.finish().unwrap();
        let (_, outcome) = read(Some(ContentCoding::Deflate), &bomb, 100_000);
        assert_eq!(outcome, Err(Failure::TooLarge));
    }
}
